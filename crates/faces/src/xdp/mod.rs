//! AF_XDP: frames of an interface are received into this process's memory before the kernel's
//! network stack processes them, and are sent from there.
//!
//! It is another path below existing faces, not another kind of face: a UDP or Ethernet face keeps
//! its socket, and frames that can go by AF_XDP do. The kernel's stack carries the others:
//! fragmented datagrams, neighbours to be resolved, interfaces without AF_XDP.
//!
//! ```text
//!  interface ─▶ XDP program: NDN? ─▶ rx ─▶ frame.rs ─▶ the sender's face ─▶ link service
//!                    └─ no ─▶ kernel stack ─▶ sockets
//!  Outbox ─▶ route to the peer known? ─▶ headers + payload in a frame ─▶ tx ─▶ interface
//!                    └─ no, or too long ─▶ the face's socket
//! ```
//!
//! Each shard has its own sockets on every queue, and the program chooses among them by name or
//! token. A shard sends by one of its sockets, each shard by another queue as far as the card has
//! queues. The first shard opens all sockets and passes the others theirs ([`ShardSockets`]).

pub mod frame;
pub mod rings;
pub mod routes;
mod shared_umem;

use crate::interfaces::{Interface, ethtool};
use nw_link::Mac;
use rings::{Sizes, Xsk};
use rustix::io::Errno;
use shared_umem::UmemOwner;
pub use shared_umem::{Counts, ShardSockets, SocketUpdate};
use std::error::Error;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Received frames that one queue may hold: all shards together, while each has [`RECEIVED_MIN`].
const RECEIVED: u32 = 4096;
/// Received frames that one queue may hold for one shard, at least.
const RECEIVED_MIN: u32 = 512;
/// Frames to send that one queue may hold: all shards together, while each has [`SENT_EACH_MIN`].
const SENT: u32 = 2048;
/// Frames to send that one queue may hold of one shard, at least.
const SENT_EACH_MIN: u32 = 256;
/// Frames to send of a shard on a queue that it does not send by.
const SENT_MIN: u32 = 64;
/// Queues used on one interface, at most.
pub const QUEUES_MAX: u32 = 64;
/// Bytes before the payload of an Ethernet frame with two tags.
const ETHERNET_MAX: usize = 22;

/// How to give a process the rights that AF_XDP needs.
pub const RIGHTS: &str = "allow it by `setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep` on its file, or \
     `AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK` in its systemd unit";

/// Brings frames to sockets: the loader of the kernel program, implemented above this crate.
pub trait Steering: core::fmt::Debug + Send {
    /// Returns the number of shards that get frames.
    fn shards(&self) -> u8 {
        1
    }

    /// Attaches the program to an interface.
    ///
    /// # Errors
    /// What is missing, with the remedy.
    fn attach(
        &mut self,
        wanted: &SteeringRequest<'_>,
    ) -> Result<Box<dyn SteeredInterface>, SteeringError>;
}

/// The frames to bring to sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteeringRequest<'a> {
    /// The interface.
    pub interface: &'a str,
    /// Maximum number of receive queues.
    pub queues: u32,
    /// Its own address: frames to other cards are ignored.
    pub mac: Mac,
    /// UDP ports of NDN.
    pub ports: &'a [u16],
    /// Group and VLAN (0 for none) of NDN over Ethernet; `None` if unused.
    pub group: Option<(Mac, u16)>,
}

/// An interface with the attached program; dropping it detaches the program.
pub trait SteeredInterface: core::fmt::Debug + Send {
    /// Returns whether the program runs in the driver (native), not in the kernel's generic mode.
    fn is_native(&self) -> bool;

    /// Sends frames of this queue for this shard to this socket.
    ///
    /// # Errors
    /// If the kernel refuses it.
    fn set_socket(
        &mut self,
        queue: u32,
        shard: u8,
        socket: BorrowedFd<'_>,
    ) -> Result<(), SteeringError>;

    /// Sets the addresses whose datagrams are for this machine; none at first.
    ///
    /// # Errors
    /// If the kernel refuses it.
    fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError>;
}

/// Error of the program's loader.
pub type SteeringError = Box<dyn Error + Send + Sync>;

