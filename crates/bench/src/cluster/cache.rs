//! `cluster/cache`: how often the content stores of four members answer, beside one router's that has the room of all four. Traffic by Zipf's law.

use super::name;
use crate::report::{Row, median};
use anyhow::Result;
use nw_testbed::{Cluster, Plan};
use std::time::Duration;

const MEMBERS: usize = 4;
/// Packets of each member's store.
const ROOM: u64 = 250;
const RUNS: usize = 3;
/// As often, so that stores are in their steady state for most of it.
const ASKED: &str = "60000";
const PATIENCE: Duration = Duration::from_secs(90);

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let cluster = Plan { members: MEMBERS, cache_packets: ROOM, ..plan.clone() };
    let single = Plan { balancers: 0, cache_packets: ROOM * MEMBERS as u64, ..plan.clone() };
    let (mut together, mut alone, mut points) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        let (several, one) = (hits_percent(&cluster, run)?, hits_percent(&single, run)?);
        points.push((several - one).abs());
        together.push(several);
        alone.push(one);
    }
    Ok(vec![
        Row::new(row, "points_apart", &points).at_most(2.0),
        Row::new(row, "hits_percent", &together).beside(median(&alone)),
    ])
}

/// The same requests in the same order each time a seed is the same.
fn hits_percent(plan: &Plan, seed: usize) -> Result<f64> {
    let cluster = Cluster::build(plan)?;
    let prefix = name("/cache");
    let seed = (seed + 1).to_string();
    let workload = ["--names", "10000", "--zipf", "0.8", "--payload", "500", "--seed", &seed];
    let _answering = cluster.answer(0, &prefix, &workload)?;
    // By few at a time: a name that is pending is asked for once, and neither hits nor misses.
    let load =
        [&workload[..], &["--window", "8", "--packets", ASKED, "--seconds", "60", "--lifetime", "4000"]];
    cluster.consumers()[0].generate(&prefix, &load.concat())?.finish(PATIENCE)?;
    let (mut hits, mut lookups) = (0, 0);
    for member in cluster.members() {
        let store = member.router.store()?;
        hits += store.hits;
        lookups += store.hits + store.misses;
    }
    Ok(hits as f64 * 100.0 / lookups as f64)
}
