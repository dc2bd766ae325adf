//! Sets of next hops, stored once each: prefixes with equal next hops share a set (reference
//! counted).

use super::NextHop;
use crate::index::{Index, IndexFull};
use arrayvec::ArrayVec;
use nw_name::HashKey;

/// Next hops stored in the set's own cache line.
const INLINE_MAX: usize = 6;

/// The next hops of a set.
enum Hops {
    Inline(ArrayVec<NextHop, INLINE_MAX>),
    Boxed(Box<[NextHop]>),
    /// A free set: the id of the next free set, plus one.
    Free(u32),
}

/// A set with its reference count: one cache line.
#[repr(align(64))]
struct Set {
    hops: Hops,
    /// The number of prefixes that use the set.
    users: u32,
}

/// All sets, with an index by content.
pub(super) struct NextHopSets {
    key: HashKey,
    sets: Vec<Set>,
    sets_max: usize,
    /// The first free set: its id plus one.
    free: u32,
    index: Index,
    len: usize,
}

impl NextHopSets {
    pub(super) fn new(key: HashKey, sets_max: usize) -> Self {
        // Reserves address space for all sets, so the vector never moves; memory is touched as sets
        // are added.
        NextHopSets {
            key,
            sets: Vec::with_capacity(sets_max),
            sets_max,
            free: 0,
            index: Index::with_capacity(sets_max),
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sets_max * size_of::<Set>() + self.index.memory_bytes()
    }

    #[inline(always)]
    pub(super) fn hops(&self, id: u32) -> &[NextHop] {
        self.sets[id as usize].hops.as_slice()
    }

    /// Returns the id of a set of sorted next hops; adds the set if it is new.
    /// [`release`](Self::release) must be called once per call.
    pub(super) fn intern(&mut self, hops: &[NextHop]) -> Result<u32, IndexFull> {
        let hash = self.hash(hops);
        if let Some(id) = self.index.find(hash, |id| self.hops(id) == hops) {
            self.sets[id as usize].users += 1;
            return Ok(id);
        }
        let id = if self.free == 0 { self.sets.len() as u32 } else { self.free - 1 };
        if id as usize >= self.sets_max {
            return Err(IndexFull);
        }
        self.index.insert(hash, id)?;
        let set = Set { hops: Hops::of(hops), users: 1 };
        match self.sets.get_mut(id as usize) {
            Some(slot) => {
                if let Hops::Free(next) = slot.hops {
                    self.free = next;
                }
                *slot = set;
            }
            None => self.sets.push(set),
        }
        self.len += 1;
        Ok(id)
    }

    /// Drops one reference to a set; the set is freed with the last one.
    pub(super) fn release(&mut self, id: u32) {
        let set = &mut self.sets[id as usize];
        set.users -= 1;
        if set.users == 0 {
            let hash = self.hash(self.hops(id));
            self.index.remove(hash, id);
            self.sets[id as usize].hops = Hops::Free(self.free);
            self.free = id + 1;
            self.len -= 1;
        }
    }

    fn hash(&self, hops: &[NextHop]) -> u64 {
        hops.iter().fold(self.key.root(), |state, hop| {
            let word = u64::from(hop.face.bits()) << 32 | u64::from(hop.cost);
            self.key.step(state, &word.to_le_bytes())
        })
    }
}

impl Hops {
    fn of(hops: &[NextHop]) -> Self {
        match ArrayVec::try_from(hops) {
            Ok(hops) => Hops::Inline(hops),
            Err(_) => Hops::Boxed(hops.into()),
        }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[NextHop] {
        match self {
            Hops::Inline(hops) => hops,
            Hops::Boxed(hops) => hops,
            Hops::Free(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaceId;
    use crate::test_util::KEY;

    fn hops(count: u32) -> Vec<NextHop> {
        (0..count).map(|n| NextHop { face: FaceId::from_bits(300 + n), cost: n }).collect()
    }

    #[test]
    fn set_size_is_cache_line() {
        assert_eq!(size_of::<Set>(), 64);
    }

    #[test]
    fn intern_equal_sets_share_id_until_released() {
        let mut sets = NextHopSets::new(KEY, 3);
        let (inline, boxed, empty) = (
            sets.intern(&hops(2)).unwrap(),
            sets.intern(&hops(40)).unwrap(),
            sets.intern(&[]).unwrap(),
        );
        assert_eq!(sets.intern(&hops(40)).unwrap(), boxed);
        assert_eq!(
            (sets.hops(inline), sets.hops(boxed), sets.hops(empty)),
            (&hops(2)[..], &hops(40)[..], &[][..])
        );
        assert_eq!(sets.intern(&hops(1)), Err(IndexFull));
        sets.release(boxed);
        assert_eq!(sets.intern(&hops(1)), Err(IndexFull));
        sets.release(boxed);
        assert_eq!(sets.len(), 2);
        let other = sets.intern(&hops(1)).unwrap();
        assert_eq!(sets.hops(other), hops(1));
        assert_eq!(sets.len(), 3);
    }
}
