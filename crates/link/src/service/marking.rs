//! Congestion marking, like CoDel over the length of a send queue.
//!
//! "A queue above the threshold for one interval sets a CongestionMark; the next mark follows after
//! interval / sqrt(n + 1)", where n is the number of marks since the queue was last below the
//! threshold.
//!
//! A threshold in bytes is a long time on a slow link and nothing on a fast one. So a queue that
//! the link sends within [`TARGET`] at its present rate is not long, whatever it holds; and one that it
//! takes longer than [`SLOW_TARGET`] for is long below the threshold too, from two packets on.
//!
//! A queue that fills within one interval would overflow before its first mark. So the interval is
//! a quarter while the queue is above a quarter of its bound, and a sixteenth above half of it; a
//! queue above half is marked at once.

use core::time::Duration;
use nw_element_api::Timestamp;

/// Fill level of a queue, relative to its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fill {
    #[default]
    Low,
    /// Above a quarter.
    Medium,
    /// Above half.
    High,
}

impl Fill {
    #[inline]
    const fn of(queue_bytes: u64, queue_max: u64) -> Self {
        if queue_bytes > queue_max / 2 {
            Fill::High
        } else if queue_bytes > queue_max / 4 {
            Fill::Medium
        } else {
            Fill::Low
        }
    }

    const fn interval_parts(self) -> u32 {
        match self {
            Fill::Low => 1,
            Fill::Medium => 4,
            Fill::High => 16,
        }
    }
}

/// The send queue at the moment a packet is sent.
#[derive(Clone, Copy, Debug)]
pub struct QueueState {
    /// Bytes queued.
    pub bytes: u64,
    /// Bytes beyond which packets are dropped.
    pub bytes_max: u64,
}

/// Time in which a link sends a queue that is not long.
const TARGET: Duration = Duration::from_millis(2);

/// Time for which a link sends a queue that is long although it is below the threshold: downloads
/// limit their own queueing delay to about as much.
const SLOW_TARGET: Duration = Duration::from_millis(10);

/// Bytes of a queue that is never long: two packets.
const SHORT_BYTES: u64 = 2 * nw_wire::PACKET_LEN_MAX as u64;

/// Marking state of one face.
#[derive(Clone, Debug, Default)]
pub struct Marking {
    /// When the next mark is due; `None` while the queue is below the threshold.
    next: Option<Timestamp>,
    /// When the queue rose above the threshold, or the last mark was set.
    since: Timestamp,
    /// Marks since the queue was last below the threshold.
    marks: u32,
    fill: Fill,
    /// The queue is above the threshold, and not only long for a slow link.
    is_above: bool,
    /// Bytes that the face had sent at `since`.
    sent_bytes: u64,
}

impl Marking {
    /// Returns whether a packet sent now gets a mark. Must be called for each packet. `sent_bytes`:
    /// what the face has sent so far.
    #[inline]
    pub fn is_due(
        &mut self,
        now: Timestamp,
        queue: QueueState,
        sent_bytes: u64,
        (threshold, interval): (u64, Duration),
    ) -> bool {
        if queue.bytes <= threshold.min(SHORT_BYTES) {
            if self.next.is_some() {
                *self = Marking::default();
            }
            return false;
        }
        let is_above = queue.bytes > threshold;
        if is_above != self.is_above {
            *self = Marking { is_above, ..Marking::default() };
        }
        let fill = Fill::of(queue.bytes, queue.bytes_max);
        match self.next {
            Some(next) if now < next && fill == self.fill => false,
            Some(next) => {
                let due = now >= next || fill == Fill::High && self.marks == 0;
                let due = due && (fill == Fill::High || self.is_long(now, queue, sent_bytes));
                if due || now >= next {
                    (self.since, self.sent_bytes) = (now, sent_bytes);
                }
                self.schedule(due, fill, interval);
                due
            }
            None => {
                (self.since, self.sent_bytes) = (now, sent_bytes);
                let due = fill == Fill::High;
                self.schedule(due, fill, interval);
                due
            }
        }
    }

    /// Returns whether the link needs longer than the target for the queue, at the rate since the
    /// last decision.
    fn is_long(&self, now: Timestamp, queue: QueueState, sent_bytes: u64) -> bool {
        let target = if self.is_above { TARGET } else { SLOW_TARGET };
        let entered = sent_bytes.saturating_sub(self.sent_bytes) as f64;
        let elapsed = now.since(self.since).as_secs_f64();
        queue.bytes as f64 * elapsed > entered * target.as_secs_f64()
    }

