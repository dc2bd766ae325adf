//! Messages of the REST interface. Management messages are used unchanged, with the same fields and
//! words as in `--json`; this module has the others.

use crate::management::{CsInfo, FacePersistency, FaceStatus, ForwarderStatus, Route, ShardStatus};
use crate::schema::{FaceUriText, LogFilterText, NameText, OriginText, PrefixText, StrategyText};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/version`: the versions of program and interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// Program and version, as in `status/general`.
    #[schema(example = "namewire 0.1.0")]
    pub version: String,
    /// Version of this interface. It changes with incompatible changes.
    #[schema(example = 1)]
    pub api: u32,
}

/// `GET /healthz` and `GET /readyz`: health for a supervisor. An unhealthy router answers with an
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always true.
    pub ok: bool,
}

/// An error. The HTTP status is the same code if HTTP defines it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Code of the management protocol: 4xx is an error of the client, 5xx of the router.
    pub code: u64,
    /// The problem and its remedy, as a sentence.
    pub text: String,
}

/// `POST /v1/faces`: a face to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FaceWanted {
    /// Remote URI with an address; clients resolve host names.
    #[schema(value_type = FaceUriText)]
    pub uri: String,
    /// Local URI, if needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<FaceUriText>)]
    pub local_uri: Option<String>,
    /// Persistency. Default: persistent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistency: Option<PersistencyWanted>,
    /// MTU: largest link packet, bytes. Values above 8800 count as 8800.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 64)]
    pub mtu: Option<u64>,
}

/// The persistency of a face created by a command. On-demand faces can't be created by commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PersistencyWanted {
    /// Closed when its socket fails, or by a command.
    Persistent,
    /// Closed only by a command; reconnects.
    Permanent,
}

impl From<PersistencyWanted> for FacePersistency {
    fn from(wanted: PersistencyWanted) -> Self {
        match wanted {
            PersistencyWanted::Persistent => FacePersistency::Persistent,
            PersistencyWanted::Permanent => FacePersistency::Permanent,
        }
    }
}

/// `PUT /v1/routes`: a route to add or change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteWanted {
    /// Name prefix.
    #[schema(value_type = PrefixText)]
    pub prefix: String,
    /// Face of the next hop.
    #[schema(minimum = 1)]
    pub face_id: u64,
    /// Cost; lower is better.
    #[serde(default)]
    pub cost: u64,
    /// Origin: a word (app, static, client, autoreg, autoconf, nlsr) or a number. Default: static.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OriginText>)]
    pub origin: Option<String>,
    /// Longer prefixes with routes of their own do not use this route.
    #[serde(default)]
    pub no_inherit: bool,
    /// This and longer prefixes do not use routes of shorter prefixes.
    #[serde(default)]
    pub capture: bool,
    /// Lifetime, milliseconds. Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// A route after it was added or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteMade {
    /// Name prefix.
    #[schema(value_type = PrefixText)]
    pub name: String,
    /// Face, cost, origin, flags and lifetime.
    #[serde(flatten)]
    pub route: Route,
}

/// `PUT /v1/strategies`: the strategy of a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyWanted {
    /// Name prefix.
    #[schema(value_type = PrefixText)]
    pub prefix: String,
    /// Short name (best-route, multicast, …), or full name with parameters.
    #[schema(value_type = StrategyText)]
    pub strategy: String,
}

/// `PATCH /v1/cs`: changes of the content store. Absent fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CsChange {
    /// Capacity, packets; at most the capacity at start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// Cache new Data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admit: Option<bool>,
    /// Answer Interests from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve: Option<bool>,
}

/// `POST /v1/cs/erase`: Data to erase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CsErase {
    /// Name prefix of the Data.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Maximum number of packets. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub count: Option<u64>,
}

/// The result of an erase command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CsErased {
    /// Number of erased packets.
    pub count: u64,
}

/// Statistics of the event loop since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventLoopStats {
    /// Number of iterations.
    pub turns: u64,
    /// Iterations that took more than a millisecond.
    pub slow_turns: u64,
    /// Busy time of all iterations, nanoseconds.
    pub busy_ns: u64,
    /// Duration of the longest iteration, nanoseconds.
    pub longest_ns: u64,
    /// CPU time of the longest iteration among those with pending management work, nanoseconds.
    /// Unlike `longest_ns` it excludes time in which other processes ran.
    #[serde(default)]
    pub longest_management_cpu_ns: u64,
    /// Iterations with management work that took more than a millisecond of CPU time.
    pub slow_management_turns: u64,
}

/// `GET /v1/status`: the router as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterStatus {
    /// The record of `status/general`.
    pub forwarder: ForwarderStatus,
    /// State of the content store.
    pub content_store: CsInfo,
    /// Bytes of packets in the content store.
    pub content_store_bytes: u64,
    /// Number of faces, without internal ones.
    pub face_count: u64,
    /// Bytes received on all faces, closed ones included.
    pub in_bytes: u64,
    /// Bytes sent on all faces, closed ones included.
    pub out_bytes: u64,
    /// Packets that were received, and neither sent nor dropped yet.
    pub packets_in_use: u64,
    /// Statistics of the event loop.
    pub loop_time: EventLoopStats,
    /// Statistics of each forwarding thread.
    #[serde(default)]
    pub shards: Vec<ShardStatus>,
    /// How often each shared pool was exhausted since start, including zeros.
    #[serde(default)]
    pub shortages: Vec<PoolShortage>,
}

/// How often a shared pool was exhausted: a request was refused, or something was evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolShortage {
    /// Name of the pool.
    #[schema(example = "pending_interests")]
    pub pool: String,
    /// Number of times since start.
    pub count: u64,
}

/// Traffic of a prefix since the router counts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrefixTraffic {
    /// The prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Interests received, estimated.
    pub interests: u64,
    /// Data received, estimated.
    pub data: u64,
    /// Bytes received, estimated.
    pub bytes: u64,
    /// Maximum error of the estimate, packets: the count of the prefix that it replaced.
    pub error: u64,
}

/// `GET /v1/top`: the prefixes with most traffic. Each request enables counting for ten seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopPrefixes {
    /// Milliseconds since counting began; 0 if this request enabled it.
    pub counting_ms: u64,
    /// Number of name components of a prefix.
    pub components: u32,
    /// Packets counted so far.
    pub packets: u64,
    /// Prefixes, busiest first.
    pub prefixes: Vec<PrefixTraffic>,
}

/// `GET` and `PUT /v1/log`: the log levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogLevels {
    /// A level, and levels for parts of the program, separated by commas: `info,router=debug`.
    #[schema(value_type = LogFilterText)]
    pub filter: String,
}

/// `GET /v1/look`: a snapshot of all counters for `nw top`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Look {
    /// The router as a whole.
    pub status: RouterStatus,
    /// All faces.
    pub faces: Vec<FaceStatus>,
    /// Dropped packets by reason.
    pub drops: Vec<crate::management::DropCount>,
    /// Packets that ended as expected, by reason: answered from the content store, or aggregated.
    #[serde(default)]
    pub done: Vec<crate::management::DropCount>,
    /// Busiest prefixes; absent if the router does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<TopPrefixes>,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// Number of the line since the start of the program, from 1.
    pub seq: u64,
    /// Time, milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// Level: error, warn, info, debug or trace.
    #[schema(example = "info")]
    pub level: String,
    /// Part of the program.
    #[schema(example = "router")]
    pub part: String,
    /// Message and fields, at most 1,000 characters.
    pub text: String,
}

/// An event of `GET /v1/events`: the whole state, or what has changed since the previous event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterChange {
    /// Time, milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// True for the first event of a stream: what is absent does not exist.
    pub is_snapshot: bool,
    /// The router as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RouterStatus>,
    /// New and changed faces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faces: Vec<FaceStatus>,
    /// Ids of the faces that no longer exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_faces: Vec<u64>,
    /// All reasons of dropped packets, if a count has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<Vec<crate::management::DropCount>>,
    /// All reasons of packets that ended as expected, if a count has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<crate::management::DropCount>>,
    /// All routes, if one has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<Vec<crate::management::RibEntry>>,
    /// All strategy choices, if one has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategies: Option<Vec<crate::management::StrategyChoice>>,
    /// The busiest prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<TopPrefixes>,
    /// New lines of the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// The router has more faces, routes or strategies than an event lists (1,000 of each).
    pub is_truncated: bool,
}

/// `GET /v1/page`: the program behind a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageInfo {
    /// Kind of program: router, network or balancer. The page chooses its view by it.
    #[schema(example = "router")]
    pub program: String,
    /// Program and version.
    pub version: String,
    /// Host name of the machine.
    pub host: String,
}

/// `POST /v1/page/tickets`: a URL that opens the page once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageTicket {
    /// The URL; its fragment is the ticket.
    #[schema(example = "http://127.0.0.1:6390/#ticket=0123456789abcdef")]
    pub url: String,
    /// Time in which the ticket must be used, seconds.
    pub expires_s: u64,
}

/// `POST /v1/session` of a page: a login with one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionWanted {
    /// A ticket of `nw open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// The secret in `page.token_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A session of a page. The response also sets its cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionMade {
    /// Value of the header `X-NW-CSRF`, which every request of the session needs.
    pub csrf: String,
    /// Time without a request after which the session ends, seconds.
    pub idle_s: u64,
}
