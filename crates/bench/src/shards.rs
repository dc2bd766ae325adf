//! `shards/…`: what a second shard brings. In memory, two planes beside one; over UDP, a router with two threads beside one with one.

use crate::control::status;
use crate::forward;
use crate::report::{Row, median};
use crate::transfer::{Place, free_udp_port};
use anyhow::{Context, Result, ensure};
use nw_api::rest::RouterStatus;
use std::path::Path;
use std::process::{Command, Stdio};

/// Repetitions, one shard and two in turn.
const RUNS: usize = 5;
/// Each asked for once until all were, so that no cache has any; more than a run asks for.
const NAMES: &str = "1000000";
const SECONDS: &str = "3";
/// Interests that wait at a time.
const WINDOW: &str = "256";

/// Packets of some sizes: small ones, as packets and not octets are what this is about.
struct Sizes {
    /// Behind the row's name.
    suffix: &'static str,
    name: &'static str,
    content: &'static str,
}

/// Datagrams of equal length travel in runs, over loopback too, and the kernel brings a whole run to the shard of its first one. So the row is
/// measured with those, and with lengths that leave hardly any run.
const SIZES: [Sizes; 2] = [
    Sizes { suffix: "/equal", name: "60", content: "100" },
    Sizes { suffix: "/various", name: "50-90", content: "50-150" },
];

/// The rows.
///
/// # Errors
/// When a router does not start, or loses what it was sent.
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

/// What a router did with its load.
struct Loaded {
    ns_per_packet: f64,
    packets_per_s: f64,
    /// Packets that came in at a shard whose they were not, of all that came in.
    handed_over: f64,
}

fn udp(place: &Place, row: &str, sizes: &Sizes) -> Result<Vec<Row>> {
    let row = &format!("{row}{}", sizes.suffix);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        one.push(loaded(place, run, 1, sizes)?);
        two.push(loaded(place, run, 2, sizes)?);
    }
    let figures = |of: &[Loaded], figure: fn(&Loaded) -> f64| of.iter().map(figure).collect::<Vec<_>>();
    let beside = |unit: &str, figure: fn(&Loaded) -> f64| {
        Row::new(row, unit, &figures(&two, figure)).beside(median(&figures(&one, figure)))
    };
    Ok(vec![
        beside("ns_per_packet", |loaded| loaded.ns_per_packet),
        beside("packets_per_s", |loaded| loaded.packets_per_s),
        Row::new(row, "handed_over", &figures(&two, |loaded| loaded.handed_over)),
    ])
}

/// A router with so many shards between a consumer and a producer, one UDP socket each.
fn loaded(place: &Place, run: usize, shards: usize, sizes: &Sizes) -> Result<Loaded> {
    let port = free_udp_port()?;
    let config = format!(
        "[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"127.0.0.1:{port}\"]\n[forwarder]\nshards = {shards}\n"
    );
    let (mut router, socket) =
        place.router(&format!("shards{shards}-{run}{}", sizes.suffix.replace('/', "-")), &config)?;
    router.wait_for_listener(&socket.with_extension("control.sock"))?;
    let (before, cpu) = (status(&socket)?, router.cpu_of_all_threads());
    let outcome = generate(place, port, &socket, sizes)?;
    let cpu = router.cpu_of_all_threads().saturating_sub(cpu);
    let after = status(&socket)?;
    let count = |status: &RouterStatus| status.forwarder.in_interests + status.forwarder.in_data;
    let packets = count(&after) - count(&before);
    let handed_over: u64 = after.shards.iter().map(|shard| shard.handed_over).sum();
    ensure!(outcome.lost * 100 < outcome.asked, "{} of {} were lost", outcome.lost, outcome.asked);
    Ok(Loaded {
        ns_per_packet: cpu.as_nanos() as f64 / packets as f64,
        packets_per_s: packets as f64 / outcome.seconds,
        handed_over: handed_over as f64 / packets as f64,
    })
}

/// What `nw bench --json` says, as far as it is needed here.
#[derive(serde::Deserialize)]
struct Generated {
    seconds: f64,
    asked: u64,
    lost: u64,
}

/// `nw bench` at the router's UDP port.
fn generate(place: &Place, port: u16, socket: &Path, sizes: &Sizes) -> Result<Generated> {
    let output = Command::new(&place.nw)
        .args(["bench", "run", "--json", "--pattern", "sequential"])
        .args(["--names", NAMES, "--seconds", SECONDS, "--window", WINDOW])
        .args(["--name-octets", sizes.name, "--payload", sizes.content])
        .args(["--socket", &format!("udp4://127.0.0.1:{port}")])
        .args(["--control", &format!("unix://{}", socket.display())])
        .stderr(Stdio::inherit())
        .output()
        .context("can't start nw bench")?;
    ensure!(output.status.success(), "nw bench failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
