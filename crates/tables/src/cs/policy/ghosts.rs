//! The ghost queue of S3-FIFO: names recently evicted unused from its small queue, in a ring.

use crate::index::Index;
use crate::memory::MmapArray;

/// The ghost queue: the hashes of the names, with an index.
#[derive(Debug)]
pub(super) struct Ghosts {
    /// Hashes of names; 0 if removed.
    ring: MmapArray<u64>,
    index: Index,
    next: usize,
}

impl Ghosts {
    /// Creates a queue for a store of `packets_max` packets: as long as its main queue (90 %).
    pub fn new(packets_max: usize) -> Self {
        let len = (packets_max / 10 * 9).max(1);
        Ghosts { ring: MmapArray::new(len), index: Index::with_capacity(len), next: 0 }
    }

    pub fn memory_bytes(&self) -> usize {
        self.ring.memory_bytes() + self.index.memory_bytes()
    }

    /// Adds the name of an evicted packet; the oldest name is dropped.
    pub fn push(&mut self, key: u64) {
        let position = self.next;
        self.next = if position + 1 == self.ring.len() { 0 } else { position + 1 };
        let eldest = core::mem::replace(&mut self.ring[position], key);
        if eldest != 0 {
            self.index.remove(eldest, position as u32);
        }
        if key != 0 && self.index.insert(key, position as u32).is_err() {
            self.ring[position] = 0;
        }
    }

    /// Removes a name; returns whether it was in the queue.
    pub fn take(&mut self, key: u64) -> bool {
        let ring = &self.ring;
        let Some(position) = self.index.find(key, |position| ring[position as usize] == key) else {
            return false;
        };
        self.index.remove(key, position);
        self.ring[position as usize] = 0;
        true
    }
}
