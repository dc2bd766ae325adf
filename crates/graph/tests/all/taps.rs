//! Taps inside of a graph: they see what passes their ports, and change nothing of what passes.

use nw_element_api::capture::{CapturePoint, LEASE, TAPS_MAX, TapFilter};
use nw_element_api::decode::decode_lazily;
use nw_element_api::{FaceId, FaceInfo, Kind, LinkType, Packet, Pool, Scope, Timestamp};
use nw_graph::{ChangeMode, Engine, Graph, GraphFile, PortSelection, StartedTap, TapError};
use nw_name::{HashKey, Name};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, Token};
use std::time::Duration;

const KEY: HashKey = HashKey::new([5, 6, 7, 8]);
const SOUTH: FaceId = FaceId::from_slot(300, 0);
const NORTH: FaceId = FaceId::from_slot(301, 0);
const INFO: FaceInfo = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
const GRAPH: &str = r#"
face south = udp4://192.0.2.1:6363
face north = udp4://192.0.2.2:6363 default
pd = packet_dispatcher
cs = content_store(mib = 1)
fib = router(routes = ["/ north"])
discard = sink
faces -> pd.packet
pd.interest -> cs.interest
cs.hit -> faces
cs.miss -> fib.interest -> faces
pd.data -> fib.data -> cs.data -> faces
pd.nack -> fib.nack -> faces
fib.route_event -> discard
"#;

fn graph(text: &str) -> Graph {
    GraphFile::read("test", text).unwrap_or_else(|problems| panic!("{problems}")).graph
}

fn at(element: &str, port: Option<&str>) -> PortSelection {
    PortSelection { element: element.to_owned(), port: port.map(str::to_owned) }
}

/// A packet that left: its face, kind, name and PIT token.
type Left = (FaceId, Kind, String, Token);

struct TestBench {
    engine: Engine,
    pool: Pool,
    now: Timestamp,
}

impl TestBench {
    fn new() -> Self {
        let mut engine = match Engine::new(&graph(GRAPH), KEY, 7) {
            Ok(engine) => engine,
            Err(faults) => panic!("{faults:?}"),
        };
        engine.add_face(SOUTH, INFO, 0, false);
        engine.add_face(NORTH, INFO, 1, false);
        let mut pool = Pool::new(KEY, 32, 2048);
        engine.apply(Timestamp::START, &mut pool, &mut Vec::new()).expect("good routes");
        TestBench { engine, pool, now: Timestamp::from_millis(1) }
    }

    fn tap(&mut self, element: &str, port: Option<&str>) -> StartedTap {
        let selection = at(element, port);
        let started = self.engine.start_tap(self.now, TapFilter::default(), Some(&selection));
        started.expect("a port that exists")
    }

    fn receive(&mut self, wire: &[u8], ingress: FaceId, token: Token) -> Packet {
        let packet = self.pool.copy_of(wire).expect("a buffer");
        let meta = self.pool.meta_mut(&packet);
        (meta.ingress, meta.arrival, meta.link.token) = (ingress, self.now, token);
        decode_lazily(&mut self.pool, &packet).expect("well-formed");
        packet
    }

    /// Processes a batch, and returns what left.
    fn process(&mut self, mut packets: Vec<Packet>) -> Vec<Left> {
        let mut out = Vec::new();
        self.engine.process(self.now, &mut packets, &mut self.pool, &mut out);
        self.now = self.now + Duration::from_micros(300);
        let mut left = Vec::new();
        for packet in out {
            let (wire, meta) = self.pool.view(&packet);
            let name = meta.name_in(wire).to_string();
            left.push((meta.egress, meta.kind, name, meta.link.token));
            self.pool.release(packet);
        }
        left
    }

    /// Sends Interests for these numbers and then the Data of all that reached the producer.
    fn exchange(&mut self, numbers: std::ops::Range<u32>) -> Vec<Left> {
        let interest = |number: u32| InterestBuilder::new(name(number)).nonce(number + 1).encode();
        let interests =
            numbers.map(|number| self.receive(&interest(number), SOUTH, Token::NONE)).collect();
        let mut left = self.process(interests);
        let mut replies = Vec::new();
        for (_, _, name, token) in left.iter().filter(|(egress, ..)| *egress == NORTH) {
            let name: Name = name.parse().expect("a name");
            let Ok(data) = DataBuilder::new(&name, b"x").encode(&DigestSha256);
            replies.push((data, *token));
        }
        let replies = replies.iter().map(|(data, token)| self.receive(data, NORTH, *token));
        let replies = replies.collect();
        left.extend(self.process(replies));
        left
    }

