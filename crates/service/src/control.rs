//! The control socket: HTTP over a unix socket that only its owner may open. `/openapi.json` lists what there is.

use axum::extract::{DefaultBodyLimit, Json, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, serve as serve_http};
use nw_api::rest::Problem;
use nw_api::service::{
    GraphChange, GraphOrder, GraphText, ServiceDrops, ServiceLink, ServicePort, ServiceStatistics,
    ServiceStatus,
};
use nw_graph::host::{Handle, HostError, Report};
use nw_graph::{ChangeOrder, GraphFile, language};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Octets of a request's body: a graph file is no longer.
const BODY_MAX: usize = 2 << 20;
/// Only the owner commands.
const MODE: u32 = 0o600;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket.
    #[error("can't listen on {}: {error}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is something that is no socket.
    #[error("{} is there already and is no socket: give another path", .0.display())]
    NotASocket(PathBuf),
    /// Another service listens there.
    #[error("{} is in use: another service is running; call this one otherwise with --name, or end that one with `nw service stop`", .0.display())]
    InUse(PathBuf),
    /// The thread.
    #[error("can't start the control thread: {0}")]
    Thread(io::Error),
}

/// A running control socket; ends when it is let go.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
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

/// Serves the control socket of a running graph in a thread.
///
/// # Errors
/// What can't be had.
pub fn serve(path: &Path, name: &str, graph: &str, handle: Handle) -> Result<Server, ControlError> {
    let listener = bind(path)?;
    let failed = |error| ControlError::Listen { path: path.to_owned(), error };
    listener.set_nonblocking(true).map_err(failed)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
    let shared = Shared { name: name.into(), handle, graph: Arc::new(Mutex::new(graph.to_owned())) };
    let (stop, stopped) = oneshot::channel::<()>();
    let run = move || {
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
            let end = async move {
                // Let go or told, it is the same.
                let _ = stopped.await;
            };
            if let Err(error) = serve_http(listener, router(shared)).with_graceful_shutdown(end).await {
                tracing::error!("the control socket failed: {error}");
            }
        });
    };
    let thread =
        std::thread::Builder::new().name("control".into()).spawn(run).map_err(ControlError::Thread)?;
    Ok(Server { path: path.to_owned(), stop: Some(stop), thread: Some(thread) })
}

/// A socket that nobody answers any more is taken over.
fn bind(path: &Path) -> Result<UnixListener, ControlError> {
    let failed = |error| ControlError::Listen { path: path.to_owned(), error };
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(ControlError::NotASocket(path.to_owned()));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(ControlError::InUse(path.to_owned()));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(failed)?;
    Ok(listener)
}

/// A refusal as every control socket of ours gives it.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(Problem { code: u64::from(self.0.as_u16()), text: self.1 })).into_response()
    }
}

