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
//! Without it the loss of a start and of the first publications would not be noticed.
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

/// The nodes that an item starts for.
#[derive(Clone, Copy, Debug)]
pub struct Receivers<'a> {
    /// The nodes.
    pub nodes: &'a BTreeSet<NodeId>,
    /// The round of the item's numbers. Rounds of a name go up.
    pub round: u32,
    /// Whether they subscribe to it, so that their subscriptions start here. Others get all
    /// publications, and may begin to accept them at any time.
    pub have_subscribed: bool,
}

/// The starts of one item.
#[derive(Debug)]
struct ItemStarts {
    round: u32,
    nodes: Vec<(NodeId, Start)>,
}

/// The starts of this node's items for other nodes.
#[derive(Debug, Default)]
pub struct Starts {
    items: BTreeMap<ItemName, ItemStarts>,
    count: usize,
}

impl Starts {
    /// Sets where an item starts for nodes. Beyond the limit it is not known.
    pub fn set(&mut self, name: &ItemName, receivers: Receivers<'_>, start: Start) {
        let Receivers { nodes, round, have_subscribed } = receivers;
        if self.count + nodes.len() > STARTS_MAX {
            return;
        }
        let new = || ItemStarts { round, nodes: Vec::new() };
        let item = self.items.entry(name.clone()).or_insert_with(new);
        item.round = round;
        if have_subscribed {
            self.count -= item.nodes.len();
            item.nodes.retain(|(node, _)| !nodes.contains(node));
            item.nodes.extend(nodes.iter().map(|node| (*node, start)));
            self.count += item.nodes.len();
        }
    }

    /// Forgets the nodes that do not receive an item any more.
    pub fn retain(&mut self, name: &ItemName, nodes: &BTreeSet<NodeId>) {
        if nodes.is_empty() {
            return self.remove(name);
        }
        let Some(item) = self.items.get_mut(name) else { return };
        self.count -= item.nodes.len();
        item.nodes.retain(|(node, _)| nodes.contains(node));
        self.count += item.nodes.len();
    }

    /// Forgets an item.
    pub fn remove(&mut self, name: &ItemName) {
        self.count -= self.items.remove(name).map_or(0, |item| item.nodes.len());
    }

    /// Returns where an item starts for a node, if that is known.
    pub fn get(&self, name: &ItemName, node: NodeId) -> Option<Start> {
        let nodes = &self.items.get(name)?.nodes;
        nodes.iter().find(|(found, _)| *found == node).map(|(_, start)| *start)
    }

    /// Returns the round of an item's numbers; 0 if it is not known.
    pub fn round(&self, name: &ItemName) -> u32 {
        self.items.get(name).map_or(0, |item| item.round)
    }
}

/// The last number of an item in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastNumber {
    /// Sequence number.
    pub number: u64,
    /// Each publisher of a name at a node begins a new round of numbers, greater than the ones
    /// before; 0: not known.
    pub round: u32,
}

impl LastNumber {
    /// Returns whether these numbers may be of that round.
    pub const fn may_be_in(self, round: u32) -> bool {
        round == 0 || self.round == 0 || self.round == round
    }
}

/// The requests for the start of an item.
#[derive(Clone, Copy, Debug)]
pub struct StartRequest {
    /// Number before those that were received.
    pub before: u64,
    /// Last number of an earlier subscription.
    earlier: Option<LastNumber>,
    /// When it is requested next.
    pub due: Timestamp,
    requests: u32,
}

impl StartRequest {
    /// Creates requests for an item whose publications up to `before` are unknown.
    pub const fn new(before: u64, earlier: Option<LastNumber>, due: Timestamp) -> Self {
        StartRequest { before, earlier, due, requests: 0 }
    }

    /// Counts a request. Returns whether it is to be sent; otherwise there were enough.
    pub const fn next(&mut self, now: Timestamp) -> bool {
        self.requests += 1;
        self.due = now.plus_millis(INTERVAL_MS);
        self.requests <= REQUESTS_MAX
    }

