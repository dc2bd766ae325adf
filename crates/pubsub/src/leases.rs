//! Leases of clients: a client that does not renew its lease in time is gone.

use nw_packet_types::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Leases by key, all of the same duration.
#[derive(Clone, Debug)]
pub struct Leases<K> {
    duration_ms: u64,
    expiries: BTreeMap<K, Timestamp>,
    queue: BTreeSet<(Timestamp, K)>,
}

impl<K: Copy + Ord> Leases<K> {
    /// Creates an empty set of leases that last `duration_ms` milliseconds.
    pub const fn new(duration_ms: u64) -> Self {
        Leases { duration_ms, expiries: BTreeMap::new(), queue: BTreeSet::new() }
    }

    /// Starts or renews a lease.
    pub fn renew(&mut self, key: K, now: Timestamp) {
        let expiry = now.plus_millis(self.duration_ms);
        if let Some(before) = self.expiries.insert(key, expiry) {
            self.queue.remove(&(before, key));
        }
        self.queue.insert((expiry, key));
    }

    /// Ends a lease. Returns `false` if there was none.
    pub fn remove(&mut self, key: K) -> bool {
        match self.expiries.remove(&key) {
            Some(expiry) => self.queue.remove(&(expiry, key)),
            None => false,
        }
    }

    /// Takes one key whose lease ended by `now`, the earliest first.
    pub fn take_expired(&mut self, now: Timestamp) -> Option<K> {
        let (expiry, key) = *self.queue.first()?;
        (expiry <= now).then(|| {
            self.remove(key);
            key
        })
    }

    /// Returns when the first lease ends.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.queue.first().map(|(expiry, _)| *expiry)
    }

    /// Returns the number of leases.
    pub fn len(&self) -> usize {
        self.expiries.len()
    }

    /// Returns whether there is no lease.
    pub fn is_empty(&self) -> bool {
        self.expiries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_ends_unless_renewed() {
        let at = Timestamp::from_millis;
        let mut leases = Leases::new(100);
        assert!(leases.is_empty() && leases.deadline().is_none());
        leases.renew(1, at(0));
        leases.renew(2, at(10));
        leases.renew(1, at(50));
        assert_eq!((leases.len(), leases.deadline()), (2, Some(at(110))));
        assert_eq!(leases.take_expired(at(109)), None);
        assert_eq!(leases.take_expired(at(200)), Some(2));
        assert_eq!(leases.take_expired(at(149)), None);
        assert!(leases.remove(1) && !leases.remove(1));
        assert_eq!(leases.take_expired(at(1000)), None);
    }
}
