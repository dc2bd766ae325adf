//! Control messages of this project: the payload of an envelope of kind control.
//!
//! ```text
//! request:        1 | number 4 | client 8 | operation 1 | strategy 1 (255: inherited) | flags 1
//!                   | strength 1 | wildcards 4 | id | prefix | length 2, name as text
//! reply:          2 | number 4 | client 8 | code 1
//! delivery:       3 | item 8 | version 4 | part 2 | table 1 | subscribers 4 | FID 32 | ids
//! scope:          4 | published 1 | ids
//! repair request: 5 | source 8 | first 8 | last 8 | id
//! advertisement:  6 | node 8 | sequence 8 | n 2 | { neighbour 8 | cost 2 }·n
//! assignment:     7 | node 8 | scheme 1 | internal 4 | n 2 | { neighbour 8 | out 4 | in 4 }·n
//! hello:          8 | node 8 | roles 1
//! ```
//!
//! Numbers have the most significant byte first. Requests are repeated until their reply arrives;
//! `number` lets the receiver recognise a repetition.

use super::application::{Operation, RequestBody};
use super::cursor::{Cursor, push_ids};
use super::fid::Fid;
use super::id::{Id, Label};
use crate::{Error, Fault};

/// Number of a strategy that stands for the parent scope's.
const STRATEGY_INHERITED: u8 = 255;

/// Options of a request, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFlags(pub u8);

impl RequestFlags {
    /// The subscription covers everything below, at any depth.
    pub const SUBTREE: RequestFlags = RequestFlags(1);
    /// The item never changes: a single publication.
    pub const IMMUTABLE: RequestFlags = RequestFlags(2);
    /// Each subscriber receives from the nearest publisher.
    pub const NEAREST: RequestFlags = RequestFlags(4);
    /// Subscribers receive from the publisher with the greatest strength.
    pub const STRONGEST: RequestFlags = RequestFlags(8);
    /// The client asks for notices when publishers and subscribers of the item come and go.
    pub const LIVELINESS: RequestFlags = RequestFlags(16);

    const KNOWN: u8 = 31;

    /// Returns whether a flag is set.
    pub const fn has(self, flag: RequestFlags) -> bool {
        self.0 & flag.0 != 0
    }

    /// Returns the flags of both.
    #[must_use]
    pub const fn with(self, other: RequestFlags) -> Self {
        RequestFlags(self.0 | other.0)
    }
}

/// What a subscription covers beyond its identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionScope {
    /// Bit *i* is set if label *i* of the full identifier may be any label.
    pub wildcards: u32,
    /// Whether everything below is covered.
    pub subtree: bool,
}

impl SubscriptionScope {
    /// Returns whether only the identifier itself is covered.
    pub const fn is_exact(self) -> bool {
        self.wildcards == 0 && !self.subtree
    }
}

/// A request to the rendezvous function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RendezvousRequest {
    /// Number of the request, one more for each new one of the client; 0 if not numbered.
    pub number: u32,
    /// The node or application that asks.
    pub client: Label,
    /// What is asked for.
    pub operation: Operation,
    /// Number of the strategy; `None` for the parent scope's.
    pub strategy: Option<u8>,
    /// Options.
    pub flags: RequestFlags,
    /// Strength of the publisher, for items that the strongest publisher serves.
    pub strength: u8,
    /// Labels that may be any label: see [`SubscriptionScope`].
    pub wildcards: u32,
    /// One label for something new; several to publish an existing thing again.
    pub id: Id,
    /// The parent scope; empty for a root scope.
    pub prefix: Id,
    /// Text of the full name, of which the labels were computed; empty if unknown.
    pub name: String,
}

