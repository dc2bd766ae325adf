//! Tests of the content store: lookups, limits, erasure, prefix tree. Their helpers serve the other
//! tests too.

use super::*;
use crate::test_util::KEY;
use nw_name::tlv::{push_tlv, read_number};
use nw_name::{Component, ComponentType, Name, PREFIXES_MAX};

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// The parts of a Data that the store reads.
pub(super) fn data(name: &Name, content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    name.as_ref().encode(&mut body);
    push_tlv(21, content, &mut body);
    let mut wire = Vec::new();
    push_tlv(6, &body, &mut wire);
    wire
}

pub(super) fn full_name(name: &Name, wire: &[u8]) -> Name {
    name.clone()
        .with(Component::new(ComponentType::IMPLICIT_DIGEST, &sha256(&[wire])).expect("32 bytes"))
}

pub(super) fn store(packets_max: usize, bytes_max: usize) -> ContentStore {
    ContentStore::new(KEY, CsConfig { packets_max, bytes_max })
}

pub(super) fn insert(
    cs: &mut ContentStore,
    now_ms: u64,
    name: &Name,
    wire: &[u8],
    freshness_ms: u32,
) -> Insertion {
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    (0..ContentStore::PREFETCH_STAGES).for_each(|stage| cs.prefetch_insert(stage, &prefixes));
    let name = name_span(wire, name);
    let packet = IncomingData { name, prefixes: &prefixes, wire, freshness_ms, unsolicited: false };
    cs.insert(Timestamp::from_millis(now_ms), &packet)
}

/// The position of the name in a packet: after two types and two lengths.
fn name_span(wire: &[u8], name: &Name) -> (u16, u16) {
    let start = (0..4).fold(0, |at, _| read_number(wire, at).expect("a packet").1);
    (start as u16, name.as_ref().as_bytes().len() as u16)
}

/// A store with a tree from the start.
fn store_with_tree(packets_max: usize, bytes_max: usize) -> ContentStore {
    let mut cs = store(packets_max, bytes_max);
    cs.switch_tree(true, usize::MAX / 8);
    assert!(cs.has_complete_tree());
    cs
}

fn put(cs: &mut ContentStore, uri: &str) -> Vec<u8> {
    let wire = data(&name(uri), uri.as_bytes());
    assert_eq!(insert(cs, 0, &name(uri), &wire, 0), Insertion::New);
    wire
}

fn probe_for(cs: &ContentStore, prefixes: &PrefixHashes) -> CsProbe {
    let mut probe = CsProbe::default();
    (0..ContentStore::PREFETCH_STAGES).for_each(|stage| cs.advance(stage, prefixes, &mut probe));
    probe
}

pub(super) fn find(
    cs: &mut ContentStore,
    now_ms: u64,
    name: &Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
) -> Option<Vec<u8>> {
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    let may_be_cached = probe_for(cs, &prefixes) == CsProbe::MayBeCached;
    let key =
        InterestKey { name: name.as_ref(), prefixes: &prefixes, can_be_prefix, must_be_fresh };
    let found = cs.find(Timestamp::from_millis(now_ms), &key)?;
    assert!(may_be_cached || can_be_prefix, "prefetching finds every exact match");
    let mut wire = vec![0; cs.wire_len(found)];
    assert_eq!(cs.copy_wire(found, &mut wire), wire.len());
    Some(wire)
}

fn exact(cs: &mut ContentStore, uri: &str) -> Option<Vec<u8>> {
    find(cs, 0, &name(uri), false, false)
}

fn prefix(cs: &mut ContentStore, uri: &str) -> Option<Vec<u8>> {
    find(cs, 0, &name(uri), true, false)
}

#[test]
fn probe_absent_is_valid_until_insert() {
    let mut cs = store(4, 1 << 20);
    let name = name("/a");
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    assert!(!cs.may_contain(&prefixes, CsProbe::Empty), "an empty probe reads the index");
    let probe = probe_for(&cs, &prefixes);
    assert_eq!(probe, CsProbe::Absent { insertions: 0 });
    assert!(!cs.may_contain(&prefixes, probe));
    put(&mut cs, "/a");
    assert!(cs.may_contain(&prefixes, probe), "an insertion makes the probe invalid");
    assert!(cs.may_contain(&prefixes, CsProbe::Empty));
}

