//! Type-Length-Value: the numbers, a reader that never panics, a writer.
//!
//! NDN Packet Format 0.3, section "TLV encoding": numbers are minimal, a type is 1..=2^32-1, a length counts octets.

use alloc::vec::Vec;
use core::fmt;

/// What is wrong with some bytes. Closed, so that a router can count by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    /// The bytes end before the element does.
    Truncated,
    /// A type or length number uses more octets than it needs.
    NumberNotMinimal,
    /// A type of 0 or above 2^32-1, or a component type outside 1..=65535.
    TypeRange,
    /// Longer than a packet may be (8800 octets).
    TooLong,
    /// Octets follow where the element should end.
    Trailing,
    /// The outermost type is none a router knows.
    UnknownPacket,
    /// A required field is absent.
    MissingField,
    /// A critical field stands where it may not: repeated or out of order.
    FieldOrder,
    /// A critical type nobody defined.
    UnknownCritical,
    /// A number of 3, 5, 6, 7 or more than 8 octets, or none.
    NumberLength,
    /// A field of fixed size has another size.
    FieldLength,
    /// A field's value is outside what it may be.
    FieldValue,
    /// A Name without components where one is needed.
    NameEmpty,
    /// A digest component that is not 32 octets.
    DigestLength,
    /// More than one parameters digest, or one without parameters, or parameters without one.
    DigestPlace,
    /// The parameters digest does not match the parameters.
    DigestMismatch,
    /// A signed Interest whose signature is not whole (info without value, or the reverse).
    SignatureIncomplete,
    /// A link header field that may not stand on this kind of packet.
    LinkField,
    /// A fragment whose index or count can't be.
    FragmentIndex,
}

impl Fault {
    /// Every fault, in counter order.
    pub const ALL: [Fault; 19] = [
        Fault::Truncated,
        Fault::NumberNotMinimal,
        Fault::TypeRange,
        Fault::TooLong,
        Fault::Trailing,
        Fault::UnknownPacket,
        Fault::MissingField,
        Fault::FieldOrder,
        Fault::UnknownCritical,
        Fault::NumberLength,
        Fault::FieldLength,
        Fault::FieldValue,
        Fault::NameEmpty,
        Fault::DigestLength,
        Fault::DigestPlace,
        Fault::DigestMismatch,
        Fault::SignatureIncomplete,
        Fault::LinkField,
        Fault::FragmentIndex,
    ];

    /// The counter's name: lower case, words joined by `_`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fault::Truncated => "truncated",
            Fault::NumberNotMinimal => "number_not_minimal",
            Fault::TypeRange => "type_range",
            Fault::TooLong => "too_long",
            Fault::Trailing => "trailing",
            Fault::UnknownPacket => "unknown_packet",
            Fault::MissingField => "missing_field",
            Fault::FieldOrder => "field_order",
            Fault::UnknownCritical => "unknown_critical",
            Fault::NumberLength => "number_length",
            Fault::FieldLength => "field_length",
            Fault::FieldValue => "field_value",
            Fault::NameEmpty => "name_empty",
            Fault::DigestLength => "digest_length",
            Fault::DigestPlace => "digest_place",
            Fault::DigestMismatch => "digest_mismatch",
            Fault::SignatureIncomplete => "signature_incomplete",
            Fault::LinkField => "link_field",
            Fault::FragmentIndex => "fragment_index",
        }
    }
}

/// Why bytes were refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub fault: Fault,
    /// Octets from the start of the buffer that was checked.
    pub offset: usize,
}

impl Error {
    /// A fault at an offset.
    pub const fn new(fault: Fault, offset: usize) -> Self {
        Error { fault, offset }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at octet {}", self.fault.as_str(), self.offset)
    }
}

impl core::error::Error for Error {}

/// True for types that who doesn't know them may not skip.
#[inline]
pub const fn is_critical(typ: u64) -> bool {
    typ <= 31 || typ & 1 == 1
}

/// Reads one TLV number at `pos`: its value and the position behind it.
#[inline]
pub fn read_number(bytes: &[u8], pos: usize) -> Result<(u64, usize), Error> {
    let truncated = Error::new(Fault::Truncated, pos);
    let first = *bytes.get(pos).ok_or(truncated)?;
    let (value, end, least) = match first {
        0..=252 => return Ok((u64::from(first), pos + 1)),
        253 => {
            let b = bytes.get(pos + 1..pos + 3).ok_or(truncated)?;
            (u64::from(u16::from_be_bytes([b[0], b[1]])), pos + 3, 253)
        }
        254 => {
            let b = bytes.get(pos + 1..pos + 5).ok_or(truncated)?;
            (u64::from(u32::from_be_bytes([b[0], b[1], b[2], b[3]])), pos + 5, 0x1_0000)
        }
        255 => {
            let b = bytes.get(pos + 1..pos + 9).ok_or(truncated)?;
            let value = u64::from_be_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
            (value, pos + 9, 0x1_0000_0000)
        }
    };
    if value < least { Err(Error::new(Fault::NumberNotMinimal, pos)) } else { Ok((value, end)) }
}

