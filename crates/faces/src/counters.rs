//! What a face counts.

use crate::link::ReliabilityCounters;
use nw_element_api::{DropCounters, DropReason, Kind};

/// Counters of one face, since it was made.
#[derive(Clone, Debug, Default)]
pub struct FaceCounters {
    /// Interests received.
    pub in_interests: u64,
    /// Data received.
    pub in_data: u64,
    /// Nacks received.
    pub in_nacks: u64,
    /// Interests sent or queued in the kernel.
    pub out_interests: u64,
    /// Data likewise.
    pub out_data: u64,
    /// Nacks likewise.
    pub out_nacks: u64,
    /// Octets received, link headers included.
    pub in_bytes: u64,
    /// Octets sent, link headers included.
    pub out_bytes: u64,
    /// Link packets received, idle ones and fragments included.
    pub in_packets: u64,
    /// Link packets sent.
    pub out_packets: u64,
    /// Congestion marks set here because the send queue was long.
    pub out_marks: u64,
    /// Interests that were to be sent and dropped instead; why is in `drops`.
    pub out_interests_dropped: u64,
    /// Data likewise.
    pub out_data_dropped: u64,
    /// Nacks likewise.
    pub out_nacks_dropped: u64,
    /// What reliability did, where it is on.
    pub reliability: ReliabilityCounters,
    /// Made at the first drop: most faces never drop.
    drops: Option<Box<DropCounters>>,
}

impl FaceCounters {
    /// Drops of this face by reason; `None` when there was none.
    pub fn drops(&self) -> Option<&DropCounters> {
        self.drops.as_deref()
    }

    /// How many packets this face dropped for a reason.
    pub fn dropped(&self, reason: impl Into<DropReason>) -> u64 {
        self.drops.as_ref().map_or(0, |drops| drops.total(reason))
    }

    /// Counts drops.
    pub(crate) fn count_drops(&mut self, reason: impl Into<DropReason>, packets: u64) {
        self.drops.get_or_insert_default().add(reason.into(), packets);
    }

    #[inline]
    pub(crate) fn count_in(&mut self, kind: Kind) {
        match kind {
            Kind::Interest => self.in_interests += 1,
            Kind::Data => self.in_data += 1,
            Kind::Nack => self.in_nacks += 1,
        }
    }

    #[inline]
    pub(crate) fn count_out(&mut self, kind: Kind) {
        match kind {
            Kind::Interest => self.out_interests += 1,
            Kind::Data => self.out_data += 1,
            Kind::Nack => self.out_nacks += 1,
        }
    }

    /// A packet that was to be sent went nowhere.
    pub(crate) fn count_out_dropped(&mut self, kind: Kind) {
        match kind {
            Kind::Interest => self.out_interests_dropped += 1,
            Kind::Data => self.out_data_dropped += 1,
            Kind::Nack => self.out_nacks_dropped += 1,
        }
    }

    /// A link packet that was counted as sent went nowhere after all.
    pub(crate) fn take_back(&mut self, kind: Option<Kind>, bytes: usize) {
        self.out_packets -= 1;
        self.out_bytes -= bytes as u64;
        match kind {
            Some(Kind::Interest) => self.out_interests -= 1,
            Some(Kind::Data) => self.out_data -= 1,
            Some(Kind::Nack) => self.out_nacks -= 1,
            None => return,
        }
        kind.into_iter().for_each(|kind| self.count_out_dropped(kind));
    }

    /// Adds another face's counts to these.
    pub fn merge(&mut self, other: &FaceCounters) {
        self.in_interests += other.in_interests;
        self.in_data += other.in_data;
        self.in_nacks += other.in_nacks;
        self.out_interests += other.out_interests;
        self.out_data += other.out_data;
        self.out_nacks += other.out_nacks;
        self.in_bytes += other.in_bytes;
        self.out_bytes += other.out_bytes;
        self.in_packets += other.in_packets;
        self.out_packets += other.out_packets;
        self.out_marks += other.out_marks;
        self.out_interests_dropped += other.out_interests_dropped;
        self.out_data_dropped += other.out_data_dropped;
        self.out_nacks_dropped += other.out_nacks_dropped;
        self.reliability.merge(&other.reliability);
        if let Some(drops) = other.drops() {
            self.drops.get_or_insert_default().merge(drops);
        }
    }
}
