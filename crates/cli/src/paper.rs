//! `nw paper`: experiments of papers, repeated in the laboratory.

use crate::output::json_line;
use crate::signals::Ended;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use nw_experiments::{Csr, FIGURES, Options, Report, Watch, page, run};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, Subcommand)]
pub enum PaperVerb {
    /// Repeat the experiments of "A Cluster-based Scalable Router for Information Centric Networks"
    ///
    /// Builds laboratories of network namespaces one after the other, and draws each figure beside what the paper found: csr.html and csr.json
    /// in the output folder. Needs the rights of root. Takes some ten minutes, with --quick about two. Ctrl-C removes everything.
    Csr(CsrArguments),
}

#[derive(Debug, Args)]
pub struct CsrArguments {
    /// Only these figures of the paper, separated by commas
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(6..=14))]
    pub figures: Vec<u8>,
    /// Short downloads and fewer points
    #[arg(long)]
    pub quick: bool,
    /// Folder for the report, made if there is none
    #[arg(long, short, default_value = "paper-csr", value_name = "FOLDER")]
    pub output: PathBuf,
    /// Share of one processor that each member gets; smaller where the machine is too busy for the members to be what limits
    #[arg(long, default_value_t = Options::SHARE, value_name = "SHARE", value_parser = share)]
    pub cpu_share: f64,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.01..=1.0).contains(share));
    share.ok_or_else(|| "write a share of one processor from 0.01 to 1".into())
}

/// Does what `verb` says.
pub fn paper(verb: &PaperVerb) -> Result<ExitCode> {
    let PaperVerb::Csr(args) = verb;
    csr(args)
}

fn csr(args: &CsrArguments) -> Result<ExitCode> {
    let ended = Ended::watch()?;
    // A folder that can't be made is better known before than after.
    fs::create_dir_all(&args.output).with_context(|| format!("can't make {}", args.output.display()))?;
    let nw = std::env::current_exe().context("can't find this program's own file")?;
    let mut options = Options { quick: args.quick, share: args.cpu_share, ..Options::new(nw) };
    if !args.figures.is_empty() {
        options.figures = FIGURES.into_iter().filter(|figure| args.figures.contains(figure)).collect();
    }
    let started = Instant::now();
    let said = |what: &str| note!("{:>4} s  {what}", started.elapsed().as_secs());
    let watch = Watch { ended: &|| ended.is_ended(), said: &said };
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
    // As tests do: a figure that disagrees, or conditions under which it says nothing, are no success.
    Ok(if report.is_proof() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(args: &CsrArguments, report: &Report) -> Result<()> {
    let files =
        [("csr.html", page(report, &Csr::read())), ("csr.json", serde_json::to_string_pretty(report)?)];
    for (name, text) in files {
        let path = args.output.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}
