//! Publishers of items with a choice: what nodes tell of them, and the change from one to another.
//!
//! Invariant: a node that is not served any more is told so at once, and gets no number of the
//! item's last publication later, so that it does not miss what was not meant for it.

use super::message::{END, ItemPublisher};
use super::{Domain, NodeId};
use nw_api::pubsub::ItemName;
use std::collections::BTreeSet;

/// Packets that tell a node that a publisher does not serve it any more: nothing repeats them.
const ENDS_SENT: usize = 3;

impl Domain {
    /// Sets the publishers of items with a choice among this node's applications.
    pub fn set_publishers(&mut self, publishers: Vec<(ItemName, ItemPublisher)>) {
        self.links.set_publishers(publishers);
        self.collect();
    }

    /// Returns the publishers of items with a choice at other nodes that can be reached.
    pub fn publishers(&self) -> impl Iterator<Item = (NodeId, &(ItemName, ItemPublisher))> {
        self.links.reachable().flat_map(|(node, _, record)| {
            record.body.publishers.iter().map(move |publisher| (node, publisher))
        })
    }

    /// Returns whether a node, which may be unreachable, listed a publisher of an item with a
    /// choice.
    pub fn lists_publisher(&self, node: NodeId, name: &ItemName) -> bool {
        self.links.lists_publisher(node, name)
    }

    /// Returns the links between two nodes. `None` without a path.
    pub fn hops(&mut self, from: NodeId, to: NodeId) -> Option<u32> {
        if self.hops_changes != self.links.topology_changes {
            self.hops_changes = self.links.topology_changes;
            self.hops.clear();
        }
        let links = &self.links;
        let compute = || {
            let paths = links.paths_from(from).into_iter();
            paths.map(|(node, (hops, _))| (node, hops)).collect()
        };
        self.hops.entry(from).or_insert_with(compute).get(&to).copied()
    }

    /// Tells nodes that this one does not serve them any more. `is_last`: nor any other node.
    pub fn hand_over(
        &mut self,
        name: &ItemName,
        last: u64,
        nodes: &BTreeSet<NodeId>,
        is_last: bool,
    ) {
        self.send_ends(name, last, nodes);
        if is_last {
            self.forget_sent(name);
        }
    }

    /// Tells nodes the number of a publisher's last publication.
    pub fn send_ends(&mut self, name: &ItemName, last: u64, nodes: &BTreeSet<NodeId>) {
        for _ in 0..ENDS_SENT {
            self.send_number(name, last, END, nodes);
        }
    }

    /// Forgets the numbers of an item, of which nothing was received.
    pub fn forget_numbers(&mut self, node: NodeId, name: &ItemName) {
        self.streams.remove(node, name);
    }

    /// Ends an item that another node does not send any more. What is missing of it is lost.
    /// Returns whether an event follows.
    pub fn end_stream(&mut self, node: NodeId, name: &ItemName) -> bool {
        let was_followed = self.streams.end(&(node, name.clone()));
        self.report_progress();
        was_followed
    }
}
