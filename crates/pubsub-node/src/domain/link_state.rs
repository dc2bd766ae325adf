//! Link state: neighbours by hello, records of all nodes by comparison of versions.
//!
//! Each hello has the versions of the sender's records (a state vector). A neighbour that has a
//! newer record sends it. So lost packets are mended by the next hello, and nothing is
//! acknowledged.
//! Invariant: a link is used only if both ends list each other; records are bounded in number and
//! size, and those of unreachable nodes expire.

use super::NodeId;
use super::message::{Control, NEIGHBOURS_MAX, RECORD_BYTES_MAX, RecordBody, VERSIONS_MAX};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// Nodes of a domain at most.
const NODES_MAX: usize = 1024;
/// Records that are received in parts at the same time.
const PARTIALS_MAX: usize = 16;
/// Milliseconds until the record of an unreachable node is dropped.
const UNREACHABLE_MS: u64 = 30_000;
/// Incomplete hello intervals after which a neighbour is lost, tenths.
const DEAD_TENTHS: u64 = 35;

/// A neighbour, as heard from one address.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    heard_ms: u64,
    /// Whether its last hello listed this node.
    hears_us: bool,
}

/// The record of a node.
#[derive(Clone, Debug)]
pub struct Record {
    /// Version of the record.
    pub version: u64,
    /// Its content.
    pub body: RecordBody,
    bytes: Vec<u8>,
    reachable_ms: u64,
}

/// A record of which not all parts have arrived.
#[derive(Debug)]
struct Partial {
    node: NodeId,
    version: u64,
    parts: Vec<Option<Vec<u8>>>,
}

/// What this node sends, and the receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All nodes of all interfaces.
    Everyone,
    /// One neighbour.
    Neighbour(SocketAddr),
}

/// Link state of the domain, as this node knows it.
#[derive(Debug)]
pub struct LinkState {
    node: NodeId,
    hello_ms: u64,
    next_hello_ms: u64,
    neighbours: BTreeMap<(NodeId, SocketAddr), Neighbour>,
    records: BTreeMap<NodeId, Record>,
    partials: VecDeque<Partial>,
    patterns: Vec<nw_api::pubsub::ScopePattern>,
    /// Where the next hello continues with the versions.
    rotation: usize,
    now_ms: u64,
    /// Changes with each change of links or patterns.
    pub generation: u64,
    /// Messages to send.
    pub messages: Vec<(Target, Control)>,
    /// Hops to each reachable node, and the node before it.
    paths: BTreeMap<NodeId, (u32, NodeId)>,
}

impl LinkState {
    /// Creates the state of a node that is alone.
    pub fn new(node: NodeId, hello_ms: u64) -> Self {
        let mut state = LinkState {
            node,
            hello_ms,
            next_hello_ms: 0,
            neighbours: BTreeMap::new(),
            records: BTreeMap::new(),
            partials: VecDeque::new(),
            patterns: Vec::new(),
            rotation: 0,
            now_ms: 0,
            generation: 0,
            messages: Vec::new(),
            paths: BTreeMap::new(),
        };
        state.update_own_record();
        state
    }

    /// Returns the time of the next hello, milliseconds.
    pub const fn deadline_ms(&self) -> u64 {
        self.next_hello_ms
    }

    /// Sets the patterns of this node's applications, and tells all nodes.
    pub fn set_patterns(&mut self, patterns: Vec<nw_api::pubsub::ScopePattern>) {
        self.patterns = patterns;
        self.update_own_record();
    }

