//! Faces of one router on several shards.
//!
//! ```text
//!  shard 0            shard 1              shard 2
//!  face 300  ◀─ owns  replica 300          replica 300        same id, same peer
//!  socket :6363       SO_REUSEPORT :6363   SO_REUSEPORT :6363
//!     ▲ accept_unknown ──── unknown peers' packets
//! ```
//!
//! The first shard owns every face. The UDP sockets of its listeners have siblings on the same port
//! (SO_REUSEPORT), one on each other shard, and each of those shards has a *replica* of every
//! peer's face: same id, but its own link service and counters. A peer without a replica (a new
//! one, or one whose link is reliable) is served by the first shard: its packets are passed there
//! as they arrived.
//!
//! An interface with AF_XDP has sockets for each shard too, and its frames reach the same replicas.
//! Ethernet peers also have replicas, groups among them: each shard sends to them by a socket of
//! its own, which receives nothing.

use super::Faces;
use super::face::{Face, Transport};
use super::xdp::XdpRoute;
use crate::datagram::ether::EthernetInterface;
use crate::datagram::{DatagramSocket, Medium, Pacer, Peer};
use crate::error::FaceError;
use crate::xdp::SocketUpdate;
use nw_element_api::{DropCause, FaceId, LinkType, Packet, Pool, Scope, Timestamp};
use nw_link::{
    DropRecorder, FaceCounters, FaceFlags, FaceUri, LinkService, LinkSettings, Persistency,
    ReceiveWindow, Source,
};
use nw_wire::LpPacket;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// SO_REUSEPORT siblings of the first shard's UDP sockets, for one other shard, with their indices.
#[derive(Debug, Default)]
pub struct ReuseportSockets(Vec<(usize, DatagramSocket)>);

/// Description of a face, from which another shard makes its replica.
#[derive(Clone, Debug)]
pub struct FaceReplica {
    id: FaceId,
    /// Index of the datagram socket, the same on all shards.
    socket: usize,
    /// The interface of an Ethernet socket, so that the shard can open its own.
    interface: Option<EthernetInterface>,
    peer: Peer,
    /// Remote and local URI.
    uris: (FaceUri, FaceUri),
    scope: Scope,
    link_type: LinkType,
    persistency: Persistency,
    settings: LinkSettings,
    /// The peer's advertised receive buffer, KiB.
    peer_window_kib: u64,
}

impl FaceReplica {
    /// Returns the id of the face.
    pub const fn id(&self) -> FaceId {
        self.id
    }
}

/// A packet from a peer without a replica on the shard that received it.
#[derive(Debug)]
pub struct UnknownPeerPacket {
    /// How it arrived, for [`Faces::accept_unknown`].
    pub origin: Origin,
    /// The link packet, or the whole frame, as it arrived.
    pub packet: Packet,
}

/// How an [`UnknownPeerPacket`] arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A link packet on the socket with this index, from this address.
    Socket(u32, SocketAddr),
    /// A frame by AF_XDP, on the interface with this index.
    Interface(u32),
}

/// State of a shard other than the first.
#[derive(Debug, Default)]
pub(super) struct SecondaryState {
    /// Index of the shard; offsets link sequence numbers, so that shards never use the same.
    shard: u8,
    /// Packets for the first shard.
    pub(super) unknown_packets: Vec<UnknownPeerPacket>,
    /// Replicas whose counters changed since they were last taken.
    pub(super) active: Vec<FaceId>,
}

impl Faces {
    /// Opens sockets on the ports of this shard's UDP listeners, for another shard.
    /// `config.share_ports` must be set on both.
    ///
    /// # Errors
    /// If a socket can't be opened.
    pub fn reuseport_siblings(&self) -> Result<ReuseportSockets, FaceError> {
        let listening = self.listening_udp();
        let sibling = |(index, address): (usize, SocketAddr)| {
            Ok((index, DatagramSocket::reuseport_sibling(address, &self.config)?))
        };
        listening.map(sibling).collect::<Result<_, _>>().map(ReuseportSockets)
    }

