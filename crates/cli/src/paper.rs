//! `nw paper`: repeats experiments of published papers in a testbed or in the simulator.

use crate::output::json_line;
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use nw_experiments::{
    BulkReport, Csr, FIGURES, Options, Paper, Report, SimulatedChain, Watch, bulk_page, page, run,
    simulate, through_chain,
};
use nw_testbed::{ChainPlan, ChainTransport, RouterProgram};
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
    /// Repeat the experiment of "Bulk of Interest": parallel downloads over one link
    ///
    /// 2, 10 and 100 files a second, in the simulator, also at 10 Gbit/s and over 20 hops, and with
    /// --lab through real routers in network namespaces (needs root). Draws figure 1 for each run
    /// beside the paper's numbers: bulk.html and bulk.json in the output folder.
    Bulk(BulkArguments),
}

#[derive(Debug, Args)]
pub struct BulkArguments {
    /// Files per second, separated by commas
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_values_t = [2.0, 10.0, 100.0],
        value_parser = files_per_s
    )]
    pub files_per_s: Vec<f64>,
    /// Also run it through this router, in a chain of network namespaces
    #[arg(long)]
    pub lab: bool,
    /// Also run it through NDNd: the path of its program
    #[arg(long, value_name = "PROGRAM", requires = "lab")]
    pub ndnd: Option<PathBuf>,
    /// Program and arguments of one more router, as at `nw lab chain`
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 1..,
        allow_hyphen_values = true,
        requires = "lab"
    )]
    pub router: Vec<String>,
    /// Rate of the link in the laboratory, Mbit/s
    #[arg(long, default_value_t = 100.0, value_name = "MBIT")]
    pub rate: f64,
    /// Only the paper's link in the simulator
    #[arg(long)]
    pub quick: bool,
    /// Folder for the report; created if missing
    #[arg(long, short, default_value = "paper-bulk", value_name = "FOLDER")]
    pub output: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

fn files_per_s(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.1..=1000.0).contains(rate));
    rate.ok_or_else(|| "give a number of files per second from 0.1 to 1000".into())
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
    match action {
        PaperCommand::Csr(args) => csr(args),
        PaperCommand::Bulk(args) => bulk(args),
    }
}

fn bulk(args: &BulkArguments) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    fs::create_dir_all(&args.output)
        .with_context(|| format!("can't create {}", args.output.display()))?;
    let started = Instant::now();
    let report_progress = |text: &str| note!("{:>4} s  {text}", started.elapsed().as_secs());
    let watch = Watch { is_interrupted: &|| stop_flag.is_set(), progress: &report_progress };
    let mut report = BulkReport::default();
    for chain in simulated_chains(args) {
        if stop_flag.is_set() {
            bail!("interrupted; nothing was written");
        }
        report_progress(&format!(
            "simulator: {} files a second, {} Mbit/s, {} hops",
            chain.files_per_s, chain.rate_mbit, chain.hops
        ));
        report.runs.push(simulate(chain).map_err(anyhow::Error::msg)?);
    }
    if args.lab {
        for (name, plan) in laboratory_plans(args)? {
            for files_per_s in &args.files_per_s {
                report.runs.push(through_chain(&plan, &name, *files_per_s, &watch)?);
            }
        }
    } else {
        report.left_out.push(
            "Real routers were not run: --lab does that, with the rights of root.".to_owned(),
        );
    }
    for (name, text) in [
        ("bulk.html", bulk_page(&report, &Paper::read())),
        ("bulk.json", serde_json::to_string_pretty(&report)?),
    ] {
        let path = args.output.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    if args.json {
        json_line(&report)?;
    } else {
        for run in &report.runs {
            let mark = if BulkReport::holds(run) { "holds" } else { "misses the bounds" };
            outln!("{} ({mark})\n", run.describe())?;
        }
        outln!("{}", args.output.join("bulk.html").display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the chains to simulate: the paper's at each load, and its largest load at 100 times the
/// rate and over 20 hops.
fn simulated_chains(args: &BulkArguments) -> Vec<SimulatedChain> {
    let mut chains: Vec<_> = args.files_per_s.iter().copied().map(SimulatedChain::paper).collect();
    if !args.quick {
        let largest = args.files_per_s.iter().copied().fold(0.1, f64::max);
        let paper = SimulatedChain::paper(largest);
        chains.push(SimulatedChain { rate_mbit: 10_000.0, size: 20, ..paper });
        chains.push(SimulatedChain { hops: 20, delay_ms: 1.0, ..paper });
    }
    chains
}

/// Returns the routers to run in namespaces, with their names.
fn laboratory_plans(args: &BulkArguments) -> Result<Vec<(String, ChainPlan)>> {
    let nw = std::env::current_exe().context("can't find this program's own file")?;
    let own = ChainPlan { rate_mbit: args.rate, ..ChainPlan::new(nw) };
    own.check()?;
    let udp = ChainPlan { transport: ChainTransport::Udp, ..own.clone() };
    let mut plans = vec![("nw, TCP".to_owned(), own), ("nw, UDP".to_owned(), udp.clone())];
    if let Some(program) = &args.ndnd {
        let router = RouterProgram::ndnd(program);
        plans.push(("NDNd, UDP".to_owned(), ChainPlan { router, ..udp.clone() }));
    }
    if let Some((program, arguments)) = args.router.split_first() {
        let router =
            RouterProgram::Other { program: PathBuf::from(program), arguments: arguments.to_vec() };
        plans.push((program.clone(), ChainPlan { router, ..udp }));
    }
    Ok(plans)
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
