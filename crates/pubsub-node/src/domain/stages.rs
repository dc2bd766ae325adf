//! Trees with identifiers in stages, where `pubsub.large_trees` asks for them.
//!
//! A tree whose links fit one identifier of 256 bits that no other link of its nodes matches has
//! that one, which the kernel forwards too. Others are in stages, and in several parts only if they
//! need more than [`LEN_MAX`] bytes.

use super::filter::{clean_tree_id, link_number};
use super::trees::Tree;
use super::{Domain, LinkAddress, NodeId, Target};
use nw_api::config::LargeTrees;
use nw_api::pubsub::status::StagesTrace;
use nw_pubsub::filter::{FILL_BITS_MAX, LinkScheme};
use nw_pubsub::stages::{StageLinks, build};
use nw_wire::publication::{Envelope, FID_LEN, Fid, STAGES_TABLE, StagedFilter};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most bytes of an identifier in stages, so that most of a packet is payload: some 150 links.
const LEN_MAX: usize = 256;

/// The identifier of a tree, in stages.
#[derive(Debug)]
pub struct Stages {
    bytes: Vec<u8>,
    /// Links between nodes by distance from this one.
    links: Vec<u64>,
    /// Other links that match.
    other_links: u64,
}

impl Stages {
    /// Returns the identifier as packets have it.
    pub fn filter(&self) -> Option<StagedFilter<'_>> {
        StagedFilter::check(&self.bytes).ok()
    }
}

/// A directed link; of one node: its internal link.
type Link = (NodeId, NodeId);

/// The nodes of a tree: distance from its source, and the node before.
type TreeNodes = BTreeMap<NodeId, (usize, NodeId)>;

/// Returns the key of a link in filters of stages.
pub fn stage_key(from: NodeId, to: NodeId) -> u64 {
    LinkScheme::default().stage_key(link_number(from, to))
}

impl Domain {
    /// Sets how publications are sent to trees that fit no identifier of 256 bits.
    pub fn set_large_trees(&mut self, large_trees: LargeTrees) {
        self.large_trees = large_trees;
        self.trees.clear();
    }

    /// Returns the bytes of packets that are kept for identifiers in stages. They are the same for
    /// all trees, so that a publication has the same fragments for all.
    pub(super) const fn staged_len(&self) -> usize {
        match self.large_trees {
            LargeTrees::Parts => 0,
            LargeTrees::Stages => LEN_MAX - FID_LEN,
        }
    }

    /// Returns the trees to a set of nodes, and the number of nodes that no identifier reaches.
    pub(super) fn compute_staged_trees(&self, nodes: &BTreeSet<NodeId>) -> (Vec<Tree>, u64) {
        let mut neighbours: BTreeMap<NodeId, Vec<NodeId>> = self
            .links
            .reachable()
            .map(|(node, _, record)| (node, record.body.neighbours.clone()))
            .collect();
        neighbours.insert(self.node, self.links.neighbours().map(|(node, _)| node).collect());
        let mut reachable: Vec<(Vec<Link>, NodeId)> = nodes
            .iter()
            .map(|node| (self.links.path(*node).into_iter().rev().collect(), *node))
            .filter(|(path, _): &(Vec<Link>, NodeId)| !path.is_empty())
            .collect();
        // Those behind the same links together, so that parts share few links.
        reachable.sort();
        let (mut trees, mut too_long) = (Vec::new(), 0);
        let mut groups = vec![&reachable[..]];
        while let Some(group) = groups.pop() {
            if group.is_empty() {
                continue;
            }
            match self.tree_of(group, &neighbours) {
                Some(tree) => trees.push(tree),
                None if group.len() > 1 => {
                    groups.extend(<[_; 2]>::from(group.split_at(group.len() / 2)))
                }
                None => too_long += 1,
            }
        }
        (trees, too_long)
    }

