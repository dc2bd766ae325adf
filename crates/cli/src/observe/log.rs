//! `nw log`: shows and changes log levels over the control socket.

use super::LogCommand;
use super::http::{Method, request_json};
use crate::output::json_line;
use anyhow::Result;
use nw_api::rest::LogLevels;
use std::process::ExitCode;

pub fn log(action: &LogCommand) -> Result<ExitCode> {
    let (levels, json): (LogLevels, bool) = match action {
        LogCommand::Show { control, json } => {
            (request_json(&control.address()?, Method::Get, "/v1/log", None)?, *json)
        }
        LogCommand::Set { filter, control, json } => {
            let content = serde_json::to_value(LogLevels { filter: filter.clone() })?;
            (request_json(&control.address()?, Method::Put, "/v1/log", Some(&content))?, *json)
        }
    };
    match json {
        true => json_line(&levels)?,
        false => outln!("{}", levels.filter)?,
    }
    Ok(ExitCode::SUCCESS)
}
