//! The information graph: a directed acyclic graph of scopes and items.
//!
//! ```text
//! vertices: [ root | scope | item | … ]    one slot each: label, parents, members
//! children: (parent slot, label) ─▶ slot   sorted, so that children of a scope are a range
//! clients:  label ─▶ number                  publishers and subscribers are numbers of clients
//! ```
//!
//! A vertex has one label and one or more parents; each way from the root is one of its full
//! identifiers. Every vertex but the root has a parent, there is no cycle, and an item has no
//! children. The graph has no rules about who may do what: those are in [`crate::rendezvous`].

mod clients;

pub use clients::ClientKey;

use crate::small_set::SmallSet;
use crate::strategy::{ItemOptions, Strategy};
use clients::Clients;
use nw_wire::publication::{Id, LABELS_MAX, Label};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a vertex's slot.
pub(crate) type Slot = u32;

/// Slot of the vertex above all root scopes.
pub(crate) const ROOT: Slot = 0;

/// What a vertex is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VertexKind {
    /// A scope.
    Scope,
    /// An item.
    Item,
}

/// A scope or an item.
#[derive(Clone, Debug)]
pub(crate) struct Vertex {
    pub(crate) label: Label,
    /// Changes when the slot is used for another vertex.
    pub(crate) generation: u32,
    /// Version of an item's membership.
    pub(crate) version: u32,
    /// Subscribers of an item, including those of its scopes and patterns, while it has publishers.
    pub(crate) subscriber_count: u32,
    pub(crate) kind: VertexKind,
    pub(crate) strategy: Strategy,
    pub(crate) options: ItemOptions,
    pub(crate) parents: SmallSet<Slot>,
    /// Publishers, by the parent under which they published it.
    pub(crate) publishers: SmallSet<(Slot, ClientKey)>,
    /// Subscribers, by the parent under which they subscribed to it.
    pub(crate) subscribers: SmallSet<(Slot, ClientKey)>,
}

impl Vertex {
    /// Returns the publishers, sorted, each once.
    pub(crate) fn publisher_clients(&self) -> Vec<ClientKey> {
        distinct(self.publishers.as_slice())
    }

    /// Returns the subscribers, sorted, each once.
    pub(crate) fn subscriber_clients(&self) -> Vec<ClientKey> {
        distinct(self.subscribers.as_slice())
    }

    /// Returns whether a client publishes the vertex under any parent.
    pub(crate) fn has_publisher(&self, client: ClientKey) -> bool {
        self.has_client(&self.publishers, client)
    }

    /// Returns whether a client subscribes to the vertex under any parent.
    pub(crate) fn has_subscriber(&self, client: ClientKey) -> bool {
        self.has_client(&self.subscribers, client)
    }

    fn has_client(&self, set: &SmallSet<(Slot, ClientKey)>, client: ClientKey) -> bool {
        match set.as_slice() {
            [] => false,
            [(_, known)] => *known == client,
            _ => self.parents.as_slice().iter().any(|parent| set.contains(&(*parent, client))),
        }
    }

    /// Returns whether there is a publisher or subscriber under a parent.
    pub(crate) fn is_used_under(&self, parent: Slot) -> bool {
        let publishers = self.publishers.as_slice().iter();
        publishers.chain(self.subscribers.as_slice()).any(|(under, _)| *under == parent)
    }
}

fn distinct(members: &[(Slot, ClientKey)]) -> Vec<ClientKey> {
    let mut clients: Vec<_> = members.iter().map(|(_, client)| *client).collect();
    clients.sort_unstable();
    clients.dedup();
    clients
}

/// Numbers about a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphSize {
    /// Scopes.
    pub scopes: usize,
    /// Items.
    pub items: usize,
    /// Clients with at least one publication or subscription.
    pub clients: usize,
}

/// The graph.
#[derive(Clone, Debug)]
pub struct Graph {
    vertices: Vec<Vertex>,
    free: Vec<Slot>,
    children: BTreeMap<(Slot, Label), Slot>,
    clients: Clients,
    size: GraphSize,
    vertices_max: usize,
    ids_max: usize,
}

impl Graph {
    /// Creates an empty graph of at most `vertices_max` scopes and items, of `clients_max` clients.
    /// At most `ids_max` full identifiers of a vertex are considered.
    pub fn new(vertices_max: usize, clients_max: usize, ids_max: usize) -> Self {
        let root = Vertex {
            label: Label::default(),
            generation: 0,
            version: 0,
            subscriber_count: 0,
            kind: VertexKind::Scope,
            strategy: Strategy::default(),
            options: ItemOptions::default(),
            parents: SmallSet::Empty,
            publishers: SmallSet::Empty,
            subscribers: SmallSet::Empty,
        };
        Graph {
            vertices: vec![root],
            free: Vec::new(),
            children: BTreeMap::new(),
            clients: Clients::new(clients_max),
            size: GraphSize::default(),
            vertices_max: vertices_max.min(u32::MAX as usize - 1),
            ids_max,
        }
    }

