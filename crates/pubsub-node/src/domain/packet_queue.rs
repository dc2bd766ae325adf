//! Packets to send, in one buffer that is used again: no allocation for a packet.
//!
//! Invariant: packets to one target leave in the order in which they were queued.

use super::{LinkAddress, Target};
use core::ops::Range;

/// Bytes and packets whose memory is kept when the queue is cleared.
const BYTES_KEPT: usize = 4 << 20;
const PACKETS_KEPT: usize = 8192;

/// Packets to send. One to several targets is stored once.
#[derive(Debug, Default)]
pub struct PacketQueue {
    bytes: Vec<u8>,
    packets: Vec<(Target, Range<usize>)>,
}

impl PacketQueue {
    /// Appends the bytes that `write` writes, to be queued with [`push`](Self::push). Returns where
    /// they are; `None` if `write` returns false.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<Range<usize>> {
        let start = self.bytes.len();
        if write(&mut self.bytes) {
            return Some(start..self.bytes.len());
        }
        self.bytes.truncate(start);
        None
    }

    /// Queues appended bytes as a packet to a target.
    pub fn push(&mut self, target: Target, bytes: Range<usize>) {
        self.packets.push((target, bytes));
    }

    /// Brings the packets to one target together, and the targets of one interface.
    pub fn sort_by_target(&mut self) {
        // By the place in the buffer too, so that the order of a target's packets stays.
        self.packets.sort_unstable_by(|(one, at), (other, other_at)| {
            one.cmp(other).then(at.start.cmp(&other_at.start))
        });
    }

    /// Returns the packets in runs to one interface, to UDP addresses, or to all neighbours.
    pub fn runs(&self) -> impl Iterator<Item = PacketRun<'_>> {
        let is_same = |one: &(Target, _), other: &(Target, _)| kind(&one.0) == kind(&other.0);
        let runs = self.packets.chunk_by(is_same);
        runs.map(|packets| PacketRun { packets, bytes: &self.bytes })
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
        self.bytes.shrink_to(BYTES_KEPT);
        self.packets.shrink_to(PACKETS_KEPT);
    }

    /// Takes the packets, in the order in which they were queued.
    #[cfg(test)]
    pub fn take(&mut self) -> Vec<(Target, Vec<u8>)> {
        let copy = |(target, range): &(Target, Range<usize>)| {
            (target.clone(), self.bytes[range.clone()].to_vec())
        };
        let packets = self.packets.iter().map(copy).collect();
        self.clear();
        packets
    }
}

/// What sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// All sockets.
    Everyone,
    /// The socket of this interface.
    Ethernet(u32),
    /// The UDP socket.
    Udp,
}

const fn kind(target: &Target) -> RunKind {
    match target {
        Target::Everyone => RunKind::Everyone,
        Target::Neighbour(LinkAddress::Ethernet { interface, .. }) => RunKind::Ethernet(*interface),
        Target::Neighbour(LinkAddress::Udp(_)) => RunKind::Udp,
    }
}

/// Packets that one socket sends, or all do.
#[derive(Clone, Copy, Debug)]
pub struct PacketRun<'a> {
    packets: &'a [(Target, Range<usize>)],
    bytes: &'a [u8],
}

impl<'a> PacketRun<'a> {
    /// Returns what sends them.
    pub fn kind(&self) -> RunKind {
        self.packets.first().map_or(RunKind::Everyone, |(target, _)| kind(target))
    }

    /// Returns the number of packets.
    pub const fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns the packets with their targets.
    pub fn packets(&self) -> impl Iterator<Item = (&'a Target, &'a [u8])> + Clone {
        let bytes = self.bytes;
        self.packets.iter().map(move |(target, range)| (target, &bytes[range.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_faces::mac::Mac;
    use std::net::{Ipv4Addr, SocketAddr};

    fn udp(last: u8) -> Target {
        let address = SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 55_555));
        Target::Neighbour(address.into())
    }

    fn ethernet(interface: u32, last: u8) -> Target {
        Target::Neighbour(LinkAddress::Ethernet { interface, mac: Mac([2, 0, 0, 0, 0, last]) })
    }

    #[test]
    fn packets_of_a_target_come_together_in_their_order() {
        let mut queue = PacketQueue::default();
        let targets = [udp(2), ethernet(4, 1), udp(1), Target::Everyone, ethernet(3, 2)];
        for at in 0..100_u8 {
            let range = queue.append(|bytes| {
                bytes.extend([at; 5]);
                true
            });
            let range = range.unwrap();
            queue.push(targets[usize::from(at) % 5].clone(), range.clone());
            if at % 10 == 0 {
                queue.push(ethernet(4, 1), range);
            }
        }
        let refused = queue.append(|bytes| {
            bytes.extend([1; 9]);
            false
        });
        assert_eq!(refused, None);
        queue.sort_by_target();
        let kinds: Vec<RunKind> = queue.runs().map(|run| run.kind()).collect();
        let expected =
            [RunKind::Everyone, RunKind::Ethernet(3), RunKind::Ethernet(4), RunKind::Udp];
        assert_eq!(kinds, expected);
        assert_eq!(queue.runs().map(|run| run.len()).collect::<Vec<_>>(), [20, 20, 30, 40]);
        for target in &targets {
            let packets = queue.runs().flat_map(|run| run.packets().collect::<Vec<_>>());
            let sent: Vec<u8> =
                packets.filter(|(to, _)| *to == target).map(|(_, bytes)| bytes[4]).collect();
            assert!(sent.len() >= 20 && sent.is_sorted(), "{target:?}: {sent:?}");
        }
        let of_udp = queue.runs().last().unwrap();
        let changes = of_udp.packets().map(|(to, _)| to).collect::<Vec<_>>();
        assert_eq!(changes.chunk_by(|a, b| a == b).count(), 2, "each address once");
        assert_eq!(queue.take().len(), 110);
        assert!(queue.runs().next().is_none());
    }
}
