//! The table against a naive map, and the estimates against RFC 6298 by hand.

use super::*;
use crate::FaceId;
use core::time::Duration;
use nw_name::{HashKey, Name};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);
const A: StrategyId = StrategyId(1);
const B: StrategyId = StrategyId(2);

fn name(uri: &str) -> (Name, Prefixes) {
    let name: Name = uri.parse().unwrap();
    let prefixes = Prefixes::of(&KEY, name.as_ref());
    (name, prefixes)
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

#[test]
fn an_entry_is_whole_cache_lines() {
    assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (384, 64));
}

#[test]
fn lives_from_its_last_use() {
    let mut table = Measurements::new(4);
    let (name, prefixes) = name("/a/b/c");
    table.record_or_new(at(0), A, name.as_ref(), &prefixes, 2, 100).unwrap().cursor = 7;
    assert_eq!(table.record(at(99), A, name.as_ref(), &prefixes, 2).unwrap().cursor, 7);
    assert!(table.record(at(99), A, name.as_ref(), &prefixes, 1).is_none());
    assert!(table.record(at(99), B, name.as_ref(), &prefixes, 2).is_none(), "another's");
    table.record_or_new(at(99), A, name.as_ref(), &prefixes, 2, 100).unwrap();
    assert_eq!(table.record(at(198), A, name.as_ref(), &prefixes, 2).unwrap().cursor, 7);
    assert!(table.record(at(199), A, name.as_ref(), &prefixes, 2).is_none(), "too late");
    assert_eq!(table.record_or_new(at(199), A, name.as_ref(), &prefixes, 2, 100).unwrap().cursor, 0);
    table.record_or_new(at(199), A, name.as_ref(), &prefixes, 2, 100).unwrap().cursor = 8;
    assert_eq!(table.record_or_new(at(199), B, name.as_ref(), &prefixes, 2, 1).unwrap().cursor, 0);
    table.forget(B);
    assert!(table.record(at(199), B, name.as_ref(), &prefixes, 2).is_none());
    assert_eq!(table.record_or_new(at(199), B, name.as_ref(), &prefixes, 2, 1).unwrap().cursor, 0);
}

#[test]
fn longest_prefix_of_its_owner() {
    let mut table = Measurements::new(8);
    let (name, prefixes) = name("/a/b/c/d");
    for (components, owner) in [(0, A), (2, A), (3, B)] {
        table.record_or_new(at(0), owner, name.as_ref(), &prefixes, components, 100).unwrap().cursor =
            components as u32 + 1;
    }
    assert_eq!(table.longest(at(1), A, name.as_ref(), &prefixes).unwrap().cursor, 3);
    assert_eq!(table.longest(at(1), B, name.as_ref(), &prefixes).unwrap().cursor, 4);
    let (other, others) = super::tests::name("/a/x");
    assert_eq!(table.longest(at(1), A, other.as_ref(), &others).unwrap().cursor, 1);
    assert!(table.longest(at(1), B, other.as_ref(), &others).is_none());
}

#[test]
fn a_full_table_gives_up_what_ends_first() {
    let mut table = Measurements::new(16);
    for number in 0..16u64 {
        let (name, prefixes) = name(&format!("/{number}"));
        table.record_or_new(at(0), A, name.as_ref(), &prefixes, 1, 1000 + number).unwrap();
    }
    let (name, prefixes) = name("/new");
    table.record_or_new(at(1), A, name.as_ref(), &prefixes, 1, 1000).unwrap();
    assert_eq!(table.len(), 16);
    let (first, prefixes) = super::tests::name("/0");
    assert!(table.record(at(1), A, first.as_ref(), &prefixes, 1).is_none(), "it ended first");
}

