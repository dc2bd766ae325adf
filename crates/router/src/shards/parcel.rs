//! A packet on its way from one shard to another: a head of fixed size, the packet's octets, and those of its prefix announcement if it has one.
//! Buffers belong to one shard each, so it is copied, once.

use nw_element_api::{FaceId, Instant, Kind, Meta, Packet, Pool};
use nw_faces::{Stray, Whence};
use nw_wire::{NackReason, Token};
use rtrb::{Consumer, Producer};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// What a parcel is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Forward it: its name, or its token, is the other shard's.
    Enter,
    /// Send it by the face it says: the other shard has that.
    Leave,
    /// Let control learn from it.
    Lesson,
}

/// What came out of a ring.
#[derive(Debug)]
pub enum Arrival {
    /// A packet and what it was sent for. To be forwarded it is yet to be decoded.
    Packet(Errand, Packet),
    /// A datagram of a peer that only the first shard knows, or will know; or a frame that may be one's.
    Stray(Whence, Packet),
    /// There was no buffer for it.
    Lost,
}

const ENTER: u8 = 0;
const LEAVE: u8 = 1;
const LESSON: u8 = 2;
const STRAY: u8 = 3;
const FRAME: u8 = 4;

const LOCAL: u8 = 1;
const NO_CACHE: u8 = 2;
const NON_DISCOVERY: u8 = 4;
const HAS_NACK: u8 = 8;
const HAS_NEXT_HOP: u8 = 16;
const IS_V6: u8 = 32;

/// Parcels begin at multiples of so many octets.
const ALIGN: usize = 8;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Head {
    packet_len: u32,
    announcement_len: u32,
    errand: u8,
    flags: u8,
    kind: u8,
    nack: u8,
    token_len: u8,
    unused: [u8; 3],
    ingress: u32,
    egress: u32,
    next_hop: u32,
    incoming: u32,
    congestion_mark: u64,
    arrival_ns: u64,
    /// The name's place in the packet; of a stray, its peer's port.
    place: [u16; 2],
    /// Of a stray: the socket, or the interface.
    socket: u32,
    /// Of a stray.
    address: [u8; 16],
    token: [u8; 32],
}

/// Octets before each packet.
pub const HEAD_LEN: usize = size_of::<Head>();

/// Copies a packet with its link fields into a ring; false when that is full.
pub fn put(ring: &mut Producer<u8>, errand: Errand, packet: &Packet, pool: &Pool) -> bool {
    let (bytes, meta) = pool.view(packet);
    let link = &meta.link;
    let announcement = pool.announcement(link.announcement).unwrap_or(&[]);
    let mut token = [0; 32];
    token[..link.token.as_bytes().len()].copy_from_slice(link.token.as_bytes());
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let head = Head {
        packet_len: bytes.len() as u32,
        announcement_len: announcement.len() as u32,
        errand: match errand {
            Errand::Enter => ENTER,
            Errand::Leave => LEAVE,
            Errand::Lesson => LESSON,
        },
        flags: flag(meta.ingress_local, LOCAL)
            | flag(link.no_cache, NO_CACHE)
            | flag(link.non_discovery, NON_DISCOVERY)
            | flag(link.nack.is_some(), HAS_NACK)
            | flag(link.next_hop_face.is_some(), HAS_NEXT_HOP),
        kind: match meta.kind {
            Kind::Interest => 0,
            Kind::Data => 1,
            Kind::Nack => 2,
        },
        nack: link.nack.map_or(0, |reason| reason.number() as u8),
        token_len: link.token.as_bytes().len() as u8,
        unused: [0; 3],
        ingress: meta.ingress.bits(),
        egress: meta.egress.bits(),
        next_hop: link.next_hop_face.unwrap_or(FaceId::NONE).bits(),
        incoming: link.incoming_face.bits(),
        congestion_mark: link.congestion_mark,
        arrival_ns: meta.arrival.as_nanos(),
        place: [meta.name.0, meta.name.1],
        socket: 0,
        address: [0; 16],
        token,
    };
    write(ring, &head, bytes, announcement)
}