#[test]
fn find_prefix_returns_longer_name() {
    let mut cs = store(100, 100 << 10);
    let wire = put(&mut cs, "/a/b/1");
    for uri in ["/", "/a", "/a/b", "/a/b/1"] {
        assert_eq!(prefix(&mut cs, uri).as_ref(), Some(&wire), "{uri}");
        assert_eq!(exact(&mut cs, uri).is_some(), uri == "/a/b/1", "{uri}");
    }
    for uri in ["/b", "/a/c", "/a/b/1/2", "/a/b/2"] {
        assert_eq!(prefix(&mut cs, uri), None, "{uri}");
    }
    assert_eq!(
        cs.counters(),
        CsCounters { hits: 5, misses: 7, insertions: 1, ..CsCounters::default() }
    );
}

#[test]
fn find_prefix_returns_newest_packet() {
    let mut cs = store_with_tree(100, 100 << 10);
    let wires: Vec<_> = (0..50).map(|i| put(&mut cs, &format!("/file/v=1/seg={i}"))).collect();
    assert_eq!(prefix(&mut cs, "/file").as_ref(), wires.last());
    assert_eq!(cs.prefix_nodes(), 1, "siblings share one node");
}

#[test]
fn find_must_be_fresh_compares_milliseconds() {
    let mut cs = store(10, 10 << 10);
    let wire = data(&name("/a/1"), b"x");
    insert(&mut cs, 1000, &name("/a/1"), &wire, 3);
    for (now, fresh) in [(1000, true), (1002, true), (1003, false), (9000, false)] {
        for can_be_prefix in [false, true] {
            assert_eq!(
                find(&mut cs, now, &name("/a/1"), can_be_prefix, true).is_some(),
                fresh,
                "{now}"
            );
            assert!(find(&mut cs, now, &name("/a/1"), can_be_prefix, false).is_some());
        }
        assert_eq!(find(&mut cs, now, &name("/a"), true, true).is_some(), fresh, "{now}");
    }
    // Inserting the same packet again makes it fresh again, also for prefix searches.
    assert_eq!(insert(&mut cs, 5000, &name("/a/1"), &wire, 3), Insertion::Refreshed);
    assert!(find(&mut cs, 5002, &name("/a"), true, true).is_some());
    // Without FreshnessPeriod a packet is never fresh.
    let other = data(&name("/b"), b"y");
    insert(&mut cs, 5000, &name("/b"), &other, 0);
    assert!(find(&mut cs, 5000, &name("/b"), false, true).is_none());
}

#[test]
fn find_digest_selects_packet() {
    let mut cs = store(10, 100 << 10);
    let n = name("/a/b");
    let wires: Vec<_> = [1usize, 300, 2000].iter().map(|len| data(&n, &vec![7; *len])).collect();
    for wire in &wires {
        assert_eq!(insert(&mut cs, 0, &n, wire, 0), Insertion::New);
    }
    for wire in wires.iter().chain(&wires) {
        for can_be_prefix in [false, true] {
            assert_eq!(
                find(&mut cs, 0, &full_name(&n, wire), can_be_prefix, false).as_ref(),
                Some(wire)
            );
        }
    }
    assert_eq!(
        exact(&mut cs, "/a/b").as_ref(),
        wires.last(),
        "the newest packet is found by the name"
    );
    assert_eq!(find(&mut cs, 0, &full_name(&n, b"other"), false, false), None);
    let twice = full_name(&full_name(&n, &wires[0]), &wires[0]);
    assert_eq!(find(&mut cs, 0, &twice, false, false), None);
    assert_eq!(cs.erase(full_name(&n, &wires[1]).as_ref(), 9), 1);
    assert_eq!(find(&mut cs, 0, &full_name(&n, &wires[1]), false, false), None);
    assert_eq!(cs.len(), 2);
}

