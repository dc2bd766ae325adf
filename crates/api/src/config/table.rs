//! One table of a configuration file while it is read, and where in the file each option stands.

use super::diagnostics::{Fault, Renamed, Source};
use super::suggest;
use super::value::{Limits, Value};
use core::ops::Range;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The byte ranges of everything that was read.
///
/// Keys are options (`management.localhop`, `route[2].prefix`), sections (`management`, `route`)
/// and items (`route[2]`). Items are numbered as in the resulting configuration: items that could
/// not be read do not count.
#[derive(Clone, Debug, Default)]
pub struct Places {
    ranges: BTreeMap<String, Range<usize>>,
    /// For each list: the index in the file of each item that could be read.
    file_indexes: BTreeMap<&'static str, Vec<usize>>,
    renamed: Vec<Renamed>,
}

impl Places {
    /// Returns whether the file has this option, item or section.
    pub fn contains(&self, option: &str) -> bool {
        self.ranges.contains_key(option)
    }

    /// Returns the byte range of an option. Falls back to its item or section, then to the
    /// beginning of the file.
    pub fn near(&self, option: &str) -> Range<usize> {
        let mut option = option;
        loop {
            if let Some(range) = self.ranges.get(option) {
                return range.clone();
            }
            let Some(end) = option.rfind(['.', '[']) else { return 0..0 };
            option = &option[..end];
        }
    }

    /// Returns an option with the item number that it has in the file, where unreadable items
    /// count.
    pub fn shown(&self, option: &str) -> String {
        let numbered = option.split_once('[').and_then(|(list, tail)| {
            let (index, tail) = tail.split_once(']')?;
            let number = self.file_indexes.get(list)?.get(index.parse::<usize>().ok()?)?;
            Some(format!("{list}[{number}]{tail}"))
        });
        numbered.unwrap_or_else(|| option.to_owned())
    }

    /// Returns the options and sections that the file calls by an old name, each once.
    pub fn renamed(&self) -> &[Renamed] {
        &self.renamed
    }

    pub(super) fn insert(&mut self, option: String, range: Range<usize>) {
        self.ranges.insert(option, range);
    }

    pub(super) fn set_file_indexes(&mut self, list: &'static str, indexes: Vec<usize>) {
        self.file_indexes.insert(list, indexes);
    }

    /// Removes an item that could not be read.
    pub(super) fn remove_item(&mut self, item: &str) {
        let ranges = self.ranges.range(item.to_owned()..);
        let of_item = ranges.take_while(|(option, _)| option.starts_with(item));
        let options: Vec<String> = of_item.map(|(option, _)| option.clone()).collect();
        for option in options {
            self.ranges.remove(&option);
        }
    }

    /// Records the use of an old name; only the first use of each name is kept.
    pub(super) fn record_renamed(&mut self, renamed: Renamed) {
        if self.renamed.iter().all(|known| (&known.old, &known.new) != (&renamed.old, &renamed.new))
        {
            self.renamed.push(renamed);
        }
    }
}

/// An entry of a table: key, value, and the byte range of the key.
pub(super) type Entry<'a> = (&'a str, &'a Spanned<DeValue<'a>>, Range<usize>);

/// Returns the entries of a table except those whose key `skip` selects.
pub(super) fn entries<'a>(table: &'a DeTable<'a>, skip: impl Fn(&str) -> bool) -> Vec<Entry<'a>> {
    let entries = table.iter().map(|(key, value)| (key.get_ref().as_ref(), value, key.span()));
    entries.filter(|(key, ..)| !skip(key)).collect()
}

/// A table of the file whose options are taken one by one; those left at the end are unknown.
#[derive(Debug)]
pub struct Table<'a, 'b> {
    pub(super) source: &'a mut Source<'b>,
    pub(super) places: &'a mut Places,
    /// Path with the item number of the file, for messages: `route[2]`.
    pub(super) path: String,
    /// Path without the item number, as names of options are documented: `route`.
    pub(super) section: &'static str,
    /// Path with the item number of the configuration, as [`Places`] uses it.
    pub(super) key: String,
    pub(super) range: Range<usize>,
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) known: Vec<&'static str>,
}

impl<'a> Table<'a, '_> {
    /// Takes the value of an option. `None` if the file does not have it, or if the value is wrong,
    /// which is then reported. `old`: names from earlier versions that are
    /// still accepted.
    pub fn take<T: Value>(
        &mut self,
        key: &'static str,
        old: &[&'static str],
        limits: Limits,
    ) -> Option<T> {
        self.known.push(key);
        let (_, value, _) = self.take_entry(key, old)?;
        let read = T::read(value.get_ref(), &limits);
        if read.is_none() {
            let seen = self.source.seen(&value.span());
            let option = format!("{}.{key}", self.path);
            self.source.mismatch(&value.span(), option, seen, T::expected(&limits));
        }
        self.places.insert(format!("{}.{key}", self.key), value.span());
        read
    }

    /// Takes the value of an option, or its default. `None`, and a report, if the option is
    /// mandatory and missing or wrong.
    pub fn take_or<T: Value>(
        &mut self,
        key: &'static str,
        old: &[&'static str],
        limits: Limits,
        default: Option<T>,
    ) -> Option<T> {
        let is_given = self.entries.iter().any(|(entry, ..)| *entry == key || old.contains(entry));
        let taken = self.take(key, old, limits.clone());
        if !is_given && default.is_none() {
            let option = format!("{}.{key}", self.path);
            self.source.mismatch(&self.range, option, "nothing", T::expected(&limits));
        }
        // A wrong value is reported; the other options of the item are checked as if it were
        // missing.
        taken.or(default).or_else(T::blank)
    }

    /// Removes and returns the entry of an option, by its name or by its old one.
    fn take_entry(&mut self, key: &'static str, old: &[&'static str]) -> Option<Entry<'a>> {
        let mut found = self.remove_entry(key);
        for old in old {
            let Some((_, value, range)) = self.remove_entry(old) else { continue };
            if found.is_some() {
                let option = format!("{}.{key}", self.path);
                let seen = format!("{old}, the old name of {key}, in addition to {key}");
                self.source.mismatch(&range, option, seen, format!("{key} only"));
                continue;
            }
            self.places.record_renamed(Renamed {
                file: self.source.file().to_owned(),
                line: self.source.line(range.start),
                old: format!("{}.{old}", self.section),
                new: format!("{}.{key}", self.section),
            });
            found = Some((key, value, range));
        }
        found
    }

    fn remove_entry(&mut self, key: &str) -> Option<Entry<'a>> {
        let index = self.entries.iter().position(|(entry, ..)| *entry == key)?;
        Some(self.entries.swap_remove(index))
    }

    /// Reports the options that are left as unknown.
    pub(super) fn finish(self) {
        let Table { source, path, entries, known, .. } = self;
        for (key, _, range) in entries {
            source.note(&range, || {
                let hint = suggest::hint(key, known.iter().copied());
                let seen = format!("the unknown option {key}{hint}");
                let expected = format!("one of {}", known.join(", "));
                (path.clone(), Fault::Mismatch { seen, expected })
            });
        }
    }
}
