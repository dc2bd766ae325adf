//! Domains in virtual time: links that can be cut, packets that can be lost.

use super::*;
use nw_api::pubsub::ForwardingPath;
use nw_faces::mac::Mac;
use std::net::{Ipv4Addr, SocketAddr};

const KEEPS: LaterUse = LaterUse { keeps_last: true, is_bound: false };

/// Nodes with links between their addresses: node *i* sends from address *i*.
pub(super) struct Network {
    pub domains: Vec<Domain>,
    /// By node: those that its packets arrive at.
    links: Vec<BTreeSet<usize>>,
    now_ms: u64,
    /// Every n-th publication packet is lost; 0: none.
    pub loss: usize,
    /// Publication packets that are lost next.
    pub lose_next: usize,
    count: usize,
}

/// Returns the address of a node: of even ones over Ethernet, of odd ones over UDP.
pub(super) fn address(node: usize) -> LinkAddress {
    let [high, low] = (node as u16).to_be_bytes();
    match node % 2 {
        0 => LinkAddress::Ethernet { interface: 1, mac: Mac([2, 0, 0, 0, high, low]) },
        _ => SocketAddr::from((Ipv4Addr::new(10, 0, high, low), 55_555)).into(),
    }
}

impl Network {
    pub fn new(nodes: usize, links: &[(usize, usize)]) -> Self {
        Network::with_repair(nodes, links, 1 << 20)
    }

    pub fn with_repair(nodes: usize, links: &[(usize, usize)], bytes: usize) -> Self {
        let id = |node: usize| (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut network = Network {
            domains: (0..nodes).map(|node| Domain::new(id(node), 100, bytes)).collect(),
            links: vec![BTreeSet::new(); nodes],
            now_ms: 1000,
            loss: 0,
            lose_next: 0,
            count: 0,
        };
        links.iter().for_each(|(a, b)| network.connect(*a, *b));
        network
    }

    pub fn connect(&mut self, a: usize, b: usize) {
        self.links[a].insert(b);
        self.links[b].insert(a);
    }

    pub fn subscribe(&mut self, node: usize, pattern: &str) {
        let patterns: Vec<ScopePattern> = vec![pattern.parse().unwrap()];
        let accepted = patterns.iter().collect();
        self.domains[node].set_patterns(patterns, accepted);
    }

    pub fn cut(&mut self, a: usize, b: usize) {
        self.links[a].remove(&b);
        self.links[b].remove(&a);
    }

    /// Returns the nodes that have a link to a node.
    pub fn neighbours(&self, node: usize) -> Vec<usize> {
        self.links[node].iter().copied().collect()
    }

    /// Delivers packets until none is left.
    pub fn exchange(&mut self) {
        for _ in 0..100 {
            let mut moved = false;
            for from in 0..self.domains.len() {
                for (target, bytes) in self.domains[from].packets.take() {
                    moved = true;
                    let linked = self.links[from].iter().copied();
                    let receivers: Vec<usize> =
                        linked.filter(|node| is_for(&target, *node)).collect();
                    let envelope = Envelope::check(&bytes).unwrap();
                    if envelope.kind() == EnvelopeKind::Publication {
                        self.count += 1;
                        let is_next = self.lose_next > 0;
                        self.lose_next -= usize::from(is_next);
                        if is_next || self.loss > 0 && self.count.is_multiple_of(self.loss) {
                            continue;
                        }
                    }
                    for to in receivers {
                        self.domains[to].receive(self.now_ms, address(from), &bytes);
                    }
                }
            }
            if !moved {
                return;
            }
        }
        panic!("packets circulate");
    }

    pub fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms += 10;
            for domain in &mut self.domains {
                domain.tick(self.now_ms);
            }
            self.exchange();
        }
    }

    /// Takes the publications that a node received, and the number of lost ones.
    pub fn received(&mut self, node: usize) -> Vec<(u64, Vec<u8>)> {
        let events = core::mem::take(&mut self.domains[node].events);
        let publication = |event| match event {
            DomainEvent::Publication { sequence, payload, .. } => Some((sequence, payload)),
            _ => None,
        };
        events.into_iter().filter_map(publication).collect()
    }
}

