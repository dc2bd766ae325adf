//! The first stage of a longest-prefix match: what lengths are worth trying for a name, from the hash of its first `middle` components.
//!
//! ```text
//! bucket = one cache line:  8 leads (u32) | 8 sets of lengths (u16) | 8 tags (u8, 0 = free) | passed (u16) | 8 rests of tags (6 bits)
//! bit i of a set: there is a prefix of middle + i components (bit 14: of middle + 14 or more) that starts so
//! bit 15: there are several that start so
//! lead: the blocks of all that start so, one by exclusive or with the other: that of the only one where there is but one
//! ```
//!
//! These are the virtual entries of the literature, without their names: a tag that matches by chance only adds lengths to try, in vain. So one line
//! answers, and names are compared at the second stage only. Where a single prefix starts so, as most do that are long and have little in common,
//! that line leads right to its entry. Probing is that of [`crate::index`]. What that line leaves open costs lines that nobody asked for early: so tags that are the
//! same have a rest to be told apart by, and where others passed, what is led to is tried first.

use super::ground::{Ground, HINTS_PER_PAGE, PREFIXES_PER_PAGE, Site};
use crate::index::{IndexFull, PROBES_MAX};
use crate::memory::{Lines, equal_octets};
use nw_name::Prefixes;
use std::collections::BTreeMap;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref};

const SLOTS: usize = 8;

/// The last bit of a set that is a length, and stands for all longer prefixes too.
const DEEPEST: usize = 14;
/// The bit of a set that says that there are several.
const SEVERAL: u16 = 1 << 15;

/// Bits of a tag that stand apart from it.
const REST_BITS: usize = 6;
const REST_MASK: u8 = (1 << REST_BITS) - 1;

/// A count that doesn't fit four bits: look in `many`.
const MANY: u64 = 15;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Bucket {
    leads: [u32; SLOTS],
    lengths: [u16; SLOTS],
    tags: [u8; SLOTS],
    passed: u16,
    rests: [u8; 6],
}

impl Bucket {
    /// One bit per position whose tag is `tag`.
    #[inline(always)]
    fn matching(&self, tag: u8) -> u32 {
        equal_octets(&self.tags, tag)
    }

    /// Of positions that match, those at which the rest of the tag does, too.
    fn narrowed(&self, matching: u32, rest: u8) -> u32 {
        let fits = |position: &usize| matching >> position & 1 == 1 && self.rest(*position) == rest;
        (0..SLOTS).filter(fits).fold(0, |narrowed, position| narrowed | 1 << position)
    }

    fn rest(&self, position: usize) -> u8 {
        (self.all_rests() >> (position * REST_BITS)) as u8 & REST_MASK
    }

    fn set_rest(&mut self, position: usize, rest: u8) {
        let at = position * REST_BITS;
        let all = self.all_rests() & !(u64::from(REST_MASK) << at) | u64::from(rest) << at;
        self.rests.copy_from_slice(&all.to_le_bytes()[..6]);
    }

    fn all_rests(&self) -> u64 {
        let mut octets = [0; 8];
        octets[..6].copy_from_slice(&self.rests);
        u64::from_le_bytes(octets)
    }
}

/// What is behind a hash of `middle` components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Behind {
    /// Lengths that may have a prefix: one bit each. Those that have are always among them, but for the one that is led to: if it is one of the name's,
    /// there are no others of `middle` and more components.
    pub lengths: u64,
    /// The block, plus one, of the only prefix behind this hash, which may by chance be behind another; 0 where that is not known.
    pub lead: u32,
    /// Components of the prefix that is led to.
    pub lead_len: u32,
}

impl Behind {
    /// Where nothing is led to.
    #[inline(always)]
    pub(super) const fn among(lengths: u64) -> Self {
        Behind { lengths, lead: 0, lead_len: 0 }
    }
}

