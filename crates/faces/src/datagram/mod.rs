//! Datagrams: one unconnected socket for many peers, each of which is a face. UDP, UDP groups of an interface, Ethernet frames of an interface.
//!
//! Over UDP, runs of equal-sized datagrams to or from one peer travel as one (GSO, GRO), many messages a call. Fragmentation up to the face's MTU is
//! left to IP, as NDN does: path MTU discovery is off. What the socket refuses waits in a bounded queue of its own.

mod burst;
pub mod ether;
mod group;
mod packet;
mod peers;
pub mod sys;

pub use burst::Burst;

use crate::config::FacesConfig;
use crate::error::FaceError;
use crate::interfaces::Interface;
use crate::mac::Mac;
use crate::outbox::{Outbox, Outgoing};
use crate::queue::ByteQueue;
use crate::status::UdpBuffer;
use crate::uri::FaceUri;
use arrayvec::ArrayVec;
use ether::{Head, Port};
use nw_element_api::{FaceId, Instant, Pool};
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

/// Octets in one run: less than the longest UDP payload over IPv4.
const RUN_BYTES_MAX: usize = 65_000;

/// Pieces in one call.
const PIECES_MAX: usize = 1024;

/// Errors read from a socket in one turn.
const ERRORS_PER_TURN: usize = 64;

/// Octets of the heads of IP and UDP.
const IPV4_HEADS_LEN: usize = 20 + 8;
const IPV6_HEADS_LEN: usize = 40 + 8;

/// A way that takes less whole than IPv4 hosts have to is left to IP, octets.
const PATH_MTU_MIN: usize = 576 - IPV4_HEADS_LEN;

/// The system's queue is looked at once in so long.
pub const LOOK_PAUSE: core::time::Duration = core::time::Duration::from_millis(1);

/// Before each datagram in the queue: the face's id and the datagram's length, 4 octets each.
const RECORD_HEAD: usize = 8;

/// What a socket's datagrams travel by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// UDP, from this address.
    Udp(SocketAddr),
    /// UDP to a group on one interface.
    Group {
        /// The interface's number.
        interface: u32,
        /// Its name.
        name: Box<str>,
        /// Its address, as the others see it.
        local: SocketAddr,
        /// The group; a link-local one with the interface's number.
        group: SocketAddr,
    },
    /// Frames on one interface.
    Ether(Port),
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A UDP socket, or a group of them.
    Ip(SocketAddr),
    /// A network card, or a group of them.
    Mac(Mac),
}

impl Peer {
    /// As others name it.
    pub const fn uri(self) -> FaceUri {
        match self {
            Peer::Ip(address) => FaceUri::Udp(address),
            Peer::Mac(mac) => FaceUri::Ether(mac),
        }
    }

    /// True when many hear what is sent to it.
    pub const fn is_group(self) -> bool {
        match self {
            Peer::Ip(address) => address.ip().is_multicast(),
            Peer::Mac(mac) => mac.is_group(),
        }
    }

