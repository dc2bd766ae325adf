//! Options of `nw pub`, `nw sub` and `nw pubsub`.

use crate::args::flags::{RouterArgs, ServeArgs, SigningArgs, VerifyArgs};
use crate::sync::MemberArgs;
use clap::{Args, Subcommand};
use nw_api::pubsub::{
    DomainName, ForwardingPath, ItemName, PublisherChoice, ScopePattern, Strategy,
};
use nw_name::Name;
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

fn strategy(text: &str) -> Result<Strategy, String> {
    text.parse().map_err(|_| "give node, link, broadcast, domain or implicit".into())
}

fn choice(text: &str) -> Result<PublisherChoice, String> {
    text.parse().map_err(|_| "give all, nearest or strongest".into())
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
    /// Drop what slow subscribers leave no space for, instead of waiting for them
    #[arg(long, conflicts_with = "overwrite")]
    pub drop_newest: bool,
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
    /// Which nodes publications reach: this node, those on its links, or all of the domain
    ///
    /// `broadcast` sends to each node on the links, also without subscribers; `implicit` to those
    /// of --like or --path. Default: the strategy of the item's scope, or else domain.
    #[arg(long, value_name = "STRATEGY", value_parser = strategy)]
    pub strategy: Option<Strategy>,
    /// Which publishers of the item serve a subscriber, of several: all, nearest or strongest
    ///
    /// It is a property of the item: other publishers of it take the same. Publications of one that
    /// stands by are not delivered. Default: as other publishers of the item, or else all.
    #[arg(long, value_name = "CHOICE", value_parser = choice)]
    pub choice: Option<PublisherChoice>,
    /// Strength of this publisher, for the strongest to serve; implies --choice strongest
    #[arg(long, value_name = "N")]
    pub strength: Option<u32>,
    /// Publish the item under this further scope, too; may be repeated
    #[arg(long, value_name = "SCOPE")]
    pub under: Vec<ItemName>,
    /// Send to the nodes that subscribe to this name; implies --strategy implicit
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "strategy"])]
    pub like: Option<ItemName>,
    /// Send along this forwarding identifier, as `nw pubsub trace` shows it; implies --strategy
    /// implicit
    #[arg(long, value_name = "HEX", conflicts_with = "strategy")]
    pub path: Option<ForwardingPath>,
    /// Publish under the name that is derived from the given one and this number
    #[arg(long, value_name = "N")]
    pub derived: Option<u64>,
    #[command(flatten)]
    pub signing: SigningArgs,
    /// Sign this many publications by one signature, and publish them together
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub batch: u16,
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
    /// Print the last N publications of each item first, as far as its publisher's ring has them
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "no_last")]
    pub history: u32,
    /// Receive what reaches this node anyhow; other nodes are not told
    #[arg(long)]
    pub here: bool,
    /// Subscribe to the names that are derived from the given ones and this number
    #[arg(long, value_name = "N")]
    pub derived: Option<u64>,
    /// Accept only publications signed by the key in this file; may be repeated
    ///
    /// The file has a certificate or a public key: binary, base64 or PEM. hmac:FILE is a shared
    /// secret.
    #[arg(long, value_name = "FILE")]
    pub signed_by: Vec<String>,
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

