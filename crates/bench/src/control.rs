//! `control/…`: how fast routes come in, what they take in memory, and what forwarding feels of it.
//!
//! A router with ten thousand faces; a million routes by the batch path, some by NFD's commands; meanwhile a client pings another through the
//! router at a steady rate, as it did before while nothing changed.

use crate::report::Row;
use crate::transfer::Place;
use anyhow::{Context, Result, ensure};
use nw_api::management::client::{self as message, Uniqueness, decode_items};
use nw_api::management::{ControlParameters, ControlResponse, Dataset, RibEntry, Root, Verb};
use nw_api::rest::{LoopTime, RouterStatus};
use nw_app::control::{command, dataset, register};
use nw_app::import::import;
use nw_app::{Client, FaceUri};
use nw_element::{Kind, LinkFields};
use nw_name::Name;
use nw_wire::{Data, DataBuilder, DigestSha256, InterestBuilder, Token};
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
const PING_EVERY: Duration = Duration::from_micros(500);
/// How long pings go on while nothing changes; and how long it is watched what the machine takes.
const QUIET: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);

/// The rows that `wanted` is a prefix of, or the other way round.
///
/// # Errors
/// When the router does not start, or refuses.
pub fn run(wanted: &str) -> Result<Vec<Row>> {
    match wanted {
        "control/management" => management(),
        "control/pause" => pause(),
        _ => batch(),
    }
}

/// As [`CONFIG`], with all memory there from the start: what pauses are left are the router's own.
const LOCKED: &str = "lock = true\n";

/// Tables for a million routes, and no listener but the unix socket.
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

/// Commands, many on their way; gives the answers in no order.
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
            let time_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
            let unique = Uniqueness {
                nonce: count as u32,
                signature_nonce: count.to_be_bytes(),
                time_ms: time_ms as u64,
            };
            let Ok(wire) = message::command(Root::Localhost, verb, &parameters, unique, &DigestSha256);
            open.insert(nw_wire::Interest::check(&wire).expect("just made").name().to_name(), ());
            let token = Token::new(b"nw").expect("two octets fit");
            client.send_with(&wire, LinkFields { token, ..LinkFields::default() });
        }
        if open.is_empty() {
            return Ok(answers);
        }
        client.turn(Some(Duration::from_secs(1)), |_, received, _| {
            if received.kind() == Kind::Data && open.remove(received.name().as_bytes()).is_some() {
                last = Instant::now();
                let data = Data::check(received.wire).expect("checked when it came in");
                answers.extend(ControlResponse::decode(data.content()));
            }
        })?;
        ensure!(last.elapsed() < PATIENCE, "{} commands were not answered", open.len());
    }
}

/// Makes faces to addresses of this machine where nobody is.
fn make_faces(client: &mut Client) -> Result<Vec<u64>> {
    let wanted = (0..FACES)
        .map(|index| ControlParameters { uri: Some(face_uri(index)), ..ControlParameters::default() });
    let answers = pipelined(client, Verb::FacesCreate, wanted)?;
    let faces: Vec<u64> =
        answers.iter().filter(|answer| answer.is_ok()).filter_map(|answer| answer.body.face_id).collect();
    ensure!(faces.len() as u64 == FACES, "{} faces of {FACES}: {:?}", faces.len(), answers.first());
    Ok(faces)
}

