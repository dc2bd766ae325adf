//! `/v1/trace`: decisions about packets of one name, as they are made.

use crate::State;
use crate::asker::Refused;
use crate::extract::{Query, within};
use crate::routes::name;
use crate::stream;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::header;
use axum::response::IntoResponse;
use core::time::Duration;
use nw_api::rest::Problem;
use nw_api::schema::NameText;
use nw_api::trace::{TraceEvent, describe};
use nw_router::inside::{Answer, Question, Traced};
use serde::Deserialize;
use tokio::time::timeout;
use utoipa::IntoParams;

const PERIOD: Duration = Duration::from_millis(50);
const SECONDS_DEFAULT: u64 = 10;
const SECONDS_MAX: u64 = 3600;

/// What is traced.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Names under this.
    #[param(value_type = NameText, inline)]
    name: String,
    /// For so long; 10 when not given.
    #[param(minimum = 1, maximum = 3600)]
    seconds: Option<u64>,
}

/// Decisions about packets of one name, as they are made
///
/// JSON objects, each on a line of its own: see TraceEvent. The first line is empty: from then on nothing is missed. One trace at a time.
#[utoipa::path(
    get, path = "/v1/trace", tag = "router", params(Wanted),
    responses(
        (status = 200, content_type = "application/x-ndjson", body = TraceEvent), (status = 400, body = Problem),
        (status = 409, body = Problem, description = "Another client traces already")
    )
)]
pub async fn trace(
    Shared(state): Shared<State>,
    Query(wanted): Query<Wanted>,
) -> Result<impl IntoResponse, Refused> {
    let prefix = name(&wanted.name)?;
    let seconds = within("seconds", wanted.seconds.unwrap_or(SECONDS_DEFAULT), 1..=SECONDS_MAX)?;
    let question = Question::StartTrace(prefix, Duration::from_secs(seconds));
    let Answer::TraceStarted(Some(id)) = state.asker.ask(question).await? else {
        return Err(Refused::new(409, "another client traces already: wait until that has ended"));
    };
    let (sender, body) = stream::body();
    tokio::spawn(async move {
        let _ = sender.send(Bytes::from_static(b"\n")).await;
        while let Ok(Answer::Trace(Some(traced))) = state.asker.ask(Question::TakeTrace(id)).await {
            let lines = lines(&traced);
            if !lines.is_empty() && sender.send(lines.into()).await.is_err() || traced.over {
                break;
            }
            if timeout(PERIOD, sender.closed()).await.is_ok() {
                break;
            }
        }
        // If this is refused the trace ends when its time is over.
        let _ = state.asker.ask(Question::StopTrace(id)).await;
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body))
}

fn lines(traced: &Traced) -> Vec<u8> {
    let mut lines = Vec::new();
    let last = traced.events.len().saturating_sub(1);
    for (at, (event, name, strategy)) in traced.events.iter().enumerate() {
        let (step, face_id, words) = describe(&event.decision, name, strategy.as_ref());
        let event = TraceEvent {
            at_us: event.at.as_nanos() / 1000,
            packet: event.packet,
            name: name.to_string(),
            step: step.to_owned(),
            words,
            face_id,
            lost: if at == last { traced.lost } else { 0 },
        };
        serde_json::to_writer(&mut lines, &event).expect("strings and numbers");
        lines.push(b'\n');
    }
    lines
}
