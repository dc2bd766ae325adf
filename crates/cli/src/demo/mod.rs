//! `nw demo`: transfers a file through real routers, each a process of its own, and prints figures.
//!
//! ```text
//!  nw put ──unix── router A ──unix── fetch 1
//!                     └─────UDP───── router B ──unix── fetch 2
//! ```
//!
//! Then, as root, it builds a cluster behind a kernel balancer.

mod cluster;

use crate::args::tools::Demo;
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
use nw_packet_types::random::Random;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "/demo/file";

/// Explains the columns of the table, and why they differ from figures in the README.
const FIGURES_EXPLAINED: &str = "
  again            retransmitted Interests, as their Data was late or lost; the files are complete
  cache hits       packets answered from a router's cache. Router A cached a part of the first
                   fetch and answers it in the second one without the producer, so two routers can
                   be faster than one
  per packet pair  CPU time of the routers for one Interest and its Data, including at least four
                   system calls for sockets. The figure in the README is forwarding alone";

/// Printed at the end.
const NEXT: &str = "
What you saw: files transferred unchanged through real routers, answers from a cache, and, if run as
root, a cluster that grows and shrinks during a download. Try it yourself:
  nw run &                       run a router
  echo hello | nw put /hello &   publish
  nw cat /hello                  fetch
  nw trace /hello                how an Interest is forwarded, and why
  nw top                         rates, tables and drops of the router
And in a browser:
  nw run --page & nw open        the router: map, rates, routes, trace, packets
  nw network up examples/networks/chain.graph --page
  nw open --network chain        a network of services: live map, drawing, scaling, plans
  nw sim run --topology abilene --record run.json
  nw open run.json               a simulation, replayed";

/// Runs `nw demo`. All files are in one temporary folder, and all processes end with this one.
pub fn demo(args: &Demo) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let folder = tempfile::tempdir().context("can't create a temporary folder")?;
    let path = |name: &str| folder.path().join(name);

    print_step(&format!("creating a file of {} MiB", args.mib))?;
    let original = make_file(&path("original"), args.mib << 20)?;

    print_step("starting router A: unix socket, UDP and TCP on loopback")?;
    let (udp_a, udp_b) = (free_udp_port()?, free_udp_port()?);
    let a = Router::start(&path("a.sock"), udp_a, "")?;
    print_step("starting router B: it reaches the file only through router A, over UDP")?;
    let route = format!("[[route]]\nprefix = \"/demo\"\nface = \"udp4://127.0.0.1:{udp_a}\"\n");
    let b = Router::start(&path("b.sock"), udp_b, &route)?;

    print_step(&format!("publishing it as {NAME} (nw put)"))?;
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
        print_step(&format!("fetching it {title}"))?;
        let before = Usage::of(&routers)?;
        let fetched = path("fetched");
        let report = match fetch(near, &fetched, args.mib << 20, &stop_flag) {
            Err(_) if stop_flag.is_set() => return Ok(Status::Interrupted.into()),
            report => report?,
        };
        if digest(&fetched)? != original {
            bail!("the file fetched {title} differs from the published one");
        }
        rows.push(figure_row(title, &report, &Usage::of(&routers)?.since(&before)));
    }
    outln!()?;
    table(&rows)?;
    outln!("\nboth fetched files have the SHA-256 of the original: {}", hex(&original))?;
    outln!("{FIGURES_EXPLAINED}")?;
    cluster::cluster(&stop_flag)?;
    if stop_flag.is_set() {
        return Ok(Status::Interrupted.into());
    }
    outln!("{NEXT}")?;
    Ok(ExitCode::SUCCESS)
}

fn print_step(text: &str) -> io::Result<()> {
    outln!("• {text}")
}

fn make_file(path: &Path, len: u64) -> Result<[u8; 32]> {
    let mut file = io::BufWriter::new(
        File::create(path).with_context(|| format!("can't write {}", path.display()))?,
    );
    let mut random = Random::new(1);
    for _ in 0..len / 8 {
        file.write_all(&random.next_u64().to_le_bytes()).context("is the disk full?")?;
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

/// A child process that is killed when dropped.
struct Process {
    child: Child,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .context("can't start a process of this program")?;
        Ok(Process { child })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
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
            "[faces.unix]
path = {socket:?}
\
             [faces.udp]
listen = [\"127.0.0.1:{udp_port}\"]
\
             [faces.tcp]
listen = [\"127.0.0.1:{tcp_port}\"]
\
             [log]
level = \"warn\"
{more}"
        );
        fs::write(&config, text)?;
        let mut process = Process::start(
            Command::new(std::env::current_exe()?).arg("run").arg("--config").arg(&config),
        )?;
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

    /// Returns the CPU time so far, user and kernel.
    fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/schedstat", self.process.child.id()))
            .unwrap_or_default();
        Duration::from_nanos(
            stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0),
        )
    }
}

/// Starts `nw put` and waits until it is ready.
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
    let stdout = process.child.stdout.take().context("stdout is piped")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if !line.contains("\"ready\"") {
        bail!("nw put did not become ready");
    }
    Ok(process)
}

fn fetch(
    router: &Router,
    path: &Path,
    len: u64,
    stop_flag: &signals::StopFlag,
) -> Result<ObjectReport> {
    let mut client = Client::connect(&router.uri()?)?;
    client.stop_when(stop_flag.flag());
    let name: Name = NAME.parse()?;
    let mut file = File::create(path)?;
    let bar = progress::bytes(Some(len), false);
    let options = ObjectOptions { fetch: FetchOptions::default(), ..ObjectOptions::default() };
    let mut quarters_printed = 0;
    let report = fetch_object(
        &mut client,
        name.as_ref(),
        &options,
        |progress| {
            bar.set_position(progress.bytes);
            // Without a terminal, print a line for each quarter.
            if bar.is_hidden() && progress.bytes * 4 / len > quarters_printed {
                quarters_printed = progress.bytes * 4 / len;
                // A failure is reported by the next line that is printed.
                let _ = print_step(&format!("  {} %", quarters_printed * 25));
            }
        },
        |content| file.write_all(content),
    );
    bar.finish_and_clear();
    Ok(report?)
}

/// CPU time and cache hits of several routers so far.
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

fn figure_row(title: &str, report: &ObjectReport, used: &Usage) -> Vec<String> {
    let seconds = report.elapsed.as_secs_f64();
    row([
        &title,
        &format!("{:.0}", report.bytes as f64 * 8.0 / seconds / 1e6),
        &duration_us(report.rtt_us.value_at_quantile(0.5)),
        &duration_us(report.rtt_us.value_at_quantile(0.99)),
        &report.counters.interests,
        &report.counters.retransmissions,
        &used.hits,
        &format!(
            "{:.2} s ({:.0} %)",
            used.cpu.as_secs_f64(),
            used.cpu.as_secs_f64() * 100.0 / seconds
        ),
        &format!("{:.1} µs", used.cpu.as_secs_f64() * 1e6 / report.segments as f64),
    ])
}
