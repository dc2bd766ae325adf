//! The way to each member, as the kernel has it: which interface, which neighbour. ARP and neighbour discovery stay the kernel's; what has no entry is
//! sent a datagram, which makes the kernel ask.

use nw_faces::FaceError;
use nw_faces::interfaces::Interfaces;
use nw_faces::xdp::routes::{Neighbour, Routes};
use nw_kernel::balancer::{Hop, Link};
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Whatever is sent there is thrown away (RFC 863).
const DISCARD_PORT: u16 = 9;
const VLANS: &str = "/proc/net/vlan/config";

/// Routes, neighbours and interfaces of this machine, kept fresh.
#[derive(Debug)]
pub struct Ways {
    routes: Routes,
    interfaces: Interfaces,
    known: BTreeMap<IpAddr, (u32, Option<(u32, Neighbour)>)>,
    links: Vec<Link>,
}

impl Ways {
    /// Begins to watch.
    ///
    /// # Errors
    /// What the system says.
    pub fn watch() -> Result<Self, FaceError> {
        let mut ways = Ways {
            routes: Routes::watch()?,
            interfaces: Interfaces::watch()?,
            known: BTreeMap::new(),
            links: Vec::new(),
        };
        ways.links = ways.vlans();
        Ok(ways)
    }

    /// Takes in what the kernel told since the last time.
    pub fn take_news(&mut self) {
        if let Err(error) = self.routes.take_news() {
            tracing::warn!(%error, "the kernel does not tell routes");
        }
        match self.interfaces.take_news() {
            Ok(false) => {}
            Ok(true) => {
                self.known.clear();
                self.links = self.vlans();
            }
            Err(error) => tracing::warn!(%error, "the kernel does not tell interfaces"),
        }
    }

    /// The next hop on the way to an address; none while the neighbour is not resolved, which this makes the kernel do.
    pub fn hop(&mut self, to: IpAddr) -> Option<Hop> {
        let generation = self.routes.generation();
        let (interface, neighbour) = match self.known.get(&to) {
            Some((known, Some(way))) if *known == generation => *way,
            _ => {
                let way = self.routes.way(to, 0).map(|(interface, _, neighbour)| (interface, neighbour));
                self.known.insert(to, (generation, way));
                way?
            }
        };
        let mut mac = self.routes.mac(neighbour);
        if mac.is_none() {
            // The kernel is to ask; what was known before is used meanwhile.
            ask(to);
            mac = self.routes.mac(neighbour);
        }
        let (mac, _) = mac?;
        let leaving = self.interfaces.get(interface)?;
        let own_mac = leaving.mac?.0;
        let mtu_octets = u32::try_from(leaving.mtu).unwrap_or(u32::MAX);
        let link = self.links.iter().find(|link| link.interface_index == interface);
        Some(Hop {
            interface_index: link.map_or(interface, |link| link.underlying_index),
            own_mac,
            mac: mac.0,
            vlan: link.map(|link| link.vlan),
            mtu_octets,
        })
    }

    /// Number and Ethernet address of an interface.
    pub fn interface(&self, name: &str) -> Option<(u32, Option<[u8; 6]>)> {
        self.interfaces.named(name).map(|interface| (interface.index, interface.mac.map(|mac| mac.0)))
    }

    /// The name of an interface.
    pub fn name_of(&self, index: u32) -> Option<&str> {
        self.interfaces.get(index).map(|interface| &*interface.name)
    }

    /// True when this machine has the address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| interface.addresses.contains(&address))
    }

    /// VLAN interfaces.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    fn vlans(&self) -> Vec<Link> {
        // Not there where the kernel has no VLANs.
        let text = fs::read_to_string(VLANS).unwrap_or_default();
        let index = |name: &str| self.interfaces.named(name).map(|interface| interface.index);
        vlan_lines(&text)
            .filter_map(|(name, vlan, below)| {
                let (interface_index, underlying_index) = (index(name)?, index(below)?);
                Some(Link { interface_index, underlying_index, vlan })
            })
            .collect()
    }
}

/// `eth0.5 | 5 | eth0`, below two lines of head.
fn vlan_lines(text: &str) -> impl Iterator<Item = (&str, u16, &str)> {
    text.lines().filter_map(|line| {
        let mut columns = line.split('|').map(str::trim);
        let (name, vlan, below) = (columns.next()?, columns.next()?.parse().ok()?, columns.next()?);
        Some((name, vlan, below))
    })
}

/// Makes the kernel resolve a neighbour.
fn ask(to: IpAddr) {
    let own: SocketAddr = match to {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // What can't be sent resolves nothing; the next turn tries again.
    let _ = UdpSocket::bind(own).and_then(|socket| socket.send_to(&[], (to, DISCARD_PORT)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlans_as_the_kernel_lists_them() {
        let text = "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\neth0.5         | 5  | eth0\nin             | 100  | eth1\n";
        assert_eq!(vlan_lines(text).collect::<Vec<_>>(), [("eth0.5", 5, "eth0"), ("in", 100, "eth1")]);
    }

    #[test]
    fn this_machine_is_no_neighbour() {
        let mut ways = Ways::watch().unwrap();
        assert_eq!(ways.hop("127.0.0.1".parse().unwrap()), None);
        assert!(ways.has("127.0.0.1".parse().unwrap()));
        assert!(ways.interface("lo").is_some() && ways.interface("no such").is_none());
    }
}
