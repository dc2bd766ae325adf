//! Human names: `/sensors/room1/*` as labels and patterns, and the table from labels to texts.
//!
//! A component's label is the first 8 bytes of its SHA-256 digest. `8=` and 16 hexadecimal digits
//! stand for a label itself, which is also how a label of unknown text is shown. In a pattern, `*`
//! stands for any one label, and `**` at the end for everything below.

use nw_wire::publication::{Id, LABELS_MAX, Label, SubscriptionScope};
use std::collections::BTreeMap;

/// Most wildcards are in the first labels: their positions are bits.
const WILDCARD_POSITIONS: usize = 32;

/// Why a text is not a name or pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It does not start with `/`.
    #[error("a name starts with /, such as /sensors/room1")]
    NoSlash,
    /// A component is empty.
    #[error("a component is empty: remove the second of two slashes, or the last one")]
    EmptyComponent,
    /// More than 255 components.
    #[error("a name has at most 255 components")]
    TooLong,
    /// `8=` is not followed by 16 hexadecimal digits.
    #[error("8= must be followed by the label's 16 hexadecimal digits")]
    BadLabel,
    /// A wildcard where none is allowed.
    #[error(
        "wildcards are allowed in subscriptions only: * among the first 32 components, ** at the end"
    )]
    Wildcard,
}

/// Returns the label of a component: the first 8 bytes of its SHA-256 digest.
pub fn label_of(component: &str) -> Label {
    let digest = nw_wire::sha256(&[component.as_bytes()]);
    Label(digest.as_chunks().0[0])
}

/// Returns the label that applications of Blackadder compute from a string: FNV-1a, 64 bits.
pub fn fnv_label(text: &str) -> Label {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    Label::from_number(hash)
}

/// Returns the label of an item that is derived from another one: the first 8 bytes of the SHA-256
/// digest over the full identifier and a number. Both ends compute it without a message.
pub fn algorithmic_label(of: &Id, number: u64) -> Label {
    let mut bytes = Vec::with_capacity(8 * of.len() + 9);
    of.encode(&mut bytes);
    Label(nw_wire::sha256(&[&bytes, &number.to_be_bytes()]).as_chunks().0[0])
}

/// Parses one component: a text or `8=` and a label.
fn parse_component(component: &str) -> Result<Label, NameError> {
    match component.strip_prefix("8=") {
        _ if component.is_empty() => Err(NameError::EmptyComponent),
        None => Ok(label_of(component)),
        Some(digits) if digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).map(Label::from_number).map_err(|_| NameError::BadLabel)
        }
        Some(_) => Err(NameError::BadLabel),
    }
}

/// Parses a name without wildcards. `/` is the empty identifier.
///
/// # Errors
/// When the text is not a name.
pub fn parse_name(text: &str) -> Result<Id, NameError> {
    match parse_pattern(text)? {
        (id, scope) if scope.is_exact() => Ok(id),
        _ => Err(NameError::Wildcard),
    }
}

/// Parses a name or pattern. Labels at wildcard positions are zero.
///
/// # Errors
/// When the text is not a pattern.
pub fn parse_pattern(text: &str) -> Result<(Id, SubscriptionScope), NameError> {
    let text = text.strip_prefix('/').ok_or(NameError::NoSlash)?;
    let (mut labels, mut scope) = (Vec::new(), SubscriptionScope::default());
    let components = text.split('/').filter(|_| !text.is_empty());
    for component in components {
        match component {
            _ if scope.subtree => return Err(NameError::Wildcard),
            "**" => scope.subtree = true,
            "*" if labels.len() < WILDCARD_POSITIONS => {
                scope.wildcards |= 1 << labels.len();
                labels.push(Label::default());
            }
            "*" => return Err(NameError::Wildcard),
            _ => labels.push(parse_component(component)?),
        }
    }
    match labels.len() <= LABELS_MAX {
        true => Ok((Id::new(labels), scope)),
        false => Err(NameError::TooLong),
    }
}

/// Returns whether an identifier matches a pattern.
pub fn matches(pattern: &Id, scope: SubscriptionScope, id: &Id) -> bool {
    let long_enough = match scope.subtree {
        true => id.len() > pattern.len(),
        false => id.len() == pattern.len(),
    };
    let is_wild = |at: usize| at < WILDCARD_POSITIONS && scope.wildcards & (1 << at) != 0;
    let mut pairs = pattern.labels().iter().zip(id.labels()).enumerate();
    long_enough && pairs.all(|(at, (expected, label))| is_wild(at) || expected == label)
}

/// Two texts have the same label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{added:?} and {known:?} have the same label: rename one of them")]
pub struct LabelCollision {
    /// The text that is known already.
    pub known: String,
    /// The text that was refused.
    pub added: String,
}

/// Texts of labels, to show identifiers as names. Bounded by its bytes.
#[derive(Clone, Debug)]
pub struct LabelTable {
    texts: BTreeMap<Label, Box<str>>,
    bytes: usize,
    bytes_max: usize,
}

