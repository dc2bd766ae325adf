//! The delivery tree of one publisher and item, in parts that each fit one filter.
//!
//! A part is a subtree of the publisher's shortest paths with its subscribers, and the filter of
//! its links. A subscriber is added to the part that needs the fewest new links. What a join costs
//! depends on the length of its path and the number of parts, not on the number of subscribers.

use super::network::{Network, Node};
use super::paths::Paths;
use crate::filter::{
    CANDIDATE_BITS_MAX, CANDIDATES, Criterion, FILL_BITS_MAX, SINGLE_BIT_TABLE, choose,
};
use nw_wire::publication::Fid;
use std::collections::{BTreeMap, BTreeSet};

/// Most parts that are tried for a new subscriber, those with the fewest new links.
const PARTS_TRIED: usize = 4;

/// Filters of a set of links, one for each table.
#[derive(Clone, Debug)]
struct Filters {
    candidates: [Fid; CANDIDATES],
    /// `None` if a link has no identifier of a single bit.
    single_bits: Option<Fid>,
}

impl Filters {
    const EMPTY: Filters =
        Filters { candidates: [Fid::EMPTY; CANDIDATES], single_bits: Some(Fid::EMPTY) };

    fn insert(&mut self, network: &Network, number: u32) {
        for (filter, id) in self.candidates.iter_mut().zip(network.ids(number)) {
            *filter = filter.union(*id);
        }
        let bit = u8::try_from(number).ok().map(Fid::of_bit);
        self.single_bits = self.single_bits.zip(bit).map(|(filter, bit)| filter.union(bit));
    }

    fn has_single_bits(&self) -> bool {
        self.single_bits.is_some_and(|filter| filter.count_ones() <= FILL_BITS_MAX)
    }

    /// Returns whether a filter has at most this many bits, or only single-bit identifiers.
    fn fits(&self, bits_max: u32) -> bool {
        let is_sparse = |filter: &Fid| filter.count_ones() <= bits_max;
        self.has_single_bits() || self.candidates.iter().any(is_sparse)
    }
}

/// A part of a tree.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Subscribers at or below each node of the part but the source: each node stands for the link
    /// that leads to it.
    nodes: BTreeMap<Node, u32>,
    subscribers: BTreeSet<Node>,
    filters: Filters,
    table: u8,
}

impl Part {
    const fn new() -> Self {
        Part {
            nodes: BTreeMap::new(),
            subscribers: BTreeSet::new(),
            filters: Filters::EMPTY,
            table: SINGLE_BIT_TABLE,
        }
    }

    /// Returns the filter in the chosen table.
    pub(crate) fn filter(&self) -> Fid {
        match self.filters.single_bits {
            Some(filter) if self.table == SINGLE_BIT_TABLE => filter,
            _ => self.filters.candidates[usize::from(self.table) % CANDIDATES],
        }
    }

    pub(crate) const fn table(&self) -> u8 {
        self.table
    }

    pub(crate) fn subscribers(&self) -> &BTreeSet<Node> {
        &self.subscribers
    }

    /// Returns the nodes to which the part's links lead.
    pub(crate) fn link_ends(&self) -> impl Iterator<Item = Node> + '_ {
        self.nodes.keys().copied()
    }

    fn new_links(&self, paths: &Paths, subscriber: Node) -> usize {
        paths.way_up(subscriber).take_while(|node| !self.nodes.contains_key(node)).count()
    }

    /// Returns the filters with a subscriber added.
    fn filters_with(&self, network: &Network, paths: &Paths, subscriber: Node) -> Filters {
        let mut filters = self.filters.clone();
        filters.insert(network, network.internal(subscriber));
        for node in paths.way_up(subscriber).take_while(|node| !self.nodes.contains_key(node)) {
            insert_link(&mut filters, network, paths, node);
        }
        filters
    }

    fn join(&mut self, subscriber: Node, paths: &Paths, filters: Filters) {
        paths.way_up(subscriber).for_each(|node| *self.nodes.entry(node).or_default() += 1);
        self.subscribers.insert(subscriber);
        self.filters = filters;
    }

    /// Removes a subscriber. `paths` are those with which it joined.
    fn leave(&mut self, subscriber: Node, network: &Network, paths: &Paths) {
        if !self.subscribers.remove(&subscriber) {
            return;
        }
        for node in paths.way_up(subscriber) {
            if let Some(count) = self.nodes.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    self.nodes.remove(&node);
                }
            }
        }
        let mut filters = Filters::EMPTY;
        for subscriber in &self.subscribers {
            filters.insert(network, network.internal(*subscriber));
        }
        for node in self.nodes.keys() {
            insert_link(&mut filters, network, paths, *node);
        }
        self.filters = filters;
    }

    /// Chooses the table.
    fn choose_table(&mut self, network: &Network, source: Node, paths: &Paths, how: Criterion) {
        if self.filters.has_single_bits() {
            self.table = SINGLE_BIT_TABLE;
            return;
        }
        let nearby = match how {
            Criterion::Fpa => Vec::new(),
            Criterion::Fpr => self.nearby(network, source, paths),
        };
        self.table = choose(&self.filters.candidates, how, &nearby);
    }

    /// Returns the identifiers of links that leave the part's nodes and are not part of it, and of
    /// internal links of nodes that do not subscribe.
    fn nearby<'n>(
        &self,
        network: &'n Network,
        source: Node,
        paths: &Paths,
    ) -> Vec<&'n [Fid; CANDIDATES]> {
        let mut nearby = Vec::new();
        for node in self.nodes.keys().copied().chain([source]) {
            if node != source && !self.subscribers.contains(&node) {
                nearby.push(network.ids(network.internal(node)));
            }
            for link in network.links(node) {
                let is_in_tree = self.nodes.contains_key(&link.to) && paths.before(link.to) == node;
                // A packet does not leave by the face on which it came.
                let is_backwards = node != source && paths.before(node) == link.to;
                if !is_in_tree && !is_backwards {
                    nearby.push(network.ids(link.number));
                }
            }
        }
        nearby
    }
}

