//! REST with OpenAPI, and metrics, of a running router.
//!
//! Layer 5 (hosts): depends on HTTP and [`nw_router::Handle`], not on tables and faces.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod api_error;
mod content_store;
mod dataset;
mod document;
mod entry;
mod events;
mod extract;
mod faces;
mod guard;
mod listen;
mod logs;
mod metrics;
mod openapi;
mod page;
mod pubsub;
mod recording;
mod router_client;
mod routes;
mod status;
mod stream;
mod tap;
mod trace;

pub use api_error::ApiError;
pub use document::complete as complete_document;
pub use entry::{Entry, TlsListener};
pub use extract::{Body, Query, Segment, at_least_one, read_body, within};
pub use listen::{
    ServeError, Server, page_access, serve, serve_paths, serve_paths_and_page, serve_with_tls,
};
pub use logs::LogSwitch;
pub use metrics::{Snapshot, encode as encode_metrics};
pub use openapi::{document, finish, router};
pub use page::{PageAccess, PageUser, TlsError, create_page_ticket};
pub use pubsub::PubSubSource;
pub use recording::{Recorder, serve_recording};
pub use stream::{body as stream_body, limit_stream};
pub use tap::{
    CaptureSource, ElementOutputs, ServiceTapQuery, TapQuery, capture_response, too_many_captures,
};

use router_client::RouterClient;
use std::sync::Arc;

/// Parts of the program beside the router that the interface shows.
pub struct Programs {
    /// The log.
    pub logs: Arc<dyn LogSwitch>,
    /// Publish/subscribe, if it runs.
    pub pubsub: Option<Arc<dyn PubSubSource>>,
}

/// State that every request handler may use.
#[derive(Clone)]
pub struct State {
    pub(crate) router: RouterClient,
    pub(crate) logs: Arc<dyn LogSwitch>,
    /// Publish/subscribe, if it runs.
    pub(crate) pubsub: Option<Arc<dyn PubSubSource>>,
    /// `/metrics` has a series per face.
    pub(crate) face_metrics: bool,
    pub(crate) events: Arc<events::EventSource>,
    /// The page, if the program serves one.
    pub(crate) page: Option<Arc<PageAccess>>,
}
