//! `/v1/routes`, `/v1/fib`, `/v1/strategies`: routes, forwarding entries and strategy choices.

use crate::State;
use crate::api_error::ApiError;
use crate::dataset::list_len;
use crate::extract::{Body, Query, at_least_one, within};
use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use nw_api::management::{
    ControlParameters, FibEntry, RibEntry, Route, Strategy, StrategyChoice, Verb, flags, origin,
};
use nw_api::rest::{Problem, RouteMade, RouteWanted, StrategyWanted};
use nw_api::schema::{NameText, NamedPrefixText, OriginText};
use nw_name::Name;
use serde::Deserialize;
use utoipa::IntoParams;

/// Selects a part of a list of names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListRange {
    /// Only names after this one, in canonical order.
    #[param(value_type = Option<NameText>, inline)]
    after: Option<String>,
    /// Largest number of names to return.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<u64>,
}

impl ListRange {
    fn read(self) -> Result<(Option<Name>, usize), ApiError> {
        let after = self.after.as_deref().map(parse_name).transpose()?;
        Ok((after, list_len(self.limit)?))
    }
}

/// Identifies a route.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RouteKey {
    /// Prefix of the route.
    #[param(value_type = NameText, inline)]
    prefix: String,
    /// Face of the route.
    #[param(minimum = 1)]
    face_id: u64,
    /// Origin of the route. Default: static.
    #[param(value_type = Option<OriginText>, inline)]
    origin: Option<String>,
}

/// Identifies a prefix.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Prefix {
    /// The prefix. The strategy of / can be set, but not unset.
    #[param(value_type = NamedPrefixText, inline)]
    prefix: String,
}

/// Parses a name.
///
/// # Errors
/// 400 with what is wrong with it.
pub fn parse_name(uri: &str) -> Result<Name, ApiError> {
    uri.parse().map_err(|error| ApiError::new(400, format!("{uri:?} is not a valid name: {error}")))
}

fn origin_number(word: Option<&str>) -> Result<u64, ApiError> {
    let word = word.unwrap_or("static");
    origin::from_word(word).ok_or_else(|| {
        ApiError::new(
            400,
            format!(
                "{word:?} is not a route origin: use app, static, client, autoreg, autoconf, nlsr or a number"
            ),
        )
    })
}

/// List routes (the RIB) by prefix
#[utoipa::path(
    get, path = "/v1/routes", tag = "routes", operation_id = "list_routes", params(ListRange),
    responses((status = 200, body = Vec<RibEntry>), (status = 400, body = Problem))
)]
pub async fn list(
    Shared(state): Shared<State>,
    Query(range): Query<ListRange>,
) -> Result<Json<Vec<RibEntry>>, ApiError> {
    let (after, limit) = range.read()?;
    Ok(Json(state.router.routes(after, limit).await?))
}

/// List forwarding entries (the FIB) by prefix
#[utoipa::path(
    get, path = "/v1/fib", tag = "routes", operation_id = "list_fib", params(ListRange),
    responses((status = 200, body = Vec<FibEntry>), (status = 400, body = Problem))
)]
pub async fn fib(
    Shared(state): Shared<State>,
    Query(range): Query<ListRange>,
) -> Result<Json<Vec<FibEntry>>, ApiError> {
    let (after, limit) = range.read()?;
    Ok(Json(state.router.fib(after, limit).await?))
}

