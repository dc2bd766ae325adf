//! Measurements table (NFD's word): what strategies store per prefix, such as round-trip times.
//!
//! ```text
//! index (hash of a prefix) -> entry (384 bytes: identity, expiry, one Record of fixed size)
//!                               `-> the prefix, in 64-byte blocks, compared at every match
//! ```
//!
//! An entry expires a lifetime after its last use. Expired entries count as absent. They are
//! removed by a clock hand that visits two entries per insertion, or when space is needed. If no
//! entry has expired, a full table evicts the one that expires first among the next 16. Nothing
//! allocates after [`Measurements::new`].
//!
//! Main invariant: an entry's record belongs to one strategy (`owner` and `epoch`); another
//! strategy never sees it.

mod record;
#[cfg(test)]
mod tests;

pub use record::{FACES_MAX, FaceRecord, FaceState, RTO_INITIAL, RTO_MAX, RTO_MIN, Record};

use crate::Timestamp;
use crate::arena::BlockArena;
use crate::fib::StrategyId;
use crate::index::Index;
use crate::memory::MmapArray;
use nw_name::{NameRef, PrefixHashes};
use zerocopy::FromZeros;

/// The maximum length of a measured prefix, bytes. Longer prefixes have no record.
pub const PREFIX_LEN_MAX: usize = 512;

/// Prefix lengths 0 to 32 components: those with a hash in the packet's metadata.
const LENGTH_COUNT: usize = nw_name::hash::PREFIXES_MAX + 1;
/// Entries the clock hand visits per insertion.
const SWEEP_PER_INSERT: usize = 2;
/// Entries among which one is evicted when the table is full.
const EVICT_SAMPLE: usize = 16;
const NONE: u32 = 0;

/// The record of one prefix, with its key and its owner.
#[derive(FromZeros)]
#[repr(C, align(64))]
struct Entry {
    hash: u64,
    /// Nanoseconds; 0 if the entry is free.
    expiry: u64,
    /// The next free entry: its slot plus one.
    next_free: u32,
    name: u32,
    name_len: u16,
    components: u8,
    /// The number of the strategy that owns the record.
    owner: u8,
    /// The value of `epochs[owner]` when the record was created.
    epoch: u32,
    record: Record,
}

/// The measurements of one shard.
pub struct Measurements {
    entries: MmapArray<Entry>,
    names: BlockArena<64>,
    index: Index,
    free: u32,
    /// Entries from here on were never used.
    high_water: u32,
    clock_hand: u32,
    /// By strategy number: how often the number was assigned to another strategy.
    epochs: Box<[u32; 256]>,
    /// The number of entries per prefix length, and one bit per length in use.
    lengths: [u32; LENGTH_COUNT],
    lengths_set: u64,
}

impl Measurements {
    /// Creates a table for at most `entries_max` prefixes, at least 1. About 540 bytes per prefix,
    /// taken when first used.
    pub fn new(entries_max: usize) -> Self {
        let entries_max = entries_max.clamp(1, u32::MAX as usize - 1);
        Measurements {
            entries: MmapArray::with_small_pages(entries_max),
            names: BlockArena::new(entries_max.saturating_mul(2).max(PREFIX_LEN_MAX / 64)),
            index: Index::with_capacity(entries_max),
            free: NONE,
            high_water: 0,
            clock_hand: 0,
            epochs: Box::new([0; 256]),
            lengths: [0; LENGTH_COUNT],
            lengths_set: 0,
        }
    }

    /// Returns the record of `owner` for the first `components` components of a name. Does not
    /// extend its lifetime.
    pub fn peek(
        &self,
        now: Timestamp,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        components: usize,
    ) -> Option<&Record> {
        let slot = self.find_live(now, owner, name, prefixes, components)?;
        Some(&self.entries[slot as usize].record)
    }

    /// Returns the same as [`peek`](Self::peek), to be changed.
    pub fn record(
        &mut self,
        now: Timestamp,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        components: usize,
    ) -> Option<&mut Record> {
        let slot = self.find_live(now, owner, name, prefixes, components)?;
        Some(&mut self.entries[slot as usize].record)
    }

    /// Returns the record of `owner` for the longest prefix of a name that has one.
    pub fn longest(
        &mut self,
        now: Timestamp,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
    ) -> Option<&mut Record> {
        let mut lengths = self.lengths_set & (u64::MAX >> (63 - prefixes.stored_len()));
        while let Some(length) = lengths.checked_ilog2() {
            lengths &= !(1 << length);
            if let Some(slot) = self.find_live(now, owner, name, prefixes, length as usize) {
                return Some(&mut self.entries[slot as usize].record);
            }
        }
        None
    }

    /// Returns the same as [`record`](Self::record), or a new record; extends its lifetime to at
    /// least `lifetime_ms` from now.
    ///
    /// `None` if the prefix is too long or there is no space for its name.
    pub fn record_or_new(
        &mut self,
        now: Timestamp,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        components: usize,
        lifetime_ms: u64,
    ) -> Option<&mut Record> {
        if components > prefixes.stored_len() {
            return None;
        }
        let (hash, prefix) = (prefixes.hash(components), prefix_of(name, prefixes, components));
        let slot = match self.find(hash, prefix) {
            Some(slot) => slot,
            None => self.insert(now, hash, prefix, components)?,
        };
        let epoch = self.epochs[usize::from(owner.0)];
        let entry = &mut self.entries[slot as usize];
        if entry.expiry <= now.as_nanos() || (entry.owner, entry.epoch) != (owner.0, epoch) {
            entry.record = Record::new_zeroed();
            (entry.owner, entry.epoch) = (owner.0, epoch);
            entry.expiry = 0;
        }
        entry.expiry = entry.expiry.max(now.plus_millis(lifetime_ms).as_nanos()).max(1);
        Some(&mut entry.record)
    }

