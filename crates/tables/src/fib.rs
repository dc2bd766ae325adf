//! Forwarding Information Base: by the longest prefix of a name to next hops and a strategy.
//!
//! ```text
//! hash of the first `middle` components --> hints: lengths worth trying (one cache line); where a single prefix starts so, its entry
//! hash of the longest of these lengths  --> index: where entries may be (one line)
//!                                           entry: header + name, compared (one line, or two)
//! ```
//!
//! A lookup waits for nothing when a batch of names was [`prefetch`](Fib::prefetch)ed by stages before. Everything is bounded at construction; memory is
//! taken when routes come. A change takes a bounded time: nothing is ever rebuilt at once.

mod blocks;
mod ground;
mod hints;
mod hops;
mod lengths;
mod rooms;
#[cfg(test)]
mod tests;

use crate::FaceId;
use crate::index::{Index, IndexFull};
use crate::octets::are_same;
use blocks::BLOCK_MAX;
use core::cell::Cell;
use ground::Ground;
use hints::{Behind, Hints};
use hops::HopSets;
use lengths::Lengths;
use nw_name::{HashKey, NameRef, PREFIXES_MAX, Prefixes};

/// Where to send, and at what cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NextHop {
    /// By which face.
    pub face: FaceId,
    /// The less the better.
    pub cost: u32,
}

/// A number in the router's closed list of strategies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrategyId(pub u8);

/// What the FIB knows of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibEntry<'a> {
    /// Sorted by cost, then face.
    pub next_hops: &'a [NextHop],
    /// Who chooses among them.
    pub strategy: StrategyId,
    /// Components of the prefix.
    pub prefix_len: usize,
}

/// Bounds of a FIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibConfig {
    /// Prefixes at one time.
    pub prefixes_max: usize,
    /// Next hops of one prefix.
    pub next_hops_per_prefix_max: usize,
    /// Different sets of next hops at one time.
    pub next_hop_sets_max: usize,
    /// Octets for all entries: each takes its name and 9 octets, rounded up to a multiple of 32 (of larger steps above 256). Those that stand beside
    /// their hints, as most do where there may be more than 2^18, take none of them.
    pub entry_bytes_max: usize,
    /// Components at which a lookup starts, 1..=32; `None` lets it follow the lengths of the prefixes.
    pub middle: Option<usize>,
    /// Tells its hints from those of other FIBs that see the same packets: to be different from theirs.
    pub owner: u32,
}

impl FibConfig {
    /// What a router is made for, unless it is told of more.
    pub const PREFIXES_DEFAULT: usize = 1 << 18;

    /// For so many prefixes, with names of 119 octets on average at most.
    pub const fn new(prefixes_max: usize) -> Self {
        FibConfig {
            prefixes_max,
            next_hops_per_prefix_max: 64,
            next_hop_sets_max: if prefixes_max < 1 << 20 { prefixes_max } else { 1 << 20 },
            entry_bytes_max: prefixes_max * 128,
            middle: None,
            owner: 0,
        }
    }
}

/// Why a prefix was not set; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibError {
    /// No room for another prefix, its name, or its set of next hops.
    Full,
    /// More than 32 components or 16375 octets.
    NameTooLong,
    /// More next hops than a prefix may have.
    TooManyNextHops,
}

impl core::fmt::Display for FibError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            FibError::Full => "the FIB is full",
            FibError::NameTooLong => "the prefix has more than 32 components or 16375 octets",
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

/// FIBs for more prefixes than this have room for entries beside their hints. Smaller ones would gain next to nothing, as translations of their pages are in
/// a near cache; and a few prefixes would touch all of it, so whoever asked for no room has none.
const SMALL_MAX: usize = FibConfig::PREFIXES_DEFAULT;

/// FIBs for more prefixes than this are [far](Fib::is_far). A pass over a batch takes 2 ns a packet, so it must bring more.
const NEAR_MAX: usize = 1 << 20;

