//! Rules of a name filter, and their patterns.
//!
//! ```text
//! deny /a/b            /a/b and all names below
//! deny exact /a/b      /a/b only
//! deny /a/*/c          * is any one component
//! deny /a/**/c         ** is any number of components, or none: a c anywhere below /a,
//!                      and all names below it
//! ```

use core::fmt;
use core::str::FromStr;
use nw_name::{Name, NameRef, PREFIXES_MAX};

/// What a rule does with a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Pass the packet.
    #[default]
    Allow,
    /// Reject the packet.
    Deny,
}

/// Most components of a name that is matched by a rule with `**` before other components.
pub const COMPONENTS_MAX: usize = 64;

/// A pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    head: Vec<Part>,
    /// The components after `**`.
    tail: Option<Vec<Part>>,
    exact: bool,
}

/// One component of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This component, with its TLV header.
    Literal(Name),
    Any,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The verdict for names that match.
    pub verdict: Verdict,
    /// The names it applies to.
    pub pattern: NamePattern,
}

/// Why a text is not a valid rule, or a rule was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It does not begin with `allow` or `deny`.
    NoVerdict,
    /// The pattern does not begin with `/`.
    BadName,
    /// A component of the pattern is malformed.
    BadPart(String),
    /// The pattern has more than 32 components.
    TooLong,
    /// The pattern has more than one `**`.
    TwoMultiWildcards,
    /// The filter has the most rules allowed.
    Full,
    /// The filter has the most rules with wildcards allowed.
    TooManyPatterns,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::NoVerdict => {
                f.write_str("a rule is `allow` or `deny` and a name, such as `deny /a/*/secret`")
            }
            RuleError::BadName => f.write_str("the name of a rule begins with /, such as /a/b"),
            RuleError::BadPart(part) => {
                write!(
                    f,
                    "{part:?} is not a name component, * or **; write %2A for a component that is *"
                )
            }
            RuleError::TooLong => f.write_str("the name of a rule has at most 32 components"),
            RuleError::TwoMultiWildcards => {
                f.write_str("a rule may have ** only once: write two rules")
            }
            RuleError::Full => f.write_str("the filter is full (rules_max): remove a rule first"),
            RuleError::TooManyPatterns => f.write_str(
                "the filter has 256 rules with wildcards, the maximum: remove one first",
            ),
        }
    }
}

impl core::error::Error for RuleError {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (verdict, pattern) =
            text.trim().split_once(char::is_whitespace).ok_or(RuleError::NoVerdict)?;
        let verdict = match verdict {
            "allow" => Verdict::Allow,
            "deny" => Verdict::Deny,
            _ => return Err(RuleError::NoVerdict),
        };
        Ok(Rule { verdict, pattern: pattern.parse()? })
    }
}

impl FromStr for NamePattern {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let (exact, uri) = match text.split_once(char::is_whitespace) {
            Some(("exact", uri)) => (true, uri.trim()),
            _ => (false, text),
        };
        let pattern_text = uri.strip_prefix('/').ok_or(RuleError::BadName)?;
        let mut pattern = NamePattern { head: Vec::new(), tail: None, exact };
        for word in pattern_text.split('/').filter(|_| !pattern_text.is_empty()) {
            if word == "**" {
                if pattern.tail.is_some() {
                    return Err(RuleError::TwoMultiWildcards);
                }
                pattern.tail = Some(Vec::new());
                continue;
            }
            let part = part(word)?;
            pattern.tail.as_mut().unwrap_or(&mut pattern.head).push(part);
        }
        if pattern.tail.as_ref().is_some_and(Vec::is_empty) {
            (pattern.tail, pattern.exact) = (None, false);
        }
        if pattern.parts().count() > PREFIXES_MAX { Err(RuleError::TooLong) } else { Ok(pattern) }
    }
}

/// Parses one component of a pattern.
fn part(word: &str) -> Result<Part, RuleError> {
    if word == "*" {
        return Ok(Part::Any);
    }
    let name = format!("/{word}").parse::<Name>().ok().filter(|name| name.as_ref().len() == 1);
    name.map(Part::Literal).ok_or_else(|| RuleError::BadPart(word.to_owned()))
}

