//! The control socket: HTTP over a unix socket that only its owner may open, with the bounds of a router's control socket.
//! `/openapi.json` lists what there is.

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
use nw_graph::host::{Handle, HostError, Report};
use nw_graph::{ChangeOrder, GraphFile, language};
use nw_rest_api::{Body, Refused, ServeError, Server};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Bytes of a request's body: a graph file is no longer.
const BODY_BYTES_MAX: usize = 2 << 20;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is something that is no socket.
    #[error("{} is there already and is no socket: give another path", .0.display())]
    NotASocket(PathBuf),
    /// Another service listens there.
    #[error("{} is in use: another service is running; call this one otherwise with --name, or end that one with `nw service stop`", .0.display())]
    InUse(PathBuf),
    /// The socket, or its thread.
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

/// What requests may use.
#[derive(Clone)]
struct Shared {
    name: Arc<str>,
    handle: Handle,
    /// The text of the graph that runs.
    graph: Arc<Mutex<String>>,
}

/// Serves the control socket of a running graph in a thread, until it is dropped.
///
/// # Errors
/// What can't be had.
pub fn serve(path: &Path, name: &str, graph: &str, handle: Handle) -> Result<Server, ControlError> {
    // A router makes the folder of its socket; for a service a folder that is missing is more likely a mistake.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(error) = folder.and_then(|folder| std::fs::metadata(folder).err()) {
        return Err(ControlError::Serve(ServeError::Listen { place: path.display().to_string(), error }));
    }
    let shared = Shared { name: name.into(), handle, graph: Arc::new(Mutex::new(graph.to_owned())) };
    Ok(nw_rest_api::serve_paths(&Control::default(), Some(path), None, router(shared))?)
}

fn host_refused(error: &HostError) -> Refused {
    let code = match error {
        HostError::Ended => 503,
        HostError::NotInEffect(_) => 409,
        _ => 400,
    };
    Refused::new(code, error.to_string())
}

fn ending() -> Refused {
    Refused::new(503, "the service is ending")
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Namewire service",
        description = "One element, or a part of a graph, as a process: what it is connected to, what passed, what it shall become.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    tags((name = "service", description = "The service as a whole"))
)]
struct Document;

fn all_paths() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(paths!(status))
        .routes(paths!(links))
        .routes(paths!(statistics))
        .routes(paths!(graph, configure))
        .routes(paths!(drain))
        .routes(paths!(stop))
        .routes(paths!(health))
        .routes(paths!(ready))
}

/// The OpenAPI document, as JSON.
pub fn document() -> String {
    nw_rest_api::complete_document(all_paths().into_openapi())
}

fn router(shared: Shared) -> Router {
    let (router, _) = all_paths().split_for_parts();
    nw_rest_api::finish(router, document(), BODY_BYTES_MAX).with_state(shared)
}

/// Queries the loop, which replies between two turns.
async fn report(handle: Handle) -> Result<Report, Refused> {
    let report = tokio::task::spawn_blocking(move || handle.report()).await;
    report.map_err(|_| ending())?.map_err(|error| host_refused(&error))
}

/// The service as a whole
#[utoipa::path(get, path = "/v1/service", tag = "service", operation_id = "show_service", responses((status = 200, body = ServiceStatus), (status = 503, body = Problem)))]
async fn status(State(shared): State<Shared>) -> Result<Json<ServiceStatus>, Refused> {
    let report = report(shared.handle).await?;
    let counts = report.drops.iter().map(|(reason, packets)| (reason.as_str(), *packets));
    let (dropped, done) = dropped_and_done(counts);
    // Faces that ended count as well.
    Ok(Json(ServiceStatus {
        name: shared.name.to_string(),
        uptime_s: report.uptime_s,
        changing: report.changing,
        draining: report.draining,
        received: report.received,
        sent: report.sent,
        dropped,
        done,
    }))
}

/// Whether the program works
#[utoipa::path(get, path = "/healthz", tag = "service", operation_id = "health", responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health { ok: true })
}

