//! The nodes and links of a domain, as their advertisements describe them, and the numbers of
//! links.

use crate::filter::{CANDIDATES, LinkScheme};
use nw_wire::publication::{AssignedLink, Assignment, Fid, Label, LinkAdvertisement};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a node.
pub(crate) type Node = u32;

/// A link that leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) to: Node,
    pub(crate) cost: u32,
    /// Number of its identifiers.
    pub(crate) number: u32,
}

/// A change of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkChange {
    pub(crate) from: Node,
    pub(crate) to: Node,
    /// The new cost; `None` if the link is down.
    pub(crate) cost: Option<u32>,
}

#[derive(Clone, Debug)]
struct NodeState {
    label: Label,
    sequence: Option<u64>,
    /// Number of the internal link.
    internal: u32,
    links: Vec<Link>,
}

/// All nodes and links.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    scheme: LinkScheme,
    nodes: Vec<NodeState>,
    by_label: BTreeMap<Label, Node>,
    /// Numbers of links, up or down.
    numbers: BTreeMap<(Node, Node), u32>,
    /// Identifiers by number of the link.
    ids: Vec<[Fid; CANDIDATES]>,
    /// Nodes whose assignment changed since it was taken.
    changed: BTreeSet<Node>,
    nodes_max: usize,
    links_max: usize,
}

impl Network {
    pub(crate) const fn new(scheme: LinkScheme, nodes_max: usize, links_max: usize) -> Self {
        Network {
            scheme,
            nodes: Vec::new(),
            by_label: BTreeMap::new(),
            numbers: BTreeMap::new(),
            ids: Vec::new(),
            changed: BTreeSet::new(),
            nodes_max,
            links_max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn find(&self, label: Label) -> Option<Node> {
        self.by_label.get(&label).copied()
    }

    pub(crate) fn label(&self, node: Node) -> Label {
        self.nodes[node as usize].label
    }

    pub(crate) fn links(&self, node: Node) -> &[Link] {
        &self.nodes[node as usize].links
    }

    pub(crate) fn internal(&self, node: Node) -> u32 {
        self.nodes[node as usize].internal
    }

    /// Returns the link between two nodes, if it is up.
    pub(crate) fn link(&self, from: Node, to: Node) -> Option<&Link> {
        self.links(from).iter().find(|link| link.to == to)
    }

    /// Returns the candidate identifiers of a link by its number.
    pub(crate) fn ids(&self, number: u32) -> &[Fid; CANDIDATES] {
        &self.ids[number as usize]
    }

    fn new_number(&mut self) -> u32 {
        let number = self.ids.len() as u32;
        self.ids.push(self.scheme.candidates(number));
        number
    }

    /// Returns a node, which is added if it is new. `None` if there are too many.
    pub(crate) fn find_or_insert(&mut self, label: Label) -> Option<Node> {
        if let Some(node) = self.find(label) {
            return Some(node);
        }
        if self.nodes.len() >= self.nodes_max {
            return None;
        }
        let internal = self.new_number();
        self.nodes.push(NodeState { label, sequence: None, internal, links: Vec::new() });
        let node = (self.nodes.len() - 1) as Node;
        self.by_label.insert(label, node);
        self.changed.insert(node);
        Some(node)
    }

    /// Applies an advertisement. Returns what changed; nothing if it is out of date.
    pub(crate) fn advertise(&mut self, advertisement: &LinkAdvertisement) -> Vec<LinkChange> {
        let Some(node) = self.find_or_insert(advertisement.node) else { return Vec::new() };
        let known = self.nodes[node as usize].sequence;
        if known.is_some_and(|known| known >= advertisement.sequence) {
            return Vec::new();
        }
        self.nodes[node as usize].sequence = Some(advertisement.sequence);
        let mut links: Vec<Link> = Vec::new();
        for link in &advertisement.links {
            let Some(to) = self.find_or_insert(link.neighbour).filter(|to| *to != node) else {
                continue;
            };
            let Some(number) = self.link_number(node, to) else { continue };
            if links.iter().all(|known| known.to != to) {
                links.push(Link { to, cost: u32::from(link.cost.max(1)), number });
            }
        }
        self.set_links(node, links)
    }

    fn link_number(&mut self, from: Node, to: Node) -> Option<u32> {
        if let Some(number) = self.numbers.get(&(from, to)) {
            return Some(*number);
        }
        if self.numbers.len() >= self.links_max {
            return None;
        }
        let number = self.new_number();
        self.numbers.insert((from, to), number);
        self.changed.extend([from, to]);
        Some(number)
    }

    fn set_links(&mut self, node: Node, links: Vec<Link>) -> Vec<LinkChange> {
        let before = core::mem::replace(&mut self.nodes[node as usize].links, links);
        let after = &self.nodes[node as usize].links;
        let cost_in = |links: &[Link], to: Node| links.iter().find(|l| l.to == to).map(|l| l.cost);
        let removed = before.iter().filter(|link| cost_in(after, link.to).is_none());
        let removed = removed.map(|link| LinkChange { from: node, to: link.to, cost: None });
        let set = after.iter().filter(|link| cost_in(&before, link.to) != Some(link.cost));
        let set = set.map(|link| LinkChange { from: node, to: link.to, cost: Some(link.cost) });
        removed.chain(set).collect()
    }

    /// Takes all links of and to a node down. Its number and those of its links stay reserved.
    pub(crate) fn remove_node(&mut self, node: Node) -> Vec<LinkChange> {
        let mut changes = self.set_links(node, Vec::new());
        // A node that comes back starts with any sequence number.
        self.nodes[node as usize].sequence = None;
        for other in 0..self.nodes.len() as Node {
            let links = self.links(other);
            if links.iter().any(|link| link.to == node) {
                let kept = links.iter().filter(|link| link.to != node).copied().collect();
                changes.extend(self.set_links(other, kept));
            }
        }
        changes
    }

    /// Returns the link identifiers of a node, by numbers.
    pub(crate) fn assignment(&self, node: Node) -> Assignment {
        let neighbours = self.numbers.range((node, 0)..=(node, Node::MAX));
        let links = neighbours.filter_map(|((_, to), outgoing)| {
            let incoming = *self.numbers.get(&(*to, node))?;
            Some(AssignedLink { neighbour: self.label(*to), outgoing: *outgoing, incoming })
        });
        let internal = self.internal(node);
        Assignment { node: self.label(node), scheme: 0, internal, links: links.collect() }
    }

    /// Takes the assignments that changed since the last call.
    pub(crate) fn take_changed_assignments(&mut self) -> Vec<Assignment> {
        let changed = core::mem::take(&mut self.changed);
        changed.into_iter().map(|node| self.assignment(node)).collect()
    }
}
