//! The domain: nodes that find each other, and publications between them.
//!
//! Pure: time and packets are arguments, packets and events are results. Each node is the
//! rendezvous and topology function for its own publishers, because link state gives every node
//! the subscriptions and links of all (decision 0072). Invariants: every packet has a hop limit no
//! larger than its tree needs; every dropped packet is counted; for each item the publications
//! since a node subscribed are those it received plus those it reports as lost. Publications that
//! are missing are requested again from the publisher's node.

mod address;
mod event;
mod filter;
mod forwarding;
mod heartbeats;
mod kept;
#[cfg(test)]
mod large_domain_tests;
mod link_state;
mod message;
mod packet_queue;
mod repair;
#[cfg(test)]
mod replication_tests;
mod seal;
mod sent;
mod serving;
mod stages;
#[cfg(test)]
mod stages_tests;
mod starts;
#[cfg(test)]
mod starts_tests;
mod streams;
#[cfg(test)]
mod tests;
mod trees;

use crate::pattern_set::PatternSet;
use crate::presence::Presence;
pub use address::LinkAddress;
use core::ops::Range;
pub use event::DomainEvent;
use filter::link_ids;
use forwarding::ForwardingTable;
use heartbeats::{Heartbeat, Heartbeats};
use kept::Exchange;
pub use kept::FETCHES_MAX;
use link_state::LinkState;
pub use link_state::Target;
use message::{
    BOUND, Control, END, GONE, HEARTBEAT, KEEPS_LAST, KEPT, LAST_VALUE, REPAIR, REPAIRED, START,
};
pub use message::{ItemPublisher, PUBLISHERS_BYTES_MAX, RepairRequest};
use message::{payload_head, split_payload};
use nw_api::config::LargeTrees;
use nw_api::pubsub::status::{DomainCounters, KernelCounters, NodeStatus};
use nw_api::pubsub::{ItemName, ScopePattern, Strategy};
use nw_pubsub::Timestamp;
use nw_pubsub::filter::{FILL_BITS_MAX, TABLES};
use nw_pubsub::fragments::split;
use nw_pubsub::parents::Parents;
use nw_pubsub::sequences::RepairPolicy;
use nw_wire::publication::{
    Envelope, EnvelopeBuilder, EnvelopeKind, Fid, Label, STAGES_TABLE, StreamPosition,
};
pub use packet_queue::{PacketQueue, PacketRun, RunKind};
use repair::Budget;
use seal::Seal;
use sent::SentPublications;
pub use starts::Receivers;
use starts::{LastNumber, Start, Starts};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use streams::{Arrived, Outcome, Progress, Streams};
use trees::Tree;

/// Bytes of a packet at most, so that it fits an Ethernet frame.
const PACKET_BYTES_MAX: usize = 1400;
/// Milliseconds after the last publication of an item at which its number is repeated.
const HEARTBEATS_MS: [u64; 3] = [100, 300, 1000];
/// Milliseconds after the last repetition of an item's end until it is forgotten.
const FORGET_MS: u64 = 1000;
/// Requests for a missing publication, 50 ms apart, before it is lost.
const REQUESTS_MAX: u32 = 6;
/// Items at most for which it is known whether a further name of theirs is wanted.
const WANTED_MAX: usize = 4096;

/// Identifier of a node: random, new with each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A link for forwarding in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLink {
    /// The neighbour.
    pub address: LinkAddress,
    /// Identifiers in all tables; all bits set if packets are received by it only.
    pub outgoing: [Fid; TABLES],
}

/// What becomes of publications after they are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaterUse {
    /// Whether late subscribers get the last publication.
    pub keeps_last: bool,
    /// Whether only nodes that publications are sent to are to have them, by their strategy.
    pub is_bound: bool,
}

impl LaterUse {
    const fn flags(self) -> u8 {
        (if self.keeps_last { KEEPS_LAST } else { 0 }) | (if self.is_bound { BOUND } else { 0 })
    }
}

