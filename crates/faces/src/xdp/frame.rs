//! Frames of AF_XDP: Ethernet with VLAN tags, and UDP over IPv4 or IPv6, parsed and written.
//!
//! Parsing does not judge whether a frame's addresses belong to this machine. A UDP checksum is
//! verified; it may also be the sum of the pseudo header alone, which the kernel leaves on virtual
//! interfaces for the "device" to complete (decision 0024).

/// Header and length of a link packet in NDN over Ethernet.
pub use crate::datagram::ether::{Head, packet_len};

use crate::datagram::ether::ETHERTYPE_NDN;
use arrayvec::ArrayVec;
use core::ops::Range;
use nw_link::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
const PROTOCOL_UDP: u8 = 17;
const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// Hop limit of sent datagrams.
const HOPS: u8 = 64;
/// Bytes before a UDP payload, at most.
pub const HEADS_MAX: usize = ETHERNET + IPV6 + UDP;

/// A parsed frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedFrame {
    /// Destination address.
    pub destination: Mac,
    /// Source address.
    pub source: Mac,
    /// Id of its VLAN, if it has one.
    pub vlan: Option<u16>,
    /// Whether it has two tags.
    pub double: bool,
    /// Contents of the frame.
    pub body: Body,
}

/// Contents of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// NDN over Ethernet: offset of the link packet, which padding may follow.
    Ndn(usize),
    /// A UDP datagram.
    Udp {
        /// Source address and port.
        source: SocketAddr,
        /// Destination address and port.
        destination: SocketAddr,
        /// Range of the payload.
        payload: Range<usize>,
    },
}

/// Why a frame can't be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// It has other contents than [`Body`] lists.
    Other,
    /// A checksum is wrong.
    Checksum,
}

/// Parses a frame.
///
/// # Errors
/// If it has other contents, or a wrong checksum.
pub fn read(bytes: &[u8]) -> Result<ParsedFrame, FrameError> {
    let mac = |at: usize| {
        bytes.get(at..at + 6).and_then(|mac| mac.try_into().ok()).map(Mac).ok_or(FrameError::Other)
    };
    let (destination, source) = (mac(0)?, mac(6)?);
    let mut at = ETHERNET;
    let (mut tag, mut double) = (None, false);
    let mut ethertype = u16_at(bytes, ETHERNET - 2)?;
    while ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ {
        if double {
            return Err(FrameError::Other);
        }
        double = tag.is_some();
        tag = tag.or(Some(u16_at(bytes, at)? & 0x0fff));
        ethertype = u16_at(bytes, at + 2)?;
        at += TAG;
    }
    // Id 0 is a priority tag without VLAN.
    let vlan = tag.filter(|vlan| *vlan != 0);
    let body = match ethertype {
        ETHERTYPE_NDN => Body::Ndn(at),
        ETHERTYPE_IPV4 => ipv4(bytes, at)?,
        ETHERTYPE_IPV6 => ipv6(bytes, at)?,
        _ => return Err(FrameError::Other),
    };
    Ok(ParsedFrame { destination, source, vlan, double, body })
}

fn ipv4(bytes: &[u8], at: usize) -> Result<Body, FrameError> {
    let head = bytes.get(at..at + IPV4).ok_or(FrameError::Other)?;
    let (header, whole) =
        (usize::from(head[0] & 15) * 4, usize::from(u16::from_be_bytes([head[2], head[3]])));
    let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
    if head[0] >> 4 != 4
        || header < IPV4
        || whole < header
        || head[9] != PROTOCOL_UDP
        || fragment != 0
    {
        return Err(FrameError::Other);
    }
    if fold(sum(bytes.get(at..at + header).ok_or(FrameError::Other)?)) != 0xffff {
        return Err(FrameError::Checksum);
    }
    let address =
        |at: usize| IpAddr::from(Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]));
    let datagram = at + header..at + whole;
    udp(bytes, datagram, &head[12..20], (address(12), address(16)))
}

fn ipv6(bytes: &[u8], at: usize) -> Result<Body, FrameError> {
    let head = bytes.get(at..at + IPV6).ok_or(FrameError::Other)?;
    if head[0] >> 4 != 6 || head[6] != PROTOCOL_UDP {
        return Err(FrameError::Other);
    }
    let address = |at: usize| {
        let ip: [u8; 16] = head[at..at + 16].try_into().unwrap_or_default();
        IpAddr::from(Ipv6Addr::from(ip))
    };
    let start = at + IPV6;
    let datagram = start..start + usize::from(u16::from_be_bytes([head[4], head[5]]));
    udp(bytes, datagram, &head[8..40], (address(8), address(24)))
}

