//! Routes of all name routers: from registrations and static routes to shortest paths.
//!
//! A next hop always leads to a site that is nearer to an origin of the prefix. So an Interest comes
//! nearer with each hop, whichever of several next hops is used, and cannot go in a circle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Services that route by name, and the links between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteNetwork {
    /// By site: face, site at the other end, cost.
    links: Vec<Vec<(String, usize, u64)>>,
}

/// Where a prefix can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Site with a route to the prefix by a face of its own.
    pub site: usize,
    /// Cost beyond that face.
    pub cost: u64,
}

impl RouteNetwork {
    /// Creates a network without links.
    pub fn new(sites: usize) -> Self {
        RouteNetwork { links: vec![Vec::new(); sites] }
    }

    /// Adds a link between two faces.
    pub fn link(&mut self, from: (usize, &str), to: (usize, &str), cost: u64) {
        let cost = cost.max(1);
        self.links[from.0].push((from.1.to_owned(), to.0, cost));
        self.links[to.0].push((to.1.to_owned(), from.0, cost));
    }

    /// Returns the distance of each site from the nearest origin. `None` where no link leads.
    pub fn distances(&self, origins: &[Origin]) -> Vec<Option<u64>> {
        let mut distances: Vec<Option<u64>> = vec![None; self.links.len()];
        let mut queue = BinaryHeap::new();
        for origin in origins {
            queue.push(Reverse((origin.cost, origin.site)));
        }
        while let Some(Reverse((distance, site))) = queue.pop() {
            if distances[site].is_some() {
                continue;
            }
            distances[site] = Some(distance);
            for (_, other, cost) in &self.links[site] {
                if distances[*other].is_none() {
                    queue.push(Reverse((distance.saturating_add(*cost), *other)));
                }
            }
        }
        distances
    }

    /// Returns the next hops of each site towards a prefix by links, cheapest first: face and cost.
    pub fn hops(&self, origins: &[Origin]) -> Vec<Vec<(String, u64)>> {
        let distances = self.distances(origins);
        let hops = |site: usize| {
            let links = self.links[site].iter().filter_map(|(face, other, cost)| {
                let beyond = distances[*other]?;
                let is_nearer = beyond < distances[site]?;
                is_nearer.then(|| (face.clone(), beyond.saturating_add(*cost)))
            });
            let mut hops: Vec<(String, u64)> = links.collect();
            hops.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
            hops
        };
        (0..self.links.len()).map(hops).collect()
    }
}

/// Next hops of one prefix: by router, the routers that it sends Interests to. A router that is
/// itself an origin has `None` among them.
pub type NextHops = BTreeMap<usize, BTreeSet<Option<usize>>>;

