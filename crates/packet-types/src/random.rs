//! Reproducible pseudo-random numbers: nonces, choices of strategies, workloads and tests. The same
//! seed gives the same numbers on every machine. Not for secrets.

/// A SplitMix64 generator: evenly distributed, not cryptographic.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. The same `seed` gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        let next = splitmix64(self.0);
        self.0 = self.0.wrapping_add(STEP);
        next
    }

    /// Returns a number below `end`; 0 if `end` is 0. The bias is below `end` / 2^64.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next_u64() as u128 * end as u128) >> 64) as u64
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the SplitMix64 output for a counter value: distinct inputs give distinct outputs, and
/// every input bit affects every output bit.
pub const fn splitmix64(counter: u64) -> u64 {
    let mut state = counter.wrapping_add(STEP);
    state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the reference implementation for seed 1234567.
    #[test]
    fn random_outputs_equal_reference() {
        let mut random = Random::new(1_234_567);
        let outputs = [random.next_u64(), random.next_u64(), random.next_u64()];
        let reference =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(outputs, reference);
    }

    #[test]
    fn below_stays_below_its_end() {
        let mut random = Random::new(7);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
    }
}
