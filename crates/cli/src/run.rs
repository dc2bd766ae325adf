//! `nw run`: the router as a program: configuration, signals, logs.

use crate::args::{self, Run};
use crate::logs::Levels;
use crate::output::describe;
use crate::systemd;
use anyhow::{Context, Result, bail};
use nw_api::config::{Config, LogFormat};
use nw_app::transport;
use nw_rest_api::{LogSwitch, Server};
use nw_router::{Checked, Handle, Host, InheritedUnix, Stage};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs until a signal ends it.
pub fn run(args: &Run) -> Result<ExitCode> {
    let path = args.config.clone().or_else(found_config);
    let checked = read(path.as_deref(), args, Stage::Start)?;
    if args.check {
        args.log.as_deref().map_or(Ok(()), Levels::check)?;
        let what = path.map_or("the default".into(), |path| path.display().to_string());
        out!("{}", verdict(&what, &checked))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut config = checked.config;
    let format = match args.log_format {
        Some(args::LogFormat::Text) => LogFormat::Text,
        Some(args::LogFormat::Json) => LogFormat::Json,
        None => config.log.format,
    };
    let levels = Levels::start(args.log.as_deref().unwrap_or(Levels::of(&config)), format)?;
    if gives_up(&config) {
        let kept = nw_router::privileges::drop(&config)?;
        let uid = nw_router::privileges::uid();
        tracing::info!(uid, kept = kept.join(","), "rights that no feature needs are given up");
        // As the user it is now: what can't be read any more would be found out by the next reload only.
        config = read(path.as_deref(), args, Stage::Start)?.config;
    }
    let (mut unix, mut control_socket) = (None, None);
    for inherited in nw_router::take_inherited()? {
        let is_control = inherited.path.to_string_lossy().ends_with(".control.sock");
        let place = if is_control { &mut control_socket } else { &mut unix };
        if place.replace(inherited).is_some() {
            bail!(
                "the socket unit passes more than one socket of a kind: one is for applications, one may end in .control.sock"
            );
        }
    }
    let unix_path = unix.as_ref().map_or_else(|| nw_router::unix_path(&config), |unix| unix.path.clone());
    // Before its socket answers: who sees that may send SIGHUP, which must not end it.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("can't watch for signals")?;
    let mut host = Host::with_inherited(config.clone(), unix)?;
    let mut advice = BTreeSet::new();
    for (uri, its_advice) in host.listeners() {
        tracing::info!(%uri, "listening");
        advice.extend(its_advice);
    }
    // What the system granted is one setting for all sockets: it is said once.
    advice.iter().for_each(|advice| tracing::warn!("{advice}"));
    say_where(&unix_path, config.unix.enabled, args.write_client_conf);
    let _server = control(&config, &unix_path, control_socket, host.handle(), &levels)?;
    let reading = Reading { started_with: config, path, args: args.clone() };
    watch_signals(signals, host.handle(), reading, args.log.is_none().then_some(levels))?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), shards = host.shards(), "running");
    systemd::ready(&host.handle()).context("can't start a thread")?;
    host.run()?;
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

