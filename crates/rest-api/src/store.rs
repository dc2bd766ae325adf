//! `/v1/cs`: the content store.

use crate::State;
use crate::asker::Refused;
use crate::extract::{Body, at_least_one};
use crate::routes::name;
use axum::Json;
use axum::extract::State as Shared;
use nw_api::management::{ControlParameters, CsInfo, Verb, flags};
use nw_api::rest::{CsChange, CsErase, CsErased, Problem};

/// Its size, hits and misses
#[utoipa::path(
    get, path = "/v1/cs", tag = "content store", operation_id = "show_content_store",
    responses((status = 200, body = CsInfo), (status = 503, body = Problem))
)]
pub async fn info(Shared(state): Shared<State>) -> Result<Json<CsInfo>, Refused> {
    Ok(Json(state.asker.status().await?.content_store))
}

/// Change what it does
#[utoipa::path(
    patch, path = "/v1/cs", tag = "content store", operation_id = "change_content_store", request_body = CsChange,
    responses((status = 200, body = CsInfo), (status = 400, body = Problem))
)]
pub async fn change(
    Shared(state): Shared<State>,
    Body(wanted): Body<CsChange>,
) -> Result<Json<CsInfo>, Refused> {
    let bits = [(wanted.admit, flags::CS_ADMIT), (wanted.serve, flags::CS_SERVE)];
    let sum = |meant: &dyn Fn(Option<bool>) -> bool| {
        bits.iter().filter(|(wanted, _)| meant(*wanted)).fold(0, |all, (_, bit)| all | bit)
    };
    let mask = sum(&|wanted| wanted.is_some());
    let parameters = ControlParameters {
        capacity: wanted.capacity,
        mask: (mask != 0).then_some(mask),
        flags: (mask != 0).then(|| sum(&|wanted| wanted == Some(true))),
        ..ControlParameters::default()
    };
    state.asker.command(Verb::CsConfig, parameters).await?;
    info(Shared(state)).await
}

/// Erase packets under a prefix
#[utoipa::path(
    post, path = "/v1/cs/erase", tag = "content store", operation_id = "erase_content_store", request_body = CsErase,
    responses((status = 200, body = CsErased), (status = 400, body = Problem))
)]
pub async fn erase(
    Shared(state): Shared<State>,
    Body(wanted): Body<CsErase>,
) -> Result<Json<CsErased>, Refused> {
    let prefix = name(&wanted.prefix)?;
    let wanted = wanted.count.map_or(Ok(u64::MAX), |count| at_least_one("count", count))?;
    let (mut left, mut count) = (wanted, 0);
    // One command erases a bounded number and says whether there is more.
    while left > 0 {
        let parameters = ControlParameters { count: Some(left), ..ControlParameters::of(prefix.clone()) };
        let body = state.asker.command(Verb::CsErase, parameters).await?;
        let erased = body.count.unwrap_or(0);
        count += erased;
        left = left.saturating_sub(erased);
        if erased == 0 || body.capacity.is_none() {
            break;
        }
    }
    Ok(Json(CsErased { count }))
}
