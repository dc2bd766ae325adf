//! Looking into a running router from another thread: questions that the loop answers between two batches of packets.
//!
//! Each question costs the loop a bounded amount of time: long lists come in pages. What watches packets (taps, traces, counting of prefixes)
//! is off until somebody asks, ends by itself when nobody asks any more, and costs one predictable branch a batch while it is off.

mod answer;
pub mod watch;

use crate::control::dataset::Page;
use core::time::Duration;
use nw_api::management::{
    ChannelStatus, ControlParameters, ControlResponse, DropCount, FaceStatus, FibEntry, RibEntry,
    StrategyChoice, Verb,
};
use nw_api::rest::{RouterStatus, TopPrefixes};
use nw_element_api::journal::Event;
use nw_name::Name;
use watch::{Capture, TapFilter};

/// Faces, or names, that one answer looks at.
pub const PAGE: usize = 256;
/// Questions answered before packets get their turn again.
pub(crate) const QUESTIONS_PER_TURN: usize = 8;
/// Commands that may wait for a face to be connected.
pub(crate) const WAITING_MAX: usize = 64;

/// What may be asked of a running router.
#[derive(Clone, Debug)]
pub enum Question {
    /// Nothing: it answers, so it runs.
    Alive,
    /// Carry out a command; whoever may ask has been seen to.
    Command(Verb, Box<ControlParameters>),
    /// The router as a whole.
    Status,
    /// Faces whose ids' slots are behind this one's.
    Faces(Option<u64>),
    /// One face.
    Face(u64),
    /// Listeners.
    Channels,
    /// Names with routes, behind this one.
    Routes(Option<Name>),
    /// Prefixes of the FIB, behind this one.
    Fib(Option<Name>),
    /// Strategy choices, behind this one.
    Strategies(Option<Name>),
    /// Packets dropped, by reason: those that came, or all.
    Drops {
        /// Reasons that never came, too.
        zeros: bool,
    },
    /// Traffic by prefixes of so many components. Switches the counting on for [`LEASE`](watch::LEASE).
    Prefixes(usize),
    /// Capture packets.
    StartTap(Box<TapFilter>),
    /// What was captured.
    TakeTap(u64),
    /// Capture no longer.
    StopTap(u64),
    /// Write down decisions about names under this, for so long.
    StartTrace(Name, Duration),
    /// What was written.
    TakeTrace(u64),
    /// Write no longer.
    StopTrace(u64),
}

/// The answer to a [`Question`] of the same name.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It runs.
    Alive,
    /// As the management protocol has it.
    Command(Box<ControlResponse>),
    /// See there.
    Status(Box<RouterStatus>),
    /// With the id to go on behind, if there are more.
    Faces(Vec<FaceStatus>, Option<u64>),
    /// `None`: there is no such face.
    Face(Option<Box<FaceStatus>>),
    /// In an order that stays.
    Channels(Vec<ChannelStatus>),
    /// One page.
    Routes(Page<RibEntry>),
    /// One page.
    Fib(Page<FibEntry>),
    /// One page.
    Strategies(Page<StrategyChoice>),
    /// In counter order.
    Drops(Vec<DropCount>),
    /// See there; the strategy's name is for the routes' explanation.
    Prefixes(Box<TopPrefixes>),
    /// The capture's number; `None`: too many captures.
    TapStarted(Option<u64>),
    /// `None`: there is no such capture any more.
    Tap(Option<Box<Capture>>),
    /// The trace's number; `None`: somebody traces already.
    TraceStarted(Option<u64>),
    /// `None`: there is no such trace.
    Trace(Option<Box<Traced>>),
    /// Done.
    Stopped,
}

/// Decisions that were written since the last time.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// In order: with the name it is about, and for [`Decision::Strategy`] the strategy's.
    ///
    /// [`Decision::Strategy`]: nw_element_api::journal::Decision::Strategy
    pub events: Vec<(Event, Name, Option<Name>)>,
    /// Decisions that did not fit.
    pub lost: u64,
    /// Its time is over: this was the last.
    pub over: bool,
}

/// Takes the answer, and the time that the loop spent on it. Called in the loop's thread, so it must not wait for anything.
pub type Reply = Box<dyn FnOnce(Answer, Duration) + Send>;

/// A question was not taken: the router has ended, or too many questions wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Too many wait.
    #[error("too many questions wait for the router: try again later")]
    Busy,
    /// It has ended.
    #[error("the router has ended")]
    Ended,
}
