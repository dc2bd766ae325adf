//! Why a laboratory can't be built, or something in it failed.

use nw_app::control::ControlError;
use std::io;
use std::path::Path;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine lacks something, or the caller a right: the whole sentence.
    #[error("{0}")]
    Missing(String),
    /// A plan that can't be built: the whole sentence.
    #[error("{0}")]
    Plan(String),
    /// The system did not do what was asked.
    #[error("this system refused {what}: {said}")]
    Refused {
        /// What.
        what: String,
        /// In its words.
        said: String,
    },
    /// A program did not start, or ended, or took too long.
    #[error("{what}: {said}")]
    Program {
        /// Which.
        what: String,
        /// What became of it, and the last it said.
        said: String,
    },
    /// A router did not do what it was told.
    #[error("{router}: {source}")]
    Router {
        /// Which.
        router: String,
        /// Why.
        source: Box<ControlError>,
    },
    /// A file or socket.
    #[error("{what}: {source}")]
    Io {
        /// What was done with which.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl LabError {
    /// For `map_err`: what was done with a file.
    pub(crate) fn at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let what = format!("can't {what} {}", path.display());
        move |source| LabError::Io { what, source }
    }
}
