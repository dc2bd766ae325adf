//! `nw service`: one element, or a part of a graph, as a process; and commands for such processes.

use crate::graph::load;
use crate::inside::http::{self, Method, Place};
use crate::logs::Levels;
use crate::output;
use crate::output::stdout;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use nw_api::config::LogFormat;
use nw_api::service::{GraphChange, GraphOrder, GraphText, ServiceLink, ServiceStatistics, ServiceStatus};
use nw_element_api::{Parameters, Value};
use nw_graph::host::{Handle, Host};
use nw_graph::{Graph, check, language};
use nw_service::{Ends, serve, single};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum ServiceVerb {
    /// Run a service until Ctrl-C, or until it is drained or stopped by its control socket
    ///
    /// An element alone stands between those who connect to --listen and where --to leads: `nw service run content_store mib=64
    /// --listen unix:///run/cs.sock --to next=unix:///run/br.sock`. A neighbour that is not there is tried again every second.
    Run(Run),
    /// Show what a service is doing
    Status {
        #[command(flatten)]
        service: Service,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show where a service is connected to
    Links {
        #[command(flatten)]
        service: Service,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show what passed each port of a service, and what was dropped
    Statistics {
        #[command(flatten)]
        service: Service,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show the graph that a service runs, or give it another one while packets flow
    Graph {
        #[command(flatten)]
        service: Service,
        /// The graph file that it shall run from now on
        #[arg(long, value_name = "FILE")]
        set: Option<PathBuf>,
        /// What becomes of packets meanwhile: drop, buffer, make-before-break
        #[arg(long, value_name = "ORDER", default_value = "make-before-break", requires = "set")]
        order: String,
    },
    /// Let a service take no more Interests, and end when nothing is awaited any more
    Drain {
        #[command(flatten)]
        service: Service,
    },
    /// End a service at once
    Stop {
        #[command(flatten)]
        service: Service,
    },
    /// Print the OpenAPI document of a service's control socket
    Openapi,
}

/// Which service.
#[derive(Debug, Args)]
pub struct Service {
    /// The service's name, or the path of its control socket
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Run {
    /// The element: `nw graph help` lists all
    #[arg(required_unless_present = "graph")]
    pub element: Option<String>,
    /// Parameters of the element: NAME=VALUE
    #[arg(value_name = "NAME=VALUE", conflicts_with = "graph")]
    pub parameters: Vec<String>,
    /// Run this graph file instead of one element
    #[arg(long, value_name = "FILE", conflicts_with = "element")]
    pub graph: Option<PathBuf>,
    /// Where those before it connect to: unix:///path, shm:///path, tcp4://address:port, udp4://address:port
    #[arg(long, value_name = "URI", conflicts_with = "graph")]
    pub listen: Vec<String>,
    /// Where Interests go: a name for use in routes, and an address. The first takes those for which the element does not choose
    #[arg(long, value_name = "NAME=URI", conflicts_with = "graph")]
    pub to: Vec<String>,
    /// What it is called: the element's or the file's name unless said otherwise
    #[arg(long)]
    pub name: Option<String>,
    /// The path of its control socket; the default is made from its name
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

pub fn service(verb: &ServiceVerb) -> Result<ExitCode> {
    match verb {
        ServiceVerb::Run(args) => return run(args),
        ServiceVerb::Status { service, json } => status(&service.place(), *json)?,
        ServiceVerb::Links { service, json } => links(&service.place(), *json)?,
        ServiceVerb::Statistics { service, json } => statistics(&service.place(), *json)?,
        ServiceVerb::Graph { service, set, order } => graph(&service.place(), set.as_deref(), order)?,
        ServiceVerb::Drain { service } => drop(http::ask(&service.place(), Method::Post, "/v1/drain", None)?),
        ServiceVerb::Stop { service } => drop(http::ask(&service.place(), Method::Post, "/v1/stop", None)?),
        ServiceVerb::Openapi => outln!("{}", nw_service::control::document())?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Service {
    fn place(&self) -> Place {
        match self.name.contains('/') {
            true => Place::Service(PathBuf::from(&self.name)),
            false => Place::Service(control_path(&self.name)),
        }
    }
}

/// In the folder for sockets of whoever runs this.
fn control_path(name: &str) -> PathBuf {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    folder.unwrap_or_else(std::env::temp_dir).join(format!("nw-service-{name}.sock"))
}

fn run(args: &Run) -> Result<ExitCode> {
    let (graph, name) = match (&args.graph, &args.element) {
        (Some(path), _) => {
            (load(path)?.graph, path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        }
        (None, Some(element)) => (alone(element, args)?, Some(element.clone())),
        (None, None) => bail!("name an element, or a graph file with --graph"),
    };
    let name = args.name.clone().or(name).unwrap_or_else(|| "service".to_owned());
    if name.is_empty() || name.contains('/') {
        bail!("{name:?} is no name of a service: it is a part of a file's name, without /");
    }
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    let signals = Signals::new([SIGTERM, SIGINT]).context("can't watch for signals")?;
    let mut host = Host::new(&graph)?;
    stop_on(signals, host.handle())?;
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

/// The graph of one element, checked as any other.
fn alone(element: &str, args: &Run) -> Result<Graph> {
    let mut parameters = Parameters::default();
    for text in &args.parameters {
        let (name, value) = text.split_once('=').with_context(|| {
            format!("{text:?} is no parameter: NAME=VALUE is expected, see nw graph help {element}")
        })?;
        // What is no value of the language is a text: quotes are the shell's.
        let value = language::value(value).unwrap_or_else(|_| Value::Text(value.to_owned()));
        parameters.0.push((name.to_owned(), value));
    }
    let to = |text: &String| {
        let (name, uri) = text
            .split_once('=')
            .with_context(|| format!("{text:?} leads nowhere: --to NAME=URI is expected"))?;
        Ok((name.to_owned(), uri.to_owned()))
    };
    let ends = Ends { listen: args.listen.clone(), to: args.to.iter().map(to).collect::<Result<_>>()? };
    if ends.listen.is_empty() && ends.to.is_empty() {
        bail!(
            "the service is connected to nothing: say where it listens with --listen, and where Interests go with --to"
        );
    }
    let graph = single(element, parameters, &ends)?;
    let problems = check::check(&graph);
    if problems.is_empty() {
        return Ok(graph);
    }
    let mut said: Vec<String> =
        problems.iter().map(|problem| format!("{}; {}", problem.what, problem.remedy)).collect();
    if ends.to.is_empty() {
        said.insert(0, format!("{element} has nowhere to send Interests: say where with --to NAME=URI"));
    }
    bail!(said.join("\n"))
}

fn stop_on(mut signals: Signals, handle: Handle) -> Result<()> {
    let watch = move || {
        if signals.forever().next().is_some() {
            handle.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).context("can't start a thread")?;
    Ok(())
}

fn status(place: &Place, json: bool) -> Result<()> {
    let status: ServiceStatus = http::body(place, Method::Get, "/v1/service", None)?;
    if json {
        return output::json_line(&status);
    }
    let kinds =
        |counts: &[u64; 3]| format!("{} Interests, {} Data, {} Nacks", counts[0], counts[1], counts[2]);
    let state = match (status.draining, status.changing) {
        (true, _) => "draining",
        (false, true) => "changing",
        (false, false) => "running",
    };
    outln!("{}: {state} for {:.0} s", status.name, status.uptime_s)?;
    outln!("  received {}", kinds(&status.received))?;
    outln!("  sent     {}", kinds(&status.sent))?;
    Ok(outln!("  dropped  {}", status.dropped)?)
}

fn links(place: &Place, json: bool) -> Result<()> {
    let links: Vec<ServiceLink> = http::body(place, Method::Get, "/v1/links", None)?;
    if json {
        return output::json_line(&links);
    }
    let mut rows = vec![output::row([&"link", &"id", &"peer", &"up", &"received", &"sent"])];
    let sum = |counts: &[u64; 3]| counts.iter().sum::<u64>();
    rows.extend(links.iter().map(|link| {
        let id = link.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        output::row([&link.name, &id, &link.uri, &link.up, &sum(&link.received), &sum(&link.sent)])
    }));
    output::table(&rows)
}

fn statistics(place: &Place, json: bool) -> Result<()> {
    let statistics: ServiceStatistics = http::body(place, Method::Get, "/v1/statistics", None)?;
    if json {
        return output::json_line(&statistics);
    }
    let mut rows = vec![output::row([&"element", &"side", &"port", &"packets"])];
    let ports = statistics.ports.iter();
    rows.extend(ports.map(|port| output::row([&port.element, &port.side, &port.port, &port.packets])));
    output::table(&rows)?;
    if !statistics.drops.is_empty() {
        let mut rows = vec![output::row([&"dropped", &"packets"])];
        rows.extend(statistics.drops.iter().map(|drops| output::row([&drops.reason, &drops.packets])));
        output::table(&rows)?;
    }
    Ok(())
}

fn graph(place: &Place, set: Option<&Path>, order: &str) -> Result<()> {
    let text: GraphText = match set {
        None => http::body(place, Method::Get, "/v1/graph", None)?,
        Some(path) => {
            // Here, so that mistakes are named with their file; the service looks at it again.
            let graph = language::write(&load(path)?.graph);
            let order: GraphOrder = serde_json::from_value(order.into()).with_context(|| {
                format!("{order:?} is no order: drop, buffer or make-before-break is expected")
            })?;
            let change = serde_json::to_value(GraphChange { graph, order })?;
            http::body(place, Method::Put, "/v1/graph", Some(&change))?
        }
    };
    Ok(write!(stdout(), "{}", text.graph)?)
}
