//! `nw bench`: generates traffic through a router or in memory, and prints the results.

mod args;
mod attack;
mod bulk;

pub use args::BenchCommand;

use crate::connect;
use crate::output::{json_line, row, table};
use crate::{progress, signals};
use anyhow::{Context, Result, bail, ensure};
use args::{Answer, AnswerArgs, Control, Generate, LoadArgs, Output, Over, Run};
use nw_api::management::XdpStatus;
use nw_app::{Client, FaceUri, transport};
use nw_traffic::client_link::ClientLink;
use nw_traffic::generator::{Generator, Limits, Load};
use nw_traffic::link::{Link, drive};
use nw_traffic::memory::MemoryLink;
use nw_traffic::report_html::{describe_load, describe_workload, page};
use nw_traffic::result::{Outcome, TransportInfo};
use nw_traffic::sink::Sink;
use nw_traffic::through_router::{AnswerCounters, register, serve};
use nw_traffic::through_xdp::XdpReport;
use nw_traffic::through_xdp::link::XdpLink;
use nw_traffic::through_xdp::sink::XdpSink;
use nw_traffic::workload::{Requests, Workload};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Outstanding Interests while caches are filled.
const WARM_UP_WINDOW: usize = 64;
/// Maximum time for filling caches.
const WARM_UP_MAX: Duration = Duration::from_secs(600);

/// Runs `nw bench …`.
pub fn bench(action: &BenchCommand) -> Result<ExitCode> {
    match action {
        BenchCommand::Run(args) => run(args),
        BenchCommand::Bulk(args) => bulk::bulk(args),
        BenchCommand::Attack(args) => attack::attack(args),
        BenchCommand::Generate(args) => generate(args),
        BenchCommand::Answer(args) => answer(args),
    }
}

fn run(args: &Run) -> Result<ExitCode> {
    let workload = args.workload.workload()?;
    check_output(&args.output)?;
    match args.over {
        Over::Memory => {
            ensure!(args.router.socket.is_none(), "--over memory uses no router: omit --socket");
            over_memory(args, &workload)
        }
        Over::Router => through_router(args, &workload),
    }
}

fn over_memory(args: &Run, workload: &Workload) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let mut memory = MemoryLink::new(workload, sink(workload, &args.answers), stop_flag.flag());
    if warm_up(&mut memory, workload)? == Completion::Complete {
        let before = memory.answered();
        let (generator, completion) = measure(&mut memory, workload, &args.load, &args.output)?;
        let by_sink = memory.answered() - before;
        return finish(
            workload,
            TransportInfo::of("memory"),
            &args.load,
            &args.output,
            &generator,
            completion,
            Some(by_sink),
        );
    }
    bail!("interrupted while filling caches; nothing was measured")
}

fn through_router(args: &Run, workload: &Workload) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let uri = connect::uri(&args.router)?;
    let mut producer = connect::connect(&args.router)?;
    let mut consumer = connect::connect(&args.router)?;
    consumer.stop_when(stop_flag.flag());
    register_at(&mut producer, &uri, workload, &args.control)?;
    let (answered, stop) = (AnswerCounters::default(), Arc::new(AtomicBool::new(false)));
    let sink = sink(workload, &args.answers);
    let serving = {
        let (answered, stop) = (answered.clone(), Arc::clone(&stop));
        let serve = move || serve(&mut producer, &sink, &answered, &stop);
        thread::Builder::new().name("sink".into()).spawn(serve).context("can't start a thread")?
    };
    let mut link = ClientLink::new(consumer);
    let measured = warm_up(&mut link, workload).and_then(|warm_up| {
        ensure!(
            warm_up == Completion::Complete,
            "interrupted while filling caches; nothing was measured"
        );
        let before = answered.interests.load(Ordering::Relaxed);
        let (generator, completion) = measure(&mut link, workload, &args.load, &args.output)?;
        Ok((generator, completion, answered.interests.load(Ordering::Relaxed) - before))
    });
    stop.store(true, Ordering::Relaxed);
    let served = serving.join();
    let (generator, completion, by_sink) = measured?;
    let path = TransportInfo::of(uri.to_string());
    let code =
        finish(workload, path, &args.load, &args.output, &generator, completion, Some(by_sink))?;
    match served {
        Ok(result) => result.context("the producer failed")?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    Ok(code)
}

