//! `manager/poison`: content poisoning in virtual time. The real content store and the real decider;
//! consumers and attacker are generated, and packets whose signature would fail are known.
//!
//! Conditions: chain of store, backward router and name router; 5,000 names by Zipf's law (0.9), a
//! store of 1,000 packets, periods of 2 s. Attack: 2,000 fakes a second beside 1,000 good
//! Interests, which fill the store with fakes in half a second; one in ten Data of good names is a
//! fake as well. With fewer good Interests filling the store again takes longer. `false_alarms`: a day without an attack; the load
//! grows, falls and pauses, popularity drifts all the time and shifts abruptly.

use crate::report::Row;
use crate::tables::cs::{Item, data, key};
use anyhow::{Context, Result, ensure};
use nw_manage::Document;
use nw_manage::defence::{DefenceEvent, DefenceState, Defences, ElementSample};
use nw_manage::target::Countermeasure;
use nw_name::Name;
use nw_packet_types::random::splitmix64;
use nw_tables::cs::{BLOCK_LEN, ContentStore, CsConfig};
use nw_tables::{InterestKey, Timestamp};
use std::collections::HashSet;
use std::rc::Rc;

const NAMES: usize = 5_000;
const PACKETS: usize = 1_000;
const PERIOD_MS: u64 = 2_000;
/// Good Interests, and fakes, in each second of an attack.
const LOAD: [u64; 2] = [1_000, 2_000];
/// One in this many Data of good names is a fake during an attack.
const FAKE_SHARE: u64 = 10;
const QUIET_HOURS: u64 = 24;
const PATH: [&str; 3] = ["cs", "br", "nr"];

/// Measures the row.
///
/// # Errors
/// If an attack is not found, or its end is not.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let mut attacks = Vec::new();
    for seed in [1, 2, 3] {
        let mut network = Network::new(seed)?;
        network.seconds(120, [LOAD[0], 0]);
        for _ in 0..2 {
            attacks.push(network.attack()?);
        }
    }
    let mut calm = Network::new(4)?;
    for minute in 0..QUIET_HOURS * 60 {
        calm.shift(NAMES as u64 / 500);
        if minute % 10 == 9 {
            calm.shift(NAMES as u64 / [10, 2, 1][(minute / 10 % 3) as usize]);
        }
        calm.seconds(60, [[60, 120, 90, 0, 150, 75][(minute / 7 % 6) as usize], 0]);
    }
    let alarms = calm.events.iter().filter(|(_, event)| event.to == DefenceState::Verifying);
    let worst = |value: fn(&Attack) -> f64| attacks.iter().map(value).fold(0.0, f64::max);
    let quiet = |attack: &Attack| attack.quiet_periods;
    Ok(vec![
        Row::new(row, "periods_to_detect", &[worst(|attack| attack.periods)]),
        Row::new(row, "seconds_to_recover", &[worst(|attack| attack.recovery_s)]),
        Row::new(row, "fakes_after", &[worst(|attack| attack.fakes)]),
        Row::new(row, "quiet_periods", &[worst(quiet)]).with_reference(10.0),
        Row::new(row, "false_alarms", &[alarms.count() as f64]),
    ])
}

/// What one attack came to.
struct Attack {
    /// Periods from its start to the verifier.
    periods: f64,
    /// Seconds from the verifier until good consumers have 90 % of their hit ratio again.
    recovery_s: f64,
    /// Fake Data that good consumers received after the poisoned prefixes were erased.
    fakes: f64,
    /// Periods from its end until the verifier is gone.
    quiet_periods: f64,
}

/// Consumers, an attacker, a store, and what the defence puts into the chain.
struct Network {
    document: Document,
    defences: Defences,
    random: u64,
    store: ContentStore,
    /// Names in the store whose Data are fakes.
    poisoned: HashSet<Vec<u8>>,
    cumulated: Vec<f64>,
    /// Data by number of the name, and the number of the name at each rank.
    items: Vec<Rc<Item>>,
    ranks: Vec<usize>,
    samples: Vec<ElementSample>,
    now_ms: u64,
    next_fake: u64,
    /// Good Interests: all, answered by the store, answered by a fake.
    good: [u64; 3],
    events: Vec<(u64, DefenceEvent)>,
}

