//! Strategies against upstreams with delays, losses and outages, in virtual time: where they come
//! to rest, and how soon they move.

use crate::graph::{Graph, GraphConfig};
use nw_element_api::{FaceId, FaceInfo, Kind, LinkFields, LinkType, Scope, Timestamp};
use nw_name::Name;
use nw_tables::fib::NextHop;
use nw_wire::{Data, DataBuilder, DigestSha256, Interest, InterestBuilder, NackReason};
use proptest::prelude::*;
use std::collections::BTreeMap;

const CONSUMER: u32 = 300;

/// How an upstream answers.
#[derive(Clone, Copy, Debug)]
enum Upstream {
    After(u64),
    Never,
    Refuses,
}

/// A consumer, a router, upstreams.
struct World {
    graph: Graph,
    upstreams: BTreeMap<u32, Upstream>,
    /// Answers on their way: time, order, face, Interest.
    due: BTreeMap<(Timestamp, u64), (u32, Vec<u8>, LinkFields)>,
    sequence: u64,
    /// Interests that each upstream got since the last call of its reader.
    got: BTreeMap<u32, u64>,
    /// Data and Nacks that the consumer got since the last call of its reader.
    answered: u64,
    refused: u64,
}

impl World {
    /// Upstreams are faces 301, 302, …, with these costs, for `/a`.
    fn new(seed: u64, strategy: &str, upstreams: &[(u32, Upstream)]) -> Self {
        let cs = nw_tables::cs::CsConfig { packets_max: 0, bytes_max: 0 };
        let mut graph = Graph::new(GraphConfig { seed, cs, ..GraphConfig::default() });
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        (0..=upstreams.len() as u32)
            .for_each(|number| graph.add_face(face(CONSUMER + number), info));
        let strategy: Name = format!("/localhost/nfd/strategy/{strategy}").parse().unwrap();
        let id = graph.router.resolve_strategy(strategy.as_ref()).unwrap();
        let mut hops: Vec<NextHop> = upstreams
            .iter()
            .zip(CONSUMER + 1..)
            .map(|((cost, _), number)| NextHop { face: face(number), cost: *cost })
            .collect();
        hops.sort_by_key(|hop| hop.cost);
        graph.set_route("/a".parse::<Name>().unwrap().as_ref(), &hops, id).unwrap();
        let upstreams =
            upstreams.iter().zip(CONSUMER + 1..).map(|((_, how), number)| (number, *how)).collect();
        World {
            graph,
            upstreams,
            due: BTreeMap::new(),
            sequence: 0,
            got: BTreeMap::new(),
            answered: 0,
            refused: 0,
        }
    }

    fn set(&mut self, upstream: u32, how: Upstream) {
        self.upstreams.insert(upstream, how);
    }

    /// One Interest with a new name each `interval_ms`.
    fn ask(&mut self, times: u64, interval_ms: u64) -> &BTreeMap<u32, u64> {
        (self.answered, self.refused) = (0, 0);
        self.got.clear();
        for _ in 0..times {
            self.sequence += 1;
            let name = "/a".parse::<Name>().unwrap().with_segment(self.sequence);
            let wire =
                InterestBuilder::new(name).nonce(self.sequence as u32).lifetime_ms(2000).encode();
            self.graph.receive(face(CONSUMER), &wire, LinkFields::default());
            self.run_until(self.graph.now.plus_millis(interval_ms));
        }
        &self.got
    }

    fn run_until(&mut self, end: Timestamp) {
        loop {
            self.deliver();
            let next = self.due.keys().next().copied().filter(|(at, _)| *at <= end);
            let Some(key) = next else { break };
            self.graph.advance(key.0);
            self.deliver();
            if let Some((from, wire, link)) = self.due.remove(&key) {
                self.graph.receive(face(from), &wire, link);
            }
        }
        self.graph.advance(end);
        self.deliver();
    }

