//! Requests to the router's management, shared by the commands `nw face`, `nw route`, `nw
//! strategy`, `nw cs` and `nw status`.

use crate::args::flags::{CommandArgs, QueryArgs, RouterArgs};
use crate::connect::{connect, uri};
use crate::exit::{Failure, Status as ExitStatus};
use crate::output::json_line;
use crate::render::{self, FlagNames};
use crate::signing::connect_signed;
use anyhow::{Context, Result};
use nw_api::management::client::{Item, decode_items};
use nw_api::management::{ControlParameters, Dataset, FaceQueryFilter, Verb};
use nw_app::control::{ControlError, dataset};
use nw_app::{Client, FaceUri};
use serde_json::Value;
use std::process::ExitCode;

pub(crate) type CommandResult = Result<ExitCode>;

/// Sends a command and prints the outcome: the answer as JSON, or the text that `describe` returns.
///
/// `flag_names`: names of the flag bits in the answer.
pub(crate) fn send_command(
    args: &CommandArgs,
    verb: Verb,
    parameters: &ControlParameters,
    flag_names: FlagNames,
    describe: impl FnOnce(&ControlParameters) -> String,
) -> CommandResult {
    let mut router = connect_signed(args)?;
    let (client, commander) = router.parts();
    let answer = commander.command(client, verb, parameters)?;
    print_outcome(&args.query, render::answer(&answer, flag_names), || describe(&answer))
}

/// Prints the outcome of a command as JSON or text, as the options say.
pub(crate) fn print_outcome(
    args: &QueryArgs,
    json: Value,
    text: impl FnOnce() -> String,
) -> CommandResult {
    if args.json {
        json_line(&json)?;
    } else {
        outln!("{}", text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fetches a dataset and returns its records.
pub(crate) fn fetch_records<T: Item>(
    client: &mut Client,
    which: Dataset,
    filter: Option<&FaceQueryFilter>,
) -> Result<Vec<T>> {
    Ok(decode_items(&dataset(client, which, filter)?)?)
}

/// Connects to the router, fetches a dataset and returns its records.
pub(crate) fn connect_and_fetch<T: Item>(args: &QueryArgs, which: Dataset) -> Result<Vec<T>> {
    let mut client = connect(&args.router)?;
    let content = fetch_dataset(&mut client, &args.router, which)?;
    Ok(decode_items(&content)?)
}

/// Fetches the content of a dataset. If a remote router does not answer, the error explains why.
pub(crate) fn fetch_dataset(
    client: &mut Client,
    router: &RouterArgs,
    which: Dataset,
) -> Result<Vec<u8>> {
    match dataset(client, which, None) {
        Err(error @ (ControlError::Timeout(_) | ControlError::Nack { .. })) => {
            let uri = uri(router)?;
            match is_local(&uri) {
                true => Err(error.into()),
                false => Err(error).context(Failure::new(
                    ExitStatus::TimedOut,
                    format!(
                        "a router can't be managed over {uri}: it answers only programs on its own \
                         machine, over its unix socket or TCP on loopback"
                    ),
                )),
            }
        }
        result => Ok(result?),
    }
}

/// Returns whether a router accepts management requests over this face.
fn is_local(uri: &FaceUri) -> bool {
    match uri {
        FaceUri::Unix(_) | FaceUri::Shm(_) => true,
        FaceUri::Tcp(address) | FaceUri::Ws(address) => address.ip().to_canonical().is_loopback(),
        _ => false,
    }
}
