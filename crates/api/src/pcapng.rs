//! pcapng: writes captures that Wireshark can read, one interface per face or port of an element,
//! and reads them back.
//!
//! Format: draft-ietf-opsawg-pcapng, little-endian, times in nanoseconds. Packets are Ethernet
//! frames with EtherType 0x8624, which NDN dissectors recognise. Addresses are artificial: a face
//! is `02:4e:00` and the last 24 bits of its id, the router is `02:4e:ff:ff:ff:ff`. Packets that
//! were lost and are followed by no other are in a statistics block.

use core::fmt;

/// EtherType of NDN.
pub const ETHERTYPE: u16 = 0x8624;
/// Length of an Ethernet header, bytes.
pub const ETHERNET_LEN: usize = 14;
const ROUTER: [u8; 6] = [0x02, 0x4e, 0xff, 0xff, 0xff, 0xff];

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;
const SECTION_APPLICATION: u16 = 4;
const PACKET_FLAGS: u16 = 2;
const PACKET_DROPS: u16 = 4;
const STATISTICS_DROPS: u16 = 5;

/// Maximum length of a block that is read, bytes.
pub const BLOCK_LEN_MAX: usize = 1 << 20;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Index of the interface, from 0 in the order of the file.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Whether it was received; else it was sent.
    pub incoming: bool,
    /// Packets lost before this one.
    pub lost: u64,
    /// The link packet.
    pub link_packet: &'a [u8],
}

fn block(typ: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&typ.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    fill(out);
    debug_assert_eq!((out.len() - start) % 4, 0, "fields and options are padded");
    let len = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
}

fn option(code: u16, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(&[0; 3][..value.len().wrapping_neg() & 3]);
}

/// Appends the section header, with which a file begins.
pub fn section(application: &str, out: &mut Vec<u8>) {
    block(SECTION, out, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        out.extend_from_slice(&1u16.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(SECTION_APPLICATION, application.as_bytes(), out);
        option(OPTION_END, &[], out);
    });
}

/// Appends an interface with its name, such as `face 256`, and its description, the remote URI.
pub fn interface(name: &str, description: &str, out: &mut Vec<u8>) {
    block(INTERFACE, out, |out| {
        out.extend_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        // No limit on the length of packets.
        out.extend_from_slice(&0u32.to_le_bytes());
        option(INTERFACE_NAME, name.as_bytes(), out);
        option(INTERFACE_DESCRIPTION, &description.as_bytes()[..description.len().min(1024)], out);
        option(INTERFACE_RESOLUTION, &[9], out);
        option(OPTION_END, &[], out);
    });
}

