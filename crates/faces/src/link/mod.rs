//! The link service: link packets to network packets and back. Without sockets: bytes in a pool in, bytes in an outbox out.
//!
//! NDNLPv2. Received fields by its rules: NextHopFaceId only where local fields are enabled, IncomingFaceId ignored, CachePolicy and
//! PrefixAnnouncement only on Data, Nack, NextHopFaceId and NonDiscovery never on Data. Where reliability is off, Acks and TxSequence are read
//! over.

mod marking;
mod reassembly;
mod reliability;
mod room;
mod send;

pub use marking::{Marking, QueueState};
pub use reassembly::{Reassembler, ReassemblyBudget};
pub use reliability::{Pumped, Reliability, ReliabilityCounters};
pub use room::Room;

use crate::config::{FaceUpdate, FacesConfig, MTU_MIN, ReliabilityLimits};
use crate::counters::FaceCounters;
use crate::error::FaceError;
use crate::status::FaceFlags;
use core::ops::Range;
use core::time::Duration;
use nw_element_api::{
    Cause, DropCounters, DropReason, FaceId, Instant, LinkFields, LinkType, Packet, Pool, Scope, Ticket,
    decode,
};
use nw_wire::{Fault, LpPacket, NackReason, PACKET_LEN_MAX, Token, types};

/// First octets of bare packets.
const INTEREST: u8 = types::INTEREST as u8;
const DATA: u8 = types::DATA as u8;

/// Packets of so many octets fit any way, with what their header may hold.
const FITS_ANY_WAY: usize = 256;

/// Where drops are counted: with the face, and with all faces.
pub struct Tally<'a> {
    /// The face's counters.
    pub face: &'a mut FaceCounters,
    /// All faces' drops.
    pub all: &'a mut DropCounters,
}

impl Tally<'_> {
    /// Counts dropped packets.
    pub fn drops(&mut self, reason: impl Into<DropReason>, packets: u64) {
        let reason = reason.into();
        self.face.count_drops(reason, packets);
        self.all.add(reason, packets);
    }
}

/// Where a link packet came from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// By which face.
    pub face: FaceId,
    /// True when that face is local.
    pub local: bool,
    /// True when the socket it came by is about to overflow: what it delivers is marked, so that windows shrink before packets are lost.
    pub congested: bool,
    /// Tells senders of one face apart, where many may speak; 0 elsewhere.
    pub sender: u64,
}

/// What a link service is told to do.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Largest link packet, octets; `None` on streams, which are never fragmented.
    pub mtu: Option<usize>,
    /// The same, before anybody said something else.
    mtu_default: Option<usize>,
    /// Somebody said it of this face: it is that, whatever its path takes.
    mtu_is_said: bool,
    /// Flags that are set.
    pub flags: FaceFlags,
    /// Base congestion marking interval.
    pub marking_interval: Duration,
    /// Congestion threshold, octets of send queue.
    pub marking_threshold: u64,
    /// Limits of reliability, for when it is on.
    pub reliability: ReliabilityLimits,
}

impl LinkSettings {
    /// The host's defaults; `mtu` as the transport has it.
    pub fn new(config: &FacesConfig, mtu: Option<usize>) -> Self {
        LinkSettings {
            mtu,
            mtu_default: mtu,
            mtu_is_said: false,
            flags: FaceFlags::default().with(FaceFlags::CONGESTION_MARKING, config.congestion_marking),
            marking_interval: config.marking_interval,
            marking_threshold: config.marking_threshold,
            reliability: config.reliability,
        }
    }

    /// With reliability on or off, as is the default for a transport.
    #[must_use]
    pub const fn reliable(self, on: bool) -> Self {
        LinkSettings { flags: self.flags.with(FaceFlags::RELIABILITY, on), ..self }
    }

    /// With another MTU of the transport, unless one was said of the face.
    #[must_use]
    pub fn with_transport_mtu(mut self, mtu: usize) -> Self {
        self.mtu_default = Some(mtu);
        if !self.mtu_is_said {
            self.mtu = Some(mtu);
        }
        self
    }

