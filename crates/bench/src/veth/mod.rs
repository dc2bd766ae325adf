//! `forward/veth/udp` and `forward/veth/xdp`: small packets through a router between two veth
//! pairs, against a null forwarder on the same path, which receives and sends the same packets by
//! the same calls without a lookup.
//!
//! ```text
//!  consumer ══ veth ══ forwarder ══ veth ══ producer        the ends on one processor, the forwarder on the other
//! ```
//!
//! Every name is new, so no Interest is answered by the content store or aggregated.

pub mod endpoints;
pub mod null;
mod packets;
pub(crate) mod path;
pub mod xdp;

use crate::process::ChildProcess;
use crate::report::{Row, median};
use crate::transfer::Place as Folder;
use anyhow::{Context, Result, ensure};
use endpoints::Outcome;
use path::{Position, VethPath};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Repetitions, alternately router and null forwarder.
const RUNS: usize = 7;
const MEASURED: Duration = Duration::from_millis(1500);
/// Unmeasured time before, with other names: the kernel clears the pages that a new router's tables
/// touch.
const WARM_UP: Duration = Duration::from_millis(1500);
/// Maximum number of outstanding Interests.
const WINDOW: u64 = 1024;
const PORT: u16 = 6363;
/// Time for a forwarder to start.
const START_TIME: Duration = Duration::from_millis(200);

/// Result of a forwarder.
#[derive(Clone, Copy, Debug)]
struct ForwardResult {
    /// Forwarded packets per second, Interests and Data.
    packets_per_s: f64,
    /// Processor time per packet in microseconds.
    ns_per_packet: f64,
    /// Share of the time in which its processor was busy with it.
    busy: f64,
    lost: f64,
}

/// Kind of sockets of forwarder and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketKind {
    Udp,
    Xdp,
}

/// Measures the rows. Returns none if a path can't be made.
///
/// # Errors
/// If a forwarder does not start or forwards nothing.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let by = if row.ends_with("/xdp") { SocketKind::Xdp } else { SocketKind::Udp };
    let folder = Folder::new()?;
    let path = match VethPath::new() {
        Ok(path) => path,
        Err(error) => {
            eprintln!("{row} is left out: {error:#}");
            return Ok(Vec::new());
        }
    };
    let (mut routed, mut null) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        routed.push(through_router(&folder, &path, by, run)?);
        null.push(through_null(&folder, &path, by)?);
    }
    Ok(report(row, &routed, &null))
}

fn report(row: &str, routed: &[ForwardResult], null: &[ForwardResult]) -> Vec<Row> {
    let figures = |of: &[ForwardResult], figure: fn(&ForwardResult) -> f64| {
        of.iter().map(figure).collect::<Vec<_>>()
    };
    let ratios = |figure: fn(&ForwardResult, &ForwardResult) -> f64| -> Vec<f64> {
        routed.iter().zip(null).map(|(routed, null)| figure(routed, null)).collect()
    };
    let beside = |unit: &str, figure: fn(&ForwardResult) -> f64| {
        Row::new(row, unit, &figures(routed, figure)).with_reference(median(&figures(null, figure)))
    };
    let lost =
        |of: &[ForwardResult]| of.iter().map(|passed| passed.lost).sum::<f64>() / of.len() as f64;
    vec![
        Row::new(
            row,
            "ratio_to_null",
            &ratios(|routed, null| routed.packets_per_s / null.packets_per_s),
        ),
        Row::new(
            row,
            "ratio_to_null_by_cpu",
            &ratios(|routed, null| null.ns_per_packet / routed.ns_per_packet),
        ),
        beside("packets_per_s", |passed| passed.packets_per_s),
        beside("cpu_ns_per_packet", |passed| passed.ns_per_packet),
        beside("busy", |passed| passed.busy),
        Row::new(row, "lost", &[lost(routed)]).with_reference(lost(null)),
    ]
}

fn through_router(
    folder: &Folder,
    path: &VethPath,
    by: SocketKind,
    run: usize,
) -> Result<ForwardResult> {
    let sink = path::end_address(Position::Answerer, PORT);
    let xdp = match by {
        SocketKind::Udp => String::new(),
        SocketKind::Xdp => {
            format!("[faces.xdp]\ninterfaces = [\"{}\", \"{}\"]\n", path::LEFT, path::RIGHT)
        }
    };
    let config = format!(
        "[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"0.0.0.0:{PORT}\"]\n[forwarder]\nshards = 1\n{xdp}\
         [[route]]\nprefix = \"/veth\"\nface = \"udp4://{sink}\"\n"
    );
    let name = format!("veth{run}{by:?}");
    let (router, _) = folder.router_by(path.forwarder(&folder.nw), &name, &config)?;
    // Its programs are attached after its first socket, and neighbours are resolved.
    std::thread::sleep(START_TIME);
    measure(folder, path, by, &router)
}

fn through_null(folder: &Folder, path: &VethPath, by: SocketKind) -> Result<ForwardResult> {
    let mut command = path.forwarder(&folder.me);
    match by {
        SocketKind::Xdp => command.arg("veth-null-xdp").arg(PORT.to_string()),
        SocketKind::Udp => {
            command.arg("veth-null").arg(format!("0.0.0.0:{PORT}"));
            command.args(
                [Position::Downstream, Position::Answerer]
                    .map(|end| path::end_address(end, PORT).to_string()),
            )
        }
    };
    let null = ChildProcess::start("null forwarder", &mut command)?;
    // It is ready within this time; earlier Interests are sent again.
    std::thread::sleep(START_TIME);
    measure(folder, path, by, &null)
}

fn measure(
    folder: &Folder,
    path: &VethPath,
    by: SocketKind,
    forwarder: &ChildProcess,
) -> Result<ForwardResult> {
    ends_run(folder, path, by, WARM_UP)?;
    let (before, started) = (forwarder.cpu(), Instant::now());
    let outcome = ends_run(folder, path, by, MEASURED)?;
    let (cpu, took) = (forwarder.cpu().saturating_sub(before), started.elapsed());
    Ok(ForwardResult {
        packets_per_s: 2.0 * outcome.exchanges as f64 / outcome.seconds,
        ns_per_packet: cpu.as_nanos() as f64 / (2 * outcome.exchanges_in_all) as f64,
        busy: cpu.as_secs_f64() / took.as_secs_f64(),
        lost: outcome.lost as f64 / (outcome.exchanges_in_all + outcome.lost) as f64,
    })
}

fn ends_run(
    folder: &Folder,
    path: &VethPath,
    by: SocketKind,
    measured: Duration,
) -> Result<Outcome> {
    // The process runs in the consumer's namespace; each end opens its socket in its own namespace.
    let mut command = path.space(Position::Downstream).command();
    path::on_processor(&mut command, 0);
    command.arg(&folder.me).arg("veth-ends");
    command.args(
        [Position::Downstream, Position::Middle, Position::Answerer].map(|place| path.name(place)),
    );
    command.args([PORT.to_string(), WINDOW.to_string(), measured.as_millis().to_string()]);
    if by == SocketKind::Xdp {
        command.arg("--xdp");
    }
    let output = command.stderr(Stdio::inherit()).output().context("can't start the ends")?;
    ensure!(output.status.success(), "the ends failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
