//! Data packets: a name, content, and a signature over both.
//!
//! NDN Packet Format 0.3, section "Data Packet". All fields are critical; SignatureInfo and
//! SignatureValue are required.

use crate::signature::{Sign, SignatureInfo};
use crate::span::Span;
use crate::{PACKET_LEN_MAX, sha256, types as t};
use core::ops::Range;
use nw_name::tlv::{Error, Fault, Reader, Tlv, push_integer, push_number, push_tlv};
use nw_name::{Component, ComponentType, HashKey, Name, NameRef, PrefixHashes};

/// A checked Data packet. It stores byte ranges instead of slices, so that it fits in two cache
/// lines.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    wire: &'a [u8],
    name: NameRef<'a>,
    meta: MetaInfo,
    /// Offset of the Name element, where the signed portion starts.
    signed_start: u16,
    name_start: u16,
    content: Span,
    signature_info: Span,
    signature_value: Span,
}

impl<'a> Data<'a> {
    /// Checks one whole Data packet without trailing bytes.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn check(wire: &'a [u8]) -> Result<Self, Error> {
        Self::check_by(wire, |place| {
            NameRef::check_with(&wire[place.clone()], place.start, |_, _, _| {}).map(drop)
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
        Self::check_by(wire, |place| prefixes.read(key, wire, place).map(drop))
    }

    /// `check_name` gets the byte range of the name's TLV-VALUE.
    #[inline(always)]
    fn check_by(
        wire: &'a [u8],
        check_name: impl FnOnce(Range<usize>) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let body = outer(wire, t::DATA)?;
        let mut reader = Reader::new(body.value, body.value_start);
        let name = leading_name(&mut reader)?;
        check_name(name.value_start..name.end())?;
        let name_ref = NameRef::from_checked(name.value);
        let mut data = Data {
            wire,
            name: name_ref,
            meta: MetaInfo::default(),
            signed_start: name.start as u16,
            name_start: name.value_start as u16,
            content: Span::NONE,
            signature_info: Span::NONE,
            signature_value: Span::NONE,
        };
        data.fields(reader)?;
        Ok(data)
    }

    /// Reads and checks the fields after the name.
    #[inline(always)]
    fn fields(&mut self, mut reader: Reader<'a>) -> Result<(), Error> {
        // Type of the last field: the fixed order is that of the types.
        const { assert!(t::META_INFO < t::CONTENT && t::CONTENT < t::SIGNATURE_INFO) };
        const { assert!(t::SIGNATURE_INFO < t::SIGNATURE_VALUE) };
        let mut last = 0;
        while let Some(field) = reader.next()? {
            match field.typ {
                t::NAME => return Err(Error::new(Fault::FieldOrder, field.start)),
                t::META_INFO | t::CONTENT | t::SIGNATURE_INFO | t::SIGNATURE_VALUE
                    if field.typ <= last =>
                {
                    return Err(Error::new(Fault::FieldOrder, field.start));
                }
                t::META_INFO => self.meta = MetaInfo::check(&field)?,
                t::CONTENT => self.content = Span::of(&field),
                t::SIGNATURE_INFO => {
                    SignatureInfo::check_only(field.value, field.value_start)?;
                    self.signature_info = Span::of(&field);
                }
                t::SIGNATURE_VALUE => self.signature_value = Span::of(&field),
                _ if field.is_critical() => {
                    return Err(Error::new(Fault::UnknownCritical, field.start));
                }
                _ => continue,
            }
            last = field.typ;
        }
        if self.signature_info.is_some() && self.signature_value.is_some() {
            Ok(())
        } else {
            Err(Error::new(Fault::MissingField, self.wire.len()))
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

    /// Returns ContentType; 0 (blob) when absent. Values:
    /// [`types::content_type`](crate::types::content_type).
    pub const fn content_type(&self) -> u64 {
        self.meta.content_type
    }

    /// Returns FreshnessPeriod in milliseconds; 0 when absent.
    pub const fn freshness_ms(&self) -> u64 {
        self.meta.freshness_ms
    }

    /// Returns FinalBlockId: the last name component of the last packet of the series.
    pub fn final_block(&self) -> Option<Component<'a>> {
        NameRef::from_checked(self.meta.final_block.in_bytes(self.wire)).components().next()
    }

    /// Returns Content's TLV-VALUE; empty when absent.
    pub fn content(&self) -> &'a [u8] {
        self.content.in_bytes(self.wire)
    }

    /// Returns SignatureInfo.
    pub fn signature_info(&self) -> SignatureInfo<'a> {
        SignatureInfo::from_checked(
            self.signature_info.in_bytes(self.wire),
            self.signature_info.start.into(),
        )
    }

