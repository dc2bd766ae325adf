//! What forwarding reads of a packet, and nothing else.
//!
//! Nearly all packets have few fields, short ones, in order: these are read in one straight line. Any other goes through the full check, which also
//! says what is wrong with a packet; a property test holds the two together.

use crate::data::{Data, MetaInfo};
use crate::interest::{Interest, LIFETIME_DEFAULT_MS};
use crate::signature::SignatureInfo;
use crate::types as t;
use nw_name::tlv::{Error, Tlv};
use nw_name::{HashKey, ParametersDigests, Prefixes};

/// One whole packet at the head of what may be more octets. What is behind it is not looked at, but lets its name be read in large steps.
#[derive(Clone, Copy, Debug)]
pub struct Leading<'a> {
    around: &'a [u8],
    len: usize,
}

impl<'a> Leading<'a> {
    /// The first `len` octets of `around`; all of it when it has fewer.
    #[inline]
    pub fn new(around: &'a [u8], len: usize) -> Self {
        Leading { around, len: len.min(around.len()) }
    }

    /// The packet.
    #[inline]
    pub fn wire(&self) -> &'a [u8] {
        &self.around[..self.len]
    }
}

impl<'a> From<&'a [u8]> for Leading<'a> {
    fn from(wire: &'a [u8]) -> Self {
        Leading { around: wire, len: wire.len() }
    }
}

/// Where a TLV-VALUE stands in a packet: start and length, octets. A packet ends before octet 8800, so 16 bits do.
pub type Place = (u16, u16);

/// Of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterestFields {
    /// Where the name's TLV-VALUE stands.
    pub name: Place,
    /// Where ForwardingHint's TLV-VALUE stands; length 0 when there is none.
    pub hint: Place,
    /// Where the nonce's four octets start; 0 when there is none.
    pub nonce_start: u16,
    /// The nonce, 0 when there is none.
    pub nonce: u32,
    /// Where the hop limit's octet stands; 0 when there is none.
    pub hop_limit_start: u16,
    /// InterestLifetime in milliseconds, the default when absent, limited to `u32`.
    pub lifetime_ms: u32,
    /// A Data whose name is longer may answer.
    pub can_be_prefix: bool,
    /// Only a Data within its FreshnessPeriod may answer from a cache.
    pub must_be_fresh: bool,
}

impl InterestFields {
    /// Checks a whole Interest as [`Interest::check`] does; its name's prefixes are taken in on the way.
    ///
    /// # Errors
    /// What is wrong and where; `prefixes` are of no name then.
    #[inline(always)]
    pub fn check(packet: Leading<'_>, key: &HashKey, prefixes: &mut Prefixes) -> Result<Self, Error> {
        match Self::usual(packet.wire()) {
            Some(fields) if read_usual_name(packet, fields.name, key, prefixes) => Ok(fields),
            _ => Self::any(packet.wire(), key, prefixes),
        }
    }

    /// What [`check`](Self::check) finds in most Interests, but for the name, which is still to be [read](read_usual_name) and may be none; `None` for
    /// [any other](Self::any). Who takes the two apart has the fields of most in registers: where both meet they go through memory.
    #[inline(always)]
    pub fn usual(wire: &[u8]) -> Option<Self> {
        let [INTEREST, len @ 0..=252, NAME, name_len @ 1..=252, behind @ ..] = wire else { return None };
        if usize::from(*len) + 2 != wire.len() {
            return None;
        }
        let mut rest = behind.get(usize::from(*name_len)..)?;
        let mut fields = InterestFields {
            name: (4, u16::from(*name_len)),
            hint: (0, 0),
            nonce_start: 0,
            nonce: 0,
            hop_limit_start: 0,
            lifetime_ms: LIFETIME_DEFAULT_MS as u32,
            can_be_prefix: false,
            must_be_fresh: false,
        };
        if let [CAN_BE_PREFIX, 0, behind @ ..] = rest {
            fields.can_be_prefix = true;
            rest = behind;
        }
        if let [MUST_BE_FRESH, 0, behind @ ..] = rest {
            fields.must_be_fresh = true;
            rest = behind;
        }
        if let [NONCE, 4, a, b, c, d, behind @ ..] = rest {
            fields.nonce = u32::from_be_bytes([*a, *b, *c, *d]);
            fields.nonce_start = (wire.len() - behind.len() - 4) as u16;
            rest = behind;
        }
        match rest {
            [LIFETIME, 1, a, behind @ ..] => {
                fields.lifetime_ms = u32::from(*a);
                rest = behind;
            }
            [LIFETIME, 2, a, b, behind @ ..] => {
                fields.lifetime_ms = u32::from(u16::from_be_bytes([*a, *b]));
                rest = behind;
            }
            _ => {}
        }
        if let [HOP_LIMIT, 1, _, behind @ ..] = rest {
            fields.hop_limit_start = (wire.len() - behind.len() - 1) as u16;
            rest = behind;
        }
        rest.is_empty().then_some(fields)
    }

