//! Blackadder's packet between nodes: `FID 32 | count 1 | { length 1 | labels }·count | payload`.
//!
//! It has no version, length or hop limit. The payload ends with the frame, so a payload shorter
//! than 4 bytes or so may be followed by the zeros of Ethernet's padding.

use super::fid::{FID_LEN, Fid};
use super::id::{Id, IdList};
use crate::{Error, Fault};

/// A checked packet.
#[derive(Clone, Copy, Debug)]
pub struct NetworkPacket<'a> {
    fid: Fid,
    ids: IdList<'a>,
    payload: &'a [u8],
}

impl<'a> NetworkPacket<'a> {
    /// Checks a packet.
    ///
    /// # Errors
    /// When it ends before its identifiers do, or has none.
    pub fn check(bytes: &'a [u8]) -> Result<Self, Error> {
        let Some((fid, after)) = bytes.split_first_chunk::<FID_LEN>() else {
            return Err(Error::new(Fault::Truncated, bytes.len()));
        };
        let Some((count, after)) = after.split_first() else {
            return Err(Error::new(Fault::Truncated, FID_LEN));
        };
        if *count == 0 {
            return Err(Error::new(Fault::MissingField, FID_LEN));
        }
        let (ids, len) = IdList::check(after, *count, FID_LEN + 1)?;
        Ok(NetworkPacket { fid: Fid::from_bytes(fid), ids, payload: &after[len..] })
    }

    /// Returns the forwarding identifier.
    pub const fn fid(&self) -> Fid {
        self.fid
    }

    /// Returns the full identifiers of the item.
    pub const fn ids(&self) -> IdList<'a> {
        self.ids
    }

    /// Returns the payload, with Ethernet's padding if there was any.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Writes a packet.
#[derive(Clone, Copy, Debug)]
pub struct NetworkPacketBuilder<'a> {
    /// The forwarding identifier.
    pub fid: Fid,
    /// The full identifiers of the item, 1 to 255.
    pub ids: &'a [Id],
    /// The payload.
    pub payload: &'a [u8],
}

impl NetworkPacketBuilder<'_> {
    /// Appends the packet.
    ///
    /// # Errors
    /// When there are no identifiers, or more than 255.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.ids.is_empty() {
            return Err(Error::new(Fault::MissingField, FID_LEN));
        }
        out.extend_from_slice(&self.fid.to_bytes());
        super::cursor::push_ids(self.ids, out)?;
        out.extend_from_slice(self.payload);
        Ok(())
    }
}
