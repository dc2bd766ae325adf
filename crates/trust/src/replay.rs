//! Protection against commands that are sent again.
//!
//! Per key, the last [`SEEN_MAX`] commands are remembered by time and digest; what is older than those is refused. So two programs that
//! share a key need not agree whose command comes first, and no command works twice. Whatever was signed longer ago than the grace
//! period is refused anyway, so a key that was silent for that long is forgotten. Memory is bounded: [`KEYS_MAX`] keys.

use crate::command::Refusal;
use std::collections::BTreeMap;

/// Commands remembered per key.
pub const SEEN_MAX: usize = 64;

/// Keys remembered.
pub const KEYS_MAX: usize = 4096;

/// What was seen, per key.
#[derive(Debug)]
pub struct Replay {
    grace_ms: u64,
    keys: BTreeMap<[u8; 32], History>,
}

#[derive(Debug, Default)]
struct History {
    /// Times and digests, sorted.
    seen: Vec<(u64, u64)>,
    /// Whatever is not later than this is refused.
    floor_ms: u64,
}

impl Replay {
    /// Commands signed up to `grace_ms` milliseconds before or after now are fresh.
    pub const fn new(grace_ms: u64) -> Self {
        Replay { grace_ms, keys: BTreeMap::new() }
    }

    /// Another grace period from now on; what was seen stays seen.
    pub const fn set_grace_ms(&mut self, grace_ms: u64) {
        self.grace_ms = grace_ms;
    }

    /// True when a command of that time is fresh.
    pub const fn is_fresh(&self, time_ms: u64, now_ms: u64) -> bool {
        now_ms.abs_diff(time_ms) <= self.grace_ms
    }

    /// Remembers a command: `key` and `command` are digests of whatever identifies them.
    ///
    /// # Errors
    /// [`Refusal::Stale`], [`Refusal::Replayed`] or [`Refusal::TooManyKeys`]; nothing is remembered then.
    pub fn accept(&mut self, key: [u8; 32], time_ms: u64, command: u64, now_ms: u64) -> Result<(), Refusal> {
        if !self.is_fresh(time_ms, now_ms) {
            return Err(Refusal::Stale);
        }
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&key) {
            let oldest_ms = now_ms.saturating_sub(self.grace_ms);
            self.keys
                .retain(|_, history| history.seen.last().is_some_and(|(last_ms, _)| *last_ms >= oldest_ms));
            if self.keys.len() >= KEYS_MAX {
                return Err(Refusal::TooManyKeys);
            }
        }
        self.keys.entry(key).or_default().accept(time_ms, command)
    }

    /// Keys remembered at this time.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }
}

impl History {
    fn accept(&mut self, time_ms: u64, command: u64) -> Result<(), Refusal> {
        if time_ms <= self.floor_ms {
            return Err(Refusal::Replayed);
        }
        let Err(place) = self.seen.binary_search(&(time_ms, command)) else {
            return Err(Refusal::Replayed);
        };
        self.seen.insert(place, (time_ms, command));
        if self.seen.len() > SEEN_MAX {
            self.floor_ms = self.seen.remove(0).0;
        }
        Ok(())
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
            assert_eq!(replay.accept([1; 32], time, 0, NOW).is_ok(), fresh, "{time}");
        }
        assert_eq!(replay.accept([2; 32], 0, 0, u64::MAX), Err(Refusal::Stale));
        assert_eq!(replay.accept([2; 32], u64::MAX, 0, 0), Err(Refusal::Stale));
    }

    #[test]
    fn two_programs_may_share_a_key_and_a_millisecond() {
        let mut replay = Replay::new(GRACE);
        replay.accept([1; 32], NOW, 1, NOW).unwrap();
        replay.accept([1; 32], NOW, 2, NOW).unwrap();
        replay.accept([1; 32], NOW - 5, 3, NOW).unwrap();
        assert_eq!(replay.accept([1; 32], NOW, 1, NOW), Err(Refusal::Replayed));
        assert_eq!(replay.accept([1; 32], NOW - 5, 3, NOW), Err(Refusal::Replayed));
        replay.accept([2; 32], NOW, 1, NOW).unwrap();
    }

    #[test]
    fn keys_are_bounded_and_silent_ones_forgotten() {
        let mut replay = Replay::new(GRACE);
        let key = |n: usize| nw_wire::sha256(&[&n.to_le_bytes()]);
        (0..KEYS_MAX).for_each(|n| replay.accept(key(n), NOW, 0, NOW).unwrap());
        assert_eq!(replay.accept(key(KEYS_MAX), NOW, 0, NOW), Err(Refusal::TooManyKeys));
        replay.accept(key(0), NOW + 1, 0, NOW).unwrap(); // those known still may
        let later = NOW + GRACE + 1;
        replay.accept(key(KEYS_MAX), later, 0, later).unwrap();
        assert_eq!(replay.key_count(), 2);
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
                let outcome = replay.accept([0; 32], time, command, NOW);
                if outcome.is_ok() {
                    prop_assert!(accepted.insert((time, command)));
                } else {
                    prop_assert!(time <= latest);
                }
                latest = latest.max(time);
            }
            prop_assert!(replay.keys[&[0; 32]].seen.len() <= SEEN_MAX);
        }
    }
}
