//! Congestion marking, like CoDel over the length of a send queue.
//!
//! "A queue above the threshold for one interval sets a CongestionMark; the next mark follows after interval / sqrt(n + 1)", where n is how many
//! were set since the queue was last short.

use core::time::Duration;
use nw_element::Instant;

/// The state of one face's marking.
#[derive(Clone, Debug, Default)]
pub struct Marking {
    /// When the next mark is due; `None` while the queue is short.
    next: Option<Instant>,
    /// Marks since the queue was last short.
    marks: u32,
}

impl Marking {
    /// To be asked for each packet sent: shall it be marked?
    #[inline]
    pub fn is_due(&mut self, now: Instant, queue_bytes: u64, threshold: u64, interval: Duration) -> bool {
        if queue_bytes <= threshold {
            *self = Marking::default();
            return false;
        }
        match self.next {
            None => {
                self.next = Some(now + interval);
                false
            }
            Some(next) if now < next => false,
            Some(next) => {
                self.marks += 1;
                self.next = Some(next + interval.div_f64(f64::from(self.marks + 1).sqrt()));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_closer_while_the_queue_stays_long() {
        let mut marking = Marking::default();
        let interval = Duration::from_millis(100);
        let mut due = |ms, bytes| marking.is_due(Instant::from_millis(ms), bytes, 1000, interval);
        assert!(!due(0, 1000));
        assert!(!due(1, 1001));
        assert!(!due(100, 1001));
        assert!(due(101, 1001));
        // 100 / sqrt(2) = 70.7, 100 / sqrt(3) = 57.7.
        assert!(!due(171, 2000));
        assert!(due(172, 2000));
        assert!(!due(229, 2000));
        assert!(due(230, 2000));
        // Short for a moment: all over again.
        assert!(!due(231, 10));
        assert!(!due(232, 2000));
        assert!(!due(331, 2000));
        assert!(due(332, 2000));
    }
}
