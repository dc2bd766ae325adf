//! Protection against commands that are sent again.
//!
//! Per key, the last [`SEEN_MAX`] commands are remembered by time and digest; what is older than those is refused. So two programs that
//! share a key need not agree whose command comes first, and no command works twice. Whatever was signed longer ago than the grace
//! period is refused anyway, so a key that was silent for that long is forgotten.
//!
//! The clock may be set back. What was seen before is then of a time to come: it is kept until that time has passed, as it would work again
//! then, but does not stand in the way of the commands of now.
//!
//! Memory is bounded: [`KEYS_MAX`] keys that were verified, and as many that were not. Anyone can use a key that is not verified, so there the
//! one silent for longest gives way.

use crate::command::Refusal;
use std::collections::BTreeMap;

/// Commands remembered per key.
pub const SEEN_MAX: usize = 64;

/// Keys remembered that were verified, and as many that were not.
pub const KEYS_MAX: usize = 4096;

/// Spans of time per key that were set aside when the clock was set back.
const SPANS_MAX: usize = 8;

/// What was seen, per key.
#[derive(Debug)]
pub struct Replay {
    grace_ms: u64,
    verified: Keys,
    unverified: Keys,
    uses: u64,
    /// How often there were too many keys.
    shortages: u64,
}

type Keys = BTreeMap<[u8; 32], History>;

#[derive(Debug, Default)]
struct History {
    /// Times and digests, sorted.
    seen: Vec<(u64, u64)>,
    /// Times up to this one are refused, from `first_ms` on: some of them are no longer in `seen`.
    floor_ms: u64,
    /// The earliest time accepted since the clock was last set back.
    first_ms: u64,
    /// Spans of time, to come when they were set aside, whose commands are refused.
    spans: Vec<(u64, u64)>,
    /// Order of use, for making room.
    used: u64,
}

impl Replay {
    /// Commands signed up to `grace_ms` milliseconds before or after now are fresh.
    pub const fn new(grace_ms: u64) -> Self {
        Replay { grace_ms, verified: BTreeMap::new(), unverified: BTreeMap::new(), uses: 0, shortages: 0 }
    }

    /// Another grace period from now on; what was seen stays seen.
    pub const fn set_grace_ms(&mut self, grace_ms: u64) {
        self.grace_ms = grace_ms;
    }

    /// Checks that a command of that time is fresh.
    ///
    /// # Errors
    /// [`Refusal::Stale`].
    pub const fn check_fresh(&self, time_ms: u64, now_ms: u64) -> Result<(), Refusal> {
        let off_ms = now_ms.abs_diff(time_ms);
        if off_ms > self.grace_ms {
            return Err(Refusal::Stale { off_ms, limit_ms: self.grace_ms });
        }
        Ok(())
    }

    /// Remembers a command: `key` and `command` are digests of whatever identifies them; `now_ms` is the wall clock's.
    ///
    /// # Errors
    /// [`Refusal::Stale`], [`Refusal::Replayed`] or [`Refusal::TooManyKeys`]; nothing is remembered then.
    pub fn accept(
        &mut self,
        key: [u8; 32],
        is_verified: bool,
        time_ms: u64,
        command: u64,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        self.check_fresh(time_ms, now_ms)?;
        // Keys become known and unknown as the configuration is read again. What is not verified changes nothing for what is.
        let other = if is_verified { &self.unverified } else { &self.verified };
        if other.get(&key).is_some_and(|history| history.seen.binary_search(&(time_ms, command)).is_ok()) {
            return Err(Refusal::Replayed);
        }
        let grace_ms = self.grace_ms;
        let keys = if is_verified { &mut self.verified } else { &mut self.unverified };
        if keys.len() >= KEYS_MAX && !keys.contains_key(&key) {
            let oldest_ms = now_ms.saturating_sub(grace_ms);
            keys.retain(|_, history| history.last_ms() >= oldest_ms);
            if keys.len() >= KEYS_MAX {
                self.shortages += 1;
                if is_verified {
                    return Err(Refusal::TooManyKeys);
                }
                let longest_silent = keys.iter().min_by_key(|(_, history)| history.used).map(|(key, _)| *key);
                longest_silent.map(|key| keys.remove(&key));
            }
        }
        self.uses += 1;
        let history = keys.entry(key).or_default();
        history.used = self.uses;
        history.accept(time_ms, command, now_ms, grace_ms)
    }

