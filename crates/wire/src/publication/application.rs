//! Messages between an application and its Blackadder node: one netlink datagram each.
//!
//! ```text
//! request:       header 16 | type 1 | id | prefix | strategy 1 | option (32 bytes or none)
//! publish_data:  header 16 | 08 | id | strategy 1 | FID 32 if the strategy is 1 or 3 | data
//! disconnect:    header 16 | 0d
//! event:         header 16 | type 1 | id | data if the type is 104
//! ```
//!
//! An identifier is its length in labels (1 byte) and the labels. The header is in the byte order
//! of the host. Requests without header are also the payload of publications to the rendezvous
//! function.

use super::cursor::Cursor;
use super::fid::Fid;
use super::id::Id;
use crate::{Error, Fault};

/// Bytes of a netlink header.
pub const NETLINK_HEADER_LEN: usize = 16;

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetlinkHeader {
    /// Length of the datagram in bytes. Blackadder's node always writes 4, and clients ignore it.
    pub len: u32,
    /// Process of the sender.
    pub pid: u32,
}

impl NetlinkHeader {
    /// Reads the header that a datagram starts with, and returns it with what follows.
    ///
    /// # Errors
    /// When the datagram is shorter than the header.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), Error> {
        let Some((header, body)) = datagram.split_first_chunk::<NETLINK_HEADER_LEN>() else {
            return Err(Error::new(Fault::Truncated, datagram.len()));
        };
        let word = |at: usize| u32::from_ne_bytes(header.as_chunks::<4>().0[at]);
        Ok((NetlinkHeader { len: word(0), pid: word(3) }, body))
    }

    /// Appends the header: type 0, flags 1, sequence 0.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.len.to_ne_bytes());
        out.extend_from_slice(&0_u16.to_ne_bytes());
        out.extend_from_slice(&1_u16.to_ne_bytes());
        out.extend_from_slice(&0_u32.to_ne_bytes());
        out.extend_from_slice(&self.pid.to_ne_bytes());
    }
}

/// What a request asks for. The number is Blackadder's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Publish a scope, or publish an existing one under another parent.
    PublishScope = 0,
    /// Publish an item, or publish an existing one under another scope.
    PublishItem = 1,
    /// Withdraw a publication of a scope.
    UnpublishScope = 2,
    /// Withdraw a publication of an item.
    UnpublishItem = 3,
    /// Subscribe to a scope.
    SubscribeScope = 4,
    /// Subscribe to an item.
    SubscribeItem = 5,
    /// End a subscription to a scope.
    UnsubscribeScope = 6,
    /// End a subscription to an item.
    UnsubscribeItem = 7,
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Operation; 8] = [
        Operation::PublishScope,
        Operation::PublishItem,
        Operation::UnpublishScope,
        Operation::UnpublishItem,
        Operation::SubscribeScope,
        Operation::SubscribeItem,
        Operation::UnsubscribeScope,
        Operation::UnsubscribeItem,
    ];

    /// Returns the operation with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the operation's name: lower case, words joined by `_`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Operation::PublishScope => "publish_scope",
            Operation::PublishItem => "publish_item",
            Operation::UnpublishScope => "unpublish_scope",
            Operation::UnpublishItem => "unpublish_item",
            Operation::SubscribeScope => "subscribe_scope",
            Operation::SubscribeItem => "subscribe_item",
            Operation::UnsubscribeScope => "unsubscribe_scope",
            Operation::UnsubscribeItem => "unsubscribe_item",
        }
    }
}

/// A publish or subscribe request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestBody {
    /// What is asked for.
    pub operation: Operation,
    /// One label for something new; several to publish an existing thing again.
    pub id: Id,
    /// The parent scope; empty for a root scope.
    pub prefix: Id,
    /// Number of the strategy.
    pub strategy: u8,
    /// A forwarding identifier, which Blackadder ignores in requests.
    pub option: Option<Fid>,
}

/// A message of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationMessage<'a> {
    /// A request.
    Request(RequestBody),
    /// A publication.
    PublishData {
        /// Full identifier of the item.
        id: Id,
        /// Number of the strategy.
        strategy: u8,
        /// The forwarding identifier; present with strategies 1 and 3 only.
        fid: Option<Fid>,
        /// The data.
        data: &'a [u8],
    },
    /// The application ends.
    Disconnect,
}

const PUBLISH_DATA: u8 = 8;
const DISCONNECT: u8 = 13;

/// Returns whether a publication with this strategy has a forwarding identifier.
const fn has_fid(strategy: u8) -> bool {
    strategy == 1 || strategy == 3
}

