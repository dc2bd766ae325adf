//! The changes of `nw join` in the router, at the hub and in the key store, each with its undoing.

use super::certificate::{self, CaArgs};
use super::state::{Joined, StateFile};
use crate::args::flags::KeyStoreArgs;
use crate::management::fetch_records;
use crate::signing::{self, parse_key_name, store_location};
use anyhow::{Context, Result, bail};
use core::time::Duration;
use nw_api::management::client::{self as message, FETCHING_LIFETIME_MS};
use nw_api::management::{
    ControlParameters, ControlResponse, Dataset, FacePersistency, FaceQueryFilter, FaceStatus,
    Root, Verb, flags, origin,
};
use nw_app::Client;
use nw_app::control::{Commander, ControlError, uniqueness};
use nw_app::keystore::{Credentials, KeyStore};
use nw_app::object::{Reply, exchange_serving};
use nw_element_api::{FaceId, LinkFields};
use nw_name::Name;
use nw_trust::{Key, KeyKind};
use nw_wire::{Data, DigestSha256, Interest};

/// Cost of the routes to the hub, as ndn-autoconfig sets it.
const HUB_COST: u64 = 100;

/// A router, and what was made there so far.
pub struct Session<'a> {
    client: &'a mut Client,
    commander: Commander<'a>,
    file: &'a StateFile,
    state: Joined,
    face: u64,
}

impl<'a> Session<'a> {
    /// Returns a session that continues from `state`.
    pub fn new(
        client: &'a mut Client,
        commander: Commander<'a>,
        file: &'a StateFile,
        state: Joined,
    ) -> Self {
        Session { client, commander, file, state, face: 0 }
    }

    /// Returns the state.
    pub fn finish(self) -> Joined {
        self.state
    }

    /// Makes the face to the hub, or finds it.
    pub fn make_face(&mut self) -> Result<()> {
        let creation = ControlParameters {
            uri: Some(self.state.hub.clone()),
            face_persistency: Some(FacePersistency::Permanent.number()),
            ..ControlParameters::default()
        };
        let body = match self.commander.command(self.client, Verb::FacesCreate, &creation) {
            Ok(body) => {
                self.state.face_made = true;
                body
            }
            Err(ControlError::Refused { response, .. }) if response.code == 409 => response.body,
            Err(error) => return Err(error).context("can't make a face to the hub"),
        };
        self.face = body.face_id.context("the router did not say which face it has made")?;
        self.file.write(&self.state)
    }

    /// Adds a route to the hub.
    pub fn add_route(&mut self, prefix: &str) -> Result<()> {
        let parameters = self.route(prefix)?;
        self.commander
            .command(self.client, Verb::RibRegister, &parameters)
            .with_context(|| format!("can't add the route {prefix} to the hub"))?;
        self.state.routes.push(prefix.to_owned());
        self.file.write(&self.state)
    }

    fn route(&self, prefix: &str) -> Result<ControlParameters> {
        Ok(ControlParameters {
            face_id: Some(self.face),
            origin: Some(origin::AUTOCONF),
            cost: Some(HUB_COST),
            ..ControlParameters::of(prefix.parse::<Name>()?)
        })
    }

    /// Makes a key for the site, and obtains a certificate for it.
    pub fn enrol(&mut self, ca: &CaArgs, site: &Name, store: &KeyStoreArgs) -> Result<()> {
        let mut keys = KeyStore::create(store_location(store)?)?;
        let key = Key::generate(KeyKind::EcdsaP256, site.as_ref())?;
        let wire = certificate::obtain(self.client, ca, &key, store)?;
        let name = Data::check(&wire)?.name().to_name();
        keys.add_key(&key, &wire)?;
        self.state.key = Some(key.name().to_string());
        self.state.store = store.store.as_deref().map(std::path::absolute).transpose()?;
        self.state.certificate = Some(name.to_string());
        self.file.write(&self.state)
    }

    /// Registers the prefix of the site at the hub, signed by the certificate if there is one.
    pub fn register_site(&mut self, site: &Name, store: &KeyStoreArgs) -> Result<()> {
        self.use_link_fields()?;
        let credentials = self.credentials(store)?;
        if let Some(credentials) = &credentials {
            // The hub asks for the certificate on the face of the command.
            self.commander.register(self.client, credentials.key.name().to_name())?;
        }
        self.state.site = Some(site.to_string());
        self.file.write(&self.state)?;
        let parameters = ControlParameters {
            origin: Some(origin::CLIENT),
            ..ControlParameters::of(site.clone())
        };
        let done = self.command_hub(Verb::RibRegister, &parameters, credentials.as_ref());
        if done.is_err() {
            self.state.site = None;
        }
        done.with_context(|| format!("{site} can't be registered at the hub {}", self.state.hub))
    }