impl NamePattern {
    /// Creates the pattern of a name and all names below it.
    pub fn prefix(name: NameRef<'_>) -> Self {
        let head = (0..name.len() as isize).filter_map(|at| name.component(at));
        let head = head.map(|component| Part::Literal(Name::new().with(component))).collect();
        NamePattern { head, tail: None, exact: false }
    }

    /// Restricts the pattern to names without further components.
    pub(super) fn into_exact(self) -> Self {
        NamePattern { exact: true, ..self }
    }

    /// Returns all components, without `**`.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.head.iter().chain(self.tail.iter().flatten())
    }

    /// Returns whether names with further components do not match.
    pub const fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns whether it has `**` before other components.
    pub const fn has_multi_wildcard(&self) -> bool {
        self.tail.is_some()
    }

    /// Returns the pattern as a name. `None` if it has wildcards.
    pub fn literal(&self) -> Option<Name> {
        if self.has_multi_wildcard() {
            return None;
        }
        self.head.iter().try_fold(Name::new(), |name, part| match part {
            Part::Literal(component) => Some(name.with_name(component.as_ref())),
            Part::Any => None,
        })
    }

    /// Returns the specificity: of two patterns that match a name, the higher one decides. More
    /// components, then fewer wildcards, no `**`, exactly this name.
    pub(super) fn rank(&self) -> u32 {
        let literal = |part: &&Part| matches!(part, Part::Literal(_));
        let (components, literals) =
            (self.parts().count() as u32, self.parts().filter(literal).count() as u32);
        rank(components, literals)
            | u32::from(!self.has_multi_wildcard()) << 1
            | u32::from(self.exact)
    }

    /// Returns the [`rank`](Self::rank) of [`prefix`](Self::prefix) for a name with this many
    /// components.
    pub(super) const fn prefix_rank(components: usize) -> u32 {
        rank(components as u32, components as u32) | 1 << 1
    }

    /// Returns whether a name matches. If there is a `**`, the name must have at most
    /// [`COMPONENTS_MAX`] components.
    pub fn matches(&self, name: NameRef<'_>) -> bool {
        let mut components = Encoded(name.as_bytes());
        for part in &self.head {
            match components.next() {
                Some(component) if part.fits(component) => {}
                _ => return false,
            }
        }
        match &self.tail {
            None => !self.exact || components.0.is_empty(),
            Some(tail) if self.exact => {
                let Some(skipped) = components.clone().count().checked_sub(tail.len()) else {
                    return false;
                };
                components.skip(skipped).zip(tail).all(|(component, part)| part.fits(component))
            }
            Some(tail) => loop {
                let mut candidate = components.clone();
                if tail
                    .iter()
                    .all(|part| candidate.next().is_some_and(|component| part.fits(component)))
                {
                    return true;
                }
                if components.next().is_none() {
                    return false;
                }
            },
        }
    }
}

/// Returns the part of a rank that counts components.
const fn rank(components: u32, literals: u32) -> u32 {
    components << 16 | literals << 8
}

impl Part {
    /// Returns whether an encoded component matches.
    fn fits(&self, component: &[u8]) -> bool {
        match self {
            Part::Literal(expected) => expected.as_ref().as_bytes() == component,
            Part::Any => true,
        }
    }
}

/// Iterator over the components of a name, each with its TLV header.
#[derive(Clone)]
struct Encoded<'a>(&'a [u8]);

