//! AF_XDP for traffic ends: an interface with the rings, frames and kernel program that a router
//! uses.

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

/// Frames read from one ring before the next ring is read, as in the router.
pub const FRAMES: u32 = 256;
/// Hash key of the kernel program. It has no effect, because there is one shard.
const KEY: HashKey = HashKey::new([1, 2, 3, 4]);
/// Pause before a queue is tried again: the kernel frees a queue some time after its program ended.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
const TRIES_MAX: usize = 10;

/// Why an interface can't be used by AF_XDP.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No interface has this name.
    #[error("there is no network interface {0}; `ip link` lists those there are")]
    NoInterface(String),
    /// The interface is down.
    #[error("{0} is switched off; `ip link set dev {0} up` switches it on")]
    Down(Box<str>),
    /// The kernel or the driver refused an AF_XDP socket.
    #[error("{interface} can't be used by AF_XDP: {why}")]
    Refused {
        /// The interface.
        interface: Box<str>,
        /// The reason, with a remedy.
        why: XdpError,
    },
    /// The list of interfaces is not available.
    #[error(transparent)]
    Watch(#[from] FaceError),
}

/// Returns the interface of this name in the network namespace of the thread.
///
/// # Errors
/// If no interface has this name, or if it is down.
pub fn interface(name: &str) -> Result<Interface, OpenError> {
    let interfaces = Interfaces::watch()?;
    let interface =
        interfaces.named(name).ok_or_else(|| OpenError::NoInterface(name.to_owned()))?;
    if interface.up { Ok(interface.clone()) } else { Err(OpenError::Down(interface.name.clone())) }
}

/// Opens AF_XDP sockets on all queues of an interface. They receive datagrams for these UDP ports
/// at the interface's addresses, and NDN's Ethernet frames if `ethernet` is set. Dropping the port
/// detaches the kernel program.
///
/// # Errors
/// If the kernel or the driver refuses.
pub fn open(interface: &Interface, ports: &[u16], ethernet: bool) -> Result<Port, OpenError> {
    let group = ethernet.then_some((Mac::NDN_GROUP, 0));
    let addresses: Vec<IpAddr> = interface.addresses.iter().copied().collect();
    let mut tries = 0;
    let opened = loop {
        match Port::open(interface, (ports, group), &mut KernelSteering { key: KEY, shards: 1 }) {
            Err(XdpError::Busy(_)) if tries < TRIES_MAX => {
                tries += 1;
                thread::sleep(RETRY_PAUSE);
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

/// Prepared headers of frames to one peer.
#[derive(Clone, Debug)]
pub enum FrameHeaders {
    /// Ethernet, IP and UDP headers.
    Udp(frame::Heads),
    /// Ethernet header only.
    Ethernet(Head),
}

impl FrameHeaders {
    /// Returns headers from one MAC and IP address to another. `None` if one address is IPv4 and
    /// the other IPv6.
    pub fn udp(macs: (Mac, Mac), (source, destination): (SocketAddr, SocketAddr)) -> Option<Self> {
        frame::Heads::new(macs, source, destination).map(FrameHeaders::Udp)
    }

    /// Returns headers from one MAC address to another.
    pub fn ethernet(macs: (Mac, Mac)) -> Self {
        FrameHeaders::Ethernet(Head::new(macs, 0))
    }

    /// Returns the bytes that an interface with this MTU leaves for a link packet.
    pub const fn payload_max(&self, mtu: usize) -> usize {
        match self {
            FrameHeaders::Udp(headers) => mtu.saturating_sub(headers.ip_len()),
            FrameHeaders::Ethernet(_) => mtu,
        }
    }

    /// Writes a link packet of two parts, at most [`payload_max`](Self::payload_max) bytes long,
    /// into the transmit ring; [`Port::kick`] sends it. Returns false if the ring is still full
    /// after a kick.
    pub fn put(&self, parts: [&[u8]; 2], port: &mut Port) -> bool {
        let put = |port: &mut Port| {
            port.put(|id, frame| match self {
                FrameHeaders::Udp(headers) => headers.write(parts, id, frame),
                FrameHeaders::Ethernet(header) => header.write(parts, frame),
            })
        };
        put(port) || (port.kick().is_ok() && put(port))
    }
}

/// Waits until a frame is received, for at most `timeout`. It does not notice that the interface is
/// removed: [`Port::kick`] and [`Interfaces`] report that.
///
/// # Errors
/// If `poll` fails.
pub fn wait(port: &Port, timeout: Duration) -> Result<(), Errno> {
    let mut ready: Vec<PollFd<'_>> =
        port.queues.iter().map(|xsk| PollFd::new(xsk, PollFlags::IN)).collect();
    let timeout =
        Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut ready, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_without_usable_interface_gives_reason() {
        let error_for = |name: &str| interface(name).unwrap_err().to_string();
        assert_eq!(
            error_for("no-such-card"),
            "there is no network interface no-such-card; `ip link` lists those there are"
        );
        // Every namespace has loopback; it may be down, which is another error.
        if let Ok(lo) = interface("lo") {
            let error = open(&lo, &[6363], false).unwrap_err().to_string();
            assert_eq!(error, "lo can't be used by AF_XDP: it is not an Ethernet interface");
        }
    }

    #[test]
    fn payload_max_subtracts_headers() {
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let ends = |a: &str, b: &str| {
            (SocketAddr::new(a.parse().unwrap(), 1), SocketAddr::new(b.parse().unwrap(), 2))
        };
        assert_eq!(
            FrameHeaders::udp(macs, ends("192.0.2.1", "192.0.2.2")).unwrap().payload_max(1500),
            1472
        );
        assert_eq!(
            FrameHeaders::udp(macs, ends("2001:db8::1", "2001:db8::2")).unwrap().payload_max(1500),
            1452
        );
        assert_eq!(FrameHeaders::ethernet(macs).payload_max(1500), 1500);
        assert!(FrameHeaders::udp(macs, ends("192.0.2.1", "2001:db8::2")).is_none());
    }
}
