//! Random traffic through the standard graph: no packet is lost, no face gets a packet it did not
//! request, and all state ends.

use crate::graph::{Graph, GraphConfig};
use nw_element_api::{Element, FaceId, FaceInfo, Kind, LinkFields, LinkType, Scope};
use nw_elements::strategy::{Strategy, StrategyId};
use nw_name::{Name, NameRef};
use nw_tables::fib::NextHop;
use nw_wire::{Data, DataBuilder, DigestSha256, Interest, InterestBuilder, NackReason, Token};
use proptest::prelude::{Just, ProptestConfig, any, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

const FACES: u32 = 6;

#[derive(Clone, Debug)]
enum Step {
    Interest {
        face: u32,
        name: usize,
        flags: u8,
        nonce: u32,
        lifetime_ms: u16,
        token: u8,
        next_hop: u32,
    },
    Data {
        face: u32,
        name: usize,
        longer: bool,
        content: u8,
        freshness_ms: u8,
        no_cache: bool,
        announced: bool,
    },
    /// Data or a Nack for an Interest that was sent, as from a peer.
    Answer {
        which: usize,
        refuse: bool,
        right_face: bool,
        longer: bool,
        /// Added to the length of the name's first component.
        wrong_by: u8,
    },
    Nack {
        face: u32,
        name: usize,
        nonce: u32,
        token: u64,
    },
    Bytes {
        face: u32,
        bytes: Vec<u8>,
    },
    Wait {
        millis: u16,
    },
    RemoveFace {
        face: u32,
    },
    AddFace {
        face: u32,
    },
    Route {
        name: usize,
        faces: u8,
        strategy: usize,
    },
    RemoveRoute {
        name: usize,
    },
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    let face = 0..FACES;
    let name = 0..NAMES.len();
    let interest =
        (face.clone(), name.clone(), any::<u8>(), 0u32..6, 0u16..300, 0u8..3, 0..FACES * 3);
    let data =
        (face.clone(), name.clone(), any::<bool>(), 0u8..2, 0u8..30, any::<bool>(), any::<bool>());
    let wrong_by = prop_oneof![8 => Just(0), 1 => any::<u8>()];
    let answer = (any::<usize>(), any::<bool>(), any::<bool>(), any::<bool>(), wrong_by);
    prop_oneof![
        8 => interest.prop_map(|(face, name, flags, nonce, lifetime_ms, token, next_hop)| {
            Step::Interest { face, name, flags, nonce, lifetime_ms, token, next_hop }
        }),
        2 => data.prop_map(|(face, name, longer, content, freshness_ms, no_cache, announced)| {
            Step::Data { face, name, longer, content, freshness_ms, no_cache, announced }
        }),
        6 => answer.prop_map(|(which, refuse, right_face, longer, wrong_by)| {
            Step::Answer { which, refuse, right_face, longer, wrong_by }
        }),
        1 => (face.clone(), name.clone(), 0u32..6, any::<u64>())
            .prop_map(|(face, name, nonce, token)| Step::Nack { face, name, nonce, token }),
        1 => (face.clone(), proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(face, bytes)| Step::Bytes { face, bytes }),
        3 => (0u16..60).prop_map(|millis| Step::Wait { millis }),
        1 => face.clone().prop_map(|face| Step::RemoveFace { face }),
        1 => face.clone().prop_map(|face| Step::AddFace { face }),
        2 => (name.clone(), any::<u8>(), 0..Strategy::ALL.len())
            .prop_map(|(name, faces, strategy)| Step::Route { name, faces, strategy }),
        1 => name.prop_map(|name| Step::RemoveRoute { name }),
    ]
}

const NAMES: [&str; 9] = [
    "/",
    "/a",
    "/a/b",
    "/a/b/c",
    "/a/d",
    "/localhost/a",
    "/localhop/a",
    "/e/f/g/h/i",
    "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31/32/33/34",
];

fn name(at: usize) -> Name {
    NAMES[at].parse().expect("a constant name")
}

fn face(number: u32) -> FaceId {
    FaceId::from_slot(300 + number, 0)
}

/// Faces 0 and 1 are local, 4 is multi-access, 5 ad-hoc.
fn info(number: u32) -> FaceInfo {
    FaceInfo {
        scope: if number < 2 { Scope::Local } else { Scope::NonLocal },
        link_type: match number {
            4 => LinkType::MultiAccess,
            5 => LinkType::AdHoc,
            _ => LinkType::PointToPoint,
        },
    }
}

struct World {
    graph: Graph,
    /// Every strategy, in catalogue order.
    strategies: Vec<StrategyId>,
    /// Interests received: face, name, token.
    requested: Vec<(FaceId, Name, Vec<u8>)>,
    /// Interests sent: face, bytes, token.
    forwarded: Vec<(FaceId, Vec<u8>, Token)>,
}

impl World {
    fn new(config: GraphConfig) -> Self {
        let mut graph = Graph::new(config);
        (0..FACES).for_each(|number| graph.add_face(face(number), info(number)));
        let name =
            |word| format!("/localhost/nfd/strategy/{word}").parse::<Name>().expect("a name");
        let mut strategy =
            |word| graph.router.resolve_strategy(name(word).as_ref()).expect("a strategy");
        let strategies = Strategy::ALL.iter().map(|known| strategy(known.name)).collect();
        World { graph, strategies, requested: Vec::new(), forwarded: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Interest { face: from, name: at, flags, nonce, lifetime_ms, token, next_hop } => {
                self.interest(*from, *at, *flags, *nonce, *lifetime_ms, *token, *next_hop);
            }
            Step::Data {
                face: from,
                name: at,
                longer,
                content,
                freshness_ms,
                no_cache,
                announced,
            } => {
                let mut name = name(*at);
                if *longer {
                    name = name.with_generic("more");
                }
                let link = LinkFields { no_cache: *no_cache, ..LinkFields::default() };
                let announcement: &[u8] = if *announced { b"an announcement" } else { b"" };
                let wire = data(name.as_ref(), &[*content], u64::from(*freshness_ms));
                self.graph.receive_announced(face(*from), &wire, link, announcement);
            }
            Step::Answer { which, refuse, right_face, longer, wrong_by } => {
                self.answer(*which, *refuse, *right_face, *longer, *wrong_by)
            }
            Step::Nack { face: from, name: at, nonce, token } => {
                let link = LinkFields {
                    nack: Some(NackReason::NoRoute),
                    token: Token::new(&token.to_be_bytes()[2..]).expect("6 bytes"),
                    ..LinkFields::default()
                };
                let name = name(*at);
                if !name.as_ref().is_empty() {
                    self.graph.receive(
                        face(*from),
                        &InterestBuilder::new(name).nonce(*nonce).encode(),
                        link,
                    );
                }
            }
            Step::Bytes { face: from, bytes } => {
                self.graph.receive(face(*from), bytes, LinkFields::default())
            }
            Step::Wait { millis } => {
                self.graph.advance(self.graph.now.plus_millis(u64::from(*millis)))
            }
            Step::RemoveFace { face: number } => self.graph.remove_face(face(*number)),
            Step::AddFace { face: number } => self.graph.add_face(face(*number), info(*number)),
            Step::Route { name: at, faces, strategy } => {
                let hops: Vec<NextHop> = (0..FACES)
                    .filter(|number| faces & (1 << number) != 0)
                    .map(|number| NextHop { face: face(number), cost: number * 7 % 4 })
                    .collect();
                let (strategy, name) = (self.strategies[*strategy], name(*at));
                let done = self.graph.set_route(name.as_ref(), &hops, strategy);
                assert_eq!(
                    done.is_ok(),
                    name.as_ref().len() <= 32,
                    "a prefix has at most 32 components"
                );
            }
            Step::RemoveRoute { name: at } => {
                self.graph.router.remove_route(name(*at).as_ref());
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // one for each field of the step
    fn interest(
        &mut self,
        from: u32,
        at: usize,
        flags: u8,
        nonce: u32,
        lifetime_ms: u16,
        token: u8,
        next_hop: u32,
    ) {
        let name = name(at);
        if name.as_ref().is_empty() {
            return;
        }
        let mut builder = InterestBuilder::new(name)
            .can_be_prefix(flags & 1 != 0)
            .must_be_fresh(flags & 2 != 0)
            .lifetime_ms(u64::from(lifetime_ms));
        if flags & 4 == 0 {
            builder = builder.nonce(nonce);
        }
        if flags & 8 != 0 {
            builder = builder.hop_limit(flags >> 6);
        }
        if flags & 16 != 0 {
            builder = builder.forwarding_hint("/e/f".parse::<Name>().expect("a constant name"));
        }
        if flags & 32 != 0 {
            builder = builder.parameters("p");
        }
        let bytes = vec![token; usize::from(token) * 9];
        let link = LinkFields {
            token: Token::new(&bytes).expect("at most 32 bytes"),
            next_hop_face: (next_hop < FACES).then(|| face(next_hop)),
            non_discovery: next_hop.is_multiple_of(2),
            ..LinkFields::default()
        };
        let wire = builder.encode();
        let name = Interest::check(&wire).expect("as built").name().to_name();
        self.requested.push((face(from), name, bytes));
        self.graph.receive(face(from), &wire, link);
    }

    fn answer(&mut self, which: usize, refuse: bool, right_face: bool, longer: bool, wrong_by: u8) {
        if self.forwarded.is_empty() {
            return;
        }
        let (to, wire, token) = self.forwarded[which % self.forwarded.len()].clone();
        let from = if right_face { to } else { face(which as u32 % FACES) };
        let interest = Interest::check(&wire).expect("it left, so it is whole");
        if refuse {
            let link =
                LinkFields { nack: Some(NackReason::Duplicate), token, ..LinkFields::default() };
            return self.graph.receive(from, &wire, link);
        }
        let mut name = interest.name().to_name();
        if longer && interest.can_be_prefix() {
            name = name.with_generic("more");
        }
        let mut wire = data(name.as_ref(), b"answer", 10);
        let name_start = Data::check(&wire).expect("as built").name_start();
        wire[name_start + 1] = wire[name_start + 1].wrapping_add(wrong_by);
        self.graph.receive(from, &wire, LinkFields { token, ..LinkFields::default() });
    }

    /// Checks the packets sent since the last step.
    fn check(&mut self) {
        for sent in self.graph.sent.drain(..) {
            if sent.route_event {
                assert!(sent.link.nack.is_some() || sent.bytes == b"an announcement");
                continue;
            }
            let number = sent.face.slot() as u32 - 300;
            assert!(number < FACES, "sent to a face that never was: {}", sent.face);
            assert_eq!(sent.link.next_hop_face, None);
            let (name, token) = match sent.kind {
                Kind::Interest => {
                    let interest = Interest::check(&sent.bytes).expect("what leaves is whole");
                    assert!(interest.nonce().is_some());
                    // A local peer that has not used tokens gets none.
                    match sent.link.token.as_bytes().len() {
                        0 => assert_eq!(info(number).scope, Scope::Local),
                        len => assert_eq!(len, 6),
                    }
                    self.forwarded.push((sent.face, sent.bytes.clone(), sent.link.token));
                    continue;
                }
                Kind::Data => (
                    Data::check(&sent.bytes).expect("what leaves is whole").name().to_name(),
                    sent.link.token,
                ),
                Kind::Publication => panic!("no publication leaves the standard graph"),
                Kind::Nack => {
                    assert_eq!(
                        info(number).link_type,
                        LinkType::PointToPoint,
                        "a Nack left by a multi-access link"
                    );
                    (
                        Interest::check(&sent.bytes)
                            .expect("what leaves is whole")
                            .name()
                            .to_name(),
                        sent.link.token,
                    )
                }
            };
            let was_requested = |(downstream, name, bytes): &(FaceId, Name, Vec<u8>)| {
                *downstream == sent.face
                    && bytes == token.as_bytes()
                    && name.as_ref().is_prefix_of(name.as_ref())
            };
            assert!(
                self.requested.iter().any(was_requested),
                "{} never asked for {name} with token {token:?}",
                sent.face
            );
        }
        assert_eq!(self.graph.pool.packets_in_use(), 0, "a packet was lost");
    }
}

fn data(name: NameRef<'_>, content: &[u8], freshness_ms: u64) -> Vec<u8> {
    let builder = DataBuilder::new(name, content).freshness_ms(freshness_ms);
    builder.encode(&DigestSha256).unwrap_or_else(|never| match never {})
}

/// Runs the steps twice, with names deferred and not: the result must be the same.
fn run(config: GraphConfig, steps: &[Step]) {
    let mut early = World::new(GraphConfig { defers_names: false, ..config.clone() });
    let mut world = World::new(config);
    for step in steps {
        world.step(step);
        early.step(step);
        assert_eq!(format!("{:?}", world.graph.sent), format!("{:?}", early.graph.sent));
        assert_eq!(world.graph.drops, early.graph.drops);
        world.check();
        early.check();
    }
    // Longer than any lifetime above.
    world.graph.advance(world.graph.now.plus_millis(1000));
    world.check();
    let pit = world.graph.router.pit();
    assert_eq!((pit.len(), pit.records_len()), (0, 0), "PIT entries never end");
    assert_eq!(world.graph.router.deadline(), None);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn large_tables_conserve_packets(
        steps in proptest::collection::vec(step(), 1..120),
        seed in 1u64..1000,
        weak_hash: bool,
    ) {
        run(GraphConfig { seed, weak_hash, ..GraphConfig::default() }, &steps);
    }

    /// Every table and the pool are full most of the time.
    #[test]
    fn full_tables_conserve_packets(
        steps in proptest::collection::vec(step(), 1..120),
        packets in 1usize..4,
        pit_entries in 1usize..4,
        any_face: bool,
    ) {
        let cs = nw_tables::cs::CsConfig { packets_max: 2, bytes_max: 1024 };
        let config = GraphConfig {
            packets,
            pit_entries,
            cs,
            data_from_any_face: any_face,
            ..GraphConfig::default()
        };
        run(config, &steps);
    }
}
