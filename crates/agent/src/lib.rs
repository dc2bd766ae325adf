#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod agent;
mod authority;
mod callers;
mod client;
mod credits;
mod dial;
mod frame;
mod group_token;
mod groups;
mod hosts;
mod hub;
mod identity;
mod message;
mod registry;
mod tls;
mod users;

pub use agent::{AgentOptions, Handler, run};
pub use callers::CallHandler;
pub use client::ManagerClient;
pub use groups::{
    Enrolment, EnrolmentCounts, GroupFile, GroupStatus, add_group, check_group_name,
    check_group_token_file, forget_group, list_groups,
};
pub use hosts::{add_host, forget_host, list_hosts};
pub use hub::{HostStatus, Hub, HubOptions};
pub use identity::{enrol, is_enrolled};
pub use users::{UserStream, new_user_token, user_listener};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Hosts of a manager, at most.
const HOSTS_MAX: usize = 1000;
/// Bytes of a file in a state directory, at most.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Errors of managers and agents with each other.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A file of the state directory can't be read or written.
    #[error("can't {action} {}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of the state directory has unexpected content.
    #[error("{} is damaged ({reason}): restore it, or remove it and enrol again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The manager can't listen.
    #[error("can't listen at {address}: is it in use, or not an address of this machine?")]
    Listen {
        /// The address.
        address: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The text is no token.
    #[error("this is not a token: copy the whole line that `host add` printed")]
    Token,
    /// The text is no token of a user.
    #[error("this is not a token: copy the whole line that `nw network token add` printed")]
    UserToken,
    /// A host's name can't be used.
    #[error("{0:?} is not a name of a host: use 1 to 63 letters, digits, and - _ .")]
    HostName(String),
    /// The text is no token of a group.
    #[error(
        "this is not a token of a group: it has 24 to 1024 characters without space, and should be \
         random"
    )]
    GroupToken,
    /// A group's name can't be used.
    #[error("{0:?} is not a name of a group: use 1 to 48 letters, digits, and - _ .")]
    GroupName(String),
    /// There are too many groups.
    #[error("there are {0} groups already; remove one first")]
    GroupsMax(usize),
    /// There are too many hosts.
    #[error("there are {HOSTS_MAX} hosts already; forget one first")]
    HostsMax,
    /// The agent has no certificate.
    #[error("this host is not enrolled: run it once with --enrol and a token of the manager")]
    NotEnrolled,
    /// The state directory is that of another host.
    #[error(
        "this agent is enrolled as {found:?}: run it for that member, or enrol with a token of \
         {wanted:?} and another --state"
    )]
    OtherHost {
        /// The host of the certificate.
        found: String,
        /// The host that was wanted.
        wanted: String,
    },
    /// The agent's certificate is not valid any more.
    #[error(
        "the certificate of host {host} expired {days} days ago (a running agent renews it): enrol \
         again with a new token"
    )]
    Expired {
        /// The host.
        host: String,
        /// Whole days since then.
        days: u64,
    },
    /// The last attempt to connect has failed, and the next one is not due.
    #[error("{0}")]
    Waiting(String),
    /// The other side can't be reached, or the connection failed.
    #[error("no connection to {manager}: {source}")]
    Connection {
        /// Address of the manager.
        manager: String,
        /// Error of the system, or of TLS.
        source: io::Error,
    },
    /// The manager refused.
    #[error("{manager} refused: {reason}")]
    Refused {
        /// Address of the manager.
        manager: String,
        /// What it said.
        reason: String,
    },
    /// The manager did not prove to know the token of the group.
    #[error(
        "{manager} accepts the token but does not prove to have it: it is not the manager of this \
         group; is this its address for agents?"
    )]
    NotTheManager {
        /// Address of the manager.
        manager: String,
    },
    /// No agent of the host is connected.
    #[error("host {0} is not connected: is `nw network agent` running there?")]
    NotConnected(String),
    /// The agent did not answer in time.
    #[error("host {0} did not answer in time")]
    Timeout(String),
    /// Too many calls wait for the host.
    #[error("too many calls wait for host {0}; try again later")]
    Busy(String),
    /// A request does not fit into a message.
    #[error("a request of {0} bytes is too long for an agent")]
    RequestLength(usize),
    /// The agent refused to open a tunnel.
    #[error("host {host}: {reason}")]
    Tunnel {
        /// The host.
        host: String,
        /// What it said.
        reason: String,
    },
    /// TLS can't be configured.
    #[error("TLS can't be configured")]
    Tls(#[from] rustls::Error),
}

impl AgentError {
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentError {
        move |source| AgentError::File { action, path: path.into(), source }
    }

    fn damaged<E: ToString>(path: &Path) -> impl FnOnce(E) -> AgentError {
        move |error| AgentError::Damaged { path: path.into(), reason: error.to_string() }
    }
}

fn digest_bytes(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn digest(bytes: &[u8]) -> String {
    digest_bytes(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the time in seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn read_private(path: &Path) -> Result<Vec<u8>, AgentError> {
    let read = || {
        if fs::metadata(path)?.len() > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        fs::read(path)
    };
    read().map_err(AgentError::file("read", path))
}

/// Writes a file that only its owner may read, complete or not at all.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), AgentError> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // Mode 0600 is what tempfile creates.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().map_err(AgentError::file("write", path))
}

/// Waits for the lock of a state directory's file, and holds it until the result is dropped.
fn lock_file(path: &Path) -> Result<fs::File, AgentError> {
    let lock = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        let file = fs::File::create(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    };
    lock().map_err(AgentError::file("lock", path))
}
