//! Passes or rejects packets by their names, for example at the edge of a network.
//!
//! ```text
//! In:     packet
//! Out:    passed, refused
//! Needs:  name, prefixes
//! Sets:   nothing
//! State:  rules, up to a number; rules with wildcards up to another
//! Timers: none
//! Cost:   one cache line per length of name at which there are rules; a comparison with each more
//!         specific rule with wildcards
//! Drops:  name_refused (unless rejected packets leave by their port)
//! Spec:   none: the name filter of µNDN
//! ```
//!
//! The most specific rule that matches a name decides, whatever the order in which rules were
//! added: the one with most components, of these the one with fewest wildcards, then one without
//! `**`, then one for exactly this name, then one that denies. So several clients can add and
//! remove rules independently. A name that matches no rule is allowed, or denied if the filter is
//! configured so.
//!
//! Interests, Data and Nacks are all judged by their own name, without an implicit digest at its
//! end. An Interest with CanBePrefix may pass although a longer name is denied; the Data that
//! answers it is rejected if it passes the same filter.
//!
//! A name of more than 64 components is rejected if a rule has `**` before other components, as
//! matching it could take long.

mod rule;

pub use rule::{COMPONENTS_MAX, NamePattern, Rule, RuleError, Verdict};

use nw_element_api::{Context, DropCause, Element, Meta, Packet, Timestamp};
use nw_name::{HashKey, NameRef};
use nw_tables::prefix_map::{PrefixMap, PrefixMapError};

nw_element_api::ports! {
    /// Input ports.
    pub enum In {
        /// All packets.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Output ports.
    pub enum Out {
        /// Packets with an allowed name.
        Passed = "passed" [Interest, Data, Nack],
        /// Packets with a denied name, unless they are dropped.
        Refused = "refused" [Interest, Data, Nack],
    }
}

/// Configuration of a name filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameFilterConfig {
    /// Most rules without wildcards, of each kind: with and without `exact`.
    pub rules_max: usize,
    /// Most rules with wildcards.
    pub patterns_max: usize,
    /// Verdict for a name that matches no rule.
    pub default_verdict: Verdict,
    /// Whether packets with a denied name are dropped and counted; if not, they leave by `refused`.
    pub drop_refused: bool,
}

impl Default for NameFilterConfig {
    fn default() -> Self {
        NameFilterConfig {
            rules_max: 1 << 16,
            patterns_max: 256,
            default_verdict: Verdict::Allow,
            drop_refused: true,
        }
    }
}

/// A rule's verdict and the packets it decided so far.
#[derive(Clone, Copy, Debug)]
struct RuleState {
    verdict: Verdict,
    hits: u64,
}

/// The name filter element.
#[derive(Debug)]
pub struct NameFilter {
    config: NameFilterConfig,
    prefix_rules: PrefixMap<RuleState>,
    exact_rules: PrefixMap<RuleState>,
    /// Rules with wildcards and their ranks, the most specific first.
    patterns: Vec<(u32, NamePattern, RuleState)>,
    /// How many of them have `**` before other components.
    multi_wildcards: usize,
}

/// The rule that decides.
enum RuleMatch {
    Exact(usize),
    Prefix(usize),
    Pattern(usize),
}

impl NameFilter {
    /// Creates a filter without rules. `key` must be the key that packets are decoded with.
    pub fn new(key: HashKey, config: NameFilterConfig) -> Self {
        NameFilter {
            config,
            prefix_rules: PrefixMap::new(key, config.rules_max),
            exact_rules: PrefixMap::new(key, config.rules_max),
            patterns: Vec::new(),
            multi_wildcards: 0,
        }
    }

    /// Adds a rule, replacing one with the same pattern. It is in effect from the next packet on.
    ///
    /// # Errors
    /// When there are too many rules of this kind, or the name is too long; nothing has changed
    /// then.
    pub fn add(&mut self, rule: Rule) -> Result<(), RuleError> {
        let state = RuleState { verdict: rule.verdict, hits: 0 };
        let Some(name) = rule.pattern.literal() else {
            return self.add_pattern(rule.pattern, state);
        };
        let map =
            if rule.pattern.is_exact() { &mut self.exact_rules } else { &mut self.prefix_rules };
        match map.insert(name.as_ref(), state) {
            Ok(_) => Ok(()),
            Err(PrefixMapError::Full) => Err(RuleError::Full),
            Err(PrefixMapError::TooLong) => Err(RuleError::TooLong),
        }
    }

