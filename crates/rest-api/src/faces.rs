//! `/v1/faces`.

use crate::State;
use crate::asker::Refused;
use crate::dataset::list_len;
use crate::extract::{Body, Query, Segment, within};
use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use nw_api::management::{ControlParameters, FacePersistency, FaceStatus, Verb};
use nw_api::rest::{FaceWanted, Problem};
use nw_router::inside::{Answer, Question};
use serde::Deserialize;
use utoipa::IntoParams;

/// Which part of a list of faces.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Only those listed behind this face.
    after: Option<u64>,
    /// At most so many.
    #[param(minimum = 1, maximum = 100_000)]
    limit: Option<u64>,
}

/// All faces, with their counters
#[utoipa::path(
    get, path = "/v1/faces", tag = "faces", operation_id = "list_faces", params(Part),
    responses((status = 200, body = Vec<FaceStatus>), (status = 503, body = Problem))
)]
pub async fn list(
    Shared(state): Shared<State>,
    Query(part): Query<Part>,
) -> Result<Json<Vec<FaceStatus>>, Refused> {
    Ok(Json(state.asker.faces(part.after, list_len(part.limit)?).await?))
}

/// One face
#[utoipa::path(
    get, path = "/v1/faces/{id}", tag = "faces", operation_id = "show_face",
    params(("id" = u64, Path, description = "The face's id", minimum = 1)),
    responses((status = 200, body = FaceStatus), (status = 404, body = Problem))
)]
pub async fn show(
    Shared(state): Shared<State>,
    Segment(id): Segment<u64>,
) -> Result<Json<FaceStatus>, Refused> {
    let id = within("the face's id", id, 1..=u64::MAX)?;
    match state.asker.ask(Question::Face(id)).await? {
        Answer::Face(Some(face)) => Ok(Json(*face)),
        _ => Err(Refused::new(404, format!("there is no face {id}"))),
    }
}

/// Make a face
///
/// A face that connects is answered when it is connected.
#[utoipa::path(
    post, path = "/v1/faces", tag = "faces", operation_id = "create_face", request_body = FaceWanted,
    responses(
        (status = 201, body = FaceStatus, description = "The face, as it was made"),
        (status = 409, body = Problem, description = "There is a face to this peer, or this router can't make such a face"),
        (status = 504, body = Problem, description = "The peer can't be reached, or does not accept")
    )
)]
pub async fn create(
    Shared(state): Shared<State>,
    Body(wanted): Body<FaceWanted>,
) -> Result<(StatusCode, Json<FaceStatus>), Refused> {
    let parameters = ControlParameters {
        uri: Some(wanted.uri),
        local_uri: wanted.local_uri,
        face_persistency: wanted.persistency.map(|persistency| FacePersistency::from(persistency).number()),
        mtu: wanted.mtu,
        ..ControlParameters::default()
    };
    let made = state.asker.command(Verb::FacesCreate, parameters).await?;
    match state.asker.ask(Question::Face(made.face_id.unwrap_or(0))).await? {
        Answer::Face(Some(face)) => Ok((StatusCode::CREATED, Json(*face))),
        _ => Err(Refused::new(504, "the face went away as soon as it was there")),
    }
}

/// End a face
///
/// Its routes go with it.
#[utoipa::path(
    delete, path = "/v1/faces/{id}", tag = "faces", operation_id = "destroy_face",
    params(("id" = u64, Path, description = "The face's id", minimum = 1)),
    responses(
        (status = 204), (status = 403, body = Problem, description = "The router's own faces stay"),
        (status = 404, body = Problem, description = "There is no such face")
    )
)]
pub async fn destroy(Shared(state): Shared<State>, Segment(id): Segment<u64>) -> Result<StatusCode, Refused> {
    let id = within("the face's id", id, 1..=u64::MAX)?;
    let parameters = ControlParameters { face_id: Some(id), ..ControlParameters::default() };
    state.asker.command(Verb::FacesDestroy, parameters).await?;
    Ok(StatusCode::NO_CONTENT)
}
