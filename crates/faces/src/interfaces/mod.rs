//! The network interfaces of this machine: a table that rtnetlink events keep up to date.

pub mod ethtool;
pub mod filter;
pub(crate) mod netlink;
pub mod policy;

use crate::error::FaceError;
use netlink::{Event, Link};
use nw_link::Mac;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Multicast groups of changes: RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// Bytes per read; the kernel's messages of one read fit.
const RECEIVE_LEN: usize = 64 << 10;
/// Reads per loop iteration.
const RECEIVES_PER_TURN: usize = 32;
/// Reads in an iteration after lost events: several times what the socket holds.
const RECEIVES_AFTER_OVERRUN: usize = 4096;
/// Attempts to read all interfaces while changes interrupt the reply.
const ATTEMPTS_MAX: usize = 8;

const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_MULTICAST: u32 = 0x1000;
const ARPHRD_ETHER: u16 = 1;

/// Returns whether faces to a group are per interface: all IPv4 groups (they have no scope), and
/// link-local IPv6 groups.
pub(crate) const fn is_group_of_a_link(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(v4) => v4.is_multicast(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Index, which another interface may get after this one is removed.
    pub index: u32,
    /// Name.
    pub name: Box<str>,
    /// Ethernet address; `None` if it is not Ethernet.
    pub mac: Option<Mac>,
    /// MTU, bytes.
    pub mtu: usize,
    /// Whether it is up.
    pub up: bool,
    /// Whether it supports multicast.
    pub multicast: bool,
    /// Whether it is a loopback interface.
    pub loopback: bool,
    /// Maximum number of receive queues.
    pub queues: u32,
    /// Whether it is a bridge of this machine.
    pub is_bridge: bool,
    /// Usable addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl Interface {
    fn set_link(&mut self, link: Link) {
        self.index = link.index;
        self.name = link.name;
        self.mac = link.mac.filter(|_| link.hardware == ARPHRD_ETHER);
        self.mtu = link.mtu as usize;
        self.queues = link.queues;
        self.is_bridge = link.is_bridge;
        self.up = link.flags & IFF_UP != 0;
        self.multicast = link.flags & IFF_MULTICAST != 0;
        self.loopback = link.flags & IFF_LOOPBACK != 0;
    }

    /// Returns the local address for a face to a group: any IPv4 address, or a link-local IPv6 one.
    pub fn address_like(&self, group: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| match (group, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            (IpAddr::V6(_), IpAddr::V6(v6)) => v6.is_unicast_link_local(),
            _ => false,
        })
    }
}

/// All interfaces, and the netlink socket that reports changes.
#[derive(Debug)]
pub struct Interfaces {
    /// Readable after changes.
    pub socket: OwnedFd,
    table: BTreeMap<u32, Interface>,
}

impl Interfaces {
    /// Subscribes to changes, then reads all interfaces, so that no change is missed.
    ///
    /// # Errors
    /// The error of the netlink socket.
    pub fn watch() -> Result<Self, FaceError> {
        let make = || {
            let socket = netlink_socket(GROUPS)?;
            Ok(Interfaces { socket, table: read_all()? })
        };
        make().map_err(FaceError::system("watch", "network interfaces"))
    }

    /// Returns all interfaces, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.table.values()
    }

    /// Returns the interface of this name.
    pub fn named(&self, name: &str) -> Option<&Interface> {
        self.iter().find(|interface| &*interface.name == name)
    }

    /// Returns the interface of this index.
    pub fn get(&self, index: u32) -> Option<&Interface> {
        self.table.get(&index)
    }

    /// Processes the kernel's events. Returns whether the table changed. Epoll reports the socket
    /// again if some are left.
    ///
    /// # Errors
    /// If the kernel can't be read any more.
    pub fn process_events(&mut self) -> Result<bool, Errno> {
        apply_events(&mut self.table, |buffer| receive(&self.socket, buffer), read_all)
    }
}

/// Applies events to the table. Returns whether it changed.
///
/// An overrun (ENOBUFS) means lost events: the whole table is read again. Events queued before that
/// are older than the reply, so they are discarded first. Later ones are in order, but the reply
/// may include some already: all are applied before the table is used, so that no past state is
/// taken for the present one.
fn apply_events(
    table: &mut BTreeMap<u32, Interface>,
    mut receive: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
    mut read_all: impl FnMut() -> Result<BTreeMap<u32, Interface>, Errno>,
) -> Result<bool, Errno> {
    let mut buffer = vec![0; RECEIVE_LEN];
    let (mut old_table, mut changed, mut lost, mut extended) = (None, false, false, false);
    let mut reads_left = RECEIVES_PER_TURN;
    while reads_left > 0 {
        reads_left -= 1;
        match receive(&mut buffer) {
            // Events older than the reply to come.
            Ok(_) if lost => {}
            Ok(len) => {
                netlink::events(&buffer[..len]).for_each(|event| changed |= apply(table, event))
            }
            Err(Errno::INTR) => {}
            Err(Errno::NOBUFS) => {
                if !core::mem::replace(&mut extended, true) {
                    reads_left = RECEIVES_AFTER_OVERRUN;
                }
                lost = true;
            }
            Err(Errno::AGAIN) if lost => {
                lost = false;
                let all = read_all()?;
                old_table.get_or_insert(core::mem::replace(table, all));
            }
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno),
        }
    }
    if lost {
        let all = read_all()?;
        old_table.get_or_insert(core::mem::replace(table, all));
    }
    Ok(changed || old_table.is_some_and(|old| old != *table))
}

