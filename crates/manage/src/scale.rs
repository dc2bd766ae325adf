//! Number of instances of each service, from the processor time they use.
//!
//! ```text
//!  load > target by more than the tolerance, for hold            ─▶ more instances
//!  load of all but one of the instances < low, for hold          ─▶ one instance less
//!  after either: no change for cool-down, nor while a plan is carried out
//! ```
//!
//! The load of an instance is its processor time as a share of its quota. An instance that has just
//! started counts as carrying nothing. The bottleneck comes first: instances are added only where
//! the other services on the path leave room for what they would carry. A single sample of those
//! says little, as quotas are given out in slices: their load is the mean over the hold time.
//! What the last addition has gained says what the next one would: see `gain`.

mod gain;

use crate::document::Document;
use crate::target::{InstanceId, Target};
use gain::{Counters, Memory, Moment, Verdict, surroundings};
use nw_graph_language::network::Scale;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Growth that the other services of a path must leave room for: 15 %.
const ROOM_MIN: f64 = 1.15;
/// Readings that are kept of an instance: at least two, and those of the hold time.
const READINGS_MAX: usize = 64;

/// Load of an instance, from its control socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSample {
    /// Instance.
    pub instance: InstanceId,
    /// Processor time since its start, seconds.
    pub cpu_s: f64,
    /// Interests received since its start.
    pub interests: u64,
    /// Packets dropped since its start.
    pub dropped: u64,
}

/// A change of the number of instances of a service, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleDecision {
    /// Service.
    pub service: String,
    /// Number of instances now.
    pub from: u32,
    /// Wanted number of instances.
    pub to: u32,
    /// Load of the service, as a share of the quotas of its instances. `None` before the second
    /// sample.
    pub load: Option<f64>,
    /// Why, with figures: one sentence for a person.
    pub reason: String,
}

/// Processor time at a moment.
#[derive(Clone, Copy, Debug)]
struct CpuReading {
    at_ms: u64,
    cpu_s: f64,
}

/// What is remembered of a service with bounds.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    high_since_ms: Option<u64>,
    low_since_ms: Option<u64>,
    last_change_ms: Option<u64>,
}

/// Decides the number of instances of each service with bounds.
#[derive(Clone, Debug, Default)]
pub struct Scaler {
    readings: BTreeMap<InstanceId, VecDeque<CpuReading>>,
    histories: BTreeMap<String, History>,
    memories: BTreeMap<String, Memory>,
    last_ms: u64,
}

impl Scaler {
    /// Takes the loads of all instances and returns a decision for each service with bounds.
    /// `replicas` is the number of instances that each service has been given; `is_changing` is
    /// true while a plan is carried out, in which no decision changes anything.
    pub fn observe(
        &mut self,
        document: &Document,
        target: &Target,
        replicas: &BTreeMap<String, u32>,
        now_ms: u64,
        samples: &[LoadSample],
        is_changing: bool,
    ) -> Vec<ScaleDecision> {
        if now_ms < self.last_ms {
            // The clock was set back: times before say nothing.
            *self = Scaler::default();
        }
        self.last_ms = now_ms;
        let scales = &document.file.network.scales;
        let window_ms = scales.iter().map(|scale| scale.hold_ms).max().unwrap_or(0);
        self.take_readings(target, now_ms, samples, window_ms);
        let loads = self.loads(target, |readings| readings.iter().rev().nth(1));
        let means = self.loads(target, |readings| readings.front());
        let is_scaled = |service: &String| scales.iter().any(|scale| scale.service == *service);
        self.histories.retain(|service, _| is_scaled(service));
        self.memories.retain(|service, _| is_scaled(service));
        let by_instance = samples.iter().map(|sample| (&sample.instance, sample)).collect();
        let mut decisions = Vec::new();
        for scale in scales {
            let now = replicas.get(&scale.service).copied().unwrap_or(scale.min);
            let now = now.clamp(scale.min, scale.max);
            let history = self.histories.entry(scale.service.clone()).or_default();
            let memory = self.memories.entry(scale.service.clone()).or_default();
            let load = loads.get(&scale.service).copied();
            let others = others_on_path(target, &scale.service);
            if let Some(load) = load {
                history.update(scale, now, load, now_ms);
            }
            let moment = Moment {
                now_ms,
                count: now,
                load,
                is_high: load.is_some() && history.high_since_ms.is_some(),
                is_cooling: history.is_cooling(scale, now_ms),
                is_changing,
                counters: Counters::take(target, &scale.service, now_ms, &by_instance),
                target,
                surroundings: surroundings(target, &scale.service, &others),
            };
            memory.observe(scale, &moment);
            let (to, reason) = match load {
                None => (now, "no load has been measured yet".to_owned()),
                Some(load) => {
                    history.decide(scale, now, load, now_ms, &busiest(&others, &means), memory)
                }
            };
            let (to, reason) = match is_changing && to != now {
                true => (now, format!("waits for the current change; then: {reason}")),
                false => (to, reason),
            };
            if to != now {
                *history = History { last_change_ms: Some(now_ms), ..History::default() };
                match to > now {
                    true => memory.add(&scale.service, moment, to),
                    false => *memory = Memory::default(),
                }
            }
            let service = scale.service.clone();
            decisions.push(ScaleDecision { service, from: now, to, load, reason });
        }
        decisions
    }

