//! Ethernet frames: EtherType 0x8624, with or without an 802.1Q tag, one link packet per frame.
//!
//! One packet socket per interface serves the group's face and those of single peers. A socket
//! filter passes only frames for this router: it checks direction, EtherType, VLAN and destination.
//! The kernel removes the tag of received frames; on sent frames it is written here.
//!
//! For a VLAN without an interface, the kernel delivers a frame to a socket of one protocol after
//! its tag is lost, marked as for another host; for a VLAN with an interface, as that interface's.
//! So without a VLAN both are refused, and with one the socket receives all protocols, which keeps
//! the tag visible.

use super::packet::{self, Op};
use crate::config::{FacesConfig, LINK_PACKET_LEN_MAX};
use crate::error::FaceError;
use crate::interfaces::Interface;
use core::ops::Range;
use nw_link::{FaceUri, Mac};
use nw_name::tlv::{Framing, frame};
use nw_wire::PACKET_LEN_MAX;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsFd, OwnedFd};

/// EtherType of NDN, as IEEE assigned it.
pub const ETHERTYPE_NDN: u16 = 0x8624;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// Protocol of a socket that receives every frame: ETH_P_ALL.
const ALL_ETHERTYPES: u16 = 0x0003;
/// Packet types in the kernel: frames to another host, and frames sent by this one.
const PACKET_OTHERHOST: u32 = 3;
const PACKET_OUTGOING: u32 = 4;
/// Protocol of a socket that receives nothing.
const NO_ETHERTYPE: u16 = 0;
/// Bytes of a header without tag: destination, source, EtherType.
pub const HEADER_LEN: usize = 14;
/// Bytes of a header with an 802.1Q tag.
const HEADER_LEN_MAX: usize = 18;

/// An Ethernet interface, with the group and VLAN that its faces use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetInterface {
    /// Index of the interface.
    pub interface: u32,
    /// Name of the interface.
    pub name: Box<str>,
    /// Address of the interface.
    pub mac: Mac,
    /// The group that it joins.
    pub group: Mac,
    /// The VLAN of its frames; 0 for none.
    pub vlan: u16,
    /// MTU of the interface, bytes.
    pub mtu: usize,
    /// EtherType of its frames.
    pub ethertype: u16,
}

impl EthernetInterface {
    /// Returns the Ethernet view of an interface.
    ///
    /// # Errors
    /// If it has no Ethernet address.
    pub fn new(interface: &Interface, group: Mac, vlan: u16) -> Result<Self, FaceError> {
        let mac = interface.mac.ok_or_else(|| FaceError::NoEthernet(interface.name.clone()))?;
        let (index, name) = (interface.index, interface.name.clone());
        let (mtu, ethertype) = (interface.mtu, ETHERTYPE_NDN);
        Ok(EthernetInterface { interface: index, name, mac, group, vlan, mtu, ethertype })
    }

    /// Returns the largest link packet, bytes.
    pub fn link_mtu(&self) -> usize {
        self.mtu.min(PACKET_LEN_MAX)
    }

    /// Returns the longest frame to receive, bytes.
    pub fn frame_len_max(&self) -> usize {
        HEADER_LEN_MAX + self.mtu.min(LINK_PACKET_LEN_MAX)
    }

    /// Returns the header of frames to `peer`.
    pub fn head(&self, peer: Mac) -> Head {
        Head::with_ethertype((self.mac, peer), self.vlan, self.ethertype)
    }

    /// Opens a socket that receives the frames of this interface, group and VLAN, and no other.
    ///
    /// # Errors
    /// Without the right to open packet sockets, or if the interface can't be used.
    pub fn open(&self, config: &FacesConfig) -> Result<OwnedFd, FaceError> {
        let make = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // Protocol 0: nothing is received before the filter is attached and the socket is
            // bound.
            let socket =
                rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            packet::attach_filter(socket.as_fd(), &filter(self))?;
            super::size_buffers(&socket, config)?;
            packet::join(socket.as_fd(), self.interface, self.group)?;
            let ethertype = if self.vlan == 0 { self.ethertype } else { ALL_ETHERTYPES };
            packet::ignore_outgoing(socket.as_fd());
            packet::bind(socket.as_fd(), self.interface, ethertype)?;
            Ok(socket)
        };
        make().map_err(|errno| self.describe_error(errno))
    }

    /// Opens a socket that sends frames and receives none, for a shard that receives them
    /// otherwise.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_to_send(&self, config: &FacesConfig) -> Result<OwnedFd, FaceError> {
        let make = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket =
                rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            super::size_buffers(&socket, config)?;
            packet::bind(socket.as_fd(), self.interface, NO_ETHERTYPE)?;
            Ok(socket)
        };
        make().map_err(|errno| self.describe_error(errno))
    }

    fn describe_error(&self, errno: Errno) -> FaceError {
        match errno {
            Errno::PERM | Errno::ACCESS => FaceError::PacketSocket,
            errno => FaceError::system("open", FaceUri::Dev(self.name.clone()))(errno),
        }
    }
}

