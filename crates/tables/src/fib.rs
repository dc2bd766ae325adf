//! Forwarding Information Base: maps the longest prefix of a name to next hops and a strategy.
//!
//! A lookup is a two-stage longest-prefix match (So, Narayanan, Oran, "Named Data Networking on a
//! Router: Fast and DoS-resistant Forwarding with Hash Tables", ANCS 2013; used by NDN-DPDK too):
//!
//! ```text
//! stage 1: hash of the first `start_depth` components
//!    -> length table (1 cache line): the lengths that exist below this hash,
//!                                    and the entry itself if there is only one
//! stage 2: hash of the longest such length that the name has, then of the next shorter one, ...
//!    -> index (1 cache line): handles of entries that may have this hash
//!    -> entry (1 or 2 lines):  header and name; the name is compared
//! ```
//!
//! Prefixes shorter than `start_depth` skip stage 1: a bit set has the lengths that exist.
//!
//! | file | content |
//! |---|---|
//! | `length_table` | stage 1: lengths and direct entries by hash |
//! | `start_depth` | chooses the start depth, and changes it while lookups go on |
//! | [`crate::index`] | stage 2: handles by hash |
//! | `arena` | the memory of length tables and entries |
//! | `page_slots`, `slab_allocator` | where in the arena an entry is placed |
//! | `next_hop_sets` | next hops, stored once per distinct set |
//!
//! Main invariant: after every change the length table has the length of every prefix (of
//! `start_depth` or more components) and the index has every entry, so a lookup never misses a
//! prefix. False matches cost a comparison only.
//!
//! Everything is bounded at construction and every change takes bounded time: nothing is rebuilt at
//! once. A lookup waits for no memory if [`prefetch`](Fib::prefetch) was called for the whole batch
//! before.

mod arena;
mod length_table;
mod next_hop_sets;
mod page_slots;
mod slab_allocator;
mod start_depth;
#[cfg(test)]
mod tests;

use crate::FaceId;
use crate::bytes;
use crate::index::{Index, IndexFull};
use arena::FibArena;
use length_table::{LengthCandidates, LengthTable};
use next_hop_sets::NextHopSets;
use nw_name::{HashKey, NameRef, PREFIXES_MAX, PrefixHashes};
use slab_allocator::BLOCK_MAX;
use start_depth::DepthIndex;

/// A next hop of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// The face to send to.
    pub face: FaceId,
    /// The routing cost; lower is better.
    pub cost: u32,
}

/// The number of a strategy in the router's list of strategies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrategyId(pub u8);

/// The route of a prefix, as a lookup returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibEntry<'a> {
    /// The next hops, sorted by cost, then face.
    pub next_hops: &'a [NextHop],
    /// The strategy that selects among them.
    pub strategy: StrategyId,
    /// The number of components of the prefix.
    pub prefix_len: usize,
}

/// Capacity of a FIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibConfig {
    /// The maximum number of prefixes.
    pub prefixes_max: usize,
    /// The maximum number of next hops of one prefix.
    pub next_hops_per_prefix_max: usize,
    /// The maximum number of distinct sets of next hops.
    pub next_hop_sets_max: usize,
    /// Bytes for all entries in slabs: an entry takes its name and 9 bytes, rounded up to a
    /// multiple of 32 (above 256: to a quarter of a power of two). Entries in page slots (FIBs for
    /// more than 2^18 prefixes) are not counted.
    pub entry_bytes_max: usize,
    /// The number of components at which a lookup starts, 1 to 32. `None`: chosen from the lengths
    /// of the prefixes.
    pub start_depth: Option<usize>,
}

impl FibConfig {
    /// The default capacity of a router, in prefixes.
    pub const PREFIXES_DEFAULT: usize = 1 << 18;
    /// The largest capacity that configurations may ask for, in prefixes.
    pub const PREFIXES_MAX: usize = 1 << 26;

