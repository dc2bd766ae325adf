//! `cluster/…`: several routers behind a kernel balancer, in a testbed of `nw-testbed`.
//!
//! Members get equal quotas of a processor, small enough that they are the bottleneck: this machine
//! also runs the balancer and the ends.

mod cache;
mod failover;
mod multicast;
mod rescale;
mod scale;

use crate::report::Row;
use crate::transfer::Place;
use anyhow::Result;
use nw_name::Name;
use nw_testbed::{Cluster, LabError, Plan};

/// Measures the rows. Returns none if a testbed can't be built.
///
/// # Errors
/// If a part of the testbed fails.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let plan = Plan::new(Place::new()?.nw);
    if let Err(error) = Cluster::build(&Plan { consumers: 0, producers: 0, ..plan.clone() }) {
        if matches!(error, LabError::Missing(_) | LabError::Refused { .. }) {
            eprintln!("{row} is left out: {error}");
            return Ok(Vec::new());
        }
        return Err(error.into());
    }
    match row {
        "cluster/scale4" => scale::run(row, &plan),
        "cluster/rescale" => rescale::run(row, &plan),
        "cluster/cache" => cache::run(row, &plan),
        "cluster/multicast" => multicast::run(row, &plan),
        _ => failover::run(row, &plan),
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}
