//! Last values and history of items whose publishers have ended, for late subscribers.
//!
//! Invariants: the bytes kept never exceed the limit, and the values that were kept first are
//! dropped first; an item has at most [`PUBLICATIONS_MAX`] publications, and those before the last
//! one take at most a small part of the limit.

use crate::domain::NodeId;
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_pubsub::history::{History, HistoryDepth};
use std::collections::{BTreeMap, VecDeque};

/// Publications of an item at most.
pub const PUBLICATIONS_MAX: u32 = 256;
/// Bytes that an item takes beside its publications.
const OVERHEAD_BYTES: usize = 256;
/// Bytes that a publication takes beside its payload.
const PUBLICATION_OVERHEAD_BYTES: usize = 32;
/// Part of the limit that one item's publications may take, unless its last one alone is larger.
const ITEMS_MIN: usize = 32;

/// The last publications of an item.
#[derive(Clone, Debug)]
pub struct KeptItem {
    /// Node of the publisher.
    pub origin: NodeId,
    /// When this node had the last one, milliseconds of its clock.
    pub kept_ms: u64,
    /// Whether other nodes may have it, by its strategy.
    pub is_for_all: bool,
    /// Other nodes that have it too, as far as known.
    pub holders: Vec<NodeId>,
    /// The publications.
    pub history: History,
    is_large: bool,
    /// Number of the insertion.
    order: u64,
}

impl KeptItem {
    /// Returns the numbers of the first and the last publication.
    pub fn range(&self) -> (u64, u64) {
        let mut all = self.history.iter().map(|(sequence, _)| sequence);
        let first = all.next().unwrap_or(0);
        (first, all.next_back().unwrap_or(first))
    }
}

/// The values by name.
#[derive(Debug)]
pub struct LastValues {
    values: BTreeMap<ItemName, KeptItem>,
    /// Insertions, oldest first; one without a value of the same order is stale.
    order: VecDeque<(u64, ItemName)>,
    next_order: u64,
    bytes: usize,
    bytes_max: usize,
    dropped: u64,
}

