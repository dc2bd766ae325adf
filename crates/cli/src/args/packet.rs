//! Options of the commands that send or answer single packets: `nw ping`, `nw ping-server`,
//! `nw peek`, `nw poke`.

use super::flags::{RouterArgs, ServeArgs, SigningArgs, VerifyArgs};
use clap::{Args, ValueEnum};
use nw_name::Name;

#[derive(Debug, Args)]
pub struct Ping {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Name of the ping server
    pub name: Name,
    /// Number of pings; default: until Ctrl-C
    #[arg(long, short, value_name = "N")]
    pub count: Option<u64>,
    /// Interval between two pings, milliseconds
    #[arg(
        long,
        short,
        default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..),
        value_name = "MS"
    )]
    pub interval: u64,
    /// Maximum time to wait for an answer, milliseconds
    #[arg(
        long,
        short,
        default_value_t = 4000,
        value_parser = clap::value_parser!(u64).range(1..),
        value_name = "MS"
    )]
    pub timeout: u64,
    #[command(flatten)]
    pub verify: VerifyArgs,
    /// Exit when the connection to the router is lost, instead of reconnecting
    #[arg(long)]
    pub no_reconnect: bool,
    /// Print one JSON object per answer and one at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PingServer {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Name to answer under
    pub name: Name,
    /// Bytes of content in each answer
    #[arg(
        long,
        default_value_t = 0,
        value_parser = clap::value_parser!(u16).range(0..=8000),
        value_name = "BYTES"
    )]
    pub size: u16,
    #[command(flatten)]
    pub signing: SigningArgs,
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Peek {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Name of the Interest
    pub name: Name,
    /// Set CanBePrefix: Data with a longer name may answer
    #[arg(long, short = 'P')]
    pub prefix: bool,
    /// Set MustBeFresh: cached Data must be fresh
    #[arg(long, short)]
    pub fresh: bool,
    /// InterestLifetime, milliseconds
    #[arg(long, default_value_t = 4000, value_name = "MS")]
    pub lifetime: u64,
    /// Retransmit the Interest for this time, milliseconds; default: one InterestLifetime
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// HopLimit
    #[arg(long, value_name = "N")]
    pub hop_limit: Option<u8>,
    /// Name for the ForwardingHint; may be repeated
    #[arg(long, value_name = "NAME")]
    pub hint: Vec<Name>,
    /// Text for ApplicationParameters
    #[arg(long, value_name = "TEXT")]
    pub parameters: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t = PeekShow::Content)]
    pub show: PeekShow,
    /// Also print content of other types: application Nacks, Links, keys, unknown types
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub verify: VerifyArgs,
    /// Print JSON: name, content type, freshness, signature, content in hexadecimal
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PeekShow {
    /// The bytes of the content
    Content,
    /// The bytes of the packet
    Packet,
    /// The packet as a tree
    Tree,
}

#[derive(Debug, Args)]
pub struct Poke {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Name of the packet
    pub name: Name,
    /// Content; standard input if absent
    pub content: Option<String>,
    /// FreshnessPeriod, milliseconds
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub freshness: u64,
    /// Set FinalBlockId: this packet is the last of its series
    #[arg(long)]
    pub last: bool,
    /// Give up if no Interest arrives within this time, milliseconds; default: wait until Ctrl-C
    #[arg(long, value_name = "MS")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub signing: SigningArgs,
    #[command(flatten)]
    pub serve: ServeArgs,
}
