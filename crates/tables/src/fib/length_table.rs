//! First stage of the two-stage longest-prefix match (So, Narayanan, Oran, ANCS 2013; NDN-DPDK
//! calls the elements *virtual entries*).
//!
//! The table maps the hash of a name's first `start_depth` components to the set of prefix lengths
//! that exist below it. A lookup reads one cache line:
//!
//! ```text
//! bucket (64 bytes), 8 slots:
//!   8 x direct_entry u32 | 8 x lengths u16 | 8 x tag u8 | overflow_count u16 | 8 x tag_ext 6 bits
//! ```
//!
//! * `lengths`: bit *i* is set if a prefix of `start_depth + i` components exists; bit 14 means all
//!   longer ones; bit 15 marks more than one prefix.
//! * `direct_entry`: the handle of the FIB entry if exactly one prefix exists below this hash, so
//!   most lookups skip the second stage. (Stored as the exclusive or of the handles of all prefixes
//!   below the hash, so it is right again when only one is left.)
//! * `tag`, `tag_ext`: 8 + 6 bits of the hash; tag 0 marks a free slot. Names are not stored: a
//!   false match only adds lengths to try, and the second stage compares full names.
//! * `overflow_count`: the number of elements that were inserted into a later bucket because this
//!   one was full (as in F14 tables); 0 ends a probe. Removal is exact, without tombstones, as in
//!   [`crate::index`].
//!
//! Main invariant: every length that exists below a hash is among the lengths returned for it.

use super::arena::{BUCKETS_PER_PAGE, FibArena, PREFIXES_PER_PAGE, TableLayout};
use crate::index::{IndexFull, PROBES_MAX};
use crate::memory::{MmapArray, eq_mask_u8x8};
use nw_name::PrefixHashes;
use std::collections::BTreeMap;
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref,
};

const SLOTS: usize = 8;

/// The highest length bit: prefixes of this and of all greater lengths.
const DEEPEST_BIT: usize = 14;
/// The bit of `lengths` that marks more than one prefix.
const MULTIPLE: u16 = 1 << 15;

/// Bits of the tag extension.
const TAG_EXT_BITS: usize = 6;
const TAG_EXT_MASK: u8 = (1 << TAG_EXT_BITS) - 1;

/// A 4-bit count with this value is continued in `overflow_counts`.
const OVERFLOW: u64 = 15;

/// Eight slots: a cache line. See the module.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Bucket {
    direct_entries: [u32; SLOTS],
    lengths: [u16; SLOTS],
    tags: [u8; SLOTS],
    overflow_count: u16,
    tag_exts: [u8; 6],
}

impl Bucket {
    /// Returns one bit per slot with the tag `tag`.
    #[inline(always)]
    fn matching(&self, tag: u8) -> u32 {
        eq_mask_u8x8(&self.tags, tag)
    }

    /// Returns the slots of `matching` with the tag extension `ext`.
    fn filter_by_ext(&self, matching: u32, ext: u8) -> u32 {
        let has_ext =
            |position: &usize| matching >> position & 1 == 1 && self.tag_ext(*position) == ext;
        (0..SLOTS).filter(has_ext).fold(0, |mask, position| mask | 1 << position)
    }

    fn tag_ext(&self, position: usize) -> u8 {
        (self.packed_tag_exts() >> (position * TAG_EXT_BITS)) as u8 & TAG_EXT_MASK
    }

    fn set_tag_ext(&mut self, position: usize, ext: u8) {
        let shift = position * TAG_EXT_BITS;
        let others = self.packed_tag_exts() & !(u64::from(TAG_EXT_MASK) << shift);
        let packed = others | u64::from(ext) << shift;
        self.tag_exts.copy_from_slice(&packed.to_le_bytes()[..6]);
    }

    fn packed_tag_exts(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.tag_exts);
        u64::from_le_bytes(bytes)
    }
}

