//! `nw lab run`: a scenario of `nw sim` with router processes.

use super::args::Run;
use crate::signals::StopFlag;
use crate::sim::{FinishedRun, plan, quote, report_all, title};
use crate::{progress, recorder};
use anyhow::{Context, Result};
use nw_testbed::run_network;
use std::process::ExitCode;
use std::time::Instant;

/// Runs `nw lab run`.
pub fn run(run: &Run) -> Result<ExitCode> {
    let args = &run.scenario;
    let stop_flag = StopFlag::watch()?;
    let nw = std::env::current_exe().context("can't find this program's own file")?;
    let plan = plan(args, args.seed)?;
    let bar = progress::parts(1000, args.json);
    let start = Instant::now();
    let title = run.record.as_ref().map(|_| title(args));
    let result = run_network(&nw, &plan, title.as_deref(), &stop_flag.flag(), |share| {
        bar.set_position((1000.0 * share) as u64);
    });
    bar.finish_and_clear();
    let network = result?;
    if let (Some(path), Some(recording)) = (&run.record, &network.recording) {
        recorder::write(path, recording)?;
    }
    let result = Ok(network.outcome);
    let code = report_all(
        args,
        "sudo nw lab run",
        &[FinishedRun { plan, result, took: start.elapsed() }],
    )?;
    note!(
        "links delivered {:.2} % of packets more than 1 ms late, the latest by {:.1} ms",
        100.0 * network.late_share,
        network.lag_max_ms
    );
    for warning in &network.warnings {
        note!("warning: {warning}");
    }
    if let Some(path) = &run.record {
        note!("recorded: nw open {}", quote(&path.display().to_string()));
    }
    Ok(code)
}
