//! Faces, routes and strategies of the configuration file: made, kept, and changed when the file is.
//!
//! A face that can't be connected, or ends, is tried again: after 1 s, then twice as long each time, up to a minute. One that somebody destroys by
//! command stays away until the file says something new about it. A host name is looked up each time.
//!
//! A file may name many thousands of each, so what differs is found and carried out a part at a time: what the file says and what was carried out
//! are both in order, and a [`Plan`] is put in order by whoever read the file, which is not the loop that forwards.

use super::environment::{Created, Environment, FaceChange, FaceRequest, Refusal, Ticket};
use super::rib::Route;
use super::{Control, log_refusal};
use crate::resolver::addresses;
use nw_api::config::{Config, FaceItem, RouteItem, Uri};
use nw_api::management::{FacePersistency, flags, origin};
use nw_faces::FaceUri;
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Instant};
use nw_trust::Signer;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::Peekable;
use std::ops::Bound;
use std::vec;

pub(super) const DEFAULT_STRATEGY: &str = "/localhost/nfd/strategy/best-route";
const MULTICAST: &str = "/localhost/nfd/strategy/multicast";

/// "Defaults that clients expect", beside `/`.
pub(super) const BUILT_IN: [(&str, &str); 3] =
    [("/localhost", MULTICAST), ("/localhost/nfd", DEFAULT_STRATEGY), ("/ndn/broadcast", MULTICAST)];

/// The strategy that a prefix has when nobody says anything.
pub(super) fn built_in(prefix: NameRef<'_>) -> Option<Name> {
    if prefix.is_empty() {
        return Some(super::named(DEFAULT_STRATEGY));
    }
    let found = BUILT_IN.iter().find(|(name, _)| super::named(name).as_ref() == prefix);
    found.map(|(_, strategy)| super::named(strategy))
}

const RETRY_FIRST_MS: u64 = 1000;
const RETRY_MAX_MS: u64 = 60_000;
/// Differences carried out in one part.
const PER_PART: usize = 4;
/// Faces made in one part.
const FACES_PER_PART: usize = 4;

/// A configuration, made ready to be carried out.
#[derive(Debug)]
pub struct Plan {
    /// All but faces, routes and strategies.
    pub(crate) rest: Config,
    /// Signs commands to others; `None` is the one that did so far.
    pub(crate) signer: Option<Signer>,
    strategies: Vec<(Name, Name)>,
    faces: Vec<(String, FaceItem)>,
    routes: Vec<(RouteKey, RouteItem)>,
}

/// Far end and prefix: routes to one face stand together.
type RouteKey = (String, Name);

impl Plan {
    /// With what signs commands to others.
    #[must_use]
    pub fn signed_by(mut self, signer: Signer) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Takes the time that a long file takes.
    pub fn of(mut config: Config) -> Self {
        let routes = std::mem::take(&mut config.route);
        let mut routes: Vec<_> =
            routes.into_iter().map(|route| ((route.face.0.clone(), route.prefix.clone()), route)).collect();
        routes.sort_by(|(one, _), (other, _)| one.cmp(other));
        let faces = std::mem::take(&mut config.face);
        let mut faces: BTreeMap<String, FaceItem> =
            faces.into_iter().map(|face| (face.uri.0.clone(), face)).collect();
        for (_, route) in &routes {
            // A face that only routes name.
            if !faces.contains_key(&route.face.0) {
                faces.insert(route.face.0.clone(), FaceItem::to(route.face.clone()));
            }
        }
        let strategies = std::mem::take(&mut config.strategy);
        let strategies: BTreeMap<Name, Name> =
            strategies.into_iter().map(|choice| (choice.prefix, choice.strategy.0)).collect();
        config.rib.readvertise_to = canonical(&config.rib.readvertise_to);
        let (strategies, faces) = (strategies.into_iter().collect(), faces.into_iter().collect());
        Plan { rest: config, signer: None, strategies, faces, routes }
    }
}

