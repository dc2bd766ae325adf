//! ReplayGuard protection for signed commands.
//!
//! For each key, the times and digests of its last [`SEEN_MAX`] commands are remembered; older
//! commands are refused. So two programs that share a key need not agree on an order, and no
//! command works twice. Commands older than the grace period are refused anyway, so a key without
//! commands for that long may be forgotten.
//!
//! The clock may be set back. Commands seen before then lie in the future: they are kept (as
//! blocked spans) until their time has passed, as they would be fresh again then, but they do not
//! block commands of the present.
//!
//! Memory is bounded: [`KEYS_MAX`] verified keys, and as many unverified ones. Anyone can use an
//! unverified key, so of these the least recently used is evicted.

use crate::command::Refusal;
use std::collections::BTreeMap;

/// Maximum number of commands remembered per key.
pub const SEEN_MAX: usize = 64;

/// Maximum number of verified keys remembered, and of unverified ones.
pub const KEYS_MAX: usize = 4096;

/// Maximum number of blocked spans per key.
const BLOCKED_SPANS_MAX: usize = 8;

/// The replay history of all keys.
#[derive(Debug)]
pub struct ReplayGuard {
    grace_ms: u64,
    verified: Keys,
    unverified: Keys,
    uses: u64,
    /// How often a table of keys was full.
    shortages: u64,
}

type Keys = BTreeMap<[u8; 32], KeyHistory>;

#[derive(Debug, Default)]
struct KeyHistory {
    /// Times (milliseconds since 1970) and digests, sorted.
    seen: Vec<(u64, u64)>,
    /// Times up to this one are refused, as some of them are no longer in `seen`.
    floor_ms: u64,
    /// The earliest time accepted since the clock was last set back.
    first_ms: u64,
    /// Spans of time in the future of the clock, set back since, in which all commands are refused.
    blocked_spans: Vec<(u64, u64)>,
    /// The value of `uses` at the last use, for eviction.
    used: u64,
}

impl ReplayGuard {
    /// Creates an empty history. Commands are fresh up to `grace_ms` milliseconds before or after
    /// now.
    pub const fn new(grace_ms: u64) -> Self {
        ReplayGuard {
            grace_ms,
            verified: BTreeMap::new(),
            unverified: BTreeMap::new(),
            uses: 0,
            shortages: 0,
        }
    }

    /// Changes the grace period. The history stays.
    pub const fn set_grace_ms(&mut self, grace_ms: u64) {
        self.grace_ms = grace_ms;
    }

    /// Checks that a command of that time is fresh: within the grace period.
    ///
    /// # Errors
    /// [`Refusal::Stale`] if it is not.
    pub const fn check_fresh(&self, time_ms: u64, now_ms: u64) -> Result<(), Refusal> {
        let off_ms = now_ms.abs_diff(time_ms);
        if off_ms > self.grace_ms {
            return Err(Refusal::Stale { off_ms, limit_ms: self.grace_ms });
        }
        Ok(())
    }

    /// Records a command if it is fresh and new. `key` and `command` are digests that identify
    /// them; `now_ms` is the wall clock, milliseconds since 1970.
    ///
    /// # Errors
    /// [`Refusal::Stale`], [`Refusal::Replayed`] or [`Refusal::TooManyKeys`]; nothing is recorded
    /// then.
    pub fn accept(
        &mut self,
        key: [u8; 32],
        is_verified: bool,
        time_ms: u64,
        command: u64,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        self.check_fresh(time_ms, now_ms)?;
        // A key may change between verified and unverified when the configuration is reloaded, so
        // both histories are checked. An unverified command never changes the verified history.
        let opposite = if is_verified { &self.unverified } else { &self.verified };
        if opposite
            .get(&key)
            .is_some_and(|history| history.seen.binary_search(&(time_ms, command)).is_ok())
        {
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
                let oldest =
                    keys.iter().min_by_key(|(_, history)| history.used).map(|(key, _)| *key);
                oldest.map(|key| keys.remove(&key));
            }
        }
        self.uses += 1;
        let history = keys.entry(key).or_default();
        history.used = self.uses;
        history.accept(time_ms, command, now_ms, grace_ms)
    }

    /// Returns the number of keys remembered.
    pub fn key_count(&self) -> usize {
        self.verified.len() + self.unverified.len()
    }

    /// Returns how often a table of keys was full.
    pub const fn shortages(&self) -> u64 {
        self.shortages
    }
}

