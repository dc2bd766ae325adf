//! The link service: link packets to network packets and back.
//!
//! ```text
//!  receive: link packet ─▶ check ─▶ acknowledge, drop duplicates ─▶ reassemble ─▶ decode
//!           ─▶ network packet
//!  send:    network packet + link fields ─▶ shape Interests ─▶ mark congestion ─▶ header ─▶ fragment ─▶ Outbox
//! ```
//!
//! Rules of NDNLPv2 for received fields: NextHopFaceId only where local fields are enabled;
//! IncomingFaceId ignored; CachePolicy and PrefixAnnouncement only on Data; Nack, NextHopFaceId and
//! NonDiscovery never on Data. Where reliability is off, Acks and TxSequence are ignored.
//!
//! Invariant: every packet passed in is returned, put into the outbox, or released and counted in a
//! [`DropRecorder`].

mod marking;
mod peer_window;
mod reassembly;
mod received;
mod reliability;
mod send;
mod settings;
mod shaped;
mod shaping;

pub use marking::{Marking, QueueState};
pub use peer_window::ReceiveWindow;
pub use reassembly::{Reassembler, ReassemblyBudget};
pub use reliability::{Reliability, ReliabilityAction};
pub use settings::LinkSettings;
pub use shaped::ShapingState;

use crate::counters::DropRecorder;
use crate::flags::FaceFlags;
use core::ops::Range;
use nw_element_api::{
    AnnouncementRef, DropCause, DropReason, FaceId, Packet, Pool, Timestamp, decode,
};
use nw_wire::{LpPacket, types};
use received::ReceivedFields;

/// First bytes of network packets without a link header.
const INTEREST: u8 = types::INTEREST as u8;
const DATA: u8 = types::DATA as u8;

/// Payloads up to this fit every path with any link header, bytes.
const ALWAYS_FITS_LEN: usize = 256;

/// Where a link packet came from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The face that received it.
    pub face: FaceId,
    /// Whether that face is local.
    pub local: bool,
    /// The socket's receive buffer is about to overflow: its packets get a congestion mark, so that
    /// consumers reduce their windows before packets are lost.
    pub congested: bool,
    /// Distinguishes the senders on a face with several peers; 0 on other faces.
    pub sender: u64,
}

/// The link service of one face.
#[derive(Debug)]
pub struct LinkService {
    settings: LinkSettings,
    /// Bytes of the largest link packet: from the settings or from the path.
    mtu: Option<usize>,
    /// Bytes that the path carries without IP fragmentation, once known.
    path_mtu: Option<usize>,
    /// Sequence of the next link packet that carries one.
    sequence: u64,
    marking: Marking,
    /// Allocated at the first fragment, as most faces never receive one.
    reassembler: Option<Box<Reassembler>>,
    /// Present while the flag is set.
    reliability: Option<Box<Reliability>>,
    window: ReceiveWindow,
    /// Present while the link is short: see `shaping`.
    shaper: Option<Box<shaping::InterestShaper>>,
}

impl LinkService {
    /// Creates the link service of a new face. `sequence` numbers its first fragment; it should
    /// differ from those that an earlier face to the same peer used recently.
    pub fn new(settings: LinkSettings, sequence: u64) -> Self {
        let mut link = LinkService {
            settings: settings.clone(),
            mtu: settings.mtu,
            path_mtu: None,
            sequence,
            marking: Marking::default(),
            reassembler: None,
            reliability: None,
            window: ReceiveWindow::default(),
            shaper: None,
        };
        link.apply_settings(settings);
        link
    }

    /// Returns the settings in effect.
    pub const fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    /// Changes the settings. Turning reliability off discards unacknowledged copies.
    pub fn apply_settings(&mut self, settings: LinkSettings) {
        let reliable = settings.flags.contains(FaceFlags::RELIABILITY);
        if reliable && self.reliability.is_none() {
            // Any first TxSequence is valid; this one differs from those of an earlier face.
            let reliability = Reliability::new(settings.reliability, self.sequence);
            self.reliability = Some(Box::new(reliability));
        } else if !reliable {
            self.reliability = None;
        }
        self.settings = settings;
        self.refresh_mtu();
    }

    /// Returns the largest link packet in bytes; `None` on streams.
    pub const fn mtu(&self) -> Option<usize> {
        self.mtu
    }

    /// Returns whether [`set_path_mtu`](Self::set_path_mtu) must be called before a payload of
    /// `payload_len` bytes is sent: it may exceed the path MTU, which is not known yet, and the
    /// peer can reassemble.
    #[inline]
    pub const fn needs_path_mtu(&self, payload_len: usize) -> bool {
        payload_len > ALWAYS_FITS_LEN
            && self.path_mtu.is_none()
            && self.window.peer_kib() > 0
            && self.mtu.is_some()
    }

