//! Generator and sink on AF_XDP sockets of their own: frames to and from an interface, without a
//! router or a UDP socket in between.
//!
//! Each frame holds one whole packet. Packets larger than the MTU are refused before the run
//! starts. Received fragments are counted and not reassembled.

pub mod link;
pub mod sink;

pub use nw_faces::uri::PORT_DEFAULT;

use super::sink::Sink;
use crate::xdp::OpenError;
use core::fmt;
use core::time::Duration;
use nw_api::management::XdpStatus;
use nw_faces::interfaces::Interface;
use nw_faces::mac::Mac;
use nw_faces::uri::UriError;
use nw_faces::xdp::Port;
use rustix::io::Errno;
use serde::Serialize;
use std::io;
use std::net::IpAddr;

/// Maximum bytes of a link header: LpPacket and Fragment headers, a PIT token of 32 bytes, a
/// congestion mark.
const LINK_HEADER_MAX: usize = 48;

/// Bytes of the IPv6 and UDP headers.
const IP_LEN_MAX: usize = 48;

/// Maximum delay until a set `stop` flag is noticed.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// Reason why traffic can't use AF_XDP, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum XdpTrafficError {
    /// The interface can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The peer can't be reached by frames.
    #[error(
        "frames can't be sent to {0}: give udp4://ADDRESS:PORT, udp6://[ADDRESS]:PORT or ether://[ADDRESS] with --socket"
    )]
    Peer(String),
    /// Not a face URI.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A group address.
    #[error("{0} is a group address, which can't answer: give the address of one interface")]
    Group(Mac),
    /// No route.
    #[error(
        "{0} can't be reached over a wire: there is no route, or it is an address of this machine; `ip route get {0}` shows which"
    )]
    NoWay(IpAddr),
    /// The route uses another interface.
    #[error("the route to {to} uses {by}, not {interface}: give --xdp {by}, or change the route")]
    OtherInterface {
        /// The peer.
        to: IpAddr,
        /// Interface of the route.
        by: Box<str>,
        /// Interface that was given.
        interface: Box<str>,
    },
    /// No answer to ARP or neighbour discovery.
    #[error(
        "no answer for {to} on {interface} (ARP or neighbour discovery): check that the other end is up and has this address"
    )]
    NoNeighbour {
        /// The peer.
        to: IpAddr,
        /// The interface.
        interface: Box<str>,
    },
    /// The user stopped the run before it began.
    #[error("interrupted before anything was sent")]
    Interrupted,
    /// The port is in use.
    #[error(
        "UDP port {0} is in use on this machine: stop the program that uses it, or give another port with --port"
    )]
    PortInUse(u16),
    /// No UDP socket.
    #[error("can't reserve a UDP port: {0}")]
    Socket(io::Error),
    /// A Data packet larger than a frame.
    #[error(
        "Data of up to {len} bytes does not fit a frame of {interface}, whose MTU of {mtu} leaves {len_max}: {}",
        advice_for(*.len, *.len_max, *.payload)
    )]
    TooLong {
        /// The interface.
        interface: Box<str>,
        /// Its MTU.
        mtu: usize,
        /// Bytes of the largest packet.
        len: usize,
        /// Bytes that a frame has for a packet.
        len_max: usize,
        /// Bytes of its content.
        payload: usize,
    },
    /// The interface was removed or set down.
    #[error("{interface} was removed or set down ({errno})")]
    Gone {
        /// The interface.
        interface: Box<str>,
        /// The error of the system call.
        errno: Errno,
    },
}

fn advice_for(len: usize, len_max: usize, payload: usize) -> String {
    match (len_max + payload).checked_sub(len) {
        Some(payload_max) => {
            format!("give --payload {payload_max} or less at both ends, or raise the MTU")
        }
        None => "raise the MTU, or make names advice_for".into(),
    }
}

/// Counters of an end over AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct XdpReport {
    /// The interface, its mode and its counters.
    #[serde(flatten)]
    pub status: XdpStatus,
    /// Packets not sent: the ring was full, or the packet did not fit a frame.
    pub no_room: u64,
    /// Fragments received, which are not reassembled.
    pub pieces: u64,
}

impl fmt::Display for XdpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let XdpReport { status, no_room, pieces } = self;
        write!(f, "{status}")?;
        if *no_room > 0 {
            write!(f, ", {no_room} not sent (ring full or too long)")?;
        }
        if *pieces > 0 {
            write!(f, ", {pieces} fragments not reassembled")?;
        }
        Ok(())
    }
}

/// Checks that every Data of a sink fits a frame of the interface; both ends give the same result.
fn check_fits(interface: &Interface, sink: &Sink) -> Result<(), XdpTrafficError> {
    let (len, payload) = (sink.packet_len_max(), sink.payload_max());
    let len_max = interface.mtu.saturating_sub(IP_LEN_MAX + LINK_HEADER_MAX);
    if len <= len_max {
        return Ok(());
    }
    let (interface, mtu) = (interface.name.clone(), interface.mtu);
    Err(XdpTrafficError::TooLong { interface, mtu, len, len_max, payload })
}

fn interface_gone(port: &Port) -> impl Fn(Errno) -> XdpTrafficError {
    let interface = port.interface.name.clone();
    move |errno| XdpTrafficError::Gone { interface: interface.clone(), errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_error_gives_largest_payload() {
        let error_for = |len, len_max, payload| {
            XdpTrafficError::TooLong { interface: "eth0".into(), mtu: 1500, len, len_max, payload }
                .to_string()
        };
        assert!(
            error_for(1600, 1424, 1500).ends_with(
                "leaves 1424: give --payload 1324 or less at both ends, or raise the MTU"
            )
        );
        assert!(error_for(1600, 20, 1500).ends_with("make names advice_for"));
    }
}
