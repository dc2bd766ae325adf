//! Where a neighbour is reached: over UDP, or by Ethernet frames of an interface.

use nw_faces::mac::Mac;
use nw_faces::uri::FaceUri;
use nw_name::tlv::{Framing, frame};
use nw_wire::PACKET_LEN_MAX;
use std::fmt;
use std::net::SocketAddr;

/// Address of a neighbour. Those over Ethernet come first and are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkAddress {
    /// A station at an interface.
    Ethernet {
        /// Index of the interface.
        interface: u32,
        /// Address of the station.
        mac: Mac,
    },
    /// A UDP socket.
    Udp(SocketAddr),
}

impl LinkAddress {
    /// Returns the bytes of a packet from this address: without the padding of short frames, which
    /// is behind the envelope and the `tag_len` bytes of its HMAC.
    pub fn without_padding<'a>(&self, bytes: &'a [u8], tag_len: usize) -> &'a [u8] {
        match (self, frame(bytes, PACKET_LEN_MAX)) {
            (LinkAddress::Ethernet { .. }, Ok(Framing::Whole(len))) => {
                &bytes[..bytes.len().min(len + tag_len)]
            }
            _ => bytes,
        }
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkAddress::Ethernet { mac, .. } => FaceUri::Ether(*mac).fmt(f),
            LinkAddress::Udp(address) => address.fmt(f),
        }
    }
}

impl From<SocketAddr> for LinkAddress {
    fn from(address: SocketAddr) -> Self {
        LinkAddress::Udp(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_of_frames_is_removed_and_datagrams_are_kept() {
        let ethernet = LinkAddress::Ethernet { interface: 3, mac: Mac([2, 0, 0, 0, 0, 1]) };
        let udp = LinkAddress::from(SocketAddr::from(([10, 0, 0, 1], 55_555)));
        let padded = [176, 3, 1, 2, 3, 9, 9, 0, 0];
        assert_eq!(ethernet.without_padding(&padded, 0), &padded[..5]);
        assert_eq!(ethernet.without_padding(&padded, 2), &padded[..7]);
        assert_eq!(ethernet.without_padding(&padded[..4], 2), &padded[..4], "cut");
        assert_eq!(udp.without_padding(&padded, 0), &padded);
        assert_eq!(ethernet.to_string(), "ether://[02:00:00:00:00:01]");
        assert!(ethernet < udp, "preferred");
    }
}
