//! Changes of the graph while packets flow: no packet is lost where the change mode promises that,
//! none arrives twice, every loss is counted.

use nw_element_api::capture::TapFilter;
use nw_element_api::decode::decode_lazily;
use nw_element_api::{
    FaceId, FaceInfo, Kind, LinkType, Packet, Parameters, Pool, Scope, Timestamp, Value,
};
use nw_graph::{
    ChangeMode, Connection, Engine, Graph, PortSelection, Source, TapError, Target, standard,
};
use nw_name::{HashKey, Name};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, Token};
use std::collections::VecDeque;
use std::time::Duration;

const KEY: HashKey = HashKey::new([5, 6, 7, 8]);
const SOUTH: FaceId = FaceId::from_slot(300, 0);
const NORTH: FaceId = FaceId::from_slot(301, 0);
const INFO: FaceInfo = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };

/// Returns one of 18 variants of a router: table sizes, which make elements new, and with or
/// without a content store.
fn graph(form: u64) -> Graph {
    let integer = |name: &str, number: u64| (name.to_owned(), Value::Integer(number as i64));
    let routes = ("routes".to_owned(), Value::List(vec![Value::Text("/ north".to_owned())]));
    let mut graph = standard(&[("south", INFO), ("north", INFO)], |node| {
        Parameters(match node {
            "store" => vec![integer("packets", 4 + form % 3), integer("mib", 1)],
            "router" => {
                let sizes = vec![
                    integer("pending", 512 + form / 3 % 3),
                    integer("prefixes", 8),
                    integer("dead_nonces", 64),
                ];
                [sizes, vec![routes.clone()]].concat()
            }
            _ => Vec::new(),
        })
    });
    if form / 9 % 2 == 1 {
        without_store(&mut graph);
    }
    graph
}

fn without_store(graph: &mut Graph) {
    let at = |name: &str| graph.nodes.iter().position(|node| node.name == name).expect("a node");
    let (dispatcher, store, router) = (at("dispatcher"), at("store"), at("router"));
    graph.connections.retain(|connection| {
        let of_store = matches!(connection.from, Source::Port(node, _) if node == store);
        !of_store && !matches!(connection.to, Target::Port(node, _) if node == store)
    });
    let position = Default::default();
    graph.connections.push(Connection {
        from: Source::Port(dispatcher, 0),
        to: Target::Port(router, 0),
        position,
    });
    graph.connections.push(Connection {
        from: Source::Port(router, 1),
        to: Target::Faces,
        position,
    });
    graph.nodes.remove(store);
    // Nodes after the removed one move up.
    let up = |node: &mut usize| *node -= usize::from(*node > store);
    for connection in &mut graph.connections {
        if let Source::Port(node, _) = &mut connection.from {
            up(node);
        }
        if let Target::Port(node, _) = &mut connection.to {
            up(node);
        }
    }
}

/// A consumer in the south, a producer in the north that replies some steps later, and a graph that
/// changes in between.
struct TestBench {
    engine: Engine,
    pool: Pool,
    now: Timestamp,
    out: Vec<Packet>,
    random: u64,
    interests_sent: u32,
    /// By number of the Interest: number of Data received.
    data_received: Vec<u8>,
    /// Interests at the producer: number and token.
    at_producer: VecDeque<(u32, Token)>,
    returns_tokens: bool,
}