/// What precedes the bytes of a packet.
#[derive(Clone, Copy, Debug)]
struct Head<'a> {
    name: &'a ItemName,
    sequence: u64,
    flags: u8,
    source: NodeId,
}

/// The domain as one node sees it.
#[derive(Debug)]
pub struct Domain {
    node: NodeId,
    links: LinkState,
    forwarding: ForwardingTable,
    /// That of the links when `forwarding` was computed.
    neighbour_changes: u64,
    seal: Seal,
    generation: u64,
    trees: BTreeMap<BTreeSet<NodeId>, Vec<Tree>>,
    /// The changes of links that `trees` are computed from.
    trees_changes: u64,
    heartbeats: Heartbeats,
    /// Links from publishers' nodes to all others, as far as computed since links changed.
    hops: BTreeMap<NodeId, BTreeMap<NodeId, u32>>,
    /// That of the links when `hops` was computed.
    hops_changes: u64,
    large_trees: LargeTrees,
    sent: SentPublications,
    /// Where items of this node start for other nodes.
    starts: Starts,
    /// Packets that may be sent again.
    budget: Budget,
    streams: Streams,
    /// Publications of ended publishers, between the nodes that keep and those that want them.
    exchange: Exchange,
    /// Patterns of this node's applications, also those that other nodes are not told.
    patterns: PatternSet,
    /// Further parents of scopes and items.
    parents: Parents,
    /// Whether items that no pattern matches are wanted by a further name, as far as computed since
    /// patterns or parents changed.
    wanted_further: BTreeMap<ItemName, bool>,
    /// Forwarding identifiers that publishers of this node gave, by item.
    paths: BTreeMap<ItemName, Tree>,
    counters: DomainCounters,
    now_ms: u64,
    /// Packets to send.
    pub packets: PacketQueue,
    /// Events to handle.
    pub events: Vec<DomainEvent>,
}

impl Domain {
    /// Creates the domain of a node that knows no other one. Up to `repair_bytes` of publications
    /// are kept to be sent again; 0: no repair, and what is missing is lost at once.
    pub fn new(node: u64, hello_ms: u32, repair_bytes: usize) -> Self {
        let requests_max = if repair_bytes == 0 { 0 } else { REQUESTS_MAX };
        let policy = RepairPolicy { requests_max, ..RepairPolicy::default() };
        let node = NodeId(node);
        let links = LinkState::new(node, u64::from(hello_ms));
        Domain {
            node,
            generation: links.generation,
            forwarding: ForwardingTable::new(node, links.neighbours(), [].into_iter()),
            neighbour_changes: links.neighbour_changes,
            links,
            seal: Seal::default(),
            trees: BTreeMap::new(),
            trees_changes: 0,
            heartbeats: Heartbeats::default(),
            hops: BTreeMap::new(),
            hops_changes: 0,
            large_trees: LargeTrees::Parts,
            sent: SentPublications::new(repair_bytes),
            starts: Starts::default(),
            budget: Budget::default(),
            streams: Streams::new(policy),
            exchange: Exchange::default(),
            patterns: PatternSet::default(),
            parents: Parents::default(),
            wanted_further: BTreeMap::new(),
            paths: BTreeMap::new(),
            counters: DomainCounters::default(),
            now_ms: 0,
            packets: PacketQueue::default(),
            events: Vec::new(),
        }
    }

    /// Sets the secret of the domain. Packets without it are dropped from then on.
    pub fn set_secret(&mut self, secret: &[u8]) {
        self.seal = Seal::new(secret);
    }

    /// Returns the identifier of this node.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the time of the last step, milliseconds.
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the counters.
    pub fn counters(&self) -> DomainCounters {
        self.counters.clone()
    }

    /// Counts packets that the system did not take.
    pub const fn count_send_errors(&mut self, packets: u64) {
        self.counters.send_errors += packets;
    }

