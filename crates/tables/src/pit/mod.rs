//! Pending Interest Table: the Interests that wait for Data, with their downstreams (in-records)
//! and upstreams (out-records).
//!
//! ```text
//! index (hash of the name without implicit digest)
//!   -> entry (128 bytes: line 0 key and timer, line 1 one in-record and one out-record)
//!        |-> copy of the Interest: in the entry's own 64-byte line (`slots`),
//!        |                         or in a slot of 128, 512, 2048 or 8832 bytes
//!        |-> further records, 64 bytes each, from one bounded store (`records`, `record_store`)
//!        `-> timer wheel, linked through the entries (`wheel`)
//! ```
//!
//! `matching` finds what a Data satisfies; `faces` counts records per face; `shares` selects which
//! entry is removed when the table is full.
//!
//! Main invariant: an operation that fails with [`PitFull`] has changed nothing. Nothing allocates
//! after [`Pit::new`]; memory is taken when first touched. An [`EntryRef`] is checked at each use:
//! if its entry was removed it finds nothing. So it may be kept for any time, and may arrive as a
//! PIT token from any peer.

mod entry;
mod faces;
mod insert_fast;
mod matching;
mod record_store;
mod records;
mod reference;
mod shares;
mod slots;
mod wheel;

#[cfg(test)]
mod matching_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod shares_tests;
#[cfg(test)]
mod tests;

pub use matching::{DEEP_LENGTHS_MAX, DIGESTS_PER_NAME_MAX, MATCHES_MAX, SingleMatch};
pub use records::{Downstream, InRecord, InRecords, OutRecord, OutRecords, RECORDS_PER_ENTRY_MAX};
pub use reference::{EntryRef, TOKEN_LEN};
pub use shares::{Claim, MANAGEMENT_INS_MAX, SAMPLE_LEN, Shortage};
pub use slots::{INTEREST_CLASSES, INTEREST_LEN_MAX, INTEREST_SHORT_MAX, INTEREST_SLOT_LENS};

use crate::bytes;
use crate::index::{BucketPos, Index, VacantEntry};
use crate::memory::MmapArray;
use crate::{InterestKey, Timestamp};
use entry::{Entry, RemovedEntry, StoredInterest};
use faces::FaceCounts;
use matching::PrefixLengths;
use nw_name::{HashKey, NameRef, PrefixHashes};
use nw_wire::Token;
use record_store::RecordStore;
use reference::INDEX_BITS;
use shares::Shares;
use slots::{FreeList, InterestStore};
use wheel::Wheel;

/// The maximum number of entries of a table: a token has 26 bits for the entry.
pub const ENTRIES_MAX: usize = 1 << INDEX_BITS;

/// Capacity of a table. Memory is taken when first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitConfig {
    /// The maximum number of entries, 1 to [`ENTRIES_MAX`]; about 220 bytes each.
    pub entries_max: usize,
    /// The maximum number of in- and out-records beyond the first of each kind per entry, over all
    /// entries; 68 bytes each.
    pub records_max: usize,
    /// The number of slots of each size [`INTEREST_SLOT_LENS`] for copies of Interests. If a size
    /// is used up, the next larger one is used. Interests of up to [`INTEREST_SHORT_MAX`] bytes
    /// need no slot.
    pub interest_slots: [usize; INTEREST_CLASSES],
}

impl PitConfig {
    /// Returns a configuration for typical traffic: a slot for every Interest of up to 128 bytes,
    /// for every second of up to 512, every 16th of up to 2048, and every 64th of the largest; one
    /// further record per two entries. At most 0.9 kB per entry, 0.2 kB with short names.
    pub const fn for_entries(entries_max: usize) -> Self {
        PitConfig {
            entries_max,
            records_max: entries_max / 2 + 64,
            interest_slots: [
                entries_max,
                entries_max / 2 + 16,
                entries_max / 16 + 16,
                entries_max / 64 + 16,
            ],
        }
    }
}

impl Default for PitConfig {
    /// A quarter of a million pending Interests.
    fn default() -> Self {
        PitConfig::for_entries(1 << 18)
    }
}