    /// Keys remembered at this time.
    pub fn key_count(&self) -> usize {
        self.verified.len() + self.unverified.len()
    }

    /// Returns how often there were too many keys.
    pub const fn shortages(&self) -> u64 {
        self.shortages
    }
}

impl History {
    fn accept(&mut self, time_ms: u64, command: u64, now_ms: u64, grace_ms: u64) -> Result<(), Refusal> {
        self.set_aside(now_ms, grace_ms);
        if self.spans.iter().any(|(from_ms, to_ms)| (*from_ms..=*to_ms).contains(&time_ms)) {
            return Err(Refusal::Replayed);
        }
        if time_ms <= self.floor_ms {
            return Err(Refusal::Replayed);
        }
        let Err(place) = self.seen.binary_search(&(time_ms, command)) else {
            return Err(Refusal::Replayed);
        };
        self.first_ms = if self.seen.is_empty() { time_ms } else { self.first_ms.min(time_ms) };
        self.seen.insert(place, (time_ms, command));
        if self.seen.len() > SEEN_MAX {
            self.floor_ms = self.seen.remove(0).0;
        }
        Ok(())
    }

    /// Sets aside what was seen if it is of a time that is to come: the clock was set back. Spans whose time has passed are forgotten.
    fn set_aside(&mut self, now_ms: u64, grace_ms: u64) {
        self.spans.retain(|(_, to_ms)| to_ms.saturating_add(grace_ms) >= now_ms);
        if self.floor_ms <= now_ms.saturating_add(grace_ms) && !self.is_full_of_future(now_ms, grace_ms) {
            return;
        }
        let to_ms = self.seen.last().map_or(0, |(last_ms, _)| *last_ms).max(self.floor_ms);
        self.spans.push((self.first_ms, to_ms));
        self.spans.sort_unstable();
        if self.spans.len() > SPANS_MAX {
            // The two that are closest become one.
            let gap = |at: &usize| self.spans[at + 1].0.saturating_sub(self.spans[*at].1);
            let at = (0..SPANS_MAX).min_by_key(gap).expect("there are several");
            let next = self.spans.remove(at + 1);
            self.spans[at].1 = self.spans[at].1.max(next.1);
        }
        self.seen.clear();
        (self.floor_ms, self.first_ms) = (0, 0);
    }

    /// True when what is remembered leaves no place for the commands of now.
    fn is_full_of_future(&self, now_ms: u64, grace_ms: u64) -> bool {
        let to_come = |(time_ms, _): &(u64, u64)| *time_ms > now_ms.saturating_add(grace_ms);
        self.seen.len() == SEEN_MAX && self.seen.first().is_some_and(to_come)
    }

