//! Sharing the sockets of one interface among shards: the shard that opened it keeps the
//! [`UmemOwner`], the others get their sockets as [`ShardSockets`].

use super::rings::{self, Sizes, Xsk};
use super::{Port, SENT_MIN, SteeredInterface, SteeringError, XdpError};
use crate::interfaces::Interface;
use core::sync::atomic::{AtomicU64, Ordering};
use nw_link::Mac;
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// First Linux version in which generic mode can deliver to the sockets of one queue on several
/// processors at once: before, each socket locked the shared ring by a lock of its own.
const GENERIC_SHARES: (u32, u32) = (6, 15);

/// Counters of one shard on a port. The shard writes; all shards may read.
#[derive(Debug, Default)]
pub struct Counts {
    received: AtomicU64,
    sent: AtomicU64,
    others: AtomicU64,
}

impl Counts {
    /// Returns the frames received.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the frames sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the frames not for this router, or with a wrong checksum.
    pub fn others(&self) -> u64 {
        self.others.load(Ordering::Relaxed)
    }

    /// Counts received frames.
    pub fn add_received(&self, frames: u64) {
        add(&self.received, frames);
    }

    pub(super) fn add_sent(&self, frames: u64) {
        add(&self.sent, frames);
    }

    /// Counts received frames without a face.
    pub fn add_others(&self, frames: u64) {
        add(&self.others, frames);
    }
}

/// Only one thread writes, so no count is lost between load and store.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

/// A change of an interface's sockets, for other shards.
#[derive(Clone, Debug)]
pub enum SocketUpdate {
    /// Sockets for them were opened.
    Opened(Arc<ShardSockets>),
    /// The port with this index was closed: it uses ordinary sockets from now on.
    Closed(usize),
    /// Merging of datagrams (GRO) on sockets is turned on or off.
    MergeRuns(bool),
}

/// Sockets of an interface for the other shards; each takes its own.
#[derive(Debug)]
pub struct ShardSockets {
    at: usize,
    interface: Interface,
    mac: Mac,
    shards: u16,
    native: bool,
    /// Number of queues that shards send by.
    senders: u32,
    /// Parts by shard, without the first.
    parts: Mutex<Vec<SocketPart>>,
}

/// The part of one shard.
#[derive(Debug, Default)]
pub struct SocketPart {
    counts: Arc<Counts>,
    /// Sockets of the next queues.
    sockets: Vec<Xsk>,
}

impl ShardSockets {
    /// Takes the new sockets of the port with this index. `None` if there are none.
    pub(crate) fn of(at: usize, port: &mut Port) -> Option<Self> {
        let umem_owner = port.umem_owner.as_mut()?;
        let (parts, senders) = (umem_owner.new_sockets()?, umem_owner.senders);
        let (interface, mac, shards, native) =
            (port.interface.clone(), port.mac, port.id_step, port.native);
        Some(ShardSockets { at, interface, mac, shards, native, senders, parts: Mutex::new(parts) })
    }

    /// Returns the index of the port.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Moves a shard's part into its port, or into a new one.
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
            umem_owner: None,
        });
        port.queues.extend(part.sockets);
        port.send_by((u32::from(shard) % self.senders.max(1)) as usize);
        Some(port)
    }
}

/// Another shard's part of a port, as the first one knows it.
#[derive(Debug, Default)]
struct ShardPart {
    counts: Arc<Counts>,
    /// Its receiving sockets, for their loss counters.
    receivers: Vec<Arc<OwnedFd>>,
    /// Sockets that it has not got yet.
    new: Vec<Xsk>,
}

/// State of the shard that opened an interface.
#[derive(Debug)]
pub struct UmemOwner {
    /// UDP ports that the program matches.
    pub ports: Vec<u16>,
    /// Group and VLAN of NDN over Ethernet.
    pub group: Option<(Mac, u16)>,
    destinations: Vec<IpAddr>,
    sizes: Sizes,
    /// Number of shards that get frames.
    shards: u8,
    /// Number of queues that shards send by: as many as the card sends by, if there are shards for
    /// all.
    senders: u32,
    /// Shards with their own sockets, without the first.
    other_shards: Vec<ShardPart>,
    /// Dropped last: no frame may be sent to a closed socket, and a missing one does no harm.
    steered: Box<dyn SteeredInterface>,
}

impl UmemOwner {
    /// Returns the state of an interface without queues.
    pub fn new(
        (ports, group): (&[u16], Option<(Mac, u16)>),
        (sizes, shards): (Sizes, u8),
        steered: Box<dyn SteeredInterface>,
    ) -> Self {
        let ports = ports.to_vec();
        let shared = steered.is_native() || generic_mode_shares();
        let sizes = if shared { sizes } else { Sizes { threads: 1, ..sizes } };
        let other_shards = (1..sizes.threads).map(|_| ShardPart::default()).collect();
        UmemOwner {
            ports,
            group,
            destinations: Vec::new(),
            sizes,
            shards,
            senders: 0,
            other_shards,
            steered,
        }
    }

    /// Opens the sockets of the next queue, of a card with `sending` send queues. Returns the first
    /// shard's.
    pub fn open_queue(
        &mut self,
        interface: u32,
        queue: u32,
        sending: u32,
    ) -> Result<Xsk, XdpError> {
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
            // Without sockets of their own, shards' frames go to the first one's.
            let socket = opened.get(usize::from(shard)).or(opened.first());
            if let Some(socket) = socket {
                self.steered
                    .set_socket(queue, shard, socket.as_fd())
                    .map_err(XdpError::Steering)?;
            }
        }
        let mut opened = opened.into_iter();
        let first = opened.next().ok_or(XdpError::System(Errno::INVAL))?;
        for (shard_part, xsk) in self.other_shards.iter_mut().zip(opened) {
            shard_part.receivers.push(xsk.receiver());
            shard_part.new.push(xsk);
        }
        self.senders += u32::from(sends);
        Ok(first)
    }

    /// Sets the accepted addresses, see [`Port::set_destinations`].
    pub fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), SteeringError> {
        if self.destinations != addresses {
            self.steered.set_destinations(addresses)?;
            self.destinations = addresses.to_vec();
        }
        Ok(())
    }

    /// Takes the sockets that the other shards have not got yet. `None` if there are none.
    pub fn new_sockets(&mut self) -> Option<Vec<SocketPart>> {
        if self.other_shards.iter().all(|shard| shard.new.is_empty()) {
            return None;
        }
        let part = |shard: &mut ShardPart| SocketPart {
            counts: Arc::clone(&shard.counts),
            sockets: core::mem::take(&mut shard.new),
        };
        Some(self.other_shards.iter_mut().map(part).collect())
    }

    /// Returns the counters of another shard.
    pub fn counts_of(&self, shard: usize) -> Option<&Counts> {
        self.other_shards.get(shard.checked_sub(1)?).map(|shard| &*shard.counts)
    }

    /// Returns the counters of the other shards.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.other_shards.iter().map(|shard| &*shard.counts)
    }

    /// Returns the frames lost before other shards received them.
    pub fn lost(&self) -> u64 {
        self.other_shards.iter().flat_map(|shard| &shard.receivers).map(rings::lost).sum()
    }
}

fn generic_mode_shares() -> bool {
    let release = rustix::system::uname();
    is_at_least(&release.release().to_string_lossy(), GENERIC_SHARES)
}

/// Returns whether a release like `6.18.2-generic` is a version or later; false if it can't be
/// parsed.
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
    fn release_is_compared_as_numbers() {
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
