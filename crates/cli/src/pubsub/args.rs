//! Options of `nw pub`, `nw sub` and `nw pubsub`.

use crate::args::flags::RouterArgs;
use clap::{Args, Subcommand};
use nw_api::pubsub::{ItemName, ScopePattern};
use std::path::PathBuf;

/// The node that a command connects to.
#[derive(Debug, Clone, Args)]
pub struct NodeArgs {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Publish/subscribe socket of the node
    ///
    /// Default: next to the router's unix socket; for nfd.sock it is nfd.pubsub.sock.
    #[arg(long, value_name = "PATH", global = true)]
    pub pubsub_socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Pub {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Name of the item, such as /sensors/room1/temperature
    pub name: ItemName,
    /// Publications, one each; without them and --file: one per line of standard input
    #[arg(conflicts_with = "file")]
    pub values: Vec<String>,
    /// Publish the content of this file; - is the whole standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Wait for this many subscribers first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub wait: u32,
    /// Give up waiting for subscribers after this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub timeout: u64,
    /// Repeat all publications this many times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repeat: u64,
    /// Pause between publications, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub interval: u64,
    /// Do not keep the last publication for late subscribers
    #[arg(long)]
    pub no_last: bool,
    /// Overwrite what slow subscribers have not read, instead of waiting for them
    #[arg(long)]
    pub overwrite: bool,
    /// Wait at most this long for subscribers that do not read, and at the end, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub patience: u64,
    /// Size of the ring in shared memory, KiB
    #[arg(long, value_name = "KIB", default_value_t = 8192,
          value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub ring: u32,
    /// Send publications through the socket instead of shared memory
    #[arg(long)]
    pub no_shared_memory: bool,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Print no summary
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Sub {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Names or patterns: * is one component, a final ** any number
    #[arg(required = true)]
    pub patterns: Vec<ScopePattern>,
    /// Write each publication to a file below this folder, named as the item
    ///
    /// A later publication of the item replaces the file.
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// End after this many publications
    #[arg(long, short = 'n', value_name = "N")]
    pub count: Option<u64>,
    /// End after this many milliseconds without a publication
    #[arg(long, value_name = "MS")]
    pub timeout: Option<u64>,
    /// Do not print publications older than the subscription
    #[arg(long)]
    pub no_last: bool,
    /// Write only the payloads, unchanged
    #[arg(long, conflicts_with_all = ["json", "output"])]
    pub raw: bool,
    /// Receive publications through the socket instead of shared memory
    #[arg(long)]
    pub no_shared_memory: bool,
    /// Print one JSON object per publication and one at the end
    #[arg(long)]
    pub json: bool,
    /// Print no publications, only the summary
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum PubSubCommand {
    /// Show applications, items, other nodes, and what was delivered and lost
    Status {
        #[command(flatten)]
        node: NodeArgs,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show scopes and items as a tree, with publishers and subscribers
    Graph {
        #[command(flatten)]
        node: NodeArgs,
        /// Print the graph in the DOT language, for Graphviz
        #[arg(long)]
        dot: bool,
    },
    /// Show rates of items and applications, updated at an interval
    Top {
        #[command(flatten)]
        node: NodeArgs,
        /// Interval, milliseconds
        #[arg(long, value_name = "MS", default_value_t = 1000,
              value_parser = clap::value_parser!(u64).range(100..))]
        interval: u64,
        /// End after this many intervals; default: until Ctrl-C
        #[arg(long, short = 'n', value_name = "N")]
        count: Option<u64>,
    },
    /// Show which rule, subscribers and links a name has, and why
    Trace {
        #[command(flatten)]
        node: NodeArgs,
        /// Name of an item
        name: ItemName,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show publications as they pass: name, number, size and first bytes
    Tap {
        #[command(flatten)]
        node: NodeArgs,
        /// Names or patterns; default: all
        #[arg(default_value = "/**")]
        patterns: Vec<ScopePattern>,
        /// End after this many publications; default: until Ctrl-C
        #[arg(long, short = 'n', value_name = "N")]
        count: Option<u64>,
    },
}
