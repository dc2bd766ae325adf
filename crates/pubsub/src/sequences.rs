//! Sequence numbers of publications: gaps are detected, repaired by request, or reported as lost.
//!
//! ```text
//! publisher: Sequencer gives 1, 2, 3, …
//! subscriber: GapDetector, one for each source and item:
//!     next expected ── 7 arrives while 5 is expected ─▶ missing 5, 6 ─▶ repair request after a
//!     pause ─▶ repeated ─▶ arrived late, or lost (told exactly once)
//! ```
//!
//! For each source and item: delivered + lost = published, from the first publication received on.

use nw_packet_types::Timestamp;
use std::collections::BTreeMap;

/// Numbers the publications of one source for one item.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequencer {
    last: u64,
}

impl Sequencer {
    /// Creates a sequencer whose first number is `first`.
    pub const fn starting_at(first: u64) -> Self {
        Sequencer { last: first.wrapping_sub(1) }
    }

    /// Returns the next number.
    pub const fn next_number(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.last
    }
}

/// When gaps are repaired.
#[derive(Clone, Copy, Debug)]
pub struct RepairPolicy {
    /// Milliseconds from the detection of a gap to the first request: time for packets that were
    /// overtaken.
    pub delay_ms: u64,
    /// Milliseconds between requests.
    pub interval_ms: u64,
    /// Most requests for a gap; 0: gaps are lost at once.
    pub requests_max: u32,
    /// Most missing publications remembered; more are lost at once.
    pub missing_max: usize,
}

impl Default for RepairPolicy {
    fn default() -> Self {
        RepairPolicy { delay_ms: 2, interval_ms: 50, requests_max: 5, missing_max: 4096 }
    }
}

/// What to do with a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one, or the first one received.
    InOrder,
    /// It fills a gap.
    Late,
    /// Publications before it are missing, this many.
    Ahead(u64),
    /// It was received before, or given up.
    Duplicate,
}

/// Numbers `first` to `last`, to be requested again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// First missing number.
    pub first: u64,
    /// Last missing number.
    pub last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    due: Timestamp,
    requests: u32,
}

/// Detects gaps in the publications of one source for one item.
#[derive(Clone, Debug)]
pub struct GapDetector {
    policy: RepairPolicy,
    /// Next number expected; `None` before the first publication.
    next: Option<u64>,
    missing: BTreeMap<u64, Missing>,
    received: u64,
    lost: u64,
    lost_untaken: u64,
}

impl GapDetector {
    /// Creates a detector that has received nothing.
    pub const fn new(policy: RepairPolicy) -> Self {
        GapDetector {
            policy,
            next: None,
            missing: BTreeMap::new(),
            received: 0,
            lost: 0,
            lost_untaken: 0,
        }
    }

    /// Creates a detector that expects this number first, for subscribers that know where the
    /// publications start.
    pub const fn expecting(policy: RepairPolicy, next: u64) -> Self {
        let mut detector = GapDetector::new(policy);
        detector.next = Some(next);
        detector
    }

    /// Records the arrival of a number.
    pub fn receive(&mut self, sequence: u64, now: Timestamp) -> Arrival {
        let next = *self.next.get_or_insert(sequence);
        if sequence < next {
            if self.missing.remove(&sequence).is_none() {
                return Arrival::Duplicate;
            }
            self.received += 1;
            return Arrival::Late;
        }
        self.received += 1;
        self.next = Some(sequence.saturating_add(1));
        let skipped = sequence - next;
        if skipped == 0 {
            return Arrival::InOrder;
        }
        self.add_gap(next, sequence, now);
        Arrival::Ahead(skipped)
    }

    /// Records that numbers up to `last` exist, as a publisher announced them.
    pub fn announce(&mut self, last: u64, now: Timestamp) {
        if let Some(next) = self.next
            && last >= next
        {
            self.next = Some(last.saturating_add(1));
            self.add_gap(next, last.saturating_add(1), now);
        }
    }

    /// Records that the publications start with `first`, before the number that was expected first.
    /// Nothing may have been missed or given up before that one.
    pub fn start_earlier(&mut self, first: u64, expected: u64, now: Timestamp) {
        self.add_gap(first.min(expected), expected, now);
    }