impl RendezvousRequest {
    /// Returns the request of an application of Blackadder: not numbered, so that a repetition is
    /// not recognised, and served by the nearest publisher.
    pub fn of_blackadder(client: Label, body: &RequestBody) -> Self {
        RendezvousRequest {
            number: 0,
            client,
            operation: body.operation,
            strategy: Some(body.strategy),
            flags: RequestFlags::NEAREST,
            strength: 0,
            wildcards: 0,
            id: body.id.clone(),
            prefix: body.prefix.clone(),
            name: String::new(),
        }
    }
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RendezvousReply {
    /// Number of the request.
    pub number: u32,
    /// The client.
    pub client: Label,
    /// The code, 0 for success.
    pub code: u8,
}

/// How a publisher's node must send an item from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryChange {
    /// The item.
    pub item: u64,
    /// Number of the change, one more for each of a topology function: of two changes of the same
    /// part, the one with the greater version is valid.
    pub version: u32,
    /// Number of the part that changes. A tree that does not fit one forwarding identifier has
    /// several parts, and each publication is sent once for each.
    pub part: u16,
    /// Number of the table that the link identifiers are from.
    pub table: u8,
    /// Number of subscriber nodes that the part reaches; 0: the part ends.
    pub subscribers: u32,
    /// The forwarding identifier.
    pub fid: Fid,
    /// Full identifiers of the item, at most 255.
    pub ids: Vec<Id>,
}

/// A request to send publications again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairRequest {
    /// The source of the publications.
    pub source: Label,
    /// First missing sequence number.
    pub first: u64,
    /// Last missing sequence number.
    pub last: u64,
    /// Full identifier of the item.
    pub id: Id,
}

/// A link to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourLink {
    /// The node at its other end.
    pub neighbour: Label,
    /// Cost of the link, at least 1.
    pub cost: u16,
}

/// A node's own links, flooded in the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAdvertisement {
    /// The node.
    pub node: Label,
    /// Number of the advertisement: the greatest is valid.
    pub sequence: u64,
    /// All its links that are up, at most 65,535.
    pub links: Vec<NeighbourLink>,
}

/// Numbers of the link identifiers of one link, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedLink {
    /// The node at its other end.
    pub neighbour: Label,
    /// Number of the link to the neighbour.
    pub outgoing: u32,
    /// Number of the link from the neighbour.
    pub incoming: u32,
}

/// The link identifiers that the topology function assigns to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The node.
    pub node: Label,
    /// Number of the scheme by which link identifiers are computed from numbers.
    pub scheme: u8,
    /// Number of the node's internal link.
    pub internal: u32,
    /// Its links, at most 65,535.
    pub links: Vec<AssignedLink>,
}

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A request to the rendezvous function.
    Request(RendezvousRequest),
    /// The reply to a request.
    Reply(RendezvousReply),
    /// How a publisher's node must send an item from now on.
    Delivery(DeliveryChange),
    /// A scope was published or withdrawn below a scope that is subscribed to.
    Scope {
        /// Whether it was published.
        published: bool,
        /// Full identifiers of the scope, at most 255.
        ids: Vec<Id>,
    },
    /// A request to send publications again.
    Repair(RepairRequest),
    /// A node's own links.
    Advertisement(LinkAdvertisement),
    /// Link identifiers of a node.
    Assignment(Assignment),
    /// A node announces itself to its neighbours.
    Hello {
        /// The node.
        node: Label,
        /// Bit 0: has the rendezvous function; bit 1: has the topology function.
        roles: u8,
    },
}

