//! A number or a range of numbers, as a user writes it: `6`, `4-8`.

use core::fmt;
use core::str::FromStr;
use serde::{Serialize, Serializer};

/// An inclusive range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The smallest number.
    pub min: usize,
    /// The largest number.
    pub max: usize,
}

impl NumberRange {
    /// Returns the range that holds this number only.
    pub const fn exactly(number: usize) -> Self {
        NumberRange { min: number, max: number }
    }

    /// Returns a number of the range for 64 random bits, uniformly.
    pub const fn pick(&self, random: u64) -> usize {
        self.min + (random % (self.max - self.min + 1) as u64) as usize
    }
}

impl FromStr for NumberRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.trim().parse::<u32>().map(|number| number as usize).map_err(|_| {
                format!(
                    "{text:?} is no number: write one, such as 6, or a range of two, such as 4-8"
                )
            })
        };
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let range = NumberRange { min: number(min)?, max: number(max)? };
        if range.min > range.max {
            return Err(format!("the range {text} is empty: write the smaller number first"));
        }
        Ok(range)
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}-{}", self.min, self.max)
        }
    }
}

impl Serialize for NumberRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_range_from_text_roundtrips() {
        assert_eq!("6".parse(), Ok(NumberRange::exactly(6)));
        assert_eq!("4-8".parse(), Ok(NumberRange { min: 4, max: 8 }));
        assert_eq!("4-8".parse::<NumberRange>().unwrap().to_string(), "4-8");
        for wrong in ["", "-", "8-4", "a", "1-b", "99999999999", "-3"] {
            assert!(wrong.parse::<NumberRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn number_range_pick_covers_both_ends() {
        let range = NumberRange { min: 4, max: 8 };
        let drawn: std::collections::BTreeSet<_> =
            (0..100).map(|random| range.pick(random)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    }
}
