//! Publications received from other nodes: fragments joined, numbers compared.
//!
//! Invariant: bounded in items, and in bytes of incomplete publications. A publication whose
//! fragments do not arrive in order is lost, and shows as a gap in the numbers.

use super::NodeId;
use nw_api::pubsub::ItemName;
use nw_wire::publication::FragmentInfo;
use std::collections::BTreeMap;

/// Items followed at most.
const STREAMS_MAX: usize = 65_536;
/// Bytes of all incomplete publications at most.
const PARTIAL_BYTES_MAX: usize = 256 << 20;

/// What a packet gave.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A complete publication.
    Complete(Vec<u8>),
    /// A part of one.
    Partial,
    /// One that was received or counted as lost before, or can't be stored.
    Duplicate,
}

#[derive(Debug, Default)]
struct Partial {
    sequence: u64,
    /// Number of the next fragment.
    next: u32,
    count: u32,
    total_len: u64,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Stream {
    /// Number of the last publication received or lost.
    last: u64,
    partial: Option<Partial>,
}

/// All items followed.
#[derive(Debug, Default)]
pub struct Streams {
    streams: BTreeMap<(NodeId, ItemName), Stream>,
    partial_bytes: usize,
}

impl Streams {
    /// Takes a packet of a publication.
    pub fn receive(
        &mut self,
        node: NodeId,
        name: &ItemName,
        sequence: u64,
        fragment: Option<FragmentInfo>,
        part: &[u8],
    ) -> Arrival {
        let key = (node, name.clone());
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&key) {
            return Arrival::Duplicate;
        }
        let first = sequence.saturating_sub(1);
        let new = || Stream { last: first, partial: None };
        let stream = self.streams.entry(key).or_insert_with(new);
        if sequence <= stream.last {
            return Arrival::Duplicate;
        }
        let Some(info) = fragment else {
            let dropped = stream.partial.take();
            self.partial_bytes -= dropped.map_or(0, |partial| partial.bytes.len());
            stream.last = sequence;
            return Arrival::Complete(part.to_vec());
        };
        let mut partial = match stream.partial.take() {
            Some(partial) if partial.sequence == sequence && info.index > 0 => partial,
            dropped => {
                self.partial_bytes -= dropped.map_or(0, |partial| partial.bytes.len());
                let (count, total_len) = (info.count, info.total_len);
                Partial { sequence, next: 0, count, total_len, bytes: Vec::new() }
            }
        };
        let is_next = info.index == partial.next
            && info.count == partial.count
            && info.total_len == partial.total_len
            && (partial.bytes.len() + part.len()) as u64 <= partial.total_len
            && self.partial_bytes + part.len() <= PARTIAL_BYTES_MAX;
        if !is_next {
            let is_late = info.index < partial.next;
            if is_late {
                stream.partial = Some(partial);
            } else {
                self.partial_bytes -= partial.bytes.len();
            }
            return Arrival::Duplicate;
        }
        partial.bytes.extend_from_slice(part);
        partial.next += 1;
        self.partial_bytes += part.len();
        if partial.next < partial.count {
            stream.partial = Some(partial);
            return Arrival::Partial;
        }
        self.partial_bytes -= partial.bytes.len();
        if partial.bytes.len() as u64 != partial.total_len {
            return Arrival::Duplicate;
        }
        stream.last = sequence;
        Arrival::Complete(partial.bytes)
    }

    /// Takes the number of an item's last publication. Returns whether publications are missing;
    /// they are then counted as lost.
    pub fn receive_number(&mut self, node: NodeId, name: &ItemName, sequence: u64) -> bool {
        let key = (node, name.clone());
        let Some(stream) = self.streams.get_mut(&key) else {
            if self.streams.len() < STREAMS_MAX {
                self.streams.insert(key, Stream { last: sequence, partial: None });
            }
            return false;
        };
        if sequence <= stream.last {
            return false;
        }
        let dropped = stream.partial.take();
        self.partial_bytes -= dropped.map_or(0, |partial| partial.bytes.len());
        stream.last = sequence;
        true
    }

    /// Forgets an item. Returns whether it was known.
    pub fn remove(&mut self, node: NodeId, name: &ItemName) -> bool {
        let removed = self.streams.remove(&(node, name.clone()));
        let partial = removed.as_ref().and_then(|stream| stream.partial.as_ref());
        self.partial_bytes -= partial.map_or(0, |partial| partial.bytes.len());
        removed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(index: u32) -> Option<FragmentInfo> {
        Some(FragmentInfo { index, count: 3, total_len: 6 })
    }

    #[test]
    fn fragments_in_order_are_joined_and_others_are_lost() {
        let mut streams = Streams::default();
        let (node, name) = (NodeId(1), "/a".parse().unwrap());
        let mut receive =
            |sequence, index| streams.receive(node, &name, sequence, info(index), b"xy");
        assert_eq!(receive(1, 0), Arrival::Partial);
        assert_eq!(receive(1, 0), Arrival::Partial);
        assert_eq!(receive(1, 1), Arrival::Partial);
        assert_eq!(receive(1, 1), Arrival::Duplicate);
        assert_eq!(receive(1, 2), Arrival::Complete(b"xyxyxy".to_vec()));
        assert_eq!(receive(1, 2), Arrival::Duplicate);
        assert_eq!(receive(2, 0), Arrival::Partial);
        assert_eq!(receive(2, 2), Arrival::Duplicate);
        assert_eq!(receive(3, 0), Arrival::Partial);
        assert!(streams.receive_number(node, &name, 3));
        assert!(!streams.receive_number(node, &name, 3));
        assert_eq!(streams.partial_bytes, 0);
        assert!(streams.remove(node, &name) && !streams.remove(node, &name));
    }
}
