//! Interest: what is asked for, and how.
//!
//! NDN Packet Format 0.3, section "Interest Packet". Fields in fixed order; a critical field out of order or repeated makes the packet
//! invalid, a non-critical one there is skipped.

use crate::signature::{Sign, SignatureInfo};
use crate::{PACKET_LEN_MAX, sha256, types as t};
use nw_name::tlv::{Error, Fault, Reader, Tlv, push_integer, push_number, push_tlv};
use nw_name::{Component, ComponentType, Name, NameRef};

/// InterestLifetime of an Interest that names none, in milliseconds.
pub const LIFETIME_DEFAULT_MS: u64 = 4000;

/// A checked Interest.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    wire: &'a [u8],
    name: NameRef<'a>,
    name_start: usize,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: Option<(&'a [u8], usize)>,
    nonce: Option<(u32, usize)>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<(u8, usize)>,
    parameters: Option<(&'a [u8], usize)>,
    signature: Option<Signed<'a>>,
    digest: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct Signed<'a> {
    info: SignatureInfo<'a>,
    info_end: usize,
    value: &'a [u8],
}

impl<'a> Interest<'a> {
    /// Checks one whole Interest packet and nothing behind it.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn check(wire: &'a [u8]) -> Result<Self, Error> {
        Self::check_with(wire, |_, _, _| {})
    }

    /// As [`check`](Self::check); shows each name component on the way, as [`NameRef::check_with`] does.
    #[inline]
    pub fn check_with(wire: &'a [u8], each: impl FnMut(ComponentType, &'a [u8], usize)) -> Result<Self, Error> {
        let body = crate::data::outer(wire, t::INTEREST)?;
        let mut reader = Reader::new(body.value, body.value_start);
        let name = reader.next()?.filter(|e| e.typ == t::NAME).ok_or(Error::new(Fault::MissingField, body.value_start))?;
        let mut interest = Interest {
            wire,
            name: NameRef::check_with(name.value, name.value_start, each)?,
            name_start: name.value_start,
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: None,
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            parameters: None,
            signature: None,
            digest: None,
        };
        if interest.name.is_empty() {
            return Err(Error::new(Fault::NameEmpty, name.start));
        }
        interest.fields(&mut reader)?;
        interest.check_digest()?;
        Ok(interest)
    }

    fn fields(&mut self, reader: &mut Reader<'a>) -> Result<(), Error> {
        // Position in the fixed order of the last field taken.
        let mut last = 0;
        let mut signature_info = None;
        while let Some(field) = reader.next()? {
            let position = match field.typ {
                t::CAN_BE_PREFIX => 1,
                t::MUST_BE_FRESH => 2,
                t::FORWARDING_HINT => 3,
                t::NONCE => 4,
                t::INTEREST_LIFETIME => 5,
                t::HOP_LIMIT => 6,
                t::APPLICATION_PARAMETERS => 7,
                t::INTEREST_SIGNATURE_INFO => 8,
                t::INTEREST_SIGNATURE_VALUE => 9,
                t::NAME => return Err(Error::new(Fault::FieldOrder, field.start)),
                _ if field.is_critical() => return Err(Error::new(Fault::UnknownCritical, field.start)),
                _ => continue,
            };
            if position <= last {
                if field.is_critical() {
                    return Err(Error::new(Fault::FieldOrder, field.start));
                }
                continue;
            }
            last = position;
            match field.typ {
                t::CAN_BE_PREFIX => self.can_be_prefix = empty(&field)?,
                t::MUST_BE_FRESH => self.must_be_fresh = empty(&field)?,
                t::FORWARDING_HINT => {
                    check_hint(&field)?;
                    self.forwarding_hint = Some((field.value, field.value_start));
                }
                t::NONCE => self.nonce = Some((u32::from_be_bytes(field.array()?), field.value_start)),
                t::INTEREST_LIFETIME => self.lifetime_ms = Some(field.integer()?),
                t::HOP_LIMIT => self.hop_limit = Some((field.array::<1>()?[0], field.value_start)),
                t::APPLICATION_PARAMETERS => self.parameters = Some((field.value, field.start)),
                t::INTEREST_SIGNATURE_INFO => {
                    signature_info = Some((SignatureInfo::check(field.value, field.value_start)?, field));
                }
                _ => {
                    let (info, info_field) =
                        signature_info.ok_or(Error::new(Fault::SignatureIncomplete, field.start))?;
                    self.signature = Some(Signed { info, info_end: info_field.end(), value: field.value });
                }
            }
        }
        match (signature_info, self.signature) {
            (Some((_, field)), None) => Err(Error::new(Fault::SignatureIncomplete, field.start)),
            _ => Ok(()),
        }
    }

    /// "If ApplicationParameters is present, the name must have exactly one ParametersSha256DigestComponent, which must equal the SHA-256
    /// over ApplicationParameters and everything behind it."
    fn check_digest(&mut self) -> Result<(), Error> {
        let mut components = self.name.components();
        let mut start = 0;
        let mut digest = None;
        // Most names have no octet 2 where a type could stand; the walk is cheap all the same.
        while let Some(component) = components.next() {
            if component.typ() == ComponentType::PARAMETERS_DIGEST {
                if digest.is_some() {
                    return Err(Error::new(Fault::DigestPlace, self.name_start + start));
                }
                digest = Some((start, component.value()));
            }
            start = components.consumed();
        }
        match (digest, self.parameters) {
            (None, None) => Ok(()),
            (Some((at, _)), None) => Err(Error::new(Fault::DigestPlace, self.name_start + at)),
            (None, Some((_, at))) => Err(Error::new(Fault::DigestPlace, at)),
            (Some((at, value)), Some((_, parameters))) => {
                self.digest = Some((at, at + 2 + 32));
                if sha256(&[&self.wire[parameters..]]) == value {
                    Ok(())
                } else {
                    Err(Error::new(Fault::DigestMismatch, self.name_start + at))
                }
            }
        }
    }

    /// The whole packet.
    pub const fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// What is asked for.
    pub const fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Where the name's TLV-VALUE starts in the packet.
    pub const fn name_start(&self) -> usize {
        self.name_start
    }

    /// A Data whose name is longer may answer.
    pub const fn can_be_prefix(&self) -> bool {
        self.can_be_prefix
    }

    /// Only a Data within its FreshnessPeriod may answer from a cache.
    pub const fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }

    /// The names in ForwardingHint, in order; none when the field is absent.
    pub fn forwarding_hint(&self) -> HintNames<'a> {
        HintNames { reader: Reader::new(self.forwarding_hint.map_or(&[], |(value, _)| value), 0) }
    }

    /// ForwardingHint's TLV-VALUE and where it starts.
    pub const fn forwarding_hint_value(&self) -> Option<(&'a [u8], usize)> {
        self.forwarding_hint
    }

    /// Tells copies of one Interest from another Interest of the same name.
    pub fn nonce(&self) -> Option<u32> {
        self.nonce.map(|(nonce, _)| nonce)
    }

    /// Where the four octets of the nonce start in the packet.
    pub fn nonce_start(&self) -> Option<usize> {
        self.nonce.map(|(_, start)| start)
    }

    /// InterestLifetime in milliseconds, 4000 when absent.
    pub fn lifetime_ms(&self) -> u64 {
        self.lifetime_ms.unwrap_or(LIFETIME_DEFAULT_MS)
    }

    /// How many hops it may still take.
    pub fn hop_limit(&self) -> Option<u8> {
        self.hop_limit.map(|(limit, _)| limit)
    }

    /// Where the hop limit's octet stands in the packet.
    pub fn hop_limit_start(&self) -> Option<usize> {
        self.hop_limit.map(|(_, start)| start)
    }

    /// ApplicationParameters' TLV-VALUE.
    pub fn parameters(&self) -> Option<&'a [u8]> {
        self.parameters.map(|(value, _)| value)
    }

    /// InterestSignatureInfo, when the Interest is signed by format 0.3.
    pub fn signature_info(&self) -> Option<SignatureInfo<'a>> {
        self.signature.map(|s| s.info)
    }

    /// InterestSignatureValue's TLV-VALUE.
    pub fn signature_value(&self) -> Option<&'a [u8]> {
        self.signature.map(|s| s.value)
    }

    /// What the signature covers: the name's components but for the parameters digest, then ApplicationParameters to
    /// InterestSignatureInfo. `None` when not signed.
    pub fn signed_portion(&self) -> Option<[&'a [u8]; 3]> {
        let (signature, (from, to), (_, parameters)) = (self.signature?, self.digest?, self.parameters?);
        let name = self.name.as_bytes();
        Some([&name[..from], &name[to..], &self.wire[parameters..signature.info_end]])
    }

    /// True when a Data of this name (and, if asked for, this whole-packet digest) answers the Interest; freshness aside.
    pub fn is_answered_by(&self, data: NameRef<'_>, digest: impl FnOnce() -> [u8; 32]) -> bool {
        let name = self.name.as_bytes();
        if self.can_be_prefix && self.name.is_prefix_of(data) || name == data.as_bytes() {
            return true;
        }
        match name.strip_prefix(data.as_bytes()) {
            // `01 20` and 32 octets: an ImplicitSha256DigestComponent.
            Some([1, 32, value @ ..]) if value.len() == 32 => value == digest(),
            _ => false,
        }
    }
}