/// Checks that this process may open packet sockets.
///
/// # Errors
/// If it may not; the message has the remedy.
pub fn may_open() -> Result<(), FaceError> {
    match rustix::net::socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    ) {
        Ok(_) => Ok(()),
        Err(Errno::PERM | Errno::ACCESS) => Err(FaceError::PacketSocket),
        Err(errno) => Err(FaceError::system("open", "a packet socket")(errno)),
    }
}

/// Header before a link packet in a frame; empty for UDP.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; HEADER_LEN_MAX],
    len: u8,
}

impl Head {
    /// The empty header.
    pub const NONE: Head = Head { bytes: [0; HEADER_LEN_MAX], len: 0 };

    /// Returns the header of NDN's frames between two addresses, in a VLAN unless that is 0.
    pub fn new(addresses: (Mac, Mac), vlan: u16) -> Self {
        Head::with_ethertype(addresses, vlan, ETHERTYPE_NDN)
    }

    fn with_ethertype((own, peer): (Mac, Mac), vlan: u16, ethertype: u16) -> Self {
        let mut head = Head::NONE;
        head.push(&peer.0);
        head.push(&own.0);
        if vlan != 0 {
            head.push(&ETHERTYPE_VLAN.to_be_bytes());
            head.push(&vlan.to_be_bytes());
        }
        head.push(&ethertype.to_be_bytes());
        head
    }

    /// Returns the bytes of the header.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Writes the header and a link packet in two parts into `frame`. Returns the bytes written.
    /// `None` if they don't fit.
    #[inline]
    pub fn write(&self, [first, second]: [&[u8]; 2], frame: &mut [u8]) -> Option<usize> {
        let mut at = 0;
        for part in [self.as_slice(), first, second] {
            frame.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        Some(at)
    }

    fn push(&mut self, bytes: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }
}

/// A parsed frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Destination address.
    pub destination: Mac,
    /// Source address.
    pub source: Mac,
    /// Range of the link packet, without the padding of short frames. An incomplete packet extends
    /// to the end of the frame.
    pub packet: Range<usize>,
}

/// Parses a frame without tag. `None` if it is not a frame of this EtherType and a single sender.
pub fn read(bytes: &[u8], ethertype: u16) -> Option<Frame> {
    let mac = |at: usize| bytes.get(at..at + 6)?.try_into().ok().map(Mac);
    let (destination, source) = (mac(0)?, mac(6)?);
    if bytes.get(12..HEADER_LEN)? != ethertype.to_be_bytes() || source.is_group() {
        return None;
    }
    let len = packet_len(&bytes[HEADER_LEN..]);
    Some(Frame { destination, source, packet: HEADER_LEN..HEADER_LEN + len })
}

/// Returns the bytes of the link packet in a frame's payload, without padding.
pub fn packet_len(payload: &[u8]) -> usize {
    match frame(payload, LINK_PACKET_LEN_MAX) {
        Ok(Framing::Whole(len)) => len,
        // Malformed packets are counted by the link service.
        Ok(Framing::Partial) | Err(_) => payload.len(),
    }
}

