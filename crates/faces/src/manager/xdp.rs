//! Faces of interfaces with AF_XDP: which interfaces use it, and how frames reach faces (see
//! [`crate::xdp`]).
//!
//! ```text
//!  received frame ─▶ read_queue ─▶ parse ─▶ face_of_frame ─▶ receive_packet
//!  outbox ─▶ Xdp::send ─▶ route (cached in the face) ─▶ ring of the interface; else the socket
//!  reconcile_xdp: after every change of interfaces, addresses, sockets or configuration
//! ```
//!
//! Invariant: AF_XDP is an optimisation below the same faces. A frame that it can't carry goes by
//! the face's ordinary socket, and a failed interface is logged once.

use super::face::Token;
use super::received_frame::{ReceivedFrame, copy_frame};
use super::{Faces, Origin};
use crate::datagram::{Medium, Peer};
use crate::error::FaceError;
use crate::interfaces::Interface;
use crate::interfaces::filter::Filter;
use crate::timers::Timer;
use crate::xdp::frame::{self, Heads};
use crate::xdp::routes::{Neighbour, Routes};
use crate::xdp::{Port, ShardSockets, SocketUpdate, Steering, XdpError, XdpStatus};
use arrayvec::ArrayVec;
use core::time::Duration;
use nw_element_api::{DropCause, DropReason, FaceId, Packet, Pool, Timestamp};
use nw_link::{Mac, Outbox};
use nw_wire::LpPacket;
use rustix::event::epoll;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Frames read from a ring in one call.
const FRAMES: usize = 64;
/// Alignment of payloads in their chunk.
const ALIGNED: usize = 64;
/// UDP ports that the kernel program matches, at most.
const PORTS_MAX: usize = 8;
/// Pause before another attempt to open a busy queue: a queue that was just closed is not free at
/// once.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);
/// Attempts to open a busy queue.
const TRIES_MAX: u32 = 20;

/// State of AF_XDP on this shard.
#[derive(Debug, Default)]
pub(super) struct Xdp {
    /// Loader of the kernel program; on the first shard only.
    steering: Option<Box<dyn Steering>>,
    /// Interfaces that use AF_XDP.
    filter: Option<Filter>,
    /// Interfaces with AF_XDP sockets, by port index.
    ports: Vec<Option<Port>>,
    /// Opened with the first port.
    routes: Option<Routes>,
    /// Interfaces that could not be opened, in their state at that time.
    failed: Vec<Interface>,
    /// Attempts since the last success or change.
    tries: u32,
    /// Sockets were opened or closed: call `reconcile_xdp`.
    pub(super) changed: bool,
    /// Merging of datagrams (GRO) is off on all sockets, as an interface is in generic mode.
    pub(super) unmerged: bool,
    /// Version of interfaces and addresses, for cached routes.
    epoch: u32,
    /// Frames could not be returned to the kernel because another shard was doing so: try again
    /// soon.
    pub(super) has_unreturned_frames: bool,
    /// Changes for other shards.
    pub(super) updates: Vec<SocketUpdate>,
}

/// Cached AF_XDP route of a UDP face.
#[derive(Debug, Default)]
pub(super) struct XdpRoute {
    /// Version that it is valid for: epoch, and generation of routes plus one; 0 = never looked up.
    version: (u32, u32),
    /// `None`: the peer is not reached by AF_XDP.
    resolved: Option<Box<ResolvedRoute>>,
}

/// A resolved route to a UDP peer.
#[derive(Debug)]
struct ResolvedRoute {
    /// Index of the AF_XDP port.
    port: usize,
    /// Address of the own card.
    own: Mac,
    neighbour: Neighbour,
    /// Version of the neighbour's address in `heads`.
    version: u32,
    /// Source and destination.
    addresses: (SocketAddr, SocketAddr),
    /// Headers of datagrams, once the neighbour's address is known.
    heads: Option<Heads>,
    /// Longest datagram, bytes.
    len_max: usize,
}

/// Where frames arrived.
#[derive(Clone, Copy)]
struct FrameSource {
    /// Index of the AF_XDP port.
    port: usize,
    /// Index of the interface.
    interface: u32,
    /// Address of the own card.
    own: Mac,
}

