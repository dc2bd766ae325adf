//! Where copies of Interests stand, and which slots of an array are free.
//!
//! A short Interest stands in a line that its entry has for it; a longer one takes a slot of the smallest size that has room.

use crate::memory::{LINE, Lines, prefetch_ends};
use crate::octets;

/// An Interest of up to so many octets stands in a line that each entry has for it.
pub const INTEREST_SHORT_MAX: usize = LINE;

/// Sizes of slots there are for longer ones.
pub const INTEREST_CLASSES: usize = 4;

/// Octets of a slot of each size.
pub const INTEREST_SLOT_LENS: [usize; INTEREST_CLASSES] = [128, 512, 2048, 8832];

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

    /// Slots there are.
    pub fn len(&self) -> usize {
        self.freed.len()
    }

    /// The number of the slot at a position, counted from 0.
    pub const fn number(&self, position: u32) -> u32 {
        self.first + position * self.step
    }

    /// The position of a slot with this number.
    pub const fn position(&self, number: u32) -> usize {
        ((number - self.first) / self.step) as usize
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
    /// By slot: its entry. Of the first class, which has a slot for each entry, none.
    owners: Lines<u32>,
    /// The first line behind its slots.
    end: u32,
}

/// Contiguous copies of Interests. A place is the number of its first line: of the entries' own ones first, then over all classes one behind the other.
pub(super) struct InterestStore {
    memory: Lines<[u8; LINE]>,
    classes: [Class; INTEREST_CLASSES],
    /// Lines of entries.
    own: u32,
}

impl InterestStore {
    /// For so many entries, with so many slots of each class, or as many of them as places have numbers for.
    pub fn new(entries: u32, slots: [usize; INTEREST_CLASSES]) -> Self {
        let mut end = entries;
        let classes = core::array::from_fn(|at| {
            let (first, slot_len) = (end, INTEREST_SLOT_LENS[at]);
            let slot_lines = (slot_len / LINE) as u32;
            let slots = slots[at].min(((u32::MAX - first) / slot_lines) as usize);
            end += slots as u32 * slot_lines;
            let owners = Lines::new(if at == 0 { 0 } else { slots });
            Class { slot_len, free: FreeList::spaced(slots, first, slot_lines), owners, end }
        });
        InterestStore { memory: Lines::new(end as usize), classes, own: entries }
    }

    /// Copies into the line of this entry, or into the smallest slot there is; `None` when there is none.
    #[inline(always)]
    pub fn insert(&mut self, entry: u32, bytes: &[u8]) -> Option<u32> {
        let place = if bytes.len() <= INTEREST_SHORT_MAX { entry } else { self.take(bytes.len(), entry)? };
        octets::copy(bytes, &mut self.memory.as_flattened_mut()[start_of(place)..]);
        Some(place)
    }

    #[inline(never)]
    fn take(&mut self, len: usize, entry: u32) -> Option<u32> {
        for class in self.classes.iter_mut().filter(|class| len <= class.slot_len) {
            if let Some(place) = class.free.take() {
                let slot = class.free.position(place);
                if let Some(owner) = class.owners.get_mut(slot) {
                    *owner = entry;
                }
                return Some(place);
            }
        }
        None
    }

    /// The smallest class of slots that an Interest of this length fits, if neither that nor a larger one has a free slot.
    pub fn class_without_room(&self, len: usize) -> Option<usize> {
        if len <= INTEREST_SHORT_MAX {
            return None;
        }
        let smallest = self.classes.iter().position(|class| len <= class.slot_len)?;
        let is_full = |class: &Class| class.free.in_use() == class.free.len();
        self.classes[smallest..].iter().all(is_full).then(|| {
            // One without any slot has none to give.
            (smallest..INTEREST_CLASSES).find(|class| self.classes[*class].free.len() > 0).unwrap_or(smallest)
        })
    }

    /// The entry that took a slot of a class last; slots are counted from 0 up to [`touched`](Self::touched).
    pub fn owner(&self, class: usize, slot: u32) -> Option<u32> {
        self.classes[class].owners.get(slot as usize).copied()
    }

    /// The place of a slot of a class.
    pub fn place(&self, class: usize, slot: u32) -> u32 {
        self.classes[class].free.number(slot)
    }

    /// Slots of a class that were ever used.
    pub fn touched(&self, class: usize) -> u32 {
        self.classes[class].free.touched()
    }

    /// True for a place in a slot, false for an entry's own line.
    pub fn is_slot(&self, place: u32) -> bool {
        place >= self.own
    }

    #[inline(always)]
    pub fn remove(&mut self, place: u32) {
        if place >= self.own {
            self.give(place);
        }
    }

    #[inline(never)]
    fn give(&mut self, place: u32) {
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

    pub fn capacity(&self) -> [usize; INTEREST_CLASSES] {
        core::array::from_fn(|at| self.classes[at].free.len())
    }

    pub fn in_use(&self) -> [usize; INTEREST_CLASSES] {
        core::array::from_fn(|at| self.classes[at].free.in_use())
    }

    pub fn memory_bytes(&self) -> usize {
        let classes =
            self.classes.iter().map(|class| class.free.memory_bytes() + class.owners.memory_bytes());
        self.memory.memory_bytes() + classes.sum::<usize>()
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
        let mut store = InterestStore::new(2, [1, 1, 1, 1]);
        let places: Vec<u32> =
            [128, 100, 2048, 2000, 64].map(|len| store.insert(1, &vec![len as u8; len]).unwrap()).to_vec();
        assert_eq!(store.in_use(), [1, 1, 1, 1]);
        assert_eq!(store.insert(0, &[1; 65]), None);
        assert_eq!(store.insert(0, &[7]), Some(0), "an entry's own line is always there");
        assert_eq!(store.bytes(places[0], 0, 128), [128; 128]);
        assert_eq!(store.bytes(places[1], 40, 60), [100; 60]);
        assert_eq!((places[4], store.bytes(places[4], 0, 64)), (1, &[64; 64][..]));
        store.remove(places[4]);
        assert_eq!(store.in_use(), [1, 1, 1, 1]);
        store.remove(places[2]);
        assert_eq!(store.insert(1, &[0; 2049]), None, "only the class of 2048 has room");
        assert!(store.insert(1, &[9; 129]).is_some());
        assert_eq!(store.insert(1, &[]), Some(1));
    }

    #[test]
    fn longer_than_the_longest_is_refused() {
        let mut store = InterestStore::new(4, [4, 4, 4, 4]);
        assert_eq!(store.insert(0, &[0; INTEREST_LEN_MAX + 1]), None);
        assert!(store.insert(0, &[0; INTEREST_LEN_MAX]).is_some());
        assert_eq!(store.in_use(), [0, 0, 0, 1]);
    }
}
