//! Rules by prefix: how many components of a name are hashed, or that the control member serves it.
//!
//! The rule of the longest matching prefix decides. Limits on prefixes (16 components, 512 bytes)
//! are those of the kernel program, which reads no more of a name.

use alloc::vec::Vec;
use nw_name::component::ComponentType;
use nw_name::{HashKey, Name, NameRef};
use nw_wire::shard::{COMPONENTS_MAX, NAME_BYTES_MAX, prefix_hashes};

/// How names under a rule's prefix are mapped to members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Hashes only this many leading components, so names that agree in them are served by one
    /// member. At least the number of components of the prefix, at most 16.
    Depth(u8),
    /// The control member serves these names.
    Control,
}

/// A rule for all names under a prefix for which no longer rule exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The prefix: at most 16 components and 512 bytes.
    pub prefix: Name,
    /// How names under the prefix are mapped.
    pub effect: Effect,
}

/// Why a rule is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The prefix has more than 16 components or 512 bytes; the kernel reads no more of a name.
    PrefixTooLong(Name),
    /// The prefix ends in an implicit digest, which is not hashed.
    DigestAtEnd(Name),
    /// The depth is below the number of components of the prefix, or above 16.
    Depth {
        /// The prefix of the rule.
        prefix: Name,
        /// The invalid depth, in components.
        depth: u8,
    },
    /// Another rule has the same prefix.
    Duplicate(Name),
    /// There would be more than [`Rules::MAX`] rules.
    TooMany,
}

impl core::fmt::Display for RuleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RuleError::PrefixTooLong(prefix) => {
                write!(
                    f,
                    "rule for {prefix}: the prefix may have at most {COMPONENTS_MAX} components \
                     and {NAME_BYTES_MAX} bytes; use a shorter prefix"
                )
            }
            RuleError::DigestAtEnd(prefix) => {
                write!(
                    f,
                    "rule for {prefix}: remove the implicit digest at the end; it is not used \
                     to choose a member"
                )
            }
            RuleError::Depth { prefix, depth } => write!(
                f,
                "rule for {prefix}: depth {depth} is out of range; use {} (all names under the \
                 prefix on one member) to {COMPONENTS_MAX}",
                prefix.as_ref().components().count()
            ),
            RuleError::Duplicate(prefix) => write!(f, "two rules for {prefix}; remove one"),
            RuleError::TooMany => {
                write!(f, "more than {} rules; merge some under a shorter prefix", Rules::MAX)
            }
        }
    }
}

impl core::error::Error for RuleError {}

/// The result of applying the rules to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The rule that applies, as its position in [`Rules::iter`]; `None` if no rule does.
    pub rule: Option<usize>,
    /// The hash that selects the slot; `None` if the control member serves the name.
    pub hash: Option<u64>,
}

/// A set of rules with distinct prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Sorted by prefix.
    rules: Vec<(Name, Effect)>,
}

impl Rules {
    /// The maximum number of rules.
    pub const MAX: usize = 4096;

    /// Returns the set of these rules, in any order.
    ///
    /// # Errors
    /// When a rule is invalid: the first one's [`RuleError`].
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Rules, RuleError> {
        let mut set = Rules::default();
        rules.into_iter().try_for_each(|rule| set.add(rule))?;
        Ok(set)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// When the rule is invalid; the set is unchanged then.
    pub fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        let Rule { prefix, effect } = rule;
        let name = prefix.as_ref();
        let len = name.components().count();
        if len > COMPONENTS_MAX || name.as_bytes().len() > NAME_BYTES_MAX {
            return Err(RuleError::PrefixTooLong(prefix));
        }
        if name.components().last().is_some_and(|last| last.typ() == ComponentType::IMPLICIT_DIGEST)
        {
            return Err(RuleError::DigestAtEnd(prefix));
        }
        if let Effect::Depth(depth) = effect
            && !(len..=COMPONENTS_MAX).contains(&usize::from(depth))
        {
            return Err(RuleError::Depth { prefix, depth });
        }
        match self.rules.binary_search_by(|(rule, _)| rule.cmp(&prefix)) {
            Ok(_) => Err(RuleError::Duplicate(prefix)),
            Err(_) if self.rules.len() == Rules::MAX => Err(RuleError::TooMany),
            Err(position) => {
                self.rules.insert(position, (prefix, effect));
                Ok(())
            }
        }
    }

    /// Iterates over the rules in the order of their prefixes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NameRef<'_>, Effect)> {
        self.rules.iter().map(|(prefix, effect)| (prefix.as_ref(), *effect))
    }

    /// Returns the rule and the hash for a name. Implicit digests are ignored. Of a name longer
    /// than 16 components or 512 bytes only the part within these limits is used, as in the kernel.
    pub fn decide(&self, name: NameRef<'_>, key: &HashKey) -> Decision {
        let mut prefixes = [None; COMPONENTS_MAX + 1];
        prefixes[0] = Some(key.root());
        // An unchecked name contributes the prefixes before its first fault.
        let hash = prefix_hashes(name.as_bytes(), key, |components, digest, hash| {
            prefixes[components] = (!digest).then_some(hash);
        });
        let full_hash = hash.map_or(key.root(), |(hash, _)| hash);
        let longest = (0..=COMPONENTS_MAX)
            .rev()
            .filter(|length| prefixes[*length].is_some())
            .find_map(|length| {
                let prefix = name.prefix(length);
                let position =
                    self.rules.binary_search_by(|(rule, _)| rule.as_ref().cmp(&prefix)).ok()?;
                Some((position, self.rules[position].1))
            });
        match longest {
            None => Decision { rule: None, hash: Some(full_hash) },
            Some((rule, Effect::Control)) => Decision { rule: Some(rule), hash: None },
            Some((rule, Effect::Depth(depth))) => Decision {
                rule: Some(rule),
                hash: Some(prefixes[usize::from(depth)].unwrap_or(full_hash)),
            },
        }
    }
}
