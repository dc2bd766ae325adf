//! Management of a router: commands, datasets, notifications and the RIB, in NFD's protocol.
//!
//! A pure state machine: it has no socket and no thread, and time is an argument. The host passes
//! in Interests for `/localhost/nfd` and `/localhop/nfd` and events of faces; [`Control`] calls the
//! host through the trait [`Environment`].
//!
//! ```text
//!            on_interest         ┌── commands ──► rib ──► apply_fib ─┐
//!   host ──────────────────────► │   datasets ──► publisher          │ ─► Environment (the host)
//!     on_face_event, on_timeout  └── events, config_sync             ┘
//! ```
//!
//! * A command that is answered with 200 is in effect when the reply is sent.
//! * Short operations are answered within the call. Long ones (a route that a million names
//!   inherit, a long dataset, a batch of routes, a new configuration, erasing from a large content
//!   store) are split into parts: [`Control::work`] executes one part per call, and the reply
//!   follows the last part. A face that takes time to connect is answered from
//!   [`Control::on_face_connected`].
//! * Bounds: those of the [`Rib`], 64 MiB of published datasets, 4096 notifications, 1024
//!   connecting faces, 16384 deferred replies, 16 erasures. Each pool is shared fairly between
//!   faces (`shares.rs`).
//! * Timers: the host calls [`Control::on_timeout`] at [`Control::next_timeout`].

#![forbid(unsafe_code)]

mod advertise;
mod announcement;
mod background;
mod config_sync;
pub mod dataset;
pub mod environment;
mod events;
mod face_commands;
mod log_limiter;
mod protocol;
mod publisher;
pub mod rib;
mod self_learning;
mod shares;
mod table_commands;
#[cfg(test)]
mod tests;

pub use environment::{
    Authorize, Environment, FaceChange, FaceCreation, FaceRequest, FibChange, FibRefusal, Ingress,
    OperationId, Refusal, UpdateRefusal, Verdict,
};

use advertise::Advertiser;
pub use config_sync::DesiredConfig;
use events::Events;
use log_limiter::LogLimiter;
use nw_api::config::AllowFrom;
use nw_api::management::command::{self, Request};
use nw_api::management::{
    ControlParameters, ControlResponse, Dataset, FaceEventKind, FaceQueryFilter, FaceStatus, Root,
    Verb,
};
use nw_element_api::{SharedPool, Shortages};
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Timestamp};
use nw_trust::{Clocks, PeerGroup};
use nw_wire::{DataBuilder, DigestSha256, Interest, PACKET_LEN_MAX, Token};
use protocol::{
    LOCALHOP_NFD, LOCALHOST, LOCALHOST_NFD, bounded, constant_name, is_reserved,
    to_protocol_response,
};
use publisher::Publisher;
use rib::{DirectNextHop, Rib, Route};

/// Parses a Data packet as a prefix announcement, for fuzzing.
///
/// # Errors
/// The text says what is malformed.
#[doc(hidden)]
pub fn check_announcement(wire: &[u8]) -> Result<(), String> {
    announcement::Announcement::check(wire).map(|announcement| {
        announcement.lifetime_ms(0);
    })
}
use background::{Backlog, ReplyTo};
use config_sync::ConfigSync;
use std::collections::BTreeMap;
use table_commands::Erasure;

/// FreshnessPeriod of all Data packets of management, in milliseconds.
const FRESHNESS_MS: u64 = 1000;
/// Faces created by commands that may be connecting at the same time.
const CONNECTING_MAX: usize = 1024;
/// Routes that expire in one call of [`Control::on_timeout`].
const EXPIRE_MAX: usize = 8;
/// Components that a name in the FIB may have.
const COMPONENTS_MAX: usize = 32;

/// Parameters of [`Control::new`].
#[derive(Clone, Debug)]
pub struct ControlConfig {
    /// Software and version, as shown by the dataset `status/general`.
    pub version: String,
    /// Random seed for nonces.
    pub seed: u64,
    /// Next hops per prefix in the FIB.
    pub next_hops_max: usize,
    /// Routes of all prefixes together.
    pub routes_max: usize,
}

