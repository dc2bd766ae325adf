//! Table contents and counters: numbers that must be equal in all hosts.

use nw_elements::{ContentStore, Router};
use nw_sim::node::NodeCounters;
use std::collections::BTreeMap;

/// Numbers by name. A host that can't provide a number omits it.
pub type Tables = BTreeMap<&'static str, u64>;

/// Names of all numbers.
pub const ALL: [&str; 11] = [
    "pending",
    "prefixes",
    "satisfied",
    "unsatisfied",
    "cached",
    "hits",
    "misses",
    "insertions",
    "refreshes",
    "refusals",
    "evictions",
];

/// Returns pending Interests, prefixes with next hops or a strategy, and satisfied and unsatisfied
/// Interests.
pub fn of_router(router: &Router) -> Tables {
    let counters = router.counters();
    Tables::from([
        ("pending", router.pit().len() as u64),
        ("prefixes", router.fib().len() as u64),
        ("satisfied", counters.satisfied),
        ("unsatisfied", counters.unsatisfied),
    ])
}

/// Returns packets in the content store, hits, misses and changes.
pub fn of_store(store: &ContentStore) -> Tables {
    let counters = store.store().counters();
    Tables::from([
        ("cached", store.store().len() as u64),
        ("hits", counters.hits),
        ("misses", counters.misses),
        ("insertions", counters.insertions),
        ("refreshes", counters.refreshes),
        ("refusals", counters.rejections),
        ("evictions", counters.evictions),
    ])
}

/// Returns the numbers that a simulated node provides.
pub fn of_node(counters: NodeCounters) -> Tables {
    Tables::from([
        ("satisfied", counters.satisfied),
        ("unsatisfied", counters.unsatisfied),
        ("hits", counters.cs_hits),
        ("misses", counters.cs_misses),
        ("insertions", counters.cs_insertions),
        ("evictions", counters.cs_evictions),
    ])
}

/// Adds the numbers of another part of the same router.
pub fn add(sum: &mut Tables, part: Tables) {
    for (name, number) in part {
        *sum.entry(name).or_default() += number;
    }
}