    /// Delivers the packets sent.
    fn deliver(&mut self) {
        for sent in std::mem::take(&mut self.graph.sent) {
            let number = sent.face.number() as u32;
            match (number, sent.kind) {
                (CONSUMER, Kind::Data) => {
                    Data::check(&sent.bytes).unwrap();
                    self.answered += 1;
                }
                (CONSUMER, Kind::Nack) => self.refused += 1,
                (_, Kind::Interest) => {
                    *self.got.entry(number).or_default() += 1;
                    self.answer(number, sent.bytes, sent.link);
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn answer(&mut self, from: u32, interest: Vec<u8>, link: LinkFields) {
        let (delay_ms, wire, nack) = match self.upstreams[&from] {
            Upstream::Never => return,
            Upstream::Refuses => (1, interest, Some(NackReason::NoRoute)),
            Upstream::After(ms) => {
                let name = Interest::check(&interest).unwrap().name().to_name();
                let builder = DataBuilder::new(&name, b"x");
                (ms, builder.encode(&DigestSha256).unwrap_or_else(|never| match never {}), None)
            }
        };
        let link = LinkFields { token: link.token, nack, ..LinkFields::default() };
        self.sequence += 1;
        self.due.insert((self.graph.now.plus_millis(delay_ms), self.sequence), (from, wire, link));
    }

    /// The share of the Interests since the last call that went to one upstream.
    fn share(&self, upstream: u32) -> f64 {
        let all: u64 = self.got.values().sum();
        self.got.get(&upstream).copied().unwrap_or(0) as f64 / all as f64
    }
}

fn face(number: u32) -> FaceId {
    FaceId::from_bits(number)
}

use Upstream::{After, Never, Refuses};

#[test]
fn asf_uses_the_faster_next_hop_until_it_degrades() {
    let mut world =
        World::new(1, "asf/v=5/probing-interval~1000", &[(1, After(60)), (2, After(15))]);
    // The first probe comes within 5 s.
    world.ask(600, 10);
    world.ask(1000, 10);
    assert!(world.share(302) > 0.97, "{:?}", world.got);
    assert_eq!((world.answered, world.refused), (1000, 0));
    // The link gets slow: the replies to its Interests show it, so no probe is needed.
    world.set(302, After(300));
    world.ask(300, 10);
    world.ask(1000, 10);
    assert!(world.share(301) > 0.97, "{:?}", world.got);
    // The link gets fast again: a probe measures it, and the smoothed round-trip time follows.
    world.set(302, After(5));
    world.ask(3000, 10);
    world.ask(500, 10);
    assert!(world.share(302) > 0.97, "{:?}", world.got);
}

#[test]
fn asf_leaves_silent_next_hop_after_max_timeouts() {
    let mut world =
        World::new(2, "asf/v=5/probing-interval~1000", &[(1, After(10)), (2, After(20))]);
    world.ask(1000, 10);
    world.set(301, Never);
    world.ask(100, 10);
    // Three times 200 ms of silence, and some while that was found out.
    let lost = 100 - world.answered;
    assert!((55..=75).contains(&lost), "{lost} lost");
    world.ask(500, 10);
    assert!(
        world.share(302) > 0.97 && world.answered >= 498,
        "{:?}, {}",
        world.got,
        world.answered
    );
}

#[test]
fn asf_without_working_next_hop_still_sends() {
    let mut world = World::new(3, "asf/v=5/probing-interval~1000", &[(1, Refuses), (2, Refuses)]);
    world.ask(100, 10);
    assert_eq!((world.answered, world.refused), (0, 100));
    world.set(302, After(10));
    world.ask(700, 10);
    world.ask(100, 10);
    assert!(world.answered > 98, "{}", world.answered);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the costs, the delays and the draws: the fastest of three gets what there is, but
    /// for probes.
    #[test]
    fn asf_finds_the_fastest(
        seed: u64,
        fastest in 0usize..3,
        delay_ms in 1u64..100,
        more_ms in 10u64..200,
        costs in proptest::array::uniform3(0u32..4),
    ) {
        let delay = |at: usize| After(if at == fastest { delay_ms } else { delay_ms + more_ms + at as u64 });
        let upstreams = [(costs[0], delay(0)), (costs[1], delay(1)), (costs[2], delay(2))];
        let mut world = World::new(seed, "asf/v=5/probing-interval~1000", &upstreams);
        // At least two probes: upstreams without a measurement are probed first.
        world.ask(800, 10);
        world.ask(400, 10);
        prop_assert!(world.share(301 + fastest as u32) > 0.95, "{:?}", world.got);
        prop_assert!(world.answered >= 400 - 30, "{}", world.answered);
    }
}

#[test]
fn fail_over_leaves_failed_next_hop_and_returns() {
    let strategy = "fail-over/v=1/recovery-interval~1000";
    let mut world = World::new(4, strategy, &[(1, After(50)), (2, After(10)), (3, After(1))]);
    world.ask(200, 10);
    assert_eq!(world.share(301), 1.0, "the cheapest, not the fastest");
    world.set(301, Never);
    world.ask(100, 10);
    // Two silences of 200 ms at least.
    assert!((30..=55).contains(&(100 - world.answered)), "{} answered", world.answered);
    world.ask(300, 10);
    assert_eq!(world.answered, 300, "all by the second");
    assert!(world.share(302) > 0.98 && !world.got.contains_key(&303), "{:?}", world.got);
    world.set(301, After(50));
    world.ask(120, 10);
    world.ask(100, 10);
    assert_eq!(world.share(301), 1.0, "{:?}", world.got);
}

#[test]
fn fail_over_answers_all_while_one_next_hop_sends_nacks() {
    let mut world = World::new(5, "fail-over", &[(1, Refuses), (2, After(10))]);
    world.ask(200, 10);
    assert_eq!((world.answered, world.refused), (199 + 1, 0));
    assert!(world.got[&301] <= 3, "{:?}", world.got);
}

#[test]
fn weighted_shares_by_weights() {
    let upstreams = [(1, After(1)), (2, After(1)), (3, After(1))];
    let mut world = World::new(6, "weighted/v=1/weights~5-3-1", &upstreams);
    world.ask(9000, 2);
    for (upstream, share) in [(301, 5.0 / 9.0), (302, 3.0 / 9.0), (303, 1.0 / 9.0)] {
        assert!((world.share(upstream) - share).abs() < 0.02, "{:?}", world.got);
    }
    // 1/2, 1/3, 1/4 by cost.
    let mut world = World::new(7, "weighted", &upstreams);
    world.ask(9000, 2);
    for (upstream, share) in [(301, 6.0 / 13.0), (302, 4.0 / 13.0), (303, 3.0 / 13.0)] {
        assert!((world.share(upstream) - share).abs() < 0.02, "{:?}", world.got);
    }
}

#[test]
fn random_and_round_robin_share_evenly() {
    let upstreams = [(1, After(1)), (2, After(1)), (3, After(1))];
    let mut world = World::new(8, "random", &upstreams);
    world.ask(9000, 2);
    assert!(world.got.values().all(|got| got.abs_diff(3000) < 180), "{:?}", world.got);
    let mut world = World::new(9, "round-robin", &upstreams);
    world.ask(9000, 2);
    assert!(world.got.values().all(|got| *got == 3000), "{:?}", world.got);
}

#[test]
fn hash_spreads_names_and_keeps_their_next_hop() {
    let upstreams = [(1, After(1)), (2, After(1)), (3, After(1))];
    let mut world = World::new(10, "hash", &upstreams);
    world.ask(9000, 2);
    assert!(world.got.values().all(|got| got.abs_diff(3000) < 250), "{:?}", world.got);
    // Every name below one prefix of the depth is sent to the same upstream.
    let mut world = World::new(11, "hash/v=1/depth~1", &upstreams);
    world.ask(300, 2);
    assert_eq!(world.got.len(), 1);
}

#[test]
fn access_uses_the_next_hop_that_answered() {
    let mut world = World::new(12, "access", &[(1, After(20)), (2, After(60))]);
    world.ask(100, 100);
    assert!(world.got[&301] == 100 && world.got[&302] < 5, "{:?}", world.got);
    world.set(301, Never);
    world.ask(100, 100);
    assert_eq!(world.answered, 100, "the others were asked in time");
    assert!(world.got[&301] < 5, "one lateness is enough: {:?}", world.got);
}
