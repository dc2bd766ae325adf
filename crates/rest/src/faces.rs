//! `/v1/faces`.

use crate::State;
use crate::asker::Refused;
use crate::dataset::LIST_MAX;
use crate::openapi::{Body, Query};
use axum::Json;
use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use nw_api::management::{ControlParameters, FaceStatus, Verb};
use nw_api::rest::{FaceWanted, Problem};
use nw_router::inside::{Answer, Question};
use serde::Deserialize;
use utoipa::IntoParams;

/// Which part of a list of faces.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Part {
    /// Only those listed behind this face.
    after: Option<u64>,
    /// At most so many.
    limit: Option<usize>,
}

/// All faces, with their counters
#[utoipa::path(
    get, path = "/v1/faces", tag = "faces", params(Part),
    responses((status = 200, body = Vec<FaceStatus>), (status = 503, body = Problem))
)]
pub async fn list(
    Shared(state): Shared<State>,
    Query(part): Query<Part>,
) -> Result<Json<Vec<FaceStatus>>, Refused> {
    let limit = part.limit.unwrap_or(LIST_MAX).min(LIST_MAX);
    Ok(Json(state.asker.faces(part.after, limit).await?))
}

/// One face
#[utoipa::path(
    get, path = "/v1/faces/{id}", tag = "faces", params(("id" = u64, Path, description = "The face's id")),
    responses((status = 200, body = FaceStatus), (status = 404, body = Problem))
)]
pub async fn show(Shared(state): Shared<State>, Path(id): Path<u64>) -> Result<Json<FaceStatus>, Refused> {
    match state.asker.ask(Question::Face(id)).await? {
        Answer::Face(Some(face)) => Ok(Json(*face)),
        _ => Err(Refused::new(404, format!("there is no face {id}"))),
    }
}

/// Make a face
///
/// 409 when there is one to this peer already.
#[utoipa::path(
    post, path = "/v1/faces", tag = "faces", request_body = FaceWanted,
    responses(
        (status = 201, body = ControlParameters), (status = 400, body = Problem), (status = 406, body = Problem),
        (status = 409, body = Problem), (status = 504, body = Problem)
    )
)]
pub async fn create(
    Shared(state): Shared<State>,
    Body(wanted): Body<FaceWanted>,
) -> Result<(StatusCode, Json<ControlParameters>), Refused> {
    let parameters = ControlParameters {
        uri: Some(wanted.uri),
        local_uri: wanted.local_uri,
        face_persistency: wanted.persistency.map(|persistency| persistency.number()),
        mtu: wanted.mtu,
        ..ControlParameters::default()
    };
    let made = state.asker.command(Verb::FacesCreate, parameters).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// End a face
///
/// Its routes go with it.
#[utoipa::path(
    delete, path = "/v1/faces/{id}", tag = "faces", params(("id" = u64, Path, description = "The face's id")),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem))
)]
pub async fn destroy(Shared(state): Shared<State>, Path(id): Path<u64>) -> Result<StatusCode, Refused> {
    let parameters = ControlParameters { face_id: Some(id), ..ControlParameters::default() };
    state.asker.command(Verb::FacesDestroy, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}