impl<'a> ApplicationMessage<'a> {
    /// Parses a message without its header.
    ///
    /// # Errors
    /// When it is cut, has bytes after its end, or is of an unknown type.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let number = cursor.byte()?;
        if number == DISCONNECT {
            cursor.end()?;
            return Ok(ApplicationMessage::Disconnect);
        }
        if number == PUBLISH_DATA {
            let (id, strategy) = (cursor.id()?, cursor.byte()?);
            let fid = has_fid(strategy).then(|| cursor.fid()).transpose()?;
            return Ok(ApplicationMessage::PublishData { id, strategy, fid, data: cursor.rest() });
        }
        let operation =
            Operation::from_number(number).ok_or(Error::new(Fault::UnknownPacket, 0))?;
        let (id, prefix, strategy) = (cursor.id()?, cursor.id()?, cursor.byte()?);
        let option = match cursor.end() {
            Ok(()) => None,
            Err(_) => Some(cursor.fid()?),
        };
        cursor.end()?;
        Ok(ApplicationMessage::Request(RequestBody { operation, id, prefix, strategy, option }))
    }

    /// Appends the message without a header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ApplicationMessage::Request(request) => {
                out.push(request.operation as u8);
                request.id.encode(out);
                request.prefix.encode(out);
                out.push(request.strategy);
                out.extend(request.option.iter().flat_map(|fid| fid.to_bytes()));
            }
            ApplicationMessage::PublishData { id, strategy, fid, data } => {
                out.push(PUBLISH_DATA);
                id.encode(out);
                out.push(*strategy);
                out.extend(fid.iter().flat_map(|fid| fid.to_bytes()));
                out.extend_from_slice(data);
            }
            ApplicationMessage::Disconnect => out.push(DISCONNECT),
        }
    }
}

/// The kind of an event. The number is Blackadder's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// An item has subscribers: publish it.
    StartPublish = 100,
    /// An item has no subscribers any more.
    StopPublish = 101,
    /// A scope was published below a scope that is subscribed to.
    ScopePublished = 102,
    /// A scope was withdrawn below a scope that is subscribed to.
    ScopeUnpublished = 103,
    /// Data of an item.
    PublishedData = 104,
}

impl EventKind {
    /// Returns the kind with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            100 => EventKind::StartPublish,
            101 => EventKind::StopPublish,
            102 => EventKind::ScopePublished,
            103 => EventKind::ScopeUnpublished,
            104 => EventKind::PublishedData,
            _ => return None,
        })
    }
}

/// An event for an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What happened.
    pub kind: EventKind,
    /// Full identifier of the item or scope.
    pub id: Id,
    /// The data of [`EventKind::PublishedData`]; empty for others.
    pub data: &'a [u8],
}

impl<'a> Event<'a> {
    /// Parses an event without its header.
    ///
    /// # Errors
    /// When it is cut, has data without being a publication, or is of an unknown kind.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let kind =
            EventKind::from_number(cursor.byte()?).ok_or(Error::new(Fault::UnknownPacket, 0))?;
        let id = cursor.id()?;
        if kind != EventKind::PublishedData {
            cursor.end()?;
        }
        Ok(Event { kind, id, data: cursor.rest() })
    }

    /// Appends the event without a header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        self.id.encode(out);
        out.extend_from_slice(self.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publication::Label;

    #[test]
    fn publication_with_given_fid_keeps_it_apart_from_data() {
        let id = Id::new(vec![Label::from_number(5)]);
        for (strategy, fid) in [(0, None), (1, Some(Fid::of_bit(9))), (3, Some(Fid::EMPTY))] {
            let message =
                ApplicationMessage::PublishData { id: id.clone(), strategy, fid, data: b"hello" };
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(ApplicationMessage::parse(&bytes), Ok(message));
        }
        let cut = [8, 0, 1, 7, 7];
        assert_eq!(
            ApplicationMessage::parse(&cut),
            Err(Error::new(Fault::Truncated, 3)),
            "the strategy promises an identifier"
        );
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        assert!(ApplicationMessage::parse(&[DISCONNECT, 0]).is_err());
        assert!(ApplicationMessage::parse(&[0, 0, 0, 2, 1]).is_err(), "an option has 32 bytes");
        assert!(ApplicationMessage::parse(&[9, 0, 0, 2]).is_err(), "9 is no request");
        assert!(Event::parse(&[100, 0, 1]).is_err());
        assert_eq!(Event::parse(&[104, 0, 1]).map(|event| event.data), Ok(&[1][..]));
        assert!(Event::parse(&[99, 0]).is_err());
    }
}
