//! The table against a naive map, and the estimates against RFC 6298 computed by hand.

use super::*;
use crate::FaceId;
use crate::test_util::KEY;
use core::time::Duration;
use nw_name::Name;
use proptest::prelude::*;
use std::collections::BTreeMap;

const A: StrategyId = StrategyId(1);
const B: StrategyId = StrategyId(2);

fn name(uri: &str) -> (Name, PrefixHashes) {
    let name: Name = uri.parse().unwrap();
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    (name, prefixes)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

#[test]
fn entry_size_is_whole_cache_lines() {
    assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (384, 64));
}

#[test]
fn record_expires_after_last_use() {
    let mut table = Measurements::new(4);
    let (name, prefixes) = name("/a/b/c");
    table.record_or_new(at(0), A, name.as_ref(), &prefixes, 2, 100).unwrap().cursor = 7;
    assert_eq!(table.record(at(99), A, name.as_ref(), &prefixes, 2).unwrap().cursor, 7);
    assert!(table.record(at(99), A, name.as_ref(), &prefixes, 1).is_none());
    assert!(table.record(at(99), B, name.as_ref(), &prefixes, 2).is_none(), "another's");
    table.record_or_new(at(99), A, name.as_ref(), &prefixes, 2, 100).unwrap();
    assert_eq!(table.record(at(198), A, name.as_ref(), &prefixes, 2).unwrap().cursor, 7);
    assert!(table.record(at(199), A, name.as_ref(), &prefixes, 2).is_none(), "too late");
    assert_eq!(
        table.record_or_new(at(199), A, name.as_ref(), &prefixes, 2, 100).unwrap().cursor,
        0
    );
    table.record_or_new(at(199), A, name.as_ref(), &prefixes, 2, 100).unwrap().cursor = 8;
    assert_eq!(table.record_or_new(at(199), B, name.as_ref(), &prefixes, 2, 1).unwrap().cursor, 0);
    table.expire_owner(B);
    assert!(table.record(at(199), B, name.as_ref(), &prefixes, 2).is_none());
    assert_eq!(table.record_or_new(at(199), B, name.as_ref(), &prefixes, 2, 1).unwrap().cursor, 0);
}

#[test]
fn longest_returns_longest_of_owner() {
    let mut table = Measurements::new(8);
    let (name, prefixes) = name("/a/b/c/d");
    for (components, owner) in [(0, A), (2, A), (3, B)] {
        table
            .record_or_new(at(0), owner, name.as_ref(), &prefixes, components, 100)
            .unwrap()
            .cursor = components as u32 + 1;
    }
    assert_eq!(table.longest(at(1), A, name.as_ref(), &prefixes).unwrap().cursor, 3);
    assert_eq!(table.longest(at(1), B, name.as_ref(), &prefixes).unwrap().cursor, 4);
    let (other, others) = super::tests::name("/a/x");
    assert_eq!(table.longest(at(1), A, other.as_ref(), &others).unwrap().cursor, 1);
    assert!(table.longest(at(1), B, other.as_ref(), &others).is_none());
}

#[test]
fn full_table_evicts_earliest_expiry() {
    let mut table = Measurements::new(16);
    for number in 0..16u64 {
        let (name, prefixes) = name(&format!("/{number}"));
        table.record_or_new(at(0), A, name.as_ref(), &prefixes, 1, 1000 + number).unwrap();
    }
    let (name, prefixes) = name("/new");
    table.record_or_new(at(1), A, name.as_ref(), &prefixes, 1, 1000).unwrap();
    assert_eq!(table.len(), 16);
    let (first, prefixes) = super::tests::name("/0");
    assert!(
        table.record(at(1), A, first.as_ref(), &prefixes, 1).is_none(),
        "it had the earliest expiry"
    );
}

#[test]
fn record_name_too_long_returns_none() {
    let mut table = Measurements::new(4);
    let (long, prefixes) = name(&format!("/{}", "x".repeat(PREFIX_LEN_MAX)));
    assert!(table.record_or_new(at(0), A, long.as_ref(), &prefixes, 1, 100).is_none());
    let (deep, prefixes) = name(&"/x".repeat(40));
    assert!(table.record_or_new(at(0), A, deep.as_ref(), &prefixes, 33, 100).is_none());
    assert!(table.record_or_new(at(0), A, deep.as_ref(), &prefixes, 32, 100).is_some());
    assert_eq!(table.len(), 1);
    // Long names in a small table evict each other; nothing leaks.
    for number in 0..50 {
        let (long, prefixes) = name(&format!("/{number}{}", "x".repeat(400)));
        assert!(table.record_or_new(at(0), A, long.as_ref(), &prefixes, 1, 100).is_some());
    }
    table.expire_owner(A);
    // Each insertion removes two of the expired ones.
    for number in 0..50 {
        let (short, prefixes) = name(&format!("/b{number}"));
        assert!(table.record_or_new(at(0), A, short.as_ref(), &prefixes, 1, 100).is_some());
    }
    assert!(table.len() <= 50 && table.names.in_use() <= 50, "{table:?}");
}

