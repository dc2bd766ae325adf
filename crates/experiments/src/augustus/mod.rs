//! "Augustus": a router on many cores, by number and placement of threads (figures 6 and 7) and by
//! the size of the FIB (figure 8), standalone and as a graph.
//!
//! ```text
//!  placement.rs: processors ─┐
//!  memory.rs: largest FIB ───┼─▶ measure.rs: a plane per thread, packets from memory ─▶ report.rs
//!  cache_counters.rs: perf ──┘
//! ```
//!
//! Every packet misses the content store and the PIT and reads the FIB, as in the paper. Packets
//! come from memory, so network cards and drivers are not part of the figures. What the machine
//! cannot show is listed in [`AugustusReport::left_out`], never replaced.

mod cache_counters;
mod measure;
mod memory;
mod placement;
mod report;

pub use measure::HostKind;
pub use placement::Placement;
pub use report::{AugustusPoint, AugustusReport, augustus_page};

use crate::paper_data::{FigureText, Number};
use crate::testbed::{Failure, Watch};
use cache_counters::CacheCounters;
use measure::Case;
use nw_router::placement::Machine as Processors;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Figures that are repeated.
pub const AUGUSTUS_FIGURES: [u8; 3] = [6, 7, 8];
/// Sizes of the FIB in figure 8, powers of two.
const FIB_LOG2: [u32; 9] = [10, 12, 14, 16, 18, 20, 22, 24, 26];
/// The same for a short run.
const FIB_LOG2_QUICK: [u32; 3] = [8, 10, 12];
/// Threads in figures 6 and 7, as in the paper.
const THREADS: [usize; 9] = [1, 2, 4, 6, 8, 10, 12, 16, 32];

/// The paper's numbers and findings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugustusPaper {
    /// Title.
    pub title: String,
    /// Authors.
    pub authors: String,
    /// Numbers by name.
    pub number: BTreeMap<String, Number>,
    /// Figure texts by figure number.
    pub figure: BTreeMap<String, FigureText>,
}

impl AugustusPaper {
    /// Reads the file that is built into this crate.
    pub fn read() -> AugustusPaper {
        toml::from_str(include_str!("../../data/augustus.toml")).expect("a test parses the file")
    }

    /// Returns the first value of a number by its name.
    pub fn value(&self, name: &str) -> f64 {
        self.number[name].values[0]
    }
}

/// What a run measures.
#[derive(Clone, Debug)]
pub struct AugustusOptions {
    /// The selected figures of [`AUGUSTUS_FIGURES`].
    pub figures: Vec<u8>,
    /// Small tables and short measurements, for a run of some seconds.
    pub quick: bool,
    /// Largest FIB, as a power of two; free memory may bound it further.
    pub fib_log2_max: u32,
}

impl AugustusOptions {
    /// Returns the options of a full run.
    pub fn new() -> Self {
        AugustusOptions { figures: AUGUSTUS_FIGURES.to_vec(), quick: false, fib_log2_max: 26 }
    }

    fn shows(&self, figures: &[u8]) -> bool {
        figures.iter().any(|figure| self.figures.contains(figure))
    }

    /// Returns how long a point is measured.
    fn time(&self) -> Duration {
        Duration::from_millis(if self.quick { 150 } else { 3000 })
    }

    /// Returns the pending Interests of all threads together.
    fn pending(&self) -> u64 {
        if self.quick { 1000 } else { 500_000 }
    }

    /// Returns the size of the FIB in figures 6 and 7.
    fn fib_log2(&self) -> u32 {
        (if self.quick { 10 } else { 20 }).min(self.fib_log2_max)
    }

    fn case(&self, host: HostKind, cpus: Vec<usize>, fib_log2: u32) -> Case {
        Case { host, cpus, fib_log2, pending: self.pending(), time: self.time() }
    }
}

impl Default for AugustusOptions {
    fn default() -> Self {
        AugustusOptions::new()
    }
}

