//! Faces of one router on several shards. The first shard owns every face; the UDP sockets of its listeners have twins on the other shards, on the
//! same port, and each of those shards has a *lane* of every peer of theirs: the same face, with the same id, as far as that shard receives from
//! and sends to it. A peer that has no lane (a stranger, or one whose link is reliable) is the first shard's: what comes from it is handed over as it came.
//! An interface that goes by AF_XDP has sockets for each shard likewise, and its frames go to the same lanes. Ethernet's peers have lanes too, groups among
//! them: each shard sends to them by a socket of its own, which gets nothing.

use super::Faces;
use super::face::{Face, Transport};
use super::xdp::Way;
use crate::counters::FaceCounters;
use crate::datagram::ether::Port;
use crate::datagram::{Burst, DatagramSocket, Medium, Peer};
use crate::error::FaceError;
use crate::link::{LinkService, LinkSettings, Room, Source, Tally};
use crate::status::{FaceFlags, Persistency};
use crate::uri::FaceUri;
use crate::xdp::News;
use nw_element_api::{Cause, FaceId, Instant, LinkType, Packet, Pool, Scope};
use nw_wire::LpPacket;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Twins of a router's UDP sockets, for one other shard.
#[derive(Debug, Default)]
pub struct Twins(Vec<(usize, DatagramSocket)>);

/// A face, as another shard is to have it.
#[derive(Clone, Debug)]
pub struct Lane {
    id: FaceId,
    socket: usize,
    /// What that is on, if it has no twin yet.
    on: Option<Port>,
    peer: Peer,
    ends: (FaceUri, FaceUri),
    scope: Scope,
    link_type: LinkType,
    persistency: Persistency,
    settings: LinkSettings,
    /// What the peer said of its socket, KiB.
    room_kib: u64,
}

impl Lane {
    /// Whose.
    pub const fn id(&self) -> FaceId {
        self.id
    }
}

/// What came from a peer that has no lane here.
#[derive(Debug)]
pub struct Stray {
    /// How it came, for [`Faces::take_stray`].
    pub whence: Whence,
    /// The link packet as it came, or the frame.
    pub packet: Packet,
}

/// How a [`Stray`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// By this socket, from this peer: a link packet.
    Socket(u32, SocketAddr),
    /// By AF_XDP, on this interface: a frame.
    Interface(u32),
}

/// What a shard that is not the first keeps besides lanes.
#[derive(Debug, Default)]
pub(super) struct Junior {
    /// Makes Sequences differ from those of other shards.
    shard: u8,
    pub(super) strays: Vec<Stray>,
    /// Faces that something came by or was sent to since their counters were taken.
    pub(super) touched: Vec<FaceId>,
}

impl Faces {
    /// Sockets on the ports of this shard's UDP listeners, for another shard. `config.share_ports` must have been set for both.
    ///
    /// # Errors
    /// What the system says.
    pub fn twins(&self) -> Result<Twins, FaceError> {
        let listening = self.listening_udp();
        let twin =
            |(index, address): (usize, SocketAddr)| Ok((index, DatagramSocket::twin(address, &self.config)?));
        listening.map(twin).collect::<Result<_, _>>().map(Twins)
    }