/// Face URIs as faces have them: with ports, and addresses in place of host names. Waits for the system's resolver.
fn canonical(uris: &[Uri]) -> Vec<Uri> {
    let mut found = Vec::new();
    for uri in uris {
        match addresses(&uri.0) {
            Ok(addresses) => found.extend(addresses.into_iter().map(Uri)),
            Err(why) => {
                tracing::warn!(
                    uri = uri.0,
                    "this face is told of no prefix until the file is read again: {why}"
                );
            }
        }
    }
    found
}

/// What the file says, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Statics {
    faces: BTreeMap<String, StaticFace>,
    /// Faces to be made, by time.
    wanted: BTreeSet<(Instant, String)>,
    routes: BTreeMap<RouteKey, RouteItem>,
    strategies: BTreeMap<Name, Name>,
    /// Which file says something else, and how far that was carried out.
    reload: Option<Reload>,
    /// Faces that came up whose routes are to be registered, and the prefix it has come to.
    filling: VecDeque<(String, Option<Name>)>,
}

#[derive(Debug)]
struct Reload {
    strategies: Merge<Name, Name>,
    faces: Merge<String, FaceItem>,
    routes: Merge<RouteKey, RouteItem>,
    /// Faces that end when their routes are gone.
    gone: Vec<String>,
}

#[derive(Debug)]
struct StaticFace {
    item: FaceItem,
    state: State,
    /// Attempts that failed since it last was there.
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be made at this time.
    Wanted(Instant),
    /// Its host name is being looked up.
    Resolving(Ticket),
    Connecting(Ticket),
    /// There. `ours`: made because of the file, so it ends when the file no longer has it.
    Up {
        face: FaceId,
        ours: bool,
    },
    /// Not to be made: it can't be, or somebody destroyed it.
    Off,
}

impl Statics {
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.wanted.first().map(|(at, _)| *at)
    }

    /// True when something is to be carried out now.
    pub(super) fn has_work(&self) -> bool {
        self.reload.is_some() || !self.filling.is_empty()
    }

    /// A face ended by itself.
    pub(super) fn face_gone(&mut self, now: Instant, id: FaceId) {
        if let Some(uri) = self.uri_of(id) {
            self.fail(now, &uri);
        }
    }

    /// A face is being destroyed by command.
    pub(super) fn face_unwanted(&mut self, id: FaceId) {
        if let Some(uri) = self.uri_of(id) {
            self.set(&uri, State::Off);
        }
    }

    fn uri_of(&self, id: FaceId) -> Option<String> {
        self.faces.iter().find(|(_, face)| face.id() == Some(id)).map(|(uri, _)| uri.clone())
    }

    fn fail(&mut self, now: Instant, uri: &str) {
        let Some(face) = self.faces.get_mut(uri) else { return };
        let wait_ms =
            RETRY_FIRST_MS.checked_shl(face.failures.min(16)).unwrap_or(RETRY_MAX_MS).min(RETRY_MAX_MS);
        face.failures += 1;
        self.set(uri, State::Wanted(now.plus_millis(wait_ms)));
    }

    fn set(&mut self, uri: &str, state: State) {
        let Some(face) = self.faces.get_mut(uri) else { return };
        if let State::Wanted(at) = face.state {
            self.wanted.remove(&(at, uri.to_owned()));
        }
        face.state = state;
        if let State::Wanted(at) = state {
            self.wanted.insert((at, uri.to_owned()));
        }
    }
}

impl StaticFace {
    const fn id(&self) -> Option<FaceId> {
        match self.state {
            State::Up { face, .. } => Some(face),
            State::Wanted(_) | State::Resolving(_) | State::Connecting(_) | State::Off => None,
        }
    }
}

/// What was carried out, walked beside what is wanted; both in order.
#[derive(Debug)]
struct Merge<K, V> {
    wanted: Peekable<vec::IntoIter<(K, V)>>,
    behind: Option<K>,
}

enum Difference<K, V> {
    /// It is no longer wanted.
    Gone(K),
    /// It is wanted; there may be one already.
    Wanted(K, V),
}

