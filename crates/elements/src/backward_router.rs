//! Records Interests that pass and returns their Data to the downstreams: the PIT alone.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  all that decoding fills; ingress, ingress_local, link as received; scope, hop limit and
//!         nonce handled by `packet_dispatcher`
//! Sets:   interest: egress 0 (the next element chooses), link with a token of its own; data, nack:
//!         egress (the downstream), link with the downstream's token, cached
//! State:  PIT and dead nonce list, each up to a fixed number
//! Timers: one per pending Interest: the latest in-record expiry
//! Cost:   that of the router without its FIB: two cache lines for an Interest, two for its Data
//! Drops:  duplicate_nonce, aggregated, retransmission_suppressed, pit_full, pit_full_for_face,
//!         unsolicited_data, unsolicited_nack, nack_consumed, face_gone, no_buffer,
//!         malformed_too_long
//! Spec:   NDN Packet Format 0.3; NDNLPv2, PitToken; the backward router of µNDN
//! ```
//!
//! It is the router element with a single route: `/` leads to one face that stands for everything
//! upstream. So aggregation, loops, retransmissions, Nacks, tokens and expiry are the router's own.
//! As it does not choose next hops, it can't know which face may answer: Data is accepted from any
//! face, and the name router after it or the graph's connections decide what is upstream.
//!
//! Data leaves with egress 0 if it has no downstream left but a content store may keep it.
//!
//! An element upstream may reply to an Interest that came by another way than through this one: a
//! name router to the command of a producer, say. Such a reply has its egress already. It passes
//! unchanged if nothing is pending for it.

pub use crate::by_kind::{ByKind as In, ByKind as Out};

use crate::router::{self, Router, RouterConfig, RouterCounters};
use crate::strategy::Strategies;
use nw_element_api::{
    Context, DropCause, Element, ElementStatus, FaceId, FaceInfo, Kind, LinkType, Meta, Outbox,
    Packet, Peer, Pool, Prediction, Scope, Timestamp,
};
use nw_name::{HashKey, NameRef};
use nw_tables::fib::{FibConfig, NextHop};
use nw_tables::pit::{Pit, PitConfig};

/// Configuration of a backward router.
#[derive(Clone, Debug)]
pub struct BackwardRouterConfig {
    /// Number of this shard, written into its PIT tokens.
    pub shard: u8,
    /// Sizes of the PIT.
    pub pit: PitConfig,
    /// Nonces remembered after their Interest has ended.
    pub dead_nonces: usize,
    /// Whether each Interest that is sent carries a token of 6 bytes, to be returned with its
    /// answer.
    pub tokens: bool,
}

impl Default for BackwardRouterConfig {
    /// 262,144 pending Interests.
    fn default() -> Self {
        let config = RouterConfig::default();
        BackwardRouterConfig {
            shard: config.shard,
            pit: config.pit,
            dead_nonces: config.dead_nonces,
            tokens: config.upstream_tokens,
        }
    }
}

/// The face that stands for everything upstream. No real face has this number: face slots start at
/// 256.
const UPSTREAM: FaceId = FaceId::from_bits(2);

/// The backward router element.
#[derive(Debug)]
pub struct BackwardRouter {
    router: Router,
    router_out: Outbox<router::Out>,
}

