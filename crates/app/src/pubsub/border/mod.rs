//! The border between two domains: what `nw pubsub border` passes between a node of each. Pure.
//!
//! ```text
//!          inside                                        outside
//!  publications ─▶ reader ─▶ export policy, loops ─▶ publisher ─▶ subscribers      `Direction`
//!                    ▲                                                 │
//!         patterns for outside ◀── export policy, summary ◀── their patterns       `Demand`
//!  (and the same from outside to inside, with the import policy)
//! ```
//!
//! Names say where publications come from and who wants them ([`nw_api::pubsub::passage`]), so no
//! state of a program can make a loop. Invariants: nothing crosses that the policy does not permit;
//! a publication enters no domain that it passed; publications of an item cross in order, with
//! their numbers, each once, and what is missing is told as lost; all is bounded.

mod demand;
mod direction;
mod item;

use crate::sync::BridgeElection;
use direction::Direction;
use nw_api::pubsub::{DomainName, ItemName, NameFault, ScopePattern};
use nw_element_api::Timestamp;

/// Scope of the items by which programs of one border know each other.
const ELECTION_SCOPE: &str = "/@border";

/// The two domains of a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The one that is named first.
    Inside,
    /// The other one.
    Outside,
}

impl Side {
    /// Both, in order of [`index`](Self::index).
    pub const BOTH: [Side; 2] = [Side::Inside, Side::Outside];

    /// Returns 0 or 1.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Side {
        match self {
            Side::Inside => Side::Outside,
            Side::Outside => Side::Inside,
        }
    }
}

/// The domains, the policy and the bounds of a border.
#[derive(Clone, Debug)]
pub struct BorderOptions {
    /// Names of the domains, inside and outside.
    pub domains: [DomainName; 2],
    /// Patterns of what leaves each side: export, then import.
    pub policy: [Vec<ScopePattern>; 2],
    /// Items that cross at most, in each direction.
    pub items_max: usize,
    /// Patterns that are subscribed to below one pattern of the policy; with more, that itself is.
    pub patterns_max: usize,
    /// Bytes of publications that wait, in each direction.
    pub queue_bytes_max: usize,
}

/// What crossed in one direction, and what did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorderCounters {
    /// Publications passed on.
    pub passed: u64,
    /// Publications told as lost.
    pub lost: u64,
    /// Publications that the policy does not permit, or whose names or paths are too long.
    pub refused: u64,
    /// Publications that had passed the domain they would enter, or came a second time.
    pub looped: u64,
    /// Publications with new numbers, because an item has several publishers.
    pub renumbered: u64,
}

/// What the program has to do. Readers, followers and publishers are those of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BorderAction {
    /// The reader subscribes, from the last publications on.
    Subscribe(Side, ScopePattern),
    /// The reader ends a subscription.
    Unsubscribe(Side, ScopePattern),
    /// The follower subscribes: what others pass into this side.
    Follow(Side, ScopePattern),
    /// The follower ends a subscription.
    Unfollow(Side, ScopePattern),
    /// An item begins after a number.
    Announce(Side, ItemName, u64),
    /// An item ends.
    Withdraw(Side, ItemName),
    /// A publication.
    Publish(Side, ItemName, u64, Vec<u8>),
    /// Publications up to a number are lost.
    Lost(Side, ItemName, u64),
}

/// A publication as a reader or follower received it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Name of the item, with the domains it passed.
    pub name: &'a str,
    /// Number of the item of one publisher ([`Subscriber::stream`](super::Subscriber::stream)).
    pub stream: u64,
    /// Number of the publication.
    pub sequence: u64,
    /// Publications lost before it.
    pub lost: u64,
    /// Whether it is older than the subscription.
    pub is_last_value: bool,
    /// The bytes.
    pub payload: &'a [u8],
}

/// One program at the border of two domains.
#[derive(Debug)]
pub struct Border {
    /// By the side that publications come from.
    directions: [Direction; 2],
    /// By side, as other programs are known in either domain.
    elections: [BridgeElection; 2],
    is_active: bool,
}