/// Why an interface uses ordinary sockets.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// CAP_NET_RAW is missing.
    #[error("this process may not open AF_XDP sockets; {RIGHTS}")]
    Rights,
    /// Memory for frames can't be locked.
    #[error(
        "memory for frames can't be locked; allow it by `LimitMEMLOCK=infinity` in the systemd unit, `ulimit -l unlimited`, or CAP_IPC_LOCK"
    )]
    Locked,
    /// Another program uses the queue.
    #[error("another program has an AF_XDP socket on queue {0}; stop it")]
    Busy(u32),
    /// Frames are too long.
    #[error(
        "its MTU is {0}, and frames have at most 3,818 bytes; set a smaller one by `ip link set dev … mtu 3500`"
    )]
    Mtu(usize),
    /// It is not an Ethernet interface.
    #[error("it is not an Ethernet interface")]
    NoEthernet,
    /// The kernel program can't be attached.
    #[error(transparent)]
    Steering(SteeringError),
    /// A system call failed.
    #[error("the system refused an AF_XDP socket: {0}")]
    System(Errno),
}

/// Status of an interface that uses AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpStatus {
    /// Name of the interface.
    pub interface: Box<str>,
    /// Whether the program runs in the driver (native) or in the kernel's generic mode.
    pub native: bool,
    /// Whether the driver uses this process's memory (zero-copy); else the kernel copies.
    pub zero_copy: bool,
    /// Queues in use.
    pub queues: usize,
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames lost because a ring was full.
    pub lost: u64,
    /// Frames not for this router, or with a wrong checksum.
    pub others: u64,
}

impl XdpStatus {
    /// Returns `native` or `generic`.
    pub const fn mode(&self) -> &'static str {
        if self.native { "native" } else { "generic" }
    }

    /// Returns `zero-copy` or `copy`.
    pub const fn memory(&self) -> &'static str {
        if self.zero_copy { "zero-copy" } else { "copy" }
    }
}

impl core::fmt::Display for XdpStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (mode, memory) = (self.mode(), self.memory());
        let queues = if self.queues == 1 { "queue" } else { "queues" };
        write!(f, "{} uses AF_XDP: {mode}, {memory}, {} {queues}", self.interface, self.queues)
    }
}

/// An interface with one shard's AF_XDP sockets.
#[derive(Debug)]
pub struct Port {
    /// State of the interface when it was opened.
    pub interface: Interface,
    /// Address of the interface.
    pub mac: Mac,
    /// One socket pair per queue.
    pub queues: Vec<Xsk>,
    /// Counters of this shard.
    pub counts: Arc<Counts>,
    native: bool,
    /// Index of the queue that this shard sends by.
    sends_by: usize,
    /// The ring has frames that were not sent yet.
    unsent: bool,
    /// IPv4 identification of the next datagram; advanced by `id_step`, so that shards never use
    /// the same.
    id: u16,
    id_step: u16,
    /// Present on the shard that opened the interface.
    umem_owner: Option<Box<UmemOwner>>,
}

impl Port {
    /// Opens sockets on all queues of an interface, and attaches the program.
    ///
    /// # Errors
    /// Why the interface can't use AF_XDP.
    pub fn open(
        interface: &Interface,
        (ports, group): (&[u16], Option<(Mac, u16)>),
        steering: &mut dyn Steering,
    ) -> Result<Self, XdpError> {
        let mac = interface.mac.ok_or(XdpError::NoEthernet)?;
        let frame_len_max = interface.mtu + ETHERNET_MAX;
        let shards = steering.shards().max(1);
        let per_shard =
            |all: u32, min: u32| (all / u32::from(shards)).next_power_of_two().clamp(min, all);
        let (received, sent) = (per_shard(RECEIVED, RECEIVED_MIN), per_shard(SENT, SENT_EACH_MIN));
        let sizes = Sizes::for_frames(frame_len_max, received, sent, u32::from(shards))
            .ok_or(XdpError::Mtu(interface.mtu))?;
        let queues = interface.queues.clamp(1, QUEUES_MAX);
        let wanted = SteeringRequest { interface: &interface.name, queues, mac, ports, group };
        let steered = steering.attach(&wanted).map_err(XdpError::Steering)?;
        let mut port = Port {
            interface: interface.clone(),
            mac,
            queues: Vec::new(),
            counts: Arc::default(),
            native: steered.is_native(),
            sends_by: 0,
            unsent: false,
            id: 0,
            id_step: u16::from(shards),
            umem_owner: Some(Box::new(UmemOwner::new((ports, group), (sizes, shards), steered))),
        };
        port.open_queues()?;
        Ok(port)
    }

    /// Opens sockets on all queues without.
    fn open_queues(&mut self) -> Result<(), XdpError> {
        if !self.may_have_more() {
            return Ok(());
        }
        // Drivers that don't report it have at least one.
        let sending = ethtool::send_queues(&self.interface.name).unwrap_or(1).max(1);
        while self.may_have_more() && self.open_queue(sending)? {}
        Ok(())
    }

    fn may_have_more(&self) -> bool {
        self.umem_owner.is_some()
            && self.queues.len() < self.interface.queues.clamp(1, QUEUES_MAX) as usize
    }

