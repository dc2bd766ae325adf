//! Marks in names and patterns that say which domains publications passed.
//!
//! ```text
//! /@from/A+B/x/y    item: /x/y of domain A, which came here by domain B
//! /@to/C+B/x/**     pattern: /x/** for domain C by domain B, but nothing that passed C or B
//! ```
//!
//! The rest is the *plain* name or pattern. A pattern is compared with the plain part of names;
//! only one that itself begins with `/@from` is compared with the whole. Programs at the border
//! between two domains write these marks; applications see plain names.

use super::name::NameFault;
use core::fmt;
use core::str::FromStr;

/// Domains of a path at most.
pub const DOMAINS_MAX: usize = 8;
/// Bytes of a domain's name at most.
pub const DOMAIN_BYTES_MAX: usize = 24;

/// Begin of items that came from another domain.
const FROM_PREFIX: &str = "/@from/";
const TO_PREFIX: &str = "/@to/";

/// Name of a domain: 1 to 24 letters, digits, dots and hyphens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(Box<str>);

impl FromStr for DomainName {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        match (1..=DOMAIN_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_valid) {
            true => Ok(DomainName(text.into())),
            false => Err(NameFault::new(
                "the name of a domain has 1 to 24 letters, digits, dots and hyphens",
            )),
        }
    }
}