    /// Returns the configuration for this many prefixes, with names of 119 bytes on average at
    /// most.
    pub const fn new(prefixes_max: usize) -> Self {
        FibConfig {
            prefixes_max,
            next_hops_per_prefix_max: 64,
            next_hop_sets_max: if prefixes_max < 1 << 20 { prefixes_max } else { 1 << 20 },
            entry_bytes_max: prefixes_max * 128,
            start_depth: None,
        }
    }
}

/// Why a prefix was not set; the FIB is unchanged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibError {
    /// No space for another prefix, its name or its set of next hops.
    Full,
    /// The prefix has more than 32 components or 16375 bytes.
    NameTooLong,
    /// There are more next hops than [`FibConfig::next_hops_per_prefix_max`].
    TooManyNextHops,
}

impl core::fmt::Display for FibError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            FibError::Full => "the FIB is full",
            FibError::NameTooLong => "the prefix has more than 32 components or 16375 bytes",
            FibError::TooManyNextHops => "more next hops than a prefix may have",
        })
    }
}

impl core::error::Error for FibError {}

impl From<IndexFull> for FibError {
    fn from(_: IndexFull) -> Self {
        FibError::Full
    }
}

/// FIBs for more prefixes than this have page slots: space for entries in the memory page of their
/// bucket of the length table. In smaller FIBs the page translations of the separate areas stay
/// cached, so page slots would only spread a few prefixes over more memory.
const PAGE_SLOTS_ABOVE_PREFIXES: usize = FibConfig::PREFIXES_DEFAULT;

/// FIBs for more prefixes than this [exceed the reach of the TLB](Fib::exceeds_tlb_reach), so that
/// an extra prefetch pass over each batch pays.
const TLB_REACH_PREFIXES: usize = 1 << 20;

/// What the stages of [`Fib::advance`] have found for one name, for [`Fib::resolve`]. It is
/// ignored once the FIB has changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct FibProbe {
    /// Version of the FIB this probe is valid for; 0 = empty.
    version: u64,
    candidates: LengthCandidates,
}

impl FibProbe {
    /// Returns whether an entry was found and prefetched, most likely the longest match.
    #[inline(always)]
    pub const fn has_entry(&self) -> bool {
        self.candidates.direct_entry != 0
    }
}

/// The FIB of one shard.
pub struct Fib {
    key: HashKey,
    /// Counts changes, from 1. A [`FibProbe`] of another version is ignored.
    version: u64,
    config: FibConfig,
    depth_index: DepthIndex,
    index: Index,
    arena: FibArena,
    hop_sets: NextHopSets,
    /// The next hops of [`set`](Self::set), sorted and without duplicates.
    sort_buffer: Vec<NextHop>,
    /// The number of prefixes per strategy.
    strategy_counts: Box<[u32; 256]>,
}

impl Fib {
    /// The number of stages of [`prefetch`](Self::prefetch) and [`advance`](Self::advance).
    pub const PREFETCH_STAGES: usize = 3;

    /// Creates an empty FIB. `key` must be the key of all [`PrefixHashes`] passed to it.
    pub fn new(key: HashKey, config: FibConfig) -> Self {
        Self::with_arena(key, config, config.prefixes_max > PAGE_SLOTS_ABOVE_PREFIXES)
    }

    fn with_arena(key: HashKey, config: FibConfig, has_page_slots: bool) -> Self {
        let buckets = LengthTable::buckets_for(config.prefixes_max);
        let (arena, layouts) = FibArena::new(buckets, config.entry_bytes_max, has_page_slots);
        Fib {
            key,
            version: 1,
            config,
            depth_index: DepthIndex::new(key, layouts, config.start_depth),
            index: Index::with_capacity(config.prefixes_max),
            arena,
            hop_sets: NextHopSets::new(key, config.next_hop_sets_max),
            sort_buffer: Vec::with_capacity(config.next_hops_per_prefix_max),
            strategy_counts: Box::new([0; 256]),
        }
    }

