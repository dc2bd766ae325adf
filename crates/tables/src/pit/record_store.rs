//! Records as they are kept: in the entry, or one cache line each in a bounded store.

use super::entry::{InlineIn, InlineOut, NONE};
use super::records::{Asker, InRecord, OutRecord};
use super::slots::FreeList;
use crate::memory::Lines;
use crate::{FaceId, Instant};
use nw_wire::{NackReason, Token};
use zerocopy::FromZeros;

/// In `nack`: it is an in-record.
const INCOMING: u8 = u8::MAX;

/// A record of either kind outside its entry: one cache line. An in-record has the number of its entry in `sent`, an out-record in `token`, which
/// it does not need otherwise.
#[derive(FromZeros)]
#[repr(C, align(64))]
pub(super) struct Record {
    pub expiry: u64,
    sent: u64,
    /// 0 in a free record.
    pub face: u32,
    nonce: u32,
    /// Place plus one of the next.
    pub next: u32,
    retx_interval_ms: u16,
    nack: u8,
    token_len: u8,
    token: [u8; 32],
}

const _: () = assert!(size_of::<Record>() == 64);

/// Records that do not fit their entries.
pub(super) struct RecordStore {
    pub records: Lines<Record>,
    pub free: FreeList,
}

/// How the search of a chain ended.
pub(super) enum Found {
    /// At this place.
    At(usize),
    /// Not there; the last of so many is at the place given, if there is any.
    Nowhere { last: Option<usize>, len: usize },
}

impl RecordStore {
    pub fn new(records_max: usize) -> Self {
        let records_max = records_max.min(u32::MAX as usize - 1);
        RecordStore { records: Lines::new(records_max), free: FreeList::new(records_max) }
    }

    pub fn len(&self) -> usize {
        self.free.in_use()
    }

    pub fn memory_bytes(&self) -> usize {
        self.records.memory_bytes() + self.free.memory_bytes()
    }

    pub fn find(&self, first: u32, face: FaceId) -> Found {
        let (mut link, mut last, mut len) = (first, None, 0);
        while link != NONE {
            let place = link as usize - 1;
            if self.records[place].face == face.bits() {
                return Found::At(place);
            }
            last = Some(place);
            len += 1;
            link = self.records[place].next;
        }
        Found::Nowhere { last, len }
    }

    /// Adds an empty record behind `last`, or as the first of a chain.
    pub fn append(&mut self, first: &mut u32, last: Option<usize>) -> Option<usize> {
        let place = self.free.take()?;
        match last {
            Some(last) => self.records[last].next = place + 1,
            None => *first = place + 1,
        }
        let record = &mut self.records[place as usize];
        record.next = NONE;
        Some(place as usize)
    }

    /// Takes back a record that is in no chain any more.
    pub fn give(&mut self, place: u32) {
        self.records[place as usize].face = 0;
        self.free.give(place);
    }

    /// Takes the face's record out of a chain.
    pub fn unlink(&mut self, first: &mut u32, face: FaceId) -> bool {
        let (mut link, mut last) = (*first, None);
        while link != NONE {
            let place = link as usize - 1;
            let next = self.records[place].next;
            if self.records[place].face == face.bits() {
                match last {
                    Some(last) => self.records[last as usize].next = next,
                    None => *first = next,
                }
                self.give(place as u32);
                return true;
            }
            last = Some(place as u32);
            link = next;
        }
        false
    }
}

impl Record {
    /// The entry it belongs to, if it is in use.
    pub fn owner(&self) -> Option<u32> {
        let [a, b, c, d, ..] = self.token;
        let owner = if self.nack == INCOMING { self.sent as u32 } else { u32::from_ne_bytes([a, b, c, d]) };
        (self.face != 0).then_some(owner)
    }

    pub fn set_in(&mut self, record: &InRecord, entry: u32) {
        self.sent = u64::from(entry);
        self.nack = INCOMING;
        self.face = record.face.bits();
        self.nonce = record.nonce;
        self.expiry = record.expiry.as_nanos();
        self.token_len = put_token(&mut self.token, record.token.as_bytes());
    }

    pub fn to_in(&self) -> InRecord {
        InRecord {
            face: FaceId::from_bits(self.face),
            nonce: self.nonce,
            expiry: Instant::from_nanos(self.expiry),
            token: token_of(&self.token, self.token_len),
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
            sent: Instant::from_nanos(self.sent),
            expiry: Instant::from_nanos(self.expiry),
            nack: nack_of(self.nack),
            retx_interval_ms: self.retx_interval_ms,
        }
    }
}

impl InlineIn {
    #[inline]
    pub fn holds(token: &Token) -> bool {
        token.to_short().is_some()
    }

    #[inline]
    pub fn set(&mut self, asker: &Asker<'_>) {
        self.face = asker.face.bits();
        self.nonce = asker.nonce;
        self.expiry = asker.expiry.as_nanos();
        (self.token, self.token_len) = asker.token.to_short().unwrap_or_default();
    }

    #[inline(always)]
    pub fn record(&self) -> InRecord {
        InRecord {
            face: FaceId::from_bits(self.face),
            nonce: self.nonce,
            expiry: Instant::from_nanos(self.expiry),
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
            sent: Instant::from_nanos(self.sent),
            expiry: Instant::from_nanos(self.expiry),
            nack: nack_of(self.nack),
            retx_interval_ms: self.retx_interval_ms,
        }
    }
}

/// Lengths that are usual: none, our own, NDN-DPDK's. Copies of a length the compiler knows are two instructions; also, it leaves them out where
/// nobody looks at the token.
#[inline(always)]
fn token_of(octets: &[u8], len: u8) -> Token {
    let octets = match len {
        0 => return Token::NONE,
        6 => octets.get(..6),
        8 => octets.get(..8),
        len => octets.get(..usize::from(len)),
    };
    octets.and_then(Token::new).unwrap_or_default()
}

#[inline(always)]
fn put_token(octets: &mut [u8], token: &[u8]) -> u8 {
    match token.len() {
        0 => {}
        6 => octets[..6].copy_from_slice(&token[..6]),
        8 => octets[..8].copy_from_slice(&token[..8]),
        len => octets[..len].copy_from_slice(token),
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