    /// Returns the number after which the item starts, from the answer. What an earlier
    /// subscription received does not come again.
    pub fn start(&self, last: LastNumber) -> u64 {
        let earlier = self.earlier.filter(|known| known.may_be_in(last.round));
        let received = earlier.map_or(0, |known| known.number).min(self.before);
        last.number.min(self.before).max(received)
    }
}

/// Items that have ended, or are not received any more, with the numbers of their last
/// publications.
#[derive(Debug, Default)]
pub struct Ended {
    items: BTreeMap<StreamKey, (LastNumber, Timestamp)>,
    order: VecDeque<(StreamKey, Timestamp)>,
}

impl Ended {
    /// Remembers an item for some seconds.
    pub fn insert(&mut self, key: StreamKey, last: LastNumber, now: Timestamp) {
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

    /// Returns the last number of an item that has ended.
    pub fn last(&self, key: &StreamKey, now: Timestamp) -> Option<LastNumber> {
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
        let set = |starts: &mut Starts, name, round, nodes: &BTreeSet<NodeId>, start| {
            starts.set(name, Receivers { nodes, round, have_subscribed: round < 3 }, start);
        };
        set(&mut starts, &name, 1, &[NodeId(1), NodeId(2)].into(), start(3));
        set(&mut starts, &name, 2, &[NodeId(2), NodeId(3)].into(), start(5));
        set(&mut starts, &other, 3, &[NodeId(1)].into(), start(5));
        assert_eq!([&name, &other].map(|name| starts.round(name)), [2, 3]);
        starts.remove(&other);
        assert_eq!(starts.get(&name, NodeId(1)), Some(start(3)));
        assert_eq!(starts.get(&name, NodeId(2)), Some(start(5)));
        assert_eq!((starts.get(&name, NodeId(4)), starts.get(&other, NodeId(1))), (None, None));
        starts.retain(&name, &[NodeId(3), NodeId(4)].into());
        assert_eq!((starts.get(&name, NodeId(2)), starts.count), (None, 1));
        starts.retain(&name, &BTreeSet::new());
        assert!(starts.items.is_empty() && starts.count == 0);
        let many: BTreeSet<NodeId> = (0..STARTS_MAX as u64).map(NodeId).collect();
        set(&mut starts, &name, 1, &many, start(1));
        set(&mut starts, &other, 1, &[NodeId(1)].into(), start(1));
        assert_eq!((starts.count, starts.items.len()), (STARTS_MAX, 1));
        starts.remove(&name);
        assert_eq!(starts.count, 0);
    }

    #[test]
    fn ended_items_are_remembered_for_some_seconds() {
        let mut ended = Ended::default();
        let key = |number: usize| (NodeId(1), format!("/a/{number}").parse().unwrap());
        let last = |number| LastNumber { number, round: 1 };
        ended.insert(key(1), last(7), at(0));
        ended.insert(key(1), last(9), at(1000));
        assert_eq!(ended.last(&key(1), at(4000)), Some(last(9)));
        ended.insert(key(2), last(1), at(5500));
        assert_eq!(ended.last(&key(1), at(5500)), Some(last(9)), "it ended again later");
        assert_eq!(ended.last(&key(1), at(6000)), None);
        for number in 0..3 * ENDED_MAX {
            ended.insert(key(number), last(1), at(6000));
            assert!(ended.items.len() <= ENDED_MAX && ended.order.len() <= ENDED_MAX);
        }
        assert_eq!(ended.last(&key(3 * ENDED_MAX - 1), at(6001)), Some(last(1)));
    }

    #[test]
    fn earlier_subscription_counts_in_its_round_only() {
        let last = |number, round| LastNumber { number, round };
        let mut request = StartRequest::new(7, Some(last(3, 5)), at(0));
        assert_eq!([2, 5, 9].map(|number| request.start(last(number, 5))), [3, 5, 7]);
        assert_eq!([0, 6].map(|round| request.start(last(2, round))), [3, 2]);
        assert_eq!(StartRequest::new(7, Some(last(9, 5)), at(0)).start(last(2, 5)), 7);
        assert_eq!(StartRequest::new(7, None, at(0)).start(last(2, 5)), 2);
        let sent = (0..20).filter(|_| request.next(at(0))).count();
        assert_eq!(sent, REQUESTS_MAX as usize);
    }
}
