//! How much Data an upstream link may be asked for: a rate that is learned from congestion marks,
//! and the credit that it gives.
//!
//! The first mark says that the link is full, so the Data received then is its rate: the most in
//! any of some short windows, as consumers may have little left to ask for in the others.
//! Until it is known, one Interest is sent for each Data received, so that the far queue does not
//! grow. Then each interval with a mark sets the rate to what was received, and leaves out what
//! makes the far queue long; each interval without a mark in which Interests waited raises it, by
//! more the longer that lasts. So it settles where the far queue is just long enough to be marked
//! now and then, which keeps the link full, and it follows a link whose rate changes.

use core::time::Duration;
use nw_element_api::Timestamp;

/// Growth by one window of Data that arrived faster than the link was known to carry.
const WINDOW_GROWTH: f64 = 1.05;
/// Length of a control interval.
const INTERVAL: Duration = Duration::from_millis(50);
/// Growth per interval without a mark.
const GROWTH: f64 = 0.005;
/// Intervals without a mark after which growth increases with each: the link has become faster.
const GROWTH_INTERVALS: i32 = 10;
/// Largest growth per interval.
const GROWTH_MAX: f64 = 0.10;
/// Data that is not requested after an interval with a mark, times the number of such intervals in
/// a row: what makes a far queue long enough to be marked. Then Interests wait here, where flows
/// are told apart, and not their Data there.
const DRAIN_BYTES: f64 = 49_152.0;
/// The same, as time on a fast link, seconds.
const DRAIN_TIME: f64 = 0.004;
/// The same, at most, as a part of an interval.
const DRAIN_MAX: f64 = 0.2;
/// Largest decrease of the rate in one interval.
const DROP_MAX: f64 = 0.5;
/// Smallest rate, bytes per second: a few Data per second, so that a rate is always learned again.
const RATE_MIN: f64 = 20_000.0;
/// Largest rate, bytes per second.
const RATE_MAX: f64 = 1e12;
/// Credit that may be saved, as time: an event loop on a busy machine may wake up so late.
const BURST: f64 = 0.010;

/// Windows from which the first rate is learned.
const LEARNING_WINDOWS: u32 = 4;
/// Time after which learning ends with what is known.
const LEARNING_TIME_MAX: Duration = Duration::from_millis(500);
/// Growth per interval after learning, until the first mark: consumers may have had too little to
/// ask for to fill the link.
const STARTUP_GROWTH: f64 = 0.25;
/// Shortest window in which received Data is counted: an event loop that was held up receives the
/// Data of a longer time at once.
const WINDOW: Duration = Duration::from_millis(20);
/// Data without which a window says nothing.
const WINDOW_PACKETS: u32 = 4;

/// Credit that may be saved while the rate is learned, bytes.
const LEARNING_CREDIT_MAX: f64 = 65_536.0;

/// Data received in a short time.
#[derive(Debug)]
struct Window {
    start: Timestamp,
    bytes: u64,
    packets: u32,
}

impl Window {
    const fn new(start: Timestamp) -> Self {
        Window { start, bytes: 0, packets: 0 }
    }

    /// Adds Data. Returns the rate of a window that is complete, bytes per second.
    fn add(&mut self, now: Timestamp, len: usize) -> Option<f64> {
        let elapsed = now.since(self.start);
        // Between two downloads nothing is received.
        let is_valid = elapsed >= WINDOW && elapsed < WINDOW * 4 && self.packets >= WINDOW_PACKETS;
        let rate = is_valid.then(|| self.bytes as f64 / elapsed.as_secs_f64());
        if elapsed >= WINDOW {
            *self = Window::new(now);
        }
        self.bytes += len as u64;
        self.packets += 1;
        rate
    }
}

/// A learned rate and the credit that it gives.
#[derive(Debug)]
pub(super) struct RateControl {
    /// Windows measured while the rate is not known; `None` once it is.
    learning: Option<u32>,
    /// There was no mark since the rate was learned.
    is_startup: bool,
    window: Window,
    bytes_per_s: f64,
    /// What the link carries, bytes per second.
    carried: f64,
    /// Bytes of Data that may be requested; negative after the last Interest of a burst.
    credit: f64,
    refilled_at: Timestamp,
    interval_start: Timestamp,
    received: u64,
    has_mark: bool,
    had_backlog: bool,
    /// Intervals in a row with a mark (positive) or without one (negative).
    streak: i32,
}

impl RateControl {
    /// Creates a control that learns the rate first.
    pub(super) const fn new(now: Timestamp) -> Self {
        RateControl {
            learning: Some(0),
            is_startup: true,
            window: Window::new(now),
            bytes_per_s: RATE_MIN,
            carried: RATE_MIN,
            credit: 0.0,
            refilled_at: now,
            interval_start: now,
            received: 0,
            has_mark: false,
            had_backlog: false,
            streak: 0,
        }
    }

    /// Adds the credit since the last call.
    pub(super) fn refill(&mut self, now: Timestamp) {
        let elapsed = now.since(self.refilled_at).as_secs_f64();
        if elapsed > 0.0 {
            self.refilled_at = now;
            let burst = (self.bytes_per_s * BURST).max(self.credit);
            self.credit = (self.credit + elapsed * self.bytes_per_s).min(burst);
        }
        self.end_interval(now);
    }

