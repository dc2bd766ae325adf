//! `nw network`: a network of services, as a document describes it. `up` runs the manager; the other
//! verbs talk to it over its control socket.

mod change;
mod hosts;
mod locate;
mod package;
mod show;
mod up;

use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum NetworkCommand {
    /// Start the network that a graph file describes, and keep it so, until Ctrl-C
    ///
    /// Each step is printed as it is done. Ctrl-C drains and stops the services; a second Ctrl-C,
    /// and --keep, leave them running, and the next `up` finds them. Without a file the network goes
    /// on with the last version of its document.
    Up(up::Up),
    /// Drain and stop all services and the manager
    Down {
        #[command(flatten)]
        network: Network,
        /// Stop the manager only; the services run on
        #[arg(long)]
        keep: bool,
    },
    /// Show what a document would change, step by step, and change nothing
    Plan {
        #[command(flatten)]
        network: Network,
        /// Graph file; without it, what the manager would do now
        file: Option<PathBuf>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Put a document into effect, and wait until the network is as it describes
    Apply(change::Apply),
    /// Show services, instances, links and conditions, or one instance
    Show {
        #[command(flatten)]
        network: Network,
        /// Instance, as SERVICE~N or SERVICE~N@HOST
        instance: Option<String>,
        /// Show the last lines of the instance's log
        #[arg(long, value_name = "LINES", requires = "instance")]
        logs: Option<u64>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Compare a file with the document in effect, or two versions
    Diff {
        #[command(flatten)]
        network: Network,
        /// Graph file; without it, the version before the one in effect
        file: Option<PathBuf>,
        /// Compare with this version instead of the one in effect
        #[arg(long, value_name = "VERSION")]
        version: Option<u64>,
    },
    /// List the versions of the document, the newest first
    History {
        #[command(flatten)]
        network: Network,
        /// Print the text of this version
        #[arg(long, value_name = "VERSION")]
        text: Option<u64>,
        /// List changes that were requested, with author and result
        #[arg(long, conflicts_with = "text")]
        audit: bool,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Return to an earlier version of the document, as a new version
    Undo {
        #[command(flatten)]
        network: Network,
        /// Version; default: the one before the one in effect
        version: Option<u64>,
    },
    /// Show the number of instances of each service, or set it
    Scale {
        #[command(flatten)]
        network: Network,
        /// Service
        service: Option<String>,
        /// Number of instances; `auto` lets load decide again
        #[arg(value_parser = change::parse_count, requires = "service")]
        count: Option<change::Count>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// List the routes of all name routers
    Route {
        #[command(flatten)]
        network: Network,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print what happens in the network, until Ctrl-C
    Events {
        #[command(flatten)]
        network: Network,
        /// Print the events that are kept, and end
        #[arg(long)]
        past: bool,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Hold all changes; services run on, and none is started, stopped or changed
    Hold {
        #[command(flatten)]
        network: Network,
    },
    /// Let changes go on
    Resume {
        #[command(flatten)]
        network: Network,
    },
    /// Let the manager on another machine run services on this one, until Ctrl-C
    ///
    /// The agent dials the manager. Once, it is started with --enrol and the token that `nw network
    /// host add` printed there; its certificate is renewed by itself. The network's folder has the
    /// same path here as on the manager's machine.
    Agent(hosts::Agent),
    /// List, add and remove other machines that run services of the network
    #[command(subcommand)]
    Host(hosts::HostCommand),
    /// Write a TOSCA package (CSAR, types of ETSI NFV-SOL 001) that describes a network
    Export {
        /// Graph file
        file: PathBuf,
        /// Package to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// Name of the network; default: that of the file
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Write the graph file of a TOSCA package that `nw network export` made
    ///
    /// The package is compared with its document; a difference is refused with file and line.
    Import {
        /// Package
        package: PathBuf,
        /// Graph file to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Print the OpenAPI document of the manager's control socket
    Openapi,
}

/// Options that select a network.
#[derive(Debug, Args)]
pub struct Network {
    /// Name of the network; default: the only one that is managed
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// Folder of all networks; default: $XDG_STATE_HOME/nw/networks, /var/lib/nw/networks for root,
    /// ~/.local/state/nw/networks for others
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
}

/// Runs `nw network …`.
pub fn network(action: &NetworkCommand) -> Result<ExitCode> {
    use NetworkCommand as C;
    match action {
        C::Up(args) => return up::up(args),
        C::Down { network, keep } => up::down(&network.address()?, *keep)?,
        C::Plan { network, file, json } => {
            show::plan(&network.address()?, file.as_deref(), *json)?;
        }
        C::Apply(args) => return change::apply(args),
        C::Show { network, instance, logs, json } => {
            let address = network.address()?;
            match (instance, logs) {
                (Some(instance), Some(lines)) => show::logs(&address, instance, *lines)?,
                (Some(instance), None) => show::instance(&address, instance, *json)?,
                (None, _) => show::network(&address, *json)?,
            }
        }
        C::Diff { network, file, version } => {
            return show::diff(&network.address()?, file.as_deref(), *version);
        }
        C::History { network, text: Some(version), .. } => {
            show::version(&network.address()?, *version)?;
        }
        C::History { network, audit: true, json, .. } => show::audit(&network.address()?, *json)?,
        C::History { network, json, .. } => show::history(&network.address()?, *json)?,
        C::Undo { network, version } => change::undo(&network.address()?, *version)?,
        C::Scale { network, service: Some(service), count: Some(count), json } => {
            change::scale(&network.address()?, service, *count, *json)?;
        }
        C::Scale { network, service, json, .. } => {
            show::scale(&network.address()?, service.as_deref(), *json)?;
        }
        C::Route { network, json } => show::routes(&network.address()?, *json)?,
        C::Events { network, past, json } => show::events(&network.address()?, *past, *json)?,
        C::Hold { network } => change::post(&network.address()?, "/v1/hold")?,
        C::Resume { network } => change::post(&network.address()?, "/v1/resume")?,
        C::Agent(args) => return hosts::agent(args),
        C::Host(action) => hosts::host(action)?,
        C::Export { file, output, name } => package::export(file, name.as_deref(), output)?,
        C::Import { package, output } => package::import(package, output)?,
        C::Openapi => outln!("{}", nw_manager::serve::document())?,
    }
    Ok(ExitCode::SUCCESS)
}