/// Returns the socket filter in classic BPF: received on this interface, not for another host, our
/// EtherType and VLAN, destination our address or the group.
fn filter(port: &EthernetInterface) -> Vec<Op> {
    let words = |mac: Mac| {
        let [a, b, c, d, e, f] = mac.0;
        (u32::from_be_bytes([a, b, c, d]), u32::from(u16::from_be_bytes([e, f])))
    };
    let ((own_high, own_low), (group_high, group_low)) = (words(port.mac), words(port.group));
    // Jumps count the instructions to skip.
    let untagged = if port.vlan == 0 { (3, 0) } else { (12, 0) };
    vec![
        Op::load_packet_type(),
        Op::jump_equal(PACKET_OTHERHOST, 19, 0),
        Op::jump_equal(PACKET_OUTGOING, 18, 0),
        Op::load_interface(),
        Op::jump_equal(port.interface, 0, 16),
        Op::load_u16(12),
        Op::jump_equal(u32::from(port.ethertype), 0, 14),
        Op::load_vlan_present(),
        // No tag: continue with the addresses, unless a VLAN is required.
        Op::jump_equal(0, untagged.0, untagged.1),
        Op::load_vlan(),
        // The lower 12 bits are the VLAN id, 0 for frames that only have a priority.
        Op::and(0x0fff),
        Op::jump_equal(u32::from(port.vlan), 0, 9),
        Op::load_u32(0),
        Op::jump_equal(own_high, 0, 2),
        Op::load_u16(4),
        Op::jump_equal(own_low, 4, 0),
        Op::load_u32(0),
        Op::jump_equal(group_high, 0, 3),
        Op::load_u16(4),
        Op::jump_equal(group_low, 0, 1),
        Op::accept(),
        Op::drop(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::packet::run;
    use proptest::prelude::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn port(vlan: u16) -> EthernetInterface {
        EthernetInterface {
            interface: 3,
            name: "eth0".into(),
            mac: OWN,
            group: Mac::NDN_GROUP,
            vlan,
            mtu: 1500,
            ethertype: ETHERTYPE_NDN,
        }
    }

    #[test]
    fn head_has_addresses_tag_and_ethertype() {
        let plain = port(0).head(PEER);
        assert_eq!(plain.as_slice(), [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0x24]);
        let tagged = port(100).head(PEER);
        assert_eq!(tagged.as_slice()[12..], [0x81, 0x00, 0, 100, 0x86, 0x24]);
        assert!(Head::NONE.as_slice().is_empty());
    }

    #[test]
    fn frame_is_parsed_without_padding() {
        let mut bytes = port(0).head(PEER).as_slice().to_vec();
        bytes.extend_from_slice(&[0x64, 2, 0x50, 0]);
        bytes.resize(60, 0);
        let frame = read(&bytes, ETHERTYPE_NDN).unwrap();
        assert_eq!((frame.destination, frame.source, frame.packet), (PEER, OWN, 14..18));
    }

    #[test]
    fn foreign_frame_is_rejected() {
        let frame = |ethertype: [u8; 2], source: Mac| {
            [&OWN.0[..], &source.0, &ethertype, &[0x64, 0]].concat()
        };
        let read = |bytes: &[u8]| read(bytes, ETHERTYPE_NDN);
        assert!(read(&frame([0x86, 0x24], PEER)).is_some());
        assert!(read(&frame([0x86, 0x25], PEER)).is_none());
        assert!(read(&frame([0x86, 0x24], Mac::NDN_GROUP)).is_none(), "a group sends nothing");
        assert!(read(&[0; 13]).is_none() && read(&[]).is_none());
        // Truncated within the packet: passed on, to be counted as malformed.
        assert_eq!(
            read(&[&frame([0x86, 0x24], PEER)[..14], &[0x64, 9, 1]].concat()).unwrap().packet,
            14..17
        );
    }

    #[test]
    fn filter_accepts_own_frames_only() {
        let frame = |to: Mac, ethertype: u16| {
            [&to.0[..], &PEER.0, &ethertype.to_be_bytes(), &[0x64, 0]].concat()
        };
        let other = Mac([2, 0, 0, 0, 9, 1]);
        for (vlan, to, ethertype, tag, expected) in [
            (0, OWN, 0x8624, None, true),
            (0, Mac::NDN_GROUP, 0x8624, None, true),
            (0, other, 0x8624, None, false),
            (0, Mac([0xff; 6]), 0x8624, None, false),
            (0, Mac([2, 0, 0, 0, 0x17, 0xaa]), 0x8624, None, false),
            (0, OWN, 0x0800, None, false),
            (0, OWN, 0x8624, Some(100), false),
            // Priority 5, no VLAN.
            (0, OWN, 0x8624, Some(0xa000), true),
            (100, OWN, 0x8624, Some(100), true),
            (100, Mac::NDN_GROUP, 0x8624, Some(0xa000 | 100), true),
            (100, OWN, 0x8624, Some(101), false),
            (100, OWN, 0x8624, None, false),
            (100, other, 0x8624, Some(100), false),
        ] {
            let passes = |packet_type| {
                run(&filter(&port(vlan)), &frame(to, ethertype), (packet_type, 3), tag)
            };
            assert_eq!(passes(0), expected, "{vlan} {to} {ethertype:#x} {tag:?}");
            assert_eq!(passes(2), expected, "to a group");
            assert!(
                !run(&filter(&port(vlan)), &frame(to, ethertype), (0, 4), tag),
                "another interface's"
            );
            assert!(!passes(PACKET_OTHERHOST) && !passes(PACKET_OUTGOING));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(frame) = read(&bytes, ETHERTYPE_NDN) {
                prop_assert!(frame.packet.end <= bytes.len());
            }
        }
    }
}