/// Candidate prefix lengths for one start-depth hash, and the direct entry if there is only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LengthCandidates {
    /// The lengths that may have a prefix, one bit each. All lengths that exist are included,
    /// except that of the direct entry: if its name matches, no other prefix of `start_depth` or
    /// more components exists.
    pub lengths: u64,
    /// The handle, plus one, of the only prefix below this hash; it may belong to another hash with
    /// the same tag. 0 if unknown.
    pub direct_entry: u32,
    /// The number of components of the direct entry's prefix.
    pub direct_len: u32,
}

impl LengthCandidates {
    /// Candidates without a direct entry.
    #[inline(always)]
    pub(super) const fn from_lengths(lengths: u64) -> Self {
        LengthCandidates { lengths, direct_entry: 0, direct_len: 0 }
    }
}

/// The part of a slot that only changes read: its full hash, and the number of prefixes per bit of
/// `lengths` (4 bits each).
#[derive(Clone, Copy, FromZeros)]
#[repr(C)]
struct SlotCounts {
    hash: u64,
    counts: u64,
}

/// The length table: see the module.
pub(super) struct LengthTable {
    start_depth: usize,
    layout: TableLayout,
    slot_counts: MmapArray<[SlotCounts; SLOTS]>,
    /// Counts of 15 and more, by slot and length bit. A tree, as a hash map would stop to rehash;
    /// at most one element per 15 prefixes.
    overflow_counts: BTreeMap<(usize, usize), u32>,
    /// The maximum number of buckets a search reads.
    probes: usize,
}

impl LengthTable {
    /// Returns the number of buckets for this many prefixes: 2.8 per bucket when the FIB is full,
    /// so that one bucket in 400 overflows.
    pub(super) fn buckets_for(prefixes_max: usize) -> usize {
        (prefixes_max * BUCKETS_PER_PAGE).div_ceil(PREFIXES_PER_PAGE).max(1)
    }

    /// Creates a table in a zeroed part of the arena.
    pub(super) fn new(start_depth: usize, layout: TableLayout) -> Self {
        let buckets = layout.buckets();
        LengthTable {
            start_depth,
            layout,
            slot_counts: MmapArray::with_small_pages(buckets),
            overflow_counts: BTreeMap::new(),
            probes: PROBES_MAX.min(buckets),
        }
    }

    pub(super) const fn start_depth(&self) -> usize {
        self.start_depth
    }

    /// Changes the start depth of an empty table.
    pub(super) fn set_start_depth(&mut self, start_depth: usize) {
        self.start_depth = start_depth;
    }

    pub(super) fn buckets(&self) -> usize {
        self.layout.buckets()
    }

    /// Returns whether there are page slots in the pages of this table.
    pub(super) const fn has_page_slots(&self) -> bool {
        self.layout.has_page_slots()
    }