#[test]
fn insert_many_versions_evicts_oldest() {
    let mut cs = store_with_tree(1000, 1 << 20);
    let n = name("/same");
    for i in 0..500u32 {
        insert(&mut cs, 0, &n, &data(&n, &i.to_be_bytes()), 0);
        assert_eq!(cs.tree.assert_invariants(cs.len()), cs.len());
    }
    assert_eq!(cs.len(), VERSIONS_MAX);
    assert_eq!(exact(&mut cs, "/same"), Some(data(&n, &499u32.to_be_bytes())));
    assert_eq!(
        find(&mut cs, 0, &full_name(&n, &data(&n, &495u32.to_be_bytes())), false, false),
        None
    );
}

#[test]
fn insert_invalid_packet_is_rejected() {
    let mut cs = store(10, 8 << 10);
    let n = name("/big");
    assert_eq!(
        insert(&mut cs, 0, &n, &data(&n, &vec![0; 8200]), 0),
        Insertion::Rejected,
        "larger than the store"
    );
    assert_eq!(
        insert(&mut cs, 0, &n, &data(&n, &vec![0; 9000]), 0),
        Insertion::Rejected,
        "larger than a packet"
    );
    let prefixes = PrefixHashes::of(&KEY, n.as_ref());
    for (name_span, wire) in [((0, 0), &b""[..]), ((1, 5), b"\x06\x02\x07"), ((256, 0), &[6; 300])]
    {
        let packet = IncomingData {
            name: name_span,
            prefixes: &prefixes,
            wire,
            freshness_ms: 0,
            unsolicited: false,
        };
        assert_eq!(
            cs.insert(Timestamp::START, &packet),
            Insertion::Rejected,
            "no name at {name_span:?}"
        );
    }
    let odd = full_name(&n, b"");
    assert_eq!(
        insert(&mut cs, 0, &odd, &data(&odd, b""), 0),
        Insertion::Rejected,
        "a digest in its own name"
    );
    assert_eq!((cs.len(), cs.bytes(), cs.counters().rejections), (0, 0, 6));
    for (packets_max, bytes_max) in [(0, 1 << 20), (10, 0), (10, 255), (0, 0)] {
        let mut none = store(packets_max, bytes_max);
        assert_eq!(insert(&mut none, 0, &n, &data(&n, b""), 0), Insertion::Rejected);
        assert_eq!(prefix(&mut none, "/"), None);
        assert_eq!(none.erase(NameRef::ROOT, usize::MAX), 0);
    }
}

#[test]
fn admit_and_serve_switches_apply_at_once() {
    let mut cs = store(10, 8 << 10);
    let wire = put(&mut cs, "/a");
    cs.set_admit(false);
    assert_eq!(insert(&mut cs, 0, &name("/b"), &data(&name("/b"), b""), 0), Insertion::Rejected);
    assert_eq!(exact(&mut cs, "/a"), Some(wire));
    cs.set_serve(false);
    assert_eq!(exact(&mut cs, "/a"), None);
    let prefixes = PrefixHashes::of(&KEY, name("/a").as_ref());
    assert_eq!(
        probe_for(&cs, &prefixes),
        CsProbe::Empty,
        "serving is off: the lookup goes on to the next table"
    );
    assert!(!cs.admits() && !cs.serves());
    assert_eq!(cs.counters(), CsCounters { hits: 1, insertions: 1, ..CsCounters::default() });
}

#[test]
fn insert_full_store_evicts_least_recently_used() {
    let mut cs = store(3, 8 << 10);
    for uri in ["/a", "/b", "/c"] {
        put(&mut cs, uri);
    }
    assert!(exact(&mut cs, "/a").is_some());
    assert!(prefix(&mut cs, "/b").is_some());
    put(&mut cs, "/d");
    assert!(exact(&mut cs, "/c").is_none());
    assert!(["/a", "/b", "/d"].iter().all(|uri| exact(&mut cs, uri).is_some()));
}

