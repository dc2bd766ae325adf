//! Options of the remaining commands: `nw status`, `nw dissect`, `nw demo`, `nw config`,
//! `nw complete`.

use super::flags::QueryArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub query: QueryArgs,
    /// Show dropped packets by reason
    #[arg(long)]
    pub drops: bool,
    /// Show each forwarding thread: load, queue, tables
    #[arg(long, conflicts_with = "drops")]
    pub shards: bool,
    /// Show cores, caches, memory nodes and network cards of this machine, and thread placement
    #[arg(long, conflicts_with_all = ["drops", "shards"])]
    pub hardware: bool,
}

#[derive(Debug, Args)]
pub struct Dissect {
    /// File with concatenated packets; standard input if absent or -
    pub file: Option<PathBuf>,
    /// The input is hexadecimal text; white space is ignored
    #[arg(long, conflicts_with = "base64")]
    pub hex: bool,
    /// The input is base64 text, as used for certificates
    #[arg(long)]
    pub base64: bool,
    /// Print JSON lines: depth, offset, type, name, length, value
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Size of the file, MiB
    #[arg(
        long,
        default_value_t = 128,
        value_parser = clap::value_parser!(u64).range(1..=4096),
        value_name = "MIB"
    )]
    pub mib: u64,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Check this file instead of printing the default configuration
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Translate an nfd.conf to this router's format; reports on standard error what has no
    /// equivalent
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub from_nfd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// Words before the one to complete
    #[arg(last = true)]
    pub words: Vec<String>,
}
