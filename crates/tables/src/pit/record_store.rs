//! How records are stored: inline in the entry, or one cache line each in a bounded store.

use super::entry::{InlineIn, InlineOut, NONE};
use super::records::{Downstream, InRecord, OutRecord};
use super::slots::FreeList;
use crate::memory::MmapArray;
use crate::{FaceId, Timestamp};
use nw_wire::{NackReason, Token};
use zerocopy::FromZeros;

/// The value of `nack` in an in-record.
const INCOMING: u8 = u8::MAX;

/// An in-record or out-record outside its entry: one cache line. The number of its entry is in
/// `sent` (in-record) or in `token` (out-record), which that kind does not use.
#[derive(FromZeros)]
#[repr(C, align(64))]
pub(super) struct Record {
    pub expiry: u64,
    sent: u64,
    /// 0 if the record is free.
    pub face: u32,
    nonce: u32,
    /// The next record of the chain, slot plus one.
    pub next: u32,
    retx_interval_ms: u16,
    nack: u8,
    token_len: u8,
    token: [u8; 32],
}

const _: () = assert!(size_of::<Record>() == 64);

/// The records that do not fit into their entries, in chains.
pub(super) struct RecordStore {
    pub records: MmapArray<Record>,
    pub free: FreeList,
}

/// The result of searching a chain for a face.
pub(super) enum Found {
    /// The slot of the face's record.
    At(usize),
    /// No record: the last slot of the chain, if any, and the length of the chain.
    Missing { last: Option<usize>, len: usize },
}

impl RecordStore {
    pub fn new(records_max: usize) -> Self {
        let records_max = records_max.min(u32::MAX as usize - 1);
        RecordStore { records: MmapArray::new(records_max), free: FreeList::new(records_max) }
    }

    pub fn len(&self) -> usize {
        self.free.in_use()
    }

    pub fn memory_bytes(&self) -> usize {
        self.records.memory_bytes() + self.free.memory_bytes()
    }

    /// Searches a chain for the record of a face.
    pub fn find(&self, first: u32, face: FaceId) -> Found {
        let (mut link, mut last, mut len) = (first, None, 0);
        while link != NONE {
            let slot = link as usize - 1;
            if self.records[slot].face == face.bits() {
                return Found::At(slot);
            }
            last = Some(slot);
            len += 1;
            link = self.records[slot].next;
        }
        Found::Missing { last, len }
    }

    /// Adds a record after `last`, or as the first of a chain.
    pub fn append(&mut self, first: &mut u32, last: Option<usize>) -> Option<usize> {
        let slot = self.free.alloc()?;
        match last {
            Some(last) => self.records[last].next = slot + 1,
            None => *first = slot + 1,
        }
        let record = &mut self.records[slot as usize];
        record.next = NONE;
        Some(slot as usize)
    }

    /// Frees a record that is in no chain.
    pub fn release(&mut self, slot: u32) {
        self.records[slot as usize].face = 0;
        self.free.free(slot);
    }

    /// Removes the face's record from a chain; returns whether there was one.
    pub fn unlink(&mut self, first: &mut u32, face: FaceId) -> bool {
        let (mut link, mut last) = (*first, None);
        while link != NONE {
            let slot = link as usize - 1;
            let next = self.records[slot].next;
            if self.records[slot].face == face.bits() {
                match last {
                    Some(last) => self.records[last as usize].next = next,
                    None => *first = next,
                }
                self.release(slot as u32);
                return true;
            }
            last = Some(slot as u32);
            link = next;
        }
        false
    }

    /// Removes the records whose face, given by its bits, `is_removed`, and passes each of these
    /// faces to `removed`.
    pub fn unlink_all(
        &mut self,
        first: &mut u32,
        is_removed: impl Fn(u32) -> bool,
        mut removed: impl FnMut(FaceId),
    ) {
        let (mut link, mut last) = (*first, None);
        while link != NONE {
            let slot = link - 1;
            let Record { next, face, .. } = self.records[slot as usize];
            if is_removed(face) {
                match last {
                    Some(last) => self.records[last as usize].next = next,
                    None => *first = next,
                }
                self.release(slot);
                removed(FaceId::from_bits(face));
            } else {
                last = Some(slot);
            }
            link = next;
        }
    }
}

impl Record {
    /// Returns the entry of the record; `None` if the record is free.
    pub fn owner(&self) -> Option<u32> {
        let [a, b, c, d, ..] = self.token;
        let owner =
            if self.nack == INCOMING { self.sent as u32 } else { u32::from_ne_bytes([a, b, c, d]) };
        (self.face != 0).then_some(owner)
    }

