//! Route computation: Dijkstra from all producers of a prefix at once, over links and nodes that
//! are up.

use crate::topology::Topology;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Distance of nodes that can't be reached.
pub const UNREACHABLE: u64 = u64::MAX;

/// A neighbour of a node, reached by one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The neighbouring node.
    pub to: u32,
    /// The link, by index.
    pub link: u32,
    /// The node's port of the link.
    pub port: u32,
    /// Metric of the link.
    pub length: u64,
}

/// The network as seen by routing.
#[derive(Debug)]
pub struct RoutingGraph {
    neighbours: Vec<Vec<Neighbour>>,
}

impl RoutingGraph {
    /// Builds the graph. Each node's ports are numbered in the order of the links. `length` returns
    /// the metric of a link; 0 counts as 1.
    pub fn new(topology: &Topology, length: impl Fn(usize) -> u64) -> Self {
        let mut neighbours = vec![Vec::new(); topology.nodes.len()];
        for (link, edge) in topology.links.iter().enumerate() {
            let length = length(link).max(1);
            for (from, to) in [edge.ends, (edge.ends.1, edge.ends.0)] {
                let out: &mut Vec<Neighbour> = &mut neighbours[from as usize];
                out.push(Neighbour { to, link: link as u32, port: out.len() as u32, length });
            }
        }
        RoutingGraph { neighbours }
    }

    /// Returns the neighbours of a node, by port.
    pub fn neighbours(&self, node: usize) -> &[Neighbour] {
        &self.neighbours[node]
    }

    /// Returns the distance of each node to the nearest of `sources`.
    pub fn distances(&self, sources: &[usize], link_up: &[bool], node_up: &[bool]) -> Vec<u64> {
        let mut distances = vec![UNREACHABLE; self.neighbours.len()];
        let mut heap = BinaryHeap::new();
        for source in sources.iter().filter(|source| node_up[**source]) {
            distances[*source] = 0;
            heap.push(Reverse((0u64, *source as u32)));
        }
        while let Some(Reverse((distance, node))) = heap.pop() {
            if distance > distances[node as usize] {
                continue;
            }
            for neighbour in &self.neighbours[node as usize] {
                if !link_up[neighbour.link as usize] || !node_up[neighbour.to as usize] {
                    continue;
                }
                let next = distance + neighbour.length;
                if next < distances[neighbour.to as usize] {
                    distances[neighbour.to as usize] = next;
                    heap.push(Reverse((next, neighbour.to)));
                }
            }
        }
        distances
    }

    /// Collects the next hops of a node as (distance, port), nearest first, at most `hops_max`.
    /// Neighbours whose only shortest path leads back through this node are left out.
    pub fn next_hops(
        &self,
        node: usize,
        distances: &[u64],
        link_up: &[bool],
        hops_max: usize,
        hops: &mut Vec<(u64, u32)>,
    ) {
        hops.clear();
        for neighbour in
            self.neighbours[node].iter().filter(|neighbour| link_up[neighbour.link as usize])
        {
            let neighbour_distance = distances[neighbour.to as usize];
            // Another path of the same length is enough: a node does not return an Interest to its
            // ingress face.
            let has_other_path = |next: &Neighbour| {
                next.to as usize != node
                    && link_up[next.link as usize]
                    && distances[next.to as usize].saturating_add(next.length) == neighbour_distance
            };
            let leads_back = neighbour_distance == distances[node].saturating_add(neighbour.length)
                && !self.neighbours[neighbour.to as usize].iter().any(has_other_path);
            if neighbour_distance != UNREACHABLE && !leads_back {
                hops.push((neighbour_distance + neighbour.length, neighbour.port));
            }
        }
        hops.sort_unstable();
        hops.truncate(hops_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_sorted_without_paths_back() {
        // A ring of 5: node 0 is two links from node 2 in one direction and three in the other.
        let topology = Topology::generate("ring:5", 1).unwrap();
        let map = RoutingGraph::new(&topology, |_| 10);
        let (mut links, nodes) = (vec![true; 5], vec![true; 5]);
        let distances = map.distances(&[0], &links, &nodes);
        assert_eq!(distances, [0, 10, 20, 20, 10]);
        let mut hops = Vec::new();
        map.next_hops(2, &distances, &links, 4, &mut hops);
        let destinations = |hops: &[(u64, u32)]| {
            hops.iter()
                .map(|(d, port)| (*d, map.neighbours(2)[*port as usize].to))
                .collect::<Vec<_>>()
        };
        assert_eq!(destinations(&hops), [(20, 1), (30, 3)]);
        map.next_hops(1, &distances, &links, 4, &mut hops);
        assert_eq!(hops.len(), 1, "the shortest path of 2 to 0 leads through 1");
        links[0] = false;
        let distances = map.distances(&[0], &links, &nodes);
        assert_eq!(distances, [0, 40, 30, 20, 10]);
        let mut hops = Vec::new();
        map.next_hops(2, &map.distances(&[0], &[true; 5], &nodes), &[true; 5], 1, &mut hops);
        assert_eq!(hops.len(), 1, "at most one next hop");
        assert_eq!(map.distances(&[0], &links, &[false, true, true, true, true]), [UNREACHABLE; 5]);
        // Two sources.
        assert_eq!(map.distances(&[1, 4], &[true; 5], &nodes), [10, 0, 10, 10, 0]);
    }
}
