//! The pending Interest table: what was asked for, by whom, and who was asked.
//!
//! ```text
//! index (hash of the name without implicit digest) -> entry (128 octets: line 0 identity and timer, line 1 one in- and one out-record)
//!                                                      |-> copy of the Interest: in the entry's line for it, or in a slot of 128, 512, 2048 or 8832 octets
//!                                                      |-> further records, 64 octets each, from one bounded store
//!                                                      `-> timer wheel, linked through the entries
//! ```
//!
//! Nothing allocates after [`Pit::new`] and all memory is taken lazily. Whoever runs out of any of it gets [`PitFull`], and nothing has
//! changed then. An [`EntryRef`] is checked at each use: one whose entry has gone finds nothing, so it may be kept for as long as one
//! likes, and may come back as a PIT token from anyone.

mod entry;
mod faces;
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

pub use faces::FaceScan;
pub use matching::{DEEP_LENGTHS_MAX, DIGESTS_PER_NAME_MAX, MATCHES_MAX, Single};
pub use records::{Asker, InRecord, InRecords, OutRecord, OutRecords, RECORDS_PER_ENTRY_MAX};
pub use reference::{EntryRef, TOKEN_LEN};
pub use shares::{Claim, MANAGEMENT_INS_MAX, SAMPLE_LEN, Shortage};
pub use slots::{INTEREST_CLASSES, INTEREST_LEN_MAX, INTEREST_SHORT_MAX, INTEREST_SLOT_LENS};

use crate::index::{Index, Spot, Vacancy};
use crate::memory::Lines;
use crate::octets::are_same;
use crate::{Ask, FaceId, Instant};
use entry::{Copied, Ended, Entry, InlineIn};
use faces::FaceCounts;
use matching::PrefixLengths;
use nw_name::{HashKey, NameRef, Prefixes};
use nw_wire::Token;
use record_store::RecordStore;
use reference::INDEX_BITS;
use shares::Shares;
use slots::{FreeList, InterestStore};
use wheel::Wheel;

/// Entries one table can have: the token has 26 bits for them.
pub const ENTRIES_MAX: usize = 1 << INDEX_BITS;

/// How large a table may become. Memory is taken as it is first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PitConfig {
    /// Pending Interests; at least 1, at most [`ENTRIES_MAX`]. About 220 octets for each.
    pub entries_max: usize,
    /// In- and out-records beyond the one of each kind that an entry has room for, over all entries. 68 octets each.
    pub records_max: usize,
    /// Slots for copies of Interests of up to [`INTEREST_SLOT_LENS`] octets. An Interest whose class is used up takes a slot of a larger one; one of
    /// up to [`INTEREST_SHORT_MAX`] octets needs none.
    pub interest_slots: [usize; INTEREST_CLASSES],
}

impl PitConfig {
    /// Shares that suit usual traffic: every Interest of up to 128 octets finds a slot, every second of up to 512, every 16th of up to
    /// 2048, every 64th of the largest; one record more for each second entry. At most 0.9 kB an entry when all is in use, 0.2 kB for
    /// short names.
    pub const fn for_entries(entries_max: usize) -> Self {
        PitConfig {
            entries_max,
            records_max: entries_max / 2 + 64,
            interest_slots: [entries_max, entries_max / 2 + 16, entries_max / 16 + 16, entries_max / 64 + 16],
        }
    }
}

impl Default for PitConfig {
    /// A quarter of a million pending Interests.
    fn default() -> Self {
        PitConfig::for_entries(1 << 18)
    }
}

/// Why something did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PitFull {
    /// Entries, records, room for the Interest or a bound against hostile names is used up; or the entry has gone.
    Table,
    /// The face has as many in-records as it may have.
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

/// What else is pending under the hash of something that is not.
struct Beside {
    /// Where it may stand: surely nobody has a hash like it then.
    vacancy: Option<Vacancy>,
    any: bool,
    digests: usize,
}

/// A pending Interest table. One per shard.
pub struct Pit {
    key: HashKey,
    shard: u8,
    entries: Lines<Entry>,
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
    /// Stages of [`prefetch`](Self::prefetch) and [`prefetch_token`](Self::prefetch_token) that help.
    pub const PREFETCH_STAGES: usize = 3;

