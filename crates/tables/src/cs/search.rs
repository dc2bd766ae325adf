//! Looking for packets below a prefix.
//!
//! A search goes down to where names with the prefix are, then through all below, what came last first. Branches in which nothing is fresh
//! are passed by when the asker wants fresh ones.

use super::record::{NONE, is_node};
use super::tree::{EDGE_MAX, Tree};
use arrayvec::ArrayVec;
use nw_name::{NameRef, Prefixes};

/// Records a prefix search looks at before it gives up.
const EFFORT_MAX: usize = 256;

/// How a prefix search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// With an entry.
    Found(u32),
    /// Having seen that there is none.
    Absent,
    /// After [`EFFORT_MAX`] records.
    GaveUp,
}

/// What lies below a prefix: entries of an edge, then a node with all below it.
struct Below {
    entries: ArrayVec<u32, EDGE_MAX>,
    node: u32,
}

impl Tree {
    /// True when the name of an entry starts with these octets.
    #[inline]
    pub fn starts_with(&self, slot: u32, name: &[u8]) -> bool {
        let entry = &self.entries[slot as usize];
        usize::from(entry.name_len) >= name.len()
            && self.arena.holds(slot, usize::from(entry.name_start), name)
    }

    /// An entry whose name starts with `name`, fresh at `fresh_at` if that is given; the ones that came last are looked at first.
    pub fn search(&self, name: NameRef<'_>, prefixes: &Prefixes, fresh_at: Option<u64>) -> Search {
        let mut effort = EFFORT_MAX;
        let mut found = NONE;
        let ended = self.each_below(name, prefixes, fresh_at, &mut effort, |slot| {
            found = slot;
            false
        });
        match (found, ended) {
            (NONE, true) => Search::Absent,
            (NONE, false) => Search::GaveUp,
            (slot, _) => Search::Found(slot),
        }
    }

    /// Entries whose names start with `name`, at most `limit`, however long it takes.
    pub fn collect(&self, name: NameRef<'_>, prefixes: &Prefixes, limit: usize) -> Vec<u32> {
        let mut slots = Vec::new();
        let mut effort = usize::MAX;
        if limit > 0 {
            self.each_below(name, prefixes, None, &mut effort, |slot| {
                slots.push(slot);
                slots.len() < limit
            });
        }
        slots
    }

    /// Shows entries under a prefix until `each` says to stop or the effort is spent; true when all were seen.
    fn each_below(
        &self,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        fresh_at: Option<u64>,
        effort: &mut usize,
        mut each: impl FnMut(u32) -> bool,
    ) -> bool {
        let below = self.below(prefixes);
        let mut answers = |slot: u32| {
            let entry = &self.entries[slot as usize];
            let fits =
                fresh_at.is_none_or(|now| entry.is_fresh(now)) && self.starts_with(slot, name.as_bytes());
            !fits || each(slot)
        };
        for slot in below.entries {
            if !answers(slot) {
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
                if !answers(id) {
                    return false;
                }
            } else if fresh_at.is_none_or(|now| self.node(id).may_be_fresh(now)) {
                id = self.node(id).first;
                continue;
            }
            while self.place(id).after == NONE {
                id = self.place(id).parent;
                if id == top {
                    return true;
                }
            }
            id = self.place(id).after;
        }
        true
    }

    /// Where names with this prefix are.
    fn below(&self, prefixes: &Prefixes) -> Below {
        let sought = prefixes.kept();
        let mut node = self.start(prefixes);
        loop {
            let depth = self.depth(node);
            if depth >= sought {
                return Below { entries: ArrayVec::new(), node };
            }
            let edge = prefixes.hash(depth + 1);
            let (down, _) = self.way_down(node, edge, prefixes);
            if down != NONE {
                node = down;
                continue;
            }
            let mut sharing = self.on_edge(node, edge);
            // A node on this edge is longer than what is sought: all below it starts so, or nothing.
            let mut longer = NONE;
            sharing.retain(|id| {
                if is_node(*id) && self.depth(*id) >= sought {
                    longer = *id;
                }
                !is_node(*id)
            });
            sharing.sort_unstable_by_key(|slot| core::cmp::Reverse(self.entries[*slot as usize].stored));
            return Below { entries: sharing, node: longer };
        }
    }

    /// The records of one edge.
    pub fn on_edge(&self, node: u32, edge: u64) -> ArrayVec<u32, EDGE_MAX> {
        let mut sharing = ArrayVec::new();
        for id in self.near_edge(edge) {
            let place = self.place(id);
            let is_on = place.linked != 0
                && place.edge == edge
                && place.parent == node
                && place.depth > self.node(node).place.depth;
            if is_on && !sharing.contains(&id) {
                // More than EDGE_MAX are not on an edge.
                let _ = sharing.try_push(id);
            }
        }
        sharing
    }
}
