//! Datagram sockets: one unconnected socket for many peers, each of which has a face. UDP, UDP
//! groups of an interface, and Ethernet frames of an interface.
//!
//! ```text
//! outboxes of faces ─▶ flush ─▶ sendmmsg (GSO) ── AGAIN ─▶ queue ─▶ drain, when writable
//! ```
//!
//! Over UDP, runs of equal-sized datagrams to or from one peer travel as one message (GSO, GRO),
//! and many messages per call. Fragmentation up to the face's MTU is left to IP, as in NFD: path
//! MTU discovery is off.
//!
//! Invariant: datagrams of one face leave in order. While the queue is not empty, new ones are
//! queued behind it.

mod batch;
pub mod ether;
mod ethernet_socket;
mod group;
mod pacer;
mod packet;
mod peers;
mod run;
pub mod sys;
mod udp_socket;

pub use ethernet_socket::EthernetSocket;
pub use pacer::Pacer;
pub use udp_socket::UdpSocket;

use crate::config::FacesConfig;
use crate::error::FaceError;
use crate::interfaces::Interface;
use crate::queue::ByteQueue;
use crate::status::UdpBuffer;
use arrayvec::ArrayVec;
use batch::{Batch, Position};
use ether::{EthernetInterface, Head};
use nw_element_api::{FaceId, Pool, Timestamp};
use nw_link::outbox::{Outbox, Outgoing};
use nw_link::{FaceUri, Mac};
use nw_wire::PACKET_LEN_MAX;
pub use peers::Peers;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use sys::Message;

/// Datagrams in one run (UDP_MAX_SEGMENTS of the oldest kernels that have GSO).
const RUN_MAX: usize = 64;

/// Bytes in one run: less than the longest UDP payload over IPv4.
const RUN_BYTES_MAX: usize = 65_000;

/// Datagrams per message above which a read counts as merged by the kernel.
const MERGED_PACKETS: usize = 16;

/// Pieces in one call.
const PIECES_MAX: usize = 1024;

/// Errors read from a socket in one loop iteration.
const ERRORS_PER_TURN: usize = 64;

/// Bytes of the headers of IP and UDP.
const IPV4_HEADS_LEN: usize = 20 + 8;
const IPV6_HEADS_LEN: usize = 40 + 8;

/// A path MTU below what every IPv4 host must accept is ignored, bytes.
const PATH_MTU_MIN: usize = 576 - IPV4_HEADS_LEN;

/// Interval at which the kernel's queue is sampled.
pub const SAMPLE_INTERVAL: core::time::Duration = core::time::Duration::from_millis(1);

/// Bytes before each datagram in the queue: the face's id and the datagram's length, 4 each.
const RECORD_HEAD: usize = 8;

/// What carries the datagrams of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// UDP, from this address.
    Udp(SocketAddr),
    /// UDP to a group on one interface.
    Group {
        /// Index of the interface.
        interface: u32,
        /// Name of the interface.
        name: Box<str>,
        /// Source address on the interface.
        local: SocketAddr,
        /// Address of the group; a link-local one includes the interface's index.
        group: SocketAddr,
    },
    /// Frames on one interface.
    Ether(EthernetInterface),
}

/// Peer of a face on a datagram socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A UDP socket, or a group of them.
    Ip(SocketAddr),
    /// A network card, or a group of them.
    Mac(Mac),
}

impl Peer {
    /// Returns the remote URI of the peer.
    pub const fn uri(self) -> FaceUri {
        match self {
            Peer::Ip(address) => FaceUri::Udp(address),
            Peer::Mac(mac) => FaceUri::Ether(mac),
        }
    }

    /// Returns whether it is a group.
    pub const fn is_group(self) -> bool {
        match self {
            Peer::Ip(address) => address.ip().is_multicast(),
            Peer::Mac(mac) => mac.is_group(),
        }
    }

    /// Returns a number that distinguishes the senders to one group, so that their fragments are
    /// not mixed. Collisions are possible but rare.
    pub fn sender_number(self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        match self {
            Peer::Ip(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(v4) => u64::from(v4.to_bits()),
                    IpAddr::V6(v6) => {
                        ((v6.to_bits() >> 64) as u64).wrapping_mul(ODD) ^ v6.to_bits() as u64
                    }
                };
                ip.wrapping_mul(ODD) ^ u64::from(address.port())
            }
            Peer::Mac(Mac([a, b, c, d, e, f])) => u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
        }
    }
}