    /// Adds the numbers from `first` to before `end`; the oldest of them are lost if they are too
    /// many.
    fn add_gap(&mut self, first: u64, end: u64, now: Timestamp) {
        let capacity = match self.policy.requests_max {
            0 => 0,
            _ => self.policy.missing_max.saturating_sub(self.missing.len()) as u64,
        };
        let kept = (end - first).min(capacity);
        self.lose(end - first - kept);
        let missing = Missing { due: now.plus_millis(self.policy.delay_ms), requests: 0 };
        self.missing.extend((end - kept..end).map(|number| (number, missing)));
    }

    const fn lose(&mut self, count: u64) {
        self.lost += count;
        self.lost_untaken += count;
    }

    /// Returns the next gap whose request is due, and counts the request. Numbers requested as
    /// often as allowed are lost. Call it until it returns `None`.
    pub fn take_due(&mut self, now: Timestamp) -> Option<Gap> {
        let requests_max = self.policy.requests_max;
        let is_due = |missing: &Missing| missing.due <= now;
        let before = self.missing.len();
        self.missing.retain(|_, m| !is_due(m) || m.requests < requests_max);
        self.lose((before - self.missing.len()) as u64);
        let (first, _) = self.missing.iter().find(|(_, missing)| is_due(missing))?;
        let mut gap = Gap { first: *first, last: *first };
        for (number, missing) in self.missing.range_mut(gap.first..) {
            if *number > gap.last + 1 || !is_due(missing) {
                break;
            }
            gap.last = *number;
            missing.requests += 1;
            missing.due = now.plus_millis(self.policy.interval_ms);
        }
        Some(gap)
    }

    /// Starts counting the requests for a missing number afresh, because a part of its publication
    /// arrived.
    pub fn restart_requests(&mut self, sequence: u64, now: Timestamp) {
        if let Some(missing) = self.missing.get_mut(&sequence) {
            *missing = Missing { due: now.plus_millis(self.policy.interval_ms), requests: 0 };
        }
    }

    /// Returns whether a number has been neither received nor lost.
    pub fn is_open(&self, sequence: u64) -> bool {
        self.next.is_none_or(|next| sequence >= next) || self.missing.contains_key(&sequence)
    }

    /// Returns the first number that is neither received nor lost; 0 before the first publication.
    /// All publications before it can be passed on in order.
    pub fn first_open(&self) -> u64 {
        let first_missing = self.missing.first_key_value().map(|(number, _)| *number);
        first_missing.or(self.next).unwrap_or(0)
    }

    /// Gives up all missing numbers up to `last`, which the publisher does not have any more.
    pub fn give_up(&mut self, last: u64) {
        let before = self.missing.len();
        self.missing.retain(|number, _| *number > last);
        self.lose((before - self.missing.len()) as u64);
    }

