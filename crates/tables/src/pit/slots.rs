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

/// Free slots of an array, by their numbers: the one freed last is taken first, as it is still in the cache; one never used is touched last of all.
#[derive(Debug)]
pub(super) struct FreeList {
    freed: Lines<u32>,
    freed_len: usize,
    /// So many were ever used.
    touched: u32,
    /// The number of the first one, and from each to the next.
    first: u32,
    step: u32,
}

impl FreeList {
    /// Of so many slots, counted from 0.
    pub fn new(slots: usize) -> Self {
        Self::spaced(slots, 0, 1)
    }

    /// Of so many slots, the first of which has the number `first`, the next one `step` more, and so on.
    pub fn spaced(slots: usize, first: u32, step: u32) -> Self {
        FreeList { freed: Lines::new(slots), freed_len: 0, touched: 0, first, step }
    }

    #[inline(always)]
    pub fn take(&mut self) -> Option<u32> {
        if self.freed_len > 0 {
            self.freed_len -= 1;
            return Some(self.freed[self.freed_len]);
        }
        if self.touched as usize == self.freed.len() {
            return None;
        }
        self.touched += 1;
        Some(self.first + (self.touched - 1) * self.step)
    }

    /// Takes back a slot that was taken.
    #[inline]
    pub fn give(&mut self, slot: u32) {
        self.freed[self.freed_len] = slot;
        self.freed_len += 1;
    }

    pub fn in_use(&self) -> usize {
        self.touched as usize - self.freed_len
    }

    /// So many slots were used at some time: the first ones.
    pub fn touched(&self) -> u32 {
        self.touched
    }

    pub fn memory_bytes(&self) -> usize {
        self.freed.memory_bytes()
    }
}

struct Class {
    slot_len: usize,
    free: FreeList,
    /// The first line behind its slots.
    end: u32,
}

/// Contiguous copies of Interests. A place is the number of a slot's first line, over all classes one behind the other.
pub(super) struct InterestStore {
    memory: Lines<[u8; LINE]>,
    classes: [Class; INTEREST_CLASSES],
}

impl InterestStore {
    /// With so many slots of each class, or as many of them as places have numbers for.
    pub fn new(slots: [usize; INTEREST_CLASSES]) -> Self {
        let mut end = 0;
        let classes = core::array::from_fn(|at| {
            let (first, slot_len) = (end, INTEREST_SLOT_LENS[at]);
            let slot_lines = (slot_len / LINE) as u32;
            let slots = slots[at].min(((u32::MAX - first) / slot_lines) as usize);
            end += slots as u32 * slot_lines;
            Class { slot_len, free: FreeList::spaced(slots, first, slot_lines), end }
        });
        InterestStore { memory: Lines::new(end as usize), classes }
    }

    /// Copies into the smallest slot there is; `None` when there is none.
    pub fn insert(&mut self, bytes: &[u8]) -> Option<u32> {
        let suitable = self.classes.iter_mut().filter(|class| bytes.len() <= class.slot_len);
        let place = suitable.filter_map(|class| class.free.take()).next()?;
        octets::copy(bytes, &mut self.memory.as_flattened_mut()[start_of(place)..]);
        Some(place)
    }

    /// As [`insert`](Self::insert) into the slot of the size that a short Interest takes; `None` when there is none, or it is not short.
    #[inline(always)]
    pub fn insert_short(&mut self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > INTEREST_SLOT_LENS[1] {
            return None;
        }
        let class = &mut self.classes[usize::from(bytes.len() > INTEREST_SLOT_LENS[0])];
        let place = class.free.take()?;
        octets::copy(bytes, &mut self.memory.as_flattened_mut()[start_of(place)..]);
        Some(place)
    }

    #[inline]
    pub fn remove(&mut self, place: u32) {
        let class = self.classes.iter_mut().find(|class| place < class.end);
        class.expect("a place is of a class").free.give(place);
    }

    #[inline(always)]
    pub fn bytes(&self, place: u32, start: u16, len: u16) -> &[u8] {
        let start = start_of(place) + usize::from(start);
        &self.memory.as_flattened()[start..start + usize::from(len)]
    }

    /// Asks for the first line of a name and for the one where it ends, or its first 128 octets do: most have no more lines.
    #[inline(always)]
    pub fn prefetch(&self, place: u32, start: u16, len: u16) {
        let start = start_of(place) + usize::from(start);
        if let Some(name) = self.memory.as_flattened().get(start..start + usize::from(len.min(128))) {
            prefetch_ends(name);
        }
    }

    pub fn in_use(&self) -> [usize; INTEREST_CLASSES] {
        core::array::from_fn(|at| self.classes[at].free.in_use())
    }

    pub fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes() + self.classes.iter().map(|class| class.free.memory_bytes()).sum::<usize>()
    }
}

/// Where a place starts, octets.
#[inline(always)]
const fn start_of(place: u32) -> usize {
    place as usize * LINE
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