    /// The sockets of UDP listeners, for whoever decides which of them gets a datagram: address, and a socket of each shard, this one's first.
    pub fn groups<'a>(&'a self, twins: &'a [Twins]) -> Vec<(SocketAddr, Vec<BorrowedFd<'a>>)> {
        let group = |(index, address): (usize, SocketAddr)| {
            let own = self.sockets[index].as_ref().map(|socket| socket.socket.as_fd());
            let others = twins.iter().filter_map(move |twins| {
                let twin = twins.0.iter().find(|(at, _)| *at == index);
                twin.map(|(_, socket)| socket.socket.as_fd())
            });
            (address, own.into_iter().chain(others).collect())
        };
        self.listening_udp().map(group).collect()
    }

    fn listening_udp(&self) -> impl Iterator<Item = (usize, SocketAddr)> {
        let sockets = self.sockets.iter().enumerate().filter_map(|(at, socket)| Some((at, socket.as_ref()?)));
        sockets.filter_map(|(index, socket)| match &socket.medium {
            Medium::Udp(address) if socket.listening => Some((index, *address)),
            _ => None,
        })
    }

    /// Makes this the faces of a shard that is not the first, with these sockets.
    ///
    /// # Errors
    /// What the system says.
    pub fn adopt_twins(&mut self, shard: u8, twins: Twins) -> Result<(), FaceError> {
        self.junior = Some(Junior { shard, ..Junior::default() });
        for (index, socket) in twins.0 {
            self.sockets.resize_with(self.sockets.len().max(index + 1), || None);
            self.add_socket_at(index, socket)?;
        }
        Ok(())
    }

    /// What other shards are told of a face; `None` when it is this shard's alone.
    pub fn lane(&self, id: FaceId) -> Option<Lane> {
        let face = self.slots.get(id)?;
        let Transport::Datagram { socket, peer, .. } = &face.transport else { return None };
        let own = self.sockets[*socket].as_ref()?;
        let settings = face.link.settings().clone();
        let (may_be, on) = match &own.medium {
            Medium::Udp(_) => (own.listening && !peer.is_group(), None),
            Medium::Group { .. } => (false, None),
            Medium::Ether(port) => (true, Some(port)),
        };
        // Transmissions are numbered and acknowledged in one place.
        let shared = may_be && !settings.flags.contains(FaceFlags::RELIABILITY);
        shared.then(|| Lane {
            id,
            socket: *socket,
            on: on.cloned(),
            peer: *peer,
            ends: (face.uri.clone(), face.local_uri.clone()),
            scope: face.scope,
            link_type: face.link_type,
            persistency: face.persistency,
            settings,
            room_kib: face.link.room().theirs_kib(),
        })
    }

    /// Faces whose peers said, since the last call, how much room they have: other shards want to know. The first shard is told by
    /// [`set_room`](Self::set_room), the others by a new lane.
    pub fn rooms(&mut self) -> impl Iterator<Item = (FaceId, u64)> + use<> {
        core::mem::take(&mut self.rooms).into_iter()
    }

    /// Another shard heard how much room a face's peer has.
    pub fn set_room(&mut self, id: FaceId, kib: u64) {
        if let Some(face) = self.slots.get_mut(id) {
            face.link.room_mut().hear(kib);
            if face.link.room_mut().take_heard_anew() {
                self.rooms.push((id, kib));
            }
        }
    }

    /// Opens a lane here, or changes the one there is.
    pub fn open_lane(&mut self, now: Instant, lane: Lane) {
        if let Some(port) = &lane.on {
            self.open_ether_twin(lane.socket, port);
        }
        if let Some(face) = self.slots.get_mut(lane.id) {
            (face.uri, face.local_uri) = lane.ends;
            face.persistency = lane.persistency;
            hear(face.link.room_mut(), lane.room_kib);
            return face.link.set(lane.settings);
        }
        let Some(Some(socket)) = self.sockets.get_mut(lane.socket) else { return };
        let shard = self.junior.as_ref().map_or(0, |junior| junior.shard);
        let mut link = LinkService::new(lane.settings, now.as_nanos() | u64::from(shard) << 56);
        if let Some(room) = socket.room_to_tell(lane.peer) {
            link.room_mut().tell(room);
        }
        hear(link.room_mut(), lane.room_kib);
        socket.peers.insert(lane.peer, lane.id);
        let transport = Transport::Datagram {
            socket: lane.socket,
            peer: lane.peer,
            run_datagram_max: usize::MAX,
            burst: Burst::default(),
            way: Way::default(),
        };
        let mut face = Face::new(now, lane.ends, lane.scope, lane.persistency, transport, link);
        face.link_type = lane.link_type;
        self.slots.place(lane.id, face);
    }

    /// Sees to a twin of an Ethernet socket. Without one there are no lanes: frames leave by the first shard.
    fn open_ether_twin(&mut self, index: usize, port: &Port) {
        self.sockets.resize_with(self.sockets.len().max(index + 1), || None);
        match &self.sockets[index] {
            Some(twin) if twin.medium == Medium::Ether(port.clone()) => return,
            // Of an interface that changed, or was made again: the lanes stay.
            Some(_) | None => {}
        }
        let mut old = self.take_socket(index);
        let opened = DatagramSocket::ether_twin(port.clone(), &self.config);
        let opened = opened.map(|mut twin| {
            old.iter_mut().for_each(|old| twin.replace(old));
            twin
        });
        if let Err(error) = opened.and_then(|twin| self.add_socket_at(index, twin)) {
            tracing::warn!("frames to {} leave by one shard for all: {error}", port.name);
        }
    }

    /// Closes a lane; what it counted is still told.
    pub fn close_lane(&mut self, id: FaceId, pool: &mut Pool) {
        self.end_face(id, crate::CloseReason::Asked, pool);
        self.events.clear();
    }

    /// True when a packet can be sent to a face from this shard.
    #[inline]
    pub fn has_lane(&self, id: FaceId) -> bool {
        self.junior.is_none() || self.slots.get(id).is_some()
    }

    /// Datagrams for the first shard that came since the last call, in order.
    pub fn strays(&mut self) -> impl Iterator<Item = Stray> + use<> {
        self.junior.as_mut().map(|junior| core::mem::take(&mut junior.strays)).into_iter().flatten()
    }

    /// Takes in what another shard got from a peer without a lane, as if it had come by this shard's socket. The peer of a listener gets a face.
    pub fn take_stray(
        &mut self,
        now: Instant,
        whence: Whence,
        packet: Packet,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        self.latest = now;
        let (socket, peer) = match whence {
            Whence::Socket(socket, peer) => (socket, peer),
            Whence::Interface(interface) => return self.take_frame(now, interface, packet, pool, batch),
        };
        let is_packet = LpPacket::check(pool.bytes(&packet)).map(drop);
        let id = match self.peer_face(now, socket as usize, Peer::Ip(peer), is_packet, pool) {
            Ok(id) => id,
            Err(reason) => {
                if self.sockets.get(socket as usize).is_some_and(Option::is_some) {
                    self.unheard(socket as usize, reason, 1);
                }
                return pool.release(packet);
            }
        };
        self.take_in(now, id, Some(packet), (false, 0), pool, batch);
    }

    /// A face's peer sent a link packet, for which there may have been no room. `congested`: much waits behind it; `sender`: see [`Source`].
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        id: FaceId,
        packet: Option<Packet>,
        (congested, sender): (bool, u64),
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let Some(face) = self.slots.get_mut(id) else {
            return packet.into_iter().for_each(|packet| pool.release(packet));
        };
        face.heard = now;
        let source = Source { face: id, local: face.scope == Scope::Local, congested, sender };
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        match packet {
            Some(packet) => {
                batch.extend(face.link.receive(now, packet, source, pool, &mut self.budget, &mut tally));
            }
            None => tally.drops(Cause::NoBuffer, 1),
        }
        self.note_room(id);
        self.arm_link(id, Instant::START);
    }

    /// What other shards are told since the last call of interfaces that go by AF_XDP.
    pub fn xdp_news(&mut self) -> impl Iterator<Item = News> + use<> {
        core::mem::take(&mut self.xdp.news).into_iter()
    }

    /// Takes in what the first shard tells of interfaces that go by AF_XDP.
    pub fn hear_xdp_news(&mut self, news: &News) {
        let Some(shard) = self.junior.as_ref().map(|junior| junior.shard) else { return };
        match news {
            News::Sockets(branches) => self.take_branch(shard, branches),
            News::Gone(at) => self.close_port(*at),
            News::Merge(on) => self.merge_runs(*on),
        }
    }

    /// What lanes counted since the last call; at most `max` of them, the others next time.
    pub fn take_counts(&mut self, max: usize) -> Vec<(FaceId, FaceCounters)> {
        let Some(junior) = &mut self.junior else { return Vec::new() };
        let mut counts = core::mem::take(&mut self.ended_lanes);
        let rest = junior.touched.len().saturating_sub(max);
        for id in junior.touched.drain(rest..) {
            if let Some(face) = self.slots.get_mut(id) {
                face.touched = false;
                counts.push((id, core::mem::take(&mut face.counters)));
            }
        }
        counts
    }

    /// Adds what another shard counted for a face.
    pub fn add_counts(&mut self, now: Instant, id: FaceId, counters: &FaceCounters) {
        match self.slots.get_mut(id) {
            Some(face) => {
                if counters.in_packets > 0 {
                    face.heard = now;
                }
                face.counters.merge(counters);
            }
            None => self.ended.merge(counters),
        }
    }

    /// The system told another shard that nobody is at this face's port.
    pub fn peer_is_gone(&mut self, id: FaceId, pool: &mut Pool) {
        if self.slots.get(id).is_some_and(|face| face.persistency == Persistency::OnDemand) {
            self.end_face(id, crate::CloseReason::Socket(Errno::CONNREFUSED), pool);
        }
    }

    /// Notes that a peer said something new of its room.
    #[inline]
    pub(super) fn note_room(&mut self, id: FaceId) {
        if let Some(face) = self.slots.get_mut(id)
            && face.link.room_mut().take_heard_anew()
            && self.config.share_ports
        {
            self.rooms.push((id, face.link.room().theirs_kib()));
        }
    }

    /// What came from a peer without a lane: kept for the first shard.
    pub(super) fn keep_stray(&mut self, whence: Whence, packet: Option<Packet>) {
        match (&mut self.junior, packet, whence) {
            (Some(junior), Some(packet), _) => junior.strays.push(Stray { whence, packet }),
            (_, _, Whence::Socket(socket, _)) => self.unheard(socket as usize, Cause::NoBuffer.into(), 1),
            (_, _, Whence::Interface(_)) => self.drops.count(Cause::NoBuffer),
        }
    }

    /// The face's counters are to be taken.
    #[inline]
    pub(super) fn touch(&mut self, id: FaceId) {
        if let Some(junior) = &mut self.junior
            && let Some(face) = self.slots.get_mut(id)
            && !face.touched
        {
            face.touched = true;
            junior.touched.push(id);
        }
    }
}

/// What another shard heard is known already where it came from.
fn hear(room: &mut Room, kib: u64) {
    if kib > 0 {
        room.hear(kib);
        room.take_heard_anew();
    }
}
