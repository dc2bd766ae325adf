//! Ethernet frames: EtherType 0x8624, with or without an 802.1Q tag, one link packet in each.
//!
//! One packet socket an interface serves the group's face and those of single peers. The kernel lets in only what is for us: a filter in the
//! socket looks at direction, EtherType, VLAN and destination. It takes the tag off frames that come in; on those that leave it is written here.
//!
//! A socket of one protocol gets a frame of a VLAN that the system has no interface for after the kernel has forgotten its tag, marked as for
//! another host; and one of a VLAN that it has an interface for as that interface's. So without a VLAN both are refused, and with one the socket is
//! of all protocols, which sees the tag.

use super::packet::{self, Op};
use crate::config::{FacesConfig, LINK_PACKET_LEN_MAX};
use crate::error::FaceError;
use crate::interfaces::Interface;
use crate::mac::Mac;
use crate::uri::FaceUri;
use core::ops::Range;
use nw_name::tlv::{Framing, frame};
use nw_wire::PACKET_LEN_MAX;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::os::fd::{AsFd, OwnedFd};

/// EtherType of NDN, as IEEE assigned it.
pub const ETHERTYPE_NDN: u16 = 0x8624;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// Of a socket that gets every frame: ETH_P_ALL.
const ALL_ETHERTYPES: u16 = 0x0003;
/// What the kernel calls frames to another host, and those that this one sends.
const PACKET_OTHERHOST: u32 = 3;
const PACKET_OUTGOING: u32 = 4;
/// Of a socket that gets nothing.
const NO_ETHERTYPE: u16 = 0;
/// Destination, source, EtherType.
pub const HEADER_LEN: usize = 14;
/// With an 802.1Q tag.
const HEADER_LEN_MAX: usize = 18;

/// An interface as faces use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The interface's number.
    pub interface: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its own address.
    pub mac: Mac,
    /// The group whose frames it hears.
    pub group: Mac,
    /// The VLAN its frames are of; 0 is none.
    pub vlan: u16,
    /// Octets of its largest payload.
    pub mtu: usize,
}

impl Port {
    /// Of an interface.
    ///
    /// # Errors
    /// When it is no Ethernet.
    pub fn new(interface: &Interface, group: Mac, vlan: u16) -> Result<Self, FaceError> {
        let mac = interface.mac.ok_or_else(|| FaceError::NoEthernet(interface.name.clone()))?;
        let (index, name) = (interface.index, interface.name.clone());
        Ok(Port { interface: index, name, mac, group, vlan, mtu: interface.mtu })
    }

    /// Octets of the largest link packet.
    pub fn link_mtu(&self) -> usize {
        self.mtu.min(PACKET_LEN_MAX)
    }

    /// Octets of the longest frame worth receiving.
    pub fn frame_len_max(&self) -> usize {
        HEADER_LEN_MAX + self.mtu.min(LINK_PACKET_LEN_MAX)
    }

    /// What stands before a link packet to `peer`.
    pub fn head(&self, peer: Mac) -> Head {
        Head::new((self.mac, peer), self.vlan)
    }

    /// Opens a socket that gets the frames of this port and no other.
    ///
    /// # Errors
    /// Without the right to open packet sockets; what the system says.
    pub fn open(&self, config: &FacesConfig) -> Result<OwnedFd, FaceError> {
        let make = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // Protocol 0: nothing comes in before the filter is there and the socket is bound.
            let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            packet::attach_filter(socket.as_fd(), &filter(self))?;
            super::size_buffers(&socket, config)?;
            packet::join(socket.as_fd(), self.interface, self.group)?;
            let ethertype = if self.vlan == 0 { ETHERTYPE_NDN } else { ALL_ETHERTYPES };
            packet::ignore_outgoing(socket.as_fd());
            packet::bind(socket.as_fd(), self.interface, ethertype)?;
            Ok(socket)
        };
        make().map_err(|errno| self.in_words(errno))
    }

    /// Opens a socket that gets no frames and sends some: for a shard that gets them otherwise.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_to_send(&self, config: &FacesConfig) -> Result<OwnedFd, FaceError> {
        let make = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
            super::size_buffers(&socket, config)?;
            packet::bind(socket.as_fd(), self.interface, NO_ETHERTYPE)?;
            Ok(socket)
        };
        make().map_err(|errno| self.in_words(errno))
    }

    fn in_words(&self, errno: Errno) -> FaceError {
        match errno {
            Errno::PERM | Errno::ACCESS => FaceError::PacketSocket,
            errno => FaceError::system("open", FaceUri::Dev(self.name.clone()))(errno),
        }
    }
}

