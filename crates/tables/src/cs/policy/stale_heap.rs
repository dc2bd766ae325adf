//! A binary heap of entries by the time from which on they are stale, with the position of each
//! entry, so that any entry can be removed.

use crate::memory::MmapArray;
use zerocopy::FromZeros;

/// An element of the heap.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
struct Item {
    stale_at: u64,
    /// Breaks ties: the order of insertion.
    order: u32,
    slot: u32,
}

/// The heap: see the module.
#[derive(Debug)]
pub(super) struct StaleHeap {
    items: MmapArray<Item>,
    /// The position of each entry in `items`; undefined for entries not in the heap.
    positions: MmapArray<u32>,
    len: usize,
    order: u32,
}

impl StaleHeap {
    /// Creates a heap for `entries_max` entries with numbers below `numbers_max`.
    pub fn new(entries_max: usize, numbers_max: usize) -> Self {
        StaleHeap {
            items: MmapArray::new(entries_max),
            positions: MmapArray::new(numbers_max),
            len: 0,
            order: 0,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.items.memory_bytes() + self.positions.memory_bytes()
    }

    /// Removes all entries in constant time.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns the first time and its entry.
    #[inline]
    pub fn first(&self) -> Option<(u64, u32)> {
        self.items[..self.len].first().map(|item| (item.stale_at, item.slot))
    }

    /// Adds an entry that is not in the heap. The heap has space for all entries of the store.
    pub fn push(&mut self, stale_at: u64, slot: u32) {
        let index = self.len;
        if index == self.items.len() {
            return;
        }
        self.len += 1;
        self.order = self.order.wrapping_add(1);
        self.items[index] = Item { stale_at, order: self.order, slot };
        self.sift_up(index);
    }

    /// Removes an entry if it is in the heap.
    pub fn remove(&mut self, slot: u32) {
        let index = self.positions[slot as usize] as usize;
        if self.items[..self.len].get(index).is_none_or(|item| item.slot != slot) {
            return;
        }
        self.len -= 1;
        if index < self.len {
            self.items[index] = self.items[self.len];
            self.sift_down(index);
            self.sift_up(index);
        }
    }

    fn sift_up(&mut self, mut index: usize) {
        while index > 0 && self.is_before(index, (index - 1) / 2) {
            self.items.swap(index, (index - 1) / 2);
            self.record_position(index);
            index = (index - 1) / 2;
        }
        self.record_position(index);
    }

    fn sift_down(&mut self, mut index: usize) {
        loop {
            let mut smallest = index;
            for child in [2 * index + 1, 2 * index + 2] {
                if child < self.len && self.is_before(child, smallest) {
                    smallest = child;
                }
            }
            if smallest == index {
                return self.record_position(index);
            }
            self.items.swap(index, smallest);
            self.record_position(index);
            index = smallest;
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.items[a], &self.items[b]);
        // The order counter may wrap around.
        a.stale_at < b.stale_at
            || a.stale_at == b.stale_at && (a.order.wrapping_sub(b.order) as i32) < 0
    }

    fn record_position(&mut self, index: usize) {
        self.positions[self.items[index].slot as usize] = index as u32;
    }
}
