//! Reads a whole configuration file: TOML text to sections and items, with the place of each
//! option.

use super::diagnostics::{Fault, Renamed, Source};
use super::section::{Item, Section};
use super::table::{Table, entries};
use super::{suggest, toml_errors};
use core::ops::Range;
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use super::table::Places;

/// Reads a whole file. `sections` reads each section that the file may have; all others are
/// reported as unknown.
///
/// Returns `None`, with a report, if the text is not TOML: reports about the parts that could still
/// be parsed would be misleading.
pub fn read<T>(
    source: &mut Source<'_>,
    sections: impl FnOnce(&mut File<'_, '_, '_>) -> T,
) -> Option<(T, Places)> {
    let (document, errors) = DeTable::parse_recoverable(source.text);
    let broken = !errors.is_empty();
    let mut last_line = 0;
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        // Further errors on the same line usually follow from the first.
        let line = source.line(at.start);
        if core::mem::replace(&mut last_line, line) == line {
            continue;
        }
        // Making the sentence searches earlier lines, so it is made only for reports that are kept.
        let sentence =
            source.keeps(&at).then(|| toml_errors::sentence(source, &at, error.message()));
        source.note(&at, || ("TOML".to_owned(), Fault::Sentence(sentence.unwrap_or_default())));
    }
    if broken {
        return None;
    }
    let mut file = File {
        source,
        places: Places::default(),
        root: document.get_ref(),
        known: Vec::new(),
        known_old: Vec::new(),
    };
    let sections = sections(&mut file);
    let places = file.finish();
    source.end_reading();
    Some((sections, places))
}

/// A parsed file whose sections are read one by one.
#[derive(Debug)]
pub struct File<'a, 'b, 't> {
    source: &'a mut Source<'b>,
    places: Places,
    root: &'t DeTable<'t>,
    known: Vec<&'static str>,
    /// Old names of sections that the file uses.
    known_old: Vec<&'static str>,
}

impl<'t> File<'_, '_, 't> {
    /// Reads the section `[a]` or `[a.b]`. Options that the file does not have keep their defaults.
    pub fn section<S: Section>(&mut self) -> S {
        self.known.push(S::PATH);
        let Some((value, range)) = self.find(S::PATH, S::OLD_PATHS) else { return S::default() };
        let Some(table) = value.get_ref().as_table() else {
            self.report_shape(S::PATH, value, format!("a section [{}]", S::PATH));
            return S::default();
        };
        let prefix = format!("{}.", S::PATH);
        // Subsections, such as [faces.unix] in [faces], are read on their own.
        let is_section =
            |key: &str| SECTIONS.iter().any(|path| path.strip_prefix(&prefix) == Some(key));
        let mut table = Table {
            source: self.source,
            places: &mut self.places,
            path: S::PATH.to_owned(),
            section: S::PATH,
            key: S::PATH.to_owned(),
            range: range.clone(),
            entries: entries(table, is_section),
            known: Vec::new(),
        };
        let section = S::read(&mut table);
        table.finish();
        self.places.insert(S::PATH.to_owned(), range);
        section
    }

    /// Reads the items `[[a]]`. Items with mistakes are reported and left out.
    pub fn items<I: Item>(&mut self) -> Vec<I> {
        self.known.push(I::PATH);
        let Some((value, range)) = self.find(I::PATH, I::OLD_PATHS) else { return Vec::new() };
        self.places.insert(I::PATH.to_owned(), range);
        let Some(array) = value.get_ref().as_array() else {
            self.report_shape(I::PATH, value, format!("[[{}]], with double brackets", I::PATH));
            return Vec::new();
        };
        let (mut items, mut file_indexes) = (Vec::new(), Vec::new());
        for (index, value) in array.iter().enumerate() {
            let Some(table) = value.get_ref().as_table() else {
                self.report_shape(I::PATH, value, format!("a table [[{}]]", I::PATH));
                continue;
            };
            let key = format!("{}[{}]", I::PATH, items.len());
            self.places.insert(key.clone(), value.span());
            let mut table = Table {
                source: self.source,
                places: &mut self.places,
                path: format!("{}[{index}]", I::PATH),
                section: I::PATH,
                key: key.clone(),
                range: value.span(),
                entries: entries(table, |_| false),
                known: Vec::new(),
            };
            let item = I::read(&mut table);
            table.finish();
            match item {
                Some(item) => {
                    items.push(item);
                    file_indexes.push(index);
                }
                None => self.places.remove_item(&key),
            }
        }
        self.places.set_file_indexes(I::PATH, file_indexes);
        items
    }

    fn report_shape(&mut self, path: &str, value: &Spanned<DeValue<'_>>, expected: String) {
        let seen = self.source.seen(&value.span());
        self.source.mismatch(&value.span(), path, seen, expected);
    }

    /// Finds a section by its name or by an old one.
    fn find(
        &mut self,
        path: &'static str,
        old_paths: &[&'static str],
    ) -> Option<(&'t Spanned<DeValue<'t>>, Range<usize>)> {
        let mut found = find(self.root, path);
        for old in old_paths {
            let Some((value, range)) = find(self.root, old) else { continue };
            self.known_old.push(old);
            if found.is_some() {
                let seen = format!("{old}, the old name of {path}, in addition to {path}");
                self.source.mismatch(&range, path, seen, format!("{path} only"));
                continue;
            }
            self.places.record_renamed(Renamed {
                file: self.source.file().to_owned(),
                line: self.source.line(range.start),
                old: (*old).to_owned(),
                new: path.to_owned(),
            });
            found = Some((value, range));
        }
        found
    }

    fn finish(self) -> Places {
        let File { source, places, root, known, known_old } = self;
        let paths = known.iter().chain(&known_old);
        let top_level: BTreeSet<&str> = paths.filter_map(|path| path.split('.').next()).collect();
        for (key, _) in root.iter().filter(|(key, _)| !top_level.contains(key.get_ref().as_ref())) {
            source.note(&key.span(), || {
                let hint = suggest::hint(key.get_ref(), known.iter().copied());
                let seen = format!("the unknown section {}{hint}", key.get_ref());
                let expected = format!("one of {}", known.join(", "));
                ("sections".to_owned(), Fault::Mismatch { seen, expected })
            });
        }
        places
    }
}

/// Returns the value of `a` or `a.b`, and the byte range of its key.
fn find<'t>(root: &'t DeTable<'t>, path: &str) -> Option<(&'t Spanned<DeValue<'t>>, Range<usize>)> {
    let mut table = root;
    let mut parts = path.split('.').peekable();
    loop {
        let part = parts.next()?;
        let (key, value) = table.get_key_value(part)?;
        if parts.peek().is_none() {
            return Some((value, key.span()));
        }
        table = value.get_ref().as_table()?;
    }
}

/// Sections that are inside another section.
const SECTIONS: [&str; 7] = [
    "faces.unix",
    "faces.tcp",
    "faces.udp",
    "faces.websocket",
    "faces.multicast",
    "faces.ethernet",
    "faces.xdp",
];
