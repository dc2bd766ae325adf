//! Storage for copies of Interests, and lists of free slots.
//!
//! Every entry has a line of 64 bytes of its own for a short Interest. A longer one gets a slot of
//! the smallest size that fits and is free.

use crate::bytes;
use crate::memory::{CACHE_LINE, MmapArray, prefetch_first_last};

/// The maximum length of an Interest that is stored in the entry's own line, bytes.
pub const INTEREST_SHORT_MAX: usize = CACHE_LINE;

/// The number of slot sizes for longer Interests.
pub const INTEREST_CLASSES: usize = 4;

/// Bytes of a slot of each size.
pub const INTEREST_SLOT_LENS: [usize; INTEREST_CLASSES] = [128, 512, 2048, 8832];

/// The maximum length of an Interest, bytes: more than a packet may have.
pub const INTEREST_LEN_MAX: usize = INTEREST_SLOT_LENS[INTEREST_CLASSES - 1];

const _: () = assert!(INTEREST_LEN_MAX >= nw_wire::PACKET_LEN_MAX);

/// The free slots of an array. The slot freed last is allocated first, as it is still cached; slots
/// never used are last.
#[derive(Debug)]
pub(super) struct FreeList {
    freed: MmapArray<u32>,
    freed_len: usize,
    /// The number of slots ever used.
    high_water: u32,
    /// Slot `i` has the number `first + i * step`.
    first: u32,
    step: u32,
}

impl FreeList {
    /// Creates a list of `slots` free slots, numbered from 0.
    pub fn new(slots: usize) -> Self {
        Self::with_step(slots, 0, 1)
    }

    /// Creates a list of `slots` free slots with the numbers `first`, `first + step`, ...
    pub fn with_step(slots: usize, first: u32, step: u32) -> Self {
        FreeList { freed: MmapArray::new(slots), freed_len: 0, high_water: 0, first, step }
    }

    /// Allocates a slot; `None` if none is free.
    #[inline(always)]
    pub fn alloc(&mut self) -> Option<u32> {
        if self.freed_len > 0 {
            self.freed_len -= 1;
            return Some(self.freed[self.freed_len]);
        }
        if self.high_water as usize == self.freed.len() {
            return None;
        }
        self.high_water += 1;
        Some(self.first + (self.high_water - 1) * self.step)
    }

    /// Frees an allocated slot.
    #[inline]
    pub fn free(&mut self, slot: u32) {
        self.freed[self.freed_len] = slot;
        self.freed_len += 1;
    }

    /// Returns the total number of slots.
    pub fn len(&self) -> usize {
        self.freed.len()
    }

    /// Returns the number of the slot at a position.
    pub const fn number(&self, position: u32) -> u32 {
        self.first + position * self.step
    }

    /// Returns the position of the slot with this number.
    pub const fn position(&self, number: u32) -> usize {
        ((number - self.first) / self.step) as usize
    }

    pub fn in_use(&self) -> usize {
        self.high_water as usize - self.freed_len
    }

    /// Returns the number of slots ever used: those at the first positions.
    pub fn high_water(&self) -> u32 {
        self.high_water
    }

    pub fn memory_bytes(&self) -> usize {
        self.freed.memory_bytes()
    }
}

/// The slots of one size.
struct SlotClass {
    slot_len: usize,
    free: FreeList,
    /// The entry of each slot. Empty for the first class, which has a slot for each entry.
    owners: MmapArray<u32>,
    /// The first line after the slots of this class.
    end: u32,
}

/// Copies of Interests in contiguous memory. A copy is identified by its first line: first the
/// entries' own lines, then the slots of all classes.
pub(super) struct InterestStore {
    memory: MmapArray<[u8; CACHE_LINE]>,
    classes: [SlotClass; INTEREST_CLASSES],
    /// The number of entries' own lines.
    entry_lines: u32,
}

impl InterestStore {
    /// Creates a store for `entries` entries and this many slots of each class, limited by 32-bit
    /// line numbers.
    pub fn new(entries: u32, slots: [usize; INTEREST_CLASSES]) -> Self {
        let mut end = entries;
        let classes = core::array::from_fn(|class: usize| {
            let (first, slot_len) = (end, INTEREST_SLOT_LENS[class]);
            let slot_lines = (slot_len / CACHE_LINE) as u32;
            let slots = slots[class].min(((u32::MAX - first) / slot_lines) as usize);
            end += slots as u32 * slot_lines;
            let owners = MmapArray::new(if class == 0 { 0 } else { slots });
            SlotClass { slot_len, free: FreeList::with_step(slots, first, slot_lines), owners, end }
        });
        InterestStore { memory: MmapArray::new(end as usize), classes, entry_lines: entries }
    }

    /// Copies an Interest into the entry's own line or the smallest free slot; returns its first
    /// line, `None` if no slot is free.
    #[inline(always)]
    pub fn insert(&mut self, entry: u32, bytes: &[u8]) -> Option<u32> {
        let line = if bytes.len() <= INTEREST_SHORT_MAX {
            entry
        } else {
            self.alloc_slot(bytes.len(), entry)?
        };
        bytes::copy(bytes, &mut self.memory.as_flattened_mut()[start_of(line)..]);
        Some(line)
    }

    /// Allocates the smallest free slot that fits; returns its first line.
    #[inline(never)]
    fn alloc_slot(&mut self, len: usize, entry: u32) -> Option<u32> {
        for class in self.classes.iter_mut().filter(|class| len <= class.slot_len) {
            if let Some(line) = class.free.alloc() {
                if !class.owners.is_empty() {
                    class.owners[class.free.position(line)] = entry;
                }
                return Some(line);
            }
        }
        None
    }

