//! `control/…`: the rate of route changes, their memory, and their effect on forwarding.
//!
//! A router with ten thousand faces gets a million routes by the batch interface, and some by NFD's
//! commands. Meanwhile a client pings another through the router at a steady rate; the reference is
//! the same without changes.

use crate::report::{Row, median};
use crate::transfer::Place;
use anyhow::{Context, Result, ensure};
use nw_api::management::client::{self as message, Uniqueness, decode_items};
use nw_api::management::{ControlParameters, ControlResponse, Dataset, RibEntry, Root, Verb};
use nw_api::rest::{EventLoopStats, RouterStatus};
use nw_app::client::plain_token;
use nw_app::control::{command, dataset, register};
use nw_app::import::import;
use nw_app::{Client, FaceUri};
use nw_element_api::{Kind, LinkFields};
use nw_name::Name;
use nw_packet_types::random::Random;
use nw_wire::{Data, DataBuilder, DigestSha256, InterestBuilder};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const FACES: u64 = 10_000;
const ROUTES: u64 = 1_000_000;
/// Routes registered by commands of NFD's protocol.
const COMMANDS: u64 = 100_000;
const COMMANDS_OPEN: usize = 128;
const PING_INTERVAL: Duration = Duration::from_micros(500);
/// Length of the phase without changes, and of the watch for pauses of the machine.
const QUIET_TIME: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(120);

/// Measures the rows whose name begins with `wanted`, or that `wanted` begins with.
///
/// # Errors
/// If the router does not start, or refuses a command.
pub fn run(wanted: &str) -> Result<Vec<Row>> {
    match wanted {
        "control/management" => management(),
        "control/pause" => pause(),
        _ => batch(),
    }
}

/// Added to [`CONFIG`]: all memory is present from the start, so remaining pauses are the router's
/// own.
const LOCKED: &str = "lock = true\n";

/// Tables for a million routes, and no listener but the Unix socket.
const CONFIG: &str = "[faces.udp]\nlisten = [\"127.0.0.1:0\"]\n[faces.tcp]\nlisten = []\n\
    [tables]\nfib_prefixes = 1200000\nroutes = 1200000\n";

fn connect(socket: &Path) -> Result<Client> {
    let uri: FaceUri = format!("unix://{}", socket.display()).parse()?;
    Ok(Client::connect(&uri)?)
}

fn face_uri(index: u64) -> String {
    format!("udp4://127.{}.{}.{}:6363", 1 + index / 62_500, index / 250 % 250, 1 + index % 250)
}

fn route_name(index: u64) -> Name {
    Name::new()
        .with_generic("net")
        .with_generic(format!("site{}", index / 1000))
        .with_generic(format!("item{}", index % 1000))
}

/// Sends commands with many outstanding. Returns the responses in order of arrival.
fn pipelined(
    client: &mut Client,
    verb: Verb,
    parameters: impl IntoIterator<Item = ControlParameters>,
) -> Result<Vec<ControlResponse>> {
    let mut parameters = parameters.into_iter();
    let mut open: HashMap<Name, ()> = HashMap::new();
    let (mut answers, mut count, mut last) = (Vec::new(), 0u64, Instant::now());
    loop {
        while open.len() < COMMANDS_OPEN {
            let Some(parameters) = parameters.next() else { break };
            count += 1;
            let time_ms =
                std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
            let unique = Uniqueness {
                nonce: count as u32,
                signature_nonce: count.to_be_bytes(),
                time_ms: time_ms as u64,
            };
            let Ok(wire) =
                message::command(Root::Localhost, verb, &parameters, unique, &DigestSha256);
            open.insert(nw_wire::Interest::check(&wire).expect("just made").name().to_name(), ());
            client.send_with(&wire, LinkFields { token: plain_token(), ..LinkFields::default() });
        }
        if open.is_empty() {
            return Ok(answers);
        }
        client.poll(Some(Duration::from_secs(1)), |_, received, _| {
            if received.kind() == Kind::Data && open.remove(received.name().as_bytes()).is_some() {
                last = Instant::now();
                let data = Data::check(received.wire).expect("checked when it came in");
                answers.extend(ControlResponse::decode(data.content()));
            }
        })?;
        ensure!(last.elapsed() < TIMEOUT, "{} commands were not answered", open.len());
    }
}

