//! The items whose last numbers are repeated, so that other nodes notice a loss of the last
//! publication.
//!
//! Invariant: the work for one publication, and for one look at what is due, does not grow with the
//! number of items. So an item that is published again stays where it is in the order; its new time
//! is compared when the old one has come.

use super::NodeId;
use nw_api::pubsub::ItemName;
use std::collections::{BTreeMap, BTreeSet};

/// Items whose numbers are repeated at the same time.
const ITEMS_MAX: usize = 65_536;

/// An item whose number is repeated.
#[derive(Debug)]
pub struct Heartbeat {
    /// Number of its last publication.
    pub sequence: u64,
    /// Where it is told.
    pub nodes: BTreeSet<NodeId>,
    /// Flags of the packet.
    pub flags: u8,
    /// When it is repeated next, milliseconds.
    pub due_ms: u64,
    /// Repetitions so far.
    pub count: usize,
}

/// All such items.
#[derive(Debug, Default)]
pub struct Heartbeats {
    /// With their times in `order`.
    items: BTreeMap<ItemName, (Heartbeat, u64)>,
    order: BTreeSet<(u64, ItemName)>,
}

impl Heartbeats {
    /// Adds or replaces an item. Returns false for a new one beyond the limit, which is left out.
    pub fn insert(&mut self, name: &ItemName, heartbeat: Heartbeat) -> bool {
        if let Some((known, in_order_ms)) = self.items.get_mut(name) {
            if heartbeat.due_ms < *in_order_ms {
                self.order.remove(&(*in_order_ms, name.clone()));
                self.order.insert((heartbeat.due_ms, name.clone()));
                *in_order_ms = heartbeat.due_ms;
            }
            *known = heartbeat;
        } else if self.items.len() < ITEMS_MAX {
            self.order.insert((heartbeat.due_ms, name.clone()));
            let due_ms = heartbeat.due_ms;
            self.items.insert(name.clone(), (heartbeat, due_ms));
        } else {
            return false;
        }
        true
    }

    /// Removes an item.
    pub fn remove(&mut self, name: &ItemName) {
        if let Some((_, in_order_ms)) = self.items.remove(name) {
            self.order.remove(&(in_order_ms, name.clone()));
        }
    }

    /// Leaves out nodes where an item's number is not told any more.
    pub fn retain(&mut self, name: &ItemName, nodes: &BTreeSet<NodeId>) {
        if let Some((heartbeat, _)) = self.items.get_mut(name) {
            heartbeat.nodes.retain(|node| nodes.contains(node));
        }
    }

    /// Removes and returns an item that is due.
    pub fn take_due(&mut self, now_ms: u64) -> Option<(ItemName, Heartbeat)> {
        while self.order.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms) {
            let (_, name) = self.order.pop_first()?;
            let (heartbeat, in_order_ms) = self.items.get_mut(&name)?;
            if heartbeat.due_ms > now_ms {
                *in_order_ms = heartbeat.due_ms;
                self.order.insert((heartbeat.due_ms, name));
                continue;
            }
            return self.items.remove(&name).map(|(heartbeat, _)| (name, heartbeat));
        }
        None
    }

    /// Returns when [`take_due`](Self::take_due) is to be called, milliseconds.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.order.first().map(|(at_ms, _)| *at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn name(number: usize) -> ItemName {
        format!("/a/{number}").parse().unwrap()
    }

    fn heartbeat(sequence: u64, due_ms: u64) -> Heartbeat {
        Heartbeat { sequence, nodes: BTreeSet::new(), flags: 0, due_ms, count: 0 }
    }

    #[test]
    fn items_are_due_in_order_and_once_after_their_last_publication() {
        let mut heartbeats = Heartbeats::default();
        heartbeats.insert(&name(1), heartbeat(1, 100));
        heartbeats.insert(&name(2), heartbeat(1, 110));
        heartbeats.insert(&name(3), heartbeat(1, 300));
        heartbeats.insert(&name(1), heartbeat(2, 150));
        heartbeats.insert(&name(3), heartbeat(2, 120));
        heartbeats.insert(&name(4), heartbeat(1, 90));
        heartbeats.remove(&name(4));
        assert_eq!(heartbeats.deadline_ms(), Some(100));
        assert!(heartbeats.take_due(109).is_none());
        let mut due = |now_ms| {
            let found = core::iter::from_fn(|| heartbeats.take_due(now_ms));
            found.map(|(name, found)| (name, found.sequence)).collect::<Vec<_>>()
        };
        assert_eq!(due(130), [(name(2), 1), (name(3), 2)]);
        assert_eq!(due(150), [(name(1), 2)]);
        assert!(due(u64::MAX).is_empty());
        assert!(heartbeats.items.is_empty() && heartbeats.order.is_empty());
    }

    #[test]
    fn many_items_delay_no_step() {
        let mut heartbeats = Heartbeats::default();
        for number in 0..ITEMS_MAX + 10 {
            heartbeats.insert(&name(number), heartbeat(1, 1000));
        }
        assert_eq!((heartbeats.items.len(), heartbeats.order.len()), (ITEMS_MAX, ITEMS_MAX));
        let started = Instant::now();
        for step in 0..2000 {
            heartbeats.insert(&name(7), heartbeat(step, 1000 + step));
            assert_eq!(heartbeats.deadline_ms(), Some(1000));
            assert!(heartbeats.take_due(999).is_none());
        }
        // All items looked at in each step: more than ten seconds.
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
}
