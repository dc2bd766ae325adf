//! `nw demo`: a real file crosses real routers, each a process of its own; figures at the end.
//!
//! ```text
//!  nw put ──unix── router A ──unix── fetch 1
//!                     └─────UDP───── router B ──unix── fetch 2
//! ```
//!
//! Then a cluster behind a kernel balancer, where that can be built.

mod cluster;

use crate::args::Demo;
use crate::exit::Status;
use crate::output::{duration_us, row, table};
use crate::{progress, signals};
use anyhow::{Context, Result, bail};
use nw_api::management::client::decode_cs_info;
use nw_api::management::{CsInfo, Dataset};
use nw_app::fetch::FetchOptions;
use nw_app::object::{ObjectOptions, ObjectReport, fetch_object};
use nw_app::{Client, FaceUri, control};
use nw_name::Name;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "/demo/file";

/// Runs the demonstration. Everything it makes is in one temporary folder, everything it starts ends with it.
pub fn demo(args: &Demo) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let folder = tempfile::tempdir().context("can't make a temporary folder")?;
    let path = |name: &str| folder.path().join(name);

    say(&format!("making a file of {} MiB", args.mib))?;
    let original = make_file(&path("original"), args.mib << 20)?;

    say("starting router A: unix socket, UDP and TCP on loopback")?;
    let (udp_a, udp_b) = (free_udp_port()?, free_udp_port()?);
    let a = Router::start(&path("a.sock"), udp_a, "")?;
    say("starting router B: its only way to the file is router A, over UDP")?;
    let route = format!("[[route]]\nprefix = \"/demo\"\nface = \"udp4://127.0.0.1:{udp_a}\"\n");
    let b = Router::start(&path("b.sock"), udp_b, &route)?;

    say(&format!("publishing it as {NAME} (nw put)"))?;
    let _producer = publish(&a, &path("original"))?;

    let mut rows = vec![row([
        &"fetch",
        &"Mbit/s",
        &"round trip median",
        &"99 %",
        &"Interests",
        &"again",
        &"cache hits",
        &"router CPU",
        &"per packet pair",
    ])];
    for (title, near, routers) in
        [("through A, unix", &a, vec![&a]), ("through B and A, UDP", &b, vec![&a, &b])]
    {
        say(&format!("fetching it {title}"))?;
        let before = Usage::of(&routers)?;
        let fetched = path("fetched");
        let report = match fetch(near, &fetched, args.mib << 20, &ended) {
            Err(_) if ended.is_ended() => return Ok(Status::Interrupted.into()),
            report => report?,
        };
        if digest(&fetched)? != original {
            bail!("what came {title} is not what was published");
        }
        rows.push(figures(title, &report, &Usage::of(&routers)?.since(&before)));
    }
    outln!()?;
    table(&rows)?;
    outln!("\nSHA-256 of both fetched files is that of the original: {}", hex(&original))?;
    cluster::cluster(&ended)?;
    if ended.is_ended() {
        return Ok(Status::Interrupted.into());
    }
    Ok(ExitCode::SUCCESS)
}

fn say(text: &str) -> io::Result<()> {
    outln!("• {text}")
}

fn make_file(path: &Path, len: u64) -> Result<[u8; 32]> {
    let mut file =
        io::BufWriter::new(File::create(path).with_context(|| format!("can't write {}", path.display()))?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..len / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes()).context("is the disk full?")?;
    }
    file.flush()?;
    digest(path)
}

