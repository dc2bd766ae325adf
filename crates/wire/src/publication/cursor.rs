//! A reader of fixed fields that never panics.

use super::fid::{FID_LEN, Fid};
use super::id::{Id, IdList, LABEL_LEN, Label};
use crate::{Error, Fault};

/// Reads fields one after the other.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub(super) const fn offset(&self) -> usize {
        self.at
    }

    /// Takes `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        match self.bytes.get(self.at..).and_then(|unread| unread.get(..len)) {
            Some(taken) => {
                self.at += len;
                Ok(taken)
            }
            None => Err(Error::new(Fault::Truncated, self.at)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N).map(|taken| taken.as_chunks().0[0])
    }

    /// Takes a byte.
    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes a number of 2 bytes, most significant first.
    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes a number of 4 bytes, most significant first.
    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes a number of 8 bytes, most significant first.
    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes a label.
    pub(super) fn label(&mut self) -> Result<Label, Error> {
        self.array::<LABEL_LEN>().map(Label)
    }

    /// Takes a count of 1 byte and that many labels.
    pub(super) fn labels(&mut self) -> Result<Vec<Label>, Error> {
        let count = self.byte()?;
        (0..count).map(|_| self.label()).collect()
    }

    /// Takes a length of 1 byte and that many labels.
    pub(super) fn id(&mut self) -> Result<Id, Error> {
        self.labels().map(Id::new)
    }

    /// Takes a count of 1 byte and that many identifiers.
    pub(super) fn ids(&mut self) -> Result<Vec<Id>, Error> {
        let count = self.byte()?;
        let (list, len) = IdList::check(&self.bytes[self.at..], count, self.at)?;
        self.at += len;
        Ok(list.to_ids())
    }

    /// Takes a forwarding identifier.
    pub(super) fn fid(&mut self) -> Result<Fid, Error> {
        self.array::<FID_LEN>().map(|bytes| Fid::from_bytes(&bytes))
    }

    /// Takes all bytes that are left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Checks that no bytes are left.
    pub(super) fn end(&self) -> Result<(), Error> {
        match self.at == self.bytes.len() {
            true => Ok(()),
            false => Err(Error::new(Fault::Trailing, self.at)),
        }
    }
}

/// Appends a count of 1 byte and identifiers.
///
/// # Errors
/// When there are more than 255.
pub(super) fn push_ids(ids: &[Id], out: &mut Vec<u8>) -> Result<(), Error> {
    push_count(ids.len(), out)?;
    ids.iter().for_each(|id| id.encode(out));
    Ok(())
}

/// Appends a count of 1 byte and labels.
///
/// # Errors
/// When there are more than 255.
pub(super) fn push_labels(labels: &[Label], out: &mut Vec<u8>) -> Result<(), Error> {
    push_count(labels.len(), out)?;
    labels.iter().for_each(|label| out.extend_from_slice(&label.0));
    Ok(())
}

/// Appends a count of 1 byte.
///
/// # Errors
/// When it is above 255.
pub(super) fn push_count(count: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(u8::try_from(count).map_err(|_| Error::new(Fault::TooLong, out.len()))?);
    Ok(())
}
