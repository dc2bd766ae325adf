//! `nw balancer run`: the balancer as a program, with configuration, signals and logs.

use super::{Run, pods};
use crate::logs::Levels;
use crate::output::describe;
use crate::systemd;
use anyhow::{Context, Result, bail};
use nw_agent::Hub;
use nw_api::config::LogFormat;
use nw_api::config::file::{TEXT_MAX, read_text};
use nw_balancer::{Balancer, Config, Shutdown, control, remote_agents};
use nw_rest_api::{ServeError, Server};
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

/// Runs a balancer until a signal or a command ends it.
pub fn run(args: &Run) -> Result<ExitCode> {
    let config = load(&args.config)?;
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    // Checked first: two balancers would overwrite each other's settings in the kernel.
    let socket = config.control.path.clone();
    if UnixStream::connect(&socket).is_ok() {
        bail!(
            "a balancer is running already: {} answers; end it with `nw balancer stop`, or \
             configure another [control] path",
            socket.display()
        );
    }
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("can't watch for signals")?;
    let cluster = config.cluster.name.clone();
    let balancer = Balancer::start(config.clone(), pods::count(&config)?)?;
    let handle = balancer.handle();
    let (server, agents) = match listen(&config, &handle, &balancer) {
        Ok(listeners) => listeners,
        Err(error) => {
            // A data path that was taken over keeps running.
            handle.end(Some(if balancer.adopted() {
                Shutdown::LeaveAttached
            } else {
                Shutdown::Detach
            }));
            balancer.run(Shutdown::Detach);
            return Err(error);
        }
    };
    if let Some(agents) = &agents {
        tracing::info!(address = %agents.address(), "agents of other machines");
    }
    server.addresses().iter().for_each(|place| tracing::info!(%place, "control"));
    watch_signals(signals, handle, args.config.clone())?;
    if balancer.adopted() {
        tracing::info!("took over the data path of an earlier process");
    }
    tracing::info!(cluster, version = env!("CARGO_PKG_VERSION"), "running");
    systemd::ready_without_watchdog();
    let ending = balancer.run(if args.keep { Shutdown::LeaveAttached } else { Shutdown::Detach });
    drop((server, agents));
    let outcome = if ending == Shutdown::LeaveAttached {
        "the data path keeps running"
    } else {
        "the program is detached from the interfaces"
    };
    tracing::info!(cluster, "ended: {outcome}");
    Ok(ExitCode::SUCCESS)
}

/// Opens the control socket, and the listener for agents if there is to be one.
fn listen(
    config: &Config,
    handle: &nw_balancer::Handle,
    balancer: &Balancer,
) -> Result<(Server, Option<Hub>)> {
    let server = control::serve(&config.control, &config.page, handle.clone());
    let server = server.map_err(|error| match error {
        ServeError::InUse(path) => {
            anyhow::anyhow!("{} is in use: another balancer is running", path.display())
        }
        error => error.into(),
    })?;
    let agents = remote_agents::listen(config, handle.clone(), balancer.enrolment_counts())?;
    Ok((server, agents))
}

/// Handles signals in a thread: SIGTERM and SIGINT end the balancer, SIGHUP reloads its
/// configuration. A file with mistakes changes nothing.
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
                    tracing::error!(
                        "SIGHUP: the configuration stays as it was: {}",
                        describe(&error)
                    )
                }
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context("can't start a thread")?;
    Ok(())
}
