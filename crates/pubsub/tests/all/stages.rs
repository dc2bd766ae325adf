//! Identifiers in stages: false positives against figures computed independently, and forwarding
//! on random graphs.

use nw_packet_types::random::splitmix64;
use nw_pubsub::filter::{FILL_BITS_MAX, LinkScheme};
use nw_pubsub::stages::{StageLinks, build, contains, positions};
use nw_wire::publication::{Stage, StagedFilter};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const TREES: u64 = 4000;
const OTHERS_PER_LINK: usize = 3;

/// False positives of a tree and share of trees without one: n links in four stages, bits for each
/// link, and bits set for each, without a choice of seeds.
fn measure(links: usize, link_bits: usize) -> (f64, f64) {
    let (in_stage, bits) = (links / 4, (links / 4 * link_bits) as u32);
    let ones = (link_bits as f64 * core::f64::consts::LN_2).round() as u8;
    let (mut false_positives, mut clean) = (0, 0);
    for tree in 0..TREES {
        let scheme = LinkScheme { seed: tree << 32 | links as u64, ..LinkScheme::default() };
        let mut number = 0..;
        let mut next = || scheme.stage_key(number.next().unwrap_or_default());
        let mut matching = 0;
        for _ in 0..4 {
            let mut filter = vec![false; bits as usize];
            for _ in 0..in_stage {
                positions(next(), 0, ones, bits).for_each(|at| filter[at] = true);
            }
            let others = (0..in_stage * OTHERS_PER_LINK).map(|_| next());
            matching +=
                others.filter(|key| positions(*key, 0, ones, bits).all(|at| filter[at])).count();
        }
        false_positives += matching;
        clean += u64::from(matching == 0);
    }
    (false_positives as f64 / TREES as f64, clean as f64 / TREES as f64)
}

#[test]
fn false_positives_without_choice_are_those_computed() {
    for (links, link_bits, expected, clean) in [
        (20, 8, 1.45, Some(0.23)),
        (20, 10, 0.54, Some(0.59)),
        (20, 12, 0.22, Some(0.80)),
        (40, 8, 2.8, None),
        (40, 10, 1.0, None),
        (40, 12, 0.38, None),
    ] {
        let (rate, share) = measure(links, link_bits);
        assert!((rate - expected).abs() <= 0.2 * expected, "n {links}, {link_bits} bits: {rate}");
        let near = |clean: f64| (share - clean).abs() <= 0.2 * clean;
        assert!(clean.is_none_or(near), "n {links}, {link_bits} bits: {share} without any");
    }
}

/// With 16 seeds some filter of 8 bits a link matches none of 15 to 90 other links: for each seed
/// the theory says 0.0214 matches for each of them.
#[test]
fn choice_of_seeds_leaves_no_false_positive_at_8_bits_a_link() {
    for (links, bits_max) in [(20, 8.2), (40, 8.2), (120, 8.5)] {
        let (mut bits, mut false_positives) = (0, 0);
        for tree in 0..200 {
            let scheme = LinkScheme { seed: tree, ..LinkScheme::default() };
            let keys = |from: usize, count: usize| -> Vec<u64> {
                (from..from + count).map(|number| scheme.stage_key(number as u32)).collect()
            };
            let stage = |at: usize| StageLinks {
                tree: keys(10_000 * at, links / 4),
                others: keys(10_000 * at + 5000, links / 4 * OTHERS_PER_LINK),
            };
            let stages: Vec<StageLinks> = (0..4).map(stage).collect();
            let tree = build(&stages, 512).expect("it fits");
            bits += 8 * (tree.bytes.len() - 9);
            false_positives += tree.false_positives;
        }
        let each = bits as f64 / (200 * links) as f64;
        assert!(each <= bits_max, "n {links}: {each} bits a link");
        assert_eq!(false_positives, 0, "n {links}");
    }
}

/// A graph of undirected links.
#[derive(Clone, Debug)]
struct Graph {
    neighbours: Vec<BTreeSet<usize>>,
}

/// Copies that arrive at nodes, and those for them; the deepest one.
#[derive(Debug, Default)]
struct Outcome {
    delivered: BTreeMap<usize, usize>,
    sent: usize,
    depth: usize,
}

const COPIES_MAX: usize = 200_000;

fn key(from: usize, to: usize) -> u64 {
    let number = splitmix64(splitmix64(from as u64) ^ to as u64) as u32;
    LinkScheme::default().stage_key(number)
}

impl Graph {
    fn random(nodes: usize, more: usize, seed: u64) -> Self {
        let mut neighbours = vec![BTreeSet::new(); nodes];
        let mut state = seed;
        let mut random = |below: usize| {
            state = splitmix64(state);
            (state % below as u64) as usize
        };
        let mut links: Vec<(usize, usize)> = (1..nodes).map(|node| (random(node), node)).collect();
        links.extend((0..more).map(|_| (random(nodes), random(nodes))));
        for (a, b) in links.into_iter().filter(|(a, b)| a != b) {
            neighbours[a].insert(b);
            neighbours[b].insert(a);
        }
        Graph { neighbours }
    }

    /// Returns the distance of each node from node 0, and the node before it.
    fn paths(&self) -> BTreeMap<usize, (usize, usize)> {
        let (mut paths, mut queue) = (BTreeMap::from([(0, (0, 0))]), VecDeque::from([0]));
        while let Some(node) = queue.pop_front() {
            for next in &self.neighbours[node] {
                if !paths.contains_key(next) {
                    paths.insert(*next, (paths[&node].0 + 1, node));
                    queue.push_back(*next);
                }
            }
        }
        paths
    }

