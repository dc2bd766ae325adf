//! Type-Length-Value encoding: numbers, a reader that never panics, a writer.
//!
//! NDN Packet Format 0.3, section "TLV encoding": numbers are minimal, a type is 1 to 2^32-1, a
//! length is a number of bytes.

use alloc::vec::Vec;
use core::fmt;

/// What is wrong with a packet. A closed list, so that a router can count faults of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    /// The bytes end before the element does.
    Truncated,
    /// A type or length number has more bytes than needed.
    NumberNotMinimal,
    /// A type of 0 or above 2^32-1, or a component type outside 1 to 65535.
    TypeRange,
    /// Longer than a packet may be (8800 bytes).
    TooLong,
    /// Bytes follow the end of the element.
    Trailing,
    /// The type of the packet is unknown.
    UnknownPacket,
    /// A required field is absent.
    MissingField,
    /// A critical field is repeated or out of order.
    FieldOrder,
    /// A field of an unknown critical type.
    UnknownCritical,
    /// A number that does not have 1, 2, 4 or 8 bytes.
    NumberLength,
    /// A field of fixed size has another size.
    FieldLength,
    /// The value of a field is out of range.
    FieldValue,
    /// A Name without components where one is required.
    NameEmpty,
    /// A digest component that does not have 32 bytes.
    DigestLength,
    /// More than one parameters digest, or one without parameters, or parameters without a digest.
    DigestPlace,
    /// The parameters digest does not match the parameters.
    DigestMismatch,
    /// A signed Interest with InterestSignatureInfo but no InterestSignatureValue, or the reverse.
    SignatureIncomplete,
    /// A link header field that is not allowed on this kind of packet.
    LinkField,
    /// A fragment with an invalid index or count.
    FragmentIndex,
}

impl Fault {
    /// All faults, in the order of their counters.
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

    /// Returns the name of the counter: lower case, words joined by `_`.
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

/// Why a packet was rejected, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub fault: Fault,
    /// Bytes from the start of the checked buffer.
    pub offset: usize,
}

impl Error {
    /// Returns a fault at an offset.
    pub const fn new(fault: Fault, offset: usize) -> Self {
        Error { fault, offset }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.fault.as_str(), self.offset)
    }
}

impl core::error::Error for Error {}

/// Returns whether elements of this type must not be ignored if unknown (NDN Packet Format 0.3,
/// section "Considerations for Evolvability").
#[inline]
pub const fn is_critical(typ: u64) -> bool {
    typ <= 31 || typ & 1 == 1
}

/// Reads a TLV number at `pos`; returns its value and the position after it.
///
/// # Errors
/// [`Fault::Truncated`] or [`Fault::NumberNotMinimal`].
#[inline]
pub fn read_number(bytes: &[u8], pos: usize) -> Result<(u64, usize), Error> {
    let truncated = Error::new(Fault::Truncated, pos);
    let first = *bytes.get(pos).ok_or(truncated)?;
    let (value, end, value_min) = match first {
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
    if value < value_min { Err(Error::new(Fault::NumberNotMinimal, pos)) } else { Ok((value, end)) }
}

/// Reads the type and the length of the element at `pos`; returns both and the start of its value.
#[inline(always)]
pub(crate) fn read_head(bytes: &[u8], pos: usize) -> Result<(u64, u64, usize), Error> {
    // Usual: one byte of type and of length.
    if let Some(&[typ @ 0..=252, len @ 0..=252]) = bytes.get(pos..pos + 2) {
        return Ok((u64::from(typ), u64::from(len), pos + 2));
    }
    read_head_slow(bytes, pos)
}

#[inline(never)]
fn read_head_slow(bytes: &[u8], pos: usize) -> Result<(u64, u64, usize), Error> {
    let (typ, after) = read_number(bytes, pos)?;
    let (len, value_start) = read_number(bytes, after)?;
    Ok((typ, len, value_start))
}

/// Returns the length of a TLV number, bytes.
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

/// Reads a NonNegativeInteger: 1, 2, 4 or 8 bytes, big endian.
///
/// # Errors
/// [`Fault::NumberLength`] at `offset` if `value` has another length.
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

/// A NonNegativeInteger in its shortest encoding.
#[derive(Clone, Copy, Debug)]
pub struct Integer {
    bytes: [u8; 8],
    len: u8,
}

impl Integer {
    /// Returns the shortest encoding of `value`.
    pub const fn new(value: u64) -> Self {
        let len = match value {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        Integer { bytes: value.to_be_bytes(), len }
    }

    /// Returns the encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[8 - self.len as usize..]
    }
}

/// Appends an element with the value of a NonNegativeInteger.
pub fn push_integer(typ: u32, value: u64, out: &mut Vec<u8>) {
    push_tlv(typ, Integer::new(value).as_bytes(), out);
}

/// A TLV element, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// TLV-TYPE, 1..=2^32-1.
    pub typ: u32,
    /// TLV-VALUE.
    pub value: &'a [u8],
    /// The start of the element, from the start of the checked buffer.
    pub start: usize,
    /// The start of its value, from the start of the checked buffer.
    pub value_start: usize,
}

