//! Control messages of the domain, and what precedes the payload of a publication.
//!
//! They travel in [`Envelope`](nw_wire::publication::Envelope)s. Numbers have the most significant
//! byte first.
//!
//! ```text
//! hello   kind 1 = 32 | node 8 | heard 2 | { node 8 }… | versions 2 | { node 8 | version 8 }…
//! record  kind 1 = 33 | node 8 | version 8 | part 2 | parts 2 | bytes
//! payload flags 1 | name length 2 | name | bytes of the publication, a repair request, an offer of
//!         kept publications, or none
//! request kind 1 = 0 | { first number 8 | last number 8 }…
//!         kind 1 = 1 | number 8 | { first fragment 4 | last fragment 4 }…
//! ```
//!
//! The bytes of a record, all parts joined:
//!
//! ```text
//! neighbours 2 | { node 8 }… | patterns 2 | { length 2 | text }…
//!                            | watches 2 | { length 2 | text }… | items 2 | { length 2 | text }…
//!                            | parents 2 | { length 2 | child | length 2 | parent }…
//!                            | strategies 2 | { length 2 | scope | length 2 | strategy }…
//!                                           | length 2 | publishers
//! ```
//!
//! Last lines are left out if they have nothing. `parents` and `strategies` count both texts of
//! each pair. A text without a partner after the strategies is skipped by nodes that do not know
//! it. `publishers` is one: the word `publishers`, then a line for each publisher of an item with
//! a choice, `choice strength strategy name`. Lines that can't be read are skipped.

use super::NodeId;
use core::str::FromStr;
use nw_api::pubsub::{ItemName, PublisherChoice, ScopePattern, Strategy};

const HELLO: u8 = 32;
const RECORD: u8 = 33;

/// Bytes of a record in one packet.
const PART_LEN: usize = 1200;
/// Bytes of a record at most.
pub const RECORD_BYTES_MAX: usize = 256 << 10;
/// Bytes of the publishers in a record at most.
pub const PUBLISHERS_BYTES_MAX: usize = 60_000;
/// First line of the publishers in a record.
const PUBLISHERS: &str = "publishers";
/// Neighbours of a node at most.
pub const NEIGHBOURS_MAX: usize = 64;
/// Versions in a hello at most.
pub const VERSIONS_MAX: usize = 48;

/// Flag: the last publication before the receiver subscribed. With [`START`]: the publication with
/// the number is such a one.
pub const LAST_VALUE: u8 = 1;
/// Flag: late subscribers get the last publication.
pub const KEEPS_LAST: u8 = 2;
/// Flag: no publication; the sequence number is that of the last one.
pub const HEARTBEAT: u8 = 4;
/// Flag: the receiver gets the publications after that number; with [`HEARTBEAT`].
pub const START: u8 = 2;
/// Flag: the item has ended; with [`HEARTBEAT`].
pub const END: u8 = 8;

/// Flag of a publication: only nodes that it is sent to are to have it, by its strategy.
pub const BOUND: u8 = 8;

/// Flag: a request to send publications again, for the node that published them.
pub const REPAIR: u8 = 16;
/// Flag: no publication; those up to the sequence number can't be sent again.
pub const GONE: u8 = 32;
/// Flag: a publication that was sent again.
pub const REPAIRED: u8 = 64;
/// Flag: about publications of a publisher that has ended, which another node may keep.
pub const KEPT: u8 = 128;

/// Ranges in a repair request at most, so that it fits a packet beside a long name.
pub const RANGES_MAX: usize = 32;

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Sent to each interface at an interval: who is there, and what it knows.
    Hello {
        /// The sender.
        node: NodeId,
        /// Nodes from which it received hellos.
        heard: Vec<NodeId>,
        /// Versions of records that it has: a state vector, or a part of it in ascending order of
        /// nodes, from any one on.
        versions: Vec<(NodeId, u64)>,
    },
    /// A part of a node's record.
    Record {
        /// The node that the record is about.
        node: NodeId,
        /// Version of the record: greater with each change.
        version: u64,
        /// Number of the part, from 0.
        part: u16,
        /// Number of parts.
        parts: u16,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// What a node tells all others about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBody {
    /// Neighbours that hear it and that it hears.
    pub neighbours: Vec<NodeId>,
    /// Patterns that its applications subscribe to.
    pub patterns: Vec<ScopePattern>,
    /// Patterns of publishers and subscribers that its applications watch.
    pub watches: Vec<ScopePattern>,
    /// Its items that other nodes watch.
    pub items: Vec<ItemName>,
    /// Further parents of scopes and items, as child and parent.
    pub links: Vec<(ItemName, ItemName)>,
    /// Strategies of scopes that its applications published.
    pub strategies: Vec<(ItemName, Strategy)>,
    /// Its publishers of items with a choice.
    pub publishers: Vec<(ItemName, ItemPublisher)>,
}

