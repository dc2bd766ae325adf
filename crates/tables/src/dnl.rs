//! The dead nonce list: which Interests were here lately, though their pending entry has gone. What loops is known by it.
//!
//! Not the pairs of name and nonce are kept but 32-bit fingerprints of them, ten to a cache line, each with the tick (0.27 s) of its
//! coming. Who finds no free or expired place goes one line further, at most [`LINES_MAX`], and leaves word on the way; where even that
//! fails, the oldest of the home line is lost. Nothing is swept and memory is fixed.
//!
//! Besides, as many octets as there are lines say, by a name's hash alone, when the last pair of such a name came. A line is looked for only where
//! that was lately: where few Interests end without an answer these octets, which stay in a near cache, tell nearly always.
//!
//! Nonces of Interests that were answered are kept apart, one place a pair and a later one instead of an earlier one: nearly every Interest is answered, and
//! what is remembered of these must cost little and push out nothing else. A pair of which `n` others came since is lost with a probability of
//! `n / capacity`; as a looping packet is back within its path's round trip, that is rare.
//!
//! A pair is found for 6.1 to 6.5 seconds; one that never was there with a probability of about 10 / 2^32.

use crate::Instant;
use crate::memory::{Lines, equal_doubles};
use zerocopy::FromZeros;

/// How long a pair is remembered at least, milliseconds.
pub const LIFETIME_MS: u64 = 6000;

/// Cache lines that a search looks at, at most.
pub const LINES_MAX: usize = 8;

const TICK_SHIFT: u32 = 28;
const PLACES: usize = 10;
/// Places per line that are in use when the list holds what it was made for: 97 of 100 pairs stand in their home line, and fewer than one
/// in a million is lost. (At 6, one in a hundred thousand.)
const LOAD: usize = 5;
/// Ticks after which a pair is forgotten: the one of its coming counts as none.
const LIFETIME_TICKS: u16 = (LIFETIME_MS * 1_000_000).div_ceil(1 << TICK_SHIFT) as u16;
/// Ticks are kept modulo this (4.9 hours) plus one; 0 is "never".
const TICKS: u64 = u16::MAX as u64;
/// Ticks, modulo 256, for which a pair's coming counts as late enough to look for it: one more than its life, for the 0 that is counted as 1.
const LATELY_TICKS: u8 = LIFETIME_TICKS as u8 + 1;

#[derive(FromZeros)]
#[repr(C, align(64))]
struct Line {
    fingerprints: [u32; PLACES],
    ticks: [u16; PLACES],
    /// When a pair last went past this line.
    passed: u16,
    spare: u16,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    /// The place of a live fingerprint.
    #[inline]
    fn find(&self, fingerprint: u32, now: u16) -> Option<usize> {
        let mut mask = equal_doubles(&self.fingerprints, fingerprint);
        while mask != 0 {
            let place = mask.trailing_zeros() as usize;
            if is_live(self.ticks[place], now) {
                return Some(place);
            }
            mask &= mask - 1;
        }
        None
    }

    #[inline]
    fn free(&self, now: u16) -> Option<usize> {
        self.ticks.iter().position(|tick| !is_live(*tick, now))
    }

    /// The oldest place; any of them when several came in one tick, so that a flood does not wear out one.
    fn oldest(&self, fingerprint: u32, now: u16) -> usize {
        let mut oldest = fingerprint as usize % PLACES;
        for place in 0..PLACES {
            if age(self.ticks[place], now) > age(self.ticks[oldest], now) {
                oldest = place;
            }
        }
        oldest
    }
}

/// See the module.
pub struct DeadNonceList {
    lines: Lines<Line>,
    /// By a name's hash: when the last pair of such a name came, by [`short_tick`]; 0 is "never". What is long ago counts as late again for 6 s in 68:
    /// a line is looked for in vain then.
    latest: Lines<u8>,
    /// Pairs of answered Interests: 48 bits of the pair, 16 of the tick of its coming.
    answered: Lines<u64>,
}

impl DeadNonceList {
    /// For as many pairs within [`LIFETIME_MS`] as `capacity`, and as many of answered Interests; 21 bytes each, taken when touched.
    pub fn new(capacity: usize) -> Self {
        let lines = capacity.div_ceil(LOAD).clamp(1, u32::MAX as usize);
        DeadNonceList {
            lines: Lines::new(lines),
            latest: Lines::new(lines),
            answered: Lines::new(lines * LOAD),
        }
    }

    /// True when the pair was inserted within the last [`LIFETIME_MS`] (and may be for half a second more).
    #[inline]
    pub fn contains(&self, now: Instant, name_hash: u64, nonce: u32) -> bool {
        self.was_answered(now, name_hash, nonce)
            || self.came_lately(now, name_hash) && self.is_kept(now, name_hash, nonce)
    }

    /// Remembers the nonce of an Interest that was answered. If a content store holds the answer a copy does not come as far as this list; if not, it is a loop.
    #[inline(always)]
    pub fn insert_answered(&mut self, now: Instant, name_hash: u64, nonce: u32) {
        let (at, pair) = self.place_answered(name_hash, nonce);
        self.answered[at] = pair | u64::from(tick(now));
    }

