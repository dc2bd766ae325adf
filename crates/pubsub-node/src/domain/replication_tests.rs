//! Replication of the records, in virtual time: packets are lost, repeated and arrive in any order,
//! links fail, nodes end, come back with an old state or as new ones.

use super::link_state::{LinkState, Target};
use super::message::{Control, VERSIONS_MAX};
use super::{LinkAddress, NodeId};
use nw_api::pubsub::ScopePattern;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

const HELLO_MS: u64 = 100;
/// Milliseconds after which a silent neighbour is lost, and all have learnt it.
const LOST_MS: u64 = 1000;
/// Milliseconds after which records of nodes that can't be reached are dropped everywhere.
const FORGOTTEN_MS: u64 = 35_000;

fn address(node: usize) -> LinkAddress {
    SocketAddr::from((Ipv4Addr::new(10, 0, (node >> 8) as u8, node as u8), 55_555)).into()
}

fn pattern(number: u8) -> ScopePattern {
    format!("/p/{number}").parse().unwrap()
}

/// What happens to the domain or to its packets.
#[derive(Clone, Debug)]
enum Step {
    Subscribe(usize, u8),
    Cut(usize, usize),
    Connect(usize, usize),
    /// Keeps the state of a node.
    Save(usize),
    /// Puts a node back to the state that was kept.
    Restore(usize),
    /// Starts a node anew, with another identifier.
    Replace(usize),
    Run(u64),
}

/// Nodes with links between their addresses.
struct Domain {
    states: Vec<LinkState>,
    ids: Vec<NodeId>,
    patterns: Vec<Vec<ScopePattern>>,
    saved: BTreeMap<usize, (LinkState, Vec<ScopePattern>)>,
    links: BTreeSet<(usize, usize)>,
    packets: VecDeque<(usize, usize, Control)>,
    now_ms: u64,
    next_id: u64,
    /// What happens to packets, and the numbers that decide it.
    has_faults: bool,
    random: u64,
    records_sent: usize,
}

impl Domain {
    fn new(nodes: usize, seed: u64) -> Self {
        let mut domain = Domain {
            states: Vec::new(),
            ids: Vec::new(),
            patterns: vec![Vec::new(); nodes],
            saved: BTreeMap::new(),
            links: BTreeSet::new(),
            packets: VecDeque::new(),
            now_ms: 1000,
            next_id: 0,
            has_faults: true,
            random: seed | 1,
            records_sent: 0,
        };
        for _ in 0..nodes {
            let id = domain.new_id();
            domain.ids.push(id);
            domain.states.push(LinkState::new(id, HELLO_MS));
        }
        domain
    }

    fn new_id(&mut self) -> NodeId {
        self.next_id += 1;
        NodeId(self.next_id.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) as usize % below
    }

    fn apply(&mut self, step: &Step) {
        let count = self.states.len();
        match *step {
            Step::Subscribe(node, number) => {
                let node = node % count;
                self.patterns[node] = vec![pattern(number), pattern(node as u8)];
                let patterns = self.patterns[node].clone();
                self.states[node].set_patterns(patterns);
            }
            Step::Cut(a, b) => {
                let (a, b) = (a % count, b % count);
                self.links.retain(|link| *link != (a, b) && *link != (b, a));
            }
            Step::Connect(a, b) => {
                let (a, b) = (a % count, b % count);
                if a != b {
                    self.links.extend([(a, b), (b, a)]);
                }
            }
            Step::Save(node) => {
                let node = node % count;
                let state = (self.states[node].clone(), self.patterns[node].clone());
                self.saved.insert(node, state);
            }
            Step::Restore(node) => {
                if let Some((state, patterns)) = self.saved.get(&(node % count)).cloned() {
                    self.states[node % count] = state;
                    self.patterns[node % count] = patterns;
                }
            }
            Step::Replace(node) => {
                let (node, id) = (node % count, self.new_id());
                self.saved.remove(&node);
                self.patterns[node].clear();
                self.ids[node] = id;
                self.states[node] = LinkState::new(id, HELLO_MS);
            }
            Step::Run(ms) => self.run(ms),
        }
    }

    fn run(&mut self, ms: u64) {
        let end_ms = self.now_ms + ms;
        while self.now_ms < end_ms {
            self.now_ms += 20;
            for node in 0..self.states.len() {
                // Hellos of different nodes are at different times.
                if self.now_ms >= 1000 + 20 * (node as u64 % 5) {
                    self.states[node].tick(self.now_ms);
                }
                self.send(node);
            }
            self.deliver();
        }
    }

    fn send(&mut self, from: usize) {
        for (target, control) in core::mem::take(&mut self.states[from].messages) {
            self.records_sent += usize::from(matches!(control, Control::Record { .. }));
            let to = self.links.iter().filter(|(a, b)| {
                *a == from
                    && (target == Target::Everyone || target == Target::Neighbour(address(*b)))
            });
            let packets: Vec<_> = to.map(|(_, to)| (from, *to, control.clone())).collect();
            self.packets.extend(packets);
        }
    }

    /// Delivers packets: all in order, or with faults some of them, in any order, some twice.
    fn deliver(&mut self) {
        let mut left = 100_000;
        while !self.packets.is_empty() {
            left -= 1;
            assert!(left > 0, "packets circulate");
            let mut at = 0;
            if self.has_faults {
                at = self.random(self.packets.len());
                match self.random(10) {
                    0..3 => {
                        self.packets.remove(at);
                        continue;
                    }
                    3 => {
                        let again = self.packets[at].clone();
                        self.packets.push_back(again);
                    }
                    // The rest arrives later.
                    4 => return,
                    _ => {}
                }
            }
            let (from, to, control) = self.packets.remove(at).unwrap();
            if self.links.contains(&(from, to)) {
                self.states[to].receive(address(from), control);
                self.send(to);
            }
        }
    }

