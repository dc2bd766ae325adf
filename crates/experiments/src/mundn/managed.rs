//! A network of services that `nw network up` keeps, in a folder that is removed with it.
//!
//! Invariant: the services end with this value, also after an error.

use crate::testbed::{Failure, Watch};
use nw_api::network::{NetworkGraph, NetworkState};
use nw_api::service::GraphText;
use nw_app::FaceUri;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the network.
const NAME: &str = "n";
/// Time limit until the network is as described.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time limit until all services have ended.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Time limit of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// A network with its manager.
pub(crate) struct ManagedNetwork {
    folder: tempfile::TempDir,
    manager: Child,
}

pub(crate) fn failed(what: &str, reason: impl ToString) -> Failure {
    Failure::Network(format!("{what}: {}", reason.to_string()))
}

impl ManagedNetwork {
    /// Starts a network and waits until it is as described. `write` returns the document for the
    /// folder of its sockets.
    pub(crate) fn start(
        nw: &Path,
        period_ms: u64,
        watch: &Watch<'_>,
        write: impl FnOnce(&Path) -> Result<String, Failure>,
    ) -> Result<Self, Failure> {
        let error = |reason: std::io::Error| failed("the network can't be started", reason);
        // Short: paths of Unix sockets have at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("nwm-").tempdir_in("/tmp").map_err(error)?;
        let sockets = folder.path().join(NAME);
        fs::create_dir(&sockets).map_err(error)?;
        let document = folder.path().join("n.graph");
        fs::write(&document, write(&sockets)?).map_err(error)?;
        let log = fs::File::create(folder.path().join("log")).map_err(error)?;
        let mut command = Command::new(nw);
        command.args(["network", "up", "--name", NAME, "--period-ms", &period_ms.to_string()]);
        command.arg("--directory").arg(folder.path()).arg(&document);
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(error)?).stderr(log);
        let manager = command.spawn().map_err(error)?;
        let mut network = ManagedNetwork { folder, manager };
        network.wait_converged(watch)?;
        Ok(network)
    }

    /// Waits until the network is as described.
    pub(crate) fn wait_converged(&mut self, watch: &Watch<'_>) -> Result<(), Failure> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if (watch.is_interrupted)() {
                return Err(Failure::Interrupted);
            }
            let has_ended = !matches!(self.manager.try_wait(), Ok(None));
            if has_ended || Instant::now() > deadline {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                let end: Vec<&str> = log.lines().rev().take(3).collect();
                return Err(failed("the network is not as described", end.join("; ")));
            }
            let is_done = |graph: NetworkGraph| {
                graph.state == NetworkState::Converged && !graph.instances.is_empty()
            };
            if self.graph().is_ok_and(is_done) {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the address of a socket of the document.
    pub(crate) fn socket(&self, name: &str) -> Result<FaceUri, Failure> {
        let path = self.folder.path().join(NAME).join(name);
        let uri = format!("unix://{}", path.display());
        uri.parse().map_err(|error| failed(&uri, format!("{error}")))
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join(NAME).join("manager.sock")
    }

    /// Returns the map of the network.
    pub(crate) fn graph(&self) -> Result<NetworkGraph, Failure> {
        self.manager("/v1/graph")
    }

    /// Returns a document of the manager.
    pub(crate) fn manager<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        get(&self.control(), path)
    }

    /// Returns the graph of each instance, from its own control socket.
    pub(crate) fn graphs(&self) -> Result<BTreeMap<String, String>, Failure> {
        let graph = |name: String| {
            let text: GraphText = self.instance(&name, "/v1/graph")?;
            Ok((name, text.graph))
        };
        self.graph()?.instances.into_iter().map(|one| graph(one.name)).collect()
    }

    /// Returns a document of an instance's control socket.
    pub(crate) fn instance<T: DeserializeOwned>(
        &self,
        name: &str,
        path: &str,
    ) -> Result<T, Failure> {
        let folder = self.folder.path().join(NAME).join("i").join(format!("{name}@here"));
        get(&folder.join("control.sock"), path)
    }

    /// Returns the processor time of the manager, also of threads that have ended, in steps of
    /// 10 ms.
    pub(crate) fn manager_cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.manager.id()));
        let stat = stat.unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        // User and system time are the fields 14 and 15; the first two are before the bracket.
        let ticks: u64 =
            fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Returns the manager's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns the processor time of each instance that runs as a process of this machine.
    pub(crate) fn instance_cpu(&self) -> Result<Vec<(String, Duration)>, Failure> {
        let instances = self.graph()?.instances;
        let cpu = |pid: Option<u32>| pid.map(process_cpu).unwrap_or_default();
        Ok(instances.into_iter().map(|one| (one.name, cpu(one.pid))).collect())
    }
}

impl Drop for ManagedNetwork {
    fn drop(&mut self) {
        let pid = i32::try_from(self.manager.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| matches!(self.manager.try_wait(), Ok(None))) {
            // The first signal ends services and manager.
            let _ = kill_process(pid, Signal::INT);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.manager.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.manager.kill();
                let _ = self.manager.wait();
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns the processor time of all threads of a process; zero if it has ended.
pub(crate) fn process_cpu(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = tasks.map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}

/// Sends a request over a Unix socket and parses the response.
fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, Failure> {
    let exchange = || -> std::io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(REQUEST_LIMIT))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        Ok(response)
    };
    let response = exchange().map_err(|error| failed(path, error))?;
    let body = response.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    let body = body.ok_or_else(|| failed(path, "no HTTP response"))?;
    serde_json::from_slice(&response[body..]).map_err(|error| failed(path, error))
}
