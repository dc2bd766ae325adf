//! Management of a router: commands, datasets, notifications, RIB. No sockets, no threads, time passed in.
//!
//! ```text
//!              on_interest           ┌── commands ──► rib ──► apply_fib ─┐
//!   host ────────────────────────►   │   datasets ──► publisher          │   ► Environment (the host)
//!        face_event, on_timeout      └── events, statics                 ┘
//! ```
//!
//! * What is answered 200 is in effect when the answer leaves.
//! * An Interest is answered within the call when that takes little; what takes longer (a route that a million names inherit, a long dataset, a
//!   batch of routes, a new configuration, erasing from a large content store) is done in parts by [`Control::work`] and answered when done. Faces
//!   that take time to connect are answered by [`Control::face_completed`], notifications when something happens.
//! * State and bounds: the [`Rib`]'s, 64 MiB of published datasets, 4096 notifications, 1024 faces being connected, 16384 answers that wait, 16
//!   erasures under way. Each is shared by face: see `shares.rs`.
//! * Timers: call [`Control::on_timeout`] when [`Control::next_timeout`] has come.

mod advertise;
mod announcement;
pub mod dataset;
pub mod environment;
mod events;
mod face_commands;
mod publisher;
mod quiet;
pub mod rib;
mod self_learning;
mod shares;
mod statics;
mod table_commands;
#[cfg(test)]
mod tests;
mod work;

pub use environment::{
    Authorize, Created, Environment, FaceChange, FaceRequest, FibChange, FibRefusal, Ingress, Refusal,
    Ticket, UpdateRefusal, Verdict,
};

use advertise::Advertiser;
use events::Events;
use nw_api::config::Reach;
use nw_api::management::command::{self, Request};
use nw_api::management::{
    ControlParameters, ControlResponse, Dataset, FaceEventKind, FaceQueryFilter, FaceStatus, Root, Verb,
};
use nw_element_api::{SharedPool, Shortages};
use nw_name::{Component, Name, NameRef};
use nw_tables::{FaceId, Instant};
use nw_trust::{Clocks, Peer};
use nw_wire::{DataBuilder, DigestSha256, Interest, PACKET_LEN_MAX, Token};
use publisher::Publisher;
use quiet::Quiet;
use rib::{ByHand, Rib, Route};
pub use statics::Plan;

/// Checks a Data as a prefix announcement, for fuzzing.
///
/// # Errors
/// What is wrong with it.
#[doc(hidden)]
pub fn check_announcement(wire: &[u8]) -> Result<(), String> {
    announcement::Announcement::check(wire).map(|announcement| {
        announcement.lifetime_ms(0);
    })
}
use statics::Statics;
use std::collections::BTreeMap;
use table_commands::Erasure;
use work::{Asker, Work};

/// FreshnessPeriod of all that management says, milliseconds.
const FRESHNESS_MS: u64 = 1000;
/// Faces that may be connecting at one time on command.
const CONNECTING_MAX: usize = 1024;
/// Bytes of an answer's text.
const TEXT_LEN_MAX: usize = 1024;
/// Routes that end in one call of [`Control::on_timeout`].
const EXPIRE_MAX: usize = 8;
/// Names have at most so many components in the FIB.
const COMPONENTS_MAX: usize = 32;

/// What management is told at its start.
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// Software and version, as `status/general` says it.
    pub version: String,
    /// A random number, for nonces.
    pub seed: u64,
    /// Next hops that a prefix may have in the FIB.
    pub next_hops_max: usize,
    /// Routes, all prefixes together.
    pub routes_max: usize,
}

/// What came of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A dataset or notification was sent.
    Sent,
    /// A command was answered with this code.
    Answered(u64),
    /// It will be answered when something has happened.
    Later,
    /// It will not be answered.
    Silent,
}

/// See the module.
#[derive(Debug)]
pub struct Control {
    config: ControlConfig,
    localhop: Reach,
    rib: Rib,
    publisher: Publisher,
    events: Events,
    statics: Statics,
    /// Commands whose face is being connected.
    connecting: BTreeMap<Ticket, Connecting>,
    tickets: u64,
    /// Answers to the host's own commands that had to wait.
    answered: Vec<(Ticket, ControlResponse)>,
    work: Work,
    refusals: Quiet,
    shortages: Shortages,
    advertiser: Advertiser,
}

