//! Events of the manager: numbered, kept in a ring, waited for by threads and by streams.

use nw_api::network::{NetworkEvent, NetworkEventKind};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Events that are kept.
pub const EVENTS_KEPT: usize = 4_096;

/// The last events, and the number of the newest.
#[derive(Debug)]
pub struct EventLog {
    start_ms: u64,
    ring: Mutex<VecDeque<NetworkEvent>>,
    newest: watch::Sender<u64>,
    /// Number of samples taken; a stream sends an event without id for each.
    samples: watch::Sender<u64>,
}

/// What an event is about; all fields may be left out.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Instance: `NAME on HOST`.
    pub instance: Option<String>,
    /// Service or element.
    pub subject: Option<String>,
    /// Plan.
    pub plan: Option<String>,
    /// Step.
    pub step: Option<String>,
}

impl EventLog {
    /// Creates a log without events.
    pub fn new(start_ms: u64) -> Self {
        let (newest, samples) = (watch::Sender::new(0), watch::Sender::new(0));
        EventLog { start_ms, ring: Mutex::default(), newest, samples }
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<NetworkEvent>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn add(&self, at_ms: u64, kind: NetworkEventKind, text: String, about: About) {
        let mut ring = self.ring();
        let number = *self.newest.borrow() + 1;
        if ring.len() == EVENTS_KEPT {
            ring.pop_front();
        }
        let About { instance, subject, plan, step } = about;
        let start_ms = self.start_ms;
        ring.push_back(NetworkEvent {
            start_ms,
            number,
            at_ms,
            kind,
            text,
            instance,
            subject,
            plan,
            step,
        });
        drop(ring);
        self.newest.send_replace(number);
    }

    /// Notes that new rates can be read.
    pub fn note_sample(&self) {
        self.samples.send_modify(|count| *count += 1);
    }

    /// Returns the number of the newest event.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Returns the id of the newest event.
    pub fn newest_id(&self) -> String {
        format!("{}-{}", self.start_ms, *self.newest.borrow())
    }

    /// Returns the number of an id: 0 for an id of an earlier manager, `None` if it is no id.
    pub fn number_of(&self, id: &str) -> Option<u64> {
        let (start_ms, number) = id.split_once('-')?;
        let (start_ms, number): (u64, u64) = (start_ms.parse().ok()?, number.parse().ok()?);
        Some(if start_ms == self.start_ms { number } else { 0 })
    }

    /// Returns the events after a number. If some are no longer kept, the first one says so.
    pub fn after(&self, number: u64) -> Vec<NetworkEvent> {
        let ring = self.ring();
        let mut events: Vec<NetworkEvent> =
            ring.iter().filter(|event| event.number > number).cloned().collect();
        if let Some(first) = events.first().filter(|first| first.number > number + 1) {
            let missed = NetworkEvent {
                number: first.number - 1,
                kind: NetworkEventKind::Missed,
                text: "earlier events are no longer kept".to_owned(),
                instance: None,
                subject: None,
                plan: None,
                step: None,
                ..first.clone()
            };
            events.insert(0, missed);
        }
        events
    }

    /// Returns receivers of the newest number and of the count of samples.
    pub fn subscribe(&self) -> (watch::Receiver<u64>, watch::Receiver<u64>) {
        (self.newest.subscribe(), self.samples.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_and_a_gap_is_reported() {
        let log = EventLog::new(7);
        assert_eq!(log.newest_id(), "7-0");
        for number in 1..=EVENTS_KEPT as u64 + 2 {
            let kind = NetworkEventKind::StepDone;
            log.add(number, kind, format!("event {number}"), About::default());
        }
        let all = log.after(0);
        assert_eq!((all[0].kind, all[0].number), (NetworkEventKind::Missed, 2));
        assert_eq!((all[1].kind, all[1].number), (NetworkEventKind::StepDone, 3));
        assert_eq!(all.len(), EVENTS_KEPT + 1);
        let newest = EVENTS_KEPT as u64 + 2;
        assert_eq!(log.after(newest - 1).len(), 1);
        assert!(log.after(newest).is_empty());
        assert_eq!(log.number_of("7-12"), Some(12));
        assert_eq!(log.number_of("6-12"), Some(0), "numbers begin again with each start");
        assert_eq!(log.number_of("x"), None);
    }
}
