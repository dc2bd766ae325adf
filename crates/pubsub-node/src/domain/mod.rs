//! The domain: nodes that find each other, and publications between them.
//!
//! Pure: time and packets are arguments, packets and events are results. Each node is the
//! rendezvous and topology function for its own publishers, because link state gives every node
//! the subscriptions and links of all (decision 0072). Invariants: every packet has a hop limit no
//! larger than its tree needs; every dropped packet is counted; for each item the publications
//! since a node subscribed are those it received plus those it reports as lost.

mod filter;
mod link_state;
mod message;
mod streams;
#[cfg(test)]
mod tests;

use filter::{link_id, tree_id};
use link_state::LinkState;
pub use link_state::Target;
use message::{Control, END, HEARTBEAT, KEEPS_LAST, LAST_VALUE, payload_head, split_payload};
use nw_api::pubsub::status::{DomainCounters, NodeStatus};
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_pubsub::filter::FILL_BITS_MAX;
use nw_wire::publication::{
    Envelope, EnvelopeBuilder, EnvelopeKind, Fid, FragmentInfo, Label, StreamPosition,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use streams::{Arrival, Streams};

/// Bytes of a packet at most, so that it fits an Ethernet frame.
const PACKET_BYTES_MAX: usize = 1400;
/// Milliseconds after the last publication of an item at which its number is repeated.
const HEARTBEATS_MS: [u64; 3] = [100, 300, 1000];
/// Items whose numbers are repeated at the same time.
const OUTGOING_MAX: usize = 65_536;

/// Identifier of a node: random, new with each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What the domain reports to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainEvent {
    /// Links or subscriptions of other nodes changed.
    Changed,
    /// A publication for applications of this node.
    Publication {
        /// Node of the publisher.
        node: NodeId,
        /// Name of the item.
        name: ItemName,
        /// Sequence number.
        sequence: u64,
        /// The bytes.
        payload: Vec<u8>,
        /// Whether late subscribers get the last publication.
        keeps_last: bool,
        /// Whether it is older than the subscription.
        is_last_value: bool,
    },
    /// Publications up to a sequence number are lost.
    Missing {
        /// Node of the publisher.
        node: NodeId,
        /// Name of the item.
        name: ItemName,
        /// Sequence number of the last one.
        last: u64,
    },
    /// An item has ended.
    End {
        /// Node of the publisher.
        node: NodeId,
        /// Name of the item.
        name: ItemName,
    },
}

/// A tree to a set of nodes.
#[derive(Clone, Debug)]
struct Tree {
    table: u8,
    fid: Fid,
    hop_limit: u8,
}

/// An item whose number is repeated.
#[derive(Debug)]
struct Outgoing {
    sequence: u64,
    nodes: BTreeSet<NodeId>,
    flags: u8,
    due_ms: u64,
    /// Repetitions so far.
    count: usize,
}

/// The domain as one node sees it.
#[derive(Debug)]
pub struct Domain {
    node: NodeId,
    links: LinkState,
    generation: u64,
    trees: BTreeMap<BTreeSet<NodeId>, Vec<Tree>>,
    outgoing: BTreeMap<ItemName, Outgoing>,
    streams: Streams,
    patterns: Vec<ScopePattern>,
    counters: DomainCounters,
    now_ms: u64,
    /// Packets to send.
    pub packets: Vec<(Target, Vec<u8>)>,
    /// Events to handle.
    pub events: Vec<DomainEvent>,
}

