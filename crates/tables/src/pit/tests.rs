use super::*;
use crate::FaceId;
use nw_name::{Component, ComponentType, Name};
use nw_wire::{NackReason, Token};

pub(super) const KEY: HashKey = HashKey::new([11, 22, 33, 44]);
const SHARD: u8 = 7;

/// Bytes that stand for an Interest: the table does not read them.
pub(super) fn wire_of(name: NameRef<'_>, len: usize) -> (Vec<u8>, (u16, u16), u16) {
    let mut wire = vec![5, 0, 7, 0];
    wire.extend_from_slice(name.as_bytes());
    let nonce_start = wire.len() as u16;
    wire.extend_from_slice(&[1, 2, 3, 4]);
    wire.resize(wire.len().max(len), 0xee);
    (wire, (4, name.as_bytes().len() as u16), nonce_start)
}

pub(super) fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

pub(super) fn with_digest(name: &Name, octet: u8) -> Name {
    name.clone().with(Component::new(ComponentType::IMPLICIT_DIGEST, &[octet; 32]).unwrap())
}

pub(super) fn deep(components: usize) -> Name {
    (0..components).fold(Name::new(), |name, at| name.with_generic([b'c', at as u8]))
}

pub(super) fn pit(config: PitConfig) -> Pit {
    Pit::new(KEY, SHARD, config)
}

pub(super) fn small() -> Pit {
    pit(PitConfig::for_entries(64))
}

/// Asks with CanBePrefix and MustBeFresh as given.
pub(super) fn insert_flags(
    pit: &mut Pit,
    name: &Name,
    flags: (bool, bool),
    len: usize,
) -> Result<(EntryRef, bool), PitFull> {
    let prefixes = Prefixes::of(&KEY, name.as_ref());
    let ask =
        Ask { name: name.as_ref(), prefixes: &prefixes, can_be_prefix: flags.0, must_be_fresh: flags.1 };
    let (wire, place, nonce_start) = wire_of(name.as_ref(), len);
    let found = pit.find(&ask);
    let inserted = pit.find_or_insert(&ask, &wire, place, nonce_start);
    if let Ok((entry, new)) = inserted {
        assert_eq!(found.is_none(), new);
        assert_eq!(pit.find(&ask), Some(entry));
    }
    inserted
}

pub(super) fn insert(pit: &mut Pit, name: &Name) -> EntryRef {
    insert_flags(pit, name, (false, false), 0).unwrap().0
}

pub(super) fn insert_prefix(pit: &mut Pit, name: &Name) -> Result<EntryRef, PitFull> {
    insert_flags(pit, name, (true, false), 0).map(|(entry, _)| entry)
}

pub(super) fn matches(pit: &Pit, name: &Name, token: Option<EntryRef>, digest: u8) -> Vec<EntryRef> {
    let (mut out, mut asked) = (Vec::new(), 0);
    let digest = || {
        asked += 1;
        [digest; 32]
    };
    pit.matches(name.as_ref(), &Prefixes::of(&KEY, name.as_ref()), token, digest, &mut out);
    assert!(asked <= 1);
    out
}

fn face(number: u64) -> FaceId {
    FaceId::from_number(number).unwrap()
}

fn asker(number: u64, token: &[u8]) -> InRecord {
    InRecord {
        face: face(number),
        nonce: number as u32 + 1,
        expiry: Instant::from_millis(4000 + number),
        token: Token::new(token).unwrap(),
    }
}

fn asked(number: u64) -> OutRecord {
    OutRecord {
        face: face(number),
        nonce: number as u32 + 2,
        sent: Instant::from_millis(number),
        expiry: Instant::from_millis(4000 + number),
        nack: None,
        retx_interval_ms: number as u16,
    }
}

/// All that is bounded, to see that a refusal takes nothing.
pub(super) fn usage(pit: &Pit) -> (usize, usize, usize, [usize; INTEREST_CLASSES]) {
    (pit.len(), pit.index.len(), pit.records_len(), pit.interests_len())
}

#[test]
fn an_entry_is_a_name_and_two_flags() {
    let mut pit = small();
    let name = name("/a/b");
    let mut entries = Vec::new();
    for flags in [(false, false), (false, true), (true, false), (true, true)] {
        let (entry, new) = insert_flags(&mut pit, &name, flags, 0).unwrap();
        assert!(new);
        assert_eq!(insert_flags(&mut pit, &name, flags, 0), Ok((entry, false)));
        assert_eq!((pit.can_be_prefix(entry), pit.must_be_fresh(entry)), flags);
        entries.push(entry);
    }
    entries.dedup();
    assert_eq!((entries.len(), pit.len()), (4, 4));
    assert_eq!(pit.entries().collect::<Vec<_>>(), entries);
    let other = insert(&mut pit, &self::name("/a/c"));
    assert!(!entries.contains(&other));
}

