//! `overload/…`: more demand than a link or a table holds.
//!
//! * `overload/bulk/N`: the experiment of "Bulk of Interest" with N files a second, in the simulator;
//!   and, with the rights of root, through real routers in a chain of namespaces, beside NDNd where
//!   `NDND_BIN` names its program.
//! * `overload/others`: a consumer with a fixed window, which ignores marks, beside a download of
//!   this project, over one link: a generator of this project, and with the rights of root NDNd's
//!   client (`NDND_BIN`) and python-ndn (`PYTHON_NDN`).
//! * `overload/attack/NAME`: ten attackers, and what bystanders keep. The router has a processor to
//!   itself, and attackers have a low priority on the others, as if they were on other machines.
//!   What remains of the machine's influence is `router_waited_share`, the part of the time in which
//!   the router waited for its processor; and `attack_per_s` is what was sent. The ratio
//!   says something about the router where it hardly waited.

use crate::process::ChildProcess;
use crate::report::Row;
use crate::transfer::Place;
use anyhow::{Context, Result, bail};
use nw_app::{Client, FaceUri};
use nw_experiments::{Failure, SimulatedChain, Watch, paper_plan, simulate, through_chain};
use nw_name::Name;
use nw_testbed::{Chain, ChainPlan, ChainTransport, LabError, RouterProgram};
use nw_traffic::attack::{AttackPlan, Scenario, StatePeak, attack};
use nw_traffic::bulk::{BulkPlan, BulkResult, download};
use nw_traffic::client_link::ClientLink;
use nw_traffic::generator::{Generator, Limits, Load};
use nw_traffic::link::drive;
use nw_traffic::number_range::NumberRange;
use nw_traffic::workload::{Pattern, Requests, Workload};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Attackers of a row.
const ATTACKERS: usize = 10;
/// Interests per second of each: together about what a processor sends.
const ATTACK_RATE: f64 = 20_000.0;
/// Exchanges per second of the bystanders.
const BYSTANDER_RATE: f64 = 500.0;
/// Time of each phase of an attack.
const ATTACK_TIME: Duration = Duration::from_secs(5);
/// Outstanding Interests of the consumer that ignores marks.
const GREEDY_WINDOW: usize = 1000;
/// Time for which it runs: longer than the download beside it takes.
const GREEDY_TIME: Duration = Duration::from_secs(16);
/// Object that NDNd's client fetches, and its size: more than the link carries in that time.
const GREEDY_NAME: &str = "/other/file";
const GREEDY_BYTES: u64 = 250_000_000;
/// The consumer with python-ndn, also of tests/overload.
const GREEDY_PYTHON: &str = include_str!("../../../tests/overload/greedy_consumer.py");
/// Bytes that the download beside it has: about ten seconds at half of the link.
const OTHER_BYTES: u64 = 60_000_000;

/// Measures the rows. Those that need rights or programs that are missing are left out, with a
/// line that says so.
///
/// # Errors
/// If a router or a testbed fails.
pub fn run(row: &str) -> Result<Vec<Row>> {
    if let Some(files_per_s) = row.strip_prefix("overload/bulk/") {
        return bulk(row, files_per_s.parse()?);
    }
    match row.strip_prefix("overload/attack/") {
        Some(name) => attacked(row, name),
        None => others(row),
    }
}

fn bulk(row: &str, files_per_s: f64) -> Result<Vec<Row>> {
    let simulated =
        simulate(SimulatedChain::paper(files_per_s)).map_err(anyhow::Error::msg)?.summary;
    let or_nan = |value: Option<f64>| [value.unwrap_or(f64::NAN)];
    let mut rows = vec![
        Row::new(row, "goodput_share", &or_nan(simulated.goodput_share)),
        Row::new(row, "retransmitted_share", &[simulated.retransmitted_share]),
        Row::new(row, "pending_in_bdp", &or_nan(simulated.pending_in_bdp)),
        Row::new(row, "time_share", &or_nan(simulated.time_share)),
        Row::new(row, "jain", &[simulated.jain]),
    ];
    let plan = ChainPlan::new(Place::new()?.nw);
    let ndnd = std::env::var_os("NDND_BIN").map(|path| RouterProgram::ndnd(Path::new(&path)));
    for (transport, unit) in [(ChainTransport::Tcp, "tcp"), (ChainTransport::Udp, "udp")] {
        let plan = ChainPlan { transport, ..plan.clone() };
        let Some(own) = chain(row, &plan, "nw", files_per_s)? else { return Ok(rows) };
        let other = match (&ndnd, transport) {
            (Some(router), ChainTransport::Udp) => {
                let plan = ChainPlan { router: router.clone(), ..plan };
                chain(row, &plan, "NDNd", files_per_s)?
            }
            _ => None,
        };
        rows.extend(chain_rows(row, unit, &own, other.as_ref()));
    }
    Ok(rows)
}

