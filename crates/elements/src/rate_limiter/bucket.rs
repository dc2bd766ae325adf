//! A token bucket: so many Interests a second, and so many at once after a pause.

use nw_element_api::Instant;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Interests a second, in the long run.
    pub per_s: u32,
    /// Interests at once, at least 1.
    pub burst: u32,
}

impl Rate {
    /// With a burst of a tenth of a second, of 1 at least.
    pub const fn of(per_s: u32) -> Self {
        let burst = per_s / 10;
        Rate { per_s, burst: if burst == 0 { 1 } else { burst } }
    }
}

/// What one Interest takes. With this unit a rate in thousandths a second adds itself every nanosecond.
const ONE: u64 = 1_000_000_000_000;
/// Larger ones would not be counted exactly.
const BURST_MAX: u32 = 10_000_000;

/// What is left of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    left: u64,
    at: Instant,
}

impl Bucket {
    /// Full.
    pub fn new(now: Instant, rate: Rate) -> Self {
        Bucket { left: most(rate), at: now }
    }

    /// True when there is room for one more; `milli` thousandths of the rate count.
    pub fn has(&mut self, now: Instant, rate: Rate, milli: u32) -> bool {
        let elapsed = now.as_nanos().saturating_sub(self.at.as_nanos());
        let more = elapsed.saturating_mul(u64::from(rate.per_s) * u64::from(milli));
        self.left = self.left.saturating_add(more).min(most(rate));
        self.at = self.at.max(now);
        self.left >= ONE
    }

    /// Takes one; [`has`](Self::has) said that there is room.
    pub fn take(&mut self) {
        self.left = self.left.saturating_sub(ONE);
    }
}

fn most(rate: Rate) -> u64 {
    u64::from(rate.burst.clamp(1, BURST_MAX)) * ONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whoever asks as often as they like gets the burst and the rate, and not one more.
        #[test]
        fn never_more_than_burst_and_rate(
            per_s in 1u32..100_000,
            burst in 1u32..1000,
            steps in proptest::collection::vec(0u64..20_000_000, 1..400),
        ) {
            let rate = Rate { per_s, burst };
            let (mut bucket, mut now, mut taken) = (Bucket::new(Instant::START, rate), Instant::START, 0u64);
            for step in steps {
                now = Instant::from_nanos(now.as_nanos() + step);
                while bucket.has(now, rate, 1000) {
                    bucket.take();
                    taken += 1;
                }
            }
            let most = u64::from(burst) + now.as_nanos() * u64::from(per_s) / 1_000_000_000;
            prop_assert!(taken <= most, "{} of {}", taken, most);
        }

        /// Whoever keeps to the rate, to a nanosecond, is never refused.
        #[test]
        fn who_keeps_to_the_rate_passes(per_s in 1u32..1_000_000, burst in 2u32..10) {
            let rate = Rate { per_s, burst };
            let mut bucket = Bucket::new(Instant::START, rate);
            for number in 0..1000u64 {
                let now = Instant::from_nanos((number * 1_000_000_000).div_ceil(u64::from(per_s)));
                prop_assert!(bucket.has(now, rate, 1000), "{}", number);
                bucket.take();
            }
        }
    }

    #[test]
    fn a_part_of_the_rate() {
        let rate = Rate { per_s: 1000, burst: 1 };
        let mut bucket = Bucket::new(Instant::START, rate);
        let mut taken = 0;
        for millis in 0..10_000 {
            if bucket.has(Instant::from_millis(millis), rate, 250) {
                bucket.take();
                taken += 1;
            }
        }
        assert_eq!(taken, 2500);
        assert_eq!(Rate::of(5), Rate { per_s: 5, burst: 1 });
    }
}
