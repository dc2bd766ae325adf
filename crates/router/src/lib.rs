//! Host A: the fused router, with one event loop or several shards that share nothing.
//!
//! Layer 5 (hosts). [`plane`] is the pure forwarding plane, [`host`] the event loop with its
//! sockets; management is the crate `nw-control`.

#![forbid(unsafe_code)]

mod authority;
mod check;
mod environment;
mod handle;
pub mod host;
pub mod introspection;
pub mod placement;
pub mod plane;
pub mod privileges;
mod reload;
mod resolver;
mod settings;
mod shards;
mod shortage_log;
mod start;
mod trace;
mod wall_clock;
pub mod xdp;

pub use check::{CheckError, Checked, Stage, check, check_file};
pub use handle::Handle;
pub use host::{Host, unix_path};
pub use nw_faces::{ActivatedUnixSocket, FaceError, take_activated_sockets};

use rustix::io::Errno;
use std::path::PathBuf;

/// Errors at the start of a router, or of its event loop.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener or face can't be opened.
    #[error(transparent)]
    Face(#[from] nw_faces::FaceError),
    /// A key file of `management.trusted_keys` can't be used.
    #[error("can't trust the key in {}: {reason}", path.display())]
    TrustedKey {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A trust anchor (`[[anchor]]`) can't be used.
    #[error("can't use the anchor {id}: {reason}")]
    Anchor {
        /// Id of the anchor.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file `rib.key` or `rib.certificate` can't be used.
    #[error("can't sign commands to other routers with {}: {reason}", path.display())]
    SigningKey {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The memory of the tables can't be locked (`tables.lock`).
    #[error(
        "can't lock the tables' memory ({errno}): grant the right to do so (CAP_IPC_LOCK, or \
         LimitMEMLOCK=infinity in the unit), make the tables and the content store smaller, or leave \
         tables.lock out"
    )]
    Lock {
        /// Error of `mlockall`.
        errno: rustix::io::Errno,
    },
    /// The tables are too small for the router's own entries.
    #[error("the tables are too small: {0}")]
    Tables(String),
    /// The operating system refused a resource that every router needs.
    #[error("the system refused {request}: {errno}")]
    System {
        /// The resource, after "the system refused".
        request: &'static str,
        /// Error of the operating system.
        errno: Errno,
    },
}
