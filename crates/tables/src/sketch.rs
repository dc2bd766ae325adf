//! Which prefixes have most traffic: counted about, in a fixed amount of memory, while somebody looks.
//!
//! Space-saving (Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005): a prefix that is
//! not counted yet takes the place of the one with the smallest count and inherits that as its possible error. After `n` packets in `k` places
//! no count is too high by more than `n / k`, and every prefix with more packets than that is there.

use arrayvec::ArrayVec;
use nw_name::NameRef;

/// Prefixes counted at one time.
pub const PLACES: usize = 256;
/// Octets of a prefix; of longer ones fewer components are counted together.
pub const PREFIX_LEN_MAX: usize = 160;

/// What a packet adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Interests.
    pub interests: u64,
    /// Data.
    pub data: u64,
    /// Octets.
    pub bytes: u64,
}

/// A prefix that is counted.
#[derive(Clone, Debug)]
pub struct Counted {
    prefix: ArrayVec<u8, PREFIX_LEN_MAX>,
    packets: u64,
    /// Since it took this place.
    pub traffic: Traffic,
    /// Packets of `packets` that may have been others'.
    pub error: u64,
}

impl Counted {
    /// The prefix.
    pub fn prefix(&self) -> NameRef<'_> {
        NameRef::from_checked(&self.prefix)
    }

    /// Packets, at most `error` too many.
    pub const fn packets(&self) -> u64 {
        self.packets
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// Of `places`, in the same order: what is searched.
    hashes: Vec<u64>,
    places: Vec<Counted>,
    packets: u64,
}

impl Sketch {
    /// Empty; takes its memory at once.
    pub fn new() -> Self {
        Sketch { hashes: Vec::with_capacity(PLACES), places: Vec::with_capacity(PLACES), packets: 0 }
    }

    /// Counts `weight` packets that look like this one. `prefix` is at most [`PREFIX_LEN_MAX`] octets long, `hash` is its own.
    pub fn count(&mut self, hash: u64, prefix: &[u8], weight: u64, each: Traffic) {
        self.packets += weight;
        let known = self.hashes.iter().position(|known| *known == hash);
        let at = match known.filter(|at| self.places[*at].prefix[..] == *prefix) {
            Some(at) => at,
            None => self.make_place(hash, prefix),
        };
        let place = &mut self.places[at];
        place.packets += weight;
        place.traffic.interests += each.interests * weight;
        place.traffic.data += each.data * weight;
        place.traffic.bytes += each.bytes * weight;
    }

    /// Packets counted, of all prefixes.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// What is counted, in no order.
    pub fn places(&self) -> &[Counted] {
        &self.places
    }

    fn make_place(&mut self, hash: u64, prefix: &[u8]) -> usize {
        let mut octets = ArrayVec::new();
        octets.try_extend_from_slice(&prefix[..prefix.len().min(PREFIX_LEN_MAX)]).expect("cut to fit");
        let new = |packets| Counted { prefix: octets, packets, traffic: Traffic::default(), error: packets };
        if self.places.len() < PLACES {
            self.hashes.push(hash);
            self.places.push(new(0));
            return self.places.len() - 1;
        }
        let smallest = self.places.iter().enumerate().min_by_key(|(_, place)| place.packets);
        let (at, packets) = smallest.map(|(at, place)| (at, place.packets)).expect("all places are taken");
        self.hashes[at] = hash;
        self.places[at] = new(packets);
        at
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
        /// Against counting everything: no count is too low, none too high by more than its error, no error beyond packets / places, and
        /// nobody with more than that is missing.
        #[test]
        fn as_good_as_promised(
            packets in proptest::collection::vec((prop_oneof![3 => 0..20u32, 2 => 0..5000u32], 1..4u64), 1..4000)
        ) {
            let (mut sketch, mut exact) = (Sketch::new(), HashMap::<u32, u64>::new());
            for (number, weight) in &packets {
                // Hashes that collide are told apart by the prefix, at the cost of a place taken twice.
                sketch.count(u64::from(*number), &prefix(*number), *weight, Traffic { interests: 1, ..Traffic::default() });
                *exact.entry(*number).or_default() += weight;
            }
            let bound = sketch.packets() / PLACES as u64;
            prop_assert!(sketch.places().len() <= PLACES);
            prop_assert_eq!(sketch.places().iter().map(Counted::packets).sum::<u64>(), sketch.packets());
            for place in sketch.places() {
                let number = u32::from_be_bytes(place.prefix().as_bytes()[2..].try_into().unwrap());
                let true_count = exact[&number];
                prop_assert!(place.error <= bound);
                prop_assert!(place.packets() >= true_count && place.packets() - place.error <= true_count);
                prop_assert_eq!(place.traffic.interests, place.packets() - place.error);
            }
            for (number, count) in exact.iter().filter(|(_, count)| **count > bound) {
                let found = sketch.places().iter().any(|place| place.prefix().as_bytes() == prefix(*number));
                prop_assert!(found, "{} with {} packets is missing", number, count);
            }
        }
    }
}
