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
    /// Scopes that are published, and scopes and items with further parents.
    #[serde(default)]
    pub scopes: Vec<ScopeStatus>,
    /// Items that are not listed, because there are too many.
    pub items_omitted: u64,
    /// Items with last values of publishers that have ended, of this node and of others.
    pub last_values: u64,
    /// Bytes of those.
    pub last_values_bytes: u64,
    /// Items whose last values were dropped at the limit `pubsub.last_values_mib`.
    #[serde(default)]
    pub last_values_dropped: u64,
    /// Applications that were disconnected because of invalid messages or rings.
    pub faults: u64,
    /// Requests that a rule or a limit refused.
    pub refusals: u64,
    /// Publications refused because a rule wants a signature that they do not have.
    #[serde(default)]
    pub refused_signatures: u64,
    /// Nodes of the domain. Empty if this node is alone.
    pub nodes: Vec<NodeStatus>,
    /// Counters of the domain.
    pub domain: DomainCounters,
    /// Counters of the domain of Blackadder's nodes, with `pubsub.blackadder_node`.
    #[serde(default)]
    pub blackadder: BlackadderCounters,
    /// Interfaces of the domain's Ethernet links.
    #[serde(default)]
    pub ethernet: Vec<EthernetLinkStatus>,
}

/// Packets of a domain of Blackadder's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlackadderCounters {
    /// Packets received from neighbours.
    pub received: u64,
    /// Packets forwarded for other nodes, one per link.
    pub forwarded: u64,
    /// Packets dropped, as no link and not this node is in their identifier.
    pub no_link: u64,
    /// Invalid packets, also such that are for this node and have no content it knows.
    pub invalid: u64,
    /// Packets that are not from a configured neighbour.
    pub unknown_sender: u64,
    /// Requests sent to the rendezvous node.
    pub requests: u64,
    /// Requests of all nodes, with `pubsub.blackadder_topology`.
    pub served: u64,
    /// Notices received from the topology manager.
    pub notices: u64,
    /// Publications sent.
    pub published: u64,
    /// Publications received and passed on to applications.
    pub delivered: u64,
    /// Publications received that no application of this node wants.
    pub unwanted: u64,
    /// Publications not sent because they are too long for a packet.
    pub too_long: u64,
    /// Requests and notices beyond a limit of this node.
    pub omitted: u64,
    /// Packets that the system did not take.
    pub send_errors: u64,
}

/// An interface of the domain's Ethernet links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EthernetLinkStatus {
    /// Name of the interface.
    pub interface: String,
    /// Its AF_XDP sockets. `None`: it has packet sockets only.
    pub af_xdp: Option<AfXdpStatus>,
}

/// AF_XDP sockets of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AfXdpStatus {
    /// Mode of the XDP program: `native` or `generic`.
    pub mode: String,
    /// Memory of frames: `zero-copy` or `copy`.
    pub memory: String,
    /// Number of receive queues.
    pub queues: u64,
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames lost because a ring was full.
    pub lost: u64,
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
    /// Subscribers among the applications of this node that this publisher serves.
    pub subscribers: u64,
    /// Subscribed other nodes that this publisher serves.
    pub nodes: u64,
    /// Which of several publishers of the item serve a subscriber: `all`, `nearest` or `strongest`;
    /// empty if no publisher has chosen, or if it is on another node. All serve then.
    #[serde(default)]
    pub choice: String,
    /// Strength of the publisher.
    #[serde(default)]
    pub strength: u64,
    /// Whether other publishers of the item serve all subscribers, and this one none.
    #[serde(default)]
    pub standby: bool,
}

/// A published scope, or a scope or item with further parents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScopeStatus {
    /// Name of the scope or item.
    pub name: String,
    /// Strategy that items below it have; empty if the scope has none of its own.
    pub strategy: String,
    /// Further scopes that it is under.
    pub parents: Vec<String>,
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
    /// Publications that were missing and arrived after a request.
    #[serde(default)]
    pub repaired: u64,
    /// Requests sent for missing publications.
    #[serde(default)]
    pub repair_requests: u64,
    /// Publications sent again at the request of other nodes, whole or in part.
    #[serde(default)]
    pub sent_again: u64,
    /// Requests of other nodes cut short because too many packets were sent again.
    #[serde(default)]
    pub repair_limit: u64,
    /// Offers sent of publications whose publishers have ended.
    #[serde(default)]
    pub kept_offers: u64,
    /// Publications of ended publishers sent at the request of other nodes.
    #[serde(default)]
    pub kept_sent: u64,
    /// Publications of ended publishers received from nodes that keep them.
    #[serde(default)]
    pub kept_received: u64,
    /// Offers neither sent nor accepted, because there are too many.
    #[serde(default)]
    pub kept_omitted: u64,
    /// Packets that were received before, or are too old.
    pub duplicates: u64,
    /// Packets dropped because no application of this node wants them.
    pub unwanted: u64,
    /// Packets dropped at the hop limit.
    pub hop_limit: u64,
    /// Packets dropped because too many bits of the forwarding identifier are set.
    pub fill_limit: u64,
    /// Forwarding identifiers of publishers that led to fewer nodes than before, after a change of
    /// links.
    #[serde(default)]
    pub outdated_paths: u64,
    /// Invalid packets.
    pub invalid: u64,
    /// Packets without the secret of this domain, or with that of another one.
    #[serde(default)]
    pub other_key: u64,
    /// Packets that the system did not take.
    pub send_errors: u64,
    /// Packets that the kernel forwarded or left to the service, with `pubsub.xdp`.
    #[serde(default)]
    pub kernel: KernelCounters,
}

/// Packets with publications that the XDP program treated, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelCounters {
    /// Packets forwarded by one link.
    pub forwarded: u64,
    /// Packets forwarded by several links.
    pub multicast: u64,
    /// Copies of these, one per link.
    pub copies: u64,
    /// Packets for this node alone.
    pub local: u64,
    /// Packets that the service forwards: for this node too, or by a link that is not Ethernet.
    pub local_and_links: u64,
    /// Control messages, for the service.
    pub control: u64,
    /// Packets dropped, as no link and not this node is in their identifier.
    pub no_link: u64,
    /// Packets dropped because too many bits of the forwarding identifier are set.
    pub fill_limit: u64,
    /// Packets not forwarded because of the hop limit.
    pub hop_limit: u64,
    /// Packets that are no envelope, for the service.
    pub malformed: u64,
    /// Packets that are not from a neighbour to this node, for the service.
    pub unknown_sender: u64,
    /// Packets with an identifier in stages, which the service forwards.
    #[serde(default)]
    pub stages: u64,
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
    /// Forwarding identifiers of the tree, 68 hexadecimal digits each.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Identifiers in stages that publications are sent with, if any.
    #[serde(default)]
    pub stages: Vec<StagesTrace>,
}

/// A forwarding identifier in stages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StagesTrace {
    /// Its bytes in a packet.
    pub bytes: u64,
    /// Links of the tree by distance from this node.
    pub links: Vec<u64>,
    /// Other links that it matches.
    pub other_links: u64,
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
