//! A token bucket: a rate of Interests per second, and a burst after a pause.

use nw_element_api::Timestamp;

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Interests per second in the long run.
    pub per_s: u32,
    /// Interests at once after a pause, at least 1.
    pub burst: u32,
}

impl Rate {
    /// Creates a limit with a burst of a tenth of a second, at least 1.
    pub const fn of(per_s: u32) -> Self {
        let burst = per_s / 10;
        Rate { per_s, burst: if burst == 0 { 1 } else { burst } }
    }
}

/// Units per Interest. In this unit, a rate in thousandths per second is the amount added per
/// nanosecond.
const TOKEN: u64 = 1_000_000_000_000;
/// Larger bursts could not be counted exactly.
const BURST_MAX: u32 = 10_000_000;

/// The tokens left of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    level: u64,
    updated: Timestamp,
}

impl Bucket {
    /// Creates a full bucket.
    pub fn new(now: Timestamp, rate: Rate) -> Self {
        Bucket { level: capacity(rate), updated: now }
    }

    /// Adds the tokens earned since the last call and returns whether there is one for an Interest.
    /// `milli` thousandths of the rate count.
    pub fn has_token(&mut self, now: Timestamp, rate: Rate, milli: u32) -> bool {
        let elapsed = now.as_nanos().saturating_sub(self.updated.as_nanos());
        let earned = elapsed.saturating_mul(u64::from(rate.per_s) * u64::from(milli));
        self.level = self.level.saturating_add(earned).min(capacity(rate));
        self.updated = self.updated.max(now);
        self.level >= TOKEN
    }

    /// Takes a token, after [`has_token`](Self::has_token) returned true.
    pub fn take(&mut self) {
        self.level = self.level.saturating_sub(TOKEN);
    }
}

/// Returns the units of a full bucket.
fn capacity(rate: Rate) -> u64 {
    u64::from(rate.burst.clamp(1, BURST_MAX)) * TOKEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any sequence of requests gets the burst and the rate, and not one more.
        #[test]
        fn requests_never_exceed_burst_and_rate(
            per_s in 1u32..100_000,
            burst in 1u32..1000,
            steps in proptest::collection::vec(0u64..20_000_000, 1..400),
        ) {
            let rate = Rate { per_s, burst };
            let (mut bucket, mut now, mut taken) = (Bucket::new(Timestamp::START, rate), Timestamp::START, 0u64);
            for step in steps {
                now = Timestamp::from_nanos(now.as_nanos() + step);
                while bucket.has_token(now, rate, 1000) {
                    bucket.take();
                    taken += 1;
                }
            }
            let allowed = u64::from(burst) + now.as_nanos() * u64::from(per_s) / 1_000_000_000;
            prop_assert!(taken <= allowed, "{} of {}", taken, allowed);
        }

        /// Requests at exactly the rate, to a nanosecond, are never rejected.
        #[test]
        fn requests_at_the_rate_all_pass(per_s in 1u32..1_000_000, burst in 2u32..10) {
            let rate = Rate { per_s, burst };
            let mut bucket = Bucket::new(Timestamp::START, rate);
            for number in 0..1000u64 {
                let now = Timestamp::from_nanos((number * 1_000_000_000).div_ceil(u64::from(per_s)));
                prop_assert!(bucket.has_token(now, rate, 1000), "{}", number);
                bucket.take();
            }
        }
    }

    #[test]
    fn reduced_rate_passes_its_share() {
        let rate = Rate { per_s: 1000, burst: 1 };
        let mut bucket = Bucket::new(Timestamp::START, rate);
        let mut taken = 0;
        for millis in 0..10_000 {
            if bucket.has_token(Timestamp::from_millis(millis), rate, 250) {
                bucket.take();
                taken += 1;
            }
        }
        assert_eq!(taken, 2500);
        assert_eq!(Rate::of(5), Rate { per_s: 5, burst: 1 });
    }
}