    /// With what is said changed.
    ///
    /// # Errors
    /// Local fields where the face is not local, an MTU that can't be.
    pub fn updated(&self, update: &FaceUpdate, scope: Scope) -> Result<Self, FaceError> {
        let mut settings = self.clone();
        settings.flags =
            FaceFlags(self.flags.0 & !update.flags_mask.0 | update.flags.0 & update.flags_mask.0);
        if settings.flags.contains(FaceFlags::LOCAL_FIELDS) && scope != Scope::Local {
            return Err(FaceError::LocalFieldsNonLocal);
        }
        if let Some(mtu) = update.mtu {
            if self.mtu.is_none() || mtu < MTU_MIN {
                return Err(FaceError::Mtu(mtu));
            }
            // More than any packet has takes back what was said: nfdc's "auto" is 2^64 - 1.
            settings.mtu_is_said = mtu <= PACKET_LEN_MAX;
            settings.mtu = if settings.mtu_is_said { Some(mtu) } else { self.mtu_default };
        }
        settings.marking_interval = update.marking_interval.unwrap_or(self.marking_interval);
        settings.marking_threshold = update.marking_threshold.unwrap_or(self.marking_threshold);
        Ok(settings)
    }

    /// Whether a link of this type can be so: who of many would have to acknowledge?
    pub fn fit(&self, link_type: LinkType) -> Result<(), FaceError> {
        if self.flags.contains(FaceFlags::RELIABILITY) && link_type != LinkType::PointToPoint {
            return Err(FaceError::ReliabilityShared);
        }
        Ok(())
    }
}

/// The link service of one face.
#[derive(Debug)]
pub struct LinkService {
    settings: LinkSettings,
    /// Octets of the largest link packet: of the settings, or of the path.
    mtu: Option<usize>,
    /// Octets that the way to the peer takes whole, once it is known and matters.
    path_mtu: Option<usize>,
    /// Of the next fragment.
    sequence: u64,
    marking: Marking,
    /// Made when the first fragment comes: most faces never see one.
    reassembler: Option<Box<Reassembler>>,
    /// There while the flag is set.
    reliability: Option<Box<Reliability>>,
    room: Room,
}

impl LinkService {
    /// `sequence` numbers the first fragment; it should differ from what an earlier face to the same peer used lately.
    pub fn new(settings: LinkSettings, sequence: u64) -> Self {
        let mut link = LinkService {
            settings: settings.clone(),
            mtu: settings.mtu,
            path_mtu: None,
            sequence,
            marking: Marking::default(),
            reassembler: None,
            reliability: None,
            room: Room::default(),
        };
        link.set(settings);
        link
    }

    /// What it was told to do.
    pub const fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    /// Changes what it does. When reliability ends, so does the wait for acknowledgements.
    pub fn set(&mut self, settings: LinkSettings) {
        let reliable = settings.flags.contains(FaceFlags::RELIABILITY);
        if reliable && self.reliability.is_none() {
            // The first TxSequence is as good as any; this one differs from what an earlier face used.
            self.reliability = Some(Box::new(Reliability::new(settings.reliability, self.sequence)));
        } else if !reliable {
            self.reliability = None;
        }
        self.settings = settings;
        self.fit();
    }

    /// Octets of the largest link packet; `None` on streams.
    pub const fn mtu(&self) -> Option<usize> {
        self.mtu
    }

    /// True once a packet of so many octets may be longer than what the way takes whole, to a peer that puts pieces together, and that length isn't
    /// known yet: [`set_path_mtu`](Self::set_path_mtu) is to be called.
    #[inline]
    pub const fn awaits_path_mtu(&self, payload_len: usize) -> bool {
        payload_len > FITS_ANY_WAY
            && self.path_mtu.is_none()
            && self.room.theirs_kib() > 0
            && self.mtu.is_some()
    }

    /// From now on no link packet is longer than what the way to the peer takes whole, unless an MTU was said of this face; `usize::MAX` leaves it to
    /// IP. For peers that put pieces together.
    pub fn set_path_mtu(&mut self, octets: usize) {
        self.path_mtu = Some(octets);
        self.fit();
    }

    fn fit(&mut self) {
        let path = self.path_mtu.filter(|_| !self.settings.mtu_is_said);
        self.mtu = self.settings.mtu.map(|mtu| path.map_or(mtu, |path| mtu.min(path)));
    }

