//! What the last added instance has gained, and what the next one would gain.
//!
//! ```text
//!  high load ─▶ window of the hold time ─▶ addition, cool-down ─▶ window of the hold time ─▶ gain
//!                                                     the next one gains enough: it is added
//!                                                     it does not: refused until the gain expires
//! ```
//!
//! Instances contend for what follows them, and each has smaller batches. With the contention `s`,
//! `n` instances carry `X(n) = n X(1) / (1 + s (n - 1))`: Amdahl's law, or Gunther's model without
//! its coherency term. Two measurements give `s`, and `s` gives all other `X(n)`.
//!
//! The gain is forgotten when it says nothing any more: the load is below its target, the service
//! has other instances, other services of the path have changed, or it is too old.

use super::{LoadSample, ROOM_MIN};
use crate::target::{Instance, InstanceId, Origin, Target};
use nw_graph_language::network::Scale;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Part of what an instance carries on average that one more must carry at least: 30 %. That is a
/// growth of 15 % at two instances and, unlike that, can be reached with any number of them.
const SHARE_MIN: f64 = (ROOM_MIN - 1.0) * 2.0;
/// Load from which a service carries what it can. Below it, the offered load is what it carries.
const FULL_MIN: f64 = 0.9;
/// Most by which the load may be lower after the addition: below that, the instances are not full
/// yet, and have smaller batches than they would have.
const FALL_MAX: f64 = 0.05;
/// A gain holds for this many times the shortest time between two additions, so that additions that
/// are tried again are rare among those that are made.
const LIFETIME_FACTOR: u64 = 30;
/// Shortest time that a gain holds, milliseconds.
const LIFETIME_MIN_MS: u64 = 60_000;
/// How often the time doubles while each instance that is tried gains too little.
const DOUBLINGS_MAX: u32 = 3;
/// Hold times after the cool-down in which the gain must be measured. Without it, the next addition
/// is free.
const HOLDS_MAX: u64 = 3;

/// Counters of an instance, and its quota.
#[derive(Clone, Copy, Debug)]
struct Counter {
    cpu_s: f64,
    interests: u64,
    quota_cores: f64,
}

/// Counters of all instances of a service at a moment.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    at_ms: u64,
    instances: BTreeMap<InstanceId, Counter>,
}

impl Counters {
    /// Returns the counters of a service. `None` if the sample of an instance is missing.
    pub(super) fn take(
        target: &Target,
        service: &str,
        at_ms: u64,
        samples: &BTreeMap<&InstanceId, &LoadSample>,
    ) -> Option<Counters> {
        let own = target.instances.iter().filter(|instance| instance.service == service);
        let counter = |instance: &Instance| {
            let sample = samples.get(&instance.id)?;
            let quota_cores = instance.quota_cores.unwrap_or(1.0).max(0.01);
            let counter = Counter { cpu_s: sample.cpu_s, interests: sample.interests, quota_cores };
            Some((instance.id.clone(), counter))
        };
        let instances = own.map(counter).collect::<Option<BTreeMap<_, _>>>()?;
        (!instances.is_empty()).then_some(Counters { at_ms, instances })
    }
}

/// What a service carried in a window of time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Throughput {
    /// Mean over the instances, as a share of their quotas.
    load: f64,
    interests_per_s: f64,
}

impl Throughput {
    /// Returns the throughput between two moments. `None` if an instance came, went or began again.
    fn between(before: &Counters, after: &Counters) -> Option<Throughput> {
        let seconds = after.at_ms.checked_sub(before.at_ms).filter(|ms| *ms > 0)? as f64 / 1e3;
        if before.instances.len() != after.instances.len() {
            return None;
        }
        let (mut load, mut interests) = (0.0, 0.0);
        for (id, now) in &after.instances {
            let old = before.instances.get(id)?;
            let cpu_s = now.cpu_s - old.cpu_s;
            interests += now.interests.checked_sub(old.interests)? as f64;
            // Also if one is no number.
            if !(cpu_s >= 0.0 && cpu_s.is_finite()) || now.quota_cores != old.quota_cores {
                return None;
            }
            load += cpu_s / seconds / now.quota_cores;
        }
        let load = load / after.instances.len() as f64;
        Some(Throughput { load, interests_per_s: interests / seconds })
    }

    /// Returns the Interests per second that would use the whole quotas.
    fn at_full_load(&self) -> f64 {
        self.interests_per_s / self.load
    }

    fn is_full(&self) -> bool {
        self.load >= FULL_MIN && self.interests_per_s > 0.0
    }
}

