//! `nw balancer`: a cluster of routers behind a kernel balancer.

mod agent;
mod ask;
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
pub enum BalancerVerb {
    /// Run a balancer until Ctrl-C, SIGTERM or `nw balancer stop`
    ///
    /// Loads a program into the kernel, attaches it to the interfaces of its configuration, and watches over the members. If a data path is there
    /// that another process left working, it is taken over without a gap. Needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW.
    Run(Run),
    /// Show the balancer, its members and what the kernel counted
    Status {
        #[command(flatten)]
        place: BalancerPlace,
        /// Say nothing; succeed when a member takes names and is healthy
        #[arg(long, conflicts_with = "json")]
        check: bool,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Watch the rates of members on the terminal
    Top(top::Top),
    /// Add a member: it gets all routes and is probed before it takes names; or let a drained one take names again
    Add(Add),
    /// Remove a member: it takes no new names, and is gone when nothing is pending
    Remove {
        /// The member
        name: String,
        /// Wait until it is gone
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        answer: Answered,
    },
    /// Take a member's names away, and keep it
    Drain {
        /// The member
        name: String,
        /// Wait until nothing is pending there
        #[arg(long, conflicts_with = "undo")]
        wait: bool,
        /// Let it take names again
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        answer: Answered,
    },
    /// Change how much of the names a member takes
    Weight {
        /// The member
        name: String,
        /// A number, in relation to the others; or `measured`
        weight: String,
        #[command(flatten)]
        answer: Answered,
    },
    /// Show which member serves a name
    Where {
        /// The name
        name: Name,
        #[command(flatten)]
        answer: Answered,
    },
    /// List which prefixes are hashed less deeply, or belong to the control member
    Rules {
        #[command(flatten)]
        answer: Answered,
    },
    /// End the balancer
    Stop {
        /// Leave the data path working: the next balancer takes it over
        #[arg(long)]
        keep: bool,
        #[command(flatten)]
        place: BalancerPlace,
    },
    /// Give the router of a member on this machine the cluster's routes, and answer probes here
    ///
    /// For members on other machines than the balancer's, which has to listen on TCP for it ([control] listen, allow_remote, token_file). There is no TLS.
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "help for a terminal: the brackets are those of a section"
    )]
    Agent(agent::AgentArgs),
    /// Print a configuration of keepalived for one of two balancers
    Vrrp(vrrp::VrrpArgs),
    /// Print the default configuration with all options explained, or check one
    Config {
        /// A file to check
        #[arg(long, value_name = "FILE")]
        check: Option<PathBuf>,
    },
    /// Print the OpenAPI document of a balancer's control socket
    Openapi,
}

/// Which balancer.
#[derive(Debug, Clone, Args)]
pub struct BalancerPlace {
    /// The balancer's control socket: a path, or http://10.0.0.1:6380
    #[arg(long, value_name = "PLACE", default_value = "/run/namewire/balancer.sock")]
    pub control: String,
    /// A file with the secret that `control.token_file` of the balancer has
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Which balancer, and how its answer is printed.
#[derive(Debug, Clone, Args)]
pub struct Answered {
    #[command(flatten)]
    pub place: BalancerPlace,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Run {
    /// The configuration file: `nw balancer config` prints all options
    #[arg(long, short, value_name = "FILE")]
    pub config: PathBuf,
    /// At the end, leave the data path working: the next balancer takes it over
    #[arg(long)]
    pub keep: bool,
    /// What to log: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

#[derive(Debug, Args)]
pub struct Add {
    /// What it is called; alone, a member that was drained
    pub name: String,
    /// Its address, one of each family that the cluster has
    #[arg(long, value_name = "ADDRESS", requires = "port")]
    pub address: Vec<IpAddr>,
    /// Its own UDP port, which no other member has
    #[arg(long, requires = "address", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// A number, in relation to the others; or `measured`
    #[arg(long, requires = "address")]
    pub weight: Option<String>,
    /// The unix socket of its router on the balancer's machine
    #[arg(long, value_name = "PATH", requires = "address")]
    pub socket: Option<PathBuf>,
    /// It gets its routes otherwise: it is not given those of the control member
    #[arg(long, requires = "address")]
    pub own_routes: bool,
    /// Wait until it takes names
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub answer: Answered,
}

/// `nw balancer …`
pub fn balancer(verb: &BalancerVerb) -> Result<ExitCode> {
    match verb {
        BalancerVerb::Run(args) => return run::run(args),
        BalancerVerb::Status { place, check, json } => return show::status(place, *check, *json),
        BalancerVerb::Top(args) => return top::top(args),
        BalancerVerb::Add(args) => ask::add(args)?,
        BalancerVerb::Remove { name, wait, answer } => ask::remove(name, *wait, answer)?,
        BalancerVerb::Drain { name, wait, undo, answer } => ask::drain(name, *wait, *undo, answer)?,
        BalancerVerb::Weight { name, weight, answer } => ask::weight(name, weight, answer)?,
        BalancerVerb::Where { name, answer } => show::where_is(name, answer)?,
        BalancerVerb::Rules { answer } => show::rules(answer)?,
        BalancerVerb::Stop { keep, place } => ask::stop(place, *keep)?,
        BalancerVerb::Agent(args) => return agent::agent(args),
        BalancerVerb::Vrrp(args) => vrrp::vrrp(args)?,
        BalancerVerb::Config { check: Some(path) } => {
            run::load(path)?;
            outln!("{} is a configuration this balancer can run with", path.display())?;
        }
        BalancerVerb::Config { check: None } => write!(stdout(), "{}", nw_balancer::Config::reference())?,
        BalancerVerb::Openapi => outln!("{}", nw_balancer::control::document())?,
    }
    Ok(ExitCode::SUCCESS)
}