/// What control needs besides, at the same place: which hash this is, and how many prefixes are behind each bit (four bits a count).
#[derive(Clone, Copy, FromZeros)]
#[repr(C)]
struct Node {
    hash: u64,
    counts: u64,
}

/// Sets of lengths by the hash of a prefix of `middle` components.
pub(super) struct Hints {
    middle: usize,
    site: Site,
    nodes: Lines<[Node; SLOTS]>,
    // Ordered, for it never stops to rehash; at most one element per 15 prefixes.
    many: BTreeMap<(usize, usize), u32>,
    probes: usize,
}

impl Hints {
    /// Buckets for hints of so many prefixes: 2.8 in a bucket when the FIB is full, so that one in 400 overflows.
    pub(super) fn buckets_for(prefixes_max: usize) -> usize {
        (prefixes_max * HINTS_PER_PAGE).div_ceil(PREFIXES_PER_PAGE).max(1)
    }

    /// At their place, which is zero.
    pub(super) fn new(middle: usize, site: Site) -> Self {
        let buckets = site.buckets();
        Hints {
            middle,
            site,
            nodes: Lines::sparse(buckets),
            many: BTreeMap::new(),
            probes: PROBES_MAX.min(buckets),
        }
    }

    pub(super) const fn middle(&self) -> usize {
        self.middle
    }

    /// To be called while empty.
    pub(super) fn set_middle(&mut self, middle: usize) {
        self.middle = middle;
    }

    pub(super) fn buckets(&self) -> usize {
        self.site.buckets()
    }

    /// True when there is room for entries beside these.
    pub(super) const fn has_rooms(&self) -> bool {
        self.site.has_rooms()
    }

