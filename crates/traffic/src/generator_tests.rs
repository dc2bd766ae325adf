//! The generator over a link with known faults, in virtual time.

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

/// A link in virtual time with a fixed delay, and faults by the number of the Interest.
struct FaultyLink {
    now: Duration,
    delay: Duration,
    sent: Vec<Vec<u8>>,
    /// Replies in flight, by arrival time and number of the Interest.
    in_flight: BTreeMap<(Duration, usize), ReplyKind>,
    /// Every nth Interest is lost, delayed twice as long, answered by a Nack, answered twice. 0:
    /// none.
    loss_period: usize,
    delay_period: usize,
    nack_period: usize,
    duplicate_period: usize,
    /// From and until when nothing leaves or arrives.
    stall: Option<(Duration, Duration)>,
    longest_wait: Duration,
}

#[derive(Clone, Copy)]
enum ReplyKind {
    Data,
    Nack,
}

impl FaultyLink {
    fn new(delay: Duration) -> Self {
        FaultyLink {
            now: Duration::ZERO,
            delay,
            sent: Vec::new(),
            in_flight: BTreeMap::new(),
            loss_period: 0,
            delay_period: 0,
            nack_period: 0,
            duplicate_period: 0,
            stall: None,
            longest_wait: Duration::ZERO,
        }
    }

    fn every(n: usize, i: usize) -> bool {
        n != 0 && i % n == n - 1
    }
}

