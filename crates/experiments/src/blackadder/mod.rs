//! "Implementation and Evaluation of an Information-Centric Network": publish/subscribe within a
//! node (figures 4 and 8), along a chain (5, 9, 10), the response time of rendezvous (6), and
//! emulated sockets (7). Nodes are processes of `nw run`, in namespaces where they are several.

mod exchange;
mod figures;
pub mod flow;
pub mod node;
mod page;
pub mod response;
mod sockets;

pub use figures::{PACKET, chain_flow};
pub use page::blackadder_page;

use crate::bulk::Paper;
use crate::check::{Check, Judged};
use crate::conditions::Conditions;
use crate::testbed::{Failure, Watch};
use serde::Serialize;
use std::path::PathBuf;

/// The figures of the paper.
pub const BLACKADDER_FIGURES: [u8; 7] = [4, 5, 6, 7, 8, 9, 10];

/// What is run.
#[derive(Clone, Debug)]
pub struct BlackadderOptions {
    /// The program.
    pub nw: PathBuf,
    /// Figures of the paper.
    pub figures: Vec<u8>,
    /// Whether networks are small and loads short.
    pub is_quick: bool,
}

/// One measured point of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlackadderPoint {
    /// Figure of the paper.
    pub figure: u8,
    /// Curve that it belongs to.
    pub series: &'static str,
    /// Place on the figure's horizontal axis.
    pub x: f64,
    /// The value, in the unit of the figure.
    pub value: f64,
    /// Number of the paper for the same point, if its text has one.
    pub paper: Option<f64>,
    /// Share of publications lost, 0 to 1.
    pub lost: Option<f64>,
    /// Processor time of all parties for each delivery, microseconds, where it was measured.
    pub cpu_us: Option<f64>,
}

/// The results.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BlackadderReport {
    /// Conditions on the machine.
    pub conditions: Conditions,
    /// Number of processors.
    pub cores: usize,
    /// Whether networks were small and loads short.
    pub quick: bool,
    /// Whether this program is a debug build.
    pub debug_build: bool,
    /// The points, in the order of their measurement.
    pub points: Vec<BlackadderPoint>,
    /// What was not run, and why, in sentences.
    pub left_out: Vec<String>,
}

impl BlackadderReport {
    /// Returns the points of a curve.
    pub fn of(&self, figure: u8, series: &str) -> impl Iterator<Item = &BlackadderPoint> {
        self.points.iter().filter(move |point| point.figure == figure && point.series == series)
    }

    /// Returns the point of a curve at a place.
    fn at(&self, figure: u8, series: &str, x: f64) -> Option<&BlackadderPoint> {
        self.of(figure, series).find(|point| point.x == x)
    }
}

impl Judged for BlackadderReport {
    fn checks(&self) -> Vec<Check> {
        figures::checks(self).into_iter().map(|(_, check)| check).collect()
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.conditions.problems();
        if self.debug_build {
            problems.push(
                "This is a debug build, several times slower than a release build: its rates and \
                 times say nothing beside the paper's."
                    .to_owned(),
            );
        }
        problems
    }
}

/// Returns the paper's numbers.
pub fn blackadder_paper() -> Paper {
    toml::from_str(include_str!("../../data/blackadder.toml")).expect("a test parses the file")
}

/// Runs the experiments of the selected figures. What this machine can't show is left out, and the
/// report says so.
///
/// # Errors
/// Returns an error that says what failed, or [`Failure::Interrupted`]. Nothing is left behind.
pub fn blackadder(
    options: &BlackadderOptions,
    watch: &Watch<'_>,
) -> Result<BlackadderReport, Failure> {
    let mut report = BlackadderReport {
        conditions: Conditions::observe()?,
        cores: std::thread::available_parallelism().map_or(1, |count| count.get()),
        quick: options.is_quick,
        debug_build: cfg!(debug_assertions),
        ..BlackadderReport::default()
    };
    figures::measure(options, watch, &mut report)?;
    Ok(report)
}

#[cfg(test)]
mod tests;