/// Opens the control socket. Where nobody said that there is to be one, and where, a router runs without if it must.
fn control(
    config: &Config,
    unix: &Path,
    inherited: Option<InheritedUnix>,
    handle: Handle,
    levels: &Levels,
) -> Result<Option<Server>> {
    let path =
        inherited.as_ref().map(|inherited| inherited.path.clone()).or_else(|| config.control_path(unix));
    if path.is_none() && config.control.listen.is_empty() && config.control.metrics_listen.is_empty() {
        return Ok(None);
    }
    match nw_rest_api::serve(
        &config.control,
        path.as_deref(),
        inherited.map(|inherited| inherited.socket.into()),
        handle,
        Arc::new(levels.clone()),
    ) {
        Ok(server) => {
            server.places().iter().for_each(|place| tracing::info!(%place, "control"));
            Ok(Some(server))
        }
        Err(error) if config.control == nw_api::config::Control::default() => {
            tracing::warn!("nw top, trace, tap and log won't reach this router: {error}");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads and checks a configuration file, as it stands.
pub fn load(path: &Path) -> Result<Checked> {
    Ok(nw_router::check_file(path, Stage::Start, |_| {})?)
}

/// Reads and checks the configuration file, or the default, with what the command line says in its place.
fn read(path: Option<&Path>, args: &Run, stage: Stage) -> Result<Checked> {
    let adjust = |config: &mut Config| adjust(config, args);
    Ok(match path {
        Some(path) => nw_router::check_file(path, stage, adjust)?,
        None => nw_router::check("the command line", "", stage, adjust)?,
    })
}

fn adjust(config: &mut Config, args: &Run) {
    config.forwarder.shards = args.shards.unwrap_or(config.forwarder.shards);
    config.process.drop_privileges |= args.drop_privileges;
    if let Some(port) = args.port {
        for listen in [&mut config.tcp.listen, &mut config.udp.listen] {
            listen.iter_mut().for_each(|address| address.set_port(port));
            let mut known = BTreeSet::new();
            listen.retain(|address| known.insert(*address));
        }
    }
    if let Some(socket) = &args.socket {
        let path = socket.to_str().and_then(|text| text.strip_prefix("unix://")).map(PathBuf::from);
        config.unix.path = Some(path.unwrap_or_else(|| socket.clone()));
        config.unix.enabled = true;
        config.control.path = None;
    }
}

const fn gives_up(config: &Config) -> bool {
    config.process.drop_privileges || config.process.user.is_some()
}

/// What `--check` prints of a configuration that has no mistakes.
pub fn verdict(what: &str, checked: &Checked) -> String {
    let warnings = checked.warnings.iter().map(|warning| format!("warning: {warning}\n"));
    let lines = warnings.chain(checked.unchecked.iter().map(|what| format!("not checked: {what}\n")));
    format!("{what} is a configuration this router can run with\n{}", lines.collect::<String>())
}

/// Says how other programs find this router, where they do not look by themselves.
fn say_where(socket: &Path, enabled: bool, write: bool) {
    if !enabled {
        return;
    }
    let uri = transport::unix_uri(socket);
    let is_known = |path: &&str| Path::new(path) == socket;
    if !write && (transport::SOCKETS.iter().any(is_known) || transport::is_configured(&uri)) {
        return;
    }
    if !write {
        return tracing::info!(
            "other programs find this router with: export NDN_CLIENT_TRANSPORT={uri} (or run it with --write-client-conf)"
        );
    }
    match transport::write_client_conf(&uri) {
        Ok((path, None)) => {
            tracing::info!(path = %path.display(), "other programs find this router by client.conf")
        }
        Ok((path, Some(before))) => tracing::info!(
            path = %path.display(), before, "other programs find this router by client.conf; its transport was another"
        ),
        Err(error) => tracing::error!(
            "client.conf can't be written: {error}; other programs find this router with: export NDN_CLIENT_TRANSPORT={uri}"
        ),
    }
}

/// The first configuration file that is there.
pub(crate) fn found_config() -> Option<PathBuf> {
    let user = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let user = user.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
    let folders = user.into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| folder.join("namewire/nw.toml")).find(|path| path.exists())
}

/// What is read again on SIGHUP.
struct Reading {
    started_with: Config,
    path: Option<PathBuf>,
    args: Run,
}

/// SIGTERM and SIGINT end the router, SIGHUP makes it read its configuration again. A file with mistakes changes nothing.
fn watch_signals(
    mut signals: Signals,
    handle: Handle,
    reading: Reading,
    levels: Option<Levels>,
) -> Result<()> {
    let watch = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                systemd::stopping();
                return handle.stop();
            }
            let Some(path) = &reading.path else {
                tracing::warn!(
                    "SIGHUP: this router runs without a configuration file, so there is nothing to read again"
                );
                continue;
            };
            systemd::reloading();
            match read(Some(path), &reading.args, Stage::Reload) {
                Ok(Checked { config, .. }) => {
                    let missing = nw_router::privileges::missing(&config, &reading.started_with);
                    if gives_up(&reading.started_with) && !missing.is_empty() {
                        let missing = missing.join(", ");
                        tracing::warn!(
                            "SIGHUP: what this file switches on needs {missing}, given up at the start: restart the router"
                        );
                    }
                    if let Some(levels) = &levels {
                        let _ = levels.set(Levels::of(&config));
                    }
                    handle.reload(config);
                }
                Err(error) => {
                    tracing::error!("SIGHUP: the configuration stays as it was: {}", describe(&error))
                }
            }
            systemd::reloaded(&handle);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).context("can't start a thread")?;
    Ok(())
}