/// Sees whether this process may open packet sockets.
///
/// # Errors
/// If not, with what helps.
pub fn may_open() -> Result<(), FaceError> {
    match rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None) {
        Ok(_) => Ok(()),
        Err(Errno::PERM | Errno::ACCESS) => Err(FaceError::PacketSocket),
        Err(errno) => Err(FaceError::system("open", "a packet socket")(errno)),
    }
}

/// What stands before a link packet in a datagram; nothing in UDP.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    octets: [u8; HEADER_LEN_MAX],
    len: u8,
}

impl Head {
    /// Nothing.
    pub const NONE: Head = Head { octets: [0; HEADER_LEN_MAX], len: 0 };

    /// From one card to another, in a VLAN unless that is 0.
    pub fn new((own, peer): (Mac, Mac), vlan: u16) -> Self {
        let mut head = Head::NONE;
        head.push(&peer.0);
        head.push(&own.0);
        if vlan != 0 {
            head.push(&ETHERTYPE_VLAN.to_be_bytes());
            head.push(&vlan.to_be_bytes());
        }
        head.push(&ETHERTYPE_NDN.to_be_bytes());
        head
    }

    /// The octets.
    pub fn as_slice(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    /// Writes a link packet of two parts with this before it. Octets written, or `None` when it does not fit.
    #[inline]
    pub fn write(&self, [first, second]: [&[u8]; 2], frame: &mut [u8]) -> Option<usize> {
        let mut at = 0;
        for part in [self.as_slice(), first, second] {
            frame.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        Some(at)
    }

    fn push(&mut self, octets: &[u8]) {
        let at = usize::from(self.len);
        self.octets[at..at + octets.len()].copy_from_slice(octets);
        self.len += octets.len() as u8;
    }
}

/// A frame, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// To whom.
    pub destination: Mac,
    /// From whom.
    pub source: Mac,
    /// Where the link packet stands; what pads short frames is left away. A packet that is not whole reaches to the end of the frame.
    pub packet: Range<usize>,
}

/// Reads a frame, whose tag the kernel has taken off; `None` when it is none of ours.
pub fn read(bytes: &[u8]) -> Option<Frame> {
    let mac = |at: usize| bytes.get(at..at + 6)?.try_into().ok().map(Mac);
    let (destination, source) = (mac(0)?, mac(6)?);
    if bytes.get(12..HEADER_LEN)? != ETHERTYPE_NDN.to_be_bytes() || source.is_group() {
        return None;
    }
    let len = packet_len(&bytes[HEADER_LEN..]);
    Some(Frame { destination, source, packet: HEADER_LEN..HEADER_LEN + len })
}

/// Octets of the link packet in a frame's payload, without what pads short frames.
pub fn packet_len(payload: &[u8]) -> usize {
    match frame(payload, LINK_PACKET_LEN_MAX) {
        Ok(Framing::Whole(len)) => len,
        // What is wrong with it the link service says, and counts.
        Ok(Framing::Partial) | Err(_) => payload.len(),
    }
}

/// Received here, and not marked as for another host; EtherType ours; VLAN ours; destination our address or the group's. In the classic machine's
/// instructions.
fn filter(port: &Port) -> Vec<Op> {
    let words = |mac: Mac| {
        let [a, b, c, d, e, f] = mac.0;
        (u32::from_be_bytes([a, b, c, d]), u32::from(u16::from_be_bytes([e, f])))
    };
    let ((own_high, own_low), (group_high, group_low)) = (words(port.mac), words(port.group));
    // Jumps count the instructions that are left out.
    let untagged = if port.vlan == 0 { (3, 0) } else { (12, 0) };
    vec![
        Op::load_packet_type(),
        Op::jump_equal(PACKET_OTHERHOST, 19, 0),
        Op::jump_equal(PACKET_OUTGOING, 18, 0),
        Op::load_interface(),
        Op::jump_equal(port.interface, 0, 16),
        Op::load_u16(12),
        Op::jump_equal(u32::from(ETHERTYPE_NDN), 0, 14),
        Op::load_vlan_present(),
        // No tag: on to the addresses, unless a VLAN is wanted.
        Op::jump_equal(0, untagged.0, untagged.1),
        Op::load_vlan(),
        // Its lower 12 bits are the VLAN's number, 0 for frames that only have a priority.
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

    fn port(vlan: u16) -> Port {
        Port { interface: 3, name: "eth0".into(), mac: OWN, group: Mac::NDN_GROUP, vlan, mtu: 1500 }
    }

    #[test]
    fn heads() {
        let plain = port(0).head(PEER);
        assert_eq!(plain.as_slice(), [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0x24]);
        let tagged = port(100).head(PEER);
        assert_eq!(tagged.as_slice()[12..], [0x81, 0x00, 0, 100, 0x86, 0x24]);
        assert!(Head::NONE.as_slice().is_empty());
    }

    #[test]
    fn frames_are_read_as_they_are_written_and_padding_is_left_away() {
        let mut bytes = port(0).head(PEER).as_slice().to_vec();
        bytes.extend_from_slice(&[0x64, 2, 0x50, 0]);
        bytes.resize(60, 0);
        let frame = read(&bytes).unwrap();
        assert_eq!((frame.destination, frame.source, frame.packet), (PEER, OWN, 14..18));
    }

    #[test]
    fn what_is_no_frame_of_ours() {
        let frame =
            |ethertype: [u8; 2], source: Mac| [&OWN.0[..], &source.0, &ethertype, &[0x64, 0]].concat();
        assert!(read(&frame([0x86, 0x24], PEER)).is_some());
        assert!(read(&frame([0x86, 0x25], PEER)).is_none());
        assert!(read(&frame([0x86, 0x24], Mac::NDN_GROUP)).is_none(), "a group sends nothing");
        assert!(read(&[0; 13]).is_none() && read(&[]).is_none());
        // Cut within the packet: what is there is handed on, to be refused and counted.
        assert_eq!(read(&[&frame([0x86, 0x24], PEER)[..14], &[0x64, 9, 1]].concat()).unwrap().packet, 14..17);
    }

    #[test]
    fn the_filter_lets_in_what_is_ours() {
        let frame =
            |to: Mac, ethertype: u16| [&to.0[..], &PEER.0, &ethertype.to_be_bytes(), &[0x64, 0]].concat();
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
            let passes =
                |packet_type| run(&filter(&port(vlan)), &frame(to, ethertype), (packet_type, 3), tag);
            assert_eq!(passes(0), expected, "{vlan} {to} {ethertype:#x} {tag:?}");
            assert_eq!(passes(2), expected, "to a group");
            assert!(!run(&filter(&port(vlan)), &frame(to, ethertype), (0, 4), tag), "another interface's");
            assert!(!passes(PACKET_OTHERHOST) && !passes(PACKET_OUTGOING));
        }
    }

    proptest! {
        #[test]
        fn any_octets(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(frame) = read(&bytes) {
                prop_assert!(frame.packet.end <= bytes.len());
            }
        }
    }
}