    /// Tells senders of one group apart, so that their fragments are not mixed: different for different ones but for rare accidents.
    pub fn mark(self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        match self {
            Peer::Ip(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(v4) => u64::from(v4.to_bits()),
                    IpAddr::V6(v6) => ((v6.to_bits() >> 64) as u64).wrapping_mul(ODD) ^ v6.to_bits() as u64,
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
    /// What it is on.
    pub medium: Medium,
    /// New peers get a face.
    pub listening: bool,
    /// False while its interface is down or gone: nothing is sent or received, and the socket is opened again when it is back.
    pub up: bool,
    /// Since when its interface is gone, if it is.
    pub gone_since: Option<Instant>,
    /// The interface as it was when the socket was last up.
    pub seen: Option<Box<Interface>>,
    /// The faces, by peer.
    pub peers: Peers,
    /// Faces with something in their outbox.
    pub dirty: Vec<FaceId>,
    /// The receive buffer was over half full when last looked at.
    pub congested: bool,
    /// The system had merged many datagrams into each message of the last read.
    pub merged: bool,
    /// Peers that got a face because they spoke.
    pub accepted: u64,
    /// Peers that got none because there were too many.
    pub refused: u64,
    /// Datagrams that led to no face.
    pub unheard: u64,
    gso: bool,
    queue: ByteQueue,
    asked: usize,
    granted: usize,
    overflows: u64,
    drops_seen: u32,
    /// Bytes of the queue that the common budget of send queues was charged with.
    pub charged: usize,
    kernel_queue: usize,
    looked_at: Instant,
}

/// One face's part of what a socket is to send.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// The face.
    pub face: FaceId,
    /// Its peer.
    pub peer: Peer,
    /// What stands before each datagram's octets.
    pub head: &'a [u8],
    /// Longest datagram that the kernel took as part of a run; 0 for none.
    pub run_datagram_max: usize,
    /// What is to be sent: some of its link packets.
    pub outbox: &'a Outbox,
    /// Which: from, and up to but not including.
    pub items: (usize, usize),
}

impl<'a> Sender<'a> {
    fn items(&self) -> &'a [Outgoing] {
        &self.outbox.items()[self.items.0..self.items.1]
    }
}

/// What became of link packets in [`DatagramSocket::flush`].
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// The queue of the socket is full.
    QueueFull,
    /// The system refused it.
    Failed(Errno),
    /// Not refused, but runs of datagrams this long are, on the way to this peer.
    NoRuns(usize),
}

