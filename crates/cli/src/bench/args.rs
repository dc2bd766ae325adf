//! Options of `nw bench`.

use crate::args::flags::RouterArgs;
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
pub enum BenchCommand {
    /// Generate and answer traffic through one router, or in memory, and print the results
    Run(Run),
    /// Start downloads at a rate, and measure how they share a link
    ///
    /// Repeats the experiment of "Bulk of Interest": start and stop of each file, pending
    /// Interests, retransmissions, link load and goodput over time. Needs a producer: `nw bench
    /// answer --payload 8000` at this or another router.
    Bulk(Bulk),
    /// Attack a router, and measure what bystanders keep
    ///
    /// Each scenario fills the router's state in another way: see `--scenario`. A consumer and a
    /// producer that have nothing to do with it are measured before, during and after the attack.
    /// Only for routers that are yours.
    Attack(Attack),
    /// Send Interests by a rule and measure the answers
    ///
    /// Needs a producer: `nw bench answer` at this or another router, or at the other end of a
    /// wire.
    Generate(Generate),
    /// Answer every Interest under a prefix with generated Data
    ///
    /// It is stateless and does not sign: the Data carry an invalid SHA-256 digest, so consumers
    /// must not verify them.
    Answer(Answer),
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Path between generator and producer
    ///
    /// The scheme of --socket selects UDP, unix or TCP. For AF_XDP use two commands: `nw bench
    /// generate --xdp` and `nw bench answer --xdp`.
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

/// The path between generator and producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Over {
    /// A running router, at --socket
    Router,
    /// A forwarding plane in this process, without sockets
    Memory,
}

#[derive(Debug, Args)]
pub struct Bulk {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Files started per second
    #[arg(long, default_value_t = 10.0, value_name = "N")]
    pub files_per_s: f64,
    /// Seconds in which files are started
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    pub seconds: f64,
    /// Size of a file, bytes; the default is 10 Mbit
    #[arg(long, default_value_t = 1_250_000, value_name = "BYTES")]
    pub size: u64,
    /// Content of a segment, bytes
    #[arg(
        long,
        default_value_t = 8000,
        value_name = "BYTES",
        value_parser = clap::value_parser!(u64).range(1..=8000)
    )]
    pub payload: u64,
    /// Prefix of the names, as at `nw bench answer`
    #[arg(long, default_value = "/bench", value_name = "NAME")]
    pub prefix: Name,
    /// InterestLifetime, milliseconds
    #[arg(
        long,
        default_value_t = 4000,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(100..=60_000)
    )]
    pub lifetime: u64,
    /// Maximum number of outstanding Interests of a file
    #[arg(
        long,
        default_value_t = 256,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(2..=65_536)
    )]
    pub window: u64,
    /// Rate of the link that limits the downloads, Mbit/s: results are compared with it
    #[arg(long, value_name = "MBIT")]
    pub link_rate: Option<f64>,
    /// Round-trip time of that link without queues, milliseconds
    #[arg(long, default_value_t = 0.0, value_name = "MS", requires = "link_rate")]
    pub link_rtt: f64,
    /// Write tables (files.csv, samples.csv), bulk.json and charts (bulk.html) into this folder
    #[arg(long, short, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Print the whole result as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Attack {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Attack to run
    #[arg(long, value_enum, default_value_t = AttackScenario::All)]
    pub scenario: AttackScenario,
    /// Where the attackers connect, such as udp4://127.0.0.1:6363; default: --socket
    #[arg(long, value_name = "URI")]
    pub attack: Option<FaceUri>,
    /// Number of attackers
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub attackers: usize,
    /// Interests per second of each attacker
    #[arg(long, default_value_t = 2000.0, value_name = "N")]
    pub rate: f64,
    /// Duration of each attack, and of the measurements before and after it, seconds
    #[arg(long, default_value = "3", value_name = "S", value_parser = seconds)]
    pub seconds: Duration,
    /// Exchanges per second of the bystanders
    #[arg(long, default_value_t = 500.0, value_name = "N")]
    pub bystander_rate: f64,
    /// Process of the router, to report its memory
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Print one JSON object per attack
    #[arg(long)]
    pub json: bool,
}

/// Attacks of `nw bench attack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttackScenario {
    /// All of them, one after the other
    All,
    /// Interests with a lifetime of an hour, from few faces
    FewFaces,
    /// Interests with a short lifetime, from many faces
    ManyFaces,
    /// Interests under a prefix that never answers
    Unanswered,
    /// Answers that arrive just before the Interests expire
    SlowProducer,
    /// Consumers and a producer that exchange new Data as fast as they can
    Collusion,
    /// Registrations of the bystanders' prefix
    Hijack,
    /// Datagrams from addresses that are used once
    SpoofedUdp,
}