    pub fn set_in(&mut self, record: &InRecord, entry: u32) {
        self.sent = u64::from(entry);
        self.nack = INCOMING;
        self.face = record.face.bits();
        self.nonce = record.nonce;
        self.expiry = record.expiry.as_nanos();
        self.token_len = write_token(&mut self.token, record.token.as_bytes());
    }

    pub fn to_in(&self) -> InRecord {
        InRecord {
            face: FaceId::from_bits(self.face),
            nonce: self.nonce,
            expiry: Timestamp::from_nanos(self.expiry),
            token: read_token(&self.token, self.token_len),
        }
    }

    pub fn set_out(&mut self, record: &OutRecord, entry: u32) {
        self.token[..4].copy_from_slice(&entry.to_ne_bytes());
        self.face = record.face.bits();
        self.nonce = record.nonce;
        self.sent = record.sent.as_nanos();
        self.expiry = record.expiry.as_nanos();
        self.nack = nack_code(record.nack);
        self.retx_interval_ms = record.retx_interval_ms;
    }

    pub fn to_out(&self) -> OutRecord {
        OutRecord {
            face: FaceId::from_bits(self.face),
            nonce: self.nonce,
            sent: Timestamp::from_nanos(self.sent),
            expiry: Timestamp::from_nanos(self.expiry),
            nack: nack_of(self.nack),
            retx_interval_ms: self.retx_interval_ms,
        }
    }
}

impl InlineIn {
    /// Returns whether a token fits inline.
    #[inline]
    pub fn holds(token: &Token) -> bool {
        token.to_short().is_some()
    }

    #[inline]
    pub fn set(&mut self, downstream: &Downstream<'_>) {
        self.face = downstream.face.bits();
        self.nonce = downstream.nonce;
        self.expiry = downstream.expiry.as_nanos();
        (self.token, self.token_len) = downstream.token.to_short().unwrap_or_default();
    }

    #[inline(always)]
    pub fn record(&self) -> InRecord {
        InRecord {
            face: FaceId::from_bits(self.face),
            nonce: self.nonce,
            expiry: Timestamp::from_nanos(self.expiry),
            token: Token::from_short(self.token, self.token_len),
        }
    }
}

impl InlineOut {
    #[inline]
    pub fn set(&mut self, record: &OutRecord) {
        self.face = record.face.bits();
        self.nonce = record.nonce;
        self.sent = record.sent.as_nanos();
        self.expiry = record.expiry.as_nanos();
        self.nack = nack_code(record.nack);
        self.retx_interval_ms = record.retx_interval_ms;
    }

    #[inline]
    pub fn record(&self) -> OutRecord {
        OutRecord {
            face: FaceId::from_bits(self.face),
            nonce: self.nonce,
            sent: Timestamp::from_nanos(self.sent),
            expiry: Timestamp::from_nanos(self.expiry),
            nack: nack_of(self.nack),
            retx_interval_ms: self.retx_interval_ms,
        }
    }
}

/// Copies a token. The common lengths (none; 6, this router's; 8, NDN-DPDK's) are separate cases,
/// so the compiler emits fixed-size copies, and omits them if the token is not used.
#[inline(always)]
fn read_token(bytes: &[u8], len: u8) -> Token {
    let bytes = match len {
        0 => return Token::NONE,
        6 => bytes.get(..6),
        8 => bytes.get(..8),
        len => bytes.get(..usize::from(len)),
    };
    bytes.and_then(Token::new).unwrap_or_default()
}

#[inline(always)]
fn write_token(bytes: &mut [u8], token: &[u8]) -> u8 {
    match token.len() {
        0 => {}
        6 => bytes[..6].copy_from_slice(&token[..6]),
        8 => bytes[..8].copy_from_slice(&token[..8]),
        len => bytes[..len].copy_from_slice(token),
    }
    token.len() as u8
}

const fn nack_code(nack: Option<NackReason>) -> u8 {
    match nack {
        None => 0,
        Some(NackReason::None) => 1,
        Some(NackReason::Congestion) => 2,
        Some(NackReason::Duplicate) => 3,
        Some(NackReason::NoRoute) => 4,
    }
}

const fn nack_of(code: u8) -> Option<NackReason> {
    match code {
        1 => Some(NackReason::None),
        2 => Some(NackReason::Congestion),
        3 => Some(NackReason::Duplicate),
        4 => Some(NackReason::NoRoute),
        _ => None,
    }
}
