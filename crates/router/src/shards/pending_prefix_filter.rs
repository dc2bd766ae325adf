//! Shared filter of the prefixes for which Interests with CanBePrefix may be pending. A Data packet
//! without a token is offered to all shards where one of its prefixes may be pending.
//!
//! The filter is an array indexed by hash; a slot holds the time until which some prefix may be
//! pending there. Slots are never cleared. A false positive only offers a Data packet in vain: the
//! other shard drops it as unsolicited. Without such Interests the filter costs one load per Data
//! packet.

use core::sync::atomic::{AtomicU64, Ordering};
use nw_element_api::Timestamp;

/// Number of slots. If more prefixes are pending at a time, false positives become frequent.
const SLOTS: usize = 1 << 14;

/// A filter shared by all shards of a router.
#[derive(Debug)]
pub struct PendingPrefixFilter {
    until_ns: Box<[AtomicU64]>,
    any_until_ns: AtomicU64,
}

impl Default for PendingPrefixFilter {
    fn default() -> Self {
        let until_ns = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        PendingPrefixFilter { until_ns, any_until_ns: AtomicU64::new(0) }
    }
}

impl PendingPrefixFilter {
    /// Inserts the hash of a prefix that is pending until `until` at the latest.
    pub fn insert(&self, prefix: u64, until: Timestamp) {
        let until = until.as_nanos();
        // Relaxed, as the Interest is sent, and answered, much later.
        self.slot(prefix).fetch_max(until, Ordering::Relaxed);
        self.any_until_ns.fetch_max(until, Ordering::Relaxed);
    }

    /// Returns whether any prefix may be pending.
    #[inline]
    pub fn has_pending(&self, now: Timestamp) -> bool {
        self.any_until_ns.load(Ordering::Relaxed) > now.as_nanos()
    }

    /// Returns whether a prefix with this hash may be pending.
    pub fn may_be_pending(&self, prefix: u64, now: Timestamp) -> bool {
        self.slot(prefix).load(Ordering::Relaxed) > now.as_nanos()
    }

    fn slot(&self, prefix: u64) -> &AtomicU64 {
        // The lowest 16 bits select the shard, so they are equal for all prefixes of a shard.
        &self.until_ns[(prefix >> 16) as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_inserted_prefix_is_pending_until_latest_time() {
        let filter = PendingPrefixFilter::default();
        let at = |ms| Timestamp::from_millis(ms);
        assert!(!filter.has_pending(at(0)));
        filter.insert(7 << 16, at(100));
        filter.insert(7 << 16, at(50));
        assert!(filter.has_pending(at(99)) && filter.may_be_pending(7 << 16 | 3, at(99)));
        assert!(!filter.may_be_pending(8 << 16, at(1)));
        assert!(!filter.has_pending(at(100)) && !filter.may_be_pending(7 << 16, at(100)));
    }
}
