//! The notification stream `/localhost/nfd/faces/events/<seq>`.
//!
//! A client first sends an Interest for the stream's name, which the next event satisfies, and then
//! one Interest per sequence number. The PIT holds the waiting Interests. This module keeps the
//! last [`EVENTS_MAX`] events, so that a client can fetch each event of a burst.

use super::FRESHNESS_MS;
use nw_api::management::{FaceEventKind, FaceEventNotification, FaceStatus};
use nw_name::{ComponentType, Name};
use nw_tables::Timestamp;
use nw_wire::{DataBuilder, DigestSha256, Interest};
use std::collections::VecDeque;

/// Notifications that are kept.
const EVENTS_MAX: usize = 4096;
/// Milliseconds after an Interest during which a subscriber is assumed to be present. The PIT
/// aggregates the Interests of several subscribers, so this is longer than any of their lifetimes.
const SUBSCRIBER_IDLE_MS: u64 = 600_000;

/// The last events as Data packets, and whether there may be subscribers.
#[derive(Debug)]
pub(super) struct Events {
    prefix: Name,
    /// Data packets; the last one has sequence number `next_sequence - 1`.
    packets: VecDeque<Vec<u8>>,
    next_sequence: u64,
    subscribed_until: Option<Timestamp>,
}

/// Reply to an Interest for an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventReply<'a> {
    /// The Data packet of the event.
    Data(&'a [u8]),
    /// The event has not occurred yet.
    Pending,
    /// No reply: the event is no longer kept, or the Interest can't match any event.
    Unavailable,
}

impl Events {
    pub(super) fn new() -> Self {
        let prefix = "/localhost/nfd/faces/events".parse().expect("a constant name");
        Events { prefix, packets: VecDeque::new(), next_sequence: 0, subscribed_until: None }
    }

    pub(super) fn on_interest(
        &mut self,
        now: Timestamp,
        sequence: Option<u64>,
        interest: &Interest<'_>,
    ) -> EventReply<'_> {
        let subscription_ms = interest.lifetime_ms().saturating_mul(2).max(SUBSCRIBER_IDLE_MS);
        let until = now.plus_millis(subscription_ms);
        let Some(sequence) = sequence else {
            if !interest.can_be_prefix() {
                return EventReply::Unavailable;
            }
            self.subscribed_until = self.subscribed_until.max(Some(until));
            return EventReply::Pending;
        };
        self.subscribed_until = self.subscribed_until.max(Some(until));
        let first_sequence = self.next_sequence - self.packets.len() as u64;
        match sequence.checked_sub(first_sequence) {
            None => EventReply::Unavailable,
            Some(index) => match self.packets.get(usize::try_from(index).unwrap_or(usize::MAX)) {
                Some(data) => EventReply::Data(data),
                None => EventReply::Pending,
            },
        }
    }

    /// Records an event. Returns its Data packet if there may be subscribers.
    pub(super) fn notify(
        &mut self,
        now: Timestamp,
        kind: FaceEventKind,
        face: &FaceStatus,
    ) -> Option<&[u8]> {
        let name = self.prefix.clone().with_number(ComponentType::SEQUENCE, self.next_sequence);
        let content = FaceEventNotification::new(kind, face).encode();
        let Ok(data) =
            DataBuilder::new(&name, &content).freshness_ms(FRESHNESS_MS).encode(&DigestSha256);
        if self.packets.len() == EVENTS_MAX {
            self.packets.pop_front();
        }
        self.packets.push_back(data);
        self.next_sequence += 1;
        let is_subscribed = self.subscribed_until.is_some_and(|until| now <= until);
        self.packets.back().map(Vec::as_slice).filter(|_| is_subscribed)
    }
}