impl<K: Ord + Clone, V> Merge<K, V> {
    fn new(wanted: Vec<(K, V)>) -> Self {
        Merge { wanted: wanted.into_iter().peekable(), behind: None }
    }

    /// The next key of either; `None` at the end.
    fn next<W>(&mut self, there: &BTreeMap<K, W>) -> Option<Difference<K, V>> {
        let from = self.behind.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let old = there.range((from, Bound::Unbounded)).next().map(|(key, _)| key);
        let gone = old.filter(|old| self.wanted.peek().is_none_or(|(new, _)| *old < new));
        let difference = match gone {
            Some(gone) => Difference::Gone(gone.clone()),
            None => self.wanted.next().map(|(key, value)| Difference::Wanted(key, value))?,
        };
        let (Difference::Gone(key) | Difference::Wanted(key, _)) = &difference;
        self.behind = Some(key.clone());
        Some(difference)
    }
}

impl Control {
    /// Begins to carry out a plan; [`work`](Self::work) goes on with it.
    pub(super) fn apply_statics(&mut self, plan: Plan) {
        self.statics.reload = Some(Reload {
            strategies: Merge::new(plan.strategies),
            faces: Merge::new(plan.faces),
            routes: Merge::new(plan.routes),
            gone: Vec::new(),
        });
    }

    pub(super) fn work_on_statics(&mut self, now: Instant, env: &mut dyn Environment) {
        for _ in 0..PER_PART {
            let Some(mut reload) = self.statics.reload.take() else { break };
            let more = self.carry_out_next(now, &mut reload, env);
            if more {
                self.statics.reload = Some(reload);
            }
        }
        if self.statics.next_retry().is_some_and(|at| at <= now) {
            self.retry_statics(now, env);
        }
        for _ in 0..PER_PART {
            let Some((uri, behind)) = self.statics.filling.pop_front() else { break };
            self.fill(uri, behind, env);
        }
    }

    /// False at the end.
    fn carry_out_next(&mut self, now: Instant, reload: &mut Reload, env: &mut dyn Environment) -> bool {
        if let Some(difference) = reload.strategies.next(&self.statics.strategies) {
            self.apply_strategy(difference, env);
        } else if let Some(difference) = reload.faces.next(&self.statics.faces) {
            match difference {
                Difference::Gone(uri) => reload.gone.push(uri),
                Difference::Wanted(uri, item) => self.apply_face(now, uri, item, env),
            }
        } else if let Some(difference) = reload.routes.next(&self.statics.routes) {
            self.apply_route(difference, env);
        } else if let Some(uri) = reload.gone.pop() {
            self.end_face(&uri, env);
        } else {
            return false;
        }
        true
    }

    fn apply_strategy(&mut self, difference: Difference<Name, Name>, env: &mut dyn Environment) {
        match difference {
            Difference::Gone(prefix) => {
                self.statics.strategies.remove(&prefix);
                self.choose_built_in(prefix.as_ref(), env);
            }
            Difference::Wanted(prefix, strategy) => {
                if self.statics.strategies.get(&prefix) != Some(&strategy) {
                    let done = self.choose(prefix.as_ref(), strategy.as_ref(), env);
                    log_refusal(&format!("the strategy of {prefix}"), done);
                    self.statics.strategies.insert(prefix, strategy);
                }
            }
        }
    }

    fn end_face(&mut self, uri: &str, env: &mut dyn Environment) {
        // Not to be made any more, if it is not there.
        if matches!(self.statics.faces.get(uri), Some(StaticFace { state: State::Wanted(_), .. })) {
            self.statics.set(uri, State::Off);
        }
        let ended = self.statics.faces.remove(uri);
        if let Some(StaticFace { state: State::Up { face, ours: true }, .. }) = ended {
            env.destroy_face(face);
        }
    }

