//! Publications that this node sent to others, kept so that they can be sent again.
//!
//! Invariants: the bytes kept never exceed the limit, and the items that were published least
//! recently are dropped first; a node gets again only what was sent to it.

use super::NodeId;
use nw_api::pubsub::ItemName;
use nw_pubsub::history::{History, HistoryDepth};
use std::collections::{BTreeMap, BTreeSet};

/// Publications of an item at most.
const PUBLICATIONS_MAX: u32 = 8192;

#[derive(Debug)]
struct Sent {
    history: History,
    nodes: BTreeSet<NodeId>,
    /// Flags of its packets.
    flags: u8,
    /// When it was used, as a count.
    used: u64,
}

/// The kept publications of all items.
#[derive(Debug)]
pub struct SentPublications {
    items: BTreeMap<ItemName, Sent>,
    by_use: BTreeMap<u64, ItemName>,
    bytes: usize,
    bytes_max: usize,
    uses: u64,
}

/// What can be sent again.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept<'a> {
    /// The publication, and the flags of its packets.
    Publication(&'a [u8], u8),
    /// Nothing up to this number.
    GoneUpTo(u64),
}

impl SentPublications {
    /// Creates an empty table for at most `bytes_max` bytes.
    pub const fn new(bytes_max: usize) -> Self {
        SentPublications {
            items: BTreeMap::new(),
            by_use: BTreeMap::new(),
            bytes: 0,
            bytes_max,
            uses: 0,
        }
    }

    fn touch(&mut self, name: &ItemName) -> &mut Sent {
        self.uses += 1;
        let (uses, bytes_max) = (self.uses, self.bytes_max);
        let new = || Sent {
            history: History::new(HistoryDepth::Ring(PUBLICATIONS_MAX), bytes_max),
            nodes: BTreeSet::new(),
            flags: 0,
            used: 0,
        };
        let sent = self.items.entry(name.clone()).or_insert_with(new);
        self.by_use.remove(&sent.used);
        self.by_use.insert(uses, name.clone());
        sent.used = uses;
        sent
    }

    /// Keeps a publication that was sent to these nodes.
    pub fn insert(
        &mut self,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        flags: u8,
        nodes: &BTreeSet<NodeId>,
    ) {
        let sent = self.touch(name);
        let before = sent.history.bytes();
        sent.history.insert(sequence, payload);
        sent.flags = flags;
        if sent.nodes != *nodes {
            sent.nodes.clone_from(nodes);
        }
        let after = sent.history.bytes();
        self.bytes = self.bytes + after - before;
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first_key_value() else { return };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    /// Keeps the last publication, which these nodes get although it is older than their
    /// subscription.
    pub fn insert_last(
        &mut self,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        flags: u8,
        nodes: &BTreeSet<NodeId>,
    ) {
        let is_kept = |sent: &Sent| sent.history.publication(sequence).is_some();
        if !self.items.get(name).is_some_and(is_kept) {
            self.insert(name, sequence, payload, flags, nodes);
        }
    }

    /// Adds nodes that were told where an item stands.
    pub fn add_nodes(&mut self, name: &ItemName, nodes: &BTreeSet<NodeId>) {
        if let Some(sent) = self.items.get_mut(name) {
            sent.nodes.extend(nodes);
        }
    }

    /// Forgets an item.
    pub fn remove(&mut self, name: &ItemName) {
        if let Some(sent) = self.items.remove(name) {
            self.bytes -= sent.history.bytes();
            self.by_use.remove(&sent.used);
        }
    }

    /// Returns a publication that a node requests again. `None` if the node is no receiver of the
    /// item, or the number is above the last one. Number 0 is that of no publication.
    pub fn publication(&self, name: &ItemName, sequence: u64, node: NodeId) -> Option<Kept<'_>> {
        let Some(sent) = self.items.get(name) else { return Some(Kept::GoneUpTo(u64::MAX)) };
        if !sent.nodes.contains(&node) {
            return None;
        }
        let (first, _) = sent.history.iter().next().unwrap_or((u64::MAX, &[]));
        match sent.history.publication(sequence) {
            Some(payload) => Some(Kept::Publication(payload, sent.flags)),
            None if sequence < first && first > 0 => Some(Kept::GoneUpTo(first - 1)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_published_least_recently_are_dropped_at_the_limit() {
        let mut sent = SentPublications::new(1000);
        let (node, other) = (NodeId(1), NodeId(2));
        let nodes = BTreeSet::from([node]);
        let name = |number: u32| format!("/a/{number}").parse::<ItemName>().unwrap();
        for number in 0..50 {
            sent.insert(&name(number), 1, &[0; 100], 2, &nodes);
            sent.insert(&name(99), u64::from(number) + 1, &[1; 10], 0, &nodes);
            assert!(sent.bytes <= 1000 && sent.items.len() == sent.by_use.len());
        }
        let found = |number, sequence, node| sent.publication(&name(number), sequence, node);
        assert_eq!(found(49, 1, node), Some(Kept::Publication(&[0; 100], 2)));
        assert_eq!(found(49, 1, other), None, "it was not sent to that node");
        assert_eq!(found(49, 2, node), None, "it is not published yet");
        assert_eq!(found(0, 1, node), Some(Kept::GoneUpTo(u64::MAX)));
        let mut one = SentPublications::new(25);
        for sequence in 1..=5 {
            one.insert(&name(0), sequence, &[7; 10], 0, &nodes);
        }
        assert_eq!(one.publication(&name(0), 1, node), Some(Kept::GoneUpTo(3)));
        assert_eq!(one.publication(&name(0), 5, node), Some(Kept::Publication(&[7; 10], 0)));
        one.add_nodes(&name(0), &BTreeSet::from([other]));
        assert!(one.publication(&name(0), 5, other).is_some());
        one.remove(&name(0));
        assert_eq!((one.bytes, one.by_use.len()), (0, 0));
    }
}