    /// Sets the route of a prefix, replacing an existing one. If a face occurs twice in
    /// `next_hops`, its lower cost is used.
    ///
    /// # Errors
    /// When a limit of [`FibConfig`] is reached; the FIB is unchanged then.
    pub fn set(
        &mut self,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        let prefixes = PrefixHashes::of(&self.key, name);
        if prefixes.count() > PREFIXES_MAX || Entry::HEADER + name.as_bytes().len() > BLOCK_MAX {
            return Err(FibError::NameTooLong);
        }
        if next_hops.len() > self.config.next_hops_per_prefix_max {
            return Err(FibError::TooManyNextHops);
        }
        self.bump_version();
        self.sort_next_hops(next_hops);
        let hop_set = self.hop_sets.intern(&self.sort_buffer)?;
        let result = match self.find(prefixes.full_hash(), name.as_bytes()) {
            Some(handle) => {
                let bytes = self.arena.bytes_mut(handle);
                let Entry { hop_set: old_hop_set, strategy: old_strategy, .. } =
                    Entry::parse(bytes);
                Entry::set_route(bytes, hop_set, strategy);
                self.hop_sets.release(old_hop_set);
                self.strategy_counts[usize::from(old_strategy.0)] -= 1;
                Ok(())
            }
            None => self.insert(name, &prefixes, hop_set, strategy),
        };
        match result {
            Ok(()) => {
                self.strategy_counts[usize::from(strategy.0)] += 1;
                self.depth_index.step(&mut self.index, &mut self.arena);
            }
            Err(_) => self.hop_sets.release(hop_set),
        }
        result
    }

    /// Removes a prefix; returns whether it existed.
    pub fn remove(&mut self, name: NameRef<'_>) -> bool {
        self.bump_version();
        let prefixes = PrefixHashes::of(&self.key, name);
        let Some(handle) = self.find(prefixes.full_hash(), name.as_bytes()) else { return false };
        let entry = Entry::parse(self.arena.bytes(handle));
        let Entry { hop_set, components, strategy, epoch, .. } = entry;
        let entry_len = entry.len();
        self.strategy_counts[usize::from(strategy.0)] -= 1;
        self.depth_index.remove(&mut self.arena, &prefixes, components.into(), handle, epoch);
        self.index.remove(prefixes.full_hash(), handle);
        self.arena.free(handle, entry_len);
        self.hop_sets.release(hop_set);
        self.depth_index.step(&mut self.index, &mut self.arena);
        true
    }

    /// Invalidates all probes.
    const fn bump_version(&mut self) {
        self.version += 1;
    }

    /// Returns the longest prefix match. `None` if no route covers the name. `prefixes` are the
    /// hashes of `name`.
    #[inline]
    pub fn lookup(&self, name: NameRef<'_>, prefixes: &PrefixHashes) -> Option<FibEntry<'_>> {
        self.lookup_candidates(self.depth_index.candidates(&self.arena, prefixes), name, prefixes)
    }

    /// Returns the same as [`lookup`](Self::lookup), using what [`advance`](Self::advance) has
    /// found for this name.
    #[inline(always)]
    pub fn resolve(
        &self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        probe: &FibProbe,
    ) -> Option<FibEntry<'_>> {
        if probe.version != self.version {
            return self.lookup(name, prefixes);
        }
        self.lookup_candidates(probe.candidates, name, prefixes)
    }