#[test]
fn record_rtt_matches_rfc_6298() {
    let ms = Duration::from_millis;
    let mut face = FaceRecord::new_zeroed();
    assert_eq!(
        (face.srtt(), face.rto(RTO_MIN), face.state()),
        (None, RTO_INITIAL, FaceState::Unmeasured)
    );
    face.record_rtt(at(0), ms(100));
    assert_eq!((face.srtt(), face.rto(RTO_MIN)), (Some(ms(100)), ms(300)));
    // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
    face.record_rtt(at(0), ms(180));
    assert_eq!((face.srtt(), face.rto(RTO_MIN)), (Some(ms(110)), ms(340)));
    (0..100).for_each(|_| face.record_rtt(at(0), ms(1)));
    assert_eq!(face.rto(RTO_MIN), RTO_MIN);
    face.record_rtt(at(0), Duration::MAX);
    assert_eq!(face.rto(RTO_MIN), RTO_MAX);
}

#[test]
fn check_timeout_counts_until_reply() {
    let mut face = FaceRecord::new_zeroed();
    for (round, state) in
        [FaceState::Unmeasured, FaceState::Unmeasured, FaceState::Failed].iter().enumerate()
    {
        let start = 2000 * round as u64;
        face.expect_reply(at(start), 5, RTO_MIN);
        face.expect_reply(at(start + 900), 6, RTO_MIN);
        face.check_timeout(at(start + 999), 3);
        face.clear_expected(6);
        face.check_timeout(at(start + 1000), 3);
        assert_eq!(face.state(), *state, "round {round}");
    }
    face.record_rtt(at(7000), Duration::from_millis(10));
    assert_eq!(face.state(), FaceState::Working);
    face.expect_reply(at(7000), 5, RTO_MIN);
    face.clear_expected(5);
    face.check_timeout(at(9000), 1);
    assert_eq!(face.state(), FaceState::Working);
    face.mark_failed();
    assert_eq!(face.state(), FaceState::Failed);
}

#[test]
fn face_or_new_full_replaces_least_useful() {
    let mut record = Record::new_zeroed();
    for number in 1..=FACES_MAX as u32 {
        record
            .face_or_new(at(u64::from(number)), FaceId::from_bits(number))
            .record_rtt(at(u64::from(number)), Duration::from_millis(1));
    }
    record.face_mut(FaceId::from_bits(5)).unwrap().mark_failed();
    record.face_or_new(at(20), FaceId::from_bits(100));
    assert!(record.face(FaceId::from_bits(5)).is_none(), "a failed face is replaced first");
    record.face_or_new(at(21), FaceId::from_bits(101));
    assert!(record.face(FaceId::from_bits(100)).is_none(), "then an unmeasured one");
    assert!(record.face(FaceId::NONE).is_none());
    record.refresh(at(104), 100, 3);
    let mut left: Vec<u32> = record.faces().map(|face| face.face().bits()).collect();
    left.sort_unstable();
    assert_eq!(left, [6, 7, 8, 101], "used within the last 100 ms");
}

