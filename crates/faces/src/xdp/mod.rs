//! AF_XDP: frames of an interface come to memory of ours before the system makes anything else of them, and leave from there.
//!
//! It is another way in and out of the faces that there are, not another kind of face: a UDP or Ethernet face has its socket as before, and what can go
//! by AF_XDP does. So the system goes on with what can't: datagrams in fragments, neighbours it has to ask for, interfaces that have no AF_XDP.
//!
//! ```text
//!  interface ─▶ XDP program: NDN? ─▶ rx ─▶ frame.rs ─▶ the face of the sender ─▶ link service
//!                    └─ no ─▶ the system ─▶ sockets
//!  Outbox ─▶ way to the peer known (routes.rs)? ─▶ head, payload into a frame ─▶ tx ─▶ interface
//!                    └─ no, or too long ─▶ the face's socket
//! ```
//!
//! Each shard has sockets of its own on every queue, and the program chooses among them by name or token; what a shard sends leaves by one of them, another
//! one than other shards' as far as the card has queues. The first shard opens them all and gives the others theirs ([`Branches`]).

mod branches;
pub mod frame;
pub mod rings;
pub mod routes;

use crate::interfaces::{Interface, ethtool};
use crate::mac::Mac;
use branches::Trunk;
pub use branches::{Branches, Counts, News};
use rings::{Sizes, Xsk};
use rustix::io::Errno;
use std::error::Error;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Frames that may wait to be read, of one queue: all shards together, as long as each has [`RECEIVED_MIN`].
const RECEIVED: u32 = 4096;
/// Frames that may wait for one shard.
const RECEIVED_MIN: u32 = 512;
/// Frames that may wait to be sent, of one queue: all shards together, as long as each has [`SENT_EACH_MIN`].
const SENT: u32 = 2048;
/// Frames that may wait of one shard.
const SENT_EACH_MIN: u32 = 256;
/// On a queue that sends nothing, a shard has so few.
const SENT_MIN: u32 = 64;
/// Queues of one interface.
pub const QUEUES_MAX: u32 = 64;
/// Octets before a payload of an Ethernet frame, with two tags.
const ETHERNET_MAX: usize = 22;

/// How to allow a process what AF_XDP needs.
pub const RIGHTS: &str = "allow it by `setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep` on its file, or \
     `AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK` in its systemd unit";

/// Who brings frames to sockets: a kernel program, which is not this crate's to load.
pub trait Steering: core::fmt::Debug + Send {
    /// To how many shards it brings frames.
    fn shards(&self) -> u8 {
        1
    }

    /// Attaches to an interface.
    ///
    /// # Errors
    /// What is missing, and what helps.
    fn attach(&mut self, wanted: &Wanted<'_>) -> Result<Box<dyn Steered>, SteeringError>;
}

/// What is to be steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The interface.
    pub interface: &'a str,
    /// Receive queues it may have.
    pub queues: u32,
    /// Its own address: frames to other cards are none of ours.
    pub mac: Mac,
    /// NDN in UDP to these ports.
    pub ports: &'a [u16],
    /// NDN without IP too, to this group in this VLAN (0 is none); `None` where it is not used.
    pub group: Option<(Mac, u16)>,
}

/// An interface whose frames are steered, until this is dropped.
pub trait Steered: core::fmt::Debug + Send {
    /// By the driver; else by the system, for drivers that can't.
    fn is_native(&self) -> bool;

