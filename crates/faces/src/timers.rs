//! What faces wait for in time: at most one timer of each kind a face, taken out when the face ends, so that many short lives leave nothing behind.

use nw_element_api::{FaceId, Instant};
use std::collections::BTreeSet;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Has the peer of an on-demand or WebSocket face been silent for too long?
    Idle(FaceId),
    /// The link service: packets in pieces that were not whole in time, acknowledgements, link packets lost.
    Link(FaceId),
    /// A UDP peer has had time for what it got; more of what waits for it goes out.
    Burst(FaceId),
    /// A stream face that is not read from: has its send queue made progress?
    Reading(FaceId),
    /// A permanent face tries to connect again, or has tried for too long.
    Reconnect(FaceId),
    /// A UDP socket for which the system had no room tries again.
    Drain(u32),
    /// A WebSocket connection has had time for its handshake.
    Handshake(u32),
    /// A listener that ran out of descriptors tries again.
    Accept(u32),
    /// A queue that was to come free is tried again.
    Xdp,
    /// Faces of network interfaces are matched again: a socket could not be opened, or its interface has been gone for long.
    Interfaces,
}

/// Timers by due time.
#[derive(Debug, Default)]
pub struct Timers {
    set: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Adds one.
    pub fn set(&mut self, due: Instant, timer: Timer) {
        self.set.insert((due, timer));
    }

    /// Takes one out.
    pub fn cancel(&mut self, due: Instant, timer: Timer) {
        self.set.remove(&(due, timer));
    }

    /// When the first is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.set.first().map(|(due, _)| *due)
    }

    /// Takes one that is due.
    pub fn pop(&mut self, now: Instant) -> Option<Timer> {
        let (due, timer) = *self.set.first()?;
        (due <= now).then(|| {
            self.set.pop_first();
            timer
        })
    }
}
