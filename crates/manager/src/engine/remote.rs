//! An engine on another host: each call goes to the agent there, and the control sockets of its
//! instances appear in the network's directory on this host.
//!
//! The network's directory has the same path on every host. What an instance's socket on the other
//! host is, `r/INSTANCE.sock` is here: a connection to it is a tunnel through the agent.

use super::{Engine, EngineError, EngineInstance, InstanceSpec, InstanceState, Labels, Started};
use nw_agent::{AgentError, Hub};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Directory of the sockets that stand for those on other hosts, in a network's directory.
const REMOTE: &str = "r";
/// Time limit of a call, beyond what the call itself waits for.
const TIMEOUT: Duration = Duration::from_secs(40);
/// Time limit of a question to which an agent has the answer at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for opening a control socket through an agent.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// An instance that is to be started, and all other calls of [`Engine`], as messages.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "call")]
pub(super) enum Request {
    Start {
        engine: String,
        labels: Labels,
        directory: PathBuf,
        graph: String,
        quota: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<String>,
    },
    Stop {
        engine: String,
        directory: PathBuf,
        instance: String,
        limit_ms: u64,
    },
    Remove {
        engine: String,
        directory: PathBuf,
        instance: String,
    },
    List {
        engine: String,
        directory: PathBuf,
        network: String,
    },
    Find {
        engine: String,
        directory: PathBuf,
        network: String,
        instance: String,
    },
    Logs {
        engine: String,
        directory: PathBuf,
        instance: String,
        lines: usize,
    },
    SetQuota {
        engine: String,
        directory: PathBuf,
        instance: String,
        quota: Option<f64>,
    },
}

/// What an agent replies.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Done,
    Notes(Vec<String>),
    Instances(Vec<RemoteInstance>),
    Text(String),
    Unknown(String),
    Failed { subject: String, reason: String },
    Unreachable(String),
}

/// An instance on another host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RemoteInstance {
    pub labels: Labels,
    /// How it ended; `None` while it runs.
    pub ending: Option<String>,
    pub pid: Option<u32>,
    pub quota: Option<f64>,
}

/// The control socket of an instance that an agent is to open.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OpenControl {
    pub directory: PathBuf,
    pub instance: String,
}

/// Control sockets on this host that stand for those of instances at agents of a hub.
pub struct ControlTunnels {
    hub: Arc<Hub>,
    sockets: Mutex<BTreeMap<PathBuf, RemoteSocket>>,
}

impl ControlTunnels {
    /// Creates tunnels through the agents that connect to `hub`. None is open yet.
    pub fn new(hub: Arc<Hub>) -> Self {
        ControlTunnels { hub, sockets: Mutex::default() }
    }

    /// Returns the path in the network's directory on this host that stands for the control socket
    /// of an instance, which is in `there`, the network's directory at the agent of `host`.
    ///
    /// # Errors
    /// The socket can't be made.
    pub fn socket(
        &self,
        directory: &Path,
        instance: &str,
        host: &str,
        there: &Path,
    ) -> Result<PathBuf, EngineError> {
        let path = socket_path(directory, instance);
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if !sockets.contains_key(&path) {
            let target = OpenControl { directory: there.into(), instance: instance.into() };
            let socket = RemoteSocket::open(&path, self.hub.clone(), host, &target);
            let socket = socket.map_err(EngineError::failed("listen at", path.display()))?;
            sockets.insert(path.clone(), socket);
        }
        Ok(path)
    }

    /// Removes the socket of an instance, if there is one.
    pub fn close(&self, directory: &Path, instance: &str) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.remove(&socket_path(directory, instance));
    }
}

/// An engine on another host.
pub struct RemoteEngine {
    hub: Arc<Hub>,
    host: String,
    /// Name of the engine there.
    kind: &'static str,
    tunnels: ControlTunnels,
}

impl RemoteEngine {
    /// Creates the engine `kind` (`process`, `docker`) of the host whose agent enrolled as `host`.
    pub fn new(hub: Arc<Hub>, host: String, kind: &'static str) -> Self {
        RemoteEngine { tunnels: ControlTunnels::new(hub.clone()), hub, host, kind }
    }

    fn call(&self, request: &Request, limit: Duration) -> Result<Reply, EngineError> {
        let bytes = serde_json::to_vec(request).expect("texts and numbers");
        let reply = self.hub.call(&self.host, bytes, limit).map_err(unreachable)?;
        let reply = serde_json::from_slice(&reply).map_err(|error| EngineError::Unreachable {
            engine: self.kind,
            reason: format!(
                "host {} sent a reply that this version does not know ({error}): install the same \
                 version of nw on both",
                self.host
            ),
        })?;
        match reply {
            Reply::Unknown(instance) => Err(EngineError::Unknown(instance)),
            Reply::Failed { subject, reason } => {
                Err(EngineError::Failed { action: "carry out a call for", subject, reason })
            }
            Reply::Unreachable(reason) => Err(EngineError::Unreachable {
                engine: self.kind,
                reason: format!("on host {}: {reason}", self.host),
            }),
            other => Ok(other),
        }
    }

