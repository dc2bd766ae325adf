//! The sockets of the domain: UDP, and Ethernet frames on each interface.
//!
//! Invariant: a socket never blocks; a packet that the system does not take is counted.

use crate::domain::{LinkAddress, PacketQueue, PacketRun, RunKind, Target};
use crate::ethernet_links::EthernetLinks;
use crate::kernel_forwarding::KernelForwarding;
use crate::node::Node;
use core::mem::MaybeUninit;
use nw_api::config::PubSub;
use nw_faces::interfaces::{Interface, Interfaces};
use nw_faces::{MESSAGES_PER_CALL, UdpSocket};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Multicast group of hellos: administratively scoped to this link by a TTL of 1.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 80, 83);
/// Bytes of a socket's buffers, where the system permits.
pub const SOCKET_BUFFER: usize = 8 << 20;
/// Packets received per step and socket.
pub const RECEIVES_PER_STEP: usize = 512;
/// Sockets with packets that one step serves.
const SOCKETS_PER_STEP: usize = 64;
/// Token of the UDP socket; those of others have their interfaces' indexes, from 1 on.
const UDP: u64 = 0;

/// The sockets of the domain.
#[derive(Debug)]
pub struct DomainSockets {
    udp: Option<UdpLinks>,
    ethernet: Option<EthernetLinks>,
    kernel: Option<KernelForwarding>,
    interfaces: Interfaces,
    /// Names of the interfaces to use; empty for all.
    names: Vec<String>,
    /// The sockets with packets, of which one is readable when a packet has come.
    readiness: OwnedFd,
}

/// What one step received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// Number of packets.
    pub packets: usize,
    /// Whether there may be more.
    pub has_more: bool,
}

/// The UDP socket, and the interfaces on which it joined the group.
#[derive(Debug)]
struct UdpLinks {
    socket: UdpSocket,
    joined: BTreeSet<u32>,
    port: u16,
}

impl DomainSockets {
    /// Opens the sockets, and watches the network interfaces.
    ///
    /// # Errors
    /// What the system refused, and its error.
    pub fn open(config: &PubSub) -> Result<Self, (String, Errno)> {
        let refused = |what: &str| {
            let what = what.to_owned();
            move |errno| (what, errno)
        };
        let interfaces = Interfaces::watch()
            .map_err(|_| Errno::IO)
            .map_err(refused("to watch network interfaces"))?;
        let readiness =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused("an epoll descriptor"))?;
        let udp = match config.udp {
            true => {
                let port = format!("UDP port {}", config.port);
                let udp = UdpLinks::open(config.port as u16).map_err(refused(&port))?;
                watch(&readiness, udp.socket.as_fd(), UDP).map_err(refused(&port))?;
                Some(udp)
            }
            false => None,
        };
        let mut sockets = DomainSockets {
            udp,
            ethernet: config.ethernet.then(|| EthernetLinks::new(config.uses_af_xdp())),
            kernel: KernelForwarding::load(config.xdp, config.uses_af_xdp()),
            interfaces,
            names: config.interfaces.clone(),
            readiness,
        };
        sockets.use_interfaces();
        Ok(sockets)
    }

    /// Returns what is readable when a packet has come.
    pub fn packets(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }

    /// Returns the socket that reports changes of interfaces.
    pub fn interfaces(&self) -> BorrowedFd<'_> {
        self.interfaces.socket.as_fd()
    }

    /// Uses new interfaces, and leaves removed ones. Returns whether there are new ones.
    fn use_interfaces(&mut self) -> bool {
        let usable = self.interfaces.iter().filter(|interface| {
            interface.up
                && interface.multicast
                && !interface.loopback
                && (self.names.is_empty() || self.names.iter().any(|n| **n == *interface.name))
        });
        let usable: Vec<&Interface> = usable.collect();
        let mut has_new = false;
        if let Some(udp) = &mut self.udp {
            has_new |= udp.join(&usable);
        }
        if let Some(ethernet) = &mut self.ethernet {
            has_new |= ethernet.open(&usable, &self.readiness);
            if let Some(kernel) = &mut self.kernel {
                kernel.set_interfaces(&ethernet.interfaces());
            }
        }
        has_new
    }

    /// Takes changes of interfaces.
    pub fn update_interfaces(&mut self, node: &mut Node) {
        if let Err(error) = self.interfaces.process_events() {
            tracing::warn!("publish/subscribe: network interfaces: {error}");
        }
        if self.use_interfaces()
            && let Some(domain) = &mut node.domain
        {
            domain.hello_soon();
        }
        self.place_links(node);
    }

    /// Tells a domain of Blackadder's nodes which interfaces there are.
    pub fn place_links(&self, node: &mut Node) {
        if let Some(blackadder) = &mut node.blackadder {
            blackadder.set_interfaces(|name| self.interfaces.named(name).map(|found| found.index));
        }
    }

    /// Receives packets.
    pub fn receive(&mut self, node: &mut Node, now_ms: u64) -> Reception {
        let mut all = Reception::default();
        let Some(ethernet) = &mut self.ethernet else {
            if let Some(udp) = &mut self.udp {
                udp.receive(node, now_ms, &mut all);
            }
            return all;
        };
        let mut events = [MaybeUninit::uninit(); SOCKETS_PER_STEP];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // Without an answer, the sockets are still ready at the next step.
        let Ok((ready, _)) = epoll::wait(&self.readiness, &mut events, Some(&now)) else {
            return all;
        };
        all.has_more = ready.len() == SOCKETS_PER_STEP;
        for event in ready {
            match (event.data.u64(), &mut self.udp) {
                (UDP, Some(udp)) => udp.receive(node, now_ms, &mut all),
                (UDP, None) => {}
                (token, _) => ethernet.receive(token, node, now_ms, &mut all),
            }
        }
        all
    }

    /// Brings the links of the domain to the kernel, if it forwards, and opens AF_XDP sockets.
    pub fn update_kernel(&mut self, node: &mut Node, now_ms: u64) {
        let Some(domain) = &mut node.domain else { return };
        if let Some(kernel) = &mut self.kernel {
            kernel.update(now_ms, domain);
        }
        if let Some(ethernet) = &mut self.ethernet {
            ethernet.update(now_ms, self.kernel.as_ref(), (&self.interfaces, &self.readiness));
            if let Some(status) = ethernet.take_status() {
                node.ethernet_status = status;
            }
        }
    }

    /// Sends the packets of the domain, those to one neighbour together.
    pub fn send(&mut self, node: &mut Node) {
        if let Some(domain) = &mut node.domain {
            if let Some(kernel) = &mut self.kernel {
                kernel.follow(domain);
            }
            let errors = self.send_queue(&mut domain.packets);
            domain.count_send_errors(errors as u64);
        }
        if let Some(blackadder) = &mut node.blackadder {
            let errors = self.send_queue(&mut blackadder.packets);
            blackadder.counters.send_errors += errors as u64;
        }
    }

    /// Sends what a queue has. Returns the number of packets that the system did not take.
    fn send_queue(&mut self, queue: &mut PacketQueue) -> usize {
        queue.sort_by_target();
        let errors = queue.runs().map(|run| self.send_run(&run)).sum::<usize>();
        queue.clear();
        errors
    }

    /// Sends packets. Returns the number of those that the system did not take.
    fn send_run(&mut self, run: &PacketRun<'_>) -> usize {
        let to_udp = run.packets().filter_map(|(target, bytes)| match target {
            Target::Neighbour(LinkAddress::Udp(address)) => Some((*address, bytes)),
            _ => None,
        });
        let to_stations = run.packets().filter_map(|(target, bytes)| match target {
            Target::Neighbour(LinkAddress::Ethernet { mac, .. }) => Some((*mac, bytes)),
            _ => None,
        });
        let to_all = run.packets().map(|(_, bytes)| bytes);
        match run.kind() {
            RunKind::Udp => self.udp.as_ref().map_or(run.len(), |udp| udp.socket.send(to_udp)),
            RunKind::Ethernet(index) => match &mut self.ethernet {
                Some(ethernet) => ethernet.send(index, to_stations).unwrap_or(run.len()),
                None => run.len(),
            },
            RunKind::Everyone => {
                let ethernet = self.ethernet.as_ref();
                ethernet.map_or(0, |ethernet| ethernet.send_to_all(to_all.clone()))
                    + self.udp.as_ref().map_or(0, |udp| udp.send_to_all(to_all.clone()))
            }
        }
    }
}

