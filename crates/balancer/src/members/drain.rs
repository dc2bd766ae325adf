//! The progress of a draining member: when nothing is pending at it.

use super::Timeouts;
use core::time::Duration;
use nw_element_api::Timestamp;

/// A report of the Interests pending at a member's router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// The router can't be asked.
    Unknown,
    /// The number of pending Interests.
    Interests(u64),
}

/// Interests sent to the member before it lost its names arrive within this time.
const IN_FLIGHT: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrainProgress {
    started: Option<Timestamp>,
    /// The packet counter, and the time of its last change.
    traffic: Option<(u64, Timestamp)>,
    /// Since when nothing is pending at its router.
    empty_since: Option<Timestamp>,
    /// True if its router reports what is pending.
    has_reports: bool,
}

impl DrainProgress {
    pub(super) fn start(&mut self, now: Timestamp) {
        *self = DrainProgress {
            started: Some(now),
            traffic: None,
            empty_since: None,
            has_reports: false,
        };
    }

    pub(super) fn on_traffic(&mut self, now: Timestamp, packets: u64) {
        if self.traffic.is_none_or(|(before, _)| before != packets) {
            self.traffic = Some((packets, now));
        }
    }

    pub(super) fn on_pending(&mut self, now: Timestamp, pending: Pending) {
        self.has_reports = pending != Pending::Unknown;
        self.empty_since = match pending {
            Pending::Interests(0) => self.empty_since.or(Some(now)),
            _ => None,
        };
    }

    /// Returns the reason why the member has drained. `None` while it has not.
    pub(super) fn is_over(&self, now: Timestamp, timeouts: &Timeouts) -> Option<&'static str> {
        let started = self.started?;
        if now.since(started) >= timeouts.drain_limit {
            return Some("drain.limit_s is over");
        }
        // Reports from before the last Interest arrived do not count.
        let arrived = started + IN_FLIGHT;
        let empty_for = |since: Timestamp| now.since(since.max(arrived));
        if self.empty_since.is_some_and(|since| now > arrived && empty_for(since) >= IN_FLIGHT) {
            return Some("nothing is pending");
        }
        let is_idle =
            self.traffic.is_some_and(|(_, at)| now.since(at.max(started)) >= timeouts.idle);
        (!self.has_reports && is_idle).then_some("no packet passed it for drain.idle_ms")
    }
}
