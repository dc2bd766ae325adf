//! Telling a router what to do, and asking it how it is: the asking side of the NFD management protocol over a [`Client`].

use crate::client::{Client, ClientError};
use crate::object::{Reply, exchange, exchange_with, fresh_nonce};
use core::time::Duration;
use nw_api::management::client::{LIFETIME_MS, Progress, Reassembly, ReassemblyError, Uniqueness};
use nw_api::management::{
    ControlParameters, ControlResponse, Dataset, FaceQueryFilter, Root, Verb, client as message,
};
use nw_element::LinkFields;
use nw_name::Name;
use nw_wire::{Data, DigestSha256, InterestBuilder, NackReason, Token};
use std::time::{SystemTime, UNIX_EPOCH};

/// Why a router did not do or tell what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It can't be talked to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It said no.
    #[error("the router refused {verb}: {} {}", response.code, response.text)]
    Refused {
        /// What was asked.
        verb: Verb,
        /// Code, text and what it says besides.
        response: Box<ControlResponse>,
    },
    /// It did not answer in time.
    #[error("the router did not answer {0} within {LIFETIME_MS} ms")]
    Silence(String),
    /// It has no such thing, or is none of ours to ask.
    #[error("{what} was refused with Nack({})", reason.as_str())]
    Nack {
        /// What was asked.
        what: String,
        /// Why.
        reason: NackReason,
    },
    /// It answered something that can't be read.
    #[error("the answer to {what} can't be read: {error}")]
    Answer {
        /// What was asked.
        what: String,
        /// Why.
        error: nw_wire::Error,
    },
    /// A dataset that does not hold together.
    #[error("{what}: {error}")]
    Dataset {
        /// Which.
        what: String,
        /// Why.
        error: ReassemblyError,
    },
}

/// A router that tells more than this about one thing is not believed.
const DATASET_LEN_MAX: usize = 1 << 30;
const PATIENCE: Duration = Duration::from_millis(LIFETIME_MS);

/// What makes a command differ from any other.
pub fn uniqueness(client: &Client) -> Uniqueness {
    let mut signature_nonce = [0; 8];
    signature_nonce[..4].copy_from_slice(&fresh_nonce(client).to_ne_bytes());
    signature_nonce[4..].copy_from_slice(&fresh_nonce(client).to_ne_bytes());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Uniqueness { nonce: fresh_nonce(client), signature_nonce, time_ms: since.as_millis() as u64 }
}

/// Commands the router; the answer's parameters.
///
/// # Errors
/// When it refuses or does not answer.
pub fn command(
    client: &mut Client,
    verb: Verb,
    parameters: &ControlParameters,
) -> Result<ControlParameters, ControlError> {
    let Ok(wire) = message::command(Root::Localhost, verb, parameters, uniqueness(client), &DigestSha256);
    // A token tells the router that we understand them: it then puts its own on what it sends, and finds our answers at once.
    let link = LinkFields { token: Token::new(b"nw").expect("two octets fit"), ..LinkFields::default() };
    let response = respond(verb, exchange_with(client, &wire, link, PATIENCE)?)?;
    if response.is_ok() {
        Ok(response.body)
    } else {
        Err(ControlError::Refused { verb, response: Box::new(response) })
    }
}

fn respond(verb: Verb, reply: Reply) -> Result<ControlResponse, ControlError> {
    let what = verb.to_string();
    match reply {
        Reply::Data(wire) => {
            let data = Data::check(&wire).expect("checked when it came in");
            ControlResponse::decode(data.content()).map_err(|error| ControlError::Answer { what, error })
        }
        Reply::Nack(reason) => Err(ControlError::Nack { what, reason }),
        Reply::Silence => Err(ControlError::Silence(what)),
    }
}

/// Makes Interests under `prefix` come to this client, as long as it is connected.
///
/// # Errors
/// When the router refuses or does not answer.
pub fn register(client: &mut Client, prefix: impl Into<Name>) -> Result<(), ControlError> {
    command(client, Verb::RibRegister, &ControlParameters::of(prefix)).map(drop)
}

/// The content of a dataset, whole.
///
/// # Errors
/// When the router does not tell it.
pub fn dataset(
    client: &mut Client,
    dataset: Dataset,
    filter: Option<&FaceQueryFilter>,
) -> Result<Vec<u8>, ControlError> {
    let what = dataset.to_string();
    let first = message::dataset(dataset, filter, fresh_nonce(client));
    let mut reply = exchange_with(client, &first, LinkFields::default(), PATIENCE)?;
    let mut reassembly = Reassembly::new(DATASET_LEN_MAX);
    loop {
        let wire = match reply {
            Reply::Data(wire) => wire,
            Reply::Nack(reason) => return Err(ControlError::Nack { what, reason }),
            Reply::Silence => return Err(ControlError::Silence(what)),
        };
        let data = Data::check(&wire).expect("checked when it came in");
        match reassembly.take(&data).map_err(|error| ControlError::Dataset { what: what.clone(), error })? {
            Progress::Whole(content) => return Ok(content),
            Progress::Ask(name) => {
                reply = exchange(client, InterestBuilder::new(name).lifetime_ms(LIFETIME_MS), PATIENCE)?
            }
        }
    }
}
