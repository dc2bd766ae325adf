//! Measured durations: a histogram for the quantiles, and exact minimum, maximum and mean.

use core::time::Duration;
use hdrhistogram::Histogram;

/// The longest duration that is distinguished: one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Returns an empty histogram of nanoseconds with this many significant digits.
pub fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, digits).expect("the bounds are in order")
}

/// Durations in nanoseconds. Minimum, maximum and mean are exact. Quantiles have the histogram's
/// digits and lie between minimum and maximum.
#[derive(Clone, Debug)]
pub struct Timings {
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Timings {
    /// Creates an empty set whose histogram has this many significant digits.
    pub fn new(digits: u8) -> Self {
        Timings { histogram: histogram(digits), min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }

    /// Records one duration.
    pub fn record(&mut self, duration: Duration) {
        let ns = duration.as_nanos().min(u128::from(LONGEST_NS)) as u64;
        self.histogram.saturating_record(ns.max(1));
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
    }

    /// Returns the number of durations.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns true before the first duration.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Returns the shortest duration. `None` before the first.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// Returns the longest duration. `None` before the first.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// Returns the mean. `None` before the first duration.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.len() as f64)
    }

    /// Returns the duration that this share of all does not exceed.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        // The histogram returns the end of a bucket, which may lie beyond the maximum.
        self.histogram.value_at_quantile(share).min(self.max_ns).max(self.min_ns.min(self.max_ns))
    }

    /// Returns the histogram, for charts.
    pub const fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_of_one_sample_equal_the_sample() {
        let mut timings = Timings::new(2);
        assert_eq!((timings.min_ns(), timings.max_ns(), timings.mean_ns()), (None, None, None));
        timings.record(Duration::from_nanos(18_656_123));
        assert_eq!((timings.min_ns(), timings.max_ns()), (Some(18_656_123), Some(18_656_123)));
        assert_eq!(timings.mean_ns(), Some(18_656_123.0));
        assert_eq!((timings.quantile_ns(0.5), timings.quantile_ns(0.99)), (18_656_123, 18_656_123));
    }
}
