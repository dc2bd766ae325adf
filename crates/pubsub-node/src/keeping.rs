//! Publications of publishers that have ended: kept by nodes that had them, also of nodes that are
//! gone, and passed to late subscribers anywhere in the domain.
//!
//! A node keeps the items that its applications published or subscribed to, and those that
//! `pubsub.keep` names. While the publisher's node is there, it alone offers them to nodes that
//! subscribe; after that two of the nodes that had them do, by rank. Invariants: what a node does
//! not follow any more is not kept; a value never takes the place of a younger one.

use crate::domain::{FETCHES_MAX, NodeId, RepairRequest};
use crate::last_values::PUBLICATIONS_MAX;
use crate::node::Node;
use crate::publisher::Origin;
use crate::rules::Party;
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::{Event, Fragment, ItemName, ScopePattern};
use std::collections::{BTreeMap, BTreeSet};

/// Items of an ending publisher above which their last values are kept only: history is searched
/// for in the ring, which takes time for each.
const HISTORY_ITEMS_MAX: usize = 8;
/// Nodes that offer the same item.
const OFFERING_NODES: usize = 2;
/// Nodes that are known to have an item at most.
const HOLDERS_MAX: usize = 8;

/// An item that is fetched from another node.
#[derive(Debug)]
struct Fetch {
    /// When the other node had its last publication, milliseconds of this node's clock.
    kept_ms: u64,
    /// The last publication that this node had before.
    after: u64,
    keepers: Vec<NodeId>,
}

/// What this node knows about keeping.
#[derive(Debug, Default)]
pub struct Keeping {
    /// Items of other nodes that this node follows without any application.
    pub patterns: Vec<ScopePattern>,
    /// Patterns of other nodes, as of a version of their records, that offers were made for.
    offered: BTreeMap<NodeId, (u64, BTreeSet<ScopePattern>)>,
    /// Nodes that can't be reached and whose items were kept.
    lost: BTreeSet<NodeId>,
    fetches: BTreeMap<(NodeId, ItemName), Fetch>,
}

