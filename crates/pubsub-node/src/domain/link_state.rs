//! Link state: neighbours by hello, records of all nodes by comparison of versions.
//!
//! Each hello has versions of the sender's records (a state vector): all of them, or in ascending
//! order of nodes a part of the ring of identifiers. A neighbour that has a newer record, or one of
//! that part which the sender lacks, sends it. So lost packets are mended by later hellos, and
//! nothing is acknowledged.
//!
//! ```text
//! version = changes 44 bits | digest of the content 20 bits
//! ```
//!
//! Invariants: of two different records of a node one is newer; a link is used only if both ends
//! list each other; records are bounded in number and size; one of an unreachable node is not given
//! to a neighbour that has none, so it expires everywhere (decision 0124).

use super::message::{
    Control, ItemPublisher, NEIGHBOURS_MAX, RECORD_BYTES_MAX, RecordBody, VERSIONS_MAX,
};
use super::{LinkAddress, NodeId};
use crate::pattern_set::PatternSet;
use nw_api::pubsub::{ItemName, ScopePattern, Strategy};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes of a domain at most.
const NODES_MAX: usize = 1024;
/// Records that are received in parts at the same time.
const PARTIALS_MAX: usize = 16;
/// Milliseconds until the record of an unreachable node is dropped.
const UNREACHABLE_MS: u64 = 30_000;
/// Bits of a version that are a digest of the content.
const DIGEST_BITS: u32 = 20;
/// Incomplete hello intervals after which a neighbour is lost, tenths.
const DEAD_TENTHS: u64 = 35;

/// Returns the version of a record after a number of changes.
fn version_of(changes: u64, bytes: &[u8]) -> u64 {
    let digest = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    changes.min(u64::MAX >> DIGEST_BITS) << DIGEST_BITS | digest >> (64 - DIGEST_BITS)
}

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
    /// Its patterns.
    pub wanted: PatternSet,
    bytes: Vec<u8>,
    reachable_ms: u64,
}

/// A record of which not all parts have arrived.
#[derive(Clone, Debug)]
struct Partial {
    node: NodeId,
    version: u64,
    parts: Vec<Option<Vec<u8>>>,
}

/// What this node sends, and the receivers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// All nodes of all interfaces.
    Everyone,
    /// One neighbour.
    Neighbour(LinkAddress),
}

