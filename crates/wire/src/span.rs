//! Byte ranges in a packet: where a field's TLV-VALUE is.

use core::ops::Range;
use nw_name::tlv::Tlv;

/// The byte range of a TLV-VALUE in its packet. 16 bits suffice, as a packet has at most
/// [`PACKET_LEN_MAX`](crate::PACKET_LEN_MAX) (8800) bytes.
///
/// A value never starts at byte 0, which is the packet's TLV-TYPE: so a start of 0 means that the
/// field is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte from the start of the packet.
    pub start: u16,
    /// Length in bytes.
    pub len: u16,
}

impl Span {
    /// An absent field.
    pub const NONE: Span = Span { start: 0, len: 0 };

    /// Returns the span of an element's TLV-VALUE. The packet's length must have been checked.
    #[inline]
    pub const fn of(field: &Tlv<'_>) -> Self {
        debug_assert!(field.end() <= crate::PACKET_LEN_MAX);
        Span { start: field.value_start as u16, len: field.value.len() as u16 }
    }

    /// Returns the span of `len` bytes from `start` on.
    #[inline(always)]
    pub const fn new(start: usize, len: usize) -> Self {
        Span { start: start as u16, len: len as u16 }
    }

    /// Returns whether the field is present. Its value may still be empty.
    #[inline(always)]
    pub const fn is_some(self) -> bool {
        self.start != 0
    }

    /// Returns the offset just after the last byte.
    #[inline(always)]
    pub const fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Returns the span as a range of byte offsets.
    #[inline(always)]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end()
    }

    /// Returns the value's bytes in its packet; an empty slice if the field is absent.
    ///
    /// # Panics
    /// When the packet is shorter than the span's end.
    #[inline(always)]
    pub fn in_bytes(self, packet: &[u8]) -> &[u8] {
        &packet[self.range()]
    }
}

/// Start and length, as tables store them.
impl From<Span> for (u16, u16) {
    #[inline(always)]
    fn from(span: Span) -> Self {
        (span.start, span.len)
    }
}

impl From<(u16, u16)> for Span {
    #[inline(always)]
    fn from((start, len): (u16, u16)) -> Self {
        Span { start, len }
    }
}
