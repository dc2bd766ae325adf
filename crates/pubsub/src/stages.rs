//! Filters of a tree by distance from its source (Tapolcai et al., Globecom 2012; ToN 23(6),
//! 2015).
//!
//! Each node of a tree compares only the links of its own distance, so that a filter is as long as
//! that stage needs, and a packet goes no deeper than the stages. A link has some bits in the
//! filter of its stage, at positions computed from its key and the stage's seed. The source knows
//! the links that leave the tree, so it tries seeds, and then longer filters, until none of them
//! matches. A filter with *b* bits for each link matches another one with probability
//! 2^(−*b* ln 2).
//!
//! Invariant: every link of a stage matches its filter, and no filter is above the fill limit.

use crate::filter::{FILL_BITS_MAX, LinkScheme};
use nw_packet_types::random::splitmix64;
use nw_wire::publication::{
    STAGE_ONES_MAX, STAGE_ONES_MIN, STAGE_SEEDS, STAGES_MAX, STAGES_TABLE, Stage,
};

/// Fewest bits of a filter for each link.
const LINK_BITS_MIN: f64 = 8.0;
/// Most bits of a filter for each link.
const LINK_BITS_MAX: f64 = 28.0;
/// Other links that may match on average where the search begins: with 16 seeds some filter of
/// that length is likely to have none.
const START_MATCHES: f64 = 2.0;

impl LinkScheme {
    /// Returns the key from which a link's positions in filters of stages are computed.
    pub fn stage_key(&self, number: u32) -> u64 {
        splitmix64(self.seed ^ u64::from(number) << 8 ^ u64::from(STAGES_TABLE))
    }
}

/// Returns the positions of a link's bits in a filter of `bits` bits, at most 65,536.
#[inline]
pub fn positions(key: u64, seed: u8, ones: u8, bits: u32) -> impl Iterator<Item = usize> {
    let mut state = splitmix64(key.wrapping_add(u64::from(seed)));
    (0..ones).map(move |at| {
        let word = state >> (16 * (at % 4)) & 0xffff;
        if at % 4 == 3 {
            state = splitmix64(state);
        }
        ((word * u64::from(bits)) >> 16) as usize
    })
}

/// Returns whether a stage has the link with this key.
#[inline]
pub fn contains(stage: &Stage<'_>, key: u64) -> bool {
    let bits = 8 * stage.bits.len() as u32;
    positions(key, stage.seed, stage.ones, bits)
        .all(|at| stage.bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1))
}

/// The links of the nodes at one distance from the source, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageLinks {
    /// Links that packets are to take, and internal links of nodes that they are for.
    pub tree: Vec<u64>,
    /// Links and internal links that they are not to take.
    pub others: Vec<u64>,
}

/// The filters of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedTree {
    /// The identifier, as in packets.
    pub bytes: Vec<u8>,
    /// Other links that match.
    pub false_positives: usize,
}

/// Returns the filters of a tree's stages, that of the source first, in at most `len_max` bytes.
/// `None` if they need more, or if there are none or more than 128.
pub fn build(stages: &[StageLinks], len_max: usize) -> Option<StagedTree> {
    if stages.is_empty() || stages.len() > STAGES_MAX {
        return None;
    }
    let mut tree = StagedTree { bytes: vec![stages.len() as u8], false_positives: 0 };
    for links in stages {
        let (filter, false_positives) = best_filter(links)?;
        tree.false_positives += false_positives;
        filter.stage().encode(&mut tree.bytes).ok()?;
        if tree.bytes.len() > len_max {
            return None;
        }
    }
    Some(tree)
}

/// A filter that is being made.
#[derive(Clone, Debug)]
struct Filter {
    ones: u8,
    seed: u8,
    bits: Vec<u8>,
}

impl Filter {
    fn new(links: &[u64], len: usize, ones: u8, seed: u8) -> Self {
        let mut bits = vec![0; len];
        for at in links.iter().flat_map(|key| positions(*key, seed, ones, 8 * len as u32)) {
            bits[at / 8] |= 1 << (at % 8);
        }
        Filter { ones, seed, bits }
    }

    fn stage(&self) -> Stage<'_> {
        Stage { ones: self.ones, seed: self.seed, bits: &self.bits }
    }
}