impl BackwardRouter {
    /// Creates a backward router without faces. `key` must be the key that packets are decoded
    /// with.
    pub fn new(key: HashKey, config: BackwardRouterConfig) -> Self {
        let config = RouterConfig {
            shard: config.shard,
            pit: config.pit,
            // Space for one route and for its replacement.
            fib: FibConfig::new(2),
            dead_nonces: config.dead_nonces,
            upstream_tokens: config.tokens,
            measurements: 1,
            ..RouterConfig::default()
        };
        let mut router = Router::new(key, config);
        // The element that chooses the next hop checks scope and hop limit.
        router.add_face(
            UPSTREAM,
            FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint },
        );
        router.enable_tokens(UPSTREAM);
        let next_hops = [NextHop { face: UPSTREAM, cost: 0 }];
        let set = router.set_initial_route(NameRef::ROOT, &next_hops, Strategies::DEFAULT);
        set.expect("an empty FIB has room for /");
        BackwardRouter { router, router_out: Outbox::with_capacity(64) }
    }

    /// Sets how many Interests one face may have pending; `None` for no limit. Further ones are
    /// answered by Nack(Congestion).
    pub fn set_face_limit(&mut self, interests_max: Option<u32>) {
        self.router.set_face_limit(interests_max);
    }

    /// Returns how pending Interests ended so far.
    pub const fn counters(&self) -> RouterCounters {
        self.router.counters()
    }

    /// Returns the PIT, for status.
    pub const fn pit(&self) -> &Pit {
        self.router.pit()
    }

    /// Returns whether a packet is the reply of an element to an Interest that did not pass here.
    /// Packets of faces have no egress yet.
    #[inline]
    fn is_for_another_way(&mut self, packet: &Packet, pool: &Pool) -> bool {
        let meta = pool.meta(packet);
        meta.egress != FaceId::NONE
            && matches!(meta.kind, Kind::Data | Kind::Nack)
            && !self.router.awaits_from(UPSTREAM, packet, pool)
    }

    /// Calls the router and forwards what it emits. `upstream` is the face of a packet that came
    /// from upstream; `next_hop` is the NextHopFaceId of an Interest.
    #[inline]
    fn run(
        &mut self,
        context: &mut Context<'_, Out>,
        upstream: FaceId,
        next_hop: Option<FaceId>,
        call: impl FnOnce(&mut Router, &mut Context<'_, router::Out>),
    ) {
        call(
            &mut self.router,
            &mut Context { pool: context.pool, out: &mut self.router_out, drops: context.drops },
        );
        while let Some((port, packet)) = self.router_out.take() {
            let meta = context.pool.meta_mut(&packet);
            match port {
                router::Out::Interest => {
                    meta.egress = FaceId::NONE;
                    meta.link.next_hop_face = next_hop;
                    context.out.send(Out::Interest, packet);
                }
                router::Out::Data => {
                    meta.ingress = upstream;
                    meta.link.incoming_face = upstream;
                    context.out.send(Out::Data, packet);
                }
                router::Out::Nack => context.out.send(Out::Nack, packet),
                // Best-route, its only strategy, emits none.
                router::Out::RouteEvent => {
                    context.pool.drop_packet(packet, DropCause::NackConsumed, context.drops);
                }
            }
        }
    }
}

/// Returns the router's port for one of this element's.
const fn router_port(port: In) -> router::In {
    match port {
        In::Interest => router::In::Interest,
        In::Data => router::In::Data,
        In::Nack => router::In::Nack,
    }
}

impl Element for BackwardRouter {
    type In = In;
    type Out = Out;

    const TRACKS_PENDING: bool = true;
    const DETECTS_LOOPS: bool = true;

    fn prefetch_stages(_: In) -> usize {
        1 + Pit::PREFETCH_STAGES
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
    fn prefetch(&self, stage: usize, port: In, meta: &Meta, prediction: &mut Prediction) {
        if let Some(stage) = stage.checked_sub(1) {
            self.router.prefetch_pending(stage, router_port(port), meta, prediction);
        }
    }

    #[inline]
    fn process(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        if self.is_for_another_way(&packet, context.pool) {
            let out = if let In::Data = port { Out::Data } else { Out::Nack };
            return context.out.send(out, packet);
        }
        let meta = context.pool.meta_mut(&packet);
        let (upstream, next_hop) = match meta.kind {
            Kind::Interest => (FaceId::NONE, meta.link.next_hop_face.take()),
            Kind::Data | Kind::Nack | Kind::Publication => {
                (core::mem::replace(&mut meta.ingress, UPSTREAM), None)
            }
        };
        self.run(context, upstream, next_hop, |router, context| {
            router.process(now, router_port(port), packet, context);
        });
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.router.add_face(face, info);
    }

    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.router.set_peer(face, peer);
    }

    fn face_gone(&mut self, now: Timestamp, face: FaceId) {
        self.router.remove_face(now, face);
    }