    /// Octets of address space besides the ground.
    pub(super) fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, ground: &Ground, hash: u64) {
        ground.prefetch_hint(&self.site, self.home(hash));
    }

    /// What there is of `middle` and more components.
    #[inline(always)]
    pub(super) fn behind(&self, ground: &Ground, hash: u64) -> Behind {
        let bucket = self.bucket(ground, self.home(hash));
        let matching = bucket.matching(tag_of(hash));
        // Nearly always one tag matches, or none, and nobody passed.
        if matching & matching.wrapping_sub(1) != 0 || bucket.passed != 0 {
            return self.behind_crowd(ground, hash);
        }
        if matching == 0 {
            return Behind::default();
        }
        let position = position_of(matching);
        let set = bucket.lengths[position];
        if set & 1 << DEEPEST != 0 {
            return Behind::among(self.lengths(ground, hash));
        }
        if set & SEVERAL != 0 {
            return Behind::among(u64::from(set & !SEVERAL) << self.middle);
        }
        self.led_to(bucket, position)
    }

    /// [`behind`](Self::behind) where several tags match, or others passed.
    #[inline(never)]
    fn behind_crowd(&self, ground: &Ground, hash: u64) -> Behind {
        let bucket = self.bucket(ground, self.home(hash));
        let matching = bucket.narrowed(bucket.matching(tag_of(hash)), rest_of(hash));
        let position = position_of(matching);
        if !matching.is_power_of_two() || bucket.lengths[position] & (SEVERAL | 1 << DEEPEST) != 0 {
            return Behind::among(self.lengths(ground, hash));
        }
        // Where others passed, there may be any length if this one matches by chance.
        let lengths = if bucket.passed == 0 { 0 } else { u64::MAX << self.middle };
        Behind { lengths, ..self.led_to(bucket, position) }
    }

    #[inline(always)]
    fn led_to(&self, bucket: &Bucket, position: usize) -> Behind {
        Behind {
            lengths: 0,
            lead: bucket.leads[position] + 1,
            lead_len: self.middle as u32 + bucket.lengths[position].trailing_zeros(),
        }
    }

    /// [`Behind::lengths`], wherever they stand.
    #[inline(never)]
    fn lengths(&self, ground: &Ground, hash: u64) -> u64 {
        let tag = tag_of(hash);
        let mut number = self.home(hash);
        let mut set = 0;
        for _ in 0..self.probes {
            let bucket = self.bucket(ground, number);
            let mut matching = bucket.matching(tag);
            while matching != 0 {
                set |= bucket.lengths[position_of(matching)] & !SEVERAL;
                matching &= matching - 1;
            }
            if bucket.passed == 0 {
                break;
            }
            number = self.after(number);
        }
        let deeper = if set >> DEEPEST == 0 { 0 } else { u64::MAX << DEEPEST };
        (u64::from(set) | deeper) << self.middle
    }

    /// [`add`](Self::add) for a prefix whose hashes are at hand; shorter ones than the middle have no hints.
    pub(super) fn add_of(
        &mut self,
        ground: &mut Ground,
        prefixes: &Prefixes,
        length: usize,
        block: u32,
    ) -> Result<(), IndexFull> {
        if length < self.middle {
            Ok(())
        } else {
            self.add(ground, prefixes.hash(self.middle), length, block)
        }
    }

    /// Takes back one [`add_of`](Self::add_of).
    pub(super) fn remove_of(&mut self, ground: &mut Ground, prefixes: &Prefixes, length: usize, block: u32) {
        if length >= self.middle {
            self.remove(ground, prefixes.hash(self.middle), length, block);
        }
    }

    /// Counts one more prefix of `length` components whose first `middle` have this hash, and whose entry stands in `block`.
    pub(super) fn add(
        &mut self,
        ground: &mut Ground,
        hash: u64,
        length: usize,
        block: u32,
    ) -> Result<(), IndexFull> {
        let (bucket, position) = match self.locate(ground, hash) {
            Some(place) => place,
            None => self.create(ground, hash)?,
        };
        let bit = (length - self.middle).min(DEEPEST);
        let counts = &mut self.nodes[bucket][position].counts;
        match *counts >> (4 * bit) & 15 {
            MANY => *self.many.entry((bucket * SLOTS + position, bit)).or_default() += 1,
            count => {
                *counts += 1 << (4 * bit);
                if count + 1 == MANY {
                    self.many.insert((bucket * SLOTS + position, bit), MANY as u32);
                }
            }
        }
        self.bucket_mut(ground, bucket).lengths[position] |= 1 << bit;
        self.lead(ground, bucket, position, block);
        Ok(())
    }

    /// Another block came behind a hint, or went: its counts and lengths are right already.
    fn lead(&self, ground: &mut Ground, bucket: usize, position: usize, block: u32) {
        let counts = self.nodes[bucket][position].counts;
        let is_single = counts.is_power_of_two() && counts.trailing_zeros().is_multiple_of(4);
        let here = self.bucket_mut(ground, bucket);
        here.leads[position] ^= block;
        here.lengths[position] &= !SEVERAL;
        if !is_single {
            here.lengths[position] |= SEVERAL;
        }
    }

    /// Takes back one [`add`](Self::add).
    pub(super) fn remove(&mut self, ground: &mut Ground, hash: u64, length: usize, block: u32) {
        let Some((bucket, position)) = self.locate(ground, hash) else {
            debug_assert!(false, "a hint was never added");
            return;
        };
        let bit = (length - self.middle).min(DEEPEST);
        let counts = &mut self.nodes[bucket][position].counts;
        if *counts >> (4 * bit) & 15 == MANY {
            let key = (bucket * SLOTS + position, bit);
            let count = self.many.entry(key).or_default();
            *count -= 1;
            if u64::from(*count) < MANY {
                self.many.remove(&key);
                *counts -= 1 << (4 * bit);
            }
        } else {
            *counts -= 1 << (4 * bit);
            if *counts >> (4 * bit) & 15 == 0 {
                self.bucket_mut(ground, bucket).lengths[position] &= !(1 << bit);
            }
        }
        self.lead(ground, bucket, position, block);
        if self.nodes[bucket][position].counts == 0 {
            self.bucket_mut(ground, bucket).tags[position] = 0;
            self.each_passed(ground, self.home(hash), bucket, |passed| *passed -= 1);
        }
    }

    /// An entry behind a hash stands in another block now.
    pub(super) fn moved(&self, ground: &mut Ground, hash: u64, block: u32, to: u32) {
        let Some((bucket, position)) = self.locate(ground, hash) else {
            debug_assert!(false, "a hint was never added");
            return;
        };
        self.bucket_mut(ground, bucket).leads[position] ^= block ^ to;
    }

    /// Forgets the hints in some buckets and some of the large counts; true when nothing is left from `bucket` on.
    pub(super) fn clear_some(&mut self, ground: &mut Ground, bucket: usize, count: usize) -> bool {
        let end = (bucket + count).min(self.buckets());
        ground.clear_hints(&self.site, bucket..end);
        self.nodes.zero(bucket..end);
        for _ in 0..count {
            if self.many.pop_first().is_none() {
                break;
            }
        }
        end == self.buckets() && self.many.is_empty()
    }

    fn create(&mut self, ground: &mut Ground, hash: u64) -> Result<(usize, usize), IndexFull> {
        let home = self.home(hash);
        let mut bucket = home;
        for _ in 0..self.probes {
            let here = self.bucket_mut(ground, bucket);
            if let Some(position) = here.tags.iter().position(|tag| *tag == 0) {
                here.tags[position] = tag_of(hash);
                here.set_rest(position, rest_of(hash));
                (here.lengths[position], here.leads[position]) = (0, 0);
                self.nodes[bucket][position] = Node { hash, counts: 0 };
                self.each_passed(ground, home, bucket, |passed| *passed += 1);
                return Ok((bucket, position));
            }
            bucket = self.after(bucket);
        }
        Err(IndexFull)
    }

    fn locate(&self, ground: &Ground, hash: u64) -> Option<(usize, usize)> {
        let tag = tag_of(hash);
        let mut bucket = self.home(hash);
        for _ in 0..self.probes {
            let here = self.bucket(ground, bucket);
            let found = (0..SLOTS).find(|p| here.tags[*p] == tag && self.nodes[bucket][*p].hash == hash);
            if let Some(position) = found {
                return Some((bucket, position));
            }
            if here.passed == 0 {
                break;
            }
            bucket = self.after(bucket);
        }
        None
    }

    fn each_passed(&self, ground: &mut Ground, home: usize, end: usize, mut change: impl FnMut(&mut u16)) {
        let mut bucket = home;
        while bucket != end {
            change(&mut self.bucket_mut(ground, bucket).passed);
            bucket = self.after(bucket);
        }
    }

    /// The bucket where the search for a hash begins.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        ((u64::from((hash >> 16) as u32) * self.buckets() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn bucket<'a>(&self, ground: &'a Ground, number: usize) -> &'a Bucket {
        transmute_ref!(ground.hint(&self.site, number))
    }

    #[inline(always)]
    fn bucket_mut<'a>(&self, ground: &'a mut Ground, number: usize) -> &'a mut Bucket {
        transmute_mut!(ground.hint_mut(&self.site, number))
    }

    #[inline(always)]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets() { 0 } else { bucket + 1 }
    }
}