/// Appends a packet of a face.
pub fn packet(packet: &Packet<'_>, face_id: u64, out: &mut Vec<u8>) {
    block(PACKET, out, |out| {
        let len = (ETHERNET_LEN + packet.link_packet.len()) as u32;
        out.extend_from_slice(&packet.interface.to_le_bytes());
        out.extend_from_slice(&((packet.at_ns >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(packet.at_ns as u32).to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        let id = face_id.to_be_bytes();
        let face = [0x02, 0x4e, 0x00, id[5], id[6], id[7]];
        let (to, from) = if packet.incoming { (ROUTER, face) } else { (face, ROUTER) };
        out.extend_from_slice(&to);
        out.extend_from_slice(&from);
        out.extend_from_slice(&ETHERTYPE.to_be_bytes());
        out.extend_from_slice(packet.link_packet);
        out.extend_from_slice(&[0; 3][..(len as usize).wrapping_neg() & 3]);
        // Direction in the two lowest bits: 1 in, 2 out.
        option(PACKET_FLAGS, &(if packet.incoming { 1u32 } else { 2 }).to_le_bytes(), out);
        if packet.lost > 0 {
            option(PACKET_DROPS, &packet.lost.to_le_bytes(), out);
        }
        option(OPTION_END, &[], out);
    });
}

/// Appends the number of packets that an interface has lost since the capture began.
pub fn statistics(interface: u32, at_ns: u64, lost: u64, out: &mut Vec<u8>) {
    block(STATISTICS, out, |out| {
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&((at_ns >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(at_ns as u32).to_le_bytes());
        option(STATISTICS_DROPS, &lost.to_le_bytes(), out);
        option(OPTION_END, &[], out);
    });
}

/// A parsed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// A section header.
    Section,
    /// An interface: name and description.
    Interface(String, String),
    /// A packet.
    Packet(Packet<'a>),
    /// Packets lost since the capture began.
    Lost(u64),
    /// A block of another type.
    Other,
}

/// Error: the bytes are not a capture of a router. Has the invalid part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCapture(pub &'static str);

impl fmt::Display for InvalidCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a capture of a router: {}", self.0)
    }
}

impl core::error::Error for InvalidCapture {}

/// Returns the length in bytes of the block at the start of `bytes`. `None` if fewer than eight
/// bytes are available.
///
/// # Errors
/// The length is invalid.
pub fn block_len(bytes: &[u8]) -> Result<Option<usize>, InvalidCapture> {
    let Some(len) = bytes.get(4..8) else { return Ok(None) };
    match u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize {
        len @ 12..=BLOCK_LEN_MAX if len.is_multiple_of(4) => Ok(Some(len)),
        _ => Err(InvalidCapture("a block's length")),
    }
}

/// Parses one complete block.
///
/// # Errors
/// The block is malformed.
pub fn read(bytes: &[u8]) -> Result<Block<'_>, InvalidCapture> {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).ok_or(InvalidCapture("a block's end"))?;
        Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    };
    if block_len(bytes)? != Some(bytes.len()) || word(bytes.len() - 4)? as usize != bytes.len() {
        return Err(InvalidCapture("a block's length"));
    }
    let body_end = bytes.len() - 4;
    match word(0)? {
        SECTION if word(8)? == BYTE_ORDER => Ok(Block::Section),
        SECTION => Err(InvalidCapture("its byte order")),
        INTERFACE => {
            let text = |code| {
                let found =
                    options(bytes.get(16..body_end).unwrap_or(&[])).find(|(seen, _)| *seen == code);
                found
                    .map(|(_, text)| String::from_utf8_lossy(text).into_owned())
                    .unwrap_or_default()
            };
            Ok(Block::Interface(text(INTERFACE_NAME), text(INTERFACE_DESCRIPTION)))
        }
        PACKET => {
            let len = word(20)? as usize;
            let end = 28usize.checked_add(len).filter(|end| *end <= body_end);
            let end =
                end.filter(|_| len >= ETHERNET_LEN).ok_or(InvalidCapture("a packet's length"))?;
            let mut packet = Packet {
                interface: word(8)?,
                at_ns: u64::from(word(12)?) << 32 | u64::from(word(16)?),
                incoming: true,
                lost: 0,
                link_packet: &bytes[28 + ETHERNET_LEN..end],
            };
            for (code, value) in
                options(bytes.get(end.next_multiple_of(4)..body_end).unwrap_or(&[]))
            {
                match (code, value) {
                    (PACKET_FLAGS, [flags, ..]) => packet.incoming = flags & 3 == 1,
                    (PACKET_DROPS, value) => {
                        packet.lost = value.try_into().map(u64::from_le_bytes).unwrap_or(0);
                    }
                    _ => {}
                }
            }
            Ok(Block::Packet(packet))
        }
        STATISTICS => {
            let lost = options(bytes.get(20..body_end).unwrap_or(&[]))
                .find(|(code, _)| *code == STATISTICS_DROPS)
                .and_then(|(_, value)| value.try_into().ok());
            Ok(lost.map_or(Block::Other, |lost| Block::Lost(u64::from_le_bytes(lost))))
        }
        _ => Ok(Block::Other),
    }
}

fn options(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut unread = bytes;
    core::iter::from_fn(move || {
        let (head, tail) = unread.split_at_checked(4)?;
        let (code, len) = (
            u16::from_le_bytes([head[0], head[1]]),
            usize::from(u16::from_le_bytes([head[2], head[3]])),
        );
        let value = tail.get(..len).filter(|_| code != OPTION_END)?;
        unread = tail.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((code, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_file_is_read_back() {
        let mut file = Vec::new();
        section("namewire", &mut file);
        interface("face 256", "udp4://192.0.2.1:6363", &mut file);
        let written = Packet {
            interface: 0,
            at_ns: 7 << 40,
            incoming: false,
            lost: 3,
            link_packet: &[5, 3, 1, 2, 3],
        };
        packet(&written, 256, &mut file);
        packet(&Packet { lost: 0, incoming: true, ..written }, 256, &mut file);
        statistics(0, 7 << 40, 12, &mut file);
        let mut blocks = Vec::new();
        let mut rest = &file[..];
        while let Some(len) = block_len(rest).unwrap() {
            blocks.push(read(&rest[..len]).unwrap());
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
        let interface = Block::Interface("face 256".into(), "udp4://192.0.2.1:6363".into());
        let expected = [
            Block::Section,
            interface,
            Block::Packet(written),
            Block::Packet(Packet { lost: 0, incoming: true, ..written }),
            Block::Lost(12),
        ];
        assert_eq!(blocks, expected);
    }

    proptest! {
        #[test]
        fn packet_of_any_length_is_read_back(
            link_packet in proptest::collection::vec(any::<u8>(), 0..200),
            junk in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = Vec::new();
            let link_packet = &link_packet;
            let written =
                Packet { interface: 9, at_ns: u64::MAX, incoming: true, lost: 0, link_packet };
            packet(&written, 1, &mut bytes);
            prop_assert_eq!(read(&bytes), Ok(Block::Packet(written)));
            // A damaged or truncated block never causes a panic.
            for at in 0..bytes.len() {
                let mut broken = bytes.clone();
                broken[at] ^= 0x81;
                let _ = read(&broken);
                let _ = read(&bytes[..at]);
            }
            let _ = read(&junk);
            let _ = block_len(&junk);
        }
    }
}
