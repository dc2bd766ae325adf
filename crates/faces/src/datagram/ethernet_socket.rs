//! Frames of one EtherType on one interface, for services that are not faces of the router: the
//! publish/subscribe domain.
//!
//! The socket, its filter and the system calls are those of Ethernet faces. Invariant: a packet
//! passed on is the payload of a frame of another station; Ethernet's padding is still behind it.

use super::ether::{self, EthernetInterface, Frame, Head};
use super::sys::{self, Message, Received};
use crate::config::FacesConfig;
use crate::error::FaceError;
use crate::interfaces::Interface;
use arrayvec::ArrayVec;
use nw_link::Mac;
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Frames received per call.
const RECEIVED: usize = sys::RECEIVED_MAX;

/// An Ethernet interface with a socket for the frames of one EtherType.
#[derive(Debug)]
pub struct EthernetSocket {
    interface: EthernetInterface,
    socket: OwnedFd,
    buffers: Vec<u8>,
}

impl EthernetSocket {
    /// Checks that this process may open packet sockets.
    ///
    /// # Errors
    /// If it may not; the message has the remedy.
    pub fn may_open() -> Result<(), FaceError> {
        ether::may_open()
    }

    /// Opens a socket that receives the frames to this interface and to a group.
    ///
    /// # Errors
    /// If the interface has no Ethernet address or can't be used, or a right is missing.
    pub fn open(
        interface: &Interface,
        group: Mac,
        ethertype: u16,
        buffer_bytes: usize,
    ) -> Result<Self, FaceError> {
        let config = FacesConfig {
            udp_receive_buffer: buffer_bytes,
            udp_send_buffer: buffer_bytes,
            ..FacesConfig::default()
        };
        let interface =
            EthernetInterface { ethertype, ..EthernetInterface::new(interface, group, 0)? };
        let socket = interface.open(&config)?;
        let buffers = vec![0; RECEIVED * interface.frame_len_max()];
        Ok(EthernetSocket { interface, socket, buffers })
    }

    /// Returns the address of the interface.
    pub const fn mac(&self) -> Mac {
        self.interface.mac
    }

    /// Returns the MTU for which the socket was opened, bytes: longer frames are not received.
    pub const fn mtu(&self) -> usize {
        self.interface.mtu
    }

    /// Returns the header of frames to a station.
    pub fn head(&self, peer: Mac) -> Head {
        self.interface.head(peer)
    }

    /// Parses a frame that was received otherwise. `None` if it is not of this EtherType, or sent
    /// by this interface.
    pub fn parse(&self, bytes: &[u8]) -> Option<Frame> {
        let frame = ether::read(bytes, self.interface.ethertype);
        frame.filter(|frame| frame.source != self.interface.mac)
    }

    /// Returns the sender and the payload of a frame that was received otherwise, as
    /// [`receive`](Self::receive) passes them on. `None` as for [`parse`](Self::parse).
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> Option<(Mac, &'a [u8])> {
        Some((self.parse(bytes)?.source, &bytes[ether::HEADER_LEN..]))
    }

    /// Receives up to [`MESSAGES_PER_CALL`](crate::MESSAGES_PER_CALL) frames: passes the sender and
    /// the payload of each to `on_packet`. Returns the number of frames; fewer than that if none is
    /// left.
    ///
    /// # Errors
    /// `AGAIN` if there are none; else the socket's error.
    pub fn receive(&mut self, mut on_packet: impl FnMut(Mac, &[u8])) -> Result<usize, Errno> {
        let len_max = self.interface.frame_len_max();
        let mut chunks = self.buffers.chunks_exact_mut(len_max);
        let buffers: [&mut [u8]; RECEIVED] =
            core::array::from_fn(|_| chunks.next().unwrap_or_default());
        let mut received = [Received::NONE; RECEIVED];
        let count = sys::receive(self.socket.as_fd(), buffers, &mut received)?;
        for (message, bytes) in received[..count].iter().zip(self.buffers.chunks_exact(len_max)) {
            if message.truncated {
                continue;
            }
            if let Some((source, payload)) = self.payload(&bytes[..message.len]) {
                on_packet(source, payload);
            }
        }
        Ok(count)
    }

    /// Sends packets, each in a frame to a station. Returns the number of those that the system
    /// did not take.
    pub fn send<'a>(&self, packets: impl IntoIterator<Item = (Mac, &'a [u8])>) -> usize {
        let mut frames = ArrayVec::<(Head, &'a [u8]), { sys::SENT_MAX }>::new_const();
        let mut refused = 0;
        for (peer, bytes) in packets {
            if frames.is_full() {
                refused += self.send_frames(&frames);
                frames.clear();
            }
            frames.push((self.head(peer), bytes));
        }
        refused + self.send_frames(&frames)
    }

    fn send_frames(&self, frames: &[(Head, &[u8])]) -> usize {
        let mut pieces = ArrayVec::<IoSlice<'_>, { 2 * sys::SENT_MAX }>::new_const();
        let mut messages = ArrayVec::<Message, { sys::SENT_MAX }>::new_const();
        for (head, bytes) in frames {
            let at = pieces.len();
            messages.push(Message { peer: None, pieces: (at, at + 2), segment: None });
            pieces.extend([IoSlice::new(head.as_slice()), IoSlice::new(bytes)]);
        }
        let (mut refused, mut at) = (0, 0);
        while at < messages.len() {
            match sys::send(self.socket.as_fd(), &messages[at..], &pieces) {
                Ok(count) if count > 0 => at += count,
                Err(Errno::INTR) => {}
                // The first of them is refused: too long, or the queue is full.
                Ok(_) | Err(_) => {
                    refused += 1;
                    at += 1;
                }
            }
        }
        refused
    }
}

impl AsFd for EthernetSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::publication::{ETHER_TYPE, NetworkPacket, NetworkPacketBuilder};

    /// Frames of Blackadder 0.4 between two nodes.
    const VECTORS: &str = include_str!("../../../../tests/vectors/blackadder.txt");

    fn recorded_frames() -> Vec<(usize, Vec<u8>)> {
        let frames = VECTORS.lines().filter_map(|line| {
            let (direction, rest) = line.split_once(' ')?;
            let (len, digits) = rest.trim_start().split_once(' ')?;
            let digits = digits.trim_end_matches('.');
            let len = len.parse().ok().filter(|_| direction == "out" || direction == "in")?;
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
            Some((len, (0..digits.len() / 2).map(|at| byte(2 * at)).collect()))
        });
        frames.collect()
    }

    #[test]
    fn recorded_frames_of_blackadder_are_read_and_written() {
        let frames = recorded_frames();
        assert!(frames.len() > 60, "{} frames", frames.len());
        for (len, bytes) in frames {
            let frame = ether::read(&bytes, ETHER_TYPE).expect("EtherType 0x080a");
            assert!(ether::read(&bytes, ether::ETHERTYPE_NDN).is_none());
            let packet = NetworkPacket::check(&bytes[ether::HEADER_LEN..]).expect("a packet");
            let interface = EthernetInterface {
                interface: 1,
                name: "eth0".into(),
                mac: frame.source,
                group: Mac::NDN_GROUP,
                vlan: 0,
                mtu: 1500,
                ethertype: ETHER_TYPE,
            };
            let mut written = interface.head(frame.destination).as_slice().to_vec();
            let ids: Vec<_> = packet.ids().to_ids();
            let builder =
                NetworkPacketBuilder { fid: packet.fid(), ids: &ids, payload: packet.payload() };
            builder.encode(&mut written).expect("a short packet");
            assert_eq!(written, bytes, "{len} bytes");
        }
    }
}
