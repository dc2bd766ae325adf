//! State that strategies share and keep between packets: measurements and random numbers.

use nw_packet_types::random::Random;
use nw_tables::measurements::Measurements;

/// The strategy state of one router.
#[derive(Debug)]
pub struct StrategyState {
    /// Measurements per prefix.
    pub measurements: Measurements,
    /// Random numbers.
    pub random: Random,
}

impl StrategyState {
    /// Creates the state with space for this many prefixes. The same `seed` gives the same random
    /// numbers.
    pub fn new(prefixes_max: usize, seed: u64) -> Self {
        StrategyState { measurements: Measurements::new(prefixes_max), random: Random::new(seed) }
    }
}

/// Mixes a number over all 64 bits; a bijection.
pub(super) const fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