    /// Limits link packets to `bytes`, which the path carries without IP fragmentation, unless an
    /// MTU was set for this face; `usize::MAX` leaves fragmentation to IP. For peers that
    /// reassemble link packets.
    pub fn set_path_mtu(&mut self, bytes: usize) {
        self.path_mtu = Some(bytes);
        self.refresh_mtu();
    }

    fn refresh_mtu(&mut self) {
        let path = self.path_mtu.filter(|_| !self.settings.mtu_is_explicit);
        self.mtu = self.settings.mtu.map(|mtu| path.map_or(mtu, |path| mtu.min(path)));
    }

    /// Returns whether link packets are acknowledged and retransmitted.
    #[inline]
    pub const fn is_reliable(&self) -> bool {
        self.reliability.is_some()
    }

    /// Returns the bytes of link packets kept until they are acknowledged.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.reliability.as_ref().map_or(0, |reliability| reliability.stored_bytes())
    }

    /// Limits these bytes to `bytes_max` when memory shared by all faces is short. The face's own
    /// limit still applies.
    pub fn limit_unacknowledged(&mut self, bytes_max: usize) {
        if let Some(reliability) = &mut self.reliability {
            reliability.set_shared_max(bytes_max);
        }
    }

    /// Returns what each end advertised as its receive buffer.
    pub const fn receive_window(&self) -> &ReceiveWindow {
        &self.window
    }

    /// Returns the receive window, to change what this end advertises.
    pub const fn receive_window_mut(&mut self) -> &mut ReceiveWindow {
        &mut self.window
    }

    /// Takes one whole link packet and returns the network packet that it completes, decoded.
    /// `None`: the packet was an incomplete fragment, idle, a duplicate, or dropped and counted.
    #[inline]
    pub fn receive(
        &mut self,
        now: Timestamp,
        packet: Packet,
        source: Source,
        pool: &mut Pool,
        budget: &mut ReassemblyBudget,
        drops: &mut DropRecorder<'_>,
    ) -> Option<Packet> {
        drops.face.in_packets += 1;
        drops.face.in_bytes += pool.bytes(&packet).len() as u64;
        // A packet without link header has no fields, and the decoder checks all of it.
        if let Some(&(INTEREST | DATA)) = pool.bytes(&packet).first() {
            pool.meta_mut(&packet).link.congestion_mark = u64::from(source.congested);
            return self.decode(now, packet, source, pool, drops);
        }
        let lp = match LpPacket::check(pool.bytes(&packet)) {
            Ok(lp) => lp,
            Err(error) => {
                return drop_packet(packet, pool, drops, DropReason::Malformed(error.fault));
            }
        };
        if !self.accept_sequence(now, &lp, drops) {
            return drop_packet(packet, pool, drops, DropCause::DuplicateSequence);
        }
        let (lp, announcement) = match announcement_in(pool.bytes(&packet), &lp) {
            None => (lp, AnnouncementRef::NONE),
            Some(range) => {
                let ticket = pool.keep_announcement_in(&packet, range);
                match LpPacket::check(pool.bytes(&packet)) {
                    Ok(lp) => (lp, ticket),
                    Err(error) => {
                        return drop_packet(
                            packet,
                            pool,
                            drops,
                            DropReason::Malformed(error.fault),
                        );
                    }
                }
            }
        };
        if let Some(kib) = lp.receive_window_kib {
            self.window.on_advertised(kib);
        }
        // An idle packet carries acknowledgements only.
        let Some(fragment) = lp.fragment else {
            pool.release(packet);
            return None;
        };
        let received = ReceivedFields::new(&lp, announcement);
        if lp.is_fragmented() {
            let reassembler = self.reassembler.get_or_insert_with(Default::default);
            let whole = reassembler.push(now, source.sender, &lp, received, budget, drops);
            pool.release(packet);
            let (received, whole) = whole?;
            let Some(packet) = pool.alloc(whole.len()) else {
                drops.record(DropCause::NoBuffer, 1);
                return None;
            };
            whole.copy_to(pool.bytes_mut(&packet));
            budget.recycle(whole);
            return self.deliver(now, packet, received, source, pool, drops);
        }
        let (start, len) = (lp.fragment_start, fragment.len());
        pool.narrow(&packet, start..start + len);
        self.deliver(now, packet, received, source, pool, drops)
    }

    /// Processes the acknowledgements of a link packet. Returns false for a duplicate.
    #[inline]
    fn accept_sequence(
        &mut self,
        now: Timestamp,
        lp: &LpPacket<'_>,
        drops: &mut DropRecorder<'_>,
    ) -> bool {
        let Some(reliability) = &mut self.reliability else { return true };
        let transmission = lp.fragment.and(lp.tx_sequence).map(|number| (number, lp.sequence));
        let is_new = reliability.receive(now, lp.acks(), transmission);
        drops.face.reliability = *reliability.counters();
        is_new
    }

    /// Returns when [`expire`](Self::expire), [`send_due`](Self::send_due) or
    /// [`release_interests`](Self::release_interests) must be called next. `None`: no need.
    pub fn deadline(&self) -> Option<Timestamp> {
        let reassembly = self.reassembler.as_ref().and_then(|reassembler| reassembler.deadline());
        let reliability = self.reliability.as_ref().and_then(|reliability| reliability.deadline());
        let shaping = self.shaper.as_ref().map(|shaper| shaper.deadline());
        [reassembly, reliability, shaping].into_iter().flatten().min()
    }

    /// Drops incomplete packets whose time is over.
    pub fn expire(
        &mut self,
        now: Timestamp,
        budget: &mut ReassemblyBudget,
        drops: &mut DropRecorder<'_>,
    ) {
        if let Some(reassembler) = &mut self.reassembler {
            reassembler.expire(now, budget, drops);
            if reassembler.is_empty() {
                self.reassembler = None;
            }
        }
    }

    /// Resets the link state after the connection was lost, for a new connection of the same face.
    pub fn restart(
        &mut self,
        now: Timestamp,
        budget: &mut ReassemblyBudget,
        drops: &mut DropRecorder<'_>,
    ) {
        self.close(budget, drops);
        self.drop_waiting_interests(drops);
        self.marking = Marking::default();
        self.sequence = self.sequence.max(now.as_nanos());
        self.reliability = None;
        self.apply_settings(self.settings.clone());
    }

    /// Drops incomplete packets and returns their bytes to the shared budget, as the face closes.
    pub fn close(&mut self, budget: &mut ReassemblyBudget, drops: &mut DropRecorder<'_>) {
        if let Some(mut reassembler) = self.reassembler.take() {
            reassembler.clear(budget, drops);
        }
    }

    /// Sets the link fields of a complete network packet and decodes it.
    #[inline]
    fn deliver(
        &mut self,
        now: Timestamp,
        packet: Packet,
        received: ReceivedFields,
        source: Source,
        pool: &mut Pool,
        drops: &mut DropRecorder<'_>,
    ) -> Option<Packet> {
        let kind = pool.bytes(&packet).first().map(|first| u32::from(*first));
        let local_fields = self.settings.flags.contains(FaceFlags::LOCAL_FIELDS);
        let link = match received.link_fields(kind, local_fields, source.congested) {
            Ok(link) => link,
            Err(reason) => return drop_packet(packet, pool, drops, reason),
        };
        pool.meta_mut(&packet).link = link;
        self.decode(now, packet, source, pool, drops)
    }

    #[inline]
    fn decode(
        &mut self,
        now: Timestamp,
        packet: Packet,
        source: Source,
        pool: &mut Pool,
        drops: &mut DropRecorder<'_>,
    ) -> Option<Packet> {
        let meta = pool.meta_mut(&packet);
        meta.ingress = source.face;
        meta.ingress_local = source.local;
        meta.arrival = now;
        if let Err(error) = decode::decode_lazily(pool, &packet) {
            return drop_packet(packet, pool, drops, DropReason::Malformed(error.fault));
        }
        let meta = pool.meta(&packet);
        drops.face.count_in(meta.kind);
        if self.shaper.is_some() || meta.link.congestion_mark != 0 {
            self.on_feedback(now, &packet, source, pool, drops);
        }
        Some(packet)
    }
}

/// Returns the position of the prefix announcement in a link packet. `None` if it has none.
#[inline]
fn announcement_in(link_packet: &[u8], lp: &LpPacket<'_>) -> Option<Range<usize>> {
    let announcement = lp.prefix_announcement?;
    let start = announcement.as_ptr().addr().checked_sub(link_packet.as_ptr().addr())?;
    Some(start..start + announcement.len())
}

/// Releases a packet and counts the drop. Always returns `None`.
fn drop_packet(
    packet: Packet,
    pool: &mut Pool,
    drops: &mut DropRecorder<'_>,
    reason: impl Into<DropReason>,
) -> Option<Packet> {
    drops.record(reason, 1);
    pool.release(packet);
    None
}

#[cfg(test)]
mod tests;