    /// Returns when [`take_due`](Self::take_due) is to be called.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.missing.values().map(|missing| missing.due).min()
    }

    /// Returns the number of publications lost since the last call: each is told exactly once.
    pub const fn take_lost(&mut self) -> u64 {
        core::mem::replace(&mut self.lost_untaken, 0)
    }

    /// Returns the number of publications received, without duplicates.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of publications lost.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of publications that are missing and not lost yet.
    pub fn missing(&self) -> usize {
        self.missing.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: RepairPolicy =
        RepairPolicy { delay_ms: 2, interval_ms: 10, requests_max: 2, missing_max: 8 };

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn gap_is_requested_then_lost() {
        let mut detector = GapDetector::new(POLICY);
        assert_eq!(detector.receive(5, at(0)), Arrival::InOrder);
        assert_eq!(detector.receive(9, at(0)), Arrival::Ahead(3));
        assert_eq!(detector.receive(7, at(1)), Arrival::Late);
        assert_eq!(detector.take_due(at(1)), None);
        assert_eq!(detector.deadline(), Some(at(2)));
        assert_eq!(detector.first_open(), 6);
        assert_eq!([5, 6, 7, 10].map(|n| detector.is_open(n)), [false, true, false, true]);
        assert_eq!(detector.take_due(at(2)), Some(Gap { first: 6, last: 6 }));
        assert_eq!(detector.take_due(at(2)), Some(Gap { first: 8, last: 8 }));
        assert_eq!(detector.take_due(at(2)), None);
        assert_eq!(detector.receive(6, at(3)), Arrival::Late);
        assert_eq!(detector.receive(6, at(3)), Arrival::Duplicate);
        assert_eq!(detector.first_open(), 8);
        assert_eq!(detector.take_due(at(12)), Some(Gap { first: 8, last: 8 }));
        assert_eq!(
            (detector.take_due(at(22)), detector.take_lost(), detector.take_lost()),
            (None, 1, 0)
        );
        assert_eq!(detector.receive(8, at(23)), Arrival::Duplicate, "it was told as lost");
        assert_eq!((detector.received(), detector.lost(), detector.missing()), (4, 1, 0));
        assert_eq!(detector.first_open(), 10);
        detector.announce(10, at(30));
        for now in [32, 42] {
            assert!(detector.take_due(at(now)).is_some());
        }
        detector.restart_requests(10, at(45));
        assert_eq!(detector.take_due(at(54)), None);
        assert!(detector.take_due(at(55)).is_some(), "a part arrived, so it is requested again");
    }

    #[test]
    fn long_gap_is_bounded_and_announced_numbers_are_missed() {
        let mut detector = GapDetector::expecting(POLICY, 1);
        assert_eq!(detector.receive(1_000_001, at(0)), Arrival::Ahead(1_000_000));
        assert_eq!((detector.missing(), detector.lost()), (8, 999_992));
        detector.announce(1_000_003, at(0));
        assert_eq!(detector.lost(), 999_994, "no capacity is left");
        detector.give_up(u64::MAX);
        assert_eq!((detector.missing(), detector.lost()), (0, 1_000_002));
        detector.announce(1_000_004, at(0));
        assert_eq!(detector.missing(), 1);
        let mut sequencer = Sequencer::starting_at(7);
        assert_eq!((sequencer.next_number(), sequencer.next_number()), (7, 8));
        assert_eq!(Sequencer::default().next_number(), 1);
    }

    #[test]
    fn missing_numbers_are_given_up_to_the_last() {
        let mut detector = GapDetector::expecting(POLICY, 1);
        detector.receive(6, at(0));
        detector.give_up(3);
        assert_eq!((detector.missing(), detector.take_lost(), detector.first_open()), (2, 3, 4));
        detector.give_up(3);
        assert_eq!((detector.missing(), detector.take_lost()), (2, 0));
    }

    #[test]
    fn gap_without_requests_is_lost_at_once() {
        let mut detector = GapDetector::new(RepairPolicy { requests_max: 0, ..POLICY });
        detector.receive(1, at(0));
        assert_eq!(detector.receive(4, at(0)), Arrival::Ahead(2));
        assert_eq!((detector.missing(), detector.take_lost(), detector.first_open()), (0, 2, 5));
        assert_eq!(detector.receive(3, at(0)), Arrival::Duplicate);
    }

    /// One publication before the expected one is the shortest gap; none before it is no gap.
    #[test]
    fn earlier_start_is_missing_down_to_its_first() {
        for (first, missing) in [(5, 0), (6, 0), (4, 1), (1, 4)] {
            let mut detector = GapDetector::expecting(POLICY, 5);
            detector.start_earlier(first, 5, at(0));
            assert_eq!(detector.missing(), missing, "from {first}");
            let wanted = (missing > 0).then_some(Gap { first, last: 4 });
            assert_eq!(detector.take_due(at(2)), wanted, "from {first}");
            assert_eq!((10..40).find_map(|ms| detector.take_due(at(ms))), wanted, "from {first}");
            detector.give_up(u64::MAX);
            assert_eq!(detector.take_lost(), missing as u64, "from {first}");
        }
    }

    proptest! {
        /// Packets are lost, delayed and repeated at random; the sum is exact at the end.
        #[test]
        fn received_and_lost_add_up_to_published(
            numbers in prop::collection::vec((1u64..60, 0u64..9), 1..100),
        ) {
            let mut detector = GapDetector::expecting(POLICY, 1);
            let (mut now, mut last, mut told) = (0, 0, 0);
            for (number, pause) in numbers {
                now += pause;
                last = last.max(number);
                detector.receive(number, at(now));
                while detector.take_due(at(now)).is_some() {}
                told += detector.take_lost();
                prop_assert!(detector.missing() <= POLICY.missing_max);
            }
            for _ in 0..4 {
                now += 10;
                while detector.take_due(at(now)).is_some() {}
            }
            told += detector.take_lost();
            prop_assert_eq!(detector.received() + detector.lost(), last);
            prop_assert_eq!((told, detector.missing()), (detector.lost(), 0));
        }
    }
}
