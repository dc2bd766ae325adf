//! Content poisoning: fake Data fill a content store.
//!
//! Suspicion: the hit ratio of two periods is well below its slow average, and most of the
//! additional misses are additional Interests, which bring no more hits. So other names that become
//! popular are not suspicious, which turn hits into misses, nor are more consumers. Proof: a
//! verifier before the store rejects Data. Then what may be poisoned is erased, and the verifier
//! moves towards the origin: a second one is tried one element further, and the first is taken out
//! when the second one rejects Data. A store that it has passed may hold fakes that came by before:
//! what is poisoned is erased from it once more.
//!
//! Names that are rejected again and again feed a filter before the verifier, each for as many
//! periods as the verifier stays. A name that also had valid Data is never filtered: else fakes of
//! good names would make the network itself refuse the good Data.

use super::{DefenceState, ElementSample, Erasure};
use crate::target::Countermeasure;
use nw_graph_language::network::Defence;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Weight of a period in the slow averages.
const AVERAGE_WEIGHT: f64 = 0.05;
/// Periods that are learned from before anything is suspicious.
const LEARN_PERIODS: u32 = 10;
/// Fall of the hit ratio, in mean deviations, that is suspicious.
const DEVIATIONS: f64 = 4.0;
/// Fall of the hit ratio, as a share of it, that is suspicious whatever its deviation: that of a
/// store that has just been filled is large.
const FALL_SURE: f64 = 0.5;
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
/// Most prefixes that are erased in the course of one attack.
const ERASED_MAX: usize = 256;
/// Rejected Data of one name after which the name is filtered.
const FILTER_MIN: u32 = 2;
/// Fall of hits and growth of requests that chance explains, in mean deviations.
const CHANCE: f64 = 3.0;
/// Most names that a filter rejects.
const FILTER_MAX: usize = 64;
/// Most names that are counted.
const REJECTED_MAX: usize = 1024;

/// The machine of one content store.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    #[serde(skip)]
    before: Option<(u64, ElementSample)>,
    /// Names rejected in the period so far, by element.
    #[serde(skip)]
    failures: BTreeMap<String, Vec<String>>,
    /// Data in the period so far that lack a certificate.
    #[serde(skip)]
    unverifiable: u64,
    /// Names rejected so far.
    rejected: BTreeMap<String, RejectedName>,
    /// Prefixes erased in the course of the attack.
    erased: BTreeSet<String>,
    quiet: u32,
}

/// A name whose Data were rejected.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct RejectedName {
    /// Data rejected, or filtered in later periods.
    count: u32,
    /// Whether Data of this name were valid as well: it is never filtered.
    is_contested: bool,
    /// Periods that it has been filtered for. `None` while it is not.
    filtered_periods: Option<u32>,
}

impl RejectedName {
    fn is_filtered(&self) -> bool {
        self.filtered_periods.is_some() && !self.is_contested
    }
}

/// Slow averages over periods with enough requests.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Averages {
    periods: u32,
    ratio: f64,
    deviation: f64,
    requests: f64,
    misses: f64,
    /// Mean deviation of the hits.
    hits_deviation: f64,
}

/// One period of a store. Numbers are those of a period of the wanted length: samples come late.
#[derive(Clone, Copy, Debug)]
struct Period {
    requests: f64,
    ratio: f64,
}

impl Period {
    fn misses(&self) -> f64 {
        self.requests * (1.0 - self.ratio)
    }