    /// A call whose reply has no content.
    fn command(&self, request: &Request, limit: Duration) -> Result<(), EngineError> {
        match self.call(request, limit)? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn unexpected(&self, reply: &Reply) -> EngineError {
        EngineError::Unreachable {
            engine: self.kind,
            reason: format!("host {} replied to another call: {reply:?}", self.host),
        }
    }

    /// Returns instances with sockets on this host.
    fn instances(
        &self,
        directory: &Path,
        found: Vec<RemoteInstance>,
    ) -> Result<Vec<EngineInstance>, EngineError> {
        let hosts = self.hub.hosts();
        let status = hosts.into_iter().find(|status| status.name == self.host);
        let address = status.and_then(|status| status.address);
        let instance = |found: RemoteInstance| {
            Ok(EngineInstance {
                control: self.tunnels.socket(
                    directory,
                    &found.labels.instance,
                    &self.host,
                    directory,
                )?,
                state: found.ending.map_or(InstanceState::Running, InstanceState::Ended),
                pid: found.pid,
                quota: found.quota,
                address: address.clone(),
                labels: found.labels,
            })
        };
        found.into_iter().map(instance).collect()
    }
}

fn socket_path(directory: &Path, instance: &str) -> PathBuf {
    directory.join(REMOTE).join(format!("{instance}.sock"))
}

fn unreachable(error: AgentError) -> EngineError {
    EngineError::Unreachable { engine: "agent", reason: error.to_string() }
}

impl Engine for RemoteEngine {
    fn name(&self) -> &'static str {
        self.kind
    }

    fn start(&self, spec: &InstanceSpec) -> Result<Started, EngineError> {
        let request = Request::Start {
            engine: self.kind.into(),
            labels: spec.labels.clone(),
            directory: spec.directory.clone(),
            graph: spec.graph.clone(),
            quota: spec.quota,
            image: spec.image.clone(),
        };
        match self.call(&request, TIMEOUT)? {
            Reply::Notes(notes) => Ok(Started { notes }),
            other => Err(self.unexpected(&other)),
        }
    }

    fn stop(&self, directory: &Path, instance: &str, limit: Duration) -> Result<(), EngineError> {
        let (engine, directory, instance) = (self.kind.into(), directory.into(), instance.into());
        let limit_ms = limit.as_millis().try_into().unwrap_or(u64::MAX);
        self.command(&Request::Stop { engine, directory, instance, limit_ms }, TIMEOUT + limit)
    }

    fn remove(&self, directory: &Path, instance: &str) -> Result<(), EngineError> {
        let request = Request::Remove {
            engine: self.kind.into(),
            directory: directory.into(),
            instance: instance.into(),
        };
        self.command(&request, TIMEOUT)?;
        self.tunnels.close(directory, instance);
        Ok(())
    }

    fn list(&self, directory: &Path, network: &str) -> Result<Vec<EngineInstance>, EngineError> {
        let (engine, network) = (self.kind.into(), network.into());
        match self
            .call(&Request::List { engine, directory: directory.into(), network }, ANSWER_TIMEOUT)?
        {
            Reply::Instances(found) => self.instances(directory, found),
            other => Err(self.unexpected(&other)),
        }
    }

    fn find(
        &self,
        directory: &Path,
        network: &str,
        instance: &str,
    ) -> Result<Option<EngineInstance>, EngineError> {
        let request = Request::Find {
            engine: self.kind.into(),
            directory: directory.into(),
            network: network.into(),
            instance: instance.into(),
        };
        match self.call(&request, ANSWER_TIMEOUT)? {
            Reply::Instances(found) => Ok(self.instances(directory, found)?.pop()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn logs(&self, directory: &Path, instance: &str, lines: usize) -> Result<String, EngineError> {
        let (engine, directory, instance) = (self.kind.into(), directory.into(), instance.into());
        match self.call(&Request::Logs { engine, directory, instance, lines }, TIMEOUT)? {
            Reply::Text(text) => Ok(text),
            other => Err(self.unexpected(&other)),
        }
    }

    fn set_quota(
        &self,
        directory: &Path,
        instance: &str,
        quota: Option<f64>,
    ) -> Result<Option<String>, EngineError> {
        let (engine, directory, instance) = (self.kind.into(), directory.into(), instance.into());
        match self.call(&Request::SetQuota { engine, directory, instance, quota }, TIMEOUT)? {
            Reply::Notes(notes) => Ok(notes.into_iter().next()),
            other => Err(self.unexpected(&other)),
        }
    }
}

/// A socket on this host whose connections are tunnels to one on another host. Its thread ends
/// when it is dropped.
struct RemoteSocket {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RemoteSocket {
    fn open(path: &Path, hub: Arc<Hub>, host: &str, target: &OpenControl) -> io::Result<Self> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // One of an earlier manager, or none.
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let request = serde_json::to_vec(target).expect("texts");
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, host) = (stop.clone(), host.to_owned());
        let accept = move || {
            for stream in listener.incoming() {
                if flag.load(Relaxed) {
                    break;
                }
                // A connection that can't be passed on is closed: its owner reads the end.
                let opened =
                    stream.map(|stream| hub.open(&host, request.clone(), stream, OPEN_TIMEOUT));
                if let Ok(Err(error)) = opened {
                    tracing::debug!(host, %error, "a control socket was not opened");
                }
            }
        };
        let thread = std::thread::Builder::new().name("remote-control".to_owned()).spawn(accept)?;
        Ok(RemoteSocket { path: path.to_owned(), stop, thread: Some(thread) })
    }
}

impl Drop for RemoteSocket {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // Wakes the thread; if that fails, it has ended.
        let _ = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