impl Border {
    /// Creates a border that starts now. `unix_ms`: milliseconds since 1970. `random`: differs for
    /// each program.
    ///
    /// # Errors
    /// Never: the names are short.
    pub fn new(
        options: &BorderOptions,
        unix_ms: u64,
        random: u32,
        now: Timestamp,
    ) -> Result<Self, NameFault> {
        let mut names = options.domains.each_ref().map(|domain| domain.as_str().as_bytes());
        names.sort_unstable();
        let parts = [names[0], b"\0", names[1]];
        let view = || BridgeElection::below(ELECTION_SCOPE, &parts, unix_ms, random, now);
        Ok(Border {
            directions: Side::BOTH.map(|source| Direction::new(source, options)),
            elections: [view()?, view()?],
            is_active: false,
        })
    }

    /// Returns the item that the program announces in both domains.
    pub const fn election_item(&self) -> &ItemName {
        self.elections[0].item()
    }

    /// Returns the patterns to watch on a side.
    pub fn watched(&self, side: Side) -> Vec<ScopePattern> {
        let into = &self.directions[side.other().index()];
        let election = self.elections[side.index()].pattern();
        let marked = "/@from/**".parse().ok();
        into.watched().chain([election.clone()]).chain(marked).collect()
    }

    /// Returns whether this program passes publications on, and none stands by for it.
    pub const fn is_active(&self) -> bool {
        self.is_active
    }

    /// Returns whether the time in which the program only learns of others has passed.
    pub fn is_settled(&self, now: Timestamp) -> bool {
        self.elections[0].is_settled(now)
    }

    /// Returns what crossed from a side.
    pub const fn counters(&self, source: Side) -> BorderCounters {
        self.directions[source.index()].counters
    }

    /// Returns the numbers of subscribed patterns and of items from a side.
    pub fn sizes(&self, source: Side) -> (usize, usize) {
        self.directions[source.index()].sizes()
    }

    /// Takes an event: a publisher or subscriber `who` (node and connection) is on a side, or is no
    /// longer.
    pub fn on_presence(
        &mut self,
        now: Timestamp,
        side: Side,
        (is_publisher, is_here): (bool, bool),
        name: &str,
        who: (u64, u64),
    ) {
        let into = &mut self.directions[side.other().index()];
        if !is_publisher {
            into.on_subscriber(name, who, is_here);
        } else if name.starts_with(ELECTION_SCOPE) {
            self.elections[side.index()].update(name, is_here);
        } else {
            into.on_other(now, name, who.0, is_here);
        }
    }

    /// Takes a publication that the reader of a side received.
    pub fn on_publication(&mut self, now: Timestamp, side: Side, arrival: &Arrival<'_>) {
        self.directions[side.index()].on_publication(now, arrival);
    }

    /// Takes a loss that the reader of a side was told.
    pub fn on_lost(&mut self, now: Timestamp, side: Side, name: &str, stream: u64, lost: u64) {
        self.directions[side.index()].on_lost(now, name, stream, lost);
    }

    /// Takes a publication that the follower of a side received: another program passed it on.
    pub fn on_followed(&mut self, side: Side, name: &str, sequence: u64) {
        self.directions[side.other().index()].on_followed(name, sequence);
    }

    /// The node refused an item.
    pub fn refuse(&mut self, side: Side, item: &ItemName) {
        self.directions[side.other().index()].refuse(item);
    }

    /// Returns whether something is due within milliseconds.
    pub fn is_busy(&self) -> bool {
        self.directions.iter().any(Direction::is_busy)
    }

    /// Does what is due. To be called after events; each 20 ms while [`is_busy`](Self::is_busy),
    /// and else each 100 ms.
    pub fn tick(&mut self, now: Timestamp) {
        self.is_active = self.elections.iter().all(|election| election.is_active(now));
        for direction in &mut self.directions {
            direction.tick(now, self.is_active);
        }
    }

    /// Takes what the program has to do, in order.
    pub fn take_actions(&mut self) -> Vec<BorderAction> {
        let mut actions = core::mem::take(&mut self.directions[0].actions);
        actions.append(&mut self.directions[1].actions);
        actions
    }
}

#[cfg(test)]
mod tests;
