//! What tests of several tables share: one hash key and one generator of hashes.

use nw_name::HashKey;

/// A key with random-looking bits (digits of pi), as hashes cluster under a key of small numbers.
pub const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

/// Returns the `number`-th pseudo-random hash: small numbers spread over all 64 bits.
pub fn hash(number: u64) -> u64 {
    let product = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    product as u64 ^ (product >> 64) as u64
}