impl DatagramSocket {
    /// Binds a socket; port 0 asks for a free one.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(address: SocketAddr, listening: bool, config: &FacesConfig) -> Result<Self, FaceError> {
        let socket = Self::open(address, listening, false, config)?;
        if listening && config.share_ports {
            // Only now: a port that another program has, which may share it too, is refused.
            let target = FaceUri::Udp(address);
            sockopt::set_socket_reuseport(&socket.socket, true)
                .map_err(FaceError::system("share the port of", target))?;
        }
        Ok(socket)
    }

    /// Binds another socket to the address of one that was bound where `config.share_ports` was set: for another shard.
    ///
    /// # Errors
    /// What the system says.
    pub fn twin(address: SocketAddr, config: &FacesConfig) -> Result<Self, FaceError> {
        Self::open(address, true, true, config)
    }

    fn open(
        address: SocketAddr,
        listening: bool,
        share: bool,
        config: &FacesConfig,
    ) -> Result<Self, FaceError> {
        let target = FaceUri::Udp(address);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let make = || -> Result<Self, Errno> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
            // "NDN leaves fragmentation to IP": no DF, so a packet of 8800 octets gets through an MTU of 1500.
            if address.is_ipv6() {
                sockopt::set_ipv6_v6only(&socket, true)?;
                sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT)?;
            } else {
                sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT)?;
            }
            sys::enable_errors(socket.as_fd(), address.is_ipv6())?;
            sys::set_gro(socket.as_fd(), true);
            if share {
                sockopt::set_socket_reuseport(&socket, true)?;
            }
            rustix::net::bind(&socket, &address)?;
            let local = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
            size_buffers(&socket, config)?;
            Self::over(socket, Medium::Udp(local), listening, config)
        };
        make().map_err(FaceError::system("listen on", target))
    }

    /// Has the system merge runs of datagrams that come here, or no longer. Frames without IP never are.
    pub fn merge_runs(&self, on: bool) {
        if !matches!(self.medium, Medium::Ether(_)) {
            sys::set_gro(self.socket.as_fd(), on);
        }
    }

    /// Joins a group on one interface.
    ///
    /// # Errors
    /// When the interface has no address to send from; what the system says.
    pub fn join(group: SocketAddr, interface: &Interface, config: &FacesConfig) -> Result<Self, FaceError> {
        let (socket, medium) = group::open(group, interface, config)?;
        Self::over(socket, medium, false, config).map_err(FaceError::system("join", FaceUri::Udp(group)))
    }

    /// Opens an interface for frames.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn ether(port: Port, listening: bool, config: &FacesConfig) -> Result<Self, FaceError> {
        let socket = port.open(config)?;
        let target = FaceUri::Dev(port.name.clone());
        Self::over(socket, Medium::Ether(port), listening, config).map_err(FaceError::system("open", target))
    }

    /// The same for another shard, which sends by it: it gets frames by AF_XDP, or from the shard that has the other.
    ///
    /// # Errors
    /// As [`Port::open_to_send`].
    pub fn ether_twin(port: Port, config: &FacesConfig) -> Result<Self, FaceError> {
        let socket = port.open_to_send(config)?;
        let target = FaceUri::Dev(port.name.clone());
        Self::over(socket, Medium::Ether(port), false, config).map_err(FaceError::system("open", target))
    }

    fn over(socket: OwnedFd, medium: Medium, listening: bool, config: &FacesConfig) -> Result<Self, Errno> {
        Ok(DatagramSocket {
            gso: !matches!(medium, Medium::Ether(_)) && sys::has_gso(socket.as_fd()),
            medium,
            listening,
            up: true,
            gone_since: None,
            seen: None,
            peers: Peers::new(),
            dirty: Vec::new(),
            congested: false,
            merged: false,
            accepted: 0,
            refused: 0,
            unheard: 0,
            queue: ByteQueue::default(),
            kernel_queue: 0,
            looked_at: Instant::START,
            asked: config.udp_receive_buffer,
            // The kernel doubles what is asked for, to account for its overhead.
            granted: sockopt::socket_recv_buffer_size(&socket)? / 2,
            overflows: 0,
            drops_seen: 0,
            charged: 0,
            socket,
        })
    }

    /// This end, as management shows it.
    pub fn local_uri(&self) -> FaceUri {
        match &self.medium {
            Medium::Udp(local) | Medium::Group { local, .. } => FaceUri::Udp(*local),
            Medium::Ether(port) => FaceUri::Dev(port.name.clone()),
        }
    }

    /// The interface it ends with, if it is bound to one.
    pub const fn interface(&self) -> Option<u32> {
        match &self.medium {
            Medium::Udp(_) => None,
            Medium::Group { interface, .. } => Some(*interface),
            Medium::Ether(port) => Some(port.interface),
        }
    }

    /// The name of the interface it is bound to, if it is to one.
    pub fn interface_name(&self) -> Option<&str> {
        match &self.medium {
            Medium::Udp(_) => None,
            Medium::Group { name, .. } => Some(name),
            Medium::Ether(port) => Some(&port.name),
        }
    }

    /// Takes the place of a socket whose interface was down or is another one: its faces are this one's now.
    pub fn replace(&mut self, old: &mut DatagramSocket) {
        core::mem::swap(&mut self.peers, &mut old.peers);
        core::mem::swap(&mut self.dirty, &mut old.dirty);
        self.listening |= old.listening;
        (self.accepted, self.refused, self.unheard) = (old.accepted, old.refused, old.unheard);
        self.overflows = old.overflows;
    }

    /// Drops what waits for the socket; shows the face of each datagram.
    pub fn clear_queue(&mut self, mut dropped: impl FnMut(FaceId)) {
        while !self.queue.is_empty() {
            let record = self.queue.front();
            let word =
                |at: usize| u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
            let (face, len) = (FaceId::from_bits(word(0)), word(4) as usize);
            dropped(face);
            self.queue.consume(RECORD_HEAD + len);
        }
    }

    /// Octets of the largest link packet.
    pub fn link_mtu(&self, config: &FacesConfig) -> usize {
        match &self.medium {
            Medium::Udp(_) | Medium::Group { .. } => config.udp_mtu,
            Medium::Ether(port) => port.link_mtu(),
        }
    }

    /// Octets that the largest link packet may be set to.
    pub fn link_mtu_max(&self) -> usize {
        match &self.medium {
            Medium::Udp(_) | Medium::Group { .. } => PACKET_LEN_MAX,
            Medium::Ether(port) => port.link_mtu(),
        }
    }

    /// What stands before a datagram to a peer.
    pub fn head(&self, peer: Peer) -> Head {
        match (&self.medium, peer) {
            (Medium::Ether(port), Peer::Mac(mac)) => port.head(mac),
            _ => Head::NONE,
        }
    }

    /// Octets of the largest datagram to a peer that IP leaves whole, as far as the system knows now; `None` where that is nobody's business or not known.
    pub fn path_mtu(&self, peer: Peer) -> Option<usize> {
        let (Medium::Udp(local), Peer::Ip(peer)) = (&self.medium, peer) else { return None };
        let (family, heads) = if peer.is_ipv4() {
            (AddressFamily::INET, IPV4_HEADS_LEN)
        } else {
            (AddressFamily::INET6, IPV6_HEADS_LEN)
        };
        let ask = || -> Result<u32, Errno> {
            // Only a connected socket can say it, and this one has many peers.
            let asking = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            rustix::net::bind(&asking, &SocketAddr::new(local.ip(), 0))?;
            rustix::net::connect(&asking, &peer)?;
            if peer.is_ipv4() { sockopt::ip_mtu(&asking) } else { sockopt::ipv6_mtu(&asking) }
        };
        ask().ok().and_then(|mtu| (mtu as usize).checked_sub(heads)).filter(|len| *len >= PATH_MTU_MIN)
    }

    /// Octets of the receive buffer, where a peer can make use of knowing.
    pub fn room_to_tell(&self, peer: Peer) -> Option<usize> {
        (matches!(self.medium, Medium::Udp(_)) && !peer.is_group()).then_some(self.granted)
    }

    /// Octets that wait for the socket.
    pub fn queue_bytes(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of memory that the queue takes.
    pub const fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }

    /// Asks the kernel how full the receive buffer is, and counts what was lost.
    pub fn look_at_buffer(&mut self) {
        let memory = sys::memory(self.socket.as_fd());
        self.congested = memory.used > memory.limit / 2;
        self.overflows += u64::from(memory.drops.wrapping_sub(self.drops_seen));
        self.drops_seen = memory.drops;
    }

    /// How the receive buffer is doing.
    pub fn buffer(&self) -> UdpBuffer {
        let new = sys::memory(self.socket.as_fd()).drops.wrapping_sub(self.drops_seen);
        UdpBuffer {
            asked: self.asked,
            granted: self.granted,
            overflows: self.overflows + u64::from(new),
            unheard: self.unheard,
        }
    }

    /// Shows the errors that routers on the way, or peers, reported: to which peer, and what.
    pub fn errors(&self, mut each: impl FnMut(SocketAddr, Errno)) {
        for _ in 0..ERRORS_PER_TURN {
            match sys::next_error(self.socket.as_fd()) {
                Some((Some(peer), errno)) => each(peer, errno),
                Some((None, _)) => {}
                None => return,
            }
        }
    }

    /// Sends all outboxes, many datagrams a call; what the socket refuses waits in the queue, up to `queue_max` octets. What went nowhere is
    /// shown to `refused`, with its length. The outboxes are left as they are, to be cleared by the caller.
    pub fn flush<'a>(
        &mut self,
        senders: &mut [Sender<'a>],
        pool: &'a Pool,
        queue_max: usize,
        mut refused: impl FnMut(FaceId, Option<&Outgoing>, usize, Refusal),
    ) {
        let mut at = Place { sender: 0, item: 0 };
        let mut soft_errors = 0;
        // Made once and used in place: it is too large to be moved.
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
                // An interface on the way has a smaller MTU than the run's datagrams, or can't compute checksums: one by one, then.
                Err(Errno::INVAL | Errno::IO | Errno::MSGSIZE) if first.segment.is_some() => {
                    let longest = usize::from(first.segment.unwrap_or(1)) - 1;
                    let sender = &mut senders[batch.starts[0].sender];
                    sender.run_datagram_max = longest;
                    refused(sender.face, None, 0, Refusal::NoRuns(longest));
                }
                // An error that an earlier datagram met on its way, to whatever peer, is reported once, by the next call.
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
        self.wait_for_rest(senders, at, pool, queue_max, refused);
    }

    fn wait_for_rest(
        &mut self,
        senders: &[Sender<'_>],
        at: Place,
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
                let (face, octets) = (sender.face.bits().to_ne_bytes(), (len as u32).to_ne_bytes());
                self.queue.push(&[&face, &octets, parts[0], parts[1]]);
            }
        }
    }

    /// Sends what waits, as far as the socket takes it. `peer_of` knows where a face's peer is, if the face still is there.
    ///
    /// # Errors
    /// `AGAIN` and `NOBUFS`: more waits.
    pub fn drain(
        &mut self,
        peer_of: impl Fn(FaceId) -> Option<Peer>,
        mut failed: impl FnMut(FaceId),
    ) -> Result<(), Errno> {
        let mut was_down = false;
        while !self.queue.is_empty() {
            let record = self.queue.front();
            let word =
                |at: usize| u32::from_ne_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
            let (face, len) = (FaceId::from_bits(word(0)), word(4) as usize);
            if let Some(peer) = peer_of(face) {
                let head = self.head(peer);
                let pieces =
                    [IoSlice::new(head.as_slice()), IoSlice::new(&record[RECORD_HEAD..RECORD_HEAD + len])];
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

    /// Octets that wait for the socket, and in the system behind it when that was last looked at.
    pub fn all_queue_bytes(&self) -> usize {
        self.queue.len() + self.kernel_queue
    }

    /// Asks the system how much waits there; once a millisecond.
    pub fn look_at_queue(&mut self, now: Instant) {
        if now >= self.looked_at + LOOK_PAUSE {
            self.looked_at = now;
            self.kernel_queue = sys::unsent(self.socket.as_fd(), false);
        }
    }
}

/// What the kernel is to be told of a peer. Frames say themselves to whom they go.
pub const fn address_of(peer: Peer) -> Option<SocketAddr> {
    match peer {
        Peer::Ip(address) => Some(address),
        Peer::Mac(_) => None,
    }
}

/// Asks for the buffers that bursts need; without the right to have them, for as much as everybody may.
fn size_buffers(socket: &OwnedFd, config: &FacesConfig) -> Result<(), Errno> {
    if sockopt::set_socket_recv_buffer_size_force(socket, config.udp_receive_buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, config.udp_receive_buffer)?;
    }
    if sockopt::set_socket_send_buffer_size_force(socket, config.udp_send_buffer).is_err() {
        sockopt::set_socket_send_buffer_size(socket, config.udp_send_buffer)?;
    }
    Ok(())
}

/// A link packet among the senders'.
#[derive(Clone, Copy, Debug)]
struct Place {
    sender: usize,
    item: usize,
}

/// What one call sends.
struct Batch<'a> {
    messages: ArrayVec<Message, { sys::SENT_MAX }>,
    /// The first link packet of each message.
    starts: ArrayVec<Place, { sys::SENT_MAX }>,
    /// The one behind each message.
    ends: ArrayVec<Place, { sys::SENT_MAX }>,
    pieces: ArrayVec<IoSlice<'a>, PIECES_MAX>,
}

