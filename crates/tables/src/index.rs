//! The hash index of every table: a multimap from 64-bit hashes to slot numbers, of fixed size.
//!
//! ```text
//! bucket = one cache line:  10 slots (u32) | 10 tags (u16, 0 = free) | overflow_count (u16)
//! hash bits 63..48 -> tag    47..16 -> home bucket    15..0 -> selects the shard
//! ```
//!
//! An entry is stored in the first bucket with a free slot, starting at its home bucket.
//! `overflow_count` is the number of entries that were stored in a later bucket because this one
//! was full (as in F14 tables).
//!
//! Main invariant: a search ends at the first bucket with an `overflow_count` of 0, and after
//! [`PROBES_MAX`] buckets at the latest. So removal is exact: nothing is moved and there are no
//! tombstones. The index never grows.
//!
//! All entries of one hash share these [`PROBES_MAX`] buckets. A table with keys that peers can
//! choose must bound the number of entries per hash.

use crate::memory::{MmapArray, eq_mask_u16x10, prefetch_l1};
use zerocopy::FromZeros;

/// The maximum number of buckets a search reads.
pub const PROBES_MAX: usize = 24;

const SLOTS: usize = 10;

/// Entries per bucket when the index is full: one bucket in 350 overflows, so nearly all searches
/// read one line (with 6 instead of 4, one in 23 would overflow). An insertion fails early if
/// `PROBES_MAX` adjacent buckets are full; with 6 entries per bucket that is less likely than
/// 10^-11 per bucket already.
const LOAD: usize = 4;

/// Ten slots: a cache line.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C, align(64))]
struct Bucket {
    slots: [u32; SLOTS],
    tags: [u16; SLOTS],
    overflow_count: u16,
    padding: u16,
}

const FREE: u16 = 0;

impl Bucket {
    /// Returns one bit per slot with the tag `tag`.
    #[inline(always)]
    fn matching(&self, tag: u16) -> u32 {
        eq_mask_u16x10(&self.tags, tag)
    }
}

/// No space: the index has its maximum number of entries, or all buckets for this hash are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFull;

impl core::fmt::Display for IndexFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("index full")
    }
}

impl core::error::Error for IndexFull {}

/// The position of an entry in its home bucket: the bucket number, and the slot in the lowest 4
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromZeros)]
pub struct BucketPos(u32);

impl BucketPos {
    /// No position: nothing is removed there. In an index of 2^28 or more buckets no entry has a
    /// position.
    pub const NONE: BucketPos = BucketPos(u32::MAX);

    const BITS: u32 = 4;

    /// Returns the bucket number and the slot.
    const fn split(self) -> (usize, usize) {
        ((self.0 >> Self::BITS) as usize, (self.0 & ((1 << Self::BITS) - 1)) as usize)
    }
}

const _: () = assert!(SLOTS < 1 << BucketPos::BITS);

/// A free slot for a new entry: see [`Index::vacant_entry`].
#[derive(Clone, Copy, Debug)]
pub struct VacantEntry {
    bucket: usize,
    position: usize,
    tag: u16,
}

/// The index. It does not store hashes: the caller must check every candidate.
#[derive(Debug)]
pub struct Index {
    buckets: MmapArray<Bucket>,
    len: usize,
    entries_max: usize,
    /// The maximum number of entries for which positions exist: all, or 0 if bucket numbers do not
    /// fit [`BucketPos`].
    positions_max: usize,
    probes: usize,
}

impl Index {
    /// Creates an index for at most `entries_max` entries; it takes about 16 bytes per entry, when
    /// touched.
    pub fn with_capacity(entries_max: usize) -> Self {
        let buckets = entries_max.div_ceil(LOAD).max(1);
        assert!(u32::try_from(buckets).is_ok(), "an index has fewer than 2^32 buckets");
        let positions_max =
            if buckets <= 1 << (u32::BITS - BucketPos::BITS) { entries_max } else { 0 };
        // A search never reads a bucket twice.
        let probes = PROBES_MAX.min(buckets);
        Index { buckets: MmapArray::new(buckets), len: 0, entries_max, positions_max, probes }
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of address space reserved.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.memory_bytes()
    }

