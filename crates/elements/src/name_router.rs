//! Sends each Interest to the cheapest next hop of its longest prefix: the FIB alone.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  interest: all that decoding fills, ingress, ingress_local, link as received; data, nack:
//!         nothing
//! Sets:   interest: egress, link (as to be sent; the token is kept); nack of its own: egress (the
//!         downstream), link.nack
//! State:  routes, up to a number of prefixes; commands until the host has answered them
//! Timers: the earliest end of a registered route
//! Cost:   one lookup, two cache lines
//! Drops:  no_route, next_hop_unknown, hop_limit_spent, data_from_wrong_face (if configured),
//!         no_buffer, malformed_too_long, answered (a command), commands_full, draining (commands
//!         held when the element is removed)
//! Spec:   NDN Packet Format 0.3, HopLimit and ForwardingHint; NDNLPv2, NextHopFaceId; the name
//!         router of µNDN
//! ```
//!
//! It records no Interest. Aggregation and loop detection are done by an element before it
//! (`backward_router`), and answers find their way back by the token that the host adds: Data and
//! Nacks pass unchanged. Of several next hops it uses the cheapest eligible one; for another choice
//! use `strategy_forwarder`.
//!
//! An Interest without route is sent back as Nack(NoRoute) if the link has one peer, or dropped;
//! both count as `no_route`. With `data_from_next_hops_only` Data is accepted only from a next hop
//! of its name, as the only check possible without a PIT. This also rejects Data that came by a
//! route of a ForwardingHint, or that answers an Interest for a shorter prefix with other next
//! hops.

//!
//! With `commands`, Interests for `/localhost/nfd/rib` or `/localhop/nfd/rib` are held for the host,
//! which takes them by [`NameRouter::take_command`] and answers them by [`NameRouter::reply`]. So
//! producers register prefixes as at a router; a registered route leads to the face of its command
//! and ends with it. Routes of the graph, of control and of registrations exist side by side.

pub use crate::by_kind::{ByKind as In, ByKind as Out};

use crate::forwarding_hint;
use crate::route_sources::RouteSources;
pub use crate::route_sources::{RegistrationEvent, RouteOrigin, SourcedHop};
use crate::scope::{NameScope, Scopes};
use crate::strategy::{Eligibility, Strategies};
use nw_element_api::decode::decode;
use nw_element_api::{
    Context, DropCause, DropReason, Element, ElementStatus, FaceId, FaceInfo, FaceTable, Kind,
    LinkFields, LinkType, Meta, Packet, PacketFailure, Pool, Prediction, Scope, Timestamp,
};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::fib::{Fib, FibConfig, FibError, NextHop};
use nw_trust::Authority;
use nw_wire::NackReason;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most commands held for the host.
const COMMANDS_MAX: usize = 64;
/// Most refused commands, and wanted certificates, kept for status.
const REFUSALS_MAX: usize = 64;
/// The second and third components of commands, encoded: type 8, length, bytes.
const NFD_RIB: &[u8] = b"\x08\x03nfd\x08\x03rib";

/// Configuration of a name router.
#[derive(Clone, Copy, Debug)]
pub struct NameRouterConfig {
    /// Sizes of the FIB.
    pub fib: FibConfig,
    /// Whether an Interest without route is answered by a Nack.
    pub nacks: bool,
    /// Whether Data is accepted only from a next hop of its name.
    pub data_from_next_hops_only: bool,
}

impl Default for NameRouterConfig {
    /// The router's default number of prefixes; Nacks are sent; Data is accepted from any face.
    fn default() -> Self {
        let fib = FibConfig::new(FibConfig::PREFIXES_DEFAULT);
        NameRouterConfig { fib, nacks: true, data_from_next_hops_only: false }
    }
}

/// The name router element.
#[derive(Debug)]
pub struct NameRouter {
    key: HashKey,
    scopes: Scopes,
    fib: Fib,
    faces: FaceTable,
    regions: Vec<Name>,
    nacks: bool,
    data_from_next_hops_only: bool,
    sources: RouteSources,
    control: ControlRoutes,
    commands: Commands,
}

/// Routes set by control, with the names of their faces in the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlRoutes {
    /// Version of the last change; 0 before the first.
    pub version: u64,
    /// Costs by prefix and name of the face.
    pub costs: BTreeMap<(Name, String), u32>,
}

