//! The subscriptions of one application, by number and by pattern.
//!
//! Invariant: the work for one subscription, and for one name, does not grow with the number of
//! subscriptions to other names.

use nw_api::pubsub::{ItemName, ScopePattern};
use std::collections::{BTreeMap, BTreeSet};

/// A subscription.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The pattern.
    pub pattern: ScopePattern,
    /// Earlier publications of each item that are wanted first.
    pub history: u32,
    /// Whether other nodes are not told.
    pub is_here: bool,
}

/// The subscriptions of one application.
#[derive(Debug, Default)]
pub struct Subscriptions {
    by_number: BTreeMap<u32, Subscription>,
    /// Numbers by pattern: those that are names, and the others.
    names: BTreeMap<ScopePattern, BTreeSet<u32>>,
    patterns: BTreeMap<ScopePattern, BTreeSet<u32>>,
}

impl Subscriptions {
    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Returns whether a number is in use.
    pub fn contains(&self, number: u32) -> bool {
        self.by_number.contains_key(&number)
    }

    /// Returns all subscriptions, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.by_number.values()
    }

    /// Returns all patterns, each once.
    pub fn patterns(&self) -> impl Iterator<Item = &ScopePattern> {
        self.names.keys().chain(self.patterns.keys())
    }

    fn table(&mut self, pattern: &ScopePattern) -> &mut BTreeMap<ScopePattern, BTreeSet<u32>> {
        if pattern.is_name() { &mut self.names } else { &mut self.patterns }
    }

    /// Adds a subscription. Returns whether it is the first to its pattern.
    pub fn insert(&mut self, number: u32, subscription: Subscription) -> bool {
        let pattern = subscription.pattern.clone();
        self.by_number.insert(number, subscription);
        let numbers = self.table(&pattern).entry(pattern).or_default();
        numbers.insert(number);
        numbers.len() == 1
    }

    /// Removes a subscription. Returns it, and whether it was the last to its pattern.
    pub fn remove(&mut self, number: u32) -> Option<(Subscription, bool)> {
        let removed = self.by_number.remove(&number)?;
        let table = self.table(&removed.pattern);
        let numbers = table.get_mut(&removed.pattern)?;
        numbers.remove(&number);
        let is_last = numbers.is_empty();
        if is_last {
            table.remove(&removed.pattern);
        }
        Some((removed, is_last))
    }

    /// Returns whether the application is told which domains an item passed: a subscription that
    /// matches its name asks for that.
    pub fn wants_path(&self, name: &ItemName) -> bool {
        let patterns = self.patterns.keys();
        name.path().is_some()
            && patterns.filter(|pattern| pattern.wants_path()).any(|pattern| pattern.matches(name))
    }

    /// Returns whether a subscription for other domains, or for this one, matches a name.
    pub fn matches_for(&self, name: &ItemName, is_for_others: bool) -> bool {
        let patterns = self.patterns.keys();
        let mut asked = patterns.filter(|found| found.demand_path().is_some() == is_for_others);
        let is_name = !is_for_others && self.names.contains_key(name.plain());
        is_name || asked.any(|pattern| pattern.matches(name))
    }

    /// Returns how many earlier publications the subscriptions that match a name want. `None` if
    /// none matches.
    pub fn matches(&self, name: &ItemName) -> Option<u32> {
        let exact = self.names.get(name.plain()).into_iter();
        let matching = self.patterns.iter().filter(|(pattern, _)| pattern.matches(name));
        let numbers = exact.chain(matching.map(|(_, numbers)| numbers)).flatten();
        numbers.filter_map(|number| self.by_number.get(number)).map(|found| found.history).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(pattern: &str, history: u32) -> Subscription {
        Subscription { pattern: pattern.parse().unwrap(), history, is_here: false }
    }

    #[test]
    fn names_and_patterns_are_matched_with_their_longest_history() {
        let mut all = Subscriptions::default();
        assert!(all.insert(1, subscription("/a/b", 3)));
        assert!(!all.insert(2, subscription("/a/b", 7)));
        assert!(all.insert(3, subscription("/a/**", 5)));
        let matches = |all: &Subscriptions, name: &str| all.matches(&name.parse().unwrap());
        assert_eq!((matches(&all, "/a/b"), matches(&all, "/a/c")), (Some(7), Some(5)));
        assert_eq!(matches(&all, "/b"), None);
        assert_eq!(all.patterns().count(), 2);
        assert!(all.remove(2).is_some_and(|(_, is_last)| !is_last));
        assert_eq!(matches(&all, "/a/b"), Some(5));
        assert!(all.remove(3).is_some_and(|(_, is_last)| is_last));
        assert_eq!((matches(&all, "/a/b"), matches(&all, "/a/c")), (Some(3), None));
        assert!(all.remove(1).is_some_and(|(found, is_last)| is_last && found.history == 3));
        assert!(all.remove(1).is_none() && all.len() == 0 && all.patterns().next().is_none());
    }
}
