//! The hash index of every table: from a hash to the numbers of the slots that may hold what is sought.
//!
//! ```text
//! bucket = one cache line:  10 slots (u32) | 10 tags (u16, 0 = free) | passed (u16)
//! hash bits 63..48 -> tag    47..16 -> home bucket    15..0 -> left to whoever chooses shards
//! ```
//!
//! An entry lives in the first bucket with room from its home on. `passed` counts the entries that went by a full bucket, so a search ends at the
//! first bucket nobody passed, and removal is exact: nothing is ever moved, no tombstones. The index never grows and a search
//! looks at [`PROBES_MAX`] buckets at most.
//!
//! Entries of one hash share these [`PROBES_MAX`] buckets. Who indexes things that others can multiply under one hash must bound how many.

use crate::memory::{Lines, equal_words, prefetch_soon};
use zerocopy::FromZeros;

/// Buckets a search looks at, at most.
pub const PROBES_MAX: usize = 24;

const SLOTS: usize = 10;

/// Entries per bucket when the index is full. One bucket in 350 overflows then, so that searches end in one line; at 6 of 10 it was one in 23, and
/// waiting for the lines behind those cost more than all else in a table of a million. An insertion fails before the index is full when
/// `PROBES_MAX` buckets in a row overflow, which at 6 of 10 already is less likely than 10^-11 per bucket.
const LOAD: usize = 4;

#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C, align(64))]
struct Bucket {
    slots: [u32; SLOTS],
    tags: [u16; SLOTS],
    passed: u16,
    spare: u16,
}

const FREE: u16 = 0;

impl Bucket {
    /// One bit per position whose tag is `tag`.
    #[inline(always)]
    fn matching(&self, tag: u16) -> u32 {
        equal_words(&self.tags, tag)
    }
}

/// No room: the index holds as many entries as it was made for, or the buckets an entry may live in are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFull;

impl core::fmt::Display for IndexFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("index full")
    }
}

impl core::error::Error for IndexFull {}

/// Where an entry stands in its home bucket: that bucket, and in the lowest four bits the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct Spot(u32);

impl Spot {
    /// Nowhere: nothing is removed there. An index of 2^28 buckets has none.
    pub const NONE: Spot = Spot(u32::MAX);

    const BITS: u32 = 4;

    const fn split(self) -> (usize, usize) {
        ((self.0 >> Self::BITS) as usize, (self.0 & ((1 << Self::BITS) - 1)) as usize)
    }
}

const _: () = assert!(SLOTS < 1 << Spot::BITS);

/// Where an entry may be added: see [`Index::vacancy`].
#[derive(Clone, Copy, Debug)]
pub struct Vacancy {
    bucket: usize,
    position: usize,
    tag: u16,
}

/// A multimap from hashes to slot numbers, of fixed size. The hash itself isn't kept: the caller confirms every candidate.
#[derive(Debug)]
pub struct Index {
    buckets: Lines<Bucket>,
    len: usize,
    entries_max: usize,
    /// Entries up to which there are vacancies: as many as there may be, or none where buckets have numbers that no [`Spot`] holds.
    spots_max: usize,
    probes: usize,
}

impl Index {
    /// For at most `entries_max` entries; takes about 16 octets for each, when touched.
    pub fn with_capacity(entries_max: usize) -> Self {
        let buckets = entries_max.div_ceil(LOAD).max(1);
        assert!(u32::try_from(buckets).is_ok(), "an index has fewer than 2^32 buckets");
        let spots_max = if buckets <= 1 << (u32::BITS - Spot::BITS) { entries_max } else { 0 };
        // Never the same bucket twice.
        let probes = PROBES_MAX.min(buckets);
        Index { buckets: Lines::new(buckets), len: 0, entries_max, spots_max, probes }
    }

