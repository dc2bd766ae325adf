//! How a run went over time: a bounded number of intervals. When a run outlasts them, each two become one of twice the length.

use super::timings::histogram;
use core::time::Duration;
use hdrhistogram::Histogram;

/// Intervals at most.
pub const INTERVALS_MAX: usize = 120;
/// Short enough for a run of a tenth of a second to have its chart.
const SHORTEST: Duration = Duration::from_millis(1);

/// One stretch of time.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Requests that were asked in it.
    pub asked: u64,
    /// Requests that were answered in it.
    pub answered: u64,
    /// Requests that were given up in it.
    pub lost: u64,
    /// Of those answered, two digits exact.
    pub latency: Histogram<u64>,
}

impl Interval {
    fn new() -> Self {
        Interval { asked: 0, answered: 0, lost: 0, latency: histogram(2) }
    }

    /// Counts the latency of an answer.
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

/// Intervals from the start on, all equally long.
#[derive(Clone, Debug)]
pub struct Series {
    /// Of each interval.
    pub length: Duration,
    /// From the first on.
    pub intervals: Vec<Interval>,
}

impl Series {
    /// For a run that is planned to take so long: about sixty intervals, none shorter than a millisecond. For zero it is not known
    /// how long the run takes: intervals grow with it.
    pub fn new(planned: Duration) -> Self {
        Series { length: (planned / 60).max(SHORTEST), intervals: Vec::new() }
    }

    /// The interval of this time since the start.
    pub fn at(&mut self, at: Duration) -> &mut Interval {
        let mut index = self.index(at);
        while index >= INTERVALS_MAX {
            self.halve();
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

    fn halve(&mut self) {
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

        /// However often intervals are merged, nothing is lost, and quantiles stay within the histogram's two digits.
        #[test]
        fn merging_keeps_what_was_counted(samples in proptest::collection::vec((0u64..1_000_000, 1u64..10_000_000), 1..300)) {
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
    fn series_of_a_short_run_has_points_for_a_chart() {
        let mut series = Series::new(Duration::ZERO);
        (0..110).for_each(|ms| series.at(Duration::from_millis(ms)).answered += 1);
        assert!((50..=INTERVALS_MAX).contains(&series.intervals.len()), "{}", series.intervals.len());
    }
}
