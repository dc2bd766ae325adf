//! Counters of one face, and the recorder that counts a drop for its face and for the shard.

use nw_element_api::{DropCounters, DropReason, Kind};

/// Counters of one face since its creation.
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
    /// Data sent or queued in the kernel.
    pub out_data: u64,
    /// Nacks sent or queued in the kernel.
    pub out_nacks: u64,
    /// Bytes received, link headers included.
    pub in_bytes: u64,
    /// Bytes sent, link headers included.
    pub out_bytes: u64,
    /// Link packets received, idle ones and fragments included.
    pub in_packets: u64,
    /// Link packets sent.
    pub out_packets: u64,
    /// Congestion marks set because this face's send queue was long.
    pub out_marks: u64,
    /// Interests dropped instead of sent; `drops` has the reasons.
    pub out_interests_dropped: u64,
    /// Data dropped instead of sent.
    pub out_data_dropped: u64,
    /// Nacks dropped instead of sent.
    pub out_nacks_dropped: u64,
    /// Counters of link reliability; zero while it is off.
    pub reliability: ReliabilityCounters,
    /// Counters of Interest shaping; zero while the link never was short.
    pub shaping: ShapingCounters,
    /// Allocated at the first drop, as most faces never drop.
    drops: Option<Box<DropCounters>>,
}

impl FaceCounters {
    /// Returns the drops of this face by reason. `None` before the first.
    pub fn drops(&self) -> Option<&DropCounters> {
        self.drops.as_deref()
    }

    /// Returns how many packets this face dropped for `reason`.
    pub fn dropped(&self, reason: impl Into<DropReason>) -> u64 {
        self.drops.as_ref().map_or(0, |drops| drops.total(reason))
    }

    /// Counts `packets` dropped for `reason`.
    pub fn count_drops(&mut self, reason: impl Into<DropReason>, packets: u64) {
        self.drops.get_or_insert_default().add(reason.into(), packets);
    }

    /// Counts one network packet received.
    #[inline]
    pub fn count_in(&mut self, kind: Kind) {
        match kind {
            Kind::Interest => self.in_interests += 1,
            Kind::Data => self.in_data += 1,
            Kind::Nack => self.in_nacks += 1,
            // Management has no counter for them; `in_packets` and the like count them.
            Kind::Publication => {}
        }
    }

    /// Counts one network packet sent.
    #[inline]
    pub fn count_out(&mut self, kind: Kind) {
        match kind {
            Kind::Interest => self.out_interests += 1,
            Kind::Data => self.out_data += 1,
            Kind::Nack => self.out_nacks += 1,
            // Management has no counter for them; `in_packets` and the like count them.
            Kind::Publication => {}
        }
    }

    /// Counts one network packet dropped instead of sent.
    pub fn count_out_dropped(&mut self, kind: Kind) {
        match kind {
            Kind::Interest => self.out_interests_dropped += 1,
            Kind::Data => self.out_data_dropped += 1,
            Kind::Nack => self.out_nacks_dropped += 1,
            // Management has no counter for them; `in_packets` and the like count them.
            Kind::Publication => {}
        }
    }

    /// Reverts the count of one link packet of `bytes` bytes that was counted as sent and then
    /// dropped; `kind` is that of the network packet it starts, if any.
    pub fn uncount_out(&mut self, kind: Option<Kind>, bytes: usize) {
        self.out_packets -= 1;
        self.out_bytes -= bytes as u64;
        match kind {
            Some(Kind::Interest) => self.out_interests -= 1,
            Some(Kind::Data) => self.out_data -= 1,
            Some(Kind::Nack) => self.out_nacks -= 1,
            Some(Kind::Publication) => {}
            None => return,
        }
        kind.into_iter().for_each(|kind| self.count_out_dropped(kind));
    }

    /// Adds another face's counters to these.
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
        self.shaping.refused += other.shaping.refused;
        self.shaping.marked += other.shaping.marked;
        if let Some(drops) = other.drops() {
            self.drops.get_or_insert_default().merge(drops);
        }
    }
}

/// Counters of Interest shaping of one face.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapingCounters {
    /// Interests refused because they would have waited too long.
    pub refused: u64,
    /// Data marked because Interests of their flow waited long.
    pub marked: u64,
}

/// Counters of link reliability of one face.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReliabilityCounters {
    /// Link packets acknowledged, retransmitted ones included.
    pub acknowledged: u64,
    /// Retransmissions of link packets.
    pub retransmitted: u64,
    /// Retransmissions of link packets whose earlier transmission had arrived.
    pub needless: u64,
    /// Network packets given up: all transmissions stayed unacknowledged.
    pub given_up: u64,
    /// Link packets sent without protection, because the store of copies was full.
    pub unprotected: u64,
    /// Duplicate link packets received and dropped.
    pub duplicates: u64,
    /// Acknowledgements not sent because too many were queued.
    pub acks_dropped: u64,
}

impl ReliabilityCounters {
    /// Adds another face's counters to these.
    pub const fn merge(&mut self, other: &ReliabilityCounters) {
        self.acknowledged += other.acknowledged;
        self.retransmitted += other.retransmitted;
        self.needless += other.needless;
        self.given_up += other.given_up;
        self.unprotected += other.unprotected;
        self.duplicates += other.duplicates;
        self.acks_dropped += other.acks_dropped;
    }
}

/// Counts drops twice: for the face, and for all faces of the shard.
pub struct DropRecorder<'a> {
    /// The face's counters.
    pub face: &'a mut FaceCounters,
    /// Drops of all faces.
    pub total: &'a mut DropCounters,
}

impl DropRecorder<'_> {
    /// Counts `packets` dropped for `reason`.
    pub fn record(&mut self, reason: impl Into<DropReason>, packets: u64) {
        let reason = reason.into();
        self.face.count_drops(reason, packets);
        self.total.add(reason, packets);
    }
}