/// Result for the previous frame: frames of one peer mostly follow each other.
#[derive(Default)]
struct PreviousFrame {
    /// Destination address and the index of its socket.
    socket: Option<(SocketAddr, usize)>,
    /// Socket and peer, and their face.
    face: Option<((usize, Peer), FaceId)>,
}

/// Why a frame has no face.
enum NoFace {
    /// It is not for this router.
    NotForUs,
    /// It is for the socket with this index, which has no face for it.
    Rejected(usize, DropReason),
}

impl Xdp {
    const fn is_off(&self) -> bool {
        self.ports.is_empty()
    }

    /// Returns the index of the port on an interface.
    pub(super) fn port_on(&self, interface: u32) -> Option<usize> {
        self.ports
            .iter()
            .position(|port| port.as_ref().is_some_and(|port| port.interface.index == interface))
    }

    /// Puts link packets to a peer into the interface's ring. Returns how many of the first were
    /// taken; the others go by the socket.
    pub(super) fn send(
        &mut self,
        (medium, peer): (&Medium, Peer),
        route: &mut XdpRoute,
        (outbox, count): (&Outbox, usize),
        pool: &Pool,
    ) -> usize {
        if self.is_off() {
            return 0;
        }
        let items = &outbox.items()[..count];
        match (medium, peer) {
            (Medium::Ether(port), Peer::Mac(mac)) => {
                let head = port.head(mac);
                let Some(Some(open)) =
                    self.port_on(port.interface).map(|at| self.ports[at].as_mut())
                else {
                    return 0;
                };
                put_frames(open, items.len(), |at, _, frame| {
                    head.write(outbox.parts(&items[at], pool), frame)
                })
            }
            (Medium::Udp(local), Peer::Ip(to)) => {
                let Some((open, heads, len_max)) = self.route(route, *local, to) else { return 0 };
                let fits =
                    items.iter().take_while(|item| outbox.item_len(item, pool) <= len_max).count();
                put_frames(open, fits, |at, id, frame| {
                    heads.write(outbox.parts(&items[at], pool), id, frame)
                })
            }
            _ => 0,
        }
    }

    /// Returns the port, the headers and the longest datagram of the route to a UDP peer. `None`:
    /// the datagram goes by the socket.
    fn route<'a>(
        &'a mut self,
        route: &'a mut XdpRoute,
        local: SocketAddr,
        to: SocketAddr,
    ) -> Option<(&'a mut Port, &'a Heads, usize)> {
        let routes = self.routes.as_mut()?;
        let now = (self.epoch, routes.generation().wrapping_add(1).max(1));
        if route.version != now {
            route.version = now;
            route.resolved = find(&self.ports, routes, local, to).map(Box::new);
        }
        let found = route.resolved.as_mut()?;
        let (mac, version) = routes.mac(found.neighbour)?;
        if found.heads.is_none() || found.version != version {
            found.version = version;
            found.heads = Heads::new((found.own, mac), found.addresses.0, found.addresses.1);
        }
        let port = self.ports.get_mut(found.port)?.as_mut()?;
        Some((port, found.heads.as_ref()?, found.len_max))
    }

    /// Tells the kernel to send what is in the rings, and returns received frames to it.
    pub(super) fn kick(&mut self) {
        self.has_unreturned_frames = false;
        for port in self.ports.iter_mut().flatten() {
            // An interface that is down or removed is reported elsewhere too.
            let _ = port.kick();
            self.has_unreturned_frames |= !port.return_frames();
        }
    }
}

/// Returns whether nothing changed that AF_XDP depends on.
fn is_unchanged(then: &Interface, now: &Interface) -> bool {
    let link = |of: &Interface| (of.index, of.mac, of.mtu, of.queues);
    link(then) == link(now) && then.name == now.name
}

