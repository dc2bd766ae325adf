//! `/v1/version`, `/v1/status`, `/v1/drops`, `/v1/look`.

use crate::State;
use crate::asker::Refused;
use crate::dataset::LIST_MAX;
use crate::extract::{Query, within};
use axum::Json;
use axum::extract::State as Shared;
use nw_api::counters::split_done;
use nw_api::management::DropCount;
use nw_api::rest::{Health, Look, Problem, RouterStatus, TopPrefixes, Version};
use nw_router::inside::Question;
use serde::Deserialize;
use utoipa::IntoParams;

/// Changes when something that was there changes or goes.
const API_VERSION: u32 = 2;
/// Components of a prefix that is counted.
const COMPONENTS_MAX: u64 = 16;

/// What counts as one prefix.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Depth {
    /// So many components; 2 when not given.
    #[param(minimum = 1, maximum = 16)]
    components: Option<u64>,
}

impl Depth {
    fn components(&self) -> Result<usize, Refused> {
        within("components", self.components.unwrap_or(2), 1..=COMPONENTS_MAX).map(|number| number as usize)
    }
}

/// Program and version
#[utoipa::path(get, path = "/v1/version", tag = "router", responses((status = 200, body = Version)))]
pub async fn version() -> Json<Version> {
    Json(Version { version: concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned(), api: API_VERSION })
}

/// Whether the program works
#[utoipa::path(get, path = "/healthz", tag = "metrics", operation_id = "health", responses((status = 200, body = Health)))]
pub async fn health() -> Json<Health> {
    Json(Health { ok: true })
}

/// Whether the router forwards: its loop answers
#[utoipa::path(
    get, path = "/readyz", tag = "metrics", operation_id = "readiness",
    responses((status = 200, body = Health), (status = 503, body = Problem))
)]
pub async fn ready(Shared(state): Shared<State>) -> Result<Json<Health>, Refused> {
    state.asker.ask(Question::Alive).await?;
    Ok(Json(Health { ok: true }))
}

/// The router as a whole
#[utoipa::path(
    get, path = "/v1/status", tag = "router",
    responses((status = 200, body = RouterStatus), (status = 503, body = Problem))
)]
pub async fn status(Shared(state): Shared<State>) -> Result<Json<RouterStatus>, Refused> {
    Ok(Json(state.asker.status().await?))
}

/// Dropped packets by reason
#[utoipa::path(
    get, path = "/v1/drops", tag = "router",
    responses((status = 200, body = Vec<DropCount>), (status = 503, body = Problem))
)]
pub async fn drops(Shared(state): Shared<State>) -> Result<Json<Vec<DropCount>>, Refused> {
    Ok(Json(split_done(state.asker.drops(false).await?).0))
}

/// Packets that ended as expected, by reason
///
/// They were answered from the content store, or joined to a pending Interest, or were answers themselves.
#[utoipa::path(
    get, path = "/v1/done", tag = "router",
    responses((status = 200, body = Vec<DropCount>), (status = 503, body = Problem))
)]
pub async fn done(Shared(state): Shared<State>) -> Result<Json<Vec<DropCount>>, Refused> {
    Ok(Json(split_done(state.asker.drops(false).await?).1))
}

/// Everything that `nw top` shows, at once
#[utoipa::path(
    get, path = "/v1/look", tag = "router", params(Depth),
    responses((status = 200, body = Look), (status = 503, body = Problem))
)]
pub async fn look(Shared(state): Shared<State>, Query(depth): Query<Depth>) -> Result<Json<Look>, Refused> {
    let (drops, done) = split_done(state.asker.drops(false).await?);
    Ok(Json(Look {
        status: state.asker.status().await?,
        faces: state.asker.faces(None, LIST_MAX).await?,
        drops,
        done,
        top: Some(state.asker.top(depth.components()?).await?),
    }))
}

/// The prefixes with most traffic
///
/// They are counted while somebody asks: the first answer is empty, and ten seconds without a question end it. Numbers are about right, with the
/// bound that each says.
#[utoipa::path(
    get, path = "/v1/top", tag = "router", params(Depth),
    responses((status = 200, body = TopPrefixes), (status = 503, body = Problem))
)]
pub async fn top(
    Shared(state): Shared<State>,
    Query(depth): Query<Depth>,
) -> Result<Json<TopPrefixes>, Refused> {
    Ok(Json(state.asker.top(depth.components()?).await?))
}
