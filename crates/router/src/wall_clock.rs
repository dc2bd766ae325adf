//! The wall clock, read at the moment when it is needed.
//!
//! It may be set at any time, and it advances while the machine sleeps, when the loop's clock does
//! not. So it is never derived from an earlier reading. Forwarding a packet does not need it
//! (decision 0045).

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the wall clock, and computes when the router started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    /// Start on the clock that includes sleep.
    started: Duration,
}

impl WallClock {
    /// Records the current time as the start.
    pub(crate) fn start() -> Self {
        WallClock { started: since_boot() }
    }

    /// Returns the time since 1970.
    pub(crate) fn unix(self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Returns milliseconds since 1970.
    pub(crate) fn unix_ms(self) -> u64 {
        self.unix().as_millis() as u64
    }

    /// Returns when the router started, in milliseconds since 1970, by the wall clock as it is set
    /// now: a clock that was wrong at the start does not make the uptime wrong.
    pub(crate) fn start_unix_ms(self) -> u64 {
        let uptime = since_boot().saturating_sub(self.started);
        self.unix().saturating_sub(uptime).as_millis() as u64
    }
}

/// Returns the time since the machine started, including sleep.
fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
