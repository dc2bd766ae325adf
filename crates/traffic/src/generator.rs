//! Who asks: when which Interest is due, which answers came, how long they took. No clock, no socket.
//!
//! *Open loop*: requests are due at a rate, whatever the answers do, and each one's latency counts from when it was due. A stall of the router,
//! or of this program, then shows in every request that it kept waiting ("coordinated omission" is what leaving them out is called). *Closed
//! loop*: so many requests wait at any time; latency counts from when one is sent.
//!
//! One Interest is on its way for one name: a request for a name that is asked for already joins it, as a router would do for one face.

use super::link::Arrival;
use super::measured::Measured;
use super::workload::{Request, Requests, Workload};
use core::time::Duration;
use nw_name::tlv::{Integer, push_number};
use nw_report_kit::random::splitmix64;
use nw_report_kit::zipf::unit;
use nw_wire::types as t;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Requests that may wait at a time; beyond, they are late and counted from when they were due.
pub const WAITING_MAX: usize = 65_536;

/// How often to look whether all is over, when nothing else is due.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// So many a second.
    Open {
        /// Requests a second.
        rate: f64,
        /// Gaps between them.
        arrivals: Arrivals,
    },
    /// So many waiting at any time.
    Closed {
        /// Requests.
        window: usize,
    },
}

/// Gaps between requests of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// All alike.
    Even,
    /// Exponentially distributed, as of many independent users.
    Poisson,
}

/// What bounds a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests.
    pub packets: Option<u64>,
    /// Time in which requests are due.
    pub duration: Duration,
    /// InterestLifetime: how long an answer is waited for.
    pub lifetime: Duration,
}

/// An Interest to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    request: Request,
    nonce: u32,
}

/// Requests that one Interest stands for.
#[derive(Debug)]
struct Waiting {
    /// Of the Interest, in the order of sending.
    sequence: u64,
    sent: Duration,
    first_due: Duration,
    /// When those that joined were due, and when they did.
    joined: Vec<(Duration, Duration)>,
}

/// A generator.
#[derive(Debug)]
pub struct Generator {
    workload: Workload,
    requests: Requests,
    load: Load,
    limits: Limits,
    nonces: u64,
    started: Duration,
    /// When the next request of an open loop is due.
    next_due: Duration,
    asked: u64,
    sequence: u64,
    /// The highest sequence number that was answered, plus one.
    answered_upto: u64,
    waiting: HashMap<Request, Waiting>,
    /// Requests that wait, joined ones included.
    waiting_count: usize,
    /// Interests in the order of sending, and when each is given up.
    expiries: VecDeque<(Duration, Request, u64)>,
    measured: Measured,
}

impl Generator {
    /// With requests of its own order. `nonces` should differ in each run: routers remember nonces.
    pub fn new(workload: &Workload, requests: Requests, load: Load, limits: Limits, nonces: u64) -> Self {
        Generator {
            workload: workload.clone(),
            requests,
            load,
            limits,
            nonces,
            started: Duration::ZERO,
            next_due: Duration::ZERO,
            asked: 0,
            sequence: 0,
            answered_upto: 0,
            waiting: HashMap::new(),
            waiting_count: 0,
            expiries: VecDeque::new(),
            // A number of packets may be reached long before the time is over.
            measured: Measured::new(if limits.packets.is_some() { Duration::ZERO } else { limits.duration }),
        }
    }

    /// Time begins.
    pub fn start(&mut self, now: Duration) {
        self.started = now;
        self.next_due = now;
    }

    /// True while the schedule has requests: by number and by time.
    fn has_more(&self, due: Duration) -> bool {
        self.limits.packets.is_none_or(|packets| self.asked < packets)
            && due.saturating_sub(self.started) < self.limits.duration
    }

    /// True when a request should be asked now.
    pub fn is_due(&self, now: Duration) -> bool {
        match self.load {
            Load::Open { .. } => {
                self.next_due <= now && self.waiting_count < WAITING_MAX && self.has_more(self.next_due)
                    // What is still late when nobody waits for answers any more stays unsent.
                    && now < self.started + self.limits.duration + self.limits.lifetime
            }
            Load::Closed { window } => self.waiting_count < window && self.has_more(now),
        }
    }