impl KeyHistory {
    fn accept(
        &mut self,
        time_ms: u64,
        command: u64,
        now_ms: u64,
        grace_ms: u64,
    ) -> Result<(), Refusal> {
        self.block_future(now_ms, grace_ms);
        if self.blocked_spans.iter().any(|(from_ms, to_ms)| (*from_ms..=*to_ms).contains(&time_ms))
        {
            return Err(Refusal::Replayed);
        }
        if time_ms <= self.floor_ms {
            return Err(Refusal::Replayed);
        }
        let Err(index) = self.seen.binary_search(&(time_ms, command)) else {
            return Err(Refusal::Replayed);
        };
        self.first_ms = if self.seen.is_empty() { time_ms } else { self.first_ms.min(time_ms) };
        self.seen.insert(index, (time_ms, command));
        if self.seen.len() > SEEN_MAX {
            self.floor_ms = self.seen.remove(0).0;
        }
        Ok(())
    }

    /// After the clock was set back, moves the history of the future into a blocked span. Removes
    /// blocked spans whose time has passed.
    fn block_future(&mut self, now_ms: u64, grace_ms: u64) {
        let spans = &mut self.blocked_spans;
        spans.retain(|(_, to_ms)| to_ms.saturating_add(grace_ms) >= now_ms);
        if self.floor_ms <= now_ms.saturating_add(grace_ms)
            && !self.is_full_of_future(now_ms, grace_ms)
        {
            return;
        }
        let to_ms = self.seen.last().map_or(0, |(last_ms, _)| *last_ms).max(self.floor_ms);
        let spans = &mut self.blocked_spans;
        spans.push((self.first_ms, to_ms));
        spans.sort_unstable();
        if spans.len() > BLOCKED_SPANS_MAX {
            // Merge the two closest spans.
            let gap = |at: &usize| spans[at + 1].0.saturating_sub(spans[*at].1);
            let at = (0..BLOCKED_SPANS_MAX).min_by_key(gap).expect("there are several");
            let next = spans.remove(at + 1);
            spans[at].1 = spans[at].1.max(next.1);
        }
        self.seen.clear();
        (self.floor_ms, self.first_ms) = (0, 0);
    }

    /// Returns whether `seen` is full of commands from the future, with no space for present ones.
    fn is_full_of_future(&self, now_ms: u64, grace_ms: u64) -> bool {
        let is_future = |(time_ms, _): &(u64, u64)| *time_ms > now_ms.saturating_add(grace_ms);
        self.seen.len() == SEEN_MAX && self.seen.first().is_some_and(is_future)
    }

