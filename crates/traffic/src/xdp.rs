//! AF_XDP for ends of this crate: an interface of their own with the rings, frames and kernel program that a router uses.

use nw_faces::FaceError;
use nw_faces::interfaces::{Interface, Interfaces};
use nw_faces::mac::Mac;
use nw_faces::xdp::frame::{self, Head};
use nw_faces::xdp::{Port, XdpError};
use nw_name::HashKey;
use nw_router::xdp::KernelSteering;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

/// Frames of one ring before others have their turn, as a router takes.
pub const FRAMES: u32 = 256;
/// Programs choose among shards by it, and here there is one.
const KEY: HashKey = HashKey::new([1, 2, 3, 4]);
/// A queue that a program before this one had is not free at once.
const AGAIN: Duration = Duration::from_millis(200);
const TRIES_MAX: usize = 10;

/// Why an interface can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none of this name.
    #[error("there is no network interface {0}; `ip link` lists those there are")]
    NoInterface(String),
    /// Nothing comes or goes.
    #[error("{0} is switched off; `ip link set dev {0} up` switches it on")]
    Down(Box<str>),
    /// It has no AF_XDP as things are.
    #[error("{interface} can't be used by AF_XDP: {why}")]
    Refused {
        /// Which.
        interface: Box<str>,
        /// Why not, and what helps.
        why: XdpError,
    },
    /// The kernel can't be asked for interfaces.
    #[error(transparent)]
    Watch(#[from] FaceError),
}

/// An interface of the namespace this thread is in.
///
/// # Errors
/// When there is none of this name, or it is switched off.
pub fn interface(name: &str) -> Result<Interface, OpenError> {
    let interfaces = Interfaces::watch()?;
    let interface = interfaces.named(name).ok_or_else(|| OpenError::NoInterface(name.to_owned()))?;
    if interface.up { Ok(interface.clone()) } else { Err(OpenError::Down(interface.name.clone())) }
}

/// Takes what comes for these UDP ports at the interface's own addresses, and NDN's own frames where wanted. Dropping it detaches the program.
///
/// # Errors
/// Why not.
pub fn open(interface: &Interface, ports: &[u16], ethernet: bool) -> Result<Port, OpenError> {
    let group = ethernet.then_some((Mac::NDN_GROUP, 0));
    let addresses: Vec<IpAddr> = interface.addresses.iter().copied().collect();
    let mut tries = 0;
    let opened = loop {
        match Port::open(interface, (ports, group), &mut KernelSteering { key: KEY, shards: 1 }) {
            Err(XdpError::Busy(_)) if tries < TRIES_MAX => {
                tries += 1;
                thread::sleep(AGAIN);
            }
            opened => break opened,
        }
    };
    opened
        .and_then(|mut port| {
            port.set_destinations(&addresses).map_err(XdpError::Steering)?;
            Ok(port)
        })
        .map_err(|why| OpenError::Refused { interface: interface.name.clone(), why })
}

/// What stands before packets to one peer.
#[derive(Clone, Debug)]
pub enum Heads {
    /// Ethernet's, IP's and UDP's.
    Udp(frame::Heads),
    /// Ethernet's only.
    Ethernet(Head),
}

impl Heads {
    /// From a card and an address to others. `None` when one address is IPv4 and the other IPv6.
    pub fn udp(macs: (Mac, Mac), (source, destination): (SocketAddr, SocketAddr)) -> Option<Self> {
        frame::Heads::new(macs, source, destination).map(Heads::Udp)
    }

    /// From one card to another.
    pub fn ethernet(macs: (Mac, Mac)) -> Self {
        Heads::Ethernet(Head::new(macs, 0))
    }

    /// Octets that are left for a link packet in a frame of an interface with this MTU.
    pub const fn room(&self, mtu: usize) -> usize {
        match self {
            Heads::Udp(heads) => mtu.saturating_sub(heads.ip_len()),
            Heads::Ethernet(_) => mtu,
        }
    }

    /// Puts a link packet of two parts, no longer than [`room`](Self::room), into the ring; [`Port::kick`] sends. False when there is no room even
    /// after what was in it could leave.
    pub fn put(&self, parts: [&[u8]; 2], port: &mut Port) -> bool {
        let put = |port: &mut Port| {
            port.put(|id, frame| match self {
                Heads::Udp(heads) => heads.write(parts, id, frame),
                Heads::Ethernet(head) => head.write(parts, frame),
            })
        };
        put(port) || (port.kick().is_ok() && put(port))
    }
}

/// Waits for frames, at most so long. That the interface goes away is not noticed here: [`Port::kick`] says so, and [`Interfaces`].
///
/// # Errors
/// What the system says.
pub fn wait(port: &Port, longest: Duration) -> Result<(), Errno> {
    let mut ready: Vec<PollFd<'_>> = port.queues.iter().map(|xsk| PollFd::new(xsk, PollFlags::IN)).collect();
    let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
    match poll(&mut ready, Some(&longest)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_opened_says_why_in_a_sentence() {
        let says = |name: &str| interface(name).unwrap_err().to_string();
        assert_eq!(
            says("no-such-card"),
            "there is no network interface no-such-card; `ip link` lists those there are"
        );
        // Loopback is there on every machine; in a namespace where it is down, that is said.
        if let Ok(lo) = interface("lo") {
            let error = open(&lo, &[6363], false).unwrap_err().to_string();
            assert_eq!(error, "lo can't be used by AF_XDP: it is no Ethernet interface");
        }
    }

    #[test]
    fn room_is_what_heads_leave() {
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let ends = |a: &str, b: &str| {
            (SocketAddr::new(a.parse().unwrap(), 1), SocketAddr::new(b.parse().unwrap(), 2))
        };
        assert_eq!(Heads::udp(macs, ends("192.0.2.1", "192.0.2.2")).unwrap().room(1500), 1472);
        assert_eq!(Heads::udp(macs, ends("2001:db8::1", "2001:db8::2")).unwrap().room(1500), 1452);
        assert_eq!(Heads::ethernet(macs).room(1500), 1500);
        assert!(Heads::udp(macs, ends("192.0.2.1", "2001:db8::2")).is_none());
    }
}