/// Looks up the route to a peer.
#[cold]
fn find(
    ports: &[Option<Port>],
    routes: &mut Routes,
    local: SocketAddr,
    to: SocketAddr,
) -> Option<ResolvedRoute> {
    let scope = if let SocketAddr::V6(v6) = to { v6.scope_id() } else { 0 };
    let (interface, source, neighbour) = routes.next_hop(to.ip(), scope)?;
    let at = ports
        .iter()
        .position(|port| port.as_ref().is_some_and(|port| port.interface.index == interface))?;
    let port = ports[at].as_ref()?;
    let source = if local.ip().is_unspecified() { source } else { local.ip() };
    let addresses = (SocketAddr::new(source, local.port()), to);
    let heads = Heads::new((port.mac, port.mac), addresses.0, addresses.1)?;
    let len_max = port.interface.mtu.checked_sub(heads.ip_len())?;
    Some(ResolvedRoute {
        port: at,
        own: port.mac,
        neighbour,
        version: 0,
        addresses,
        heads: None,
        len_max,
    })
}

/// Puts `count` frames, filled by `write`, into a port's ring. Returns how many fitted.
fn put_frames(
    port: &mut Port,
    count: usize,
    write: impl Fn(usize, u16, &mut [u8]) -> Option<usize>,
) -> usize {
    for at in 0..count {
        if !port.put_or_kick(|id, frame| write(at, id, frame)) {
            return at;
        }
    }
    count
}

impl Faces {
    /// Uses AF_XDP on matching interfaces, now and as interfaces change; `None`: on none. An
    /// interface that can't use it is logged once and served by sockets.
    ///
    /// # Errors
    /// If interfaces can't be read from the kernel.
    pub fn set_xdp(
        &mut self,
        now: Timestamp,
        filter: Option<Filter>,
        steering: Box<dyn Steering>,
    ) -> Result<(), FaceError> {
        if filter.is_some() {
            self.watch_interfaces()?;
        }
        self.xdp.steering = Some(steering);
        self.change_xdp(now, filter);
        Ok(())
    }

    /// Changes the interfaces of an earlier [`set_xdp`](Self::set_xdp).
    ///
    /// # Errors
    /// If interfaces can't be read from the kernel.
    pub fn set_xdp_interfaces(
        &mut self,
        now: Timestamp,
        filter: Option<Filter>,
    ) -> Result<(), FaceError> {
        if filter.is_some() {
            self.watch_interfaces()?;
        }
        self.change_xdp(now, filter);
        Ok(())
    }

    fn change_xdp(&mut self, now: Timestamp, filter: Option<Filter>) {
        self.xdp.filter = filter;
        self.xdp.failed.clear();
        self.xdp.tries = 0;
        self.reconcile_xdp(now);
    }

    /// Returns the status of each interface that uses AF_XDP.
    pub fn xdp(&self) -> Vec<XdpStatus> {
        self.xdp.ports.iter().flatten().map(Port::status).collect()
    }

    /// Returns the frames that a shard received by AF_XDP, on all interfaces.
    pub fn xdp_frames(&self, shard: usize) -> u64 {
        let counts = self.xdp.ports.iter().flatten().filter_map(|port| port.counts_of(shard));
        counts.map(|counts| counts.received()).sum()
    }

    /// Closes ports that no longer match, then opens missing ones.
    pub(super) fn reconcile_xdp(&mut self, now: Timestamp) {
        self.xdp.changed = false;
        self.xdp.epoch = self.xdp.epoch.wrapping_add(1);
        // Other shards follow the first.
        if self.xdp.steering.is_none() {
            return;
        }
        let ports = self.listening_ports();
        let wanted: Vec<Interface> = self.wanted_xdp();
        for at in 0..self.xdp.ports.len() {
            let Some(port) = &self.xdp.ports[at] else { continue };
            let group = self.ether_group(port.interface.index);
            let fits = wanted.iter().any(|now| is_unchanged(&port.interface, now))
                && port.is_for(&ports, group);
            if !fits {
                self.close_port(at);
            }
        }
        // Changes of addresses don't enable an interface that failed.
        self.xdp.failed.retain(|failed| wanted.iter().any(|now| is_unchanged(failed, now)));
        for interface in wanted {
            let known = self.xdp.port_on(interface.index);
            if let Some(port) = known.and_then(|at| self.xdp.ports[at].as_mut()) {
                let before = port.queues.len();
                port.open_more_queues();
                known.into_iter().for_each(|at| self.use_queues(at, before));
            } else if !self.xdp.failed.iter().any(|failed| is_unchanged(failed, &interface)) {
                self.open_xdp_port(now, &interface, &ports);
            }
        }
        let destinations = self.destinations();
        for port in self.xdp.ports.iter_mut().flatten() {
            if let Err(error) = port.set_destinations(&destinations) {
                tracing::warn!(
                    "datagrams to new addresses of {} use ordinary sockets: {error}",
                    port.interface.name
                );
            }
        }
    }

