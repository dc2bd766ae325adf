//! `/v1/faces`: list, create and destroy faces.

use crate::State;
use crate::api_error::ApiError;
use crate::dataset::list_len;
use crate::extract::{Body, Query, Segment, within};
use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use nw_api::management::{ControlParameters, FacePersistency, FaceStatus, Verb};
use nw_api::rest::{FaceWanted, Problem};
use nw_router::introspection::{Query as RouterQuery, QueryReply};
use serde::Deserialize;
use utoipa::IntoParams;

/// Selects a part of the list of faces.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListRange {
    /// Only faces after the one with this id.
    after: Option<u64>,
    /// Longest list to return.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<u64>,
}

/// List all faces with their counters
#[utoipa::path(
    get, path = "/v1/faces", tag = "faces", operation_id = "list_faces", params(ListRange),
    responses((status = 200, body = Vec<FaceStatus>), (status = 503, body = Problem))
)]
pub async fn list(
    Shared(state): Shared<State>,
    Query(range): Query<ListRange>,
) -> Result<Json<Vec<FaceStatus>>, ApiError> {
    Ok(Json(state.router.faces(range.after, list_len(range.limit)?).await?))
}

/// Show one face
#[utoipa::path(
    get, path = "/v1/faces/{id}", tag = "faces", operation_id = "show_face",
    params(("id" = u64, Path, description = "The face's id", minimum = 1)),
    responses((status = 200, body = FaceStatus), (status = 404, body = Problem))
)]
pub async fn show(
    Shared(state): Shared<State>,
    Segment(id): Segment<u64>,
) -> Result<Json<FaceStatus>, ApiError> {
    let id = within("the face's id", id, 1..=u64::MAX)?;
    match state.router.query(RouterQuery::Face(id)).await? {
        QueryReply::Face(Some(face)) => Ok(Json(*face)),
        _ => Err(ApiError::new(404, format!("there is no face {id}"))),
    }
}

/// Create a face
///
/// The response is sent when the face is connected, or has failed.
#[utoipa::path(
    post, path = "/v1/faces", tag = "faces", operation_id = "create_face", request_body = FaceWanted,
    responses(
        (status = 201, body = FaceStatus, description = "The face that was created"),
        (status = 409, body = Problem,
            description = "A face to this peer exists, or the router does not support such a face"),
        (status = 504, body = Problem, description = "The peer is unreachable or refuses the connection")
    )
)]
pub async fn create(
    Shared(state): Shared<State>,
    Body(request): Body<FaceWanted>,
) -> Result<(StatusCode, Json<FaceStatus>), ApiError> {
    let parameters = ControlParameters {
        uri: Some(request.uri),
        local_uri: request.local_uri,
        face_persistency: request
            .persistency
            .map(|persistency| FacePersistency::from(persistency).number()),
        mtu: request.mtu,
        ..ControlParameters::default()
    };
    let created = state.router.command(Verb::FacesCreate, parameters).await?;
    match state.router.query(RouterQuery::Face(created.face_id.unwrap_or(0))).await? {
        QueryReply::Face(Some(face)) => Ok((StatusCode::CREATED, Json(*face))),
        _ => Err(ApiError::new(504, "the face was closed right after it was created")),
    }
}

/// Close a face
///
/// Its routes are removed.
#[utoipa::path(
    delete, path = "/v1/faces/{id}", tag = "faces", operation_id = "destroy_face",
    params(("id" = u64, Path, description = "The face's id", minimum = 1)),
    responses(
        (status = 204), (status = 403, body = Problem, description = "The router's own faces can't be closed"),
        (status = 404, body = Problem, description = "There is no such face")
    )
)]
pub async fn destroy(
    Shared(state): Shared<State>,
    Segment(id): Segment<u64>,
) -> Result<StatusCode, ApiError> {
    let id = within("the face's id", id, 1..=u64::MAX)?;
    let parameters = ControlParameters { face_id: Some(id), ..ControlParameters::default() };
    state.router.command(Verb::FacesDestroy, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}