    fn hits(&self) -> f64 {
        self.requests * self.ratio
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
            let hits_deviation = (period.hits() - self.hits()).abs();
            self.hits_deviation += weight * (hits_deviation - self.hits_deviation);
        }
        self.ratio += weight * (period.ratio - self.ratio);
        self.requests += weight * (period.requests - self.requests);
        self.misses += weight * (period.misses() - self.misses);
    }

    fn hits(&self) -> f64 {
        self.requests - self.misses
    }

    fn is_learning(&self) -> bool {
        self.periods < LEARN_PERIODS
    }

    fn is_suspicious(&self, period: &Period, fall: f64) -> bool {
        let is_low = period.ratio < self.ratio * (1.0 - fall)
            && self.ratio - period.ratio
                > (DEVIATIONS * self.deviation).min(FALL_SURE * self.ratio);
        let more_misses = period.misses() - self.misses;
        let more_requests = period.requests - self.requests;
        let is_added = more_requests >= ADDED_SHARE * more_misses;
        let growth = (HITS_GROWTH_MAX - 1.0) * self.hits();
        let chance = CHANCE * self.hits_deviation;
        let has_no_more_hits = period.hits() <= self.hits() + growth.max(chance);
        !self.is_learning() && is_low && is_added && has_no_more_hits
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
            unverifiable: 0,
            rejected: BTreeMap::new(),
            erased: BTreeSet::new(),
            quiet: 0,
        }
    }

    /// Returns whether its verifiers could be at these places: after a restart the document may be
    /// another one.
    pub fn has_path(&self, path: &[String]) -> bool {
        let last = self.place + usize::from(self.trial.is_some());
        self.path == path && last < path.len()
    }

    /// Returns whether what is usual is not known yet, so that nothing can be suspicious.
    pub fn is_learning(&self) -> bool {
        self.average.is_learning()
    }

    /// Takes samples; at the end of a period returns what was decided, if anything.
    pub fn observe(
        &mut self,
        defence: &Defence,
        now_ms: u64,
        samples: &[ElementSample],
    ) -> Option<(String, Vec<Erasure>)> {
        for sample in samples {
            if !self.path.contains(&sample.element) {
                continue;
            }
            let names = self.failures.entry(sample.element.clone()).or_default();
            names.extend(sample.failures.iter().take(1024 - names.len().min(1024)).cloned());
            self.unverifiable += sample.unverifiable;
            for name in &sample.contested {
                if let Some(rejected) = self.rejected_name(name) {
                    rejected.is_contested = true;
                }
            }
        }
        let sample = samples.iter().find(|sample| sample.element == self.path[0])?;
        let Some((start_ms, before)) = &self.before else {
            self.before = Some((now_ms, sample.clone()));
            return None;
        };
        if now_ms.saturating_sub(*start_ms) < defence.period_ms {
            return None;
        }
        let elapsed_ms = now_ms.saturating_sub(*start_ms);
        let period = period(before, sample, defence.period_ms as f64 / elapsed_ms as f64);
        self.before = Some((now_ms, sample.clone()));
        let failures = std::mem::take(&mut self.failures);
        let from = self.state;
        let decided = self.decide(defence, period, &failures);
        decided
            .filter(|(_, erase)| self.state != from || self.trial == Some(0) || !erase.is_empty())
    }

    /// Returns the entry of a name, a new one if there is room.
    fn rejected_name(&mut self, name: &str) -> Option<&mut RejectedName> {
        let is_full = |rejected: &BTreeMap<String, RejectedName>| {
            rejected.len() >= REJECTED_MAX && !rejected.contains_key(name)
        };
        if is_full(&self.rejected) {
            // A name that was rejected once tells nothing: others take its place.
            self.rejected.retain(|_, rejected| rejected.count > 1 || rejected.is_contested);
        }
        let is_full = is_full(&self.rejected);
        (!is_full).then(|| self.rejected.entry(name.to_owned()).or_default())
    }

    /// Notes rejected names, and lets go of names that were filtered for long enough.
    fn note_rejected(&mut self, names: &[&String], periods_max: u32) {
        for name in names {
            if let Some(rejected) = self.rejected_name(name) {
                rejected.count += 1;
            }
        }
        let filtered = self.rejected.values().filter(|rejected| rejected.is_filtered()).count();
        let mut free = FILTER_MAX.saturating_sub(filtered);
        self.rejected.retain(|_, rejected| {
            match &mut rejected.filtered_periods {
                Some(periods) => *periods += 1,
                none if rejected.count >= FILTER_MIN && !rejected.is_contested && free > 0 => {
                    (*none, free) = (Some(0), free - 1);
                }
                None => {}
            }
            rejected.filtered_periods.is_none_or(|periods| periods <= periods_max)
        });
    }

    /// Returns the prefixes of rejected names that have not been erased yet, and notes them.
    fn take_new_prefixes(&mut self, names: &[&String]) -> Vec<Erasure> {
        let mut new = prefixes(names);
        new.retain(|prefix| self.erased.len() < ERASED_MAX && self.erased.insert(prefix.clone()));
        new.into_iter().map(|prefix| Erasure { prefix, element: None }).collect()
    }

    /// Returns all prefixes of the attack, to be erased from the element before which the verifier
    /// is now.
    fn passed_prefixes(&self) -> impl Iterator<Item = Erasure> {
        let element = Some(self.path[self.place].clone());
        let erasure =
            move |prefix: &String| Erasure { prefix: prefix.clone(), element: element.clone() };
        self.erased.iter().map(erasure)
    }

    fn decide(
        &mut self,
        defence: &Defence,
        period: Option<Period>,
        failures: &BTreeMap<String, Vec<String>>,
    ) -> Option<(String, Vec<Erasure>)> {
        match self.state {
            DefenceState::Normal | DefenceState::Suspicious => {
                let is_enough = |period: &Period| period.requests >= defence.requests_min as f64;
                let period = period.filter(is_enough)?;
                self.suspect(defence, &period)
            }
            DefenceState::Verifying
            | DefenceState::Confirmed
            | DefenceState::Isolated
            | DefenceState::Quiet => self.verify(defence, period, failures),
        }
    }

    fn suspect(&mut self, defence: &Defence, period: &Period) -> Option<(String, Vec<Erasure>)> {
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
    ) -> Option<(String, Vec<Erasure>)> {
        let names: Vec<&String> = failures.values().flatten().collect();
        let unverifiable = std::mem::take(&mut self.unverifiable);
        if unverifiable > names.len() as u64 && self.state == DefenceState::Verifying {
            return Some((self.give_up(unverifiable), Vec::new()));
        }
        let is_known = !matches!(self.state, DefenceState::Verifying);
        if names.len() < if is_known { 1 } else { FAILURES_MIN } {
            return self.calm_down(defence, period);
        }
        self.quiet = 0;
        self.note_rejected(&names, defence.quiet_periods);
        let mut erase = self.take_new_prefixes(&names);
        let count = names.len();
        if !is_known {
            self.state = DefenceState::Confirmed;
            self.trial = (self.path.len() > 1).then_some(0);
            let reason = format!(
                "the verifier before {} rejected {count} Data, such as {}",
                self.path[0], names[0]
            );
            return Some((reason, erase));
        }
        let place = self.place;
        let reason = self.approach(failures);
        if self.place != place {
            erase.extend(self.passed_prefixes());
        }
        if self.trial.is_none() {
            self.state = DefenceState::Isolated;
        } else if self.state == DefenceState::Quiet {
            self.state = DefenceState::Confirmed;
        }
        Some((reason, erase))
    }

    /// Takes the verifier out, which rejects good Data as well, and learns anew what is usual.
    fn give_up(&mut self, unverifiable: u64) -> String {
        self.state = DefenceState::Normal;
        self.average = Averages::default();
        (self.quiet, self.place, self.trial, self.is_last) = (0, 0, None, false);
        format!(
            "{unverifiable} Data could not be verified, as certificates are missing that lead to \
             the anchors of `trust`: without them good Data are lost"
        )
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
    ) -> Option<(String, Vec<Erasure>)> {
        self.quiet += 1;
        self.note_rejected(&[], defence.quiet_periods);
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
        self.erased.clear();
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
        // The filter first: what it rejects is not verified.
        let filtered = self.rejected.iter().filter(|(_, rejected)| rejected.is_filtered());
        let names: Vec<String> = filtered.map(|(name, _)| name.clone()).collect();
        let mut all = Vec::new();
        if !names.is_empty() {
            all.push(Countermeasure::Filter { element: self.path[self.place].clone(), names });
        }
        all.push(verify(self.place));
        if self.trial.is_some() {
            all.push(verify(self.place + 1));
        }
        all
    }
}

/// Returns what happened between two samples, times `scale`. `None` after a restart.
fn period(before: &ElementSample, now: &ElementSample, scale: f64) -> Option<Period> {
    let requests = now.interests.checked_sub(before.interests)?;
    let hits = now.answered.checked_sub(before.answered)?.min(requests);
    let share = |count: u64| if requests == 0 { 0.0 } else { count as f64 / requests as f64 };
    Some(Period { requests: requests as f64 * scale, ratio: share(hits) })
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

#[cfg(test)]
mod tests;
