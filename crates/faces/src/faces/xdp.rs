//! Faces whose packets come and go by AF_XDP, where their interface has it: see `crate::xdp`.

use super::face::Token;
use super::{Faces, Whence};
use crate::datagram::{Medium, Peer, ether};
use crate::error::FaceError;
use crate::interfaces::Interface;
use crate::interfaces::filter::Filter;
use crate::mac::Mac;
use crate::outbox::Outbox;
use crate::timers::Timer;
use crate::xdp::frame::{self, Body, Heads};
use crate::xdp::routes::{Neighbour, Routes};
use crate::xdp::{Branches, News, Port, Steering, XdpError, XdpStatus};
use arrayvec::ArrayVec;
use core::ops::Range;
use core::time::Duration;
use nw_element_api::{Cause, DropReason, FaceId, Instant, Packet, Pool};
use nw_wire::LpPacket;
use rustix::event::epoll;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Frames taken from a ring before they are given to their faces.
const FRAMES: usize = 64;
/// Where a payload starts in its chunk: at a multiple of it.
const ALIGNED: usize = 64;
/// UDP ports that are looked for at most.
const PORTS_MAX: usize = 8;
/// A queue that was closed a moment ago is not free at once.
const AGAIN: Duration = Duration::from_millis(200);
const TRIES_MAX: u32 = 20;

/// What is known of AF_XDP.
#[derive(Debug, Default)]
pub(super) struct Xdp {
    steering: Option<Box<dyn Steering>>,
    filter: Option<Filter>,
    ports: Vec<Option<Port>>,
    /// From the moment a port is open.
    routes: Option<Routes>,
    /// Interfaces that could not be opened, as they were then.
    failed: Vec<Interface>,
    /// Attempts since something was open or changed.
    tries: u32,
    /// Something is to be looked at again: sockets came or went.
    pub(super) changed: bool,
    /// No socket has runs of datagrams merged, as an interface is in generic mode.
    pub(super) unmerged: bool,
    /// Counts changes of interfaces and their addresses.
    epoch: u32,
    /// Other shards hinder frames from being handed back at this moment: soon again.
    pub(super) unsettled: bool,
    /// What other shards are to be told.
    pub(super) news: Vec<News>,
}

/// How datagrams get to a UDP peer by AF_XDP, if they do.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// As of when: epoch and generation of routes, plus one; 0 is never.
    seen: (u32, u32),
    found: Option<Box<Found>>,
}

#[derive(Debug)]
struct Found {
    port: usize,
    own: Mac,
    neighbour: Neighbour,
    /// Of the neighbour's address in `heads`.
    version: u32,
    ends: (SocketAddr, SocketAddr),
    heads: Option<Heads>,
    /// Octets of the longest datagram.
    len_max: usize,
}

/// A frame that came, its payload in a chunk.
struct Arrived {
    destination: Mac,
    source: Mac,
    vlan: Option<u16>,
    /// From and to, of a datagram.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// The payload's place.
    range: Range<usize>,
    /// The frame's, if it was kept.
    whole: Range<usize>,
}

/// Where frames came in.
#[derive(Clone, Copy)]
struct Origin {
    port: usize,
    interface: u32,
    own: Mac,
}

/// What was found for the frame before: likely it is the same again.
#[derive(Default)]
struct Before {
    to: Option<(SocketAddr, usize)>,
    from: Option<((usize, Peer), FaceId)>,
}

/// Why a frame has no face.
enum Nobody {
    /// It is for somebody else.
    Others,
    /// It came to this socket.
    At(usize, DropReason),
}

impl Xdp {
    const fn is_off(&self) -> bool {
        self.ports.is_empty()
    }

    pub(super) fn port_on(&self, interface: u32) -> Option<usize> {
        self.ports.iter().position(|port| port.as_ref().is_some_and(|port| port.interface.index == interface))
    }

