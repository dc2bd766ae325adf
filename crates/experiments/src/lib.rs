//! Experiments of papers, repeated in a testbed on one machine, with each figure drawn beside the
//! paper's: the cluster behind a balancer (`data/csr.toml` holds the paper's numbers with their
//! positions), parallel downloads over one link (`data/bulk.toml`), networks of services
//! (`data/mundn.toml`), and publish/subscribe (`data/blackadder.toml`).
//!
//! Layer 6 (users).

#![forbid(unsafe_code)]

mod augustus;
pub mod blackadder;
mod bulk;
mod caching;
mod check;
mod conditions;
mod finding;
mod multicast;
mod mundn;
mod paper_data;
pub mod plane_load;
mod reference;
mod report;
mod sampler;
mod scale;
mod setup;
mod testbed;
mod timeline;
mod weights;

pub use augustus::{
    AUGUSTUS_FIGURES, AugustusOptions, AugustusPaper, AugustusPoint, AugustusReport, HostKind,
    Placement, augustus, augustus_page,
};
pub use blackadder::{
    BLACKADDER_FIGURES, BlackadderOptions, BlackadderPoint, BlackadderReport, blackadder,
    blackadder_page, blackadder_paper,
};
pub use bulk::{BulkReport, Paper, SimulatedChain, bulk_page, paper_plan, simulate, through_chain};
pub use caching::Caching;
pub use check::{Check, Judged, Relation, Source, Verdict};
pub use conditions::Conditions;
pub use finding::Finding;
pub use multicast::Multicast;
pub use mundn::{
    ChainResult, ElementResult, MundnOptions, MundnReport, Part, PoisoningResult, Scaling, mundn,
    mundn_page, mundn_paper, scaling,
};
pub use paper_data::{Csr, FigureText, Number};
pub use report::{Report, page};
pub use sampler::Curve;
pub use scale::{Cell, Scale};
pub use setup::{FIGURES, Machine, Options, Setup};
pub use testbed::{Failure, Watch};
pub use timeline::{Stage, Timeline};
pub use weights::Weights;

use testbed::Testbed;

/// Runs the experiments of the selected figures. Testbeds are built and removed one after the
/// other.
///
/// # Errors
/// Returns an error that says what this machine lacks, or [`Failure::Interrupted`]. Nothing is left
/// behind.
pub fn run(options: &Options, watch: &Watch<'_>) -> Result<Report, Failure> {
    let testbed = Testbed::calibrated(options, watch)?;
    let is_selected =
        |figures: &[u8]| figures.iter().any(|figure| options.figures.contains(figure));
    let mut report = Report::new(testbed.setup().clone());
    report.scale =
        is_selected(&[6, 7, 8]).then(|| scale::run(&testbed, is_selected(&[6]))).transpose()?;
    report.weights = is_selected(&[9, 10]).then(|| weights::run(&testbed)).transpose()?;
    report.multicast = is_selected(&[11]).then(|| multicast::run(&testbed)).transpose()?;
    report.caching = is_selected(&[12, 13]).then(|| caching::run(&testbed)).transpose()?;
    report.timeline = is_selected(&[14]).then(|| timeline::run(&testbed)).transpose()?;
    report.conditions = testbed.conditions();
    report.evaluate(&Csr::read(), &options.figures);
    Ok(report)
}
