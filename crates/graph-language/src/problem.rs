//! Problems of a graph: position, message, remedy.

use crate::Position;
use std::fmt;

/// One problem of a graph or graph file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Position in the file.
    pub position: Position,
    /// What is wrong: one sentence without a full stop.
    pub message: String,
    /// What to do about it: one sentence without a full stop.
    pub remedy: String,
}

impl Problem {
    /// Builds a problem at a position.
    pub fn new(position: Position, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Problem { position, message: message.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.position.line != 0 {
            write!(f, "{}:{}: ", self.position.line, self.position.column)?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

/// All problems of a file, sorted by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// File name, as shown in messages.
    pub file: String,
    /// The problems; never empty.
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
