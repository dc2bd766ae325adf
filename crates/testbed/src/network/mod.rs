//! The network of a simulator's scenario, with router processes in real time.
//!
//! ```text
//!  namespace of paris               this process                       namespace of london
//!  nw run ◀─UDP─▶ 127.0.0.1:20000 ═ Direction: delay, rate, queue, loss ═ 127.0.0.1:20000 ◀─UDP─▶ nw run
//!    ▲ unix                          ▲ one loop, one event queue
//!  application (of nw-sim) ──────────┘
//! ```
//!
//! A link is two sockets, one in the namespace of each end, and the simulator's model between them,
//! so both hosts drop, delay and count alike, and no queueing discipline of the kernel is needed.
//! Applications are the simulator's too: they connect to their router like any client. Everything
//! is removed when [`run_network`] returns.

mod controller;
mod counters;
mod live;
mod marks;
mod sockets;

use crate::cleanup::{LabLock, needs_root};
use crate::error::LabError;
use crate::node::Node;
use crate::plan::Addresses;
use controller::{Controller, NodeStart};
use counters::CounterThread;
use live::Live;
use nw_api::recording::Recording;
use nw_sim::recording::RecordingBuilder;
use nw_sim::{Outcome, RunPlan};
use sockets::LinkSockets;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Greatest number of routers: each is a process.
pub const NODES_MAX: usize = 200;
/// Greatest number of links.
pub const LINKS_MAX: usize = 1000;
/// Greatest number of applications.
const APPLICATIONS_MAX: usize = 1000;
/// Greatest rate of a link that the loop can carry, bits per second.
const RATE_MAX_BPS: u64 = 10_000_000_000;
/// Longest run, nanoseconds: one day.
const DURATION_MAX_NS: u64 = 86_400_000_000_000;
/// Longest name of a node in the names of its namespace and socket.
const NAME_LEN_MAX: usize = 32;

/// The result of a run.
#[derive(Debug)]
pub struct NetworkOutcome {
    /// Tables and charts, as of the simulator.
    pub outcome: Outcome,
    /// Why the result may not be trusted, as sentences; empty if all is well.
    pub warnings: Vec<String>,
    /// Greatest delay of a packet beyond that of its link, milliseconds.
    pub lag_max_ms: f64,
    /// Share of packets that links delivered more than 1 ms late.
    pub late_share: f64,
    /// The run for the page, if it was recorded.
    pub recording: Option<Recording>,
}

/// Runs a scenario with router processes. `nw` is the program of the routers. Calls `progress` with
/// the share of the time that has passed, from 0 to 1; ends early when `stop` is set. With a title
/// the run is recorded.
///
/// # Errors
/// Returns an error if the scenario can't run here, a router fails, or `stop` is set. Nothing is
/// left behind.
pub fn run_network(
    nw: &Path,
    plan: &RunPlan,
    title: Option<&str>,
    stop: &Arc<AtomicBool>,
    progress: impl FnMut(f64),
) -> Result<NetworkOutcome, LabError> {
    check(plan)?;
    needs_root()?;
    let lock = LabLock::new()?;
    let mut nodes = Vec::with_capacity(plan.topology.nodes.len());
    for (index, node) in plan.topology.nodes.iter().enumerate() {
        check_stop(stop)?;
        let v4 = Ipv4Addr::LOCALHOST;
        let addresses = Addresses { v4, v6: v4.to_ipv6_mapped() };
        let name = file_name(&node.name, index);
        nodes.push(Node::unconnected(&lock.name, &lock.directory, &name, addresses)?);
    }
    let graph = plan.routing_graph();
    let sockets = LinkSockets::open(plan, &graph, &nodes)?;
    let starts = NodeStart::all(nw, plan, &graph, nodes);
    let controller = Controller::start(starts, stop)?;
    let counters = CounterThread::start(controller.uris(), plan);
    let mut live = Live::new(plan.clone(), graph, sockets, controller)?;
    let mut recording = title.map(|title| RecordingBuilder::new(plan, title));
    live.run(stop, &counters, recording.as_mut(), progress)?;
    let totals = counters.finish();
    let outcome = live.finish(totals)?;
    Ok(NetworkOutcome { recording: recording.map(RecordingBuilder::finish), ..outcome })
}

/// Returns an error that says what a laboratory can't do of a plan.
fn check(plan: &RunPlan) -> Result<(), LabError> {
    let counts = [
        ("routers", plan.topology.nodes.len(), NODES_MAX),
        ("links", plan.topology.links.len(), LINKS_MAX),
        ("applications", plan.producers.len() + plan.consumers.len(), APPLICATIONS_MAX),
    ];
    for (what, count, max) in counts {
        if count > max {
            return Err(LabError::Plan(format!(
                "{count} {what} are too many for real processes (at most {max}): simulate them with nw sim run"
            )));
        }
    }
    if let Some(link) = plan.links.iter().position(|link| link.rate_bps > RATE_MAX_BPS) {
        return Err(LabError::Plan(format!(
            "the link {} of {} Mbit/s is impossible here: give at most {} Mbit/s, or 0 for no limit",
            plan.topology.link_name(link),
            plan.links[link].rate_bps as f64 / 1e6,
            RATE_MAX_BPS / 1_000_000
        )));
    }
    if plan.scenario.run.duration_s.0 > DURATION_MAX_NS {
        return Err(LabError::Plan(
            "a run of more than a day in real time: shorten run.duration_s".to_owned(),
        ));
    }
    Ok(())
}

fn check_stop(stop: &AtomicBool) -> Result<(), LabError> {
    if stop.load(Ordering::Relaxed) { Err(LabError::Stopped) } else { Ok(()) }
}

/// Returns the name of a node in the names of files: its own if it is short and plain.
fn file_name(name: &str, index: usize) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match name.len() <= NAME_LEN_MAX && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("node.{index}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_sim::{Overrides, Scenario};

    fn plan(text: &str) -> RunPlan {
        let traffic = "[[producer]]\nprefix = \"/p\"\nat = [\"n0\"]\n[[consumer]]\nkind = \"ping\"\nprefix = \"/p\"\nat = [\"n0\"]\n";
        let text = format!("{text}\n{traffic}");
        Scenario::parse("s.toml", &text, None, &Overrides::default()).expect("a scenario")
    }

    #[test]
    fn plan_beyond_real_processes_is_refused_with_advice() {
        let cases = [
            ("[topology]\ngenerate = \"line:300\"", "300 routers are too many"),
            ("[topology]\ngenerate = \"full:60\"", "1770 links are too many"),
            (
                "[topology]\ngenerate = \"line:2\"\n[links]\nrate_mbps = 20000",
                "the link n0-n1 of 20000 Mbit/s is impossible here: give at most 10000",
            ),
            (
                "[topology]\ngenerate = \"line:2\"\n[run]\nduration_s = 100000",
                "more than a day in real time",
            ),
        ];
        for (text, expected) in cases {
            let error = check(&plan(text)).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(check(&plan("[topology]\ngenerate = \"sprint\"\n[[node]]\nname = \"n0\"")).is_ok());
    }

    #[test]
    fn node_name_that_is_no_file_name_is_replaced() {
        assert_eq!(file_name("New_York", 3), "New_York");
        assert_eq!(file_name("../x", 3), "node.3");
        assert_eq!(file_name(&"x".repeat(200), 4), "node.4");
    }
}
