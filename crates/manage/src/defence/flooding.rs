//! Interest flooding: Interests for names that do not exist fill pending Interest tables.
//!
//! Suspicion: more Interests than usual, and most of them without an answer, in two periods. A
//! producer that fails leaves Interests unanswered too, but does not bring more of them.

use super::{DefenceState, ElementSample, Erasure};
use crate::target::Countermeasure;
use nw_graph_language::network::Defence;
use serde::{Deserialize, Serialize};

/// Weight of a period in the slow average.
const AVERAGE_WEIGHT: f64 = 0.05;
/// Periods that are learned from before anything is suspicious.
const LEARN_PERIODS: u32 = 10;
/// Interests, as a multiple of the usual number, that can be a flood.
const GROWTH_MIN: f64 = 2.0;

/// The machine of one element.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Flooding {
    pub state: DefenceState,
    #[serde(skip)]
    before: Option<(u64, ElementSample)>,
    periods: u32,
    /// Usual Interests per period.
    usual: f64,
    quiet: u32,
}

impl Flooding {
    /// Takes a sample; at the end of a period returns what was decided, if anything.
    pub fn observe(
        &mut self,
        defence: &Defence,
        now_ms: u64,
        sample: &ElementSample,
    ) -> Option<(String, Vec<Erasure>)> {
        let Some((start_ms, before)) = self.before.clone() else {
            self.before = Some((now_ms, sample.clone()));
            return None;
        };
        if now_ms.saturating_sub(start_ms) < defence.period_ms {
            return None;
        }
        self.before = Some((now_ms, sample.clone()));
        let interests = sample.interests.checked_sub(before.interests)?;
        let answered = sample.answered.checked_sub(before.answered)?.min(interests);
        // Samples come late: numbers are those of a period of the wanted length.
        let elapsed_ms = now_ms.saturating_sub(start_ms).max(1);
        let scaled = |count: u64| count.saturating_mul(defence.period_ms) / elapsed_ms;
        let (interests, answered) = (scaled(interests), scaled(answered));
        let unsatisfied = 1.0 - answered as f64 / interests.max(1) as f64;
        let is_many = interests >= defence.requests_min
            && interests as f64 > GROWTH_MIN * self.usual
            && !self.is_learning();
        let is_flood = is_many && unsatisfied > defence.threshold;
        let from = self.state;
        let reason = format!(
            "{interests} Interests in a period, {:.0} are usual, {:.0} % of them without an answer{}",
            self.usual,
            unsatisfied * 100.0,
            worst_face(&before, sample)
        );
        self.step(defence, is_flood, interests);
        (self.state != from).then_some((reason, Vec::new()))
    }

    fn step(&mut self, defence: &Defence, is_flood: bool, interests: u64) {
        let is_limited = matches!(self.state, DefenceState::Confirmed | DefenceState::Quiet);
        self.state = match (is_flood, is_limited) {
            (true, true) => DefenceState::Confirmed,
            (true, false) if self.state == DefenceState::Suspicious => DefenceState::Confirmed,
            (true, false) => DefenceState::Suspicious,
            (false, true) if self.quiet + 1 >= defence.quiet_periods => DefenceState::Normal,
            (false, true) => DefenceState::Quiet,
            (false, false) => DefenceState::Normal,
        };
        self.quiet = if self.state == DefenceState::Quiet { self.quiet + 1 } else { 0 };
        if !is_flood {
            self.periods += 1;
            let weight = AVERAGE_WEIGHT.max(1.0 / f64::from(self.periods));
            self.usual += weight * (interests as f64 - self.usual);
        }
    }

    /// Returns whether what is usual is not known yet, so that nothing can be suspicious.
    pub fn is_learning(&self) -> bool {
        self.periods < LEARN_PERIODS
    }

    pub fn countermeasures(&self, element: &str, defence: &Defence) -> Vec<Countermeasure> {
        let is_limited = matches!(self.state, DefenceState::Confirmed | DefenceState::Quiet);
        let limit = Countermeasure::Limit { element: element.to_owned(), rate: defence.rate };
        is_limited.then_some(limit).into_iter().collect()
    }
}

/// Names the face with most unanswered Interests.
fn worst_face(before: &ElementSample, now: &ElementSample) -> String {
    let grown = now.unsatisfied.iter().map(|(face, count)| {
        let earlier = before.unsatisfied.iter().find(|(known, _)| known == face);
        (face, count.saturating_sub(earlier.map_or(0, |(_, count)| *count)))
    });
    let worst = grown.filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count);
    worst.map_or(String::new(), |(face, _)| format!(", most by face {face}"))
}
