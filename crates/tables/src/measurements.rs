//! What strategies remember of prefixes: how long each next hop took to answer, whose turn it is.
//!
//! ```text
//! index (hash of a prefix) -> entry (384 octets: identity, expiry, one Record of fixed size)
//!                               `-> the prefix, in a chain of blocks of 64 octets, compared at every match
//! ```
//!
//! An entry lives for as long as whoever uses it says, counted from its last use. Expired ones count as absent; they are taken away by whoever
//! meets them, by a hand that moves on two entries with each insertion, and when room is needed. A full table gives up, among the next sixteen, the
//! entry that would have ended first. Nothing allocates after [`Measurements::new`].

mod record;
#[cfg(test)]
mod tests;

pub use record::{FACES_MAX, FaceRecord, FaceState, RTO_INITIAL, RTO_MAX, RTO_MIN, Record};

use crate::Instant;
use crate::arena::BlockArena;
use crate::fib::StrategyId;
use crate::index::Index;
use crate::memory::Lines;
use nw_name::{NameRef, Prefixes};
use zerocopy::FromZeros;

/// Octets of the longest prefix that is measured. For a longer one there is no record, as for one that finds no room.
pub const PREFIX_LEN_MAX: usize = 512;

/// Prefixes have at most so many components: those whose hashes a packet carries.
const LENGTHS: usize = nw_name::hash::PREFIXES_MAX + 1;
/// Entries that the hand looks at with each insertion.
const SWEPT: usize = 2;
/// Entries among which one is given up when there is no room.
const GIVEN_UP_AMONG: usize = 16;
const NONE: u32 = 0;

#[derive(FromZeros)]
#[repr(C, align(64))]
struct Entry {
    hash: u64,
    /// Nanoseconds; 0 while the entry is free.
    expiry: u64,
    /// Free ones are chained: slot plus one of the next.
    next_free: u32,
    name: u32,
    name_len: u16,
    components: u8,
    /// Number of the strategy whose record it is.
    owner: u8,
    /// How often that number had gone to another strategy.
    epoch: u32,
    record: Record,
}

/// A table of measurements. One per shard.
pub struct Measurements {
    entries: Lines<Entry>,
    names: BlockArena<64>,
    index: Index,
    free: u32,
    /// Entries from here on were never used.
    touched: u32,
    hand: u32,
    /// By number of a strategy: how often it has gone to another.
    epochs: Box<[u32; 256]>,
    /// Entries by number of components, and the set of numbers that occur.
    lengths: [u32; LENGTHS],
    lengths_set: u64,
}

impl Measurements {
    /// Of at most so many prefixes; at least 1. About 540 octets for each, taken as they are first used.
    pub fn new(entries_max: usize) -> Self {
        let entries_max = entries_max.clamp(1, u32::MAX as usize - 1);
        Measurements {
            entries: Lines::sparse(entries_max),
            names: BlockArena::new(entries_max.saturating_mul(2).max(PREFIX_LEN_MAX / 64)),
            index: Index::with_capacity(entries_max),
            free: NONE,
            touched: 0,
            hand: 0,
            epochs: Box::new([0; 256]),
            lengths: [0; LENGTHS],
            lengths_set: 0,
        }
    }

    /// What `owner` remembers of the first `components` of a name, if anything. Its life is not prolonged.
    pub fn peek(
        &self,
        now: Instant,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        components: usize,
    ) -> Option<&Record> {
        let slot = self.find_live(now, owner, name, prefixes, components)?;
        Some(&self.entries[slot as usize].record)
    }

    /// As [`peek`](Self::peek), to be changed.
    pub fn record(
        &mut self,
        now: Instant,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        components: usize,
    ) -> Option<&mut Record> {
        let slot = self.find_live(now, owner, name, prefixes, components)?;
        Some(&mut self.entries[slot as usize].record)
    }

    /// What `owner` remembers of the longest prefix of a name of which it remembers anything.
    pub fn longest(
        &mut self,
        now: Instant,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &Prefixes,
    ) -> Option<&mut Record> {
        let mut lengths = self.lengths_set & (u64::MAX >> (63 - prefixes.kept()));
        while let Some(length) = lengths.checked_ilog2() {
            lengths &= !(1 << length);
            if let Some(slot) = self.find_live(now, owner, name, prefixes, length as usize) {
                return Some(&mut self.entries[slot as usize].record);
            }
        }
        None
    }

