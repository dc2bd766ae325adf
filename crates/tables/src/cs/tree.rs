//! The records of a content store, and the tree of prefixes over them.
//!
//! A node is a prefix that several records share; its children are longer nodes and entries. A
//! record is indexed under its *edge*: the hash of its prefix one component longer than its
//! parent's. So each step down the tree is one index lookup. Two rules keep insertions cheap:
//! prefixes with one child only have no node, and an edge holds up to [`EDGE_MAX`] records before a
//! node is created for what they share. A node left with one child is dissolved, so there are fewer
//! nodes than entries.
//!
//! ```text
//! /            node     edges: h(/a) h(/x) h(/y)
//! |-- /a/b     node     edges: h(/a/b/1) .. h(/a/b/9) (the entries' keys: not indexed again)
//! |   `-- /a/b/1 .. /a/b/9
//! |-- /x/u/v, /x/w      two entries on one edge
//! `-- /y/p/q/r
//! ```
//!
//! Main invariant: every node but the root has at least two children, and every record is in the
//! index under its edge.
//!
//! Nodes are identified by 64-bit keyed hashes. An entry is returned only after its name was
//! compared: a hash collision can hide an entry from a prefix search (not from an exact one), but
//! never returns a wrong result.

#[cfg(test)]
mod invariants;

use super::BLOCK_LEN;
use super::record::{Entry, NONE, Node, TreeLink, coarse_end, is_node, node_id};
use crate::arena::BlockArena;
use crate::index::Index;
use crate::memory::MmapArray;
use nw_name::{HashKey, NameRef, PREFIXES_MAX, PrefixHashes};
use zerocopy::FromZeros;

/// The maximum number of records on an edge before they get a node.
pub(super) const EDGE_MAX: usize = 6;

/// The depth of an entry with more name components than hashes are stored: it is below the
/// node of [`PREFIXES_MAX`] components.
pub(super) const DEEPER: u8 = PREFIXES_MAX as u8 + 1;

const NODE_CACHE_MIN: usize = 256;
const NODE_CACHE_MAX: usize = 1 << 20;

const ROOT: u32 = node_id(0);

/// Entries, nodes, their indexes and the packets.
#[derive(Debug)]
pub(super) struct Tree {
    key: HashKey,
    pub entries: MmapArray<Entry>,
    nodes: MmapArray<Node>,
    /// Entries by the hash of the whole name. Separate from `edges`, so that it is small: every
    /// packet is looked up here.
    pub keys: Index,
    /// Nodes, and entries with an edge other than their key, by edge.
    edges: Index,
    pub arena: BlockArena<BLOCK_LEN>,
    nodes_free: u32,
    nodes_high_water: u32,
    nodes_in_use: u32,
    /// Recently used parent nodes by hash: a walk starts there instead of at the root.
    node_cache: MmapArray<CachedNode>,
    /// A component that straddles blocks is assembled here.
    scratch: Vec<u8>,
    /// The depth of the parent of the last entry inserted, a guess for the next one.
    depth_guess: u8,
}

/// A node and bits of its hash.
#[derive(Clone, Copy, Debug, FromZeros)]
struct CachedNode {
    node: u32,
    tag: u32,
}

impl Tree {
    /// Creates a tree for `entries_max` entries.
    pub fn new(key: HashKey, entries_max: usize, arena: BlockArena<BLOCK_LEN>) -> Self {
        // A node has at least two children. Half as many nodes as entries suffice for all but
        // adversarial names; entries without a node are still found by their exact names.
        let nodes_max = entries_max / 2 + 1;
        let mut nodes = MmapArray::<Node>::new(nodes_max);
        nodes[0] = Node::new(key.root(), 0);
        Tree {
            key,
            entries: MmapArray::new(arena.capacity()),
            nodes,
            // A packet that reuses a victim's entry is indexed before the victim is removed. With a
            // third of spare capacity hardly any insertion misses the fast path because of an
            // overflowed bucket.
            keys: Index::with_capacity(entries_max + entries_max / 3 + 1),
            edges: Index::with_capacity(entries_max + nodes_max),
            arena,
            nodes_free: NONE,
            nodes_high_water: 1,
            nodes_in_use: 0,
            node_cache: MmapArray::new(
                (entries_max / 4).clamp(NODE_CACHE_MIN, NODE_CACHE_MAX).next_power_of_two(),
            ),
            scratch: Vec::with_capacity(nw_wire::PACKET_LEN_MAX),
            depth_guess: 0,
        }
    }