impl Domain {
    /// Creates the domain of a node that knows no other one.
    pub fn new(node: u64, hello_ms: u32) -> Self {
        let node = NodeId(node);
        let links = LinkState::new(node, u64::from(hello_ms));
        Domain {
            node,
            generation: links.generation,
            links,
            trees: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            streams: Streams::default(),
            patterns: Vec::new(),
            counters: DomainCounters::default(),
            now_ms: 0,
            packets: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Returns the identifier of this node.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the counters.
    pub fn counters(&self) -> DomainCounters {
        self.counters.clone()
    }

    /// Counts a packet that the system did not take.
    pub const fn count_send_error(&mut self) {
        self.counters.send_errors += 1;
    }

    /// Counts a publication delivered, or publications lost.
    pub const fn count_delivery(&mut self, delivered: u64, lost: u64) {
        self.counters.delivered += delivered;
        self.counters.lost += lost;
    }

    /// Returns when [`tick`](Self::tick) is due, milliseconds.
    pub fn deadline_ms(&self) -> u64 {
        let heartbeat = self.outgoing.values().map(|outgoing| outgoing.due_ms).min();
        heartbeat.unwrap_or(u64::MAX).min(self.links.deadline_ms())
    }

    /// Sends a hello to new interfaces at the next tick.
    pub const fn hello_soon(&mut self) {
        self.links.hello_soon();
    }

    /// Sets the patterns that applications of this node subscribe to.
    pub fn set_patterns(&mut self, patterns: Vec<ScopePattern>) {
        self.links.set_patterns(patterns.clone());
        self.patterns = patterns;
        self.collect();
    }

    /// Does what is due: hellos, lost neighbours, repeated numbers.
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.links.tick(now_ms);
        self.collect();
        let due: Vec<ItemName> = self
            .outgoing
            .iter()
            .filter(|(_, outgoing)| outgoing.due_ms <= now_ms)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.repeat_number(name);
        }
    }

    /// Turns messages of the link state into packets, and reports changes.
    fn collect(&mut self) {
        for (target, control) in core::mem::take(&mut self.links.messages) {
            let payload = control.encode();
            let builder = EnvelopeBuilder {
                kind: EnvelopeKind::Control,
                hop_limit: 1,
                payload: &payload,
                ..EnvelopeBuilder::default()
            };
            let mut bytes = Vec::with_capacity(payload.len() + builder.overhead());
            if builder.encode(&mut bytes).is_ok() {
                self.packets.push((target, bytes));
            }
        }
        if self.generation != self.links.generation {
            self.generation = self.links.generation;
            self.trees.clear();
            self.events.push(DomainEvent::Changed);
        }
    }

    /// Returns the other nodes with a subscription that matches a name.
    pub fn subscribers(&self, name: &ItemName) -> BTreeSet<NodeId> {
        let matching = self.links.reachable().filter(|(_, _, record)| {
            record.body.patterns.iter().any(|pattern| pattern.matches(name))
        });
        matching.map(|(node, _, _)| node).collect()
    }

    /// Returns whether a node can be reached, or could be within the last 30 seconds.
    pub fn is_known(&self, node: NodeId) -> bool {
        self.links.knows(node)
    }

    /// Forgets what was received of an item.
    pub fn forget(&mut self, node: NodeId, name: &ItemName) {
        self.streams.remove(node, name);
    }

    /// Sends a publication to other nodes.
    pub fn publish(
        &mut self,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        keeps_last: bool,
        nodes: &BTreeSet<NodeId>,
    ) {
        let flags = if keeps_last { KEEPS_LAST } else { 0 };
        self.send(name, sequence, Some(payload), flags, nodes);
        self.schedule(name, sequence, flags, nodes);
    }

    /// Tells nodes that have subscribed the number of an item's last publication, and the
    /// publication itself if late subscribers get it.
    pub fn start_item(
        &mut self,
        name: &ItemName,
        last: u64,
        last_value: Option<(u64, &[u8])>,
        nodes: &BTreeSet<NodeId>,
    ) {
        if let Some((sequence, payload)) = last_value {
            self.send(name, sequence, Some(payload), KEEPS_LAST | LAST_VALUE, nodes);
        }
        self.send(name, last, None, HEARTBEAT, nodes);
        self.schedule(name, last, 0, nodes);
    }

    /// Tells nodes that an item has ended.
    pub fn end_item(&mut self, name: &ItemName, last: u64, nodes: &BTreeSet<NodeId>) {
        self.send(name, last, None, HEARTBEAT | END, nodes);
        self.schedule(name, last, END, nodes);
    }

