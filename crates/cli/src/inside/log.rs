//! `nw log`.

use super::LogVerb;
use super::http::{Method, body};
use anyhow::Result;
use nw_api::rest::LogLevels;
use std::process::ExitCode;

pub fn log(verb: &LogVerb) -> Result<ExitCode> {
    let levels: LogLevels = match verb {
        LogVerb::Show { control } => body(&control.place()?, Method::Get, "/v1/log", None)?,
        LogVerb::Set { filter, control } => {
            let wanted = serde_json::to_value(LogLevels { filter: filter.clone() })?;
            body(&control.place()?, Method::Put, "/v1/log", Some(&wanted))?
        }
    };
    outln!("{}", levels.filter)?;
    Ok(ExitCode::SUCCESS)
}
