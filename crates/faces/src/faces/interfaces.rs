//! Faces of network interfaces: made when one appears that matches the policy, down while it is down, gone or without address.
//!
//! A face belongs to the name of its interface; when that is renamed, to the interface. It keeps its id, and with it counters and routes,
//! through every change but one of the policy. When its interface has been gone for five minutes it ends.

use super::Faces;
use super::face::{Token, Transport};
use crate::config::FaceOptions;
use crate::datagram::ether::{self, Port};
use crate::datagram::{DatagramSocket, Medium, Peer, Peers};
use crate::error::FaceError;
use crate::interfaces::is_group_of_a_link;
use crate::interfaces::policy::{EtherPolicy, InterfacePolicy};
use crate::interfaces::{Interface, Interfaces};
use crate::link::Tally;
use crate::status::{CloseReason, FaceEvent, Persistency};
use crate::timers::Timer;
use crate::uri::FaceUri;
use core::time::Duration;
use nw_element_api::{Cause, FaceId, Instant, LinkType, Pool};
use rustix::event::epoll;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// A socket that could not be opened on an interface that is up is tried again after so long.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// What is known of interfaces, and what is to be done with them.
#[derive(Debug, Default)]
pub(super) struct InterfaceFaces {
    /// From the moment it is first needed.
    watched: Option<Interfaces>,
    policy: InterfacePolicy,
    /// Faces to groups that the policy made. May hold ended ones.
    automatic: Vec<FaceId>,
}

impl InterfaceFaces {
    /// The interfaces there are, if anybody needed to know yet.
    pub(super) const fn watched(&self) -> Option<&Interfaces> {
        self.watched.as_ref()
    }

    pub(super) fn ether_policy(&self) -> EtherPolicy {
        self.policy.ethernet.clone().unwrap_or_default()
    }

    /// Who hears what is sent to a peer.
    pub(super) fn link_type(&self, peer: Peer) -> LinkType {
        let ad_hoc = match peer {
            Peer::Ip(_) => self.policy.udp.as_ref().is_some_and(|policy| policy.ad_hoc),
            Peer::Mac(_) => self.policy.ethernet.as_ref().is_some_and(|policy| policy.ad_hoc),
        };
        match (peer.is_group(), ad_hoc) {
            (false, _) => LinkType::PointToPoint,
            (true, false) => LinkType::MultiAccess,
            (true, true) => LinkType::AdHoc,
        }
    }
}

/// The interface of a name.
pub(super) fn interface_of<'a>(interfaces: &'a Interfaces, name: &str) -> Result<&'a Interface, FaceError> {
    interfaces.named(name).ok_or_else(|| FaceError::NoInterface(name.into()))
}

/// A socket that the policy wants, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Group(SocketAddr, u32),
    EtherGroup(Port),
    EtherListener(Port),
}

impl Faces {
    /// Gives each interface that matches the faces it is to have, now and as interfaces come and go. May be called again with another policy.
    ///
    /// # Errors
    /// When the kernel can't be asked for interfaces, or Ethernet is wanted without the right to it. Interfaces that can't have their faces for
    /// reasons of their own are logged.
    pub fn set_interface_policy(
        &mut self,
        now: Instant,
        policy: InterfacePolicy,
        pool: &mut Pool,
    ) -> Result<(), FaceError> {
        let ethernet = policy.ethernet.as_ref().is_some_and(|ethernet| ethernet.multicast || ethernet.listen);
        if ethernet {
            ether::may_open()?;
        }
        if ethernet || policy.udp.is_some() {
            self.watch_interfaces()?;
        }
        self.interfaces.policy = policy;
        self.match_interfaces(now, pool);
        self.match_xdp(now);
        Ok(())
    }

    /// Interfaces have changed.
    pub(super) fn interfaces_ready(&mut self, now: Instant, pool: &mut Pool) {
        let Some(watched) = &mut self.interfaces.watched else { return };
        match watched.take_news() {
            Ok(changed) => {
                // Of faces that shards have lanes of, the first shard tells.
                if changed && self.junior.is_none() {
                    self.match_interfaces(now, pool);
                }
                // Queues may have come, of which the table knows nothing.
                self.match_xdp(now);
            }
            Err(errno) => {
                tracing::error!(%errno, "the kernel tells nothing of network interfaces any more: their faces stay as they are");
                let _ = epoll::delete(&self.epoll, &watched.socket);
                self.interfaces.watched = None;
            }
        }
    }

    /// The interfaces, watched from now on.
    pub(super) fn watch_interfaces(&mut self) -> Result<&Interfaces, FaceError> {
        if self.interfaces.watched.is_none() {
            let watched = Interfaces::watch()?;
            self.watch(watched.socket.as_fd(), Token::Interfaces, false)
                .map_err(FaceError::system("watch", "network interfaces"))?;
            self.interfaces.watched = Some(watched);
        }
        self.interfaces.watched.as_ref().ok_or(FaceError::NoInterface("any".into()))
    }

