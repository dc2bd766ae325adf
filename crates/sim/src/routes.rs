//! Routes to where producers are: Dijkstra from all producers of a prefix at once, over links and nodes that are up.

use crate::topology::Topology;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Cannot be reached.
pub const FAR: u64 = u64::MAX;

/// A way out of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The other end.
    pub to: u32,
    /// The link.
    pub link: u32,
    /// The node's port to it.
    pub port: u32,
    /// Its share of a way's length.
    pub length: u64,
}

/// The network as routing sees it.
#[derive(Debug)]
pub struct Map {
    ways: Vec<Vec<Way>>,
}

impl Map {
    /// Every node's ports are numbered in the order of links. `length` is at least 1.
    pub fn new(topology: &Topology, length: impl Fn(usize) -> u64) -> Self {
        let mut ways = vec![Vec::new(); topology.nodes.len()];
        for (link, edge) in topology.links.iter().enumerate() {
            let length = length(link).max(1);
            for (from, to) in [edge.ends, (edge.ends.1, edge.ends.0)] {
                let out: &mut Vec<Way> = &mut ways[from as usize];
                out.push(Way { to, link: link as u32, port: out.len() as u32, length });
            }
        }
        Map { ways }
    }

    /// A node's ways out.
    pub fn ways(&self, node: usize) -> &[Way] {
        &self.ways[node]
    }

    /// By node: how far the nearest of `sources` is.
    pub fn distances(&self, sources: &[usize], link_up: &[bool], node_up: &[bool]) -> Vec<u64> {
        let mut distances = vec![FAR; self.ways.len()];
        let mut heap = BinaryHeap::new();
        for source in sources.iter().filter(|source| node_up[**source]) {
            distances[*source] = 0;
            heap.push(Reverse((0u64, *source as u32)));
        }
        while let Some(Reverse((distance, node))) = heap.pop() {
            if distance > distances[node as usize] {
                continue;
            }
            for way in &self.ways[node as usize] {
                if !link_up[way.link as usize] || !node_up[way.to as usize] {
                    continue;
                }
                let next = distance + way.length;
                if next < distances[way.to as usize] {
                    distances[way.to as usize] = next;
                    heap.push(Reverse((next, way.to)));
                }
            }
        }
        distances
    }

    /// The ways from a node towards the sources, nearest first, at most `most`: those of neighbours that have a shortest way of
    /// their own that does not lead back here.
    pub fn next_hops(
        &self,
        node: usize,
        distances: &[u64],
        link_up: &[bool],
        most: usize,
        hops: &mut Vec<(u64, u32)>,
    ) {
        hops.clear();
        for way in self.ways[node].iter().filter(|way| link_up[way.link as usize]) {
            let there = distances[way.to as usize];
            // Another way as short as the one back here will do: a node does not send an Interest where it came from.
            let elsewhere = |on: &Way| {
                on.to as usize != node
                    && link_up[on.link as usize]
                    && distances[on.to as usize].saturating_add(on.length) == there
            };
            let leads_back = there == distances[node].saturating_add(way.length)
                && !self.ways[way.to as usize].iter().any(elsewhere);
            if there != FAR && !leads_back {
                hops.push((there + way.length, way.port));
            }
        }
        hops.sort_unstable();
        hops.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_ways_and_others() {
        // A ring of 5: from 2, node 0 is two links away leftwards and three rightwards.
        let topology = Topology::generate("ring:5", 1).unwrap();
        let map = Map::new(&topology, |_| 10);
        let (mut links, nodes) = (vec![true; 5], vec![true; 5]);
        let distances = map.distances(&[0], &links, &nodes);
        assert_eq!(distances, [0, 10, 20, 20, 10]);
        let mut hops = Vec::new();
        map.next_hops(2, &distances, &links, 4, &mut hops);
        let to = |hops: &[(u64, u32)]| {
            hops.iter().map(|(d, port)| (*d, map.ways(2)[*port as usize].to)).collect::<Vec<_>>()
        };
        assert_eq!(to(&hops), [(20, 1), (30, 3)]);
        map.next_hops(1, &distances, &links, 4, &mut hops);
        assert_eq!(hops.len(), 1, "2's way to 0 leads through 1");
        links[0] = false;
        let distances = map.distances(&[0], &links, &nodes);
        assert_eq!(distances, [0, 40, 30, 20, 10]);
        let mut hops = Vec::new();
        map.next_hops(2, &map.distances(&[0], &[true; 5], &nodes), &[true; 5], 1, &mut hops);
        assert_eq!(hops.len(), 1, "no more than asked for");
        assert_eq!(map.distances(&[0], &links, &[false, true, true, true, true]), [FAR; 5]);
        // Two sources.
        assert_eq!(map.distances(&[1, 4], &[true; 5], &nodes), [10, 0, 10, 10, 0]);
    }
}
