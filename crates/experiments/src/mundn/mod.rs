//! The µNDN paper: each service alone (table 3), four services in a chain (table 4), a manager that
//! scales a service by load (figure 5), and one that answers content poisoning (figure 7). All
//! networks are kept by `nw network up`.

mod attackers;
mod elements;
pub(crate) mod exchange;
mod managed;
mod page;
mod poisoning;
mod quotas;
mod scaling;

pub use elements::{ChainResult, ElementResult};
pub use page::mundn_page;
pub use poisoning::PoisoningResult;
pub use scaling::{Scaling, scaling};

use crate::bulk::Paper;
use crate::check::{Check, Judged, Relation};
use crate::conditions::Conditions;
use crate::testbed::{Failure, Watch};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A part of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Each service alone.
    Table3,
    /// Four services in a chain, and one router.
    Table4,
    /// Scaling by load.
    Figure5,
    /// Content poisoning.
    Figure7,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct MundnOptions {
    /// The program.
    pub nw: PathBuf,
    /// Parts of the paper.
    pub parts: Vec<Part>,
    /// Whether all runs are short.
    pub is_quick: bool,
    /// Container image of `nw` for table 3 in containers; `None` leaves that column out.
    pub image: Option<String>,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MundnReport {
    /// Conditions on the machine.
    pub conditions: Conditions,
    /// Number of processors.
    pub cores: usize,
    /// Whether all runs were short.
    pub quick: bool,
    /// Table 3, as processes.
    pub processes: Vec<ElementResult>,
    /// Table 3, in containers.
    pub containers: Vec<ElementResult>,
    /// Table 4: the chain.
    pub chain: Option<ChainResult>,
    /// Table 4: one router in place of NFD.
    pub router: Option<ChainResult>,
    /// Figure 5.
    pub scaling: Option<Scaling>,
    /// Figure 7.
    #[serde(default)]
    pub poisoning: Option<PoisoningResult>,
    /// What was not run, and why.
    pub left_out: Vec<String>,
}

impl MundnReport {
    /// Returns the processor time of services in containers divided by that of processes: the mean
    /// of the rows' ratios. `None` if containers were not run.
    pub fn container_ratio(&self) -> Option<f64> {
        let ratio = |contained: &ElementResult| {
            let bare = self.processes.iter().find(|bare| bare.row == contained.row)?;
            Some(contained.cpu_us / bare.cpu_us)
        };
        let ratios: Vec<f64> = self.containers.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }
}

impl Judged for MundnReport {
    fn checks(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        for (results, kind) in [(&self.processes, "process"), (&self.containers, "container")] {
            checks.extend(results.iter().map(|result| {
                let what = format!("table 3, {}, {kind}: lost Interests", result.row);
                Check::bound("paper/mundn.lost", what, result.lost as f64)
            }));
        }
        if let Some(ratio) = self.container_ratio() {
            let what = "table 3: processor time of containers over that of processes";
            checks.push(Check::bound("paper/mundn.container_cpu", what, ratio));
        }
        if let Some(chain) = &self.chain {
            let paper = mundn_paper().value("chain_mbit");
            let what = "table 4: throughput of the chain, Mbit/s,";
            checks.push(Check::new(what, chain.mbit, paper, Relation::AtLeast));
        }
        checks.extend(self.scaling.iter().flat_map(scaling_checks));
        checks.extend(self.poisoning.iter().flat_map(poisoning_checks));
        checks
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.conditions.problems();
        let quotas = self.scaling.iter().flat_map(|scaling| &scaling.quota_problems);
        problems.extend(quotas.map(|text| format!("Figure 5 is inconclusive: {text}")));
        problems
    }
}

fn scaling_checks(scaling: &Scaling) -> Vec<Check> {
    let check = |unit, what: &str, here| {
        Check::bound(&format!("manager/scale.{unit}"), format!("figure 5: {what}"), here)
    };
    let (useless, end) = (scaling.useless_instances(), u8::from(scaling.end_equals_start));
    let refused = scaling.lost + scaling.refused;
    vec![
        check("speedup", "throughput of two backward routers over one's", scaling.speedup()),
        check("seconds_to_carry", "seconds until a clone carried", scaling.seconds_to_carry),
        check("useless_instances", "instances that raised it by less than 15 %", useless.into()),
        check("lost", "lost or refused Interests", refused as f64).on_any_machine(),
        check("duplicates", "Data that came twice", scaling.duplicates as f64).on_any_machine(),
        check("end_equals_start", "services at the end as at the begin", end.into())
            .on_any_machine(),
    ]
}

fn poisoning_checks(poisoning: &PoisoningResult) -> Vec<Check> {
    let check = |unit, what: &str, here| {
        Check::bound(&format!("manager/poison.{unit}"), format!("figure 7: {what}"), here)
    };
    let periods = poisoning.periods_to_detect();
    let seconds = poisoning.seconds_to_recover();
    let fakes = poisoning.fakes_after() as f64;
    let alarms = poisoning.false_alarms as f64;
    let end = u8::from(poisoning.end_equals_start);
    let usual = "figure 7: hit ratio before the attack, percent,";
    let same = "figure 7: services at the end as at the begin";
    vec![
        check("periods_to_detect", "periods until a verifier was asked for", periods),
        check("seconds_to_recover", "seconds from the verifier to the recovery", seconds),
        check("fakes_after", "fake Data at the good consumer afterwards", fakes).on_any_machine(),
        check("false_alarms", "verifiers without an attack", alarms).on_any_machine(),
        Check::bound("paper/mundn.usual_percent", usual, poisoning.usual_percent),
        Check::bound("paper/mundn.end_equals_start", same, end.into()).on_any_machine(),
    ]
}

/// Returns the paper's numbers.
pub fn mundn_paper() -> Paper {
    toml::from_str(include_str!("../../data/mundn.toml")).expect("a test parses the file")
}

/// Runs the selected parts.
///
/// # Errors
/// Returns an error that says what failed, or [`Failure::Interrupted`]. Nothing is left behind.
pub fn mundn(options: &MundnOptions, watch: &Watch<'_>) -> Result<MundnReport, Failure> {
    let MundnOptions { nw, parts, is_quick, .. } = options;
    let mut report = MundnReport {
        conditions: Conditions::observe()?,
        cores: std::thread::available_parallelism().map_or(1, |count| count.get()),
        quick: *is_quick,
        ..MundnReport::default()
    };
    let seconds = if *is_quick { 0.2 } else { 3.0 };
    if parts.contains(&Part::Table3) {
        table3(options, seconds, &mut report, watch)?;
    }
    if parts.contains(&Part::Table4) {
        (watch.progress)("table 4: the chain");
        report.chain = Some(elements::chain(nw, seconds, watch)?);
        (watch.progress)("table 4: one router");
        report.router = Some(elements::router(nw, seconds, watch)?);
        report.left_out.push(
            "Table 4 has this project's router in place of NFD, which is not installed here."
                .to_owned(),
        );
    }
    if parts.contains(&Part::Figure5) {
        report.scaling = Some(scaling(nw, *is_quick, watch)?);
    }
    if parts.contains(&Part::Figure7) {
        report.poisoning = Some(poisoning::poisoning(nw, *is_quick, watch)?);
    }
    Ok(report)
}

/// Measures all rows of table 3. In a quick run a network ends while the next one starts.
fn table3(
    options: &MundnOptions,
    seconds: f64,
    report: &mut MundnReport,
    watch: &Watch<'_>,
) -> Result<(), Failure> {
    let MundnOptions { nw, is_quick, image, .. } = options;
    let times = (seconds, *is_quick);
    std::thread::scope(|scope| {
        let end = |measured: elements::Measured| match is_quick {
            true => drop(scope.spawn(|| drop(measured))),
            false => drop(measured),
        };
        for (row, ..) in elements::ROWS {
            (watch.progress)(&format!("table 3: {row}"));
            let (result, measured) = elements::element(nw, "process", row, times, watch)?;
            end(measured);
            report.processes.push(result);
            if let Some(image) = image {
                let engine = format!("docker image={image}");
                let (result, measured) = elements::element(nw, &engine, row, times, watch)?;
                end(measured);
                report.containers.push(result);
            }
        }
        Ok::<(), Failure>(())
    })?;
    if image.is_none() {
        report.left_out.push(
            "Table 3 in containers was not run: `nw image build` makes an image, and --image names \
             it; a Docker engine must run."
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