/// Applies one event. Returns whether the table changed.
fn apply(table: &mut BTreeMap<u32, Interface>, event: Event) -> bool {
    match event {
        Event::Link(link) => {
            let entry = table.entry(link.index).or_default();
            let old = entry.clone();
            entry.set_link(link);
            *entry != old
        }
        Event::LinkRemoved(index) => table.remove(&index).is_some(),
        Event::Address { interface, address } => {
            table.get_mut(&interface).is_some_and(|entry| entry.addresses.insert(address))
        }
        Event::AddressRemoved { interface, address } => {
            table.get_mut(&interface).is_some_and(|entry| entry.addresses.remove(&address))
        }
        Event::Neighbour { .. } | Event::Route(_) | Event::Done | Event::Refused(_) => false,
    }
}

fn read_all() -> Result<BTreeMap<u32, Interface>, Errno> {
    let mut table = BTreeMap::new();
    for _ in 0..ATTEMPTS_MAX {
        if read_once(&mut table)? {
            break;
        }
    }
    Ok(table)
}

/// Reads all interfaces and addresses. Returns false if a change interrupted a reply, so that parts
/// may be missing.
fn read_once(table: &mut BTreeMap<u32, Interface>) -> Result<bool, Errno> {
    let socket = netlink_socket(0)?;
    let mut consistent = true;
    table.clear();
    let mut buffer = vec![0; RECEIVE_LEN];
    for request in [netlink::RTM_GETLINK, netlink::RTM_GETADDR] {
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&socket, &netlink::request(request), SendFlags::empty(), &kernel)?;
        // The kernel replies during the request, so there is nothing to wait for.
        'answer: loop {
            let len = match receive(&socket, &mut buffer) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            consistent &= !netlink::is_interrupted(&buffer[..len]);
            for event in netlink::events(&buffer[..len]) {
                match event {
                    Event::Done => break 'answer,
                    Event::Refused(code) => return Err(Errno::from_raw_os_error(code)),
                    event => {
                        apply(table, event);
                    }
                }
            }
        }
    }
    Ok(consistent)
}

/// Opens a netlink socket that receives these groups of changes.
pub(crate) fn netlink_socket(groups: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Reads messages. Returns their bytes, or 0 if the sender was not the kernel.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (len, _, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::DONTWAIT)?;
    let kernel = sender
        .and_then(|sender| SocketAddrNetlink::try_from(sender).ok())
        .is_some_and(|s| s.pid() == 0);
    Ok(if kernel { len } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let interfaces = Interfaces::watch().unwrap();
        let lo = interfaces.named("lo").expect("lo is there");
        assert!(lo.loopback && lo.index == 1 && lo.mac.is_none());
        assert_eq!(interfaces.get(1).map(|i| &*i.name), Some("lo"));
    }

    #[test]
    fn events_older_than_a_resynchronisation_do_not_overwrite_it() {
        let interface = |index: u32| {
            (index, Interface { index, name: format!("eth{index}").into(), ..Interface::default() })
        };
        // An event "interface removed", as the kernel writes it.
        let removed = |index: u32| netlink::link_removed(index);
        let mut table: BTreeMap<_, _> = [interface(3)].into();
        // Lost events; then "3 removed" and "4 removed", which are older than the reply, where both
        // exist; then "5 removed", which is newer.
        let queued = [
            Err(Errno::NOBUFS),
            Ok(removed(3)),
            Err(Errno::NOBUFS),
            Ok(removed(4)),
            Err(Errno::AGAIN),
            Ok(removed(5)),
        ];
        let mut queued = queued.into_iter();
        let changed = apply_events(
            &mut table,
            |buffer| {
                let bytes = queued.next().unwrap_or(Err(Errno::AGAIN))?;
                buffer[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            },
            || Ok([interface(3), interface(4), interface(5)].into()),
        );
        assert_eq!((changed, table), (Ok(true), [interface(3), interface(4)].into()));
    }

    #[test]
    fn the_table_follows_the_news() {
        let mut table = BTreeMap::new();
        let link = |flags| {
            let name = "eth0".into();
            Event::Link(Link {
                index: 3,
                name,
                hardware: 1,
                flags,
                mtu: 1500,
                mac: Some(Mac([2; 6])),
                queues: 1,
                is_bridge: false,
            })
        };
        let address = "fe80::1".parse().unwrap();
        assert!(
            !apply(&mut table, Event::Address { interface: 3, address }),
            "of an unknown interface"
        );
        assert!(apply(&mut table, link(IFF_MULTICAST)));
        assert!(apply(&mut table, Event::Address { interface: 3, address }));
        assert!(apply(&mut table, link(IFF_MULTICAST | IFF_UP)));
        assert!(!apply(&mut table, link(IFF_MULTICAST | IFF_UP)), "no change");
        let eth0 = &table[&3];
        assert!(eth0.up && eth0.multicast && !eth0.loopback && eth0.addresses.contains(&address));
        assert_eq!(eth0.address_like("ff02::1234".parse().unwrap()), Some(address));
        assert_eq!(eth0.address_like("224.0.23.170".parse().unwrap()), None);
        assert!(apply(&mut table, Event::AddressRemoved { interface: 3, address }));
        assert!(apply(&mut table, Event::LinkRemoved(3)) && table.is_empty());
    }
}
