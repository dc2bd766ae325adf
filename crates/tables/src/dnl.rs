//! The dead nonce list: recent (name, nonce) pairs without a PIT entry any more. A looping
//! Interest is detected by it.
//!
//! It stores 32-bit fingerprints of pairs, ten per cache line, each with the tick (0.27 s) of its
//! insertion. A pair is inserted at the first free or expired slot, at most [`LINES_MAX`] lines
//! from its home line on; lines passed by record the tick in `last_overflow`, so a search can stop.
//! If all are full, the oldest pair of the home line is replaced. Nothing is swept and memory is
//! fixed.
//!
//! A second array has one byte per line: by name hash, the tick of the latest insertion. A line is
//! searched only if that is recent. This array stays cached, and where few Interests remain
//! unsatisfied it answers nearly every search.
//!
//! Pairs of satisfied Interests are in a third array, one slot per pair without probing, where a
//! new pair replaces the old one: nearly every Interest is satisfied, so these must be cheap and
//! must not evict others. A pair is lost with probability `n / capacity` if `n` others were
//! inserted since; a looping packet returns within a round trip, so this is rare.
//!
//! Main invariant: a pair is found for at least [`LIFETIME_MS`] (unless replaced) and at most 6.5 s
//! after its insertion. A pair never inserted is found with probability 10 / 2^32.

use crate::Timestamp;
use crate::memory::{MmapArray, eq_mask_u32x10};
use zerocopy::FromZeros;

/// The minimum time for which a pair is remembered, milliseconds.
pub const LIFETIME_MS: u64 = 6000;

/// The maximum number of cache lines a search reads.
pub const LINES_MAX: usize = 8;

const TICK_SHIFT: u32 = 28;
const SLOTS: usize = 10;
/// Used slots per line when the list holds `capacity` pairs: 97 % of the pairs are in their home
/// line, and fewer than one in a million is replaced early (with 6: one in a hundred thousand).
const LOAD: usize = 5;
/// The age at which a pair expires; the tick of its insertion counts as age 0.
const LIFETIME_TICKS: u16 = (LIFETIME_MS * 1_000_000).div_ceil(1 << TICK_SHIFT) as u16;
/// Ticks are stored modulo this (4.9 hours) plus one; 0 means "never".
const TICKS: u64 = u16::MAX as u64;
/// The maximum age, in ticks modulo 256, at which an insertion counts as recent: one more than a
/// pair's lifetime, as tick 0 is stored as 1.
const RECENT_TICKS: u8 = LIFETIME_TICKS as u8 + 1;

/// Ten pairs: a cache line.
#[derive(FromZeros)]
#[repr(C, align(64))]
struct Line {
    fingerprints: [u32; SLOTS],
    ticks: [u16; SLOTS],
    /// The tick at which a pair was last inserted beyond this line.
    last_overflow: u16,
    padding: u16,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// Returns the slot of a fingerprint that has not expired.
    #[inline]
    fn find(&self, fingerprint: u32, now: u16) -> Option<usize> {
        let mut mask = eq_mask_u32x10(&self.fingerprints, fingerprint);
        while mask != 0 {
            let slot = mask.trailing_zeros() as usize;
            if is_live(self.ticks[slot], now) {
                return Some(slot);
            }
            mask &= mask - 1;
        }
        None
    }

    /// Returns a slot that is unused or has expired.
    #[inline]
    fn free_slot(&self, now: u16) -> Option<usize> {
        self.ticks.iter().position(|tick| !is_live(*tick, now))
    }

    /// Returns the slot of the oldest pair. Among equally old ones the choice depends on the
    /// fingerprint, so that a flood within one tick does not replace the same slot always.
    fn oldest_slot(&self, fingerprint: u32, now: u16) -> usize {
        let mut oldest = fingerprint as usize % SLOTS;
        for slot in 0..SLOTS {
            if age(self.ticks[slot], now) > age(self.ticks[oldest], now) {
                oldest = slot;
            }
        }
        oldest
    }
}

/// The dead nonce list of one shard.
pub struct DeadNonceList {
    lines: MmapArray<Line>,
    /// By name hash: the [`short_tick`] of the latest insertion; 0 means "never". After 68 s an old
    /// one counts as recent again for 6 s, which costs a search only.
    latest_ticks: MmapArray<u8>,
    /// Pairs of satisfied Interests: 48 bits of the pair, 16 bits of the tick of insertion.
    satisfied: MmapArray<u64>,
}

