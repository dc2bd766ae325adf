//! Figure 5: a backward router with a quota is the bottleneck between a store and a name router;
//! the manager adds instances while a consumer keeps 32 Interests under way, and removes them when
//! it slows down.
//!
//! `quotas.rs` says how much processor time each service may use.

use super::exchange::{Answers, Names, Producer, ask, workload};
use super::managed::{ManagedNetwork, failed};
use super::mundn_paper;
use super::quotas::{Quotas, document};
use crate::testbed::{Failure, Watch};
use nw_api::service::ServiceStatus;
use nw_traffic::result::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Period of samples and decisions, milliseconds. The paper's is 20 s.
const PERIOD_MS: u64 = 500;
/// Time limit until the clones are gone after the load.
const DOWN_LIMIT: Duration = Duration::from_secs(30);
/// Time after a change that is left out of the throughput, seconds.
const SETTLE_S: f64 = 0.5;
/// Most times that the load is repeated until a clone carries traffic: a machine with other work
/// may give the services too little processor time for a while.
const LOADS_MAX: u32 = 3;
/// Growth below which another instance was useless.
const USEFUL_MIN: f64 = 1.15;
/// Difference of two loads, as shares of quotas, that is no chance.
const BOTTLENECK_MARGIN: f64 = 0.05;

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Quotas of the services.
    pub quotas: Quotas,
    /// Reasons why a quota was not in effect, or why another service was the bottleneck.
    pub quota_problems: Vec<String>,
    /// Load of each service with one backward router, and with two: the mean over its instances,
    /// as a share of the quota.
    pub loads: [BTreeMap<String, f64>; 2],
    /// Throughput over time since the load began: seconds, Mbit/s.
    pub mbit: Vec<(f64, f64)>,
    /// Processor time by instance over time: seconds, percent of a core.
    pub cpu_percent: BTreeMap<String, Vec<(f64, f64)>>,
    /// When the number of backward routers that carry traffic changed: seconds, number.
    pub instances: Vec<(f64, u32)>,
    /// Throughput with one backward router, Mbit/s.
    pub mbit_one: f64,
    /// Throughput with two, Mbit/s.
    pub mbit_two: f64,
    /// Throughput with three, Mbit/s; `None` if there never were three.
    pub mbit_three: Option<f64>,
    /// Time from the begin of the load until the first clone carried traffic, seconds.
    pub seconds_to_carry: f64,
    /// Interests without an answer, up and down.
    pub lost: u64,
    /// Data that came twice, up and down.
    pub duplicates: u64,
    /// Nacks, up and down.
    pub refused: u64,
    /// Exchanges in all.
    pub exchanges: u64,
    /// Why no further instance was added, as the manager said under load.
    pub reason: String,
    /// Decisions of the manager, as it printed them.
    pub decisions: Vec<String>,
    /// Whether all services ran the graphs of the begin at the end, and no others.
    pub end_equals_start: bool,
    /// Processor time of the manager, percent of a core.
    pub manager_percent: f64,
}

impl Scaling {
    /// Returns the throughput with two backward routers divided by that with one.
    pub fn speedup(&self) -> f64 {
        self.mbit_two / self.mbit_one
    }

    /// Returns the number of instances that raised the throughput by less than 15 %.
    pub fn useless_instances(&self) -> u32 {
        let is_useless = |mbit: f64| mbit < USEFUL_MIN * self.mbit_two;
        u32::from(self.mbit_three.is_some_and(is_useless))
    }
}

/// Returns bounds and policy of the backward router.
fn scale(is_quick: bool) -> &'static str {
    // A quick run must scale on a busy machine too, which gives a service less than its quota.
    match is_quick {
        true => "1..3 target=60% low=30% hold=800ms cool=2s",
        false => "1..3 target=80% low=25% hold=800ms cool=3s",
    }
}

/// Samples of a load, taken while it runs.
struct Sampler<'a> {
    network: &'a ManagedNetwork,
    begun: Instant,
    /// Number of backward routers that carry traffic.
    carrying: u32,
    cpu: BTreeMap<String, (f64, Duration)>,
    next_cpu_s: f64,
    result: Scaling,
}

/// Interval between samples of processor times, seconds.
const CPU_INTERVAL_S: f64 = 0.5;

