//! `/v1/pubsub`: applications, items and trees of publish/subscribe, as `nw pubsub` shows them.

use crate::State;
use crate::api_error::ApiError;
use crate::extract::Query;
use axum::Json;
use axum::extract::State as Shared;
use nw_api::pubsub::status::{NameTrace, PubSubStatus};
use nw_api::rest::Problem;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use utoipa::IntoParams;

/// The publish/subscribe service of the program.
pub trait PubSubSource: Send + Sync {
    /// Returns the answer to a query as JSON: `status`, or `trace NAME`. May block.
    ///
    /// # Errors
    /// The text says why there is no answer.
    fn query(&self, topic: &str) -> Result<String, String>;
}

/// Which name is traced.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TraceQuery {
    /// Name of an item, such as `/site/temperature`.
    #[param(pattern = r"^/\S*$")]
    name: String,
}

async fn query<T: DeserializeOwned>(state: State, topic: String) -> Result<Json<T>, ApiError> {
    let Some(source) = state.pubsub.as_ref().map(Arc::clone) else {
        return Err(ApiError::new(
            409,
            "publish/subscribe does not run: set enabled in [pubsub], and start again",
        ));
    };
    let answer = tokio::task::spawn_blocking(move || source.query(&topic)).await;
    let text = answer.map_err(|_| ApiError::new(503, "the router is ending"))?;
    let text = text.map_err(|reason| ApiError::new(503, reason))?;
    let read = serde_json::from_str(&text);
    read.map(Json).map_err(|error| ApiError::new(400, format!("no answer to this: {error}")))
}

/// Show applications, items and other nodes of publish/subscribe
#[utoipa::path(
    get, path = "/v1/pubsub", tag = "publish/subscribe", operation_id = "show_pubsub",
    responses(
        (status = 200, body = PubSubStatus),
        (status = 409, body = Problem, description = "Publish/subscribe does not run"),
        (status = 503, body = Problem, description = "It does not answer")
    )
)]
pub async fn status(Shared(state): Shared<State>) -> Result<Json<PubSubStatus>, ApiError> {
    let Json(mut status) = query::<PubSubStatus>(state, "status".to_owned()).await?;
    // The connection of this request.
    let own = std::process::id();
    status.applications.retain(|application| application.pid != own);
    Ok(Json(status))
}

/// Show publishers, subscribers and trees of a name
#[utoipa::path(
    get, path = "/v1/pubsub/trace", tag = "publish/subscribe", operation_id = "trace_pubsub", params(TraceQuery),
    responses(
        (status = 200, body = NameTrace),
        (status = 400, body = Problem, description = "It is not the name of an item"),
        (status = 409, body = Problem, description = "Publish/subscribe does not run"),
        (status = 503, body = Problem, description = "It does not answer")
    )
)]
pub async fn trace(
    Shared(state): Shared<State>,
    Query(wanted): Query<TraceQuery>,
) -> Result<Json<NameTrace>, ApiError> {
    if !wanted.name.starts_with('/') || wanted.name.chars().any(char::is_whitespace) {
        return Err(ApiError::new(400, "a name begins with / and has no white space"));
    }
    query(state, format!("trace {}", wanted.name)).await
}