/// Reads the type and the length of the element at `pos`: both and where its value starts.
#[inline(always)]
pub(crate) fn read_head(bytes: &[u8], pos: usize) -> Result<(u64, u64, usize), Error> {
    // Nearly every element of a network packet has one octet of each.
    if let Some(&[typ @ 0..=252, len @ 0..=252]) = bytes.get(pos..pos + 2) {
        return Ok((u64::from(typ), u64::from(len), pos + 2));
    }
    read_long_head(bytes, pos)
}

#[inline(never)]
fn read_long_head(bytes: &[u8], pos: usize) -> Result<(u64, u64, usize), Error> {
    let (typ, after) = read_number(bytes, pos)?;
    let (len, value_start) = read_number(bytes, after)?;
    Ok((typ, len, value_start))
}

/// Octets that a TLV number takes.
pub const fn number_len(value: u64) -> usize {
    match value {
        0..=252 => 1,
        253..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Writes a TLV number into `out`, which must be long enough; returns its length.
pub fn put_number(value: u64, out: &mut [u8]) -> usize {
    match number_len(value) {
        1 => out[0] = value as u8,
        3 => {
            out[0] = 253;
            out[1..3].copy_from_slice(&(value as u16).to_be_bytes());
        }
        5 => {
            out[0] = 254;
            out[1..5].copy_from_slice(&(value as u32).to_be_bytes());
        }
        _ => {
            out[0] = 255;
            out[1..9].copy_from_slice(&value.to_be_bytes());
        }
    }
    number_len(value)
}

/// Appends a TLV number.
pub fn push_number(value: u64, out: &mut Vec<u8>) {
    let mut buffer = [0; 9];
    let len = put_number(value, &mut buffer);
    out.extend_from_slice(&buffer[..len]);
}

/// Appends a whole element.
pub fn push_tlv(typ: u32, value: &[u8], out: &mut Vec<u8>) {
    push_number(u64::from(typ), out);
    push_number(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A NonNegativeInteger: 1, 2, 4 or 8 octets, big endian.
#[inline]
pub fn read_integer(value: &[u8], offset: usize) -> Result<u64, Error> {
    match *value {
        [a] => Ok(u64::from(a)),
        [a, b] => Ok(u64::from(u16::from_be_bytes([a, b]))),
        [a, b, c, d] => Ok(u64::from(u32::from_be_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Ok(u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => Err(Error::new(Fault::NumberLength, offset)),
    }
}

/// A NonNegativeInteger in its shortest form.
#[derive(Clone, Copy, Debug)]
pub struct Integer {
    octets: [u8; 8],
    len: u8,
}

impl Integer {
    /// The shortest form of `value`.
    pub const fn new(value: u64) -> Self {
        let len = match value {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        Integer { octets: value.to_be_bytes(), len }
    }

    /// Its octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[8 - self.len as usize..]
    }
}

/// Appends an element that holds a NonNegativeInteger.
pub fn push_integer(typ: u32, value: u64, out: &mut Vec<u8>) {
    push_tlv(typ, Integer::new(value).as_bytes(), out);
}

/// One element, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// TLV-TYPE, 1..=2^32-1.
    pub typ: u32,
    /// TLV-VALUE.
    pub value: &'a [u8],
    /// Where the element starts, from the start of the checked buffer.
    pub start: usize,
    /// Where its value starts, from the same.
    pub value_start: usize,
}

impl Tlv<'_> {
    /// Where the element ends, from the start of the checked buffer.
    pub const fn end(&self) -> usize {
        self.value_start + self.value.len()
    }

    /// Unknown elements of a critical type make a packet invalid, others are skipped.
    pub const fn is_critical(&self) -> bool {
        is_critical(self.typ as u64)
    }

    /// The value as a NonNegativeInteger.
    #[inline]
    pub fn integer(&self) -> Result<u64, Error> {
        read_integer(self.value, self.value_start)
    }

    /// The value as exactly `N` octets.
    #[inline]
    pub fn array<const N: usize>(&self) -> Result<[u8; N], Error> {
        self.value.try_into().map_err(|_| Error::new(Fault::FieldLength, self.start))
    }

    /// A reader over the elements inside.
    pub const fn inner(&self) -> Reader<'_> {
        Reader::new(self.value, self.value_start)
    }
}

/// Reads elements one after the other; errors carry offsets of the outermost buffer.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Over `bytes`, which start at octet `base` of what errors refer to.
    pub const fn new(bytes: &'a [u8], base: usize) -> Self {
        Reader { rest: bytes, offset: base }
    }

    /// Octets from the start of the outermost buffer.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// True when all has been read.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next element, or `None` at the end.
    #[inline(always)]
    #[allow(clippy::should_implement_trait)] // an iterator could be asked again after an error
    pub fn next(&mut self) -> Result<Option<Tlv<'a>>, Error> {
        match *self.rest {
            [] => Ok(None),
            // Nearly every element of a network packet has one octet of type and of length.
            [typ @ 1..=252, len @ 0..=252, ref behind @ ..] if usize::from(len) <= behind.len() => {
                let (value, rest) = behind.split_at(usize::from(len));
                let start = self.offset;
                self.rest = rest;
                self.offset = start + 2 + usize::from(len);
                Ok(Some(Tlv { typ: u32::from(typ), value, start, value_start: start + 2 }))
            }
            _ => self.next_long().map(Some),
        }
    }

    #[inline(never)]
    fn next_long(&mut self) -> Result<Tlv<'a>, Error> {
        let start = self.offset;
        let head = read_head(self.rest, 0);
        let (typ, len, value_pos) = head.map_err(|e| Error::new(e.fault, e.offset + start))?;
        let typ =
            u32::try_from(typ).ok().filter(|typ| *typ != 0).ok_or(Error::new(Fault::TypeRange, start))?;
        let behind = &self.rest[value_pos..];
        let (value, rest) = usize::try_from(len)
            .ok()
            .and_then(|len| behind.split_at_checked(len))
            .ok_or(Error::new(Fault::Truncated, start))?;
        self.rest = rest;
        self.offset = start + value_pos + value.len();
        Ok(Tlv { typ, value, start, value_start: start + value_pos })
    }
}

/// How much of a stream the packet at its head takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The head is a whole element of so many octets.
    Whole(usize),
    /// More octets are needed before the next packet is whole.
    Partial,
}

