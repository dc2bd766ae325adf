//! `GET /v1/instances/{name}/tap`: the capture of an instance, passed on from its control socket.

use super::{Shared, blocking};
use crate::run::CommandError;
use crate::service_client::{self, ServiceError};
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::IntoResponse;
use nw_api::rest::Problem;
use nw_api::schema::Pcapng;
use nw_rest_api::{ApiError, Query, Segment, ServiceTapQuery};
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Captures that are passed on at a time.
pub(super) const TAPS_MAX: usize = 8;
/// Longest part of the response, bytes.
const PART_BYTES_MAX: usize = 64 << 10;
/// Interval at which it is checked whether the client has disconnected.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Capture the packets of an instance
///
/// A pcapng stream until the client disconnects, as of `GET /v1/tap` of the instance's own control
/// socket, with the same bounds.
#[utoipa::path(
    get, path = "/v1/instances/{name}/tap", tag = "map", operation_id = "tap_instance",
    params(("name" = String, Path, description = "`SERVICE~N`, or `SERVICE~N@HOST`"), ServiceTapQuery),
    responses(
        (status = 200, content_type = "application/x-pcapng", body = inline(Pcapng)), (status = 400, body = Problem),
        (status = 404, body = Problem, description = "No instance, element or output port has this name"),
        (status = 409, body = Problem, description = "The instance does not answer"),
        (status = 503, body = Problem, description = "Too many captures are running")
    )
)]
pub(super) async fn tap_instance(
    State(shared): State<Shared>,
    Segment(name): Segment<String>,
    Query(query): Query<ServiceTapQuery>,
    RawQuery(text): RawQuery,
) -> Result<impl IntoResponse, ApiError> {
    query.selection()?;
    let permit = Arc::clone(&shared.taps).try_acquire_owned();
    let permit = permit.map_err(|_| nw_rest_api::too_many_captures())?;
    let path = format!("/v1/tap?{}", text.unwrap_or_default());
    let control = blocking(&shared, move |handle| handle.control_of(&name)).await?;
    let open = move || service_client::open(&control, &path, CHECK_INTERVAL);
    let opened = tokio::task::spawn_blocking(open).await;
    let stream = opened.map_err(|_| ApiError::new(503, "the manager is ending"))?;
    let stream = stream.map_err(|error| match error {
        ServiceError::Refused { code, text } => ApiError::new(code, text),
        error => ApiError::from(CommandError::Conflict(error.to_string())),
    })?;
    let (sender, body) = nw_rest_api::stream_body();
    tokio::task::spawn_blocking(move || {
        pass_on(stream, &sender);
        drop(permit);
    });
    Ok(([(header::CONTENT_TYPE, "application/x-pcapng")], body))
}

/// Passes a stream on until it ends or the client disconnects.
fn pass_on(mut stream: impl Read, sender: &Sender<Bytes>) {
    let mut part = vec![0; PART_BYTES_MAX];
    while !sender.is_closed() {
        let is_over = match stream.read(&mut part) {
            Ok(0) => true,
            Ok(len) => sender.blocking_send(Bytes::copy_from_slice(&part[..len])).is_err(),
            Err(error) => !matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ),
        };
        if is_over {
            return;
        }
    }
}
