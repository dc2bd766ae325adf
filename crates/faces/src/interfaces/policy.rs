//! Policy: which faces network interfaces get automatically.

use super::Interface;
use super::filter::Filter;
use nw_link::Mac;
use std::net::SocketAddr;

/// Faces created for each matching interface and closed with it. By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfacePolicy {
    /// UDP groups to join.
    pub udp: Option<GroupPolicy>,
    /// Ethernet faces.
    pub ethernet: Option<EtherPolicy>,
}

/// UDP groups and the interfaces on which they are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPolicy {
    /// The groups. IPv6 groups must be link-local (`ff02::`…).
    pub groups: Vec<SocketAddr>,
    /// Whether some members may not receive what others send, as by radio without a base station.
    pub ad_hoc: bool,
    /// Interfaces that it applies to.
    pub filter: Filter,
}

/// Ethernet faces and the interfaces that get them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtherPolicy {
    /// Whether there is a face to the group.
    pub multicast: bool,
    /// Whether each network card that sends to this one gets a face.
    pub listen: bool,
    /// The group.
    pub group: Mac,
    /// VLAN of the frames; 0 for none.
    pub vlan: u16,
    /// As [`GroupPolicy::ad_hoc`].
    pub ad_hoc: bool,
    /// Interfaces that it applies to.
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
    /// Returns whether a group is required on an interface, which may be down or without address.
    pub fn covers(&self, group: SocketAddr, interface: &Interface) -> bool {
        self.groups.contains(&group) && !interface.loopback && self.filter.accepts(interface)
    }

    /// Returns the groups to join on an interface.
    pub fn groups_on<'a>(
        &'a self,
        interface: &'a Interface,
    ) -> impl Iterator<Item = SocketAddr> + 'a {
        let fits = interface.up
            && interface.multicast
            && !interface.loopback
            && self.filter.accepts(interface);
        let groups = self.groups.iter().copied().filter(move |_| fits);
        groups.filter(|group| interface.address_like(group.ip()).is_some())
    }
}

impl EtherPolicy {
    /// Returns whether the interface matches, even if it is down.
    pub fn covers(&self, interface: &Interface) -> bool {
        !interface.loopback && self.filter.accepts(interface)
    }

    /// Returns whether the interface matches and can be used.
    pub fn accepts_usable(&self, interface: &Interface) -> bool {
        interface.up
            && !interface.loopback
            && interface.mac.is_some()
            && self.filter.accepts(interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_applies_by_flags_and_addresses() {
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
        assert!(ether.accepts_usable(&eth0));
        for (interface, with_ether) in [
            (Interface { up: false, ..eth0.clone() }, false),
            (Interface { loopback: true, ..eth0.clone() }, false),
            (Interface { multicast: false, ..eth0.clone() }, true),
        ] {
            assert_eq!(
                (joined(&interface).len(), ether.accepts_usable(&interface)),
                (0, with_ether),
                "{interface:?}"
            );
        }
        assert!(!ether.accepts_usable(&Interface { mac: None, ..eth0 }));
    }
}
