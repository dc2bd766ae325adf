//! The wall clock, read at the moment that something needs it.
//!
//! It may be set at any time, and goes on while the machine sleeps, where the clock of the loop stands still. So what it shows is never derived
//! from an earlier reading. Nothing on the path of a packet needs it. Decision 0045.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the wall clock, and knows for how long this router has run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    /// On the clock that goes on during sleep.
    started: Duration,
}

impl WallClock {
    /// Starts now.
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

    /// Returns when the router started, milliseconds since 1970, by the wall clock as it is now: a clock that was wrong at the start does not
    /// make the uptime wrong.
    pub(crate) fn start_unix_ms(self) -> u64 {
        let uptime = since_boot().saturating_sub(self.started);
        self.unix().saturating_sub(uptime).as_millis() as u64
    }
}

/// Time since the machine started, sleep included.
fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