impl TestBench {
    fn new(seed: u64, returns_tokens: bool) -> Self {
        let mut engine = match Engine::new(&graph(0), KEY, 7) {
            Ok(engine) => engine,
            Err(faults) => panic!("{faults:?}"),
        };
        engine.add_face(SOUTH, INFO, 0, false);
        engine.add_face(NORTH, INFO, 1, false);
        let (mut pool, mut out) = (Pool::new(KEY, 32, 2048), Vec::new());
        engine.apply(Timestamp::START, &mut pool, &mut out).expect("good routes");
        let (data_received, at_producer) = (Vec::new(), VecDeque::new());
        let now = Timestamp::from_millis(1);
        TestBench {
            engine,
            pool,
            now,
            out,
            random: seed,
            interests_sent: 0,
            data_received,
            at_producer,
            returns_tokens,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn name(number: u32) -> Name {
        "/data".parse::<Name>().expect("a name").with_segment(u64::from(number))
    }

    fn receive(&mut self, wire: &[u8], ingress: FaceId, token: Token) -> Packet {
        let packet = self.pool.copy_of(wire).expect("a buffer");
        let meta = self.pool.meta_mut(&packet);
        (meta.ingress, meta.arrival, meta.link.token) = (ingress, self.now, token);
        decode_lazily(&mut self.pool, &packet).expect("well-formed");
        packet
    }

    /// Sends some Interests (if `sends_interests`) and some Data, and advances the clock by 300 µs.
    fn traffic(&mut self, sends_interests: bool) {
        let mut packets = Vec::new();
        if sends_interests {
            for _ in 0..=self.draw(4) {
                let interest = InterestBuilder::new(Self::name(self.interests_sent))
                    .nonce(self.interests_sent + 1)
                    .encode();
                packets.push(self.receive(&interest, SOUTH, Token::NONE));
                self.data_received.push(0);
                self.interests_sent += 1;
            }
        }
        // Without new Interests, all replies that fit the pool are sent.
        let replies_max = if sends_interests { self.draw(6) } else { 256 };
        for _ in 0..replies_max {
            let Some((number, token)) = self.at_producer.pop_front() else { break };
            let Ok(data) = DataBuilder::new(&Self::name(number), b"x").encode(&DigestSha256);
            let token = if self.returns_tokens { token } else { Token::NONE };
            packets.push(self.receive(&data, NORTH, token));
        }
        self.engine.process(self.now, &mut packets, &mut self.pool, &mut self.out);
        self.collect();
        self.now = self.now + Duration::from_micros(300);
        if self.engine.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.engine.tick(self.now, &mut self.pool, &mut self.out);
            self.collect();
        }
    }

    fn collect(&mut self) {
        for packet in self.out.drain(..) {
            let (wire, meta) = self.pool.view(&packet);
            let number = meta
                .name_in(wire)
                .component(-1)
                .and_then(|last| last.integer())
                .expect("a segment");
            match (meta.kind, meta.egress) {
                (Kind::Interest, NORTH) => {
                    self.at_producer.push_back((number as u32, meta.link.token))
                }
                (Kind::Data, SOUTH) => self.data_received[number as usize] += 1,
                (kind, face) => panic!("{kind:?} left by {face:?}"),
            }
            self.pool.release(packet);
        }
    }

    fn change(&mut self, order: ChangeMode) {
        let form = self.draw(18);
        let changed =
            self.engine.change(self.now, &graph(form), order, &mut self.pool, &mut self.out);
        assert!(changed.is_ok(), "{changed:?}");
        self.collect();
    }

    /// Sends all outstanding replies, and checks that nothing is left.
    fn finish(&mut self) {
        while !self.at_producer.is_empty() {
            self.traffic(false);
        }
        for _ in 0..64 {
            self.traffic(false);
        }
        assert!(!self.engine.is_changing(), "a change is complete when no reply is awaited");
        assert_eq!(self.pool.packets_in_use(), 0, "no packet is left in the pool");
        assert!(self.data_received.iter().all(|answers| *answers <= 1), "no Data arrives twice");
    }
}

fn changes() -> u64 {
    std::env::var("NW_CHANGES").ok().and_then(|changes| changes.parse().ok()).unwrap_or(6_000)
}

/// Changes under load; replies arrive several changes later.
fn assert_no_packet_lost(order: ChangeMode, returns_tokens: bool) {
    let mut bench = TestBench::new(42, returns_tokens);
    for _ in 0..changes() {
        for _ in 0..bench.draw(3) {
            bench.traffic(true);
        }
        // Wait until the last change is complete: starting another one earlier loses what the
        // oldest elements wait for.
        while bench.engine.is_changing() {
            let sends_interests = bench.draw(4) != 0;
            bench.traffic(sends_interests);
        }
        bench.change(order);
    }
    bench.finish();
    let lost = bench.data_received.iter().filter(|answers| **answers == 0).count();
    assert_eq!(lost, 0, "of {} Interests", bench.interests_sent);
    assert!(u64::from(bench.interests_sent) > changes());
}

#[test]
fn change_make_before_break_loses_nothing() {
    assert_no_packet_lost(ChangeMode::MakeBeforeBreak, true);
}

#[test]
fn change_make_before_break_without_returned_tokens_loses_nothing() {
    assert_no_packet_lost(ChangeMode::MakeBeforeBreak, false);
}

#[test]
fn change_buffer_loses_nothing() {
    assert_no_packet_lost(ChangeMode::Buffer, true);
}

#[test]
fn change_drop_counts_every_lost_packet() {
    let mut bench = TestBench::new(43, true);
    for _ in 0..changes() {
        for _ in 0..bench.draw(3) {
            bench.traffic(true);
        }
        bench.change(ChangeMode::Drop);
    }
    bench.finish();
    let lost = bench.data_received.iter().filter(|answers| **answers == 0).count() as u64;
    assert!(lost > 0, "changes under load lose packets");
    let unsolicited = bench.engine.drops().total(nw_element_api::DropCause::UnsolicitedData);
    assert_eq!(
        lost, unsolicited,
        "each Interest was satisfied, or its Data counted as unsolicited"
    );
}

/// Any sequence of modes, with overlapping changes: packets are conserved.
#[test]
fn changes_in_any_order_conserve_packets() {
    let mut bench = TestBench::new(44, true);
    for _ in 0..changes() {
        for _ in 0..bench.draw(3) {
            bench.traffic(true);
        }
        let orders = [ChangeMode::Drop, ChangeMode::Buffer, ChangeMode::MakeBeforeBreak];
        let order = orders[bench.draw(3) as usize];
        bench.change(order);
    }
    bench.finish();
    let lost = bench.data_received.iter().filter(|answers| **answers == 0).count() as u64;
    assert_eq!(lost, bench.engine.drops().total(nw_element_api::DropCause::UnsolicitedData));
}

/// Taps between elements open and close while the graph changes: no packet is lost by them.
#[test]
fn taps_that_open_and_close_during_changes_lose_nothing() {
    let mut bench = TestBench::new(46, true);
    let mut taps = VecDeque::new();
    let mut opened = 0;
    for _ in 0..changes() / 12 {
        loop {
            let sends_interests = !bench.engine.is_changing() || bench.draw(4) != 0;
            bench.traffic(sends_interests);
            let element = ["dispatcher", "store", "router", "none"][bench.draw(4) as usize];
            let selection = PortSelection { element: element.to_owned(), port: None };
            let filter = TapFilter::default();
            match bench.engine.start_tap(bench.now, filter, Some(&selection)) {
                Ok(tap) => {
                    opened += 1;
                    taps.push_back(tap.id);
                }
                Err(TapError::NoElement(..)) => assert!(["store", "none"].contains(&element)),
                Err(error) => assert_eq!(error, TapError::TooMany),
            }
            if bench.draw(2) == 0
                && let Some(id) = taps.pop_front()
            {
                bench.engine.stop_tap(id);
            }
            if !bench.engine.is_changing() {
                break;
            }
        }
        bench.change(ChangeMode::MakeBeforeBreak);
    }
    taps.into_iter().for_each(|id| bench.engine.stop_tap(id));
    bench.finish();
    assert!(bench.engine.tapped_ports().is_empty());
    assert!(opened > changes() / 48, "{opened} taps");
    assert!(bench.data_received.iter().all(|answers| *answers == 1));
}

#[test]
fn change_to_invalid_graph_keeps_running_graph() {
    let mut bench = TestBench::new(45, true);
    let mut bad = graph(0);
    // A new element with an invalid parameter. For an element that stays, an invalid fixed
    // parameter does not matter.
    bad.nodes[1].name = "another".to_owned();
    bad.nodes[1].parameters.0.push(("mibs".to_owned(), Value::Integer(1)));
    let refused =
        bench.engine.change(bench.now, &bad, ChangeMode::Drop, &mut bench.pool, &mut bench.out);
    assert_eq!(refused.expect_err("refused").len(), 1);
    bench.traffic(true);
    bench.finish();
    assert!(bench.data_received.iter().all(|answers| *answers == 1));
}

/// A peer that reconnects may be accepted before its old connection has ended.
#[test]
fn single_peer_listener_next_peer_takes_over() {
    let mut graph = graph(0);
    (graph.faces[1].is_listener, graph.faces[1].is_single_peer) = (true, true);
    let Ok(mut engine) = Engine::new(&graph, KEY, 7) else { panic!("a good graph") };
    let second_peer = FaceId::from_slot(302, 0);
    engine.add_face(SOUTH, INFO, 0, false);
    engine.add_face(NORTH, INFO, 1, true);
    engine.add_face(second_peer, INFO, 1, true);
    let (mut pool, mut out) = (Pool::new(KEY, 4, 64), Vec::new());
    let now = Timestamp::from_millis(1);
    for (number, expected) in [(1, NORTH), (2, second_peer)] {
        engine.apply(now, &mut pool, &mut out).expect("good routes");
        let interest = InterestBuilder::new(TestBench::name(number)).nonce(number).encode();
        let packet = pool.copy_of(&interest).expect("a buffer");
        (pool.meta_mut(&packet).ingress, pool.meta_mut(&packet).arrival) = (SOUTH, now);
        decode_lazily(&mut pool, &packet).expect("well-formed");
        engine.process(now, &mut vec![packet], &mut pool, &mut out);
        let left: Vec<FaceId> = out.iter().map(|packet| pool.meta(packet).egress).collect();
        out.drain(..).for_each(|packet| pool.release(packet));
        assert_eq!(left, [expected]);
        engine.remove_face(now, NORTH);
    }
}
