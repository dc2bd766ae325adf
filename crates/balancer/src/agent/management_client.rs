//! A client of one router's management that answers probes while it waits.

use crate::probe;
use core::time::Duration;
use nw_api::management::client::{
    self as message, IMPORT_LEN_MAX, LIFETIME_MS, Progress, Reassembly, decode_items, decode_status,
};
use nw_api::management::{
    ControlParameters, ControlResponse, Dataset, FaceStatus, RibEntry, Root, StrategyChoice, Verb,
};
use nw_app::client::plain_token;
use nw_app::control::{ControlError, uniqueness};
use nw_app::import::{ImportError, import};
use nw_app::object::{Reply, exchange_serving, fresh_nonce};
use nw_app::{Client, ClientError, FaceUri};
use nw_element_api::{Kind, LinkFields, Timestamp};
use nw_name::Name;
use nw_name::convention::Kind as Convention;
use nw_wire::{Data, DigestSha256, Interest, InterestBuilder};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum number of commands sent and not yet answered.
const WINDOW: usize = 64;
const REPLY_TIMEOUT: Duration = Duration::from_millis(LIFETIME_MS);
/// Maximum length of a dataset, bytes.
const DATASET_LEN_MAX: usize = 1 << 30;
/// Routes per import. Between two imports, probes are answered.
const IMPORT_ROUTES: usize = 16 * IMPORT_LEN_MAX / 64;
/// Interests of this client that the router may count as pending while it answers.
const OWN_PENDING: u64 = 1;

/// A connection to the management of a router on this machine.
pub struct ManagementClient {
    client: Client,
    /// Probes under this prefix are answered.
    probe_prefix: Option<Name>,
    /// The router does not support imports, so routes are registered one by one.
    one_by_one: bool,
}

/// The result of fetching a dataset.
#[derive(Debug)]
pub enum Fetched {
    /// The version is the one that was known already.
    Unchanged,
    /// The version, if the name has one, and the content.
    New(Option<u64>, Vec<u8>),
}

impl ManagementClient {
    /// Connects to the unix socket of a router. Waits end within 100 ms after `stop` is set.
    ///
    /// # Errors
    /// The socket can't be connected.
    pub fn connect(path: &Path, stop: Arc<AtomicBool>) -> Result<Self, ClientError> {
        let mut client = Client::connect(&FaceUri::Unix(path.to_owned()))?;
        client.stop_when(stop);
        Ok(ManagementClient { client, probe_prefix: None, one_by_one: false })
    }

    /// Registers a prefix, and answers probes under it from now on.
    ///
    /// # Errors
    /// The router refuses the registration or does not answer.
    pub fn answer_probes(&mut self, prefix: Name) -> Result<(), ControlError> {
        let parameters = ControlParameters::of(prefix.clone());
        self.probe_prefix = Some(prefix);
        self.command(Verb::RibRegister, &parameters).map(drop)
    }

    /// Answers probes for this time.
    ///
    /// # Errors
    /// The router closed the connection.
    pub fn serve(&mut self, time: Duration) -> Result<(), ClientError> {
        let prefixes = &self.probe_prefix;
        let deadline = self.client.now() + time;
        loop {
            let remaining = deadline.since(self.client.now());
            self.client.poll(Some(remaining), |_, received, out| {
                prefixes.iter().for_each(|prefix| probe::answer(prefix, &received, out));
            })?;
            if self.client.now() >= deadline {
                return Ok(());
            }
        }
    }

