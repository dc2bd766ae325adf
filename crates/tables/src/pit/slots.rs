//! Where copies of Interests stand, and which slots of an array are free.

use crate::memory::{LINE, Lines, prefetch_ends};
use crate::octets;

/// Sizes of slots there are.
pub const INTEREST_CLASSES: usize = 5;

/// Octets of a slot of each size.
pub const INTEREST_SLOT_LENS: [usize; INTEREST_CLASSES] = [64, 128, 512, 2048, 8832];

/// The longest Interest that can be kept, octets: more than a packet may have.
pub const INTEREST_LEN_MAX: usize = INTEREST_SLOT_LENS[INTEREST_CLASSES - 1];

const _: () = assert!(INTEREST_LEN_MAX >= nw_wire::PACKET_LEN_MAX);

const CLASS_SHIFT: u32 = 29;
const SLOTS_MAX: usize = 1 << CLASS_SHIFT;

/// Free slots of an array: the one freed last is taken first, as it is still in the cache; one never used is touched last of all.
#[derive(Debug)]
pub(super) struct FreeList {
    freed: Lines<u32>,
    freed_len: usize,
    /// Slots from here on were never used.
    touched: u32,
}

impl FreeList {
    pub fn new(slots: usize) -> Self {
        FreeList { freed: Lines::new(slots), freed_len: 0, touched: 0 }
    }

    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        if self.freed_len > 0 {
            self.freed_len -= 1;
            return Some(self.freed[self.freed_len]);
        }
        let slot = self.touched;
        if slot as usize == self.freed.len() {
            return None;
        }
        self.touched += 1;
        Some(slot)
    }

    /// Takes back a slot that was taken.
    #[inline]
    pub fn give(&mut self, slot: u32) {
        self.freed[self.freed_len] = slot;
        self.freed_len += 1;
    }

    /// True when there is none to be taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.freed_len == 0 && self.touched as usize == self.freed.len()
    }

    pub fn in_use(&self) -> usize {
        self.touched as usize - self.freed_len
    }

    /// Slots below this were used at some time.
    pub fn touched(&self) -> u32 {
        self.touched
    }

    pub fn memory_bytes(&self) -> usize {
        self.freed.memory_bytes()
    }
}

struct Class {
    memory: Lines<[u8; LINE]>,
    slot_len: usize,
    free: FreeList,
}

/// Contiguous copies of Interests. A place is a class (3 bits) and a slot in it (29 bits).
pub(super) struct InterestStore {
    classes: [Class; INTEREST_CLASSES],
}

impl InterestStore {
    pub fn new(slots: [usize; INTEREST_CLASSES]) -> Self {
        let class = |at: usize| {
            let (slots, slot_len) = (slots[at].min(SLOTS_MAX), INTEREST_SLOT_LENS[at]);
            Class { memory: Lines::new(slots * slot_len / LINE), slot_len, free: FreeList::new(slots) }
        };
        InterestStore { classes: core::array::from_fn(class) }
    }

    /// Copies into the smallest slot there is; `None` when there is none.
    #[inline(always)]
    pub fn insert(&mut self, bytes: &[u8]) -> Option<u32> {
        for (number, class) in self.classes.iter_mut().enumerate() {
            if bytes.len() <= class.slot_len
                && let Some(slot) = class.free.take()
            {
                let start = slot as usize * class.slot_len;
                octets::copy(bytes, &mut class.memory.as_flattened_mut()[start..]);
                return Some((number as u32) << CLASS_SHIFT | slot);
            }
        }
        None
    }

    /// As [`insert`](Self::insert) into the slot of the size that a short Interest takes; `None` when there is none, or it is not short.
    #[inline(always)]
    pub fn insert_short(&mut self, bytes: &[u8]) -> Option<u32> {
        let number = usize::from(bytes.len() > INTEREST_SLOT_LENS[0]);
        let class = &mut self.classes[number];
        if bytes.len() > INTEREST_SLOT_LENS[1] {
            return None;
        }
        let slot = class.free.take()?;
        let start = slot as usize * class.slot_len;
        octets::copy(bytes, &mut class.memory.as_flattened_mut()[start..]);
        Some((number as u32) << CLASS_SHIFT | slot)
    }

    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.classes[(place >> CLASS_SHIFT) as usize].free.give(place & (SLOTS_MAX as u32 - 1));
    }

    #[inline(always)]
    pub fn bytes(&self, place: u32, start: u16, len: u16) -> &[u8] {
        let class = &self.classes[(place >> CLASS_SHIFT) as usize];
        let start = (place as usize & (SLOTS_MAX - 1)) * class.slot_len + usize::from(start);
        &class.memory.as_flattened()[start..start + usize::from(len)]
    }

    /// Asks for the first line of a name and for the one where it ends, or its first 128 octets do: most have no more lines.
    #[inline(always)]
    pub fn prefetch(&self, place: u32, start: u16, len: u16) {
        let Some(class) = self.classes.get((place >> CLASS_SHIFT) as usize) else { return };
        let start = (place as usize & (SLOTS_MAX - 1)) * class.slot_len + usize::from(start);
        if let Some(name) = class.memory.as_flattened().get(start..start + usize::from(len.min(128))) {
            prefetch_ends(name);
        }
    }

    pub fn in_use(&self) -> [usize; INTEREST_CLASSES] {
        core::array::from_fn(|at| self.classes[at].free.in_use())
    }

    pub fn memory_bytes(&self) -> usize {
        self.classes.iter().map(|class| class.memory.memory_bytes() + class.free.memory_bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_freed_last_is_taken_first() {
        let mut free = FreeList::new(3);
        assert_eq!([free.take(), free.take()], [Some(0), Some(1)]);
        free.give(0);
        free.give(1);
        assert_eq!([free.take(), free.take(), free.take(), free.take()], [Some(1), Some(0), Some(2), None]);
        assert_eq!((free.in_use(), free.touched()), (3, 3));
    }

    #[test]
    fn interests_go_to_the_smallest_class_with_room() {
        let mut store = InterestStore::new([0, 1, 1, 1, 1]);
        let places: Vec<u32> =
            [128, 100, 2048, 1].map(|len| store.insert(&vec![len as u8; len]).unwrap()).to_vec();
        assert_eq!(store.in_use(), [0, 1, 1, 1, 1]);
        assert_eq!(store.insert(&[1]), None);
        assert_eq!(store.bytes(places[0], 0, 128), [128; 128]);
        assert_eq!(store.bytes(places[1], 40, 60), [100; 60]);
        assert_eq!(store.bytes(places[3], 0, 1), [1]);
        store.remove(places[2]);
        assert_eq!(store.insert(&[0; 2049]), None, "only the class of 2048 has room");
        assert!(store.insert(&[9; 129]).is_some());
        assert_eq!(store.insert(&[]), None);
    }

    #[test]
    fn longer_than_the_longest_is_refused() {
        let mut store = InterestStore::new([4, 4, 4, 4, 4]);
        assert_eq!(store.insert(&[0; INTEREST_LEN_MAX + 1]), None);
        assert!(store.insert(&[0; INTEREST_LEN_MAX]).is_some());
        assert_eq!(store.in_use(), [0, 0, 0, 0, 1]);
    }
}
