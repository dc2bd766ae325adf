//! The Ethernet links of the domain: a packet socket on each interface, and AF_XDP sockets on those
//! that can have them.
//!
//! AF_XDP is another path below the same links, as it is for faces: what it does not carry uses the
//! packet socket. That is what is sent to a group and received from it, and what finds a ring full.
//!
//! ```text
//!  frame to this station ─▶ XDP program of the domain ─▶ rx of its queue ─▶ node
//!                              └─ no socket, or to the group ─▶ packet socket ─▶ node
//!  node ─▶ to one station? ─▶ tx ─▶ interface
//!              └─ to all, or tx is full ─▶ packet socket
//! ```

use crate::domain::LinkAddress;
use crate::kernel_forwarding::KernelForwarding;
use crate::node::Node;
use crate::sockets::{RECEIVES_PER_STEP, Reception, SOCKET_BUFFER, watch};
use nw_api::pubsub::status::{AfXdpStatus, EthernetLinkStatus};
use nw_faces::interfaces::{Interface, Interfaces};
use nw_faces::mac::Mac;
use nw_faces::xdp::{Port, XdpError};
use nw_faces::{EthernetSocket, MESSAGES_PER_CALL};
use nw_wire::publication::ETHER_TYPE;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

/// Group of hellos: that of UDP's hellos (RFC 1112, section 6.4).
const GROUP: Mac = Mac([0x01, 0x00, 0x5e, 0x7f, 0x50, 0x53]);
/// Milliseconds between two attempts to open a busy queue: one that was just closed is not free at
/// once.
const REOPEN_MS: u64 = 200;
/// Attempts to open a busy queue.
const TRIES_MAX: u32 = 20;
/// Milliseconds between two readings of the counters.
const STATUS_MS: u64 = 500;

/// The links of all interfaces.
#[derive(Debug)]
pub struct EthernetLinks {
    links: BTreeMap<u32, EthernetLink>,
    /// Interfaces that can't be used, so that each is reported once.
    refused: BTreeSet<u32>,
    /// Whether AF_XDP sockets are wanted.
    uses_af_xdp: bool,
    /// When the counters are read next.
    next_status_ms: u64,
    status: Option<Vec<EthernetLinkStatus>>,
}

/// The sockets of one interface.
#[derive(Debug)]
struct EthernetLink {
    name: String,
    socket: EthernetSocket,
    xdp: XdpState,
}

/// AF_XDP of one interface.
#[derive(Debug)]
enum XdpState {
    /// Not wanted, or impossible.
    Off,
    /// To be opened at this time, after a number of attempts.
    Pending {
        at_ms: u64,
        tries: u32,
    },
    Open(Box<Port>),
}

impl XdpState {
    const fn wanted(is_wanted: bool) -> Self {
        if is_wanted { XdpState::Pending { at_ms: 0, tries: 0 } } else { XdpState::Off }
    }
}

/// Token of a packet socket (`queue` 0), or of the AF_XDP socket of the queue before.
const fn token(interface: u32, queue: u32) -> u64 {
    interface as u64 | (queue as u64) << 32
}

impl EthernetLinks {
    /// Returns no links, which will use AF_XDP sockets or not.
    pub const fn new(uses_af_xdp: bool) -> Self {
        EthernetLinks {
            links: BTreeMap::new(),
            refused: BTreeSet::new(),
            uses_af_xdp,
            next_status_ms: 0,
            status: None,
        }
    }

    /// Returns index, address and name of each interface.
    pub fn interfaces(&self) -> Vec<(u32, Mac, String)> {
        let describe =
            |(index, link): (&u32, &EthernetLink)| (*index, link.socket.mac(), link.name.clone());
        self.links.iter().map(describe).collect()
    }

