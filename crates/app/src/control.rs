//! Telling a router what to do, and asking it how it is: the asking side of the NFD management protocol over a [`Client`].

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

/// Why a router did not do or tell what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It can't be talked to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The command could not be signed.
    #[error("can't sign the command")]
    Signing(#[from] nw_trust::Error),
    /// It said no.
    #[error("{verb} refused ({}): {}", response.code, response.text)]
    Refused {
        /// What was asked.
        verb: Verb,
        /// Code, text and what it says besides.
        response: Box<ControlResponse>,
    },
    /// It does not give out this dataset.
    #[error("{what} refused ({}): {}", response.code, response.text)]
    DatasetRefused {
        /// Which.
        what: String,
        /// Code and text.
        response: Box<ControlResponse>,
    },
    /// It did not answer in time.
    #[error("the router did not answer {0} in time")]
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

impl ControlError {
    /// True when the router has no such dataset or command. Routers say so in different ways: our own by a Nack, NDNd by a control response, NFD
    /// by none.
    pub const fn is_unknown(&self) -> bool {
        matches!(
            self,
            ControlError::Nack { .. } | ControlError::Silence(_) | ControlError::DatasetRefused { .. }
        )
    }
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

/// Who commands, and where. [`Commander::default`] is anybody at a router of this machine: commands are signed by a plain digest.
#[derive(Clone, Copy, Debug)]
pub struct Commander<'a> {
    /// The root that commands about routes are sent to; all others go to `/localhost/nfd`.
    pub root: Root,
    /// Who signs them. The router may ask for certificates that it lacks; it is answered while it is waited for.
    pub by: Option<&'a Credentials>,
}

impl Default for Commander<'_> {
    fn default() -> Self {
        Commander { root: Root::Localhost, by: None }
    }
}

impl<'a> Commander<'a> {
    /// One who reaches the router at `uri`: `/localhost/nfd` is for faces of this machine, others have `/localhop/nfd`, where routes can be
    /// registered for the own face and no more.
    pub fn at(uri: &FaceUri, by: Option<&'a Credentials>) -> Self {
        let local = match uri {
            FaceUri::Unix(_) | FaceUri::Shm(_) => true,
            FaceUri::Tcp(address) | FaceUri::Ws(address) => address.ip().to_canonical().is_loopback(),
            _ => false,
        };
        Commander { root: if local { Root::Localhost } else { Root::Localhop }, by }
    }

    /// Commands the router; the answer's parameters.
    ///
    /// # Errors
    /// When it refuses or does not answer. [`ControlError::Refused`] with code 404 when there was nothing to remove, of which the protocol itself
    /// says 200.
    pub fn command(
        self,
        client: &mut Client,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, ControlError> {
        let unique = uniqueness(client);
        // Neighbours may do no more; whether this machine is one is for the router to say.
        let root = if verb.is_for_neighbours() { self.root } else { Root::Localhost };
        let wire = match self.by {
            Some(by) => message::command_fetching(root, verb, parameters, unique, &by.key)?,
            None => {
                let Ok(wire) = message::command(root, verb, parameters, unique, &DigestSha256);
                wire
            }
        };
        // A token tells the router that we understand them: it then puts its own on what it sends, and finds our answers at once.
        let link = LinkFields { token: plain_token(), ..LinkFields::default() };
        let patience_ms = if self.by.is_some() { FETCHING_LIFETIME_MS } else { LIFETIME_MS };
        let patience = Duration::from_millis(patience_ms);
        let reply = exchange_serving(client, &wire, link, patience, |asked, out| self.serve(asked, out))?;
        let response = respond(verb, reply)?;
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

    /// Makes Interests under `prefix` come to this client, as long as it is connected.
    ///
    /// # Errors
    /// When the router refuses or does not answer.
    pub fn register(self, client: &mut Client, prefix: impl Into<Name>) -> Result<(), ControlError> {
        self.register_as(client, prefix, None)
    }

    /// As [`register`](Self::register), with an origin other than app: routing daemons announce routes of origin client to other routers.
    ///
    /// # Errors
    /// When the router refuses or does not answer.
    pub fn register_as(
        self,
        client: &mut Client,
        prefix: impl Into<Name>,
        origin: Option<u64>,
    ) -> Result<(), ControlError> {
        let parameters = ControlParameters { origin, ..ControlParameters::of(prefix) };
        self.command(client, Verb::RibRegister, &parameters).map(drop)
    }

    /// Answers an Interest for a certificate of the commander.
    pub(crate) fn serve(self, asked: &Received<'_>, out: &mut Outgoing) {
        let Ok(interest) = Interest::check(asked.wire) else { return };
        if let Some(certificate) = self.by.and_then(|by| by.answer(&interest)) {
            out.answer(asked, certificate);
        }
    }
}

/// Commands a router of this machine, signed by a plain digest; the answer's parameters.
///
/// # Errors
/// When it refuses or does not answer.
pub fn command(
    client: &mut Client,
    verb: Verb,
    parameters: &ControlParameters,
) -> Result<ControlParameters, ControlError> {
    Commander::default().command(client, verb, parameters)
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
    Commander::default().register(client, prefix)
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
        if let Some(response) = message::dataset_refused(&data) {
            return Err(ControlError::DatasetRefused { what, response: Box::new(response) });
        }
        match reassembly.take(&data).map_err(|error| ControlError::Dataset { what: what.clone(), error })? {
            Progress::Whole(content) => return Ok(content),
            Progress::Ask(name) => {
                reply = exchange(client, InterestBuilder::new(name).lifetime_ms(LIFETIME_MS), PATIENCE)?
            }
        }
    }
}
