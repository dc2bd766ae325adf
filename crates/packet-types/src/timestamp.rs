//! Time as the pure crates see it: a number that the host passes in.

use core::ops::{Add, Sub};
use core::time::Duration;

/// Nanoseconds since the host's epoch: its start, or the start of virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The host's epoch.
    pub const START: Timestamp = Timestamp(0);
    /// Later than every other timestamp.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    /// Returns the timestamp at this many nanoseconds since the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Timestamp(nanos)
    }

    /// Returns the timestamp at this many milliseconds since the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Timestamp(millis.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the timestamp this many milliseconds later, at most [`NEVER`](Self::NEVER).
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Timestamp(self.0.saturating_add(millis.saturating_mul(1_000_000)))
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Timestamp {
    type Output = Duration;
    fn sub(self, earlier: Timestamp) -> Duration {
        self.since(earlier)
    }
}
