//! Reproducible pseudo-random numbers for workloads and tests. Not for secrets.

/// Returns the SplitMix64 output for a counter value: distinct inputs give distinct outputs, and
/// every input bit affects every output bit.
pub const fn splitmix64(counter: u64) -> u64 {
    let mut state = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}
