//! Names of items, and patterns of names.
//!
//! A name is a path, `/a/b/c`: 1 to 32 components of 1 to 255 bytes. In a pattern, the component
//! `*` stands for any one component, and a last component `**` for any number of them, also none.

use super::passage::{self, DomainPath};
use core::fmt;
use core::str::FromStr;

/// Components of a name at most.
pub const COMPONENTS_MAX: usize = 32;
/// Bytes of a component at most.
pub const COMPONENT_BYTES_MAX: usize = 255;
/// Bytes of a name or pattern at most.
pub const NAME_BYTES_MAX: usize = 1024;

/// Error: a text is not a name or pattern. The text says what a correct one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFault(&'static str);

impl NameFault {
    pub(super) const fn new(text: &'static str) -> Self {
        NameFault(text)
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NameFault {}

/// Name of an item, such as `/sensors/room1/temperature`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemName(Box<str>);

/// A pattern of names, such as `/sensors/*/temperature` or `/sensors/**`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopePattern(Box<str>);

fn check(text: &str) -> Result<(), NameFault> {
    let Some(path) = text.strip_prefix('/') else {
        return Err(NameFault("a name begins with a slash, as in /sensors/room1"));
    };
    if text.len() > NAME_BYTES_MAX {
        return Err(NameFault("a name has at most 1024 bytes"));
    }
    let mut count = 0;
    for component in path.split('/') {
        count += 1;
        if component.is_empty() {
            return Err(NameFault("a name has no empty component: no // and no / at its end"));
        }
        if component.len() > COMPONENT_BYTES_MAX {
            return Err(NameFault("a component of a name has at most 255 bytes"));
        }
        if component.chars().any(char::is_control) {
            return Err(NameFault("a name has no control characters"));
        }
    }
    match count <= COMPONENTS_MAX {
        true => Ok(()),
        false => Err(NameFault("a name has at most 32 components")),
    }
}

impl FromStr for ItemName {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        check(text)?;
        match text.split('/').any(|component| matches!(component, "*" | "**")) {
            false => Ok(ItemName(text.into())),
            true => Err(NameFault("* and ** are for subscriptions, not for names of items")),
        }
    }
}

impl ItemName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name without the domains that it passed.
    pub fn plain(&self) -> &str {
        passage::from_parts(&self.0).map_or(&self.0, |(_, plain)| plain)
    }

    /// Returns the domains that the item passed, as text. `None` for an item of this domain.
    pub fn path(&self) -> Option<&str> {
        passage::from_parts(&self.0).map(|(path, _)| path)
    }

    /// Returns the plain name with the domains that it passed.
    ///
    /// # Errors
    /// If that is too long for a name.
    pub fn with_path(&self, path: &DomainPath) -> Result<ItemName, NameFault> {
        passage::marked_item(path, self.plain()).parse()
    }

    /// Returns another plain name with the domains that this item passed.
    ///
    /// # Errors
    /// If that is too long for a name.
    pub fn beside(&self, plain: &str) -> Result<ItemName, NameFault> {
        let passed = &self.0[..self.0.len() - self.plain().len()];
        format!("{passed}{plain}").parse()
    }

    /// Returns the name that this one has under a further scope: its last component below it.
    ///
    /// # Errors
    /// If that is too long for a name.
    pub fn under(&self, parent: &ItemName) -> Result<ItemName, NameFault> {
        let label = self.0.rfind('/').unwrap_or(0);
        format!("{parent}{}", &self.0[label..]).parse()
    }

    /// Returns the scopes that the name is below, nearest first.
    pub fn scopes(&self) -> impl Iterator<Item = ItemName> + '_ {
        let ends = self.0.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        let ends: Vec<usize> = ends.collect();
        ends.into_iter().rev().map(|end| ItemName(self.0[..end].into()))
    }

    /// Returns the name of an item that is derived from this one: beside it, with a label that both
    /// ends compute from the whole name and a number, without a message.
    ///
    /// # Errors
    /// If that is too long for a name.
    pub fn derived(&self, number: u64) -> Result<ItemName, NameFault> {
        let id = nw_pubsub::names::parse_name(&self.0)
            .map_err(|_| NameFault("8= must be followed by 16 hexadecimal digits"))?;
        let label = nw_pubsub::names::algorithmic_label(&id, number);
        let scope = &self.0[..self.0.rfind('/').unwrap_or(0)];
        format!("{scope}/8={label}").parse()
    }
}

