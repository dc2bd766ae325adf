//! Sends each Interest to the cheapest next hop of its longest prefix: the FIB alone.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  interest: all that decoding fills, ingress, ingress_local, link as received; data, nack:
//!         nothing
//! Sets:   interest: egress, link (as to be sent; the token is kept); nack of its own: egress (the
//!         downstream), link.nack
//! State:  routes, up to a number of prefixes
//! Timers: none
//! Cost:   one lookup, two cache lines
//! Drops:  no_route, next_hop_unknown, hop_limit_spent, data_from_wrong_face (if configured),
//!         no_buffer, malformed_too_long
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

pub use crate::by_kind::{ByKind as In, ByKind as Out};

use crate::forwarding_hint;
use crate::scope::Scopes;
use crate::strategy::{Eligibility, Strategies};
use nw_element_api::{
    Context, DropCause, DropReason, Element, FaceId, FaceInfo, FaceTable, Kind, LinkFields,
    LinkType, Meta, Packet, Pool, Prediction, Scope, Timestamp,
};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::fib::{Fib, FibConfig, FibError, NextHop};
use nw_wire::NackReason;

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
        }
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
}
