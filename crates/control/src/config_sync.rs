//! Faces, routes and strategies of the configuration file: created at start, and changed when the
//! file is reloaded.
//!
//! A face that can't be connected, or closes, is retried after 1 s, then after twice as long each
//! time, up to a minute. A face that was destroyed by command is retried only when its section of
//! the file changes. Host names are resolved again at each attempt.
//!
//! A file may have many thousands of sections, so differences are applied a few at a time. Both the
//! desired and the current state are sorted; one pass over both finds the differences. A
//! [`DesiredConfig`] is sorted by the thread that reads the file, not by the forwarding loop.

use super::environment::{
    Environment, FaceChange, FaceCreation, FaceRequest, OperationId, Refusal,
};
use super::rib::Route;
use super::{Control, log_refusal};
use nw_api::config::{Config, FaceItem, RouteItem, Uri};
use nw_api::management::{FacePersistency, flags, origin};
use nw_link::FaceUri;
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Timestamp};
use nw_trust::Signer;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::Peekable;
use std::ops::Bound;
use std::vec;

pub(super) const DEFAULT_STRATEGY: &str = "/localhost/nfd/strategy/best-route";
const MULTICAST: &str = "/localhost/nfd/strategy/multicast";

/// "Defaults that clients expect", in addition to the default strategy of `/`.
pub(super) const DEFAULT_CHOICES: [(&str, &str); 3] = [
    ("/localhost", MULTICAST),
    ("/localhost/nfd", DEFAULT_STRATEGY),
    ("/ndn/broadcast", MULTICAST),
];

/// Returns the strategy of a prefix that the router sets without configuration.
pub(super) fn default_strategy(prefix: NameRef<'_>) -> Option<Name> {
    if prefix.is_empty() {
        return Some(super::constant_name(DEFAULT_STRATEGY));
    }
    let choice =
        DEFAULT_CHOICES.iter().find(|(name, _)| super::constant_name(name).as_ref() == prefix);
    choice.map(|(_, strategy)| super::constant_name(strategy))
}

const RETRY_FIRST_MS: u64 = 1000;
const RETRY_MAX_MS: u64 = 60_000;
/// Differences applied in one part.
const DIFFERENCES_PER_PART: usize = 4;
/// Faces created in one part.
const FACES_PER_PART: usize = 4;

/// A configuration that is sorted and ready to be applied.
#[derive(Debug)]
pub struct DesiredConfig {
    /// All options except faces, routes and strategies.
    pub settings: Config,
    /// Signs commands to other routers. `None` keeps the previous signer.
    pub signer: Option<Signer>,
    strategies: Vec<(Name, Name)>,
    faces: Vec<(String, FaceItem)>,
    routes: Vec<(RouteKey, RouteItem)>,
}

/// Remote URI and prefix: the routes to a face are adjacent.
type RouteKey = (String, Name);

impl DesiredConfig {
    /// Sets the signer of commands to other routers.
    #[must_use]
    pub fn signed_by(mut self, signer: Signer) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Sorts the sections of `config`.
    ///
    /// `resolve` returns the canonical face URIs of a face URI. It may wait for the system's
    /// resolver, so this is called in another thread than the forwarding loop once packets are
    /// forwarded.
    pub fn new(mut config: Config, resolve: &dyn Fn(&str) -> Result<Vec<String>, String>) -> Self {
        let routes = std::mem::take(&mut config.route);
        let mut routes: Vec<_> = routes
            .into_iter()
            .map(|route| ((route.face.0.clone(), route.prefix.clone()), route))
            .collect();
        routes.sort_by(|(left, _), (right, _)| left.cmp(right));
        let faces = std::mem::take(&mut config.face);
        let mut faces: BTreeMap<String, FaceItem> =
            faces.into_iter().map(|face| (face.uri.0.clone(), face)).collect();
        for (_, route) in &routes {
            // A face that has no section of its own, only routes.
            if !faces.contains_key(&route.face.0) {
                faces.insert(route.face.0.clone(), FaceItem::to(route.face.clone()));
            }
        }
        let strategies = std::mem::take(&mut config.strategy);
        let strategies: BTreeMap<Name, Name> =
            strategies.into_iter().map(|choice| (choice.prefix, choice.strategy.0)).collect();
        config.rib.readvertise_to = canonical_uris(&config.rib.readvertise_to, resolve);
        let (strategies, faces) = (strategies.into_iter().collect(), faces.into_iter().collect());
        DesiredConfig { settings: config, signer: None, strategies, faces, routes }
    }
}

