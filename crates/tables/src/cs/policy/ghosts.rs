//! Names of packets that went unused from S3-FIFO's small queue: the ones that went last, in a ring.

use crate::index::Index;
use crate::memory::Lines;

/// See the module.
#[derive(Debug)]
pub(super) struct Ghosts {
    /// Hashes of names; 0 where one was taken back.
    ring: Lines<u64>,
    index: Index,
    next: usize,
}

impl Ghosts {
    /// Of a store of so many packets: as many as its main queue has.
    pub fn new(packets_max: usize) -> Self {
        let len = (packets_max / 10 * 9).max(1);
        Ghosts { ring: Lines::new(len), index: Index::with_capacity(len), next: 0 }
    }

    pub fn memory_bytes(&self) -> usize {
        self.ring.memory_bytes() + self.index.memory_bytes()
    }

    /// A name's packet went.
    pub fn push(&mut self, key: u64) {
        let at = self.next;
        self.next = if at + 1 == self.ring.len() { 0 } else { at + 1 };
        let eldest = core::mem::replace(&mut self.ring[at], key);
        if eldest != 0 {
            self.index.remove(eldest, at as u32);
        }
        if key != 0 && self.index.insert(key, at as u32).is_err() {
            self.ring[at] = 0;
        }
    }

    /// True when a packet of this name went lately; that is forgotten.
    pub fn take(&mut self, key: u64) -> bool {
        let ring = &self.ring;
        let Some(at) = self.index.find(key, |at| ring[at as usize] == key) else { return false };
        self.index.remove(key, at);
        self.ring[at as usize] = 0;
        true
    }
}
