//! The held fragments, bounded in total, by direction and by source.

use super::Key;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;

/// How long the fragments of a packet wait for its first one, from the first that arrived,
/// nanoseconds.
pub(super) const WAIT_NS: u64 = 50_000_000;
/// Maximum number of held fragments, each of at most 2016 bytes.
pub(super) const FRAGMENTS_MAX: usize = 1024;
/// Maximum number of held fragments from outside: the others are reserved for members.
pub(super) const OUTSIDE_MAX: usize = 768;
/// Maximum number of held fragments from one address. The longest packet has 44 in frames of 1500
/// bytes.
pub(super) const SOURCE_MAX: usize = 256;

/// A fragment as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub key: Key,
    pub at_ns: u64,
    /// True if it comes from a member.
    pub outwards: bool,
    pub interface_index: u32,
    pub frame: Vec<u8>,
}

/// The held fragments of one packet.
#[derive(Debug)]
struct Packet {
    since_ns: u64,
    fragments: Vec<Fragment>,
}

/// The held fragments, and those ready to be released.
#[derive(Debug, Default)]
pub(super) struct Pool {
    packets: BTreeMap<Key, Packet>,
    ready: VecDeque<Fragment>,
    by_source: HashMap<u32, usize>,
    outside: usize,
    count: usize,
    /// The last key that [`next_keys`](Self::next_keys) returned.
    last_key: Option<Key>,
}

impl Pool {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether one more fragment can be held.
    pub fn has_capacity(&self, source: u32, outwards: bool) -> bool {
        self.count < FRAGMENTS_MAX
            && (outwards || self.outside < OUTSIDE_MAX)
            && self.by_source.get(&source).is_none_or(|held| *held < SOURCE_MAX)
    }

    /// Holds a fragment; [`has_capacity`](Self::has_capacity) must be true.
    pub fn insert(&mut self, fragment: Fragment) {
        self.count += 1;
        self.outside += usize::from(!fragment.outwards);
        *self.by_source.entry(fragment.key.source()).or_default() += 1;
        let packet = self
            .packets
            .entry(fragment.key)
            .or_insert_with(|| Packet { since_ns: fragment.at_ns, fragments: Vec::new() });
        packet.fragments.push(fragment);
    }

    /// Returns at most `max` keys of held packets, continuing after the last call, so that each
    /// gets its turn.
    pub fn next_keys(&mut self, max: usize) -> Vec<Key> {
        let from = self.last_key.map_or(Bound::Unbounded, Bound::Excluded);
        let following = self.packets.range((from, Bound::Unbounded)).map(|(key, _)| *key);
        let mut keys: Vec<Key> = following.take(max).collect();
        if let Some(last) = self.last_key {
            let remaining = max - keys.len();
            keys.extend(self.packets.range(..=last).map(|(key, _)| *key).take(remaining));
        }
        self.last_key = keys.last().copied();
        keys
    }

    /// Makes the fragments of a packet ready, as its first one has arrived.
    pub fn release(&mut self, key: Key) {
        if let Some(packet) = self.packets.remove(&key) {
            self.ready.extend(packet.fragments);
        }
    }

    /// Removes and returns the earliest ready fragment.
    pub fn pop_ready(&mut self) -> Option<Fragment> {
        let fragment = self.ready.pop_front()?;
        self.forget(fragment.key.source(), fragment.outwards);
        Some(fragment)
    }

    /// Drops the packets that have waited too long, and returns the number of their fragments.
    pub fn drop_expired(&mut self, now_ns: u64) -> u64 {
        let mut dropped = Vec::new();
        self.packets.retain(|_, packet| {
            let waits = now_ns.saturating_sub(packet.since_ns) < WAIT_NS;
            if !waits {
                dropped.append(&mut packet.fragments);
            }
            waits
        });
        for fragment in &dropped {
            self.forget(fragment.key.source(), fragment.outwards);
        }
        dropped.len() as u64
    }

    fn forget(&mut self, source: u32, outwards: bool) {
        self.count -= 1;
        self.outside -= usize::from(!outwards);
        if let Entry::Occupied(mut held) = self.by_source.entry(source) {
            *held.get_mut() -= 1;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(source: u32, id: u32, at_ns: u64, outwards: bool) -> Fragment {
        let key = Key([source, 9, id]);
        Fragment { key, at_ns, outwards, interface_index: 3, frame: vec![1; 60] }
    }

    /// Inserts a fragment if there is capacity, and returns whether there was.
    fn offer(pool: &mut Pool, fragment: Fragment) -> bool {
        let has_capacity = pool.has_capacity(fragment.key.source(), fragment.outwards);
        if has_capacity {
            pool.insert(fragment);
        }
        has_capacity
    }

    #[test]
    fn fragments_are_released_after_the_first_of_their_packet() {
        let mut pool = Pool::default();
        for at in 0..3 {
            assert!(offer(&mut pool, fragment(1, 7, at, false)));
            assert!(offer(&mut pool, fragment(1, 8, at, false)));
        }
        pool.release(Key([1, 9, 7]));
        pool.release(Key([1, 9, 99]));
        let ready: Vec<_> =
            std::iter::from_fn(|| pool.pop_ready()).map(|it| (it.key.0[2], it.at_ns)).collect();
        assert_eq!(ready, [(7, 0), (7, 1), (7, 2)]);
        assert_eq!((pool.drop_expired(WAIT_NS - 1), pool.len()), (0, 3));
        assert_eq!((pool.drop_expired(WAIT_NS), pool.len()), (3, 0));
        assert!(pool.is_empty() && pool.by_source.is_empty() && pool.outside == 0);
    }

    #[test]
    fn one_source_has_a_bounded_share() {
        let mut pool = Pool::default();
        let taken = (0..2000).filter(|id| offer(&mut pool, fragment(1, *id, 0, false))).count();
        assert_eq!(taken, SOURCE_MAX);
        assert!(offer(&mut pool, fragment(2, 0, 0, false)));
    }

    #[test]
    fn flood_from_outside_leaves_capacity_for_members() {
        let mut pool = Pool::default();
        let taken =
            (0..5000).filter(|source| offer(&mut pool, fragment(*source, 0, 0, false))).count();
        assert_eq!(taken, OUTSIDE_MAX);
        let taken =
            (0..5000).filter(|id| offer(&mut pool, fragment(6000 + id % 8, *id, 0, true))).count();
        assert_eq!(taken, FRAGMENTS_MAX - OUTSIDE_MAX);
        assert_eq!(pool.drop_expired(WAIT_NS), FRAGMENTS_MAX as u64);
        assert!(offer(&mut pool, fragment(1, 0, 0, false)));
    }

    #[test]
    fn next_keys_rotates_through_all_packets() {
        let mut pool = Pool::default();
        assert!(pool.next_keys(4).is_empty());
        (0..10).for_each(|id| pool.insert(fragment(1, id, 0, false)));
        let mut next = || pool.next_keys(4).iter().map(|key| key.0[2]).collect::<Vec<_>>();
        assert_eq!([next(), next(), next()], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]);
        // No key appears twice in one call.
        assert_eq!(pool.next_keys(99).len(), 10);
    }
}