impl<'a> Iterator for Encoded<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut components = NameRef::from_checked(self.0).components();
        components.next()?;
        let (component, rest) = self.0.split_at_checked(components.consumed())?;
        self.0 = rest;
        Some(component)
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.exact {
            f.write_str("exact ")?;
        }
        let part = |part: &Part, f: &mut fmt::Formatter<'_>| match part {
            // The component `*` itself is not a wildcard.
            Part::Literal(name) if name.as_ref().as_bytes() == b"\x08\x01*" => f.write_str("/%2A"),
            Part::Literal(name) if name.as_ref().as_bytes() == b"\x08\x02**" => {
                f.write_str("/%2A%2A")
            }
            Part::Literal(name) => name.fmt(f),
            Part::Any => f.write_str("/*"),
        };
        self.head.iter().try_for_each(|p| part(p, f))?;
        if let Some(tail) = &self.tail {
            f.write_str("/**")?;
            tail.iter().try_for_each(|p| part(p, f))?;
        }
        if self.parts().next().is_none() { f.write_str("/") } else { Ok(()) }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        };
        write!(f, "{verdict} {}", self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_testkit::bench::name;
    use proptest::prelude::*;

    fn matches(pattern: &str, uri: &str) -> bool {
        pattern.parse::<NamePattern>().expect(pattern).matches(name(uri).as_ref())
    }

    #[test]
    fn pattern_matches_names_as_documented() {
        for (pattern, uri, is) in [
            ("/", "/", true),
            ("/", "/a", true),
            ("exact /", "/a", false),
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/b/c", true),
            ("/a/b", "/a", false),
            ("exact /a/b", "/a/b", true),
            ("exact /a/b", "/a/b/c", false),
            ("/a/*/c", "/a/x/c", true),
            ("/a/*/c", "/a/x/c/d", true),
            ("exact /a/*/c", "/a/x/c/d", false),
            ("/a/*/c", "/a/c", false),
            ("/a/*", "/a", false),
            ("/a/**", "/a", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/b", false),
            ("exact /a/**", "/a/b/c", true),
            ("/a/**/c", "/a/c", true),
            ("/a/**/c", "/a/x/y/c/z", true),
            ("exact /a/**/c", "/a/x/y/c/z", false),
            ("exact /a/**/c", "/a/x/c/c", true),
            ("exact /a/**/a", "/a", false),
            ("/**/c", "/c", true),
            ("/**/*/c", "/c", false),
            ("/seg=1", "/seg=1", true),
            ("/%2A", "/%2A", true),
            ("/%2A", "/b", false),
        ] {
            assert_eq!(matches(pattern, uri), is, "{pattern} {uri}");
        }
    }

    #[test]
    fn malformed_rule_is_rejected() {
        let long = format!("deny {}", "/a".repeat(33));
        for (text, error) in [
            ("", RuleError::NoVerdict),
            ("/a", RuleError::NoVerdict),
            ("forbid /a", RuleError::NoVerdict),
            ("deny a", RuleError::BadName),
            ("deny /a//b", RuleError::BadPart(String::new())),
            ("deny /a/%", RuleError::BadPart("%".into())),
            ("deny /**/a/**", RuleError::TwoMultiWildcards),
            (&long, RuleError::TooLong),
        ] {
            assert_eq!(text.parse::<Rule>(), Err(error), "{text}");
        }
    }

    #[test]
    fn rule_text_survives_a_round_trip() {
        for text in
            ["deny /", "allow /a/b", "deny exact /a/*/c", "deny /a/**/c/*", "allow /%2A/%2A%2A"]
        {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!("deny  exact  /a/**".parse::<Rule>().unwrap().to_string(), "deny /a");
        let prefix = NamePattern::prefix(name("/a/b").as_ref());
        assert_eq!(prefix, "/a/b".parse().unwrap());
    }

    /// Tries all ways to fill in wildcards.
    fn naive(parts: &[&str], exact: bool, letters: &[u8]) -> bool {
        match parts.split_first() {
            None => !exact || letters.is_empty(),
            Some((&"**", rest)) => {
                rest.is_empty()
                    || (0..=letters.len()).any(|taken| naive(rest, exact, &letters[taken..]))
            }
            Some((&part, rest)) => letters.split_first().is_some_and(|(letter, letters)| {
                (part == "*" || part.as_bytes() == [*letter]) && naive(rest, exact, letters)
            }),
        }
    }

    proptest! {
        #[test]
        fn pattern_agrees_with_model(
            parts in proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("*"), Just("**")], 0..6),
            letters in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b')], 0..8),
            exact: bool,
        ) {
            let text = format!("{}/{}", if exact { "exact " } else { "" }, parts.join("/"));
            let asked = letters.iter().fold(Name::new(), |name, letter| name.with_generic([*letter]));
            if let Ok(pattern) = text.parse::<NamePattern>() {
                let expected = naive(&parts, exact, &letters);
                prop_assert_eq!(pattern.matches(asked.as_ref()), expected, "{} {}", text, asked);
                prop_assert_eq!(pattern.to_string().parse::<NamePattern>(), Ok(pattern));
            }
        }

        #[test]
        fn parsing_any_text_does_not_panic(text in "(allow|deny| |exact|[/*a%])*") { let _ = text.parse::<Rule>(); }
    }
}
