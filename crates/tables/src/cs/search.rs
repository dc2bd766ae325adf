//! Searching packets below a prefix.
//!
//! A search walks down the tree to the prefix, then visits everything below it, newest first. With
//! MustBeFresh, branches without fresh packets are skipped.

use super::record::{NONE, is_node};
use super::tree::{EDGE_MAX, Tree};
use arrayvec::ArrayVec;
use nw_name::{NameRef, PrefixHashes};

/// The maximum number of records a prefix search visits.
const EFFORT_MAX: usize = 256;

/// The result of a prefix search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// An entry was found.
    Found(u32),
    /// No entry exists.
    Absent,
    /// The search stopped after [`EFFORT_MAX`] records.
    Aborted,
}

/// What is below a prefix: entries of an edge, then a node with its subtree.
struct Below {
    entries: ArrayVec<u32, EDGE_MAX>,
    node: u32,
}

impl Tree {
    /// Returns whether the name of an entry starts with these bytes.
    #[inline]
    pub fn starts_with(&self, slot: u32, name: &[u8]) -> bool {
        let entry = &self.entries[slot as usize];
        usize::from(entry.name_len) >= name.len()
            && self.arena.eq_at(slot, usize::from(entry.name_start), name)
    }

    /// Returns an entry with a name that starts with `name`, fresh at `fresh_at` if that is given;
    /// newer entries are visited first.
    pub fn search(
        &self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        fresh_at: Option<u64>,
    ) -> Search {
        let mut effort = EFFORT_MAX;
        let mut found = NONE;
        let is_complete = self.visit_below(name, prefixes, fresh_at, &mut effort, |slot| {
            found = slot;
            false
        });
        match (found, is_complete) {
            (NONE, true) => Search::Absent,
            (NONE, false) => Search::Aborted,
            (slot, _) => Search::Found(slot),
        }
    }

    /// Returns at most `limit` entries with names that start with `name`, without a limit on the
    /// effort.
    pub fn collect(&self, name: NameRef<'_>, prefixes: &PrefixHashes, limit: usize) -> Vec<u32> {
        let mut slots = Vec::new();
        let mut effort = usize::MAX;
        if limit > 0 {
            self.visit_below(name, prefixes, None, &mut effort, |slot| {
                slots.push(slot);
                slots.len() < limit
            });
        }
        slots
    }

    /// Calls `each` for the entries below a prefix until it returns false or the effort is spent;
    /// returns whether all were visited.
    fn visit_below(
        &self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        fresh_at: Option<u64>,
        effort: &mut usize,
        mut visit: impl FnMut(u32) -> bool,
    ) -> bool {
        let below = self.below(prefixes);
        let mut visit_matching = |slot: u32| {
            let entry = &self.entries[slot as usize];
            let is_match = fresh_at.is_none_or(|now| entry.is_fresh(now))
                && self.starts_with(slot, name.as_bytes());
            !is_match || visit(slot)
        };
        for slot in below.entries {
            if !visit_matching(slot) {
                return false;
            }
        }
        let top = below.node;
        let mut id = if top == NONE { NONE } else { self.node(top).first };
        while id != NONE {
            if *effort == 0 {
                return false;
            }
            *effort -= 1;
            if !is_node(id) {
                if !visit_matching(id) {
                    return false;
                }
            } else if fresh_at.is_none_or(|now| self.node(id).may_be_fresh(now)) {
                id = self.node(id).first;
                continue;
            }
            while self.link_of(id).next == NONE {
                id = self.link_of(id).parent;
                if id == top {
                    return true;
                }
            }
            id = self.link_of(id).next;
        }
        true
    }

    /// Returns what is below a prefix.
    fn below(&self, prefixes: &PrefixHashes) -> Below {
        let target_depth = prefixes.stored_len();
        let mut node = self.start(prefixes);
        loop {
            let depth = self.depth(node);
            if depth >= target_depth {
                return Below { entries: ArrayVec::new(), node };
            }
            let edge = prefixes.hash(depth + 1);
            let (child, _) = self.child_on_edge(node, edge, prefixes);
            if child != NONE {
                node = child;
                continue;
            }
            let mut records = self.records_on_edge(node, edge);
            // If a node on this edge is longer than the prefix, its whole subtree starts with the
            // prefix, or nothing in it does.
            let mut longer = NONE;
            records.retain(|id| {
                if is_node(*id) && self.depth(*id) >= target_depth {
                    longer = *id;
                }
                !is_node(*id)
            });
            records.sort_unstable_by_key(|slot| {
                core::cmp::Reverse(self.entries[*slot as usize].stored)
            });
            return Below { entries: records, node: longer };
        }
    }

    /// Returns the records on an edge.
    pub fn records_on_edge(&self, node: u32, edge: u64) -> ArrayVec<u32, EDGE_MAX> {
        let mut records = ArrayVec::new();
        for id in self.edge_candidates(edge) {
            let link = self.link_of(id);
            let is_on = link.linked != 0
                && link.edge == edge
                && link.parent == node
                && link.depth > self.node(node).link.depth;
            if is_on && !records.contains(&id) {
                // An edge has at most EDGE_MAX records.
                let _ = records.try_push(id);
            }
        }
        records
    }
}
