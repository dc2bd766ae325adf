//! NDNLPv2: the link header around a network packet or a fragment of one.
//!
//! NDNLPv2 specification: fields in order of TLV-TYPE, Fragment last; a repeated field is an error,
//! except Ack; an unknown field makes the packet invalid unless its type is in 800..=959 with the
//! two lowest bits clear.

use crate::types as t;
use nw_name::tlv::{Error, Fault, Reader, Tlv};

pub use crate::lp_header::{HEADER_LEN_MAX, LpHeader};

/// Most fragments of one packet.
pub const FRAG_COUNT_MAX: u64 = 400;

/// Why an Interest was rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NackReason {
    /// No reason, or an unknown one.
    #[default]
    None,
    /// Congestion on the path.
    Congestion,
    /// A copy of this Interest was received before.
    Duplicate,
    /// No route to the name.
    NoRoute,
}

impl NackReason {
    /// Returns the number on the wire.
    pub const fn number(self) -> u64 {
        match self {
            NackReason::None => 0,
            NackReason::Congestion => 50,
            NackReason::Duplicate => 100,
            NackReason::NoRoute => 150,
        }
    }

    /// Returns the severity, lowest first: Congestion, Duplicate, NoRoute, None.
    pub const fn severity(self) -> u8 {
        match self {
            NackReason::Congestion => 0,
            NackReason::Duplicate => 1,
            NackReason::NoRoute => 2,
            NackReason::None => 3,
        }
    }

    /// Returns the name as shown to users.
    pub const fn as_str(self) -> &'static str {
        match self {
            NackReason::None => "None",
            NackReason::Congestion => "Congestion",
            NackReason::Duplicate => "Duplicate",
            NackReason::NoRoute => "NoRoute",
        }
    }
}

impl From<u64> for NackReason {
    /// "An unknown reason is treated as None."
    fn from(number: u64) -> Self {
        match number {
            50 => NackReason::Congestion,
            100 => NackReason::Duplicate,
            150 => NackReason::NoRoute,
            _ => NackReason::None,
        }
    }
}

/// A PIT token: 1 to 32 bytes that the reply must carry back, or none (length 0).
#[derive(Clone, Copy)]
pub struct Token {
    len: u8,
    /// Bytes beyond the length have any value.
    bytes: [u8; 32],
}

impl PartialEq for Token {
    fn eq(&self, other: &Token) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Token {}

impl Token {
    /// No token.
    pub const NONE: Token = Token { len: 0, bytes: [0; 32] };

    /// Creates a token of 0 to 32 bytes. `None` if there are more.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut token = Token::NONE;
        token.set(bytes).then_some(token)
    }

    /// Sets an empty token in place, which is cheaper than moving one. Returns false, without
    /// change, if there are more than 32 bytes.
    #[inline]
    fn set(&mut self, bytes: &[u8]) -> bool {
        debug_assert!(self.is_none());
        match (bytes.len(), bytes.first_chunk::<6>()) {
            // All known routers use 6 bytes; a copy of fixed size is two stores.
            (6, Some(six)) => self.bytes[..6].copy_from_slice(six),
            (0..=32, _) => self.bytes[..bytes.len()].copy_from_slice(bytes),
            _ => return false,
        }
        self.len = bytes.len() as u8;
        true
    }

    /// Returns a token of at most 8 bytes as an array and a length, as tables store it. Array bytes
    /// beyond the length have any value.
    #[inline(always)]
    pub fn to_short(&self) -> Option<([u8; 8], u8)> {
        let [a, b, c, d, e, f, g, h, ..] = self.bytes;
        (self.len <= 8).then_some(([a, b, c, d, e, f, g, h], self.len))
    }

    /// Creates a token from [`to_short`](Self::to_short)'s form; at most 8 bytes are used.
    #[inline(always)]
    pub fn from_short(bytes: [u8; 8], len: u8) -> Self {
        let mut token = Token::NONE;
        token.set_short(bytes, len);
        token
    }

    /// As [`from_short`](Self::from_short), in place, which is cheaper than moving a token.
    #[inline(always)]
    pub fn set_short(&mut self, bytes: [u8; 8], len: u8) {
        self.bytes[..8].copy_from_slice(&bytes);
        self.len = len.min(8);
    }

    /// Sets it to [`NONE`](Self::NONE) in place.
    #[inline(always)]
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Creates a token of 6 bytes, as all known routers use.
    #[inline(always)]
    pub fn from_six([a, b, c, d, e, f]: [u8; 6]) -> Self {
        let mut token = Token { len: 6, bytes: [0; 32] };
        token.bytes[..8].copy_from_slice(&[a, b, c, d, e, f, 0, 0]);
        token
    }