    /// Opens sockets on the next queue, of a card with `sending` send queues. Returns false if
    /// there is none.
    fn open_queue(&mut self, sending: u32) -> Result<bool, XdpError> {
        let Some(umem_owner) = &mut self.umem_owner else { return Ok(false) };
        let queue = self.queues.len() as u32;
        match umem_owner.open_queue(self.interface.index, queue, sending) {
            Ok(own) => self.queues.push(own),
            // There may be fewer queues than the maximum.
            Err(XdpError::System(Errno::INVAL)) if queue > 0 => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Opens sockets on queues added since. Until then, and if this fails, their frames go to
    /// ordinary sockets.
    pub fn open_more_queues(&mut self) {
        let _ = self.open_queues();
    }

    /// Sends by another queue from now on.
    fn send_by(&mut self, queue: usize) {
        if queue != self.sends_by {
            // Frames in that ring are sent; an interface that is down or removed is reported
            // elsewhere too.
            let _ = self.kick();
            self.sends_by = queue;
        }
    }

    /// Returns whether it was opened for these UDP ports and this group.
    pub fn is_for(&self, ports: &[u16], group: Option<(Mac, u16)>) -> bool {
        self.umem_owner
            .as_ref()
            .is_some_and(|umem_owner| umem_owner.ports == ports && umem_owner.group == group)
    }

    /// Sets the addresses whose datagrams are accepted.
    ///
    /// # Errors
    /// If the kernel refuses it; then the old ones stay.
    pub fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError> {
        self.umem_owner.as_mut().map_or(Ok(()), |umem_owner| umem_owner.set_destinations(addresses))
    }

    /// Returns the status: of all shards on the shard that opened it, of its own part on others.
    pub fn status(&self) -> XdpStatus {
        let others = || self.umem_owner.iter().flat_map(|umem_owner| umem_owner.counts());
        let total = |counter: fn(&Counts) -> u64| {
            counter(&self.counts) + others().map(counter).sum::<u64>()
        };
        let lost_by_others = self.umem_owner.as_ref().map_or(0, |umem_owner| umem_owner.lost());
        XdpStatus {
            interface: self.interface.name.clone(),
            native: self.native,
            zero_copy: self.queues.iter().all(Xsk::is_zero_copy),
            queues: self.queues.len(),
            received: total(Counts::received),
            sent: total(Counts::sent),
            lost: self.queues.iter().map(rings::lost).sum::<u64>() + lost_by_others,
            others: total(Counts::others),
        }
    }

    /// Returns the counters of a shard. `None` if it gets no frames.
    pub fn counts_of(&self, shard: usize) -> Option<&Counts> {
        match (shard, &self.umem_owner) {
            (0, _) => Some(&self.counts),
            (_, umem_owner) => umem_owner.as_ref()?.counts_of(shard),
        }
    }

    /// Returns whether the program runs in the driver.
    pub const fn is_native(&self) -> bool {
        self.native
    }

    /// Returns whether this shard opened the interface.
    pub const fn is_umem_owner(&self) -> bool {
        self.umem_owner.is_some()
    }

    /// Puts a frame, filled by `write`, into the ring. Returns false if the ring is full.
    #[inline]
    pub fn put(&mut self, write: impl FnOnce(u16, &mut [u8]) -> Option<usize>) -> bool {
        let Some(sender) = self.queues.get_mut(self.sends_by) else { return false };
        let id = self.id;
        let put = sender.put(|frame| write(id, frame));
        self.id = self.id.wrapping_add(self.id_step);
        self.unsent |= put;
        self.counts.add_sent(u64::from(put));
        put
    }

    /// Puts a frame into the ring; if that is full, the frames in it are sent first. Returns false
    /// if it is still full.
    pub fn put_or_kick(&mut self, write: impl Fn(u16, &mut [u8]) -> Option<usize>) -> bool {
        self.put(&write) || self.kick().is_ok() && self.put(&write)
    }

    /// Sends the frames in the ring.
    ///
    /// # Errors
    /// If the interface is down or removed.
    pub fn kick(&mut self) -> Result<(), Errno> {
        if !core::mem::take(&mut self.unsent) {
            return Ok(());
        }
        self.queues.get_mut(self.sends_by).map_or(Ok(()), Xsk::kick)
    }

    /// Returns received frames to the kernel. Returns false if another shard is doing so: call
    /// again soon.
    pub fn return_frames(&mut self) -> bool {
        let mut all_returned = true;
        for xsk in &mut self.queues {
            all_returned &= xsk.return_frames();
        }
        all_returned
    }
}
