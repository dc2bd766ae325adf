//! The control socket of the manager: HTTP over a unix socket that only its owner may open, and by
//! TLS with tokens. `/openapi.json` describes it. Handlers call [`Handle`]; what blocks runs in a
//! thread of its own. `access` decides who may do what.

mod settings;
mod tap;

use crate::access::{Access, Caller, authorize};
use crate::events::EventLog;
use crate::metrics;
use crate::run::{CommandError, DOCUMENT_BYTES_MAX, Handle};
use axum::body::Bytes;
use axum::extract::{Json, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::{Extension, Router};
use nw_api::config::{Control, Page};
use nw_api::draft::{Drawing, DrawingRequest};
use nw_api::network::{
    AuditEntry, DocumentText, DocumentVersion, GraphPositions, InstanceDetail, InstanceLog,
    NetworkChange, NetworkDefence, NetworkEvent, NetworkGraph, NetworkPlan, NetworkRoute,
    NetworkStatus, PlanRequest, ScaleChange, ServiceScale, StopRequest, UndoRequest, Veto,
};
use nw_api::network_access::Role;
use nw_api::rest::{Health, PageTicket, Problem};
use nw_rest_api::{ApiError, Body, PageAccess, Query, Segment, ServeError, Server, TlsListener};
use serde::Deserialize;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Longest body of a request, bytes: a document as JSON.
const BODY_BYTES_MAX: usize = 4 * DOCUMENT_BYTES_MAX;
/// Event streams at a time.
const STREAMS_MAX: usize = 16;
/// Lines of a log that are returned unless more are asked for.
const LOG_LINES_DEFAULT: u64 = 100;
/// A comment is sent after this time without an event, so that both ends notice a dead connection.
const COMMENT_INTERVAL: Duration = Duration::from_secs(10);
/// Milliseconds after which a browser connects again.
const RETRY_MS: u64 = 1_000;

/// State shared by all requests.
#[derive(Clone)]
struct Shared {
    handle: Handle,
    streams: Arc<Semaphore>,
    taps: Arc<Semaphore>,
    page: Option<Arc<PageAccess>>,
}

/// Most connections by TLS at a time.
const TLS_CONNECTIONS_MAX: u32 = 64;

/// Reasons why a manager can't serve.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket or a thread can't be created.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// TLS can't be configured.
    #[error(transparent)]
    Tls(#[from] nw_agent::AgentError),
}

/// Serves the manager's control socket, its page if one is configured, and TLS at an address if one
/// is given, in a thread until the returned server is dropped.
///
/// # Errors
/// The path is in use or too long, a file of the authority can't be used, or a socket or the thread
/// can't be created.
pub fn serve(handle: Handle, page: &Page, tls: Option<SocketAddr>) -> Result<Server, StartError> {
    let path = handle.control();
    let tls = match tls {
        Some(address) => {
            let config = nw_agent::user_listener(&handle.authority_folder(), address.ip())?;
            Some(TlsListener { address, config, connections: TLS_CONNECTIONS_MAX })
        }
        None => None,
    };
    let access = nw_rest_api::page_access(page, "network")?;
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let taps = Arc::new(Semaphore::new(tap::TAPS_MAX));
    let router = router(Shared { handle, streams, taps, page: access.clone() });
    let page = access.map(|access| (page, access));
    let control = Control::default();
    Ok(nw_rest_api::serve_with_tls(&control, (Some(&path), None), router, page, tls)?)
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let code = match &error {
            CommandError::Wrong(_) => 400,
            CommandError::Unknown(_) => 404,
            CommandError::Conflict(_) => 409,
            CommandError::Forbidden(_) => 403,
            CommandError::System(_) => 500,
        };
        ApiError::new(code, error.to_string())
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Namewire network manager",
        description = "A network of services: its document, what runs, plans, events, scaling.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    tags(
        (name = "network", description = "The network and its document"),
        (name = "plans", description = "Steps from what runs to what is wanted"),
        (name = "map", description = "What runs: instances, links, events"),
        (name = "decisions", description = "Numbers of instances, countermeasures"),
        (name = "access", description = "Keys, tokens and their rights"),
        (name = "metrics", description = "Monitoring")
    )
)]
struct Document;