    /// Returns, for each UDP listener, its address and the sockets of all shards, this one's first:
    /// the sockets among which the kernel program chooses.
    pub fn reuseport_groups<'a>(
        &'a self,
        siblings: &'a [ReuseportSockets],
    ) -> Vec<(SocketAddr, Vec<BorrowedFd<'a>>)> {
        let group = |(index, address): (usize, SocketAddr)| {
            let own = self.sockets[index].as_ref().map(|socket| socket.socket.as_fd());
            let sibling_sockets = siblings.iter().filter_map(move |siblings| {
                let sibling = siblings.0.iter().find(|(at, _)| *at == index);
                sibling.map(|(_, socket)| socket.socket.as_fd())
            });
            (address, own.into_iter().chain(sibling_sockets).collect())
        };
        self.listening_udp().map(group).collect()
    }

    fn listening_udp(&self) -> impl Iterator<Item = (usize, SocketAddr)> {
        let sockets =
            self.sockets.iter().enumerate().filter_map(|(at, socket)| Some((at, socket.as_ref()?)));
        sockets.filter_map(|(index, socket)| match &socket.medium {
            Medium::Udp(address) if socket.listening => Some((index, *address)),
            _ => None,
        })
    }

    /// Makes this the face manager of a shard other than the first, with these sockets.
    ///
    /// # Errors
    /// If a socket can't be registered with epoll.
    pub fn adopt_sockets(
        &mut self,
        shard: u8,
        siblings: ReuseportSockets,
    ) -> Result<(), FaceError> {
        self.secondary = Some(SecondaryState { shard, ..SecondaryState::default() });
        for (index, socket) in siblings.0 {
            self.sockets.resize_with(self.sockets.len().max(index + 1), || None);
            self.add_socket_at(index, socket)?;
        }
        Ok(())
    }

    /// Returns the description from which other shards make their replica. `None` if only this
    /// shard serves the face.
    pub fn replica(&self, id: FaceId) -> Option<FaceReplica> {
        let face = self.slots.get(id)?;
        let Transport::Datagram { socket, peer, .. } = &face.transport else { return None };
        let own = self.sockets[*socket].as_ref()?;
        let settings = face.link.settings().clone();
        let (has_replicas, interface) = match &own.medium {
            Medium::Udp(_) => (own.listening && !peer.is_group(), None),
            Medium::Group { .. } => (false, None),
            Medium::Ether(ethernet) => (true, Some(ethernet)),
        };
        // A reliable link numbers and acknowledges packets in one place, so it has no replicas.
        let shared = has_replicas && !settings.flags.contains(FaceFlags::RELIABILITY);
        shared.then(|| FaceReplica {
            id,
            socket: *socket,
            interface: interface.cloned(),
            peer: *peer,
            uris: (face.uri.clone(), face.local_uri.clone()),
            scope: face.scope,
            link_type: face.link_type,
            persistency: face.persistency,
            settings,
            peer_window_kib: face.link.receive_window().peer_kib(),
        })
    }

    /// Takes the faces whose peer advertised another receive buffer since the last call, with its
    /// KiB. Pass them to the first shard by [`set_peer_window`](Self::set_peer_window), and to the
    /// others by a new replica.
    pub fn window_updates(&mut self) -> impl Iterator<Item = (FaceId, u64)> + use<> {
        core::mem::take(&mut self.window_updates).into_iter()
    }

    /// Sets the receive buffer that a face's peer advertised to another shard, KiB.
    pub fn set_peer_window(&mut self, id: FaceId, kib: u64) {
        if let Some(face) = self.slots.get_mut(id) {
            face.link.receive_window_mut().on_advertised(kib);
            if face.link.receive_window_mut().take_peer_changed() {
                self.window_updates.push((id, kib));
            }
        }
    }

    /// Creates a replica here, or updates the existing one.
    pub fn add_replica(&mut self, now: Timestamp, replica: FaceReplica) {
        if let Some(port) = &replica.interface {
            self.open_ether_sibling(replica.socket, port);
        }
        if let Some(face) = self.slots.get_mut(replica.id) {
            (face.uri, face.local_uri) = replica.uris;
            face.persistency = replica.persistency;
            set_peer_window(face.link.receive_window_mut(), replica.peer_window_kib);
            return face.link.apply_settings(replica.settings);
        }
        let Some(Some(socket)) = self.sockets.get_mut(replica.socket) else { return };
        let shard = self.secondary.as_ref().map_or(0, |secondary| secondary.shard);
        let mut link = LinkService::new(replica.settings, now.as_nanos() | u64::from(shard) << 56);
        if let Some(bytes) = socket.advertised_buffer(replica.peer) {
            link.receive_window_mut().advertise(bytes);
        }
        set_peer_window(link.receive_window_mut(), replica.peer_window_kib);
        socket.peers.insert(replica.peer, replica.id);
        let transport = Transport::Datagram {
            socket: replica.socket,
            peer: replica.peer,
            run_datagram_max: usize::MAX,
            pacer: Pacer::default(),
            route: XdpRoute::default(),
        };
        let mut face =
            Face::new(now, replica.uris, replica.scope, replica.persistency, transport, link);
        face.link_type = replica.link_type;
        self.slots.insert_at(replica.id, face);
    }

    /// Opens this shard's own socket on the interface of an Ethernet socket. If that fails, there
    /// are no replicas and frames leave by the first shard.
    fn open_ether_sibling(&mut self, index: usize, ethernet: &EthernetInterface) {
        self.sockets.resize_with(self.sockets.len().max(index + 1), || None);
        match &self.sockets[index] {
            Some(sibling) if sibling.medium == Medium::Ether(ethernet.clone()) => return,
            // The interface changed or was recreated: the replicas move to the new socket.
            Some(_) | None => {}
        }
        let mut old = self.take_socket(index);
        let opened = DatagramSocket::ether_sibling(ethernet.clone(), &self.config);
        let opened = opened.map(|mut sibling| {
            old.iter_mut().for_each(|old| sibling.replace(old));
            sibling
        });
        if let Err(error) = opened.and_then(|sibling| self.add_socket_at(index, sibling)) {
            tracing::warn!("frames to {} leave by one shard for all: {error}", ethernet.name);
        }
    }

    /// Closes a replica. Its counters are still returned by [`take_counts`](Self::take_counts).
    pub fn remove_replica(&mut self, id: FaceId, pool: &mut Pool) {
        self.close_face(id, crate::CloseReason::Requested, pool);
        self.events.clear();
    }

    /// Returns whether this shard can send to a face.
    #[inline]
    pub fn has_replica(&self, id: FaceId) -> bool {
        self.secondary.is_none() || self.slots.get(id).is_some()
    }

    /// Takes the packets for the first shard that arrived since the last call, in order.
    pub fn take_unknown_packets(&mut self) -> impl Iterator<Item = UnknownPeerPacket> + use<> {
        self.secondary
            .as_mut()
            .map(|secondary| core::mem::take(&mut secondary.unknown_packets))
            .into_iter()
            .flatten()
    }

    /// Processes a packet that another shard received from a peer without a replica, as if it had
    /// arrived here. The peer of a listener gets a face.
    pub fn accept_unknown(
        &mut self,
        now: Timestamp,
        origin: Origin,
        packet: Packet,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        self.current_time = now;
        let (socket, peer) = match origin {
            Origin::Socket(socket, peer) => (socket, peer),
            Origin::Interface(interface) => {
                return self.take_frame(now, interface, packet, pool, batch);
            }
        };
        let is_packet = LpPacket::check(pool.bytes(&packet)).map(drop);
        let id = match self.peer_face(now, socket as usize, Peer::Ip(peer), is_packet, pool) {
            Ok(id) => id,
            Err(reason) => {
                if self.sockets.get(socket as usize).is_some_and(Option::is_some) {
                    self.count_unattributed(socket as usize, reason, 1);
                }
                return pool.release(packet);
            }
        };
        self.receive_packet(now, id, Some(packet), (false, 0), pool, batch);
    }

    /// Receives a link packet on a face; `None` if the pool had no buffer for it. `congested`: the
    /// receive buffer is filling; `sender`: see [`Source`].
    pub(super) fn receive_packet(
        &mut self,
        now: Timestamp,
        id: FaceId,
        packet: Option<Packet>,
        (congested, sender): (bool, u64),
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let Some(face) = self.slots.get_mut(id) else {
            return packet.into_iter().for_each(|packet| pool.release(packet));
        };
        face.last_received = now;
        let source = Source { face: id, local: face.scope == Scope::Local, congested, sender };
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        match packet {
            Some(packet) => {
                batch.extend(face.link.receive(
                    now,
                    packet,
                    source,
                    pool,
                    &mut self.budget,
                    &mut drops,
                ));
            }
            None => drops.record(DropCause::NoBuffer, 1),
        }
        self.note_window_change(id);
        self.arm_link(id, Timestamp::START);
    }

    /// Takes the changes of AF_XDP interfaces since the last call, for other shards.
    pub fn socket_updates(&mut self) -> impl Iterator<Item = SocketUpdate> + use<> {
        core::mem::take(&mut self.xdp.updates).into_iter()
    }

    /// Applies a change of AF_XDP interfaces reported by the first shard.
    pub fn apply_socket_update(&mut self, updates: &SocketUpdate) {
        let Some(shard) = self.secondary.as_ref().map(|secondary| secondary.shard) else { return };
        match updates {
            SocketUpdate::Opened(branches) => self.take_shard_sockets(shard, branches),
            SocketUpdate::Closed(at) => self.close_port(*at),
            SocketUpdate::MergeRuns(on) => self.merge_runs(*on),
        }
    }

    /// Takes the counters of replicas that changed since the last call: at most `max` of them, the
    /// others next time.
    pub fn take_counts(&mut self, max: usize) -> Vec<(FaceId, FaceCounters)> {
        let Some(secondary) = &mut self.secondary else { return Vec::new() };
        let mut counts = core::mem::take(&mut self.closed_replica_counts);
        let first = secondary.active.len().saturating_sub(max);
        for id in secondary.active.drain(first..) {
            if let Some(face) = self.slots.get_mut(id) {
                face.active = false;
                counts.push((id, core::mem::take(&mut face.counters)));
            }
        }
        counts
    }

    /// Adds the counters of another shard's replica to a face.
    pub fn add_counts(&mut self, now: Timestamp, id: FaceId, counters: &FaceCounters) {
        match self.slots.get_mut(id) {
            Some(face) => {
                if counters.in_packets > 0 {
                    face.last_received = now;
                }
                face.counters.merge(counters);
            }
            None => self.closed_totals.merge(counters),
        }
    }

    /// Closes an on-demand face whose port another shard found unreachable.
    pub fn on_peer_unreachable(&mut self, id: FaceId, pool: &mut Pool) {
        if self.slots.get(id).is_some_and(|face| face.persistency == Persistency::OnDemand) {
            self.close_face(id, crate::CloseReason::Socket(Errno::CONNREFUSED), pool);
        }
    }

    /// Records that a face's peer advertised another receive buffer.
    #[inline]
    pub(super) fn note_window_change(&mut self, id: FaceId) {
        if let Some(face) = self.slots.get_mut(id)
            && face.link.receive_window_mut().take_peer_changed()
            && self.config.share_ports
        {
            self.window_updates.push((id, face.link.receive_window().peer_kib()));
        }
    }

    /// Keeps a packet of a peer without a replica for the first shard.
    pub(super) fn keep_unknown(&mut self, origin: Origin, packet: Option<Packet>) {
        match (&mut self.secondary, packet, origin) {
            (Some(secondary), Some(packet), _) => {
                secondary.unknown_packets.push(UnknownPeerPacket { origin, packet })
            }
            (_, _, Origin::Socket(socket, _)) => {
                self.count_unattributed(socket as usize, DropCause::NoBuffer.into(), 1)
            }
            (_, _, Origin::Interface(_)) => self.drops.count(DropCause::NoBuffer),
        }
    }

    /// Records that a replica's counters changed.
    #[inline]
    pub(super) fn mark_active(&mut self, id: FaceId) {
        if let Some(secondary) = &mut self.secondary
            && let Some(face) = self.slots.get_mut(id)
            && !face.active
        {
            face.active = true;
            secondary.active.push(id);
        }
    }
}

/// Sets a peer's window as received from another shard. It is not reported again.
fn set_peer_window(window: &mut ReceiveWindow, kib: u64) {
    if kib > 0 {
        window.on_advertised(kib);
        window.take_peer_changed();
    }
}
