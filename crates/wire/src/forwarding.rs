//! The fields of a packet that forwarding reads, and no others.
//!
//! Nearly all packets have few, short fields in order. `parse_fast` reads these in one straight
//! line and returns `None` for any other packet. `parse_slow` is the full check, which also reports
//! what is wrong. A property test shows that both return the same fields.

use crate::data::{Data, MetaInfo};
use crate::interest::{Interest, LIFETIME_DEFAULT_MS};
use crate::signature::SignatureInfo;
use crate::span::Span;
use crate::types as t;
use nw_name::tlv::{Error, Tlv};
use nw_name::{HashKey, ParametersDigests, PrefixHashes};

/// One packet at the start of a larger buffer. The bytes after it are padding: not part of the
/// packet, but readable, so that its name can be hashed in wide steps.
#[derive(Clone, Copy, Debug)]
pub struct PaddedPacket<'a> {
    buffer: &'a [u8],
    len: usize,
}

impl<'a> PaddedPacket<'a> {
    /// Takes the first `len` bytes of `buffer` as the packet, or all if it has fewer.
    #[inline]
    pub fn new(buffer: &'a [u8], len: usize) -> Self {
        PaddedPacket { buffer, len: len.min(buffer.len()) }
    }

    /// Returns the packet.
    #[inline]
    pub fn wire(&self) -> &'a [u8] {
        &self.buffer[..self.len]
    }
}

impl<'a> From<&'a [u8]> for PaddedPacket<'a> {
    fn from(wire: &'a [u8]) -> Self {
        PaddedPacket { buffer: wire, len: wire.len() }
    }
}

/// Fields of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterestFields {
    /// Byte range of the name's TLV-VALUE.
    pub name: Span,
    /// Byte range of ForwardingHint's TLV-VALUE; [`Span::NONE`] if there is none.
    pub forwarding_hint: Span,
    /// Offset of the nonce's 4 bytes; 0 if there is none.
    pub nonce_start: u16,
    /// The nonce; 0 if there is none.
    pub nonce: u32,
    /// Offset of the hop limit's byte; 0 if there is none.
    pub hop_limit_start: u16,
    /// InterestLifetime in milliseconds, limited to `u32`; the default if absent.
    pub lifetime_ms: u32,
    /// CanBePrefix: a Data with a longer name may answer.
    pub can_be_prefix: bool,
    /// MustBeFresh: only a Data within its FreshnessPeriod may answer from a cache.
    pub must_be_fresh: bool,
}

impl InterestFields {
    /// Checks a whole Interest as [`Interest::check`] does, and computes the hashes of its name's
    /// prefixes.
    ///
    /// # Errors
    /// The fault and its byte offset; `prefixes` is then undefined.
    #[inline(always)]
    pub fn check(
        packet: PaddedPacket<'_>,
        key: &HashKey,
        prefixes: &mut PrefixHashes,
    ) -> Result<Self, Error> {
        match Self::parse_fast(packet.wire()) {
            Some(fields) if read_name_fast(packet, fields.name, key, prefixes) => Ok(fields),
            _ => Self::parse_slow(packet.wire(), key, prefixes),
        }
    }

