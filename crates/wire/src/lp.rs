//! NDNLPv2: the link header around a network packet or a fragment of one.
//!
//! NDNLPv2 specification: fields in increasing TLV-TYPE order, Fragment last; repeated ones are an error but for Ack; an unknown field makes
//! the packet invalid unless its type is in 800..=959 with the two lowest bits clear.

use crate::types as t;
use nw_name::tlv::{Error, Fault, Reader, Tlv, push_integer, push_number, push_tlv, put_number};

/// Most fragments one packet may be cut into.
pub const FRAG_COUNT_MAX: u64 = 400;

/// Most octets of link header around a whole packet or fragment that [`LpHeader`] writes without Acks and PrefixAnnouncement.
pub const HEADER_LEN_MAX: usize = 192;

/// Why an Interest was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NackReason {
    /// No reason that we know was given.
    #[default]
    None,
    /// Congestion on the way.
    Congestion,
    /// A copy of this Interest was seen before.
    Duplicate,
    /// No route to the name.
    NoRoute,
}

impl NackReason {
    /// Its number on the wire.
    pub const fn number(self) -> u64 {
        match self {
            NackReason::None => 0,
            NackReason::Congestion => 50,
            NackReason::Duplicate => 100,
            NackReason::NoRoute => 150,
        }
    }

    /// Least severe first: Congestion, Duplicate, NoRoute, None.
    pub const fn severity(self) -> u8 {
        match self {
            NackReason::Congestion => 0,
            NackReason::Duplicate => 1,
            NackReason::NoRoute => 2,
            NackReason::None => 3,
        }
    }

    /// As users read it.
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

/// A PIT token: 0 (absent) to 32 octets that the answer must carry back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token {
    len: u8,
    octets: [u8; 32],
}

impl Token {
    /// No token.
    pub const NONE: Token = Token { len: 0, octets: [0; 32] };

    /// From 0 to 32 octets; more are an error of the caller and give `None`.
    #[inline]
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mut token = Token::NONE;
        token.octets.get_mut(..octets.len())?.copy_from_slice(octets);
        token.len = octets.len() as u8;
        Some(token)
    }

    /// Its octets, empty when absent.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    /// True when there is none.
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
        self.as_bytes().iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// A checked LpPacket, or a bare network packet seen as one.
#[derive(Clone, Copy, Debug, Default)]
pub struct LpPacket<'a> {
    /// The network packet or a piece of it; `None` in an idle packet.
    pub fragment: Option<&'a [u8]>,
    /// Where the fragment starts in the checked bytes.
    pub fragment_start: usize,
    /// Numbers each link packet.
    pub sequence: Option<u64>,
    /// Which fragment this is, from 0.
    pub frag_index: u64,
    /// Of how many; 1 when not fragmented. At most [`FRAG_COUNT_MAX`].
    pub frag_count: u64,
    /// To be carried back by the answer.
    pub pit_token: Token,
    /// Present on a Nack.
    pub nack: Option<NackReason>,
    /// Which face the packet came in by (towards applications).
    pub incoming_face_id: Option<u64>,
    /// Which face the packet shall leave by (from applications).
    pub next_hop_face_id: Option<u64>,
    /// CachePolicy NoCache.
    pub no_cache: bool,
    /// How congested the way is; 0 is not.
    pub congestion_mark: u64,
    /// Elements Ack, back to back, if any: see [`acks`](Self::acks).
    ack_elements: &'a [u8],
    /// Numbers each transmission, for reliability.
    pub tx_sequence: Option<u64>,
    /// The Interest must not be flooded.
    pub non_discovery: bool,
    /// A whole Data that announces a prefix.
    pub prefix_announcement: Option<&'a [u8]>,
}

impl<'a> LpPacket<'a> {
    /// Checks one link packet: an LpPacket, or a bare Interest or Data.
    ///
    /// The fragment itself is not looked into, so no nesting can exhaust anything.
    ///
    /// # Errors
    /// What is wrong and where.
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
            t::INTEREST | t::DATA => packet.fragment = Some(bytes),
            _ => return Err(Error::new(Fault::UnknownPacket, 0)),
        }
        Ok(packet)
    }

    /// The transmissions this packet acknowledges.
    pub fn acks(&self) -> impl Iterator<Item = u64> + 'a {
        let mut reader = Reader::new(self.ack_elements, 0);
        core::iter::from_fn(move || {
            let ack = reader.next().ok()??;
            Some(u64::from_be_bytes(ack.value.try_into().ok()?))
        })
    }

    /// True when the packet is one of several fragments.
    pub const fn is_fragmented(&self) -> bool {
        self.frag_count > 1
    }

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
                // "Fragment last": nothing may follow, and its type is below the others'.
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
                    self.pit_token = Token::new(field.value)
                        .filter(|token| !token.is_none())
                        .ok_or(Error::new(Fault::FieldLength, field.start))?;
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
                t::LP_NON_DISCOVERY => self.non_discovery = true,
                t::LP_PREFIX_ANNOUNCEMENT => self.prefix_announcement = Some(field.value),
                800..=959 if field.typ & 3 == 0 => {}
                _ => return Err(Error::new(Fault::UnknownCritical, field.start)),
            }
        }
        if let Some((start, end)) = acks {
            self.ack_elements = &outer.value[start - outer.value_start..end - outer.value_start];
        }
        if self.frag_count == 0 || self.frag_count > FRAG_COUNT_MAX || self.frag_index >= self.frag_count {
            return Err(Error::new(Fault::FragmentIndex, outer.value_start));
        }
        if self.frag_count > 1 && (self.sequence.is_none() || self.fragment.is_none()) {
            return Err(Error::new(Fault::MissingField, outer.value_start));
        }
        Ok(())
    }
}

