//! The topology function against forwarding hop by hop: what publishers are told makes every
//! reachable subscriber receive each publication exactly once for each part that names it.

use nw_pubsub::filter::{FILL_BITS_MAX, LinkScheme, SINGLE_BIT_TABLE};
use nw_pubsub::rendezvous::{ItemKey, MembershipChange, Publisher};
use nw_pubsub::{
    Delivery, ItemOptions, PublisherChoice, Strategy as Dissemination, Timestamp, Topology,
    TopologyConfig,
};
use nw_wire::publication::{Fid, Id, Label, LinkAdvertisement, NeighbourLink};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const NOW: Timestamp = Timestamp::START;
const ITEM: ItemKey = ItemKey(1 << 32 | 5);

fn node(number: u32) -> Label {
    Label::from_number(1000 + u64::from(number))
}

/// A domain: the topology function, the true links, and what publishers were told.
struct Domain {
    topology: Topology,
    links: BTreeMap<u32, BTreeMap<u32, u16>>,
    sequence: u64,
    /// Parts by publisher: version, table, forwarding identifier.
    parts: BTreeMap<(Label, u16), (u32, u8, Fid, u32)>,
    version: u32,
    publishers: BTreeSet<u32>,
    subscribers: BTreeSet<u32>,
    options: ItemOptions,
}

impl Domain {
    fn new(links: &[(u32, u32, u16)], choice: PublisherChoice) -> Self {
        let mut domain = Domain {
            topology: Topology::new(TopologyConfig::default()),
            links: BTreeMap::new(),
            sequence: 0,
            parts: BTreeMap::new(),
            version: 0,
            publishers: BTreeSet::new(),
            subscribers: BTreeSet::new(),
            options: ItemOptions { choice, immutable: false },
        };
        for (from, to, cost) in links {
            domain.links.entry(*from).or_default().insert(*to, *cost);
            domain.links.entry(*to).or_default().insert(*from, *cost);
        }
        for from in domain.links.keys().copied().collect::<Vec<_>>() {
            domain.advertise(from);
        }
        domain
    }

    fn advertise(&mut self, from: u32) {
        self.sequence += 1;
        let link = |(to, cost): (&u32, &u16)| NeighbourLink { neighbour: node(*to), cost: *cost };
        let links = self.links[&from].iter().map(link).collect();
        let advertisement = LinkAdvertisement { node: node(from), sequence: self.sequence, links };
        let deliveries = self.topology.advertise(&advertisement, NOW);
        self.told(&deliveries);
    }

    fn set_link(&mut self, from: u32, to: u32, cost: Option<u16>) {
        for (from, to) in [(from, to), (to, from)] {
            let links = self.links.entry(from).or_default();
            match cost {
                Some(cost) => drop(links.insert(to, cost)),
                None => drop(links.remove(&to)),
            }
            self.advertise(from);
        }
    }

    fn told(&mut self, deliveries: &[Delivery]) {
        for Delivery { publisher, change } in deliveries {
            assert_eq!(change.item, ITEM.0);
            let known = self.parts.get(&(*publisher, change.part));
            assert!(known.is_none_or(|(version, ..)| *version < change.version));
            assert!(change.fid.count_ones() <= FILL_BITS_MAX);
            assert_eq!(change.subscribers == 0, change.fid.is_empty());
            let part = (change.version, change.table, change.fid, change.subscribers);
            self.parts.insert((*publisher, change.part), part);
        }
    }

    fn change(&mut self) -> MembershipChange {
        self.version += 1;
        MembershipChange {
            item: ITEM,
            version: self.version,
            strategy: Dissemination::Domain,
            options: self.options,
            publishers_joined: Vec::new(),
            publishers_left: Vec::new(),
            subscribers_joined: Vec::new(),
            subscribers_left: Vec::new(),
            ids: vec![Id::new(vec![Label::from_number(1), Label::from_number(2)])],
            ended: false,
        }
    }

    fn apply(&mut self, change: &MembershipChange) {
        let deliveries = self.topology.apply(change);
        self.told(&deliveries);
        assert!(self.topology.apply(change).is_empty(), "the same change again has no effect");
    }

    fn publish(&mut self, from: u32, strength: u8) {
        let mut change = self.change();
        if self.publishers.insert(from) {
            change.publishers_joined = vec![Publisher { client: node(from), strength }];
            if self.publishers.len() == 1 {
                change.subscribers_joined = self.subscribers.iter().map(|s| node(*s)).collect();
            }
            self.apply(&change);
        }
    }

    fn unpublish(&mut self, from: u32) {
        let mut change = self.change();
        if self.publishers.remove(&from) {
            change.publishers_left = vec![node(from)];
            change.ended = self.publishers.is_empty();
            self.apply(&change);
        }
    }

