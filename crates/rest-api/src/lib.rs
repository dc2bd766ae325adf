//! REST with OpenAPI, and metrics, of a running router.
//!
//! Layer 5 (hosts): depends on HTTP and [`nw_router::Handle`], not on tables and faces.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod api_error;
mod content_store;
mod dataset;
mod document;
mod extract;
mod faces;
mod guard;
mod listen;
mod logs;
mod metrics;
mod openapi;
mod router_client;
mod routes;
mod status;
mod stream;
mod tap;
mod trace;

pub use api_error::ApiError;
pub use document::complete as complete_document;
pub use extract::{Body, Query, Segment, at_least_one, read_body, within};
pub use listen::{ServeError, Server, serve, serve_paths};
pub use logs::LogSwitch;
pub use metrics::{Snapshot, encode as encode_metrics};
pub use openapi::{document, finish, router};
pub use stream::body as stream_body;

use router_client::RouterClient;
use std::sync::Arc;

/// State that every request handler may use.
#[derive(Clone)]
pub struct State {
    pub(crate) router: RouterClient,
    pub(crate) logs: Arc<dyn LogSwitch>,
    /// `/metrics` has a series per face.
    pub(crate) face_metrics: bool,
}
