//! The network interfaces of this machine, as they come and go: a table that rtnetlink keeps up to date.

pub mod ethtool;
pub mod filter;
pub(crate) mod netlink;
pub mod policy;

use crate::error::FaceError;
use crate::mac::Mac;
use netlink::{Link, News};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Changes of interfaces and of their addresses: RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// The kernel's messages of one call fit.
const RECEIVE_LEN: usize = 64 << 10;
/// Calls before others get their turn.
const RECEIVES_PER_TURN: usize = 32;
/// Likewise, after events were lost: what the socket holds, several times.
const RECEIVES_AFTER_OVERRUN: usize = 4096;
/// Questions for all interfaces, when changes come between the parts of each answer.
const ATTEMPTS_MAX: usize = 8;

const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_MULTICAST: u32 = 0x1000;
const ARPHRD_ETHER: u16 = 1;

/// IPv4 groups have no scope in them; of IPv6 groups only those of one link are told apart by interface.
pub(crate) const fn is_group_of_a_link(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(v4) => v4.is_multicast(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its number, which another one may have after it is gone.
    pub index: u32,
    /// Its name.
    pub name: Box<str>,
    /// Its own Ethernet address; none when it is no Ethernet.
    pub mac: Option<Mac>,
    /// Octets of the largest payload.
    pub mtu: usize,
    /// It is switched on.
    pub up: bool,
    /// It can send to groups.
    pub multicast: bool,
    /// It leads back to this machine.
    pub loopback: bool,
    /// Receive queues it may have.
    pub queues: u32,
    /// Its addresses that can be used.
    pub addresses: BTreeSet<IpAddr>,
}

impl Interface {
    fn take_over(&mut self, link: Link) {
        self.index = link.index;
        self.name = link.name;
        self.mac = link.mac.filter(|_| link.hardware == ARPHRD_ETHER);
        self.mtu = link.mtu as usize;
        self.queues = link.queues;
        self.up = link.flags & IFF_UP != 0;
        self.multicast = link.flags & IFF_MULTICAST != 0;
        self.loopback = link.flags & IFF_LOOPBACK != 0;
    }

    /// An address to be seen as this end of a group's face: any IPv4 one, or for IPv6 one of this link only.
    pub fn address_like(&self, group: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| match (group, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            (IpAddr::V6(_), IpAddr::V6(v6)) => v6.is_unicast_link_local(),
            _ => false,
        })
    }
}

/// All interfaces, and the socket that tells of changes.
#[derive(Debug)]
pub struct Interfaces {
    /// Readable when something has changed.
    pub socket: OwnedFd,
    table: BTreeMap<u32, Interface>,
}

impl Interfaces {
    /// Subscribes to changes, then asks for all there are: nothing is missed in between.
    ///
    /// # Errors
    /// What the system says.
    pub fn watch() -> Result<Self, FaceError> {
        let make = || {
            let socket = netlink_socket(GROUPS)?;
            Ok(Interfaces { socket, table: ask_for_all()? })
        };
        make().map_err(FaceError::system("watch", "network interfaces"))
    }

    /// Every interface, by its number.
    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.table.values()
    }

    /// The interface of a name.
    pub fn named(&self, name: &str) -> Option<&Interface> {
        self.iter().find(|interface| &*interface.name == name)
    }

    /// The interface of a number.
    pub fn get(&self, index: u32) -> Option<&Interface> {
        self.table.get(&index)
    }

    /// Takes in what the kernel tells; true when something that matters here has changed. What is left makes epoll say so again.
    ///
    /// # Errors
    /// When the kernel can't be asked any more.
    pub fn take_news(&mut self) -> Result<bool, Errno> {
        follow(&mut self.table, |buffer| receive(&self.socket, buffer), ask_for_all)
    }
}

/// Applies events to the table; true when it is another one then.
///
/// An overrun (ENOBUFS) means that events were lost: the table is asked for as a whole. Events that were queued before are older than its answer,
/// so they are discarded first. Those that follow are in order, but some are in the answer already: all of them are applied before
/// anything is made of the table, so that no state that has passed is taken for the present one.
fn follow(
    table: &mut BTreeMap<u32, Interface>,
    mut receive: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
    mut ask_for_all: impl FnMut() -> Result<BTreeMap<u32, Interface>, Errno>,
) -> Result<bool, Errno> {
    let mut buffer = vec![0; RECEIVE_LEN];
    let (mut before, mut changed, mut lost, mut extended) = (None, false, false, false);
    let mut left = RECEIVES_PER_TURN;
    while left > 0 {
        left -= 1;
        match receive(&mut buffer) {
            // Events that the answer to come is newer than.
            Ok(_) if lost => {}
            Ok(len) => netlink::news(&buffer[..len]).for_each(|news| changed |= apply(table, news)),
            Err(Errno::INTR) => {}
            Err(Errno::NOBUFS) => {
                if !core::mem::replace(&mut extended, true) {
                    left = RECEIVES_AFTER_OVERRUN;
                }
                lost = true;
            }
            Err(Errno::AGAIN) if lost => {
                lost = false;
                let all = ask_for_all()?;
                before.get_or_insert(core::mem::replace(table, all));
            }
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno),
        }
    }
    if lost {
        let all = ask_for_all()?;
        before.get_or_insert(core::mem::replace(table, all));
    }
    Ok(changed || before.is_some_and(|before| before != *table))
}

