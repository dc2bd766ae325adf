//! `transfer/…`: bulk transfers through real routers over real sockets, against a relay between the
//! same two programs.

use crate::endpoints::TransferStats;
use crate::process::ChildProcess;
use crate::report::Row;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

mod udp;

/// Segments of a measured transfer: 800 MB in segments of 8000 bytes, about a second.
const SEGMENTS: u32 = 100_000;
/// Unmeasured segments that fill the content store first: the kernel zeroes its pages on first use.
pub(crate) const WARM_UP_SEGMENTS: u32 = 36_000;
/// Repetitions, alternately with the reference.
const RUNS: usize = 7;
/// Maximum number of outstanding Interests.
const WINDOW: usize = 128;

/// Binaries and folder of a benchmark.
#[derive(Debug)]
pub struct Place {
    /// The `nw` binary.
    pub nw: PathBuf,
    /// The `nw-bench` binary.
    pub me: PathBuf,
    /// Folder of sockets and configurations.
    pub folder: tempfile::TempDir,
}

impl Place {
    /// Finds `nw` beside this binary, and creates a folder.
    ///
    /// # Errors
    /// If the `nw` binary is missing.
    pub fn new() -> Result<Self> {
        let me = std::env::current_exe()?;
        let nw = me.with_file_name("nw");
        anyhow::ensure!(
            nw.exists(),
            "{} is not there: cargo build --release -p nw-cli",
            nw.display()
        );
        Ok(Place { nw, me, folder: tempfile::tempdir()? })
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a router with its own listeners and an otherwise default configuration.
    ///
    /// # Errors
    /// If it does not start.
    pub fn router(&self, name: &str, more: &str) -> Result<(ChildProcess, PathBuf)> {
        self.router_by(Command::new(&self.nw), name, more)
    }

    /// Starts a router like [`router`](Self::router), with a prepared command for `nw`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn router_by(
        &self,
        mut nw: Command,
        name: &str,
        more: &str,
    ) -> Result<(ChildProcess, PathBuf)> {
        let socket = self.path(&format!("{name}.sock"));
        let config = self.path(&format!("{name}.toml"));
        std::fs::write(
            &config,
            format!("[faces.unix]\npath = {socket:?}\n[log]\nlevel = \"warn\"\n{more}"),
        )?;
        nw.arg("run").arg("--config").arg(&config).stdout(Stdio::null());
        let mut router = ChildProcess::start(name, &mut nw)?;
        router.wait_for_listener(&socket)?;
        Ok((router, socket))
    }

    /// Fills the content stores. Returns the consumer's result, a transfer into empty tables.
    fn warm_up(&self, near: &Path, far: &Path, prefix: &str, len: usize) -> Result<TransferStats> {
        self.warm_up_by(far, prefix, len, |prefix| self.consume(near, prefix))
    }

    /// Fills the content stores like [`warm_up`](Self::warm_up), with a prepared command of the
    /// consumer.
    fn warm_up_by(
        &self,
        far: &Path,
        prefix: &str,
        len: usize,
        consume: impl Fn(&str) -> Result<TransferStats>,
    ) -> Result<TransferStats> {
        let prefix = format!("{prefix}/warm-up");
        let _producer = self.produce(far, &Series::new(&prefix, WARM_UP_SEGMENTS, len), true)?;
        std::thread::sleep(CONNECT_TIME);
        consume(&prefix)
    }

    pub(crate) fn produce(
        &self,
        router: impl AsRef<OsStr>,
        series: &Series<'_>,
        register: bool,
    ) -> Result<ChildProcess> {
        let Series { prefix, segments, len, freshness_ms } = series;
        let mut command = Command::new(&self.me);
        command
            .arg("produce")
            .arg(router)
            .arg(prefix)
            .arg(segments.to_string())
            .arg(len.to_string());
        command.arg("--freshness-ms").arg(freshness_ms.to_string());
        if !register {
            command.arg("--no-register");
        }
        ChildProcess::start("producer", &mut command)
    }