/// Why an Interest or a record was not inserted; the table is unchanged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PitFull {
    /// No entry, record, Interest slot or space in the index is free, a bound against hostile names
    /// is reached, or the entry no longer exists.
    Table,
    /// The face has its maximum number of in-records.
    Face,
}

impl core::fmt::Display for PitFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            PitFull::Table => "pending Interest table full",
            PitFull::Face => "pending Interest table full for this face",
        })
    }
}

impl core::error::Error for PitFull {}

/// The other entries with the same hash as a key that was not found.
struct HashNeighbours {
    /// A free slot in the index; `Some` only if certainly no entry has this hash.
    vacant: Option<VacantEntry>,
    /// Whether there are any.
    exist: bool,
    /// How many of them have an implicit digest.
    digest_count: usize,
}

/// The pending Interest table of one shard.
pub struct Pit {
    key: HashKey,
    shard: u8,
    entries: MmapArray<Entry>,
    free: FreeList,
    index: Index,
    interests: InterestStore,
    records: RecordStore,
    wheel: Wheel,
    lengths: PrefixLengths,
    faces: FaceCounts,
    shares: Shares,
}

impl Pit {
    /// The number of stages of [`prefetch`](Self::prefetch) and
    /// [`prefetch_token`](Self::prefetch_token).
    pub const PREFETCH_STAGES: usize = 3;

    /// Creates an empty table. `key` is the key of the name hash; `shard` becomes part of every
    /// token. Sizes out of the range of [`PitConfig`] are clamped.
    pub fn new(key: HashKey, shard: u8, config: PitConfig) -> Self {
        let entries_max = config.entries_max.clamp(1, ENTRIES_MAX);
        Pit {
            key,
            shard,
            entries: MmapArray::new(entries_max),
            free: FreeList::new(entries_max),
            // With 50 % spare capacity only 0.06 % of the insertions and removals in a full table
            // miss the fast path because a bucket is full or overflowed; without, 1 %. Each miss
            // waits for cache lines that were not prefetched.
            index: Index::with_capacity(entries_max + entries_max / 2),
            interests: InterestStore::new(entries_max as u32, config.interest_slots),
            records: RecordStore::new(config.records_max),
            wheel: Wheel::new(),
            lengths: PrefixLengths::new(),
            faces: FaceCounts::new(),
            shares: Shares::default(),
        }
    }

    /// Returns the entry with this key: same name, CanBePrefix and MustBeFresh.
    #[inline]
    pub fn find(&self, key: &InterestKey<'_>) -> Option<EntryRef> {
        let hash = key.prefixes.lookup_hash();
        let found =
            self.index.find(hash, |slot| self.matches_key(&self.entries[slot as usize], hash, key));
        found.map(|slot| self.reference(slot))
    }

    /// Returns the entry with this key, or a new one without records and timer. The flag is true if
    /// it is new.
    ///
    /// A new entry stores a copy of the whole Interest `wire`. `name` is the start and length in
    /// bytes of the name's TLV-VALUE in it, `nonce_start` the offset of the nonce's 4 bytes (0 if
    /// there is none).
    ///
    /// # Errors
    /// [`PitFull::Table`] if there is no space; always for Interests longer than
    /// [`INTEREST_LEN_MAX`].
    ///
    /// # Panics
    /// When `name` is outside `wire`.
    pub fn get_or_insert_bare(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
    ) -> Result<(EntryRef, bool), PitFull> {
        match self.search(key) {
            Ok(slot) => Ok((self.reference(slot), false)),
            Err(neighbours) => {
                Ok((self.insert_new(key, wire, name, nonce_start, neighbours)?, true))
            }
        }
    }

    /// Returns the entry with this key, or a new one with `downstream` as its first in-record,
    /// which expires with that record. The flag is true if it is new. Parameters as in
    /// [`get_or_insert_bare`](Self::get_or_insert_bare).
    ///
    /// # Errors
    /// [`PitFull::Table`] if there is no space; [`PitFull::Face`] if the entry would be new and the
    /// face has its maximum number of in-records.
    ///
    /// # Panics
    /// When `name` is outside `wire`.
    #[inline(always)]
    pub fn get_or_insert(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        downstream: &Downstream<'_>,
    ) -> Result<(EntryRef, bool), PitFull> {
        match self.insert_fast(key, wire, name, nonce_start, downstream) {
            Some(entry) => Ok((entry, true)),
            // Passed by value so the hot path keeps these fields in registers.
            None => self.insert_slow(*key, wire, name, nonce_start, *downstream),
        }
    }

