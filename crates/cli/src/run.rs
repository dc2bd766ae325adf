//! `nw run`: the router as a program, with configuration, signals and logs.

use crate::args::run::{self, RunArgs};
use crate::logs::Levels;
use crate::output::describe;
use crate::systemd;
use anyhow::{Context, Result, bail};
use nw_api::config::{Config, LogFormat};
use nw_app::pubsub::PubSubOptions;
use nw_app::transport;
use nw_pubsub_node::PubSubService;
use nw_rest_api::{LogSwitch, Server};
use nw_rest_api::{Programs, PubSubSource};
use nw_router::{ActivatedUnixSocket, Checked, Handle, Host, Stage};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs a router until a signal ends it.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let path = args.config.clone().or_else(found_config);
    let checked = read(path.as_deref(), args, Stage::Start)?;
    if args.check {
        args.log.as_deref().map_or(Ok(()), Levels::check)?;
        let source = path.map_or("the default".into(), |path| path.display().to_string());
        out!("{}", verdict(&source, &checked))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut config = checked.config;
    let format = match args.log_format {
        Some(run::LogFormat::Text) => LogFormat::Text,
        Some(run::LogFormat::Json) => LogFormat::Json,
        None => config.log.format,
    };
    let levels = Levels::start(args.log.as_deref().unwrap_or(Levels::of(&config)), format)?;
    if drops_privileges(&config) {
        let capabilities = nw_router::privileges::drop(&config)?;
        let uid = nw_router::privileges::uid();
        tracing::info!(
            uid,
            kept = capabilities.join(","),
            "capabilities that no feature needs are dropped"
        );
        // Read again as the new user: files that are no longer readable would only fail at a
        // reload.
        config = read(path.as_deref(), args, Stage::Start)?.config;
    }
    let (mut unix, mut control_socket) = (None, None);
    for inherited in nw_router::take_activated_sockets()? {
        let is_control = inherited.path.to_string_lossy().ends_with(".control.sock");
        let slot = if is_control { &mut control_socket } else { &mut unix };
        if slot.replace(inherited).is_some() {
            bail!(
                "the systemd socket unit passes more than one socket of a kind: it may have one \
                 for applications, and one that ends in .control.sock"
            );
        }
    }
    let unix_path =
        unix.as_ref().map_or_else(|| nw_router::unix_path(&config), |unix| unix.path.clone());
    // Before the socket is opened: from then on SIGHUP may arrive, which must not end the process.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("can't handle signals")?;
    let mut host = Host::with_inherited(config.clone(), unix)?;
    for renamed in &config.renamed {
        tracing::warn!("{renamed}");
    }
    let mut advice = BTreeSet::new();
    for (uri, listener_advice) in host.listeners() {
        tracing::info!(%uri, "listening");
        advice.extend(listener_advice);
    }
    // The advice is about system-wide settings, so each is logged once, not per listener.
    advice.iter().for_each(|advice| tracing::warn!("{advice}"));
    log_socket(&unix_path, config.unix.enabled, args.write_client_conf);
    let _server = open_control(&config, &unix_path, control_socket, host.handle(), &levels)?;
    let _pubsub = open_pubsub(&config, &unix_path)?;
    let source = ReloadSource { started_with: config, path, args: args.clone() };
    watch_signals(signals, host.handle(), source, args.log.is_none().then_some(levels))?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), shards = host.shards(), "running");
    systemd::ready(&host.handle()).context("can't start a thread")?;
    host.run()?;
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