    pub(crate) fn consume(&self, router: impl AsRef<OsStr>, prefix: &str) -> Result<TransferStats> {
        let output = Command::new(&self.me)
            .arg("consume")
            .arg(router)
            .arg(prefix)
            .arg(WINDOW.to_string())
            .stderr(Stdio::inherit())
            .output()
            .context("can't start the consumer")?;
        anyhow::ensure!(output.status.success(), "the consumer failed: {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// A series of segments that a producer serves.
pub(crate) struct Series<'a> {
    prefix: &'a str,
    segments: u32,
    /// Bytes of content of each segment.
    len: usize,
    /// FreshnessPeriod. A content store of µNDN does not cache Data with 0.
    freshness_ms: u64,
}

impl<'a> Series<'a> {
    /// Creates a series that content stores may cache.
    pub(crate) const fn new(prefix: &'a str, segments: u32, len: usize) -> Self {
        Series { prefix, segments, len, freshness_ms: 1000 }
    }

    /// Sets the FreshnessPeriod.
    pub(crate) const fn freshness_ms(self, freshness_ms: u64) -> Self {
        Series { freshness_ms, ..self }
    }
}

/// One transfer: the consumer's result, and the processor time of the routers.
#[derive(Clone, Debug)]
struct Transfer {
    seen: TransferStats,
    cpu: Duration,
    /// Result of the transfer into empty tables.
    cold: Option<TransferStats>,
}

impl Transfer {
    fn gbit_per_s(&self) -> f64 {
        gbit_per_s(&self.seen)
    }

    fn cpu_us_per_exchange(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.seen.segments as f64
    }
}

pub(crate) fn gbit_per_s(seen: &TransferStats) -> f64 {
    seen.bytes as f64 * 8.0 / seen.seconds / 1e9
}

/// Time for a producer without registration to connect.
pub(crate) const CONNECT_TIME: Duration = Duration::from_millis(150);

fn through_relay(place: &Place, run: usize, len: usize) -> Result<Transfer> {
    let socket = place.path(&format!("relay{run}.sock"));
    let mut relay =
        ChildProcess::start("relay", Command::new(&place.me).arg("relay").arg(&socket))?;
    relay.wait_for(&socket)?;
    let prefix = format!("/relay/v={run}");
    let _producer = place.produce(&socket, &Series::new(&prefix, SEGMENTS, len), false)?;
    std::thread::sleep(CONNECT_TIME);
    let before = relay.cpu();
    // The relay ends when the consumer closes its connection, so its processor time is read just
    // before.
    let seen = place.consume(&socket, &prefix)?;
    let cpu = relay.cpu().saturating_sub(before);
    Ok(Transfer { seen, cpu, cold: None })
}

fn through_unix(place: &Place, run: usize, len: usize) -> Result<Transfer> {
    let (router, socket) = place
        .router(&format!("unix{run}"), "[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n")?;
    let prefix = format!("/unix/v={run}");
    let cold = place.warm_up(&socket, &socket, &prefix, len)?;
    let _producer = place.produce(&socket, &Series::new(&prefix, SEGMENTS, len), true)?;
    std::thread::sleep(CONNECT_TIME);
    let before = router.cpu();
    let seen = place.consume(&socket, &prefix)?;
    Ok(Transfer { seen, cpu: router.cpu().saturating_sub(before), cold: Some(cold) })
}

fn through_udp_chain(place: &Place, run: usize, len: usize) -> Result<Transfer> {
    let port = free_udp_port()?;
    let tcp_off = "[faces.tcp]\nlisten = []\n";
    let (far, far_socket) = place.router(
        &format!("far{run}"),
        &format!("{tcp_off}[faces.udp]\nlisten = [\"127.0.0.1:{port}\"]\n"),
    )?;
    let near_config = format!(
        "{tcp_off}[faces.udp]\nlisten = [\"127.0.0.1:{}\"]\n[[route]]\nprefix = \"/udp\"\nface = \"udp4://127.0.0.1:{port}\"\n",
        free_udp_port()?
    );
    let (near, near_socket) = place.router(&format!("near{run}"), &near_config)?;
    let prefix = format!("/udp/v={run}");
    let cold = place.warm_up(&near_socket, &far_socket, &prefix, len)?;
    let _producer = place.produce(&far_socket, &Series::new(&prefix, SEGMENTS, len), true)?;
    std::thread::sleep(CONNECT_TIME);
    let before = near.cpu() + far.cpu();
    let seen = place.consume(&near_socket, &prefix)?;
    Ok(Transfer { seen, cpu: (near.cpu() + far.cpu()).saturating_sub(before), cold: Some(cold) })
}

/// Returns a free UDP port.
///
/// # Errors
/// If there is none.
pub fn free_udp_port() -> Result<u16> {
    Ok(std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn figures(transfers: &[Transfer], figure: impl Fn(&Transfer) -> f64) -> Vec<f64> {
    transfers.iter().map(figure).collect()
}

/// Measures the rows.
///
/// # Errors
/// If a process does not start, or a transfer fails.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let Some(len) = row.rsplit('/').next().and_then(|len| len.parse().ok()) else {
        return Ok(Vec::new());
    };
    if row.starts_with("transfer/udp/") {
        return udp::run(row, len);
    }
    let place = Place::new()?;
    let (mut relay, mut unix, mut udp) = (Vec::new(), Vec::new(), Vec::new());
    let is_udp = row.starts_with("transfer/udp-chain/");
    for run in 0..RUNS {
        unix.push(through_unix(&place, run, len)?);
        if is_udp {
            udp.push(through_udp_chain(&place, run, len)?);
        } else {
            relay.push(through_relay(&place, run, len)?);
        }
    }
    let gbit = |name: &str, transfers: &[Transfer]| {
        Row::new(name, "gbit_per_s", &figures(transfers, Transfer::gbit_per_s))
    };
    let ratios = |of: &[Transfer], to: &[Transfer]| -> Vec<f64> {
        of.iter().zip(to).map(|(a, b)| a.gbit_per_s() / b.gbit_per_s()).collect()
    };
    let about = |name: &str, transfers: &[Transfer]| {
        vec![
            Row::new(
                name,
                "retransmissions",
                &figures(transfers, |t| t.seen.retransmissions as f64),
            ),
            Row::new(
                name,
                "gbit_per_s_cold",
                &figures(transfers, |t| t.cold.as_ref().map_or(f64::NAN, gbit_per_s)),
            ),
            Row::new(name, "marks", &figures(transfers, |t| t.seen.marks as f64)),
            Row::new(name, "rtt_us_median", &figures(transfers, |t| t.seen.rtt_us.0 as f64)),
            Row::new(name, "rtt_us_p99", &figures(transfers, |t| t.seen.rtt_us.1 as f64)),
        ]
    };
    let mut rows = Vec::new();
    if is_udp {
        rows.push(gbit(row, &udp).with_reference(gbit("", &unix).value));
        rows.push(Row::new(row, "ratio_to_unix", &ratios(&udp, &unix)));
        rows.push(Row::new(
            row,
            "cpu_us_per_exchange",
            &figures(&udp, Transfer::cpu_us_per_exchange),
        ));
        rows.extend(about(row, &udp));
    } else {
        let relay_cpu = Row::new("", "", &figures(&relay, Transfer::cpu_us_per_exchange)).value;
        rows.push(gbit(row, &unix).with_reference(gbit("", &relay).value));
        let ratio = Row::new(row, "ratio_to_relay", &ratios(&unix, &relay));
        rows.push(ratio);
        let cpu =
            Row::new(row, "cpu_us_per_exchange", &figures(&unix, Transfer::cpu_us_per_exchange));
        let cpu = if relay_cpu > 0.0 { cpu.with_reference(relay_cpu) } else { cpu };
        rows.push(cpu);
        rows.extend(about(row, &unix));
    }
    Ok(rows)
}
