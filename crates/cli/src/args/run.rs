//! Options of `nw run`.

use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Address of the page if `--page` has none.
pub const PAGE_ADDRESS: &str = "127.0.0.1:6390";

#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Configuration file (TOML)
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Log level: error, warn, info, debug, trace, or a filter such as info,router=debug
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
    /// Format of log lines; default: log.format of the configuration
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Number of forwarding threads, each with its own tables and UDP sockets
    ///
    /// Default: forwarder.shards of the configuration.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub shards: Option<u32>,
    /// Listen on this UDP and TCP port instead of the configured ones: for a second router on a
    /// machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Listen on this unix socket instead of the configured one
    ///
    /// The control socket is created in the same folder.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Serve the web page on this address of this machine, 127.0.0.1:6390 if none is given
    ///
    /// `nw open` opens it. Other options of the page: [page] of the configuration.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = PAGE_ADDRESS)]
    pub page: Option<SocketAddr>,
    /// Write this router's socket to ~/.ndn/client.conf, where NDN programs of this user look for
    /// it
    #[arg(long)]
    pub write_client_conf: bool,
    /// Drop all capabilities that the configuration does not need, before any socket is opened
    #[arg(long)]
    pub drop_privileges: bool,
    /// Check the configuration and exit
    #[arg(long)]
    pub check: bool,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}
