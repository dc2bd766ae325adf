//! `/v1/version`, `/v1/status`, `/v1/drops`, `/v1/look`, `/v1/top`, and health checks.

use crate::State;
use crate::api_error::ApiError;
use crate::dataset::LIST_MAX;
use crate::extract::{Query, within};
use axum::Json;
use axum::extract::State as Shared;
use nw_api::counters::split_done;
use nw_api::management::DropCount;
use nw_api::rest::{Health, Look, Problem, RouterStatus, TopPrefixes, Version};
use nw_router::introspection::Query as RouterQuery;
use serde::Deserialize;
use utoipa::IntoParams;

/// Increases when existing parts of the interface change or are removed.
const API_VERSION: u32 = 2;
/// Most components of a counted prefix.
const COMPONENTS_MAX: u64 = 16;

/// Selects the length of prefixes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Depth {
    /// Number of components. Default: 2.
    #[param(minimum = 1, maximum = 16)]
    components: Option<u64>,
}

impl Depth {
    fn components(&self) -> Result<usize, ApiError> {
        within("components", self.components.unwrap_or(2), 1..=COMPONENTS_MAX)
            .map(|number| number as usize)
    }
}

/// Show program and version
#[utoipa::path(get, path = "/v1/version", tag = "router", responses((status = 200, body = Version)))]
pub async fn version() -> Json<Version> {
    Json(Version {
        version: concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned(),
        api: API_VERSION,
    })
}

/// Check that the program is running
#[utoipa::path(get, path = "/healthz", tag = "metrics", operation_id = "health", responses((status = 200, body = Health)))]
pub async fn health() -> Json<Health> {
    Json(Health { ok: true })
}

/// Check that the router's event loop replies
#[utoipa::path(
    get, path = "/readyz", tag = "metrics", operation_id = "readiness",
    responses((status = 200, body = Health), (status = 503, body = Problem))
)]
pub async fn ready(Shared(state): Shared<State>) -> Result<Json<Health>, ApiError> {
    state.router.query(RouterQuery::Alive).await?;
    Ok(Json(Health { ok: true }))
}

/// Show status and counters of the router
#[utoipa::path(
    get, path = "/v1/status", tag = "router",
    responses((status = 200, body = RouterStatus), (status = 503, body = Problem))
)]
pub async fn status(Shared(state): Shared<State>) -> Result<Json<RouterStatus>, ApiError> {
    Ok(Json(state.router.status().await?))
}

/// List dropped packets by reason
#[utoipa::path(
    get, path = "/v1/drops", tag = "router",
    responses((status = 200, body = Vec<DropCount>), (status = 503, body = Problem))
)]
pub async fn drops(Shared(state): Shared<State>) -> Result<Json<Vec<DropCount>>, ApiError> {
    Ok(Json(split_done(state.router.drops(false).await?).0))
}

/// List packets that ended as expected, by reason
///
/// They were answered from the content store, aggregated into a pending Interest, or consumed as
/// replies.
#[utoipa::path(
    get, path = "/v1/done", tag = "router",
    responses((status = 200, body = Vec<DropCount>), (status = 503, body = Problem))
)]
pub async fn done(Shared(state): Shared<State>) -> Result<Json<Vec<DropCount>>, ApiError> {
    Ok(Json(split_done(state.router.drops(false).await?).1))
}

/// Show everything that `nw top` displays
#[utoipa::path(
    get, path = "/v1/look", tag = "router", params(Depth),
    responses((status = 200, body = Look), (status = 503, body = Problem))
)]
pub async fn look(
    Shared(state): Shared<State>,
    Query(depth): Query<Depth>,
) -> Result<Json<Look>, ApiError> {
    let (drops, done) = split_done(state.router.drops(false).await?);
    Ok(Json(Look {
        status: state.router.status().await?,
        faces: state.router.faces(None, LIST_MAX).await?,
        drops,
        done,
        top: Some(state.router.top(depth.components()?).await?),
    }))
}

/// List the prefixes with the most traffic
///
/// Counting starts with the first request, which gets an empty list, and ends ten seconds after the
/// last one. Counts are approximate, within the error bound of each entry.
#[utoipa::path(
    get, path = "/v1/top", tag = "router", params(Depth),
    responses((status = 200, body = TopPrefixes), (status = 503, body = Problem))
)]
pub async fn top(
    Shared(state): Shared<State>,
    Query(depth): Query<Depth>,
) -> Result<Json<TopPrefixes>, ApiError> {
    Ok(Json(state.router.top(depth.components()?).await?))
}
