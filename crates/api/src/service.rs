//! Messages of a service's control socket, as JSON.

use crate::schema::NameText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// `GET /v1/service`: the service as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// Name of the service.
    pub name: String,
    /// Program and version.
    #[serde(default)]
    #[schema(example = "namewire 0.1.0")]
    pub version: String,
    /// Process id.
    #[serde(default)]
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// Processor time spent in user mode since its start, seconds, of all threads.
    #[serde(default)]
    pub cpu_user_s: f64,
    /// Processor time spent in the kernel since its start, seconds, of all threads.
    #[serde(default)]
    pub cpu_system_s: f64,
    /// Resident memory, bytes.
    #[serde(default)]
    pub resident_bytes: u64,
    /// Whether elements of the previous graph still have pending Interests.
    pub changing: bool,
    /// Whether it accepts no more Interests, and ends when none is pending.
    pub draining: bool,
    /// Interests, Data and Nacks received.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent.
    pub sent: [u64; 3],
    /// Dropped packets.
    pub dropped: u64,
    /// Packets that ended as expected: answered from a content store, or aggregated.
    #[serde(default)]
    pub done: u64,
    /// Number of graphs that have run, from 1: `GET /v1/graph` differs only if this does.
    #[serde(default)]
    pub graphs: u64,
    /// Number of the last event of `GET /v1/events`; 0 before the first one.
    #[serde(default)]
    pub last_event: u64,
}

impl ServiceStatus {
    /// Returns whether no packet has passed, no event has happened and no graph was changed since
    /// an earlier status: links and elements are as they were then, but for what ends with time.
    pub fn is_as_before(&self, earlier: &ServiceStatus) -> bool {
        let facts = |status: &ServiceStatus| {
            (
                (status.pid, status.graphs, status.last_event),
                (status.changing, status.draining),
                (status.received, status.sent, status.dropped, status.done),
            )
        };
        // A service of an earlier version does not count its graphs.
        self.graphs != 0 && self.uptime_s >= earlier.uptime_s && facts(self) == facts(earlier)
    }
}

/// `GET /v1/links`: one connection of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceLink {
    /// Name in the graph.
    pub name: String,
    /// Face id; null while it is not connected and retried.
    pub id: Option<u64>,
    /// Remote URI.
    pub uri: String,
    /// Local URI.
    pub local: String,
    /// Whether it is connected, or needs no connection.
    pub up: bool,
    /// Whether the face belongs to the previous graph, and is closed when nothing is pending by it.
    #[serde(default)]
    pub closing: bool,
    /// Interests, Data and Nacks received.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent.
    pub sent: [u64; 3],
}

/// `GET /v1/statistics`: packet counters of ports, and drops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatistics {
    /// Ports, in the order of the graph.
    pub ports: Vec<ServicePort>,
    /// Dropped packets by reason.
    pub drops: Vec<ServiceDrops>,
    /// Packets that ended as expected, by reason.
    #[serde(default)]
    pub done: Vec<ServiceDrops>,
}

/// Packets on a port of an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServicePort {
    /// Name of the element in the graph.
    pub element: String,
    /// Direction: `in` or `out`.
    pub side: String,
    /// Name of the port.
    pub port: String,
    /// Number of packets.
    pub packets: u64,
}

/// Packets that ended for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceDrops {
    /// Name of the reason.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

/// `PUT /v1/graph`: a new graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphChange {
    /// The text of a graph file.
    pub graph: String,
    /// How packets are handled during the change.
    #[serde(default)]
    pub order: GraphOrder,
}

/// How packets are handled while a graph changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphOrder {
    /// Old elements are removed immediately, with their state.
    Drop,
    /// Interests are held until old elements have nothing pending.
    Buffer,
    /// New elements receive all Interests; old ones stay until nothing is pending.
    #[default]
    MakeBeforeBreak,
}

/// `GET /v1/graph`, and the response to a change: the current graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphText {
    /// The text of a graph file.
    pub graph: String,
}

/// `GET /v1/elements` and `GET /v1/elements/{name}`: one element of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceElement {
    /// Name in the graph.
    pub name: String,
    /// Name of the element in the catalogue, such as `content_store`.
    pub element: String,
    /// Whether nothing is pending: the element can be removed without loss.
    pub idle: bool,
    /// Numbers of the element by name, such as `pending`, `packets`, `bytes`, `hits`, `misses`.
    pub values: BTreeMap<String, u64>,
    /// The last packets that failed verification, oldest first.
    #[serde(default)]
    pub failures: Vec<VerificationFailure>,
    /// Names of certificates, or of their keys, that are needed and were not seen.
    #[serde(default)]
    pub wanted_certificates: Vec<String>,
}

/// A packet, or a command, that failed verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerificationFailure {
    /// Name of the packet.
    pub name: String,
    /// The reason.
    pub reason: String,
    /// Id of the face by which it came.
    pub face: u64,
    /// Name of that face in the graph; null if it ended.
    pub link: Option<String>,
    /// Milliseconds since it came.
    pub age_ms: u64,
    /// Whether another packet of this name was valid.
    #[serde(default)]
    pub contested: bool,
}