    /// Sets the counters of forwarding in the kernel.
    pub fn set_kernel_counters(&mut self, counters: KernelCounters) {
        self.counters.kernel = counters;
    }

    /// Returns the identifiers of this node's internal link, in all tables.
    pub fn internal_ids(&self) -> [Fid; TABLES] {
        link_ids(self.node, self.node)
    }

    /// Returns the links by which packets of neighbours come, and those by which they leave.
    pub fn kernel_links(&self) -> Vec<KernelLink> {
        let used: BTreeSet<(NodeId, LinkAddress)> = self.links.neighbours().collect();
        let link = |(node, address): (NodeId, LinkAddress)| {
            let outgoing = match used.contains(&(node, address)) {
                true => link_ids(self.node, node),
                false => [Fid::BROADCAST; TABLES],
            };
            KernelLink { address, outgoing }
        };
        self.links.addresses().map(link).collect()
    }

    /// Returns the version of the record that tells others of this node's links.
    pub fn links_version(&self) -> u64 {
        self.links.own_version()
    }

    /// Counts a publication delivered, or publications lost.
    pub const fn count_delivery(&mut self, delivered: u64, lost: u64) {
        self.counters.delivered += delivered;
        self.counters.lost += lost;
    }

    /// Returns when [`tick`](Self::tick) is due, milliseconds.
    pub fn deadline_ms(&self) -> u64 {
        // The next millisecond, as gaps have a deadline in nanoseconds.
        let gaps = self.streams.deadline().map(|at| at.as_nanos().div_ceil(1_000_000));
        let due = [self.heartbeats.deadline_ms(), gaps, self.exchange.deadline_ms()];
        due.into_iter().flatten().min().unwrap_or(u64::MAX).min(self.links.deadline_ms())
    }

    /// Sends a hello to new interfaces at the next tick.
    pub const fn hello_soon(&mut self) {
        self.links.hello_soon();
    }

    /// Sets the patterns of applications of this node: those that other nodes are told, and all
    /// that are accepted.
    pub fn set_patterns(&mut self, told: Vec<ScopePattern>, accepted: PatternSet) {
        self.links.set_patterns(told);
        self.patterns = accepted;
        self.wanted_further.clear();
        self.collect();
    }

    /// Forgets the items that no application of this node wants any more and of which nothing was
    /// passed on.
    pub fn forget_unwanted(&mut self) {
        for (node, name) in self.streams.silent() {
            if !self.is_wanted(&name) {
                self.streams.remove(node, &name);
            }
        }
    }

    /// Sets the further parents that applications of this node gave, as child and parent.
    pub fn set_links(&mut self, links: Vec<(ItemName, ItemName)>) {
        self.links.set_links(links);
        self.collect();
    }

    /// Returns the further parents that other nodes gave, as child and parent.
    pub fn links(&self) -> impl Iterator<Item = &(ItemName, ItemName)> {
        self.links.reachable().flat_map(|(_, _, record)| &record.body.links)
    }

    /// Sets the strategies of scopes that applications of this node published.
    pub fn set_strategies(&mut self, strategies: Vec<(ItemName, Strategy)>) {
        self.links.set_strategies(strategies);
        self.collect();
    }

    /// Returns the strategies of scopes that applications of other nodes published, by node.
    pub fn strategies(&self) -> impl Iterator<Item = (NodeId, &(ItemName, Strategy))> {
        self.links.reachable().flat_map(|(node, _, record)| {
            record.body.strategies.iter().map(move |strategy| (node, strategy))
        })
    }

    /// Sets the further parents that names are accepted by.
    pub fn set_parents(&mut self, parents: Parents) {
        self.parents = parents;
        self.wanted_further.clear();
    }

