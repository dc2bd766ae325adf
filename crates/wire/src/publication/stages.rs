//! A forwarding identifier in stages: a Bloom filter of links for each distance from the source
//! (Tapolcai et al., "Stateless multi-stage dissemination of information", Globecom 2012).
//!
//! ```text
//! stages 1 | { bytes 1 | ones and seed 1 | bits bytes }·stages
//! ```
//!
//! The high four bits of `ones and seed` are the bits set for a link, less 5; the low four are the
//! seed. Bit *i* is in byte *i*/8 with mask 1 << (*i* mod 8). Neither lengths nor stages are 0.
//!
//! A node reads one stage: the number of stages less the hop limit of the packet as it came. So a
//! packet makes fewer hops than it has stages, and can't go round.

use crate::{Error, Fault};

/// The table of staged identifiers: it has no identifiers of 256 bits.
pub const STAGES_TABLE: u8 = 9;

/// Most stages.
pub const STAGES_MAX: usize = 128;

/// Most bytes of a staged identifier.
pub const STAGED_LEN_MAX: usize = 512;

/// Fewest bits that a link has in a stage: as many as in the tables, so that a filter at the fill
/// limit passes no larger share of the links than one of those.
pub const STAGE_ONES_MIN: u8 = 5;

/// Most bits that a link has in a stage.
pub const STAGE_ONES_MAX: u8 = STAGE_ONES_MIN + 15;

/// Seeds of a stage.
pub const STAGE_SEEDS: u8 = 16;

/// Bytes of a stage before its bits.
pub const STAGE_HEAD_LEN: usize = 2;

/// The filter of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage<'a> {
    /// Bits of a link: [`STAGE_ONES_MIN`] to [`STAGE_ONES_MAX`]. Some may be the same.
    pub ones: u8,
    /// Seed from which they are computed, less than [`STAGE_SEEDS`].
    pub seed: u8,
    /// The bits, 1 to 255 bytes.
    pub bits: &'a [u8],
}

impl Stage<'_> {
    /// Returns the number of bits that are set.
    pub fn count_ones(&self) -> u32 {
        let (words, rest) = self.bits.as_chunks::<8>();
        let words: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
        words + rest.iter().map(|byte| byte.count_ones()).sum::<u32>()
    }

    /// Returns whether more bits are set than a limit, which is given for 256 bits.
    pub fn is_above(&self, bits_max_of_256: u32) -> bool {
        self.count_ones() * 32 > bits_max_of_256 * self.bits.len() as u32
    }

    /// Appends the stage.
    ///
    /// # Errors
    /// When a field is out of range.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let fault = Error::new(Fault::FieldValue, out.len());
        let len = u8::try_from(self.bits.len()).map_err(|_| fault)?;
        let ones = self.ones.checked_sub(STAGE_ONES_MIN).filter(|ones| *ones < 16).ok_or(fault)?;
        if len == 0 || self.seed >= STAGE_SEEDS {
            return Err(fault);
        }
        out.extend([len, ones << 4 | self.seed]);
        out.extend_from_slice(self.bits);
        Ok(())
    }
}

/// A checked identifier in stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedFilter<'a> {
    /// All bytes, without padding.
    bytes: &'a [u8],
}

impl<'a> StagedFilter<'a> {
    /// Checks an identifier that is followed by nothing.
    ///
    /// # Errors
    /// When a length or the number of stages is wrong.
    pub fn check(bytes: &'a [u8]) -> Result<Self, Error> {
        let filter = StagedFilter::check_start(bytes)?;
        match filter.bytes.len() == bytes.len() {
            true => Ok(filter),
            false => Err(Error::new(Fault::Trailing, filter.bytes.len())),
        }
    }