    /// An empty table. `key` is the one of the name hash, `shard` becomes part of every token. Sizes beyond what [`PitConfig`] allows are
    /// brought back to that.
    pub fn new(key: HashKey, shard: u8, config: PitConfig) -> Self {
        let entries_max = config.entries_max.clamp(1, ENTRIES_MAX);
        Pit {
            key,
            shard,
            entries: Lines::new(entries_max),
            free: FreeList::new(entries_max),
            // With half as many to spare hardly any takes the long way because its bucket is full or others passed it: six in ten thousand of a full table, and
            // one in a hundred without. Each waits for lines that nobody asked for, when it comes and when it goes.
            index: Index::with_capacity(entries_max + entries_max / 2),
            interests: InterestStore::new(entries_max as u32, config.interest_slots),
            records: RecordStore::new(config.records_max),
            wheel: Wheel::new(),
            lengths: PrefixLengths::new(),
            faces: FaceCounts::new(),
            shares: Shares::default(),
        }
    }

    /// The pending Interest that asks exactly this: same name, same CanBePrefix, same MustBeFresh.
    #[inline]
    pub fn find(&self, ask: &Ask<'_>) -> Option<EntryRef> {
        let hash = ask.prefixes.key();
        let found = self.index.find(hash, |slot| self.asks_same(&self.entries[slot as usize], hash, ask));
        found.map(|slot| self.reference(slot))
    }

    /// The pending Interest that asks exactly this, or a new one without records and timer; true when it is new.
    ///
    /// A new one keeps a copy of the whole Interest `wire`, whose name stands at `name` (start and length, octets) and whose nonce's four octets
    /// start at `nonce_start` (0 when there is none).
    ///
    /// # Errors
    /// [`PitFull::Table`] when there is no room; an Interest longer than [`INTEREST_LEN_MAX`] never has any.
    ///
    /// # Panics
    /// When `name` is outside `wire`.
    pub fn find_or_insert(
        &mut self,
        ask: &Ask<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
    ) -> Result<(EntryRef, bool), PitFull> {
        match self.search(ask) {
            Ok(slot) => Ok((self.reference(slot), false)),
            Err(beside) => Ok((self.insert(ask, wire, name, nonce_start, beside)?, true)),
        }
    }

    /// As [`find_or_insert`](Self::find_or_insert); a new one has this first in-record already, and ends when that does.
    ///
    /// # Errors
    /// As there, and [`PitFull::Face`] when the entry would be new and its asker has as many in-records as it may.
    ///
    /// # Panics
    /// As there.
    #[inline(always)]
    pub fn enter(
        &mut self,
        ask: &Ask<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        asker: &Asker<'_>,
    ) -> Result<(EntryRef, bool), PitFull> {
        match self.enter_usual(ask, wire, name, nonce_start, asker) {
            Some(entry) => Ok((entry, true)),
            // By value: what is lent here would have to stand in memory before.
            None => self.enter_any(*ask, wire, name, nonce_start, *asker),
        }
    }

    /// [`enter`](Self::enter) for an Interest that asks for one name, which nobody else asks for, and whose asker's token has room in the entry. `None`
    /// for any other, and nothing has changed.
    #[inline(always)]
    fn enter_usual(
        &mut self,
        ask: &Ask<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        asker: &Asker<'_>,
    ) -> Option<EntryRef> {
        let hash = ask.prefixes.key();
        let vacancy = self.index.vacancy(hash)?;
        if ask.can_be_prefix
            || ask.prefixes.has_digest()
            || !InlineIn::holds(asker.token)
            || asker.face == FaceId::NONE
            || usize::from(name.0) + usize::from(name.1) > wire.len()
        {
            return None;
        }
        let ins = self.faces.ins_below_max(asker.face)?;
        let slot = self.free.take()?;
        let Some(interest) = self.interests.insert(slot, wire) else {
            self.free.give(slot);
            return None;
        };
        *ins += 1;
        let spot = self.index.fill(&vacancy, slot);
        let entries = &mut self.entries[..];
        let entry = &mut entries[slot as usize];
        entry.identify(hash, spot, ask.prefixes.count(), Copied { place: interest, wire, name, nonce_start });
        entry.start(false, ask.must_be_fresh, false, false);
        entry.incoming.set(asker);
        let reference = EntryRef { index: slot, generation: entry.generation, shard: self.shard };
        self.wheel.start(entries, slot, asker.expiry);
        Some(reference)
    }

    #[inline(never)]
    fn enter_any(
        &mut self,
        ask: Ask<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        asker: Asker<'_>,
    ) -> Result<(EntryRef, bool), PitFull> {
        let beside = match self.search(&ask) {
            Ok(slot) => return Ok((self.reference(slot), false)),
            Err(beside) => beside,
        };
        if self.faces.is_full(asker.face) {
            return Err(PitFull::Face);
        }
        let entry = self.insert(&ask, wire, name, nonce_start, beside)?;
        if let Err(full) = self.upsert_in(entry, asker.record()) {
            self.remove(entry);
            return Err(full);
        }
        self.set_expiry(entry, asker.expiry);
        Ok((entry, true))
    }

