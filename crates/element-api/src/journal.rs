//! What was decided about packets of one name prefix: written while somebody looks, read by who asks why.
//!
//! State and bound: room for [`EVENTS_MAX`] events and [`NAMES_LEN_MAX`] octets of names, taken when it is made; what does not fit is counted
//! as lost. It ends at a time that is given when it is made.

use crate::{DropReason, FaceId, Instant};
use core::time::Duration;
use nw_name::{Name, NameRef};
pub use nw_tables::fib::StrategyId;
use nw_wire::NackReason;

/// Events that wait to be read.
pub const EVENTS_MAX: usize = 1024;
/// Octets of their names.
pub const NAMES_LEN_MAX: usize = 64 * 1024;

/// One decision about one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An Interest came.
    InterestIn {
        /// From here.
        face: FaceId,
        /// CanBePrefix.
        can_be_prefix: bool,
        /// MustBeFresh.
        must_be_fresh: bool,
        /// InterestLifetime.
        lifetime_ms: u32,
        /// HopLimit, as it came.
        hop_limit: Option<u8>,
    },
    /// The content store answered.
    StoreHit,
    /// It has nothing that answers.
    StoreMiss,
    /// It has a packet that would answer, stale for so long; the Interest wants a fresh one.
    StoreStale(Duration),
    /// It is switched off.
    StoreOff,
    /// A new pending Interest.
    PendingNew,
    /// The same is pending already; so many faces wait for it now.
    PendingJoined {
        /// Faces, this one included.
        downstreams: u32,
        /// This face had asked before.
        again: bool,
    },
    /// The longest prefix of the name, or of a forwarding hint, that has next hops or a strategy.
    Route {
        /// Components of it.
        prefix_len: usize,
        /// Next hops of it.
        next_hops: u32,
        /// It is a prefix of a forwarding hint, not of the name.
        by_hint: bool,
    },
    /// No prefix of the name has any.
    NoRoute,
    /// This strategy decides.
    Strategy(StrategyId),
    /// It passed over a next hop.
    NotSent {
        /// That one.
        face: FaceId,
        /// Its cost.
        cost: u32,
        /// Because of this.
        why: NotSent,
    },
    /// The Interest goes out.
    InterestOut {
        /// There.
        face: FaceId,
        /// At this cost, if it is a next hop.
        cost: Option<u32>,
        /// Its place among the next hops that may be used, cheapest first: 0 is the cheapest.
        place: u32,
        /// Next hops that may be used.
        usable: u32,
        /// Next hops that this Interest goes to.
        sent: u32,
    },
    /// A Data came.
    DataIn {
        /// From here.
        face: FaceId,
        /// So long after it was asked for there; `None` when it was not.
        after: Option<Duration>,
        /// Pending Interests it answers.
        answers: u32,
        /// FreshnessPeriod.
        freshness_ms: u32,
    },
    /// The content store keeps it.
    Cached,
    /// The content store had it already; it is fresh again.
    CachedAgain,
    /// The content store does not keep it.
    NotCached,
    /// A Data goes out.
    DataOut(FaceId),
    /// A Nack came.
    NackIn {
        /// From here.
        face: FaceId,
        /// Why.
        reason: NackReason,
        /// So long after the Interest was sent there.
        after: Option<Duration>,
    },
    /// A Nack goes out.
    NackOut {
        /// There.
        face: FaceId,
        /// Why.
        reason: NackReason,
    },
    /// A packet ends here.
    Dropped(DropReason),
    /// A pending Interest ended after so long, and nobody had answered.
    Expired(Duration),
}

/// Why a next hop was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The Interest came from there.
    CameFrom,
    /// The face is gone.
    Gone,
    /// The name may not leave this machine, or this link.
    Scope,
    /// The strategy preferred others.
    NotChosen,
}

/// A decision, when, and about what.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When the packet came, or time passed.
    pub at: Instant,
    /// Counts packets: decisions about one packet have the same number.
    pub packet: u32,
    /// What was decided.
    pub decision: Decision,
    name: (u32, u16),
}

/// See the module.
#[derive(Debug)]
pub struct Journal {
    prefix: Name,
    until: Instant,
    events: Vec<Event>,
    names: Vec<u8>,
    packets: u32,
    name: Option<(u32, u16)>,
    lost: u64,
}

impl Journal {
    /// For names under a prefix, until a time.
    pub fn new(prefix: Name, until: Instant) -> Self {
        Journal {
            prefix,
            until,
            events: Vec::with_capacity(EVENTS_MAX),
            names: Vec::with_capacity(NAMES_LEN_MAX),
            packets: 0,
            name: None,
            lost: 0,
        }
    }

    /// True when decisions about this name are to be written.
    #[inline]
    pub fn watches(&self, name: NameRef<'_>) -> bool {
        self.prefix.as_ref().is_prefix_of(name)
    }

    /// True once its time has passed.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Starts with another packet.
    pub fn begin(&mut self, name: NameRef<'_>) {
        self.packets += 1;
        let (start, octets) = (self.names.len(), name.as_bytes());
        self.name = (start + octets.len() <= NAMES_LEN_MAX).then(|| {
            self.names.extend_from_slice(octets);
            (start as u32, octets.len() as u16)
        });
    }

    /// Writes a decision about the packet that was begun.
    pub fn note(&mut self, at: Instant, decision: Decision) {
        match self.name {
            Some(name) if self.events.len() < EVENTS_MAX => {
                self.events.push(Event { at, packet: self.packets, decision, name });
            }
            _ => self.lost += 1,
        }
    }

    /// Takes what was written: each event with its name, and how many were lost.
    pub fn take(&mut self) -> (Vec<(Event, Name)>, u64) {
        let taken = self.events.iter().map(|event| {
            let (start, len) = (event.name.0 as usize, usize::from(event.name.1));
            (*event, NameRef::from_checked(&self.names[start..start + len]).to_name())
        });
        let taken = taken.collect();
        self.events.clear();
        self.names.clear();
        // A packet that was begun goes on nameless only if it writes more, which it does not across calls of a host.
        self.name = None;
        (taken, core::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let name: Name = "/a/b".parse().unwrap();
        let mut journal = Journal::new("/a".parse().unwrap(), Instant::from_millis(5));
        assert!(journal.watches(name.as_ref()) && !journal.watches(NameRef::ROOT));
        assert!(!journal.is_over(Instant::from_millis(4)) && journal.is_over(Instant::from_millis(5)));
        for _ in 0..EVENTS_MAX + 3 {
            journal.begin(name.as_ref());
            journal.note(Instant::START, Decision::StoreMiss);
        }
        let (events, lost) = journal.take();
        assert_eq!((events.len(), lost), (EVENTS_MAX, 3));
        assert_eq!((events[1].0.packet, &events[1].1), (2, &name));
        let long = Name::new().with_generic([7; 60_000]);
        for _ in 0..2 {
            journal.begin(long.as_ref());
            journal.note(Instant::START, Decision::StoreHit);
        }
        assert_eq!(journal.take().1, 1, "names are bounded, too");
        assert_eq!(journal.take().0.len(), 0);
    }
}
