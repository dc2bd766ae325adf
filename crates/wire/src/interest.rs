//! Interest packets: the name requested, and how it may be answered.
//!
//! NDN Packet Format 0.3, section "Interest Packet". Fields have a fixed order. A critical field
//! out of order or repeated makes the packet invalid; a non-critical one is skipped.

use crate::signature::SignatureInfo;
use crate::span::Span;
use crate::{sha256, types as t};
use core::ops::Range;
use nw_name::tlv::{Error, Fault, Reader, Tlv};
use nw_name::{HashKey, NameRef, ParametersDigests, PrefixHashes};

pub use crate::interest_builder::InterestBuilder;

/// InterestLifetime of an Interest without that field, in milliseconds.
pub const LIFETIME_DEFAULT_MS: u64 = 4000;

/// Length of a ParametersSha256DigestComponent in bytes: `02 20` and the digest.
const DIGEST_COMPONENT_LEN: usize = 34;

/// A checked Interest packet. It stores byte ranges instead of slices, so that it fits in two cache
/// lines.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    wire: &'a [u8],
    name: NameRef<'a>,
    lifetime_ms: u64,
    name_start: u16,
    digest_end: u16,
    nonce_start: u16,
    hop_limit_start: u16,
    forwarding_hint: Span,
    /// Offset of the ApplicationParameters element.
    parameters_start: u16,
    parameters: Span,
    signature_info: Span,
    signature_value: Span,
    can_be_prefix: bool,
    must_be_fresh: bool,
}

