//! Figure 7: a bad producer and a bad consumer fill the store of good consumers with fake Data; the
//! manager detects it, verifies, erases, moves the verifier to the origin and takes it out again.
//!
//! ```text
//!  good consumer ─┐                                                    ┌─ good producer
//!                 ├─ dispatcher, cs1 ── br ── nr, cs2, sf (to all) ────┤
//!  bad consumer  ─┘                                                    └─ bad producer
//! ```
//!
//! The bad consumer asks for each name once, so it never hits: the hits of cs1 are those of the
//! good consumer.

use super::attackers::{Consumer, Film, Producer, Wanted};
use super::managed::{ManagedNetwork, failed};
use crate::testbed::{Failure, Watch};
use nw_api::network::NetworkDefence;
use nw_api::service::ServiceElement;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names that the good consumer asks for; all fit into the store.
const NAMES: usize = 100;
/// Packets that a store holds.
const PACKETS: usize = 128;
/// Interval between looks at the counters.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Time after the confirmation in which replies that were under way may still be fakes.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// Share of the usual hit ratio that counts as recovered.
const RECOVERED: f64 = 0.9;
/// Time limit of a phase beside its periods.
const PHASE_LIMIT: Duration = Duration::from_secs(30);

/// Times and rates of a run.
#[derive(Clone, Copy)]
struct Setting {
    /// Period of the defence; the manager samples twice as often.
    period: Duration,
    /// Periods without fake Data after which the verifier is taken out.
    quiet_periods: u32,
    /// Periods before an attack, beside those that the defence learns from.
    calm_periods: u32,
    /// Periods of the attack after it is isolated.
    isolated_periods: u32,
    attacks: usize,
    /// Interests per second: of the good consumer, of the bad one.
    rates: [f64; 2],
    /// Window of the hit ratio that decides on the recovery.
    window: Duration,
}

impl Setting {
    fn new(is_quick: bool) -> Setting {
        let ms = Duration::from_millis;
        match is_quick {
            true => Setting {
                period: ms(200),
                quiet_periods: 3,
                calm_periods: 2,
                isolated_periods: 2,
                attacks: 1,
                rates: [300.0, 600.0],
                window: ms(250),
            },
            false => Setting {
                period: ms(2_000),
                quiet_periods: 10,
                calm_periods: 5,
                isolated_periods: 5,
                attacks: 2,
                rates: [300.0, 600.0],
                window: ms(1_000),
            },
        }
    }
}

/// What one attack came to. Times are seconds since the first load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoisoningAttack {
    /// Its begin.
    pub start_s: f64,
    /// When the defence asked for a verifier.
    pub detected_s: f64,
    /// When the verifier ran.
    pub verifier_s: f64,
    /// When the verifier had rejected Data and the poisoned prefixes were erased.
    pub confirmed_s: f64,
    /// When the good consumer had 90 % of its usual hit ratio again. `None`: not while the attack
    /// went on.
    pub recovered_s: Option<f64>,
    /// When the verifier was where fake Data enter the network.
    pub isolated_s: f64,
    /// Its end.
    pub end_s: f64,
    /// When all countermeasures were gone.
    pub gone_s: f64,
    /// Elements before which a verifier was, in this order.
    pub places: Vec<String>,
    /// Fake Data that the good consumer received before the confirmation, and a second of replies
    /// that were under way.
    pub fakes_before: u64,
    /// Fake Data that the good consumer received from then to the end of the attack.
    pub fakes_after: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoisoningResult {
    /// Period of the defence, seconds.
    pub period_s: f64,
    /// Periods without fake Data after which the verifier is taken out.
    pub quiet_periods: u32,
    /// Interests per second: of the good consumer, of the bad one.
    pub rates: [f64; 2],
    /// Hit ratio of the store by period, percent: begin of the period in seconds, all Interests.
    pub hit_percent: Vec<(f64, f64)>,
    /// The same of the good consumer's Interests.
    pub good_percent: Vec<(f64, f64)>,
    /// Fake Data per second that the good consumer received.
    pub fakes_per_s: Vec<(f64, f64)>,
    /// Processor time by instance over time: seconds, percent of a core.
    pub cpu_percent: BTreeMap<String, Vec<(f64, f64)>>,
    /// Hit ratio of the good consumer before the first attack, percent.
    pub usual_percent: f64,
    /// The attacks.
    pub attacks: Vec<PoisoningAttack>,
    /// Verifiers that were asked for without an attack.
    pub false_alarms: u64,
    /// Interests that the good consumer sent.
    pub asked: u64,
    /// Whether all services ran the graphs of the begin at the end, and no others.
    pub end_equals_start: bool,
    /// Decisions of the defence, as the manager printed them.
    pub decisions: Vec<String>,
}

