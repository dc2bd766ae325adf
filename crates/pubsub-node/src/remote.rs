//! Between the state of this node and the domain: items and publications of other nodes, and the
//! sockets.

use crate::domain::{DomainEvent, NodeId, Target};
use crate::node::Node;
use crate::publisher::{Origin, Publisher};
use crate::rules::Party;
use crate::session::PublisherId;
use nw_api::config::PubSub;
use nw_api::pubsub::{Event, ItemName};
use nw_faces::interfaces::Interfaces;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Multicast group of hellos: administratively scoped to this link by a TTL of 1.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 80, 83);
/// Bytes of the socket's buffers, where the system permits.
const SOCKET_BUFFER: usize = 8 << 20;
/// Packets received per step.
const RECEIVES_PER_STEP: usize = 512;
/// Bytes of a packet at most.
const PACKET_LEN: usize = 9000;

impl Node {
    /// Returns when the domain needs to run, milliseconds. `None` without a domain.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.domain.as_ref().map(|domain| domain.deadline_ms())
    }

    /// Does what is due in the domain, and handles its events.
    pub fn run_domain(&mut self, now_ms: u64) {
        if self.domain.is_none() {
            return;
        }
        if core::mem::take(&mut self.patterns_changed) {
            let patterns = self.index.patterns().cloned().collect();
            if let Some(domain) = &mut self.domain {
                domain.set_patterns(patterns);
            }
            self.drop_unwanted_items();
        }
        let Some(domain) = &mut self.domain else { return };
        domain.tick(now_ms);
        let events = core::mem::take(&mut domain.events);
        let mut has_changed = false;
        for event in events {
            match event {
                DomainEvent::Changed => has_changed = true,
                DomainEvent::Publication {
                    node,
                    name,
                    sequence,
                    payload,
                    keeps_last,
                    is_last_value,
                } => {
                    let flags = (keeps_last, is_last_value);
                    self.receive_publication(node, &name, sequence, &payload, flags);
                }
                DomainEvent::Missing { node, name, last } => self.miss(node, &name, last),
                DomainEvent::End { node, name } => {
                    if let Some((id, number)) = self.remote_item(node, &name) {
                        self.end_item(id, number);
                    }
                }
            }
        }
        if has_changed {
            self.update_all_nodes();
        }
    }

    /// Handles a packet.
    pub fn receive_packet(&mut self, now_ms: u64, from: SocketAddr, bytes: &[u8]) {
        if let Some(domain) = &mut self.domain {
            domain.receive(now_ms, from, bytes);
        }
    }

    fn remote_item(&self, node: NodeId, name: &ItemName) -> Option<(PublisherId, u32)> {
        let id = *self.remotes.get(&node)?;
        self.index.named(name).find(|(publisher, _)| *publisher == id)
    }

    /// Takes a publication of another node.
    fn receive_publication(
        &mut self,
        node: NodeId,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        (keeps_last, is_last_value): (bool, bool),
    ) {
        let (id, number) = match self.remote_item(node, name) {
            Some(found) => found,
            None => {
                let Some(found) = self.add_remote_item(
                    node,
                    name,
                    sequence,
                    payload,
                    (keeps_last, is_last_value),
                ) else {
                    return;
                };
                if is_last_value {
                    return;
                }
                found
            }
        };
        let ring = self.publishers.get(&id).and_then(|publisher| publisher.ring.as_ref());
        let last = ring.and_then(|ring| ring.reader.sequence(number)).unwrap_or(0);
        if sequence <= last {
            return;
        }
        self.write_publication(id, number, sequence, payload);
        if let Some(domain) = &mut self.domain {
            domain.count_delivery(1, sequence - last - 1);
        }
    }

    /// Announces an item of another node to the applications of this one. A last value is in the
    /// ring before they are attached, for those that want it.
    fn add_remote_item(
        &mut self,
        node: NodeId,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        (keeps_last, is_last_value): (bool, bool),
    ) -> Option<(PublisherId, u32)> {
        let id = match self.remotes.get(&node) {
            Some(id) => *id,
            None => {
                let id = self.new_id();
                self.publishers.insert(id, Publisher::new(Origin::Node(node)));
                self.remotes.insert(node, id);
                id
            }
        };
        let ring = self.ring_for(id).map_err(|text| tracing::error!("{text}")).ok()?;
        let items_max = ring.size.items;
        let number = self.publishers.get(&id)?.free_item(items_max)?;
        let ring = self.ring_for(id).ok()?;
        if let Some(writer) = &ring.writer {
            writer.start_item(number, sequence.saturating_sub(1));
        }
        if is_last_value && ring.holds(payload.len()) {
            ring.publish(number, sequence, payload);
        }
        match self.add_item(id, number, name.clone(), keeps_last) {
            Ok(()) => Some((id, number)),
            Err((_, text)) => {
                self.counters.refusals += 1;
                tracing::debug!(%node, "item of another node refused: {text}");
                None
            }
        }
    }

    /// Tells the subscribers of an item that publications are lost on the way to this node.
    fn miss(&mut self, node: NodeId, name: &ItemName, last: u64) {
        let Some((id, number)) = self.remote_item(node, name) else { return };
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(ring) = &mut publisher.ring else { return };
        let before = ring.reader.sequence(number).unwrap_or(0);
        if last > before {
            ring.report_missing(number, last);
            publisher.wake_users();
            self.ready.insert(id);
            if let Some(domain) = &mut self.domain {
                domain.count_delivery(0, last - before);
            }
        }
    }

    /// Ends the items of other nodes that no application of this node subscribes to.
    fn drop_unwanted_items(&mut self) {
        let mut unwanted = Vec::new();
        for (id, publisher) in &self.publishers {
            let Origin::Node(node) = publisher.origin else { continue };
            let items = publisher.items.iter().filter(|(_, item)| item.subscribers.is_empty());
            unwanted.extend(items.map(|(number, item)| (*id, *number, node, item.name.clone())));
        }
        for (id, number, node, name) in unwanted {
            self.end_item(id, number);
            if let Some(domain) = &mut self.domain {
                domain.forget(node, &name);
            }
        }
    }

    /// Finds the subscribed nodes of all items again, after a change of the domain.
    fn update_all_nodes(&mut self) {
        let of_applications =
            self.publishers.iter().filter(|(_, p)| p.origin == Origin::Application);
        let items: Vec<(PublisherId, u32)> = of_applications
            .flat_map(|(id, publisher)| publisher.items.keys().map(|number| (*id, *number)))
            .collect();
        for (id, number) in items {
            self.update_nodes(id, number);
        }
        let Some(domain) = &self.domain else { return };
        let gone: Vec<(NodeId, PublisherId)> = self
            .remotes
            .iter()
            .filter(|(node, _)| !domain.is_known(**node))
            .map(|(node, id)| (*node, *id))
            .collect();
        for (node, id) in gone {
            self.end_publisher(id);
            self.remotes.remove(&node);
        }
    }

    /// Finds the subscribed nodes of an item, and tells new ones where it stands.
    pub(crate) fn update_nodes(&mut self, id: PublisherId, number: u32) {
        let Some(domain) = &mut self.domain else { return };
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(item) = publisher.items.get_mut(&number) else { return };
        let nodes = match self.rules.may_subscribe(item.rule, Party::Remote) {
            true => domain.subscribers(&item.name),
            false => BTreeSet::new(),
        };
        if nodes == item.nodes {
            return;
        }
        let added: BTreeSet<NodeId> = nodes.difference(&item.nodes).copied().collect();
        item.nodes = nodes;
        let (count, needs_node) = (item.subscriber_count(), item.needs_node());
        let Some(ring) = &mut publisher.ring else { return };
        if !needs_node {
            ring.reader.unfollow(number);
        } else if !added.is_empty() {
            let last = ring.reader.sequence(number).unwrap_or(0);
            let value = match item.keeps_last {
                true => ring.reader.peek_last(number, &mut self.buffer),
                false => None,
            };
            let value = value.map(|(sequence, len)| (sequence, &self.buffer[..len]));
            domain.start_item(&item.name, last, value, &added);
        }
        if needs_node {
            self.follow(id, number);
        }
        self.send(id, &Event::Subscribers { item: number, count }, None, true);
    }
}