    /// Returns whether one more Interest may be sent.
    pub(super) const fn has_credit(&self) -> bool {
        self.credit >= 0.0
    }

    /// Takes the credit for an Interest. Returns false, without taking any, if there is none.
    pub(super) fn spend(&mut self, cost: f64) -> bool {
        let has_credit = self.has_credit();
        if has_credit {
            self.credit -= cost;
        }
        has_credit
    }

    /// Returns the rate, bytes per second. `None` while it is being learned.
    pub(super) fn learned_bytes_per_s(&self) -> Option<f64> {
        self.learning.is_none().then_some(self.bytes_per_s)
    }

    /// Returns when there is credit again.
    pub(super) fn credit_at(&self) -> Timestamp {
        self.refilled_at + self.time_for((-self.credit).max(0.0))
    }

    /// Returns how long the link takes for `bytes` of Data.
    pub(super) fn time_for(&self, bytes: f64) -> Duration {
        Duration::from_secs_f64((bytes / self.bytes_per_s).clamp(0.0, 3600.0))
    }

    /// Records that an Interest has to wait.
    pub(super) const fn note_backlog(&mut self) {
        self.had_backlog = true;
    }

    /// Records Data of `len` bytes.
    pub(super) fn on_data(&mut self, now: Timestamp, len: usize, backlog: bool, marked: bool) {
        self.received += len as u64;
        self.had_backlog |= backlog;
        self.has_mark |= marked;
        if self.learning.is_some() {
            self.credit = (self.credit + len as f64).min(LEARNING_CREDIT_MAX);
        }
        if let Some(rate) = self.window.add(now, len) {
            self.on_window(rate, marked);
        }
        self.end_interval(now);
    }

    /// Sets the first rate, once it was measured.
    fn finish_learning(&mut self, now: Timestamp, windows: u32) {
        if windows >= LEARNING_WINDOWS || self.has_learned_nothing(now) {
            self.bytes_per_s = self.carried;
            (self.learning, self.refilled_at) = (None, now);
            self.credit = self.credit.min(0.0);
            self.start_interval(now);
        }
    }

    /// Returns whether too little Data came after the first mark to learn a rate.
    pub(super) fn has_learned_nothing(&self, now: Timestamp) -> bool {
        self.learning.is_some() && now.since(self.interval_start) >= LEARNING_TIME_MAX
    }

    /// Records the rate of a window.
    fn on_window(&mut self, rate: f64, marked: bool) {
        if let Some(windows) = &mut self.learning {
            *windows += 1;
        }
        if rate <= self.carried {
            return;
        }
        // What the link has carried, it can carry; a burst that waited elsewhere says more.
        let rate_max =
            if self.learning.is_some() { RATE_MAX } else { self.carried * WINDOW_GROWTH };
        self.carried = rate.min(rate_max);
        if !marked {
            self.bytes_per_s = self.bytes_per_s.max(self.carried);
        }
    }

    fn start_interval(&mut self, now: Timestamp) {
        self.interval_start = now;
        (self.received, self.has_mark, self.had_backlog) = (0, false, false);
    }

    fn end_interval(&mut self, now: Timestamp) {
        if let Some(windows) = self.learning {
            return self.finish_learning(now, windows);
        }
        if now.since(self.interval_start) < INTERVAL {
            return;
        }
        let elapsed = now.since(self.interval_start).as_secs_f64();
        if self.has_mark {
            self.streak = self.streak.max(0) + 1;
            self.is_startup = false;
            // What arrived while the far queue was long is what the link carries: asking for much
            // less would empty it.
            let received = self.received as f64 / elapsed;
            self.carried = received.max(self.bytes_per_s * (1.0 - DROP_MAX)).min(self.carried);
            self.bytes_per_s = self.carried;
            let drain = DRAIN_BYTES.max(self.carried * DRAIN_TIME);
            let drain_max = self.carried * INTERVAL.as_secs_f64() * DRAIN_MAX;
            self.credit -= (drain * f64::from(self.streak)).min(drain_max);
        } else if self.had_backlog {
            self.streak = self.streak.min(0) - 1;
            let extra = (-self.streak - GROWTH_INTERVALS).max(0);
            let growth = (GROWTH * f64::from(1 + extra)).min(GROWTH_MAX);
            let growth = if self.is_startup { STARTUP_GROWTH } else { growth };
            self.bytes_per_s *= 1.0 + growth;
            self.carried = self.bytes_per_s;
        } else {
            self.streak = 0;
        }
        self.bytes_per_s = self.bytes_per_s.clamp(RATE_MIN, RATE_MAX);
        self.start_interval(now);
    }

    /// Creates a control with a known rate.
    #[cfg(test)]
    pub(super) fn with_rate(now: Timestamp, bytes_per_s: f64) -> Self {
        RateControl { learning: None, bytes_per_s, carried: bytes_per_s, ..RateControl::new(now) }
    }

    #[cfg(test)]
    pub(super) const fn bytes_per_s(&self) -> f64 {
        self.bytes_per_s
    }
}
