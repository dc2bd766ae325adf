//! Tests of matching Data to pending Interests: prefixes, digests, deep names.

use super::tests::{
    deep, insert, insert_flags, insert_prefix, matches, name, pit, small, usage, with_digest,
};
use super::*;
use crate::test_util::KEY;
use nw_name::{Name, PREFIXES_MAX};

#[test]
fn matches_data_includes_exact_and_prefix_entries() {
    let mut pit = small();
    let exact = insert(&mut pit, &name("/a/b/c"));
    let fresh = insert_flags(&mut pit, &name("/a/b/c"), (false, true), 0).unwrap().0;
    let whole = insert_prefix(&mut pit, &name("/a/b/c")).unwrap();
    let short = insert_prefix(&mut pit, &name("/a")).unwrap();
    insert(&mut pit, &name("/a/b"));
    insert_prefix(&mut pit, &name("/a/b/c/d")).unwrap();
    insert_prefix(&mut pit, &name("/x")).unwrap();
    for token in [None, Some(exact), Some(short), Some(whole)] {
        let mut found = matches(&pit, &name("/a/b/c"), token, 0);
        assert!(token.is_none_or(|token| found[0] == token));
        found.sort();
        let mut all = vec![exact, fresh, whole, short];
        all.sort();
        assert_eq!(found, all);
    }
    assert_eq!(matches(&pit, &name("/b"), Some(exact), 0), [], "the names are compared");
    pit.remove(short);
    assert_eq!(matches(&pit, &name("/a/x"), Some(short), 0), []);
    assert_eq!(matches(&pit, &name("/a/b/c"), None, 0).len(), 3);
}

#[test]
fn matches_full_name_compares_digest() {
    let mut pit = small();
    let data = name("/a/b");
    let nine = insert(&mut pit, &with_digest(&data, 9));
    insert(&mut pit, &with_digest(&data, 8));
    let exact = insert(&mut pit, &data);
    assert_eq!(matches(&pit, &data, None, 9), [nine, exact]);
    assert_eq!(matches(&pit, &data, Some(exact), 9), [exact, nine]);
    assert_eq!(matches(&pit, &data, Some(nine), 9), [nine, exact]);
    assert_eq!(matches(&pit, &data, None, 1), [exact]);
    // With a digest and CanBePrefix the Interest matches this packet or longer names, as in NFD.
    let both = insert_prefix(&mut pit, &with_digest(&data, 7)).unwrap();
    assert_eq!(matches(&pit, &data, None, 7), [exact, both]);
    assert_eq!(matches(&pit, &with_digest(&data, 7).with_generic("c"), None, 0), [both]);
    // A Data with a name of its own that ends in a digest satisfies an Interest for that name.
    let odd = with_digest(&data, 5);
    let with_own_digest = insert(&mut pit, &odd);
    assert_eq!(matches(&pit, &odd, None, 0), [with_own_digest]);
    let full = insert(&mut pit, &with_digest(&odd, 6));
    assert_eq!(matches(&pit, &odd, None, 6), [with_own_digest, full]);
}

#[test]
fn matches_name_of_digest_only_is_found() {
    let mut pit = small();
    let entry = insert(&mut pit, &with_digest(&Name::new(), 3));
    assert_eq!(matches(&pit, &Name::new(), None, 3), [entry]);
    assert_eq!(matches(&pit, &Name::new(), None, 4), []);
}

#[test]
fn matches_without_digest_entry_computes_no_digest() {
    let mut pit = small();
    let data = name("/a/b");
    let exact = insert(&mut pit, &data);
    let prefixes = PrefixHashes::of(&KEY, data.as_ref());
    let mut out = Vec::new();
    pit.matches(data.as_ref(), &prefixes, None, || panic!("no digest is needed"), &mut out);
    assert_eq!(out, [exact]);
    insert(&mut pit, &with_digest(&name("/a"), 1));
    insert(&mut pit, &with_digest(&name("/a/c"), 1));
    pit.matches(
        data.as_ref(),
        &prefixes,
        None,
        || panic!("no digest is needed for this name"),
        &mut out,
    );
    assert_eq!(out, [exact, exact], "existing elements of `out` stay");
}

#[test]
fn pit_digests_per_name_are_bounded() {
    let mut pit = pit(PitConfig::for_entries(256));
    let data = name("/a");
    for byte in 0..DIGESTS_PER_NAME_MAX as u8 {
        insert(&mut pit, &with_digest(&data, byte));
    }
    let before = usage(&pit);
    let more = insert_flags(&mut pit, &with_digest(&data, 200), (false, false), 0);
    assert_eq!(more, Err(PitFull::Table));
    assert_eq!(usage(&pit), before);
    // Existing entries are found; the name without digest and other names can be inserted.
    assert!(!insert_flags(&mut pit, &with_digest(&data, 3), (false, false), 0).unwrap().1);
    insert(&mut pit, &data);
    insert(&mut pit, &with_digest(&name("/b"), 200));
}

#[test]
fn matches_name_deeper_than_stored_hashes_is_found() {
    let mut pit = small();
    let data = deep(PREFIXES_MAX + 8);
    let exact = insert(&mut pit, &data);
    let mut expected = vec![exact];
    for components in [1, PREFIXES_MAX - 1, PREFIXES_MAX, PREFIXES_MAX + 1, PREFIXES_MAX + 7] {
        expected.push(insert_prefix(&mut pit, &deep(components)).unwrap());
    }
    insert_prefix(&mut pit, &deep(PREFIXES_MAX + 9)).unwrap();
    insert_prefix(&mut pit, &deep(PREFIXES_MAX + 1).with_generic("other")).unwrap();
    assert_eq!(matches(&pit, &data, None, 0), expected);
    let full = insert(&mut pit, &with_digest(&data, 1));
    assert_eq!(matches(&pit, &data, None, 1).len(), expected.len() + 1);
    assert_eq!(matches(&pit, &data, Some(full), 1)[0], full);
    // A Data with exactly as many components as hashes are stored for.
    assert_eq!(
        matches(&pit, &deep(PREFIXES_MAX), None, 0),
        [expected[3], expected[1], expected[2]]
    );
}

#[test]
fn pit_deep_prefix_lengths_are_bounded() {
    let mut pit = pit(PitConfig::for_entries(256));
    let base = PREFIXES_MAX + 1;
    let entries: Vec<EntryRef> = (0..DEEP_LENGTHS_MAX)
        .map(|more| insert_prefix(&mut pit, &deep(base + more)).unwrap())
        .collect();
    let longer = deep(base + DEEP_LENGTHS_MAX);
    assert_eq!(insert_prefix(&mut pit, &longer), Err(PitFull::Table));
    // Entries without CanBePrefix, with a length in use or with short names are not limited.
    insert(&mut pit, &longer);
    insert_prefix(&mut pit, &deep(base - 1).with_generic("other")).unwrap();
    insert_prefix(&mut pit, &deep(3)).unwrap();
    assert_eq!(
        matches(&pit, &deep(base + DEEP_LENGTHS_MAX + 1), None, 0).len(),
        DEEP_LENGTHS_MAX + 1
    );
    pit.remove(entries[5]);
    insert_prefix(&mut pit, &longer).unwrap();
}
