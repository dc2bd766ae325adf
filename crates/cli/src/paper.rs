//! `nw paper`: repeats experiments of published papers in a testbed or in the simulator.

use crate::exit::Status;
use crate::output::json_line;
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use nw_experiments::{
    AUGUSTUS_FIGURES, AugustusOptions, AugustusPaper, BLACKADDER_FIGURES, BlackadderOptions,
    BulkReport, Check, Conditions, Csr, FIGURES, Judged, MundnOptions, MundnReport, Options, Paper,
    Part, SimulatedChain, Verdict, Watch, augustus, augustus_page, blackadder, blackadder_page,
    blackadder_paper, bulk_page, mundn, mundn_page, mundn_paper, page, run, simulate,
    through_chain,
};
use nw_testbed::{ChainPlan, ChainTransport, RouterProgram};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
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
    /// Repeat the experiments of "µNDN": services alone, in a chain, scaled by load, and attacked
    ///
    /// Each network is kept by a manager of its own (`nw network up`) in a folder below /tmp. Draws
    /// tables 3 and 4 and figures 5 and 7 beside the paper's numbers: mundn.html and mundn.json in
    /// the output folder. Quotas need root or a delegated control group. Takes about five minutes,
    /// with --quick half a minute.
    Mundn(MundnArguments),
    /// Repeat the experiments of "Augustus": threads and their placement, and the size of the FIB
    ///
    /// Runs the forwarding plane with packets from memory, standalone and as a graph, and draws
    /// figures 6 to 8 beside the paper's numbers: augustus.html and augustus.json in the output
    /// folder. Says what this machine cannot show. Takes some minutes and up to three quarters of
    /// the free memory, with --quick some seconds. Needs an idle machine, and for cache misses
    /// `perf` and a processor that counts them.
    Augustus(AugustusArguments),
    /// Repeat the experiments of Blackadder's paper: publish/subscribe in a node and along a chain
    ///
    /// Starts nodes, those of figures 5 to 7, 9 and 10 in network namespaces (needs root), and
    /// draws figures 4 to 10 beside the paper's numbers: blackadder.html and blackadder.json in the
    /// output folder. Says what this machine cannot show. Takes some minutes, with --quick some
    /// seconds.
    Blackadder(BlackadderArguments),
}

#[derive(Debug, Args)]
pub struct BlackadderArguments {
    /// Figures of the paper to repeat, separated by commas; default: all
    #[arg(
        long,
        value_name = "NUMBER",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u8).range(4..=10)
    )]
    pub figures: Vec<u8>,
    /// Small networks and short loads
    #[arg(long)]
    pub quick: bool,
    /// Folder for the report; created if missing
    #[arg(long, short, default_value = "paper-blackadder", value_name = "FOLDER")]
    pub output: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct MundnArguments {
    /// Parts of the paper to repeat, separated by commas; default: all
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub parts: Vec<MundnPart>,
    /// Short loads
    #[arg(long)]
    pub quick: bool,
    /// Also run table 3 in containers of this image, which `nw image build` makes
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// Folder for the report; created if missing
    #[arg(long, short, default_value = "paper-mundn", value_name = "FOLDER")]
    pub output: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct AugustusArguments {
    /// Figures of the paper to repeat, separated by commas; default: all
    #[arg(
        long,
        value_name = "NUMBER",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u8).range(6..=8)
    )]
    pub figures: Vec<u8>,
    /// Small tables and short measurements
    #[arg(long)]
    pub quick: bool,
    /// Largest FIB, as a power of two; free memory bounds it further
    #[arg(
        long,
        value_name = "N",
        default_value_t = 26,
        value_parser = clap::value_parser!(u32).range(10..=26)
    )]
    pub fib_log2_max: u32,
    /// Folder for the report; created if missing
    #[arg(long, short, default_value = "paper-augustus", value_name = "FOLDER")]
    pub output: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Parts of the µNDN paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MundnPart {
    /// Throughput of each service
    Table3,
    /// Four services in a chain, and one router
    Table4,
    /// Scaling by load
    Figure5,
    /// Content poisoning
    Figure7,
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
        PaperCommand::Mundn(args) => repeat_mundn(args),
        PaperCommand::Augustus(args) => repeat_augustus(args),
        PaperCommand::Blackadder(args) => repeat_blackadder(args),
    }
}

