//! Sends each Interest to the cheapest next hop of its longest prefix: the FIB alone.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  interest: all that decoding fills, ingress, ingress_local, link as received; data, nack: nothing
//! Sets:   interest: egress, link (as to be sent; the token stays); nack of its own: egress (the asker), link.nack
//! State:  routes, up to a number of prefixes
//! Timers: none
//! Cost:   one lookup, two cache lines
//! Drops:  no_route, next_hop_unknown, hop_limit_spent, data_from_wrong_face (where that is asked for), no_buffer, malformed_too_long
//! Spec:   NDN Packet Format 0.3, HopLimit and ForwardingHint; NDNLPv2, NextHopFaceId; the name router of µNDN
//! ```
//!
//! It remembers no Interest. So whoever stands before it sees to aggregation and to loops (`backward_router`), and answers find back by what the host put on
//! the Interest's token: Data and Nacks pass as they are. Of several next hops it takes the cheapest that the Interest may take; to choose otherwise put a
//! `strategy_forwarder` in its place.
//!
//! What has no route is sent back as Nack(NoRoute) where the link has one peer, or dropped; both count as `no_route`. With `data_from_next_hops_only` a Data
//! passes only from a next hop of its name, as a router without table of pending Interests can't tell otherwise who was asked. That refuses too what
//! comes by a route of a ForwardingHint, or answers an Interest for a shorter prefix that has other next hops.

pub use crate::by_kind::{ByKind as In, ByKind as Out};

use crate::hints;
use crate::scope::Scopes;
use crate::strategy::{Eligibility, Strategies};
use nw_element_api::{
    Cause, Context, DropReason, Element, FaceId, FaceInfo, FaceTable, Instant, Kind, LinkFields, LinkType,
    Meta, Packet, Pool, Scope,
};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::fib::{Fib, FibConfig, FibError, NextHop};
use nw_wire::NackReason;

/// What a name router is made with.
#[derive(Clone, Copy, Debug)]
pub struct NameRouterConfig {
    /// Sizes of the FIB.
    pub fib: FibConfig,
    /// Answers what has no route by a Nack.
    pub nacks: bool,
    /// Lets Data pass only from a next hop of its name.
    pub data_from_next_hops_only: bool,
}

impl Default for NameRouterConfig {
    /// As many prefixes as a router has room for by default; Nacks; Data from anywhere.
    fn default() -> Self {
        let fib = FibConfig::new(FibConfig::PREFIXES_DEFAULT);
        NameRouterConfig { fib, nacks: true, data_from_next_hops_only: false }
    }
}

/// See the module.
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
    /// Without faces and routes. `key` is the one packets are decoded with.
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

    /// Sets the next hops of a prefix, in place of what was.
    ///
    /// # Errors
    /// What is too much; nothing has changed then.
    pub fn set_route(&mut self, name: NameRef<'_>, next_hops: &[NextHop]) -> Result<(), FibError> {
        self.fib.set(name, next_hops, Strategies::DEFAULT)
    }

    /// Removes a prefix; false when it was not there.
    pub fn remove_route(&mut self, name: NameRef<'_>) -> bool {
        self.fib.remove(name)
    }

    /// Names of the regions it is in: a ForwardingHint that is a prefix of one of them has done its work.
    pub fn set_regions(&mut self, regions: Vec<Name>) {
        self.regions = regions;
    }

    /// Whether what has no route is answered by a Nack, and whether Data may come from anywhere.
    pub const fn set_switches(&mut self, nacks: bool, data_from_next_hops_only: bool) {
        self.nacks = nacks;
        self.data_from_next_hops_only = data_from_next_hops_only;
    }

    /// Routes, for status.
    pub const fn fib(&self) -> &Fib {
        &self.fib
    }

    /// True for packets of which routes are looked up.
    #[inline(always)]
    fn asks_fib(&self, port: In) -> bool {
        match port {
            In::Interest => true,
            In::Data => self.data_from_next_hops_only,
            In::Nack => false,
        }
    }

    #[inline]
    fn interest(&mut self, packet: Packet, context: &mut Context<'_, Out>) {
        let packet = match hints::strip(&self.regions, packet, context.pool) {
            Ok(packet) => packet,
            Err((packet, reason)) => return context.pool.drop_packet(packet, reason, context.drops),
        };
        let (bytes, meta) = context.pool.view(&packet);
        let next_hop = match meta.link.next_hop_face {
            Some(next_hop) => Some(next_hop).filter(|face| self.faces.contains(*face)),
            None => self.cheapest(bytes, meta),
        };
        let asked_for_it = meta.link.next_hop_face.is_some();
        match next_hop {
            Some(next_hop) => send(packet, next_hop, &self.faces, context),
            None if asked_for_it => {
                context.pool.drop_packet(packet, Cause::NextHopUnknown, context.drops);
            }
            None => self.refuse(packet, context),
        }
    }

    #[inline]
    fn cheapest(&self, bytes: &[u8], meta: &Meta) -> Option<FaceId> {
        let name = meta.name_in(bytes);
        let next_hops = match meta.hint.1 {
            0 => self.fib.lookup(name, &meta.prefixes)?.next_hops,
            _ => hints::next_hops(&self.fib, &self.key, hints::names(meta, bytes)),
        };
        let scope = self.scopes.of(|| name, &meta.prefixes);
        let eligibility = Eligibility::new(&self.faces, meta.ingress, meta.ingress_local, scope);
        next_hops.iter().map(|hop| hop.face).find(|face| eligibility.allows(*face))
    }

    fn refuse(&self, packet: Packet, context: &mut Context<'_, Out>) {
        let asker = self.faces.info(context.pool.meta(&packet).ingress);
        if !self.nacks || asker.is_none_or(|face| face.link_type != LinkType::PointToPoint) {
            return context.pool.drop_packet(packet, Cause::NoRoute, context.drops);
        }
        context.drops.count(Cause::NoRoute);
        make_nack(context.pool, &packet, NackReason::NoRoute);
        context.out.send(Out::Nack, packet);
    }

    fn data(&self, packet: Packet, context: &mut Context<'_, Out>) {
        if self.data_from_next_hops_only {
            let (bytes, meta) = context.pool.view(&packet);
            let route = self.fib.lookup(meta.name_in(bytes), &meta.prefixes);
            if !route.is_some_and(|route| route.next_hops.iter().any(|hop| hop.face == meta.ingress)) {
                return context.pool.drop_packet(packet, Cause::DataFromWrongFace, context.drops);
            }
        }
        context.out.send(Out::Data, packet);
    }
}

