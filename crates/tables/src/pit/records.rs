//! In-records (downstreams of an entry) and out-records (upstreams).
//!
//! The first of each kind is inline in the entry, further ones are in a chain of slots from one
//! bounded store. Iteration order: the inline record, then the chain, oldest first. When the inline
//! record is removed, the next new record takes its place.
//!
//! Main invariant: an entry has at most one record of each kind per face.

use super::entry::{Entry, InlineIn, InlineOut, NONE};
use super::record_store::{Found, Record};
use super::{EntryRef, Pit, PitFull};
use crate::memory::MmapArray;
use crate::{FaceId, Timestamp};
use nw_wire::{NackReason, Token};

/// The maximum number of records of one kind per entry beyond the inline one; bounds the search for
/// a face's record.
pub const RECORDS_PER_ENTRY_MAX: usize = 1024;

/// A downstream of an entry: a face from which the Interest arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InRecord {
    /// The face.
    pub face: FaceId,
    /// The nonce of its last Interest.
    pub nonce: u32,
    /// When that Interest expires.
    pub expiry: Timestamp,
    /// The PIT token to return with the Data.
    pub token: Token,
}

/// A downstream that sends an Interest: like [`InRecord`], without a copy of the token.
#[derive(Clone, Copy, Debug)]
pub struct Downstream<'a> {
    /// The face.
    pub face: FaceId,
    /// The nonce of the Interest.
    pub nonce: u32,
    /// When the Interest expires.
    pub expiry: Timestamp,
    /// The PIT token to return with the Data.
    pub token: &'a Token,
}

impl Downstream<'_> {
    /// Returns the in-record to be stored.
    pub const fn record(&self) -> InRecord {
        InRecord { face: self.face, nonce: self.nonce, expiry: self.expiry, token: *self.token }
    }
}

impl InRecord {
    #[inline(always)]
    const fn downstream(&self) -> Downstream<'_> {
        Downstream { face: self.face, nonce: self.nonce, expiry: self.expiry, token: &self.token }
    }
}

/// An upstream of an entry: a face to which the Interest was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutRecord {
    /// The face.
    pub face: FaceId,
    /// The nonce of the last Interest sent.
    pub nonce: u32,
    /// When that Interest was sent.
    pub sent: Timestamp,
    /// When that Interest expires.
    pub expiry: Timestamp,
    /// The Nack received from this upstream.
    pub nack: Option<NackReason>,
    /// Retransmission suppression interval per upstream, milliseconds.
    pub retx_interval_ms: u16,
}

impl Pit {
    /// Adds or replaces the in-record of a face; returns whether it is new.
    ///
    /// # Errors
    /// [`PitFull::Face`] if the face has its maximum number; [`PitFull::Table`] if there is no
    /// space or the entry no longer exists. An existing record of the face is unchanged then.
    #[inline]
    pub fn upsert_in(&mut self, entry: EntryRef, record: InRecord) -> Result<bool, PitFull> {
        assert!(record.face != FaceId::NONE, "a record needs a face");
        // Usual: the first in-record of the entry.
        if let Some(e) = live_entry(&mut self.entries, self.shard, entry)
            && e.incoming.face == 0
            && e.in_chain == NONE
            && InlineIn::holds(&record.token)
        {
            if self.faces.is_full(record.face) {
                return Err(PitFull::Face);
            }
            e.incoming.set(&record.downstream());
            self.faces.add_in(record.face);
            return Ok(true);
        }
        self.upsert_in_slow(entry, &record)
    }

