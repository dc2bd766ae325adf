//! Advertises prefixes to a routing daemon on this machine, to upstream routers and to gateways.
//!
//! * The routing daemon, while `/localhost/nlsr` has a route: prefixes with a route of origin
//!   `client`, by `/localhost/nlsr/rib/register`.
//! * Faces named in the configuration (upstream): prefixes with a route of an application (origin
//!   `app`, `client` or `prefixann`), by `/localhop/nfd/rib/register` on that face.
//! * Gateways, faces with a route for `/localhop/nfd`: configured prefixes with a route below them
//!   that is not the gateway's own, by the same command.
//!
//! Upstream and gateway registrations expire after three refresh intervals, so they end when this
//! router does. A prefix that no longer qualifies is withdrawn by `rib/unregister`. A command that
//! fails is retried after `retry_min_s`, then after twice as long each time, up to `retry_max_s`.
//!
//! Bounds: 65536 prefixes per kind of target, 64 commands in flight, one session per prefix and
//! target.

mod session;

use super::environment::Environment;
use super::log_limiter::LogLimiter;
use super::rib::Rib;
use super::{Control, constant_name};
use nw_api::config;
use nw_api::management::{ControlResponse, origin};
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Timestamp};
use nw_trust::Signer;
use nw_wire::{Data, Interest};
use session::Sessions;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Advertised prefixes per kind of target.
const PREFIXES_MAX: usize = 65_536;
/// Names checked in one part.
const NAMES_PER_PART: usize = 8;
/// Faces checked in one part.
const FACES_PER_PART: usize = 4;

/// Kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A routing daemon on this machine, such as NLSR.
    RoutingDaemon,
    /// A face named in the configuration.
    Upstream,
    /// A face with a route for `/localhop/nfd`.
    Gateway,
}

const KINDS: [Kind; 3] = [Kind::RoutingDaemon, Kind::Upstream, Kind::Gateway];

/// A receiver of registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    kind: Kind,
    /// [`FaceId::NONE`] for the routing daemon: commands to it follow the FIB.
    face: FaceId,
}

impl Target {
    const ROUTING_DAEMON: Target = Target::new(Kind::RoutingDaemon, FaceId::NONE);

    const fn new(kind: Kind, face: FaceId) -> Self {
        Target { kind, face }
    }
}

/// Advertised prefixes, targets, and what remains to be checked.
#[derive(Debug)]
pub(super) struct Advertiser {
    options: config::Rib,
    signer: Signer,
    /// The advertised prefix for each kind of target and name with routes.
    sources: BTreeMap<(Kind, Name), Name>,
    /// Number of names that cause a prefix to be advertised.
    prefixes: BTreeMap<(Kind, Name), u32>,
    targets: BTreeSet<Target>,
    sessions: Sessions,
    /// Names with changed routes, to be checked.
    changed_names: VecDeque<Name>,
    /// A scan over all names is under way, after this name.
    scan_after: Option<Option<Name>>,
    /// Faces that may have become, or ceased to be, upstream faces.
    faces_to_check: Vec<FaceId>,
    limit_log: LogLimiter,
}

impl Advertiser {
    /// Creates an advertiser without targets.
    pub(super) fn new(seed: u64) -> Self {
        Advertiser {
            options: config::Rib::default(),
            signer: Signer::Digest,
            sources: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            targets: BTreeSet::new(),
            sessions: Sessions::new(seed),
            changed_names: VecDeque::new(),
            scan_after: None,
            faces_to_check: Vec::new(),
            limit_log: LogLimiter::default(),
        }
    }

    /// Returns whether any kind of target is configured.
    fn is_enabled(&self) -> bool {
        let options = &self.options;
        options.readvertise_nlsr
            || !options.readvertise_to.is_empty()
            || !options.propagate.is_empty()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.changed_names.is_empty()
            || self.scan_after.is_some()
            || !self.faces_to_check.is_empty()
    }

    pub(super) fn next_timeout(&self) -> Option<Timestamp> {
        self.sessions.next_timeout()
    }

    fn is_upstream(&self, uri: &str) -> bool {
        self.options.readvertise_to.iter().any(|configured| configured.0 == uri)
    }

    /// Adds a target and registers all prefixes of its kind with it.
    fn add_target(&mut self, now: Timestamp, target: Target) {
        if self.targets.insert(target) {
            let prefixes = self
                .prefixes
                .range((target.kind, Name::new())..)
                .map(|((kind, prefix), _)| (kind, prefix));
            for (_, prefix) in prefixes.take_while(|(kind, _)| **kind == target.kind) {
                self.sessions.register(now, target, prefix);
            }
        }
    }

