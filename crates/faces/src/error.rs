//! Operating errors: each says what was tried, why it failed, and what helps.

use crate::uri::{FaceUri, UriError};
use nw_element::FaceId;
use rustix::io::Errno;
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
    /// An MTU on a stream, or one out of range.
    #[error("the MTU of this face can't be {0} octets (datagram faces: 64 or more)")]
    Mtu(usize),
    /// A persistency this face can't have.
    #[error("this face can't be {0}")]
    Persistency(&'static str),
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
            ]
            .contains(errno),
            FaceError::TooMany(_) | FaceError::SocketInUse(_) => true,
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
        Errno::NAMETOOLONG => " (socket paths have at most 107 octets)",
        _ => "",
    }
}