    /// True while link packets are acknowledged and repeated.
    #[inline]
    pub const fn is_reliable(&self) -> bool {
        self.reliability.is_some()
    }

    /// Bytes of link packets kept until they are acknowledged.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.reliability.as_ref().map_or(0, |reliability| reliability.stored_bytes())
    }

    /// Keeps at most so many of these bytes from now on, if that is less than the face's own bound: memory that all faces share is short.
    pub fn limit_unacknowledged(&mut self, bytes_max: usize) {
        if let Some(reliability) = &mut self.reliability {
            reliability.set_shared_max(bytes_max);
        }
    }

    /// How much may be sent in a row.
    pub const fn room(&self) -> &Room {
        &self.room
    }

    /// For saying what the other end is told.
    pub const fn room_mut(&mut self) -> &mut Room {
        &mut self.room
    }

    /// Takes one whole link packet and gives the network packet, decoded, if there is one now.
    #[inline]
    pub fn receive(
        &mut self,
        now: Instant,
        packet: Packet,
        source: Source,
        pool: &mut Pool,
        budget: &mut ReassemblyBudget,
        tally: &mut Tally<'_>,
    ) -> Option<Packet> {
        tally.face.in_packets += 1;
        tally.face.in_bytes += pool.bytes(&packet).len() as u64;
        // A bare packet has no fields, and the decoder checks all of it.
        if let Some(&(INTEREST | DATA)) = pool.bytes(&packet).first() {
            pool.meta_mut(&packet).link.congestion_mark = u64::from(source.congested);
            return self.decode(now, packet, source, pool, tally);
        }
        let lp = match LpPacket::check(pool.bytes(&packet)) {
            Ok(lp) => lp,
            Err(error) => return end(packet, pool, tally, DropReason::Malformed(error.fault)),
        };
        if let Some(reliability) = &mut self.reliability {
            let transmission = lp.fragment.and(lp.tx_sequence).map(|number| (number, lp.sequence));
            let is_new = reliability.receive(now, lp.acks(), transmission);
            tally.face.reliability = *reliability.counters();
            if !is_new {
                return end(packet, pool, tally, Cause::DuplicateSequence);
            }
        }
        let (lp, announcement) = match announcement_in(pool.bytes(&packet), &lp) {
            None => (lp, Ticket::NONE),
            Some(range) => {
                let ticket = pool.keep_announcement_in(&packet, range);
                match LpPacket::check(pool.bytes(&packet)) {
                    Ok(lp) => (lp, ticket),
                    Err(error) => return end(packet, pool, tally, DropReason::Malformed(error.fault)),
                }
            }
        };
        if let Some(kib) = lp.receive_room_kib {
            self.room.hear(kib);
        }
        // An idle packet carries acknowledgements only.
        let Some(fragment) = lp.fragment else {
            pool.release(packet);
            return None;
        };
        let received = Received::new(&lp, announcement);
        if lp.is_fragmented() {
            let reassembler = self.reassembler.get_or_insert_with(Default::default);
            let whole = reassembler.push(now, source.sender, &lp, received, budget, tally);
            pool.release(packet);
            let (received, whole) = whole?;
            let Some(packet) = pool.alloc(whole.len()) else {
                tally.drops(Cause::NoBuffer, 1);
                return None;
            };
            whole.copy_to(pool.bytes_mut(&packet));
            budget.give_back(whole);
            return self.deliver(now, packet, received, source, pool, tally);
        }
        let (start, len) = (lp.fragment_start, fragment.len());
        pool.narrow(&packet, start..start + len);
        self.deliver(now, packet, received, source, pool, tally)
    }

    /// When [`expire`](Self::expire) or `pump` has something to do, if ever.
    pub fn deadline(&self) -> Option<Instant> {
        let reassembly = self.reassembler.as_ref().and_then(|reassembler| reassembler.deadline());
        let reliability = self.reliability.as_ref().and_then(|reliability| reliability.deadline());
        match (reassembly, reliability) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Gives up what was not whole in time.
    pub fn expire(&mut self, now: Instant, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        if let Some(reassembler) = &mut self.reassembler {
            reassembler.expire(now, budget, tally);
            if reassembler.is_empty() {
                self.reassembler = None;
            }
        }
    }

    /// Forgets what was under way, as the connection was lost and a new one is to come.
    pub fn restart(&mut self, now: Instant, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        self.end(budget, tally);
        self.marking = Marking::default();
        self.sequence = self.sequence.max(now.as_nanos());
        self.reliability = None;
        self.set(self.settings.clone());
    }

    /// Gives back what the face holds of shared bounds, as the face ends.
    pub fn end(&mut self, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        if let Some(mut reassembler) = self.reassembler.take() {
            reassembler.clear(budget, tally);
        }
    }

    #[inline]
    fn deliver(
        &mut self,
        now: Instant,
        packet: Packet,
        received: Received,
        source: Source,
        pool: &mut Pool,
        tally: &mut Tally<'_>,
    ) -> Option<Packet> {
        let kind = pool.bytes(&packet).first().map(|first| u32::from(*first));
        let local_fields = self.settings.flags.contains(FaceFlags::LOCAL_FIELDS);
        let link = match received.fields(kind, local_fields, source.congested) {
            Ok(link) => link,
            Err(reason) => return end(packet, pool, tally, reason),
        };
        pool.meta_mut(&packet).link = link;
        self.decode(now, packet, source, pool, tally)
    }

    #[inline]
    fn decode(
        &mut self,
        now: Instant,
        packet: Packet,
        source: Source,
        pool: &mut Pool,
        tally: &mut Tally<'_>,
    ) -> Option<Packet> {
        let meta = pool.meta_mut(&packet);
        meta.ingress = source.face;
        meta.ingress_local = source.local;
        meta.arrival = now;
        if let Err(error) = decode::decode_lazily(pool, &packet) {
            return end(packet, pool, tally, DropReason::Malformed(error.fault));
        }
        tally.face.count_in(pool.meta(&packet).kind);
        Some(packet)
    }
}