#[test]
fn names_too_long_are_not_measured() {
    let mut table = Measurements::new(4);
    let (long, prefixes) = name(&format!("/{}", "x".repeat(PREFIX_LEN_MAX)));
    assert!(table.record_or_new(at(0), A, long.as_ref(), &prefixes, 1, 100).is_none());
    let (deep, prefixes) = name(&"/x".repeat(40));
    assert!(table.record_or_new(at(0), A, deep.as_ref(), &prefixes, 33, 100).is_none());
    assert!(table.record_or_new(at(0), A, deep.as_ref(), &prefixes, 32, 100).is_some());
    assert_eq!(table.len(), 1);
    // Long names in a small table push one another out; nothing is lost.
    for number in 0..50 {
        let (long, prefixes) = name(&format!("/{number}{}", "x".repeat(400)));
        assert!(table.record_or_new(at(0), A, long.as_ref(), &prefixes, 1, 100).is_some());
    }
    table.forget(A);
    // Each new one takes two of the forgotten away.
    for number in 0..50 {
        let (short, prefixes) = name(&format!("/b{number}"));
        assert!(table.record_or_new(at(0), A, short.as_ref(), &prefixes, 1, 100).is_some());
    }
    assert!(table.len() <= 50 && table.names.in_use() <= 50, "{table:?}");
}

#[test]
fn estimates_as_the_rfc_has_them() {
    let ms = Duration::from_millis;
    let mut face = FaceRecord::new_zeroed();
    assert_eq!((face.srtt(), face.rto(RTO_MIN), face.state()), (None, RTO_INITIAL, FaceState::Unmeasured));
    face.measured(at(0), ms(100));
    assert_eq!((face.srtt(), face.rto(RTO_MIN)), (Some(ms(100)), ms(300)));
    // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
    face.measured(at(0), ms(180));
    assert_eq!((face.srtt(), face.rto(RTO_MIN)), (Some(ms(110)), ms(340)));
    (0..100).for_each(|_| face.measured(at(0), ms(1)));
    assert_eq!(face.rto(RTO_MIN), RTO_MIN);
    face.measured(at(0), Duration::MAX);
    assert_eq!(face.rto(RTO_MIN), RTO_MAX);
}

#[test]
fn silence_is_noticed_in_time_and_ends_with_an_answer() {
    let mut face = FaceRecord::new_zeroed();
    for (round, state) in [FaceState::Unmeasured, FaceState::Unmeasured, FaceState::Failed].iter().enumerate()
    {
        let start = 2000 * round as u64;
        face.sent(at(start), 5, RTO_MIN);
        face.sent(at(start + 900), 6, RTO_MIN);
        face.notice_silence(at(start + 999), 3);
        face.answered(6);
        face.notice_silence(at(start + 1000), 3);
        assert_eq!(face.state(), *state, "round {round}");
    }
    face.measured(at(7000), Duration::from_millis(10));
    assert_eq!(face.state(), FaceState::Working);
    face.sent(at(7000), 5, RTO_MIN);
    face.answered(5);
    face.notice_silence(at(9000), 1);
    assert_eq!(face.state(), FaceState::Working);
    face.refused();
    assert_eq!(face.state(), FaceState::Failed);
}

