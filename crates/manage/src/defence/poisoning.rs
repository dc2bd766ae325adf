//! Content poisoning: fake Data fill a content store.
//!
//! Suspicion: the hit ratio of two periods is well below its slow average, and most of the
//! additional misses are additional Interests, which bring no more hits. So other names that become
//! popular are not suspicious, which turn hits into misses, nor are more consumers. Proof: a verifier before the
//! store rejects Data. Then what may be poisoned is erased, and the verifier moves towards the
//! origin: a second one is tried one element further, and the first is taken out when the second
//! one rejects Data.

use super::{DefenceState, ElementSample};
use crate::target::Countermeasure;
use nw_graph_language::network::Defence;
use std::collections::{BTreeMap, BTreeSet};

/// Weight of a period in the slow averages.
const AVERAGE_WEIGHT: f64 = 0.05;
/// Periods that are learned from before anything is suspicious.
const LEARN_PERIODS: u32 = 10;
/// Fall of the hit ratio, in mean deviations, that is suspicious.
const DEVIATIONS: f64 = 4.0;
/// Growth of the hits that speaks against an attack: it shows that there are more consumers.
const HITS_GROWTH_MAX: f64 = 1.1;
/// Share of the additional misses that additional Interests must account for.
const ADDED_SHARE: f64 = 0.6;
/// Rejected Data of one period that confirm an attack.
const FAILURES_MIN: usize = 3;
/// Periods in which a verifier that is tried further on must reject Data.
const TRIAL_PERIODS: u32 = 2;
/// Most prefixes that are erased at once.
const ERASE_MAX: usize = 16;
/// Most names that a filter rejects.
const FILTER_MAX: usize = 64;

/// The machine of one content store.
#[derive(Clone, Debug)]
pub(super) struct Poisoning {
    pub state: DefenceState,
    /// Places of a verifier: the store, and the elements that its Data come from.
    path: Vec<String>,
    /// Index of the verifier's place.
    place: usize,
    /// Periods that a verifier at the next place has been tried for.
    trial: Option<u32>,
    /// Whether the place after the current one has been tried in vain.
    is_last: bool,
    average: Averages,
    before: Option<(u64, ElementSample)>,
    /// Names rejected in the period so far, by element.
    failures: BTreeMap<String, Vec<String>>,
    /// Names rejected so far and how often.
    rejected: BTreeMap<String, u32>,
    quiet: u32,
}

/// Slow averages over periods with enough requests.
#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    periods: u32,
    ratio: f64,
    deviation: f64,
    requests: f64,
    misses: f64,
}

/// One period of a store.
#[derive(Clone, Copy, Debug)]
struct Period {
    requests: u64,
    ratio: f64,
}

impl Period {
    fn misses(&self) -> f64 {
        self.requests as f64 * (1.0 - self.ratio)
    }
}

impl Averages {
    fn learn(&mut self, period: &Period) {
        self.periods += 1;
        // The first periods count as much as all later ones together could.
        let weight = AVERAGE_WEIGHT.max(1.0 / f64::from(self.periods));
        let deviation = (period.ratio - self.ratio).abs();
        if self.periods > 1 {
            self.deviation += weight * (deviation - self.deviation);
        }
        self.ratio += weight * (period.ratio - self.ratio);
        self.requests += weight * (period.requests as f64 - self.requests);
        self.misses += weight * (period.misses() - self.misses);
    }

    fn is_suspicious(&self, period: &Period, fall: f64) -> bool {
        let is_low = period.ratio < self.ratio * (1.0 - fall)
            && self.ratio - period.ratio > DEVIATIONS * self.deviation;
        let more_misses = period.misses() - self.misses;
        let more_requests = period.requests as f64 - self.requests;
        let is_added = more_requests >= ADDED_SHARE * more_misses;
        let hits = period.requests as f64 * period.ratio;
        let has_no_more_hits = hits <= HITS_GROWTH_MAX * (self.requests - self.misses);
        self.periods >= LEARN_PERIODS && is_low && is_added && has_no_more_hits
    }
}

