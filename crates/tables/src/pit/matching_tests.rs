use super::tests::{
    KEY, deep, insert, insert_flags, insert_prefix, matches, name, pit, small, usage, with_digest,
};
use super::*;
use nw_name::{Name, PREFIXES_MAX};

#[test]
fn data_satisfies_exact_and_shorter_names() {
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
    assert_eq!(matches(&pit, &name("/b"), Some(exact), 0), [], "a token of another name is not believed");
    pit.remove(short);
    assert_eq!(matches(&pit, &name("/a/x"), Some(short), 0), []);
    assert_eq!(matches(&pit, &name("/a/b/c"), None, 0).len(), 3);
}

#[test]
fn full_names_match_by_digest() {
    let mut pit = small();
    let data = name("/a/b");
    let nine = insert(&mut pit, &with_digest(&data, 9));
    insert(&mut pit, &with_digest(&data, 8));
    let plain = insert(&mut pit, &data);
    assert_eq!(matches(&pit, &data, None, 9), [nine, plain]);
    assert_eq!(matches(&pit, &data, Some(plain), 9), [plain, nine]);
    assert_eq!(matches(&pit, &data, Some(nine), 9), [nine, plain]);
    assert_eq!(matches(&pit, &data, None, 1), [plain]);
    // An Interest with a digest and CanBePrefix asks for one packet, or for longer names: as the reference does.
    let both = insert_prefix(&mut pit, &with_digest(&data, 7)).unwrap();
    assert_eq!(matches(&pit, &data, None, 7), [plain, both]);
    assert_eq!(matches(&pit, &with_digest(&data, 7).with_generic("c"), None, 0), [both]);
    // A Data whose own name ends in a digest is still asked for by that name.
    let odd = with_digest(&data, 5);
    let asked = insert(&mut pit, &odd);
    assert_eq!(matches(&pit, &odd, None, 0), [asked]);
    let full = insert(&mut pit, &with_digest(&odd, 6));
    assert_eq!(matches(&pit, &odd, None, 6), [asked, full]);
}

#[test]
fn a_name_that_is_a_digest_only() {
    let mut pit = small();
    let entry = insert(&mut pit, &with_digest(&Name::new(), 3));
    assert_eq!(matches(&pit, &Name::new(), None, 3), [entry]);
    assert_eq!(matches(&pit, &Name::new(), None, 4), []);
}

#[test]
fn the_digest_is_computed_only_when_asked_for() {
    let mut pit = small();
    let data = name("/a/b");
    let plain = insert(&mut pit, &data);
    let prefixes = Prefixes::of(&KEY, data.as_ref());
    let mut out = Vec::new();
    pit.matches(data.as_ref(), &prefixes, None, || panic!("nobody asked"), &mut out);
    assert_eq!(out, [plain]);
    insert(&mut pit, &with_digest(&name("/a"), 1));
    insert(&mut pit, &with_digest(&name("/a/c"), 1));
    pit.matches(data.as_ref(), &prefixes, None, || panic!("nobody asked for this name"), &mut out);
    assert_eq!(out, [plain, plain], "what is there already is left alone");
}

#[test]
fn digests_of_one_name_are_bounded() {
    let mut pit = pit(PitConfig::for_entries(256));
    let data = name("/a");
    for octet in 0..DIGESTS_PER_NAME_MAX as u8 {
        insert(&mut pit, &with_digest(&data, octet));
    }
    let before = usage(&pit);
    let more = insert_flags(&mut pit, &with_digest(&data, 200), (false, false), 0);
    assert_eq!(more, Err(PitFull::Table));
    assert_eq!(usage(&pit), before);
    // Known ones are found, and the name without digest and other names have room.
    assert!(!insert_flags(&mut pit, &with_digest(&data, 3), (false, false), 0).unwrap().1);
    insert(&mut pit, &data);
    insert(&mut pit, &with_digest(&name("/b"), 200));
}

#[test]
fn names_deeper_than_the_kept_prefixes() {
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
    // A Data exactly as deep as the kept prefixes.
    assert_eq!(matches(&pit, &deep(PREFIXES_MAX), None, 0), [expected[3], expected[1], expected[2]]);
}

#[test]
fn deep_lengths_are_bounded() {
    let mut pit = pit(PitConfig::for_entries(256));
    let base = PREFIXES_MAX + 1;
    let entries: Vec<EntryRef> =
        (0..DEEP_LENGTHS_MAX).map(|more| insert_prefix(&mut pit, &deep(base + more)).unwrap()).collect();
    let longer = deep(base + DEEP_LENGTHS_MAX);
    assert_eq!(insert_prefix(&mut pit, &longer), Err(PitFull::Table));
    // Exact ones are not counted, nor others of a length that is there, nor short ones.
    insert(&mut pit, &longer);
    insert_prefix(&mut pit, &deep(base - 1).with_generic("other")).unwrap();
    insert_prefix(&mut pit, &deep(3)).unwrap();
    assert_eq!(matches(&pit, &deep(base + DEEP_LENGTHS_MAX + 1), None, 0).len(), DEEP_LENGTHS_MAX + 1);
    pit.remove(entries[5]);
    insert_prefix(&mut pit, &longer).unwrap();
}
