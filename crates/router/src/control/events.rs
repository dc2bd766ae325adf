//! The notification stream `/localhost/nfd/faces/events/<seq>`.
//!
//! A client asks for the stream's name and gets the next event, then for one sequence number after the other. The router's pending Interest table
//! holds who waits; here is only kept what happened, so that nobody misses an event in a burst.

use super::FRESHNESS_MS;
use nw_api::management::{FaceEventKind, FaceEventNotification, FaceStatus};
use nw_name::{ComponentType, Name};
use nw_tables::Instant;
use nw_wire::{DataBuilder, DigestSha256, Interest};
use std::collections::VecDeque;

/// Notifications kept.
const KEPT_MAX: usize = 4096;
/// Somebody who asked once is taken to be there for so long. Several who wait look like one from here, as their Interests are aggregated, so
/// this is longer than any of them waits.
const WATCHED_MS: u64 = 600_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Events {
    prefix: Name,
    /// Data packets; the last has sequence number `next - 1`.
    kept: VecDeque<Vec<u8>>,
    next: u64,
    watched_until: Option<Instant>,
}

/// What an Interest gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// This Data.
    Kept(&'a [u8]),
    /// An event that is still to come.
    Later,
    /// Nothing: it was long ago, or the Interest can't be answered.
    Gone,
}

impl Events {
    pub(super) fn new() -> Self {
        let prefix = "/localhost/nfd/faces/events".parse().expect("a constant name");
        Events { prefix, kept: VecDeque::new(), next: 0, watched_until: None }
    }

    pub(super) fn on_interest(
        &mut self,
        now: Instant,
        sequence: Option<u64>,
        interest: &Interest<'_>,
    ) -> Answer<'_> {
        let patience_ms = interest.lifetime_ms().saturating_mul(2).max(WATCHED_MS);
        let until = now.plus_millis(patience_ms);
        let Some(sequence) = sequence else {
            if !interest.can_be_prefix() {
                return Answer::Gone;
            }
            self.watched_until = self.watched_until.max(Some(until));
            return Answer::Later;
        };
        self.watched_until = self.watched_until.max(Some(until));
        let first = self.next - self.kept.len() as u64;
        match sequence.checked_sub(first) {
            None => Answer::Gone,
            Some(at) => match self.kept.get(usize::try_from(at).unwrap_or(usize::MAX)) {
                Some(data) => Answer::Kept(data),
                None => Answer::Later,
            },
        }
    }

    /// Keeps an event; gives its Data when somebody may be waiting.
    pub(super) fn notify(&mut self, now: Instant, kind: FaceEventKind, face: &FaceStatus) -> Option<&[u8]> {
        let name = self.prefix.clone().with_number(ComponentType::SEQUENCE, self.next);
        let content = FaceEventNotification::new(kind, face).encode();
        let Ok(data) = DataBuilder::new(&name, &content).freshness_ms(FRESHNESS_MS).encode(&DigestSha256);
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(data);
        self.next += 1;
        let watched = self.watched_until.is_some_and(|until| now <= until);
        self.kept.back().map(Vec::as_slice).filter(|_| watched)
    }
}