impl Sampler<'_> {
    fn tick(&mut self) {
        let at_s = self.begun.elapsed().as_secs_f64();
        let carries = |number: &u32| {
            let status =
                self.network.instance::<ServiceStatus>(&format!("br~{number}"), "/v1/service");
            status.is_ok_and(|status| status.received[0] > 0 && !status.draining)
        };
        let carrying = (1..=3).filter(carries).count() as u32;
        if carrying != self.carrying && carrying > 0 {
            self.carrying = carrying;
            self.result.instances.push((at_s, carrying));
        }
        if at_s >= self.next_cpu_s {
            self.next_cpu_s = at_s + CPU_INTERVAL_S;
            self.sample_cpu(at_s);
        }
    }

    fn sample_cpu(&mut self, at_s: f64) {
        let Ok(graph) = self.network.graph() else { return };
        let router = graph.services.iter().find(|service| service.name == "br");
        if let Some(reason) = router.and_then(|router| router.reason.as_ref())
            && reason.contains("another instance could carry")
        {
            self.result.reason.clone_from(reason);
        }
        for (name, cpu) in self.network.instance_cpu().unwrap_or_default() {
            let before = self.cpu.insert(name.clone(), (at_s, cpu));
            if let Some((before_s, before)) = before {
                let used = cpu.saturating_sub(before).as_secs_f64() / (at_s - before_s);
                self.result.cpu_percent.entry(name).or_default().push((at_s, used * 100.0));
            }
        }
    }

    /// Adds the counters and the curve of a load that began at a time.
    fn add(&mut self, outcome: &Outcome, began_s: f64) {
        let bytes = outcome.data_bytes.map_or(0, |range| range.max) as f64;
        self.result.mbit.extend(
            outcome
                .series
                .iter()
                .map(|point| (began_s + point.at_s, point.answered_per_s * bytes * 8.0 / 1e6)),
        );
        self.result.lost += outcome.lost;
        self.result.duplicates += outcome.unexpected;
        self.result.refused += outcome.refused.values().sum::<u64>();
        self.result.exchanges += outcome.answered;
    }
}

