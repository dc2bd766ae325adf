//! Estimates which prefixes have the most traffic, in a fixed amount of memory.
//!
//! The algorithm is Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent
//! and Top-k Elements in Data Streams", 2005): a prefix that is not counted yet replaces the one
//! with the smallest count and inherits that count as its possible error.
//!
//! Main invariant: after `n` packets in `k` entries no count is too high by more than `n / k`, and
//! every prefix with more than `n / k` packets has an entry.

use arrayvec::ArrayVec;
use nw_name::NameRef;

/// The number of prefixes counted at one time.
pub const ENTRIES_MAX: usize = 256;
/// The maximum length of a prefix, bytes; of a longer one fewer components are counted together.
pub const PREFIX_LEN_MAX: usize = 160;

/// Packets and bytes counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of Interests.
    pub interests: u64,
    /// Number of Data.
    pub data: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// The count of one prefix.
#[derive(Clone, Debug)]
pub struct PrefixCount {
    prefix: ArrayVec<u8, PREFIX_LEN_MAX>,
    packets: u64,
    /// The traffic since the prefix got this entry.
    pub traffic: Traffic,
    /// The number of `packets` that may have belonged to other prefixes.
    pub error: u64,
}

impl PrefixCount {
    /// Returns the prefix.
    pub fn prefix(&self) -> NameRef<'_> {
        NameRef::from_checked(&self.prefix)
    }

    /// Returns the estimated number of packets: at most `error` too high, never too low.
    pub const fn packets(&self) -> u64 {
        self.packets
    }
}

/// The sketch: see the module.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// The hash of each element of `entries`, which a search compares.
    hashes: Vec<u64>,
    entries: Vec<PrefixCount>,
    packets: u64,
}

impl Sketch {
    /// Creates an empty sketch; allocates all its memory.
    pub fn new() -> Self {
        Sketch {
            hashes: Vec::with_capacity(ENTRIES_MAX),
            entries: Vec::with_capacity(ENTRIES_MAX),
            packets: 0,
        }
    }

    /// Counts `weight` packets like this one. `prefix` has at most [`PREFIX_LEN_MAX`] bytes, `hash`
    /// is its hash.
    pub fn count(&mut self, hash: u64, prefix: &[u8], weight: u64, per_packet: Traffic) {
        self.packets += weight;
        let position = self.hashes.iter().position(|other| *other == hash);
        let index = match position.filter(|index| self.entries[*index].prefix[..] == *prefix) {
            Some(index) => index,
            None => self.replace_smallest(hash, prefix),
        };
        let entry = &mut self.entries[index];
        entry.packets += weight;
        entry.traffic.interests += per_packet.interests * weight;
        entry.traffic.data += per_packet.data * weight;
        entry.traffic.bytes += per_packet.bytes * weight;
    }

    /// Returns the number of packets of all prefixes.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the counted prefixes, in undefined order.
    pub fn entries(&self) -> &[PrefixCount] {
        &self.entries
    }

    /// Returns the index of a new entry, which replaces the one with the smallest count if all are
    /// used.
    fn replace_smallest(&mut self, hash: u64, prefix: &[u8]) -> usize {
        let mut bytes = ArrayVec::new();
        bytes
            .try_extend_from_slice(&prefix[..prefix.len().min(PREFIX_LEN_MAX)])
            .expect("cut to fit");
        let new = |packets| PrefixCount {
            prefix: bytes,
            packets,
            traffic: Traffic::default(),
            error: packets,
        };
        if self.entries.len() < ENTRIES_MAX {
            self.hashes.push(hash);
            self.entries.push(new(0));
            return self.entries.len() - 1;
        }
        let smallest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.packets);
        let (index, packets) =
            smallest.map(|(index, entry)| (index, entry.packets)).expect("all entries are taken");
        self.hashes[index] = hash;
        self.entries[index] = new(packets);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn prefix(number: u32) -> [u8; 6] {
        let [a, b, c, d] = number.to_be_bytes();
        [8, 4, a, b, c, d]
    }

    proptest! {
        /// Against exact counts: no count is too low or too high by more than its error, no error
        /// exceeds packets / entries, and every prefix with more packets than that is present.
        #[test]
        fn sketch_any_traffic_error_is_bounded(
            packets in proptest::collection::vec(
                (prop_oneof![3 => 0..20u32, 2 => 0..5000u32], 1..4u64),
                1..4000,
            ),
        ) {
            let (mut sketch, mut exact) = (Sketch::new(), HashMap::<u32, u64>::new());
            for (number, weight) in &packets {
                // Prefixes with equal hashes are distinguished, but use two entries.
                sketch.count(
                    u64::from(*number),
                    &prefix(*number),
                    *weight,
                    Traffic { interests: 1, ..Traffic::default() },
                );
                *exact.entry(*number).or_default() += weight;
            }
            let bound = sketch.packets() / ENTRIES_MAX as u64;
            prop_assert!(sketch.entries().len() <= ENTRIES_MAX);
            prop_assert_eq!(
                sketch.entries().iter().map(PrefixCount::packets).sum::<u64>(),
                sketch.packets()
            );
            for entry in sketch.entries() {
                let number = u32::from_be_bytes(entry.prefix().as_bytes()[2..].try_into().unwrap());
                let true_count = exact[&number];
                prop_assert!(entry.error <= bound);
                prop_assert!(
                    entry.packets() >= true_count && entry.packets() - entry.error <= true_count
                );
                prop_assert_eq!(entry.traffic.interests, entry.packets() - entry.error);
            }
            for (number, count) in exact.iter().filter(|(_, count)| **count > bound) {
                let found = sketch
                    .entries()
                    .iter()
                    .any(|entry| entry.prefix().as_bytes() == prefix(*number));
                prop_assert!(found, "{} with {} packets is missing", number, count);
            }
        }
    }
}
