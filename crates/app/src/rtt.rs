//! Round-trip time estimation (RFC 6298).

use core::time::Duration;

/// Smoothed round-trip time, its variation, and the retransmission timeout derived from them.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    backoff: u32,
    rto_min: Duration,
    rto_max: Duration,
}

impl RttEstimator {
    /// Creates an estimator with bounds for the timeout. Before the first sample the timeout is one
    /// second (RFC 6298, 2.1).
    pub const fn new(rto_min: Duration, rto_max: Duration) -> Self {
        RttEstimator { smoothed: None, variation: Duration::ZERO, backoff: 1, rto_min, rto_max }
    }

    /// Adds the round-trip time of a packet that was sent once (the caller follows Karn's rule).
    pub fn sample(&mut self, rtt: Duration) {
        self.backoff = 1;
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
    }

    /// Doubles the timeout after it fired, until the next sample.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff * 2).min(64);
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub const fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the retransmission timeout.
    pub fn rto(&self) -> Duration {
        let base =
            self.smoothed.map_or(Duration::from_secs(1), |smoothed| smoothed + self.variation * 4);
        (base.max(self.rto_min) * self.backoff).min(self.rto_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rto_converges_and_backs_off() {
        let mut rtt = RttEstimator::new(MS * 10, MS * 60_000);
        assert_eq!(rtt.rto(), MS * 1000);
        for _ in 0..100 {
            rtt.sample(MS * 50);
        }
        assert_eq!(rtt.smoothed(), Some(MS * 50));
        assert!(rtt.rto() < MS * 60, "{:?}", rtt.rto());
        let before = rtt.rto();
        rtt.back_off();
        assert_eq!(rtt.rto(), before * 2);
        rtt.sample(MS * 50);
        assert!(rtt.rto() < before * 2);
        (0..20).for_each(|_| rtt.back_off());
        assert!(rtt.rto() <= MS * 60_000);
    }
}
