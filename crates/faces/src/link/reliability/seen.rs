//! Which Sequences came lately, so that a copy is known. Bounded: two windows of 65,536 numbers, the older of which is forgotten when the newer
//! is four seconds old or a number lies outside it. What is forgotten is taken again; forwarding knows copies of network packets, too.
//!
//! The time bound is for a peer that starts anew and gives the same numbers again.

use core::time::Duration;
use nw_element_api::Instant;

const WORDS: usize = 1024;
const NUMBERS: u64 = 64 * WORDS as u64;

/// Numbers before the first that came which are remembered, too: packets overtake each other.
const BEFORE: u64 = 4096;

/// After so long a window gives way to the next: longer than the three tries of a sender that has measured nothing yet, a second each. A number is remembered for at least as long, unless more than a window's came meanwhile.
const LIFE: Duration = Duration::from_secs(4);

/// Numbers that came.
#[derive(Debug, Default)]
pub struct Seen {
    newer: Option<Window>,
    older: Option<Window>,
}

#[derive(Debug)]
struct Window {
    first: u64,
    until: Instant,
    bits: Box<[u64; WORDS]>,
}

impl Seen {
    /// Remembers a number; false when it came before.
    pub fn insert(&mut self, now: Instant, number: u64) -> bool {
        if self.newer.as_ref().is_some_and(|newer| newer.until <= now) {
            self.turn(now, number);
        }
        let in_older = self.older.as_ref().is_some_and(|older| older.contains(number));
        let outside = self.newer.as_ref().is_none_or(|newer| newer.place(number).is_none());
        // A number of the older window alone is a late copy, and no reason to turn.
        if outside && in_older {
            return false;
        }
        if outside {
            self.turn(now, number);
        }
        let in_newer = self.newer.as_mut().is_some_and(|newer| !newer.set(number));
        !(in_older || in_newer)
    }

    /// The newer window becomes the older one, and another begins around a number.
    fn turn(&mut self, now: Instant, number: u64) {
        let spare = self.older.take().map(|older| older.bits);
        self.older = self.newer.take().filter(|newer| now < newer.until + LIFE);
        let mut bits = spare.unwrap_or_else(|| Box::new([0; WORDS]));
        bits.fill(0);
        self.newer = Some(Window { first: number.wrapping_sub(BEFORE), until: now + LIFE, bits });
    }
}

impl Window {
    fn place(&self, number: u64) -> Option<(usize, u64)> {
        let offset = number.wrapping_sub(self.first);
        (offset < NUMBERS).then(|| ((offset / 64) as usize, 1 << (offset % 64)))
    }

    fn contains(&self, number: u64) -> bool {
        self.place(number).is_some_and(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// False when it was set.
    fn set(&mut self, number: u64) -> bool {
        let Some((word, bit)) = self.place(number) else { return true };
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// A sender without a measured round trip tries after one, two and three seconds; all but the first and the last may be lost.
    #[test]
    fn the_last_of_three_tries_is_known() {
        let mut seen = Seen::default();
        assert!(seen.insert(Instant::START, 7));
        assert!(!seen.insert(Instant::START + Duration::from_millis(3100), 7));
    }

    proptest! {
        #[test]
        fn as_a_set_within_a_window(start: u64, steps in proptest::collection::vec(0u64..4000, 1..300)) {
            let (mut seen, mut model) = (Seen::default(), HashSet::new());
            for step in steps {
                let number = start.wrapping_add(step);
                prop_assert_eq!(seen.insert(Instant::START, number), model.insert(number));
            }
        }
    }

    #[test]
    fn forgets_with_time_and_distance_but_not_at_once() {
        let at = Instant::from_millis;
        let mut seen = Seen::default();
        assert!(seen.insert(at(0), 5));
        assert!(!seen.insert(at(999), 5));
        // In the older window for another second, and renewed by being seen.
        assert!(seen.insert(at(1000), 6));
        assert!(!seen.insert(at(1500), 5));
        assert!(!seen.insert(at(2500), 5));
        assert!(seen.insert(at(9000), 5));
        // A window further, the last one is still known; two further it is not.
        assert!(seen.insert(at(9000), 5 + NUMBERS));
        assert!(!seen.insert(at(9000), 5 + NUMBERS));
        assert!(!seen.insert(at(9000), 5));
    }
}
