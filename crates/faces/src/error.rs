//! Errors of creating or changing faces and listeners. Each message has what was tried, why it
//! failed, and what to do.

use nw_element_api::FaceId;
use nw_link::uri::{FaceUri, UriError};
use nw_link::{LinkError, Mac};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a face or listener could not be created or changed.
#[derive(Debug, thiserror::Error)]
pub enum FaceError {
    /// A face to this peer exists.
    #[error("face {0} to this peer exists already")]
    Exists(FaceId),
    /// There is no face with this id.
    #[error("there is no face {0}")]
    Unknown(FaceId),
    /// There are as many faces as permitted.
    #[error("there are {0} faces already, which is the limit: raise `faces_max`, or close some")]
    TooMany(usize),
    /// The URI is invalid.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A host name is given where an address is required.
    #[error("{0} names a host: resolve it to an address first")]
    NotCanonical(FaceUri),
    /// Faces to this scheme or address can't be created.
    #[error("faces to {0} can't be created")]
    Scheme(FaceUri),
    /// The link can't have these settings.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The face can't have this persistency.
    #[error("this face can't be {0}")]
    Persistency(&'static str),
    /// There is no network interface of this name.
    #[error("there is no network interface {0}: `ip link` lists those there are")]
    NoInterface(Box<str>),
    /// The interface has no Ethernet address.
    #[error("{0} is not an Ethernet interface")]
    NoEthernet(Box<str>),
    /// The interface has no address of the destination's family.
    #[error("{0} has no address to send to {1} from")]
    NoAddress(Box<str>, SocketAddr),
    /// The local URI must name an interface.
    #[error("a face to {0} is on one interface: name it as the local URI, as in dev://eth0")]
    InterfaceNeeded(FaceUri),
    /// The interface is already used for another Ethernet group.
    #[error("this interface is already used for the group {0}, and can be used for one only")]
    OtherGroup(Mac),
    /// The right to open packet sockets (CAP_NET_RAW) is missing.
    #[error(
        "Ethernet faces need the right to open packet sockets: run as root, or once `setcap cap_net_raw+ep` on the program's file"
    )]
    PacketSocket,
    /// A running program listens on the unix socket's path.
    #[error("{0} is in use by a running program: stop it, or configure another path")]
    SocketInUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{0} exists and is not a socket: remove it, or configure another path")]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("{action} {target}: {errno}{}", remedy(*.errno))]
    System {
        /// What was tried: "listen on", "connect to".
        action: &'static str,
        /// Path or URI that it was tried on.
        target: String,
        /// Error of the system call.
        errno: Errno,
    },
}

impl FaceError {
    pub(crate) fn system(
        action: &'static str,
        target: impl ToString,
    ) -> impl FnOnce(Errno) -> FaceError {
        move |errno| FaceError::System { action, target: target.to_string(), errno }
    }

    /// Returns whether a later attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            FaceError::System { errno, .. } => [
                Errno::MFILE,
                Errno::NFILE,
                Errno::NOBUFS,
                Errno::NOMEM,
                Errno::CONNREFUSED,
                Errno::TIMEDOUT,
                Errno::AGAIN,
                Errno::NODEV,
                Errno::NETDOWN,
            ]
            .contains(errno),
            FaceError::TooMany(_)
            | FaceError::SocketInUse(_)
            | FaceError::NoInterface(_)
            | FaceError::NoAddress(..) => true,
            _ => false,
        }
    }
}

fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::ACCESS | Errno::PERM => " (run as a user who may, or choose another path or port)",
        Errno::ADDRINUSE => {
            " (another program listens there: stop it, or configure another address)"
        }
        Errno::ADDRNOTAVAIL => " (this machine doesn't have that address)",
        Errno::MFILE | Errno::NFILE => " (too many open files: raise `ulimit -n`)",
        Errno::NOENT => " (no such path: is the router running?)",
        Errno::CONNREFUSED => " (no program listens there: is the router running?)",
        Errno::PROTOTYPE => {
            " (the listener is of the other kind: write unix:// or shm:// on both sides)"
        }
        Errno::NAMETOOLONG => " (socket paths have at most 107 bytes)",
        _ => "",
    }
}
