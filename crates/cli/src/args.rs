//! Every word of the command line, with the help that teaches it.

// Help texts: their brackets are what a user types.
#![allow(rustdoc::broken_intra_doc_links)]

use clap::{Args, Parser, Subcommand, ValueEnum};
use nw_app::FaceUri;
use nw_name::Name;
use std::path::PathBuf;

/// Namewire: a router for named data (NDN), and the tools to use it.
#[derive(Debug, Parser)]
#[command(name = "nw", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a router
    ///
    /// Without --config it reads the first of $XDG_CONFIG_HOME/namewire/nw.toml (~/.config/…) and /etc/namewire/nw.toml
    /// that is there, else it runs with defaults: the unix socket that NDN programs look for, UDP and TCP port 6363.
    /// SIGHUP reads the configuration again, SIGTERM and Ctrl-C end the router.
    Run(Run),
    /// Publish a file, or standard input, under a name
    ///
    /// Cuts it into signed segments as they are asked for and serves them until Ctrl-C.
    Put(Put),
    /// Fetch what a name stands for, and write it to standard output or a file
    Cat(Cat),
    /// Measure the round trip to `nw ping-server`
    Ping(Ping),
    /// Answer `nw ping` under a name
    PingServer(PingServer),
    /// Fetch one Data packet
    Peek(Peek),
    /// Offer one Data packet until it was asked for
    Poke(Poke),
    /// Show how a router is doing
    Status(Status),
    /// List, make, change and end faces
    #[command(subcommand)]
    Face(FaceVerb),
    /// List, add and remove routes
    #[command(subcommand)]
    Route(RouteVerb),
    /// List and choose forwarding strategies
    #[command(subcommand)]
    Strategy(StrategyVerb),
    /// Show, change and empty the content store
    #[command(subcommand)]
    Cs(CsVerb),
    /// Make, list, export and import keys of identities
    #[command(subcommand)]
    Key(crate::keys::KeyVerb),
    /// Show, sign, install and export certificates
    #[command(subcommand)]
    Cert(crate::keys::CertVerb),
    /// Watch rates of faces and prefixes, tables and drops on the terminal
    ///
    /// Keys: q ends, s sorts by something else, r reverses, space pauses, arrows scroll.
    Top(crate::inside::Top),
    /// Show which way an Interest goes through the router, and why
    Trace(crate::inside::Trace),
    /// Show packets as they come and leave, or write them to a file for Wireshark
    Tap(crate::inside::Tap),
    /// Show and change what a running router logs
    #[command(subcommand)]
    Log(crate::inside::LogVerb),
    /// Print the OpenAPI document of a router's REST
    Openapi,
    /// Connect elements to a router of one's own: check, draw, test, run graph files
    #[command(subcommand, disable_help_subcommand = true)]
    Graph(crate::graph::GraphVerb),
    /// Run one element, or a part of a graph, as a process of its own, and command such processes
    #[command(subcommand)]
    Service(crate::service::ServiceVerb),
    /// Make several routers appear as one, behind a balancer in the kernel
    #[command(subcommand)]
    Balancer(crate::balancer::BalancerVerb),
    /// Send traffic by a rule, answer it, and measure latency, rate and loss
    #[command(subcommand)]
    Bench(crate::bench::BenchVerb),
    /// Run networks of thousands of routers in virtual time
    #[command(subcommand)]
    Sim(crate::sim::SimVerb),
    /// Build a cluster, consumers and producers on this machine, from network namespaces
    #[command(subcommand)]
    Lab(crate::lab::LabVerb),
    /// Repeat the experiments of papers on this machine, and draw them beside what the papers found
    #[command(subcommand)]
    Paper(crate::paper::PaperVerb),
    /// Show what is wrong with a router and its machine, and the command that mends it
    ///
    /// Looks at the router's socket, rights, ports, buffers, descriptors, clock, routes, pools and keys. Works without a router. Changes nothing.
    Doctor(crate::doctor::Doctor),
    /// Show packets as a readable tree
    Dissect(Dissect),
    /// Watch a real file cross two real routers on this machine, with figures; then, with the rights of root, a cluster of routers
    Demo(Demo),
    /// Print the default configuration with all options explained, or check one
    Config(Config),
    /// Print shell completions
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Print candidates for the next word, for scripts of shells
    #[command(hide = true)]
    Complete(crate::help::Values),
    /// Print the manual page, or write all pages into a folder
    Man {
        /// Where to write nw.1, nw-run.1 and so on.
        folder: Option<PathBuf>,
    },
}

