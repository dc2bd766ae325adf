//! `nw lab chain`: two routers with one link between them.

use super::args::{Chain as Arguments, LinkBy};
use super::read_commands;
use crate::output::json_line;
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use nw_testbed::{Chain, ChainPlan, ChainTransport, RouterProgram};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs `nw lab chain`.
pub fn chain(args: &Arguments) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    let mut plan =
        ChainPlan::new(std::env::current_exe().context("can't find this program's own file")?);
    plan.rate_mbit = args.rate;
    plan.delay_ms = args.delay;
    plan.queue_bytes = args.queue;
    plan.transport = match args.by {
        LinkBy::Udp => ChainTransport::Udp,
        LinkBy::Tcp => ChainTransport::Tcp,
    };
    if let Some((program, arguments)) = args.router.split_first() {
        plan.router =
            RouterProgram::Other { program: PathBuf::from(program), arguments: arguments.to_vec() };
    }
    let mut chain = Chain::build(&plan)?;
    if let Some(prefix) = &args.serve {
        chain.serve(prefix, args.payload as usize)?;
    }
    if args.json {
        let (near, far) = (chain.near().uri().to_string(), chain.far().uri().to_string());
        json_line(&json!({ "event": "ready", "near": near, "far": far, "link": chain.far_uri() }))?;
    } else {
        out!("{}", chain.diagram())?;
        outln!(
            "\n`rate MBIT`, `down` and `up` change the link; `end` or Ctrl-C removes everything"
        )?;
    }
    read_commands(&stop_flag, |line| execute(&mut chain, line))?;
    Ok(ExitCode::SUCCESS)
}

/// Executes one command. Returns false if the testbed is to end.
fn execute(chain: &mut Chain, line: &str) -> Result<bool> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let result = match words[..] {
        [] => return Ok(true),
        ["end"] => return Ok(false),
        ["down"] => chain.set_up(false),
        ["up"] => chain.set_up(true),
        ["rate", rate] if rate.parse::<f64>().is_ok() => {
            chain.set_rate(rate.parse().expect("parsed above"))
        }
        _ => {
            note!("{line:?} is not a command: use rate MBIT, down, up or end");
            return Ok(true);
        }
    };
    match result {
        Ok(()) => outln!("{line}: done")?,
        Err(error) => note!("{error}"),
    }
    Ok(true)
}