/// What the stages of [`Fib::prefetch_hinted`] found out about one name, for the lookup that follows. It holds for as long as the FIB stays as it is, and
/// for this name only: [`forget`](Self::forget) it when the name changes.
#[derive(Clone, Debug, Default)]
pub struct FibHint {
    /// Which FIB it is about, and as it was after which change; 0 is none.
    state: Cell<u64>,
    /// Lengths still worth trying, where the lead is none or leads astray.
    lengths: Cell<u64>,
    /// The block that the longest prefix seems to stand in, plus one; 0 is none.
    lead: Cell<u32>,
    /// Components of that prefix.
    lead_len: Cell<u32>,
}

impl FibHint {
    /// Says nothing from now on.
    #[inline(always)]
    pub fn forget(&self) {
        self.state.set(0);
    }

    #[inline(always)]
    fn is_about(&self, fib: &Fib) -> bool {
        self.state.get() == fib.state
    }

    #[inline(always)]
    fn keep(&self, fib: &Fib, behind: Behind) {
        self.state.set(fib.state);
        self.lengths.set(behind.lengths);
        self.lead.set(behind.lead);
        self.lead_len.set(behind.lead_len);
    }

    #[inline(always)]
    fn behind(&self) -> Behind {
        Behind { lengths: self.lengths.get(), lead: self.lead.get(), lead_len: self.lead_len.get() }
    }
}

/// The FIB of one shard.
pub struct Fib {
    key: HashKey,
    /// Its owner, as several FIBs may have had as many changes, and how often it changed: tells whether a hint still holds, for as long as packets are on
    /// their way. The lower half is never 0.
    state: u64,
    config: FibConfig,
    lengths: Lengths,
    index: Index,
    ground: Ground,
    hop_sets: HopSets,
    sorted: Vec<NextHop>,
    /// Prefixes by number of their strategy.
    strategies: Box<[u32; 256]>,
}

impl Fib {
    /// Passes of [`prefetch`](Self::prefetch) and [`prefetch_hinted`](Self::prefetch_hinted) that help.
    pub const PREFETCH_STAGES: usize = 3;

    /// Without prefixes. `key` is that of the [`Prefixes`] it will be asked with.
    pub fn new(key: HashKey, config: FibConfig) -> Self {
        Self::on_ground(key, config, config.prefixes_max > SMALL_MAX)
    }

    fn on_ground(key: HashKey, config: FibConfig, has_rooms: bool) -> Self {
        let buckets = Hints::buckets_for(config.prefixes_max);
        let (ground, sites) = Ground::new(buckets, config.entry_bytes_max, has_rooms);
        Fib {
            key,
            state: u64::from(config.owner) << 32 | 1,
            config,
            lengths: Lengths::new(key, sites, config.middle),
            index: Index::with_capacity(config.prefixes_max),
            ground,
            hop_sets: HopSets::new(key, config.next_hop_sets_max),
            sorted: Vec::with_capacity(config.next_hops_per_prefix_max),
            strategies: Box::new([0; 256]),
        }
    }

    /// Sets what is known of a prefix, in place of what was. A face among `next_hops` twice counts once, with the lower cost.
    ///
    /// # Errors
    /// What is too much; nothing has changed then.
    pub fn set(
        &mut self,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        let prefixes = Prefixes::of(&self.key, name);
        if prefixes.count() > PREFIXES_MAX || Entry::HEADER + name.as_bytes().len() > BLOCK_MAX {
            return Err(FibError::NameTooLong);
        }
        if next_hops.len() > self.config.next_hops_per_prefix_max {
            return Err(FibError::TooManyNextHops);
        }
        self.changes();
        self.sort(next_hops);
        let hop_set = self.hop_sets.intern(&self.sorted)?;
        let done = match self.find(prefixes.whole(), name.as_bytes()) {
            Some(block) => {
                let bytes = self.ground.bytes_mut(block);
                let Entry { hop_set: former, strategy: chosen, .. } = Entry::of(bytes);
                Entry::set_action(bytes, hop_set, strategy);
                self.hop_sets.release(former);
                self.strategies[usize::from(chosen.0)] -= 1;
                Ok(())
            }
            None => self.insert(name, &prefixes, hop_set, strategy),
        };
        match done {
            Ok(()) => {
                self.strategies[usize::from(strategy.0)] += 1;
                self.lengths.work(&mut self.index, &mut self.ground);
            }
            Err(_) => self.hop_sets.release(hop_set),
        }
        done
    }