#[derive(Debug, Args)]
pub struct GatewayArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Prefix of the Data, such as /example/ps
    pub prefix: Name,
    /// Also subscribe to these from the start, so that earlier publications are kept
    pub patterns: Vec<ScopePattern>,
    /// FreshnessPeriod of Data, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub freshness: u64,
    /// How long a subscription stays after the last Interest, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(100..=86_400_000))]
    pub lease: u64,
    /// Publications of an item that are kept at most
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub keep: u32,
    #[command(flatten)]
    pub signing: SigningArgs,
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Print one JSON object when ready and one at the end
    #[arg(long)]
    pub json: bool,
    /// Print nothing
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct GroupArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Name of the scope, such as /chat/room1
    pub scope: ItemName,
    #[command(flatten)]
    pub member: MemberArgs,
    /// Of what each member published before, publish the last N
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub history: u64,
    /// Items that are passed to the group at most, and members whose publications are passed on
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub members: usize,
    /// Publications per second that are passed to the group at most; further ones wait
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Print one JSON object per change of role and one at the end
    #[arg(long)]
    pub json: bool,
    /// Print nothing
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct BorderArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Name of the domain of this node: letters, digits, dots and hyphens
    pub inside: DomainName,
    /// Name of the other domain
    pub outside: DomainName,
    /// Publish/subscribe socket of a node of the other domain
    #[arg(long, value_name = "PATH")]
    pub outside_socket: PathBuf,
    /// Names or patterns that may leave the domain; may be repeated
    #[arg(long, value_name = "PATTERN", required_unless_present = "import")]
    pub export: Vec<ScopePattern>,
    /// Names or patterns that may come in; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub import: Vec<ScopePattern>,
    /// Begin with the last N publications of each item, as far as its publisher's ring has them
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub history: u32,
    /// Items that cross at most, in each direction
    #[arg(long, value_name = "N", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub items: u32,
    /// Patterns to subscribe to below a pattern of the policy; with more, that itself is
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub patterns: u32,
    /// Size of the ring to each side, and of what may wait for it, KiB
    #[arg(long, value_name = "KIB", default_value_t = 8192,
          value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub ring: u32,
    /// Print one JSON object per change of role and one at the end
    #[arg(long)]
    pub json: bool,
    /// Print nothing
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct AnswerArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// Names of the questions
    pub pattern: ScopePattern,
    /// The answer to all of them
    #[arg(required_unless_present_any = ["exec", "fetch"])]
    pub payload: Option<String>,
    /// Run this program for each question; its output is the answer
    #[arg(long, value_name = "PROGRAM", conflicts_with = "payload")]
    pub exec: Option<PathBuf>,
    /// Send an Interest for each question: this prefix, and the name of the question
    ///
    /// The content of the Data is the answer. A question that is not empty is the Interest's
    /// parameters.
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["payload", "exec"])]
    pub fetch: Option<Name>,
    /// Time for a Data, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 4000, requires = "fetch")]
    pub lifetime: u64,
    /// End after this many questions; default: until Ctrl-C
    #[arg(long, short = 'n', value_name = "N")]
    pub count: Option<u64>,
    #[command(flatten)]
    pub verify: VerifyArgs,
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
    /// Show publishers and subscribers that are here, then those that come and go
    Events {
        #[command(flatten)]
        node: NodeArgs,
        /// Names or patterns; default: all
        #[arg(default_value = "/**")]
        patterns: Vec<ScopePattern>,
        /// End after this many events; default: until Ctrl-C
        #[arg(long, short = 'n', value_name = "N")]
        count: Option<u64>,
        /// End after this many milliseconds without an event
        #[arg(long, value_name = "MS")]
        timeout: Option<u64>,
        /// Print one JSON object per event
        #[arg(long)]
        json: bool,
    },
    /// Publish a scope until Ctrl-C: give it a strategy, and further parents
    Scope {
        #[command(flatten)]
        node: NodeArgs,
        /// Name of the scope, such as /sensors/room1
        name: ItemName,
        /// Which nodes publications below it reach: node, link, broadcast, domain or implicit
        ///
        /// Default: the strategy of the scope above.
        #[arg(long, value_name = "STRATEGY", value_parser = strategy)]
        strategy: Option<Strategy>,
        /// Publish it under this further scope; may be repeated
        #[arg(long, value_name = "SCOPE")]
        under: Vec<ItemName>,
        /// End after this many milliseconds; default: at Ctrl-C
        #[arg(long, value_name = "MS")]
        timeout: Option<u64>,
    },
    /// Publish a question and print the first answer
    Ask {
        #[command(flatten)]
        node: NodeArgs,
        /// Name that the question is published under
        name: ItemName,
        /// The question
        #[arg(default_value = "")]
        payload: String,
        /// Give up after this many milliseconds
        #[arg(long, value_name = "MS", default_value_t = 10_000)]
        timeout: u64,
    },
    /// Answer questions: with a text, the output of a program, or Data from an NDN producer
    Answer(AnswerArgs),
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
    /// Answer Interests below a prefix with publications, as signed Data
    ///
    /// /PREFIX/ITEM with CanBePrefix is the last publication of the item, /PREFIX/ITEM/seq=N is
    /// publication N. The router's content store serves late and repeated readers.
    Gateway(GatewayArgs),
    /// Connect a scope to a sync group of NDN: publications of each go to the other
    ///
    /// The item /SCOPE/ITEM is the member /NAME/ITEM of the group. What the member /OTHER publishes
    /// is the item /SCOPE/@group/OTHER. Of several such programs in a domain the oldest is active.
    Group(Box<GroupArgs>),
    /// Connect two domains: publications cross as far as the policy permits, and when wanted
    ///
    /// Needs a node of each domain on this machine. Names, numbers, order and told losses are
    /// kept. Each domain has one name, the same at all its borders. Of several such programs
    /// between two domains the oldest is active.
    Border(Box<BorderArgs>),
}