fn all_paths() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(paths!(show_network, set_network))
        .routes(paths!(draw_draft))
        .routes(paths!(make_plan))
        .routes(paths!(show_plan))
        .routes(paths!(hold))
        .routes(paths!(resume))
        .routes(paths!(undo))
        .routes(paths!(show_history))
        .routes(paths!(show_version))
        .routes(paths!(show_audit))
        .routes(paths!(show_graph))
        .routes(paths!(set_positions))
        .routes(paths!(stream_events))
        .routes(paths!(show_instance))
        .routes(paths!(show_logs))
        .routes(paths!(tap::tap_instance))
        .routes(paths!(list_scales))
        .routes(paths!(show_scale, set_scale))
        .routes(paths!(list_countermeasures))
        .routes(paths!(remove_countermeasures))
        .routes(paths!(list_routes, settings::add_route))
        .routes(paths!(settings::remove_route))
        .routes(paths!(settings::list_keys, settings::add_key))
        .routes(paths!(settings::remove_key))
        .routes(paths!(settings::add_key_rule))
        .routes(paths!(settings::remove_key_rule))
        .routes(paths!(settings::list_tokens, settings::add_token))
        .routes(paths!(settings::remove_token))
        .routes(paths!(set_veto))
        .routes(paths!(stop))
        .routes(paths!(create_page_ticket))
        .routes(paths!(show_metrics))
        .routes(paths!(health))
}

/// Returns the OpenAPI document as JSON.
pub fn document() -> String {
    nw_rest_api::complete_document(all_paths().into_openapi())
}

fn router(shared: Shared) -> Router {
    let (router, _) = all_paths().split_for_parts();
    let access = Access::new(shared.handle.clone(), shared.page.clone());
    let router = nw_rest_api::finish(router, document(), BODY_BYTES_MAX).with_state(shared);
    router.layer(from_fn_with_state(access, authorize))
}

/// Refuses a change for which a role is too low.
fn check_role(caller: &Caller, needed: Role) -> Result<(), CommandError> {
    match caller.role >= needed {
        true => Ok(()),
        false => Err(CommandError::Forbidden(format!(
            "this changes hosts, trust, or the folder of the document, which is for {}",
            needed.as_str()
        ))),
    }
}

/// Runs what may block outside of the server's thread.
async fn blocking<T: Send + 'static>(
    shared: &Shared,
    function: impl FnOnce(&Handle) -> Result<T, CommandError> + Send + 'static,
) -> Result<T, ApiError> {
    let handle = shared.handle.clone();
    let result = tokio::task::spawn_blocking(move || function(&handle)).await;
    Ok(result.map_err(|_| ApiError::new(503, "the manager is ending"))??)
}

/// The network and its document
#[utoipa::path(get, path = "/v1/network", tag = "network", operation_id = "show_network", responses((status = 200, body = NetworkStatus)))]
async fn show_network(State(shared): State<Shared>) -> Result<Json<NetworkStatus>, ApiError> {
    Ok(Json(blocking(&shared, |handle| Ok(handle.status())).await?))
}

/// How a document is taken.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ChangeQuery {
    /// Only check and plan: the response is as with a change, nothing changes.
    #[serde(default)]
    dry_run: bool,
}

/// Put another document into effect
///
/// The whole document is checked first; one with mistakes changes nothing. The response has the
/// plan that was made for it; what is carried out is seen in the events.
#[utoipa::path(
    put, path = "/v1/network", tag = "network", operation_id = "set_network", params(ChangeQuery), request_body = NetworkChange,
    responses(
        (status = 200, body = NetworkPlan),
        (status = 400, body = Problem, description = "The document has mistakes: all of them, with places and remedies"),
        (status = 409, body = Problem, description = "Another version or plan is in effect")
    )
)]
async fn set_network(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ChangeQuery>,
    Body(change): Body<NetworkChange>,
) -> Result<Json<NetworkPlan>, ApiError> {
    let request = PlanRequest {
        text: Some(change.text.clone()),
        folder: change.folder.clone(),
        ..PlanRequest::default()
    };
    let plan = blocking(&shared, move |handle| {
        if !query.dry_run && handle.needs_admin(&change.text, change.folder.as_ref())? {
            check_role(&caller, Role::Admin)?;
        }
        let mut plan = handle.plan(&request)?;
        if !query.dry_run {
            plan.version = Some(handle.set_document(&change, &caller.author())?);
        }
        Ok(plan)
    });
    Ok(Json(plan.await?))
}