/// A datagram socket and its peers.
#[derive(Debug)]
pub struct DatagramSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// What it sends and receives by.
    pub medium: Medium,
    /// Whether new peers get a face.
    pub listening: bool,
    /// False while its interface is down or removed: nothing is sent or received, and the socket is
    /// reopened later.
    pub up: bool,
    /// Since when its interface is missing.
    pub missing_since: Option<Timestamp>,
    /// State of the interface when the socket was last up.
    pub last_interface: Option<Box<Interface>>,
    /// Faces by peer.
    pub peers: Peers,
    /// Faces whose outbox is not empty.
    pub dirty: Vec<FaceId>,
    /// The receive buffer was over half full at the last sample.
    pub congested: bool,
    /// The kernel merged many datagrams into each message of the last read.
    pub merged: bool,
    /// Its last turn brought many new peers, or further ones after such a turn.
    pub flooded: bool,
    /// Peers that got an on-demand face.
    pub accepted: u64,
    /// Peers refused because there were too many faces.
    pub refused: u64,
    /// Datagrams that belong to no face.
    pub unattributed: u64,
    /// Whether the kernel sends runs of datagrams as one message.
    gso: bool,
    /// Datagrams that the kernel did not take.
    queue: ByteQueue,
    /// Requested bytes of the receive buffer.
    requested: usize,
    /// Granted bytes of the receive buffer, without the kernel's overhead.
    granted: usize,
    /// Datagrams lost because the buffer was full.
    overflows: u64,
    /// The kernel's drop counter at the last sample.
    drops_counted: u32,
    /// Bytes of the queue charged to the common budget of send queues.
    pub charged: usize,
    /// Bytes in the kernel's send queue at the last sample.
    kernel_queue: usize,
    sampled_at: Timestamp,
}

/// Link packets of one face to send by a socket.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The face.
    pub face: FaceId,
    /// Its peer.
    pub peer: Peer,
    /// Header written before each datagram; empty for UDP.
    pub head: &'a [u8],
    /// Longest datagram that the kernel took as part of a run, bytes; 0 for none.
    pub run_datagram_max: usize,
    /// Outbox with the link packets.
    pub outbox: &'a Outbox,
    /// Range of them: start and end (exclusive).
    pub items: (usize, usize),
}

impl<'a> Sender<'a> {
    fn items(&self) -> &'a [Outgoing] {
        &self.outbox.items()[self.items.0..self.items.1]
    }
}

/// Why [`DatagramSocket::flush`] did not send a link packet.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// The queue of the socket is full.
    QueueFull,
    /// The kernel refused it.
    Failed(Errno),
    /// Not dropped: runs of datagrams longer than this are refused on the path to this peer.
    NoRuns(usize),
}

impl DatagramSocket {
    /// Binds a socket; port 0 chooses a free one.
    ///
    /// # Errors
    /// If the address can't be bound.
    pub fn bind(
        address: SocketAddr,
        listening: bool,
        config: &FacesConfig,
    ) -> Result<Self, FaceError> {
        let socket = Self::open(address, listening, false, config)?;
        if listening && config.share_ports {
            // Set after binding, so that a port of another program is refused even if that one
            // permits sharing.
            let target = FaceUri::Udp(address);
            sockopt::set_socket_reuseport(&socket.socket, true)
                .map_err(FaceError::system("share the port of", target))?;
        }
        Ok(socket)
    }

    /// Binds another socket to the address of a socket bound with `config.share_ports`, for another
    /// shard.
    ///
    /// # Errors
    /// If the address can't be bound.
    pub fn reuseport_sibling(address: SocketAddr, config: &FacesConfig) -> Result<Self, FaceError> {
        Self::open(address, true, true, config)
    }

