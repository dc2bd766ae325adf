//! In-records (who asked) and out-records (who was asked).
//!
//! The first of each kind stands in the entry, further ones in a chain of places from one bounded store. Order: the one in the entry,
//! then the chain, oldest first; a record that leaves the entry makes room for one that comes later.

use super::entry::{Entry, InlineIn, InlineOut, NONE};
use super::record_store::{Found, Record};
use super::{EntryRef, Pit, PitFull};
use crate::memory::Lines;
use crate::{FaceId, Instant};
use nw_wire::{NackReason, Token};

/// Records of one kind that one entry may have beyond the one in it: bounds the search for a face's record.
pub const RECORDS_PER_ENTRY_MAX: usize = 1024;

/// A face that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InRecord {
    /// Who.
    pub face: FaceId,
    /// Nonce of its last Interest.
    pub nonce: u32,
    /// When that Interest ends.
    pub expiry: Instant,
    /// To be given back with the answer.
    pub token: Token,
}

/// A face that asks: as [`InRecord`], without a copy of its token.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// Who.
    pub face: FaceId,
    /// Nonce of its Interest.
    pub nonce: u32,
    /// When that Interest ends.
    pub expiry: Instant,
    /// To be given back with the answer.
    pub token: &'a Token,
}

impl Asker<'_> {
    /// To be kept.
    pub const fn record(&self) -> InRecord {
        InRecord { face: self.face, nonce: self.nonce, expiry: self.expiry, token: *self.token }
    }
}

impl InRecord {
    #[inline(always)]
    const fn asker(&self) -> Asker<'_> {
        Asker { face: self.face, nonce: self.nonce, expiry: self.expiry, token: &self.token }
    }
}

/// A face that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutRecord {
    /// Who.
    pub face: FaceId,
    /// Nonce of the last Interest sent to it.
    pub nonce: u32,
    /// When that was sent.
    pub sent: Instant,
    /// When that Interest ends.
    pub expiry: Instant,
    /// The Nack it answered with.
    pub nack: Option<NackReason>,
    /// Suppression state of strategies that keep it per upstream, in milliseconds.
    pub retx_interval_ms: u16,
}

impl Pit {
    /// Adds the in-record of a face or replaces it; true when it is new.
    ///
    /// # Errors
    /// [`PitFull::Face`] when the face has as many as it may; [`PitFull::Table`] when there is no room or the entry has gone. The face's
    /// former record, if any, is as it was.
    #[inline]
    pub fn upsert_in(&mut self, entry: EntryRef, record: InRecord) -> Result<bool, PitFull> {
        assert!(record.face != FaceId::NONE, "a record is some face's");
        // The usual case: it is the entry's first.
        if let Some(e) = live(&mut self.entries, self.shard, entry)
            && e.incoming.face == 0
            && e.more_in == NONE
            && InlineIn::holds(&record.token)
        {
            if self.faces.is_full(record.face) {
                return Err(PitFull::Face);
            }
            e.incoming.set(&record.asker());
            self.faces.add_in(record.face);
            return Ok(true);
        }
        self.upsert_further_in(entry, &record)
    }

    #[inline(never)]
    fn upsert_further_in(&mut self, entry: EntryRef, record: &InRecord) -> Result<bool, PitFull> {
        let Pit { entries, records, faces, .. } = self;
        let e = live(entries, self.shard, entry).ok_or(PitFull::Table)?;
        let fits = InlineIn::holds(&record.token);
        let was_inline = e.incoming.face == record.face.bits();
        if was_inline && fits {
            e.incoming.set(&record.asker());
            return Ok(false);
        }
        let (last, len) = match records.find(e.more_in, record.face) {
            Found::At(place) => {
                records.records[place].set_in(record, entry.index);
                return Ok(false);
            }
            Found::Nowhere { last, len } => (last, len),
        };
        if !was_inline && faces.is_full(record.face) {
            return Err(PitFull::Face);
        }
        if fits && e.incoming.face == 0 {
            e.incoming.set(&record.asker());
        } else {
            if len >= RECORDS_PER_ENTRY_MAX {
                return Err(PitFull::Table);
            }
            let place = records.append(&mut e.more_in, last).ok_or(PitFull::Table)?;
            records.records[place].set_in(record, entry.index);
            if was_inline {
                // Its token got longer than the entry has room for.
                e.incoming.face = 0;
            }
        }
        if !was_inline {
            faces.add_in(record.face);
        }
        Ok(!was_inline)
    }

