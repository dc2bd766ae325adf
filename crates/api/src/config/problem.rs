//! Mistakes in a configuration file: where, what was seen, what was expected.

use core::fmt;
use core::ops::Range;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The option, such as `faces.udp.mtu`, or `TOML` for text that is none.
    pub option: String,
    /// What is there.
    pub seen: String,
    /// What should be.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: saw {}; expected {}",
            self.file, self.line, self.option, self.seen, self.expected
        )
    }
}

/// All mistakes in a file, by line. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut problems = self.0.iter();
        if let Some(first) = problems.next() {
            write!(f, "{first}")?;
        }
        problems.try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

impl core::error::Error for Problems {}

/// A file being read, and what was found wrong with it.
#[derive(Debug)]
pub struct Source<'a> {
    file: &'a str,
    pub(super) text: &'a str,
    problems: Vec<Problem>,
}

impl<'a> Source<'a> {
    /// `file` is what problems call it.
    pub const fn new(file: &'a str, text: &'a str) -> Self {
        Source { file, text, problems: Vec::new() }
    }

    /// Notes a mistake at a place of the text.
    pub fn problem(
        &mut self,
        at: &Range<usize>,
        option: impl Into<String>,
        seen: impl Into<String>,
        expected: impl Into<String>,
    ) {
        let line = self.line(at.start);
        let (option, seen, expected) = (option.into(), seen.into(), expected.into());
        self.problems.push(Problem { file: self.file.to_owned(), line, option, seen, expected });
    }

    /// The line of an octet, from 1.
    pub fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|octet| **octet == b'\n').count()
    }

    /// The text at a place, shortened to what fits a line.
    pub fn seen(&self, at: &Range<usize>) -> String {
        let text = self.text.get(at.clone()).unwrap_or("").trim();
        let line = text.lines().next().unwrap_or("");
        let short: String = line.chars().take(SEEN_LEN_MAX).collect();
        match (text.is_empty(), short.len() < text.len()) {
            (true, _) => "nothing".to_owned(),
            (false, true) => format!("{short}…"),
            (false, false) => short,
        }
    }

    /// What was read, if nothing was wrong.
    ///
    /// # Errors
    /// All that was.
    pub fn finish<T>(mut self, value: T) -> Result<T, Problems> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        self.problems.sort_by_key(|problem| problem.line);
        Err(Problems(self.problems))
    }
}

const SEEN_LEN_MAX: usize = 60;