    fn wanted_xdp(&self) -> Vec<Interface> {
        let (Some(filter), Some(watched)) = (&self.xdp.filter, self.interfaces.watched()) else {
            return Vec::new();
        };
        let fits = |interface: &&Interface| {
            interface.up && !interface.loopback && filter.accepts(interface)
        };
        watched.iter().filter(fits).cloned().collect()
    }

    /// Returns the UDP ports with a listener.
    fn listening_ports(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = Vec::new();
        for socket in self.sockets.iter().flatten() {
            if let Medium::Udp(address) = &socket.medium
                && socket.listening
                && !address.ip().is_loopback()
                && !ports.contains(&address.port())
            {
                ports.push(address.port());
            }
        }
        ports.sort_unstable();
        ports.truncate(PORTS_MAX);
        ports
    }

    /// Returns group and VLAN of NDN over Ethernet on an interface, if used there.
    fn ether_group(&self, interface: u32) -> Option<(Mac, u16)> {
        self.sockets.iter().flatten().find_map(|socket| match &socket.medium {
            Medium::Ether(port) if port.interface == interface => Some((port.group, port.vlan)),
            _ => None,
        })
    }

    /// Returns the addresses of this machine that peers may send to, and the groups joined.
    fn destinations(&self) -> Vec<IpAddr> {
        let interfaces = self.interfaces.watched().into_iter().flat_map(|watched| watched.iter());
        let own = interfaces.flat_map(|interface| &interface.addresses).copied();
        let groups = self.sockets.iter().flatten().filter_map(|socket| match &socket.medium {
            Medium::Group { group, .. } => Some(group.ip()),
            _ => None,
        });
        own.filter(|address| !address.is_loopback()).chain(groups).collect()
    }

    fn open_xdp_port(&mut self, now: Timestamp, interface: &Interface, ports: &[u16]) {
        let group = self.ether_group(interface.index);
        if ports.is_empty() && group.is_none() {
            return;
        }
        let Some(steering) = &mut self.xdp.steering else { return };
        let opened = Port::open(interface, (ports, group), steering.as_mut());
        let routes = match (&opened, &self.xdp.routes) {
            (Ok(_), None) => self.watch_routes(),
            _ => Ok(()),
        };
        match (opened, routes) {
            (Ok(port), Ok(())) => {
                let at =
                    self.xdp.ports.iter().position(Option::is_none).unwrap_or(self.xdp.ports.len());
                let status = port.status();
                if at == self.xdp.ports.len() {
                    self.xdp.ports.push(None);
                }
                self.xdp.ports[at] = Some(port);
                self.use_queues(at, 0);
                self.xdp.tries = 0;
                tracing::info!("{status}");
            }
            (Err(XdpError::Busy(_)), _) if self.xdp.tries < TRIES_MAX => {
                self.xdp.tries += 1;
                self.timers.set(now + REOPEN_PAUSE, Timer::XdpQueue);
            }
            (Err(error), _) => self.mark_failed(interface, &error),
            (Ok(_), Err(error)) => self.mark_failed(interface, &error),
        }
    }

    fn mark_failed(&mut self, interface: &Interface, error: &dyn core::fmt::Display) {
        tracing::warn!(
            "{} uses ordinary sockets, which take several times the processor time: {error}",
            interface.name
        );
        self.xdp.failed.push(interface.clone());
    }