/// Draw a draft, and edit it in the drawing
///
/// Nothing changes in the network. The response has the text after the edit, all of its mistakes
/// with their places, and the places of its elements.
#[utoipa::path(
    post, path = "/v1/drawing", tag = "network", operation_id = "draw_draft", request_body = DrawingRequest,
    responses((status = 200, body = Drawing), (status = 400, body = Problem, description = "The edit can't be made"))
)]
async fn draw_draft(
    State(shared): State<Shared>,
    Body(request): Body<DrawingRequest>,
) -> Result<Json<Drawing>, ApiError> {
    Ok(Json(blocking(&shared, move |_| crate::drawing::draw(request)).await?))
}

/// What would be done
#[utoipa::path(
    post, path = "/v1/plan", tag = "plans", operation_id = "make_plan", request_body = PlanRequest,
    responses((status = 200, body = NetworkPlan), (status = 400, body = Problem, description = "The document has mistakes, or a number is out of bounds"), (status = 404, body = Problem))
)]
async fn make_plan(
    State(shared): State<Shared>,
    Body(request): Body<PlanRequest>,
) -> Result<Json<NetworkPlan>, ApiError> {
    Ok(Json(blocking(&shared, move |handle| handle.plan(&request)).await?))
}

/// A plan that was made or carried out lately
#[utoipa::path(
    get, path = "/v1/plans/{id}", tag = "plans", operation_id = "show_plan", params(("id" = String, Path, description = "Id of the plan")),
    responses((status = 200, body = NetworkPlan), (status = 404, body = Problem))
)]
async fn show_plan(
    State(shared): State<Shared>,
    Segment(id): Segment<String>,
) -> Result<Json<NetworkPlan>, ApiError> {
    Ok(Json(blocking(&shared, move |handle| handle.plan_by_id(&id)).await?))
}

/// Hold all changes; a plan ends at its next wave
#[utoipa::path(post, path = "/v1/hold", tag = "plans", operation_id = "hold", responses((status = 204)))]
async fn hold(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.hold(true, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Let changes go on
#[utoipa::path(post, path = "/v1/resume", tag = "plans", operation_id = "resume", responses((status = 204)))]
async fn resume(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.hold(false, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Return to an earlier document, as a new version
#[utoipa::path(
    post, path = "/v1/undo", tag = "network", operation_id = "undo", request_body = UndoRequest,
    responses(
        (status = 200, body = NetworkStatus),
        (status = 400, body = Problem),
        (status = 404, body = Problem),
        (status = 409, body = Problem)
    )
)]
async fn undo(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<UndoRequest>,
) -> Result<Json<NetworkStatus>, ApiError> {
    let status = blocking(&shared, move |handle| {
        check_role(&caller, handle.role_for_version(request.version)?)?;
        handle.undo(request.version, &caller.author())?;
        Ok(handle.status())
    });
    Ok(Json(status.await?))
}

/// Versions of the document, the newest first
#[utoipa::path(get, path = "/v1/history", tag = "network", operation_id = "show_history", responses((status = 200, body = Vec<DocumentVersion>)))]
async fn show_history(
    State(shared): State<Shared>,
) -> Result<Json<Vec<DocumentVersion>>, ApiError> {
    Ok(Json(blocking(&shared, Handle::history).await?))
}

/// The text of a version
#[utoipa::path(
    get, path = "/v1/history/{version}", tag = "network", operation_id = "show_version", params(("version" = u64, Path, description = "Version, from 1", maximum = 9_007_199_254_740_991_u64)),
    responses((status = 200, body = DocumentText), (status = 404, body = Problem))
)]
async fn show_version(
    State(shared): State<Shared>,
    Segment(version): Segment<u64>,
) -> Result<Json<DocumentText>, ApiError> {
    Ok(Json(blocking(&shared, move |handle| handle.document_at(version)).await?))
}