    /// Reads the fields of most Interests, except that the name is not checked: call
    /// [`read_name_fast`] next. `None`: use [`parse_slow`](Self::parse_slow). Callers that keep the
    /// two forms apart keep the fields in registers.
    ///
    /// ```text
    /// 05 len | 07 len name | 21 00 | 12 00 | 0a 04 nonce | 0c 1-2 lifetime | 22 01 hop limit
    ///                        ╰── each of these may be absent; all lengths are one byte ──╯
    /// ```
    #[inline(always)]
    pub fn parse_fast(wire: &[u8]) -> Option<Self> {
        let [INTEREST, len @ 0..=252, NAME, name_len @ 1..=252, tail @ ..] = wire else {
            return None;
        };
        if usize::from(*len) + 2 != wire.len() {
            return None;
        }
        let mut remaining = tail.get(usize::from(*name_len)..)?;
        let mut fields = InterestFields {
            name: Span::new(4, usize::from(*name_len)),
            forwarding_hint: Span::NONE,
            nonce_start: 0,
            nonce: 0,
            hop_limit_start: 0,
            lifetime_ms: LIFETIME_DEFAULT_MS as u32,
            can_be_prefix: false,
            must_be_fresh: false,
        };
        if let [CAN_BE_PREFIX, 0, tail @ ..] = remaining {
            fields.can_be_prefix = true;
            remaining = tail;
        }
        if let [MUST_BE_FRESH, 0, tail @ ..] = remaining {
            fields.must_be_fresh = true;
            remaining = tail;
        }
        if let [NONCE, 4, a, b, c, d, tail @ ..] = remaining {
            fields.nonce = u32::from_be_bytes([*a, *b, *c, *d]);
            fields.nonce_start = (wire.len() - tail.len() - 4) as u16;
            remaining = tail;
        }
        match remaining {
            [LIFETIME, 1, a, tail @ ..] => {
                fields.lifetime_ms = u32::from(*a);
                remaining = tail;
            }
            [LIFETIME, 2, a, b, tail @ ..] => {
                fields.lifetime_ms = u32::from(u16::from_be_bytes([*a, *b]));
                remaining = tail;
            }
            _ => {}
        }
        if let [HOP_LIMIT, 1, _, tail @ ..] = remaining {
            fields.hop_limit_start = (wire.len() - tail.len() - 1) as u16;
            remaining = tail;
        }
        remaining.is_empty().then_some(fields)
    }

    /// Checks any Interest and returns its fields.
    ///
    /// # Errors
    /// The fault and its byte offset; `prefixes` is then undefined.
    #[inline(never)]
    pub fn parse_slow(
        wire: &[u8],
        key: &HashKey,
        prefixes: &mut PrefixHashes,
    ) -> Result<Self, Error> {
        let interest = Interest::check_hashing(wire, key, prefixes)?;
        Ok(InterestFields {
            name: interest.name_span(),
            forwarding_hint: interest.forwarding_hint_span(),
            nonce_start: interest.nonce_start().unwrap_or(0) as u16,
            nonce: interest.nonce().unwrap_or(0),
            hop_limit_start: interest.hop_limit_start().unwrap_or(0) as u16,
            lifetime_ms: u32::try_from(interest.lifetime_ms()).unwrap_or(u32::MAX),
            can_be_prefix: interest.can_be_prefix(),
            must_be_fresh: interest.must_be_fresh(),
        })
    }
}

/// Fields of a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFields {
    /// Byte range of the name's TLV-VALUE.
    pub name: Span,
    /// FreshnessPeriod in milliseconds, limited to `u32`; 0 if absent.
    pub freshness_ms: u32,
}

impl DataFields {
    /// Checks a whole Data as [`Data::check`] does, and computes the hashes of its name's prefixes.
    ///
    /// # Errors
    /// The fault and its byte offset; `prefixes` is then undefined.
    #[inline(always)]
    pub fn check(
        packet: PaddedPacket<'_>,
        key: &HashKey,
        prefixes: &mut PrefixHashes,
    ) -> Result<Self, Error> {
        match Self::parse_fast(packet.wire()) {
            Some(fields) if read_name(packet, fields.name, key, prefixes).is_ok() => Ok(fields),
            _ => Self::parse_slow(packet.wire(), key, prefixes),
        }
    }

    /// Reads the fields of most Data, except that the name is not checked: call [`read_name`] next.
    /// `None`: use [`parse_slow`](Self::parse_slow).
    #[inline(always)]
    pub fn parse_fast(wire: &[u8]) -> Option<Self> {
        if wire.len() > crate::PACKET_LEN_MAX {
            return None;
        }
        let mut remaining = wire;
        let mut body = take(&mut remaining, DATA)?;
        if !remaining.is_empty() {
            return None;
        }
        let name = take(&mut body, NAME)?;
        let name_start = wire.len() - body.len() - name.len();
        let freshness_ms = match take(&mut body, META_INFO) {
            None | Some([]) => 0,
            Some([FRESHNESS, 1, a]) => u32::from(*a),
            Some([FRESHNESS, 2, a, b]) => u32::from(u16::from_be_bytes([*a, *b])),
            Some(value) => freshness_ms_slow(value)?,
        };
        // Forwarding does not read the content.
        let _content: Option<&[u8]> = take(&mut body, CONTENT);
        SignatureInfo::check_only(take(&mut body, SIGNATURE_INFO)?, 0).ok()?;
        let _signature: &[u8] = take(&mut body, SIGNATURE_VALUE)?;
        if !body.is_empty() {
            return None;
        }
        Some(DataFields { name: Span::new(name_start, name.len()), freshness_ms })
    }

