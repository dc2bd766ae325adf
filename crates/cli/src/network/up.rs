//! `nw network up` and `down`: runs the manager and prints what it does.

use super::Network;
use super::hosts::HostOptions;
use super::locate::{DocumentFile, check_name};
use super::show::{print_event, print_plan_state};
use crate::args::run::PAGE_ADDRESS;
use crate::exit::Status;
use crate::observe::http::{self, ControlAddress, Method};
use anyhow::{Context, Result, bail};
use clap::Args;
use nw_api::config::Page;
use nw_api::network::{NetworkState, NetworkStatus};
use nw_manager::{Author, CONTROL_SOCKET, FirstDocument, Handle, Manager, Options};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Interval at which events and signals are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time that a detached manager may take to open its control socket.
const DETACH_TIMEOUT: Duration = Duration::from_secs(20);
/// Name of a detached manager's log in the network's folder.
const LOG_FILE: &str = "manager.log";

#[derive(Debug, Args)]
pub struct Up {
    #[command(flatten)]
    network: Network,
    /// Graph file
    file: Option<PathBuf>,
    /// Return when the network is as described; the manager runs on
    #[arg(long)]
    detach: bool,
    /// Leave the services running when the manager ends
    #[arg(long)]
    keep: bool,
    /// Milliseconds between samples, and between decisions
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(100..=60_000)
    )]
    period_ms: u64,
    /// Serve the web page on this address of this machine, 127.0.0.1:6390 if none is given
    ///
    /// `nw open --network NAME` opens it.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = PAGE_ADDRESS)]
    page: Option<SocketAddr>,
    #[command(flatten)]
    hosts: HostOptions,
    /// Print one JSON object per event instead of text
    #[arg(long)]
    json: bool,
}

/// Runs `nw network up`.
pub fn up(args: &Up) -> Result<ExitCode> {
    let document = args.file.as_deref().map(DocumentFile::read).transpose()?;
    let name = name_of(args)?;
    let directory = args.network.folder()?.join(&name);
    if args.detach {
        return detach(args, &name, &directory);
    }
    let engines = args.hosts.engines()?;
    let remote = args.hosts.listen(&directory)?;
    let options = Options {
        network: name,
        directory,
        program: std::env::current_exe().context("can't find the path of this program")?,
        period: Duration::from_millis(args.period_ms),
        engines,
        remote,
    };
    let first = document.map(|document| FirstDocument {
        text: document.text,
        folder: document.folder,
        author: Author(format!("user {}", rustix::process::getuid().as_raw())),
    });
    let signals = watch_signals()?;
    let manager = Manager::start(options, first)?;
    let handle = manager.handle();
    let page = Page { listen: args.page.into_iter().collect(), ..Page::default() };
    if let Some(remote) = page.listen.iter().find(|address| !address.ip().is_loopback()) {
        bail!("--page {remote}: give an address of this machine only, such as {PAGE_ADDRESS}");
    }
    let server = nw_manager::serve::serve(handle.clone(), &page)?;
    server.addresses().iter().for_each(|place| note!("control: {place}"));
    let printed = follow(&handle, &signals, args);
    if printed.is_err() {
        // The output has no reader any more: the services are left as they are.
        handle.quit();
    }
    manager.wait();
    drop(server);
    printed?;
    let is_interrupted = signals.load(Ordering::SeqCst) > 1;
    Ok(if is_interrupted { Status::Interrupted } else { Status::Done }.into())
}

fn name_of(args: &Up) -> Result<String> {
    let stem = || Some(args.file.as_ref()?.file_stem()?.to_string_lossy().into_owned());
    let name = args.network.name.clone().or_else(stem);
    let name = name.context("give a graph file, or the --name of a network that ran before")?;
    check_name(&name)?;
    Ok(name)
}