#[test]
fn the_interest_is_kept_whole_whatever_its_size() {
    let mut pit = small();
    let lens = [0, 64, 65, 128, 129, 512, 513, 2048, 2049, 8800, INTEREST_LEN_MAX];
    for (at, len) in lens.into_iter().enumerate() {
        let name = name("/kept").with_generic([at as u8]);
        let (entry, _) = insert_flags(&mut pit, &name, (false, false), len).unwrap();
        let (wire, place, nonce_start) = wire_of(name.as_ref(), len);
        assert_eq!(pit.interest(entry), wire);
        assert_eq!(pit.name(entry), name.as_ref());
        assert_eq!((pit.name_place(entry), pit.nonce_start(entry)), (place, nonce_start));
        assert_eq!(&pit.interest(entry)[usize::from(nonce_start)..][..4], [1, 2, 3, 4]);
        assert_eq!(pit.name_hash(entry), KEY.name(name.as_ref()));
    }
    assert_eq!(pit.interests_len(), [2, 2, 2, 3], "the first two stand in their entries' lines");
    let before = usage(&pit);
    let too_long = insert_flags(&mut pit, &name("/too-long"), (false, false), INTEREST_LEN_MAX + 1);
    assert_eq!(too_long, Err(PitFull::Table));
    assert_eq!(usage(&pit), before);
}

#[test]
fn a_removed_entry_is_found_no_more() {
    let mut pit = small();
    let name = name("/gone");
    let entry = insert(&mut pit, &name);
    pit.upsert_in(entry, asker(300, &[])).unwrap();
    pit.upsert_out(entry, asked(301)).unwrap();
    pit.set_expiry(entry, Instant::from_millis(10));
    assert!(pit.remove(entry));
    assert!(!pit.remove(entry));
    let again = insert(&mut pit, &name);
    assert_ne!(entry, again);

    assert!(!pit.contains(entry) && pit.interest(entry).is_empty() && pit.name(entry).is_empty());
    assert_eq!((pit.name_place(entry), pit.nonce_start(entry), pit.name_hash(entry)), ((0, 0), 0, 0));
    assert!(!pit.can_be_prefix(entry) && !pit.must_be_fresh(entry));
    assert_eq!(pit.upsert_in(entry, asker(300, &[])), Err(PitFull::Table));
    assert_eq!(pit.upsert_out(entry, asked(300)), Err(PitFull::Table));
    assert!(!pit.remove_in(entry, face(300)) && !pit.remove_out(entry, face(301)));
    assert!(!pit.update_out(entry, face(301), |_| panic!("nothing to change")));
    pit.set_expiry(entry, Instant::START);
    pit.set_satisfied(entry, Some(5));
    pit.set_retx_interval_ms(entry, 5);
    assert_eq!((pit.satisfied(entry), pit.retx_interval_ms(entry), pit.expiry(entry)), (None, 0, None));

    // The one that took its slot has none of its state.
    assert_eq!((pit.satisfied(again), pit.retx_interval_ms(again), pit.expiry(again)), (None, 0, None));
    assert_eq!((pit.in_records(again).count(), pit.out_records(again).count()), (0, 0));
    assert_eq!(pit.next_expiry(), None);
}

#[test]
fn tokens_lead_back_and_stale_ones_nowhere() {
    let mut pit = small();
    let mut stale = Vec::new();
    for round in 0..100 {
        let entry = insert(&mut pit, &name("/t").with_number(ComponentType::SEGMENT, round));
        let token = entry.token();
        assert_eq!(token[0], SHARD);
        assert_eq!(pit.by_token(&token), Some(entry));
        assert_eq!(EntryRef::from_token(&token), Some(entry));
        pit.remove(entry);
        stale.push(token);
        assert!(stale.iter().all(|token| pit.by_token(token).is_none()));
    }
    let largest = EntryRef { index: (1 << 26) - 1, generation: (1 << 14) - 1, shard: 255 };
    assert_eq!(largest.token(), [0xff; 6]);
    assert_eq!(EntryRef::from_token(&[0xff; 6]), Some(largest));
}

