//! Commands and datasets of a router: the client side of the NFD management protocol over a
//! [`Client`].

use crate::client::{Client, ClientError, Outgoing, Received, plain_token};
use crate::keystore::Credentials;
use crate::object::{Reply, exchange, exchange_serving, exchange_with, fresh_nonce};
use core::time::Duration;
use nw_api::management::client::{
    FETCHING_LIFETIME_MS, LIFETIME_MS, Progress, Reassembly, ReassemblyError, Uniqueness,
};
use nw_api::management::{
    ControlParameters, ControlResponse, Dataset, FaceQueryFilter, Root, Verb, client as message,
};
use nw_element_api::LinkFields;
use nw_faces::FaceUri;
use nw_name::Name;
use nw_wire::{Data, DigestSha256, Interest, InterestBuilder, NackReason};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reasons why a command or dataset failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The connection to the router failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The command could not be signed.
    #[error("can't sign the command")]
    Signing(#[from] nw_trust::Error),
    /// The router refused the command.
    #[error("{verb} refused ({}): {}", response.code, response.text)]
    Refused {
        /// What was requested.
        verb: Verb,
        /// Code, text and parameters.
        response: Box<ControlResponse>,
    },
    /// The router refused the dataset.
    #[error("{what} refused ({}): {}", response.code, response.text)]
    DatasetRefused {
        /// Name of the dataset.
        what: String,
        /// Code and text.
        response: Box<ControlResponse>,
    },
    /// No reply in time.
    #[error("the router did not answer {0} in time")]
    Timeout(String),
    /// The Interest was answered by a Nack: unknown command, or no route.
    #[error("{what} was refused with Nack({})", reason.as_str())]
    Nack {
        /// What was requested.
        what: String,
        /// The reason.
        reason: NackReason,
    },
    /// The reply can't be decoded.
    #[error("the answer to {what} can't be decoded: {error}")]
    Answer {
        /// What was requested.
        what: String,
        /// The reason.
        error: nw_wire::Error,
    },
    /// The segments of a dataset are inconsistent.
    #[error("{what}: {error}")]
    Dataset {
        /// Name of the dataset.
        what: String,
        /// The reason.
        error: ReassemblyError,
    },
}

impl ControlError {
    /// Returns whether the router does not support the command or dataset. Routers signal that
    /// differently: Namewire by a Nack, NDNd by a control response, NFD not at all.
    pub const fn is_unknown(&self) -> bool {
        matches!(
            self,
            ControlError::Nack { .. }
                | ControlError::Timeout(_)
                | ControlError::DatasetRefused { .. }
        )
    }
}

/// Maximum length of a dataset, bytes.
const DATASET_LEN_MAX: usize = 1 << 30;
const REPLY_TIMEOUT: Duration = Duration::from_millis(LIFETIME_MS);

/// Returns nonces and time that make a command unique.
pub fn uniqueness(client: &Client) -> Uniqueness {
    let mut signature_nonce = [0; 8];
    signature_nonce[..4].copy_from_slice(&fresh_nonce(client).to_ne_bytes());
    signature_nonce[4..].copy_from_slice(&fresh_nonce(client).to_ne_bytes());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Uniqueness { nonce: fresh_nonce(client), signature_nonce, time_ms: since.as_millis() as u64 }
}

/// Identity and destination of commands. [`Commander::default`] sends to a local router, and signs
/// with a plain digest.
#[derive(Clone, Copy, Debug)]
pub struct Commander<'a> {
    /// Prefix for route commands; all others go to `/localhost/nfd`.
    pub root: Root,
    /// Key to sign with, `None`: plain digest. Requests of the router for missing certificates are
    /// answered during the exchange.
    pub credentials: Option<&'a Credentials>,
}

impl Default for Commander<'_> {
    fn default() -> Self {
        Commander { root: Root::Localhost, credentials: None }
    }
}

impl<'a> Commander<'a> {
    /// Returns the commander for the router at `uri`: `/localhost/nfd` for local faces, otherwise
    /// `/localhop/nfd`, which allows only to register routes to the own face.
    pub fn at(uri: &FaceUri, credentials: Option<&'a Credentials>) -> Self {
        let local = match uri {
            FaceUri::Unix(_) | FaceUri::Shm(_) => true,
            FaceUri::Tcp(address) | FaceUri::Ws(address) => {
                address.ip().to_canonical().is_loopback()
            }
            _ => false,
        };
        Commander { root: if local { Root::Localhost } else { Root::Localhop }, credentials }
    }