impl DeadNonceList {
    /// Creates a list for `capacity` pairs within [`LIFETIME_MS`], and as many of satisfied
    /// Interests; 21 bytes per pair, taken when touched.
    pub fn new(capacity: usize) -> Self {
        let lines = capacity.div_ceil(LOAD).clamp(1, u32::MAX as usize);
        DeadNonceList {
            lines: MmapArray::new(lines),
            latest_ticks: MmapArray::new(lines),
            satisfied: MmapArray::new(lines * LOAD),
        }
    }

    /// Returns whether the pair was inserted within the last [`LIFETIME_MS`] (up to 0.5 s longer).
    #[inline]
    pub fn contains(&self, now: Timestamp, name_hash: u64, nonce: u32) -> bool {
        self.is_satisfied(now, name_hash, nonce)
            || self.seen_recently(now, name_hash) && self.is_stored(now, name_hash, nonce)
    }

    /// Inserts the nonce of an Interest that was satisfied. A copy that arrives later is a loop: if
    /// the Data is cached, the content store answers before this list is searched.
    #[inline(always)]
    pub fn insert_satisfied(&mut self, now: Timestamp, name_hash: u64, nonce: u32) {
        let (index, pair) = self.locate_satisfied(name_hash, nonce);
        self.satisfied[index] = pair | u64::from(tick(now));
    }

    #[inline(always)]
    fn is_satisfied(&self, now: Timestamp, name_hash: u64, nonce: u32) -> bool {
        let (index, pair) = self.locate_satisfied(name_hash, nonce);
        let stored = self.satisfied[index];
        (stored ^ pair) >> u16::BITS == 0 && is_live(stored as u16, tick(now))
    }

    /// Returns the index and the stored bits of a pair of a satisfied Interest. Different nonces of
    /// one name differ.
    #[inline(always)]
    fn locate_satisfied(&self, name_hash: u64, nonce: u32) -> (usize, u64) {
        let pair = name_hash ^ u64::from(nonce).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((((pair >> 32) * self.satisfied.len() as u64) >> 32) as usize, pair << u16::BITS)
    }

    /// Returns whether a pair of this name was inserted recently.
    #[inline(always)]
    fn seen_recently(&self, now: Timestamp, name_hash: u64) -> bool {
        let latest = self.latest_ticks[self.latest_index(name_hash)];
        latest != 0 && short_tick(now).wrapping_sub(latest) <= RECENT_TICKS
    }

    /// Searches the lines of a pair.
    #[inline(never)]
    fn is_stored(&self, now: Timestamp, name_hash: u64, nonce: u32) -> bool {
        let (mut number, fingerprint) = self.locate(name_hash, nonce);
        let now = tick(now);
        for _ in 0..LINES_MAX {
            let line = &self.lines[number];
            if line.find(fingerprint, now).is_some() {
                return true;
            }
            if !is_live(line.last_overflow, now) {
                return false;
            }
            number = self.next_line(number);
        }
        false
    }

    /// Inserts a pair, or renews it.
    pub fn insert(&mut self, now: Timestamp, name_hash: u64, nonce: u32) {
        let (home, fingerprint) = self.locate(name_hash, nonce);
        let latest = self.latest_index(name_hash);
        self.latest_ticks[latest] = short_tick(now);
        let now = tick(now);
        let mut number = home;
        for _ in 0..LINES_MAX {
            let line = &self.lines[number];
            // A pair that exists is renewed.
            if let Some(slot) = line.find(fingerprint, now).or_else(|| line.free_slot(now)) {
                self.lines[number].fingerprints[slot] = fingerprint;
                self.lines[number].ticks[slot] = now;
                self.mark_overflow(home, number, now);
                return;
            }
            number = self.next_line(number);
        }
        let line = &mut self.lines[home];
        let oldest = line.oldest_slot(fingerprint, now);
        line.fingerprints[oldest] = fingerprint;
        line.ticks[oldest] = now;
    }

    /// Prefetches the cache lines that [`contains`](Self::contains) will read.
    #[inline(always)]
    pub fn prefetch(&self, now: Timestamp, name_hash: u64, nonce: u32) {
        self.satisfied.prefetch(self.locate_satisfied(name_hash, nonce).0);
        if self.seen_recently(now, name_hash) {
            self.lines.prefetch(self.locate(name_hash, nonce).0);
        }
    }

