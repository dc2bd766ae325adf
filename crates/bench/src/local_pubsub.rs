//! `pubsub/local/…`, `pubsub/latency` and `pubsub/slow`: publications between processes of one
//! machine, through the ring of a publisher.
//!
//! Processor time is that of all parties: publisher, subscribers and node. Nothing is lost in the
//! rows of `local`, because the publisher waits for the slowest subscriber. Zenoh, iceoryx2 and
//! NATS carry the same load in the same run, where `make bench` could build them.

use crate::references::{Reference, ReferenceLoad};
use crate::report::{Row, median};
use crate::transfer::Place;
use anyhow::{Context, Result, ensure};
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_app::pubsub::{PubSubOptions, Publisher, Received, Subscriber, WhenFull};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const RUNS: usize = 5;
const NAME: &str = "/bench/item";
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one process saw.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Publications published, or delivered.
    pub(crate) publications: u64,
    /// Publications lost.
    pub(crate) lost: u64,
    /// Processor time of this process from the first publication on, microseconds.
    pub(crate) cpu_us: f64,
    /// Time from the first to the last publication, seconds.
    pub(crate) elapsed_s: f64,
    /// Median and 99th percentile of the delay, microseconds.
    pub(crate) delays_us: (f64, f64),
}

/// Load of a run.
#[derive(Clone, Copy, Debug)]
struct Load {
    len: usize,
    count: u64,
    subscribers: u32,
    ring_kib: u32,
    interval_us: u64,
    overwrite: bool,
    /// Pause of the first subscriber after each publication, microseconds.
    slow_us: u64,
}

/// Measures a row.
///
/// # Errors
/// If a process does not start or fails.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let load = Load {
        len: 100,
        count: 2_000_000,
        subscribers: 1,
        ring_kib: 1024,
        interval_us: 0,
        overwrite: false,
        slow_us: 0,
    };
    match row {
        "pubsub/local/100/1" => small(row, &load),
        "pubsub/local/100/10" => small(row, &Load { count: 400_000, subscribers: 10, ..load }),
        "pubsub/local/100k/1" => large(row, 1, 40_000),
        "pubsub/local/100k/10" => large(row, 10, 8_000),
        "pubsub/latency" => latency(row, &Load { count: 2000, interval_us: 1000, ..load }),
        _ => slow(row, &Load { count: 200_000, subscribers: 3, overwrite: true, ..load }),
    }
}

/// Runs of each reference.
const REFERENCE_RUNS: usize = 3;

/// What the references reach with a load: the median over their runs, by name.
fn with_references(
    load: &Load,
    figure: impl Fn(&Outcome, &[Outcome], f64) -> f64,
) -> Result<Vec<(&'static str, f64)>> {
    let mut values = Vec::new();
    for reference in Reference::available()? {
        // Slow ones get less of a large load, for the same time.
        let share = if load.len > 10_000 && reference.name != "iceoryx2" { 8 } else { 1 };
        let count = load.count / share;
        let own = ReferenceLoad {
            len: load.len,
            count,
            subscribers: load.subscribers,
            interval_us: load.interval_us,
        };
        let mut runs = Vec::new();
        for _ in 0..REFERENCE_RUNS {
            let (publisher, subscribers, server_us) = reference.measure(&own)?;
            let is_complete = |one: &Outcome| one.publications == count;
            if !subscribers.iter().all(is_complete) {
                eprintln!("{} lost publications: it is left out", reference.name);
                runs.clear();
                break;
            }
            runs.push(figure(&publisher, &subscribers, server_us));
        }
        if !runs.is_empty() {
            values.push((reference.name, median(&runs)));
        }
    }
    Ok(values)
}

