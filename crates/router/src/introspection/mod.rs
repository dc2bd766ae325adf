//! Queries from other threads about a running router, answered by the event loop between two
//! batches of packets.
//!
//! The work per query is bounded: long lists are returned in pages. Observers (captures, traces,
//! prefix counters) are off until a client starts them, end when no client fetches from them any
//! more, and cost one branch per batch while they are off.

pub mod observer;
mod replies;

use core::time::Duration;
use nw_api::management::{
    ChannelStatus, ControlParameters, ControlResponse, DropCount, FaceStatus, FibEntry, RibEntry,
    StrategyChoice, Verb,
};
use nw_api::rest::{RouterStatus, TopPrefixes};
use nw_control::dataset::Page;
use nw_element_api::FaceId;
use nw_element_api::capture::{Capture, FaceLabel, TapFilter};
use nw_element_api::decision_trace::Event;
use nw_name::Name;

/// Faces or names that one reply covers.
pub const PAGE_LEN: usize = 256;
/// Queries answered before packets have their turn again.
pub(crate) const QUERIES_PER_ITERATION: usize = 8;
/// Commands that may wait for their completion.
pub(crate) const DEFERRED_MAX: usize = 64;

/// A query to a running router.
#[derive(Clone, Debug)]
pub enum Query {
    /// Returns at once, to check that the loop is running.
    Alive,
    /// Execute a command. The sender has been authorised before.
    Command(Verb, Box<ControlParameters>),
    /// Status and counters of the whole router.
    Status,
    /// Faces after the one with this id, in the order of their table slots.
    Faces(Option<u64>),
    /// Status of one face.
    Face(u64),
    /// Label of a face, also if it ended while a capture was running.
    FaceLabel(FaceId),
    /// All listeners.
    Channels,
    /// Names with routes, after this name.
    Routes(Option<Name>),
    /// FIB prefixes, after this name.
    Fib(Option<Name>),
    /// Strategy choices, after this name.
    Strategies(Option<Name>),
    /// Number of dropped packets by reason.
    Drops {
        /// Includes reasons with a count of 0.
        include_zeros: bool,
    },
    /// Traffic per prefix of this number of components. Starts to count for
    /// [`LEASE`](nw_element_api::capture::LEASE).
    Prefixes(usize),
    /// Start a capture.
    StartTap(Box<TapFilter>),
    /// Fetch captured packets.
    TakeTap(u64),
    /// Stop a capture.
    StopTap(u64),
    /// Start a trace of names under this prefix, for this time.
    StartTrace(Name, Duration),
    /// Fetch recorded decisions.
    TakeTrace(u64),
    /// Stop a trace.
    StopTrace(u64),
}

/// The reply to the [`Query`] with the corresponding name.
#[derive(Clone, Debug)]
pub enum QueryReply {
    /// The loop is running.
    Alive,
    /// Response of the management protocol.
    Command(Box<ControlResponse>),
    /// Status and counters of the whole router.
    Status(Box<RouterStatus>),
    /// One page, and the id after which the next page starts, if there is one.
    Faces(Vec<FaceStatus>, Option<u64>),
    /// `None` if there is no such face.
    Face(Option<Box<FaceStatus>>),
    /// See [`Query::FaceLabel`].
    FaceLabel(Option<FaceLabel>),
    /// Always in the same order.
    Channels(Vec<ChannelStatus>),
    /// One page of names with routes.
    Routes(Page<RibEntry>),
    /// One page of FIB prefixes.
    Fib(Page<FibEntry>),
    /// One page of strategy choices.
    Strategies(Page<StrategyChoice>),
    /// In counter order.
    Drops(Vec<DropCount>),
    /// Prefixes with the most traffic.
    Prefixes(Box<TopPrefixes>),
    /// Number of the capture. `None` if there are too many.
    TapStarted(Option<u64>),
    /// `None` if there is no such capture any more.
    Tap(Option<Box<Capture>>),
    /// Number of the trace. `None` if another trace is running.
    TraceStarted(Option<u64>),
    /// `None` if there is no such trace.
    Trace(Option<Box<TraceBatch>>),
    /// The capture or trace is stopped.
    Stopped,
}

/// Decisions recorded since the last fetch.
#[derive(Clone, Debug, Default)]
pub struct TraceBatch {
    /// In order, each with the packet's name, and for [`Decision::Strategy`] the name of the
    /// strategy.
    ///
    /// [`Decision::Strategy`]: nw_element_api::decision_trace::Decision::Strategy
    pub events: Vec<(Event, Name, Option<Name>)>,
    /// Number of decisions that did not fit.
    pub lost: u64,
    /// The trace has ended; this is the last batch.
    pub is_over: bool,
}

/// Receives the reply and the time that the loop spent on it. Called in the loop's thread, so it
/// must not block.
pub type ReplyCallback = Box<dyn FnOnce(QueryReply, Duration) + Send>;

/// Error of [`Handle::query`](crate::Handle::query).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Too many requests are queued.
    #[error("too many queries are queued: try again later")]
    Busy,
    /// The router has stopped.
    #[error("the router has stopped")]
    Ended,
}