fn route(index: u64, faces: &[u64]) -> ControlParameters {
    let face = faces[(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % faces.len()];
    ControlParameters { face_id: Some(face), cost: Some(10), ..ControlParameters::of(route_name(index)) }
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
        Row::new("control/batch", "routes_per_s", &rates).at_least(100_000.0),
        Row::new("control/batch", "bytes_per_route", &per_route).at_most(640.0),
        Row::new("control/batch", "bytes_per_face", &per_face).at_most(3072.0),
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
    Ok(vec![Row::new("control/management", "routes_per_s", &rates).at_least(20_000.0)])
}

/// Round trips through the router, seen at a steady rate.
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
                let answered = far.turn(Some(Duration::from_millis(50)), |_, received, out| {
                    if received.kind() == Kind::Interest {
                        let Ok(wire) = DataBuilder::new(received.name(), b"pong").encode(&DigestSha256);
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
                let due = start + PING_EVERY * sent.len() as u32;
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let name = prefix.clone().with_segment(sent.len() as u64);
                    near.send(
                        &InterestBuilder::new(name).nonce(sent.len() as u32).lifetime_ms(10_000).encode(),
                    );
                    // When it should have left: a late ping is somebody's delay as well.
                    sent.push(due);
                }
                near.turn(Some(left), |_, received, _| {
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

    /// The times of all that came back, the shortest first.
    fn end(self) -> Result<Vec<f64>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = self.consumer.join().ok().context("the pinging thread ended")??;
        self.producer.join().ok().context("the answering thread ended")?;
        times.sort_by(f64::total_cmp);
        ensure!(!times.is_empty(), "no ping came back");
        Ok(times)
    }
}

/// A router's status, as its control socket tells.
///
/// # Errors
/// When nobody is there, or what it says can't be read.
pub fn status(socket: &Path) -> Result<RouterStatus> {
    let mut stream = UnixStream::connect(socket.with_extension("control.sock"))?;
    stream.write_all(b"GET /v1/status HTTP/1.0\r\nHost: nw\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer has a body")?;
    Ok(serde_json::from_str(body)?)
}

/// How the router's loop has spent its time so far.
fn loop_time(socket: &Path) -> Result<LoopTime> {
    Ok(status(socket)?.loop_time)
}

/// Figures in the order of [`QUANTILES`].
fn quantiles(times: &[f64]) -> [f64; 4] {
    QUANTILES.map(|(_, quantile)| times[((times.len() - 1) as f64 * quantile) as usize])
}

/// The longest stretch of processor time, microseconds, that threads which only count needed for what takes 20 µs, one thread a processor: what
/// machine and hypervisor take and yet charge to whoever runs.
fn lost_us() -> f64 {
    let cpu_us = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
    };
    let count = move || {
        let (start, mut longest, mut before) = (Instant::now(), 0f64, cpu_us());
        while start.elapsed() < QUIET {
            for number in 0..20_000u32 {
                std::hint::black_box(number);
            }
            let after = cpu_us();
            longest = longest.max(after - before);
            before = after;
        }
        longest
    };
    let threads: Vec<_> =
        (0..thread::available_parallelism().map_or(1, usize::from)).map(|_| thread::spawn(count)).collect();
    threads.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).fold(0.0, f64::max)
}

/// What was seen while something was done.
#[derive(Clone, Copy)]
struct Phase {
    /// Of round trips.
    quantiles: [f64; 4],
    /// The longest turn of the router's loop since it started.
    longest_us: f64,
    /// Processor time of the longest turn with management in it, since the router started: what a hypervisor or other programs took is not in it.
    longest_cpu_us: f64,
    /// Turns of more than a millisecond, in a hundred.
    slow_percent: f64,
}

const QUANTILES: [(&str, f64); 4] = [("p50_us", 0.5), ("p99_us", 0.99), ("p99.9_us", 0.999), ("max_us", 1.0)];

fn pause() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let (router, socket) = place.router("pause", &[CONFIG, LOCKED].concat())?;
    let mut client = connect(&socket)?;
    let faces = make_faces(&mut client)?;
    let during = |name: &str, work: &mut dyn FnMut() -> Result<()>| -> Result<Phase> {
        let before = loop_time(&socket)?;
        let pings = Pings::start(&socket, name)?;
        work()?;
        let quantiles = quantiles(&pings.end()?);
        let after = loop_time(&socket)?;
        let slow = (after.slow_turns - before.slow_turns) as f64 / (after.turns - before.turns) as f64;
        Ok(Phase {
            quantiles,
            longest_us: after.longest_ns as f64 / 1e3,
            longest_cpu_us: after.longest_management_cpu_ns as f64 / 1e3,
            slow_percent: 100.0 * slow,
        })
    };
    let quiet = during("quiet", &mut || {
        thread::sleep(QUIET);
        Ok(())
    })?;
    let lost_us = lost_us();
    let mut rows = Vec::new();
    let mut report = |what: &str, seen: Phase| {
        let row = format!("control/pause/{what}");
        for (((unit, _), seen), quiet) in QUANTILES.iter().zip(seen.quantiles).zip(quiet.quantiles) {
            rows.push(Row::new(&row, *unit, &[seen]).beside(quiet));
        }
        rows.push(Row::new(&row, "longest_turn_us", &[seen.longest_us]).beside(quiet.longest_us));
        rows.push(
            Row::new(&row, "longest_turn_cpu_us", &[seen.longest_cpu_us]).beside(lost_us).at_most(1000.0),
        );
        rows.push(Row::new(&row, "slow_turns_percent", &[seen.slow_percent]).beside(quiet.slow_percent));
    };
    report(
        "import",
        during("import", &mut || {
            import(&mut client, (0..ROUTES).map(|index| route(index, &faces)))?;
            Ok(())
        })?,
    );
    // Dearer than what the pings' own prefixes have, which inherit it too.
    let root =
        ControlParameters { face_id: Some(faces[0]), cost: Some(1000), ..ControlParameters::of(Name::new()) };
    report(
        "inherit",
        during("inherit", &mut || {
            let parameters = std::iter::once(root.clone());
            let answers = pipelined(&mut client, Verb::RibRegister, parameters)?;
            ensure!(answers[0].is_ok(), "{answers:?}");
            Ok(())
        })?,
    );
    report(
        "list",
        during("list", &mut || {
            dataset(&mut client, Dataset::RibList, None)?;
            dataset(&mut client, Dataset::FacesList, None)?;
            Ok(())
        })?,
    );
    report(
        "face_gone",
        during("gone", &mut || {
            let gone = ControlParameters { face_id: Some(faces[0]), ..ControlParameters::default() };
            command(&mut client, Verb::FacesDestroy, &gone)?;
            // Settled when a route that the million names inherit once more is in effect.
            let other = ControlParameters { face_id: Some(faces[1]), ..root.clone() };
            pipelined(&mut client, Verb::RibRegister, std::iter::once(other))?;
            Ok(())
        })?,
    );
    drop(router);
    Ok(rows)
}