/// A publisher of an item with a choice, as its node tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemPublisher {
    /// Which publishers of the item serve a subscriber.
    pub choice: PublisherChoice,
    /// Its strength.
    pub strength: u32,
    /// The nodes that it can serve.
    pub strategy: Strategy,
}

impl ItemPublisher {
    /// Returns whether it can serve subscribers that many links away.
    pub fn reaches(&self, hops: u32) -> bool {
        match self.strategy {
            Strategy::Domain => true,
            Strategy::LinkLocal | Strategy::Broadcast => hops <= 1,
            Strategy::NodeLocal | Strategy::Implicit => hops == 0,
        }
    }

    /// Returns the bytes that it takes in a record.
    pub fn record_len(&self, name: &ItemName) -> usize {
        self.line(name).len()
    }

    fn line(&self, name: &ItemName) -> String {
        format!("\n{} {} {} {name}", self.choice, self.strength, self.strategy)
    }

    fn parse(line: &str) -> Option<(ItemName, Self)> {
        let mut words = line.splitn(4, ' ');
        let publisher = ItemPublisher {
            choice: words.next()?.parse().ok()?,
            strength: words.next()?.parse().ok()?,
            strategy: words.next()?.parse().ok()?,
        };
        Some((words.next()?.parse().ok()?, publisher))
    }
}

fn put_u16(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(number as u16).to_be_bytes());
}

fn put_node(node: NodeId, out: &mut Vec<u8>) {
    out.extend_from_slice(&node.0.to_be_bytes());
}

fn put_texts(texts: &[&str], out: &mut Vec<u8>) {
    put_u16(texts.len(), out);
    for text in texts {
        put_u16(text.len(), out);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Returns the first texts that fit the space, and reduces it.
fn fitting<'a>(texts: impl Iterator<Item = &'a str>, space: &mut usize) -> Vec<&'a str> {
    let fits = |text: &&str| {
        let left = space.checked_sub(2 + text.len());
        *space = left.unwrap_or(*space);
        left.is_some()
    };
    texts.take(usize::from(u16::MAX)).take_while(fits).collect()
}

/// Bytes that are read from the start.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|bytes| u64::from_be_bytes(core::array::from_fn(|at| bytes[at])))
    }

    fn node(&mut self) -> Option<NodeId> {
        self.u64().filter(|node| *node != 0).map(NodeId)
    }

    /// Reads names or patterns and their number.
    fn texts<T: FromStr>(&mut self) -> Option<Vec<T>> {
        let count = self.u16()?;
        let text = |_| {
            let len = self.u16()?;
            let text = self.take(usize::from(len))?;
            core::str::from_utf8(text).ok()?.parse().ok()
        };
        (0..count).map(text).collect()
    }
}

