//! Where an item starts for a subscribed node: after the publication that was the last one when it
//! subscribed.
//!
//! ```text
//! publisher's node ── heartbeat with START: number ──▶ node that subscribed
//!        the same, if that was lost:
//! publisher's node ── any publication, or heartbeat ─▶ node: holds what it receives
//! publisher's node ◀── request: Start(number before) ─ node
//! publisher's node ── heartbeat with START: number ──▶ node: requests what is missing
//! ```
//!
//! Without it a node that loses the start and the first publications would not know of them.
//! Invariants: bounded in items and nodes; what is held is passed on after some requests without
//! an answer.

use super::NodeId;
use super::streams::StreamKey;
use nw_api::pubsub::ItemName;
use nw_pubsub::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes of all items whose starts are known at most.
const STARTS_MAX: usize = 1 << 20;
/// Items at most that have ended and are remembered.
const ENDED_MAX: usize = 4096;
/// Milliseconds for which an item that has ended is remembered: longer than its end is repeated.
const ENDED_MS: u64 = 5000;
/// Milliseconds between two requests for a start.
const INTERVAL_MS: u64 = 50;
/// Requests for a start at most.
const REQUESTS_MAX: u32 = 6;

/// Where an item starts for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Number of the last publication before the node subscribed.
    pub last: u64,
    /// Whether the node gets that one, too.
    pub has_value: bool,
}

/// The starts of this node's items for other nodes.
#[derive(Debug, Default)]
pub struct Starts {
    items: BTreeMap<ItemName, Vec<(NodeId, Start)>>,
    count: usize,
}

impl Starts {
    /// Sets where an item starts for nodes. Beyond the limit it is not known.
    pub fn set(&mut self, name: &ItemName, nodes: &BTreeSet<NodeId>, start: Start) {
        if nodes.is_empty() || self.count + nodes.len() > STARTS_MAX {
            return;
        }
        let known = self.items.entry(name.clone()).or_default();
        self.count -= known.len();
        known.retain(|(node, _)| !nodes.contains(node));
        known.extend(nodes.iter().map(|node| (*node, start)));
        self.count += known.len();
    }

    /// Forgets the nodes that do not receive an item any more.
    pub fn retain(&mut self, name: &ItemName, nodes: &BTreeSet<NodeId>) {
        let Some(known) = self.items.get_mut(name) else { return };
        self.count -= known.len();
        known.retain(|(node, _)| nodes.contains(node));
        self.count += known.len();
        if known.is_empty() {
            self.items.remove(name);
        }
    }

    /// Forgets an item.
    pub fn remove(&mut self, name: &ItemName) {
        self.count -= self.items.remove(name).map_or(0, |known| known.len());
    }

    /// Returns where an item starts for a node, if that is known.
    pub fn get(&self, name: &ItemName, node: NodeId) -> Option<Start> {
        let known = self.items.get(name)?;
        known.iter().find(|(found, _)| *found == node).map(|(_, start)| *start)
    }
}

/// Requests for the start of an item.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Number before those that were received.
    pub before: u64,
    /// Number of the last publication of an earlier subscription.
    least: u64,
    /// When it is requested next.
    pub due: Timestamp,
    requests: u32,
}

impl Ask {
    /// Creates requests for an item whose publications up to `before` are unknown. `None` if there
    /// are none that may be missing.
    pub const fn new(before: u64, earlier: Option<u64>, due: Timestamp) -> Option<Self> {
        let least = match earlier {
            Some(last) if last <= before => last,
            _ => 0,
        };
        if least == before { None } else { Some(Ask { before, least, due, requests: 0 }) }
    }

    /// Counts a request. Returns whether it is to be sent; otherwise there were enough.
    pub const fn next(&mut self, now: Timestamp) -> bool {
        self.requests += 1;
        self.due = now.plus_millis(INTERVAL_MS);
        self.requests <= REQUESTS_MAX
    }

    /// Returns the number after which the item starts, from the answer.
    pub fn start(&self, last: u64) -> u64 {
        last.max(self.least).min(self.before)
    }
}