/// Add or change a route
#[utoipa::path(
    put, path = "/v1/routes", tag = "routes", operation_id = "add_route", request_body = RouteWanted,
    responses(
        (status = 200, body = RouteMade, description = "The route after the change"),
        (status = 403, body = Problem, description = "The prefix belongs to the router itself"),
        (status = 404, body = Problem, description = "There is no such face")
    )
)]
pub async fn add(
    Shared(state): Shared<State>,
    Body(request): Body<RouteWanted>,
) -> Result<Json<RouteMade>, ApiError> {
    let flag_if = |set: bool, flag: u64| if set { flag } else { 0 };
    let parameters = ControlParameters {
        face_id: Some(at_least_one("face_id", request.face_id)?),
        cost: Some(request.cost),
        origin: Some(origin_number(request.origin.as_deref())?),
        flags: Some(
            flag_if(!request.no_inherit, flags::CHILD_INHERIT)
                | flag_if(request.capture, flags::CAPTURE),
        ),
        expiration_period: request.expires_ms,
        ..ControlParameters::of(parse_name(&request.prefix)?)
    };
    let result = state.router.command(Verb::RibRegister, parameters).await?;
    Ok(Json(RouteMade {
        name: result.name.unwrap_or_default().to_string(),
        route: Route {
            face_id: result.face_id.unwrap_or(0),
            origin: result.origin.unwrap_or(0),
            cost: result.cost.unwrap_or(0),
            flags: result.flags.unwrap_or(0),
            expiration_period: result.expiration_period,
        },
    }))
}

/// Remove a route
#[utoipa::path(
    delete, path = "/v1/routes", tag = "routes", operation_id = "remove_route", params(RouteKey),
    responses((status = 204), (status = 404, body = Problem, description = "There is no such route"))
)]
pub async fn remove(
    Shared(state): Shared<State>,
    Query(key): Query<RouteKey>,
) -> Result<StatusCode, ApiError> {
    let parameters = ControlParameters {
        face_id: Some(within("face_id", key.face_id, 1..=u64::MAX)?),
        origin: Some(origin_number(key.origin.as_deref())?),
        ..ControlParameters::of(parse_name(&key.prefix)?)
    };
    state.router.command(Verb::RibUnregister, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List strategy choices by prefix
#[utoipa::path(
    get, path = "/v1/strategies", tag = "strategies", operation_id = "list_strategies", params(ListRange),
    responses((status = 200, body = Vec<StrategyChoice>), (status = 400, body = Problem))
)]
pub async fn strategies(
    Shared(state): Shared<State>,
    Query(range): Query<ListRange>,
) -> Result<Json<Vec<StrategyChoice>>, ApiError> {
    let (after, limit) = range.read()?;
    Ok(Json(state.router.strategies(after, limit).await?))
}

/// Choose the strategy of a prefix
#[utoipa::path(
    put, path = "/v1/strategies", tag = "strategies", operation_id = "set_strategy", request_body = StrategyWanted,
    responses(
        (status = 200, body = StrategyChoice, description = "The choice after the change"),
        (status = 404, body = Problem, description = "There is no such strategy"),
        (status = 409, body = Problem, description = "The strategy does not have these parameters")
    )
)]
pub async fn choose(
    Shared(state): Shared<State>,
    Body(request): Body<StrategyWanted>,
) -> Result<Json<StrategyChoice>, ApiError> {
    let strategy = match request.strategy.starts_with('/') {
        true => parse_name(&request.strategy)?,
        false => parse_name(&format!("/localhost/nfd/strategy/{}", request.strategy))?,
    };
    let parameters = ControlParameters {
        strategy: Some(Strategy(strategy.clone())),
        ..ControlParameters::of(parse_name(&request.prefix)?)
    };
    let result = state.router.command(Verb::StrategyChoiceSet, parameters).await?;
    let strategy = result.strategy.unwrap_or(Strategy(strategy));
    Ok(Json(StrategyChoice { name: result.name.unwrap_or_default(), strategy }))
}

/// Remove the strategy choice of a prefix
///
/// The prefix then has the strategy of the next shorter prefix with a choice.
#[utoipa::path(
    delete, path = "/v1/strategies", tag = "strategies", operation_id = "unset_strategy", params(Prefix),
    responses((status = 204), (status = 404, body = Problem, description = "No strategy was chosen for this prefix"))
)]
pub async fn unset(
    Shared(state): Shared<State>,
    Query(key): Query<Prefix>,
) -> Result<StatusCode, ApiError> {
    let parameters = ControlParameters::of(parse_name(&key.prefix)?);
    state.router.command(Verb::StrategyChoiceUnset, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}