/// Returns the order in which routers take up their new next hops of one prefix: groups of routers,
/// first to last. A router follows those that it sends Interests to by its new next hops, so that
/// no Interest is sent where there is no route; a router that loses its route follows those that
/// send Interests to it by their old next hops.
pub fn push_order(old: &NextHops, new: &NextHops) -> Vec<Vec<usize>> {
    let has = |hops: &NextHops, router: usize| hops.get(&router).is_some_and(|to| !to.is_empty());
    let all: BTreeSet<usize> = old.keys().chain(new.keys()).copied().collect();
    let is_changed = |router: &usize| old.get(router) != new.get(router);
    // Routers that change nothing wait as well: what they lead to may change.
    let mut waiting: BTreeSet<usize> =
        all.into_iter().filter(|router| has(new, *router) || is_changed(router)).collect();
    let mut order = Vec::new();
    while !waiting.is_empty() {
        let is_free = |router: &usize| match has(new, *router) {
            true => new[router].iter().flatten().all(|next| !waiting.contains(next)),
            false => {
                let sends = |other: &usize| {
                    other != router
                        && old.get(other).is_some_and(|next| next.contains(&Some(*router)))
                };
                !waiting.iter().any(sends)
            }
        };
        let mut group: Vec<usize> = waiting.iter().copied().filter(is_free).collect();
        if group.is_empty() {
            // Only circles of routes are left, which shortest paths never make.
            group = waiting.iter().copied().collect();
        }
        waiting.retain(|router| !group.contains(router));
        group.retain(is_changed);
        if !group.is_empty() {
            order.push(group);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a network of routers from a bit per pair, each link with a cost of 1 or 2.
    fn network(routers: usize, edges: u32) -> RouteNetwork {
        let mut network = RouteNetwork::new(routers);
        for (at, (from, to)) in pairs(routers).enumerate() {
            if edges & 1 << at != 0 {
                let faces = (to.to_string(), from.to_string());
                network.link((from, &faces.0), (to, &faces.1), 1 + (at as u64 % 2));
            }
        }
        network
    }

    fn pairs(routers: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..routers).flat_map(move |to| (0..to).map(move |from| (from, to)))
    }

    fn next_hops(network: &RouteNetwork, origins: &[usize]) -> NextHops {
        let origins: Vec<Origin> =
            origins.iter().map(|site| Origin { site: *site, cost: 0 }).collect();
        let mut hops = NextHops::new();
        for (router, faces) in network.hops(&origins).into_iter().enumerate() {
            let to = faces.iter().map(|(face, _)| face.parse::<usize>().ok());
            let own = origins.iter().any(|origin| origin.site == router).then_some(None);
            let all: BTreeSet<Option<usize>> = to.chain(own).collect();
            if !all.is_empty() {
                hops.insert(router, all);
            }
        }
        hops
    }

    /// Returns whether an Interest reaches an origin from a router, whichever next hops are used.
    fn arrives(hops: &NextHops, router: usize, path: &mut Vec<usize>) -> bool {
        let Some(next) = hops.get(&router).filter(|_| !path.contains(&router)) else {
            return false;
        };
        path.push(router);
        let all = next.iter().all(|next| next.is_none_or(|next| arrives(hops, next, path)));
        path.pop();
        all
    }

    /// Checks all states that the routers can be in while a change is pushed in groups, each router
    /// of a group before or after the others. Returns the number of states.
    fn check_all_interleavings(old: &NextHops, new: &NextHops, routers: usize) -> usize {
        let stays: Vec<usize> = (0..routers)
            .filter(|router| {
                arrives(old, *router, &mut Vec::new()) && arrives(new, *router, &mut Vec::new())
            })
            .collect();
        let mut states = 0;
        let mut done: BTreeSet<usize> = BTreeSet::new();
        let order = push_order(old, new);
        for group in &order {
            for subset in 0..1u32 << group.len() {
                let pushed = |router: &usize| {
                    let at = group.iter().position(|other| other == router);
                    done.contains(router) || at.is_some_and(|at| subset & 1 << at != 0)
                };
                let mut hops = NextHops::new();
                for router in 0..routers {
                    let from = if pushed(&router) { new } else { old };
                    if let Some(next) = from.get(&router) {
                        hops.insert(router, next.clone());
                    }
                }
                for router in &stays {
                    assert!(
                        arrives(&hops, *router, &mut Vec::new()),
                        "from router {router} with {hops:?}, while {old:?} becomes {new:?} in the order {order:?}"
                    );
                }
                states += 1;
            }
            done.extend(group);
        }
        for router in 0..routers {
            let is_changed = old.get(&router) != new.get(&router);
            assert_eq!(is_changed, done.contains(&router), "router {router} of {order:?}");
        }
        states
    }

    /// Every network of up to five routers, every place of a producer before and after.
    #[test]
    fn producer_moves_no_interleaving_has_a_black_hole() {
        let mut states = 0;
        for routers in 2..=5 {
            for edges in 0..1u32 << pairs(routers).count() {
                let network = network(routers, edges);
                for from in 0..routers {
                    let old = next_hops(&network, &[from]);
                    for to in (0..routers).filter(|to| *to != from) {
                        let new = next_hops(&network, &[to]);
                        states += check_all_interleavings(&old, &new, routers);
                    }
                }
            }
        }
        assert!(states > 10_000, "{states}");
    }

    /// Every network of up to five routers, and a link that comes or goes; a second producer, and
    /// one that leaves.
    #[test]
    fn link_and_second_producer_no_interleaving_has_a_black_hole() {
        let mut states = 0;
        for routers in 2..=5 {
            let links = pairs(routers).count();
            for edges in 0..1u32 << links {
                let before = next_hops(&network(routers, edges), &[0]);
                for changed in 0..links {
                    let after = next_hops(&network(routers, edges ^ 1 << changed), &[0]);
                    states += check_all_interleavings(&before, &after, routers);
                }
                let two = next_hops(&network(routers, edges), &[0, routers - 1]);
                states += check_all_interleavings(&before, &two, routers);
                states += check_all_interleavings(&two, &before, routers);
                states += check_all_interleavings(&NextHops::new(), &two, routers);
                states += check_all_interleavings(&two, &NextHops::new(), routers);
            }
        }
        assert!(states > 10_000, "{states}");
    }

    #[test]
    fn next_hops_lead_nearer_and_cheapest_is_first() {
        let mut network = RouteNetwork::new(4);
        network.link((0, "a"), (1, "a"), 1);
        network.link((0, "b"), (2, "b"), 5);
        network.link((1, "c"), (3, "c"), 1);
        network.link((2, "d"), (3, "d"), 1);
        let hops = network.hops(&[Origin { site: 3, cost: 10 }]);
        assert_eq!(hops[0], [("a".to_owned(), 12), ("b".to_owned(), 16)]);
        assert_eq!(hops[1], [("c".to_owned(), 11)]);
        assert_eq!(hops[3], []);
    }
}
