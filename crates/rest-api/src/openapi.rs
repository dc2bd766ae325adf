//! All paths, listed once: what is served and what the OpenAPI document contains are the same.

use crate::api_error::ApiError;
use crate::document::complete;
use crate::{
    State, content_store, events, faces, logs, metrics, pubsub, routes, status, tap, trace,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Longest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Namewire router",
        description = "The functions of `nw` over HTTP. Names are URIs; field names end in their units. \
            Counters count since the start of the router, or of the face.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    components(schemas(nw_api::recording::Recording)),
    tags(
        (name = "router", description = "The router as a whole"),
        (name = "faces", description = "Interfaces to peers and applications"),
        (name = "routes", description = "Routes (RIB) and forwarding entries (FIB)"),
        (name = "strategies", description = "Forwarding strategies by prefix"),
        (name = "content store", description = "Cached Data packets"),
        (name = "publish/subscribe", description = "Applications, items and trees"),
        (name = "log", description = "Log levels"),
        (name = "metrics", description = "Monitoring")
    )
)]
struct Document;

fn paths() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(paths!(status::version))
        .routes(paths!(status::status))
        .routes(paths!(status::drops))
        .routes(paths!(status::done))
        .routes(paths!(status::look))
        .routes(paths!(status::top))
        .routes(paths!(trace::trace))
        .routes(paths!(tap::tap))
        .routes(paths!(faces::list, faces::create))
        .routes(paths!(faces::show, faces::destroy))
        .routes(paths!(routes::list, routes::add, routes::remove))
        .routes(paths!(routes::fib))
        .routes(paths!(routes::strategies, routes::choose, routes::unset))
        .routes(paths!(content_store::info, content_store::change))
        .routes(paths!(content_store::erase))
        .routes(paths!(logs::shown, logs::set))
        .routes(paths!(pubsub::status))
        .routes(paths!(pubsub::trace))
        .routes(paths!(events::events))
        .routes(paths!(events::create_ticket))
        .routes(paths!(metrics::show))
        .routes(paths!(status::health))
        .routes(paths!(status::ready))
}

/// Returns the OpenAPI document as JSON.
pub fn document() -> String {
    complete(paths().into_openapi())
}

/// Returns the handler of all paths.
pub fn router(state: State) -> Router {
    let (router, _) = paths().split_for_parts();
    finish(router, document(), BODY_BYTES_MAX).with_state(state)
}

/// Adds what all servers have: the document, JSON errors for unknown paths and methods, and a bound
/// on bodies.
pub fn finish<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    document: String,
    body_bytes_max: usize,
) -> Router<S> {
    let document: std::sync::Arc<str> = document.into();
    let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
    router
        .route("/openapi.json", get(move || async move { (json, document.to_string()) }))
        .fallback(|| async { ApiError::new(404, "this path does not exist: see /openapi.json") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(405, "this path does not support this method: see /openapi.json")
        })
        .layer(DefaultBodyLimit::max(body_bytes_max))
}