    /// The latest time that is remembered.
    fn last_ms(&self) -> u64 {
        let seen = self.seen.last().map_or(0, |(last_ms, _)| *last_ms);
        self.spans.iter().map(|(_, to_ms)| *to_ms).fold(seen.max(self.floor_ms), u64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: u64 = 1_700_000_000_000;
    const GRACE: u64 = 120_000;

    #[test]
    fn the_grace_period_has_two_ends() {
        let mut replay = Replay::new(GRACE);
        for (time, fresh) in
            [(NOW - GRACE - 1, false), (NOW - GRACE, true), (NOW + GRACE, true), (NOW + GRACE + 1, false)]
        {
            assert_eq!(replay.accept([1; 32], true, time, 0, NOW).is_ok(), fresh, "{time}");
        }
        let stale = Err(Refusal::Stale { off_ms: u64::MAX, limit_ms: GRACE });
        assert_eq!(replay.accept([2; 32], true, 0, 0, u64::MAX), stale);
        assert_eq!(replay.accept([2; 32], true, u64::MAX, 0, 0), stale);
    }

    #[test]
    fn two_programs_may_share_a_key_and_a_millisecond() {
        let mut replay = Replay::new(GRACE);
        replay.accept([1; 32], true, NOW, 1, NOW).unwrap();
        replay.accept([1; 32], true, NOW, 2, NOW).unwrap();
        replay.accept([1; 32], true, NOW - 5, 3, NOW).unwrap();
        assert_eq!(replay.accept([1; 32], true, NOW, 1, NOW), Err(Refusal::Replayed));
        assert_eq!(replay.accept([1; 32], true, NOW - 5, 3, NOW), Err(Refusal::Replayed));
        replay.accept([2; 32], true, NOW, 1, NOW).unwrap();
    }

    #[test]
    fn keys_are_bounded_and_silent_ones_forgotten() {
        let mut replay = Replay::new(GRACE);
        let key = |n: usize| nw_wire::sha256(&[&n.to_le_bytes()]);
        (0..KEYS_MAX).for_each(|n| replay.accept(key(n), true, NOW, 0, NOW).unwrap());
        assert_eq!(replay.accept(key(KEYS_MAX), true, NOW, 0, NOW), Err(Refusal::TooManyKeys));
        replay.accept(key(0), true, NOW + 1, 0, NOW).unwrap(); // those known still may
        let later = NOW + GRACE + 1;
        replay.accept(key(KEYS_MAX), true, later, 0, later).unwrap();
        assert_eq!(replay.key_count(), 2);
    }

    #[test]
    fn clock_set_back_locks_no_key_out_and_replays_stay_refused() {
        for hour_count in [1, 10 * SEEN_MAX as u64] {
            let mut replay = Replay::new(GRACE);
            let wrong = NOW + 3_600_000;
            (0..hour_count).for_each(|n| replay.accept([1; 32], true, wrong + n, n, wrong + n).expect("new"));
            // The clock is corrected: commands of now are taken, many of them, in order.
            for n in 0..200 {
                assert_eq!(replay.accept([1; 32], true, NOW + n, n, NOW + n), Ok(()), "{hour_count}, {n}");
            }
            assert_eq!(replay.accept([1; 32], true, NOW + 199, 199, NOW + 200), Err(Refusal::Replayed));
            let stale = replay.accept([1; 32], true, wrong, 0, NOW + 200);
            assert!(matches!(stale, Err(Refusal::Stale { .. })));
            // The clock comes to the time it once showed: what was seen then does not work again.
            for n in 0..hour_count {
                let again = replay.accept([1; 32], true, wrong + n, n, wrong + n);
                assert_eq!(again, Err(Refusal::Replayed), "{hour_count}, {n}");
            }
            let later = wrong + hour_count + 1;
            assert_eq!(replay.accept([1; 32], true, later, 9, later), Ok(()));
            // Long after that nothing of it is kept.
            let late = later + GRACE + 1;
            assert_eq!(replay.accept([1; 32], true, late, 9, late), Ok(()));
            assert!(replay.verified[&[1; 32]].spans.is_empty());
        }
    }

    #[test]
    fn clock_that_jumps_to_and_fro_keeps_a_bounded_number_of_spans() {
        let mut replay = Replay::new(GRACE);
        for step in (0..40u64).rev() {
            let start = NOW + step * 10_000_000;
            for n in 0..2 * SEEN_MAX as u64 {
                assert_eq!(replay.accept([1; 32], true, start + n, n, start + n), Ok(()));
            }
            assert!(replay.verified[&[1; 32]].spans.len() <= SPANS_MAX);
        }
    }

    #[test]
    fn unverified_keys_are_forgotten_instead_of_locking_others_out() {
        let mut replay = Replay::new(GRACE);
        let key = |n: usize| nw_wire::sha256(&[&n.to_le_bytes()]);
        (0..2 * KEYS_MAX).for_each(|n| replay.accept(key(n), false, NOW, 0, NOW).unwrap());
        assert_eq!((replay.key_count(), replay.shortages()), (KEYS_MAX, KEYS_MAX as u64));
        replay.accept([1; 32], true, NOW, 0, NOW).unwrap();
        assert_eq!(replay.accept(key(2 * KEYS_MAX - 1), false, NOW, 0, NOW), Err(Refusal::Replayed));
    }

    proptest! {
        /// Whatever the order, no command is accepted twice, and one that grows in time always is.
        #[test]
        fn nothing_works_twice(commands in proptest::collection::vec((0u64..200, 0u64..3), 1..400)) {
            let mut replay = Replay::new(GRACE);
            let mut accepted = BTreeSet::new();
            let mut latest = 0;
            for (offset, command) in commands {
                let time = NOW + offset;
                let outcome = replay.accept([0; 32], true, time, command, NOW);
                if outcome.is_ok() {
                    prop_assert!(accepted.insert((time, command)));
                } else {
                    prop_assert!(time <= latest);
                }
                latest = latest.max(time);
            }
            prop_assert!(replay.verified[&[0; 32]].seen.len() <= SEEN_MAX);
        }
    }
}
