//! A consumer that downloads a segmented object with the fetcher of `nw cat` in virtual time.

use super::{AppCounters, Application, Arrival, OutgoingPackets, push_interest};
use crate::random::Random;
use nw_app::fetch::{DataOutcome, FetchOptions, Fetcher};
use nw_element_api::Timestamp;
use nw_name::{Name, convention};

/// Parameters of a download.
#[derive(Clone, Debug)]
pub struct BulkConfig {
    /// Name of the object.
    pub prefix: Name,
    /// InterestLifetime, milliseconds.
    pub lifetime_ms: u32,
    /// Start time.
    pub start: Timestamp,
    /// Time after which no Interests are sent.
    pub stop: Timestamp,
    /// Window and timeouts.
    pub options: FetchOptions,
}

/// A download.
#[derive(Debug)]
pub struct Bulk {
    config: BulkConfig,
    fetcher: Fetcher,
    random: Random,
    started: bool,
    counters: AppCounters,
}

impl Bulk {
    /// Creates a download that has not started.
    pub fn new(config: BulkConfig, random: Random) -> Self {
        let fetcher = Fetcher::new(config.options.clone());
        Bulk { config, fetcher, random, started: false, counters: AppCounters::default() }
    }

    fn is_over(&self) -> bool {
        self.counters.done_ns.is_some() || self.counters.failed.is_some()
    }

    fn send_interests(&mut self, now: Timestamp, outgoing: &mut OutgoingPackets) {
        if now < self.config.start || now >= self.config.stop || self.is_over() {
            return;
        }
        self.started = true;
        loop {
            match self.fetcher.next_request(now) {
                Ok(Some(segment)) => {
                    let nonce = self.random.next_u64() as u32;
                    let prefix = self.config.prefix.as_ref();
                    outgoing.push(|out| {
                        push_interest(
                            prefix.as_bytes(),
                            segment,
                            nonce,
                            self.config.lifetime_ms,
                            out,
                        );
                    });
                }
                Ok(None) => break,
                Err(error) => {
                    self.counters.failed = Some(error.to_string());
                    break;
                }
            }
        }
        self.update_counters();
    }

    /// Updates the counters: each transmission was satisfied, nacked, lost, or is in flight.
    fn update_counters(&mut self) {
        let counters = self.fetcher.counters();
        self.counters.sent = counters.interests;
        let ended = self.counters.satisfied + counters.nacks;
        self.counters.nacks = counters.nacks;
        self.counters.timeouts = if self.is_over() {
            counters.interests.saturating_sub(ended)
        } else {
            counters.retransmissions.saturating_sub(counters.nacks)
        };
        self.counters.pending = counters.interests.saturating_sub(ended + self.counters.timeouts);
        self.counters.marks = counters.marks;
        self.counters.late = counters.duplicates;
    }
}

impl Application for Bulk {
    fn receive(&mut self, now: Timestamp, arrival: Arrival<'_>, outgoing: &mut OutgoingPackets) {
        match arrival {
            Arrival::Data { name, bytes, is_marked, final_segment } => {
                self.counters.bytes += bytes as u64;
                let Some(segment) = convention::segment(name) else { return };
                if let DataOutcome::New(rtt) =
                    self.fetcher.on_data(now, segment, final_segment, is_marked)
                {
                    self.counters.satisfied += 1;
                    if let Some(rtt) = rtt {
                        self.counters.round_trip(rtt.as_nanos() as u64);
                    }
                }
                if self.fetcher.is_done() && self.counters.done_ns.is_none() {
                    self.counters.done_ns = Some(now.since(self.config.start).as_nanos() as u64);
                }
            }
            Arrival::Nack { name, reason, pause } => {
                if let Some(segment) = convention::segment(name) {
                    self.fetcher.on_refusal(now, segment, reason, pause);
                }
            }
            Arrival::Interest { .. } => return,
        }
        self.send_interests(now, outgoing);
        self.update_counters();
    }

    fn tick(&mut self, now: Timestamp, outgoing: &mut OutgoingPackets) {
        self.send_interests(now, outgoing);
    }

    fn deadline(&self) -> Option<Timestamp> {
        if self.is_over() {
            return None;
        }
        let next = if self.started { self.fetcher.deadline()? } else { self.config.start };
        (next < self.config.stop).then_some(next)
    }

    fn counters(&self) -> &AppCounters {
        &self.counters
    }
}
