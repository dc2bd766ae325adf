//! Lets packets pass or refuses them by their names: at an edge, or to keep a service's names to one of several ways.
//!
//! ```text
//! In:     packet
//! Out:    passed, refused
//! Needs:  name, prefixes
//! Sets:   nothing
//! State:  rules, up to a number; of those with wildcards up to another
//! Timers: none
//! Cost:   one cache line for each length of name at which there are rules; each rule with wildcards that says more is compared besides
//! Drops:  name_refused (unless what is refused is to leave by its port)
//! Spec:   none: the name filter of µNDN
//! ```
//!
//! Of the rules that a name fits, the one that says most decides, whatever the order in which they came: the one with most components, of these the
//! one with fewest wildcards, then one without `**`, then one for exactly this name, then one that denies. So rules can be added and removed live by several hands.
//! A name that fits none is allowed, or denied if the filter is told so.
//!
//! Interests, Data and Nacks are all judged by their own name; an implicit digest at its end is not looked at. An Interest with CanBePrefix may
//! pass for a name above one that is denied: the Data that answers it is refused then, where it comes by the same filter.
//!
//! A name of more than 64 components is refused where a rule has `**` between others, as a look at all of it could take long.

mod rule;

pub use rule::{COMPONENTS_MAX, NamePattern, Rule, RuleError, Verdict};

use nw_element_api::{Cause, Context, Element, Instant, Meta, Packet};
use nw_name::{HashKey, NameRef};
use nw_tables::prefix_map::{PrefixMap, PrefixMapError};

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// Any packet.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Where packets leave.
    pub enum Out {
        /// Whose names are allowed.
        Passed = "passed" [Interest, Data, Nack],
        /// Whose names are not, if they are not to be dropped.
        Refused = "refused" [Interest, Data, Nack],
    }
}

/// What a filter is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameFilterConfig {
    /// Rules without wildcards, at most, of each kind: with and without `exact`.
    pub rules_max: usize,
    /// Rules with wildcards, at most.
    pub patterns_max: usize,
    /// What becomes of a name that fits no rule.
    pub otherwise: Verdict,
    /// What is refused is dropped, and counted; if not, it leaves by `refused`.
    pub drop_refused: bool,
}

impl Default for NameFilterConfig {
    fn default() -> Self {
        NameFilterConfig {
            rules_max: 1 << 16,
            patterns_max: 256,
            otherwise: Verdict::Allow,
            drop_refused: true,
        }
    }
}

/// What is kept of a rule besides its names.
#[derive(Clone, Copy, Debug)]
struct Kept {
    verdict: Verdict,
    hits: u64,
}

/// See the module.
#[derive(Debug)]
pub struct NameFilter {
    config: NameFilterConfig,
    below: PrefixMap<Kept>,
    exact: PrefixMap<Kept>,
    /// With wildcards, those that say most first.
    patterns: Vec<(u32, NamePattern, Kept)>,
    /// How many of them have `**` between others.
    spans: usize,
}

/// Which rule decides.
enum Found {
    Exact(usize),
    Below(usize),
    Pattern(usize),
}

impl NameFilter {
    /// Without rules. `key` is the one packets are decoded with.
    pub fn new(key: HashKey, config: NameFilterConfig) -> Self {
        NameFilter {
            config,
            below: PrefixMap::new(key, config.rules_max),
            exact: PrefixMap::new(key, config.rules_max),
            patterns: Vec::new(),
            spans: 0,
        }
    }