#[test]
fn reference_after_eviction_finds_nothing() {
    let mut cs = store(1, 8 << 10);
    put(&mut cs, "/a");
    let n = name("/a");
    let prefixes = PrefixHashes::of(&KEY, n.as_ref());
    let key = InterestKey {
        name: n.as_ref(),
        prefixes: &prefixes,
        can_be_prefix: false,
        must_be_fresh: false,
    };
    let found = cs.find(Timestamp::START, &key).unwrap();
    assert_eq!(cs.name_span(found), (4, 3));
    assert_eq!(cs.copy_wire(found, &mut [0; 3]), 3);
    put(&mut cs, "/b");
    assert_eq!(
        (cs.wire_len(found), cs.copy_wire(found, &mut [0; 9]), cs.name_span(found)),
        (0, 0, (0, 0))
    );
}

#[test]
fn set_limits_lower_evicts() {
    let mut cs = store(100, 100 * BLOCK_LEN);
    for i in 0..100 {
        put(&mut cs, &format!("/{i}/x"));
    }
    assert_eq!(
        cs.set_limits(60, usize::MAX),
        CsConfig { packets_max: 60, bytes_max: 100 * BLOCK_LEN }
    );
    assert_eq!((cs.len(), cs.has_work()), (100, true), "packets are evicted in steps");
    cs.work(Timestamp::START);
    assert_eq!((cs.len(), cs.has_work()), (60, false));
    cs.set_limits(usize::MAX, 10 * BLOCK_LEN + 1);
    cs.work(Timestamp::START);
    assert_eq!((cs.len(), cs.bytes(), cs.limits().packets_max), (10, 10 * BLOCK_LEN, 100));
    assert!((90..100).all(|i| exact(&mut cs, &format!("/{i}/x")).is_some()), "the newest stay");
    cs.set_limits(0, usize::MAX);
    cs.work(Timestamp::START);
    assert!(cs.is_empty());
    assert_eq!(insert(&mut cs, 0, &name("/a"), &data(&name("/a"), b""), 0), Insertion::Rejected);
    cs.set_limits(1, usize::MAX);
    put(&mut cs, "/a");
}

#[test]
fn erase_prefix_stops_at_limit() {
    let mut cs = store_with_tree(100, 100 << 10);
    for i in 0..20 {
        put(&mut cs, &format!("/a/b/{i}"));
        put(&mut cs, &format!("/c/{i}/d"));
    }
    assert_eq!(cs.erase(name("/a").as_ref(), 0), 0);
    assert_eq!(cs.erase(name("/a").as_ref(), 7), 7);
    assert_eq!(cs.erase(name("/a/b").as_ref(), 100), 13);
    assert_eq!(cs.erase(name("/a").as_ref(), 100), 0);
    assert_eq!(cs.erase(name("/c/3").as_ref(), 100), 1);
    assert_eq!(cs.tree.assert_invariants(cs.len()), 19);
    assert_eq!(cs.erase(NameRef::ROOT, usize::MAX), 19);
    assert_eq!(
        (cs.len(), cs.bytes(), cs.prefix_nodes(), cs.tree.assert_invariants(0)),
        (0, 0, 0, 0)
    );
}

/// The number of entries visited per step does not depend on how full the index is.
#[test]
fn erase_part_visits_bounded_entries() {
    let count = 20_000;
    let mut cs = store(count, count * BLOCK_LEN);
    (0..count).for_each(|i| _ = put(&mut cs, &format!("/{i}")));
    assert_eq!(cs.len(), count);
    let mut cursor = EraseCursor::new(usize::MAX);
    let steps =
        1 + (0..count).take_while(|_| !cs.erase_part(name("/none").as_ref(), &mut cursor)).count();
    assert!(steps > count / 4096 && steps < count / 1024, "{steps} steps");
    assert_eq!(cs.len(), count);
}

