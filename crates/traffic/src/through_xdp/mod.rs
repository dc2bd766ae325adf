//! Generator and sink on rings of their own: frames to and from an interface by AF_XDP, no router and no socket between.
//!
//! Each frame has one whole packet. What is larger than the MTU can't go this way, which is said before anything is sent; what somebody else cuts into
//! pieces is counted and not put together.

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

/// Octets that a link header takes at most: what is around a packet, a token of 32 octets, and a mark.
const LINK_HEADER_MAX: usize = 48;

/// Octets of IPv6's and UDP's headers.
const IP_LEN_MAX: usize = 48;

/// How late a set flag may be seen.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// Why traffic does not go by AF_XDP, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum XdpTrafficError {
    /// The interface.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Only frames can leave.
    #[error(
        "{0} is nobody that frames can be sent to: say udp4://ADDRESS:PORT, udp6://[ADDRESS]:PORT or ether://[ADDRESS] by --socket"
    )]
    Peer(String),
    /// No address.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// No single card.
    #[error("{0} is a group, from which answers would not come back here: say the address of one card")]
    Group(Mac),
    /// By no interface.
    #[error(
        "there is no way from here to {0} over a wire: there is no route, or it is an address of this machine; `ip route get {0}` shows which"
    )]
    NoWay(IpAddr),
    /// By another one.
    #[error("the way to {to} is by {by}, not by {interface}: say --xdp {by}, or change the route")]
    OtherInterface {
        /// Whom to reach.
        to: IpAddr,
        /// As the route is.
        by: Box<str>,
        /// As the user said.
        interface: Box<str>,
    },
    /// ARP or neighbour discovery had no answer.
    #[error(
        "nobody on the wire of {interface} answers for {to} (ARP or neighbour discovery): see whether the other end is up and has this address"
    )]
    NoNeighbour {
        /// Whom to reach.
        to: IpAddr,
        /// By which interface.
        interface: Box<str>,
    },
    /// The user ended it before it began.
    #[error("interrupted before anything was sent")]
    Interrupted,
    /// Somebody has the port.
    #[error(
        "UDP port {0} is in use on this machine: stop the program that has it, or say another one by --port"
    )]
    PortInUse(u16),
    /// It can't be kept for another reason.
    #[error("the system gives no UDP port: {0}")]
    Socket(io::Error),
    /// Larger than the MTU.
    #[error(
        "a Data of up to {octets} octets does not fit a frame of {interface}, whose MTU of {mtu} leaves {room}: {}",
        shorter(*.octets, *.room, *.payload)
    )]
    TooLong {
        /// The interface.
        interface: Box<str>,
        /// Its MTU.
        mtu: usize,
        /// Octets of the largest packet.
        octets: usize,
        /// Octets there are for it.
        room: usize,
        /// Octets of its content.
        payload: usize,
    },
    /// It was switched off or taken away.
    #[error("{interface} is gone, or was switched off ({errno})")]
    Gone {
        /// The interface.
        interface: Box<str>,
        /// What the system said.
        errno: Errno,
    },
}

fn shorter(octets: usize, room: usize, payload: usize) -> String {
    match (room + payload).checked_sub(octets) {
        Some(most) => format!("say --payload {most} or less at both ends, or raise the MTU"),
        None => "raise the MTU, or make names shorter".into(),
    }
}

/// How frames went by AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ByXdp {
    /// The interface, its mode, and its counters.
    #[serde(flatten)]
    pub status: XdpStatus,
    /// Packets that were not sent: the ring had no room for them, or a frame had not.
    pub no_room: u64,
    /// Pieces of packets that came.
    pub pieces: u64,
}

impl fmt::Display for ByXdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByXdp { status, no_room, pieces } = self;
        write!(f, "{status}")?;
        if *no_room > 0 {
            write!(f, ", {no_room} not sent for want of room")?;
        }
        if *pieces > 0 {
            write!(f, ", {pieces} pieces of packets left alone")?;
        }
        Ok(())
    }
}

/// That all Data of a sink fit frames, to whomever they go: both ends say the same.
fn check_fits(interface: &Interface, sink: &Sink) -> Result<(), XdpTrafficError> {
    let (octets, payload) = (sink.octets_max(), sink.payload_max());
    let room = interface.mtu.saturating_sub(IP_LEN_MAX + LINK_HEADER_MAX);
    if octets <= room {
        return Ok(());
    }
    let (interface, mtu) = (interface.name.clone(), interface.mtu);
    Err(XdpTrafficError::TooLong { interface, mtu, octets, room, payload })
}

fn gone(port: &Port) -> impl Fn(Errno) -> XdpTrafficError {
    let interface = port.interface.name.clone();
    move |errno| XdpTrafficError::Gone { interface: interface.clone(), errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_says_what_fits() {
        let says = |octets, room, payload| {
            XdpTrafficError::TooLong { interface: "eth0".into(), mtu: 1500, octets, room, payload }
                .to_string()
        };
        assert!(
            says(1600, 1424, 1500)
                .ends_with("leaves 1424: say --payload 1324 or less at both ends, or raise the MTU")
        );
        assert!(says(1600, 20, 1500).ends_with("make names shorter"));
    }
}
