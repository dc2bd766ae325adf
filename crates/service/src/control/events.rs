//! `GET /v1/events`: what happens in the service, as Server-Sent Events. A client that reconnects
//! with `Last-Event-ID` gets what it missed, as long as it is kept. A client that does not read is
//! disconnected by the server.

use super::Shared;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use nw_api::rest::Problem;
use nw_api::service::{ServiceEvent, ServiceEventKind};
use nw_graph::host::Handle;
use nw_rest_api::ApiError;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Event streams at a time.
pub(super) const STREAMS_MAX: usize = 8;
/// Interval at which new events are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Events per part of the response.
const EVENTS_PER_PART: usize = 64;
/// A comment is sent after this time without an event, so that both ends notice a dead connection.
const COMMENT_INTERVAL: Duration = Duration::from_secs(10);
/// Milliseconds after which a browser connects again.
const RETRY_MS: u64 = 1000;

/// What happens in the service
///
/// A stream of Server-Sent Events, each with a [`ServiceEvent`] as `data`; it begins with the events
/// that are kept. With `Last-Event-ID` it begins after that event; an event `missed` says that
/// events in between are no longer kept, or that the service was started anew.
#[utoipa::path(
    get, path = "/v1/events", tag = "service", operation_id = "stream_events",
    params(("Last-Event-ID" = Option<String>, Header, description = "`id` of the last event that was received")),
    responses(
        (status = 200, content_type = "text/event-stream", body = String),
        (status = 400, body = Problem, description = "Last-Event-ID is not an id of an event"),
        (status = 503, body = Problem, description = "Too many streams are open")
    )
)]
pub(super) async fn stream(
    State(shared): State<Shared>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    let last_id = headers.get("last-event-id").map(|id| {
        id.to_str().ok().and_then(parse_id).ok_or_else(|| {
            ApiError::new(400, "Last-Event-ID is not START-NUMBER, the id of an event")
        })
    });
    let last_id = last_id.transpose()?;
    let permit = Arc::clone(&shared.event_streams).try_acquire_owned().map_err(|_| {
        ApiError::new(503, format!("{STREAMS_MAX} event streams are open: close one of them"))
    })?;
    let (sender, body) = nw_rest_api::stream_body();
    tokio::spawn(run(shared.handle, last_id, sender, permit));
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body))
}

/// Returns the permits for event streams.
pub(super) fn permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(STREAMS_MAX))
}

/// Parses `START-NUMBER`.
fn parse_id(text: &str) -> Option<(u64, u64)> {
    let (start_ms, number) = text.split_once('-')?;
    Some((start_ms.parse().ok()?, number.parse().ok()?))
}

/// Sends events until the client is gone.
async fn run(
    handle: Handle,
    last_id: Option<(u64, u64)>,
    sender: Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let start_ms = handle.events().start_ms();
    let mut part = format!("retry: {RETRY_MS}\n\n");
    let mut number = match last_id {
        Some((start, number)) if start == start_ms => number,
        Some(_) => {
            write_event(&mut part, &missed(start_ms, 0, None));
            0
        }
        // Without an earlier event nothing was missed.
        None => handle.events().first().saturating_sub(1),
    };
    let mut sent_at = Instant::now();
    loop {
        let (missed_count, events) = handle.events().after(number, EVENTS_PER_PART);
        if missed_count > 0 {
            let before = number + missed_count;
            write_event(&mut part, &missed(start_ms, before, Some(missed_count)));
        }
        for event in &events {
            write_event(&mut part, event);
            number = event.number;
        }
        if part.is_empty() && sent_at.elapsed() >= COMMENT_INTERVAL {
            part.push_str(":\n\n");
        }
        if !part.is_empty() {
            if sender.send(Bytes::from(core::mem::take(&mut part))).await.is_err() {
                return;
            }
            sent_at = Instant::now();
        }
        if events.len() < EVENTS_PER_PART && timeout(POLL_INTERVAL, sender.closed()).await.is_ok() {
            return;
        }
    }
}

/// Returns the event that says that events up to `number` are no longer kept.
fn missed(start_ms: u64, number: u64, count: Option<u64>) -> ServiceEvent {
    ServiceEvent {
        start_ms,
        number,
        at_ms: start_ms,
        kind: ServiceEventKind::Missed,
        element: None,
        link: None,
        name: None,
        detail: count.map(|count| count.to_string()),
    }
}

/// Appends an event in the format of Server-Sent Events.
fn write_event(out: &mut String, event: &ServiceEvent) {
    let Ok(data) = serde_json::to_value(event) else { return };
    let kind = data["kind"].as_str().unwrap_or_default();
    let (start_ms, number) = (event.start_ms, event.number);
    // Writing to a string does not fail.
    let _ = write!(out, "id: {start_ms}-{number}\nevent: {kind}\ndata: {data}\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_block_with_id_kind_and_data() {
        let mut out = String::new();
        write_event(&mut out, &missed(7, 3, Some(2)));
        let (head, data) = out.split_once("\ndata: ").unwrap();
        assert_eq!(head, "id: 7-3\nevent: missed");
        assert!(data.ends_with("\n\n") && data.matches('\n').count() == 2, "{data:?}");
        let event: ServiceEvent = serde_json::from_str(data.trim()).unwrap();
        assert_eq!((event.number, event.detail.as_deref()), (3, Some("2")));
    }

    #[test]
    fn id_with_two_numbers_is_parsed() {
        assert_eq!(parse_id("17-4"), Some((17, 4)));
        for text in ["", "17", "17-", "-4", "17-4-5", "a-4"] {
            assert_eq!(parse_id(text), None, "{text}");
        }
    }
}