fn check_nack(field: &Tlv<'_>) -> Result<NackReason, Error> {
    let mut reason = NackReason::None;
    let mut reader = field.inner();
    while let Some(part) = reader.next()? {
        match part.typ {
            t::LP_NACK_REASON => reason = NackReason::from(part.integer()?),
            _ if part.is_critical() => return Err(Error::new(Fault::UnknownCritical, part.start)),
            _ => {}
        }
    }
    Ok(reason)
}

fn check_cache_policy(field: &Tlv<'_>) -> Result<bool, Error> {
    let mut reader = field.inner();
    match reader.next()? {
        // 1 is NoCache, the only policy there is.
        Some(part) if part.typ == t::LP_CACHE_POLICY_TYPE && part.integer()? == 1 => Ok(true),
        Some(part) => Err(Error::new(Fault::FieldValue, part.start)),
        None => Err(Error::new(Fault::MissingField, field.start)),
    }
}

/// A link header to be written in front of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct LpHeader<'a> {
    /// See [`LpPacket::sequence`].
    pub sequence: Option<u64>,
    /// Index and count, when fragmented.
    pub fragment: Option<(u64, u64)>,
    /// See [`LpPacket::pit_token`].
    pub pit_token: Token,
    /// See [`LpPacket::nack`].
    pub nack: Option<NackReason>,
    /// See [`LpPacket::incoming_face_id`].
    pub incoming_face_id: Option<u64>,
    /// See [`LpPacket::next_hop_face_id`].
    pub next_hop_face_id: Option<u64>,
    /// See [`LpPacket::no_cache`].
    pub no_cache: bool,
    /// See [`LpPacket::congestion_mark`].
    pub congestion_mark: u64,
    /// Transmissions acknowledged.
    pub acks: &'a [u64],
    /// See [`LpPacket::tx_sequence`].
    pub tx_sequence: Option<u64>,
    /// See [`LpPacket::non_discovery`].
    pub non_discovery: bool,
    /// See [`LpPacket::prefix_announcement`].
    pub prefix_announcement: Option<&'a [u8]>,
}

impl LpHeader<'_> {
    /// True when a bare packet says as much.
    pub fn is_empty(&self) -> bool {
        self.sequence.is_none()
            && self.fragment.is_none()
            && self.pit_token.is_none()
            && self.nack.is_none()
            && self.incoming_face_id.is_none()
            && self.next_hop_face_id.is_none()
            && !self.no_cache
            && self.congestion_mark == 0
            && self.acks.is_empty()
            && self.tx_sequence.is_none()
            && !self.non_discovery
            && self.prefix_announcement.is_none()
    }

    /// Appends all that stands before a payload of `payload_len` octets, up to and with the head of Fragment; the payload is to follow.
    /// With `payload_len` 0 there is no Fragment: an idle packet.
    pub fn encode(&self, payload_len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        // Room for the outer type and a length of three octets; shortened below where one octet does.
        out.extend_from_slice(&[0; 4]);
        if let Some(sequence) = self.sequence {
            push_tlv(t::LP_SEQUENCE, &sequence.to_be_bytes(), out);
        }
        if let Some((index, count)) = self.fragment {
            push_integer(t::LP_FRAG_INDEX, index, out);
            push_integer(t::LP_FRAG_COUNT, count, out);
        }
        if !self.pit_token.is_none() {
            push_tlv(t::LP_PIT_TOKEN, self.pit_token.as_bytes(), out);
        }
        if let Some(reason) = self.nack {
            // python-ndn takes a Nack without a reason for an Interest, so there always is one.
            let mut inner = [0; 8];
            let head = put_number(u64::from(t::LP_NACK_REASON), &mut inner);
            inner[head] = 1;
            inner[head + 1] = reason.number() as u8;
            push_tlv(t::LP_NACK, &inner[..head + 2], out);
        }
        if let Some(face) = self.incoming_face_id {
            push_integer(t::LP_INCOMING_FACE_ID, face, out);
        }
        if let Some(face) = self.next_hop_face_id {
            push_integer(t::LP_NEXT_HOP_FACE_ID, face, out);
        }
        if self.no_cache {
            push_tlv(t::LP_CACHE_POLICY, &[0xfd, 0x03, 0x35, 1, 1], out);
        }
        if self.congestion_mark != 0 {
            push_integer(t::LP_CONGESTION_MARK, self.congestion_mark, out);
        }
        for ack in self.acks {
            push_tlv(t::LP_ACK, &ack.to_be_bytes(), out);
        }
        if let Some(sequence) = self.tx_sequence {
            push_tlv(t::LP_TX_SEQUENCE, &sequence.to_be_bytes(), out);
        }
        if self.non_discovery {
            push_tlv(t::LP_NON_DISCOVERY, &[], out);
        }
        if let Some(announcement) = self.prefix_announcement {
            push_tlv(t::LP_PREFIX_ANNOUNCEMENT, announcement, out);
        }
        if payload_len > 0 {
            push_number(u64::from(t::LP_FRAGMENT), out);
            push_number(payload_len as u64, out);
        }
        let mut head = [0; 10];
        head[0] = t::LP_PACKET as u8;
        let body_len = out.len() - start - 4 + payload_len;
        let head_len = 1 + put_number(body_len as u64, &mut head[1..]);
        let body_start = start + 4;
        out.copy_within(body_start.., start + head_len);
        out.truncate(out.len() + head_len - 4);
        out[start..start + head_len].copy_from_slice(&head[..head_len]);
    }
}
