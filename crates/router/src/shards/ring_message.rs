//! Messages in the rings between shards: a header of fixed size, a packet, and its prefix
//! announcement if it has one. Buffers belong to one shard's pool each, so a packet is copied once
//! into the ring and once out of it.

use nw_element_api::{FaceId, Kind, Meta, Packet, Pool, Timestamp};
use nw_faces::{Origin, UnknownPeerPacket};
use nw_wire::{NackReason, Token};
use rtrb::{Consumer, Producer};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Purpose of a packet in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Forward it: the receiver owns its name or token.
    Forward,
    /// Send it on `meta.egress`, a face of the receiver.
    Transmit,
    /// Pass it to control, for self-learning.
    RouteEvent,
}

/// A message read from a ring.
#[derive(Debug)]
pub enum RingMessage {
    /// A packet and its purpose. A packet to forward is not decoded yet.
    Packet(MessageKind, Packet),
    /// A packet of an unknown peer, which only the first shard can add as a face.
    UnknownPeer(Origin, Packet),
    /// The pool had no buffer for the packet.
    Lost,
}

const FORWARD: u8 = 0;
const TRANSMIT: u8 = 1;
const ROUTE_EVENT: u8 = 2;
const DATAGRAM: u8 = 3;
const FRAME: u8 = 4;

const LOCAL: u8 = 1;
const NO_CACHE: u8 = 2;
const NON_DISCOVERY: u8 = 4;
const HAS_NACK: u8 = 8;
const HAS_NEXT_HOP: u8 = 16;
const IS_V6: u8 = 32;

/// Messages begin at multiples of this number of bytes.
const ALIGN: usize = 8;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    packet_len: u32,
    announcement_len: u32,
    message_kind: u8,
    flags: u8,
    packet_kind: u8,
    nack: u8,
    token_len: u8,
    reserved: [u8; 3],
    ingress: u32,
    egress: u32,
    next_hop: u32,
    incoming: u32,
    congestion_mark: u64,
    arrival_ns: u64,
    /// Offset and length of the name in the packet. For a packet of an unknown peer: its port, and
    /// 0.
    span: [u16; 2],
    /// For a packet of an unknown peer: the socket or interface that received it.
    socket: u32,
    /// For a packet of an unknown peer: its IPv6, or mapped IPv4, address.
    address: [u8; 16],
    token: [u8; 32],
}

/// Length of the header in bytes.
pub const HEADER_LEN: usize = size_of::<Header>();

/// Writes a packet with its link fields. Returns `false` if the ring has no space for it.
pub fn write(ring: &mut Producer<u8>, kind: MessageKind, packet: &Packet, pool: &Pool) -> bool {
    let (bytes, meta) = pool.view(packet);
    let link = &meta.link;
    let announcement = pool.announcement(link.announcement).unwrap_or(&[]);
    let mut token = [0; 32];
    token[..link.token.as_bytes().len()].copy_from_slice(link.token.as_bytes());
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let header = Header {
        packet_len: bytes.len() as u32,
        announcement_len: announcement.len() as u32,
        message_kind: match kind {
            MessageKind::Forward => FORWARD,
            MessageKind::Transmit => TRANSMIT,
            MessageKind::RouteEvent => ROUTE_EVENT,
        },
        flags: flag(meta.ingress_local, LOCAL)
            | flag(link.no_cache, NO_CACHE)
            | flag(link.non_discovery, NON_DISCOVERY)
            | flag(link.nack.is_some(), HAS_NACK)
            | flag(link.next_hop_face.is_some(), HAS_NEXT_HOP),
        packet_kind: match meta.kind {
            Kind::Interest => 0,
            Kind::Data => 1,
            Kind::Nack => 2,
            Kind::Publication => 3,
        },
        nack: link.nack.map_or(0, |reason| reason.number() as u8),
        token_len: link.token.as_bytes().len() as u8,
        reserved: [0; 3],
        ingress: meta.ingress.bits(),
        egress: meta.egress.bits(),
        next_hop: link.next_hop_face.unwrap_or(FaceId::NONE).bits(),
        incoming: link.incoming_face.bits(),
        congestion_mark: link.congestion_mark,
        arrival_ns: meta.arrival.as_nanos(),
        span: [meta.name.start, meta.name.len],
        socket: 0,
        address: [0; 16],
        token,
    };
    write_parts(ring, &header, bytes, announcement)
}