    /// Adds a rule, in place of one about the same names. The next packet is judged by it.
    ///
    /// # Errors
    /// [`RuleError::Full`], [`RuleError::TooManyPatterns`]; nothing has changed then.
    pub fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        let kept = Kept { verdict: rule.verdict, hits: 0 };
        let Some(name) = rule.pattern.literal() else { return self.add_pattern(rule.pattern, kept) };
        let map = if rule.pattern.is_exact() { &mut self.exact } else { &mut self.below };
        match map.insert(name.as_ref(), kept) {
            Ok(_) => Ok(()),
            Err(PrefixMapError::Full) => Err(RuleError::Full),
            Err(PrefixMapError::TooLong) => Err(RuleError::TooLong),
        }
    }

    fn add_pattern(&mut self, pattern: NamePattern, kept: Kept) -> Result<(), RuleError> {
        self.remove_pattern(&pattern);
        if self.patterns.len() >= self.config.patterns_max {
            return Err(RuleError::TooManyPatterns);
        }
        let rank = (pattern.rank() << 1) | u32::from(kept.verdict == Verdict::Deny);
        let at = self.patterns.partition_point(|(other, ..)| *other >= rank);
        self.spans += usize::from(pattern.has_span());
        self.patterns.insert(at, (rank, pattern, kept));
        Ok(())
    }

    /// Removes the rule about these names; false when there is none.
    pub fn remove(&mut self, pattern: &NamePattern) -> bool {
        match pattern.literal() {
            Some(name) if pattern.is_exact() => self.exact.remove(name.as_ref()).is_some(),
            Some(name) => self.below.remove(name.as_ref()).is_some(),
            None => self.remove_pattern(pattern),
        }
    }

    fn remove_pattern(&mut self, pattern: &NamePattern) -> bool {
        let Some(at) = self.patterns.iter().position(|(_, known, _)| known == pattern) else { return false };
        self.patterns.remove(at);
        self.spans -= usize::from(pattern.has_span());
        true
    }

    /// All rules, each with the packets it decided about so far.
    pub fn rules(&self) -> Vec<(Rule, u64)> {
        let literal = |exact: bool| {
            move |(name, kept): (NameRef<'_>, &Kept)| {
                let pattern = NamePattern::below(name);
                let pattern = if exact { pattern.exactly() } else { pattern };
                (Rule { verdict: kept.verdict, pattern }, kept.hits)
            }
        };
        let patterns = self
            .patterns
            .iter()
            .map(|(_, pattern, kept)| (Rule { verdict: kept.verdict, pattern: pattern.clone() }, kept.hits));
        let mut rules: Vec<_> = self.exact.iter().map(literal(true)).collect();
        rules.extend(self.below.iter().map(literal(false)));
        rules.extend(patterns);
        rules.sort_by_cached_key(|(rule, _)| rule.pattern.to_string());
        rules
    }

    /// What becomes of names that fit no rule, and of packets that are refused, from now on.
    pub const fn set_otherwise(&mut self, otherwise: Verdict, drop_refused: bool) {
        self.config.otherwise = otherwise;
        self.config.drop_refused = drop_refused;
    }

    #[inline]
    fn judge(&mut self, meta: &Meta, bytes: &[u8]) -> Verdict {
        if self.spans > 0 && meta.prefixes.count() > COMPONENTS_MAX {
            return Verdict::Deny;
        }
        let kept = match self.find(meta.name_in(bytes), meta) {
            None => return self.config.otherwise,
            Some(Found::Exact(place)) => self.exact.value_mut(place),
            Some(Found::Below(place)) => self.below.value_mut(place),
            Some(Found::Pattern(at)) => &mut self.patterns[at].2,
        };
        kept.hits += 1;
        kept.verdict
    }

    #[inline]
    fn find(&self, whole: NameRef<'_>, meta: &Meta) -> Option<Found> {
        let name = NameRef::from_checked(&whole.as_bytes()[..meta.prefixes.key_len()]);
        if !self.exact.is_empty()
            && let Some(place) = self.exact.find(meta.prefixes.key(), name.as_bytes())
        {
            return Some(Found::Exact(place));
        }
        let below = self.below.longest(whole, &meta.prefixes);
        let least = below.map_or(0, |place| NamePattern::below_rank(self.below.prefix(place).len()));
        for (at, (rank, pattern, _)) in self.patterns.iter().enumerate() {
            if rank >> 1 < least {
                break;
            }
            if pattern.matches(name) {
                return Some(Found::Pattern(at));
            }
        }
        below.map(Found::Below)
    }
}

impl Element for NameFilter {
    type In = In;
    type Out = Out;

    fn usual(_: In) -> Option<Out> {
        Some(Out::Passed)
    }