fn generate(args: &Generate) -> Result<ExitCode> {
    let workload = args.workload.workload()?;
    check_output(&args.output)?;
    let stop_flag = signals::StopFlag::watch()?;
    let uri = connect::uri(&args.router)?;
    let (generator, completion, path) = match &args.xdp {
        None => {
            let mut client = connect::connect(&args.router)?;
            client.stop_when(stop_flag.flag());
            let (generator, completion) =
                warm_up_and_measure(&mut ClientLink::new(client), &workload, args)?;
            (generator, completion, TransportInfo::of(uri.to_string()))
        }
        Some(interface) => {
            let mut link = XdpLink::open(interface, &uri, &workload, stop_flag.flag())?;
            let (generator, completion) = warm_up_and_measure(&mut link, &workload, args)?;
            let over = format!("{uri} by AF_XDP on {interface}");
            (generator, completion, TransportInfo { over, xdp: Some(link.status()) })
        }
    };
    finish(&workload, path, &args.load, &args.output, &generator, completion, None)
}

fn warm_up_and_measure<L: Link>(
    link: &mut L,
    workload: &Workload,
    args: &Generate,
) -> Result<(Generator, Completion)>
where
    L::Error: std::error::Error + Send + Sync + 'static,
{
    if warm_up(link, workload)? == Completion::Interrupted {
        bail!("interrupted while filling caches; nothing was measured");
    }
    measure(link, workload, &args.load, &args.output)
}

