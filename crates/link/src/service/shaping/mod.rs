//! Shapes the Interests of one face to what the link can return as Data.
//!
//! ```text
//!  congestion mark of the peer ─▶ shaper is created and learns the rate of the link
//!  Interest ─▶ credit left? ─▶ sent                          Data ─▶ rate, bytes per flow, marks
//!              └─▶ queue per downstream face and flow ─▶ sent at the rate
//!              └─▶ would wait too long ─▶ refused: Nack(Congestion) with a pause
//! ```
//!
//! Each byte of Data that crosses a link was requested by an Interest that crossed it in the other
//! direction before. So the router that sends the Interests decides how long the queue of Data at
//! the far end gets, whatever the consumers do (HoBHIS, HIS: see decision 0078).
//!
//! A face has no shaper until its link is short, and loses it some seconds after: the path of a
//! packet then costs one branch. Invariant: every Interest that is admitted is sent, refused, or
//! dropped and counted once its lifetime is over.

mod flow_queues;
mod flow_table;
mod rate;
mod turns;

use core::time::Duration;
use flow_queues::FlowQueues;
use flow_table::FlowTable;
use nw_element_api::{LinkFields, Meta, Timestamp};
use rate::RateControl;

/// Interests that may wait at one face.
pub const QUEUE_MAX: usize = 8192;
/// Bytes of Interests that may wait at one face.
const QUEUE_BYTES_MAX: usize = 2 << 20;
/// Waiting time in the queue above which the flow's Data is marked, if it lasts.
const SOJOURN_TARGET: Duration = Duration::from_millis(20);
/// Time without a mark and without a waiting Interest after which a face needs no shaper.
const IDLE_TIME: Duration = Duration::from_secs(2);
/// Interests sent in one call: the rest follow in the next iteration of the loop.
pub(super) const RELEASE_MAX: usize = 64;
/// Shortest time between two timers: at high rates several Interests are sent together.
const RELEASE_INTERVAL: Duration = Duration::from_micros(250);

/// What happens to an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is sent at once.
    Send,
    /// It waits; the caller releases the packet.
    Queued,
    /// It would wait too long. The pause after which it would be sent in time.
    Refused(Duration),
}

/// What happens to the congestion mark of a Data that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkAction {
    /// The mark that the Data has, if any, is passed on.
    Keep,
    /// It gets a mark: its flow asks for more than its share.
    Set,
    /// It loses its mark: the link is full, but not of this flow, whose Interests hardly wait here.
    Clear,
}

/// An Interest that waits.
#[derive(Debug)]
pub(super) struct WaitingInterest {
    /// Hash of the whole name.
    name_hash: u64,
    /// Hash of the name without its last component.
    flow: u64,
    /// The network packet.
    pub(super) bytes: Box<[u8]>,
    /// Link fields for sending.
    pub(super) link: LinkFields,
    queued_at: Timestamp,
    expires_at: Timestamp,
}

/// The shaper of one face.
#[derive(Debug)]
pub(super) struct InterestShaper {
    queues: FlowQueues,
    flows: FlowTable,
    rate: RateControl,
    active_at: Timestamp,
    /// Interests whose lifetime ended while they waited.
    expired: u64,
}

impl InterestShaper {
    /// Creates a shaper for a link that turned out to be short. `seed` keys the hashes of names.
    pub(super) fn new(now: Timestamp, seed: u64) -> Self {
        InterestShaper {
            queues: FlowQueues::new(seed),
            flows: FlowTable::default(),
            rate: RateControl::new(now),
            active_at: now,
            expired: 0,
        }
    }

    /// Decides about an Interest that is to be sent now.
    pub(super) fn admit(&mut self, now: Timestamp, bytes: &[u8], meta: &Meta) -> Admission {
        let Some((flow, name_hash)) = self.queues.hashes(meta.name.in_bytes(bytes)) else {
            return Admission::Send;
        };
        let cost = self.flows.interest_cost(now, flow);
        self.rate.refill(now);
        if self.queues.is_empty() && self.rate.spend(cost) {
            self.flows.on_sent(now, flow);
            return Admission::Send;
        }
        self.active_at = now;
        self.rate.note_backlog();
        let lifetime = Duration::from_millis(u64::from(meta.lifetime_ms));
        let wait = self.rate.time_for(self.queues.bytes_before(meta.ingress, flow, cost));
        if wait > lifetime / 2 {
            return Admission::Refused(wait - lifetime / 2);
        }
        let interest = WaitingInterest {
            name_hash,
            flow,
            bytes: bytes.into(),
            link: meta.link,
            queued_at: now,
            expires_at: now + lifetime,
        };
        let is_new = self.flows.is_new(flow);
        if self.queues.push(meta.ingress, interest, cost, is_new) {
            Admission::Queued
        } else {
            Admission::Refused(wait.max(SOJOURN_TARGET))
        }
    }

    /// Returns the next Interest that may be sent now. Counts those that expired before it.
    pub(super) fn release(&mut self, now: Timestamp) -> Option<WaitingInterest> {
        self.rate.refill(now);
        loop {
            if !self.rate.has_credit() {
                return None;
            }
            let interest = self.queues.pop()?;
            if interest.expires_at <= now {
                self.expired += 1;
                continue;
            }
            self.rate.spend(self.flows.interest_cost(now, interest.flow));
            let sojourn = now.since(interest.queued_at);
            self.flows.on_released(now, interest.flow, sojourn, SOJOURN_TARGET);
            return Some(interest);
        }
    }

    /// Records Data received on the face; `marked`: by the peer, as the link is full. Returns what
    /// happens to its mark. The queue at the far end is this shaper's to shorten, and tells no
    /// flows apart: only those that ask for more than their share are to react.
    pub(super) fn on_data(
        &mut self,
        now: Timestamp,
        name: &[u8],
        len: usize,
        marked: bool,
    ) -> MarkAction {
        self.rate.on_data(now, len, !self.queues.is_empty(), marked);
        if marked {
            self.active_at = now;
        }
        let Some((flow, _)) = self.queues.hashes(name) else { return MarkAction::Keep };
        if self.flows.on_data(flow, len) {
            MarkAction::Set
        } else if marked && self.bytes_per_s().is_some() && self.flows.is_prompt(flow) {
            MarkAction::Clear
        } else {
            MarkAction::Keep
        }
    }

    /// Returns when [`release`](Self::release) or [`is_over`](Self::is_over) must be called.
    pub(super) fn deadline(&self) -> Timestamp {
        if self.queues.is_empty() {
            self.active_at + IDLE_TIME
        } else {
            self.rate.credit_at() + RELEASE_INTERVAL
        }
    }

    /// Returns whether the link was not short for a while.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        let is_idle = now.since(self.active_at) >= IDLE_TIME;
        self.queues.is_empty() && (is_idle || self.rate.has_learned_nothing(now))
    }

    /// Returns the rate of Data that may be requested, bytes per second. `None` while it is being
    /// learned.
    pub(super) fn bytes_per_s(&self) -> Option<f64> {
        self.rate.learned_bytes_per_s()
    }

    /// Returns the Interests that wait.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Returns the Interests whose lifetime ended while they waited.
    pub(super) const fn expired(&self) -> u64 {
        self.expired
    }
}

#[cfg(test)]
mod tests;
