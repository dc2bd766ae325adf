//! The topology function: from link state and memberships to deliveries.
//!
//! ```text
//! LinkAdvertisement ─▶ Network ─▶ Paths, one set for each publishing node ─┐
//! MembershipChange ──▶ items: publishers, subscribers ─▶ Tree, in parts ◀──┘
//!                                                          │
//!                          Delivery: publisher, part, table, FID ◀─┘   only what changed
//! ```
//!
//! A tree whose links do not fit one filter has several parts; a publication is sent once for each.
//! A subscriber that cannot be reached is remembered and added once there is a path.

mod items;
mod network;
mod paths;
mod tree;

use crate::filter::{Criterion, LinkScheme};
use crate::leases::Leases;
use crate::rendezvous::{ItemKey, MembershipChange};
use items::Item;
use network::{LinkChange, Network, Node};
use nw_packet_types::Timestamp;
use nw_wire::publication::{Assignment, DeliveryChange, Fid, Label, LinkAdvertisement};
use paths::Paths;
use std::collections::{BTreeMap, BTreeSet};
use tree::Tree;

/// Settings of the topology function.
#[derive(Clone, Copy, Debug)]
pub struct TopologyConfig {
    /// How link identifiers are computed; the same in every node of the domain.
    pub scheme: LinkScheme,
    /// How the filter of a tree is chosen.
    pub criterion: Criterion,
    /// Most nodes.
    pub nodes_max: usize,
    /// Most unidirectional links.
    pub links_max: usize,
    /// Most items.
    pub items_max: usize,
    /// Milliseconds after its last advertisement when a node is gone; 0 for never.
    pub node_lease_ms: u64,
}

impl Default for TopologyConfig {
    fn default() -> Self {
        TopologyConfig {
            scheme: LinkScheme::default(),
            criterion: Criterion::default(),
            nodes_max: 65_536,
            links_max: 1 << 20,
            items_max: 4_000_000,
            node_lease_ms: 0,
        }
    }
}

/// Sets of paths that are kept without being in use by an item.
const PATHS_KEPT: usize = 1024;

/// What a publisher's node must send an item by from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The publisher's node.
    pub publisher: Label,
    /// One part of the publisher's tree.
    pub change: DeliveryChange,
}

/// A path to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unicast {
    /// Number of the table that the link identifiers are from.
    pub table: u8,
    /// The forwarding identifier, with the internal link of the destination.
    pub fid: Fid,
    /// Links on the path.
    pub hops: usize,
}

/// A link of a delivery tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLink {
    /// Number of the part.
    pub part: u16,
    /// The node that sends.
    pub from: Label,
    /// The node that receives.
    pub to: Label,
    /// Whether the receiving node has subscribers.
    pub subscribed: bool,
}

/// The topology function of a domain.
#[derive(Clone, Debug)]
pub struct Topology {
    config: TopologyConfig,
    network: Network,
    paths: BTreeMap<Node, Paths>,
    items: BTreeMap<ItemKey, Item>,
    leases: Leases<Label>,
    deliveries: Vec<Delivery>,
    last_version: u32,
}

impl Topology {
    /// Creates a topology function that knows no node.
    pub fn new(config: TopologyConfig) -> Self {
        Topology {
            config,
            network: Network::new(config.scheme, config.nodes_max, config.links_max),
            paths: BTreeMap::new(),
            items: BTreeMap::new(),
            leases: Leases::new(config.node_lease_ms),
            deliveries: Vec::new(),
            last_version: 0,
        }
    }

    /// Returns the settings.
    pub const fn config(&self) -> &TopologyConfig {
        &self.config
    }

    /// Applies a node's advertisement, and returns the deliveries that change.
    pub fn advertise(
        &mut self,
        advertisement: &LinkAdvertisement,
        now: Timestamp,
    ) -> Vec<Delivery> {
        if self.config.node_lease_ms > 0 {
            self.leases.renew(advertisement.node, now);
        }
        let changes = self.network.advertise(advertisement);
        self.apply_link_changes(&changes)
    }

    /// Takes all links of a node down, and returns the deliveries that change.
    pub fn remove_node(&mut self, label: Label) -> Vec<Delivery> {
        self.leases.remove(label);
        let Some(node) = self.network.find(label) else { return Vec::new() };
        let changes = self.network.remove_node(node);
        self.apply_link_changes(&changes)
    }

