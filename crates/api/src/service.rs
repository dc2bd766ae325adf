//! Messages of a service's control socket, as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/service`: the service as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// Name of the service.
    pub name: String,
    /// Seconds since its start.
    pub uptime_s: f64,
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
