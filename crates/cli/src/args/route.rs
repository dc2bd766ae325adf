//! Options of `nw route …`.

use super::flags::{CommandArgs, QueryArgs};
use clap::Subcommand;
use nw_name::Name;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// List routes (the RIB), or the resulting next hops (the FIB)
    List {
        /// List the FIB instead of the RIB
        #[arg(long, conflicts_with_all = ["nexthop", "origin"])]
        fib: bool,
        /// Only routes to this face: its id, or its remote URI
        #[arg(long, value_name = "ID|URI")]
        nexthop: Option<String>,
        /// Only routes of this origin: app, static, …
        #[arg(long)]
        origin: Option<String>,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Show the routes that Interests for a name follow: those of its longest prefix with a route
    Show {
        /// The name
        name: Name,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Add a route
    Add {
        /// Name prefix
        prefix: Name,
        /// Next hop: a remote URI such as udp4://192.0.2.1, or a face id
        ///
        /// The face is created if it does not exist.
        next_hop: String,
        /// Cost; lower is better
        #[arg(long, default_value_t = 0)]
        cost: u64,
        /// Origin: app, static, client, autoreg, autoconf, nlsr, or a number
        #[arg(long, default_value = "static")]
        origin: String,
        /// Clear the child-inherit flag: longer prefixes with routes of their own do not use this
        /// route
        #[arg(long)]
        no_inherit: bool,
        /// Set the capture flag: this and longer prefixes do not inherit routes of shorter prefixes
        #[arg(long)]
        capture: bool,
        /// Remove the route after this many milliseconds
        #[arg(long, value_name = "MS")]
        expires: Option<u64>,
        #[command(flatten)]
        command: CommandArgs,
    },
    /// Add many routes from a file, about 100,000 per second
    ///
    /// One route per line: PREFIX FACE [COST] [origin=WORD] [expires=MS] [no-inherit] [capture].
    /// FACE is a remote URI or a face id. Empty lines and lines that begin with # are ignored.
    /// `nw route export` writes this format.
    Import {
        /// File; - is standard input
        file: PathBuf,
        #[command(flatten)]
        command: CommandArgs,
    },
    /// Print all routes in the format that `nw route import` reads
    Export {
        /// Only routes of this origin: app, static, …
        #[arg(long)]
        origin: Option<String>,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Remove a route
    Remove {
        /// Name prefix
        prefix: Name,
        /// Next hop: a remote URI, or a face id
        next_hop: String,
        /// Origin: app, static, …
        #[arg(long, default_value = "static")]
        origin: String,
        #[command(flatten)]
        command: CommandArgs,
    },
}