    /// Takes the next request. `None` when it joined an Interest on its way, else that Interest must be sent.
    pub fn ask(&mut self, now: Duration) -> Option<Ask> {
        let due = match self.load {
            Load::Open { rate, arrivals } => {
                let due = self.next_due;
                self.next_due = due + self.gap(rate, arrivals);
                due
            }
            Load::Closed { .. } => now,
        };
        self.asked += 1;
        self.waiting_count += 1;
        self.measured.asked(now.saturating_sub(self.started), now.saturating_sub(due));
        let waiting = &self.waiting;
        let request = self.requests.next(|request| waiting.contains_key(&request));
        if let Some(waiting) = self.waiting.get_mut(&request) {
            waiting.joined.push((due, now));
            self.measured.joined();
            return None;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        self.waiting.insert(request, Waiting { sequence, sent: now, first_due: due, joined: Vec::new() });
        if self.expiries.len() >= 4 * WAITING_MAX {
            // Answered ones pile up behind one that is not.
            let waiting = &self.waiting;
            self.expiries.retain(|(_, request, sequence)| {
                waiting.get(request).is_some_and(|waiting| waiting.sequence == *sequence)
            });
        }
        self.expiries.push_back((now + self.limits.lifetime, request, sequence));
        Some(Ask { request, nonce: splitmix64(self.nonces.wrapping_add(sequence)) as u32 })
    }

    fn gap(&self, rate: f64, arrivals: Arrivals) -> Duration {
        match arrivals {
            Arrivals::Even => {
                // From the number, so that rounding does not add up.
                let at = Duration::from_secs_f64((self.asked + 1) as f64 / rate);
                (self.started + at).saturating_sub(self.next_due)
            }
            Arrivals::Poisson => {
                let share = unit(splitmix64(self.workload.seed ^ splitmix64(self.asked)));
                Duration::from_secs_f64(-(1.0 - share).ln() / rate)
            }
        }
    }

    /// Appends the Interest.
    pub fn write(&self, ask: Ask, out: &mut Vec<u8>) {
        let lifetime = Integer::new(self.limits.lifetime.as_millis() as u64);
        let mut name = Vec::with_capacity(self.workload.name_octets.max);
        self.workload.write_name(ask.request.number, &mut name);
        let can_be_prefix = if ask.request.can_be_prefix { 2 } else { 0 };
        let name_len = 1 + nw_name::tlv::number_len(name.len() as u64) + name.len();
        push_number(u64::from(t::INTEREST), out);
        push_number((name_len + can_be_prefix + 6 + 2 + lifetime.as_bytes().len()) as u64, out);
        nw_name::tlv::push_tlv(t::NAME, &name, out);
        if ask.request.can_be_prefix {
            nw_name::tlv::push_tlv(t::CAN_BE_PREFIX, &[], out);
        }
        nw_name::tlv::push_tlv(t::NONCE, &ask.nonce.to_be_bytes(), out);
        nw_name::tlv::push_tlv(t::INTEREST_LIFETIME, lifetime.as_bytes(), out);
    }

    /// Takes what came.
    pub fn arrived(&mut self, now: Duration, arrival: Arrival<'_>) {
        let (name, refused) = match arrival {
            Arrival::Data { name, .. } => (name, None),
            Arrival::Nack { name, reason } => (name, Some(reason)),
        };
        let Some(numbered) = self.workload.number(name) else { return self.measured.unexpected() };
        // A Data of the very name answers both kinds of Interest, a longer one only those that allow it.
        let mut is_expected = false;
        for can_be_prefix in [false, true] {
            let request = Request { number: numbered.number, can_be_prefix };
            let answers = can_be_prefix || !numbered.is_longer;
            let Some(waiting) = answers.then(|| self.waiting.remove(&request)).flatten() else { continue };
            is_expected = true;
            let requests = 1 + waiting.joined.len();
            self.waiting_count -= requests;
            match refused {
                Some(reason) => self.measured.refused(reason, requests),
                None => self.answered(now, &waiting),
            }
        }
        match arrival {
            _ if !is_expected => self.measured.unexpected(),
            Arrival::Data { octets, is_marked, .. } => self.measured.data(octets, is_marked),
            Arrival::Nack { .. } => {}
        }
    }

    fn answered(&mut self, now: Duration, waiting: &Waiting) {
        let at = now.saturating_sub(self.started);
        let first = (waiting.first_due, waiting.sent);
        for (due, sent) in core::iter::once(first).chain(waiting.joined.iter().copied()) {
            self.measured.answered(at, now.saturating_sub(due), now.saturating_sub(sent));
        }
        if waiting.sequence < self.answered_upto {
            self.measured.reordered(self.answered_upto - 1 - waiting.sequence);
        }
        self.answered_upto = self.answered_upto.max(waiting.sequence + 1);
    }

    /// Gives up what nobody answered within its lifetime.
    pub fn expire(&mut self, now: Duration) {
        while let Some((deadline, request, sequence)) = self.expiries.front().copied() {
            let is_open = self.waiting.get(&request).is_some_and(|waiting| waiting.sequence == sequence);
            if is_open && deadline > now {
                break;
            }
            self.expiries.pop_front();
            if is_open && let Some(waiting) = self.waiting.remove(&request) {
                let requests = 1 + waiting.joined.len();
                self.waiting_count -= requests;
                self.measured.lost(deadline.saturating_sub(self.started), requests);
            }
        }
    }

    /// When to look again.
    pub fn wake(&self, now: Duration) -> Duration {
        if self.is_due(now) {
            return now;
        }
        let due = match self.load {
            Load::Open { .. } if self.waiting_count < WAITING_MAX && self.has_more(self.next_due) => {
                Some(self.next_due)
            }
            _ => None,
        };
        let expiry = self.expiries.front().map(|(deadline, ..)| *deadline);
        let end = (self.started + self.limits.duration).max(now);
        [due, expiry].into_iter().flatten().fold(end.max(now + LOOK_AGAIN), Duration::min)
    }

    /// True when all was asked and nothing is waited for.
    pub fn is_done(&self, now: Duration) -> bool {
        let has_more = match self.load {
            Load::Open { .. } => {
                self.has_more(self.next_due)
                    && now < self.started + self.limits.duration + self.limits.lifetime
            }
            Load::Closed { .. } => self.has_more(now),
        };
        !has_more && self.waiting.is_empty()
    }

    /// Time ends: what still waits was neither answered nor lost.
    pub fn end(&mut self, now: Duration) {
        let unsent = match self.load {
            Load::Open { rate, .. } => {
                let elapsed = now.saturating_sub(self.started).min(self.limits.duration);
                let due = (rate * elapsed.as_secs_f64()) as u64;
                due.min(self.limits.packets.unwrap_or(u64::MAX)).saturating_sub(self.asked)
            }
            Load::Closed { .. } => 0,
        };
        let unsent = if self.has_more(self.next_due) { unsent } else { 0 };
        self.measured.end(now.saturating_sub(self.started), self.waiting_count as u64, unsent);
    }

    /// What was seen so far.
    pub const fn measured(&self) -> &Measured {
        &self.measured
    }
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
