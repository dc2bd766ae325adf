//! Forwarding as Blackadder 0.4 does it: by the identifiers of links in that of a packet.
//!
//! A packet leaves by each link whose identifier is contained in its own, but not to the neighbour
//! it came from, and is delivered here if the internal identifier is contained. One with all bits
//! set is delivered at each neighbour and not forwarded. The packet itself is not changed: it has
//! no hop limit, so nothing but the topology manager's choice of identifiers prevents loops.

use super::settings::{LinkSettings, NeighbourPlace, Settings};
use crate::domain::LinkAddress;
use nw_wire::publication::Fid;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A link to a neighbour.
#[derive(Debug)]
struct Link {
    place: NeighbourPlace,
    /// `None` while the interface is missing.
    address: Option<LinkAddress>,
    id: Option<Fid>,
}

/// The links of a node.
#[derive(Debug)]
pub struct Forwarder {
    internal: Fid,
    links: Vec<Link>,
    by_address: BTreeMap<LinkAddress, usize>,
}

impl Forwarder {
    /// Creates the forwarder of a node. Links over Ethernet are used once their interfaces are set.
    pub fn new(settings: &Settings, port: u16) -> Self {
        let link = |LinkSettings { place, id }: &LinkSettings| {
            let address = match place {
                NeighbourPlace::Udp(ip) => Some(SocketAddr::from((*ip, port)).into()),
                NeighbourPlace::Ethernet { .. } => None,
            };
            Link { place: place.clone(), address, id: *id }
        };
        let links = settings.links.iter().map(link).collect();
        let mut forwarder =
            Forwarder { internal: settings.internal, links, by_address: BTreeMap::new() };
        forwarder.index();
        forwarder
    }

    /// Sets the interfaces that there are, by name.
    pub fn set_interfaces(&mut self, index_of: impl Fn(&str) -> Option<u32>) {
        for link in &mut self.links {
            if let NeighbourPlace::Ethernet { interface, mac } = &link.place {
                let index = index_of(interface);
                link.address =
                    index.map(|interface| LinkAddress::Ethernet { interface, mac: *mac });
            }
        }
        self.index();
    }

    fn index(&mut self) {
        let links = self.links.iter().enumerate();
        self.by_address = links.filter_map(|(at, link)| Some((link.address?, at))).collect();
    }

    /// Returns the link from a neighbour.
    pub fn link_from(&self, address: &LinkAddress) -> Option<usize> {
        self.by_address.get(address).copied()
    }

    /// Returns whether a packet that came by a link is for this node.
    pub const fn is_for_this_node(&self, fid: &Fid) -> bool {
        fid.contains(&self.internal)
    }

    /// Returns the neighbours that a packet goes to. `ingress`: the link it came by; `None` for one
    /// of this node.
    pub fn neighbours<'a>(
        &'a self,
        fid: &'a Fid,
        ingress: Option<usize>,
    ) -> impl Iterator<Item = &'a LinkAddress> {
        let ends_here = ingress.is_some() && *fid == Fid::BROADCAST;
        let others = self.links.iter().enumerate().filter(move |(at, link)| {
            !ends_here && Some(*at) != ingress && link.id.is_some_and(|id| fid.contains(&id))
        });
        others.filter_map(|(_, link)| link.address.as_ref())
    }
}