    /// Returns the number of pairs the list is made for.
    pub fn capacity(&self) -> usize {
        self.lines.len() * LOAD
    }

    /// Returns the bytes of address space reserved: resident memory when full.
    pub fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.latest_ticks.memory_bytes() + self.satisfied.memory_bytes()
    }

    /// Returns the home line and the fingerprint of a pair, from different bits. The name's hash is
    /// keyed, so a sender that chooses nonces can predict neither.
    #[inline]
    fn locate(&self, name_hash: u64, nonce: u32) -> (usize, u32) {
        let doubled = u64::from(nonce) << 32 | u64::from(nonce);
        let product = u128::from(name_hash ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from(name_hash.rotate_left(32) ^ doubled);
        let mixed = product as u64 ^ (product >> 64) as u64;
        ((((mixed >> 32) * self.lines.len() as u64) >> 32) as usize, mixed as u32)
    }

    /// Returns the index of a name hash in `latest_ticks`.
    #[inline(always)]
    fn latest_index(&self, name_hash: u64) -> usize {
        (((name_hash >> 32) * self.latest_ticks.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next_line(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }

    /// Records an insertion beyond the lines from `home` to before `end`.
    fn mark_overflow(&mut self, home: usize, end: usize, now: u16) {
        let mut number = home;
        while number != end {
            self.lines[number].last_overflow = now;
            number = self.next_line(number);
        }
    }
}

impl core::fmt::Debug for DeadNonceList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "DeadNonceList(of {})", self.capacity())
    }
}

#[inline]
fn tick(now: Timestamp) -> u16 {
    ((now.as_nanos() >> TICK_SHIFT) % TICKS) as u16 + 1
}

/// Returns the tick modulo 256.
#[inline(always)]
fn short_tick(now: Timestamp) -> u8 {
    ((now.as_nanos() >> TICK_SHIFT) as u8).max(1)
}

/// Returns the number of ticks since `tick`, modulo [`TICKS`].
#[inline]
fn age(tick: u16, now: u16) -> u16 {
    if now >= tick { now - tick } else { now + (u16::MAX - tick) }
}