    /// Returns the direct entry if its name is a prefix of `name`, else the longest match of the
    /// lengths.
    #[inline(always)]
    fn lookup_candidates(
        &self,
        candidates: LengthCandidates,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
    ) -> Option<FibEntry<'_>> {
        if let Some(handle) = candidates.direct_entry.checked_sub(1)
            && let Some(prefix) =
                name.as_bytes().get(..prefixes.end(candidates.direct_len as usize))
            && Entry::is_named(self.arena.bytes(handle), prefix)
        {
            return Some(self.entry(handle));
        }
        self.lookup_lengths(candidates.lengths, name, prefixes)
    }

    /// Stage 2: tries the lengths, longest first.
    #[inline(never)]
    fn lookup_lengths(
        &self,
        mut lengths: u64,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
    ) -> Option<FibEntry<'_>> {
        let bytes = name.as_bytes();
        while let Some(length) = take_longest(&mut lengths) {
            let Some(prefix) = bytes.get(..prefixes.end(length)) else { continue };
            if let Some(handle) = self.find(prefixes.hash(length), prefix) {
                return Some(self.entry(handle));
            }
        }
        None
    }

    /// Returns the route of exactly this prefix.
    pub fn exact(&self, name: NameRef<'_>) -> Option<FibEntry<'_>> {
        let handle = self.find(self.key.name(name), name.as_bytes())?;
        Some(self.entry(handle))
    }

    /// Returns whether the FIB is so large that finding the memory page of a length-table bucket (a
    /// TLB miss) takes longer than all other prefetches of a packet. Then
    /// [`prefetch_pages`](Self::prefetch_pages) pays.
    #[inline(always)]
    pub const fn exceeds_tlb_reach(&self) -> bool {
        self.config.prefixes_max > TLB_REACH_PREFIXES
    }

    /// Prefetches the length-table line of a name, for a whole batch before any other prefetch. A
    /// page walk stalls a processor after a few hundred further instructions; in a pass of its own,
    /// the walks of many names overlap. Does nothing if the FIB does not [exceed the reach of the
    /// TLB](Self::exceeds_tlb_reach).
    #[inline(always)]
    pub fn prefetch_pages(&self, prefixes: &PrefixHashes) {
        if self.exceeds_tlb_reach() {
            self.depth_index.prefetch(&self.arena, prefixes);
        }
    }

    /// Prefetches the cache lines that [`lookup`](Self::lookup) will read. To be called for a whole
    /// batch of names, once per stage from 0 to [`PREFETCH_STAGES`](Self::PREFETCH_STAGES), before
    /// the first lookup.
    #[inline]
    pub fn prefetch(&self, stage: usize, prefixes: &PrefixHashes) {
        match stage {
            0 => self.prefetch_table_line(prefixes),
            1 => self
                .prefetch_candidate(self.depth_index.candidates(&self.arena, prefixes), prefixes),
            _ => self.prefetch_entry(prefixes),
        }
    }

    /// Prefetches like [`prefetch`](Self::prefetch) and stores the result of each stage in `probe`,
    /// so that later stages and [`resolve`](Self::resolve) need not repeat it.
    ///
    /// Stage 0 prefetches the length-table line, unless [`prefetch_pages`](Self::prefetch_pages)
    /// did. Stage 1 reads it and prefetches the direct entry (in the same page, if the FIB has page
    /// slots), or the bucket of the index.
    #[inline(always)]
    pub fn advance(&self, stage: usize, prefixes: &PrefixHashes, probe: &mut FibProbe) {
        match stage {
            0 => self.prefetch_table_line(prefixes),
            1 => {
                let candidates = self.depth_index.candidates(&self.arena, prefixes);
                *probe = FibProbe { version: self.version, candidates };
                self.prefetch_candidate(candidates, prefixes);
            }
            // Stage 1 found the direct entry and prefetched it.
            _ if probe.has_entry() => {}
            _ if probe.version != self.version => self.prefetch_entry(prefixes),
            _ => self.advance_lengths(prefixes, &mut probe.candidates),
        }
    }

    /// Stage 2 of [`advance`](Self::advance) without a direct entry: the entry of the longest
    /// length becomes it, or that length is excluded.
    #[inline(always)]
    fn advance_lengths(&self, prefixes: &PrefixHashes, candidates: &mut LengthCandidates) {
        let Some(longest) = candidates.lengths.checked_ilog2() else { return };
        if let Some(handle) = self.index.candidates(prefixes.hash(longest as usize)).next() {
            candidates.direct_entry = handle + 1;
            candidates.direct_len = longest;
            self.arena.prefetch(handle, Entry::HEADER + prefixes.end(longest as usize));
            return;
        }
        candidates.lengths &= !(1 << longest);
        if let Some(next) = candidates.lengths.checked_ilog2() {
            self.index.prefetch(prefixes.hash(next as usize));
        }
    }

    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns the maximum number of prefixes.
    pub const fn capacity(&self) -> usize {
        self.config.prefixes_max
    }

    /// Returns, by number of the strategy, whether a prefix uses it.
    pub fn strategies_in_use(&self) -> [bool; 256] {
        self.strategy_counts.map(|prefixes| prefixes > 0)
    }

    /// Returns the number of distinct sets of next hops.
    pub const fn next_hop_sets(&self) -> usize {
        self.hop_sets.len()
    }

    /// Returns the number of components at which a lookup starts now.
    pub fn start_depth(&self) -> usize {
        self.depth_index.start_depth()
    }

    /// Returns the bytes of address space reserved: resident memory when full. Empty, the FIB takes
    /// almost none.
    pub fn memory_bytes(&self) -> usize {
        self.depth_index.memory_bytes()
            + self.index.memory_bytes()
            + self.arena.memory_bytes()
            + self.hop_sets.memory_bytes()
    }

    /// Returns all prefixes in canonical order. For management: collects and sorts.
    pub fn entries(&self) -> Vec<(NameRef<'_>, FibEntry<'_>)> {
        let handles = (0..self.index.buckets()).flat_map(|bucket| self.index.bucket_slots(bucket));
        let mut entries: Vec<_> = handles
            .map(|handle| {
                (
                    NameRef::from_checked(Entry::parse(self.arena.bytes(handle)).name),
                    self.entry(handle),
                )
            })
            .collect();
        entries.sort_unstable_by_key(|(name, _)| *name);
        entries
    }

    /// Adds a prefix that does not exist yet.
    fn insert(
        &mut self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        hop_set: u32,
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        let entry_len = Entry::HEADER + name.as_bytes().len();
        let handle = self
            .arena
            .allocate(entry_len, self.depth_index.preferred_bucket(prefixes))
            .ok_or(FibError::Full)?;
        let added = self.index.insert(prefixes.full_hash(), handle).and_then(|()| {
            let added = self.depth_index.add(&mut self.arena, prefixes, prefixes.count(), handle);
            if added.is_err() {
                self.index.remove(prefixes.full_hash(), handle);
            }
            added
        });
        match added {
            Ok(epoch) => {
                let components = prefixes.count() as u8;
                Entry { hop_set, strategy, components, epoch, name: name.as_bytes() }
                    .write(self.arena.bytes_mut(handle));
                Ok(())
            }
            Err(full) => {
                self.arena.free(handle, entry_len);
                Err(full.into())
            }
        }
    }

    /// Prefetches the length-table line, unless the page pass did.
    #[inline(always)]
    fn prefetch_table_line(&self, prefixes: &PrefixHashes) {
        if !self.exceeds_tlb_reach() {
            self.depth_index.prefetch(&self.arena, prefixes);
        }
    }

    /// Prefetches the direct entry if there is one, else the index bucket of the longest length.
    #[inline(always)]
    fn prefetch_candidate(&self, candidates: LengthCandidates, prefixes: &PrefixHashes) {
        if let Some(handle) = candidates.direct_entry.checked_sub(1) {
            self.arena
                .prefetch(handle, Entry::HEADER + prefixes.end(candidates.direct_len as usize));
        } else if let Some(longest) = candidates.lengths.checked_ilog2() {
            self.index.prefetch(prefixes.hash(longest as usize));
        }
    }

    /// Stage 2 of prefetching: the entry of the longest length, or the index bucket of the next
    /// one.
    fn prefetch_entry(&self, prefixes: &PrefixHashes) {
        let LengthCandidates { mut lengths, direct_entry: 0, .. } =
            self.depth_index.candidates(&self.arena, prefixes)
        else {
            return;
        };
        let Some(longest) = take_longest(&mut lengths) else { return };
        if let Some(handle) = self.index.candidates(prefixes.hash(longest)).next() {
            self.arena.prefetch(handle, Entry::HEADER + prefixes.end(longest));
        } else if let Some(next) = take_longest(&mut lengths) {
            self.index.prefetch(prefixes.hash(next));
        }
    }

    /// Returns the handle of the entry with this name.
    #[inline(always)]
    fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.index.find(hash, |handle| Entry::is_named(self.arena.bytes(handle), name))
    }

    #[inline(always)]
    fn entry(&self, handle: u32) -> FibEntry<'_> {
        let entry = Entry::parse(self.arena.bytes(handle));
        FibEntry {
            next_hops: self.hop_sets.hops(entry.hop_set),
            strategy: entry.strategy,
            prefix_len: entry.components.into(),
        }
    }

    /// Fills `sort_buffer`: sorted by cost, each face once with its lowest cost.
    fn sort_next_hops(&mut self, next_hops: &[NextHop]) {
        self.sort_buffer.clear();
        self.sort_buffer.extend_from_slice(next_hops);
        self.sort_buffer.sort_unstable();
        self.sort_buffer.dedup_by_key(|hop| hop.face);
        self.sort_buffer.sort_unstable_by_key(|hop| (hop.cost, hop.face));
    }
}

