//! Who downloads an object of many segments: the fetcher of `nw cat`, with its window, in virtual time.

use super::{AppCounters, Application, Arrival, Sends, push_interest};
use crate::random::Random;
use nw_app::fetch::{Answer, FetchOptions, Fetcher};
use nw_element_api::Instant;
use nw_name::{Name, convention};

/// What to download.
#[derive(Clone, Debug)]
pub struct BulkConfig {
    /// The object.
    pub prefix: Name,
    /// InterestLifetime.
    pub lifetime_ms: u32,
    /// From when to when.
    pub start: Instant,
    /// See [`start`](Self::start).
    pub stop: Instant,
    /// Window and time-outs.
    pub options: FetchOptions,
}

/// See the module.
#[derive(Debug)]
pub struct Bulk {
    config: BulkConfig,
    fetcher: Fetcher,
    random: Random,
    started: bool,
    counters: AppCounters,
}

impl Bulk {
    /// Nothing asked yet.
    pub fn new(config: BulkConfig, random: Random) -> Self {
        let fetcher = Fetcher::new(config.options.clone());
        Bulk { config, fetcher, random, started: false, counters: AppCounters::default() }
    }

    fn is_over(&self) -> bool {
        self.counters.done_ns.is_some() || self.counters.failed.is_some()
    }

    fn ask(&mut self, now: Instant, sends: &mut Sends) {
        if now < self.config.start || now >= self.config.stop || self.is_over() {
            return;
        }
        self.started = true;
        loop {
            match self.fetcher.next_request(now) {
                Ok(Some(segment)) => {
                    let nonce = self.random.next_u64() as u32;
                    let prefix = self.config.prefix.as_ref();
                    sends.push(|out| {
                        push_interest(prefix.as_bytes(), segment, nonce, self.config.lifetime_ms, out);
                    });
                }
                Ok(None) => break,
                Err(error) => {
                    self.counters.failed = Some(error.to_string());
                    break;
                }
            }
        }
        self.count();
    }

    /// Each transmission was answered, refused, lost, or is on its way.
    fn count(&mut self) {
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
    fn receive(&mut self, now: Instant, arrival: Arrival<'_>, sends: &mut Sends) {
        match arrival {
            Arrival::Data { name, octets, is_marked, final_segment } => {
                self.counters.octets += octets as u64;
                let Some(segment) = convention::segment(name) else { return };
                if let Answer::New(rtt) = self.fetcher.on_data(now, segment, final_segment, is_marked) {
                    self.counters.satisfied += 1;
                    if let Some(rtt) = rtt {
                        self.counters.round_trip(rtt.as_nanos() as u64);
                    }
                }
                if self.fetcher.is_done() && self.counters.done_ns.is_none() {
                    self.counters.done_ns = Some(now.since(self.config.start).as_nanos() as u64);
                }
            }
            Arrival::Nack { name, reason } => {
                if let Some(segment) = convention::segment(name) {
                    self.fetcher.on_nack(now, segment, reason);
                }
            }
            Arrival::Interest { .. } => return,
        }
        self.ask(now, sends);
        self.count();
    }

    fn tick(&mut self, now: Instant, sends: &mut Sends) {
        self.ask(now, sends);
    }

    fn deadline(&self) -> Option<Instant> {
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