#[test]
fn the_least_useful_face_makes_room() {
    let mut record = Record::new_zeroed();
    for number in 1..=FACES_MAX as u32 {
        record
            .face_or_new(at(u64::from(number)), FaceId::from_bits(number))
            .measured(at(u64::from(number)), Duration::from_millis(1));
    }
    record.face_mut(FaceId::from_bits(5)).unwrap().refused();
    record.face_or_new(at(20), FaceId::from_bits(100));
    assert!(record.face(FaceId::from_bits(5)).is_none(), "it had failed");
    record.face_or_new(at(21), FaceId::from_bits(101));
    assert!(record.face(FaceId::from_bits(100)).is_none(), "it was not measured");
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
    Forget { owner: u8 },
    Pass { ms: u64 },
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    let path = || proptest::collection::vec(0..3u8, 0..5);
    prop_oneof![
        6 => (path(), 0..5usize, 0..2u8, 1..50u64)
            .prop_map(|(path, components, owner, lifetime_ms)| Step::Use { path, components, owner, lifetime_ms }),
        3 => (path(), 0..5usize, 0..2u8).prop_map(|(path, components, owner)| Step::Look { path, components, owner }),
        3 => (path(), 0..2u8).prop_map(|(path, owner)| Step::Longest { path, owner }),
        1 => (0..2u8).prop_map(|owner| Step::Forget { owner }),
        3 => (1..30u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

struct Remembered {
    owner: u8,
    expiry: u64,
    mark: u32,
}

proptest! {
    /// While there is room, the table says what a map of prefixes says.
    #[test]
    fn is_a_map_that_expires(steps in proptest::collection::vec(step(), 0..200)) {
        let mut table = Measurements::new(512);
        let mut model: BTreeMap<Vec<u8>, Remembered> = BTreeMap::new();
        let (mut now, mut marks) = (0, 0);
        for step in steps {
            let of = |path: &[u8]| {
                let name = path.iter().fold(Name::new(), |name, octet| name.with_generic([*octet]));
                let prefixes = Prefixes::of(&KEY, name.as_ref());
                (name, prefixes)
            };
            match step {
                Step::Use { path, components, owner, lifetime_ms } => {
                    let (name, prefixes) = of(&path);
                    let record =
                        table.record_or_new(at(now), StrategyId(owner), name.as_ref(), &prefixes, components, lifetime_ms);
                    if components > path.len() {
                        prop_assert!(record.is_none());
                        continue;
                    }
                    let record = record.unwrap();
                    let known = model.entry(path[..components].to_vec())
                        .or_insert(Remembered { owner, expiry: 0, mark: 0 });
                    if known.expiry <= now || known.owner != owner {
                        *known = Remembered { owner, expiry: 0, mark: 0 };
                    }
                    prop_assert_eq!(record.cursor, known.mark);
                    marks += 1;
                    known.expiry = known.expiry.max(now + lifetime_ms);
                    (record.cursor, known.mark) = (marks, marks);
                }
                Step::Look { path, components, owner } => {
                    let (name, prefixes) = of(&path);
                    let got = table.record(at(now), StrategyId(owner), name.as_ref(), &prefixes, components);
                    let wanted = path.get(..components).and_then(|prefix| model.get(prefix))
                        .filter(|known| known.expiry > now && known.owner == owner);
                    prop_assert_eq!(got.map(|record| record.cursor), wanted.map(|known| known.mark));
                }
                Step::Longest { path, owner } => {
                    let (name, prefixes) = of(&path);
                    let got = table.longest(at(now), StrategyId(owner), name.as_ref(), &prefixes);
                    let wanted = (0..=path.len()).rev().find_map(|len| {
                        model.get(&path[..len]).filter(|known| known.expiry > now && known.owner == owner)
                    });
                    prop_assert_eq!(got.map(|record| record.cursor), wanted.map(|known| known.mark));
                }
                Step::Forget { owner } => {
                    table.forget(StrategyId(owner));
                    let of = model.values_mut().filter(|known| known.owner == owner);
                    of.for_each(|known| known.expiry = known.expiry.min(now));
                }
                Step::Pass { ms } => now += ms,
            }
            let alive = model.values().filter(|known| known.expiry > now).count();
            prop_assert!(table.len() >= alive && table.len() <= model.len());
        }
    }

    /// However full, it stays within its size and always serves the one who asks.
    #[test]
    fn stays_within_its_size(paths in proptest::collection::vec((0..200u32, 1..40u64, 1..120usize), 0..300)) {
        let mut table = Measurements::new(8);
        let mut now = 0;
        for (number, lifetime_ms, len) in paths {
            let (name, prefixes) = name(&format!("/{number}{}", "y".repeat(len)));
            prop_assert!(table.record_or_new(at(now), A, name.as_ref(), &prefixes, 1, lifetime_ms).is_some());
            prop_assert!(table.record(at(now), A, name.as_ref(), &prefixes, 1).is_some());
            prop_assert!(table.len() <= 8 && table.names.in_use() <= table.names.capacity());
            prop_assert_eq!(table.lengths[1] as usize, table.len());
            now += 3;
        }
    }
}
