//! The link service and its shaper: when a face gets one, and what it does to packets.

use super::marking::QueueState;
use super::shaping::{Admission, InterestShaper, MarkAction, RELEASE_MAX};
use super::{LinkService, Source};
use crate::counters::DropRecorder;
use crate::outbox::Outbox;
use nw_element_api::{DropCause, Kind, Packet, Pool, Timestamp, decode};
use nw_wire::NackReason;

/// The value of CongestionMark that a router gives marks that it passes on: the congestion is not
/// on the link to the neighbour, so the neighbour has nothing to shape. The value of a new mark
/// is 1, as in NFD, whose routers keep it when they pass it on.
const MARK_FROM_BEYOND: u64 = 2;

/// What the shaper of a face does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapingState {
    /// Interests that wait for the link.
    pub held: u64,
    /// Data that may be requested, bytes per second. 0 while the rate is being learned.
    pub bytes_per_s: u64,
}

impl LinkService {
    /// Returns what the shaper does now. `None` while the link is not short.
    pub fn shaping_state(&self) -> Option<ShapingState> {
        let shaper = self.shaper.as_ref()?;
        Some(ShapingState {
            held: shaper.len() as u64,
            bytes_per_s: shaper.bytes_per_s().map_or(0, |rate| rate as u64),
        })
    }

    /// Returns whether Interests of this face are shaped now.
    #[inline]
    pub const fn is_shaping(&self) -> bool {
        self.shaper.is_some()
    }

    /// Returns the number of Interests that wait for the link.
    fn waiting_interests(&self) -> usize {
        self.shaper.as_ref().map_or(0, |shaper| shaper.len())
    }

    /// Sends or queues an Interest. Returns it as a Nack(Congestion) from this face's peer if it
    /// would wait too long; the value of its congestion mark is the pause in milliseconds.
    #[cold]
    pub(super) fn send_shaped(
        &mut self,
        now: Timestamp,
        packet: Packet,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        drops: &mut DropRecorder<'_>,
    ) -> Option<Packet> {
        let Some(shaper) = &mut self.shaper else { return None };
        let (bytes, meta) = pool.view_mut(&packet);
        match shaper.admit(now, bytes, meta) {
            Admission::Send => {
                let header = self.header(Kind::Interest, &pool.meta(&packet).link);
                self.send_with(now, packet, header, queue, pool, outbox, drops);
                None
            }
            Admission::Queued => {
                pool.release(packet);
                None
            }
            Admission::Refused(pause) => {
                let face = meta.egress;
                meta.kind = Kind::Nack;
                meta.ingress = face;
                meta.link.nack = Some(NackReason::Congestion);
                meta.link.congestion_mark = (pause.as_millis() as u64).max(1);
                meta.arrival = now;
                drops.face.count_out_dropped(Kind::Interest);
                drops.face.shaping.refused += 1;
                Some(packet)
            }
        }
    }

    /// Sends the Interests whose turn it is. Call it at [`deadline`](Self::deadline).
    pub fn release_interests(
        &mut self,
        now: Timestamp,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        drops: &mut DropRecorder<'_>,
    ) {
        for _ in 0..RELEASE_MAX {
            let Some(shaper) = &mut self.shaper else { return };
            let before = shaper.expired();
            let released = shaper.release(now);
            let expired = shaper.expired() - before;
            if expired > 0 {
                drops.record(DropCause::InterestExpired, expired);
            }
            let Some(interest) = released else { break };
            let Some(packet) = pool.copy_of(&interest.bytes) else {
                drops.record(DropCause::NoBuffer, 1);
                continue;
            };
            pool.meta_mut(&packet).link = interest.link;
            if decode::decode(pool, &packet).is_err() {
                // It was decoded before it was queued.
                drops.record(DropCause::NoBuffer, 1);
                pool.release(packet);
                continue;
            }
            let header = self.header(Kind::Interest, &interest.link);
            self.send_with(now, packet, header, queue, pool, outbox, drops);
        }
        if self.shaper.as_ref().is_some_and(|shaper| shaper.is_over(now)) {
            self.shaper = None;
        }
    }

    /// Drops the Interests that wait, as the link is down.
    pub fn drop_waiting_interests(&mut self, drops: &mut DropRecorder<'_>) {
        let waiting = self.waiting_interests() as u64;
        if waiting > 0 {
            drops.record(DropCause::FaceDown, waiting);
        }
        self.shaper = None;
    }

    /// Handles Data that carries a mark, or arrives while Interests are shaped.
    #[cold]
    pub(super) fn on_feedback(
        &mut self,
        now: Timestamp,
        packet: &Packet,
        source: Source,
        pool: &mut Pool,
        drops: &mut DropRecorder<'_>,
    ) {
        let (bytes, meta) = pool.view_mut(packet);
        if meta.kind != Kind::Data {
            return;
        }
        // The mark of a full receive buffer is this end's own.
        let marked = meta.link.congestion_mark == 1 && !source.congested;
        if marked && self.shaper.is_none() && self.settings.interest_shaping && !source.local {
            let seed = self.sequence ^ now.as_nanos().rotate_left(17) ^ source.face.number();
            self.shaper = Some(Box::new(InterestShaper::new(now, seed)));
        }
        if let Some(shaper) = &mut self.shaper {
            let name = meta.name.in_bytes(bytes);
            match shaper.on_data(now, name, bytes.len(), marked) {
                MarkAction::Keep => {}
                MarkAction::Set => {
                    meta.link.congestion_mark = MARK_FROM_BEYOND;
                    drops.face.shaping.marked += 1;
                }
                MarkAction::Clear => meta.link.congestion_mark = 0,
            }
        }
        if meta.link.congestion_mark == 1 && self.settings.interest_shaping && !source.local {
            meta.link.congestion_mark = MARK_FROM_BEYOND;
        }
    }
}