/// Which router to talk to.
#[derive(Debug, Clone, Args)]
pub struct Router {
    /// The router's face: unix:///path, tcp4://host:port, udp4://host:port
    ///
    /// Default: NDN_CLIENT_TRANSPORT, else client.conf, else the unix socket that is there.
    #[arg(long = "socket", short = 's', value_name = "URI", global = true)]
    pub socket: Option<FaceUri>,
}

/// A command that only reads.
#[derive(Debug, Clone, Args)]
pub struct Reading {
    #[command(flatten)]
    pub router: Router,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub reading: Reading,
    /// Show dropped packets by reason
    #[arg(long)]
    pub drops: bool,
    /// Show the threads that forward: load, queue, tables
    #[arg(long, conflicts_with = "drops")]
    pub shards: bool,
    /// Show this machine's cores, caches, memory nodes and network cards, and where threads that forward go
    #[arg(long, conflicts_with_all = ["drops", "shards"])]
    pub hardware: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Run {
    /// Configuration file (TOML)
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace, or a filter such as nw_router=debug
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
    /// How a line of the log looks; log.format when not given
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Threads that forward, each with tables and UDP sockets of its own; found out from the machine when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub shards: Option<u32>,
    /// Listen on this UDP and TCP port in place of those of the configuration: for a second router on one machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Listen on this unix socket in place of the configuration's; the control socket stands beside it
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Write this router's socket into ~/.ndn/client.conf, where NDN programs of this user look for it
    #[arg(long)]
    pub write_client_conf: bool,
    /// Give up every right that no feature of the configuration needs, before any socket is opened
    #[arg(long)]
    pub drop_privileges: bool,
    /// Check the configuration and end
    #[arg(long)]
    pub check: bool,
}

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// With what packets are signed.
#[derive(Debug, Clone, Args)]
pub struct Signing {
    /// Sign with this key of the key store instead of a plain digest: an identity, key or certificate, or `default`
    ///
    /// The registration is signed with it, too. With --key-name it is a file: a private key in PEM (PKCS#8: ECDSA P-256, RSA or Ed25519).
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Sign with HMAC and the octets of this file
    #[arg(long, value_name = "FILE", requires = "key_name", conflicts_with = "key")]
    pub hmac: Option<PathBuf>,
    /// Name of a key that is in a file, as verifiers know it: /alice/KEY/1
    #[arg(long, value_name = "NAME")]
    pub key_name: Option<Name>,
    #[command(flatten)]
    pub store: Store,
}

/// Which key store.
#[derive(Debug, Clone, Args)]
pub struct Store {
    /// Folder of the key store; default: NDN_CLIENT_PIB and NDN_CLIENT_TPM, else client.conf, else ~/.ndn
    #[arg(long, value_name = "FOLDER")]
    pub store: Option<PathBuf>,
}

/// Which fetched Data are accepted.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Verification")]
pub struct Verifying {
    /// Accept only Data signed by a key whose certificates lead to this one; several may be given
    ///
    /// A certificate as it is, in base64, or in PEM. Without any of --anchor, --trust, --hmac and --verify, digests are checked, and signatures by
    /// keys that the key store has; Data signed by other keys are accepted and said to be not verified.
    #[arg(long, value_name = "FILE")]
    pub anchor: Vec<PathBuf>,
    /// Accept only Data that this file's rules allow: [[anchor]], [[allow]] (id, anchors, signer, prefix) and [[vouch]]
    #[arg(long, value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// Accept only Data signed with HMAC by the bytes of this file
    #[arg(long, value_name = "FILE")]
    pub hmac: Option<PathBuf>,
    /// Name of the HMAC key, as signatures give it; any when not given
    #[arg(long, value_name = "NAME", requires = "hmac")]
    pub key_name: Option<Name>,
    /// Accept only Data signed by a trusted key: one of the key store, or one that the options above name
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub store: Store,
}

/// How a name is served.
#[derive(Debug, Clone, Args)]
pub struct Serving {
    /// Origin of the route: app (default), client, static, or a number; routing daemons announce some origins and not others
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Option<String>,
    /// Let routing daemons (NLSR, ndnd dv) announce the name to other routers: the same as --origin client
    #[arg(long, conflicts_with = "origin")]
    pub expose: bool,
    /// End when the router goes away, instead of connecting again and going on
    #[arg(long)]
    pub no_reconnect: bool,
}

/// A command that changes a router.
#[derive(Debug, Clone, Args)]
pub struct Order {
    #[command(flatten)]
    pub reading: Reading,
    /// Sign with this key of the key store: an identity, key or certificate, or `default`
    ///
    /// A router on another machine takes commands of keys only, by its rules, and only for routes to the face they come by.
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    #[command(flatten)]
    pub store: Store,
}

#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    pub router: Router,
    /// Name to publish under; a version is added unless the name ends in one
    pub name: Name,
    /// File; standard input when absent or -
    pub file: Option<PathBuf>,
    /// Octets of content per segment
    #[arg(long, default_value_t = nw_app::publish::SEGMENT_LEN_DEFAULT, value_parser = segment_len, value_name = "OCTETS")]
    pub segment: usize,
    /// How long caches may call a segment fresh, milliseconds
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub freshness: u64,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub serving: Serving,
    /// Do not register the name: a route leads here already
    #[arg(long, conflicts_with_all = ["origin", "expose"])]
    pub no_register: bool,
    /// Print one JSON object when ready and one at the end
    #[arg(long)]
    pub json: bool,
    /// No progress on the terminal
    #[arg(long, short)]
    pub quiet: bool,
}