/// How management replied to an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A dataset segment or notification was sent.
    Sent,
    /// A command was answered with this status code.
    Answered(u64),
    /// The reply will be sent later, when the operation is complete or the event occurs.
    Deferred,
    /// No reply is sent.
    Ignored,
}

/// State of management. See the crate's documentation for its contract.
#[derive(Debug)]
pub struct Control {
    config: ControlConfig,
    localhop: AllowFrom,
    rib: Rib,
    publisher: Publisher,
    events: Events,
    config_sync: ConfigSync,
    /// Face creations by command that are connecting.
    pending_connects: BTreeMap<OperationId, PendingConnect>,
    last_operation: u64,
    /// Completed replies to commands of the host that could not be answered at once.
    host_replies: Vec<(OperationId, ControlResponse)>,
    backlog: Backlog,
    refusals: LogLimiter,
    shortages: Shortages,
    advertiser: Advertiser,
}

/// Circumstances under which a command is executed.
#[derive(Clone, Copy, Debug)]
struct CommandContext {
    now: Timestamp,
    ingress: Ingress,
    root: Root,
    /// PIT token of the Interest: the reply carries it and so satisfies this Interest only.
    token: Token,
}

impl CommandContext {
    /// Reads both clocks.
    fn clocks(&self, env: &dyn Environment) -> Clocks {
        Clocks { elapsed_ms: self.now.as_millis(), unix_ms: env.unix_ms() }
    }
}

/// Result of executing a command.
enum Outcome {
    Done(Box<ControlResponse>),
    /// The face is connecting.
    Connecting(OperationId),
    /// An erasure that needs more parts.
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
    /// Creates the state with the default strategy choices and the FIB entries of management
    /// itself.
    ///
    /// # Errors
    /// If the environment lacks the best-route or multicast strategy, or its FIB is too small for
    /// the default entries.
    pub fn new(config: ControlConfig, env: &mut dyn Environment) -> Result<Self, Refusal> {
        let (strategy, listed) =
            env.resolve_strategy(constant_name(config_sync::DEFAULT_STRATEGY).as_ref())?;
        let mut control = Control {
            rib: Rib::new(config.next_hops_max, config.routes_max, strategy, listed),
            localhop: AllowFrom::Nowhere,
            publisher: Publisher::default(),
            events: Events::new(),
            config_sync: ConfigSync::default(),
            pending_connects: BTreeMap::new(),
            last_operation: 0,
            host_replies: Vec::new(),
            backlog: Backlog::default(),
            advertiser: Advertiser::new(config.seed),
            refusals: LogLimiter::default(),
            shortages: Shortages::default(),
            config,
        };
        for (prefix, strategy) in config_sync::DEFAULT_CHOICES {
            control.choose_strategy(
                constant_name(prefix).as_ref(),
                constant_name(strategy).as_ref(),
                env,
            )?;
        }
        control.set_direct(
            constant_name(LOCALHOST_NFD).as_ref(),
            FaceId::INTERNAL,
            Some(DirectNextHop::Cost(0)),
            env,
        )?;
        // ndn-cxx looks for any management Data under /localhost, as NFD answers there.
        control.set_direct(
            constant_name(LOCALHOST).as_ref(),
            FaceId::INTERNAL,
            Some(DirectNextHop::Unlisted),
            env,
        )?;
        Ok(control)
    }

    /// Starts to apply a configuration: faces, routes, strategies and `/localhop/nfd`. Later calls
    /// apply only the differences, through [`work`](Self::work). Failures are logged, and retried
    /// if a retry may succeed.
    pub fn apply_config(&mut self, mut desired: DesiredConfig, env: &mut dyn Environment) {
        let localhop = desired.settings.management.localhop;
        if (localhop == AllowFrom::Nowhere) != (self.localhop == AllowFrom::Nowhere) {
            let direct = (localhop != AllowFrom::Nowhere).then_some(DirectNextHop::Cost(0));
            let result = self.set_direct(
                constant_name(LOCALHOP_NFD).as_ref(),
                FaceId::INTERNAL,
                direct,
                env,
            );
            log_refusal("/localhop/nfd", result);
        }
        self.localhop = localhop;
        self.apply_advertise_options(&desired.settings.rib, desired.signer.take(), env);
        self.start_config_sync(desired);
    }

