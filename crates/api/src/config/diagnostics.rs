//! Mistakes in a configuration file, with their place.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeSet;

/// Maximum number of reported mistakes: those of the first lines. Further ones are counted.
pub const DIAGNOSTICS_MAX: usize = 100;

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// The option, such as `faces.udp.mtu`, or `TOML` for invalid TOML.
    pub option: String,
    /// The mistake.
    pub fault: Fault,
}

/// The kind of a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file has one value where another is expected.
    Mismatch {
        /// The value in the file.
        seen: String,
        /// The expected value.
        expected: String,
    },
    /// Any other mistake, as a sentence.
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

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.option, self.fault)
    }
}

/// The mistakes of a file, by line: 1 to [`DIAGNOSTICS_MAX`], and the number of further ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>, pub usize);

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut diagnostics = self.0.iter();
        if let Some(first) = diagnostics.next() {
            write!(f, "{first}")?;
        }
        diagnostics.try_for_each(|diagnostic| write!(f, "\n{diagnostic}"))?;
        match self.1 {
            0 => Ok(()),
            more => write!(f, "\nand {more} more mistakes: correct these first"),
        }
    }
}

impl core::error::Error for Diagnostics {}

/// An option or section that a file calls by its old name, which this version still accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The file, as messages call it.
    pub file: String,
    /// The line of the first use, from 1.
    pub line: usize,
    /// The old name, such as `faces.multicast.whitelist`.
    pub old: String,
    /// The name to write instead, such as `faces.multicast.allow`.
    pub new: String,
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Renamed { file, line, old, new } = self;
        write!(
            f,
            "{file}:{line}: {old} is now called {new}; the next version will not accept the old name"
        )
    }
}

/// The text of a file while it is parsed, and the mistakes found so far.
#[derive(Debug)]
pub struct Source<'a> {
    file: &'a str,
    pub(super) text: &'a str,
    /// Byte offsets of line starts.
    lines: Vec<usize>,
    /// Sorted by line, at most [`DIAGNOSTICS_MAX`].
    diagnostics: Vec<Diagnostic>,
    /// Number of mistakes that were not kept.
    omitted: usize,
    /// Options with values that could not be read.
    unread: BTreeSet<String>,
}

impl<'a> Source<'a> {
    /// Returns a text without mistakes. `file`: its name in messages.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let ends =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = core::iter::once(0).chain(ends).collect();
        Source { file, text, lines, diagnostics: Vec::new(), omitted: 0, unread: BTreeSet::new() }
    }

    /// Returns the name of the file, as messages call it.
    pub const fn file(&self) -> &'a str {
        self.file
    }

    /// Reports that the file has one value where another is expected.
    pub fn mismatch(
        &mut self,
        at: &Range<usize>,
        option: impl Into<String>,
        seen: impl Into<String>,
        expected: impl Into<String>,
    ) {
        let (seen, expected) = (seen.into(), expected.into());
        self.note(at, || (option.into(), Fault::Mismatch { seen, expected }));
    }

    /// Reports a mistake as a sentence.
    pub fn sentence(
        &mut self,
        at: &Range<usize>,
        option: impl Into<String>,
        sentence: impl Into<String>,
    ) {
        self.note(at, || (option.into(), Fault::Sentence(sentence.into())));
    }

    /// Reports a mistake. `describe` runs only if the mistake is kept, so that the time for a file
    /// with very many mistakes is proportional to its size.
    pub(super) fn note(&mut self, at: &Range<usize>, describe: impl FnOnce() -> (String, Fault)) {
        let line = self.line(at.start);
        if self.diagnostics.len() == DIAGNOSTICS_MAX {
            self.omitted += 1;
            if self.diagnostics.last().is_none_or(|last| last.line <= line) {
                return;
            }
            self.diagnostics.pop();
        }
        let (option, fault) = describe();
        // After others of the same line: they keep the order in which they were found.
        let index = self.diagnostics.partition_point(|diagnostic| diagnostic.line <= line);
        self.diagnostics
            .insert(index, Diagnostic { file: self.file.to_owned(), line, option, fault });
    }

    /// Returns whether a mistake at this place would be kept.
    pub(super) fn keeps(&self, at: &Range<usize>) -> bool {
        let line = self.line(at.start);
        self.diagnostics.len() < DIAGNOSTICS_MAX
            || self.diagnostics.last().is_some_and(|last| line < last.line)
    }

    /// Ends parsing. Later reports are about values.
    pub(super) fn end_reading(&mut self) {
        self.unread = self.diagnostics.iter().map(|diagnostic| diagnostic.option.clone()).collect();
    }

    /// Returns whether the value of an option could not be read. Consequences need no further
    /// report.
    pub fn is_unread(&self, option: &str) -> bool {
        self.unread.contains(option)
    }

    /// Returns the line of a byte offset, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at.min(self.text.len()))
    }

    /// Returns the text of the line that contains a byte offset.
    pub(super) fn line_text(&self, at: usize) -> &'a str {
        let start = self.lines[self.line(at) - 1];
        self.text[start..].lines().next().unwrap_or("")
    }

    /// Returns the text of a byte range, shortened to fit a message.
    pub fn seen(&self, at: &Range<usize>) -> String {
        shorten(self.text.get(at.clone()).unwrap_or(""))
    }

    /// Returns `value` if there were no mistakes.
    ///
    /// # Errors
    /// The mistakes.
    pub fn finish<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.diagnostics.is_empty() {
            return Ok(value);
        }
        Err(Diagnostics(self.diagnostics, self.omitted))
    }
}

