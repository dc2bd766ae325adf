//! Experiments of papers, repeated in the laboratory on one machine, each figure drawn beside what the paper found. So far one paper: the
//! cluster behind a balancer (`data/csr.toml` holds its numbers and where they stand in it).
//!
//! Layer 6 (users).

#![forbid(unsafe_code)]

mod bed;
mod caching;
mod conditions;
mod finding;
mod live;
mod multicast;
mod numbers;
mod reference;
mod report;
mod sampler;
mod scale;
mod setup;
mod weights;

pub use bed::{Failure, Watch};
pub use caching::Caching;
pub use conditions::Conditions;
pub use finding::{Check, Finding, Relation, Source};
pub use live::{Live, Stage};
pub use multicast::Multicast;
pub use numbers::{Csr, FigureText, Number};
pub use report::{Report, page};
pub use sampler::Curve;
pub use scale::{Cell, Scale};
pub use setup::{FIGURES, Machine, Options, Setup};
pub use weights::Weights;

use bed::Bed;

/// Runs the experiments that the wanted figures are of. Builds laboratories one after the other, and removes them.
///
/// # Errors
/// What is missing on this machine, in one sentence; [`Failure::Interrupted`] when the watch said so. Nothing is left behind.
pub fn run(options: &Options, watch: &Watch<'_>) -> Result<Report, Failure> {
    let bed = Bed::calibrated(options, watch)?;
    let wanted = |figures: &[u8]| figures.iter().any(|figure| options.figures.contains(figure));
    let mut report = Report::new(bed.setup().clone());
    report.scale = wanted(&[6, 7, 8]).then(|| scale::run(&bed, wanted(&[6]))).transpose()?;
    report.weights = wanted(&[9, 10]).then(|| weights::run(&bed)).transpose()?;
    report.multicast = wanted(&[11]).then(|| multicast::run(&bed)).transpose()?;
    report.caching = wanted(&[12, 13]).then(|| caching::run(&bed)).transpose()?;
    report.live = wanted(&[14]).then(|| live::run(&bed)).transpose()?;
    report.conditions = bed.conditions();
    report.judge(&Csr::read(), &options.figures);
    Ok(report)
}