    /// Entries in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Octets of address space.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes()
    }

    /// Asks for the home bucket without waiting for it.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.buckets.prefetch(self.home(hash));
    }

    /// Slots that may hold what has this hash: one search in 8,000 meets one that is there by chance.
    #[inline(always)]
    pub fn candidates(&self, hash: u64) -> Candidates<'_> {
        let (home, tag) = (self.home(hash), tag_of(hash));
        Candidates {
            buckets: &self.buckets,
            bucket: home,
            tag,
            mask: self.buckets[home].matching(tag),
            probes_left: self.probes - 1,
        }
    }

    /// False when there is surely no entry with this hash; one line tells nearly always.
    #[inline(always)]
    pub fn may_have(&self, hash: u64) -> bool {
        let bucket = &self.buckets[self.home(hash)];
        bucket.matching(tag_of(hash)) != 0 || bucket.passed != 0 && self.candidates(hash).next().is_some()
    }

    /// As [`prefetch`](Self::prefetch), for a bucket that is the first thing to be read: see [`prefetch_soon`].
    #[inline(always)]
    pub fn prefetch_soon(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(self.home(hash)) {
            prefetch_soon(bucket);
        }
    }

    /// The first candidate that `is_it` confirms.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.candidates(hash).find(|slot| is_it(*slot))
    }

    /// Where an entry with this hash may be added, if surely no other has it and its home bucket has room that nobody missed, as nearly always: one
    /// look tells. `None` says nothing.
    #[inline(always)]
    pub fn vacancy(&self, hash: u64) -> Option<Vacancy> {
        let (home, tag) = (self.home(hash), tag_of(hash));
        let bucket = &self.buckets[home];
        let free = bucket.matching(FREE);
        if free == 0 || bucket.matching(tag) != 0 || bucket.passed != 0 || self.len >= self.spots_max {
            return None;
        }
        Some(Vacancy { bucket: home, position: free.trailing_zeros() as usize, tag })
    }

    /// Adds an entry at its [`vacancy`](Self::vacancy), while nothing has changed since; gives where it stands.
    #[inline(always)]
    pub fn fill(&mut self, vacancy: &Vacancy, slot: u32) -> Spot {
        let Vacancy { bucket: number, position, tag } = *vacancy;
        let bucket = &mut self.buckets[number];
        debug_assert!(bucket.tags[position] == FREE && self.len < self.entries_max);
        bucket.tags[position] = tag;
        bucket.slots[position] = slot;
        self.len += 1;
        Spot((number as u32) << Spot::BITS | position as u32)
    }

    /// Removes an entry that [`fill`](Self::fill) added; false when another or none stands there, which may be once the same slot
    /// was added and removed under other hashes.
    #[inline(always)]
    pub fn remove_at(&mut self, spot: Spot, hash: u64, slot: u32) -> bool {
        let (number, position) = spot.split();
        let Some(bucket) = self.buckets.get_mut(number) else { return false };
        if position >= SLOTS || bucket.slots[position] != slot || bucket.tags[position] != tag_of(hash) {
            return false;
        }
        bucket.tags[position] = FREE;
        self.len -= 1;
        true
    }

    /// Asks for the bucket of a spot, into the nearest cache: see [`prefetch_soon`].
    #[inline(always)]
    pub fn prefetch_soon_at(&self, spot: Spot) {
        if let Some(bucket) = self.buckets.get(spot.split().0) {
            prefetch_soon(bucket);
        }
    }

    /// Adds an entry; there may be others with the same hash.
    ///
    /// # Errors
    /// [`IndexFull`]; nothing has changed then.
    #[inline]
    pub fn insert(&mut self, hash: u64, slot: u32) -> Result<(), IndexFull> {
        if self.len >= self.entries_max {
            return Err(IndexFull);
        }
        let (home, probes) = (self.home(hash), self.probes);
        let buckets = &mut self.buckets[..];
        let mut number = home;
        for _ in 0..probes {
            let bucket = &mut buckets[number];
            let free = bucket.matching(FREE);
            if free != 0 {
                let position = free.trailing_zeros() as usize;
                bucket.tags[position] = tag_of(hash);
                bucket.slots[position] = slot;
                self.len += 1;
                if number != home {
                    self.each_passed(home, number, |passed| *passed += 1);
                }
                return Ok(());
            }
            number = after(number, buckets.len());
        }
        Err(IndexFull)
    }

    /// Removes one entry with this hash and slot; false when there is none.
    #[inline]
    pub fn remove(&mut self, hash: u64, slot: u32) -> bool {
        let Some((bucket, position)) = self.locate(hash, slot) else { return false };
        self.buckets[bucket].tags[position] = FREE;
        self.len -= 1;
        let home = self.home(hash);
        if bucket != home {
            self.each_passed(home, bucket, |passed| *passed -= 1);
        }
        true
    }

    /// Gives one entry another slot number; false when there is none with this hash and slot.
    pub fn replace(&mut self, hash: u64, slot: u32, by: u32) -> bool {
        let Some((bucket, position)) = self.locate(hash, slot) else { return false };
        self.buckets[bucket].slots[position] = by;
        true
    }

    /// Removes all entries and gives the memory back.
    pub fn clear(&mut self) {
        let all = 0..self.buckets.len();
        self.buckets.zero(all);
        self.len = 0;
    }

    /// How many buckets there are, for walks over all entries in portions.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Slots in one bucket; none when there is no such bucket.
    pub fn in_bucket(&self, bucket: usize) -> impl Iterator<Item = u32> + '_ {
        let positions = self.buckets.get(bucket).into_iter();
        positions
            .flat_map(|b| b.tags.iter().zip(&b.slots).filter(|(tag, _)| **tag != FREE).map(|(_, slot)| *slot))
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        // The upper half of a product instead of a remainder: any number of buckets, no division.
        ((u64::from((hash >> 16) as u32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn after(&self, bucket: usize) -> usize {
        after(bucket, self.buckets.len())
    }

    #[inline]
    fn locate(&self, hash: u64, slot: u32) -> Option<(usize, usize)> {
        let tag = tag_of(hash);
        let buckets = &self.buckets[..];
        let mut number = self.home(hash);
        for _ in 0..self.probes {
            let bucket = &buckets[number];
            let mut matching = bucket.matching(tag);
            while matching != 0 {
                let position = matching.trailing_zeros() as usize;
                if bucket.slots[position] == slot {
                    return Some((number, position));
                }
                matching &= matching - 1;
            }
            if bucket.passed == 0 {
                break;
            }
            number = after(number, buckets.len());
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn each_passed(&mut self, home: usize, end: usize, mut change: impl FnMut(&mut u16)) {
        let mut bucket = home;
        while bucket != end {
            change(&mut self.buckets[bucket].passed);
            bucket = self.after(bucket);
        }
    }
}

/// Slots whose tag matches, in probing order.
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    buckets: &'a [Bucket],
    bucket: usize,
    tag: u16,
    mask: u32,
    probes_left: usize,
}

impl Iterator for Candidates<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        while self.mask == 0 {
            if self.buckets[self.bucket].passed == 0 || self.probes_left == 0 {
                return None;
            }
            self.probes_left -= 1;
            self.bucket = after(self.bucket, self.buckets.len());
            self.mask = self.buckets[self.bucket].matching(self.tag);
        }
        let position = self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(self.buckets[self.bucket].slots[position])
    }
}

#[inline(always)]
fn after(bucket: usize, buckets: usize) -> usize {
    if bucket + 1 == buckets { 0 } else { bucket + 1 }
}

#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    // Not 0, which is free. Half of the tags are enough.
    (hash >> 48) as u16 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A mixing of small numbers into hashes that fill all bits.
    fn hash(number: u64) -> u64 {
        let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        product as u64 ^ (product >> 64) as u64
    }

    #[test]
    fn a_bucket_is_a_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    #[test]
    fn holds_what_it_was_made_for_and_no_more() {
        for entries_max in [0, 1, 6, 7, 8, 1000, 100_000] {
            let mut index = Index::with_capacity(entries_max);
            for number in 0..entries_max {
                index.insert(hash(number as u64), number as u32).unwrap();
            }
            assert_eq!(index.insert(hash(u64::MAX), 0), Err(IndexFull));
            assert_eq!(index.len(), entries_max);
            for number in 0..entries_max as u32 {
                assert_eq!(index.find(hash(number.into()), |slot| slot == number), Some(number));
            }
            let walked = (0..index.buckets()).flat_map(|bucket| index.in_bucket(bucket)).count();
            assert_eq!(walked, entries_max);
            for number in 0..entries_max as u32 {
                assert!(index.remove(hash(number.into()), number));
                assert!(!index.remove(hash(number.into()), number));
            }
            assert!(index.is_empty());
            assert!(index.buckets.iter().all(|b| b.passed == 0 && b.tags == [FREE; SLOTS]));
        }
    }

    #[test]
    fn entries_of_one_hash_are_bounded_and_all_found() {
        let mut index = Index::with_capacity(100_000);
        let mut inserted = 0;
        while index.insert(77 << 20, inserted).is_ok() {
            inserted += 1;
        }
        assert_eq!(inserted as usize, PROBES_MAX * SLOTS);
        let mut seen: Vec<u32> = index.candidates(77 << 20).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..inserted).collect::<Vec<_>>());
        // Neighbours elsewhere are not concerned.
        index.insert(hash(1), 5).unwrap();
        assert_eq!(index.find(hash(1), |_| true), Some(5));
    }

    #[test]
    fn replace_and_clear() {
        let mut index = Index::with_capacity(10);
        index.insert(hash(1), 1).unwrap();
        assert!(index.replace(hash(1), 1, 9));
        assert!(!index.replace(hash(1), 1, 9));
        assert_eq!(index.candidates(hash(1)).collect::<Vec<_>>(), [9]);
        index.clear();
        assert_eq!(index.candidates(hash(1)).next(), None);
        assert_eq!(index.len(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u32),
        First(u64, u32),
        RemoveAt(usize),
        Remove(u64, u32),
        Replace(u64, u32, u32),
        Find(u64),
        Clear,
    }

    fn step(hashes: u64) -> impl Strategy<Value = Step> {
        let number = 0..hashes;
        prop_oneof![
            8 => (number.clone(), 0..4u32).prop_map(|(h, s)| Step::Insert(h, s)),
            4 => (number.clone(), 0..4u32).prop_map(|(h, s)| Step::First(h, s)),
            4 => (0..30usize).prop_map(Step::RemoveAt),
            6 => (number.clone(), 0..4u32).prop_map(|(h, s)| Step::Remove(h, s)),
            1 => (number.clone(), 0..4u32, 0..4u32).prop_map(|(h, s, t)| Step::Replace(h, s, t)),
            4 => number.prop_map(Step::Find),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        /// Against a map of multisets, with few hashes so that duplicates and full indexes are common.
        #[test]
        fn is_a_multimap(capacity in 0usize..60, steps in proptest::collection::vec(step(24), 0..300)) {
            let mut index = Index::with_capacity(capacity);
            let mut model: HashMap<u64, Vec<u32>> = HashMap::new();
            let mut spots = Vec::new();
            for step in steps {
                let total: usize = model.values().map(Vec::len).sum();
                match step {
                    Step::Insert(number, slot) => {
                        // Ten buckets at most: nobody is refused before the index is full.
                        prop_assert_eq!(index.insert(hash(number), slot).is_ok(), total < capacity);
                        if total < capacity {
                            model.entry(number).or_default().push(slot);
                        }
                    }
                    Step::First(number, slot) => {
                        let slots = model.entry(number).or_default();
                        if let Some(vacancy) = index.vacancy(hash(number)) {
                            let spot = index.fill(&vacancy, slot);
                            prop_assert!(slots.is_empty() && total < capacity);
                            slots.push(slot);
                            spots.push((number, slot, spot));
                        }
                    }
                    Step::RemoveAt(nth) => {
                        let Some(&(number, slot, spot)) = spots.get(nth) else { continue };
                        prop_assert!(!index.remove_at(spot, hash(number), slot + 10));
                        prop_assert!(!index.remove_at(Spot::NONE, hash(number), slot));
                        let slots = model.entry(number).or_default();
                        let at = slots.iter().position(|s| *s == slot);
                        if index.remove_at(spot, hash(number), slot) {
                            prop_assert!(at.is_some());
                            slots.swap_remove(at.unwrap());
                        }
                    }
                    Step::Remove(number, slot) => {
                        let slots = model.entry(number).or_default();
                        let at = slots.iter().position(|s| *s == slot);
                        prop_assert_eq!(index.remove(hash(number), slot), at.is_some());
                        at.map(|at| slots.swap_remove(at));
                    }
                    Step::Replace(number, slot, by) => {
                        let slots = model.entry(number).or_default();
                        let at = slots.iter().position(|s| *s == slot);
                        prop_assert_eq!(index.replace(hash(number), slot, by), at.is_some());
                        if let Some(at) = at {
                            slots[at] = by;
                        }
                    }
                    Step::Find(number) => {
                        let mut found: Vec<u32> = index.candidates(hash(number)).collect();
                        let mut wanted = model.get(&number).cloned().unwrap_or_default();
                        found.sort_unstable();
                        wanted.sort_unstable();
                        prop_assert_eq!(index.may_have(hash(number)), !wanted.is_empty());
                        prop_assert_eq!(found, wanted);
                    }
                    Step::Clear => {
                        index.clear();
                        model.clear();
                    }
                }
                prop_assert_eq!(index.len(), model.values().map(Vec::len).sum::<usize>());
            }
        }
    }
}