    /// Returns SignatureValue's TLV-VALUE.
    pub fn signature_value(&self) -> &'a [u8] {
        self.signature_value.in_bytes(self.wire)
    }

    /// Returns the signed bytes: Name to SignatureInfo.
    pub fn signed_portion(&self) -> &'a [u8] {
        &self.wire[usize::from(self.signed_start)..self.signature_info.end()]
    }

    /// Returns the implicit digest: SHA-256 of the whole packet.
    pub fn digest(&self) -> [u8; 32] {
        sha256(&[self.wire])
    }
}

/// Checks the outermost element of a network packet: type, length limit, no trailing bytes.
#[inline]
pub(crate) fn outer(wire: &[u8], typ: u32) -> Result<Tlv<'_>, Error> {
    if wire.len() > PACKET_LEN_MAX {
        return Err(Error::new(Fault::TooLong, PACKET_LEN_MAX));
    }
    let mut reader = Reader::new(wire, 0);
    let element = reader.next()?.ok_or(Error::new(Fault::Truncated, 0))?;
    if element.typ != typ {
        return Err(Error::new(Fault::UnknownPacket, 0));
    }
    if !reader.is_empty() {
        return Err(Error::new(Fault::Trailing, element.end()));
    }
    Ok(element)
}

/// Reads the Name, which comes first in both network packets.
#[inline]
pub(crate) fn leading_name<'a>(reader: &mut Reader<'a>) -> Result<Tlv<'a>, Error> {
    let start = reader.offset();
    reader
        .next()?
        .filter(|element| element.typ == t::NAME)
        .ok_or(Error::new(Fault::MissingField, start))
}

/// The fields of MetaInfo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetaInfo {
    content_type: u64,
    pub(crate) freshness_ms: u64,
    final_block: Span,
}

impl Default for MetaInfo {
    fn default() -> Self {
        MetaInfo { content_type: 0, freshness_ms: 0, final_block: Span::NONE }
    }
}

impl MetaInfo {
    /// Checks a MetaInfo element.
    pub(crate) fn check(field: &Tlv<'_>) -> Result<Self, Error> {
        let mut meta = MetaInfo::default();
        let mut reader = Reader::new(field.value, field.value_start);
        let mut last = 0;
        while let Some(part) = reader.next()? {
            match part.typ {
                t::CONTENT_TYPE | t::FRESHNESS_PERIOD | t::FINAL_BLOCK_ID if part.typ <= last => {
                    return Err(Error::new(Fault::FieldOrder, part.start));
                }
                t::CONTENT_TYPE => meta.content_type = part.integer()?,
                t::FRESHNESS_PERIOD => meta.freshness_ms = part.integer()?,
                t::FINAL_BLOCK_ID => {
                    let component =
                        NameRef::check_with(part.value, part.value_start, |_, _, _| {})?;
                    let mut components = component.components();
                    if components.next().is_none() || components.next().is_some() {
                        return Err(Error::new(Fault::FieldLength, part.start));
                    }
                    meta.final_block = Span::of(&part);
                }
                _ if part.is_critical() => {
                    return Err(Error::new(Fault::UnknownCritical, part.start));
                }
                _ => continue,
            }
            last = part.typ;
        }
        Ok(meta)
    }
}

/// Builds Data packets.
#[derive(Clone, Debug)]
pub struct DataBuilder<'a> {
    name: NameRef<'a>,
    content_type: u64,
    freshness_ms: u64,
    final_block: Option<Component<'a>>,
    content: &'a [u8],
}

impl<'a> DataBuilder<'a> {
    /// Starts a Data with this name and content, of ContentType blob.
    pub fn new(name: impl Into<NameRef<'a>>, content: &'a [u8]) -> Self {
        DataBuilder {
            name: name.into(),
            content_type: 0,
            freshness_ms: 0,
            final_block: None,
            content,
        }
    }

    /// Sets ContentType.
    #[must_use]
    pub fn content_type(mut self, content_type: u64) -> Self {
        self.content_type = content_type;
        self
    }

    /// Sets FreshnessPeriod, milliseconds.
    #[must_use]
    pub fn freshness_ms(mut self, freshness_ms: u64) -> Self {
        self.freshness_ms = freshness_ms;
        self
    }

    /// Sets FinalBlockId.
    #[must_use]
    pub fn final_block(mut self, component: Component<'a>) -> Self {
        self.final_block = Some(component);
        self
    }

    /// Sets FinalBlockId to the last component of `name`.
    #[must_use]
    pub fn final_block_of(mut self, name: NameRef<'a>) -> Self {
        self.final_block = name.component(-1);
        self
    }