/// Returns a row for each reference, in a unit with its name, and finds one of them.
fn reference_rows(row: &str, unit: &str, values: &[(&'static str, f64)]) -> Vec<Row> {
    values.iter().map(|(name, value)| Row::new(row, format!("{unit}/{name}"), &[*value])).collect()
}

fn value_of(values: &[(&'static str, f64)], name: &str) -> Option<f64> {
    values.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
}

/// Processor time of all parties for each delivery, microseconds.
fn cpu_us_per_delivery(publisher: &Outcome, received: &[Outcome], node_us: f64) -> f64 {
    let subscribers: f64 = received.iter().map(|subscriber| subscriber.cpu_us).sum();
    let deliveries = publisher.publications as f64 * received.len() as f64;
    (publisher.cpu_us + subscribers + node_us) / deliveries
}

fn small(row: &str, load: &Load) -> Result<Vec<Row>> {
    let (mut cpu, mut rate) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (publisher, subscribers, node_us) = measure(load)?;
        cpu.push(cpu_us_per_delivery(&publisher, &subscribers, node_us));
        rate.push(load.count as f64 / publisher.elapsed_s);
    }
    let others = with_references(load, cpu_us_per_delivery)?;
    let zenoh = value_of(&others, "zenoh");
    let unit = if load.subscribers == 1 { "cpu_us_per_message" } else { "cpu_us_per_delivery" };
    let own = Row::new(row, unit, &cpu);
    let mut rows = vec![match zenoh {
        // Also below Zenoh's in the same run.
        Some(zenoh) if load.subscribers == 1 => own.with_reference(zenoh).also_at_most(zenoh),
        Some(zenoh) => own.with_reference(zenoh),
        None => own,
    }];
    rows.push(Row::new(row, "messages_per_s", &rate));
    rows.extend(reference_rows(row, unit, &others));
    Ok(rows)
}

/// Bytes that the slowest end passes in a second, 10^9.
fn gbyte_per_s(len: usize, publisher: &Outcome, received: &[Outcome]) -> f64 {
    let slowest = received.iter().map(|one| one.elapsed_s).fold(publisher.elapsed_s, f64::max);
    publisher.publications as f64 * len as f64 / slowest / 1e9
}

fn large(row: &str, subscribers: u32, count: u64) -> Result<Vec<Row>> {
    let load = Load {
        len: 100_000,
        count,
        subscribers,
        ring_kib: 8192,
        interval_us: 0,
        overwrite: false,
        slow_us: 0,
    };
    let (mut rate, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (publisher, received, node_us) = measure(&load)?;
        rate.push(gbyte_per_s(load.len, &publisher, &received));
        let all = f64::from(subscribers);
        cpu.push(cpu_us_per_delivery(&publisher, &received, node_us) * all);
    }
    let others = with_references(&load, |publisher, received, _| {
        gbyte_per_s(load.len, publisher, received)
    })?;
    let unit = "gbyte_per_s_each";
    let mut rows = vec![Row::new(row, unit, &rate), Row::new(row, "cpu_us_per_message", &cpu)];
    if let Some(iceoryx2) = value_of(&others, "iceoryx2") {
        let ratios: Vec<f64> = rate.iter().map(|rate| rate / iceoryx2).collect();
        rows[0] = rows[0].clone().with_reference(iceoryx2);
        rows.push(Row::new(row, "ratio_to_iceoryx2", &ratios));
    }
    rows.extend(reference_rows(row, unit, &others));
    Ok(rows)
}

fn latency(row: &str, load: &Load) -> Result<Vec<Row>> {
    let (mut middle, mut high) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (_, subscribers, _) = measure(load)?;
        middle.push(subscribers[0].delays_us.0);
        high.push(subscribers[0].delays_us.1);
    }
    let others = with_references(load, |_, received, _| received[0].delays_us.0)?;
    let mut own = Row::new(row, "p50_us", &middle);
    if let Some(zenoh) = value_of(&others, "zenoh") {
        own = own.with_reference(zenoh);
    }
    let mut rows = vec![own, Row::new(row, "p99_us", &high)];
    rows.extend(reference_rows(row, "p50_us", &others));
    Ok(rows)
}

/// Two fast subscribers beside a slow one, with and without the slow one's pauses.
fn slow(row: &str, load: &Load) -> Result<Vec<Row>> {
    let (mut unexplained, mut ratios) = (Vec::new(), Vec::new());
    let paced = Load { count: 50_000, interval_us: 20, ..*load };
    for _ in 0..RUNS {
        let (_, undisturbed, _) = measure(&paced)?;
        let (_, beside_slow, _) = measure(&Load { slow_us: 1000, ..paced })?;
        let told = |one: &Outcome| (one.publications + one.lost) as f64;
        let gaps = beside_slow.iter().map(|one| (told(one) - paced.count as f64).abs());
        unexplained.push(gaps.fold(0.0, f64::max));
        let delay = |all: &[Outcome]| all[1..].iter().map(|one| one.delays_us.0).sum::<f64>();
        ratios.push(delay(&beside_slow) / delay(&undisturbed));
    }
    Ok(vec![
        Row::new(row, "unexplained", &unexplained),
        Row::new(row, "delay_ratio_beside_slow", &ratios),
    ])
}

/// Runs publisher and subscribers once. Returns what they saw, and the node's processor time in
/// microseconds.
fn measure(load: &Load) -> Result<(Outcome, Vec<Outcome>, f64)> {
    let place = Place::new()?;
    let config = "[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n\
                  [pubsub]\nenabled = true\ndomain = false\n";
    let (mut router, socket) = place.router("pubsub", config)?;
    let socket = nw_api::config::pubsub_path_beside(&socket);
    router.wait_for_listener(&socket)?;
    let before = router.cpu_of_all_threads();
    let start = |words: &[String]| -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().context("can't start a process of the benchmark")
    };
    let path = socket.display().to_string();
    let mut subscribers = Vec::new();
    for at in 0..load.subscribers {
        let pause = if at == 0 { load.slow_us } else { 0 };
        let words =
            ["pubsub-subscribe".into(), path.clone(), load.count.to_string(), pause.to_string()];
        subscribers.push(start(&words)?);
    }
    let words = [
        "pubsub-publish".to_owned(),
        path,
        load.len.to_string(),
        load.count.to_string(),
        load.subscribers.to_string(),
        load.ring_kib.to_string(),
        load.interval_us.to_string(),
        if load.overwrite { "overwrite".into() } else { "wait".into() },
    ];
    let publisher = outcome(start(&words)?)?;
    let received = subscribers.into_iter().map(outcome).collect::<Result<Vec<_>>>()?;
    let node = router.cpu_of_all_threads().saturating_sub(before);
    let is_complete = |one: &Outcome| one.publications == load.count && one.lost == 0;
    ensure!(load.overwrite || received.iter().all(is_complete), "publications were lost");
    Ok((publisher, received, node.as_secs_f64() * 1e6))
}

fn outcome(child: Child) -> Result<Outcome> {
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "a process of the benchmark failed");
    serde_json::from_slice(&output.stdout).context("a process of the benchmark said nothing")
}