impl Tlv<'_> {
    /// Returns the end of the element, from the start of the checked buffer.
    pub const fn end(&self) -> usize {
        self.value_start + self.value.len()
    }

    /// Returns whether the type is critical: unknown critical elements make a packet invalid,
    /// others are ignored.
    pub const fn is_critical(&self) -> bool {
        is_critical(self.typ as u64)
    }

    /// Returns the value as a NonNegativeInteger.
    ///
    /// # Errors
    /// [`Fault::NumberLength`] if it is not one.
    #[inline]
    pub fn integer(&self) -> Result<u64, Error> {
        read_integer(self.value, self.value_start)
    }

    /// Returns the value as exactly `N` bytes.
    ///
    /// # Errors
    /// [`Fault::FieldLength`] if it has another length.
    #[inline]
    pub fn array<const N: usize>(&self) -> Result<[u8; N], Error> {
        self.value.try_into().map_err(|_| Error::new(Fault::FieldLength, self.start))
    }

    /// Returns a reader of the elements inside the value.
    pub const fn inner(&self) -> Reader<'_> {
        Reader::new(self.value, self.value_start)
    }
}

/// Reads elements one after the other. Offsets of errors count from the start of the outermost
/// buffer.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    remaining: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, which start at byte `base` of the outermost buffer.
    pub const fn new(bytes: &'a [u8], base: usize) -> Self {
        Reader { remaining: bytes, offset: base }
    }

    /// Returns the position in the outermost buffer, bytes.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Returns whether all bytes were read.
    pub const fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Returns the next element; `None` at the end.
    ///
    /// # Errors
    /// The fault of the element, if it is invalid.
    #[inline(always)]
    #[allow(clippy::should_implement_trait)] // an iterator may be called again after an error
    pub fn next(&mut self) -> Result<Option<Tlv<'a>>, Error> {
        match *self.remaining {
            [] => Ok(None),
            // Usual: one byte of type and of length.
            [typ @ 1..=252, len @ 0..=252, ref from_value @ ..]
                if usize::from(len) <= from_value.len() =>
            {
                let (value, tail) = from_value.split_at(usize::from(len));
                let start = self.offset;
                self.remaining = tail;
                self.offset = start + 2 + usize::from(len);
                Ok(Some(Tlv { typ: u32::from(typ), value, start, value_start: start + 2 }))
            }
            _ => self.next_slow().map(Some),
        }
    }

    #[inline(never)]
    fn next_slow(&mut self) -> Result<Tlv<'a>, Error> {
        let start = self.offset;
        let head = read_head(self.remaining, 0);
        let (typ, len, value_pos) = head.map_err(|e| Error::new(e.fault, e.offset + start))?;
        let typ = u32::try_from(typ)
            .ok()
            .filter(|typ| *typ != 0)
            .ok_or(Error::new(Fault::TypeRange, start))?;
        let from_value = &self.remaining[value_pos..];
        let (value, tail) = usize::try_from(len)
            .ok()
            .and_then(|len| from_value.split_at_checked(len))
            .ok_or(Error::new(Fault::Truncated, start))?;
        self.remaining = tail;
        self.offset = start + value_pos + value.len();
        Ok(Tlv { typ, value, start, value_start: start + value_pos })
    }
}

/// The result of [`frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The stream starts with a whole element of this many bytes.
    Whole(usize),
    /// The first element is incomplete.
    Partial,
}

/// Finds the first element of a stream without waiting for its value.
///
/// # Errors
/// When the stream does not start with a packet of at most `len_max` bytes: framing is lost.
#[inline]
pub fn frame(stream: &[u8], len_max: usize) -> Result<Framing, Error> {
    let partial =
        |e: Error| if e.fault == Fault::Truncated { Ok(Framing::Partial) } else { Err(e) };
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
    fn number_not_minimal_returns_error() {
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
        for bytes in [
            vec![253, 0, 252],
            vec![254, 0, 0, 255, 255],
            vec![255, 0, 0, 0, 0, 255, 255, 255, 255],
        ] {
            assert_eq!(read_number(&bytes, 0), Err(Error::new(Fault::NumberNotMinimal, 0)));
        }
        assert_eq!(read_number(&[253, 1], 0), Err(Error::new(Fault::Truncated, 0)));
        assert_eq!(read_number(&[], 0), Err(Error::new(Fault::Truncated, 0)));
    }

    #[test]
    fn frame_too_long_returns_error() {
        assert_eq!(frame(&[5, 2, 7], 8800), Ok(Framing::Partial));
        assert_eq!(frame(&[5, 2, 7, 0, 9], 8800), Ok(Framing::Whole(4)));
        assert_eq!(
            frame(&[5, 255, 255, 255, 255, 255, 255, 255, 255, 255], 8800),
            Err(Error::new(Fault::TooLong, 0))
        );
        assert_eq!(frame(&[0, 1], 8800), Err(Error::new(Fault::TypeRange, 0)));
    }

    #[test]
    fn integer_other_length_returns_error() {
        assert_eq!(read_integer(&[0, 1], 0), Ok(1));
        for len in [0, 3, 5, 6, 7, 9] {
            assert_eq!(read_integer(&vec![1; len], 4), Err(Error::new(Fault::NumberLength, 4)));
        }
        assert_eq!(Integer::new(255).as_bytes(), [255]);
        assert_eq!(Integer::new(256).as_bytes(), [1, 0]);
        assert_eq!(Integer::new(0).as_bytes(), [0]);
    }
}