    fn watch_routes(&mut self) -> Result<(), FaceError> {
        let routes = Routes::watch()?;
        self.watch(routes.socket.as_fd(), Token::Routes, false)
            .map_err(FaceError::system("watch", "routes and neighbours"))?;
        self.xdp.routes = Some(routes);
        Ok(())
    }

    /// Starts using the queues of a port from index `from`, here and on other shards.
    fn use_queues(&mut self, at: usize, from: usize) {
        self.watch_queues(at, from);
        let sockets = self.xdp.ports[at].as_mut().and_then(|port| ShardSockets::of(at, port));
        self.xdp.updates.extend(sockets.map(|sockets| SocketUpdate::Opened(Arc::new(sockets))));
        self.reconcile_merging();
    }

    /// Turns GRO off on all sockets while an interface is in generic mode: there, the kernel
    /// program would see merged datagrams, which are longer than a frame or look damaged.
    fn reconcile_merging(&mut self) {
        let unmerged = self.xdp.ports.iter().flatten().any(|port| !port.is_native());
        // Reported to other shards, as not all of them know all interfaces.
        if self.xdp.steering.is_some() && unmerged != self.xdp.unmerged {
            self.merge_runs(!unmerged);
            self.xdp.updates.push(SocketUpdate::MergeRuns(!unmerged));
        }
    }

    pub(super) fn merge_runs(&mut self, on: bool) {
        self.xdp.unmerged = !on;
        self.sockets.iter().flatten().for_each(|socket| socket.merge_runs(on));
    }

    /// Registers the queues of a port from index `from` with epoll.
    fn watch_queues(&self, at: usize, from: usize) {
        let Some(Some(port)) = self.xdp.ports.get(at) else { return };
        for (queue, xsk) in port.queues.iter().enumerate().skip(from) {
            let token = Token::Xdp((at << 8 | queue) as u32);
            if let Err(errno) = self.watch(xsk.as_fd(), token, false) {
                tracing::error!(%errno, "a queue of {} can't be watched: its frames are lost", port.interface.name);
            }
        }
    }

    /// Takes this shard's part of sockets that the first shard opened.
    pub(super) fn take_shard_sockets(&mut self, shard: u8, sockets: &ShardSockets) {
        // Other shards need these only here.
        let watched = self.watch_interfaces().map(drop);
        let watched = match &self.xdp.routes {
            None => watched.and_then(|()| self.watch_routes()),
            Some(_) => watched,
        };
        if let Err(error) = watched {
            tracing::warn!("shard {shard} sends by ordinary sockets: {error}");
        }
        let at = sockets.at();
        self.xdp.ports.resize_with(self.xdp.ports.len().max(at + 1), || None);
        let known = self.xdp.ports[at].take();
        let before = known.as_ref().map_or(0, |port| port.queues.len());
        self.xdp.ports[at] = sockets.take(shard, known);
        self.watch_queues(at, before);
        self.xdp.epoch = self.xdp.epoch.wrapping_add(1);
    }

    pub(super) fn close_port(&mut self, at: usize) {
        let Some(port) = self.xdp.ports.get_mut(at).and_then(Option::take) else { return };
        for xsk in &port.queues {
            // A socket whose interface was removed is still registered.
            let _ = epoll::delete(&self.epoll, xsk);
        }
        if port.is_umem_owner() {
            tracing::info!("{} uses ordinary sockets from now on", port.interface.name);
            self.xdp.updates.push(SocketUpdate::Closed(at));
        }
        while self.xdp.ports.last().is_some_and(Option::is_none) {
            self.xdp.ports.pop();
        }
        self.reconcile_merging();
        self.xdp.epoch = self.xdp.epoch.wrapping_add(1);
    }

    /// Processes changes of routes and neighbours.
    pub(super) fn routes_ready(&mut self) {
        let Some(routes) = &mut self.xdp.routes else { return };
        if let Err(errno) = routes.process_events() {
            tracing::error!(%errno, "the kernel no longer reports routes and neighbours: UDP is sent by ordinary sockets");
            let _ = epoll::delete(&self.epoll, &routes.socket);
            self.xdp.routes = None;
        }
    }