#[derive(Clone, Debug)]
enum Step {
    Use { path: Vec<u8>, components: usize, owner: u8, lifetime_ms: u64 },
    Look { path: Vec<u8>, components: usize, owner: u8 },
    Longest { path: Vec<u8>, owner: u8 },
    ExpireOwner { owner: u8 },
    Pass { ms: u64 },
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    let path = || proptest::collection::vec(0..3u8, 0..5);
    prop_oneof![
        6 => (path(), 0..5usize, 0..2u8, 1..50u64)
            .prop_map(|(path, components, owner, lifetime_ms)| {
                Step::Use { path, components, owner, lifetime_ms }
            }),
        3 => (path(), 0..5usize, 0..2u8)
            .prop_map(|(path, components, owner)| Step::Look { path, components, owner }),
        3 => (path(), 0..2u8).prop_map(|(path, owner)| Step::Longest { path, owner }),
        1 => (0..2u8).prop_map(|owner| Step::ExpireOwner { owner }),
        3 => (1..30u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

/// A record of the model; `mark` is the value stored in it.
struct ModelRecord {
    owner: u8,
    expiry: u64,
    mark: u32,
}

fn hashed_name(path: &[u8]) -> (Name, PrefixHashes) {
    let name = path.iter().fold(Name::new(), |name, byte| name.with_generic([*byte]));
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    (name, prefixes)
}

fn live_mark(
    model: &BTreeMap<Vec<u8>, ModelRecord>,
    prefix: &[u8],
    owner: u8,
    now: u64,
) -> Option<u32> {
    let record = model.get(prefix)?;
    (record.expiry > now && record.owner == owner).then_some(record.mark)
}

proptest! {
    /// While there is space, the table equals a map of prefixes.
    #[test]
    fn measurements_any_operations_equals_model(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut table = Measurements::new(512);
        let mut model: BTreeMap<Vec<u8>, ModelRecord> = BTreeMap::new();
        let (mut now, mut marks) = (0, 0);
        for step in steps {
            match step {
                Step::Use { path, components, owner, lifetime_ms } => {
                    let (name, prefixes) = hashed_name(&path);
                    let record = table.record_or_new(
                        at(now),
                        StrategyId(owner),
                        name.as_ref(),
                        &prefixes,
                        components,
                        lifetime_ms,
                    );
                    if components > path.len() {
                        prop_assert!(record.is_none());
                        continue;
                    }
                    let record = record.unwrap();
                    let expected = model
                        .entry(path[..components].to_vec())
                        .or_insert(ModelRecord { owner, expiry: 0, mark: 0 });
                    if expected.expiry <= now || expected.owner != owner {
                        *expected = ModelRecord { owner, expiry: 0, mark: 0 };
                    }
                    prop_assert_eq!(record.cursor, expected.mark);
                    marks += 1;
                    expected.expiry = expected.expiry.max(now + lifetime_ms);
                    (record.cursor, expected.mark) = (marks, marks);
                }
                Step::Look { path, components, owner } => {
                    let (name, prefixes) = hashed_name(&path);
                    let got = table.record(
                        at(now),
                        StrategyId(owner),
                        name.as_ref(),
                        &prefixes,
                        components,
                    );
                    let wanted = path
                        .get(..components)
                        .and_then(|prefix| live_mark(&model, prefix, owner, now));
                    prop_assert_eq!(got.map(|record| record.cursor), wanted);
                }
                Step::Longest { path, owner } => {
                    let (name, prefixes) = hashed_name(&path);
                    let got = table.longest(at(now), StrategyId(owner), name.as_ref(), &prefixes);
                    let mut lengths = (0..=path.len()).rev();
                    let wanted =
                        lengths.find_map(|len| live_mark(&model, &path[..len], owner, now));
                    prop_assert_eq!(got.map(|record| record.cursor), wanted);
                }
                Step::ExpireOwner { owner } => {
                    table.expire_owner(StrategyId(owner));
                    let owned = model.values_mut().filter(|known| known.owner == owner);
                    owned.for_each(|known| known.expiry = known.expiry.min(now));
                }
                Step::Pass { ms } => now += ms,
            }
            let alive = model.values().filter(|known| known.expiry > now).count();
            prop_assert!(table.len() >= alive && table.len() <= model.len());
        }
    }

    /// However full, the table stays within its capacity and an insertion always succeeds.
    #[test]
    fn measurements_overloaded_stays_bounded(
        paths in proptest::collection::vec((0..200u32, 1..40u64, 1..120usize), 0..300),
    ) {
        let mut table = Measurements::new(8);
        let mut now = 0;
        for (number, lifetime_ms, len) in paths {
            let (name, prefixes) = name(&format!("/{number}{}", "y".repeat(len)));
            prop_assert!(
                table.record_or_new(at(now), A, name.as_ref(), &prefixes, 1, lifetime_ms).is_some()
            );
            prop_assert!(table.record(at(now), A, name.as_ref(), &prefixes, 1).is_some());
            prop_assert!(table.len() <= 8 && table.names.in_use() <= table.names.capacity());
            prop_assert_eq!(table.lengths[1] as usize, table.len());
            now += 3;
        }
    }
}
