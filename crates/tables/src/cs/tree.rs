//! The records of a content store and the tree of prefixes over them.
//!
//! A node stands for a prefix that several records share; below it hang longer nodes and entries. A record is indexed under its *edge*: the hash
//! of its prefix one component longer than its parent's, so a walk down takes one probe a node. The tree is lazy in two ways, which is what
//! makes an insertion cheap whatever the names: levels without a choice have no node, and an edge holds up to [`EDGE_MAX`] records before a node
//! is made for what they share. A node left with one record below goes away, so there are fewer nodes than entries.
//!
//! ```text
//! /            node     edges: h(/a) h(/x) h(/y)
//! |-- /a/b     node     edges: h(/a/b/1) .. h(/a/b/9), which are the entries' own keys: no index record besides
//! |   `-- /a/b/1 .. /a/b/9
//! |-- /x/u/v, /x/w      two entries on one edge
//! `-- /y/p/q/r
//! ```
//!
//! Nodes tell prefixes apart by their 64-bit keyed hashes. An entry answers only after its name was compared, so a collision could hide an entry
//! from a prefix search (it is found by its exact name all the same), never give a wrong answer.

#[cfg(test)]
mod check;

use super::BLOCK_LEN;
use super::record::{Entry, NONE, Node, Place, coarse_end, is_node, node_id};
use crate::arena::BlockArena;
use crate::index::Index;
use crate::memory::Lines;
use nw_name::{HashKey, NameRef, PREFIXES_MAX, Prefixes};
use zerocopy::FromZeros;

/// Records of one edge before they get a node.
pub(super) const EDGE_MAX: usize = 6;

/// Depth of an entry whose name is deeper than prefixes' hashes are kept: it hangs under the node of [`PREFIXES_MAX`] components.
pub(super) const DEEPER: u8 = PREFIXES_MAX as u8 + 1;

const HINTS_MIN: usize = 256;
const HINTS_MAX: usize = 1 << 20;

const ROOT: u32 = node_id(0);

/// Entries, nodes, their index and their octets.
#[derive(Debug)]
pub(super) struct Tree {
    key: HashKey,
    pub entries: Lines<Entry>,
    nodes: Lines<Node>,
    /// Entries by the hashes of their whole names. By itself, so that it is no larger than it must be: each packet looks here.
    pub keys: Index,
    /// Nodes, and entries whose edge is not their key, by their edges.
    edges: Index,
    pub arena: BlockArena<BLOCK_LEN>,
    nodes_free: u32,
    nodes_untouched: u32,
    nodes_in_use: u32,
    /// Nodes under which entries were put lately, by their hashes: where to begin instead of at the root.
    hints: Lines<Hint>,
    /// A component that straddles blocks is put together here.
    scratch: Vec<u8>,
    /// Components of the node under which an entry was put last: the next one's likely has as many.
    depth_guess: u8,
}

/// A node and what its hash looks like.
#[derive(Clone, Copy, Debug, FromZeros)]
struct Hint {
    node: u32,
    tag: u32,
}

impl Tree {
    /// For so many entries.
    pub fn new(key: HashKey, entries_max: usize, arena: BlockArena<BLOCK_LEN>) -> Self {
        // An entry has a node above only together with others; half as many nodes as entries is beyond what any names but
        // chosen ones need. Entries that find no node are still found by their exact names.
        let nodes_max = entries_max / 2 + 1;
        let mut nodes = Lines::<Node>::new(nodes_max);
        nodes[0] = Node::new(key.root(), 0);
        Tree {
            key,
            entries: Lines::new(arena.capacity()),
            nodes,
            // What takes a victim's place is there before that has gone. With a third to spare hardly any takes the long way because others passed
            // its bucket.
            keys: Index::with_capacity(entries_max + entries_max / 3 + 1),
            edges: Index::with_capacity(entries_max + nodes_max),
            arena,
            nodes_free: NONE,
            nodes_untouched: 1,
            nodes_in_use: 0,
            hints: Lines::new((entries_max / 4).clamp(HINTS_MIN, HINTS_MAX).next_power_of_two()),
            scratch: Vec::with_capacity(nw_wire::PACKET_LEN_MAX),
            depth_guess: 0,
        }
    }

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