/// A command's circumstances.
#[derive(Clone, Copy, Debug)]
struct Asked {
    now: Instant,
    ingress: Ingress,
    root: Root,
    /// What its answer is to carry, so that it satisfies this Interest and no other.
    token: Token,
}

impl Asked {
    /// Reads both clocks.
    fn clocks(&self, env: &dyn Environment) -> Clocks {
        Clocks { elapsed_ms: self.now.as_millis(), unix_ms: env.unix_ms() }
    }
}

/// What carrying out a command comes to.
enum Outcome {
    Done(Box<ControlResponse>),
    /// A face is being connected.
    Connecting(Ticket),
    /// Content goes, a slice at a time.
    Erasing(Erasure),
}

impl From<ControlResponse> for Outcome {
    fn from(response: ControlResponse) -> Self {
        Outcome::Done(Box::new(response))
    }
}

impl From<Refusal> for ControlResponse {
    fn from(refusal: Refusal) -> Self {
        ControlResponse::refuse(refusal.code, refusal.text)
    }
}

impl Control {
    /// Sets up what every router has: strategies, and the way to management itself.
    ///
    /// # Errors
    /// When the environment knows no best-route or multicast strategy, or takes no prefixes.
    pub fn new(config: ControlConfig, env: &mut dyn Environment) -> Result<Self, Refusal> {
        let (strategy, listed) = env.resolve_strategy(named(statics::DEFAULT_STRATEGY).as_ref())?;
        let mut control = Control {
            rib: Rib::new(config.next_hops_max, config.routes_max, strategy, listed),
            localhop: Reach::Nowhere,
            publisher: Publisher::default(),
            events: Events::new(),
            statics: Statics::default(),
            connecting: BTreeMap::new(),
            tickets: 0,
            answered: Vec::new(),
            work: Work::default(),
            advertiser: Advertiser::new(config.seed),
            refusals: Quiet::default(),
            shortages: Shortages::default(),
            config,
        };
        for (prefix, strategy) in statics::BUILT_IN {
            control.choose(named(prefix).as_ref(), named(strategy).as_ref(), env)?;
        }
        control.set_by_hand(named(LOCALHOST_NFD).as_ref(), FaceId::INTERNAL, Some(ByHand::Cost(0)), env)?;
        // Programs look for any management Data under /localhost, as there is where NFD runs.
        control.set_by_hand(named(LOCALHOST).as_ref(), FaceId::INTERNAL, Some(ByHand::Unlisted), env)?;
        Ok(control)
    }

    /// Takes over what a configuration says about faces, routes, strategies and `/localhop/nfd`; at the start, and again when the file was
    /// read again: then only differences are carried out, by [`work`](Self::work). What can't be done is logged, and tried again where that may
    /// help.
    pub fn apply_config(&mut self, mut plan: Plan, env: &mut dyn Environment) {
        let localhop = plan.rest.management.localhop;
        if (localhop == Reach::Nowhere) != (self.localhop == Reach::Nowhere) {
            let by_hand = (localhop != Reach::Nowhere).then_some(ByHand::Cost(0));
            let done = self.set_by_hand(named(LOCALHOP_NFD).as_ref(), FaceId::INTERNAL, by_hand, env);
            log_refusal("/localhop/nfd", done);
        }
        self.localhop = localhop;
        self.apply_advertising(&plan.rest.rib, plan.signer.take(), env);
        self.apply_statics(plan);
    }

