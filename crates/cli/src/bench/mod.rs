//! `nw bench`: traffic by rule through a router or over memory, and what came of it.

mod args;

pub use args::BenchVerb;

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
use nw_traffic::report_html::{describe_load, page, describe_workload};
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

/// Interests waiting at a time while caches are filled.
const WARM_UP_WINDOW: usize = 64;
/// How long caches may take to be filled.
const WARM_UP_MAX: Duration = Duration::from_secs(600);

/// Does what `verb` says.
pub fn bench(verb: &BenchVerb) -> Result<ExitCode> {
    match verb {
        BenchVerb::Run(args) => run(args),
        BenchVerb::Generate(args) => generate(args),
        BenchVerb::Answer(args) => answer(args),
    }
}

fn run(args: &Run) -> Result<ExitCode> {
    let workload = args.workload.workload()?;
    check_output(&args.output)?;
    match args.over {
        Over::Memory => {
            ensure!(args.router.socket.is_none(), "--over memory has no router: leave out --socket");
            over_memory(args, &workload)
        }
        Over::Router => through_router(args, &workload),
    }
}

fn over_memory(args: &Run, workload: &Workload) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let mut memory = MemoryLink::new(workload, sink(workload, &args.answers), ended.flag());
    if warm_up(&mut memory, workload)? == Went::On {
        let before = memory.answered();
        let (generator, went) = measure(&mut memory, workload, &args.load, &args.output)?;
        let by_sink = memory.answered() - before;
        return finish(
            workload,
            TransportInfo::of("memory"),
            &args.load,
            &args.output,
            &generator,
            went,
            Some(by_sink),
        );
    }
    bail!("interrupted while caches were filled; nothing was measured")
}

fn through_router(args: &Run, workload: &Workload) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let uri = connect::uri(&args.router)?;
    let mut producer = connect::connect(&args.router)?;
    let mut consumer = connect::connect(&args.router)?;
    consumer.stop_when(ended.flag());
    register_at(&mut producer, &uri, workload, &args.control)?;
    let (answered, stop) = (AnswerCounters::default(), Arc::new(AtomicBool::new(false)));
    let sink = sink(workload, &args.answers);
    let serving = {
        let (answered, stop) = (answered.clone(), Arc::clone(&stop));
        let serve = move || serve(&mut producer, &sink, &answered, &stop);
        thread::Builder::new().name("sink".into()).spawn(serve).context("can't start a thread")?
    };
    let mut link = ClientLink::new(consumer);
    let measured = warm_up(&mut link, workload).and_then(|went| {
        ensure!(went == Went::On, "interrupted while caches were filled; nothing was measured");
        let before = answered.interests.load(Ordering::Relaxed);
        let (generator, went) = measure(&mut link, workload, &args.load, &args.output)?;
        Ok((generator, went, answered.interests.load(Ordering::Relaxed) - before))
    });
    stop.store(true, Ordering::Relaxed);
    let served = serving.join();
    let (generator, went, by_sink) = measured?;
    let way = TransportInfo::of(uri.to_string());
    let code = finish(workload, way, &args.load, &args.output, &generator, went, Some(by_sink))?;
    match served {
        Ok(result) => result.context("the answering end")?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    Ok(code)
}

fn generate(args: &Generate) -> Result<ExitCode> {
    let workload = args.workload.workload()?;
    check_output(&args.output)?;
    let ended = signals::Ended::watch()?;
    let uri = connect::uri(&args.router)?;
    let (generator, went, way) = match &args.xdp {
        None => {
            let mut client = connect::connect(&args.router)?;
            client.stop_when(ended.flag());
            let (generator, went) = ask(&mut ClientLink::new(client), &workload, args)?;
            (generator, went, TransportInfo::of(uri.to_string()))
        }
        Some(interface) => {
            let mut link = XdpLink::open(interface, &uri, &workload, ended.flag())?;
            let (generator, went) = ask(&mut link, &workload, args)?;
            let over = format!("{uri} by AF_XDP on {interface}");
            (generator, went, TransportInfo { over, xdp: Some(link.status()) })
        }
    };
    finish(&workload, way, &args.load, &args.output, &generator, went, None)
}

fn ask<L: Link>(link: &mut L, workload: &Workload, args: &Generate) -> Result<(Generator, Went)>
where
    L::Error: std::error::Error + Send + Sync + 'static,
{
    if warm_up(link, workload)? == Went::Ended {
        bail!("interrupted while caches were filled; nothing was measured");
    }
    measure(link, workload, &args.load, &args.output)
}