    /// Returns the signed packet. If it is longer than [`PACKET_LEN_MAX`], receivers will reject
    /// it. `fields` are encoded elements that follow the signer's own in SignatureInfo, such as
    /// ValidityPeriod.
    ///
    /// # Errors
    /// When the signer can't sign.
    pub fn encode_with<S: Sign + ?Sized>(
        &self,
        signer: &S,
        fields: &[u8],
    ) -> Result<Vec<u8>, S::Error> {
        let mut body = Vec::with_capacity(self.content.len() + self.name.as_bytes().len() + 160);
        self.name.encode(&mut body);
        let mut meta = Vec::new();
        if self.content_type != 0 {
            push_integer(t::CONTENT_TYPE, self.content_type, &mut meta);
        }
        if self.freshness_ms != 0 {
            push_integer(t::FRESHNESS_PERIOD, self.freshness_ms, &mut meta);
        }
        if let Some(component) = self.final_block {
            let mut id = Vec::new();
            component.encode(&mut id);
            push_tlv(t::FINAL_BLOCK_ID, &id, &mut meta);
        }
        if !meta.is_empty() {
            push_tlv(t::META_INFO, &meta, &mut body);
        }
        push_tlv(t::CONTENT, self.content, &mut body);
        let mut info = signer.info();
        info.extend_from_slice(fields);
        push_tlv(t::SIGNATURE_INFO, &info, &mut body);
        let value = signer.sign(&[&body])?;
        push_tlv(t::SIGNATURE_VALUE, &value, &mut body);
        let mut wire = Vec::with_capacity(body.len() + 4);
        push_number(u64::from(t::DATA), &mut wire);
        push_number(body.len() as u64, &mut wire);
        wire.extend_from_slice(&body);
        Ok(wire)
    }

    /// Returns the signed packet.
    ///
    /// # Errors
    /// When the signer can't sign.
    pub fn encode<S: Sign + ?Sized>(&self, signer: &S) -> Result<Vec<u8>, S::Error> {
        self.encode_with(signer, &[])
    }
}