fn repeat_mundn(args: &MundnArguments) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    fs::create_dir_all(&args.output)
        .with_context(|| format!("can't create {}", args.output.display()))?;
    let started = Instant::now();
    let report_progress = |text: &str| note!("{:>4} s  {text}", started.elapsed().as_secs());
    let watch = Watch { is_interrupted: &|| stop_flag.is_set(), progress: &report_progress };
    let all = [MundnPart::Table3, MundnPart::Table4, MundnPart::Figure5, MundnPart::Figure7];
    let chosen = all.into_iter().filter(|part| args.parts.is_empty() || args.parts.contains(part));
    let options = MundnOptions {
        nw: std::env::current_exe().context("can't find this program's own file")?,
        parts: chosen.map(mundn_part).collect(),
        is_quick: args.quick,
        image: args.image.clone(),
    };
    let report = mundn(&options, &watch)?;
    write_report(&report, mundn_page(&report, &mundn_paper()), &args.output, "mundn")?;
    if !args.json {
        print_mundn(&report)?;
    }
    conclude(&report, args.json, &args.output.join("mundn.html"))
}

/// Prints what a run comes to, and returns its exit status: the same for every paper.
fn conclude<R: Judged + Serialize>(report: &R, json: bool, page: &Path) -> Result<ExitCode> {
    let concluded = Concluded::new(report);
    if json {
        json_line(&concluded)?;
        return Ok(status(concluded.verdict).into());
    }
    let Concluded { checks, problems, verdict, .. } = concluded;
    checks.iter().try_for_each(|check| outln!("{}", check.statement()))?;
    problems.iter().try_for_each(|problem| outln!("{problem}"))?;
    let missed = checks.iter().filter(|check| !check.holds()).count();
    let sentence = match verdict {
        Verdict::Inconclusive => "The conditions did not allow a verdict".to_owned(),
        _ if checks.is_empty() => "No statement was judged".to_owned(),
        Verdict::Holds => format!("All {} statements hold", checks.len()),
        Verdict::DoesNotHold => format!("{missed} of {} statements do not hold", checks.len()),
    };
    outln!("{sentence}: {}", page.display())?;
    Ok(status(verdict).into())
}

const fn status(verdict: Verdict) -> Status {
    match verdict {
        Verdict::Holds => Status::Done,
        Verdict::DoesNotHold => Status::Failed,
        Verdict::Inconclusive => Status::Inconclusive,
    }
}

/// A report with its statements and its verdict, as JSON.
#[derive(Serialize)]
struct Concluded<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    checks: Vec<Check>,
    problems: Vec<String>,
    verdict: Verdict,
}

impl<'a, R: Judged> Concluded<'a, R> {
    fn new(report: &'a R) -> Self {
        let (checks, problems, verdict) = (report.checks(), report.problems(), report.verdict());
        Concluded { report, checks, problems, verdict }
    }
}

