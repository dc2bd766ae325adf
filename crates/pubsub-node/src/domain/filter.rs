//! Forwarding identifiers of the domain (LIPSIN: Jokela et al., SIGCOMM 2009), by the scheme of
//! `nw-pubsub`.
//!
//! The number of a directed link is computed from its ends, so that no node has to assign it. A
//! tree is the union of its links and of the internal links of the nodes it ends at; of the
//! candidates, one per table, the one with the fewest bits is used (*fpa*). Invariant: an
//! identifier above the fill limit is never made.

use super::NodeId;
use nw_packet_types::random::splitmix64;
use nw_pubsub::filter::{CANDIDATES, Criterion, FILL_BITS_MAX, LinkScheme, TABLES, choose};
use nw_wire::publication::Fid;

/// Returns the number of the link between two nodes; of a node's internal link if both are the
/// same. Two links of a domain have one number by chance only, as they may share an identifier.
pub fn link_number(from: NodeId, to: NodeId) -> u32 {
    splitmix64(splitmix64(from.0) ^ to.0) as u32
}

/// Returns the identifier in a table of the link between two nodes; of a node's internal link if
/// both are the same. Without one, that is all bits, which no identifier below the limit contains.
pub fn link_id(table: u8, from: NodeId, to: NodeId) -> Fid {
    LinkScheme::default().link_id(link_number(from, to), table).unwrap_or(Fid::BROADCAST)
}

/// Returns the identifiers in all tables of the link between two nodes.
pub fn link_ids(from: NodeId, to: NodeId) -> [Fid; TABLES] {
    core::array::from_fn(|table| link_id(table as u8, from, to))
}

/// Returns the table and the identifier of a tree. `None` if every candidate is above the limit.
pub fn tree_id(links: &[(NodeId, NodeId)]) -> Option<(u8, Fid)> {
    let scheme = LinkScheme::default();
    let mut filters = [Fid::default(); CANDIDATES];
    for (from, to) in links {
        for (filter, id) in filters.iter_mut().zip(scheme.candidates(link_number(*from, *to))) {
            *filter = filter.union(id);
        }
    }
    let table = choose(&filters, Criterion::Fpa, &[]);
    let filter = filters[usize::from(table)];
    (filter.count_ones() <= FILL_BITS_MAX).then_some((table, filter))
}

/// Returns the table and the identifier of a tree that no other link matches. `None` if there is
/// none below the limit.
pub fn clean_tree_id(links: &[(NodeId, NodeId)], others: &[(NodeId, NodeId)]) -> Option<(u8, Fid)> {
    let matching = |table: u8, filter: &Fid| {
        others.iter().any(|(from, to)| filter.contains(&link_id(table, *from, *to)))
    };
    let filter = |table: u8| {
        links.iter().fold(Fid::EMPTY, |filter, (from, to)| filter.union(link_id(table, *from, *to)))
    };
    let filters = (0..CANDIDATES as u8).map(|table| (table, filter(table)));
    filters
        .filter(|(table, filter)| filter.count_ones() <= FILL_BITS_MAX && !matching(*table, filter))
        .min_by_key(|(_, filter)| filter.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_without_identifiers_has_no_links() {
        let everything_allowed =
            (0..FILL_BITS_MAX as u8).fold(Fid::EMPTY, |filter, bit| filter.union(Fid::of_bit(bit)));
        for table in TABLES as u8..=255 {
            assert!(!everything_allowed.contains(&link_id(table, NodeId(1), NodeId(2))), "{table}");
        }
        assert_eq!(link_ids(NodeId(1), NodeId(2))[3], link_id(3, NodeId(1), NodeId(2)));
    }

    #[test]
    fn tree_contains_its_links_and_few_others() {
        let node = |number: u64| NodeId(number.wrapping_mul(0x1234_5678_9abc_def1));
        let links: Vec<_> = (1..=15).map(|n| (node(n), node(n + 1))).collect();
        let (table, fid) = tree_id(&links).unwrap();
        assert!(links.iter().all(|(from, to)| fid.contains(&link_id(table, *from, *to))));
        let others = (100..2100).filter(|n| fid.contains(&link_id(table, node(*n), node(1))));
        // Fill 0.26 or less, so about 0.1 % of the links that are not in the tree.
        assert!(others.count() < 20);
        let reverse = links.iter().filter(|(a, b)| fid.contains(&link_id(table, *b, *a)));
        assert!(reverse.count() <= 1);
        let many: Vec<_> = (1..=100).map(|n| (node(n), node(n + 1))).collect();
        assert_eq!(tree_id(&many), None);
    }
}