impl<'a> Interest<'a> {
    /// Checks one whole Interest packet without trailing bytes.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn check(wire: &'a [u8]) -> Result<Self, Error> {
        Self::check_by(wire, |place| {
            let mut digests = ParametersDigests::default();
            NameRef::check_with(&wire[place.clone()], place.start, |typ, _, end| {
                digests.push(typ, end)
            })?;
            Ok(digests)
        })
    }

    /// As [`check`](Self::check), and computes the hashes of the name's prefixes.
    ///
    /// # Errors
    /// The fault and its byte offset; `prefixes` is then undefined.
    #[inline(always)]
    pub fn check_hashing(
        wire: &'a [u8],
        key: &HashKey,
        prefixes: &mut PrefixHashes,
    ) -> Result<Self, Error> {
        Self::check_by(wire, |place| prefixes.read(key, wire, place))
    }

    /// `check_name` gets the byte range of the name's TLV-VALUE.
    #[inline(always)]
    fn check_by(
        wire: &'a [u8],
        check_name: impl FnOnce(Range<usize>) -> Result<ParametersDigests, Error>,
    ) -> Result<Self, Error> {
        let body = crate::data::outer(wire, t::INTEREST)?;
        let mut reader = Reader::new(body.value, body.value_start);
        let name = crate::data::leading_name(&mut reader)?;
        let digests = check_name(name.value_start..name.end())?;
        let name_ref = NameRef::from_checked(name.value);
        if name_ref.is_empty() {
            return Err(Error::new(Fault::NameEmpty, name.start));
        }
        let mut interest = Interest {
            wire,
            name: name_ref,
            lifetime_ms: LIFETIME_DEFAULT_MS,
            name_start: name.value_start as u16,
            digest_end: digests.first_end,
            nonce_start: 0,
            hop_limit_start: 0,
            forwarding_hint: Span::NONE,
            parameters_start: 0,
            parameters: Span::NONE,
            signature_info: Span::NONE,
            signature_value: Span::NONE,
            can_be_prefix: false,
            must_be_fresh: false,
        };
        if digests.last_end != 0 {
            let place = name.value_start + usize::from(digests.last_end) - DIGEST_COMPONENT_LEN;
            return Err(Error::new(Fault::DigestPlace, place));
        }
        interest.fields(reader)?;
        if digests.first_end != 0 || interest.parameters.is_some() {
            interest.check_digest()?;
        }
        Ok(interest)
    }

    /// Reads and checks the fields after the name.
    #[inline(always)]
    fn fields(&mut self, mut reader: Reader<'a>) -> Result<(), Error> {
        // Position of the last field in the fixed order.
        let mut last = 0;
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
                _ if field.is_critical() => {
                    return Err(Error::new(Fault::UnknownCritical, field.start));
                }
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
                    self.forwarding_hint = Span::of(&field);
                }
                t::NONCE => {
                    field.array::<4>()?;
                    self.nonce_start = field.value_start as u16;
                }
                t::INTEREST_LIFETIME => self.lifetime_ms = field.integer()?,
                t::HOP_LIMIT => {
                    field.array::<1>()?;
                    self.hop_limit_start = field.value_start as u16;
                }
                t::APPLICATION_PARAMETERS => {
                    self.parameters_start = field.start as u16;
                    self.parameters = Span::of(&field);
                }
                t::INTEREST_SIGNATURE_INFO => {
                    SignatureInfo::check_only(field.value, field.value_start)?;
                    self.signature_info = Span::of(&field);
                }
                _ => self.signature_value = Span::of(&field),
            }
        }
        // "[ApplicationParameters [InterestSignature]]": both signature elements or none, and none
        // without parameters.
        let (info, value) = (self.signature_info.is_some(), self.signature_value.is_some());
        if info != value || info && !self.parameters.is_some() {
            return Err(Error::new(Fault::SignatureIncomplete, self.wire.len()));
        }
        Ok(())
    }

    /// "If ApplicationParameters is present, the name must have exactly one
    /// ParametersSha256DigestComponent, which must equal the SHA-256 over ApplicationParameters and
    /// everything behind it."
    #[cold]
    fn check_digest(&self) -> Result<(), Error> {
        let place = self
            .name_start()
            .saturating_add(usize::from(self.digest_end))
            .saturating_sub(DIGEST_COMPONENT_LEN);
        let start = usize::from(self.parameters_start);
        match (self.digest_end, self.parameters.is_some()) {
            (0, false) => Ok(()),
            (_, false) => Err(Error::new(Fault::DigestPlace, place)),
            (0, true) => Err(Error::new(Fault::DigestPlace, start)),
            (end, true) => {
                let end = usize::from(end);
                if sha256(&[&self.wire[start..]]) == self.name.as_bytes()[end - 32..end] {
                    Ok(())
                } else {
                    Err(Error::new(Fault::DigestMismatch, place))
                }
            }
        }
    }

    /// Returns the whole packet.
    pub const fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// Returns the name.
    pub const fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Returns the offset of the name's TLV-VALUE.
    pub const fn name_start(&self) -> usize {
        self.name_start as usize
    }

    /// Returns the byte range of the name's TLV-VALUE.
    #[inline]
    pub const fn name_span(&self) -> Span {
        Span { start: self.name_start, len: self.name.as_bytes().len() as u16 }
    }

    /// Returns CanBePrefix: whether a Data with a longer name may answer.
    pub const fn can_be_prefix(&self) -> bool {
        self.can_be_prefix
    }

    /// Returns MustBeFresh: whether only a Data within its FreshnessPeriod may answer from a cache.
    pub const fn must_be_fresh(&self) -> bool {
        self.must_be_fresh
    }

    /// Returns the names in ForwardingHint, in order; none if it is absent.
    pub fn forwarding_hint(&self) -> HintNames<'a> {
        HintNames::from_checked(self.forwarding_hint.in_bytes(self.wire))
    }

    /// Returns the byte range of ForwardingHint's TLV-VALUE; [`Span::NONE`] when the field is
    /// absent.
    #[inline]
    pub const fn forwarding_hint_span(&self) -> Span {
        self.forwarding_hint
    }

    /// Returns the nonce, which distinguishes copies of one Interest from other Interests with the
    /// same name.
    #[inline]
    pub fn nonce(&self) -> Option<u32> {
        let bytes = self.wire[self.nonce_start()?..].first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    /// Returns the offset of the nonce's 4 bytes.
    #[inline]
    pub fn nonce_start(&self) -> Option<usize> {
        (self.nonce_start != 0).then_some(usize::from(self.nonce_start))
    }

    /// Returns InterestLifetime in milliseconds; 4000 if absent.
    #[inline]
    pub fn lifetime_ms(&self) -> u64 {
        self.lifetime_ms
    }

    /// Returns the remaining number of hops.
    pub fn hop_limit(&self) -> Option<u8> {
        self.hop_limit_start().map(|start| self.wire[start])
    }

    /// Returns the offset of the hop limit's byte.
    #[inline]
    pub fn hop_limit_start(&self) -> Option<usize> {
        (self.hop_limit_start != 0).then_some(usize::from(self.hop_limit_start))
    }

    /// Returns ApplicationParameters' TLV-VALUE.
    pub fn parameters(&self) -> Option<&'a [u8]> {
        self.parameters.is_some().then(|| self.parameters.in_bytes(self.wire))
    }

    /// Returns InterestSignatureInfo, if the Interest is signed as in format 0.3.
    pub fn signature_info(&self) -> Option<SignatureInfo<'a>> {
        let info = self.signature_info;
        info.is_some()
            .then(|| SignatureInfo::from_checked(info.in_bytes(self.wire), info.start.into()))
    }

    /// Returns InterestSignatureValue's TLV-VALUE.
    pub fn signature_value(&self) -> Option<&'a [u8]> {
        self.signature_value.is_some().then(|| self.signature_value.in_bytes(self.wire))
    }

    /// Returns the signed bytes in three parts: the name's components before and after the
    /// parameters digest, and ApplicationParameters to InterestSignatureInfo. `None` if it is not
    /// signed.
    pub fn signed_portion(&self) -> Option<[&'a [u8]; 3]> {
        if !self.signature_info.is_some() {
            return None;
        }
        let (name, digest_end) = (self.name.as_bytes(), usize::from(self.digest_end));
        let fields = &self.wire[usize::from(self.parameters_start)..self.signature_info.end()];
        Some([&name[..digest_end - DIGEST_COMPONENT_LEN], &name[digest_end..], fields])
    }

    /// Returns whether a Data of this name answers the Interest, apart from freshness. `digest` is
    /// called only if the Interest's name ends with an implicit digest.
    pub fn is_answered_by(&self, data: NameRef<'_>, digest: impl FnOnce() -> [u8; 32]) -> bool {
        let name = self.name.as_bytes();
        if self.can_be_prefix && self.name.is_prefix_of(data) || name == data.as_bytes() {
            return true;
        }
        match name.strip_prefix(data.as_bytes()) {
            // `01 20` and 32 bytes: an ImplicitSha256DigestComponent.
            Some([1, 32, value @ ..]) if value.len() == 32 => value == digest(),
            _ => false,
        }
    }
}

