//! LIPSIN: link identifiers, and the choice of the filter that encodes a tree (Jokela et al.,
//! SIGCOMM 2009).
//!
//! Each unidirectional link, and the internal link of each node, has a number. From it, a
//! [`LinkScheme`] computes one identifier for each of 8 candidate tables, with a few bits each,
//! and for numbers below 256 one of a single bit (table 8). A tree is the union of its links'
//! identifiers in one table. Table 8 has no false positives. Among the others the one with the
//! fewest bits (*fpa*) or with the fewest false positives nearby (*fpr*) is chosen.

use nw_packet_types::random::splitmix64;
use nw_wire::publication::{FID_BITS, Fid};

/// Candidate tables.
pub const CANDIDATES: usize = 8;

/// The table of single-bit identifiers.
pub const SINGLE_BIT_TABLE: u8 = CANDIDATES as u8;

/// All tables: the candidates and the single bits.
pub const TABLES: usize = CANDIDATES + 1;

/// Most bits of a filter that forwarders accept by default: seven tenths, as in the LIPSIN paper.
pub const FILL_BITS_MAX: u32 = 179;

/// Most bits of a filter of candidate identifiers that the topology function makes: half, where a
/// Bloom filter of 5 bits an element has a false positive rate of 3 %.
pub const CANDIDATE_BITS_MAX: u32 = 128;

/// How link identifiers are computed from numbers. Every node of a domain has the same scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkScheme {
    /// Bits that identifiers use, at most 256.
    pub bits: u16,
    /// Bits set in an identifier, at most 32.
    pub ones: u8,
    /// Start of the pseudo-random sequence.
    pub seed: u64,
}

impl Default for LinkScheme {
    fn default() -> Self {
        LinkScheme { bits: FID_BITS as u16, ones: 5, seed: 0x6e77_7075_6273_7562 }
    }
}

impl LinkScheme {
    /// Returns a link's identifier in a table. `None` for numbers above 255 in table 8, and for
    /// tables that do not exist.
    pub fn link_id(&self, number: u32, table: u8) -> Option<Fid> {
        if table == SINGLE_BIT_TABLE {
            return u8::try_from(number).ok().map(Fid::of_bit);
        }
        if usize::from(table) >= CANDIDATES {
            return None;
        }
        let bits = u64::from(self.bits.clamp(1, FID_BITS as u16));
        let ones = u32::from(self.ones.clamp(1, 32)).min(bits as u32);
        let mut state = splitmix64(self.seed ^ u64::from(number) << 8 ^ u64::from(table));
        let mut id = Fid::EMPTY;
        while id.count_ones() < ones {
            state = splitmix64(state);
            id = id.union(Fid::of_bit((state % bits) as u8));
        }
        Some(id)
    }

    /// Returns a link's identifiers in the candidate tables.
    pub fn candidates(&self, number: u32) -> [Fid; CANDIDATES] {
        core::array::from_fn(|table| self.link_id(number, table as u8).unwrap_or_default())
    }

    /// Returns the share of other links that a filter matches by chance: ρ^k.
    pub fn false_positive_rate(&self, filter: &Fid) -> f64 {
        let fill = f64::from(filter.count_ones()) / f64::from(self.bits);
        fill.powi(i32::from(self.ones))
    }
}

/// How a filter is chosen among the candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Criterion {
    /// The fewest bits.
    Fpa,
    /// The fewest false positives among the links next to the tree; of equal ones the fewest bits.
    #[default]
    Fpr,
}

