//! The generator: decides when each Interest is due, matches replies, measures latencies. Pure:
//! time is an argument, and a [`Link`](super::link::Link) carries the packets.
//!
//! *Open loop*: requests are due at a rate, independent of the replies, and latency counts from the
//! due time. A stall of the router or of this program shows in every request that it delayed;
//! leaving these out is known as *coordinated omission*. *Closed loop*: a fixed number of requests
//! is outstanding, and latency counts from sending.
//!
//! Invariant: at most one Interest is outstanding for a name. Another request for the name joins
//! it, as in a router's PIT.

use super::link::Reply;
use super::measured::Measured;
use super::workload::{Request, Requests, Workload};
use core::time::Duration;
use nw_name::tlv::{Integer, push_number};
use nw_packet_types::random::splitmix64;
use nw_report_kit::zipf::unit;
use nw_wire::types as t;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Maximum number of outstanding requests. Requests beyond it are sent late; their latency still
/// counts from the due time.
pub const OUTSTANDING_MAX: usize = 65_536;

/// Interval at which the end of the run is checked when nothing else is due.
const RECHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The load: when requests are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Open loop: requests at a rate.
    Open {
        /// Requests per second.
        rate: f64,
        /// Distribution of the gaps between requests.
        arrivals: ArrivalProcess,
    },
    /// Closed loop: a fixed number of outstanding requests.
    Closed {
        /// Number of outstanding requests.
        window: usize,
    },
}

/// Distribution of the gaps between requests of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalProcess {
    /// Equal gaps.
    Even,
    /// Exponentially distributed gaps, as from many independent users.
    Poisson,
}

/// Limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of requests. `None` for no limit.
    pub packets: Option<u64>,
    /// Time during which requests are due.
    pub duration: Duration,
    /// InterestLifetime: the time after which a request is lost.
    pub lifetime: Duration,
}

/// An Interest that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingInterest {
    request: Request,
    nonce: u32,
}

/// An Interest in flight, with the requests that wait for its answer.
#[derive(Debug)]
struct Outstanding {
    /// Number of the Interest in order of sending.
    sequence: u64,
    sent: Duration,
    first_due: Duration,
    /// Due time and joining time of the requests that joined it.
    joined: Vec<(Duration, Duration)>,
}

/// A traffic generator.
#[derive(Debug)]
pub struct Generator {
    workload: Workload,
    requests: Requests,
    load: Load,
    limits: Limits,
    nonce_seed: u64,
    started: Duration,
    /// Due time of the next request of an open loop.
    next_due: Duration,
    asked: u64,
    sequence: u64,
    /// The highest answered sequence number plus one.
    answered_end: u64,
    outstanding: HashMap<Request, Outstanding>,
    /// Outstanding requests, including those that joined an Interest.
    outstanding_requests: usize,
    /// Expiry times of Interests, in order of sending.
    expiries: VecDeque<(Duration, Request, u64)>,
    measured: Measured,
}

impl Generator {
    /// Creates a generator. `nonce_seed` should differ in each run, because routers store nonces.
    pub fn new(
        workload: &Workload,
        requests: Requests,
        load: Load,
        limits: Limits,
        nonce_seed: u64,
    ) -> Self {
        Generator {
            workload: workload.clone(),
            requests,
            load,
            limits,
            nonce_seed,
            started: Duration::ZERO,
            next_due: Duration::ZERO,
            asked: 0,
            sequence: 0,
            answered_end: 0,
            outstanding: HashMap::new(),
            outstanding_requests: 0,
            expiries: VecDeque::new(),
            // A limit of packets may be reached long before the duration ends.
            measured: Measured::new(if limits.packets.is_some() {
                Duration::ZERO
            } else {
                limits.duration
            }),
        }
    }

    /// Starts the run at this time.
    pub fn start(&mut self, now: Duration) {
        self.started = now;
        self.next_due = now;
    }

    /// Returns true while neither the number of requests nor the duration is exhausted.
    fn schedule_has_more(&self, due: Duration) -> bool {
        self.limits.packets.is_none_or(|packets| self.asked < packets)
            && due.saturating_sub(self.started) < self.limits.duration
    }

