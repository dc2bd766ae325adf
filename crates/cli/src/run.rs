//! `nw run`: the router as a program: configuration, signals, logs.

use crate::args::{self, Run};
use crate::logs::Levels;
use crate::systemd;
use anyhow::{Context, Result, bail};
use nw_api::config::{Config, LogFormat};
use nw_rest::{LogSwitch, Server};
use nw_router::{Handle, Host, InheritedUnix};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs until a signal ends it.
pub fn run(args: &Run) -> Result<ExitCode> {
    let path = args.config.clone().or_else(found_config);
    let mut config = match &path {
        Some(path) => load(path)?,
        None => Config::default(),
    };
    if let Some(shards) = args.shards {
        config.forwarder.shards = shards;
    }
    if args.check {
        outln!(
            "{} is a configuration this router can run with",
            path.map_or("the default".into(), |p| p.display().to_string())
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let format = match args.log_format {
        Some(args::LogFormat::Text) => LogFormat::Text,
        Some(args::LogFormat::Json) => LogFormat::Json,
        None => config.log.format,
    };
    let levels = Levels::start(args.log.as_deref().unwrap_or(Levels::of(&config)), format)?;
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
    for (uri, advice) in host.listeners() {
        tracing::info!(%uri, "listening");
        if let Some(advice) = advice {
            tracing::warn!(%uri, "{advice}");
        }
    }
    let _server = control(&config, &unix_path, control_socket, host.handle(), &levels)?;
    watch_signals(signals, host.handle(), path, args.shards, args.log.is_none().then_some(levels))?;
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
    match nw_rest::serve(
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

/// Reads and checks a configuration file.
pub fn load(path: &Path) -> Result<Config> {
    let text = fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(Config::parse(&path.display().to_string(), &text)?)
}

/// The first configuration file that is there.
fn found_config() -> Option<PathBuf> {
    let user = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let user = user.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
    let folders = user.into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| folder.join("namewire/nw.toml")).find(|path| path.exists())
}

/// SIGTERM and SIGINT end the router, SIGHUP makes it read its configuration again. A file with mistakes changes nothing.
fn watch_signals(
    mut signals: Signals,
    handle: Handle,
    path: Option<PathBuf>,
    shards: Option<u32>,
    levels: Option<Levels>,
) -> Result<()> {
    let watch = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                systemd::stopping();
                return handle.stop();
            }
            let Some(path) = &path else {
                tracing::warn!(
                    "SIGHUP: this router runs without a configuration file, so there is nothing to read again"
                );
                continue;
            };
            systemd::reloading();
            match load(path) {
                Ok(mut config) => {
                    config.forwarder.shards = shards.unwrap_or(config.forwarder.shards);
                    if let Some(levels) = &levels {
                        let _ = levels.set(Levels::of(&config));
                    }
                    handle.reload(config);
                }
                Err(error) => tracing::error!("SIGHUP: the configuration stays as it was: {error:#}"),
            }
            systemd::reloaded(&handle);
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).context("can't start a thread")?;
    Ok(())
}
