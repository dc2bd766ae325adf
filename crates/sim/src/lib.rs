#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod applications;
pub mod events;
pub mod link;
pub mod node;
pub mod outcome;
pub mod random;
pub mod report;
pub mod routes;
pub mod scenario;
pub mod simulation;
pub mod station;
pub mod topology;
pub mod wires;

pub use outcome::Outcome;
pub use scenario::{Checked, Overrides, Scenario};
pub use simulation::Simulation;
pub use topology::Topology;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often progress is told.
const PARTS: u64 = 200;

/// Why a run came to no result.
#[derive(Debug, thiserror::Error)]
pub enum RunFailure {
    /// It can't go on.
    #[error(transparent)]
    Refused(#[from] simulation::RunError),
    /// A bug: an assertion did not hold.
    #[error("a bug: {0}")]
    Panicked(String),
}

/// Runs a scenario to its end.
///
/// # Errors
/// See [`RunFailure`]. What was expected and did not come is no error here: see [`Outcome::is_good`].
pub fn run(plan: Checked) -> Result<Outcome, RunFailure> {
    run_with(plan, |_| {})
}

/// As [`run`]; `progress` is told now and then which share of the virtual time has passed.
///
/// # Errors
/// As [`run`].
pub fn run_with(plan: Checked, mut progress: impl FnMut(f64)) -> Result<Outcome, RunFailure> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let end_ns = plan.scenario.run.duration_s.0;
        let mut simulation = Simulation::new(plan)?;
        for part in 1..=PARTS {
            simulation.run_until((u128::from(end_ns) * u128::from(part) / u128::from(PARTS)) as u64)?;
            progress(part as f64 / PARTS as f64);
        }
        Ok(Outcome::of(&simulation))
    }));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(RunFailure::Panicked(text.to_owned()))
    })
}
