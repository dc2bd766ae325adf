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
//! the other services on the path leave room for what they would carry.

use crate::document::Document;
use crate::target::{InstanceId, Target};
use nw_graph_language::network::Scale;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Growth that the other services of a path must leave room for: 15 %.
const ROOM_MIN: f64 = 1.15;

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
    readings: BTreeMap<InstanceId, CpuReading>,
    histories: BTreeMap<String, History>,
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
        let loads = self.loads(target, now_ms, samples);
        let scales = &document.file.network.scales;
        self.histories.retain(|service, _| scales.iter().any(|scale| scale.service == *service));
        let mut decisions = Vec::new();
        for scale in scales {
            let now = replicas.get(&scale.service).copied().unwrap_or(scale.min);
            let now = now.clamp(scale.min, scale.max);
            let history = self.histories.entry(scale.service.clone()).or_default();
            let load = loads.get(&scale.service).copied();
            let (to, reason) = match load {
                None => (now, "no load has been measured yet".to_owned()),
                Some(load) => {
                    history.update(scale, now, load, now_ms);
                    let others = others_on_path(target, &scale.service);
                    history.decide(scale, now, load, now_ms, &busiest(&others, &loads))
                }
            };
            let (to, reason) = match is_changing && to != now {
                true => (now, format!("waits for the current change; then: {reason}")),
                false => (to, reason),
            };
            if to != now {
                *history = History { last_change_ms: Some(now_ms), ..History::default() };
            }
            let service = scale.service.clone();
            decisions.push(ScaleDecision { service, from: now, to, load, reason });
        }
        decisions
    }

    /// Returns the load of each service: the mean over its instances.
    fn loads(
        &mut self,
        target: &Target,
        now_ms: u64,
        samples: &[LoadSample],
    ) -> BTreeMap<String, f64> {
        let mut loads: BTreeMap<String, (f64, u32, bool)> = BTreeMap::new();
        let mut readings = BTreeMap::new();
        for instance in &target.instances {
            let sum = loads.entry(instance.service.clone()).or_default();
            sum.1 += 1;
            let Some(sample) = samples.iter().find(|sample| sample.instance == instance.id) else {
                continue;
            };
            let reading = CpuReading { at_ms: now_ms, cpu_s: sample.cpu_s };
            let before = self.readings.get(&instance.id);
            readings.insert(instance.id.clone(), reading);
            // After a restart the processor time begins again.
            let before = before
                .filter(|before| before.cpu_s <= reading.cpu_s && before.at_ms < reading.at_ms);
            if let Some(before) = before {
                let seconds = (reading.at_ms - before.at_ms) as f64 / 1e3;
                let quota = instance.quota_cores.unwrap_or(1.0).max(0.01);
                sum.0 += (reading.cpu_s - before.cpu_s) / seconds / quota;
                sum.2 = true;
            }
        }
        self.readings = readings;
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

    /// Returns the wanted number of instances, and why.
    fn decide(
        &self,
        scale: &Scale,
        now: u32,
        load: f64,
        now_ms: u64,
        busiest: &Option<(String, f64)>,
    ) -> (u32, String) {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let held = |since: Option<u64>| since.is_some_and(|since| now_ms - since >= scale.hold_ms);
        let is_cooling = self.last_change_ms.is_some_and(|last| now_ms - last < scale.cool_down_ms);
        let state = format!("load {} of {} instances", percent(load), now);
        if self.high_since_ms.is_none() && self.low_since_ms.is_none() {
            let limit = if now == scale.max { ", the most allowed" } else { "" };
            return (now, format!("{state}{limit}; {} is wanted", percent(scale.target)));
        }
        if is_cooling {
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
        let to = wish.clamp(now + 1, now * 2).min(scale.max);
        (to, format!("{state}, above {}", percent(scale.target)))
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