    fn request(&mut self, what: &str, wire: &[u8]) -> Result<Vec<u8>, ControlError> {
        let prefixes = &self.probe_prefix;
        let serve = |received: &nw_app::Received<'_>, out: &mut nw_app::Outgoing| {
            prefixes.iter().for_each(|prefix| probe::answer(prefix, received, out));
        };
        match exchange_serving(&mut self.client, wire, LinkFields::default(), REPLY_TIMEOUT, serve)?
        {
            Reply::Data(wire) => Ok(wire),
            Reply::Nack(reason) => Err(ControlError::Nack { what: what.to_owned(), reason }),
            Reply::Timeout => Err(ControlError::Timeout(what.to_owned())),
        }
    }

    /// Fetches a dataset. Stops after the first segment if its version is `known`; a router whose
    /// versions don't identify the content always gives [`Fetched::New`].
    ///
    /// # Errors
    /// The router refuses, does not answer, or the dataset is malformed.
    pub fn dataset(
        &mut self,
        dataset: Dataset,
        known: Option<u64>,
    ) -> Result<Fetched, ControlError> {
        let what = dataset.to_string();
        let mut wire = message::dataset(dataset, None, fresh_nonce(&self.client));
        let mut reassembly = Reassembly::new(DATASET_LEN_MAX);
        let mut version = None;
        loop {
            let answer = self.request(&what, &wire)?;
            let data = Data::check(&answer).expect("checked when it came in");
            if let Some(response) = message::dataset_refused(&data) {
                return Err(ControlError::DatasetRefused { what, response: Box::new(response) });
            }
            if version.is_none() {
                version = data
                    .name()
                    .component(-2)
                    .and_then(|component| Convention::Version.number(component));
                if version.is_some() && version == known {
                    return Ok(Fetched::Unchanged);
                }
            }
            let progress = reassembly.add(&data);
            match progress.map_err(|error| ControlError::Dataset { what: what.clone(), error })? {
                Progress::Complete(content) => return Ok(Fetched::New(version, content)),
                Progress::Request(name) => {
                    let builder = InterestBuilder::new(name).lifetime_ms(LIFETIME_MS);
                    wire = builder.nonce(fresh_nonce(&self.client)).encode();
                }
            }
        }
    }

    fn decoded<T>(
        &mut self,
        dataset: Dataset,
        read: impl FnOnce(&[u8]) -> Result<T, nw_wire::Error>,
    ) -> Result<T, ControlError> {
        let what = dataset.to_string();
        match self.dataset(dataset, None)? {
            Fetched::New(_, content) => {
                read(&content).map_err(|error| ControlError::Answer { what, error })
            }
            Fetched::Unchanged => unreachable!("nothing was known"),
        }
    }

    /// Fetches the list of faces.
    ///
    /// # Errors
    /// The errors of [`dataset`](Self::dataset); also for the methods below.
    pub fn faces(&mut self) -> Result<Vec<FaceStatus>, ControlError> {
        self.decoded(Dataset::FacesList, decode_items)
    }

    /// Fetches the RIB.
    #[allow(clippy::missing_errors_doc)]
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, ControlError> {
        self.decoded(Dataset::RibList, decode_items)
    }

    /// Fetches the strategy choices.
    #[allow(clippy::missing_errors_doc)]
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, ControlError> {
        self.decoded(Dataset::StrategyChoiceList, decode_items)
    }

    /// Fetches the number of pending Interests, without the one that asks for it.
    #[allow(clippy::missing_errors_doc)]
    pub fn pending(&mut self) -> Result<u64, ControlError> {
        let status = self.decoded(Dataset::StatusGeneral, decode_status)?;
        Ok(status.pit_entries.saturating_sub(OWN_PENDING))
    }

    /// Sends one command, and returns the parameters of the response.
    ///
    /// # Errors
    /// The router refuses or does not answer.
    pub fn command(
        &mut self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, ControlError> {
        let response = self.commands(vec![(verb, parameters.clone())])?.pop();
        match response.flatten() {
            Some(response) if response.is_ok() => Ok(response.body),
            Some(response) => Err(ControlError::Refused { verb, response: Box::new(response) }),
            None => Err(ControlError::Timeout(verb.to_string())),
        }
    }

    /// Sends commands, up to `WINDOW` at a time. Returns the responses in order, `None` for
    /// commands without a response.
    ///
    /// # Errors
    /// The router closed the connection.
    pub fn commands(
        &mut self,
        commands: Vec<(Verb, ControlParameters)>,
    ) -> Result<Vec<Option<ControlResponse>>, ClientError> {
        let mut answers: Vec<Option<ControlResponse>> = vec![None; commands.len()];
        let mut waiting: VecDeque<_> = commands.into_iter().enumerate().collect();
        let mut open: HashMap<Name, (usize, Timestamp)> = HashMap::new();
        let prefixes = &self.probe_prefix;
        while !waiting.is_empty() || !open.is_empty() {
            while open.len() < WINDOW
                && let Some((index, (verb, parameters))) = waiting.pop_front()
            {
                let unique = uniqueness(&self.client);
                let Ok(wire) =
                    message::command(Root::Localhost, verb, &parameters, unique, &DigestSha256);
                if let Ok(interest) = Interest::check(&wire) {
                    open.insert(interest.name().to_name(), (index, self.client.now()));
                }
                // A router that gets a token returns its own tokens too.
                let token = plain_token();
                self.client.send_with(&wire, LinkFields { token, ..LinkFields::default() });
            }
            self.client.poll(
                Some(Duration::from_millis(100)),
                |_, received, out| match received.kind() {
                    Kind::Interest => {
                        prefixes.iter().for_each(|prefix| probe::answer(prefix, &received, out));
                    }
                    Kind::Data | Kind::Nack => {
                        let Some((index, _)) = open.remove(received.name().as_bytes()) else {
                            return;
                        };
                        answers[index] = Some(response(received.kind(), received.wire));
                    }
                    Kind::Publication => {}
                },
            )?;
            let now = self.client.now();
            open.retain(|_, (_, sent)| now.since(*sent) < REPLY_TIMEOUT);
        }
        Ok(answers)
    }

    /// Registers routes. Returns the index of each refused route, with the reason.
    ///
    /// # Errors
    /// The router closed the connection or does not answer.
    pub fn register(
        &mut self,
        routes: &[ControlParameters],
    ) -> Result<Vec<(usize, String)>, ControlError> {
        let mut refused = Vec::new();
        let mut at = 0;
        while at < routes.len() {
            let end = (at + IMPORT_ROUTES).min(routes.len());
            if !self.one_by_one && end - at > WINDOW {
                match import(&mut self.client, routes[at..end].iter().cloned()) {
                    Ok(_) => {
                        at = end;
                        self.serve(Duration::ZERO)?;
                        continue;
                    }
                    Err(ImportError::Client(error)) => return Err(error.into()),
                    // A refused route makes its whole batch fail, and other routers have no
                    // imports:
                    // in both cases the routes are registered one by one.
                    Err(ImportError::Refused { response, .. }) if response.code != 501 => {}
                    Err(_) => self.one_by_one = true,
                }
            }
            let batch =
                routes[at..end].iter().map(|route| (Verb::RibRegister, route.clone())).collect();
            for (offset, answer) in self.commands(batch)?.into_iter().enumerate() {
                match answer {
                    Some(answer) if answer.is_ok() => {}
                    Some(answer) => {
                        refused.push((at + offset, format!("{} {}", answer.code, answer.text)))
                    }
                    None => return Err(ControlError::Timeout(Verb::RibRegister.to_string())),
                }
            }
            at = end;
        }
        Ok(refused)
    }
}

impl core::fmt::Debug for ManagementClient {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.client.fmt(f)
    }
}

fn response(kind: Kind, wire: &[u8]) -> ControlResponse {
    let unreadable = || ControlResponse::refuse(502, "the answer can't be read");
    if kind != Kind::Data {
        return ControlResponse::refuse(501, "the router has no such command");
    }
    let data = Data::check(wire).ok();
    data.and_then(|data| ControlResponse::decode(data.content()).ok()).unwrap_or_else(unreadable)
}