    /// Returns the smallest class that fits an Interest of this length, if no slot of it or a
    /// larger class is free.
    pub fn exhausted_class(&self, len: usize) -> Option<usize> {
        if len <= INTEREST_SHORT_MAX {
            return None;
        }
        let smallest = self.classes.iter().position(|class| len <= class.slot_len)?;
        let is_full = |class: &SlotClass| class.free.in_use() == class.free.len();
        self.classes[smallest..].iter().all(is_full).then(|| {
            // A class without slots can't be the one to free a slot of.
            (smallest..INTEREST_CLASSES)
                .find(|class| self.classes[*class].free.len() > 0)
                .unwrap_or(smallest)
        })
    }

    /// Returns the last entry in a slot of a class; slots are numbered up to
    /// [`high_water`](Self::high_water).
    pub fn owner(&self, class: usize, slot: u32) -> Option<u32> {
        self.classes[class].owners.get(slot as usize).copied()
    }

    /// Returns the first line of a slot of a class.
    pub fn slot_line(&self, class: usize, slot: u32) -> u32 {
        self.classes[class].free.number(slot)
    }

    /// Returns the number of slots of a class ever used.
    pub fn high_water(&self, class: usize) -> u32 {
        self.classes[class].free.high_water()
    }

    /// Returns whether a copy is in a slot, not in an entry's own line.
    pub fn is_in_slot(&self, line: u32) -> bool {
        line >= self.entry_lines
    }

    /// Frees the copy at `line`.
    #[inline(always)]
    pub fn remove(&mut self, line: u32) {
        if line >= self.entry_lines {
            self.free_slot(line);
        }
    }

    #[inline(never)]
    fn free_slot(&mut self, line: u32) {
        let class = self.classes.iter_mut().find(|class| line < class.end);
        class.expect("every slot belongs to a class").free.free(line);
    }

    /// Returns a part of the copy at `line`.
    #[inline(always)]
    pub fn bytes(&self, line: u32, start: u16, len: u16) -> &[u8] {
        let start = start_of(line) + usize::from(start);
        &self.memory.as_flattened()[start..start + usize::from(len)]
    }

    /// Prefetches the first line of a name and the one with its last byte (or its 128th): most
    /// names have no more lines.
    #[inline(always)]
    pub fn prefetch(&self, line: u32, start: u16, len: u16) {
        let start = start_of(line) + usize::from(start);
        if let Some(name) = self.memory.as_flattened().get(start..start + usize::from(len.min(128)))
        {
            prefetch_first_last(name);
        }
    }

    pub fn capacity(&self) -> [usize; INTEREST_CLASSES] {
        core::array::from_fn(|class| self.classes[class].free.len())
    }

    pub fn in_use(&self) -> [usize; INTEREST_CLASSES] {
        core::array::from_fn(|class| self.classes[class].free.in_use())
    }

    pub fn memory_bytes(&self) -> usize {
        let classes = self
            .classes
            .iter()
            .map(|class| class.free.memory_bytes() + class.owners.memory_bytes());
        self.memory.memory_bytes() + classes.sum::<usize>()
    }
}

/// Returns the byte offset of a line.
#[inline(always)]
const fn start_of(line: u32) -> usize {
    line as usize * CACHE_LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_list_alloc_returns_last_freed() {
        let mut free = FreeList::new(3);
        assert_eq!([free.alloc(), free.alloc()], [Some(0), Some(1)]);
        free.free(0);
        free.free(1);
        assert_eq!(
            [free.alloc(), free.alloc(), free.alloc(), free.alloc()],
            [Some(1), Some(0), Some(2), None]
        );
        assert_eq!((free.in_use(), free.high_water()), (3, 3));
    }

    #[test]
    fn interest_store_insert_uses_smallest_free_class() {
        let mut store = InterestStore::new(2, [1, 1, 1, 1]);
        let lines: Vec<u32> = [128, 100, 2048, 2000, 64]
            .map(|len| store.insert(1, &vec![len as u8; len]).unwrap())
            .to_vec();
        assert_eq!(store.in_use(), [1, 1, 1, 1]);
        assert_eq!(store.insert(0, &[1; 65]), None);
        assert_eq!(store.insert(0, &[7]), Some(0), "an entry's own line is always available");
        assert_eq!(store.bytes(lines[0], 0, 128), [128; 128]);
        assert_eq!(store.bytes(lines[1], 40, 60), [100; 60]);
        assert_eq!((lines[4], store.bytes(lines[4], 0, 64)), (1, &[64; 64][..]));
        store.remove(lines[4]);
        assert_eq!(store.in_use(), [1, 1, 1, 1]);
        store.remove(lines[2]);
        assert_eq!(store.insert(1, &[0; 2049]), None, "only the class of 2048 has a free slot");
        assert!(store.insert(1, &[9; 129]).is_some());
        assert_eq!(store.insert(1, &[]), Some(1));
    }

    #[test]
    fn interest_store_too_long_returns_none() {
        let mut store = InterestStore::new(4, [4, 4, 4, 4]);
        assert_eq!(store.insert(0, &[0; INTEREST_LEN_MAX + 1]), None);
        assert!(store.insert(0, &[0; INTEREST_LEN_MAX]).is_some());
        assert_eq!(store.in_use(), [0, 0, 0, 1]);
    }
}
