//! `cluster/cache`: hit ratio of the content stores of four members, against one router with the
//! capacity of all four. Traffic follows Zipf's law.

use super::name;
use crate::report::{Row, median};
use anyhow::Result;
use nw_testbed::{Cluster, Plan};
use std::time::Duration;

const MEMBERS: usize = 4;
/// Capacity of each member's store, in packets.
const STORE_PACKETS: u64 = 250;
const RUNS: usize = 3;
/// Number of requests: enough that stores are in their steady state for most of them.
const REQUESTS: &str = "60000";
const TIMEOUT: Duration = Duration::from_secs(90);

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let cluster = Plan { members: MEMBERS, cache_packets: STORE_PACKETS, ..plan.clone() };
    let single =
        Plan { balancers: 0, cache_packets: STORE_PACKETS * MEMBERS as u64, ..plan.clone() };
    let (mut together, mut alone, mut points) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        let (several, one) = (hits_percent(&cluster, run)?, hits_percent(&single, run)?);
        points.push((several - one).abs());
        together.push(several);
        alone.push(one);
    }
    Ok(vec![
        Row::new(row, "points_apart", &points),
        Row::new(row, "hits_percent", &together).with_reference(median(&alone)),
    ])
}

/// Returns the hit ratio in percent. Equal seeds give equal requests in equal order.
fn hits_percent(plan: &Plan, seed: usize) -> Result<f64> {
    let cluster = Cluster::build(plan)?;
    let prefix = name("/cache");
    let seed = (seed + 1).to_string();
    let workload = ["--names", "10000", "--zipf", "0.8", "--payload", "500", "--seed", &seed];
    let _answering = cluster.answer(0, &prefix, &workload)?;
    // A small window: a request for a pending name is neither a hit nor a miss.
    let load = [
        &workload[..],
        &["--window", "8", "--packets", REQUESTS, "--seconds", "60", "--lifetime", "4000"],
    ];
    cluster.consumers()[0].generate(&prefix, &load.concat())?.finish(TIMEOUT)?;
    let (mut hits, mut lookups) = (0, 0);
    for member in cluster.members() {
        let store = member.router.store()?;
        hits += store.hits;
        lookups += store.hits + store.misses;
    }
    Ok(hits as f64 * 100.0 / lookups as f64)
}