    /// Asks for what putting an entry into the tree will likely touch.
    #[inline]
    pub fn prefetch_link(&self, stage: usize, prefixes: &Prefixes) {
        match stage {
            0 => {
                for depth in self.likely_depths(prefixes.kept()) {
                    self.hints.prefetch(self.hint_of(prefixes.hash(depth)));
                    let edge = prefixes.hash(prefixes.kept().min(depth + 1));
                    self.edges.prefetch(edge);
                    self.keys.prefetch(edge);
                }
            }
            1 => {
                if let Some(node) = self.hinted(prefixes) {
                    self.nodes.prefetch(node_id(node) as usize);
                }
            }
            _ => {
                if let Some(node) = self.hinted(prefixes) {
                    self.prefetch_record(self.node(node).first);
                }
            }
        }
    }

    /// Asks for what replacing an entry soon will touch besides its neighbours in the policy's order.
    #[inline(always)]
    pub fn prefetch_removal(&self, slot: u32) {
        let Some(entry) = self.entries.get(slot as usize) else { return };
        self.keys.prefetch_soon_at(entry.spot);
        self.arena.prefetch_soon(slot, usize::from(entry.wire_len));
        if entry.place.linked != 0 {
            self.prefetch_unlink(entry);
        }
    }

    #[cold]
    fn prefetch_unlink(&self, entry: &Entry) {
        if entry.place.edge != entry.key {
            self.edges.prefetch(entry.place.edge);
        }
        self.prefetch_record(entry.place.before);
        self.prefetch_record(entry.place.after);
        self.prefetch_record(entry.place.parent);
    }

    #[inline]
    fn prefetch_record(&self, id: u32) {
        if is_node(id) {
            self.nodes.prefetch(node_id(id) as usize);
        } else {
            self.entries.prefetch(id as usize);
        }
    }

    /// Hangs an entry into the tree; its key is indexed already, its octets are stored.
    pub fn link(&mut self, slot: u32, name: NameRef<'_>, prefixes: &Prefixes) {
        let (key, kept) = (prefixes.key(), prefixes.kept());
        let place = &mut self.entries[slot as usize].place;
        place.depth = if prefixes.count() > PREFIXES_MAX { DEEPER } else { prefixes.count() as u8 };
        place.linked = 1;
        // It is under its key already, and must not meet itself on an edge.
        place.parent = NONE;
        let mut node = self.start(prefixes);
        loop {
            let depth = self.depth(node);
            if depth >= kept {
                // The name ends here, or is deeper than nodes go.
                self.attach(slot, node, key);
                break;
            }
            let edge = prefixes.hash(depth + 1);
            let (down, sharing) = self.way_down(node, edge, prefixes);
            if down != NONE {
                node = down;
                continue;
            }
            if sharing >= EDGE_MAX {
                let sharing = self.on_edge(node, edge);
                if sharing.is_full() {
                    if let Some(new) = self.split(node, edge, &sharing, name, prefixes) {
                        node = new;
                        continue;
                    }
                    // No node is free: found by its exact name and by shorter prefixes only.
                    self.attach(slot, node, key);
                    break;
                }
            }
            let indexed = edge == key || self.edges.insert(edge, slot).is_ok();
            self.attach(slot, node, if indexed { edge } else { key });
            break;
        }
        let Node { hash, place, .. } = *self.node(node);
        self.depth_guess = place.depth;
        let at = self.hint_of(hash);
        self.hints[at] = Hint { node, tag: tag_of(hash) };
        self.raise_fresh_end(slot);
    }

    /// Takes an entry out of the tree.
    pub fn unlink(&mut self, slot: u32) {
        let Entry { key, place, .. } = self.entries[slot as usize];
        self.entries[slot as usize].place.linked = 0;
        if place.edge != key {
            self.edges.remove(place.edge, slot);
        }
        self.detach(slot);
        if place.parent != ROOT && self.node(place.parent).count == 1 {
            self.dissolve(place.parent);
        }
    }

    /// Tells the nodes above how long an entry is fresh.
    #[inline]
    pub fn raise_fresh_end(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (end, mut node) = (coarse_end(entry.fresh_until), entry.place.parent);
        while node != NONE && self.node(node).fresh_end < end {
            self.node_mut(node).fresh_end = end;
            node = self.node(node).place.parent;
        }
    }

    /// Puts an entry that answered before its siblings.
    pub fn move_to_front(&mut self, slot: u32) {
        let Entry { place: Place { edge, parent, before, .. }, .. } = self.entries[slot as usize];
        if before != NONE {
            self.detach(slot);
            self.attach(slot, parent, edge);
        }
    }

