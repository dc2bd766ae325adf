//! When members are added and removed by load: a pure controller.
//!
//! ```text
//!  load > high % of what all carry, for hold   ─▶ add one
//!  load < low % of what the others would carry, for hold ─▶ remove one
//!  after either: nothing for cool_down, nor while a member is on its way in or out
//! ```
//! As the lower bound looks at what would be left, a removal never asks for an addition.

use crate::config::Elastic;
use core::time::Duration;
use nw_element_api::Instant;

/// What the controller looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Interests a second to all members.
    pub load_per_s: f64,
    /// What the members that take names carry, Interests a second.
    pub capacity_per_s: f64,
    /// Of that, the member that would be removed next; nothing when none may be.
    pub removable_per_s: Option<f64>,
    /// Members that take names.
    pub serving: usize,
    /// A member is joining or draining.
    pub changing: bool,
}

/// What it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing, and why.
    Nothing(&'static str),
    /// One more.
    Add,
    /// One less.
    Remove,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Controller {
    bounds: Elastic,
    /// The load is too high, or too low, since.
    high: Option<Instant>,
    low: Option<Instant>,
    changed: Option<Instant>,
}

impl Controller {
    /// With these bounds.
    pub const fn new(bounds: Elastic) -> Self {
        Controller { bounds, high: None, low: None, changed: None }
    }

    /// What is to be done after another sample. An addition or removal that was wished for is taken to happen.
    pub fn take(&mut self, now: Instant, sample: &Sample) -> Wish {
        let (least, most) = (self.bounds.members_min as usize, self.bounds.members_max as usize);
        let high = sample.capacity_per_s * f64::from(self.bounds.high_percent) / 100.0;
        let rest = sample.removable_per_s.map(|removable| (sample.capacity_per_s - removable).max(0.0));
        let low = rest.map(|rest| rest * f64::from(self.bounds.low_percent) / 100.0);
        since(&mut self.high, now, sample.load_per_s > high);
        since(&mut self.low, now, low.is_some_and(|low| sample.load_per_s < low));
        let hold = Duration::from_secs(u64::from(self.bounds.hold_s));
        let held = |at: Option<Instant>| at.is_some_and(|at| now.since(at) >= hold);
        let cool_down = Duration::from_secs(u64::from(self.bounds.cool_down_s));
        if sample.changing {
            return Wish::Nothing("a member is on its way in or out");
        }
        if self.changed.is_some_and(|at| now.since(at) < cool_down) {
            return Wish::Nothing("it waits for the last change to show (cool_down_s)");
        }
        let wish = if sample.serving < least {
            Wish::Add
        } else if held(self.high) {
            if sample.serving >= most {
                return Wish::Nothing("the load is high and there are members_max members");
            }
            Wish::Add
        } else if held(self.low) && sample.serving > least {
            Wish::Remove
        } else {
            return Wish::Nothing(match (self.high, self.low) {
                (Some(_), _) => "the load is high; it must stay so (hold_s)",
                (_, Some(_)) if sample.serving > least => "the load is low; it must stay so (hold_s)",
                _ => "the load is within bounds",
            });
        };
        (self.high, self.low, self.changed) = (None, None, Some(now));
        wish
    }
}

fn since(at: &mut Option<Instant>, now: Instant, holds: bool) {
    *at = if holds { at.or(Some(now)) } else { None };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Elastic {
        Elastic { members_min: 1, members_max: 3, hold_s: 5, cool_down_s: 20, ..Elastic::default() }
    }

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    /// Members that carry 1000 each; the controller's wishes come true after `delay` seconds.
    fn run(load: impl Fn(u64) -> f64, seconds: u64, delay: u64) -> Vec<(u64, usize)> {
        let mut controller = Controller::new(bounds());
        let mut members: usize = 1;
        let mut change: Option<(u64, usize)> = None;
        let mut seen = vec![(0, members)];
        for second in 0..seconds {
            if let Some((when, wanted)) = change
                && second >= when
            {
                members = wanted;
                seen.push((second, members));
                change = None;
            }
            let sample = Sample {
                load_per_s: load(second),
                capacity_per_s: members as f64 * 1000.0,
                removable_per_s: (members > 1).then_some(1000.0),
                serving: members,
                changing: change.is_some(),
            };
            match controller.take(at(second), &sample) {
                Wish::Nothing(_) => {}
                Wish::Add => change = Some((second + delay, members + 1)),
                Wish::Remove => change = Some((second + delay, members - 1)),
            }
        }
        seen
    }

    #[test]
    fn it_follows_a_load_that_rises_and_falls() {
        let load = |second| if (10..100).contains(&second) { 2000.0 } else { 100.0 };
        assert_eq!(run(load, 300, 2), [(0, 1), (17, 2), (37, 3), (107, 2), (127, 1)]);
    }

    #[test]
    fn a_short_peak_is_nothing() {
        assert_eq!(run(|second| if second % 10 < 4 { 5000.0 } else { 100.0 }, 200, 1), [(0, 1)]);
    }

    #[test]
    fn a_steady_load_leads_to_a_steady_number() {
        for load in (0..3000).step_by(50) {
            let seen = run(|_| f64::from(load), 2000, 3);
            let later: Vec<_> = seen.iter().filter(|(second, _)| *second > 200).collect();
            assert!(later.is_empty(), "load {load}: {seen:?}");
        }
    }

    #[test]
    fn bounds_hold() {
        assert_eq!(run(|_| 1e9, 500, 1).last().map(|(_, members)| *members), Some(3));
        assert_eq!(run(|_| 0.0, 500, 1), [(0, 1)]);
        let mut controller = Controller::new(Elastic { members_min: 2, ..bounds() });
        let sample = Sample {
            load_per_s: 0.0,
            capacity_per_s: 1000.0,
            removable_per_s: None,
            serving: 1,
            changing: false,
        };
        assert_eq!(controller.take(at(0), &sample), Wish::Add, "there are too few, whatever the load");
        assert!(matches!(controller.take(at(1), &sample), Wish::Nothing(_)));
    }
}
