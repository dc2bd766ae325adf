//! The control socket of a service: HTTP over a unix socket that only its owner may open, with the
//! same limits as a router's control socket. `/openapi.json` describes the interface.

mod elements;
mod events;
mod packets;
mod tap;

use crate::usage::Usage;
use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use nw_api::config::Control;
use nw_api::counters::{dropped_and_done, is_done};
use nw_api::rest::{Health, Problem};
use nw_api::service::{
    GraphChange, GraphOrder, GraphText, ServiceDrops, ServiceLink, ServicePort, ServiceStatistics,
    ServiceStatus,
};
use nw_graph::host::{DRAIN_MAX, Handle, HostError, Report};
use nw_graph::{ChangeMode, GraphFile, language};
use nw_rest_api::{ApiError, Body, ServeError, Server};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Maximum length of a request body, bytes; longer than the longest graph file.
const BODY_BYTES_MAX: usize = 2 << 20;

/// Reasons why the control socket can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket: give another path", .0.display())]
    NotASocket(PathBuf),
    /// Another service listens on the path.
    #[error("{} is in use by another service: choose another --name, or stop that service with `nw service stop`", .0.display())]
    InUse(PathBuf),
    /// The socket or its thread can't be created.
    #[error(transparent)]
    Serve(ServeError),
}

impl From<ServeError> for ControlError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::NotASocket(path) => ControlError::NotASocket(path),
            ServeError::InUse(path) => ControlError::InUse(path),
            error => ControlError::Serve(error),
        }
    }
}

/// The graph that runs.
struct RunningGraph {
    text: String,
    /// Number of graphs that have run until this one, which counts.
    number: u64,
}

/// State shared by all requests.
#[derive(Clone)]
struct Shared {
    name: Arc<str>,
    handle: Handle,
    graph: Arc<Mutex<RunningGraph>>,
    exports: packets::SharedExports,
    event_streams: Arc<Semaphore>,
}

/// Serves the control socket of a running graph in a thread until the returned value is dropped.
///
/// # Errors
/// If the path is in use or not a socket, or if the socket or its thread can't be created.
pub fn serve(path: &Path, name: &str, graph: &str, handle: Handle) -> Result<Server, ControlError> {
    // A missing folder is an error here: unlike for a router, it is probably a mistake.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(error) = folder.and_then(|folder| std::fs::metadata(folder).err()) {
        return Err(ControlError::Serve(ServeError::Listen {
            address: path.display().to_string(),
            error,
        }));
    }
    let shared = Shared {
        name: name.into(),
        handle,
        graph: Arc::new(Mutex::new(RunningGraph { text: graph.to_owned(), number: 1 })),
        exports: packets::SharedExports::default(),
        event_streams: events::permits(),
    };
    Ok(nw_rest_api::serve_paths(&Control::default(), Some(path), None, router(shared))?)
}

fn host_error(error: &HostError) -> ApiError {
    let code = match error {
        HostError::Ended => 503,
        HostError::ParametersRejected(_) => 409,
        _ => 400,
    };
    ApiError::new(code, error.to_string())
}

fn service_ending() -> ApiError {
    ApiError::new(503, "the service is ending")
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Namewire service",
        description = "One element, or a part of a graph, as a process: its faces, its counters, its graph.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    tags(
        (name = "service", description = "The service as a whole"),
        (name = "elements", description = "Its elements: state, cached packets, routes")
    )
)]
struct Document;

fn all_routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(paths!(status))
        .routes(paths!(links))
        .routes(paths!(statistics))
        .routes(paths!(graph, configure))
        .routes(paths!(elements::list))
        .routes(paths!(elements::show))
        .routes(paths!(elements::erase))
        .routes(paths!(elements::routes, elements::set_routes, elements::add_and_remove_routes))
        .routes(paths!(packets::export, packets::import))
        .routes(paths!(events::stream))
        .routes(paths!(tap::tap))
        .routes(paths!(drain))
        .routes(paths!(stop))
        .routes(paths!(health))
        .routes(paths!(ready))
}

/// Returns the OpenAPI document as JSON.
pub fn document() -> String {
    nw_rest_api::complete_document(all_routes().into_openapi())
}

fn router(shared: Shared) -> Router {
    let (router, _) = all_routes().split_for_parts();
    nw_rest_api::finish(router, document(), BODY_BYTES_MAX).with_state(shared)
}

/// Reads the counters; the loop replies between two iterations.
async fn report(handle: Handle) -> Result<Report, ApiError> {
    let report = tokio::task::spawn_blocking(move || handle.report()).await;
    report.map_err(|_| service_ending())?.map_err(|error| host_error(&error))
}

/// The service as a whole
#[utoipa::path(get, path = "/v1/service", tag = "service", operation_id = "show_service", responses((status = 200, body = ServiceStatus), (status = 503, body = Problem)))]
async fn status(State(shared): State<Shared>) -> Result<Json<ServiceStatus>, ApiError> {
    // Before the counters: what changes meanwhile is seen in the next status at the latest.
    let (graphs, last_event) = (running_graph(&shared).number, shared.handle.events().last());
    let report = report(shared.handle).await?;
    let counts = report.drops.iter().map(|(reason, packets)| (reason.as_str(), *packets));
    let (dropped, done) = dropped_and_done(counts);
    let usage = Usage::read();
    // Includes faces that ended.
    Ok(Json(ServiceStatus {
        name: shared.name.to_string(),
        version: concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned(),
        pid: std::process::id(),
        cpu_user_s: usage.user_s,
        cpu_system_s: usage.system_s,
        resident_bytes: usage.resident_bytes,
        uptime_s: report.uptime_s,
        changing: report.changing,
        draining: report.draining,
        received: report.received,
        sent: report.sent,
        dropped,
        done,
        graphs,
        last_event,
    }))
}

