//! Identifiers of this node's links in all tables, computed when its neighbours change.
//!
//! Invariant: the table is that of the neighbours at the last [`ForwardingTable::new`]; nothing is
//! computed or allocated for a packet.

use super::filter::link_ids;
use super::stages::stage_key;
use super::{LinkAddress, NodeId};
use nw_pubsub::filter::TABLES;
use nw_pubsub::stages::contains;
use nw_wire::publication::{Fid, Stage};

/// The links of a node.
#[derive(Debug, Default)]
pub struct ForwardingTable {
    /// Addresses that packets are accepted from, in ascending order.
    sources: Vec<LinkAddress>,
    /// Addresses of the links by which packets leave.
    addresses: Vec<LinkAddress>,
    /// Identifiers of these links in each table.
    outgoing: [Vec<Fid>; TABLES],
    /// Identifiers of the internal link.
    internal: [Fid; TABLES],
    /// Keys of these links in filters of stages, and that of the internal link.
    outgoing_keys: Vec<u64>,
    internal_key: u64,
}

impl ForwardingTable {
    /// Creates the table of a node: its neighbours with the address of each, and all addresses that
    /// hellos come from.
    pub fn new(
        node: NodeId,
        neighbours: impl Iterator<Item = (NodeId, LinkAddress)>,
        sources: impl Iterator<Item = LinkAddress>,
    ) -> Self {
        let mut table = ForwardingTable {
            sources: sources.collect(),
            internal: link_ids(node, node),
            internal_key: stage_key(node, node),
            ..ForwardingTable::default()
        };
        table.sources.sort_unstable();
        for (neighbour, address) in neighbours {
            table.addresses.push(address);
            table.outgoing_keys.push(stage_key(node, neighbour));
            let ids = link_ids(node, neighbour);
            table.outgoing.iter_mut().zip(ids).for_each(|(outgoing, id)| outgoing.push(id));
        }
        table
    }

    /// Returns whether packets from an address are accepted.
    pub fn is_source(&self, from: LinkAddress) -> bool {
        self.sources.binary_search(&from).is_ok()
    }

    /// Returns whether an identifier contains the internal link.
    pub fn is_for_node(&self, table: u8, fid: &Fid) -> bool {
        self.internal.get(usize::from(table)).is_some_and(|id| fid.contains(id))
    }

    /// Returns the links in an identifier, without the one that a packet came by.
    pub fn links_in<'a>(
        &'a self,
        table: u8,
        fid: &'a Fid,
        from: Option<LinkAddress>,
    ) -> impl Iterator<Item = LinkAddress> + 'a {
        let ids = self.outgoing.get(usize::from(table)).map_or(&[][..], Vec::as_slice);
        let links = ids.iter().zip(&self.addresses);
        links
            .filter(move |(id, address)| fid.contains(id) && Some(**address) != from)
            .map(|(_, address)| *address)
    }

    /// Returns whether a stage contains the internal link.
    pub fn is_for_node_in_stage(&self, stage: &Stage<'_>) -> bool {
        contains(stage, self.internal_key)
    }

    /// Returns the links in a stage, without the one that a packet came by.
    pub fn links_in_stage<'a>(
        &'a self,
        stage: &'a Stage<'a>,
        from: Option<LinkAddress>,
    ) -> impl Iterator<Item = LinkAddress> + 'a {
        let links = self.outgoing_keys.iter().zip(&self.addresses);
        links
            .filter(move |(key, address)| Some(**address) != from && contains(stage, **key))
            .map(|(_, address)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::filter::{link_id, tree_id};
    use std::net::{Ipv4Addr, SocketAddr};

    fn address(last: u8) -> LinkAddress {
        SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 55_555)).into()
    }

    #[test]
    fn links_of_an_identifier_are_found_without_the_one_it_came_by() {
        let node = NodeId(1);
        let neighbours = (2..18).map(|n| (NodeId(n), address(n as u8)));
        let table = ForwardingTable::new(node, neighbours, (2..20).rev().map(address));
        let (number, fid) = tree_id(&[(node, NodeId(5)), (node, NodeId(9)), (node, node)]).unwrap();
        let links: Vec<_> = table.links_in(number, &fid, None).collect();
        assert!(links.contains(&address(5)) && links.contains(&address(9)), "{links:?}");
        let expected = (2..18)
            .filter(|n| fid.contains(&link_id(number, node, NodeId(*n))))
            .map(|n| address(n as u8));
        assert_eq!(links, expected.collect::<Vec<_>>());
        let without: Vec<_> = table.links_in(number, &fid, Some(address(5))).collect();
        assert!(!without.contains(&address(5)) && without.len() == links.len() - 1);
        assert!(table.is_for_node(number, &fid));
        assert!(!table.is_for_node(number, &link_id(number, node, NodeId(5))));
        // Tables that do not exist have no links, not even for an identifier with all bits.
        assert_eq!(table.links_in(TABLES as u8, &Fid::BROADCAST, None).count(), 0);
        assert!(!table.is_for_node(255, &Fid::BROADCAST));
        assert!(table.is_source(address(19)) && !table.is_source(address(20)));
    }
}
