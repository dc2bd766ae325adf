//! Engines beside processes of this machine: Docker here, and agents on other machines.

use super::Network;
use super::locate::check_name;
use crate::output::{json_line, stdout};
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use nw_agent::{
    AgentOptions, Hub, HubOptions, add_host, enrol, forget_host, is_enrolled, list_hosts, run,
};
use nw_graph_language::network::EngineKind;
use nw_manager::engine::{DockerEngine, Engine, HostAgent, ProcessEngine};
use nw_manager::{AUTHORITY_FOLDER, RemoteHosts};
use std::env;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Image of containers unless another one is given.
pub const IMAGE: &str = concat!("namewire:", env!("CARGO_PKG_VERSION"));

/// How services of a network run, and where.
#[derive(Debug, Args)]
pub struct HostOptions {
    /// Engine for services whose host in the file is `process`, as it is for those without a host
    #[arg(long, value_enum, default_value = "process")]
    pub engine: EngineChoice,
    /// Image of containers; `nw image build` makes it
    #[arg(long, value_name = "NAME:TAG", default_value = IMAGE)]
    pub image: String,
    /// Listen here for agents of other machines, such as 0.0.0.0:6366
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub agents: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Processes of this machine
    Process,
    /// Containers of the Docker engine of this machine
    Docker,
    /// Pods of the cluster that KUBECONFIG names, by its operator
    #[cfg(feature = "kubernetes")]
    Kubernetes,
}

impl HostOptions {
    /// Returns the engines beside processes.
    pub fn engines(&self) -> Result<Vec<(EngineKind, Arc<dyn Engine>)>> {
        let docker: Arc<dyn Engine> = match DockerEngine::from_environment(self.image.clone()) {
            Ok(docker) => Arc::new(docker),
            Err(error) if self.engine == EngineChoice::Docker => return Err(error.into()),
            Err(error) => {
                note!("hosts with `docker` can't be used: {error}");
                return Ok(Vec::new());
            }
        };
        Ok(match self.engine {
            EngineChoice::Process => vec![(EngineKind::Docker, docker)],
            EngineChoice::Docker => {
                vec![(EngineKind::Docker, docker.clone()), (EngineKind::Process, docker)]
            }
            #[cfg(feature = "kubernetes")]
            EngineChoice::Kubernetes => bail!("pods are started by the cluster's operator"),
        })
    }

    /// Listens for agents if that is wanted. `directory`: folder of the network.
    pub fn listen(&self, directory: &Path) -> Result<Option<RemoteHosts>> {
        let Some(listen) = self.agents else { return Ok(None) };
        let hub = Hub::start(HubOptions::new(directory.join(AUTHORITY_FOLDER), listen))?;
        note!("agents connect to {}", hub.address());
        Ok(Some(RemoteHosts::new(Arc::new(hub))))
    }

    /// Returns the same options as arguments.
    pub fn arguments(&self) -> Vec<String> {
        let engine = match self.engine {
            EngineChoice::Process => "process",
            EngineChoice::Docker => "docker",
            #[cfg(feature = "kubernetes")]
            EngineChoice::Kubernetes => "kubernetes",
        };
        let fixed = ["--engine", engine, "--image", &self.image].map(str::to_owned);
        let agents =
            self.agents.iter().flat_map(|address| ["--agents".to_owned(), address.to_string()]);
        fixed.into_iter().chain(agents).collect()
    }
}

#[derive(Debug, Args)]
pub struct Agent {
    /// Address of the manager, as given to `nw network up --agents`; default: as at enrolment
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "state")]
    manager: Option<String>,
    /// Enrol with this token first; `-` reads it from standard input
    #[arg(long, value_name = "TOKEN", requires = "manager")]
    enrol: Option<String>,
    /// Keep the certificate of an earlier enrolment, if there is one
    #[arg(long, requires_all = ["enrol", "state"])]
    enrol_once: bool,
    /// Address at which the other machines reach this one
    #[arg(long, value_name = "IP")]
    address: Option<String>,
    /// Folder for the agent's key and certificate; default: `agent` beside the folder of networks
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Image of containers
    #[arg(long, value_name = "NAME:TAG", default_value = IMAGE)]
    image: String,
}

/// Runs `nw network agent`.
pub fn agent(args: &Agent) -> Result<ExitCode> {
    crate::logs::Levels::start("info", nw_api::config::LogFormat::Text)?;
    let state_directory = match &args.state {
        Some(folder) => folder.clone(),
        None => {
            let networks = Network::default().folder()?;
            networks.parent().unwrap_or(&networks).join("agent")
        }
    };
    let is_kept = args.enrol_once && is_enrolled(&state_directory);
    if let (false, Some(token), Some(manager)) = (is_kept, &args.enrol, &args.manager) {
        let token = match token.as_str() {
            "-" => std::io::read_to_string(std::io::stdin()).context("can't read the token")?,
            token => token.to_owned(),
        };
        let host = enrol(&state_directory, manager, &token)?;
        note!("enrolled as host {host}");
    }
    let program = env::current_exe().context("can't find the path of this program")?;
    let mut engines: Vec<Arc<dyn Engine>> = vec![Arc::new(ProcessEngine::new(program))];
    match DockerEngine::from_environment(args.image.clone()) {
        Ok(docker) => engines.push(Arc::new(docker)),
        Err(error) => note!("no containers on this host: {error}"),
    }
    let (manager, address) = (args.manager.clone(), args.address.clone());
    let options = AgentOptions { state_directory, manager, address };
    let stop = StopFlag::watch()?;
    run(&options, Arc::new(HostAgent::new(engines)), &stop.flag())?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Print a token with which another machine enrols, once
    Add {
        #[command(flatten)]
        network: Network,
        /// Name of the host, as in the graph file
        host: String,
        /// Seconds until the token expires
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        valid: u64,
    },
    /// List hosts, and whether they are enrolled
    List {
        #[command(flatten)]
        network: Network,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Take the rights of a host away; its connections are closed within seconds
    Remove {
        #[command(flatten)]
        network: Network,
        /// Name of the host
        host: String,
    },
}

/// Runs `nw network host …`.
pub fn host(action: &HostCommand) -> Result<()> {
    match action {
        HostCommand::Add { network, host, valid } => {
            outln!("{}", add_host(&folder(network)?, host, *valid)?)?;
        }
        HostCommand::List { network, json } => {
            for (name, is_enrolled) in list_hosts(&folder(network)?)? {
                if *json {
                    json_line(&serde_json::json!({ "name": name, "enrolled": is_enrolled }))?;
                } else {
                    let state = if is_enrolled { "enrolled" } else { "has a token" };
                    writeln!(stdout(), "{name:<20} {state}")?;
                }
            }
        }
        HostCommand::Remove { network, host } => {
            if !forget_host(&folder(network)?, host)? {
                return Err(crate::exit::not_found(format!("there is no host {host}")));
            }
        }
    }
    Ok(())
}

/// Returns the folder of a network's list of hosts. The network need not be managed.
fn folder(network: &Network) -> Result<PathBuf> {
    let networks = network.folder()?;
    let name = match &network.name {
        Some(name) => name.clone(),
        None => {
            let entries = std::fs::read_dir(&networks).into_iter().flatten().flatten();
            let mut names: Vec<_> =
                entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            match (names.pop(), names.is_empty()) {
                (Some(name), true) => name,
                _ => bail!("choose a network with --name NAME"),
            }
        }
    };
    check_name(&name)?;
    Ok(networks.join(name).join(AUTHORITY_FOLDER))
}