    /// Returns the numbers of scopes, items and clients.
    pub fn size(&self) -> GraphSize {
        GraphSize { clients: self.clients.len(), ..self.size }
    }

    /// Returns the bytes of memory in use, estimated from the sizes and capacities of its parts.
    pub fn memory_bytes(&self) -> usize {
        // A node of a B-tree is two thirds full on average.
        let tree = |entries: usize, entry_bytes: usize| entries * entry_bytes * 3 / 2;
        let sets: usize = self
            .vertices
            .iter()
            .map(|v| {
                v.parents.heap_bytes() + v.publishers.heap_bytes() + v.subscribers.heap_bytes()
            })
            .sum();
        self.vertices.capacity() * size_of::<Vertex>()
            + self.free.capacity() * size_of::<Slot>()
            + tree(self.children.len(), size_of::<((Slot, Label), Slot)>())
            + self.clients.memory_bytes()
            + sets
    }

    pub(crate) const fn clients(&self) -> &Clients {
        &self.clients
    }

    pub(crate) const fn clients_mut(&mut self) -> &mut Clients {
        &mut self.clients
    }

    pub(crate) fn vertex(&self, slot: Slot) -> &Vertex {
        &self.vertices[slot as usize]
    }

    pub(crate) fn vertex_mut(&mut self, slot: Slot) -> &mut Vertex {
        &mut self.vertices[slot as usize]
    }

    /// Returns the vertex with a full identifier; the root for an empty one.
    pub(crate) fn find(&self, id: &Id) -> Option<Slot> {
        id.labels().iter().try_fold(ROOT, |parent, label| self.child(parent, *label))
    }

    /// Returns the child with a label.
    pub(crate) fn child(&self, parent: Slot, label: Label) -> Option<Slot> {
        self.children.get(&(parent, label)).copied()
    }