    /// Adds a rule with wildcards, keeping the rules sorted by rank.
    fn add_pattern(&mut self, pattern: NamePattern, state: RuleState) -> Result<(), RuleError> {
        self.remove_pattern(&pattern);
        if self.patterns.len() >= self.config.patterns_max {
            return Err(RuleError::TooManyPatterns);
        }
        let rank = (pattern.rank() << 1) | u32::from(state.verdict == Verdict::Deny);
        let at = self.patterns.partition_point(|(other, ..)| *other >= rank);
        self.multi_wildcards += usize::from(pattern.has_multi_wildcard());
        self.patterns.insert(at, (rank, pattern, state));
        Ok(())
    }

    /// Removes the rule with this pattern. Returns whether it was there.
    pub fn remove(&mut self, pattern: &NamePattern) -> bool {
        match pattern.literal() {
            Some(name) if pattern.is_exact() => self.exact_rules.remove(name.as_ref()).is_some(),
            Some(name) => self.prefix_rules.remove(name.as_ref()).is_some(),
            None => self.remove_pattern(pattern),
        }
    }

    /// Removes a rule with wildcards. Returns whether it was there.
    fn remove_pattern(&mut self, pattern: &NamePattern) -> bool {
        let Some(at) = self.patterns.iter().position(|(_, known, _)| known == pattern) else {
            return false;
        };
        self.patterns.remove(at);
        self.multi_wildcards -= usize::from(pattern.has_multi_wildcard());
        true
    }

    /// Returns all rules, each with the number of packets it decided so far.
    pub fn rules(&self) -> Vec<(Rule, u64)> {
        let literal = |exact: bool| {
            move |(name, state): (NameRef<'_>, &RuleState)| {
                let pattern = NamePattern::prefix(name);
                let pattern = if exact { pattern.into_exact() } else { pattern };
                (Rule { verdict: state.verdict, pattern }, state.hits)
            }
        };
        let patterns = self.patterns.iter().map(|(_, pattern, state)| {
            (Rule { verdict: state.verdict, pattern: pattern.clone() }, state.hits)
        });
        let mut rules: Vec<_> = self.exact_rules.iter().map(literal(true)).collect();
        rules.extend(self.prefix_rules.iter().map(literal(false)));
        rules.extend(patterns);
        rules.sort_by_cached_key(|(rule, _)| rule.pattern.to_string());
        rules
    }

    /// Sets the verdict for names that match no rule, and whether packets with a denied name are
    /// dropped.
    pub const fn set_default(&mut self, default_verdict: Verdict, drop_refused: bool) {
        self.config.default_verdict = default_verdict;
        self.config.drop_refused = drop_refused;
    }

    /// Returns the verdict for a packet and counts it for its rule.
    #[inline]
    fn evaluate(&mut self, meta: &Meta, bytes: &[u8]) -> Verdict {
        if self.multi_wildcards > 0 && meta.prefixes.count() > COMPONENTS_MAX {
            return Verdict::Deny;
        }
        let state = match self.find(meta.name_in(bytes), meta) {
            None => return self.config.default_verdict,
            Some(RuleMatch::Exact(place)) => self.exact_rules.value_mut(place),
            Some(RuleMatch::Prefix(place)) => self.prefix_rules.value_mut(place),
            Some(RuleMatch::Pattern(at)) => &mut self.patterns[at].2,
        };
        state.hits += 1;
        state.verdict
    }

    /// Returns the most specific rule that matches.
    #[inline]
    fn find(&self, whole: NameRef<'_>, meta: &Meta) -> Option<RuleMatch> {
        let name = NameRef::from_checked(&whole.as_bytes()[..meta.prefixes.lookup_len()]);
        if !self.exact_rules.is_empty()
            && let Some(place) = self.exact_rules.find(meta.prefixes.lookup_hash(), name.as_bytes())
        {
            return Some(RuleMatch::Exact(place));
        }
        let prefix = self.prefix_rules.longest(whole, &meta.prefixes);
        let min_rank = prefix
            .map_or(0, |place| NamePattern::prefix_rank(self.prefix_rules.prefix(place).len()));
        for (at, (rank, pattern, _)) in self.patterns.iter().enumerate() {
            if rank >> 1 < min_rank {
                break;
            }
            if pattern.matches(name) {
                return Some(RuleMatch::Pattern(at));
            }
        }
        prefix.map(RuleMatch::Prefix)
    }
}

impl Element for NameFilter {
    type In = In;
    type Out = Out;

    fn main_output(_: In) -> Option<Out> {
        Some(Out::Passed)
    }