impl<'a> Batch<'a> {
    /// With as many link packets as one call takes, from a place on.
    fn fill(&mut self, senders: &[Sender<'a>], mut at: Place, pool: &'a Pool, gso: bool) {
        self.messages.clear();
        self.starts.clear();
        self.ends.clear();
        self.pieces.clear();
        while let Some(sender) = senders.get(at.sender) {
            let items = sender.items();
            if at.item == items.len() {
                at = Place { sender: at.sender + 1, item: 0 };
                continue;
            }
            let run_datagram_max = if gso { sender.run_datagram_max } else { 0 };
            let run = run_len(sender.outbox, &items[at.item..], pool, run_datagram_max);
            // Each datagram takes at most two pieces, and its head one.
            if self.messages.is_full() || self.pieces.remaining_capacity() < 2 * run + 1 {
                return;
            }
            self.starts.push(at);
            self.message(sender, &items[at.item..at.item + run], pool);
            at.item += run;
            self.ends.push(at);
        }
    }

    fn message(&mut self, sender: &Sender<'a>, items: &'a [Outgoing], pool: &'a Pool) {
        let start = self.pieces.len();
        if !sender.head.is_empty() {
            self.pieces.push(IoSlice::new(sender.head));
        }
        let mut at = 0;
        while at < items.len() {
            // Short datagrams stand back to back in the outbox's buffer.
            let first = at;
            while at + 1 < items.len() && items[at].packet.is_none() {
                at += 1;
            }
            let head = sender.outbox.heads(&items[first], &items[at]);
            if !head.is_empty() {
                self.pieces.push(IoSlice::new(head));
            }
            if let Some(packet) = &items[at].packet {
                self.pieces.push(IoSlice::new(pool.bytes(packet)));
            }
            at += 1;
        }
        let segment = (items.len() > 1).then(|| sender.outbox.item_len(&items[0], pool) as u16);
        self.messages.push(Message {
            peer: address_of(sender.peer),
            pieces: (start, self.pieces.len()),
            segment,
        });
    }
}

/// How many of the first link packets go as one run: of equal length, but for a shorter last one.
fn run_len(outbox: &Outbox, items: &[Outgoing], pool: &Pool, datagram_max: usize) -> usize {
    let len = outbox.item_len(&items[0], pool);
    if len > datagram_max {
        return 1;
    }
    let (mut run, mut bytes) = (1, len);
    while run < items.len().min(RUN_MAX) {
        let next = outbox.item_len(&items[run], pool);
        if next > len || bytes + next > RUN_BYTES_MAX {
            break;
        }
        run += 1;
        bytes += next;
        if next < len {
            break;
        }
    }
    run
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
    fn what_a_full_socket_refuses_waits_in_order_and_within_bounds() {
        let address = "127.0.0.1:0".parse().unwrap();
        let mut socket = DatagramSocket::bind(address, true, &FacesConfig::default()).unwrap();
        let peer = std::net::UdpSocket::bind(address).unwrap();
        peer.set_read_timeout(Some(core::time::Duration::from_secs(5))).unwrap();
        let pool = Pool::new(HashKey::new([1, 2, 3, 4]), 1, 1);
        let (there, gone) = (FaceId::from_slot(256, 0), FaceId::from_slot(257, 0));
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
        // As if the call had taken the first three.
        let senders = [sender(there, &first), sender(gone, &second)];
        socket.wait_for_rest(&senders, Place { sender: 0, item: 3 }, &pool, 10_000, |_, _, _, _| {
            panic!("there is room")
        });
        assert_eq!(socket.queue_bytes(), 17 * 108);
        // While some wait, others wait behind them, as long as there is room.
        let mut refused = 0;
        socket.flush(&mut [sender(there, &first)], &pool, 20 * 108, |id, item, len, refusal| {
            assert!(id == there && item.is_some() && len == 100 && matches!(refusal, Refusal::QueueFull));
            refused += 1;
        });
        assert_eq!((refused, socket.queue_bytes()), (7, 20 * 108));
        // A face that is gone meanwhile gets nothing.
        let to = Peer::Ip(peer.local_addr().unwrap());
        socket.drain(|id| (id == there).then_some(to), |_| panic!("nothing fails")).unwrap();
        assert_eq!(socket.queue_bytes(), 0);
        let mut buffer = [0; 200];
        for at in (3..10).chain(0..3) {
            let len = peer.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..len], [at; 100]);
        }
    }

    #[test]
    fn runs_are_of_equal_length_but_for_the_last() {
        let pool = Pool::new(HashKey::new([1, 2, 3, 4]), 1, 1);
        let run = |lens: &[usize], max| {
            let outbox = outbox(&lens.iter().map(|len| vec![0; *len]).collect::<Vec<_>>());
            run_len(&outbox, outbox.items(), &pool, max)
        };
        assert_eq!(run(&[100, 100, 100], usize::MAX), 3);
        assert_eq!(run(&[100, 100, 40, 40], usize::MAX), 3);
        assert_eq!(run(&[100, 101], usize::MAX), 1);
        assert_eq!(run(&[100; 100], usize::MAX), RUN_MAX);
        assert_eq!(run(&[8000; 100], usize::MAX), 8);
        assert_eq!(run(&[100, 100], 99), 1);
    }
}