/// Returns the full name of a packet: its name and its implicit digest.
pub fn full_name(data: &Data<'_>) -> Name {
    let digest = data.digest();
    data.name().to_name().with(
        Component::new(ComponentType::IMPLICIT_DIGEST, &digest).expect("a digest of 32 bytes"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::DigestSha256;

    const NAME: &[u8] = &[7, 3, 8, 1, b'a'];
    const INFO: &[u8] = &[22, 3, 27, 1, 0];
    const VALUE: &[u8] = &[23, 1, 9];

    fn data(fields: &[&[u8]]) -> Vec<u8> {
        let mut wire = Vec::new();
        push_tlv(t::DATA, &fields.concat(), &mut wire);
        wire
    }

    fn fault(fields: &[&[u8]]) -> Option<Fault> {
        Data::check(&data(fields)).err().map(|e| e.fault)
    }

    #[test]
    fn all_fields_are_read() {
        let name: Name = "/a/b/seg=1".parse().unwrap();
        let last = Name::new().with_segment(5);
        let wire = DataBuilder::new(&name, b"content")
            .content_type(t::content_type::KEY)
            .freshness_ms(70_000)
            .final_block_of(last.as_ref())
            .encode(&DigestSha256)
            .unwrap();
        let seen = Data::check(&wire).unwrap();
        assert_eq!(seen.name(), name.as_ref());
        assert_eq!((seen.content_type(), seen.freshness_ms()), (2, 70_000));
        assert_eq!(seen.final_block().unwrap().to_string(), "seg=5");
        assert_eq!(seen.content(), b"content");
        assert_eq!(sha256(&[seen.signed_portion()]), seen.signature_value());
        assert_eq!(
            &wire[seen.name_start()..][..seen.name().as_bytes().len()],
            name.as_ref().as_bytes()
        );
        assert_eq!(full_name(&seen).as_ref().component(-1).unwrap().value(), sha256(&[&wire]));
        assert_eq!(seen.wire(), wire);
    }

    #[test]
    fn data_with_required_fields_only_is_valid() {
        let wire = data(&[NAME, INFO, VALUE]);
        let seen = Data::check(&wire).unwrap();
        assert_eq!((seen.content_type(), seen.freshness_ms(), seen.content()), (0, 0, &[][..]));
        assert!(seen.final_block().is_none());
        assert_eq!(seen.signed_portion(), [NAME, INFO].concat());
        assert!(
            Data::check(&data(&[&[7, 0], INFO, VALUE])).is_ok(),
            "only Interests need components"
        );
    }

    #[test]
    fn missing_signature_field_is_rejected() {
        for fields in [&[NAME][..], &[NAME, INFO], &[NAME, VALUE]] {
            assert_eq!(fault(fields), Some(Fault::MissingField));
        }
        assert_eq!(fault(&[INFO, VALUE]), Some(Fault::MissingField));
        assert_eq!(fault(&[NAME, &[22, 0], VALUE]), Some(Fault::MissingField), "no SignatureType");
        assert_eq!(fault(&[NAME, INFO, &[23, 0]]), None, "a Null signature is empty");
    }

    #[test]
    fn field_out_of_order_or_repeated_is_rejected() {
        let fields = [NAME, &[20, 0], &[21, 0], INFO, VALUE];
        assert_eq!(fault(&fields), None);
        for i in 0..fields.len() {
            let mut twice = fields.to_vec();
            twice.insert(i, fields[i]);
            assert_eq!(fault(&twice), Some(Fault::FieldOrder), "field {i} twice");
        }
        for i in 1..fields.len() - 1 {
            let mut swapped = fields.to_vec();
            swapped.swap(i, i + 1);
            assert_eq!(
                fault(&swapped),
                Some(Fault::FieldOrder),
                "fields {i} and {} swapped",
                i + 1
            );
        }
    }

    #[test]
    fn unknown_critical_field_is_rejected() {
        for position in 1..=3 {
            let with = |unknown: &'static [u8]| {
                let mut fields = vec![NAME, INFO, VALUE];
                fields.insert(position, unknown);
                fault(&fields)
            };
            assert_eq!(with(&[10, 0]), Some(Fault::UnknownCritical));
            assert_eq!(with(&[251, 0]), Some(Fault::UnknownCritical));
            assert_eq!(with(&[250, 0]), None);
            assert_eq!(with(&[36, 1, 1]), None);
        }
    }

    #[test]
    fn meta_info() {
        let meta = |inside: &[u8]| {
            let element = [&[20, inside.len() as u8][..], inside].concat();
            fault(&[NAME, &element, INFO, VALUE])
        };
        assert_eq!(meta(&[24, 1, 2, 25, 2, 1, 0, 26, 3, 50, 1, 1]), None);
        assert_eq!(meta(&[25, 1, 1, 24, 1, 0]), Some(Fault::FieldOrder));
        assert_eq!(meta(&[25, 1, 1, 25, 1, 1]), Some(Fault::FieldOrder));
        for len in [0u8, 3, 5, 9] {
            let number = [&[25, len][..], &[0; 9][..usize::from(len)]].concat();
            assert_eq!(meta(&number), Some(Fault::NumberLength));
        }
        assert_eq!(meta(&[26, 0]), Some(Fault::FieldLength), "FinalBlockId without a component");
        assert_eq!(meta(&[26, 4, 8, 0, 8, 0]), Some(Fault::FieldLength), "with two");
        assert_eq!(meta(&[26, 2, 8, 4]), Some(Fault::Truncated));
        assert_eq!(meta(&[24]), Some(Fault::Truncated));
        assert_eq!(meta(&[13, 0]), Some(Fault::UnknownCritical));
        assert_eq!(meta(&[128, 0, 25, 1, 1]), None, "application's own");
    }

    #[test]
    fn inner_length_beyond_outer_is_rejected() {
        // Inner lengths must not exceed the outer one, even if there are bytes.
        assert_eq!(
            Data::check(&[6, 4, 7, 3, 8, 1, b'a']).unwrap_err(),
            Error::new(Fault::Trailing, 6)
        );
        assert_eq!(fault(&[&[7, 200, 8, 1, b'a'], INFO, VALUE]), Some(Fault::Truncated));
        assert_eq!(fault(&[&[7, 3, 8, 2, b'a'], INFO, VALUE]), Some(Fault::Truncated));
        assert_eq!(fault(&[&[7, 4, 8, 253, 0, 1], INFO, VALUE]), Some(Fault::NumberNotMinimal));
        assert_eq!(fault(&[&[7, 2, 0, 0], INFO, VALUE]), Some(Fault::TypeRange));
        assert_eq!(fault(&[&[7, 6, 254, 0, 1, 0, 0, 0], INFO, VALUE]), Some(Fault::TypeRange));
        let wire = data(&[NAME, INFO, VALUE]);
        for end in 0..wire.len() {
            assert_eq!(Data::check(&wire[..end]).unwrap_err().fault, Fault::Truncated, "{end}");
        }
    }

    #[test]
    fn packet_over_8800_bytes_is_rejected() {
        let name: Name = "/a".parse().unwrap();
        let sized =
            |len: usize| DataBuilder::new(&name, &vec![0; len]).encode(&DigestSha256).unwrap();
        let content_len = 8800 - sized(8000).len() + 8000;
        assert!(Data::check(&sized(content_len)).is_ok());
        assert_eq!(Data::check(&sized(content_len + 1)).unwrap_err().fault, Fault::TooLong);
    }
}
