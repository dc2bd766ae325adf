//! `nw graph run`: a graph as a program, with signals and status.

use super::load;
use crate::logs::Levels;
use crate::output;
use crate::output::{describe, stdout};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use nw_api::config::LogFormat;
use nw_api::counters::dropped_and_done;
use nw_graph::ChangeMode;
use nw_graph::host::{Handle, Host, Report};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct Run {
    /// Graph file
    pub file: PathBuf,
    /// How packets are handled while SIGHUP changes the graph
    #[arg(long, value_enum, default_value_t = ChangeOrderArg::MakeBeforeBreak)]
    pub order: ChangeOrderArg,
    /// Interval of status lines, seconds; counters are always printed at the end
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Print status as JSON: all counters of faces, ports and drops
    #[arg(long)]
    pub json: bool,
    /// Log level: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// How packets are handled during a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChangeOrderArg {
    /// Old elements are removed immediately, with their state
    Drop,
    /// Interests are held until old elements have nothing pending
    Buffer,
    /// New elements receive all Interests; old ones stay until nothing is pending
    MakeBeforeBreak,
}

impl From<ChangeOrderArg> for ChangeMode {
    fn from(order: ChangeOrderArg) -> Self {
        match order {
            ChangeOrderArg::Drop => ChangeMode::Drop,
            ChangeOrderArg::Buffer => ChangeMode::Buffer,
            ChangeOrderArg::MakeBeforeBreak => ChangeMode::MakeBeforeBreak,
        }
    }
}

pub fn run(args: &Run) -> Result<ExitCode> {
    let file = load(&args.file)?;
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    // Before sockets are opened: from then on SIGHUP may arrive, which must not end the process.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("can't watch for signals")?;
    let mut host = Host::new(&file.graph)?;
    host.listeners().iter().for_each(|uri| tracing::info!(%uri, "listening"));
    watch_signals(signals, host.handle(), args.file.clone(), args.order.into())?;
    if let Some(seconds) = args.every {
        watch_status(host.handle(), Duration::from_secs(seconds), args.json)?;
    }
    tracing::info!(graph = %args.file.display(), "running");
    host.run()?;
    let report = host.report();
    if args.json {
        output::json_line(&report)?;
    } else {
        print_all(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Handles signals in a thread: SIGTERM and SIGINT end the graph, SIGHUP reloads its file. A file
/// with mistakes changes nothing.
fn watch_signals(
    mut signals: Signals,
    handle: Handle,
    path: PathBuf,
    order: ChangeMode,
) -> Result<()> {
    let watch = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                return handle.stop();
            }
            if let Err(error) = change(&handle, &path, order) {
                tracing::error!("SIGHUP: the graph stays as it was: {}", describe(&error));
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context("can't start a thread")?;
    Ok(())
}

fn change(handle: &Handle, path: &Path, order: ChangeMode) -> Result<()> {
    Ok(handle.change(load(path)?.graph, order)?)
}

/// Prints status lines in a thread, until the graph ends or standard output is closed.
fn watch_status(handle: Handle, every: Duration, json: bool) -> Result<()> {
    let watch = move || {
        loop {
            std::thread::sleep(every);
            let Ok(report) = handle.report() else { return };
            let printed = if json { output::json_line(&report) } else { print_line(&report) };
            if printed.is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("status".into())
        .spawn(watch)
        .context("can't start a thread")?;
    Ok(())
}

fn sums(report: &Report) -> String {
    let kinds = |[interests, data, nacks]: [u64; 3]| {
        format!("{interests} Interests, {data} Data, {nacks} Nacks")
    };
    let (dropped, done) =
        dropped_and_done(report.drops.iter().map(|(reason, count)| (reason.as_str(), *count)));
    let (faces, received, sent) = (report.faces.len(), kinds(report.received), kinds(report.sent));
    format!(
        "{faces} faces; received {received}; sent {sent}; {done} had done their work, \
         {dropped} dropped"
    )
}

fn print_line(report: &Report) -> Result<()> {
    outln!("{:.0} s: {}", report.uptime_s, sums(report))?;
    Ok(stdout().flush()?)
}

fn print_all(report: &Report) -> Result<()> {
    let mut rows = vec![output::row([&"element", &"side", &"port", &"packets"])];
    rows.extend(
        report
            .ports
            .iter()
            .map(|port| output::row([&port.node, &port.side, &port.port, &port.packets])),
    );
    output::table(&rows)?;
    if !report.drops.is_empty() {
        let mut rows = vec![output::row([&"dropped", &"packets"])];
        rows.extend(report.drops.iter().map(|(reason, count)| output::row([reason, count])));
        outln!()?;
        output::table(&rows)?;
    }
    Ok(())
}