/// Changes that were asked for, the newest first
#[utoipa::path(get, path = "/v1/audit", tag = "network", operation_id = "show_audit", responses((status = 200, body = Vec<AuditEntry>)))]
async fn show_audit(State(shared): State<Shared>) -> Result<Json<Vec<AuditEntry>>, ApiError> {
    Ok(Json(blocking(&shared, Handle::audit_entries).await?))
}

/// The network as it runs, as a map needs it
#[utoipa::path(get, path = "/v1/graph", tag = "map", operation_id = "show_graph", responses((status = 200, body = NetworkGraph)))]
async fn show_graph(State(shared): State<Shared>) -> Result<Json<NetworkGraph>, ApiError> {
    Ok(Json(blocking(&shared, |handle| Ok(handle.graph())).await?))
}

/// Set where a map shows instances; nothing else changes
#[utoipa::path(
    put, path = "/v1/positions", tag = "map", operation_id = "set_positions", request_body = GraphPositions,
    responses((status = 204), (status = 400, body = Problem))
)]
async fn set_positions(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(change): Body<GraphPositions>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.set_positions(&change, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Where a stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct EventQuery {
    /// Id after which events are sent; `Last-Event-ID` has precedence. Default: all that are kept.
    after: Option<String>,
}

/// What happens in the network
///
/// A stream of Server-Sent Events, each with a `NetworkEvent` as `data`. An event `missed` says
/// that events are no longer kept. An event `sampled` has no id: new rates can be read from
/// `/v1/graph`.
#[utoipa::path(
    get, path = "/v1/events", tag = "map", operation_id = "stream_events",
    params(EventQuery, ("Last-Event-ID" = Option<String>, Header, description = "`id` of the last event that was received")),
    responses(
        (status = 200, content_type = "text/event-stream", body = NetworkEvent),
        (status = 400, body = Problem, description = "What is given is not the id of an event"),
        (status = 503, body = Problem, description = "Too many streams are open")
    )
)]
async fn stream_events(
    State(shared): State<Shared>,
    headers: HeaderMap,
    Query(query): Query<EventQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let wrong =
        || ApiError::new(400, "an event's id is START-NUMBER: take it from `id` of an event");
    let header = headers.get("last-event-id").map(|id| id.to_str().map_err(|_| wrong()));
    let id = header.transpose()?.map(str::to_owned).or(query.after);
    let number = id.map(|id| shared.handle.events().number_of(&id).ok_or_else(wrong));
    let number = number.transpose()?.unwrap_or(0);
    let permit = Arc::clone(&shared.streams).try_acquire_owned().map_err(|_| {
        ApiError::new(503, format!("{STREAMS_MAX} event streams are open: close one of them"))
    })?;
    let (sender, body) = nw_rest_api::stream_body();
    tokio::spawn(run_stream(shared.handle, number, sender, permit));
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body))
}

/// Sends events until the client is gone or the manager has ended.
async fn run_stream(
    handle: Handle,
    mut number: u64,
    sender: Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let log: &EventLog = handle.events();
    let (mut newest, mut samples) = log.subscribe();
    let mut part = format!("retry: {RETRY_MS}\n\n");
    loop {
        newest.borrow_and_update();
        for event in log.after(number) {
            write_event(&mut part, &event);
            number = event.number;
        }
        if !part.is_empty() && sender.send(Bytes::from(core::mem::take(&mut part))).await.is_err() {
            return;
        }
        tokio::select! {
            () = sender.closed() => return,
            changed = newest.changed() => if changed.is_err() { return },
            changed = samples.changed() => match changed {
                Ok(()) => part.push_str("event: sampled\ndata: {}\n\n"),
                Err(_) => return,
            },
            () = tokio::time::sleep(COMMENT_INTERVAL) => part.push_str(":\n\n"),
        }
    }
}

