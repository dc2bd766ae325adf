//! Identifiers in stages in a domain of more than 256 links, in virtual time.

use super::tests::{Network, address, name, receivers};
use super::*;
use nw_wire::publication::{Stage, StagedFilter};

/// Returns a grid of nodes without subscriptions.
fn grid(width: usize, height: usize) -> Network {
    let nodes = width * height;
    let right = (0..nodes).filter(|at| at % width + 1 < width).map(|at| (at, at + 1));
    let down = (0..nodes - width).map(|at| (at, at + width));
    let links: Vec<(usize, usize)> = right.chain(down).collect();
    Network::new(nodes, &links)
}

/// Returns packets with publications sent and forwarded by all nodes.
fn packets(network: &Network) -> u64 {
    let counters = network.domains.iter().map(Domain::counters);
    counters.map(|counters| counters.sent + counters.forwarded).sum()
}

const PUBLISHER: usize = 66;

/// Publishes some publications to nodes of a network, and returns the packets for each; also the
/// links of the tree. All subscribers get each once, and no other node gets any.
fn publish(network: &mut Network, large_trees: LargeTrees, first: u64, every: usize) -> (u64, u64) {
    const PUBLICATIONS: u64 = 5;
    let is_subscribed = |node: usize| node != PUBLISHER && node.is_multiple_of(every);
    network.domains[PUBLISHER].set_large_trees(large_trees);
    let nodes = network.domains[PUBLISHER].receivers([&name()], Strategy::Domain);
    assert_eq!(nodes.len(), (0..network.domains.len()).filter(|n| is_subscribed(*n)).count());
    let before = packets(network);
    let strays = |network: &Network, node: usize| {
        let counters = network.domains[node].counters();
        [counters.duplicates, counters.unwanted, counters.hop_limit]
    };
    let strays_before: Vec<_> = (0..network.domains.len()).map(|n| strays(network, n)).collect();
    for sequence in first..first + PUBLICATIONS {
        let payload = [sequence as u8; 2000];
        let domain = &mut network.domains[PUBLISHER];
        domain.publish(&name(), sequence, &payload, LaterUse::default(), &nodes);
        network.exchange();
    }
    let fragments = 2;
    let each = (packets(network) - before) / (PUBLICATIONS * fragments);
    for (node, strays_before) in strays_before.into_iter().enumerate() {
        let numbers: Vec<u64> =
            network.received(node).iter().map(|(sequence, _)| *sequence).collect();
        let count = if is_subscribed(node) { PUBLICATIONS } else { 0 };
        assert_eq!(numbers, (first..first + count).collect::<Vec<_>>(), "node {node}");
        if large_trees == LargeTrees::Stages {
            assert_eq!(strays(network, node), strays_before, "node {node}");
        }
    }
    (each, network.domains[PUBLISHER].tree(&nodes).len() as u64)
}

#[test]
fn subscribers_in_a_domain_of_many_links_get_each_publication_once() {
    // 132 nodes, and 241 links in each direction.
    let mut network = grid(12, 11);
    let mut first = 1;
    for every in [1, 3] {
        for node in 0..network.domains.len() {
            let pattern = if node.is_multiple_of(every) { "/a/b" } else { "/x" };
            network.subscribe(node, pattern);
        }
        network.run(200);
        let mut measure = |large_trees| {
            first += 5;
            publish(&mut network, large_trees, first - 5, every)
        };
        let (by_stages, links) = measure(LargeTrees::Stages);
        let (by_parts, same_links) = measure(LargeTrees::Parts);
        assert_eq!(links, same_links);
        // One third fits one identifier, and all nodes several: some links have several copies.
        let bound = if every == 1 { links * 5 / 4 } else { links };
        assert!(by_stages <= bound, "1 of {every}: {by_stages} packets for {links} links");
        assert!(by_parts > links * 3 / 2, "1 of {every}: {by_parts} packets for {links} links");
    }
}