impl LastValues {
    /// Creates an empty table for at most `bytes_max` bytes.
    pub const fn new(bytes_max: usize) -> Self {
        LastValues {
            values: BTreeMap::new(),
            order: VecDeque::new(),
            next_order: 0,
            bytes: 0,
            bytes_max,
            dropped: 0,
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the bytes of all values.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of items dropped because of the limit.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns what is kept under a name.
    pub fn get(&self, name: &ItemName) -> Option<&KeptItem> {
        self.values.get(name)
    }

    /// Sets the nodes that have an item, and that other nodes may have it. Returns whether it is
    /// kept.
    pub fn open(&mut self, name: &ItemName, holders: Vec<NodeId>) -> bool {
        let Some(value) = self.values.get_mut(name) else { return false };
        (value.holders, value.is_for_all) = (holders, true);
        true
    }

    /// Returns all names with what is kept under them.
    pub fn iter(&self) -> impl Iterator<Item = (&ItemName, &KeptItem)> {
        self.values.iter()
    }

    /// Keeps a publication: after those of the same publisher that it follows, or in place of what
    /// was kept of the name. One that is too large by itself is not kept.
    pub fn insert(
        &mut self,
        name: &ItemName,
        origin: NodeId,
        (sequence, payload): (u64, &[u8]),
        kept_ms: u64,
    ) {
        let share = self.bytes_max / ITEMS_MIN;
        let is_large = payload.len() > share;
        let earlier = self.take(name);
        let earlier = earlier.filter(|value| {
            value.origin == origin && !value.is_large && !is_large && value.range().1 < sequence
        });
        let mut history = match earlier {
            Some(value) => value.history,
            None if is_large => History::new(HistoryDepth::LastValue, self.bytes_max),
            None => History::new(HistoryDepth::Ring(PUBLICATIONS_MAX), share),
        };
        history.insert(sequence, payload);
        let cost = cost(name, &history);
        if cost > self.bytes_max || history.last().is_none() {
            self.dropped += 1;
            return;
        }
        while self.bytes + cost > self.bytes_max {
            let Some((order, oldest)) = self.order.pop_front() else { return };
            if self.values.get(&oldest).is_some_and(|value| value.order == order) {
                self.remove(&oldest);
                self.dropped += 1;
            }
        }
        let order = self.next_order;
        self.next_order += 1;
        self.bytes += cost;
        self.order.push_back((order, name.clone()));
        let (holders, is_for_all) = (Vec::new(), false);
        let value = KeptItem { origin, kept_ms, is_for_all, holders, history, is_large, order };
        self.values.insert(name.clone(), value);
        if self.order.len() > 2 * self.values.len() + 64 {
            let values = &self.values;
            self.order.retain(|(order, name)| {
                values.get(name).is_some_and(|value| value.order == *order)
            });
        }
    }

    /// Drops what is kept of a name, because a newer publication exists.
    pub fn remove(&mut self, name: &ItemName) {
        self.take(name);
    }

    fn take(&mut self, name: &ItemName) -> Option<KeptItem> {
        let value = self.values.remove(name)?;
        self.bytes -= cost(name, &value.history);
        Some(value)
    }

    /// Returns the names that match a pattern.
    pub fn matching(&self, pattern: &ScopePattern) -> Vec<ItemName> {
        if pattern.is_name() {
            let name = pattern.as_str().parse::<ItemName>().ok();
            let own = name.filter(|name| self.values.contains_key(name)).into_iter();
            // Those that passed other domains are beside each other, and few.
            let others = self.values.keys().filter(|name| name.path().is_some());
            return own.chain(others.filter(|name| pattern.matches(name)).cloned()).collect();
        }
        self.values.keys().filter(|name| pattern.matches(name)).cloned().collect()
    }
}

fn cost(name: &ItemName, history: &History) -> usize {
    let publications = history.iter().count() * PUBLICATION_OVERHEAD_BYTES;
    OVERHEAD_BYTES + 2 * name.as_str().len() + history.bytes() + publications
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    fn name(number: u32) -> ItemName {
        format!("/a/{number}").parse().unwrap()
    }

    #[test]
    fn oldest_values_are_dropped_at_the_limit() {
        let mut values = LastValues::new(3000);
        for number in 0..100 {
            values.insert(&name(number), NODE, (1, &[0; 100]), 0);
            values.insert(&name(99), NODE, (2, &[0; 50]), 0);
            assert!(values.bytes() <= 3000);
        }
        assert!(values.len() < 8 && values.order.len() < 100 && values.dropped() > 90);
        assert_eq!(values.matching(&"/a/99".parse().unwrap()).len(), 1);
        values.insert(&name(1), NODE, (1, &[0; 4000]), 0);
        assert_eq!(values.matching(&"/a/1".parse().unwrap()).len(), 0, "too large by itself");
        (0..100).for_each(|number| values.remove(&name(number)));
        assert_eq!((values.bytes(), values.len()), (0, 0));
    }

    #[test]
    fn history_of_one_publisher_is_kept_within_its_share() {
        let mut values = LastValues::new(320_000);
        for sequence in 3..=10 {
            values.insert(&name(0), NODE, (sequence, &[0; 100]), sequence);
        }
        let kept = values.get(&name(0)).unwrap();
        assert_eq!((kept.range(), kept.kept_ms), ((3, 10), 10));
        for sequence in 11..=400 {
            values.insert(&name(0), NODE, (sequence, &[0; 100]), 0);
        }
        assert_eq!(values.get(&name(0)).unwrap().range(), (301, 400), "100 have 10,000 bytes");
        values.insert(&name(0), NODE, (401, &[0; 20_000]), 0);
        assert_eq!(values.get(&name(0)).unwrap().range(), (401, 401), "large ones stand alone");
        values.insert(&name(0), NODE, (2, &[1]), 0);
        assert_eq!(values.get(&name(0)).unwrap().range(), (2, 2), "the publisher began again");
        values.insert(&name(0), NodeId(2), (3, &[1]), 0);
        assert_eq!(values.get(&name(0)).unwrap().range(), (3, 3), "another publisher");
    }
}