    /// Keeps the readings of a window of time before now, and at least one before the newest.
    fn take_readings(
        &mut self,
        target: &Target,
        now_ms: u64,
        samples: &[LoadSample],
        window_ms: u64,
    ) {
        let mut all = BTreeMap::new();
        for sample in samples.iter().filter(|known| target.instance(&known.instance).is_some()) {
            let reading = CpuReading { at_ms: now_ms, cpu_s: sample.cpu_s };
            let mut readings = self.readings.remove(&sample.instance).unwrap_or_default();
            // After a restart the processor time begins again.
            readings.retain(|old| old.cpu_s <= reading.cpu_s && old.at_ms < now_ms);
            readings.push_back(reading);
            let is_old = |second: &CpuReading| second.at_ms + window_ms <= now_ms;
            while readings.len() > READINGS_MAX
                || readings.len() > 2 && readings.get(1).is_some_and(is_old)
            {
                readings.pop_front();
            }
            all.insert(sample.instance.clone(), readings);
        }
        self.readings = all;
    }

    /// Returns the load of each service since an earlier reading: the mean over its instances.
    fn loads(
        &self,
        target: &Target,
        earlier: impl Fn(&VecDeque<CpuReading>) -> Option<&CpuReading>,
    ) -> BTreeMap<String, f64> {
        let mut loads: BTreeMap<String, (f64, u32, bool)> = BTreeMap::new();
        for instance in &target.instances {
            let sum = loads.entry(instance.service.clone()).or_default();
            sum.1 += 1;
            let Some(readings) = self.readings.get(&instance.id) else { continue };
            let (Some(before), Some(now)) = (earlier(readings), readings.back()) else { continue };
            if before.at_ms == now.at_ms {
                continue;
            }
            let seconds = (now.at_ms - before.at_ms) as f64 / 1e3;
            let quota = instance.quota_cores.unwrap_or(1.0).max(0.01);
            sum.0 += (now.cpu_s - before.cpu_s) / seconds / quota;
            sum.2 = true;
        }
        let known = loads.into_iter().filter(|(_, (_, _, is_known))| *is_known);
        known.map(|(service, (sum, count, _))| (service, sum / f64::from(count))).collect()
    }
}

impl History {
    fn update(&mut self, scale: &Scale, now: u32, load: f64, now_ms: u64) {
        let high = load > scale.target * (1.0 + scale.tolerance) && now < scale.max;
        let rest = load * f64::from(now) / f64::from(now.max(2) - 1);
        let low = now > scale.min && rest < scale.low;
        self.high_since_ms = high.then(|| self.high_since_ms.unwrap_or(now_ms));
        self.low_since_ms = low.then(|| self.low_since_ms.unwrap_or(now_ms));
    }

