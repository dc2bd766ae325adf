//! A router's management, asked and commanded, while probes that come meanwhile are answered.

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
use nw_element_api::{Instant, Kind, LinkFields};
use nw_name::Name;
use nw_name::convention::Kind as Convention;
use nw_wire::{Data, DigestSha256, Interest, InterestBuilder};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Commands on their way.
const WINDOW: usize = 64;
const PATIENCE: Duration = Duration::from_millis(LIFETIME_MS);
/// A router that tells more than this about one thing is not believed.
const DATASET_LEN_MAX: usize = 1 << 30;
/// Routes of one import: between two of them probes are answered.
const IMPORT_ROUTES: usize = 16 * IMPORT_LEN_MAX / 64;
/// A router may know its own question as one that is pending.
const OWN_PENDING: u64 = 1;

/// A connection to the management of a router of this machine.
pub struct Router {
    client: Client,
    /// Probes under it are answered.
    probes: Option<Name>,
    /// It takes no imports.
    one_by_one: bool,
}

/// A dataset, unless it is the one that is known.
#[derive(Debug)]
pub enum Fetched {
    /// Nothing changed.
    Same,
    /// A version, and its content.
    New(Option<u64>, Vec<u8>),
}

impl Router {
    /// To the unix socket of a router. Waits end within 100 ms once `stop` is set.
    ///
    /// # Errors
    /// When it can't be reached.
    pub fn connect(path: &Path, stop: Arc<AtomicBool>) -> Result<Self, ClientError> {
        let mut client = Client::connect(&FaceUri::Unix(path.to_owned()))?;
        client.stop_when(stop);
        Ok(Router { client, probes: None, one_by_one: false })
    }

    /// Answers probes under this prefix from now on.
    ///
    /// # Errors
    /// When the router refuses.
    pub fn answer_probes(&mut self, prefix: Name) -> Result<(), ControlError> {
        let parameters = ControlParameters::of(prefix.clone());
        self.probes = Some(prefix);
        self.command(Verb::RibRegister, &parameters).map(drop)
    }

