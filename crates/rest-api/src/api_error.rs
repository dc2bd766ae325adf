//! The error of every request: a code and a text, sent as the JSON object
//! [`Problem`](nw_api::rest::Problem).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nw_api::rest::Problem;
use nw_router::introspection::QueryError;

/// A request that failed, as the client receives it.
#[derive(Clone, Debug)]
pub struct ApiError(pub Problem);

impl ApiError {
    /// Creates an error from an HTTP status code and a text that says what helps.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        ApiError(Problem { code, text: text.into() })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status =
            u16::try_from(self.0.code).ok().and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0.clone())).into_response();
        // For layers around the handler, such as an audit.
        response.extensions_mut().insert(self);
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        ApiError::new(503, error.to_string())
    }
}
