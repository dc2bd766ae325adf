//! Faces, routes and strategies of the configuration file: made, kept, and changed when the file is.
//!
//! A face that can't be connected, or ends, is tried again: after 1 s, then twice as long each time, up to a minute. One that somebody destroys by
//! command stays away until the file says something new about it.

use super::environment::{Created, Environment, FaceChange, FaceRequest, Refusal, Ticket};
use super::rib::Route;
use super::{Control, log_refusal};
use nw_api::config::{Config, FaceItem, RouteItem, StrategyItem};
use nw_api::management::{FacePersistency, flags, origin};
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Instant};

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

/// What the file says, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Statics {
    faces: Vec<StaticFace>,
    routes: Vec<RouteItem>,
    strategies: Vec<StrategyItem>,
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
        let wanted = self.faces.iter().filter_map(|face| match face.state {
            State::Wanted(at) => Some(at),
            State::Connecting(_) | State::Up { .. } | State::Off => None,
        });
        wanted.min()
    }

    /// A face ended by itself.
    pub(super) fn face_gone(&mut self, now: Instant, id: FaceId) {
        for face in &mut self.faces {
            if matches!(face.state, State::Up { face, .. } if face == id) {
                face.fail(now);
            }
        }
    }

    /// A face is being destroyed by command.
    pub(super) fn face_unwanted(&mut self, id: FaceId) {
        for face in &mut self.faces {
            if matches!(face.state, State::Up { face, .. } if face == id) {
                face.state = State::Off;
            }
        }
    }

    /// The face of a route, if it is there.
    fn face_of(&self, route: &RouteItem) -> Option<FaceId> {
        self.faces.iter().find(|face| face.item.uri == route.face).and_then(StaticFace::id)
    }
}

impl StaticFace {
    const fn id(&self) -> Option<FaceId> {
        match self.state {
            State::Up { face, .. } => Some(face),
            State::Wanted(_) | State::Connecting(_) | State::Off => None,
        }
    }

    fn fail(&mut self, now: Instant) {
        let wait_ms =
            RETRY_FIRST_MS.checked_shl(self.failures.min(16)).unwrap_or(RETRY_MAX_MS).min(RETRY_MAX_MS);
        self.failures += 1;
        self.state = State::Wanted(now.plus_millis(wait_ms));
    }
}

impl Control {
    pub(super) fn apply_statics(&mut self, now: Instant, config: &Config, env: &mut dyn Environment) {
        self.apply_strategies(&config.strategy, env);
        let faces_before = std::mem::take(&mut self.statics.faces);
        let routes_before = std::mem::take(&mut self.statics.routes);
        for route in &routes_before {
            let stays =
                config.route.iter().any(|other| other.prefix == route.prefix && other.face == route.face);
            let face = faces_before.iter().find(|face| face.item.uri == route.face).and_then(StaticFace::id);
            if let Some(face) = face.filter(|_| !stays) {
                self.rib.unregister(route.prefix.as_ref(), face, origin::STATIC);
            }
        }
        log_refusal("routes no longer configured", self.commit(env));
        self.apply_faces(now, faces_before, wanted_faces(config), env);
        self.statics.routes = config.route.clone();
        for route in &config.route {
            if let Some(face) = self.statics.face_of(route).filter(|_| !routes_before.contains(route)) {
                self.put_static_route(route, face, env);
            }
        }
        self.retry_statics(now, env);
    }

    fn apply_strategies(&mut self, wanted: &[StrategyItem], env: &mut dyn Environment) {
        let before = std::mem::replace(&mut self.statics.strategies, wanted.to_vec());
        for choice in &before {
            if !wanted.iter().any(|other| other.prefix == choice.prefix) {
                self.choose_built_in(choice.prefix.as_ref(), env);
            }
        }
        for choice in wanted.iter().filter(|choice| !before.contains(choice)) {
            let done = self.choose(choice.prefix.as_ref(), choice.strategy.as_ref(), env);
            log_refusal(&format!("the strategy of {}", choice.prefix), done);
        }
    }

