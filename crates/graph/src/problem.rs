//! What is wrong with a graph: where, what, and what helps.

use crate::Place;
use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is wrong, in one sentence without its full stop.
    pub what: String,
    /// What to do, likewise.
    pub remedy: String,
}

impl Problem {
    /// At a place.
    pub fn new(place: Place, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Problem { place, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.line != 0 {
            write!(f, "{}:{}: ", self.place.line, self.place.column)?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

/// All that is wrong with a file, in its order. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// What the file is called in messages.
    pub file: String,
    /// At least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "\n" })?;
            write!(f, "{}:{problem}", self.file)?;
        }
        Ok(())
    }
}

impl core::error::Error for Problems {}