fn empty(field: &Tlv<'_>) -> Result<bool, Error> {
    if field.value.is_empty() { Ok(true) } else { Err(Error::new(Fault::FieldLength, field.start)) }
}

/// Names; the Delegation elements of packet format 0.2 are still read.
fn check_hint(field: &Tlv<'_>) -> Result<(), Error> {
    let mut reader = field.inner();
    while let Some(element) = reader.next()? {
        match element.typ {
            t::NAME => drop(NameRef::check_with(element.value, element.value_start, |_, _, _| {})?),
            t::DELEGATION => {
                let mut inner = element.inner();
                let mut named = false;
                while let Some(part) = inner.next()? {
                    if part.typ == t::NAME {
                        NameRef::check_with(part.value, part.value_start, |_, _, _| {})?;
                        named = true;
                    }
                }
                if !named {
                    return Err(Error::new(Fault::MissingField, element.start));
                }
            }
            _ if element.is_critical() => return Err(Error::new(Fault::UnknownCritical, element.start)),
            _ => {}
        }
    }
    Ok(())
}

/// The names of a checked ForwardingHint.
#[derive(Clone, Debug)]
pub struct HintNames<'a> {
    reader: Reader<'a>,
}

impl<'a> HintNames<'a> {
    /// Over the TLV-VALUE of a ForwardingHint that was checked with its Interest.
    pub const fn from_checked(value: &'a [u8]) -> Self {
        HintNames { reader: Reader::new(value, 0) }
    }
}