impl LabelTable {
    /// Creates a table for at most `bytes_max` bytes of texts, with 64 bytes for each entry.
    pub const fn new(bytes_max: usize) -> Self {
        LabelTable { texts: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Adds the components of a name or pattern. Texts that do not fit are left out.
    ///
    /// # Errors
    /// When a component has the label of another text; components before it were added.
    pub fn insert_name(&mut self, name: &str) -> Result<(), LabelCollision> {
        for component in name.split('/') {
            if component.is_empty() || component.starts_with("8=") || component.starts_with('*') {
                continue;
            }
            self.insert(label_of(component), component)?;
        }
        Ok(())
    }

    fn insert(&mut self, label: Label, text: &str) -> Result<(), LabelCollision> {
        const ENTRY_BYTES: usize = 64;
        match self.texts.get(&label) {
            Some(known) if **known == *text => Ok(()),
            Some(known) => Err(LabelCollision { known: known.to_string(), added: text.to_owned() }),
            None => {
                let bytes = ENTRY_BYTES + text.len();
                if self.bytes + bytes <= self.bytes_max {
                    self.bytes += bytes;
                    self.texts.insert(label, text.into());
                }
                Ok(())
            }
        }
    }

    /// Returns the text of a label.
    pub fn text(&self, label: Label) -> Option<&str> {
        self.texts.get(&label).map(|text| &**text)
    }

    /// Returns the bytes in use.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns an identifier as a name, which [`parse_name`] reads again. Labels of unknown text
    /// are written `8=` and 16 hexadecimal digits.
    pub fn name_of(&self, id: &Id) -> String {
        if id.is_empty() {
            return "/".to_owned();
        }
        let component = |label: &Label| match self.text(*label) {
            Some(text) => format!("/{text}"),
            None => format!("/8={label}"),
        };
        id.labels().iter().map(component).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_shown_as_it_was_read() {
        let mut table = LabelTable::new(1000);
        table.insert_name("/sensors/room1/8=00000000000000ff").expect("no collision");
        for name in ["/", "/sensors/room1", "/room1/8=00000000000000ff"] {
            assert_eq!(table.name_of(&parse_name(name).expect(name)), name);
        }
        let unknown = parse_name("/unknown").expect("a name");
        assert_eq!(table.name_of(&unknown), format!("/8={}", unknown.labels()[0]));
        assert_eq!(parse_name(&table.name_of(&unknown)), Ok(unknown));
    }

    #[test]
    fn texts_that_are_not_names_are_refused() {
        for (text, error) in [
            ("a", NameError::NoSlash),
            ("//a", NameError::EmptyComponent),
            ("/a/", NameError::EmptyComponent),
            ("/8=12", NameError::BadLabel),
            ("/8=+000000000000000", NameError::BadLabel),
            ("/a/*", NameError::Wildcard),
            ("/a/**", NameError::Wildcard),
        ] {
            assert_eq!(parse_name(text), Err(error), "{text}");
        }
        assert_eq!(parse_pattern("/**/a"), Err(NameError::Wildcard));
        assert_eq!(parse_name(&"/a".repeat(256)), Err(NameError::TooLong));
        assert_eq!(parse_pattern(&("/a".repeat(32) + "/*")), Err(NameError::Wildcard));
    }

    #[test]
    fn pattern_matches_names_of_its_shape() {
        for (pattern, name, expected) in [
            ("/a/b", "/a/b", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/a", false),
            ("/*/b/**", "/a/b/c", true),
            ("/*/b/**", "/a/x/c", false),
            ("/**", "/a", true),
        ] {
            let (id, scope) = parse_pattern(pattern).expect(pattern);
            assert_eq!(matches(&id, scope, &parse_name(name).expect(name)), expected, "{pattern}");
        }
    }

    #[test]
    fn collision_and_full_table_keep_what_is_known() {
        let mut table = LabelTable::new(70);
        table.insert(Label::from_number(1), "one").expect("new");
        let collision = table.insert(Label::from_number(1), "uno").expect_err("known");
        assert!(collision.to_string().contains("same label"));
        table.insert(Label::from_number(2), "two").expect("left out");
        assert_eq!((table.text(Label::from_number(2)), table.bytes()), (None, 67));
    }

    /// Values of the FNV test suite, and SHA-256 of "a" and "abc".
    #[test]
    fn labels_are_those_of_the_algorithms() {
        assert_eq!(fnv_label("a").to_string(), "af63dc4c8601ec8c");
        assert_eq!(fnv_label("foobar").to_string(), "85944171f73967e8");
        assert_eq!(label_of("abc").to_string(), "ba7816bf8f01cfea");
        let id = parse_name("/a/b").expect("a name");
        assert_ne!(algorithmic_label(&id, 0), algorithmic_label(&id, 1));
        assert_eq!(algorithmic_label(&id, 5), algorithmic_label(&id, 5));
    }
}