/// A value of a run, with its unit.
type Value = (&'static str, fn(&BulkResult) -> f64);

fn chain_rows(row: &str, unit: &str, own: &BulkResult, other: Option<&BulkResult>) -> Vec<Row> {
    let values: [Value; 3] = [
        ("goodput_share", |run| run.summary.goodput_share.unwrap_or(f64::NAN)),
        ("retransmitted_share", |run| run.summary.retransmitted_share),
        ("jain", |run| run.summary.jain),
    ];
    let make = |(name, value): Value| {
        let made = Row::new(row, format!("{name} ({unit})"), &[value(own)]);
        match other {
            Some(other) => made.with_reference(value(other)),
            None => made,
        }
    };
    values.into_iter().map(make).collect()
}

/// Runs one load through a chain. `None` if it can't be built here.
fn chain(row: &str, plan: &ChainPlan, name: &str, files_per_s: f64) -> Result<Option<BulkResult>> {
    let watch = Watch { is_interrupted: &|| false, progress: &|_| {} };
    match through_chain(plan, name, files_per_s, &watch) {
        Ok(result) => Ok(Some(result)),
        Err(Failure::Lab(error @ (LabError::Missing(_) | LabError::Refused { .. }))) => {
            eprintln!("{row}: real routers are left out: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Measures a download beside each consumer with a fixed window. Consumers of others are started
/// where the environment names their programs: `NDND_BIN`, and `PYTHON_NDN`, a Python with
/// python-ndn (`tests/interop/python` prints one).
fn others(row: &str) -> Result<Vec<Row>> {
    let mut rows = beside(row, &Consumer::Own)?;
    let program = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
    let consumers =
        [program("NDND_BIN").map(Consumer::Ndnd), program("PYTHON_NDN").map(Consumer::PythonNdn)];
    for consumer in consumers.into_iter().flatten() {
        rows.extend(beside(row, &consumer)?);
    }
    Ok(rows)
}

/// A consumer that reacts to no mark and no delay.
enum Consumer {
    /// The generator of this project, window 1000.
    Own,
    /// `ndnd cat`, window 100, which it does not change.
    Ndnd(std::path::PathBuf),
    /// A program with python-ndn, window 1000.
    PythonNdn(std::path::PathBuf),
}

impl Consumer {
    fn as_str(&self) -> &'static str {
        match self {
            Consumer::Own => "nw generator",
            Consumer::Ndnd(_) => "NDNd",
            Consumer::PythonNdn(_) => "python-ndn",
        }
    }

    /// Runs it until the download beside it is over, or for [`GREEDY_TIME`].
    fn run(&self, place: &Place, chain: &Chain, downloads: &BulkPlan) -> Result<()> {
        let near = chain.near().uri();
        match self {
            Consumer::Own => greedy(&near, downloads),
            Consumer::Ndnd(program) => {
                let file = place.path("greedy");
                std::fs::File::create(&file)?.set_len(GREEDY_BYTES)?;
                let far = chain.far().uri().to_string();
                let mut put = Command::new(&place.nw);
                put.args(["put", "--socket", &far, GREEDY_NAME]).arg(&file).stdout(Stdio::null());
                let _producer = ChildProcess::start("nw put", &mut put)?;
                let prefix: Name = GREEDY_NAME.parse()?;
                let end = Instant::now() + GREEDY_TIME;
                while !chain.far().has_route(&prefix)? && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(20));
                }
                chain.near().add_route(&prefix, &chain.far_uri(), None)?;
                let mut cat = Command::new(program);
                cat.args(["cat", GREEDY_NAME]).env("NDN_CLIENT_TRANSPORT", near.to_string());
                let _consumer = ChildProcess::start("ndnd cat", cat.stdout(Stdio::null()))?;
                std::thread::sleep(GREEDY_TIME);
                Ok(())
            }
            Consumer::PythonNdn(python) => {
                let seconds = GREEDY_TIME.as_secs().to_string();
                let prefix = downloads.prefix.clone().with_generic("greedy").to_string();
                let window = GREEDY_WINDOW.to_string();
                let mut command = Command::new(python);
                command.args(["-c", GREEDY_PYTHON, &near.to_string(), &prefix, &window, &seconds]);
                ChildProcess::start("python-ndn", command.stdout(Stdio::null()))?
                    .finish(GREEDY_TIME * 3)
            }
        }
    }
}

/// Measures a download beside a consumer.
fn beside(row: &str, consumer: &Consumer) -> Result<Vec<Row>> {
    let place = Place::new()?;
    let plan = ChainPlan { transport: ChainTransport::Udp, ..ChainPlan::new(place.nw.clone()) };
    let mut chain = match Chain::build(&plan) {
        Ok(chain) => chain,
        Err(error @ (LabError::Missing(_) | LabError::Refused { .. })) => {
            eprintln!("{row} is left out: {error}");
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let downloads = BulkPlan { file_bytes: OTHER_BYTES, seconds: 1.0, ..paper_plan(1.0) };
    chain.serve(&downloads.prefix, downloads.payload)?;
    let (own, link_share) = std::thread::scope(|scope| {
        let other = scope.spawn(|| consumer.run(&place, &chain, &downloads));
        // It fills the link before the other one begins.
        std::thread::sleep(Duration::from_secs(3));
        let (before, started) = (chain.received_bytes()?, Instant::now());
        let mut client = Client::connect(&chain.near().uri())?;
        let own = download(&mut client, &downloads, "nw", None, &Mutex::new(None))?;
        let bytes = chain.received_bytes()?.saturating_sub(before);
        let link_share =
            bytes as f64 * 8.0 / started.elapsed().as_secs_f64() / plan.rate_mbit / 1e6;
        other.join().unwrap_or_else(|_| bail!("the other consumer failed"))?;
        anyhow::Ok((own, link_share))
    })?;
    // Half of what the link carries in content.
    let fair_mbit = 0.5 * plan.rate_mbit * 8000.0 / (8070.0 + 6.0 * 64.0);
    let name = consumer.as_str();
    Ok(vec![
        Row::new(row, format!("link_share ({name})"), &[link_share]),
        Row::new(row, format!("fair_share ({name})"), &[own.summary.goodput_mbit / fair_mbit]),
    ])
}

/// Requests new names with a fixed window, for longer than the download takes at its fair share.
fn greedy(router: &FaceUri, downloads: &BulkPlan) -> Result<()> {
    let workload = Workload {
        prefix: downloads.prefix.clone().with_generic("greedy"),
        seed: 7,
        names: 5_000_000,
        pattern: Pattern::Sequential,
        zipf: 0.0,
        components: NumberRange::exactly(6),
        name_len: NumberRange::exactly(60),
        payload: NumberRange::exactly(downloads.payload),
        can_be_prefix: 0.0,
        hit_ratio: None,
    };
    let limits = Limits { packets: None, duration: GREEDY_TIME, lifetime: Duration::from_secs(4) };
    let load = Load::Closed { window: GREEDY_WINDOW };
    let mut generator = Generator::new(&workload, Requests::new(&workload), load, limits, 7);
    drive(&mut ClientLink::new(Client::connect(router)?), &mut generator)?;
    Ok(())
}

/// Processors of this program and of the attacked router: attackers on other machines would not
/// take the router's. Dropping it restores those of this thread.
struct Separation {
    previous: CpuSet,
}

impl Separation {
    /// Binds the router to one processor, and this thread and those that it starts to the others.
    /// `None` if there is only one, or no permission.
    fn of(router: &ChildProcess) -> Option<Self> {
        let previous = sched_getaffinity(None).ok()?;
        let first = (0..CpuSet::MAX_CPU).find(|at| previous.is_set(*at))?;
        let (mut of_router, mut of_others) = (CpuSet::new(), previous);
        of_router.set(first);
        of_others.unset(first);
        let pid = Pid::from_raw(router.id() as i32)?;
        // With one shard, only the main thread forwards.
        let is_bound = of_others.count() > 0
            && sched_setaffinity(Some(pid), &of_router).is_ok()
            && sched_setaffinity(None, &of_others).is_ok();
        is_bound.then_some(Separation { previous })
    }
}

impl Drop for Separation {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.previous);
    }
}

fn attacked(row: &str, name: &str) -> Result<Vec<Row>> {
    let scenario = Scenario::ALL
        .into_iter()
        .find(|scenario| scenario.as_str() == name)
        .context("an unknown attack")?;
    let place = Place::new()?;
    let port = std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let (router, socket) = place.router(
        "attacked",
        &format!("[faces.udp]\nlisten = [\"127.0.0.1:{port}\"]\n[faces.tcp]\nlisten = []\n"),
    )?;
    let plan = AttackPlan {
        scenario,
        router: format!("unix://{}", socket.display()).parse()?,
        attacked: format!("udp4://127.0.0.1:{port}").parse()?,
        attackers: ATTACKERS,
        rate: ATTACK_RATE,
        duration: ATTACK_TIME,
        bystander_rate: BYSTANDER_RATE,
    };
    let separation = Separation::of(&router);
    if separation.is_none() {
        eprintln!("{row}: the router shares its processor with the attackers");
    }
    let memory = || StatePeak { memory_kib: router.status("VmRSS"), ..StatePeak::default() };
    let waited = router.waited();
    let result = attack(&plan, &AtomicBool::new(false), memory)?;
    // Others on this machine delay the router, and so its bystanders.
    let waited = (router.waited() - waited).as_secs_f64() / (3.0 * ATTACK_TIME.as_secs_f64());
    Ok(vec![
        Row::new(row, "bystander_share", &[result.bystander_share]),
        Row::new(row, "rtt_ratio", &[result.rtt_ratio]),
        Row::new(row, "rtt_before_ms", &[result.before.rtt_median_ms]),
        Row::new(row, "rtt_during_ms", &[result.during.rtt_median_ms]),
        Row::new(row, "attack_per_s", &[result.attack.sent as f64 / ATTACK_TIME.as_secs_f64()]),
        Row::new(row, "router_waited_share", &[waited]),
        Row::new(row, "memory_mib", &[result.state.memory_kib as f64 / 1024.0]),
    ])
}
