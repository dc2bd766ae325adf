//! A generator beside a link whose faults are known.

use super::*;
use crate::link::{Link, drive};
use crate::workload::tests::workload;
use crate::workload::{Pattern, Requests, Workload};
use core::convert::Infallible;
use nw_name::NameRef;
use nw_wire::{Interest, NackReason};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

/// Virtual time, a fixed delay, and faults by the number of an Interest.
struct Fake {
    now: Duration,
    delay: Duration,
    sent: Vec<Vec<u8>>,
    /// Answers on their way.
    coming: BTreeMap<(Duration, usize), What>,
    /// Every so manieth Interest is lost, delayed by another delay, refused, answered twice; 0 for none.
    lose: usize,
    slow: usize,
    refuse: usize,
    twice: usize,
    /// Until then nothing arrives: what is due waits for it.
    stall: Option<(Duration, Duration)>,
    longest_wait: Duration,
}

#[derive(Clone, Copy)]
enum What {
    Data,
    Nack,
}

impl Fake {
    fn new(delay: Duration) -> Self {
        Fake {
            now: Duration::ZERO,
            delay,
            sent: Vec::new(),
            coming: BTreeMap::new(),
            lose: 0,
            slow: 0,
            refuse: 0,
            twice: 0,
            stall: None,
            longest_wait: Duration::ZERO,
        }
    }

    fn every(n: usize, i: usize) -> bool {
        n != 0 && i % n == n - 1
    }
}

impl Link for Fake {
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.now
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut wire = Vec::new();
        write(&mut wire);
        let i = self.sent.len();
        self.sent.push(wire);
        if Fake::every(self.lose, i) {
            return;
        }
        let slower = if Fake::every(self.slow, i) { self.delay } else { Duration::ZERO };
        let what = if Fake::every(self.refuse, i) { What::Nack } else { What::Data };
        self.coming.insert((self.now + self.delay + slower, i), what);
        if Fake::every(self.twice, i) {
            self.coming.insert((self.now + 2 * self.delay, i), what);
        }
    }

    fn turn(
        &mut self,
        wait: Duration,
        mut arrived: impl FnMut(Duration, Arrival<'_>),
    ) -> Result<bool, Infallible> {
        self.longest_wait = self.longest_wait.max(wait);
        let mut until = self.now + wait;
        if let Some(((at, _), _)) = self.coming.first_key_value() {
            until = until.min((*at).max(self.now));
        }
        // Whoever stalls, stalls all: nothing leaves, nothing arrives.
        if let Some((from, to)) = self.stall
            && (from..to).contains(&until)
        {
            until = to;
        }
        self.now = until.max(self.now);
        while let Some(((at, i), what)) = self.coming.pop_first() {
            if at > self.now {
                self.coming.insert((at, i), what);
                break;
            }
            let interest = Interest::check(&self.sent[i]).expect("well-formed");
            let name = interest.name();
            match what {
                What::Data => arrived(self.now, Arrival::Data { name, octets: 100, is_marked: false }),
                What::Nack => arrived(self.now, Arrival::Nack { name, reason: NackReason::NoRoute }),
            }
        }
        Ok(true)
    }
}

fn limits(packets: u64, duration: Duration) -> Limits {
    Limits { packets: Some(packets), duration, lifetime: 100 * MS }
}

/// All names different, so that each request is an Interest.
fn distinct() -> Workload {
    Workload { names: 1_000_000, pattern: Pattern::Sequential, ..workload() }
}

fn generator(workload: &Workload, load: Load, limits: Limits) -> Generator {
    Generator::new(workload, Requests::new(workload), load, limits, 1)
}

