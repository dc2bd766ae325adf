//! Whether a peer that connects or speaks first gets a face, and which face gives way to it when faces or descriptors are short.
//!
//! ```text
//!  faces_max ┬ reserve: root and the router's own user
//!            ├ reserve: programs of this machine (Unix sockets, shared memory); commanded faces end here
//!            │ on-demand faces over Unix sockets and shared memory, and all others
//!            └ on-demand faces over IP and Ethernet, all listeners together: at most half
//! ```
//!
//! When a pool is full, a face of the peer with most on-demand faces gives way to a newcomer whose peer has fewer: a user, an IP address, an
//! IPv6 network of 64 bits, a network card; then, of one peer, a face of the
//! process or transport with most. Where nothing has more, only a face that is hardly
//! used gives way. Everything that is refused or gives way is counted as a shortage, which the host logs.

use super::Faces;
use super::face::{Face, Transport};
use crate::credentials;
use crate::shares::{Candidates, Owner, PeerKey, PeerShares};
use crate::slab::FaceSlab;
use crate::status::{CloseReason, Persistency};
use crate::uri::FaceUri;
use core::time::Duration;
use nw_element_api::{FaceId, Instant, Pool, SharedPool};
use rustix::process::{Resource, getrlimit};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Faces looked at to find the one that gives way.
const LOOKS_MAX: usize = 16;

/// A peer that spoke more than once is hardly used after so long a silence.
const SILENCE: Duration = Duration::from_secs(60);

/// A connection by which nothing came is hardly used after so long.
const NEVER_USED: Duration = Duration::from_secs(1);

/// Faces of a reserve, at most; in small pools an eighth of all.
const RESERVE_MAX: usize = 64;

/// Descriptors of the reserve, at most; with few descriptors an eighth of all.
const DESCRIPTORS_MAX: usize = 64;

/// What bounds the descriptors of this process.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// As many as the process may have.
    limit: usize,
    /// Let go of when a connection can't be accepted for want of descriptors, so that it can be judged.
    spare: Option<OwnedFd>,
}

impl Descriptors {
    /// By the limit of this process as it is now.
    pub(super) fn new(epoll: &OwnedFd) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Descriptors { limit, spare: epoll.try_clone().ok() }
    }

    /// Returns the first number that a new descriptor has when descriptors are short: the system gives the lowest that is free.
    const fn short_from(&self, is_privileged: bool) -> usize {
        let reserve = if self.limit / 8 < DESCRIPTORS_MAX { self.limit / 8 } else { DESCRIPTORS_MAX };
        self.limit - if is_privileged { reserve / 2 } else { reserve }
    }
}

/// Which bounded pool a face is to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A program of this machine, over a Unix socket or shared memory.
    Program,
    /// A peer over IP or Ethernet.
    Network,
}

impl Origin {
    const fn of(owner: Owner) -> Self {
        match owner.peer {
            PeerKey::User(_) => Origin::Program,
            _ => Origin::Network,
        }
    }
}

/// On-demand faces by peer, once for each pool that can be short.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// All of them.
    faces: SharesByOrigin,
    /// Those that have a descriptor of their own.
    connections: SharesByOrigin,
}

#[derive(Debug, Default)]
struct SharesByOrigin {
    programs: PeerShares,
    network: PeerShares,
}

impl Faces {
    /// Returns who connected.
    pub(super) fn owner_of(socket: &OwnedFd, uri: &FaceUri) -> Owner {
        match uri {
            FaceUri::Fd(_) | FaceUri::Unix(_) | FaceUri::Shm(_) => {
                let found = credentials::of_peer(socket.as_fd());
                Owner {
                    peer: PeerKey::User(found.map_or(u32::MAX, |found| found.uid)),
                    part: found.map_or(0, |found| found.pid),
                }
            }
            uri => Owner::of_uri(uri),
        }
    }