    /// Prefetches the home bucket of a hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.buckets.prefetch(self.home(hash));
    }

    /// Returns the slots that may have this hash. One search in 8,000 returns a slot of another
    /// hash.
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

    /// Returns false if no entry has this hash. Reads one line, unless its bucket overflowed.
    #[inline(always)]
    pub fn may_contain(&self, hash: u64) -> bool {
        let bucket = &self.buckets[self.home(hash)];
        bucket.matching(tag_of(hash)) != 0
            || bucket.overflow_count != 0 && self.candidates(hash).next().is_some()
    }

    /// Prefetches the home bucket of a hash into the first-level cache: see [`prefetch_l1`].
    #[inline(always)]
    pub fn prefetch_l1(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(self.home(hash)) {
            prefetch_l1(bucket);
        }
    }

    /// Returns the first candidate for which `is_match` returns true.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is_match: impl FnMut(u32) -> bool) -> Option<u32> {
        self.candidates(hash).find(|slot| is_match(*slot))
    }

    /// Returns a free slot in the home bucket if certainly no entry has this hash. Reads one line.
    /// `None`: fast path not applicable (the bucket is full, has overflowed or has an entry with
    /// this tag); use [`insert`](Self::insert).
    #[inline(always)]
    pub fn vacant_entry(&self, hash: u64) -> Option<VacantEntry> {
        let (home, tag) = (self.home(hash), tag_of(hash));
        let bucket = &self.buckets[home];
        let free = bucket.matching(FREE);
        if free == 0
            || bucket.matching(tag) != 0
            || bucket.overflow_count != 0
            || self.len >= self.positions_max
        {
            return None;
        }
        Some(VacantEntry { bucket: home, position: free.trailing_zeros() as usize, tag })
    }

    /// Adds an entry at a [`vacant_entry`](Self::vacant_entry) returned since the last change;
    /// returns its position.
    #[inline(always)]
    pub fn insert_at(&mut self, vacant: &VacantEntry, slot: u32) -> BucketPos {
        let VacantEntry { bucket: number, position, tag } = *vacant;
        let bucket = &mut self.buckets[number];
        debug_assert!(bucket.tags[position] == FREE && self.len < self.entries_max);
        bucket.tags[position] = tag;
        bucket.slots[position] = slot;
        self.len += 1;
        BucketPos((number as u32) << BucketPos::BITS | position as u32)
    }

    /// Removes an entry added by [`insert_at`](Self::insert_at). Returns false if it is not at this
    /// position (the slot may have been added again under another hash); then use
    /// [`remove`](Self::remove).
    #[inline(always)]
    pub fn remove_at(&mut self, pos: BucketPos, hash: u64, slot: u32) -> bool {
        let (number, position) = pos.split();
        let Some(bucket) = self.buckets.get_mut(number) else { return false };
        if position >= SLOTS
            || bucket.slots[position] != slot
            || bucket.tags[position] != tag_of(hash)
        {
            return false;
        }
        bucket.tags[position] = FREE;
        self.len -= 1;
        true
    }

    /// Prefetches the bucket of a position into the first-level cache: see [`prefetch_l1`].
    #[inline(always)]
    pub fn prefetch_l1_at(&self, pos: BucketPos) {
        if let Some(bucket) = self.buckets.get(pos.split().0) {
            prefetch_l1(bucket);
        }
    }

    /// Adds an entry. Others with the same hash may exist.
    ///
    /// # Errors
    /// [`IndexFull`]; the index is unchanged then.
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
                    self.update_overflow_counts(home, number, |overflow_count| {
                        *overflow_count += 1
                    });
                }
                return Ok(());
            }
            number = next_bucket(number, buckets.len());
        }
        Err(IndexFull)
    }

    /// Removes one entry with this hash and slot; returns whether it existed.
    #[inline]
    pub fn remove(&mut self, hash: u64, slot: u32) -> bool {
        let Some((bucket, position)) = self.locate(hash, slot) else { return false };
        self.buckets[bucket].tags[position] = FREE;
        self.len -= 1;
        let home = self.home(hash);
        if bucket != home {
            self.update_overflow_counts(home, bucket, |overflow_count| *overflow_count -= 1);
        }
        true
    }

    /// Changes the slot number of one entry; returns whether an entry with this hash and slot
    /// existed.
    pub fn replace(&mut self, hash: u64, slot: u32, by: u32) -> bool {
        let Some((bucket, position)) = self.locate(hash, slot) else { return false };
        self.buckets[bucket].slots[position] = by;
        true
    }

    /// Removes all entries and returns the memory to the kernel.
    pub fn clear(&mut self) {
        let all = 0..self.buckets.len();
        self.buckets.zero(all);
        self.len = 0;
    }

    /// Returns the number of buckets, for walks over all entries in steps.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Returns the slots in one bucket; none if there is no such bucket.
    pub fn bucket_slots(&self, bucket: usize) -> impl Iterator<Item = u32> + '_ {
        let positions = self.buckets.get(bucket).into_iter();
        positions.flat_map(|b| {
            b.tags.iter().zip(&b.slots).filter(|(tag, _)| **tag != FREE).map(|(_, slot)| *slot)
        })
    }

    /// Returns the home bucket of a hash.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        // The upper half of a product instead of a remainder: works for any number of buckets, no
        // division.
        ((u64::from((hash >> 16) as u32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next_bucket(&self, bucket: usize) -> usize {
        next_bucket(bucket, self.buckets.len())
    }

    /// Returns the bucket and the position of an entry.
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
            if bucket.overflow_count == 0 {
                break;
            }
            number = next_bucket(number, buckets.len());
        }
        None
    }

    /// Changes the overflow counts of the buckets from `home` to before `end`.
    #[cold]
    #[inline(never)]
    fn update_overflow_counts(
        &mut self,
        home: usize,
        end: usize,
        mut change: impl FnMut(&mut u16),
    ) {
        let mut bucket = home;
        while bucket != end {
            change(&mut self.buckets[bucket].overflow_count);
            bucket = self.next_bucket(bucket);
        }
    }
}