fn even(rate: f64) -> Load {
    Load::Open { rate, arrivals: Arrivals::Even }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let mut link = Fake::new(5 * MS);
    let mut generator = generator(&distinct(), even(1000.0), limits(u64::MAX, 2000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let measured = generator.measured();
    assert_eq!((measured.counters.asked, measured.counters.answered), (2000, 2000));
    assert_eq!(measured.counters.unsent, 0);
    // The answers of the last request came 5 ms after it was due, at 1999 ms.
    assert_eq!(measured.busy(), 2004 * MS);
    assert_eq!(measured.latency.max_ns().unwrap() / 1_000_000, 5);
    assert!(measured.lateness.max_ns().unwrap() <= 1000, "nothing was late");
}

#[test]
fn a_stall_is_counted_from_when_requests_were_due() {
    let mut link = Fake::new(MS);
    link.stall = Some((500 * MS, 600 * MS));
    let mut generator = generator(&distinct(), even(1000.0), limits(u64::MAX, 1000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let measured = generator.measured();
    assert_eq!(measured.counters.answered, 1000, "those that were late are made up for");
    // A hundred requests were due in the stall: a tenth of all waited, 50 ms on average, and the 99th percentile shows it.
    let p99 = Duration::from_nanos(measured.latency.quantile_ns(0.99));
    assert!((85 * MS..=95 * MS).contains(&p99), "{p99:?}");
    let late = Duration::from_nanos(measured.lateness.max_ns().unwrap());
    assert!((95 * MS..=101 * MS).contains(&late), "{late:?}");
    // Who counts from sending sees but the few that were on their way.
    let since_sent = Duration::from_nanos(measured.since_sent.quantile_ns(0.99));
    assert!(since_sent < 2 * MS, "{since_sent:?}");
}

#[test]
fn a_closed_loop_keeps_its_window() {
    let mut link = Fake::new(10 * MS);
    let mut generator = generator(&distinct(), Load::Closed { window: 8 }, limits(800, 10_000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let measured = generator.measured();
    // Eight each 10 ms.
    assert_eq!((measured.counters.answered, measured.busy()), (800, 1000 * MS));
}

#[test]
fn poisson_arrivals_have_the_rate_and_its_spread() {
    let mut link = Fake::new(MS);
    let load = Load::Open { rate: 1000.0, arrivals: Arrivals::Poisson };
    let mut generator = generator(&distinct(), load, limits(u64::MAX, 10_000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let asked = generator.measured().counters.asked;
    // A standard deviation is a hundred.
    assert!((9_600..=10_400).contains(&asked), "{asked}");
}

#[test]
fn two_requests_for_one_name_are_one_interest_and_two_answers() {
    let one = Workload { names: 1, ..workload() };
    let mut link = Fake::new(10 * MS);
    let mut generator = generator(&one, even(1000.0), limits(10, 1000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let counters = &generator.measured().counters;
    assert_eq!((counters.asked, counters.joined, counters.answered), (10, 9, 10));
    assert_eq!(link.sent.len(), 1);
    // The first waited 10 ms, the last one.
    let latency = &generator.measured().latency;
    assert!(
        (990_000..=1_000_000).contains(&latency.min_ns().unwrap())
            && (9_990_000..=10_010_000).contains(&latency.max_ns().unwrap())
    );
}

#[test]
fn an_end_before_its_time_is_told() {
    let mut generator = generator(&distinct(), even(1000.0), limits(1000, 1000 * MS));
    generator.start(Duration::ZERO);
    let asks = (0..10).filter_map(|_| generator.ask(10 * MS));
    assert_eq!(asks.count(), 10);
    generator.end(100 * MS);
    let counters = &generator.measured().counters;
    assert_eq!((counters.asked, counters.unanswered, counters.unsent), (10, 10, 90));
}

#[test]
fn a_longer_name_answers_only_who_allows_it() {
    let workload = Workload { can_be_prefix: 1.0, ..distinct() };
    for (can_be_prefix, answered) in [(1.0, 1), (0.0, 0)] {
        let workload = Workload { can_be_prefix, ..workload.clone() };
        let mut generator = generator(&workload, Load::Closed { window: 1 }, limits(1, 1000 * MS));
        generator.start(Duration::ZERO);
        let ask = generator.ask(Duration::ZERO).expect("nothing is on its way");
        let mut wire = Vec::new();
        generator.write(ask, &mut wire);
        let interest = Interest::check(&wire).expect("well-formed");
        assert_eq!(interest.can_be_prefix(), can_be_prefix == 1.0);
        let longer = interest.name().to_name().with_segment(0);
        generator.arrived(MS, Arrival::Data { name: longer.as_ref(), octets: 9, is_marked: true });
        assert_eq!(generator.measured().counters.answered, answered);
        assert_eq!(generator.measured().counters.unexpected, 1 - answered);
    }
}

#[test]
fn names_of_others_are_counted_and_survived() {
    let mut generator = generator(&distinct(), Load::Closed { window: 1 }, limits(1, MS));
    generator.start(Duration::ZERO);
    for name in [&[][..], &[8, 1, b'x'], &[8, 10, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[50, 1, 0]] {
        let name = NameRef::check(name).expect("a name");
        generator.arrived(MS, Arrival::Data { name, octets: 1, is_marked: false });
    }
    assert_eq!(generator.measured().counters.unexpected, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever a link does, each request ends in one counter, and each fault is counted as often as it happened.
    #[test]
    fn faults_are_counted_exactly(
        lose in 0usize..9, slow in 0usize..9, refuse in 0usize..9, twice in 0usize..9, packets in 1u64..500, window in 1usize..40, open: bool
    ) {
        let mut link = Fake { lose, slow, refuse, twice, ..Fake::new(3 * MS) };
        let load = if open { even(5000.0) } else { Load::Closed { window } };
        let mut generator = generator(&distinct(), load, limits(packets, 60_000 * MS));
        prop_assert_eq!(drive(&mut link, &mut generator), Ok(true));
        let counters = &generator.measured().counters;
        let sent = link.sent.len();
        let count = |of: &dyn Fn(usize) -> bool| (0..sent).filter(|i| of(*i)).count() as u64;
        let lost = |i| Fake::every(lose, i);
        let refused = |i| Fake::every(refuse, i);
        prop_assert_eq!(sent as u64, packets);
        prop_assert_eq!(counters.lost, count(&lost));
        prop_assert_eq!(counters.refused.values().sum::<u64>(), count(&|i| !lost(i) && refused(i)));
        prop_assert_eq!(counters.asked, counters.answered + counters.lost + counters.refused.values().sum::<u64>());
        prop_assert_eq!((counters.unanswered, counters.unsent), (0, 0));
        prop_assert_eq!(generator.measured().latency.len(), counters.answered);
    }

    /// At a known rate each slow answer is overtaken by those of the next delay.
    #[test]
    fn reordering_is_counted_exactly(slow in 2usize..9, packets in 50u64..500) {
        // 1 ms between requests, so that 2.5 ms more let two others pass.
        let mut link = Fake { slow, ..Fake::new(2500 * US) };
        let mut generator = generator(&distinct(), even(1000.0), limits(packets, 60_000 * MS));
        prop_assert_eq!(drive(&mut link, &mut generator), Ok(true));
        // By the definition of RFC 4737, from a list of what came in which order.
        let mut order: Vec<(Duration, u64)> = (0..packets)
            .map(|i| (MS * i as u32 + 2500 * US + if Fake::every(slow, i as usize) { 2500 * US } else { Duration::ZERO }, i))
            .collect();
        order.sort();
        let (mut upto, mut reordered, mut by) = (0, 0, 0);
        for (_, i) in order {
            if i < upto {
                reordered += 1;
                by = by.max(upto - 1 - i);
            }
            upto = upto.max(i + 1);
        }
        let counters = &generator.measured().counters;
        prop_assert_eq!((counters.reordered, counters.reordered_by_max), (reordered, by));
        prop_assert!(packets < 2 * slow as u64 || reordered > 0);
    }
}
