//! What several shards need to receive and send by the sockets of one interface: the shard that opened it keeps the [`Trunk`], the others get their
//! sockets as [`Branches`].

use super::rings::{self, Sizes, Xsk};
use super::{Port, SENT_MIN, Steered, SteeringError, XdpError};
use crate::interfaces::Interface;
use crate::mac::Mac;
use core::sync::atomic::{AtomicU64, Ordering};
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Linux from which on the sockets of a queue can be brought frames by the system (generic mode) on several processors at once: before, each socket
/// had a lock of its own for the ring that they share.
const GENERIC_SHARES: (u32, u32) = (6, 15);

/// What one shard has counted of a port. It writes, all may read.
#[derive(Debug, Default)]
pub struct Counts {
    received: AtomicU64,
    sent: AtomicU64,
    others: AtomicU64,
}

impl Counts {
    /// Frames received.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Frames sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Frames that were for somebody else, or whose checksum was wrong.
    pub fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    /// So many frames more.
    pub fn add_received(&self, frames: u64) {
        add(&self.received, frames);
    }

    pub(super) fn add_sent(&self, frames: u64) {
        add(&self.sent, frames);
    }

    /// So many frames more.
    pub fn add_others(&self, frames: u64) {
        add(&self.others, frames);
    }
}

/// Only one thread writes, so nothing is lost between the two.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// What other shards are told of an interface.
#[derive(Clone, Debug)]
pub enum News {
    /// There are sockets for them.
    Sockets(Arc<Branches>),
    /// The port with this number goes by ordinary sockets from now on.
    Gone(usize),
    /// Sockets have runs of datagrams merged by the system, or not.
    Merge(bool),
}

/// Sockets of an interface for other shards, each of which takes its own.
#[derive(Debug)]
pub struct Branches {
    at: usize,
    interface: Interface,
    mac: Mac,
    shards: u16,
    native: bool,
    /// Queues that shards send by.
    senders: u32,
    /// By shard, less the first.
    parts: Mutex<Vec<Part>>,
}

/// One shard's.
#[derive(Debug, Default)]
pub struct Part {
    counts: Arc<Counts>,
    /// Of the next queues.
    sockets: Vec<Xsk>,
}

impl Branches {
    /// What is new of a port of this number.
    pub(crate) fn of(at: usize, port: &mut Port) -> Option<Self> {
        let trunk = port.trunk.as_mut()?;
        let (parts, senders) = (trunk.new_sockets()?, trunk.senders);
        let (interface, mac, shards, native) = (port.interface.clone(), port.mac, port.id_step, port.native);
        Some(Branches { at, interface, mac, shards, native, senders, parts: Mutex::new(parts) })
    }

    /// The number of the port.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// A shard takes what is its own into the port it has, or into a new one.
    pub(crate) fn take(&self, shard: u8, known: Option<Port>) -> Option<Port> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = core::mem::take(parts.get_mut(usize::from(shard).checked_sub(1)?)?);
        let mut port = known.unwrap_or_else(|| Port {
            interface: self.interface.clone(),
            mac: self.mac,
            native: self.native,
            queues: Vec::new(),
            counts: part.counts,
            sends_by: 0,
            unsent: false,
            id: u16::from(shard),
            id_step: self.shards,
            trunk: None,
        });
        port.queues.extend(part.sockets);
        port.send_by((u32::from(shard) % self.senders.max(1)) as usize);
        Some(port)
    }
}

/// What another shard has of a port, as the first one knows it.
#[derive(Debug, Default)]
struct Other {
    counts: Arc<Counts>,
    /// To be asked what was lost there.
    receivers: Vec<Arc<OwnedFd>>,
    /// Those that it has not been given yet.
    new: Vec<Xsk>,
}

/// What the shard has that opened an interface.
#[derive(Debug)]
pub struct Trunk {
    /// UDP ports that the program looks for.
    pub ports: Vec<u16>,
    /// And NDN without IP, to this group in this VLAN.
    pub group: Option<(Mac, u16)>,
    destinations: Vec<IpAddr>,
    sizes: Sizes,
    /// To how many shards frames are brought.
    shards: u8,
    /// So many of the first queues have frames for shards to send from: as many as the card sends by, if there are shards for all.
    senders: u32,
    /// Those that have sockets of their own: by shard, less the first.
    others: Vec<Other>,
    /// Before the sockets close no frame is to be brought to them; dropped last it does no harm.
    steered: Box<dyn Steered>,
}

