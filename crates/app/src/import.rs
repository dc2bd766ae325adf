//! Many routes at once: batches of a few hundred, several on their way.

use crate::client::{Client, ClientError, plain_token};
use crate::control::{Commander, ControlError, uniqueness};
use core::time::Duration;
use nw_api::management::client::{self as message, IMPORT_LEN_MAX};
use nw_api::management::{ControlParameters, ControlResponse};
use nw_element_api::{Kind, LinkFields};
use nw_name::Name;
use nw_wire::{Data, DigestSha256, Interest};
use std::collections::HashMap;

/// Batches on their way.
const WINDOW: usize = 16;
/// A batch that is not answered for so long is given up: each is answered when all of it is in effect.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why an import ended.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The router can't be talked to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It refused a route; those before it in the same batch are registered, those behind are not, other batches are.
    #[error("route {index}: {} {}", response.code, response.text)]
    Refused {
        /// Which route, from 0 on.
        index: u64,
        /// Why.
        response: Box<ControlResponse>,
    },
    /// It has no such command, or does not answer.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Registers routes: what `rib/register` takes for each. Gives how many.
///
/// # Errors
/// The first that was seen; routes that were registered stay.
pub fn import(
    client: &mut Client,
    routes: impl IntoIterator<Item = ControlParameters>,
) -> Result<u64, ImportError> {
    import_by(client, Commander::default(), routes)
}

/// As [`import`], by somebody who signs. Only a router of this machine takes batches.
///
/// # Errors
/// As [`import`].
pub fn import_by(
    client: &mut Client,
    commander: Commander<'_>,
    routes: impl IntoIterator<Item = ControlParameters>,
) -> Result<u64, ImportError> {
    let mut routes = routes.into_iter().peekable();
    let (mut next, mut done) = (0u64, 0u64);
    // Where each batch on its way begins, and when it was sent.
    let mut open: HashMap<Name, (u64, nw_element_api::Instant)> = HashMap::new();
    let mut batch = Vec::new();
    let mut refused: Option<(u64, ControlResponse)> = None;
    loop {
        while open.len() < WINDOW && refused.is_none() && routes.peek().is_some() {
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
            let (lifetime_ms, unique) = (PATIENCE.as_millis() as u64, uniqueness(client));
            let wire = match commander.by {
                Some(by) => {
                    message::import(&batch, lifetime_ms, unique, &by.key).map_err(ControlError::from)?
                }
                None => {
                    let Ok(wire) = message::import(&batch, lifetime_ms, unique, &DigestSha256);
                    wire
                }
            };
            if let Ok(interest) = Interest::check(&wire) {
                open.insert(interest.name().to_name(), (first, client.now()));
            }
            client.send_with(&wire, LinkFields { token: plain_token(), ..LinkFields::default() });
        }
        if open.is_empty() {
            break;
        }
        let mut answers = Vec::new();
        client.turn(Some(Duration::from_secs(1)), |_, received, out| {
            if received.kind() == Kind::Interest {
                commander.serve(&received, out);
            } else if let Some((first, _)) = open.remove(received.name().as_bytes()) {
                answers.push((first, answer(received.kind(), received.wire)));
            }
        })?;
        for (first, response) in answers {
            let count = response.body.count.unwrap_or(0);
            done += count;
            let index = first + count;
            if !response.is_ok() && refused.as_ref().is_none_or(|(other, _)| index < *other) {
                refused = Some((index, response));
            }
        }
        let now = client.now();
        if open.values().any(|(_, sent)| now.since(*sent) > PATIENCE) {
            return Err(ControlError::Silence("rib/import".to_owned()).into());
        }
    }
    match refused {
        Some((index, response)) => Err(ImportError::Refused { index, response: Box::new(response) }),
        None => Ok(done),
    }
}

fn answer(kind: Kind, wire: &[u8]) -> ControlResponse {
    let unreadable = || ControlResponse::refuse(502, "the answer can't be read");
    match kind {
        Kind::Data => Data::check(wire)
            .ok()
            .and_then(|data| ControlResponse::decode(data.content()).ok())
            .unwrap_or_else(unreadable),
        _ => ControlResponse::refuse(501, "this router takes no batches of routes"),
    }
}
