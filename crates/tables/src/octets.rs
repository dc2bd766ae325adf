//! Comparing and copying octets of names and small packets.
//!
//! What the standard library calls for slices chooses its way by their length, and the lengths of names are hard to foresee: a wrong guess costs a
//! processor as much as fifty instructions. Between 16 and 64 octets, as nearly all are, the way here is one for all lengths:
//! four pieces of sixteen octets, which overlap where there are fewer.

use crate::memory::are_same_pieces;

/// Octets of a piece.
const PIECE: usize = 16;
const SHORT_MIN: usize = PIECE;
const SHORT_MAX: usize = 4 * PIECE;

/// Sixteen octets from `start` on.
#[inline(always)]
fn piece(octets: &[u8], start: usize) -> &[u8; PIECE] {
    octets[start..start + PIECE].as_array().expect("a piece")
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
    let (second, third) = (last.min(PIECE), last.min(2 * PIECE));
    are_same_pieces(
        [piece(a, 0), piece(a, second), piece(a, third), piece(a, last)],
        [piece(b, 0), piece(b, second), piece(b, third), piece(b, last)],
    )
}

/// Copies all octets of `from` to the beginning of `to`.
///
/// # Panics
/// When `to` is shorter.
#[inline(always)]
pub fn copy(from: &[u8], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    if !(SHORT_MIN..=SHORT_MAX).contains(&from.len()) {
        return copy_any(from, to);
    }
    let last = from.len() - PIECE;
    copy_piece(from, to, 0);
    copy_piece(from, to, last.min(PIECE));
    copy_piece(from, to, last.min(2 * PIECE));
    copy_piece(from, to, last);
}

/// Apart: where both ways are one function, a compiler lets the last piece of the short one end in the library's call, too.
#[inline(never)]
fn copy_any(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
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