    /// Removes a target without withdrawing anything from it.
    fn remove_target(&mut self, target: Target) {
        if self.targets.remove(&target) {
            self.sessions.remove_target(target);
        }
    }

    /// Returns the prefix to advertise because of the routes of `name`, if any.
    fn prefix_for(&self, kind: Kind, name: NameRef<'_>, rib: &Rib) -> Option<Name> {
        let is_scoped = ["/localhost", "/localhop"]
            .iter()
            .any(|scope| constant_name(scope).as_ref().is_prefix_of(name));
        if is_scoped {
            return None;
        }
        let has_route = |predicate: &dyn Fn(FaceId, u64) -> bool| {
            rib.routes_at(name).any(|(face, origin, _)| predicate(face, origin))
        };
        let options = &self.options;
        match kind {
            Kind::RoutingDaemon => (options.readvertise_nlsr
                && has_route(&|_, origin| origin == origin::CLIENT))
            .then(|| name.to_name()),
            Kind::Upstream => {
                let is_application = |face, origin| {
                    let applications = [origin::APP, origin::CLIENT, origin::PREFIX_ANNOUNCEMENT];
                    applications.contains(&origin)
                        && !self.targets.contains(&Target::new(Kind::Upstream, face))
                };
                (!options.readvertise_to.is_empty() && has_route(&is_application))
                    .then(|| name.to_name())
            }
            Kind::Gateway => {
                let covering =
                    options.propagate.iter().filter(|prefix| prefix.as_ref().is_prefix_of(name));
                let prefix = covering.min_by_key(|prefix| prefix.as_ref().as_bytes().len())?;
                has_route(&|face, _| !self.targets.contains(&Target::new(Kind::Gateway, face)))
                    .then(|| prefix.clone())
            }
        }
    }

    /// Advertises or withdraws prefixes according to the current routes of `name`.
    fn update_prefix(&mut self, now: Timestamp, name: NameRef<'_>, rib: &Rib) {
        for kind in KINDS {
            let key = (kind, name.to_name());
            let prefix = self.prefix_for(kind, name, rib);
            let before = self.sources.get(&key).cloned();
            if prefix == before {
                continue;
            }
            if let Some(before) = before {
                self.sources.remove(&key);
                self.release_prefix(now, kind, before);
            }
            if let Some(prefix) = prefix {
                if self.sources.len() >= KINDS.len() * PREFIXES_MAX {
                    if let Some(suppressed) = self.limit_log.allow(now) {
                        tracing::warn!(
                            %prefix,
                            unsaid = suppressed,
                            "too many prefixes: this one is not advertised"
                        );
                    }
                    continue;
                }
                self.sources.insert(key, prefix.clone());
                let count = self.prefixes.entry((kind, prefix.clone())).or_insert(0);
                *count += 1;
                if *count == 1 {
                    self.targets_of(kind)
                        .into_iter()
                        .for_each(|target| self.sessions.register(now, target, &prefix));
                }
            }
        }
    }

    /// Withdraws a prefix when no name causes it to be advertised any more.
    fn release_prefix(&mut self, now: Timestamp, kind: Kind, prefix: Name) {
        let Some(count) = self.prefixes.get_mut(&(kind, prefix.clone())) else { return };
        *count -= 1;
        if *count == 0 {
            self.targets_of(kind)
                .into_iter()
                .for_each(|target| self.sessions.withdraw(now, target, &prefix));
            self.prefixes.remove(&(kind, prefix));
        }
    }

    fn targets_of(&self, kind: Kind) -> Vec<Target> {
        let last = Target::new(kind, FaceId::from_bits(u32::MAX));
        self.targets.range(Target::new(kind, FaceId::NONE)..=last).copied().collect()
    }
}

impl Control {
    /// Applies new options. Prefixes that no longer qualify are withdrawn.
    pub(super) fn apply_advertise_options(
        &mut self,
        options: &config::Rib,
        signer: Option<Signer>,
        env: &dyn Environment,
    ) {
        let advertiser = &mut self.advertiser;
        if let Some(signer) = signer {
            advertiser.signer = signer;
        }
        if advertiser.options == *options {
            return;
        }
        advertiser.options = options.clone();
        // Check all advertised names again, and all other names too: their changes were not tracked
        // while advertising was disabled.
        let advertised_names: BTreeSet<Name> =
            advertiser.sources.keys().map(|(_, name)| name.clone()).collect();
        advertiser.changed_names.extend(advertised_names);
        let enabled = advertiser.is_enabled();
        advertiser.scan_after = enabled.then_some(None);
        advertiser.faces_to_check = env.face_ids();
        self.rib.track_changes(enabled || !self.advertiser.sources.is_empty());
    }

