//! Words of `nw lab`, with the help that teaches them.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// Build a cluster with consumers and producers on this machine, and keep it until Ctrl-C
    ///
    /// Each machine is a network namespace. Shows who is where and what can be typed; takes words on standard input: `help` lists them.
    /// Needs the rights of root. Everything is removed at the end; `nw lab clean` removes what a killed one left.
    Cluster(Box<Cluster>),
    /// Remove what killed laboratories left: processes, namespaces, control groups, files
    Clean {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct Cluster {
    /// Who asks
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub consumers: usize,
    /// Routers of the cluster
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub members: usize,
    /// Who answers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub producers: usize,
    /// Balancers before the members: 2 stand in for each other (needs keepalived); with 0 one plain router stands in the cluster's place
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub balancers: usize,
    /// How the ends reach the cluster
    #[arg(long, value_enum, default_value_t = By::Udp4, value_name = "HOW")]
    pub by: By,
    /// IPv6 addresses besides
    #[arg(long)]
    pub ipv6: bool,
    /// VLAN that the members are in
    #[arg(long, value_name = "NUMBER")]
    pub vlan: Option<u16>,
    /// Mbit/s of each consumer's and producer's link, each way
    #[arg(long, value_name = "MBIT")]
    pub end_rate: Option<f64>,
    /// Mbit/s of each member's link, each way; several, separated by commas, are for the first members, and the last one for all that follow
    #[arg(long, value_name = "MBIT", value_delimiter = ',')]
    pub rate: Vec<f64>,
    /// Share of one processor that each member gets, such as 0.1
    #[arg(long, value_name = "SHARE")]
    pub cpu_share: Option<f64>,
    /// Share of one processor that each consumer gets, and each producer
    #[arg(long, value_name = "SHARE")]
    pub end_share: Option<f64>,
    /// Members keep what passes: so many packets each
    #[arg(long, value_name = "PACKETS", num_args = 0..=1, default_missing_value = "65536")]
    pub caching: Option<u64>,
    /// A router at each consumer; else its applications talk to the cluster themselves
    #[arg(long)]
    pub consumer_routers: bool,
    /// Weights of the members, separated by commas; 100 for those that follow
    #[arg(long, value_name = "WEIGHT", value_delimiter = ',')]
    pub weights: Vec<u32>,
    /// Only so many components of names under a prefix choose the member: /video=2
    #[arg(long, value_name = "PREFIX=DEPTH")]
    pub depth: Vec<String>,
    /// Another router for the members: its program and all words that follow, in which {socket}, {port}, {address}, {address6} and {folder} are replaced
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true)]
    pub router: Vec<String>,
    /// Members that run the program of --router, by number from 1, separated by commas; the others run nw. Written before --router
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', requires = "router")]
    pub router_for: Vec<u8>,
    /// More of the balancer's configuration (TOML)
    #[arg(long, value_name = "FILE")]
    pub balancer_config: Option<PathBuf>,
    /// More of the configuration of members that run nw (TOML)
    #[arg(long, value_name = "FILE")]
    pub member_config: Option<PathBuf>,
    /// Print JSON: one object that describes it, then one for each word
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