/// Writes the page and the JSON of a report.
fn write_report<R: Judged + Serialize>(
    report: &R,
    page: String,
    folder: &Path,
    name: &str,
) -> Result<()> {
    let concluded = Concluded::new(report);
    for (kind, text) in [("html", page), ("json", serde_json::to_string_pretty(&concluded)?)] {
        let path = folder.join(format!("{name}.{kind}"));
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

const fn mundn_part(part: MundnPart) -> Part {
    match part {
        MundnPart::Table3 => Part::Table3,
        MundnPart::Table4 => Part::Table4,
        MundnPart::Figure5 => Part::Figure5,
        MundnPart::Figure7 => Part::Figure7,
    }
}

fn print_mundn(report: &MundnReport) -> Result<()> {
    for result in &report.processes {
        outln!("{}: {:.0} Mbit/s, {:.2} µs", result.row, result.mbit, result.cpu_us)?;
    }
    for (name, result) in [("chain", &report.chain), ("router", &report.router)] {
        if let Some(result) = result {
            outln!("{name}: {:.0} Mbit/s, {:.3} ms", result.mbit, result.latency_ms)?;
        }
    }
    if let Some(scaling) = &report.scaling {
        outln!(
            "scaling: {:.0} to {:.0} Mbit/s, clone after {:.1} s, {} lost, {} twice",
            scaling.mbit_one,
            scaling.mbit_two,
            scaling.seconds_to_carry,
            scaling.lost,
            scaling.duplicates
        )?;
    }
    if let Some(poisoning) = &report.poisoning {
        outln!(
            "poisoning: found in {:.1} periods, hit ratio back {:.1} s after the verifier, then {} fakes",
            poisoning.periods_to_detect(),
            poisoning.seconds_to_recover(),
            poisoning.fakes_after()
        )?;
    }
    Ok(report.left_out.iter().try_for_each(|text| outln!("{text}"))?)
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
        report.conditions = Some(Conditions::observe()?);
        for (name, plan) in laboratory_plans(args)? {
            let is_own = matches!(plan.router, RouterProgram::Namewire(_));
            for files_per_s in &args.files_per_s {
                let run = through_chain(&plan, &name, *files_per_s, &watch)?;
                if is_own { &mut report.runs } else { &mut report.references }.push(run);
            }
        }
    } else {
        report.left_out.push(
            "Real routers were not run: --lab does that, with the rights of root.".to_owned(),
        );
    }
    write_report(&report, bulk_page(&report, &Paper::read()), &args.output, "bulk")?;
    if !args.json {
        report.all().try_for_each(|run| outln!("{}\n", run.describe()))?;
        report.left_out.iter().try_for_each(|text| outln!("{text}"))?;
    }
    conclude(&report, args.json, &args.output.join("bulk.html"))
}

fn repeat_augustus(args: &AugustusArguments) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    // Created first, so that a mistake in its name is reported before the experiments run.
    fs::create_dir_all(&args.output)
        .with_context(|| format!("can't create {}", args.output.display()))?;
    let mut options = AugustusOptions {
        quick: args.quick,
        fib_log2_max: args.fib_log2_max,
        ..AugustusOptions::new()
    };
    if !args.figures.is_empty() {
        options.figures =
            AUGUSTUS_FIGURES.into_iter().filter(|figure| args.figures.contains(figure)).collect();
    }
    let started = Instant::now();
    let report_progress = |text: &str| note!("{:>4} s  {text}", started.elapsed().as_secs());
    let watch = Watch { is_interrupted: &|| stop_flag.is_set(), progress: &report_progress };
    let report = augustus(&options, &watch)?;
    let paper = AugustusPaper::read();
    write_report(&report, augustus_page(&report, &paper), &args.output, "augustus")?;
    if !args.json {
        report.sentences(&paper).iter().try_for_each(|sentence| outln!("{sentence}\n"))?;
        report.left_out.iter().try_for_each(|sentence| outln!("{sentence}"))?;
    }
    conclude(&report, args.json, &args.output.join("augustus.html"))
}

fn repeat_blackadder(args: &BlackadderArguments) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    fs::create_dir_all(&args.output)
        .with_context(|| format!("can't create {}", args.output.display()))?;
    let is_chosen = |figure: &u8| args.figures.is_empty() || args.figures.contains(figure);
    let options = BlackadderOptions {
        nw: std::env::current_exe().context("can't find this program's own file")?,
        figures: BLACKADDER_FIGURES.into_iter().filter(is_chosen).collect(),
        is_quick: args.quick,
    };
    let started = Instant::now();
    let report_progress = |text: &str| note!("{:>4} s  {text}", started.elapsed().as_secs());
    let watch = Watch { is_interrupted: &|| stop_flag.is_set(), progress: &report_progress };
    let report = blackadder(&options, &watch)?;
    let page = blackadder_page(&report, &blackadder_paper());
    write_report(&report, page, &args.output, "blackadder")?;
    if !args.json {
        report.left_out.iter().try_for_each(|sentence| outln!("{sentence}"))?;
    }
    conclude(&report, args.json, &args.output.join("blackadder.html"))
}

/// Returns the chains to simulate: the paper's at each load, and its largest load at 100 times the
/// rate, with files as much larger, and over 20 hops.
fn simulated_chains(args: &BulkArguments) -> Vec<SimulatedChain> {
    let mut chains: Vec<_> = args.files_per_s.iter().copied().map(SimulatedChain::paper).collect();
    if !args.quick {
        let largest = args.files_per_s.iter().copied().fold(0.1, f64::max);
        chains.extend(SimulatedChain::others(largest));
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
    write_report(&report, page(&report, &Csr::read()), &args.output, "csr")?;
    if !args.json {
        for finding in &report.findings {
            outln!("Figure {}. {}\n", finding.figure, finding.sentence())?;
        }
        let (agreeing, all) = (report.agreeing(), report.findings.len());
        outln!("{agreeing} of {all} figures agree with the paper's.")?;
    }
    conclude(&report, args.json, &args.output.join("csr.html"))
}