#[test]
fn fragments_lost_of_a_staged_tree_are_repaired_along_another_identifier() {
    let mut network = grid(7, 6);
    (1..40).for_each(|node| network.subscribe(node, "/a/b"));
    network.run(300);
    network.domains[0].set_large_trees(LargeTrees::Stages);
    let nodes = network.domains[0].receivers([&name()], Strategy::Domain);
    let traced = network.domains[0].staged_trees(&nodes);
    assert_eq!((traced.len(), traced[0].other_links), (1, 0), "{traced:?}");
    let links: u64 = traced[0].links.iter().sum();
    assert_eq!(links, network.domains[0].tree(&nodes).len() as u64);
    assert!(
        network.domains[0].staged_trees(&BTreeSet::from([network.domains[1].node()])).is_empty()
    );
    network.domains[0].start_item(&name(), 0, None, LaterUse::default(), receivers(&nodes, 1));
    network.exchange();
    network.loss = 20;
    for sequence in 1..=3 {
        let domain = &mut network.domains[0];
        domain.publish(&name(), sequence, &[sequence as u8; 20_000], LaterUse::default(), &nodes);
        network.exchange();
    }
    network.loss = 0;
    network.run(1500);
    let mut repaired = 0;
    for node in 1..40 {
        let expected: Vec<_> = (1..=3).map(|n| (n, vec![n as u8; 20_000])).collect();
        assert_eq!(network.received(node), expected, "node {node}");
        repaired += network.domains[node].counters().repaired;
    }
    assert!(repaired > 10, "{repaired}");
}

#[test]
fn path_too_long_for_a_set_of_bits_is_reached_in_stages() {
    const NODES: usize = 70;
    let links: Vec<(usize, usize)> = (1..NODES).map(|node| (node - 1, node)).collect();
    let mut network = Network::new(NODES, &links);
    network.subscribe(NODES - 1, "/a/b");
    network.run(200);
    let nodes = network.domains[0].receivers([&name()], Strategy::Domain);
    assert_eq!(nodes.len(), 1);
    for (sequence, large_trees) in [(1, LargeTrees::Parts), (2, LargeTrees::Stages)] {
        network.domains[0].set_large_trees(large_trees);
        network.domains[0].publish(&name(), sequence, b"x", LaterUse::default(), &nodes);
        network.exchange();
    }
    assert_eq!(network.domains[0].counters().fill_limit, 1, "of the first");
    // The first one may be missing, and a request for the start can't take that path.
    network.run(400);
    assert_eq!(network.received(NODES - 1).last(), Some(&(2, b"x".to_vec())));
}

#[test]
fn hostile_identifiers_in_stages_are_counted_and_dropped() {
    let mut network = Network::new(3, &[(0, 1), (1, 2)]);
    network.subscribe(1, "/**");
    network.run(300);
    let body = [&payload_head(0, "/x")[..], b"y"].concat();
    let packet = |bits: &[u8], hop_limit: u8| {
        let mut filter = vec![3];
        for _ in 0..3 {
            Stage { ones: 5, seed: 0, bits }.encode(&mut filter).unwrap();
        }
        let mut bytes = Vec::new();
        let stream = Some(StreamPosition { source: Label::from_number(9), sequence: 1 });
        EnvelopeBuilder {
            hop_limit,
            staged: StagedFilter::check(&filter).ok(),
            stream,
            payload: &body,
            ..EnvelopeBuilder::default()
        }
        .encode(&mut bytes)
        .unwrap();
        bytes
    };
    let domain = &mut network.domains[1];
    domain.receive(2000, address(0), &packet(&[0xff; 8], 2));
    assert_eq!(domain.counters().fill_limit, 1);
    // Before the first stage, and behind the last one.
    for hop_limit in [0, 4, 255] {
        domain.receive(2000, address(0), &packet(&[0x55; 8], hop_limit));
    }
    assert_eq!(domain.counters().hop_limit, 3);
    let valid = packet(&[0x55; 8], 2);
    for len in 0..valid.len() {
        domain.receive(2000, address(0), &valid[..len]);
    }
    assert_eq!(domain.counters().invalid, valid.len() as u64);
    // The table without stages: as one of 256 bits.
    let mut wrong = Vec::new();
    let builder = EnvelopeBuilder { table: STAGES_TABLE, hop_limit: 2, ..Default::default() };
    builder.encode(&mut wrong).unwrap();
    domain.receive(2000, address(0), &wrong);
    assert_eq!(domain.counters().invalid, valid.len() as u64 + 1);
    domain.receive(2000, address(77), &valid);
    assert_eq!(domain.counters().invalid, valid.len() as u64 + 2, "not from a neighbour");
    assert_eq!((domain.counters().forwarded, domain.events.len()), (0, domain.events.len()));
}