#[test]
fn find_name_deeper_than_stored_hashes_is_found() {
    let mut cs = store_with_tree(1000, 1 << 20);
    let base = (0..PREFIXES_MAX + 5).fold(Name::new(), |n, i| n.with_generic(format!("{i}")));
    let names: Vec<_> =
        (0..100u64).map(|i| base.clone().with_number(ComponentType::SEGMENT, i)).collect();
    for n in &names {
        assert_eq!(insert(&mut cs, 0, n, &data(n, b""), 0), Insertion::New);
    }
    for n in &names {
        assert!(find(&mut cs, 0, n, false, false).is_some());
        assert!(find(&mut cs, 0, n, true, false).is_some());
    }
    for depth in 0..=base.as_ref().len() {
        assert!(
            find(&mut cs, 0, &base.as_ref().prefix(depth).to_name(), true, false).is_some(),
            "{depth}"
        );
    }
    assert!(find(&mut cs, 0, &base.clone().with_generic("other"), true, false).is_none());
    assert_eq!(cs.tree.assert_invariants(cs.len()), 100);
    assert_eq!(cs.erase(base.as_ref(), 1000), 100);
}

#[test]
fn insert_no_free_node_packet_found_by_name() {
    let mut cs = store_with_tree(1000, 1 << 20);
    cs.tree.leave_nodes(1);
    let uris: Vec<_> = (0..400).map(|i| format!("/{}/{}/{}", i / 100, i / 10, i)).collect();
    for uri in &uris {
        put(&mut cs, uri);
        assert_eq!(cs.tree.assert_invariants(cs.len()), cs.len());
    }
    assert_eq!(cs.prefix_nodes(), 1);
    assert!(uris.iter().all(|uri| exact(&mut cs, uri).is_some()));
    assert!(prefix(&mut cs, "/").is_some());
    assert_eq!(cs.erase(NameRef::ROOT, usize::MAX), 400);
    assert_eq!((cs.bytes(), cs.prefix_nodes(), cs.tree.assert_invariants(0)), (0, 0, 0));
    // The freed node is available again.
    for uri in &uris[..20] {
        put(&mut cs, uri);
    }
    assert!(prefix(&mut cs, "/0/1").is_some());
}

#[test]
fn search_many_stale_skips_branches_and_is_bounded() {
    let mut cs = store_with_tree(10_000, 10 << 20);
    let fresh = name("/s/fresh/1");
    insert(&mut cs, 0, &fresh, &data(&fresh, b""), 100_000);
    for i in 0..1000 {
        let stale = name(&format!("/s/stale/{i}"));
        insert(&mut cs, 0, &stale, &data(&stale, b""), 1);
    }
    // A thousand stale packets inserted later are below one node, which is skipped as nothing below
    // it is fresh.
    assert!(find(&mut cs, 10_000, &name("/s"), true, true).is_some());
    // Without a node of their own they are too many to visit.
    let fresh = name("/t/fresh");
    insert(&mut cs, 0, &fresh, &data(&fresh, b""), 100_000);
    for i in 0..1000 {
        let stale = name(&format!("/t/{i}"));
        insert(&mut cs, 0, &stale, &data(&stale, b""), 1);
    }
    assert_eq!(find(&mut cs, 10_000, &name("/t"), true, true), None);
    assert_eq!(cs.counters().searches_aborted, 1);
    assert!(find(&mut cs, 10_000, &fresh, false, true).is_some());
}

#[test]
fn churn_million_names_leaks_nothing() {
    let mut cs = store_with_tree(1000, 1 << 20);
    let mut most = 0;
    for i in 0..1_000_000u64 {
        // Names that create and dissolve nodes all the time.
        let n = Name::new()
            .with_generic((i / 100).to_be_bytes())
            .with_generic([(i / 10) as u8])
            .with_generic(i.to_be_bytes());
        insert(&mut cs, 0, &n, &data(&n, b""), 0);
        most = most.max(cs.prefix_nodes());
    }
    assert_eq!(cs.len(), 1000);
    assert!(most > 0 && most < 500, "{most}");
    assert_eq!(cs.tree.assert_invariants(cs.len()), 1000);
    assert_eq!(cs.erase(NameRef::ROOT, usize::MAX), 1000);
    assert_eq!((cs.bytes(), cs.prefix_nodes(), cs.tree.assert_invariants(0)), (0, 0, 0));
}