    /// Frames of this queue that are for this shard go to this socket.
    ///
    /// # Errors
    /// What the system says.
    fn set_socket(&mut self, queue: u32, shard: u8, socket: BorrowedFd<'_>) -> Result<(), SteeringError>;

    /// Datagrams to these addresses are for this machine. Before the first call none are.
    ///
    /// # Errors
    /// What the system says.
    fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError>;
}

/// What whoever steers says.
pub type SteeringError = Box<dyn Error + Send + Sync>;

/// Why an interface goes by ordinary sockets.
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
    /// Another program has the queue.
    #[error("another program has an AF_XDP socket on queue {0}; stop it")]
    Busy(u32),
    /// Frames are too long.
    #[error(
        "its MTU is {0}, and frames of more than 3,818 octets have no room; `ip link set dev … mtu 3500` makes them shorter"
    )]
    Mtu(usize),
    /// It is none.
    #[error("it is no Ethernet interface")]
    NoEthernet,
    /// No program of the kernel's.
    #[error(transparent)]
    Steering(SteeringError),
    /// The system refused.
    #[error("the system refused an AF_XDP socket: {0}")]
    System(Errno),
}

/// How an interface's frames come in and leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpStatus {
    /// The interface.
    pub interface: Box<str>,
    /// The program runs in the driver (native), or in the system (generic).
    pub native: bool,
    /// The driver uses this program's memory itself (zero-copy); else the kernel copies.
    pub zero_copy: bool,
    /// Queues that are read.
    pub queues: usize,
    /// Frames received and sent this way.
    pub received: u64,
    /// Likewise.
    pub sent: u64,
    /// Frames that came while there was no room.
    pub lost: u64,
    /// Frames that were for somebody else, or whose checksum was wrong.
    pub others: u64,
}

impl XdpStatus {
    /// `native` or `generic`.
    pub const fn mode(&self) -> &'static str {
        if self.native { "native" } else { "generic" }
    }

    /// `zero-copy` or `copy`.
    pub const fn memory(&self) -> &'static str {
        if self.zero_copy { "zero-copy" } else { "copy" }
    }
}

impl core::fmt::Display for XdpStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (mode, memory) = (self.mode(), self.memory());
        let queues = if self.queues == 1 { "queue" } else { "queues" };
        write!(f, "{} goes by AF_XDP: {mode}, {memory}, {} {queues}", self.interface, self.queues)
    }
}

/// An interface with a shard's AF_XDP sockets.
#[derive(Debug)]
pub struct Port {
    /// As it was when it was opened.
    pub interface: Interface,
    /// Its own address.
    pub mac: Mac,
    /// One a queue.
    pub queues: Vec<Xsk>,
    /// What this shard has counted.
    pub counts: Arc<Counts>,
    native: bool,
    /// The queue that this shard sends by.
    sends_by: usize,
    /// Something is in the ring that is not sent yet.
    unsent: bool,
    /// Tells IPv4's fragments apart; by steps, so that those of other shards are others.
    id: u16,
    id_step: u16,
    /// What the shard has that opened the interface.
    trunk: Option<Box<Trunk>>,
}