/// Returns canonical face URIs: with ports, and addresses in place of host names.
fn canonical_uris(uris: &[Uri], resolve: &dyn Fn(&str) -> Result<Vec<String>, String>) -> Vec<Uri> {
    let mut canonical = Vec::new();
    for uri in uris {
        match resolve(&uri.0) {
            Ok(addresses) => canonical.extend(addresses.into_iter().map(Uri)),
            Err(reason) => {
                tracing::warn!(
                    uri = uri.0,
                    "no prefix is advertised to this face until the configuration is reloaded: {reason}"
                );
            }
        }
    }
    canonical
}

/// The configured faces, routes and strategies, with their state.
#[derive(Debug, Default)]
pub(super) struct ConfigSync {
    faces: BTreeMap<String, ConfiguredFace>,
    /// Scheduled connection attempts, by time.
    attempts: BTreeSet<(Timestamp, String)>,
    routes: BTreeMap<RouteKey, RouteItem>,
    strategies: BTreeMap<Name, Name>,
    /// The new configuration that is being applied.
    reload: Option<Reload>,
    /// Faces that came up: their routes are registered after the given prefix.
    pending_routes: VecDeque<(String, Option<Name>)>,
}

/// Progress of applying a new configuration: strategies first, then faces, then routes.
#[derive(Debug)]
struct Reload {
    strategies: Merge<Name, Name>,
    faces: Merge<String, FaceItem>,
    routes: Merge<RouteKey, RouteItem>,
    /// Faces to close after their routes are removed.
    removed_faces: Vec<String>,
}

/// A `[[face]]` section, or a face that only `[[route]]` sections name.
#[derive(Debug)]
struct ConfiguredFace {
    item: FaceItem,
    state: FaceState,
    /// Failed attempts since the face was up last.
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaceState {
    /// A connection attempt is scheduled.
    Scheduled(Timestamp),
    /// The host name is being resolved.
    Resolving(OperationId),
    /// The connection is being established.
    Connecting(OperationId),
    /// Connected. `is_owned`: created for the configuration, so it is closed when its section is
    /// removed.
    Up { face: FaceId, is_owned: bool },
    /// Not retried: the section is invalid, or the face was destroyed by command.
    Off,
}

impl ConfigSync {
    pub(super) fn next_retry(&self) -> Option<Timestamp> {
        self.attempts.first().map(|(at, _)| *at)
    }

    /// Returns whether differences or routes remain to be applied.
    pub(super) fn has_work(&self) -> bool {
        self.reload.is_some() || !self.pending_routes.is_empty()
    }

    /// A face closed without a command.
    pub(super) fn on_face_closed(&mut self, now: Timestamp, id: FaceId) {
        if let Some(uri) = self.uri_of(id) {
            self.schedule_retry(now, &uri);
        }
    }

    /// A face is destroyed by command.
    pub(super) fn on_face_destroyed(&mut self, id: FaceId) {
        if let Some(uri) = self.uri_of(id) {
            self.set_state(&uri, FaceState::Off);
        }
    }

    fn uri_of(&self, id: FaceId) -> Option<String> {
        self.faces.iter().find(|(_, face)| face.id() == Some(id)).map(|(uri, _)| uri.clone())
    }

    fn schedule_retry(&mut self, now: Timestamp, uri: &str) {
        let Some(face) = self.faces.get_mut(uri) else { return };
        let wait_ms = RETRY_FIRST_MS
            .checked_shl(face.failures.min(16))
            .unwrap_or(RETRY_MAX_MS)
            .min(RETRY_MAX_MS);
        face.failures += 1;
        self.set_state(uri, FaceState::Scheduled(now.plus_millis(wait_ms)));
    }

    fn set_state(&mut self, uri: &str, state: FaceState) {
        let Some(face) = self.faces.get_mut(uri) else { return };
        if let FaceState::Scheduled(at) = face.state {
            self.attempts.remove(&(at, uri.to_owned()));
        }
        face.state = state;
        if let FaceState::Scheduled(at) = state {
            self.attempts.insert((at, uri.to_owned()));
        }
    }
}

impl ConfiguredFace {
    const fn id(&self) -> Option<FaceId> {
        match self.state {
            FaceState::Up { face, .. } => Some(face),
            FaceState::Scheduled(_)
            | FaceState::Resolving(_)
            | FaceState::Connecting(_)
            | FaceState::Off => None,
        }
    }
}

/// Walks the desired and the current state in the order of their keys.
#[derive(Debug)]
struct Merge<K, V> {
    desired: Peekable<vec::IntoIter<(K, V)>>,
    last_key: Option<K>,
}

enum Difference<K, V> {
    /// The key is no longer desired.
    Removed(K),
    /// The key is desired, and may already exist.
    Desired(K, V),
}

impl<K: Ord + Clone, V> Merge<K, V> {
    fn new(desired: Vec<(K, V)>) -> Self {
        Merge { desired: desired.into_iter().peekable(), last_key: None }
    }

