//! `nw doctor`: finds problems of a router and its machine, and prints the command that fixes each.
//! Works without a running router.

mod machine;
mod router;

use crate::args::flags::QueryArgs;
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
    pub query: QueryArgs,
    /// Configuration file of the router; default: the one that `nw run` would read
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// No problem.
    Ok,
    /// It works, with a limitation.
    Warn,
    /// It does not work.
    Fail,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
struct Check {
    check: &'static str,
    result: Verdict,
    /// What was found, as a sentence.
    found: String,
    /// How to fix it: usually a command.
    remedy: Option<String>,
}

/// The results so far.
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

/// Runs all checks and prints the results. The exit status is 1 if one failed.
pub fn doctor(args: &Doctor) -> Result<ExitCode> {
    let mut checks = Checks::default();
    let is_running = router::check(&mut checks, &args.query.router);
    machine::check(&mut checks, args.config.as_deref(), is_running);
    for check in &checks.0 {
        if args.query.json {
            json_line(check)?;
            continue;
        }
        let label = match check.result {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        outln!("{label:4}  {:12}  {}", check.check, check.found)?;
        if let Some(remedy) = &check.remedy {
            outln!("{:20}→ {remedy}", "")?;
        }
    }
    let (warnings, failures) = (checks.count(Verdict::Warn), checks.count(Verdict::Fail));
    if !args.query.json {
        match (failures, warnings) {
            (0, 0) => outln!("\nall is as it should be")?,
            _ => outln!("\n{failures} that do not work, {warnings} that could be better")?,
        }
    }
    Ok(if failures > 0 { Status::Failed } else { Status::Done }.into())
}
