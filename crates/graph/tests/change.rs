//! Graphs that change while packets flow: nothing is lost where the order says so, nothing comes twice, all is counted.
//! `NW_CHANGES=1000000 cargo test -p nw-graph --release --test change` goes on for longer.

use nw_element_api::decode::decode_lazily;
use nw_element_api::{FaceId, FaceInfo, Instant, Kind, LinkType, Packet, Parameters, Pool, Scope, Value};
use nw_graph::{ChangeOrder, Connection, Engine, From, Graph, To, standard};
use nw_name::{HashKey, Name};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, Token};
use std::collections::VecDeque;
use std::time::Duration;

const KEY: HashKey = HashKey::new([5, 6, 7, 8]);
const SOUTH: FaceId = FaceId::from_slot(300, 0);
const NORTH: FaceId = FaceId::from_slot(301, 0);
const INFO: FaceInfo = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };

/// One of many forms of the same router: sizes that make elements new, and with or without a content store.
fn graph(form: u64) -> Graph {
    let whole = |name: &str, number: u64| (name.to_owned(), Value::Integer(number as i64));
    let routes = ("routes".to_owned(), Value::List(vec![Value::Text("/ north".to_owned())]));
    let mut graph = standard(&[("south", INFO), ("north", INFO)], |node| {
        Parameters(match node {
            "store" => vec![whole("packets", 4 + form % 3), whole("mib", 1)],
            "router" => {
                let sizes = vec![
                    whole("pending", 512 + form / 3 % 3),
                    whole("prefixes", 8),
                    whole("dead_nonces", 64),
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
        let of_store = matches!(connection.from, From::Port(node, _) if node == store);
        !of_store && !matches!(connection.to, To::Port(node, _) if node == store)
    });
    let place = Default::default();
    graph.connections.push(Connection { from: From::Port(dispatcher, 0), to: To::Port(router, 0), place });
    graph.connections.push(Connection { from: From::Port(router, 1), to: To::Faces, place });
    graph.nodes.remove(store);
    // Those behind it move up.
    let up = |node: &mut usize| *node -= usize::from(*node > store);
    for connection in &mut graph.connections {
        if let From::Port(node, _) = &mut connection.from {
            up(node);
        }
        if let To::Port(node, _) = &mut connection.to {
            up(node);
        }
    }
}

/// A consumer in the south, a producer in the north that answers some steps later, and a graph that changes between them.
struct Bench {
    engine: Engine,
    pool: Pool,
    now: Instant,
    out: Vec<Packet>,
    random: u64,
    asked: u32,
    /// By number of the Interest: Data that came back.
    answered: Vec<u8>,
    /// Interests on their way to be answered: number, token.
    waiting: VecDeque<(u32, Token)>,
    returns_tokens: bool,
}

impl Bench {
    fn new(seed: u64, returns_tokens: bool) -> Self {
        let mut engine = match Engine::new(&graph(0), KEY, 7) {
            Ok(engine) => engine,
            Err(faults) => panic!("{faults:?}"),
        };
        engine.add_face(SOUTH, INFO, 0, false);
        engine.add_face(NORTH, INFO, 1, false);
        let (mut pool, mut out) = (Pool::new(KEY, 32, 2048), Vec::new());
        engine.apply(Instant::START, &mut pool, &mut out).expect("good routes");
        let (answered, waiting) = (Vec::new(), VecDeque::new());
        let now = Instant::from_millis(1);
        Bench { engine, pool, now, out, random: seed, asked: 0, answered, waiting, returns_tokens }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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

    /// Some Interests, some answers, and a little time.
    fn traffic(&mut self, asks: bool) {
        let mut packets = Vec::new();
        if asks {
            for _ in 0..=self.draw(4) {
                let interest = InterestBuilder::new(Self::name(self.asked)).nonce(self.asked + 1).encode();
                packets.push(self.receive(&interest, SOUTH, Token::NONE));
                self.answered.push(0);
                self.asked += 1;
            }
        }
        // As many as a batch of the pool's size takes.
        let most = if asks { self.draw(6) } else { 256 };
        for _ in 0..most {
            let Some((number, token)) = self.waiting.pop_front() else { break };
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
            let number = meta.name_in(wire).component(-1).and_then(|last| last.integer()).expect("a segment");
            match (meta.kind, meta.egress) {
                (Kind::Interest, NORTH) => self.waiting.push_back((number as u32, meta.link.token)),
                (Kind::Data, SOUTH) => self.answered[number as usize] += 1,
                (kind, face) => panic!("{kind:?} left by {face:?}"),
            }
            self.pool.release(packet);
        }
    }

    fn change(&mut self, order: ChangeOrder) {
        let form = self.draw(18);
        let changed = self.engine.change(self.now, &graph(form), order, &mut self.pool, &mut self.out);
        assert!(changed.is_ok(), "{changed:?}");
        self.collect();
    }

    /// Lets all end that is under way.
    fn settle(&mut self) {
        while !self.waiting.is_empty() {
            self.traffic(false);
        }
        for _ in 0..64 {
            self.traffic(false);
        }
        assert!(!self.engine.is_changing(), "a change ends when nothing is awaited any more");
        assert_eq!(self.pool.packets_in_use(), 0, "every packet ended");
        assert!(self.answered.iter().all(|answers| *answers <= 1), "nothing comes twice");
    }
}

fn changes() -> u64 {
    std::env::var("NW_CHANGES").ok().and_then(|changes| changes.parse().ok()).unwrap_or(6_000)
}

/// Under load, with answers that take several changes to come.
fn nothing_is_lost(order: ChangeOrder, returns_tokens: bool) {
    let mut bench = Bench::new(42, returns_tokens);
    for _ in 0..changes() {
        for _ in 0..bench.draw(3) {
            bench.traffic(true);
        }
        // Before the next change is begun the last one is complete, or its time is over: that loses what the oldest elements wait for.
        while bench.engine.is_changing() {
            let asks = bench.draw(4) != 0;
            bench.traffic(asks);
        }
        bench.change(order);
    }
    bench.settle();
    let lost = bench.answered.iter().filter(|answers| **answers == 0).count();
    assert_eq!(lost, 0, "of {} Interests", bench.asked);
    assert!(u64::from(bench.asked) > changes());
}

#[test]
fn make_before_break_loses_nothing() {
    nothing_is_lost(ChangeOrder::MakeBeforeBreak, true);
}

#[test]
fn make_before_break_loses_nothing_where_no_token_comes_back() {
    nothing_is_lost(ChangeOrder::MakeBeforeBreak, false);
}

#[test]
fn buffering_loses_nothing() {
    nothing_is_lost(ChangeOrder::Buffer, true);
}

#[test]
fn what_is_dropped_is_counted() {
    let mut bench = Bench::new(43, true);
    for _ in 0..changes() {
        for _ in 0..bench.draw(3) {
            bench.traffic(true);
        }
        bench.change(ChangeOrder::Drop);
    }
    bench.settle();
    let lost = bench.answered.iter().filter(|answers| **answers == 0).count() as u64;
    assert!(lost > 0, "a change in the midst of traffic loses something");
    let unsolicited = bench.engine.drops().total(nw_element_api::Cause::UnsolicitedData);
    assert_eq!(lost, unsolicited, "each Interest was sent and answered; whose router had gone is counted");
}

/// Whatever the orders are, one on top of the other: packets are conserved.
#[test]
fn any_changes_conserve_packets() {
    let mut bench = Bench::new(44, true);
    for _ in 0..changes() {
        for _ in 0..bench.draw(3) {
            bench.traffic(true);
        }
        let orders = [ChangeOrder::Drop, ChangeOrder::Buffer, ChangeOrder::MakeBeforeBreak];
        let order = orders[bench.draw(3) as usize];
        bench.change(order);
    }
    bench.settle();
    let lost = bench.answered.iter().filter(|answers| **answers == 0).count() as u64;
    assert_eq!(lost, bench.engine.drops().total(nw_element_api::Cause::UnsolicitedData));
}

#[test]
fn a_graph_that_does_not_work_changes_nothing() {
    let mut bench = Bench::new(45, true);
    let mut bad = graph(0);
    // An element of another kind, which is made anew: of one that stays nothing is wrong that would keep it from going on.
    bad.nodes[1].name = "another".to_owned();
    bad.nodes[1].parameters.0.push(("mibs".to_owned(), Value::Integer(1)));
    let refused = bench.engine.change(bench.now, &bad, ChangeOrder::Drop, &mut bench.pool, &mut bench.out);
    assert_eq!(refused.expect_err("refused").len(), 1);
    bench.traffic(true);
    bench.settle();
    assert!(bench.answered.iter().all(|answers| *answers == 1));
}

/// A neighbour that comes back may be there before its old connection has ended.
#[test]
fn a_face_for_one_peer_goes_on_with_the_next() {
    let mut graph = graph(0);
    (graph.faces[1].listens, graph.faces[1].is_single) = (true, true);
    let Ok(mut engine) = Engine::new(&graph, KEY, 7) else { panic!("a good graph") };
    let again = FaceId::from_slot(302, 0);
    engine.add_face(SOUTH, INFO, 0, false);
    engine.add_face(NORTH, INFO, 1, true);
    engine.add_face(again, INFO, 1, true);
    let (mut pool, mut out) = (Pool::new(KEY, 4, 64), Vec::new());
    let now = Instant::from_millis(1);
    for (number, expected) in [(1, NORTH), (2, again)] {
        engine.apply(now, &mut pool, &mut out).expect("good routes");
        let interest = InterestBuilder::new(Bench::name(number)).nonce(number).encode();
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