/// Checks that a flag field has no value.
fn empty(field: &Tlv<'_>) -> Result<bool, Error> {
    if field.value.is_empty() { Ok(true) } else { Err(Error::new(Fault::FieldLength, field.start)) }
}

/// Checks the names; Delegation elements of packet format 0.2 are still accepted.
fn check_hint(field: &Tlv<'_>) -> Result<(), Error> {
    let mut reader = field.inner();
    let mut names = 0;
    while let Some(element) = reader.next()? {
        match element.typ {
            t::NAME => {
                NameRef::check_with(element.value, element.value_start, |_, _, _| {})?;
                names += 1;
            }
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
                names += 1;
            }
            _ if element.is_critical() => {
                return Err(Error::new(Fault::UnknownCritical, element.start));
            }
            _ => {}
        }
    }
    // "ForwardingHint = FORWARDING-HINT-TYPE TLV-LENGTH 1*Name"
    if names == 0 { Err(Error::new(Fault::MissingField, field.start)) } else { Ok(()) }
}

/// Iterator over the names of a checked ForwardingHint.
#[derive(Clone, Debug)]
pub struct HintNames<'a> {
    reader: Reader<'a>,
}

impl<'a> HintNames<'a> {
    /// Creates the iterator over the TLV-VALUE of a ForwardingHint that was checked with its
    /// Interest.
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

#[cfg(test)]
mod tests;