/// Appends an event in the format of Server-Sent Events.
fn write_event(out: &mut String, event: &NetworkEvent) {
    let Ok(data) = serde_json::to_string(event) else { return };
    let (start_ms, number, kind) = (event.start_ms, event.number, event.kind.as_str());
    // Writing to a string does not fail.
    let _ = write!(out, "id: {start_ms}-{number}\nevent: {kind}\ndata: {data}\n\n");
}

/// One instance, by `NAME` or `NAME@HOST`
#[utoipa::path(
    get, path = "/v1/instances/{name}", tag = "map", operation_id = "show_instance", params(("name" = String, Path, description = "`SERVICE~N`, or `SERVICE~N@HOST`")),
    responses((status = 200, body = InstanceDetail), (status = 404, body = Problem))
)]
async fn show_instance(
    State(shared): State<Shared>,
    Segment(name): Segment<String>,
) -> Result<Json<InstanceDetail>, ApiError> {
    Ok(Json(blocking(&shared, move |handle| handle.instance(&name)).await?))
}

/// How much of a log is returned.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct LogQuery {
    /// Last lines; default 100.
    #[param(minimum = 1, maximum = 10_000)]
    lines: Option<u64>,
}

/// The end of an instance's log
#[utoipa::path(
    get, path = "/v1/instances/{name}/logs", tag = "map", operation_id = "show_logs", params(("name" = String, Path, description = "`SERVICE~N`, or `SERVICE~N@HOST`"), LogQuery),
    responses((status = 200, body = InstanceLog), (status = 400, body = Problem), (status = 404, body = Problem))
)]
async fn show_logs(
    State(shared): State<Shared>,
    Segment(name): Segment<String>,
    Query(query): Query<LogQuery>,
) -> Result<Json<InstanceLog>, ApiError> {
    let lines = query.lines.unwrap_or(LOG_LINES_DEFAULT);
    let lines = nw_rest_api::within("lines", lines, 1..=10_000)? as usize;
    Ok(Json(blocking(&shared, move |handle| handle.logs(&name, lines)).await?))
}

/// Numbers of instances of all services
#[utoipa::path(get, path = "/v1/scale", tag = "decisions", operation_id = "list_scales", responses((status = 200, body = Vec<ServiceScale>)))]
async fn list_scales(State(shared): State<Shared>) -> Result<Json<Vec<ServiceScale>>, ApiError> {
    Ok(Json(blocking(&shared, |handle| Ok(handle.scales())).await?))
}

/// Number of instances of a service
#[utoipa::path(
    get, path = "/v1/scale/{service}", tag = "decisions", operation_id = "show_scale", params(("service" = String, Path, description = "Service of the document")),
    responses((status = 200, body = ServiceScale), (status = 404, body = Problem))
)]
async fn show_scale(
    State(shared): State<Shared>,
    Segment(service): Segment<String>,
) -> Result<Json<ServiceScale>, ApiError> {
    Ok(Json(blocking(&shared, move |handle| handle.scale(&service)).await?))
}

/// Set the number of instances of a service, or let load decide again
#[utoipa::path(
    put, path = "/v1/scale/{service}", tag = "decisions", operation_id = "set_scale", params(("service" = String, Path, description = "Service of the document")), request_body = ScaleChange,
    responses((status = 200, body = ServiceScale), (status = 400, body = Problem, description = "Out of the document's bounds"), (status = 404, body = Problem))
)]
async fn set_scale(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Segment(service): Segment<String>,
    Body(change): Body<ScaleChange>,
) -> Result<Json<ServiceScale>, ApiError> {
    let scale = blocking(&shared, move |handle| {
        handle.set_scale(&service, change.instances, &caller.author())
    });
    Ok(Json(scale.await?))
}

