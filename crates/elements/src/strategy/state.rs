//! State that strategies share and keep between packets: measurements and random numbers.

use nw_tables::measurements::Measurements;

/// The strategy state of one router.
#[derive(Debug)]
pub struct StrategyState {
    /// Measurements per prefix.
    pub measurements: Measurements,
    /// Random numbers.
    pub generator: Generator,
}

impl StrategyState {
    /// Creates the state with space for this many prefixes. The same `seed` gives the same random
    /// numbers.
    pub fn new(prefixes_max: usize, seed: u64) -> Self {
        StrategyState { measurements: Measurements::new(prefixes_max), generator: Generator(seed) }
    }
}

/// A SplitMix64 generator: evenly distributed, not cryptographic.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// Creates a generator. The same `seed` gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Generator(seed)
    }

    /// Returns the next random number, 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a random number below `end`; 0 if `end` is 0. The bias is below `end` / 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }
}

/// Mixes a number over all 64 bits; a bijection.
pub(super) const fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
