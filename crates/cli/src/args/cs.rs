//! Options of `nw cs …`.

use super::flags::{CommandArgs, QueryArgs};
use clap::Subcommand;
use nw_name::Name;

#[derive(Debug, Subcommand)]
pub enum CsCommand {
    /// Show capacity, flags, hits and misses
    Info {
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Change capacity or flags
    Config {
        /// Maximum number of packets
        #[arg(long, value_name = "PACKETS")]
        capacity: Option<u64>,
        /// Cache new Data
        #[arg(long, value_name = "BOOL")]
        admit: Option<bool>,
        /// Answer Interests from the cache
        #[arg(long, value_name = "BOOL")]
        serve: Option<bool>,
        #[command(flatten)]
        command: CommandArgs,
    },
    /// Erase cached Data under a prefix
    Erase {
        /// The prefix
        prefix: Name,
        /// Erase at most this many packets
        #[arg(long, value_name = "PACKETS")]
        count: Option<u64>,
        #[command(flatten)]
        command: CommandArgs,
    },
}