    /// Expires all records of a strategy, as its number is assigned to another one.
    pub fn expire_owner(&mut self, owner: StrategyId) {
        let epoch = &mut self.epochs[usize::from(owner.0)];
        *epoch = epoch.wrapping_add(1);
    }

    /// Returns the number of prefixes, including those that have expired but are not removed yet.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of prefixes.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns the bytes of address space reserved.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.names.memory_bytes() + self.index.memory_bytes()
    }

    /// Returns the slot of a record of `owner` that has not expired.
    fn find_live(
        &self,
        now: Timestamp,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        components: usize,
    ) -> Option<u32> {
        if components > prefixes.stored_len() {
            return None;
        }
        let slot = self.find(prefixes.hash(components), prefix_of(name, prefixes, components))?;
        let is_owner = self.entries[slot as usize].owner == owner.0;
        (is_owner && !self.has_expired(slot, now)).then_some(slot)
    }

    /// Returns the slot of a prefix, expired or not.
    fn find(&self, hash: u64, prefix: &[u8]) -> Option<u32> {
        self.index.find(hash, |slot| {
            let entry = &self.entries[slot as usize];
            entry.hash == hash
                && usize::from(entry.name_len) == prefix.len()
                && self.names.eq_at(entry.name, 0, prefix)
        })
    }

    /// Adds an entry without owner and record.
    fn insert(
        &mut self,
        now: Timestamp,
        hash: u64,
        prefix: &[u8],
        components: usize,
    ) -> Option<u32> {
        if prefix.len() > PREFIX_LEN_MAX {
            return None;
        }
        for _ in 0..SWEEP_PER_INSERT {
            let slot = self.advance_hand();
            if self.has_expired(slot, now) {
                self.remove(slot);
            }
        }
        let blocks = BlockArena::<64>::blocks_for(prefix.len());
        let mut tries = EVICT_SAMPLE;
        while self.len() == self.capacity() || self.names.capacity() - self.names.in_use() < blocks
        {
            tries = tries.checked_sub(1)?;
            self.evict_one(now);
        }
        let name = self.names.store(prefix)?;
        let slot = self.alloc_slot();
        if self.index.insert(hash, slot).is_err() {
            // Too many prefixes with one hash: a peer has the hash key.
            self.names.free(name, prefix.len());
            self.free_slot(slot);
            return None;
        }
        let entry = &mut self.entries[slot as usize];
        (entry.hash, entry.name, entry.name_len) = (hash, name, prefix.len() as u16);
        entry.components = components as u8;
        entry.expiry = 0;
        self.lengths[components] += 1;
        self.lengths_set |= 1 << components;
        Some(slot)
    }

    /// Removes the entry that expires first among the next ones, or the first expired one.
    fn evict_one(&mut self, now: Timestamp) {
        let mut first = None;
        for _ in 0..EVICT_SAMPLE.min(self.high_water as usize) {
            let slot = self.advance_hand();
            if self.has_expired(slot, now) {
                return self.remove(slot);
            }
            let expiry = self.entries[slot as usize].expiry;
            if expiry != 0 && first.is_none_or(|(earliest, _)| expiry < earliest) {
                first = Some((expiry, slot));
            }
        }
        if let Some((_, slot)) = first {
            self.remove(slot);
        }
    }

    /// Returns the slot under the clock hand and moves the hand on.
    fn advance_hand(&mut self) -> u32 {
        let slot = if self.clock_hand < self.high_water { self.clock_hand } else { 0 };
        self.clock_hand = slot + 1;
        slot
    }

    /// Returns whether an entry is in use and has expired.
    fn has_expired(&self, slot: u32, now: Timestamp) -> bool {
        let entry = &self.entries[slot as usize];
        let is_forgotten = entry.epoch != self.epochs[usize::from(entry.owner)];
        entry.expiry != 0 && (entry.expiry <= now.as_nanos() || is_forgotten)
    }

    /// Frees an entry with its name.
    fn remove(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.expiry = 0;
        let (hash, name, len) = (entry.hash, entry.name, usize::from(entry.name_len));
        let components = usize::from(entry.components);
        self.index.remove(hash, slot);
        self.names.free(name, len);
        self.lengths[components] -= 1;
        if self.lengths[components] == 0 {
            self.lengths_set &= !(1 << components);
        }
        self.free_slot(slot);
    }

    /// Takes a free slot, which must exist.
    fn alloc_slot(&mut self) -> u32 {
        match self.free {
            NONE => {
                self.high_water += 1;
                self.high_water - 1
            }
            slot => {
                self.free = self.entries[slot as usize - 1].next_free;
                slot - 1
            }
        }
    }

    fn free_slot(&mut self, slot: u32) {
        self.entries[slot as usize].next_free = self.free;
        self.free = slot + 1;
    }
}

impl core::fmt::Debug for Measurements {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Measurements({} of {})", self.len(), self.capacity())
    }
}

fn prefix_of<'a>(name: NameRef<'a>, prefixes: &PrefixHashes, components: usize) -> &'a [u8] {
    &name.as_bytes()[..prefixes.end(components)]
}
