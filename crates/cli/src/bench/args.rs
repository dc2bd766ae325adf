//! Words of `nw bench`, with the help that teaches them.

use crate::args::Router;
use clap::{Args, Subcommand, ValueEnum};
use core::time::Duration;
use nw_app::FaceUri;
use nw_name::Name;
use nw_traffic::generator::{ArrivalProcess, Limits, Load, OUTSTANDING_MAX};
use nw_traffic::number_range::NumberRange;
use nw_traffic::through_xdp::PORT_DEFAULT;
use nw_traffic::workload::{Pattern, Workload, WorkloadError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum BenchVerb {
    /// Ask and answer through one router, or over memory, and show what was measured
    Run(Run),
    /// Ask: send Interests by a rule and measure what comes back
    ///
    /// Somebody must answer: `nw bench answer` at this or another router, or at the other end of a wire.
    Generate(Generate),
    /// Answer every Interest below a prefix with made-up Data
    ///
    /// Keeps no table and makes no signature: the Data claim a digest that does not fit, so only programs that do not verify
    /// should ask.
    Answer(Answer),
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub router: Router,
    /// What is between the two ends
    ///
    /// UDP, unix and TCP: by the scheme of --socket. By AF_XDP the two ends are commands of their own: `nw bench generate --xdp` and `nw bench answer --xdp`.
    #[arg(long, value_enum, default_value_t = Over::Router)]
    pub over: Over,
    #[command(flatten)]
    pub control: Control,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub answers: AnswerArgs,
    #[command(flatten)]
    pub output: Output,
}

/// What is between generator and sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Over {
    /// A running router, at --socket
    Router,
    /// A forwarding plane in this process: no sockets
    Memory,
}

#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    pub router: Router,
    /// By AF_XDP on this network interface, past the system's network code, to the address in --socket
    ///
    /// --socket udp4://ADDRESS:PORT or udp6://[ADDRESS]:PORT is a router or `nw bench answer --xdp`; ether://[ADDRESS] is a card on the same wire. Each
    /// packet is one frame, so Data must fit the MTU. Takes the rights CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK.
    #[allow(
        rustdoc::broken_intra_doc_links,
        reason = "help for a terminal: the brackets are those of an address"
    )]
    #[arg(long, value_name = "INTERFACE")]
    pub xdp: Option<String>,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    #[command(flatten)]
    pub load: LoadArgs,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Args)]
pub struct Answer {
    #[command(flatten)]
    pub router: Router,
    #[command(flatten)]
    pub control: Control,
    /// By AF_XDP on this network interface, past the system's network code: answer whoever asks there
    ///
    /// Hears UDP port --port at the interface's addresses, and Ethernet frames to its card. No router is told: give the one that asks a route to here, as
    /// `nw route add /bench udp4://ADDRESS:PORT`. Rights as for `nw bench generate --xdp`.
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ["socket", "control", "no_register"])]
    pub xdp: Option<String>,
    /// UDP port that is heard by AF_XDP
    #[arg(long, requires = "xdp", default_value_t = PORT_DEFAULT, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    #[command(flatten)]
    pub answers: AnswerArgs,
    /// End after so many seconds; at Ctrl-C when absent
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Do not tell the router that we serve the prefix
    #[arg(long)]
    pub no_register: bool,
    /// Print one JSON object when ready and one at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Control {
    /// Where the same router takes commands, if --socket is UDP: unix:///path, tcp4://host:port
    ///
    /// Default: where other commands find the router.
    #[arg(long, value_name = "URI")]
    pub control: Option<FaceUri>,
}

/// What is asked for. The same options for all that take part.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArgs {
    /// Below which all names are
    #[arg(long, default_value = "/bench", value_name = "NAME")]
    pub prefix: Name,
    /// How many names are asked for again and again
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub names: usize,
    /// In which order
    #[arg(long, value_enum, default_value_t = Order::Popular)]
    pub pattern: Order,
    /// Exponent of Zipf's law: the n-th most popular name is asked for in proportion to 1/n^S; 0 is all alike
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub zipf: f64,
    /// Components of a name, the prefix's included; or a range, 4-8
    #[arg(long, default_value = "6", value_name = "N")]
    pub components: NumberRange,
    /// Octets of a name: its components with types and lengths; or a range
    #[arg(long, default_value = "60", value_name = "OCTETS")]
    pub name_octets: NumberRange,
    /// Octets of content of a Data; or a range
    #[arg(long, default_value = "1000", value_name = "OCTETS")]
    pub payload: NumberRange,
    /// Share of Interests with CanBePrefix; these are answered with a longer name
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub can_be_prefix: f64,
    /// Share of Interests for names that caches have; the others are for names nobody asked for before
    ///
    /// All names are asked for once before measuring, so caches must hold more than --names packets. When absent, caches answer what
    /// they happen to have.
    #[arg(long, value_name = "SHARE")]
    pub hit_ratio: Option<f64>,
    /// The same seed makes the same names in the same order; a new one each time when absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// In which order names are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// By Zipf's law
    Popular,
    /// One after the other, then from the start
    Sequential,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Open loop: so many requests a second, whatever the answers do; latency counts from when a request was due
    #[arg(long, value_name = "N", conflicts_with = "window", value_parser = rate)]
    pub rate: Option<f64>,
    /// Open loop with gaps at random, as of many independent users
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Closed loop: so many requests wait at any time
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=OUTSTANDING_MAX as i64))]
    pub window: u32,
    /// Ask for so many seconds
    #[arg(long, default_value = "10", value_name = "S", value_parser = seconds)]
    pub seconds: Duration,
    /// Ask so many times at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub packets: Option<u64>,
    /// InterestLifetime, milliseconds: a request that is not answered within it is lost
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub lifetime: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Answers")]
pub struct AnswerArgs {
    /// How long caches may call a Data fresh, milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub freshness: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub struct Output {
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write charts and tables into this file: HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl WorkloadArgs {
    /// The workload, checked.
    pub fn workload(&self) -> Result<Workload, WorkloadError> {
        let workload = Workload {
            prefix: self.prefix.clone(),
            // Small enough to be typed again.
            seed: self.seed.unwrap_or_else(|| random() % 1_000_000_000),
            names: self.names,
            pattern: match self.pattern {
                Order::Popular => Pattern::Popular,
                Order::Sequential => Pattern::Sequential,
            },
            zipf: self.zipf,
            components: self.components,
            name_len: self.name_octets,
            payload: self.payload,
            can_be_prefix: self.can_be_prefix,
            hit_ratio: self.hit_ratio,
        };
        workload.check()?;
        Ok(workload)
    }
}

impl LoadArgs {
    /// When requests are due.
    pub fn load(&self) -> Load {
        match self.rate {
            Some(rate) => {
                Load::Open { rate, arrivals: if self.poisson { ArrivalProcess::Poisson } else { ArrivalProcess::Even } }
            }
            None => Load::Closed { window: self.window as usize },
        }
    }

    /// What bounds the run.
    pub fn limits(&self) -> Limits {
        Limits {
            packets: self.packets,
            duration: self.seconds,
            lifetime: Duration::from_millis(self.lifetime),
        }
    }
}

/// From the system's randomness.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds from 0.001 to 86400 (a day)".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=1e8).contains(&rate) => Ok(rate),
        _ => Err("write a number of requests a second from 0.01 to 100000000".into()),
    }
}
