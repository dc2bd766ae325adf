//! `nw paper`: repeats experiments of published papers in a testbed.

use crate::output::json_line;
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use nw_experiments::{Csr, FIGURES, Options, Report, Watch, page, run};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, Subcommand)]
pub enum PaperCommand {
    /// Repeat the experiments of "A Cluster-based Scalable Router for Information Centric Networks"
    ///
    /// Builds testbeds of network namespaces one after the other, and draws each figure next to the
    /// paper's result: csr.html and csr.json in the output folder. Needs root. Takes about ten
    /// minutes, with --quick about two. Ctrl-C removes everything.
    Csr(CsrArguments),
}

#[derive(Debug, Args)]
pub struct CsrArguments {
    /// Figures of the paper to repeat, separated by commas; default: all
    #[arg(
        long,
        value_name = "NUMBER",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u8).range(6..=14)
    )]
    pub figures: Vec<u8>,
    /// Short downloads and fewer points
    #[arg(long)]
    pub quick: bool,
    /// Folder for the report; created if missing
    #[arg(long, short, default_value = "paper-csr", value_name = "FOLDER")]
    pub output: PathBuf,
    /// CPU share of each member, as a fraction of one processor
    ///
    /// The members must be the bottleneck: use a smaller share on a slow or busy machine.
    #[arg(long, default_value_t = Options::SHARE, value_name = "SHARE", value_parser = share)]
    pub cpu_share: f64,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.01..=1.0).contains(share));
    share.ok_or_else(|| "give a fraction of one processor from 0.01 to 1".into())
}

/// Runs `nw paper …`.
pub fn paper(action: &PaperCommand) -> Result<ExitCode> {
    let PaperCommand::Csr(args) = action;
    csr(args)
}

fn csr(args: &CsrArguments) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    // Created first, so that a mistake in its name is reported before the experiments run.
    fs::create_dir_all(&args.output)
        .with_context(|| format!("can't create {}", args.output.display()))?;
    let nw = std::env::current_exe().context("can't find this program's own file")?;
    let mut options = Options { quick: args.quick, share: args.cpu_share, ..Options::new(nw) };
    if !args.figures.is_empty() {
        options.figures =
            FIGURES.into_iter().filter(|figure| args.figures.contains(figure)).collect();
    }
    let started = Instant::now();
    let report_progress = |text: &str| note!("{:>4} s  {text}", started.elapsed().as_secs());
    let watch = Watch { is_interrupted: &|| stop_flag.is_set(), progress: &report_progress };
    let report = run(&options, &watch)?;
    write(args, &report)?;
    if args.json {
        json_line(&report)?;
    } else {
        for finding in &report.findings {
            outln!("Figure {}. {}\n", finding.figure, finding.sentence())?;
        }
        let html = args.output.join("csr.html");
        outln!(
            "{} of {} figures agree with the paper's: {}",
            report.agreeing(),
            report.findings.len(),
            html.display()
        )?;
        for problem in report.conditions.problems() {
            outln!("{problem}")?;
        }
    }
    // Like a test, it fails if a figure disagrees or if the conditions make the result meaningless.
    Ok(if report.is_conclusive() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(args: &CsrArguments, report: &Report) -> Result<()> {
    let files = [
        ("csr.html", page(report, &Csr::read())),
        ("csr.json", serde_json::to_string_pretty(report)?),
    ];
    for (name, text) in files {
        let path = args.output.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}
