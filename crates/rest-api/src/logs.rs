//! `/v1/log`: shows and sets the log levels of a running router.

use crate::State;
use crate::api_error::ApiError;
use crate::extract::Body;
use axum::Json;
use axum::extract::State as Shared;
use nw_api::rest::{LogLevels, LogLine, Problem};

/// The log filter of the program.
pub trait LogSwitch: Send + Sync {
    /// Returns the current filter.
    fn filter(&self) -> String;

    /// Replaces the filter.
    ///
    /// # Errors
    /// The text says what is wrong with the filter.
    fn set(&self, filter: &str) -> Result<(), String>;

    /// Returns the kept lines of the log after the one with this number, oldest first.
    fn lines(&self, after: u64) -> Vec<LogLine>;
}

/// Show the log levels
#[utoipa::path(get, path = "/v1/log", tag = "log", operation_id = "show_log_levels", responses((status = 200, body = LogLevels)))]
pub async fn shown(Shared(state): Shared<State>) -> Json<LogLevels> {
    Json(LogLevels { filter: state.logs.filter() })
}

/// Set the log levels
///
/// They apply until the router stops or reloads its configuration.
#[utoipa::path(
    put, path = "/v1/log", tag = "log", operation_id = "set_log_levels", request_body = LogLevels,
    responses((status = 200, body = LogLevels), (status = 400, body = Problem))
)]
pub async fn set(
    Shared(state): Shared<State>,
    Body(levels): Body<LogLevels>,
) -> Result<Json<LogLevels>, ApiError> {
    if levels.filter.trim_matches([' ', ',']).is_empty() {
        return Err(ApiError::new(
            400,
            "the filter is empty: a level such as info, or levels of parts such as router=debug",
        ));
    }
    state.logs.set(&levels.filter).map_err(|reason| ApiError::new(400, reason))?;
    Ok(Json(LogLevels { filter: state.logs.filter() }))
}