    /// Processes an Interest received on the internal face. `ingress` is the face on which the
    /// router received it, `token` the PIT token for the reply.
    pub fn on_interest(
        &mut self,
        now: Timestamp,
        ingress: Ingress,
        token: Token,
        wire: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        let Ok(interest) = Interest::check(wire) else { return Reply::Ignored };
        let Some((root, request)) = command::parse(&interest) else {
            return self.on_discovery(now, ingress, token, &interest, env);
        };
        let is_served = match root {
            Root::Localhost => ingress.local,
            Root::Localhop => allows(self.localhop, ingress.local),
        };
        if !is_served {
            return Reply::Ignored;
        }
        let ctx = CommandContext { now, ingress, root, token };
        match request {
            Request::Command { verb, parameters, .. } => {
                if root == Root::Localhop && !verb.is_for_neighbours() {
                    return Reply::Ignored;
                }
                self.on_command(ctx, &interest, verb, &parameters, authority, env)
            }
            Request::Announce { announcement } => {
                self.on_announcement(ctx, &interest, announcement, authority, env)
            }
            Request::Unknown if root == Root::Localhost => {
                let refusal = ControlResponse::refuse(501, "there is no such command");
                self.send_response(interest.name(), token, &refusal, env)
            }
            Request::Import { routes } if root == Root::Localhost => {
                self.on_import(ctx, &interest, routes, authority, env)
            }
            Request::Dataset { dataset, filter, prefix, version, segment }
                if root == Root::Localhost =>
            {
                let request = publisher::DatasetRequest {
                    dataset,
                    prefix,
                    version,
                    segment,
                    can_be_prefix: interest.can_be_prefix(),
                    face: ingress.face,
                };
                self.on_dataset(now, request, filter, token, env)
            }
            Request::Events { sequence } if root == Root::Localhost => {
                match self.events.on_interest(now, sequence, &interest) {
                    events::EventReply::Data(data) => {
                        env.send_data(data, token);
                        Reply::Sent
                    }
                    events::EventReply::Pending => Reply::Deferred,
                    events::EventReply::Unavailable => Reply::Ignored,
                }
            }
            Request::Unknown
            | Request::Import { .. }
            | Request::Dataset { .. }
            | Request::Events { .. } => Reply::Ignored,
        }
    }

    /// Answers an Interest for a name above those of datasets, such as `/localhost`, with the first
    /// dataset below it.
    fn on_discovery(
        &mut self,
        now: Timestamp,
        ingress: Ingress,
        token: Token,
        interest: &Interest<'_>,
        env: &mut dyn Environment,
    ) -> Reply {
        let name = interest.name();
        if !interest.can_be_prefix() || !ingress.local || name.is_empty() {
            return Reply::Ignored;
        }
        let is_below_name = |dataset: &Dataset| {
            *dataset != Dataset::FacesQuery
                && name.is_prefix_of(dataset.name(Root::Localhost).as_ref())
        };
        let datasets = [Dataset::StatusGeneral].iter().chain(Dataset::ALL);
        let Some(dataset) = datasets.copied().find(is_below_name) else { return Reply::Ignored };
        let prefix = dataset.name(Root::Localhost);
        let request = publisher::DatasetRequest {
            dataset,
            prefix: prefix.as_ref(),
            version: None,
            segment: None,
            can_be_prefix: true,
            face: ingress.face,
        };
        self.on_dataset(now, request, FaceQueryFilter::default(), token, env)
    }

    /// Records an event of a face and publishes it. To be called for each face that is created,
    /// closed, goes down or comes up.
    pub fn on_face_event(
        &mut self,
        now: Timestamp,
        kind: FaceEventKind,
        face: &FaceStatus,
        env: &mut dyn Environment,
    ) {
        if let Some(data) = self.events.notify(now, kind, face) {
            // Several Interests with different names may be waiting for it.
            env.send_data(data, Token::NONE);
        }
        let Some(id) = FaceId::from_number(face.face_id) else { return };
        self.update_face_target(
            now,
            id,
            (kind != FaceEventKind::Destroyed).then_some(face.uri.as_str()),
        );
        if kind == FaceEventKind::Destroyed {
            self.rib.remove_face(id);
            log_refusal(&face.uri, self.commit(env));
            self.config_sync.on_face_closed(now, id);
        }
    }

