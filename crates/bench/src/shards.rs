//! `shards/…`: the gain of a second shard. In memory, two planes against one; over UDP, a router
//! with two threads against one with one.

use crate::control::status;
use crate::forward;
use crate::report::{Row, median};
use crate::transfer::{Place, free_udp_port};
use anyhow::{Context, Result, ensure};
use nw_api::rest::RouterStatus;
use std::path::Path;
use std::process::{Command, Stdio};

/// Repetitions, alternately with one shard and two.
const RUNS: usize = 5;
/// Number of names, more than a run requests, so that no name is cached.
const NAMES: &str = "1000000";
const SECONDS: &str = "3";
/// Outstanding Interests.
const WINDOW: &str = "256";

/// Packet sizes of a run. They are small, because the packet rate is measured.
struct Sizes {
    /// Suffix of the row's name.
    suffix: &'static str,
    name: &'static str,
    content: &'static str,
}

/// The kernel merges datagrams of equal length (GRO), also over loopback, and delivers a whole
/// batch to the shard of its first datagram. So the row is measured with equal lengths, and with
/// lengths that leave few batches.
const SIZES: [Sizes; 2] = [
    Sizes { suffix: "/equal", name: "60", content: "100" },
    Sizes { suffix: "/various", name: "50-90", content: "50-150" },
];

/// Measures the rows.
///
/// # Errors
/// If a router does not start, or loses packets.
pub fn run(row: &str) -> Result<Vec<Row>> {
    match row {
        "shards/udp" => {
            let place = Place::new()?;
            let rows: Result<Vec<_>> = SIZES.iter().map(|sizes| udp(&place, row, sizes)).collect();
            Ok(rows?.concat())
        }
        _ => Ok(forward::run(row)),
    }
}

/// Results of a router under load.
struct LoadResult {
    ns_per_packet: f64,
    packets_per_s: f64,
    /// Share of received packets that arrived at another shard than their own.
    handed_over: f64,
}

fn udp(place: &Place, row: &str, sizes: &Sizes) -> Result<Vec<Row>> {
    let row = &format!("{row}{}", sizes.suffix);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        one.push(load_router(place, run, 1, sizes)?);
        two.push(load_router(place, run, 2, sizes)?);
    }
    let figures = |of: &[LoadResult], figure: fn(&LoadResult) -> f64| {
        of.iter().map(figure).collect::<Vec<_>>()
    };
    let beside = |unit: &str, figure: fn(&LoadResult) -> f64| {
        Row::new(row, unit, &figures(&two, figure)).with_reference(median(&figures(&one, figure)))
    };
    Ok(vec![
        beside("ns_per_packet", |loaded| loaded.ns_per_packet),
        beside("packets_per_s", |loaded| loaded.packets_per_s),
        Row::new(row, "handed_over", &figures(&two, |loaded| loaded.handed_over)),
    ])
}

/// Measures a router with this many shards between a consumer and a producer, each with one UDP
/// socket.
fn load_router(place: &Place, run: usize, shards: usize, sizes: &Sizes) -> Result<LoadResult> {
    let port = free_udp_port()?;
    let config = format!(
        "[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"127.0.0.1:{port}\"]\n[forwarder]\nshards = {shards}\n"
    );
    let (mut router, socket) = place
        .router(&format!("shards{shards}-{run}{}", sizes.suffix.replace('/', "-")), &config)?;
    router.wait_for_listener(&socket.with_extension("control.sock"))?;
    let (before, cpu) = (status(&socket)?, router.cpu_of_all_threads());
    let outcome = generate(place, port, &socket, sizes)?;
    let cpu = router.cpu_of_all_threads().saturating_sub(cpu);
    let after = status(&socket)?;
    let count = |status: &RouterStatus| status.forwarder.in_interests + status.forwarder.in_data;
    let packets = count(&after) - count(&before);
    let handed_over: u64 = after.shards.iter().map(|shard| shard.handed_over).sum();
    ensure!(outcome.lost * 100 < outcome.asked, "{} of {} were lost", outcome.lost, outcome.asked);
    Ok(LoadResult {
        ns_per_packet: cpu.as_nanos() as f64 / packets as f64,
        packets_per_s: packets as f64 / outcome.seconds,
        handed_over: handed_over as f64 / packets as f64,
    })
}

/// The fields of the output of `nw bench --json` that are used here.
#[derive(serde::Deserialize)]
struct Generated {
    seconds: f64,
    asked: u64,
    lost: u64,
}

/// Runs `nw bench` at the router's UDP port.
fn generate(place: &Place, port: u16, socket: &Path, sizes: &Sizes) -> Result<Generated> {
    let output = Command::new(&place.nw)
        .args(["bench", "run", "--json", "--pattern", "sequential"])
        .args(["--names", NAMES, "--seconds", SECONDS, "--window", WINDOW])
        .args(["--name-bytes", sizes.name, "--payload", sizes.content])
        .args(["--socket", &format!("udp4://127.0.0.1:{port}")])
        .args(["--control", &format!("unix://{}", socket.display())])
        .stderr(Stdio::inherit())
        .output()
        .context("can't start nw bench")?;
    ensure!(output.status.success(), "nw bench failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
