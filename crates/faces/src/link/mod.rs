//! The link service: link packets to network packets and back. Without sockets: bytes in a pool in, bytes in an outbox out.
//!
//! NDNLPv2. Received fields by its rules: NextHopFaceId only where local fields are enabled, IncomingFaceId ignored, CachePolicy and
//! PrefixAnnouncement only on Data, Nack, NextHopFaceId and NonDiscovery never on Data. Reliability is not built yet: Acks and TxSequence are
//! read over, as a receiver that never enabled reliability does, and the flag can't be set.

mod marking;
mod reassembly;
mod send;

pub use marking::Marking;
pub use reassembly::{Reassembler, ReassemblyBudget};

use crate::config::{FaceUpdate, FacesConfig, MTU_MIN};
use crate::counters::FaceCounters;
use crate::error::FaceError;
use crate::status::FaceFlags;
use core::time::Duration;
use nw_element::{Cause, DropCounters, DropReason, FaceId, Instant, LinkFields, Packet, Pool, Scope, decode};
use nw_wire::{Fault, LpPacket, NackReason, PACKET_LEN_MAX, Token, types};

/// First octets of bare packets.
const INTEREST: u8 = types::INTEREST as u8;
const DATA: u8 = types::DATA as u8;

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
    /// Flags that are set.
    pub flags: FaceFlags,
    /// Base congestion marking interval.
    pub marking_interval: Duration,
    /// Congestion threshold, octets of send queue.
    pub marking_threshold: u64,
}

impl LinkSettings {
    /// The host's defaults; `mtu` as the transport has it.
    pub fn new(config: &FacesConfig, mtu: Option<usize>) -> Self {
        LinkSettings {
            mtu,
            flags: FaceFlags::default().with(FaceFlags::CONGESTION_MARKING, config.congestion_marking),
            marking_interval: config.marking_interval,
            marking_threshold: config.marking_threshold,
        }
    }

    /// With what is said changed.
    ///
    /// # Errors
    /// Local fields where the face is not local, reliability, an MTU that can't be.
    pub fn updated(&self, update: &FaceUpdate, scope: Scope) -> Result<Self, FaceError> {
        let mut settings = self.clone();
        settings.flags =
            FaceFlags(self.flags.0 & !update.flags_mask.0 | update.flags.0 & update.flags_mask.0);
        if settings.flags.contains(FaceFlags::LOCAL_FIELDS) && scope != Scope::Local {
            return Err(FaceError::LocalFieldsNonLocal);
        }
        if settings.flags.contains(FaceFlags::RELIABILITY) {
            return Err(FaceError::Reliability);
        }
        if let Some(mtu) = update.mtu {
            if self.mtu.is_none() || !(MTU_MIN..=PACKET_LEN_MAX).contains(&mtu) {
                return Err(FaceError::Mtu(mtu));
            }
            settings.mtu = Some(mtu);
        }
        settings.marking_interval = update.marking_interval.unwrap_or(self.marking_interval);
        settings.marking_threshold = update.marking_threshold.unwrap_or(self.marking_threshold);
        Ok(settings)
    }
}

/// The link service of one face.
#[derive(Debug)]
pub struct LinkService {
    settings: LinkSettings,
    /// Of the next fragment.
    sequence: u64,
    marking: Marking,
    /// Made when the first fragment comes: most faces never see one.
    reassembler: Option<Box<Reassembler>>,
}

impl LinkService {
    /// `sequence` numbers the first fragment; it should differ from what an earlier face to the same peer used lately.
    pub fn new(settings: LinkSettings, sequence: u64) -> Self {
        LinkService { settings, sequence, marking: Marking::default(), reassembler: None }
    }

    /// What it was told to do.
    pub const fn settings(&self) -> &LinkSettings {
        &self.settings
    }

    /// Changes what it does.
    pub fn set(&mut self, settings: LinkSettings) {
        self.settings = settings;
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
        // An idle packet carries acknowledgements only, and nobody asked for those.
        let Some(fragment) = lp.fragment else {
            pool.release(packet);
            return None;
        };
        let received = Received::new(&lp);
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
            return self.deliver(now, packet, received, source, pool, tally);
        }
        let (start, len) = (lp.fragment_start, fragment.len());
        pool.narrow(&packet, start..start + len);
        self.deliver(now, packet, received, source, pool, tally)
    }

    /// When [`expire`](Self::expire) has something to do, if ever.
    pub fn deadline(&self) -> Option<Instant> {
        self.reassembler.as_ref()?.deadline()
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

    /// Gives back what the face holds of shared bounds, as the face ends.
    pub fn end(&mut self, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        self.expire(Instant::NEVER, budget, tally);
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
        if let Err(error) = decode::decode(pool, &packet) {
            return end(packet, pool, tally, DropReason::Malformed(error.fault));
        }
        tally.face.count_in(pool.meta(&packet).kind);
        Some(packet)
    }
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
    announcement: bool,
}

impl Received {
    #[inline]
    fn new(lp: &LpPacket<'_>) -> Self {
        Received {
            token: lp.pit_token,
            nack: lp.nack,
            congestion_mark: lp.congestion_mark,
            next_hop: lp.next_hop_face_id,
            no_cache: lp.no_cache,
            non_discovery: lp.non_discovery,
            announcement: lp.prefix_announcement.is_some(),
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
        if kind == Some(types::INTEREST) && (self.no_cache || self.announcement) {
            return Err(DropReason::Malformed(Fault::LinkField));
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests;
