//! From TOML text to values, with the place of each.

use super::problem::Source;
use super::section::{Item, Section};
use super::value::{Limits, Value};
use super::{Config, check};
use core::ops::Range;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Places of what was read, by option: `management.localhop`, `route[2].prefix`.
pub type Places = BTreeMap<String, Range<usize>>;

/// A table being read: what was asked of it, and what is left over.
#[derive(Debug)]
pub struct Table<'a, 'b> {
    source: &'a mut Source<'b>,
    places: &'a mut Places,
    path: String,
    at: Range<usize>,
    entries: Vec<(&'a str, &'a Spanned<DeValue<'a>>, Range<usize>)>,
    known: Vec<&'static str>,
}

impl Table<'_, '_> {
    /// The value of an option that may be left out.
    pub fn take<T: Value>(&mut self, key: &'static str, limits: Limits) -> Option<T> {
        self.known.push(key);
        let at = self.entries.iter().position(|(entry, ..)| *entry == key)?;
        let (_, value, _) = self.entries.swap_remove(at);
        let option = format!("{}.{key}", self.path);
        let read = T::read(value.get_ref(), &limits);
        if read.is_none() {
            let seen = self.source.seen(&value.span());
            self.source.problem(&value.span(), &option, seen, T::expected(&limits));
        }
        self.places.insert(option, value.span());
        read
    }

    /// The value of an option, its default, or `None` with a note that it must be there.
    pub fn take_or<T: Value>(&mut self, key: &'static str, limits: Limits, default: Option<T>) -> Option<T> {
        let there = self.entries.iter().any(|(entry, ..)| *entry == key);
        let taken = self.take(key, limits.clone());
        if there {
            return taken;
        }
        if default.is_none() {
            let option = format!("{}.{key}", self.path);
            self.source.problem(&self.at, option, "nothing", T::expected(&limits));
        }
        default
    }

    /// Names what nobody asked for.
    fn finish(self) {
        for (key, _, at) in self.entries {
            let known = self.known.join(", ");
            self.source.problem(
                &at,
                &self.path,
                format!("the unknown option {key}"),
                format!("one of {known}"),
            );
        }
    }
}

/// Reads the router's file.
pub(super) fn config(source: &mut Source<'_>) -> Config {
    let sections = |file: &mut File<'_, '_, '_>| Config {
        faces: file.section(),
        unix: file.section(),
        tcp: file.section(),
        udp: file.section(),
        websocket: file.section(),
        multicast: file.section(),
        ethernet: file.section(),
        xdp: file.section(),
        tables: file.section(),
        content_store: file.section(),
        forwarder: file.section(),
        management: file.section(),
        anchor: file.items(),
        allow: file.items(),
        vouch: file.items(),
        rib: file.section(),
        log: file.section(),
        control: file.section(),
        face: file.items(),
        route: file.items(),
        strategy: file.items(),
    };
    let Some((config, places)) = read(source, sections) else { return Config::default() };
    check::contradictions(&config, &places, source);
    config
}

/// Reads a whole file: `sections` asks for each there may be, and what it didn't ask for is noted as unknown. `None` when the text is no TOML, which is
/// noted too: what is left of the document then may be anything, and speaking about it would only confuse.
pub fn read<T>(
    source: &mut Source<'_>,
    sections: impl FnOnce(&mut File<'_, '_, '_>) -> T,
) -> Option<(T, Places)> {
    let (document, errors) = DeTable::parse_recoverable(source.text);
    let broken = !errors.is_empty();
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        let seen = source.seen(&line_of(source.text, &at));
        source.problem(&at, "TOML", seen, error.message().replace('\n', ", "));
    }
    if broken {
        return None;
    }
    let mut file = File { source, places: Places::new(), root: document.get_ref(), known: Vec::new() };
    let sections = sections(&mut file);
    Some((sections, file.finish()))
}