    fn schedule(&mut self, name: &ItemName, sequence: u64, flags: u8, nodes: &BTreeSet<NodeId>) {
        if self.outgoing.len() >= OUTGOING_MAX && !self.outgoing.contains_key(name) {
            return;
        }
        let due_ms = self.now_ms + HEARTBEATS_MS[0];
        let (nodes, flags) = (nodes.clone(), flags & END);
        let outgoing = Outgoing { sequence, nodes, flags, due_ms, count: 0 };
        self.outgoing.insert(name.clone(), outgoing);
    }

    /// Repeats the number of an item's last publication, so that its loss is noticed.
    fn repeat_number(&mut self, name: ItemName) {
        let Some(mut outgoing) = self.outgoing.remove(&name) else { return };
        let flags = HEARTBEAT | outgoing.flags;
        self.send(&name, outgoing.sequence, None, flags, &outgoing.nodes);
        outgoing.count += 1;
        if let Some(delay_ms) = HEARTBEATS_MS.get(outgoing.count) {
            outgoing.due_ms = self.now_ms + delay_ms;
            self.outgoing.insert(name, outgoing);
        }
    }

    /// Returns the trees to a set of nodes: one, or several where one identifier would be too full.
    fn trees(&mut self, nodes: &BTreeSet<NodeId>) -> Vec<Tree> {
        if let Some(trees) = self.trees.get(nodes) {
            return trees.clone();
        }
        let (mut trees, mut groups) = (Vec::new(), vec![nodes.iter().copied().collect::<Vec<_>>()]);
        while let Some(group) = groups.pop() {
            let (mut links, mut depth) = (BTreeSet::new(), 0);
            for node in &group {
                let path = self.links.path(*node);
                if path.is_empty() {
                    continue;
                }
                depth = depth.max(path.len());
                links.extend(path);
                links.insert((*node, *node));
            }
            if links.is_empty() {
                continue;
            }
            let links: Vec<_> = links.into_iter().collect();
            match tree_id(&links) {
                Some((table, fid)) => {
                    let hop_limit = depth.min(255) as u8;
                    trees.push(Tree { table, fid, hop_limit });
                }
                None if group.len() > 1 => {
                    let (first, second) = group.split_at(group.len() / 2);
                    groups.extend([first.to_vec(), second.to_vec()]);
                }
                None => self.counters.fill_limit += 1,
            }
        }
        self.trees.insert(nodes.clone(), trees.clone());
        trees
    }

    /// Returns the links of the trees to a set of nodes, for people.
    pub fn tree(&self, nodes: &BTreeSet<NodeId>) -> Vec<String> {
        let links: BTreeSet<_> = nodes.iter().flat_map(|node| self.links.path(*node)).collect();
        links.iter().map(|(from, to)| format!("{from} {to}")).collect()
    }

    fn send(
        &mut self,
        name: &ItemName,
        sequence: u64,
        payload: Option<&[u8]>,
        flags: u8,
        nodes: &BTreeSet<NodeId>,
    ) {
        let head = payload_head(flags, name.as_str());
        let payload = payload.unwrap_or(&[]);
        let part_len = PACKET_BYTES_MAX - 80 - head.len().min(PACKET_BYTES_MAX / 2);
        let count = payload.len().div_ceil(part_len).max(1);
        for tree in self.trees(nodes) {
            for index in 0..count {
                let part = &payload[index * part_len..payload.len().min((index + 1) * part_len)];
                let body = [&head[..], part].concat();
                let fragment = (count > 1).then_some(FragmentInfo {
                    index: index as u32,
                    count: count as u32,
                    total_len: payload.len() as u64,
                });
                let source = Label::from_number(self.node.0);
                let builder = EnvelopeBuilder {
                    hop_limit: tree.hop_limit,
                    table: tree.table,
                    fid: tree.fid,
                    stream: Some(StreamPosition { source, sequence }),
                    fragment,
                    payload: &body,
                    ..EnvelopeBuilder::default()
                };
                let mut bytes = Vec::with_capacity(body.len() + builder.overhead());
                if builder.encode(&mut bytes).is_ok() {
                    self.counters.sent += self.forward(&bytes, tree.table, &tree.fid, None);
                }
            }
        }
    }

