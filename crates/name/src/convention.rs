//! Naming conventions: numbers in names, and words everybody knows.
//!
//! Revision 3 gives each kind of number a component type; revision 1 put a marker octet before the number in a generic
//! component. We write the former and read either.

use crate::component::{Component, ComponentType};
use crate::name::{Name, NameRef};
use crate::tlv::read_integer;

/// `32=metadata`: where version discovery looks (RDR).
pub const METADATA: Component<'static> = Component::keyword(b"metadata");
/// `32=PA`: prefix announcement.
pub const PREFIX_ANNOUNCEMENT: Component<'static> = Component::keyword(b"PA");
/// `KEY`: stands before the key id in names of keys and certificates.
pub const KEY: Component<'static> = Component::generic(b"KEY");

/// A kind of number in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Segment number.
    Segment,
    /// Byte offset.
    ByteOffset,
    /// Version.
    Version,
    /// Timestamp, microseconds since 1970.
    Timestamp,
    /// Sequence number.
    Sequence,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] =
        [Kind::Segment, Kind::ByteOffset, Kind::Version, Kind::Timestamp, Kind::Sequence];

    /// Component type in revision 3.
    pub const fn typ(self) -> ComponentType {
        match self {
            Kind::Segment => ComponentType::SEGMENT,
            Kind::ByteOffset => ComponentType::BYTE_OFFSET,
            Kind::Version => ComponentType::VERSION,
            Kind::Timestamp => ComponentType::TIMESTAMP,
            Kind::Sequence => ComponentType::SEQUENCE,
        }
    }

    /// Marker octet in revision 1.
    const fn marker(self) -> u8 {
        match self {
            Kind::Segment => 0x00,
            Kind::ByteOffset => 0xfb,
            Kind::Version => 0xfd,
            Kind::Timestamp => 0xfc,
            Kind::Sequence => 0xfe,
        }
    }

    /// Alias in URIs: `seg`, `off`, `v`, `t`, `seq`.
    pub const fn alias(self) -> &'static str {
        match self {
            Kind::Segment => "seg",
            Kind::ByteOffset => "off",
            Kind::Version => "v",
            Kind::Timestamp => "t",
            Kind::Sequence => "seq",
        }
    }

    /// The number that a component holds by either revision.
    pub fn number(self, component: Component<'_>) -> Option<u64> {
        if component.typ() == self.typ() {
            return component.integer();
        }
        match component.value() {
            [marker, number @ ..]
                if component.typ() == ComponentType::GENERIC && *marker == self.marker() =>
            {
                read_integer(number, 0).ok()
            }
            _ => None,
        }
    }
}

impl Name {
    /// Appends `seg=`.
    #[must_use]
    pub fn with_segment(self, segment: u64) -> Self {
        self.with_number(ComponentType::SEGMENT, segment)
    }

    /// Appends `v=`.
    #[must_use]
    pub fn with_version(self, version: u64) -> Self {
        self.with_number(ComponentType::VERSION, version)
    }
}

/// The segment number at the end of a name.
pub fn segment(name: NameRef<'_>) -> Option<u64> {
    Kind::Segment.number(name.component(-1)?)
}

/// The version at the end of a name.
pub fn version(name: NameRef<'_>) -> Option<u64> {
    Kind::Version.number(name.component(-1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_revision_is_read() {
        assert_eq!(segment("/a/seg=300".parse::<Name>().unwrap().as_ref()), Some(300));
        assert_eq!(segment("/a/%00%01%2C".parse::<Name>().unwrap().as_ref()), Some(300));
        assert_eq!(version("/a/%FD%05".parse::<Name>().unwrap().as_ref()), Some(5));
        assert_eq!(segment("/a/50=abc".parse::<Name>().unwrap().as_ref()), None);
        assert_eq!(segment("/a/%00".parse::<Name>().unwrap().as_ref()), None);
        assert_eq!(segment(NameRef::ROOT), None);
    }
}
