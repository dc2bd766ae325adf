//! Rules: which prefixes count less than the whole name, or belong to the control member.

use alloc::vec::Vec;
use nw_name::component::ComponentType;
use nw_name::{HashKey, Name, NameRef};
use nw_wire::shard::{COMPONENTS_MAX, NAME_OCTETS_MAX, prefix_hashes};

/// What a rule does with the names under its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Only the first so many components are hashed, so that names that are alike in them meet on one member. At least as many as the prefix has.
    Depth(u8),
    /// The control member serves them.
    Control,
}

/// A rule: it holds for all names under its prefix, unless a longer one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// At most 16 components and 512 octets.
    pub prefix: Name,
    /// What it does.
    pub effect: Effect,
}

/// Why a rule can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The prefix has more than 16 components or 512 octets: the kernel looks at no more of a name.
    PrefixTooLong(Name),
    /// The prefix ends in an implicit digest, which does not count when a member is chosen.
    DigestAtEnd(Name),
    /// The depth is less than the prefix has components, or more than 16.
    Depth {
        /// The rule's prefix.
        prefix: Name,
        /// The depth asked for, in components.
        depth: u8,
    },
    /// There is a rule for this prefix already.
    Twice(Name),
    /// More than [`Rules::MAX`].
    TooMany,
}

impl core::fmt::Display for RuleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RuleError::PrefixTooLong(prefix) => {
                write!(
                    f,
                    "the rule for {prefix}: a prefix has at most {COMPONENTS_MAX} components and {NAME_OCTETS_MAX} octets; take a shorter one"
                )
            }
            RuleError::DigestAtEnd(prefix) => {
                write!(
                    f,
                    "the rule for {prefix}: leave the implicit digest at its end away, it does not count when a member is chosen"
                )
            }
            RuleError::Depth { prefix, depth } => write!(
                f,
                "the rule for {prefix}: a depth of {depth} components can't be; take {} (all names under the prefix on one member) to {COMPONENTS_MAX}",
                prefix.as_ref().components().count()
            ),
            RuleError::Twice(prefix) => write!(f, "there are two rules for {prefix}; take one away"),
            RuleError::TooMany => {
                write!(f, "there may be {} rules; join some under a shorter prefix", Rules::MAX)
            }
        }
    }
}

impl core::error::Error for RuleError {}

/// What the rules say of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The longest rule that holds, as its place in [`Rules::iter`]; `None` for none.
    pub rule: Option<usize>,
    /// The hash that chooses the slot; `None` for the control member's names.
    pub hash: Option<u64>,
}

/// A set of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// In the order of their prefixes.
    rules: Vec<(Name, Effect)>,
}

impl Rules {
    /// Most rules there may be.
    pub const MAX: usize = 4096;

    /// A set of these rules, whatever their order.
    ///
    /// # Errors
    /// What is wrong with the first one that can't be.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Rules, RuleError> {
        let mut all = Rules::default();
        rules.into_iter().try_for_each(|rule| all.add(rule))?;
        Ok(all)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// When it can't be; the set is as it was.
    pub fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        let Rule { prefix, effect } = rule;
        let name = prefix.as_ref();
        let len = name.components().count();
        if len > COMPONENTS_MAX || name.as_bytes().len() > NAME_OCTETS_MAX {
            return Err(RuleError::PrefixTooLong(prefix));
        }
        if name.components().last().is_some_and(|last| last.typ() == ComponentType::IMPLICIT_DIGEST) {
            return Err(RuleError::DigestAtEnd(prefix));
        }
        if let Effect::Depth(depth) = effect
            && !(len..=COMPONENTS_MAX).contains(&usize::from(depth))
        {
            return Err(RuleError::Depth { prefix, depth });
        }
        match self.rules.binary_search_by(|(rule, _)| rule.cmp(&prefix)) {
            Ok(_) => Err(RuleError::Twice(prefix)),
            Err(_) if self.rules.len() == Rules::MAX => Err(RuleError::TooMany),
            Err(at) => {
                self.rules.insert(at, (prefix, effect));
                Ok(())
            }
        }
    }

    /// The rules, by prefix.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (NameRef<'_>, Effect)> {
        self.rules.iter().map(|(prefix, effect)| (prefix.as_ref(), *effect))
    }

    /// What they say of a name. A prefix that ends in an implicit digest has no rule and is no depth; of a name that is too long for the kernel
    /// to look at (16 components, 512 octets), what it looks at decides.
    pub fn decide(&self, name: NameRef<'_>, key: &HashKey) -> Decision {
        let mut prefixes = [None; COMPONENTS_MAX + 1];
        prefixes[0] = Some(key.root());
        // A checked name is hashed; of one that was not, the prefixes up to its fault are.
        let hash = prefix_hashes(name.as_bytes(), key, |components, digest, hash| {
            prefixes[components] = (!digest).then_some(hash);
        });
        let whole = hash.map_or(key.root(), |(hash, _)| hash);
        let found =
            (0..=COMPONENTS_MAX).rev().filter(|length| prefixes[*length].is_some()).find_map(|length| {
                let prefix = name.prefix(length);
                let at = self.rules.binary_search_by(|(rule, _)| rule.as_ref().cmp(&prefix)).ok()?;
                Some((at, self.rules[at].1))
            });
        match found {
            None => Decision { rule: None, hash: Some(whole) },
            Some((rule, Effect::Control)) => Decision { rule: Some(rule), hash: None },
            Some((rule, Effect::Depth(depth))) => {
                Decision { rule: Some(rule), hash: Some(prefixes[usize::from(depth)].unwrap_or(whole)) }
            }
        }
    }
}