    /// Completes [`Environment::create_face`] with [`FaceCreation::Connecting`]: the face is
    /// connected, or failed.
    pub fn on_face_connected(
        &mut self,
        now: Timestamp,
        operation: OperationId,
        result: Result<FaceId, Refusal>,
        env: &mut dyn Environment,
    ) {
        if let Some(PendingConnect { reply_to, .. }) = self.pending_connects.remove(&operation) {
            let creation = match result {
                Ok(face) => FaceCreation::Created(face),
                Err(refusal) => FaceCreation::Refused(refusal),
            };
            let response = face_commands::creation_response(&creation, env);
            self.send_reply(reply_to, response, env);
        } else {
            self.configured_face_connected(now, operation, result, env);
        }
    }

    /// Returns when [`on_timeout`](Self::on_timeout) must be called next. [`Timestamp::NEVER`] if
    /// no timer is set.
    pub fn next_timeout(&self) -> Timestamp {
        let config_sync = self.config_sync.next_retry();
        let timers = [
            self.rib.next_expiry(),
            self.publisher.next_expiry(),
            config_sync,
            self.advertiser.next_timeout(),
        ];
        timers.into_iter().flatten().min().unwrap_or(Timestamp::NEVER)
    }

    /// Expires routes and datasets, retries configured faces and sends due commands to other
    /// routers. The work per call is bounded: if more is due, [`next_timeout`](Self::next_timeout)
    /// stays in the past.
    pub fn on_timeout(&mut self, now: Timestamp, env: &mut dyn Environment) {
        self.rib.expire(now, EXPIRE_MAX);
        log_refusal("removal of an expired route", self.commit(env));
        self.publisher.expire(now);
        self.create_due_faces(now, env);
        self.send_due_commands(now, env);
    }

    /// Returns the routes, direct next hops and strategy choices.
    pub const fn rib(&self) -> &Rib {
        &self.rib
    }

    fn on_command(
        &mut self,
        ctx: CommandContext,
        interest: &Interest<'_>,
        verb: Verb,
        parameters: &ControlParameters,
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        let prefix = prefix_of(verb, parameters);
        match authority.command(
            ctx.clocks(env),
            interest,
            ctx.ingress,
            verb.module(),
            verb.word(),
            prefix,
        ) {
            Verdict::Ignore => return Reply::Ignored,
            Verdict::Defer => return Reply::Deferred,
            Verdict::Deny(reason) => return self.deny(ctx, interest, &reason, env),
            Verdict::Accept => {}
        }
        if self.is_busy(ctx.ingress.face) {
            let refusal = ControlResponse::refuse(503, "too many changes are under way: try again");
            return self.send_response(interest.name(), ctx.token, &refusal, env);
        }
        let seq_before = self.rib.issued_seq();
        let outcome = match verb.check(parameters) {
            Err(reason) => ControlResponse::refuse(400, reason).into(),
            Ok(()) => self.execute(ctx, verb, parameters, env),
        };
        match outcome {
            Outcome::Done(response) => {
                let response = to_protocol_response(verb, *response);
                let (face, code, text) = (ctx.ingress.face, response.code, &response.text);
                tracing::debug!(%verb, %face, code, %text, "command");
                let unfinished =
                    prefix.filter(|name| response.is_ok() && self.rib.is_walking(*name));
                if unfinished.is_some() || response.is_ok() && self.rib.issued_seq() > seq_before {
                    return self.reply_when_applied(interest.name(), ctx, response, env);
                }
                self.send_response(interest.name(), ctx.token, &response, env)
            }
            Outcome::Connecting(operation) => {
                let reply_to = ReplyTo::Interest(interest.name().to_name(), ctx.token);
                self.pending_connects
                    .insert(operation, PendingConnect { reply_to, face: ctx.ingress.face });
                Reply::Deferred
            }
            Outcome::Erasing(erasure) => {
                let reply_to = ReplyTo::Interest(interest.name().to_name(), ctx.token);
                self.queue_erasure(reply_to, ctx.ingress.face, erasure);
                Reply::Deferred
            }
        }
    }

