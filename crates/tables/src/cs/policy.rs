//! Which packet goes when there is no room: the one file that decides it.
//!
//! A policy is told what happens to entries and names the next victim. Its state is in the entries' links.

use super::record::{Entry, NONE};

/// The policies there are.
#[derive(Debug)]
pub(super) enum Policy {
    /// Least recently used goes first.
    Lru(Queue),
}

impl Policy {
    pub const fn lru() -> Self {
        Policy::Lru(Queue::new())
    }

    /// An entry came.
    #[inline]
    pub fn inserted(&mut self, entries: &mut [Entry], slot: u32) {
        match self {
            Policy::Lru(queue) => queue.push(entries, slot),
        }
    }

    /// An entry answered, or the same packet came again.
    #[inline]
    pub fn used(&mut self, entries: &mut [Entry], slot: u32) {
        match self {
            Policy::Lru(queue) => {
                if queue.newest != slot {
                    queue.take_out(entries, slot);
                    queue.push(entries, slot);
                }
            }
        }
    }

    /// The next victim went, and another packet came in its entry.
    #[inline]
    pub fn replaced(&mut self, entries: &mut [Entry], slot: u32) {
        match self {
            Policy::Lru(queue) => queue.turn(entries, slot),
        }
    }

    /// An entry goes.
    #[inline]
    pub fn removed(&mut self, entries: &mut [Entry], slot: u32) {
        match self {
            Policy::Lru(queue) => queue.take_out(entries, slot),
        }
    }

    /// Entries, what would be kept longest first.
    pub fn recent<'a>(&self, entries: &'a [Entry]) -> impl Iterator<Item = u32> + use<'a> {
        let Policy::Lru(queue) = self;
        let newest = (queue.newest != NONE).then_some(queue.newest);
        core::iter::successors(newest, |slot| {
            Some(entries[*slot as usize].older).filter(|older| *older != NONE)
        })
    }

    /// What is to go next.
    #[inline]
    pub const fn victim(&self) -> Option<u32> {
        match self {
            Policy::Lru(Queue { oldest: NONE, .. }) => None,
            Policy::Lru(queue) => Some(queue.oldest),
        }
    }
}

/// Entries in an order, linked through themselves.
#[derive(Debug)]
pub(super) struct Queue {
    newest: u32,
    oldest: u32,
}

impl Queue {
    const fn new() -> Self {
        Queue { newest: NONE, oldest: NONE }
    }

    #[inline]
    fn push(&mut self, entries: &mut [Entry], slot: u32) {
        let entry = &mut entries[slot as usize];
        (entry.newer, entry.older) = (NONE, self.newest);
        match entries.get_mut(self.newest as usize) {
            Some(second) => second.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    /// Makes the oldest the newest.
    #[inline]
    fn turn(&mut self, entries: &mut [Entry], oldest: u32) {
        let second = entries[oldest as usize].newer;
        // Alone, it is both.
        let Some(entry) = entries.get_mut(second as usize) else { return };
        entry.older = NONE;
        self.oldest = second;
        self.push(entries, oldest);
    }

    #[inline]
    fn take_out(&mut self, entries: &mut [Entry], slot: u32) {
        let Entry { newer, older, .. } = entries[slot as usize];
        match entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}