fn udp(
    bytes: &[u8],
    datagram: Range<usize>,
    addresses: &[u8],
    (from, to): (IpAddr, IpAddr),
) -> Result<Body, FrameError> {
    let start = datagram.start;
    let whole = bytes.get(datagram).ok_or(FrameError::Other)?;
    let head = whole.get(..UDP).ok_or(FrameError::Other)?;
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let udp_bytes =
        whole.get(..len).filter(|udp_bytes| udp_bytes.len() >= UDP).ok_or(FrameError::Other)?;
    let checksum = u16::from_ne_bytes([head[6], head[7]]);
    let pseudo = sum(addresses) + pseudo_tail(len);
    // IPv4 permits a missing checksum.
    let none = checksum == 0 && from.is_ipv4();
    if !none && fold(pseudo + sum(udp_bytes)) != 0xffff && fold(pseudo) != checksum {
        return Err(FrameError::Checksum);
    }
    let port = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    Ok(Body::Udp {
        source: SocketAddr::new(from, port(0)),
        destination: SocketAddr::new(to, port(2)),
        payload: start + UDP..start + len,
    })
}

/// Returns a link-local address with the index of its interface, as sockets show it; others
/// unchanged.
pub fn scoped(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            SocketAddr::V6(SocketAddrV6::new(*v6.ip(), v6.port(), 0, interface))
        }
        address => address,
    }
}

/// Headers of the datagrams to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    template: ArrayVec<u8, HEADS_MAX>,
    /// Sum of the constant part of the UDP checksum.
    pseudo: u64,
    /// Sum of the constant part of the IPv4 header's checksum.
    header: u64,
}

impl Heads {
    /// Returns the headers between two addresses. `None` if they are of different families.
    pub fn new(
        (own, peer): (Mac, Mac),
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<Self> {
        let mut template = ArrayVec::new();
        let mut push = |part: &[u8]| template.try_extend_from_slice(part).ok();
        push(&peer.0)?;
        push(&own.0)?;
        let addresses = match (source.ip(), destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                push(&ETHERTYPE_IPV4.to_be_bytes())?;
                push(&[0x45, 0, 0, 0, 0, 0, 0, 0, HOPS, PROTOCOL_UDP, 0, 0])?;
                push(&from.octets())?;
                push(&to.octets())?;
                sum(&from.octets()) + sum(&to.octets())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                push(&ETHERTYPE_IPV6.to_be_bytes())?;
                push(&[0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, HOPS])?;
                push(&from.octets())?;
                push(&to.octets())?;
                sum(&from.octets()) + sum(&to.octets())
            }
            _ => return None,
        };
        let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
        push(&ports)?;
        push(&[0; 4])?;
        let header = sum(&template[ETHERNET..template.len() - UDP]);
        Some(Heads { pseudo: addresses + sum(&ports), header, template })
    }

    /// Returns the bytes of the IP and UDP headers.
    pub const fn ip_len(&self) -> usize {
        self.template.len() - ETHERNET
    }

    /// Writes a datagram with a payload in two parts into `frame`; `id` is the IPv4 identification.
    /// Returns the bytes written. `None` if they don't fit.
    #[inline]
    pub fn write(&self, parts: [&[u8]; 2], id: u16, frame: &mut [u8]) -> Option<usize> {
        let start = self.template.len();
        let (first, second) = (start + parts[0].len(), start + parts[0].len() + parts[1].len());
        let frame = frame.get_mut(..second)?;
        frame[..start].copy_from_slice(&self.template);
        frame[start..first].copy_from_slice(parts[0]);
        frame[first..].copy_from_slice(parts[1]);
        let len = UDP + second - start;
        let udp = start - UDP;
        let is_v4 = start == ETHERNET + IPV4 + UDP;
        let wire = u16::try_from(len).ok()?.to_be_bytes();
        frame[udp + 4..udp + 6].copy_from_slice(&wire);
        if is_v4 {
            let whole = u16::try_from(len + IPV4).ok()?.to_be_bytes();
            let id = id.to_be_bytes();
            frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&whole);
            frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&id);
            let header = self.header
                + u64::from(u16::from_ne_bytes(whole))
                + u64::from(u16::from_ne_bytes(id));
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&(!fold(header)).to_ne_bytes());
        } else {
            frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&wire);
        }
        // The length counts twice: in the pseudo header and in UDP's own.
        let sum = self.pseudo
            + pseudo_tail(len)
            + u64::from(u16::from_ne_bytes(wire))
            + sum(&frame[start..]);
        let checksum = match !fold(sum) {
            // 0 means "no checksum", so it is written as its complement.
            0 => 0xffff,
            checksum => checksum,
        };
        frame[udp + 6..start].copy_from_slice(&checksum.to_ne_bytes());
        Some(second)
    }
}

