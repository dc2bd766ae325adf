//! Bounds on how often something may happen: each key has a credit that returns with time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Keys that are remembered, at most.
const KEYS_MAX: usize = 1024;

/// Credits by key. A key that is not remembered has all of its credit.
pub struct Credits<K> {
    max: u32,
    interval: Duration,
    /// Time at which a key has all of its credit again.
    full_at: HashMap<K, Instant>,
}

impl<K: Clone + Eq + Hash> Credits<K> {
    /// `max`: what a key may use at once; `interval`: time in which one returns.
    pub fn new(max: u32, interval: Duration) -> Self {
        Credits { max, interval, full_at: HashMap::new() }
    }

    /// Returns whether the key has credit.
    pub fn has(&self, key: &K, now: Instant) -> bool {
        let full_at = self.full_at.get(key).copied().unwrap_or(now);
        full_at.saturating_duration_since(now) + self.interval <= self.interval * self.max
    }

    /// Takes one from the key's credit.
    pub fn take(&mut self, key: &K, now: Instant) {
        if self.full_at.len() >= KEYS_MAX && !self.full_at.contains_key(key) {
            self.full_at.retain(|_, full_at| *full_at > now);
            // The key with the most credit is the one that is missed least.
            let most = self.full_at.iter().min_by_key(|(_, full_at)| **full_at);
            if self.full_at.len() >= KEYS_MAX
                && let Some(key) = most.map(|(key, _)| key.clone())
            {
                self.full_at.remove(&key);
            }
        }
        let full_at = self.full_at.entry(key.clone()).or_insert(now);
        *full_at = (*full_at).max(now) + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn credit_is_used_up_and_returns_with_time() {
        let mut credits = Credits::new(3, SECOND);
        let now = Instant::now();
        for _ in 0..3 {
            assert!(credits.has(&"a", now));
            credits.take(&"a", now);
        }
        assert!(!credits.has(&"a", now) && credits.has(&"b", now));
        assert!(!credits.has(&"a", now + SECOND / 2));
        let later = now + SECOND;
        assert!(credits.has(&"a", later));
        credits.take(&"a", later);
        assert!(!credits.has(&"a", later));
        assert!(credits.has(&"a", later + 3 * SECOND));
    }

    #[test]
    fn keys_are_bounded_and_those_with_least_credit_stay() {
        let mut credits = Credits::new(2, SECOND);
        let now = Instant::now();
        credits.take(&u32::MAX, now);
        credits.take(&u32::MAX, now);
        for key in 0..5000 {
            credits.take(&key, now);
            assert!(credits.full_at.len() <= KEYS_MAX);
        }
        assert!(!credits.has(&u32::MAX, now));
        credits.take(&9999, now + 10 * SECOND);
        assert_eq!(credits.full_at.len(), 1, "others have all of their credit");
    }
}