/// Link state of the domain, as this node knows it.
#[derive(Clone, Debug)]
pub struct LinkState {
    node: NodeId,
    hello_ms: u64,
    next_hello_ms: u64,
    neighbours: BTreeMap<(NodeId, LinkAddress), Neighbour>,
    records: BTreeMap<NodeId, Record>,
    partials: VecDeque<Partial>,
    patterns: Vec<ScopePattern>,
    watches: Vec<ScopePattern>,
    items: Vec<ItemName>,
    /// The node at which the next hello continues with the versions.
    next_version: NodeId,
    links: Vec<(ItemName, ItemName)>,
    strategies: Vec<(ItemName, Strategy)>,
    publishers: Vec<(ItemName, ItemPublisher)>,
    now_ms: u64,
    /// Changes with each change of links or patterns, in [`refresh`](Self::refresh).
    pub generation: u64,
    /// Changes with each change of neighbours or their addresses.
    pub neighbour_changes: u64,
    /// Changes with each change of a node's links.
    pub topology_changes: u64,
    /// Whether records changed since [`refresh`](Self::refresh).
    has_changed: bool,
    /// Messages to send.
    pub messages: Vec<(Target, Control)>,
    /// Hops to each reachable node, and the node before it.
    paths: BTreeMap<NodeId, (u32, NodeId)>,
    /// The changes of links that `paths` are computed from.
    pub paths_changes: u64,
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
            watches: Vec::new(),
            items: Vec::new(),
            next_version: NodeId(0),
            links: Vec::new(),
            strategies: Vec::new(),
            publishers: Vec::new(),
            now_ms: 0,
            generation: 0,
            neighbour_changes: 0,
            topology_changes: 0,
            has_changed: false,
            messages: Vec::new(),
            paths: BTreeMap::new(),
            paths_changes: 0,
        };
        state.update_own_record();
        state.refresh();
        state
    }

    /// Returns the time of the next hello, milliseconds.
    pub const fn deadline_ms(&self) -> u64 {
        self.next_hello_ms
    }

    /// Sets the patterns of this node's applications, and tells all nodes.
    pub fn set_patterns(&mut self, patterns: Vec<ScopePattern>) {
        self.patterns = patterns;
        self.update_own_record();
    }

    /// Sets what is watched at this node, and this node's items that are watched elsewhere.
    pub fn set_watches(&mut self, watches: Vec<ScopePattern>, items: Vec<ItemName>) {
        (self.watches, self.items) = (watches, items);
        self.update_own_record();
    }

    /// Sets the further parents that applications of this node gave, as child and parent.
    pub fn set_links(&mut self, links: Vec<(ItemName, ItemName)>) {
        self.links = links;
        self.update_own_record();
    }

    /// Sets the strategies of scopes that applications of this node published.
    pub fn set_strategies(&mut self, strategies: Vec<(ItemName, Strategy)>) {
        self.strategies = strategies;
        self.update_own_record();
    }

    /// Sets the publishers of items with a choice among this node's applications.
    pub fn set_publishers(&mut self, publishers: Vec<(ItemName, ItemPublisher)>) {
        self.publishers = publishers;
        self.update_own_record();
    }

    /// Sends a hello if it is time, and drops neighbours that have been silent.
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        let dead_ms = self.hello_ms * DEAD_TENTHS / 10;
        let before = self.neighbours.len();
        self.neighbours.retain(|_, neighbour| neighbour.heard_ms + dead_ms > now_ms);
        if self.neighbours.len() != before {
            self.neighbour_changes += 1;
            self.update_own_record();
        }
        if now_ms >= self.next_hello_ms {
            self.next_hello_ms = now_ms + self.hello_ms;
            self.send_hello(Target::Everyone);
            self.expire_records();
        }
        self.refresh();
    }

    /// Sends a hello at the next tick, as after a change of interfaces.
    pub const fn hello_soon(&mut self) {
        self.next_hello_ms = 0;
    }

    /// Sends a hello with the next versions. Each begins with the last one of the hello before, so
    /// that no part of the ring of identifiers is left out. Returns whether all fitted.
    fn send_hello(&mut self, target: Target) -> bool {
        let heard: BTreeSet<NodeId> = self.neighbours.keys().map(|(node, _)| *node).collect();
        let from = self.records.range(self.next_version..);
        let ring = from.chain(self.records.range(..self.next_version));
        let versions: Vec<_> =
            ring.take(VERSIONS_MAX).map(|(node, record)| (*node, record.version)).collect();
        let has_all = versions.len() == self.records.len();
        self.next_version = match versions.last() {
            Some((node, _)) if !has_all => *node,
            _ => NodeId(0),
        };
        let heard = heard.into_iter().collect();
        self.messages.push((target, Control::Hello { node: self.node, heard, versions }));
        has_all
    }

    /// Sends hellos with all versions to a new neighbour, which learns at once that it is heard.
    fn send_all_versions(&mut self, to: LinkAddress) {
        for _ in 0..self.records.len().div_ceil(VERSIONS_MAX - 1) {
            if self.send_hello(Target::Neighbour(to)) {
                return;
            }
        }
    }

    /// Handles a control message.
    pub fn receive(&mut self, from: LinkAddress, message: Control) {
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
        from: LinkAddress,
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
            self.send_all_versions(from);
        }
        if known.is_none_or(|known| known.hears_us != hears_us) {
            self.neighbour_changes += 1;
            self.update_own_record();
        }
        let theirs: BTreeMap<NodeId, u64> = versions.iter().copied().collect();
        if let Some(version) = theirs.get(&self.node) {
            self.exceed(*version);
        }
        self.refresh();
        // A neighbour gets no record of a node that can't be reached unless it has an older one:
        // two nodes that drop it at different times would give it back to each other for ever.
        let newer = self.records_in(versions).filter(|(known, record)| match theirs.get(known) {
            _ if **known == node => false,
            Some(version) => *version < record.version,
            None => self.paths.contains_key(known),
        });
        let newer: Vec<NodeId> = newer.map(|(known, _)| *known).collect();
        newer.into_iter().for_each(|node| self.send_record(node, &Target::Neighbour(from)));
    }

    /// Returns the records in the part of the ring of identifiers that a list of versions covers:
    /// of a short list, all of them.
    fn records_in(&self, versions: &[(NodeId, u64)]) -> impl Iterator<Item = (&NodeId, &Record)> {
        let ends = match (versions.first(), versions.last()) {
            (Some((first, _)), Some((last, _))) if versions.len() >= VERSIONS_MAX => {
                (*first, *last)
            }
            _ => (NodeId(0), NodeId(u64::MAX)),
        };
        let (low, high) = match ends {
            (first, last) if first <= last => (first..=last, None),
            (first, last) => (first..=NodeId(u64::MAX), Some(NodeId(0)..=last)),
        };
        let rest = high.into_iter().flat_map(|part| self.records.range(part));
        self.records.range(low).chain(rest)
    }

    /// Makes a version of the own record that is newer than one that others have, if that is not
    /// the current one: the state of this node may be older than what others know of it.
    fn exceed(&mut self, version: u64) {
        let own = self.own_version();
        if version <= own {
            return;
        }
        if let Some(record) = self.records.get_mut(&self.node) {
            record.version = version_of((version >> DIGEST_BITS) + 1, &record.bytes);
        }
        self.send_own_record();
    }

    fn send_record(&mut self, node: NodeId, target: &Target) {
        let Some(record) = self.records.get(&node) else { return };
        let parts = Control::record_parts(node, record.version, &record.bytes);
        self.messages.extend(parts.into_iter().map(|part| (target.clone(), part)));
    }

    fn receive_record(
        &mut self,
        from: LinkAddress,
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
        from: LinkAddress,
        node: NodeId,
        version: u64,
        body: RecordBody,
        bytes: Vec<u8>,
    ) {
        if !self.records.contains_key(&node) && self.records.len() >= NODES_MAX {
            // Nodes that are there go before those that were.
            self.refresh();
            let gone = self.records.iter().filter(|(node, _)| !self.paths.contains_key(node));
            let oldest = gone.min_by_key(|(_, record)| record.reachable_ms).map(|(node, _)| *node);
            let Some(oldest) = oldest else { return };
            self.records.remove(&oldest);
        }
        let wanted = body.patterns.iter().collect();
        let record = Record { version, body, wanted, bytes, reachable_ms: self.now_ms };
        self.insert_record(node, record);
        let others: BTreeSet<LinkAddress> = self
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
        let body = RecordBody {
            neighbours: self.two_way(),
            patterns: self.patterns.clone(),
            watches: self.watches.clone(),
            items: self.items.clone(),
            links: self.links.clone(),
            strategies: self.strategies.clone(),
            publishers: self.publishers.clone(),
        };
        let known = self.records.get(&self.node);
        if known.is_some_and(|record| record.body == body) {
            return;
        }
        let changes = known.map_or(0, |record| record.version >> DIGEST_BITS) + 1;
        let bytes = body.encode();
        let version = version_of(changes, &bytes);
        let wanted = body.patterns.iter().collect();
        let record = Record { version, bytes, body, wanted, reachable_ms: self.now_ms };
        self.insert_record(self.node, record);
        self.send_own_record();
    }

    fn insert_record(&mut self, node: NodeId, record: Record) {
        let before = self.records.get(&node).map(|before| &before.body.neighbours);
        // Records that are dropped belong to nodes that no path leads to.
        self.topology_changes += u64::from(before != Some(&record.body.neighbours));
        self.records.insert(node, record);
        self.has_changed = true;
    }

    fn send_own_record(&mut self) {
        let addresses: BTreeSet<LinkAddress> =
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

    /// Computes shortest paths if links changed: breadth first, so ties go to the lowest
    /// identifier. Records that arrive together are one change.
    pub fn refresh(&mut self) {
        if !core::mem::take(&mut self.has_changed) {
            return;
        }
        self.generation += 1;
        if self.paths_changes == self.topology_changes {
            return;
        }
        self.paths_changes = self.topology_changes;
        self.paths = self.paths_from(self.node);
        for (node, record) in &mut self.records {
            if self.paths.contains_key(node) {
                record.reachable_ms = self.now_ms;
            }
        }
    }

    /// Returns the links from a node to each one that it can reach, and the node before it.
    pub fn paths_from(&self, start: NodeId) -> BTreeMap<NodeId, (u32, NodeId)> {
        let mut paths = BTreeMap::from([(start, (0, start))]);
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            let hops = paths[&node].0;
            let Some(record) = self.records.get(&node) else { continue };
            for next in &record.body.neighbours {
                let lists_back = self
                    .records
                    .get(next)
                    .is_some_and(|record| record.body.neighbours.contains(&node));
                if lists_back && !paths.contains_key(next) {
                    paths.insert(*next, (hops + 1, node));
                    queue.push_back(*next);
                }
            }
        }
        paths
    }

    /// Returns whether the record of a node, which may be unreachable, lists a publisher of an item
    /// with a choice.
    pub fn lists_publisher(&self, node: NodeId, name: &ItemName) -> bool {
        let record = self.records.get(&node);
        record.is_some_and(|record| record.body.publishers.iter().any(|(found, _)| found == name))
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

    /// Returns the other nodes that links lead to within some hops, and that have a link to
    /// themselves: their internal one.
    pub fn nodes_along(
        &self,
        hops: u8,
        is_link: impl Fn(NodeId, NodeId) -> bool,
    ) -> BTreeSet<NodeId> {
        let (mut found, mut last) = (BTreeSet::from([self.node]), vec![self.node]);
        for _ in 0..hops {
            let records = last.iter().filter_map(|node| Some((*node, self.records.get(node)?)));
            let links = records.flat_map(|(node, record)| {
                record.body.neighbours.iter().map(move |next| (node, *next))
            });
            let used =
                links.filter(|(node, next)| self.paths.contains_key(next) && is_link(*node, *next));
            let next: Vec<NodeId> = used.map(|(_, next)| next).collect();
            last = next.into_iter().filter(|node| found.insert(*node)).collect();
        }
        found.retain(|node| *node != self.node && is_link(*node, *node));
        found
    }

    /// Returns whether hellos come from an address.
    fn is_neighbour(&self, from: LinkAddress) -> bool {
        self.neighbours.keys().any(|(_, address)| *address == from)
    }

    /// Returns whether the record of a node is known.
    pub fn knows(&self, node: NodeId) -> bool {
        self.records.contains_key(&node)
    }

    /// Returns the version of this node's record. 0: there is none yet.
    pub fn own_version(&self) -> u64 {
        self.records.get(&self.node).map_or(0, |record| record.version)
    }

    /// Returns the addresses of all neighbours.
    pub fn addresses(&self) -> impl Iterator<Item = (NodeId, LinkAddress)> {
        self.neighbours.keys().copied()
    }

    /// Returns neighbours that hear this node, each with its first address.
    pub fn neighbours(&self) -> impl Iterator<Item = (NodeId, LinkAddress)> {
        let mut last = None;
        let two_way = self.neighbours.iter().filter(|(_, neighbour)| neighbour.hears_us);
        two_way.map(|((node, address), _)| (*node, *address)).filter(move |(node, _)| {
            let is_first = last != Some(*node);
            last = Some(*node);
            is_first
        })
    }
}
