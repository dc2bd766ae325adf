//! The satisfaction ratio: the share of a face's Interests that is answered, low in an Interest
//! flood.

use core::time::Duration;
use nw_element_api::Timestamp;

/// A ratio of 1, in thousandths.
pub(super) const SHARE_FULL: u32 = 1000;
/// Fewer Interests are judged together with those of the next period.
const SAMPLE_MIN: u32 = 8;
/// Most past periods evaluated one by one; after a longer pause the ratio is reset.
const PERIODS_MAX: u32 = 32;

/// Counters of one face. Single Interests are not tracked: a reply counts for the oldest unanswered
/// one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Satisfaction {
    /// End of the current period.
    end: Timestamp,
    /// Interests without reply: of the period before, and of the current one.
    unanswered_before: u32,
    unanswered_now: u32,
    satisfied: u32,
    unsatisfied: u32,
    /// The smoothed ratio, thousandths.
    share: u32,
}

impl Satisfaction {
    /// Creates the counters of a new face, with a ratio of 1.
    pub fn new(now: Timestamp, period: Duration) -> Self {
        Satisfaction {
            end: now + period,
            unanswered_before: 0,
            unanswered_now: 0,
            satisfied: 0,
            unsatisfied: 0,
            share: SHARE_FULL,
        }
    }

    /// Returns the ratio, thousandths.
    pub const fn share(&self) -> u32 {
        self.share
    }

    /// Evaluates the periods that have ended by `now`.
    pub fn roll(&mut self, now: Timestamp, period: Duration) {
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

    /// Counts Interests older than a period as unanswered. With enough of them the ratio moves
    /// halfway to that of the period; without any it recovers.
    fn end_period(&mut self) {
        let is_silent = self.unanswered_before == 0 && self.unanswered_now == 0;
        self.unsatisfied = self.unsatisfied.saturating_add(self.unanswered_before);
        (self.unanswered_before, self.unanswered_now) = (self.unanswered_now, 0);
        let judged = self.satisfied.saturating_add(self.unsatisfied);
        if judged >= SAMPLE_MIN {
            let answered = u64::from(self.satisfied) * u64::from(SHARE_FULL) / u64::from(judged);
            self.share = (self.share + answered as u32) / 2;
            (self.satisfied, self.unsatisfied) = (0, 0);
        } else if is_silent {
            self.share += (SHARE_FULL - self.share).div_ceil(8);
        }
    }

    /// Counts an Interest of the face that passed.
    pub const fn on_interest(&mut self) {
        self.unanswered_now = self.unanswered_now.saturating_add(1);
    }

    /// Counts a reply to the face. `satisfied`: whether it raises or lowers the ratio; `None` for
    /// neither.
    pub const fn on_reply(&mut self, satisfied: Option<bool>) {
        if self.unanswered_before > 0 {
            self.unanswered_before -= 1;
        } else if self.unanswered_now > 0 {
            self.unanswered_now -= 1;
        } else {
            return;
        }
        match satisfied {
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

    /// Sends 16 Interests per period, of which `answered` are answered at once. Returns the ratio.
    fn run(satisfaction: &mut Satisfaction, from_s: u64, periods: u64, answered: u32) -> u32 {
        for second in from_s..from_s + periods {
            satisfaction.roll(Timestamp::from_millis(second * 1000), PERIOD);
            (0..16).for_each(|_| satisfaction.on_interest());
            (0..answered).for_each(|_| satisfaction.on_reply(Some(true)));
        }
        satisfaction.share()
    }

    #[test]
    fn ratio_follows_replies_and_recovers_in_silence() {
        let mut satisfaction = Satisfaction::new(Timestamp::START, PERIOD);
        assert_eq!(run(&mut satisfaction, 0, 20, 16), SHARE_FULL);
        let half = run(&mut satisfaction, 20, 20, 8);
        assert!((480..=520).contains(&half), "{half}");
        assert!(run(&mut satisfaction, 40, 20, 0) < 10);
        let back = run(&mut satisfaction, 60, 20, 16);
        assert!(back > 990, "{back}");
        run(&mut satisfaction, 80, 20, 0);
        satisfaction.roll(Timestamp::from_millis(104_000), PERIOD);
        assert!(
            (300..700).contains(&satisfaction.share()),
            "some periods of silence: {}",
            satisfaction.share()
        );
        satisfaction.roll(Timestamp::from_millis(9_999_000), PERIOD);
        assert_eq!(satisfaction.share(), SHARE_FULL);
    }

    #[test]
    fn reply_in_the_next_period_counts() {
        let mut satisfaction = Satisfaction::new(Timestamp::START, PERIOD);
        for second in 0..20u64 {
            // Each reply comes 900 ms after its Interest, in the next period.
            satisfaction.roll(Timestamp::from_millis(second * 1000 + 500), PERIOD);
            (0..16).for_each(|_| satisfaction.on_interest());
            satisfaction.roll(Timestamp::from_millis(second * 1000 + 1400), PERIOD);
            (0..16).for_each(|_| satisfaction.on_reply(Some(true)));
        }
        assert_eq!(satisfaction.share(), SHARE_FULL);
    }

    #[test]
    fn neutral_replies_leave_ratio_at_one() {
        let mut satisfaction = Satisfaction::new(Timestamp::START, PERIOD);
        for second in 0..20 {
            satisfaction.roll(Timestamp::from_millis(second * 1000), PERIOD);
            (0..16).for_each(|_| satisfaction.on_interest());
            (0..16).for_each(|_| satisfaction.on_reply(None));
        }
        assert_eq!(satisfaction.share(), SHARE_FULL);
    }

    /// A face with few Interests is judged by several periods together.
    #[test]
    fn few_interests_per_period_are_judged_together() {
        let mut satisfaction = Satisfaction::new(Timestamp::START, PERIOD);
        for second in 0..200 {
            satisfaction.roll(Timestamp::from_millis(second * 1000), PERIOD);
            satisfaction.on_interest();
            assert!(second > 8 || satisfaction.share() == SHARE_FULL);
        }
        assert!(satisfaction.share() < 10);
    }
}