    #[inline]
    fn process(&mut self, _: Timestamp, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        let (bytes, meta) = context.pool.view(&packet);
        match self.evaluate(meta, bytes) {
            Verdict::Allow => context.out.send(Out::Passed, packet),
            Verdict::Deny if self.config.drop_refused => {
                context.pool.drop_packet(packet, DropCause::NameRefused, context.drops);
            }
            Verdict::Deny => context.out.send(Out::Refused, packet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_testkit::bench::{KEY, TestBench, as_nack, data, interest, name, ports};
    use nw_wire::NackReason;
    use proptest::prelude::*;

    fn filter(rules: &[&str]) -> NameFilter {
        let mut filter = NameFilter::new(KEY, NameFilterConfig::default());
        rules.iter().for_each(|rule| filter.add(rule.parse().expect(rule)).expect(rule));
        filter
    }

    fn passes(bench: &mut TestBench<NameFilter>, uri: &str) -> bool {
        ports(&bench.process(In::Packet, &interest(uri, 1), |_| {})) == ["passed"]
    }

    #[test]
    fn most_specific_rule_decides() {
        let rules = [
            "allow /a",
            "deny /a/*/secret",
            "deny /",
            "allow exact /b",
            "deny /a/b",
            "allow /a/b/c/**/d",
        ];
        // In any order.
        for turn in 0..rules.len() {
            let mut rules = rules.to_vec();
            rules.rotate_left(turn);
            let mut bench = TestBench::new(filter(&rules));
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
                assert_eq!(passes(&mut bench, uri), is, "{uri}");
            }
        }
    }

    #[test]
    fn all_kinds_are_filtered_without_implicit_digest() {
        let mut bench = TestBench::new(filter(&["deny exact /a/b", "allow /x/y/z"]));
        assert!(bench.process(In::Packet, &data("/a/b"), |_| {}).is_empty());
        assert!(
            bench
                .process(In::Packet, &interest("/a/b", 1), as_nack(NackReason::NoRoute))
                .is_empty()
        );
        let digest = format!("/a/b/sha256digest={}", "00".repeat(32));
        assert!(!passes(&mut bench, &digest));
        assert!(passes(&mut bench, "/a/b/c") && passes(&mut bench, "/a"));
        assert_eq!(bench.drops.total(DropCause::NameRefused), 3);
        assert_eq!(bench.element.rules()[1], ("deny exact /a/b".parse().unwrap(), 3));
        bench.element.set_default(Verdict::Deny, false);
        assert_eq!(ports(&bench.process(In::Packet, &data("/c"), |_| {})), ["refused"]);
        assert_eq!(bench.pool.packets_in_use(), 0);
    }

    #[test]
    fn rules_are_added_replaced_removed_and_bounded() {
        let config =
            NameFilterConfig { rules_max: 1, patterns_max: 1, ..NameFilterConfig::default() };
        let mut bench = TestBench::new(NameFilter::new(KEY, config));
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        bench.element.add(rule("deny /a")).unwrap();
        assert!(!passes(&mut bench, "/a/b"));
        bench.element.add(rule("allow /a")).unwrap();
        assert!(passes(&mut bench, "/a/b"));
        assert_eq!(bench.element.add(rule("deny /b")), Err(RuleError::Full));
        bench.element.add(rule("deny /a/*/**/c")).unwrap();
        assert_eq!(bench.element.add(rule("deny /*")), Err(RuleError::TooManyPatterns));
        assert!(!passes(&mut bench, "/a/b/c"));
        let long = "/x".repeat(COMPONENTS_MAX + 1);
        assert!(!passes(&mut bench, &long), "more than 64 components");
        assert!(bench.element.remove(&"/a/*/**/c".parse().unwrap()));
        assert!(!bench.element.remove(&"/a/*/**/c".parse().unwrap()));
        assert!(passes(&mut bench, "/a/b/c") && passes(&mut bench, &long));
        assert!(bench.element.remove(&"/a".parse().unwrap()));
        assert!(bench.element.rules().is_empty());
    }

    proptest! {
        /// Agrees with a model that compares all rules.
        #[test]
        fn filter_agrees_with_model(
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
            let mut bench = TestBench::new(filter);
            for uri in asked.iter().filter(|uri| !uri.is_empty()) {
                let asked = name(uri);
                let fitting = model.iter().filter(|rule| rule.pattern.matches(asked.as_ref()));
                let decides = fitting.max_by_key(|rule| (rule.pattern.rank(), rule.verdict == Verdict::Deny));
                let expected = decides.is_none_or(|rule| rule.verdict == Verdict::Allow);
                prop_assert_eq!(passes(&mut bench, uri), expected, "{} by {:?}", uri, &rules);
            }
        }
    }
}
