//! What strategies share and keep from one packet to the next: measurements, and a generator of random numbers.

use nw_tables::measurements::Measurements;

/// One per router.
#[derive(Debug)]
pub struct StrategyState {
    /// What is remembered of prefixes.
    pub measurements: Measurements,
    /// Draws.
    pub generator: Generator,
}

impl StrategyState {
    /// For so many prefixes; the same `seed` gives the same draws.
    pub fn new(prefixes_max: usize, seed: u64) -> Self {
        StrategyState { measurements: Measurements::new(prefixes_max), generator: Generator(seed) }
    }
}

/// SplitMix64: draws must be even and differ, not be secret.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// The same `seed` gives the same draws.
    pub const fn new(seed: u64) -> Self {
        Generator(seed)
    }

    /// The next draw: all 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A draw below `end`; 0 when `end` is 0. The bias is below `end` / 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }
}

/// Spreads a number over all bits, one to one.
pub(super) const fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