    /// Returns the bytes of address space outside the arena.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slot_counts.memory_bytes()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, arena: &FibArena, hash: u64) {
        arena.prefetch_bucket(&self.layout, self.home(hash));
    }

    /// Returns the candidates of `start_depth` and more components below a hash.
    #[inline(always)]
    pub(super) fn candidates(&self, arena: &FibArena, hash: u64) -> LengthCandidates {
        let bucket = self.bucket(arena, self.home(hash));
        let matching = bucket.matching(tag_of(hash));
        // Usual: at most one tag matches and the bucket never overflowed.
        if matching & matching.wrapping_sub(1) != 0 || bucket.overflow_count != 0 {
            return self.candidates_slow(arena, hash);
        }
        if matching == 0 {
            return LengthCandidates::default();
        }
        let position = position_of(matching);
        let length_bits = bucket.lengths[position];
        if length_bits & 1 << DEEPEST_BIT != 0 {
            return LengthCandidates::from_lengths(self.lengths(arena, hash));
        }
        if length_bits & MULTIPLE != 0 {
            return LengthCandidates::from_lengths(
                u64::from(length_bits & !MULTIPLE) << self.start_depth,
            );
        }
        self.direct_candidate(bucket, position)
    }

    /// The general form of [`candidates`](Self::candidates): several tags match, or the bucket
    /// overflowed.
    #[inline(never)]
    fn candidates_slow(&self, arena: &FibArena, hash: u64) -> LengthCandidates {
        let bucket = self.bucket(arena, self.home(hash));
        let matching = bucket.filter_by_ext(bucket.matching(tag_of(hash)), tag_ext_of(hash));
        let position = position_of(matching);
        if !matching.is_power_of_two()
            || bucket.lengths[position] & (MULTIPLE | 1 << DEEPEST_BIT) != 0
        {
            return LengthCandidates::from_lengths(self.lengths(arena, hash));
        }
        // After an overflow this slot may be a false match, and any length may exist in a later
        // bucket.
        let lengths = if bucket.overflow_count == 0 { 0 } else { u64::MAX << self.start_depth };
        LengthCandidates { lengths, ..self.direct_candidate(bucket, position) }
    }

    /// Returns the direct entry of a slot.
    #[inline(always)]
    fn direct_candidate(&self, bucket: &Bucket, position: usize) -> LengthCandidates {
        LengthCandidates {
            lengths: 0,
            direct_entry: bucket.direct_entries[position] + 1,
            direct_len: self.start_depth as u32 + bucket.lengths[position].trailing_zeros(),
        }
    }

    /// Returns [`LengthCandidates::lengths`] of all buckets of the probe sequence.
    #[inline(never)]
    fn lengths(&self, arena: &FibArena, hash: u64) -> u64 {
        let tag = tag_of(hash);
        let mut number = self.home(hash);
        let mut length_bits = 0;
        for _ in 0..self.probes {
            let bucket = self.bucket(arena, number);
            let mut matching = bucket.matching(tag);
            while matching != 0 {
                length_bits |= bucket.lengths[position_of(matching)] & !MULTIPLE;
                matching &= matching - 1;
            }
            if bucket.overflow_count == 0 {
                break;
            }
            number = self.next_bucket(number);
        }
        let deeper = if length_bits >> DEEPEST_BIT == 0 { 0 } else { u64::MAX << DEEPEST_BIT };
        (u64::from(length_bits) | deeper) << self.start_depth
    }

    /// [Adds](Self::add) a prefix given by its hashes. Prefixes shorter than `start_depth` are
    /// ignored.
    pub(super) fn add_prefix(
        &mut self,
        arena: &mut FibArena,
        prefixes: &PrefixHashes,
        length: usize,
        handle: u32,
    ) -> Result<(), IndexFull> {
        if length < self.start_depth {
            Ok(())
        } else {
            self.add(arena, prefixes.hash(self.start_depth), length, handle)
        }
    }

    /// Reverts one [`add_prefix`](Self::add_prefix).
    pub(super) fn remove_prefix(
        &mut self,
        arena: &mut FibArena,
        prefixes: &PrefixHashes,
        length: usize,
        handle: u32,
    ) {
        if length >= self.start_depth {
            self.remove(arena, prefixes.hash(self.start_depth), length, handle);
        }
    }

    /// Adds a prefix of `length` components with the entry `handle`; its first `start_depth`
    /// components have this hash.
    pub(super) fn add(
        &mut self,
        arena: &mut FibArena,
        hash: u64,
        length: usize,
        handle: u32,
    ) -> Result<(), IndexFull> {
        let (bucket, position) = match self.locate(arena, hash) {
            Some(found) => found,
            None => self.create(arena, hash)?,
        };
        let bit = (length - self.start_depth).min(DEEPEST_BIT);
        let counts = &mut self.slot_counts[bucket][position].counts;
        match *counts >> (4 * bit) & 15 {
            OVERFLOW => {
                *self.overflow_counts.entry((bucket * SLOTS + position, bit)).or_default() += 1
            }
            count => {
                *counts += 1 << (4 * bit);
                if count + 1 == OVERFLOW {
                    self.overflow_counts.insert((bucket * SLOTS + position, bit), OVERFLOW as u32);
                }
            }
        }
        self.bucket_mut(arena, bucket).lengths[position] |= 1 << bit;
        self.update_direct_entry(arena, bucket, position, handle);
        Ok(())
    }

    /// Adds `handle` to the direct entry of a slot, or removes it; updates [`MULTIPLE`]. Counts and
    /// lengths are up to date.
    fn update_direct_entry(
        &self,
        arena: &mut FibArena,
        bucket: usize,
        position: usize,
        handle: u32,
    ) {
        let counts = self.slot_counts[bucket][position].counts;
        let is_single = counts.is_power_of_two() && counts.trailing_zeros().is_multiple_of(4);
        let bucket = self.bucket_mut(arena, bucket);
        bucket.direct_entries[position] ^= handle;
        bucket.lengths[position] &= !MULTIPLE;
        if !is_single {
            bucket.lengths[position] |= MULTIPLE;
        }
    }

    /// Reverts one [`add`](Self::add).
    pub(super) fn remove(&mut self, arena: &mut FibArena, hash: u64, length: usize, handle: u32) {
        let Some((bucket, position)) = self.locate(arena, hash) else {
            debug_assert!(false, "the prefix was added before");
            return;
        };
        let bit = (length - self.start_depth).min(DEEPEST_BIT);
        let counts = &mut self.slot_counts[bucket][position].counts;
        if *counts >> (4 * bit) & 15 == OVERFLOW {
            let key = (bucket * SLOTS + position, bit);
            let count = self.overflow_counts.entry(key).or_default();
            *count -= 1;
            if u64::from(*count) < OVERFLOW {
                self.overflow_counts.remove(&key);
                *counts -= 1 << (4 * bit);
            }
        } else {
            *counts -= 1 << (4 * bit);
            if *counts >> (4 * bit) & 15 == 0 {
                self.bucket_mut(arena, bucket).lengths[position] &= !(1 << bit);
            }
        }
        self.update_direct_entry(arena, bucket, position, handle);
        if self.slot_counts[bucket][position].counts == 0 {
            self.bucket_mut(arena, bucket).tags[position] = 0;
            self.update_overflow_counts(arena, self.home(hash), bucket, |overflow_count| {
                *overflow_count -= 1
            });
        }
    }

    /// The entry of a prefix was moved from `handle` to `new_handle`.
    pub(super) fn replace_entry(
        &self,
        arena: &mut FibArena,
        hash: u64,
        handle: u32,
        new_handle: u32,
    ) {
        let Some((bucket, position)) = self.locate(arena, hash) else {
            debug_assert!(false, "the prefix was added before");
            return;
        };
        self.bucket_mut(arena, bucket).direct_entries[position] ^= handle ^ new_handle;
    }

    /// Clears `count` buckets from `bucket` on, and as many overflow counts. Returns true when the
    /// whole table is empty.
    pub(super) fn clear_some(&mut self, arena: &mut FibArena, bucket: usize, count: usize) -> bool {
        let end = (bucket + count).min(self.buckets());
        arena.clear_buckets(&self.layout, bucket..end);
        self.slot_counts.zero(bucket..end);
        for _ in 0..count {
            if self.overflow_counts.pop_first().is_none() {
                break;
            }
        }
        end == self.buckets() && self.overflow_counts.is_empty()
    }

    /// Occupies a free slot for a hash; returns its bucket and position.
    fn create(&mut self, arena: &mut FibArena, hash: u64) -> Result<(usize, usize), IndexFull> {
        let home = self.home(hash);
        let mut number = home;
        for _ in 0..self.probes {
            let bucket = self.bucket_mut(arena, number);
            if let Some(position) = bucket.tags.iter().position(|tag| *tag == 0) {
                bucket.tags[position] = tag_of(hash);
                bucket.set_tag_ext(position, tag_ext_of(hash));
                (bucket.lengths[position], bucket.direct_entries[position]) = (0, 0);
                self.slot_counts[number][position] = SlotCounts { hash, counts: 0 };
                self.update_overflow_counts(arena, home, number, |overflow_count| {
                    *overflow_count += 1
                });
                return Ok((number, position));
            }
            number = self.next_bucket(number);
        }
        Err(IndexFull)
    }

    /// Returns the bucket and position of the slot of exactly this hash.
    fn locate(&self, arena: &FibArena, hash: u64) -> Option<(usize, usize)> {
        let tag = tag_of(hash);
        let mut number = self.home(hash);
        for _ in 0..self.probes {
            let bucket = self.bucket(arena, number);
            let found = (0..SLOTS)
                .find(|p| bucket.tags[*p] == tag && self.slot_counts[number][*p].hash == hash);
            if let Some(position) = found {
                return Some((number, position));
            }
            if bucket.overflow_count == 0 {
                break;
            }
            number = self.next_bucket(number);
        }
        None
    }

    /// Changes the overflow counts of the buckets from `home` to before `end`.
    fn update_overflow_counts(
        &self,
        arena: &mut FibArena,
        home: usize,
        end: usize,
        mut change: impl FnMut(&mut u16),
    ) {
        let mut bucket = home;
        while bucket != end {
            change(&mut self.bucket_mut(arena, bucket).overflow_count);
            bucket = self.next_bucket(bucket);
        }
    }

    /// Returns the first bucket of the probe sequence of a hash.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        ((u64::from((hash >> 16) as u32) * self.buckets() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn bucket<'a>(&self, arena: &'a FibArena, number: usize) -> &'a Bucket {
        transmute_ref!(arena.bucket(&self.layout, number))
    }

    #[inline(always)]
    fn bucket_mut<'a>(&self, arena: &'a mut FibArena, number: usize) -> &'a mut Bucket {
        transmute_mut!(arena.bucket_mut(&self.layout, number))
    }

    #[inline(always)]
    fn next_bucket(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets() { 0 } else { bucket + 1 }
    }
}

