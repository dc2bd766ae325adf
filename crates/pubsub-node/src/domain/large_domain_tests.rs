//! A domain of many nodes in virtual time, of the node's own code: links and nodes on the path of
//! publications fail, are found by link state, and the path heals.

use super::tests::{Network, name, receivers};
use super::*;

/// Milliseconds until a failed link or node is replaced by another path (README: within 1 s).
const HEALED_MS: u64 = 1000;
/// Milliseconds from publication to publication while a path heals.
const PROBE_MS: u64 = 50;
const PUBLISHER: usize = 0;

/// A domain with four links for each node: a ring, and one more ring across it.
struct LargeDomain {
    network: Network,
    subscriber: usize,
    sequence: u64,
}

impl LargeDomain {
    fn new(nodes: usize) -> Self {
        let step = nodes.isqrt();
        let ring = (0..nodes).map(|node| (node, (node + 1) % nodes));
        let across = (0..nodes).map(|node| (node, (node + step) % nodes));
        let links: Vec<(usize, usize)> = ring.chain(across).collect();
        // Far from the publisher on both rings.
        let subscriber = nodes / 2 + step / 2;
        LargeDomain { network: Network::new(nodes, &links), subscriber, sequence: 0 }
    }

    fn node(&self, number: usize) -> NodeId {
        self.network.domains[number].node()
    }

    fn number(&self, node: NodeId) -> usize {
        self.network.domains.iter().position(|domain| domain.node() == node).unwrap()
    }

    /// Returns the numbers of the nodes from the publisher to the subscriber.
    fn path(&self) -> Vec<usize> {
        let links = self.network.domains[PUBLISHER].links.path(self.node(self.subscriber));
        let nodes = links.iter().rev().map(|(_, node)| self.number(*node));
        [PUBLISHER].into_iter().chain(nodes).collect()
    }

    /// Publishes to the nodes that subscribe. Returns the nodes that have received something.
    fn publish(&mut self) -> Vec<usize> {
        self.sequence += 1;
        let domain = &mut self.network.domains[PUBLISHER];
        let nodes = domain.receivers([&name()], Strategy::Domain);
        domain.publish(&name(), self.sequence, b"x", LaterUse::default(), &nodes);
        self.network.exchange();
        let all = 0..self.network.domains.len();
        all.filter(|node| !self.network.received(*node).is_empty()).collect()
    }

    /// Publishes until the subscriber receives a publication. Returns the milliseconds.
    fn healed_after_ms(&mut self) -> u64 {
        for passed_ms in (0..2 * HEALED_MS).step_by(PROBE_MS as usize) {
            if self.publish().contains(&self.subscriber) {
                return passed_ms;
            }
            self.network.run(PROBE_MS);
        }
        panic!("the path does not heal");
    }

    /// Returns whether all nodes but some know exactly the nodes but these.
    fn is_known_by_all(&self, gone: &[usize]) -> bool {
        let count = self.network.domains.len() - gone.len() - 1;
        let is_complete = |(number, domain): (usize, &Domain)| {
            gone.contains(&number) || domain.links.reachable().count() == count
        };
        self.network.domains.iter().enumerate().all(is_complete)
    }

    /// Runs until all nodes know each other, but those that are gone. Returns the milliseconds.
    fn known_after_ms(&mut self, gone: &[usize]) -> u64 {
        for passed_ms in (0..2 * HEALED_MS).step_by(PROBE_MS as usize) {
            if self.is_known_by_all(gone) {
                return passed_ms;
            }
            self.network.run(PROBE_MS);
        }
        panic!("not all nodes know each other");
    }

    /// Cuts a link in the middle of the path.
    fn fail_link(&mut self) {
        let path = self.path();
        let at = path.len() / 2;
        let (from, to) = (path[at - 1], path[at]);
        self.network.cut(from, to);
        let healed_ms = self.healed_after_ms();
        assert!((1..HEALED_MS).contains(&healed_ms), "a link: healed after {healed_ms} ms");
        assert!(!self.path().windows(2).any(|link| link == [from, to]));
        let (node, other) = (self.node(from), self.node(to));
        let lists = |domain: &Domain| domain.links.path(other).contains(&(node, other));
        assert!(!self.network.domains.iter().any(lists), "all nodes know of the link");
    }

