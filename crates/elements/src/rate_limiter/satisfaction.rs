//! Which share of a face's Interests is answered: what an Interest flood has little of.

use core::time::Duration;
use nw_element_api::Instant;

/// All of them, in thousandths.
pub(super) const ALL: u32 = 1000;
/// Of fewer nothing is concluded: they are judged together with later ones.
const JUDGED_MIN: u32 = 8;
/// Periods without a packet that are gone through one by one.
const PERIODS_MAX: u32 = 32;

/// Counts of one face. Nothing is kept of single Interests: an answer is taken to be for the oldest that has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Satisfaction {
    /// When the period of `new` ends.
    end: Instant,
    /// Without answer: of the period before, and of this one.
    old: u32,
    new: u32,
    satisfied: u32,
    unsatisfied: u32,
    /// The share, smoothed, in thousandths.
    share: u32,
}

impl Satisfaction {
    /// Of a face nothing is known of: all will be answered.
    pub fn new(now: Instant, period: Duration) -> Self {
        Satisfaction { end: now + period, old: 0, new: 0, satisfied: 0, unsatisfied: 0, share: ALL }
    }

    /// The share of Interests that were answered, thousandths.
    pub const fn share(&self) -> u32 {
        self.share
    }

    /// Ends the periods that are over by `now`.
    pub fn roll(&mut self, now: Instant, period: Duration) {
        for _ in 0..PERIODS_MAX {
            if now < self.end {
                return;
            }
            self.end_period();
            self.end = self.end + period;
        }
        if now >= self.end {
            *self = Satisfaction::new(now, period);
        }
    }

    /// What is a period old and has no answer has none. The share follows by half, once there is enough to judge by; in silence it recovers.
    fn end_period(&mut self) {
        let silence = self.old == 0 && self.new == 0;
        self.unsatisfied = self.unsatisfied.saturating_add(self.old);
        (self.old, self.new) = (self.new, 0);
        let judged = self.satisfied.saturating_add(self.unsatisfied);
        if judged >= JUDGED_MIN {
            let answered = u64::from(self.satisfied) * u64::from(ALL) / u64::from(judged);
            self.share = (self.share + answered as u32) / 2;
            (self.satisfied, self.unsatisfied) = (0, 0);
        } else if silence {
            self.share += (ALL - self.share).div_ceil(8);
        }
    }

    /// An Interest of the face passed.
    pub const fn asked(&mut self) {
        self.new = self.new.saturating_add(1);
    }

    /// Data, or a Nack, goes to the face; `well` when that speaks for the face, `None` when it says nothing about it.
    pub const fn answered(&mut self, well: Option<bool>) {
        if self.old > 0 {
            self.old -= 1;
        } else if self.new > 0 {
            self.new -= 1;
        } else {
            return;
        }
        match well {
            Some(true) => self.satisfied = self.satisfied.saturating_add(1),
            Some(false) => self.unsatisfied = self.unsatisfied.saturating_add(1),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    /// Sixteen Interests a period, of which so many are answered at once.
    fn run(satisfaction: &mut Satisfaction, from_s: u64, periods: u64, answered: u32) -> u32 {
        for second in from_s..from_s + periods {
            satisfaction.roll(Instant::from_millis(second * 1000), PERIOD);
            (0..16).for_each(|_| satisfaction.asked());
            (0..answered).for_each(|_| satisfaction.answered(Some(true)));
        }
        satisfaction.share()
    }

    #[test]
    fn the_share_follows_what_is_answered_and_recovers() {
        let mut satisfaction = Satisfaction::new(Instant::START, PERIOD);
        assert_eq!(run(&mut satisfaction, 0, 20, 16), ALL);
        let half = run(&mut satisfaction, 20, 20, 8);
        assert!((480..=520).contains(&half), "{half}");
        assert!(run(&mut satisfaction, 40, 20, 0) < 10);
        let back = run(&mut satisfaction, 60, 20, 16);
        assert!(back > 990, "{back}");
        run(&mut satisfaction, 80, 20, 0);
        satisfaction.roll(Instant::from_millis(104_000), PERIOD);
        assert!(
            (300..700).contains(&satisfaction.share()),
            "some periods of silence: {}",
            satisfaction.share()
        );
        satisfaction.roll(Instant::from_millis(9_999_000), PERIOD);
        assert_eq!(satisfaction.share(), ALL);
    }

    #[test]
    fn an_answer_has_a_period_of_time() {
        let mut satisfaction = Satisfaction::new(Instant::START, PERIOD);
        for second in 0..20u64 {
            // Each comes 900 ms after it was asked for, in the period after that.
            satisfaction.roll(Instant::from_millis(second * 1000 + 500), PERIOD);
            (0..16).for_each(|_| satisfaction.asked());
            satisfaction.roll(Instant::from_millis(second * 1000 + 1400), PERIOD);
            (0..16).for_each(|_| satisfaction.answered(Some(true)));
        }
        assert_eq!(satisfaction.share(), ALL);
    }

    #[test]
    fn nobody_is_blamed_for_congestion() {
        let mut satisfaction = Satisfaction::new(Instant::START, PERIOD);
        for second in 0..20 {
            satisfaction.roll(Instant::from_millis(second * 1000), PERIOD);
            (0..16).for_each(|_| satisfaction.asked());
            (0..16).for_each(|_| satisfaction.answered(None));
        }
        assert_eq!(satisfaction.share(), ALL);
    }

    /// Who may ask little is judged by what comes together.
    #[test]
    fn a_trickle_is_judged_too() {
        let mut satisfaction = Satisfaction::new(Instant::START, PERIOD);
        for second in 0..200 {
            satisfaction.roll(Instant::from_millis(second * 1000), PERIOD);
            satisfaction.asked();
            assert!(second > 8 || satisfaction.share() == ALL);
        }
        assert!(satisfaction.share() < 10);
    }
}