    #[cfg(test)]
    pub const fn nodes_in_use(&self) -> usize {
        self.nodes_in_use as usize
    }

    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
            + self.nodes.memory_bytes()
            + self.keys.memory_bytes()
            + self.edges.memory_bytes()
            + self.arena.memory_bytes()
    }

    /// Prefetches what linking an entry will probably read.
    #[inline]
    pub fn prefetch_link(&self, stage: usize, prefixes: &PrefixHashes) {
        match stage {
            0 => {
                for depth in self.likely_depths(prefixes.stored_len()) {
                    self.node_cache.prefetch(self.cache_slot(prefixes.hash(depth)));
                    let edge = prefixes.hash(prefixes.stored_len().min(depth + 1));
                    self.edges.prefetch(edge);
                    self.keys.prefetch(edge);
                }
            }
            1 => {
                if let Some(node) = self.cached_node(prefixes) {
                    self.nodes.prefetch(node_id(node) as usize);
                }
            }
            _ => {
                if let Some(node) = self.cached_node(prefixes) {
                    self.prefetch_record(self.node(node).first);
                }
            }
        }
    }

    /// Prefetches what replacing an entry soon will read, except its neighbours in the policy's
    /// queue.
    #[inline(always)]
    pub fn prefetch_removal(&self, slot: u32) {
        let Some(entry) = self.entries.get(slot as usize) else { return };
        self.keys.prefetch_l1_at(entry.index_pos);
        self.arena.prefetch_l1(slot, usize::from(entry.wire_len));
        if entry.link.linked != 0 {
            self.prefetch_unlink(entry);
        }
    }

    #[cold]
    fn prefetch_unlink(&self, entry: &Entry) {
        if entry.link.edge != entry.key {
            self.edges.prefetch(entry.link.edge);
        }
        self.prefetch_record(entry.link.prev);
        self.prefetch_record(entry.link.next);
        self.prefetch_record(entry.link.parent);
    }

    #[inline]
    fn prefetch_record(&self, id: u32) {
        if is_node(id) {
            self.nodes.prefetch(node_id(id) as usize);
        } else {
            self.entries.prefetch(id as usize);
        }
    }

    /// Adds an entry to the tree; its key is indexed and its bytes are stored already.
    pub fn link(&mut self, slot: u32, name: NameRef<'_>, prefixes: &PrefixHashes) {
        let (key, stored_len) = (prefixes.lookup_hash(), prefixes.stored_len());
        let link = &mut self.entries[slot as usize].link;
        link.depth = if prefixes.count() > PREFIXES_MAX { DEEPER } else { prefixes.count() as u8 };
        link.linked = 1;
        // It is indexed under its key already and must not be found on an edge.
        link.parent = NONE;
        let mut node = self.start(prefixes);
        loop {
            let depth = self.depth(node);
            if depth >= stored_len {
                // The name ends here, or is deeper than nodes are.
                self.attach(slot, node, key);
                break;
            }
            let edge = prefixes.hash(depth + 1);
            let (child, siblings) = self.child_on_edge(node, edge, prefixes);
            if child != NONE {
                node = child;
                continue;
            }
            if siblings >= EDGE_MAX {
                let siblings = self.records_on_edge(node, edge);
                if siblings.is_full() {
                    if let Some(new_node) = self.split(node, edge, &siblings, name, prefixes) {
                        node = new_node;
                        continue;
                    }
                    // No node is free: it is found by its exact name and by shorter prefixes only.
                    self.attach(slot, node, key);
                    break;
                }
            }
            let indexed = edge == key || self.edges.insert(edge, slot).is_ok();
            self.attach(slot, node, if indexed { edge } else { key });
            break;
        }
        let Node { hash, link, .. } = *self.node(node);
        self.depth_guess = link.depth;
        let slot_in_cache = self.cache_slot(hash);
        self.node_cache[slot_in_cache] = CachedNode { node, tag: tag_of(hash) };
        self.raise_fresh_end(slot);
    }

    /// Removes an entry from the tree.
    pub fn unlink(&mut self, slot: u32) {
        let Entry { key, link, .. } = self.entries[slot as usize];
        self.entries[slot as usize].link.linked = 0;
        if link.edge != key {
            self.edges.remove(link.edge, slot);
        }
        self.detach(slot);
        if link.parent != ROOT && self.node(link.parent).count == 1 {
            self.dissolve(link.parent);
        }
    }

    /// Updates the end of freshness of all nodes above an entry.
    #[inline]
    pub fn raise_fresh_end(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (end, mut node) = (coarse_end(entry.fresh_until), entry.link.parent);
        while node != NONE && self.node(node).fresh_end < end {
            self.node_mut(node).fresh_end = end;
            node = self.node(node).link.parent;
        }
    }

    /// Moves an entry that was found before its siblings.
    pub fn move_to_front(&mut self, slot: u32) {
        let Entry { link: TreeLink { edge, parent, prev, .. }, .. } = self.entries[slot as usize];
        if prev != NONE {
            self.detach(slot);
            self.attach(slot, parent, edge);
        }
    }

    /// Returns the node on an edge that is on the path to this name, or [`NONE`], and how many
    /// entries may be on that edge (not checked, as that would read a cache line each).
    #[inline]
    pub fn child_on_edge(&self, node: u32, edge: u64, prefixes: &PrefixHashes) -> (u32, usize) {
        let mut entries = 0;
        for id in self.edge_candidates(edge) {
            if !is_node(id) {
                entries += 1;
                continue;
            }
            let Node { hash, link, .. } = self.node(id);
            let depth = usize::from(link.depth);
            if link.edge == edge
                && link.parent == node
                && depth <= prefixes.stored_len()
                && *hash == prefixes.hash(depth)
            {
                return (id, entries);
            }
        }
        (NONE, entries)
    }

    /// Returns the records that may be on an edge: those indexed under it, and entries of which it
    /// is the key. An entry with equal tags of key and edge (one in 65536) occurs twice.
    #[inline]
    pub fn edge_candidates(&self, edge: u64) -> impl Iterator<Item = u32> + '_ {
        self.edges.candidates(edge).chain(self.keys.candidates(edge))
    }

    /// Returns the node where the walk to a name starts: a cached node on the path, or the root.
    #[inline]
    pub fn start(&self, prefixes: &PrefixHashes) -> u32 {
        let Some(id) = self.cached_node(prefixes) else { return ROOT };
        let node = self.node(id);
        let depth = usize::from(node.link.depth);
        if node.count > 0 && depth <= prefixes.stored_len() && node.hash == prefixes.hash(depth) {
            id
        } else {
            ROOT
        }
    }

    /// Returns the cached node that is probably above a name; the caller must check it.
    #[inline]
    fn cached_node(&self, prefixes: &PrefixHashes) -> Option<u32> {
        self.likely_depths(prefixes.stored_len()).into_iter().find_map(|depth| {
            let hash = prefixes.hash(depth);
            let cached = self.node_cache[self.cache_slot(hash)];
            (cached.tag == tag_of(hash)).then_some(cached.node)
        })
    }

    /// Returns likely depths of the parent of a name: all but one component (segments have many
    /// siblings), and the depth of the last parent.
    #[inline]
    fn likely_depths(&self, stored_len: usize) -> [usize; 2] {
        [stored_len.saturating_sub(1), stored_len.min(usize::from(self.depth_guess))]
    }

    #[inline]
    fn cache_slot(&self, hash: u64) -> usize {
        hash as usize & (self.node_cache.len() - 1)
    }

    /// Creates a node for what all records of a full edge share with a name; `None` if no node is
    /// free.
    #[cold]
    fn split(
        &mut self,
        parent: u32,
        edge: u64,
        siblings: &[u32],
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
    ) -> Option<u32> {
        let depth_min = self.depth(parent) + 1;
        let mut depth = prefixes.stored_len();
        for &id in siblings {
            let common = self.common_depth(id, name, prefixes);
            // Keeps the tree valid even if hashes collide.
            depth = depth.min(common).min(if is_node(id) { self.depth(id) - 1 } else { depth });
        }
        let depth = depth.max(depth_min);
        let new_node = self.alloc_node()?;
        let hash = prefixes.hash(depth);
        *self.node_mut(new_node) = Node::new(hash, depth as u8);
        let mut indexed = false;
        let mut fresh_end = 0;
        for &id in siblings {
            let next = self.next_edge(id, hash, depth, prefixes.end(depth));
            self.detach(id);
            if self.has_edge_record(id) {
                if indexed {
                    self.edges.remove(edge, id);
                } else {
                    indexed = self.edges.replace(edge, id, new_node);
                }
            }
            self.attach(id, new_node, next);
            if self.has_edge_record(id) && self.edges.insert(next, id).is_err() && !is_node(id) {
                self.link_mut(id).edge = self.entries[id as usize].key;
            }
            fresh_end = fresh_end.max(if is_node(id) {
                self.node(id).fresh_end
            } else {
                coarse_end(self.entries[id as usize].fresh_until)
            });
        }
        self.node_mut(new_node).fresh_end = fresh_end;
        if !indexed {
            // If this fails, the subtree is found from shorter prefixes only.
            let _ = self.edges.insert(edge, new_node);
        }
        self.attach(new_node, parent, edge);
        if parent != ROOT && self.node(parent).count == 1 {
            // All remaining children were on this edge.
            self.dissolve(parent);
        }
        Some(new_node)
    }

    /// Removes a node with one child, which takes its position.
    #[cold]
    fn dissolve(&mut self, node: u32) {
        let Node { link, first: child, .. } = *self.node(node);
        if self.has_edge_record(child) {
            let edge = self.link_of(child).edge;
            self.edges.remove(edge, child);
        }
        let child_link = self.link_mut(child);
        (child_link.parent, child_link.prev, child_link.next) = (link.parent, link.prev, link.next);
        child_link.edge = link.edge;
        if !self.has_edge_record(child) {
            self.edges.remove(link.edge, node);
        } else if !self.edges.replace(link.edge, node, child) && !is_node(child) {
            self.link_mut(child).edge = self.entries[child as usize].key;
        }
        match link.prev {
            NONE => self.node_mut(link.parent).first = child,
            prev => self.link_mut(prev).next = child,
        }
        if link.next != NONE {
            self.link_mut(link.next).prev = child;
        }
        let free = self.nodes_free;
        let node_record = self.node_mut(node);
        (node_record.count, node_record.first) = (0, free);
        self.nodes_free = node;
        self.nodes_in_use -= 1;
    }

    /// Returns false for an entry that is indexed under its key only.
    #[inline]
    fn has_edge_record(&self, id: u32) -> bool {
        is_node(id) || self.entries[id as usize].link.edge != self.entries[id as usize].key
    }

    /// Returns the edge of a record below a node of `depth` components, which end at byte `end` of
    /// the name and have the hash `hash`.
    fn next_edge(&mut self, id: u32, hash: u64, depth: usize, end: usize) -> u64 {
        let slot = self.any_entry(id);
        let entry = self.entries[slot as usize];
        let own_depth = usize::from(entry.link.depth);
        if !is_node(id)
            && (own_depth <= depth
                || depth >= PREFIXES_MAX
                || own_depth == depth + 1 && own_depth <= PREFIXES_MAX)
        {
            return entry.key;
        }
        let (start, len) =
            (usize::from(entry.name_start) + end, usize::from(entry.name_len).saturating_sub(end));
        self.arena.gather(slot, start, len, &mut self.scratch);
        self.key.step(hash, NameRef::from_checked(&self.scratch).prefix(1).as_bytes())
    }

    /// Returns how many components a record shares with a name, at most [`PREFIXES_MAX`].
    fn common_depth(&self, id: u32, name: NameRef<'_>, prefixes: &PrefixHashes) -> usize {
        let slot = self.any_entry(id);
        let entry = &self.entries[slot as usize];
        let len = usize::from(entry.name_len).min(name.as_bytes().len());
        let common =
            self.arena.common_len(slot, usize::from(entry.name_start), &name.as_bytes()[..len]);
        (0..=prefixes.stored_len()).rev().find(|depth| prefixes.end(*depth) <= common).unwrap_or(0)
    }

    /// Returns an entry in the subtree of a record. Depth increases downwards, so the walk is
    /// short.
    fn any_entry(&self, mut id: u32) -> u32 {
        while is_node(id) {
            id = self.node(id).first;
        }
        id
    }

    /// Takes a free node.
    fn alloc_node(&mut self) -> Option<u32> {
        let id = if self.nodes_free != NONE {
            let id = self.nodes_free;
            self.nodes_free = self.node(id).first;
            id
        } else if (self.nodes_high_water as usize) < self.nodes.len() {
            self.nodes_high_water += 1;
            node_id(self.nodes_high_water - 1)
        } else {
            return None;
        };
        self.nodes_in_use += 1;
        Some(id)
    }

    /// Adds a record to the children of a node, as the first.
    #[inline]
    fn attach(&mut self, id: u32, parent: u32, edge: u64) {
        let parent_record = self.node_mut(parent);
        parent_record.count += 1;
        let second = core::mem::replace(&mut parent_record.first, id);
        let link = self.link_mut(id);
        (link.edge, link.parent, link.prev, link.next) = (edge, parent, NONE, second);
        if second != NONE {
            self.link_mut(second).prev = id;
        }
    }

    /// Removes a record from the children of its node.
    #[inline]
    fn detach(&mut self, id: u32) {
        let TreeLink { parent, prev, next, .. } = *self.link_of(id);
        self.node_mut(parent).count -= 1;
        match prev {
            NONE => self.node_mut(parent).first = next,
            prev => self.link_mut(prev).next = next,
        }
        if next != NONE {
            self.link_mut(next).prev = prev;
        }
    }

    #[inline(always)]
    pub fn depth(&self, node: u32) -> usize {
        usize::from(self.node(node).link.depth)
    }

    #[inline(always)]
    pub fn node(&self, id: u32) -> &Node {
        &self.nodes[node_id(id) as usize]
    }

    #[inline(always)]
    fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[node_id(id) as usize]
    }

    #[inline(always)]
    pub fn link_of(&self, id: u32) -> &TreeLink {
        if is_node(id) { &self.node(id).link } else { &self.entries[id as usize].link }
    }

    #[inline(always)]
    fn link_mut(&mut self, id: u32) -> &mut TreeLink {
        if is_node(id) { &mut self.node_mut(id).link } else { &mut self.entries[id as usize].link }
    }
}

/// Never 0, which marks an empty element of the node cache.
#[inline]
const fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}
