//! All paths, once: what is served and what the OpenAPI document says are the same list.

use crate::asker::Refused;
use crate::document::complete;
use crate::{State, faces, logs, metrics, routes, status, store, tap, trace};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes as paths;

/// Octets of a request's body.
const BODY_MAX: usize = 64 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Namewire router",
        description = "What `nw` shows and commands, by HTTP. Names are URIs, units stand last in names of fields. \
            Counters count since the start of the router, or of the face.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    tags(
        (name = "router", description = "The router as a whole"),
        (name = "faces", description = "Where packets come from and go to"),
        (name = "routes", description = "Where Interests go"),
        (name = "strategies", description = "How next hops are chosen"),
        (name = "content store", description = "Data kept for whoever asks next"),
        (name = "log", description = "What is logged"),
        (name = "metrics", description = "For Prometheus")
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
        .routes(paths!(store::info, store::change))
        .routes(paths!(store::erase))
        .routes(paths!(logs::shown, logs::set))
        .routes(paths!(metrics::show))
        .routes(paths!(status::health))
        .routes(paths!(status::ready))
}

/// The OpenAPI document, as JSON.
pub fn document() -> String {
    complete(paths().into_openapi())
}

/// Everything that is served.
pub fn router(state: State) -> Router {
    let (router, _) = paths().split_for_parts();
    finish(router, document(), BODY_MAX).with_state(state)
}

/// Adds to a server's paths what all servers have: the document, answers as JSON where there is no path or method, a bound for
/// bodies.
pub fn finish<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    document: String,
    body_bytes_max: usize,
) -> Router<S> {
    let document: std::sync::Arc<str> = document.into();
    let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
    router
        .route("/openapi.json", get(move || async move { (json, document.to_string()) }))
        .fallback(|| async { Refused::new(404, "there is no such path: see /openapi.json") })
        .method_not_allowed_fallback(|| async { Refused::new(405, "not by this method: see /openapi.json") })
        .layer(DefaultBodyLimit::max(body_bytes_max))
}