    fn subscribe(&mut self, at: u32, joins: bool) {
        let mut change = self.change();
        change.ids.clear();
        let changed = match joins {
            true => self.subscribers.insert(at),
            false => self.subscribers.remove(&at),
        };
        if changed && !self.publishers.is_empty() {
            let list = match joins {
                true => &mut change.subscribers_joined,
                false => &mut change.subscribers_left,
            };
            list.push(node(at));
            self.apply(&change);
        }
    }

    /// Costs of shortest paths (Bellman and Ford's way).
    fn costs(&self, from: u32) -> BTreeMap<u32, u32> {
        let mut costs = BTreeMap::from([(from, 0)]);
        for _ in 0..self.links.len() {
            for (at, links) in &self.links {
                let Some(cost) = costs.get(at).copied() else { continue };
                for (to, link) in links {
                    let known = costs.entry(*to).or_insert(u32::MAX);
                    *known = (*known).min(cost + u32::from(*link));
                }
            }
        }
        costs
    }

    /// Sends a packet hop by hop. Returns how often each node's internal link matched.
    fn forward(&self, from: u32, table: u8, fid: Fid) -> BTreeMap<u32, u32> {
        let scheme = LinkScheme::default();
        let has = |number| scheme.link_id(number, table).is_some_and(|id| fid.contains(&id));
        let mut delivered = BTreeMap::new();
        let mut queue = VecDeque::from([(from, None, 32)]);
        while let Some((at, came_from, hops)) = queue.pop_front() {
            let assignment = self.topology.assignment(node(at)).expect("a node");
            if has(assignment.internal) {
                *delivered.entry(at).or_default() += 1;
            }
            for link in &assignment.links {
                let to = (link.neighbour.number() - 1000) as u32;
                let is_up = self.links.get(&at).is_some_and(|links| links.contains_key(&to));
                if is_up && came_from != Some(to) && hops > 0 && has(link.outgoing) {
                    queue.push_back((to, Some(at), hops - 1));
                }
            }
        }
        delivered
    }

    /// Checks deliveries of all publishers. `serving` is which of them serve a subscriber.
    fn check(&self) {
        let costs: BTreeMap<u32, BTreeMap<u32, u32>> =
            self.publishers.iter().map(|from| (*from, self.costs(*from))).collect();
        let reaching = |to: u32| -> Vec<(u32, u32)> {
            let mut reaching: Vec<_> =
                costs.iter().filter_map(|(from, c)| Some((*c.get(&to)?, *from))).collect();
            reaching.sort_unstable();
            reaching
        };
        let mut received: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for ((publisher, _), (_, table, fid, subscribers)) in &self.parts {
            let from = (publisher.number() - 1000) as u32;
            if *subscribers == 0 {
                continue;
            }
            assert!(self.publishers.contains(&from), "a publisher that left is told to stop");
            let delivered = self.forward(from, *table, *fid);
            for (to, count) in delivered {
                if *table == SINGLE_BIT_TABLE {
                    assert_eq!(count, 1, "no false positives, so no duplicates");
                    assert!(self.subscribers.contains(&to), "{to} does not subscribe");
                }
                *received.entry((from, to)).or_default() += count;
            }
        }
        for to in &self.subscribers {
            let reaching = reaching(*to);
            let serving: Vec<u32> = match self.options.choice {
                PublisherChoice::Nearest => reaching.first().map(|(_, p)| *p).into_iter().collect(),
                _ => reaching.iter().map(|(_, p)| *p).collect(),
            };
            for from in &self.publishers {
                let count = received.get(&(*from, *to)).copied().unwrap_or(0);
                let expected = u32::from(serving.contains(from));
                assert!(count >= expected, "{to} receives nothing from {from}");
            }
            let unreachable = self.topology.unreachable(ITEM).contains(&node(*to));
            assert_eq!(unreachable, serving.is_empty() && !self.publishers.is_empty());
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u32),
    Unpublish(u32),
    Subscribe(u32, bool),
    Link(usize, Option<u16>),
}

const NODES: u32 = 9;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..NODES).prop_map(Step::Publish),
        1 => (0..NODES).prop_map(Step::Unpublish),
        5 => (0..NODES, any::<bool>()).prop_map(|(at, joins)| Step::Subscribe(at, joins)),
        4 => (any::<usize>(), prop::option::of(1..4_u16)).prop_map(|(l, c)| Step::Link(l, c)),
    ];
    prop::collection::vec(step, 1..60)
}

fn ring_with_chords() -> Vec<(u32, u32, u16)> {
    let mut links: Vec<_> = (0..NODES).map(|at| (at, (at + 1) % NODES, 1)).collect();
    links.extend([(0, 4, 2), (2, 7, 1)]);
    links
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn deliveries_follow_memberships_and_links(steps in steps(), nearest in any::<bool>()) {
        let choice = if nearest { PublisherChoice::Nearest } else { PublisherChoice::All };
        let links = ring_with_chords();
        let mut domain = Domain::new(&links, choice);
        for step in steps {
            match step {
                Step::Publish(from) => domain.publish(from, 0),
                Step::Unpublish(from) => domain.unpublish(from),
                Step::Subscribe(at, joins) => domain.subscribe(at, joins),
                Step::Link(at, cost) => {
                    let (from, to, _) = links[at % links.len()];
                    domain.set_link(from, to, cost);
                }
            }
            domain.check();
        }
    }
}

