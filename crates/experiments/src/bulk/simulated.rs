//! The experiment in the simulator: the router's own plane, link service and the window of
//! `nw cat`, in virtual time. The same numbers on every machine.

use super::{PAYLOAD, paper_plan};
use nw_sim::applications::AppCounters;
use nw_sim::{Overrides, Scenario, Simulation};
use nw_traffic::bulk::{BulkFile, BulkPlan, BulkResult, BulkSample, Link};
use std::fmt::Write;

/// Begin of the names of runs in the simulator.
pub(super) const SIMULATOR: &str = "simulator";
/// Samples of a run.
const SAMPLES: u64 = 200;
/// Bytes of a Data on a simulated link, beside its content.
const HEADERS: f64 = 77.0;

/// A simulated chain of routers with equal links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedChain {
    /// Files started per second.
    pub files_per_s: f64,
    /// Rate of each link, Mbit/s.
    pub rate_mbit: f64,
    /// Delay of each link, milliseconds.
    pub delay_ms: f64,
    /// Number of links.
    pub hops: u32,
    /// Size of a file relative to the paper's: 100 for a link that is 100 times faster.
    pub size: u64,
}

impl SimulatedChain {
    /// The paper's link with a round trip of 20 ms.
    pub const fn paper(files_per_s: f64) -> Self {
        SimulatedChain { files_per_s, rate_mbit: 100.0, delay_ms: 10.0, hops: 1, size: 1 }
    }

    /// Returns the chains beside the paper's: a link of 100 times the rate, with files as much
    /// larger, and 20 hops.
    pub const fn others(files_per_s: f64) -> [Self; 2] {
        let paper = Self::paper(files_per_s);
        [
            SimulatedChain { rate_mbit: 10_000.0, size: 100, ..paper },
            SimulatedChain { hops: 20, delay_ms: 1.0, ..paper },
        ]
    }

    fn plan(&self) -> BulkPlan {
        let plan = paper_plan(self.files_per_s);
        let bdp = self.rate_mbit * 1e3 * self.rtt_ms() / 8.0 / (PAYLOAD as f64 + HEADERS);
        BulkPlan {
            file_bytes: plan.file_bytes * self.size,
            window_max: (4.0 * bdp).clamp(256.0, 65_536.0) as usize,
            ..plan
        }
    }

    fn rtt_ms(&self) -> f64 {
        2.0 * self.delay_ms * f64::from(self.hops)
    }

    fn scenario(&self, plan: &BulkPlan, seconds: f64) -> String {
        // A queue of 80 ms, as large for all files together as a switch of this rate has.
        let queue_kib = (self.rate_mbit * 1e6 / 8.0 * 0.08 / 1024.0).max(256.0) as u64;
        let mut text = format!(
            "[run]\nduration_s = {seconds}\nsamples = 10\n[topology]\ngenerate = \"line:{}\"\n\
             [links]\ndelay_ms = {}\nrate_mbps = {}\nqueue_packets = 1000000\n\
             queue_kib = {queue_kib}\n[routers]\nstore_packets = 0\npit_entries = 262144\n",
            self.hops + 1,
            self.delay_ms,
            self.rate_mbit
        );
        for file in 0..plan.files() {
            let _ = write!(
                text,
                "[[producer]]\nat = [\"n{}\"]\nprefix = \"/bulk/{file}\"\npayload = {PAYLOAD}\n\
                 segments = {}\n[[consumer]]\nkind = \"bulk\"\nat = [\"n0\"]\n\
                 prefix = \"/bulk/{file}\"\nstart_s = {:.6}\nlifetime_ms = {}\nwindow = {}\n",
                self.hops,
                plan.segments(),
                file as f64 / plan.files_per_s,
                plan.lifetime_ms,
                plan.window_max
            );
        }
        text
    }
}

