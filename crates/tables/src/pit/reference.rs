//! References to entries, in memory and as PIT tokens on the wire.

use nw_wire::Token;

/// Bytes of the PIT tokens this router issues. NDNd interoperates with no other length.
pub const TOKEN_LEN: usize = 6;

pub(super) const INDEX_BITS: u32 = 26;
pub(super) const GENERATION_MASK: u16 = (1 << GENERATION_BITS) - 1;
const GENERATION_BITS: u32 = 14;

/// A reference to a PIT entry. If the entry was removed it finds nothing, until the slot was reused
/// 16384 times; names are compared all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryRef {
    pub(super) index: u32,
    pub(super) generation: u16,
    pub(super) shard: u8,
}

impl EntryRef {
    /// Returns the PIT token sent upstream: shard (8 bits), index (26), generation (14), most
    /// significant byte first.
    #[inline]
    pub const fn token(self) -> [u8; TOKEN_LEN] {
        let [a, b, c, d, e, f, _, _] = self.token_padded();
        [a, b, c, d, e, f]
    }

    /// Returns the token followed by two zero bytes, for writing it as one word.
    #[inline]
    pub const fn token_padded(self) -> [u8; 8] {
        let bits = (self.shard as u64) << (INDEX_BITS + GENERATION_BITS)
            | (self.index as u64) << GENERATION_BITS
            | self.generation as u64;
        (bits << (64 - 8 * TOKEN_LEN)).to_be_bytes()
    }

    /// Returns the reference in a token, whichever router issued it. Its shard is the one that must
    /// look it up.
    #[inline]
    pub fn from_token(token: &[u8]) -> Option<Self> {
        Self::of(&Token::new(token)?)
    }

    /// Returns the same as [`from_token`](Self::from_token) for a token that is already parsed.
    #[inline(always)]
    pub fn of(token: &Token) -> Option<Self> {
        let (bytes, len) = token.to_short()?;
        let bits = u64::from_be_bytes(bytes) >> (64 - 8 * TOKEN_LEN);
        let reference = EntryRef {
            index: (bits >> GENERATION_BITS) as u32 & ((1 << INDEX_BITS) - 1),
            generation: bits as u16 & GENERATION_MASK,
            shard: (bits >> (INDEX_BITS + GENERATION_BITS)) as u8,
        };
        (usize::from(len) == TOKEN_LEN).then_some(reference)
    }

    /// Returns the shard of the entry's table.
    #[inline]
    pub const fn shard(self) -> u8 {
        self.shard
    }
}
