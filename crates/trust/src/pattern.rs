//! Name patterns with variables. A variable shared by two patterns must match the same components.
//!
//! ```text
//! /site/<user>/KEY/<_>     <user> is one component, the same wherever it appears; <_> is any one
//! /site/<below..>          <below..> is zero or more components; so is <..>, without a variable
//! ```
//!
//! Two patterns express "equal" by the same variable in both, and "is a prefix of" by `/<user..>`
//! in one and `/<user..>/<..>` in the other.
//!
//! Work is bounded: a pattern has at most [`PARTS_MAX`] parts, at most two of them of any length,
//! and a name with more than [`COMPONENTS_MAX`] components never matches.

use nw_name::{Component, ComponentType, Name, NameRef};
use std::fmt;
use std::str::FromStr;

/// Maximum number of parts in a pattern.
pub const PARTS_MAX: usize = 32;
/// Maximum number of components in a matching name.
pub const COMPONENTS_MAX: usize = 64;
/// Maximum number of parts of any length in a pattern.
const MULTIPLE_MAX: usize = 2;

/// A name pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// A literal component.
    Literal(ComponentType, Vec<u8>),
    /// One component; `Some`: the same for all parts with this variable.
    Single(Option<String>),
    /// Zero or more components; `Some`: the same for all parts with this variable.
    Multiple(Option<String>),
}

/// The reason why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not start with a slash.
    #[error("a pattern starts with /")]
    NoSlash,
    /// A part is neither a name component nor a variable.
    #[error("a part is neither a name component nor <variable>, <variable..>, <_> or <..>")]
    BadPart,
    /// It has more than [`PARTS_MAX`] parts.
    #[error("a pattern has at most 32 parts")]
    TooLong,
    /// It has more than two parts of any length.
    #[error("a pattern has at most two parts of any length")]
    TooManyMultiple,
    /// A variable is used as `<x>` and as `<x..>`.
    #[error("a variable stands for either one component (<x>) or any number (<x..>), not both")]
    MixedVariable,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let body = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        let parts = body.split('/').filter(|_| !body.is_empty());
        let parts: Vec<Part> = parts.map(parse_part).collect::<Result<_, _>>()?;
        if parts.len() > PARTS_MAX {
            return Err(PatternError::TooLong);
        }
        if parts.iter().filter(|part| matches!(part, Part::Multiple(_))).count() > MULTIPLE_MAX {
            return Err(PatternError::TooManyMultiple);
        }
        let pattern = Pattern { parts, text: text.to_owned() };
        pattern
            .has_consistent_variables(&pattern)
            .then_some(pattern)
            .ok_or(PatternError::MixedVariable)
    }
}

fn parse_part(text: &str) -> Result<Part, PatternError> {
    let Some(inner) = text.strip_prefix('<') else {
        let name: Name = format!("/{text}").parse().map_err(|_| PatternError::BadPart)?;
        let component = name.as_ref().component(0).filter(|_| name.as_ref().len() == 1);
        let component = component.ok_or(PatternError::BadPart)?;
        return Ok(Part::Literal(component.typ(), component.value().to_vec()));
    };
    let inner = inner.strip_suffix('>').ok_or(PatternError::BadPart)?;
    let (variable, is_multiple) = match inner.strip_suffix("..") {
        Some(variable) => (variable, true),
        None => (inner, false),
    };
    let is_identifier =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let variable = match (variable, is_multiple) {
        ("_", false) | ("" | "_", true) => None,
        (variable, _) if !variable.is_empty() && is_identifier(variable) => {
            Some(variable.to_owned())
        }
        _ => return Err(PatternError::BadPart),
    };
    Ok(if is_multiple { Part::Multiple(variable) } else { Part::Single(variable) })
}

impl Pattern {
    /// Returns the pattern that matches every name.
    pub fn any() -> Self {
        Pattern { parts: vec![Part::Multiple(None)], text: "/<..>".to_owned() }
    }

    /// Returns whether no variable of both patterns is `<x>` in one place and `<x..>` in another.
    pub fn has_consistent_variables(&self, other: &Pattern) -> bool {
        let clash = |part: &Part| {
            let Part::Single(Some(variable)) = part else { return false };
            let span = |part: &Part| matches!(part, Part::Multiple(Some(name)) if name == variable);
            self.parts.iter().chain(&other.parts).any(span)
        };
        !self.parts.iter().chain(&other.parts).any(clash)
    }

