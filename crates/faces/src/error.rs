//! Operating errors: each says what was tried, why it failed, and what helps.

use crate::mac::Mac;
use crate::uri::{FaceUri, UriError};
use nw_element_api::FaceId;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a face or listener could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum FaceError {
    /// A face to this peer is there already.
    #[error("face {0} to this peer is there already")]
    Exists(FaceId),
    /// No such face.
    #[error("there is no face {0}")]
    Unknown(FaceId),
    /// As many faces as there may be.
    #[error("there are {0} faces already, which is the limit: raise `faces_max`, or close some")]
    TooMany(usize),
    /// The URI is none.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A host name, where an address is needed.
    #[error("{0} names a host; resolve it to an address first")]
    NotCanonical(FaceUri),
    /// A scheme one can't connect to.
    #[error("one can't connect to {0}")]
    Scheme(FaceUri),
    /// Local fields on a face that is not local.
    #[error("local fields are for faces of this machine")]
    LocalFieldsNonLocal,
    /// Reliability on a face that many hear.
    #[error("reliability is between two: a face to a group can't have it")]
    ReliabilityShared,
    /// An MTU on a stream, or one out of range.
    #[error("the MTU of this face can't be {0} octets (datagram faces: 64 or more)")]
    Mtu(usize),
    /// A persistency this face can't have.
    #[error("this face can't be {0}")]
    Persistency(&'static str),
    /// No interface of this name.
    #[error("there is no network interface {0}: `ip link` lists those there are")]
    NoInterface(Box<str>),
    /// An interface that has no Ethernet addresses.
    #[error("{0} is no Ethernet interface")]
    NoEthernet(Box<str>),
    /// Nothing to send from.
    #[error("{0} has no address to send to {1} from")]
    NoAddress(Box<str>, SocketAddr),
    /// An interface is to be named.
    #[error("a face to {0} is on one interface: name it as the local URI, as in dev://eth0")]
    InterfaceNeeded(FaceUri),
    /// The interface is open for another group.
    #[error("this interface is open for the group {0} already, and can be for one only")]
    OtherGroup(Mac),
    /// CAP_NET_RAW is missing.
    #[error(
        "Ethernet faces need the right to open packet sockets: run as root, or once `setcap cap_net_raw+ep` on the program's file"
    )]
    PacketSocket,
    /// A unix socket that answers is there.
    #[error("{0} is in use by a running program: stop it, or configure another path")]
    SocketInUse(PathBuf),
    /// Something is there that is no socket.
    #[error("{0} is there and is no socket: remove it, or configure another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("{action} {target}: {errno}{}", remedy(*.errno))]
    System {
        /// What was tried: "listen on", "connect to".
        action: &'static str,
        /// A path or URI.
        target: String,
        /// Why not.
        errno: Errno,
    },
}

impl FaceError {
    pub(crate) fn system(action: &'static str, target: impl ToString) -> impl FnOnce(Errno) -> FaceError {
        move |errno| FaceError::System { action, target: target.to_string(), errno }
    }

    /// True when trying again later may work.
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
        Errno::ADDRINUSE => " (another program listens there: stop it, or configure another address)",
        Errno::ADDRNOTAVAIL => " (this machine doesn't have that address)",
        Errno::MFILE | Errno::NFILE => " (too many open files: raise `ulimit -n`)",
        Errno::NOENT => " (no such path: is the router running?)",
        Errno::CONNREFUSED => " (nobody listens there: is the router running?)",
        Errno::PROTOTYPE => {
            " (what listens there is of the other kind: write unix:// or shm:// on both sides)"
        }
        Errno::NAMETOOLONG => " (socket paths have at most 107 octets)",
        _ => "",
    }
}