    /// Checks any Data and returns its fields.
    ///
    /// # Errors
    /// The fault and its byte offset; `prefixes` is then undefined.
    #[inline(never)]
    pub fn parse_slow(
        wire: &[u8],
        key: &HashKey,
        prefixes: &mut PrefixHashes,
    ) -> Result<Self, Error> {
        let data = Data::check_hashing(wire, key, prefixes)?;
        Ok(DataFields {
            name: data.name_span(),
            freshness_ms: u32::try_from(data.freshness_ms()).unwrap_or(u32::MAX),
        })
    }
}

/// Checks the name at `name` and computes the hashes of its prefixes.
///
/// # Errors
/// The fault and its byte offset; `prefixes` is then undefined.
#[inline(always)]
pub fn read_name(
    packet: PaddedPacket<'_>,
    name: Span,
    key: &HashKey,
    prefixes: &mut PrefixHashes,
) -> Result<(), Error> {
    read(packet, name, key, prefixes).map(drop)
}

/// As [`read_name`], for an Interest without parameters. Returns false if the name is malformed or
/// contains a parameters digest: use [`InterestFields::parse_slow`].
#[inline(always)]
pub fn read_name_fast(
    packet: PaddedPacket<'_>,
    name: Span,
    key: &HashKey,
    prefixes: &mut PrefixHashes,
) -> bool {
    read(packet, name, key, prefixes).is_ok_and(|digests| digests.first_end == 0)
}

/// Checks the name and computes the hashes of its prefixes.
#[inline(always)]
fn read(
    packet: PaddedPacket<'_>,
    name: Span,
    key: &HashKey,
    prefixes: &mut PrefixHashes,
) -> Result<ParametersDigests, Error> {
    prefixes.read(key, packet.buffer, name.range())
}

const INTEREST: u8 = t::INTEREST as u8;
const DATA: u8 = t::DATA as u8;
const NAME: u8 = t::NAME as u8;
const CAN_BE_PREFIX: u8 = t::CAN_BE_PREFIX as u8;
const MUST_BE_FRESH: u8 = t::MUST_BE_FRESH as u8;
const NONCE: u8 = t::NONCE as u8;
const LIFETIME: u8 = t::INTEREST_LIFETIME as u8;
const HOP_LIMIT: u8 = t::HOP_LIMIT as u8;
const META_INFO: u8 = t::META_INFO as u8;
const FRESHNESS: u8 = t::FRESHNESS_PERIOD as u8;
const CONTENT: u8 = t::CONTENT as u8;
const SIGNATURE_INFO: u8 = t::SIGNATURE_INFO as u8;
const SIGNATURE_VALUE: u8 = t::SIGNATURE_VALUE as u8;

/// Takes the first element if it has this type and is complete. Returns its TLV-VALUE.
#[inline(always)]
fn take<'a>(remaining: &mut &'a [u8], typ: u8) -> Option<&'a [u8]> {
    let (len, tail) = match *remaining {
        [first, len @ 0..=252, tail @ ..] if *first == typ => (usize::from(*len), tail),
        [first, 253, high, low, tail @ ..] if *first == typ => {
            match usize::from(u16::from_be_bytes([*high, *low])) {
                0..=252 => return None,
                len => (len, tail),
            }
        }
        _ => return None,
    };
    let (value, tail) = tail.split_at_checked(len)?;
    *remaining = tail;
    Some(value)
}

/// Returns FreshnessPeriod of a MetaInfo with other fields.
#[inline(never)]
fn freshness_ms_slow(value: &[u8]) -> Option<u32> {
    let meta = MetaInfo::check(&Tlv { typ: t::META_INFO, value, start: 0, value_start: 0 }).ok()?;
    Some(u32::try_from(meta.freshness_ms).unwrap_or(u32::MAX))
}