impl Poisoning {
    pub fn new(path: Vec<String>) -> Self {
        Poisoning {
            state: DefenceState::Normal,
            path,
            place: 0,
            trial: None,
            is_last: false,
            average: Averages::default(),
            before: None,
            failures: BTreeMap::new(),
            rejected: BTreeMap::new(),
            quiet: 0,
        }
    }

    /// Takes samples; at the end of a period returns what was decided, if anything.
    pub fn observe(
        &mut self,
        defence: &Defence,
        now_ms: u64,
        samples: &[ElementSample],
    ) -> Option<(String, Vec<String>)> {
        for sample in samples.iter().filter(|sample| self.path.contains(&sample.element)) {
            let names = self.failures.entry(sample.element.clone()).or_default();
            names.extend(sample.failures.iter().take(1024 - names.len().min(1024)).cloned());
        }
        let sample = samples.iter().find(|sample| sample.element == self.path[0])?;
        let Some((start_ms, before)) = &self.before else {
            self.before = Some((now_ms, sample.clone()));
            return None;
        };
        if now_ms.saturating_sub(*start_ms) < defence.period_ms {
            return None;
        }
        let period = period(before, sample);
        self.before = Some((now_ms, sample.clone()));
        let failures = std::mem::take(&mut self.failures);
        let from = self.state;
        let decided = self.decide(defence, period, &failures);
        decided.filter(|_| self.state != from || self.trial == Some(0))
    }

    fn decide(
        &mut self,
        defence: &Defence,
        period: Option<Period>,
        failures: &BTreeMap<String, Vec<String>>,
    ) -> Option<(String, Vec<String>)> {
        match self.state {
            DefenceState::Normal | DefenceState::Suspicious => {
                let period = period.filter(|period| period.requests >= defence.requests_min)?;
                self.suspect(defence, &period)
            }
            DefenceState::Verifying
            | DefenceState::Confirmed
            | DefenceState::Isolated
            | DefenceState::Quiet => self.verify(defence, period, failures),
        }
    }

    fn suspect(&mut self, defence: &Defence, period: &Period) -> Option<(String, Vec<String>)> {
        if !self.average.is_suspicious(period, defence.threshold) {
            self.average.learn(period);
            self.state = DefenceState::Normal;
            return Some(("the hit ratio is as usual again".to_owned(), Vec::new()));
        }
        let reason = format!(
            "{} answers {:.0} % of the Interests, {:.0} % is usual",
            self.path[0],
            period.ratio * 100.0,
            self.average.ratio * 100.0
        );
        self.state = match self.state {
            DefenceState::Suspicious => DefenceState::Verifying,
            _ => DefenceState::Suspicious,
        };
        (self.quiet, self.place, self.trial, self.is_last) = (0, 0, None, false);
        Some((reason, Vec::new()))
    }

    /// One period with a verifier in place.
    fn verify(
        &mut self,
        defence: &Defence,
        period: Option<Period>,
        failures: &BTreeMap<String, Vec<String>>,
    ) -> Option<(String, Vec<String>)> {
        let names: Vec<&String> = failures.values().flatten().collect();
        let is_known = !matches!(self.state, DefenceState::Verifying);
        if names.len() < if is_known { 1 } else { FAILURES_MIN } {
            return self.calm_down(defence, period);
        }
        self.quiet = 0;
        for name in &names {
            if self.rejected.len() < FILTER_MAX || self.rejected.contains_key(*name) {
                *self.rejected.entry((*name).clone()).or_default() += 1;
            }
        }
        let count = names.len();
        if !is_known {
            self.state = DefenceState::Confirmed;
            self.trial = (self.path.len() > 1).then_some(0);
            let reason = format!(
                "the verifier before {} rejected {count} Data, such as {}",
                self.path[0], names[0]
            );
            return Some((reason, prefixes(&names)));
        }
        let reason = self.approach(failures);
        if self.trial.is_none() {
            self.state = DefenceState::Isolated;
        } else if self.state == DefenceState::Quiet {
            self.state = DefenceState::Confirmed;
        }
        Some((reason, Vec::new()))
    }