    fn open(
        address: SocketAddr,
        listening: bool,
        share_port: bool,
        config: &FacesConfig,
    ) -> Result<Self, FaceError> {
        let target = FaceUri::Udp(address);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let make = || -> Result<Self, Errno> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
            // No DF bit, so a packet of 8800 bytes passes an MTU of 1500: NFD leaves fragmentation
            // to IP.
            if address.is_ipv6() {
                sockopt::set_ipv6_v6only(&socket, true)?;
                sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT)?;
            } else {
                sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT)?;
            }
            sys::enable_errors(socket.as_fd(), address.is_ipv6())?;
            sys::set_gro(socket.as_fd(), true);
            if share_port {
                sockopt::set_socket_reuseport(&socket, true)?;
            }
            rustix::net::bind(&socket, &address)?;
            let local = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
            size_buffers(&socket, config)?;
            Self::over(socket, Medium::Udp(local), listening, config)
        };
        make().map_err(FaceError::system("listen on", target))
    }

    /// Turns merging of received datagrams (GRO) on or off. Ethernet frames are never merged.
    pub fn merge_runs(&self, on: bool) {
        if !matches!(self.medium, Medium::Ether(_)) {
            sys::set_gro(self.socket.as_fd(), on);
        }
    }

    /// Opens a socket that joins a group on one interface.
    ///
    /// # Errors
    /// If the interface has no address to send from, or the socket can't be opened.
    pub fn join(
        group: SocketAddr,
        interface: &Interface,
        config: &FacesConfig,
    ) -> Result<Self, FaceError> {
        let (socket, medium) = group::open(group, interface, config)?;
        Self::over(socket, medium, false, config)
            .map_err(FaceError::system("join", FaceUri::Udp(group)))
    }

    /// Opens an Ethernet interface.
    ///
    /// # Errors
    /// As [`EthernetInterface::open`].
    pub fn ether(
        ethernet: EthernetInterface,
        listening: bool,
        config: &FacesConfig,
    ) -> Result<Self, FaceError> {
        let socket = ethernet.open(config)?;
        let target = FaceUri::Dev(ethernet.name.clone());
        Self::over(socket, Medium::Ether(ethernet), listening, config)
            .map_err(FaceError::system("open", target))
    }

    /// Opens an Ethernet interface for sending only, on a shard that receives by AF_XDP or from the
    /// first shard.
    ///
    /// # Errors
    /// As [`EthernetInterface::open_to_send`].
    pub fn ether_sibling(
        ethernet: EthernetInterface,
        config: &FacesConfig,
    ) -> Result<Self, FaceError> {
        let socket = ethernet.open_to_send(config)?;
        let target = FaceUri::Dev(ethernet.name.clone());
        Self::over(socket, Medium::Ether(ethernet), false, config)
            .map_err(FaceError::system("open", target))
    }

    fn over(
        socket: OwnedFd,
        medium: Medium,
        listening: bool,
        config: &FacesConfig,
    ) -> Result<Self, Errno> {
        Ok(DatagramSocket {
            gso: !matches!(medium, Medium::Ether(_)) && sys::has_gso(socket.as_fd()),
            medium,
            listening,
            up: true,
            missing_since: None,
            last_interface: None,
            peers: Peers::new(),
            dirty: Vec::new(),
            congested: false,
            merged: false,
            flooded: false,
            accepted: 0,
            refused: 0,
            unattributed: 0,
            queue: ByteQueue::default(),
            kernel_queue: 0,
            sampled_at: Timestamp::START,
            requested: config.udp_receive_buffer,
            // The kernel doubles the requested size to account for its overhead.
            granted: sockopt::socket_recv_buffer_size(&socket)? / 2,
            overflows: 0,
            drops_counted: 0,
            charged: 0,
            socket,
        })
    }

    /// Returns the local URI.
    pub fn local_uri(&self) -> FaceUri {
        match &self.medium {
            Medium::Udp(local) | Medium::Group { local, .. } => FaceUri::Udp(*local),
            Medium::Ether(ethernet) => FaceUri::Dev(ethernet.name.clone()),
        }
    }

    /// Returns the index of the interface that it is bound to, if any.
    pub const fn interface(&self) -> Option<u32> {
        match &self.medium {
            Medium::Udp(_) => None,
            Medium::Group { interface, .. } => Some(*interface),
            Medium::Ether(ethernet) => Some(ethernet.interface),
        }
    }

    /// Returns the name of the interface that it is bound to, if any.
    pub fn interface_name(&self) -> Option<&str> {
        match &self.medium {
            Medium::Udp(_) => None,
            Medium::Group { name, .. } => Some(name),
            Medium::Ether(ethernet) => Some(&ethernet.name),
        }
    }

    /// Takes over the faces and counters of a socket whose interface was down or has changed.
    pub fn replace(&mut self, old: &mut DatagramSocket) {
        core::mem::swap(&mut self.peers, &mut old.peers);
        core::mem::swap(&mut self.dirty, &mut old.dirty);
        self.listening |= old.listening;
        (self.accepted, self.refused, self.unattributed) =
            (old.accepted, old.refused, old.unattributed);
        self.overflows = old.overflows;
    }

    /// Drops the queue, passing the face of each datagram to `dropped`.
    pub fn clear_queue(&mut self, mut dropped: impl FnMut(FaceId)) {
        while !self.queue.is_empty() {
            let record = self.queue.front();
            let word = |at: usize| {
                u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
            };
            let (face, len) = (FaceId::from_bits(word(0)), word(4) as usize);
            dropped(face);
            self.queue.consume(RECORD_HEAD + len);
        }
    }

    /// Returns the default MTU of its faces, bytes.
    pub fn link_mtu(&self, config: &FacesConfig) -> usize {
        match &self.medium {
            Medium::Udp(_) | Medium::Group { .. } => config.udp_mtu,
            Medium::Ether(ethernet) => ethernet.link_mtu(),
        }
    }

    /// Returns the largest MTU that its faces may be given, bytes.
    pub fn link_mtu_max(&self) -> usize {
        match &self.medium {
            Medium::Udp(_) | Medium::Group { .. } => PACKET_LEN_MAX,
            Medium::Ether(ethernet) => ethernet.link_mtu(),
        }
    }

    /// Returns the header before a datagram to a peer.
    pub fn head(&self, peer: Peer) -> Head {
        match (&self.medium, peer) {
            (Medium::Ether(ethernet), Peer::Mac(mac)) => ethernet.head(mac),
            _ => Head::NONE,
        }
    }

    /// Returns the largest datagram to a peer that IP does not fragment, bytes, as far as the
    /// kernel knows now. `None` if unknown, or for groups and Ethernet.
    pub fn path_mtu(&self, peer: Peer) -> Option<usize> {
        let (Medium::Udp(local), Peer::Ip(peer)) = (&self.medium, peer) else { return None };
        let (family, heads) = if peer.is_ipv4() {
            (AddressFamily::INET, IPV4_HEADS_LEN)
        } else {
            (AddressFamily::INET6, IPV6_HEADS_LEN)
        };
        let read_mtu = || -> Result<u32, Errno> {
            // Only a connected socket has a path MTU, and this one has many peers.
            let connected =
                rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            rustix::net::bind(&connected, &SocketAddr::new(local.ip(), 0))?;
            rustix::net::connect(&connected, &peer)?;
            if peer.is_ipv4() { sockopt::ip_mtu(&connected) } else { sockopt::ipv6_mtu(&connected) }
        };
        read_mtu()
            .ok()
            .and_then(|mtu| (mtu as usize).checked_sub(heads))
            .filter(|len| *len >= PATH_MTU_MIN)
    }

    /// Returns the bytes of the receive buffer to advertise to a peer. `None` for groups and
    /// Ethernet.
    pub fn advertised_buffer(&self, peer: Peer) -> Option<usize> {
        (matches!(self.medium, Medium::Udp(_)) && !peer.is_group()).then_some(self.granted)
    }

    /// Returns the bytes in the queue.
    pub fn queue_bytes(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes of memory that the queue takes.
    pub const fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }

    /// Updates `congested` and `merged` after a read: the buffer is sampled if the read was full.
    pub fn note_read(&mut self, received: &[sys::Received], is_full: bool) {
        if is_full {
            self.sample_buffer();
        } else {
            self.congested = false;
        }
        let datagrams =
            |message: &sys::Received| message.len.div_ceil(message.stride.max(1)).max(1);
        let packets: usize = received.iter().map(datagrams).sum();
        self.merged = packets > received.len() * MERGED_PACKETS;
    }

    /// Samples how full the receive buffer is, and counts lost datagrams.
    pub fn sample_buffer(&mut self) {
        let memory = sys::memory(self.socket.as_fd());
        self.congested = memory.used > memory.limit / 2;
        self.overflows += u64::from(memory.drops.wrapping_sub(self.drops_counted));
        self.drops_counted = memory.drops;
    }

    /// Returns the state of the receive buffer.
    pub fn buffer(&self) -> UdpBuffer {
        let new = sys::memory(self.socket.as_fd()).drops.wrapping_sub(self.drops_counted);
        UdpBuffer {
            requested: self.requested,
            granted: self.granted,
            overflows: self.overflows + u64::from(new),
            unattributed: self.unattributed,
        }
    }

    /// Passes ICMP errors from the error queue to `on_error`: the peer and the error.
    pub fn errors(&self, mut on_error: impl FnMut(SocketAddr, Errno)) {
        for _ in 0..ERRORS_PER_TURN {
            match sys::next_error(self.socket.as_fd()) {
                Some((Some(peer), errno)) => on_error(peer, errno),
                Some((None, _)) => {}
                None => return,
            }
        }
    }

    /// Sends all outboxes, many datagrams per call. What the kernel does not take is queued, up to
    /// `queue_max` bytes. Dropped link packets are passed to `refused` with their length. The
    /// outboxes are left unchanged, for the caller to clear.
    pub fn flush<'a>(
        &mut self,
        senders: &mut [Sender<'a>],
        pool: &'a Pool,
        queue_max: usize,
        mut refused: impl FnMut(FaceId, Option<&Outgoing>, usize, Refusal),
    ) {
        let mut at = Position { sender: 0, item: 0 };
        let mut soft_errors = 0;
        // Created once and refilled in place: it is too large to be moved.
        let mut batch = Batch {
            messages: ArrayVec::new_const(),
            starts: ArrayVec::new_const(),
            ends: ArrayVec::new_const(),
            pieces: ArrayVec::new_const(),
        };
        while self.queue.is_empty() {
            batch.fill(senders, at, pool, self.gso);
            let Some(first) = batch.messages.first() else { return };
            match sys::send(self.socket.as_fd(), &batch.messages, &batch.pieces) {
                Ok(sent) => {
                    soft_errors = 0;
                    at = batch.ends[sent.min(batch.ends.len()) - 1];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                // The interface has a smaller MTU than the run's datagrams, or can't compute
                // checksums: send them one by one.
                Err(Errno::INVAL | Errno::IO | Errno::MSGSIZE) if first.segment.is_some() => {
                    let longest = usize::from(first.segment.unwrap_or(1)) - 1;
                    let sender = &mut senders[batch.starts[0].sender];
                    sender.run_datagram_max = longest;
                    refused(sender.face, None, 0, Refusal::NoRuns(longest));
                }
                // An error of an earlier datagram, to any peer, is reported once, by the next call.
                Err(
                    Errno::CONNREFUSED
                    | Errno::HOSTUNREACH
                    | Errno::NETUNREACH
                    // The interface was down for a moment.
                    | Errno::NETDOWN
                    | Errno::PROTO
                    | Errno::NOPROTOOPT,
                ) if soft_errors < 2 => {
                    soft_errors += 1;
                }
                Err(errno) => {
                    soft_errors = 0;
                    let (start, end) = (batch.starts[0], batch.ends[0]);
                    let sender = &senders[start.sender];
                    let until = if end.sender == start.sender { end.item } else { sender.items().len() };
                    for item in &sender.items()[start.item..until] {
                        refused(
                            sender.face,
                            Some(item),
                            sender.outbox.item_len(item, pool),
                            Refusal::Failed(errno),
                        );
                    }
                    at = end;
                }
            }
        }
        self.queue_remaining(senders, at, pool, queue_max, refused);
    }

    fn queue_remaining(
        &mut self,
        senders: &[Sender<'_>],
        at: Position,
        pool: &Pool,
        queue_max: usize,
        mut refused: impl FnMut(FaceId, Option<&Outgoing>, usize, Refusal),
    ) {
        for (index, sender) in senders.iter().enumerate().skip(at.sender) {
            let start = if index == at.sender { at.item } else { 0 };
            for item in &sender.items()[start..] {
                let parts = sender.outbox.parts(item, pool);
                let len = parts[0].len() + parts[1].len();
                if self.queue.len() + RECORD_HEAD + len > queue_max {
                    refused(sender.face, Some(item), len, Refusal::QueueFull);
                    continue;
                }
                let (face, len) = (sender.face.bits().to_ne_bytes(), (len as u32).to_ne_bytes());
                self.queue.push(&[&face, &len, parts[0], parts[1]]);
            }
        }
    }

    /// Sends the queue as far as the socket takes it. `peer_of` returns the peer of a face that
    /// still exists.
    ///
    /// # Errors
    /// `AGAIN` or `NOBUFS` if some datagrams are left.
    pub fn drain(
        &mut self,
        peer_of: impl Fn(FaceId) -> Option<Peer>,
        mut failed: impl FnMut(FaceId),
    ) -> Result<(), Errno> {
        let mut was_down = false;
        while !self.queue.is_empty() {
            let record = self.queue.front();
            let word = |at: usize| {
                u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
            };
            let (face, len) = (FaceId::from_bits(word(0)), word(4) as usize);
            if let Some(peer) = peer_of(face) {
                let head = self.head(peer);
                let pieces = [
                    IoSlice::new(head.as_slice()),
                    IoSlice::new(&record[RECORD_HEAD..RECORD_HEAD + len]),
                ];
                let message = Message { peer: address_of(peer), pieces: (0, 2), segment: None };
                match sys::send(self.socket.as_fd(), &[message], &pieces) {
                    Ok(_) => {}
                    Err(errno @ (Errno::AGAIN | Errno::NOBUFS)) => return Err(errno),
                    Err(Errno::INTR) => continue,
                    // Reported once, for an interface that was down for a moment.
                    Err(Errno::NETDOWN) if !core::mem::replace(&mut was_down, true) => continue,
                    Err(_) => failed(face),
                }
            }
            self.queue.consume(RECORD_HEAD + len);
        }
        Ok(())
    }

    /// Returns the bytes in the queue, and in the kernel at the last sample.
    pub fn all_queue_bytes(&self) -> usize {
        self.queue.len() + self.kernel_queue
    }

    /// Samples the bytes queued in the kernel, at most once a millisecond.
    pub fn sample_queue(&mut self, now: Timestamp) {
        if now >= self.sampled_at + SAMPLE_INTERVAL {
            self.sampled_at = now;
            self.kernel_queue = sys::unsent(self.socket.as_fd(), false);
        }
    }
}

/// Returns the address for the kernel. `None` for frames, which carry their destination.
pub const fn address_of(peer: Peer) -> Option<SocketAddr> {
    match peer {
        Peer::Ip(address) => Some(address),
        Peer::Mac(_) => None,
    }
}

/// Sets the buffer sizes; without the right to exceed the system's limit, up to that limit.
fn size_buffers(socket: &OwnedFd, config: &FacesConfig) -> Result<(), Errno> {
    if sockopt::set_socket_recv_buffer_size_force(socket, config.udp_receive_buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, config.udp_receive_buffer)?;
    }
    if sockopt::set_socket_send_buffer_size_force(socket, config.udp_send_buffer).is_err() {
        sockopt::set_socket_send_buffer_size(socket, config.udp_send_buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::Kind;
    use nw_name::HashKey;

    fn outbox(datagrams: &[Vec<u8>]) -> Outbox {
        let mut outbox = Outbox::default();
        for datagram in datagrams {
            let mark = outbox.mark();
            outbox.bytes_mut().extend_from_slice(datagram);
            outbox.finish_copied(mark, Some(Kind::Data));
        }
        outbox
    }

    #[test]
    fn datagrams_refused_by_full_socket_are_queued_in_order_within_bounds() {
        let address = "127.0.0.1:0".parse().unwrap();
        let mut socket = DatagramSocket::bind(address, true, &FacesConfig::default()).unwrap();
        let peer = std::net::UdpSocket::bind(address).unwrap();
        peer.set_read_timeout(Some(core::time::Duration::from_secs(5))).unwrap();
        let pool = Pool::new(HashKey::new([1, 2, 3, 4]), 1, 1);
        let (open, closed) = (FaceId::from_slot(256, 0), FaceId::from_slot(257, 0));
        let datagrams: Vec<Vec<u8>> = (0..20u8).map(|at| vec![at; 100]).collect();
        let (first, second) = (outbox(&datagrams[..10]), outbox(&datagrams[10..]));
        let sender = |face, outbox| Sender {
            face,
            peer: Peer::Ip(peer.local_addr().unwrap()),
            head: &[],
            run_datagram_max: usize::MAX,
            outbox,
            items: (0, outbox.items().len()),
        };
        // As if the call had sent the first three.
        let senders = [sender(open, &first), sender(closed, &second)];
        socket.queue_remaining(
            &senders,
            Position { sender: 0, item: 3 },
            &pool,
            10_000,
            |_, _, _, _| panic!("there is room"),
        );
        assert_eq!(socket.queue_bytes(), 17 * 108);
        // While the queue is not empty, others are queued behind it, up to the bound.
        let mut refused = 0;
        socket.flush(&mut [sender(open, &first)], &pool, 20 * 108, |id, item, len, refusal| {
            assert!(
                id == open && item.is_some() && len == 100 && matches!(refusal, Refusal::QueueFull)
            );
            refused += 1;
        });
        assert_eq!((refused, socket.queue_bytes()), (7, 20 * 108));
        // Datagrams of a face that was closed meanwhile are skipped.
        let to = Peer::Ip(peer.local_addr().unwrap());
        socket.drain(|id| (id == open).then_some(to), |_| panic!("nothing fails")).unwrap();
        assert_eq!(socket.queue_bytes(), 0);
        let mut buffer = [0; 200];
        for at in (3..10).chain(0..3) {
            let len = peer.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..len], [at; 100]);
        }
    }
}