impl Keeping {
    /// Returns whether this node follows an item without any application.
    pub fn follows(&self, name: &ItemName) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// Returns the rank of a node among those that have an item; the lowest ones offer it.
fn rank(name: &ItemName, node: NodeId) -> u64 {
    let bytes = name.as_str().bytes().chain(node.0.to_be_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Node {
    /// Returns this node, or node 0 without a domain.
    pub(crate) fn own_node(&self) -> NodeId {
        self.domain.as_ref().map_or(NodeId(0), |domain| domain.node())
    }

    /// Keeps the last publications of an item, as far as the ring has them.
    pub(crate) fn keep_item(&mut self, id: PublisherId, number: u32) {
        let now_ms = self.domain.as_ref().map_or(0, |domain| domain.now_ms());
        let own_node = self.own_node();
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let origin = match publisher.origin {
            Origin::Application => own_node,
            Origin::Node(node) => node,
        };
        let depth = if publisher.items.len() > HISTORY_ITEMS_MAX { 1 } else { PUBLICATIONS_MAX };
        let Some(item) = publisher.items.get(&number).filter(|item| item.keeps_last) else {
            return;
        };
        let is_for_all = !item.later_use().is_bound;
        let (name, rule, begin) = (item.name.clone(), item.rule, item.begin);
        let Some(ring) = &mut publisher.ring else { return };
        // What was kept of a lost node is not kept again, as if it were younger.
        if self.keeping.lost.contains(&origin) && self.last_values.get(&name).is_some() {
            return;
        }
        for (sequence, payload) in ring.history(number, depth, begin) {
            if self.rules.check_signature(rule, &name, sequence, &payload).is_ok() {
                self.last_values.insert(&name, origin, (sequence, &payload), now_ms);
            }
        }
        if is_for_all {
            let holders = if origin == own_node { Vec::new() } else { self.holders(&name) };
            self.last_values.open(&name, holders);
        }
    }

    /// Returns the nodes that follow an item, this one included, in the order of their ranks.
    fn holders(&self, name: &ItemName) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.subscribed_nodes(name).into_iter().collect();
        nodes.push(self.own_node());
        nodes.sort_unstable_by_key(|node| rank(name, *node));
        nodes.truncate(HOLDERS_MAX);
        nodes
    }

    fn subscribed_nodes(&self, name: &ItemName) -> BTreeSet<NodeId> {
        self.domain.as_ref().map_or_else(BTreeSet::new, |domain| domain.subscribed_nodes(name))
    }

    /// Returns whether a publisher that can be reached has published under a name.
    pub(crate) fn has_live_value(&self, name: &ItemName) -> bool {
        self.index.named(name).any(|(id, number)| {
            self.publishers.get(&id).is_some_and(|publisher| {
                let ring = publisher.ring.as_ref();
                let sequence = ring.and_then(|ring| ring.reader.sequence(number));
                sequence.is_some_and(|sequence| sequence > 0) && self.is_live(publisher.origin)
            })
        })
    }

    /// Returns whether the node of a publisher can be reached.
    pub(crate) fn is_live(&self, origin: Origin) -> bool {
        match (origin, &self.domain) {
            (Origin::Node(node), Some(domain)) => domain.is_reachable(node),
            _ => true,
        }
    }

    /// Keeps the items of nodes that can't be reached any more, and offers what is kept to nodes
    /// that lack it, after a change of the domain.
    pub(crate) fn update_kept(&mut self) {
        let Some(domain) = &self.domain else { return };
        let mut targets: BTreeMap<ItemName, BTreeSet<NodeId>> = BTreeMap::new();
        let origins = self.last_values.iter().map(|(_, value)| value.origin);
        let origins: BTreeSet<NodeId> = origins.chain(self.remotes.keys().copied()).collect();
        let lost: BTreeSet<NodeId> =
            origins.into_iter().filter(|node| !domain.is_reachable(*node)).collect();
        let newly: Vec<NodeId> = lost.difference(&self.keeping.lost).copied().collect();
        self.keeping.lost.retain(|node| lost.contains(node));
        for node in newly {
            let id = self.remotes.get(&node).copied();
            let items = id.and_then(|id| self.publishers.get(&id)).map(|found| &found.items);
            let numbers: Vec<u32> =
                items.into_iter().flatten().map(|(number, _)| *number).collect();
            for (id, number) in numbers.into_iter().filter_map(|number| id.map(|id| (id, number))) {
                self.keep_item(id, number);
            }
            self.keeping.lost.insert(node);
            // Nodes that have subscribed may have missed the last ones.
            for (name, _) in self.last_values.iter().filter(|(_, value)| value.origin == node) {
                targets.insert(name.clone(), self.subscribed_nodes(name));
            }
        }
        for (node, patterns) in self.new_patterns() {
            for name in patterns.iter().flat_map(|pattern| self.last_values.matching(pattern)) {
                targets.entry(name).or_default().insert(node);
            }
        }
        for (name, nodes) in targets {
            self.offer_kept(&name, nodes);
        }
    }

    /// Returns the patterns of other nodes that are new since the last call.
    fn new_patterns(&mut self) -> Vec<(NodeId, Vec<ScopePattern>)> {
        let Some(domain) = &self.domain else { return Vec::new() };
        let offered = &mut self.keeping.offered;
        offered.retain(|node, _| domain.is_reachable(*node));
        let mut found = Vec::new();
        for (node, version, patterns) in domain.subscriptions() {
            let entry = offered.entry(node).or_default();
            if entry.0 == version {
                continue;
            }
            let now: BTreeSet<ScopePattern> = patterns.iter().cloned().collect();
            found.push((node, now.difference(&entry.1).cloned().collect()));
            *entry = (version, now);
        }
        found
    }

    /// Offers an item to nodes, if this node is one of those that do.
    fn offer_kept(&mut self, name: &ItemName, nodes: BTreeSet<NodeId>) {
        let Some(value) = self.last_values.get(name) else { return };
        let Some(domain) = &self.domain else { return };
        let own_node = domain.node();
        let is_responsible = value.origin == own_node
            || !domain.is_reachable(value.origin) && {
                let there = value.holders.iter().filter(|node| domain.is_reachable(**node));
                there.take(OFFERING_NODES).any(|node| *node == own_node)
            };
        let may = self.rules.may_subscribe(self.rules.find(name), Party::Remote);
        if !is_responsible || !value.is_for_all || !may || self.has_live_value(name) {
            return;
        }
        let (origin, numbers, kept_ms) = (value.origin, value.range(), value.kept_ms);
        if let Some(domain) = &mut self.domain {
            domain.offer(name, origin, numbers, kept_ms, nodes);
        }
    }

    /// Takes an offer of another node: fetches what applications of this node want of it.
    pub(crate) fn receive_offer(
        &mut self,
        key: (NodeId, ItemName),
        keeper: NodeId,
        (mut first, last): (u64, u64),
        kept_ms: u64,
    ) {
        let (origin, name) = &key;
        let is_valid = first <= last && last < u64::MAX;
        if !is_valid || !self.rules.may_publish(self.rules.find(name), Party::Remote) {
            self.counters.refusals += 1;
            return;
        }
        let Some(domain) = &self.domain else { return };
        if domain.is_reachable(*origin) && keeper != *origin {
            return;
        }
        let mut after = 0;
        if let Some((id, number)) = self.remote_item(*origin, name) {
            // Subscribers still have the item: they get what they missed of it.
            let ring = self.publishers.get(&id).and_then(|publisher| publisher.ring.as_ref());
            let known = ring.and_then(|ring| ring.reader.sequence(number)).unwrap_or(0);
            first = first.max(known + 1);
        } else {
            let kept = self.last_values.get(name);
            let same = kept.filter(|kept| kept.origin == *origin);
            after = same.map_or(0, |kept| kept.range().1);
            let is_younger = kept.is_none_or(|kept| kept.kept_ms < kept_ms);
            let is_known = after >= last || same.is_none() && !is_younger;
            if is_known || self.has_live_value(name) {
                return;
            }
            let wanted = u64::from(self.wanted_publications(name).min(PUBLICATIONS_MAX));
            first = first.max(after + 1).max((last + 1).saturating_sub(wanted));
        }
        let fetches = &mut self.keeping.fetches;
        let is_full = fetches.len() >= FETCHES_MAX && !fetches.contains_key(&key);
        if first > last || is_full {
            return;
        }
        let new = || Fetch { kept_ms, after, keepers: Vec::new() };
        let keepers = &mut fetches.entry(key.clone()).or_insert_with(new).keepers;
        if keepers.len() < HOLDERS_MAX && !keepers.contains(&keeper) {
            keepers.push(keeper);
        }
        if let Some(domain) = &mut self.domain {
            domain.fetch(&key, keeper, (first, last));
        }
    }

    /// Returns how many earlier publications of an item are wanted at this node.
    fn wanted_publications(&self, name: &ItemName) -> u32 {
        if self.keeping.follows(name) {
            return PUBLICATIONS_MAX;
        }
        self.sessions
            .values()
            .filter_map(|session| session.subscriptions.matches(name))
            .max()
            .unwrap_or(0)
    }

    /// Takes a publication that another node kept.
    pub(crate) fn receive_kept(
        &mut self,
        node: NodeId,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
    ) {
        let Some(fetch) = self.keeping.fetches.get(&(node, name.clone())) else { return };
        let rule = self.rules.find(name);
        match self.rules.check_signature(rule, name, sequence, payload) {
            Ok(()) => self.last_values.insert(name, node, (sequence, payload), fetch.kept_ms),
            Err(_) => self.counters.refused_signatures += 1,
        }
    }

    /// Passes on what was fetched of an item, now that nothing of it is missing.
    pub(crate) fn end_fetch(&mut self, node: NodeId, name: &ItemName) {
        let Some(fetch) = self.keeping.fetches.remove(&(node, name.clone())) else { return };
        let own_node = self.own_node();
        let mut holders = fetch.keepers;
        holders.push(own_node);
        holders.truncate(HOLDERS_MAX);
        if !self.last_values.open(name, holders) {
            return;
        }
        let wanting = self.sessions.iter().filter_map(|(id, session)| {
            let wanted = session.subscriptions.matches(name);
            wanted.filter(|count| *count > 0).map(|count| (*id, count))
        });
        for (id, count) in wanting.collect::<Vec<_>>() {
            self.send_kept(id, name, count, fetch.after);
        }
    }

    /// Sends an application the last `count` publications kept of an item, after number `after`.
    pub(crate) fn send_kept(&mut self, id: SessionId, name: &ItemName, count: u32, after: u64) {
        let Some(value) = self.last_values.get(name) else { return };
        let rule = self.rules.find(name);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if !self.rules.may_subscribe(rule, session.party()) {
            return;
        }
        let shown = session.shown_name(name);
        let publications: Vec<(u64, Vec<u8>)> = value
            .history
            .iter()
            .rev()
            .take_while(|(sequence, _)| *sequence > after)
            .take(count as usize)
            .map(|(sequence, payload)| (sequence, payload.to_vec()))
            .collect();
        let Some((last, _)) = publications.first() else { return };
        let (last, item, source) = (*last, self.new_item_id(), u32::MAX);
        let (position, reads_last, name) = (0, true, shown);
        let begin = Event::Item { source, item, position, after: last, reads_last, name };
        self.send(id, &begin, None, false);
        for (sequence, payload) in publications.into_iter().rev() {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            if !session.has_relay_space(payload.len()) {
                continue;
            }
            session.relayed += 1;
            for fragment in Fragment::parts(sequence, &payload) {
                let data = Event::Data { item, is_last_value: true, fragment };
                self.send_data(id, &data);
            }
        }
        self.send(id, &Event::ItemEnd { source, item, last }, None, false);
    }

    /// Sends another node the kept publications that it requests.
    pub(crate) fn answer_kept(
        &mut self,
        node: NodeId,
        (origin, name): (NodeId, &ItemName),
        request: &RepairRequest,
    ) {
        let may = self.rules.may_subscribe(self.rules.find(name), Party::Remote);
        let value = self
            .last_values
            .get(name)
            .filter(|value| may && value.is_for_all && value.origin == origin);
        if let Some(domain) = &mut self.domain {
            domain.answer_kept(node, (origin, name), request, value.map(|value| &value.history));
        }
    }

    /// Drops what is kept of items that this node does not follow any more, while their publisher's
    /// node is there: a later publication would not be noticed.
    pub(crate) fn drop_unfollowed_values(&mut self) {
        let Some(domain) = &self.domain else { return };
        let own_node = domain.node();
        let is_followed = |name: &ItemName| {
            self.keeping.follows(name) || !self.index.subscribers(name).is_empty()
        };
        let others = self
            .last_values
            .iter()
            .filter(|(_, value)| value.origin != own_node && domain.is_reachable(value.origin));
        let unfollowed = others.filter(|(name, _)| !is_followed(name));
        for name in unfollowed.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.last_values.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