impl Message {
    /// Parses a message.
    ///
    /// # Errors
    /// When it is cut, has bytes after its end, a field out of range, or is of an unknown type.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let message = match cursor.byte()? {
            1 => Message::Request(parse_request(&mut cursor)?),
            2 => Message::Reply(RendezvousReply {
                number: cursor.u32()?,
                client: cursor.label()?,
                code: cursor.byte()?,
            }),
            3 => Message::Delivery(DeliveryChange {
                item: cursor.u64()?,
                version: cursor.u32()?,
                part: cursor.u16()?,
                table: cursor.byte()?,
                subscribers: cursor.u32()?,
                fid: cursor.fid()?,
                ids: cursor.ids()?,
            }),
            4 => Message::Scope { published: parse_bool(&mut cursor)?, ids: cursor.ids()? },
            5 => Message::Repair(parse_repair(&mut cursor)?),
            6 => Message::Advertisement(parse_advertisement(&mut cursor)?),
            7 => Message::Assignment(parse_assignment(&mut cursor)?),
            8 => Message::Hello { node: cursor.label()?, roles: cursor.byte()? },
            _ => return Err(Error::new(Fault::UnknownPacket, 0)),
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message.
    ///
    /// # Errors
    /// When a list or the text is longer than its count allows.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Message::Request(request) => return encode_request(request, out),
            Message::Reply(reply) => {
                out.push(2);
                out.extend_from_slice(&reply.number.to_be_bytes());
                out.extend_from_slice(&reply.client.0);
                out.push(reply.code);
            }
            Message::Delivery(change) => {
                out.push(3);
                out.extend_from_slice(&change.item.to_be_bytes());
                out.extend_from_slice(&change.version.to_be_bytes());
                out.extend_from_slice(&change.part.to_be_bytes());
                out.push(change.table);
                out.extend_from_slice(&change.subscribers.to_be_bytes());
                out.extend_from_slice(&change.fid.to_bytes());
                return push_ids(&change.ids, out);
            }
            Message::Scope { published, ids } => {
                out.extend_from_slice(&[4, u8::from(*published)]);
                return push_ids(ids, out);
            }
            Message::Repair(repair) => {
                out.push(5);
                out.extend_from_slice(&repair.source.0);
                out.extend_from_slice(&repair.first.to_be_bytes());
                out.extend_from_slice(&repair.last.to_be_bytes());
                repair.id.encode(out);
            }
            Message::Advertisement(advertisement) => {
                out.push(6);
                out.extend_from_slice(&advertisement.node.0);
                out.extend_from_slice(&advertisement.sequence.to_be_bytes());
                push_count(advertisement.links.len(), out)?;
                for link in &advertisement.links {
                    out.extend_from_slice(&link.neighbour.0);
                    out.extend_from_slice(&link.cost.to_be_bytes());
                }
            }
            Message::Assignment(assignment) => {
                out.push(7);
                out.extend_from_slice(&assignment.node.0);
                out.push(assignment.scheme);
                out.extend_from_slice(&assignment.internal.to_be_bytes());
                push_count(assignment.links.len(), out)?;
                for link in &assignment.links {
                    out.extend_from_slice(&link.neighbour.0);
                    out.extend_from_slice(&link.outgoing.to_be_bytes());
                    out.extend_from_slice(&link.incoming.to_be_bytes());
                }
            }
            Message::Hello { node, roles } => {
                out.push(8);
                out.extend_from_slice(&node.0);
                out.push(*roles);
            }
        }
        Ok(())
    }
}

/// Appends a count of 2 bytes.
fn push_count(count: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    let count = u16::try_from(count).map_err(|_| Error::new(Fault::TooLong, out.len()))?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

fn parse_bool(cursor: &mut Cursor<'_>) -> Result<bool, Error> {
    let at = cursor.offset();
    match cursor.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::new(Fault::FieldValue, at)),
    }
}

fn parse_request(cursor: &mut Cursor<'_>) -> Result<RendezvousRequest, Error> {
    let (number, client) = (cursor.u32()?, cursor.label()?);
    let at = cursor.offset();
    let operation =
        Operation::from_number(cursor.byte()?).ok_or(Error::new(Fault::FieldValue, at))?;
    let strategy = Some(cursor.byte()?).filter(|number| *number != STRATEGY_INHERITED);
    let at = cursor.offset();
    let flags = RequestFlags(cursor.byte()?);
    if flags.0 & !RequestFlags::KNOWN != 0 {
        return Err(Error::new(Fault::FieldValue, at));
    }
    let (strength, wildcards) = (cursor.byte()?, cursor.u32()?);
    let (id, prefix) = (cursor.id()?, cursor.id()?);
    let len = cursor.u16()?;
    let at = cursor.offset();
    let name = core::str::from_utf8(cursor.take(usize::from(len))?)
        .map_err(|error| Error::new(Fault::FieldValue, at + error.valid_up_to()))?
        .to_owned();
    Ok(RendezvousRequest {
        number,
        client,
        operation,
        strategy,
        flags,
        strength,
        wildcards,
        id,
        prefix,
        name,
    })
}

fn encode_request(request: &RendezvousRequest, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(1);
    out.extend_from_slice(&request.number.to_be_bytes());
    out.extend_from_slice(&request.client.0);
    out.push(request.operation as u8);
    out.push(request.strategy.unwrap_or(STRATEGY_INHERITED));
    out.extend_from_slice(&[request.flags.0, request.strength]);
    out.extend_from_slice(&request.wildcards.to_be_bytes());
    request.id.encode(out);
    request.prefix.encode(out);
    push_count(request.name.len(), out)?;
    out.extend_from_slice(request.name.as_bytes());
    Ok(())
}

