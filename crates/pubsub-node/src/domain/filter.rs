//! Forwarding identifiers of the domain (LIPSIN: Jokela et al., SIGCOMM 2009).
//!
//! Each directed link has an identifier of [`BITS`] bits in each of [`TABLES`] tables, computed
//! from its ends, so that no node has to assign it. A tree is the union of its links and of the
//! internal links of the nodes it ends at; of the candidates, one per table, the one with the
//! fewest bits is used (*fpa*). Invariant: an identifier above the fill limit is never made.

use super::NodeId;
use nw_wire::publication::Fid;

/// Number of tables.
pub const TABLES: u8 = 8;
/// Bits of a link's identifier.
const BITS: u32 = 5;
/// Bits of a forwarding identifier that may be set: 70 %.
pub const FILL_MAX: u32 = 179;

/// Returns the identifier of the link between two nodes; of a node's internal link if both are the
/// same.
pub fn link_id(table: u8, from: NodeId, to: NodeId) -> Fid {
    let mut state = from.0.rotate_left(17) ^ to.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^= u64::from(table) << 56;
    let mut id = Fid::default();
    while id.count_ones() < BITS {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        id = id.union(Fid::of_bit((mixed >> 40) as u8));
    }
    id
}

/// Returns the table and the identifier of a tree. `None` if every candidate is above the limit.
pub fn tree_id(links: &[(NodeId, NodeId)]) -> Option<(u8, Fid)> {
    let candidate = |table| {
        let union = links
            .iter()
            .fold(Fid::default(), |fid, (from, to)| fid.union(link_id(table, *from, *to)));
        (table, union)
    };
    let best = (0..TABLES).map(candidate).min_by_key(|(_, fid)| fid.count_ones())?;
    (best.1.count_ones() <= FILL_MAX).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

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