/// A file whose sections are being asked for.
#[derive(Debug)]
pub struct File<'a, 'b, 't> {
    source: &'a mut Source<'b>,
    places: Places,
    root: &'t DeTable<'t>,
    known: Vec<&'static str>,
}

impl File<'_, '_, '_> {
    /// `[a]` or `[a.b]`.
    pub fn section<S: Section>(&mut self) -> S {
        self.known.push(S::PATH);
        let Some((table, at)) = find(self.root, S::PATH) else { return S::default() };
        let Some(entries) = table.get_ref().as_table() else {
            let seen = self.source.seen(&table.span());
            self.source.problem(&table.span(), S::PATH, seen, format!("a section [{}]", S::PATH));
            return S::default();
        };
        let prefix = format!("{}.", S::PATH);
        // Sections in this one, such as [faces.unix] in [faces], are read by themselves.
        let is_section = |key: &str| SECTIONS.iter().any(|path| path.strip_prefix(&prefix) == Some(key));
        let mut table = Table {
            source: self.source,
            places: &mut self.places,
            path: S::PATH.to_owned(),
            at,
            entries: entries_of(entries, is_section),
            known: Vec::new(),
        };
        let section = S::read(&mut table);
        table.finish();
        section
    }

    /// `[[a]]`.
    pub fn items<I: Item>(&mut self) -> Vec<I> {
        self.known.push(I::PATH);
        let Some((value, _)) = find(self.root, I::PATH) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            let seen = self.source.seen(&value.span());
            self.source.problem(
                &value.span(),
                I::PATH,
                seen,
                format!("[[{}]], with double brackets", I::PATH),
            );
            return Vec::new();
        };
        let mut items = Vec::new();
        for (index, value) in array.iter().enumerate() {
            let Some(entries) = value.get_ref().as_table() else {
                let seen = self.source.seen(&value.span());
                self.source.problem(&value.span(), I::PATH, seen, format!("a table [[{}]]", I::PATH));
                continue;
            };
            let mut table = Table {
                source: self.source,
                places: &mut self.places,
                path: format!("{}[{index}]", I::PATH),
                at: value.span(),
                entries: entries_of(entries, |_| false),
                known: Vec::new(),
            };
            items.extend(I::read(&mut table));
            table.finish();
        }
        items
    }

    fn finish(self) -> Places {
        for (key, _) in self.root.iter() {
            let known = self.known.iter().any(|path| path.split('.').next() == Some(key.get_ref()));
            if !known {
                let expected = format!("one of {}", self.known.join(", "));
                self.source.problem(
                    &key.span(),
                    "sections",
                    format!("the unknown section {}", key.get_ref()),
                    expected,
                );
            }
        }
        self.places
    }
}

/// The value of `a` or `a.b`, and where its key stands.
fn find<'t>(root: &'t DeTable<'t>, path: &str) -> Option<(&'t Spanned<DeValue<'t>>, Range<usize>)> {
    let mut table = root;
    let mut parts = path.split('.').peekable();
    loop {
        let part = parts.next()?;
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == part)?;
        if parts.peek().is_none() {
            return Some((value, key.span()));
        }
        table = value.get_ref().as_table()?;
    }
}

/// Sections that stand in others.
const SECTIONS: [&str; 7] = [
    "faces.unix",
    "faces.tcp",
    "faces.udp",
    "faces.websocket",
    "faces.multicast",
    "faces.ethernet",
    "faces.xdp",
];

fn entries_of<'a>(
    table: &'a DeTable<'a>,
    skip: impl Fn(&str) -> bool,
) -> Vec<(&'a str, &'a Spanned<DeValue<'a>>, Range<usize>)> {
    let entries = table.iter().map(|(key, value)| (key.get_ref().as_ref(), value, key.span()));
    entries.filter(|(key, ..)| !skip(key)).collect()
}

/// The line that a place is in.
fn line_of(text: &str, at: &Range<usize>) -> Range<usize> {
    let mut at = at.start.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    start..end
}
