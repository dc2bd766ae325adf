//! Which prefixes may be pending as Interests with CanBePrefix: shared by all shards, so that a Data without a token is shown to all shards it may be for.
//!
//! By hash, without names: a place says until when something may be pending there. Nothing is taken back; a Data that is shown in vain ends as
//! one nobody asked for. Without such Interests it costs one look at a number.

use core::sync::atomic::{AtomicU64, Ordering};
use nw_element_api::Instant;

/// Places; of prefixes pending at one time, so many over this are noted in vain.
const PLACES: usize = 1 << 14;

/// See the module.
#[derive(Debug)]
pub struct Board {
    until_ns: Box<[AtomicU64]>,
    any_until_ns: AtomicU64,
}

impl Default for Board {
    fn default() -> Self {
        let until_ns = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Board { until_ns, any_until_ns: AtomicU64::new(0) }
    }
}

impl Board {
    /// A prefix with this hash is pending until then at the latest.
    pub fn note(&self, prefix: u64, until: Instant) {
        let until = until.as_nanos();
        // Relaxed, as the Interest is sent, and answered, long after.
        self.place(prefix).fetch_max(until, Ordering::Relaxed);
        self.any_until_ns.fetch_max(until, Ordering::Relaxed);
    }

    /// True while any is pending.
    #[inline]
    pub fn is_used(&self, now: Instant) -> bool {
        self.any_until_ns.load(Ordering::Relaxed) > now.as_nanos()
    }

    /// True when a prefix with this hash may be pending.
    pub fn is_pending(&self, prefix: u64, now: Instant) -> bool {
        self.place(prefix).load(Ordering::Relaxed) > now.as_nanos()
    }

    fn place(&self, prefix: u64) -> &AtomicU64 {
        // The lowest 16 bits choose shards, so they are alike for all prefixes of one shard.
        &self.until_ns[(prefix >> 16) as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_until_it_is_not() {
        let board = Board::default();
        let at = |ms| Instant::from_millis(ms);
        assert!(!board.is_used(at(0)));
        board.note(7 << 16, at(100));
        board.note(7 << 16, at(50));
        assert!(board.is_used(at(99)) && board.is_pending(7 << 16 | 3, at(99)));
        assert!(!board.is_pending(8 << 16, at(1)));
        assert!(!board.is_used(at(100)) && !board.is_pending(7 << 16, at(100)));
    }
}