/// Commands of faces, and the rules for them.
#[derive(Debug, Default)]
struct Commands {
    from_localhost: bool,
    from_localhop: bool,
    held: VecDeque<Packet>,
    authority: Authority,
    refusals_total: u64,
    refusals: VecDeque<PacketFailure>,
    wanted: BTreeSet<Name>,
}

impl NameRouter {
    /// Creates a name router without faces and routes. `key` must be the key that packets are
    /// decoded with.
    pub fn new(key: HashKey, config: NameRouterConfig) -> Self {
        NameRouter {
            key,
            scopes: Scopes::new(&key),
            fib: Fib::new(key, config.fib),
            faces: FaceTable::new(),
            regions: Vec::new(),
            nacks: config.nacks,
            data_from_next_hops_only: config.data_from_next_hops_only,
            sources: RouteSources::default(),
            control: ControlRoutes::default(),
            commands: Commands::default(),
        }
    }

    /// Sets which commands are held for the host: those for `/localhost`, from local faces, and
    /// those for `/localhop`.
    pub const fn set_commands(&mut self, from_localhost: bool, from_localhop: bool) {
        self.commands.from_localhost = from_localhost;
        self.commands.from_localhop = from_localhop;
    }

    /// Returns whether any commands are held for the host.
    pub const fn takes_commands(&self) -> bool {
        self.commands.from_localhost || self.commands.from_localhop
    }

    /// Returns the rules for commands.
    pub const fn authority_mut(&mut self) -> &mut Authority {
        &mut self.commands.authority
    }

    /// Takes the command that arrived first. The host answers it by [`reply`](Self::reply).
    pub fn take_command(&mut self) -> Option<Packet> {
        self.commands.held.pop_front()
    }

    /// Records a refused command for status, and the certificate that it needs.
    pub fn record_refusal(&mut self, refusal: PacketFailure, wanted: Option<Name>) {
        let commands = &mut self.commands;
        commands.refusals_total += 1;
        if commands.refusals.len() == REFUSALS_MAX {
            commands.refusals.pop_front();
        }
        commands.refusals.push_back(refusal);
        if commands.wanted.len() < REFUSALS_MAX {
            commands.wanted.extend(wanted);
        }
    }

    /// Removes all wanted certificates from status, as other ones are known now.
    pub fn clear_wanted_certificates(&mut self) {
        self.commands.wanted.clear();
    }

    /// Answers a command with an encoded Data. `None` drops the command without an answer.
    pub fn reply(
        &mut self,
        now: Timestamp,
        command: Packet,
        data: Option<&[u8]>,
        context: &mut Context<'_, Out>,
    ) {
        let (ingress, token) = {
            let meta = context.pool.meta(&command);
            (meta.ingress, meta.link.token)
        };
        let reply = data.and_then(|data| context.pool.copy_of(data));
        context.pool.drop_packet(command, DropCause::Answered, context.drops);
        let Some(reply) = reply else { return };
        if decode(context.pool, &reply).is_err() {
            return context.pool.drop_packet(reply, DropCause::NoBuffer, context.drops);
        }
        let meta = context.pool.meta_mut(&reply);
        meta.ingress = FaceId::INTERNAL;
        meta.ingress_local = true;
        meta.egress = ingress;
        meta.arrival = now;
        meta.link = LinkFields { token, ..LinkFields::default() };
        // No content store keeps it.
        meta.cached = true;
        context.out.send(Out::Data, reply);
    }

    /// Replaces the routes of the graph.
    ///
    /// # Errors
    /// The prefixes that a table limit kept out, each with the error.
    pub fn set_graph_routes(
        &mut self,
        routes: impl IntoIterator<Item = (Name, SourcedHop)>,
    ) -> Result<(), Vec<(Name, FibError)>> {
        let changed = self.sources.replace(RouteOrigin::Graph, routes);
        self.update_fib(&changed)
    }

    /// Returns the routes of control.
    pub const fn control_routes(&self) -> &ControlRoutes {
        &self.control
    }

    /// Replaces the routes of control. They take effect with the next
    /// [`resolve_control_routes`](Self::resolve_control_routes).
    pub fn set_control_routes(&mut self, routes: ControlRoutes) {
        self.control = routes;
    }

