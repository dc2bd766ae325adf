//! Counts and latencies over time, in a bounded number of equal intervals. When a run outlasts
//! them, each pair is merged into one interval of twice the length.

use super::timings::histogram;
use core::time::Duration;
use hdrhistogram::Histogram;

/// Maximum number of intervals.
pub const INTERVALS_MAX: usize = 120;
/// The shortest interval: a run of 0.1 s still has enough points for a chart.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// One interval of a run.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Requests issued in the interval.
    pub asked: u64,
    /// Requests answered in the interval.
    pub answered: u64,
    /// Requests that timed out in the interval.
    pub lost: u64,
    /// Latencies of the answered requests, with two significant digits.
    pub latency: Histogram<u64>,
}

impl Interval {
    fn new() -> Self {
        Interval { asked: 0, answered: 0, lost: 0, latency: histogram(2) }
    }

    /// Records the latency of an answer.
    pub fn record(&mut self, latency: Duration) {
        self.latency.saturating_record(latency.as_nanos().clamp(1, u128::from(u64::MAX)) as u64);
    }

    fn add(&mut self, other: &Interval) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.lost += other.lost;
        self.latency.add(&other.latency).expect("all have the same bounds");
    }
}

/// Intervals from the start of a run, all of the same length.
#[derive(Clone, Debug)]
pub struct Series {
    /// Length of each interval.
    pub length: Duration,
    /// The intervals in order of time.
    pub intervals: Vec<Interval>,
}

impl Series {
    /// Creates a series for a run of this planned length: about sixty intervals of at least 1 ms.
    /// Zero means an unknown length: the intervals grow with the run.
    pub fn new(planned: Duration) -> Self {
        Series { length: (planned / 60).max(INTERVAL_MIN), intervals: Vec::new() }
    }

    /// Returns the interval for this time since the start.
    pub fn at(&mut self, at: Duration) -> &mut Interval {
        let mut index = self.index(at);
        while index >= INTERVALS_MAX {
            self.merge_pairs();
            index = self.index(at);
        }
        while self.intervals.len() <= index {
            self.intervals.push(Interval::new());
        }
        &mut self.intervals[index]
    }

    fn index(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.length.as_nanos()).unwrap_or(usize::MAX)
    }

    fn merge_pairs(&mut self) {
        self.length *= 2;
        let old = core::mem::take(&mut self.intervals);
        for pair in old.chunks(2) {
            let mut merged = pair[0].clone();
            pair.get(1).into_iter().for_each(|second| merged.add(second));
            self.intervals.push(merged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Merging keeps all counts, and quantiles stay within two significant digits.
        #[test]
        fn series_merged_keeps_all_counts(
            samples in proptest::collection::vec((0u64..1_000_000, 1u64..10_000_000), 1..300),
        ) {
            let mut series = Series::new(Duration::ZERO);
            let mut all = histogram(2);
            for (at_ms, latency_ns) in &samples {
                let interval = series.at(Duration::from_millis(*at_ms));
                interval.answered += 1;
                interval.latency.record(*latency_ns).unwrap();
                all.record(*latency_ns).unwrap();
            }
            prop_assert!(series.intervals.len() <= INTERVALS_MAX);
            prop_assert_eq!(series.intervals.iter().map(|i| i.answered).sum::<u64>(), samples.len() as u64);
            let mut merged = histogram(2);
            series.intervals.iter().for_each(|interval| merged.add(&interval.latency).unwrap());
            prop_assert_eq!(merged, all);
        }
    }

    #[test]
    fn series_of_short_run_has_points_for_chart() {
        let mut series = Series::new(Duration::ZERO);
        (0..110).for_each(|ms| series.at(Duration::from_millis(ms)).answered += 1);
        assert!(
            (50..=INTERVALS_MAX).contains(&series.intervals.len()),
            "{}",
            series.intervals.len()
        );
    }
}
