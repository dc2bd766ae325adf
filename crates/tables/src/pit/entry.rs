//! A PIT entry: two cache lines.

use super::reference::GENERATION_MASK;
use crate::index::BucketPos;
use zerocopy::FromZeros;

/// Slots and links are stored plus one, so that zeroed memory means "none".
pub(super) const NONE: u32 = 0;

const USED: u16 = 1;
const CAN_BE_PREFIX: u16 = 2;
const MUST_BE_FRESH: u16 = 4;
/// The last component is an implicit digest: the entry is indexed under the name before it.
const DIGEST: u16 = 8;
/// Other entries are, or were, indexed under the same hash.
const HASH_SIBLINGS: u16 = 16;
const SATISFIED: u16 = 32;

/// A pending Interest. Line 0: key and timer; line 1: the first in-record and the first out-record.
#[derive(FromZeros)]
#[repr(C, align(64))]
pub(super) struct Entry {
    /// The hash of the name without an implicit digest.
    pub hash: u64,
    /// The time of the timer, nanoseconds.
    pub expiry: u64,
    /// Timer list: the next entry, slot plus one.
    pub next: u32,
    /// Timer list: the previous entry, slot plus one, or the list itself (see `wheel`).
    pub prev: u32,
    /// The first line of the copy of the Interest in the `InterestStore`.
    pub interest: u32,
    pub interest_len: u16,
    /// The start of the name's TLV-VALUE in the Interest.
    pub name_start: u16,
    pub name_len: u16,
    /// The start of the nonce in the Interest; 0 if there is none.
    pub nonce_start: u16,
    /// The number of leading components of the name that `hash` covers.
    pub key_components: u16,
    /// Incremented when the entry is removed: see [`EntryRef`](super::EntryRef).
    pub generation: u16,
    flags: u16,
    /// Retransmission suppression interval of the entry.
    pub retx_interval_ms: u16,
    /// The first further in-record, slot plus one.
    pub in_chain: u32,
    /// The first further out-record, slot plus one.
    pub out_chain: u32,
    /// FreshnessPeriod of the Data that satisfied the entry, if the flag SATISFIED is set.
    freshness_ms: u32,
    /// State of the strategy: see [`Pit::strategy_bits`](super::Pit::strategy_bits).
    pub strategy_bits: u32,
    /// The entry's position in the index, if the fast path inserted it.
    pub index_pos: BucketPos,

    /// The first in-record.
    pub incoming: InlineIn,
    /// The first out-record.
    pub outgoing: InlineOut,
}

/// An in-record with a token of at most 8 bytes.
#[derive(FromZeros)]
#[repr(C)]
pub(super) struct InlineIn {
    pub expiry: u64,
    pub token: [u8; 8],
    /// 0 if there is no record.
    pub face: u32,
    pub nonce: u32,
    pub token_len: u8,
    padding: [u8; 7],
}

/// An out-record.
#[derive(FromZeros)]
#[repr(C)]
pub(super) struct InlineOut {
    pub sent: u64,
    pub expiry: u64,
    /// 0 if there is no record.
    pub face: u32,
    pub nonce: u32,
    pub retx_interval_ms: u16,
    pub nack: u8,
    padding: [u8; 5],
}

/// The Interest of a new entry: where its copy is stored, and where its fields are.
pub(super) struct StoredInterest<'a> {
    /// The first line of the copy in the `InterestStore`.
    pub line: u32,
    pub wire: &'a [u8],
    /// Start and length in bytes of the name's TLV-VALUE in `wire`.
    pub name: (u16, u16),
    pub nonce_start: u16,
}

/// What the other parts of the table must free for a removed entry.
pub(super) struct RemovedEntry {
    pub hash: u64,
    pub index_pos: BucketPos,
    pub interest: u32,
    /// The length counted in `PrefixLengths`, if the Interest had CanBePrefix.
    pub prefix_components: Option<u16>,
}

const _: () = assert!(size_of::<Entry>() == 128 && core::mem::offset_of!(Entry, incoming) == 64);

impl Entry {
    /// Sets the Interest of the entry; `hash` covers the first `key_components` components of its
    /// name.
    #[inline(always)]
    pub fn set_key(
        &mut self,
        hash: u64,
        index_pos: BucketPos,
        key_components: usize,
        interest: StoredInterest<'_>,
    ) {
        self.hash = hash;
        self.index_pos = index_pos;
        self.key_components = key_components as u16;
        self.interest = interest.line;
        self.interest_len = interest.wire.len() as u16;
        (self.name_start, self.name_len) = interest.name;
        self.nonce_start = interest.nonce_start;
    }

    /// Marks the entry as used and resets its state, except for the [key](Self::set_key) and the
    /// generation.
    #[inline]
    pub fn activate(
        &mut self,
        can_be_prefix: bool,
        must_be_fresh: bool,
        digest: bool,
        hash_siblings: bool,
    ) {
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        self.flags = USED
            | flag(can_be_prefix, CAN_BE_PREFIX)
            | flag(must_be_fresh, MUST_BE_FRESH)
            | flag(digest, DIGEST)
            | flag(hash_siblings, HASH_SIBLINGS);
        self.retx_interval_ms = 0;
        self.strategy_bits = 0;
    }

    /// Marks the entry as free; timer and records are removed already. Returns what else must be
    /// freed.
    #[inline(always)]
    pub fn release(&mut self) -> RemovedEntry {
        self.generation = (self.generation + 1) & GENERATION_MASK;
        let removed = RemovedEntry {
            hash: self.hash,
            index_pos: self.index_pos,
            interest: self.interest,
            prefix_components: self.can_be_prefix().then_some(self.key_components),
        };
        self.flags = 0;
        removed
    }

    #[inline(always)]
    pub fn is_used(&self) -> bool {
        self.flags & USED != 0
    }

    #[inline(always)]
    pub fn can_be_prefix(&self) -> bool {
        self.flags & CAN_BE_PREFIX != 0
    }

    #[inline(always)]
    pub fn must_be_fresh(&self) -> bool {
        self.flags & MUST_BE_FRESH != 0
    }

    #[inline(always)]
    pub fn has_digest(&self) -> bool {
        self.flags & DIGEST != 0
    }

    #[inline(always)]
    pub fn has_hash_siblings(&self) -> bool {
        self.flags & HASH_SIBLINGS != 0
    }

    /// Returns whether the entry is alone under its hash, has no implicit digest, and has exactly
    /// one in-record and one out-record.
    #[inline(always)]
    pub fn is_simple(&self) -> bool {
        self.flags & (USED | DIGEST | HASH_SIBLINGS) == USED
            && self.in_chain == NONE
            && self.out_chain == NONE
            && self.incoming.face != 0
            && self.outgoing.face != 0
    }

    pub fn set_hash_siblings(&mut self) {
        self.flags |= HASH_SIBLINGS;
    }

    /// Returns whether the timer is set.
    #[inline(always)]
    pub fn is_armed(&self) -> bool {
        self.prev != NONE
    }

    /// Returns the FreshnessPeriod in milliseconds of the Data that satisfied the entry, if any.
    #[inline]
    pub fn satisfied(&self) -> Option<u32> {
        (self.flags & SATISFIED != 0).then_some(self.freshness_ms)
    }

    #[inline]
    pub fn set_satisfied(&mut self, freshness_ms: Option<u32>) {
        match freshness_ms {
            Some(freshness_ms) => {
                self.flags |= SATISFIED;
                self.freshness_ms = freshness_ms;
            }
            None => self.flags &= !SATISFIED,
        }
    }
}
