//! A set of patterns that is asked whether any of them matches a name.
//!
//! Invariant: the work for a name does not grow with the number of patterns that are other names,
//! or begin otherwise.

use nw_api::pubsub::{ItemName, ScopePattern};
use std::collections::{BTreeMap, BTreeSet};

/// The patterns.
#[derive(Clone, Debug, Default)]
pub struct PatternSet {
    names: BTreeSet<ScopePattern>,
    /// Patterns with wildcards by the text before the first one.
    by_prefix: BTreeMap<Box<str>, Vec<ScopePattern>>,
}

impl PatternSet {
    /// Returns whether any pattern matches a name.
    pub fn matches(&self, name: &ItemName) -> bool {
        let prefixes = name_prefixes(name);
        let mut near = prefixes.filter_map(|prefix| self.by_prefix.get(prefix)).flatten();
        whole_names(name).any(|text| self.names.contains(text))
            || near.any(|pattern| pattern.matches(name))
    }
}

impl<'a> FromIterator<&'a ScopePattern> for PatternSet {
    fn from_iter<I: IntoIterator<Item = &'a ScopePattern>>(patterns: I) -> Self {
        let mut set = PatternSet::default();
        for pattern in patterns {
            if pattern.is_name() {
                set.names.insert(pattern.clone());
            } else {
                let prefix = pattern.literal_prefix().into();
                set.by_prefix.entry(prefix).or_default().push(pattern.clone());
            }
        }
        set
    }
}

/// Returns the patterns without wildcards that match a name: its plain one, and the one with the
/// domains that it passed.
pub fn whole_names(name: &ItemName) -> impl Iterator<Item = &str> {
    let marked = name.path().map(|_| name.as_str());
    [name.plain()].into_iter().chain(marked)
}

/// Returns what a pattern that matches a name may have before its first wildcard.
pub fn name_prefixes(name: &ItemName) -> impl Iterator<Item = &str> {
    whole_names(name).flat_map(prefixes)
}

fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at]).chain([name])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn set_matches_what_one_of_its_patterns_does() {
        let patterns = [
            "/a",
            "/a/b",
            "/a/*",
            "/b/**",
            "/*/c",
            "/d/*/e",
            "/d/**",
            "/@to/z/a/**",
            "/@to/y/b/c",
            "/@from/z/a/b",
            "/@from/y/*/c",
        ];
        let patterns: Vec<ScopePattern> =
            patterns.iter().map(|text| text.parse().unwrap()).collect();
        let parts = ["a", "b", "c", "d", "e"];
        let (mut matched, mut all) = (0, 0);
        let of_two = parts.iter().flat_map(|one| parts.map(|two| format!("/{one}/{two}")));
        let of_three = of_two.clone().flat_map(|two| parts.map(|three| format!("{two}/{three}")));
        let of_one = parts.iter().map(|one| format!("/{one}"));
        let plain: Vec<String> = of_one.chain(of_two.clone()).chain(of_three).collect();
        let passed =
            plain.iter().flat_map(|name| ["z", "y"].map(|at| format!("/@from/{at}{name}")));
        for name in passed.chain(plain.iter().cloned()) {
            let name: ItemName = name.parse().unwrap();
            for count in 0..=patterns.len() {
                let set: PatternSet = patterns[..count].iter().collect();
                let expected = patterns[..count].iter().any(|pattern| pattern.matches(&name));
                assert_eq!(set.matches(&name), expected, "{name} of {count}");
                matched += u32::from(expected);
                all += 1;
            }
        }
        assert!(matched > 100 && all > matched + 100);
    }

    #[test]
    fn many_other_names_delay_no_match() {
        let name = |number: u32| format!("/a/{number}");
        let patterns: Vec<ScopePattern> =
            (0..20_000).map(|number| name(number).parse().unwrap()).collect();
        let set: PatternSet = patterns.iter().collect();
        let started = Instant::now();
        let found = (10_000..30_000).filter(|number| set.matches(&name(*number).parse().unwrap()));
        assert_eq!(found.count(), 10_000);
        // Each pattern compared with each name: more than ten seconds.
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