    /// Returns the children of a scope, in label order.
    pub(crate) fn children(&self, scope: Slot) -> impl Iterator<Item = Slot> + '_ {
        let (first, last) = (Label([0; 8]), Label([0xff; 8]));
        self.children.range((scope, first)..=(scope, last)).map(|(_, slot)| *slot)
    }

    /// Returns the children of one kind, in label order.
    pub(crate) fn children_of_kind(&self, scope: Slot, kind: VertexKind) -> Vec<Slot> {
        self.children(scope).filter(|slot| self.vertex(*slot).kind == kind).collect()
    }

    pub(crate) fn has_children(&self, scope: Slot) -> bool {
        self.children(scope).next().is_some()
    }

    /// Adds a vertex below a scope. `None` if the graph is full. The label must be free there.
    pub(crate) fn insert(
        &mut self,
        parent: Slot,
        label: Label,
        kind: VertexKind,
        strategy: Strategy,
        options: ItemOptions,
    ) -> Option<Slot> {
        let mut vertex = Vertex {
            label,
            generation: 1,
            version: 0,
            subscriber_count: 0,
            kind,
            strategy,
            options,
            parents: SmallSet::One(parent),
            publishers: SmallSet::Empty,
            subscribers: SmallSet::Empty,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                vertex.generation = self.vertex(slot).generation.wrapping_add(1);
                self.vertices[slot as usize] = vertex;
                slot
            }
            None if self.vertices.len() <= self.vertices_max => {
                self.vertices.push(vertex);
                (self.vertices.len() - 1) as Slot
            }
            None => return None,
        };
        let known = self.children.insert((parent, label), slot);
        debug_assert!(known.is_none(), "a label is free below its parent");
        *self.counter(kind) += 1;
        Some(slot)
    }

    fn counter(&mut self, kind: VertexKind) -> &mut usize {
        match kind {
            VertexKind::Scope => &mut self.size.scopes,
            VertexKind::Item => &mut self.size.items,
        }
    }

    /// Adds a parent to a vertex. The label must be free there, and no cycle may arise.
    pub(crate) fn add_parent(&mut self, slot: Slot, parent: Slot) {
        let label = self.vertex(slot).label;
        let known = self.children.insert((parent, label), slot);
        debug_assert!(known.is_none(), "a label is free below its parent");
        self.vertex_mut(slot).parents.insert(parent);
    }

    /// Removes one parent of a vertex, and the vertex with its last one. It must then have no
    /// children, publishers or subscribers.
    pub(crate) fn remove_parent(&mut self, slot: Slot, parent: Slot) {
        let (label, kind) = (self.vertex(slot).label, self.vertex(slot).kind);
        self.children.remove(&(parent, label));
        self.vertex_mut(slot).parents.remove(&parent);
        if self.vertex(slot).parents.is_empty() {
            debug_assert!(!self.has_children(slot), "children lose their parent");
            *self.counter(kind) -= 1;
            self.free.push(slot);
        }
    }

    /// Returns whether a vertex is `other` or above it.
    pub(crate) fn is_ancestor(&self, slot: Slot, other: Slot) -> bool {
        let (mut pending, mut seen) = (vec![other], BTreeSet::new());
        while let Some(at) = pending.pop() {
            if at == slot {
                return true;
            }
            if seen.insert(at) {
                pending.extend(self.vertex(at).parents.as_slice());
            }
        }
        false
    }

    /// Returns the full identifiers of a vertex, sorted by their ways from the root.
    pub(crate) fn ids(&self, slot: Slot) -> Vec<Id> {
        let (mut ids, mut reversed) = (Vec::new(), Vec::new());
        self.collect_ids(slot, &mut reversed, &mut ids);
        ids
    }

    /// Returns the identifiers of a vertex that go through one of its parents.
    pub(crate) fn ids_below(&self, slot: Slot, parent: Slot) -> Vec<Id> {
        let (mut ids, mut reversed) = (Vec::new(), vec![self.vertex(slot).label]);
        self.collect_ids(parent, &mut reversed, &mut ids);
        ids
    }

    /// `reversed` has the labels from the end on. Its length bounds the recursion.
    fn collect_ids(&self, slot: Slot, reversed: &mut Vec<Label>, ids: &mut Vec<Id>) {
        if ids.len() >= self.ids_max {
            return;
        }
        if slot == ROOT {
            ids.push(Id::new(reversed.iter().rev().copied().collect()));
            return;
        }
        if reversed.len() == LABELS_MAX {
            return;
        }
        reversed.push(self.vertex(slot).label);
        for parent in self.vertex(slot).parents.as_slice() {
            self.collect_ids(*parent, reversed, ids);
        }
        reversed.pop();
    }

    /// Returns whether a vertex has `ids_max` full identifiers or more.
    pub(crate) fn has_many_ids(&self, slot: Slot) -> bool {
        self.ids(slot).len() >= self.ids_max
    }

    /// Returns every vertex but the root, in the order of slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (1..self.vertices.len() as Slot).filter(|slot| self.is_used(*slot))
    }

    /// Returns whether a slot has a scope or item.
    pub(crate) fn is_used(&self, slot: Slot) -> bool {
        self.vertices.get(slot as usize).is_some_and(|vertex| !vertex.parents.is_empty())
    }

    /// Adds a publisher under a parent. Returns `false` if it was one already.
    pub(crate) fn add_publisher(&mut self, slot: Slot, parent: Slot, client: ClientKey) -> bool {
        self.clients.add_use(client, slot);
        self.vertex_mut(slot).publishers.insert((parent, client))
    }

    /// Adds a subscriber under a parent. Returns `false` if it was one already.
    pub(crate) fn add_subscriber(&mut self, slot: Slot, parent: Slot, client: ClientKey) -> bool {
        self.clients.add_use(client, slot);
        self.vertex_mut(slot).subscribers.insert((parent, client))
    }

    /// Removes a publisher under a parent. Returns `false` if it was none.
    pub(crate) fn remove_publisher(&mut self, slot: Slot, parent: Slot, client: ClientKey) -> bool {
        let removed = self.vertex_mut(slot).publishers.remove(&(parent, client));
        self.update_use(slot, client);
        removed
    }

    /// Removes a subscriber under a parent. Returns `false` if it was none.
    pub(crate) fn remove_subscriber(
        &mut self,
        slot: Slot,
        parent: Slot,
        client: ClientKey,
    ) -> bool {
        let removed = self.vertex_mut(slot).subscribers.remove(&(parent, client));
        self.update_use(slot, client);
        removed
    }

    fn update_use(&mut self, slot: Slot, client: ClientKey) {
        let vertex = self.vertex(slot);
        if !vertex.has_publisher(client) && !vertex.has_subscriber(client) {
            self.clients.remove_use(client, slot);
        }
    }
}
