//! `nw run`: the router as a program: configuration, signals, logs.

use crate::args::Run;
use anyhow::{Context, Result};
use nw_api::config::{Config, LogLevel};
use nw_router::{Handle, Host};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

type LevelSwitch = reload::Handle<EnvFilter, Registry>;

/// Runs until a signal ends it.
pub fn run(args: &Run) -> Result<ExitCode> {
    let path = args.config.clone().or_else(found_config);
    let config = match &path {
        Some(path) => load(path)?,
        None => Config::default(),
    };
    if args.check {
        println!(
            "{} is a configuration this router can run with",
            path.map_or("the default".into(), |p| p.display().to_string())
        );
        return Ok(ExitCode::SUCCESS);
    }
    let level = log_to_stderr(args.log.as_deref(), &config)?;
    let mut host = Host::new(config)?;
    for (uri, advice) in host.listeners() {
        tracing::info!(%uri, "listening");
        if let Some(advice) = advice {
            tracing::warn!(%uri, "{advice}");
        }
    }
    watch_signals(host.handle(), path, args.log.is_none().then_some(level))?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "running");
    host.run()?;
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
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

fn filter(config: &Config) -> EnvFilter {
    EnvFilter::new(match config.log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    })
}

fn log_to_stderr(wanted: Option<&str>, config: &Config) -> Result<LevelSwitch> {
    let filter = match wanted {
        Some(text) => {
            EnvFilter::try_new(text).with_context(|| format!("{text:?} is no log level or filter"))?
        }
        None => filter(config),
    };
    let (filter, switch) = reload::Layer::new(filter);
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(terminal).with_target(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(switch)
}

/// SIGTERM and SIGINT end the router, SIGHUP makes it read its configuration again. A file with mistakes changes nothing.
fn watch_signals(handle: Handle, path: Option<PathBuf>, level: Option<LevelSwitch>) -> Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("can't watch for signals")?;
    let watch = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                return handle.stop();
            }
            let Some(path) = &path else {
                tracing::warn!(
                    "SIGHUP: this router runs without a configuration file, so there is nothing to read again"
                );
                continue;
            };
            match load(path) {
                Ok(config) => {
                    if let Some(level) = &level {
                        let _ = level.reload(filter(&config));
                    }
                    handle.reload(config);
                }
                Err(error) => tracing::error!("SIGHUP: the configuration stays as it was: {error:#}"),
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).context("can't start a thread")?;
    Ok(())
}
