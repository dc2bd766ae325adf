//! What must always hold in a tree.

use super::*;

impl Tree {
    /// Leaves only so many nodes that were never used.
    pub fn leave_nodes(&mut self, count: usize) {
        self.nodes_untouched = (self.nodes.len() - count) as u32;
    }

    /// Walks all of it and checks what must always hold, of so many entries there are; gives the entries seen.
    pub fn assert_whole(&self, all: usize) -> usize {
        let (mut entries, mut nodes, mut edges) = (0, 0, 0);
        let mut pending = vec![ROOT];
        while let Some(node) = pending.pop() {
            let record = self.node(node);
            assert!(node == ROOT || record.count >= 2, "a node with one record below dissolves");
            let (mut id, mut before, mut count) = (record.first, NONE, 0);
            while id != NONE {
                let place = self.place(id);
                assert_eq!((place.parent, place.before), (node, before));
                let end = if is_node(id) {
                    assert!(place.depth > record.place.depth);
                    pending.push(id);
                    nodes += 1;
                    self.node(id).fresh_end
                } else {
                    assert!(place.depth >= record.place.depth && place.linked != 0);
                    entries += 1;
                    edges += usize::from(self.has_edge_record(id));
                    coarse_end(self.entries[id as usize].fresh_until)
                };
                assert!(end <= record.fresh_end);
                assert!(
                    !self.has_edge_record(id) || self.edges.find(place.edge, |other| other == id).is_some()
                );
                (before, id, count) = (id, place.after, count + 1);
            }
            assert_eq!(count, record.count);
        }
        assert_eq!(nodes, self.nodes_in_use());
        assert_eq!((self.keys.len(), self.edges.len()), (all, edges + nodes));
        entries
    }
}
