//! `transfer/udp/8000`: a bulk transfer through one router to a consumer over a veth pair, against
//! plain datagrams on the same pair.
//!
//! ```text
//!  consumer ══ veth, UDP ══ router ── Unix ── producer        measured
//!  consumer ══ veth, UDP ══ router                            the same from its content store: two processes, as below
//!  receiver ══ veth, UDP ══ sender                            the reference of both
//! ```
//!
//! Segments of 8000 bytes do not fit a frame of 1500 bytes: IP fragments the plain datagrams, the
//! router sends NDNLPv2 fragments, because the consumer announces that it reassembles them
//! (decision 0035).

use super::{CONNECT_TIME, Place, RUNS, SEGMENTS, Series, Transfer, WINDOW, figures, gbit_per_s};
use crate::endpoints::TransferStats;
use crate::process::ChildProcess;
use crate::report::{Row, median};
use crate::udp_baseline::ReceiveStats;
use crate::wire::Wire;
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};
use std::time::Duration;

/// MTU of Ethernet, with fragments; and one that takes whole segments.
const MTUS: [usize; 2] = [1500, 9000];
/// Segments of a transfer from the content store.
const STORED: u32 = 30_000;
const PORT: u16 = 6363;
/// The end of the consumer, and that of the router.
const CONSUMER: usize = 0;
const ROUTER: usize = 1;

/// Result of the plain sender.
struct DatagramResult {
    arrived: ReceiveStats,
    /// Processor time of the sender.
    cpu: Duration,
}

impl DatagramResult {
    fn gbit_per_s(&self) -> f64 {
        self.arrived.bytes as f64 * 8.0 / self.arrived.seconds / 1e9
    }

    fn cpu_us_per_datagram(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / f64::from(SEGMENTS)
    }

    fn lost(&self) -> f64 {
        1.0 - self.arrived.datagrams as f64 / f64::from(SEGMENTS)
    }
}

/// The rows; none where a wire can't be made.
pub fn run(row: &str, len: usize) -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    for mtu in MTUS {
        let wire = match Wire::new(mtu) {
            Ok(wire) => wire,
            Err(error) => {
                eprintln!("{row} is left out: {error:#}");
                return Ok(rows);
            }
        };
        let (mut routed, mut stored, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..RUNS {
            let (transfer, store) = through_router(&place, &wire, &format!("udp{mtu}-{run}"), len)?;
            routed.push(transfer);
            stored.push(store);
            plain.push(plain_datagrams(&place, &wire, len)?);
        }
        let name = if mtu == MTUS[0] { row.to_owned() } else { format!("{row}/mtu{mtu}") };
        rows.extend(report(&name, &routed, &stored, &plain));
    }
    Ok(rows)
}

fn report(
    row: &str,
    routed: &[Transfer],
    stored: &[Transfer],
    plain: &[DatagramResult],
) -> Vec<Row> {
    let of_plain =
        |figure: fn(&DatagramResult) -> f64| plain.iter().map(figure).collect::<Vec<_>>();
    let ratios = |of: &[Transfer]| -> Vec<f64> {
        of.iter().zip(plain).map(|(of, plain)| of.gbit_per_s() / plain.gbit_per_s()).collect()
    };
    let ratio = Row::new(row, "ratio_to_plain", &ratios(routed));
    let cold = figures(routed, |transfer| transfer.cold.as_ref().map_or(f64::NAN, gbit_per_s));
    vec![
        ratio,
        Row::new(row, "gbit_per_s", &figures(routed, Transfer::gbit_per_s))
            .with_reference(median(&of_plain(DatagramResult::gbit_per_s))),
        Row::new(row, "cpu_us_per_exchange", &figures(routed, Transfer::cpu_us_per_exchange))
            .with_reference(median(&of_plain(DatagramResult::cpu_us_per_datagram))),
        Row::new(row, "ratio_to_plain_from_store", &ratios(stored)),
        Row::new(
            row,
            "cpu_us_per_exchange_from_store",
            &figures(stored, Transfer::cpu_us_per_exchange),
        ),
        Row::new(row, "gbit_per_s_cold", &cold),
        Row::new(
            row,
            "retransmissions",
            &figures(routed, |transfer| transfer.seen.retransmissions as f64),
        ),
        Row::new(row, "marks", &figures(routed, |transfer| transfer.seen.marks as f64)),
        Row::new(row, "rtt_us_median", &figures(routed, |transfer| transfer.seen.rtt_us.0 as f64)),
        Row::new(row, "rtt_us_p99", &figures(routed, |transfer| transfer.seen.rtt_us.1 as f64)),
        Row::new(row, "plain_lost", &of_plain(DatagramResult::lost)),
    ]
}

/// Measures a transfer from the producer, and one from the content store.
fn through_router(
    place: &Place,
    wire: &Wire,
    name: &str,
    len: usize,
) -> Result<(Transfer, Transfer)> {
    let at = wire.address(ROUTER, PORT);
    let config = format!("[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"{at}\"]\n");
    let (router, socket) = place.router_by(wire.command(ROUTER, &place.nw), name, &config)?;
    let near = format!("udp4://{at}");
    let consume = |prefix: &str| -> Result<TransferStats> {
        let mut command = wire.command(CONSUMER, &place.me);
        command.arg("consume").arg(&near).arg(prefix).arg(WINDOW.to_string());
        run_for_json(&mut command)
    };
    let measured = |prefix: &str, cold| -> Result<Transfer> {
        let before = router.cpu();
        let seen = consume(prefix)?;
        Ok(Transfer { seen, cpu: router.cpu().saturating_sub(before), cold })
    };
    let prefix = format!("/udp/{name}");
    let cold = place.warm_up_by(&socket, &prefix, len, consume)?;
    let producer = place.produce(&socket, &Series::new(&prefix, SEGMENTS, len), true)?;
    std::thread::sleep(CONNECT_TIME);
    let transfer = measured(&prefix, Some(cold))?;
    drop(producer);
    let prefix = format!("{prefix}/stored");
    let _producer = place.produce(&socket, &Series::new(&prefix, STORED, len), true)?;
    std::thread::sleep(CONNECT_TIME);
    consume(&prefix)?;
    Ok((transfer, measured(&prefix, None)?))
}

fn plain_datagrams(place: &Place, wire: &Wire, len: usize) -> Result<DatagramResult> {
    let (from, to) = (wire.address(ROUTER, PORT + 1), wire.address(CONSUMER, PORT + 1));
    let mut command = wire.command(ROUTER, &place.me);
    command.args(["plain-send", &from.to_string(), &to.to_string()]);
    command.args([SEGMENTS.to_string(), len.to_string(), WINDOW.to_string()]);
    let sender = ChildProcess::start("plain sender", &mut command)?;
    let mut command = wire.command(CONSUMER, &place.me);
    command.args(["plain-count", &to.to_string(), &SEGMENTS.to_string()]);
    let arrived: ReceiveStats = run_for_json(&mut command)?;
    Ok(DatagramResult { arrived, cpu: sender.cpu() })
}

/// Runs a process of this benchmark and parses the result that it prints.
fn run_for_json<T: serde::de::DeserializeOwned>(command: &mut Command) -> Result<T> {
    let output =
        command.stderr(Stdio::inherit()).output().context("can't start an end of the transfer")?;
    ensure!(output.status.success(), "an end of the transfer failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