    /// Returns the packets of a capture as port and kind, and the number of lost ones.
    fn take(&mut self, tap: &StartedTap) -> (Vec<(String, Kind)>, u64) {
        let capture = self.engine.take_tap(self.now, tap.id).expect("the capture runs");
        let packet = |point: CapturePoint, wire: &[u8]| {
            let CapturePoint::Port(number) = point else { panic!("{point:?}") };
            let (_, port) = tap.ports.iter().find(|(known, _)| *known == number).expect("a port");
            // Data of these tests have no link header; Interests may have a token.
            (port.clone(), if wire[0] == 6 { Kind::Data } else { Kind::Interest })
        };
        let packets = capture.packets().map(|(captured, wire)| packet(captured.point, wire));
        (packets.collect(), capture.lost)
    }

    fn count(&self, element: &str, port: &str) -> u64 {
        let counts = self.engine.counts();
        let found =
            counts.iter().find(|count| count.node == element && count.is_out && count.port == port);
        found.expect("a port").packets
    }
}

fn name(number: u32) -> Name {
    "/data".parse::<Name>().expect("a name").with_segment(u64::from(number))
}

#[test]
fn tap_of_a_port_sees_each_packet_once_and_changes_nothing() {
    let (mut plain, mut tapped) = (TestBench::new(), TestBench::new());
    let everywhere: Vec<StartedTap> =
        ["pd", "cs", "fib"].map(|element| tapped.tap(element, None)).into();
    for first in [0, 100, 100, 150] {
        assert_eq!(plain.exchange(first..first + 100), tapped.exchange(first..first + 100));
    }
    assert_eq!(plain.engine.counts(), tapped.engine.counts());
    for tap in &everywhere {
        let (seen, lost) = tapped.take(tap);
        assert_eq!(lost, 0);
        for (_, label) in &tap.ports {
            let (element, port) = label.split_once('.').expect("ELEMENT.PORT");
            let packets = seen.iter().filter(|(seen, _)| seen == label).count() as u64;
            assert_eq!(packets, tapped.count(element, port), "{label}");
        }
    }
    assert!(tapped.count("cs", "hit") > 0 && tapped.count("cs", "miss") > 0);
    everywhere.iter().for_each(|tap| tapped.engine.stop_tap(tap.id));
    assert_eq!(plain.exchange(250..400), tapped.exchange(250..400));
    assert_eq!(tapped.pool.packets_in_use(), 0);
}

#[test]
fn two_taps_at_one_port_see_the_same_and_end_independently() {
    let mut bench = TestBench::new();
    let (one, all) = (bench.tap("cs", Some("miss")), bench.tap("cs", None));
    bench.exchange(0..10);
    let (first, _) = bench.take(&one);
    assert_eq!(first, vec![("cs.miss".to_owned(), Kind::Interest); 10]);
    let (second, _) = bench.take(&all);
    assert_eq!(second.iter().filter(|(port, _)| port == "cs.miss").count(), 10);
    assert_eq!(second.iter().filter(|(port, _)| port == "cs.data").count(), 10);
    bench.engine.stop_tap(all.id);
    assert_eq!(bench.engine.tapped_ports(), ["cs.miss"]);
    bench.exchange(10..20);
    assert_eq!(bench.take(&one).0.len(), 10);
    bench.engine.stop_tap(one.id);
    assert!(bench.engine.tapped_ports().is_empty());
    assert!(bench.engine.take_tap(bench.now, one.id).is_none());
}

#[test]
fn capture_that_is_full_counts_the_rest_as_lost_and_traffic_goes_on() {
    let mut bench = TestBench::new();
    let selection = at("pd", Some("interest"));
    let filter = TapFilter { packets_per_s_max: Some(50), ..TapFilter::default() };
    let tap = bench.engine.start_tap(bench.now, filter, Some(&selection)).expect("a port");
    let left = bench.exchange(0..80);
    assert_eq!(left.len(), 160, "each Interest and its Data");
    let (seen, lost) = bench.take(&tap);
    assert_eq!((seen.len(), lost), (50, 30));
}