/// Writes a packet of an unknown peer. Returns `false` if the ring has no space for it.
pub fn write_unknown_peer(ring: &mut Producer<u8>, stray: &UnknownPeerPacket, pool: &Pool) -> bool {
    let bytes = pool.bytes(&stray.packet);
    let (socket, peer) = match stray.origin {
        Origin::Socket(socket, peer) => (socket, peer),
        Origin::Interface(interface) => {
            let packet_len = bytes.len() as u32;
            let header = Header {
                packet_len,
                message_kind: FRAME,
                socket: interface,
                ..Header::new_zeroed()
            };
            return write_parts(ring, &header, bytes, &[]);
        }
    };
    let (address, flags) = match peer.ip() {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().octets(), 0),
        IpAddr::V6(v6) => (v6.octets(), IS_V6),
    };
    let scope = match peer {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let header = Header {
        packet_len: bytes.len() as u32,
        message_kind: DATAGRAM,
        flags,
        span: [peer.port(), 0],
        socket,
        address,
        // The interface of a link-local peer.
        next_hop: scope,
        ..Header::new_zeroed()
    };
    write_parts(ring, &header, bytes, &[])
}

fn write_parts(
    ring: &mut Producer<u8>,
    header: &Header,
    bytes: &[u8],
    announcement: &[u8],
) -> bool {
    let len = (HEADER_LEN + bytes.len() + announcement.len()).next_multiple_of(ALIGN);
    let Ok(mut chunk) = ring.write_chunk(len) else { return false };
    let (first, second) = chunk.as_mut_slices();
    let mut free = [first, second];
    [header.as_bytes(), bytes, announcement].iter().for_each(|piece| copy_in(&mut free, piece));
    chunk.commit_all();
    true
}

/// Copies a piece to the start of the free space, which consists of two slices.
fn copy_in(free: &mut [&mut [u8]; 2], piece: &[u8]) {
    let fitting = piece.len().min(free[0].len());
    let (target, remaining) = core::mem::take(&mut free[0]).split_at_mut(fitting);
    target.copy_from_slice(&piece[..fitting]);
    free[0] = remaining;
    if fitting < piece.len() {
        free.swap(0, 1);
        copy_in(free, &piece[fitting..]);
    }
}

/// Reads the oldest message of a ring. `None` if the ring is empty.
pub fn read(ring: &mut Consumer<u8>, pool: &mut Pool) -> Option<RingMessage> {
    let mut header = [0; HEADER_LEN];
    copy_out(ring.read_chunk(HEADER_LEN).ok()?.as_slices(), 0, &mut header);
    let header = Header::read_from_bytes(&header).ok()?;
    let (packet_len, announcement_len) =
        (header.packet_len as usize, header.announcement_len as usize);
    let len = (HEADER_LEN + packet_len + announcement_len).next_multiple_of(ALIGN);
    // A message is written as a whole, so its rest is in the ring too.
    let chunk = ring.read_chunk(len).ok()?;
    let Some(packet) = pool.alloc(packet_len) else {
        chunk.commit_all();
        return Some(RingMessage::Lost);
    };
    copy_out(chunk.as_slices(), HEADER_LEN, pool.bytes_mut(&packet));
    if header.message_kind == DATAGRAM {
        chunk.commit_all();
        let ip = Ipv6Addr::from_octets(header.address);
        let peer = match ip.to_ipv4_mapped().filter(|_| header.flags & IS_V6 == 0) {
            Some(v4) => SocketAddr::from((v4, header.span[0])),
            None => std::net::SocketAddrV6::new(ip, header.span[0], 0, header.next_hop).into(),
        };
        return Some(RingMessage::UnknownPeer(Origin::Socket(header.socket, peer), packet));
    }
    if header.message_kind == FRAME {
        chunk.commit_all();
        return Some(RingMessage::UnknownPeer(Origin::Interface(header.socket), packet));
    }
    if announcement_len > 0 {
        let mut announcement = vec![0; announcement_len];
        copy_out(chunk.as_slices(), HEADER_LEN + packet_len, &mut announcement);
        pool.meta_mut(&packet).link.announcement = pool.keep_announcement(&announcement);
    }
    chunk.commit_all();
    header.fill_meta(pool.meta_mut(&packet));
    let kind = match header.message_kind {
        FORWARD => MessageKind::Forward,
        TRANSMIT => MessageKind::Transmit,
        _ => MessageKind::RouteEvent,
    };
    Some(RingMessage::Packet(kind, packet))
}