    /// Makes a face to a UDP group on one interface: the one that `local` names, or the group's address.
    pub(super) fn connect_group(
        &mut self,
        now: Instant,
        group: SocketAddr,
        local: Option<&FaceUri>,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let interfaces = self.watch_interfaces()?;
        let interface = match (local, group) {
            (Some(FaceUri::Dev(name)), _) => interface_of(interfaces, name)?,
            (Some(FaceUri::Udp(local)), _) => interfaces
                .iter()
                .find(|interface| interface.addresses.contains(&local.ip()))
                .ok_or_else(|| FaceError::NoInterface(local.ip().to_string().into()))?,
            (None, SocketAddr::V6(v6)) if v6.scope_id() != 0 => interfaces
                .get(v6.scope_id())
                .ok_or_else(|| FaceError::NoInterface(v6.scope_id().to_string().into()))?,
            (None, _) => return Err(FaceError::InterfaceNeeded(FaceUri::Udp(group))),
            (Some(other), _) => return Err(FaceError::Scheme(other.clone())),
        };
        if !is_group_of_a_link(group.ip()) {
            return Err(FaceError::Scheme(FaceUri::Udp(group)));
        }
        let interface = interface.clone();
        self.open_group(now, group, &interface, options)
    }

    fn open_group(
        &mut self,
        now: Instant,
        group: SocketAddr,
        interface: &Interface,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let existing = self.sockets.iter().flatten().find(|socket| is_member(socket, group, interface.index));
        if let Some(id) = existing.and_then(|socket| socket.peers.values().next()) {
            return Err(FaceError::Exists(*id));
        }
        let socket = DatagramSocket::join(group, interface, &self.config)?;
        let group = match socket.medium {
            Medium::Group { group, .. } => group,
            _ => group,
        };
        let index = self.add_socket(socket)?;
        self.add_member(now, index, Peer::Ip(group), options)
    }

    /// Takes faces up and down with their interfaces, ends those that are not wanted any more, then makes what is missing.
    pub(super) fn match_interfaces(&mut self, now: Instant, pool: &mut Pool) {
        for index in 0..self.sockets.len() {
            self.follow_interface(now, index, pool);
        }
        for id in core::mem::take(&mut self.interfaces.automatic) {
            match self.is_covered(id) {
                Some(true) => self.interfaces.automatic.push(id),
                Some(false) => self.end_face(id, CloseReason::InterfaceGone, pool),
                None => {}
            }
        }
        self.stop_listening_where_unwanted();
        for wanted in self.wanted() {
            if let Err(error) = self.make(now, &wanted) {
                tracing::warn!("a network interface is left out: {error}");
            }
        }
    }