#[test]
fn unknown_elements_and_ports_are_answered_with_the_names_there_are() {
    let mut bench = TestBench::new();
    let mut refused = |element: &str, port: Option<&str>| {
        let selection = at(element, port);
        let refused = bench.engine.start_tap(bench.now, TapFilter::default(), Some(&selection));
        refused.expect_err("no such port").to_string()
    };
    assert_eq!(
        refused("store", None),
        "no element of this graph is called \"store\": it has pd, cs, fib, discard"
    );
    assert_eq!(
        refused("cs", Some("mis")),
        "cs has no output called \"mis\": it has hit, miss, data"
    );
    assert!(refused("discard", None).starts_with("discard has no output"));
    assert!(bench.engine.tapped_ports().is_empty());
}

#[test]
fn number_of_taps_is_bounded_and_expired_ones_make_room() {
    let mut bench = TestBench::new();
    for _ in 0..TAPS_MAX {
        bench.tap("pd", Some("interest"));
    }
    let mut start = |now| {
        let started = bench.engine.start_tap(now, TapFilter::default(), Some(&at("cs", None)));
        (started.map(|_| ()), bench.engine.tapped_ports())
    };
    let now = Timestamp::from_millis(1);
    assert_eq!(start(now), (Err(TapError::TooMany), vec!["pd.interest".to_owned()]));
    // None was fetched: all have ended.
    let (started, ports) = start(now + LEASE);
    assert_eq!((started, ports.len()), (Ok(()), 3));
}

#[test]
fn tap_follows_its_element_through_changes_and_ends_with_it() {
    let mut bench = TestBench::new();
    let (miss, all_of_fib) = (bench.tap("cs", Some("miss")), bench.tap("fib", None));
    bench.exchange(0..10);
    bench.take(&miss);
    bench.take(&all_of_fib);
    // A new content store of the same name; the old one has no pending Interests.
    let change = |bench: &mut TestBench, text: &str| {
        let changed = bench.engine.change(
            bench.now,
            &graph(text),
            ChangeMode::MakeBeforeBreak,
            &mut bench.pool,
            &mut Vec::new(),
        );
        assert!(changed.is_ok(), "{changed:?}");
    };
    change(&mut bench, &GRAPH.replace("mib = 1", "mib = 2"));
    bench.exchange(0..10);
    assert_eq!(bench.take(&miss).0.len(), 10, "the new element is tapped");
    let without_store = GRAPH
        .replace("cs = content_store(mib = 1)\n", "")
        .replace("pd.interest -> cs.interest\ncs.hit -> faces\ncs.miss ->", "pd.interest ->")
        .replace("fib.data -> cs.data -> faces", "fib.data -> faces");
    change(&mut bench, &without_store);
    assert!(bench.engine.take_tap(bench.now, miss.id).is_none(), "its element is gone");
    bench.take(&all_of_fib);
    bench.exchange(20..30);
    let (seen, _) = bench.take(&all_of_fib);
    assert_eq!(seen.iter().filter(|(port, _)| port == "fib.data").count(), 10);
    assert!(bench.engine.tapped_ports().iter().all(|port| port.starts_with("fib.")));
}

/// Old elements that only wait for replies are tapped, too.
#[test]
fn replies_for_an_element_that_was_replaced_are_seen() {
    let mut bench = TestBench::new();
    let tap = bench.tap("fib", Some("data"));
    let interest = InterestBuilder::new(name(1)).nonce(1).encode();
    let packet = bench.receive(&interest, SOUTH, Token::NONE);
    let left = bench.process(vec![packet]);
    let [(NORTH, Kind::Interest, _, token)] = left[..] else { panic!("{left:?}") };
    let other = GRAPH.replace("routes =", "pending = 512, routes =");
    let changed = bench.engine.change(
        bench.now,
        &graph(&other),
        ChangeMode::MakeBeforeBreak,
        &mut bench.pool,
        &mut Vec::new(),
    );
    assert!(changed.is_ok_and(|summary| !summary.is_complete));
    let Ok(data) = DataBuilder::new(&name(1), b"x").encode(&DigestSha256);
    let reply = bench.receive(&data, NORTH, token);
    assert_eq!(bench.process(vec![reply]).len(), 1);
    assert_eq!(bench.take(&tap).0.len(), 1);
    bench.engine.stop_tap(tap.id);
    assert!(bench.engine.tapped_ports().is_empty());
}