    /// Returns whether there may be one more on-demand face, after another gave way if there were too many.
    pub(super) fn admit(&mut self, now: Instant, owner: Owner, pool: &mut Pool) -> bool {
        let origin = Origin::of(owner);
        if origin == Origin::Network && self.shares.faces.network.len() >= self.network_faces_max() {
            self.drops.shortages.record(SharedPool::Faces);
            let victim = pick(&mut self.shares.faces.network, &self.slots, now, owner);
            if !self.give_way(victim, pool) {
                return false;
            }
        }
        let max = self.config.faces_max - if is_privileged(owner) { 0 } else { self.reserve() };
        if self.slots.len() < max {
            return true;
        }
        self.drops.shortages.record(SharedPool::Faces);
        let half = self.config.faces_max / 2;
        let victim = self.shares.faces.pick(&self.slots, now, owner, half);
        self.give_way(victim, pool)
    }

    /// Returns whether a listener with a bound of its own may have one more face, under the same rule.
    pub(super) fn admit_to_listener(
        &mut self,
        now: Instant,
        (listener, max): (u32, usize),
        owner: Owner,
        pool: &mut Pool,
    ) -> bool {
        let Some(Some(listener)) = self.listeners.get_mut(listener as usize) else { return false };
        if listener.shares.len() < max {
            return true;
        }
        self.drops.shortages.record(SharedPool::Faces);
        let victim = pick(&mut listener.shares, &self.slots, now, owner);
        self.give_way(victim, pool)
    }

    /// Takes a connection's descriptor into account: gives it back if it may stay, with a lower number if another connection gave way.
    pub(super) fn admit_descriptor(
        &mut self,
        now: Instant,
        socket: OwnedFd,
        owner: Owner,
        pool: &mut Pool,
    ) -> Option<OwnedFd> {
        let number = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
        let is_short =
            self.descriptors.spare.is_none() || number >= self.descriptors.short_from(is_privileged(owner));
        if !is_short {
            return Some(socket);
        }
        self.drops.shortages.record(SharedPool::Descriptors);
        let connections = &mut self.shares.connections;
        let half = (connections.programs.len() + connections.network.len()) / 2;
        let victim = connections.pick(&self.slots, now, owner, half);
        if !self.give_way(victim, pool) && !self.drop_handshake_for(owner) {
            return None;
        }
        // Into the place that became free, so that the reserve stays what it is.
        rustix::io::fcntl_dupfd_cloexec(&socket, 0).ok()
    }

    /// Returns how many accepted connections an owner has.
    pub(super) fn connections_of(&mut self, owner: Owner) -> usize {
        self.shares.connections.of(owner).len_of(owner)
    }

    /// Returns whether a connection that can't be accepted for want of descriptors can be after all, to be judged: the spare descriptor is
    /// let go of.
    pub(super) fn use_spare_descriptor(&mut self) -> bool {
        self.descriptors.spare.take().is_some()
    }

    /// Has a spare descriptor again, if there is one.
    pub(super) fn restore_spare_descriptor(&mut self) {
        if self.descriptors.spare.is_none() {
            self.descriptors.spare = self.epoll.try_clone().ok();
        }
    }

    /// Notes an on-demand face.
    pub(super) fn note_owner(&mut self, id: FaceId, owner: Owner) {
        let Some(face) = self.slots.get_mut(id) else { return };
        face.owner = Some(owner);
        let has_descriptor = matches!(face.transport, Transport::Stream(_));
        let listener = face.listener;
        let slots = &self.slots;
        let is_there = |id| slots.get(id).is_some();
        self.shares.faces.of(owner).add(owner, id, is_there);
        if has_descriptor {
            self.shares.connections.of(owner).add(owner, id, is_there);
        }
        if let Some(Some(listener)) = listener.map(|at| &mut self.listeners[at as usize]) {
            listener.shares.add(owner, id, is_there);
        }
    }

    /// Takes note that an on-demand face has ended.
    pub(super) fn forget_owner(&mut self, face: &Face) {
        let Some(owner) = face.owner else { return };
        self.shares.faces.of(owner).remove(owner);
        if face.has_descriptor() {
            self.shares.connections.of(owner).remove(owner);
        }
        if let Some(Some(listener)) = face.listener.map(|at| &mut self.listeners[at as usize]) {
            listener.shares.remove(owner);
        }
    }