    /// Returns the links of the tree from node 0 to others, and of other links at its nodes.
    fn stages(&self, subscribers: &BTreeSet<usize>) -> Vec<StageLinks> {
        let paths = self.paths();
        let mut nodes = BTreeSet::from([0]);
        for subscriber in subscribers {
            let mut node = *subscriber;
            while nodes.insert(node) {
                node = paths[&node].1;
            }
        }
        let depth = nodes.iter().map(|node| paths[node].0).max().unwrap_or(0);
        let mut stages = vec![StageLinks::default(); depth + 1];
        for node in &nodes {
            let StageLinks { tree, others } = &mut stages[paths[node].0];
            match subscribers.contains(node) {
                true => tree.push(key(*node, *node)),
                false => others.push(key(*node, *node)),
            }
            for next in &self.neighbours[*node] {
                match nodes.contains(next) && paths[next].1 == *node && *next != 0 {
                    true => tree.push(key(*node, *next)),
                    false => others.push(key(*node, *next)),
                }
            }
        }
        stages
    }

    /// Forwards a packet of node 0, as forwarders do.
    fn forward(&self, bytes: &[u8], fill_bits_max: u32) -> Outcome {
        let filter = StagedFilter::check(bytes).expect("a filter");
        let mut outcome = Outcome::default();
        let mut queue = VecDeque::from([(0, usize::MAX, filter.stages(), 0)]);
        while let Some((node, from, hop_limit, depth)) = queue.pop_front() {
            outcome.depth = outcome.depth.max(depth);
            let Some(stage) = filter.stage_at(hop_limit) else { continue };
            if stage.is_above(fill_bits_max) {
                continue;
            }
            if contains(&stage, key(node, node)) && depth > 0 {
                *outcome.delivered.entry(node).or_default() += 1;
            }
            for next in &self.neighbours[node] {
                if hop_limit > 1 && *next != from && contains(&stage, key(node, *next)) {
                    outcome.sent += 1;
                    assert!(outcome.sent < COPIES_MAX, "too many copies");
                    queue.push_back((*next, node, hop_limit - 1, depth + 1));
                }
            }
        }
        outcome
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn subscribers_of_a_random_graph_get_a_packet_once_and_no_other_node_does(
        nodes in 2..150_usize, more in 0..200_usize, seed in any::<u64>(), share in 1..8_u64,
    ) {
        let graph = Graph::random(nodes, more, seed);
        let is_subscribed = |node: &usize| splitmix64(seed ^ *node as u64).is_multiple_of(share);
        let mut subscribers: BTreeSet<usize> = (1..nodes).filter(is_subscribed).collect();
        subscribers.insert(nodes - 1);
        let stages = graph.stages(&subscribers);
        let Some(tree) = build(&stages, 512) else {
            // Some 300 links need more.
            prop_assert!(stages.iter().map(|stage| stage.tree.len()).sum::<usize>() > 200);
            return Ok(());
        };
        let filter = StagedFilter::check(&tree.bytes).expect("it was made");
        for (stage, links) in filter.iter().zip(&stages) {
            prop_assert!(links.tree.iter().all(|key| contains(&stage, *key)));
        }
        prop_assert_eq!(tree.false_positives, 0);
        let outcome = graph.forward(&tree.bytes, FILL_BITS_MAX);
        prop_assert!(outcome.delivered.values().all(|count| *count == 1));
        prop_assert_eq!(outcome.delivered.keys().copied().collect::<BTreeSet<_>>(), subscribers);
        prop_assert_eq!(outcome.depth, usize::from(filter.stages()) - 1);
        let links = stages.iter().map(|stage| stage.tree.len()).sum::<usize>();
        prop_assert_eq!(outcome.sent + outcome.delivered.len(), links);
    }

    #[test]
    fn random_filters_go_no_deeper_than_their_stages(
        nodes in 2..40_usize, more in 0..20_usize, seed in any::<u64>(),
        stages in prop::collection::vec((1..12_usize, 5..21_u8, 0..16_u8, any::<u8>()), 1..7),
    ) {
        let graph = Graph::random(nodes, more, seed);
        let (mut bytes, mut full) = (vec![stages.len() as u8], vec![stages.len() as u8]);
        for (len, ones, seed, bits) in stages {
            let random: Vec<u8> = (0..len)
                .map(|at| splitmix64(u64::from(bits) << 8 | at as u64) as u8 | bits)
                .collect();
            Stage { ones, seed, bits: &random }.encode(&mut bytes).expect("in range");
            Stage { ones, seed, bits: &vec![255; len] }.encode(&mut full).expect("in range");
        }
        for (filter, fill_bits_max) in [(&bytes, 256), (&bytes, FILL_BITS_MAX), (&full, 256)] {
            let outcome = graph.forward(filter, fill_bits_max);
            prop_assert!(outcome.depth < usize::from(filter[0]));
        }
        // All links match, and none is taken.
        prop_assert_eq!(graph.forward(&full, FILL_BITS_MAX).sent, 0);
    }
}

/// In a ring all bits of a filter lead round for as many hops as there are stages, without a limit
/// of the fill.
#[test]
fn full_filter_in_a_ring_ends_at_its_last_stage() {
    let ring = |node: usize| BTreeSet::from([(node + 1) % 5, (node + 4) % 5]);
    let graph = Graph { neighbours: (0..5).map(ring).collect() };
    let mut bytes = vec![128];
    (0..128).for_each(|_| Stage { ones: 5, seed: 0, bits: &[255] }.encode(&mut bytes).unwrap());
    let outcome = graph.forward(&bytes, 256);
    assert_eq!((outcome.depth, outcome.sent), (127, 2 * 127));
    assert_eq!(graph.forward(&bytes, FILL_BITS_MAX).sent, 0);
}