    /// An Interest that came to the internal face; `ingress` is the face it came to the router by, `token` what its answer carries.
    pub fn on_interest(
        &mut self,
        now: Instant,
        ingress: Ingress,
        token: Token,
        wire: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        let Ok(interest) = Interest::check(wire) else { return Reply::Silent };
        let Some((root, request)) = command::parse(&interest) else {
            return self.on_discovery(now, ingress, token, &interest, env);
        };
        let served = match root {
            Root::Localhost => ingress.local,
            Root::Localhop => reaches(self.localhop, ingress.local),
        };
        if !served {
            return Reply::Silent;
        }
        let asked = Asked { now, ingress, root, token };
        match request {
            Request::Command { verb, parameters, .. } => {
                if root == Root::Localhop && !verb.is_for_neighbours() {
                    return Reply::Silent;
                }
                self.on_command(asked, &interest, verb, &parameters, authority, env)
            }
            Request::Announce { announcement } => {
                self.on_announcement(asked, &interest, announcement, authority, env)
            }
            Request::Unknown if root == Root::Localhost => {
                let refusal = ControlResponse::refuse(501, "there is no such command");
                self.answer(interest.name(), token, &refusal, env)
            }
            Request::Import { routes } if root == Root::Localhost => {
                self.on_import(asked, &interest, routes, authority, env)
            }
            Request::Dataset { dataset, filter, prefix, version, segment } if root == Root::Localhost => {
                let asks = publisher::Asks {
                    dataset,
                    prefix,
                    version,
                    segment,
                    can_be_prefix: interest.can_be_prefix(),
                    face: ingress.face,
                };
                self.on_dataset(now, asks, filter, token, env)
            }
            Request::Events { sequence } if root == Root::Localhost => {
                match self.events.on_interest(now, sequence, &interest) {
                    events::Answer::Kept(data) => {
                        env.send(data, token);
                        Reply::Sent
                    }
                    events::Answer::Later => Reply::Later,
                    events::Answer::Gone => Reply::Silent,
                }
            }
            Request::Unknown | Request::Import { .. } | Request::Dataset { .. } | Request::Events { .. } => {
                Reply::Silent
            }
        }
    }

    /// An Interest for anything under a name that begins those of datasets, such as `/localhost`: answered by the first of them.
    fn on_discovery(
        &mut self,
        now: Instant,
        ingress: Ingress,
        token: Token,
        interest: &Interest<'_>,
        env: &mut dyn Environment,
    ) -> Reply {
        let name = interest.name();
        if !interest.can_be_prefix() || !ingress.local || name.is_empty() {
            return Reply::Silent;
        }
        let begins = |dataset: &Dataset| {
            *dataset != Dataset::FacesQuery && name.is_prefix_of(dataset.name(Root::Localhost).as_ref())
        };
        let all = [Dataset::StatusGeneral].iter().chain(Dataset::ALL);
        let Some(dataset) = all.copied().find(begins) else { return Reply::Silent };
        let prefix = dataset.name(Root::Localhost);
        let asks = publisher::Asks {
            dataset,
            prefix: prefix.as_ref(),
            version: None,
            segment: None,
            can_be_prefix: true,
            face: ingress.face,
        };
        self.on_dataset(now, asks, FaceQueryFilter::default(), token, env)
    }

    /// Something happened to a face. Tell every creation and end, and links that fail and work again.
    pub fn face_event(
        &mut self,
        now: Instant,
        kind: FaceEventKind,
        face: &FaceStatus,
        env: &mut dyn Environment,
    ) {
        if let Some(data) = self.events.notify(now, kind, face) {
            // Several wait for it, in Interests of different names.
            env.send(data, Token::NONE);
        }
        let Some(id) = FaceId::from_number(face.face_id) else { return };
        self.advertise_to_face(now, id, (kind != FaceEventKind::Destroyed).then_some(face.uri.as_str()));
        if kind == FaceEventKind::Destroyed {
            self.rib.remove_face(id);
            log_refusal(&face.uri, self.commit(env));
            self.statics.face_gone(now, id);
        }
    }

