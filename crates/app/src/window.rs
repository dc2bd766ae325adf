//! A congestion window: CUBIC (RFC 9438), counted in packets, driven by congestion marks, timeouts
//! and Nacks.

use core::time::Duration;
use nw_element_api::Timestamp;

/// RFC 9438, 4.6: multiplicative decrease factor of the window.
const BETA: f64 = 0.7;
/// RFC 9438, 5: growth factor, packets per cubic second.
const C: f64 = 0.4;

/// The number of Interests that may be outstanding.
#[derive(Clone, Debug)]
pub struct CubicWindow {
    packets: f64,
    packets_min: f64,
    packets_max: f64,
    slow_start_threshold: f64,
    window_at_loss: f64,
    epoch: Option<Epoch>,
    /// Congestion signals of packets sent before this time are already handled.
    recovered_at: Timestamp,
    reductions: u64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Timestamp,
    /// Seconds until the window is back at its size before the loss.
    k: f64,
    /// Window of an AIMD sender (RFC 9438, 4.3).
    reno: f64,
}

impl CubicWindow {
    /// Creates a window of `initial` packets that never exceeds `max`; both at least 2.
    pub fn new(initial: usize, max: usize) -> Self {
        CubicWindow {
            packets: initial.max(2).min(max.max(2)) as f64,
            packets_min: 2.0,
            packets_max: max.max(2) as f64,
            slow_start_threshold: f64::INFINITY,
            window_at_loss: 0.0,
            epoch: None,
            recovered_at: Timestamp::START,
            reductions: 0,
        }
    }

    /// Returns the window size, packets.
    pub fn packets(&self) -> usize {
        self.packets as usize
    }

    /// Returns the number of reductions.
    pub const fn reductions(&self) -> u64 {
        self.reductions
    }

    /// Grows the window after an unmarked reply. `rtt` is the smoothed round-trip time.
    pub fn on_reply(&mut self, now: Timestamp, rtt: Duration) {
        if self.packets < self.slow_start_threshold {
            self.packets = (self.packets + 1.0).min(self.packets_max);
            return;
        }
        let (window_at_loss, packets) = (self.window_at_loss, self.packets);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: now,
            k: ((window_at_loss - packets).max(0.0) / C).cbrt(),
            reno: packets,
        });
        let since = now.since(epoch.start).as_secs_f64() + rtt.as_secs_f64();
        let target =
            C * (since - epoch.k).powi(3) + window_at_loss.max(packets.min(window_at_loss));
        epoch.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / packets;
        let target = target.max(epoch.reno).min(packets * 1.5);
        if target > packets {
            self.packets = (packets + (target - packets) / packets).min(self.packets_max);
        }
    }

    /// Reduces the window after a congestion signal or timeout of a packet sent at `sent`, at most
    /// once per round trip. Returns whether it was reduced.
    pub fn on_congestion(&mut self, now: Timestamp, sent: Timestamp) -> bool {
        if sent < self.recovered_at {
            return false;
        }
        self.recovered_at = now;
        self.reductions += 1;
        // Fast convergence (RFC 9438, 4.7): releases bandwidth to others if the window was already
        // shrinking.
        self.window_at_loss = if self.packets < self.window_at_loss {
            self.packets * (1.0 + BETA) / 2.0
        } else {
            self.packets
        };
        self.packets = (self.packets * BETA).max(self.packets_min);
        self.slow_start_threshold = self.packets;
        self.epoch = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_doubles_shrinks_once_per_round_trip_and_recovers() {
        let rtt = Duration::from_millis(10);
        let mut window = CubicWindow::new(4, 1000);
        (0..96).for_each(|_| window.on_reply(Timestamp::from_millis(1), rtt));
        assert_eq!(window.packets(), 100);
        let now = Timestamp::from_millis(20);
        assert!(window.on_congestion(now, Timestamp::from_millis(15)));
        assert!(!window.on_congestion(now, Timestamp::from_millis(16)));
        assert_eq!((window.packets(), window.reductions()), (70, 1));
        let mut now = now;
        while window.packets() < 100 {
            now = now + rtt;
            (0..window.packets()).for_each(|_| window.on_reply(now, rtt));
            assert!(now < Timestamp::from_millis(20_000), "stuck at {}", window.packets());
        }
    }

    #[test]
    fn window_stays_within_bounds() {
        let mut window = CubicWindow::new(10, 16);
        (0..100).for_each(|i| window.on_reply(Timestamp::from_millis(i), Duration::from_millis(1)));
        assert_eq!(window.packets(), 16);
        for i in 1..100 {
            assert!(
                window.on_congestion(
                    Timestamp::from_millis(1000 * i),
                    Timestamp::from_millis(1000 * i)
                )
            );
        }
        assert_eq!(window.packets(), 2);
    }
}