    fn apply_faces(
        &mut self,
        now: Instant,
        before: Vec<StaticFace>,
        wanted: Vec<FaceItem>,
        env: &mut dyn Environment,
    ) {
        for face in &before {
            let stays = wanted.iter().any(|item| item.uri == face.item.uri);
            if let (State::Up { face: id, ours: true }, false) = (face.state, stays) {
                env.destroy_face(id);
            }
        }
        let mut before: Vec<Option<StaticFace>> = before.into_iter().map(Some).collect();
        for item in wanted {
            let known =
                before.iter_mut().find(|face| face.as_ref().is_some_and(|face| face.item.uri == item.uri));
            let new = StaticFace { item: item.clone(), state: State::Wanted(now), failures: 0 };
            let face = match known.and_then(Option::take) {
                // Without news the face stays as it is; with some, one that was given up is tried again.
                Some(face) if face.item == item => face,
                Some(face) => match face.state {
                    State::Up { face: id, .. } => {
                        let done = env.update_face(id, &options(&item));
                        log_refusal(&item.uri.0, done.map_err(|refusal| Refusal::new(409, refusal.text)));
                        StaticFace { item, ..face }
                    }
                    State::Connecting(_) => StaticFace { item, ..face },
                    State::Wanted(_) | State::Off => new,
                },
                None => new,
            };
            self.statics.faces.push(face);
        }
    }

    /// Makes faces whose time has come.
    pub(super) fn retry_statics(&mut self, now: Instant, env: &mut dyn Environment) {
        for at in 0..self.statics.faces.len() {
            if !matches!(self.statics.faces[at].state, State::Wanted(due) if due <= now) {
                continue;
            }
            let ticket = self.next_ticket();
            let item = &self.statics.faces[at].item;
            let options = options(item);
            let request = FaceRequest {
                uri: &item.uri.0,
                local_uri: item.local_uri.as_ref().map(|uri| uri.0.as_str()),
                persistency: options.persistency.unwrap_or(FacePersistency::Persistent),
                options: FaceChange { persistency: None, ..options },
            };
            let created = env.create_face(ticket, &request);
            self.statics.faces[at].state = State::Connecting(ticket);
            match created {
                Created::Later => {}
                Created::Now(face) => self.static_up(at, face, true, env),
                Created::Exists(face) => self.static_up(at, face, false, env),
                Created::Refused(refusal) => self.static_failed(now, at, &refusal),
            }
        }
    }

    pub(super) fn static_completed(
        &mut self,
        now: Instant,
        ticket: Ticket,
        done: Result<FaceId, Refusal>,
        env: &mut dyn Environment,
    ) {
        let at = self.statics.faces.iter().position(|face| face.state == State::Connecting(ticket));
        match (at, done) {
            (Some(at), Ok(face)) => self.static_up(at, face, true, env),
            (Some(at), Err(refusal)) => self.static_failed(now, at, &refusal),
            // The file no longer has it.
            (None, Ok(face)) => env.destroy_face(face),
            (None, Err(_)) => {}
        }
    }

    fn static_up(&mut self, at: usize, face: FaceId, ours: bool, env: &mut dyn Environment) {
        let known = &mut self.statics.faces[at];
        known.state = State::Up { face, ours };
        known.failures = 0;
        let uri = known.item.uri.clone();
        tracing::info!(uri = %uri.0, %face, "configured face is up");
        let routes: Vec<RouteItem> =
            self.statics.routes.iter().filter(|route| route.face == uri).cloned().collect();
        for route in &routes {
            self.put_static_route(route, face, env);
        }
    }

    fn static_failed(&mut self, now: Instant, at: usize, refusal: &Refusal) {
        let face = &mut self.statics.faces[at];
        // A URI or option that is wrong stays wrong.
        if (400..500).contains(&refusal.code) && refusal.code != 408 {
            tracing::error!(uri = %face.item.uri.0, "configured face can't be made: {}", refusal.text);
            face.state = State::Off;
        } else {
            face.fail(now);
            tracing::warn!(uri = %face.item.uri.0, "configured face is not there yet: {}", refusal.text);
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

/// Faces of `[[face]]`, then those that only routes name.
fn wanted_faces(config: &Config) -> Vec<FaceItem> {
    let mut wanted = config.face.clone();
    for route in &config.route {
        if !wanted.iter().any(|face| face.uri == route.face) {
            wanted.push(FaceItem::to(route.face.clone()));
        }
    }
    wanted
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