    /// Returns how many faces others than on-demand ones may fill.
    pub(super) fn commanded_faces_max(&self) -> usize {
        self.config.faces_max - 2 * self.reserve()
    }

    fn network_faces_max(&self) -> usize {
        self.config.peers_max.min(self.config.faces_max / 2)
    }

    fn reserve(&self) -> usize {
        (self.config.faces_max / 8).min(RESERVE_MAX)
    }

    fn give_way(&mut self, victim: Option<FaceId>, pool: &mut Pool) -> bool {
        victim.is_some_and(|id| {
            self.end_face(id, CloseReason::GaveWay, pool);
            true
        })
    }
}

impl SharesByOrigin {
    fn of(&mut self, owner: Owner) -> &mut PeerShares {
        match Origin::of(owner) {
            Origin::Program => &mut self.programs,
            Origin::Network => &mut self.network,
        }
    }

    /// Returns the face that gives way to a newcomer, if one does. Programs of this machine have half in any case, and give way to the
    /// network only where they have more.
    fn pick(&mut self, slots: &FaceSlab<Face>, now: Instant, newcomer: Owner, half: usize) -> Option<FaceId> {
        match Origin::of(newcomer) {
            Origin::Program if self.programs.len() < half && self.network.len() > 0 => {
                self.network.largest().and_then(|queue| pick_from(queue, slots, None))
            }
            Origin::Network if self.programs.len() <= half => pick(&mut self.network, slots, now, newcomer),
            Origin::Program | Origin::Network => pick(&mut self.programs, slots, now, newcomer),
        }
    }
}

/// Returns whether a peer is root or the router's own user.
fn is_privileged(owner: Owner) -> bool {
    match owner.peer {
        PeerKey::User(uid) => uid == 0 || uid == rustix::process::geteuid().as_raw(),
        _ => false,
    }
}

/// Returns the face that gives way to a newcomer, if one does.
fn pick(shares: &mut PeerShares, slots: &FaceSlab<Face>, now: Instant, newcomer: Owner) -> Option<FaceId> {
    match shares.candidates(newcomer)? {
        Candidates::Larger(queue) => pick_from(queue, slots, None),
        Candidates::Equal(queue) => pick_from(queue, slots, Some(now)),
    }
}

/// Returns the least used of the first faces of a queue, those by which nothing came before all others. With a time only one that is
/// hardly used.
fn pick_from(
    queue: &mut VecDeque<FaceId>,
    slots: &FaceSlab<Face>,
    hardly_used_at: Option<Instant>,
) -> Option<FaceId> {
    let mut found: Option<((bool, Instant), FaceId)> = None;
    let mut seen = 0;
    // As many as there are: those looked at go to the end.
    for _ in 0..queue.len() {
        let Some(id) = queue.pop_front() else { break };
        let Some(face) = slots.get(id).filter(|face| face.persistency == Persistency::OnDemand) else {
            continue;
        };
        queue.push_back(id);
        let rank = (face.has_spoken(), face.heard);
        if hardly_used_at.is_none_or(|now| face.is_hardly_used(now))
            && found.is_none_or(|(best, _)| rank < best)
        {
            found = Some((rank, id));
        }
        seen += 1;
        if seen == LOOKS_MAX {
            break;
        }
    }
    found.map(|(_, id)| id)
}

impl Face {
    /// Returns whether more came by it than what made it.
    fn has_spoken(&self) -> bool {
        self.counters.in_packets > u64::from(!self.has_descriptor())
    }

    /// Returns whether its end is no great loss: its peer said nothing beyond what made it, or not for long. Programs of this machine may
    /// be silent for as long as they like.
    fn is_hardly_used(&self, now: Instant) -> bool {
        let silent = now.since(self.heard);
        let is_program = self.owner.is_some_and(|owner| Origin::of(owner) == Origin::Program);
        match self.has_spoken() {
            false => !self.has_descriptor() || silent >= NEVER_USED,
            true => !is_program && silent >= SILENCE,
        }
    }

    /// Returns whether it has a socket of its own.
    fn has_descriptor(&self) -> bool {
        matches!(self.transport, Transport::Stream(_))
    }
}