/// True when the table is another one then.
fn apply(table: &mut BTreeMap<u32, Interface>, news: News) -> bool {
    match news {
        News::Link(link) => {
            let entry = table.entry(link.index).or_default();
            let before = entry.clone();
            entry.take_over(link);
            *entry != before
        }
        News::LinkGone(index) => table.remove(&index).is_some(),
        News::Address { interface, address } => {
            table.get_mut(&interface).is_some_and(|entry| entry.addresses.insert(address))
        }
        News::AddressGone { interface, address } => {
            table.get_mut(&interface).is_some_and(|entry| entry.addresses.remove(&address))
        }
        News::Neighbour { .. } | News::Route(_) | News::Done | News::Refused(_) => false,
    }
}

fn ask_for_all() -> Result<BTreeMap<u32, Interface>, Errno> {
    let mut table = BTreeMap::new();
    for _ in 0..ATTEMPTS_MAX {
        if ask_once(&mut table)? {
            break;
        }
    }
    Ok(table)
}

/// Asks for all interfaces and addresses. False when something changed between the parts of an answer, so that parts may be missing.
fn ask_once(table: &mut BTreeMap<u32, Interface>) -> Result<bool, Errno> {
    let socket = netlink_socket(0)?;
    let mut consistent = true;
    table.clear();
    let mut buffer = vec![0; RECEIVE_LEN];
    for request in [netlink::RTM_GETLINK, netlink::RTM_GETADDR] {
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&socket, &netlink::request(request), SendFlags::empty(), &kernel)?;
        // The kernel answers while it is asked: there is nothing to wait for.
        'answer: loop {
            let len = match receive(&socket, &mut buffer) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            consistent &= !netlink::is_interrupted(&buffer[..len]);
            for news in netlink::news(&buffer[..len]) {
                match news {
                    News::Done => break 'answer,
                    News::Refused(code) => return Err(Errno::from_raw_os_error(code)),
                    news => {
                        apply(table, news);
                    }
                }
            }
        }
    }
    Ok(consistent)
}

/// A socket that is told of these groups of changes.
pub(crate) fn netlink_socket(groups: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Octets of messages; none of those that somebody else than the kernel sent.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (len, _, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::DONTWAIT)?;
    let kernel =
        sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok()).is_some_and(|s| s.pid() == 0);
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
        // An event "interface 3 is gone", as the kernel writes it.
        let gone = |index: u32| netlink::link_gone(index);
        let mut table: BTreeMap<_, _> = [interface(3)].into();
        // Lost events; then "3 is gone" and "4 is gone", which are older than the answer, where both are there; then "5 is gone", which is newer.
        let queued = [
            Err(Errno::NOBUFS),
            Ok(gone(3)),
            Err(Errno::NOBUFS),
            Ok(gone(4)),
            Err(Errno::AGAIN),
            Ok(gone(5)),
        ];
        let mut queued = queued.into_iter();
        let changed = follow(
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
            News::Link(Link {
                index: 3,
                name,
                hardware: 1,
                flags,
                mtu: 1500,
                mac: Some(Mac([2; 6])),
                queues: 1,
            })
        };
        let address = "fe80::1".parse().unwrap();
        assert!(!apply(&mut table, News::Address { interface: 3, address }), "of an interface nobody knows");
        assert!(apply(&mut table, link(IFF_MULTICAST)));
        assert!(apply(&mut table, News::Address { interface: 3, address }));
        assert!(apply(&mut table, link(IFF_MULTICAST | IFF_UP)));
        assert!(!apply(&mut table, link(IFF_MULTICAST | IFF_UP)), "nothing new");
        let eth0 = &table[&3];
        assert!(eth0.up && eth0.multicast && !eth0.loopback && eth0.addresses.contains(&address));
        assert_eq!(eth0.address_like("ff02::1234".parse().unwrap()), Some(address));
        assert_eq!(eth0.address_like("224.0.23.170".parse().unwrap()), None);
        assert!(apply(&mut table, News::AddressGone { interface: 3, address }));
        assert!(apply(&mut table, News::LinkGone(3)) && table.is_empty());
    }
}
