//! What REST says beside the management messages, which it shows as they are: same fields, same words as `--json`.

use crate::management::{CsInfo, FacePersistency, FaceStatus, ForwarderStatus, Route, ShardStatus};
use crate::schema::{FaceUriText, LogFilterText, NameText, OriginText, PrefixText, StrategyText};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where everything but `/metrics` and `/openapi.json` is.
pub const BASE: &str = "/v1";

/// `GET /v1/version`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// The program and its version, as `status/general` has it.
    #[schema(example = "namewire 0.1.0")]
    pub version: String,
    /// The version of this interface; it changes when something that was there changes or goes.
    #[schema(example = 1)]
    pub api: u32,
}

/// `GET /healthz` and `GET /readyz`: what a supervisor needs to know. Otherwise the answer is a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always true: the program works, or takes packets.
    pub ok: bool,
}

/// Why something was not done. The HTTP status is the same code where HTTP has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// As the management protocol has it: 4xx is the asker's fault, 5xx the router's.
    pub code: u64,
    /// What is wrong and what helps.
    pub text: String,
}

/// `POST /v1/faces`: a face that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FaceWanted {
    /// The far end, with an address: the client resolves host names.
    #[schema(value_type = FaceUriText)]
    pub uri: String,
    /// The near end, where it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<FaceUriText>)]
    pub local_uri: Option<String>,
    /// When it goes away; persistent when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistency: Option<PersistencyWanted>,
    /// Bytes of the largest link packet. More than 8800 counts as 8800.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 64)]
    pub mtu: Option<u64>,
}

/// When a face that is made by command goes away. Faces of peers that came by themselves are on-demand; none is made so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PersistencyWanted {
    /// When its socket fails, or by command.
    Persistent,
    /// Only by command; it reconnects.
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

/// `PUT /v1/routes`: a route that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteWanted {
    /// Interests for names under this.
    #[schema(value_type = PrefixText)]
    pub prefix: String,
    /// Go to this face.
    #[schema(minimum = 1)]
    pub face_id: u64,
    /// The cheapest route is used first.
    #[serde(default)]
    pub cost: u64,
    /// Its origin: a word (app, static, client, autoreg, autoconf, nlsr) or a number; static when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<OriginText>)]
    pub origin: Option<String>,
    /// Longer prefixes with routes of their own don't use it.
    #[serde(default)]
    pub no_inherit: bool,
    /// Routes of shorter prefixes are not used at this one and below.
    #[serde(default)]
    pub capture: bool,
    /// Ends by itself after so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// A route that was added or changed, as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteMade {
    /// Its prefix.
    #[schema(value_type = PrefixText)]
    pub name: String,
    /// Its face, cost, origin, flags and lifetime.
    #[serde(flatten)]
    pub route: Route,
}

/// `PUT /v1/strategies`: the strategy of a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyWanted {
    /// For names under this.
    #[schema(value_type = PrefixText)]
    pub prefix: String,
    /// best-route, multicast, …, or a whole name with parameters.
    #[schema(value_type = StrategyText)]
    pub strategy: String,
}

/// `PATCH /v1/cs`: what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CsChange {
    /// Packets it may hold, at most what it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// Keep new Data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admit: Option<bool>,
    /// Answer Interests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve: Option<bool>,
}

/// `POST /v1/cs/erase`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CsErase {
    /// Packets under this name.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// At most so many; all when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub count: Option<u64>,
}

/// How many packets were erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CsErased {
    /// So many.
    pub count: u64,
}

/// How the loop that forwards packets spends its time, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoopTime {
    /// Times it woke up.
    pub turns: u64,
    /// Turns that took more than a millisecond.
    pub slow_turns: u64,
    /// Nanoseconds between waking up and going to sleep, all turns together.
    pub busy_ns: u64,
    /// Nanoseconds of the longest turn.
    pub longest_ns: u64,
    /// Nanoseconds of processor time of the longest turn among those that began with management waiting: what the system gave to others meanwhile
    /// is in `longest_ns`, and not here.
    #[serde(default)]
    pub longest_management_cpu_ns: u64,
    /// Turns with management in them that took more than a millisecond of processor time.
    pub slow_management_turns: u64,
}

/// `GET /v1/status`: the router as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterStatus {
    /// As `status/general`.
    pub forwarder: ForwarderStatus,
    /// The content store.
    pub content_store: CsInfo,
    /// Octets of packets in the content store.
    pub content_store_bytes: u64,
    /// Number of faces, without the router's own.
    pub face_count: u64,
    /// Octets received by all faces there were.
    pub in_bytes: u64,
    /// Octets sent likewise.
    pub out_bytes: u64,
    /// Packets in the router's hands at this moment.
    pub packets_in_use: u64,
    /// The loop's time.
    pub loop_time: LoopTime,
    /// Each thread that forwards.
    #[serde(default)]
    pub shards: Vec<ShardStatus>,
    /// How often each shared pool was short since the start, zeros included.
    #[serde(default)]
    pub shortages: Vec<PoolShortage>,
}

/// How often a pool that several peers share was short: something was refused, or replaced something else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolShortage {
    /// The pool.
    #[schema(example = "pending_interests")]
    pub pool: String,
    /// Shortages since the start.
    pub count: u64,
}

/// Traffic of one prefix since the router began to count it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrefixTraffic {
    /// The prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Interests received, about.
    pub interests: u64,
    /// Data received, about.
    pub data: u64,
    /// Octets received, about.
    pub bytes: u64,
    /// Packets of these that may have been others': it took the place of another prefix that was counted so far.
    pub error: u64,
}

/// `GET /v1/top`: the prefixes with most traffic. Asking switches the counting on, for ten seconds each time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopPrefixes {
    /// Milliseconds since counting began; 0 when this request began it.
    pub counting_ms: u64,
    /// Components of a name that make its prefix.
    pub components: u32,
    /// Packets seen since counting began.
    pub packets: u64,
    /// Busiest first.
    pub prefixes: Vec<PrefixTraffic>,
}

/// `GET` and `PUT /v1/log`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogLevels {
    /// A level for all (`info`), and levels of parts behind commas: `info,router=debug`.
    #[schema(value_type = LogFilterText)]
    pub filter: String,
}

/// What `nw top` looks at each time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Look {
    /// The router as a whole.
    pub status: RouterStatus,
    /// Its faces.
    pub faces: Vec<FaceStatus>,
    /// Packets it dropped, by reason.
    pub drops: Vec<crate::management::DropCount>,
    /// Packets that ended as expected, by reason: answered from the content store, joined to a pending Interest.
    #[serde(default)]
    pub done: Vec<crate::management::DropCount>,
    /// Its busiest prefixes; absent where the router does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<TopPrefixes>,
}