/// Returns the processor time of this thread, microseconds.
fn own_cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: Option<f64> = stat.split(' ').next().and_then(|text| text.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1000.0
}

fn unix_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Options of the publishing process.
#[derive(Debug, clap::Args)]
pub struct Publish {
    socket: PathBuf,
    len: usize,
    count: u64,
    subscribers: u32,
    ring_kib: u32,
    interval_us: u64,
    when_full: String,
}

/// Publishes, as a process of its own.
///
/// # Errors
/// If the node can't be reached, or subscribers do not come.
pub fn publish(args: &Publish) -> Result<Outcome> {
    let options =
        PubSubOptions { ring_bytes: args.ring_kib * 1024, ..PubSubOptions::at(&args.socket) };
    let when_full = match args.when_full.as_str() {
        "overwrite" => WhenFull::Overwrite,
        _ => WhenFull::Wait(PATIENCE),
    };
    let mut publisher = Publisher::connect(&options, when_full)?;
    let item = publisher.announce(&NAME.parse::<ItemName>()?, false)?;
    let deadline = Instant::now() + PATIENCE;
    while publisher.subscribers(item)? < args.subscribers {
        ensure!(Instant::now() < deadline, "the subscribers did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut payload = vec![0; args.len];
    let (cpu_us, started) = (own_cpu_us(), Instant::now());
    let mut due = started;
    for _ in 0..args.count {
        if args.interval_us > 0 {
            due += Duration::from_micros(args.interval_us);
            wait_until(due);
            payload[..8].copy_from_slice(&unix_nanoseconds().to_le_bytes());
        }
        publisher.publish(item, &payload)?;
    }
    let elapsed_s = started.elapsed().as_secs_f64();
    let cpu_us = own_cpu_us() - cpu_us;
    publisher.drain(PATIENCE)?;
    Ok(Outcome { publications: args.count, lost: 0, cpu_us, elapsed_s, delays_us: (0.0, 0.0) })
}

/// Sleeps, and turns for the last moment: a sleep is longer than asked for.
fn wait_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        match left {
            Duration::ZERO => return,
            left if left > Duration::from_micros(200) => {
                std::thread::sleep(left - Duration::from_micros(150));
            }
            _ => std::hint::spin_loop(),
        }
    }
}

/// Subscribes until all publications are delivered or told lost, as a process of its own.
///
/// # Errors
/// If the node can't be reached, or nothing comes for long.
pub fn subscribe(socket: &Path, count: u64, pause_us: u64) -> Result<Outcome> {
    let mut subscriber = Subscriber::connect(&PubSubOptions::at(socket))?;
    subscriber.subscribe(&NAME.parse::<ScopePattern>()?, false)?;
    let mut delays = Vec::new();
    let (mut started, mut cpu_us, mut last_byte) = (None, 0.0, 0);
    loop {
        let counts = subscriber.counts();
        if counts.delivered + counts.lost >= count {
            break;
        }
        match subscriber.receive(PATIENCE)? {
            Received::Publication { payload, .. } => {
                if started.is_none() {
                    started = Some(Instant::now());
                    cpu_us = own_cpu_us();
                }
                // All of it has been copied here; the last byte is read as a user would.
                last_byte ^= payload.last().copied().unwrap_or(0);
                let sent = payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                if sent > 0 {
                    delays.push(unix_nanoseconds().saturating_sub(sent) as f64 / 1000.0);
                }
                if pause_us > 0 {
                    std::thread::sleep(Duration::from_micros(pause_us));
                }
            }
            Received::Lost { .. } => {}
            Received::Nothing => anyhow::bail!("nothing arrived for {PATIENCE:?}"),
        }
    }
    std::hint::black_box(last_byte);
    let counts = subscriber.counts();
    delays.sort_by(f64::total_cmp);
    let at = |share: f64| delays.get((delays.len() as f64 * share) as usize).copied();
    Ok(Outcome {
        publications: counts.delivered,
        lost: counts.lost,
        cpu_us: own_cpu_us() - cpu_us,
        elapsed_s: started.map_or(0.0, |started| started.elapsed().as_secs_f64()),
        delays_us: (at(0.5).unwrap_or(0.0), at(0.99).unwrap_or(0.0)),
    })
}