impl core::fmt::Debug for Fib {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fib")
            .field("len", &self.len())
            .field("start_depth", &self.start_depth())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

#[inline(always)]
fn take_longest(lengths: &mut u64) -> Option<usize> {
    let longest = lengths.checked_ilog2()?;
    *lengths &= !(1 << longest);
    Some(longest as usize)
}

/// An entry in its block, little endian: `hop_set u32 | name_len u16 | components u8 | strategy u8
/// | epoch u8 | name`.
struct Entry<'a> {
    hop_set: u32,
    components: u8,
    strategy: StrategyId,
    epoch: u8,
    name: &'a [u8],
}

impl<'a> Entry<'a> {
    const HEADER: usize = 9;

    /// Parses an entry at the start of `bytes`.
    #[inline(always)]
    fn parse(bytes: &'a [u8]) -> Self {
        let (header, tail) = bytes.split_at(Self::HEADER);
        let name_len = usize::from(u16::from_le_bytes([header[4], header[5]]));
        Entry {
            hop_set: u32::from_le_bytes([header[0], header[1], header[2], header[3]]),
            components: header[6],
            strategy: StrategyId(header[7]),
            epoch: header[8],
            name: &tail[..name_len],
        }
    }

    /// Returns whether the entry at the start of `bytes` has this name.
    #[inline(always)]
    fn is_named(bytes: &[u8], name: &[u8]) -> bool {
        let name_len = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        match bytes.get(Self::HEADER..Self::HEADER + name.len()) {
            Some(stored) => name_len == name.len() && bytes::eq(stored, name),
            None => false,
        }
    }

    /// The bytes of the entry in its block.
    const fn len(&self) -> usize {
        Self::HEADER + self.name.len()
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[4..6].copy_from_slice(&(self.name.len() as u16).to_le_bytes());
        bytes[6] = self.components;
        Self::set_route(bytes, self.hop_set, self.strategy);
        Self::set_epoch(bytes, self.epoch);
        bytes[Self::HEADER..Self::HEADER + self.name.len()].copy_from_slice(self.name);
    }

    fn set_route(bytes: &mut [u8], hop_set: u32, strategy: StrategyId) {
        bytes[0..4].copy_from_slice(&hop_set.to_le_bytes());
        bytes[7] = strategy.0;
    }

    fn set_epoch(bytes: &mut [u8], epoch: u8) {
        bytes[8] = epoch;
    }
}
