//! `nw doctor`: what is wrong with a router and its machine, and the command that mends it. Works without a router.

mod machine;
mod router;

use crate::args::Reading;
use crate::exit::Status;
use crate::output::json_line;
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    pub reading: Reading,
    /// The router's configuration file; the one that `nw run` would read when not given
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// It does not work.
    Fail,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
struct Check {
    check: &'static str,
    result: Verdict,
    /// What was found.
    found: String,
    /// What to do about it: a command, mostly.
    remedy: Option<String>,
}

/// Checks so far.
#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.0.push(Check { check, result: Verdict::Ok, found: found.into(), remedy: None });
    }

    fn warn(&mut self, check: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into());
        self.0.push(Check { check, result: Verdict::Warn, found: found.into(), remedy });
    }

    fn fail(&mut self, check: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        let remedy = Some(remedy.into());
        self.0.push(Check { check, result: Verdict::Fail, found: found.into(), remedy });
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.0.iter().filter(|check| check.result == verdict).count()
    }
}

/// Checks and reports. Status 1 when something does not work.
pub fn doctor(args: &Doctor) -> Result<ExitCode> {
    let mut checks = Checks::default();
    let is_running = router::check(&mut checks, &args.reading.router);
    machine::check(&mut checks, args.config.as_deref(), is_running);
    for check in &checks.0 {
        if args.reading.json {
            json_line(check)?;
            continue;
        }
        let word = match check.result {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        outln!("{word:4}  {:12}  {}", check.check, check.found)?;
        if let Some(remedy) = &check.remedy {
            outln!("{:20}→ {remedy}", "")?;
        }
    }
    let (warnings, failures) = (checks.count(Verdict::Warn), checks.count(Verdict::Fail));
    if !args.reading.json {
        match (failures, warnings) {
            (0, 0) => outln!("\nall is as it should be")?,
            _ => outln!("\n{failures} that do not work, {warnings} that could be better")?,
        }
    }
    Ok(if failures > 0 { Status::Failed } else { Status::Done }.into())
}