fn is_for(target: &Target, node: usize) -> bool {
    match target {
        Target::Everyone => true,
        Target::Neighbour(to) => *to == address(node),
    }
}

pub(super) fn receivers(nodes: &BTreeSet<NodeId>, round: u32) -> Receivers<'_> {
    Receivers { nodes, round, have_subscribed: true }
}

pub(super) fn name() -> ItemName {
    "/a/b".parse().unwrap()
}

#[test]
fn chain_of_four_delivers_to_subscribed_nodes_only() {
    let mut network = Network::new(4, &[(0, 1), (1, 2), (2, 3)]);
    network.subscribe(3, "/a/**");
    network.run(300);
    let nodes = network.domains[0].receivers([&name()], Strategy::Domain);
    assert_eq!(nodes, BTreeSet::from([network.domains[3].node()]));
    network.domains[0].publish(&name(), 1, &[7; 5000], LaterUse::default(), &nodes);
    network.exchange();
    assert_eq!(network.received(3), [(1, vec![7; 5000])]);
    assert!(network.received(1).is_empty() && network.received(2).is_empty());
    assert_eq!(network.domains[1].counters().unwanted, 0);
    assert_eq!(network.domains[0].nodes().len(), 3);
}

#[test]
fn ring_heals_within_a_second_after_a_cut() {
    let mut network = Network::new(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
    network.subscribe(2, "/a/b");
    network.run(300);
    let nodes = network.domains[0].receivers([&name()], Strategy::Domain);
    network.domains[0].publish(&name(), 1, b"x", LaterUse::default(), &nodes);
    network.exchange();
    assert_eq!(network.received(2).len(), 1);
    network.cut(1, 2);
    network.run(600);
    network.domains[0].publish(&name(), 2, b"y", LaterUse::default(), &nodes);
    network.exchange();
    assert_eq!(network.received(2), [(2, b"y".to_vec())]);
}

/// Publishes while every `loss`-th packet on any link is lost. Returns the numbers delivered and
/// lost.
fn publish_with_loss(network: &mut Network, loss: usize, to: usize, len: usize) -> (u64, u64) {
    let from = 0;
    network.subscribe(to, "/a/b");
    network.run(300);
    let nodes = network.domains[from].receivers([&name()], Strategy::Domain);
    network.domains[from].start_item(&name(), 0, None, KEEPS, receivers(&nodes, 1));
    network.exchange();
    network.loss = loss;
    for sequence in 1..=30 {
        network.domains[from].publish(&name(), sequence, &vec![sequence as u8; len], KEEPS, &nodes);
        network.exchange();
    }
    network.run(1000);
    network.loss = 0;
    network.run(2000);
    let (mut last, mut delivered, mut lost) = (0, 0, 0);
    for event in core::mem::take(&mut network.domains[to].events) {
        match event {
            DomainEvent::Publication { sequence, payload, use_after, .. } => {
                assert!(sequence > last, "order is kept");
                assert!(use_after == KEEPS && payload == vec![sequence as u8; len]);
                delivered += 1;
                lost += sequence - last - 1;
                last = sequence;
            }
            DomainEvent::Missing { last: missing, .. } => {
                lost += missing - last;
                last = missing;
            }
            _ => {}
        }
    }
    assert_eq!(delivered + lost, 30);
    (delivered, lost)
}

#[test]
fn losses_without_repair_are_told_exactly_also_of_the_last_publication() {
    let mut network = Network::with_repair(2, &[(0, 1)], 0);
    let (_, lost) = publish_with_loss(&mut network, 3, 1, 1);
    assert!(lost > 5);
    assert_eq!(network.domains[1].counters().repair_requests, 0);
}

#[test]
fn losses_are_repaired_from_the_publishers_node_over_two_links() {
    let mut network = Network::new(3, &[(0, 1), (1, 2)]);
    assert_eq!(publish_with_loss(&mut network, 7, 2, 100), (30, 0));
    assert!(network.domains[2].counters().repaired > 5);
}

#[test]
fn fragments_that_are_lost_are_repaired() {
    let mut network = Network::new(2, &[(0, 1)]);
    assert_eq!(publish_with_loss(&mut network, 7, 1, 20_000), (30, 0));
    let counters = network.domains[0].counters();
    // Publications have 16 fragments, of which one or two are lost: whole ones are not sent again.
    assert!(counters.sent < 30 * 16 * 4 / 3, "{counters:?}");
}

#[test]
fn publications_that_the_publishers_node_has_dropped_are_told_as_lost_at_once() {
    let mut network = Network::with_repair(2, &[(0, 1)], 1000);
    network.subscribe(1, "/a/b");
    network.run(300);
    let nodes = network.domains[0].receivers([&name()], Strategy::Domain);
    network.domains[0].start_item(&name(), 0, None, KEEPS, receivers(&nodes, 1));
    network.exchange();
    network.domains[1].events.clear();
    for sequence in 1..=50 {
        network.loss = usize::from(sequence < 50);
        network.domains[0].publish(&name(), sequence, &[9; 100], LaterUse::default(), &nodes);
        network.exchange();
    }
    network.run(20);
    let received = network.received(1);
    let numbers: Vec<u64> = received.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(numbers, (41..=50).collect::<Vec<_>>(), "the last 1000 bytes");
}

#[test]
fn node_that_is_no_receiver_gets_nothing_again_and_requests_are_limited() {
    let mut network = Network::new(3, &[(0, 1), (0, 2)]);
    network.subscribe(1, "/a/b");
    network.run(300);
    let nodes = network.domains[0].receivers([&name()], Strategy::Domain);
    for sequence in 1..=100 {
        network.domains[0].publish(&name(), sequence, &[9; 1000], LaterUse::default(), &nodes);
    }
    network.exchange();
    let all = message::RepairRequest::Numbers(vec![(0, u64::MAX); 32]).encode();
    let (receiver, other) = (network.domains[1].node(), network.domains[2].node());
    network.domains[0].send_again(other, &name(), &all);
    assert!(network.domains[0].packets.runs().next().is_none());
    for _ in 0..10 {
        network.domains[0].send_again(receiver, &name(), &all);
    }
    let packets = network.domains[0].packets.take().len();
    assert!(packets <= 2048, "{packets}");
    let counters = network.domains[0].counters();
    assert!(counters.sent_again > 1000 && counters.repair_limit > 0, "{counters:?}");
    network.domains[0].send_again(receiver, &name(), &all[..20]);
    assert_eq!(network.domains[0].counters().invalid, 1);
}

#[test]
fn hostile_packets_are_counted_and_change_nothing() {
    let mut network = Network::new(2, &[(0, 1)]);
    network.subscribe(1, "/**");
    network.run(300);
    let domain = &mut network.domains[1];
    let events = domain.events.len();
    let mut flood = Vec::new();
    let body = [&payload_head(0, "/x")[..], b"y"].concat();
    let stream = Some(StreamPosition { source: Label::from_number(9), sequence: 1 });
    let builder = EnvelopeBuilder {
        hop_limit: 255,
        fid: Fid::BROADCAST,
        stream,
        payload: &body,
        ..EnvelopeBuilder::default()
    };
    builder.encode(&mut flood).unwrap();
    domain.receive(2000, address(0), &flood);
    assert_eq!(domain.counters().fill_limit, 1);
    domain.receive(2000, address(77), &flood);
    assert_eq!(domain.counters().invalid, 1, "not from a neighbour");
    for len in 0..flood.len() {
        domain.receive(2000, address(0), &flood[..len]);
    }
    domain.receive(2000, address(0), &[0xff; 1400]);
    assert_eq!(domain.events.len(), events);
    assert_eq!(domain.counters().invalid, 2 + flood.len() as u64);
}

#[test]
fn node_that_ends_is_no_longer_a_receiver() {
    let mut network = Network::new(3, &[(0, 1), (1, 2), (0, 2)]);
    network.subscribe(1, "/a/b");
    network.subscribe(2, "/a/b");
    network.run(300);
    assert_eq!(network.domains[0].receivers([&name()], Strategy::Domain).len(), 2);
    network.cut(0, 1);
    network.cut(1, 2);
    network.run(500);
    let left = network.domains[0].receivers([&name()], Strategy::Domain);
    assert_eq!(left, BTreeSet::from([network.domains[2].node()]));
}

#[test]
fn further_parents_of_a_node_lead_publications_of_another_to_subscribers_of_a_third() {
    let mut network = Network::new(3, &[(0, 1), (1, 2)]);
    network.subscribe(2, "/b/**");
    let link = ("/a".parse().unwrap(), "/b".parse().unwrap());
    network.domains[1].set_links(vec![link]);
    network.run(300);
    let mut parents = Parents::default();
    for (child, parent) in network.domains[0].links() {
        parents.insert_unchecked(child.as_str(), parent.as_str());
    }
    let names: Vec<ItemName> =
        parents.names("/a/b").iter().map(|name| name.parse().unwrap()).collect();
    assert_eq!(names.len(), 2);
    let nodes = network.domains[0].receivers(&names, Strategy::Domain);
    assert_eq!(nodes, BTreeSet::from([network.domains[2].node()]));
    network.domains[2].set_parents(parents.clone());
    network.domains[0].publish(&name(), 1, b"x", LaterUse::default(), &nodes);
    network.exchange();
    assert_eq!(network.received(2), [(1, b"x".to_vec())]);
    // What was known of the item's names does not outlive a change of parents.
    let mut others = Parents::default();
    others.insert_unchecked("/x", "/y");
    network.domains[2].set_parents(others);
    network.domains[0].publish(&name(), 2, b"x", LaterUse::default(), &nodes);
    network.exchange();
    assert_eq!(network.received(2), []);
    network.domains[2].set_parents(parents);
    network.domains[0].publish(&name(), 3, b"x", LaterUse::default(), &nodes);
    network.run(1000);
    let last = network.received(2).pop();
    assert_eq!(last, Some((3, b"x".to_vec())));
    network.domains[1].set_links(vec![]);
    network.run(300);
    assert_eq!(network.domains[0].links().count(), 0);
}

#[test]
fn given_forwarding_identifier_reaches_nodes_that_told_no_subscription_and_is_repaired() {
    let mut network = Network::new(3, &[(0, 1), (1, 2)]);
    let pattern: ScopePattern = "/a/**".parse().unwrap();
    network.domains[2].set_patterns(Vec::new(), [&pattern].into_iter().collect());
    network.run(300);
    assert!(network.domains[0].receivers([&name()], Strategy::Domain).is_empty());
    let node = BTreeSet::from([network.domains[2].node()]);
    let path = network.domains[0].forwarding_paths(&node)[0];
    let full = ForwardingPath { bits: [255; 32], ..path };
    assert!(network.domains[0].set_path(&name(), Some(full)).is_err());
    network.domains[0].set_path(&name(), Some(path)).unwrap();
    let no_nodes = BTreeSet::new();
    network.domains[0].start_item(&name(), 0, None, KEEPS, receivers(&no_nodes, 1));
    network.exchange();
    network.loss = 3;
    for sequence in 1..=20 {
        network.domains[0].publish(&name(), sequence, b"x", LaterUse::default(), &no_nodes);
        network.exchange();
    }
    network.loss = 0;
    network.run(1000);
    let numbers: Vec<u64> = network.received(2).iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    assert!(network.domains[2].counters().repaired > 0);
    network.domains[0].end_item(&name(), 20, &no_nodes);
    network.domains[0].publish(&name(), 21, b"x", LaterUse::default(), &no_nodes);
    network.exchange();
    assert!(network.received(2).is_empty(), "the identifier ended with the item");
}
