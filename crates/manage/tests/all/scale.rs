//! Scaling in a closed loop: loads follow from the number of instances, decisions from the loads.

use nw_manage::scale::{LoadSample, ScaleDecision, Scaler};
use nw_manage::target::Decisions;
use nw_manage::{Document, Target, expand};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

fn chain() -> Document {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/networks/chain.graph");
    let text = std::fs::read_to_string(path).expect("text");
    Document::read("chain", "chain", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

thread_local! {
    static TARGETS: RefCell<BTreeMap<u32, Rc<Target>>> = RefCell::default();
}

fn target(document: &Document, count: u32) -> Rc<Target> {
    let known = TARGETS.with(|targets| targets.borrow().get(&count).cloned());
    known.unwrap_or_else(|| {
        let replicas = [("br".to_owned(), count)].into();
        let decisions = Decisions { replicas, ..Decisions::default() };
        let target = expand(document, &decisions, Path::new("/run/nw/net")).expect("a target");
        let target = Rc::new(target);
        TARGETS.with(|targets| targets.borrow_mut().insert(count, target.clone()));
        target
    })
}

/// Hold time and cool-down of the chain, milliseconds.
const HOLD_MS: u64 = 2_000;
const COOL_MS: u64 = 10_000;
/// How long a gain holds: 30 times both.
const LIFETIME_MS: u64 = 30 * (HOLD_MS + COOL_MS);

/// The chain in virtual time: consumers ask for as much as they can get, up to an offered load.
struct Loop {
    document: Document,
    scaler: Scaler,
    count: u32,
    /// Processor time and Interests by instance.
    counters: BTreeMap<String, (f64, u64)>,
    now_ms: u64,
    /// Microseconds of processor time per Interest: front, one backward router, name router.
    costs_us: [f64; 3],
    /// Part of a backward router's cost that each other one adds to it.
    contention: f64,
    /// Quota of the name router, if it is not that of the document.
    nr_quota: Option<f64>,
    /// Instances without a sample.
    silent: BTreeSet<String>,
    changes: Vec<(u64, u32)>,
    last: Option<ScaleDecision>,
}

impl Loop {
    fn new(costs_us: [f64; 3]) -> Loop {
        Loop {
            document: chain(),
            scaler: Scaler::default(),
            count: 1,
            counters: BTreeMap::new(),
            now_ms: 0,
            costs_us,
            contention: 0.0,
            nr_quota: None,
            silent: BTreeSet::new(),
            changes: Vec::new(),
            last: None,
        }
    }

    /// Figure 5 as measured: the second backward router raises throughput by 30 %, and no other
    /// service is full. At most eight.
    fn contended(contention: f64) -> Loop {
        let mut network = Loop { contention, ..Loop::new([0.2, 6.7, 0.2]) };
        let scale = &mut network.document.file.network.scales[0];
        assert_eq!((scale.hold_ms, scale.cool_down_ms), (HOLD_MS, COOL_MS));
        scale.max = 8;
        network
    }

    fn br_cost_us(&self) -> f64 {
        self.costs_us[1] * (1.0 + self.contention * f64::from(self.count - 1))
    }

    /// Returns Interests per second that pass the chain.
    fn throughput(&self, offered: f64) -> f64 {
        let [front, _, nr] = self.costs_us;
        let br_capacity = 0.67 * 1e6 / self.br_cost_us() * f64::from(self.count);
        offered.min(1e6 / front).min(br_capacity).min(1e6 / nr)
    }

    fn run(&mut self, seconds: u64, offered: f64) {
        for _ in 0..seconds {
            self.step(offered, false);
        }
    }

    /// A second passes.
    fn step(&mut self, offered: f64, is_changing: bool) {
        self.now_ms += 1_000;
        let rate = self.throughput(offered);
        let mut target = target(&self.document, self.count);
        let mut samples = Vec::new();
        if let Some(quota) = self.nr_quota {
            let services = &mut Rc::make_mut(&mut target).instances;
            let nr = services.iter_mut().find(|instance| instance.service == "nr");
            nr.expect("a name router").quota_cores = Some(quota);
        }
        for instance in &target.instances {
            let share = if instance.service == "br" { f64::from(self.count) } else { 1.0 };
            let cost = match instance.service.as_str() {
                "front" => self.costs_us[0],
                "br" => self.br_cost_us(),
                _ => self.costs_us[2],
            };
            let sum = self.counters.entry(instance.id.name.clone()).or_default();
            *sum = (sum.0 + rate / share * cost / 1e6, sum.1 + (rate / share) as u64);
            samples.push(LoadSample {
                instance: instance.id.clone(),
                cpu_s: sum.0,
                interests: sum.1,
                dropped: 0,
            });
        }
        samples.retain(|sample| !self.silent.contains(&sample.instance.name));
        let replicas = [("br".to_owned(), self.count)].into();
        let decisions = self.scaler.observe(
            &self.document,
            &target,
            &replicas,
            self.now_ms,
            &samples,
            is_changing,
        );
        let decision = decisions.into_iter().next().expect("one service has bounds");
        if decision.to != self.count {
            self.count = decision.to;
            let count = self.count;
            self.counters.retain(|name, _| match name.strip_prefix("br~") {
                Some(number) => number.parse::<u32>().expect("a number") <= count,
                None => true,
            });
            self.changes.push((self.now_ms, self.count));
        }
        self.last = Some(decision);
    }

    fn reason(&self) -> &str {
        &self.last.as_ref().expect("a decision").reason
    }

    /// Returns the times of the decisions for more than a number of instances.
    fn times_above(&self, count: u32) -> Vec<u64> {
        self.changes.iter().filter(|(_, to)| *to > count).map(|(at_ms, _)| *at_ms).collect()
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

/// The contention of figure 5: two backward routers carry 1.3 times what one carries.
const PAPER: f64 = 0.54;

#[test]
fn contention_stops_third_instance_with_the_figures() {
    let mut network = Loop::contended(PAPER);
    network.run(300, 1e9);
    assert_eq!(network.count, 2, "{:?}", network.changes);
    assert_eq!(
        network.reason(),
        "load 100 % of 2 instances, but at full load these carry 129870 Interests/s and 1 carried \
         100000: another instance could carry about 11 % more, less than 15 %; it is tried again \
         after 360 s"
    );
    network.run(60, 1_000.0);
    assert_eq!(network.count, 1, "the way down is as before");
}

#[test]
fn refusal_expires_and_each_next_one_later() {
    let mut network = Loop::contended(PAPER);
    network.run(2_600, 1e9);
    let times = network.times_above(1);
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(network.changes.iter().map(|(_, to)| *to).collect::<Vec<_>>(), [2, 3, 4, 5]);
    for (wait, factor) in waits.iter().zip([1, 2, 4]) {
        let expected = factor * LIFETIME_MS + COOL_MS..factor * LIFETIME_MS + COOL_MS + 4_000;
        assert!(expected.contains(wait), "{waits:?}");
    }
}

#[test]
fn little_contention_is_followed_up_to_where_it_ends() {
    // The next of n gains (1 - s) / (n (1 + s n)), and 0.3 / n is wanted: enough for 16 and a next.
    let mut network = Loop::contended(0.12);
    network.document.file.network.scales[0].max = 64;
    network.run(300, 1e9);
    assert_eq!(network.count, 17, "{:?} {}", network.changes, network.reason());
    let mut free = Loop::contended(0.0);
    free.run(300, 1e9);
    assert_eq!(free.count, 8, "the most allowed: {:?}", free.changes);
}

/// Returns a loop that refuses a third instance.
fn refusing() -> Loop {
    let mut network = Loop::contended(PAPER);
    network.run(60, 1e9);
    assert!(network.reason().contains("could carry about 11 %"), "{}", network.reason());
    network
}

#[test]
fn load_below_the_target_ends_a_refusal() {
    let mut network = refusing();
    // A pause shorter than the hold time says nothing, however often it comes.
    for _ in 0..10 {
        network.run(2, 85_000.0);
        network.run(8, 1e9);
    }
    assert_eq!(network.count, 2, "{:?}", network.changes);
    // 65 % of both: less than the target of 70 %, more than what would remove one.
    network.run(4, 85_000.0);
    network.contention = 0.0;
    network.run(4, 1e9);
    assert_eq!(network.count, 3, "{}", network.reason());
}

#[test]
fn other_service_with_another_quota_ends_a_refusal() {
    let mut network = refusing();
    network.nr_quota = Some(0.9);
    network.run(1, 1e9);
    assert_eq!(network.count, 3, "{}", network.reason());
}

#[test]
fn number_that_a_person_sets_ends_a_refusal() {
    let mut network = refusing();
    network.count = 3;
    network.run(4, 1e9);
    assert_eq!(network.count, 5, "{}", network.reason());
}

#[test]
fn missing_samples_and_restarts_leave_a_refusal_as_it_is() {
    let mut network = refusing();
    for instance in ["br~1", "br~2"] {
        network.silent = [instance.to_owned()].into();
        network.run(5, 1e9);
        network.silent.clear();
        network.run(5, 1e9);
        network.counters.remove(instance);
        network.run(20, 1e9);
    }
    assert_eq!(network.count, 2, "{:?}", network.changes);
    assert!(network.reason().contains("could carry about 11 %"), "{}", network.reason());
}

#[test]
fn restart_while_a_gain_is_measured_does_not_spoil_it() {
    let mut network = Loop::contended(0.0);
    while network.count == 1 {
        network.run(1, 1e9);
    }
    network.run(COOL_MS / 1_000, 1e9);
    assert!(network.reason().contains("measures what the last addition"), "{}", network.reason());
    network.counters.remove("br~2");
    network.run(6, 1e9);
    assert!(network.count > 2, "{:?} {}", network.changes, network.reason());
}

#[test]
fn gain_that_can_not_be_measured_delays_the_next_addition_for_a_bounded_time() {
    let mut network = Loop::contended(PAPER);
    network.run(10, 1e9);
    assert_eq!(network.count, 2);
    // One of two samples is always missing, so the load must be high by the other one alone.
    network.document.file.network.scales[0].target = 0.4;
    network.silent = ["br~2".to_owned()].into();
    network.run(20, 1e9);
    assert!(network.count > 2, "{:?} {}", network.changes, network.reason());
    let wait = network.changes[1].0 - network.changes[0].0;
    assert!(wait <= COOL_MS + 3 * HOLD_MS + 1_000, "{wait}");
}

#[test]
fn load_step_between_the_measurements_says_nothing_about_the_gain() {
    // Before, the offered load is 85 % of what one carries. After, it is more than any carry.
    let mut network = Loop::contended(PAPER);
    while network.count == 1 {
        network.run(1, 85_000.0);
    }
    network.run(20, 1e9);
    assert_eq!(network.count, 3, "{}", network.reason());
    // Before, one is full. After, two are not: they carry 1.6 times as much, as no more is asked.
    let mut network = Loop::contended(0.0);
    while network.count == 1 {
        network.run(1, 1e9);
    }
    network.run(20, 160_000.0);
    assert_eq!(network.count, 3, "{}", network.reason());
}

#[test]
fn clock_that_is_set_back_stops_no_decision() {
    let mut network = refusing();
    network.now_ms = 0;
    network.run(4, 1e9);
    assert_eq!(network.count, 3, "{}", network.reason());
    network.now_ms = 0;
    network.run(4, 1_000.0);
    assert_eq!(network.count, 2, "{}", network.reason());
}

#[test]
fn plan_that_is_carried_out_is_not_measured() {
    let mut network = Loop::contended(0.0);
    while network.count == 1 {
        network.run(1, 1e9);
    }
    // While a plan runs, both carry less than they could.
    network.costs_us[1] *= 1.6;
    for _ in 0..COOL_MS / 1_000 + 4 {
        network.step(1e9, true);
    }
    network.costs_us[1] /= 1.6;
    network.run(8, 1e9);
    assert!(network.count > 2, "{:?} {}", network.changes, network.reason());
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

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

    /// Whatever the contention, with samples that are missing: never more than allowed, and no
    /// instance more while a refusal holds.
    #[test]
    fn refused_addition_is_not_tried_before_its_time(
        contention in 0.0f64..1.5,
        max in 2u32..=8,
        missing in prop::collection::vec(0u32..20, 400),
    ) {
        let mut network = Loop::contended(contention);
        network.document.file.network.scales[0].max = max;
        let (mut changed_ms, mut is_refused) = (0, false);
        for silent in missing {
            network.silent = [format!("br~{silent}")].into();
            let before = network.count;
            network.run(1, 1e9);
            prop_assert!(network.count <= max, "{:?}", network.changes);
            is_refused |= network.reason().contains("could carry about");
            if network.count > before {
                let wait = network.now_ms - changed_ms;
                prop_assert!(!is_refused || wait >= COOL_MS + LIFETIME_MS, "{:?}", network.changes);
                (changed_ms, is_refused) = (network.now_ms, false);
            }
        }
        prop_assert!(network.times_above(1).len() <= 8, "{:?}", network.changes);
    }
}
