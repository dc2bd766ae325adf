//! The event queue, in virtual nanoseconds. Events with equal times are returned in the order they
//! were scheduled.
//!
//! A binary heap with one entry per busy link direction and per timer, not one per packet: packets
//! on a link arrive in order, so only the first arrival needs an entry. The heap stays small enough
//! for the processor's cache.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The first packet on a link direction arrives.
    Arrival(u32),
    /// The timer of a node.
    Node(u32),
    /// The timer of an application.
    Application(u32),
    /// A failure, a repair, or new routes.
    Action(u32),
    /// Counters are sampled for the time series.
    Sample,
}

/// The event queue.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, EventKind)>>,
    scheduled_count: u64,
}

impl EventQueue {
    /// Schedules an event.
    #[inline]
    pub fn schedule(&mut self, at_ns: u64, kind: EventKind) {
        self.scheduled_count += 1;
        self.heap.push(Reverse((at_ns, self.scheduled_count, kind)));
    }

    /// Returns the time of the next event, `None` if there is none.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Removes and returns the next event if it is due by `until_ns`.
    #[inline]
    pub fn next(&mut self, until_ns: u64) -> Option<(u64, EventKind)> {
        let Reverse((at_ns, ..)) = self.heap.peek()?;
        if *at_ns > until_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, _, kind))| (at_ns, kind))
    }

    /// Returns the number of events scheduled so far.
    pub const fn scheduled_count(&self) -> u64 {
        self.scheduled_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_sorted_by_time_then_scheduling_order() {
        let mut events = EventQueue::default();
        events.schedule(5, EventKind::Node(1));
        events.schedule(3, EventKind::Node(2));
        events.schedule(5, EventKind::Arrival(0));
        events.schedule(9, EventKind::Sample);
        let order: Vec<_> = core::iter::from_fn(|| events.next(5)).collect();
        assert_eq!(
            order,
            [(3, EventKind::Node(2)), (5, EventKind::Node(1)), (5, EventKind::Arrival(0))]
        );
        assert_eq!((events.next(8), events.next(9)), (None, Some((9, EventKind::Sample))));
    }
}
