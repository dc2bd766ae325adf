//! Time as tables and elements see it: a number that a host passes in.

use core::ops::{Add, Sub};
use core::time::Duration;

/// Nanoseconds since a moment of the host's choosing: its start, or the beginning of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The host's beginning of time.
    pub const START: Instant = Instant(0);
    /// Later than any other.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// From nanoseconds since the host's beginning of time.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// From milliseconds since the host's beginning of time.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the host's beginning of time.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the host's beginning of time, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// So many milliseconds later; [`NEVER`](Self::NEVER) when that can't be said.
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Instant(self.0.saturating_add(millis.saturating_mul(1_000_000)))
    }

    /// Time since `earlier`, zero when that is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}
