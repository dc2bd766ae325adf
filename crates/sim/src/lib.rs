#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod applications;
pub mod events;
pub mod link;
pub mod node;
pub mod node_runtime;
pub mod outcome;
pub mod packet_arena;
pub mod random;
pub mod recording;
pub mod report;
pub mod routes;
pub mod scenario;
pub mod simulation;
pub mod topology;

pub use outcome::Outcome;
pub use scenario::{Overrides, RunPlan, Scenario};
pub use simulation::Simulation;
pub use topology::Topology;

use nw_api::recording::Recording;
use recording::{FRAMES, RecordingBuilder};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reasons why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunFailure {
    /// A node rejected a route.
    #[error(transparent)]
    Refused(#[from] simulation::RunError),
    /// A bug: an assertion failed.
    #[error("a bug: {0}")]
    Panicked(String),
}

/// Runs a scenario to its end.
///
/// # Errors
/// If a node rejects a route, or on a bug. An expectation that does not hold is not an error: see
/// [`Outcome::is_good`].
pub fn run(plan: RunPlan) -> Result<Outcome, RunFailure> {
    run_with(plan, |_| {})
}

/// Like [`run`]; calls `progress` with the share of the virtual time that has passed, from 0 to 1.
///
/// # Errors
/// As for [`run`].
pub fn run_with(plan: RunPlan, progress: impl FnMut(f64)) -> Result<Outcome, RunFailure> {
    run_to_end(plan, None, progress).map(|(outcome, _)| outcome)
}

/// Like [`run_with`]; returns a recording of the run too, for the page.
///
/// # Errors
/// As for [`run`].
pub fn run_recorded(
    plan: RunPlan,
    title: &str,
    progress: impl FnMut(f64),
) -> Result<(Outcome, Recording), RunFailure> {
    run_to_end(plan, Some(title), progress)
        .map(|(outcome, recording)| (outcome, recording.unwrap_or_default()))
}

fn run_to_end(
    plan: RunPlan,
    title: Option<&str>,
    mut progress: impl FnMut(f64),
) -> Result<(Outcome, Option<Recording>), RunFailure> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let end_ns = plan.scenario.run.duration_s.0;
        let mut simulation = Simulation::new(plan)?;
        let mut recording = title.map(|title| RecordingBuilder::new(&simulation.plan, title));
        for part in 1..=FRAMES {
            let now_ns = u128::from(end_ns) * u128::from(part) / u128::from(FRAMES);
            simulation.run_until(now_ns as u64)?;
            if let Some(recording) = &mut recording {
                recording.add_frame(&simulation, now_ns as u64);
            }
            progress(part as f64 / FRAMES as f64);
        }
        Ok((Outcome::collect(&simulation), recording.map(RecordingBuilder::finish)))
    }));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(RunFailure::Panicked(text.to_owned()))
    })
}