    /// Returns the next key of either side, or `None` at the end.
    fn next<W>(&mut self, current: &BTreeMap<K, W>) -> Option<Difference<K, V>> {
        let from = self.last_key.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next_current = current.range((from, Bound::Unbounded)).next().map(|(key, _)| key);
        let removed = next_current
            .filter(|key| self.desired.peek().is_none_or(|(desired, _)| *key < desired));
        let difference = match removed {
            Some(removed) => Difference::Removed(removed.clone()),
            None => self.desired.next().map(|(key, value)| Difference::Desired(key, value))?,
        };
        let (Difference::Removed(key) | Difference::Desired(key, _)) = &difference;
        self.last_key = Some(key.clone());
        Some(difference)
    }
}

impl Control {
    /// Starts to apply a configuration; [`work`](Self::work) continues.
    pub(super) fn start_config_sync(&mut self, desired: DesiredConfig) {
        self.config_sync.reload = Some(Reload {
            strategies: Merge::new(desired.strategies),
            faces: Merge::new(desired.faces),
            routes: Merge::new(desired.routes),
            removed_faces: Vec::new(),
        });
    }

    pub(super) fn config_sync_step(&mut self, now: Timestamp, env: &mut dyn Environment) {
        for _ in 0..DIFFERENCES_PER_PART {
            let Some(mut reload) = self.config_sync.reload.take() else { break };
            let has_more = self.apply_next_difference(now, &mut reload, env);
            if has_more {
                self.config_sync.reload = Some(reload);
            }
        }
        if self.config_sync.next_retry().is_some_and(|at| at <= now) {
            self.create_due_faces(now, env);
        }
        for _ in 0..DIFFERENCES_PER_PART {
            let Some((uri, last_prefix)) = self.config_sync.pending_routes.pop_front() else {
                break;
            };
            self.register_next_route(uri, last_prefix, env);
        }
    }

    /// Returns `false` at the end.
    fn apply_next_difference(
        &mut self,
        now: Timestamp,
        reload: &mut Reload,
        env: &mut dyn Environment,
    ) -> bool {
        if let Some(difference) = reload.strategies.next(&self.config_sync.strategies) {
            self.apply_strategy(difference, env);
        } else if let Some(difference) = reload.faces.next(&self.config_sync.faces) {
            match difference {
                Difference::Removed(uri) => reload.removed_faces.push(uri),
                Difference::Desired(uri, item) => self.apply_configured_face(now, uri, item, env),
            }
        } else if let Some(difference) = reload.routes.next(&self.config_sync.routes) {
            self.apply_route(difference, env);
        } else if let Some(uri) = reload.removed_faces.pop() {
            self.remove_configured_face(&uri, env);
        } else {
            return false;
        }
        true
    }

    fn apply_strategy(&mut self, difference: Difference<Name, Name>, env: &mut dyn Environment) {
        match difference {
            Difference::Removed(prefix) => {
                self.config_sync.strategies.remove(&prefix);
                self.choose_default_strategy(prefix.as_ref(), env);
            }
            Difference::Desired(prefix, strategy) => {
                if self.config_sync.strategies.get(&prefix) != Some(&strategy) {
                    let result = self.choose_strategy(prefix.as_ref(), strategy.as_ref(), env);
                    log_refusal(&format!("the strategy of {prefix}"), result);
                    self.config_sync.strategies.insert(prefix, strategy);
                }
            }
        }
    }

    fn remove_configured_face(&mut self, uri: &str, env: &mut dyn Environment) {
        // Cancels a scheduled attempt.
        if matches!(
            self.config_sync.faces.get(uri),
            Some(ConfiguredFace { state: FaceState::Scheduled(_), .. })
        ) {
            self.config_sync.set_state(uri, FaceState::Off);
        }
        let removed = self.config_sync.faces.remove(uri);
        if let Some(ConfiguredFace { state: FaceState::Up { face, is_owned: true }, .. }) = removed
        {
            env.destroy_face(face);
        }
    }