#[test]
fn garbage_tokens_of_any_length_find_nothing() {
    let mut pit = small();
    let name = name("/t");
    let entry = insert(&mut pit, &name);
    let token = entry.token();
    for len in 0..=40 {
        for octet in [0, 1, 7, 0x80, 0xff] {
            let garbage = vec![octet; len];
            assert_eq!(pit.by_token(&garbage), None);
            let Some(garbage) = Token::new(&garbage) else { continue };
            (0..4).for_each(|stage| _ = pit.prefetch_token(stage, &garbage));
        }
    }
    assert_eq!((pit.by_token(&token[..5]), pit.by_token(&[&token[..], &[0]].concat())), (None, None));
    for bit in 0..48 {
        let mut other = token;
        other[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(pit.by_token(&other), None, "bit {bit}");
    }
    (0..4).for_each(|stage| _ = pit.prefetch_token(stage, &Token::from_six(token)));
}

#[test]
fn generations_come_round_but_names_are_compared() {
    let mut pit = pit(PitConfig::for_entries(1));
    let first = insert(&mut pit, &name("/first"));
    for _ in 0..1 << 14 {
        let entry = pit.entries().next().unwrap();
        pit.remove(entry);
        insert(&mut pit, &name("/other"));
    }
    assert_eq!(pit.by_token(&first.token()), Some(first));
    assert_eq!(matches(&pit, &name("/first"), Some(first), 0), []);
    assert_eq!(matches(&pit, &name("/other"), None, 0), [first]);
}

#[test]
fn a_full_table_takes_nothing_and_loses_nothing() {
    let mut pit = pit(PitConfig { entries_max: 4, records_max: 2, interest_slots: [1, 1, 1, 0] });
    let mut entry = |at: u8| {
        let len = if at == 0 { 0 } else { 65 };
        insert_flags(&mut pit, &name("/n").with_generic([at]), (false, false), len).unwrap().0
    };
    let entries: Vec<EntryRef> = (0..4).map(&mut entry).collect();
    assert_eq!(pit.interests_len(), [1, 1, 1, 0]);
    let before = usage(&pit);
    assert_eq!(insert_flags(&mut pit, &name("/more"), (true, true), 0), Err(PitFull::Table));
    assert_eq!(usage(&pit), before);
    // Those that are there are found all the same.
    for (at, entry) in entries.iter().enumerate() {
        let known = insert_flags(&mut pit, &name("/n").with_generic([at as u8]), (false, false), 0);
        assert_eq!(known, Ok((*entry, false)));
    }
    assert!(pit.remove(entries[1]));
    insert(&mut pit, &name("/more"));
    assert_eq!((pit.len(), pit.capacity(), pit.is_empty()), (4, 4, false));
}

/// Whatever comes takes the place of something else until all are mixed: a new name nearly always has its place in the first bucket then.
#[test]
fn in_a_full_table_nearly_all_go_the_short_way() {
    const COUNT: usize = 20_000;
    // Keys of small numbers mix short names badly.
    let key = HashKey::new([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 5]);
    let mut pit = Pit::new(key, SHARD, PitConfig::for_entries(COUNT));
    let mut pending = std::collections::VecDeque::new();
    let mut long = 0;
    for number in 0..4 * COUNT {
        if pending.len() == COUNT {
            pit.remove(pending.pop_front().unwrap());
        }
        let name = Name::new().with_generic(number.to_string());
        let prefixes = Prefixes::of(&key, name.as_ref());
        long += usize::from(number >= COUNT && pit.index.vacancy(prefixes.key()).is_none());
        let ask =
            Ask { name: name.as_ref(), prefixes: &prefixes, can_be_prefix: false, must_be_fresh: false };
        let (wire, place, nonce_start) = wire_of(name.as_ref(), 0);
        pending.push_back(pit.find_or_insert(&ask, &wire, place, nonce_start).unwrap().0);
    }
    let share = long as f64 / (3 * COUNT) as f64;
    assert!(share < 0.002, "{share}");
}

#[test]
fn no_room_for_an_interest_takes_no_entry() {
    let mut pit = pit(PitConfig { entries_max: 8, records_max: 2, interest_slots: [1, 0, 0, 1] });
    for uri in ["/a", "/b"] {
        insert_flags(&mut pit, &name(uri), (false, false), 65).unwrap();
    }
    let before = usage(&pit);
    for flags in [(false, false), (true, false)] {
        assert_eq!(insert_flags(&mut pit, &name("/c"), flags, 65), Err(PitFull::Table));
        assert_eq!(usage(&pit), before);
        assert_eq!(matches(&pit, &name("/c/d"), None, 0), []);
    }
    insert(&mut pit, &name("/short"));
}

/// Names of one home in the index, each pending with and without digests, are more than the buckets that a search looks at have room for.
#[test]
fn no_room_in_the_index_takes_no_entry() {
    let mut pit = pit(PitConfig::for_entries(4096));
    let bits = |name: &Name| KEY.name(name.as_ref()) >> 36 & 0xfff;
    let crowd =
        (0_u32..).map(|n| Name::new().with_generic(n.to_be_bytes())).filter(|name| bits(name) == 0x555);
    let mut refused = 0;
    for name in crowd.take(crate::index::PROBES_MAX) {
        for octet in 0..DIGESTS_PER_NAME_MAX as u8 {
            let before = usage(&pit);
            match insert_flags(&mut pit, &with_digest(&name, octet), (false, false), 0) {
                Ok(_) => {}
                Err(full) => {
                    assert_eq!((full, usage(&pit)), (PitFull::Table, before));
                    refused += 1;
                }
            }
        }
        insert_flags(&mut pit, &name, (false, true), 0).ok();
    }
    assert!(refused > 0 && pit.len() < pit.capacity());
    while let Some(entry) = { pit.entries().next() } {
        assert!(pit.remove(entry));
    }
    assert_eq!(usage(&pit), (0, 0, 0, [0; INTEREST_CLASSES]));
}

#[test]
fn in_records_are_one_a_face() {
    let mut pit = small();
    let entry = insert(&mut pit, &name("/a"));
    let records = [asker(300, &[1; 8]), asker(301, &[2; 32]), asker(302, &[]), asker(303, &[4; 1])];
    for record in records {
        assert_eq!(pit.upsert_in(entry, record), Ok(true));
    }
    assert_eq!(pit.in_records(entry).collect::<Vec<_>>(), records);
    let changed = InRecord { nonce: 99, ..asker(302, &[3; 20]) };
    assert_eq!(pit.upsert_in(entry, changed), Ok(false));
    assert_eq!(pit.in_record(entry, face(302)), Some(changed));
    assert_eq!(pit.in_record(entry, face(304)), None);
    assert_eq!(pit.in_record(entry, FaceId::NONE), None);
    assert!(!pit.remove_in(entry, FaceId::NONE) && !pit.remove_in(entry, face(304)));
    // Removed from the middle, the end, the entry itself.
    for number in [302, 303, 300] {
        assert!(pit.remove_in(entry, face(number)));
        assert_eq!(pit.face_in_records(face(number)), 0);
    }
    assert_eq!(pit.in_records(entry).collect::<Vec<_>>(), [records[1]]);
    assert_eq!(pit.upsert_in(entry, records[0]), Ok(true));
    assert_eq!(pit.records_len(), 1);
    pit.remove(entry);
    assert_eq!(
        (pit.records_len(), pit.face_in_records(face(300)), pit.face_in_records(face(301))),
        (0, 0, 0)
    );
}

#[test]
fn a_token_may_outgrow_the_entry() {
    let mut pit = pit(PitConfig { entries_max: 4, records_max: 1, interest_slots: [4; 4] });
    let entry = insert(&mut pit, &name("/a"));
    pit.upsert_in(entry, asker(300, &[1; 8])).unwrap();
    assert_eq!(pit.upsert_in(entry, asker(300, &[2; 9])), Ok(false));
    assert_eq!(pit.in_records(entry).collect::<Vec<_>>(), [asker(300, &[2; 9])]);
    assert_eq!((pit.records_len(), pit.face_in_records(face(300))), (1, 1));
    // Now the store is full: another face's short token fits the entry, its long one does not fit anywhere.
    assert_eq!(pit.upsert_in(entry, asker(301, &[3; 8])), Ok(true));
    assert_eq!(pit.upsert_in(entry, asker(301, &[3; 9])), Err(PitFull::Table));
    assert_eq!(pit.in_record(entry, face(301)), Some(asker(301, &[3; 8])));
    assert_eq!(pit.upsert_in(entry, asker(300, &[])), Ok(false));
    assert_eq!(pit.in_record(entry, face(300)), Some(asker(300, &[])));
}

#[test]
fn out_records_are_one_a_face() {
    let mut pit = small();
    let entry = insert(&mut pit, &name("/a"));
    let records = [asked(300), asked(301), asked(302)];
    for record in records {
        assert_eq!(pit.upsert_out(entry, record), Ok(true));
    }
    assert_eq!(pit.out_records(entry).collect::<Vec<_>>(), records);
    for number in [300, 302] {
        for nack in [NackReason::None, NackReason::Congestion, NackReason::Duplicate, NackReason::NoRoute] {
            assert!(pit.update_out(entry, face(number), |record| record.nack = Some(nack)));
            assert_eq!(
                pit.out_record(entry, face(number)),
                Some(OutRecord { nack: Some(nack), ..asked(number) })
            );
        }
    }
    assert_eq!(pit.upsert_out(entry, asked(300)), Ok(false));
    assert_eq!(pit.out_record(entry, face(300)), Some(asked(300)));
    assert!(!pit.update_out(entry, face(999), |_| panic!("not there")));
    assert!(pit.remove_out(entry, face(301)) && !pit.remove_out(entry, face(301)));
    assert!(pit.remove_out(entry, face(300)) && pit.remove_out(entry, face(302)));
    assert_eq!((pit.out_records(entry).count(), pit.records_len()), (0, 0));
    assert_eq!(pit.out_record(entry, FaceId::NONE), None);
}

#[test]
fn full_records_change_nothing() {
    let mut pit = pit(PitConfig { entries_max: 4, records_max: 2, interest_slots: [4; 4] });
    let entry = insert(&mut pit, &name("/a"));
    for number in 300..302 {
        pit.upsert_in(entry, asker(number, &[])).unwrap();
        pit.upsert_out(entry, asked(number)).unwrap();
    }
    let before = usage(&pit);
    assert_eq!(pit.upsert_in(entry, asker(302, &[])), Err(PitFull::Table));
    assert_eq!(pit.upsert_out(entry, asked(302)), Err(PitFull::Table));
    assert_eq!(usage(&pit), before);
    assert_eq!((pit.face_in_records(face(302)), pit.face_out_records(face(302))), (0, 0));
    assert_eq!((pit.in_records(entry).count(), pit.out_records(entry).count()), (2, 2));
    let other = insert(&mut pit, &name("/b"));
    assert_eq!(pit.upsert_in(other, asker(302, &[])), Ok(true), "an entry's own record needs no store");
}

#[test]
fn records_of_one_entry_are_bounded() {
    let mut pit = pit(PitConfig { records_max: 4 * RECORDS_PER_ENTRY_MAX, ..PitConfig::for_entries(4) });
    let entry = insert(&mut pit, &name("/a"));
    for number in 0..=RECORDS_PER_ENTRY_MAX as u64 {
        assert_eq!(pit.upsert_in(entry, asker(300 + number, &[])), Ok(true));
        assert_eq!(pit.upsert_out(entry, asked(300 + number)), Ok(true));
    }
    assert_eq!(pit.upsert_in(entry, asker(1, &[])), Err(PitFull::Table));
    assert_eq!(pit.upsert_out(entry, asked(1)), Err(PitFull::Table));
    assert_eq!(pit.in_records(entry).count(), RECORDS_PER_ENTRY_MAX + 1);
}

#[test]
fn a_face_has_as_many_in_records_as_it_may() {
    let mut pit = small();
    pit.set_face_limit(Some(2));
    let entries: Vec<EntryRef> = (0..4).map(|at| insert(&mut pit, &name("/n").with_generic([at]))).collect();
    assert_eq!(pit.upsert_in(entries[0], asker(300, &[])), Ok(true));
    assert_eq!(pit.upsert_in(entries[1], asker(300, &[])), Ok(true));
    assert_eq!(pit.upsert_in(entries[2], asker(300, &[])), Err(PitFull::Face));
    assert_eq!(pit.upsert_in(entries[2], asker(301, &[])), Ok(true));
    // Renewing one is no new one, even with a token that does not fit the entry.
    assert_eq!(pit.upsert_in(entries[1], asker(300, &[9; 30])), Ok(false));
    assert_eq!(pit.face_in_records(face(300)), 2);
    pit.remove(entries[0]);
    assert_eq!(pit.upsert_in(entries[2], asker(300, &[])), Ok(true));
    pit.set_face_limit(None);
    assert_eq!(pit.upsert_in(entries[3], asker(300, &[])), Ok(true));
}

#[test]
fn entries_expire_in_time_and_stay_readable() {
    let mut pit = small();
    assert_eq!(pit.next_expiry(), None);
    let (early, late) = (insert(&mut pit, &name("/early")), insert(&mut pit, &name("/late")));
    pit.set_expiry(early, Instant::from_millis(4000));
    pit.set_expiry(late, Instant::from_millis(8000));
    assert_eq!(pit.expiry(early), Some(Instant::from_millis(4000)));
    assert_eq!(pit.pop_expired(Instant::from_millis(3999)), None);
    let wake = pit.next_expiry().unwrap();
    assert!(wake >= Instant::from_millis(4000) && wake < Instant::from_millis(4005));
    assert_eq!(pit.pop_expired(wake), Some(early));
    assert_eq!(pit.name(early), name("/early").as_ref());
    assert_eq!((pit.pop_expired(wake), pit.expiry(early)), (None, None));
    // It may be armed again.
    pit.set_expiry(early, Instant::from_millis(9000));
    assert_eq!(pit.pop_expired(Instant::from_millis(8010)), Some(late));
    pit.remove(late);
    pit.expire_now(early);
    assert!(pit.next_expiry().unwrap() <= Instant::from_millis(8010));
    assert_eq!(pit.pop_expired(Instant::from_millis(8010)), Some(early));
    pit.remove(early);
    assert_eq!((pit.next_expiry(), pit.len()), (None, 0));
}

#[test]
fn an_ended_face_leaves_nothing_behind() {
    let mut pit = small();
    let entries: Vec<EntryRef> = (0..6).map(|at| insert(&mut pit, &name("/n").with_generic([at]))).collect();
    for (at, entry) in entries.iter().enumerate() {
        pit.upsert_in(*entry, asker(300, &[])).unwrap();
        if at % 2 == 0 {
            pit.upsert_in(*entry, asker(301, &[])).unwrap();
        }
        if at % 3 == 0 {
            pit.upsert_out(*entry, asked(302)).unwrap();
            pit.upsert_out(*entry, asked(301)).unwrap();
        }
    }
    let mut shown = Vec::new();
    pit.remove_face(face(301), &mut |entry| shown.push(entry));
    assert_eq!(shown, [0, 2, 3, 4].map(|at: usize| entries[at]));
    assert_eq!((pit.face_in_records(face(301)), pit.face_out_records(face(301))), (0, 0));
    assert_eq!(entries.iter().map(|entry| pit.in_records(*entry).count()).sum::<usize>(), 6);
    // In parts, and again when there is nothing left.
    let (mut scan, mut parts, mut seen) = (FaceScan::default(), 1, 0);
    while !pit.remove_face_part(face(300), &mut scan, 2, &mut |_| seen += 1) {
        parts += 1;
    }
    assert_eq!((seen, parts), (6, 3));
    pit.remove_face(face(300), &mut |_| panic!("nothing left"));
    assert_eq!(pit.len(), 6);
}

#[test]
fn state_of_strategies_is_kept() {
    let mut pit = small();
    let entry = insert(&mut pit, &name("/a"));
    pit.set_retx_interval_ms(entry, 250);
    pit.set_satisfied(entry, Some(1000));
    assert_eq!((pit.retx_interval_ms(entry), pit.satisfied(entry)), (250, Some(1000)));
    pit.set_satisfied(entry, None);
    assert_eq!(pit.satisfied(entry), None);
}

#[test]
fn prefetching_changes_nothing_and_never_fails() {
    let mut pit = small();
    let name = name("/a/b");
    let prefixes = Prefixes::of(&KEY, name.as_ref());
    (0..5).for_each(|stage| _ = pit.prefetch(stage, &prefixes));
    let entry = insert(&mut pit, &name);
    pit.set_expiry(entry, Instant::from_millis(1));
    (0..5).for_each(|stage| _ = pit.prefetch(stage, &prefixes));
    (0..5).for_each(|stage| _ = pit.prefetch_token(stage, &Token::from_six(entry.token())));
    assert_eq!((pit.len(), format!("{pit:?}").as_str()), (1, "Pit(1 of 64 entries)"));
}

#[test]
fn sizes_out_of_range_are_brought_back() {
    let mut pit = pit(PitConfig { entries_max: 0, records_max: 0, interest_slots: [0; 4] });
    assert_eq!(pit.capacity(), 1);
    insert(&mut pit, &name("/a"));
    assert_eq!(insert_flags(&mut pit, &name("/b"), (false, false), 0), Err(PitFull::Table));
    assert!(pit.memory_bytes() > 0);
}