impl<'a> Iterator for HintNames<'a> {
    type Item = NameRef<'a>;

    fn next(&mut self) -> Option<NameRef<'a>> {
        while let Some(element) = self.reader.next().ok()? {
            match element.typ {
                t::NAME => return Some(NameRef::from_checked(element.value)),
                t::DELEGATION => {
                    let mut inner = Reader::new(element.value, 0);
                    while let Some(part) = inner.next().ok()? {
                        if part.typ == t::NAME {
                            return Some(NameRef::from_checked(part.value));
                        }
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Makes Interests.
#[derive(Clone, Debug)]
pub struct InterestBuilder {
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: Vec<Name>,
    nonce: Option<u32>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
    parameters: Option<Vec<u8>>,
}

impl InterestBuilder {
    /// For a name, without any other field.
    pub fn new(name: impl Into<Name>) -> Self {
        InterestBuilder {
            name: name.into(),
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: Vec::new(),
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            parameters: None,
        }
    }

    /// Sets CanBePrefix.
    #[must_use]
    pub fn can_be_prefix(mut self, yes: bool) -> Self {
        self.can_be_prefix = yes;
        self
    }

    /// Sets MustBeFresh.
    #[must_use]
    pub fn must_be_fresh(mut self, yes: bool) -> Self {
        self.must_be_fresh = yes;
        self
    }

    /// Adds a name to ForwardingHint.
    #[must_use]
    pub fn forwarding_hint(mut self, name: impl Into<Name>) -> Self {
        self.forwarding_hint.push(name.into());
        self
    }

    /// Sets the nonce.
    #[must_use]
    pub fn nonce(mut self, nonce: u32) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// Sets InterestLifetime.
    #[must_use]
    pub fn lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.lifetime_ms = Some(lifetime_ms);
        self
    }

    /// Sets HopLimit.
    #[must_use]
    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = Some(hop_limit);
        self
    }

    /// Sets ApplicationParameters; the digest component is added to the name when encoding.
    #[must_use]
    pub fn parameters(mut self, parameters: impl Into<Vec<u8>>) -> Self {
        self.parameters = Some(parameters.into());
        self
    }

    /// The packet.
    pub fn encode(self) -> Vec<u8> {
        let mut tail = Vec::new();
        if let Some(parameters) = &self.parameters {
            push_tlv(t::APPLICATION_PARAMETERS, parameters, &mut tail);
        }
        self.finish(tail)
    }

    /// The packet, signed by format 0.3. `fields` are elements for InterestSignatureInfo behind the signer's own (SignatureNonce,
    /// SignatureTime, SignatureSeqNum), already encoded.
    ///
    /// # Errors
    /// The signer's.
    pub fn encode_signed<S: Sign + ?Sized>(self, signer: &S, fields: &[u8]) -> Result<Vec<u8>, S::Error> {
        let mut tail = Vec::new();
        push_tlv(t::APPLICATION_PARAMETERS, self.parameters.as_deref().unwrap_or(&[]), &mut tail);
        let mut info = signer.info();
        info.extend_from_slice(fields);
        push_tlv(t::INTEREST_SIGNATURE_INFO, &info, &mut tail);
        let value = signer.sign(&[self.name.as_ref().as_bytes(), &tail])?;
        push_tlv(t::INTEREST_SIGNATURE_VALUE, &value, &mut tail);
        Ok(self.finish(tail))
    }

    /// `tail` is ApplicationParameters and all behind it.
    fn finish(mut self, tail: Vec<u8>) -> Vec<u8> {
        if !tail.is_empty() {
            let digest = sha256(&[&tail]);
            self.name.push(Component::new(ComponentType::PARAMETERS_DIGEST, &digest).expect("a digest of 32 octets"));
        }
        let mut body = Vec::with_capacity(self.name.as_ref().as_bytes().len() + tail.len() + 48);
        self.name.as_ref().encode(&mut body);
        if self.can_be_prefix {
            push_tlv(t::CAN_BE_PREFIX, &[], &mut body);
        }
        if self.must_be_fresh {
            push_tlv(t::MUST_BE_FRESH, &[], &mut body);
        }
        if !self.forwarding_hint.is_empty() {
            let mut hint = Vec::new();
            self.forwarding_hint.iter().for_each(|name| name.as_ref().encode(&mut hint));
            push_tlv(t::FORWARDING_HINT, &hint, &mut body);
        }
        if let Some(nonce) = self.nonce {
            push_tlv(t::NONCE, &nonce.to_be_bytes(), &mut body);
        }
        if let Some(lifetime_ms) = self.lifetime_ms {
            push_integer(t::INTEREST_LIFETIME, lifetime_ms, &mut body);
        }
        if let Some(hop_limit) = self.hop_limit {
            push_tlv(t::HOP_LIMIT, &[hop_limit], &mut body);
        }
        body.extend_from_slice(&tail);
        let mut wire = Vec::with_capacity(body.len() + 4);
        push_number(u64::from(t::INTEREST), &mut wire);
        push_number(body.len() as u64, &mut wire);
        wire.extend_from_slice(&body);
        debug_assert!(wire.len() <= PACKET_LEN_MAX || Interest::check(&wire).is_err());
        wire
    }
}