    /// Ends a node in the middle of the path, and its links.
    fn fail_node(&mut self) -> (usize, Vec<usize>) {
        let path = self.path();
        let failed = path[path.len() / 2];
        let neighbours = self.network.neighbours(failed);
        neighbours.iter().for_each(|neighbour| self.network.cut(failed, *neighbour));
        let healed_ms = self.healed_after_ms();
        assert!((1..HEALED_MS).contains(&healed_ms), "a node: healed after {healed_ms} ms");
        assert!(!self.path().contains(&failed));
        let known_ms = self.known_after_ms(&[failed]);
        assert!(healed_ms + known_ms < HEALED_MS, "known after {healed_ms} + {known_ms} ms");
        (failed, neighbours)
    }

    /// Starts a node again, as a new one that subscribes.
    fn rejoin(&mut self, number: usize, neighbours: &[usize]) {
        let id = self.node(number).0 ^ 1;
        self.network.domains[number] = Domain::new(id, 100, 1 << 20);
        self.network.subscribe(number, "/a/*");
        neighbours.iter().for_each(|neighbour| self.network.connect(number, *neighbour));
        let known_ms = self.known_after_ms(&[]);
        assert!(known_ms < HEALED_MS, "all know the new node after {known_ms} ms");
        // As the publisher's node does for each new subscriber.
        let domain = &mut self.network.domains[PUBLISHER];
        let nodes = domain.receivers([&name()], Strategy::Domain);
        let new = receivers(&nodes, 1);
        domain.start_item(&name(), self.sequence, None, LaterUse::default(), new);
        self.network.exchange();
    }
}

/// Forms a domain, publishes, and lets a link and a node of the path fail.
fn form_fail_and_rejoin(nodes: usize) {
    let mut domain = LargeDomain::new(nodes);
    let (subscriber, known_ms) = (domain.subscriber, domain.known_after_ms(&[]));
    assert!(known_ms < HEALED_MS, "the domain forms after {known_ms} ms");
    domain.network.subscribe(subscriber, "/a/b");
    domain.network.run(PROBE_MS);
    assert!(domain.path().len() > nodes.isqrt() / 2, "a long path: {:?}", domain.path());
    assert_eq!(domain.publish(), [subscriber]);
    domain.fail_link();
    let (failed, neighbours) = domain.fail_node();
    domain.rejoin(failed, &neighbours);
    let mut both = [subscriber, failed];
    both.sort_unstable();
    assert_eq!(domain.publish(), both);
}

#[test]
fn trees_are_kept_until_links_change() {
    let mut network = Network::new(4, &[(0, 1), (1, 2), (0, 3)]);
    network.run(300);
    let ids: Vec<NodeId> = network.domains.iter().map(Domain::node).collect();
    let nodes = BTreeSet::from([ids[2]]);
    let domain = &mut network.domains[0];
    assert_eq!((domain.trees(&nodes).len(), domain.trees.len()), (1, 1));
    network.subscribe(1, "/a/b");
    network.run(100);
    let domain = &mut network.domains[0];
    assert_eq!(domain.receivers([&name()], Strategy::Domain), BTreeSet::from([ids[1]]));
    assert_eq!(domain.trees.len(), 1, "a subscription changes no tree");
    network.cut(0, 3);
    network.run(HEALED_MS);
    let domain = &mut network.domains[0];
    assert_eq!((domain.trees(&BTreeSet::from([ids[1]])).len(), domain.trees.len()), (1, 1));
    let of_others = (0..2 * trees::TREE_SETS_MAX as u64).map(|n| BTreeSet::from([NodeId(n)]));
    of_others.for_each(|nodes| drop(domain.trees(&nodes)));
    assert!(domain.trees.len() <= trees::TREE_SETS_MAX);
}

#[test]
fn domain_of_200_nodes_heals_within_a_second() {
    form_fail_and_rejoin(200);
}

#[test]
fn domain_of_1000_nodes_heals_within_a_second() {
    form_fail_and_rejoin(1000);
}