    #[inline]
    fn process(&mut self, _: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        let (bytes, meta) = context.pool.view(&packet);
        match self.judge(meta, bytes) {
            Verdict::Allow => context.out.send(Out::Passed, packet),
            Verdict::Deny if self.config.drop_refused => {
                context.pool.drop_packet(packet, Cause::NameRefused, context.drops);
            }
            Verdict::Deny => context.out.send(Out::Refused, packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{KEY, Lab, as_nack, data, interest, name, ports};
    use nw_wire::NackReason;
    use proptest::prelude::*;

    fn filter(rules: &[&str]) -> NameFilter {
        let mut filter = NameFilter::new(KEY, NameFilterConfig::default());
        rules.iter().for_each(|rule| filter.add(rule.parse().expect(rule)).expect(rule));
        filter
    }

    fn passes(lab: &mut Lab<NameFilter>, uri: &str) -> bool {
        ports(&lab.give(In::Packet, &interest(uri, 1), |_| {})) == ["passed"]
    }

    #[test]
    fn the_rule_that_says_most_decides() {
        let rules =
            ["allow /a", "deny /a/*/secret", "deny /", "allow exact /b", "deny /a/b", "allow /a/b/c/**/d"];
        // Whatever the order.
        for turn in 0..rules.len() {
            let mut rules = rules.to_vec();
            rules.rotate_left(turn);
            let mut lab = Lab::new(filter(&rules));
            for (uri, is) in [
                ("/a", true),
                ("/a/x", true),
                ("/a/x/secret", false),
                ("/a/x/secret/1", false),
                ("/a/b", false),
                ("/a/b/c", false),
                ("/a/b/c/x/d", true),
                ("/b", true),
                ("/b/c", false),
                ("/c", false),
            ] {
                assert_eq!(passes(&mut lab, uri), is, "{uri}");
            }
        }
    }

    #[test]
    fn all_kinds_are_judged_and_digests_are_not_looked_at() {
        let mut lab = Lab::new(filter(&["deny exact /a/b", "allow /x/y/z"]));
        assert!(lab.give(In::Packet, &data("/a/b"), |_| {}).is_empty());
        assert!(lab.give(In::Packet, &interest("/a/b", 1), as_nack(NackReason::NoRoute)).is_empty());
        let digest = format!("/a/b/sha256digest={}", "00".repeat(32));
        assert!(!passes(&mut lab, &digest));
        assert!(passes(&mut lab, "/a/b/c") && passes(&mut lab, "/a"));
        assert_eq!(lab.drops.total(Cause::NameRefused), 3);
        assert_eq!(lab.element.rules()[1], ("deny exact /a/b".parse().unwrap(), 3));
        lab.element.set_otherwise(Verdict::Deny, false);
        assert_eq!(ports(&lab.give(In::Packet, &data("/c"), |_| {})), ["refused"]);
        assert_eq!(lab.pool.packets_in_use(), 0);
    }

    #[test]
    fn rules_come_and_go_and_are_bounded() {
        let config = NameFilterConfig { rules_max: 1, patterns_max: 1, ..NameFilterConfig::default() };
        let mut lab = Lab::new(NameFilter::new(KEY, config));
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        lab.element.add(rule("deny /a")).unwrap();
        assert!(!passes(&mut lab, "/a/b"));
        lab.element.add(rule("allow /a")).unwrap();
        assert!(passes(&mut lab, "/a/b"));
        assert_eq!(lab.element.add(rule("deny /b")), Err(RuleError::Full));
        lab.element.add(rule("deny /a/*/**/c")).unwrap();
        assert_eq!(lab.element.add(rule("deny /*")), Err(RuleError::TooManyPatterns));
        assert!(!passes(&mut lab, "/a/b/c"));
        let long = "/x".repeat(COMPONENTS_MAX + 1);
        assert!(!passes(&mut lab, &long), "nobody looks through it");
        assert!(lab.element.remove(&"/a/*/**/c".parse().unwrap()));
        assert!(!lab.element.remove(&"/a/*/**/c".parse().unwrap()));
        assert!(passes(&mut lab, "/a/b/c") && passes(&mut lab, &long));
        assert!(lab.element.remove(&"/a".parse().unwrap()));
        assert!(lab.element.rules().is_empty());
    }

    proptest! {
        /// As one that goes through all rules.
        #[test]
        fn as_the_naive_one(
            rules in proptest::collection::vec("(allow|deny) (exact )?(/(a|b|\\*)){0,3}(/\\*\\*/a)?", 0..8),
            asked in proptest::collection::vec("(/(a|b|c)){0,5}", 1..8),
        ) {
            let mut filter = NameFilter::new(KEY, NameFilterConfig::default());
            let mut model: Vec<Rule> = Vec::new();
            for rule in rules.iter().filter_map(|text| text.parse::<Rule>().ok()) {
                model.retain(|known| known.pattern != rule.pattern);
                model.push(rule.clone());
                filter.add(rule).unwrap();
            }
            prop_assert_eq!(filter.rules().len(), model.len());
            let mut lab = Lab::new(filter);
            for uri in asked.iter().filter(|uri| !uri.is_empty()) {
                let asked = name(uri);
                let fitting = model.iter().filter(|rule| rule.pattern.matches(asked.as_ref()));
                let decides = fitting.max_by_key(|rule| (rule.pattern.rank(), rule.verdict == Verdict::Deny));
                let wanted = decides.is_none_or(|rule| rule.verdict == Verdict::Allow);
                prop_assert_eq!(passes(&mut lab, uri), wanted, "{} by {:?}", uri, &rules);
            }
        }
    }
}