    fn component(&self, node: usize) -> BTreeSet<usize> {
        let (mut found, mut queue) = (BTreeSet::from([node]), vec![node]);
        while let Some(node) = queue.pop() {
            for (_, next) in self.links.iter().filter(|(from, _)| *from == node) {
                if found.insert(*next) {
                    queue.push(*next);
                }
            }
        }
        found
    }

    /// Checks that each node knows the nodes that it can reach, with their patterns, and no others.
    fn check(&self) {
        for node in 0..self.states.len() {
            let others = self.component(node).into_iter().filter(|other| *other != node);
            let wanted: BTreeMap<NodeId, Vec<ScopePattern>> =
                others.map(|other| (self.ids[other], self.patterns[other].clone())).collect();
            let known: BTreeMap<NodeId, Vec<ScopePattern>> = self.states[node]
                .reachable()
                .map(|(id, _, record)| (id, record.body.patterns.clone()))
                .collect();
            assert_eq!(known, wanted, "as node {node} knows the domain");
        }
    }

    /// Checks that no node has a record of one that it can't reach.
    fn check_forgotten(&self) {
        for node in 0..self.states.len() {
            let reachable: BTreeSet<NodeId> =
                self.component(node).into_iter().map(|other| self.ids[other]).collect();
            for number in 1..=self.next_id {
                let id = NodeId(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                assert_eq!(self.states[node].knows(id), reachable.contains(&id), "at node {node}");
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0_usize..6;
    prop_oneof![
        3 => (node(), any::<u8>()).prop_map(|(node, number)| Step::Subscribe(node, number)),
        3 => (node(), node()).prop_map(|(a, b)| Step::Cut(a, b)),
        6 => (node(), node()).prop_map(|(a, b)| Step::Connect(a, b)),
        1 => node().prop_map(Step::Save),
        1 => node().prop_map(Step::Restore),
        1 => node().prop_map(Step::Replace),
        6 => (0_u64..800).prop_map(Step::Run),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn records_after_any_faults_are_equal_within_a_second(
        nodes in 2_usize..7,
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut domain = Domain::new(nodes, seed);
        steps.iter().for_each(|step| domain.apply(step));
        domain.has_faults = false;
        domain.run(LOST_MS);
        domain.check();
        // Now nothing but hellos is sent.
        domain.records_sent = 0;
        domain.run(2 * HELLO_MS);
        prop_assert_eq!(domain.records_sent, 0);
        domain.check();
    }

    #[test]
    fn partitions_that_join_know_each_other_within_a_second(
        left in 1_usize..4,
        right in 1_usize..4,
        seed in any::<u64>(),
        subscriptions in prop::collection::vec((0_usize..6, any::<u8>()), 0..8),
    ) {
        let mut domain = Domain::new(left + right, seed);
        domain.has_faults = false;
        let all = left + right;
        (1..all).for_each(|node| domain.apply(&Step::Connect(node - 1, node)));
        domain.run(LOST_MS);
        domain.check();
        domain.apply(&Step::Cut(left - 1, left));
        domain.run(LOST_MS);
        domain.check();
        for (node, number) in subscriptions {
            domain.apply(&Step::Subscribe(node, number));
        }
        domain.has_faults = true;
        domain.run(300);
        domain.has_faults = false;
        domain.apply(&Step::Connect(left - 1, left));
        domain.run(LOST_MS);
        domain.check();
    }
}

#[test]
fn record_of_a_node_that_ended_is_forgotten_by_all_nodes() {
    let mut domain = Domain::new(5, 7);
    domain.has_faults = false;
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)] {
        domain.apply(&Step::Connect(a, b));
    }
    domain.run(LOST_MS);
    // Nodes learn about the ends at different times.
    domain.has_faults = true;
    domain.apply(&Step::Cut(3, 4));
    domain.apply(&Step::Replace(2));
    domain.run(LOST_MS);
    domain.has_faults = false;
    domain.run(FORGOTTEN_MS);
    domain.check();
    domain.check_forgotten();
}

#[test]
fn state_that_was_put_back_to_the_same_number_of_changes_is_replaced() {
    let mut domain = Domain::new(3, 7);
    domain.has_faults = false;
    domain.apply(&Step::Connect(0, 1));
    domain.apply(&Step::Connect(1, 2));
    domain.run(LOST_MS);
    domain.apply(&Step::Save(0));
    domain.apply(&Step::Subscribe(0, 100));
    domain.run(LOST_MS);
    for number in 101..120 {
        domain.apply(&Step::Restore(0));
        domain.apply(&Step::Subscribe(0, number));
        domain.run(LOST_MS);
        domain.check();
    }
}

#[test]
fn records_lost_in_a_domain_with_more_nodes_than_a_hello_has_versions_are_sent_again() {
    let nodes = VERSIONS_MAX + 12;
    let mut domain = Domain::new(nodes, 7);
    domain.has_faults = false;
    (1..nodes).for_each(|node| domain.apply(&Step::Connect((node - 1) / 4, node)));
    domain.run(600);
    domain.check();
    // Three of ten packets are lost, so records of new nodes are missing at many nodes.
    domain.has_faults = true;
    (40..50).for_each(|node| domain.apply(&Step::Replace(node)));
    domain.run(300);
    domain.has_faults = false;
    domain.run(LOST_MS);
    domain.check();
}