    /// Answers probes for so long.
    ///
    /// # Errors
    /// When the router went away.
    pub fn serve(&mut self, time: Duration) -> Result<(), ClientError> {
        let probes = &self.probes;
        let deadline = self.client.now() + time;
        loop {
            let left = deadline.since(self.client.now());
            self.client.turn(Some(left), |_, received, out| {
                probes.iter().for_each(|prefix| probe::answer(prefix, &received, out));
            })?;
            if self.client.now() >= deadline {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, what: &str, wire: &[u8]) -> Result<Vec<u8>, ControlError> {
        let probes = &self.probes;
        let serve = |asked: &nw_app::Received<'_>, out: &mut nw_app::Outgoing| {
            probes.iter().for_each(|prefix| probe::answer(prefix, asked, out));
        };
        match exchange_serving(&mut self.client, wire, LinkFields::default(), PATIENCE, serve)? {
            Reply::Data(wire) => Ok(wire),
            Reply::Nack(reason) => Err(ControlError::Nack { what: what.to_owned(), reason }),
            Reply::Silence => Err(ControlError::Silence(what.to_owned())),
        }
    }

    /// A dataset; of a router that tells versions which mean the same content, only when it is not the one that is `known`.
    ///
    /// # Errors
    /// When the router does not tell it.
    pub fn dataset(&mut self, dataset: Dataset, known: Option<u64>) -> Result<Fetched, ControlError> {
        let what = dataset.to_string();
        let mut wire = message::dataset(dataset, None, fresh_nonce(&self.client));
        let mut reassembly = Reassembly::new(DATASET_LEN_MAX);
        let mut version = None;
        loop {
            let answer = self.ask(&what, &wire)?;
            let data = Data::check(&answer).expect("checked when it came in");
            if let Some(response) = message::dataset_refused(&data) {
                return Err(ControlError::DatasetRefused { what, response: Box::new(response) });
            }
            if version.is_none() {
                version =
                    data.name().component(-2).and_then(|component| Convention::Version.number(component));
                if version.is_some() && version == known {
                    return Ok(Fetched::Same);
                }
            }
            let taken = reassembly.take(&data);
            match taken.map_err(|error| ControlError::Dataset { what: what.clone(), error })? {
                Progress::Whole(content) => return Ok(Fetched::New(version, content)),
                Progress::Ask(name) => {
                    let builder = InterestBuilder::new(name).lifetime_ms(LIFETIME_MS);
                    wire = builder.nonce(fresh_nonce(&self.client)).encode();
                }
            }
        }
    }

    fn whole<T>(
        &mut self,
        dataset: Dataset,
        read: impl FnOnce(&[u8]) -> Result<T, nw_wire::Error>,
    ) -> Result<T, ControlError> {
        let what = dataset.to_string();
        match self.dataset(dataset, None)? {
            Fetched::New(_, content) => read(&content).map_err(|error| ControlError::Answer { what, error }),
            Fetched::Same => unreachable!("nothing was known"),
        }
    }

    /// Its faces.
    ///
    /// # Errors
    /// When the router does not tell; so for all below.
    pub fn faces(&mut self) -> Result<Vec<FaceStatus>, ControlError> {
        self.whole(Dataset::FacesList, decode_items)
    }

    /// Its routes.
    #[allow(clippy::missing_errors_doc)]
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, ControlError> {
        self.whole(Dataset::RibList, decode_items)
    }

    /// Its strategies.
    #[allow(clippy::missing_errors_doc)]
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, ControlError> {
        self.whole(Dataset::StrategyChoiceList, decode_items)
    }

    /// Interests that are pending, this question aside.
    #[allow(clippy::missing_errors_doc)]
    pub fn pending(&mut self) -> Result<u64, ControlError> {
        let status = self.whole(Dataset::StatusGeneral, decode_status)?;
        Ok(status.pit_entries.saturating_sub(OWN_PENDING))
    }

    /// One command; what it answers.
    ///
    /// # Errors
    /// When the router refuses or does not answer.
    pub fn command(
        &mut self,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, ControlError> {
        let response = self.commands(vec![(verb, parameters.clone())])?.pop();
        match response.flatten() {
            Some(response) if response.is_ok() => Ok(response.body),
            Some(response) => Err(ControlError::Refused { verb, response: Box::new(response) }),
            None => Err(ControlError::Silence(verb.to_string())),
        }
    }

    /// Many commands, several on their way at one time. The answers, in order; none for those that were not answered.
    ///
    /// # Errors
    /// When the router went away.
    pub fn commands(
        &mut self,
        commands: Vec<(Verb, ControlParameters)>,
    ) -> Result<Vec<Option<ControlResponse>>, ClientError> {
        let mut answers: Vec<Option<ControlResponse>> = vec![None; commands.len()];
        let mut waiting: VecDeque<_> = commands.into_iter().enumerate().collect();
        let mut open: HashMap<Name, (usize, Instant)> = HashMap::new();
        let probes = &self.probes;
        while !waiting.is_empty() || !open.is_empty() {
            while open.len() < WINDOW
                && let Some((index, (verb, parameters))) = waiting.pop_front()
            {
                let unique = uniqueness(&self.client);
                let Ok(wire) = message::command(Root::Localhost, verb, &parameters, unique, &DigestSha256);
                if let Ok(interest) = Interest::check(&wire) {
                    open.insert(interest.name().to_name(), (index, self.client.now()));
                }
                // A router that gets a token knows that its own come back.
                let token = plain_token();
                self.client.send_with(&wire, LinkFields { token, ..LinkFields::default() });
            }
            self.client.turn(Some(Duration::from_millis(100)), |_, received, out| match received.kind() {
                Kind::Interest => {
                    probes.iter().for_each(|prefix| probe::answer(prefix, &received, out));
                }
                Kind::Data | Kind::Nack => {
                    let Some((index, _)) = open.remove(received.name().as_bytes()) else { return };
                    answers[index] = Some(response(received.kind(), received.wire));
                }
            })?;
            let now = self.client.now();
            open.retain(|_, (_, sent)| now.since(*sent) < PATIENCE);
        }
        Ok(answers)
    }

    /// Registers routes. Gives what was refused: which, and why.
    ///
    /// # Errors
    /// When the router went away or does not answer.
    pub fn register(&mut self, routes: &[ControlParameters]) -> Result<Vec<(usize, String)>, ControlError> {
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
                    // One that is refused keeps others of its batch out; and other routers know no imports.
                    Err(ImportError::Refused { response, .. }) if response.code != 501 => {}
                    Err(_) => self.one_by_one = true,
                }
            }
            let part = routes[at..end].iter().map(|route| (Verb::RibRegister, route.clone())).collect();
            for (offset, answer) in self.commands(part)?.into_iter().enumerate() {
                match answer {
                    Some(answer) if answer.is_ok() => {}
                    Some(answer) => refused.push((at + offset, format!("{} {}", answer.code, answer.text))),
                    None => return Err(ControlError::Silence(Verb::RibRegister.to_string())),
                }
            }
            at = end;
        }
        Ok(refused)
    }
}

impl core::fmt::Debug for Router {
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