    /// The slow form of [`get_or_insert`](Self::get_or_insert).
    #[inline(never)]
    fn insert_slow(
        &mut self,
        key: InterestKey<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        downstream: Downstream<'_>,
    ) -> Result<(EntryRef, bool), PitFull> {
        let neighbours = match self.search(&key) {
            Ok(slot) => return Ok((self.reference(slot), false)),
            Err(neighbours) => neighbours,
        };
        if self.faces.is_full(downstream.face) {
            return Err(PitFull::Face);
        }
        let entry = self.insert_new(&key, wire, name, nonce_start, neighbours)?;
        if let Err(full) = self.upsert_in(entry, downstream.record()) {
            self.remove(entry);
            return Err(full);
        }
        self.set_expiry(entry, downstream.expiry);
        Ok((entry, true))
    }

    /// Returns the slot of the entry with this key, or the other entries under its hash.
    #[inline(always)]
    fn search(&self, key: &InterestKey<'_>) -> Result<u32, HashNeighbours> {
        let hash = key.prefixes.lookup_hash();
        let mut neighbours =
            HashNeighbours { vacant: self.index.vacant_entry(hash), exist: false, digest_count: 0 };
        if neighbours.vacant.is_some() {
            return Err(neighbours);
        }
        for slot in self.index.candidates(hash) {
            let entry = &self.entries[slot as usize];
            if entry.hash != hash {
                continue;
            }
            if self.matches_key(entry, hash, key) {
                return Ok(slot);
            }
            neighbours.exist = true;
            neighbours.digest_count += usize::from(entry.has_digest());
        }
        Err(neighbours)
    }

    /// Inserts an entry with a key that does not exist, without records and timer.
    #[inline(always)]
    fn insert_new(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        neighbours: HashNeighbours,
    ) -> Result<EntryRef, PitFull> {
        let name_end = usize::from(name.0) + usize::from(name.1);
        assert!(name_end <= wire.len(), "the name is inside the Interest");
        debug_assert_eq!(&wire[usize::from(name.0)..name_end], key.name.as_bytes());
        let hash = key.prefixes.lookup_hash();
        let key_components = matching::key_components(key.name, key.prefixes);
        if key.prefixes.has_digest() && neighbours.digest_count >= DIGESTS_PER_NAME_MAX
            || key.can_be_prefix && !self.lengths.has_capacity(key_components)
        {
            return Err(PitFull::Table);
        }
        let slot = self.free.alloc().ok_or(PitFull::Table)?;
        let Some(interest) = self.interests.insert(slot, wire) else {
            self.free.free(slot);
            return Err(PitFull::Table);
        };
        let index_pos = match neighbours.vacant {
            Some(vacant) => self.index.insert_at(&vacant, slot),
            None if self.index.insert(hash, slot).is_err() => {
                self.interests.remove(interest);
                self.free.free(slot);
                return Err(PitFull::Table);
            }
            None => BucketPos::NONE,
        };
        if neighbours.exist {
            self.mark_hash_siblings(hash);
        }
        if key.can_be_prefix {
            self.lengths.add(key_components);
        }
        let entry = &mut self.entries[slot as usize];
        entry.set_key(
            hash,
            index_pos,
            key_components,
            StoredInterest { line: interest, wire, name, nonce_start },
        );
        entry.activate(
            key.can_be_prefix,
            key.must_be_fresh,
            key.prefixes.has_digest(),
            neighbours.exist,
        );
        Ok(EntryRef { index: slot, generation: entry.generation, shard: self.shard })
    }

    /// Returns the entry of a PIT token, if this table issued the token and the entry still exists.
    #[inline]
    pub fn by_token(&self, token: &[u8]) -> Option<EntryRef> {
        EntryRef::from_token(token).filter(|reference| self.entry(*reference).is_some())
    }

