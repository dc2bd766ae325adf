//! `nw log`.

use super::LogVerb;
use super::http::{Method, body};
use crate::output::json_line;
use anyhow::Result;
use nw_api::rest::LogLevels;
use std::process::ExitCode;

pub fn log(verb: &LogVerb) -> Result<ExitCode> {
    let (levels, json): (LogLevels, bool) = match verb {
        LogVerb::Show { control, json } => (body(&control.place()?, Method::Get, "/v1/log", None)?, *json),
        LogVerb::Set { filter, control, json } => {
            let wanted = serde_json::to_value(LogLevels { filter: filter.clone() })?;
            (body(&control.place()?, Method::Put, "/v1/log", Some(&wanted))?, *json)
        }
    };
    match json {
        true => json_line(&levels)?,
        false => outln!("{}", levels.filter)?,
    }
    Ok(ExitCode::SUCCESS)
}
