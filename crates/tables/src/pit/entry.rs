//! One pending Interest: two cache lines.

use super::reference::GENERATION_MASK;
use crate::index::Spot;
use zerocopy::FromZeros;

/// Links and places are kept plus one, so that zeroed memory means "none".
pub(super) const NONE: u32 = 0;

const USED: u16 = 1;
const CAN_BE_PREFIX: u16 = 2;
const MUST_BE_FRESH: u16 = 4;
/// The last component is an implicit digest: the entry is indexed under the name before it.
const DIGEST: u16 = 8;
/// Others are, or were, indexed under the same hash.
const SHARED: u16 = 16;
const SATISFIED: u16 = 32;

/// Line 0 says what was asked and when that ends; line 1 has the first record of each kind.
#[derive(FromZeros)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub hash: u64,
    /// Nanoseconds; the timer's.
    pub expiry: u64,
    /// Timer list: slot plus one of the next entry.
    pub next: u32,
    /// Timer list: slot plus one of the previous entry, or the list itself; see the wheel.
    pub prev: u32,
    pub interest: u32,
    pub interest_len: u16,
    pub name_start: u16,
    pub name_len: u16,
    pub nonce_start: u16,
    /// Components of the name that `hash` covers.
    pub key_components: u16,
    pub generation: u16,
    flags: u16,
    pub retx_interval_ms: u16,
    /// First further in-record, its place plus one.
    pub more_in: u32,
    /// First further out-record, its place plus one.
    pub more_out: u32,
    freshness_ms: u32,
    /// The strategy's, see [`Pit::strategy_bits`](super::Pit::strategy_bits).
    pub strategy_bits: u32,
    /// Where it stands in the index, when it came there first.
    pub spot: Spot,

    pub incoming: InlineIn,
    pub outgoing: InlineOut,
}

/// An in-record with a token of at most eight octets.
#[derive(FromZeros)]
#[repr(C)]
pub(super) struct InlineIn {
    pub expiry: u64,
    pub token: [u8; 8],
    /// 0 when there is none.
    pub face: u32,
    pub nonce: u32,
    pub token_len: u8,
    spare: [u8; 7],
}

/// An out-record.
#[derive(FromZeros)]
#[repr(C)]
pub(super) struct InlineOut {
    pub sent: u64,
    pub expiry: u64,
    /// 0 when there is none.
    pub face: u32,
    pub nonce: u32,
    pub retx_interval_ms: u16,
    pub nack: u8,
    spare: [u8; 5],
}

/// The copy of an Interest that an entry is made for.
pub(super) struct Copied<'a> {
    pub place: u32,
    pub wire: &'a [u8],
    pub name: (u16, u16),
    pub nonce_start: u16,
}

/// What an entry leaves behind.
pub(super) struct Ended {
    pub hash: u64,
    pub spot: Spot,
    pub interest: u32,
    /// Components it counted for, if it had CanBePrefix.
    pub prefix_components: Option<u16>,
}

const _: () = assert!(size_of::<Entry>() == 128 && core::mem::offset_of!(Entry, incoming) == 64);

impl Entry {
    /// Makes it the one of this Interest, whose name's first `key_components` have this hash.
    #[inline(always)]
    pub fn identify(&mut self, hash: u64, spot: Spot, key_components: usize, copied: Copied<'_>) {
        self.hash = hash;
        self.spot = spot;
        self.key_components = key_components as u16;
        self.interest = copied.place;
        self.interest_len = copied.wire.len() as u16;
        (self.name_start, self.name_len) = copied.name;
        self.nonce_start = copied.nonce_start;
    }

    /// Begins a new life: all but [what it is](Self::identify) is as in a fresh entry, but for the generation.
    #[inline]
    pub fn start(&mut self, can_be_prefix: bool, must_be_fresh: bool, digest: bool, shared: bool) {
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        self.flags = USED
            | flag(can_be_prefix, CAN_BE_PREFIX)
            | flag(must_be_fresh, MUST_BE_FRESH)
            | flag(digest, DIGEST)
            | flag(shared, SHARED);
        self.retx_interval_ms = 0;
        self.strategy_bits = 0;
    }

    /// Ends a life; timer and records have been dealt with. What it was is what else is to be taken back.
    #[inline(always)]
    pub fn end(&mut self) -> Ended {
        self.generation = (self.generation + 1) & GENERATION_MASK;
        let ended = Ended {
            hash: self.hash,
            spot: self.spot,
            interest: self.interest,
            prefix_components: self.can_be_prefix().then_some(self.key_components),
        };
        self.flags = 0;
        ended
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
    pub fn is_shared(&self) -> bool {
        self.flags & SHARED != 0
    }

    /// It is alone under its hash, asks for no digest, and has one record of each kind.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.flags & (USED | DIGEST | SHARED) == USED
            && self.more_in == NONE
            && self.more_out == NONE
            && self.incoming.face != 0
            && self.outgoing.face != 0
    }

    pub fn set_shared(&mut self) {
        self.flags |= SHARED;
    }

    #[inline(always)]
    pub fn is_armed(&self) -> bool {
        self.prev != NONE
    }

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
