//! Host A: the fused router. One shard, one loop; or several, which share nothing.
//!
//! Layer 5 (hosts). [`plane`] is the pure part, [`control`] management, [`host`] the loop with sockets.

#![forbid(unsafe_code)]

mod authorize;
mod check;
pub mod control;
mod environment;
mod explain;
pub mod host;
pub mod inside;
pub mod placement;
pub mod plane;
pub mod privileges;
mod reload;
mod resolver;
mod settings;
mod shards;
mod shortages;
mod wall;
pub mod xdp;

pub use check::{CheckError, Checked, Stage, check, check_file};
pub use host::{Handle, Host, unix_path};
pub use nw_faces::{FaceError, InheritedUnix, take_inherited};

use rustix::io::Errno;
use std::path::PathBuf;

/// Why a router can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener or face.
    #[error(transparent)]
    Face(#[from] nw_faces::FaceError),
    /// A file of `management.trusted_keys`.
    #[error("can't trust the key in {}: {why}", path.display())]
    TrustedKey {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// An `[[anchor]]`.
    #[error("can't use the anchor {id}: {why}")]
    Anchor {
        /// Which.
        id: String,
        /// Why.
        why: String,
    },
    /// A file of `rib.key` or `rib.certificate`.
    #[error("can't sign commands to other routers with {}: {why}", path.display())]
    SigningKey {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// `tables.lock`.
    #[error(
        "can't lock the tables' memory ({errno}): give the right to (CAP_IPC_LOCK, or LimitMEMLOCK=infinity in the unit), make the tables and the \
         content store smaller, or leave tables.lock out"
    )]
    Lock {
        /// What the system says.
        errno: rustix::io::Errno,
    },
    /// The tables are too small for what every router has.
    #[error("the tables are too small: {0}")]
    Tables(String),
    /// The system refused something every program needs.
    #[error("the system refused {what}: {errno}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        errno: Errno,
    },
}
