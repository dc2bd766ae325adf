//! Telling others which prefixes are here: a routing daemon of this machine, upstream routers, gateways.
//!
//! | whom | which prefixes | how |
//! |---|---|---|
//! | the routing daemon, once `/localhost/nlsr` has a route | those with a route of origin `client` | `/localhost/nlsr/rib/register` |
//! | faces named in the configuration | those of applications (origin `app`, `client`, `prefixann`) | `/localhop/nfd/rib/register` by that face |
//! | gateways: faces that have a route for `/localhop/nfd` | configured ones, while any route but the gateway's own is below | the same |
//!
//! The second and third carry an expiration of three refresh intervals, so they end by themselves when this router does. What is no longer here is
//! withdrawn by `rib/unregister`. A command that fails is tried again after `retry_min_s`, then twice as long each time, up to `retry_max_s`.
//!
//! State and bounds: 65536 prefixes for each kind of destination, 64 commands under way, a session for each prefix and destination.

mod session;

use super::environment::Environment;
use super::quiet::Quiet;
use super::rib::Rib;
use super::{Control, named};
use nw_api::config;
use nw_api::management::{ControlResponse, origin};
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Instant};
use nw_trust::Signer;
use nw_wire::{Data, Interest};
use session::Sessions;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Prefixes of one kind.
const PREFIXES_MAX: usize = 65_536;
/// Names looked at in one part.
const NAMES_PER_PART: usize = 8;
/// Faces looked at in one part.
const FACES_PER_PART: usize = 4;

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    RoutingDaemon,
    Upstream,
    Gateway,
}

const KINDS: [Kind; 3] = [Kind::RoutingDaemon, Kind::Upstream, Kind::Gateway];

/// One destination; the routing daemon has no face of its own.
type Target = (Kind, FaceId);

/// See the module.
#[derive(Debug)]
pub(super) struct Advertiser {
    options: config::Rib,
    signer: Signer,
    /// Names that are the reason for telling a prefix, by kind and name.
    sources: BTreeMap<(Kind, Name), Name>,
    /// How many such names a prefix has.
    prefixes: BTreeMap<(Kind, Name), u32>,
    targets: BTreeSet<Target>,
    sessions: Sessions,
    /// Names whose routes changed.
    touched: VecDeque<Name>,
    /// All names are to be looked at, behind this one.
    scan: Option<Option<Name>>,
    faces: Vec<FaceId>,
    too_many: Quiet,
}

impl Advertiser {
    /// Tells nobody anything yet.
    pub(super) fn new(seed: u64) -> Self {
        Advertiser {
            options: config::Rib::default(),
            signer: Signer::Digest,
            sources: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            targets: BTreeSet::new(),
            sessions: Sessions::new(seed),
            touched: VecDeque::new(),
            scan: None,
            faces: Vec::new(),
            too_many: Quiet::default(),
        }
    }

    fn is_on(&self) -> bool {
        let options = &self.options;
        options.readvertise_nlsr || !options.readvertise_to.is_empty() || !options.propagate.is_empty()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.touched.is_empty() || self.scan.is_some() || !self.faces.is_empty()
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.sessions.next_timeout()
    }

    fn is_upstream(&self, uri: &str) -> bool {
        self.options.readvertise_to.iter().any(|wanted| wanted.0 == uri)
    }

    fn add_target(&mut self, now: Instant, target: Target) {
        if self.targets.insert(target) {
            let of_kind =
                self.prefixes.range((target.0, Name::new())..).map(|((kind, prefix), _)| (kind, prefix));
            for (_, prefix) in of_kind.take_while(|(kind, _)| **kind == target.0) {
                self.sessions.tell(now, target, prefix);
            }
        }
    }

    fn remove_target(&mut self, target: Target) {
        if self.targets.remove(&target) {
            self.sessions.forget(target);
        }
    }

