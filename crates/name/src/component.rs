//! A name component: a type and a value.

use crate::tlv::{Error, Fault, Integer, number_len, push_tlv, read_integer};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// The TLV-TYPE of a name component, 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentType(u16);

impl ComponentType {
    /// ImplicitSha256DigestComponent: the digest of the whole Data packet.
    pub const IMPLICIT_DIGEST: Self = ComponentType(1);
    /// ParametersSha256DigestComponent: the digest of an Interest's parameters.
    pub const PARAMETERS_DIGEST: Self = ComponentType(2);
    /// GenericNameComponent: any bytes.
    pub const GENERIC: Self = ComponentType(8);
    /// KeywordNameComponent: a keyword of a convention, such as `32=metadata`.
    pub const KEYWORD: Self = ComponentType(32);
    /// Segment number.
    pub const SEGMENT: Self = ComponentType(50);
    /// Byte offset.
    pub const BYTE_OFFSET: Self = ComponentType(52);
    /// Version.
    pub const VERSION: Self = ComponentType(54);
    /// Timestamp in microseconds since 1970.
    pub const TIMESTAMP: Self = ComponentType(56);
    /// Sequence number.
    pub const SEQUENCE: Self = ComponentType(58);

    /// Returns the type with this number; `None` for 0, which is invalid.
    pub const fn new(number: u16) -> Option<Self> {
        if number == 0 { None } else { Some(ComponentType(number)) }
    }

    /// Returns the number of the type.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns whether this is one of the two digest types (values of 32 bytes).
    pub const fn is_digest(self) -> bool {
        self.0 == 1 || self.0 == 2
    }
}

/// A name component, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Component<'a> {
    typ: ComponentType,
    value: &'a [u8],
}

impl<'a> Component<'a> {
    /// Returns a component of any type.
    ///
    /// # Errors
    /// [`Fault::DigestLength`] if the type is a digest and the value does not have 32 bytes.
    pub fn new(typ: ComponentType, value: &'a [u8]) -> Result<Self, Error> {
        if typ.is_digest() && value.len() != 32 {
            return Err(Error::new(Fault::DigestLength, 0));
        }
        Ok(Component { typ, value })
    }

    pub(crate) const fn checked(typ: ComponentType, value: &'a [u8]) -> Self {
        Component { typ, value }
    }

    /// Returns a GenericNameComponent.
    pub const fn generic(value: &'a [u8]) -> Self {
        Component { typ: ComponentType::GENERIC, value }
    }

    /// Returns a KeywordNameComponent.
    pub const fn keyword(value: &'a [u8]) -> Self {
        Component { typ: ComponentType::KEYWORD, value }
    }

    /// Returns the type.
    pub const fn typ(&self) -> ComponentType {
        self.typ
    }

    /// Returns the value.
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Returns the value as a NonNegativeInteger; `None` if it is not one.
    pub fn integer(&self) -> Option<u64> {
        read_integer(self.value, 0).ok()
    }

    /// Returns the length of the encoding, bytes.
    pub fn encoded_len(&self) -> usize {
        number_len(u64::from(self.typ.0)) + number_len(self.value.len() as u64) + self.value.len()
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_tlv(u32::from(self.typ.0), self.value, out);
    }
}

/// Appends the encoding of a component with the value of a NonNegativeInteger.
pub(crate) fn push_number_component(typ: ComponentType, number: u64, out: &mut Vec<u8>) {
    push_tlv(u32::from(typ.0), Integer::new(number).as_bytes(), out);
}

impl Ord for Component<'_> {
    /// Canonical order: by type, then length, then bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        (self.typ, self.value.len(), self.value).cmp(&(other.typ, other.value.len(), other.value))
    }
}

impl PartialOrd for Component<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn digest_other_length_returns_error() {
        for typ in [ComponentType::IMPLICIT_DIGEST, ComponentType::PARAMETERS_DIGEST] {
            assert!(typ.is_digest());
            assert!(Component::new(typ, &[0; 32]).is_ok());
            for len in [0, 31, 33] {
                let refused = Component::new(typ, &vec![0; len]).unwrap_err();
                assert_eq!(refused.fault, Fault::DigestLength);
            }
        }
        assert!(Component::new(ComponentType::GENERIC, &[]).is_ok());
        assert_eq!(ComponentType::new(0), None);
    }

    #[test]
    fn encode_any_component_length_matches() {
        for (typ, len) in [(8, 0), (252, 252), (253, 253), (65535, 70_000)] {
            let value = vec![7; len];
            let component = Component::new(ComponentType::new(typ).unwrap(), &value).unwrap();
            let mut out = vec![];
            component.encode(&mut out);
            assert_eq!(out.len(), component.encoded_len());
        }
    }

    #[test]
    fn component_order_is_type_length_bytes() {
        let component =
            |typ, value| Component::new(ComponentType::new(typ).unwrap(), value).unwrap();
        let sorted: [(u16, &[u8]); 5] = [(7, b"zz"), (8, b""), (8, b"b"), (8, b"c"), (8, b"aa")];
        for pair in sorted.windows(2) {
            assert!(component(pair[0].0, pair[0].1) < component(pair[1].0, pair[1].1));
        }
    }

    #[test]
    fn integer_component_value_is_parsed() {
        assert_eq!(Component::generic(&[1, 0]).integer(), Some(256));
        assert_eq!(Component::generic(&[1, 0, 0]).integer(), None);
        assert_eq!(Component::generic(&[]).integer(), None);
    }
}
