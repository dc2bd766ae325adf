//! Scaling in a closed loop: loads follow from the number of instances, decisions from the loads.

use nw_manage::scale::{LoadSample, ScaleDecision, Scaler};
use nw_manage::target::Decisions;
use nw_manage::{Document, Target, expand};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

fn chain() -> Document {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/networks/chain.graph");
    let text = std::fs::read_to_string(path).expect("text");
    Document::read("chain", "chain", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

thread_local! {
    static TARGETS: RefCell<BTreeMap<u32, Target>> = RefCell::default();
}

fn target(document: &Document, count: u32) -> Target {
    let known = TARGETS.with(|targets| targets.borrow().get(&count).cloned());
    known.unwrap_or_else(|| {
        let replicas = [("br".to_owned(), count)].into();
        let decisions = Decisions { replicas, ..Decisions::default() };
        let target = expand(document, &decisions, Path::new("/run/nw/net")).expect("a target");
        TARGETS.with(|targets| targets.borrow_mut().insert(count, target.clone()));
        target
    })
}

/// The chain in virtual time: consumers ask for as much as they can get, up to an offered load.
struct Loop {
    document: Document,
    scaler: Scaler,
    count: u32,
    cpu_s: BTreeMap<String, f64>,
    now_ms: u64,
    /// Microseconds of processor time per Interest: front, backward router, name router.
    costs_us: [f64; 3],
    changes: Vec<(u64, u32)>,
    last: Option<ScaleDecision>,
}

impl Loop {
    fn new(costs_us: [f64; 3]) -> Loop {
        Loop {
            document: chain(),
            scaler: Scaler::default(),
            count: 1,
            cpu_s: BTreeMap::new(),
            now_ms: 0,
            costs_us,
            changes: Vec::new(),
            last: None,
        }
    }

    /// Returns Interests per second that pass the chain.
    fn throughput(&self, offered: f64) -> f64 {
        let [front, br, nr] = self.costs_us;
        let br_capacity = 0.67 * 1e6 / br * f64::from(self.count);
        offered.min(1e6 / front).min(br_capacity).min(1e6 / nr)
    }

    fn run(&mut self, seconds: u64, offered: f64) {
        for _ in 0..seconds {
            self.now_ms += 1_000;
            let rate = self.throughput(offered);
            let target = target(&self.document, self.count);
            let mut samples = Vec::new();
            for instance in &target.instances {
                let share = if instance.service == "br" { f64::from(self.count) } else { 1.0 };
                let cost = match instance.service.as_str() {
                    "front" => self.costs_us[0],
                    "br" => self.costs_us[1],
                    _ => self.costs_us[2],
                };
                let cpu_s = self.cpu_s.entry(instance.id.name.clone()).or_default();
                *cpu_s += rate / share * cost / 1e6;
                samples.push(LoadSample {
                    instance: instance.id.clone(),
                    cpu_s: *cpu_s,
                    interests: 0,
                    dropped: 0,
                });
            }
            let replicas = [("br".to_owned(), self.count)].into();
            let decisions = self.scaler.observe(
                &self.document,
                &target,
                &replicas,
                self.now_ms,
                &samples,
                false,
            );
            let decision = decisions.into_iter().next().expect("one service has bounds");
            if decision.to != self.count {
                self.count = decision.to;
                self.cpu_s.retain(|name, _| !name.starts_with("br~") || *name == "br~1");
                self.changes.push((self.now_ms, self.count));
            }
            self.last = Some(decision);
        }
    }
}

/// Figure 5 of the µNDN paper: the second backward router helps, a third one would not, as the name
/// router is full then.
#[test]
fn bottleneck_behind_stops_useless_third_instance() {
    let mut network = Loop::new([2.0, 6.7, 4.8]);
    let before = network.throughput(f64::INFINITY);
    network.run(120, 1e9);
    assert_eq!(network.count, 2, "{:?}", network.changes);
    assert!(network.throughput(f64::INFINITY) > 1.5 * before);
    let first = network.changes[0].0;
    assert!(first <= 5_000, "decided after {first} ms");
    let reason = network.last.clone().expect("a decision").reason;
    assert!(reason.contains("but nr has 96 %"), "{reason}");
    // The load goes: one instance is enough, and the end is as the start.
    network.run(60, 1_000.0);
    assert_eq!(network.count, 1);
    assert_eq!(target(&network.document, 1), target(&chain(), network.count));
}

#[test]
fn room_behind_lets_all_instances_be_added() {
    let mut network = Loop::new([1.0, 6.7, 2.0]);
    network.run(120, 1e9);
    assert_eq!(network.count, 3, "the most allowed: {:?}", network.changes);
    let reason = network.last.clone().expect("a decision").reason;
    assert!(reason.contains("the most allowed"), "{reason}");
}

#[test]
fn short_peak_changes_nothing() {
    let mut network = Loop::new([1.0, 6.7, 2.0]);
    for _ in 0..20 {
        network.run(1, 1e9);
        network.run(4, 10_000.0);
    }
    assert_eq!(network.changes, []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A constant load never lets the number of instances go up and down.
    #[test]
    fn constant_load_never_flaps(first in 0.0f64..400_000.0, second in 0.0f64..400_000.0) {
        let mut network = Loop::new([1.0, 6.7, 2.0]);
        for offered in [first, second] {
            let start = network.changes.len();
            let mut count = network.count;
            network.run(200, offered);
            let steps: Vec<bool> = network.changes[start..]
                .iter()
                .map(|(_, to)| {
                    let up = *to > count;
                    count = *to;
                    up
                })
                .collect();
            prop_assert!(steps.iter().all(|up| *up) || steps.iter().all(|up| !*up), "{:?}", network.changes);
        }
    }
}