/// Finds the element at the head of a stream without waiting for its value.
///
/// # Errors
/// When the head can't start a packet of at most `len_max` octets: the stream is lost, as its framing is.
#[inline]
pub fn frame(stream: &[u8], len_max: usize) -> Result<Framing, Error> {
    let partial = |e: Error| if e.fault == Fault::Truncated { Ok(Framing::Partial) } else { Err(e) };
    let (typ, pos) = match read_number(stream, 0) {
        Ok(read) => read,
        Err(e) => return partial(e),
    };
    if typ == 0 || typ > u64::from(u32::MAX) {
        return Err(Error::new(Fault::TypeRange, 0));
    }
    let (len, pos) = match read_number(stream, pos) {
        Ok(read) => read,
        Err(e) => return partial(e),
    };
    if len > len_max as u64 || pos + len as usize > len_max {
        return Err(Error::new(Fault::TooLong, 0));
    }
    let whole = pos + len as usize;
    Ok(if stream.len() >= whole { Framing::Whole(whole) } else { Framing::Partial })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn numbers_are_minimal() {
        for (bytes, value) in [
            (vec![252], 252),
            (vec![253, 0, 253], 253),
            (vec![254, 0, 1, 0, 0], 65536),
            (vec![255, 0, 0, 0, 1, 0, 0, 0, 0], 1 << 32),
        ] {
            assert_eq!(read_number(&bytes, 0), Ok((value, bytes.len())));
            let mut out = vec![];
            push_number(value, &mut out);
            assert_eq!(out, bytes);
        }
        for bytes in [vec![253, 0, 252], vec![254, 0, 0, 255, 255], vec![255, 0, 0, 0, 0, 255, 255, 255, 255]]
        {
            assert_eq!(read_number(&bytes, 0), Err(Error::new(Fault::NumberNotMinimal, 0)));
        }
        assert_eq!(read_number(&[253, 1], 0), Err(Error::new(Fault::Truncated, 0)));
        assert_eq!(read_number(&[], 0), Err(Error::new(Fault::Truncated, 0)));
    }

    #[test]
    fn frame_refuses_lengths_without_reserving() {
        assert_eq!(frame(&[5, 2, 7], 8800), Ok(Framing::Partial));
        assert_eq!(frame(&[5, 2, 7, 0, 9], 8800), Ok(Framing::Whole(4)));
        assert_eq!(
            frame(&[5, 255, 255, 255, 255, 255, 255, 255, 255, 255], 8800),
            Err(Error::new(Fault::TooLong, 0))
        );
        assert_eq!(frame(&[0, 1], 8800), Err(Error::new(Fault::TypeRange, 0)));
    }

    #[test]
    fn integers_are_1_2_4_or_8_octets() {
        assert_eq!(read_integer(&[0, 1], 0), Ok(1));
        for len in [0, 3, 5, 6, 7, 9] {
            assert_eq!(read_integer(&vec![1; len], 4), Err(Error::new(Fault::NumberLength, 4)));
        }
        assert_eq!(Integer::new(255).as_bytes(), [255]);
        assert_eq!(Integer::new(256).as_bytes(), [1, 0]);
        assert_eq!(Integer::new(0).as_bytes(), [0]);
    }
}