#[test]
fn strongest_publisher_serves_until_it_cannot_be_reached() {
    let mut domain = Domain::new(&[(0, 1, 1), (1, 2, 1)], PublisherChoice::Strongest);
    domain.publish(0, 1);
    domain.publish(2, 9);
    domain.subscribe(1, true);
    let serving = |domain: &Domain| -> Vec<Label> {
        let active = domain.parts.iter().filter(|(_, (.., subscribers))| *subscribers > 0);
        active.map(|((publisher, _), _)| *publisher).collect()
    };
    assert_eq!(serving(&domain), [node(2)]);
    domain.set_link(1, 2, None);
    assert_eq!(serving(&domain), [node(0)], "a failed link moves the subscriber");
    domain.set_link(1, 2, Some(1));
    assert_eq!(serving(&domain), [node(2)]);
    let deliveries = domain.topology.remove_node(node(2));
    domain.told(&deliveries);
    assert_eq!(serving(&domain), [node(0)]);
}

#[test]
fn subscriber_at_the_publishers_node_needs_its_internal_link_only() {
    let mut domain = Domain::new(&[(0, 1, 1)], PublisherChoice::All);
    domain.publish(0, 0);
    domain.subscribe(0, true);
    domain.check();
    let (_, table, fid, subscribers) = domain.parts[&(node(0), 0)];
    assert_eq!((table, fid.count_ones(), subscribers), (SINGLE_BIT_TABLE, 1, 1));
    let unicast = domain.topology.unicast(node(1), node(0)).expect("a path");
    assert_eq!((unicast.hops, unicast.fid.count_ones()), (1, 2));
    assert!(domain.topology.unicast(node(0), node(7)).is_none());
}

/// A thousand nodes with some 2,600 links, each a subscriber: the tree has parts.
#[test]
fn thousand_receivers_are_reached_by_parts_within_the_fill_limit() {
    const NODES: u32 = 1000;
    let mut links: Vec<_> = (1..NODES).map(|at| ((at - 1) / 3, at, 1)).collect();
    links.extend((0..NODES / 3).map(|at| (at, NODES - 1 - at, 2)));
    let mut domain = Domain::new(&links, PublisherChoice::All);
    domain.publish(0, 0);
    for at in 0..NODES {
        domain.subscribe(at, true);
    }
    domain.check();
    let parts = domain.parts.len();
    assert!((20..200).contains(&parts), "{parts} parts");
    assert_eq!(domain.topology.size(), (1000, 1));
    let links: BTreeSet<_> = domain
        .topology
        .tree_links(ITEM, node(0))
        .into_iter()
        .map(|link| (link.from, link.to))
        .collect();
    assert_eq!(links.len(), 999, "a tree has a link less than nodes");
    domain.set_link(0, 1, None);
    domain.check();
}

/// Two hundred nodes in a row: the far end does not fit a filter, and that is told.
#[test]
fn subscriber_too_far_for_a_filter_is_listed_as_unreachable() {
    let links: Vec<_> = (0..199).map(|at| (at, at + 1, 1)).collect();
    let mut domain = Domain::new(&links, PublisherChoice::All);
    domain.publish(0, 0);
    domain.subscribe(20, true);
    domain.subscribe(199, true);
    assert_eq!(domain.topology.unreachable(ITEM), [node(199)]);
    domain.set_link(0, 190, Some(1));
    assert!(domain.topology.unreachable(ITEM).is_empty(), "a shorter path");
    domain.check();
}

#[test]
fn node_that_stops_advertising_is_removed() {
    let config = TopologyConfig { node_lease_ms: 100, ..TopologyConfig::default() };
    let mut topology = Topology::new(config);
    let at = Timestamp::from_millis;
    for (from, to, ms) in [(0, 1, 0), (1, 0, 50)] {
        let links = vec![NeighbourLink { neighbour: node(to), cost: 1 }];
        let advertisement = LinkAdvertisement { node: node(from), sequence: 1, links };
        topology.advertise(&advertisement, at(ms));
    }
    assert_eq!(topology.take_changed_assignments().len(), 2);
    assert!(topology.take_changed_assignments().is_empty());
    assert!(topology.unicast(node(1), node(0)).is_some());
    assert_eq!(topology.deadline(), Some(at(100)));
    topology.expire(at(100));
    assert!(topology.unicast(node(1), node(0)).is_none());
    assert_eq!(topology.config().node_lease_ms, 100);
}
