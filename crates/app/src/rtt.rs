//! Round-trip time, estimated as RFC 6298 does.

use core::time::Duration;

/// Smoothed round-trip time, its variation, and the retransmission time-out that follows.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    backoff: u32,
    rto_min: Duration,
    rto_max: Duration,
}

impl RttEstimator {
    /// With bounds for the time-out. Before the first sample it is one second (RFC 6298, 2.1).
    pub const fn new(rto_min: Duration, rto_max: Duration) -> Self {
        RttEstimator { smoothed: None, variation: Duration::ZERO, backoff: 1, rto_min, rto_max }
    }

    /// Takes the round-trip time of a packet that was sent once (Karn's rule is the caller's).
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

    /// Doubles the time-out after one fired, until the next sample.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff * 2).min(64);
    }

    /// The smoothed round-trip time; `None` before the first sample.
    pub const fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// After how long without an answer to send again.
    pub fn rto(&self) -> Duration {
        let base = self.smoothed.map_or(Duration::from_secs(1), |smoothed| smoothed + self.variation * 4);
        (base.max(self.rto_min) * self.backoff).min(self.rto_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn converges_and_backs_off() {
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