impl Port {
    /// Opens sockets on all queues of an interface, and attaches the program that brings frames to them.
    ///
    /// # Errors
    /// Why not.
    pub fn open(
        interface: &Interface,
        (ports, group): (&[u16], Option<(Mac, u16)>),
        steering: &mut dyn Steering,
    ) -> Result<Self, XdpError> {
        let mac = interface.mac.ok_or(XdpError::NoEthernet)?;
        let frame_len_max = interface.mtu + ETHERNET_MAX;
        let shards = steering.shards().max(1);
        let each = |all: u32, min: u32| (all / u32::from(shards)).next_power_of_two().clamp(min, all);
        let (received, sent) = (each(RECEIVED, RECEIVED_MIN), each(SENT, SENT_EACH_MIN));
        let sizes = Sizes::for_frames(frame_len_max, received, sent, u32::from(shards))
            .ok_or(XdpError::Mtu(interface.mtu))?;
        let room = interface.queues.clamp(1, QUEUES_MAX);
        let wanted = Wanted { interface: &interface.name, queues: room, mac, ports, group };
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
            trunk: Some(Box::new(Trunk::new((ports, group), (sizes, shards), steered))),
        };
        port.open_queues()?;
        Ok(port)
    }

    /// Opens sockets on all queues that have none.
    fn open_queues(&mut self) -> Result<(), XdpError> {
        if !self.may_have_more() {
            return Ok(());
        }
        // Drivers that do not tell have one at least.
        let sending = ethtool::send_queues(&self.interface.name).unwrap_or(1).max(1);
        while self.may_have_more() && self.open_queue(sending)? {}
        Ok(())
    }

    fn may_have_more(&self) -> bool {
        self.trunk.is_some() && self.queues.len() < self.interface.queues.clamp(1, QUEUES_MAX) as usize
    }

    /// Opens sockets on the next queue, of a card that sends by so many; false when there is none.
    fn open_queue(&mut self, sending: u32) -> Result<bool, XdpError> {
        let Some(trunk) = &mut self.trunk else { return Ok(false) };
        let queue = self.queues.len() as u32;
        match trunk.open_queue(self.interface.index, queue, sending) {
            Ok(own) => self.queues.push(own),
            // There may be fewer queues than there is room for.
            Err(XdpError::System(Errno::INVAL)) if queue > 0 => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Opens sockets on queues that there are now and were not before. Until then their frames go to ordinary sockets, and so they do if this fails.
    pub fn open_more_queues(&mut self) {
        let _ = self.open_queues();
    }

    /// Sends by another queue from now on.
    fn send_by(&mut self, queue: usize) {
        if queue != self.sends_by {
            // What is in that ring leaves; an interface that is down or gone says so by other ways as well.
            let _ = self.kick();
            self.sends_by = queue;
        }
    }

    /// True when it is for these UDP ports, and for NDN without IP to this group.
    pub fn is_for(&self, ports: &[u16], group: Option<(Mac, u16)>) -> bool {
        self.trunk.as_ref().is_some_and(|trunk| trunk.ports == ports && trunk.group == group)
    }

    /// Takes datagrams to these addresses, and no others.
    ///
    /// # Errors
    /// When the kernel does not; then what was, stays.
    pub fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError> {
        self.trunk.as_mut().map_or(Ok(()), |trunk| trunk.set_destinations(addresses))
    }

    /// How it does: all shards together for the one that opened it, for another its own part.
    pub fn status(&self) -> XdpStatus {
        let others = || self.trunk.iter().flat_map(|trunk| trunk.counts());
        let all = |one: fn(&Counts) -> u64| one(&self.counts) + others().map(one).sum::<u64>();
        let lost_by_others = self.trunk.as_ref().map_or(0, |trunk| trunk.lost());
        XdpStatus {
            interface: self.interface.name.clone(),
            native: self.native,
            zero_copy: self.queues.iter().all(Xsk::is_zero_copy),
            queues: self.queues.len(),
            received: all(Counts::received),
            sent: all(Counts::sent),
            lost: self.queues.iter().map(rings::lost).sum::<u64>() + lost_by_others,
            others: all(Counts::others),
        }
    }

    /// What a shard has counted of it; nothing where frames are not brought to that shard.
    pub fn counts_of(&self, shard: usize) -> Option<&Counts> {
        match (shard, &self.trunk) {
            (0, _) => Some(&self.counts),
            (_, trunk) => trunk.as_ref()?.counts_of(shard),
        }
    }

    /// The program runs in the driver; else in the system.
    pub const fn is_native(&self) -> bool {
        self.native
    }

    /// True for the shard that opened the interface.
    pub const fn is_trunk(&self) -> bool {
        self.trunk.is_some()
    }

    /// Puts a frame into the ring; false when there is no room.
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

    /// Sends what is in the ring.
    ///
    /// # Errors
    /// When the interface is down or gone.
    pub fn kick(&mut self) -> Result<(), Errno> {
        if !core::mem::take(&mut self.unsent) {
            return Ok(());
        }
        self.queues.get_mut(self.sends_by).map_or(Ok(()), Xsk::kick)
    }

    /// Hands back what was received; false when it is to be called again soon.
    pub fn settle(&mut self) -> bool {
        let mut settled = true;
        for xsk in &mut self.queues {
            settled &= xsk.settle();
        }
        settled
    }
}