    /// Returns whether the name matches.
    pub fn matches(&self, name: NameRef<'_>) -> bool {
        let Some(components) = components(name) else { return false };
        match_parts(&self.parts, &components, &mut Vec::new(), &mut |_| true)
    }

    /// Returns whether both names match their patterns, with equal values for shared variables.
    pub fn matches_with(
        &self,
        name: NameRef<'_>,
        other: &Pattern,
        other_name: NameRef<'_>,
    ) -> bool {
        let (Some(own), Some(others)) = (components(name), components(other_name)) else {
            return false;
        };
        match_parts(&self.parts, &own, &mut Vec::new(), &mut |bindings| {
            match_parts(&other.parts, &others, bindings, &mut |_| true)
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Variables with their values.
type Bindings<'a> = Vec<(&'a str, &'a [Component<'a>])>;

fn components(name: NameRef<'_>) -> Option<Vec<Component<'_>>> {
    let components: Vec<_> = name.components().take(COMPONENTS_MAX + 1).collect();
    (components.len() <= COMPONENTS_MAX).then_some(components)
}

/// Matches `parts` against `components` by backtracking; `then` decides about each complete match.
/// Returns whether it accepted one; if not, `bindings` is unchanged.
fn match_parts<'a>(
    parts: &'a [Part],
    components: &'a [Component<'a>],
    bindings: &mut Bindings<'a>,
    then: &mut dyn FnMut(&mut Bindings<'a>) -> bool,
) -> bool {
    let Some((part, parts)) = parts.split_first() else {
        return components.is_empty() && then(bindings);
    };
    let (variable, lengths) = match part {
        Part::Literal(typ, value) => {
            let is = components.first().is_some_and(|c| c.typ() == *typ && c.value() == value);
            return is && match_parts(parts, &components[1..], bindings, then);
        }
        Part::Single(variable) => (variable, 1..=1),
        Part::Multiple(variable) => {
            let needed = parts.iter().filter(|part| !matches!(part, Part::Multiple(_))).count();
            let Some(len_max) = components.len().checked_sub(needed) else { return false };
            // The last part of any length takes all that the parts after it leave.
            let is_last = !parts.iter().any(|part| matches!(part, Part::Multiple(_)));
            (variable, if is_last { len_max..=len_max } else { 0..=len_max })
        }
    };
    for length in lengths {
        let Some((taken, remaining)) = components.split_at_checked(length) else { return false };
        let known =
            variable.as_deref().and_then(|name| bindings.iter().find(|(bound, _)| *bound == name));
        let known = known.map(|(_, value)| *value);
        match (variable, known) {
            (Some(_), Some(value)) if value != taken => {}
            (Some(name), None) => {
                bindings.push((name.as_str(), taken));
                if match_parts(parts, remaining, bindings, then) {
                    return true;
                }
                bindings.pop();
            }
            _ if match_parts(parts, remaining, bindings, then) => return true,
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
    fn pattern_matches_names() {
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
            ("/<user>/x/<user>", "/a/x/a", true),
            ("/<user>/x/<user>", "/a/x/b", false),
            ("/<user..>/x/<user..>", "/a/b/x/a/b", true),
            ("/<user..>/x/<user..>", "/x", true),
            ("/<user..>/x/<user..>", "/x/x/x", true),
            ("/<user..>/x/<user..>", "/a/b/x/a/c", false),
            ("/seg=1/32=PA", "/seg=1/32=PA", true),
            ("/seg=1", "/%01", false),
            ("/<..>", "/", true),
        ] {
            assert_eq!(matches(text, uri), is, "{text} {uri}");
        }
        assert!(Pattern::any().matches(name("/a/b").as_ref()));
    }

    #[test]
    fn shared_variables_must_match_the_same_components() {
        for (first, first_name, second, second_name, is) in [
            (
                "/site/<user>/KEY/<_>",
                "/site/alice/KEY/1",
                "/data/<user>/<..>",
                "/data/alice/x",
                true,
            ),
            (
                "/site/<user>/KEY/<_>",
                "/site/alice/KEY/1",
                "/data/<user>/<..>",
                "/data/bob/x",
                false,
            ),
            ("/<user..>/KEY/<_>", "/a/b/KEY/1", "/<user..>", "/a/b", true),
            ("/<user..>/KEY/<_>", "/a/b/KEY/1", "/<user..>", "/a/b/c", false),
            ("/<user..>/KEY/<_>", "/a/b/KEY/1", "/<user..>/<..>", "/a/b/c", true),
            ("/<user..>/KEY/<_>", "/a/b/KEY/1", "/<user..>/<..>", "/a/c", false),
            ("/<user..>/KEY/<_>", "/KEY/1", "/<user..>/<..>", "/anything", true),
            ("/<a..>/<b..>/KEY/<_>", "/x/y/KEY/1", "/<b..>/<a..>", "/y/x", true),
            ("/<a..>/<b..>/KEY/<_>", "/x/y/KEY/1", "/<b..>/<a..>", "/y/z", false),
        ] {
            let (first, second) = (pattern(first), pattern(second));
            let (first_name, second_name) = (name(first_name), name(second_name));
            let (left, right) = (first_name.as_ref(), second_name.as_ref());
            assert_eq!(first.matches_with(left, &second, right), is, "{first} {second}");
            assert_eq!(second.matches_with(right, &first, left), is, "{second} {first}");
        }
    }

    #[test]
    fn malformed_pattern_is_an_error() {
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
            ("/<a..>/<b..>/<..>", TooManyMultiple),
            ("/<a>/<a..>", MixedVariable),
            (long.as_str(), TooLong),
        ] {
            assert_eq!(text.parse::<Pattern>(), Err(why), "{text}");
        }
        assert!(!pattern("/<a>").has_consistent_variables(&pattern("/<a..>")));
    }

    #[test]
    fn work_is_bounded_and_too_long_names_do_not_match() {
        let worst = pattern("/<a..>/<b..>");
        let second = pattern("/<b..>/<a..>/x");
        let long = name(&"/a".repeat(COMPONENTS_MAX));
        let start = std::time::Instant::now();
        assert!(!worst.matches_with(long.as_ref(), &second, long.as_ref()));
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
        assert!(!Pattern::any().matches(name(&"/a".repeat(COMPONENTS_MAX + 1)).as_ref()));
    }

    /// Matches by trying every assignment, without pruning.
    fn naive(parts: &[Part], components: &[u8], bindings: &[(String, Vec<u8>)]) -> bool {
        let Some((part, remaining)) = parts.split_first() else { return components.is_empty() };
        let (variable, lengths) = match part {
            Part::Literal(_, value) => {
                return components.first() == value.first()
                    && !components.is_empty()
                    && naive(remaining, &components[1..], bindings);
            }
            Part::Single(variable) => (variable, 1..=1),
            Part::Multiple(variable) => (variable, 0..=components.len()),
        };
        lengths.into_iter().filter(|length| *length <= components.len()).any(|length| {
            let taken = components[..length].to_vec();
            let mut bindings = bindings.to_vec();
            if let Some(variable) = variable {
                if bindings.iter().any(|(name, value)| name == variable && *value != taken) {
                    return false;
                }
                bindings.push((variable.clone(), taken));
            }
            naive(remaining, &components[length..], &bindings)
        })
    }

    proptest! {
        #[test]
        fn match_equals_naive_match(
            parts in proptest::collection::vec(
                prop_oneof![Just("a"), Just("b"), Just("<x>"), Just("<_>"), Just("<y..>"), Just("<..>")],
                0..6
            ),
            letters in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b')], 0..8),
        ) {
            let text = format!("/{}", parts.join("/"));
            let uri: String = letters.iter().map(|letter| format!("/{}", char::from(*letter))).collect();
            if let Ok(pattern) = text.parse::<Pattern>() {
                let expected = naive(&pattern.parts, &letters, &[]);
                let name = if uri.is_empty() { Name::new() } else { name(&uri) };
                prop_assert_eq!(pattern.matches(name.as_ref()), expected, "{} {}", text, uri);
            }
        }

        #[test]
        fn parsing_any_text_does_not_panic(text in "[/<>.a%_=0-9]{0,30}") {
            let _ = text.parse::<Pattern>();
        }
    }
}