#[derive(Debug, Args)]
pub struct Generate {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Send with AF_XDP on this network interface, bypassing the kernel, to the address in --socket
    ///
    /// --socket udp4://ADDRESS:PORT or udp6://[ADDRESS]:PORT is a router or `nw bench answer
    /// --xdp`; ether://[ADDRESS] is a network card on the same link. Each packet is one frame, so
    /// Data must fit the MTU. Needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK.
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
    pub router: RouterArgs,
    #[command(flatten)]
    pub control: Control,
    /// Answer with AF_XDP on this network interface, bypassing the kernel
    ///
    /// Receives UDP packets to --port at the interface's addresses, and Ethernet frames to its
    /// card. No prefix is registered: add a route to this machine at the sending router, such as
    /// `nw route add /bench udp4://ADDRESS:PORT`. Needs the same capabilities as `nw bench generate
    /// --xdp`.
    #[arg(
        long,
        value_name = "INTERFACE",
        conflicts_with_all = ["socket", "control", "no_register"]
    )]
    pub xdp: Option<String>,
    /// UDP port for AF_XDP
    #[arg(
        long,
        requires = "xdp",
        default_value_t = PORT_DEFAULT,
        value_name = "PORT",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub port: u16,
    #[command(flatten)]
    pub workload: WorkloadArgs,
    #[command(flatten)]
    pub answers: AnswerArgs,
    /// Exit after this many seconds; default: at Ctrl-C
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<Duration>,
    /// Do not register the prefix at the router
    #[arg(long)]
    pub no_register: bool,
    /// Print one JSON object when ready and one at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Control {
    /// Management address of the same router, if --socket is UDP: unix:///path, tcp4://host:port
    ///
    /// Default: the same as for other commands.
    #[arg(long, value_name = "URI")]
    pub control: Option<FaceUri>,
}

/// The workload. Generator and producer need the same options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArgs {
    /// Prefix of all names
    #[arg(long, default_value = "/bench", value_name = "NAME")]
    pub prefix: Name,
    /// Number of names that are requested repeatedly
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub names: usize,
    /// Order of the names
    #[arg(long, value_enum, default_value_t = NameOrder::Popular)]
    pub pattern: NameOrder,
    /// Exponent of Zipf's law: the popularity of the n-th name is proportional to 1/n^S; 0 is
    /// uniform
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    pub zipf: f64,
    /// Number of name components, including the prefix; or a range such as 4-8
    #[arg(long, default_value = "6", value_name = "N")]
    pub components: NumberRange,
    /// Size of a name, bytes: its components with types and lengths; or a range
    // The alias is the old name (retired word).
    #[arg(long, alias = "name-octets", default_value = "60", value_name = "BYTES")]
    pub name_bytes: NumberRange,
    /// Size of a Data's content, bytes; or a range
    #[arg(long, default_value = "1000", value_name = "BYTES")]
    pub payload: NumberRange,
    /// Fraction of Interests with CanBePrefix; these are answered with a longer name
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub can_be_prefix: f64,
    /// Fraction of Interests for cached names; the others are for new names
    ///
    /// All names are requested once before the measurement, so caches must hold more than --names
    /// packets. Default: caches are not prepared.
    #[arg(long, value_name = "SHARE")]
    pub hit_ratio: Option<f64>,
    /// Random seed: the same seed gives the same names in the same order; default: a new one each
    /// time
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// The order of requested names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NameOrder {
    /// By Zipf's law
    Popular,
    /// Sequential, repeated from the start
    Sequential,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Open loop: requests per second, independent of answers
    ///
    /// Latency is measured from the scheduled time of a request.
    #[arg(long, value_name = "N", conflicts_with = "window", value_parser = rate)]
    pub rate: Option<f64>,
    /// Open loop with random intervals, as from many independent users
    #[arg(long, requires = "rate")]
    pub poisson: bool,
    /// Closed loop: number of outstanding requests
    #[arg(
        long,
        default_value_t = 64,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=OUTSTANDING_MAX as i64)
    )]
    pub window: u32,
    /// Duration of the measurement, seconds
    #[arg(long, default_value = "10", value_name = "S", value_parser = seconds)]
    pub seconds: Duration,
    /// Maximum number of requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub packets: Option<u64>,
    /// InterestLifetime, milliseconds; a request without answer in this time counts as lost
    #[arg(
        long,
        default_value_t = 1000,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(1..=60_000)
    )]
    pub lifetime: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Answers")]
pub struct AnswerArgs {
    /// FreshnessPeriod of Data, milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub freshness: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub struct Output {
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write charts and tables to this file, as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl WorkloadArgs {
    /// Returns the workload that the options describe.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn workload(&self) -> Result<Workload, WorkloadError> {
        let workload = Workload {
            prefix: self.prefix.clone(),
            // Small enough to be typed for a repetition.
            seed: self.seed.unwrap_or_else(|| random() % 1_000_000_000),
            names: self.names,
            pattern: match self.pattern {
                NameOrder::Popular => Pattern::Popular,
                NameOrder::Sequential => Pattern::Sequential,
            },
            zipf: self.zipf,
            components: self.components,
            name_len: self.name_bytes,
            payload: self.payload,
            can_be_prefix: self.can_be_prefix,
            hit_ratio: self.hit_ratio,
        };
        workload.check()?;
        Ok(workload)
    }
}

impl LoadArgs {
    /// Returns the load: the times of requests.
    pub fn load(&self) -> Load {
        match self.rate {
            Some(rate) => Load::Open {
                rate,
                arrivals: if self.poisson { ArrivalProcess::Poisson } else { ArrivalProcess::Even },
            },
            None => Load::Closed { window: self.window as usize },
        }
    }

    /// Returns the limits of the run.
    pub fn limits(&self) -> Limits {
        Limits {
            packets: self.packets,
            duration: self.seconds,
            lifetime: Duration::from_millis(self.lifetime),
        }
    }
}

/// Returns a random number from the system.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("give a number of seconds from 0.001 to 86400 (a day)".into()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=1e8).contains(&rate) => Ok(rate),
        _ => Err("give a number of requests per second from 0.01 to 100000000".into()),
    }
}
