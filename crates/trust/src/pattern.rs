//! Patterns of names, two of which may be tied: what a variable stands for in one it stands for in the other.
//!
//! ```text
//! /site/<who>/KEY/<_>      <who> is one component, the same wherever it stands; <_> is any one
//! /site/<below..>          <below..> is any number of components, none too; <..> likewise, whatever they are
//! ```
//!
//! So "equal" is the same variable in both patterns, and "is a prefix of" is `/<who..>` here and `/<who..>/<..>` there.
//! Work is bounded: a pattern has at most [`PARTS_MAX`] parts, two of them of any length, and no name of more than [`COMPONENTS_MAX`]
//! components matches.

use nw_name::{Component, ComponentType, Name, NameRef};
use std::fmt;
use std::str::FromStr;

/// Parts of a pattern.
pub const PARTS_MAX: usize = 32;
/// Components of a name that may match.
pub const COMPONENTS_MAX: usize = 64;
/// Parts of any length in a pattern.
const SPANS_MAX: usize = 2;

/// What a name should look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This component.
    Exactly(ComponentType, Vec<u8>),
    /// Any one; all of the same variable are equal.
    One(Option<String>),
    /// Any number, likewise.
    Span(Option<String>),
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not begin like a name.
    #[error("a pattern begins with /")]
    NoSlash,
    /// Something between slashes is neither a component nor a variable.
    #[error("a part is neither a name component nor <variable>, <variable..>, <_> or <..>")]
    BadPart,
    /// Too long.
    #[error("a pattern has at most 32 parts")]
    TooLong,
    /// Too many ways to match.
    #[error("a pattern has at most two parts of any length")]
    TooManySpans,
    /// `<x>` and `<x..>` are not the same.
    #[error("a variable is one component or any number, not both")]
    TwoKinds,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let rest = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        let words = rest.split('/').filter(|_| !rest.is_empty());
        let parts: Vec<Part> = words.map(part).collect::<Result<_, _>>()?;
        if parts.len() > PARTS_MAX {
            return Err(PatternError::TooLong);
        }
        if parts.iter().filter(|part| matches!(part, Part::Span(_))).count() > SPANS_MAX {
            return Err(PatternError::TooManySpans);
        }
        let pattern = Pattern { parts, text: text.to_owned() };
        pattern.is_tied_well_to(&pattern).then_some(pattern).ok_or(PatternError::TwoKinds)
    }
}

fn part(word: &str) -> Result<Part, PatternError> {
    let Some(inner) = word.strip_prefix('<') else {
        let name: Name = format!("/{word}").parse().map_err(|_| PatternError::BadPart)?;
        let component = name.as_ref().component(0).filter(|_| name.as_ref().len() == 1);
        let component = component.ok_or(PatternError::BadPart)?;
        return Ok(Part::Exactly(component.typ(), component.value().to_vec()));
    };
    let inner = inner.strip_suffix('>').ok_or(PatternError::BadPart)?;
    let (variable, span) = match inner.strip_suffix("..") {
        Some(variable) => (variable, true),
        None => (inner, false),
    };
    let named = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let variable = match (variable, span) {
        ("_", false) | ("" | "_", true) => None,
        (variable, _) if !variable.is_empty() && named(variable) => Some(variable.to_owned()),
        _ => return Err(PatternError::BadPart),
    };
    Ok(if span { Part::Span(variable) } else { Part::One(variable) })
}

impl Pattern {
    /// What every name matches.
    pub fn any() -> Self {
        Pattern { parts: vec![Part::Span(None)], text: "/<..>".to_owned() }
    }

    /// True when no variable is one component here and any number there.
    pub fn is_tied_well_to(&self, other: &Pattern) -> bool {
        let clash = |part: &Part| {
            let Part::One(Some(variable)) = part else { return false };
            let span = |part: &Part| matches!(part, Part::Span(Some(name)) if name == variable);
            self.parts.iter().chain(&other.parts).any(span)
        };
        !self.parts.iter().chain(&other.parts).any(clash)
    }

    /// True when the name looks like this.
    pub fn matches(&self, name: NameRef<'_>) -> bool {
        let Some(components) = components(name) else { return false };
        walk(&self.parts, &components, &mut Vec::new(), &mut |_| true)
    }

