//! Names of Data with return labels are decoded when an element needs them, and at the latest when
//! the Data leaves.

use nw_element_api::decode::decode_lazily;
use nw_element_api::{DropReason, FaceId, FaceInfo, LinkType, Packet, Pool, Scope, Timestamp};
use nw_elements::Counter;
use nw_graph::{Engine, GraphFile};
use nw_name::{HashKey, Name};
use nw_wire::{Data, DataBuilder, DigestSha256, Fault, Token};

const KEY: HashKey = HashKey::new([5, 6, 7, 8]);
const SOUTH: FaceId = FaceId::from_slot(300, 0);
const NORTH: FaceId = FaceId::from_slot(301, 0);
const INFO: FaceInfo = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };

/// Number of packets; every second one has an invalid name.
const PACKETS: usize = 10;

/// Sends labelled Data from the south through `graph`. Returns the engine and the number of packets
/// that left.
fn run(graph: &str) -> (Engine, usize) {
    let text = format!(
        "face south = udp4://192.0.2.1:6363\nface north = udp4://192.0.2.2:6363\ndiscard = sink\nnorth -> discard\n{graph}"
    );
    let graph =
        GraphFile::read("test", &text).unwrap_or_else(|problems| panic!("{problems}")).graph;
    let mut engine = Engine::new(&graph, KEY, 7).unwrap_or_else(|faults| panic!("{faults:?}"));
    engine.add_face(SOUTH, INFO, 0, false);
    engine.add_face(NORTH, INFO, 1, false);
    let (mut pool, mut out) = (Pool::new(KEY, 32, 512), Vec::new());
    let mut packets: Vec<Packet> = (0..PACKETS).map(|number| receive(number, &mut pool)).collect();
    engine.process(Timestamp::START, &mut packets, &mut pool, &mut out);
    let left = out.len();
    for packet in out {
        let (bytes, meta) = pool.view(&packet);
        assert!(meta.has_full_hash() && meta.name_in(bytes).to_string().starts_with("/a/"));
        assert_eq!(meta.egress, NORTH);
        Data::check(bytes).expect("what leaves is whole");
        pool.release(packet);
    }
    assert_eq!(pool.packets_in_use(), 0);
    (engine, left)
}

fn receive(number: usize, pool: &mut Pool) -> Packet {
    let name = "/a".parse::<Name>().expect("a name").with_segment(number as u64);
    let mut wire =
        DataBuilder::new(&name, b"x").encode(&DigestSha256).unwrap_or_else(|never| match never {});
    if number % 2 == 1 {
        let name_start = Data::check(&wire).expect("as built").name_start();
        wire[name_start + 1] = 100;
    }
    let packet = pool.copy_of(&wire).expect("a buffer");
    let meta = pool.meta_mut(&packet);
    meta.ingress = SOUTH;
    meta.link.token = Token::new(&[1; 6]).expect("six bytes");
    decode_lazily(pool, &packet).expect("whole, but for the name");
    packet
}

fn malformed(engine: &Engine) -> u64 {
    engine.drops().total(DropReason::Malformed(Fault::Truncated))
}

#[test]
fn deferred_name_without_reader_decoded_on_egress() {
    let (engine, left) =
        run("copy = tee\nsouth -> copy.packet\ncopy.packet -> north\ncopy.copy -> discard\n");
    assert_eq!((left, malformed(&engine)), (PACKETS / 2, PACKETS as u64 / 2));
}

#[test]
fn deferred_name_decoded_before_element_that_reads_names() {
    let (mut engine, left) =
        run("seen = counter(depth = 1)\nsouth -> seen.packet\nseen.packet -> north\n");
    assert_eq!((left, malformed(&engine)), (PACKETS / 2, PACKETS as u64 / 2));
    let mut pool = Pool::new(KEY, 1, 1);
    let seen = engine.with(
        "seen",
        Timestamp::START,
        &mut pool,
        &mut Vec::new(),
        |counter: &mut Counter, _| {
            counter
                .prefixes()
                .iter()
                .map(|seen| (seen.prefix().to_string(), seen.packets()))
                .collect::<Vec<_>>()
        },
    );
    assert_eq!(seen, Some(vec![("/a".to_owned(), PACKETS as u64 / 2)]));
}

#[test]
fn deferred_name_decoded_by_content_store() {
    let (engine, left) = run(
        "sort = packet_dispatcher\nstore = content_store\nsouth -> sort.packet\nsort.interest -> store.interest\nsort.data -> store.data\n\
         sort.nack -> discard\nstore.data -> north\nstore.hit -> north\nstore.miss -> discard\n",
    );
    assert_eq!((left, malformed(&engine)), (PACKETS / 2, PACKETS as u64 / 2));
}