    /// Checks some faces and names, and sends due commands.
    pub(super) fn advertise_step(&mut self, now: Timestamp, env: &mut dyn Environment) {
        self.advertiser.changed_names.extend(self.rib.take_changed_names());
        for _ in 0..FACES_PER_PART {
            let Some(face) = self.advertiser.faces_to_check.pop() else { break };
            let uri = env.face_status(face).map(|status| status.uri);
            match uri.is_some_and(|uri| self.advertiser.is_upstream(&uri)) {
                true => self.advertiser.add_target(now, Target::new(Kind::Upstream, face)),
                false => self.advertiser.remove_target(Target::new(Kind::Upstream, face)),
            }
        }
        if let Some(after) = self.advertiser.scan_after.take() {
            let changed_names = &mut self.advertiser.changed_names;
            let after = after.as_ref().map(Name::as_ref);
            let end = self.rib.visit_routes(after, NAMES_PER_PART, |name, _| {
                changed_names.push_back(name.to_name())
            });
            self.advertiser.scan_after = end.map(Some);
        }
        for _ in 0..NAMES_PER_PART {
            let Some(name) = self.advertiser.changed_names.pop_front() else { break };
            self.update_route_targets(now, name.as_ref());
            self.advertiser.update_prefix(now, name.as_ref(), &self.rib);
        }
        self.send_due_commands(now, env);
    }

    /// Adds or removes a target after a face was created (`uri`) or closed (`None`).
    pub(super) fn update_face_target(&mut self, now: Timestamp, face: FaceId, uri: Option<&str>) {
        match uri {
            Some(uri) if self.advertiser.is_upstream(uri) => {
                self.advertiser.add_target(now, Target::new(Kind::Upstream, face));
            }
            Some(_) => {}
            None => [Kind::Upstream, Kind::Gateway]
                .into_iter()
                .for_each(|kind| self.advertiser.remove_target(Target::new(kind, face))),
        }
    }

    /// Updates the targets that are defined by routes: gateways and the routing daemon.
    fn update_route_targets(&mut self, now: Timestamp, name: NameRef<'_>) {
        if name == constant_name(super::LOCALHOP_NFD).as_ref() {
            let enabled = !self.advertiser.options.propagate.is_empty();
            let gateway_faces: BTreeSet<FaceId> =
                self.rib.routes_at(name).map(|(face, ..)| face).filter(|_| enabled).collect();
            for target in self.advertiser.targets_of(Kind::Gateway) {
                if !gateway_faces.contains(&target.face) {
                    self.advertiser.remove_target(target);
                }
            }
            gateway_faces
                .into_iter()
                .for_each(|face| self.advertiser.add_target(now, Target::new(Kind::Gateway, face)));
        }
        if name == constant_name(LOCALHOST_NLSR).as_ref() {
            let is_present = self.advertiser.options.readvertise_nlsr
                && self.rib.routes_at(name).next().is_some();
            let target = Target::ROUTING_DAEMON;
            match is_present {
                true => self.advertiser.add_target(now, target),
                false => self.advertiser.remove_target(target),
            }
        }
    }

    /// Sends due commands, and times out those without a reply.
    pub(super) fn send_due_commands(&mut self, now: Timestamp, env: &mut dyn Environment) {
        let unix_ms = env.unix_ms();
        let Advertiser { sessions, options, signer, .. } = &mut self.advertiser;
        sessions.step(now, unix_ms, options, signer, env);
    }

    /// Processes Data received on the internal face: the reply to a command of the advertiser.
    pub fn on_data(&mut self, now: Timestamp, wire: &[u8]) {
        let Ok(data) = Data::check(wire) else { return };
        let response = ControlResponse::decode(data.content());
        let result =
            response.map_err(|error| error.to_string()).and_then(|response| {
                match response.is_ok() {
                    true => Ok(()),
                    false => Err(format!("{} {}", response.code, response.text)),
                }
            });
        let Advertiser { sessions, options, .. } = &mut self.advertiser;
        sessions.on_reply(now, data.name(), result, options);
    }

    /// Processes a Nack for an Interest that the advertiser sent.
    pub fn on_nack(&mut self, now: Timestamp, wire: &[u8], reason: &str) {
        let Ok(interest) = Interest::check(wire) else { return };
        let Advertiser { sessions, options, .. } = &mut self.advertiser;
        sessions.on_reply(now, interest.name(), Err(format!("Nack({reason})")), options);
    }
}

const LOCALHOST_NLSR: &str = "/localhost/nlsr";
