//! Timers of faces, sockets and listeners: at most one of each kind per owner, removed with it, so
//! that short-lived faces leave nothing behind.

use nw_element_api::{FaceId, Timestamp};
use std::collections::BTreeSet;

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Checks whether the peer of an on-demand or WebSocket face is idle.
    Idle(FaceId),
    /// Link service: incomplete packets, acknowledgements, lost link packets.
    Link(FaceId),
    /// Next burst to a UDP peer.
    Pacing(FaceId),
    /// Checks whether the send queue of a paused stream face made progress.
    ReadPause(FaceId),
    /// Next connection attempt of a permanent face, or the end of one.
    Reconnect(FaceId),
    /// Next attempt to send the queue of a UDP socket.
    Drain(u32),
    /// End of the time for a handshake.
    Handshake(u32),
    /// Next attempt of a listener that ran out of descriptors.
    Accept(u32),
    /// Next attempt to open an AF_XDP queue that was busy.
    XdpQueue,
    /// Next reconciliation of interfaces: a socket could not be opened, or an interface has been
    /// missing for long.
    Interfaces,
}

/// Set of timers, by due time.
#[derive(Debug, Default)]
pub struct Timers {
    set: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    /// Sets a timer.
    pub fn set(&mut self, due: Timestamp, timer: Timer) {
        self.set.insert((due, timer));
    }

    /// Cancels a timer set for `due`.
    pub fn cancel(&mut self, due: Timestamp, timer: Timer) {
        self.set.remove(&(due, timer));
    }

    /// Returns when the first timer is due.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.set.first().map(|(due, _)| *due)
    }

    /// Removes and returns a due timer.
    pub fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        let (due, timer) = *self.set.first()?;
        (due <= now).then(|| {
            self.set.pop_first();
            timer
        })
    }
}
