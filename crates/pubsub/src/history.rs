//! Publications that are kept for late subscribers and for repair: the last value, or the last few.

use std::collections::VecDeque;

/// How many publications of an item are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryDepth {
    /// None.
    None,
    /// The last one.
    #[default]
    LastValue,
    /// The last ones, this many.
    Ring(u32),
}

impl HistoryDepth {
    const fn publications_max(self) -> usize {
        match self {
            HistoryDepth::None => 0,
            HistoryDepth::LastValue => 1,
            HistoryDepth::Ring(count) => count as usize,
        }
    }
}

/// The kept publications of one source and item, bounded in number and bytes.
#[derive(Clone, Debug)]
pub struct History {
    depth: HistoryDepth,
    bytes_max: usize,
    bytes: usize,
    /// Sequence number of the first one in `ring`; the others follow without gaps.
    first: u64,
    ring: VecDeque<Box<[u8]>>,
}

impl History {
    /// Creates an empty history. A publication of more than `bytes_max` bytes is not kept.
    pub const fn new(depth: HistoryDepth, bytes_max: usize) -> Self {
        History { depth, bytes_max, bytes: 0, first: 0, ring: VecDeque::new() }
    }

    /// Keeps a publication. Sequence numbers that do not follow the last one start afresh.
    pub fn insert(&mut self, sequence: u64, publication: &[u8]) {
        if self.ring.is_empty() || self.first + self.ring.len() as u64 != sequence {
            self.clear();
            self.first = sequence;
        }
        let publications_max = self.depth.publications_max();
        if publications_max == 0 || publication.len() > self.bytes_max {
            self.clear();
            return;
        }
        while self.ring.len() >= publications_max || self.bytes + publication.len() > self.bytes_max
        {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.bytes -= oldest.len();
            self.first += 1;
        }
        self.bytes += publication.len();
        self.ring.push_back(publication.into());
    }

    /// Returns the publication with this sequence number, if it is kept.
    pub fn publication(&self, sequence: u64) -> Option<&[u8]> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.ring.get(at).map(|publication| &**publication)
    }

    /// Returns the last publication with its sequence number.
    pub fn last(&self) -> Option<(u64, &[u8])> {
        self.iter().next_back()
    }

    /// Returns the kept publications with their sequence numbers, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &[u8])> {
        (0..self.ring.len()).map(|at| (self.first + at as u64, &*self.ring[at]))
    }

    /// Returns the bytes of the kept publications.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all publications.
    pub fn clear(&mut self) {
        self.ring.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn last_value_replaces_the_one_before() {
        let mut history = History::new(HistoryDepth::LastValue, 100);
        assert_eq!(history.last(), None);
        history.insert(7, b"seven");
        history.insert(8, b"eight");
        assert_eq!(history.last(), Some((8, &b"eight"[..])));
        assert_eq!((history.publication(7), history.bytes()), (None, 5));
        history.insert(9, &[0; 101]);
        assert_eq!(history.last(), None, "an old value is not the last one");
    }

    #[test]
    fn gap_in_sequence_numbers_forgets_what_was_before() {
        let mut history = History::new(HistoryDepth::Ring(3), 100);
        history.insert(1, b"a");
        history.insert(2, b"b");
        history.insert(5, b"e");
        assert_eq!(history.iter().collect::<Vec<_>>(), [(5, &b"e"[..])]);
        let mut none = History::new(HistoryDepth::None, 100);
        none.insert(1, b"a");
        assert_eq!(none.last(), None);
    }

    proptest! {
        #[test]
        fn ring_keeps_the_newest_within_its_bounds(lens in prop::collection::vec(0usize..40, 1..50)) {
            let (depth, bytes_max) = (5, 60);
            let mut history = History::new(HistoryDepth::Ring(depth), bytes_max);
            for (sequence, len) in lens.iter().enumerate() {
                history.insert(sequence as u64, &vec![sequence as u8; *len]);
                let mut expected: Vec<u64> = Vec::new();
                let mut bytes = 0;
                for at in (0..=sequence).rev().take(depth as usize) {
                    bytes += lens[at];
                    if bytes > bytes_max {
                        break;
                    }
                    expected.insert(0, at as u64);
                }
                let kept: Vec<u64> = history.iter().map(|(sequence, _)| sequence).collect();
                prop_assert_eq!(&kept, &expected);
                prop_assert_eq!(history.bytes(), history.iter().map(|(_, bytes)| bytes.len()).sum::<usize>());
                for sequence in kept {
                    prop_assert_eq!(history.publication(sequence).map(|p| p.len()), Some(lens[sequence as usize]));
                }
            }
        }
    }
}