/// Returns the first line of a text, shortened to fit a message, with control characters escaped.
pub(super) fn shorten(text: &str) -> String {
    let text = text.trim_ascii_start();
    let line = text.lines().next().unwrap_or("").trim_end();
    let short: String = line.chars().take(SEEN_LEN_MAX).collect();
    let is_complete = short.len() == line.len() && text[line.len()..].trim_ascii().is_empty();
    let escaped: String = short.chars().flat_map(PrintableChar::of).collect();
    match (text.is_empty(), is_complete) {
        (true, _) => "nothing".to_owned(),
        (false, false) => format!("{escaped}…"),
        (false, true) => escaped,
    }
}

/// The characters of a printable form of a character.
enum PrintableChar {
    Plain(core::iter::Once<char>),
    Escaped(core::char::EscapeDefault),
}

impl PrintableChar {
    fn of(c: char) -> Self {
        match c.is_control() && c != '\t' {
            true => PrintableChar::Escaped(c.escape_default()),
            false => PrintableChar::Plain(core::iter::once(c)),
        }
    }
}

impl Iterator for PrintableChar {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self {
            PrintableChar::Plain(plain) => plain.next(),
            PrintableChar::Escaped(escaped) => escaped.next(),
        }
    }
}

/// Maximum length of quoted text in messages, characters.
const SEEN_LEN_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_beyond_limit_are_counted_and_first_lines_kept() {
        let text = "x\n".repeat(1000);
        let mut source = Source::new("f", &text);
        // From the last line to the first: those of the first lines are kept.
        for line in (0..1000).rev() {
            source.mismatch(&(2 * line..2 * line + 1), "o", "a", "b");
        }
        let Err(Diagnostics(list, omitted)) = source.finish(()) else {
            panic!("there are mistakes")
        };
        let lines: Vec<usize> = list.iter().map(|diagnostic| diagnostic.line).collect();
        assert_eq!((lines, omitted), ((1..=DIAGNOSTICS_MAX).collect(), 1000 - DIAGNOSTICS_MAX));
        let shown = Diagnostics(list, omitted).to_string();
        assert!(shown.ends_with("\nand 900 more mistakes: correct these first"), "{shown}");
    }

    #[test]
    fn shorten_escapes_and_limits_text() {
        assert_eq!(shorten("  a = 1  \n"), "a = 1");
        assert_eq!(shorten("a\nb"), "a…");
        assert_eq!(shorten(" "), "nothing");
        assert_eq!(shorten("\"\u{1b}[31m\""), "\"\\u{1b}[31m\"");
        assert_eq!(shorten(&"ä".repeat(100)), format!("{}…", "ä".repeat(60)));
    }
}
