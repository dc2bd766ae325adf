//! Faces by id, in slots that are reused with another generation, so that a stale id finds nothing.

use nw_element_api::FaceId;
use std::collections::VecDeque;

/// Generations of a slot before the first returns: 32 bits of a face id minus the slot's 20.
const GENERATIONS: u32 = 1 << 12;

/// Freed slots are reused only when there are this many, so that ids on a router with few faces
/// stay small, consecutive and used once.
const FREE_SLOTS_MIN: usize = 1024;

/// Values by face id. Reserved ids have slots too.
#[derive(Debug)]
pub struct FaceSlab<T> {
    slots: Vec<Slot<T>>,
    /// Free slots, in the order of their release.
    free: VecDeque<u32>,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    face: Option<Box<T>>,
}

impl<T> FaceSlab<T> {
    /// Returns an empty slab.
    pub fn new() -> Self {
        let slots = (0..FaceId::FIRST).map(|_| Slot { generation: 0, face: None }).collect();
        FaceSlab { slots, free: VecDeque::new(), len: 0 }
    }

    /// Returns the number of faces without the reserved ones.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Adds a face, made for its id. `None` if there is no id left.
    pub fn insert(&mut self, make: impl FnOnce(FaceId) -> T) -> Option<FaceId> {
        let slot =
            if self.free.len() < FREE_SLOTS_MIN && self.slots.len() < FaceId::SLOTS_MAX as usize {
                self.slots.push(Slot { generation: 0, face: None });
                (self.slots.len() - 1) as u32
            } else {
                self.free.pop_front()?
            };
        let entry = &mut self.slots[slot as usize];
        let id = FaceId::from_slot(slot, entry.generation);
        entry.face = Some(Box::new(make(id)));
        self.len += 1;
        Some(id)
    }

    /// Sets the face of a reserved id.
    pub fn set_reserved(&mut self, id: FaceId, face: T) {
        assert!(id.number() < u64::from(FaceId::FIRST), "reserved ids only");
        self.slots[id.slot()].face = Some(Box::new(face));
    }

    /// Sets the face of an id assigned by another slab. A slab used so must not assign ids of its
    /// own.
    pub fn insert_at(&mut self, id: FaceId, face: T) {
        let missing = (id.slot() + 1).saturating_sub(self.slots.len());
        self.slots.extend((0..missing).map(|_| Slot { generation: 0, face: None }));
        let slot = &mut self.slots[id.slot()];
        self.len += usize::from(slot.face.is_none());
        *slot = Slot { generation: id.generation(), face: Some(Box::new(face)) };
    }

    /// Returns a face.
    #[inline]
    pub fn get(&self, id: FaceId) -> Option<&T> {
        let slot = self.slots.get(id.slot())?;
        if slot.generation == id.generation() { slot.face.as_deref() } else { None }
    }

    /// Returns a face, for changing it.
    #[inline]
    pub fn get_mut(&mut self, id: FaceId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.generation == id.generation() { slot.face.as_deref_mut() } else { None }
    }

    /// Removes a face.
    pub fn remove(&mut self, id: FaceId) -> Option<Box<T>> {
        self.get(id)?;
        let slot = &mut self.slots[id.slot()];
        let face = slot.face.take();
        if id.slot() >= FaceId::FIRST as usize {
            slot.generation = (slot.generation + 1) % GENERATIONS;
            self.free.push_back(id.slot() as u32);
            self.len -= 1;
        }
        face
    }

    /// Returns all faces by ascending slot.
    pub fn iter(&self) -> impl Iterator<Item = (FaceId, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| {
            let face = entry.face.as_deref()?;
            Some((FaceId::from_slot(slot as u32, entry.generation), face))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_id_finds_nothing() {
        let mut slab = FaceSlab::new();
        let first = slab.insert(|_| 'a').unwrap();
        assert_eq!(first.number(), 256);
        assert_eq!(slab.remove(first).as_deref(), Some(&'a'));
        let second = slab.insert(|_| 'b').unwrap();
        assert_eq!(second.number(), 257, "ids come in a row");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        slab.set_reserved(FaceId::INTERNAL, 'i');
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.iter().map(|(id, _)| id).collect::<Vec<_>>(), [FaceId::INTERNAL, second]);
    }

    #[test]
    fn slot_is_reused_with_next_generation() {
        let mut slab = FaceSlab::new();
        let rounds = GENERATIONS * FREE_SLOTS_MIN as u32;
        for turn in 0..rounds + 1 {
            let id = slab.insert(|id| id).unwrap();
            let expected = FaceId::from_slot(
                256 + turn % FREE_SLOTS_MIN as u32,
                turn / FREE_SLOTS_MIN as u32 % GENERATIONS,
            );
            assert_eq!(id, expected);
            assert_eq!(slab.get(id), Some(&id));
            slab.remove(id);
            assert_eq!(slab.get(id), None);
        }
        assert_eq!(slab.slots.len(), 256 + FREE_SLOTS_MIN, "as many slots as rest, and no more");
    }
}