    /// Puts the first of some link packets to a peer into a ring; how many. The others are a socket's.
    pub(super) fn send(
        &mut self,
        (medium, peer): (&Medium, Peer),
        way: &mut Way,
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
                let Some(Some(open)) = self.port_on(port.interface).map(|at| self.ports[at].as_mut()) else {
                    return 0;
                };
                put_all(open, items.len(), |at, _, frame| head.write(outbox.parts(&items[at], pool), frame))
            }
            (Medium::Udp(local), Peer::Ip(to)) => {
                let Some((open, heads, len_max)) = self.way(way, *local, to) else { return 0 };
                let fits = items.iter().take_while(|item| outbox.item_len(item, pool) <= len_max).count();
                put_all(open, fits, |at, id, frame| heads.write(outbox.parts(&items[at], pool), id, frame))
            }
            _ => 0,
        }
    }

    fn way<'a>(
        &'a mut self,
        way: &'a mut Way,
        local: SocketAddr,
        to: SocketAddr,
    ) -> Option<(&'a mut Port, &'a Heads, usize)> {
        let routes = self.routes.as_mut()?;
        let now = (self.epoch, routes.generation().wrapping_add(1).max(1));
        if way.seen != now {
            way.seen = now;
            way.found = find(&self.ports, routes, local, to).map(Box::new);
        }
        let found = way.found.as_mut()?;
        let (mac, version) = routes.mac(found.neighbour)?;
        if found.heads.is_none() || found.version != version {
            found.version = version;
            found.heads = Heads::new((found.own, mac), found.ends.0, found.ends.1);
        }
        let port = self.ports.get_mut(found.port)?.as_mut()?;
        Some((port, found.heads.as_ref()?, found.len_max))
    }

    /// Sends what is in the rings, and hands back what was received.
    pub(super) fn kick(&mut self) {
        self.unsettled = false;
        for port in self.ports.iter_mut().flatten() {
            // An interface that is down or gone says so by other ways as well.
            let _ = port.kick();
            self.unsettled |= !port.settle();
        }
    }
}

/// True where nothing has changed that AF_XDP depends on.
fn is_as_before(then: &Interface, now: &Interface) -> bool {
    let link = |of: &Interface| (of.index, of.mac, of.mtu, of.queues);
    link(then) == link(now) && then.name == now.name
}

/// Asks for the way to a peer.
#[cold]
fn find(ports: &[Option<Port>], routes: &mut Routes, local: SocketAddr, to: SocketAddr) -> Option<Found> {
    let scope = if let SocketAddr::V6(v6) = to { v6.scope_id() } else { 0 };
    let (interface, source, neighbour) = routes.way(to.ip(), scope)?;
    let at =
        ports.iter().position(|port| port.as_ref().is_some_and(|port| port.interface.index == interface))?;
    let port = ports[at].as_ref()?;
    let source = if local.ip().is_unspecified() { source } else { local.ip() };
    let ends = (SocketAddr::new(source, local.port()), to);
    let heads = Heads::new((port.mac, port.mac), ends.0, ends.1)?;
    let len_max = port.interface.mtu.checked_sub(heads.ip_len())?;
    Some(Found { port: at, own: port.mac, neighbour, version: 0, ends, heads: None, len_max })
}

/// Puts frames into a port's ring, as `write` makes them; how many of the first had room.
fn put_all(port: &mut Port, count: usize, write: impl Fn(usize, u16, &mut [u8]) -> Option<usize>) -> usize {
    for at in 0..count {
        let put = port.put(|id, frame| write(at, id, frame));
        // What is in the ring may leave now, and make room.
        if !put && (port.kick().is_err() || !port.put(|id, frame| write(at, id, frame))) {
            return at;
        }
    }
    count
}