/// Adds the link that leads to a node of the tree.
fn insert_link(filters: &mut Filters, network: &Network, paths: &Paths, node: Node) {
    if let Some(link) = network.link(paths.before(node), node) {
        filters.insert(network, link.number);
    }
}

/// The tree of one publisher.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    parts: Vec<Part>,
    /// Part of each subscriber.
    part_of: BTreeMap<Node, usize>,
}

impl Tree {
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Adds a subscriber to which there is a path. Returns the part that changed; `None` if it was
    /// there, or if the path is too long for a filter.
    pub(crate) fn join(
        &mut self,
        subscriber: Node,
        source: Node,
        network: &Network,
        paths: &Paths,
        how: Criterion,
    ) -> Option<usize> {
        if self.part_of.contains_key(&subscriber) {
            return None;
        }
        let mut order: Vec<(usize, usize)> = self
            .parts
            .iter()
            .enumerate()
            .map(|(at, part)| (part.new_links(paths, subscriber), at))
            .collect();
        let tried = PARTS_TRIED.min(order.len());
        if tried > 0 && tried < order.len() {
            order.select_nth_unstable(tried - 1);
        }
        order.truncate(tried);
        order.sort_unstable();
        let fitting = order.into_iter().find_map(|(_, at)| {
            let filters = self.parts[at].filters_with(network, paths, subscriber);
            filters.fits(CANDIDATE_BITS_MAX).then_some((at, filters))
        });
        let (at, filters) = match fitting {
            Some(fitting) => fitting,
            None => self.open_part(subscriber, network, paths)?,
        };
        let part = &mut self.parts[at];
        part.join(subscriber, paths, filters);
        part.choose_table(network, source, paths, how);
        self.part_of.insert(subscriber, at);
        Some(at)
    }

    /// Returns an empty part and the filters of the path to a subscriber. `None` if the path is too
    /// long for a filter that forwarders accept.
    fn open_part(
        &mut self,
        subscriber: Node,
        network: &Network,
        paths: &Paths,
    ) -> Option<(usize, Filters)> {
        let filters = Part::new().filters_with(network, paths, subscriber);
        if !filters.fits(FILL_BITS_MAX) {
            return None;
        }
        let empty = self.parts.iter().position(|part| part.subscribers.is_empty());
        let at = empty.unwrap_or_else(|| {
            self.parts.push(Part::new());
            self.parts.len() - 1
        });
        Some((at, filters))
    }

    /// Returns whether a subscriber is in the tree.
    pub(crate) fn has_subscriber(&self, subscriber: Node) -> bool {
        self.part_of.contains_key(&subscriber)
    }

    /// Removes a subscriber. Returns the part that changed; `None` if it was not there.
    pub(crate) fn leave(
        &mut self,
        subscriber: Node,
        source: Node,
        network: &Network,
        paths: &Paths,
        how: Criterion,
    ) -> Option<usize> {
        let at = self.part_of.remove(&subscriber)?;
        let part = &mut self.parts[at];
        part.leave(subscriber, network, paths);
        part.choose_table(network, source, paths, how);
        Some(at)
    }
}