    #[inline(always)]
    fn was_answered(&self, now: Instant, name_hash: u64, nonce: u32) -> bool {
        let (at, pair) = self.place_answered(name_hash, nonce);
        let kept = self.answered[at];
        (kept ^ pair) >> u16::BITS == 0 && is_live(kept as u16, tick(now))
    }

    /// Where the pair of an answered Interest stands, and what is kept of it. Different nonces of one name differ.
    #[inline(always)]
    fn place_answered(&self, name_hash: u64, nonce: u32) -> (usize, u64) {
        let pair = name_hash ^ u64::from(nonce).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((((pair >> 32) * self.answered.len() as u64) >> 32) as usize, pair << u16::BITS)
    }

    /// True when a pair of this name may be kept.
    #[inline(always)]
    fn came_lately(&self, now: Instant, name_hash: u64) -> bool {
        let latest = self.latest[self.latest_of(name_hash)];
        latest != 0 && short_tick(now).wrapping_sub(latest) <= LATELY_TICKS
    }

    /// True when the pair stands in its home line or behind it, and is not forgotten.
    #[inline(never)]
    fn is_kept(&self, now: Instant, name_hash: u64, nonce: u32) -> bool {
        let (mut at, fingerprint) = self.place(name_hash, nonce);
        let now = tick(now);
        for _ in 0..LINES_MAX {
            let line = &self.lines[at];
            if line.find(fingerprint, now).is_some() {
                return true;
            }
            if !is_live(line.passed, now) {
                return false;
            }
            at = self.after(at);
        }
        false
    }

    /// Remembers a pair from now on.
    pub fn insert(&mut self, now: Instant, name_hash: u64, nonce: u32) {
        let (home, fingerprint) = self.place(name_hash, nonce);
        let latest = self.latest_of(name_hash);
        self.latest[latest] = short_tick(now);
        let now = tick(now);
        let mut at = home;
        for _ in 0..LINES_MAX {
            let line = &self.lines[at];
            // One that is there is renewed.
            if let Some(place) = line.find(fingerprint, now).or_else(|| line.free(now)) {
                self.lines[at].fingerprints[place] = fingerprint;
                self.lines[at].ticks[place] = now;
                self.leave_word(home, at, now);
                return;
            }
            at = self.after(at);
        }
        let line = &mut self.lines[home];
        let oldest = line.oldest(fingerprint, now);
        line.fingerprints[oldest] = fingerprint;
        line.ticks[oldest] = now;
    }

    /// Asks for the memory that [`contains`](Self::contains) will need.
    #[inline(always)]
    pub fn prefetch(&self, now: Instant, name_hash: u64, nonce: u32) {
        self.answered.prefetch(self.place_answered(name_hash, nonce).0);
        if self.came_lately(now, name_hash) {
            self.lines.prefetch(self.place(name_hash, nonce).0);
        }
    }

    /// Pairs there is room for.
    pub fn capacity(&self) -> usize {
        self.lines.len() * LOAD
    }

    /// Octets of address space: what resident memory can become.
    pub fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.latest.memory_bytes() + self.answered.memory_bytes()
    }

    /// Home line and fingerprint, from different bits. The name's hash is keyed, so neither can be foreseen by whoever chooses nonces.
    #[inline]
    fn place(&self, name_hash: u64, nonce: u32) -> (usize, u32) {
        let twice = u64::from(nonce) << 32 | u64::from(nonce);
        let product =
            u128::from(name_hash ^ 0x9e37_79b9_7f4a_7c15) * u128::from(name_hash.rotate_left(32) ^ twice);
        let mixed = product as u64 ^ (product >> 64) as u64;
        ((((mixed >> 32) * self.lines.len() as u64) >> 32) as usize, mixed as u32)
    }

    /// Where `latest` speaks of names with this hash.
    #[inline(always)]
    fn latest_of(&self, name_hash: u64) -> usize {
        (((name_hash >> 32) * self.latest.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }

    fn leave_word(&mut self, home: usize, end: usize, now: u16) {
        let mut at = home;
        while at != end {
            self.lines[at].passed = now;
            at = self.after(at);
        }
    }
}

impl core::fmt::Debug for DeadNonceList {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "DeadNonceList(of {})", self.capacity())
    }
}

#[inline]
fn tick(now: Instant) -> u16 {
    ((now.as_nanos() >> TICK_SHIFT) % TICKS) as u16 + 1
}

/// As [`tick`], modulo 256.
#[inline(always)]
fn short_tick(now: Instant) -> u8 {
    ((now.as_nanos() >> TICK_SHIFT) as u8).max(1)
}

