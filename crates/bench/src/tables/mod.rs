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
    /// Path-like and stable.
    pub name: String,
    /// Of value and spread.
    pub unit: &'static str,
    /// Per operation in the middle batch.
    pub value: f64,
    /// From the tenth to the ninetieth percentile of batches.
    pub spread: f64,
    /// The longest batch, in microseconds: what a caller may have to wait.
    pub longest_us: f64,
}

/// Times of batches of operations.
#[derive(Debug, Default)]
pub struct Samples {
    batches: Vec<(f64, usize)>,
}

impl Samples {
    /// None yet.
    pub const fn new() -> Self {
        Samples { batches: Vec::new() }
    }

    /// Measures one batch of `operations`.
    pub fn measure<R>(&mut self, operations: usize, batch: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = batch();
        self.batches.push((start.elapsed().as_nanos() as f64, operations));
        result
    }

    /// Nanoseconds per operation.
    pub fn row(mut self, name: String) -> Row {
        assert!(!self.batches.is_empty(), "{name} was measured");
        let longest_us =
            self.batches.iter().fold(0.0, |longest: f64, (nanos, _)| longest.max(*nanos)) / 1000.0;
        self.batches.sort_unstable_by(|(a, n), (b, m)| (a / *n as f64).total_cmp(&(b / *m as f64)));
        let at = |share: f64| {
            let (nanos, operations) = self.batches[(share * (self.batches.len() - 1) as f64) as usize];
            nanos / operations as f64
        };
        let spread = at(0.9) - at(0.1);
        Row { name, unit: "ns", value: at(0.5), spread, longest_us }
    }
}
