//! Frames received by AF_XDP: their addresses, the position of the payload, and the sockets of
//! groups and of NDN over Ethernet.

use super::Faces;
use crate::datagram::{Medium, Peer, ether};
use crate::xdp::frame::{self, Body};
use core::ops::Range;
use nw_link::Mac;
use std::net::SocketAddr;

/// A received frame, its payload copied to a chunk.
pub(super) struct ReceivedFrame {
    pub(super) destination: Mac,
    pub(super) source: Mac,
    pub(super) vlan: Option<u16>,
    /// Source and destination of a datagram; `None` for NDN over Ethernet.
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    /// Range of the payload.
    pub(super) range: Range<usize>,
    /// Range of the whole frame, if it was copied.
    pub(super) whole: Range<usize>,
}

impl ReceivedFrame {
    /// Parses the addresses and the payload's position of a frame.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let seen = frame::read(bytes).ok()?;
        let (addresses, range) = match seen.body {
            Body::Ndn(_) if seen.double => return None,
            Body::Ndn(start) => (None, start..start + ether::packet_len(&bytes[start..])),
            Body::Udp { source, destination, payload } => (Some((source, destination)), payload),
        };
        let (destination, source, vlan) = (seen.destination, seen.source, seen.vlan);
        Some(ReceivedFrame { destination, source, vlan, addresses, range, whole: 0..bytes.len() })
    }
}

/// Parses a frame and copies its payload, or the whole frame, to the start of `buffer`.
pub(super) fn copy_frame(bytes: &[u8], buffer: &mut [u8], whole: bool) -> Option<ReceivedFrame> {
    let mut frame = ReceivedFrame::read(bytes)?;
    if whole {
        buffer.get_mut(..bytes.len())?.copy_from_slice(bytes);
    } else {
        let payload = &bytes[frame.range.clone()];
        buffer.get_mut(..payload.len())?.copy_from_slice(payload);
        frame.range = 0..payload.len();
        frame.whole = 0..0;
    }
    Some(frame)
}

impl Faces {
    /// Returns the socket that an Ethernet frame with NDN is for, its peer there, and the number
    /// that distinguishes the senders to a group.
    #[inline]
    pub(super) fn socket_of_ethernet_frame(
        &self,
        frame: &ReceivedFrame,
        interface: u32,
        own: Mac,
    ) -> Option<(usize, Peer, u64)> {
        let at_port = (interface, frame.vlan.unwrap_or(0));
        let (index, group) =
            self.sockets.iter().enumerate().find_map(|(at, socket)| {
                match &socket.as_ref()?.medium {
                    Medium::Ether(port) if (port.interface, port.vlan) == at_port => {
                        Some((at, port.group))
                    }
                    _ => None,
                }
            })?;
        let sender = Peer::Mac(frame.source);
        match frame.destination {
            to if to == group => Some((index, Peer::Mac(group), sender.sender_number())),
            to if to == own => Some((index, sender, 0)),
            _ => None,
        }
    }

    /// Returns the socket of a multicast group, its peer, and the number that distinguishes its
    /// senders.
    #[inline]
    pub(super) fn socket_of_group_datagram(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
        interface: u32,
    ) -> Option<(usize, Peer, u64)> {
        let wanted = (destination.ip(), destination.port());
        let (index, group) =
            self.sockets.iter().enumerate().find_map(|(at, socket)| {
                match &socket.as_ref()?.medium {
                    Medium::Group { interface: on, group, .. }
                        if *on == interface && (group.ip(), group.port()) == wanted =>
                    {
                        Some((at, *group))
                    }
                    _ => None,
                }
            })?;
        let sender = Peer::Ip(frame::scoped(source, interface)).sender_number();
        Some((index, Peer::Ip(group), sender))
    }
}