/// Copies a datagram or frame for the first shard into a ring; false when that is full.
pub fn put_stray(ring: &mut Producer<u8>, stray: &Stray, pool: &Pool) -> bool {
    let bytes = pool.bytes(&stray.packet);
    let (socket, peer) = match stray.whence {
        Whence::Socket(socket, peer) => (socket, peer),
        Whence::Interface(interface) => {
            let packet_len = bytes.len() as u32;
            let head = Head { packet_len, errand: FRAME, socket: interface, ..Head::new_zeroed() };
            return write(ring, &head, bytes, &[]);
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
    let head = Head {
        packet_len: bytes.len() as u32,
        errand: STRAY,
        flags,
        place: [peer.port(), 0],
        socket,
        address,
        // A link-local peer's interface.
        next_hop: scope,
        ..Head::new_zeroed()
    };
    write(ring, &head, bytes, &[])
}

fn write(ring: &mut Producer<u8>, head: &Head, bytes: &[u8], announcement: &[u8]) -> bool {
    let len = (HEAD_LEN + bytes.len() + announcement.len()).next_multiple_of(ALIGN);
    let Ok(mut chunk) = ring.write_chunk(len) else { return false };
    let (first, second) = chunk.as_mut_slices();
    let mut room = [first, second];
    [head.as_bytes(), bytes, announcement].iter().for_each(|piece| fill(&mut room, piece));
    chunk.commit_all();
    true
}

/// Copies a piece to the beginning of what room is left.
fn fill(room: &mut [&mut [u8]; 2], piece: &[u8]) {
    let here = piece.len().min(room[0].len());
    let (now, rest) = core::mem::take(&mut room[0]).split_at_mut(here);
    now.copy_from_slice(&piece[..here]);
    room[0] = rest;
    if here < piece.len() {
        room.swap(0, 1);
        fill(room, &piece[here..]);
    }
}

/// Takes the oldest parcel out of a ring.
pub fn take(ring: &mut Consumer<u8>, pool: &mut Pool) -> Option<Arrival> {
    let mut head = [0; HEAD_LEN];
    copy(ring.read_chunk(HEAD_LEN).ok()?.as_slices(), 0, &mut head);
    let head = Head::read_from_bytes(&head).ok()?;
    let (packet_len, announcement_len) = (head.packet_len as usize, head.announcement_len as usize);
    let len = (HEAD_LEN + packet_len + announcement_len).next_multiple_of(ALIGN);
    // A parcel is put in as a whole.
    let chunk = ring.read_chunk(len).ok()?;
    let Some(packet) = pool.alloc(packet_len) else {
        chunk.commit_all();
        return Some(Arrival::Lost);
    };
    copy(chunk.as_slices(), HEAD_LEN, pool.bytes_mut(&packet));
    if head.errand == STRAY {
        chunk.commit_all();
        let ip = Ipv6Addr::from_octets(head.address);
        let peer = match ip.to_ipv4_mapped().filter(|_| head.flags & IS_V6 == 0) {
            Some(v4) => SocketAddr::from((v4, head.place[0])),
            None => std::net::SocketAddrV6::new(ip, head.place[0], 0, head.next_hop).into(),
        };
        return Some(Arrival::Stray(Whence::Socket(head.socket, peer), packet));
    }
    if head.errand == FRAME {
        chunk.commit_all();
        return Some(Arrival::Stray(Whence::Interface(head.socket), packet));
    }
    if announcement_len > 0 {
        let mut announcement = vec![0; announcement_len];
        copy(chunk.as_slices(), HEAD_LEN + packet_len, &mut announcement);
        pool.meta_mut(&packet).link.announcement = pool.keep_announcement(&announcement);
    }
    chunk.commit_all();
    head.describe(pool.meta_mut(&packet));
    let errand = match head.errand {
        ENTER => Errand::Enter,
        LEAVE => Errand::Leave,
        _ => Errand::Lesson,
    };
    Some(Arrival::Packet(errand, packet))
}

/// Copies out of two slices that follow one another, from octet `start` on.
fn copy((first, second): (&[u8], &[u8]), start: usize, to: &mut [u8]) {
    let from_first = first.get(start..).unwrap_or_default();
    let here = from_first.len().min(to.len());
    to[..here].copy_from_slice(&from_first[..here]);
    let behind = start.saturating_sub(first.len());
    let rest = &mut to[here..];
    rest.copy_from_slice(&second[behind..behind + rest.len()]);
}

impl Head {
    fn describe(&self, meta: &mut Meta) {
        let has = |bit: u8| self.flags & bit != 0;
        meta.kind = match self.kind {
            0 => Kind::Interest,
            1 => Kind::Data,
            _ => Kind::Nack,
        };
        meta.ingress = FaceId::from_bits(self.ingress);
        meta.ingress_local = has(LOCAL);
        meta.egress = FaceId::from_bits(self.egress);
        meta.arrival = Instant::from_nanos(self.arrival_ns);
        meta.name = (self.place[0], self.place[1]);
        meta.link.token = Token::new(&self.token[..usize::from(self.token_len)]).unwrap_or_default();
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
        /// Whatever is put in comes out, in order, wherever the ring's end is; what does not fit is refused as a whole.
        #[test]
        fn parcels_come_out_as_they_went_in(
            lens in proptest::collection::vec(300usize..3000, 1..40),
            token in proptest::collection::vec(any::<u8>(), 0..=32),
            bits: [bool; 5],
            numbers: [u32; 3],
        ) {
            let (mut here, mut there) = (pool(), pool());
            let (mut to, mut from) = rtrb::RingBuffer::new(7000);
            let mut under_way = std::collections::VecDeque::new();
            for len in lens {
                let packet = here.copy_of(&data(len)).unwrap();
                let ticket = here.keep_announcement(&data(len / 10));
                let meta = here.meta_mut(&packet);
                meta.link.token = Token::new(&token).unwrap();
                meta.link.no_cache = bits[0];
                meta.link.congestion_mark = u64::from(numbers[0]);
                meta.link.incoming_face = FaceId::from_bits(numbers[1]);
                if bits[1] {
                    meta.link.announcement = ticket;
                }
                meta.ingress = FaceId::from_bits(numbers[2]);
                meta.ingress_local = bits[2];
                decode(&mut here, &packet).unwrap();
                here.meta_mut(&packet).egress = FaceId::from_bits(numbers[1] / 2);
                if put(&mut to, Errand::Leave, &packet, &here) {
                    under_way.push_back(len);
                } else {
                    prop_assert!(!under_way.is_empty(), "an empty ring takes a packet");
                }
                here.release(packet);
                if under_way.len() > 1 || bits[3] {
                    let Some(len) = under_way.pop_front() else { continue };
                    let Some(Arrival::Packet(Errand::Leave, packet)) = take(&mut from, &mut there) else {
                        panic!("a parcel is there")
                    };
                    prop_assert_eq!(there.bytes(&packet), &data(len)[..]);
                    let meta = there.meta(&packet);
                    prop_assert_eq!(meta.link.token.as_bytes(), &token[..]);
                    prop_assert_eq!((meta.kind, meta.link.no_cache, meta.ingress_local), (Kind::Data, bits[0], bits[2]));
                    prop_assert_eq!(meta.link.incoming_face.bits(), numbers[1]);
                    prop_assert_eq!((meta.ingress.bits(), meta.egress.bits()), (numbers[2], numbers[1] / 2));
                    prop_assert_eq!(meta.link.congestion_mark, u64::from(numbers[0]));
                    prop_assert_eq!(meta.name_in(there.bytes(&packet)).to_string(), "/a");
                    let announced = there.announcement(meta.link.announcement).map(<[u8]>::to_vec);
                    prop_assert_eq!(announced, bits[1].then(|| data(len / 10)));
                    there.release(packet);
                }
            }
            while let Some(arrival) = take(&mut from, &mut there) {
                let Arrival::Packet(_, packet) = arrival else { panic!("{arrival:?}") };
                there.release(packet);
                under_way.pop_front();
            }
            prop_assert!(under_way.is_empty());
            prop_assert_eq!(there.packets_in_use(), 0);
        }
    }

    #[test]
    fn strays_say_whence_they_came() {
        let (mut here, mut there) = (pool(), pool());
        let (mut to, mut from) = rtrb::RingBuffer::new(4096);
        for peer in ["127.0.0.1:6363", "[2001:db8::1]:9", "[fe80::1%7]:6363", "[::ffff:10.0.0.1]:1"] {
            let peer: SocketAddr = peer.parse().unwrap();
            let packet = here.copy_of(&data(10)).unwrap();
            let stray = Stray { whence: Whence::Socket(3, peer), packet };
            assert!(put_stray(&mut to, &stray, &here));
            here.release(stray.packet);
            match take(&mut from, &mut there) {
                Some(Arrival::Stray(Whence::Socket(3, seen), packet)) => {
                    assert_eq!((seen, there.bytes(&packet)), (peer, &data(10)[..]));
                    there.release(packet);
                }
                other => panic!("{other:?}"),
            }
        }
        let stray = Stray { whence: Whence::Interface(7), packet: here.copy_of(&data(20)).unwrap() };
        assert!(put_stray(&mut to, &stray, &here));
        here.release(stray.packet);
        match take(&mut from, &mut there) {
            Some(Arrival::Stray(Whence::Interface(7), packet)) => {
                assert_eq!(there.bytes(&packet), &data(20)[..]);
                there.release(packet);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_receiver_without_buffers_loses_and_goes_on() {
        let mut here = pool();
        let mut there = Pool::new(HashKey::new([1, 2, 3, 4]), 1, 1);
        let (mut to, mut from) = rtrb::RingBuffer::new(1 << 16);
        for len in [10, 20, 30] {
            let packet = here.copy_of(&data(len)).unwrap();
            assert!(put(&mut to, Errand::Enter, &packet, &here));
            here.release(packet);
        }
        let Some(Arrival::Packet(Errand::Enter, first)) = take(&mut from, &mut there) else { panic!() };
        assert!(matches!(take(&mut from, &mut there), Some(Arrival::Lost)));
        there.release(first);
        let Some(Arrival::Packet(_, last)) = take(&mut from, &mut there) else { panic!() };
        assert_eq!(there.bytes(&last), &data(30)[..]);
        there.release(last);
        assert!(take(&mut from, &mut there).is_none());
    }
}