impl fmt::Display for ItemName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ScopePattern {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        check(text)?;
        let before_last = text.rsplit_once('/').map_or("", |(before, _)| before);
        match before_last.split('/').any(|component| component == "**") {
            false => Ok(ScopePattern(text.into())),
            true => Err(NameFault("** can only be the last component of a pattern")),
        }
    }
}

impl ScopePattern {
    /// Returns the pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern is a name: it has no `*` and no `**`.
    ///
    /// One with domains is none: it is not equal to the names it matches.
    pub fn is_name(&self) -> bool {
        self.demand_path().is_none()
            && !self.0.split('/').any(|component| matches!(component, "*" | "**"))
    }

    /// Returns the pattern without the domains that it is for.
    pub fn plain(&self) -> &str {
        passage::to_parts(&self.0).map_or(&self.0, |(_, plain)| plain)
    }

    /// Returns the domains that the pattern is for, as text. `None` for one of this domain.
    pub fn demand_path(&self) -> Option<&str> {
        passage::to_parts(&self.0).map(|(path, _)| path)
    }

    /// Returns the plain pattern with the domains that it is for.
    ///
    /// # Errors
    /// If that is too long for a pattern.
    pub fn for_domains(&self, path: &DomainPath) -> Result<ScopePattern, NameFault> {
        passage::marked_pattern(path, self.plain()).parse()
    }

    /// Returns whether an application that subscribes to it is told the domains of items.
    pub fn wants_path(&self) -> bool {
        self.demand_path().is_some() || passage::is_about_marks(&self.0)
    }

    /// Returns the text before the first `*` or `**`, with its slash: all matching plain names
    /// begin with it, except that `/a/**` also matches `/a`.
    pub fn literal_prefix(&self) -> &str {
        let (text, mut end) = (self.plain(), 0);
        for component in text[1..].split('/') {
            if matches!(component, "*" | "**") {
                return &text[..end];
            }
            end += 1 + component.len();
        }
        text
    }

    /// Returns whether there are names that match this pattern and another one.
    pub fn overlaps(&self, other: &ScopePattern) -> bool {
        let (mut one, mut two) = (self.components(), other.components());
        loop {
            match (one.next(), two.next()) {
                (None, None) | (Some("**"), _) | (_, Some("**")) => return true,
                (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
                _ => return false,
            }
        }
    }

    /// Returns the pattern of the plain names that match this pattern and another one.
    pub fn intersection(&self, other: &ScopePattern) -> Option<ScopePattern> {
        let (mut one, mut two) = (self.components(), other.components());
        let mut both = String::new();
        loop {
            let (a, b) = (one.next(), two.next());
            let rest = match (a, b) {
                (Some("**"), b) => Some(b.into_iter().chain(two.by_ref())),
                (a, Some("**")) => Some(a.into_iter().chain(one.by_ref())),
                _ => None,
            };
            if let Some(rest) = rest {
                rest.for_each(|component| both.extend(["/", component]));
                return both.parse().ok();
            }
            match (a, b) {
                (None, None) => return both.parse().ok(),
                (Some("*"), Some(component)) => both.extend(["/", component]),
                (Some(component), Some(b)) if component == b || b == "*" => {
                    both.extend(["/", component]);
                }
                _ => return None,
            }
        }
    }

    /// Returns whether all plain names that match another pattern match this one.
    pub fn covers(&self, other: &ScopePattern) -> bool {
        let (mut one, mut two) = (self.components(), other.components());
        loop {
            match (one.next(), two.next()) {
                (None, None) | (Some("**"), _) => return true,
                (Some("*"), Some(component)) if component != "**" => {}
                (Some(a), Some(b)) if a == b => {}
                _ => return false,
            }
        }
    }

    fn components(&self) -> core::str::Split<'_, char> {
        self.plain()[1..].split('/')
    }

