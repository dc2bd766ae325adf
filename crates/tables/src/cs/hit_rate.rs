//! The recent hit rate, which decides which prefetches are worth their cost.

/// An exponentially weighted moving average of hits (65535) and misses (0), over about 16
/// Interests.
#[derive(Debug, Default)]
pub(super) struct HitRateEwma(u16);

impl HitRateEwma {
    #[inline(always)]
    pub const fn hit(&mut self) {
        self.0 += (u16::MAX - self.0) >> 4;
    }

    #[inline(always)]
    pub const fn miss(&mut self) {
        self.0 -= self.0 >> 4;
    }

    /// Returns whether more than half of the recent Interests were hits.
    #[inline(always)]
    pub const fn is_mostly_hits(&self) -> bool {
        self.0 > u16::MAX / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hit_rate_follows_recent_results() {
        let mut recent = HitRateEwma::default();
        assert!(!recent.is_mostly_hits());
        (0..12).for_each(|_| recent.hit());
        assert!(recent.is_mostly_hits());
        (0..100_000).for_each(|_| recent.hit());
        assert!(recent.is_mostly_hits());
        (0..12).for_each(|_| recent.miss());
        assert!(!recent.is_mostly_hits());
        (0..100_000).for_each(|_| recent.miss());
        (0..12).for_each(|_| recent.hit());
        assert!(recent.is_mostly_hits(), "whatever the results before");
    }
}
