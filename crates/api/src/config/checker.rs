//! Reports mistakes in the values of a configuration, each at the place in the file that causes it.

use super::diagnostics::Source;
use super::table::Places;

/// Reports mistakes in the values of a configuration that was read from a file.
///
/// An option whose value could not be read is not reported again.
#[derive(Debug)]
pub struct Check<'a, 'b> {
    places: &'a Places,
    source: &'a mut Source<'b>,
}

impl<'a, 'b> Check<'a, 'b> {
    /// Returns a check that reports to `source`.
    pub const fn new(places: &'a Places, source: &'a mut Source<'b>) -> Self {
        Check { places, source }
    }

    /// Reports that an option has one value and should have another.
    pub fn mismatch(&mut self, option: &str, seen: impl Into<String>, expected: impl Into<String>) {
        let shown = self.places.shown(option);
        if !self.source.is_unread(&shown) {
            self.source.mismatch(&self.places.near(option), shown, seen, expected);
        }
    }

    /// Reports a mistake as a sentence.
    pub fn sentence(&mut self, option: &str, sentence: impl Into<String>) {
        let shown = self.places.shown(option);
        if !self.source.is_unread(&shown) {
            self.source.sentence(&self.places.near(option), shown, sentence);
        }
    }

    /// Returns whether the file has this option, item or section.
    pub fn has(&self, option: &str) -> bool {
        self.places.contains(option)
    }

    /// Returns the line of an option, from 1.
    pub(super) fn line(&self, option: &str) -> usize {
        self.source.line(self.places.near(option).start)
    }
}
