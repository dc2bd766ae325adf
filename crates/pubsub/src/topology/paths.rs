//! Shortest paths from one node to all others, kept up to date.

use super::network::{LinkChange, Network, Node};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// No path.
pub(crate) const UNREACHABLE: u32 = u32::MAX;

/// No node.
pub(crate) const NO_NODE: Node = Node::MAX;

/// The tree of shortest paths from a source. Of paths with equal costs, the one whose last node
/// has the smaller label is taken, so that the result does not depend on the order of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    source: Node,
    /// Cost by node.
    costs: Vec<u32>,
    /// The node before, by node.
    before: Vec<Node>,
}

impl Paths {
    /// Computes all paths (Dijkstra).
    pub(crate) fn compute(network: &Network, source: Node) -> Self {
        let mut paths = Paths {
            source,
            costs: vec![UNREACHABLE; network.len()],
            before: vec![NO_NODE; network.len()],
        };
        paths.costs[source as usize] = 0;
        paths.relax(network, BinaryHeap::from([Reverse((0, source))]));
        paths
    }

    /// Lowers costs, starting with the nodes of the heap.
    fn relax(&mut self, network: &Network, mut heap: BinaryHeap<Reverse<(u32, Node)>>) {
        while let Some(Reverse((cost, node))) = heap.pop() {
            if cost > self.costs[node as usize] {
                continue;
            }
            for link in network.links(node) {
                if self.offer(network, node, link.to, cost.saturating_add(link.cost)) {
                    heap.push(Reverse((self.costs[link.to as usize], link.to)));
                }
            }
        }
    }

    /// Takes a path if it is better. Returns whether the cost fell.
    fn offer(&mut self, network: &Network, from: Node, to: Node, cost: u32) -> bool {
        let (known, before) = (self.costs[to as usize], self.before[to as usize]);
        let is_cheaper = cost < known;
        let is_equal = cost == known && cost != UNREACHABLE && to != self.source;
        if is_cheaper || is_equal && network.label(from) < network.label(before) {
            self.costs[to as usize] = cost;
            self.before[to as usize] = from;
        }
        is_cheaper
    }

    /// Updates the paths after changes of links. Returns whether a path may have changed. A link
    /// that became cheaper only lowers costs behind it; paths are computed again only if a link
    /// that they use went down or became more expensive.
    pub(crate) fn update(&mut self, network: &Network, changes: &[LinkChange]) -> bool {
        self.costs.resize(network.len(), UNREACHABLE);
        self.before.resize(network.len(), NO_NODE);
        let expected = |paths: &Paths, change: &LinkChange| {
            let from = paths.costs[change.from as usize];
            change.cost.map_or(UNREACHABLE, |cost| from.saturating_add(cost))
        };
        let is_worse = |change: &LinkChange| {
            self.before[change.to as usize] == change.from
                && expected(self, change) > self.costs[change.to as usize]
        };
        if changes.iter().any(is_worse) {
            let computed = Paths::compute(network, self.source);
            let changed = computed != *self;
            *self = computed;
            return changed;
        }
        let mut heap = BinaryHeap::new();
        let before = self.before.clone();
        for change in changes {
            let cost = expected(self, change);
            if self.offer(network, change.from, change.to, cost) {
                heap.push(Reverse((cost, change.to)));
            }
        }
        let lowered = !heap.is_empty();
        self.relax(network, heap);
        lowered || before != self.before
    }

    pub(crate) fn cost(&self, node: Node) -> u32 {
        self.costs.get(node as usize).copied().unwrap_or(UNREACHABLE)
    }

    pub(crate) fn is_reachable(&self, node: Node) -> bool {
        self.cost(node) != UNREACHABLE
    }

    /// Returns the node before another one on its path; [`NO_NODE`] for the source.
    pub(crate) fn before(&self, node: Node) -> Node {
        self.before[node as usize]
    }

    /// Returns the nodes on the path to a node, from that node on, without the source.
    pub(crate) fn way_up(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        let next = |node: &Node| Some(self.before(*node)).filter(|before| *before != NO_NODE);
        core::iter::successors(Some(node), next).take_while(|node| *node != self.source)
    }
}
