//! Faces of network interfaces: created for interfaces that match the policy, down while their
//! interface is down, removed or without address.
//!
//! A face follows the name of its interface or, if that is renamed, the interface. It keeps its id,
//! and with it counters and routes, through all changes except one of the policy. It is closed when
//! its interface has been missing for five minutes.

use super::Faces;
use super::face::{Token, Transport};
use crate::config::FaceOptions;
use crate::datagram::ether::{self, EthernetInterface};
use crate::datagram::{DatagramSocket, Medium, Peer, Peers};
use crate::error::FaceError;
use crate::interfaces::is_group_of_a_link;
use crate::interfaces::policy::{EtherPolicy, InterfacePolicy};
use crate::interfaces::{Interface, Interfaces};
use crate::status::{CloseReason, FaceEvent};
use crate::timers::Timer;
use core::time::Duration;
use nw_element_api::{DropCause, FaceId, LinkType, Pool, Timestamp};
use nw_link::{DropRecorder, FaceUri, Persistency};
use rustix::event::epoll;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Pause before another attempt to open a socket on an interface that is up.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// The watched interfaces and the policy for them.
#[derive(Debug, Default)]
pub(super) struct InterfaceFaces {
    /// Opened when first needed.
    watched: Option<Interfaces>,
    policy: InterfacePolicy,
    /// Faces to groups that the policy created. May hold ids of closed ones.
    automatic: Vec<FaceId>,
}

impl InterfaceFaces {
    /// Returns the interfaces, if they are watched.
    pub(super) const fn watched(&self) -> Option<&Interfaces> {
        self.watched.as_ref()
    }

    pub(super) fn ether_policy(&self) -> EtherPolicy {
        self.policy.ethernet.clone().unwrap_or_default()
    }

    /// Returns the link type of a face to a peer.
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

/// Returns the interface of this name.
pub(super) fn interface_of<'a>(
    interfaces: &'a Interfaces,
    name: &str,
) -> Result<&'a Interface, FaceError> {
    interfaces.named(name).ok_or_else(|| FaceError::NoInterface(name.into()))
}

/// A socket that the policy requires.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequiredSocket {
    Group(SocketAddr, u32),
    EtherGroup(EthernetInterface),
    EtherListener(EthernetInterface),
}

impl Faces {
    /// Applies a policy: each matching interface gets its faces, now and whenever interfaces
    /// change. May be called again with another policy.
    ///
    /// # Errors
    /// If interfaces can't be read from the kernel, or Ethernet faces are required without the
    /// right to packet sockets. Failures of single interfaces are logged.
    pub fn set_interface_policy(
        &mut self,
        now: Timestamp,
        policy: InterfacePolicy,
        pool: &mut Pool,
    ) -> Result<(), FaceError> {
        let ethernet =
            policy.ethernet.as_ref().is_some_and(|ethernet| ethernet.multicast || ethernet.listen);
        if ethernet {
            ether::may_open()?;
        }
        if ethernet || policy.udp.is_some() {
            self.watch_interfaces()?;
        }
        self.interfaces.policy = policy;
        self.reconcile_interfaces(now, pool);
        self.reconcile_xdp(now);
        Ok(())
    }

    /// Processes changes of interfaces reported by the kernel.
    pub(super) fn interfaces_ready(&mut self, now: Timestamp, pool: &mut Pool) {
        let Some(watched) = &mut self.interfaces.watched else { return };
        match watched.process_events() {
            Ok(changed) => {
                // The first shard reports changes of faces that have replicas.
                if changed && self.secondary.is_none() {
                    self.reconcile_interfaces(now, pool);
                }
                // Queues may have been added, which the table does not show.
                self.reconcile_xdp(now);
            }
            Err(errno) => {
                tracing::error!(%errno, "the kernel no longer reports changes of network interfaces: their faces stay as they are; restart to watch them again");
                let _ = epoll::delete(&self.epoll, &watched.socket);
                self.interfaces.watched = None;
            }
        }
    }