    fn apply_face(&mut self, now: Instant, uri: String, item: FaceItem, env: &mut dyn Environment) {
        let known = self.statics.faces.get_mut(&uri);
        let state = known.as_ref().map(|face| face.state);
        match (known, state) {
            // Without news the face stays as it is; with some, one that was given up is tried again.
            (Some(face), _) if face.item == item => {}
            (Some(face), Some(State::Up { face: id, .. })) => {
                face.item = item.clone();
                let done = env.update_face(id, &options(&item));
                log_refusal(&uri, done.map_err(|refusal| Refusal::new(409, refusal.text)));
            }
            (Some(face), Some(State::Resolving(_) | State::Connecting(_))) => face.item = item,
            (Some(face), _) => {
                (face.item, face.failures) = (item, 0);
                self.statics.set(&uri, State::Wanted(now));
            }
            (None, _) => {
                let face = StaticFace { item, state: State::Off, failures: 0 };
                self.statics.faces.insert(uri.clone(), face);
                self.statics.set(&uri, State::Wanted(now));
            }
        }
    }

    fn apply_route(&mut self, difference: Difference<RouteKey, RouteItem>, env: &mut dyn Environment) {
        let face_of = |statics: &Statics, uri: &str| statics.faces.get(uri).and_then(StaticFace::id);
        match difference {
            Difference::Gone(key) => {
                self.statics.routes.remove(&key);
                if let Some(face) = face_of(&self.statics, &key.0) {
                    self.rib.unregister(key.1.as_ref(), face, origin::STATIC);
                    log_refusal("a route no longer configured", self.commit(env));
                }
            }
            Difference::Wanted(key, item) => {
                if self.statics.routes.get(&key) == Some(&item) {
                    return;
                }
                if let Some(face) = face_of(&self.statics, &key.0) {
                    self.put_static_route(&item, face, env);
                }
                self.statics.routes.insert(key, item);
            }
        }
    }

    /// Registers the next route of a face that came up.
    fn fill(&mut self, uri: String, behind: Option<Name>, env: &mut dyn Environment) {
        let Some(face) = self.statics.faces.get(&uri).and_then(StaticFace::id) else { return };
        let from = match behind {
            Some(prefix) => Bound::Excluded((uri.clone(), prefix)),
            None => Bound::Included((uri.clone(), Name::new())),
        };
        let next = self.statics.routes.range((from, Bound::Unbounded)).next();
        let Some((_, item)) = next.filter(|((other, _), _)| *other == uri) else { return };
        let item = item.clone();
        self.put_static_route(&item, face, env);
        self.statics.filling.push_front((uri, Some(item.prefix)));
    }

    /// Makes faces whose time has come, a few of them.
    pub(super) fn retry_statics(&mut self, now: Instant, env: &mut dyn Environment) {
        for _ in 0..FACES_PER_PART {
            let uri = match self.statics.wanted.first() {
                Some((at, uri)) if *at <= now => uri.clone(),
                _ => return,
            };
            if !is_host(&uri) {
                self.make_static(now, &uri, &uri, env);
                continue;
            }
            // Each time anew: an address may have changed since.
            let ticket = self.next_ticket();
            self.statics.set(&uri, State::Resolving(ticket));
            if !env.resolve(ticket, &uri) {
                let refusal = Refusal::new(504, "too many host names are being looked up");
                self.static_failed(now, &uri, &refusal);
            }
        }
    }

    /// Makes the face that the file calls `uri`, to `address`.
    fn try_static(&mut self, uri: &str, address: &str, env: &mut dyn Environment) -> Result<(), Refusal> {
        let ticket = self.next_ticket();
        let Some(face) = self.statics.faces.get(uri) else { return Ok(()) };
        let options = options(&face.item);
        let request = FaceRequest {
            uri: address,
            local_uri: face.item.local_uri.as_ref().map(|uri| uri.0.as_str()),
            persistency: options.persistency.unwrap_or(FacePersistency::Persistent),
            options: FaceChange { persistency: None, ..options },
        };
        let created = env.create_face(ticket, &request);
        self.statics.set(uri, State::Connecting(ticket));
        match created {
            Created::Later => {}
            Created::Now(face) => self.static_up(uri, face, true),
            Created::Exists(face) => self.static_up(uri, face, false),
            Created::Refused(refusal) => return Err(refusal),
        }
        Ok(())
    }