/// Creates faces to loopback addresses without a peer.
fn make_faces(client: &mut Client) -> Result<Vec<u64>> {
    let wanted = (0..FACES).map(|index| ControlParameters {
        uri: Some(face_uri(index)),
        ..ControlParameters::default()
    });
    let answers = pipelined(client, Verb::FacesCreate, wanted)?;
    let faces: Vec<u64> = answers
        .iter()
        .filter(|answer| answer.is_ok())
        .filter_map(|answer| answer.body.face_id)
        .collect();
    ensure!(faces.len() as u64 == FACES, "{} faces of {FACES}: {:?}", faces.len(), answers.first());
    Ok(faces)
}

fn route(index: u64, faces: &[u64]) -> ControlParameters {
    let face = faces[(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % faces.len()];
    ControlParameters {
        face_id: Some(face),
        cost: Some(10),
        ..ControlParameters::of(route_name(index))
    }
}

fn batch() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let (mut rates, mut per_face, mut per_route, mut listing) = (vec![], vec![], vec![], vec![]);
    for run in 0..3 {
        let (router, socket) = place.router(&format!("batch{run}"), CONFIG)?;
        let mut client = connect(&socket)?;
        let kib = || router.status("VmRSS") as f64 * 1024.0;
        let empty = kib();
        let faces = make_faces(&mut client)?;
        let with_faces = kib();
        let start = Instant::now();
        let count = import(&mut client, (0..ROUTES).map(|index| route(index, &faces)))?;
        rates.push(count as f64 / start.elapsed().as_secs_f64());
        per_face.push((with_faces - empty) / FACES as f64);
        per_route.push((kib() - with_faces) / ROUTES as f64);
        let start = Instant::now();
        let entries: Vec<RibEntry> = decode_items(&dataset(&mut client, Dataset::RibList, None)?)?;
        listing.push(start.elapsed().as_secs_f64());
        ensure!(entries.len() as u64 == ROUTES, "{} routes are listed", entries.len());
    }
    Ok(vec![
        Row::new("control/batch", "routes_per_s", &rates),
        Row::new("control/batch", "bytes_per_route", &per_route),
        Row::new("control/batch", "bytes_per_face", &per_face),
        Row::new("control/batch", "s_to_list_all", &listing),
    ])
}

fn management() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rates = Vec::new();
    for run in 0..3 {
        let (_router, socket) = place.router(&format!("management{run}"), CONFIG)?;
        let mut client = connect(&socket)?;
        let start = Instant::now();
        let routes = (0..COMMANDS).map(|index| ControlParameters::of(route_name(index)));
        let answers = pipelined(&mut client, Verb::RibRegister, routes)?;
        rates.push(COMMANDS as f64 / start.elapsed().as_secs_f64());
        ensure!(answers.iter().all(ControlResponse::is_ok), "some were refused");
    }
    Ok(vec![Row::new("control/management", "routes_per_s", &rates)])
}

/// Round trips through the router, sent at a steady rate.
struct Pings {
    stop: Arc<AtomicBool>,
    producer: thread::JoinHandle<()>,
    consumer: thread::JoinHandle<Result<Vec<f64>>>,
}

impl Pings {
    fn start(socket: &Path, name: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let prefix: Name = format!("/ping/{name}").parse()?;
        let (mut near, mut far) = (connect(socket)?, connect(socket)?);
        register(&mut far, prefix.clone())?;
        let stopped = Arc::clone(&stop);
        let producer = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let answered = far.poll(Some(Duration::from_millis(50)), |_, received, out| {
                    if received.kind() == Kind::Interest {
                        let Ok(wire) =
                            DataBuilder::new(received.name(), b"pong").encode(&DigestSha256);
                        out.answer(&received, &wire);
                    }
                });
                if answered.is_err() {
                    break;
                }
            }
        });
        let stopped = Arc::clone(&stop);
        let consumer = thread::spawn(move || {
            let (mut sent, mut times_us) = (Vec::<Instant>::new(), Vec::new());
            let start = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                let due = start + PING_INTERVAL * sent.len() as u32;
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let name = prefix.clone().with_segment(sent.len() as u64);
                    near.send(
                        &InterestBuilder::new(name)
                            .nonce(sent.len() as u32)
                            .lifetime_ms(10_000)
                            .encode(),
                    );
                    // The due time: a late ping counts as delay.
                    sent.push(due);
                }
                near.poll(Some(left), |_, received, _| {
                    let number = received.name().component(-1).and_then(|number| number.integer());
                    if let Some(sent) = number.and_then(|number| sent.get(number as usize)) {
                        times_us.push(sent.elapsed().as_secs_f64() * 1e6);
                    }
                })?;
            }
            Ok(times_us)
        });
        Ok(Pings { stop, producer, consumer })
    }

    /// Ends the pings and returns their round-trip times in ascending order.
    fn finish(self) -> Result<Vec<f64>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = self.consumer.join().ok().context("the pinging thread ended")??;
        self.producer.join().ok().context("the answering thread ended")?;
        times.sort_by(f64::total_cmp);
        ensure!(!times.is_empty(), "no ping came back");
        Ok(times)
    }
}