impl Network {
    fn new(seed: u64) -> Result<Network> {
        let text = concat!(
            include_str!("../../../examples/networks/chain.graph"),
            "trust { anchor \"site.cert\" }\ndefend poisoning watch=cs period=2s quiet=10\n"
        );
        let document = Document::read("chain", "chain", text).map_err(anyhow::Error::msg)?;
        let mut sum = 0.0;
        let cumulated = (1..=NAMES).map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        });
        let cumulated = cumulated.collect();
        let config = CsConfig { packets_max: PACKETS, bytes_max: PACKETS * BLOCK_LEN };
        let sample =
            |name: &&str| ElementSample { element: (*name).to_owned(), ..ElementSample::default() };
        Ok(Network {
            document,
            defences: Defences::default(),
            random: seed,
            store: ContentStore::new(key(), config),
            poisoned: HashSet::new(),
            cumulated,
            items: (0..NAMES as u64).map(|number| Rc::new(data(film(number)))).collect(),
            ranks: (0..NAMES).collect(),
            samples: PATH.iter().map(sample).collect(),
            now_ms: 0,
            next_fake: 1 << 40,
            good: [0; 3],
            events: Vec::new(),
        })
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(1);
        splitmix64(self.random) % below
    }

    /// Returns the number of a name by Zipf's law.
    fn popular(&mut self) -> usize {
        let share = self.draw(1 << 53) as f64 / (1u64 << 53) as f64;
        let point = share * self.cumulated[NAMES - 1];
        self.ranks[self.cumulated.partition_point(|sum| *sum < point).min(NAMES - 1)]
    }

    /// Exchanges the popularity of pairs of names.
    fn shift(&mut self, pairs: u64) {
        for _ in 0..pairs {
            let (one, other) = (self.draw(NAMES as u64), self.draw(NAMES as u64));
            self.ranks.swap(one as usize, other as usize);
        }
    }

    /// Returns the index of the verifier that fakes meet first: that nearest to their origin.
    fn verifier(&self) -> Option<usize> {
        let countermeasures = self.defences.countermeasures();
        let places = countermeasures.iter().filter_map(|made| match made {
            Countermeasure::Verify { element, .. } => PATH.iter().position(|name| name == element),
            _ => None,
        });
        places.max()
    }

    fn seconds(&mut self, count: u64, load: [u64; 2]) {
        (0..count).for_each(|_| self.second(load));
    }

    /// Runs for a second with good Interests and those of the attacker, spread evenly.
    fn second(&mut self, [good, fake]: [u64; 2]) {
        self.now_ms += 1_000;
        let verifier = self.verifier();
        let all = good + fake;
        for at in 0..all {
            let is_fake = (at * fake) / all != ((at + 1) * fake) / all;
            if is_fake {
                self.next_fake += 1;
                let item = data(film(self.next_fake));
                self.exchange(&item, true, verifier);
            } else {
                let number = self.popular();
                let item = Rc::clone(&self.items[number]);
                // A fake comes instead of the good packet, which is asked for again.
                let is_poisoned = fake > 0 && self.draw(FAKE_SHARE) == 0;
                let hits = self.samples[0].answered;
                let is_fake = self.exchange(&item, is_poisoned, verifier);
                let is_hit = self.samples[0].answered > hits;
                self.good[0] += 1;
                self.good[1] += u64::from(is_hit);
                self.good[2] += u64::from(is_fake);
            }
        }
        let found = self.defences.observe(&self.document, self.now_ms, &self.samples);
        self.samples.iter_mut().for_each(|sample| sample.failures.clear());
        for event in found {
            // The only store of the network is the watched one.
            for erasure in event.erase.iter().filter(|erasure| erasure.element.is_none()) {
                let prefix: Name = erasure.prefix.parse().unwrap_or_default();
                self.store.erase(prefix.as_ref(), usize::MAX);
            }
            self.events.push((self.now_ms, event));
        }
    }

    /// Sends one Interest. Returns whether a fake answers it.
    fn exchange(&mut self, item: &Item, is_fake: bool, verifier: Option<usize>) -> bool {
        let now = Timestamp::from_millis(self.now_ms);
        let name = item.name().as_bytes();
        let interest = InterestKey {
            name: item.name(),
            prefixes: item.prefixes(),
            can_be_prefix: false,
            must_be_fresh: false,
        };
        self.samples[0].interests += 1;
        if self.store.find(now, &interest).is_some() {
            self.samples[0].answered += 1;
            return self.poisoned.contains(name);
        }
        if let (true, Some(place)) = (is_fake, verifier) {
            self.samples[place].failures.push(item.name().to_string());
            return false;
        }
        self.store.insert(now, &item.incoming());
        match is_fake {
            true => self.poisoned.insert(name.to_vec()),
            false => self.poisoned.remove(name),
        };
        is_fake
    }

    /// Returns the hit ratio of good consumers in this many seconds.
    fn ratio(&mut self, seconds: u64, load: [u64; 2]) -> f64 {
        self.good = [0; 3];
        self.seconds(seconds, load);
        self.good[1] as f64 / self.good[0].max(1) as f64
    }

    fn time_of(&self, state: DefenceState, after_ms: u64) -> Result<u64> {
        let mut events = self.events.iter().filter(|(at, _)| *at > after_ms);
        let found = events.find(|(_, event)| event.to == state).map(|(at, _)| *at);
        found.with_context(|| format!("the defence was not {state:?} after {after_ms} ms"))
    }

    /// One attack, from the start to the end of the defence.
    fn attack(&mut self) -> Result<Attack> {
        let usual = self.ratio(60, [LOAD[0], 0]);
        let start = self.now_ms;
        while self.verifier().is_none() {
            self.second(LOAD);
            ensure!(self.now_ms < start + 60_000, "no verifier in a minute");
        }
        let verifying = self.time_of(DefenceState::Verifying, start)?;
        let mut recovered = None;
        for _ in 0..30 {
            if self.ratio(1, LOAD) >= 0.9 * usual && recovered.is_none() {
                recovered = Some(self.now_ms);
            }
        }
        let recovered = recovered.context("the hit ratio did not come back in 30 s")?;
        self.time_of(DefenceState::Isolated, start)?;
        self.ratio(60, LOAD);
        let fakes = self.good[2] as f64;
        let end = self.now_ms;
        self.seconds(60, [LOAD[0], 0]);
        ensure!(self.verifier().is_none(), "the verifier is still there a minute after the end");
        let normal = self.time_of(DefenceState::Normal, end)?;
        Ok(Attack {
            periods: (verifying - start) as f64 / PERIOD_MS as f64,
            recovery_s: (recovered - verifying) as f64 / 1e3,
            fakes,
            quiet_periods: (normal - end) as f64 / PERIOD_MS as f64,
        })
    }
}

fn film(number: u64) -> Name {
    Name::new().with_generic("site").with_generic("film").with_generic(number.to_string())
}
