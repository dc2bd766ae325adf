//! `nw balancer run`: configuration, signals, logs.

use super::Run;
use crate::logs::Levels;
use crate::output::describe;
use crate::systemd;
use anyhow::{Context, Result, bail};
use nw_api::config::LogFormat;
use nw_api::config::file::{TEXT_MAX, read_text};
use nw_balancer::{Balancer, Config, Ending, control};
use nw_rest_api::ServeError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Reads and checks a configuration file.
pub fn load(path: &Path) -> Result<Config> {
    let text = read_text(path, TEXT_MAX)?;
    Ok(Config::parse(&path.display().to_string(), &text)?)
}

/// Runs until a signal or a command ends it.
pub fn run(args: &Run) -> Result<ExitCode> {
    let config = load(&args.config)?;
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    // Before anything is touched: two of them would tell the kernel different things in turn.
    let socket = config.control.path.clone();
    if UnixStream::connect(&socket).is_ok() {
        bail!(
            "a balancer is running already: something answers at {}; end it with `nw balancer stop`, or give this one another [control] path",
            socket.display()
        );
    }
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("can't watch for signals")?;
    let cluster = config.cluster.name.clone();
    let control_section = config.control.clone();
    let balancer = Balancer::start(config)?;
    let handle = balancer.handle();
    let server = match control::serve(&control_section, handle.clone()) {
        Ok(server) => server,
        Err(error) => {
            // What was taken over goes on as before.
            handle.end(Some(if balancer.adopted() { Ending::Keep } else { Ending::Clean }));
            balancer.run(Ending::Clean);
            return Err(match error {
                ServeError::InUse(path) => {
                    anyhow::anyhow!("{} is in use: another balancer is running", path.display())
                }
                error => error.into(),
            });
        }
    };
    server.places().iter().for_each(|place| tracing::info!(%place, "control"));
    watch_signals(signals, handle, args.config.clone())?;
    if balancer.adopted() {
        tracing::info!("took over the data path that was there");
    }
    tracing::info!(cluster, version = env!("CARGO_PKG_VERSION"), "running");
    systemd::say_ready();
    let ending = balancer.run(if args.keep { Ending::Keep } else { Ending::Clean });
    drop(server);
    let how =
        if ending == Ending::Keep { "the data path goes on" } else { "the program is off the interfaces" };
    tracing::info!(cluster, "ended: {how}");
    Ok(ExitCode::SUCCESS)
}

/// SIGTERM and SIGINT end the balancer, SIGHUP makes it read its file again. A file with mistakes changes nothing.
fn watch_signals(mut signals: Signals, handle: nw_balancer::Handle, file: PathBuf) -> Result<()> {
    let watch = move || {
        for signal in signals.forever() {
            if signal != SIGHUP {
                systemd::stopping();
                return handle.end(None);
            }
            match load(&file) {
                Ok(config) => handle.reload(config),
                Err(error) => {
                    tracing::error!("SIGHUP: the configuration stays as it was: {}", describe(&error))
                }
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).context("can't start a thread")?;
    Ok(())
}