/// Returns `X(n) / X(1)`.
fn speedup(count: u32, contention: f64) -> f64 {
    f64::from(count) / (1.0 + contention * (f64::from(count) - 1.0))
}

/// Returns the contention that follows from a ratio of throughputs: `ratio` is `X(to) / X(from)`.
/// It is 0 if the gain is larger than the number, infinite if no contention explains so small a
/// ratio.
fn contention(from: u32, to: u32, ratio: f64) -> f64 {
    let (from, to) = (f64::from(from), f64::from(to));
    let missing = to - ratio * from;
    let explained = ratio * from * (to - 1.0) - to * (from - 1.0);
    if missing <= 0.0 {
        0.0
    } else if explained <= 0.0 {
        f64::INFINITY
    } else {
        missing / explained
    }
}

/// Returns the growth by one more instance, as a share of what all carry. Not below 0.
fn next_growth(count: u32, contention: f64) -> f64 {
    if contention.is_infinite() {
        return 0.0;
    }
    (speedup(count + 1, contention) / speedup(count, contention) - 1.0).max(0.0)
}

/// Returns the growth that one more instance must bring at least.
fn growth_min(count: u32) -> f64 {
    SHARE_MIN / f64::from(count)
}

/// What a gain depends on, beside the number of instances: the largest quota of these, and of each
/// other service of the path its name, number of instances and largest quota.
pub(super) type Surroundings = (f64, BTreeMap<String, (u32, f64)>);

/// Returns what a service's gain depends on. A forwarder that spreads Interests over instances
/// comes and goes with these, so it is left out.
pub(super) fn surroundings(
    target: &Target,
    service: &str,
    others: &BTreeSet<&str>,
) -> Surroundings {
    let mut found = Surroundings::default();
    for instance in &target.instances {
        let quota = instance.quota_cores.unwrap_or(1.0);
        if instance.service == service {
            found.0 = found.0.max(quota);
        } else if others.contains(instance.service.as_str()) && instance.origin != Origin::Scaling {
            let known = found.1.entry(instance.service.clone()).or_default();
            *known = (known.0 + 1, known.1.max(quota));
        }
    }
    found
}

/// What a sample says about a service.
pub(super) struct Moment<'a> {
    pub(super) now_ms: u64,
    /// Number of instances that the service has been given.
    pub(super) count: u32,
    /// Load since the last sample. `None` before the second one.
    pub(super) load: Option<f64>,
    /// Whether it calls for more instances.
    pub(super) is_high: bool,
    /// Whether the cool-down after the last change has not passed.
    pub(super) is_cooling: bool,
    /// Whether a plan is carried out.
    pub(super) is_changing: bool,
    /// `None` if the sample of an instance is missing.
    pub(super) counters: Option<Counters>,
    pub(super) target: &'a Target,
    pub(super) surroundings: Surroundings,
}

/// An addition whose gain is, or will be, known.
#[derive(Clone, Debug)]
struct Addition {
    from: u32,
    to: u32,
    at_ms: u64,
    before: Throughput,
    surroundings: Surroundings,
    /// Instances that were there before; with the gain, all of them.
    instances: BTreeSet<InstanceId>,
    gain: Option<Gain>,
}

#[derive(Clone, Copy, Debug)]
struct Gain {
    at_ms: u64,
    after: Throughput,
    contention: f64,
}

/// What is remembered of a service's last addition.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Begin of the window of high load that is measured, and of its newer half.
    windows: VecDeque<Counters>,
    /// What was carried in that window, once it is long enough.
    carried: Option<Throughput>,
    addition: Option<Addition>,
    below_since_ms: Option<u64>,
    /// How often in a row an instance was refused and tried later.
    trials: u32,
}

/// What the memory says about more instances.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// At most this many.
    Allow(u32),
    /// The last addition is being measured.
    Measure,
    /// Not one more, for a reason.
    Refuse(String),
}

impl Memory {
    /// Takes a sample.
    pub(super) fn observe(&mut self, scale: &Scale, moment: &Moment<'_>) {
        self.forget(scale, moment);
        let is_settling = moment.is_cooling && self.is_pending();
        self.measure(scale, moment, is_settling);
        let Some(addition) = self.addition.as_mut().filter(|addition| addition.gain.is_none())
        else {
            return;
        };
        let deadline_ms = addition
            .at_ms
            .saturating_add(scale.cool_down_ms)
            .saturating_add(scale.hold_ms.saturating_mul(HOLDS_MAX));
        match self.carried {
            Some(after) if !is_settling => {
                let before = addition.before;
                if !after.is_full() || after.load < before.load - FALL_MAX {
                    self.addition = None;
                    return;
                }
                let ratio = after.at_full_load() / before.at_full_load();
                let contention = contention(addition.from, addition.to, ratio);
                addition.instances = own_instances(moment.target, &scale.service);
                addition.gain = Some(Gain { at_ms: moment.now_ms, after, contention });
            }
            _ if moment.now_ms >= deadline_ms && !is_settling => self.addition = None,
            _ => {}
        }
    }

