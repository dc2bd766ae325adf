//! Bulk downloads: files started at a rate, each with the window of `nw cat`, and how they end.
//! Pure: the caller passes the time in and moves the packets.
//!
//! It repeats the experiment of "Bulk of Interest" (SIGCOMM 2012). Invariant: every Interest sent
//! belongs to one file that has started and not ended.

mod page;
mod plan;
mod result;
mod run;

pub use page::{csv_files, csv_samples, html, section};
pub use plan::{BulkPlan, PlanError};
pub use result::{BulkFile, BulkResult, BulkSample, BulkSummary, Link, jain};
pub use run::{RouterSample, download};

use nw_app::fetch::{DataOutcome, FetchOptions, Fetcher};
use nw_element_api::{Kind, Timestamp};
use nw_name::{Name, NameRef, convention};
use nw_wire::{InterestBuilder, NackReason};
use std::time::Duration;

/// Time without a new segment after which a file is given up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A reply to one of the Interests.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Data or Nack.
    pub kind: Kind,
    /// Name of the packet.
    pub name: NameRef<'a>,
    /// Whether it carries a congestion mark.
    pub is_marked: bool,
    /// Reason, on a Nack.
    pub reason: NackReason,
    /// Pause that a Nack asks for.
    pub pause: Duration,
}

#[derive(Debug)]
struct File {
    name: Name,
    start: Timestamp,
    fetcher: Fetcher,
    stop: Option<Timestamp>,
    error: Option<String>,
}

impl File {
    fn is_active(&self, now: Timestamp) -> bool {
        self.start <= now && self.stop.is_none() && self.error.is_none()
    }
}

/// The downloads of one run.
#[derive(Debug)]
pub struct Downloads {
    plan: BulkPlan,
    files: Vec<File>,
    /// Files before this one have ended.
    first: usize,
    nonce: u32,
    segments: u64,
    marks: u64,
}

impl Downloads {
    /// Creates the downloads of a plan, which begin at `start`. `run` makes the names of a run new.
    pub fn new(plan: &BulkPlan, start: Timestamp, run: u32) -> Self {
        let files = (0..plan.files()).map(|number| {
            let mut fetcher = Fetcher::new(FetchOptions {
                window_max: plan.window_max,
                retries_max: u32::MAX - 1,
                timeout: TIMEOUT,
                ..FetchOptions::default()
            });
            fetcher.set_segments(plan.segments());
            let name = plan.prefix.clone().with_generic(format!("run{run}"));
            File {
                name: name.with_generic(number.to_string()),
                start: start + Duration::from_secs_f64(number as f64 / plan.files_per_s),
                fetcher,
                stop: None,
                error: None,
            }
        });
        let files = files.collect();
        Downloads { plan: plan.clone(), files, first: 0, nonce: run, segments: 0, marks: 0 }
    }

    /// Sends the Interests that are due, each by one call of `send`.
    pub fn send_due(&mut self, now: Timestamp, mut send: impl FnMut(&[u8])) {
        while self.files.get(self.first).is_some_and(|f| f.stop.is_some() || f.error.is_some()) {
            self.first += 1;
        }
        let lifetime_ms = self.plan.lifetime_ms;
        for file in &mut self.files[self.first..] {
            if file.start > now {
                break;
            }
            while file.is_active(now) {
                match file.fetcher.next_request(now) {
                    Ok(Some(segment)) => {
                        self.nonce = self.nonce.wrapping_add(0x9e37_79b9);
                        let name = file.name.clone().with_segment(segment);
                        let interest = InterestBuilder::new(name)
                            .nonce(self.nonce.wrapping_mul(0x85eb_ca6b))
                            .lifetime_ms(lifetime_ms);
                        send(&interest.encode());
                    }
                    Ok(None) => break,
                    Err(error) => file.error = Some(error.to_string()),
                }
            }
        }
    }

    /// Handles a reply.
    pub fn on_reply(&mut self, now: Timestamp, reply: Reply<'_>) {
        let Some((number, segment)) = self.place_of(reply.name) else { return };
        let file = &mut self.files[number];
        match reply.kind {
            Kind::Data => {
                self.marks += u64::from(reply.is_marked);
                let outcome = file.fetcher.on_data(now, segment, None, reply.is_marked);
                self.segments += u64::from(matches!(outcome, DataOutcome::New(_)));
                if file.fetcher.is_done() && file.stop.is_none() {
                    file.stop = Some(now);
                }
            }
            Kind::Nack => file.fetcher.on_refusal(now, segment, reply.reason, reply.pause),
            Kind::Interest | Kind::Publication => {}
        }
    }

    /// Returns the file and segment of a name of this run.
    fn place_of(&self, name: NameRef<'_>) -> Option<(usize, u64)> {
        let segment = convention::segment(name)?;
        let file = name.component(-2)?;
        let number: usize = core::str::from_utf8(file.value()).ok()?.parse().ok()?;
        let known = self.files.get(number)?;
        known.name.as_ref().is_prefix_of(name).then_some((number, segment))
    }

    /// Returns when to call [`send_due`](Self::send_due) again if nothing arrives.
    pub fn next_wake(&self, now: Timestamp) -> Timestamp {
        let pending = self.files[self.first..].iter();
        let due =
            pending
                .filter(|file| file.stop.is_none() && file.error.is_none())
                .filter_map(|file| {
                    if file.start > now { Some(file.start) } else { file.fetcher.deadline() }
                })
                .min();
        due.unwrap_or(now + Duration::from_millis(100))
    }

    /// Returns whether every file has ended.
    pub fn is_over(&self) -> bool {
        self.files[self.first..].iter().all(|file| file.stop.is_some() || file.error.is_some())
    }

    /// Returns the Interests that are outstanding.
    pub fn outstanding(&self) -> usize {
        self.files[self.first..].iter().map(|file| file.fetcher.outstanding()).sum()
    }

    /// Returns the segments received so far.
    pub const fn segments(&self) -> u64 {
        self.segments
    }

    /// Returns retransmissions, Nacks and marks so far.
    fn events(&self) -> (u64, u64, u64) {
        let counters = self.files.iter().map(|file| file.fetcher.counters());
        let (sent_again, nacks) = counters
            .fold((0, 0), |(sent, nacks), file| (sent + file.retransmissions, nacks + file.nacks));
        (sent_again, nacks, self.marks)
    }

    /// Returns the files, with times in seconds after `start`.
    fn results(&self, start: Timestamp) -> Vec<BulkFile> {
        let seconds = |at: Timestamp| at.since(start).as_secs_f64();
        let result = |(number, file): (usize, &File)| {
            let counters = file.fetcher.counters();
            BulkFile {
                file: number as u64,
                start_s: seconds(file.start),
                stop_s: file.stop.map(seconds),
                interests: counters.interests,
                retransmissions: counters.retransmissions,
                nacks: counters.nacks,
                marks: counters.marks,
                error: file.error.clone(),
            }
        };
        self.files.iter().enumerate().map(result).collect()
    }
}

#[cfg(test)]
mod tests;
