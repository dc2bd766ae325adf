//! Results of a generator: counters, latency histograms, and both over time.

use super::series::Series;
use super::timings::Timings;
use core::time::Duration;
use nw_wire::NackReason;
use std::collections::BTreeMap;

/// Counters. A *request* is one wish of a user; several requests may share one Interest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests issued.
    pub asked: u64,
    /// Requests that joined an outstanding Interest for the same name.
    pub joined: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests refused by a Nack, by its reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests without an answer within the InterestLifetime.
    pub lost: u64,
    /// Requests still outstanding at the end of the run.
    pub unanswered: u64,
    /// Requests that were due but never issued.
    pub unsent: u64,
    /// Data packets that answered a request.
    pub data: u64,
    /// Bytes of these packets.
    pub data_bytes: u64,
    /// Bytes of the smallest of these packets; 0 before the first.
    pub data_bytes_min: u64,
    /// Bytes of the largest of these packets.
    pub data_bytes_max: u64,
    /// Data packets with a congestion mark.
    pub marked: u64,
    /// Packets without an outstanding request: a second answer, or one after the InterestLifetime.
    pub unexpected: u64,
    /// Answers to an Interest that was sent before an already answered one (RFC 4737).
    pub reordered: u64,
    /// The largest reordering extent, in Interests.
    pub reordered_by_max: u64,
}

impl Counters {
    /// Returns the number of Interests sent.
    pub const fn interests(&self) -> u64 {
        self.asked - self.joined
    }
}

/// All measurements of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Counts of events.
    pub counters: Counters,
    /// Time from the due time of a request to its answer.
    pub latency: Timings,
    /// Time from sending to the answer.
    pub since_sent: Timings,
    /// Time from the due time to sending: the lateness of this program.
    pub lateness: Timings,
    /// Counts and latencies over time.
    pub series: Series,
    /// Time from the start to the end of the run.
    pub elapsed: Duration,
    last_answer: Duration,
}

impl Measured {
    /// Creates empty measurements for a run of this planned length.
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

    /// Returns the time over which rates are computed: until the last answer if none is missing,
    /// else until the end.
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

    pub(super) const fn data(&mut self, len: usize, is_marked: bool) {
        let bytes = len as u64;
        let is_smallest = self.counters.data == 0 || bytes < self.counters.data_bytes_min;
        if is_smallest {
            self.counters.data_bytes_min = bytes;
        }
        if bytes > self.counters.data_bytes_max {
            self.counters.data_bytes_max = bytes;
        }
        self.counters.data += 1;
        self.counters.data_bytes += bytes;
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