/// The first position that [matches](Bucket::matching).
#[inline(always)]
fn position_of(matching: u32) -> usize {
    matching.trailing_zeros() as usize % SLOTS
}

#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    ((hash >> 48) as u8).max(1)
}

/// Other bits than those of the tag and of the bucket.
#[inline(always)]
fn rest_of(hash: u64) -> u8 {
    (hash >> 56) as u8 & REST_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hash(number: u64) -> u64 {
        let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        product as u64 ^ (product >> 64) as u64
    }

    /// Hints on a ground of their own.
    struct Lab {
        ground: Ground,
        hints: Hints,
    }

    impl Lab {
        fn new(middle: usize, prefixes_max: usize, has_rooms: bool) -> Self {
            let (ground, [site, _]) = Ground::new(Hints::buckets_for(prefixes_max), 0, has_rooms);
            Lab { ground, hints: Hints::new(middle, site) }
        }

        fn add(&mut self, hash: u64, length: usize, block: u32) {
            self.hints.add(&mut self.ground, hash, length, block).unwrap();
        }

        fn remove(&mut self, hash: u64, length: usize, block: u32) {
            self.hints.remove(&mut self.ground, hash, length, block);
        }

        fn behind(&self, hash: u64) -> Behind {
            self.hints.behind(&self.ground, hash)
        }

        fn is_clear(&self) -> bool {
            let mut buckets = (0..self.hints.buckets()).map(|number| self.hints.bucket(&self.ground, number));
            buckets.all(|b| b.tags == [0; SLOTS] && b.passed == 0)
        }
    }

    #[test]
    fn a_bucket_is_a_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    #[test]
    fn tags_match_where_they_are() {
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
    fn all_that_were_added_are_found_and_nothing_is_left() {
        let mut hints = Lab::new(3, 50_000, false);
        for number in 0..50_000u64 {
            hints.add(hash(number), 3 + number as usize % 29, number as u32);
        }
        let mut leads = 0;
        for number in 0..50_000u64 {
            let behind = hints.behind(hash(number));
            if behind.lead == 0 {
                assert!(behind.lengths >> (3 + number % 29) & 1 == 1);
            } else {
                leads += 1;
                assert_eq!((behind.lead - 1, behind.lead_len), (number as u32, 3 + number as u32 % 29));
            }
        }
        // But for the deepest, and those that went by a full bucket or share a whole tag with others there.
        assert!(leads > 50_000 * 14 / 29 * 99 / 100, "{leads} of 50000 lead to their entries");
        let strangers = (50_000..100_000).filter(|n| hints.behind(hash(*n)) != Behind::default()).count();
        assert!(strangers < 1_500, "{strangers} of 50000 match by chance");
        for number in 0..50_000u64 {
            hints.remove(hash(number), 3 + number as usize % 29, number as u32);
        }
        assert!(hints.is_clear());
    }

    #[test]
    fn rests_stand_where_they_were_put() {
        let mut bucket = Bucket::new_zeroed();
        for turn in 0..3u8 {
            let rest = |position: usize| (position as u8 * 23 + turn * 37 + 1) & REST_MASK;
            (0..SLOTS).for_each(|position| bucket.set_rest(position, rest(position)));
            (0..SLOTS).for_each(|position| assert_eq!(bucket.rest(position), rest(position)));
            assert_eq!((bucket.narrowed(0xff, rest(5)), bucket.narrowed(0xdf, rest(5))), (1 << 5, 0));
        }
    }

    /// Of one bucket and one tag: with different rests each leads to its own, with the same ones to any length that one of them has.
    #[test]
    fn tags_that_are_the_same_are_told_apart_by_their_rests() {
        let one = hash(1) & !(0xff << 56);
        let (other, same_rest) = (one | 5 << 56, one ^ 1);
        let mut hints = Lab::new(3, 30, false);
        hints.add(one, 4, 70);
        hints.add(other, 5, 80);
        assert_eq!(hints.behind(one), Behind { lengths: 0, lead: 71, lead_len: 4 });
        assert_eq!(hints.behind(other), Behind { lengths: 0, lead: 81, lead_len: 5 });
        hints.add(same_rest, 6, 90);
        assert_eq!(hints.behind(other), Behind { lengths: 0, lead: 81, lead_len: 5 });
        for hash in [one, same_rest] {
            let behind = hints.behind(hash);
            assert!(behind.lead == 0 && behind.lengths >> 4 & 1 == 1 && behind.lengths >> 6 & 1 == 1);
        }
        hints.remove(one, 4, 70);
        assert_eq!(hints.behind(same_rest), Behind { lengths: 0, lead: 91, lead_len: 6 });
        hints.remove(same_rest, 6, 90);
        hints.remove(other, 5, 80);
        assert!(hints.is_clear());
    }

    /// Who finds something in a bucket that others passed is led to it, and told that it may be another's: then there may be any length.
    #[test]
    fn where_others_passed_a_lead_is_not_all_there_is() {
        let in_home = |number: u64| hash(9) & !(0xff << 48) | (number + 1) << 48;
        let mut hints = Lab::new(3, 30, false);
        (0..SLOTS as u64).for_each(|number| hints.add(in_home(number), 4, number as u32));
        assert_eq!(hints.behind(in_home(2)), Behind { lengths: 0, lead: 3, lead_len: 4 });
        // Two that pass: one with a tag of its own, one that looks as the first.
        hints.add(in_home(SLOTS as u64), 5, 100);
        hints.add(in_home(0) ^ 1, 7, 200);
        let all = u64::MAX << 3;
        assert_eq!(hints.behind(in_home(2)), Behind { lengths: all, lead: 3, lead_len: 4 });
        assert_eq!(hints.behind(in_home(SLOTS as u64)), Behind { lengths: 1 << 5, lead: 0, lead_len: 0 });
        let astray = hints.behind(in_home(0) ^ 1);
        assert_eq!(astray, Behind { lengths: all, lead: 1, lead_len: 4 });
        // Several behind one: their lengths, and those of all that look so.
        hints.add(in_home(0), 6, 300);
        let several = hints.behind(in_home(0));
        assert_eq!(several, Behind { lengths: 1 << 4 | 1 << 6 | 1 << 7, lead: 0, lead_len: 0 });
    }

    #[test]
    fn clearing_in_portions_leaves_nothing() {
        let mut hints = Lab::new(1, 10_000, true);
        for number in 0..10_000u64 {
            for _ in 0..20 {
                hints.add(hash(number % 500), 2, number as u32);
            }
        }
        let mut bucket = 0;
        while !hints.hints.clear_some(&mut hints.ground, bucket, 100) {
            bucket = (bucket + 100).min(hints.hints.buckets());
        }
        assert!(hints.hints.many.is_empty() && hints.is_clear());
        assert!((0..500).all(|number| hints.behind(hash(number)) == Behind::default()));
    }

    proptest! {
        /// Counts are exact: as long as one of many prefixes is there its length shows, afterwards it doesn't; and the only one there is is led to,
        /// whatever others came and went.
        #[test]
        fn counts_are_exact(steps in proptest::collection::vec((0u64..3, 0usize..33, 0usize..20, any::<bool>()), 0..80), has_rooms: bool) {
            let mut hints = Lab::new(0, 30, has_rooms);
            let mut model: BTreeMap<(u64, usize), Vec<u32>> = BTreeMap::new();
            let mut blocks = 0;
            for (number, length, times, add) in steps {
                let there = model.entry((number, length)).or_default();
                for _ in 0..times {
                    if add {
                        blocks += 1;
                        hints.add(hash(number), length, blocks);
                        there.push(blocks);
                    } else if !there.is_empty() {
                        // Neither the first nor the last that came.
                        let gone = there.swap_remove(there.len() / 2);
                        hints.remove(hash(number), length, gone);
                    }
                }
                for number in 0..3 {
                    let mut wanted = Behind::default();
                    let mut all: Vec<u32> = Vec::new();
                    for length in 0..33 {
                        let Some(there) = model.get(&(number, length)).filter(|there| !there.is_empty()) else { continue };
                        wanted.lengths |= if length >= DEEPEST { u64::MAX << DEEPEST } else { 1 << length };
                        all.extend(there);
                    }
                    if let [only] = all[..] && wanted.lengths >> DEEPEST == 0 {
                        wanted = Behind { lengths: 0, lead: only + 1, lead_len: wanted.lengths.trailing_zeros() };
                    }
                    prop_assert_eq!(hints.behind(hash(number)), wanted);
                }
            }
        }
    }
}