fn answer(args: &Answer) -> Result<ExitCode> {
    let workload = args.workload.workload()?;
    let stop_flag = signals::StopFlag::watch()?;
    let (sink, answered) = (sink(&workload, &args.answers), AnswerCounters::default());
    if let Some(interface) = &args.xdp {
        let mut rings = XdpSink::open(interface, args.port, sink)?;
        let started = report_ready(args, &workload, stop_flag.flag(), Some(&rings.status()))?;
        let served = rings.serve(&answered, &stop_flag.flag());
        report_end(args, &answered, started, Some(&rings.status()))?;
        served?;
    } else {
        let uri = connect::uri(&args.router)?;
        let mut client = connect::connect(&args.router)?;
        if !args.no_register {
            register_at(&mut client, &uri, &workload, &args.control)?;
        }
        let started = report_ready(args, &workload, stop_flag.flag(), None)?;
        let served = serve(&mut client, &sink, &answered, &stop_flag.flag());
        report_end(args, &answered, started, None)?;
        served?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports that Interests are answered, and starts the timer of `--seconds`. Returns the start
/// time.
fn report_ready(
    args: &Answer,
    workload: &Workload,
    stop: Arc<AtomicBool>,
    xdp: Option<&XdpReport>,
) -> Result<Instant> {
    if args.json {
        let mut event = json!({ "event": "ready", "prefix": workload.prefix.to_string() });
        xdp.into_iter().for_each(|xdp| event["xdp"] = json!(xdp));
        json_line(&event)?;
    } else {
        if let Some(XdpReport { status: XdpStatus { interface, mode, memory, .. }, .. }) = xdp {
            note!("{interface} uses AF_XDP: {mode}, {memory}");
        }
        note!("answering below {}; Ctrl-C ends it", workload.prefix);
    }
    if let Some(seconds) = args.seconds {
        thread::spawn(move || {
            thread::sleep(seconds);
            stop.store(true, Ordering::Relaxed);
        });
    }
    Ok(Instant::now())
}

fn report_end(
    args: &Answer,
    answered: &AnswerCounters,
    started: Instant,
    xdp: Option<&XdpReport>,
) -> Result<()> {
    let (interests, bytes) =
        (answered.interests.load(Ordering::Relaxed), answered.bytes.load(Ordering::Relaxed));
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let mut event =
            json!({ "event": "end", "answered": interests, "octets": bytes, "seconds": seconds }); // (retired word)
        xdp.into_iter().for_each(|xdp| event["xdp"] = json!(xdp));
        json_line(&event)?;
    } else {
        xdp.into_iter().for_each(|xdp| note!("{xdp}"));
        note!("{interests} answered");
    }
    Ok(())
}

fn sink(workload: &Workload, args: &AnswerArgs) -> Sink {
    Sink::new(workload, args.freshness)
}

fn register_at(
    client: &mut Client,
    uri: &FaceUri,
    workload: &Workload,
    control: &Control,
) -> Result<()> {
    let control = match &control.control {
        Some(control) => control.clone(),
        None => transport::default_uri()?,
    };
    register(client, uri, &workload.prefix, &control)
        .with_context(|| format!("can't serve {} at {uri}", workload.prefix))
}

/// How a part of a run ended.
#[derive(Debug, PartialEq, Eq)]
enum Completion {
    /// It ran to its end.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// An error ended it; the measurements so far are valid.
    Failed(String),
}

/// Requests each popular name once to fill caches, if a hit ratio is given.
fn warm_up<L: Link>(link: &mut L, workload: &Workload) -> Result<Completion>
where
    L::Error: std::error::Error + Send + Sync + 'static,
{
    if workload.hit_ratio.is_none() {
        return Ok(Completion::Complete);
    }
    let limits = Limits {
        packets: Some(workload.names as u64),
        duration: WARM_UP_MAX,
        lifetime: Duration::from_secs(1),
    };
    let load = Load::Closed { window: WARM_UP_WINDOW };
    let mut generator =
        Generator::new(workload, Requests::each_once(workload), load, limits, args::random());
    let is_complete = drive(link, &mut generator)?;
    let counters = &generator.measured().counters;
    ensure!(
        !is_complete || counters.answered > 0,
        "no Interest under {} was answered: is `nw bench answer` running there?",
        workload.prefix
    );
    Ok(if is_complete { Completion::Complete } else { Completion::Interrupted })
}

fn measure<L: Link>(
    link: &mut L,
    workload: &Workload,
    args: &LoadArgs,
    output: &Output,
) -> Result<(Generator, Completion)>
where
    L::Error: std::error::Error + Send + Sync + 'static,
{
    let mut generator = Generator::new(
        workload,
        Requests::new(workload),
        args.load(),
        args.limits(),
        args::random(),
    );
    let bar = progress::time(args.seconds, output.json);
    let result = drive(link, &mut generator);
    bar.finish_and_clear();
    let completion = match result {
        Ok(true) => Completion::Complete,
        Ok(false) => Completion::Interrupted,
        Err(error) => Completion::Failed(error.to_string()),
    };
    Ok((generator, completion))
}

/// Checks that the HTML file can be written, before the measurement starts.
fn check_output(output: &Output) -> Result<()> {
    let Some(path) = &output.html else { return Ok(()) };
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(
        folder.is_dir(),
        "can't write {}: the folder {} does not exist",
        path.display(),
        folder.display()
    );
    Ok(())
}

fn finish(
    workload: &Workload,
    path: TransportInfo,
    load: &LoadArgs,
    output: &Output,
    generator: &Generator,
    completion: Completion,
    by_sink: Option<u64>,
) -> Result<ExitCode> {
    let measured = generator.measured();
    let outcome = Outcome::new(
        workload,
        load.load(),
        path,
        completion == Completion::Complete,
        measured,
        by_sink,
    );
    if output.json && by_sink.is_some() {
        json_line(&outcome)?;
    } else if output.json {
        // The size of content is set by the producer; `data_bytes` has what was received.
        let mut json_outcome = serde_json::to_value(&outcome)?;
        json_outcome["workload"]["payload"] = serde_json::Value::Null;
        json_line(&json_outcome)?;
    } else {
        print(&outcome)?;
    }
    if let Some(html) = &output.html {
        std::fs::write(html, page(&outcome, measured))
            .with_context(|| format!("can't write {}", html.display()))?;
        if !output.json {
            outln!("\ncharts: {}", html.display())?;
        }
    }
    if let Completion::Failed(error) = completion {
        bail!("the run ended early: {error}");
    }
    if outcome.answered == 0 && completion == Completion::Complete {
        bail!(
            "no Interest under {} was answered: is `nw bench answer` running there?",
            workload.prefix
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn print(outcome: &Outcome) -> Result<()> {
    outln!("{} over {}, {:.2} s", describe_load(outcome.load), outcome.over, outcome.seconds)?;
    outln!("{}; seed {}\n", describe_workload(outcome), outcome.workload.seed)?;
    if !outcome.complete {
        outln!("ended early; measured so far:\n")?;
    }
    let rows: Vec<_> = outcome.rows().into_iter().map(Vec::from).collect();
    table(&rows)?;
    outln!()?;
    let (head, latencies) = outcome.latencies();
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (label, q) in latencies {
        let cells =
            [q.min, q.mean, q.p50, q.p90, q.p99, q.p999, q.max].map(|us| format!("{us:.1}"));
        let [min, mean, p50, p90, p99, p999, max] = &cells;
        rows.push(row([&label, min, mean, p50, p90, p99, p999, max]));
    }
    table(&rows)
}