    /// The node on an edge that leads on to the name these prefixes are of, or [`NONE`], and how many entries may be on that edge: looking at
    /// them would cost a cache line each.
    #[inline]
    pub fn way_down(&self, node: u32, edge: u64, prefixes: &Prefixes) -> (u32, usize) {
        let mut entries = 0;
        for id in self.near_edge(edge) {
            if !is_node(id) {
                entries += 1;
                continue;
            }
            let Node { hash, place, .. } = self.node(id);
            let depth = usize::from(place.depth);
            if place.edge == edge
                && place.parent == node
                && depth <= prefixes.kept()
                && *hash == prefixes.hash(depth)
            {
                return (id, entries);
            }
        }
        (NONE, entries)
    }

    /// What may be on an edge: records of it, and entries of which it is the key. Some are seen twice: entries whose key and edge have one tag, as one in
    /// 65536 has.
    #[inline]
    pub fn near_edge(&self, edge: u64) -> impl Iterator<Item = u32> + '_ {
        self.edges.candidates(edge).chain(self.keys.candidates(edge))
    }

    /// Where to begin for a name: at a node that served lately if it is on the way, or at the root.
    #[inline]
    pub fn start(&self, prefixes: &Prefixes) -> u32 {
        let Some(id) = self.hinted(prefixes) else { return ROOT };
        let node = self.node(id);
        let depth = usize::from(node.place.depth);
        if node.count > 0 && depth <= prefixes.kept() && node.hash == prefixes.hash(depth) {
            id
        } else {
            ROOT
        }
    }

    /// The node that likely is above a name; to be confirmed.
    #[inline]
    fn hinted(&self, prefixes: &Prefixes) -> Option<u32> {
        self.likely_depths(prefixes.kept()).into_iter().find_map(|depth| {
            let hash = prefixes.hash(depth);
            let hint = self.hints[self.hint_of(hash)];
            (hint.tag == tag_of(hash)).then_some(hint.node)
        })
    }

    /// Components of the node above a name of so many: all but one if it has many siblings, as segments do, or as many as the last one had.
    #[inline]
    fn likely_depths(&self, kept: usize) -> [usize; 2] {
        [kept.saturating_sub(1), kept.min(usize::from(self.depth_guess))]
    }

    #[inline]
    fn hint_of(&self, hash: u64) -> usize {
        hash as usize & (self.hints.len() - 1)
    }

    /// Makes a node for what all records of a full edge share with a name; gives it, or `None` when there is none free.
    #[cold]
    fn split(
        &mut self,
        parent: u32,
        edge: u64,
        sharing: &[u32],
        name: NameRef<'_>,
        prefixes: &Prefixes,
    ) -> Option<u32> {
        let least = self.depth(parent) + 1;
        let mut depth = prefixes.kept();
        for &id in sharing {
            let common = self.common_depth(id, name, prefixes);
            // Were hashes to collide, the tree would still be one.
            depth = depth.min(common).min(if is_node(id) { self.depth(id) - 1 } else { depth });
        }
        let depth = depth.max(least);
        let new = self.take_node()?;
        let hash = prefixes.hash(depth);
        *self.node_mut(new) = Node::new(hash, depth as u8);
        let mut indexed = false;
        let mut fresh_end = 0;
        for &id in sharing {
            let next = self.next_edge(id, hash, depth, prefixes.end(depth));
            self.detach(id);
            if self.has_edge_record(id) {
                if indexed {
                    self.edges.remove(edge, id);
                } else {
                    indexed = self.edges.replace(edge, id, new);
                }
            }
            self.attach(id, new, next);
            if self.has_edge_record(id) && self.edges.insert(next, id).is_err() && !is_node(id) {
                self.place_mut(id).edge = self.entries[id as usize].key;
            }
            fresh_end = fresh_end.max(if is_node(id) {
                self.node(id).fresh_end
            } else {
                coarse_end(self.entries[id as usize].fresh_until)
            });
        }
        self.node_mut(new).fresh_end = fresh_end;
        if !indexed {
            // Failing that, what is below is found from shorter prefixes only.
            let _ = self.edges.insert(edge, new);
        }
        self.attach(new, parent, edge);
        if parent != ROOT && self.node(parent).count == 1 {
            // All that was left below it hung on this edge.
            self.dissolve(parent);
        }
        Some(new)
    }

    /// Ends a node that has one record below: that takes its place.
    #[cold]
    fn dissolve(&mut self, node: u32) {
        let Node { place, first: heir, .. } = *self.node(node);
        if self.has_edge_record(heir) {
            let edge = self.place(heir).edge;
            self.edges.remove(edge, heir);
        }
        let heir_place = self.place_mut(heir);
        (heir_place.parent, heir_place.before, heir_place.after) = (place.parent, place.before, place.after);
        heir_place.edge = place.edge;
        if !self.has_edge_record(heir) {
            self.edges.remove(place.edge, node);
        } else if !self.edges.replace(place.edge, node, heir) && !is_node(heir) {
            self.place_mut(heir).edge = self.entries[heir as usize].key;
        }
        match place.before {
            NONE => self.node_mut(place.parent).first = heir,
            before => self.place_mut(before).after = heir,
        }
        if place.after != NONE {
            self.place_mut(place.after).before = heir;
        }
        let free = self.nodes_free;
        let node_record = self.node_mut(node);
        (node_record.count, node_record.first) = (0, free);
        self.nodes_free = node;
        self.nodes_in_use -= 1;
    }

    /// False for an entry that is indexed under its key alone.
    #[inline]
    fn has_edge_record(&self, id: u32) -> bool {
        is_node(id) || self.entries[id as usize].place.edge != self.entries[id as usize].key
    }

    /// The edge of a record under a node of `depth` components, which end at octet `end` of its name and hash to `hash`.
    fn next_edge(&mut self, id: u32, hash: u64, depth: usize, end: usize) -> u64 {
        let slot = self.some_entry(id);
        let entry = self.entries[slot as usize];
        let own_depth = usize::from(entry.place.depth);
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

    /// Components that a record shares with a name, as far as nodes go.
    fn common_depth(&self, id: u32, name: NameRef<'_>, prefixes: &Prefixes) -> usize {
        let slot = self.some_entry(id);
        let entry = &self.entries[slot as usize];
        let len = usize::from(entry.name_len).min(name.as_bytes().len());
        let common = self.arena.common_len(slot, usize::from(entry.name_start), &name.as_bytes()[..len]);
        (0..=prefixes.kept()).rev().find(|depth| prefixes.end(*depth) <= common).unwrap_or(0)
    }

    /// An entry at or below a record. Depth grows downwards, so the walk is short.
    fn some_entry(&self, mut id: u32) -> u32 {
        while is_node(id) {
            id = self.node(id).first;
        }
        id
    }

    fn take_node(&mut self) -> Option<u32> {
        let id = if self.nodes_free != NONE {
            let id = self.nodes_free;
            self.nodes_free = self.node(id).first;
            id
        } else if (self.nodes_untouched as usize) < self.nodes.len() {
            self.nodes_untouched += 1;
            node_id(self.nodes_untouched - 1)
        } else {
            return None;
        };
        self.nodes_in_use += 1;
        Some(id)
    }

    /// Hangs a record under a node, before its siblings.
    #[inline]
    fn attach(&mut self, id: u32, parent: u32, edge: u64) {
        let parent_record = self.node_mut(parent);
        parent_record.count += 1;
        let second = core::mem::replace(&mut parent_record.first, id);
        let place = self.place_mut(id);
        (place.edge, place.parent, place.before, place.after) = (edge, parent, NONE, second);
        if second != NONE {
            self.place_mut(second).before = id;
        }
    }

    #[inline]
    fn detach(&mut self, id: u32) {
        let Place { parent, before, after, .. } = *self.place(id);
        self.node_mut(parent).count -= 1;
        match before {
            NONE => self.node_mut(parent).first = after,
            before => self.place_mut(before).after = after,
        }
        if after != NONE {
            self.place_mut(after).before = before;
        }
    }

    #[inline(always)]
    pub fn depth(&self, node: u32) -> usize {
        usize::from(self.node(node).place.depth)
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
    pub fn place(&self, id: u32) -> &Place {
        if is_node(id) { &self.node(id).place } else { &self.entries[id as usize].place }
    }

    #[inline(always)]
    fn place_mut(&mut self, id: u32) -> &mut Place {
        if is_node(id) { &mut self.node_mut(id).place } else { &mut self.entries[id as usize].place }
    }
}

/// Never 0, which is what hints not given yet have.
#[inline]
const fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}
