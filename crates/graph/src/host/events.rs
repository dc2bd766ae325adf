//! The last events of a running graph, numbered, for readers in other threads.
//!
//! Bounds: [`EVENTS_MAX`] events and [`TEXT_BYTES_MAX`] bytes of text. Older events are removed;
//! a reader that comes too late learns how many it missed. The packet path writes no event.

use nw_api::service::{ServiceEvent, ServiceEventKind};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Maximum number of events kept.
const EVENTS_MAX: usize = 1024;
/// Maximum number of bytes of text in the events kept.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// What an event is about; the log adds number and time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSubject {
    /// Element concerned.
    pub element: Option<String>,
    /// Name in the graph of the face concerned.
    pub link: Option<String>,
    /// Prefix or packet name concerned.
    pub name: Option<String>,
    /// Reason or number, as text.
    pub detail: Option<String>,
}

/// The last events. Shared by the loop, which writes, and readers.
#[derive(Debug)]
pub struct EventLog {
    start_ms: u64,
    kept: Mutex<KeptEvents>,
}

#[derive(Debug, Default)]
struct KeptEvents {
    /// Number of the newest event; 0 before the first.
    last: u64,
    events: VecDeque<ServiceEvent>,
    text_bytes: usize,
}

/// Returns the bytes of text in an event.
fn text_bytes(event: &ServiceEvent) -> usize {
    let texts = [&event.element, &event.link, &event.name, &event.detail];
    texts.into_iter().flatten().map(String::len).sum()
}

impl EventLog {
    /// Creates an empty log of a graph that starts at `start_ms`, milliseconds since 1970.
    pub(super) fn new(start_ms: u64) -> Self {
        EventLog { start_ms, kept: Mutex::default() }
    }

    /// Returns the start of the graph, milliseconds since 1970. Numbers are unique together with
    /// it.
    pub const fn start_ms(&self) -> u64 {
        self.start_ms
    }

    /// Adds an event that happened at `at_ms`, milliseconds since 1970.
    pub(super) fn add(&self, at_ms: u64, kind: ServiceEventKind, subject: EventSubject) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let EventSubject { element, link, name, detail } = subject;
        let (start_ms, number) = (self.start_ms, kept.last);
        let event = ServiceEvent { start_ms, number, at_ms, kind, element, link, name, detail };
        kept.text_bytes += text_bytes(&event);
        kept.events.push_back(event);
        while kept.events.len() > EVENTS_MAX
            || kept.text_bytes > TEXT_BYTES_MAX && kept.events.len() > 1
        {
            let Some(oldest) = kept.events.pop_front() else { break };
            kept.text_bytes -= text_bytes(&oldest);
        }
    }

    /// Returns the events after the one with this number, oldest first, at most `events_max`, and
    /// the number of events between that are no longer kept.
    pub fn after(&self, number: u64, events_max: usize) -> (u64, Vec<ServiceEvent>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.events.front().map_or(kept.last + 1, |event| event.number);
        let missed = first.saturating_sub(number.saturating_add(1));
        let skipped = number.saturating_add(1).saturating_sub(first) as usize;
        let events = kept.events.iter().skip(skipped).take(events_max).cloned().collect();
        (missed, events)
    }

    /// Returns the number of the last event; 0 before the first one.
    pub fn last(&self) -> u64 {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    /// Returns the number of the oldest event that is kept, or of the next one.
    pub fn first(&self) -> u64 {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.events.front().map_or(kept.last + 1, |event| event.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(log: &EventLog, name_len: usize) {
        let name = Some("x".repeat(name_len));
        let subject = EventSubject { name, ..EventSubject::default() };
        log.add(7, ServiceEventKind::VerificationFailed, subject);
    }

    #[test]
    fn reader_gets_each_event_once_and_learns_what_it_missed() {
        let log = EventLog::new(5);
        assert_eq!(log.after(0, 10), (0, Vec::new()));
        (0..3).for_each(|_| add(&log, 10));
        let numbers = |after, max| {
            let (missed, events) = log.after(after, max);
            (missed, events.iter().map(|event| event.number).collect::<Vec<_>>())
        };
        assert_eq!(numbers(0, 2), (0, vec![1, 2]));
        assert_eq!(numbers(2, 2), (0, vec![3]));
        assert_eq!(numbers(3, 2), (0, vec![]));
        assert_eq!(numbers(99, 2), (0, vec![]), "a number that does not exist yet");
        (0..EVENTS_MAX).for_each(|_| add(&log, 10));
        assert_eq!(numbers(1, 1), (2, vec![4]));
        assert_eq!(log.first(), 4);
    }

    #[test]
    fn long_texts_leave_fewer_events() {
        let log = EventLog::new(5);
        (0..300).for_each(|_| add(&log, 8000));
        let (missed, events) = log.after(0, usize::MAX);
        assert_eq!(events.len(), TEXT_BYTES_MAX / 8000);
        assert_eq!(missed as usize + events.len(), 300);
    }
}
