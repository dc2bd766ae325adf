//! Trees to the receivers of a publication, and forwarding identifiers that publishers gave.
//!
//! Invariant: a tree is computed once for a set of nodes while links stay as they are, unless there
//! are very many sets; no identifier is above the fill limit.

use super::filter::{link_id, tree_id};
use super::stages::Stages;
use super::{Domain, NodeId};
use nw_api::config::LargeTrees;
use nw_api::pubsub::{ForwardingPath, ItemName};
use nw_pubsub::filter::FILL_BITS_MAX;
use nw_wire::publication::Fid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Items with a given forwarding identifier at most.
const PATHS_MAX: usize = 65_536;

/// Sets of nodes at most whose trees are kept.
pub(super) const TREE_SETS_MAX: usize = 256;

/// A tree to a set of nodes.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The table of its links' identifiers.
    pub table: u8,
    /// The identifier of its links.
    pub fid: Fid,
    /// Links of the longest path.
    pub hop_limit: u8,
    /// The identifier in stages, instead of `fid`.
    pub stages: Option<Arc<Stages>>,
}

impl Domain {
    /// Sets the forwarding identifier of an item; `None`: the trees to its receivers.
    ///
    /// # Errors
    /// A sentence, if the identifier is too full or there are too many.
    pub fn set_path(
        &mut self,
        name: &ItemName,
        path: Option<ForwardingPath>,
    ) -> Result<(), &'static str> {
        let Some(ForwardingPath { table, hop_limit, bits }) = path else {
            self.paths.remove(name);
            return Ok(());
        };
        let fid = Fid::from_bytes(&bits);
        if fid.count_ones() > FILL_BITS_MAX {
            return Err("the forwarding identifier is too full: give one of fewer links");
        }
        if self.paths.len() >= PATHS_MAX && !self.paths.contains_key(name) {
            return Err("too many items have a forwarding identifier: withdraw some");
        }
        self.paths.insert(name.clone(), Tree { table, fid, hop_limit, stages: None });
        Ok(())
    }

    /// Returns the nodes that the forwarding identifier of an item leads to; none without one.
    pub fn path_nodes(&self, name: &ItemName) -> BTreeSet<NodeId> {
        let Some(Tree { table, fid, hop_limit, .. }) = self.paths.get(name) else {
            return BTreeSet::new();
        };
        let is_link = |from, to| fid.contains(&link_id(*table, from, to));
        self.links.nodes_along(*hop_limit, is_link)
    }

    /// Counts an identifier that leads to fewer nodes than before.
    pub const fn count_outdated_path(&mut self) {
        self.counters.outdated_paths += 1;
    }

    /// Returns the trees to a set of nodes: one, or several where one identifier would be too full.
    pub(super) fn trees(&mut self, nodes: &BTreeSet<NodeId>) -> Vec<Tree> {
        if self.trees_changes != self.links.paths_changes {
            self.trees_changes = self.links.paths_changes;
            self.trees.clear();
        }
        if let Some(trees) = self.trees.get(nodes) {
            return trees.clone();
        }
        let (trees, too_full) = match self.large_trees {
            LargeTrees::Parts => self.compute_trees(nodes),
            LargeTrees::Stages => self.compute_staged_trees(nodes),
        };
        self.counters.fill_limit += too_full;
        if self.trees.len() >= TREE_SETS_MAX {
            self.trees.clear();
        }
        self.trees.insert(nodes.clone(), trees.clone());
        trees
    }

    /// Returns the trees to a set of nodes, and the number of nodes that no identifier reaches.
    fn compute_trees(&self, nodes: &BTreeSet<NodeId>) -> (Vec<Tree>, u64) {
        let mut too_full = 0;
        let (mut trees, mut groups) = (Vec::new(), vec![nodes.iter().copied().collect::<Vec<_>>()]);
        while let Some(group) = groups.pop() {
            let (mut links, mut depth) = (BTreeSet::new(), 0);
            for node in &group {
                let path = self.links.path(*node);
                if path.is_empty() {
                    continue;
                }
                depth = depth.max(path.len());
                links.extend(path);
                links.insert((*node, *node));
            }
            if links.is_empty() {
                continue;
            }
            let links: Vec<_> = links.into_iter().collect();
            match tree_id(&links) {
                Some((table, fid)) => {
                    let hop_limit = depth.min(255) as u8;
                    trees.push(Tree { table, fid, hop_limit, stages: None });
                }
                None if group.len() > 1 => {
                    let (first, second) = group.split_at(group.len() / 2);
                    groups.extend([first.to_vec(), second.to_vec()]);
                }
                None => too_full += 1,
            }
        }
        (trees, too_full)
    }

    /// Returns the forwarding identifiers of the trees to a set of nodes.
    pub fn forwarding_paths(&self, nodes: &BTreeSet<NodeId>) -> Vec<ForwardingPath> {
        let (trees, _) = self.compute_trees(nodes);
        let path = |tree: &Tree| ForwardingPath {
            table: tree.table,
            hop_limit: tree.hop_limit,
            bits: tree.fid.to_bytes(),
        };
        trees.iter().map(path).collect()
    }

    /// Returns the links of the trees to a set of nodes, for people.
    pub fn tree(&self, nodes: &BTreeSet<NodeId>) -> Vec<String> {
        let links: BTreeSet<_> = nodes.iter().flat_map(|node| self.links.path(*node)).collect();
        links.iter().map(|(from, to)| format!("{from} {to}")).collect()
    }
}
