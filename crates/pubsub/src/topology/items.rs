//! Items with their publishers and subscribers, and which publisher serves which subscribers.

use super::Delivery;
use super::network::{Network, Node};
use super::paths::Paths;
use super::tree::Tree;
use crate::filter::Criterion;
use crate::rendezvous::{ItemKey, MembershipChange};
use crate::strategy::{ItemOptions, PublisherChoice};
use nw_wire::publication::{DeliveryChange, Fid, Id};
use std::collections::{BTreeMap, BTreeSet};

/// Most identifiers in a delivery: their count is one byte.
const IDS_MAX: usize = 255;

/// What an item's functions use.
pub(super) struct Context<'a> {
    pub(super) key: ItemKey,
    pub(super) network: &'a mut Network,
    pub(super) paths: &'a mut BTreeMap<Node, Paths>,
    pub(super) criterion: Criterion,
    pub(super) deliveries: &'a mut Vec<Delivery>,
    /// Version of the last delivery.
    pub(super) last_version: &'a mut u32,
}

/// A publisher's node.
#[derive(Clone, Debug, Default)]
struct Source {
    strength: u8,
    tree: Tree,
}

/// An item with at least one publisher.
#[derive(Clone, Debug)]
pub(super) struct Item {
    version: u32,
    options: ItemOptions,
    ids: Vec<Id>,
    sources: BTreeMap<Node, Source>,
    subscribers: BTreeSet<Node>,
    /// Subscribers without a path from a publisher, or with one too long for a filter.
    unreachable: BTreeSet<Node>,
}

/// Parts of a publisher's tree that changed.
type Changes = BTreeSet<(Node, usize)>;

impl Item {
    pub(super) fn new(change: &MembershipChange) -> Self {
        Item {
            version: change.version.wrapping_sub(1),
            options: change.options,
            ids: Vec::new(),
            sources: BTreeMap::new(),
            subscribers: BTreeSet::new(),
            unreachable: BTreeSet::new(),
        }
    }

