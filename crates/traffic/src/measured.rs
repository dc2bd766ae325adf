//! What a generator saw: counters, histograms, and how both went over time.

use super::series::Series;
use super::timings::Timings;
use core::time::Duration;
use nw_wire::NackReason;
use std::collections::BTreeMap;

/// Counters. A *request* is what a user would wait for; several may share one Interest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were asked.
    pub asked: u64,
    /// Of these, those that joined an Interest on its way.
    pub joined: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests without answer within the lifetime.
    pub lost: u64,
    /// Requests that still waited when the run was ended.
    pub unanswered: u64,
    /// Requests that were due and never asked.
    pub unsent: u64,
    /// Data that answered.
    pub data: u64,
    /// Bytes of these.
    pub octets: u64,
    /// Bytes of the smallest of these; 0 before the first.
    pub data_bytes_min: u64,
    /// Bytes of the largest.
    pub data_bytes_max: u64,
    /// Of these Data, those with a congestion mark.
    pub marked: u64,
    /// Packets that nobody waited for: a second answer, or one after its lifetime.
    pub unexpected: u64,
    /// Answers to an Interest that was sent before one already answered (RFC 4737).
    pub reordered: u64,
    /// By how many Interests at most.
    pub reordered_by_max: u64,
}

impl Counters {
    /// Interests that were sent.
    pub const fn interests(&self) -> u64 {
        self.asked - self.joined
    }
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How often what happened.
    pub counters: Counters,
    /// From when a request was due to its answer.
    pub latency: Timings,
    /// From when it was sent to its answer.
    pub since_sent: Timings,
    /// From when it was due to when it was sent: how late this program was.
    pub lateness: Timings,
    /// The same over time.
    pub series: Series,
    /// From the first request to the end.
    pub elapsed: Duration,
    last_answer: Duration,
}

impl Measured {
    /// Nothing yet, of a run that is planned to take so long.
    pub fn new(planned: Duration) -> Self {
        Measured {
            counters: Counters::default(),
            latency: Timings::new(3),
            since_sent: Timings::new(3),
            lateness: Timings::new(3),
            series: Series::new(planned),
            elapsed: Duration::ZERO,
            last_answer: Duration::ZERO,
        }
    }

    /// Until the last answer when all came, else until the end: the time that rates are over.
    pub fn busy(&self) -> Duration {
        if self.counters.lost == 0 && self.counters.unanswered == 0 && !self.last_answer.is_zero() {
            self.last_answer
        } else {
            self.elapsed
        }
    }

    pub(super) fn asked(&mut self, at: Duration, late: Duration) {
        self.counters.asked += 1;
        self.lateness.record(late);
        self.series.at(at).asked += 1;
    }

    pub(super) const fn joined(&mut self) {
        self.counters.joined += 1;
    }

    pub(super) fn answered(&mut self, at: Duration, latency: Duration, since_sent: Duration) {
        self.counters.answered += 1;
        self.last_answer = at;
        self.latency.record(latency);
        self.since_sent.record(since_sent);
        let interval = self.series.at(at);
        interval.answered += 1;
        interval.record(latency);
    }

    pub(super) const fn data(&mut self, octets: usize, is_marked: bool) {
        let bytes = octets as u64;
        let is_smallest = self.counters.data == 0 || bytes < self.counters.data_bytes_min;
        if is_smallest {
            self.counters.data_bytes_min = bytes;
        }
        if bytes > self.counters.data_bytes_max {
            self.counters.data_bytes_max = bytes;
        }
        self.counters.data += 1;
        self.counters.octets += bytes;
        self.counters.marked += is_marked as u64;
    }

    pub(super) fn refused(&mut self, reason: NackReason, requests: usize) {
        *self.counters.refused.entry(reason.as_str()).or_default() += requests as u64;
    }

    pub(super) fn lost(&mut self, at: Duration, requests: usize) {
        self.counters.lost += requests as u64;
        self.series.at(at).lost += requests as u64;
    }

    pub(super) const fn unexpected(&mut self) {
        self.counters.unexpected += 1;
    }

    pub(super) fn reordered(&mut self, by: u64) {
        self.counters.reordered += 1;
        self.counters.reordered_by_max = self.counters.reordered_by_max.max(by);
    }

    pub(super) const fn end(&mut self, elapsed: Duration, unanswered: u64, unsent: u64) {
        self.elapsed = elapsed;
        self.counters.unanswered = unanswered;
        self.counters.unsent = unsent;
    }
}