/// Returns the first slot of a mask returned by [`Bucket::matching`].
#[inline(always)]
fn position_of(matching: u32) -> usize {
    matching.trailing_zeros() as usize % SLOTS
}

#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    ((hash >> 48) as u8).max(1)
}

/// Returns bits of the hash that neither the tag nor the bucket uses.
#[inline(always)]
fn tag_ext_of(hash: u64) -> u8 {
    (hash >> 56) as u8 & TAG_EXT_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::hash;
    use proptest::prelude::*;

    /// A length table in an arena of its own.
    struct Harness {
        arena: FibArena,
        table: LengthTable,
    }

    impl Harness {
        fn new(start_depth: usize, prefixes_max: usize, has_page_slots: bool) -> Self {
            let (arena, [layout, _]) =
                FibArena::new(LengthTable::buckets_for(prefixes_max), 0, has_page_slots);
            Harness { arena, table: LengthTable::new(start_depth, layout) }
        }

        fn add(&mut self, hash: u64, length: usize, handle: u32) {
            self.table.add(&mut self.arena, hash, length, handle).unwrap();
        }

        fn remove(&mut self, hash: u64, length: usize, handle: u32) {
            self.table.remove(&mut self.arena, hash, length, handle);
        }

        fn candidates(&self, hash: u64) -> LengthCandidates {
            self.table.candidates(&self.arena, hash)
        }

        fn is_clear(&self) -> bool {
            let mut buckets =
                (0..self.table.buckets()).map(|number| self.table.bucket(&self.arena, number));
            buckets.all(|b| b.tags == [0; SLOTS] && b.overflow_count == 0)
        }
    }

    #[test]
    fn bucket_size_is_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    #[test]
    fn matching_any_slot_sets_its_bit() {
        let mut bucket = Bucket::new_zeroed();
        for position in 0..SLOTS {
            for (tag, other) in [(1, 2), (255, 127), (128, 129), (127, 255), (2, 0)] {
                bucket.tags = [other; SLOTS];
                bucket.tags[position] = tag;
                assert_eq!(bucket.matching(tag), 1 << position);
                assert_eq!(position_of(bucket.matching(tag)), position);
                assert_eq!(bucket.matching(other), 0xff & !(1 << position));
            }
        }
    }

    #[test]
    fn table_add_and_remove_all_leaves_nothing() {
        let mut harness = Harness::new(3, 50_000, false);
        for number in 0..50_000u64 {
            harness.add(hash(number), 3 + number as usize % 29, number as u32);
        }
        let mut direct = 0;
        for number in 0..50_000u64 {
            let candidates = harness.candidates(hash(number));
            if candidates.direct_entry == 0 {
                assert!(candidates.lengths >> (3 + number % 29) & 1 == 1);
            } else {
                direct += 1;
                assert_eq!(
                    (candidates.direct_entry - 1, candidates.direct_len),
                    (number as u32, 3 + number as u32 % 29)
                );
            }
        }
        // All but the deepest, those behind a full bucket and those that share tag and extension.
        assert!(direct > 50_000 * 14 / 29 * 99 / 100, "{direct} of 50000 have their direct entry");
        let false_matches = (50_000..100_000)
            .filter(|n| harness.candidates(hash(*n)) != LengthCandidates::default())
            .count();
        assert!(false_matches < 1_500, "{false_matches} of 50000 are false matches");
        for number in 0..50_000u64 {
            harness.remove(hash(number), 3 + number as usize % 29, number as u32);
        }
        assert!(harness.is_clear());
    }

    #[test]
    fn tag_ext_set_is_returned_per_slot() {
        let mut bucket = Bucket::new_zeroed();
        for turn in 0..3u8 {
            let ext = |position: usize| (position as u8 * 23 + turn * 37 + 1) & TAG_EXT_MASK;
            (0..SLOTS).for_each(|position| bucket.set_tag_ext(position, ext(position)));
            (0..SLOTS).for_each(|position| assert_eq!(bucket.tag_ext(position), ext(position)));
            assert_eq!(
                (bucket.filter_by_ext(0xff, ext(5)), bucket.filter_by_ext(0xdf, ext(5))),
                (1 << 5, 0)
            );
        }
    }

    /// In one bucket with equal tags: prefixes with different extensions keep their direct entries;
    /// with equal extensions all their lengths are candidates.
    #[test]
    fn candidates_equal_tags_compare_extensions() {
        let one = hash(1) & !(0xff << 56);
        let (other, same_ext) = (one | 5 << 56, one ^ 1);
        let mut harness = Harness::new(3, 30, false);
        harness.add(one, 4, 70);
        harness.add(other, 5, 80);
        assert_eq!(
            harness.candidates(one),
            LengthCandidates { lengths: 0, direct_entry: 71, direct_len: 4 }
        );
        assert_eq!(
            harness.candidates(other),
            LengthCandidates { lengths: 0, direct_entry: 81, direct_len: 5 }
        );
        harness.add(same_ext, 6, 90);
        assert_eq!(
            harness.candidates(other),
            LengthCandidates { lengths: 0, direct_entry: 81, direct_len: 5 }
        );
        for hash in [one, same_ext] {
            let candidates = harness.candidates(hash);
            assert!(
                candidates.direct_entry == 0
                    && candidates.lengths >> 4 & 1 == 1
                    && candidates.lengths >> 6 & 1 == 1
            );
        }
        harness.remove(one, 4, 70);
        assert_eq!(
            harness.candidates(same_ext),
            LengthCandidates { lengths: 0, direct_entry: 91, direct_len: 6 }
        );
        harness.remove(same_ext, 6, 90);
        harness.remove(other, 5, 80);
        assert!(harness.is_clear());
    }

    /// A false match after an overflow: the direct entry is returned with all lengths as
    /// candidates.
    #[test]
    fn candidates_overflowed_bucket_include_all_lengths() {
        let in_home = |number: u64| hash(9) & !(0xff << 48) | (number + 1) << 48;
        let mut harness = Harness::new(3, 30, false);
        (0..SLOTS as u64).for_each(|number| harness.add(in_home(number), 4, number as u32));
        assert_eq!(
            harness.candidates(in_home(2)),
            LengthCandidates { lengths: 0, direct_entry: 3, direct_len: 4 }
        );
        // Two overflow: one with a tag of its own, one with the tag of the first.
        harness.add(in_home(SLOTS as u64), 5, 100);
        harness.add(in_home(0) ^ 1, 7, 200);
        let all_lengths = u64::MAX << 3;
        assert_eq!(
            harness.candidates(in_home(2)),
            LengthCandidates { lengths: all_lengths, direct_entry: 3, direct_len: 4 }
        );
        assert_eq!(
            harness.candidates(in_home(SLOTS as u64)),
            LengthCandidates { lengths: 1 << 5, direct_entry: 0, direct_len: 0 }
        );
        let false_match = harness.candidates(in_home(0) ^ 1);
        assert_eq!(
            false_match,
            LengthCandidates { lengths: all_lengths, direct_entry: 1, direct_len: 4 }
        );
        // Two prefixes below one hash: their lengths, and those of all slots with the same tag.
        harness.add(in_home(0), 6, 300);
        let several = harness.candidates(in_home(0));
        assert_eq!(
            several,
            LengthCandidates { lengths: 1 << 4 | 1 << 6 | 1 << 7, direct_entry: 0, direct_len: 0 }
        );
    }

    #[test]
    fn clear_some_repeated_empties_table() {
        let mut harness = Harness::new(1, 10_000, true);
        for number in 0..10_000u64 {
            for _ in 0..20 {
                harness.add(hash(number % 500), 2, number as u32);
            }
        }
        let mut bucket = 0;
        while !harness.table.clear_some(&mut harness.arena, bucket, 100) {
            bucket = (bucket + 100).min(harness.table.buckets());
        }
        assert!(harness.table.overflow_counts.is_empty() && harness.is_clear());
        assert!(
            (0..500).all(|number| harness.candidates(hash(number)) == LengthCandidates::default())
        );
    }

    proptest! {
        /// Counts are exact: a length is a candidate as long as one prefix has it, and the only
        /// prefix is the direct entry, whatever was added and removed before.
        #[test]
        fn table_any_operations_equals_model(
            steps in proptest::collection::vec(
                (0u64..3, 0usize..33, 0usize..20, any::<bool>()),
                0..80,
            ),
            has_page_slots: bool,
        ) {
            let mut harness = Harness::new(0, 30, has_page_slots);
            let mut model: BTreeMap<(u64, usize), Vec<u32>> = BTreeMap::new();
            let mut handles = 0;
            for (number, length, times, add) in steps {
                let there = model.entry((number, length)).or_default();
                for _ in 0..times {
                    if add {
                        handles += 1;
                        harness.add(hash(number), length, handles);
                        there.push(handles);
                    } else if !there.is_empty() {
                        // Neither the first nor the last one added.
                        let removed = there.swap_remove(there.len() / 2);
                        harness.remove(hash(number), length, removed);
                    }
                }
                for number in 0..3 {
                    let mut wanted = LengthCandidates::default();
                    let mut all: Vec<u32> = Vec::new();
                    for length in 0..33 {
                        let Some(there) =
                            model.get(&(number, length)).filter(|there| !there.is_empty())
                        else {
                            continue;
                        };
                        wanted.lengths |= if length >= DEEPEST_BIT {
                            u64::MAX << DEEPEST_BIT
                        } else {
                            1 << length
                        };
                        all.extend(there);
                    }
                    if let [only] = all[..]
                        && wanted.lengths >> DEEPEST_BIT == 0
                    {
                        wanted = LengthCandidates {
                            lengths: 0,
                            direct_entry: only + 1,
                            direct_len: wanted.lengths.trailing_zeros(),
                        };
                    }
                    prop_assert_eq!(harness.candidates(hash(number)), wanted);
                }
            }
        }
    }
}
