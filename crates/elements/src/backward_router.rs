//! Remembers Interests that pass and takes Data back to whoever asked: the table of pending Interests alone.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  all that decoding fills; ingress, ingress_local, link as received; scope, hop limit and nonce seen to by `packet_dispatcher`
//! Sets:   interest: egress 0 (whoever comes next chooses), link with a token of its own; data, nack: egress (the asker), link with the asker's token, cached
//! State:  pending Interests and dead nonces, each up to a number
//! Timers: one per pending Interest: the latest of its askers' lifetimes
//! Cost:   that of the router without its FIB: two cache lines for an Interest, two for its Data
//! Drops:  duplicate_nonce, aggregated, retransmission_suppressed, pit_full, pit_full_for_face, unsolicited_data, unsolicited_nack, nack_consumed, face_gone,
//!         no_buffer, malformed_too_long
//! Spec:   NDN Packet Format 0.3; NDNLPv2, PitToken; the backward router of µNDN
//! ```
//!
//! It *is* the router, with one route: `/` leads upstream, whatever is there. So aggregation, loops, retransmissions, Nacks, tokens and expiry are the
//! router's own. As it does not choose where Interests go, it can't tell who may answer: Data is taken from any face, as the name router behind it, or a
//! graph's wiring, says who is upstream.
//!
//! A Data leaves with egress 0 when nobody waits for it any more but a content store may keep it.

pub use crate::by_kind::{ByKind as In, ByKind as Out};

use crate::router::{self, Router, RouterConfig, RouterCounters};
use crate::strategy::Strategies;
use nw_element_api::{
    Cause, Context, Element, FaceId, FaceInfo, Instant, Kind, LinkType, Meta, Outbox, Packet, Peer, Pool,
    Scope,
};
use nw_name::{HashKey, NameRef};
use nw_tables::fib::{FibConfig, NextHop};
use nw_tables::pit::{Pit, PitConfig};

/// What a backward router is made with.
#[derive(Clone, Debug)]
pub struct BackwardRouterConfig {
    /// Number of this shard, in the tokens it gives.
    pub shard: u8,
    /// Sizes of the pending Interest table.
    pub pit: PitConfig,
    /// Nonces remembered after their Interest is gone.
    pub dead_nonces: usize,
    /// Gives each Interest that is sent a token of 6 octets, to be returned with its answer.
    pub tokens: bool,
}

impl Default for BackwardRouterConfig {
    /// A quarter of a million pending Interests.
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

/// All that is upstream, as the router sees it. No face has this number: slots of faces start at 256.
const UPSTREAM: FaceId = FaceId::from_bits(2);

/// See the module.
#[derive(Debug)]
pub struct BackwardRouter {
    router: Router,
    routed: Outbox<router::Out>,
}

impl BackwardRouter {
    /// Without faces. `key` is the one packets are decoded with.
    pub fn new(key: HashKey, config: BackwardRouterConfig) -> Self {
        let config = RouterConfig {
            shard: config.shard,
            pit: config.pit,
            // One route, and the one before it while they change places.
            fib: FibConfig::new(2),
            dead_nonces: config.dead_nonces,
            upstream_tokens: config.tokens,
            measurements: 1,
            ..RouterConfig::default()
        };
        let mut router = Router::new(key, config);
        // Scope and hop limit are seen to where it is known which way an Interest goes.
        router.add_face(UPSTREAM, FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint });
        router.give_tokens(UPSTREAM);
        let next_hops = [NextHop { face: UPSTREAM, cost: 0 }];
        let set = router.set_only_route(NameRef::ROOT, &next_hops, Strategies::DEFAULT);
        set.expect("an empty FIB has room for /");
        BackwardRouter { router, routed: Outbox::with_capacity(64) }
    }

    /// How many Interests one face may have pending; `None` as many as there is room for. More are answered by Nack(Congestion).
    pub fn set_face_limit(&mut self, interests_max: Option<u32>) {
        self.router.set_face_limit(interests_max);
    }

    /// Pending Interests that ended so far.
    pub const fn counters(&self) -> RouterCounters {
        self.router.counters()
    }

    /// Pending Interests, for status.
    pub const fn pit(&self) -> &Pit {
        self.router.pit()
    }