/// Routes of all name routers
#[utoipa::path(get, path = "/v1/routes", tag = "map", operation_id = "list_routes", responses((status = 200, body = Vec<NetworkRoute>)))]
async fn list_routes(State(shared): State<Shared>) -> Result<Json<Vec<NetworkRoute>>, ApiError> {
    Ok(Json(blocking(&shared, |handle| Ok(handle.routes())).await?))
}

/// Defences and their countermeasures
#[utoipa::path(get, path = "/v1/countermeasures", tag = "decisions", operation_id = "list_countermeasures", responses((status = 200, body = Vec<NetworkDefence>)))]
async fn list_countermeasures(
    State(shared): State<Shared>,
) -> Result<Json<Vec<NetworkDefence>>, ApiError> {
    Ok(Json(blocking(&shared, |handle| Ok(handle.defences())).await?))
}

/// Remove the countermeasures for an element
///
/// Its defences learn anew what is usual, and answer the next attack.
#[utoipa::path(
    delete, path = "/v1/countermeasures/{element}", tag = "decisions", operation_id = "remove_countermeasures", params(("element" = String, Path, description = "Watched element of the document")),
    responses((status = 204), (status = 404, body = Problem))
)]
async fn remove_countermeasures(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Segment(element): Segment<String>,
) -> Result<StatusCode, ApiError> {
    let author = caller.author();
    let remove = move |handle: &Handle| handle.remove_countermeasures(&element, &author);
    blocking(&shared, remove).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Forbid or allow countermeasures at an element
#[utoipa::path(
    put, path = "/v1/countermeasures/{element}/veto", tag = "decisions", operation_id = "set_veto", params(("element" = String, Path, description = "Element of the document")), request_body = Veto,
    responses((status = 204), (status = 404, body = Problem))
)]
async fn set_veto(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Segment(element): Segment<String>,
    Body(veto): Body<Veto>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.set_veto(&element, veto.forbidden, &caller.author()))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// End the manager: when all services are drained and stopped, or at once with `keep`
#[utoipa::path(post, path = "/v1/stop", tag = "network", operation_id = "stop_network", request_body = StopRequest, responses((status = 202)))]
async fn stop(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<StopRequest>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.stop(request.keep, &caller.author())).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Create a URL that opens the page once
#[utoipa::path(
    post, path = "/v1/page/tickets", tag = "network", operation_id = "create_page_ticket",
    responses((status = 201, body = PageTicket), (status = 409, body = Problem, description = "The program serves no page"))
)]
async fn create_page_ticket(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
) -> Result<(StatusCode, Json<PageTicket>), ApiError> {
    nw_rest_api::create_page_ticket(shared.page.as_deref(), caller.page_user())
}

/// Show all metrics
#[utoipa::path(
    get, path = "/metrics", tag = "metrics", operation_id = "show_metrics",
    responses((status = 200, content_type = "text/plain", body = String, description = "Prometheus' text format"))
)]
async fn show_metrics(State(shared): State<Shared>) -> Result<impl IntoResponse, ApiError> {
    let text = blocking(&shared, |handle| Ok(metrics::encode(&handle.graph()))).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

/// Whether the program works
#[utoipa::path(get, path = "/healthz", tag = "metrics", operation_id = "health", responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health { ok: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::network::NetworkEventKind;

    #[test]
    fn event_is_one_block_with_id_kind_and_data() {
        let log = EventLog::new(7);
        let text = "two\nlines".to_owned();
        log.add(9, NetworkEventKind::PlanDone, text, crate::events::About::default());
        let mut out = String::new();
        log.after(0).iter().for_each(|event| write_event(&mut out, event));
        let expected = "id: 7-1\nevent: plan-done\ndata: {\"start_ms\":7,\"number\":1,\"at_ms\":9,\
                        \"kind\":\"plan-done\",\"text\":\"two\\nlines\"}\n\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn document_has_every_path_with_an_id() {
        let document: serde_json::Value = serde_json::from_str(&document()).unwrap();
        for path in ["/v1/network", "/v1/graph", "/v1/events", "/v1/scale/{service}", "/metrics"] {
            assert!(document["paths"][path].is_object(), "{path}");
        }
    }
}
