//! Registration of many routes: batches of a few hundred, several in flight.

use crate::client::{Client, ClientError, plain_token};
use crate::control::{Commander, ControlError, uniqueness};
use core::time::Duration;
use nw_api::management::client::{self as message, IMPORT_LEN_MAX};
use nw_api::management::{ControlParameters, ControlResponse};
use nw_element_api::{Kind, LinkFields};
use nw_name::Name;
use nw_wire::{Data, DigestSha256, Interest};
use std::collections::HashMap;

/// Maximum number of batches in flight.
const WINDOW: usize = 16;
/// Longest wait for a reply to a batch, which is sent when all of it is in effect.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Reasons why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The connection to the router failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The router refused a route. Earlier routes of the same batch are registered, later ones are
    /// not; other batches are.
    #[error("route {index}: {} {}", response.code, response.text)]
    Refused {
        /// Index of the route, from 0.
        index: u64,
        /// Reply of the router.
        response: Box<ControlResponse>,
    },
    /// The command is not supported, or there was no reply.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Registers routes, each given as the parameters of `rib/register`. Returns their number.
///
/// # Errors
/// The first error; registered routes stay.
pub fn import(
    client: &mut Client,
    routes: impl IntoIterator<Item = ControlParameters>,
) -> Result<u64, ImportError> {
    import_by(client, Commander::default(), routes)
}

/// Like [`import`], with signed commands. Only a local router accepts batches.
///
/// # Errors
/// As for [`import`].
pub fn import_by(
    client: &mut Client,
    commander: Commander<'_>,
    routes: impl IntoIterator<Item = ControlParameters>,
) -> Result<u64, ImportError> {
    let mut routes = routes.into_iter().peekable();
    let (mut next, mut registered) = (0u64, 0u64);
    // Batches in flight: index of the first route, time sent.
    let mut pending: HashMap<Name, (u64, nw_element_api::Timestamp)> = HashMap::new();
    let mut batch = Vec::new();
    let mut first_error: Option<(u64, ControlResponse)> = None;
    loop {
        while pending.len() < WINDOW && first_error.is_none() && routes.peek().is_some() {
            let first = next;
            batch.clear();
            while let Some(route) = routes.peek().map(ControlParameters::encode) {
                if !batch.is_empty() && batch.len() + route.len() > IMPORT_LEN_MAX {
                    break;
                }
                batch.extend_from_slice(&route);
                routes.next();
                next += 1;
            }
            let (lifetime_ms, unique) = (BATCH_TIMEOUT.as_millis() as u64, uniqueness(client));
            let wire = match commander.credentials {
                Some(credentials) => message::import(&batch, lifetime_ms, unique, &credentials.key)
                    .map_err(ControlError::from)?,
                None => {
                    let Ok(wire) = message::import(&batch, lifetime_ms, unique, &DigestSha256);
                    wire
                }
            };
            if let Ok(interest) = Interest::check(&wire) {
                pending.insert(interest.name().to_name(), (first, client.now()));
            }
            client.send_with(&wire, LinkFields { token: plain_token(), ..LinkFields::default() });
        }
        if pending.is_empty() {
            break;
        }
        let mut answers = Vec::new();
        client.poll(Some(Duration::from_secs(1)), |_, received, out| {
            if received.kind() == Kind::Interest {
                commander.serve(&received, out);
            } else if let Some((first, _)) = pending.remove(received.name().as_bytes()) {
                answers.push((first, decode_answer(received.kind(), received.wire)));
            }
        })?;
        for (first, response) in answers {
            let count = response.body.count.unwrap_or(0);
            registered += count;
            let index = first + count;
            if !response.is_ok() && first_error.as_ref().is_none_or(|(earlier, _)| index < *earlier)
            {
                first_error = Some((index, response));
            }
        }
        let now = client.now();
        if pending.values().any(|(_, sent)| now.since(*sent) > BATCH_TIMEOUT) {
            return Err(ControlError::Timeout("rib/import".to_owned()).into());
        }
    }
    match first_error {
        Some((index, response)) => {
            Err(ImportError::Refused { index, response: Box::new(response) })
        }
        None => Ok(registered),
    }
}

fn decode_answer(kind: Kind, wire: &[u8]) -> ControlResponse {
    let unreadable = || ControlResponse::refuse(502, "the answer can't be decoded");
    match kind {
        Kind::Data => Data::check(wire)
            .ok()
            .and_then(|data| ControlResponse::decode(data.content()).ok())
            .unwrap_or_else(unreadable),
        _ => ControlResponse::refuse(501, "this router does not support batches of routes"),
    }
}
