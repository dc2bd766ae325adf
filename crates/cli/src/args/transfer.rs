//! Options of `nw put` and `nw cat`.

use super::flags::{RouterArgs, ServeArgs, SigningArgs, VerifyArgs};
use clap::Args;
use nw_name::Name;
use std::path::PathBuf;

/// Default of --timeout, milliseconds.
const TIMEOUT_DEFAULT_MS: u64 = nw_app::fetch::TIMEOUT_DEFAULT.as_millis() as u64;

#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Name to publish under; a version is added unless the name ends in one
    pub name: Name,
    /// File to publish; standard input if absent or -
    pub file: Option<PathBuf>,
    /// Bytes of content per segment
    #[arg(
        long,
        default_value_t = nw_app::publish::SEGMENT_LEN_DEFAULT,
        value_parser = segment_len,
        value_name = "BYTES"
    )]
    pub segment: usize,
    /// FreshnessPeriod of segments, milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub freshness: u64,
    #[command(flatten)]
    pub signing: SigningArgs,
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Do not register the name: a route to this program exists already
    #[arg(long, conflicts_with_all = ["origin", "expose"])]
    pub no_register: bool,
    /// Print one JSON object when ready and one at the end
    #[arg(long)]
    pub json: bool,
    /// Show no progress on the terminal
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Cat {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Name to fetch; the newest version unless the name ends in one
    pub name: Name,
    /// Write to this file, which appears when it is complete
    ///
    /// - is standard output, also for binary content on a terminal.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not look for versions: segments directly follow the name
    #[arg(long)]
    pub no_version: bool,
    /// Maximum Interests in flight
    #[arg(
        long,
        default_value_t = 256,
        value_parser = clap::value_parser!(u16).range(1..=8192),
        value_name = "N"
    )]
    pub window: u16,
    /// InterestLifetime, milliseconds
    #[arg(long, default_value_t = 4000, value_name = "MS")]
    pub lifetime: u64,
    /// Give up after this many milliseconds without new Data
    ///
    /// If nothing has arrived yet, a missing route ends the fetch after at most 4 s.
    #[arg(
        long,
        short,
        default_value_t = TIMEOUT_DEFAULT_MS,
        value_parser = clap::value_parser!(u64).range(1..),
        value_name = "MS"
    )]
    pub timeout: u64,
    /// Maximum retransmissions of one segment; default: limited by --timeout only
    ///
    /// With 0 each segment is requested once, and one lost packet ends the fetch.
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Refuse an object with more bytes of content than this; default: any size
    ///
    /// The suffixes k, M, G and T multiply by powers of 1024.
    #[arg(long, value_name = "BYTES", value_parser = byte_count)]
    pub max_size: Option<u64>,
    #[command(flatten)]
    pub verify: VerifyArgs,
    /// Exit when the connection to the router is lost, instead of reconnecting
    #[arg(long)]
    pub no_reconnect: bool,
    /// Print a summary as JSON on standard error
    #[arg(long)]
    pub json: bool,
    /// Show no progress on the terminal
    #[arg(long, short)]
    pub quiet: bool,
}

/// Parses a number of bytes, with or without a suffix k, M, G or T (powers of 1024).
fn byte_count(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| "a number of bytes, such as 500000, 64k, 10M or 2G".to_owned())
}

fn segment_len(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(len @ 1..=8192) => Ok(len),
        _ => Err("a segment has 1 to 8192 bytes of content".into()),
    }
}
