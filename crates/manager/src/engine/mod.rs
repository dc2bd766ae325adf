//! Engines start and stop instances: services as processes, as containers, or as pods.
//!
//! Invariant: an engine holds no state that can't be read back from what it runs. Every instance
//! carries its [`Labels`], so a new manager finds it by [`Engine::list`]. All calls block, have a
//! time limit of their own, may come from several threads, and may be repeated: a repeated call
//! has the effect of one.
//!
//! The network's directory has the same path inside and outside of an instance on the same host.
//! So link and control sockets in it have one address for all:
//!
//! ```text
//! DIR/                     directory of the network, mode 0700
//!   manager.db             document versions, journal, audit
//!   manager.sock           control socket of the manager
//!   l/LINK.sock            sockets of links between services
//!   i/INSTANCE/            one directory per instance
//!     control.sock         control socket of the service (mode 0600)
//!     service.graph        the graph that it starts with
//!     instance.json, log   process engine only
//! ```

mod cgroup;
mod docker;
mod host_agent;
mod process;
mod remote;

pub use docker::DockerEngine;
pub use host_agent::HostAgent;
pub use process::ProcessEngine;
pub use remote::{ControlTunnels, RemoteEngine};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directory of the instances in a network's directory.
pub const INSTANCES: &str = "i";
/// Directory of the link sockets in a network's directory.
pub const LINKS: &str = "l";
/// Name of the control socket in an instance's directory.
pub const CONTROL_SOCKET: &str = "control.sock";
/// Name of the graph file in an instance's directory.
pub const GRAPH_FILE: &str = "service.graph";
/// Seconds that a service may drain after SIGTERM; given to each as `--drain-on-term`.
pub const TERM_DRAIN_S: u64 = 8;

/// Errors of engines.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine refused, or the system did; the same call may succeed later.
    #[error("can't {action} {subject}: {reason}")]
    Failed {
        /// What was tried, as a verb.
        action: &'static str,
        /// The instance or file that it was tried with.
        subject: String,
        /// What the system said, and what helps.
        reason: String,
    },
    /// The engine does not answer.
    #[error("the engine {engine} does not answer: {reason}")]
    Unreachable {
        /// Name of the engine.
        engine: &'static str,
        /// What was tried, and what helps.
        reason: String,
    },
    /// There is no instance of this name.
    #[error("there is no instance {0}")]
    Unknown(String),
}

impl EngineError {
    /// Returns a constructor of [`EngineError::Failed`] for `map_err`.
    pub fn failed<E: ToString>(
        action: &'static str,
        subject: impl ToString,
    ) -> impl FnOnce(E) -> Self {
        let subject = subject.to_string();
        move |error| EngineError::Failed { action, subject, reason: error.to_string() }
    }
}

/// What identifies an instance; written to everything that an engine creates for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Id of the network.
    pub network: String,
    /// Name of the instance, unique in the network.
    pub instance: String,
    /// Version of the document that the instance was started for.
    pub generation: u64,
    /// Hash of the graph that it was started with, see [`graph_hash`].
    pub graph_hash: String,
}

/// An instance that is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceSpec {
    /// Labels of the instance.
    pub labels: Labels,
    /// Directory of the network, an absolute path. It must be visible to the instance.
    pub directory: PathBuf,
    /// Text of the graph file that it runs.
    pub graph: String,
    /// Limit of processor time as a share of one core; `None` is no limit.
    pub quota: Option<f64>,
    /// Container image that the document names for the host; `None` is the engine's own.
    pub image: Option<String>,
}

impl InstanceSpec {
    /// Returns the directory of the instance.
    pub fn instance_directory(&self) -> PathBuf {
        instance_directory(&self.directory, &self.labels.instance)
    }

    /// Returns the path of the instance's control socket.
    pub fn control(&self) -> PathBuf {
        self.instance_directory().join(CONTROL_SOCKET)
    }