    /// Returns whether an application of this node wants an item, by any of its names.
    fn is_wanted(&mut self, name: &ItemName) -> bool {
        if self.patterns.matches(name) {
            return true;
        }
        if self.parents.is_empty() {
            return false;
        }
        if let Some(is_wanted) = self.wanted_further.get(name) {
            return *is_wanted;
        }
        // Computed once for an item, not for each packet.
        let mut further = self.parents.names(name.plain()).into_iter().skip(1);
        let patterns = &self.patterns;
        let is_wanted =
            further.any(|plain| name.beside(&plain).is_ok_and(|name| patterns.matches(&name)));
        if self.wanted_further.len() >= WANTED_MAX {
            self.wanted_further.clear();
        }
        self.wanted_further.insert(name.clone(), is_wanted);
        is_wanted
    }

    /// Sets the patterns that applications of this node watch, and the items of this node that
    /// other nodes watch.
    pub fn set_watches(&mut self, watches: Vec<ScopePattern>, items: Vec<ItemName>) {
        self.links.set_watches(watches, items);
        self.collect();
    }

    /// Returns the patterns that other nodes watch, in ascending order.
    pub fn watched_by_others(&self) -> Vec<ScopePattern> {
        let watches = self.links.reachable().flat_map(|(_, _, record)| &record.body.watches);
        let watches: BTreeSet<&ScopePattern> = watches.collect();
        watches.into_iter().cloned().collect()
    }

    /// Returns the watched items and the patterns of the other nodes that can be reached.
    pub fn presence(&self) -> BTreeSet<(NodeId, Presence)> {
        let of_node = |(node, _, record): (NodeId, u32, &link_state::Record)| {
            let items = record.body.items.iter().cloned().map(Presence::Item);
            let patterns = record.body.patterns.iter().cloned().map(Presence::Pattern);
            items.chain(patterns).map(move |one| (node, one)).collect::<Vec<_>>()
        };
        self.links.reachable().flat_map(of_node).collect()
    }

