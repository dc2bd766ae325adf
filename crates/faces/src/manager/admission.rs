//! Admission: whether a new peer gets a face, and which face is evicted for it when faces or
//! descriptors are short.
//!
//! ```text
//!  faces_max ┬ reserve: root and the router's own user
//!            ├ reserve: programs of this machine (unix sockets, shared memory);
//!            │ management's faces end here
//!            │ on-demand faces over unix sockets and shared memory, and all others
//!            └ on-demand faces over IP and Ethernet, all listeners together: at most half
//! ```
//!
//! When a pool is full, the peer with most on-demand faces loses one to a newcomer whose peer has
//! fewer. A peer is a user, an IPv4 address, an IPv6 network of 64 bits or a network card. Within
//! one peer the process or transport with most loses one. If none has more than the newcomer, only
//! an unused or long idle face is evicted. Every refusal and eviction is counted as a shortage,
//! which the host logs.

use super::Faces;
use super::face::{Face, Transport};
use crate::accounts::{Account, Candidates, FaceAccounts, PeerKey};
use crate::credentials;
use crate::slab::FaceSlab;
use crate::status::CloseReason;
use core::time::Duration;
use nw_element_api::{FaceId, Pool, SharedPool, Timestamp};
use nw_link::{FaceUri, Persistency};
use rustix::process::{Resource, getrlimit};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Faces examined to find a victim.
const EXAMINED_MAX: usize = 16;

/// Silence after which a face that received packets may be evicted for a peer with as many faces.
const IDLE_MIN: Duration = Duration::from_secs(60);

/// Age at which a connection that received nothing may be evicted.
const UNUSED_MIN: Duration = Duration::from_secs(1);

/// Faces of each reserve: at most these, and at most an eighth of all.
const RESERVE_MAX: usize = 64;

/// Descriptors of the reserve: at most these, and at most an eighth of all.
const DESCRIPTORS_MAX: usize = 64;

/// The limit on descriptors of this process.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// Descriptors that the process may have.
    limit: usize,
    /// A descriptor that is closed when a connection can't be accepted for want of one, so that the
    /// connection can be judged and refused.
    reserved: Option<OwnedFd>,
}

impl Descriptors {
    /// Reads the limit of this process.
    pub(super) fn new(epoll: &OwnedFd) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Descriptors { limit, reserved: epoll.try_clone().ok() }
    }

    /// Returns the descriptor number from which on descriptors count as short: the kernel assigns
    /// the lowest free number.
    const fn short_from(&self, is_privileged: bool) -> usize {
        let reserve =
            if self.limit / 8 < DESCRIPTORS_MAX { self.limit / 8 } else { DESCRIPTORS_MAX };
        self.limit - if is_privileged { reserve / 2 } else { reserve }
    }
}

/// Class of a peer, with its own pool of faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerClass {
    /// A program of this machine, over a unix socket or shared memory.
    Program,
    /// A peer over IP or Ethernet.
    Network,
}

impl PeerClass {
    const fn of(account: Account) -> Self {
        match account.peer {
            PeerKey::User(_) => PeerClass::Program,
            _ => PeerClass::Network,
        }
    }
}

/// Accounts of on-demand faces, one set for each bounded pool.
#[derive(Debug, Default)]
pub(super) struct AdmissionPools {
    /// All on-demand faces.
    faces: AccountsByClass,
    /// Faces that have a descriptor of their own.
    connections: AccountsByClass,
}

/// Accounts of one pool, by class of peer.
#[derive(Debug, Default)]
struct AccountsByClass {
    programs: FaceAccounts,
    network: FaceAccounts,
}

impl Faces {
    /// Returns the account of a connection's peer.
    pub(super) fn account_of(socket: &OwnedFd, uri: &FaceUri) -> Account {
        match uri {
            FaceUri::Fd(_) | FaceUri::Unix(_) | FaceUri::Shm(_) => {
                let credentials = credentials::of_peer(socket.as_fd());
                Account {
                    peer: PeerKey::User(credentials.map_or(u32::MAX, |peer| peer.uid)),
                    part: credentials.map_or(0, |peer| peer.pid),
                }
            }
            uri => Account::of_uri(uri),
        }
    }