fn parse_repair(cursor: &mut Cursor<'_>) -> Result<RepairRequest, Error> {
    let (source, first) = (cursor.label()?, cursor.u64()?);
    let at = cursor.offset();
    let last = cursor.u64()?;
    if last < first {
        return Err(Error::new(Fault::FieldValue, at));
    }
    Ok(RepairRequest { source, first, last, id: cursor.id()? })
}

fn parse_advertisement(cursor: &mut Cursor<'_>) -> Result<LinkAdvertisement, Error> {
    let (node, sequence, count) = (cursor.label()?, cursor.u64()?, cursor.u16()?);
    let mut links = Vec::new();
    for _ in 0..count {
        let neighbour = cursor.label()?;
        let at = cursor.offset();
        let cost = cursor.u16()?;
        if cost == 0 {
            return Err(Error::new(Fault::FieldValue, at));
        }
        links.push(NeighbourLink { neighbour, cost });
    }
    Ok(LinkAdvertisement { node, sequence, links })
}

fn parse_assignment(cursor: &mut Cursor<'_>) -> Result<Assignment, Error> {
    let (node, scheme, internal) = (cursor.label()?, cursor.byte()?, cursor.u32()?);
    let count = cursor.u16()?;
    let mut links = Vec::new();
    for _ in 0..count {
        links.push(AssignedLink {
            neighbour: cursor.label()?,
            outgoing: cursor.u32()?,
            incoming: cursor.u32()?,
        });
    }
    Ok(Assignment { node, scheme, internal, links })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let (node, id) = (Label([b'1'; 8]), Id::new(vec![Label::from_number(1); 2]));
        let link = NeighbourLink { neighbour: node, cost: 10 };
        let assigned = AssignedLink { neighbour: node, outgoing: 300, incoming: 301 };
        vec![
            Message::Request(RendezvousRequest {
                number: 7,
                client: node,
                operation: Operation::SubscribeScope,
                strategy: None,
                flags: RequestFlags::SUBTREE.with(RequestFlags::LIVELINESS),
                strength: 3,
                wildcards: 2,
                id: id.clone(),
                prefix: Id::default(),
                name: "/a/*/ü".to_owned(),
            }),
            Message::Reply(RendezvousReply { number: 7, client: node, code: 4 }),
            Message::Delivery(DeliveryChange {
                item: 1 << 40,
                version: 2,
                part: 300,
                table: 1,
                subscribers: 3,
                fid: Fid::of_bit(8),
                ids: vec![id.clone(); 2],
            }),
            Message::Scope { published: true, ids: vec![id.clone()] },
            Message::Repair(RepairRequest { source: node, first: 5, last: 9, id }),
            Message::Advertisement(LinkAdvertisement { node, sequence: 9, links: vec![link; 2] }),
            Message::Assignment(Assignment {
                node,
                scheme: 1,
                internal: 3,
                links: vec![assigned; 2],
            }),
            Message::Hello { node, roles: 3 },
        ]
    }

    #[test]
    fn messages_are_read_as_written_and_cuts_are_refused() {
        for message in messages() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes).expect("short lists");
            assert_eq!(Message::parse(&bytes), Ok(message.clone()));
            assert!((0..bytes.len()).all(|cut| Message::parse(&bytes[..cut]).is_err()));
            bytes.push(0);
            assert_eq!(Message::parse(&bytes).map_err(|e| e.fault), Err(Fault::Trailing));
        }
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        for (message, at, value) in [(0, 13, 8), (0, 15, 32), (3, 1, 2), (4, 16, 99), (5, 28, 0)] {
            let mut bytes = Vec::new();
            messages()[message].encode(&mut bytes).expect("short lists");
            bytes[at] = value;
            let error = Message::parse(&bytes).expect_err("out of range");
            assert_eq!(error.fault, Fault::FieldValue, "message {message}, byte {at}");
        }
        let many = vec![NeighbourLink { neighbour: Label::default(), cost: 1 }; 65_536];
        let advertisement = LinkAdvertisement { node: Label::default(), sequence: 1, links: many };
        assert!(Message::Advertisement(advertisement).encode(&mut Vec::new()).is_err());
        assert!(RequestFlags(3).has(RequestFlags::IMMUTABLE));
        assert!(!SubscriptionScope { wildcards: 1, subtree: false }.is_exact());
    }
}