fn answer(args: &Answer) -> Result<ExitCode> {
    let workload = args.workload.workload()?;
    let ended = signals::Ended::watch()?;
    let (sink, answered) = (sink(&workload, &args.answers), AnswerCounters::default());
    if let Some(interface) = &args.xdp {
        let mut rings = XdpSink::open(interface, args.port, sink)?;
        let started = ready(args, &workload, ended.flag(), Some(&rings.status()))?;
        let served = rings.serve(&answered, &ended.flag());
        end(args, &answered, started, Some(&rings.status()))?;
        served?;
    } else {
        let uri = connect::uri(&args.router)?;
        let mut client = connect::connect(&args.router)?;
        if !args.no_register {
            register_at(&mut client, &uri, &workload, &args.control)?;
        }
        let started = ready(args, &workload, ended.flag(), None)?;
        let served = serve(&mut client, &sink, &answered, &ended.flag());
        end(args, &answered, started, None)?;
        served?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says that Interests may come, and sees to the end of their time; when it began.
fn ready(args: &Answer, workload: &Workload, stop: Arc<AtomicBool>, xdp: Option<&XdpReport>) -> Result<Instant> {
    if args.json {
        let mut event = json!({ "event": "ready", "prefix": workload.prefix.to_string() });
        xdp.into_iter().for_each(|xdp| event["xdp"] = json!(xdp));
        json_line(&event)?;
    } else {
        if let Some(XdpReport { status: XdpStatus { interface, mode, memory, .. }, .. }) = xdp {
            note!("{interface} goes by AF_XDP: {mode}, {memory}");
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

fn end(args: &Answer, answered: &AnswerCounters, started: Instant, xdp: Option<&XdpReport>) -> Result<()> {
    let (interests, octets) =
        (answered.interests.load(Ordering::Relaxed), answered.bytes.load(Ordering::Relaxed));
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let mut event =
            json!({ "event": "end", "answered": interests, "octets": octets, "seconds": seconds });
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

fn register_at(client: &mut Client, uri: &FaceUri, workload: &Workload, control: &Control) -> Result<()> {
    let control = match &control.control {
        Some(control) => control.clone(),
        None => transport::default_uri()?,
    };
    register(client, uri, &workload.prefix, &control)
        .with_context(|| format!("can't serve {} at {uri}", workload.prefix))
}

/// How a part of a run went.
#[derive(Debug, PartialEq, Eq)]
enum Went {
    /// To its end.
    On,
    /// The user ended it.
    Ended,
    /// Something else did; what was measured so far counts.
    Wrong(String),
}

/// Asks for each popular name once, so that caches have it, if a hit ratio is wanted.
fn warm_up<L: Link>(link: &mut L, workload: &Workload) -> Result<Went>
where
    L::Error: std::error::Error + Send + Sync + 'static,
{
    if workload.hit_ratio.is_none() {
        return Ok(Went::On);
    }
    let limits = Limits {
        packets: Some(workload.names as u64),
        duration: WARM_UP_MAX,
        lifetime: Duration::from_secs(1),
    };
    let load = Load::Closed { window: WARM_UP_WINDOW };
    let mut generator = Generator::new(workload, Requests::each_once(workload), load, limits, args::random());
    let goes_on = drive(link, &mut generator)?;
    let counters = &generator.measured().counters;
    ensure!(
        !goes_on || counters.answered > 0,
        "nothing below {} was answered: is `nw bench answer` running there?",
        workload.prefix
    );
    Ok(if goes_on { Went::On } else { Went::Ended })
}

fn measure<L: Link>(
    link: &mut L,
    workload: &Workload,
    args: &LoadArgs,
    output: &Output,
) -> Result<(Generator, Went)>
where
    L::Error: std::error::Error + Send + Sync + 'static,
{
    let mut generator =
        Generator::new(workload, Requests::new(workload), args.load(), args.limits(), args::random());
    let bar = progress::time(args.seconds, output.json);
    let result = drive(link, &mut generator);
    bar.finish_and_clear();
    let went = match result {
        Ok(true) => Went::On,
        Ok(false) => Went::Ended,
        Err(error) => Went::Wrong(error.to_string()),
    };
    Ok((generator, went))
}

/// Before anything is sent: a file that can't be written would be a pity afterwards.
fn check_output(output: &Output) -> Result<()> {
    let Some(path) = &output.html else { return Ok(()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "can't write {}: there is no folder {}", path.display(), folder.display());
    Ok(())
}

fn finish(
    workload: &Workload,
    way: TransportInfo,
    load: &LoadArgs,
    output: &Output,
    generator: &Generator,
    went: Went,
    by_sink: Option<u64>,
) -> Result<ExitCode> {
    let measured = generator.measured();
    let outcome = Outcome::new(workload, load.load(), way, went == Went::On, measured, by_sink);
    if output.json && by_sink.is_some() {
        json_line(&outcome)?;
    } else if output.json {
        // Only the program that answers knows what it puts into Data; `data_bytes` is what came.
        let mut shown = serde_json::to_value(&outcome)?;
        shown["workload"]["payload"] = serde_json::Value::Null;
        json_line(&shown)?;
    } else {
        print(&outcome)?;
    }
    if let Some(path) = &output.html {
        std::fs::write(path, page(&outcome, measured))
            .with_context(|| format!("can't write {}", path.display()))?;
        if !output.json {
            outln!("\ncharts: {}", path.display())?;
        }
    }
    if let Went::Wrong(error) = went {
        bail!("the run ended before its time: {error}");
    }
    if outcome.answered == 0 && went == Went::On {
        bail!("nothing below {} was answered: is `nw bench answer` running there?", workload.prefix);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(outcome: &Outcome) -> Result<()> {
    outln!("{} over {}, {:.2} s", describe_load(outcome.load), outcome.over, outcome.seconds)?;
    outln!("{}; seed {}\n", describe_workload(outcome), outcome.workload.seed)?;
    if !outcome.complete {
        outln!("ended before its time; measured so far:\n")?;
    }
    let rows: Vec<_> = outcome.rows().into_iter().map(Vec::from).collect();
    table(&rows)?;
    outln!()?;
    let (head, latencies) = outcome.latencies();
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (what, q) in latencies {
        let cells = [q.min, q.mean, q.p50, q.p90, q.p99, q.p999, q.max].map(|us| format!("{us:.1}"));
        let [min, mean, p50, p90, p99, p999, max] = &cells;
        rows.push(row([&what, min, mean, p50, p90, p99, p999, max]));
    }
    table(&rows)
}