    /// Returns whether one more on-demand face is permitted, evicting another if necessary.
    pub(super) fn admit(&mut self, now: Timestamp, account: Account, pool: &mut Pool) -> bool {
        let class = PeerClass::of(account);
        if class == PeerClass::Network
            && self.accounts.faces.network.len() >= self.network_faces_max()
        {
            self.drops.shortages.record(SharedPool::Faces);
            let victim = pick_victim(&mut self.accounts.faces.network, &self.slots, now, account);
            if !self.evict(victim, pool) {
                return false;
            }
        }
        let max = self.config.faces_max - if is_privileged(account) { 0 } else { self.reserve() };
        if self.slots.len() < max {
            return true;
        }
        self.drops.shortages.record(SharedPool::Faces);
        let half = self.config.faces_max / 2;
        let victim = self.accounts.faces.pick(&self.slots, now, account, half);
        self.evict(victim, pool)
    }

    /// Returns whether a listener with its own limit may have one more face, by the same rule.
    pub(super) fn admit_to_listener(
        &mut self,
        now: Timestamp,
        (listener, max): (u32, usize),
        account: Account,
        pool: &mut Pool,
    ) -> bool {
        let Some(Some(listener)) = self.listeners.get_mut(listener as usize) else { return false };
        if listener.accounts.len() < max {
            return true;
        }
        self.drops.shortages.record(SharedPool::Faces);
        let victim = pick_victim(&mut listener.accounts, &self.slots, now, account);
        self.evict(victim, pool)
    }

    /// Checks a connection's descriptor against the limit. Returns the descriptor if the connection
    /// may stay, with a lower number if another connection was evicted for it.
    pub(super) fn admit_descriptor(
        &mut self,
        now: Timestamp,
        socket: OwnedFd,
        account: Account,
        pool: &mut Pool,
    ) -> Option<OwnedFd> {
        let number = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
        let is_short = self.descriptors.reserved.is_none()
            || number >= self.descriptors.short_from(is_privileged(account));
        if !is_short {
            return Some(socket);
        }
        self.drops.shortages.record(SharedPool::Descriptors);
        let connections = &mut self.accounts.connections;
        let half = (connections.programs.len() + connections.network.len()) / 2;
        let victim = connections.pick(&self.slots, now, account, half);
        if !self.evict(victim, pool) && !self.drop_handshake_for(account) {
            return None;
        }
        // Moved to the number that became free, so that the reserve keeps its size.
        rustix::io::fcntl_dupfd_cloexec(&socket, 0).ok()
    }

    /// Returns how many accepted connections an account has.
    pub(super) fn connections_of(&mut self, account: Account) -> usize {
        self.accounts.connections.of(account).len_of(account)
    }

    /// Closes the spare descriptor so that a waiting connection can be accepted and judged. Returns
    /// false if there is none.
    pub(super) fn use_spare_descriptor(&mut self) -> bool {
        self.descriptors.reserved.take().is_some()
    }

    /// Opens the spare descriptor again, if possible.
    pub(super) fn restore_spare_descriptor(&mut self) {
        if self.descriptors.reserved.is_none() {
            self.descriptors.reserved = self.epoll.try_clone().ok();
        }
    }

    /// Charges an on-demand face to an account, in every pool that it is in.
    pub(super) fn register_on_demand(&mut self, id: FaceId, account: Account) {
        let Some(face) = self.slots.get_mut(id) else { return };
        face.account = Some(account);
        let has_descriptor = matches!(face.transport, Transport::Stream(_));
        let listener = face.listener;
        let slots = &self.slots;
        let is_there = |id| slots.get(id).is_some();
        self.accounts.faces.of(account).add(account, id, is_there);
        if has_descriptor {
            self.accounts.connections.of(account).add(account, id, is_there);
        }
        if let Some(Some(listener)) = listener.map(|at| &mut self.listeners[at as usize]) {
            listener.accounts.add(account, id, is_there);
        }
    }

    /// Removes a closed face from the accounts.
    pub(super) fn unregister_on_demand(&mut self, face: &Face) {
        let Some(account) = face.account else { return };
        self.accounts.faces.of(account).remove(account);
        if face.has_descriptor() {
            self.accounts.connections.of(account).remove(account);
        }
        if let Some(Some(listener)) = face.listener.map(|at| &mut self.listeners[at as usize]) {
            listener.accounts.remove(account);
        }
    }

