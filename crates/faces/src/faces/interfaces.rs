//! Faces of network interfaces: made when one appears that matches the policy, ended when it goes.

use super::Faces;
use super::face::Token;
use crate::config::FaceOptions;
use crate::datagram::ether::{self, Port};
use crate::datagram::{DatagramSocket, Medium, Peer};
use crate::error::FaceError;
use crate::interfaces::is_group_of_a_link;
use crate::interfaces::policy::{EtherPolicy, InterfacePolicy};
use crate::interfaces::{Interface, Interfaces};
use crate::status::{CloseReason, Persistency};
use crate::uri::FaceUri;
use nw_element::{FaceId, Instant, LinkType, Pool};
use rustix::event::epoll;
use std::net::SocketAddr;
use std::os::fd::AsFd;

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

    /// Ends what no longer fits, then makes what is missing.
    fn match_interfaces(&mut self, now: Instant, pool: &mut Pool) {
        for index in 0..self.sockets.len() {
            let fits = self.sockets[index].as_ref().is_none_or(|socket| self.still_there(socket));
            if !fits {
                self.end_socket(index, pool);
            }
        }
        let wanted = self.wanted();
        for id in core::mem::take(&mut self.interfaces.automatic) {
            match self.group_of(id) {
                Some(group) if wanted.contains(&group) => self.interfaces.automatic.push(id),
                Some(_) => self.end_face(id, CloseReason::InterfaceGone, pool),
                None => {}
            }
        }
        self.stop_listening_where_unwanted(&wanted);
        for wanted in wanted {
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

    /// What the policy calls a face to a group.
    fn group_of(&self, id: FaceId) -> Option<Wanted> {
        let sockets = self.sockets.iter().flatten();
        let socket = sockets
            .filter(|socket| socket.interface().is_some())
            .find(|s| s.peers.values().any(|p| *p == id))?;
        match &socket.medium {
            Medium::Udp(_) => None,
            Medium::Group { interface, group, .. } => Some(Wanted::Group(without_scope(*group), *interface)),
            Medium::Ether(port) => Some(Wanted::EtherGroup(port.clone())),
        }
    }

    /// Whether a socket's interface still is what it was when the socket was opened.
    fn still_there(&self, socket: &DatagramSocket) -> bool {
        let (Some(index), Some(watched)) = (socket.interface(), &self.interfaces.watched) else {
            return true;
        };
        let Some(interface) = watched.get(index) else { return false };
        match &socket.medium {
            Medium::Udp(_) => true,
            Medium::Group { local, .. } => interface.addresses.contains(&local.ip()),
            Medium::Ether(port) => Port::new(interface, port.group, port.vlan).is_ok_and(|now| now == *port),
        }
    }

    fn stop_listening_where_unwanted(&mut self, wanted: &[Wanted]) {
        for index in 0..self.sockets.len() {
            let Some(socket) = &mut self.sockets[index] else { continue };
            let Medium::Ether(port) = &socket.medium else { continue };
            if socket.listening && !wanted.contains(&Wanted::EtherListener(port.clone())) {
                socket.listening = false;
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