    /// Returns the arguments of `nw` that run the instance, from `service` on.
    pub fn arguments(&self) -> Vec<String> {
        let directory = self.instance_directory();
        let graph = directory.join(GRAPH_FILE).display().to_string();
        let control = directory.join(CONTROL_SOCKET).display().to_string();
        let (name, drain_s) = (self.labels.instance.clone(), TERM_DRAIN_S.to_string());
        let fixed = ["service", "run", "--graph"].map(str::to_owned);
        let tail = ["--name", &name, "--control", &control, "--drain-on-term", &drain_s];
        fixed.into_iter().chain([graph]).chain(tail.map(str::to_owned)).collect()
    }
}

/// What an engine reports about a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// What could not be done as wanted, such as a quota without the right to set it. Sentences.
    pub notes: Vec<String>,
}

/// State of an instance's process or container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It runs. Whether it is ready is asked over its control socket.
    Running,
    /// It has ended, with a description of how.
    Ended(String),
}

/// An instance as an engine sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineInstance {
    /// Labels that it was started with.
    pub labels: Labels,
    /// Whether it runs.
    pub state: InstanceState,
    /// Path of its control socket on this host.
    pub control: PathBuf,
    /// Process id on the host, if it is known.
    pub pid: Option<u32>,
    /// Limit of processor time in effect, as a share of one core.
    pub quota: Option<f64>,
    /// Address that instances on other hosts reach it at, if it has one.
    pub address: Option<String>,
}

/// Starts, stops and lists instances. See the module for what holds of every call.
pub trait Engine: Send + Sync {
    /// Returns the name of the engine as written in documents: `process`, `docker`.
    fn name(&self) -> &'static str;

    /// Starts an instance, without waiting for it to be ready. If an instance with the same name
    /// and graph hash runs, nothing happens. What is left of an ended one is replaced.
    ///
    /// # Errors
    /// It can't be started, or one of the same name with another graph hash runs.
    fn start(&self, spec: &InstanceSpec) -> Result<Started, EngineError>;

    /// Stops an instance and waits for its end. It drains for at most `limit` and is killed after
    /// that; a limit of zero kills it at once. An unknown or ended instance is stopped already.
    ///
    /// # Errors
    /// It can't be stopped.
    fn stop(&self, directory: &Path, instance: &str, limit: Duration) -> Result<(), EngineError>;

    /// Removes what is left of an ended instance: files, an exited container, a control group. An
    /// unknown instance is removed already.
    ///
    /// # Errors
    /// The instance runs, or something can't be removed.
    fn remove(&self, directory: &Path, instance: &str) -> Result<(), EngineError>;

    /// Returns the instances of a network, running and ended, by name.
    ///
    /// # Errors
    /// The engine can't be asked.
    fn list(&self, directory: &Path, network: &str) -> Result<Vec<EngineInstance>, EngineError>;

    /// Returns one instance of a network, running or ended.
    ///
    /// # Errors
    /// The engine can't be asked.
    fn find(
        &self,
        directory: &Path,
        network: &str,
        instance: &str,
    ) -> Result<Option<EngineInstance>, EngineError> {
        let listed = self.list(directory, network)?;
        Ok(listed.into_iter().find(|listed| listed.labels.instance == instance))
    }

    /// Returns at most the last `lines` lines of an instance's log.
    ///
    /// # Errors
    /// There is no such instance, or its log can't be read.
    fn logs(&self, directory: &Path, instance: &str, lines: usize) -> Result<String, EngineError>;

    /// Sets or removes the limit of processor time of a running instance. Returns a sentence if it
    /// could not be set for want of rights.
    ///
    /// # Errors
    /// There is no such instance, or the system refused for another reason.
    fn set_quota(
        &self,
        directory: &Path,
        instance: &str,
        quota: Option<f64>,
    ) -> Result<Option<String>, EngineError>;
}

/// Returns the directory of an instance in a network's directory.
pub fn instance_directory(directory: &Path, instance: &str) -> PathBuf {
    directory.join(INSTANCES).join(instance)
}

/// Returns the hash of a graph's text that labels carry: 16 hexadecimal digits of SHA-256.
pub fn graph_hash(graph: &str) -> String {
    let digest = Sha256::digest(graph.as_bytes());
    digest[..8].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes a file that appears complete under its name.
fn write_file(path: &Path, content: &[u8]) -> Result<(), EngineError> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().map_err(EngineError::failed::<std::io::Error>("write", path.display()))
}
