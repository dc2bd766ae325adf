//! `nw lab`: testbeds of network namespaces on this machine.

mod args;
mod chain;
mod console;
mod network;

pub use args::LabCommand;

use crate::args::run::PAGE_ADDRESS;
use crate::output::json_line;
use crate::recorder::ClusterRecorder;
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use args::{By, Cluster as Arguments};
use nw_api::config::Page;
use nw_api::config::file::{TEXT_MAX, read_text};
use nw_name::Name;
use nw_rest_api::Server;
use nw_testbed::{Cluster, Plan, RouterProgram, Transport, clean};
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval at which Ctrl-C is checked.
const STEP: Duration = Duration::from_millis(100);

/// Runs `nw lab …`.
pub fn lab(action: &LabCommand) -> Result<ExitCode> {
    match action {
        LabCommand::Cluster(args) => cluster(args),
        LabCommand::Chain(args) => chain::chain(args),
        LabCommand::Run(args) => network::run(args),
        LabCommand::Clean { json } => {
            let cleaned = clean()?;
            if *json {
                json_line(
                    &serde_json::json!({ "removed": cleaned.removed, "in_use": cleaned.in_use }),
                )?;
                return Ok(ExitCode::SUCCESS);
            }
            let list = |names: &[String]| {
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            };
            outln!("removed: {}", list(&cleaned.removed))?;
            if !cleaned.in_use.is_empty() {
                outln!("in use, not removed: {}", list(&cleaned.in_use))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn cluster(args: &Arguments) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    let mut cluster = Cluster::build(&plan(args)?)?;
    if args.json {
        json_line(&cluster.description())?;
    } else {
        out!("{}", cluster.diagram())?;
        outln!(
            "\n`help` lists the commands that can be typed here; Ctrl-C or `end` removes everything"
        )?;
    }
    let mut recorder = recorder(args, &cluster)?;
    let _page = match (args.page, &recorder) {
        (Some(address), Some(recorder)) => Some(serve_page(address, recorder)?),
        _ => None,
    };
    read_commands(&stop_flag, |line| console::execute(&mut cluster, line, args.json))?;
    if let (Some(recorder), Some(path)) = (&mut recorder, &args.record) {
        recorder.end();
        crate::recorder::write(path, &recorder.recorder().read(0))?;
        note!("recorded: nw open {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Records the cluster if a page or a file is wanted.
fn recorder(args: &Arguments, cluster: &Cluster) -> Result<Option<ClusterRecorder>> {
    if args.page.is_none() && args.record.is_none() {
        return Ok(None);
    }
    let Some(balancer) = cluster.balancers().first() else {
        bail!("a cluster without a balancer has nothing to record: leave out --page and --record")
    };
    ClusterRecorder::start(balancer.control().to_owned(), "nw lab cluster").map(Some)
}

fn serve_page(address: SocketAddr, recorder: &ClusterRecorder) -> Result<Server> {
    if !address.ip().is_loopback() {
        bail!("--page {address}: give an address of this machine, such as {PAGE_ADDRESS}");
    }
    let page = Page { listen: vec![address], ..Page::default() };
    let (server, access) = nw_rest_api::serve_recording(recorder.recorder(), &page)?;
    note!("the cluster in a browser: {}", crate::recorder::ticket(&access)?.url);
    Ok(server)
}

/// Passes lines of standard input to `execute` until it returns false or a signal arrives.
fn read_commands(
    stop_flag: &StopFlag,
    mut execute: impl FnMut(&str) -> Result<bool>,
) -> Result<()> {
    // Standard input is read in a thread of its own, as reading can't be interrupted.
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut is_input_open = true;
    while !stop_flag.is_set() {
        if !is_input_open {
            // Standard input is closed: keep the testbed until a signal arrives.
            std::thread::sleep(STEP);
            continue;
        }
        match lines.recv_timeout(STEP) {
            Ok(line) => {
                if !execute(&line)? {
                    break;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_input_open = false,
        }
    }
    Ok(())
}

fn plan(args: &Arguments) -> Result<Plan> {
    let mut plan =
        Plan::new(std::env::current_exe().context("can't find this program's own file")?);
    plan.consumers = args.consumers;
    plan.members = args.members;
    plan.producers = args.producers;
    plan.balancers = args.balancers;
    plan.transport = match args.by {
        By::Udp4 => Transport::Udp4,
        By::Udp6 => Transport::Udp6,
        By::Ethernet => Transport::Ethernet,
    };
    plan.ipv6 = args.ipv6;
    plan.member_vlan = args.vlan;
    plan.end_rate_mbit = args.end_rate;
    plan.member_rates_mbit = args.rate.iter().copied().map(Some).collect();
    plan.member_share = args.cpu_share;
    plan.mark_face_ended = args.mark_face_ended;
    plan.cache_packets = args.caching.unwrap_or(0);
    plan.consumer_routers = args.consumer_routers;
    plan.weights = args.weights.clone();
    plan.depth_rules = args.depth.iter().map(|text| depth(text)).collect::<Result<_>>()?;
    if let Some((program, arguments)) = args.router.split_first() {
        plan.router =
            RouterProgram::Other { program: PathBuf::from(program), arguments: arguments.to_vec() };
    }
    plan.router_for = args.router_for.clone();
    for (path, text) in [
        (&args.balancer_config, &mut plan.balancer_config),
        (&args.member_config, &mut plan.member_config),
    ] {
        if let Some(path) = path {
            *text = read_text(path, TEXT_MAX)?;
        }
    }
    Ok(plan)
}

fn depth(text: &str) -> Result<(Name, u32)> {
    let Some((prefix, depth)) = text.rsplit_once('=') else {
        bail!("--depth {text}: give a prefix and a number of components, such as /video=2")
    };
    let prefix = prefix.parse().with_context(|| format!("--depth {text}"))?;
    Ok((
        prefix,
        depth.parse().with_context(|| format!("--depth {text}: {depth:?} is not a number"))?,
    ))
}
