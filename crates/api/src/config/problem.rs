//! Mistakes in a configuration file: where, and what is wrong.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeSet;

/// Mistakes that are kept, those of the first lines; the others are counted.
pub const PROBLEMS_MAX: usize = 100;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The option, such as `faces.udp.mtu`, or `TOML` for text that is none.
    pub option: String,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One thing is there where another should be.
    Mismatch {
        /// What is there.
        seen: String,
        /// What should be.
        expected: String,
    },
    /// A sentence that needs no such frame.
    Sentence(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Mismatch { seen, expected } => write!(f, "saw {seen}; expected {expected}"),
            Fault::Sentence(sentence) => f.write_str(sentence),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.option, self.fault)
    }
}

/// The mistakes in a file, by line: at least one, at most [`PROBLEMS_MAX`], and how many more there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>, pub usize);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut problems = self.0.iter();
        if let Some(first) = problems.next() {
            write!(f, "{first}")?;
        }
        problems.try_for_each(|problem| write!(f, "\n{problem}"))?;
        match self.1 {
            0 => Ok(()),
            more => write!(f, "\nand {more} more mistakes: correct these first"),
        }
    }
}

impl core::error::Error for Problems {}

/// A file being read, and what was found wrong with it.
#[derive(Debug)]
pub struct Source<'a> {
    file: &'a str,
    pub(super) text: &'a str,
    /// Offsets at which lines begin.
    lines: Vec<usize>,
    /// By line, at most [`PROBLEMS_MAX`].
    problems: Vec<Problem>,
    /// Found and not kept.
    more: usize,
    /// Options whose values could not be read.
    unread: BTreeSet<String>,
}

impl<'a> Source<'a> {
    /// `file` is what problems call it.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = core::iter::once(0).chain(ends).collect();
        Source { file, text, lines, problems: Vec::new(), more: 0, unread: BTreeSet::new() }
    }

    /// Notes that one thing stands where another should.
    pub fn problem(
        &mut self,
        at: &Range<usize>,
        option: impl Into<String>,
        seen: impl Into<String>,
        expected: impl Into<String>,
    ) {
        let (seen, expected) = (seen.into(), expected.into());
        self.note(at, || (option.into(), Fault::Mismatch { seen, expected }));
    }

    /// Notes a mistake that is a sentence of its own.
    pub fn sentence(&mut self, at: &Range<usize>, option: impl Into<String>, sentence: impl Into<String>) {
        self.note(at, || (option.into(), Fault::Sentence(sentence.into())));
    }

    /// Notes a mistake. `describe` runs only if it is one of those that are kept, so that a file of many thousand mistakes costs no more than its lines.
    pub(super) fn note(&mut self, at: &Range<usize>, describe: impl FnOnce() -> (String, Fault)) {
        let line = self.line(at.start);
        if self.problems.len() == PROBLEMS_MAX {
            self.more += 1;
            if self.problems.last().is_none_or(|last| last.line <= line) {
                return;
            }
            self.problems.pop();
        }
        let (option, fault) = describe();
        // Behind others of its line: they stay in the order in which they were found.
        let place = self.problems.partition_point(|problem| problem.line <= line);
        self.problems.insert(place, Problem { file: self.file.to_owned(), line, option, fault });
    }

    /// Returns true when a mistake at this place would be kept.
    pub(super) fn keeps(&self, at: &Range<usize>) -> bool {
        let line = self.line(at.start);
        self.problems.len() < PROBLEMS_MAX || self.problems.last().is_some_and(|last| line < last.line)
    }

    /// Ends reading: what is noted from now on is about values.
    pub(super) fn end_reading(&mut self) {
        self.unread = self.problems.iter().map(|problem| problem.option.clone()).collect();
    }

    /// Returns true when the value of an option could not be read: what follows from that need not be said.
    pub fn is_unread(&self, option: &str) -> bool {
        self.unread.contains(option)
    }

    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at.min(self.text.len()))
    }

    /// The text of the line that a byte is in.
    pub(super) fn line_text(&self, at: usize) -> &'a str {
        let start = self.lines[self.line(at) - 1];
        self.text[start..].lines().next().unwrap_or("")
    }

    /// The text at a place, shortened to what fits a line.
    pub fn seen(&self, at: &Range<usize>) -> String {
        shorten(self.text.get(at.clone()).unwrap_or(""))
    }

    /// What was read, if nothing was wrong.
    ///
    /// # Errors
    /// All that was.
    pub fn finish<T>(self, value: T) -> Result<T, Problems> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        Err(Problems(self.problems, self.more))
    }
}

/// The first line of a text, as far as it fits a message. Control characters are escaped: messages go to terminals.
pub(super) fn shorten(text: &str) -> String {
    let text = text.trim_ascii_start();
    let line = text.lines().next().unwrap_or("").trim_end();
    let short: String = line.chars().take(SEEN_LEN_MAX).collect();
    let whole = short.len() == line.len() && text[line.len()..].trim_ascii().is_empty();
    let escaped: String = short.chars().flat_map(|c| Shown::of(c)).collect();
    match (text.is_empty(), whole) {
        (true, _) => "nothing".to_owned(),
        (false, false) => format!("{escaped}…"),
        (false, true) => escaped,
    }
}

/// A character as it may be printed.
enum Shown {
    Plain(core::iter::Once<char>),
    Escaped(core::char::EscapeDefault),
}

impl Shown {
    fn of(c: char) -> Self {
        match c.is_control() && c != '\t' {
            true => Shown::Escaped(c.escape_default()),
            false => Shown::Plain(core::iter::once(c)),
        }
    }
}

impl Iterator for Shown {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self {
            Shown::Plain(one) => one.next(),
            Shown::Escaped(many) => many.next(),
        }
    }
}

const SEEN_LEN_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_beyond_the_bound_are_counted_and_the_first_lines_kept() {
        let text = "x\n".repeat(1000);
        let mut source = Source::new("f", &text);
        // From the last line to the first: those of the first lines stay.
        for line in (0..1000).rev() {
            source.problem(&(2 * line..2 * line + 1), "o", "a", "b");
        }
        let Err(Problems(list, more)) = source.finish(()) else { panic!("there are problems") };
        let lines: Vec<usize> = list.iter().map(|problem| problem.line).collect();
        assert_eq!((lines, more), ((1..=PROBLEMS_MAX).collect(), 1000 - PROBLEMS_MAX));
        let shown = Problems(list, more).to_string();
        assert!(shown.ends_with("\nand 900 more mistakes: correct these first"), "{shown}");
    }

    #[test]
    fn texts_are_shortened_and_escaped() {
        assert_eq!(shorten("  a = 1  \n"), "a = 1");
        assert_eq!(shorten("a\nb"), "a…");
        assert_eq!(shorten(" "), "nothing");
        assert_eq!(shorten("\"\u{1b}[31m\""), "\"\\u{1b}[31m\"");
        assert_eq!(shorten(&"ä".repeat(100)), format!("{}…", "ä".repeat(60)));
    }
}
