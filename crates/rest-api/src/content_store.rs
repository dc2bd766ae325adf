//! `/v1/cs`: the content store.

use crate::State;
use crate::api_error::ApiError;
use crate::extract::{Body, at_least_one};
use crate::routes::parse_name;
use axum::Json;
use axum::extract::State as Shared;
use nw_api::management::{ControlParameters, CsInfo, Verb, flags};
use nw_api::rest::{CsChange, CsErase, CsErased, Problem};

/// Show size, hits and misses
#[utoipa::path(
    get, path = "/v1/cs", tag = "content store", operation_id = "show_content_store",
    responses((status = 200, body = CsInfo), (status = 503, body = Problem))
)]
pub async fn info(Shared(state): Shared<State>) -> Result<Json<CsInfo>, ApiError> {
    Ok(Json(state.router.status().await?.content_store))
}

/// Change capacity and options
#[utoipa::path(
    patch, path = "/v1/cs", tag = "content store", operation_id = "change_content_store", request_body = CsChange,
    responses((status = 200, body = CsInfo), (status = 400, body = Problem))
)]
pub async fn change(
    Shared(state): Shared<State>,
    Body(request): Body<CsChange>,
) -> Result<Json<CsInfo>, ApiError> {
    let bits = [(request.admit, flags::CS_ADMIT), (request.serve, flags::CS_SERVE)];
    let bits_where = |predicate: &dyn Fn(Option<bool>) -> bool| {
        bits.iter().filter(|(value, _)| predicate(*value)).fold(0, |sum, (_, bit)| sum | bit)
    };
    let mask = bits_where(&|value| value.is_some());
    let parameters = ControlParameters {
        capacity: request.capacity,
        mask: (mask != 0).then_some(mask),
        flags: (mask != 0).then(|| bits_where(&|value| value == Some(true))),
        ..ControlParameters::default()
    };
    state.router.command(Verb::CsConfig, parameters).await?;
    info(Shared(state)).await
}

/// Erase packets under a prefix
#[utoipa::path(
    post, path = "/v1/cs/erase", tag = "content store", operation_id = "erase_content_store", request_body = CsErase,
    responses((status = 200, body = CsErased), (status = 400, body = Problem))
)]
pub async fn erase(
    Shared(state): Shared<State>,
    Body(request): Body<CsErase>,
) -> Result<Json<CsErased>, ApiError> {
    let prefix = parse_name(&request.prefix)?;
    let limit = request.count.map_or(Ok(u64::MAX), |count| at_least_one("count", count))?;
    let (mut remaining, mut count) = (limit, 0);
    // One command erases a bounded number of packets and reports whether there are more.
    while remaining > 0 {
        let parameters =
            ControlParameters { count: Some(remaining), ..ControlParameters::of(prefix.clone()) };
        let body = state.router.command(Verb::CsErase, parameters).await?;
        let erased = body.count.unwrap_or(0);
        count += erased;
        remaining = remaining.saturating_sub(erased);
        if erased == 0 || body.capacity.is_none() {
            break;
        }
    }
    Ok(Json(CsErased { count }))
}