    /// Returns true if a request should be issued now.
    pub fn is_due(&self, now: Duration) -> bool {
        match self.load {
            Load::Open { .. } => {
                // A request that is still late after all lifetimes have passed stays unsent.
                let end = self.started + self.limits.duration + self.limits.lifetime;
                self.next_due <= now
                    && self.outstanding_requests < OUTSTANDING_MAX
                    && self.schedule_has_more(self.next_due)
                    && now < end
            }
            Load::Closed { window } => {
                self.outstanding_requests < window && self.schedule_has_more(now)
            }
        }
    }

    /// Issues the next request. Returns its Interest, which must be sent. `None` if the request
    /// joined an outstanding Interest.
    pub fn next_interest(&mut self, now: Duration) -> Option<OutgoingInterest> {
        let due = match self.load {
            Load::Open { rate, arrivals } => {
                let due = self.next_due;
                self.next_due = due + self.gap(rate, arrivals);
                due
            }
            Load::Closed { .. } => now,
        };
        self.asked += 1;
        self.outstanding_requests += 1;
        self.measured.asked(now.saturating_sub(self.started), now.saturating_sub(due));
        let outstanding = &self.outstanding;
        let request = self.requests.next(|request| outstanding.contains_key(&request));
        if let Some(interest) = self.outstanding.get_mut(&request) {
            interest.joined.push((due, now));
            self.measured.joined();
            return None;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        self.outstanding.insert(
            request,
            Outstanding { sequence, sent: now, first_due: due, joined: Vec::new() },
        );
        if self.expiries.len() >= 4 * OUTSTANDING_MAX {
            // AnswerCounters ones pile up behind one that is not.
            let outstanding = &self.outstanding;
            self.expiries.retain(|(_, request, sequence)| {
                outstanding.get(request).is_some_and(|interest| interest.sequence == *sequence)
            });
        }
        self.expiries.push_back((now + self.limits.lifetime, request, sequence));
        Some(OutgoingInterest {
            request,
            nonce: splitmix64(self.nonce_seed.wrapping_add(sequence)) as u32,
        })
    }

    fn gap(&self, rate: f64, arrivals: ArrivalProcess) -> Duration {
        match arrivals {
            ArrivalProcess::Even => {
                // Computed from the number of requests, so that rounding errors do not add up.
                let at = Duration::from_secs_f64((self.asked + 1) as f64 / rate);
                (self.started + at).saturating_sub(self.next_due)
            }
            ArrivalProcess::Poisson => {
                let share = unit(splitmix64(self.workload.seed ^ splitmix64(self.asked)));
                Duration::from_secs_f64(-(1.0 - share).ln() / rate)
            }
        }
    }

    /// Appends the encoded Interest.
    pub fn encode(&self, interest: OutgoingInterest, out: &mut Vec<u8>) {
        let lifetime = Integer::new(self.limits.lifetime.as_millis() as u64);
        let mut name = Vec::with_capacity(self.workload.name_len.max);
        self.workload.write_name(interest.request.number, &mut name);
        let can_be_prefix = if interest.request.can_be_prefix { 2 } else { 0 };
        let name_len = 1 + nw_name::tlv::number_len(name.len() as u64) + name.len();
        push_number(u64::from(t::INTEREST), out);
        push_number((name_len + can_be_prefix + 6 + 2 + lifetime.as_bytes().len()) as u64, out);
        nw_name::tlv::push_tlv(t::NAME, &name, out);
        if interest.request.can_be_prefix {
            nw_name::tlv::push_tlv(t::CAN_BE_PREFIX, &[], out);
        }
        nw_name::tlv::push_tlv(t::NONCE, &interest.nonce.to_be_bytes(), out);
        nw_name::tlv::push_tlv(t::INTEREST_LIFETIME, lifetime.as_bytes(), out);
    }

    /// Handles a reply: records the latency of every request it answers.
    pub fn on_reply(&mut self, now: Duration, reply: Reply<'_>) {
        let (name, nack) = match reply {
            Reply::Data { name, .. } => (name, None),
            Reply::Nack { name, reason } => (name, Some(reason)),
        };
        let Some(parsed) = self.workload.number(name) else { return self.measured.unexpected() };
        // Data with the exact name answers Interests with and without CanBePrefix, a longer name
        // only those with it.
        let mut is_expected = false;
        for can_be_prefix in [false, true] {
            let request = Request { number: parsed.number, can_be_prefix };
            let answers = can_be_prefix || !parsed.is_longer;
            let Some(interest) = answers.then(|| self.outstanding.remove(&request)).flatten()
            else {
                continue;
            };
            is_expected = true;
            let requests = 1 + interest.joined.len();
            self.outstanding_requests -= requests;
            match nack {
                Some(reason) => self.measured.refused(reason, requests),
                None => self.record_answer(now, &interest),
            }
        }
        match reply {
            _ if !is_expected => self.measured.unexpected(),
            Reply::Data { len, is_marked, .. } => self.measured.data(len, is_marked),
            Reply::Nack { .. } => {}
        }
    }

    fn record_answer(&mut self, now: Duration, interest: &Outstanding) {
        let at = now.saturating_sub(self.started);
        let first = (interest.first_due, interest.sent);
        for (due, sent) in core::iter::once(first).chain(interest.joined.iter().copied()) {
            self.measured.answered(at, now.saturating_sub(due), now.saturating_sub(sent));
        }
        if interest.sequence < self.answered_end {
            self.measured.reordered(self.answered_end - 1 - interest.sequence);
        }
        self.answered_end = self.answered_end.max(interest.sequence + 1);
    }

    /// Counts Interests as lost that have no answer within their lifetime.
    pub fn expire(&mut self, now: Duration) {
        while let Some((deadline, request, sequence)) = self.expiries.front().copied() {
            let is_open = self
                .outstanding
                .get(&request)
                .is_some_and(|interest| interest.sequence == sequence);
            if is_open && deadline > now {
                break;
            }
            self.expiries.pop_front();
            if is_open && let Some(interest) = self.outstanding.remove(&request) {
                let requests = 1 + interest.joined.len();
                self.outstanding_requests -= requests;
                self.measured.lost(deadline.saturating_sub(self.started), requests);
            }
        }
    }

    /// Returns the time of the next call: a request is due, an Interest expires, or the run may be
    /// over.
    pub fn next_wake(&self, now: Duration) -> Duration {
        if self.is_due(now) {
            return now;
        }
        let due = match self.load {
            Load::Open { .. }
                if self.outstanding_requests < OUTSTANDING_MAX
                    && self.schedule_has_more(self.next_due) =>
            {
                Some(self.next_due)
            }
            _ => None,
        };
        let expiry = self.expiries.front().map(|(deadline, ..)| *deadline);
        let end = (self.started + self.limits.duration).max(now);
        [due, expiry].into_iter().flatten().fold(end.max(now + RECHECK_INTERVAL), Duration::min)
    }

    /// Returns true if all requests are issued and none is outstanding.
    pub fn is_done(&self, now: Duration) -> bool {
        let has_more = match self.load {
            Load::Open { .. } => {
                self.schedule_has_more(self.next_due)
                    && now < self.started + self.limits.duration + self.limits.lifetime
            }
            Load::Closed { .. } => self.schedule_has_more(now),
        };
        !has_more && self.outstanding.is_empty()
    }

    /// Ends the run. Outstanding requests are counted as unanswered.
    pub fn finish(&mut self, now: Duration) {
        let unsent = match self.load {
            Load::Open { rate, .. } => {
                let elapsed = now.saturating_sub(self.started).min(self.limits.duration);
                let due = (rate * elapsed.as_secs_f64()) as u64;
                due.min(self.limits.packets.unwrap_or(u64::MAX)).saturating_sub(self.asked)
            }
            Load::Closed { .. } => 0,
        };
        let unsent = if self.schedule_has_more(self.next_due) { unsent } else { 0 };
        self.measured.end(
            now.saturating_sub(self.started),
            self.outstanding_requests as u64,
            unsent,
        );
    }

    /// Returns the measurements so far.
    pub const fn measured(&self) -> &Measured {
        &self.measured
    }
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