/// Runs the experiment; `is_quick` takes a quarter of the time.
pub fn scaling(nw: &Path, is_quick: bool, watch: &Watch<'_>) -> Result<Scaling, Failure> {
    let (loaded_s, slow_s) = if is_quick { (5.0, 1.0) } else { (20.0, 6.0) };
    (watch.progress)("figure 5: costs of an exchange without quotas");
    let costs_s = if is_quick { 1.0 } else { 4.0 };
    let quotas = Quotas::measure(nw, costs_s, &mundn_paper(), watch)?;
    let mut network = ManagedNetwork::start(nw, PERIOD_MS, watch, |folder| {
        Ok(document(folder, Some(quotas), scale(is_quick)))
    })?;
    let graphs = network.graphs()?;
    let requests = workload(Names::New);
    let producer = Answers::Generated(0);
    let _producer = Producer::start(&network.socket("p.sock")?, &requests, producer, true)?;
    let near = network.socket("c.sock")?;
    let (before, begun) = (network.manager_cpu(), Instant::now());
    let mut sampler = Sampler {
        network: &network,
        begun,
        carrying: 0,
        cpu: BTreeMap::new(),
        next_cpu_s: 0.0,
        result: Scaling { quotas, ..Scaling::default() },
    };
    (watch.progress)("figure 5: 32 Interests under way");
    for _ in 0..LOADS_MAX {
        let began_s = begun.elapsed().as_secs_f64();
        let requests = workload(Names::New);
        let loaded = ask(&near, &requests, (32, loaded_s), watch, || sampler.tick())?;
        sampler.add(&loaded, began_s);
        if sampler.carrying > 1 {
            break;
        }
    }
    let loaded_s = begun.elapsed().as_secs_f64();
    let slow_at_s = begun.elapsed().as_secs_f64();
    (watch.progress)("figure 5: one Interest under way");
    let slow = ask(&near, &workload(Names::New), (1, slow_s), watch, || sampler.tick())?;
    sampler.add(&slow, slow_at_s);
    while sampler.network.graph()?.services.iter().any(|service| service.running > 1) {
        if begun.elapsed().as_secs_f64() > loaded_s + slow_s + DOWN_LIMIT.as_secs_f64() {
            return Err(failed("figure 5", "the clones were not removed after the load"));
        }
        sampler.tick();
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut result = sampler.result;
    let used = (network.manager_cpu() - before).as_secs_f64();
    result.manager_percent = 100.0 * used / begun.elapsed().as_secs_f64();
    network.wait_converged(watch)?;
    result.end_equals_start = network.graphs()? == graphs;
    finish(&mut result, &network, loaded_s)?;
    Ok(result)
}

/// Computes what follows from the samples.
fn finish(result: &mut Scaling, network: &ManagedNetwork, loaded_s: f64) -> Result<(), Failure> {
    let first = |count: u32| result.instances.iter().find(|(_, n)| *n == count).map(|(at, _)| *at);
    let Some(two_s) = first(2) else {
        let reason = network.log().lines().rev().take(2).collect::<Vec<_>>().join("; ");
        return Err(failed("figure 5", format!("no clone was added under load: {reason}")));
    };
    let three_s = first(3);
    result.seconds_to_carry = two_s;
    result.mbit_one = mean(&result.mbit, SETTLE_S, two_s);
    result.mbit_two = mean(&result.mbit, two_s + SETTLE_S, three_s.unwrap_or(loaded_s));
    result.mbit_three = three_s.map(|at| mean(&result.mbit, at + SETTLE_S, loaded_s));
    let log = network.log();
    let is_decision = |line: &&str| line.contains(" br: ") && line.contains("instead of");
    result.decisions = log.lines().filter(is_decision).map(str::to_owned).collect();
    let conditions = network.graph()?.conditions;
    let quotas = conditions.into_iter().filter(|known| known.kind == "QuotaNotInEffect");
    result.quota_problems =
        quotas.map(|known| format!("{}: {}", known.subject, known.reason)).collect();
    let end_s = three_s.unwrap_or(loaded_s);
    result.loads = [(SETTLE_S, two_s), (two_s + SETTLE_S, end_s)]
        .map(|(from_s, to_s)| loads(result, from_s, to_s));
    result.quota_problems.extend(other_bottleneck(&result.loads[0]));
    Ok(())
}

/// Returns the load of each service between two times.
fn loads(result: &Scaling, from_s: f64, to_s: f64) -> BTreeMap<String, f64> {
    let Quotas { router, store, name_router } = result.quotas;
    let load = |(service, quota): (&str, f64)| {
        let is_of = |name: &String| name.split('~').next() == Some(service);
        let curves = result.cpu_percent.iter().filter(|(name, _)| is_of(name));
        let points = curves.flat_map(|(_, curve)| curve);
        let inside = points.filter(|(at_s, _)| (from_s..to_s).contains(at_s));
        let values: Vec<f64> = inside.map(|(_, percent)| percent / 100.0 / quota).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then(|| (service.to_owned(), mean))
    };
    [("br", router), ("cs", store), ("nr", name_router)].into_iter().filter_map(load).collect()
}

/// Returns what is wrong if the backward router was not the bottleneck before it was scaled.
fn other_bottleneck(loads: &BTreeMap<String, f64>) -> Option<String> {
    let router = loads.get("br")?;
    let (service, load) = loads.iter().max_by(|one, other| one.1.total_cmp(other.1))?;
    (load - router > BOTTLENECK_MARGIN).then(|| {
        format!(
            "with one backward router, {service} used {:.0} % of its quota and the router {:.0} %",
            load * 100.0,
            router * 100.0
        )
    })
}

/// Returns the mean of a curve between two times; of all of it if there is nothing between.
fn mean(points: &[(f64, f64)], from_s: f64, to_s: f64) -> f64 {
    let inside = points.iter().filter(|(at, _)| (from_s..to_s).contains(at));
    let values: Vec<f64> = inside.map(|(_, value)| *value).collect();
    match values.len() {
        0 => points.iter().map(|(_, value)| value).sum::<f64>() / points.len().max(1) as f64,
        count => values.iter().sum::<f64>() / count as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_instance_without_growth_is_useless() {
        let mut scaling = Scaling { mbit_one: 100.0, mbit_two: 180.0, ..Scaling::default() };
        assert_eq!((scaling.speedup(), scaling.useless_instances()), (1.8, 0));
        scaling.mbit_three = Some(190.0);
        assert_eq!(scaling.useless_instances(), 1);
        scaling.mbit_three = Some(250.0);
        assert_eq!(scaling.useless_instances(), 0);
    }

    #[test]
    fn mean_takes_the_points_between_two_times() {
        let points = [(0.0, 9.0), (1.0, 1.0), (2.0, 3.0), (3.0, 9.0)];
        assert_eq!(mean(&points, 1.0, 3.0), 2.0);
        assert_eq!(mean(&points, 5.0, 6.0), 5.5);
    }

    #[test]
    fn service_nearer_to_its_quota_than_the_router_is_told() {
        let curve = |percent| vec![(0.2, 90.0), (1.0, percent), (1.5, percent), (9.0, 1.0)];
        let mut result = Scaling {
            quotas: Quotas { router: 0.1, store: 0.2, name_router: 0.2 },
            ..Scaling::default()
        };
        for (name, percent) in [("br~1", 8.0), ("br~2", 10.0), ("cs~1", 12.0)] {
            result.cpu_percent.insert(name.to_owned(), curve(percent));
        }
        let now = loads(&result, 0.5, 2.0);
        assert_eq!(now.len(), 2, "{now:?}");
        assert!((now["br"] - 0.9).abs() < 1e-9 && (now["cs"] - 0.6).abs() < 1e-9, "{now:?}");
        assert_eq!(other_bottleneck(&now), None);
        result.cpu_percent.insert("nr~1".to_owned(), curve(20.0));
        let problem = other_bottleneck(&loads(&result, 0.5, 2.0)).unwrap();
        assert!(problem.contains("nr used 100 % of its quota and the router 90 %"), "{problem}");
    }
}
