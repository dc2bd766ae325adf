//! What the subscribers of one domain want of the other one, as far as the policy permits.

use nw_api::pubsub::{DomainName, DomainPath, ScopePattern};
use std::collections::{BTreeMap, BTreeSet};

/// Subscriptions that are known at most; further ones of a domain are left out.
const SUBSCRIPTIONS_MAX: usize = 65_536;

/// Names that begin so stay in their domain.
pub const RESERVED: &str = "/@";

/// Subscriptions of the domain that publications would enter.
#[derive(Debug)]
pub struct Demand {
    /// The domain that publications come from.
    source: DomainName,
    /// The domain that they enter.
    target: DomainName,
    policy: Vec<ScopePattern>,
    patterns_max: usize,
    /// Nodes and connections by pattern, with the domains it is for.
    subscriptions: BTreeMap<ScopePattern, BTreeSet<(u64, u64)>>,
    count: usize,
}

impl Demand {
    /// Creates a demand without subscriptions.
    pub fn new(
        [source, target]: [DomainName; 2],
        policy: Vec<ScopePattern>,
        patterns_max: usize,
    ) -> Self {
        let subscriptions = BTreeMap::new();
        Demand { source, target, policy, patterns_max, subscriptions, count: 0 }
    }

    /// Returns the patterns of what may cross.
    pub fn policy(&self) -> &[ScopePattern] {
        &self.policy
    }

    /// Takes a subscription that is here, or is no longer. Returns whether something changed.
    pub fn update(&mut self, pattern: &str, who: (u64, u64), is_here: bool) -> bool {
        let Ok(pattern) = pattern.parse::<ScopePattern>() else { return false };
        // Programs of borders that follow each other, groups, and other names with a mark.
        if pattern.plain().starts_with(RESERVED) {
            return false;
        }
        if is_here {
            let is_new = self.count < SUBSCRIPTIONS_MAX
                && self.subscriptions.entry(pattern).or_default().insert(who);
            self.count += usize::from(is_new);
            return is_new;
        }
        let Some(all) = self.subscriptions.get_mut(&pattern) else { return false };
        let is_gone = all.remove(&who);
        self.count -= usize::from(is_gone);
        if all.is_empty() {
            self.subscriptions.remove(&pattern);
        }
        is_gone
    }

    /// Returns the domains that a subscription is for, with the one that it is in. `None` if it
    /// comes from the source, or from too far.
    fn path_of(&self, pattern: &ScopePattern) -> Option<DomainPath> {
        let path: DomainPath = match pattern.demand_path() {
            Some(text) => text.parse().ok()?,
            None => DomainPath::default(),
        };
        if path.contains(&self.source) { None } else { path.and(&self.target) }
    }

    /// Returns the patterns to subscribe to in the source: few, and none that another one covers.
    pub fn wanted(&self) -> BTreeSet<ScopePattern> {
        let paths = self.subscriptions.keys().filter_map(|p| Some((p, self.path_of(p)?)));
        let paths: Vec<_> = paths.collect();
        let mut all: BTreeMap<ScopePattern, DomainPath> = BTreeMap::new();
        for permitted in &self.policy {
            let mut below: BTreeMap<ScopePattern, DomainPath> = BTreeMap::new();
            for (pattern, path) in &paths {
                if let Some(both) = pattern.intersection(permitted) {
                    join(&mut below, both, path);
                    // The summary has the same names, so the rest does not count.
                    if below.len() > self.patterns_max {
                        let paths = paths.iter().filter(|(p, _)| p.overlaps(permitted));
                        let common = paths.map(|(_, path)| path.clone());
                        let common = common.reduce(|one, other| one.common(&other));
                        below = common.map(|path| (permitted.clone(), path)).into_iter().collect();
                        break;
                    }
                }
            }
            below.into_iter().for_each(|(pattern, path)| join(&mut all, pattern, &path));
        }
        let is_covered = |(pattern, path): &(&ScopePattern, &DomainPath)| {
            all.iter().any(|(other, shorter)| {
                other != *pattern && other.covers(pattern) && shorter.common(path) == *shorter
            })
        };
        let wanted = all.iter().filter(|entry| !is_covered(entry));
        wanted.filter_map(|(pattern, path)| pattern.for_domains(path).ok()).collect()
    }
}

/// Adds a pattern. One that is wanted for several ways is wanted for what they have in common.
fn join(all: &mut BTreeMap<ScopePattern, DomainPath>, pattern: ScopePattern, path: &DomainPath) {
    let known = all.entry(pattern).or_insert_with(|| path.clone());
    *known = known.common(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(policy: &[&str], patterns_max: usize) -> Demand {
        let policy = policy.iter().map(|text| text.parse().unwrap()).collect();
        Demand::new(["a", "b"].map(|name| name.parse().unwrap()), policy, patterns_max)
    }

    fn wanted(demand: &Demand) -> Vec<String> {
        demand.wanted().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn demand_is_what_policy_and_subscriptions_have_in_common() {
        let mut demand = demand(&["/x/**", "/y/*/t"], 8);
        assert!(demand.update("/x/1", (0, 1), true) && !demand.update("/x/1", (0, 1), true));
        assert!(demand.update("/y/5/*", (7, 0), true) && demand.update("/z", (7, 0), true));
        assert_eq!(wanted(&demand), ["/@to/b/x/1", "/@to/b/y/5/t"]);
        assert!(demand.update("/**", (8, 0), true));
        assert_eq!(wanted(&demand), ["/@to/b/x/**", "/@to/b/y/*/t"], "one covers the others");
        assert!(demand.update("/**", (8, 0), false) && demand.update("/x/1", (0, 1), false));
        assert_eq!(wanted(&demand), ["/@to/b/y/5/t"]);
        assert!(!demand.update("/**", (8, 0), false));
    }

    #[test]
    fn demand_of_the_source_itself_and_of_followers_is_none() {
        let mut demand = demand(&["/**"], 8);
        for pattern in ["/@to/a/x", "/@to/c+a/x", "/@from/*/x/**", "/@to/c+b/x", "invalid"] {
            demand.update(pattern, (1, 1), true);
        }
        assert_eq!(wanted(&demand), [""; 0]);
        demand.update("/@to/c/x", (1, 1), true);
        assert_eq!(wanted(&demand), ["/@to/c+b/x"]);
        demand.update("/@to/d/x", (1, 1), true);
        assert_eq!(wanted(&demand), ["/@to/b/x"], "for two ways: what they have in common");
        demand.update("/@to/1+2+3+4+5+6+7+8/far", (1, 1), true);
        assert_eq!(wanted(&demand), ["/@to/b/x"], "from too far");
        demand.update("/@to/c/**", (1, 1), true);
        assert_eq!(wanted(&demand), ["/@to/b/x", "/@to/c+b/**"], "not covered: c would get less");
    }

    #[test]
    fn many_patterns_are_summed_up() {
        let mut demand = demand(&["/x/**", "/y/**"], 4);
        for number in 0..10_000 {
            demand.update(&format!("/x/{number}"), (0, number), true);
        }
        demand.update("/y/1", (0, 1), true);
        assert_eq!(wanted(&demand), ["/@to/b/x/**", "/@to/b/y/1"]);
        for number in 10_000..2 * SUBSCRIPTIONS_MAX as u64 {
            demand.update(&format!("/x/{number}"), (0, number), true);
        }
        assert_eq!(demand.count, SUBSCRIPTIONS_MAX);
        assert_eq!(wanted(&demand).len(), 2);
    }
}
