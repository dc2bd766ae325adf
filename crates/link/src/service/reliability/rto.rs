//! Retransmission timeout of RFC 6298.

use core::time::Duration;

/// RFC 6298, 2.1: before the first measurement.
const RTO_INITIAL: Duration = Duration::from_secs(1);

/// RFC 6298, 2.5: an upper bound, of at least 60 s.
const RTO_MAX: Duration = Duration::from_secs(60);

/// Smoothed round-trip time, its variation, and the timeout computed from them. Without backoff: a
/// packet is transmitted at most four times.
#[derive(Clone, Debug)]
pub struct RetransmissionTimer {
    smoothed: Option<Duration>,
    variation: Duration,
    rto: Duration,
    rto_min: Duration,
}

impl RetransmissionTimer {
    /// Returns the initial timeout, at least `rto_min`.
    pub fn new(rto_min: Duration) -> Self {
        RetransmissionTimer {
            smoothed: None,
            variation: Duration::ZERO,
            rto: RTO_INITIAL.max(rto_min),
            rto_min,
        }
    }

    /// Adds a round-trip time measurement.
    pub fn sample(&mut self, rtt: Duration) {
        let smoothed = match self.smoothed {
            None => {
                self.variation = rtt / 2;
                rtt
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                (smoothed * 7 + rtt) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.rto = (smoothed + self.variation * 4).clamp(self.rto_min, RTO_MAX);
    }

    /// Returns the time without an Ack after which a transmission is lost.
    pub const fn rto(&self) -> Duration {
        self.rto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rto_follows_round_trip_time_within_bounds() {
        let ms = Duration::from_millis;
        let mut timer = RetransmissionTimer::new(ms(200));
        assert_eq!(timer.rto(), ms(1000));
        timer.sample(ms(100));
        assert_eq!(timer.rto(), ms(300), "100 + 4 * 50");
        timer.sample(ms(100));
        assert_eq!(timer.rto(), ms(250), "100 + 4 * 37.5");
        (0..50).for_each(|_| timer.sample(ms(10)));
        assert_eq!(timer.rto(), ms(200));
        (0..50).for_each(|_| timer.sample(ms(100_000)));
        assert_eq!(timer.rto(), ms(60_000));
    }
}
