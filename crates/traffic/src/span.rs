//! A number or a range of numbers, as a user writes it: `6`, `4-8`.

use core::fmt;
use core::str::FromStr;
use serde::{Serialize, Serializer};

/// From `min` to `max`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Smallest.
    pub min: usize,
    /// Largest.
    pub max: usize,
}

impl Span {
    /// Always this one.
    pub const fn of(number: usize) -> Self {
        Span { min: number, max: number }
    }

    /// The number that 64 random bits stand for; all alike.
    pub const fn pick(&self, random: u64) -> usize {
        self.min + (random % (self.max - self.min + 1) as u64) as usize
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.trim().parse::<u32>().map(|number| number as usize).map_err(|_| {
                format!("{text:?} is no number: write one, such as 6, or a range of two, such as 4-8")
            })
        };
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let span = Span { min: number(min)?, max: number(max)? };
        if span.min > span.max {
            return Err(format!("the range {text} is empty: write the smaller number first"));
        }
        Ok(span)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.min) } else { write!(f, "{}-{}", self.min, self.max) }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_ranges() {
        assert_eq!("6".parse(), Ok(Span::of(6)));
        assert_eq!("4-8".parse(), Ok(Span { min: 4, max: 8 }));
        assert_eq!("4-8".parse::<Span>().unwrap().to_string(), "4-8");
        for wrong in ["", "-", "8-4", "a", "1-b", "99999999999", "-3"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn picks_both_ends() {
        let span = Span { min: 4, max: 8 };
        let picked: std::collections::BTreeSet<_> = (0..100).map(|random| span.pick(random)).collect();
        assert_eq!(picked.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
    }
}