    /// Returns how many faces management may create.
    pub(super) fn requested_faces_max(&self) -> usize {
        self.config.faces_max - 2 * self.reserve()
    }

    fn network_faces_max(&self) -> usize {
        self.config.peers_max.min(self.config.faces_max / 2)
    }

    fn reserve(&self) -> usize {
        (self.config.faces_max / 8).min(RESERVE_MAX)
    }

    fn evict(&mut self, victim: Option<FaceId>, pool: &mut Pool) -> bool {
        victim.is_some_and(|id| {
            self.close_face(id, CloseReason::Evicted, pool);
            true
        })
    }
}

impl AccountsByClass {
    fn of(&mut self, account: Account) -> &mut FaceAccounts {
        match PeerClass::of(account) {
            PeerClass::Program => &mut self.programs,
            PeerClass::Network => &mut self.network,
        }
    }

    /// Returns the face to evict for a newcomer. Programs of this machine always keep half of the
    /// pool, and lose faces to the network only above it.
    fn pick(
        &mut self,
        slots: &FaceSlab<Face>,
        now: Timestamp,
        newcomer: Account,
        reserved: usize,
    ) -> Option<FaceId> {
        match PeerClass::of(newcomer) {
            PeerClass::Program if self.programs.len() < reserved && self.network.len() > 0 => {
                self.network.largest().and_then(|queue| pick_from(queue, slots, None))
            }
            PeerClass::Network if self.programs.len() <= reserved => {
                pick_victim(&mut self.network, slots, now, newcomer)
            }
            PeerClass::Program | PeerClass::Network => {
                pick_victim(&mut self.programs, slots, now, newcomer)
            }
        }
    }
}

/// Returns whether a peer is root or the router's own user.
fn is_privileged(account: Account) -> bool {
    match account.peer {
        PeerKey::User(uid) => uid == 0 || uid == rustix::process::geteuid().as_raw(),
        _ => false,
    }
}

/// Returns the face to evict for a newcomer. `None` if none may be evicted.
fn pick_victim(
    accounts: &mut FaceAccounts,
    slots: &FaceSlab<Face>,
    now: Timestamp,
    newcomer: Account,
) -> Option<FaceId> {
    match accounts.candidates(newcomer)? {
        Candidates::Larger(queue) => pick_from(queue, slots, None),
        Candidates::Equal(queue) => pick_from(queue, slots, Some(now)),
    }
}

/// Returns the least used of the first faces in a queue: those that received nothing, then by the
/// time of the last packet. With `evictable_at`, only a face that is unused or long idle.
fn pick_from(
    queue: &mut VecDeque<FaceId>,
    slots: &FaceSlab<Face>,
    evictable_at: Option<Timestamp>,
) -> Option<FaceId> {
    let mut victim: Option<((bool, Timestamp), FaceId)> = None;
    let mut examined = 0;
    // Each face once: those examined move to the end.
    for _ in 0..queue.len() {
        let Some(id) = queue.pop_front() else { break };
        let Some(face) = slots.get(id).filter(|face| face.persistency == Persistency::OnDemand)
        else {
            continue;
        };
        queue.push_back(id);
        let rank = (face.has_received(), face.last_received);
        if evictable_at.is_none_or(|now| face.is_evictable(now))
            && victim.is_none_or(|(best, _)| rank < best)
        {
            victim = Some((rank, id));
        }
        examined += 1;
        if examined == EXAMINED_MAX {
            break;
        }
    }
    victim.map(|(_, id)| id)
}

impl Face {
    /// Returns whether it received more than the packet that created it.
    fn has_received(&self) -> bool {
        self.counters.in_packets > u64::from(!self.has_descriptor())
    }

    /// Returns whether it is unused or long idle, so that its loss is small. Programs of this
    /// machine may be idle for as long as they like.
    fn is_evictable(&self, now: Timestamp) -> bool {
        let idle = now.since(self.last_received);
        let is_program =
            self.account.is_some_and(|account| PeerClass::of(account) == PeerClass::Program);
        match self.has_received() {
            false => !self.has_descriptor() || idle >= UNUSED_MIN,
            true => !is_program && idle >= IDLE_MIN,
        }
    }

    /// Returns whether it has a socket of its own.
    fn has_descriptor(&self) -> bool {
        matches!(self.transport, Transport::Stream(_))
    }
}