    /// Returns the tree of some paths, each with the node at its end.
    fn tree_of(
        &self,
        paths: &[(Vec<Link>, NodeId)],
        neighbours: &BTreeMap<NodeId, Vec<NodeId>>,
    ) -> Option<Tree> {
        let mut nodes = TreeNodes::from([(self.node, (0, self.node))]);
        for (at, (from, to)) in paths.iter().flat_map(|(path, _)| path.iter().enumerate()) {
            nodes.insert(*to, (at + 1, *from));
        }
        let receivers: BTreeSet<NodeId> = paths.iter().map(|(_, node)| *node).collect();
        let depth = paths.iter().map(|(path, _)| path.len()).max()?;
        let (mut tree, mut others) = (Vec::new(), Vec::new());
        for (node, (distance, before)) in &nodes {
            let internal = (*distance, (*node, *node));
            match receivers.contains(node) {
                true => tree.push(internal),
                false if *distance > 0 => others.push(internal),
                // This node does not read its own packets.
                false => {}
            }
            for next in neighbours.get(node).into_iter().flatten().filter(|next| *next != before) {
                let is_in_tree = nodes.get(next).is_some_and(|(_, from)| from == node);
                let links = if is_in_tree && *next != self.node { &mut tree } else { &mut others };
                links.push((*distance, (*node, *next)));
            }
        }
        let hop_limit = depth.min(255) as u8;
        let without_stage = |links: &[(usize, Link)]| links.iter().map(|(_, link)| *link).collect();
        let (in_tree, not_in_tree): (Vec<Link>, Vec<Link>) =
            (without_stage(&tree), without_stage(&others));
        if let Some((table, fid)) = clean_tree_id(&in_tree, &not_in_tree) {
            return Some(Tree { table, fid, hop_limit, stages: None });
        }
        let mut stages = vec![StageLinks::default(); depth + 1];
        let mut links = vec![0; depth];
        for (at, (from, to)) in &tree {
            stages[*at].tree.push(stage_key(*from, *to));
            if from != to {
                links[*at] += 1;
            }
        }
        for (at, (from, to)) in &others {
            stages[*at].others.push(stage_key(*from, *to));
        }
        let made = build(&stages, LEN_MAX)?;
        let other_links = made.false_positives as u64;
        let stages = Some(Arc::new(Stages { bytes: made.bytes, links, other_links }));
        Some(Tree { table: STAGES_TABLE, fid: Fid::EMPTY, hop_limit, stages })
    }

    /// Returns the trees in stages to a set of nodes, for people.
    pub fn staged_trees(&self, nodes: &BTreeSet<NodeId>) -> Vec<StagesTrace> {
        if self.large_trees == LargeTrees::Parts {
            return Vec::new();
        }
        let (trees, _) = self.compute_staged_trees(nodes);
        let describe = |stages: &Arc<Stages>| StagesTrace {
            bytes: stages.bytes.len() as u64,
            links: stages.links.clone(),
            other_links: stages.other_links,
        };
        trees.iter().filter_map(|tree| tree.stages.as_ref()).map(describe).collect()
    }

    /// Queues an appended packet of this node for the links in its first stage. Returns the number
    /// of links.
    pub(super) fn queue_first_stage(
        &mut self,
        packet: &core::ops::Range<usize>,
        filter: &StagedFilter<'_>,
    ) -> u64 {
        let mut count = 0;
        if let Some(stage) = filter.stage_at(filter.stages()) {
            for address in self.forwarding.links_in_stage(&stage, None) {
                self.packets.push(Target::Neighbour(address), packet.clone());
                count += 1;
            }
        }
        count
    }

    /// Forwards and delivers a packet with an identifier in stages.
    #[cold]
    pub(super) fn receive_staged(
        &mut self,
        from: LinkAddress,
        bytes: &[u8],
        envelope: &Envelope<'_>,
    ) {
        let hop_limit = envelope.hop_limit();
        let Some((filter, fields)) = envelope.staged().zip(Envelope::forwarding_fields(bytes).ok())
        else {
            self.counters.invalid += 1;
            return;
        };
        let Some(stage) = filter.stage_at(hop_limit) else {
            self.counters.hop_limit += 1;
            return;
        };
        if stage.is_above(FILL_BITS_MAX) {
            self.counters.fill_limit += 1;
            return;
        }
        // The last stage is only for nodes.
        if hop_limit > 1 {
            let mut packet = None;
            for address in self.forwarding.links_in_stage(&stage, Some(from)) {
                let range = packet.get_or_insert_with(|| {
                    let seal = &self.seal;
                    self.packets.append(|copy| {
                        let start = copy.len();
                        copy.extend_from_slice(bytes);
                        copy[start + fields.offset] = hop_limit - 1;
                        seal.close(copy, start);
                        true
                    })
                });
                if let Some(range) = range {
                    self.packets.push(Target::Neighbour(address), range.clone());
                    self.counters.forwarded += 1;
                }
            }
        }
        if self.forwarding.is_for_node_in_stage(&stage) {
            self.deliver(envelope);
        }
    }
}