    /// Does what is due: hellos, lost neighbours, repeated numbers, requests for missing ones.
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.links.tick(now_ms);
        self.collect();
        while let Some((name, heartbeat)) = self.heartbeats.take_due(now_ms) {
            self.repeat_number(&name, heartbeat);
        }
        self.send_offers();
        self.request_repairs();
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
            if let Some(packet) = self.append(&builder) {
                self.packets.push(target, packet);
            }
        }
        if self.neighbour_changes != self.links.neighbour_changes {
            self.neighbour_changes = self.links.neighbour_changes;
            let sources = self.links.addresses().map(|(_, address)| address);
            let neighbours = self.links.neighbours();
            self.forwarding = ForwardingTable::new(self.node, neighbours, sources);
        }
        if self.generation != self.links.generation {
            self.generation = self.links.generation;
            self.end_fetches();
            self.events.push(DomainEvent::Changed);
        }
    }

    /// Returns the other nodes that publications of an item are sent to: by subscription in the
    /// domain, or on the links of this node; or all on these links.
    pub fn receivers<'a>(
        &self,
        names: impl IntoIterator<Item = &'a ItemName>,
        strategy: Strategy,
    ) -> BTreeSet<NodeId> {
        if matches!(strategy, Strategy::NodeLocal | Strategy::Implicit) {
            return BTreeSet::new();
        }
        let hops_max = if strategy == Strategy::Domain { u32::MAX } else { 1 };
        let names: Vec<&ItemName> = names.into_iter().collect();
        let matching = self.links.reachable().filter(|(_, hops, record)| {
            let is_wanted = strategy == Strategy::Broadcast
                || names.iter().any(|name| record.wanted.matches(name));
            *hops <= hops_max && is_wanted
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
        self.exchange.end(&(node, name.clone()));
    }

    /// Sends a publication to other nodes.
    pub fn publish(
        &mut self,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        use_after: LaterUse,
        nodes: &BTreeSet<NodeId>,
    ) {
        let flags = use_after.flags();
        self.sent.insert(name, sequence, payload, flags, nodes);
        self.send(name, sequence, payload, flags, nodes);
        self.schedule(name, sequence, 0, nodes);
    }

    /// Tells nodes that have subscribed the number of an item's last publication, and the
    /// publication itself if late subscribers get it.
    pub fn start_item(
        &mut self,
        name: &ItemName,
        last: u64,
        last_value: Option<(u64, &[u8])>,
        use_after: LaterUse,
        receivers: Receivers<'_>,
    ) {
        let nodes = receivers.nodes;
        let flags = use_after.flags();
        if let Some((sequence, payload)) = last_value {
            self.sent.insert_last(name, sequence, payload, flags, nodes);
            self.send(name, sequence, payload, flags | LAST_VALUE, nodes);
        }
        self.sent.add_nodes(name, nodes);
        let has_value = last_value.is_some_and(|(sequence, _)| sequence == last);
        let start = Start { last, has_value };
        self.starts.set(name, receivers, start);
        self.send_start(name, start, 0, nodes);
        self.schedule(name, last, 0, nodes);
    }

    /// Tells nodes where an item starts for them.
    fn send_start(&mut self, name: &ItemName, start: Start, flags: u8, nodes: &BTreeSet<NodeId>) {
        let value = if start.has_value { LAST_VALUE } else { 0 };
        self.send_number(name, start.last, START | value | flags, nodes);
    }

    /// Sends nodes the number of an item's last publication.
    fn send_number(&mut self, name: &ItemName, number: u64, flags: u8, nodes: &BTreeSet<NodeId>) {
        let round = self.starts.round(name).to_be_bytes();
        self.send(name, number, &round, HEARTBEAT | flags, nodes);
    }

    /// Forgets the nodes that do not receive an item any more.
    pub fn retain_receivers(&mut self, name: &ItemName, nodes: &BTreeSet<NodeId>) {
        self.starts.retain(name, nodes);
        self.heartbeats.retain(name, nodes);
    }

    /// Tells nodes that an item has ended.
    pub fn end_item(&mut self, name: &ItemName, last: u64, nodes: &BTreeSet<NodeId>) {
        self.send_number(name, last, END, nodes);
        match self.paths.remove(name) {
            // The end is told once: the identifier is forgotten with the item.
            Some(_) => self.forget_sent(name),
            None => self.schedule(name, last, END, nodes),
        }
    }

    /// Forgets all that was sent of an item.
    fn forget_sent(&mut self, name: &ItemName) {
        self.heartbeats.remove(name);
        self.sent.remove(name);
        self.starts.remove(name);
    }

    fn schedule(&mut self, name: &ItemName, sequence: u64, flags: u8, nodes: &BTreeSet<NodeId>) {
        let due_ms = self.now_ms + HEARTBEATS_MS[0];
        let (nodes, flags) = (nodes.clone(), flags & END);
        let heartbeat = Heartbeat { sequence, nodes, flags, due_ms, count: 0 };
        if !self.heartbeats.insert(name, heartbeat) && flags & END != 0 {
            self.forget_sent(name);
        }
    }

    /// Repeats the number of an item's last publication, so that its loss is noticed. After the
    /// last repetition of an end, what is missing can still be requested for a while.
    fn repeat_number(&mut self, name: &ItemName, mut heartbeat: Heartbeat) {
        let (flags, repetitions) = (heartbeat.flags, HEARTBEATS_MS.len());
        if heartbeat.count == repetitions {
            return self.forget_sent(name);
        }
        self.send_number(name, heartbeat.sequence, flags, &heartbeat.nodes);
        heartbeat.count += 1;
        if heartbeat.count < repetitions || flags & END != 0 {
            let delay_ms = HEARTBEATS_MS.get(heartbeat.count).unwrap_or(&FORGET_MS);
            heartbeat.due_ms = self.now_ms + delay_ms;
            self.heartbeats.insert(name, heartbeat);
        }
    }

    fn send(
        &mut self,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        flags: u8,
        nodes: &BTreeSet<NodeId>,
    ) {
        let head = Head { name, sequence, flags, source: self.node };
        self.send_parts(head, payload, nodes, |_| true);
    }

    /// Sends the fragments of a publication that `is_wanted` returns true for.
    fn send_parts(
        &mut self,
        Head { name, sequence, flags, source }: Head<'_>,
        payload: &[u8],
        nodes: &BTreeSet<NodeId>,
        mut is_wanted: impl FnMut(u32) -> bool,
    ) {
        let head = payload_head(flags, name.as_str());
        let part_len =
            PACKET_BYTES_MAX - 80 - self.staged_len() - head.len().min(PACKET_BYTES_MAX / 2);
        let stream = Some(StreamPosition { source: Label::from_number(source.0), sequence });
        // Repairs go to the node that asks for them, not along a path.
        let is_answer = flags & (REPAIR | REPAIRED | GONE | KEPT) != 0;
        let path = self.paths.get(name).filter(|_| !is_answer);
        let trees = path.map(|path| vec![path.clone()]).unwrap_or_else(|| self.trees(nodes));
        for tree in trees {
            let staged = tree.stages.as_ref().and_then(|stages| stages.filter());
            for (fragment, part) in split(payload, part_len) {
                if !is_wanted(fragment.map_or(0, |info| info.index)) {
                    continue;
                }
                let body = [&head[..], part].concat();
                let builder = EnvelopeBuilder {
                    hop_limit: tree.hop_limit,
                    table: tree.table,
                    fid: tree.fid,
                    staged,
                    stream,
                    fragment,
                    payload: &body,
                    ..EnvelopeBuilder::default()
                };
                if let Some(packet) = self.append(&builder) {
                    self.counters.sent += match &staged {
                        None => self.queue(&packet, tree.table, &tree.fid, None),
                        Some(filter) => self.queue_first_stage(&packet, filter),
                    };
                }
            }
        }
    }

    /// Appends a packet to those to send, with its HMAC if there is a secret. Returns where it is.
    fn append(&mut self, builder: &EnvelopeBuilder<'_>) -> Option<Range<usize>> {
        let seal = &self.seal;
        self.packets.append(|bytes| {
            let start = bytes.len();
            let is_encoded = builder.encode(bytes).is_ok();
            seal.close(bytes, start);
            is_encoded
        })
    }

    /// Queues an appended packet for each link in an identifier, without the one that it came by.
    /// Returns the number of links.
    fn queue(
        &mut self,
        packet: &Range<usize>,
        table: u8,
        fid: &Fid,
        from: Option<LinkAddress>,
    ) -> u64 {
        let mut count = 0;
        for address in self.forwarding.links_in(table, fid, from) {
            self.packets.push(Target::Neighbour(address), packet.clone());
            count += 1;
        }
        count
    }

    /// Handles a packet from an address.
    pub fn receive(&mut self, now_ms: u64, from: LinkAddress, bytes: &[u8]) {
        self.now_ms = now_ms;
        let bytes = from.without_padding(bytes, self.seal.tag_len());
        let Some(bytes) = self.seal.open(bytes) else {
            self.counters.other_key += 1;
            return;
        };
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

    fn receive_publication(&mut self, from: LinkAddress, bytes: &[u8], envelope: &Envelope<'_>) {
        self.counters.received += 1;
        if !self.forwarding.is_source(from) {
            self.counters.invalid += 1;
            return;
        }
        let (table, fid) = (envelope.table(), envelope.fid());
        if table == STAGES_TABLE {
            return self.receive_staged(from, bytes, envelope);
        }
        if fid.count_ones() > FILL_BITS_MAX {
            self.counters.fill_limit += 1;
            return;
        }
        if let Ok(fields) = Envelope::forwarding_fields(bytes) {
            match fields.hop_limit {
                0 => self.counters.hop_limit += 1,
                // The last hop: only this node.
                1 => {}
                hop_limit => self.forward(from, bytes, (table, &fid), (fields.offset, hop_limit)),
            }
        }
        if self.forwarding.is_for_node(table, &fid) {
            self.deliver(envelope);
        }
    }

    /// Queues a packet for the links in its identifier, with a hop limit that is one less.
    fn forward(
        &mut self,
        from: LinkAddress,
        bytes: &[u8],
        (table, fid): (u8, &Fid),
        (offset, hop_limit): (usize, u8),
    ) {
        if self.forwarding.links_in(table, fid, Some(from)).next().is_none() {
            return;
        }
        let seal = &self.seal;
        let packet = self.packets.append(|copy| {
            let start = copy.len();
            copy.extend_from_slice(bytes);
            copy[start + offset] = hop_limit - 1;
            seal.close(copy, start);
            true
        });
        if let Some(packet) = packet {
            self.counters.forwarded += self.queue(&packet, table, fid, Some(from));
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
        if flags & KEPT != 0 && flags & (REPAIR | HEARTBEAT) != 0 {
            self.receive_kept((node, name), stream.sequence, flags, part);
            return;
        }
        if flags & REPAIR != 0 {
            self.send_again(node, &name, part);
            return;
        }
        if node == self.node || !self.is_wanted(&name) {
            self.counters.unwanted += 1;
            return;
        }
        let (key, now) = ((node, name), Timestamp::from_millis(self.now_ms));
        let sequence = stream.sequence;
        if flags & KEPT != 0 && !self.exchange.is_fetched(&key) {
            // The answer of a second keeper, or of none that this node asked.
            self.counters.duplicates += 1;
            return;
        }
        if flags & GONE != 0 {
            self.streams.give_up(&key, sequence);
        } else if flags & HEARTBEAT != 0 {
            let round = part.first_chunk().map_or(0, |round| u32::from_be_bytes(*round));
            let last = LastNumber { number: sequence, round };
            self.streams.receive_number(&key, last, flags, now);
        } else {
            let is_repair = flags & REPAIRED != 0;
            let arrived = Arrived { sequence, payload: part.to_vec(), flags };
            match self.streams.receive(&key, arrived, envelope.fragment(), is_repair, now) {
                Outcome::Duplicate => self.counters.duplicates += 1,
                Outcome::Repaired => self.counters.repaired += 1,
                Outcome::Accepted => {}
            }
        }
        self.report_progress();
    }

    /// Turns what became known about items into events.
    fn report_progress(&mut self) {
        for ((node, name), progress) in self.streams.take_results() {
            self.events.push(match progress {
                Progress::Publication(Arrived { sequence, payload, flags }) => {
                    self.counters.kept_received += u64::from(flags & KEPT != 0);
                    DomainEvent::Publication {
                        node,
                        name,
                        sequence,
                        payload,
                        use_after: LaterUse {
                            keeps_last: flags & KEEPS_LAST != 0,
                            is_bound: flags & BOUND != 0,
                        },
                        is_last_value: flags & LAST_VALUE != 0,
                        is_kept: flags & KEPT != 0,
                    }
                }
                Progress::Missing(last) => DomainEvent::Missing { node, name, last },
                Progress::End => {
                    self.exchange.end(&(node, name.clone()));
                    DomainEvent::End { node, name }
                }
            });
        }
    }

    /// Returns how many other nodes can be reached.
    pub fn node_count(&self) -> usize {
        self.links.reachable().count()
    }

    /// Returns the other nodes, for the status.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let addresses: BTreeMap<NodeId, LinkAddress> = self.links.neighbours().collect();
        let describe = |(node, hops, record): (NodeId, u32, &link_state::Record)| NodeStatus {
            node: node.to_string(),
            hops: u64::from(hops),
            address: addresses.get(&node).map_or_else(String::new, LinkAddress::to_string),
            subscriptions: record.body.patterns.iter().map(ToString::to_string).collect(),
            neighbours: record.body.neighbours.iter().map(ToString::to_string).collect(),
        };
        self.links.reachable().map(describe).collect()
    }
}