impl PoisoningResult {
    /// Returns the periods from the begin of an attack until a verifier was asked for; the largest
    /// number.
    pub fn periods_to_detect(&self) -> f64 {
        self.worst(|attack| (attack.detected_s - attack.start_s) / self.period_s)
    }

    /// Returns the seconds from the verifier to the recovery; the largest number, infinite without
    /// recovery.
    pub fn seconds_to_recover(&self) -> f64 {
        self.worst(|attack| attack.recovered_s.map_or(f64::INFINITY, |at| at - attack.verifier_s))
    }

    /// Returns the fake Data that the good consumer received after confirmations.
    pub fn fakes_after(&self) -> u64 {
        self.attacks.iter().map(|attack| attack.fakes_after).sum()
    }

    /// Returns the lowest hit ratio of all Interests in an attack, percent.
    pub fn lowest_percent(&self) -> f64 {
        let is_attacked = |at: f64| {
            self.attacks.iter().any(|attack| (attack.start_s..attack.end_s).contains(&at))
        };
        let attacked = self.hit_percent.iter().filter(|(at, _)| is_attacked(*at));
        attacked.map(|(_, percent)| *percent).fold(f64::INFINITY, f64::min)
    }

    fn worst(&self, value: impl Fn(&PoisoningAttack) -> f64) -> f64 {
        self.attacks.iter().map(value).fold(0.0, f64::max)
    }
}

fn document(folder: &Path, setting: &Setting) -> String {
    let (folder, period_ms) = (folder.display(), setting.period.as_millis());
    let quiet = setting.quiet_periods;
    format!(
        "host here = process\nface consumers listens unix://{folder}/c.sock\n\
         face good listens unix://{folder}/good.sock single\n\
         face bad listens unix://{folder}/bad.sock single\npd = packet_dispatcher\n\
         cs1 = content_store(packets = {PACKETS}, mib = 4)\nbr = backward_router\n\
         nr = name_router(commands = [\"localhost\"])\n\
         cs2 = content_store(packets = {PACKETS}, mib = 4)\n\
         sf = strategy_forwarder(routes = [\"/ good bad\"], strategies = [\"/ multicast\"])\n\
         consumers -> pd.packet\npd.interest -> cs1.interest\npd.data -> br.data\n\
         pd.nack -> br.nack\ncs1.hit -> faces\n\
         cs1.miss -> br.interest -> nr.interest -> cs2.interest\ncs2.hit -> nr.data\n\
         cs2.miss -> sf.interest -> faces\ngood -> nr.interest\ngood -> sf.data\n\
         good -> sf.nack\nbad -> sf.data\nbad -> sf.nack\nbad -> nr.interest\n\
         sf.data -> cs2.data -> nr.data -> br.data -> cs1.data -> faces\n\
         sf.nack -> nr.nack -> br.nack -> faces\nservice front {{ pd, cs1 }}\n\
         service back {{ nr, cs2, sf }}\ntrust {{ anchor \"{folder}/site.cert\" }}\n\
         defend poisoning watch=cs1 period={period_ms}ms requests=30 quiet={quiet}\n"
    )
}

/// Counters at one time.
#[derive(Clone, Copy, Default)]
struct Look {
    at_s: f64,
    hits: u64,
    misses: u64,
    /// Interests of the good consumer, and fake Data that it received.
    asked: u64,
    fakes: u64,
}

