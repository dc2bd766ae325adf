//! Looking into a running router: `nw top`, `nw trace`, `nw tap`, `nw log`; over the control socket.

pub(crate) mod http;
mod log;
mod tap;
mod top;
mod trace;

pub use tap::{Tap, tap};
pub use top::{Top, top};
pub use trace::{Trace, trace};

use crate::args::Router;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use http::Place;
use nw_app::FaceUri;
use std::process::ExitCode;

/// A router's control socket.
#[derive(Debug, Clone, Args)]
pub struct Control {
    #[command(flatten)]
    pub router: Router,
    /// The router's control socket: a path, or http://127.0.0.1:6380
    ///
    /// Default: beside the router's unix socket, nfd.control.sock beside nfd.sock.
    #[arg(long, value_name = "PLACE")]
    pub control: Option<String>,
    /// A file with the secret that `control.token_file` of the router has
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<std::path::PathBuf>,
}

impl Control {
    /// Where to ask.
    fn place(&self) -> Result<Place> {
        if let Some(place) = &self.control {
            return Place::parse(place, self.token_file.as_deref());
        }
        match crate::connect::uri(&self.router)? {
            FaceUri::Unix(path) => Ok(Place::Unix(nw_api::config::control_path_beside(&path))),
            uri => bail!("{uri} has no control socket beside it: name one with --control"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum LogVerb {
    /// Show what the router logs
    Show {
        #[command(flatten)]
        control: Control,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Log something else, until the router ends or reads its configuration again
    Set {
        /// A level for all, and levels of parts: debug; info,router=debug,faces=trace
        filter: String,
        #[command(flatten)]
        control: Control,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

/// `nw openapi`
pub fn openapi() -> Result<ExitCode> {
    outln!("{}", nw_rest_api::document())?;
    Ok(ExitCode::SUCCESS)
}

/// `nw log …`
pub fn log(verb: &LogVerb) -> Result<ExitCode> {
    log::log(verb).context("log levels")
}