    /// Queues a packet for each link in its identifier. Returns the number of links.
    fn forward(&mut self, bytes: &[u8], table: u8, fid: &Fid, from: Option<SocketAddr>) -> u64 {
        let mut count = 0;
        for (neighbour, address) in self.links.neighbours() {
            if fid.contains(&link_id(table, self.node, neighbour)) && Some(address) != from {
                self.packets.push((Target::Neighbour(address), bytes.to_vec()));
                count += 1;
            }
        }
        count
    }

    /// Handles a packet from an address.
    pub fn receive(&mut self, now_ms: u64, from: SocketAddr, bytes: &[u8]) {
        self.now_ms = now_ms;
        let Ok(envelope) = Envelope::check(bytes) else {
            self.counters.invalid += 1;
            return;
        };
        match envelope.kind() {
            EnvelopeKind::Control => match Control::decode(envelope.payload()) {
                Some(control) => {
                    self.links.receive(from, control);
                    self.collect();
                }
                None => self.counters.invalid += 1,
            },
            EnvelopeKind::Publication => self.receive_publication(from, bytes, &envelope),
        }
    }

    fn receive_publication(&mut self, from: SocketAddr, bytes: &[u8], envelope: &Envelope<'_>) {
        self.counters.received += 1;
        if !self.links.is_neighbour(from) {
            self.counters.invalid += 1;
            return;
        }
        let (table, fid) = (envelope.table(), envelope.fid());
        if fid.count_ones() > FILL_BITS_MAX {
            self.counters.fill_limit += 1;
            return;
        }
        if let Ok(fields) = Envelope::forwarding_fields(bytes) {
            match fields.hop_limit {
                0 => self.counters.hop_limit += 1,
                // The last hop: only this node.
                1 => {}
                hop_limit => {
                    let mut copy = bytes.to_vec();
                    copy[fields.offset] = hop_limit - 1;
                    self.counters.forwarded += self.forward(&copy, table, &fid, Some(from));
                }
            }
        }
        if fid.contains(&link_id(table, self.node, self.node)) {
            self.deliver(envelope);
        }
    }

    fn deliver(&mut self, envelope: &Envelope<'_>) {
        let parts = envelope.stream().zip(split_payload(envelope.payload()));
        let Some((stream, (flags, name, part))) = parts else {
            self.counters.invalid += 1;
            return;
        };
        let node = NodeId(stream.source.number());
        let Ok(name) = name.parse::<ItemName>() else {
            self.counters.invalid += 1;
            return;
        };
        if node == self.node || !self.patterns.iter().any(|pattern| pattern.matches(&name)) {
            self.counters.unwanted += 1;
            return;
        }
        let sequence = stream.sequence;
        if flags & HEARTBEAT != 0 {
            if self.streams.receive_number(node, &name, sequence) {
                let name = name.clone();
                self.events.push(DomainEvent::Missing { node, name, last: sequence });
            }
            if flags & END != 0 && self.streams.remove(node, &name) {
                self.events.push(DomainEvent::End { node, name });
            }
            return;
        }
        match self.streams.receive(node, &name, sequence, envelope.fragment(), part) {
            Arrival::Complete(payload) => self.events.push(DomainEvent::Publication {
                node,
                name,
                sequence,
                payload,
                keeps_last: flags & KEEPS_LAST != 0,
                is_last_value: flags & LAST_VALUE != 0,
            }),
            Arrival::Duplicate => self.counters.duplicates += 1,
            Arrival::Partial => {}
        }
    }

    /// Returns the other nodes, for the status.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let addresses: BTreeMap<NodeId, SocketAddr> = self.links.neighbours().collect();
        let describe = |(node, hops, record): (NodeId, u32, &link_state::Record)| NodeStatus {
            node: node.to_string(),
            hops: u64::from(hops),
            address: addresses.get(&node).map_or_else(String::new, SocketAddr::to_string),
            subscriptions: record.body.patterns.iter().map(ToString::to_string).collect(),
            neighbours: record.body.neighbours.iter().map(ToString::to_string).collect(),
        };
        self.links.reachable().map(describe).collect()
    }
}