#[inline]
fn is_live(tick: u16, now: u16) -> bool {
    tick != 0 && age(tick, now) <= LIFETIME_TICKS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The time after which a pair is certainly expired, milliseconds.
    const FORGOTTEN_MS: u64 = 6500;

    #[test]
    fn dnl_pair_expires_after_its_lifetime() {
        let mut list = DeadNonceList::new(1000);
        // Ticks wrap after 65535.
        let around_ms = (TICKS << TICK_SHIFT) / 1_000_000;
        // Short ticks wrap after 256.
        let short_ms = (256 << TICK_SHIFT) / 1_000_000;
        let starts = [0, 1, 267, 268, 269, 1 << 40]
            .into_iter()
            .chain((around_ms - 7000..around_ms + 1000).step_by(83))
            .chain((short_ms - 7000..short_ms + 1000).step_by(83));
        for start in starts {
            let at = |ms: u64| Timestamp::from_millis(start + ms);
            assert!(!list.contains(at(0), start, 5));
            list.insert(at(0), start, 5);
            assert!(list.seen_recently(at(6000), start), "its line is searched, {start}");
            for ms in [0, 1, 3000, 5999, 6000] {
                assert!(list.contains(at(ms), start, 5), "{start} {ms}");
                assert!(!list.contains(at(ms), start, 6));
                assert!(!list.contains(at(ms), !start, 5));
            }
            for ms in [FORGOTTEN_MS, 60_000, 3_600_000] {
                assert!(!list.contains(at(ms), start, 5), "{start} {ms}");
            }
        }
    }

    #[test]
    fn dnl_satisfied_pairs_expire_and_evict_no_others() {
        let mut list = DeadNonceList::new(1000);
        let hash = |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let start = Timestamp::from_millis(5000);
        list.insert(start, hash(0), 7);
        for nonce in 0..10_000 {
            list.insert_satisfied(start, hash(u64::from(nonce)), nonce);
        }
        assert!(list.contains(start, hash(0), 7), "unsatisfied pairs are not replaced");
        list.insert_satisfied(start, hash(5), 1);
        list.insert_satisfied(start, hash(5), 2);
        for nonce in [1, 2] {
            for ms in [0, 3000, 6000] {
                assert!(list.contains(Timestamp::from_millis(5000 + ms), hash(5), nonce), "{ms}");
            }
            assert!(!list.contains(Timestamp::from_millis(5000 + FORGOTTEN_MS), hash(5), nonce));
        }
        assert!(!list.contains(start, hash(5), 3) && !list.contains(start, hash(6), 1));
    }

    #[test]
    fn dnl_insert_again_renews() {
        let mut list = DeadNonceList::new(1);
        for step in 0..10 {
            list.insert(Timestamp::from_millis(step * 4000), 1, 2);
        }
        assert!(list.contains(Timestamp::from_millis(9 * 4000 + 6000), 1, 2));
        assert_eq!(list.lines[0].ticks.iter().filter(|tick| **tick != 0).count(), 1);
    }

    #[test]
    fn dnl_over_capacity_oldest_is_replaced() {
        let mut list = DeadNonceList::new(1);
        for nonce in 0..100 {
            list.insert(Timestamp::from_millis(u64::from(nonce) * 10), 1, nonce);
        }
        let now = Timestamp::from_millis(1000);
        assert!(list.contains(now, 1, 99));
        assert!(
            (0..50).all(|nonce| !list.contains(now, 1, nonce)),
            "those of the first half second went first"
        );
        assert_eq!((0..100).filter(|nonce| list.contains(now, 1, *nonce)).count(), SLOTS);
    }

    #[test]
    fn dnl_at_capacity_has_no_misses_and_few_false_hits() {
        let (count, mut list) = (200_000, DeadNonceList::new(200_000));
        let hash = |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        for at in 0..count {
            list.insert(Timestamp::from_nanos(at * 30_000), hash(at / 4), at as u32);
        }
        let now = Timestamp::from_nanos(count * 30_000);
        assert!((0..count).all(|at| list.contains(now, hash(at / 4), at as u32)));
        let false_hits =
            (count..10 * count).filter(|at| list.contains(now, hash(at / 4), *at as u32)).count();
        assert!(false_hits <= 2, "{false_hits} of 1.8 million");
    }

    /// Nonces of one name, and names with one nonce, are spread evenly over the lines.
    #[test]
    fn dnl_chosen_nonces_spread_over_lines() {
        let list = DeadNonceList::new(5000);
        for (step, names) in [(1_u32, false), (1 << 16, false), (0x0101_0101, false), (1, true)] {
            let mut crowd = vec![0; list.lines.len()];
            for at in 0..6000_u32 {
                let nonce = at.wrapping_mul(step);
                let (home, _) = if names {
                    list.locate(u64::from(at) << 20, 7)
                } else {
                    list.locate(0x1234_5678_9abc_def1, nonce)
                };
                crowd[home] += 1;
            }
            assert!(crowd.iter().max().unwrap() < &25, "{step} {names}: {:?}", crowd.iter().max());
        }
    }

    proptest! {
        #[test]
        fn dnl_any_operations_equals_model(
            operations in proptest::collection::vec(
                (0_u64..20, 0_u32..4, 0_u64..2500, any::<bool>()),
                1..200,
            ),
        ) {
            // At most 80 pairs.
            let mut list = DeadNonceList::new(80);
            let (mut model, mut now_ms) = (BTreeMap::new(), 0);
            for (name, nonce, wait_ms, insert) in operations {
                now_ms += wait_ms;
                let (now, hash) = (
                    Timestamp::from_millis(now_ms),
                    (name + 1).wrapping_mul(0xd6e8_feb8_6659_fd93),
                );
                let age_ms = model.get(&(name, nonce)).map(|since| now_ms - since);
                match (list.contains(now, hash, nonce), age_ms) {
                    (false, Some(age_ms)) => prop_assert!(age_ms > LIFETIME_MS),
                    (true, age_ms) => {
                        prop_assert!(age_ms.is_some_and(|age_ms| age_ms < FORGOTTEN_MS))
                    }
                    (false, None) => {}
                }
                if insert {
                    list.insert(now, hash, nonce);
                    model.insert((name, nonce), now_ms);
                }
            }
        }
    }
}
