//! Tests of fairness in a full PIT: which entry yields to a new Interest.

use super::tests::{name, wire_of};
use super::*;
use crate::test_util::KEY;
use crate::{FaceId, Peer, Scope};
use nw_wire::Token;

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

    /// Inserts an Interest with a new name and this length; if the table is full, removes a victim
    /// first. Returns whether it was inserted.
    fn insert_or_evict(
        &mut self,
        face: FaceId,
        len: usize,
        token: &[u8],
        is_management: bool,
    ) -> bool {
        self.next += 1;
        let name = name(&format!("/x/{}", self.next));
        let prefixes = PrefixHashes::of(&KEY, name.as_ref());
        let key = InterestKey {
            name: name.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: false,
            must_be_fresh: false,
        };
        let (wire, name_span, nonce_start) = wire_of(name.as_ref(), len);
        let token = Token::new(token).unwrap();
        let downstream =
            Downstream { face, nonce: 1, expiry: Timestamp::from_millis(3_600_000), token: &token };
        if self.pit.get_or_insert(&key, &wire, name_span, nonce_start, &downstream).is_ok() {
            return true;
        }
        let shortage = self.pit.shortage(&key, wire.len()).expect("a resource is exhausted");
        let Some(victim) =
            self.pit.select_victim(shortage, &Claim { face, is_management, keep: None })
        else {
            return false;
        };
        assert!(self.pit.remove(victim));
        self.pit.get_or_insert(&key, &wire, name_span, nonce_start, &downstream).is_ok()
    }

    fn fill(&mut self, faces: &[FaceId], interests: usize, len: usize, token: &[u8]) -> usize {
        (0..interests)
            .filter(|at| self.insert_or_evict(faces[at % faces.len()], len, token, false))
            .count()
    }
}

/// One flood per resource: entries, slots of every class but the first, records.
const FLOODS: [(usize, &[u8]); 5] = [(0, b""), (300, b""), (1500, b""), (8000, b""), (0, &[7; 32])];

#[test]
fn pit_full_flooding_peer_yields_to_lighter_faces() {
    for (len, token) in FLOODS {
        let mut bench = Bench::new(4096);
        let flood: Vec<FaceId> =
            (0..500).map(|at| bench.add_face(at, Scope::NonLocal, PEER)).collect();
        bench.fill(&flood, 6000, len, token);
        let bystanders: Vec<FaceId> =
            (500..510).map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN)).collect();
        let count = if len == 8000 { 10 } else { 100 };
        assert_eq!(bench.fill(&bystanders, count, len, token), count, "{len} {token:?}");
        // The flood continues and takes nothing back.
        bench.fill(&flood, 3000, len, token);
        let kept: usize = bystanders.iter().map(|face| bench.pit.face_in_records(*face)).sum();
        assert!(kept >= count * 95 / 100, "{kept} of {count} entries are kept, {len} {token:?}");
    }
}

#[test]
fn pit_full_third_peer_gets_its_share() {
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
fn pit_full_heaviest_peer_shares_among_its_faces() {
    let mut bench = Bench::new(1024);
    let flood: Vec<FaceId> = (0..3).map(|at| bench.add_face(at, Scope::NonLocal, PEER)).collect();
    bench.fill(&flood, 1500, 0, b"");
    let sibling = bench.add_face(9, Scope::NonLocal, PEER);
    assert_eq!(bench.fill(&[sibling], 50, 0, b""), 50);
    assert_eq!(bench.pit.face_in_records(sibling), 50);
}

#[test]
fn pit_full_many_remote_peers_local_reserve_kept() {
    let mut bench = Bench::new(1024);
    // Each remote face has less than the local one will have.
    let remote: Vec<FaceId> =
        (0..512).map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN)).collect();
    bench.fill(&remote, 1024, 0, b"");
    let local = bench.add_face(600, Scope::Local, Peer::UNKNOWN);
    assert_eq!(bench.fill(&[local], 64, 0, b""), 64);
    let newcomer = bench.add_face(601, Scope::NonLocal, Peer::UNKNOWN);
    assert!(bench.fill(&[newcomer], 64, 0, b"") < 8, "no reserve, and its share is two");
    bench.fill(&remote, 1024, 0, b"");
    assert!(bench.pit.face_in_records(local) >= 60);
}

#[test]
fn pit_full_of_local_entries_management_is_admitted() {
    let mut bench = Bench::new(1024);
    let local: Vec<FaceId> =
        (0..1024).map(|at| bench.add_face(at, Scope::Local, Peer::UNKNOWN)).collect();
    bench.fill(&local, 1024, 0, b"");
    assert!(
        !bench.insert_or_evict(local[0], 0, b"", false),
        "a face with as many entries as all others gets no more"
    );
    assert!(bench.insert_or_evict(local[0], 0, b"", true), "commands have priority");
    assert_eq!(bench.pit.len(), 1024);
    // The priority is limited.
    let mut one = Bench::new(256);
    let local = [0, 1].map(|at| one.add_face(at, Scope::Local, Peer::UNKNOWN));
    one.fill(&local, 400, 0, b"");
    assert!(!one.insert_or_evict(local[0], 0, b"", true));
}