/// A number of bytes, with a suffix k, M, G or T (powers of 1024) or without.
fn bytes(text: &str) -> Result<u64, String> {
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
        _ => Err("a segment has 1 to 8192 octets of content".into()),
    }
}

#[derive(Debug, Args)]
pub struct Cat {
    #[command(flatten)]
    pub router: Router,
    /// Name to fetch; the newest version unless the name ends in one
    pub name: Name,
    /// Write to this file; it appears under this name once it is whole. - is standard output, also for binary content on a terminal
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The name's segments follow at once: do not look for versions
    #[arg(long)]
    pub no_version: bool,
    /// Most Interests on their way
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=8192), value_name = "N")]
    pub window: u16,
    /// InterestLifetime, milliseconds
    #[arg(long, default_value_t = 4000, value_name = "MS")]
    pub lifetime: u64,
    /// Give up when nothing new has come for so long, milliseconds; a missing route is waited for 4 s at most when nothing came yet
    #[arg(long, short, default_value_t = nw_app::fetch::PATIENCE_DEFAULT.as_millis() as u64, value_parser = clap::value_parser!(u64).range(1..), value_name = "MS")]
    pub timeout: u64,
    /// Also give up when a segment was sent so many times again; with 0 each is sent once and waited for, so that one lost packet is the end
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Refuse an object with more bytes of content; any size when not given
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub max_size: Option<u64>,
    #[command(flatten)]
    pub verifying: Verifying,
    /// End when the router goes away, instead of connecting again and going on
    #[arg(long)]
    pub no_reconnect: bool,
    /// Print a summary as JSON on standard error
    #[arg(long)]
    pub json: bool,
    /// No progress on the terminal
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Ping {
    #[command(flatten)]
    pub router: Router,
    /// Name of the ping server
    pub name: Name,
    /// How many; until Ctrl-C when absent
    #[arg(long, short, value_name = "N")]
    pub count: Option<u64>,
    /// Between two, milliseconds
    #[arg(long, short, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..), value_name = "MS")]
    pub interval: u64,
    /// How long to wait for an answer, milliseconds
    #[arg(long, short, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..), value_name = "MS")]
    pub timeout: u64,
    #[command(flatten)]
    pub verifying: Verifying,
    /// End when the router goes away, instead of connecting again and going on
    #[arg(long)]
    pub no_reconnect: bool,
    /// Print one JSON object per answer and one at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PingServer {
    #[command(flatten)]
    pub router: Router,
    /// Name to answer under
    pub name: Name,
    /// Octets of content in each answer
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=8000), value_name = "OCTETS")]
    pub size: u16,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub serving: Serving,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Peek {
    #[command(flatten)]
    pub router: Router,
    /// Name to ask for
    pub name: Name,
    /// A Data with a longer name may answer
    #[arg(long, short = 'P')]
    pub prefix: bool,
    /// A cached Data must be fresh
    #[arg(long, short)]
    pub fresh: bool,
    /// InterestLifetime, milliseconds
    #[arg(long, default_value_t = 4000, value_name = "MS")]
    pub lifetime: u64,
    /// Send again for so long, milliseconds; as long as one Interest lives when not given
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// HopLimit
    #[arg(long, value_name = "N")]
    pub hop_limit: Option<u8>,
    /// A name the Interest may be forwarded by
    #[arg(long, value_name = "NAME")]
    pub hint: Vec<Name>,
    /// ApplicationParameters: this text
    #[arg(long, value_name = "TEXT")]
    pub parameters: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t = PeekShow::Content)]
    pub show: PeekShow,
    /// Print the content also of what is no plain content: application Nacks, Links, keys, unknown types
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub verifying: Verifying,
    /// Print JSON: name, content type, freshness, signature, content in hexadecimal
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PeekShow {
    /// The content's octets
    Content,
    /// The packet's octets
    Packet,
    /// The packet as a tree
    Tree,
}