    /// The slow form of [`upsert_in`](Self::upsert_in).
    #[inline(never)]
    fn upsert_in_slow(&mut self, entry: EntryRef, record: &InRecord) -> Result<bool, PitFull> {
        let Pit { entries, records, faces, .. } = self;
        let e = live_entry(entries, self.shard, entry).ok_or(PitFull::Table)?;
        let fits_inline = InlineIn::holds(&record.token);
        let was_inline = e.incoming.face == record.face.bits();
        if was_inline && fits_inline {
            e.incoming.set(&record.downstream());
            return Ok(false);
        }
        let (last, len) = match records.find(e.in_chain, record.face) {
            Found::At(slot) => {
                records.records[slot].set_in(record, entry.index);
                return Ok(false);
            }
            Found::Missing { last, len } => (last, len),
        };
        if !was_inline && faces.is_full(record.face) {
            return Err(PitFull::Face);
        }
        if fits_inline && e.incoming.face == 0 {
            e.incoming.set(&record.downstream());
        } else {
            if len >= RECORDS_PER_ENTRY_MAX {
                return Err(PitFull::Table);
            }
            let slot = records.append(&mut e.in_chain, last).ok_or(PitFull::Table)?;
            records.records[slot].set_in(record, entry.index);
            if was_inline {
                // The new token is too long for the inline record.
                e.incoming.face = 0;
            }
        }
        if !was_inline {
            faces.add_in(record.face);
        }
        Ok(!was_inline)
    }