    /// The slot of what asks the same, or what else is there under this hash.
    #[inline(always)]
    fn search(&self, ask: &Ask<'_>) -> Result<u32, Beside> {
        let hash = ask.prefixes.key();
        let mut beside = Beside { vacancy: self.index.vacancy(hash), any: false, digests: 0 };
        if beside.vacancy.is_some() {
            return Err(beside);
        }
        for slot in self.index.candidates(hash) {
            let entry = &self.entries[slot as usize];
            if entry.hash != hash {
                continue;
            }
            if self.asks_same(entry, hash, ask) {
                return Ok(slot);
            }
            beside.any = true;
            beside.digests += usize::from(entry.has_digest());
        }
        Err(beside)
    }

    #[inline(always)]
    fn insert(
        &mut self,
        ask: &Ask<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        beside: Beside,
    ) -> Result<EntryRef, PitFull> {
        let name_end = usize::from(name.0) + usize::from(name.1);
        assert!(name_end <= wire.len(), "a name ends before its Interest does");
        debug_assert_eq!(&wire[usize::from(name.0)..name_end], ask.name.as_bytes());
        let hash = ask.prefixes.key();
        let key_components = matching::key_components(ask.name, ask.prefixes);
        if ask.prefixes.has_digest() && beside.digests >= DIGESTS_PER_NAME_MAX
            || ask.can_be_prefix && !self.lengths.has_room(key_components)
        {
            return Err(PitFull::Table);
        }
        let slot = self.free.take().ok_or(PitFull::Table)?;
        let Some(interest) = self.interests.insert(slot, wire) else {
            self.free.give(slot);
            return Err(PitFull::Table);
        };
        let spot = match beside.vacancy {
            Some(vacancy) => self.index.fill(&vacancy, slot),
            None if self.index.insert(hash, slot).is_err() => {
                self.interests.remove(interest);
                self.free.give(slot);
                return Err(PitFull::Table);
            }
            None => Spot::NONE,
        };
        if beside.any {
            self.mark_shared(hash);
        }
        if ask.can_be_prefix {
            self.lengths.add(key_components);
        }
        let entry = &mut self.entries[slot as usize];
        entry.identify(hash, spot, key_components, Copied { place: interest, wire, name, nonce_start });
        entry.start(ask.can_be_prefix, ask.must_be_fresh, ask.prefixes.has_digest(), beside.any);
        Ok(EntryRef { index: slot, generation: entry.generation, shard: self.shard })
    }

    /// The entry that a PIT token names, if it is one of ours and the entry is still there.
    #[inline]
    pub fn by_token(&self, token: &[u8]) -> Option<EntryRef> {
        EntryRef::from_token(token).filter(|reference| self.entry(*reference).is_some())
    }

    /// True while the entry is there.
    #[inline]
    pub fn contains(&self, entry: EntryRef) -> bool {
        self.entry(entry).is_some()
    }

    /// The copy of the Interest that made the entry; empty when the entry has gone.
    #[inline]
    pub fn interest(&self, entry: EntryRef) -> &[u8] {
        self.entry(entry).map_or(&[], |e| self.interests.bytes(e.interest, 0, e.interest_len))
    }

