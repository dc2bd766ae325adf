//! Tests of the PIT: entries, tokens, records, limits, timers. Their helpers serve the other tests
//! too.

use super::*;
use crate::test_util::KEY;
use crate::{FaceId, Scope};
use nw_name::{Component, ComponentType, Name};
use nw_wire::{NackReason, Token};

const SHARD: u8 = 7;

/// A stand-in for an Interest; the table does not parse it.
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

pub(super) fn with_digest(name: &Name, byte: u8) -> Name {
    name.clone().with(Component::new(ComponentType::IMPLICIT_DIGEST, &[byte; 32]).unwrap())
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

/// Inserts with these values of CanBePrefix and MustBeFresh.
pub(super) fn insert_flags(
    pit: &mut Pit,
    name: &Name,
    flags: (bool, bool),
    len: usize,
) -> Result<(EntryRef, bool), PitFull> {
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    let key = InterestKey {
        name: name.as_ref(),
        prefixes: &prefixes,
        can_be_prefix: flags.0,
        must_be_fresh: flags.1,
    };
    let (wire, name_span, nonce_start) = wire_of(name.as_ref(), len);
    let found = pit.find(&key);
    let inserted = pit.get_or_insert_bare(&key, &wire, name_span, nonce_start);
    if let Ok((entry, new)) = inserted {
        assert_eq!(found.is_none(), new);
        assert_eq!(pit.find(&key), Some(entry));
    }
    inserted
}

pub(super) fn insert(pit: &mut Pit, name: &Name) -> EntryRef {
    insert_flags(pit, name, (false, false), 0).unwrap().0
}

pub(super) fn insert_prefix(pit: &mut Pit, name: &Name) -> Result<EntryRef, PitFull> {
    insert_flags(pit, name, (true, false), 0).map(|(entry, _)| entry)
}

pub(super) fn matches(
    pit: &Pit,
    name: &Name,
    token: Option<EntryRef>,
    digest: u8,
) -> Vec<EntryRef> {
    let (mut out, mut digest_calls) = (Vec::new(), 0);
    let digest = || {
        digest_calls += 1;
        [digest; 32]
    };
    pit.matches(name.as_ref(), &PrefixHashes::of(&KEY, name.as_ref()), token, digest, &mut out);
    assert!(digest_calls <= 1);
    out
}

fn face(number: u64) -> FaceId {
    FaceId::from_number(number).unwrap()
}

fn downstream(number: u64, token: &[u8]) -> InRecord {
    InRecord {
        face: face(number),
        nonce: number as u32 + 1,
        expiry: Timestamp::from_millis(4000 + number),
        token: Token::new(token).unwrap(),
    }
}

fn upstream(number: u64) -> OutRecord {
    OutRecord {
        face: face(number),
        nonce: number as u32 + 2,
        sent: Timestamp::from_millis(number),
        expiry: Timestamp::from_millis(4000 + number),
        nack: None,
        retx_interval_ms: number as u16,
    }
}

/// All bounded resources, to see that a failed insertion uses none.
pub(super) fn usage(pit: &Pit) -> (usize, usize, usize, [usize; INTEREST_CLASSES]) {
    (pit.len(), pit.index.len(), pit.records_len(), pit.interests_len())
}

#[test]
fn pit_same_name_other_flags_is_other_entry() {
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
fn pit_interest_any_size_is_stored_whole() {
    let mut pit = small();
    let lens = [0, 64, 65, 128, 129, 512, 513, 2048, 2049, 8800, INTEREST_LEN_MAX];
    for (at, len) in lens.into_iter().enumerate() {
        let name = name("/kept").with_generic([at as u8]);
        let (entry, _) = insert_flags(&mut pit, &name, (false, false), len).unwrap();
        let (wire, name_span, nonce_start) = wire_of(name.as_ref(), len);
        assert_eq!(pit.interest(entry), wire);
        assert_eq!(pit.name(entry), name.as_ref());
        assert_eq!((pit.name_span(entry), pit.nonce_start(entry)), (name_span, nonce_start));
        assert_eq!(&pit.interest(entry)[usize::from(nonce_start)..][..4], [1, 2, 3, 4]);
        assert_eq!(pit.name_hash(entry), KEY.name(name.as_ref()));
    }
    assert_eq!(pit.interests_len(), [2, 2, 2, 3], "the first two are in their entries' own lines");
    let before = usage(&pit);
    let too_long = insert_flags(&mut pit, &name("/too-long"), (false, false), INTEREST_LEN_MAX + 1);
    assert_eq!(too_long, Err(PitFull::Table));
    assert_eq!(usage(&pit), before);
}

#[test]
fn pit_removed_entry_is_not_found() {
    let mut pit = small();
    let name = name("/removed");
    let entry = insert(&mut pit, &name);
    pit.upsert_in(entry, downstream(300, &[])).unwrap();
    pit.upsert_out(entry, upstream(301)).unwrap();
    pit.set_expiry(entry, Timestamp::from_millis(10));
    assert!(pit.remove(entry));
    assert!(!pit.remove(entry));
    let again = insert(&mut pit, &name);
    assert_ne!(entry, again);

    assert!(!pit.contains(entry) && pit.interest(entry).is_empty() && pit.name(entry).is_empty());
    assert_eq!(
        (pit.name_span(entry), pit.nonce_start(entry), pit.name_hash(entry)),
        ((0, 0), 0, 0)
    );
    assert!(!pit.can_be_prefix(entry) && !pit.must_be_fresh(entry));
    assert_eq!(pit.upsert_in(entry, downstream(300, &[])), Err(PitFull::Table));
    assert_eq!(pit.upsert_out(entry, upstream(300)), Err(PitFull::Table));
    assert!(!pit.remove_in(entry, face(300)) && !pit.remove_out(entry, face(301)));
    assert!(!pit.update_out(entry, face(301), |_| panic!("nothing to change")));
    pit.set_expiry(entry, Timestamp::START);
    pit.set_satisfied(entry, Some(5));
    pit.set_retx_interval_ms(entry, 5);
    assert_eq!(
        (pit.satisfied(entry), pit.retx_interval_ms(entry), pit.expiry(entry)),
        (None, 0, None)
    );

    // The entry in the reused slot has none of the old state.
    assert_eq!(
        (pit.satisfied(again), pit.retx_interval_ms(again), pit.expiry(again)),
        (None, 0, None)
    );
    assert_eq!((pit.in_records(again).count(), pit.out_records(again).count()), (0, 0));
    assert_eq!(pit.next_expiry(), None);
}

#[test]
fn token_stale_finds_nothing() {
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
fn token_garbage_finds_nothing() {
    let mut pit = small();
    let name = name("/t");
    let entry = insert(&mut pit, &name);
    let token = entry.token();
    for len in 0..=40 {
        for byte in [0, 1, 7, 0x80, 0xff] {
            let garbage = vec![byte; len];
            assert_eq!(pit.by_token(&garbage), None);
            let Some(garbage) = Token::new(&garbage) else { continue };
            (0..4).for_each(|stage| _ = pit.prefetch_token(stage, &garbage));
        }
    }
    assert_eq!(
        (pit.by_token(&token[..5]), pit.by_token(&[&token[..], &[0]].concat())),
        (None, None)
    );
    for bit in 0..48 {
        let mut other = token;
        other[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(pit.by_token(&other), None, "bit {bit}");
    }
    (0..4).for_each(|stage| _ = pit.prefetch_token(stage, &Token::from_six(token)));
}

#[test]
fn token_wrapped_generation_names_are_compared() {
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
fn pit_full_insert_changes_nothing() {
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
    // The existing entries are found all the same.
    for (at, entry) in entries.iter().enumerate() {
        let known = insert_flags(&mut pit, &name("/n").with_generic([at as u8]), (false, false), 0);
        assert_eq!(known, Ok((*entry, false)));
    }
    assert!(pit.remove(entries[1]));
    insert(&mut pit, &name("/more"));
    assert_eq!((pit.len(), pit.capacity(), pit.is_empty()), (4, 4, false));
}

/// After many replacements in a full table, nearly every insertion still takes the fast path.
#[test]
fn pit_full_most_inserts_are_fast() {
    const COUNT: usize = 20_000;
    let mut pit = Pit::new(KEY, SHARD, PitConfig::for_entries(COUNT));
    let mut pending = std::collections::VecDeque::new();
    let mut slow = 0;
    for number in 0..4 * COUNT {
        if pending.len() == COUNT {
            pit.remove(pending.pop_front().unwrap());
        }
        let name = Name::new().with_generic(number.to_string());
        let prefixes = PrefixHashes::of(&KEY, name.as_ref());
        slow += usize::from(
            number >= COUNT && pit.index.vacant_entry(prefixes.lookup_hash()).is_none(),
        );
        let key = InterestKey {
            name: name.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: false,
            must_be_fresh: false,
        };
        let (wire, name_span, nonce_start) = wire_of(name.as_ref(), 0);
        pending.push_back(pit.get_or_insert_bare(&key, &wire, name_span, nonce_start).unwrap().0);
    }
    let share = slow as f64 / (3 * COUNT) as f64;
    assert!(share < 0.002, "{share}");
}

#[test]
fn pit_interest_slots_exhausted_insert_changes_nothing() {
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

/// More names with one home bucket, each with and without digests, than a search visits buckets
/// for.
#[test]
fn pit_index_buckets_full_insert_changes_nothing() {
    let mut pit = pit(PitConfig::for_entries(4096));
    let bits = |name: &Name| KEY.name(name.as_ref()) >> 36 & 0xfff;
    let crowd = (0_u32..)
        .map(|n| Name::new().with_generic(n.to_be_bytes()))
        .filter(|name| bits(name) == 0x555);
    let mut refused = 0;
    for name in crowd.take(crate::index::PROBES_MAX) {
        for byte in 0..DIGESTS_PER_NAME_MAX as u8 {
            let before = usage(&pit);
            match insert_flags(&mut pit, &with_digest(&name, byte), (false, false), 0) {
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
fn in_record_same_face_is_replaced() {
    let mut pit = small();
    let entry = insert(&mut pit, &name("/a"));
    let records = [
        downstream(300, &[1; 8]),
        downstream(301, &[2; 32]),
        downstream(302, &[]),
        downstream(303, &[4; 1]),
    ];
    for record in records {
        assert_eq!(pit.upsert_in(entry, record), Ok(true));
    }
    assert_eq!(pit.in_records(entry).collect::<Vec<_>>(), records);
    let changed = InRecord { nonce: 99, ..downstream(302, &[3; 20]) };
    assert_eq!(pit.upsert_in(entry, changed), Ok(false));
    assert_eq!(pit.in_record(entry, face(302)), Some(changed));
    assert_eq!(pit.in_record(entry, face(304)), None);
    assert_eq!(pit.in_record(entry, FaceId::NONE), None);
    assert!(!pit.remove_in(entry, FaceId::NONE) && !pit.remove_in(entry, face(304)));
    // From the middle, the end, and the inline record.
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
fn in_record_long_token_moves_to_chain() {
    let mut pit = pit(PitConfig { entries_max: 4, records_max: 1, interest_slots: [4; 4] });
    let entry = insert(&mut pit, &name("/a"));
    pit.upsert_in(entry, downstream(300, &[1; 8])).unwrap();
    assert_eq!(pit.upsert_in(entry, downstream(300, &[2; 9])), Ok(false));
    assert_eq!(pit.in_records(entry).collect::<Vec<_>>(), [downstream(300, &[2; 9])]);
    assert_eq!((pit.records_len(), pit.face_in_records(face(300))), (1, 1));
    // The store is full: another face's short token fits into the entry, its long one does not fit
    // anywhere.
    assert_eq!(pit.upsert_in(entry, downstream(301, &[3; 8])), Ok(true));
    assert_eq!(pit.upsert_in(entry, downstream(301, &[3; 9])), Err(PitFull::Table));
    assert_eq!(pit.in_record(entry, face(301)), Some(downstream(301, &[3; 8])));
    assert_eq!(pit.upsert_in(entry, downstream(300, &[])), Ok(false));
    assert_eq!(pit.in_record(entry, face(300)), Some(downstream(300, &[])));
}

#[test]
fn out_record_same_face_is_replaced() {
    let mut pit = small();
    let entry = insert(&mut pit, &name("/a"));
    let records = [upstream(300), upstream(301), upstream(302)];
    for record in records {
        assert_eq!(pit.upsert_out(entry, record), Ok(true));
    }
    assert_eq!(pit.out_records(entry).collect::<Vec<_>>(), records);
    for number in [300, 302] {
        for nack in
            [NackReason::None, NackReason::Congestion, NackReason::Duplicate, NackReason::NoRoute]
        {
            assert!(pit.update_out(entry, face(number), |record| record.nack = Some(nack)));
            assert_eq!(
                pit.out_record(entry, face(number)),
                Some(OutRecord { nack: Some(nack), ..upstream(number) })
            );
        }
    }
    assert_eq!(pit.upsert_out(entry, upstream(300)), Ok(false));
    assert_eq!(pit.out_record(entry, face(300)), Some(upstream(300)));
    assert!(!pit.update_out(entry, face(999), |_| panic!("not there")));
    assert!(pit.remove_out(entry, face(301)) && !pit.remove_out(entry, face(301)));
    assert!(pit.remove_out(entry, face(300)) && pit.remove_out(entry, face(302)));
    assert_eq!((pit.out_records(entry).count(), pit.records_len()), (0, 0));
    assert_eq!(pit.out_record(entry, FaceId::NONE), None);
}

#[test]
fn record_store_full_upsert_changes_nothing() {
    let mut pit = pit(PitConfig { entries_max: 4, records_max: 2, interest_slots: [4; 4] });
    let entry = insert(&mut pit, &name("/a"));
    for number in 300..302 {
        pit.upsert_in(entry, downstream(number, &[])).unwrap();
        pit.upsert_out(entry, upstream(number)).unwrap();
    }
    let before = usage(&pit);
    assert_eq!(pit.upsert_in(entry, downstream(302, &[])), Err(PitFull::Table));
    assert_eq!(pit.upsert_out(entry, upstream(302)), Err(PitFull::Table));
    assert_eq!(usage(&pit), before);
    assert_eq!((pit.face_in_records(face(302)), pit.face_out_records(face(302))), (0, 0));
    assert_eq!((pit.in_records(entry).count(), pit.out_records(entry).count()), (2, 2));
    let other = insert(&mut pit, &name("/b"));
    assert_eq!(
        pit.upsert_in(other, downstream(302, &[])),
        Ok(true),
        "an inline record needs no space in the store"
    );
}

#[test]
fn record_chain_full_returns_error() {
    let mut pit =
        pit(PitConfig { records_max: 4 * RECORDS_PER_ENTRY_MAX, ..PitConfig::for_entries(4) });
    let entry = insert(&mut pit, &name("/a"));
    for number in 0..=RECORDS_PER_ENTRY_MAX as u64 {
        assert_eq!(pit.upsert_in(entry, downstream(300 + number, &[])), Ok(true));
        assert_eq!(pit.upsert_out(entry, upstream(300 + number)), Ok(true));
    }
    assert_eq!(pit.upsert_in(entry, downstream(1, &[])), Err(PitFull::Table));
    assert_eq!(pit.upsert_out(entry, upstream(1)), Err(PitFull::Table));
    assert_eq!(pit.in_records(entry).count(), RECORDS_PER_ENTRY_MAX + 1);
}

#[test]
fn face_limit_reached_returns_face_full() {
    let mut pit = small();
    pit.set_face_limit(Some(2));
    let entries: Vec<EntryRef> =
        (0..4).map(|at| insert(&mut pit, &name("/n").with_generic([at]))).collect();
    assert_eq!(pit.upsert_in(entries[0], downstream(300, &[])), Ok(true));
    assert_eq!(pit.upsert_in(entries[1], downstream(300, &[])), Ok(true));
    assert_eq!(pit.upsert_in(entries[2], downstream(300, &[])), Err(PitFull::Face));
    assert_eq!(pit.upsert_in(entries[2], downstream(301, &[])), Ok(true));
    // Renewing a record adds none, even with a token that does not fit into the entry.
    assert_eq!(pit.upsert_in(entries[1], downstream(300, &[9; 30])), Ok(false));
    assert_eq!(pit.face_in_records(face(300)), 2);
    pit.remove(entries[0]);
    assert_eq!(pit.upsert_in(entries[2], downstream(300, &[])), Ok(true));
    pit.set_face_limit(None);
    assert_eq!(pit.upsert_in(entries[3], downstream(300, &[])), Ok(true));
}

#[test]
fn expiry_reached_entry_is_popped_and_readable() {
    let mut pit = small();
    assert_eq!(pit.next_expiry(), None);
    let (early, late) = (insert(&mut pit, &name("/early")), insert(&mut pit, &name("/late")));
    pit.set_expiry(early, Timestamp::from_millis(4000));
    pit.set_expiry(late, Timestamp::from_millis(8000));
    assert_eq!(pit.expiry(early), Some(Timestamp::from_millis(4000)));
    assert_eq!(pit.pop_expired(Timestamp::from_millis(3999)), None);
    let wake = pit.next_expiry().unwrap();
    assert!(wake >= Timestamp::from_millis(4000) && wake < Timestamp::from_millis(4005));
    assert_eq!(pit.pop_expired(wake), Some(early));
    assert_eq!(pit.name(early), name("/early").as_ref());
    assert_eq!((pit.pop_expired(wake), pit.expiry(early)), (None, None));
    // The timer may be set again.
    pit.set_expiry(early, Timestamp::from_millis(9000));
    assert_eq!(pit.pop_expired(Timestamp::from_millis(8010)), Some(late));
    pit.remove(late);
    pit.set_expiry(early, Timestamp::START);
    assert!(pit.next_expiry().unwrap() <= Timestamp::from_millis(8010));
    assert_eq!(pit.pop_expired(Timestamp::from_millis(8010)), Some(early));
    pit.remove(early);
    assert_eq!((pit.next_expiry(), pit.len()), (None, 0));
}

#[test]
fn ended_faces_lose_all_records_in_one_pass() {
    let mut pit = small();
    (300..303).for_each(|number| pit.add_face(face(number), Scope::NonLocal));
    let entries: Vec<EntryRef> =
        (0..6).map(|at| insert(&mut pit, &name("/n").with_generic([at]))).collect();
    for (at, entry) in entries.iter().enumerate() {
        pit.upsert_in(*entry, downstream(300, &[])).unwrap();
        if at % 2 == 0 {
            pit.upsert_in(*entry, downstream(301, &[])).unwrap();
        }
        if at % 3 == 0 {
            pit.upsert_out(*entry, upstream(302)).unwrap();
            pit.upsert_out(*entry, upstream(301)).unwrap();
        }
    }
    let mut shown = Vec::new();
    pit.mark_face_ended(face(301));
    pit.remove_ended_part(u32::MAX, &mut |entry| shown.push(entry));
    assert_eq!(shown, [0, 2, 3, 4].map(|at: usize| entries[at]));
    assert_eq!((pit.face_in_records(face(301)), pit.face_out_records(face(301))), (0, 0));
    assert_eq!(entries.iter().map(|entry| pit.in_records(*entry).count()).sum::<usize>(), 6);
    // Two more, the second within the pass of the first: the slots before it are visited again.
    pit.mark_face_ended(face(302));
    let mut visited = Vec::new();
    pit.remove_ended_part(2, &mut |entry| visited.push(entry));
    pit.mark_face_ended(face(300));
    let mut parts = 0;
    while pit.has_ended_records() {
        pit.remove_ended_part(2, &mut |entry| visited.push(entry));
        parts += 1;
    }
    assert_eq!(visited, [0, 2, 3, 4, 5, 0, 1].map(|at: usize| entries[at]));
    assert_eq!((parts, pit.face_in_records(face(300)), pit.len()), (3, 0, 6));
    // Nothing is left.
    pit.mark_face_ended(face(300));
    assert!(!pit.has_ended_records());
}

#[test]
fn strategy_state_set_is_returned() {
    let mut pit = small();
    let entry = insert(&mut pit, &name("/a"));
    pit.set_retx_interval_ms(entry, 250);
    pit.set_satisfied(entry, Some(1000));
    assert_eq!((pit.retx_interval_ms(entry), pit.satisfied(entry)), (250, Some(1000)));
    pit.set_satisfied(entry, None);
    assert_eq!(pit.satisfied(entry), None);
}

#[test]
fn prefetch_any_input_changes_nothing() {
    let mut pit = small();
    let name = name("/a/b");
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    (0..5).for_each(|stage| _ = pit.prefetch(stage, &prefixes));
    let entry = insert(&mut pit, &name);
    pit.set_expiry(entry, Timestamp::from_millis(1));
    (0..5).for_each(|stage| _ = pit.prefetch(stage, &prefixes));
    (0..5).for_each(|stage| _ = pit.prefetch_token(stage, &Token::from_six(entry.token())));
    assert_eq!((pit.len(), format!("{pit:?}").as_str()), (1, "Pit(1 of 64 entries)"));
}

#[test]
fn config_out_of_range_is_clamped() {
    let mut pit = pit(PitConfig { entries_max: 0, records_max: 0, interest_slots: [0; 4] });
    assert_eq!(pit.capacity(), 1);
    insert(&mut pit, &name("/a"));
    assert_eq!(insert_flags(&mut pit, &name("/b"), (false, false), 0), Err(PitFull::Table));
    assert!(pit.memory_bytes() > 0);
}
