//! What a service says of itself over its control socket.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/service`: the service as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatus {
    /// What it is called.
    pub name: String,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// Elements of an older graph still wait for answers.
    pub changing: bool,
    /// It takes no more Interests, and ends when nothing is awaited.
    pub draining: bool,
    /// Interests, Data and Nacks received.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent.
    pub sent: [u64; 3],
    /// Packets dropped before they had done their work.
    pub dropped: u64,
    /// Packets that ended as expected: answered from a content store, joined to a pending Interest.
    #[serde(default)]
    pub done: u64,
}

/// One of `GET /v1/links`: where packets come from and go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceLink {
    /// In the graph.
    pub name: String,
    /// Number of the face; null while it is not there, and tried again.
    pub id: Option<u64>,
    /// The peer.
    pub uri: String,
    /// The near end.
    pub local: String,
    /// Connected, or needs no connection.
    pub up: bool,
    /// Interests, Data and Nacks received.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent.
    pub sent: [u64; 3],
}

/// `GET /v1/statistics`: what passed, and what did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceStatistics {
    /// In the order of the graph.
    pub ports: Vec<ServicePort>,
    /// Reasons for which packets were dropped.
    pub drops: Vec<ServiceDrops>,
    /// Reasons for which packets ended as expected.
    #[serde(default)]
    pub done: Vec<ServiceDrops>,
}

/// What passed a port of an element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServicePort {
    /// The element in the graph.
    pub element: String,
    /// `in` or `out`.
    pub side: String,
    /// The port.
    pub port: String,
    /// So many.
    pub packets: u64,
}

/// Packets that ended for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceDrops {
    /// The reason.
    pub reason: String,
    /// So many.
    pub packets: u64,
}

/// Body of `PUT /v1/graph`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphChange {
    /// The text of a graph file.
    pub graph: String,
    /// What becomes of packets meanwhile.
    #[serde(default)]
    pub order: GraphOrder,
}

/// What becomes of packets while a graph changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphOrder {
    /// Old elements go at once, with what they remember.
    Drop,
    /// Interests are held until old elements wait for nothing.
    Buffer,
    /// New elements take all Interests; old ones stay for what they wait for.
    #[default]
    MakeBeforeBreak,
}

/// `GET /v1/graph`, and what becomes of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphText {
    /// The text of a graph file.
    pub graph: String,
}
