//! The status of publish/subscribe, as `nw pubsub status --json` and REST show it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// State of a node's publish/subscribe service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PubSubStatus {
    /// Identifier of this node, 16 hexadecimal digits.
    pub node: String,
    /// Connected applications.
    pub applications: Vec<ApplicationStatus>,
    /// Announced items.
    pub items: Vec<ItemStatus>,
    /// Items that are not listed, because there are too many.
    pub items_omitted: u64,
    /// Last values of publishers that have ended.
    pub last_values: u64,
    /// Bytes of those.
    pub last_values_bytes: u64,
    /// Applications that were disconnected because of invalid messages or rings.
    pub faults: u64,
    /// Requests that a rule or a limit refused.
    pub refusals: u64,
    /// Nodes of the domain. Empty if this node is alone.
    pub nodes: Vec<NodeStatus>,
    /// Counters of the domain.
    pub domain: DomainCounters,
}

/// A connected application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApplicationStatus {
    /// Number of the connection.
    pub session: u64,
    /// Name of the program, in its own words.
    pub program: String,
    /// Process id; 0 if it is in another namespace.
    pub pid: u32,
    /// User id.
    pub uid: u32,
    /// Whether publications reach it by shared memory.
    pub shared_memory: bool,
    /// Number of its items.
    pub items: u64,
    /// Its patterns.
    pub subscriptions: Vec<String>,
    /// Publications delivered to it.
    pub delivered: u64,
    /// Publications lost because it did not take them in time.
    pub lost: u64,
}

/// An announced item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemStatus {
    /// Name of the item.
    pub name: String,
    /// Connection of its publisher; 0 if that is another node.
    pub session: u64,
    /// Node of its publisher; empty for this node.
    pub node: String,
    /// Publications since it was announced, or since this node follows it.
    pub published: u64,
    /// Subscribers among the applications of this node.
    pub subscribers: u64,
    /// Subscribed other nodes.
    pub nodes: u64,
}

/// Another node of the domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Identifier of the node.
    pub node: String,
    /// Links to it; 0 if it is not a neighbour, or unreachable.
    pub hops: u64,
    /// Address and interface, for neighbours.
    pub address: String,
    /// Its patterns.
    pub subscriptions: Vec<String>,
    /// Identifiers of its neighbours.
    pub neighbours: Vec<String>,
}

/// Packets of the domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainCounters {
    /// Packets with publications sent, one per link.
    pub sent: u64,
    /// Packets with publications received.
    pub received: u64,
    /// Packets forwarded for other nodes, one per link.
    pub forwarded: u64,
    /// Publications delivered to applications of this node.
    pub delivered: u64,
    /// Publications known to be lost on the way to this node.
    pub lost: u64,
    /// Packets that were received before, or are too old.
    pub duplicates: u64,
    /// Packets dropped because no application of this node wants them.
    pub unwanted: u64,
    /// Packets dropped at the hop limit.
    pub hop_limit: u64,
    /// Packets dropped because too many bits of the forwarding identifier are set.
    pub fill_limit: u64,
    /// Invalid packets.
    pub invalid: u64,
    /// Packets that the system did not take.
    pub send_errors: u64,
}

/// How publications reach an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// It reads the publisher's ring.
    Ring,
    /// The node reads the ring and sends messages.
    Messages,
}

/// What becomes of publications under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NameTrace {
    /// The name.
    pub name: String,
    /// Number of the rule for the name in the configuration, from 1.
    pub rule: Option<u64>,
    /// Its publishers.
    pub publishers: Vec<PublisherTrace>,
    /// Connections with a subscription that matches.
    pub matching: Vec<u64>,
    /// Those of them that the rule refuses.
    pub refused: Vec<u64>,
}

/// A publisher of a traced name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublisherTrace {
    /// The item.
    pub item: ItemStatus,
    /// Subscribed applications of this node.
    pub subscribers: Vec<SubscriberTrace>,
    /// Links of the tree to subscribed nodes, as `from to`.
    pub links: Vec<String>,
}

/// A subscriber of a traced name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubscriberTrace {
    /// Number of the connection.
    pub session: u64,
    /// Name of the program.
    pub program: String,
    /// How publications reach it.
    pub delivery: Delivery,
}
