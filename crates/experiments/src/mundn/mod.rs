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
use crate::conditions::{Conditions, ProcessorTime};
use crate::testbed::{Failure, Watch};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Time for which the machine is observed before the runs.
const IDLE_PERIOD: Duration = Duration::from_millis(500);

/// Most processor time of services in containers, as a multiple of that of processes.
const CONTAINER_MAX: f64 = 1.25;

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
    /// Returns what misses the bounds of this project: one sentence each.
    pub fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        for result in self.processes.iter().chain(&self.containers).filter(|one| one.lost > 0) {
            misses.push(format!("{}: {} Interests were lost", result.row, result.lost));
        }
        if let Some(ratio) = self.container_ratio().filter(|ratio| *ratio > CONTAINER_MAX) {
            misses.push(format!(
                "table 3: containers used {ratio:.2} times the processor time of processes, not \
                 {CONTAINER_MAX}"
            ));
        }
        self.scaling_misses(&mut misses);
        self.poisoning_misses(&mut misses);
        misses
    }

    fn scaling_misses(&self, misses: &mut Vec<String>) {
        let Some(scaling) = &self.scaling else { return };
        let mut check = |holds: bool, text: String| {
            if !holds {
                misses.push(format!("figure 5: {text}"));
            }
        };
        check(scaling.speedup() >= 1.5, format!("speedup {:.2}, not 1.5", scaling.speedup()));
        let carry_s = scaling.seconds_to_carry;
        check(carry_s <= 3.0, format!("a clone carried traffic after {carry_s:.1} s, not 3 s"));
        check(scaling.lost == 0, format!("{} Interests were lost", scaling.lost));
        check(scaling.duplicates == 0, format!("{} Data came twice", scaling.duplicates));
        check(scaling.refused == 0, format!("{} Interests were refused", scaling.refused));
        let useless = scaling.useless_instances();
        check(useless == 0, format!("{useless} instances raised the throughput by less than 15 %"));
        check(scaling.end_equals_start, "the end state is not the first one".to_owned());
    }

    fn poisoning_misses(&self, misses: &mut Vec<String>) {
        let Some(poisoning) = &self.poisoning else { return };
        let mut check = |holds: bool, text: String| {
            if !holds {
                misses.push(format!("figure 7: {text}"));
            }
        };
        let (periods, seconds) = (poisoning.periods_to_detect(), poisoning.seconds_to_recover());
        // The attack begins within a period: two whole ones follow.
        check(periods <= 3.0, format!("detected in {periods:.1} periods, not in 2 whole ones"));
        check(seconds <= 5.0, format!("{seconds:.1} s from the verifier to the recovery, not 5 s"));
        let fakes = poisoning.fakes_after();
        check(fakes == 0, format!("{fakes} fake Data reached the good consumer afterwards"));
        let alarms = poisoning.false_alarms;
        check(alarms == 0, format!("{alarms} verifiers were asked for without an attack"));
        let usual = poisoning.usual_percent;
        check(
            usual >= 99.0,
            format!("the hit ratio before the attack was {usual:.0} %, not 100 %"),
        );
        check(poisoning.end_equals_start, "the end state is not the first one".to_owned());
    }

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

    /// Returns what makes results inconclusive: one sentence each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.conditions.problems();
        let quotas = self.scaling.iter().flat_map(|scaling| &scaling.quota_problems);
        problems.extend(quotas.map(|text| format!("Figure 5 is inconclusive: {text}")));
        problems
    }
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
        conditions: Conditions::begin(),
        cores: std::thread::available_parallelism().map_or(1, |count| count.get()),
        quick: *is_quick,
        ..MundnReport::default()
    };
    let before = ProcessorTime::now()?;
    std::thread::sleep(IDLE_PERIOD);
    report.conditions.note_before(ProcessorTime::now()?.busy_since(&before));
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
