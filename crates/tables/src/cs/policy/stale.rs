//! Entries by the moment from which on they are not fresh: a binary heap that knows where each entry stands in it.

use crate::memory::Lines;
use zerocopy::FromZeros;

#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
struct Item {
    stale_at: u64,
    /// Tells which came first of those with the same moment.
    order: u32,
    slot: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct StaleTimes {
    items: Lines<Item>,
    /// Where an entry stands, by its number, if it stands there.
    places: Lines<u32>,
    len: usize,
    order: u32,
}

impl StaleTimes {
    /// For so many entries, with numbers below `numbers_max`.
    pub fn new(entries_max: usize, numbers_max: usize) -> Self {
        StaleTimes { items: Lines::new(entries_max), places: Lines::new(numbers_max), len: 0, order: 0 }
    }

    pub fn memory_bytes(&self) -> usize {
        self.items.memory_bytes() + self.places.memory_bytes()
    }

    /// Forgets all; takes no time.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// The first moment, and whose it is.
    #[inline]
    pub fn first(&self) -> Option<(u64, u32)> {
        self.items[..self.len].first().map(|item| (item.stale_at, item.slot))
    }

    /// Adds an entry, which is not in it. There is room for as many as the store has.
    pub fn push(&mut self, stale_at: u64, slot: u32) {
        let at = self.len;
        if at == self.items.len() {
            return;
        }
        self.len += 1;
        self.order = self.order.wrapping_add(1);
        self.items[at] = Item { stale_at, order: self.order, slot };
        self.rise(at);
    }

    /// Removes an entry, if it is in it.
    pub fn remove(&mut self, slot: u32) {
        let at = self.places[slot as usize] as usize;
        if self.items[..self.len].get(at).is_none_or(|item| item.slot != slot) {
            return;
        }
        self.len -= 1;
        if at < self.len {
            self.items[at] = self.items[self.len];
            self.sink(at);
            self.rise(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.is_before(at, (at - 1) / 2) {
            self.items.swap(at, (at - 1) / 2);
            self.note(at);
            at = (at - 1) / 2;
        }
        self.note(at);
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.len && self.is_before(child, least) {
                    least = child;
                }
            }
            if least == at {
                return self.note(at);
            }
            self.items.swap(at, least);
            self.note(at);
            at = least;
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.items[a], &self.items[b]);
        // Orders may wrap around.
        a.stale_at < b.stale_at || a.stale_at == b.stale_at && (a.order.wrapping_sub(b.order) as i32) < 0
    }

    fn note(&mut self, at: usize) {
        self.places[self.items[at].slot as usize] = at as u32;
    }
}