#[test]
fn pit_full_entries_of_ended_face_are_victims_first() {
    let mut bench = Bench::new(64);
    let [ended, other] = [0, 1].map(|at| bench.add_face(at, Scope::Local, Peer::UNKNOWN));
    bench.fill(&[ended], 4, 0, b"");
    bench.fill(&[other], 60, 0, b"");
    bench.pit.mark_face_ended(ended);
    assert_eq!(bench.fill(&[other], 4, 0, b""), 4);
    assert_eq!((bench.pit.face_in_records(ended), bench.pit.face_in_records(other)), (0, 64));
}

#[test]
fn victim_shared_entry_weighs_as_its_lightest_face() {
    let mut bench = Bench::new(32);
    let [heavy, light, newcomer] =
        [0, 1, 2].map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN));
    bench.fill(&[heavy], 32, 0, b"");
    let shared = bench.pit.entries().next().unwrap();
    let record = InRecord {
        face: light,
        nonce: 3,
        expiry: Timestamp::from_millis(9_000_000),
        token: Token::NONE,
    };
    assert_eq!(bench.pit.upsert_in(shared, record), Ok(true));
    assert_eq!(bench.fill(&[newcomer], 15, 0, b""), 15);
    assert!(bench.pit.contains(shared));
}

#[test]
fn record_victim_full_entry_is_face_of_heaviest_peer() {
    let mut bench = Bench::new(4096);
    let faces = RECORDS_PER_ENTRY_MAX as u32 + 1;
    let flood: Vec<FaceId> =
        (0..faces).map(|at| bench.add_face(at, Scope::NonLocal, PEER)).collect();
    let other = bench.add_face(faces, Scope::NonLocal, Peer::UNKNOWN);
    bench.fill(&flood[..1], 1, 0, b"");
    let entry = bench.pit.entries().next().unwrap();
    let record = |face| InRecord {
        face,
        nonce: 3,
        expiry: Timestamp::from_millis(1000),
        token: Token::NONE,
    };
    let claim = |face| Claim { face, is_management: false, keep: Some(entry) };
    assert_eq!(bench.pit.record_victim(entry, &claim(other)), None, "there is space");
    flood[1..]
        .iter()
        .for_each(|face| assert_eq!(bench.pit.upsert_in(entry, record(*face)), Ok(true)));
    assert_eq!(bench.pit.upsert_in(entry, record(other)), Err(PitFull::Table));
    bench.pit.set_peer(other, Peer::UNKNOWN);
    // Sums per peer are refreshed from time to time.
    let face = (0..300)
        .find_map(|_| bench.pit.record_victim(entry, &claim(other)))
        .expect("one face yields");
    assert!(flood.contains(&face) && bench.pit.remove_in(entry, face));
    assert_eq!(bench.pit.upsert_in(entry, record(other)), Ok(true));
}

#[test]
fn victim_digest_shortage_is_entry_of_flooding_peer() {
    let mut bench = Bench::new(64);
    let [flood, other] = [0, 1].map(|at| bench.add_face(at, Scope::NonLocal, Peer::UNKNOWN));
    let mut insert = |face: FaceId, byte: u8| {
        let name = super::tests::with_digest(&name("/movie/1"), byte);
        let prefixes = PrefixHashes::of(&KEY, name.as_ref());
        let key = InterestKey {
            name: name.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: false,
            must_be_fresh: false,
        };
        let (wire, name_span, nonce_start) = wire_of(name.as_ref(), 0);
        let downstream = Downstream {
            face,
            nonce: 1,
            expiry: Timestamp::from_millis(1000),
            token: &Token::NONE,
        };
        if bench.pit.get_or_insert(&key, &wire, name_span, nonce_start, &downstream).is_ok() {
            return true;
        }
        let shortage = bench.pit.shortage(&key, wire.len());
        assert!(matches!(shortage, Some(Shortage::Digests(_))), "{shortage:?}");
        let claim = Claim { face, is_management: false, keep: None };
        let Some(victim) = bench.pit.select_victim(shortage.unwrap(), &claim) else { return false };
        bench.pit.remove(victim)
            && bench.pit.get_or_insert(&key, &wire, name_span, nonce_start, &downstream).is_ok()
    };
    assert!((0..DIGESTS_PER_NAME_MAX as u8).all(|byte| insert(flood, byte)));
    assert!(!insert(flood, 100));
    assert!(insert(other, 101));
}

#[test]
fn pressure_partly_full_is_that_of_fullest_part() {
    for (len, token) in FLOODS {
        let mut bench = Bench::new(4096);
        let face = bench.add_face(0, Scope::NonLocal, Peer::UNKNOWN);
        assert_eq!(bench.pit.pressure(), 0);
        bench.fill(&[face], 6000, len, token);
        assert_eq!(bench.pit.pressure(), 8, "{len} {token:?}");
        assert!(bench.pit.pressure_reaches(8));
    }
    let mut deep = Bench::new(4096);
    for components in 40..40 + DEEP_LENGTHS_MAX / 2 {
        let name = super::tests::deep(components);
        let prefixes = PrefixHashes::of(&KEY, name.as_ref());
        let key = InterestKey {
            name: name.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: true,
            must_be_fresh: false,
        };
        let (wire, name_span, nonce_start) = wire_of(name.as_ref(), 0);
        deep.pit.get_or_insert_bare(&key, &wire, name_span, nonce_start).unwrap();
    }
    assert_eq!(deep.pit.pressure(), 4);
    assert!(deep.pit.pressure_reaches(4) && !deep.pit.pressure_reaches(5));
}