    /// Sends a command and returns the parameters of the reply.
    ///
    /// # Errors
    /// If the router refuses or does not reply. [`ControlError::Refused`] with code 404 if there
    /// was nothing to remove, where the protocol itself uses 200.
    pub fn command(
        self,
        client: &mut Client,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, ControlError> {
        let unique = uniqueness(client);
        // `/localhop/nfd` allows no more; whether it applies is decided by the router.
        let root = if verb.is_for_neighbours() { self.root } else { Root::Localhost };
        let wire = match self.credentials {
            Some(credentials) => {
                message::command_fetching(root, verb, parameters, unique, &credentials.key)?
            }
            None => {
                let Ok(wire) = message::command(root, verb, parameters, unique, &DigestSha256);
                wire
            }
        };
        // The token shows that this peer returns tokens: the router then uses its own and finds the
        // replies directly.
        let link = LinkFields { token: plain_token(), ..LinkFields::default() };
        let timeout_ms =
            if self.credentials.is_some() { FETCHING_LIFETIME_MS } else { LIFETIME_MS };
        let timeout = Duration::from_millis(timeout_ms);
        let reply = exchange_serving(client, &wire, link, timeout, |interest, out| {
            self.serve(interest, out)
        })?;
        let response = decode_response(verb, reply)?;
        if let Some(absent) = response.nothing_removed() {
            let response = Box::new(ControlResponse::refuse(404, absent));
            return Err(ControlError::Refused { verb, response });
        }
        if response.is_ok() {
            Ok(response.body)
        } else {
            Err(ControlError::Refused { verb, response: Box::new(response) })
        }
    }

    /// Registers `prefix` for this client, as long as it is connected.
    ///
    /// # Errors
    /// If the router refuses or does not reply.
    pub fn register(
        self,
        client: &mut Client,
        prefix: impl Into<Name>,
    ) -> Result<(), ControlError> {
        self.register_as(client, prefix, None)
    }

    /// Like [`register`](Self::register), with a route origin other than app: routing daemons
    /// announce routes of origin client to other routers.
    ///
    /// # Errors
    /// If the router refuses or does not reply.
    pub fn register_as(
        self,
        client: &mut Client,
        prefix: impl Into<Name>,
        origin: Option<u64>,
    ) -> Result<(), ControlError> {
        let parameters = ControlParameters { origin, ..ControlParameters::of(prefix) };
        self.command(client, Verb::RibRegister, &parameters).map(drop)
    }

    /// Answers an Interest for one of the commander's certificates.
    pub(crate) fn serve(self, received: &Received<'_>, out: &mut Outgoing) {
        let Ok(interest) = Interest::check(received.wire) else { return };
        if let Some(certificate) =
            self.credentials.and_then(|credentials| credentials.answer(&interest))
        {
            out.answer(received, certificate);
        }
    }
}

/// Sends a command signed with a plain digest to a local router and returns the parameters of the
/// reply.
///
/// # Errors
/// If the router refuses or does not reply.
pub fn command(
    client: &mut Client,
    verb: Verb,
    parameters: &ControlParameters,
) -> Result<ControlParameters, ControlError> {
    Commander::default().command(client, verb, parameters)
}

fn decode_response(verb: Verb, reply: Reply) -> Result<ControlResponse, ControlError> {
    let what = verb.to_string();
    match reply {
        Reply::Data(wire) => {
            let data = Data::check(&wire).expect("checked on reception");
            ControlResponse::decode(data.content())
                .map_err(|error| ControlError::Answer { what, error })
        }
        Reply::Nack(reason) => Err(ControlError::Nack { what, reason }),
        Reply::Timeout => Err(ControlError::Timeout(what)),
    }
}

/// Registers `prefix` for this client, as long as it is connected.
///
/// # Errors
/// If the router refuses or does not reply.
pub fn register(client: &mut Client, prefix: impl Into<Name>) -> Result<(), ControlError> {
    Commander::default().register(client, prefix)
}

/// Returns the complete content of a dataset.
///
/// # Errors
/// If the router refuses or does not reply.
pub fn dataset(
    client: &mut Client,
    dataset: Dataset,
    filter: Option<&FaceQueryFilter>,
) -> Result<Vec<u8>, ControlError> {
    let what = dataset.to_string();
    let first = message::dataset(dataset, filter, fresh_nonce(client));
    let mut reply = exchange_with(client, &first, LinkFields::default(), REPLY_TIMEOUT)?;
    let mut reassembly = Reassembly::new(DATASET_LEN_MAX);
    loop {
        let wire = match reply {
            Reply::Data(wire) => wire,
            Reply::Nack(reason) => return Err(ControlError::Nack { what, reason }),
            Reply::Timeout => return Err(ControlError::Timeout(what)),
        };
        let data = Data::check(&wire).expect("checked on reception");
        if let Some(response) = message::dataset_refused(&data) {
            return Err(ControlError::DatasetRefused { what, response: Box::new(response) });
        }
        match reassembly
            .add(&data)
            .map_err(|error| ControlError::Dataset { what: what.clone(), error })?
        {
            Progress::Complete(content) => return Ok(content),
            Progress::Request(name) => {
                reply = exchange(
                    client,
                    InterestBuilder::new(name).lifetime_ms(LIFETIME_MS),
                    REPLY_TIMEOUT,
                )?
            }
        }
    }
}