    pub(super) fn publishers(&self) -> impl Iterator<Item = Node> + '_ {
        self.sources.keys().copied()
    }

    pub(super) fn tree(&self, publisher: Node) -> Option<&Tree> {
        self.sources.get(&publisher).map(|source| &source.tree)
    }

    pub(super) fn unreachable(&self) -> impl Iterator<Item = Node> + '_ {
        self.unreachable.iter().copied()
    }

    /// Applies a change. One with an older version than the item's is ignored.
    pub(super) fn apply(&mut self, change: &MembershipChange, context: &mut Context<'_>) {
        if change.version.wrapping_sub(self.version) as i32 <= 0 {
            return;
        }
        self.version = change.version;
        self.options = change.options;
        let ids_changed = !change.ids.is_empty();
        if ids_changed {
            self.ids = change.ids.iter().take(IDS_MAX).cloned().collect();
        }
        let mut changes = Changes::new();
        self.change_publishers(change, &mut changes, context);
        for label in &change.subscribers_left {
            if let Some(node) = context.network.find(*label) {
                self.subscribers.remove(&node);
                self.unreachable.remove(&node);
                self.leave_all(node, &mut changes, context);
            }
        }
        for label in &change.subscribers_joined {
            if let Some(node) = context.network.find_or_insert(*label) {
                self.subscribers.insert(node);
                self.serve(node, &mut changes, context);
            }
        }
        if ids_changed {
            for (node, source) in &self.sources {
                changes.extend((0..source.tree.parts().len()).map(|part| (*node, part)));
            }
        }
        self.emit(&changes, context);
    }

    fn change_publishers(
        &mut self,
        change: &MembershipChange,
        changes: &mut Changes,
        context: &mut Context<'_>,
    ) {
        for label in &change.publishers_left {
            if let Some(node) = context.network.find(*label)
                && let Some(source) = self.sources.remove(&node)
            {
                let parts = 0..source.tree.parts().len().max(1);
                changes.extend(parts.map(|part| (node, part)));
            }
        }
        for publisher in &change.publishers_joined {
            let Some(node) = context.network.find_or_insert(publisher.client) else { continue };
            self.sources.entry(node).or_default().strength = publisher.strength;
            let network = &*context.network;
            context.paths.entry(node).or_insert_with(|| Paths::compute(network, node));
            // A publisher without subscribers is told so.
            changes.insert((node, 0));
        }
        if !change.publishers_left.is_empty() || !change.publishers_joined.is_empty() {
            self.serve_all(changes, context);
        }
    }

    /// Returns the publishers that serve a subscriber, if there are paths.
    fn serving(&self, subscriber: Node, context: &Context<'_>) -> Vec<Node> {
        let reaches = |node: &Node| {
            context.paths.get(node).is_some_and(|paths| paths.is_reachable(subscriber))
        };
        let reaching = self.sources.iter().filter(|(node, _)| reaches(node));
        let label = |node: Node| context.network.label(node);
        match self.options.choice {
            PublisherChoice::All => reaching.map(|(node, _)| *node).collect(),
            PublisherChoice::Nearest => {
                let cost = |node: Node| context.paths[&node].cost(subscriber);
                let nearest = reaching.map(|(node, _)| *node).min_by_key(|n| (cost(*n), label(*n)));
                nearest.into_iter().collect()
            }
            PublisherChoice::Strongest => {
                let strongest = reaching
                    .min_by_key(|(node, s)| (core::cmp::Reverse(s.strength), label(**node)));
                strongest.map(|(node, _)| *node).into_iter().collect()
            }
        }
    }

    /// Brings a subscriber into the trees of the publishers that serve it, and out of others.
    fn serve(&mut self, subscriber: Node, changes: &mut Changes, context: &Context<'_>) {
        let serving = self.serving(subscriber, context);
        for (node, source) in &mut self.sources {
            let Some(paths) = context.paths.get(node) else { continue };
            let (network, how) = (&*context.network, context.criterion);
            let part = match serving.contains(node) {
                true => source.tree.join(subscriber, *node, network, paths, how),
                false => source.tree.leave(subscriber, *node, network, paths, how),
            };
            changes.extend(part.map(|part| (*node, part)));
        }
        let is_reached = |source: &Source| source.tree.has_subscriber(subscriber);
        match self.sources.values().any(is_reached) {
            true => self.unreachable.remove(&subscriber),
            false => self.unreachable.insert(subscriber),
        };
    }

    fn serve_all(&mut self, changes: &mut Changes, context: &Context<'_>) {
        for subscriber in self.subscribers.clone() {
            self.serve(subscriber, changes, context);
        }
    }

    fn leave_all(&mut self, subscriber: Node, changes: &mut Changes, context: &Context<'_>) {
        for (node, source) in &mut self.sources {
            let Some(paths) = context.paths.get(node) else { continue };
            let (network, how) = (&*context.network, context.criterion);
            let part = source.tree.leave(subscriber, *node, network, paths, how);
            changes.extend(part.map(|part| (*node, part)));
        }
    }

    /// Makes the trees of publishers whose paths changed again. Parts that come out the same are
    /// not emitted.
    pub(super) fn rebuild(&mut self, changed: &[Node], context: &mut Context<'_>) {
        let mut before = BTreeMap::new();
        for node in changed {
            if let Some(source) = self.sources.get_mut(node) {
                before.insert(*node, core::mem::take(&mut source.tree));
            }
        }
        let mut changes = Changes::new();
        self.serve_all(&mut changes, context);
        for (node, tree) in &before {
            let after = self.sources[node].tree.parts();
            for part in 0..tree.parts().len().max(after.len()) {
                let known = tree.parts().get(part).map(|p| (p.table(), p.filter()));
                match known == after.get(part).map(|p| (p.table(), p.filter())) {
                    true => changes.remove(&(*node, part)),
                    false => changes.insert((*node, part)),
                };
            }
        }
        self.emit(&changes, context);
    }

    fn emit(&self, changes: &Changes, context: &mut Context<'_>) {
        for (node, part) in changes {
            *context.last_version = context.last_version.wrapping_add(1);
            let known = self.sources.get(node).and_then(|source| source.tree.parts().get(*part));
            let active = known.filter(|part| !part.subscribers().is_empty());
            let change = DeliveryChange {
                item: context.key.0,
                version: *context.last_version,
                part: u16::try_from(*part).unwrap_or(u16::MAX),
                table: active.map_or(0, |part| part.table()),
                subscribers: active.map_or(0, |part| part.subscribers().len() as u32),
                fid: active.map_or(Fid::EMPTY, |part| part.filter()),
                ids: self.ids.clone(),
            };
            let publisher = context.network.label(*node);
            context.deliveries.push(Delivery { publisher, change });
        }
    }
}
