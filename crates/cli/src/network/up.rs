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
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Interval at which the control socket of a detached manager is looked for.
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
    /// Seconds after which instances that no version of the document explains are removed
    #[arg(
        long,
        value_name = "S",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(0..=86_400)
    )]
    orphan_grace_s: u64,
    /// Serve the web page on this address of this machine, 127.0.0.1:6390 if none is given
    ///
    /// `nw open --network NAME` opens it.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = PAGE_ADDRESS)]
    page: Option<SocketAddr>,
    /// Serve users of other machines here by TLS, with tokens; such as 0.0.0.0:6367
    ///
    /// `nw network token add` makes a token.
    #[arg(long, value_name = "ADDRESS:PORT")]
    tls: Option<SocketAddr>,
    /// Certificate of the page, PEM: it is served over TLS
    #[arg(long, value_name = "FILE", requires_all = ["page", "page_key"])]
    page_certificate: Option<PathBuf>,
    /// Private key of --page-certificate, PEM
    #[arg(long, value_name = "FILE", requires = "page_certificate")]
    page_key: Option<PathBuf>,
    /// File with the secret that opens the page where `nw open` cannot run, at least 16 characters
    ///
    /// With it and a certificate, --page may have an address that other machines reach.
    #[arg(long, value_name = "FILE", requires = "page")]
    page_token_file: Option<PathBuf>,
    /// URL under which browsers reach the page: with a host name, or through a proxy that adds TLS
    #[arg(long, value_name = "URL", requires = "page")]
    page_url: Option<String>,
    #[command(flatten)]
    hosts: HostOptions,
    #[cfg(feature = "kubernetes")]
    #[command(flatten)]
    kubernetes: super::kubernetes::UpOptions,
    /// Print one JSON object per event instead of text
    #[arg(long)]
    json: bool,
}

/// Runs `nw network up`.
pub fn up(args: &Up) -> Result<ExitCode> {
    let document = args.file.as_deref().map(DocumentFile::read).transpose()?;
    let name = name_of(args)?;
    #[cfg(feature = "kubernetes")]
    if args.hosts.engine == super::hosts::EngineChoice::Kubernetes {
        let document = document.context("give a graph file: the operator keeps no other")?;
        let behaviour = super::kubernetes::Behaviour {
            is_detached: args.detach,
            is_kept: args.keep,
            is_json: args.json,
        };
        return super::kubernetes::up(&args.kubernetes, &name, document.text, behaviour);
    }
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
        orphan_grace: Duration::from_secs(args.orphan_grace_s),
        revision: String::new(),
        has_addresses: false,
    };
    let first = document.map(|document| FirstDocument {
        text: document.text,
        folder: document.folder,
        author: Author::current_user(),
    });
    let signals = Arc::new(SignalCount::default());
    watch_signals(&signals)?;
    let manager = Manager::start(options, first)?;
    let handle = manager.handle();
    // It is set once.
    let _ = signals.handle.set(handle.clone());
    let page = page(args)?;
    let server = nw_manager::serve::serve(handle.clone(), &page, args.tls)?;
    server.addresses().iter().for_each(|place| note!("control: {place}"));
    let printed = follow(&handle, &signals, args);
    if printed.is_err() {
        // The output has no reader any more: the services are left as they are.
        handle.quit();
    }
    manager.wait();
    drop(server);
    printed?;
    let is_interrupted = signals.count.load(Ordering::SeqCst) > 1;
    Ok(if is_interrupted { Status::Interrupted } else { Status::Done }.into())
}

/// Returns the options of the page, as `[page]` of a router has them.
fn page(args: &Up) -> Result<Page> {
    let page = Page {
        listen: args.page.into_iter().collect(),
        token_file: args.page_token_file.clone(),
        certificate: args.page_certificate.clone(),
        key: args.page_key.clone(),
        public_url: args.page_url.clone(),
        allow_remote: true,
        ..Page::default()
    };
    match page.contradictions().first() {
        None => Ok(page),
        Some(("page.allow_remote", ..)) => bail!(
            "--page {}: other machines reach it. Give an address of this machine, such as \
             {PAGE_ADDRESS}, or --page-token-file with --page-certificate and --page-key",
            page.listen[0]
        ),
        Some((option, seen, expected)) => bail!("--{option}: {seen}; expected: {expected}"),
    }
}

/// Returns the options of the page as arguments, for a manager in the background.
fn page_arguments(args: &Up) -> Vec<OsString> {
    let paths = [
        ("--page-certificate", &args.page_certificate),
        ("--page-key", &args.page_key),
        ("--page-token-file", &args.page_token_file),
    ];
    let mut list = Vec::new();
    if let Some(address) = args.page {
        list.extend(["--page".into(), address.to_string().into()]);
    }
    for (option, path) in paths {
        list.extend(path.iter().flat_map(|path| [option.into(), path.into()]));
    }
    list.extend(args.page_url.iter().flat_map(|url| ["--page-url".into(), url.into()]));
    list
}

fn name_of(args: &Up) -> Result<String> {
    let stem = || Some(args.file.as_ref()?.file_stem()?.to_string_lossy().into_owned());
    let name = args.network.name.clone().or_else(stem);
    let name = name.context("give a graph file, or the --name of a network that ran before")?;
    check_name(&name)?;
    Ok(name)
}

/// Number of SIGINT and SIGTERM, and the manager whose follower is woken by them.
#[derive(Default)]
struct SignalCount {
    count: AtomicUsize,
    handle: OnceLock<Handle>,
}

/// Counts SIGINT and SIGTERM in a thread.
fn watch_signals(count: &Arc<SignalCount>) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .context("can't watch for signals")?;
    let counted = Arc::clone(count);
    let watch = move || {
        for _ in signals.forever() {
            counted.count.fetch_add(1, Ordering::SeqCst);
            counted.handle.get().inspect(|handle| handle.wake());
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context("can't start a thread")?;
    Ok(())
}

/// Prints events until the manager has ended. The first signal stops the network, or only the
/// manager with `--keep`; the second one leaves the services as they are.
fn follow(handle: &Handle, signals: &SignalCount, args: &Up) -> Result<()> {
    let (mut number, mut acted) = (0, 0);
    loop {
        let count = || signals.count.load(Ordering::SeqCst);
        let has_ended = handle.wait_event(number, || count() > acted);
        for event in handle.events().after(number) {
            number = event.number;
            print_event(&event, args.json)?;
        }
        if has_ended {
            return Ok(());
        }
        let count = count();
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
    command.args(["--orphan-grace-s", &args.orphan_grace_s.to_string()]);
    if let Some(tls) = args.tls {
        command.args(["--tls", &tls.to_string()]);
    }
    command.args(args.hosts.arguments()).args(page_arguments(args)).args(&args.file);
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