    fn is_cooling(&self, scale: &Scale, now_ms: u64) -> bool {
        let is_recent = |last| now_ms.saturating_sub(last) < scale.cool_down_ms;
        self.last_change_ms.is_some_and(is_recent)
    }

    /// Returns the wanted number of instances, and why.
    fn decide(
        &self,
        scale: &Scale,
        now: u32,
        load: f64,
        now_ms: u64,
        busiest: &Option<(String, f64)>,
        memory: &Memory,
    ) -> (u32, String) {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let held = |since: Option<u64>| {
            since.is_some_and(|since| now_ms.saturating_sub(since) >= scale.hold_ms)
        };
        let state = format!("load {} of {} instances", percent(load), now);
        if self.high_since_ms.is_none() && self.low_since_ms.is_none() {
            let limit = if now == scale.max { ", the most allowed" } else { "" };
            return (now, format!("{state}{limit}; {} is wanted", percent(scale.target)));
        }
        if self.is_cooling(scale, now_ms) {
            return (now, format!("{state}; waits after the last change (cool)"));
        }
        if held(self.low_since_ms) {
            let rest = load * f64::from(now) / f64::from(now - 1);
            let reason = format!(
                "{state}; {} instances would have {}, below {}",
                now - 1,
                percent(rest),
                percent(scale.low)
            );
            return (now - 1, reason);
        }
        if !held(self.high_since_ms) {
            return (now, format!("{state}; it must stay so (hold)"));
        }
        if let Some((service, other)) = busiest
            && other * ROOM_MIN > 1.0
            && *other >= load * 0.9
        {
            let room = ((1.0 / other).max(1.0) - 1.0) * 100.0;
            let reason = format!(
                "{state}, but {service} has {}: another instance could carry at most {room:.0} % more",
                percent(*other)
            );
            return (now, reason);
        }
        let wish = (f64::from(now) * load / scale.target).ceil() as u32;
        // At most twice as many at once: what was measured says little about more.
        let wish = wish.clamp(now + 1, now * 2).min(scale.max);
        match memory.verdict(scale, now, wish) {
            Verdict::Allow(to) => (to, format!("{state}, above {}", percent(scale.target))),
            Verdict::Measure => (now, format!("{state}; measures what the last addition gained")),
            Verdict::Refuse(reason) => (now, format!("{state}, but {reason}")),
        }
    }
}

/// Returns the service with the highest load.
fn busiest(services: &BTreeSet<&str>, loads: &BTreeMap<String, f64>) -> Option<(String, f64)> {
    let known =
        services.iter().filter_map(|service| Some(((*service).to_owned(), *loads.get(*service)?)));
    known.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// Returns the other services that Interests pass before or after a service.
fn others_on_path<'a>(target: &'a Target, service: &str) -> BTreeSet<&'a str> {
    let of =
        |id: &InstanceId| target.instance(id).map(|found| (found.service.as_str(), found.depth));
    let mut edges: BTreeSet<(&str, &str)> = BTreeSet::new();
    for link in &target.links {
        let (Some(one), Some(other)) = (of(&link.from.instance), of(&link.to.instance)) else {
            continue;
        };
        // Interests go from the greater depth to the smaller one.
        let (before, after) = if one.1 >= other.1 { (one.0, other.0) } else { (other.0, one.0) };
        edges.insert((before, after));
    }
    let reach = |forward: bool| {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let mut queue = vec![service];
        while let Some(next) = queue.pop() {
            for (before, after) in &edges {
                let (from, to) = if forward { (*before, *after) } else { (*after, *before) };
                if from == next && to != service && found.insert(to) {
                    queue.push(to);
                }
            }
        }
        found
    };
    reach(true).union(&reach(false)).copied().collect()
}