/// Items that have ended, or are not received any more, with the numbers of their last
/// publications.
#[derive(Debug, Default)]
pub struct Ended {
    items: BTreeMap<StreamKey, (u64, Timestamp)>,
    order: VecDeque<(StreamKey, Timestamp)>,
}

impl Ended {
    /// Remembers an item for some seconds.
    pub fn insert(&mut self, key: StreamKey, last: u64, now: Timestamp) {
        while self.order.len() >= ENDED_MAX
            || self.order.front().is_some_and(|(_, until)| *until <= now)
        {
            let Some((oldest, until)) = self.order.pop_front() else { break };
            if self.items.get(&oldest).is_some_and(|(_, known)| *known == until) {
                self.items.remove(&oldest);
            }
        }
        let until = now.plus_millis(ENDED_MS);
        self.order.push_back((key.clone(), until));
        self.items.insert(key, (last, until));
    }

    /// Returns the number of the last publication of an item that has ended.
    pub fn last(&self, key: &StreamKey, now: Timestamp) -> Option<u64> {
        self.items.get(key).filter(|(_, until)| *until > now).map(|(last, _)| *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn starts_are_those_of_the_nodes_that_receive() {
        let mut starts = Starts::default();
        let (name, other) = ("/a".parse().unwrap(), "/b".parse().unwrap());
        let start = |last| Start { last, has_value: false };
        starts.set(&name, &[NodeId(1), NodeId(2)].into(), start(3));
        starts.set(&name, &[NodeId(2), NodeId(3)].into(), start(5));
        starts.set(&other, &BTreeSet::new(), start(5));
        assert_eq!(starts.get(&name, NodeId(1)), Some(start(3)));
        assert_eq!(starts.get(&name, NodeId(2)), Some(start(5)));
        assert_eq!((starts.get(&name, NodeId(4)), starts.get(&other, NodeId(1))), (None, None));
        starts.retain(&name, &[NodeId(3), NodeId(4)].into());
        assert_eq!((starts.get(&name, NodeId(2)), starts.count), (None, 1));
        starts.retain(&name, &BTreeSet::new());
        assert!(starts.items.is_empty() && starts.count == 0);
        let many: BTreeSet<NodeId> = (0..STARTS_MAX as u64).map(NodeId).collect();
        starts.set(&name, &many, start(1));
        starts.set(&other, &[NodeId(1)].into(), start(1));
        assert_eq!((starts.count, starts.items.len()), (STARTS_MAX, 1));
        starts.remove(&name);
        assert_eq!(starts.count, 0);
    }

    #[test]
    fn ended_items_are_remembered_for_some_seconds() {
        let mut ended = Ended::default();
        let key = |number: usize| (NodeId(1), format!("/a/{number}").parse().unwrap());
        ended.insert(key(1), 7, at(0));
        ended.insert(key(1), 9, at(1000));
        assert_eq!(ended.last(&key(1), at(4000)), Some(9));
        ended.insert(key(2), 1, at(5500));
        assert_eq!(ended.last(&key(1), at(5500)), Some(9), "it ended again later");
        assert_eq!(ended.last(&key(1), at(6000)), None);
        for number in 0..3 * ENDED_MAX {
            ended.insert(key(number), 1, at(6000));
            assert!(ended.items.len() <= ENDED_MAX && ended.order.len() <= ENDED_MAX);
        }
        assert_eq!(ended.last(&key(3 * ENDED_MAX - 1), at(6001)), Some(1));
    }

    #[test]
    fn start_is_asked_for_only_if_something_may_be_missing() {
        assert!(Ask::new(0, None, at(0)).is_none(), "the first publication");
        assert!(Ask::new(7, Some(7), at(0)).is_none(), "it goes on where it ended");
        let mut ask = Ask::new(7, Some(3), at(0)).unwrap();
        assert_eq!([2, 5, 9].map(|last| ask.start(last)), [3, 5, 7]);
        assert_eq!(Ask::new(7, Some(9), at(0)).unwrap().start(2), 2, "numbers start afresh");
        let sent = (0..20).filter(|_| ask.next(at(0))).count();
        assert_eq!(sent, REQUESTS_MAX as usize);
    }
}
