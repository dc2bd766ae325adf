//! Handlers of what persons set beside the document: keys, rules, routes, and tokens of users.

use super::{Shared, blocking};
use crate::access::Caller;
use crate::run::Handle;
use axum::Extension;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use nw_api::network_access::{
    KeyAddition, KeyRuleText, NetworkTrust, NewToken, PersonRoute, TokenRequest, UserToken,
};
use nw_api::rest::Problem;
use nw_rest_api::{ApiError, Body, Query, Segment};
use serde::Deserialize;
use utoipa::IntoParams;

/// Add a route that leads out of the network, or change its cost
///
/// All other name routers of the network get routes to it.
#[utoipa::path(
    post, path = "/v1/routes", tag = "map", operation_id = "add_route", request_body = PersonRoute,
    responses((status = 204), (status = 400, body = Problem, description = "The route does not fit the document"), (status = 404, body = Problem))
)]
pub(super) async fn add_route(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(route): Body<PersonRoute>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.add_route(&route, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a route that a person has added
#[utoipa::path(
    post, path = "/v1/routes/remove", tag = "map", operation_id = "remove_route", request_body = PersonRoute,
    responses((status = 204), (status = 404, body = Problem))
)]
pub(super) async fn remove_route(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(route): Body<PersonRoute>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.remove_route(&route, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What verifiers and registration ports trust
#[utoipa::path(get, path = "/v1/keys", tag = "access", operation_id = "list_keys", responses((status = 200, body = NetworkTrust)))]
pub(super) async fn list_keys(
    State(shared): State<Shared>,
) -> Result<Json<NetworkTrust>, ApiError> {
    Ok(Json(blocking(&shared, |handle| Ok(handle.trust())).await?))
}

/// Add an anchor or a certificate
///
/// It is given to all signature verifiers, and to all name routers that take registrations.
#[utoipa::path(
    post, path = "/v1/keys", tag = "access", operation_id = "add_key", request_body = KeyAddition,
    responses((status = 204), (status = 400, body = Problem, description = "It is no certificate, or there are too many"))
)]
pub(super) async fn add_key(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(key): Body<KeyAddition>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.add_key(&key, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A key by its name.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyQuery {
    /// Name of the certificate.
    name: String,
}

/// Remove an anchor or a certificate that a person has added
#[utoipa::path(
    delete, path = "/v1/keys/certificate", tag = "access", operation_id = "remove_key", params(KeyQuery),
    responses((status = 204), (status = 404, body = Problem))
)]
pub(super) async fn remove_key(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<KeyQuery>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.remove_key(&query.name, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Add a rule: which keys may sign and register which names
#[utoipa::path(
    post, path = "/v1/key-rules", tag = "access", operation_id = "add_key_rule", request_body = KeyRuleText,
    responses((status = 204), (status = 400, body = Problem, description = "A pattern is wrong"))
)]
pub(super) async fn add_key_rule(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(rule): Body<KeyRuleText>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.add_key_rule(&rule, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove a rule that a person has added
#[utoipa::path(
    post, path = "/v1/key-rules/remove", tag = "access", operation_id = "remove_key_rule", request_body = KeyRuleText,
    responses((status = 204), (status = 404, body = Problem))
)]
pub(super) async fn remove_key_rule(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(rule): Body<KeyRuleText>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.remove_key_rule(&rule, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tokens of users, without their texts
#[utoipa::path(get, path = "/v1/tokens", tag = "access", operation_id = "list_tokens", responses((status = 200, body = Vec<UserToken>)))]
pub(super) async fn list_tokens(
    State(shared): State<Shared>,
) -> Result<Json<Vec<UserToken>>, ApiError> {
    Ok(Json(blocking(&shared, Handle::tokens).await?))
}

/// Make a token for a user
#[utoipa::path(
    post, path = "/v1/tokens", tag = "access", operation_id = "add_token", request_body = TokenRequest,
    responses((status = 201, body = NewToken), (status = 400, body = Problem, description = "The name or the time can't be used"))
)]
pub(super) async fn add_token(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<TokenRequest>,
) -> Result<(StatusCode, Json<NewToken>), ApiError> {
    let token = blocking(&shared, move |handle| handle.add_token(&request, &caller.author()));
    Ok((StatusCode::CREATED, Json(token.await?)))
}

/// End the rights of a token
#[utoipa::path(
    delete, path = "/v1/tokens/{name}", tag = "access", operation_id = "remove_token", params(("name" = String, Path, description = "Name of the token")),
    responses((status = 204), (status = 404, body = Problem))
)]
pub(super) async fn remove_token(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    Segment(name): Segment<String>,
) -> Result<StatusCode, ApiError> {
    blocking(&shared, move |handle| handle.remove_token(&name, &caller.author())).await?;
    Ok(StatusCode::NO_CONTENT)
}