    fn schedule(&mut self, marked: bool, fill: Fill, interval: Duration) {
        if marked {
            self.marks += 1;
        }
        self.fill = fill;
        let interval = interval / fill.interval_parts();
        self.next = Some(self.since + interval.div_f64(f64::from(self.marks + 1).sqrt()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_that_stays_long_is_marked_at_decreasing_intervals() {
        let mut marking = Marking::default();
        let interval = Duration::from_millis(100);
        let mut due = |ms, bytes| {
            let queue = QueueState { bytes, bytes_max: 1 << 20 };
            marking.is_due(Timestamp::from_millis(ms), queue, 0, (1000, interval))
        };
        assert!(!due(0, 1000));
        assert!(!due(1, 1001));
        assert!(!due(100, 1001));
        assert!(due(101, 1001));
        // 100 / sqrt(2) = 70.7, 100 / sqrt(3) = 57.7.
        assert!(!due(171, 2000));
        assert!(due(172, 2000));
        assert!(!due(229, 2000));
        assert!(due(230, 2000));
        // The queue is short once: the schedule starts again.
        assert!(!due(231, 10));
        assert!(!due(232, 2000));
        assert!(!due(331, 2000));
        assert!(due(332, 2000));
    }

    #[test]
    fn queue_that_a_fast_link_sends_within_the_target_is_not_marked() {
        let mut marking = Marking::default();
        let mut due = |ms: u64, bytes, bytes_per_ms: u64| {
            let queue = QueueState { bytes, bytes_max: 1 << 30 };
            let limits = (65_536, Duration::from_millis(100));
            marking.is_due(Timestamp::from_millis(ms), queue, ms * bytes_per_ms, limits)
        };
        // A megabyte at 1.25 GB/s takes less than a millisecond.
        assert!((0..1000).all(|ms| !due(ms, 1_000_000, 1_250_000)));
        // At 12.5 MB/s it takes 80 ms.
        let mut marking = Marking::default();
        let mut due = |ms: u64| {
            let queue = QueueState { bytes: 1_000_000, bytes_max: 1 << 30 };
            let limits = (65_536, Duration::from_millis(100));
            marking.is_due(Timestamp::from_millis(ms), queue, ms * 12_500, limits)
        };
        assert!((0..100).all(|ms| !due(ms)) && due(100));
    }

    #[test]
    fn short_queue_of_a_slow_link_is_marked_by_its_time() {
        let limits = (65_536, Duration::from_millis(100));
        let first_mark = |bytes, bytes_per_ms: u64| {
            let mut marking = Marking::default();
            let queue = QueueState { bytes, bytes_max: 1 << 20 };
            let mut at = |ms: u64| {
                marking.is_due(Timestamp::from_millis(ms), queue, ms * bytes_per_ms, limits)
            };
            (0..1000).find(|ms| at(*ms))
        };
        // 20 Mbit/s: 10 ms are 25 KB.
        assert_eq!(first_mark(26_000, 2_500), Some(100));
        assert_eq!(first_mark(24_000, 2_500), None);
        // 100 Mbit/s: below the threshold nothing takes 10 ms.
        assert_eq!(first_mark(65_536, 12_500), None);
        assert_eq!(first_mark(65_537, 12_500), Some(100));
        // 1 Mbit/s: two packets are no queue.
        assert_eq!(first_mark(17_600, 125), None);
    }

    #[test]
    fn queue_above_half_of_its_bound_marks_at_once() {
        let mut marking = Marking::default();
        let mut due = |ms, bytes| {
            let queue = QueueState { bytes, bytes_max: 1000 };
            let limits = (10, Duration::from_millis(160));
            marking.is_due(Timestamp::from_millis(ms), queue, 0, limits)
        };
        assert!(due(0, 501) && !due(1, 501) && !due(7, 900));
        // 160 / 16 / sqrt(2) = 7.1.
        assert!(due(8, 900) && !due(9, 900));
        assert!(!due(10, 9) && !due(11, 11));
        // The queue grows before the first mark of a low fill level is due.
        assert!(due(12, 600));
    }

    #[test]
    fn queue_above_a_quarter_of_its_bound_marks_after_a_quarter_of_the_interval() {
        let mut marking = Marking::default();
        let mut due = |ms, bytes| {
            let queue = QueueState { bytes, bytes_max: 1000 };
            let limits = (10, Duration::from_millis(160));
            marking.is_due(Timestamp::from_millis(ms), queue, 0, limits)
        };
        assert!(!due(0, 20) && !due(30, 20));
        assert!(!due(31, 300) && !due(39, 300) && due(40, 300));
    }
}