    /// Sends a hello if it is time, and drops neighbours that have been silent.
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let dead_ms = self.hello_ms * DEAD_TENTHS / 10;
        let before = self.neighbours.len();
        self.neighbours.retain(|_, neighbour| neighbour.heard_ms + dead_ms > now_ms);
        if self.neighbours.len() != before {
            self.update_own_record();
        }
        if now_ms >= self.next_hello_ms {
            self.next_hello_ms = now_ms + self.hello_ms;
            self.send_hello(Target::Everyone);
            self.expire_records();
        }
    }

    /// Sends a hello at the next tick, as after a change of interfaces.
    pub const fn hello_soon(&mut self) {
        self.next_hello_ms = 0;
    }

    fn send_hello(&mut self, target: Target) {
        let heard: BTreeSet<NodeId> = self.neighbours.keys().map(|(node, _)| *node).collect();
        let all: Vec<_> =
            self.records.iter().map(|(node, record)| (*node, record.version)).collect();
        let count = all.len().min(VERSIONS_MAX);
        let versions = (0..count).map(|at| all[(self.rotation + at) % all.len()]).collect();
        self.rotation = (self.rotation + count) % all.len().max(1);
        let hello =
            Control::Hello { node: self.node, heard: heard.into_iter().collect(), versions };
        self.messages.push((target, hello));
    }

    /// Handles a control message.
    pub fn receive(&mut self, from: SocketAddr, message: Control) {
        match message {
            Control::Hello { node, heard, versions } if node != self.node => {
                self.receive_hello(from, node, &heard, &versions);
            }
            Control::Record { node, version, part, parts, bytes } if node != self.node => {
                self.receive_record(from, node, version, (part, parts), bytes);
            }
            _ => {}
        }
    }

    fn receive_hello(
        &mut self,
        from: SocketAddr,
        node: NodeId,
        heard: &[NodeId],
        versions: &[(NodeId, u64)],
    ) {
        let key = (node, from);
        let known = self.neighbours.get(&key).copied();
        if known.is_none() && self.neighbours.len() >= NEIGHBOURS_MAX {
            return;
        }
        let hears_us = heard.contains(&self.node);
        self.neighbours.insert(key, Neighbour { heard_ms: self.now_ms, hears_us });
        if known.is_none() {
            // The other end learns at once that it is heard, not at the next hello.
            self.send_hello(Target::Neighbour(from));
        }
        if known.is_none_or(|known| known.hears_us != hears_us) {
            self.update_own_record();
        }
        let theirs: BTreeMap<NodeId, u64> = versions.iter().copied().collect();
        // A hello that has all versions also says which records the neighbour lacks.
        let has_all = versions.len() < VERSIONS_MAX;
        let mut newer = Vec::new();
        for (known, record) in &self.records {
            match theirs.get(known) {
                Some(version) if *version >= record.version => {}
                None if !has_all => {}
                _ if *known == node => {}
                _ => newer.push(*known),
            }
        }
        newer.into_iter().for_each(|node| self.send_record(node, &Target::Neighbour(from)));
    }

    fn send_record(&mut self, node: NodeId, target: &Target) {
        let Some(record) = self.records.get(&node) else { return };
        let parts = Control::record_parts(node, record.version, &record.bytes);
        self.messages.extend(parts.into_iter().map(|part| (target.clone(), part)));
    }

    fn receive_record(
        &mut self,
        from: SocketAddr,
        node: NodeId,
        version: u64,
        (part, parts): (u16, u16),
        bytes: Vec<u8>,
    ) {
        // Only neighbours are believed: a packet from elsewhere has no hello before it.
        let is_neighbour = self.is_neighbour(from);
        let is_newer = self.records.get(&node).is_none_or(|record| record.version < version);
        if !is_neighbour || !is_newer {
            return;
        }
        let same = |partial: &Partial| {
            partial.node == node
                && partial.version == version
                && partial.parts.len() == usize::from(parts)
        };
        let at = match self.partials.iter().position(same) {
            Some(at) => at,
            None => {
                if self.partials.len() >= PARTIALS_MAX {
                    self.partials.pop_front();
                }
                let parts = vec![None; usize::from(parts)];
                self.partials.push_back(Partial { node, version, parts });
                self.partials.len() - 1
            }
        };
        self.partials[at].parts[usize::from(part)] = Some(bytes);
        if self.partials[at].parts.iter().any(Option::is_none) {
            return;
        }
        let Some(partial) = self.partials.remove(at) else { return };
        let bytes: Vec<u8> = partial.parts.into_iter().flatten().flatten().collect();
        if bytes.len() <= RECORD_BYTES_MAX
            && let Some(body) = RecordBody::decode(&bytes)
        {
            self.store(from, node, version, body, bytes);
        }
    }

    fn store(
        &mut self,
        from: SocketAddr,
        node: NodeId,
        version: u64,
        body: RecordBody,
        bytes: Vec<u8>,
    ) {
        if !self.records.contains_key(&node) && self.records.len() >= NODES_MAX {
            return;
        }
        let record = Record { version, body, bytes, reachable_ms: self.now_ms };
        self.records.insert(node, record);
        self.update_paths();
        let others: BTreeSet<SocketAddr> = self
            .neighbours
            .keys()
            .filter(|(neighbour, address)| *neighbour != node && *address != from)
            .map(|(_, address)| *address)
            .collect();
        for address in others {
            self.send_record(node, &Target::Neighbour(address));
        }
    }

    /// Makes a new version of this node's record and sends it to all neighbours.
    fn update_own_record(&mut self) {
        let body = RecordBody { neighbours: self.two_way(), patterns: self.patterns.clone() };
        let known = self.records.get(&self.node);
        if known.is_some_and(|record| record.body == body) {
            return;
        }
        let version = known.map_or(1, |record| record.version + 1);
        let record = Record { version, bytes: body.encode(), body, reachable_ms: self.now_ms };
        self.records.insert(self.node, record);
        self.update_paths();
        let addresses: BTreeSet<SocketAddr> =
            self.neighbours.keys().map(|(_, address)| *address).collect();
        for address in addresses {
            self.send_record(self.node, &Target::Neighbour(address));
        }
    }

    fn two_way(&self) -> Vec<NodeId> {
        let heard = self.neighbours.iter().filter(|(_, neighbour)| neighbour.hears_us);
        let nodes: BTreeSet<NodeId> = heard.map(|((node, _), _)| *node).collect();
        nodes.into_iter().collect()
    }

    /// Recomputes shortest paths: breadth first, so ties go to the lowest identifier.
    fn update_paths(&mut self) {
        self.generation += 1;
        self.paths.clear();
        self.paths.insert(self.node, (0, self.node));
        let mut queue = VecDeque::from([self.node]);
        while let Some(node) = queue.pop_front() {
            let hops = self.paths[&node].0;
            let Some(record) = self.records.get(&node) else { continue };
            for next in &record.body.neighbours {
                let lists_back = self
                    .records
                    .get(next)
                    .is_some_and(|record| record.body.neighbours.contains(&node));
                if lists_back && !self.paths.contains_key(next) {
                    self.paths.insert(*next, (hops + 1, node));
                    queue.push_back(*next);
                }
            }
        }
        for (node, record) in &mut self.records {
            if self.paths.contains_key(node) {
                record.reachable_ms = self.now_ms;
            }
        }
    }

    fn expire_records(&mut self) {
        let (now_ms, paths) = (self.now_ms, &self.paths);
        self.records.retain(|node, record| {
            if paths.contains_key(node) {
                record.reachable_ms = now_ms;
            }
            record.reachable_ms + UNREACHABLE_MS > now_ms
        });
    }

    /// Returns the other nodes that can be reached, with hops and record.
    pub fn reachable(&self) -> impl Iterator<Item = (NodeId, u32, &Record)> {
        let others = self.paths.iter().filter(|(node, _)| **node != self.node);
        others.filter_map(|(node, (hops, _))| {
            self.records.get(node).map(|record| (*node, *hops, record))
        })
    }

    /// Returns the links from this node to another one, nearest to the other one first.
    pub fn path(&self, mut node: NodeId) -> Vec<(NodeId, NodeId)> {
        let mut links = Vec::new();
        while let Some((hops, before)) = self.paths.get(&node)
            && *hops > 0
        {
            links.push((*before, node));
            node = *before;
        }
        links
    }

    /// Returns whether hellos come from an address.
    pub fn is_neighbour(&self, from: SocketAddr) -> bool {
        self.neighbours.keys().any(|(_, address)| *address == from)
    }

    /// Returns whether the record of a node is known.
    pub fn knows(&self, node: NodeId) -> bool {
        self.records.contains_key(&node)
    }

    /// Returns neighbours that hear this node, each with its first address.
    pub fn neighbours(&self) -> impl Iterator<Item = (NodeId, SocketAddr)> {
        let mut last = None;
        let two_way = self.neighbours.iter().filter(|(_, neighbour)| neighbour.hears_us);
        two_way.map(|((node, address), _)| (*node, *address)).filter(move |(node, _)| {
            let is_first = last != Some(*node);
            last = Some(*node);
            is_first
        })
    }
}
