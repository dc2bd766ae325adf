//! `nw open`: opens the page of a running program in a browser, or prints its URL.

use super::ControlArgs;
use super::http::{ControlAddress, Method, request_json};
use crate::network::Network;
use crate::output::json_line;
use anyhow::{Context, Result};
use clap::Args;
use nw_api::rest::PageTicket;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Control socket of a balancer, as its configuration has it by default.
const BALANCER_SOCKET: &str = "/run/namewire/balancer.sock";

/// Options of `nw open`.
#[derive(Debug, Clone, Args)]
pub struct Open {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Open the page of a network that `nw network up --page` runs
    #[arg(long, value_name = "NAME", conflicts_with = "control")]
    pub network: Option<String>,
    /// Folder of all networks, as `nw network` has it
    #[arg(long, value_name = "FOLDER", requires = "network")]
    pub directory: Option<PathBuf>,
    /// Open the page of a balancer, by its control socket
    #[arg(
        long,
        value_name = "PATH",
        num_args = 0..=1,
        default_missing_value = BALANCER_SOCKET,
        conflicts_with_all = ["control", "network"]
    )]
    pub balancer: Option<PathBuf>,
    /// Print the URL only; open no browser
    #[arg(long)]
    pub print: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs `nw open`.
pub fn open(args: &Open) -> Result<ExitCode> {
    let address = address(args)?;
    let ticket: PageTicket = request_json(&address, Method::Post, "/v1/page/tickets", None)
        .context("can't open the page")?;
    if args.json {
        json_line(&ticket)?;
        return Ok(ExitCode::SUCCESS);
    }
    outln!("{}", ticket.url)?;
    let wants_browser = !args.print && std::io::stdout().is_terminal() && has_desktop();
    if wants_browser && start_browser(&ticket.url) {
        return Ok(ExitCode::SUCCESS);
    }
    if !args.print {
        note!("open this URL in a browser within {} s; it works once", ticket.expires_s);
    }
    Ok(ExitCode::SUCCESS)
}

fn address(args: &Open) -> Result<ControlAddress> {
    if let Some(path) = &args.balancer {
        return Ok(ControlAddress::Balancer(path.clone()));
    }
    match &args.network {
        Some(name) => {
            Network { name: Some(name.clone()), directory: args.directory.clone() }.address()
        }
        None => args.control.address(),
    }
}

fn has_desktop() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Starts the browser of the desktop. Returns whether it could be started.
fn start_browser(url: &str) -> bool {
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