    /// Opens sockets on new interfaces and closes those of removed ones, or of changed addresses
    /// or lengths of frames.
    /// Returns whether there are new ones.
    pub fn open(&mut self, usable: &[&Interface], readiness: &OwnedFd) -> bool {
        let found = |index: u32| usable.iter().find(|found| found.index == index);
        self.links.retain(|index, link| {
            let own = (Some(link.socket.mac()), link.socket.mtu());
            found(*index).is_some_and(|found| (found.mac, found.mtu) == own)
        });
        for (index, link) in &mut self.links {
            let size = |interface: &Interface| (interface.mtu, interface.queues);
            let Some(now) = found(*index) else { continue };
            if let XdpState::Open(port) = &link.xdp
                && size(&port.interface) != size(now)
            {
                link.xdp = XdpState::wanted(true);
            }
        }
        self.refused.retain(|index| found(*index).is_some());
        let mut has_new = false;
        for interface in usable {
            let index = interface.index;
            if interface.mac.is_none() || self.links.contains_key(&index) {
                continue;
            }
            let opened = EthernetSocket::open(interface, GROUP, ETHER_TYPE, SOCKET_BUFFER)
                .map_err(|error| error.to_string())
                .and_then(|socket| match watch(readiness, socket.as_fd(), token(index, 0)) {
                    Ok(()) => Ok(socket),
                    Err(errno) => Err(errno.to_string()),
                });
            match opened {
                Ok(socket) => {
                    let name = interface.name.to_string();
                    let xdp = XdpState::wanted(self.uses_af_xdp);
                    self.links.insert(index, EthernetLink { name, socket, xdp });
                    self.refused.remove(&index);
                    has_new = true;
                }
                Err(error) if self.refused.insert(index) => {
                    tracing::warn!(interface = %interface.name, "publish/subscribe: {error}");
                }
                Err(_) => {}
            }
        }
        has_new
    }

    /// Opens AF_XDP sockets where they are wanted, and reads the counters at an interval.
    pub fn update(
        &mut self,
        now_ms: u64,
        kernel: Option<&KernelForwarding>,
        (interfaces, readiness): (&Interfaces, &OwnedFd),
    ) {
        for (index, link) in &mut self.links {
            let XdpState::Pending { at_ms, tries } = link.xdp else { continue };
            let interface = interfaces.iter().find(|interface| interface.index == *index);
            let (Some(interface), true) = (interface, now_ms >= at_ms) else { continue };
            link.xdp = link.open_af_xdp((now_ms, tries), kernel, interface, readiness);
            self.next_status_ms = 0;
        }
        if now_ms >= self.next_status_ms {
            self.next_status_ms = now_ms + STATUS_MS;
            self.status = Some(self.links.values().map(EthernetLink::status).collect());
        }
    }

    /// Takes the status of the links, if it was read since the last call.
    pub const fn take_status(&mut self) -> Option<Vec<EthernetLinkStatus>> {
        self.status.take()
    }

    /// Receives packets of the socket with this token.
    pub fn receive(&mut self, token: u64, node: &mut Node, now_ms: u64, all: &mut Reception) {
        let (interface, queue) = (token as u32, (token >> 32) as usize);
        let Some(link) = self.links.get_mut(&interface) else { return };
        let on_packet = |mac: Mac, bytes: &[u8]| {
            node.receive_packet(now_ms, LinkAddress::Ethernet { interface, mac }, bytes);
        };
        let (frames, has_more) = match queue.checked_sub(1) {
            None => link.receive_by_packet_socket(on_packet),
            Some(queue) => link.receive_by_af_xdp(queue, on_packet),
        };
        all.packets += frames;
        all.has_more |= has_more;
    }

    /// Sends packets to stations at an interface. Returns the number of those that the system did
    /// not take; `None` if there is no such interface.
    pub fn send<'a>(
        &mut self,
        interface: u32,
        packets: impl Iterator<Item = (Mac, &'a [u8])>,
    ) -> Option<usize> {
        Some(self.links.get_mut(&interface)?.send(packets))
    }

    /// Sends packets to the group on each interface. Returns the number of errors.
    pub fn send_to_all<'a>(&self, packets: impl Iterator<Item = &'a [u8]> + Clone) -> usize {
        let to_group = || packets.clone().map(|bytes| (GROUP, bytes));
        self.links.values().map(|link| link.socket.send(to_group())).sum()
    }
}

