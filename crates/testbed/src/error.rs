//! The errors of testbeds.

use nw_app::control::ControlError;
use std::io;
use std::path::Path;

/// An error of building or using a testbed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine lacks a program or feature, or the caller lacks a right; a whole sentence.
    #[error("{0}")]
    Missing(String),
    /// The plan can't be built; a whole sentence.
    #[error("{0}")]
    Plan(String),
    /// The system refused an operation.
    #[error("this system refused {what}: {said}")]
    Refused {
        /// The operation.
        what: String,
        /// The system's message.
        said: String,
    },
    /// A program did not start, ended unexpectedly or took too long.
    #[error("{what}: {said}")]
    Program {
        /// The program.
        what: String,
        /// The problem and the end of the program's log.
        said: String,
    },
    /// A router refused a command.
    #[error("{router}: {source}")]
    Router {
        /// The router.
        router: String,
        /// The cause.
        source: Box<ControlError>,
    },
    /// The caller asked to stop.
    #[error("stopped before the end; everything is removed")]
    Stopped,
    /// An operation on a file or socket failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation and the path.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl LabError {
    /// Returns a function for `map_err` that adds the operation and the path.
    pub(crate) fn at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let what = format!("can't {what} {}", path.display());
        move |source| LabError::Io { what, source }
    }
}
