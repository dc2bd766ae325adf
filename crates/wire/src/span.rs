//! Places in a packet. A packet ends before octet 8800, so 16 bits do.

use nw_name::tlv::Tlv;

/// Where a field's TLV-VALUE stands. No value starts at octet 0, which is the outermost type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u16,
    end: u16,
}

impl Span {
    /// The field is absent.
    pub(crate) const NONE: Span = Span { start: 0, end: 0 };

    /// Of an element of a packet whose length was checked.
    #[inline]
    pub(crate) const fn of(field: &Tlv<'_>) -> Self {
        debug_assert!(field.end() <= crate::PACKET_LEN_MAX);
        Span { start: field.value_start as u16, end: field.end() as u16 }
    }

    #[inline]
    pub(crate) const fn is_some(self) -> bool {
        self.start != 0
    }

    #[inline]
    pub(crate) const fn start(self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) const fn end(self) -> usize {
        self.end as usize
    }

    /// Its octets; none when absent.
    #[inline]
    pub(crate) fn in_bytes(self, wire: &[u8]) -> &[u8] {
        &wire[self.start()..self.end()]
    }
}