    fn is_idle(&self) -> bool {
        self.router.is_idle()
    }

    fn awaits_reply(&self, packet: &Packet, pool: &Pool) -> bool {
        self.router.is_awaiting_from(UPSTREAM, packet, pool)
    }

    fn status(&self) -> ElementStatus {
        self.router.status()
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.router.deadline()
    }

    fn tick(&mut self, now: Timestamp, context: &mut Context<'_, Out>) {
        self.run(context, FaceId::NONE, None, |router, context| router.tick(now, context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::Meta;
    use nw_testkit::bench::{KEY, TestBench, as_nack, data, face, interest, name, ports};
    use nw_wire::{InterestBuilder, NackReason, Token};

    /// Faces 300 and 301 are downstreams, 302 is upstream.
    fn bench() -> TestBench<BackwardRouter> {
        let config = BackwardRouterConfig {
            pit: PitConfig::for_entries(8),
            dead_nonces: 64,
            ..BackwardRouterConfig::default()
        };
        let mut bench = TestBench::new(BackwardRouter::new(KEY, config));
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        for number in 300..303 {
            bench.element.face_added(face(number), info);
        }
        bench
    }

    fn from(number: u32, token: &'static [u8]) -> impl Fn(&mut Meta) {
        move |meta| {
            meta.ingress = face(number);
            meta.link.token = Token::new(token).unwrap();
        }
    }

    #[test]
    fn reply_to_an_interest_of_another_way_passes_and_others_are_matched() {
        let mut bench = bench();
        let made_here = |meta: &mut Meta| {
            (meta.ingress, meta.egress) = (FaceId::INTERNAL, face(302));
            meta.link.token = Token::new(b"theirs").unwrap();
        };
        let emitted = bench.process(In::Data, &data("/localhost/nfd/rib/register/x"), made_here);
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["data"], face(302)));
        assert_eq!(emitted[0].link.token.as_bytes(), b"theirs");
        let (no_route, reply) = (interest("/b", 7), data("/b"));
        let nack = |meta: &mut Meta| {
            as_nack(NackReason::NoRoute)(meta);
            meta.egress = face(302);
        };
        let emitted = bench.process(In::Nack, &no_route, nack);
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["nack"], face(302)));
        // What is pending gets the reply, also without its token.
        bench.process(In::Interest, &no_route, from(300, b"one"));
        let emitted = bench.process(In::Data, &reply, made_here);
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["data"], face(300)));
        assert_eq!(emitted[0].link.token.as_bytes(), b"one");
        // Data of a face that nothing awaits is dropped.
        assert!(bench.process(In::Data, &reply, from(302, b"")).is_empty());
        assert_eq!(bench.drops.total(DropCause::UnsolicitedData), 1);
        assert_eq!(bench.pool.packets_in_use(), 0);
    }

    #[test]
    fn aggregated_interests_each_get_the_data() {
        let mut bench = bench();
        let emitted = bench.process(In::Interest, &interest("/a", 1), from(300, b"one"));
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["interest"], FaceId::NONE));
        assert_eq!((emitted[0].ingress, emitted[0].link.token.as_bytes().len()), (face(300), 6));
        let token = emitted[0].link.token;
        assert!(bench.process(In::Interest, &interest("/a", 2), from(301, b"two")).is_empty());
        assert_eq!(bench.drops.total(DropCause::Aggregated), 1);
        let emitted = bench.process(In::Data, &data("/a"), |meta| {
            (meta.ingress, meta.link.token) = (face(302), token);
        });
        assert_eq!(ports(&emitted), ["data", "data"]);
        let back: Vec<_> =
            emitted.iter().map(|l| (l.egress, l.link.token.as_bytes().to_vec())).collect();
        assert_eq!(back, [(face(300), b"one".to_vec()), (face(301), b"two".to_vec())]);
        assert!(
            emitted
                .iter()
                .all(|emitted| (emitted.ingress, emitted.link.incoming_face)
                    == (face(302), face(302)))
        );
        assert_eq!(bench.element.counters().satisfied, 1);
        assert!(bench.element.pit().is_empty());
        assert!(bench.process(In::Data, &data("/a"), from(302, b"")).is_empty());
        assert_eq!(bench.drops.total(DropCause::UnsolicitedData), 1);
        assert_eq!(bench.pool.packets_in_use(), 0);
    }

    #[test]
    fn data_without_token_matches_by_prefix() {
        let mut bench = bench();
        let wire = InterestBuilder::new(name("/a")).nonce(1).can_be_prefix(true).encode();
        bench.process(In::Interest, &wire, from(300, b""));
        assert_eq!(ports(&bench.process(In::Data, &data("/a/b"), from(302, b""))), ["data"]);
    }

    #[test]
    fn nacks_are_returned_and_loops_end() {
        let mut bench = bench();
        bench.process(In::Interest, &interest("/a", 1), from(300, b"one"));
        let emitted = bench.process(In::Interest, &interest("/a", 1), from(301, b""));
        assert_eq!(
            (ports(&emitted), emitted[0].link.nack),
            (vec!["nack"], Some(NackReason::Duplicate))
        );
        let nack = as_nack(NackReason::NoRoute);
        let emitted = bench.process(In::Nack, &interest("/a", 1), |meta| {
            from(302, b"")(meta);
            nack(meta);
        });
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["nack"], face(300)));
        assert_eq!(
            (emitted[0].link.nack, emitted[0].link.token.as_bytes()),
            (Some(NackReason::NoRoute), &b"one"[..])
        );
        assert!(bench.element.pit().is_empty());
        assert_eq!(bench.drops.total(DropCause::NackConsumed), 1);
    }

    #[test]
    fn unanswered_interest_expires() {
        let mut bench = bench();
        let wire = InterestBuilder::new(name("/a")).nonce(1).lifetime_ms(100).encode();
        bench.process(In::Interest, &wire, from(300, b""));
        bench.advance_ms(50);
        assert_eq!(bench.element.pit().len(), 1);
        bench.advance_ms(60);
        assert!(bench.element.pit().is_empty());
        assert_eq!(bench.element.counters().unsatisfied, 1);
        assert_eq!(bench.element.deadline(), None);
    }

    #[test]
    fn retransmission_after_suppression_interval_is_forwarded() {
        let mut bench = bench();
        bench.process(In::Interest, &interest("/a", 1), from(300, b""));
        assert!(bench.process(In::Interest, &interest("/a", 2), from(300, b"")).is_empty());
        assert_eq!(bench.drops.total(DropCause::RetransmissionSuppressed), 1);
        bench.advance_ms(10);
        assert_eq!(
            ports(&bench.process(In::Interest, &interest("/a", 3), from(300, b""))),
            ["interest"]
        );
    }

    /// NextHopFaceId, scope and a hop limit of 0 are left to the element that chooses the next hop.
    #[test]
    fn next_hop_face_and_hop_limit_are_left_unchanged() {
        let mut bench = bench();
        let wire = InterestBuilder::new(name("/localhost/a")).nonce(1).hop_limit(0);
        let wire = wire.forwarding_hint(name("/hint")).encode();
        let emitted = bench.process(In::Interest, &wire, |meta| {
            meta.ingress = face(300);
            meta.link.next_hop_face = Some(face(999));
        });
        assert_eq!(
            (ports(&emitted), emitted[0].link.next_hop_face),
            (vec!["interest"], Some(face(999)))
        );
        assert_eq!(emitted[0].wire, wire);
    }

    #[test]
    fn face_limit_reached_returns_congestion_nack() {
        let mut bench = bench();
        bench.element.set_face_limit(Some(1));
        bench.process(In::Interest, &interest("/a", 1), from(300, b""));
        let emitted = bench.process(In::Interest, &interest("/b", 1), from(300, b""));
        assert_eq!(emitted[0].link.nack, Some(NackReason::Congestion));
        assert_eq!(bench.drops.total(DropCause::PitFullForFace), 1);
        bench.element.face_gone(Timestamp::START, face(300));
        assert!(bench.element.pit().is_empty());
    }
}