/// Whether the program works
#[utoipa::path(get, path = "/healthz", tag = "service", operation_id = "health", responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health { ok: true })
}

/// Whether the service accepts Interests: its loop replies, and it is not draining
#[utoipa::path(
    get, path = "/readyz", tag = "service", operation_id = "readiness",
    responses((status = 200, body = Health), (status = 503, body = Problem))
)]
async fn ready(State(shared): State<Shared>) -> Result<Json<Health>, ApiError> {
    match report(shared.handle).await?.draining {
        true => Err(ApiError::new(503, "the service is draining: it accepts no more Interests")),
        false => Ok(Json(Health { ok: true })),
    }
}

/// Faces of the service, with counters
#[utoipa::path(get, path = "/v1/links", tag = "service", operation_id = "list_links", responses((status = 200, body = Vec<ServiceLink>), (status = 503, body = Problem)))]
async fn links(State(shared): State<Shared>) -> Result<Json<Vec<ServiceLink>>, ApiError> {
    let link = |face: nw_graph::host::FaceReport| ServiceLink {
        name: face.name,
        id: Some(face.id),
        uri: face.uri,
        local: face.local,
        up: face.up,
        closing: face.closing,
        received: face.received,
        sent: face.sent,
    };
    let report = report(shared.handle).await?;
    // Missing faces have no id.
    let missing = report.missing.into_iter().map(|(name, uri)| ServiceLink {
        name,
        id: None,
        uri,
        local: String::new(),
        up: false,
        closing: false,
        received: [0; 3],
        sent: [0; 3],
    });
    Ok(Json(report.faces.into_iter().map(link).chain(missing).collect()))
}

/// Packets at each port, and drops
#[utoipa::path(
    get, path = "/v1/statistics", tag = "service", operation_id = "show_statistics",
    responses((status = 200, body = ServiceStatistics), (status = 503, body = Problem))
)]
async fn statistics(State(shared): State<Shared>) -> Result<Json<ServiceStatistics>, ApiError> {
    let report = report(shared.handle).await?;
    let port = |port: nw_graph::host::PortReport| ServicePort {
        element: port.node,
        side: port.side.to_owned(),
        port: port.port.to_owned(),
        packets: port.packets,
    };
    let counts = report.drops.into_iter().map(|(reason, packets)| ServiceDrops { reason, packets });
    let (done, drops) = counts.partition(|count| is_done(&count.reason));
    Ok(Json(ServiceStatistics { ports: report.ports.into_iter().map(port).collect(), drops, done }))
}

/// The running graph
#[utoipa::path(get, path = "/v1/graph", tag = "service", operation_id = "show_graph", responses((status = 200, body = GraphText)))]
async fn graph(State(shared): State<Shared>) -> Json<GraphText> {
    Json(GraphText { graph: running_graph(&shared).text.clone() })
}

/// Replace the running graph
///
/// Elements with the same name, kind and fixed parameters stay, with their state. The reply is sent
/// when packets pass through the new graph; old elements may still wait for replies (`changing` in
/// the status). An invalid graph changes nothing; status 409: the new graph runs, except for the
/// listed parameters.
#[utoipa::path(
    put, path = "/v1/graph", tag = "service", operation_id = "change_graph", request_body = GraphChange,
    responses(
        (status = 200, body = GraphText),
        (status = 400, body = Problem, description = "The text is not a valid graph; nothing changed"),
        (status = 409, body = Problem, description = "The graph runs, except for the parameters listed in the message")
    )
)]
async fn configure(
    State(shared): State<Shared>,
    Body(change): Body<GraphChange>,
) -> Result<Json<GraphText>, ApiError> {
    let read = GraphFile::read("graph", &change.graph);
    let file = read.map_err(|problems| ApiError::new(400, problems.to_string()))?;
    let mode = match change.order {
        GraphOrder::Drop => ChangeMode::Drop,
        GraphOrder::Buffer => ChangeMode::Buffer,
        GraphOrder::MakeBeforeBreak => ChangeMode::MakeBeforeBreak,
    };
    let written = language::write(&file.graph);
    let handle = shared.handle.clone();
    let changed = tokio::task::spawn_blocking(move || handle.change(file.graph, mode)).await;
    let changed = changed.map_err(|_| service_ending())?;
    if matches!(changed, Ok(()) | Err(HostError::ParametersRejected(_))) {
        let mut running = running_graph(&shared);
        running.text.clone_from(&written);
        running.number += 1;
    }
    changed.map_err(|error| host_error(&error))?;
    Ok(Json(GraphText { graph: written }))
}

fn running_graph(shared: &Shared) -> std::sync::MutexGuard<'_, RunningGraph> {
    shared.graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Accept no more Interests, and stop when no reply is awaited
#[utoipa::path(post, path = "/v1/drain", tag = "service", responses((status = 202), (status = 503, body = Problem)))]
async fn drain(State(shared): State<Shared>) -> Result<StatusCode, ApiError> {
    shared.handle.drain(DRAIN_MAX).map_err(|error| host_error(&error))?;
    Ok(StatusCode::ACCEPTED)
}

/// Stop at once
#[utoipa::path(post, path = "/v1/stop", tag = "service", responses((status = 202)))]
async fn stop(State(shared): State<Shared>) -> StatusCode {
    shared.handle.stop();
    StatusCode::ACCEPTED
}
