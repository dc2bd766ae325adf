//! What faces wait for in time: at most two timers a face, taken out when the face ends, so that many short lives leave nothing behind.

use nw_element::{FaceId, Instant};
use std::collections::BTreeSet;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Has the peer of an on-demand face been silent for too long?
    Idle(FaceId),
    /// Packets in pieces that were not whole in time.
    Reassembly(FaceId),
    /// A listener that ran out of descriptors tries again.
    Accept(u32),
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