/// `POST /v1/elements/{name}/erase`: cached packets to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PrefixErasure {
    /// Packets whose names start with this prefix are removed.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Maximum number of packets; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub packets_max: Option<u64>,
}

/// The result of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErasedPackets {
    /// Number of packets removed.
    pub erased: u64,
}

/// `GET /v1/elements/{name}/packets`: a slice of a content store, newest packets first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CachedPackets {
    /// The packets.
    pub packets: Vec<CachedPacket>,
    /// Value of `after` for the next slice; null after the last one.
    pub next: Option<u64>,
}

/// `POST /v1/elements/{name}/packets`: packets to store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketImport {
    /// The packets, newest first.
    pub packets: Vec<CachedPacket>,
}

/// A packet of a content store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CachedPacket {
    /// The encoded Data, in base64.
    pub data: String,
    /// Milliseconds that it stays fresh; 0 if it is stale.
    #[serde(default)]
    pub fresh_ms: u64,
}

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportedPackets {
    /// Packets stored.
    pub stored: u64,
    /// Packets that were stored already.
    pub known: u64,
    /// Packets refused: no Data, or not admitted.
    pub rejected: u64,
    /// Packets not stored because the store is full. An import evicts nothing.
    pub full: u64,
}

/// `GET /v1/elements/{name}/routes`: the routes of a name router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementRoutes {
    /// Version of the routes with origin `control`; 0 before the first change.
    pub version: u64,
    /// Routes, sorted by prefix; those of one prefix by origin.
    pub routes: Vec<ElementRoute>,
}

/// A route of a name router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementRoute {
    /// The prefix.
    pub prefix: String,
    /// What set the route.
    pub origin: ElementRouteOrigin,
    /// Name of the face in the graph; for a listener, `face` tells its faces apart.
    pub link: String,
    /// Id of the face; null while it is not connected.
    pub face: Option<u64>,
    /// Cost.
    pub cost: u32,
    /// Milliseconds until a registered route ends; null if it does not end by itself.
    #[serde(default)]
    pub expires_ms: Option<u64>,
    /// Key locator of the command that registered the route; null if it named no key.
    #[serde(default)]
    pub registered_by: Option<String>,
}

/// What set a route of a name router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ElementRouteOrigin {
    /// The parameter `routes` of the graph.
    Graph,
    /// The control socket.
    Control,
    /// A `rib/register` command by the face itself: the route ends with the face.
    Registration,
}

/// `PUT /v1/elements/{name}/routes`: all routes with origin `control`, in place of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteSet {
    /// Version of this set, at least that of the last change; a lower one is refused with 409.
    #[schema(minimum = 1)]
    pub version: u64,
    /// The routes.
    pub routes: Vec<ControlRoute>,
}

/// `POST /v1/elements/{name}/routes`: changes of single routes with origin `control`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteChange {
    /// Version after this change, at least that of the last one; a lower one is refused with 409.
    #[schema(minimum = 1)]
    pub version: u64,
    /// Routes to add. One with the same prefix and link gets the new cost.
    #[serde(default)]
    pub add: Vec<ControlRoute>,
    /// Routes to remove; the cost has no effect. Missing ones are not an error.
    #[serde(default)]
    pub remove: Vec<ControlRoute>,
}

/// A route with origin `control`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlRoute {
    /// The prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Name of a face in the graph.
    pub link: String,
    /// Cost; the cheapest route is used.
    #[serde(default)]
    pub cost: u32,
}

/// `GET /v1/events`: one event, as `data` of a Server-Sent Event. Its `id` is `START-NUMBER`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceEvent {
    /// Start of the service, milliseconds since 1970: numbers begin again with each start.
    pub start_ms: u64,
    /// Number of the event, from 1, without gaps.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What happened; also the `event` field of the Server-Sent Event.
    pub kind: ServiceEventKind,
    /// Element concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<String>,
    /// Name in the graph of the face concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Prefix or packet name concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Reason or number, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceEventKind {
    /// Earlier events are no longer kept; `detail` is their number if it is known.
    Missed,
    /// The graph was replaced; old elements and faces may still wait for replies.
    GraphChanged,
    /// A change is complete: the old elements and faces are gone.
    ChangeCompleted,
    /// The service accepts no more Interests.
    Draining,
    /// A face to a peer connected; consumers of a listener are not reported.
    LinkUp,
    /// A face to a peer lost its connection.
    LinkDown,
    /// A packet or command failed verification; `detail` is the reason.
    VerificationFailed,
    /// A certificate is needed that was not seen.
    CertificateWanted,
    /// A face registered a prefix.
    RouteRegistered,
    /// A registered route ended.
    RouteUnregistered,
    /// Routes were changed over the control socket; `detail` is their version.
    RoutesChanged,
}
