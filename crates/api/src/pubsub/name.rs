//! Names of items, and patterns of names.
//!
//! A name is a path, `/a/b/c`: 1 to 32 components of 1 to 255 bytes. In a pattern, the component
//! `*` stands for any one component, and a last component `**` for any number of them, also none.

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
    pub fn is_name(&self) -> bool {
        !self.0.split('/').any(|component| matches!(component, "*" | "**"))
    }

    /// Returns the text before the first `*` or `**`, with its slash: all matching names begin
    /// with it, except that `/a/**` also matches `/a`.
    pub fn literal_prefix(&self) -> &str {
        let mut end = 0;
        for component in self.0[1..].split('/') {
            if matches!(component, "*" | "**") {
                return &self.0[..end];
            }
            end += 1 + component.len();
        }
        &self.0
    }

    /// Returns whether a name matches.
    pub fn matches(&self, name: &ItemName) -> bool {
        let mut components = name.0[1..].split('/');
        for wanted in self.0[1..].split('/') {
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
    fn literal_prefix_ends_before_first_wildcard() {
        let prefix = |text: &str| text.parse::<ScopePattern>().unwrap().literal_prefix().to_owned();
        assert_eq!(prefix("/a/b/**"), "/a/b");
        assert_eq!(prefix("/a/*/c"), "/a");
        assert_eq!(prefix("/**"), "");
        assert_eq!(prefix("/a/b"), "/a/b");
    }
}