    /// As [`record`](Self::record), a new one where there is none; it lives for `lifetime_ms` from now at least.
    ///
    /// `None` for a prefix that is too long, or when there is no room for its name.
    pub fn record_or_new(
        &mut self,
        now: Instant,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        components: usize,
        lifetime_ms: u64,
    ) -> Option<&mut Record> {
        if components > prefixes.kept() {
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

    /// Forgets all that a strategy remembers, as its number goes to another: that has expired now.
    pub fn forget(&mut self, owner: StrategyId) {
        let epoch = &mut self.epochs[usize::from(owner.0)];
        *epoch = epoch.wrapping_add(1);
    }

    /// Prefixes in it, with those that have expired but were not met yet.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True without prefixes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Prefixes there can be.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Octets of address space.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.names.memory_bytes() + self.index.memory_bytes()
    }

    fn find_live(
        &self,
        now: Instant,
        owner: StrategyId,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        components: usize,
    ) -> Option<u32> {
        if components > prefixes.kept() {
            return None;
        }
        let slot = self.find(prefixes.hash(components), prefix_of(name, prefixes, components))?;
        let is_owner = self.entries[slot as usize].owner == owner.0;
        (is_owner && !self.has_expired(slot, now)).then_some(slot)
    }

    fn find(&self, hash: u64, prefix: &[u8]) -> Option<u32> {
        self.index.find(hash, |slot| {
            let entry = &self.entries[slot as usize];
            entry.hash == hash
                && usize::from(entry.name_len) == prefix.len()
                && self.names.holds(entry.name, 0, prefix)
        })
    }

    /// A new entry without owner and record.
    fn insert(&mut self, now: Instant, hash: u64, prefix: &[u8], components: usize) -> Option<u32> {
        if prefix.len() > PREFIX_LEN_MAX {
            return None;
        }
        for _ in 0..SWEPT {
            let slot = self.next_of_hand();
            if self.has_expired(slot, now) {
                self.remove(slot);
            }
        }
        let blocks = BlockArena::<64>::blocks_for(prefix.len());
        let mut tries = GIVEN_UP_AMONG;
        while self.len() == self.capacity() || self.names.capacity() - self.names.in_use() < blocks {
            tries = tries.checked_sub(1)?;
            self.give_one_up(now);
        }
        let name = self.names.store(prefix)?;
        let slot = self.take_slot();
        if self.index.insert(hash, slot).is_err() {
            // Too many of one hash: whoever chose them guessed the hash's key.
            self.names.free(name, prefix.len());
            self.give_slot(slot);
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

    /// Of the next entries the one that ends first; an expired one at once.
    fn give_one_up(&mut self, now: Instant) {
        let mut first = None;
        for _ in 0..GIVEN_UP_AMONG.min(self.touched as usize) {
            let slot = self.next_of_hand();
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

    fn next_of_hand(&mut self) -> u32 {
        let slot = if self.hand < self.touched { self.hand } else { 0 };
        self.hand = slot + 1;
        slot
    }

    fn has_expired(&self, slot: u32, now: Instant) -> bool {
        let entry = &self.entries[slot as usize];
        let is_forgotten = entry.epoch != self.epochs[usize::from(entry.owner)];
        entry.expiry != 0 && (entry.expiry <= now.as_nanos() || is_forgotten)
    }

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
        self.give_slot(slot);
    }

    /// A slot that is free; the caller made sure that there is one.
    fn take_slot(&mut self) -> u32 {
        match self.free {
            NONE => {
                self.touched += 1;
                self.touched - 1
            }
            slot => {
                self.free = self.entries[slot as usize - 1].next_free;
                slot - 1
            }
        }
    }

    fn give_slot(&mut self, slot: u32) {
        self.entries[slot as usize].next_free = self.free;
        self.free = slot + 1;
    }
}

impl core::fmt::Debug for Measurements {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Measurements({} of {})", self.len(), self.capacity())
    }
}

fn prefix_of<'a>(name: NameRef<'a>, prefixes: &Prefixes, components: usize) -> &'a [u8] {
    &name.as_bytes()[..prefixes.end(components)]
}
