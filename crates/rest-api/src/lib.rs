//! REST with OpenAPI, and metrics, beside a running router.
//!
//! Layer 5 (hosts): knows HTTP and [`nw_router::Handle`], refuses to know tables and faces.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod asker;
mod dataset;
mod document;
mod extract;
mod faces;
mod guard;
mod listen;
mod logs;
mod metrics;
mod openapi;
mod routes;
mod status;
mod store;
mod stream;
mod tap;
mod trace;

pub use asker::Refused;
pub use document::complete as complete_document;
pub use extract::{Body, Query, Segment, read_body};
pub use listen::{ServeError, Server, serve, serve_paths};
pub use logs::LogSwitch;
pub use metrics::{Snapshot, encode as encode_metrics};
pub use openapi::{document, finish, router};

use asker::Asker;
use std::sync::Arc;

/// What every request may use.
#[derive(Clone)]
pub struct State {
    pub(crate) asker: Asker,
    pub(crate) logs: Arc<dyn LogSwitch>,
    pub(crate) face_metrics: bool,
}
