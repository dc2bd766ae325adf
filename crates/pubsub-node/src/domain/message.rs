//! Control messages of the domain, and what precedes the payload of a publication.
//!
//! They travel in [`Envelope`](nw_wire::publication::Envelope)s. Numbers have the most significant
//! byte first.
//!
//! ```text
//! hello   kind 1 = 32 | node 8 | heard 2 | { node 8 }… | versions 2 | { node 8 | version 8 }…
//! record  kind 1 = 33 | node 8 | version 8 | part 2 | parts 2 | bytes
//! payload flags 1 | name length 2 | name | bytes of the publication, or none
//! ```
//!
//! The bytes of a record, all parts joined:
//!
//! ```text
//! neighbours 2 | { node 8 }… | patterns 2 | { length 2 | text }…
//! ```

use super::NodeId;
use nw_api::pubsub::ScopePattern;

const HELLO: u8 = 32;
const RECORD: u8 = 33;

/// Bytes of a record in one packet.
const PART_LEN: usize = 1200;
/// Bytes of a record at most.
pub const RECORD_BYTES_MAX: usize = 256 << 10;
/// Neighbours of a node at most.
pub const NEIGHBOURS_MAX: usize = 64;
/// Versions in a hello at most.
pub const VERSIONS_MAX: usize = 48;

/// Flag: the last publication before the receiver subscribed.
pub const LAST_VALUE: u8 = 1;
/// Flag: late subscribers get the last publication.
pub const KEEPS_LAST: u8 = 2;
/// Flag: no publication; the sequence number is that of the last one.
pub const HEARTBEAT: u8 = 4;
/// Flag: the item has ended; with [`HEARTBEAT`].
pub const END: u8 = 8;

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Sent to each interface at an interval: who is there, and what it knows.
    Hello {
        /// The sender.
        node: NodeId,
        /// Nodes from which it received hellos.
        heard: Vec<NodeId>,
        /// Versions of the records that it has: a state vector.
        versions: Vec<(NodeId, u64)>,
    },
    /// A part of a node's record.
    Record {
        /// The node that the record is about.
        node: NodeId,
        /// Version of the record: one more with each change.
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
}

fn put_u16(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(number as u16).to_be_bytes());
}

fn put_node(node: NodeId, out: &mut Vec<u8>) {
    out.extend_from_slice(&node.0.to_be_bytes());
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
        let mut out = Vec::new();
        put_u16(self.neighbours.len(), &mut out);
        self.neighbours.iter().for_each(|node| put_node(*node, &mut out));
        let texts: usize = self.patterns.iter().map(|pattern| 2 + pattern.as_str().len()).sum();
        let fits = out.len() + 2 + texts <= RECORD_BYTES_MAX
            && self.patterns.len() <= usize::from(u16::MAX);
        let everything = ["/**"];
        let texts: Vec<&str> = match fits {
            true => self.patterns.iter().map(ScopePattern::as_str).collect(),
            false => everything.to_vec(),
        };
        put_u16(texts.len(), &mut out);
        for text in texts {
            put_u16(text.len(), &mut out);
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    /// Reads the bytes. `None` if they are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let count = usize::from(cursor.u16()?);
        if count > NEIGHBOURS_MAX {
            return None;
        }
        let neighbours = (0..count).map(|_| cursor.node()).collect::<Option<_>>()?;
        let count = cursor.u16()?;
        let mut pattern = || {
            let len = cursor.u16()?;
            let text = cursor.take(usize::from(len))?;
            core::str::from_utf8(text).ok()?.parse().ok()
        };
        let patterns = (0..count).map(|_| pattern()).collect::<Option<_>>()?;
        cursor.0.is_empty().then_some(RecordBody { neighbours, patterns })
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
        };
        let bytes = body.encode();
        assert_eq!(RecordBody::decode(&bytes), Some(body));
        assert!((0..bytes.len()).all(|end| RecordBody::decode(&bytes[..end]).is_none()));
        let parts = Control::record_parts(NodeId(1), 5, &bytes);
        assert!(parts.len() > 2);
        assert!(parts.iter().all(|part| Control::decode(&part.encode()).as_ref() == Some(part)));
    }

    #[test]
    fn record_that_would_be_too_long_asks_for_everything() {
        let long = |n: u32| format!("/{n}/{}", "x".repeat(200)).parse().unwrap();
        let body = RecordBody { neighbours: vec![], patterns: (0..5000).map(long).collect() };
        let bytes = body.encode();
        assert!(bytes.len() < RECORD_BYTES_MAX);
        let read = RecordBody::decode(&bytes).unwrap();
        assert_eq!(read.patterns, ["/**".parse().unwrap()]);
    }
}