/// Iterator over the slots with a matching tag, in probe order.
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
            if self.buckets[self.bucket].overflow_count == 0 || self.probes_left == 0 {
                return None;
            }
            self.probes_left -= 1;
            self.bucket = next_bucket(self.bucket, self.buckets.len());
            self.mask = self.buckets[self.bucket].matching(self.tag);
        }
        let position = self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(self.buckets[self.bucket].slots[position])
    }
}

#[inline(always)]
fn next_bucket(bucket: usize, buckets: usize) -> usize {
    if bucket + 1 == buckets { 0 } else { bucket + 1 }
}

#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    // Never 0, which marks a free slot; half of the tags are enough.
    (hash >> 48) as u16 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::hash;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn bucket_size_is_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    #[test]
    fn index_full_insert_returns_error() {
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
            let walked = (0..index.buckets()).flat_map(|bucket| index.bucket_slots(bucket)).count();
            assert_eq!(walked, entries_max);
            for number in 0..entries_max as u32 {
                assert!(index.remove(hash(number.into()), number));
                assert!(!index.remove(hash(number.into()), number));
            }
            assert!(index.is_empty());
            assert!(index.buckets.iter().all(|b| b.overflow_count == 0 && b.tags == [FREE; SLOTS]));
        }
    }

    #[test]
    fn index_one_hash_entries_are_bounded_and_found() {
        let mut index = Index::with_capacity(100_000);
        let mut inserted = 0;
        while index.insert(77 << 20, inserted).is_ok() {
            inserted += 1;
        }
        assert_eq!(inserted as usize, PROBES_MAX * SLOTS);
        let mut seen: Vec<u32> = index.candidates(77 << 20).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..inserted).collect::<Vec<_>>());
        // Other hashes are not affected.
        index.insert(hash(1), 5).unwrap();
        assert_eq!(index.find(hash(1), |_| true), Some(5));
    }

    #[test]
    fn index_replace_and_clear_change_entries() {
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
        /// Against a map of multisets, with few hashes so that duplicates and full indexes are
        /// common.
        #[test]
        fn index_any_operations_equals_multimap(
            capacity in 0usize..60,
            steps in proptest::collection::vec(step(24), 0..300),
        ) {
            let mut index = Index::with_capacity(capacity);
            let mut model: HashMap<u64, Vec<u32>> = HashMap::new();
            let mut positions = Vec::new();
            for step in steps {
                let total: usize = model.values().map(Vec::len).sum();
                match step {
                    Step::Insert(number, slot) => {
                        // With at most ten buckets no insertion fails before the index is full.
                        prop_assert_eq!(index.insert(hash(number), slot).is_ok(), total < capacity);
                        if total < capacity {
                            model.entry(number).or_default().push(slot);
                        }
                    }
                    Step::First(number, slot) => {
                        let slots = model.entry(number).or_default();
                        if let Some(vacant) = index.vacant_entry(hash(number)) {
                            let pos = index.insert_at(&vacant, slot);
                            prop_assert!(slots.is_empty() && total < capacity);
                            slots.push(slot);
                            positions.push((number, slot, pos));
                        }
                    }
                    Step::RemoveAt(nth) => {
                        let Some(&(number, slot, pos)) = positions.get(nth) else { continue };
                        prop_assert!(!index.remove_at(pos, hash(number), slot + 10));
                        prop_assert!(!index.remove_at(BucketPos::NONE, hash(number), slot));
                        let slots = model.entry(number).or_default();
                        let at = slots.iter().position(|s| *s == slot);
                        if index.remove_at(pos, hash(number), slot) {
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
                        prop_assert_eq!(index.may_contain(hash(number)), !wanted.is_empty());
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
