//! `cluster/…`: several routers behind a kernel balancer, as one, in the laboratory of `nw-testbed`.
//!
//! Members get equal shares of a processor, small enough that neither the balancer nor the ends are what limits: this machine plays all parts.

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

/// The rows; none where a laboratory can't be built.
///
/// # Errors
/// When something that was built does not do what it is for.
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