    /// The prefix that is told because of a name's routes.
    fn prefix_for(&self, kind: Kind, name: NameRef<'_>, rib: &Rib) -> Option<Name> {
        let scoped = ["/localhost", "/localhop"].iter().any(|scope| named(scope).as_ref().is_prefix_of(name));
        if scoped {
            return None;
        }
        let any = |wanted: &dyn Fn(FaceId, u64) -> bool| {
            rib.routes_at(name).any(|(face, origin, _)| wanted(face, origin))
        };
        let options = &self.options;
        match kind {
            Kind::RoutingDaemon => (options.readvertise_nlsr && any(&|_, origin| origin == origin::CLIENT))
                .then(|| name.to_name()),
            Kind::Upstream => {
                let of_application = |face, origin| {
                    let applications = [origin::APP, origin::CLIENT, origin::PREFIX_ANNOUNCEMENT];
                    applications.contains(&origin) && !self.targets.contains(&(Kind::Upstream, face))
                };
                (!options.readvertise_to.is_empty() && any(&of_application)).then(|| name.to_name())
            }
            Kind::Gateway => {
                let covers = options.propagate.iter().filter(|prefix| prefix.as_ref().is_prefix_of(name));
                let prefix = covers.min_by_key(|prefix| prefix.as_ref().as_bytes().len())?;
                any(&|face, _| !self.targets.contains(&(Kind::Gateway, face))).then(|| prefix.clone())
            }
        }
    }

    /// Tells or withdraws what the routes of a name now come to.
    fn look_at(&mut self, now: Instant, name: NameRef<'_>, rib: &Rib) {
        for kind in KINDS {
            let key = (kind, name.to_name());
            let wanted = self.prefix_for(kind, name, rib);
            let before = self.sources.get(&key).cloned();
            if wanted == before {
                continue;
            }
            if let Some(before) = before {
                self.sources.remove(&key);
                self.release(now, kind, before);
            }
            if let Some(prefix) = wanted {
                if self.sources.len() >= KINDS.len() * PREFIXES_MAX {
                    if let Some(unsaid) = self.too_many.speak(now) {
                        tracing::warn!(prefix = %prefix, unsaid, "too many prefixes to tell others of all");
                    }
                    continue;
                }
                self.sources.insert(key, prefix.clone());
                let count = self.prefixes.entry((kind, prefix.clone())).or_insert(0);
                *count += 1;
                if *count == 1 {
                    self.targets_of(kind)
                        .into_iter()
                        .for_each(|target| self.sessions.tell(now, target, &prefix));
                }
            }
        }
    }

    fn release(&mut self, now: Instant, kind: Kind, prefix: Name) {
        let Some(count) = self.prefixes.get_mut(&(kind, prefix.clone())) else { return };
        *count -= 1;
        if *count == 0 {
            self.targets_of(kind).into_iter().for_each(|target| self.sessions.withdraw(now, target, &prefix));
            self.prefixes.remove(&(kind, prefix));
        }
    }

    fn targets_of(&self, kind: Kind) -> Vec<Target> {
        let last = (kind, FaceId::from_bits(u32::MAX));
        self.targets.range((kind, FaceId::NONE)..=last).copied().collect()
    }
}

impl Control {
    /// Takes over whom to tell what. What is no longer to be told is withdrawn.
    pub(super) fn apply_advertising(
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
        // All that was told is looked at again, and so is every name: routes that are there were not watched while nobody was to be told.
        let known: BTreeSet<Name> = advertiser.sources.keys().map(|(_, name)| name.clone()).collect();
        advertiser.touched.extend(known);
        let on = advertiser.is_on();
        advertiser.scan = on.then_some(None);
        advertiser.faces = env.face_ids();
        self.rib.watch(on || !self.advertiser.sources.is_empty());
    }