    fn make(&mut self, now: Instant, wanted: &Wanted) -> Result<(), FaceError> {
        let options = FaceOptions { persistency: Some(Persistency::Permanent), ..FaceOptions::default() };
        let made = match wanted {
            Wanted::Group(group, interface) => {
                let interface = self.interfaces.watched.as_ref().and_then(|watched| watched.get(*interface));
                let Some(interface) = interface.cloned() else { return Ok(()) };
                self.open_group(now, *group, &interface, &options)
            }
            Wanted::EtherGroup(port) => {
                let index = self.open_port(port.clone(), false)?;
                self.add_member(now, index, Peer::Mac(port.group), &options)
            }
            Wanted::EtherListener(port) => return self.open_port(port.clone(), true).map(drop),
        };
        match made {
            Ok(id) => self.interfaces.automatic.push(id),
            // There already, by the policy or by command.
            Err(FaceError::Exists(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn wanted(&self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let InterfaceFaces { watched: Some(watched), policy, .. } = &self.interfaces else { return wanted };
        for interface in watched.iter() {
            if let Some(udp) = &policy.udp {
                wanted.extend(udp.groups_on(interface).map(|group| Wanted::Group(group, interface.index)));
            }
            let Some(ethernet) = policy.ethernet.as_ref().filter(|ethernet| ethernet.wants(interface)) else {
                continue;
            };
            let Ok(port) = Port::new(interface, ethernet.group, ethernet.vlan) else { continue };
            if ethernet.multicast && interface.multicast {
                wanted.push(Wanted::EtherGroup(port.clone()));
            }
            if ethernet.listen {
                wanted.push(Wanted::EtherListener(port));
            }
        }
        wanted
    }

    /// Whether the policy still wants a face to a group; `None` when the face has ended.
    fn is_covered(&self, id: FaceId) -> Option<bool> {
        let face = self.slots.get(id)?;
        let Transport::Datagram { socket, .. } = &face.transport else { return None };
        let socket = self.sockets[*socket].as_ref()?;
        let InterfaceFaces { policy, .. } = &self.interfaces;
        Some(match &socket.medium {
            Medium::Udp(_) => false,
            Medium::Group { group, .. } => policy.udp.as_ref().is_some_and(|udp| {
                self.accepts(socket, |interface| udp.covers(without_scope(*group), interface))
            }),
            Medium::Ether(port) => policy
                .ethernet
                .as_ref()
                .is_some_and(|ethernet| ethernet.multicast && self.has_ether(socket, port, ethernet)),
        })
    }

    fn has_ether(&self, socket: &DatagramSocket, port: &Port, ethernet: &EtherPolicy) -> bool {
        (port.group, port.vlan) == (ethernet.group, ethernet.vlan)
            && self.accepts(socket, |interface| ethernet.covers(interface))
    }

    /// Whether a filter accepts the interface of a socket. One that is down may have lost addresses that the filter asks for: then it counts as
    /// it was.
    fn accepts(&self, socket: &DatagramSocket, filter: impl Fn(&Interface) -> bool) -> bool {
        let now = self.interface_of_socket(socket);
        match (socket.up, now, &socket.seen) {
            (true, Some(interface), _) => filter(interface),
            (false, Some(interface), Some(seen)) => {
                filter(interface) || interface.name == seen.name && filter(seen)
            }
            // It is gone, and may come again.
            (_, None, _) | (false, _, None) => true,
        }
    }

    /// The interface of a socket: that of its name, and where none has that name any more, that of its number, as it was renamed.
    fn interface_of_socket(&self, socket: &DatagramSocket) -> Option<&Interface> {
        let watched = self.interfaces.watched.as_ref()?;
        let by_name = socket.interface_name().and_then(|name| watched.named(name));
        by_name.or_else(|| socket.interface().and_then(|number| watched.get(number)))
    }

    /// Takes the faces of a socket up or down with its interface.
    fn follow_interface(&mut self, now: Instant, index: usize, pool: &mut Pool) {
        let Some(socket) = &self.sockets[index] else { return };
        if socket.interface().is_none() || self.interfaces.watched.is_none() {
            return;
        }
        let Some(interface) = self.interface_of_socket(socket).cloned() else {
            return self.await_interface(now, index, pool);
        };
        let (usable, is_same) = match &socket.medium {
            Medium::Udp(_) => return,
            Medium::Group { interface: number, name, local, group } => {
                let address = interface.addresses.contains(&local.ip());
                let same = (*number, &**name, address) == (interface.index, &*interface.name, true);
                (interface.multicast && interface.address_like(group.ip()).is_some(), same)
            }
            Medium::Ether(port) => {
                let at_present = Port::new(&interface, port.group, port.vlan).ok();
                (at_present.is_some(), at_present.as_ref() == Some(port))
            }
        };
        if !interface.up || !usable {
            self.suspend_socket(index, pool);
            if let Some(socket) = &mut self.sockets[index] {
                socket.gone_since = None;
            }
            return;
        }
        if !(socket.up && is_same)
            && let Err(error) = self.resume_socket(index, &interface, pool)
        {
            tracing::warn!("faces of {} stay down, next try in {REOPEN_PAUSE:?}: {error}", interface.name);
            self.suspend_socket(index, pool);
            return self.timers.set(now + REOPEN_PAUSE, Timer::Interfaces);
        }
        if let Some(socket) = &mut self.sockets[index] {
            socket.seen = Some(Box::new(interface));
        }
    }

    /// The interface of a socket is gone. Its faces stay for a while, in case one of that name appears.
    fn await_interface(&mut self, now: Instant, index: usize, pool: &mut Pool) {
        self.suspend_socket(index, pool);
        let Some(socket) = &mut self.sockets[index] else { return };
        match socket.gone_since {
            None => {
                socket.gone_since = Some(now);
                self.timers.set(now + self.config.interface_grace, Timer::Interfaces);
            }
            Some(since) if now >= since + self.config.interface_grace => self.end_socket(index, pool),
            Some(_) => {}
        }
    }

    /// The interface of a socket is down: so are its faces, which keep id, counters and routes.
    fn suspend_socket(&mut self, index: usize, pool: &mut Pool) {
        let Some(socket) = self.sockets[index].as_mut().filter(|socket| socket.up) else { return };
        socket.up = false;
        socket.dirty.clear();
        let _ = epoll::delete(&self.epoll, &socket.socket);
        let (slots, drops) = (&mut self.slots, &mut self.drops);
        socket.clear_queue(|id| {
            if let Some(face) = slots.get_mut(id) {
                Tally { face: &mut face.counters, all: drops }.drops(Cause::FaceDown, 1);
            }
        });
        self.send_budget.recharge(&mut socket.charged, 0);
        let mut ids: Vec<FaceId> = socket.peers.values().copied().collect();
        ids.sort_unstable();
        for id in ids {
            self.suspend_face(id, pool);
        }
        self.xdp.changed = true;
    }

    fn suspend_face(&mut self, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        face.down = true;
        face.dirty = false;
        let outbox = core::mem::take(&mut face.outbox);
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        for item in outbox.items() {
            tally.face.take_back(item.kind, outbox.item_len(item, pool));
            tally.drops(Cause::FaceDown, 1);
        }
        if let Transport::Datagram { burst, .. } = &mut face.transport {
            tally.drops(Cause::FaceDown, burst.waiting.clear() as u64);
            if let Some(due) = burst.timer.take() {
                self.timers.cancel(due, Timer::Burst(id));
            }
        }
        let held = face.held_bytes();
        self.send_budget.recharge(&mut face.charged, held);
        self.put_back(outbox, pool);
        self.events.push(FaceEvent::Down(id));
    }

    /// Opens a socket again, on its interface as it is now, and takes its faces up.
    fn resume_socket(
        &mut self,
        index: usize,
        interface: &Interface,
        pool: &mut Pool,
    ) -> Result<(), FaceError> {
        let Some(old) = &self.sockets[index] else { return Ok(()) };
        let mut fresh = match &old.medium {
            Medium::Udp(_) => return Ok(()),
            Medium::Group { group, .. } => {
                DatagramSocket::join(without_scope(*group), interface, &self.config)?
            }
            Medium::Ether(port) => {
                let port = Port::new(interface, port.group, port.vlan)?;
                DatagramSocket::ether(port, old.listening, &self.config)?
            }
        };
        self.watch(fresh.socket.as_fd(), Token::Datagram(index as u32), false)
            .map_err(FaceError::system("watch", fresh.local_uri()))?;
        if self.xdp.unmerged {
            fresh.merge_runs(false);
        }
        self.suspend_socket(index, pool);
        let Some(mut old) = self.sockets[index].take() else { return Ok(()) };
        fresh.replace(&mut old);
        // The address of a group of one link says the interface's number, which may be another one.
        if let Medium::Group { group, .. } = fresh.medium {
            let ids: Vec<FaceId> = fresh.peers.values().copied().collect();
            fresh.peers = Peers::new();
            ids.into_iter().for_each(|id| fresh.peers.insert(Peer::Ip(group), id));
        }
        let (local, mtu) = (fresh.local_uri(), fresh.link_mtu(&self.config));
        let mut faces: Vec<(FaceId, Peer)> = fresh.peers.iter().map(|(peer, id)| (*id, *peer)).collect();
        faces.sort_unstable_by_key(|(id, _)| *id);
        self.sockets[index] = Some(fresh);
        self.xdp.changed = true;
        for (id, peer) in faces {
            let Some(face) = self.slots.get_mut(id) else { continue };
            face.down = false;
            face.local_uri = local.clone();
            face.uri = peer.uri();
            face.link.set(face.link.settings().clone().with_transport_mtu(mtu));
            if let Transport::Datagram { peer: known, run_datagram_max, .. } = &mut face.transport {
                (*known, *run_datagram_max) = (peer, usize::MAX);
            }
            self.events.push(FaceEvent::Up(id));
        }
        Ok(())
    }

    fn stop_listening_where_unwanted(&mut self) {
        for index in 0..self.sockets.len() {
            let Some(socket) = &self.sockets[index] else { continue };
            let Medium::Ether(port) = &socket.medium else { continue };
            let is_wanted =
                |ethernet: &EtherPolicy| ethernet.listen && self.has_ether(socket, port, ethernet);
            let wanted = self.interfaces.policy.ethernet.as_ref().is_some_and(is_wanted);
            if socket.listening && !wanted {
                if let Some(socket) = &mut self.sockets[index] {
                    socket.listening = false;
                }
                self.drop_socket_without_peers(index);
            }
        }
    }

    fn end_socket(&mut self, index: usize, pool: &mut Pool) {
        let Some(socket) = &mut self.sockets[index] else { return };
        // It ends with its last face then.
        socket.listening = false;
        let mut ids: Vec<FaceId> = socket.peers.values().copied().collect();
        ids.sort_unstable();
        ids.into_iter().for_each(|id| self.end_face(id, CloseReason::InterfaceGone, pool));
        self.drop_socket_without_peers(index);
    }
}

fn is_member(socket: &DatagramSocket, wanted: SocketAddr, on: u32) -> bool {
    matches!(&socket.medium, Medium::Group { interface, group, .. }
        if *interface == on && without_scope(*group) == without_scope(wanted))
}

/// As configurations have it, which know no numbers of interfaces.
fn without_scope(group: SocketAddr) -> SocketAddr {
    SocketAddr::new(group.ip(), group.port())
}