    /// Returns the interfaces. Starts watching them at the first call.
    pub(super) fn watch_interfaces(&mut self) -> Result<&Interfaces, FaceError> {
        if self.interfaces.watched.is_none() {
            let watched = Interfaces::watch()?;
            self.watch(watched.socket.as_fd(), Token::Interfaces, false)
                .map_err(FaceError::system("watch", "network interfaces"))?;
            self.interfaces.watched = Some(watched);
        }
        self.interfaces.watched.as_ref().ok_or(FaceError::NoInterface("any".into()))
    }

    /// Creates a face to a UDP group on one interface: the one that `local` names, or that of the
    /// group's scope.
    pub(super) fn connect_group(
        &mut self,
        now: Timestamp,
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
        now: Timestamp,
        group: SocketAddr,
        interface: &Interface,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let existing =
            self.sockets.iter().flatten().find(|socket| is_member(socket, group, interface.index));
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

    /// Takes faces up and down with their interfaces, closes unwanted ones, and creates missing
    /// ones.
    pub(super) fn reconcile_interfaces(&mut self, now: Timestamp, pool: &mut Pool) {
        for index in 0..self.sockets.len() {
            self.follow_interface(now, index, pool);
        }
        for id in core::mem::take(&mut self.interfaces.automatic) {
            match self.is_covered(id) {
                Some(true) => self.interfaces.automatic.push(id),
                Some(false) => self.close_face(id, CloseReason::InterfaceGone, pool),
                None => {}
            }
        }
        self.stop_listening_where_unwanted();
        for wanted in self.required_sockets() {
            if let Err(error) = self.open_required(now, &wanted) {
                tracing::warn!("no faces on a network interface: {error}");
            }
        }
    }

    fn open_required(&mut self, now: Timestamp, wanted: &RequiredSocket) -> Result<(), FaceError> {
        let options =
            FaceOptions { persistency: Some(Persistency::Permanent), ..FaceOptions::default() };
        let made = match wanted {
            RequiredSocket::Group(group, interface) => {
                let interface =
                    self.interfaces.watched.as_ref().and_then(|watched| watched.get(*interface));
                let Some(interface) = interface.cloned() else { return Ok(()) };
                self.open_group(now, *group, &interface, &options)
            }
            RequiredSocket::EtherGroup(card) => {
                let index = self.open_ethernet(card.clone(), false)?;
                self.add_member(now, index, Peer::Mac(card.group), &options)
            }
            RequiredSocket::EtherListener(card) => {
                return self.open_ethernet(card.clone(), true).map(drop);
            }
        };
        match made {
            Ok(id) => self.interfaces.automatic.push(id),
            // It exists already, by the policy or by command.
            Err(FaceError::Exists(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn required_sockets(&self) -> Vec<RequiredSocket> {
        let mut wanted = Vec::new();
        let InterfaceFaces { watched: Some(watched), policy, .. } = &self.interfaces else {
            return wanted;
        };
        for interface in watched.iter() {
            if let Some(udp) = &policy.udp {
                wanted.extend(
                    udp.groups_on(interface)
                        .map(|group| RequiredSocket::Group(group, interface.index)),
                );
            }
            let Some(ethernet) =
                policy.ethernet.as_ref().filter(|ethernet| ethernet.accepts_usable(interface))
            else {
                continue;
            };
            let Ok(card) = EthernetInterface::new(interface, ethernet.group, ethernet.vlan) else {
                continue;
            };
            if ethernet.multicast && interface.multicast {
                wanted.push(RequiredSocket::EtherGroup(card.clone()));
            }
            if ethernet.listen {
                wanted.push(RequiredSocket::EtherListener(card));
            }
        }
        wanted
    }

    /// Returns whether the policy still requires a face to a group. `None` if the face is closed.
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
            Medium::Ether(card) => policy.ethernet.as_ref().is_some_and(|ethernet| {
                ethernet.multicast && self.matches_ether(socket, card, ethernet)
            }),
        })
    }

    fn matches_ether(
        &self,
        socket: &DatagramSocket,
        card: &EthernetInterface,
        ethernet: &EtherPolicy,
    ) -> bool {
        (card.group, card.vlan) == (ethernet.group, ethernet.vlan)
            && self.accepts(socket, |interface| ethernet.covers(interface))
    }

    /// Returns whether a filter accepts the interface of a socket. An interface that is down may
    /// have lost the addresses that the filter matches: then its last state counts.
    fn accepts(&self, socket: &DatagramSocket, filter: impl Fn(&Interface) -> bool) -> bool {
        let now = self.interface_of_socket(socket);
        match (socket.up, now, &socket.last_interface) {
            (true, Some(interface), _) => filter(interface),
            (false, Some(interface), Some(last)) => {
                filter(interface) || interface.name == last.name && filter(last)
            }
            // It is missing, and may return.
            (_, None, _) | (false, _, None) => true,
        }
    }

    /// Returns the interface of a socket: by name or, if it was renamed, by index.
    fn interface_of_socket(&self, socket: &DatagramSocket) -> Option<&Interface> {
        let watched = self.interfaces.watched.as_ref()?;
        let by_name = socket.interface_name().and_then(|name| watched.named(name));
        by_name.or_else(|| socket.interface().and_then(|number| watched.get(number)))
    }

    /// Takes the faces of a socket up or down with its interface.
    fn follow_interface(&mut self, now: Timestamp, index: usize, pool: &mut Pool) {
        let Some(socket) = &self.sockets[index] else { return };
        if socket.interface().is_none() || self.interfaces.watched.is_none() {
            return;
        }
        let Some(interface) = self.interface_of_socket(socket).cloned() else {
            return self.handle_missing_interface(now, index, pool);
        };
        let (usable, is_same) = match &socket.medium {
            Medium::Udp(_) => return,
            Medium::Group { interface: number, name, local, group } => {
                let address = interface.addresses.contains(&local.ip());
                let same = (*number, &**name, address) == (interface.index, &*interface.name, true);
                (interface.multicast && interface.address_like(group.ip()).is_some(), same)
            }
            Medium::Ether(card) => {
                let at_present = EthernetInterface::new(&interface, card.group, card.vlan).ok();
                (at_present.is_some(), at_present.as_ref() == Some(card))
            }
        };
        if !interface.up || !usable {
            self.suspend_socket(index, pool);
            if let Some(socket) = &mut self.sockets[index] {
                socket.missing_since = None;
            }
            return;
        }
        if !(socket.up && is_same)
            && let Err(error) = self.resume_socket(index, &interface, pool)
        {
            tracing::warn!(
                "faces of {} stay down, next try in {REOPEN_PAUSE:?}: {error}",
                interface.name
            );
            self.suspend_socket(index, pool);
            return self.timers.set(now + REOPEN_PAUSE, Timer::Interfaces);
        }
        if let Some(socket) = &mut self.sockets[index] {
            socket.last_interface = Some(Box::new(interface));
        }
    }

    /// Takes the faces of a missing interface down, and closes them after the grace period.
    fn handle_missing_interface(&mut self, now: Timestamp, index: usize, pool: &mut Pool) {
        self.suspend_socket(index, pool);
        let Some(socket) = &mut self.sockets[index] else { return };
        match socket.missing_since {
            None => {
                socket.missing_since = Some(now);
                self.timers.set(now + self.config.interface_grace, Timer::Interfaces);
            }
            Some(since) if now >= since + self.config.interface_grace => {
                self.close_socket_faces(index, pool)
            }
            Some(_) => {}
        }
    }

    /// Takes the faces of a socket down, as their interface is; they keep id, counters and routes.
    fn suspend_socket(&mut self, index: usize, pool: &mut Pool) {
        let Some(socket) = self.sockets[index].as_mut().filter(|socket| socket.up) else { return };
        socket.up = false;
        socket.dirty.clear();
        let _ = epoll::delete(&self.epoll, &socket.socket);
        let (slots, drops) = (&mut self.slots, &mut self.drops);
        socket.clear_queue(|id| {
            if let Some(face) = slots.get_mut(id) {
                DropRecorder { face: &mut face.counters, total: drops }
                    .record(DropCause::FaceDown, 1);
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
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        for item in outbox.items() {
            drops.face.uncount_out(item.kind, outbox.item_len(item, pool));
            drops.record(DropCause::FaceDown, 1);
        }
        if let Transport::Datagram { pacer, .. } = &mut face.transport {
            drops.record(DropCause::FaceDown, pacer.queue.clear() as u64);
            if let Some(due) = pacer.timer.take() {
                self.timers.cancel(due, Timer::Pacing(id));
            }
        }
        let queued = face.queued_memory_bytes();
        self.send_budget.recharge(&mut face.charged, queued);
        self.recycle_outbox(outbox, pool);
        self.events.push(FaceEvent::Down(id));
    }

    /// Reopens a socket on the current state of its interface, and takes its faces up.
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
            Medium::Ether(card) => {
                let card = EthernetInterface::new(interface, card.group, card.vlan)?;
                DatagramSocket::ether(card, old.listening, &self.config)?
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
        // A link-local group's address includes the interface's index, which may have changed.
        if let Medium::Group { group, .. } = fresh.medium {
            let ids: Vec<FaceId> = fresh.peers.values().copied().collect();
            fresh.peers = Peers::new();
            ids.into_iter().for_each(|id| fresh.peers.insert(Peer::Ip(group), id));
        }
        let (local, mtu) = (fresh.local_uri(), fresh.link_mtu(&self.config));
        let mut faces: Vec<(FaceId, Peer)> =
            fresh.peers.iter().map(|(peer, id)| (*id, *peer)).collect();
        faces.sort_unstable_by_key(|(id, _)| *id);
        self.sockets[index] = Some(fresh);
        self.xdp.changed = true;
        for (id, peer) in faces {
            let Some(face) = self.slots.get_mut(id) else { continue };
            face.down = false;
            face.local_uri = local.clone();
            face.uri = peer.uri();
            face.link.apply_settings(face.link.settings().clone().with_transport_mtu(mtu));
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
            let Medium::Ether(card) = &socket.medium else { continue };
            let is_wanted = |ethernet: &EtherPolicy| {
                ethernet.listen && self.matches_ether(socket, card, ethernet)
            };
            let wanted = self.interfaces.policy.ethernet.as_ref().is_some_and(is_wanted);
            if socket.listening && !wanted {
                if let Some(socket) = &mut self.sockets[index] {
                    socket.listening = false;
                }
                self.drop_socket_without_peers(index);
            }
        }
    }

    fn close_socket_faces(&mut self, index: usize, pool: &mut Pool) {
        let Some(socket) = &mut self.sockets[index] else { return };
        // The socket is then closed with its last face.
        socket.listening = false;
        let mut ids: Vec<FaceId> = socket.peers.values().copied().collect();
        ids.sort_unstable();
        ids.into_iter().for_each(|id| self.close_face(id, CloseReason::InterfaceGone, pool));
        self.drop_socket_without_peers(index);
    }
}

fn is_member(socket: &DatagramSocket, wanted: SocketAddr, index: u32) -> bool {
    matches!(&socket.medium, Medium::Group { interface, group, .. }
        if *interface == index && without_scope(*group) == without_scope(wanted))
}

/// Returns the group as configurations name it: without interface index.
fn without_scope(group: SocketAddr) -> SocketAddr {
    SocketAddr::new(group.ip(), group.port())
}