    fn credentials(&self, store: &KeyStoreArgs) -> Result<Option<Credentials>> {
        let Some(name) = &self.state.certificate else { return Ok(None) };
        let name = parse_key_name(name)?;
        let store = signing::open(store)?;
        Ok(Some(store.credentials(name.as_ref().map(Name::as_ref))?))
    }

    /// Lets this client choose the face of an Interest: the router would answer the command itself.
    fn use_link_fields(&mut self) -> Result<()> {
        let parameters = ControlParameters {
            flags: Some(flags::LOCAL_FIELDS),
            mask: Some(flags::LOCAL_FIELDS),
            ..ControlParameters::default()
        };
        self.commander.command(self.client, Verb::FacesUpdate, &parameters)?;
        Ok(self.client.send_next_hops()?)
    }

    fn command_hub(
        &mut self,
        verb: Verb,
        parameters: &ControlParameters,
        credentials: Option<&Credentials>,
    ) -> Result<()> {
        let unique = uniqueness(self.client);
        let root = Root::Localhop;
        let wire = match credentials {
            Some(with) => message::command_fetching(root, verb, parameters, unique, &with.key)?,
            None => {
                let Ok(wire) = message::command(root, verb, parameters, unique, &DigestSha256);
                wire
            }
        };
        let link =
            LinkFields { next_hop_face: FaceId::from_number(self.face), ..LinkFields::default() };
        let timeout = Duration::from_millis(FETCHING_LIFETIME_MS);
        let reply = exchange_serving(self.client, &wire, link, timeout, |received, out| {
            let Ok(interest) = Interest::check(received.wire) else { return };
            if let Some(wire) = credentials.and_then(|credentials| credentials.answer(&interest)) {
                out.answer(received, wire);
            }
        })?;
        let wire = match reply {
            Reply::Data(wire) => wire,
            Reply::Nack(reason) => bail!("the hub answered with Nack({})", reason.as_str()),
            Reply::Timeout => bail!(
                "the hub did not answer in time: is it running, and does it accept registrations?"
            ),
        };
        let response = ControlResponse::decode(Data::check(&wire)?.content())
            .context("the hub's answer is not one of NFD's protocol")?;
        if !response.is_ok() {
            bail!("the hub refused the command ({}): {}", response.code, response.text);
        }
        Ok(())
    }

    /// Undoes all that the state names, the newest first, and removes the state file. What is not
    /// there any more is no error.
    pub fn undo(mut self, store: &KeyStoreArgs) -> Result<()> {
        let folder = store.store.clone().or_else(|| self.state.store.clone());
        let store = &KeyStoreArgs { store: folder };
        self.face = self.find_face()?.unwrap_or(0);
        if self.face != 0 {
            self.undo_at_hub(store);
            for prefix in core::mem::take(&mut self.state.routes) {
                let route = ControlParameters { cost: None, ..self.route(&prefix)? };
                absent(self.commander.command(self.client, Verb::RibUnregister, &route))?;
            }
            if self.state.face_made {
                let face =
                    ControlParameters { face_id: Some(self.face), ..ControlParameters::default() };
                absent(self.commander.command(self.client, Verb::FacesDestroy, &face))?;
            }
        }
        if let Some(key) = self.state.key.take() {
            let key: Name = key.parse()?;
            // The user may have deleted it, or the whole store.
            let _ = signing::open(store).and_then(|mut keys| keys.delete(key.as_ref()));
        }
        self.file.remove()
    }

    /// Withdraws the site's prefix. A hub that does not answer removes it with the face.
    fn undo_at_hub(&mut self, store: &KeyStoreArgs) {
        let Some(site) = self.state.site.take() else { return };
        let mut withdraw = || -> Result<()> {
            self.use_link_fields()?;
            let credentials = self.credentials(store)?;
            let parameters = ControlParameters {
                origin: Some(origin::CLIENT),
                ..ControlParameters::of(site.parse::<Name>()?)
            };
            self.command_hub(Verb::RibUnregister, &parameters, credentials.as_ref())
        };
        if let Err(error) = withdraw() {
            note!("{site} stays registered at the hub until its face closes: {error:#}");
        }
    }

    /// Returns the face to the hub; its number may differ after a restart of the router.
    fn find_face(&mut self) -> Result<Option<u64>> {
        let filter =
            FaceQueryFilter { uri: Some(self.state.hub.clone()), ..FaceQueryFilter::default() };
        let faces: Vec<FaceStatus> =
            fetch_records(self.client, Dataset::FacesQuery, Some(&filter))?;
        Ok(faces.first().map(|face| face.face_id))
    }
}

/// Accepts that what is to be removed does not exist.
fn absent(result: Result<ControlParameters, ControlError>) -> Result<()> {
    match result {
        Err(ControlError::Refused { response, .. }) if response.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}
