//! Recently received Sequences, to detect duplicates.
//!
//! Bounded: two windows of 65,536 numbers. The newer becomes the older, and the older is forgotten,
//! when the newer is four seconds old or a number lies outside it. A forgotten number is accepted
//! again; forwarding detects duplicate network packets too. The time bound serves peers that
//! restart and use the same numbers again.

use core::time::Duration;
use nw_element_api::Timestamp;

/// Words of 64 bits in one window.
const WORDS: usize = 1024;

/// Numbers in one window.
const NUMBERS: u64 = 64 * WORDS as u64;

/// Numbers before the first received one that its window covers, as packets are reordered.
const REORDER_MARGIN: u64 = 4096;

/// Age at which a window is rotated out: longer than three tries of a sender without a measured
/// round-trip time, one second each. A number is remembered at least this long, unless more than
/// one window of numbers arrives meanwhile.
const WINDOW_LIFETIME: Duration = Duration::from_secs(4);

/// Set of recently received Sequences.
#[derive(Debug, Default)]
pub struct RecentSequences {
    newer: Option<Window>,
    older: Option<Window>,
}

/// A range of numbers with one bit each, in use until a point in time.
#[derive(Debug)]
struct Window {
    first: u64,
    until: Timestamp,
    bits: Box<[u64; WORDS]>,
}

impl RecentSequences {
    /// Adds a number. Returns false if it is in the set already.
    pub fn insert(&mut self, now: Timestamp, number: u64) -> bool {
        if self.newer.as_ref().is_some_and(|newer| newer.until <= now) {
            self.rotate(now, number);
        }
        let in_older = self.older.as_ref().is_some_and(|older| older.contains(number));
        let outside = self.newer.as_ref().is_none_or(|newer| newer.bit_of(number).is_none());
        // A number that is in the older window only is a late duplicate, and no reason to rotate.
        if outside && in_older {
            return false;
        }
        if outside {
            self.rotate(now, number);
        }
        let in_newer = self.newer.as_mut().is_some_and(|newer| !newer.set(number));
        !(in_older || in_newer)
    }

    /// Makes the newer window the older one, and starts another around `number`.
    fn rotate(&mut self, now: Timestamp, number: u64) {
        let bits = self.older.take().map(|older| older.bits);
        self.older = self.newer.take().filter(|newer| now < newer.until + WINDOW_LIFETIME);
        let mut bits = bits.unwrap_or_else(|| Box::new([0; WORDS]));
        bits.fill(0);
        self.newer = Some(Window {
            first: number.wrapping_sub(REORDER_MARGIN),
            until: now + WINDOW_LIFETIME,
            bits,
        });
    }
}

impl Window {
    /// Returns the word and the bit of `number`. `None` if it lies outside the window.
    fn bit_of(&self, number: u64) -> Option<(usize, u64)> {
        let offset = number.wrapping_sub(self.first);
        (offset < NUMBERS).then(|| ((offset / 64) as usize, 1 << (offset % 64)))
    }

    fn contains(&self, number: u64) -> bool {
        self.bit_of(number).is_some_and(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// Sets the bit of `number`. Returns false if it was set already.
    fn set(&mut self, number: u64) -> bool {
        let Some((word, bit)) = self.bit_of(number) else { return true };
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// A sender without a measured round-trip time retransmits after one, two and three seconds;
    /// all transmissions but the first and the last may be lost.
    #[test]
    fn duplicate_after_three_retries_is_detected() {
        let mut recent = RecentSequences::default();
        assert!(recent.insert(Timestamp::START, 7));
        assert!(!recent.insert(Timestamp::START + Duration::from_millis(3100), 7));
    }

    proptest! {
        #[test]
        fn recent_sequences_within_window_equal_hash_set(
            start: u64,
            steps in proptest::collection::vec(0u64..4000, 1..300),
        ) {
            let (mut recent, mut model) = (RecentSequences::default(), HashSet::new());
            for step in steps {
                let number = start.wrapping_add(step);
                prop_assert_eq!(recent.insert(Timestamp::START, number), model.insert(number));
            }
        }
    }

    #[test]
    fn recent_sequences_expire_by_age_and_distance() {
        let at = Timestamp::from_millis;
        let mut recent = RecentSequences::default();
        assert!(recent.insert(at(0), 5));
        assert!(!recent.insert(at(999), 5));
        // It stays in the older window for another period.
        assert!(recent.insert(at(1000), 6));
        assert!(!recent.insert(at(1500), 5));
        assert!(!recent.insert(at(2500), 5));
        assert!(recent.insert(at(9000), 5));
        // One window further it is still known; two windows further it is not.
        assert!(recent.insert(at(9000), 5 + NUMBERS));
        assert!(!recent.insert(at(9000), 5 + NUMBERS));
        assert!(!recent.insert(at(9000), 5));
    }
}