    fn make_static(&mut self, now: Instant, uri: &str, address: &str, env: &mut dyn Environment) {
        if let Err(refusal) = self.try_static(uri, address, env) {
            self.static_failed(now, uri, &refusal);
        }
    }

    /// A host name was looked up, as [`Environment::resolve`] was asked to.
    pub fn host_resolved(
        &mut self,
        now: Instant,
        ticket: Ticket,
        addresses: Result<Vec<String>, String>,
        env: &mut dyn Environment,
    ) {
        let mut faces = self.statics.faces.iter();
        let uri = faces.find(|(_, face)| face.state == State::Resolving(ticket)).map(|(uri, _)| uri.clone());
        // The file may no longer have it.
        let Some(uri) = uri else { return };
        let mut why = match &addresses {
            Ok(_) => Refusal::new(504, "its name has no address"),
            Err(why) => Refusal::new(504, why.clone()),
        };
        // In the resolver's order; the next where the system can't reach one at all.
        for address in addresses.unwrap_or_default() {
            match self.try_static(&uri, &address, env) {
                Ok(()) => return,
                // Another address may do, now or later: only what the file says is for good.
                Err(refusal) => why = Refusal::new(504, refusal.text),
            }
        }
        self.static_failed(now, &uri, &why);
    }

    pub(super) fn static_completed(
        &mut self,
        now: Instant,
        ticket: Ticket,
        done: Result<FaceId, Refusal>,
        env: &mut dyn Environment,
    ) {
        let mut faces = self.statics.faces.iter();
        let uri = faces.find(|(_, face)| face.state == State::Connecting(ticket)).map(|(uri, _)| uri.clone());
        match (uri, done) {
            (Some(uri), Ok(face)) => self.static_up(&uri, face, true),
            (Some(uri), Err(refusal)) => self.static_failed(now, &uri, &refusal),
            // The file no longer has it.
            (None, Ok(face)) => env.destroy_face(face),
            (None, Err(_)) => {}
        }
    }

    fn static_up(&mut self, uri: &str, face: FaceId, ours: bool) {
        self.statics.set(uri, State::Up { face, ours });
        if let Some(known) = self.statics.faces.get_mut(uri) {
            known.failures = 0;
        }
        tracing::info!(uri, %face, "configured face is up");
        self.statics.filling.push_back((uri.to_owned(), None));
    }

    fn static_failed(&mut self, now: Instant, uri: &str, refusal: &Refusal) {
        // A URI or option that is wrong stays wrong.
        if (400..500).contains(&refusal.code) && refusal.code != 408 {
            tracing::error!(uri, "configured face can't be made: {}", refusal.text);
            self.statics.set(uri, State::Off);
        } else {
            self.statics.fail(now, uri);
            tracing::warn!(uri, "configured face is not there yet: {}", refusal.text);
        }
    }

    fn put_static_route(&mut self, item: &RouteItem, face: FaceId, env: &mut dyn Environment) {
        let bit = |yes: bool, flag: u64| if yes { flag } else { 0 };
        let route = Route {
            cost: item.cost,
            flags: bit(item.child_inherit, flags::CHILD_INHERIT) | bit(item.capture, flags::CAPTURE),
            expires: Instant::NEVER,
        };
        let done = self.put_route(item.prefix.as_ref(), face, origin::STATIC, route, env);
        log_refusal(&format!("the route {} to {}", item.prefix, item.face.0), done);
    }
}

/// True when a URI has a host name in place of an address.
fn is_host(uri: &str) -> bool {
    uri.parse::<FaceUri>().is_ok_and(|uri| !uri.is_canonical())
}

fn options(item: &FaceItem) -> FaceChange {
    FaceChange {
        persistency: FacePersistency::from_word(item.persistency.as_str()),
        mtu: item.mtu.map(u64::from),
        flags: if item.reliability == Some(true) { flags::RELIABILITY } else { 0 },
        mask: if item.reliability.is_some() { flags::RELIABILITY } else { 0 },
        ..FaceChange::default()
    }
}
