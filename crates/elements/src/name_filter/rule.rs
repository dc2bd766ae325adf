//! What a rule of a name filter says, and which names it is about.
//!
//! ```text
//! deny /a/b            /a/b and all below
//! deny exact /a/b      /a/b alone
//! deny /a/*/c          * is any one component
//! deny /a/**/c         ** is any number of components, none too: a c anywhere below /a, and all below it
//! ```

use core::fmt;
use core::str::FromStr;
use nw_name::{Name, NameRef, PREFIXES_MAX};

/// What becomes of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    #[default]
    Allow,
    /// It is refused.
    Deny,
}

/// Components of a name, at most, that a rule with `**` between others can tell something about.
pub const COMPONENTS_MAX: usize = 64;

/// Names that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    head: Vec<Part>,
    /// What stands behind `**`.
    tail: Option<Vec<Part>>,
    exact: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This component, encoded.
    This(Name),
    Any,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it says.
    pub verdict: Verdict,
    /// About which names.
    pub pattern: NamePattern,
}

/// Why a text is no rule, or a rule was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// It does not begin with a verdict.
    NoVerdict,
    /// What follows is no name.
    BadName,
    /// A part of the name is none.
    BadPart(String),
    /// More components than a prefix may have.
    TooLong,
    /// More than one `**`.
    TwoSpans,
    /// As many as there may be.
    Full,
    /// As many rules with wildcards as there may be.
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
                write!(f, "{part:?} is no component of a name, nor * or **: a * itself is written %2A")
            }
            RuleError::TooLong => f.write_str("the name of a rule has at most 32 components"),
            RuleError::TwoSpans => f.write_str("a rule has ** once: write two rules"),
            RuleError::Full => f.write_str("there are as many rules as there may be: remove one first"),
            RuleError::TooManyPatterns => {
                f.write_str("there are as many rules with * as there may be: remove one first")
            }
        }
    }
}