/// Ticks since `tick`, in the circle of all.
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

    /// When a pair is sure to be forgotten, milliseconds.
    const FORGOTTEN_MS: u64 = 6500;

    #[test]
    fn remembered_for_its_lifetime_and_then_forgotten() {
        let mut list = DeadNonceList::new(1000);
        // The circle of ticks closes after 65535 of them.
        let around_ms = (TICKS << TICK_SHIFT) / 1_000_000;
        // That of the octets that say when the latest came, after 256.
        let short_ms = (256 << TICK_SHIFT) / 1_000_000;
        let starts = [0, 1, 267, 268, 269, 1 << 40]
            .into_iter()
            .chain((around_ms - 7000..around_ms + 1000).step_by(83))
            .chain((short_ms - 7000..short_ms + 1000).step_by(83));
        for start in starts {
            let at = |ms: u64| Instant::from_millis(start + ms);
            assert!(!list.contains(at(0), start, 5));
            list.insert(at(0), start, 5);
            assert!(list.came_lately(at(6000), start), "its line is looked for {start}");
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
    fn answered_is_remembered_for_its_lifetime_and_apart() {
        let mut list = DeadNonceList::new(1000);
        let hash = |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let start = Instant::from_millis(5000);
        list.insert(start, hash(0), 7);
        for nonce in 0..10_000 {
            list.insert_answered(start, hash(u64::from(nonce)), nonce);
        }
        assert!(list.contains(start, hash(0), 7), "what was not answered is not pushed out");
        list.insert_answered(start, hash(5), 1);
        list.insert_answered(start, hash(5), 2);
        for nonce in [1, 2] {
            for ms in [0, 3000, 6000] {
                assert!(list.contains(Instant::from_millis(5000 + ms), hash(5), nonce), "{ms}");
            }
            assert!(!list.contains(Instant::from_millis(5000 + FORGOTTEN_MS), hash(5), nonce));
        }
        assert!(!list.contains(start, hash(5), 3) && !list.contains(start, hash(6), 1));
    }

    #[test]
    fn inserting_again_renews() {
        let mut list = DeadNonceList::new(1);
        for step in 0..10 {
            list.insert(Instant::from_millis(step * 4000), 1, 2);
        }
        assert!(list.contains(Instant::from_millis(9 * 4000 + 6000), 1, 2));
        assert_eq!(list.lines[0].ticks.iter().filter(|tick| **tick != 0).count(), 1);
    }

    #[test]
    fn beyond_capacity_the_oldest_make_room() {
        let mut list = DeadNonceList::new(1);
        for nonce in 0..100 {
            list.insert(Instant::from_millis(u64::from(nonce) * 10), 1, nonce);
        }
        let now = Instant::from_millis(1000);
        assert!(list.contains(now, 1, 99));
        assert!(
            (0..50).all(|nonce| !list.contains(now, 1, nonce)),
            "those of the first half second went first"
        );
        assert_eq!((0..100).filter(|nonce| list.contains(now, 1, *nonce)).count(), PLACES);
    }

    #[test]
    fn a_list_at_capacity_loses_none_and_invents_few() {
        let (count, mut list) = (200_000, DeadNonceList::new(200_000));
        let hash = |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        for at in 0..count {
            list.insert(Instant::from_nanos(at * 30_000), hash(at / 4), at as u32);
        }
        let now = Instant::from_nanos(count * 30_000);
        assert!((0..count).all(|at| list.contains(now, hash(at / 4), at as u32)));
        let invented = (count..10 * count).filter(|at| list.contains(now, hash(at / 4), *at as u32)).count();
        assert!(invented <= 2, "{invented} of 1.8 million");
    }

    /// Nonces of one name, and names with one nonce, spread over the lines alike.
    #[test]
    fn chosen_nonces_do_not_crowd() {
        let list = DeadNonceList::new(5000);
        for (step, names) in [(1_u32, false), (1 << 16, false), (0x0101_0101, false), (1, true)] {
            let mut crowd = vec![0; list.lines.len()];
            for at in 0..6000_u32 {
                let nonce = at.wrapping_mul(step);
                let (home, _) = if names {
                    list.place(u64::from(at) << 20, 7)
                } else {
                    list.place(0x1234_5678_9abc_def1, nonce)
                };
                crowd[home] += 1;
            }
            assert!(crowd.iter().max().unwrap() < &25, "{step} {names}: {:?}", crowd.iter().max());
        }
    }

    proptest! {
        #[test]
        fn none_is_missed_and_none_is_kept(
            operations in proptest::collection::vec((0_u64..20, 0_u32..4, 0_u64..2500, any::<bool>()), 1..200),
        ) {
            // 80 pairs at most.
            let mut list = DeadNonceList::new(80);
            let (mut model, mut now_ms) = (BTreeMap::new(), 0);
            for (name, nonce, wait_ms, insert) in operations {
                now_ms += wait_ms;
                let (now, hash) = (Instant::from_millis(now_ms), (name + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
                let age_ms = model.get(&(name, nonce)).map(|since| now_ms - since);
                match (list.contains(now, hash, nonce), age_ms) {
                    (false, Some(age_ms)) => prop_assert!(age_ms > LIFETIME_MS),
                    (true, age_ms) => prop_assert!(age_ms.is_some_and(|age_ms| age_ms < FORGOTTEN_MS)),
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