    /// Moves the verifier towards the origin while the one that is tried further on rejects Data.
    fn approach(&mut self, failures: &BTreeMap<String, Vec<String>>) -> String {
        let rejects =
            |place: usize| failures.get(&self.path[place]).is_some_and(|names| !names.is_empty());
        match self.trial {
            Some(_) if rejects(self.place + 1) => {
                self.place += 1;
                self.trial = (self.place + 1 < self.path.len()).then_some(0);
                format!("fake Data come by {}: the verifier moves there", self.path[self.place])
            }
            Some(periods) if periods + 1 >= TRIAL_PERIODS => {
                self.trial = None;
                self.is_last = true;
                format!("fake Data enter the network before {}", self.path[self.place])
            }
            Some(periods) => {
                self.trial = Some(periods + 1);
                format!("fake Data come by {}", self.path[self.place])
            }
            None => format!("{} still receives fake Data", self.path[self.place]),
        }
    }

    /// One period without rejected Data.
    fn calm_down(
        &mut self,
        defence: &Defence,
        period: Option<Period>,
    ) -> Option<(String, Vec<String>)> {
        self.quiet += 1;
        let was_attack = self.state != DefenceState::Verifying;
        if self.quiet < defence.quiet_periods {
            if was_attack {
                self.state = DefenceState::Quiet;
                self.trial = None;
            }
            return Some(("no fake Data in the last period".to_owned(), Vec::new()));
        }
        self.state = DefenceState::Normal;
        self.rejected.clear();
        (self.quiet, self.place, self.trial, self.is_last) = (0, 0, None, false);
        if let (false, Some(period)) = (was_attack, period) {
            // No attack: the level of now is the usual one.
            self.average = Averages::default();
            self.average.learn(&period);
        }
        let reason = match was_attack {
            true => format!("no fake Data for {} periods", defence.quiet_periods),
            false => format!("nothing was rejected in {} periods", defence.quiet_periods),
        };
        Some((reason, Vec::new()))
    }

    pub fn countermeasures(&self, defence: &Defence) -> Vec<Countermeasure> {
        if matches!(self.state, DefenceState::Normal | DefenceState::Suspicious) {
            return Vec::new();
        }
        let verify = |place: usize| Countermeasure::Verify {
            element: self.path[place].clone(),
            sample: defence.sample,
            is_isolated: defence.is_isolated,
        };
        let mut all = vec![verify(self.place)];
        if self.trial.is_some() {
            all.push(verify(self.place + 1));
        }
        // With samples only, Data that were rejected before could pass.
        let repeated = self.rejected.iter().filter(|(_, count)| **count > 1);
        let names: Vec<String> = repeated.map(|(name, _)| name.clone()).collect();
        if defence.sample < 1.0 && !names.is_empty() {
            all.push(Countermeasure::Filter { element: self.path[self.place].clone(), names });
        }
        all
    }
}

/// Returns what happened between two samples. `None` after a restart.
fn period(before: &ElementSample, now: &ElementSample) -> Option<Period> {
    let requests = now.interests.checked_sub(before.interests)?;
    let hits = now.answered.checked_sub(before.answered)?.min(requests);
    let share = |count: u64| if requests == 0 { 0.0 } else { count as f64 / requests as f64 };
    Some(Period { requests, ratio: share(hits) })
}

/// Returns the prefixes of rejected names, without their last component, most frequent first.
fn prefixes(names: &[&String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        let prefix = name.rsplit_once('/').map_or("", |(prefix, _)| prefix);
        // A name of one component is erased itself: not everything.
        *counts.entry(if prefix.is_empty() { name } else { prefix }).or_default() += 1;
    }
    let mut sorted: Vec<(&str, usize)> = counts.into_iter().collect();
    sorted.sort_by(|one, other| (other.1, one.0).cmp(&(one.1, other.0)));
    let unique: BTreeSet<&str> = sorted.iter().take(ERASE_MAX).map(|(prefix, _)| *prefix).collect();
    unique.into_iter().map(str::to_owned).collect()
}