impl Control {
    /// Returns the bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Control::Hello { node, heard, versions } => {
                out.push(HELLO);
                put_node(*node, &mut out);
                put_u16(heard.len(), &mut out);
                heard.iter().for_each(|node| put_node(*node, &mut out));
                put_u16(versions.len(), &mut out);
                for (node, version) in versions {
                    put_node(*node, &mut out);
                    out.extend_from_slice(&version.to_be_bytes());
                }
            }
            Control::Record { node, version, part, parts, bytes } => {
                out.push(RECORD);
                put_node(*node, &mut out);
                out.extend_from_slice(&version.to_be_bytes());
                put_u16(usize::from(*part), &mut out);
                put_u16(usize::from(*parts), &mut out);
                out.extend_from_slice(bytes);
            }
        }
        out
    }

    /// Reads a message. `None` if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let mut cursor = Cursor(rest);
        let node = cursor.node()?;
        match *kind {
            HELLO => {
                let count = usize::from(cursor.u16()?);
                if count > NEIGHBOURS_MAX {
                    return None;
                }
                let heard = (0..count).map(|_| cursor.node()).collect::<Option<_>>()?;
                let count = usize::from(cursor.u16()?);
                if count > VERSIONS_MAX {
                    return None;
                }
                let version = |_| Some((cursor.node()?, cursor.u64()?));
                let versions = (0..count).map(version).collect::<Option<_>>()?;
                cursor.0.is_empty().then_some(Control::Hello { node, heard, versions })
            }
            RECORD => {
                let (version, part, parts) = (cursor.u64()?, cursor.u16()?, cursor.u16()?);
                let is_valid = part < parts
                    && cursor.0.len() <= PART_LEN
                    && usize::from(parts) <= RECORD_BYTES_MAX.div_ceil(PART_LEN);
                let bytes = cursor.0.to_vec();
                is_valid.then_some(Control::Record { node, version, part, parts, bytes })
            }
            _ => None,
        }
    }

    /// Divides a record into messages.
    pub fn record_parts(node: NodeId, version: u64, body: &[u8]) -> Vec<Control> {
        let parts = body.len().div_ceil(PART_LEN).max(1) as u16;
        let part = |(part, bytes): (u16, &[u8])| Control::Record {
            node,
            version,
            part,
            parts,
            bytes: bytes.to_vec(),
        };
        (0..).zip(body.chunks(PART_LEN)).map(part).collect()
    }
}

impl RecordBody {
    /// Returns the bytes, at most [`RECORD_BYTES_MAX`]. If the patterns need more, the last one is
    /// `/**`: the node then receives all publications and chooses itself.
    pub fn encode(&self) -> Vec<u8> {
        let publishers = self.publishers_text();
        let bytes_max = RECORD_BYTES_MAX - publishers.as_ref().map_or(0, |text| 10 + text.len());
        let mut out = Vec::new();
        put_u16(self.neighbours.len(), &mut out);
        self.neighbours.iter().for_each(|node| put_node(*node, &mut out));
        let texts: usize = self.patterns.iter().map(|pattern| 2 + pattern.as_str().len()).sum();
        let fits =
            out.len() + 2 + texts <= bytes_max && self.patterns.len() <= usize::from(u16::MAX);
        let everything = ["/**"];
        let texts: Vec<&str> = match fits {
            true => self.patterns.iter().map(ScopePattern::as_str).collect(),
            false => everything.to_vec(),
        };
        put_texts(&texts, &mut out);
        let has_strategies = !self.strategies.is_empty() || publishers.is_some();
        let has_links = !self.links.is_empty() || has_strategies;
        if !self.watches.is_empty() || !self.items.is_empty() || has_links {
            let mut space = bytes_max.saturating_sub(out.len() + 4);
            put_texts(
                &fitting(self.watches.iter().map(ScopePattern::as_str), &mut space),
                &mut out,
            );
            put_texts(&fitting(self.items.iter().map(ItemName::as_str), &mut space), &mut out);
        }
        if has_links {
            let mut space = bytes_max.saturating_sub(out.len() + 4);
            let texts = self.links.iter().flat_map(|(child, parent)| [child, parent]);
            put_texts(&fitting(texts.map(ItemName::as_str), &mut space), &mut out);
        }
        if has_strategies {
            let mut space = bytes_max.saturating_sub(out.len() + 2);
            let pairs = self.strategies.iter();
            let texts = pairs.flat_map(|(scope, strategy)| [scope.as_str(), strategy.as_str()]);
            let mut texts = fitting(texts, &mut space);
            if let Some(publishers) = &publishers {
                texts.truncate(texts.len() & !1);
                texts.truncate(usize::from(u16::MAX) - 1);
                texts.push(publishers);
            }
            put_texts(&texts, &mut out);
        }
        out
    }

