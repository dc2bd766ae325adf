//! `nw service`: one element, or a part of a graph, as a process of its own; and commands to
//! control such processes.

mod elements;

use crate::graph::load;
use crate::logs::Levels;
use crate::observe::http::{self, ControlAddress, Method};
use crate::observe::{self, ElementOption, TapOptions};
use crate::output;
use crate::output::stdout;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use nw_api::config::LogFormat;
use nw_api::service::{
    GraphChange, GraphOrder, GraphText, ServiceLink, ServiceStatistics, ServiceStatus,
};
use nw_element_api::{Parameters, Value};
use nw_graph::host::{Handle, Host};
use nw_graph::{Graph, check, language};
use nw_name::Name;
use nw_service::{Endpoints, serve, single_element_graph};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Interval at which `nw service drain --wait` checks whether the service has ended.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Run a service until Ctrl-C, or until it is drained or stopped over its control socket
    ///
    /// A single element is placed between clients that connect to --listen and the upstream given
    /// by --to: `nw service run content_store mib=64 --listen unix:///run/cs.sock --to
    /// next=unix:///run/br.sock`. A failed connection is retried every second.
    Run(Run),
    /// Show state and counters of a service
    Status {
        #[command(flatten)]
        service: Service,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show the connections of a service
    Links {
        #[command(flatten)]
        service: Service,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show packets per port of a service, and drops
    Statistics {
        #[command(flatten)]
        service: Service,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show the graph of a service, or replace it while packets flow
    Graph {
        #[command(flatten)]
        service: Service,
        /// File with the new graph
        #[arg(long, value_name = "FILE")]
        set: Option<PathBuf>,
        /// How packets are handled during the change: drop, buffer, make-before-break
        #[arg(long, value_name = "ORDER", default_value = "make-before-break", requires = "set")]
        order: String,
    },
    /// Show the state of each element: pending Interests, cached packets, hits, failures
    Elements {
        #[command(flatten)]
        service: Service,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Remove cached packets under a prefix from a service's content store
    Erase {
        #[command(flatten)]
        service: Service,
        /// Packets whose names start with it are removed
        prefix: Name,
        /// Maximum number of packets; default: all
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        packets: Option<u64>,
        /// Name of the content store in the graph; needed if there are several
        #[arg(long, value_name = "NAME")]
        element: Option<String>,
    },
    /// Give the cached packets of one service to another one, newest first
    ///
    /// Both forward packets meanwhile. The receiver evicts nothing for them.
    HandOver(elements::HandOver),
    /// Show the routes of a service's name router, and what set them
    Routes {
        #[command(flatten)]
        service: Service,
        /// Name of the name router in the graph; needed if there are several
        #[arg(long, value_name = "NAME")]
        element: Option<String>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show what happens in a service, until Ctrl-C: links, changes, registrations, failures
    Events {
        #[command(flatten)]
        service: Service,
        /// Begin after this event: START-NUMBER, as printed with --json
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show packets as a service receives and sends them, or write them for Wireshark
    ///
    /// With --element, packets as they leave an element inside of it. At most 5,000 packets a
    /// second are captured; the others are counted as lost. `nw service links` lists the ids of
    /// faces, `nw service graph` the elements.
    Tap {
        #[command(flatten)]
        service: Service,
        /// Only packets with names under this prefix
        #[arg(long, short, value_name = "PREFIX")]
        prefix: Option<Name>,
        #[command(flatten)]
        inside: ElementOption,
        #[command(flatten)]
        options: TapOptions,
    },
    /// Stop accepting Interests, and end the service when none is pending
    Drain {
        #[command(flatten)]
        service: Service,
        /// Return when the service has ended
        #[arg(long)]
        wait: bool,
    },
    /// End a service immediately
    Stop {
        #[command(flatten)]
        service: Service,
    },
    /// Print the OpenAPI document of a service's control socket
    Openapi,
}

/// Options that select a service.
#[derive(Debug, Args)]
pub struct Service {
    /// Name of the service, or path of its control socket
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Element to run; `nw graph help` lists all
    #[arg(required_unless_present = "graph")]
    pub element: Option<String>,
    /// Parameters of the element: NAME=VALUE
    #[arg(value_name = "NAME=VALUE", conflicts_with = "graph")]
    pub parameters: Vec<String>,
    /// Run this graph file instead of one element
    #[arg(long, value_name = "FILE", conflicts_with = "element")]
    pub graph: Option<PathBuf>,
    /// Address for downstream connections: unix:///path, shm:///path, tcp4://address:port,
    /// udp4://address:port
    #[arg(long, value_name = "URI", conflicts_with = "graph")]
    pub listen: Vec<String>,
    /// Upstream: a name for use in routes, and an address; may be repeated
    ///
    /// Interests for which the element selects no next hop go to the first one.
    #[arg(long, value_name = "NAME=URI", conflicts_with = "graph")]
    pub to: Vec<String>,
    /// Name of the service; default: the name of the element or file
    #[arg(long)]
    pub name: Option<String>,
    /// Path of its control socket; default: derived from its name
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// On SIGTERM, drain for at most this many seconds; a second SIGTERM ends the service at once
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub drain_on_term: Option<u64>,
    /// Log level: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// Runs `nw service …`.
pub fn service(action: &ServiceCommand) -> Result<ExitCode> {
    match action {
        ServiceCommand::Run(args) => return run(args),
        ServiceCommand::Status { service, json } => status(&service.address(), *json)?,
        ServiceCommand::Links { service, json } => links(&service.address(), *json)?,
        ServiceCommand::Statistics { service, json } => statistics(&service.address(), *json)?,
        ServiceCommand::Graph { service, set, order } => {
            graph(&service.address(), set.as_deref(), order)?
        }
        ServiceCommand::Elements { service, json } => elements::show(&service.address(), *json)?,
        ServiceCommand::Erase { service, prefix, packets, element } => {
            elements::erase(&service.address(), element.as_deref(), prefix, *packets)?
        }
        ServiceCommand::HandOver(args) => elements::hand_over(args)?,
        ServiceCommand::Routes { service, element, json } => {
            elements::routes(&service.address(), element.as_deref(), *json)?
        }
        ServiceCommand::Events { service, after, json } => {
            elements::events(&service.address(), after.as_deref(), *json)?
        }
        ServiceCommand::Tap { service, prefix, inside, options } => {
            let (prefix, element) = (prefix.as_ref(), inside.element.as_ref());
            return observe::show_tap(&service.address(), "/v1/tap", prefix, element, options);
        }
        ServiceCommand::Drain { service, wait } => drain(&service.address(), *wait)?,
        ServiceCommand::Stop { service } => {
            drop(http::request(&service.address(), Method::Post, "/v1/stop", None)?)
        }
        ServiceCommand::Openapi => outln!("{}", nw_service::control::document())?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Service {
    fn address(&self) -> ControlAddress {
        match self.name.contains('/') {
            true => ControlAddress::Service(PathBuf::from(&self.name)),
            false => ControlAddress::Service(control_path(&self.name)),
        }
    }
}

/// Returns the default control socket: in this user's runtime folder, else in the temporary folder.
fn control_path(name: &str) -> PathBuf {
    let folder =
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    folder.unwrap_or_else(std::env::temp_dir).join(format!("nw-service-{name}.sock"))
}

fn run(args: &Run) -> Result<ExitCode> {
    let (graph, name) = match (&args.graph, &args.element) {
        (Some(path), _) => {
            (load(path)?.graph, path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        }
        (None, Some(element)) => (graph_of_element(element, args)?, Some(element.clone())),
        (None, None) => bail!("name an element, or a graph file with --graph"),
    };
    let name = args.name.clone().or(name).unwrap_or_else(|| "service".to_owned());
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is not a service name: it must not be empty or contain /");
    }
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    let signals = Signals::new([SIGTERM, SIGINT]).context("can't watch for signals")?;
    let mut host = Host::new(&graph)?;
    let drain_limit = args.drain_on_term.map(Duration::from_secs);
    stop_on(signals, host.handle(), drain_limit)?;
    let control = args.control.clone().unwrap_or_else(|| control_path(&name));
    let server = serve(&control, &name, &language::write(&graph), host.handle())?;
    host.listeners().iter().for_each(|uri| tracing::info!(%uri, "listening"));
    tracing::info!(service = name, control = %control.display(), "running");
    let ended = host.run();
    drop(server);
    match &ended {
        Ok(()) => tracing::info!(service = name, "ended"),
        Err(error) => tracing::error!(service = name, "ended: {error}"),
    }
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a checked graph with one element.
fn graph_of_element(element: &str, args: &Run) -> Result<Graph> {
    let mut parameters = Parameters::default();
    for text in &args.parameters {
        let (name, value) = text.split_once('=').with_context(|| {
            format!(
                "{text:?} is not a parameter of the form NAME=VALUE, see nw graph help {element}"
            )
        })?;
        // Anything that is not a value of the graph language is taken as text, so that it needs no
        // quotes.
        let value = language::parse_value(value).unwrap_or_else(|_| Value::Text(value.to_owned()));
        parameters.0.push((name.to_owned(), value));
    }
    let upstream = |text: &String| {
        let (name, uri) = text
            .split_once('=')
            .with_context(|| format!("--to {text:?} is not of the form NAME=URI"))?;
        Ok((name.to_owned(), uri.to_owned()))
    };
    let ends = Endpoints {
        listen: args.listen.clone(),
        to: args.to.iter().map(upstream).collect::<Result<_>>()?,
    };
    if ends.listen.is_empty() && ends.to.is_empty() {
        bail!(
            "the service has no connections: give --listen for downstreams and --to for the upstream"
        );
    }
    let graph = single_element_graph(element, parameters, &ends)?;
    let problems = check::check(&graph);
    if problems.is_empty() {
        return Ok(graph);
    }
    let mut messages: Vec<String> =
        problems.iter().map(|problem| format!("{}; {}", problem.message, problem.remedy)).collect();
    if ends.to.is_empty() {
        messages.insert(0, format!("{element} has no upstream for Interests: give --to NAME=URI"));
    }
    bail!(messages.join("\n"))
}

/// Stops the service on SIGINT or SIGTERM. With a limit, the first SIGTERM drains it instead.
fn stop_on(mut signals: Signals, handle: Handle, drain_limit: Option<Duration>) -> Result<()> {
    let watch = move || {
        let mut drain_limit = drain_limit;
        for signal in signals.forever() {
            match drain_limit.take().filter(|_| signal == SIGTERM) {
                Some(limit) if handle.drain(limit).is_ok() => tracing::info!("draining"),
                _ => return handle.stop(),
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context("can't start a thread")?;
    Ok(())
}

/// Drains a service, and waits for its end if wanted: its control socket is closed then.
fn drain(address: &ControlAddress, wait: bool) -> Result<()> {
    http::request(address, Method::Post, "/v1/drain", None)?;
    while wait && http::request(address, Method::Get, "/v1/service", None).is_ok() {
        std::thread::sleep(DRAIN_POLL_INTERVAL);
    }
    Ok(())
}

fn status(address: &ControlAddress, json: bool) -> Result<()> {
    let status: ServiceStatus = http::request_json(address, Method::Get, "/v1/service", None)?;
    if json {
        return output::json_line(&status);
    }
    let kinds = |counts: &[u64; 3]| {
        format!("{} Interests, {} Data, {} Nacks", counts[0], counts[1], counts[2])
    };
    let state = match (status.draining, status.changing) {
        (true, _) => "draining",
        (false, true) => "changing",
        (false, false) => "running",
    };
    outln!("{}: {state} for {:.0} s", status.name, status.uptime_s)?;
    let memory_mib = status.resident_bytes as f64 / f64::from(1 << 20);
    let cpu_s = status.cpu_user_s + status.cpu_system_s;
    outln!("  process  {}, {cpu_s:.1} s of processor time, {memory_mib:.1} MiB", status.pid)?;
    outln!("  received {}", kinds(&status.received))?;
    outln!("  sent     {}", kinds(&status.sent))?;
    Ok(outln!("  dropped  {}", status.dropped)?)
}

fn links(address: &ControlAddress, json: bool) -> Result<()> {
    let links: Vec<ServiceLink> = http::request_json(address, Method::Get, "/v1/links", None)?;
    if json {
        return output::json_line(&links);
    }
    let mut rows = vec![output::row([&"link", &"id", &"peer", &"up", &"received", &"sent"])];
    let up = |link: &ServiceLink| match (link.up, link.closing) {
        (_, true) => "closing",
        (true, false) => "true",
        (false, false) => "false",
    };
    let sum = |counts: &[u64; 3]| counts.iter().sum::<u64>();
    rows.extend(links.iter().map(|link| {
        let id = link.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        output::row([&link.name, &id, &link.uri, &up(link), &sum(&link.received), &sum(&link.sent)])
    }));
    output::table(&rows)
}

fn statistics(address: &ControlAddress, json: bool) -> Result<()> {
    let statistics: ServiceStatistics =
        http::request_json(address, Method::Get, "/v1/statistics", None)?;
    if json {
        return output::json_line(&statistics);
    }
    let mut rows = vec![output::row([&"element", &"side", &"port", &"packets"])];
    let ports = statistics.ports.iter();
    rows.extend(
        ports.map(|port| output::row([&port.element, &port.side, &port.port, &port.packets])),
    );
    output::table(&rows)?;
    if !statistics.drops.is_empty() {
        let mut rows = vec![output::row([&"dropped", &"packets"])];
        rows.extend(
            statistics.drops.iter().map(|drops| output::row([&drops.reason, &drops.packets])),
        );
        output::table(&rows)?;
    }
    Ok(())
}

fn graph(address: &ControlAddress, set: Option<&Path>, order: &str) -> Result<()> {
    let text: GraphText = match set {
        None => http::request_json(address, Method::Get, "/v1/graph", None)?,
        Some(path) => {
            // Checked here, so that mistakes are reported with the file's name; the service checks
            // again.
            let graph = language::write(&load(path)?.graph);
            let order: GraphOrder = serde_json::from_value(order.into()).with_context(|| {
                format!("{order:?} is not one of drop, buffer, make-before-break")
            })?;
            let change = serde_json::to_value(GraphChange { graph, order })?;
            http::request_json(address, Method::Put, "/v1/graph", Some(&change))?
        }
    };
    Ok(write!(stdout(), "{}", text.graph)?)
}