    /// Returns the bytes; empty if there is no token.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the length in bytes, at most 32.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an empty one is called none")]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there is no token.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.len == 0
    }
}

impl Default for Token {
    fn default() -> Self {
        Token::NONE
    }
}

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A checked LpPacket, or a bare network packet treated as one.
#[derive(Clone, Copy, Debug, Default)]
pub struct LpPacket<'a> {
    /// The network packet or a fragment of it; `None` in an idle packet.
    pub fragment: Option<&'a [u8]>,
    /// Offset of the fragment in the checked bytes.
    pub fragment_start: usize,
    /// Sequence number of the link packet.
    pub sequence: Option<u64>,
    /// FragIndex: number of this fragment, from 0.
    pub frag_index: u64,
    /// FragCount: fragments of the packet, 1 if not fragmented. At most [`FRAG_COUNT_MAX`].
    pub frag_count: u64,
    /// PIT token, to be returned with the reply.
    pub pit_token: Token,
    /// Reason, on a Nack.
    pub nack: Option<NackReason>,
    /// IncomingFaceId, towards applications.
    pub incoming_face_id: Option<u64>,
    /// NextHopFaceId, from applications.
    pub next_hop_face_id: Option<u64>,
    /// CachePolicy NoCache.
    pub no_cache: bool,
    /// CongestionMark; 0 for none.
    pub congestion_mark: u64,
    /// The Ack elements, one after the other: see [`acks`](Self::acks).
    ack_elements: &'a [u8],
    /// TxSequence: number of the transmission, for reliability.
    pub tx_sequence: Option<u64>,
    /// NonDiscovery: the Interest must not be flooded.
    pub non_discovery: bool,
    /// PrefixAnnouncement: a whole Data that announces a prefix.
    pub prefix_announcement: Option<&'a [u8]>,
    /// The sender's receive window in KiB: the most to send to it without a pause. Its presence
    /// also means that the sender reassembles fragments. A field of this project (decision 0022).
    pub receive_window_kib: Option<u64>,
}

