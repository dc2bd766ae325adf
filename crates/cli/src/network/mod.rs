//! `nw network`: a network of services, as a document describes it. `up` runs the manager; the other
//! verbs talk to it over its control socket.

mod access;
mod change;
mod defence;
mod edge;
mod hosts;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod locate;
mod package;
mod show;
mod up;

use crate::observe::http;
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
    /// Show packets as an instance receives and sends them, or write them for Wireshark
    ///
    /// With --element, packets as they leave an element inside of it. At most 5,000 packets a
    /// second are captured; the others are counted as lost.
    Tap {
        #[command(flatten)]
        network: Network,
        /// Instance, as SERVICE~N or SERVICE~N@HOST
        instance: String,
        /// Only packets with names under this prefix
        #[arg(long, short, value_name = "PREFIX")]
        prefix: Option<nw_name::Name>,
        #[command(flatten)]
        inside: crate::observe::ElementOption,
        #[command(flatten)]
        options: crate::observe::TapOptions,
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
        /// As `nw network audit`
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
    /// List defences with their countermeasures; remove or forbid those for an element
    ///
    /// Without an option the defences are listed. What is removed or forbidden is taken out of the
    /// network at once, in the order that loses nothing.
    Defence {
        #[command(flatten)]
        network: Network,
        /// Watched element; default: all
        element: Option<String>,
        /// Remove what is in effect; the defence learns anew, and answers the next attack
        #[arg(long, requires = "element", conflicts_with_all = ["forbid", "allow", "json"])]
        remove: bool,
        /// Remove what is in effect, and put nothing in until --allow
        #[arg(long, requires = "element", conflicts_with_all = ["allow", "json"])]
        forbid: bool,
        /// Allow countermeasures again
        #[arg(long, requires = "element", conflicts_with = "json")]
        allow: bool,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// List routes and who set them; add and remove routes that lead out of the network
    Route(access::Routes),
    /// List, add and remove what verifiers and registration ports trust: keys and rules
    #[command(subcommand)]
    Key(access::KeyCommand),
    /// List, add and remove tokens by which users of other machines command the manager
    #[command(subcommand)]
    Token(access::TokenCommand),
    /// Exchange routes with a router at the edge, and its routing daemon, until Ctrl-C
    ///
    /// Prefixes that are registered inside are announced outside; routes that a routing protocol
    /// has found outside are used inside.
    Edge(edge::Edge),
    /// List who changed what, and what was refused; the newest first
    Audit {
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
    /// Run the networks of a Kubernetes cluster, until Ctrl-C
    ///
    /// Each resource Network gets a manager; its services run in pods. The pods go on when the
    /// operator ends, and the next one finds them.
    #[cfg(feature = "kubernetes")]
    Operator(kubernetes::Operator),
    /// Print what a Kubernetes cluster needs before an operator runs in it
    #[cfg(feature = "kubernetes")]
    #[command(subcommand)]
    Kubernetes(kubernetes::KubernetesCommand),
    /// Print the OpenAPI document of the manager's control socket
    Openapi,
}

/// Options that select a network.
#[derive(Debug, Default, Args)]
pub struct Network {
    /// Name of the network; default: the only one that is managed
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// Folder of all networks; default: $XDG_STATE_HOME/nw/networks, /var/lib/nw/networks for root,
    /// ~/.local/state/nw/networks for others
    #[arg(long, value_name = "FOLDER")]
    pub directory: Option<PathBuf>,
    /// Manager on another machine, as given to `nw network up --tls` there
    #[arg(long, value_name = "HOST:PORT", requires = "token_file", conflicts_with_all = ["name", "directory"])]
    pub manager: Option<String>,
    /// File with the token for that manager
    #[arg(long, value_name = "FILE", requires = "manager")]
    pub token_file: Option<PathBuf>,
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
        C::Tap { network, instance, prefix, inside, options } => {
            let path = format!("/v1/instances/{}/tap", http::escape(instance));
            let (prefix, element) = (prefix.as_ref(), inside.element.as_ref());
            let address = network.address()?;
            return crate::observe::show_tap(&address, &path, prefix, element, options);
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
        C::Defence { network, element: Some(element), remove: true, .. } => {
            change::remove_countermeasures(&network.address()?, element)?;
        }
        C::Defence { network, element: Some(element), forbid, allow, .. } if *forbid || *allow => {
            change::veto(&network.address()?, element, *forbid)?;
        }
        C::Defence { network, element, json, .. } => {
            defence::list(&network.address()?, element.as_deref(), *json)?;
        }
        C::Route(action) => access::route(action)?,
        C::Key(action) => access::key(action)?,
        C::Token(action) => access::token(action)?,
        C::Edge(args) => return edge::edge(args),
        C::Audit { network, json } => show::audit(&network.address()?, *json)?,
        C::Events { network, past, json } => show::events(&network.address()?, *past, *json)?,
        C::Hold { network } => change::post(&network.address()?, "/v1/hold")?,
        C::Resume { network } => change::post(&network.address()?, "/v1/resume")?,
        C::Agent(args) => return hosts::agent(args),
        C::Host(action) => hosts::host(action)?,
        C::Export { file, output, name } => package::export(file, name.as_deref(), output)?,
        C::Import { package, output } => package::import(package, output)?,
        #[cfg(feature = "kubernetes")]
        C::Operator(args) => return kubernetes::operator(args),
        #[cfg(feature = "kubernetes")]
        C::Kubernetes(action) => kubernetes::print(action)?,
        C::Openapi => outln!("{}", nw_manager::serve::document())?,
    }
    Ok(ExitCode::SUCCESS)
}