/// Reads a router's status from its control socket.
///
/// # Errors
/// If the socket does not answer, or its answer can't be parsed.
pub fn status(socket: &Path) -> Result<RouterStatus> {
    let mut stream = UnixStream::connect(socket.with_extension("control.sock"))?;
    stream.write_all(b"GET /v1/status HTTP/1.0\r\nHost: nw\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer has a body")?;
    Ok(serde_json::from_str(body)?)
}

/// Reads the statistics of the router's event loop.
fn loop_time(socket: &Path) -> Result<EventLoopStats> {
    Ok(status(socket)?.loop_time)
}

/// Returns the quantiles in the order of [`QUANTILES`].
fn quantiles(times: &[f64]) -> [f64; 4] {
    QUANTILES.map(|(_, quantile)| times[((times.len() - 1) as f64 * quantile) as usize])
}

/// Measures pauses that the machine and its hypervisor charge to a running thread: a thread reads
/// and writes at random places of its own memory, all of which was touched before, in steps of some
/// 20 µs. Returns the longest step in microseconds of processor time, and the number of steps over
/// 1 ms.
fn machine_pauses() -> (f64, f64) {
    let cpu_us = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
    };
    let mut memory = vec![1u64; WALK_MIB << 17];
    let (mut random, mut longest, mut slow) = (Random::new(1), 0f64, 0f64);
    let start = Instant::now();
    while start.elapsed() < WALK {
        let before = cpu_us();
        for _ in 0..1_000 {
            let number = random.next_u64();
            let at = number as usize % memory.len();
            memory[at] = memory[at].wrapping_add(number);
        }
        let took = cpu_us() - before;
        longest = longest.max(took);
        slow += f64::from(u8::from(took > 1000.0));
    }
    std::hint::black_box(memory);
    (longest, slow)
}

/// Memory of the reference in MiB, and its duration: about those of a phase of the router.
const WALK_MIB: usize = 1024;
const WALK: Duration = Duration::from_secs(5);
/// Number of routers measured one after the other: pauses of the router occur in each of them,
/// pauses of the machine only in some.
const PAUSE_RUNS: usize = 5;

/// Measurements of one phase.
#[derive(Clone, Copy)]
struct Phase {
    /// Quantiles of round-trip times.
    quantiles: [f64; 4],
    /// Loop iterations of more than a millisecond.
    slow: f64,
    /// Loop iterations with management work that took more than a millisecond of processor time.
    slow_cpu: f64,
    /// Processor time in microseconds of the longest loop iteration with management work since the
    /// start.
    longest_cpu_us: f64,
}

const QUANTILES: [(&str, f64); 4] =
    [("p50_us", 0.5), ("p99_us", 0.99), ("p99.9_us", 0.999), ("max_us", 1.0)];

/// Phases of a router with ten thousand faces, in this order.
const PHASES: [&str; 5] = ["quiet", "import", "inherit", "list", "face_gone"];