    /// Executes a command that the host itself received and authorised, such as one by REST.
    ///
    /// # Errors
    /// `Err` is not a failure: it is the operation under which
    /// [`take_host_replies`](Self::take_host_replies) will return the reply, because a face is
    /// connecting or the command takes long.
    pub fn command(
        &mut self,
        now: Timestamp,
        verb: Verb,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Result<ControlResponse, OperationId> {
        if let Err(reason) = verb.check(parameters) {
            return Ok(ControlResponse::refuse(400, reason));
        }
        if self.is_busy(FaceId::INTERNAL) {
            return Ok(ControlResponse::refuse(503, "too many changes are under way: try again"));
        }
        let peer = PeerGroup::Face(FaceId::INTERNAL.number());
        let ingress = Ingress { face: FaceId::INTERNAL, local: true, peer };
        let ctx = CommandContext { now, ingress, root: Root::Localhost, token: Token::NONE };
        match self.execute(ctx, verb, parameters, env) {
            Outcome::Done(response) => {
                let (code, text) = (response.code, &response.text);
                tracing::debug!(%verb, code, %text, "command by REST");
                self.host_reply_when_applied(bounded(*response))
            }
            Outcome::Connecting(operation) => {
                let pending =
                    PendingConnect { reply_to: ReplyTo::Host(operation), face: FaceId::INTERNAL };
                self.pending_connects.insert(operation, pending);
                Err(operation)
            }
            Outcome::Erasing(erasure) => {
                let operation = self.next_operation();
                self.queue_erasure(ReplyTo::Host(operation), FaceId::INTERNAL, erasure);
                Err(operation)
            }
        }
    }

    /// Returns how often the pools of management were full.
    pub fn shortages(&self) -> Shortages {
        let mut total = self.shortages.clone();
        let dataset_shortages = self.publisher.shortages();
        total.set(SharedPool::Commands, total.count(SharedPool::Commands) + dataset_shortages);
        total
    }

    /// Returns the replies to deferred commands of the host that have completed since the last
    /// call.
    pub fn take_host_replies(&mut self) -> Vec<(OperationId, ControlResponse)> {
        std::mem::take(&mut self.host_replies)
    }

    /// Returns the software's name and version.
    pub fn version(&self) -> &str {
        &self.config.version
    }

    /// Answers 403 and logs it, at most five lines per second.
    fn deny(
        &mut self,
        ctx: CommandContext,
        interest: &Interest<'_>,
        reason: &str,
        env: &mut dyn Environment,
    ) -> Reply {
        if let Some(suppressed) = self.refusals.allow(ctx.now) {
            let name = interest.name().prefix(4);
            let Ingress { face, local, .. } = ctx.ingress;
            tracing::info!(
                %face,
                local,
                command = %name,
                unsaid = suppressed,
                "command refused: {reason}"
            );
        }
        self.send_response(interest.name(), ctx.token, &ControlResponse::refuse(403, reason), env)
    }

    fn execute(
        &mut self,
        ctx: CommandContext,
        verb: Verb,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Outcome {
        match verb {
            Verb::FacesCreate => self.create_face(ctx, parameters, env),
            Verb::FacesUpdate => face_commands::update(ctx, parameters, env).into(),
            Verb::FacesDestroy => self.destroy_face(parameters, env).into(),
            Verb::FibAddNextHop => self.add_next_hop(ctx, parameters, env).into(),
            Verb::FibRemoveNextHop => self.remove_next_hop(ctx, parameters, env).into(),
            Verb::RibRegister => self.register(ctx, parameters, env).into(),
            Verb::RibUnregister => self.unregister(ctx, parameters, env).into(),
            Verb::RibAnnounce => {
                ControlResponse::refuse(400, "a prefix announcement goes in ApplicationParameters")
                    .into()
            }
            Verb::CsConfig => table_commands::cs_config(parameters, env).into(),
            Verb::CsErase => self.erase(ctx, parameters, env),
            Verb::StrategyChoiceSet => self.set_strategy(parameters, env).into(),
            Verb::StrategyChoiceUnset => self.unset_strategy(parameters, env).into(),
        }
    }

    fn erase(
        &mut self,
        ctx: CommandContext,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Outcome {
        if !self.has_erasure_capacity(ctx.ingress.face) {
            return ControlResponse::refuse(503, "too many erasures are under way: try again")
                .into();
        }
        let mut erasure = Erasure::new(parameters);
        match erasure.step(env) {
            Some(response) => response.into(),
            None => Outcome::Erasing(erasure),
        }
    }

    /// Sends the reply to a command: "Data with the Interest's name, Content = ControlResponse,
    /// FreshnessPeriod 1 s." If it is longer than a packet, first the body and then the text are
    /// left out.
    ///
    /// It must not be cached ([`Environment::send_data`]): two commands with the same name may be
    /// years apart.
    fn send_response(
        &self,
        name: NameRef<'_>,
        token: Token,
        response: &ControlResponse,
        env: &mut dyn Environment,
    ) -> Reply {
        let encode = |response: &ControlResponse| {
            let content = response.encode();
            let Ok(wire) =
                DataBuilder::new(name, &content).freshness_ms(FRESHNESS_MS).encode(&DigestSha256);
            wire
        };
        let mut wire = encode(&bounded(response.clone()));
        if wire.len() > PACKET_LEN_MAX {
            // The reply has the name twice, in its own name and in its body: together these may be
            // too long.
            wire = encode(&ControlResponse {
                body: ControlParameters::default(),
                ..bounded(response.clone())
            });
        }
        if wire.len() > PACKET_LEN_MAX {
            // So may be a text after a long name.
            wire = encode(&ControlResponse::refuse(response.code, ""));
        }
        if wire.len() > PACKET_LEN_MAX {
            return Reply::Ignored;
        }
        env.send_data(&wire, token);
        Reply::Answered(response.code)
    }

    /// Applies all pending changes of the RIB to the FIB.
    fn commit(&mut self, env: &mut dyn Environment) -> Result<(), Refusal> {
        let applied = self.rib.flush(|changes| {
            env.apply_fib(changes).map_err(|refusal| (refusal.index, refusal.text))
        });
        applied.map_err(|text| Refusal::new(507, text))
    }

    /// Adds or replaces a route. If the FIB refuses, the RIB is as before.
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
            Refusal::new(
                507,
                format!("there are {} routes already, which is the limit", too_many.0),
            )
        })?;
        let Err(refusal) = self.commit(env) else { return Ok(()) };
        match before {
            // The previous state was within the limit.
            Some(before) => drop(self.rib.register(name, face, origin, before)),
            None => drop(self.rib.unregister(name, face, origin)),
        }
        log_refusal("reverting a refused change", self.commit(env));
        Err(refusal)
    }