    /// Checks the identifier that bytes begin with.
    ///
    /// # Errors
    /// When a length or the number of stages is wrong.
    pub(super) fn check_start(bytes: &'a [u8]) -> Result<Self, Error> {
        let Some((count, _)) = bytes.split_first() else {
            return Err(Error::new(Fault::Truncated, 0));
        };
        if *count == 0 || usize::from(*count) > STAGES_MAX {
            return Err(Error::new(Fault::FieldValue, 0));
        }
        let mut at = 1;
        for _ in 0..*count {
            match bytes.get(at) {
                Some(0) => return Err(Error::new(Fault::FieldValue, at)),
                Some(len) => at += STAGE_HEAD_LEN + usize::from(*len),
                None => return Err(Error::new(Fault::Truncated, bytes.len())),
            }
        }
        if at > STAGED_LEN_MAX {
            return Err(Error::new(Fault::TooLong, 0));
        }
        match bytes.get(..at) {
            Some(bytes) => Ok(StagedFilter { bytes }),
            None => Err(Error::new(Fault::Truncated, bytes.len())),
        }
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of stages.
    pub fn stages(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(0)
    }

    /// Returns the stages, that of the source first.
    pub fn iter(&self) -> impl Iterator<Item = Stage<'a>> {
        let mut rest = self.bytes.get(1..).unwrap_or(&[]);
        core::iter::from_fn(move || {
            let ([len, ones_and_seed], after) = rest.split_first_chunk::<STAGE_HEAD_LEN>()?;
            let (bits, after) = after.split_at_checked(usize::from(*len))?;
            rest = after;
            let ones = STAGE_ONES_MIN + (ones_and_seed >> 4);
            Some(Stage { ones, seed: ones_and_seed & 0xf, bits })
        })
    }

    /// Returns the stage of a node that receives the packet with a hop limit. `None` if there is
    /// none: the hop limit is 0, or above the number of stages.
    pub fn stage_at(&self, hop_limit: u8) -> Option<Stage<'a>> {
        let at = self.stages().checked_sub(hop_limit)?;
        self.iter().nth(usize::from(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter() -> Vec<u8> {
        let mut bytes = vec![3];
        for (ones, seed, bits) in [(5, 0, &[1, 2][..]), (20, 15, &[0xff; 255]), (8, 3, &[0x80])] {
            Stage { ones, seed, bits }.encode(&mut bytes).expect("in range");
        }
        bytes
    }

    #[test]
    fn stages_are_read_as_written_and_found_by_the_hop_limit() {
        let bytes = filter();
        let checked = StagedFilter::check(&bytes).expect("a filter");
        assert_eq!(
            (checked.stages(), checked.iter().count(), checked.as_bytes()),
            (3, 3, &bytes[..])
        );
        let stages: Vec<_> = checked.iter().collect();
        assert_eq!(stages[1], Stage { ones: 20, seed: 15, bits: &[0xff; 255] });
        assert_eq!((stages[0].count_ones(), stages[1].count_ones()), (2, 2040));
        assert!(stages[1].is_above(255) && !stages[1].is_above(256) && !stages[0].is_above(32));
        for (hop_limit, at) in [(3, Some(0)), (2, Some(1)), (1, Some(2)), (0, None), (4, None)] {
            assert_eq!(checked.stage_at(hop_limit), at.map(|at: usize| stages[at]), "{hop_limit}");
        }
        assert_eq!(checked.stage_at(255), None);
    }

    #[test]
    fn lengths_and_counts_that_lie_are_refused() {
        let bytes = filter();
        for end in 0..bytes.len() {
            let error = StagedFilter::check(&bytes[..end]).expect_err("cut");
            assert_eq!((error.fault, error.offset), (Fault::Truncated, end));
        }
        let fault =
            |bytes: &[u8]| StagedFilter::check(bytes).map_err(|e| (e.fault, e.offset)).err();
        let changed = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            bytes
        };
        assert_eq!(fault(&changed(0, 0)), Some((Fault::FieldValue, 0)));
        assert_eq!(fault(&changed(0, 129)), Some((Fault::FieldValue, 0)));
        assert_eq!(fault(&changed(1, 0)), Some((Fault::FieldValue, 1)), "a stage without bits");
        assert_eq!(fault(&changed(0, 2)), Some((Fault::Trailing, 262)));
        assert!(fault(&changed(0, 4)).is_some() && fault(&changed(1, 3)).is_some());
        assert_eq!(fault(&[&[3][..], &[255; 3 * 257]].concat()), Some((Fault::TooLong, 0)));
        assert_eq!(fault(&[&[128][..], &[1; 384]].concat()), None, "128 stages");
        for (ones, seed, len) in [(4, 0, 1), (21, 0, 1), (5, 16, 1), (5, 0, 0), (5, 0, 256)] {
            let stage = Stage { ones, seed, bits: &vec![0; len] };
            assert!(stage.encode(&mut Vec::new()).is_err(), "{ones} {seed} {len}");
        }
    }
}
