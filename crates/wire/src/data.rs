//! Data: a name, content, and a signature that binds them.
//!
//! NDN Packet Format 0.3, section "Data Packet". All fields are critical; SignatureInfo and SignatureValue must be there.

use crate::signature::{Sign, SignatureInfo};
use crate::{PACKET_LEN_MAX, sha256, types as t};
use nw_name::tlv::{Error, Fault, Reader, Tlv, push_integer, push_number, push_tlv};
use nw_name::{Component, ComponentType, Name, NameRef};

/// A checked Data.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    wire: &'a [u8],
    name: NameRef<'a>,
    name_start: usize,
    content_type: u64,
    freshness_ms: u64,
    final_block: Option<Component<'a>>,
    content: &'a [u8],
    signed: (usize, usize),
    signature_info: SignatureInfo<'a>,
    signature_value: &'a [u8],
}

impl<'a> Data<'a> {
    /// Checks one whole Data packet and nothing behind it.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn check(wire: &'a [u8]) -> Result<Self, Error> {
        Self::check_with(wire, |_, _, _| {})
    }

    /// As [`check`](Self::check); shows each name component on the way, as [`NameRef::check_with`] does.
    #[inline]
    pub fn check_with(wire: &'a [u8], each: impl FnMut(ComponentType, &'a [u8], usize)) -> Result<Self, Error> {
        let body = outer(wire, t::DATA)?;
        let mut reader = Reader::new(body.value, body.value_start);
        let name = reader.next()?.filter(|e| e.typ == t::NAME).ok_or(Error::new(Fault::MissingField, body.value_start))?;
        let name_ref = NameRef::check_with(name.value, name.value_start, each)?;
        let (mut meta, mut content, mut info, mut value) = (Meta::default(), &[][..], None, None);
        let mut last = 0;
        while let Some(field) = reader.next()? {
            let position = match field.typ {
                t::META_INFO => 1,
                t::CONTENT => 2,
                t::SIGNATURE_INFO => 3,
                t::SIGNATURE_VALUE => 4,
                t::NAME => return Err(Error::new(Fault::FieldOrder, field.start)),
                _ if field.is_critical() => return Err(Error::new(Fault::UnknownCritical, field.start)),
                _ => continue,
            };
            if position <= last {
                return Err(Error::new(Fault::FieldOrder, field.start));
            }
            last = position;
            match field.typ {
                t::META_INFO => meta = Meta::check(&field)?,
                t::CONTENT => content = field.value,
                t::SIGNATURE_INFO => {
                    info = Some((SignatureInfo::check(field.value, field.value_start)?, field.end()));
                }
                _ => value = Some(field.value),
            }
        }
        let missing = Error::new(Fault::MissingField, body.end());
        let (signature_info, signed_end) = info.ok_or(missing)?;
        Ok(Data {
            wire,
            name: name_ref,
            name_start: name.value_start,
            content_type: meta.content_type,
            freshness_ms: meta.freshness_ms,
            final_block: meta.final_block,
            content,
            signed: (name.start, signed_end),
            signature_info,
            signature_value: value.ok_or(missing)?,
        })
    }

    /// The whole packet.
    pub const fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// Its name.
    pub const fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Where the name's TLV-VALUE starts in the packet.
    pub const fn name_start(&self) -> usize {
        self.name_start
    }

    /// ContentType, 0 (blob) when absent. Values: [`types::content_type`](crate::types::content_type).
    pub const fn content_type(&self) -> u64 {
        self.content_type
    }

    /// FreshnessPeriod in milliseconds, 0 when absent.
    pub const fn freshness_ms(&self) -> u64 {
        self.freshness_ms
    }

    /// The last component of the last packet of the series this one belongs to.
    pub const fn final_block(&self) -> Option<Component<'a>> {
        self.final_block
    }

    /// Content's TLV-VALUE, empty when absent.
    pub const fn content(&self) -> &'a [u8] {
        self.content
    }

    /// SignatureInfo.
    pub const fn signature_info(&self) -> SignatureInfo<'a> {
        self.signature_info
    }

    /// SignatureValue's TLV-VALUE.
    pub const fn signature_value(&self) -> &'a [u8] {
        self.signature_value
    }

    /// What the signature covers: Name to SignatureInfo.
    pub fn signed_portion(&self) -> &'a [u8] {
        &self.wire[self.signed.0..self.signed.1]
    }

    /// SHA-256 of the whole packet: its implicit digest.
    pub fn digest(&self) -> [u8; 32] {
        sha256(&[self.wire])
    }
}

/// Checks the outermost element of a network packet: type, limit, nothing behind.
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

#[derive(Default)]
struct Meta<'a> {
    content_type: u64,
    freshness_ms: u64,
    final_block: Option<Component<'a>>,
}

impl<'a> Meta<'a> {
    fn check(field: &Tlv<'a>) -> Result<Self, Error> {
        let mut meta = Meta::default();
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
                    let component = NameRef::check_with(part.value, part.value_start, |_, _, _| {})?;
                    let mut components = component.components();
                    meta.final_block = components.next();
                    if meta.final_block.is_none() || components.next().is_some() {
                        return Err(Error::new(Fault::FieldLength, part.start));
                    }
                }
                _ if part.is_critical() => return Err(Error::new(Fault::UnknownCritical, part.start)),
                _ => continue,
            }
            last = part.typ;
        }
        Ok(meta)
    }
}

/// Makes Data packets.
#[derive(Clone, Debug)]
pub struct DataBuilder<'a> {
    name: NameRef<'a>,
    content_type: u64,
    freshness_ms: u64,
    final_block: Option<Component<'a>>,
    content: &'a [u8],
}

impl<'a> DataBuilder<'a> {
    /// A blob of this name.
    pub fn new(name: impl Into<NameRef<'a>>, content: &'a [u8]) -> Self {
        DataBuilder { name: name.into(), content_type: 0, freshness_ms: 0, final_block: None, content }
    }

    /// Sets ContentType.
    #[must_use]
    pub fn content_type(mut self, content_type: u64) -> Self {
        self.content_type = content_type;
        self
    }

    /// Sets FreshnessPeriod.
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

    /// The signed packet. `fields` are elements for SignatureInfo behind the signer's own (such as ValidityPeriod), already encoded.
    ///
    /// # Errors
    /// The signer's.
    pub fn encode_with<S: Sign + ?Sized>(&self, signer: &S, fields: &[u8]) -> Result<Vec<u8>, S::Error> {
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

    /// The signed packet.
    ///
    /// # Errors
    /// The signer's.
    pub fn encode<S: Sign + ?Sized>(&self, signer: &S) -> Result<Vec<u8>, S::Error> {
        self.encode_with(signer, &[])
    }
}

/// The full name of a packet: its name and its implicit digest.
pub fn full_name(data: &Data<'_>) -> Name {
    let digest = data.digest();
    data.name().to_name().with(Component::new(ComponentType::IMPLICIT_DIGEST, &digest).expect("a digest of 32 octets"))
}