    /// Puts the routes of control into effect. `face` returns the face of a name, or
    /// [`FaceId::NONE`] while it is not connected.
    ///
    /// # Errors
    /// The prefixes that a table limit kept out, each with the error.
    pub fn resolve_control_routes(
        &mut self,
        face: impl Fn(&str) -> FaceId,
    ) -> Result<(), Vec<(Name, FibError)>> {
        let hop = |((prefix, link), cost): (&(Name, String), &u32)| {
            let hop = SourcedHop {
                origin: RouteOrigin::Control,
                link: link.clone(),
                face: face(link),
                cost: *cost,
                until: Timestamp::NEVER,
            };
            (prefix.clone(), hop)
        };
        let changed =
            self.sources.replace(RouteOrigin::Control, self.control.costs.iter().map(hop));
        self.update_fib(&changed)
    }

    /// Registers a prefix for a face, until a time or until the face ends.
    ///
    /// # Errors
    /// If a limit is reached; the route is unchanged then.
    pub fn register(
        &mut self,
        prefix: &Name,
        face: FaceId,
        cost: u32,
        until: Timestamp,
    ) -> Result<(), FibError> {
        if !self.sources.register(prefix, face, cost, until) {
            return Err(FibError::Full);
        }
        let updated = self.update_fib(&[prefix.clone()].into());
        updated.map_err(|errors| {
            self.sources.unregister(prefix.as_ref(), face);
            errors.into_iter().next().map_or(FibError::Full, |(_, error)| error)
        })
    }

    /// Removes the registered route of a face. Returns whether there was one.
    pub fn unregister(&mut self, prefix: &Name, face: FaceId) -> bool {
        let was_there = self.sources.unregister(prefix.as_ref(), face);
        // Removing needs no space.
        let _ = self.update_fib(&[prefix.clone()].into());
        was_there
    }

    /// Returns all routes with what set them, by prefix.
    pub fn routes(&self) -> impl Iterator<Item = (&Name, &[SourcedHop])> {
        self.sources.iter()
    }

    /// Takes the changes of registered routes since the last call.
    pub fn take_registration_events(&mut self) -> Vec<RegistrationEvent> {
        self.sources.take_events()
    }