    /// The entry's in-records; none when it has gone.
    #[inline]
    pub fn in_records(&self, entry: EntryRef) -> InRecords<'_> {
        let (inline, link) = match self.entry(entry) {
            Some(e) => ((e.incoming.face != 0).then_some(&e.incoming), e.more_in),
            None => (None, NONE),
        };
        InRecords { inline, link, records: &self.records.records }
    }

    /// A face's in-record.
    #[inline]
    pub fn in_record(&self, entry: EntryRef, face: FaceId) -> Option<InRecord> {
        let e = self.entry(entry)?;
        if e.incoming.face == face.bits() && face != FaceId::NONE {
            return Some(e.incoming.record());
        }
        match self.records.find(e.more_in, face) {
            Found::At(place) => Some(self.records.records[place].to_in()),
            Found::Nowhere { .. } => None,
        }
    }

    /// Removes a face's in-record; false when there is none.
    pub fn remove_in(&mut self, entry: EntryRef, face: FaceId) -> bool {
        let Pit { entries, records, faces, .. } = self;
        let Some(e) = live(entries, self.shard, entry).filter(|_| face != FaceId::NONE) else { return false };
        let removed = if e.incoming.face == face.bits() {
            e.incoming.face = 0;
            true
        } else {
            records.unlink(&mut e.more_in, face)
        };
        if removed {
            faces.remove_in(face);
        }
        removed
    }

    /// The first out-record of an entry that [`enter`](Self::enter) made, while nothing has changed since: as [`upsert_out`](Self::upsert_out), sooner.
    #[inline(always)]
    pub fn add_first_out(&mut self, entry: EntryRef, record: &OutRecord) {
        assert!(record.face != FaceId::NONE, "a record is some face's");
        debug_assert!(self.entry(entry).is_some_and(|e| e.outgoing.face == 0 && e.more_out == NONE));
        self.entries[entry.index as usize].outgoing.set(record);
        self.faces.add_out(record.face);
    }

    /// Adds the out-record of a face or replaces it; true when it is new.
    ///
    /// # Errors
    /// [`PitFull::Table`] when there is no room or the entry has gone.
    #[inline(always)]
    pub fn upsert_out(&mut self, entry: EntryRef, record: OutRecord) -> Result<bool, PitFull> {
        assert!(record.face != FaceId::NONE, "a record is some face's");
        // The usual case: it is the entry's first.
        if let Some(e) = live(&mut self.entries, self.shard, entry)
            && e.outgoing.face == 0
            && e.more_out == NONE
        {
            e.outgoing.set(&record);
            self.faces.add_out(record.face);
            return Ok(true);
        }
        self.upsert_further_out(entry, &record)
    }

    #[inline(never)]
    fn upsert_further_out(&mut self, entry: EntryRef, record: &OutRecord) -> Result<bool, PitFull> {
        let Pit { entries, records, faces, .. } = self;
        let e = live(entries, self.shard, entry).ok_or(PitFull::Table)?;
        if e.outgoing.face == record.face.bits() {
            e.outgoing.set(record);
            return Ok(false);
        }
        let (last, len) = match records.find(e.more_out, record.face) {
            Found::At(place) => {
                records.records[place].set_out(record, entry.index);
                return Ok(false);
            }
            Found::Nowhere { last, len } => (last, len),
        };
        if e.outgoing.face == 0 {
            e.outgoing.set(record);
        } else {
            if len >= RECORDS_PER_ENTRY_MAX {
                return Err(PitFull::Table);
            }
            let place = records.append(&mut e.more_out, last).ok_or(PitFull::Table)?;
            records.records[place].set_out(record, entry.index);
        }
        faces.add_out(record.face);
        Ok(true)
    }

    /// The entry's out-records; none when it has gone.
    #[inline]
    pub fn out_records(&self, entry: EntryRef) -> OutRecords<'_> {
        let (inline, link) = match self.entry(entry) {
            Some(e) => ((e.outgoing.face != 0).then_some(&e.outgoing), e.more_out),
            None => (None, NONE),
        };
        OutRecords { inline, link, records: &self.records.records }
    }

    /// A face's out-record.
    #[inline]
    pub fn out_record(&self, entry: EntryRef, face: FaceId) -> Option<OutRecord> {
        let e = self.entry(entry)?;
        if e.outgoing.face == face.bits() && face != FaceId::NONE {
            return Some(e.outgoing.record());
        }
        match self.records.find(e.more_out, face) {
            Found::At(place) => Some(self.records.records[place].to_out()),
            Found::Nowhere { .. } => None,
        }
    }

    /// Changes a face's out-record, all but its face; false when there is none.
    pub fn update_out(&mut self, entry: EntryRef, face: FaceId, change: impl FnOnce(&mut OutRecord)) -> bool {
        let Some(mut record) = self.out_record(entry, face) else { return false };
        change(&mut record);
        // A record that is there is replaced in place, which needs no room.
        self.upsert_out(entry, OutRecord { face, ..record }).is_ok()
    }

    /// Removes a face's out-record; false when there is none.
    pub fn remove_out(&mut self, entry: EntryRef, face: FaceId) -> bool {
        let Pit { entries, records, faces, .. } = self;
        let Some(e) = live(entries, self.shard, entry).filter(|_| face != FaceId::NONE) else { return false };
        let removed = if e.outgoing.face == face.bits() {
            e.outgoing.face = 0;
            true
        } else {
            records.unlink(&mut e.more_out, face)
        };
        if removed {
            faces.remove_out(face);
        }
        removed
    }

    /// Ends all records of an entry that ends.
    #[inline]
    pub(super) fn drop_records(&mut self, slot: u32) {
        let Pit { entries, records, faces, .. } = self;
        let e = &mut entries[slot as usize];
        if e.incoming.face != 0 {
            faces.remove_in(FaceId::from_bits(core::mem::take(&mut e.incoming.face)));
        }
        if e.outgoing.face != 0 {
            faces.remove_out(FaceId::from_bits(core::mem::take(&mut e.outgoing.face)));
        }
        let mut link = core::mem::take(&mut e.more_in);
        while link != NONE {
            let Record { face, next, .. } = records.records[link as usize - 1];
            faces.remove_in(FaceId::from_bits(face));
            records.give(link - 1);
            link = next;
        }
        let mut link = core::mem::take(&mut e.more_out);
        while link != NONE {
            let Record { face, next, .. } = records.records[link as usize - 1];
            faces.remove_out(FaceId::from_bits(face));
            records.give(link - 1);
            link = next;
        }
    }
}

