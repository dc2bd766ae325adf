use super::tests::{name, wire_of};
use super::*;
use crate::{FaceId, Peer, Scope};
use nw_wire::Token;

/// As good as a drawn one: thousands of names spread evenly.
const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);
const PEER: Peer = Peer::of_mac([1, 2, 3, 4, 5, 6]);

fn face(number: u32) -> FaceId {
    FaceId::from_slot(300 + number, 0)
}

struct Bench {
    pit: Pit,
    next: u64,
}

impl Bench {
    fn new(entries: usize) -> Self {
        Bench { pit: Pit::new(KEY, 1, PitConfig::for_entries(entries)), next: 0 }
    }

    fn add_face(&mut self, number: u32, scope: Scope, peer: Peer) -> FaceId {
        self.pit.add_face(face(number), scope);
        self.pit.set_peer(face(number), peer);
        face(number)
    }

    /// An Interest of another name and this length; an entry of another gives way if it must and if one does.
    fn ask(&mut self, face: FaceId, len: usize, token: &[u8], is_management: bool) -> bool {
        self.next += 1;
        let name = name(&format!("/x/{}", self.next));
        let prefixes = Prefixes::of(&KEY, name.as_ref());
        let ask =
            Ask { name: name.as_ref(), prefixes: &prefixes, can_be_prefix: false, must_be_fresh: false };
        let (wire, place, nonce_start) = wire_of(name.as_ref(), len);
        let token = Token::new(token).unwrap();
        let asker = Asker { face, nonce: 1, expiry: Instant::from_millis(3_600_000), token: &token };
        if self.pit.enter(&ask, &wire, place, nonce_start, &asker).is_ok() {
            return true;
        }
        let shortage = self.pit.shortage(&ask, wire.len()).expect("something is short");
        let Some(victim) = self.pit.victim(shortage, &Claim { face, is_management, keep: None }) else {
            return false;
        };
        assert!(self.pit.remove(victim));
        self.pit.enter(&ask, &wire, place, nonce_start, &asker).is_ok()
    }

    fn fill(&mut self, faces: &[FaceId], interests: usize, len: usize, token: &[u8]) -> usize {
        (0..interests).filter(|at| self.ask(faces[at % faces.len()], len, token, false)).count()
    }
}

/// Of each thing a flood uses up: entries, slots of every class but the first, records.
const FLOODS: [(usize, &[u8]); 5] = [(0, b""), (300, b""), (1500, b""), (8000, b""), (0, &[7; 32])];

#[test]
fn newcomers_with_less_get_room_from_a_peer_with_many_faces() {
    for (len, token) in FLOODS {
        let mut bench = Bench::new(4096);
        let flood: Vec<FaceId> = (0..500).map(|at| bench.add_face(at, Scope::NonLocal, PEER)).collect();
        bench.fill(&flood, 6000, len, token);
        let bystanders: Vec<FaceId> =
            (500..510).map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN)).collect();
        let few = if len == 8000 { 10 } else { 100 };
        assert_eq!(bench.fill(&bystanders, few, len, token), few, "{len} {token:?}");
        // The flood goes on, and takes nothing back.
        bench.fill(&flood, 3000, len, token);
        let left: usize = bystanders.iter().map(|face| bench.pit.face_in_records(*face)).sum();
        assert!(left >= few * 95 / 100, "{left} of {few} are left, {len} {token:?}");
    }
}

#[test]
fn two_faces_of_different_peers_share_and_a_third_gets_its_share() {
    let mut bench = Bench::new(4096);
    let flood = [0, 1].map(|at| bench.add_face(at, Scope::Local, Peer::UNKNOWN));
    bench.fill(&flood, 6000, 0, b"");
    let third = bench.add_face(2, Scope::Local, Peer::UNKNOWN);
    for _ in 0..20 {
        bench.fill(&[flood[0], flood[1], third], 3000, 0, b"");
    }
    for face in [flood[0], flood[1], third] {
        let ins = bench.pit.face_in_records(face);
        assert!((1200..1600).contains(&ins), "{ins} of 4096 for each of three");
    }
}

#[test]
fn a_face_of_the_peer_that_has_most_gets_room_from_its_siblings() {
    let mut bench = Bench::new(1024);
    let flood: Vec<FaceId> = (0..3).map(|at| bench.add_face(at, Scope::NonLocal, PEER)).collect();
    bench.fill(&flood, 1500, 0, b"");
    let sibling = bench.add_face(9, Scope::NonLocal, PEER);
    assert_eq!(bench.fill(&[sibling], 50, 0, b""), 50);
    assert_eq!(bench.pit.face_in_records(sibling), 50);
}

