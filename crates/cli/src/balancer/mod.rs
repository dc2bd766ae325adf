//! `nw balancer`: a cluster of routers behind a kernel balancer.

mod agent;
mod client;
mod commands;
mod host;
mod membership;
mod pods;
mod run;
mod show;
mod top;
mod vrrp;

use crate::output::stdout;
use anyhow::Result;
use clap::{Args, Subcommand};
use nw_name::Name;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub enum BalancerCommand {
    /// Run a balancer until Ctrl-C, SIGTERM or `nw balancer stop`
    ///
    /// Loads a program into the kernel, attaches it to the configured interfaces, and monitors the
    /// members. A data path left running by an earlier process is taken over without interruption.
    /// Needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW.
    Run(Run),
    /// Show the balancer, its members and packet counters
    Status {
        #[command(flatten)]
        balancer: BalancerArgs,
        /// Print nothing; succeed if a member is active and healthy
        #[arg(long, conflicts_with = "json")]
        check: bool,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show the rates of members, updated on the terminal
    Top(top::Top),
    /// Add a member, or activate a drained one
    ///
    /// A new member receives all routes and is probed before it is assigned names.
    Add(Add),
    /// Remove a member: it is assigned no new names, and removed when nothing is pending
    Remove {
        /// Name of the member
        name: String,
        /// Wait until it is removed
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        query: BalancerQueryArgs,
    },
    /// Drain a member: assign its names to others, but keep it
    Drain {
        /// Name of the member
        name: String,
        /// Wait until it has nothing pending
        #[arg(long, conflicts_with = "undo")]
        wait: bool,
        /// Activate it again
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        query: BalancerQueryArgs,
    },
    /// Change a member's share of the names
    Weight {
        /// Name of the member
        name: String,
        /// Weight relative to the other members, or `measured`
        weight: String,
        #[command(flatten)]
        query: BalancerQueryArgs,
    },
    /// Show which member a name is assigned to
    Where {
        /// The name
        name: Name,
        #[command(flatten)]
        query: BalancerQueryArgs,
    },
    /// List the prefixes that are hashed by fewer components, or assigned to the control member
    Rules {
        #[command(flatten)]
        query: BalancerQueryArgs,
    },
    /// End the balancer
    Stop {
        /// Leave the data path running, for the next balancer to take over
        #[arg(long)]
        keep: bool,
        #[command(flatten)]
        balancer: BalancerArgs,
    },
    /// Run next to a member on another machine: give its router the cluster's routes, and answer
    /// probes
    ///
    /// The balancer must listen for agents ([control] agents_listen). Once, the agent is started
    /// with --enrol and the token that `nw balancer host add` printed. Without a balancer, the
    /// router keeps its routes, and the agent connects again. With --address the member joins and
    /// leaves by itself.
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "help for a terminal: the brackets are those of a section"
    )]
    Agent(agent::AgentArgs),
    /// Let agents of members on other machines enrol, and take their rights away
    Host {
        #[command(subcommand)]
        action: host::HostCommand,
    },
    /// Print a keepalived configuration for one of two balancers
    Vrrp(vrrp::VrrpArgs),
    /// Print the default configuration with all options explained, or check one
    Config {
        /// Check this file instead
        #[arg(long, value_name = "FILE")]
        check: Option<PathBuf>,
    },
    /// Print the OpenAPI document of a balancer's control socket
    Openapi,
}

/// Options that select a balancer.
#[derive(Debug, Clone, Args)]
pub struct BalancerArgs {
    /// Control socket of the balancer: a path, or http://10.0.0.1:6380
    #[arg(long, value_name = "PLACE", default_value = "/run/namewire/balancer.sock")]
    pub control: String,
    /// File with the same secret as the balancer's control.token_file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Options that select a balancer and the output format.
#[derive(Debug, Clone, Args)]
pub struct BalancerQueryArgs {
    #[command(flatten)]
    pub balancer: BalancerArgs,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Configuration file; `nw balancer config` prints all options
    #[arg(long, short, value_name = "FILE")]
    pub config: PathBuf,
    /// At the end, leave the data path running, for the next balancer to take over
    #[arg(long)]
    pub keep: bool,
    /// Log level: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

#[derive(Debug, Args)]
pub struct Add {
    /// Name of the member; without other options, a drained member to activate
    pub name: String,
    /// Address, one of each address family of the cluster
    #[arg(long, value_name = "ADDRESS", requires = "port")]
    pub address: Vec<IpAddr>,
    /// UDP port, different from those of all other members
    #[arg(long, requires = "address", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Weight relative to the other members, or `measured`
    #[arg(long, requires = "address")]
    pub weight: Option<String>,
    /// Unix socket of its router, on the balancer's machine
    #[arg(long, value_name = "PATH", requires = "address")]
    pub socket: Option<PathBuf>,
    /// Do not copy the routes of the control member to it
    #[arg(long, alias = "own-routes", requires = "address")]
    pub external_routes: bool,
    /// Wait until it is active
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub query: BalancerQueryArgs,
}

/// Runs `nw balancer …`.
pub fn balancer(action: &BalancerCommand) -> Result<ExitCode> {
    match action {
        BalancerCommand::Run(args) => return run::run(args),
        BalancerCommand::Status { balancer, check, json } => {
            return show::status(balancer, *check, *json);
        }
        BalancerCommand::Top(args) => return top::top(args),
        BalancerCommand::Add(args) => commands::add(args)?,
        BalancerCommand::Remove { name, wait, query } => commands::remove(name, *wait, query)?,
        BalancerCommand::Drain { name, wait, undo, query } => {
            commands::drain(name, *wait, *undo, query)?
        }
        BalancerCommand::Weight { name, weight, query } => commands::weight(name, weight, query)?,
        BalancerCommand::Where { name, query } => show::where_is(name, query)?,
        BalancerCommand::Rules { query } => show::rules(query)?,
        BalancerCommand::Stop { keep, balancer } => commands::stop(balancer, *keep)?,
        BalancerCommand::Agent(args) => return agent::agent(args),
        BalancerCommand::Host { action } => host::host(action)?,
        BalancerCommand::Vrrp(args) => vrrp::vrrp(args)?,
        BalancerCommand::Config { check: Some(path) } => {
            let config = run::load(path)?;
            let unchecked = "whether its interfaces exist, its addresses are free, and programs \
                             can be loaded into the kernel";
            let who = match pods::are_counted(&config) && !cfg!(feature = "kubernetes") {
                true => "a balancer with the cargo feature `kubernetes`, which this one lacks,",
                false => "this balancer",
            };
            outln!("{} is a configuration {who} can run with", path.display())?;
            outln!("not checked: {unchecked}")?;
        }
        BalancerCommand::Config { check: None } => {
            write!(stdout(), "{}", nw_balancer::Config::reference())?
        }
        BalancerCommand::Openapi => outln!("{}", nw_balancer::control::document())?,
    }
    Ok(ExitCode::SUCCESS)
}