/// Counts SIGINT and SIGTERM.
fn watch_signals() -> Result<Arc<AtomicUsize>> {
    let count = Arc::new(AtomicUsize::new(0));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .context("can't watch for signals")?;
    let counter = Arc::clone(&count);
    let watch = move || {
        for _ in signals.forever() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context("can't start a thread")?;
    Ok(count)
}

/// Prints events until the manager has ended. The first signal stops the network, or only the
/// manager with `--keep`; the second one leaves the services as they are.
fn follow(handle: &Handle, signals: &AtomicUsize, args: &Up) -> Result<()> {
    let (mut number, mut acted) = (0, 0);
    loop {
        let has_ended = handle.wait_ended(POLL_INTERVAL);
        for event in handle.events().after(number) {
            number = event.number;
            print_event(&event, args.json)?;
        }
        if has_ended {
            return Ok(());
        }
        let count = signals.load(Ordering::SeqCst);
        if count > acted {
            let author = Author("a signal".to_owned());
            match (acted, args.keep) {
                (0, false) => {
                    note!("stopping the services; a second Ctrl-C leaves them running");
                    handle.stop(false, &author)?;
                }
                _ => handle.quit(),
            }
            acted = count;
        }
    }
}

/// Starts a manager in the background and waits until the network is as described.
fn detach(args: &Up, name: &str, directory: &Path) -> Result<ExitCode> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    use std::os::unix::process::CommandExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).with_context(
        || format!("can't make {}; choose another --directory", directory.display()),
    )?;
    let log_path = directory.join(LOG_FILE);
    let log = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path);
    let log = log.with_context(|| format!("can't write {}", log_path.display()))?;
    let begin = log.metadata()?.len();
    let program = std::env::current_exe().context("can't find the path of this program")?;
    let mut command = Command::new(program);
    command.args(["network", "up", "--keep", "--name", name, "--directory"]);
    command.arg(args.network.folder()?).args(["--period-ms", &args.period_ms.to_string()]);
    command.args(args.hosts.arguments()).args(&args.file);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let mut child = command.spawn().context("can't start the manager")?;
    let address = ControlAddress::Network(directory.join(CONTROL_SOCKET));
    wait_for_socket(&mut child, &address, &log_path, begin)?;
    let state = wait_converged(&address, args.json, None)?;
    note!("the manager runs as process {}; its log: {}", child.id(), log_path.display());
    Ok(match state {
        NetworkState::Converged => Status::Done,
        _ => Status::Failed,
    }
    .into())
}

fn wait_for_socket(
    child: &mut Child,
    address: &ControlAddress,
    log: &Path,
    begin: u64,
) -> Result<()> {
    let deadline = Instant::now() + DETACH_TIMEOUT;
    loop {
        // The socket may be that of a manager which this one conflicts with.
        let is_own = |status: &NetworkStatus| status.pid == child.id();
        let status = http::request_json(address, Method::Get, "/v1/network", None);
        if status.as_ref().is_ok_and(is_own) {
            return Ok(());
        }
        if child.try_wait()?.is_some() {
            let text = std::fs::read(log).unwrap_or_default();
            let text = String::from_utf8_lossy(text.get(begin as usize..).unwrap_or_default());
            let text = text.trim().to_owned();
            bail!("{}", text.strip_prefix("nw: ").unwrap_or(&text));
        }
        if Instant::now() > deadline {
            bail!("the manager does not answer: see {}", log.display());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until the network is as described, with a word on what goes on. Returns the state: held,
/// or retrying after a failure, if it does not get there.
pub fn wait_converged(
    address: &ControlAddress,
    is_json: bool,
    after: Option<&str>,
) -> Result<NetworkState> {
    let path = after.map_or_else(
        || "/v1/events".to_owned(),
        |after| format!("/v1/events?after={}", http::escape(after)),
    );
    let stream = http::request(address, Method::Get, &path, None)?;
    print_plan_state(address, stream, is_json)
}

/// Runs `nw network down`.
pub fn down(address: &ControlAddress, keep: bool) -> Result<()> {
    let stream = http::request(address, Method::Get, "/v1/events", None)?;
    let body = serde_json::json!({ "keep": keep });
    http::request(address, Method::Post, "/v1/stop", Some(&body))?;
    // The stream ends with the manager.
    super::show::print_until_end(stream)
}