fn pause() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let (mut runs, mut longest_us, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..PAUSE_RUNS {
        let (longest, pieces) = machine_pauses();
        longest_us.push(longest);
        slow.push(pieces);
        runs.push(run_phases(&place, &format!("pause{run}"), LOCKED)?);
    }
    let default = run_phases(&place, "pause_default", "")?;
    let (longest_us, slow) = (median(&longest_us), median(&slow));
    let of = |phase: usize, figure: &dyn Fn(&Phase) -> f64| -> Vec<f64> {
        runs.iter().map(|phases| figure(&phases[phase])).collect()
    };
    let mut rows = Vec::new();
    for (phase, what) in PHASES.iter().enumerate().skip(1) {
        let row = format!("control/pause/{what}");
        for (at, (unit, _)) in QUANTILES.iter().enumerate() {
            let quiet = median(&of(0, &|phase| phase.quantiles[at]));
            rows.push(
                Row::new(&row, *unit, &of(phase, &|phase| phase.quantiles[at]))
                    .with_reference(quiet),
            );
        }
        let slow_cpu = of(phase, &|phase| phase.slow_cpu);
        let fewest = slow_cpu.iter().copied().fold(f64::INFINITY, f64::min);
        rows.push(Row::new(&row, "slow_turns", &of(phase, &|phase| phase.slow)));
        rows.push(Row::new(&row, "slow_turns_cpu", &slow_cpu).with_reference(slow));
        // Pauses of the router itself occur in every run.
        rows.push(Row::new(&row, "slow_turns_cpu_fewest", &[fewest]));
    }
    let longest = of(PHASES.len() - 1, &|phase| phase.longest_cpu_us);
    let least = longest.iter().copied().fold(f64::INFINITY, f64::min);
    rows.push(
        Row::new("control/pause", "longest_turn_cpu_us", &longest).with_reference(longest_us),
    );
    rows.push(
        Row::new("control/pause", "longest_turn_cpu_us_least", &[least]).with_reference(longest_us),
    );
    rows.extend(rows_by_the_clock(&default));
    Ok(rows)
}

/// Returns the rows of a router whose memory is not locked, as by default: round trips and slow
/// iterations by the clock, which count pauses of the machine too.
fn rows_by_the_clock(phases: &[Phase]) -> Vec<Row> {
    let quiet = phases[0];
    let of_phase = |(phase, what): (&Phase, &str)| {
        let row = format!("control/pause/default/{what}");
        let quantiles = QUANTILES.iter().zip(phase.quantiles).zip(quiet.quantiles);
        let mut rows: Vec<Row> = quantiles
            .map(|(((unit, _), us), quiet_us)| {
                Row::new(&row, *unit, &[us]).with_reference(quiet_us)
            })
            .collect();
        rows.push(Row::new(&row, "slow_turns", &[phase.slow]).with_reference(quiet.slow));
        rows
    };
    phases.iter().zip(PHASES).skip(1).flat_map(of_phase).collect()
}

/// Runs one router through all phases, with further lines in the section `tables`.
fn run_phases(place: &Place, name: &str, tables: &str) -> Result<Vec<Phase>> {
    let (router, socket) = place.router(name, &[CONFIG, tables].concat())?;
    let mut client = connect(&socket)?;
    let faces = make_faces(&mut client)?;
    let during = |name: &str, work: &mut dyn FnMut() -> Result<()>| -> Result<Phase> {
        let before = loop_time(&socket)?;
        let pings = Pings::start(&socket, name)?;
        work()?;
        let quantiles = quantiles(&pings.finish()?);
        let after = loop_time(&socket)?;
        Ok(Phase {
            quantiles,
            slow: (after.slow_turns - before.slow_turns) as f64,
            slow_cpu: (after.slow_management_turns - before.slow_management_turns) as f64,
            longest_cpu_us: after.longest_management_cpu_ns as f64 / 1e3,
        })
    };
    // A higher cost than the routes of the pings' own prefixes, which inherit it too.
    let root = ControlParameters {
        face_id: Some(faces[0]),
        cost: Some(1000),
        ..ControlParameters::of(Name::new())
    };
    let mut phases = Vec::new();
    for what in PHASES {
        phases.push(during(what, &mut || {
            match what {
                "quiet" => thread::sleep(QUIET_TIME),
                "import" => {
                    import(&mut client, (0..ROUTES).map(|index| route(index, &faces)))?;
                }
                "inherit" => {
                    let answers =
                        pipelined(&mut client, Verb::RibRegister, std::iter::once(root.clone()))?;
                    ensure!(answers[0].is_ok(), "{answers:?}");
                }
                "list" => {
                    dataset(&mut client, Dataset::RibList, None)?;
                    dataset(&mut client, Dataset::FacesList, None)?;
                }
                _ => {
                    let gone = ControlParameters {
                        face_id: Some(faces[0]),
                        ..ControlParameters::default()
                    };
                    command(&mut client, Verb::FacesDestroy, &gone)?;
                    // Applied when another route that the million names inherit is in effect.
                    let other = ControlParameters { face_id: Some(faces[1]), ..root.clone() };
                    pipelined(&mut client, Verb::RibRegister, std::iter::once(other))?;
                }
            }
            Ok(())
        })?);
    }
    drop(router);
    Ok(phases)
}