    /// Returns whether the entry still exists.
    #[inline]
    pub fn contains(&self, entry: EntryRef) -> bool {
        self.entry(entry).is_some()
    }

    /// Returns the copy of the Interest that created the entry; empty if the entry no longer
    /// exists.
    #[inline]
    pub fn interest(&self, entry: EntryRef) -> &[u8] {
        self.entry(entry).map_or(&[], |e| self.interests.bytes(e.interest, 0, e.interest_len))
    }

    /// Returns the name of the entry; `/`, which no entry has, if it no longer exists.
    #[inline]
    pub fn name(&self, entry: EntryRef) -> NameRef<'_> {
        self.entry(entry).map_or(NameRef::ROOT, |e| NameRef::from_checked(self.name_bytes(e)))
    }

    /// Returns the start and length in bytes of the name's TLV-VALUE in
    /// [`interest`](Self::interest).
    #[inline]
    pub fn name_span(&self, entry: EntryRef) -> (u16, u16) {
        self.entry(entry).map_or((0, 0), |e| (e.name_start, e.name_len))
    }

    /// Returns the offset of the nonce in [`interest`](Self::interest); 0 if there is none.
    #[inline]
    pub fn nonce_start(&self, entry: EntryRef) -> u16 {
        self.entry(entry).map_or(0, |e| e.nonce_start)
    }

    /// Returns the hash the entry is indexed under: of its name without an implicit digest.
    #[inline]
    pub fn name_hash(&self, entry: EntryRef) -> u64 {
        self.entry(entry).map_or(0, |e| e.hash)
    }

    /// Returns CanBePrefix of the entry: Data with a longer name may satisfy it.
    #[inline]
    pub fn can_be_prefix(&self, entry: EntryRef) -> bool {
        self.entry(entry).is_some_and(Entry::can_be_prefix)
    }

    /// Returns MustBeFresh of the entry.
    #[inline]
    pub fn must_be_fresh(&self, entry: EntryRef) -> bool {
        self.entry(entry).is_some_and(Entry::must_be_fresh)
    }

    /// Returns the retransmission suppression interval of the entry, milliseconds; 0 at first.
    #[inline]
    pub fn retx_interval_ms(&self, entry: EntryRef) -> u16 {
        self.entry(entry).map_or(0, |e| e.retx_interval_ms)
    }

    /// Sets the retransmission suppression interval, milliseconds.
    #[inline]
    pub fn set_retx_interval_ms(&mut self, entry: EntryRef, interval_ms: u16) {
        if let Some(e) = self.entry_mut(entry) {
            e.retx_interval_ms = interval_ms;
        }
    }

    /// Returns the 32 bits that the strategy may use as it likes; 0 at first.
    #[inline]
    pub fn strategy_bits(&self, entry: EntryRef) -> u32 {
        self.entry(entry).map_or(0, |e| e.strategy_bits)
    }

    /// Sets the strategy's bits.
    #[inline]
    pub fn set_strategy_bits(&mut self, entry: EntryRef, bits: u32) {
        if let Some(e) = self.entry_mut(entry) {
            e.strategy_bits = bits;
        }
    }

    /// Returns the FreshnessPeriod in milliseconds of the Data that satisfied the entry, if any.
    #[inline]
    pub fn satisfied(&self, entry: EntryRef) -> Option<u32> {
        self.entry(entry).and_then(Entry::satisfied)
    }

    /// Sets the FreshnessPeriod in milliseconds of the Data that satisfied the entry; `None` if
    /// none did.
    #[inline]
    pub fn set_satisfied(&mut self, entry: EntryRef, freshness_ms: Option<u32>) {
        if let Some(e) = self.entry_mut(entry) {
            e.set_satisfied(freshness_ms);
        }
    }

    /// Sets the time at which [`pop_expired`](Self::pop_expired) returns the entry; a time in the
    /// past means at once.
    #[inline]
    pub fn set_expiry(&mut self, entry: EntryRef, at: Timestamp) {
        if self.entry(entry).is_some() {
            self.wheel.arm(&mut self.entries, entry.index, at);
        }
    }

    /// Returns the time set last; `None` if none is set or the entry was popped.
    #[inline]
    pub fn expiry(&self, entry: EntryRef) -> Option<Timestamp> {
        self.entry(entry).filter(|e| e.is_armed()).map(|e| Timestamp::from_nanos(e.expiry))
    }

    /// Returns when to call [`pop_expired`](Self::pop_expired) next: at most 4.2 ms after the first
    /// expiry. Entries that expire more than 17 s ahead may cause earlier calls. A time in the past
    /// means at once.
    #[inline]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.wheel.next_expiry()
    }

    /// Removes one expired entry from the timer: never early and at most 4.2 ms late. The entry
    /// stays readable; the caller must [`remove`](Self::remove) it or set a new expiry.
    ///
    /// `None` means nothing more for now. Bounded work may remain;
    /// [`next_expiry`](Self::next_expiry) is in the past then.
    #[inline]
    pub fn pop_expired(&mut self, now: Timestamp) -> Option<EntryRef> {
        let (slot, next) = self.wheel.pop(&mut self.entries, now)?;
        if let Some(next) = next {
            // It is likely to be popped and removed next.
            self.index.prefetch(self.entries[next as usize].hash);
        }
        Some(self.reference(slot))
    }

    /// Removes the entry with all its records; returns whether it existed.
    pub fn remove(&mut self, entry: EntryRef) -> bool {
        if self.entry(entry).is_none() {
            return false;
        }
        self.wheel.disarm(&mut self.entries, entry.index);
        self.drop_records(entry.index);
        let removed = self.entries[entry.index as usize].release();
        self.free_entry(entry.index, &removed);
        true
    }

    /// The fast form of [`remove`](Self::remove), for an entry that [`match_one`](Self::match_one)
    /// returned since the last change.
    #[inline(always)]
    pub fn remove_match(&mut self, single: &SingleMatch) {
        debug_assert!(self.entry(single.entry).is_some_and(Entry::is_simple));
        let slot = single.entry.index;
        let entries = &mut self.entries[..];
        self.wheel.disarm(entries, slot);
        let e = &mut entries[slot as usize];
        (e.incoming.face, e.outgoing.face) = (0, 0);
        let removed = e.release();
        self.faces.remove_both(single.downstream.face, single.upstream);
        self.free_entry(slot, &removed);
    }

    /// Frees the index entry, the Interest and the slot of a removed entry.
    #[inline(always)]
    fn free_entry(&mut self, slot: u32, removed: &RemovedEntry) {
        if !self.index.remove_at(removed.index_pos, removed.hash, slot) {
            self.index.remove(removed.hash, slot);
        }
        self.interests.remove(removed.interest);
        if let Some(components) = removed.prefix_components {
            self.lengths.remove(components.into());
        }
        self.free.free(slot);
    }

    /// Iterates over all entries by slot. For management: visits every slot ever used.
    pub fn entries(&self) -> impl Iterator<Item = EntryRef> + '_ {
        (0..self.free.high_water())
            .filter(|slot| self.entries[*slot as usize].is_used())
            .map(|slot| self.reference(slot))
    }

    /// Returns the entries in `slots_max` slots from slot `from` on, and where the next part begins
    /// (`None` at the end).
    pub fn entries_part(&self, from: u32, slots_max: u32) -> (Vec<EntryRef>, Option<u32>) {
        let end = self.free.high_water().min(from.saturating_add(slots_max));
        let used = (from..end).filter(|slot| self.entries[*slot as usize].is_used());
        (
            used.map(|slot| self.reference(slot)).collect(),
            (end < self.free.high_water()).then_some(end),
        )
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.free.in_use()
    }

    /// Returns whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of entries.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of records in the record store.
    pub fn records_len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether the record store is full.
    pub fn records_full(&self) -> bool {
        self.records.len() == self.records.records.len()
    }

    /// Returns the number of used slots of each size [`INTEREST_SLOT_LENS`].
    #[cfg(test)]
    pub fn interests_len(&self) -> [usize; INTEREST_CLASSES] {
        self.interests.in_use()
    }

    /// Returns the bytes of address space reserved: resident memory when full.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
            + self.free.memory_bytes()
            + self.index.memory_bytes()
            + self.interests.memory_bytes()
            + self.records.memory_bytes()
            + self.wheel.memory_bytes()
            + self.lengths.memory_bytes()
            + self.faces.memory_bytes()
            + self.shares.memory_bytes()
    }

    /// Prefetches what an Interest, or a Data without token, will read. Stage 0: the index; 1:
    /// candidate entries; 2: their names and timer neighbours. Returns false if later stages have
    /// nothing to prefetch.
    #[inline(always)]
    pub fn prefetch(&self, stage: usize, prefixes: &PrefixHashes) -> bool {
        let hash = prefixes.lookup_hash();
        match stage {
            0 => self.index.prefetch(hash),
            1 if !self.index.may_contain(hash) => return false,
            1 => self.index.candidates(hash).for_each(|slot| self.entries.prefetch(slot as usize)),
            2 => {
                let entries = self.index.candidates(hash).map(|slot| &self.entries[slot as usize]);
                for entry in entries.filter(|entry| entry.hash == hash) {
                    self.prefetch_name(entry);
                    self.wheel.prefetch(&self.entries, entry);
                }
            }
            _ => {}
        }
        true
    }

    /// Prefetches the index bucket of a name. Called for a whole batch in a pass of its own, so
    /// that page walks overlap.
    #[inline(always)]
    pub fn prefetch_hash(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Prefetches what a Data with this token will read. Stage 0: the entry; 1: its name and timer
    /// neighbours. Stage 1 returns the name's hash, for [`prefetch_hash`](Self::prefetch_hash) in
    /// stage 2.
    #[inline(always)]
    pub fn prefetch_token(&self, stage: usize, token: &Token) -> Option<u64> {
        let reference = EntryRef::of(token)?;
        match stage {
            0 => self.entries.prefetch(reference.index as usize),
            1 => {
                // The generation is not checked here; the names are compared later.
                let entry = self.entries.get(reference.index as usize)?;
                self.prefetch_name(entry);
                self.wheel.prefetch(&self.entries, entry);
                return Some(entry.hash);
            }
            _ => {}
        }
        None
    }

    #[inline]
    fn prefetch_name(&self, entry: &Entry) {
        self.interests.prefetch(entry.interest, entry.name_start, entry.name_len);
    }

    #[inline(always)]
    fn entry(&self, reference: EntryRef) -> Option<&Entry> {
        let entry = self.entries.get(reference.index as usize)?;
        (entry.is_used()
            && entry.generation == reference.generation
            && reference.shard == self.shard)
            .then_some(entry)
    }

    #[inline(always)]
    fn entry_mut(&mut self, reference: EntryRef) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(reference.index as usize)?;
        (entry.is_used()
            && entry.generation == reference.generation
            && reference.shard == self.shard)
            .then_some(entry)
    }

    #[inline(always)]
    fn reference(&self, slot: u32) -> EntryRef {
        EntryRef {
            index: slot,
            generation: self.entries[slot as usize].generation,
            shard: self.shard,
        }
    }

    #[inline(always)]
    fn name_bytes(&self, entry: &Entry) -> &[u8] {
        self.interests.bytes(entry.interest, entry.name_start, entry.name_len)
    }

    /// Returns whether an entry has this key and hash.
    #[inline(always)]
    fn matches_key(&self, entry: &Entry, hash: u64, key: &InterestKey<'_>) -> bool {
        entry.hash == hash
            && entry.can_be_prefix() == key.can_be_prefix
            && entry.must_be_fresh() == key.must_be_fresh
            && bytes::eq(self.name_bytes(entry), key.name.as_bytes())
    }

    /// Marks all entries of a hash as not alone under it.
    #[cold]
    fn mark_hash_siblings(&mut self, hash: u64) {
        for slot in self.index.candidates(hash) {
            let entry = &mut self.entries[slot as usize];
            if entry.hash == hash {
                entry.set_hash_siblings();
            }
        }
    }
}

impl core::fmt::Debug for Pit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Pit({} of {} entries)", self.len(), self.capacity())
    }
}