    /// The name asked for; `/`, which nobody can ask for, when the entry has gone.
    #[inline]
    pub fn name(&self, entry: EntryRef) -> NameRef<'_> {
        self.entry(entry).map_or(NameRef::ROOT, |e| NameRef::from_checked(self.name_bytes(e)))
    }

    /// Where the name's TLV-VALUE stands in [`interest`](Self::interest): start and length, octets.
    #[inline]
    pub fn name_place(&self, entry: EntryRef) -> (u16, u16) {
        self.entry(entry).map_or((0, 0), |e| (e.name_start, e.name_len))
    }

    /// Where the nonce starts in [`interest`](Self::interest); 0 when there is none.
    #[inline]
    pub fn nonce_start(&self, entry: EntryRef) -> u16 {
        self.entry(entry).map_or(0, |e| e.nonce_start)
    }

    /// The hash the entry is found by: of its name without an implicit digest.
    #[inline]
    pub fn name_hash(&self, entry: EntryRef) -> u64 {
        self.entry(entry).map_or(0, |e| e.hash)
    }

    /// A Data with a longer name may answer.
    #[inline]
    pub fn can_be_prefix(&self, entry: EntryRef) -> bool {
        self.entry(entry).is_some_and(Entry::can_be_prefix)
    }

    /// A cached Data had to be within its FreshnessPeriod.
    #[inline]
    pub fn must_be_fresh(&self, entry: EntryRef) -> bool {
        self.entry(entry).is_some_and(Entry::must_be_fresh)
    }

    /// Suppression state of strategies that keep it per entry, in milliseconds; 0 at first.
    #[inline]
    pub fn retx_interval_ms(&self, entry: EntryRef) -> u16 {
        self.entry(entry).map_or(0, |e| e.retx_interval_ms)
    }

    /// Keeps the suppression state.
    #[inline]
    pub fn set_retx_interval_ms(&mut self, entry: EntryRef, interval_ms: u16) {
        if let Some(e) = self.entry_mut(entry) {
            e.retx_interval_ms = interval_ms;
        }
    }

    /// What the strategy keeps with the entry, whatever it means; 0 at first.
    #[inline]
    pub fn strategy_bits(&self, entry: EntryRef) -> u32 {
        self.entry(entry).map_or(0, |e| e.strategy_bits)
    }

    /// Keeps the strategy's bits.
    #[inline]
    pub fn set_strategy_bits(&mut self, entry: EntryRef, bits: u32) {
        if let Some(e) = self.entry_mut(entry) {
            e.strategy_bits = bits;
        }
    }

    /// FreshnessPeriod in milliseconds of the Data that satisfied the entry, if one did.
    #[inline]
    pub fn satisfied(&self, entry: EntryRef) -> Option<u32> {
        self.entry(entry).and_then(Entry::satisfied)
    }

    /// Remembers whether a Data satisfied the entry, and its FreshnessPeriod in milliseconds.
    #[inline]
    pub fn set_satisfied(&mut self, entry: EntryRef, freshness_ms: Option<u32>) {
        if let Some(e) = self.entry_mut(entry) {
            e.set_satisfied(freshness_ms);
        }
    }

    /// Sets or moves the moment at which [`pop_expired`](Self::pop_expired) gives the entry; a moment that has passed means at once.
    #[inline]
    pub fn set_expiry(&mut self, entry: EntryRef, at: Instant) {
        if self.entry(entry).is_some() {
            self.wheel.arm(&mut self.entries, entry.index, at);
        }
    }

    /// Lets the next [`pop_expired`](Self::pop_expired) give the entry, whatever its moment was.
    #[inline]
    pub fn expire_now(&mut self, entry: EntryRef) {
        self.set_expiry(entry, Instant::START);
    }

    /// The moment set last; `None` when none is, or when the entry has been popped.
    #[inline]
    pub fn expiry(&self, entry: EntryRef) -> Option<Instant> {
        self.entry(entry).filter(|e| e.is_armed()).map(|e| Instant::from_nanos(e.expiry))
    }

    /// When to call [`pop_expired`](Self::pop_expired) next: within 4.2 ms after the first entry's moment; now and then (once in 17 s or
    /// more) earlier, for entries that are far ahead. A moment that has passed: at once.
    #[inline]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.wheel.next_expiry()
    }

    /// Takes one entry whose moment has come off the timer, up to 4.2 ms late and never early. It stays readable until it is
    /// [`remove`](Self::remove)d, and who does not remove it must set another moment.
    ///
    /// `None` means nothing more to do for now; bounded work may be left, as [`next_expiry`](Self::next_expiry) then says.
    #[inline]
    pub fn pop_expired(&mut self, now: Instant) -> Option<EntryRef> {
        let (slot, next) = self.wheel.pop(&mut self.entries, now)?;
        if let Some(next) = next {
            // It is likely to be popped and removed next.
            self.index.prefetch(self.entries[next as usize].hash);
        }
        Some(self.reference(slot))
    }

    /// Removes the entry with all its records; false when it has gone already.
    pub fn remove(&mut self, entry: EntryRef) -> bool {
        if self.entry(entry).is_none() {
            return false;
        }
        self.wheel.disarm(&mut self.entries, entry.index);
        self.drop_records(entry.index);
        let ended = self.entries[entry.index as usize].end();
        self.take_back(entry.index, &ended);
        true
    }

    /// Ends an entry that [`single`](Self::single) found, while nothing has changed since: as [`remove`](Self::remove), sooner.
    #[inline(always)]
    pub fn remove_single(&mut self, single: &Single) {
        debug_assert!(self.entry(single.entry).is_some_and(Entry::is_plain));
        let slot = single.entry.index;
        let entries = &mut self.entries[..];
        self.wheel.disarm(entries, slot);
        let e = &mut entries[slot as usize];
        (e.incoming.face, e.outgoing.face) = (0, 0);
        let ended = e.end();
        self.faces.remove_both(single.asker.face, single.asked);
        self.take_back(slot, &ended);
    }

    /// Takes back what an entry had that has ended.
    #[inline(always)]
    fn take_back(&mut self, slot: u32, ended: &Ended) {
        if !self.index.remove_at(ended.spot, ended.hash, slot) {
            self.index.remove(ended.hash, slot);
        }
        self.interests.remove(ended.interest);
        if let Some(components) = ended.prefix_components {
            self.lengths.remove(components.into());
        }
        self.free.give(slot);
    }

    /// All entries, in the order of their slots. Control use: looks at every slot ever used.
    pub fn entries(&self) -> impl Iterator<Item = EntryRef> + '_ {
        (0..self.free.touched())
            .filter(|slot| self.entries[*slot as usize].is_used())
            .map(|slot| self.reference(slot))
    }

    /// The entries in `slots_max` slots from slot `from` on, and where the next part begins; `None` when that was the last.
    pub fn entries_part(&self, from: u32, slots_max: u32) -> (Vec<EntryRef>, Option<u32>) {
        let end = self.free.touched().min(from.saturating_add(slots_max));
        let used = (from..end).filter(|slot| self.entries[*slot as usize].is_used());
        (used.map(|slot| self.reference(slot)).collect(), (end < self.free.touched()).then_some(end))
    }

    /// Entries in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.free.in_use()
    }

    /// True without entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries there can be.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Records beyond those that entries have room for: how many there are.
    pub fn records_len(&self) -> usize {
        self.records.len()
    }

    /// True when no further record has room.
    pub fn records_full(&self) -> bool {
        self.records.len() == self.records.records.len()
    }

    /// Slots in use for Interests of each of [`INTEREST_SLOT_LENS`].
    pub fn interests_len(&self) -> [usize; INTEREST_CLASSES] {
        self.interests.in_use()
    }

    /// Octets of address space: what resident memory can become.
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

    /// Asks for memory that an Interest, or a Data without token, will need: 0 the index, 1 entries that may be it, 2 their names and
    /// neighbours in the timer. False where later stages have nothing to ask for.
    #[inline(always)]
    pub fn prefetch(&self, stage: usize, prefixes: &Prefixes) -> bool {
        let hash = prefixes.key();
        match stage {
            0 => self.index.prefetch(hash),
            1 if !self.index.may_have(hash) => return false,
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

    /// Asks for what the index has of a name: for a whole batch in a pass of its own, so that many look for their pages at the same time.
    #[inline(always)]
    pub fn prefetch_hash(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Asks for memory that a Data with this token will need: 0 the entry, 1 its copy of the name and its neighbours in the timer; gives the name's hash
    /// then, for [`prefetch_hash`](Self::prefetch_hash) at stage 2.
    #[inline(always)]
    pub fn prefetch_token(&self, stage: usize, token: &Token) -> Option<u64> {
        let reference = EntryRef::of(token)?;
        match stage {
            0 => self.entries.prefetch(reference.index as usize),
            1 => {
                // Of whatever life: its name is compared later.
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
        (entry.is_used() && entry.generation == reference.generation && reference.shard == self.shard)
            .then_some(entry)
    }

    #[inline(always)]
    fn entry_mut(&mut self, reference: EntryRef) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(reference.index as usize)?;
        (entry.is_used() && entry.generation == reference.generation && reference.shard == self.shard)
            .then_some(entry)
    }

    #[inline(always)]
    fn reference(&self, slot: u32) -> EntryRef {
        EntryRef { index: slot, generation: self.entries[slot as usize].generation, shard: self.shard }
    }

    #[inline(always)]
    fn name_bytes(&self, entry: &Entry) -> &[u8] {
        self.interests.bytes(entry.interest, entry.name_start, entry.name_len)
    }

    #[inline(always)]
    fn asks_same(&self, entry: &Entry, hash: u64, ask: &Ask<'_>) -> bool {
        entry.hash == hash
            && entry.can_be_prefix() == ask.can_be_prefix
            && entry.must_be_fresh() == ask.must_be_fresh
            && are_same(self.name_bytes(entry), ask.name.as_bytes())
    }

    #[cold]
    fn mark_shared(&mut self, hash: u64) {
        for slot in self.index.candidates(hash) {
            let entry = &mut self.entries[slot as usize];
            if entry.hash == hash {
                entry.set_shared();
            }
        }
    }
}

impl core::fmt::Debug for Pit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Pit({} of {} entries)", self.len(), self.capacity())
    }
}