/// As `Pit::entry_mut`, where other parts of the table are borrowed too.
#[inline(always)]
fn live(entries: &mut Lines<Entry>, shard: u8, reference: EntryRef) -> Option<&mut Entry> {
    let entry = entries.get_mut(reference.index as usize)?;
    (entry.is_used() && entry.generation == reference.generation && reference.shard == shard).then_some(entry)
}

/// In-records of one entry, see [`Pit::in_records`].
#[derive(Clone)]
pub struct InRecords<'a> {
    inline: Option<&'a InlineIn>,
    link: u32,
    records: &'a [Record],
}

impl Iterator for InRecords<'_> {
    type Item = InRecord;

    #[inline]
    fn next(&mut self) -> Option<InRecord> {
        if let Some(inline) = self.inline.take() {
            return Some(inline.record());
        }
        let record = self.records.get((self.link as usize).checked_sub(1)?)?;
        self.link = record.next;
        Some(record.to_in())
    }
}

/// Out-records of one entry, see [`Pit::out_records`].
#[derive(Clone)]
pub struct OutRecords<'a> {
    inline: Option<&'a InlineOut>,
    link: u32,
    records: &'a [Record],
}

impl Iterator for OutRecords<'_> {
    type Item = OutRecord;

    #[inline]
    fn next(&mut self) -> Option<OutRecord> {
        if let Some(inline) = self.inline.take() {
            return Some(inline.record());
        }
        let record = self.records.get((self.link as usize).checked_sub(1)?)?;
        self.link = record.next;
        Some(record.to_out())
    }
}