/// Returns the best candidate table for a tree. Filters with more than [`FILL_BITS_MAX`] bits come
/// last. `nearby` are identifiers, by table, of links that
/// leave the tree's nodes and are not part of it.
pub fn choose(
    filters: &[Fid; CANDIDATES],
    criterion: Criterion,
    nearby: &[&[Fid; CANDIDATES]],
) -> u8 {
    let cost = |table: usize| {
        let filter = &filters[table];
        let false_positives = match criterion {
            Criterion::Fpa => 0,
            Criterion::Fpr => nearby.iter().filter(|ids| filter.contains(&ids[table])).count(),
        };
        let ones = filter.count_ones();
        (ones > FILL_BITS_MAX, false_positives, ones)
    };
    (0..CANDIDATES).min_by_key(|table| cost(*table)).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_their_bits_and_differ_by_table() {
        let scheme = LinkScheme { bits: 248, ..LinkScheme::default() };
        for number in 0..1000 {
            let candidates = scheme.candidates(number);
            let above: Fid = (248..=255).fold(Fid::EMPTY, |f, bit| f.union(Fid::of_bit(bit)));
            for id in &candidates {
                assert_eq!(id.count_ones(), 5);
                assert!((248..=255).all(|bit| !id.contains(&Fid::of_bit(bit))), "{above}");
            }
            assert_ne!(candidates[0], candidates[1]);
            let single = scheme.link_id(number, SINGLE_BIT_TABLE);
            assert_eq!(single.is_some(), number < 256);
        }
        assert!(scheme.link_id(0, TABLES as u8 - 1).is_some());
        assert_eq!(scheme.link_id(0, TABLES as u8), None);
    }

    fn bits(bits: &[u8]) -> Fid {
        bits.iter().fold(Fid::EMPTY, |filter, bit| filter.union(Fid::of_bit(*bit)))
    }

    /// All nodes of a domain compute the same identifiers, also those of another version.
    #[test]
    fn identifiers_are_those_of_other_versions() {
        let id = |number, table| LinkScheme::default().link_id(number, table);
        assert_eq!(id(0, 0), Some(bits(&[98, 116, 144, 232, 255])));
        assert_eq!(id(1, 2), Some(bits(&[42, 123, 140, 160, 165])));
        assert_eq!(id(1000, 7), Some(bits(&[8, 36, 155, 160, 213])));
        assert_eq!(id(255, SINGLE_BIT_TABLE), Some(bits(&[255])));
    }

    /// Forwarders drop a filter above the limit, however few false positives it has.
    #[test]
    fn choice_takes_fuller_filters_than_allowed_last() {
        let lowest = |count: u32| bits(&(0..count as u8).collect::<Vec<_>>());
        let nearby = [bits(&[0, 1]); CANDIDATES];
        let mut filters = [lowest(FILL_BITS_MAX); CANDIDATES];
        // Without false positives, but one bit too many.
        let highest = |count: u32| bits(&(0..count as u8).map(|at| 255 - at).collect::<Vec<_>>());
        filters[2] = highest(FILL_BITS_MAX + 1);
        assert_eq!(choose(&filters, Criterion::Fpr, &[&nearby]), 0);
        filters[2] = highest(FILL_BITS_MAX);
        assert_eq!(choose(&filters, Criterion::Fpr, &[&nearby]), 2);
        // All are too full: the best of them is still an answer.
        filters = [lowest(FILL_BITS_MAX + 2); CANDIDATES];
        filters[4] = lowest(FILL_BITS_MAX + 1);
        assert_eq!(choose(&filters, Criterion::Fpr, &[&nearby]), 4);
    }

    #[test]
    fn choice_prefers_few_false_positives_then_few_bits() {
        let mut filters = [bits(&[0, 1, 2, 3]); CANDIDATES];
        filters[3] = bits(&[0, 1]);
        let nearby = [bits(&[0, 1]); CANDIDATES];
        assert_eq!(choose(&filters, Criterion::Fpa, &[&nearby]), 3);
        filters[5] = bits(&[4, 5, 6, 7, 8]);
        assert_eq!(choose(&filters, Criterion::Fpr, &[&nearby]), 5);
        assert_eq!(choose(&filters, Criterion::Fpr, &[]), 3);
        let scheme = LinkScheme::default();
        assert!(
            (scheme.false_positive_rate(&bits(&(0..128).collect::<Vec<_>>())) - 1.0 / 32.0).abs()
                < 1e-9
        );
    }
}