    /// Lets the router do something and passes on what leaves. `upstream` is where the packet came from, if from upstream; `next_hop` where its
    /// sender wants it to go.
    #[inline]
    fn run(
        &mut self,
        context: &mut Context<'_, Out>,
        upstream: FaceId,
        next_hop: Option<FaceId>,
        act: impl FnOnce(&mut Router, &mut Context<'_, router::Out>),
    ) {
        act(
            &mut self.router,
            &mut Context { pool: context.pool, out: &mut self.routed, drops: context.drops },
        );
        while let Some((port, packet)) = self.routed.take() {
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
                // Its one strategy teaches nothing.
                router::Out::Lesson => {
                    context.pool.drop_packet(packet, Cause::NackConsumed, context.drops);
                }
            }
        }
    }
}

const fn inner(port: In) -> router::In {
    match port {
        In::Interest => router::In::Interest,
        In::Data => router::In::Data,
        In::Nack => router::In::Nack,
    }
}

impl Element for BackwardRouter {
    type In = In;
    type Out = Out;

    const CLAIMS_REPLIES: bool = true;
    const GUARDS_LOOPS: bool = true;

    fn prefetch_stages(_: In) -> usize {
        Pit::PREFETCH_STAGES
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

    #[inline]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta) {
        self.router.prefetch_pending(stage, inner(port), meta);
    }