#[derive(Debug, Args)]
pub struct Poke {
    #[command(flatten)]
    pub router: Router,
    /// Name of the packet
    pub name: Name,
    /// Its content; standard input when absent
    pub content: Option<String>,
    /// FreshnessPeriod, milliseconds
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pub freshness: u64,
    /// This is the last of its series
    #[arg(long)]
    pub last: bool,
    /// Give up when nobody asked after so many milliseconds
    #[arg(long, value_name = "MS")]
    pub timeout: Option<u64>,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub serving: Serving,
}

#[derive(Debug, Subcommand)]
pub enum FaceVerb {
    /// List faces
    List {
        #[command(flatten)]
        reading: Reading,
        /// Only faces with this scheme, such as udp4
        #[arg(long, value_name = "SCHEME")]
        scheme: Option<String>,
        /// Only faces to this peer
        #[arg(long, visible_alias = "uri", value_name = "URI")]
        remote: Option<String>,
        /// Only faces with this end here, such as dev://eth0
        #[arg(long, value_name = "URI")]
        local: Option<String>,
    },
    /// List listeners
    Channels {
        #[command(flatten)]
        reading: Reading,
    },
    /// Show one face with its flags
    Show {
        /// Its id, or its peer
        #[arg(value_name = "ID|URI")]
        face: String,
        #[command(flatten)]
        reading: Reading,
    },
    /// Make a face to a peer; one that is there is changed to what the options say
    ///
    /// Persistency only rises this way; `nw face update` lowers it, too.
    Create {
        /// The peer: udp4://192.0.2.1:6363, tcp4://…, ws://…, ether://[08:00:27:01:02:03]
        uri: String,
        /// This end; for Ethernet and groups the interface, as in dev://eth0
        #[arg(long, value_name = "URI")]
        local: Option<String>,
        #[command(flatten)]
        options: FaceOptions,
        #[command(flatten)]
        order: Order,
    },
    /// Change a face
    Update {
        /// Its id, or its peer
        #[arg(value_name = "ID|URI")]
        face: String,
        #[command(flatten)]
        options: FaceOptions,
        #[command(flatten)]
        order: Order,
    },
    /// End a face
    Destroy {
        /// Its id, or its peer
        #[arg(value_name = "ID|URI")]
        face: String,
        #[command(flatten)]
        order: Order,
    },
    /// Show what happens to faces, as it happens
    Events {
        #[command(flatten)]
        reading: Reading,
    },
}

