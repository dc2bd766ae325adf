//! What tables hold, and what was counted there: numbers that do not depend on a host.

use nw_elements::{ContentStore, Router};
use nw_sim::node::NodeCounters;
use std::collections::BTreeMap;

/// A number by its name. A host that can't show one has none of that name.
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

/// Pending Interests, prefixes with next hops or a strategy; Interests answered and not.
pub fn of_router(router: &Router) -> Tables {
    let counters = router.counters();
    Tables::from([
        ("pending", router.pit().len() as u64),
        ("prefixes", router.fib().len() as u64),
        ("satisfied", counters.satisfied),
        ("unsatisfied", counters.unsatisfied),
    ])
}

/// Packets kept; how often it answered, and what came in and went.
pub fn of_store(store: &ContentStore) -> Tables {
    let counters = store.store().counters();
    Tables::from([
        ("cached", store.store().len() as u64),
        ("hits", counters.hits),
        ("misses", counters.misses),
        ("insertions", counters.insertions),
        ("refreshes", counters.refreshes),
        ("refusals", counters.refusals),
        ("evictions", counters.evictions),
    ])
}

/// Of these a node of the simulator shows through its links no more.
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
