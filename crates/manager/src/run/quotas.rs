//! Limits of processor time: kept as the document says them, also when they change while an
//! instance runs.
//!
//! Invariant: a limit that is not in effect is a condition, with the reason. It is read back from
//! the engine, never assumed. Limits do not affect how packets flow, so no plan has them.

use super::Shared;
use crate::events::About;
use crate::world::Seen;
use nw_api::network::NetworkEventKind;
use nw_manage::Target;

/// Kind of the conditions of limits.
const NO_QUOTA: &str = "QuotaNotInEffect";
/// Difference below which two limits are the same, as a share of a core: kernels round.
const ROUNDING: f64 = 0.002;

impl Shared {
    /// Sets the limits that differ from the target's.
    pub(super) fn keep_quotas(&self, target: &Target, seen: &Seen) {
        for instance in &target.instances {
            let Some(now) = seen.instances.get(&instance.id) else { continue };
            let subject = format!("instance {}", instance.id);
            let wanted = instance.quota_cores;
            if is_same(now.engine.quota, wanted) {
                self.end_condition(&subject, NO_QUOTA);
                continue;
            }
            let refused = match self.world.set_quota(&instance.id, wanted) {
                Ok(note) => note,
                Err(error) => Some(error.to_string()),
            };
            let Some(reason) = refused else {
                self.end_condition(&subject, NO_QUOTA);
                let share = wanted.map_or("no limit".to_owned(), |share| {
                    format!("at most {:.0} % of a core", share * 100.0)
                });
                let text = format!("{}: {share} of processor time", instance.id);
                let about = About { instance: Some(instance.id.to_string()), ..About::default() };
                self.event(NetworkEventKind::StepDone, text, about);
                continue;
            };
            self.begin_condition(&subject, NO_QUOTA, reason);
        }
    }
}

fn is_same(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => (one - other).abs() <= ROUNDING,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_compared_as_kernels_round_them() {
        assert!(is_same(None, None) && is_same(Some(0.67), Some(0.6701)));
        assert!(!is_same(Some(0.67), None) && !is_same(Some(0.67), Some(0.6)));
    }
}