    /// Sets the FIB to the routes of these prefixes.
    fn update_fib(&mut self, prefixes: &BTreeSet<Name>) -> Result<(), Vec<(Name, FibError)>> {
        let mut errors = Vec::new();
        for prefix in prefixes {
            match self.sources.next_hops(prefix.as_ref()) {
                Some(next_hops) => {
                    let set = self.fib.set(prefix.as_ref(), &next_hops, Strategies::DEFAULT);
                    errors.extend(set.err().map(|error| (prefix.clone(), error)));
                }
                None => drop(self.fib.remove(prefix.as_ref())),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns whether an Interest is a command that the host takes.
    #[inline]
    fn is_command(&self, packet: &Packet, pool: &Pool) -> bool {
        if !self.takes_commands() {
            return false;
        }
        let (bytes, meta) = pool.view(packet);
        let name = || meta.name_in(bytes);
        let (is_taken, scope_len) = match self.scopes.of(name, &meta.prefixes) {
            NameScope::Global => return false,
            NameScope::Localhost => (self.commands.from_localhost && meta.ingress_local, 11),
            NameScope::Localhop => (self.commands.from_localhop, 10),
        };
        is_taken && name().as_bytes()[scope_len..].starts_with(NFD_RIB)
    }

    /// Sets the next hops of a prefix, replacing earlier ones.
    ///
    /// # Errors
    /// When a table limit is reached; nothing has changed then.
    pub fn set_route(&mut self, name: NameRef<'_>, next_hops: &[NextHop]) -> Result<(), FibError> {
        self.fib.set(name, next_hops, Strategies::DEFAULT)
    }

    /// Removes a prefix. Returns whether it was there.
    pub fn remove_route(&mut self, name: NameRef<'_>) -> bool {
        self.fib.remove(name)
    }

    /// Sets the names of the producer regions it is in. A ForwardingHint with a name that is a
    /// prefix of one of them is removed from Interests.
    pub fn set_regions(&mut self, regions: Vec<Name>) {
        self.regions = regions;
    }

    /// Sets whether an Interest without route is answered by a Nack, and whether Data is accepted
    /// only from a next hop of its name.
    pub const fn set_switches(&mut self, nacks: bool, data_from_next_hops_only: bool) {
        self.nacks = nacks;
        self.data_from_next_hops_only = data_from_next_hops_only;
    }

    /// Returns the FIB, for status.
    pub const fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Returns whether packets that enter by this port are looked up in the FIB.
    #[inline(always)]
    fn uses_fib(&self, port: In) -> bool {
        match port {
            In::Interest => true,
            In::Data => self.data_from_next_hops_only,
            In::Nack => false,
        }
    }

    /// Forwards an Interest to its next hop, or rejects it.
    #[inline]
    fn interest(&mut self, packet: Packet, context: &mut Context<'_, Out>) {
        if self.is_command(&packet, context.pool) {
            if self.commands.held.len() < COMMANDS_MAX {
                return self.commands.held.push_back(packet);
            }
            return context.pool.drop_packet(packet, DropCause::CommandsFull, context.drops);
        }
        let packet = match forwarding_hint::strip(&self.regions, packet, context.pool) {
            Ok(packet) => packet,
            Err((packet, reason)) => {
                return context.pool.drop_packet(packet, reason, context.drops);
            }
        };
        let (bytes, meta) = context.pool.view(&packet);
        let next_hop = match meta.link.next_hop_face {
            Some(next_hop) => Some(next_hop).filter(|face| self.faces.contains(*face)),
            None => self.cheapest(bytes, meta),
        };
        let is_chosen = meta.link.next_hop_face.is_some();
        match next_hop {
            Some(next_hop) => send(packet, next_hop, &self.faces, context),
            None if is_chosen => {
                context.pool.drop_packet(packet, DropCause::NextHopUnknown, context.drops);
            }
            None => self.reject(packet, context),
        }
    }

    /// Returns the cheapest eligible next hop.
    #[inline]
    fn cheapest(&self, bytes: &[u8], meta: &Meta) -> Option<FaceId> {
        let name = meta.name_in(bytes);
        let next_hops = match meta.forwarding_hint.len {
            0 => self.fib.lookup(name, &meta.prefixes)?.next_hops,
            _ => forwarding_hint::next_hops(
                &self.fib,
                &self.key,
                forwarding_hint::names(meta, bytes),
            ),
        };
        let scope = self.scopes.of(|| name, &meta.prefixes);
        let eligibility = Eligibility::new(&self.faces, meta.ingress, meta.ingress_local, scope);
        next_hops.iter().map(|hop| hop.face).find(|face| eligibility.allows(*face))
    }

    /// Sends an Interest without next hop back as a Nack, or drops it.
    fn reject(&self, packet: Packet, context: &mut Context<'_, Out>) {
        let downstream = self.faces.info(context.pool.meta(&packet).ingress);
        if !self.nacks || downstream.is_none_or(|face| face.link_type != LinkType::PointToPoint) {
            return context.pool.drop_packet(packet, DropCause::NoRoute, context.drops);
        }
        context.drops.count(DropCause::NoRoute);
        make_nack(context.pool, &packet, NackReason::NoRoute);
        context.out.send(Out::Nack, packet);
    }

    /// Forwards a Data, if it came from a next hop of its name or from anywhere by configuration.
    fn data(&self, packet: Packet, context: &mut Context<'_, Out>) {
        if self.data_from_next_hops_only {
            let (bytes, meta) = context.pool.view(&packet);
            let route = self.fib.lookup(meta.name_in(bytes), &meta.prefixes);
            if !route
                .is_some_and(|route| route.next_hops.iter().any(|hop| hop.face == meta.ingress))
            {
                return context.pool.drop_packet(
                    packet,
                    DropCause::DataFromWrongFace,
                    context.drops,
                );
            }
        }
        context.out.send(Out::Data, packet);
    }
}

/// Sends an Interest to a face. Its token is kept: it is the downstream's or the host's.
#[inline]
fn send(packet: Packet, next_hop: FaceId, faces: &FaceTable, context: &mut Context<'_, Out>) {
    match prepare(context.pool, &packet, next_hop, faces) {
        Ok(()) => context.out.send(Out::Interest, packet),
        Err(reason) => context.pool.drop_packet(packet, reason, context.drops),
    }
}

/// Sets an Interest's metadata for sending to a face. Its token is kept.
#[inline]
pub(crate) fn prepare(
    pool: &mut Pool,
    packet: &Packet,
    next_hop: FaceId,
    faces: &FaceTable,
) -> Result<(), DropReason> {
    let (bytes, meta) = pool.view(packet);
    let hop_limit_start = usize::from(meta.hop_limit_start);
    // "HopLimit 0 and non-local: drop."
    if hop_limit_start != 0
        && bytes[hop_limit_start] == 0
        && faces.info(next_hop).is_some_and(|face| face.scope == Scope::NonLocal)
    {
        return Err(DropCause::HopLimitSpent.into());
    }
    let meta = pool.meta_mut(packet);
    meta.egress = next_hop;
    meta.link = LinkFields {
        token: meta.link.token,
        congestion_mark: meta.link.congestion_mark,
        incoming_face: meta.ingress,
        non_discovery: meta.link.non_discovery,
        ..LinkFields::default()
    };
    Ok(())
}

/// Turns an Interest into the Nack that answers it.
pub(crate) fn make_nack(pool: &mut Pool, packet: &Packet, reason: NackReason) {
    let meta = pool.meta_mut(packet);
    meta.kind = Kind::Nack;
    meta.egress = meta.ingress;
    meta.link = LinkFields { token: meta.link.token, nack: Some(reason), ..LinkFields::default() };
}

impl Element for NameRouter {
    type In = In;
    type Out = Out;

    const CHOOSES_EGRESS: bool = true;

    fn prefetch_stages(_: In) -> usize {
        1 + Fib::PREFETCH_STAGES
    }

    fn outputs_for(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Interest, Out::Nack],
            In::Data => &[Out::Data],
            In::Nack => &[Out::Nack],
        }
    }

    fn main_output(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Interest,
            In::Data => Out::Data,
            In::Nack => Out::Nack,
        })
    }

    #[inline]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta, _: &mut Prediction) {
        if !self.uses_fib(port) {
            return;
        }
        match stage.checked_sub(1) {
            None => self.fib.prefetch_pages(&meta.prefixes),
            Some(stage) => self.fib.prefetch(stage, &meta.prefixes),
        }
    }

    #[inline]
    fn process(&mut self, _: Timestamp, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        match port {
            In::Interest => self.interest(packet, context),
            In::Data => self.data(packet, context),
            In::Nack => context.out.send(Out::Nack, packet),
        }
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.faces.insert(face, info);
    }

    fn face_gone(&mut self, _: Timestamp, face: FaceId) {
        self.faces.remove(face);
        let changed = self.sources.remove_face(face);
        // Removing needs no space.
        let _ = self.update_fib(&changed);
    }

    fn status(&self) -> ElementStatus {
        ElementStatus {
            values: vec![
                ("prefixes", self.fib.len() as u64),
                ("registered", self.sources.registered_count() as u64),
                ("routes_version", self.control.version),
            ],
            failures_total: self.commands.refusals_total,
            failures: self.commands.refusals.iter().cloned().collect(),
            wanted_certificates: self.commands.wanted.iter().cloned().collect(),
        }
    }

    fn drop_held(&mut self, context: &mut Context<'_, Out>) {
        for command in self.commands.held.drain(..) {
            context.pool.drop_packet(command, DropCause::Draining, context.drops);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.sources.next_end()
    }

    fn tick(&mut self, now: Timestamp, _: &mut Context<'_, Out>) {
        let changed = self.sources.end_due(now);
        // Removing needs no space.
        let _ = self.update_fib(&changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_testkit::bench::{KEY, TestBench, as_nack, data, face, interest, name, ports};
    use nw_wire::InterestBuilder;

    /// Downstreams are 300 (point-to-point) and 301 (multi-access), next hops 302 and 303; 304 is
    /// local.
    fn bench() -> TestBench<NameRouter> {
        let config = NameRouterConfig { fib: FibConfig::new(64), ..NameRouterConfig::default() };
        let mut bench = TestBench::new(NameRouter::new(KEY, config));
        for number in 300..305 {
            let scope = if number == 304 { Scope::Local } else { Scope::NonLocal };
            let link_type =
                if number == 301 { LinkType::MultiAccess } else { LinkType::PointToPoint };
            bench.element.face_added(face(number), FaceInfo { scope, link_type });
        }
        for (prefix, hops) in [
            ("/a", &[(302, 5), (303, 2)][..]),
            ("/a/b", &[(302, 0)]),
            ("/localhost", &[(302, 0), (304, 1)]),
        ] {
            let hops: Vec<NextHop> = hops
                .iter()
                .map(|(number, cost)| NextHop { face: face(*number), cost: *cost })
                .collect();
            bench.element.set_route(name(prefix).as_ref(), &hops).unwrap();
        }
        bench
    }

    fn from(number: u32) -> impl Fn(&mut Meta) {
        move |meta| meta.ingress = face(number)
    }

    #[test]
    fn interest_goes_to_cheapest_eligible_next_hop() {
        let mut bench = bench();
        for (uri, ingress, egress) in [
            ("/a", 300, 303),
            ("/a/x/y", 300, 303),
            ("/a/x", 303, 302),
            ("/a/b/c", 300, 302),
            ("/localhost/x", 304, 304),
        ] {
            let emitted = bench.process(In::Interest, &interest(uri, 1), |meta| {
                meta.ingress = face(ingress);
                meta.link.token = nw_wire::Token::new(b"theirs").unwrap();
            });
            if egress == ingress {
                assert_eq!(ports(&emitted), ["nack"], "{uri}");
                continue;
            }
            assert_eq!(
                (ports(&emitted), emitted[0].egress),
                (vec!["interest"], face(egress)),
                "{uri}"
            );
            assert_eq!(emitted[0].link.token.as_bytes(), b"theirs");
            assert_eq!(emitted[0].link.incoming_face, face(ingress));
        }
    }

    #[test]
    fn no_route_returns_nack_on_point_to_point_face() {
        let mut bench = bench();
        let emitted = bench.process(In::Interest, &interest("/b", 1), from(300));
        assert_eq!(
            (ports(&emitted), emitted[0].egress, emitted[0].kind),
            (vec!["nack"], face(300), Kind::Nack)
        );
        assert_eq!(emitted[0].link.nack, Some(NackReason::NoRoute));
        assert!(
            bench.process(In::Interest, &interest("/b", 1), from(301)).is_empty(),
            "a multi-access face"
        );
        assert!(
            bench.process(In::Interest, &interest("/b", 1), from(999)).is_empty(),
            "an unknown face"
        );
        bench.element.set_switches(false, false);
        assert!(bench.process(In::Interest, &interest("/b", 1), from(300)).is_empty());
        assert_eq!(bench.drops.total(DropCause::NoRoute), 4);
    }

    #[test]
    fn removed_route_or_face_is_not_used() {
        let mut bench = bench();
        bench.element.face_gone(Timestamp::START, face(303));
        assert_eq!(bench.process(In::Interest, &interest("/a", 1), from(300))[0].egress, face(302));
        assert!(bench.element.remove_route(name("/a").as_ref()));
        assert_eq!(ports(&bench.process(In::Interest, &interest("/a", 1), from(300))), ["nack"]);
        assert_eq!(
            bench.process(In::Interest, &interest("/a/b", 1), from(300))[0].egress,
            face(302)
        );
    }

    #[test]
    fn hop_limit_hint_and_next_hop_face_are_obeyed() {
        let mut bench = bench();
        let spent = InterestBuilder::new(name("/a")).nonce(1).hop_limit(0).encode();
        assert!(bench.process(In::Interest, &spent, from(300)).is_empty());
        assert_eq!(bench.drops.total(DropCause::HopLimitSpent), 1);
        let chosen = |number| move |meta: &mut Meta| meta.link.next_hop_face = Some(face(number));
        assert_eq!(
            bench.process(In::Interest, &interest("/b", 1), chosen(302))[0].egress,
            face(302)
        );
        assert!(bench.process(In::Interest, &interest("/b", 1), chosen(999)).is_empty());
        assert_eq!(bench.drops.total(DropCause::NextHopUnknown), 1);
        let with_hint =
            InterestBuilder::new(name("/a/b")).nonce(1).forwarding_hint(name("/a/x")).encode();
        assert_eq!(bench.process(In::Interest, &with_hint, from(300))[0].egress, face(303));
        bench.element.set_regions(vec![name("/a/x/y")]);
        let emitted = bench.process(In::Interest, &with_hint, from(300));
        assert_eq!((emitted[0].egress, &emitted[0].wire), (face(302), &interest("/a/b", 1)));
    }

    #[test]
    fn data_and_nacks_pass_back_unchanged() {
        let mut bench = bench();
        let back = |meta: &mut Meta| {
            (meta.ingress, meta.egress) = (face(302), face(300));
        };
        let emitted = bench.process(In::Data, &data("/a/x"), back);
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["data"], face(300)));
        let emitted = bench.process(In::Nack, &interest("/a/x", 1), as_nack(NackReason::NoRoute));
        assert_eq!(
            (ports(&emitted), emitted[0].link.nack),
            (vec!["nack"], Some(NackReason::NoRoute))
        );
        bench.element.set_switches(true, true);
        assert_eq!(ports(&bench.process(In::Data, &data("/a/x"), back)), ["data"]);
        assert!(bench.process(In::Data, &data("/a/x"), from(304)).is_empty());
        assert!(bench.process(In::Data, &data("/c"), back).is_empty());
        assert_eq!(bench.drops.total(DropCause::DataFromWrongFace), 2);
        assert_eq!(bench.pool.packets_in_use(), 0);
    }

    const REGISTER: &str = "/localhost/nfd/rib/register/h%00";

    #[test]
    fn command_is_held_for_the_host_and_its_reply_goes_to_the_sender() {
        let mut bench = bench();
        let local = |meta: &mut Meta| {
            (meta.ingress, meta.ingress_local) = (face(304), true);
            meta.link.token = nw_wire::Token::new(b"theirs").unwrap();
        };
        let take = |bench: &mut TestBench<NameRouter>| bench.element.take_command();
        bench.process(In::Interest, &interest(REGISTER, 1), local);
        assert!(take(&mut bench).is_none(), "commands are off");
        bench.element.set_commands(true, true);
        assert!(bench.process(In::Interest, &interest(REGISTER, 2), local).is_empty());
        let command = take(&mut bench).unwrap();
        let reply = data(REGISTER);
        bench.with(|router, now, context| router.reply(now, command, Some(&reply), context));
        let emitted = bench.emitted();
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["data"], face(304)));
        assert_eq!((&emitted[0].wire, emitted[0].link.token.as_bytes()), (&reply, &b"theirs"[..]));
        // Other names of this scope are routed, and so are commands from other machines.
        bench.process(In::Interest, &interest("/localhost/nfd/status", 3), local);
        bench.process(In::Interest, &interest(REGISTER, 4), from(300));
        assert!(take(&mut bench).is_none());
        let localhop = interest("/localhop/nfd/rib/register/h%00", 5);
        assert!(bench.process(In::Interest, &localhop, from(300)).is_empty());
        let command = take(&mut bench).unwrap();
        bench.with(|router, now, context| router.reply(now, command, None, context));
        assert!(bench.emitted().is_empty());
        assert_eq!((bench.drops.total(DropCause::Answered), bench.pool.packets_in_use()), (2, 0));
    }

    #[test]
    fn held_commands_are_bounded_and_dropped_with_the_element() {
        let mut bench = TestBench::with_packets(bench().element, 2 * COMMANDS_MAX);
        bench.element.set_commands(true, false);
        for number in 0..=COMMANDS_MAX as u32 {
            let local = |meta: &mut Meta| meta.ingress_local = true;
            assert!(bench.process(In::Interest, &interest(REGISTER, number), local).is_empty());
        }
        assert_eq!(bench.drops.total(DropCause::CommandsFull), 1);
        bench.with(|router, _, context| router.drop_held(context));
        assert_eq!(bench.drops.total(DropCause::Draining), COMMANDS_MAX as u64);
        assert_eq!(bench.pool.packets_in_use(), 0);
    }

    #[test]
    fn registered_route_is_used_beside_others_until_it_expires() {
        let mut bench = bench();
        let until = bench.now.plus_millis(100);
        let hop = |link: &str, number, cost| SourcedHop {
            origin: RouteOrigin::Graph,
            link: link.to_owned(),
            face: face(number),
            cost,
            until: Timestamp::NEVER,
        };
        bench.element.set_graph_routes([(name("/r"), hop("up", 302, 5))]).unwrap();
        bench.element.register(&name("/r"), face(303), 1, until).unwrap();
        let egress = |bench: &mut TestBench<NameRouter>| {
            bench.process(In::Interest, &interest("/r/x", 1), from(300))[0].egress
        };
        assert_eq!(egress(&mut bench), face(303));
        bench.advance_ms(101);
        assert_eq!(egress(&mut bench), face(302));
        assert_eq!(bench.element.take_registration_events().len(), 2);
        bench.element.register(&name("/only"), face(303), 1, Timestamp::NEVER).unwrap();
        bench.element.face_gone(bench.now, face(303));
        let emitted = bench.process(In::Interest, &interest("/only", 1), from(300));
        assert_eq!(ports(&emitted), ["nack"], "its route went with the face");
    }
}