/// Runs a chain in virtual time. Ends when every file is complete, or at three times the time that
/// the link takes for them.
///
/// # Errors
/// Returns a sentence if the simulator refuses the chain.
pub fn simulate(chain: SimulatedChain) -> Result<BulkResult, String> {
    let plan = chain.plan();
    plan.check().map_err(|error| error.to_string())?;
    let segment_bytes = PAYLOAD as f64 + HEADERS;
    let link_s =
        plan.files() as f64 * plan.segments() as f64 * segment_bytes * 8.0 / chain.rate_mbit / 1e6;
    let seconds = 3.0 * link_s.max(plan.seconds) + 1.0;
    let text = chain.scenario(&plan, seconds);
    let run = Scenario::parse("bulk", &text, None, &Overrides::default())
        .map_err(|mistakes| mistakes.to_string())?;
    let mut simulation = Simulation::new(run).map_err(|error| error.to_string())?;
    let step_s = link_s.max(plan.seconds) / SAMPLES as f64;
    let (mut samples, mut before) = (Vec::new(), Totals::default());
    let mut at_s = 0.0;
    while at_s < seconds {
        at_s += step_s;
        simulation.run_until((at_s * 1e9) as u64).map_err(|error| error.to_string())?;
        let now = Totals::of(&simulation);
        samples.push(before.sample(now, at_s, step_s));
        before = now;
        if now.active == 0 {
            break;
        }
    }
    let link = Link { rate_mbit: chain.rate_mbit, rtt_ms: chain.rtt_ms(), segment_bytes };
    let name = format!(
        "{SIMULATOR}, {} Mbit/s, {} ms, {} hop{}",
        chain.rate_mbit,
        chain.rtt_ms(),
        chain.hops,
        if chain.hops == 1 { "" } else { "s" }
    );
    Ok(BulkResult::new(name, &plan, Some(link), files(&plan, &simulation), samples))
}

/// Sums over the consumers and the last link's direction to them.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    satisfied: u64,
    sent: u64,
    pending: u64,
    nacks: u64,
    marks: u64,
    link_bytes: u64,
    /// Files that are neither complete nor given up.
    active: u64,
}

impl Totals {
    fn of(simulation: &Simulation) -> Self {
        let mut totals = Totals::default();
        for consumer in simulation.consumer_counters() {
            totals.satisfied += consumer.satisfied;
            totals.sent += consumer.sent;
            totals.pending += consumer.pending;
            totals.nacks += consumer.nacks;
            totals.marks += consumer.marks;
            totals.active += u64::from(consumer.done_ns.is_none() && consumer.failed.is_none());
        }
        // The second direction of the first link leads to the consumers' router.
        totals.link_bytes = simulation.link_counters(1).map_or(0, |link| link.delivered_bytes);
        totals
    }

    /// Interests that ended without Data, so that they were sent again.
    fn again(&self) -> u64 {
        self.sent.saturating_sub(self.satisfied + self.pending)
    }

    fn sample(&self, now: Totals, at_s: f64, step_s: f64) -> BulkSample {
        let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / step_s;
        BulkSample {
            at_s,
            goodput_mbit: per_s(now.satisfied, self.satisfied) * PAYLOAD as f64 * 8.0 / 1e6,
            link_mbit: Some(per_s(now.link_bytes, self.link_bytes) * 8.0 / 1e6),
            pending: Some(now.pending),
            outstanding: now.pending,
            retransmissions_per_s: per_s(now.again(), self.again()),
            nacks_per_s: per_s(now.nacks, self.nacks),
            marks_per_s: per_s(now.marks, self.marks),
        }
    }
}

fn files(plan: &BulkPlan, simulation: &Simulation) -> Vec<BulkFile> {
    let file = |(number, counters): (usize, &AppCounters)| {
        let start_s = number as f64 / plan.files_per_s;
        BulkFile {
            file: number as u64,
            start_s,
            stop_s: counters.done_ns.map(|done_ns| start_s + done_ns as f64 / 1e9),
            interests: counters.sent,
            retransmissions: counters.sent.saturating_sub(counters.satisfied + counters.pending),
            nacks: counters.nacks,
            marks: counters.marks,
            error: counters.failed.clone(),
        }
    };
    simulation.consumer_counters().enumerate().map(file).collect()
}
