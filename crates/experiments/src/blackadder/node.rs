//! Nodes with publish/subscribe, each a process: one alone, or one in each namespace of a network.

use crate::testbed::Failure;
use nw_testbed::{LabError, PointLink, PointNetwork, Running};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time for a process to end after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Port of NDN between the nodes of a network.
const NDN_PORT: u16 = 6363;

/// Returns an error about a step of an experiment.
pub(super) fn failed(step: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Network(format!("{step}: {error}"))
}

/// Returns the configuration of a node: large tables, so that no limit is reached.
fn configuration(socket: &Path, more: &str) -> String {
    format!(
        "[faces.unix]\npath = {socket:?}\n[log]\nlevel = \"warn\"\n[faces.tcp]\nlisten = []\n\
         [faces.multicast]\nenabled = false\n{more}\
         [pubsub]\nenabled = true\napplications = 16384\nitems_per_application = 1048576\n\
         ring_mib = 256\n"
    )
}

/// A node of this machine alone.
#[derive(Debug)]
pub struct LocalNode {
    process: Child,
    folder: tempfile::TempDir,
}

impl LocalNode {
    /// Starts a node and waits until it listens.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(nw: &Path) -> Result<LocalNode, Failure> {
        let folder = tempfile::tempdir()?;
        let (config, log) = (folder.path().join("n.toml"), folder.path().join("n.log"));
        let udp = "[faces.udp]\nlisten = []\n";
        let text = configuration(&folder.path().join("n.sock"), udp);
        std::fs::write(&config, text + "domain = false\n")?;
        let mut command = Command::new(nw);
        command.arg("run").arg("--config").arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let process = command.spawn().map_err(|error| failed("can't start a node", error))?;
        let mut node = LocalNode { process, folder };
        let end = Instant::now() + START_TIMEOUT;
        while !listens(&node.path()) {
            let ended = node.process.try_wait()?;
            if ended.is_some() || Instant::now() > end {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(failed("the node did not start", said.trim()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(node)
    }

    /// Returns the path of the socket for publishers and subscribers.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("n.pubsub.sock")
    }

    /// Returns the path of the socket for NDN.
    pub fn ndn_path(&self) -> PathBuf {
        self.folder.path().join("n.sock")
    }

    /// Returns the processor time of all threads of the node.
    pub fn cpu(&self) -> Duration {
        cpu_of(self.process.id())
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + EXIT_TIMEOUT;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.process.kill();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns whether a program listens at a socket.
fn listens(path: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(path).is_ok()
}

fn cpu_of(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let nanoseconds = |stat: String| stat.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    let stats = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    Duration::from_nanos(stats.filter_map(nanoseconds).sum())
}

/// Returns the processor time of this thread.
pub(super) fn own_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// Nodes in namespaces that find each other.
#[derive(Debug)]
pub struct NodeNetwork {
    // Ended before the namespaces are removed.
    processes: Vec<Running>,
    network: PointNetwork,
}

impl NodeNetwork {
    /// Starts a node in each namespace and waits until they listen. NDN names below `/ndn` are
    /// routed towards node 0, by the first link of each node.
    ///
    /// # Errors
    /// If the namespaces can't be made, or a node does not start.
    pub fn start(nw: &Path, count: usize, links: &[PointLink]) -> Result<NodeNetwork, Failure> {
        NodeNetwork::start_with(nw, count, links, "")
    }

    /// Starts nodes with more lines in the section `[pubsub]` of their configurations.
    fn start_with(
        nw: &Path,
        count: usize,
        links: &[PointLink],
        pubsub: &str,
    ) -> Result<NodeNetwork, Failure> {
        let network = PointNetwork::build(count, links)?;
        let mut nodes = NodeNetwork { processes: Vec::new(), network };
        for number in 0..count {
            let config = nodes.file(number, "toml");
            let towards = links.iter().find(|link| link.ends.1 == number).map(|link| link.ends.0);
            let route = towards.map_or(String::new(), |to| {
                let address = PointNetwork::address(to, number);
                format!("[[route]]\nprefix = \"/ndn\"\nface = \"udp4://{address}:{NDN_PORT}\"\n")
            });
            let udp = format!("[faces.udp]\nlisten = [\"0.0.0.0:{NDN_PORT}\"]\n");
            let text = configuration(&nodes.ndn_path(number), &udp) + pubsub + &route;
            std::fs::write(&config, text)?;
            let mut command = Command::new(nw);
            command.arg("run").arg("--config").arg(&config).stdout(Stdio::null());
            let process = nodes.network.nodes()[number].start("nw", &mut command)?;
            nodes.processes.push(process);
        }
        let end = Instant::now() + START_TIMEOUT;
        while !(0..count).all(|number| listens(&nodes.path(number))) {
            let ended = nodes.processes.iter_mut().find_map(|process| {
                process.exit_status().map(|status| format!("{status}: {}", process.log_tail()))
            });
            if ended.is_some() || Instant::now() > end {
                return Err(failed("a node did not start", ended.unwrap_or_default()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(nodes)
    }

    /// Starts a chain of nodes.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn chain(nw: &Path, count: usize) -> Result<NodeNetwork, Failure> {
        NodeNetwork::chain_with(nw, count, "")
    }

    /// Starts a chain of nodes with more lines in the section `[pubsub]` of their configurations.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn chain_with(nw: &Path, count: usize, pubsub: &str) -> Result<NodeNetwork, Failure> {
        let links: Vec<_> = (1..count).map(|at| PointLink::unlimited(at - 1, at)).collect();
        NodeNetwork::start_with(nw, count, &links, pubsub)
    }

    /// Starts a star of nodes around node 0.
    ///
    /// # Errors
    /// Those of [`start`](Self::start).
    pub fn star(nw: &Path, count: usize) -> Result<NodeNetwork, Failure> {
        let links: Vec<_> = (1..count).map(|at| PointLink::unlimited(0, at)).collect();
        NodeNetwork::start(nw, count, &links)
    }

    fn file(&self, node: usize, suffix: &str) -> PathBuf {
        self.network.directory().join(format!("n{node}.{suffix}"))
    }

    /// Returns the path of a node's socket for publishers and subscribers.
    pub fn path(&self, node: usize) -> PathBuf {
        self.file(node, "pubsub.sock")
    }

    /// Returns the path of a node's socket for NDN.
    pub fn ndn_path(&self, node: usize) -> PathBuf {
        self.file(node, "sock")
    }

    /// Returns the namespaces.
    pub const fn network(&self) -> &PointNetwork {
        &self.network
    }

    /// Returns the processor time of all threads of a node.
    pub fn cpu(&self, node: usize) -> Duration {
        self.processes[node].cpu()
    }
}

/// Returns a reason to leave out what needs namespaces, if this process can't make them.
pub(super) fn lack_of_namespaces() -> Option<String> {
    match nw_testbed::needs_root() {
        Ok(()) => None,
        Err(LabError::Missing(text)) => Some(text),
        Err(error) => Some(error.to_string()),
    }
}
