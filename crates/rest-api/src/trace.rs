//! `/v1/trace`: streams decisions about packets with certain names.

use crate::State;
use crate::api_error::ApiError;
use crate::extract::{Query, within};
use crate::routes::parse_name;
use crate::stream;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::header;
use axum::response::IntoResponse;
use core::time::Duration;
use nw_api::rest::Problem;
use nw_api::schema::NameText;
use nw_api::trace::{TraceEvent, describe};
use nw_router::introspection::{Query as RouterQuery, QueryReply, TraceBatch};
use serde::Deserialize;
use tokio::time::timeout;
use utoipa::IntoParams;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
const DURATION_DEFAULT_S: u64 = 10;
const DURATION_MAX_S: u64 = 3600;

/// Selects what is traced.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TraceQuery {
    /// Prefix of the names.
    #[param(value_type = NameText, inline)]
    name: String,
    /// Duration in seconds. Default: 10.
    #[param(minimum = 1, maximum = 3600)]
    seconds: Option<u64>,
}

/// Trace decisions about packets
///
/// JSON objects, one per line: see TraceEvent. The first line is empty and marks the start of the
/// trace. Only one trace can run at a time.
#[utoipa::path(
    get, path = "/v1/trace", tag = "router", params(TraceQuery),
    responses(
        (status = 200, content_type = "application/x-ndjson", body = TraceEvent), (status = 400, body = Problem),
        (status = 409, body = Problem, description = "Another trace is running")
    )
)]
pub async fn trace(
    Shared(state): Shared<State>,
    Query(query): Query<TraceQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let prefix = parse_name(&query.name)?;
    let seconds =
        within("seconds", query.seconds.unwrap_or(DURATION_DEFAULT_S), 1..=DURATION_MAX_S)?;
    let start = RouterQuery::StartTrace(prefix, Duration::from_secs(seconds));
    let QueryReply::TraceStarted(Some(id)) = state.router.query(start).await? else {
        return Err(ApiError::new(409, "another trace is running: wait until it has ended"));
    };
    let (sender, body) = stream::body();
    tokio::spawn(async move {
        let _ = sender.send(Bytes::from_static(b"\n")).await;
        while let Ok(QueryReply::Trace(Some(batch))) =
            state.router.query(RouterQuery::TakeTrace(id)).await
        {
            let lines = encode_lines(&batch);
            if !lines.is_empty() && sender.send(lines.into()).await.is_err() || batch.is_over {
                break;
            }
            if timeout(POLL_INTERVAL, sender.closed()).await.is_ok() {
                break;
            }
        }
        // If this fails, the trace ends at its deadline.
        let _ = state.router.query(RouterQuery::StopTrace(id)).await;
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body))
}

fn encode_lines(batch: &TraceBatch) -> Vec<u8> {
    let mut lines = Vec::new();
    let last = batch.events.len().saturating_sub(1);
    for (index, (event, name, strategy)) in batch.events.iter().enumerate() {
        let (step, face_id, words) = describe(&event.decision, name, strategy.as_ref());
        let event = TraceEvent {
            at_us: event.at.as_nanos() / 1000,
            packet: event.packet,
            name: name.to_string(),
            step: step.to_owned(),
            words,
            face_id,
            lost: if index == last { batch.lost } else { 0 },
        };
        serde_json::to_writer(&mut lines, &event).expect("strings and numbers");
        lines.push(b'\n');
    }
    lines
}
