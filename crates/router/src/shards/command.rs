//! Commands of control to the other shards, and events from them.
//!
//! Commands that change the FIB are applied in the order they were sent, and so are all others; the
//! two kinds may overtake each other. Each is a bounded piece of work.

use core::time::Duration;
use crossbeam_channel::Sender;
use nw_api::config::ContentStore;
use nw_api::management::ShardStatus;
use nw_control::environment::FibChange;
use nw_element_api::decision_trace::Event;
use nw_element_api::{DropCounters, FaceId, FaceInfo, Peer, Timestamp};
use nw_elements::router::routes::NewNextHops;
use nw_elements::strategy::StrategyId;
use nw_faces::xdp::SocketUpdate as XdpNews;
use nw_faces::{FaceCounters, FaceReplica};
use nw_name::Name;
use nw_tables::cs::EraseCursor;
use nw_tables::fib::{Fib, NextHop};
use std::sync::Arc;

/// A command to a shard.
#[derive(Clone, Debug)]
pub enum ShardCommand {
    /// Adds or changes a face; with a replica if the shard is to send and receive on it.
    SetFace(FaceId, FaceInfo, Peer, Option<Box<FaceReplica>>),
    /// Removes a face.
    RemoveFace(FaceId),
    /// Changes of the FIB that the first shard has accepted.
    Fib(Arc<[OwnedFibChange]>),
    /// A new replica of a shared FIB, see [`fib_replica`](super::fib_replica).
    Snapshot(Snapshot),
    /// Resolves a strategy, so that it gets the same id as in the first shard.
    Strategy(Arc<Name>),
    /// Stores an announcement until a time. Self-learning attaches it to Data below the prefix.
    Announcement(Arc<Name>, Arc<[u8]>, Timestamp),
    /// Changes options of the content store; `None` leaves an option as it is.
    ContentStore {
        /// Capacity of all shards together, in packets.
        capacity: Option<usize>,
        /// Admit new packets.
        admit: Option<bool>,
        /// Answer Interests.
        serve: Option<bool>,
    },
    /// Erases from the content store. Answered by [`ShardEvent::Erased`].
    Erase(u64, Arc<Name>, EraseCursor),
    /// Applies the differences between two configurations of the content store.
    Reload(Arc<(ContentStore, ContentStore)>),
    /// Starts a trace of names under a prefix for some time, or stops it.
    Trace(Option<(Arc<Name>, Duration)>),
    /// Adds or removes the shard's AF_XDP socket of an interface.
    Xdp(XdpNews),
    /// Does nothing; sent to keep the command counts of all shards equal.
    Noop,
    /// Stops the shard.
    Stop,
}

impl ShardCommand {
    /// Returns how many commands of control this one stands for.
    pub const fn command_count(&self) -> u64 {
        match self {
            ShardCommand::Snapshot(snapshot) => snapshot.commands,
            _ => 1,
        }
    }

    /// Returns whether the command passes through the updater of a shared FIB, if the shard has
    /// one.
    pub const fn changes_fib(&self) -> bool {
        matches!(self, ShardCommand::Fib(_) | ShardCommand::Snapshot(_) | ShardCommand::Strategy(_))
    }
}

/// Numbers of commands sent or applied. Counted separately for the two kinds, as each kind stays in
/// order only among itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedCounts {
    /// Commands that change the FIB.
    pub fib: u64,
    /// All other commands.
    pub other: u64,
}

impl AppliedCounts {
    /// Larger than any real count.
    pub const MAX: AppliedCounts = AppliedCounts { fib: u64::MAX, other: u64::MAX };

    /// Counts one more command.
    pub const fn add(&mut self, command: &ShardCommand) {
        match command.changes_fib() {
            true => self.fib += command.command_count(),
            false => self.other += command.command_count(),
        }
    }

    /// Returns whether all commands in `required` are included.
    pub const fn covers(self, required: AppliedCounts) -> bool {
        self.fib >= required.fib && self.other >= required.other
    }

    /// Returns the counts that both have reached.
    pub fn min(self, counts: AppliedCounts) -> AppliedCounts {
        AppliedCounts { fib: self.fib.min(counts.fib), other: self.other.min(counts.other) }
    }
}

/// A replica of a shared FIB.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Replaces the previous replica.
    pub fib: Arc<Fib>,
    /// Next hops that prefixes have now and did not have before.
    pub new: Arc<[NewNextHops]>,
    /// Number of commands with changes that it contains.
    pub commands: u64,
    /// Where the shard returns the previous replica.
    pub return_to: Sender<Arc<Fib>>,
}

/// An owned [`FibChange`].
#[derive(Clone, Debug)]
pub struct OwnedFibChange {
    /// The prefix.
    pub name: Name,
    /// Next hops and strategy; `None` removes the prefix.
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

/// An event from a shard to the first one.
#[derive(Debug)]
pub enum ShardEvent {
    /// Counters and state of the shard.
    Report(Box<Report>),
    /// An erasure is complete: its id and result.
    Erased(u64, EraseCursor),
    /// The system reported that no process receives on a face's remote port.
    PeerClosed(FaceId),
    /// The peer of a face advertised its receive window, in KiB.
    PeerWindow(FaceId, u64),
    /// Traced decisions with their names, and how many did not fit.
    TraceEvents(Vec<(Event, Name)>, u64),
}

/// Counters and state of a shard.
#[derive(Debug, Default)]
pub struct Report {
    /// Counters of its face replicas since the last report.
    pub faces: Vec<(FaceId, FaceCounters)>,
    /// Commands applied before the report.
    pub applied: AppliedCounts,
    /// Packets dropped since the start.
    pub drops: DropCounters,
    /// Pending Interests satisfied since the start.
    pub satisfied: u64,
    /// Pending Interests that ended without Data since the start.
    pub unsatisfied: u64,
    /// Number of prefixes with measurements.
    pub measurements: u64,
    /// Bytes of packets in its content store.
    pub store_bytes: u64,
    /// Packets of its pool that are in use.
    pub packets_in_use: u64,
    /// Status shown by management.
    pub status: ShardStatus,
}