    fn apply_configured_face(
        &mut self,
        now: Timestamp,
        uri: String,
        item: FaceItem,
        env: &mut dyn Environment,
    ) {
        let existing = self.config_sync.faces.get_mut(&uri);
        let state = existing.as_ref().map(|face| face.state);
        match (existing, state) {
            // An unchanged section changes nothing; a changed one is tried again.
            (Some(face), _) if face.item == item => {}
            (Some(face), Some(FaceState::Up { face: id, .. })) => {
                face.item = item.clone();
                let result = env.update_face(id, &face_options(&item));
                log_refusal(&uri, result.map_err(|refusal| Refusal::new(409, refusal.text)));
            }
            (Some(face), Some(FaceState::Resolving(_) | FaceState::Connecting(_))) => {
                face.item = item
            }
            (Some(face), _) => {
                (face.item, face.failures) = (item, 0);
                self.config_sync.set_state(&uri, FaceState::Scheduled(now));
            }
            (None, _) => {
                let face = ConfiguredFace { item, state: FaceState::Off, failures: 0 };
                self.config_sync.faces.insert(uri.clone(), face);
                self.config_sync.set_state(&uri, FaceState::Scheduled(now));
            }
        }
    }

    fn apply_route(
        &mut self,
        difference: Difference<RouteKey, RouteItem>,
        env: &mut dyn Environment,
    ) {
        let face_of =
            |sync: &ConfigSync, uri: &str| sync.faces.get(uri).and_then(ConfiguredFace::id);
        match difference {
            Difference::Removed(key) => {
                self.config_sync.routes.remove(&key);
                if let Some(face) = face_of(&self.config_sync, &key.0) {
                    self.rib.unregister(key.1.as_ref(), face, origin::STATIC);
                    log_refusal("removal of a route", self.commit(env));
                }
            }
            Difference::Desired(key, item) => {
                if self.config_sync.routes.get(&key) == Some(&item) {
                    return;
                }
                if let Some(face) = face_of(&self.config_sync, &key.0) {
                    self.put_configured_route(&item, face, env);
                }
                self.config_sync.routes.insert(key, item);
            }
        }
    }

    /// Registers the next route of a face that came up.
    fn register_next_route(
        &mut self,
        uri: String,
        last_prefix: Option<Name>,
        env: &mut dyn Environment,
    ) {
        let Some(face) = self.config_sync.faces.get(&uri).and_then(ConfiguredFace::id) else {
            return;
        };
        let from = match last_prefix {
            Some(prefix) => Bound::Excluded((uri.clone(), prefix)),
            None => Bound::Included((uri.clone(), Name::new())),
        };
        let next = self.config_sync.routes.range((from, Bound::Unbounded)).next();
        let Some((_, item)) = next.filter(|((face_uri, _), _)| *face_uri == uri) else { return };
        let item = item.clone();
        self.put_configured_route(&item, face, env);
        self.config_sync.pending_routes.push_front((uri, Some(item.prefix)));
    }

    /// Creates the faces with due attempts, at most [`FACES_PER_PART`].
    pub(super) fn create_due_faces(&mut self, now: Timestamp, env: &mut dyn Environment) {
        for _ in 0..FACES_PER_PART {
            let uri = match self.config_sync.attempts.first() {
                Some((at, uri)) if *at <= now => uri.clone(),
                _ => return,
            };
            if !has_host_name(&uri) {
                self.create_configured_face(now, &uri, &uri, env);
                continue;
            }
            // Resolved at each attempt, as the address may have changed.
            let operation = self.next_operation();
            self.config_sync.set_state(&uri, FaceState::Resolving(operation));
            if !env.resolve(operation, &uri) {
                let refusal = Refusal::new(504, "too many host names are being looked up");
                self.configured_face_failed(now, &uri, &refusal);
            }
        }
    }

    /// Creates the face of the section `uri` with the remote URI `address`.
    fn try_create(
        &mut self,
        uri: &str,
        address: &str,
        env: &mut dyn Environment,
    ) -> Result<(), Refusal> {
        let operation = self.next_operation();
        let Some(face) = self.config_sync.faces.get(uri) else { return Ok(()) };
        let options = face_options(&face.item);
        let request = FaceRequest {
            uri: address,
            local_uri: face.item.local_uri.as_ref().map(|uri| uri.0.as_str()),
            persistency: options.persistency.unwrap_or(FacePersistency::Persistent),
            options: FaceChange { persistency: None, ..options },
        };
        let created = env.create_face(operation, &request);
        self.config_sync.set_state(uri, FaceState::Connecting(operation));
        match created {
            FaceCreation::Connecting => {}
            FaceCreation::Created(face) => self.configured_face_up(uri, face, true),
            FaceCreation::Exists(face) => self.configured_face_up(uri, face, false),
            FaceCreation::Refused(refusal) => return Err(refusal),
        }
        Ok(())
    }

