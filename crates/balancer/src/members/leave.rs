//! When a draining member has nothing left to do.

use super::Patience;
use core::time::Duration;
use nw_element_api::Instant;

/// What a router says is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// It can't be asked.
    Unknown,
    /// So many Interests.
    Interests(u64),
}

/// Interests on their way to the member when it got its last name arrive within this time.
const ON_THE_WAY: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leave {
    began: Option<Instant>,
    /// Packets counted, and when that number was another one.
    traffic: Option<(u64, Instant)>,
    /// Since when its router says that nothing is pending.
    empty: Option<Instant>,
    /// It says what is pending at all.
    told: bool,
}

impl Leave {
    pub(super) fn begin(&mut self, now: Instant) {
        *self = Leave { began: Some(now), traffic: None, empty: None, told: false };
    }

    pub(super) fn on_traffic(&mut self, now: Instant, packets: u64) {
        if self.traffic.is_none_or(|(before, _)| before != packets) {
            self.traffic = Some((packets, now));
        }
    }

    pub(super) fn on_pending(&mut self, now: Instant, pending: Pending) {
        self.told = pending != Pending::Unknown;
        self.empty = match pending {
            Pending::Interests(0) => self.empty.or(Some(now)),
            _ => None,
        };
    }

    /// Why it is over, once it is.
    pub(super) fn is_over(&self, now: Instant, patience: &Patience) -> Option<&'static str> {
        let began = self.began?;
        if now.since(began) >= patience.drain_limit {
            return Some("its time to drain is over");
        }
        // What was said before the last Interest arrived does not count.
        let arrived = began + ON_THE_WAY;
        let empty_for = |at: Instant| now.since(at.max(arrived));
        if self.empty.is_some_and(|at| now > arrived && empty_for(at) >= ON_THE_WAY) {
            return Some("nothing is pending");
        }
        let quiet = self.traffic.is_some_and(|(_, at)| now.since(at.max(began)) >= patience.quiet);
        (!self.told && quiet).then_some("no packet passed it for a while")
    }
}