    /// Removes a prefix; false when it was not there.
    pub fn remove(&mut self, name: NameRef<'_>) -> bool {
        self.changes();
        let prefixes = Prefixes::of(&self.key, name);
        let Some(block) = self.find(prefixes.whole(), name.as_bytes()) else { return false };
        let entry = Entry::of(self.ground.bytes(block));
        let Entry { hop_set, components, strategy, epoch, .. } = entry;
        let entry_len = entry.len();
        self.strategies[usize::from(strategy.0)] -= 1;
        self.lengths.remove(&mut self.ground, &prefixes, components.into(), block, epoch);
        self.index.remove(prefixes.whole(), block);
        self.ground.free(block, entry_len);
        self.hop_sets.release(hop_set);
        self.lengths.work(&mut self.index, &mut self.ground);
        true
    }

    /// No hint given so far holds any more.
    fn changes(&mut self) {
        let count = (self.state as u32).wrapping_add(1).max(1);
        self.state = self.state >> 32 << 32 | u64::from(count);
    }

    /// The longest prefix of `name` that was set. `prefixes` are those of `name`.
    #[inline]
    pub fn lookup(&self, name: NameRef<'_>, prefixes: &Prefixes) -> Option<FibEntry<'_>> {
        self.lookup_behind(self.lengths.of(&self.ground, prefixes), name, prefixes)
    }

    /// As [`lookup`](Self::lookup), with what [`prefetch_hinted`](Self::prefetch_hinted) found out about this name.
    #[inline(always)]
    pub fn lookup_hinted(
        &self,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        hint: &FibHint,
    ) -> Option<FibEntry<'_>> {
        if !hint.is_about(self) {
            return self.lookup(name, prefixes);
        }
        self.lookup_behind(hint.behind(), name, prefixes)
    }