    fn create_configured_face(
        &mut self,
        now: Timestamp,
        uri: &str,
        address: &str,
        env: &mut dyn Environment,
    ) {
        if let Err(refusal) = self.try_create(uri, address, env) {
            self.configured_face_failed(now, uri, &refusal);
        }
    }

    /// Completes [`Environment::resolve`].
    pub fn on_host_resolved(
        &mut self,
        now: Timestamp,
        operation: OperationId,
        addresses: Result<Vec<String>, String>,
        env: &mut dyn Environment,
    ) {
        let mut faces = self.config_sync.faces.iter();
        let uri = faces
            .find(|(_, face)| face.state == FaceState::Resolving(operation))
            .map(|(uri, _)| uri.clone());
        // The section may have been removed.
        let Some(uri) = uri else { return };
        let mut last_error = match &addresses {
            Ok(_) => Refusal::new(504, "its host name has no address"),
            Err(reason) => Refusal::new(504, reason.clone()),
        };
        // In the resolver's order, until one address can be connected to.
        for address in addresses.unwrap_or_default() {
            match self.try_create(&uri, &address, env) {
                Ok(()) => return,
                // A later address or attempt may succeed, so the error is never final.
                Err(refusal) => last_error = Refusal::new(504, refusal.text),
            }
        }
        self.configured_face_failed(now, &uri, &last_error);
    }

    pub(super) fn configured_face_connected(
        &mut self,
        now: Timestamp,
        operation: OperationId,
        result: Result<FaceId, Refusal>,
        env: &mut dyn Environment,
    ) {
        let mut faces = self.config_sync.faces.iter();
        let uri = faces
            .find(|(_, face)| face.state == FaceState::Connecting(operation))
            .map(|(uri, _)| uri.clone());
        match (uri, result) {
            (Some(uri), Ok(face)) => self.configured_face_up(&uri, face, true),
            (Some(uri), Err(refusal)) => self.configured_face_failed(now, &uri, &refusal),
            // The section was removed while the face was connecting.
            (None, Ok(face)) => env.destroy_face(face),
            (None, Err(_)) => {}
        }
    }

    fn configured_face_up(&mut self, uri: &str, face: FaceId, is_owned: bool) {
        self.config_sync.set_state(uri, FaceState::Up { face, is_owned });
        if let Some(configured) = self.config_sync.faces.get_mut(uri) {
            configured.failures = 0;
        }
        tracing::info!(uri, %face, "configured face is up");
        self.config_sync.pending_routes.push_back((uri.to_owned(), None));
    }

    fn configured_face_failed(&mut self, now: Timestamp, uri: &str, refusal: &Refusal) {
        // Invalid URIs and options are not retried.
        if (400..500).contains(&refusal.code) && refusal.code != 408 {
            tracing::error!(uri, "configured face can't be made: {}", refusal.text);
            self.config_sync.set_state(uri, FaceState::Off);
        } else {
            self.config_sync.schedule_retry(now, uri);
            tracing::warn!(uri, "configured face is not connected yet: {}", refusal.text);
        }
    }

    fn put_configured_route(&mut self, item: &RouteItem, face: FaceId, env: &mut dyn Environment) {
        let flag_if = |set: bool, flag: u64| if set { flag } else { 0 };
        let route = Route {
            cost: item.cost,
            flags: flag_if(item.child_inherit, flags::CHILD_INHERIT)
                | flag_if(item.capture, flags::CAPTURE),
            expires: Timestamp::NEVER,
        };
        let result = self.put_route(item.prefix.as_ref(), face, origin::STATIC, route, env);
        log_refusal(&format!("the route {} to {}", item.prefix, item.face.0), result);
    }
}

/// Returns whether a URI has a host name in place of an address.
fn has_host_name(uri: &str) -> bool {
    uri.parse::<FaceUri>().is_ok_and(|uri| !uri.is_canonical())
}

fn face_options(item: &FaceItem) -> FaceChange {
    FaceChange {
        persistency: FacePersistency::from_word(item.persistency.as_str()),
        mtu: item.mtu.map(u64::from),
        flags: if item.reliability == Some(true) { flags::RELIABILITY } else { 0 },
        mask: if item.reliability.is_some() { flags::RELIABILITY } else { 0 },
        ..FaceChange::default()
    }
}
