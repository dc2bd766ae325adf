//! Checks of the tree's invariants, for tests.

use super::*;

impl Tree {
    /// Marks all but `count` of the nodes as used.
    pub fn leave_nodes(&mut self, count: usize) {
        self.nodes_high_water = (self.nodes.len() - count) as u32;
    }

    /// Checks the invariants of the whole tree in a store of `all` entries; returns the number of
    /// entries in the tree.
    pub fn assert_invariants(&self, all: usize) -> usize {
        let (mut entries, mut nodes, mut edges) = (0, 0, 0);
        let mut pending = vec![ROOT];
        while let Some(node) = pending.pop() {
            let record = self.node(node);
            assert!(node == ROOT || record.count >= 2, "a node has at least two children");
            let (mut id, mut prev, mut count) = (record.first, NONE, 0);
            while id != NONE {
                let link = self.link_of(id);
                assert_eq!((link.parent, link.prev), (node, prev));
                let end = if is_node(id) {
                    assert!(link.depth > record.link.depth);
                    pending.push(id);
                    nodes += 1;
                    self.node(id).fresh_end
                } else {
                    assert!(link.depth >= record.link.depth && link.linked != 0);
                    entries += 1;
                    edges += usize::from(self.has_edge_record(id));
                    coarse_end(self.entries[id as usize].fresh_until)
                };
                assert!(end <= record.fresh_end);
                assert!(
                    !self.has_edge_record(id)
                        || self.edges.find(link.edge, |other| other == id).is_some()
                );
                (prev, id, count) = (id, link.next, count + 1);
            }
            assert_eq!(count, record.count);
        }
        assert_eq!(nodes, self.nodes_in_use());
        assert_eq!((self.keys.len(), self.edges.len()), (all, edges + nodes));
        entries
    }
}
