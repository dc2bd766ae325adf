//! What faces interfaces are to have by themselves.

use super::Interface;
use super::filter::Filter;
use crate::mac::Mac;
use std::net::SocketAddr;

/// Faces that are made for each interface that matches, and end with it. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfacePolicy {
    /// UDP groups.
    pub udp: Option<GroupPolicy>,
    /// Ethernet.
    pub ethernet: Option<EtherPolicy>,
}

/// UDP groups that are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPolicy {
    /// The groups. An IPv6 one is of one link: `ff02::`….
    pub groups: Vec<SocketAddr>,
    /// Whether who hears one member hears all: not so by radio without a base station.
    pub ad_hoc: bool,
    /// On which interfaces.
    pub filter: Filter,
}

/// How Ethernet is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtherPolicy {
    /// A face to the group.
    pub multicast: bool,
    /// A face for each network card that speaks to ours.
    pub listen: bool,
    /// The group.
    pub group: Mac,
    /// The VLAN that frames are of; 0 is none.
    pub vlan: u16,
    /// As [`GroupPolicy::ad_hoc`].
    pub ad_hoc: bool,
    /// On which interfaces.
    pub filter: Filter,
}

impl Default for EtherPolicy {
    fn default() -> Self {
        EtherPolicy {
            multicast: false,
            listen: false,
            group: Mac::NDN_GROUP,
            vlan: 0,
            ad_hoc: false,
            filter: Filter::default(),
        }
    }
}

impl GroupPolicy {
    /// True when a group is wanted on an interface, which may be down or without an address.
    pub fn covers(&self, group: SocketAddr, interface: &Interface) -> bool {
        self.groups.contains(&group) && !interface.loopback && self.filter.accepts(interface)
    }

    /// The groups to join on an interface.
    pub fn groups_on<'a>(&'a self, interface: &'a Interface) -> impl Iterator<Item = SocketAddr> + 'a {
        let fits =
            interface.up && interface.multicast && !interface.loopback && self.filter.accepts(interface);
        let groups = self.groups.iter().copied().filter(move |_| fits);
        groups.filter(|group| interface.address_like(group.ip()).is_some())
    }
}

impl EtherPolicy {
    /// True when the interface is wanted, which may be down.
    pub fn covers(&self, interface: &Interface) -> bool {
        !interface.loopback && self.filter.accepts(interface)
    }

    /// True when the interface can be used and is wanted.
    pub fn wants(&self, interface: &Interface) -> bool {
        interface.up && !interface.loopback && interface.mac.is_some() && self.filter.accepts(interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_addresses_decide() {
        let eth0 = Interface {
            name: "eth0".into(),
            mac: Some(Mac([2; 6])),
            up: true,
            multicast: true,
            addresses: ["192.0.2.5"].map(|a| a.parse().unwrap()).into(),
            ..Interface::default()
        };
        let groups = ["224.0.23.170:56363", "[ff02::1234]:56363"].map(|a| a.parse().unwrap());
        let udp = GroupPolicy { groups: groups.into(), ad_hoc: false, filter: Filter::default() };
        let ether = EtherPolicy::default();
        let joined = |interface: &Interface| udp.groups_on(interface).collect::<Vec<_>>();
        assert_eq!(joined(&eth0), groups[..1], "without an IPv6 address no IPv6 group");
        assert!(ether.wants(&eth0));
        for (interface, with_ether) in [
            (Interface { up: false, ..eth0.clone() }, false),
            (Interface { loopback: true, ..eth0.clone() }, false),
            (Interface { multicast: false, ..eth0.clone() }, true),
        ] {
            assert_eq!((joined(&interface).len(), ether.wants(&interface)), (0, with_ether), "{interface:?}");
        }
        assert!(!ether.wants(&Interface { mac: None, ..eth0 }));
    }
}