#[derive(Debug, Clone, Args)]
pub struct FaceOptions {
    /// persistent, permanent
    #[arg(long, value_enum)]
    pub persistency: Option<Persistency>,
    /// Largest link packet, octets (datagram faces)
    #[arg(long, value_name = "OCTETS")]
    pub mtu: Option<u64>,
    /// IncomingFaceId and NextHopFaceId
    #[arg(long, value_name = "BOOL")]
    pub local_fields: Option<bool>,
    /// Acknowledges link packets and sends lost ones again; the other end must, too
    #[arg(long, value_name = "BOOL")]
    pub reliability: Option<bool>,
    /// Marks when its queue is long
    #[arg(long, value_name = "BOOL")]
    pub congestion_marking: Option<bool>,
    /// Octets in its queue beyond which it is congested
    #[arg(long, value_name = "OCTETS")]
    pub congestion_threshold: Option<u64>,
    /// Base interval of congestion marks, milliseconds
    #[arg(long, value_name = "MS")]
    pub marking_interval: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Persistency {
    /// Ends when idle or when its socket fails
    OnDemand,
    /// Ends when its socket fails
    Persistent,
    /// Stays
    Permanent,
}

#[derive(Debug, Subcommand)]
pub enum RouteVerb {
    /// List routes (the RIB), or what forwarding uses (the FIB)
    List {
        /// The FIB: what routes amount to
        #[arg(long, conflicts_with_all = ["nexthop", "origin"])]
        fib: bool,
        /// Only routes to this face: its id, or its peer
        #[arg(long, value_name = "ID|URI")]
        nexthop: Option<String>,
        /// Only routes of this origin: app, static, …
        #[arg(long)]
        origin: Option<String>,
        #[command(flatten)]
        reading: Reading,
    },
    /// Show the routes that apply to a name: those of its longest prefix that has any
    Show {
        /// The name
        name: Name,
        #[command(flatten)]
        reading: Reading,
    },
    /// Add a route
    Add {
        /// Interests under this prefix
        prefix: Name,
        /// go to this peer (udp4://192.0.2.1) or face (its id); the face is made if it is not there
        next_hop: String,
        /// Lower is better
        #[arg(long, default_value_t = 0)]
        cost: u64,
        /// app, static, client, autoreg, autoconf, nlsr, or a number
        #[arg(long, default_value = "static")]
        origin: String,
        /// Do not apply to longer prefixes that have routes of their own
        #[arg(long)]
        no_inherit: bool,
        /// Longer prefixes do not inherit from shorter ones than this
        #[arg(long)]
        capture: bool,
        /// Ends by itself after so many milliseconds
        #[arg(long, value_name = "MS")]
        expires: Option<u64>,
        #[command(flatten)]
        order: Order,
    },
    /// Add many routes from a file, a hundred thousand a second
    ///
    /// One route a line: PREFIX FACE [COST] [origin=WORD] [expires=MS] [no-inherit] [capture]. FACE is a peer's URI or a face id. Empty lines and
    /// lines that begin with # are passed over. `nw route export` writes this form.
    Import {
        /// The file; - is standard input
        file: PathBuf,
        #[command(flatten)]
        order: Order,
    },
    /// Write all routes, in the form that `nw route import` reads
    Export {
        /// Only routes of this origin: app, static, …
        #[arg(long)]
        origin: Option<String>,
        #[command(flatten)]
        reading: Reading,
    },
    /// Remove a route
    Remove {
        /// Its prefix
        prefix: Name,
        /// Its peer or face id
        next_hop: String,
        /// app, static, …
        #[arg(long, default_value = "static")]
        origin: String,
        #[command(flatten)]
        order: Order,
    },
}

#[derive(Debug, Subcommand)]
pub enum StrategyVerb {
    /// List the strategies chosen
    List {
        #[command(flatten)]
        reading: Reading,
    },
    /// Show which strategy applies to a name, and the prefix it was chosen for
    Show {
        /// The name
        name: Name,
        #[command(flatten)]
        reading: Reading,
    },
    /// Choose the strategy of a prefix
    Set {
        /// The prefix
        prefix: Name,
        /// The strategy, with parameters or without, such as `asf` or `asf/v=5/probing-interval~30000`; or a whole name
        ///
        /// best-route, multicast: retx-suppression-initial, -max (ms), -multiplier. They hold for all but self-learning, random and access.
        /// asf: probing-interval, measurements-lifetime (ms), max-timeouts. self-learning, random, access: none.
        /// weighted: weights, as in weights~5-3-1, cheapest next hop first; without, by cost. hash: depth (components). round-robin.
        /// fail-over: max-timeouts, recovery-interval (ms).
        #[arg(verbatim_doc_comment, value_parser = StrategyName)]
        strategy: String,
        #[command(flatten)]
        order: Order,
    },
    /// Leave the choice to the shorter prefix
    Unset {
        /// The prefix
        prefix: Name,
        #[command(flatten)]
        order: Order,
    },
}

/// Names that completions and help offer; any other text is taken as well.
const STRATEGIES: [&str; 10] = [
    "best-route",
    "multicast",
    "asf",
    "self-learning",
    "random",
    "access",
    "weighted",
    "hash",
    "round-robin",
    "fail-over",
];

/// Offers the strategies there are, takes whatever the router may know.
#[derive(Clone, Copy, Debug)]
struct StrategyName;

impl clap::builder::TypedValueParser for StrategyName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = clap::builder::PossibleValue> + '_>> {
        Some(Box::new(STRATEGIES.iter().map(clap::builder::PossibleValue::new)))
    }
}