    #[inline]
    fn process(&mut self, now: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let meta = context.pool.meta_mut(&packet);
        let (upstream, next_hop) = match meta.kind {
            Kind::Interest => {
                meta.route_hint.forget();
                (FaceId::NONE, meta.link.next_hop_face.take())
            }
            Kind::Data | Kind::Nack => (core::mem::replace(&mut meta.ingress, UPSTREAM), None),
        };
        self.run(context, upstream, next_hop, |router, context| {
            router.process(now, inner(port), packet, context);
        });
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.router.add_face(face, info);
    }

    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.router.set_peer(face, peer);
    }

    fn face_gone(&mut self, now: Instant, face: FaceId) {
        self.router.remove_face(now, face);
    }

    fn is_idle(&self) -> bool {
        self.router.is_idle()
    }

    fn expects(&self, packet: &Packet, pool: &Pool) -> bool {
        self.router.awaits_from(UPSTREAM, packet, pool)
    }

    fn deadline(&self) -> Option<Instant> {
        self.router.deadline()
    }

    fn tick(&mut self, now: Instant, context: &mut Context<'_, Out>) {
        self.run(context, FaceId::NONE, None, |router, context| router.tick(now, context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{KEY, Lab, as_nack, data, face, interest, name, ports};
    use nw_element_api::Meta;
    use nw_wire::{InterestBuilder, NackReason, Token};

    /// 300 and 301 ask, 302 is somewhere upstream.
    fn lab() -> Lab<BackwardRouter> {
        let config = BackwardRouterConfig {
            pit: PitConfig::for_entries(8),
            dead_nonces: 64,
            ..BackwardRouterConfig::default()
        };
        let mut lab = Lab::new(BackwardRouter::new(KEY, config));
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        for number in 300..303 {
            lab.element.face_added(face(number), info);
        }
        lab
    }

    fn from(number: u32, token: &'static [u8]) -> impl Fn(&mut Meta) {
        move |meta| {
            meta.ingress = face(number);
            meta.link.token = Token::new(token).unwrap();
        }
    }

    #[test]
    fn one_goes_up_and_one_comes_back_to_each() {
        let mut lab = lab();
        let left = lab.give(In::Interest, &interest("/a", 1), from(300, b"one"));
        assert_eq!((ports(&left), left[0].egress), (vec!["interest"], FaceId::NONE));
        assert_eq!((left[0].ingress, left[0].link.token.as_bytes().len()), (face(300), 6));
        let token = left[0].link.token;
        assert!(lab.give(In::Interest, &interest("/a", 2), from(301, b"two")).is_empty());
        assert_eq!(lab.drops.total(Cause::Aggregated), 1);
        let left = lab.give(In::Data, &data("/a"), |meta| {
            (meta.ingress, meta.link.token) = (face(302), token);
        });
        assert_eq!(ports(&left), ["data", "data"]);
        let back: Vec<_> = left.iter().map(|l| (l.egress, l.link.token.as_bytes().to_vec())).collect();
        assert_eq!(back, [(face(300), b"one".to_vec()), (face(301), b"two".to_vec())]);
        assert!(left.iter().all(|left| (left.ingress, left.link.incoming_face) == (face(302), face(302))));
        assert_eq!(lab.element.counters().satisfied, 1);
        assert!(lab.element.pit().is_empty());
        assert!(lab.give(In::Data, &data("/a"), from(302, b"")).is_empty());
        assert_eq!(lab.drops.total(Cause::UnsolicitedData), 1);
        assert_eq!(lab.pool.packets_in_use(), 0);
    }

    #[test]
    fn data_is_found_by_name_too_and_may_be_longer() {
        let mut lab = lab();
        let wire = InterestBuilder::new(name("/a")).nonce(1).can_be_prefix(true).encode();
        lab.give(In::Interest, &wire, from(300, b""));
        assert_eq!(ports(&lab.give(In::Data, &data("/a/b"), from(302, b""))), ["data"]);
    }

    #[test]
    fn refusals_go_back_and_loops_end() {
        let mut lab = lab();
        lab.give(In::Interest, &interest("/a", 1), from(300, b"one"));
        let left = lab.give(In::Interest, &interest("/a", 1), from(301, b""));
        assert_eq!((ports(&left), left[0].link.nack), (vec!["nack"], Some(NackReason::Duplicate)));
        let nack = as_nack(NackReason::NoRoute);
        let left = lab.give(In::Nack, &interest("/a", 1), |meta| {
            from(302, b"")(meta);
            nack(meta);
        });
        assert_eq!((ports(&left), left[0].egress), (vec!["nack"], face(300)));
        assert_eq!(
            (left[0].link.nack, left[0].link.token.as_bytes()),
            (Some(NackReason::NoRoute), &b"one"[..])
        );
        assert!(lab.element.pit().is_empty());
        assert_eq!(lab.drops.total(Cause::NackConsumed), 1);
    }

    #[test]
    fn what_nobody_answers_expires() {
        let mut lab = lab();
        let wire = InterestBuilder::new(name("/a")).nonce(1).lifetime_ms(100).encode();
        lab.give(In::Interest, &wire, from(300, b""));
        lab.advance_ms(50);
        assert_eq!(lab.element.pit().len(), 1);
        lab.advance_ms(60);
        assert!(lab.element.pit().is_empty());
        assert_eq!(lab.element.counters().unsatisfied, 1);
        assert_eq!(lab.element.deadline(), None);
    }

    #[test]
    fn a_retransmission_passes_after_a_while() {
        let mut lab = lab();
        lab.give(In::Interest, &interest("/a", 1), from(300, b""));
        assert!(lab.give(In::Interest, &interest("/a", 2), from(300, b"")).is_empty());
        assert_eq!(lab.drops.total(Cause::RetransmissionSuppressed), 1);
        lab.advance_ms(10);
        assert_eq!(ports(&lab.give(In::Interest, &interest("/a", 3), from(300, b""))), ["interest"]);
    }

    /// Whoever chooses is behind: what the sender wishes, any scope and a hop limit of 0 are for it.
    #[test]
    fn where_to_is_not_its_business() {
        let mut lab = lab();
        let wire = InterestBuilder::new(name("/localhost/a")).nonce(1).hop_limit(0);
        let wire = wire.forwarding_hint(name("/hint")).encode();
        let left = lab.give(In::Interest, &wire, |meta| {
            meta.ingress = face(300);
            meta.link.next_hop_face = Some(face(999));
        });
        assert_eq!((ports(&left), left[0].link.next_hop_face), (vec!["interest"], Some(face(999))));
        assert_eq!(left[0].wire, wire);
    }

    #[test]
    fn a_full_table_refuses() {
        let mut lab = lab();
        lab.element.set_face_limit(Some(1));
        lab.give(In::Interest, &interest("/a", 1), from(300, b""));
        let left = lab.give(In::Interest, &interest("/b", 1), from(300, b""));
        assert_eq!(left[0].link.nack, Some(NackReason::Congestion));
        assert_eq!(lab.drops.total(Cause::PitFullForFace), 1);
        lab.element.face_gone(Instant::START, face(300));
        assert!(lab.element.pit().is_empty());
    }
}