    /// Returns the publishers as one text, as many as fit. `None` without any.
    fn publishers_text(&self) -> Option<String> {
        let mut text = String::from(PUBLISHERS);
        for (name, publisher) in &self.publishers {
            let line = publisher.line(name);
            if text.len() + line.len() <= PUBLISHERS_BYTES_MAX {
                text.push_str(&line);
            }
        }
        (!self.publishers.is_empty()).then_some(text)
    }

    /// Reads the bytes. `None` if they are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let count = usize::from(cursor.u16()?);
        if count > NEIGHBOURS_MAX {
            return None;
        }
        let neighbours = (0..count).map(|_| cursor.node()).collect::<Option<_>>()?;
        let patterns = cursor.texts()?;
        let (watches, items) = match cursor.0.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => (cursor.texts()?, cursor.texts()?),
        };
        let texts: Vec<ItemName> = if cursor.0.is_empty() { Vec::new() } else { cursor.texts()? };
        // One without its parent did not fit.
        let pairs = texts.as_chunks().0.iter();
        let links = pairs.map(|[child, parent]| (child.clone(), parent.clone())).collect();
        let texts: Vec<String> = if cursor.0.is_empty() { Vec::new() } else { cursor.texts()? };
        let (pairs, others) = texts.as_chunks();
        let strategy =
            |[scope, strategy]: &[String; 2]| scope.parse().ok().zip(strategy.parse().ok());
        let strategies = pairs.iter().map(strategy).collect::<Option<_>>()?;
        let publishers = others.iter().filter_map(|text| text.strip_prefix(PUBLISHERS));
        let publishers = publishers.flat_map(str::lines).filter_map(ItemPublisher::parse).collect();
        let body =
            RecordBody { neighbours, patterns, watches, items, links, strategies, publishers };
        cursor.0.is_empty().then_some(body)
    }
}

/// The publications that a node requests again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairRequest {
    /// Whole publications: first and last numbers.
    Numbers(Vec<(u64, u64)>),
    /// Fragments of one publication: its number, first and last fragments.
    Fragments(u64, Vec<(u32, u32)>),
    /// Where the item starts for the node: the number before those that it received.
    Start(u64),
}

impl RepairRequest {
    /// Returns the bytes of the request.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            RepairRequest::Numbers(ranges) => {
                let mut out = vec![0];
                for number in ranges.iter().flat_map(|(first, last)| [first, last]) {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                out
            }
            RepairRequest::Fragments(sequence, ranges) => {
                let mut out = vec![1];
                out.extend_from_slice(&sequence.to_be_bytes());
                for index in ranges.iter().flat_map(|(first, last)| [first, last]) {
                    out.extend_from_slice(&index.to_be_bytes());
                }
                out
            }
            RepairRequest::Start(before) => [&[2], &before.to_be_bytes()[..]].concat(),
        }
    }

    /// Reads a request. `None` if it is invalid or has too many ranges.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let mut cursor = Cursor(rest);
        let request = match *kind {
            0 => {
                let count = rest.len() / 16;
                let range = |_| Some((cursor.u64()?, cursor.u64()?));
                let ranges = (0..count.min(RANGES_MAX)).map(range).collect::<Option<Vec<_>>>()?;
                ranges.iter().all(|(a, b)| a <= b).then_some(RepairRequest::Numbers(ranges))?
            }
            1 => {
                let sequence = cursor.u64()?;
                let count = cursor.0.len() / 8;
                let range = |_| {
                    let both = cursor.u64()?;
                    Some(((both >> 32) as u32, both as u32))
                };
                let ranges = (0..count.min(RANGES_MAX)).map(range).collect::<Option<Vec<_>>>()?;
                let is_valid = ranges.iter().all(|(a, b)| a <= b);
                is_valid.then_some(RepairRequest::Fragments(sequence, ranges))?
            }
            2 => RepairRequest::Start(cursor.u64()?),
            _ => return None,
        };
        cursor.0.is_empty().then_some(request)
    }
}

/// What a node says of publications that it keeps; the packet has their item and the last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptOffer {
    /// The node that keeps them.
    pub keeper: NodeId,
    /// Number of the first one.
    pub first: u64,
    /// Milliseconds since it had the last one.
    pub age_ms: u64,
}

impl KeptOffer {
    /// Returns the bytes.
    pub fn encode(&self) -> Vec<u8> {
        [self.keeper.0, self.first, self.age_ms].map(u64::to_be_bytes).concat()
    }

