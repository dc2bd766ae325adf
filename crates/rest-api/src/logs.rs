//! `/v1/log`: what is logged, changed in a running router.

use crate::State;
use crate::asker::Refused;
use crate::extract::Body;
use axum::Json;
use axum::extract::State as Shared;
use nw_api::rest::{LogLevels, Problem};

/// The program's log, as far as it can be changed.
pub trait LogSwitch: Send + Sync {
    /// What is logged now.
    fn filter(&self) -> String;

    /// Logs this from now on.
    ///
    /// # Errors
    /// When it is no filter: what is wrong, for people.
    fn set(&self, filter: &str) -> Result<(), String>;
}

/// What is logged
#[utoipa::path(get, path = "/v1/log", tag = "log", operation_id = "show_log_levels", responses((status = 200, body = LogLevels)))]
pub async fn shown(Shared(state): Shared<State>) -> Json<LogLevels> {
    Json(LogLevels { filter: state.logs.filter() })
}

/// Log something else
///
/// Until the router ends or reads its configuration again.
#[utoipa::path(
    put, path = "/v1/log", tag = "log", operation_id = "set_log_levels", request_body = LogLevels,
    responses((status = 200, body = LogLevels), (status = 400, body = Problem))
)]
pub async fn set(
    Shared(state): Shared<State>,
    Body(wanted): Body<LogLevels>,
) -> Result<Json<LogLevels>, Refused> {
    if wanted.filter.trim_matches([' ', ',']).is_empty() {
        return Err(Refused::new(
            400,
            "the filter is empty: a level such as info, or levels of parts such as router=debug",
        ));
    }
    state.logs.set(&wanted.filter).map_err(|why| Refused::new(400, why))?;
    Ok(Json(LogLevels { filter: state.logs.filter() }))
}
