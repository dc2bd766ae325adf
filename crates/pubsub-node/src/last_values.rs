//! Last values of items whose publishers have ended, for late subscribers.
//!
//! Invariant: the bytes kept never exceed the limit; the oldest values are dropped first.

use nw_api::pubsub::{ItemName, ScopePattern};
use std::collections::{BTreeMap, VecDeque};

/// Bytes that a value takes beside its payload.
const OVERHEAD_BYTES: usize = 128;

/// A kept publication.
#[derive(Clone, Debug)]
pub struct LastValue {
    /// Its sequence number.
    pub sequence: u64,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Number of the insertion.
    order: u64,
}

/// The values by name.
#[derive(Debug)]
pub struct LastValues {
    values: BTreeMap<ItemName, LastValue>,
    /// Insertions, oldest first; one without a value of the same order is stale.
    order: VecDeque<(u64, ItemName)>,
    next_order: u64,
    bytes: usize,
    bytes_max: usize,
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
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the bytes of all values.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a value in place of an earlier one of the same name. One that is too large by itself
    /// is not kept.
    pub fn insert(&mut self, name: ItemName, sequence: u64, payload: &[u8]) {
        self.remove(&name);
        let len = cost(&name, payload);
        if len > self.bytes_max {
            return;
        }
        while self.bytes + len > self.bytes_max {
            let Some((order, oldest)) = self.order.pop_front() else { return };
            if self.values.get(&oldest).is_some_and(|value| value.order == order) {
                self.remove(&oldest);
            }
        }
        let order = self.next_order;
        self.next_order += 1;
        self.bytes += len;
        self.order.push_back((order, name.clone()));
        self.values.insert(name, LastValue { sequence, payload: payload.to_vec(), order });
        if self.order.len() > 2 * self.values.len() + 64 {
            let values = &self.values;
            self.order.retain(|(order, name)| {
                values.get(name).is_some_and(|value| value.order == *order)
            });
        }
    }

    /// Drops the value of a name, because a newer publication exists.
    pub fn remove(&mut self, name: &ItemName) {
        if let Some(value) = self.values.remove(name) {
            self.bytes -= cost(name, &value.payload);
        }
    }

    /// Returns the values whose names match a pattern.
    pub fn matching<'a>(
        &'a self,
        pattern: &'a ScopePattern,
    ) -> impl Iterator<Item = (&'a ItemName, &'a LastValue)> {
        self.values.iter().filter(move |(name, _)| pattern.matches(name))
    }
}

fn cost(name: &ItemName, payload: &[u8]) -> usize {
    OVERHEAD_BYTES + 2 * name.as_str().len() + payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_values_are_dropped_at_the_limit() {
        let mut values = LastValues::new(1000);
        let name = |number: u32| format!("/a/{number}").parse::<ItemName>().unwrap();
        for number in 0..100 {
            values.insert(name(number), 1, &[0; 100]);
            values.insert(name(99), 2, &[0; 50]);
            assert!(values.bytes() <= 1000);
        }
        assert!(values.len() < 6 && values.order.len() < 100);
        assert_eq!(values.matching(&"/a/99".parse().unwrap()).count(), 1);
        values.insert(name(1), 1, &[0; 2000]);
        assert_eq!(values.matching(&"/a/1".parse().unwrap()).count(), 0, "too large by itself");
        (0..100).for_each(|number| values.remove(&name(number)));
        assert_eq!((values.bytes(), values.len()), (0, 0));
    }
}