/// Repeats the experiments on this machine.
///
/// # Errors
/// [`Failure::Interrupted`] if the user ends the run.
pub fn augustus(options: &AugustusOptions, watch: &Watch<'_>) -> Result<AugustusReport, Failure> {
    let processors = Processors::detect();
    let counters = CacheCounters::find();
    let mut run = Run { options, watch, report: AugustusReport::new(&processors), counters };
    if let Err(reason) = &run.counters {
        let text = format!("Figure 7 and the lower half of figure 8 are left out: {reason}.");
        run.report.left_out.push(text);
    }
    if options.shows(&[6, 7]) {
        run.threads(&processors)?;
    }
    if options.shows(&[8]) {
        run.fib_sizes(&processors)?;
    }
    Ok(run.report)
}

struct Run<'a> {
    options: &'a AugustusOptions,
    watch: &'a Watch<'a>,
    report: AugustusReport,
    counters: Result<CacheCounters, String>,
}

impl Run<'_> {
    fn threads(&mut self, processors: &Processors) -> Result<(), Failure> {
        let allowed = processors.cpus.iter().filter(|cpu| cpu.allowed).count();
        // As many as there are, and once twice as many: the paper's 32 share processors too.
        let mut counts: Vec<usize> = THREADS.into_iter().filter(|n| *n <= 2 * allowed).collect();
        if self.options.quick {
            counts.retain(|threads| *threads <= allowed.min(2));
        }
        let most = counts.last().copied().unwrap_or(1);
        if most < THREADS[THREADS.len() - 1] {
            self.report.left_out.push(format!(
                "Figures 6 and 7 end at {most} threads: this machine has {allowed} processors for \
                 this program, the paper's had 32."
            ));
        }
        for placement in Placement::ALL {
            if let Err(reason) = placement.exists(processors) {
                self.report.left_out.push(format!("{}: {reason}.", placement.as_str()));
                continue;
            }
            for threads in counts.iter().copied() {
                let Some(cpus) = placement.cpus(processors, threads) else { continue };
                for host in HostKind::ALL {
                    let fib_log2 = self.options.fib_log2();
                    let case = self.options.case(host, cpus.clone(), fib_log2);
                    self.point(6, placement, &case)?;
                }
            }
        }
        Ok(())
    }

    fn fib_sizes(&mut self, processors: &Processors) -> Result<(), Failure> {
        let (placement, cores) = Placement::widest(processors);
        let sizes: &[u32] = if self.options.quick { &FIB_LOG2_QUICK } else { &FIB_LOG2 };
        for threads in if cores > 1 { vec![1, cores] } else { vec![1] } {
            let Some(cpus) = placement.cpus(processors, threads) else { continue };
            let largest = memory::fib_log2_max(threads, self.options.pending());
            let bound = largest.min(self.options.fib_log2_max);
            for fib_log2 in sizes.iter().copied().filter(|size| *size <= bound) {
                for host in HostKind::ALL {
                    let case = self.options.case(host, cpus.clone(), fib_log2);
                    self.point(8, placement, &case)?;
                }
            }
            if largest < FIB_LOG2[FIB_LOG2.len() - 1] {
                self.report.left_out.push(format!(
                    "Figure 8 with {threads} thread(s) ends at 2^{bound} prefixes: {} MiB of \
                     memory are free, and each thread has a FIB of its own here.",
                    memory::available_mib()
                ));
            }
        }
        Ok(())
    }

    fn point(&mut self, figure: u8, placement: Placement, case: &Case) -> Result<(), Failure> {
        let threads = case.cpus.len();
        (self.watch.progress)(&format!(
            "{}, {threads} thread(s), {}, FIB of 2^{}",
            case.host.as_str(),
            placement.as_str(),
            case.fib_log2
        ));
        let counters = self.counters.as_ref().ok();
        let result = measure::measure(case, counters, self.watch.is_interrupted);
        let Some(measured) = result else { return Err(Failure::Interrupted) };
        let cores = placement::cores(&Processors::detect(), &case.cpus);
        self.report.points.push(AugustusPoint {
            figure,
            host: case.host,
            placement,
            threads,
            cores,
            fib_log2: case.fib_log2,
            data_per_s: measured.data_per_s,
            ns_per_packet: measured.ns_per_packet,
            processor_share: measured.processor_share,
            cache_miss_ratio: measured.cache_miss_ratio,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