impl Look {
    /// Returns the share of Interests since an earlier look that the store answered: of all, of the
    /// good consumer's.
    fn percent_since(&self, before: &Look) -> [f64; 2] {
        let hits = (self.hits - before.hits) as f64;
        let all = hits + (self.misses - before.misses) as f64;
        let asked = (self.asked - before.asked) as f64;
        [all, asked].map(|count| 100.0 * (hits / count.max(1.0)).min(1.0))
    }
}

/// A network with its producers and its good consumer.
struct Experiment<'a> {
    network: &'a ManagedNetwork,
    watch: &'a Watch<'a>,
    setting: Setting,
    consumer: Consumer,
    begun: Instant,
    /// Looks of the last seconds.
    looks: Vec<Look>,
    period_start: Look,
    cpu: BTreeMap<String, Duration>,
    /// State of the defence, and elements before which verifiers are asked for.
    state: String,
    is_learning: bool,
    places: Vec<String>,
    /// Whether a verifier runs before the store.
    has_verifier: bool,
    result: PoisoningResult,
}

impl Experiment<'_> {
    fn at_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Looks until a condition holds. `what` is the condition in words.
    fn until(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) -> Result<f64, Failure> {
        let limit = PHASE_LIMIT + self.setting.period * (20 + self.setting.quiet_periods);
        let deadline = Instant::now() + limit;
        loop {
            self.look()?;
            if is_done(self) {
                return Ok(self.at_s());
            }
            if (self.watch.is_interrupted)() {
                return Err(Failure::Interrupted);
            }
            if Instant::now() > deadline {
                let log = self.network.log();
                let end: Vec<&str> = log.lines().rev().take(3).collect();
                let text = format!("{what}: not in {} s; {}", limit.as_secs(), end.join("; "));
                return Err(failed("figure 7", text));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn periods(&mut self, count: u32) -> Result<f64, Failure> {
        let end = self.at_s() + self.setting.period.as_secs_f64() * f64::from(count);
        self.until("the time", |experiment| experiment.at_s() >= end)
    }

    /// Takes all counters once.
    fn look(&mut self) -> Result<(), Failure> {
        let defences: Vec<NetworkDefence> = self.network.manager("/v1/countermeasures")?;
        if let Some(defence) = defences.into_iter().next() {
            (self.state, self.is_learning) = (defence.state, defence.learning);
            let made = defence.countermeasures.into_iter();
            let verifiers = made.filter(|made| made.name.starts_with("defence-verify-"));
            self.places = verifiers.map(|made| made.at).collect();
        }
        // An instance whose graph is being changed answers a moment later.
        let elements = self.network.instance::<Vec<ServiceElement>>("front~1", "/v1/elements");
        let Ok(elements) = elements else { return Ok(()) };
        self.has_verifier = elements.iter().any(|known| known.name == "defence-verify-cs1");
        let Some(store) = elements.iter().find(|known| known.name == "cs1") else { return Ok(()) };
        let value = |name: &str| store.values.get(name).copied().unwrap_or(0);
        let (hits, misses) = (value("hits"), value("misses"));
        let (asked, fakes) = (self.consumer.asked(), self.consumer.fakes());
        let look = Look { at_s: self.at_s(), hits, misses, asked, fakes };
        let oldest_s = look.at_s - 2.0 * self.setting.window.as_secs_f64();
        self.looks.retain(|known| known.at_s > oldest_s);
        self.looks.push(look);
        if look.at_s - self.period_start.at_s >= self.setting.period.as_secs_f64() {
            self.end_period(look)?;
        }
        Ok(())
    }

    fn end_period(&mut self, look: Look) -> Result<(), Failure> {
        let before = std::mem::replace(&mut self.period_start, look);
        let (start_s, elapsed_s) = (before.at_s, look.at_s - before.at_s);
        let [all, good] = look.percent_since(&before);
        let fakes_per_s = (look.fakes - before.fakes) as f64 / elapsed_s;
        self.result.hit_percent.push((start_s, all));
        self.result.good_percent.push((start_s, good));
        self.result.fakes_per_s.push((start_s, fakes_per_s));
        for (name, cpu) in self.network.instance_cpu()? {
            if let Some(before) = self.cpu.insert(name.clone(), cpu) {
                let used = cpu.saturating_sub(before).as_secs_f64() / elapsed_s;
                let points = self.result.cpu_percent.entry(name).or_default();
                points.push((look.at_s, 100.0 * used));
            }
        }
        Ok(())
    }

    /// Returns whether the good consumer has its usual hit ratio again, in a window that began
    /// after a time.
    fn is_recovered(&self, after_s: f64) -> bool {
        let Some(last) = self.looks.last() else { return false };
        let window_s = self.setting.window.as_secs_f64();
        let mut earlier = self.looks.iter().rev();
        let first = earlier.find(|look| last.at_s - look.at_s >= window_s);
        let is_usual = |first: &Look| {
            first.at_s >= after_s
                && last.percent_since(first)[1] >= RECOVERED * self.result.usual_percent
        };
        first.is_some_and(is_usual)
    }

    /// One attack, until its countermeasures are gone.
    fn attack(&mut self, bad: &Producer, film: &Arc<Film>) -> Result<PoisoningAttack, Failure> {
        let near = self.network.socket("c.sock")?;
        (self.watch.progress)("figure 7: fake Data");
        let (start_s, fakes) = (self.at_s(), self.consumer.fakes());
        bad.set_attacking(true);
        let attacker = Consumer::start(&near, film, Wanted::NewNames, self.setting.rates[1])?;
        let detected_s =
            self.until("detection", |known| !["normal", "suspicious"].contains(&&*known.state))?;
        let verifier_s = self.until("a verifier before cs1", |known| known.has_verifier)?;
        let confirmed_s =
            self.until("confirmation", |known| ["confirmed", "isolated"].contains(&&*known.state))?;
        let mut attack = PoisoningAttack {
            start_s,
            detected_s,
            verifier_s,
            confirmed_s,
            ..PoisoningAttack::default()
        };
        self.answer(&mut attack)?;
        attack.fakes_before -= fakes;
        bad.set_attacking(false);
        drop(attacker);
        attack.end_s = self.at_s();
        (self.watch.progress)("figure 7: no fake Data any more");
        self.until("quiet", |known| known.state == "normal")?;
        attack.gone_s = self.wait_as_described()?;
        Ok(attack)
    }

    /// From the confirmation until the attack has been isolated for some periods.
    fn answer(&mut self, attack: &mut PoisoningAttack) -> Result<(), Failure> {
        let clean_s = attack.confirmed_s + UNDER_WAY.as_secs_f64();
        let limit_s = attack.confirmed_s + PHASE_LIMIT.as_secs_f64();
        let lasting_s =
            self.setting.period.as_secs_f64() * f64::from(self.setting.isolated_periods);
        let (mut fakes_before, mut end_s) = (None, f64::INFINITY);
        attack.isolated_s = f64::INFINITY;
        while self.at_s() < end_s.min(limit_s) || attack.recovered_s.is_none() {
            let now_s = self.until("the next look", |_| true)?;
            note_places(&mut attack.places, &self.places);
            if fakes_before.is_none() && now_s >= clean_s {
                fakes_before = Some(self.consumer.fakes());
            }
            if attack.recovered_s.is_none() && self.is_recovered(attack.verifier_s) {
                attack.recovered_s = Some(now_s);
            }
            if attack.isolated_s.is_infinite() && self.state == "isolated" {
                attack.isolated_s = now_s;
                end_s = now_s.max(clean_s) + lasting_s;
            }
            if now_s > limit_s {
                break;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        if attack.isolated_s.is_infinite() {
            return Err(failed("figure 7", "the attack is not isolated"));
        }
        let fakes = self.consumer.fakes();
        attack.fakes_before = fakes_before.unwrap_or(fakes);
        attack.fakes_after = fakes - attack.fakes_before;
        Ok(())
    }

    /// Waits until nothing that the defence added runs any more.
    fn wait_as_described(&mut self) -> Result<f64, Failure> {
        let has_none = |experiment: &Self| {
            let graphs = experiment.network.graphs();
            graphs.is_ok_and(|graphs| graphs.values().all(|text| !text.contains("defence-")))
        };
        self.until("the verifier is taken out", has_none)
    }
}

/// Notes a verifier's place when it is a new one.
fn note_places(places: &mut Vec<String>, now: &[String]) {
    for place in now {
        if !places.contains(place) {
            places.push(place.clone());
        }
    }
}

/// Runs the experiment; `is_quick` has short periods.
///
/// # Errors
/// The network can't be started, the defence does not act, or the user interrupted.
pub fn poisoning(nw: &Path, is_quick: bool, watch: &Watch<'_>) -> Result<PoisoningResult, Failure> {
    let setting = Setting::new(is_quick);
    let film = Arc::new(Film::new(NAMES)?);
    let sample_ms = setting.period.as_millis() as u64 / 2;
    (watch.progress)("figure 7: a good consumer");
    let mut network = ManagedNetwork::start(nw, sample_ms, watch, |folder| {
        let certificate = fs::write(folder.join("site.cert"), film.certificate());
        certificate.map_err(|error| failed("the certificate can't be written", error))?;
        Ok(document(folder, &setting))
    })?;
    let graphs = network.graphs()?;
    let good = Producer::good(&network.socket("good.sock")?, &film)?;
    let bad = Producer::bad(&network.socket("bad.sock")?, &film)?;
    let near = network.socket("c.sock")?;
    let consumer = Consumer::start(&near, &film, Wanted::Film, setting.rates[0])?;
    let mut experiment = Experiment {
        network: &network,
        watch,
        setting,
        consumer,
        begun: Instant::now(),
        looks: Vec::new(),
        period_start: Look::default(),
        cpu: BTreeMap::new(),
        state: String::new(),
        is_learning: true,
        places: Vec::new(),
        has_verifier: false,
        result: PoisoningResult {
            period_s: setting.period.as_secs_f64(),
            quiet_periods: setting.quiet_periods,
            rates: setting.rates,
            ..PoisoningResult::default()
        },
    };
    for _ in 0..setting.attacks {
        experiment.until("the defence has learned what is usual", |one| !one.is_learning)?;
        experiment.periods(setting.calm_periods)?;
        let last = experiment.result.good_percent.iter().rev().take(2);
        let usual = last.map(|(_, percent)| *percent).fold(0.0, f64::max);
        if experiment.result.attacks.is_empty() {
            experiment.result.usual_percent = usual;
        }
        let attack = experiment.attack(&bad, &film)?;
        experiment.result.attacks.push(attack);
    }
    experiment.periods(2)?;
    let Experiment { mut result, consumer, .. } = experiment;
    result.asked = consumer.asked();
    drop((consumer, good, bad));
    network.wait_converged(watch)?;
    result.end_equals_start = network.graphs()? == graphs;
    let log = network.log();
    let is_decision = |line: &&str| line.contains("poisoning at cs1: ");
    result.decisions = log.lines().filter(is_decision).map(str::to_owned).collect();
    let alarms = result.decisions.iter().filter(|line| line.contains(" to verifying: "));
    result.false_alarms = (alarms.count() as u64).saturating_sub(setting.attacks as u64);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_without_interests_has_no_hits() {
        let look = Look { hits: 5, misses: 15, asked: 10, ..Look::default() };
        assert_eq!(look.percent_since(&Look::default()), [25.0, 50.0]);
        assert_eq!(look.percent_since(&look), [0.0, 0.0]);
    }

    #[test]
    fn attack_without_recovery_takes_forever() {
        let mut result = PoisoningResult { period_s: 2.0, ..PoisoningResult::default() };
        let attack = PoisoningAttack {
            start_s: 10.0,
            detected_s: 15.0,
            verifier_s: 15.5,
            recovered_s: Some(17.0),
            ..PoisoningAttack::default()
        };
        result.attacks.push(attack.clone());
        assert_eq!((result.periods_to_detect(), result.seconds_to_recover()), (2.5, 1.5));
        result.attacks.push(PoisoningAttack { recovered_s: None, ..attack });
        assert!(result.seconds_to_recover().is_infinite());
    }

    #[test]
    fn place_is_noted_once() {
        let mut places = vec!["cs1".to_owned()];
        note_places(&mut places, &["cs1".to_owned(), "br".to_owned()]);
        assert_eq!(places, ["cs1", "br"]);
    }
}