/// The tree is built in steps when a prefix search fails among the recent packets, and removed when
/// there are no prefix searches.
#[test]
fn tree_follows_prefix_searches() {
    let mut cs = store(1000, 1 << 20);
    let uri = |i: usize| format!("/p{}/x/{i}", i % 7);
    for i in 0..RECENT_MAX {
        put(&mut cs, &uri(i));
    }
    // A small store is scanned completely.
    assert!(prefix(&mut cs, "/p3/x").is_some() && prefix(&mut cs, "/elsewhere").is_none());
    assert!(!cs.has_complete_tree() && cs.tree.assert_invariants(cs.len()) == 0);
    for i in RECENT_MAX..900 {
        put(&mut cs, &uri(i));
    }
    assert_eq!(cs.counters().searches_aborted, 0);
    // The first search that fails starts the tree; further searches and insertions build it.
    let mut searches = 0;
    while !cs.has_complete_tree() {
        assert!(prefix(&mut cs, "/p0/x/0").is_some(), "an exact name is always found");
        assert_eq!(prefix(&mut cs, "/elsewhere"), None);
        searches += 1;
        let linked = cs.tree.assert_invariants(cs.len());
        assert!(linked > 0 && linked <= 100 * searches, "{linked} after {searches}");
    }
    assert!((5..=20).contains(&searches), "{searches}");
    let aborted = cs.counters().searches_aborted;
    assert!(aborted > 0);
    assert!((0..7).all(|i| prefix(&mut cs, &format!("/p{i}")).is_some()));
    assert!(prefix(&mut cs, "/elsewhere").is_none());
    assert_eq!(cs.counters().searches_aborted, aborted);
    // Insertions maintain it until the idle time has passed; then they remove it.
    let later = TREE_IDLE_MAX.as_millis() as u64 + 1;
    let insert_at = |cs: &mut ContentStore, now_ms, i: usize| {
        let n = name(&uri(i));
        insert(cs, now_ms, &n, &data(&n, b""), 0)
    };
    insert_at(&mut cs, later - 1, 1000);
    assert!(cs.has_complete_tree());
    for i in 1001..1400 {
        insert_at(&mut cs, later, i);
        cs.tree.assert_invariants(cs.len());
    }
    assert!(!cs.has_complete_tree());
    assert_eq!((cs.prefix_nodes(), cs.tree.assert_invariants(cs.len())), (0, 0));
    // A search in between rebuilds it.
    find(&mut cs, later, &name("/elsewhere"), true, false);
    for i in 2000..2300 {
        insert_at(&mut cs, later, i);
    }
    assert!(cs.has_complete_tree());
}

/// However far the limits are lowered, a step is small, an insertion evicts few packets, and
/// nothing is admitted at a limit of 0.
#[test]
fn set_limits_far_lower_evicts_in_slices() {
    let mut cs = store(10_000, 10_000 * BLOCK_LEN);
    for i in 0..10_000 {
        put(&mut cs, &format!("/{i}"));
    }
    cs.set_limits(100, usize::MAX);
    put(&mut cs, "/new");
    assert_eq!(cs.len(), 10_000 - EVICTIONS_MAX + 1);
    assert!(exact(&mut cs, "/new").is_some() && exact(&mut cs, "/0").is_none());
    let mut slices = 0;
    while cs.has_work() {
        let before = cs.len();
        cs.work(Timestamp::START);
        assert!(before - cs.len() <= WORK_EVICTIONS);
        slices += 1;
    }
    assert_eq!((cs.len(), slices), (100, 9837usize.div_ceil(WORK_EVICTIONS)));
    assert!(exact(&mut cs, "/new").is_some() && exact(&mut cs, "/9999").is_some());
    cs.set_limits(0, usize::MAX);
    assert_eq!(insert(&mut cs, 0, &name("/a"), &data(&name("/a"), b""), 0), Insertion::Rejected);
    // The limits may be raised again half way.
    cs.set_limits(50, usize::MAX);
    cs.set_limits(usize::MAX, usize::MAX);
    assert_eq!((cs.len(), cs.has_work()), (100, false));
}