impl Link for FaultyLink {
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.now
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut wire = Vec::new();
        write(&mut wire);
        let i = self.sent.len();
        self.sent.push(wire);
        if FaultyLink::every(self.loss_period, i) {
            return;
        }
        let extra_delay =
            if FaultyLink::every(self.delay_period, i) { self.delay } else { Duration::ZERO };
        let kind =
            if FaultyLink::every(self.nack_period, i) { ReplyKind::Nack } else { ReplyKind::Data };
        self.in_flight.insert((self.now + self.delay + extra_delay, i), kind);
        if FaultyLink::every(self.duplicate_period, i) {
            self.in_flight.insert((self.now + 2 * self.delay, i), kind);
        }
    }

    fn poll(
        &mut self,
        wait: Duration,
        mut on_reply: impl FnMut(Duration, Reply<'_>),
    ) -> Result<bool, Infallible> {
        self.longest_wait = self.longest_wait.max(wait);
        let mut until = self.now + wait;
        if let Some(((at, _), _)) = self.in_flight.first_key_value() {
            until = until.min((*at).max(self.now));
        }
        if let Some((from, to)) = self.stall
            && (from..to).contains(&until)
        {
            until = to;
        }
        self.now = until.max(self.now);
        while let Some(((at, i), kind)) = self.in_flight.pop_first() {
            if at > self.now {
                self.in_flight.insert((at, i), kind);
                break;
            }
            let interest = Interest::check(&self.sent[i]).expect("well-formed");
            let name = interest.name();
            match kind {
                ReplyKind::Data => {
                    on_reply(self.now, Reply::Data { name, len: 100, is_marked: false })
                }
                ReplyKind::Nack => {
                    on_reply(self.now, Reply::Nack { name, reason: NackReason::NoRoute })
                }
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
    Load::Open { rate, arrivals: ArrivalProcess::Even }
}

#[test]
fn open_loop_keeps_its_rate() {
    let mut link = FaultyLink::new(5 * MS);
    let mut generator = generator(&distinct(), even(1000.0), limits(u64::MAX, 2000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let measured = generator.measured();
    assert_eq!((measured.counters.asked, measured.counters.answered), (2000, 2000));
    assert_eq!(measured.counters.unsent, 0);
    // The last request is due at 1999 ms, and its answer takes 5 ms.
    assert_eq!(measured.busy(), 2004 * MS);
    assert_eq!(measured.latency.max_ns().unwrap() / 1_000_000, 5);
    assert!(measured.lateness.max_ns().unwrap() <= 1000, "nothing was late");
}

#[test]
fn open_loop_stall_counts_from_due_time() {
    let mut link = FaultyLink::new(MS);
    link.stall = Some((500 * MS, 600 * MS));
    let mut generator = generator(&distinct(), even(1000.0), limits(u64::MAX, 1000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let measured = generator.measured();
    assert_eq!(measured.counters.answered, 1000, "late requests are sent after the stall");
    // 100 of 1000 requests are due in the stall and wait 50 ms on average: the 99th percentile
    // shows it.
    let p99 = Duration::from_nanos(measured.latency.quantile_ns(0.99));
    assert!((85 * MS..=95 * MS).contains(&p99), "{p99:?}");
    let late = Duration::from_nanos(measured.lateness.max_ns().unwrap());
    assert!((95 * MS..=101 * MS).contains(&late), "{late:?}");
    // Latencies from sending show only the few requests in flight at the start of the stall.
    let since_sent = Duration::from_nanos(measured.since_sent.quantile_ns(0.99));
    assert!(since_sent < 2 * MS, "{since_sent:?}");
}

#[test]
fn closed_loop_keeps_its_window() {
    let mut link = FaultyLink::new(10 * MS);
    let mut generator =
        generator(&distinct(), Load::Closed { window: 8 }, limits(800, 10_000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let measured = generator.measured();
    // Eight requests every 10 ms.
    assert_eq!((measured.counters.answered, measured.busy()), (800, 1000 * MS));
}

#[test]
fn poisson_load_has_rate_and_variance() {
    let mut link = FaultyLink::new(MS);
    let load = Load::Open { rate: 1000.0, arrivals: ArrivalProcess::Poisson };
    let mut generator = generator(&distinct(), load, limits(u64::MAX, 10_000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let asked = generator.measured().counters.asked;
    // The standard deviation is 100.
    assert!((9_600..=10_400).contains(&asked), "{asked}");
}

#[test]
fn requests_for_one_name_share_one_interest() {
    let one = Workload { names: 1, ..workload() };
    let mut link = FaultyLink::new(10 * MS);
    let mut generator = generator(&one, even(1000.0), limits(10, 1000 * MS));
    assert_eq!(drive(&mut link, &mut generator), Ok(true));
    let counters = &generator.measured().counters;
    assert_eq!((counters.asked, counters.joined, counters.answered), (10, 9, 10));
    assert_eq!(link.sent.len(), 1);
    // The first request waits 10 ms, the last 1 ms.
    let latency = &generator.measured().latency;
    assert!(
        (990_000..=1_000_000).contains(&latency.min_ns().unwrap())
            && (9_990_000..=10_010_000).contains(&latency.max_ns().unwrap())
    );
}

#[test]
fn finish_early_counts_unanswered_and_unsent() {
    let mut generator = generator(&distinct(), even(1000.0), limits(1000, 1000 * MS));
    generator.start(Duration::ZERO);
    let interests = (0..10).filter_map(|_| generator.next_interest(10 * MS));
    assert_eq!(interests.count(), 10);
    generator.finish(100 * MS);
    let counters = &generator.measured().counters;
    assert_eq!((counters.asked, counters.unanswered, counters.unsent), (10, 10, 90));
}

#[test]
fn longer_name_answers_only_can_be_prefix() {
    let workload = Workload { can_be_prefix: 1.0, ..distinct() };
    for (can_be_prefix, answered) in [(1.0, 1), (0.0, 0)] {
        let workload = Workload { can_be_prefix, ..workload.clone() };
        let mut generator = generator(&workload, Load::Closed { window: 1 }, limits(1, 1000 * MS));
        generator.start(Duration::ZERO);
        let outgoing = generator.next_interest(Duration::ZERO).expect("nothing is outstanding");
        let mut wire = Vec::new();
        generator.encode(outgoing, &mut wire);
        let interest = Interest::check(&wire).expect("well-formed");
        assert_eq!(interest.can_be_prefix(), can_be_prefix == 1.0);
        let longer = interest.name().to_name().with_segment(0);
        generator.on_reply(MS, Reply::Data { name: longer.as_ref(), len: 9, is_marked: true });
        assert_eq!(generator.measured().counters.answered, answered);
        assert_eq!(generator.measured().counters.unexpected, 1 - answered);
    }
}

#[test]
fn unknown_names_are_counted_as_unexpected() {
    let mut generator = generator(&distinct(), Load::Closed { window: 1 }, limits(1, MS));
    generator.start(Duration::ZERO);
    for name in [&[][..], &[8, 1, b'x'], &[8, 10, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[50, 1, 0]] {
        let name = NameRef::check(name).expect("a name");
        generator.on_reply(MS, Reply::Data { name, len: 1, is_marked: false });
    }
    assert_eq!(generator.measured().counters.unexpected, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Each request ends in exactly one counter, and each fault is counted as often as it happened.
    #[test]
    fn link_faults_are_counted_exactly(
        loss_period in 0usize..9,
        delay_period in 0usize..9,
        nack_period in 0usize..9,
        duplicate_period in 0usize..9,
        packets in 1u64..500,
        window in 1usize..40,
        open: bool,
    ) {
        let mut link = FaultyLink {
            loss_period,
            delay_period,
            nack_period,
            duplicate_period,
            ..FaultyLink::new(3 * MS)
        };
        let load = if open { even(5000.0) } else { Load::Closed { window } };
        let mut generator = generator(&distinct(), load, limits(packets, 60_000 * MS));
        prop_assert_eq!(drive(&mut link, &mut generator), Ok(true));
        let counters = &generator.measured().counters;
        let sent = link.sent.len();
        let count = |of: &dyn Fn(usize) -> bool| (0..sent).filter(|i| of(*i)).count() as u64;
        let lost = |i| FaultyLink::every(loss_period, i);
        let refused = |i| FaultyLink::every(nack_period, i);
        prop_assert_eq!(sent as u64, packets);
        prop_assert_eq!(counters.lost, count(&lost));
        prop_assert_eq!(counters.refused.values().sum::<u64>(), count(&|i| !lost(i) && refused(i)));
        prop_assert_eq!(counters.asked, counters.answered + counters.lost + counters.refused.values().sum::<u64>());
        prop_assert_eq!((counters.unanswered, counters.unsent), (0, 0));
        prop_assert_eq!(generator.measured().latency.len(), counters.answered);
    }

    /// At a known rate, each delayed answer is overtaken by the answers of the next 2.5 ms.
    #[test]
    fn reordering_is_counted_as_in_rfc_4737(delay_period in 2usize..9, packets in 50u64..500) {
        // Requests are 1 ms apart, so a delay of 2.5 ms lets two others pass.
        let mut link = FaultyLink { delay_period, ..FaultyLink::new(2500 * US) };
        let mut generator = generator(&distinct(), even(1000.0), limits(packets, 60_000 * MS));
        prop_assert_eq!(drive(&mut link, &mut generator), Ok(true));
        // The definition of RFC 4737, from the list of answers in order of arrival.
        let arrival = |i: u64| {
            let is_delayed = FaultyLink::every(delay_period, i as usize);
            MS * i as u32 + 2500 * US * (1 + u32::from(is_delayed))
        };
        let mut order: Vec<(Duration, u64)> = (0..packets).map(|i| (arrival(i), i)).collect();
        order.sort();
        let (mut end, mut reordered, mut by) = (0, 0, 0);
        for (_, i) in order {
            if i < end {
                reordered += 1;
                by = by.max(end - 1 - i);
            }
            end = end.max(i + 1);
        }
        let counters = &generator.measured().counters;
        prop_assert_eq!((counters.reordered, counters.reordered_by_max), (reordered, by));
        prop_assert!(packets < 2 * delay_period as u64 || reordered > 0);
    }
}