/// The sockets of the domain.
#[derive(Debug)]
pub struct DomainSockets {
    socket: OwnedFd,
    interfaces: Interfaces,
    /// Names of the interfaces to use; empty for all.
    names: Vec<String>,
    /// Interfaces that joined the group.
    joined: BTreeSet<u32>,
    port: u16,
    buffer: Vec<u8>,
}

impl DomainSockets {
    /// Opens the UDP socket, and watches the network interfaces.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn open(config: &PubSub) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        let port = config.port as u16;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
        sockopt::set_ip_multicast_ttl(&socket, 1)?;
        // Without the right to exceed it, the system's limit is used.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER));
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER));
        let interfaces = Interfaces::watch().map_err(|_| Errno::IO)?;
        let mut sockets = DomainSockets {
            socket,
            interfaces,
            names: config.interfaces.clone(),
            joined: BTreeSet::new(),
            port,
            buffer: vec![0; PACKET_LEN],
        };
        sockets.join();
        Ok(sockets)
    }

    /// Returns the UDP socket.
    pub fn datagrams(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the socket that reports changes of interfaces.
    pub fn interfaces(&self) -> BorrowedFd<'_> {
        self.interfaces.socket.as_fd()
    }

    /// Joins the group on new interfaces. Returns whether there are any.
    fn join(&mut self) -> bool {
        let usable = self.interfaces.iter().filter(|interface| {
            interface.up
                && interface.multicast
                && !interface.loopback
                && (self.names.is_empty() || self.names.iter().any(|n| **n == *interface.name))
                && interface.addresses.iter().any(IpAddr::is_ipv4)
        });
        let usable: BTreeSet<u32> = usable.map(|interface| interface.index).collect();
        let has_new = usable.difference(&self.joined).next().is_some();
        for index in usable.difference(&self.joined) {
            // The group may still be joined from before the interface went down.
            let _ = sockopt::set_ip_add_membership_with_ifindex(
                &self.socket,
                &GROUP,
                &Ipv4Addr::UNSPECIFIED,
                *index,
            );
        }
        self.joined = usable;
        has_new
    }

    /// Takes changes of interfaces.
    pub fn update_interfaces(&mut self, node: &mut Node) {
        if let Err(error) = self.interfaces.process_events() {
            tracing::warn!("publish/subscribe: network interfaces: {error}");
        }
        if self.join()
            && let Some(domain) = &mut node.domain
        {
            domain.hello_soon();
        }
    }

    /// Receives packets.
    pub fn receive(&mut self, node: &mut Node, now_ms: u64) {
        for _ in 0..RECEIVES_PER_STEP {
            let flags = RecvFlags::DONTWAIT;
            let received = rustix::net::recvfrom(&self.socket, &mut self.buffer[..], flags);
            match received {
                Ok((_, len, Some(from))) => {
                    let Ok(from) = SocketAddr::try_from(from) else { continue };
                    node.receive_packet(now_ms, from, &self.buffer[..len.min(PACKET_LEN)]);
                }
                Ok(_) => {}
                Err(Errno::AGAIN) => return,
                // Errors of earlier packets, such as a refused port.
                Err(_) => {}
            }
        }
    }

    /// Sends the packets of the domain.
    pub fn send(&mut self, node: &mut Node) {
        let Some(domain) = &mut node.domain else { return };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        for (target, bytes) in core::mem::take(&mut domain.packets) {
            match target {
                Target::Neighbour(address) => {
                    if rustix::net::sendto(&self.socket, &bytes, flags, &address).is_err() {
                        domain.count_send_error();
                    }
                }
                Target::Everyone => {
                    let group = SocketAddr::from((GROUP, self.port));
                    for index in &self.joined {
                        let chosen = sockopt::set_ip_multicast_if_with_ifindex(
                            &self.socket,
                            &GROUP,
                            &Ipv4Addr::UNSPECIFIED,
                            *index,
                        );
                        let sent = chosen.and_then(|()| {
                            rustix::net::sendto(&self.socket, &bytes, flags, &group)
                        });
                        if sent.is_err() {
                            domain.count_send_error();
                        }
                    }
                }
            }
        }
    }
}