/// Many successful scans start the tree too.
#[test]
fn scan_recent_many_scans_start_tree() {
    let mut cs = store(100, 1 << 20);
    for i in 0..40 {
        put(&mut cs, &format!("/{i}"));
    }
    let looks = (0..1000)
        .take_while(|_| prefix(&mut cs, "/none").is_none() && !cs.has_complete_tree())
        .count();
    assert!((50..200).contains(&looks), "{looks}");
}

/// An entry is in one index under its key and in another under its edge; if both have the same tag
/// it is a candidate twice on that edge.
#[test]
fn tree_key_and_edge_with_equal_tag_listed_once() {
    let edge = KEY.name(name("/x").as_ref());
    let same_tag = |n: &Name| KEY.name(n.as_ref()) >> 48 == edge >> 48;
    let same_tag = (0..10_000_000u64)
        .map(|i| name("/x").with_generic(i.to_be_bytes()))
        .find(same_tag)
        .expect("one in 65536 names");
    // In such a small index all home buckets are the same.
    let mut cs = store_with_tree(1, 1 << 10);
    assert_eq!(cs.tree.keys.buckets(), 1);
    insert(&mut cs, 0, &same_tag, &data(&same_tag, b""), 0);
    let slot = cs.tree.keys.candidates(edge).next().expect("it is there");
    assert_eq!(cs.tree.edge_candidates(edge).filter(|id| *id == slot).count(), 2);
    let root = cs.tree.entries[slot as usize].link.parent;
    assert_eq!(cs.tree.records_on_edge(root, edge)[..], [slot]);
    assert_eq!(cs.erase(name("/x").as_ref(), 9), 1);
    assert_eq!((cs.len(), cs.tree.assert_invariants(0)), (0, 0));
}

/// Packets that reuse the victim's entry, that need another number of blocks, and with a bucket
/// that has overflowed.
#[test]
fn insert_full_store_reuses_entry_of_victim() {
    let mut cs = store(50, 1 << 20);
    for i in 0..2000 {
        let n = name(&format!("/r/{i}"));
        let len = [10, 10, 300, 10, 700][i % 5];
        let wire = data(&n, &vec![i as u8; len]);
        assert_eq!(insert(&mut cs, 0, &n, &wire, 0), Insertion::New);
        assert_eq!(find(&mut cs, 0, &n, false, false), Some(wire));
        let first = i.saturating_sub(49);
        assert!(exact(&mut cs, &format!("/r/{first}")).is_some(), "{i}");
        for j in first + 1..=i {
            // In the order of insertion, so that the order of use is unchanged.
            assert!(exact(&mut cs, &format!("/r/{j}")).is_some(), "{j} of {i}");
        }
        assert_eq!(exact(&mut cs, &format!("/r/{}", first.wrapping_sub(1))), None);
        assert_eq!((cs.len(), cs.tree.keys.len()), (i.min(49) + 1, i.min(49) + 1));
    }
    assert_eq!(cs.counters().evictions, 1950);
}

#[test]
fn listing_in_steps_finds_each_packet_with_its_age() {
    let mut cs = store(5000, 5000 * BLOCK_LEN);
    (0..5000).for_each(|number| drop(put(&mut cs, &format!("/p/{number}"))));
    let (mut listing, mut steps) = (Listing::default(), 1);
    while !cs.list_part(&mut listing) {
        steps += 1;
    }
    assert!(steps > 1, "a step is bounded");
    listing.packets.sort_by_key(|packet| packet.age);
    let ages: Vec<u32> = listing.packets.iter().map(|packet| packet.age).collect();
    assert_eq!(ages, (1..=5000).collect::<Vec<_>>());
    let newest = listing.packets[0].reference;
    let mut wire = vec![0; cs.wire_len(newest)];
    cs.copy_wire(newest, &mut wire);
    assert_eq!(wire, data(&name("/p/4999"), b"/p/4999"));
    assert!(!cs.has_capacity_for(10));
    cs.erase(name("/p/0").as_ref(), 1);
    assert!(cs.has_capacity_for(10) && cs.has_capacity_for(BLOCK_LEN));
    assert!(!cs.has_capacity_for(BLOCK_LEN + 1));
}
