//! Next-hop sets, each kept once however many prefixes have it.

use super::NextHop;
use crate::index::{Index, IndexFull};
use arrayvec::ArrayVec;
use nw_name::HashKey;

/// Next hops that stand in the set's own cache line.
const FEW: usize = 6;

enum Hops {
    Few(ArrayVec<NextHop, FEW>),
    Many(Box<[NextHop]>),
    /// No set; the next free id plus one.
    Free(u32),
}

/// One cache line.
#[repr(align(64))]
struct Set {
    hops: Hops,
    users: u32,
}

pub(super) struct HopSets {
    key: HashKey,
    sets: Vec<Set>,
    sets_max: usize,
    free: u32,
    index: Index,
    len: usize,
}

impl HopSets {
    pub(super) fn new(key: HashKey, sets_max: usize) -> Self {
        // Reserved at once, so it never moves; the memory is taken when sets come.
        HopSets {
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

    /// The id of a set, to be [`release`](Self::release)d once for each call. `hops` are sorted.
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
            Some(place) => {
                if let Hops::Free(next) = place.hops {
                    self.free = next;
                }
                *place = set;
            }
            None => self.sets.push(set),
        }
        self.len += 1;
        Ok(id)
    }

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
            Ok(few) => Hops::Few(few),
            Err(_) => Hops::Many(hops.into()),
        }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[NextHop] {
        match self {
            Hops::Few(few) => few,
            Hops::Many(many) => many,
            Hops::Free(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaceId;

    fn hops(count: u32) -> Vec<NextHop> {
        (0..count).map(|n| NextHop { face: FaceId::from_bits(300 + n), cost: n }).collect()
    }

    #[test]
    fn a_set_is_a_cache_line() {
        assert_eq!(size_of::<Set>(), 64);
    }

    #[test]
    fn equal_sets_share_an_id_until_the_last_user_goes() {
        let mut sets = HopSets::new(HashKey::new([1, 2, 3, 4]), 3);
        let (few, many, none) =
            (sets.intern(&hops(2)).unwrap(), sets.intern(&hops(40)).unwrap(), sets.intern(&[]).unwrap());
        assert_eq!(sets.intern(&hops(40)).unwrap(), many);
        assert_eq!(
            (sets.hops(few), sets.hops(many), sets.hops(none)),
            (&hops(2)[..], &hops(40)[..], &[][..])
        );
        assert_eq!(sets.intern(&hops(1)), Err(IndexFull));
        sets.release(many);
        assert_eq!(sets.intern(&hops(1)), Err(IndexFull));
        sets.release(many);
        assert_eq!(sets.len(), 2);
        let other = sets.intern(&hops(1)).unwrap();
        assert_eq!(sets.hops(other), hops(1));
        assert_eq!(sets.len(), 3);
    }
}
