//! Decides when members are added and removed by load. Pure.
//!
//! ```text
//!  load > high % of the capacity, for hold                        ─▶ add a member
//!  load < low % of the capacity without one member, for hold      ─▶ remove a member
//!  after either: no change for cool_down, nor while a member is joining or draining
//! ```
//! The lower bound uses the capacity that would remain, so a removal never causes an addition.

use crate::config::Elastic;
use core::time::Duration;
use nw_element_api::Timestamp;

/// The controller's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Interests per second to all members.
    pub load_per_s: f64,
    /// Interests per second that the members taking names can forward.
    pub capacity_per_s: f64,
    /// The part of the capacity that the next removal would take away. `None` if none may be
    /// removed.
    pub removable_per_s: Option<f64>,
    /// Number of members that take names. For pods, with those that are still to come.
    pub serving: usize,
    /// True while a member is joining or draining.
    pub is_changing: bool,
}

/// The controller's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingAction {
    /// No change, for this reason.
    None(&'static str),
    /// Add a member.
    Add,
    /// Remove a member.
    Remove,
}

/// The controller. It assumes that every action it returns is carried out, unless it is told
/// otherwise ([`Autoscaler::action_failed`]).
#[derive(Clone, Debug)]
pub struct Autoscaler {
    bounds: Elastic,
    /// Since when the load is too high.
    high_since: Option<Timestamp>,
    /// Since when the load is too low.
    low_since: Option<Timestamp>,
    last_change: Option<Timestamp>,
}

impl Autoscaler {
    /// Creates a controller with the configured bounds.
    pub const fn new(bounds: Elastic) -> Self {
        Autoscaler { bounds, high_since: None, low_since: None, last_change: None }
    }

    /// Takes note that the last action was not carried out: it may be decided again once the load
    /// has held.
    pub const fn action_failed(&mut self) {
        self.last_change = None;
    }

    /// Returns the action after another sample.
    pub fn decide(&mut self, now: Timestamp, sample: &Sample) -> ScalingAction {
        let (members_min, members_max) =
            (self.bounds.members_min as usize, self.bounds.members_max as usize);
        let high = sample.capacity_per_s * f64::from(self.bounds.high_percent) / 100.0;
        let remaining =
            sample.removable_per_s.map(|removable| (sample.capacity_per_s - removable).max(0.0));
        let low = remaining.map(|remaining| remaining * f64::from(self.bounds.low_percent) / 100.0);
        update_since(&mut self.high_since, now, sample.load_per_s > high);
        update_since(&mut self.low_since, now, low.is_some_and(|low| sample.load_per_s < low));
        let hold = Duration::from_secs(u64::from(self.bounds.hold_s));
        let is_held =
            |since: Option<Timestamp>| since.is_some_and(|since| now.since(since) >= hold);
        let cool_down = Duration::from_secs(u64::from(self.bounds.cool_down_s));
        if sample.is_changing {
            return ScalingAction::None("a member is joining or draining");
        }
        if self.last_change.is_some_and(|at| now.since(at) < cool_down) {
            return ScalingAction::None("waiting after the last change (cool_down_s)");
        }
        let wish = if sample.serving < members_min {
            ScalingAction::Add
        } else if is_held(self.high_since) {
            if sample.serving >= members_max {
                return ScalingAction::None("the load is high and there are members_max members");
            }
            ScalingAction::Add
        } else if is_held(self.low_since) && sample.serving > members_min {
            ScalingAction::Remove
        } else {
            return ScalingAction::None(match (self.high_since, self.low_since) {
                (Some(_), _) => "the load is high; it must stay so (hold_s)",
                (_, Some(_)) if sample.serving > members_min => {
                    "the load is low; it must stay so (hold_s)"
                }
                _ => "the load is within bounds",
            });
        };
        (self.high_since, self.low_since, self.last_change) = (None, None, Some(now));
        wish
    }
}

fn update_since(since: &mut Option<Timestamp>, now: Timestamp, holds: bool) {
    *since = if holds { since.or(Some(now)) } else { None };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Elastic {
        Elastic { members_min: 1, members_max: 3, hold_s: 5, cool_down_s: 20, ..Elastic::default() }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::START + Duration::from_secs(seconds)
    }

    /// Simulates members that carry 1000 each; an action takes effect after `delay` seconds.
    /// Returns the number of members after each change, with its second.
    fn run(load: impl Fn(u64) -> f64, seconds: u64, delay: u64) -> Vec<(u64, usize)> {
        let mut controller = Autoscaler::new(bounds());
        let mut members: usize = 1;
        let mut change: Option<(u64, usize)> = None;
        let mut seen = vec![(0, members)];
        for second in 0..seconds {
            if let Some((due, count)) = change
                && second >= due
            {
                members = count;
                seen.push((second, members));
                change = None;
            }
            let sample = Sample {
                load_per_s: load(second),
                capacity_per_s: members as f64 * 1000.0,
                removable_per_s: (members > 1).then_some(1000.0),
                serving: members,
                is_changing: change.is_some(),
            };
            match controller.decide(at(second), &sample) {
                ScalingAction::None(_) => {}
                ScalingAction::Add => change = Some((second + delay, members + 1)),
                ScalingAction::Remove => change = Some((second + delay, members - 1)),
            }
        }
        seen
    }

    #[test]
    fn members_follow_rising_and_falling_load() {
        let load = |second| if (10..100).contains(&second) { 2000.0 } else { 100.0 };
        assert_eq!(run(load, 300, 2), [(0, 1), (17, 2), (37, 3), (107, 2), (127, 1)]);
    }

    #[test]
    fn short_peaks_change_nothing() {
        assert_eq!(run(|second| if second % 10 < 4 { 5000.0 } else { 100.0 }, 200, 1), [(0, 1)]);
    }

    #[test]
    fn steady_load_leads_to_a_steady_number() {
        for load in (0..3000).step_by(50) {
            let seen = run(|_| f64::from(load), 2000, 3);
            let later: Vec<_> = seen.iter().filter(|(second, _)| *second > 200).collect();
            assert!(later.is_empty(), "load {load}: {seen:?}");
        }
    }

    #[test]
    fn number_of_members_stays_within_bounds() {
        assert_eq!(run(|_| 1e9, 500, 1).last().map(|(_, members)| *members), Some(3));
        assert_eq!(run(|_| 0.0, 500, 1), [(0, 1)]);
        let mut controller = Autoscaler::new(Elastic { members_min: 2, ..bounds() });
        let sample = Sample {
            load_per_s: 0.0,
            capacity_per_s: 1000.0,
            removable_per_s: None,
            serving: 1,
            is_changing: false,
        };
        assert_eq!(
            controller.decide(at(0), &sample),
            ScalingAction::Add,
            "below members_min, independent of load"
        );
        assert!(matches!(controller.decide(at(1), &sample), ScalingAction::None(_)));
    }
}