#[derive(Debug, Subcommand)]
pub enum CsVerb {
    /// Show size and hits
    Info {
        #[command(flatten)]
        reading: Reading,
    },
    /// Change what it does
    Config {
        /// Packets it may hold
        #[arg(long, value_name = "PACKETS")]
        capacity: Option<u64>,
        /// Keep new Data
        #[arg(long, value_name = "BOOL")]
        admit: Option<bool>,
        /// Answer Interests
        #[arg(long, value_name = "BOOL")]
        serve: Option<bool>,
        #[command(flatten)]
        order: Order,
    },
    /// Erase what is under a prefix
    Erase {
        /// The prefix
        prefix: Name,
        /// At most so many packets
        #[arg(long, value_name = "PACKETS")]
        count: Option<u64>,
        #[command(flatten)]
        order: Order,
    },
}

#[derive(Debug, Args)]
pub struct Dissect {
    /// File with packets, back to back; standard input when absent or -
    pub file: Option<PathBuf>,
    /// The input is text: hexadecimal digits, white space ignored
    #[arg(long, conflicts_with = "base64")]
    pub hex: bool,
    /// The input is text: base64, as certificates are passed on
    #[arg(long)]
    pub base64: bool,
    /// Print JSON lines: depth, offset, type, name, length, value
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Size of the file, MiB
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=4096), value_name = "MIB")]
    pub mib: u64,
}

#[derive(Debug, Args)]
pub struct Config {
    /// Check this file instead of printing the default
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Translate an nfd.conf: prints a file for this router, and names on standard error what can't be translated
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub from_nfd: Option<PathBuf>,
}
