//! Comparing and copying names and small packets.
//!
//! The standard library's functions branch on the length, and lengths of names are hard to predict:
//! a wrong prediction costs about fifty instructions. So from 16 to 64 bytes, as nearly all names
//! have, these functions do the same for every length: they use four pieces of 16 bytes, which
//! overlap in shorter slices.

use crate::memory::eq_pieces;

/// Bytes of a piece.
const PIECE: usize = 16;
const PIECES_LEN_MIN: usize = PIECE;
const PIECES_LEN_MAX: usize = 4 * PIECE;

/// Returns the 16 bytes from `start` on.
#[inline(always)]
fn piece(bytes: &[u8], start: usize) -> &[u8; PIECE] {
    bytes[start..start + PIECE].as_array().expect("a piece")
}

/// Returns whether two slices are equal.
#[inline(always)]
pub fn eq(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    if !(PIECES_LEN_MIN..=PIECES_LEN_MAX).contains(&len) {
        return a == b;
    }
    let last = len - PIECE;
    let (second, third) = (last.min(PIECE), last.min(2 * PIECE));
    eq_pieces(
        [piece(a, 0), piece(a, second), piece(a, third), piece(a, last)],
        [piece(b, 0), piece(b, second), piece(b, third), piece(b, last)],
    )
}

/// Copies `from` to the beginning of `to`.
///
/// # Panics
/// When `to` is shorter than `from`.
#[inline(always)]
pub fn copy(from: &[u8], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    if !(PIECES_LEN_MIN..=PIECES_LEN_MAX).contains(&from.len()) {
        return copy_slow(from, to);
    }
    let last = from.len() - PIECE;
    copy_piece(from, to, 0);
    copy_piece(from, to, last.min(PIECE));
    copy_piece(from, to, last.min(2 * PIECE));
    copy_piece(from, to, last);
}

/// A function of its own: otherwise the compiler merges the last piece of the short path into the
/// library call.
#[inline(never)]
fn copy_slow(from: &[u8], to: &mut [u8]) {
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
    fn eq_any_length_finds_any_difference() {
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8 + 1).collect();
            assert!(eq(&bytes, &bytes.clone()));
            assert!(!eq(&bytes, &[&bytes[..], &[0]].concat()));
            for at in 0..len {
                let mut other = bytes.clone();
                other[at] ^= 0x80;
                assert!(!eq(&bytes, &other), "{len} bytes that differ at {at}");
            }
        }
    }

    #[test]
    fn copy_any_length_copies_exactly() {
        for len in 0..100 {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8 + 1).collect();
            let mut to = [0; 110];
            copy(&bytes, &mut to);
            assert_eq!(to[..len], bytes);
            assert!(to[len..].iter().all(|byte| *byte == 0), "after {len} bytes");
        }
    }

    #[test]
    #[should_panic(expected = "range")]
    fn copy_short_target_panics() {
        copy(&[1; 20], &mut [0; 19]);
    }
}