/// Returns the sum of length and protocol in the pseudo header.
fn pseudo_tail(len: usize) -> u64 {
    u64::from((len as u16).to_be()) + u64::from(u16::from(PROTOCOL_UDP).to_be())
}

/// Returns the sum of 16-bit words in this machine's byte order, which folds to the same bytes as
/// in network order.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut sum = 0;
    for word in &mut words {
        sum += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    let tail = words.remainder();
    last[..tail.len()].copy_from_slice(tail);
    sum + u64::from(u32::from_ne_bytes(last))
}

#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, FrameError> {
    let pair = bytes.get(at..at + 2).and_then(|pair| pair.try_into().ok());
    pair.map(u16::from_be_bytes).ok_or(FrameError::Other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const PAIRS: [(&str, &str); 2] =
        [("192.0.2.1:6363", "198.51.100.7:50000"), ("[2001:db8::1]:6363", "[2001:db8::9]:50000")];

    fn pair((from, to): (&str, &str)) -> (SocketAddr, SocketAddr) {
        (from.parse().unwrap(), to.parse().unwrap())
    }

    fn written(at: usize, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = pair(PAIRS[at]);
        let mut frame = vec![0xff; 2048];
        let split = payload.len() / 3;
        let heads = Heads::new((OWN, PEER), source, destination).unwrap();
        let len = heads.write([&payload[..split], &payload[split..]], 0xabcd, &mut frame).unwrap();
        frame.truncate(len);
        frame
    }

    #[test]
    fn datagram_equals_known_bytes() {
        // As a kernel wrote it: 10.0.0.1:6363 to 10.0.0.2:6363, "ndn", identification 1.
        let heads = Heads::new(
            (OWN, PEER),
            "10.0.0.1:6363".parse().unwrap(),
            "10.0.0.2:6363".parse().unwrap(),
        )
        .unwrap();
        let mut frame = [0; 64];
        let len = heads.write([b"nd", b"n"], 1, &mut frame).unwrap();
        assert_eq!(len, 14 + 20 + 8 + 3);
        assert_eq!(frame[14..24], [0x45, 0, 0, 31, 0, 1, 0, 0, 64, 17]);
        // By hand: 4500+001f+0001+4011+0a00+0001+0a00+0002 = 9934, so 66cb.
        assert_eq!(frame[24..26], [0x66, 0xcb]);
        assert_eq!(frame[34..40], [0x18, 0xdb, 0x18, 0xdb, 0, 11]);
        assert_eq!(read(&frame[..len]).map(|parsed| parsed.source), Ok(OWN));
        assert_eq!(heads.ip_len(), 28);
        assert!(heads.write([b"nd", b"n"], 1, &mut frame[..44]).is_none(), "no room");
    }

    #[test]
    fn vlan_tags_are_parsed() {
        let plain = written(0, b"payload");
        let tagged = |tags: &[(u16, u16)]| {
            let mut frame = plain[..12].to_vec();
            for (kind, tag) in tags {
                frame.extend_from_slice(&kind.to_be_bytes());
                frame.extend_from_slice(&tag.to_be_bytes());
            }
            frame.extend_from_slice(&plain[12..]);
            read(&frame).map(|parsed| (parsed.vlan, parsed.double))
        };
        assert_eq!(tagged(&[]), Ok((None, false)));
        assert_eq!(tagged(&[(0x8100, 0xa000)]), Ok((None, false)), "a priority");
        assert_eq!(tagged(&[(0x8100, 0xa064)]), Ok((Some(100), false)));
        assert_eq!(tagged(&[(0x88a8, 7), (0x8100, 9)]), Ok((Some(7), true)));
        assert_eq!(tagged(&[(0x88a8, 7), (0x8100, 9), (0x8100, 9)]), Err(FrameError::Other));
    }

    #[test]
    fn ndn_over_ethernet_is_parsed() {
        let frame = [&PEER.0[..], &OWN.0, &[0x86, 0x24], &[5, 0, 0, 0]].concat();
        let parsed = read(&frame).unwrap();
        assert_eq!((parsed.destination, parsed.source, parsed.body), (PEER, OWN, Body::Ndn(14)));
    }

    #[test]
    fn fragments_and_other_protocols_are_rejected() {
        let with = |at: usize, value: u8| {
            let mut frame = written(0, b"payload");
            frame[at] = value;
            read(&frame)
        };
        assert_eq!(with(20, 0x20), Err(FrameError::Other), "more fragments");
        assert_eq!(with(23, 6), Err(FrameError::Other), "TCP");
        assert_eq!(with(14, 0x44), Err(FrameError::Other), "a header of four words");
        assert_eq!(with(12, 0x09), Err(FrameError::Other), "another EtherType");
        assert_eq!(with(22, 63), Err(FrameError::Checksum), "of the IPv4 header");
        assert_eq!(with(38, 0xff), Err(FrameError::Other), "UDP longer than IP");
    }

    /// Returns the sum of the pseudo header of a frame as [`written`] returns it.
    fn partial_checksum(at: usize, frame: &[u8]) -> [u8; 2] {
        let (addresses, udp) = if at == 0 { (26..34, 34) } else { (22..54, 54) };
        let len = (frame.len() - udp) as u16;
        let numbers = u64::from(len.to_be()) + u64::from(17u16.to_be());
        fold(sum(&frame[addresses]) + numbers).to_ne_bytes()
    }

    #[test]
    fn partial_checksum_is_accepted() {
        for (at, udp) in [(0, 34), (1, 54)] {
            let mut frame = written(at, b"payload");
            let partial = partial_checksum(at, &frame);
            frame[udp + 6..udp + 8].copy_from_slice(&partial);
            assert!(read(&frame).is_ok());
            // A missing checksum is permitted by IPv4 only.
            frame[udp + 6..udp + 8].fill(0);
            assert_eq!(read(&frame).is_ok(), at == 0);
        }
    }

    #[test]
    fn link_local_address_gets_scope() {
        let scope = |address: &str| scoped(address.parse().unwrap(), 7).to_string();
        assert_eq!(scope("[fe80::1]:5"), "[fe80::1%7]:5");
        assert_eq!(
            (scope("[2001:db8::1]:5"), scope("192.0.2.1:5")),
            ("[2001:db8::1]:5".into(), "192.0.2.1:5".into())
        );
    }

    proptest! {
        #[test]
        fn written_frame_parses_and_bit_flip_is_detected(
            at in 0usize..2,
            payload in proptest::collection::vec(any::<u8>(), 0..1400),
            flip in any::<usize>(),
            bit in 0u8..8,
        ) {
            let mut frame = written(at, &payload);
            let (source, destination) = pair(PAIRS[at]);
            let parsed = read(&frame).unwrap();
            prop_assert_eq!((parsed.destination, parsed.source, parsed.vlan, parsed.double), (PEER, OWN, None, false));
            let start = frame.len() - payload.len();
            prop_assert_eq!(&parsed.body, &Body::Udp { source, destination, payload: start..frame.len() });
            prop_assert_eq!(&frame[start..], &payload[..]);
            // Any flipped bit after Ethernet is detected, except in fields of IPv6 without
            // checksum (class, label, hop limit), and if the checksum is by chance the pseudo
            // header's, or becomes 0 with IPv4.
            let position = 14 + flip % (frame.len() - 14);
            let unsummed = at == 1 && (position < 18 || position == 21);
            frame[position] ^= 1 << bit;
            let checksum = &frame[start - 2..start];
            let unchecked = checksum == partial_checksum(at, &frame) || at == 0 && checksum == [0; 2];
            let detected = read(&frame) != Ok(parsed);
            prop_assert!(unsummed || unchecked || detected, "byte {}", position);
        }

        #[test]
        fn any_bytes_parse_within_bounds(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0usize..2,
            keep in 0usize..80,
        ) {
            let mut frame = written(at, b"x");
            frame.truncate(keep);
            frame.extend_from_slice(&bytes);
            for frame in [&frame, &bytes] {
                if let Ok(ParsedFrame { body: Body::Udp { payload, .. }, .. }) = read(frame) {
                    prop_assert!(payload.end <= frame.len());
                }
            }
        }
    }
}
