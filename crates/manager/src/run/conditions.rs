//! What a person should know, for as long as it holds. Bounded: a new condition takes the place of
//! the oldest one.

use nw_api::network::NetworkCondition;

/// Conditions that are kept at one time.
const CONDITIONS_MAX: usize = 256;

/// The conditions that hold now.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<NetworkCondition>);

impl Conditions {
    /// Begins a condition, or changes its reason. Returns whether it is new.
    pub fn begin(&mut self, subject: &str, kind: &str, reason: &str, now_ms: u64) -> bool {
        if let Some(known) = self.find(subject, kind) {
            self.0[known].reason = reason.to_owned();
            return false;
        }
        if self.0.len() == CONDITIONS_MAX {
            self.0.remove(0);
        }
        self.0.push(NetworkCondition {
            subject: subject.to_owned(),
            kind: kind.to_owned(),
            reason: reason.to_owned(),
            since_ms: now_ms,
        });
        true
    }

    /// Ends a condition. Returns whether there was one.
    pub fn end(&mut self, subject: &str, kind: &str) -> bool {
        let known = self.find(subject, kind);
        known.map(|at| self.0.remove(at)).is_some()
    }

    /// Returns all conditions, the newest last.
    pub fn all(&self) -> &[NetworkCondition] {
        &self.0
    }

    fn find(&self, subject: &str, kind: &str) -> Option<usize> {
        let is_it = |known: &NetworkCondition| known.subject == subject && known.kind == kind;
        self.0.iter().position(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_begins_once_and_ends_once() {
        let mut conditions = Conditions::default();
        assert!(conditions.begin("network", "StepFailed", "one", 1));
        assert!(!conditions.begin("network", "StepFailed", "two", 2));
        assert_eq!((conditions.all()[0].reason.as_str(), conditions.all()[0].since_ms), ("two", 1));
        assert!(conditions.end("network", "StepFailed"));
        assert!(!conditions.end("network", "StepFailed"));
        for number in 0..CONDITIONS_MAX + 5 {
            conditions.begin(&format!("instance {number}"), "Orphan", "", 3);
        }
        assert_eq!(conditions.all().len(), CONDITIONS_MAX);
    }
}