impl EthernetLink {
    /// Opens AF_XDP sockets on all queues.
    fn open_af_xdp(
        &self,
        (now_ms, tries): (u64, u32),
        kernel: Option<&KernelForwarding>,
        interface: &Interface,
        readiness: &OwnedFd,
    ) -> XdpState {
        // Why there is no program was logged already.
        let Some(mut steering) = kernel.and_then(|kernel| kernel.steering(interface.index)) else {
            return XdpState::Off;
        };
        let opened = Port::open(interface, (&[], None), &mut steering).and_then(|port| {
            for (socket, queue) in port.queues.iter().zip(1..) {
                watch(readiness, socket.as_fd(), token(interface.index, queue))
                    .map_err(XdpError::System)?;
            }
            Ok(port)
        });
        match opened {
            Ok(port) => {
                tracing::info!("publish/subscribe: {}", port.status());
                XdpState::Open(Box::new(port))
            }
            Err(XdpError::Busy(_)) if tries < TRIES_MAX => {
                XdpState::Pending { at_ms: now_ms + REOPEN_MS, tries: tries + 1 }
            }
            Err(error) => {
                tracing::warn!(
                    interface = %self.name,
                    "publish/subscribe uses packet sockets instead of AF_XDP: {error}"
                );
                XdpState::Off
            }
        }
    }

    fn receive_by_packet_socket(&mut self, mut on_packet: impl FnMut(Mac, &[u8])) -> (usize, bool) {
        let mut frames = 0;
        while frames < RECEIVES_PER_STEP {
            match self.socket.receive(&mut on_packet) {
                Ok(count @ MESSAGES_PER_CALL..) => frames += count,
                Ok(count) => {
                    frames += count;
                    break;
                }
                Err(Errno::AGAIN) => break,
                // An interface that went down, once.
                Err(_) => frames += 1,
            }
        }
        (frames, frames >= RECEIVES_PER_STEP)
    }

    fn receive_by_af_xdp(
        &mut self,
        queue: usize,
        mut on_packet: impl FnMut(Mac, &[u8]),
    ) -> (usize, bool) {
        let XdpState::Open(port) = &mut self.xdp else { return (0, false) };
        let Some(socket) = port.queues.get_mut(queue) else { return (0, false) };
        let (socket_of_link, mut frames) = (&self.socket, 0);
        let (has_more, _) = socket.receive(RECEIVES_PER_STEP as u32, |bytes| {
            frames += 1;
            if let Some(packet) = socket_of_link.payload(bytes) {
                on_packet(packet.0, packet.1);
            }
            true
        });
        port.counts.add_received(frames);
        (frames as usize, has_more)
    }

    fn send<'a>(&mut self, packets: impl Iterator<Item = (Mac, &'a [u8])>) -> usize {
        let XdpState::Open(port) = &mut self.xdp else { return self.socket.send(packets) };
        let mut packets = packets.peekable();
        let (mut put, mut refused) = (0, 0);
        while let Some((mac, bytes)) = packets.peek() {
            let head = self.socket.head(*mac);
            // A packet socket refuses what is too long; a driver drops it in silence.
            if bytes.len() > port.interface.mtu {
                refused += 1;
            } else if port.put_or_kick(|_, frame| head.write([bytes, &[]], frame)) {
                put += 1;
            } else {
                break;
            }
            packets.next();
        }
        // An interface that is down or removed: its frames are lost.
        if port.kick().is_err() {
            refused += put;
        }
        refused + self.socket.send(packets)
    }

    fn status(&self) -> EthernetLinkStatus {
        let af_xdp = match &self.xdp {
            XdpState::Open(port) => {
                let status = port.status();
                Some(AfXdpStatus {
                    mode: status.mode().to_owned(),
                    memory: status.memory().to_owned(),
                    queues: status.queues as u64,
                    received: status.received,
                    sent: status.sent,
                    lost: status.lost,
                })
            }
            XdpState::Off | XdpState::Pending { .. } => None,
        };
        EthernetLinkStatus { interface: self.name.clone(), af_xdp }
    }
}
