//! Tables alone: nanoseconds per operation by number of entries, with and without prefetching.

pub mod cs;
pub mod cs_policies;
pub mod dnl;
pub mod fib;
pub mod pit;

use std::time::Instant;

/// One result.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the row, a stable path.
    pub name: String,
    /// Unit of value and spread.
    pub unit: &'static str,
    /// Time per operation in the median batch.
    pub value: f64,
    /// Difference between the 90th and the 10th percentile of batches.
    pub spread: f64,
    /// The longest batch in microseconds: the longest wait of a caller.
    pub longest_us: f64,
}

/// Times of batches of operations.
#[derive(Debug, Default)]
pub struct Samples {
    batches: Vec<(f64, usize)>,
}

impl Samples {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Samples { batches: Vec::new() }
    }

    /// Times one batch of `operations`.
    pub fn measure<R>(&mut self, operations: usize, batch: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = batch();
        self.batches.push((start.elapsed().as_nanos() as f64, operations));
        result
    }

    /// Returns a row with nanoseconds per operation.
    pub fn row(mut self, name: String) -> Row {
        assert!(!self.batches.is_empty(), "{name} was measured");
        let longest_us =
            self.batches.iter().fold(0.0, |longest: f64, (nanos, _)| longest.max(*nanos)) / 1000.0;
        self.batches.sort_unstable_by(|(a, n), (b, m)| (a / *n as f64).total_cmp(&(b / *m as f64)));
        let at = |share: f64| {
            let (nanos, operations) =
                self.batches[(share * (self.batches.len() - 1) as f64) as usize];
            nanos / operations as f64
        };
        let spread = at(0.9) - at(0.1);
        Row { name, unit: "ns", value: at(0.5), spread, longest_us }
    }
}