/// Returns the shortest filter found that no other link matches, or else the one that the fewest
/// match, and their number. `None` if each would be too long or too full.
fn best_filter(links: &StageLinks) -> Option<(Filter, usize)> {
    let count = links.tree.len().max(1) as f64;
    let wanted_rate = START_MATCHES / links.others.len().max(1) as f64;
    let start = (-wanted_rate.log2() / core::f64::consts::LN_2).clamp(LINK_BITS_MIN, LINK_BITS_MAX);
    let mut len = (count * start / 8.0).ceil() as usize;
    let len_max = (count * LINK_BITS_MAX / 8.0).ceil().min(255.0) as usize;
    let mut best: Option<(Filter, usize)> = None;
    while len <= len_max {
        let ones = (8.0 * len as f64 / count * core::f64::consts::LN_2).round();
        let ones = (ones as u8).clamp(STAGE_ONES_MIN, STAGE_ONES_MAX);
        for seed in 0..STAGE_SEEDS {
            let filter = Filter::new(&links.tree, len, ones, seed);
            let stage = filter.stage();
            if stage.is_above(FILL_BITS_MAX) {
                continue;
            }
            let matching = links.others.iter().filter(|key| contains(&stage, **key)).count();
            if matching == 0 {
                return Some((filter, 0));
            }
            if best.as_ref().is_none_or(|(_, fewest)| matching < *fewest) {
                best = Some((filter, matching));
            }
        }
        len += (len / 8).max(1);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::publication::StagedFilter;

    fn keys(range: core::ops::Range<u32>) -> Vec<u64> {
        range.map(|number| LinkScheme::default().stage_key(number)).collect()
    }

    #[test]
    fn tree_matches_its_links_in_their_stages_and_no_other() {
        let stages: Vec<StageLinks> = (0..5)
            .map(|at| {
                let others = keys(1000 + 1000 * at..1300 + 1000 * at);
                StageLinks { tree: keys(20 * at..20 * at + 1 + 4 * at), others }
            })
            .collect();
        let tree = build(&stages, 512).expect("they fit");
        assert_eq!(tree.false_positives, 0);
        let filter = StagedFilter::check(&tree.bytes).expect("it was made");
        for (stage, links) in filter.iter().zip(&stages) {
            assert!(links.tree.iter().all(|key| contains(&stage, *key)));
            assert!(!links.others.iter().any(|key| contains(&stage, *key)));
            assert!(!stage.is_above(FILL_BITS_MAX));
        }
        // 45 links; 12 bits and a head for each stage would be 78 bytes.
        assert!(tree.bytes.len() < 90, "{}", tree.bytes.len());
    }

    #[test]
    fn tree_that_needs_more_bytes_or_stages_is_refused() {
        let of = |links: u32| [StageLinks { tree: keys(0..links), others: keys(5000..6000) }];
        assert!(build(&of(20), 32).is_none() && build(&of(20), 64).is_some());
        assert!(build(&of(255), 512).is_none(), "a stage has 255 bytes");
        let chain = |stages: usize| vec![of(1)[0].clone(); stages];
        assert!(build(&chain(128), 512).is_none() && build(&chain(129), 9999).is_none());
        assert!(build(&[], 512).is_none());
    }

    #[test]
    fn best_filter_is_given_where_none_is_clean() {
        let links = StageLinks { tree: keys(0..3), others: keys(2..10) };
        let (filter, matching) = best_filter(&links).expect("one of them");
        assert_eq!((matching, contains(&filter.stage(), links.others[0])), (1, true));
        let empty = StageLinks { tree: vec![], others: keys(0..10) };
        let (filter, matching) = best_filter(&empty).expect("one without bits");
        assert_eq!((matching, filter.bits), (0, vec![0]));
    }

    #[test]
    fn positions_are_below_the_number_of_bits_and_spread() {
        for bits in [8, 40, 2040, 65_536] {
            let mut counts = vec![0; bits as usize];
            for key in keys(0..2000) {
                positions(key, 3, 20, bits).for_each(|at| counts[at] += 1);
            }
            let (least, most) = (counts.iter().min(), counts.iter().max());
            let mean = 40_000 / bits;
            assert!(most <= Some(&(mean * 2 + 12)), "{bits}: {most:?}");
            assert!(least >= Some(&(mean / 8)), "{bits}: {least:?}");
        }
    }
}