/// Opens the control socket. If `[control]` is not configured, a failure is only logged.
fn open_control(
    config: &Config,
    unix: &Path,
    inherited: Option<ActivatedUnixSocket>,
    handle: Handle,
    levels: &Levels,
) -> Result<Option<Server>> {
    let path = inherited
        .as_ref()
        .map(|inherited| inherited.path.clone())
        .or_else(|| config.control_path(unix));
    if path.is_none()
        && config.control.listen.is_empty()
        && config.control.metrics_listen.is_empty()
        && config.page.listen.is_empty()
    {
        return Ok(None);
    }
    match nw_rest_api::serve(
        &config.control,
        path.as_deref(),
        inherited.map(|inherited| inherited.socket.into()),
        handle,
        Programs { logs: Arc::new(levels.clone()), pubsub: pubsub_source(config, unix) },
        &config.page,
    ) {
        Ok(server) => {
            server.addresses().iter().for_each(|place| tracing::info!(%place, "control"));
            Ok(Some(server))
        }
        Err(error)
            if config.control == nw_api::config::Control::default()
                && config.page.listen.is_empty() =>
        {
            tracing::warn!("nw top, trace, tap and log do not work with this router: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Publish/subscribe as the page asks for it: by its socket, as all applications do.
struct PubSubSocket(PubSubOptions);

impl PubSubSource for PubSubSocket {
    fn query(&self, topic: &str) -> Result<String, String> {
        nw_app::pubsub::query(&self.0, topic).map_err(|error| error.to_string())
    }
}

fn pubsub_source(config: &Config, unix: &Path) -> Option<Arc<dyn PubSubSource>> {
    let options = PubSubOptions {
        program: "page".to_owned(),
        ..PubSubOptions::at(config.pubsub_path(unix)?)
    };
    Some(Arc::new(PubSubSocket(options)))
}

/// Starts publish/subscribe, if it is enabled.
fn open_pubsub(config: &Config, unix: &Path) -> Result<Option<PubSubService>> {
    let Some(path) = config.pubsub_path(unix) else { return Ok(None) };
    let service = PubSubService::start(config, &path)?;
    tracing::info!(path = %path.display(), domain = config.pubsub.domain, "publish/subscribe");
    Ok(Some(service))
}

/// Reads and checks a configuration file.
pub fn load(path: &Path) -> Result<Checked> {
    Ok(nw_router::check_file(path, Stage::Start, |_| {})?)
}

/// Reads and checks the configuration file, or the default, with the changes of the command line.
fn read(path: Option<&Path>, args: &RunArgs, stage: Stage) -> Result<Checked> {
    let adjust = |config: &mut Config| apply_options(config, args);
    Ok(match path {
        Some(path) => nw_router::check_file(path, stage, adjust)?,
        None => nw_router::check("the command line", "", stage, adjust)?,
    })
}

/// Applies options of the command line to the configuration.
fn apply_options(config: &mut Config, args: &RunArgs) {
    config.forwarder.shards = args.shards.unwrap_or(config.forwarder.shards);
    config.process.drop_privileges |= args.drop_privileges;
    if let Some(port) = args.port {
        for listen in [&mut config.tcp.listen, &mut config.udp.listen] {
            listen.iter_mut().for_each(|address| address.set_port(port));
            let mut seen = BTreeSet::new();
            listen.retain(|address| seen.insert(*address));
        }
    }
    if let Some(address) = args.page {
        config.page.listen = vec![address];
    }
    if let Some(socket) = &args.socket {
        let path = socket.to_str().and_then(|text| text.strip_prefix("unix://")).map(PathBuf::from);
        config.unix.path = Some(path.unwrap_or_else(|| socket.clone()));
        config.unix.enabled = true;
        config.control.path = None;
    }
}

const fn drops_privileges(config: &Config) -> bool {
    config.process.drop_privileges || config.process.user.is_some()
}

/// Returns the text that `--check` prints for a configuration without mistakes.
pub fn verdict(source: &str, checked: &Checked) -> String {
    let renamed = checked.config.renamed.iter().map(|renamed| format!("warning: {renamed}\n"));
    let warnings = checked.warnings.iter().map(|warning| format!("warning: {warning}\n"));
    let unchecked = checked.unchecked.iter().map(|item| format!("not checked: {item}\n"));
    let lines = renamed.chain(warnings).chain(unchecked);
    format!("{source} is a configuration this router can run with\n{}", lines.collect::<String>())
}

/// Logs how other programs find this router, unless it is at a standard place.
fn log_socket(socket: &Path, enabled: bool, write: bool) {
    if !enabled {
        return;
    }
    let uri = transport::unix_uri(socket);
    let is_standard = |path: &&str| Path::new(path) == socket;
    if !write && (transport::SOCKETS.iter().any(is_standard) || transport::is_configured(&uri)) {
        return;
    }
    if !write {
        return tracing::info!(
            "other programs find this router with: export NDN_CLIENT_TRANSPORT={uri} (or run it \
             with --write-client-conf)"
        );
    }
    match transport::write_client_conf(&uri) {
        Ok((path, None)) => {
            tracing::info!(path = %path.display(), "client.conf now names this router")
        }
        Ok((path, Some(before))) => tracing::info!(
            path = %path.display(),
            before,
            "client.conf now names this router in place of another transport"
        ),
        Err(error) => tracing::error!(
            "client.conf can't be written: {error}; other programs find this router with: export \
             NDN_CLIENT_TRANSPORT={uri}"
        ),
    }
}

/// Returns the first existing configuration file.
pub(crate) fn found_config() -> Option<PathBuf> {
    let user = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let user =
        user.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
    let folders = user.into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| folder.join("namewire/nw.toml")).find(|path| path.exists())
}

/// What a reload needs: the file, the options of the command line, and the initial configuration.
struct ReloadSource {
    started_with: Config,
    path: Option<PathBuf>,
    args: RunArgs,
}

/// Handles signals in a thread: SIGTERM and SIGINT end the router, SIGHUP reloads the
/// configuration. A file with mistakes changes nothing.
fn watch_signals(
    mut signals: Signals,
    handle: Handle,
    source: ReloadSource,
    levels: Option<Levels>,
) -> Result<()> {
    let watch = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                systemd::stopping();
                return handle.stop();
            }
            let Some(path) = &source.path else {
                tracing::warn!(
                    "SIGHUP: this router runs without a configuration file, so there is nothing to \
                     reload"
                );
                continue;
            };
            systemd::reloading();
            match read(Some(path), &source.args, Stage::Reload) {
                Ok(Checked { config, .. }) => {
                    for renamed in &config.renamed {
                        tracing::warn!("SIGHUP: {renamed}");
                    }
                    let missing = nw_router::privileges::missing(&config, &source.started_with);
                    if drops_privileges(&source.started_with) && !missing.is_empty() {
                        let missing = missing.join(", ");
                        tracing::warn!(
                            "SIGHUP: this configuration needs {missing}, dropped at start: restart \
                             the router"
                        );
                    }
                    if let Some(levels) = &levels {
                        let _ = levels.set(Levels::of(&config));
                    }
                    handle.reload(config);
                }
                Err(error) => {
                    tracing::error!(
                        "SIGHUP: the configuration stays as it was: {}",
                        describe(&error)
                    )
                }
            }
            systemd::reloaded(&handle);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context("can't start a thread")?;
    Ok(())
}
