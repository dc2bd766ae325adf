//! Who asks at a rate, whatever the answers do: new names, names of a catalogue by Zipf's law, or pings.

use super::{AppCounters, Application, Arrival, Sends, push_interest};
use crate::random::Random;
use core::time::Duration;
use nw_element_api::Instant;
use nw_name::Name;
use nw_report_kit::zipf::Zipf;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Names {
    /// 0, 1, 2 and so on.
    Counted,
    /// Of a catalogue, by Zipf's law.
    Popular(Arc<Zipf>),
    /// 64 random bits each: what nobody has.
    Random,
}

/// How to ask.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// Below which all names are.
    pub prefix: Name,
    /// Which.
    pub names: Names,
    /// Between two, nanoseconds; on average where `poisson`.
    pub pause_ns: f64,
    /// At random, as of many independent users.
    pub poisson: bool,
    /// InterestLifetime.
    pub lifetime_ms: u32,
    /// From when to when.
    pub start: Instant,
    /// See [`start`](Self::start).
    pub stop: Instant,
    /// Most requests.
    pub requests_max: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Consumer {
    config: ConsumerConfig,
    random: Random,
    requests: u64,
    next: Instant,
    /// By number in the name: when it was sent.
    waiting: HashMap<u64, Instant, BuildHasherDefault<DefaultHasher>>,
    /// In the order they were sent; those that were answered are skipped.
    sent: VecDeque<(Instant, u64)>,
    counters: AppCounters,
}

impl Consumer {
    /// Nothing asked yet.
    pub fn new(config: ConsumerConfig, mut random: Random) -> Self {
        // Not all at the same moment.
        let first = config.pause_ns * random.unit();
        let next = config.start + Duration::from_nanos(first as u64);
        Consumer {
            next,
            config,
            random,
            requests: 0,
            waiting: HashMap::default(),
            sent: VecDeque::new(),
            counters: AppCounters::default(),
        }
    }

    fn lifetime(&self) -> Duration {
        Duration::from_millis(u64::from(self.config.lifetime_ms))
    }

    fn is_over(&self) -> bool {
        self.requests >= self.config.requests_max || self.next >= self.config.stop
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.sent.front() {
            let waits = self.waiting.get(&number) == Some(&at);
            if waits && at + self.lifetime() > now {
                break;
            }
            self.sent.pop_front();
            if waits {
                self.waiting.remove(&number);
                self.counters.timeouts += 1;
            }
        }
    }

    fn ask(&mut self, now: Instant, sends: &mut Sends) {
        let number = match &self.config.names {
            Names::Counted => self.requests,
            Names::Popular(zipf) => zipf.draw(self.random.next_u64()) as u64,
            Names::Random => self.random.next_u64(),
        };
        self.requests += 1;
        if self.waiting.contains_key(&number) {
            self.counters.joined += 1;
            return;
        }
        self.waiting.insert(number, now);
        self.sent.push_back((now, number));
        self.counters.sent += 1;
        let nonce = self.random.next_u64() as u32;
        let prefix = self.config.prefix.as_ref();
        sends.push(|out| push_interest(prefix.as_bytes(), number, nonce, self.config.lifetime_ms, out));
    }
}

impl Application for Consumer {
    fn receive(&mut self, now: Instant, arrival: Arrival<'_>, _: &mut Sends) {
        match arrival {
            Arrival::Data { name, octets, is_marked, .. } => {
                self.counters.octets += octets as u64;
                self.counters.marks += u64::from(is_marked);
                match nw_name::convention::segment(name).and_then(|number| self.waiting.remove(&number)) {
                    Some(at) => {
                        self.counters.satisfied += 1;
                        self.counters.round_trip(now.since(at).as_nanos() as u64);
                    }
                    None => self.counters.late += 1,
                }
            }
            Arrival::Nack { name, .. } => {
                if nw_name::convention::segment(name)
                    .and_then(|number| self.waiting.remove(&number))
                    .is_some()
                {
                    self.counters.nacks += 1;
                }
            }
            Arrival::Interest { .. } => {}
        }
        self.counters.pending = self.waiting.len() as u64;
    }

    fn tick(&mut self, now: Instant, sends: &mut Sends) {
        self.expire(now);
        while self.next <= now && !self.is_over() {
            self.ask(now, sends);
            let pause_ns = self.config.pause_ns;
            let pause_ns = if self.config.poisson { self.random.exponential(pause_ns) } else { pause_ns };
            self.next = self.next + Duration::from_nanos((pause_ns as u64).max(1));
        }
        self.counters.pending = self.waiting.len() as u64;
    }

    fn deadline(&self) -> Option<Instant> {
        let next = (!self.is_over()).then_some(self.next);
        // An answered one may stand in front: then this is only too early.
        let expiry = self.sent.front().map(|(at, _)| *at + self.lifetime());
        [next, expiry].into_iter().flatten().min()
    }

    fn counters(&self) -> &AppCounters {
        &self.counters
    }
}
