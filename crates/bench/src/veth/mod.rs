//! `forward/veth/udp` and `forward/veth/xdp`: small packets through a router between two veth pairs, beside a null forwarder on the same path, which receives and sends the
//! same packets by the same calls and looks nothing up.
//!
//! ```text
//!  asks ══ veth ══ forwarder ══ veth ══ answers        the ends on one processor, what is measured on the other
//! ```
//!
//! Every name is new, so nothing is found in the content store and nothing is aggregated.

pub mod ends;
pub mod null;
mod packets;
pub(crate) mod path;
pub mod xdp;

use crate::process::Running;
use crate::report::{Row, median};
use crate::transfer::Place as Folder;
use anyhow::{Context, Result, ensure};
use ends::Outcome;
use path::{Place, Street};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Repetitions, router and null forwarder in turn.
const RUNS: usize = 7;
const MEASURED: Duration = Duration::from_millis(1500);
/// Before that, with other names: the kernel still clears the pages that a fresh router's tables touch.
const WARM_UP: Duration = Duration::from_millis(1500);
/// Interests on their way at most.
const WINDOW: u64 = 1024;
const PORT: u16 = 6363;
/// For a forwarder to start.
const SETTLE: Duration = Duration::from_millis(200);

/// What a forwarder did.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// Packets, Interest and Data each, that came through in a second.
    packets_per_s: f64,
    /// Processor time for one.
    ns_per_packet: f64,
    /// Share of the time in which its processor worked for it.
    busy: f64,
    lost: f64,
}

/// How packets come to the forwarder and leave it, and to and from the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Udp,
    Xdp,
}

/// The rows; none where a path can't be made.
///
/// # Errors
/// When a forwarder does not start or passes nothing on.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let by = if row.ends_with("/xdp") { By::Xdp } else { By::Udp };
    let folder = Folder::new()?;
    let street = match Street::new() {
        Ok(street) => street,
        Err(error) => {
            eprintln!("{row} is left out: {error:#}");
            return Ok(Vec::new());
        }
    };
    let (mut routed, mut null) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        routed.push(through_router(&folder, &street, by, run)?);
        null.push(through_null(&folder, &street, by)?);
    }
    Ok(report(row, &routed, &null))
}

fn report(row: &str, routed: &[Passed], null: &[Passed]) -> Vec<Row> {
    let figures = |of: &[Passed], figure: fn(&Passed) -> f64| of.iter().map(figure).collect::<Vec<_>>();
    let ratios = |figure: fn(&Passed, &Passed) -> f64| -> Vec<f64> {
        routed.iter().zip(null).map(|(routed, null)| figure(routed, null)).collect()
    };
    let beside = |unit: &str, figure: fn(&Passed) -> f64| {
        Row::new(row, unit, &figures(routed, figure)).beside(median(&figures(null, figure)))
    };
    let lost = |of: &[Passed]| of.iter().map(|passed| passed.lost).sum::<f64>() / of.len() as f64;
    vec![
        Row::new(row, "ratio_to_null", &ratios(|routed, null| routed.packets_per_s / null.packets_per_s))
            .at_least(0.8),
        Row::new(
            row,
            "ratio_to_null_by_cpu",
            &ratios(|routed, null| null.ns_per_packet / routed.ns_per_packet),
        ),
        beside("packets_per_s", |passed| passed.packets_per_s),
        beside("cpu_ns_per_packet", |passed| passed.ns_per_packet),
        beside("busy", |passed| passed.busy),
        Row::new(row, "lost", &[lost(routed)]).beside(lost(null)),
    ]
}

fn through_router(folder: &Folder, street: &Street, by: By, run: usize) -> Result<Passed> {
    let sink = path::end_address(Place::Answerer, PORT);
    let xdp = match by {
        By::Udp => String::new(),
        By::Xdp => format!("[faces.xdp]\ninterfaces = [\"{}\", \"{}\"]\n", path::LEFT, path::RIGHT),
    };
    let config = format!(
        "[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"0.0.0.0:{PORT}\"]\n[forwarder]\nshards = 1\n{xdp}\
         [[route]]\nprefix = \"/veth\"\nface = \"udp4://{sink}\"\n"
    );
    let name = format!("veth{run}{by:?}");
    let (router, _) = folder.router_by(street.forwarder(&folder.nw), &name, &config)?;
    // Its programs are attached behind its first socket, and it learns of neighbours.
    std::thread::sleep(SETTLE);
    measure(folder, street, by, &router)
}

fn through_null(folder: &Folder, street: &Street, by: By) -> Result<Passed> {
    let mut command = street.forwarder(&folder.me);
    match by {
        By::Xdp => command.arg("veth-null-xdp").arg(PORT.to_string()),
        By::Udp => {
            command.arg("veth-null").arg(format!("0.0.0.0:{PORT}"));
            command.args([Place::Asker, Place::Answerer].map(|end| path::end_address(end, PORT).to_string()))
        }
    };
    let null = Running::start("null forwarder", &mut command)?;
    // It is ready within this time; what came before would be asked for again anyway.
    std::thread::sleep(SETTLE);
    measure(folder, street, by, &null)
}

fn measure(folder: &Folder, street: &Street, by: By, forwarder: &Running) -> Result<Passed> {
    ends_run(folder, street, by, WARM_UP)?;
    let (before, started) = (forwarder.cpu(), Instant::now());
    let outcome = ends_run(folder, street, by, MEASURED)?;
    let (cpu, took) = (forwarder.cpu().saturating_sub(before), started.elapsed());
    Ok(Passed {
        packets_per_s: 2.0 * outcome.exchanges as f64 / outcome.seconds,
        ns_per_packet: cpu.as_nanos() as f64 / (2 * outcome.exchanges_in_all) as f64,
        busy: cpu.as_secs_f64() / took.as_secs_f64(),
        lost: outcome.lost as f64 / (outcome.exchanges_in_all + outcome.lost) as f64,
    })
}

fn ends_run(folder: &Folder, street: &Street, by: By, measured: Duration) -> Result<Outcome> {
    // In the namespace of who asks; each end opens its socket in its own.
    let mut command = street.space(Place::Asker).command();
    path::on_processor(&mut command, 0);
    command.arg(&folder.me).arg("veth-ends");
    command.args([Place::Asker, Place::Middle, Place::Answerer].map(|place| street.name(place)));
    command.args([PORT.to_string(), WINDOW.to_string(), measured.as_millis().to_string()]);
    if by == By::Xdp {
        command.arg("--xdp");
    }
    let output = command.stderr(Stdio::inherit()).output().context("can't start the ends")?;
    ensure!(output.status.success(), "the ends failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