#[test]
fn local_faces_have_a_reserve_whatever_the_number_of_remote_peers() {
    let mut bench = Bench::new(1024);
    // Each has less than the local face will have.
    let remote: Vec<FaceId> = (0..512).map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN)).collect();
    bench.fill(&remote, 1024, 0, b"");
    let local = bench.add_face(600, Scope::Local, Peer::UNKNOWN);
    assert_eq!(bench.fill(&[local], 64, 0, b""), 64);
    let stranger = bench.add_face(601, Scope::NonLocal, Peer::UNKNOWN);
    assert!(bench.fill(&[stranger], 64, 0, b"") < 8, "no reserve, and its share is two");
    bench.fill(&remote, 1024, 0, b"");
    assert!(bench.pit.face_in_records(local) >= 60);
}

#[test]
fn management_finds_room_where_local_faces_hold_all() {
    let mut bench = Bench::new(1024);
    let local: Vec<FaceId> = (0..1024).map(|at| bench.add_face(at, Scope::Local, Peer::UNKNOWN)).collect();
    bench.fill(&local, 1024, 0, b"");
    assert!(!bench.ask(local[0], 0, b"", false), "one with as many as all others gets no more");
    assert!(bench.ask(local[0], 0, b"", true), "but may give commands");
    assert_eq!(bench.pit.len(), 1024);
    // Not without end.
    let mut one = Bench::new(256);
    let local = [0, 1].map(|at| one.add_face(at, Scope::Local, Peer::UNKNOWN));
    one.fill(&local, 400, 0, b"");
    assert!(!one.ask(local[0], 0, b"", true));
}

#[test]
fn what_waits_for_a_face_that_has_ended_gives_way_first() {
    let mut bench = Bench::new(64);
    let [gone, other] = [0, 1].map(|at| bench.add_face(at, Scope::Local, Peer::UNKNOWN));
    bench.fill(&[gone], 4, 0, b"");
    bench.fill(&[other], 60, 0, b"");
    bench.pit.end_share(gone);
    assert_eq!(bench.fill(&[other], 4, 0, b""), 4);
    assert_eq!((bench.pit.face_in_records(gone), bench.pit.face_in_records(other)), (0, 64));
}

#[test]
fn an_entry_counts_for_the_lightest_face_that_waits_for_it() {
    let mut bench = Bench::new(32);
    let [heavy, light, newcomer] = [0, 1, 2].map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN));
    bench.fill(&[heavy], 32, 0, b"");
    let shared = bench.pit.entries().next().unwrap();
    let record =
        InRecord { face: light, nonce: 3, expiry: Instant::from_millis(9_000_000), token: Token::NONE };
    assert_eq!(bench.pit.upsert_in(shared, record), Ok(true));
    assert_eq!(bench.fill(&[newcomer], 15, 0, b""), 15);
    assert!(bench.pit.contains(shared));
}

#[test]
fn digests_of_one_name_give_way_to_another_peers() {
    let mut bench = Bench::new(64);
    let [flood, other] = [0, 1].map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN));
    let mut ask = |face: FaceId, octet: u8| {
        let name = super::tests::with_digest(&name("/movie/1"), octet);
        let prefixes = Prefixes::of(&KEY, name.as_ref());
        let ask =
            Ask { name: name.as_ref(), prefixes: &prefixes, can_be_prefix: false, must_be_fresh: false };
        let (wire, place, nonce_start) = wire_of(name.as_ref(), 0);
        let asker = Asker { face, nonce: 1, expiry: Instant::from_millis(1000), token: &Token::NONE };
        if bench.pit.enter(&ask, &wire, place, nonce_start, &asker).is_ok() {
            return true;
        }
        let shortage = bench.pit.shortage(&ask, wire.len());
        assert!(matches!(shortage, Some(Shortage::Digests(_))), "{shortage:?}");
        let claim = Claim { face, is_management: false, keep: None };
        let Some(victim) = bench.pit.victim(shortage.unwrap(), &claim) else { return false };
        bench.pit.remove(victim) && bench.pit.enter(&ask, &wire, place, nonce_start, &asker).is_ok()
    };
    assert!((0..DIGESTS_PER_NAME_MAX as u8).all(|octet| ask(flood, octet)));
    assert!(!ask(flood, 100));
    assert!(ask(other, 101));
}

#[test]
fn pressure_is_that_of_the_fullest_part() {
    for (len, token) in FLOODS {
        let mut bench = Bench::new(4096);
        let face = bench.add_face(0, Scope::NonLocal, Peer::UNKNOWN);
        assert_eq!(bench.pit.pressure(), 0);
        bench.fill(&[face], 6000, len, token);
        assert_eq!(bench.pit.pressure(), 8, "{len} {token:?}");
    }
    let mut deep = Bench::new(4096);
    for components in 40..40 + DEEP_LENGTHS_MAX / 2 {
        let name = super::tests::deep(components);
        let prefixes = Prefixes::of(&KEY, name.as_ref());
        let ask = Ask { name: name.as_ref(), prefixes: &prefixes, can_be_prefix: true, must_be_fresh: false };
        let (wire, place, nonce_start) = wire_of(name.as_ref(), 0);
        deep.pit.find_or_insert(&ask, &wire, place, nonce_start).unwrap();
    }
    assert_eq!(deep.pit.pressure(), 4);
}
