//! A congestion window: CUBIC (RFC 9438), counted in packets, driven by congestion marks, timeouts
//! and Nacks, and limited by the queueing delay.
//!
//! Marks come late, when a queue is long already, and not from every router. So the window also
//! stops growing when replies of a whole round waited in queues, and shrinks to what leaves a
//! packet or two there. Below `DELAY_MIN` nothing changes: on one machine such delays are jitter.

use crate::queue_delay::Round;
use core::time::Duration;
use nw_element_api::Timestamp;

/// RFC 9438, 4.6: multiplicative decrease factor of the window.
const BETA: f64 = 0.7;
/// RFC 9438, 5: growth factor, packets per cubic second.
const C: f64 = 0.4;
/// Least queueing delay that stops growth; twice as much shrinks the window.
const DELAY_MIN: Duration = Duration::from_millis(10);
/// The same, as a part of the round-trip time without queues.
const DELAY_PARTS: u32 = 4;
/// Packets in queues below which a window grows in spite of the delay, above which it shrinks, and
/// to which.
const QUEUED_MIN: f64 = 0.5;
const QUEUED_MAX: f64 = 1.0;
const QUEUED_TARGET: f64 = 0.75;
/// Packets more than these in queues at a delay that is just too long, and the delay in targets
/// from which on there are none more. On a slow link one packet takes as long as the target, and a
/// window of one leaves the link between its packets to others.
const QUEUED_EXTRA: f64 = 1.5;
const EXTRA_TARGETS: f64 = 3.0;
/// Factor by which a round with too long a delay shrinks the window at least.
const SHRINK: f64 = 0.9;
/// Least growth per reply while a window that delay had limited finds the queues short.
const GROW: f64 = 0.02;
/// Growth per reply while a window that delay had limited finds the queues empty.
const REFILL: f64 = 0.25;

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
    delay: DelayState,
    trial: Option<Trial>,
    /// Rounds in which delay is still ignored.
    ignored_rounds: u32,
}

/// The window before the rounds that shrink it because of delay. If the delay stays and no reply is
/// marked meanwhile, it is not that of a queue: the path is longer than the base, which a nearer
/// copy or an earlier path has set.
#[derive(Clone, Copy, Debug)]
struct Trial {
    packets: f64,
    slow_start_threshold: f64,
    /// Longest median delay of a round in the trial.
    delay: Duration,
    /// Rounds with a long delay.
    long_rounds: u32,
    /// Rounds without it since the last one with it.
    short_rounds: u32,
    /// The window is half of what it was.
    is_halved: bool,
}

impl Trial {
    /// Counts a round with a short delay. Returns whether the window has emptied the queues: one
    /// such round may also be that of a reply from a near store.
    const fn ends_without_delay(&mut self) -> bool {
        self.short_rounds += 1;
        self.short_rounds >= SHORT_ROUNDS
    }
}

/// Rounds in which the window must halve, and the delay stay, so that a trial fails: shares of a
/// link become equal more slowly.
const LONG_ROUNDS: u32 = 5;
/// Part of a trial's delay from which on that of half the window is the same: a queue of this
/// window would have left less than half.
const SAME_DELAY: f64 = 0.6;
/// Rounds in a row without delay that end a trial.
const SHORT_ROUNDS: u32 = 4;
/// Rounds after a failed trial in which delay is ignored unless a signal of congestion comes:
/// replies from stores at several distances differ in delay without any queue.
const IGNORED_ROUNDS: u32 = 256;