fn digest(path: &Path) -> Result<[u8; 32]> {
    Ok(nw_wire::sha256(&[&fs::read(path)?]))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn free_udp_port() -> Result<u16> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn free_tcp_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A child process that ends with its owner.
struct Process {
    child: Child,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn().context("can't start a process of this program")?;
        Ok(Process { child })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its own child, by its own handle.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Router {
    process: Process,
    socket: PathBuf,
}

impl Router {
    fn start(socket: &Path, udp_port: u16, more: &str) -> Result<Self> {
        let config = socket.with_extension("toml");
        let tcp_port = free_tcp_port()?;
        let text = format!(
            "[faces.unix]\npath = {socket:?}\n[faces.udp]\nlisten = [\"127.0.0.1:{udp_port}\"]\n[faces.tcp]\nlisten = [\"127.0.0.1:{tcp_port}\"]\n[log]\nlevel = \"warn\"\n{more}"
        );
        fs::write(&config, text)?;
        let mut process =
            Process::start(Command::new(std::env::current_exe()?).arg("run").arg("--config").arg(&config))?;
        let patience = Instant::now() + Duration::from_secs(5);
        while !socket.exists() {
            if let Some(status) = process.child.try_wait()? {
                bail!("the router ended at once: {status}");
            }
            if Instant::now() > patience {
                bail!("the router did not start within 5 s");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Router { process, socket: socket.to_owned() })
    }

    fn uri(&self) -> Result<FaceUri> {
        Ok(format!("unix://{}", self.socket.display()).parse()?)
    }

    fn cs_info(&self) -> Result<CsInfo> {
        let mut client = Client::connect(&self.uri()?)?;
        Ok(decode_cs_info(&control::dataset(&mut client, Dataset::CsInfo, None)?)?)
    }

    /// Processor time so far, user and kernel.
    fn cpu(&self) -> Duration {
        let stat =
            fs::read_to_string(format!("/proc/{}/schedstat", self.process.child.id())).unwrap_or_default();
        Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
    }
}

/// Starts `nw put` and waits until it says that it serves.
fn publish(router: &Router, file: &Path) -> Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("put")
        .arg("--json")
        .arg("--quiet")
        .arg("--socket")
        .arg(router.uri()?.to_string())
        .arg(NAME)
        .arg(file);
    let mut process = Process::start(command.stdout(Stdio::piped()))?;
    let stdout = process.child.stdout.take().context("asked for above")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if !line.contains("\"ready\"") {
        bail!("nw put did not become ready");
    }
    Ok(process)
}

fn fetch(router: &Router, path: &Path, len: u64, ended: &signals::Ended) -> Result<ObjectReport> {
    let mut client = Client::connect(&router.uri()?)?;
    client.stop_when(ended.flag());
    let name: Name = NAME.parse()?;
    let mut file = File::create(path)?;
    let bar = progress::bytes(Some(len), false);
    let options = ObjectOptions { fetch: FetchOptions::default(), ..ObjectOptions::default() };
    let mut told = 0;
    let report = fetch_object(
        &mut client,
        name.as_ref(),
        &options,
        |progress| {
            bar.set_position(progress.bytes);
            // Where there is no terminal, a line for each quarter.
            if bar.is_hidden() && progress.bytes * 4 / len > told {
                told = progress.bytes * 4 / len;
                // A failure shows at the next line of the report.
                let _ = say(&format!("  {} %", told * 25));
            }
        },
        |content| file.write_all(content),
    );
    bar.finish_and_clear();
    Ok(report?)
}

/// What routers used so far.
struct Usage {
    cpu: Duration,
    hits: u64,
}

impl Usage {
    fn of(routers: &[&Router]) -> Result<Self> {
        let mut usage = Usage { cpu: Duration::ZERO, hits: 0 };
        for router in routers {
            usage.hits += router.cs_info()?.hits;
            usage.cpu += router.cpu();
        }
        Ok(usage)
    }

    fn since(&self, before: &Usage) -> Usage {
        Usage { cpu: self.cpu.saturating_sub(before.cpu), hits: self.hits - before.hits }
    }
}

fn figures(title: &str, report: &ObjectReport, used: &Usage) -> Vec<String> {
    let seconds = report.elapsed.as_secs_f64();
    row([
        &title,
        &format!("{:.0}", report.bytes as f64 * 8.0 / seconds / 1e6),
        &duration_us(report.rtt_us.value_at_quantile(0.5)),
        &duration_us(report.rtt_us.value_at_quantile(0.99)),
        &report.counters.interests,
        &report.counters.retransmissions,
        &used.hits,
        &format!("{:.2} s ({:.0} %)", used.cpu.as_secs_f64(), used.cpu.as_secs_f64() * 100.0 / seconds),
        &format!("{:.1} µs", used.cpu.as_secs_f64() * 1e6 / report.segments as f64),
    ])
}