    /// A face that took time to connect is there, or won't be. See [`Environment::create_face`].
    pub fn face_completed(
        &mut self,
        now: Instant,
        ticket: Ticket,
        done: Result<FaceId, Refusal>,
        env: &mut dyn Environment,
    ) {
        if let Some(Connecting { asker, .. }) = self.connecting.remove(&ticket) {
            let created = match done {
                Ok(face) => Created::Now(face),
                Err(refusal) => Created::Refused(refusal),
            };
            let response = face_commands::created(&created, env);
            self.answer_asker(asker, response, env);
        } else {
            self.static_completed(now, ticket, done, env);
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called; [`Instant::NEVER`] when nothing waits.
    pub fn next_timeout(&self) -> Instant {
        let statics = self.statics.next_retry();
        let timers =
            [self.rib.next_expiry(), self.publisher.next_expiry(), statics, self.advertiser.next_timeout()];
        timers.into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// Ends routes and datasets whose time has come, and tries static faces again. Work is bounded: when more is left,
    /// [`next_timeout`](Self::next_timeout) is in the past.
    pub fn on_timeout(&mut self, now: Instant, env: &mut dyn Environment) {
        self.rib.expire(now, EXPIRE_MAX);
        log_refusal("an expired route", self.commit(env));
        self.publisher.expire(now);
        self.retry_statics(now, env);
        self.tell_others(now, env);
    }

    /// Routes, next hops and strategies.
    pub const fn rib(&self) -> &Rib {
        &self.rib
    }

    fn on_command(
        &mut self,
        asked: Asked,
        interest: &Interest<'_>,
        verb: Verb,
        parameters: &ControlParameters,
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        let prefix = prefix_of(verb, parameters);
        match authority.command(
            asked.clocks(env),
            interest,
            asked.ingress,
            verb.module(),
            verb.word(),
            prefix,
        ) {
            Verdict::Silent => return Reply::Silent,
            Verdict::Later => return Reply::Later,
            Verdict::Deny(why) => return self.deny(asked, interest, &why, env),
            Verdict::Accept => {}
        }
        if self.is_busy(asked.ingress.face) {
            let refusal = ControlResponse::refuse(503, "too many changes are under way: try again");
            return self.answer(interest.name(), asked.token, &refusal, env);
        }
        let before = self.rib.asked();
        let outcome = match verb.check(parameters) {
            Err(why) => ControlResponse::refuse(400, why).into(),
            Ok(()) => self.carry_out(asked, verb, parameters, env),
        };
        match outcome {
            Outcome::Done(response) => {
                let response = as_protocol_answers(verb, *response);
                tracing::debug!(%verb, face = %asked.ingress.face, code = response.code, text = %response.text, "command");
                let about = prefix.filter(|name| response.is_ok() && self.rib.is_walking(*name));
                if about.is_some() || response.is_ok() && self.rib.asked() > before {
                    return self.answer_when_in_effect(interest.name(), asked, response, env);
                }
                self.answer(interest.name(), asked.token, &response, env)
            }
            Outcome::Connecting(ticket) => {
                let asker = Asker::Interest(interest.name().to_name(), asked.token);
                self.connecting.insert(ticket, Connecting { asker, face: asked.ingress.face });
                Reply::Later
            }
            Outcome::Erasing(erasure) => {
                let asker = Asker::Interest(interest.name().to_name(), asked.token);
                self.erase_in_parts(asker, asked.ingress.face, erasure);
                Reply::Later
            }
        }
    }

    /// Carries out a command that the host itself received and authorised. `Err` is the ticket under which
    /// [`take_answered`](Self::take_answered) will have the answer: when a face is being connected, or what was asked takes long.
    ///
    /// # Errors
    /// See above: it is no failure.
    pub fn command(
        &mut self,
        now: Instant,
        verb: Verb,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Result<ControlResponse, Ticket> {
        if let Err(why) = verb.check(parameters) {
            return Ok(ControlResponse::refuse(400, why));
        }
        if self.is_busy(FaceId::INTERNAL) {
            return Ok(ControlResponse::refuse(503, "too many changes are under way: try again"));
        }
        let peer = Peer::Face(FaceId::INTERNAL.number());
        let ingress = Ingress { face: FaceId::INTERNAL, local: true, peer };
        let asked = Asked { now, ingress, root: Root::Localhost, token: Token::NONE };
        match self.carry_out(asked, verb, parameters, env) {
            Outcome::Done(response) => {
                tracing::debug!(%verb, code = response.code, text = %response.text, "command by REST");
                self.own_when_in_effect(bounded(*response))
            }
            Outcome::Connecting(ticket) => {
                let connecting = Connecting { asker: Asker::Host(ticket), face: FaceId::INTERNAL };
                self.connecting.insert(ticket, connecting);
                Err(ticket)
            }
            Outcome::Erasing(erasure) => {
                let ticket = self.next_ticket();
                self.erase_in_parts(Asker::Host(ticket), FaceId::INTERNAL, erasure);
                Err(ticket)
            }
        }
    }

    /// Returns how often pools of management were short.
    pub fn shortages(&self) -> Shortages {
        let mut all = self.shortages.clone();
        let of_datasets = self.publisher.shortages();
        all.set(SharedPool::Commands, all.count(SharedPool::Commands) + of_datasets);
        all
    }

    /// Answers to commands of the host that had to wait.
    pub fn take_answered(&mut self) -> Vec<(Ticket, ControlResponse)> {
        std::mem::take(&mut self.answered)
    }

    /// Software and version.
    pub fn version(&self) -> &str {
        &self.config.version
    }

    /// 403, and a line in the log: a few of them a second.
    fn deny(&mut self, asked: Asked, interest: &Interest<'_>, why: &str, env: &mut dyn Environment) -> Reply {
        if let Some(unsaid) = self.refusals.speak(asked.now) {
            let name = interest.name().prefix(4);
            tracing::info!(face = %asked.ingress.face, local = asked.ingress.local, command = %name, unsaid, "command refused: {why}");
        }
        self.answer(interest.name(), asked.token, &ControlResponse::refuse(403, why), env)
    }

    fn carry_out(
        &mut self,
        asked: Asked,
        verb: Verb,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Outcome {
        match verb {
            Verb::FacesCreate => self.create_face(asked, parameters, env),
            Verb::FacesUpdate => face_commands::update(asked, parameters, env).into(),
            Verb::FacesDestroy => self.destroy_face(parameters, env).into(),
            Verb::FibAddNextHop => self.add_next_hop(asked, parameters, env).into(),
            Verb::FibRemoveNextHop => self.remove_next_hop(asked, parameters, env).into(),
            Verb::RibRegister => self.register(asked, parameters, env).into(),
            Verb::RibUnregister => self.unregister(asked, parameters, env).into(),
            Verb::RibAnnounce => {
                ControlResponse::refuse(400, "a prefix announcement goes in ApplicationParameters").into()
            }
            Verb::CsConfig => table_commands::cs_config(parameters, env).into(),
            Verb::CsErase => self.erase(asked, parameters, env),
            Verb::StrategyChoiceSet => self.set_strategy(parameters, env).into(),
            Verb::StrategyChoiceUnset => self.unset_strategy(parameters, env).into(),
        }
    }

    fn erase(&mut self, asked: Asked, parameters: &ControlParameters, env: &mut dyn Environment) -> Outcome {
        if !self.has_place_for_erasure(asked.ingress.face) {
            return ControlResponse::refuse(503, "too many erasures are going on; ask again").into();
        }
        let mut erasure = Erasure::new(parameters);
        match erasure.go_on(env) {
            Some(response) => response.into(),
            None => Outcome::Erasing(erasure),
        }
    }

    /// "Reply: Data with the Interest's name, Content = ControlResponse, FreshnessPeriod 1 s."
    ///
    /// Not to be cached: two commands of one name may be years apart when nothing in them differs.
    fn answer(
        &self,
        name: NameRef<'_>,
        token: Token,
        response: &ControlResponse,
        env: &mut dyn Environment,
    ) -> Reply {
        let encode = |response: &ControlResponse| {
            let content = response.encode();
            let Ok(wire) = DataBuilder::new(name, &content).freshness_ms(FRESHNESS_MS).encode(&DigestSha256);
            wire
        };
        let mut wire = encode(&bounded(response.clone()));
        if wire.len() > PACKET_LEN_MAX {
            // A name said twice can be too long.
            wire =
                encode(&ControlResponse { body: ControlParameters::default(), ..bounded(response.clone()) });
        }
        if wire.len() > PACKET_LEN_MAX {
            // So can a text behind a long name.
            wire = encode(&ControlResponse::refuse(response.code, ""));
        }
        if wire.len() > PACKET_LEN_MAX {
            return Reply::Silent;
        }
        env.send(&wire, token);
        Reply::Answered(response.code)
    }

    /// Tells the FIB what it has not been told.
    fn commit(&mut self, env: &mut dyn Environment) -> Result<(), Refusal> {
        let told =
            self.rib.flush(|changes| env.apply_fib(changes).map_err(|refusal| (refusal.index, refusal.text)));
        told.map_err(|text| Refusal::new(507, text))
    }

    /// Adds or replaces a route; all or nothing.
    fn put_route(
        &mut self,
        name: NameRef<'_>,
        face: FaceId,
        origin: u64,
        route: Route,
        env: &mut dyn Environment,
    ) -> Result<(), Refusal> {
        let before = self.rib.register(name, face, origin, route);
        let before = before.map_err(|too_many| {
            Refusal::new(507, format!("there are {} routes already, which is the limit", too_many.0))
        })?;
        let Err(refusal) = self.commit(env) else { return Ok(()) };
        match before {
            // What was there fits the limit.
            Some(before) => drop(self.rib.register(name, face, origin, before)),
            None => drop(self.rib.unregister(name, face, origin)),
        }
        log_refusal("a change taken back", self.commit(env));
        Err(refusal)
    }

    /// Sets or forgets a next hop that is no route; all or nothing.
    fn set_by_hand(
        &mut self,
        name: NameRef<'_>,
        face: FaceId,
        by_hand: Option<ByHand>,
        env: &mut dyn Environment,
    ) -> Result<(), Refusal> {
        let before = self.rib.set_by_hand(name, face, by_hand);
        let before = before.map_err(|too_many| {
            Refusal::new(507, format!("there are {} routes already, which is the limit", too_many.0))
        })?;
        let Err(refusal) = self.commit(env) else { return Ok(()) };
        // What was there fits the limit.
        let _ = self.rib.set_by_hand(name, face, before);
        log_refusal("a change taken back", self.commit(env));
        Err(refusal)
    }

    /// Chooses a strategy; all or nothing. Gives the name it is listed by.
    fn choose(
        &mut self,
        name: NameRef<'_>,
        strategy: NameRef<'_>,
        env: &mut dyn Environment,
    ) -> Result<Name, Refusal> {
        let (id, listed) = env.resolve_strategy(strategy)?;
        let before = self.rib.set_strategy(name, id, listed.clone());
        let Err(refusal) = self.commit(env) else { return Ok(listed) };
        match before {
            Some((id, listed)) => drop(self.rib.set_strategy(name, id, listed)),
            None => drop(self.rib.unset_strategy(name)),
        }
        log_refusal("a change taken back", self.commit(env));
        Err(refusal)
    }

    fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }
}

/// A command whose face is being connected.
#[derive(Debug)]
struct Connecting {
    asker: Asker,
    /// The face that uses this place.
    face: FaceId,
}

/// The answer with its text cut to [`TEXT_LEN_MAX`]: texts repeat what was sent, which may be as long as a packet.
fn bounded(mut response: ControlResponse) -> ControlResponse {
    if response.text.len() > TEXT_LEN_MAX {
        let end = response.text.floor_char_boundary(TEXT_LEN_MAX);
        response.text.truncate(end);
        response.text.push_str(" …");
    }
    response
}

/// What the management protocol answers: "always 200" where something is removed, also when it was not there. The text says so then.
fn as_protocol_answers(verb: Verb, response: ControlResponse) -> ControlResponse {
    match verb {
        Verb::FacesDestroy | Verb::RibUnregister | Verb::FibRemoveNextHop | Verb::StrategyChoiceUnset
            if response.code == 404 =>
        {
            response.into_nothing_removed()
        }
        _ => response,
    }
}

const LOCALHOST: &str = "/localhost";
const LOCALHOST_NFD: &str = "/localhost/nfd";
const LOCALHOP_NFD: &str = "/localhop/nfd";

fn named(uri: &str) -> Name {
    uri.parse().expect("a constant name")
}

/// True for names that only the router itself answers: nobody may take management's place.
fn is_reserved(name: NameRef<'_>) -> bool {
    const OWN: [[&[u8]; 2]; 2] = [[b"localhost", b"nfd"], [b"localhop", b"nfd"]];
    let mut components = name.components();
    let first = [components.next(), components.next()];
    OWN.iter()
        .any(|own| own.iter().zip(&first).all(|(own, component)| *component == Some(Component::generic(own))))
}

/// What a command is about, for commands that are about a prefix; one that does not say it is about all names.
fn prefix_of(verb: Verb, parameters: &ControlParameters) -> Option<NameRef<'_>> {
    match verb {
        Verb::FacesCreate | Verb::FacesUpdate | Verb::FacesDestroy | Verb::CsConfig => None,
        Verb::FibAddNextHop
        | Verb::FibRemoveNextHop
        | Verb::RibRegister
        | Verb::RibUnregister
        | Verb::RibAnnounce
        | Verb::CsErase
        | Verb::StrategyChoiceSet
        | Verb::StrategyChoiceUnset => {
            Some(parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref()))
        }
    }
}

const fn reaches(reach: Reach, local: bool) -> bool {
    match reach {
        Reach::Nowhere => false,
        Reach::Local => local,
        Reach::Anywhere => true,
    }
}

fn log_refusal<T>(what: &str, done: Result<T, Refusal>) {
    if let Err(refusal) = done {
        tracing::warn!(what, code = refusal.code, "{}", refusal.text);
    }
}