impl Faces {
    /// Lets frames of matching interfaces come and go by AF_XDP, now and as interfaces come and go; `None` by none. What can't be is logged once, and
    /// goes by sockets.
    ///
    /// # Errors
    /// When the kernel can't be asked for interfaces.
    pub fn set_xdp(
        &mut self,
        now: Instant,
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

    /// As [`set_xdp`](Self::set_xdp) was called, for other interfaces.
    ///
    /// # Errors
    /// See there.
    pub fn set_xdp_interfaces(&mut self, now: Instant, filter: Option<Filter>) -> Result<(), FaceError> {
        if filter.is_some() {
            self.watch_interfaces()?;
        }
        self.change_xdp(now, filter);
        Ok(())
    }

    fn change_xdp(&mut self, now: Instant, filter: Option<Filter>) {
        self.xdp.filter = filter;
        self.xdp.failed.clear();
        self.xdp.tries = 0;
        self.match_xdp(now);
    }

    /// Interfaces that use AF_XDP, and how.
    pub fn xdp(&self) -> Vec<XdpStatus> {
        self.xdp.ports.iter().flatten().map(Port::status).collect()
    }

    /// Frames that a shard received by AF_XDP, by all interfaces that use it.
    pub fn xdp_frames(&self, shard: usize) -> u64 {
        let counts = self.xdp.ports.iter().flatten().filter_map(|port| port.counts_of(shard));
        counts.map(|counts| counts.received()).sum()
    }

    /// Closes what no longer fits, then opens what is missing.
    pub(super) fn match_xdp(&mut self, now: Instant) {
        self.xdp.changed = false;
        self.xdp.epoch = self.xdp.epoch.wrapping_add(1);
        // Other shards are told by the first.
        if self.xdp.steering.is_none() {
            return;
        }
        let ports = self.listening_ports();
        let wanted: Vec<Interface> = self.wanted_xdp();
        for at in 0..self.xdp.ports.len() {
            let Some(port) = &self.xdp.ports[at] else { continue };
            let group = self.ether_group(port.interface.index);
            let fits =
                wanted.iter().any(|now| is_as_before(&port.interface, now)) && port.is_for(&ports, group);
            if !fits {
                self.close_port(at);
            }
        }
        // Addresses that come and go do not make possible what was not.
        self.xdp.failed.retain(|failed| wanted.iter().any(|now| is_as_before(failed, now)));
        for interface in wanted {
            let known = self.xdp.port_on(interface.index);
            if let Some(port) = known.and_then(|at| self.xdp.ports[at].as_mut()) {
                let before = port.queues.len();
                port.open_more_queues();
                known.into_iter().for_each(|at| self.use_queues(at, before));
            } else if !self.xdp.failed.iter().any(|failed| is_as_before(failed, &interface)) {
                self.open_xdp_port(now, &interface, &ports);
            }
        }
        let destinations = self.destinations();
        for port in self.xdp.ports.iter_mut().flatten() {
            if let Err(error) = port.set_destinations(&destinations) {
                tracing::warn!(
                    "datagrams to new addresses of {} come by sockets: {error}",
                    port.interface.name
                );
            }
        }
    }

    fn wanted_xdp(&self) -> Vec<Interface> {
        let (Some(filter), Some(watched)) = (&self.xdp.filter, self.interfaces.watched()) else {
            return Vec::new();
        };
        let fits = |interface: &&Interface| interface.up && !interface.loopback && filter.accepts(interface);
        watched.iter().filter(fits).cloned().collect()
    }

    /// UDP ports that anybody is heard at.
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

    /// The group and the VLAN of frames without IP on an interface, if they are used there.
    fn ether_group(&self, interface: u32) -> Option<(Mac, u16)> {
        self.sockets.iter().flatten().find_map(|socket| match &socket.medium {
            Medium::Ether(port) if port.interface == interface => Some((port.group, port.vlan)),
            _ => None,
        })
    }

    /// Addresses of this machine that others may send to, and of groups it is in.
    fn destinations(&self) -> Vec<IpAddr> {
        let interfaces = self.interfaces.watched().into_iter().flat_map(|watched| watched.iter());
        let own = interfaces.flat_map(|interface| &interface.addresses).copied();
        let groups = self.sockets.iter().flatten().filter_map(|socket| match &socket.medium {
            Medium::Group { group, .. } => Some(group.ip()),
            _ => None,
        });
        own.filter(|address| !address.is_loopback()).chain(groups).collect()
    }

    fn open_xdp_port(&mut self, now: Instant, interface: &Interface, ports: &[u16]) {
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
                let at = self.xdp.ports.iter().position(Option::is_none).unwrap_or(self.xdp.ports.len());
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
                self.timers.set(now + AGAIN, Timer::Xdp);
            }
            (Err(error), _) => self.leave_out(interface, &error),
            (Ok(_), Err(error)) => self.leave_out(interface, &error),
        }
    }

    fn leave_out(&mut self, interface: &Interface, error: &dyn core::fmt::Display) {
        tracing::warn!(
            "{} goes by ordinary sockets, which take several times the processor time: {error}",
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

    /// Takes new queues of a port, from a number on, into use, here and in other shards.
    fn use_queues(&mut self, at: usize, from: usize) {
        self.watch_queues(at, from);
        let branches = self.xdp.ports[at].as_mut().and_then(|port| Branches::of(at, port));
        self.xdp.news.extend(branches.map(|branches| News::Sockets(Arc::new(branches))));
        self.match_merging();
    }

    /// In generic mode the program sees what the system has merged already, which is longer than any frame or looks like a damaged one; and UDP is
    /// merged where a socket asks for it. So none of ours does then.
    fn match_merging(&mut self) {
        let unmerged = self.xdp.ports.iter().flatten().any(|port| !port.is_native());
        // Other shards are told: not all of them know of all interfaces.
        if self.xdp.steering.is_some() && unmerged != self.xdp.unmerged {
            self.merge_runs(!unmerged);
            self.xdp.news.push(News::Merge(!unmerged));
        }
    }

    pub(super) fn merge_runs(&mut self, on: bool) {
        self.xdp.unmerged = !on;
        self.sockets.iter().flatten().for_each(|socket| socket.merge_runs(on));
    }

    /// Asks epoll for frames of queues from a number on.
    fn watch_queues(&self, at: usize, from: usize) {
        let Some(Some(port)) = self.xdp.ports.get(at) else { return };
        for (queue, xsk) in port.queues.iter().enumerate().skip(from) {
            let token = Token::Xdp((at << 8 | queue) as u32);
            if let Err(errno) = self.watch(xsk.as_fd(), token, false) {
                tracing::error!(%errno, "a queue of {} is not heard", port.interface.name);
            }
        }
    }

    /// Takes what is this shard's of sockets that the first has opened.
    pub(super) fn take_branch(&mut self, shard: u8, branches: &Branches) {
        // Others than the first need these only here.
        let watched = self.watch_interfaces().map(drop);
        let watched = match &self.xdp.routes {
            None => watched.and_then(|()| self.watch_routes()),
            Some(_) => watched,
        };
        if let Err(error) = watched {
            tracing::warn!("shard {shard} sends by ordinary sockets: {error}");
        }
        let at = branches.at();
        self.xdp.ports.resize_with(self.xdp.ports.len().max(at + 1), || None);
        let known = self.xdp.ports[at].take();
        let before = known.as_ref().map_or(0, |port| port.queues.len());
        self.xdp.ports[at] = branches.take(shard, known);
        self.watch_queues(at, before);
        self.xdp.epoch = self.xdp.epoch.wrapping_add(1);
    }

    pub(super) fn close_port(&mut self, at: usize) {
        let Some(port) = self.xdp.ports.get_mut(at).and_then(Option::take) else { return };
        for xsk in &port.queues {
            // A socket whose interface is gone is watched even so.
            let _ = epoll::delete(&self.epoll, xsk);
        }
        if port.is_trunk() {
            tracing::info!("{} goes by ordinary sockets from now on", port.interface.name);
            self.xdp.news.push(News::Gone(at));
        }
        while self.xdp.ports.last().is_some_and(Option::is_none) {
            self.xdp.ports.pop();
        }
        self.match_merging();
        self.xdp.epoch = self.xdp.epoch.wrapping_add(1);
    }

    /// Routes or neighbours have changed.
    pub(super) fn routes_ready(&mut self) {
        let Some(routes) = &mut self.xdp.routes else { return };
        if let Err(errno) = routes.take_news() {
            tracing::error!(%errno, "the kernel tells nothing of routes and neighbours any more: UDP is sent by ordinary sockets");
            let _ = epoll::delete(&self.epoll, &routes.socket);
            self.xdp.routes = None;
        }
    }

    /// Receives frames of a queue; as much as may be taken at one time.
    pub(super) fn xdp_ready(
        &mut self,
        now: Instant,
        token: u32,
        flags: epoll::EventFlags,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let (at, queue) = ((token >> 8) as usize, (token & 0xff) as usize);
        if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            // Its interface is gone, or the system took the queue away.
            return self.close_port(at);
        }
        for _ in 0..self.config.udp_reads_per_turn {
            if !self.read_queue(now, at, queue, pool, batch) {
                break;
            }
        }
    }

    /// Receives up to [`FRAMES`] frames; true when there may be more.
    fn read_queue(
        &mut self,
        now: Instant,
        at: usize,
        queue: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(port)) = self.xdp.ports.get_mut(at) else { return false };
        let Some(xsk) = port.queues.get_mut(queue) else { return false };
        // Without a chunk nothing is read: the ring keeps it.
        let Some(chunk) = pool.take_chunk() else { return false };
        let mut arrived = ArrayVec::<Arrived, FRAMES>::new();
        let (mut end, mut others, mut received) = (0, 0, 0);
        let bytes = pool.chunk_bytes_mut(&chunk);
        // What is not for a lane goes to the first shard as it came.
        let whole = self.junior.is_some();
        let (more, congested) = xsk.receive(FRAMES as u32, |frame| {
            let Some(room) = bytes.get_mut(end..).filter(|room| room.len() >= frame.len()) else {
                return false;
            };
            received += 1;
            match take_apart(frame, room, whole) {
                Some(mut one) => {
                    one.range = end + one.range.start..end + one.range.end;
                    one.whole = end..end + one.whole.end;
                    end = one.range.end.max(one.whole.end).next_multiple_of(ALIGNED);
                    arrived.push(one);
                }
                None => others += 1,
            }
            true
        });
        port.counts.add_received(received);
        port.counts.add_others(others);
        let origin = Origin { port: at, interface: port.interface.index, own: port.mac };
        let mut before = Before::default();
        for one in &arrived {
            let payload = one.range.clone();
            let is_packet =
                |pool: &Pool| LpPacket::check(&pool.chunk_bytes(&chunk)[payload.clone()]).map(drop);
            match self.face_of_frame(now, one, origin, &mut before, is_packet, pool) {
                Ok((id, sender)) => {
                    let packet = pool.packet_in(&chunk, one.range.clone());
                    self.touch(id);
                    self.take_in(now, id, packet, (congested, sender), pool, batch);
                }
                Err(_) if self.junior.is_some() => {
                    let packet = pool.packet_in(&chunk, one.whole.clone());
                    self.keep_stray(Whence::Interface(origin.interface), packet);
                }
                Err(nobody) => self.count_nobody(origin.port, nobody),
            }
        }
        pool.release_chunk(chunk);
        more
    }

    /// Takes in a frame that another shard got and knows no face for, as if it had come by this shard's sockets.
    pub(super) fn take_frame(
        &mut self,
        now: Instant,
        interface: u32,
        packet: Packet,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let seen = self.xdp.port_on(interface).and_then(|at| Some((at, self.xdp.ports[at].as_ref()?)));
        let Some((port, own)) = seen.map(|(at, port)| (at, port.mac)) else {
            return pool.drop_packet(packet, Cause::FaceGone, &mut self.drops);
        };
        let origin = Origin { port, interface, own };
        let Some(one) = Arrived::read(pool.bytes(&packet)) else {
            self.count_nobody(port, Nobody::Others);
            return pool.release(packet);
        };
        pool.narrow(&packet, one.range.clone());
        let is_packet = |pool: &Pool| LpPacket::check(pool.bytes(&packet)).map(drop);
        match self.face_of_frame(now, &one, origin, &mut Before::default(), is_packet, pool) {
            Ok((id, sender)) => self.take_in(now, id, Some(packet), (false, sender), pool, batch),
            Err(nobody) => {
                self.count_nobody(port, nobody);
                pool.release(packet);
            }
        }
    }

    fn count_nobody(&mut self, port: usize, nobody: Nobody) {
        match nobody {
            Nobody::At(index, reason) => self.unheard(index, reason, 1),
            Nobody::Others => {
                if let Some(Some(port)) = self.xdp.ports.get_mut(port) {
                    port.counts.add_others(1);
                }
            }
        }
    }

    /// Whose a frame is, and what tells senders to a group apart.
    fn face_of_frame(
        &mut self,
        now: Instant,
        one: &Arrived,
        origin: Origin,
        before: &mut Before,
        is_packet: impl FnOnce(&Pool) -> Result<(), nw_wire::Error>,
        pool: &mut Pool,
    ) -> Result<(FaceId, u64), Nobody> {
        let Some((index, peer, sender)) = self.addressee(one, origin, before) else {
            return Err(Nobody::Others);
        };
        if let Some((_, id)) = before.from.filter(|(known, _)| *known == (index, peer)) {
            return Ok((id, sender));
        }
        let is_packet = is_packet(pool);
        let id =
            self.peer_face(now, index, peer, is_packet, pool).map_err(|reason| Nobody::At(index, reason))?;
        before.from = Some(((index, peer), id));
        Ok((id, sender))
    }

    /// Which socket's a frame is, who that takes it to be from, and what tells senders to a group apart. `None` when it is for somebody else.
    fn addressee(
        &self,
        one: &Arrived,
        Origin { interface, own, .. }: Origin,
        before: &mut Before,
    ) -> Option<(usize, Peer, u64)> {
        // What a switch sends back to us was ours.
        if one.source == own
            || one.source.is_group()
            || (one.destination != own && !one.destination.is_group())
        {
            return None;
        }
        let Some((source, destination)) = one.ends else {
            let (index, group) =
                self.sockets.iter().enumerate().find_map(|(at, socket)| match &socket.as_ref()?.medium {
                    Medium::Ether(port)
                        if (port.interface, port.vlan) == (interface, one.vlan.unwrap_or(0)) =>
                    {
                        Some((at, port.group))
                    }
                    _ => None,
                })?;
            let sender = Peer::Mac(one.source);
            return match one.destination {
                to if to == group => Some((index, Peer::Mac(group), sender.mark())),
                to if to == own => Some((index, sender, 0)),
                _ => None,
            };
        };
        // Datagrams of VLANs are the system's: it knows which of its interfaces they are for.
        if one.vlan.is_some() {
            return None;
        }
        if let Some((_, index)) = before.to.filter(|(to, _)| *to == destination) {
            let peer = Peer::Ip(frame::scoped(source, interface));
            let again = before.from.is_some_and(|(known, _)| known == (index, peer));
            return (again || self.is_somebody(source)).then_some((index, peer, 0));
        }
        let watched = self.interfaces.watched()?;
        if destination.ip().is_multicast() || one.destination.is_group() {
            let sockets = self.sockets.iter().enumerate();
            let (index, group) =
                sockets.into_iter().find_map(|(at, socket)| match &socket.as_ref()?.medium {
                    Medium::Group { interface: on, group, .. }
                        if *on == interface
                            && (group.ip(), group.port()) == (destination.ip(), destination.port()) =>
                    {
                        Some((at, *group))
                    }
                    _ => None,
                })?;
            let sender = Peer::Ip(frame::scoped(source, interface)).mark();
            return self.is_somebody(source).then_some((index, Peer::Ip(group), sender));
        }
        let ours = watched.iter().any(|interface| interface.addresses.contains(&destination.ip()));
        if !ours || !self.is_somebody(source) {
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
        before.to = Some((destination, index));
        Some((index, Peer::Ip(frame::scoped(source, interface)), 0))
    }

    /// False for addresses that nothing comes from by a wire: this machine's own, and those that are nobody's.
    fn is_somebody(&self, source: SocketAddr) -> bool {
        let ip = source.ip();
        let nobody = ip.is_loopback()
            || ip.is_unspecified()
            || ip.is_multicast()
            || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        let own = |interface: &Interface| interface.addresses.contains(&ip);
        !nobody && !self.interfaces.watched().is_some_and(|watched| watched.iter().any(own))
    }
}

impl Arrived {
    /// What matters of a frame.
    fn read(bytes: &[u8]) -> Option<Self> {
        let seen = frame::read(bytes).ok()?;
        let (ends, range) = match seen.body {
            Body::Ndn(_) if seen.double => return None,
            Body::Ndn(start) => (None, start..start + ether::packet_len(&bytes[start..])),
            Body::Udp { source, destination, payload } => (Some((source, destination)), payload),
        };
        let (destination, source, vlan) = (seen.destination, seen.source, seen.vlan);
        Some(Arrived { destination, source, vlan, ends, range, whole: 0..bytes.len() })
    }
}

/// What matters of a frame, its payload copied to the beginning of `room`; or the whole of it.
fn take_apart(bytes: &[u8], room: &mut [u8], whole: bool) -> Option<Arrived> {
    let mut one = Arrived::read(bytes)?;
    if whole {
        room.get_mut(..bytes.len())?.copy_from_slice(bytes);
    } else {
        let payload = &bytes[one.range.clone()];
        room.get_mut(..payload.len())?.copy_from_slice(payload);
        one.range = 0..payload.len();
        one.whole = 0..0;
    }
    Some(one)
}
