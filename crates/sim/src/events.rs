//! What happens when, in virtual nanoseconds. Equal times come in the order in which they were asked for.
//!
//! A binary heap. It holds one entry for each link that carries something, and one for each timer, not one for each packet: what is on a link
//! arrives in order, so only the first arrival needs a place here. A heap of a few thousand entries stays in the processor's cache.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The first packet on a link, in one direction, arrives.
    Arrival(u32),
    /// A node's timer.
    Node(u32),
    /// An application's timer.
    Application(u32),
    /// A failure, a repair, new routes.
    Action(u32),
    /// Counters are read.
    Sample,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, What)>>,
    asked: u64,
}

impl Events {
    /// At a time, do what.
    #[inline]
    pub fn at(&mut self, at_ns: u64, what: What) {
        self.asked += 1;
        self.heap.push(Reverse((at_ns, self.asked, what)));
    }

    /// The next one, if it is due by `until_ns`.
    #[inline]
    pub fn next(&mut self, until_ns: u64) -> Option<(u64, What)> {
        let Reverse((at_ns, ..)) = self.heap.peek()?;
        if *at_ns > until_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, _, what))| (at_ns, what))
    }

    /// Asked for so far.
    pub const fn asked(&self) -> u64 {
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_time_and_then_in_turn() {
        let mut events = Events::default();
        events.at(5, What::Node(1));
        events.at(3, What::Node(2));
        events.at(5, What::Arrival(0));
        events.at(9, What::Sample);
        let order: Vec<_> = core::iter::from_fn(|| events.next(5)).collect();
        assert_eq!(order, [(3, What::Node(2)), (5, What::Node(1)), (5, What::Arrival(0))]);
        assert_eq!((events.next(8), events.next(9)), (None, Some((9, What::Sample))));
    }
}