    /// Removes nodes that did not advertise their links in time.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while let Some(node) = self.leases.take_expired(now) {
            deliveries.append(&mut self.remove_node(node));
        }
        deliveries
    }

    /// Returns when [`expire`](Self::expire) is to be called.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.leases.deadline()
    }

    fn apply_link_changes(&mut self, changes: &[LinkChange]) -> Vec<Delivery> {
        if changes.is_empty() {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for (source, paths) in &mut self.paths {
            if paths.update(&self.network, changes) {
                changed.push(*source);
            }
        }
        let uses_changed = |item: &Item| item.publishers().any(|node| changed.contains(&node));
        let keys: Vec<ItemKey> =
            self.items.iter().filter(|(_, item)| uses_changed(item)).map(|(key, _)| *key).collect();
        for key in keys {
            self.with_item(key, |item, context| item.rebuild(&changed, context));
        }
        core::mem::take(&mut self.deliveries)
    }

    /// Applies a change of an item's membership, and returns the deliveries that change. Changes
    /// out of date are ignored.
    pub fn apply(&mut self, change: &MembershipChange) -> Vec<Delivery> {
        if !self.items.contains_key(&change.item) {
            if change.ended || self.items.len() >= self.config.items_max {
                return Vec::new();
            }
            self.items.insert(change.item, Item::new(change));
        }
        self.with_item(change.item, |item, context| item.apply(change, context));
        if change.ended {
            self.items.remove(&change.item);
        }
        if !change.publishers_left.is_empty() && self.paths.len() > PATHS_KEPT {
            self.forget_unused_paths();
        }
        core::mem::take(&mut self.deliveries)
    }

    fn forget_unused_paths(&mut self) {
        let used: BTreeSet<Node> = self.items.values().flat_map(Item::publishers).collect();
        self.paths.retain(|source, _| used.contains(source));
    }

    /// Calls a function with an item and what it needs.
    fn with_item(&mut self, key: ItemKey, run: impl FnOnce(&mut Item, &mut items::Context<'_>)) {
        let Some(mut item) = self.items.remove(&key) else { return };
        let mut context = items::Context {
            key,
            network: &mut self.network,
            paths: &mut self.paths,
            criterion: self.config.criterion,
            deliveries: &mut self.deliveries,
            last_version: &mut self.last_version,
        };
        run(&mut item, &mut context);
        self.items.insert(key, item);
    }

    /// Returns the path from one node to another. `None` if there is none.
    pub fn unicast(&mut self, from: Label, to: Label) -> Option<Unicast> {
        let (source, node) = (self.network.find(from)?, self.network.find(to)?);
        let network = &self.network;
        let computed;
        let paths = match self.paths.get(&source) {
            Some(paths) => paths,
            None if self.paths.len() < PATHS_KEPT => {
                self.paths.entry(source).or_insert_with(|| Paths::compute(network, source))
            }
            None => {
                computed = Paths::compute(network, source);
                &computed
            }
        };
        if !paths.is_reachable(node) {
            return None;
        }
        let mut tree = Tree::default();
        tree.join(node, source, network, paths, self.config.criterion)?;
        let part = &tree.parts()[0];
        let hops = paths.way_up(node).count();
        Some(Unicast { table: part.table(), fid: part.filter(), hops })
    }

    /// Returns the link identifiers of a node, by numbers. `None` if the node is unknown.
    pub fn assignment(&self, node: Label) -> Option<Assignment> {
        self.network.find(node).map(|node| self.network.assignment(node))
    }

    /// Takes the assignments that changed since the last call: nodes with new links.
    pub fn take_changed_assignments(&mut self) -> Vec<Assignment> {
        self.network.take_changed_assignments()
    }

    /// Returns the links of an item's delivery tree from one publisher.
    pub fn tree_links(&self, item: ItemKey, publisher: Label) -> Vec<TreeLink> {
        let known = self.network.find(publisher).zip(self.items.get(&item));
        let Some((source, item)) = known else { return Vec::new() };
        let Some((tree, paths)) = item.tree(source).zip(self.paths.get(&source)) else {
            return Vec::new();
        };
        let of_part = |(at, part): (usize, &tree::Part)| -> Vec<TreeLink> {
            let link = |to: Node| TreeLink {
                part: at as u16,
                from: self.network.label(paths.before(to)),
                to: self.network.label(to),
                subscribed: part.subscribers().contains(&to),
            };
            part.link_ends().map(link).collect()
        };
        tree.parts().iter().enumerate().flat_map(of_part).collect()
    }

    /// Returns the subscriber nodes of an item to which there is no path, or only one that is too
    /// long for a filter (some 60 links).
    pub fn unreachable(&self, item: ItemKey) -> Vec<Label> {
        let Some(item) = self.items.get(&item) else { return Vec::new() };
        item.unreachable().map(|node| self.network.label(node)).collect()
    }

    /// Returns the number of nodes, and of items with publishers.
    pub fn size(&self) -> (usize, usize) {
        (self.network.len(), self.items.len())
    }
}