/// What the last round's queueing delay means for the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DelayState {
    /// No limit: marks and losses decide.
    #[default]
    Free,
    /// Queues are long enough.
    Hold,
    /// Delay limited the window before; queues are shorter now.
    Grow,
    /// The same, and queues are nearly empty.
    Refill,
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
    /// Creates a window of `initial` packets that never exceeds `max`; `initial` is at least 1, `max`
    /// at least 2.
    pub fn new(initial: usize, max: usize) -> Self {
        CubicWindow {
            packets: initial.max(1).min(max.max(2)) as f64,
            packets_min: 1.0,
            packets_max: max.max(2) as f64,
            slow_start_threshold: f64::INFINITY,
            window_at_loss: 0.0,
            epoch: None,
            recovered_at: Timestamp::START,
            reductions: 0,
            delay: DelayState::Free,
            trial: None,
            ignored_rounds: 0,
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
        match self.delay {
            DelayState::Hold => return,
            _ if self.packets < self.slow_start_threshold => {
                self.packets = (self.packets + 1.0).min(self.packets_max);
                return;
            }
            DelayState::Refill => {
                self.packets = (self.packets + REFILL).min(self.packets_max);
                return;
            }
            // Equal growth and proportional shrinking make the shares of a link equal.
            DelayState::Grow => {
                let growth = (1.0 / self.packets).max(GROW);
                self.packets = (self.packets + growth).min(self.packets_max);
                return;
            }
            DelayState::Free => {}
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

    /// Interrupts growth for the rest of the round if one reply waited much longer than queues
    /// should be: in slow start the window doubles within a round.
    pub fn on_sample(&mut self, sample: Round) {
        if self.ignored_rounds == 0 && sample.queue_delay() > target(sample) * 2 {
            self.delay = DelayState::Hold;
        }
    }

    /// Adapts the window to the queueing delay of a round. Returns true if the delay does not
    /// depend on the window, so that the shortest round-trip time must be [measured
    /// anew](crate::queue_delay::QueueDelay::restart).
    pub fn on_round(&mut self, round: Round) -> bool {
        let delay = round.queue_delay();
        let target = target(round);
        if self.ignored_rounds > 0 {
            self.ignored_rounds -= 1;
            return false;
        }
        if delay <= target {
            let ended = self.trial.as_mut().is_some_and(Trial::ends_without_delay);
            self.trial = self.trial.filter(|_| !ended);
            if self.delay != DelayState::Free {
                let is_empty = delay <= target / 4;
                self.delay = if is_empty { DelayState::Refill } else { DelayState::Grow };
            }
            return false;
        }
        if self.ends_trial(round) {
            return true;
        }
        // Packets of this window that wait in queues, as in TCP Vegas: with many downloads on a
        // link, each needs about one there, whatever the delay is then.
        let share = delay.as_secs_f64() / round.shortest.as_secs_f64();
        let queued = self.packets * share;
        let extra = queued_extra(delay, target);
        if queued > QUEUED_MAX + extra {
            let factor = (round.base + target).as_secs_f64() / round.shortest.as_secs_f64();
            let factor = factor.min(SHRINK);
            let least = self.packets - (queued - QUEUED_TARGET - extra);
            self.packets = (self.packets * factor).max(least).max(self.packets_min);
        } else if queued < QUEUED_MIN + extra {
            self.packets = (self.packets + 1.0).min(self.packets_max);
        }
        self.delay = DelayState::Hold;
        self.slow_start_threshold = self.packets;
        self.window_at_loss = self.packets;
        self.epoch = None;
        false
    }

    /// Handles a round with too long a delay. If the window was halved and the delay is still the
    /// same, restores the window and returns true.
    fn ends_trial(&mut self, round: Round) -> bool {
        let new = Trial {
            packets: self.packets,
            slow_start_threshold: self.slow_start_threshold,
            delay: Duration::ZERO,
            long_rounds: 0,
            short_rounds: 0,
            is_halved: false,
        };
        let trial = self.trial.get_or_insert(new);
        trial.long_rounds += 1;
        trial.short_rounds = 0;
        // The queue of a window is seen one round later, as most replies of this round were
        // requested before it: that of a window that doubled, and that of one that was halved.
        trial.delay = trial.delay.max(round.median_delay());
        let was_halved =
            core::mem::replace(&mut trial.is_halved, self.packets * 2.0 <= trial.packets);
        let is_shorter = was_halved
            && round.queue_delay().as_secs_f64() < SAME_DELAY * trial.delay.as_secs_f64();
        if is_shorter || trial.long_rounds > LONG_ROUNDS {
            *trial = Trial { delay: round.median_delay(), long_rounds: 1, ..new };
            return false;
        }
        if !was_halved {
            return false;
        }
        let trial = *trial;
        self.packets = trial.packets;
        self.slow_start_threshold = trial.slow_start_threshold;
        self.window_at_loss = self.packets;
        self.epoch = None;
        self.delay = DelayState::Free;
        self.trial = None;
        self.ignored_rounds = IGNORED_ROUNDS;
        true
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
        self.delay = DelayState::Free;
        self.trial = None;
        self.ignored_rounds = 0;
        true
    }
}

/// Returns the queueing delay that a window may cause.
fn target(round: Round) -> Duration {
    DELAY_MIN.max(round.base / DELAY_PARTS)
}

/// Returns how many packets more a window may leave in queues: fewer, the longer the delay is. With
/// a hundred downloads on a link it is long with one packet of each.
fn queued_extra(delay: Duration, target: Duration) -> f64 {
    let targets = delay.as_secs_f64() / target.as_secs_f64();
    QUEUED_EXTRA * ((EXTRA_TARGETS - targets) / (EXTRA_TARGETS - 1.0)).clamp(0.0, 1.0)
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
        assert_eq!(window.packets(), 1);
    }

    fn round(base_ms: u64, shortest_ms: u64) -> Round {
        let shortest = Duration::from_millis(shortest_ms);
        Round { base: Duration::from_millis(base_ms), shortest, median: shortest }
    }

    #[test]
    fn window_shrinks_to_short_queue_and_refills_when_it_is_gone() {
        let reply = |window: &mut CubicWindow| {
            window.on_reply(Timestamp::from_millis(1), Duration::from_millis(20));
        };
        let mut window = CubicWindow::new(60, 1000);
        window.on_round(round(20, 32));
        reply(&mut window);
        assert_eq!(window.packets(), 54, "12 ms of queue");
        window.on_round(round(20, 60));
        assert_eq!(window.packets(), 27, "(20 + 10) / 60 of it");
        (0..100).for_each(|_| reply(&mut window));
        assert_eq!(window.packets(), 27);
        window.on_round(round(20, 26));
        (0..28).for_each(|_| reply(&mut window));
        assert_eq!(window.packets(), 28, "one per round trip");
        window.on_round(round(20, 22));
        (0..40).for_each(|_| reply(&mut window));
        assert_eq!(window.packets(), 38);
    }

    #[test]
    fn windows_on_one_queue_become_equal() {
        let mut windows = [2, 60, 5, 20, 1].map(|initial| CubicWindow::new(initial, 1000));
        // A link of 31 packets per 20 ms.
        for _ in 0..200 {
            let total: f64 = windows.iter().map(|window| window.packets).sum();
            let shortest = Duration::from_secs_f64((total / 31.0).max(1.0) * 0.020);
            let round = Round { base: Duration::from_millis(20), shortest, median: shortest };
            for window in &mut windows {
                (0..window.packets())
                    .for_each(|_| window.on_reply(Timestamp::from_millis(1), shortest));
                window.on_round(round);
            }
        }
        let sizes = windows.map(|window| window.packets);
        let (sum, squares) = (sizes.iter().sum::<f64>(), sizes.iter().map(|w| w * w).sum::<f64>());
        assert!(sum * sum / (5.0 * squares) > 0.95, "{sizes:?}");
        assert!((31.0..62.0).contains(&sum), "{sizes:?}");
    }

    /// At 10 Mbit/s a packet takes 7 ms.
    #[test]
    fn window_leaves_more_than_a_packet_in_queues_while_the_delay_is_short() {
        let mut window = CubicWindow::new(1, 1000);
        window.on_round(round(8, 22));
        assert_eq!(window.packets(), 2);
        window.on_round(round(8, 45));
        assert_eq!(window.packets(), 1);
        // A hundred downloads on a link of 100 Mbit/s.
        let mut window = CubicWindow::new(1, 1000);
        (0..10).for_each(|_| _ = window.on_round(round(20, 65)));
        assert_eq!(window.packets(), 1);
    }

    /// Replies of a near store and of a far producer: the delay is that of the path.
    #[test]
    fn window_is_restored_when_the_delay_does_not_depend_on_it() {
        let mut window = CubicWindow::new(40, 1000);
        let mut rounds = (0..10).map(|at| if at % 2 == 0 { round(10, 45) } else { round(10, 10) });
        assert!(rounds.any(|round| window.on_round(round)));
        assert_eq!(window.packets(), 40);
        (0..10).for_each(|_| _ = window.on_round(round(10, 45)));
        assert_eq!(window.packets(), 40, "delay is ignored for a while");
        window.on_congestion(Timestamp::from_millis(1), Timestamp::from_millis(1));
        window.on_round(round(10, 45));
        assert!(window.packets() < 28, "a mark ends that");
    }

    /// Slow start over a link of 20 Mbit/s: the queue that a window of 13 packets fills is seen
    /// after the round that ended its growth.
    #[test]
    fn window_of_slow_start_is_not_restored_over_a_queue() {
        let mut window = CubicWindow::new(13, 1000);
        for shortest_ms in [13, 31, 10, 10, 14, 11, 14] {
            assert!(!window.on_round(round(2, shortest_ms)), "{shortest_ms} ms are of a queue");
        }
        assert!(window.packets() < 7, "{} packets", window.packets());
    }

    /// Packets of a busy machine come in bursts, and some overtake a fragment that is sent again:
    /// the shortest time of a round says little then.
    #[test]
    fn window_is_not_restored_because_some_packets_overtook_others() {
        let mut window = CubicWindow::new(12, 1000);
        for (shortest_ms, median_ms) in [(17, 38), (22, 34), (22, 36), (18, 21), (18, 21)] {
            let round = Round { median: Duration::from_millis(median_ms), ..round(5, shortest_ms) };
            assert!(!window.on_round(round), "{median_ms} ms are of a queue");
        }
    }

    #[test]
    fn window_ignores_delay_below_jitter() {
        let mut window = CubicWindow::new(4, 1000);
        for _ in 0..10 {
            window.on_round(Round { base: Duration::from_micros(50), ..round(0, 9) });
            window.on_reply(Timestamp::from_millis(1), Duration::from_millis(9));
        }
        assert_eq!(window.packets(), 14);
    }
}