    /// Returns the in-records of an entry; none if it no longer exists.
    #[inline]
    pub fn in_records(&self, entry: EntryRef) -> InRecords<'_> {
        let (inline, link) = match self.entry(entry) {
            Some(e) => ((e.incoming.face != 0).then_some(&e.incoming), e.in_chain),
            None => (None, NONE),
        };
        InRecords { inline, link, records: &self.records.records }
    }

    /// Returns the in-record of a face.
    #[inline]
    pub fn in_record(&self, entry: EntryRef, face: FaceId) -> Option<InRecord> {
        let e = self.entry(entry)?;
        if e.incoming.face == face.bits() && face != FaceId::NONE {
            return Some(e.incoming.record());
        }
        match self.records.find(e.in_chain, face) {
            Found::At(slot) => Some(self.records.records[slot].to_in()),
            Found::Missing { .. } => None,
        }
    }

    /// Removes the in-record of a face; returns whether it existed.
    pub fn remove_in(&mut self, entry: EntryRef, face: FaceId) -> bool {
        let Pit { entries, records, faces, .. } = self;
        let Some(e) = live_entry(entries, self.shard, entry).filter(|_| face != FaceId::NONE)
        else {
            return false;
        };
        let removed = if e.incoming.face == face.bits() {
            e.incoming.face = 0;
            true
        } else {
            records.unlink(&mut e.in_chain, face)
        };
        if removed {
            faces.remove_in(face);
        }
        removed
    }

    /// The fast form of [`upsert_out`](Self::upsert_out), for the first out-record of an entry that
    /// [`get_or_insert`](Self::get_or_insert) created since the last change.
    #[inline(always)]
    pub fn add_first_out(&mut self, entry: EntryRef, record: &OutRecord) {
        assert!(record.face != FaceId::NONE, "a record needs a face");
        debug_assert!(
            self.entry(entry).is_some_and(|e| e.outgoing.face == 0 && e.out_chain == NONE)
        );
        self.entries[entry.index as usize].outgoing.set(record);
        self.faces.add_out(record.face);
    }

    /// Adds or replaces the out-record of a face; returns whether it is new.
    ///
    /// # Errors
    /// [`PitFull::Table`] if there is no space or the entry no longer exists.
    #[inline(always)]
    pub fn upsert_out(&mut self, entry: EntryRef, record: OutRecord) -> Result<bool, PitFull> {
        assert!(record.face != FaceId::NONE, "a record needs a face");
        // Usual: the first out-record of the entry.
        if let Some(e) = live_entry(&mut self.entries, self.shard, entry)
            && e.outgoing.face == 0
            && e.out_chain == NONE
        {
            e.outgoing.set(&record);
            self.faces.add_out(record.face);
            return Ok(true);
        }
        self.upsert_out_slow(entry, &record)
    }

    /// The slow form of [`upsert_out`](Self::upsert_out).
    #[inline(never)]
    fn upsert_out_slow(&mut self, entry: EntryRef, record: &OutRecord) -> Result<bool, PitFull> {
        let Pit { entries, records, faces, .. } = self;
        let e = live_entry(entries, self.shard, entry).ok_or(PitFull::Table)?;
        if e.outgoing.face == record.face.bits() {
            e.outgoing.set(record);
            return Ok(false);
        }
        let (last, len) = match records.find(e.out_chain, record.face) {
            Found::At(slot) => {
                records.records[slot].set_out(record, entry.index);
                return Ok(false);
            }
            Found::Missing { last, len } => (last, len),
        };
        if e.outgoing.face == 0 {
            e.outgoing.set(record);
        } else {
            if len >= RECORDS_PER_ENTRY_MAX {
                return Err(PitFull::Table);
            }
            let slot = records.append(&mut e.out_chain, last).ok_or(PitFull::Table)?;
            records.records[slot].set_out(record, entry.index);
        }
        faces.add_out(record.face);
        Ok(true)
    }

    /// Returns the out-records of an entry; none if it no longer exists.
    #[inline]
    pub fn out_records(&self, entry: EntryRef) -> OutRecords<'_> {
        let (inline, link) = match self.entry(entry) {
            Some(e) => ((e.outgoing.face != 0).then_some(&e.outgoing), e.out_chain),
            None => (None, NONE),
        };
        OutRecords { inline, link, records: &self.records.records }
    }

    /// Returns the out-record of a face.
    #[inline]
    pub fn out_record(&self, entry: EntryRef, face: FaceId) -> Option<OutRecord> {
        let e = self.entry(entry)?;
        if e.outgoing.face == face.bits() && face != FaceId::NONE {
            return Some(e.outgoing.record());
        }
        match self.records.find(e.out_chain, face) {
            Found::At(slot) => Some(self.records.records[slot].to_out()),
            Found::Missing { .. } => None,
        }
    }

    /// Changes the out-record of a face (all fields but the face); returns whether it exists.
    pub fn update_out(
        &mut self,
        entry: EntryRef,
        face: FaceId,
        change: impl FnOnce(&mut OutRecord),
    ) -> bool {
        let Some(mut record) = self.out_record(entry, face) else { return false };
        change(&mut record);
        // Replacing an existing record needs no space.
        self.upsert_out(entry, OutRecord { face, ..record }).is_ok()
    }

    /// Removes the out-record of a face; returns whether it existed.
    pub fn remove_out(&mut self, entry: EntryRef, face: FaceId) -> bool {
        let Pit { entries, records, faces, .. } = self;
        let Some(e) = live_entry(entries, self.shard, entry).filter(|_| face != FaceId::NONE)
        else {
            return false;
        };
        let removed = if e.outgoing.face == face.bits() {
            e.outgoing.face = 0;
            true
        } else {
            records.unlink(&mut e.out_chain, face)
        };
        if removed {
            faces.remove_out(face);
        }
        removed
    }

    /// Removes all records of an entry.
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
        let mut link = core::mem::take(&mut e.in_chain);
        while link != NONE {
            let Record { face, next, .. } = records.records[link as usize - 1];
            faces.remove_in(FaceId::from_bits(face));
            records.release(link - 1);
            link = next;
        }
        let mut link = core::mem::take(&mut e.out_chain);
        while link != NONE {
            let Record { face, next, .. } = records.records[link as usize - 1];
            faces.remove_out(FaceId::from_bits(face));
            records.release(link - 1);
            link = next;
        }
    }
}

/// Like `Pit::entry_mut`, for functions that borrow other parts of the table too.
#[inline(always)]
fn live_entry(
    entries: &mut MmapArray<Entry>,
    shard: u8,
    reference: EntryRef,
) -> Option<&mut Entry> {
    let entry = entries.get_mut(reference.index as usize)?;
    (entry.is_used() && entry.generation == reference.generation && reference.shard == shard)
        .then_some(entry)
}

/// Iterator over the in-records of an entry: see [`Pit::in_records`].
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

/// Iterator over the out-records of an entry: see [`Pit::out_records`].
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
