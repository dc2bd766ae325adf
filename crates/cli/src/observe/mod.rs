//! Observing a running router over its control socket: `nw top`, `nw trace`, `nw tap`, `nw log`,
//! `nw open`.

pub(crate) mod http;
mod log;
mod open;
mod tap;
mod top;
mod trace;

pub use open::{Open, open, open_on_desktop};
pub use tap::{ElementOption, Tap, TapOptions, show as show_tap, tap};
pub use top::{Top, top};
pub use trace::{Trace, trace};

use crate::args::flags::RouterArgs;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use http::ControlAddress;
use nw_app::FaceUri;
use std::process::ExitCode;

/// Options that select a router's control socket.
#[derive(Debug, Clone, Args)]
pub struct ControlArgs {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Control socket of the router: a path, or http://127.0.0.1:6380
    ///
    /// Default: next to the router's unix socket; for nfd.sock it is nfd.control.sock.
    #[arg(long, value_name = "PLACE")]
    pub control: Option<String>,
    /// File with the same secret as the router's control.token_file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<std::path::PathBuf>,
}

impl ControlArgs {
    /// Returns the address of the control socket.
    fn address(&self) -> Result<ControlAddress> {
        if let Some(address) = &self.control {
            return ControlAddress::parse(address, self.token_file.as_deref());
        }
        match crate::connect::uri(&self.router)? {
            FaceUri::Unix(path) => {
                Ok(ControlAddress::Unix(nw_api::config::control_path_beside(&path)))
            }
            uri => bail!("a router at {uri} has no local control socket: give one with --control"),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Show the log levels of the router
    Show {
        #[command(flatten)]
        control: ControlArgs,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Change the log levels, until the router restarts or reloads its configuration
    Set {
        /// A level, or levels for parts of the program: debug; info,router=debug,faces=trace
        filter: String,
        #[command(flatten)]
        control: ControlArgs,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Runs `nw openapi`.
pub fn openapi() -> Result<ExitCode> {
    outln!("{}", nw_rest_api::document())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `nw log …`.
pub fn log(action: &LogCommand) -> Result<ExitCode> {
    log::log(action).context("log levels")
}