    /// The prefix that is led to, if it is one of this name; else the longest one of the lengths.
    #[inline(always)]
    fn lookup_behind(&self, behind: Behind, name: NameRef<'_>, prefixes: &Prefixes) -> Option<FibEntry<'_>> {
        if let Some(block) = behind.lead.checked_sub(1)
            && let Some(prefix) = name.as_bytes().get(..prefixes.end(behind.lead_len as usize))
            && Entry::has_name(self.ground.bytes(block), prefix)
        {
            return Some(self.entry(block));
        }
        self.lookup_among(behind.lengths, name, prefixes)
    }

    #[inline(never)]
    fn lookup_among(&self, mut lengths: u64, name: NameRef<'_>, prefixes: &Prefixes) -> Option<FibEntry<'_>> {
        let bytes = name.as_bytes();
        while let Some(length) = take_longest(&mut lengths) {
            let Some(prefix) = bytes.get(..prefixes.end(length)) else { continue };
            if let Some(block) = self.find(prefixes.hash(length), prefix) {
                return Some(self.entry(block));
            }
        }
        None
    }

    /// What was set for exactly this prefix.
    pub fn exact(&self, name: NameRef<'_>) -> Option<FibEntry<'_>> {
        let block = self.find(self.key.name(name), name.as_bytes())?;
        Some(self.entry(block))
    }

    /// True when it is so large that the first line of a lookup takes longer to come than all else a packet asks for, as its page has to be found in memory: then
    /// [`prefetch_far`](Self::prefetch_far) helps.
    #[inline(always)]
    pub const fn is_far(&self) -> bool {
        self.config.prefixes_max > NEAR_MAX
    }

    /// What stage 0 of [`prefetch`](Self::prefetch) asks for, for a whole batch of names before anything else. A processor goes on behind a few hundred instructions at most
    /// until a page is found, so where nothing else is done between these requests, many look for their pages at the same time. Nothing where the FIB is not [far](Self::is_far).
    #[inline(always)]
    pub fn prefetch_far(&self, prefixes: &Prefixes) {
        if self.is_far() {
            self.lengths.prefetch(&self.ground, prefixes);
        }
    }

    /// Asks for the memory that [`lookup`](Self::lookup) will read, without waiting for it. For a whole batch of names, once per stage from 0 to
    /// [`PREFETCH_STAGES`](Self::PREFETCH_STAGES), before the first lookup.
    #[inline]
    pub fn prefetch(&self, stage: usize, prefixes: &Prefixes) {
        match stage {
            0 => self.prefetch_near(prefixes),
            1 => self.prefetch_found(self.lengths.of(&self.ground, prefixes), prefixes),
            _ => self.prefetch_entry(prefixes),
        }
    }

    /// As [`prefetch`](Self::prefetch); what a stage finds out is kept in `hint`, so that the next one and the lookup need not.
    ///
    /// Stage 0 asks for the hint, unless [`prefetch_far`](Self::prefetch_far) did. What the hint leads to stands in the same page, so stage 1 asks for it as it reads
    /// the hint.
    #[inline(always)]
    pub fn prefetch_hinted(&self, stage: usize, prefixes: &Prefixes, hint: &FibHint) {
        match stage {
            0 => self.prefetch_near(prefixes),
            1 => {
                let behind = self.lengths.of(&self.ground, prefixes);
                hint.keep(self, behind);
                self.prefetch_found(behind, prefixes);
            }
            // It was led to, and asked for.
            _ if hint.lead.get() != 0 => {}
            _ if !hint.is_about(self) => self.prefetch_entry(prefixes),
            _ => {
                let mut lengths = hint.lengths.get();
                let Some(longest) = lengths.checked_ilog2() else { return };
                if let Some(block) = self.index.candidates(prefixes.hash(longest as usize)).next() {
                    hint.lead.set(block + 1);
                    hint.lead_len.set(longest);
                    self.ground.prefetch(block, Entry::HEADER + prefixes.end(longest as usize));
                    return;
                }
                lengths &= !(1 << longest);
                hint.lengths.set(lengths);
                if let Some(next) = lengths.checked_ilog2() {
                    self.index.prefetch(prefixes.hash(next as usize));
                }
            }
        }
    }

    /// Prefixes in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True without prefixes.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Prefixes that fit.
    pub const fn capacity(&self) -> usize {
        self.config.prefixes_max
    }

    /// By number of a strategy: whether a prefix has it.
    pub fn strategies_in_use(&self) -> [bool; 256] {
        self.strategies.map(|prefixes| prefixes > 0)
    }

    /// Different sets of next hops.
    pub const fn next_hop_sets(&self) -> usize {
        self.hop_sets.len()
    }

    /// Components at which a lookup starts now.
    pub fn middle(&self) -> usize {
        self.lengths.middle()
    }

    /// Octets of address space: what all of it takes when full. Empty it takes almost none.
    pub fn memory_bytes(&self) -> usize {
        self.lengths.memory_bytes()
            + self.index.memory_bytes()
            + self.ground.memory_bytes()
            + self.hop_sets.memory_bytes()
    }

    /// All prefixes in canonical order. Collects and sorts: for control, not for the path of packets.
    pub fn entries(&self) -> Vec<(NameRef<'_>, FibEntry<'_>)> {
        let blocks = (0..self.index.buckets()).flat_map(|bucket| self.index.in_bucket(bucket));
        let mut entries: Vec<_> = blocks
            .map(|block| (NameRef::from_checked(Entry::of(self.ground.bytes(block)).name), self.entry(block)))
            .collect();
        entries.sort_unstable_by_key(|(name, _)| *name);
        entries
    }

    fn insert(
        &mut self,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        hop_set: u32,
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        let entry_len = Entry::HEADER + name.as_bytes().len();
        let block = self.ground.allocate(entry_len, self.lengths.beside(prefixes)).ok_or(FibError::Full)?;
        let added = self.index.insert(prefixes.whole(), block).and_then(|()| {
            let hinted = self.lengths.add(&mut self.ground, prefixes, prefixes.count(), block);
            if hinted.is_err() {
                self.index.remove(prefixes.whole(), block);
            }
            hinted
        });
        match added {
            Ok(epoch) => {
                let components = prefixes.count() as u8;
                Entry { hop_set, strategy, components, epoch, name: name.as_bytes() }
                    .write(self.ground.bytes_mut(block));
                Ok(())
            }
            Err(full) => {
                self.ground.free(block, entry_len);
                Err(full.into())
            }
        }
    }

    #[inline(always)]
    fn prefetch_near(&self, prefixes: &Prefixes) {
        if !self.is_far() {
            self.lengths.prefetch(&self.ground, prefixes);
        }
    }

    /// Asks for the longest prefix's entry where hints lead to it, else for its bucket of the index.
    #[inline(always)]
    fn prefetch_found(&self, behind: Behind, prefixes: &Prefixes) {
        if let Some(block) = behind.lead.checked_sub(1) {
            self.ground.prefetch(block, Entry::HEADER + prefixes.end(behind.lead_len as usize));
        } else if let Some(longest) = behind.lengths.checked_ilog2() {
            self.index.prefetch(prefixes.hash(longest as usize));
        }
    }

    fn prefetch_entry(&self, prefixes: &Prefixes) {
        let Behind { mut lengths, lead: 0, .. } = self.lengths.of(&self.ground, prefixes) else { return };
        let Some(longest) = take_longest(&mut lengths) else { return };
        if let Some(block) = self.index.candidates(prefixes.hash(longest)).next() {
            self.ground.prefetch(block, Entry::HEADER + prefixes.end(longest));
        } else if let Some(next) = take_longest(&mut lengths) {
            self.index.prefetch(prefixes.hash(next));
        }
    }

    #[inline(always)]
    fn find(&self, hash: u64, name: &[u8]) -> Option<u32> {
        self.index.find(hash, |block| Entry::has_name(self.ground.bytes(block), name))
    }

    #[inline(always)]
    fn entry(&self, block: u32) -> FibEntry<'_> {
        let entry = Entry::of(self.ground.bytes(block));
        FibEntry {
            next_hops: self.hop_sets.hops(entry.hop_set),
            strategy: entry.strategy,
            prefix_len: entry.components.into(),
        }
    }

    fn sort(&mut self, next_hops: &[NextHop]) {
        self.sorted.clear();
        self.sorted.extend_from_slice(next_hops);
        self.sorted.sort_unstable();
        self.sorted.dedup_by_key(|hop| hop.face);
        self.sorted.sort_unstable_by_key(|hop| (hop.cost, hop.face));
    }
}

impl core::fmt::Debug for Fib {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fib")
            .field("len", &self.len())
            .field("middle", &self.middle())
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

/// An entry as it stands in its block, little endian:
/// `hop_set u32 | name_len u16 | components u8 | strategy u8 | epoch u8 | name`.
struct Entry<'a> {
    hop_set: u32,
    components: u8,
    strategy: StrategyId,
    epoch: u8,
    name: &'a [u8],
}

impl<'a> Entry<'a> {
    const HEADER: usize = 9;

    #[inline(always)]
    fn of(block: &'a [u8]) -> Self {
        let (header, rest) = block.split_at(Self::HEADER);
        let name_len = usize::from(u16::from_le_bytes([header[4], header[5]]));
        Entry {
            hop_set: u32::from_le_bytes([header[0], header[1], header[2], header[3]]),
            components: header[6],
            strategy: StrategyId(header[7]),
            epoch: header[8],
            name: &rest[..name_len],
        }
    }

    #[inline(always)]
    fn has_name(block: &[u8], name: &[u8]) -> bool {
        let name_len = usize::from(u16::from_le_bytes([block[4], block[5]]));
        match block.get(Self::HEADER..Self::HEADER + name.len()) {
            Some(known) => name_len == name.len() && are_same(known, name),
            None => false,
        }
    }

    /// Octets that it takes.
    const fn len(&self) -> usize {
        Self::HEADER + self.name.len()
    }

    fn write(&self, block: &mut [u8]) {
        block[4..6].copy_from_slice(&(self.name.len() as u16).to_le_bytes());
        block[6] = self.components;
        Self::set_action(block, self.hop_set, self.strategy);
        Self::set_epoch(block, self.epoch);
        block[Self::HEADER..Self::HEADER + self.name.len()].copy_from_slice(self.name);
    }

    fn set_action(block: &mut [u8], hop_set: u32, strategy: StrategyId) {
        block[0..4].copy_from_slice(&hop_set.to_le_bytes());
        block[7] = strategy.0;
    }

    fn set_epoch(block: &mut [u8], epoch: u8) {
        block[8] = epoch;
    }
}