    /// What [`check`](Self::check) finds, whatever the Interest has in it.
    ///
    /// # Errors
    /// As there.
    #[inline(never)]
    pub fn any(wire: &[u8], key: &HashKey, prefixes: &mut Prefixes) -> Result<Self, Error> {
        let interest = Interest::check_hashing(wire, key, prefixes)?;
        Ok(InterestFields {
            name: place(interest.name_start(), interest.name().as_bytes()),
            hint: interest.forwarding_hint_value().map_or((0, 0), |(value, start)| place(start, value)),
            nonce_start: interest.nonce_start().unwrap_or(0) as u16,
            nonce: interest.nonce().unwrap_or(0),
            hop_limit_start: interest.hop_limit_start().unwrap_or(0) as u16,
            lifetime_ms: u32::try_from(interest.lifetime_ms()).unwrap_or(u32::MAX),
            can_be_prefix: interest.can_be_prefix(),
            must_be_fresh: interest.must_be_fresh(),
        })
    }
}

/// Of a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFields {
    /// Where the name's TLV-VALUE stands.
    pub name: Place,
    /// FreshnessPeriod in milliseconds, 0 when absent, limited to `u32`.
    pub freshness_ms: u32,
}

impl DataFields {
    /// Checks a whole Data as [`Data::check`] does; its name's prefixes are taken in on the way.
    ///
    /// # Errors
    /// What is wrong and where; `prefixes` are of no name then.
    #[inline(always)]
    pub fn check(packet: Leading<'_>, key: &HashKey, prefixes: &mut Prefixes) -> Result<Self, Error> {
        match Self::usual(packet.wire()) {
            Some(fields) if read_name(packet, fields.name, key, prefixes).is_ok() => Ok(fields),
            _ => Self::any(packet.wire(), key, prefixes),
        }
    }

    /// What [`check`](Self::check) finds in most Data, but for the name, which is still to be [read](read_name) and may be none; `None` for
    /// [any other](Self::any).
    #[inline(always)]
    pub fn usual(wire: &[u8]) -> Option<Self> {
        if wire.len() > crate::PACKET_LEN_MAX {
            return None;
        }
        let mut rest = wire;
        let mut body = take(&mut rest, DATA)?;
        if !rest.is_empty() {
            return None;
        }
        let name = take(&mut body, NAME)?;
        let name_start = wire.len() - body.len() - name.len();
        let freshness_ms = match take(&mut body, META_INFO) {
            None | Some([]) => 0,
            Some([FRESHNESS, 1, a]) => u32::from(*a),
            Some([FRESHNESS, 2, a, b]) => u32::from(u16::from_be_bytes([*a, *b])),
            Some(value) => other_freshness_ms(value)?,
        };
        // Its content is nothing to forwarding.
        let _content: Option<&[u8]> = take(&mut body, CONTENT);
        SignatureInfo::check_form(take(&mut body, SIGNATURE_INFO)?, 0).ok()?;
        let _signature: &[u8] = take(&mut body, SIGNATURE_VALUE)?;
        if !body.is_empty() {
            return None;
        }
        Some(DataFields { name: (name_start as u16, name.len() as u16), freshness_ms })
    }

    /// What [`check`](Self::check) finds, whatever the Data has in it.
    ///
    /// # Errors
    /// As there.
    #[inline(never)]
    pub fn any(wire: &[u8], key: &HashKey, prefixes: &mut Prefixes) -> Result<Self, Error> {
        let data = Data::check_hashing(wire, key, prefixes)?;
        Ok(DataFields {
            name: place(data.name_start(), data.name().as_bytes()),
            freshness_ms: u32::try_from(data.freshness_ms()).unwrap_or(u32::MAX),
        })
    }
}

/// Checks the name at this place in a packet; its prefixes are taken in.
///
/// # Errors
/// What is wrong and where; `prefixes` are of no name then.
#[inline(always)]
pub fn read_name(
    packet: Leading<'_>,
    name: Place,
    key: &HashKey,
    prefixes: &mut Prefixes,
) -> Result<(), Error> {
    read(packet, name, key, prefixes).map(drop)
}

/// As [`read_name`], of an Interest without parameters: false where it is no name, or has the digest of parameters in it.
#[inline(always)]
pub fn read_usual_name(packet: Leading<'_>, name: Place, key: &HashKey, prefixes: &mut Prefixes) -> bool {
    read(packet, name, key, prefixes).is_ok_and(|digests| digests.first_end == 0)
}

#[inline(always)]
fn read(
    packet: Leading<'_>,
    name: Place,
    key: &HashKey,
    prefixes: &mut Prefixes,
) -> Result<ParametersDigests, Error> {
    let start = usize::from(name.0);
    prefixes.read(key, packet.around, start..start + usize::from(name.1))
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

/// Takes the element at the head, when it is of this type and whole: its TLV-VALUE.
#[inline(always)]
fn take<'a>(rest: &mut &'a [u8], typ: u8) -> Option<&'a [u8]> {
    let (len, behind) = match *rest {
        [first, len @ 0..=252, behind @ ..] if *first == typ => (usize::from(*len), behind),
        [first, 253, high, low, behind @ ..] if *first == typ => {
            match usize::from(u16::from_be_bytes([*high, *low])) {
                0..=252 => return None,
                len => (len, behind),
            }
        }
        _ => return None,
    };
    let (value, behind) = behind.split_at_checked(len)?;
    *rest = behind;
    Some(value)
}

/// Of a MetaInfo with more in it.
#[inline(never)]
fn other_freshness_ms(value: &[u8]) -> Option<u32> {
    let meta = MetaInfo::check(&Tlv { typ: t::META_INFO, value, start: 0, value_start: 0 }).ok()?;
    Some(u32::try_from(meta.freshness_ms).unwrap_or(u32::MAX))
}

fn place(start: usize, value: &[u8]) -> Place {
    (start as u16, value.len() as u16)
}