/// Where the prefix announcement stands in a link packet, if there is one.
#[inline]
fn announcement_in(link_packet: &[u8], lp: &LpPacket<'_>) -> Option<Range<usize>> {
    let announcement = lp.prefix_announcement?;
    let start = announcement.as_ptr().addr().checked_sub(link_packet.as_ptr().addr())?;
    Some(start..start + announcement.len())
}

fn end(
    packet: Packet,
    pool: &mut Pool,
    tally: &mut Tally<'_>,
    reason: impl Into<DropReason>,
) -> Option<Packet> {
    tally.drops(reason, 1);
    pool.release(packet);
    None
}

/// The fields of a link packet that outlive its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    token: Token,
    nack: Option<NackReason>,
    congestion_mark: u64,
    next_hop: Option<u64>,
    no_cache: bool,
    non_discovery: bool,
    announced: bool,
    announcement: Ticket,
}

impl Received {
    #[inline]
    fn new(lp: &LpPacket<'_>, announcement: Ticket) -> Self {
        Received {
            token: lp.pit_token,
            nack: lp.nack,
            congestion_mark: lp.congestion_mark,
            next_hop: lp.next_hop_face_id,
            no_cache: lp.no_cache,
            non_discovery: lp.non_discovery,
            announced: lp.prefix_announcement.is_some(),
            announcement,
        }
    }

    /// The fields as forwarding gets them. What may not stand on a Data, the decoder refuses.
    #[inline]
    fn fields(
        &self,
        kind: Option<u32>,
        local_fields: bool,
        congested: bool,
    ) -> Result<LinkFields, DropReason> {
        let mut link = LinkFields {
            token: self.token,
            nack: self.nack,
            congestion_mark: self.congestion_mark.max(u64::from(congested)),
            no_cache: self.no_cache,
            non_discovery: self.non_discovery,
            announcement: self.announcement,
            ..LinkFields::default()
        };
        if let Some(number) = self.next_hop {
            if kind == Some(types::DATA) {
                return Err(DropReason::Malformed(Fault::LinkField));
            }
            if !local_fields {
                return Err(Cause::LinkFieldRefused.into());
            }
            link.next_hop_face = Some(FaceId::from_number(number).ok_or(Cause::NextHopUnknown)?);
        }
        if kind == Some(types::INTEREST) && (self.no_cache || self.announced) {
            return Err(DropReason::Malformed(Fault::LinkField));
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests;
