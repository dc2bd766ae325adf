//! `/v1/events`: the state of the router and its changes, as Server-Sent Events; and the ticket
//! that opens the page.
//!
//! One task asks the router three times a second while there are subscribers, however many. Each
//! subscriber receives the difference to what it has received last, so a slow one skips states and
//! never delays others.

use crate::State;
use crate::api_error::ApiError;
use crate::extract::Query;
use crate::page::{PageUser, create_page_ticket};
use crate::stream;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use core::time::Duration;
use nw_api::counters::split_done;
use nw_api::management::{DropCount, FaceStatus, RibEntry, StrategyChoice};
use nw_api::rest::{LogLine, PageTicket, Problem, RouterChange, RouterStatus, TopPrefixes};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use utoipa::IntoParams;

/// Interval of asking the router.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// A stream ends after this time. Its client connects again, so an ended session has no stream.
const STREAM_MAX: Duration = Duration::from_secs(600);
/// Faces, routes and strategies in an event, each.
const ITEMS_MAX: usize = 1000;
/// Components of the prefixes in [`RouterChange::top`].
const TOP_COMPONENTS: usize = 2;

/// Everything that events describe, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RouterView {
    at_ms: u64,
    status: RouterStatus,
    faces: Vec<FaceStatus>,
    drops: Vec<DropCount>,
    done: Vec<DropCount>,
    routes: Vec<RibEntry>,
    strategies: Vec<StrategyChoice>,
    top: TopPrefixes,
    log: Vec<LogLine>,
}

/// The latest view, while there are subscribers.
#[derive(Default)]
pub struct EventSource(Mutex<Option<watch::Sender<Arc<RouterView>>>>);

impl EventSource {
    /// Returns a receiver of views. Starts the task that asks the router, if it does not run.
    async fn subscribe(state: &State) -> Result<watch::Receiver<Arc<RouterView>>, ApiError> {
        if let Some(receiver) = state.events.current() {
            return Ok(receiver);
        }
        let view = Arc::new(RouterView::fetch(state).await?);
        let mut current = state.events.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another subscriber may have been faster.
        if let Some(sender) = current.as_ref() {
            return Ok(sender.subscribe());
        }
        let (sender, receiver) = watch::channel(view);
        *current = Some(sender);
        tokio::spawn(poll(state.clone()));
        Ok(receiver)
    }

    fn current(&self) -> Option<watch::Receiver<Arc<RouterView>>> {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(watch::Sender::subscribe)
    }

    /// Publishes a view. Returns false if there are no subscribers; the next one starts a new task.
    fn publish(&self, view: RouterView) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match current.take() {
            Some(sender) if sender.receiver_count() > 0 => {
                sender.send_replace(Arc::new(view));
                *current = Some(sender);
                true
            }
            _ => false,
        }
    }
}

async fn poll(state: State) {
    loop {
        sleep(POLL_INTERVAL).await;
        let Ok(view) = RouterView::fetch(&state).await else {
            // The router has stopped, or is too busy: subscribers connect again.
            *state.events.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return;
        };
        if !state.events.publish(view) {
            return;
        }
    }
}

impl RouterView {
    async fn fetch(state: &State) -> Result<Self, ApiError> {
        let router = &state.router;
        let (drops, done) = split_done(router.drops(false).await?);
        Ok(RouterView {
            status: router.status().await?,
            faces: router.faces(None, ITEMS_MAX).await?,
            drops,
            done,
            routes: router.routes(None, ITEMS_MAX).await?,
            strategies: router.strategies(None, ITEMS_MAX).await?,
            top: router.top(TOP_COMPONENTS).await?,
            log: state.logs.lines(0),
            at_ms: unix_ms(),
        })
    }

    /// Returns the difference to the view that was sent before. `None`: nothing was sent.
    fn change_since(&self, before: Option<&RouterView>) -> RouterChange {
        let known: HashMap<u64, &FaceStatus> =
            before.iter().flat_map(|view| &view.faces).map(|face| (face.face_id, face)).collect();
        let is_changed = |face: &&FaceStatus| known.get(&face.face_id) != Some(face);
        let removed = known.keys().filter(|id| self.faces.iter().all(|face| face.face_id != **id));
        let last_line = before.and_then(|view| view.log.last()).map_or(0, |line| line.seq);
        RouterChange {
            at_ms: self.at_ms,
            is_snapshot: before.is_none(),
            status: Some(self.status.clone()),
            faces: self.faces.iter().filter(is_changed).cloned().collect(),
            removed_faces: removed.copied().collect(),
            drops: if_changed(before.map(|view| &view.drops), &self.drops),
            done: if_changed(before.map(|view| &view.done), &self.done),
            routes: if_changed(before.map(|view| &view.routes), &self.routes),
            strategies: if_changed(before.map(|view| &view.strategies), &self.strategies),
            top: Some(self.top.clone()),
            log: self.log.iter().filter(|line| line.seq > last_line).cloned().collect(),
            is_truncated: [self.faces.len(), self.routes.len(), self.strategies.len()]
                .iter()
                .any(|len| *len >= ITEMS_MAX),
        }
    }
}