    /// Reads the bytes. `None` if they are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let (keeper, first, age_ms) = (cursor.node()?, cursor.u64()?, cursor.u64()?);
        cursor.0.is_empty().then_some(KeptOffer { keeper, first, age_ms })
    }

    /// Returns the bytes of a request for kept publications of another node's publisher.
    pub fn request(origin: NodeId, request: &RepairRequest) -> Vec<u8> {
        let mut out = Vec::new();
        put_node(origin, &mut out);
        out.extend(request.encode());
        out
    }

    /// Reads a request. `None` if it is invalid.
    pub fn split_request(bytes: &[u8]) -> Option<(NodeId, RepairRequest)> {
        let mut cursor = Cursor(bytes);
        let origin = cursor.node()?;
        RepairRequest::decode(cursor.0).map(|request| (origin, request))
    }
}

/// Returns the start of a publication's payload.
pub fn payload_head(flags: u8, name: &str) -> Vec<u8> {
    let mut out = vec![flags];
    put_u16(name.len(), &mut out);
    out.extend_from_slice(name.as_bytes());
    out
}

/// Divides the payload of a publication's packet into flags, name and bytes. `None` if it is
/// invalid.
pub fn split_payload(payload: &[u8]) -> Option<(u8, &str, &[u8])> {
    let (flags, rest) = payload.split_first()?;
    let mut cursor = Cursor(rest);
    let len = cursor.u16()?;
    let name = core::str::from_utf8(cursor.take(usize::from(len))?).ok()?;
    Some((*flags, name, cursor.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_encoding_and_cuts_are_refused() {
        let hello = Control::Hello {
            node: NodeId(7),
            heard: vec![NodeId(8), NodeId(9)],
            versions: vec![(NodeId(7), 3)],
        };
        let bytes = hello.encode();
        assert_eq!(Control::decode(&bytes), Some(hello));
        assert!((0..bytes.len()).all(|end| Control::decode(&bytes[..end]).is_none()));
        assert!(Control::decode(&[99; 40]).is_none());
        let body = RecordBody {
            neighbours: vec![NodeId(1)],
            patterns: (0..500).map(|n| format!("/a/{n}/**").parse().unwrap()).collect(),
            ..RecordBody::default()
        };
        let bytes = body.encode();
        assert_eq!(RecordBody::decode(&bytes).as_ref(), Some(&body));
        assert!((0..bytes.len()).all(|end| RecordBody::decode(&bytes[..end]).is_none()));
        let watched = RecordBody {
            watches: vec!["/w/**".parse().unwrap()],
            items: vec!["/w/1".parse().unwrap(), "/w/2".parse().unwrap()],
            ..body
        };
        let longer = watched.encode();
        assert_eq!(RecordBody::decode(&longer), Some(watched));
        let cuts = (0..longer.len()).filter(|end| RecordBody::decode(&longer[..*end]).is_some());
        assert_eq!(cuts.collect::<Vec<_>>(), [bytes.len()], "the record without the last line");
        let link = |child: &str, parent: &str| (child.parse().unwrap(), parent.parse().unwrap());
        let linked = RecordBody {
            links: vec![link("/a/s", "/b"), link("/a/i", "/c")],
            ..RecordBody::default()
        };
        assert_eq!(RecordBody::decode(&linked.encode()).as_ref(), Some(&linked));
        let strategies = vec![("/s".parse().unwrap(), Strategy::Implicit)];
        for links in [linked.links.clone(), Vec::new()] {
            let with = RecordBody { links, strategies: strategies.clone(), ..linked.clone() };
            let bytes = with.encode();
            assert_eq!(RecordBody::decode(&bytes), Some(with));
            let last = bytes.len() - 1;
            assert!(RecordBody::decode(&[&bytes[..last], &[0xff]].concat()).is_none());
        }
        let parts = Control::record_parts(NodeId(1), 5, &bytes);
        assert!(parts.len() > 2);
        assert!(parts.iter().all(|part| Control::decode(&part.encode()).as_ref() == Some(part)));
    }

    #[test]
    fn publishers_are_a_text_that_nodes_without_them_skip() {
        let publisher = |strength| ItemPublisher {
            choice: PublisherChoice::Strongest,
            strength,
            strategy: Strategy::Domain,
        };
        let entry = |number: u32| (format!("/p/a b {number}").parse().unwrap(), publisher(number));
        let body = RecordBody {
            strategies: vec![("/s".parse().unwrap(), Strategy::LinkLocal)],
            publishers: vec![entry(0), entry(u32::MAX)],
            ..RecordBody::default()
        };
        for strategies in [body.strategies.clone(), Vec::new()] {
            let body = RecordBody { strategies, ..body.clone() };
            let bytes = body.encode();
            assert_eq!(RecordBody::decode(&bytes).as_ref(), Some(&body));
            // A node without them: the same with a text that means nothing to it.
            let head = bytes.windows(10).position(|part| part == PUBLISHERS.as_bytes()).unwrap();
            let mut other = bytes.clone();
            other[head..head + 10].copy_from_slice(b"otherwords");
            let without = RecordBody { publishers: Vec::new(), ..body };
            assert_eq!(RecordBody::decode(&other), Some(without));
        }
        let mut bytes = body.encode();
        let line = bytes.windows(9).position(|part| part == b"strongest").unwrap();
        bytes[line] = b'S';
        let known = RecordBody::decode(&bytes).unwrap().publishers;
        assert_eq!(known, [entry(u32::MAX)], "an unknown choice is skipped");
        let long = |n: u32| format!("/{n}/{}", "x".repeat(200));
        let patterns = (0..1200).map(|n| long(n).parse().unwrap()).collect();
        let publishers = (0..600).map(|n| (long(n).parse().unwrap(), publisher(n))).collect();
        let bytes = RecordBody { patterns, publishers, ..RecordBody::default() }.encode();
        assert!(bytes.len() <= RECORD_BYTES_MAX);
        let read = RecordBody::decode(&bytes).unwrap();
        assert_eq!(read.patterns, ["/**".parse().unwrap()], "publishers have their space");
        assert!((200..300).contains(&read.publishers.len()), "{}", read.publishers.len());
    }

    #[test]
    fn repair_requests_survive_encoding_and_invalid_ones_are_refused() {
        let numbers = RepairRequest::Numbers(vec![(1, 5), (7, u64::MAX)]);
        let fragments = RepairRequest::Fragments(9, vec![(0, 3), (u32::MAX, u32::MAX)]);
        for request in [numbers, fragments, RepairRequest::Start(u64::MAX - 1)] {
            let bytes = request.encode();
            assert_eq!(RepairRequest::decode(&bytes), Some(request));
            assert!(RepairRequest::decode(&bytes[..bytes.len() - 1]).is_none());
        }
        assert_eq!(RepairRequest::decode(&RepairRequest::Numbers(vec![(5, 1)]).encode()), None);
        let long = RepairRequest::Numbers(vec![(1, 1); RANGES_MAX + 1]);
        assert_eq!(RepairRequest::decode(&long.encode()), None);
        assert_eq!(RepairRequest::decode(&[2, 0, 0]), None);
        let offer = KeptOffer { keeper: NodeId(5), first: 3, age_ms: 1000 };
        assert_eq!(KeptOffer::decode(&offer.encode()), Some(offer));
        assert!((0..24).all(|end| KeptOffer::decode(&offer.encode()[..end]).is_none()));
        let request = RepairRequest::Numbers(vec![(1, 5)]);
        let bytes = KeptOffer::request(NodeId(9), &request);
        assert_eq!(KeptOffer::split_request(&bytes), Some((NodeId(9), request)));
        assert!((0..=8).all(|end| KeptOffer::split_request(&bytes[..end]).is_none()));
    }

    #[test]
    fn record_that_would_be_too_long_asks_for_everything() {
        let long = |n: u32| format!("/{n}/{}", "x".repeat(200)).parse().unwrap();
        let body = RecordBody { patterns: (0..5000).map(long).collect(), ..RecordBody::default() };
        let bytes = body.encode();
        assert!(bytes.len() < RECORD_BYTES_MAX);
        let read = RecordBody::decode(&bytes).unwrap();
        assert_eq!(read.patterns, ["/**".parse().unwrap()]);
    }
}
