//! `/v1/routes`, `/v1/fib`, `/v1/strategies`.

use crate::State;
use crate::asker::Refused;
use crate::dataset::LIST_MAX;
use crate::openapi::{Body, Query};
use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use nw_api::management::{
    ControlParameters, FibEntry, RibEntry, Strategy, StrategyChoice, Verb, flags, origin,
};
use nw_api::rest::{Problem, RouteWanted, StrategyWanted};
use nw_name::Name;
use serde::Deserialize;
use utoipa::IntoParams;

/// Which part of a list of names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Part {
    /// Only names behind this one, in canonical order.
    after: Option<String>,
    /// At most so many names.
    limit: Option<usize>,
}

impl Part {
    fn read(self) -> Result<(Option<Name>, usize), Refused> {
        let after = self.after.as_deref().map(name).transpose()?;
        Ok((after, self.limit.unwrap_or(LIST_MAX).min(LIST_MAX)))
    }
}

/// Which route.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Its prefix.
    prefix: String,
    /// Its face.
    face_id: u64,
    /// Who made it; static when not given.
    origin: Option<String>,
}

/// Which prefix.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Prefix {
    /// The prefix.
    prefix: String,
}

/// A name, or what is wrong with it.
pub fn name(uri: &str) -> Result<Name, Refused> {
    uri.parse().map_err(|error| Refused::new(400, format!("{uri:?} is no name: {error}")))
}

fn origin_number(word: Option<&str>) -> Result<u64, Refused> {
    let word = word.unwrap_or("static");
    origin::from_word(word).ok_or_else(|| {
        Refused::new(
            400,
            format!("{word:?} is no origin: app, static, client, autoreg, autoconf, nlsr or a number"),
        )
    })
}

/// Routes (the RIB), by prefix
#[utoipa::path(
    get, path = "/v1/routes", tag = "routes", params(Part),
    responses((status = 200, body = Vec<RibEntry>), (status = 400, body = Problem))
)]
pub async fn list(
    Shared(state): Shared<State>,
    Query(part): Query<Part>,
) -> Result<Json<Vec<RibEntry>>, Refused> {
    let (after, limit) = part.read()?;
    Ok(Json(state.asker.routes(after, limit).await?))
}

/// What routes amount to (the FIB), by prefix
#[utoipa::path(
    get, path = "/v1/fib", tag = "routes", params(Part),
    responses((status = 200, body = Vec<FibEntry>), (status = 400, body = Problem))
)]
pub async fn fib(
    Shared(state): Shared<State>,
    Query(part): Query<Part>,
) -> Result<Json<Vec<FibEntry>>, Refused> {
    let (after, limit) = part.read()?;
    Ok(Json(state.asker.fib(after, limit).await?))
}

/// Add or change a route
#[utoipa::path(
    put, path = "/v1/routes", tag = "routes", request_body = RouteWanted,
    responses(
        (status = 200, body = ControlParameters), (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 410, body = Problem)
    )
)]
pub async fn add(
    Shared(state): Shared<State>,
    Body(wanted): Body<RouteWanted>,
) -> Result<Json<ControlParameters>, Refused> {
    let bit = |yes: bool, flag: u64| if yes { flag } else { 0 };
    let parameters = ControlParameters {
        face_id: Some(wanted.face_id),
        cost: Some(wanted.cost),
        origin: Some(origin_number(wanted.origin.as_deref())?),
        flags: Some(bit(!wanted.no_inherit, flags::CHILD_INHERIT) | bit(wanted.capture, flags::CAPTURE)),
        expiration_period: wanted.expires_ms,
        ..ControlParameters::of(name(&wanted.prefix)?)
    };
    Ok(Json(state.asker.command(Verb::RibRegister, parameters).await?))
}

/// Remove a route
#[utoipa::path(
    delete, path = "/v1/routes", tag = "routes", params(Which),
    responses((status = 204), (status = 400, body = Problem), (status = 404, body = Problem))
)]
pub async fn remove(Shared(state): Shared<State>, Query(which): Query<Which>) -> Result<StatusCode, Refused> {
    let parameters = ControlParameters {
        face_id: Some(which.face_id),
        origin: Some(origin_number(which.origin.as_deref())?),
        ..ControlParameters::of(name(&which.prefix)?)
    };
    state.asker.command(Verb::RibUnregister, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Strategies chosen, by prefix
#[utoipa::path(
    get, path = "/v1/strategies", tag = "strategies", params(Part),
    responses((status = 200, body = Vec<StrategyChoice>), (status = 400, body = Problem))
)]
pub async fn strategies(
    Shared(state): Shared<State>,
    Query(part): Query<Part>,
) -> Result<Json<Vec<StrategyChoice>>, Refused> {
    let (after, limit) = part.read()?;
    Ok(Json(state.asker.strategies(after, limit).await?))
}

/// Choose a prefix' strategy
#[utoipa::path(
    put, path = "/v1/strategies", tag = "strategies", request_body = StrategyWanted,
    responses((status = 200, body = ControlParameters), (status = 400, body = Problem), (status = 404, body = Problem))
)]
pub async fn choose(
    Shared(state): Shared<State>,
    Body(wanted): Body<StrategyWanted>,
) -> Result<Json<ControlParameters>, Refused> {
    let strategy = match wanted.strategy.starts_with('/') {
        true => name(&wanted.strategy)?,
        false => name(&format!("/localhost/nfd/strategy/{}", wanted.strategy))?,
    };
    let parameters = ControlParameters {
        strategy: Some(Strategy(strategy)),
        ..ControlParameters::of(name(&wanted.prefix)?)
    };
    Ok(Json(state.asker.command(Verb::StrategyChoiceSet, parameters).await?))
}

/// Leave a prefix' strategy to shorter prefixes
#[utoipa::path(
    delete, path = "/v1/strategies", tag = "strategies", params(Prefix),
    responses((status = 204), (status = 400, body = Problem), (status = 404, body = Problem))
)]
pub async fn unset(Shared(state): Shared<State>, Query(which): Query<Prefix>) -> Result<StatusCode, Refused> {
    let parameters = ControlParameters::of(name(&which.prefix)?);
    state.asker.command(Verb::StrategyChoiceUnset, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}
