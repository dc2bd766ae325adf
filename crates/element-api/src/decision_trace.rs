//! A trace of the decisions about packets below one name prefix, for `nw trace`.
//!
//! Bounds: [`EVENTS_MAX`] events and [`NAMES_LEN_MAX`] bytes of names, allocated at creation;
//! further events are counted as lost. A trace expires at a time given at creation.

use crate::{DropReason, FaceId, Timestamp};
use core::time::Duration;
use nw_name::{Name, NameRef};
pub use nw_tables::fib::StrategyId;
use nw_wire::NackReason;

/// Most events stored before they are taken.
pub const EVENTS_MAX: usize = 1024;
/// Most bytes of their names.
pub const NAMES_LEN_MAX: usize = 64 * 1024;

/// One decision about one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An Interest was received.
    InterestIn {
        /// The ingress face.
        face: FaceId,
        /// CanBePrefix.
        can_be_prefix: bool,
        /// MustBeFresh.
        must_be_fresh: bool,
        /// InterestLifetime, milliseconds.
        lifetime_ms: u32,
        /// HopLimit as received.
        hop_limit: Option<u8>,
    },
    /// The content store answered.
    StoreHit,
    /// The content store has no matching Data.
    StoreMiss,
    /// The content store has a match, stale for this long, but the Interest requires a fresh one.
    StoreStale(Duration),
    /// The content store is switched off.
    StoreOff,
    /// A new PIT entry was inserted.
    PendingNew,
    /// The Interest was added to an existing PIT entry.
    PendingJoined {
        /// Downstream faces, including this one.
        downstreams: u32,
        /// Whether this face had an in-record before.
        again: bool,
    },
    /// The FIB entry that applies: the longest prefix of the name, or of a forwarding hint, that
    /// has next hops or a strategy.
    Route {
        /// Components of the prefix.
        prefix_len: usize,
        /// Number of its next hops.
        next_hops: u32,
        /// Whether it is a prefix of a forwarding hint instead of the name.
        by_hint: bool,
    },
    /// No FIB entry applies.
    NoRoute,
    /// The strategy that decides.
    Strategy(StrategyId),
    /// The Interest was not sent to this next hop.
    NotSent {
        /// The next hop.
        face: FaceId,
        /// Its cost.
        cost: u32,
        /// The reason.
        why: NotSent,
    },
    /// The Interest was sent.
    InterestOut {
        /// The egress face.
        face: FaceId,
        /// Its cost, if it is a next hop of the FIB entry.
        cost: Option<u32>,
        /// Its rank among the usable next hops, cheapest first: 0 is the cheapest.
        place: u32,
        /// Number of usable next hops.
        usable: u32,
        /// Number of next hops the Interest was sent to.
        sent: u32,
    },
    /// Data was received.
    DataIn {
        /// The ingress face.
        face: FaceId,
        /// Time since the Interest was sent to that face; `None` if it was not.
        after: Option<Duration>,
        /// Number of pending Interests it satisfies.
        answers: u32,
        /// FreshnessPeriod, milliseconds.
        freshness_ms: u32,
    },
    /// The content store stored the Data.
    Cached,
    /// The content store had the Data already and renewed its freshness.
    CachedAgain,
    /// The content store did not store the Data.
    NotCached,
    /// Data was sent to this face.
    DataOut(FaceId),
    /// A Nack was received.
    NackIn {
        /// The ingress face.
        face: FaceId,
        /// The reason.
        reason: NackReason,
        /// Time since the Interest was sent to that face.
        after: Option<Duration>,
    },
    /// A Nack was sent.
    NackOut {
        /// The egress face.
        face: FaceId,
        /// The reason.
        reason: NackReason,
    },
    /// The packet was dropped.
    Dropped(DropReason),
    /// A pending Interest expired without Data after this time.
    Expired(Duration),
}

/// Why an Interest was not sent to a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// It is the ingress face.
    CameFrom,
    /// The face no longer exists.
    Gone,
    /// The name's scope does not allow it.
    Scope,
    /// The strategy chose others.
    NotChosen,
}

/// A decision with its time and packet.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Time of the packet's arrival, or of the timer.
    pub at: Timestamp,
    /// Number of the packet: decisions about one packet share it.
    pub packet: u32,
    /// The decision.
    pub decision: Decision,
    name: (u32, u16),
}

/// The trace.
#[derive(Debug)]
pub struct DecisionTrace {
    prefix: Name,
    until: Timestamp,
    events: Vec<Event>,
    names: Vec<u8>,
    packets: u32,
    name: Option<(u32, u16)>,
    lost: u64,
}

impl DecisionTrace {
    /// Creates a trace for names under `prefix` that expires at `until`.
    pub fn new(prefix: Name, until: Timestamp) -> Self {
        DecisionTrace {
            prefix,
            until,
            events: Vec::with_capacity(EVENTS_MAX),
            names: Vec::with_capacity(NAMES_LEN_MAX),
            packets: 0,
            name: None,
            lost: 0,
        }
    }

    /// Returns whether decisions about this name are recorded.
    #[inline]
    pub fn watches(&self, name: NameRef<'_>) -> bool {
        self.prefix.as_ref().is_prefix_of(name)
    }

    /// Returns whether the trace has expired.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.until
    }

    /// Starts the next packet.
    pub fn start(&mut self, name: NameRef<'_>) {
        self.packets += 1;
        let (start, bytes) = (self.names.len(), name.as_bytes());
        self.name = (start + bytes.len() <= NAMES_LEN_MAX).then(|| {
            self.names.extend_from_slice(bytes);
            (start as u32, bytes.len() as u16)
        });
    }

    /// Records a decision about the current packet.
    pub fn record(&mut self, at: Timestamp, decision: Decision) {
        match self.name {
            Some(name) if self.events.len() < EVENTS_MAX => {
                self.events.push(Event { at, packet: self.packets, decision, name });
            }
            _ => self.lost += 1,
        }
    }

    /// Takes the recorded events with their names, and the number of lost ones.
    pub fn take(&mut self) -> (Vec<(Event, Name)>, u64) {
        let taken = self.events.iter().map(|event| {
            let (start, len) = (event.name.0 as usize, usize::from(event.name.1));
            (*event, NameRef::from_checked(&self.names[start..start + len]).to_name())
        });
        let taken = taken.collect();
        self.events.clear();
        self.names.clear();
        // No packet spans two calls of a host, so the current one has no further events.
        self.name = None;
        (taken, core::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_limits_are_counted_as_lost() {
        let name: Name = "/a/b".parse().unwrap();
        let mut trace = DecisionTrace::new("/a".parse().unwrap(), Timestamp::from_millis(5));
        assert!(trace.watches(name.as_ref()) && !trace.watches(NameRef::ROOT));
        assert!(
            !trace.is_expired(Timestamp::from_millis(4))
                && trace.is_expired(Timestamp::from_millis(5))
        );
        for _ in 0..EVENTS_MAX + 3 {
            trace.start(name.as_ref());
            trace.record(Timestamp::START, Decision::StoreMiss);
        }
        let (events, lost) = trace.take();
        assert_eq!((events.len(), lost), (EVENTS_MAX, 3));
        assert_eq!((events[1].0.packet, &events[1].1), (2, &name));
        let long = Name::new().with_generic([7; 60_000]);
        for _ in 0..2 {
            trace.start(long.as_ref());
            trace.record(Timestamp::START, Decision::StoreHit);
        }
        assert_eq!(trace.take().1, 1, "names are bounded, too");
        assert_eq!(trace.take().0.len(), 0);
    }
}