    pub(super) fn work_on_advertising(&mut self, now: Instant, env: &mut dyn Environment) {
        self.advertiser.touched.extend(self.rib.take_touched());
        for _ in 0..FACES_PER_PART {
            let Some(face) = self.advertiser.faces.pop() else { break };
            let uri = env.face_status(face).map(|status| status.uri);
            match uri.is_some_and(|uri| self.advertiser.is_upstream(&uri)) {
                true => self.advertiser.add_target(now, (Kind::Upstream, face)),
                false => self.advertiser.remove_target((Kind::Upstream, face)),
            }
        }
        if let Some(behind) = self.advertiser.scan.take() {
            let touched = &mut self.advertiser.touched;
            let behind = behind.as_ref().map(Name::as_ref);
            let end =
                self.rib.routes_part(behind, NAMES_PER_PART, |name, _| touched.push_back(name.to_name()));
            self.advertiser.scan = end.map(Some);
        }
        for _ in 0..NAMES_PER_PART {
            let Some(name) = self.advertiser.touched.pop_front() else { break };
            self.look_for_targets(now, name.as_ref());
            self.advertiser.look_at(now, name.as_ref(), &self.rib);
        }
        self.tell_others(now, env);
    }

    /// A face came or went.
    pub(super) fn advertise_to_face(&mut self, now: Instant, face: FaceId, uri: Option<&str>) {
        match uri {
            Some(uri) if self.advertiser.is_upstream(uri) => {
                self.advertiser.add_target(now, (Kind::Upstream, face));
            }
            Some(_) => {}
            None => [Kind::Upstream, Kind::Gateway]
                .into_iter()
                .for_each(|kind| self.advertiser.remove_target((kind, face))),
        }
    }

    /// Routes of some names say who can be told.
    fn look_for_targets(&mut self, now: Instant, name: NameRef<'_>) {
        if name == named(super::LOCALHOP_NFD).as_ref() {
            let on = !self.advertiser.options.propagate.is_empty();
            let there: BTreeSet<FaceId> =
                self.rib.routes_at(name).map(|(face, ..)| face).filter(|_| on).collect();
            for target in self.advertiser.targets_of(Kind::Gateway) {
                if !there.contains(&target.1) {
                    self.advertiser.remove_target(target);
                }
            }
            there.into_iter().for_each(|face| self.advertiser.add_target(now, (Kind::Gateway, face)));
        }
        if name == named(LOCALHOST_NLSR).as_ref() {
            let there = self.advertiser.options.readvertise_nlsr && self.rib.routes_at(name).next().is_some();
            let target = (Kind::RoutingDaemon, FaceId::NONE);
            match there {
                true => self.advertiser.add_target(now, target),
                false => self.advertiser.remove_target(target),
            }
        }
    }

    /// Sends commands whose time has come, and gives up those that were not answered.
    pub(super) fn tell_others(&mut self, now: Instant, env: &mut dyn Environment) {
        let unix_ms = env.unix_ms();
        let Advertiser { sessions, options, signer, .. } = &mut self.advertiser;
        sessions.work(now, unix_ms, options, signer, env);
    }

    /// A Data that came to the internal face: the answer to a command of ours.
    pub fn on_data(&mut self, now: Instant, wire: &[u8]) {
        let Ok(data) = Data::check(wire) else { return };
        let response = ControlResponse::decode(data.content());
        let done = response.map_err(|error| error.to_string()).and_then(|response| match response.is_ok() {
            true => Ok(()),
            false => Err(format!("{} {}", response.code, response.text)),
        });
        let Advertiser { sessions, options, .. } = &mut self.advertiser;
        sessions.answered(now, data.name(), done, options);
    }

    /// An Interest of ours that was refused.
    pub fn on_nack(&mut self, now: Instant, wire: &[u8], reason: &str) {
        let Ok(interest) = Interest::check(wire) else { return };
        let Advertiser { sessions, options, .. } = &mut self.advertiser;
        sessions.answered(now, interest.name(), Err(format!("Nack({reason})")), options);
    }
}

const LOCALHOST_NLSR: &str = "/localhost/nlsr";
