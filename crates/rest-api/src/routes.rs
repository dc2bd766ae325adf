//! `/v1/routes`, `/v1/fib`, `/v1/strategies`.

use crate::State;
use crate::asker::Refused;
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

/// Which part of a list of names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Only names behind this one, in canonical order.
    #[param(value_type = Option<NameText>, inline)]
    after: Option<String>,
    /// At most so many names.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<u64>,
}

impl Part {
    fn read(self) -> Result<(Option<Name>, usize), Refused> {
        let after = self.after.as_deref().map(name).transpose()?;
        Ok((after, list_len(self.limit)?))
    }
}

/// Which route.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Its prefix.
    #[param(value_type = NameText, inline)]
    prefix: String,
    /// Its face.
    #[param(minimum = 1)]
    face_id: u64,
    /// Its origin; static when not given.
    #[param(value_type = Option<OriginText>, inline)]
    origin: Option<String>,
}

/// Which prefix.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Prefix {
    /// The prefix. The strategy of / can be set, not unset.
    #[param(value_type = NamedPrefixText, inline)]
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
    get, path = "/v1/routes", tag = "routes", operation_id = "list_routes", params(Part),
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
    get, path = "/v1/fib", tag = "routes", operation_id = "list_fib", params(Part),
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
    put, path = "/v1/routes", tag = "routes", operation_id = "add_route", request_body = RouteWanted,
    responses(
        (status = 200, body = RouteMade, description = "The route, as it is now"),
        (status = 403, body = Problem, description = "The prefix is the router's own"),
        (status = 404, body = Problem, description = "There is no such face")
    )
)]
pub async fn add(
    Shared(state): Shared<State>,
    Body(wanted): Body<RouteWanted>,
) -> Result<Json<RouteMade>, Refused> {
    let bit = |yes: bool, flag: u64| if yes { flag } else { 0 };
    let parameters = ControlParameters {
        face_id: Some(at_least_one("face_id", wanted.face_id)?),
        cost: Some(wanted.cost),
        origin: Some(origin_number(wanted.origin.as_deref())?),
        flags: Some(bit(!wanted.no_inherit, flags::CHILD_INHERIT) | bit(wanted.capture, flags::CAPTURE)),
        expiration_period: wanted.expires_ms,
        ..ControlParameters::of(name(&wanted.prefix)?)
    };
    let made = state.asker.command(Verb::RibRegister, parameters).await?;
    Ok(Json(RouteMade {
        name: made.name.unwrap_or_default().to_string(),
        route: Route {
            face_id: made.face_id.unwrap_or(0),
            origin: made.origin.unwrap_or(0),
            cost: made.cost.unwrap_or(0),
            flags: made.flags.unwrap_or(0),
            expiration_period: made.expiration_period,
        },
    }))
}

/// Remove a route
#[utoipa::path(
    delete, path = "/v1/routes", tag = "routes", operation_id = "remove_route", params(Which),
    responses((status = 204), (status = 404, body = Problem, description = "There is no such route"))
)]
pub async fn remove(Shared(state): Shared<State>, Query(which): Query<Which>) -> Result<StatusCode, Refused> {
    let parameters = ControlParameters {
        face_id: Some(within("face_id", which.face_id, 1..=u64::MAX)?),
        origin: Some(origin_number(which.origin.as_deref())?),
        ..ControlParameters::of(name(&which.prefix)?)
    };
    state.asker.command(Verb::RibUnregister, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Strategies chosen, by prefix
#[utoipa::path(
    get, path = "/v1/strategies", tag = "strategies", operation_id = "list_strategies", params(Part),
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
    put, path = "/v1/strategies", tag = "strategies", operation_id = "set_strategy", request_body = StrategyWanted,
    responses(
        (status = 200, body = StrategyChoice, description = "The choice, as it is now"),
        (status = 404, body = Problem, description = "There is no such strategy"),
        (status = 409, body = Problem, description = "The strategy does not take these parameters")
    )
)]
pub async fn choose(
    Shared(state): Shared<State>,
    Body(wanted): Body<StrategyWanted>,
) -> Result<Json<StrategyChoice>, Refused> {
    let strategy = match wanted.strategy.starts_with('/') {
        true => name(&wanted.strategy)?,
        false => name(&format!("/localhost/nfd/strategy/{}", wanted.strategy))?,
    };
    let parameters = ControlParameters {
        strategy: Some(Strategy(strategy.clone())),
        ..ControlParameters::of(name(&wanted.prefix)?)
    };
    let made = state.asker.command(Verb::StrategyChoiceSet, parameters).await?;
    let strategy = made.strategy.unwrap_or(Strategy(strategy));
    Ok(Json(StrategyChoice { name: made.name.unwrap_or_default(), strategy }))
}

/// Leave a prefix' strategy to shorter prefixes
#[utoipa::path(
    delete, path = "/v1/strategies", tag = "strategies", operation_id = "unset_strategy", params(Prefix),
    responses((status = 204), (status = 404, body = Problem, description = "No strategy was chosen for this prefix"))
)]
pub async fn unset(Shared(state): Shared<State>, Query(which): Query<Prefix>) -> Result<StatusCode, Refused> {
    let parameters = ControlParameters::of(name(&which.prefix)?);
    state.asker.command(Verb::StrategyChoiceUnset, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}