    /// Remembers an addition that has been decided.
    pub(super) fn add(&mut self, service: &str, moment: Moment<'_>, to: u32) {
        let before = self.carried.filter(Throughput::is_full);
        self.addition = before.map(|before| Addition {
            from: moment.count,
            to,
            at_ms: moment.now_ms,
            before,
            surroundings: moment.surroundings,
            instances: own_instances(moment.target, service),
            gain: None,
        });
        self.windows.clear();
        (self.carried, self.below_since_ms) = (None, None);
    }

    /// Returns what may be added to reach a larger number of instances.
    pub(super) fn verdict(&self, scale: &Scale, now: u32, wish: u32) -> Verdict {
        let Some(addition) = &self.addition else {
            // What was refused before is tried with one.
            return Verdict::Allow(if self.trials > 0 { now + 1 } else { wish });
        };
        let Some(gain) = addition.gain else { return Verdict::Measure };
        // Each further one gains less than the one before.
        let is_enough = |count: &u32| next_growth(*count, gain.contention) >= growth_min(*count);
        let allowed = (now..wish).take_while(is_enough).last().map(|last| last + 1);
        if let Some(allowed) = allowed {
            return Verdict::Allow(allowed);
        }
        Verdict::Refuse(format!(
            "at full load these carry {:.0} Interests/s and {} carried {:.0}: another instance \
             could carry about {:.0} % more, less than {:.0} %; it is tried again after {:.0} s",
            gain.after.at_full_load(),
            addition.from,
            addition.before.at_full_load(),
            next_growth(now, gain.contention) * 100.0,
            growth_min(now) * 100.0,
            self.lifetime_ms(scale) as f64 / 1e3,
        ))
    }

    fn is_pending(&self) -> bool {
        self.addition.as_ref().is_some_and(|addition| addition.gain.is_none())
    }

    /// Returns how long a gain holds.
    fn lifetime_ms(&self, scale: &Scale) -> u64 {
        let shortest_ms = scale.cool_down_ms.saturating_add(scale.hold_ms);
        let lifetime_ms = shortest_ms.saturating_mul(LIFETIME_FACTOR).max(LIFETIME_MIN_MS);
        lifetime_ms.saturating_mul(1 << self.trials.min(DOUBLINGS_MAX))
    }

    /// Forgets a gain that says nothing any more.
    fn forget(&mut self, scale: &Scale, moment: &Moment<'_>) {
        // A load without all instances is no load; after a change it says little.
        let is_sure = moment.counters.is_some() && !moment.is_cooling && !moment.is_changing;
        let is_below = is_sure && moment.load.is_some_and(|load| load < scale.target);
        self.below_since_ms = is_below.then(|| self.below_since_ms.unwrap_or(moment.now_ms));
        let is_below = self
            .below_since_ms
            .is_some_and(|since| moment.now_ms.saturating_sub(since) >= scale.hold_ms);
        if is_below {
            self.trials = 0;
        }
        let Some(addition) = &self.addition else { return };
        let own = own_instances(moment.target, &scale.service);
        let are_others = match addition.gain {
            None => !own.is_superset(&addition.instances),
            Some(_) => own != addition.instances,
        };
        if is_below
            || are_others
            || moment.count != addition.to
            || moment.surroundings != addition.surroundings
            || moment.now_ms < addition.at_ms
        {
            (self.addition, self.trials) = (None, 0);
            return;
        }
        let Some(gain) = addition.gain else { return };
        let is_refusing = next_growth(addition.to, gain.contention) < growth_min(addition.to);
        if !is_refusing {
            self.trials = 0;
        }
        if moment.now_ms.saturating_sub(gain.at_ms) >= self.lifetime_ms(scale) {
            self.addition = None;
            self.trials += u32::from(is_refusing);
        }
    }

