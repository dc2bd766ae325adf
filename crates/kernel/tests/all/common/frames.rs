//! Frames for tests, with independently computed checksums.

use std::net::{IpAddr, SocketAddr};

pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
pub const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x22];

/// A UDP datagram in a frame. [`Udp::new`] sets usual values.
#[derive(Clone, Debug)]
pub struct Udp {
    pub to_mac: [u8; 6],
    pub from_mac: [u8; 6],
    /// EtherType and tag of each VLAN tag.
    pub tags: Vec<(u16, u16)>,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub ttl: u8,
    pub id: u16,
    /// IPv4's flags and fragment offset.
    pub fragment: u16,
    /// False: UDP's checksum is 0 (none).
    pub checksum: bool,
    pub payload: Vec<u8>,
}

impl Udp {
    pub fn new(from: &str, to: &str, payload: &[u8]) -> Self {
        Udp {
            to_mac: OWN_MAC,
            from_mac: PEER_MAC,
            tags: Vec::new(),
            from: from.parse().expect("an address"),
            to: to.parse().expect("an address"),
            ttl: 64,
            id: 0x1234,
            fragment: 0x4000,
            checksum: true,
            payload: payload.to_vec(),
        }
    }

    pub fn tagged(mut self, tags: &[(u16, u16)]) -> Self {
        self.tags = tags.to_vec();
        self
    }

    pub fn datagram(&self) -> Vec<u8> {
        let len = (self.payload.len() + 8) as u16;
        let mut udp = Vec::new();
        for number in [self.from.port(), self.to.port(), len, 0] {
            udp.extend_from_slice(&number.to_be_bytes());
        }
        udp.extend_from_slice(&self.payload);
        if self.checksum {
            let mut pseudo = [address_bytes(self.from.ip()), address_bytes(self.to.ip())].concat();
            pseudo.extend_from_slice(&[0, 17]);
            pseudo.extend_from_slice(&len.to_be_bytes());
            let sum = match checksum(&[&pseudo, &udp]) {
                0 => 0xffff,
                sum => sum,
            };
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        udp
    }

    pub fn packet(&self) -> Vec<u8> {
        ip(self, 17, &self.datagram())
    }

    pub fn frame(&self) -> Vec<u8> {
        self.in_ethernet(&self.packet())
    }

    /// Returns the datagram in two IPv4 fragments, the first with this many bytes (a multiple of
    /// 8).
    pub fn fragments(&self, first_len: usize) -> [Vec<u8>; 2] {
        let datagram = self.datagram();
        let part = |fragment: u16, bytes: &[u8]| {
            let head = Udp { fragment, ..self.clone() };
            head.in_ethernet(&ip(&head, 17, bytes))
        };
        [part(0x2000, &datagram[..first_len]), part((first_len / 8) as u16, &datagram[first_len..])]
    }

    /// Returns the datagram in IPv4 fragments of this many bytes (a multiple of 8).
    pub fn parts(&self, bytes: usize) -> Vec<Vec<u8>> {
        let datagram = self.datagram();
        let parts: Vec<_> = datagram.chunks(bytes).collect();
        let last = parts.len() - 1;
        let part = |(at, part): (usize, &&[u8])| {
            let more = if at < last { 0x2000 } else { 0 };
            let head = Udp { fragment: more | (at * bytes / 8) as u16, ..self.clone() };
            head.in_ethernet(&ip(&head, 17, part))
        };
        parts.iter().enumerate().map(part).collect()
    }

    pub fn in_ethernet(&self, packet: &[u8]) -> Vec<u8> {
        let typ = if self.to.is_ipv4() { 0x0800 } else { 0x86dd };
        ethernet(self.to_mac, self.from_mac, &self.tags, typ, packet)
    }
}

pub fn ethernet(
    to: [u8; 6],
    from: [u8; 6],
    tags: &[(u16, u16)],
    typ: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = [to, from].concat();
    for (typ, tag) in tags {
        frame.extend_from_slice(&typ.to_be_bytes());
        frame.extend_from_slice(&tag.to_be_bytes());
    }
    frame.extend_from_slice(&typ.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Returns an IP packet with a payload of a protocol.
pub fn ip(head: &Udp, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to) = (address_bytes(head.from.ip()), address_bytes(head.to.ip()));
    if head.to.is_ipv6() {
        let mut packet = vec![0x60, 0x01, 0x23, 0x45];
        packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[protocol, head.ttl]);
        return [packet, from, to, payload.to_vec()].concat();
    }
    let mut packet = vec![0x45, 0x28];
    for number in [payload.len() as u16 + 20, head.id, head.fragment] {
        packet.extend_from_slice(&number.to_be_bytes());
    }
    packet.extend_from_slice(&[head.ttl, protocol, 0, 0]);
    packet.extend([from, to].concat());
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Returns the checksum of RFC 1071 over the parts, each of which except the last has an even
/// length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