    /// Receives frames of a queue: a bounded number of reads.
    pub(super) fn xdp_ready(
        &mut self,
        now: Timestamp,
        token: u32,
        flags: epoll::EventFlags,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let (at, queue) = ((token >> 8) as usize, (token & 0xff) as usize);
        if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            // The interface was removed, or the kernel took the queue away.
            return self.close_port(at);
        }
        for _ in 0..self.config.udp_reads_per_turn {
            if !self.read_queue(now, at, queue, pool, batch) {
                break;
            }
        }
    }

    /// Receives up to [`FRAMES`] frames. Returns whether there may be more.
    fn read_queue(
        &mut self,
        now: Timestamp,
        at: usize,
        queue: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(port)) = self.xdp.ports.get_mut(at) else { return false };
        let Some(xsk) = port.queues.get_mut(queue) else { return false };
        // Without a chunk nothing is read: the ring keeps the frames.
        let Some(chunk) = pool.take_chunk() else { return false };
        let mut arrived = ArrayVec::<ReceivedFrame, FRAMES>::new();
        let (mut end, mut others, mut received) = (0, 0, 0);
        let bytes = pool.chunk_bytes_mut(&chunk);
        // Frames without a replica are passed whole to the first shard.
        let whole = self.secondary.is_some();
        let (more, congested) = xsk.receive(FRAMES as u32, |frame| {
            let Some(room) = bytes.get_mut(end..).filter(|room| room.len() >= frame.len()) else {
                return false;
            };
            received += 1;
            match copy_frame(frame, room, whole) {
                Some(mut frame) => {
                    frame.range = end + frame.range.start..end + frame.range.end;
                    frame.whole = end..end + frame.whole.end;
                    end = frame.range.end.max(frame.whole.end).next_multiple_of(ALIGNED);
                    arrived.push(frame);
                }
                None => others += 1,
            }
            true
        });
        port.counts.add_received(received);
        port.counts.add_others(others);
        let source = FrameSource { port: at, interface: port.interface.index, own: port.mac };
        let mut previous = PreviousFrame::default();
        for frame in &arrived {
            let payload = frame.range.clone();
            let is_packet =
                |pool: &Pool| LpPacket::check(&pool.chunk_bytes(&chunk)[payload.clone()]).map(drop);
            match self.face_of_frame(now, frame, source, &mut previous, is_packet, pool) {
                Ok((id, sender)) => {
                    let packet = pool.packet_in(&chunk, frame.range.clone());
                    self.mark_active(id);
                    self.receive_packet(now, id, packet, (congested, sender), pool, batch);
                }
                Err(_) if self.secondary.is_some() => {
                    let packet = pool.packet_in(&chunk, frame.whole.clone());
                    self.keep_unknown(Origin::Interface(source.interface), packet);
                }
                Err(no_face) => self.count_without_face(source.port, no_face),
            }
        }
        pool.release_chunk(chunk);
        more
    }

    /// Processes a frame that another shard received and has no replica for, as if it had arrived
    /// here.
    pub(super) fn take_frame(
        &mut self,
        now: Timestamp,
        interface: u32,
        packet: Packet,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let seen =
            self.xdp.port_on(interface).and_then(|at| Some((at, self.xdp.ports[at].as_ref()?)));
        let Some((port, own)) = seen.map(|(at, port)| (at, port.mac)) else {
            return pool.drop_packet(packet, DropCause::FaceGone, &mut self.drops);
        };
        let source = FrameSource { port, interface, own };
        let Some(frame) = ReceivedFrame::read(pool.bytes(&packet)) else {
            self.count_without_face(port, NoFace::NotForUs);
            return pool.release(packet);
        };
        pool.narrow(&packet, frame.range.clone());
        let is_packet = |pool: &Pool| LpPacket::check(pool.bytes(&packet)).map(drop);
        match self.face_of_frame(
            now,
            &frame,
            source,
            &mut PreviousFrame::default(),
            is_packet,
            pool,
        ) {
            Ok((id, sender)) => {
                self.receive_packet(now, id, Some(packet), (false, sender), pool, batch)
            }
            Err(no_face) => {
                self.count_without_face(port, no_face);
                pool.release(packet);
            }
        }
    }

    fn count_without_face(&mut self, port: usize, no_face: NoFace) {
        match no_face {
            NoFace::Rejected(index, reason) => self.count_unattributed(index, reason, 1),
            NoFace::NotForUs => {
                if let Some(Some(port)) = self.xdp.ports.get_mut(port) {
                    port.counts.add_others(1);
                }
            }
        }
    }

    /// Returns the face of a frame, and the number that distinguishes the senders to a group.
    fn face_of_frame(
        &mut self,
        now: Timestamp,
        frame: &ReceivedFrame,
        source: FrameSource,
        previous: &mut PreviousFrame,
        is_packet: impl FnOnce(&Pool) -> Result<(), nw_wire::Error>,
        pool: &mut Pool,
    ) -> Result<(FaceId, u64), NoFace> {
        let Some((index, peer, sender)) = self.socket_of_frame(frame, source, previous) else {
            return Err(NoFace::NotForUs);
        };
        if let Some((_, id)) = previous.face.filter(|(known, _)| *known == (index, peer)) {
            return Ok((id, sender));
        }
        let is_packet = is_packet(pool);
        let id = self
            .peer_face(now, index, peer, is_packet, pool)
            .map_err(|reason| NoFace::Rejected(index, reason))?;
        previous.face = Some(((index, peer), id));
        Ok((id, sender))
    }

    /// Returns the socket that a frame is for, its peer there, and the number that distinguishes
    /// the senders to a group. `None` if it is not for this router.
    fn socket_of_frame(
        &self,
        frame: &ReceivedFrame,
        FrameSource { interface, own, .. }: FrameSource,
        previous: &mut PreviousFrame,
    ) -> Option<(usize, Peer, u64)> {
        // A switch may send back our own frames.
        if frame.source == own
            || frame.source.is_group()
            || (frame.destination != own && !frame.destination.is_group())
        {
            return None;
        }
        let Some((source, destination)) = frame.addresses else {
            return self.socket_of_ethernet_frame(frame, interface, own);
        };
        // Datagrams in VLANs are left to the kernel: it knows which interface they are for.
        if frame.vlan.is_some() {
            return None;
        }
        if let Some((_, index)) = previous.socket.filter(|(to, _)| *to == destination) {
            let peer = Peer::Ip(frame::scoped(source, interface));
            let again = previous.face.is_some_and(|(known, _)| known == (index, peer));
            return (again || self.can_be_peer(source)).then_some((index, peer, 0));
        }
        let watched = self.interfaces.watched()?;
        if destination.ip().is_multicast() || frame.destination.is_group() {
            let found = self.socket_of_group_datagram(source, destination, interface)?;
            return self.can_be_peer(source).then_some(found);
        }
        let ours = watched.iter().any(|interface| interface.addresses.contains(&destination.ip()));
        if !ours || !self.can_be_peer(source) {
            return None;
        }
        let fits = |local: &SocketAddr| {
            local.port() == destination.port()
                && (local.ip() == destination.ip()
                    || local.ip().is_unspecified() && local.is_ipv4() == destination.is_ipv4())
        };
        let sockets = self.sockets.iter().enumerate();
        let found = sockets.filter_map(|(at, socket)| match &socket.as_ref()?.medium {
            Medium::Udp(local) if fits(local) => Some((!local.ip().is_unspecified(), at)),
            _ => None,
        });
        let (_, index) = found.max()?;
        previous.socket = Some((destination, index));
        Some((index, Peer::Ip(frame::scoped(source, interface)), 0))
    }

    /// Returns whether an address can be a peer's: not this machine's own, not loopback,
    /// unspecified, multicast or broadcast.
    fn can_be_peer(&self, source: SocketAddr) -> bool {
        let ip = source.ip();
        let is_reserved = ip.is_loopback()
            || ip.is_unspecified()
            || ip.is_multicast()
            || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        let own = |interface: &Interface| interface.addresses.contains(&ip);
        !is_reserved && !self.interfaces.watched().is_some_and(|watched| watched.iter().any(own))
    }
}