    /// Goes on with the window of high load, or begins it anew. It is as long as the hold time at
    /// least, and at most two hold times and two samples: the older half goes when the newer one is
    /// long enough.
    fn measure(&mut self, scale: &Scale, moment: &Moment<'_>, is_settling: bool) {
        self.carried = None;
        let Some(now) = moment.counters.as_ref() else { return self.windows.clear() };
        let is_steady = moment.is_high && !moment.is_changing && !is_settling;
        let is_known = |since: &Counters| Throughput::between(since, now).is_some();
        if !is_steady || !self.windows.back().is_some_and(is_known) {
            self.windows.clear();
        }
        let is_long = |since: &Counters| moment.now_ms.saturating_sub(since.at_ms) >= scale.hold_ms;
        if self.windows.len() > 1 && self.windows.back().is_some_and(is_long) {
            self.windows.pop_front();
        }
        let since = self.windows.front().filter(|since| is_long(since));
        self.carried = since.and_then(|since| Throughput::between(since, now));
        if self.windows.back().is_none_or(is_long) {
            self.windows.push_back(now.clone());
        }
    }
}

fn own_instances(target: &Target, service: &str) -> BTreeSet<InstanceId> {
    let own = target.instances.iter().filter(|instance| instance.service == service);
    own.map(|instance| instance.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_of_the_paper_refuses_a_third_instance() {
        let s = contention(1, 2, 1.3);
        assert!((s - 0.538).abs() < 1e-3, "{s}");
        assert!((next_growth(2, s) - 0.111).abs() < 1e-3, "{}", next_growth(2, s));
        assert!(next_growth(2, s) < growth_min(2));
        assert!((growth_min(2) - 0.15).abs() < 1e-9);
    }

    #[test]
    fn contention_is_found_again_from_any_two_numbers() {
        for s in [0.0, 0.01, 0.1, 0.3, 0.54, 0.9, 1.0, 1.5] {
            for (from, to) in [(1, 2), (1, 4), (2, 3), (3, 5), (7, 14), (63, 64)] {
                let found = contention(from, to, speedup(to, s) / speedup(from, s));
                assert!((found - s).abs() < 1e-9, "{found} instead of {s}: {from} to {to}");
            }
        }
    }

    #[test]
    fn ratios_that_the_model_does_not_explain_are_bounded() {
        assert_eq!(contention(2, 3, 1.9), 0.0, "more than the number");
        assert!((next_growth(3, 0.0) - 1.0 / 3.0).abs() < 1e-9);
        let s = contention(2, 3, 0.5);
        assert!(s.is_infinite() && next_growth(3, s) == 0.0, "less than with any contention");
        assert_eq!(next_growth(2, contention(1, 2, 0.94)), 0.0, "less than one carried");
    }

    #[test]
    fn without_contention_any_number_gains_enough() {
        for count in 2..64 {
            assert!(next_growth(count, 0.0) > growth_min(count), "{count}");
            assert!(next_growth(count, 1.0) < growth_min(count), "{count}");
        }
    }

    #[test]
    fn throughput_needs_the_same_instances_that_have_not_begun_again() {
        let id = |name: &str| InstanceId { name: name.to_owned(), host: "here".to_owned() };
        let counters = |at_ms, of: &[(&str, f64, u64)]| {
            let counter = |(name, cpu_s, interests): &(&str, f64, u64)| {
                (id(name), Counter { cpu_s: *cpu_s, interests: *interests, quota_cores: 0.5 })
            };
            Counters { at_ms, instances: of.iter().map(counter).collect() }
        };
        let before = counters(1_000, &[("br~1", 1.0, 100), ("br~2", 2.0, 50)]);
        let after = counters(3_000, &[("br~1", 2.0, 1_100), ("br~2", 2.5, 1_050)]);
        let carried = Throughput::between(&before, &after).expect("both ran");
        assert_eq!(carried, Throughput { load: 0.75, interests_per_s: 1_000.0 });
        let wrong = [
            counters(1_000, &[("br~1", 2.0, 1_100), ("br~2", 2.5, 1_050)]),
            counters(3_000, &[("br~1", 0.1, 1_100), ("br~2", 2.5, 1_050)]),
            counters(3_000, &[("br~1", 2.0, 9), ("br~2", 2.5, 1_050)]),
            counters(3_000, &[("br~1", f64::NAN, 1_100), ("br~2", 2.5, 1_050)]),
            counters(3_000, &[("br~1", 2.0, 1_100), ("br~3", 2.5, 1_050)]),
            counters(3_000, &[("br~1", 2.0, 1_100)]),
        ];
        for after in wrong {
            assert_eq!(Throughput::between(&before, &after), None, "{after:?}");
        }
    }
}