impl From<HostError> for Refused {
    fn from(error: HostError) -> Self {
        let code = match error {
            HostError::Ended => StatusCode::SERVICE_UNAVAILABLE,
            HostError::NotInEffect(_) => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        Refused(code, error.to_string())
    }
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
}

/// The OpenAPI document, as JSON.
pub fn document() -> String {
    let mut document = all_paths().into_openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document.to_pretty_json().expect("a document of strings and maps")
}

fn router(shared: Shared) -> Router {
    let document: Arc<str> = document().into();
    let json = [(CONTENT_TYPE, "application/json")];
    let missing =
        || async { Refused(StatusCode::NOT_FOUND, "there is no such path: see /openapi.json".to_owned()) };
    let (router, _) = all_paths().split_for_parts();
    router
        .route("/openapi.json", get(move || async move { (json, document.to_string()) }))
        .fallback(missing)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(shared)
}

/// Asks the loop, which answers between two turns.
async fn report(handle: Handle) -> Result<Report, Refused> {
    let asked = tokio::task::spawn_blocking(move || handle.report()).await;
    let ended = |_| Refused(StatusCode::SERVICE_UNAVAILABLE, "the service is ending".to_owned());
    Ok(asked.map_err(ended)??)
}

/// The service as a whole
#[utoipa::path(get, path = "/v1/service", tag = "service", responses((status = 200, body = ServiceStatus), (status = 503, body = Problem)))]
async fn status(State(shared): State<Shared>) -> Result<Json<ServiceStatus>, Refused> {
    let report = report(shared.handle).await?;
    // Faces that ended count as well.
    Ok(Json(ServiceStatus {
        name: shared.name.to_string(),
        uptime_s: report.uptime_s,
        changing: report.changing,
        draining: report.draining,
        received: report.received,
        sent: report.sent,
        dropped: report.drops.iter().map(|(_, packets)| packets).sum(),
    }))
}

/// Where packets come from and go to
#[utoipa::path(get, path = "/v1/links", tag = "service", responses((status = 200, body = Vec<ServiceLink>), (status = 503, body = Problem)))]
async fn links(State(shared): State<Shared>) -> Result<Json<Vec<ServiceLink>>, Refused> {
    let link = |face: nw_graph::host::FaceReport| ServiceLink {
        name: face.name,
        id: face.id,
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
        id: 0,
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
    get, path = "/v1/statistics", tag = "service",
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
    let drops = report.drops.into_iter().map(|(reason, packets)| ServiceDrops { reason, packets });
    Ok(Json(ServiceStatistics {
        ports: report.ports.into_iter().map(port).collect(),
        drops: drops.collect(),
    }))
}

/// The graph that runs
#[utoipa::path(get, path = "/v1/graph", tag = "service", responses((status = 200, body = GraphText)))]
async fn graph(State(shared): State<Shared>) -> Json<GraphText> {
    Json(GraphText { graph: text(&shared).clone() })
}

/// Another graph in place of the one that runs
///
/// Elements of the same name, kind and fixed parameters stay as they are. Answered when packets go through the new graph; old elements may still
/// wait for answers (`changing` of the status). A graph that can't work changes nothing; 409: it runs, but for the parameters named.
#[utoipa::path(
    put, path = "/v1/graph", tag = "service", request_body = GraphChange,
    responses(
        (status = 200, body = GraphText), (status = 400, body = Problem), (status = 409, body = Problem),
        (status = 503, body = Problem)
    )
)]
async fn configure(
    State(shared): State<Shared>,
    Json(change): Json<GraphChange>,
) -> Result<Json<GraphText>, Refused> {
    let read = GraphFile::read("graph", &change.graph);
    let file = read.map_err(|problems| Refused(StatusCode::BAD_REQUEST, problems.to_string()))?;
    let order = match change.order {
        GraphOrder::Drop => ChangeOrder::Drop,
        GraphOrder::Buffer => ChangeOrder::Buffer,
        GraphOrder::MakeBeforeBreak => ChangeOrder::MakeBeforeBreak,
    };
    let written = language::write(&file.graph);
    let handle = shared.handle.clone();
    let told = tokio::task::spawn_blocking(move || handle.change(file.graph, order)).await;
    let told =
        told.map_err(|_| Refused(StatusCode::SERVICE_UNAVAILABLE, "the service is ending".to_owned()))?;
    if matches!(told, Ok(()) | Err(HostError::NotInEffect(_))) {
        text(&shared).clone_from(&written);
    }
    told?;
    Ok(Json(GraphText { graph: written }))
}

fn text(shared: &Shared) -> std::sync::MutexGuard<'_, String> {
    shared.graph.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Take no more Interests, and end when nothing is awaited
#[utoipa::path(post, path = "/v1/drain", tag = "service", responses((status = 202), (status = 503, body = Problem)))]
async fn drain(State(shared): State<Shared>) -> Result<StatusCode, Refused> {
    shared.handle.drain()?;
    Ok(StatusCode::ACCEPTED)
}

/// End at once
#[utoipa::path(post, path = "/v1/stop", tag = "service", responses((status = 202)))]
async fn stop(State(shared): State<Shared>) -> StatusCode {
    shared.handle.stop();
    StatusCode::ACCEPTED
}
