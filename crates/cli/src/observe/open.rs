//! `nw open`: opens the page of a running program or of a recorded run in a browser, or prints its
//! URL.

use super::ControlArgs;
use super::http::{ControlAddress, Method, request_json};
use crate::network::Network;
use crate::output::json_line;
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use clap::Args;
use core::time::Duration;
use nw_api::config::Page;
use nw_api::rest::PageTicket;
use nw_rest_api::Recorder;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Control socket of a balancer, as its configuration has it by default.
const BALANCER_SOCKET: &str = "/run/namewire/balancer.sock";

/// Interval at which Ctrl-C is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Options of `nw open`.
#[derive(Debug, Clone, Args)]
pub struct Open {
    /// Replay a recorded run: a file of `nw sim run --record` or `nw lab cluster --record`
    ///
    /// Its page is served until Ctrl-C.
    #[arg(value_name = "RECORDING", conflicts_with_all = ["control", "network", "balancer"])]
    pub recording: Option<PathBuf>,
    /// Address of the page of a recorded run; port 0: any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", requires = "recording")]
    pub page: SocketAddr,
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
    if let Some(path) = &args.recording {
        return replay(args, path);
    }
    let address = address(args)?;
    let ticket: PageTicket = request_json(&address, Method::Post, "/v1/page/tickets", None)
        .context("can't open the page")?;
    show(args, &ticket)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the URL of a ticket, and opens it on a desktop.
fn show(args: &Open, ticket: &PageTicket) -> Result<()> {
    if args.json {
        json_line(ticket)?;
        return Ok(());
    }
    outln!("{}", ticket.url)?;
    if !args.print && open_on_desktop(&ticket.url) {
        return Ok(());
    }
    if !args.print {
        note!("open this URL in a browser within {} s; it works once", ticket.expires_s);
    }
    Ok(())
}

/// Serves the page of a recorded run until a signal arrives.
fn replay(args: &Open, path: &Path) -> Result<ExitCode> {
    if !args.page.ip().is_loopback() {
        bail!("--page {}: give an address of this machine, such as 127.0.0.1:0", args.page);
    }
    let stop_flag = StopFlag::watch()?;
    let recorder = Recorder::new(crate::recorder::read(path)?);
    let page = Page { listen: vec![args.page], ..Page::default() };
    let (_server, access) = nw_rest_api::serve_recording(recorder, &page)?;
    show(args, &crate::recorder::ticket(&access)?)?;
    while !stop_flag.is_set() {
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a URL in the browser of the desktop, if there is one and a person looks at the output.
/// Returns whether it did.
pub fn open_on_desktop(url: &str) -> bool {
    std::io::stdout().is_terminal() && has_desktop() && start_browser(url)
}

fn address(args: &Open) -> Result<ControlAddress> {
    if let Some(path) = &args.balancer {
        return Ok(ControlAddress::Balancer(path.clone()));
    }
    match &args.network {
        Some(name) => Network {
            name: Some(name.clone()),
            directory: args.directory.clone(),
            ..Network::default()
        }
        .address(),
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
