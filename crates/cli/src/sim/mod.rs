//! `nw sim`: runs simulated networks in virtual time.

mod args;

pub use args::{ScenarioArgs, SimCommand};

use crate::output::{json_line, row, table};
use crate::progress;
use anyhow::{Context, Result, bail};
use args::{Format, Run, Topology};
use nw_api::config::file::{TEXT_MAX, read_text};
use nw_sim::scenario::{EXAMPLE, Metric};
use nw_sim::topology::{FORMS, PUBLISHED};
use nw_sim::{Outcome, Overrides, RunFailure, RunPlan, Scenario, report, topology};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The traffic without a scenario file: every node requests names from one producer.
const DEFAULT_TRAFFIC: &str = "[[producer]]\nprefix = \"/data\"\nat = [\"random:1\"]\n\
    [[consumer]]\nkind = \"zipf\"\nat = [\"all\"]\nprefix = \"/data\"\nrate_per_s = 20\n";
/// Maximum number of applications printed; files list all.
const ROWS_MAX: usize = 12;

/// Runs `nw sim …`.
pub fn sim(action: &SimCommand) -> Result<ExitCode> {
    match action {
        SimCommand::Run(args) => run(args),
        SimCommand::Topology(args) => print_topology(args),
        SimCommand::Example => print(EXAMPLE),
        SimCommand::Options => print(&Scenario::reference()),
        SimCommand::Measures { json: true } => {
            for metric in Metric::ALL {
                json_line(&json!({
                    "name": metric.name,
                    "of_application": metric.of_application,
                    "help": metric.help,
                }))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        SimCommand::Measures { json: false } => {
            let rows = Metric::ALL.iter().map(|metric| {
                let of = if metric.of_application { "all, or one consumer" } else { "all" };
                row([&metric.name, &of, &metric.help])
            });
            table(&rows.collect::<Vec<_>>())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn print(text: &str) -> Result<ExitCode> {
    crate::output::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn print_topology(args: &Topology) -> Result<ExitCode> {
    let Some(text) = &args.topology else {
        if args.json {
            let forms = FORMS.iter().map(|(form, help)| (form, help, "generated"));
            let maps = PUBLISHED.iter().map(|(name, help, _)| (name, help, "published"));
            for (name, help, kind) in forms.chain(maps) {
                json_line(&json!({ "name": name, "kind": kind, "help": help }))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let forms = FORMS.iter().map(|(form, help)| row([form, help]));
        let maps = PUBLISHED.iter().map(|(name, help, _)| row([name, help]));
        table(&forms.chain(maps).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    };
    let topology = if Path::new(text).is_file() {
        nw_sim::Topology::load(Path::new(text))?
    } else {
        nw_sim::Topology::generate(text, args.seed)?
    };
    print(&match args.format {
        Format::Toml => topology::toml(&topology),
        Format::Dot => topology::dot(&topology),
        Format::Svg => topology::svg(&topology, |_| 0.0),
    })
}

/// Returns the plan of a scenario; `seed` replaces that of the file.
pub fn plan(args: &ScenarioArgs, seed: Option<u64>) -> Result<RunPlan> {
    let is_file = |topology: &&String| Path::new(topology.as_str()).is_file();
    let overrides = Overrides {
        seed,
        duration: args.duration,
        topology: args.topology.clone().filter(|topology| !is_file(&topology)),
        topology_file: args.topology.as_ref().filter(is_file).map(PathBuf::from),
        at: args.at.clone(),
        expect: args.expect.clone(),
    };
    let (file, text) = match &args.file {
        Some(path) => {
            let text = read_text(path, TEXT_MAX)?;
            (path.display().to_string(), text)
        }
        None => ("--topology".to_owned(), DEFAULT_TRAFFIC.to_owned()),
    };
    let folder = args.file.as_deref().and_then(Path::parent);
    match Scenario::parse(&file, &text, folder, &overrides) {
        Ok(plan) => Ok(plan),
        Err(problems) => bail!("the scenario has mistakes:\n{problems}"),
    }
}

/// A finished run.
pub struct FinishedRun {
    /// What was run.
    pub plan: RunPlan,
    /// Its result.
    pub result: Result<Outcome, RunFailure>,
    /// The time that it took.
    pub took: Duration,
}

fn run(args: &Run) -> Result<ExitCode> {
    let first = plan(&args.scenario, args.scenario.seed)?;
    let seed = first.scenario.run.seed;
    let seeds: Vec<u64> =
        (0..u64::from(args.runs)).map(|number| seed.wrapping_add(number)).collect();
    let plans = seeds.iter().map(|seed| plan(&args.scenario, Some(*seed)));
    let plans: Vec<RunPlan> =
        if args.runs == 1 { vec![first] } else { plans.collect::<Result<_>>()? };
    if let (Some(path), [_]) = (&args.record, &plans[..]) {
        return run_recorded(args, plans, path);
    }
    let finished = run_all(plans, args.scenario.json);
    report_all(&args.scenario, "nw sim run", &finished)
}

/// Runs one scenario and writes its recording.
fn run_recorded(args: &Run, mut plans: Vec<RunPlan>, path: &Path) -> Result<ExitCode> {
    let plan = plans.pop().context("one run is recorded")?;
    let bar = progress::parts(1000, args.scenario.json);
    let start = Instant::now();
    let recorded = nw_sim::run_recorded(plan.clone(), &title(&args.scenario), |share| {
        bar.set_position((1000.0 * share) as u64);
    });
    bar.finish_and_clear();
    let took = start.elapsed();
    let result = match recorded {
        Ok((outcome, recording)) => {
            crate::recorder::write(path, &recording)?;
            Ok(outcome)
        }
        Err(failure) => Err(failure),
    };
    let is_written = result.is_ok();
    let code = report_all(&args.scenario, "nw sim run", &[FinishedRun { plan, result, took }])?;
    if is_written {
        note!("recorded: nw open {}", quote(&path.display().to_string()));
    }
    Ok(code)
}

/// Prints and writes the results of all runs. `verb` is the command that repeats one.
pub fn report_all(args: &ScenarioArgs, verb: &str, finished: &[FinishedRun]) -> Result<ExitCode> {
    let is_single = finished.len() == 1;
    let (mut succeeded, mut outcomes) = (true, Vec::new());
    for FinishedRun { plan, result, took } in finished {
        let seed = plan.scenario.run.seed;
        match result {
            Ok(outcome) => {
                if let Some(folder) = &args.out {
                    let folder = if is_single {
                        folder.clone()
                    } else {
                        folder.join(format!("seed-{seed}"))
                    };
                    report::write(outcome, &plan.topology, &title(args), &folder)
                        .with_context(|| format!("can't write into {}", folder.display()))?;
                }
                if args.json {
                    json_line(outcome)?;
                } else if is_single {
                    show(args, outcome, *took)?;
                }
                outcomes.push(outcome);
                succeeded &= report_failures(args, verb, seed, outcome);
            }
            Err(failure) => {
                note!(
                    "nw: seed {seed}: {failure}\nnw: repeat it with: {}",
                    repeat(args, verb, seed)
                );
                succeeded = false;
            }
        }
    }
    if !is_single && !args.json {
        show_runs(&outcomes)?;
    }
    if let Some(folder) = args.out.as_ref().filter(|_| !args.json) {
        outln!("\ntables and charts: {}", folder.display())?;
    }
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all plans in parallel, as many at a time as there are processors.
fn run_all(plans: Vec<RunPlan>, quiet: bool) -> Vec<FinishedRun> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len());
    let permille = AtomicU64::new(0);
    let bar = progress::parts(1000 * plans.len() as u64, quiet);
    let count = plans.len();
    let (remaining, finished) =
        (Mutex::new(plans.into_iter().enumerate()), Mutex::new(Vec::with_capacity(count)));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = remaining.lock().ok().and_then(|mut remaining| remaining.next());
                    let Some((number, plan)) = next else { break };
                    let (start, mut before) = (Instant::now(), 0);
                    let result = nw_sim::run_with(plan.clone(), |share| {
                        let now = (1000.0 * share) as u64;
                        bar.set_position(
                            permille.fetch_add(now - before, Ordering::Relaxed) + now - before,
                        );
                        before = now;
                    });
                    if let Ok(mut finished) = finished.lock() {
                        finished
                            .push((number, FinishedRun { plan, result, took: start.elapsed() }));
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut finished = finished.into_inner().unwrap_or_default();
    finished.sort_by_key(|(number, _)| *number);
    finished.into_iter().map(|(_, run)| run).collect()
}

/// Returns the title of a run: its file and topology.
pub fn title(args: &ScenarioArgs) -> String {
    match (&args.file, &args.topology) {
        (Some(file), Some(topology)) => format!("{} on {topology}", file.display()),
        (Some(file), None) => file.display().to_string(),
        (None, topology) => topology.clone().unwrap_or_default(),
    }
}

/// Reports violated invariants and failed expectations, and how to repeat the run. Returns whether
/// there were none.
fn report_failures(args: &ScenarioArgs, verb: &str, seed: u64, outcome: &Outcome) -> bool {
    for violation in &outcome.violations {
        note!("nw: seed {seed}: an invariant is violated, which is a bug: {violation}");
    }
    for verdict in outcome.verdicts.iter().filter(|verdict| !verdict.holds) {
        let measured = verdict
            .measured
            .map_or("nothing was measured".to_owned(), |value| format!("it is {value:.6}"));
        note!("nw: seed {seed}: expected {}; {measured}", verdict.expected);
    }
    if !outcome.is_good() {
        note!("nw: repeat it with: {}", repeat(args, verb, seed));
    }
    outcome.is_good()
}

/// Returns the command that repeats this run.
fn repeat(args: &ScenarioArgs, verb: &str, seed: u64) -> String {
    let mut words = vec![verb.to_owned()];
    words.extend(args.file.iter().map(|file| quote(&file.display().to_string())));
    words.extend(args.topology.iter().map(|topology| format!("--topology {}", quote(topology))));
    words.push(format!("--seed {seed}"));
    words.extend(args.duration.iter().map(|duration| format!("--duration {}", duration.value())));
    words.extend(args.at.iter().map(|at| format!("--at {}", quote(at))));
    words.extend(args.expect.iter().map(|expect| format!("--expect {}", quote(expect))));
    words.join(" ")
}

/// Quotes a word for a shell.
pub fn quote(word: &str) -> String {
    let needs_no_quotes = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    if !word.is_empty() && word.chars().all(needs_no_quotes) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn show(args: &ScenarioArgs, outcome: &Outcome, took: Duration) -> Result<()> {
    outln!(
        "{}: {} nodes, {} links, {} {}; seed {}",
        title(args),
        outcome.nodes_count,
        outcome.links_count,
        outcome.duration_s,
        outcome.host().1,
        outcome.seed
    )?;
    let totals = &outcome.totals;
    outln!(
        "{} packets over {} events in {:.2} s: {:.0} per second\n",
        totals.packets,
        totals.events,
        took.as_secs_f64(),
        totals.packets as f64 / took.as_secs_f64()
    )?;
    let percent = |share: Option<f64>| {
        share.map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share))
    };
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
    table(&[
        row([
            &"interests",
            &totals.sent,
            &format!(
                "{} satisfied, {} timed out, {} refused",
                percent(totals.satisfied),
                totals.timeouts,
                totals.nacks
            ),
        ]),
        row([&"data", &format!("{:.2} Mbit/s", totals.mbps), &"to consumers"]),
        row([
            &"content stores",
            &percent(totals.cs_hit_ratio),
            &"of Interests at routers answered",
        ]),
        row([
            &"links",
            &totals.link_packets,
            &format!(
                "packets, {} dropped or lost, {} of them by full queues",
                totals.dropped, totals.queue_drops
            ),
        ]),
    ])?;
    show_applications(outcome, ms)?;
    for verdict in outcome.verdicts.iter().filter(|verdict| verdict.holds) {
        outln!(
            "\nas expected: {} ({:.6})",
            verdict.expected,
            verdict.measured.unwrap_or_default()
        )?;
    }
    Ok(())
}

/// Prints a table of applications. `ms`: formats milliseconds.
fn show_applications(outcome: &Outcome, ms: impl Fn(Option<f64>) -> String) -> Result<()> {
    outln!()?;
    let mut rows = vec![row([
        &"application",
        &"kind",
        &"sent",
        &"answered",
        &"timeouts",
        &"nacks",
        &"ms mean",
        &"50 %",
        &"99 %",
        &"Mbit/s",
        &"done s",
    ])];
    for app in outcome.applications.iter().take(ROWS_MAX) {
        rows.push(row([
            &app.name,
            &app.kind,
            &app.sent,
            &app.satisfied,
            &app.timeouts,
            &app.nacks,
            &ms(app.rtt_mean_ms),
            &ms(app.rtt_p50_ms),
            &ms(app.rtt_p99_ms),
            &format!("{:.2}", app.mbps),
            &app.done_s.map_or("-".to_owned(), |s| format!("{s:.2}")),
        ]));
    }
    table(&rows)?;
    if outcome.applications.len() > ROWS_MAX {
        outln!("… {} more; --out FOLDER writes all", outcome.applications.len() - ROWS_MAX)?;
    }
    Ok(())
}

fn show_runs(outcomes: &[&Outcome]) -> Result<()> {
    let mut rows = vec![row([
        &"seed",
        &"interests",
        &"satisfied",
        &"ms mean",
        &"ms 99 %",
        &"hit ratio",
        &"dropped",
        &"as expected",
    ])];
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
    for outcome in outcomes {
        let totals = &outcome.totals;
        let good = if outcome.is_good() { "yes" } else { "no" };
        rows.push(row([
            &outcome.seed,
            &totals.sent,
            &number(totals.satisfied),
            &number(totals.rtt_mean_ms),
            &number(totals.rtt_p99_ms),
            &number(totals.cs_hit_ratio),
            &totals.dropped,
            &good,
        ]));
    }
    let mean = |value: fn(&Outcome) -> Option<f64>| {
        let values: Vec<f64> = outcomes.iter().filter_map(|outcome| value(outcome)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let good = outcomes.iter().filter(|outcome| outcome.is_good()).count();
    rows.push(row([
        &"mean",
        &number(mean(|o| Some(o.totals.sent as f64))),
        &number(mean(|o| o.totals.satisfied)),
        &number(mean(|o| o.totals.rtt_mean_ms)),
        &number(mean(|o| o.totals.rtt_p99_ms)),
        &number(mean(|o| o.totals.cs_hit_ratio)),
        &number(mean(|o| Some(o.totals.dropped as f64))),
        &format!("{good} of {}", outcomes.len()),
    ]));
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeat_returns_a_command_for_the_shell() {
        let args = ScenarioArgs {
            file: Some("my net.toml".into()),
            topology: Some("grid:3x3".into()),
            seed: None,
            duration: nw_sim::scenario::Secs::parse("2.5"),
            at: vec!["1s node n3 restart".into()],
            expect: vec![],
            out: None,
            json: false,
        };
        assert_eq!(
            repeat(&args, "nw sim run", 42),
            "nw sim run 'my net.toml' --topology grid:3x3 --seed 42 --duration 2.5 --at '1s node \
             n3 restart'"
        );
    }
}