impl DomainName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Domains in the order in which they were passed, at most [`DOMAINS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainPath(Vec<DomainName>);

impl DomainPath {
    /// Returns the domains.
    pub fn domains(&self) -> &[DomainName] {
        &self.0
    }

    /// Returns whether a domain was passed.
    pub fn contains(&self, domain: &DomainName) -> bool {
        self.0.contains(domain)
    }

    /// Returns the path with a further domain. `None` if it is there already, or the path is full.
    #[must_use]
    pub fn and(&self, domain: &DomainName) -> Option<DomainPath> {
        let is_new = !self.contains(domain) && self.0.len() < DOMAINS_MAX;
        is_new.then(|| DomainPath([&self.0[..], core::slice::from_ref(domain)].concat()))
    }

    /// Returns the domains that are in both paths, in the order of this one.
    #[must_use]
    pub fn common(&self, other: &DomainPath) -> DomainPath {
        DomainPath(self.0.iter().filter(|domain| other.contains(domain)).cloned().collect())
    }
}

impl FromStr for DomainPath {
    type Err = NameFault;

    fn from_str(text: &str) -> Result<Self, NameFault> {
        let mut path = DomainPath::default();
        for domain in text.split('+') {
            let longer = path.and(&domain.parse()?);
            path =
                longer.ok_or(NameFault::new("a path has at most 8 domains, each of them once"))?;
        }
        Ok(path)
    }
}

impl fmt::Display for DomainPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, domain) in self.0.iter().enumerate() {
            write!(f, "{}{domain}", if at == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

/// Divides the text of an item into path and plain name. `None` without the mark.
pub(super) fn from_parts(text: &str) -> Option<(&str, &str)> {
    parts(text, FROM_PREFIX)
}

/// Divides the text of a pattern into path and plain pattern. `None` without the mark.
pub(super) fn to_parts(text: &str) -> Option<(&str, &str)> {
    parts(text, TO_PREFIX)
}

fn parts<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    let marked = text.strip_prefix(prefix)?;
    let at = marked.find('/')?;
    Some(marked.split_at(at))
}

/// Returns whether a pattern is compared with whole names.
pub(super) fn is_about_marks(pattern: &str) -> bool {
    pattern.starts_with(FROM_PREFIX)
}

/// Returns the text of an item with a path.
pub(super) fn marked_item(path: &DomainPath, plain: &str) -> String {
    format!("{FROM_PREFIX}{path}{plain}")
}

/// Returns the text of a pattern with a path.
pub(super) fn marked_pattern(path: &DomainPath, plain: &str) -> String {
    format!("{TO_PREFIX}{path}{plain}")
}

/// Returns whether two paths, as texts, have a domain in common.
pub(super) fn have_common(one: &str, other: &str) -> bool {
    one.split('+').any(|domain| other.split('+').any(|other| domain == other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::{ItemName, ScopePattern};

    fn name(text: &str) -> ItemName {
        text.parse().unwrap()
    }

    fn pattern(text: &str) -> ScopePattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_match_plain_names_and_not_what_passed_their_domains() {
        for (wanted, item, expected) in [
            ("/x/**", "/@from/a+b/x/y", true),
            ("/x/y", "/@from/a/x/y", true),
            ("/**", "/@from/a/x/y", true),
            ("/@from/**", "/@from/a/x/y", true),
            ("/@from/*/x/**", "/@from/a+b/x/y", true),
            ("/@from/**", "/x/y", false),
            ("/@to/c/x/**", "/x/y", true),
            ("/@to/c+b/x/**", "/@from/a/x/y", true),
            ("/@to/c+b/x/**", "/@from/a+b/x/y", false),
            ("/@to/c+b/x/**", "/@from/bb/x/y", true),
            ("/@to/c/x", "/@to/c/x", false),
            ("/@from/*", "/@from/a", true),
        ] {
            assert_eq!(pattern(wanted).matches(&name(item)), expected, "{wanted} {item}");
        }
        let wanted = pattern("/@to/c+b/x/y");
        assert!(!wanted.is_name() && wanted.literal_prefix() == "/x/y");
        assert_eq!((wanted.demand_path(), wanted.plain()), (Some("c+b"), "/x/y"));
        assert!(wanted.overlaps(&pattern("/x/*")) && pattern("/x/*").overlaps(&wanted));
        let item = name("/@from/a+b/x/y");
        assert_eq!((item.path(), item.plain()), (Some("a+b"), "/x/y"));
        assert_eq!((name("/x/y").path(), name("/@from/a").plain()), (None, "/@from/a"));
    }

    #[test]
    fn paths_are_bounded_and_have_each_domain_once() {
        let path: DomainPath = "a+b.example-1".parse().unwrap();
        assert_eq!(path.to_string(), "a+b.example-1");
        for text in ["", "a+", "a+a", "a/b", "a b", &"x".repeat(25), "1+2+3+4+5+6+7+8+9"] {
            assert!(text.parse::<DomainPath>().is_err(), "{text:?}");
        }
        let full: DomainPath = "1+2+3+4+5+6+7+8".parse().unwrap();
        assert_eq!(full.and(&"9".parse().unwrap()), None);
        assert_eq!(path.and(&"a".parse().unwrap()), None);
        let longest = ["123456789.123456789.1234"; 1].map(|text| text.parse::<DomainName>());
        assert!(longest[0].is_ok());
        let common = full.common(&"8+x+2".parse().unwrap());
        assert_eq!(common.to_string(), "2+8");
        assert_eq!(name("/x").with_path(&full).unwrap().as_str(), "/@from/1+2+3+4+5+6+7+8/x");
        assert!(name(&"/x".repeat(31)).with_path(&full).is_err(), "too many components");
    }

    #[test]
    fn intersection_has_the_names_of_both_patterns() {
        for (one, other, both) in [
            ("/a/**", "/a/b/*", Some("/a/b/*")),
            ("/a/*/c", "/a/b/*", Some("/a/b/c")),
            ("/**", "/x", Some("/x")),
            ("/a/**", "/a", Some("/a")),
            ("/a/**", "/*/**", Some("/a/**")),
            ("/a", "/b", None),
            ("/a/*", "/a", None),
        ] {
            let both: Option<ScopePattern> = both.map(pattern);
            assert_eq!(pattern(one).intersection(&pattern(other)), both, "{one} {other}");
            assert_eq!(pattern(other).intersection(&pattern(one)), both, "{other} {one}");
            if let Some(both) = both {
                assert!(pattern(one).covers(&both) && pattern(other).covers(&both));
            }
        }
        assert!(
            !pattern("/a/*").covers(&pattern("/a/**")) && !pattern("/a").covers(&pattern("/*"))
        );
    }
}
