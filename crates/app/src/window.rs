//! A congestion window: CUBIC (RFC 9438), counted in packets, reacting to marks, time-outs and Nacks.

use core::time::Duration;
use nw_element_api::Instant;

/// RFC 9438, 4.6: what is left of the window after congestion.
const BETA: f64 = 0.7;
/// RFC 9438, 5: how fast it grows, packets per cubic second.
const C: f64 = 0.4;

/// How many Interests may be on their way.
#[derive(Clone, Debug)]
pub struct CubicWindow {
    packets: f64,
    packets_min: f64,
    packets_max: f64,
    slow_start_threshold: f64,
    window_at_loss: f64,
    epoch: Option<Epoch>,
    /// Congestion signalled by packets sent before this moment was answered already.
    recovered_at: Instant,
    reductions: u64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Seconds until the window is again what it was at the loss.
    k: f64,
    /// Window an AIMD sender would have (RFC 9438, 4.3).
    reno: f64,
}

impl CubicWindow {
    /// From `initial` packets, never above `max`.
    pub fn new(initial: usize, max: usize) -> Self {
        CubicWindow {
            packets: initial.max(2).min(max.max(2)) as f64,
            packets_min: 2.0,
            packets_max: max.max(2) as f64,
            slow_start_threshold: f64::INFINITY,
            window_at_loss: 0.0,
            epoch: None,
            recovered_at: Instant::START,
            reductions: 0,
        }
    }

    /// Packets that may be on their way.
    pub fn packets(&self) -> usize {
        self.packets as usize
    }

    /// How often it was reduced.
    pub const fn reductions(&self) -> u64 {
        self.reductions
    }

    /// An answer came, unmarked. `rtt` is the smoothed round-trip time.
    pub fn on_answer(&mut self, now: Instant, rtt: Duration) {
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
        let target = C * (since - epoch.k).powi(3) + window_at_loss.max(packets.min(window_at_loss));
        epoch.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / packets;
        let target = target.max(epoch.reno).min(packets * 1.5);
        if target > packets {
            self.packets = (packets + (target - packets) / packets).min(self.packets_max);
        }
    }

    /// Congestion was signalled by (or a time-out hit) a packet sent at `sent`. Reduces once per round trip; true when it did.
    pub fn on_congestion(&mut self, now: Instant, sent: Instant) -> bool {
        if sent < self.recovered_at {
            return false;
        }
        self.recovered_at = now;
        self.reductions += 1;
        // Fast convergence (RFC 9438, 4.7): leave room to others when the window was already shrinking.
        self.window_at_loss =
            if self.packets < self.window_at_loss { self.packets * (1.0 + BETA) / 2.0 } else { self.packets };
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
    fn doubles_shrinks_once_per_round_trip_and_recovers() {
        let rtt = Duration::from_millis(10);
        let mut window = CubicWindow::new(4, 1000);
        (0..96).for_each(|_| window.on_answer(Instant::from_millis(1), rtt));
        assert_eq!(window.packets(), 100);
        let now = Instant::from_millis(20);
        assert!(window.on_congestion(now, Instant::from_millis(15)));
        assert!(!window.on_congestion(now, Instant::from_millis(16)));
        assert_eq!((window.packets(), window.reductions()), (70, 1));
        let mut now = now;
        while window.packets() < 100 {
            now = now + rtt;
            (0..window.packets()).for_each(|_| window.on_answer(now, rtt));
            assert!(now < Instant::from_millis(20_000), "stuck at {}", window.packets());
        }
    }

    #[test]
    fn stays_within_its_bounds() {
        let mut window = CubicWindow::new(10, 16);
        (0..100).for_each(|i| window.on_answer(Instant::from_millis(i), Duration::from_millis(1)));
        assert_eq!(window.packets(), 16);
        for i in 1..100 {
            assert!(window.on_congestion(Instant::from_millis(1000 * i), Instant::from_millis(1000 * i)));
        }
        assert_eq!(window.packets(), 2);
    }
}