    /// Sets or removes a direct next hop. If the FIB refuses, the RIB is as before.
    fn set_direct(
        &mut self,
        name: NameRef<'_>,
        face: FaceId,
        direct: Option<DirectNextHop>,
        env: &mut dyn Environment,
    ) -> Result<(), Refusal> {
        let before = self.rib.set_direct(name, face, direct);
        let before = before.map_err(|too_many| {
            Refusal::new(
                507,
                format!("there are {} routes already, which is the limit", too_many.0),
            )
        })?;
        let Err(refusal) = self.commit(env) else { return Ok(()) };
        // The previous state was within the limit.
        let _ = self.rib.set_direct(name, face, before);
        log_refusal("reverting a refused change", self.commit(env));
        Err(refusal)
    }

    /// Chooses a strategy and returns the name under which it is listed. If the FIB refuses, the
    /// RIB is as before.
    fn choose_strategy(
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
        log_refusal("reverting a refused change", self.commit(env));
        Err(refusal)
    }

    fn next_operation(&mut self) -> OperationId {
        self.last_operation += 1;
        OperationId(self.last_operation)
    }
}

/// A face creation that is connecting.
#[derive(Debug)]
struct PendingConnect {
    reply_to: ReplyTo,
    /// Face that is charged for this item of the pool.
    face: FaceId,
}

/// Returns the prefix that a command changes, for commands that change one. A missing name means
/// `/`.
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

const fn allows(reach: AllowFrom, local: bool) -> bool {
    match reach {
        AllowFrom::Nowhere => false,
        AllowFrom::Local => local,
        AllowFrom::Anywhere => true,
    }
}

fn log_refusal<T>(action: &str, result: Result<T, Refusal>) {
    if let Err(refusal) = result {
        tracing::warn!(what = action, code = refusal.code, "{}", refusal.text);
    }
}
