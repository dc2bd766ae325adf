//! Comparing and copying octets of names and small packets.
//!
//! What the standard library calls for slices chooses its way by their length, and the lengths of names are hard to foresee: a wrong guess costs a
//! processor as much as fifty instructions. Between 16 and 64 octets, as nearly all are, the way here is one for all lengths:
//! four pieces of sixteen octets, which overlap where there are fewer.

/// Octets of a piece.
const PIECE: usize = 16;
const SHORT_MIN: usize = PIECE;
const SHORT_MAX: usize = 4 * PIECE;

/// Not zero when sixteen octets from `start` on differ.
#[inline(always)]
fn difference(a: &[u8], b: &[u8], start: usize) -> u64 {
    let (a, b) = (&a[start..start + PIECE], &b[start..start + PIECE]);
    word(a, 0) ^ word(b, 0) | word(a, 8) ^ word(b, 8)
}

#[inline(always)]
fn word(octets: &[u8], start: usize) -> u64 {
    let word = &octets[start..start + 8];
    u64::from_ne_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]])
}

/// True when both are the same octets.
#[inline(always)]
pub fn are_same(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    if !(SHORT_MIN..=SHORT_MAX).contains(&len) {
        return a == b;
    }
    let last = len - PIECE;
    let first_half = difference(a, b, 0) | difference(a, b, last.min(PIECE));
    first_half | difference(a, b, last.min(2 * PIECE)) | difference(a, b, last) == 0
}

/// Copies all octets of `from` to the beginning of `to`.
///
/// # Panics
/// When `to` is shorter.
#[inline(always)]
pub fn copy(from: &[u8], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    if !(SHORT_MIN..=SHORT_MAX).contains(&from.len()) {
        return to.copy_from_slice(from);
    }
    let last = from.len() - PIECE;
    copy_piece(from, to, 0);
    copy_piece(from, to, last.min(PIECE));
    copy_piece(from, to, last.min(2 * PIECE));
    copy_piece(from, to, last);
}

#[inline(always)]
fn copy_piece(from: &[u8], to: &mut [u8], start: usize) {
    to[start..start + PIECE].copy_from_slice(&from[start..start + PIECE]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_any_difference() {
        for len in 0..100 {
            let octets: Vec<u8> = (0..len).map(|at| at as u8 + 1).collect();
            assert!(are_same(&octets, &octets.clone()));
            assert!(!are_same(&octets, &[&octets[..], &[0]].concat()));
            for at in 0..len {
                let mut other = octets.clone();
                other[at] ^= 0x80;
                assert!(!are_same(&octets, &other), "{len} octets that differ at {at}");
            }
        }
    }

    #[test]
    fn copies_all_and_no_more() {
        for len in 0..100 {
            let octets: Vec<u8> = (0..len).map(|at| at as u8 + 1).collect();
            let mut to = [0; 110];
            copy(&octets, &mut to);
            assert_eq!(to[..len], octets);
            assert!(to[len..].iter().all(|octet| *octet == 0), "behind {len}");
        }
    }

    #[test]
    #[should_panic(expected = "range")]
    fn too_little_room_is_a_bug() {
        copy(&[1; 20], &mut [0; 19]);
    }
}