/// Whether the service takes Interests: its loop answers, and it is not drained
#[utoipa::path(
    get, path = "/readyz", tag = "service", operation_id = "readiness",
    responses((status = 200, body = Health), (status = 503, body = Problem))
)]
async fn ready(State(shared): State<Shared>) -> Result<Json<Health>, Refused> {
    match report(shared.handle).await?.draining {
        true => Err(Refused::new(503, "the service is being drained: it takes no more Interests")),
        false => Ok(Json(Health { ok: true })),
    }
}

/// Where packets come from and go to
#[utoipa::path(get, path = "/v1/links", tag = "service", operation_id = "list_links", responses((status = 200, body = Vec<ServiceLink>), (status = 503, body = Problem)))]
async fn links(State(shared): State<Shared>) -> Result<Json<Vec<ServiceLink>>, Refused> {
    let link = |face: nw_graph::host::FaceReport| ServiceLink {
        name: face.name,
        id: Some(face.id),
        uri: face.uri,
        local: face.local,
        up: face.up,
        received: face.received,
        sent: face.sent,
    };
    let report = report(shared.handle).await?;
    // What is not there has no number.
    let missing = report.missing.into_iter().map(|(name, uri)| ServiceLink {
        name,
        id: None,
        uri,
        local: String::new(),
        up: false,
        received: [0; 3],
        sent: [0; 3],
    });
    Ok(Json(report.faces.into_iter().map(link).chain(missing).collect()))
}

/// What passed each port, and what was dropped
#[utoipa::path(
    get, path = "/v1/statistics", tag = "service", operation_id = "show_statistics",
    responses((status = 200, body = ServiceStatistics), (status = 503, body = Problem))
)]
async fn statistics(State(shared): State<Shared>) -> Result<Json<ServiceStatistics>, Refused> {
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

/// The graph that runs
#[utoipa::path(get, path = "/v1/graph", tag = "service", operation_id = "show_graph", responses((status = 200, body = GraphText)))]
async fn graph(State(shared): State<Shared>) -> Json<GraphText> {
    Json(GraphText { graph: text(&shared).clone() })
}

/// Another graph in place of the one that runs
///
/// Elements of the same name, kind and fixed parameters stay as they are. Answered when packets go through the new graph; old elements may still
/// wait for answers (`changing` of the status). A graph that can't work changes nothing; 409: it runs, but for the parameters named.
#[utoipa::path(
    put, path = "/v1/graph", tag = "service", operation_id = "change_graph", request_body = GraphChange,
    responses(
        (status = 200, body = GraphText),
        (status = 400, body = Problem, description = "The text is no graph, or the graph can't work; nothing changed"),
        (status = 409, body = Problem, description = "The graph runs, but for the parameters that the text names")
    )
)]
async fn configure(
    State(shared): State<Shared>,
    Body(change): Body<GraphChange>,
) -> Result<Json<GraphText>, Refused> {
    let read = GraphFile::read("graph", &change.graph);
    let file = read.map_err(|problems| Refused::new(400, problems.to_string()))?;
    let order = match change.order {
        GraphOrder::Drop => ChangeOrder::Drop,
        GraphOrder::Buffer => ChangeOrder::Buffer,
        GraphOrder::MakeBeforeBreak => ChangeOrder::MakeBeforeBreak,
    };
    let written = language::write(&file.graph);
    let handle = shared.handle.clone();
    let changed = tokio::task::spawn_blocking(move || handle.change(file.graph, order)).await;
    let changed = changed.map_err(|_| ending())?;
    if matches!(changed, Ok(()) | Err(HostError::NotInEffect(_))) {
        text(&shared).clone_from(&written);
    }
    changed.map_err(|error| host_refused(&error))?;
    Ok(Json(GraphText { graph: written }))
}

fn text(shared: &Shared) -> std::sync::MutexGuard<'_, String> {
    shared.graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Take no more Interests, and end when nothing is awaited
#[utoipa::path(post, path = "/v1/drain", tag = "service", responses((status = 202), (status = 503, body = Problem)))]
async fn drain(State(shared): State<Shared>) -> Result<StatusCode, Refused> {
    shared.handle.drain().map_err(|error| host_refused(&error))?;
    Ok(StatusCode::ACCEPTED)
}

/// End at once
#[utoipa::path(post, path = "/v1/stop", tag = "service", responses((status = 202)))]
async fn stop(State(shared): State<Shared>) -> StatusCode {
    shared.handle.stop();
    StatusCode::ACCEPTED
}
