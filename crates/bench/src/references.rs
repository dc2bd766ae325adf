//! Zenoh, iceoryx2 and NATS as references of the rows of publish/subscribe. `bench/references` has
//! their ends, in a crate of its own that `make bench` builds.

use crate::local_pubsub::Outcome;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for ends to find each other after each is connected.
const SETTLE: Duration = Duration::from_millis(500);
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A load of a reference.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceLoad {
    /// Bytes of a publication.
    pub len: usize,
    /// Publications.
    pub count: u64,
    /// Subscribers, a process each.
    pub subscribers: u32,
    /// Time between publications, microseconds; 0: as fast as possible.
    pub interval_us: u64,
}

/// A system that can run here.
#[derive(Debug)]
pub struct Reference {
    /// `zenoh`, `iceoryx2` or `nats`, as its ends are asked for.
    pub name: &'static str,
    program: PathBuf,
}

impl Reference {
    /// Returns the systems that can run here. Says on standard error which can't.
    ///
    /// # Errors
    /// If this program's own file can't be found.
    pub fn available() -> Result<Vec<Reference>> {
        let own = std::env::current_exe()?;
        let target = own.parent().and_then(|folder| folder.parent()).unwrap_or(&own);
        let program = target.join("references/release/nw-bench-references");
        if !program.exists() {
            eprintln!("no references: {} is not there; make bench builds it", program.display());
            return Ok(Vec::new());
        }
        let mut names = vec!["zenoh", "iceoryx2"];
        match Command::new("nats-server").arg("--version").stdout(Stdio::null()).status() {
            Ok(status) if status.success() => names.push("nats"),
            _ => eprintln!("NATS is left out: there is no nats-server; apt install nats-server"),
        }
        Ok(names.into_iter().map(|name| Reference { name, program: program.clone() }).collect())
    }

    /// Runs a load once. Returns what publisher and subscribers saw, and the processor time of a
    /// server in microseconds.
    ///
    /// # Errors
    /// If a process does not start or fails.
    pub fn measure(&self, load: &ReferenceLoad) -> Result<(Outcome, Vec<Outcome>, f64)> {
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let server = (self.name == "nats").then(|| NatsServer::start(free)).transpose()?;
        let address = match self.name {
            // Names of services: each run has its own.
            "iceoryx2" => format!("{}-{}", std::process::id(), free.port()),
            _ => free.to_string(),
        };
        let start = |role: &str| End::start(self, role, &address, load);
        let mut publisher = start("publish")?;
        let subscribers =
            (0..load.subscribers).map(|_| start("subscribe")).collect::<Result<Vec<_>>>()?;
        std::thread::sleep(SETTLE);
        let before = server.as_ref().map_or(0.0, NatsServer::cpu_us);
        publisher.go()?;
        let publisher = publisher.outcome(self.name)?;
        let received = subscribers.into_iter().map(|end| end.outcome(self.name));
        let received = received.collect::<Result<Vec<_>>>()?;
        let server_us = server.as_ref().map_or(0.0, NatsServer::cpu_us) - before;
        Ok((publisher, received, server_us))
    }
}

/// A process of a reference.
struct End {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl End {
    /// Starts a process and waits until it is connected.
    fn start(of: &Reference, role: &str, address: &str, load: &ReferenceLoad) -> Result<End> {
        let mut command = Command::new(&of.program);
        command.args([of.name, role, address, &load.len.to_string(), &load.count.to_string()]);
        command.args([&load.interval_us.to_string(), "0", "wait"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("can't start {}", of.name))?;
        let output = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut end = End { child, output };
        let mut line = String::new();
        // A subscriber writes nothing else before; a library may.
        while line.trim() != "ready" {
            line.clear();
            let read = end.output.read_line(&mut line)?;
            ensure!(read > 0, "{} ended before it was connected", of.name);
        }
        Ok(end)
    }

    /// Lets a publisher begin.
    fn go(&mut self) -> Result<()> {
        let mut input = self.child.stdin.take().context("its input is piped")?;
        Ok(input.write_all(b"go\n")?)
    }

    /// Waits for the end of the process and returns what it saw.
    fn outcome(mut self, name: &str) -> Result<Outcome> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{name} failed: {status}");
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("{name} said nothing"))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A server on the loopback interface.
struct NatsServer {
    child: Child,
}

impl NatsServer {
    fn start(at: SocketAddr) -> Result<NatsServer> {
        let mut command = Command::new("nats-server");
        command.args(["-a", &at.ip().to_string(), "-p", &at.port().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = NatsServer { child: command.spawn().context("can't start nats-server")? };
        let end = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(at).is_err() {
            ensure!(Instant::now() < end, "nats-server does not listen at {at}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Returns the processor time of all its threads, microseconds.
    fn cpu_us(&self) -> f64 {
        let tasks = format!("/proc/{}/task", self.child.id());
        let threads = std::fs::read_dir(tasks).into_iter().flatten().flatten();
        let stats = threads
            .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
        let nanoseconds =
            stats.filter_map(|stat| stat.split(' ').next().and_then(|n| n.parse::<f64>().ok()));
        nanoseconds.sum::<f64>() / 1000.0
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