/// Sends an Interest to a face, by an element that remembers none: its token is the asker's, or the host's.
#[inline]
fn send(packet: Packet, next_hop: FaceId, faces: &FaceTable, context: &mut Context<'_, Out>) {
    match prepare(context.pool, &packet, next_hop, faces) {
        Ok(()) => context.out.send(Out::Interest, packet),
        Err(reason) => context.pool.drop_packet(packet, reason, context.drops),
    }
}

/// Makes an Interest one that leaves by a face, its token as it is.
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
        return Err(Cause::HopLimitSpent.into());
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

/// Makes an Interest the Nack that answers it.
pub(crate) fn make_nack(pool: &mut Pool, packet: &Packet, reason: NackReason) {
    let meta = pool.meta_mut(packet);
    meta.kind = Kind::Nack;
    meta.egress = meta.ingress;
    meta.link = LinkFields { token: meta.link.token, nack: Some(reason), ..LinkFields::default() };
}

impl Element for NameRouter {
    type In = In;
    type Out = Out;

    fn prefetch_stages(_: In) -> usize {
        Fib::PREFETCH_STAGES
    }

    fn leads(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Interest, Out::Nack],
            In::Data => &[Out::Data],
            In::Nack => &[Out::Nack],
        }
    }

    fn usual(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Interest,
            In::Data => Out::Data,
            In::Nack => Out::Nack,
        })
    }

    #[inline(always)]
    fn is_far(&self) -> bool {
        self.fib.is_far()
    }

    #[inline(always)]
    fn prefetch_far(&self, port: In, meta: &Meta) {
        if self.asks_fib(port) {
            self.fib.prefetch_far(&meta.prefixes);
        }
    }

    #[inline]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta) {
        // Hints are for one FIB, and a chain may have several.
        if self.asks_fib(port) {
            self.fib.prefetch(stage, &meta.prefixes);
        }
    }

    #[inline]
    fn process(&mut self, _: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        match port {
            In::Interest => self.interest(packet, context),
            In::Data => self.data(packet, context),
            In::Nack => context.out.send(Out::Nack, packet),
        }
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.faces.insert(face, info);
    }

    fn face_gone(&mut self, _: Instant, face: FaceId) {
        self.faces.remove(face);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{KEY, Lab, as_nack, data, face, interest, name, ports};
    use nw_wire::InterestBuilder;

    /// Consumers are 300 (point-to-point) and 301 (many), next hops 302 and 303, 304 is local.
    fn lab() -> Lab<NameRouter> {
        let config = NameRouterConfig { fib: FibConfig::new(64), ..NameRouterConfig::default() };
        let mut lab = Lab::new(NameRouter::new(KEY, config));
        for number in 300..305 {
            let scope = if number == 304 { Scope::Local } else { Scope::NonLocal };
            let link_type = if number == 301 { LinkType::MultiAccess } else { LinkType::PointToPoint };
            lab.element.face_added(face(number), FaceInfo { scope, link_type });
        }
        for (prefix, hops) in
            [("/a", &[(302, 5), (303, 2)][..]), ("/a/b", &[(302, 0)]), ("/localhost", &[(302, 0), (304, 1)])]
        {
            let hops: Vec<NextHop> =
                hops.iter().map(|(number, cost)| NextHop { face: face(*number), cost: *cost }).collect();
            lab.element.set_route(name(prefix).as_ref(), &hops).unwrap();
        }
        lab
    }

    fn from(number: u32) -> impl Fn(&mut Meta) {
        move |meta| meta.ingress = face(number)
    }

    #[test]
    fn the_cheapest_of_the_longest_prefix_but_where_it_came_from() {
        let mut lab = lab();
        for (uri, ingress, egress) in [
            ("/a", 300, 303),
            ("/a/x/y", 300, 303),
            ("/a/x", 303, 302),
            ("/a/b/c", 300, 302),
            ("/localhost/x", 304, 304),
        ] {
            let left = lab.give(In::Interest, &interest(uri, 1), |meta| {
                meta.ingress = face(ingress);
                meta.link.token = nw_wire::Token::new(b"theirs").unwrap();
            });
            if egress == ingress {
                assert_eq!(ports(&left), ["nack"], "{uri}");
                continue;
            }
            assert_eq!((ports(&left), left[0].egress), (vec!["interest"], face(egress)), "{uri}");
            assert_eq!(left[0].link.token.as_bytes(), b"theirs");
            assert_eq!(left[0].link.incoming_face, face(ingress));
        }
    }

    #[test]
    fn without_route_a_nack_goes_back_where_one_may() {
        let mut lab = lab();
        let left = lab.give(In::Interest, &interest("/b", 1), from(300));
        assert_eq!((ports(&left), left[0].egress, left[0].kind), (vec!["nack"], face(300), Kind::Nack));
        assert_eq!(left[0].link.nack, Some(NackReason::NoRoute));
        assert!(lab.give(In::Interest, &interest("/b", 1), from(301)).is_empty(), "a link of many");
        assert!(lab.give(In::Interest, &interest("/b", 1), from(999)).is_empty(), "a face nobody knows");
        lab.element.set_switches(false, false);
        assert!(lab.give(In::Interest, &interest("/b", 1), from(300)).is_empty());
        assert_eq!(lab.drops.total(Cause::NoRoute), 4);
    }

    #[test]
    fn routes_and_faces_that_go_lead_nowhere() {
        let mut lab = lab();
        lab.element.face_gone(Instant::START, face(303));
        assert_eq!(lab.give(In::Interest, &interest("/a", 1), from(300))[0].egress, face(302));
        assert!(lab.element.remove_route(name("/a").as_ref()));
        assert_eq!(ports(&lab.give(In::Interest, &interest("/a", 1), from(300))), ["nack"]);
        assert_eq!(lab.give(In::Interest, &interest("/a/b", 1), from(300))[0].egress, face(302));
    }

    #[test]
    fn hop_limits_hints_and_chosen_next_hops() {
        let mut lab = lab();
        let spent = InterestBuilder::new(name("/a")).nonce(1).hop_limit(0).encode();
        assert!(lab.give(In::Interest, &spent, from(300)).is_empty());
        assert_eq!(lab.drops.total(Cause::HopLimitSpent), 1);
        let chosen = |number| move |meta: &mut Meta| meta.link.next_hop_face = Some(face(number));
        assert_eq!(lab.give(In::Interest, &interest("/b", 1), chosen(302))[0].egress, face(302));
        assert!(lab.give(In::Interest, &interest("/b", 1), chosen(999)).is_empty());
        assert_eq!(lab.drops.total(Cause::NextHopUnknown), 1);
        let hinted = InterestBuilder::new(name("/a/b")).nonce(1).forwarding_hint(name("/a/x")).encode();
        assert_eq!(lab.give(In::Interest, &hinted, from(300))[0].egress, face(303));
        lab.element.set_regions(vec![name("/a/x/y")]);
        let left = lab.give(In::Interest, &hinted, from(300));
        assert_eq!((left[0].egress, &left[0].wire), (face(302), &interest("/a/b", 1)));
    }

    #[test]
    fn what_comes_back_passes() {
        let mut lab = lab();
        let back = |meta: &mut Meta| {
            (meta.ingress, meta.egress) = (face(302), face(300));
        };
        let left = lab.give(In::Data, &data("/a/x"), back);
        assert_eq!((ports(&left), left[0].egress), (vec!["data"], face(300)));
        let left = lab.give(In::Nack, &interest("/a/x", 1), as_nack(NackReason::NoRoute));
        assert_eq!((ports(&left), left[0].link.nack), (vec!["nack"], Some(NackReason::NoRoute)));
        lab.element.set_switches(true, true);
        assert_eq!(ports(&lab.give(In::Data, &data("/a/x"), back)), ["data"]);
        assert!(lab.give(In::Data, &data("/a/x"), from(304)).is_empty());
        assert!(lab.give(In::Data, &data("/c"), back).is_empty());
        assert_eq!(lab.drops.total(Cause::DataFromWrongFace), 2);
        assert_eq!(lab.pool.packets_in_use(), 0);
    }
}
