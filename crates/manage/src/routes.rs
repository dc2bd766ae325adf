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