impl<'a> LpPacket<'a> {
    /// Checks one link packet: an LpPacket, or a bare Interest or Data. The fragment itself is not
    /// checked, so nesting costs nothing.
    ///
    /// # Errors
    /// The fault and its byte offset.
    #[inline]
    pub fn check(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, 0);
        let outer = reader.next()?.ok_or(Error::new(Fault::Truncated, 0))?;
        if !reader.is_empty() {
            return Err(Error::new(Fault::Trailing, outer.end()));
        }
        let mut packet = LpPacket { frag_count: 1, ..LpPacket::default() };
        match outer.typ {
            t::LP_PACKET => packet.fields(&outer)?,
            t::INTEREST | t::DATA | t::PUBLICATION => packet.fragment = Some(bytes),
            _ => return Err(Error::new(Fault::UnknownPacket, 0)),
        }
        Ok(packet)
    }

    /// Returns the numbers of the acknowledged transmissions.
    pub fn acks(&self) -> impl Iterator<Item = u64> + 'a {
        let mut reader = Reader::new(self.ack_elements, 0);
        core::iter::from_fn(move || {
            let ack = reader.next().ok()??;
            Some(u64::from_be_bytes(ack.value.try_into().ok()?))
        })
    }

    /// Returns whether the packet is one of several fragments.
    pub const fn is_fragmented(&self) -> bool {
        self.frag_count > 1
    }

    /// Checks that each field is allowed on this kind of packet. `packet_type` is
    /// [`INTEREST`](t::INTEREST) or [`DATA`](t::DATA): that of the fragment, or of the reassembled
    /// packet. IncomingFaceId is allowed on both.
    ///
    /// # Errors
    /// [`Fault::LinkField`]: CachePolicy or PrefixAnnouncement on an Interest or Nack; Nack,
    /// NextHopFaceId or NonDiscovery on Data.
    #[inline]
    pub fn check_fields_on(&self, packet_type: u32) -> Result<(), Error> {
        let misplaced = match packet_type {
            t::INTEREST => self.no_cache || self.prefix_announcement.is_some(),
            t::DATA => self.nack.is_some() || self.next_hop_face_id.is_some() || self.non_discovery,
            _ => false,
        };
        if misplaced { Err(Error::new(Fault::LinkField, 0)) } else { Ok(()) }
    }

    /// Reads and checks the link header fields.
    fn fields(&mut self, outer: &Tlv<'a>) -> Result<(), Error> {
        let mut reader = Reader::new(outer.value, outer.value_start);
        let (mut last, mut ended) = (0, false);
        let mut acks: Option<(usize, usize)> = None;
        while let Some(field) = reader.next()? {
            let order = Error::new(Fault::FieldOrder, field.start);
            if ended {
                return Err(order);
            }
            if field.typ == t::LP_FRAGMENT {
                // "Fragment last": its type is below the others', so it is checked here.
                ended = true;
                if field.value.is_empty() {
                    return Err(Error::new(Fault::FieldLength, field.start));
                }
                self.fragment = Some(field.value);
                self.fragment_start = field.value_start;
                continue;
            }
            if field.typ < last || field.typ == last && field.typ != t::LP_ACK {
                return Err(order);
            }
            last = field.typ;
            match field.typ {
                t::LP_SEQUENCE => self.sequence = Some(u64::from_be_bytes(field.array()?)),
                t::LP_FRAG_INDEX => self.frag_index = field.integer()?,
                t::LP_FRAG_COUNT => self.frag_count = field.integer()?,
                t::LP_PIT_TOKEN => {
                    if field.value.is_empty() || !self.pit_token.set(field.value) {
                        return Err(Error::new(Fault::FieldLength, field.start));
                    }
                }
                t::LP_NACK => self.nack = Some(check_nack(&field)?),
                t::LP_INCOMING_FACE_ID => self.incoming_face_id = Some(field.integer()?),
                t::LP_NEXT_HOP_FACE_ID => self.next_hop_face_id = Some(field.integer()?),
                t::LP_CACHE_POLICY => self.no_cache = check_cache_policy(&field)?,
                t::LP_CONGESTION_MARK => self.congestion_mark = field.integer()?,
                t::LP_ACK => {
                    field.array::<8>()?;
                    let start = acks.map_or(field.start, |(start, _)| start);
                    acks = Some((start, field.end()));
                }
                t::LP_TX_SEQUENCE => self.tx_sequence = Some(u64::from_be_bytes(field.array()?)),
                t::LP_NON_DISCOVERY if !field.value.is_empty() => {
                    return Err(Error::new(Fault::FieldLength, field.start));
                }
                t::LP_NON_DISCOVERY => self.non_discovery = true,
                t::LP_PREFIX_ANNOUNCEMENT => self.prefix_announcement = Some(field.value),
                t::LP_RECEIVE_WINDOW => self.receive_window_kib = Some(field.integer()?),
                800..=959 if field.typ & 3 == 0 => {}
                _ => return Err(Error::new(Fault::UnknownCritical, field.start)),
            }
        }
        if let Some((start, end)) = acks {
            self.ack_elements = &outer.value[start - outer.value_start..end - outer.value_start];
        }
        if self.frag_count == 0
            || self.frag_count > FRAG_COUNT_MAX
            || self.frag_index >= self.frag_count
        {
            return Err(Error::new(Fault::FragmentIndex, outer.value_start));
        }
        if self.frag_count > 1 && (self.sequence.is_none() || self.fragment.is_none()) {
            return Err(Error::new(Fault::MissingField, outer.value_start));
        }
        Ok(())
    }
}

/// Returns the reason of a Nack element.
fn check_nack(field: &Tlv<'_>) -> Result<NackReason, Error> {
    let mut reason = None;
    let mut reader = field.inner();
    while let Some(part) = reader.next()? {
        match part.typ {
            t::LP_NACK_REASON if reason.is_some() => {
                return Err(Error::new(Fault::FieldOrder, part.start));
            }
            t::LP_NACK_REASON => reason = Some(NackReason::from(part.integer()?)),
            _ if part.is_critical() => return Err(Error::new(Fault::UnknownCritical, part.start)),
            _ => {}
        }
    }
    Ok(reason.unwrap_or_default())
}

/// Checks a CachePolicy element. Returns whether it is NoCache.
fn check_cache_policy(field: &Tlv<'_>) -> Result<bool, Error> {
    let mut no_cache = false;
    let mut reader = field.inner();
    while let Some(part) = reader.next()? {
        match part.typ {
            t::LP_CACHE_POLICY_TYPE if no_cache => {
                return Err(Error::new(Fault::FieldOrder, part.start));
            }
            // 1 is NoCache, the only policy defined.
            t::LP_CACHE_POLICY_TYPE if part.integer()? == 1 => no_cache = true,
            t::LP_CACHE_POLICY_TYPE => return Err(Error::new(Fault::FieldValue, part.start)),
            _ if part.is_critical() => return Err(Error::new(Fault::UnknownCritical, part.start)),
            _ => {}
        }
    }
    if no_cache { Ok(true) } else { Err(Error::new(Fault::MissingField, field.start)) }
}

#[cfg(test)]
mod tests;