impl Trunk {
    /// Of an interface without queues.
    pub fn new(
        (ports, group): (&[u16], Option<(Mac, u16)>),
        (sizes, shards): (Sizes, u8),
        steered: Box<dyn Steered>,
    ) -> Self {
        let ports = ports.to_vec();
        let shared = steered.is_native() || generic_mode_shares();
        let sizes = if shared { sizes } else { Sizes { threads: 1, ..sizes } };
        let others = (1..sizes.threads).map(|_| Other::default()).collect();
        Trunk { ports, group, destinations: Vec::new(), sizes, shards, senders: 0, others, steered }
    }

    /// Opens the sockets of the next queue, of a card that sends by so many; the first shard's.
    pub fn open_queue(&mut self, interface: u32, queue: u32, sending: u32) -> Result<Xsk, XdpError> {
        let sends = queue == self.senders && queue < sending.min(self.sizes.threads);
        let sizes = if sends { self.sizes } else { Sizes { sent: SENT_MIN, ..self.sizes } };
        let opened = match Xsk::open(interface, queue, sizes, !self.steered.is_native()) {
            Ok(opened) => opened,
            Err(Errno::PERM | Errno::ACCESS) => return Err(XdpError::Rights),
            Err(Errno::NOBUFS | Errno::NOMEM) => return Err(XdpError::Locked),
            Err(Errno::BUSY) => return Err(XdpError::Busy(queue)),
            Err(errno) => return Err(XdpError::System(errno)),
        };
        for shard in 0..self.shards {
            // Where shards can't have their own, the first one's gets all.
            let socket = opened.get(usize::from(shard)).or(opened.first());
            if let Some(socket) = socket {
                self.steered.set_socket(queue, shard, socket.as_fd()).map_err(XdpError::Steering)?;
            }
        }
        let mut opened = opened.into_iter();
        let first = opened.next().ok_or(XdpError::System(Errno::INVAL))?;
        for (other, xsk) in self.others.iter_mut().zip(opened) {
            other.receivers.push(xsk.receiver());
            other.new.push(xsk);
        }
        self.senders += u32::from(sends);
        Ok(first)
    }

    /// See [`Port::set_destinations`].
    pub fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError> {
        if self.destinations != addresses {
            self.steered.set_destinations(addresses)?;
            self.destinations = addresses.to_vec();
        }
        Ok(())
    }

    /// Sockets that the other shards have not been given yet.
    pub fn new_sockets(&mut self) -> Option<Vec<Part>> {
        if self.others.iter().all(|other| other.new.is_empty()) {
            return None;
        }
        let part = |other: &mut Other| Part {
            counts: Arc::clone(&other.counts),
            sockets: core::mem::take(&mut other.new),
        };
        Some(self.others.iter_mut().map(part).collect())
    }

    /// What another shard has counted.
    pub fn counts_of(&self, shard: usize) -> Option<&Counts> {
        self.others.get(shard.checked_sub(1)?).map(|other| &*other.counts)
    }

    /// What the other shards have counted.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.others.iter().map(|other| &*other.counts)
    }

    /// What was lost on the way to other shards.
    pub fn lost(&self) -> u64 {
        self.others.iter().flat_map(|other| &other.receivers).map(rings::lost).sum()
    }
}

fn generic_mode_shares() -> bool {
    let release = rustix::system::uname();
    is_at_least(&release.release().to_string_lossy(), GENERIC_SHARES)
}

/// Whether a release, as `6.18.2-generic`, is a version or later. What can't be read is not.
fn is_at_least(release: &str, (major, minor): (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(second))) => (first, second) >= (major, minor),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        for (release, is) in [
            ("6.15.0", true),
            ("6.18.44-fc", true),
            ("7.0", true),
            ("6.9.3", false),
            ("5.18.0-rc2", false),
            ("6", false),
            ("", false),
        ] {
            assert_eq!(is_at_least(release, (6, 15)), is, "{release}");
        }
    }
}