    /// Returns the latest time that is remembered, milliseconds since 1970.
    fn last_ms(&self) -> u64 {
        let seen = self.seen.last().map_or(0, |(last_ms, _)| *last_ms);
        self.blocked_spans.iter().map(|(_, to_ms)| *to_ms).fold(seen.max(self.floor_ms), u64::max)
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
    fn command_outside_grace_period_is_stale() {
        let mut replay = ReplayGuard::new(GRACE);
        for (time, fresh) in [
            (NOW - GRACE - 1, false),
            (NOW - GRACE, true),
            (NOW + GRACE, true),
            (NOW + GRACE + 1, false),
        ] {
            assert_eq!(replay.accept([1; 32], true, time, 0, NOW).is_ok(), fresh, "{time}");
        }
        let stale = Err(Refusal::Stale { off_ms: u64::MAX, limit_ms: GRACE });
        assert_eq!(replay.accept([2; 32], true, 0, 0, u64::MAX), stale);
        assert_eq!(replay.accept([2; 32], true, u64::MAX, 0, 0), stale);
    }

    #[test]
    fn programs_with_one_key_may_sign_in_one_millisecond() {
        let mut replay = ReplayGuard::new(GRACE);
        replay.accept([1; 32], true, NOW, 1, NOW).unwrap();
        replay.accept([1; 32], true, NOW, 2, NOW).unwrap();
        replay.accept([1; 32], true, NOW - 5, 3, NOW).unwrap();
        assert_eq!(replay.accept([1; 32], true, NOW, 1, NOW), Err(Refusal::Replayed));
        assert_eq!(replay.accept([1; 32], true, NOW - 5, 3, NOW), Err(Refusal::Replayed));
        replay.accept([2; 32], true, NOW, 1, NOW).unwrap();
    }

    #[test]
    fn verified_keys_are_bounded_and_idle_ones_removed() {
        let mut replay = ReplayGuard::new(GRACE);
        let key = |n: usize| nw_wire::sha256(&[&n.to_le_bytes()]);
        (0..KEYS_MAX).for_each(|n| replay.accept(key(n), true, NOW, 0, NOW).unwrap());
        assert_eq!(replay.accept(key(KEYS_MAX), true, NOW, 0, NOW), Err(Refusal::TooManyKeys));
        replay.accept(key(0), true, NOW + 1, 0, NOW).unwrap(); // a remembered key still works
        let later = NOW + GRACE + 1;
        replay.accept(key(KEYS_MAX), true, later, 0, later).unwrap();
        assert_eq!(replay.key_count(), 2);
    }

    #[test]
    fn clock_set_back_locks_no_key_out_and_replays_stay_refused() {
        for hour_count in [1, 10 * SEEN_MAX as u64] {
            let mut replay = ReplayGuard::new(GRACE);
            let wrong = NOW + 3_600_000;
            (0..hour_count)
                .for_each(|n| replay.accept([1; 32], true, wrong + n, n, wrong + n).expect("new"));
            // The clock is corrected: commands of the present are accepted, many of them, in order.
            for n in 0..200 {
                assert_eq!(
                    replay.accept([1; 32], true, NOW + n, n, NOW + n),
                    Ok(()),
                    "{hour_count}, {n}"
                );
            }
            assert_eq!(
                replay.accept([1; 32], true, NOW + 199, 199, NOW + 200),
                Err(Refusal::Replayed)
            );
            let stale = replay.accept([1; 32], true, wrong, 0, NOW + 200);
            assert!(matches!(stale, Err(Refusal::Stale { .. })));
            // The clock reaches the time it showed before: the commands seen then are still
            // refused.
            for n in 0..hour_count {
                let again = replay.accept([1; 32], true, wrong + n, n, wrong + n);
                assert_eq!(again, Err(Refusal::Replayed), "{hour_count}, {n}");
            }
            let later = wrong + hour_count + 1;
            assert_eq!(replay.accept([1; 32], true, later, 9, later), Ok(()));
            // Long after that, no blocked span remains.
            let late = later + GRACE + 1;
            assert_eq!(replay.accept([1; 32], true, late, 9, late), Ok(()));
            assert!(replay.verified[&[1; 32]].blocked_spans.is_empty());
        }
    }

    #[test]
    fn clock_jumping_back_repeatedly_keeps_blocked_spans_bounded() {
        let mut replay = ReplayGuard::new(GRACE);
        for step in (0..40u64).rev() {
            let start = NOW + step * 10_000_000;
            for n in 0..2 * SEEN_MAX as u64 {
                assert_eq!(replay.accept([1; 32], true, start + n, n, start + n), Ok(()));
            }
            assert!(replay.verified[&[1; 32]].blocked_spans.len() <= BLOCKED_SPANS_MAX);
        }
    }

    #[test]
    fn unverified_keys_full_evicts_the_least_recently_used() {
        let mut replay = ReplayGuard::new(GRACE);
        let key = |n: usize| nw_wire::sha256(&[&n.to_le_bytes()]);
        (0..2 * KEYS_MAX).for_each(|n| replay.accept(key(n), false, NOW, 0, NOW).unwrap());
        assert_eq!((replay.key_count(), replay.shortages()), (KEYS_MAX, KEYS_MAX as u64));
        replay.accept([1; 32], true, NOW, 0, NOW).unwrap();
        assert_eq!(
            replay.accept(key(2 * KEYS_MAX - 1), false, NOW, 0, NOW),
            Err(Refusal::Replayed)
        );
    }

    proptest! {
        /// In any order, no command is accepted twice, and one newer than all others always is.
        #[test]
        fn no_command_is_accepted_twice(commands in proptest::collection::vec((0u64..200, 0u64..3), 1..400)) {
            let mut replay = ReplayGuard::new(GRACE);
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
