//! `GET /v1/tap`: packets as the service receives and sends them, or as they leave one of its
//! elements, as pcapng.
//!
//! Bounds: those of a router's captures, and [`PACKETS_PER_S_MAX`] packets a second, so that a tap
//! does not slow a service down. Packets beyond count as lost.

use super::Shared;
use super::elements::call;
use axum::extract::State;
use axum::response::IntoResponse;
use nw_api::rest::Problem;
use nw_api::schema::Pcapng;
use nw_element_api::capture::{Capture, CapturePoint, FaceLabel};
use nw_graph::host::Handle;
use nw_graph::{PortSelection, StartedTap, TapError};
use nw_rest_api::{ApiError, CaptureSource, ElementOutputs, Query, ServiceTapQuery};

/// Packets per second in one capture.
const PACKETS_PER_S_MAX: u32 = 5_000;

/// Capture packets
///
/// A pcapng stream until the client disconnects: Ethernet frames with invented addresses, one
/// interface per face. With `element`, packets that leave this element instead, one interface per
/// output port; the stream ends when the graph has none of these ports any more. At most 5,000
/// packets a second are captured. Those beyond, and packets that are not read in time, are lost,
/// and counted in the stream.
#[utoipa::path(
    get, path = "/v1/tap", tag = "service", operation_id = "tap", params(ServiceTapQuery),
    responses(
        (status = 200, content_type = "application/x-pcapng", body = inline(Pcapng)), (status = 400, body = Problem),
        (status = 404, body = Problem, description = "No element or output port has this name"),
        (status = 503, body = Problem, description = "Too many captures are running")
    )
)]
pub(super) async fn tap(
    State(shared): State<Shared>,
    Query(query): Query<ServiceTapQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let count = query.count;
    let (mut filter, selection) = query.selection()?;
    filter.packets_per_s_max = Some(PACKETS_PER_S_MAX);
    let selection =
        selection.map(|ElementOutputs { element, port }| PortSelection { element, port });
    let started = call(&shared.handle, move |handle| handle.start_tap(filter, selection)).await?;
    let started = started.map_err(|error| match error {
        TapError::TooMany => nw_rest_api::too_many_captures(),
        error => ApiError::new(404, error.to_string()),
    })?;
    let source = ServiceTap { handle: shared.handle, started };
    Ok(nw_rest_api::capture_response(source, count))
}

struct ServiceTap {
    handle: Handle,
    started: StartedTap,
}

impl CaptureSource for ServiceTap {
    async fn take(&mut self) -> Option<Capture> {
        let id = self.started.id;
        call(&self.handle, move |handle| handle.take_tap(id)).await.ok().flatten()
    }

    async fn label(&mut self, point: CapturePoint) -> FaceLabel {
        let face = match point {
            CapturePoint::Face(face) => face,
            CapturePoint::Port(number) => {
                let mut ports = self.started.ports.iter();
                let name = ports.find(|(known, _)| *known == number).map(|(_, name)| name.clone());
                return FaceLabel { name: name.unwrap_or_default(), uri: String::new() };
            }
        };
        let found = call(&self.handle, move |handle| handle.face_label(face)).await;
        found.ok().flatten().unwrap_or_default()
    }

    async fn stop(self) {
        // If this fails, the capture ends by itself when it is no longer fetched.
        let _ = call(&self.handle, move |handle| handle.stop_tap(self.started.id)).await;
    }
}