/// Adds a socket to those that are watched. A closed one leaves by itself.
pub fn watch(readiness: &OwnedFd, socket: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
    epoll::add(readiness, socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
}

impl UdpLinks {
    fn open(port: u16) -> Result<Self, Errno> {
        let socket = UdpSocket::open(port, SOCKET_BUFFER)?;
        Ok(UdpLinks { socket, joined: BTreeSet::new(), port })
    }

    /// Joins the group on new interfaces. Returns whether there are any.
    fn join(&mut self, usable: &[&Interface]) -> bool {
        let has_address = |interface: &&&Interface| interface.addresses.iter().any(IpAddr::is_ipv4);
        let usable: Vec<&Interface> = usable.iter().filter(has_address).copied().collect();
        let mut has_new = false;
        for interface in usable.iter().filter(|found| !self.joined.contains(&found.index)) {
            has_new = true;
            let joined = sockopt::set_ip_add_membership_with_ifindex(
                &self.socket,
                &GROUP,
                &Ipv4Addr::UNSPECIFIED,
                interface.index,
            );
            let remedy = match joined {
                // In use: joined since before the interface went down.
                Ok(()) | Err(Errno::ADDRINUSE) => continue,
                Err(Errno::NOBUFS) => "; raise net.ipv4.igmp_max_memberships",
                Err(_) => "",
            };
            tracing::warn!(
                interface = %interface.name,
                "publish/subscribe receives no hellos by UDP: can't join {GROUP}{remedy}"
            );
        }
        self.joined = usable.iter().map(|interface| interface.index).collect();
        has_new
    }

    fn receive(&mut self, node: &mut Node, now_ms: u64, all: &mut Reception) {
        let mut packets = 0;
        while packets < RECEIVES_PER_STEP {
            let received = self.socket.receive(|from, bytes| {
                packets += 1;
                node.receive_packet(now_ms, from.into(), bytes);
            });
            match received {
                Ok(MESSAGES_PER_CALL..) => {}
                Ok(_) | Err(Errno::AGAIN) => break,
                // Errors of earlier packets, such as a refused port.
                Err(_) => packets += 1,
            }
        }
        all.packets += packets;
        all.has_more |= packets >= RECEIVES_PER_STEP;
    }

    /// Sends packets to the group on each interface. Returns the number of errors.
    fn send_to_all<'a>(&self, packets: impl Iterator<Item = &'a [u8]> + Clone) -> usize {
        let group = SocketAddr::from((GROUP, self.port));
        let refused = |index: &u32| {
            let chosen = sockopt::set_ip_multicast_if_with_ifindex(
                &self.socket,
                &GROUP,
                &Ipv4Addr::UNSPECIFIED,
                *index,
            );
            match chosen {
                Ok(()) => self.socket.send(packets.clone().map(|bytes| (group, bytes))),
                Err(_) => packets.clone().count(),
            }
        };
        self.joined.iter().map(refused).sum()
    }
}
