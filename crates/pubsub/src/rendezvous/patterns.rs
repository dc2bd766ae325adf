//! Subscriptions to patterns: a tree of labels and wildcards.

use crate::graph::{ClientKey, Graph, ROOT, Slot, VertexKind};
use crate::small_set::SmallSet;
use nw_wire::publication::{Id, Label, SubscriptionScope};
use std::collections::{BTreeMap, BTreeSet};

/// Most labels at whose position a wildcard may be.
const WILDCARD_POSITIONS: usize = 32;

/// Returns whether a pattern has a wildcard at a position.
const fn is_wild(scope: SubscriptionScope, at: usize) -> bool {
    at < WILDCARD_POSITIONS && scope.wildcards & (1 << at) != 0
}

#[derive(Clone, Debug, Default)]
struct Node {
    children: BTreeMap<Label, usize>,
    any: Option<usize>,
    /// Subscribers to items with exactly these labels.
    exact: SmallSet<ClientKey>,
    /// Subscribers to everything below.
    subtree: SmallSet<ClientKey>,
}

impl Node {
    fn is_unused(&self) -> bool {
        self.children.is_empty()
            && self.any.is_none()
            && self.exact.is_empty()
            && self.subtree.is_empty()
    }

    fn next(&self, label: Option<Label>) -> Option<usize> {
        match label {
            Some(label) => self.children.get(&label).copied(),
            None => self.any,
        }
    }
}

type Key = (ClientKey, Id, SubscriptionScope);

/// All subscriptions to patterns. Bounded by their number.
#[derive(Clone, Debug)]
pub(super) struct Patterns {
    nodes: Vec<Node>,
    free: Vec<usize>,
    by_client: BTreeSet<Key>,
    patterns_max: usize,
}

impl Patterns {
    pub(super) fn new(patterns_max: usize) -> Self {
        Patterns {
            nodes: vec![Node::default()],
            free: Vec::new(),
            by_client: BTreeSet::new(),
            patterns_max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_client.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_client.len() >= self.patterns_max
    }

    fn path(id: &Id, scope: SubscriptionScope) -> impl Iterator<Item = Option<Label>> {
        let label = move |(at, label): (usize, &Label)| (!is_wild(scope, at)).then_some(*label);
        id.labels().iter().enumerate().map(label)
    }

    /// Adds a subscription. Returns `false` if it was there.
    pub(super) fn insert(&mut self, client: ClientKey, id: &Id, scope: SubscriptionScope) -> bool {
        if !self.by_client.insert((client, id.clone(), scope)) {
            return false;
        }
        let mut at = 0;
        for label in Self::path(id, scope) {
            at = match self.nodes[at].next(label) {
                Some(next) => next,
                None => self.add_node(at, label),
            };
        }
        let node = &mut self.nodes[at];
        let set = if scope.subtree { &mut node.subtree } else { &mut node.exact };
        set.insert(client);
        true
    }

    fn add_node(&mut self, parent: usize, label: Option<Label>) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() - 1
        });
        match label {
            Some(label) => drop(self.nodes[parent].children.insert(label, at)),
            None => self.nodes[parent].any = Some(at),
        }
        at
    }

    /// Removes a subscription. Returns `false` if there was none.
    pub(super) fn remove(&mut self, client: ClientKey, id: &Id, scope: SubscriptionScope) -> bool {
        if !self.by_client.remove(&(client, id.clone(), scope)) {
            return false;
        }
        let mut way = vec![(0, None)];
        for label in Self::path(id, scope) {
            let (at, _) = way[way.len() - 1];
            let next = self.nodes[at].next(label).expect("the pattern was inserted");
            way.push((next, Some(label)));
        }
        let (last, _) = way[way.len() - 1];
        let node = &mut self.nodes[last];
        let set = if scope.subtree { &mut node.subtree } else { &mut node.exact };
        set.remove(&client);
        while let [.., (parent, _), (at, Some(label))] = way[..]
            && self.nodes[at].is_unused()
        {
            match label {
                Some(label) => drop(self.nodes[parent].children.remove(&label)),
                None => self.nodes[parent].any = None,
            }
            self.free.push(at);
            way.pop();
        }
        true
    }

    /// Returns the subscriptions of a client.
    pub(super) fn of_client(&self, client: ClientKey) -> Vec<(Id, SubscriptionScope)> {
        let first = (client, Id::default(), SubscriptionScope::default());
        let own = self.by_client.range(first..).take_while(|(known, ..)| *known == client);
        own.map(|(_, id, scope)| (id.clone(), *scope)).collect()
    }

    /// Adds the clients whose patterns match an item's identifier.
    pub(super) fn collect(&self, id: &Id, clients: &mut Vec<ClientKey>) {
        if self.by_client.is_empty() {
            return;
        }
        let mut active = vec![0];
        for label in id.labels() {
            active.iter().for_each(|at| clients.extend(self.nodes[*at].subtree.as_slice()));
            let next = |at: &usize| {
                let node = &self.nodes[*at];
                [node.children.get(label).copied(), node.any].into_iter().flatten()
            };
            active = active.iter().flat_map(next).collect();
        }
        active.iter().for_each(|at| clients.extend(self.nodes[*at].exact.as_slice()));
    }
}

/// Returns the items that a pattern matches, each once, in the order of slots.
pub(super) fn matching_items(graph: &Graph, id: &Id, scope: SubscriptionScope) -> Vec<Slot> {
    let mut level: BTreeSet<Slot> = BTreeSet::from([ROOT]);
    for (at, label) in id.labels().iter().enumerate() {
        level = match is_wild(scope, at) {
            true => level.iter().flat_map(|slot| graph.children(*slot)).collect(),
            false => level.iter().filter_map(|slot| graph.child(*slot, *label)).collect(),
        };
    }
    if scope.subtree {
        let mut pending: Vec<Slot> = level.into_iter().collect();
        level = BTreeSet::new();
        while let Some(slot) = pending.pop() {
            let new = graph.children(slot).filter(|child| level.insert(*child));
            pending.extend(new.collect::<Vec<_>>());
        }
    }
    level.into_iter().filter(|slot| is_item(graph, *slot)).collect()
}

fn is_item(graph: &Graph, slot: Slot) -> bool {
    graph.vertex(slot).kind == VertexKind::Item
}
