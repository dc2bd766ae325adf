//! All paths, once: what is served and what the OpenAPI document says are the same list.

use crate::asker::Refused;
use crate::{State, faces, logs, metrics, routes, status, store, tap, trace};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts};
use axum::routing::get;
use axum::{Json, Router};
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
}

/// The OpenAPI document, as JSON.
pub fn document() -> String {
    let mut document = paths().into_openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    without_links(&document.to_pretty_json().expect("a document of strings and maps"))
}

/// Documentation comments link to code; readers of the document have none: `[x](y)` becomes x.
fn without_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[`") {
        let link =
            behind.split_once("`](").and_then(|(words, target)| Some((words, target.split_once(')')?.1)));
        match link.filter(|(words, _)| !words.contains(['"', '\n'])) {
            Some((words, behind)) => {
                out.push_str(before);
                out.push_str(words);
                rest = behind;
            }
            None => {
                out.push_str(before);
                out.push_str("[`");
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Everything that is served.
pub fn router(state: State) -> Router {
    let document: std::sync::Arc<str> = document().into();
    let json = [(axum::http::header::CONTENT_TYPE, "application/json")];
    let (router, _) = paths().split_for_parts();
    router
        .route("/openapi.json", get(move || async move { (json, document.to_string()) }))
        .fallback(|| async { Refused::new(404, "there is no such path: see /openapi.json") })
        .method_not_allowed_fallback(|| async { Refused::new(405, "not by this method: see /openapi.json") })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(state)
}

/// A JSON body; what is wrong with it comes back as a [`Problem`](nw_api::rest::Problem).
#[derive(FromRequest)]
#[from_request(via(Json), rejection(Refused))]
pub struct Body<T>(pub T);

impl From<JsonRejection> for Refused {
    fn from(rejection: JsonRejection) -> Self {
        Refused::new(u64::from(rejection.status().as_u16()), rejection.body_text())
    }
}

/// A query; likewise.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refused))]
pub struct Query<T>(pub T);

impl From<QueryRejection> for Refused {
    fn from(rejection: QueryRejection) -> Self {
        Refused::new(u64::from(rejection.status().as_u16()), rejection.body_text())
    }
}
