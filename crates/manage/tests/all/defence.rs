//! The defence against a store in virtual time: Zipf load whose popularity shifts, attacks, pauses.

use nw_manage::Document;
use nw_manage::defence::{DefenceEvent, DefenceState, Defences, ElementSample, Erasure};
use nw_manage::target::Countermeasure;
use nw_report_kit::bounds::bound;
use std::collections::{BTreeMap, HashMap};

const NAMES: u64 = 5_000;
const CAPACITY: usize = 1_000;
/// Names of fake Data begin here.
const FAKE: u64 = 1 << 40;

fn document() -> Document {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/networks/chain.graph");
    let mut text = std::fs::read_to_string(path).expect("text");
    text.push_str(
        "trust { anchor \"site.cert\" }\ndefend poisoning watch=cs\ndefend flooding watch=pd rate=50\n",
    );
    Document::read("chain", "chain", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Erasure of a prefix from all content stores.
fn everywhere(prefix: &str) -> Erasure {
    Erasure { prefix: prefix.to_owned(), element: None }
}

/// A small generator of random numbers, so that runs repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Least recently used Data.
#[derive(Default)]
struct Lru {
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl Lru {
    fn touch(&mut self, name: u64) -> bool {
        self.clock += 1;
        match self.used.insert(name, self.clock) {
            Some(before) => {
                self.order.remove(&before);
                self.order.insert(self.clock, name);
                true
            }
            None => {
                self.order.insert(self.clock, name);
                if self.used.len() > CAPACITY {
                    let (_, oldest) = self.order.pop_first().expect("not empty");
                    self.used.remove(&oldest);
                }
                false
            }
        }
    }

    fn has(&self, name: u64) -> bool {
        self.used.contains_key(&name)
    }
}

/// Consumers, an attacker, and a store with what the defence puts before it.
struct Network {
    document: Document,
    defences: Defences,
    random: Random,
    cumulated: Vec<f64>,
    names: Vec<u64>,
    store: Lru,
    sample: ElementSample,
    now_ms: u64,
    next_fake: u64,
    good: [u64; 2],
    events: Vec<(u64, DefenceEvent)>,
    verified_ms: u64,
}

impl Network {
    fn new(seed: u64) -> Network {
        let weights = (1..=NAMES).map(|rank| 1.0 / (rank as f64).powf(0.9));
        let mut sum = 0.0;
        let cumulated = weights.map(|weight| {
            sum += weight;
            sum
        });
        Network {
            document: document(),
            defences: Defences::default(),
            random: Random(seed | 1),
            cumulated: cumulated.collect(),
            names: (0..NAMES).collect(),
            store: Lru::default(),
            sample: ElementSample { element: "cs".to_owned(), ..ElementSample::default() },
            now_ms: 0,
            next_fake: FAKE,
            good: [0; 2],
            events: Vec::new(),
            verified_ms: 0,
        }
    }

    fn is_verified(&self) -> bool {
        self.defences.countermeasures().iter().any(|countermeasure| {
            matches!(countermeasure, Countermeasure::Verify { element, .. } if element == "cs")
        })
    }

    /// Runs for a second with requests of consumers and of an attacker.
    fn second(&mut self, good: u64, fake: u64) {
        self.now_ms += 1_000;
        let is_verified = self.is_verified();
        self.verified_ms += u64::from(is_verified) * 1_000;
        for at in 0..good + fake {
            // Spread evenly, so that the order does not matter.
            let is_fake =
                fake > 0 && (at * fake) / (good + fake) != ((at + 1) * fake) / (good + fake);
            let name = if is_fake {
                self.next_fake += 1;
                self.next_fake
            } else {
                let sum = self.cumulated[NAMES as usize - 1];
                let point = self.random.share() * sum;
                self.names[self.cumulated.partition_point(|weight| *weight < point).min(4_999)]
            };
            self.sample.interests += 1;
            let is_hit = self.store.has(name);
            if !is_fake {
                self.good[usize::from(is_hit)] += 1;
            }
            if is_hit {
                self.sample.answered += 1;
            }
            if is_verified && !is_hit {
                self.sample.verified += 1;
                if is_fake {
                    self.sample.failures.push(format!("/site/film/{name}"));
                    continue;
                }
            }
            self.store.touch(name);
        }
        let samples = std::slice::from_ref(&self.sample);
        let found = self.defences.observe(&self.document, self.now_ms, samples);
        self.sample.failures.clear();
        self.events.extend(found.into_iter().map(|event| (self.now_ms, event)));
    }

    fn seconds(&mut self, count: u64, good: u64, fake: u64) {
        (0..count).for_each(|_| self.second(good, fake));
    }

    /// Gives some names other ranks.
    fn shift(&mut self, share: f64) {
        let count = (NAMES as f64 * share) as u64;
        for _ in 0..count {
            let (one, other) = (self.random.below(NAMES), self.random.below(NAMES));
            self.names.swap(one as usize, other as usize);
        }
    }

    fn time_of(&self, state: DefenceState, after_ms: u64) -> Option<u64> {
        let mut events = self.events.iter().filter(|(at, _)| *at > after_ms);
        events.find(|(_, event)| event.to == state).map(|(at, _)| *at)
    }

    /// Returns the hit ratio of consumers since the last call.
    fn ratio(&mut self) -> f64 {
        let [misses, hits] = std::mem::take(&mut self.good);
        hits as f64 / (hits + misses).max(1) as f64
    }
}

/// Twice two hours of load that grows, falls and pauses, with popularity that drifts all the time
/// and shifts abruptly every ten minutes: no verifier is put in, not even to have a look.
#[test]
fn zipf_load_with_shifting_popularity_no_alarm() {
    for seed in [1, 77] {
        let mut network = Network::new(seed);
        for minute in 0..120u64 {
            let rate = [60, 120, 90, 0, 150, 75][(minute / 7 % 6) as usize];
            network.shift(0.002);
            if minute % 10 == 9 {
                network.shift([0.1, 0.5, 1.0][(minute / 10 % 3) as usize]);
            }
            network.seconds(60, rate, 0);
        }
        let alarms: Vec<_> = network
            .events
            .iter()
            .filter(|(_, event)| event.to == DefenceState::Verifying)
            .collect();
        assert!(alarms.is_empty(), "{alarms:?}");
        assert_eq!(network.verified_ms, 0);
    }
}

#[test]
fn attack_found_within_two_periods_and_again_after_quiet() {
    for seed in [9, 10] {
        let mut network = Network::new(seed);
        network.seconds(600, 200, 0);
        network.ratio();
        network.seconds(60, 200, 0);
        let usual = network.ratio();
        for _ in 0..2 {
            let start = network.now_ms;
            network.seconds(6, 200, 400);
            let verifying = network.time_of(DefenceState::Verifying, start).expect("suspicion");
            // Each period is two seconds.
            let periods = (verifying - start) as f64 / 2_000.0;
            let limit = bound("manager/poison.periods_to_detect").limit;
            assert!(limit.holds(periods), "{periods} periods, {limit}");
            network.seconds(4, 200, 400);
            let confirmed = network
                .events
                .iter()
                .find(|(at, event)| *at > start && event.to == DefenceState::Confirmed);
            let (at, event) = confirmed.expect("proof");
            assert!(*at <= verifying + 2_000, "{} ms later", at - verifying);
            assert_eq!(event.erase, [everywhere("/site/film")]);
            assert!(event.reason.contains("rejected"), "{}", event.reason);
            // Verified for five seconds: the ratio of consumers is back.
            network.seconds(1, 200, 400);
            network.ratio();
            network.seconds(4, 200, 400);
            let now = network.ratio();
            assert!(now >= 0.9 * usual, "{now} instead of {usual}");
            // The attack ends; ten periods later the verifier is gone.
            let end = network.now_ms;
            network.seconds(30, 200, 0);
            let normal = network.time_of(DefenceState::Normal, end).expect("the end");
            assert!(normal - end <= 22_000, "{}", normal - end);
            assert!(!network.is_verified());
            network.seconds(60, 200, 0);
        }
    }
}

#[test]
fn veto_removes_verifier_and_holds() {
    let mut network = Network::new(3);
    network.seconds(600, 200, 0);
    network.seconds(10, 200, 400);
    assert!(network.is_verified());
    network.defences.set_veto("cs", true);
    assert!(!network.is_verified());
    network.seconds(60, 200, 400);
    assert!(!network.is_verified());
    let status = network.defences.status(&network.document);
    assert!(status.iter().any(|status| status.element == "cs" && status.is_vetoed));
    network.defences.set_veto("cs", false);
    network.seconds(600, 200, 0);
    network.seconds(10, 200, 400);
    assert!(network.is_verified(), "without the veto it works again");
}

/// Samples of elements on the path of Data: `cs`, `br`, `nr`.
fn samples(total: &mut [u64; 2], ratio: f64, failing: Option<&str>) -> Vec<ElementSample> {
    // An attacker asks as well: the ratio falls, the hits of the others stay.
    let requests = if ratio < 0.5 { 3_000.0 } else { 1_000.0 };
    total[0] += requests as u64;
    total[1] += (requests * ratio) as u64;
    let failures = |element: &str| match failing {
        Some(failing) if failing == element => (0..5).map(|at| format!("/site/a/{at}")).collect(),
        _ => Vec::new(),
    };
    let sample = |element: &str| ElementSample {
        element: element.to_owned(),
        interests: total[0],
        answered: total[1],
        failures: failures(element),
        ..ElementSample::default()
    };
    ["cs", "br", "nr"].into_iter().map(sample).collect()
}

fn places(defences: &Defences) -> Vec<String> {
    let places = defences.countermeasures().into_iter().filter_map(|made| match made {
        Countermeasure::Verify { element, .. } => Some(element),
        _ => None,
    });
    places.collect()
}

#[test]
fn verifier_moves_towards_the_origin() {
    let (document, mut defences, mut total) = (document(), Defences::default(), [0; 2]);
    let mut now_ms = 0;
    let mut step = |defences: &mut Defences, ratio, failing| {
        now_ms += 2_000;
        defences.observe(&document, now_ms, &samples(&mut total, ratio, failing))
    };
    (0..20).for_each(|_| drop(step(&mut defences, 0.9, None)));
    step(&mut defences, 0.3, None);
    step(&mut defences, 0.3, None);
    assert_eq!(places(&defences), ["cs"]);
    let events = step(&mut defences, 0.3, Some("cs"));
    assert_eq!(events[0].erase, [everywhere("/site/a")]);
    assert_eq!(places(&defences), ["cs", "br"], "confirmed: the next place is tried as well");
    let events = step(&mut defences, 0.9, Some("br"));
    assert_eq!(places(&defences), ["br", "nr"]);
    // What came by the next place before it was verified there: a store may hold it.
    let passed = Erasure { element: Some("br".to_owned()), ..everywhere("/site/a") };
    assert_eq!(events[0].erase, [passed]);
    // Nothing is rejected at the name router: fake Data enter between the two.
    step(&mut defences, 0.9, Some("br"));
    step(&mut defences, 0.9, Some("br"));
    assert_eq!(places(&defences), ["br"]);
    let status = defences.status(&document);
    let state = status.iter().find(|status| status.element == "cs").expect("watched").state;
    assert_eq!(state, DefenceState::Isolated);
    (0..10).for_each(|_| drop(step(&mut defences, 0.9, None)));
    assert_eq!(places(&defences), Vec::<String>::new());
}

/// The first report, an empty store, a period without requests: the original took each for an
/// attack.
#[test]
fn first_reports_and_quiet_periods_are_no_attacks() {
    let (document, mut defences) = (document(), Defences::default());
    let mut total = [0; 2];
    let mut events = Vec::new();
    for (at, ratio) in [0.0, 0.0, 0.5, 0.9, 0.2, 0.9, 0.0, 0.95].into_iter().enumerate() {
        let now_ms = 2_000 * (at as u64 + 1);
        events.extend(defences.observe(&document, now_ms, &samples(&mut total, ratio, None)));
    }
    for at in 0..100u64 {
        let idle = samples(&mut [total[0] - 3_000, total[1]], 0.0, None);
        events.extend(defences.observe(&document, 60_000 + 2_000 * at, &idle));
    }
    assert_eq!(events, []);
}

#[test]
fn flood_limited_and_failed_producer_not() {
    let (document, mut defences) = (document(), Defences::default());
    let mut sample = ElementSample { element: "pd".to_owned(), ..ElementSample::default() };
    let mut now_ms = 0;
    let mut step = |defences: &mut Defences, interests: u64, answered: u64| {
        now_ms += 2_000;
        sample.interests += interests;
        sample.answered += answered;
        sample.unsatisfied = vec![("consumers".to_owned(), sample.interests - sample.answered)];
        defences.observe(&document, now_ms, std::slice::from_ref(&sample))
    };
    (0..20).for_each(|_| drop(step(&mut defences, 1_000, 990)));
    // A producer fails: nothing is answered, but nothing more is asked.
    (0..20).for_each(|_| assert_eq!(step(&mut defences, 1_100, 0), []));
    // More consumers, all answered.
    (0..3).for_each(|_| assert_eq!(step(&mut defences, 5_000, 4_900), []));
    (0..40).for_each(|_| drop(step(&mut defences, 1_000, 990)));
    // A flood.
    step(&mut defences, 20_000, 1_000);
    assert_eq!(defences.countermeasures(), []);
    let events = step(&mut defences, 20_000, 1_000);
    assert!(events[0].reason.contains("most by face consumers"), "{}", events[0].reason);
    let limit = Countermeasure::Limit { element: "pd".to_owned(), rate: 50 };
    assert_eq!(defences.countermeasures(), [limit]);
    (0..9).for_each(|_| drop(step(&mut defences, 1_000, 990)));
    assert_eq!(defences.countermeasures().len(), 1);
    step(&mut defences, 1_000, 990);
    assert_eq!(defences.countermeasures(), []);
}

/// Names that are rejected again and again are filtered for a while; a name that has valid Data as
/// well never is.
#[test]
fn repeated_names_filtered_for_a_while_and_contested_ones_never() {
    let (document, mut defences, mut total) = (document(), Defences::default(), [0; 2]);
    let mut now_ms = 0;
    let mut step = |defences: &mut Defences, ratio, names: &[&str]| {
        now_ms += 2_000;
        let mut samples = samples(&mut total, ratio, None);
        samples[0].failures = names.iter().map(|name| (*name).to_owned()).collect();
        samples[0].contested = names
            .iter()
            .filter(|name| **name == "/site/good")
            .map(|name| (*name).to_owned())
            .collect();
        defences.observe(&document, now_ms, &samples)
    };
    let filtered = |defences: &Defences| {
        defences.countermeasures().into_iter().find_map(|made| match made {
            Countermeasure::Filter { names, .. } => Some(names),
            _ => None,
        })
    };
    (0..20).for_each(|_| drop(step(&mut defences, 0.9, &[])));
    (0..2).for_each(|_| drop(step(&mut defences, 0.3, &[])));
    let events = step(&mut defences, 0.3, &["/site/fake", "/site/good", "/site/once"]);
    assert_eq!(events[0].erase, [everywhere("/site")]);
    assert_eq!(filtered(&defences), None, "rejected once");
    let events = step(&mut defences, 0.3, &["/site/fake", "/site/good", "/other/x"]);
    let erased: Vec<_> = events.iter().flat_map(|event| &event.erase).collect();
    assert_eq!(erased, [&everywhere("/other")], "what is new is erased, once");
    assert_eq!(filtered(&defences), Some(vec!["/site/fake".to_owned()]));
    let verify = |made: &Countermeasure| matches!(made, Countermeasure::Verify { .. });
    assert!(!verify(&defences.countermeasures()[0]), "the filter spares the verifier work");
    (0..11).for_each(|_| drop(step(&mut defences, 0.9, &["/site/other"])));
    assert_eq!(filtered(&defences), Some(vec!["/site/other".to_owned()]), "the time is over");
}

/// A manager that is killed during an attack goes on where it was; a document that watches
/// something else begins anew.
#[test]
fn exported_states_restored_by_the_next_process() {
    let mut network = Network::new(5);
    network.seconds(600, 200, 0);
    network.seconds(10, 200, 400);
    assert!(network.is_verified());
    let text = network.defences.export();
    let mut next = Defences::default();
    next.restore(&network.document, &text);
    assert_eq!(next.countermeasures(), network.defences.countermeasures());
    assert_eq!(next.status(&network.document), network.defences.status(&network.document));
    network.defences = next;
    network.seconds(30, 200, 400);
    assert!(network.is_verified(), "the attack goes on");
    network.seconds(60, 200, 0);
    assert!(!network.is_verified());
    let mut other = document();
    other.file.network.defences[0].watch[0].0 = "other".to_owned();
    let mut next = Defences::default();
    next.restore(&other, &text);
    assert_eq!(next.countermeasures(), []);
    next.restore(&network.document, "not JSON");
    assert_eq!(next.countermeasures(), []);
}

/// Without a certificate good Data can't be told from fakes: the verifier goes at once, and nothing
/// is confirmed.
#[test]
fn verifier_without_certificates_taken_out_at_once() {
    let (document, mut defences, mut total) = (document(), Defences::default(), [0; 2]);
    let mut now_ms = 0;
    let mut step = |defences: &mut Defences, ratio, missing: u64| {
        now_ms += 2_000;
        let mut samples = samples(&mut total, ratio, None);
        samples[0].unverifiable = missing;
        defences.observe(&document, now_ms, &samples)
    };
    (0..20).for_each(|_| drop(step(&mut defences, 0.9, 0)));
    (0..2).for_each(|_| drop(step(&mut defences, 0.3, 0)));
    assert_eq!(places(&defences), ["cs"]);
    let events = step(&mut defences, 0.3, 20);
    assert_eq!(places(&defences), Vec::<String>::new());
    assert!(events[0].reason.contains("20 Data could not be verified"), "{}", events[0].reason);
    assert!(events[0].erase.is_empty());
    (0..5).for_each(|_| drop(step(&mut defences, 0.3, 0)));
    assert_eq!(places(&defences), Vec::<String>::new(), "it does not come back at once");
}
