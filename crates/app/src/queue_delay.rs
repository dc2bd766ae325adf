//! How long packets wait in queues on a path: the shortest round-trip time of a round, above the
//! shortest of the last seconds.
//!
//! One slow reply is jitter; a round without a fast one is a standing queue. So the shortest time
//! of a round is compared, as Copa and BBR do.

use core::time::Duration;
use nw_element_api::Timestamp;

/// Time after which the shortest round-trip time is measured anew: routes change.
const BASE_TIME: Duration = Duration::from_secs(10);
/// Round-trip times of a round that are kept.
const SAMPLES_MAX: usize = 1024;

/// Round-trip times of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Shortest of the last seconds.
    pub base: Duration,
    /// Shortest of this round.
    pub shortest: Duration,
    /// Median of this round.
    pub median: Duration,
}

impl Round {
    /// Returns the time that packets waited in queues throughout the round.
    pub fn queue_delay(&self) -> Duration {
        self.shortest.saturating_sub(self.base)
    }

    /// Returns the median time by which packets took longer than the shortest of the last seconds.
    /// Unlike [`queue_delay`](Self::queue_delay), one packet that overtook others does not shorten
    /// it.
    pub fn median_delay(&self) -> Duration {
        self.median.saturating_sub(self.base)
    }
}

/// Measures queueing delay from round-trip times.
#[derive(Clone, Debug, Default)]
pub struct QueueDelay {
    /// Shortest round-trip times of the current and the previous [`BASE_TIME`].
    base: Option<Duration>,
    previous_base: Option<Duration>,
    base_since: Timestamp,
    round_start: Timestamp,
    /// Round-trip times of the current round, at most [`SAMPLES_MAX`].
    samples: Vec<Duration>,
}

impl QueueDelay {
    /// Returns one round-trip time beside the shortest of the last seconds.
    pub fn compare(&self, rtt: Duration) -> Round {
        let base = [self.base, self.previous_base].into_iter().flatten().min().unwrap_or(rtt);
        Round { base, shortest: rtt, median: rtt }
    }

    /// Measures the shortest round-trip time anew, from the next reply on.
    pub fn restart(&mut self) {
        (self.base, self.previous_base) = (None, None);
        self.samples.clear();
    }

    /// Adds the round-trip time of a packet sent once, at `sent`. Returns the round that it ends:
    /// the first packet sent after the round began was answered.
    pub fn sample(&mut self, now: Timestamp, sent: Timestamp, rtt: Duration) -> Option<Round> {
        if now.since(self.base_since) >= BASE_TIME {
            self.previous_base = self.base.take();
            self.base_since = now;
        }
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        match self.samples.get_mut(SAMPLES_MAX - 1) {
            None => self.samples.push(rtt),
            // The shortest stays exact.
            Some(last) => *last = rtt.min(*last),
        }
        if sent < self.round_start {
            return None;
        }
        self.round_start = now;
        let base = [self.base, self.previous_base].into_iter().flatten().min()?;
        self.samples.sort_unstable();
        let (shortest, median) = (*self.samples.first()?, self.samples[self.samples.len() / 2]);
        self.samples.clear();
        Some(Round { base, shortest, median })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn queue_delay_is_that_of_the_fastest_reply_of_a_round() {
        let mut delay = QueueDelay::default();
        let at = |ms| Timestamp::from_millis(ms);
        let first = delay.sample(at(20), at(0), MS * 20);
        assert_eq!(first, Some(Round { base: MS * 20, shortest: MS * 20, median: MS * 20 }));
        // Sent before the first round ended.
        assert_eq!(delay.sample(at(60), at(10), MS * 50), None);
        assert_eq!(delay.sample(at(61), at(11), MS * 50), None);
        let second = delay.sample(at(90), at(30), MS * 60).expect("the round ends");
        assert_eq!((second.shortest, second.queue_delay()), (MS * 50, MS * 30));
        assert_eq!(second.median_delay(), MS * 30);
    }

    #[test]
    fn shortest_time_of_a_long_round_is_exact() {
        let mut delay = QueueDelay::default();
        let at = |ms| Timestamp::from_millis(ms);
        delay.sample(at(20), at(0), MS * 20);
        for _ in 0..2 * SAMPLES_MAX {
            assert_eq!(delay.sample(at(60), at(10), MS * 50), None);
        }
        delay.sample(at(61), at(10), MS * 30);
        let round = delay.sample(at(90), at(30), MS * 60).expect("the round ends");
        assert_eq!((round.shortest, round.median), (MS * 30, MS * 50));
        assert!(delay.samples.capacity() <= 2 * SAMPLES_MAX);
    }

    #[test]
    fn queue_delay_forgets_an_old_path() {
        let mut delay = QueueDelay::default();
        delay.sample(Timestamp::from_millis(20), Timestamp::START, MS * 20);
        let mut last = None;
        for second in 1..30 {
            let now = Timestamp::from_millis(second * 1000);
            last = delay.sample(now, Timestamp::from_millis(second * 1000 - 80), MS * 80).or(last);
        }
        assert_eq!(last.expect("rounds").queue_delay(), Duration::ZERO);
    }
}