fn if_changed<T: Clone + PartialEq>(before: Option<&T>, now: &T) -> Option<T> {
    (before != Some(now)).then(|| now.clone())
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// Selects events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// End after this number of events.
    count: Option<u64>,
}

/// Stream the state and its changes
///
/// Server-Sent Events, each with a RouterChange as JSON: first the whole state, then what has
/// changed, within a second. A stream ends after ten minutes; a client that connects again starts
/// with the whole state.
#[utoipa::path(
    get, path = "/v1/events", tag = "router", operation_id = "events", params(EventsQuery),
    responses(
        (status = 200, content_type = "text/event-stream", body = RouterChange),
        (status = 503, body = Problem)
    )
)]
pub async fn events(
    Shared(state): Shared<State>,
    Query(query): Query<EventsQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let count = query.count.unwrap_or(u64::MAX);
    let mut views = EventSource::subscribe(&state).await?;
    let (sender, body) = stream::body();
    let deadline = Instant::now() + STREAM_MAX;
    tokio::spawn(async move {
        let (mut sent, mut id): (Option<Arc<RouterView>>, u64) = (None, 0);
        while id < count && Instant::now() < deadline {
            let view = Arc::clone(&views.borrow_and_update());
            let event = encode(id, &view.change_since(sent.as_deref()));
            if sender.send(event).await.is_err() {
                return;
            }
            (sent, id) = (Some(view), id + 1);
            if id < count && views.changed().await.is_err() {
                return;
            }
        }
    });
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body))
}

fn encode(id: u64, change: &RouterChange) -> Bytes {
    // JSON has no line breaks, so one data line holds it.
    let json = serde_json::to_string(change).expect("strings and numbers");
    format!("id: {id}\ndata: {json}\n\n").into()
}

/// Create a URL that opens the page once
///
/// `nw open` opens it. The right to use this interface is the right to use the page.
#[utoipa::path(
    post, path = "/v1/page/tickets", tag = "router", operation_id = "create_page_ticket",
    responses(
        (status = 201, body = PageTicket),
        (status = 409, body = Problem, description = "The program serves no page")
    )
)]
pub async fn create_ticket(
    Shared(state): Shared<State>,
) -> Result<(StatusCode, Json<PageTicket>), ApiError> {
    create_page_ticket(state.page.as_deref(), PageUser::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::management::FaceScope;

    fn view(ids: &[u64], lines: &[u64]) -> RouterView {
        let line = |seq: &u64| LogLine {
            seq: *seq,
            at_ms: 0,
            level: "info".into(),
            part: "router".into(),
            text: String::new(),
        };
        let face = |id: &u64| FaceStatus::new(*id, "", "", FaceScope::NonLocal);
        RouterView {
            faces: ids.iter().map(face).collect(),
            log: lines.iter().map(line).collect(),
            ..RouterView::default()
        }
    }

    #[test]
    fn change_first_is_a_snapshot_and_later_ones_are_differences() {
        let (before, mut now) = (view(&[1, 2, 3], &[1, 2]), view(&[1, 3, 4], &[2, 3]));
        now.faces[0].in_bytes = 1;
        let first = before.change_since(None);
        assert!(first.is_snapshot);
        assert_eq!((first.faces.len(), first.log.len()), (3, 2));
        assert_eq!(first.routes, Some(vec![]));
        let change = now.change_since(Some(&before));
        assert!(!change.is_snapshot);
        assert_eq!(change.faces.iter().map(|face| face.face_id).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(change.removed_faces, [2]);
        assert_eq!(change.log.iter().map(|line| line.seq).collect::<Vec<_>>(), [3]);
        assert_eq!((change.routes, change.drops), (None, None));
    }

    #[test]
    fn event_is_one_data_line() {
        let event = encode(7, &view(&[1], &[]).change_since(None));
        let text = std::str::from_utf8(&event).unwrap();
        assert!(text.starts_with("id: 7\ndata: {") && text.ends_with("}\n\n"), "{text}");
        assert_eq!(text.trim_end().lines().count(), 2);
    }
}