    /// True when this name looks like this pattern and the other like the other, with the same for the same variables.
    pub fn matches_with(&self, name: NameRef<'_>, other: &Pattern, other_name: NameRef<'_>) -> bool {
        let (Some(mine), Some(others)) = (components(name), components(other_name)) else { return false };
        walk(&self.parts, &mine, &mut Vec::new(), &mut |bound| {
            walk(&other.parts, &others, bound, &mut |_| true)
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What variables stand for.
type Bound<'a> = Vec<(&'a str, &'a [Component<'a>])>;

fn components(name: NameRef<'_>) -> Option<Vec<Component<'_>>> {
    let components: Vec<_> = name.components().take(COMPONENTS_MAX + 1).collect();
    (components.len() <= COMPONENTS_MAX).then_some(components)
}

/// Tries every way; `then` decides about a whole one. `bound` is as before when none is found.
fn walk<'a>(
    parts: &'a [Part],
    components: &'a [Component<'a>],
    bound: &mut Bound<'a>,
    then: &mut dyn FnMut(&mut Bound<'a>) -> bool,
) -> bool {
    let Some((part, parts)) = parts.split_first() else {
        return components.is_empty() && then(bound);
    };
    let (variable, lengths) = match part {
        Part::Exactly(typ, value) => {
            let is = components.first().is_some_and(|c| c.typ() == *typ && c.value() == value);
            return is && walk(parts, &components[1..], bound, then);
        }
        Part::One(variable) => (variable, 1..=1),
        Part::Span(variable) => {
            let needed = parts.iter().filter(|part| !matches!(part, Part::Span(_))).count();
            let most = match components.len().checked_sub(needed) {
                Some(most) => most,
                None => return false,
            };
            // The last span has what the parts behind it leave.
            let more = parts.iter().any(|part| matches!(part, Part::Span(_)));
            (variable, if more { 0..=most } else { most..=most })
        }
    };
    for length in lengths {
        let Some((taken, rest)) = components.split_at_checked(length) else { return false };
        let known = variable.as_deref().and_then(|name| bound.iter().find(|(other, _)| *other == name));
        let known = known.map(|(_, value)| *value);
        match (variable, known) {
            (Some(_), Some(value)) if value != taken => {}
            (Some(name), None) => {
                bound.push((name.as_str(), taken));
                if walk(parts, rest, bound, then) {
                    return true;
                }
                bound.pop();
            }
            _ if walk(parts, rest, bound, then) => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn matches(text: &str, uri: &str) -> bool {
        pattern(text).matches(name(uri).as_ref())
    }

    #[test]
    fn parts() {
        for (text, uri, is) in [
            ("/", "/", true),
            ("/", "/a", false),
            ("/a/b", "/a/b", true),
            ("/a/b", "/a", false),
            ("/a/b", "/a/b/c", false),
            ("/a/<_>", "/a/x", true),
            ("/a/<_>", "/a", false),
            ("/a/<..>", "/a", true),
            ("/a/<..>", "/a/b/c/d", true),
            ("/a/<..>", "/b/c", false),
            ("/<..>/KEY/<_>", "/KEY/1", true),
            ("/<..>/KEY/<_>", "/a/b/KEY/1", true),
            ("/<..>/KEY/<_>", "/a/b/KEY/1/2", false),
            ("/<who>/x/<who>", "/a/x/a", true),
            ("/<who>/x/<who>", "/a/x/b", false),
            ("/<who..>/x/<who..>", "/a/b/x/a/b", true),
            ("/<who..>/x/<who..>", "/x", true),
            ("/<who..>/x/<who..>", "/x/x/x", true),
            ("/<who..>/x/<who..>", "/a/b/x/a/c", false),
            ("/seg=1/32=PA", "/seg=1/32=PA", true),
            ("/seg=1", "/%01", false),
            ("/<..>", "/", true),
        ] {
            assert_eq!(matches(text, uri), is, "{text} {uri}");
        }
        assert!(Pattern::any().matches(name("/a/b").as_ref()));
    }

    #[test]
    fn ties() {
        for (one, one_name, other, other_name, is) in [
            ("/site/<who>/KEY/<_>", "/site/alice/KEY/1", "/data/<who>/<..>", "/data/alice/x", true),
            ("/site/<who>/KEY/<_>", "/site/alice/KEY/1", "/data/<who>/<..>", "/data/bob/x", false),
            ("/<who..>/KEY/<_>", "/a/b/KEY/1", "/<who..>", "/a/b", true),
            ("/<who..>/KEY/<_>", "/a/b/KEY/1", "/<who..>", "/a/b/c", false),
            ("/<who..>/KEY/<_>", "/a/b/KEY/1", "/<who..>/<..>", "/a/b/c", true),
            ("/<who..>/KEY/<_>", "/a/b/KEY/1", "/<who..>/<..>", "/a/c", false),
            ("/<who..>/KEY/<_>", "/KEY/1", "/<who..>/<..>", "/anything", true),
            ("/<a..>/<b..>/KEY/<_>", "/x/y/KEY/1", "/<b..>/<a..>", "/y/x", true),
            ("/<a..>/<b..>/KEY/<_>", "/x/y/KEY/1", "/<b..>/<a..>", "/y/z", false),
        ] {
            let (one, other) = (pattern(one), pattern(other));
            let (one_name, other_name) = (name(one_name), name(other_name));
            assert_eq!(one.matches_with(one_name.as_ref(), &other, other_name.as_ref()), is, "{one} {other}");
            assert_eq!(other.matches_with(other_name.as_ref(), &one, one_name.as_ref()), is, "{other} {one}");
        }
    }

    #[test]
    fn what_is_no_pattern() {
        use PatternError::*;
        let long = "/a".repeat(PARTS_MAX + 1);
        for (text, why) in [
            ("", NoSlash),
            ("a", NoSlash),
            ("/<", BadPart),
            ("/<a", BadPart),
            ("/<a b>", BadPart),
            ("/<>", BadPart),
            ("//", BadPart),
            ("/a/", BadPart),
            ("/%", BadPart),
            ("/<a..>/<b..>/<..>", TooManySpans),
            ("/<a>/<a..>", TwoKinds),
            (long.as_str(), TooLong),
        ] {
            assert_eq!(text.parse::<Pattern>(), Err(why), "{text}");
        }
        assert!(!pattern("/<a>").is_tied_well_to(&pattern("/<a..>")));
    }

    #[test]
    fn work_is_bounded_and_long_names_do_not_match() {
        let worst = pattern("/<a..>/<b..>");
        let other = pattern("/<b..>/<a..>/x");
        let long = name(&"/a".repeat(COMPONENTS_MAX));
        let start = std::time::Instant::now();
        assert!(!worst.matches_with(long.as_ref(), &other, long.as_ref()));
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
        assert!(!Pattern::any().matches(name(&"/a".repeat(COMPONENTS_MAX + 1)).as_ref()));
    }

    /// Every way to fill the pattern in, tried without any cleverness.
    fn naive(parts: &[Part], components: &[u8], bound: &[(String, Vec<u8>)]) -> bool {
        let Some((part, rest)) = parts.split_first() else { return components.is_empty() };
        let (variable, lengths) = match part {
            Part::Exactly(_, value) => {
                return components.first() == value.first()
                    && !components.is_empty()
                    && naive(rest, &components[1..], bound);
            }
            Part::One(variable) => (variable, 1..=1),
            Part::Span(variable) => (variable, 0..=components.len()),
        };
        lengths.into_iter().filter(|length| *length <= components.len()).any(|length| {
            let taken = components[..length].to_vec();
            let mut bound = bound.to_vec();
            if let Some(variable) = variable {
                if bound.iter().any(|(name, value)| name == variable && *value != taken) {
                    return false;
                }
                bound.push((variable.clone(), taken));
            }
            naive(rest, &components[length..], &bound)
        })
    }

    proptest! {
        #[test]
        fn as_the_naive_one(
            parts in proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("<x>"), Just("<_>"), Just("<y..>"), Just("<..>")], 0..6),
            letters in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b')], 0..8),
        ) {
            let text = format!("/{}", parts.join("/"));
            let uri: String = letters.iter().map(|letter| format!("/{}", char::from(*letter))).collect();
            if let Ok(pattern) = text.parse::<Pattern>() {
                let wanted = naive(&pattern.parts, &letters, &[]);
                let name = if uri.is_empty() { Name::new() } else { name(&uri) };
                prop_assert_eq!(pattern.matches(name.as_ref()), wanted, "{} {}", text, uri);
            }
        }

        #[test]
        fn no_text_panics(text in "[/<>.a%_=0-9]{0,30}") { let _ = text.parse::<Pattern>(); }
    }
}
