//! Naming conventions: typed numbers in names, and well-known components.
//!
//! Revision 3 of the conventions has a component type for each kind of number; revision 1 has a
//! marker byte before the number in a generic component. Both are read, revision 3 is written.

use crate::component::{Component, ComponentType};
use crate::name::{Name, NameRef};
use crate::tlv::read_integer;

/// `32=metadata`: the component for version discovery (RDR).
pub const METADATA: Component<'static> = Component::keyword(b"metadata");
/// `32=PA`: prefix announcement.
pub const PREFIX_ANNOUNCEMENT: Component<'static> = Component::keyword(b"PA");
/// `KEY`: precedes the key id in names of keys and certificates.
pub const KEY: Component<'static> = Component::generic(b"KEY");

/// The kind of a number in a name.
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
    /// All kinds.
    pub const ALL: [Kind; 5] =
        [Kind::Segment, Kind::ByteOffset, Kind::Version, Kind::Timestamp, Kind::Sequence];

    /// Returns the component type in revision 3.
    pub const fn typ(self) -> ComponentType {
        match self {
            Kind::Segment => ComponentType::SEGMENT,
            Kind::ByteOffset => ComponentType::BYTE_OFFSET,
            Kind::Version => ComponentType::VERSION,
            Kind::Timestamp => ComponentType::TIMESTAMP,
            Kind::Sequence => ComponentType::SEQUENCE,
        }
    }

    /// Returns the marker byte in revision 1.
    const fn marker(self) -> u8 {
        match self {
            Kind::Segment => 0x00,
            Kind::ByteOffset => 0xfb,
            Kind::Version => 0xfd,
            Kind::Timestamp => 0xfc,
            Kind::Sequence => 0xfe,
        }
    }

    /// Returns the alias in URIs: `seg`, `off`, `v`, `t` or `seq`.
    pub const fn alias(self) -> &'static str {
        match self {
            Kind::Segment => "seg",
            Kind::ByteOffset => "off",
            Kind::Version => "v",
            Kind::Timestamp => "t",
            Kind::Sequence => "seq",
        }
    }

    /// Returns the number in a component of this kind, of either revision.
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
    /// Appends a segment number (`seg=`).
    #[must_use]
    pub fn with_segment(self, segment: u64) -> Self {
        self.with_number(ComponentType::SEGMENT, segment)
    }

    /// Appends a version (`v=`).
    #[must_use]
    pub fn with_version(self, version: u64) -> Self {
        self.with_number(ComponentType::VERSION, version)
    }
}

/// Returns the segment number in the last component of a name.
pub fn segment(name: NameRef<'_>) -> Option<u64> {
    Kind::Segment.number(name.component(-1)?)
}

/// Returns the version in the last component of a name.
pub fn version(name: NameRef<'_>) -> Option<u64> {
    Kind::Version.number(name.component(-1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_both_revisions_are_read() {
        assert_eq!(segment("/a/seg=300".parse::<Name>().unwrap().as_ref()), Some(300));
        assert_eq!(segment("/a/%00%01%2C".parse::<Name>().unwrap().as_ref()), Some(300));
        assert_eq!(version("/a/%FD%05".parse::<Name>().unwrap().as_ref()), Some(5));
        assert_eq!(segment("/a/50=abc".parse::<Name>().unwrap().as_ref()), None);
        assert_eq!(segment("/a/%00".parse::<Name>().unwrap().as_ref()), None);
        assert_eq!(segment(NameRef::ROOT), None);
    }
}
