//! From TOML text to values, with the place of each.

use super::problem::{Fault, Source};
use super::section::{Item, Section};
use super::value::{Limits, Value};
use super::{Config, suggest, toml_words};
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Places of what was read, by option: `management.localhop`, `route[2].prefix`; of sections, `management` and `route`; and of items, `route[2]`.
///
/// Items are counted among those that could be read, as a configuration has them.
#[derive(Clone, Debug, Default)]
pub struct Places {
    at: BTreeMap<String, Range<usize>>,
    /// Of each list, the numbers that its items have in the file.
    numbers: BTreeMap<&'static str, Vec<usize>>,
}

impl Places {
    /// Returns true when the file has this option, item or section.
    pub fn contains(&self, option: &str) -> bool {
        self.at.contains_key(option)
    }

    /// Returns the place of an option. Where the file does not have it, that of its item or section; else the beginning of the file.
    pub fn near(&self, option: &str) -> Range<usize> {
        let mut option = option;
        loop {
            if let Some(at) = self.at.get(option) {
                return at.clone();
            }
            let Some(end) = option.rfind(['.', '[']) else { return 0..0 };
            option = &option[..end];
        }
    }

    /// Returns an option as the file numbers it: items that could not be read count.
    pub fn shown(&self, option: &str) -> String {
        let numbered = option.split_once('[').and_then(|(list, rest)| {
            let (index, rest) = rest.split_once(']')?;
            let number = self.numbers.get(list)?.get(index.parse::<usize>().ok()?)?;
            Some(format!("{list}[{number}]{rest}"))
        });
        numbered.unwrap_or_else(|| option.to_owned())
    }

    fn insert(&mut self, option: String, at: Range<usize>) {
        self.at.insert(option, at);
    }

    /// Forgets an item that could not be read.
    fn remove_item(&mut self, item: &str) {
        let of_item = self.at.range(item.to_owned()..).take_while(|(option, _)| option.starts_with(item));
        let options: Vec<String> = of_item.map(|(option, _)| option.clone()).collect();
        options.iter().for_each(|option| drop(self.at.remove(option)));
    }
}

/// A table being read: what was asked of it, and what is left over.
#[derive(Debug)]
pub struct Table<'a, 'b> {
    source: &'a mut Source<'b>,
    places: &'a mut Places,
    /// As the file has it.
    path: String,
    /// As [`Places`] has it.
    key: String,
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
        let read = T::read(value.get_ref(), &limits);
        if read.is_none() {
            let seen = self.source.seen(&value.span());
            let option = format!("{}.{key}", self.path);
            self.source.problem(&value.span(), option, seen, T::expected(&limits));
        }
        self.places.insert(format!("{}.{key}", self.key), value.span());
        read
    }

    /// The value of an option or its default. `None`, with a note, when it must be there and is not, or is something else.
    pub fn take_or<T: Value>(&mut self, key: &'static str, limits: Limits, default: Option<T>) -> Option<T> {
        let there = self.entries.iter().any(|(entry, ..)| *entry == key);
        let taken = self.take(key, limits.clone());
        if !there && default.is_none() {
            let option = format!("{}.{key}", self.path);
            self.source.problem(&self.at, option, "nothing", T::expected(&limits));
        }
        // A wrong value is noted; the rest of the item is checked as if it were not there.
        taken.or(default).or_else(T::blank)
    }

    /// Names what nobody asked for.
    fn finish(self) {
        let Table { source, path, entries, known, .. } = self;
        for (key, _, at) in entries {
            source.note(&at, || {
                let seen = format!("the unknown option {key}{}", suggest::hint(key, known.iter().copied()));
                let expected = format!("one of {}", known.join(", "));
                (path.clone(), Fault::Mismatch { seen, expected })
            });
        }
    }
}

/// Reads the router's file.
pub(super) fn config(source: &mut Source<'_>) -> Option<(Config, Places)> {
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
        process: file.section(),
        control: file.section(),
        face: file.items(),
        route: file.items(),
        strategy: file.items(),
    };
    read(source, sections)
}

/// Reads a whole file: `sections` asks for each there may be, and what it didn't ask for is noted as unknown. `None` when the text is no TOML, which is
/// noted too: what is left of the document then may be anything, and speaking about it would only confuse.
pub fn read<T>(
    source: &mut Source<'_>,
    sections: impl FnOnce(&mut File<'_, '_, '_>) -> T,
) -> Option<(T, Places)> {
    let (document, errors) = DeTable::parse_recoverable(source.text);
    let broken = !errors.is_empty();
    let mut line = 0;
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        // What follows on the same line comes of the first mistake.
        if core::mem::replace(&mut line, source.line(at.start)) == source.line(at.start) {
            continue;
        }
        // The sentence looks at lines before this one, so it is made for those problems only that are kept.
        let sentence = source.keeps(&at).then(|| toml_words::sentence(source, &at, error.message()));
        source.note(&at, || ("TOML".to_owned(), Fault::Sentence(sentence.unwrap_or_default())));
    }
    if broken {
        return None;
    }
    let mut file = File { source, places: Places::default(), root: document.get_ref(), known: Vec::new() };
    let sections = sections(&mut file);
    let places = file.finish();
    source.end_reading();
    Some((sections, places))
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
            key: S::PATH.to_owned(),
            at: at.clone(),
            entries: entries_of(entries, is_section),
            known: Vec::new(),
        };
        let section = S::read(&mut table);
        table.finish();
        self.places.insert(S::PATH.to_owned(), at);
        section
    }

    /// `[[a]]`.
    pub fn items<I: Item>(&mut self) -> Vec<I> {
        self.known.push(I::PATH);
        let Some((value, at)) = find(self.root, I::PATH) else { return Vec::new() };
        self.places.insert(I::PATH.to_owned(), at);
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
        let (mut items, mut numbers) = (Vec::new(), Vec::new());
        for (index, value) in array.iter().enumerate() {
            let Some(entries) = value.get_ref().as_table() else {
                let seen = self.source.seen(&value.span());
                self.source.problem(&value.span(), I::PATH, seen, format!("a table [[{}]]", I::PATH));
                continue;
            };
            let key = format!("{}[{}]", I::PATH, items.len());
            self.places.insert(key.clone(), value.span());
            let mut table = Table {
                source: self.source,
                places: &mut self.places,
                path: format!("{}[{index}]", I::PATH),
                key: key.clone(),
                at: value.span(),
                entries: entries_of(entries, |_| false),
                known: Vec::new(),
            };
            let item = I::read(&mut table);
            table.finish();
            match item {
                Some(item) => {
                    items.push(item);
                    numbers.push(index);
                }
                None => self.places.remove_item(&key),
            }
        }
        self.places.numbers.insert(I::PATH, numbers);
        items
    }

    fn finish(self) -> Places {
        let File { source, places, root, known } = self;
        let firsts: BTreeSet<&str> = known.iter().filter_map(|path| path.split('.').next()).collect();
        for (key, _) in root.iter().filter(|(key, _)| !firsts.contains(key.get_ref().as_ref())) {
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

/// The value of `a` or `a.b`, and where its key stands.
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
