//! Resolves the next hop to each member: interface and Ethernet address, from the kernel's routes
//! and neighbour table (rtnetlink).
//!
//! ARP and neighbour discovery stay with the kernel: a datagram to an unresolved neighbour makes
//! the kernel resolve it.

use nw_faces::FaceError;
use nw_faces::interfaces::Interfaces;
use nw_faces::xdp::routes::{Neighbour, Routes};
use nw_kernel::balancer::{Hop, Link};
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The discard port (RFC 863): datagrams to it are thrown away.
const DISCARD_PORT: u16 = 9;
const VLAN_CONFIG: &str = "/proc/net/vlan/config";

/// Resolves next hops with copies of the kernel's routes, neighbours and interfaces.
#[derive(Debug)]
pub struct NextHopResolver {
    routes: Routes,
    interfaces: Interfaces,
    /// Routes by destination: the generation of `routes` they were found in, interface and
    /// neighbour.
    cache: BTreeMap<IpAddr, (u32, Option<(u32, Neighbour)>)>,
    links: Vec<Link>,
}

impl NextHopResolver {
    /// Opens the rtnetlink sockets and reads the current state.
    ///
    /// # Errors
    /// A socket can't be opened.
    pub fn watch() -> Result<Self, FaceError> {
        let mut resolver = NextHopResolver {
            routes: Routes::watch()?,
            interfaces: Interfaces::watch()?,
            cache: BTreeMap::new(),
            links: Vec::new(),
        };
        resolver.links = resolver.vlans();
        Ok(resolver)
    }

    /// Processes the kernel's notifications since the last call.
    pub fn poll_updates(&mut self) {
        if let Err(error) = self.routes.process_events() {
            tracing::warn!(%error, "can't read route notifications of the kernel");
        }
        match self.interfaces.process_events() {
            Ok(false) => {}
            Ok(true) => {
                self.cache.clear();
                self.links = self.vlans();
            }
            Err(error) => {
                tracing::warn!(%error, "can't read interface notifications of the kernel")
            }
        }
    }

    /// Returns the next hop to an address. `None` while the neighbour is not resolved; the kernel
    /// is made to resolve it.
    pub fn hop(&mut self, to: IpAddr) -> Option<Hop> {
        let generation = self.routes.generation();
        let (interface, neighbour) = match self.cache.get(&to) {
            Some((known, Some(route))) if *known == generation => *route,
            _ => {
                let route = self
                    .routes
                    .next_hop(to, 0)
                    .map(|(interface, _, neighbour)| (interface, neighbour));
                self.cache.insert(to, (generation, route));
                route?
            }
        };
        let mut mac = self.routes.mac(neighbour);
        if mac.is_none() {
            trigger_resolution(to);
            mac = self.routes.mac(neighbour);
        }
        let (mac, _) = mac?;
        let egress = self.interfaces.get(interface)?;
        let own_mac = egress.mac?.0;
        let mtu_bytes = u32::try_from(egress.mtu).unwrap_or(u32::MAX);
        let link = self.links.iter().find(|link| link.interface_index == interface);
        Some(Hop {
            interface_index: link.map_or(interface, |link| link.underlying_index),
            own_mac,
            mac: mac.0,
            vlan: link.map(|link| link.vlan),
            mtu_bytes,
        })
    }

    /// Returns index and Ethernet address of an interface.
    pub fn interface(&self, name: &str) -> Option<(u32, Option<[u8; 6]>)> {
        self.interfaces
            .named(name)
            .map(|interface| (interface.index, interface.mac.map(|mac| mac.0)))
    }

    /// Returns whether an interface is a bridge of this machine.
    pub fn is_bridge(&self, name: &str) -> bool {
        self.interfaces.named(name).is_some_and(|interface| interface.is_bridge)
    }

    /// Returns the name of an interface.
    pub fn interface_name(&self, index: u32) -> Option<&str> {
        self.interfaces.get(index).map(|interface| &*interface.name)
    }

    /// Returns whether this machine has the address.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| interface.addresses.contains(&address))
    }

    /// Returns the VLAN interfaces.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    fn vlans(&self) -> Vec<Link> {
        // The file does not exist if the kernel has no VLANs.
        let text = fs::read_to_string(VLAN_CONFIG).unwrap_or_default();
        let index = |name: &str| self.interfaces.named(name).map(|interface| interface.index);
        vlan_lines(&text)
            .filter_map(|(name, vlan, underlying)| {
                let (interface_index, underlying_index) = (index(name)?, index(underlying)?);
                Some(Link { interface_index, underlying_index, vlan })
            })
            .collect()
    }
}

/// Parses lines such as `eth0.5 | 5 | eth0`; header lines don't match.
fn vlan_lines(text: &str) -> impl Iterator<Item = (&str, u16, &str)> {
    text.lines().filter_map(|line| {
        let mut columns = line.split('|').map(str::trim);
        let (name, vlan) = (columns.next()?, columns.next()?.parse().ok()?);
        Some((name, vlan, columns.next()?))
    })
}

/// Makes the kernel resolve a neighbour, by sending an empty datagram.
fn trigger_resolution(to: IpAddr) {
    let own: SocketAddr = match to {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // If sending fails, the next tick tries again.
    let _ = UdpSocket::bind(own).and_then(|socket| socket.send_to(&[], (to, DISCARD_PORT)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_config_of_the_kernel_is_parsed() {
        let text = "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
                    eth0.5         | 5  | eth0\nin             | 100  | eth1\n";
        assert_eq!(
            vlan_lines(text).collect::<Vec<_>>(),
            [("eth0.5", 5, "eth0"), ("in", 100, "eth1")]
        );
    }

    #[test]
    fn own_address_has_no_next_hop() {
        let mut resolver = NextHopResolver::watch().unwrap();
        assert_eq!(resolver.hop("127.0.0.1".parse().unwrap()), None);
        assert!(resolver.has_address("127.0.0.1".parse().unwrap()));
        assert!(resolver.interface("lo").is_some() && resolver.interface("no such").is_none());
    }
}
