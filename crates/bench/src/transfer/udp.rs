//! `transfer/udp/8000`: a bulk transfer through one router to a consumer on the other side of a wire, beside plain datagrams on the same wire.
//!
//! ```text
//!  consumer ══ wire, UDP ══ router ── unix ── producer        what is measured
//!  consumer ══ wire, UDP ══ router                            the same from its content store: two processes, as below
//!  counting ══ wire, UDP ══ sender                            what both are held against
//! ```
//!
//! Segments of 8000 octets are more than a frame of 1500 holds: the plain sender leaves that to IP, the router sends pieces, as the consumer says that it
//! puts them together (decision 0035).

use super::{Place, RUNS, SEGMENTS, SETTLE, Transfer, WINDOW, figures, gbit_per_s};
use crate::ends::Seen;
use crate::plain::Arrived;
use crate::process::Running;
use crate::report::{Row, median};
use crate::wire::Wire;
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Of Ethernet, where segments travel in pieces; and of one that takes them whole.
const MTUS: [usize; 2] = [1500, 9000];
/// Segments of a transfer that the content store has all of.
const STORED: u32 = 30_000;
const PORT: u16 = 6363;
/// The consumer's end, and the router's.
const NEAR: usize = 0;
const FAR: usize = 1;

/// What the plain sender did.
struct Plain {
    arrived: Arrived,
    /// Of the sender.
    cpu: Duration,
}

impl Plain {
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
        rows.extend(report(&name, mtu == MTUS[0], &routed, &stored, &plain));
    }
    Ok(rows)
}

fn report(row: &str, bound: bool, routed: &[Transfer], stored: &[Transfer], plain: &[Plain]) -> Vec<Row> {
    let of_plain = |figure: fn(&Plain) -> f64| plain.iter().map(figure).collect::<Vec<_>>();
    let ratios = |of: &[Transfer]| -> Vec<f64> {
        of.iter().zip(plain).map(|(of, plain)| of.gbit_per_s() / plain.gbit_per_s()).collect()
    };
    let ratio = Row::new(row, "ratio_to_plain", &ratios(routed));
    let cold = figures(routed, |transfer| transfer.cold.as_ref().map_or(f64::NAN, gbit_per_s));
    vec![
        if bound { ratio.at_least(0.8) } else { ratio },
        Row::new(row, "gbit_per_s", &figures(routed, Transfer::gbit_per_s))
            .beside(median(&of_plain(Plain::gbit_per_s))),
        Row::new(row, "cpu_us_per_exchange", &figures(routed, Transfer::cpu_us_per_exchange))
            .beside(median(&of_plain(Plain::cpu_us_per_datagram))),
        Row::new(row, "ratio_to_plain_from_store", &ratios(stored)),
        Row::new(row, "cpu_us_per_exchange_from_store", &figures(stored, Transfer::cpu_us_per_exchange)),
        Row::new(row, "gbit_per_s_cold", &cold),
        Row::new(row, "retransmissions", &figures(routed, |transfer| transfer.seen.retransmissions as f64)),
        Row::new(row, "marks", &figures(routed, |transfer| transfer.seen.marks as f64)),
        Row::new(row, "rtt_us_median", &figures(routed, |transfer| transfer.seen.rtt_us.0 as f64)),
        Row::new(row, "rtt_us_p99", &figures(routed, |transfer| transfer.seen.rtt_us.1 as f64)),
        Row::new(row, "plain_lost", &of_plain(Plain::lost)),
    ]
}

/// A transfer from the producer, and one from the content store.
fn through_router(place: &Place, wire: &Wire, name: &str, len: usize) -> Result<(Transfer, Transfer)> {
    let at = wire.address(FAR, PORT);
    let config = format!("[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"{at}\"]\n");
    let (router, socket) = place.router_by(wire.command(FAR, &place.nw), name, &config)?;
    let near = format!("udp4://{at}");
    let consume = |prefix: &str| -> Result<Seen> {
        let mut command = wire.command(NEAR, &place.me);
        command.arg("consume").arg(&near).arg(prefix).arg(WINDOW.to_string());
        said(&mut command)
    };
    let measured = |prefix: &str, cold| -> Result<Transfer> {
        let before = router.cpu();
        let seen = consume(prefix)?;
        Ok(Transfer { seen, cpu: router.cpu().saturating_sub(before), cold })
    };
    let prefix = format!("/udp/{name}");
    let cold = place.warm_up_by(&socket, &prefix, len, consume)?;
    let producer = place.produce(&socket, &prefix, SEGMENTS, len, true)?;
    std::thread::sleep(SETTLE);
    let transfer = measured(&prefix, Some(cold))?;
    drop(producer);
    let prefix = format!("{prefix}/stored");
    let _producer = place.produce(&socket, &prefix, STORED, len, true)?;
    std::thread::sleep(SETTLE);
    consume(&prefix)?;
    Ok((transfer, measured(&prefix, None)?))
}

fn plain_datagrams(place: &Place, wire: &Wire, len: usize) -> Result<Plain> {
    let (from, to) = (wire.address(FAR, PORT + 1), wire.address(NEAR, PORT + 1));
    let mut command = wire.command(FAR, &place.me);
    command.args(["plain-send", &from.to_string(), &to.to_string()]);
    command.args([SEGMENTS.to_string(), len.to_string(), WINDOW.to_string()]);
    let sender = Running::start("plain sender", &mut command)?;
    let mut command = wire.command(NEAR, &place.me);
    command.args(["plain-count", &to.to_string(), &SEGMENTS.to_string()]);
    let arrived: Arrived = said(&mut command)?;
    Ok(Plain { arrived, cpu: sender.cpu() })
}

/// What a process of this benchmark prints when it has done its work.
fn said<T: serde::de::DeserializeOwned>(command: &mut Command) -> Result<T> {
    let output = command.stderr(Stdio::inherit()).output().context("can't start an end of the transfer")?;
    ensure!(output.status.success(), "an end of the transfer failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}