    /// Returns whether a name matches. Names are compared without the domains that they passed,
    /// but for patterns that begin with `/@from`.
    pub fn matches(&self, name: &ItemName) -> bool {
        if let (Some(wanted), Some(passed)) = (self.demand_path(), name.path())
            && passage::have_common(wanted, passed)
        {
            return false;
        }
        let text = if passage::is_about_marks(&self.0) { &*name.0 } else { name.plain() };
        let mut components = text[1..].split('/');
        for wanted in self.components() {
            match (wanted, components.next()) {
                ("**", _) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(component)) if wanted == component => {}
                _ => return false,
            }
        }
        components.next().is_none()
    }
}

/// Patterns are ordered and compared as their texts.
impl core::borrow::Borrow<str> for ScopePattern {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ScopePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_documented() {
        let matches = |pattern: &str, name: &str| {
            pattern.parse::<ScopePattern>().unwrap().matches(&name.parse().unwrap())
        };
        for (pattern, name, expected) in [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/bc", false),
            ("/a/b", "/a", false),
            ("/a", "/a/b", false),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", true),
            ("/a/**", "/ab", false),
            ("/**", "/x/y", true),
            ("/*/**", "/x", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_overlap_if_a_name_matches_both() {
        let overlaps = |one: &str, two: &str| {
            let (one, two): (ScopePattern, ScopePattern) =
                (one.parse().unwrap(), two.parse().unwrap());
            assert_eq!(one.overlaps(&two), two.overlaps(&one));
            one.overlaps(&two)
        };
        for (one, two) in [
            ("/a/b", "/a/b"),
            ("/a/*", "/*/b"),
            ("/a/**", "/a"),
            ("/a/**", "/*/b/c"),
            ("/**", "/x"),
        ] {
            assert!(overlaps(one, two), "{one} {two}");
        }
        for (one, two) in [("/a", "/b"), ("/a", "/a/b"), ("/a/*", "/a"), ("/a/*/c", "/a/b/d")] {
            assert!(!overlaps(one, two), "{one} {two}");
        }
    }

    #[test]
    fn invalid_names_and_patterns_are_refused() {
        let long = format!("/{}", "x".repeat(256));
        let deep = "/x".repeat(33);
        for text in ["", "a", "/", "//", "/a/", "/a//b", "/a\n", &long, &deep] {
            assert!(text.parse::<ItemName>().is_err(), "{text:?}");
            assert!(text.parse::<ScopePattern>().is_err(), "{text:?}");
        }
        assert!("/a/*".parse::<ItemName>().is_err());
        assert!("/a/**/b".parse::<ScopePattern>().is_err());
    }

    #[test]
    fn derived_name_depends_on_whole_name_and_number() {
        let name = |text: &str| text.parse::<ItemName>().unwrap();
        let derived = name("/a/b").derived(1).unwrap();
        // Also in tests/pubsub/test_c.py and test_local.py: all clients compute the same.
        assert_eq!(derived.as_str(), "/a/8=4fb39fd4c04e91e9");
        assert_ne!(name("/a/b").derived(2).unwrap(), derived);
        assert_ne!(name("/c/b").derived(1).unwrap().as_str()[2..], derived.as_str()[2..]);
        assert!(name("/8=12").derived(1).is_err());
        assert_eq!(name("/a/b").under(&name("/c/d")).unwrap(), name("/c/d/b"));
        let scopes: Vec<_> = name("/a/b/c").scopes().collect();
        assert_eq!(scopes, [name("/a/b"), name("/a")]);
    }

    #[test]
    fn literal_prefix_ends_before_first_wildcard() {
        let prefix = |text: &str| text.parse::<ScopePattern>().unwrap().literal_prefix().to_owned();
        assert_eq!(prefix("/a/b/**"), "/a/b");
        assert_eq!(prefix("/a/*/c"), "/a");
        assert_eq!(prefix("/**"), "");
        assert_eq!(prefix("/a/b"), "/a/b");
    }
}
