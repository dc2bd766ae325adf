//! A consumer that sends at a rate, independent of replies: new names, names of a catalogue (Zipf),
//! or pings.

use super::{AppCounters, Application, Arrival, OutgoingPackets, push_interest};
use crate::random::Random;
use core::time::Duration;
use nw_element_api::Timestamp;
use nw_name::Name;
use nw_report_kit::zipf::Zipf;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

/// How names are chosen.
#[derive(Clone, Debug)]
pub enum Names {
    /// 0, 1, 2 and so on.
    Counted,
    /// Names of a catalogue, by Zipf's law.
    Popular(Arc<Zipf>),
    /// 64 random bits each: not in any content store.
    Random,
}

/// Parameters of a consumer.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// Prefix of all names.
    pub prefix: Name,
    /// How names are chosen.
    pub names: Names,
    /// Interval between Interests, nanoseconds; the mean if `poisson`.
    pub pause_ns: f64,
    /// Random intervals, as of many independent users.
    pub poisson: bool,
    /// InterestLifetime, milliseconds.
    pub lifetime_ms: u32,
    /// Start time.
    pub start: Timestamp,
    /// Time after which no Interests are sent.
    pub stop: Timestamp,
    /// Maximum number of requests.
    pub requests_max: u64,
}

/// A consumer that sends at a rate.
#[derive(Debug)]
pub struct Consumer {
    config: ConsumerConfig,
    random: Random,
    requests: u64,
    next_send: Timestamp,
    /// Pending Interests: time sent, by number in the name.
    pending: HashMap<u64, Timestamp, BuildHasherDefault<DefaultHasher>>,
    /// Sent Interests, in order; satisfied ones are skipped when they reach the front.
    sent: VecDeque<(Timestamp, u64)>,
    counters: AppCounters,
}

impl Consumer {
    /// Creates a consumer that has not sent anything.
    pub fn new(config: ConsumerConfig, mut random: Random) -> Self {
        // A random offset, so that consumers do not start together.
        let first = config.pause_ns * random.unit();
        let next_send = config.start + Duration::from_nanos(first as u64);
        Consumer {
            next_send,
            config,
            random,
            requests: 0,
            pending: HashMap::default(),
            sent: VecDeque::new(),
            counters: AppCounters::default(),
        }
    }

    fn lifetime(&self) -> Duration {
        Duration::from_millis(u64::from(self.config.lifetime_ms))
    }

    fn is_over(&self) -> bool {
        self.requests >= self.config.requests_max || self.next_send >= self.config.stop
    }

    fn expire(&mut self, now: Timestamp) {
        while let Some(&(at, number)) = self.sent.front() {
            let is_pending = self.pending.get(&number) == Some(&at);
            if is_pending && at + self.lifetime() > now {
                break;
            }
            self.sent.pop_front();
            if is_pending {
                self.pending.remove(&number);
                self.counters.timeouts += 1;
            }
        }
    }

    fn send_interest(&mut self, now: Timestamp, outgoing: &mut OutgoingPackets) {
        let number = match &self.config.names {
            Names::Counted => self.requests,
            Names::Popular(zipf) => zipf.draw(self.random.next_u64()) as u64,
            Names::Random => self.random.next_u64(),
        };
        self.requests += 1;
        if self.pending.contains_key(&number) {
            self.counters.joined += 1;
            return;
        }
        self.pending.insert(number, now);
        self.sent.push_back((now, number));
        self.counters.sent += 1;
        let nonce = self.random.next_u64() as u32;
        let prefix = self.config.prefix.as_ref();
        outgoing.push(|out| {
            push_interest(prefix.as_bytes(), number, nonce, self.config.lifetime_ms, out)
        });
    }
}

impl Application for Consumer {
    fn receive(&mut self, now: Timestamp, arrival: Arrival<'_>, _: &mut OutgoingPackets) {
        match arrival {
            Arrival::Data { name, bytes, is_marked, .. } => {
                self.counters.bytes += bytes as u64;
                self.counters.marks += u64::from(is_marked);
                match nw_name::convention::segment(name)
                    .and_then(|number| self.pending.remove(&number))
                {
                    Some(at) => {
                        self.counters.satisfied += 1;
                        self.counters.round_trip(now.since(at).as_nanos() as u64);
                    }
                    None => self.counters.late += 1,
                }
            }
            Arrival::Nack { name, .. } => {
                if nw_name::convention::segment(name)
                    .and_then(|number| self.pending.remove(&number))
                    .is_some()
                {
                    self.counters.nacks += 1;
                }
            }
            Arrival::Interest { .. } => {}
        }
        self.counters.pending = self.pending.len() as u64;
    }

    fn tick(&mut self, now: Timestamp, outgoing: &mut OutgoingPackets) {
        self.expire(now);
        while self.next_send <= now && !self.is_over() {
            self.send_interest(now, outgoing);
            let pause_ns = self.config.pause_ns;
            let pause_ns =
                if self.config.poisson { self.random.exponential(pause_ns) } else { pause_ns };
            self.next_send = self.next_send + Duration::from_nanos((pause_ns as u64).max(1));
        }
        self.counters.pending = self.pending.len() as u64;
    }

    fn deadline(&self) -> Option<Timestamp> {
        let next = (!self.is_over()).then_some(self.next_send);
        // The front may be satisfied already: then the deadline is only too early.
        let expiry = self.sent.front().map(|(at, _)| *at + self.lifetime());
        [next, expiry].into_iter().flatten().min()
    }

    fn counters(&self) -> &AppCounters {
        &self.counters
    }
}