/// Copies bytes out of two consecutive slices, from byte `start` on.
fn copy_out((first, second): (&[u8], &[u8]), start: usize, to: &mut [u8]) {
    let from_first = first.get(start..).unwrap_or_default();
    let in_first = from_first.len().min(to.len());
    to[..in_first].copy_from_slice(&from_first[..in_first]);
    let second_start = start.saturating_sub(first.len());
    let remaining = &mut to[in_first..];
    remaining.copy_from_slice(&second[second_start..second_start + remaining.len()]);
}

impl Header {
    fn fill_meta(&self, meta: &mut Meta) {
        let has = |bit: u8| self.flags & bit != 0;
        meta.kind = match self.packet_kind {
            0 => Kind::Interest,
            1 => Kind::Data,
            2 => Kind::Nack,
            _ => Kind::Publication,
        };
        meta.ingress = FaceId::from_bits(self.ingress);
        meta.ingress_local = has(LOCAL);
        meta.egress = FaceId::from_bits(self.egress);
        meta.arrival = Timestamp::from_nanos(self.arrival_ns);
        meta.name = (self.span[0], self.span[1]).into();
        meta.link.token =
            Token::new(&self.token[..usize::from(self.token_len)]).unwrap_or_default();
        meta.link.nack = has(HAS_NACK).then(|| NackReason::from(u64::from(self.nack)));
        meta.link.congestion_mark = self.congestion_mark;
        meta.link.next_hop_face = has(HAS_NEXT_HOP).then(|| FaceId::from_bits(self.next_hop));
        meta.link.incoming_face = FaceId::from_bits(self.incoming);
        meta.link.no_cache = has(NO_CACHE);
        meta.link.non_discovery = has(NON_DISCOVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::decode::decode;
    use nw_name::HashKey;
    use proptest::prelude::*;

    fn pool() -> Pool {
        Pool::new(HashKey::new([1, 2, 3, 4]), 8, 64)
    }

    fn data(len: usize) -> Vec<u8> {
        let mut data = vec![6, 0xfd, 0, 0, 7, 3, 8, 1, b'a', 0x15, 0xfd, 0, 0];
        data.resize(13 + len, 9);
        data.extend_from_slice(&[0x16, 3, 0x1b, 1, 0, 0x17, 0]);
        let inner = (data.len() - 4) as u16;
        data[2..4].copy_from_slice(&inner.to_be_bytes());
        data[11..13].copy_from_slice(&(len as u16).to_be_bytes());
        data
    }

    proptest! {
        /// Messages are read as written and in order, also across the ring's end; a message that
        /// does not fit is refused as a whole.
        #[test]
        fn ring_messages_are_read_as_written_in_order(
            lens in proptest::collection::vec(300usize..3000, 1..40),
            token in proptest::collection::vec(any::<u8>(), 0..=32),
            bits: [bool; 5],
            numbers: [u32; 3],
        ) {
            let (mut sender_pool, mut receiver_pool) = (pool(), pool());
            let (mut sender, mut receiver) = rtrb::RingBuffer::new(7000);
            let mut in_ring = std::collections::VecDeque::new();
            for len in lens {
                let packet = sender_pool.copy_of(&data(len)).unwrap();
                let reference = sender_pool.keep_announcement(&data(len / 10));
                let meta = sender_pool.meta_mut(&packet);
                meta.link.token = Token::new(&token).unwrap();
                meta.link.no_cache = bits[0];
                meta.link.congestion_mark = u64::from(numbers[0]);
                meta.link.incoming_face = FaceId::from_bits(numbers[1]);
                if bits[1] {
                    meta.link.announcement = reference;
                }
                meta.ingress = FaceId::from_bits(numbers[2]);
                meta.ingress_local = bits[2];
                decode(&mut sender_pool, &packet).unwrap();
                sender_pool.meta_mut(&packet).egress = FaceId::from_bits(numbers[1] / 2);
                if write(&mut sender, MessageKind::Transmit, &packet, &sender_pool) {
                    in_ring.push_back(len);
                } else {
                    prop_assert!(!in_ring.is_empty(), "an empty ring has space for a packet");
                }
                sender_pool.release(packet);
                if in_ring.len() > 1 || bits[3] {
                    let Some(len) = in_ring.pop_front() else { continue };
                    let message = read(&mut receiver, &mut receiver_pool);
                    let Some(RingMessage::Packet(MessageKind::Transmit, packet)) = message else {
                        panic!("a message is in the ring")
                    };
                    prop_assert_eq!(receiver_pool.bytes(&packet), &data(len)[..]);
                    let meta = receiver_pool.meta(&packet);
                    prop_assert_eq!(meta.link.token.as_bytes(), &token[..]);
                    let kind_and_flags = (meta.kind, meta.link.no_cache, meta.ingress_local);
                    prop_assert_eq!(kind_and_flags, (Kind::Data, bits[0], bits[2]));
                    prop_assert_eq!(meta.link.incoming_face.bits(), numbers[1]);
                    let faces = (meta.ingress.bits(), meta.egress.bits());
                    prop_assert_eq!(faces, (numbers[2], numbers[1] / 2));
                    prop_assert_eq!(meta.link.congestion_mark, u64::from(numbers[0]));
                    prop_assert_eq!(meta.name_in(receiver_pool.bytes(&packet)).to_string(), "/a");
                    let announcement =
                        receiver_pool.announcement(meta.link.announcement).map(<[u8]>::to_vec);
                    prop_assert_eq!(announcement, bits[1].then(|| data(len / 10)));
                    receiver_pool.release(packet);
                }
            }
            while let Some(message) = read(&mut receiver, &mut receiver_pool) {
                let RingMessage::Packet(_, packet) = message else { panic!("{message:?}") };
                receiver_pool.release(packet);
                in_ring.pop_front();
            }
            prop_assert!(in_ring.is_empty());
            prop_assert_eq!(receiver_pool.packets_in_use(), 0);
        }
    }

    #[test]
    fn unknown_peer_message_keeps_origin() {
        let (mut sender_pool, mut receiver_pool) = (pool(), pool());
        let (mut sender, mut receiver) = rtrb::RingBuffer::new(4096);
        for peer in ["127.0.0.1:6363", "[2001:db8::1]:9", "[fe80::1%7]:6363", "[::ffff:10.0.0.1]:1"]
        {
            let peer: SocketAddr = peer.parse().unwrap();
            let packet = sender_pool.copy_of(&data(10)).unwrap();
            let stray = UnknownPeerPacket { origin: Origin::Socket(3, peer), packet };
            assert!(write_unknown_peer(&mut sender, &stray, &sender_pool));
            sender_pool.release(stray.packet);
            match read(&mut receiver, &mut receiver_pool) {
                Some(RingMessage::UnknownPeer(Origin::Socket(3, seen), packet)) => {
                    assert_eq!((seen, receiver_pool.bytes(&packet)), (peer, &data(10)[..]));
                    receiver_pool.release(packet);
                }
                message => panic!("{message:?}"),
            }
        }
        let stray = UnknownPeerPacket {
            origin: Origin::Interface(7),
            packet: sender_pool.copy_of(&data(20)).unwrap(),
        };
        assert!(write_unknown_peer(&mut sender, &stray, &sender_pool));
        sender_pool.release(stray.packet);
        match read(&mut receiver, &mut receiver_pool) {
            Some(RingMessage::UnknownPeer(Origin::Interface(7), packet)) => {
                assert_eq!(receiver_pool.bytes(&packet), &data(20)[..]);
                receiver_pool.release(packet);
            }
            message => panic!("{message:?}"),
        }
    }

    #[test]
    fn read_without_buffers_reports_lost_and_continues() {
        let mut sender_pool = pool();
        let mut receiver_pool = Pool::new(HashKey::new([1, 2, 3, 4]), 1, 1);
        let (mut sender, mut receiver) = rtrb::RingBuffer::new(1 << 16);
        for len in [10, 20, 30] {
            let packet = sender_pool.copy_of(&data(len)).unwrap();
            assert!(write(&mut sender, MessageKind::Forward, &packet, &sender_pool));
            sender_pool.release(packet);
        }
        let Some(RingMessage::Packet(MessageKind::Forward, first)) =
            read(&mut receiver, &mut receiver_pool)
        else {
            panic!()
        };
        assert!(matches!(read(&mut receiver, &mut receiver_pool), Some(RingMessage::Lost)));
        receiver_pool.release(first);
        let Some(RingMessage::Packet(_, last)) = read(&mut receiver, &mut receiver_pool) else {
            panic!()
        };
        assert_eq!(receiver_pool.bytes(&last), &data(30)[..]);
        receiver_pool.release(last);
        assert!(read(&mut receiver, &mut receiver_pool).is_none());
    }
}