impl core::error::Error for RuleError {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (verdict, pattern) = text.trim().split_once(char::is_whitespace).ok_or(RuleError::NoVerdict)?;
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
        let rest = uri.strip_prefix('/').ok_or(RuleError::BadName)?;
        let mut pattern = NamePattern { head: Vec::new(), tail: None, exact };
        for word in rest.split('/').filter(|_| !rest.is_empty()) {
            if word == "**" {
                if pattern.tail.is_some() {
                    return Err(RuleError::TwoSpans);
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

fn part(word: &str) -> Result<Part, RuleError> {
    if word == "*" {
        return Ok(Part::Any);
    }
    let name = format!("/{word}").parse::<Name>().ok().filter(|name| name.as_ref().len() == 1);
    name.map(Part::This).ok_or_else(|| RuleError::BadPart(word.to_owned()))
}

impl NamePattern {
    /// Of a name and all below it.
    pub fn below(name: NameRef<'_>) -> Self {
        let head = (0..name.len() as isize).filter_map(|at| name.component(at));
        let head = head.map(|component| Part::This(Name::new().with(component))).collect();
        NamePattern { head, tail: None, exact: false }
    }

    /// Of the same names without those below.
    pub(super) fn exactly(self) -> Self {
        NamePattern { exact: true, ..self }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.head.iter().chain(self.tail.iter().flatten())
    }

    /// True when it is about one name and nothing below.
    pub const fn is_exact(&self) -> bool {
        self.exact
    }

    /// True when it has `**` between others.
    pub const fn has_span(&self) -> bool {
        self.tail.is_some()
    }

    /// The name it is about, where it has no wildcards.
    pub fn literal(&self) -> Option<Name> {
        if self.has_span() {
            return None;
        }
        self.head.iter().try_fold(Name::new(), |name, part| match part {
            Part::This(component) => Some(name.with_name(component.as_ref())),
            Part::Any => None,
        })
    }

    /// How much it says: of two patterns that a name fits, the one with more decides. More components, then fewer wildcards, no `**`, exactly this name.
    pub(super) fn rank(&self) -> u32 {
        let literal = |part: &&Part| matches!(part, Part::This(_));
        let (all, literals) = (self.parts().count() as u32, self.parts().filter(literal).count() as u32);
        rank(all, literals) | u32::from(!self.has_span()) << 1 | u32::from(self.exact)
    }

    /// [`rank`](Self::rank) of a name of so many components and all below it.
    pub(super) const fn below_rank(components: usize) -> u32 {
        rank(components as u32, components as u32) | 1 << 1
    }

    /// True when a name fits, which has at most [`COMPONENTS_MAX`] components where there is a `**`.
    pub fn matches(&self, name: NameRef<'_>) -> bool {
        let mut rest = Encoded(name.as_bytes());
        for part in &self.head {
            match rest.next() {
                Some(component) if part.fits(component) => {}
                _ => return false,
            }
        }
        match &self.tail {
            None => !self.exact || rest.0.is_empty(),
            Some(tail) if self.exact => {
                let Some(skipped) = rest.clone().count().checked_sub(tail.len()) else { return false };
                rest.skip(skipped).zip(tail).all(|(component, part)| part.fits(component))
            }
            Some(tail) => loop {
                let mut here = rest.clone();
                if tail.iter().all(|part| here.next().is_some_and(|component| part.fits(component))) {
                    return true;
                }
                if rest.next().is_none() {
                    return false;
                }
            },
        }
    }
}

const fn rank(components: u32, literals: u32) -> u32 {
    components << 16 | literals << 8
}

impl Part {
    fn fits(&self, component: &[u8]) -> bool {
        match self {
            Part::This(wanted) => wanted.as_ref().as_bytes() == component,
            Part::Any => true,
        }
    }
}

/// The components of a name, each as its whole encoding.
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
            // A component of this very letter is not a wildcard.
            Part::This(name) if name.as_ref().as_bytes() == b"\x08\x01*" => f.write_str("/%2A"),
            Part::This(name) if name.as_ref().as_bytes() == b"\x08\x02**" => f.write_str("/%2A%2A"),
            Part::This(name) => name.fmt(f),
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
    use crate::lab::name;
    use proptest::prelude::*;

    fn matches(pattern: &str, uri: &str) -> bool {
        pattern.parse::<NamePattern>().expect(pattern).matches(name(uri).as_ref())
    }

    #[test]
    fn patterns() {
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
    fn what_is_no_rule() {
        let long = format!("deny {}", "/a".repeat(33));
        for (text, error) in [
            ("", RuleError::NoVerdict),
            ("/a", RuleError::NoVerdict),
            ("forbid /a", RuleError::NoVerdict),
            ("deny a", RuleError::BadName),
            ("deny /a//b", RuleError::BadPart(String::new())),
            ("deny /a/%", RuleError::BadPart("%".into())),
            ("deny /**/a/**", RuleError::TwoSpans),
            (&long, RuleError::TooLong),
        ] {
            assert_eq!(text.parse::<Rule>(), Err(error), "{text}");
        }
    }

    #[test]
    fn texts_come_back() {
        for text in ["deny /", "allow /a/b", "deny exact /a/*/c", "deny /a/**/c/*", "allow /%2A/%2A%2A"] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), text);
        }
        assert_eq!("deny  exact  /a/**".parse::<Rule>().unwrap().to_string(), "deny /a");
        let below = NamePattern::below(name("/a/b").as_ref());
        assert_eq!(below, "/a/b".parse().unwrap());
    }

    /// All ways to fill wildcards in.
    fn naive(parts: &[&str], exact: bool, letters: &[u8]) -> bool {
        match parts.split_first() {
            None => !exact || letters.is_empty(),
            Some((&"**", rest)) => {
                rest.is_empty() || (0..=letters.len()).any(|taken| naive(rest, exact, &letters[taken..]))
            }
            Some((&part, rest)) => letters.split_first().is_some_and(|(letter, letters)| {
                (part == "*" || part.as_bytes() == [*letter]) && naive(rest, exact, letters)
            }),
        }
    }

    proptest! {
        #[test]
        fn as_the_naive_one(
            parts in proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("*"), Just("**")], 0..6),
            letters in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b')], 0..8),
            exact: bool,
        ) {
            let text = format!("{}/{}", if exact { "exact " } else { "" }, parts.join("/"));
            let asked = letters.iter().fold(Name::new(), |name, letter| name.with_generic([*letter]));
            if let Ok(pattern) = text.parse::<NamePattern>() {
                let wanted = naive(&parts, exact, &letters);
                prop_assert_eq!(pattern.matches(asked.as_ref()), wanted, "{} {}", text, asked);
                prop_assert_eq!(pattern.to_string().parse::<NamePattern>(), Ok(pattern));
            }
        }

        #[test]
        fn no_text_panics(text in "(allow|deny| |exact|[/*a%])*") { let _ = text.parse::<Rule>(); }
    }
}
