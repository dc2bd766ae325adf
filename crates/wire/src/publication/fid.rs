//! Forwarding identifiers and link identifiers: sets of 256 bits.
//!
//! Bit *i* is in byte *i*/8 with mask 1 << (*i* mod 8), so it is bit *i* mod 64 of word *i*/64 when
//! words are read with the least significant byte first.

use core::fmt;

/// Bytes of a forwarding identifier.
pub const FID_LEN: usize = 32;

/// Bits of a forwarding identifier.
pub const FID_BITS: usize = 8 * FID_LEN;

/// A forwarding identifier, or the identifier of a link: a set of 256 bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fid([u64; 4]);

impl Fid {
    /// No bit.
    pub const EMPTY: Fid = Fid([0; 4]);

    /// Every bit: delivery at each neighbour, one hop only.
    pub const BROADCAST: Fid = Fid([u64::MAX; 4]);

    /// Reads an identifier.
    #[inline]
    pub fn from_bytes(bytes: &[u8; FID_LEN]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes.as_chunks::<8>().0[at]);
        Fid([word(0), word(1), word(2), word(3)])
    }

    /// Returns the bytes on the wire.
    pub fn to_bytes(self) -> [u8; FID_LEN] {
        let mut bytes = [0; FID_LEN];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// Returns the identifier with a single bit, whose number is taken modulo 256.
    pub const fn of_bit(bit: u8) -> Self {
        let mut words = [0; 4];
        words[bit as usize / 64] = 1 << (bit % 64);
        Fid(words)
    }

    /// Returns whether all bits of `other` are in this identifier.
    #[inline(always)]
    pub const fn contains(&self, other: &Fid) -> bool {
        let missing = (!self.0[0] & other.0[0])
            | (!self.0[1] & other.0[1])
            | (!self.0[2] & other.0[2])
            | (!self.0[3] & other.0[3]);
        missing == 0
    }

    /// Returns the bits of both.
    #[must_use]
    pub const fn union(self, other: Fid) -> Fid {
        Fid([
            self.0[0] | other.0[0],
            self.0[1] | other.0[1],
            self.0[2] | other.0[2],
            self.0[3] | other.0[3],
        ])
    }

    /// Returns the number of bits that are set.
    #[inline(always)]
    pub const fn count_ones(&self) -> u32 {
        self.0[0].count_ones()
            + self.0[1].count_ones()
            + self.0[2].count_ones()
            + self.0[3].count_ones()
    }

    /// Returns whether no bit is set.
    pub const fn is_empty(&self) -> bool {
        self.0[0] | self.0[1] | self.0[2] | self.0[3] == 0
    }

    /// Returns the four words, bits 0 to 63 first.
    #[inline(always)]
    pub const fn words(self) -> [u64; 4] {
        self.0
    }

    /// Creates an identifier from its four words.
    pub const fn from_words(words: [u64; 4]) -> Self {
        Fid(words)
    }
}

impl fmt::Display for Fid {
    /// Writes the bytes in hexadecimal digits, in wire order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for Fid {
    type Err = &'static str;

    /// Parses 64 hexadecimal digits, 256 binary digits with bit 255 first (as in configurations of
    /// Blackadder), or numbers of bits joined by `+`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected 64 hexadecimal digits, 256 binary digits, or bits from 0 \
                                to 255 joined by +";
        if text.len() == FID_BITS && text.bytes().all(|digit| matches!(digit, b'0' | b'1')) {
            let set = (0..=255_u8).rev().zip(text.bytes()).filter(|(_, digit)| *digit == b'1');
            return Ok(set.fold(Fid::EMPTY, |fid, (bit, _)| fid.union(Fid::of_bit(bit))));
        }
        if text.len() != 2 * FID_LEN || !text.is_ascii() {
            let bit = |word: &str| word.parse().map(Fid::of_bit).map_err(|_| EXPECTED);
            return text.split('+').try_fold(Fid::EMPTY, |fid, word| Ok(fid.union(bit(word)?)));
        }
        let mut bytes = [0; FID_LEN];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| EXPECTED)?;
        }
        Ok(Fid::from_bytes(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of the recorded chain: n0>n1 is bit 155, n1's internal link bit 254.
    #[test]
    fn bit_is_in_the_byte_where_blackadder_has_it() {
        for (bit, byte, mask) in [(0, 0, 1), (155, 19, 8), (154, 19, 4), (254, 31, 0x40)] {
            let bytes = Fid::of_bit(bit).to_bytes();
            assert_eq!(bytes[byte], mask, "bit {bit}");
            assert_eq!(bytes.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
            assert_eq!(Fid::from_bytes(&bytes), Fid::of_bit(bit));
        }
    }

    #[test]
    fn set_operations_agree_with_bits() {
        let fid = Fid::of_bit(3).union(Fid::of_bit(64)).union(Fid::of_bit(255));
        assert_eq!((fid.count_ones(), Fid::BROADCAST.count_ones()), (3, 256));
        assert!(fid.contains(&Fid::of_bit(64)) && !fid.contains(&Fid::of_bit(65)));
        assert!(fid.contains(&Fid::EMPTY) && Fid::EMPTY.is_empty());
        assert_eq!(fid.to_string().parse(), Ok(fid));
        assert_eq!("3+64+255".parse(), Ok(fid));
        assert!("3+256".parse::<Fid>().is_err() && "".parse::<Fid>().is_err());
        assert_eq!(Fid::from_words(fid.words()), fid);
        let digits: String = (0..=255)
            .rev()
            .map(|bit| if [3, 64, 255].contains(&bit) { '1' } else { '0' })
            .collect();
        assert_eq!(digits.parse(), Ok(fid));
        assert!(
            digits[1..].parse::<Fid>().is_err() && digits.replace('1', "2").parse::<Fid>().is_err()
        );
    }
}
