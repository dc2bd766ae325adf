//! What control tells the other shards, and what they tell it. Orders about the FIB are carried out in the order they were given, and so are all others; each is a
//! bounded piece of work.

use crate::control::environment::FibChange;
use core::time::Duration;
use crossbeam_channel::Sender;
use nw_api::config::ContentStore;
use nw_api::management::ShardStatus;
use nw_element_api::journal::Event;
use nw_element_api::{DropCounters, FaceId, FaceInfo, Instant, Peer};
use nw_elements::router::routes::NewNextHops;
use nw_elements::strategy::StrategyId;
use nw_faces::xdp::News as XdpNews;
use nw_faces::{FaceCounters, Lane};
use nw_name::Name;
use nw_tables::cs::Erasing;
use nw_tables::fib::{Fib, NextHop};
use std::sync::Arc;

/// To a shard.
#[derive(Clone, Debug)]
pub enum Order {
    /// A face is there, or has changed; with its lane, where that shard is to have one.
    Face(FaceId, FaceInfo, Peer, Option<Box<Lane>>),
    /// A face is gone.
    FaceGone(FaceId),
    /// Changes of the FIB that were found good.
    Fib(Arc<[OwnedFibChange]>),
    /// The FIB in which such changes were made, for shards that share it: see [`keeper`](super::keeper).
    Snapshot(Snapshot),
    /// A strategy got its number.
    Strategy(Arc<Name>),
    /// Self-learning sends an announcement along with Data below a prefix until then.
    Announcement(Arc<Name>, Arc<[u8]>, Instant),
    /// Switches and size of the content store.
    ContentStore {
        /// Packets that all of them together may hold.
        capacity: Option<usize>,
        /// It takes in.
        admit: Option<bool>,
        /// It answers.
        serve: Option<bool>,
    },
    /// Erase from the content store; answered by [`Tidings::Erased`].
    Erase(u64, Arc<Name>, Erasing),
    /// What differs between two configurations of the content store.
    Reload(Arc<(ContentStore, ContentStore)>),
    /// Write down decisions about names under this, for so long; or no longer.
    Trace(Option<(Arc<Name>, Duration)>),
    /// Sockets of an interface that goes by AF_XDP are there for it, or gone.
    Xdp(XdpNews),
    /// Another shard has something to do.
    Nothing,
    /// End.
    Stop,
}

impl Order {
    /// How many of control's orders it stands for.
    pub const fn orders(&self) -> u64 {
        match self {
            Order::Snapshot(snapshot) => snapshot.orders,
            _ => 1,
        }
    }

    /// Goes by the keeper of a shard's FIB, where there is one. Such orders and others overtake each other.
    pub const fn is_about_fib(&self) -> bool {
        matches!(self, Order::Fib(_) | Order::Snapshot(_) | Order::Strategy(_))
    }
}

/// How many orders: of those that stay in order among themselves each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// About the FIB.
    pub fib: u64,
    /// All others.
    pub others: u64,
}

impl Orders {
    /// Of none that could be waited for.
    pub const ALL: Orders = Orders { fib: u64::MAX, others: u64::MAX };

    /// One more.
    pub const fn count(&mut self, order: &Order) {
        match order.is_about_fib() {
            true => self.fib += order.orders(),
            false => self.others += order.orders(),
        }
    }

    /// True when none of `wanted` is missing.
    pub const fn reach(self, wanted: Orders) -> bool {
        self.fib >= wanted.fib && self.others >= wanted.others
    }

    /// What both have reached.
    pub fn least(self, other: Orders) -> Orders {
        Orders { fib: self.fib.min(other.fib), others: self.others.min(other.others) }
    }
}

/// A FIB that several shards read.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// In place of the one before.
    pub fib: Arc<Fib>,
    /// Next hops that prefixes have now and did not have before.
    pub new: Arc<[NewNextHops]>,
    /// How many orders made the changes.
    pub orders: u64,
    /// To give the one before back.
    pub back: Sender<Arc<Fib>>,
}

/// A [`FibChange`] with its own name.
#[derive(Clone, Debug)]
pub struct OwnedFibChange {
    /// The prefix.
    pub name: Name,
    /// Next hops and strategy; `None`: it is no entry any more.
    pub set: Option<(Box<[NextHop]>, StrategyId)>,
}

impl From<&FibChange<'_>> for OwnedFibChange {
    fn from(change: &FibChange<'_>) -> Self {
        match change {
            FibChange::Set { name, next_hops, strategy } => {
                OwnedFibChange { name: name.to_name(), set: Some(((*next_hops).into(), *strategy)) }
            }
            FibChange::Remove { name } => OwnedFibChange { name: name.to_name(), set: None },
        }
    }
}

/// From a shard.
#[derive(Debug)]
pub enum Tidings {
    /// What it has counted and holds.
    Report(Box<Report>),
    /// An erasure is done.
    Erased(u64, Erasing),
    /// The system says that nobody is at a face's port.
    PeerGone(FaceId),
    /// A face's peer said how much room it has, KiB.
    Room(FaceId, u64),
    /// Decisions that were written down, with names; and how many did not fit.
    Traced(Vec<(Event, Name)>, u64),
}

/// What a shard has counted and holds.
#[derive(Debug, Default)]
pub struct Report {
    /// What its lanes counted since the last report.
    pub faces: Vec<(FaceId, FaceCounters)>,
    /// Orders it had carried out by then.
    pub carried_out: Orders,
    /// Packets dropped since the start.
    pub drops: DropCounters,
    /// Pending Interests answered since the start.
    pub satisfied: u64,
    /// Pending Interests that ended otherwise.
    pub unsatisfied: u64,
    /// Prefixes with measurements.
    pub measurements: u64,
    /// Octets of packets in its content store.
    pub store_bytes: u64,
    /// Packets in its hands at this moment.
    pub packets_in_use: u64,
    /// What everybody may see.
    pub status: ShardStatus,
}
