//! Labels and full identifiers.

use crate::{Error, Fault};
use core::fmt;

/// Bytes of a label.
pub const LABEL_LEN: usize = 8;

/// Most labels of a full identifier: its length is one byte on the wire.
pub const LABELS_MAX: usize = 255;

/// The label of a scope, an item, a node or an application.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub [u8; LABEL_LEN]);

impl Label {
    /// Creates a label from a number, most significant byte first.
    pub const fn from_number(number: u64) -> Self {
        Label(number.to_be_bytes())
    }

    /// Returns the label as a number. Numbers are ordered as labels are.
    pub const fn number(self) -> u64 {
        u64::from_be_bytes(self.0)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.number())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A full identifier: the labels on one way from a root scope.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    labels: Vec<Label>,
}

impl Id {
    /// Creates an identifier. Labels after the 255th are left out.
    pub fn new(mut labels: Vec<Label>) -> Self {
        labels.truncate(LABELS_MAX);
        Id { labels }
    }

    /// Returns the labels, the root's first.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the last label.
    pub fn last(&self) -> Option<Label> {
        self.labels.last().copied()
    }

    /// Returns the identifier without its last label. `None` for an empty one.
    pub fn parent(&self) -> Option<Id> {
        let (_, labels) = self.labels.split_last()?;
        Some(Id { labels: labels.to_vec() })
    }

    /// Returns this identifier with one more label.
    #[must_use]
    pub fn child(&self, label: Label) -> Id {
        let mut labels = Vec::with_capacity(self.labels.len() + 1);
        labels.extend_from_slice(&self.labels);
        labels.push(label);
        Id::new(labels)
    }

    /// Returns this identifier followed by the labels of another one.
    #[must_use]
    pub fn join(&self, other: &Id) -> Id {
        Id::new(self.labels.iter().chain(&other.labels).copied().collect())
    }

    /// Returns whether this identifier is equal to, or a prefix of, another one.
    pub fn is_prefix_of(&self, other: &Id) -> bool {
        other.labels.starts_with(&self.labels)
    }

    /// Appends the length in labels (1 byte) and the labels.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.labels.len() as u8);
        self.labels.iter().for_each(|label| out.extend_from_slice(&label.0));
    }
}

impl From<&[Label]> for Id {
    fn from(labels: &[Label]) -> Self {
        Id::new(labels.to_vec())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.labels.is_empty() {
            return f.write_str("/");
        }
        self.labels.iter().try_for_each(|label| write!(f, "/{label}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A full identifier in a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdRef<'a> {
    labels: &'a [[u8; LABEL_LEN]],
}

impl<'a> IdRef<'a> {
    /// Returns the labels, the root's first.
    pub fn labels(self) -> impl ExactSizeIterator<Item = Label> + Clone + 'a {
        self.labels.iter().map(|label| Label(*label))
    }

    /// Copies the identifier.
    pub fn to_id(self) -> Id {
        Id::new(self.labels().collect())
    }
}

impl fmt::Debug for IdRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_id(), f)
    }
}

/// A checked list of identifiers in a packet: `count` times a length and that many labels.
#[derive(Clone, Copy, Debug)]
pub struct IdList<'a> {
    bytes: &'a [u8],
    count: u8,
}

impl<'a> IdList<'a> {
    /// Checks the list of `count` identifiers that `bytes` start with. Returns it with its length
    /// in bytes. `base` is the offset of `bytes` in the packet.
    ///
    /// # Errors
    /// When the list is longer than the bytes.
    pub fn check(bytes: &'a [u8], count: u8, base: usize) -> Result<(Self, usize), Error> {
        let mut at = 0;
        for _ in 0..count {
            let Some(len) = bytes.get(at) else {
                return Err(Error::new(Fault::Truncated, base + at));
            };
            let end = at + 1 + usize::from(*len) * LABEL_LEN;
            if end > bytes.len() {
                return Err(Error::new(Fault::Truncated, base + at));
            }
            at = end;
        }
        Ok((IdList { bytes: &bytes[..at], count }, at))
    }

    /// Returns the number of identifiers.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the identifiers, in order.
    pub fn iter(&self) -> impl Iterator<Item = IdRef<'a>> + Clone + 'a {
        let mut unread = self.bytes;
        core::iter::from_fn(move || {
            let (len, after) = unread.split_first()?;
            let (id, rest) = after.split_at(usize::from(*len) * LABEL_LEN);
            unread = rest;
            Some(IdRef { labels: id.as_chunks().0 })
        })
    }

    /// Copies the identifiers.
    pub fn to_ids(&self) -> Vec<Id> {
        self.iter().map(IdRef::to_id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier_parts_are_found_and_joined() {
        let id = Id::new(vec![Label::from_number(1), Label([b'0'; 8])]);
        assert_eq!(id.to_string(), "/0000000000000001/3030303030303030");
        assert_eq!(id.parent().map(|parent| parent.child(Label([b'0'; 8]))), Some(id.clone()));
        assert_eq!(Id::default().parent(), None);
        assert_eq!((id.join(&id).len(), Id::default().to_string().as_str()), (4, "/"));
        assert!(Id::default().is_prefix_of(&id) && !id.is_prefix_of(&Id::default()));
        assert_eq!(Id::new(vec![Label::default(); 300]).len(), LABELS_MAX);
    }

    #[test]
    fn list_with_lengths_beyond_the_bytes_returns_truncated() {
        let mut bytes = Vec::new();
        Id::from(&[Label::from_number(7)][..]).encode(&mut bytes);
        Id::default().encode(&mut bytes);
        let (list, len) = IdList::check(&bytes, 2, 0).expect("two identifiers");
        assert_eq!((list.count(), len), (2, 10));
        assert_eq!(list.to_ids()[0].labels(), [Label::from_number(7)]);
        let error = IdList::check(&bytes, 3, 33).expect_err("there are two");
        assert_eq!((error.fault, error.offset), (Fault::Truncated, 43));
        assert!(IdList::check(&[255; 2000], 1, 0).is_err());
    }
}
