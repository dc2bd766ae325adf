//! Options of `nw lab`.

use crate::args::run::PAGE_ADDRESS;
use crate::sim::ScenarioArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Build a cluster with consumers and producers on this machine, and keep it until Ctrl-C
    ///
    /// Each host is a network namespace. Prints a diagram and example commands, and reads commands
    /// from standard input; `help` lists them. Needs root. Everything is removed at the end; `nw
    /// lab clean` removes what a killed testbed left.
    Cluster(Box<Cluster>),
    /// Build two routers with one link between them, and keep them until Ctrl-C
    ///
    /// The topology of "Bulk of Interest". Each router is in a network namespace of its own. Prints
    /// the sockets of both, and reads commands from standard input: `rate MBIT`, `down`, `up`,
    /// `end`. Needs root. Everything is removed at the end; `nw lab clean` removes what a killed
    /// testbed left.
    Chain(Chain),
    /// Run a scenario of `nw sim` with router processes in real time, and print the results
    ///
    /// Each router is a process in a network namespace of its own; links have the scenario's delay,
    /// rate, queue and loss. Tables and charts are those of `nw sim run`. Needs root. Everything is
    /// removed at the end; `nw lab clean` removes what a killed run left.
    Run(Run),
    /// Remove what killed testbeds left: processes, namespaces, control groups, files
    Clean {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub scenario: ScenarioArgs,
    /// Record the run into this file; `nw open FILE` replays it in the browser
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Chain {
    /// Rate of the link, Mbit/s per direction
    #[arg(long, default_value_t = 100.0, value_name = "MBIT")]
    pub rate: f64,
    /// Delay of the link, milliseconds per direction
    ///
    /// Needs a kernel with netem.
    #[arg(long, default_value_t = 0.0, value_name = "MS")]
    pub delay: f64,
    /// Bytes that wait for the link before it drops packets
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES")]
    pub queue: u64,
    /// Transport of the link
    #[arg(long, value_enum, default_value_t = LinkBy::Tcp, value_name = "HOW")]
    pub by: LinkBy,
    /// Serve generated Data under this prefix at the second router, and route it there
    #[arg(long, value_name = "PREFIX")]
    pub serve: Option<nw_name::Name>,
    /// Content of these Data, bytes
    #[arg(
        long,
        default_value_t = 8000,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u64).range(1..=8000)
    )]
    pub payload: u64,
    /// Program and arguments of another router
    ///
    /// In the arguments {socket}, {port}, {address} and {folder} are replaced, and set in its
    /// environment as NW_LAB_SOCKET and so on.
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    pub router: Vec<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Transport of the link of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkBy {
    /// UDP over IPv4
    Udp,
    /// TCP over IPv4
    Tcp,
}

#[derive(Debug, Args)]
pub struct Cluster {
    /// Number of consumers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub consumers: usize,
    /// Number of routers in the cluster
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub members: usize,
    /// Number of producers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub producers: usize,
    /// Number of balancers in front of the members
    ///
    /// 2 fail over to each other, which needs keepalived. With 0 a single router replaces the
    /// cluster.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub balancers: usize,
    /// Transport between consumers or producers and the cluster
    #[arg(long, value_enum, default_value_t = By::Udp4, value_name = "HOW")]
    pub by: By,
    /// Also use IPv6 addresses
    #[arg(long)]
    pub ipv6: bool,
    /// VLAN of the members
    #[arg(long, value_name = "NUMBER")]
    pub vlan: Option<u16>,
    /// Rate of each consumer's and producer's link, Mbit/s per direction
    #[arg(long, value_name = "MBIT")]
    pub end_rate: Option<f64>,
    /// Rate of each member's link, Mbit/s per direction
    ///
    /// Several values, separated by commas, apply to the first members; the last one applies to all
    /// further members.
    #[arg(long, value_name = "MBIT", value_delimiter = ',')]
    pub rate: Vec<f64>,
    /// CPU share of each member, as a fraction of one processor, such as 0.1
    #[arg(long, value_name = "SHARE")]
    pub cpu_share: Option<f64>,
    /// CPU share of each consumer and producer, as a fraction of one processor
    #[arg(long, value_name = "SHARE")]
    pub mark_face_ended: Option<f64>,
    /// Enable content stores in the members, with this capacity in packets
    #[arg(long, value_name = "PACKETS", num_args = 0..=1, default_missing_value = "65536")]
    pub caching: Option<u64>,
    /// Run a router at each consumer; by default applications connect to the cluster directly
    #[arg(long)]
    pub consumer_routers: bool,
    /// Weights of the members, separated by commas; further members have 100
    #[arg(long, value_name = "WEIGHT", value_delimiter = ',')]
    pub weights: Vec<u32>,
    /// Hash only the first components of names under a prefix, such as /video=2
    #[arg(long, value_name = "PREFIX=DEPTH")]
    pub depth: Vec<String>,
    /// Program and arguments of another router for the members
    ///
    /// In the arguments {socket}, {port}, {address}, {address6} and {folder} are replaced.
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    pub router: Vec<String>,
    /// Numbers of the members that run --router, from 1, separated by commas; the others run nw
    ///
    /// Must precede --router.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', requires = "router")]
    pub router_for: Vec<u8>,
    /// File with additional balancer configuration (TOML)
    #[arg(long, value_name = "FILE")]
    pub balancer_config: Option<PathBuf>,
    /// File with additional configuration for members that run nw (TOML)
    #[arg(long, value_name = "FILE")]
    pub member_config: Option<PathBuf>,
    /// Record the cluster into this file at the end; `nw open FILE` replays it
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Serve a page that shows the cluster, on this address of this machine, 127.0.0.1:6390 if none
    /// is given
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = PAGE_ADDRESS)]
    pub page: Option<SocketAddr>,
    /// Print JSON: one object that describes the testbed, then one per command
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// UDP over IPv4
    Udp4,
    /// UDP over IPv6
    Udp6,
    /// Ethernet frames without IP
    Ethernet,
}
