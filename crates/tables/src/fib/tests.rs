use super::*;
use nw_name::{Name, component::ComponentType};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

fn fib(prefixes_max: usize) -> Fib {
    Fib::new(KEY, FibConfig::new(prefixes_max))
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn hop(face: u32, cost: u32) -> NextHop {
    NextHop { face: FaceId::from_bits(face), cost }
}

fn lookup<'a>(fib: &'a Fib, name: &Name) -> Option<FibEntry<'a>> {
    let prefixes = Prefixes::of(&KEY, name.as_ref());
    (0..Fib::PREFETCH_STAGES).for_each(|stage| fib.prefetch(stage, &prefixes));
    fib.lookup(name.as_ref(), &prefixes)
}

/// Length of the longest prefix and its first face.
fn found(fib: &Fib, uri: &str) -> Option<(usize, u64)> {
    lookup(fib, &name(uri)).map(|e| (e.prefix_len, e.next_hops.first().map_or(0, |h| h.face.number())))
}

fn deep(components: usize) -> Name {
    (0..components).fold(Name::new(), |n, c| n.with_generic(c.to_string()))
}

#[test]
fn longest_prefix_wins() {
    let mut fib = fib(10);
    assert_eq!(found(&fib, "/a"), None);
    for (uri, face) in [("/", 1), ("/a", 300), ("/a/b/c/d/e/f", 301), ("/a/b/c", 302)] {
        fib.set(name(uri).as_ref(), &[hop(face, 0)], StrategyId(0)).unwrap();
    }
    assert_eq!(found(&fib, "/"), Some((0, 1)));
    assert_eq!(found(&fib, "/b/c/d/e/f/g"), Some((0, 1)));
    assert_eq!(found(&fib, "/a"), Some((1, 300)));
    assert_eq!(found(&fib, "/a/b"), Some((1, 300)));
    assert_eq!(found(&fib, "/a/b/c/d"), Some((3, 302)));
    assert_eq!(found(&fib, "/a/b/c/d/e"), Some((3, 302)));
    assert_eq!(found(&fib, "/a/b/c/d/e/f"), Some((6, 301)));
    assert_eq!(found(&fib, "/a/b/c/d/e/f/g"), Some((6, 301)));
    assert_eq!(fib.len(), 4);
}

#[test]
fn replaces_and_tells_exactly() {
    let mut fib = fib(10);
    let prefix = name("/a/b");
    fib.set(prefix.as_ref(), &[hop(300, 9), hop(302, 5), hop(301, 5), hop(300, 2)], StrategyId(1)).unwrap();
    let entry = fib.exact(prefix.as_ref()).unwrap();
    assert_eq!(entry.next_hops, [hop(300, 2), hop(301, 5), hop(302, 5)]);
    assert_eq!((entry.strategy, entry.prefix_len), (StrategyId(1), 2));
    fib.set(prefix.as_ref(), &[], StrategyId(2)).unwrap();
    let entry = fib.exact(prefix.as_ref()).unwrap();
    assert_eq!((entry.next_hops, entry.strategy), (&[][..], StrategyId(2)));
    assert_eq!((fib.len(), fib.next_hop_sets()), (1, 1));
    assert_eq!(fib.exact(name("/a").as_ref()), None);
    assert_eq!(fib.exact(name("/a/b/c").as_ref()), None);
}

#[test]
fn removal_uncovers_what_is_shorter() {
    let mut fib = fib(10);
    for (uri, face) in [("/a/b/c/d", 1), ("/a/b/c/d/e/f", 2), ("/a/b/c/d/e/f/g/h", 3)] {
        fib.set(name(uri).as_ref(), &[hop(face, 0)], StrategyId(0)).unwrap();
    }
    let long = "/a/b/c/d/e/f/g/h/i";
    assert_eq!(found(&fib, long), Some((8, 3)));
    assert!(fib.remove(name("/a/b/c/d/e/f").as_ref()));
    assert!(!fib.remove(name("/a/b/c/d/e/f").as_ref()));
    assert_eq!(found(&fib, long), Some((8, 3)));
    assert!(fib.remove(name("/a/b/c/d/e/f/g/h").as_ref()));
    assert_eq!(found(&fib, long), Some((4, 1)));
    assert!(fib.remove(name("/a/b/c/d").as_ref()));
    assert_eq!(found(&fib, long), None);
    assert_eq!((fib.len(), fib.next_hop_sets()), (0, 0));
    // Not even hints are left.
    assert_eq!(fib.lengths.of(&fib.ground, &Prefixes::of(&KEY, name(long).as_ref())), Behind::default());
}

#[test]
fn prefixes_of_32_components_and_names_beyond() {
    for middle in [None, Some(1), Some(16), Some(32)] {
        let mut fib = Fib::new(KEY, FibConfig { middle, ..FibConfig::new(10) });
        fib.set(deep(32).as_ref(), &[hop(300, 0)], StrategyId(0)).unwrap();
        fib.set(deep(3).as_ref(), &[hop(301, 0)], StrategyId(0)).unwrap();
        assert_eq!(fib.set(deep(33).as_ref(), &[], StrategyId(0)), Err(FibError::NameTooLong));
        assert_eq!(lookup(&fib, &deep(31)).unwrap().prefix_len, 3);
        for components in [32, 33, 40, 200] {
            assert_eq!(lookup(&fib, &deep(components)).unwrap().prefix_len, 32, "middle {middle:?}");
        }
        assert!(!fib.remove(deep(33).as_ref()));
        assert_eq!(fib.exact(deep(33).as_ref()), None);
        assert!(fib.remove(deep(32).as_ref()));
        assert_eq!(lookup(&fib, &deep(200)).unwrap().prefix_len, 3);
    }
}

#[test]
fn names_of_any_length_and_type() {
    let mut fib = fib(100);
    let longest = BLOCK_MAX - Entry::HEADER - 4;
    for len in [0, 1, 22, 23, 24, 55, 56, 246, 300, 8000, longest] {
        let name = Name::new().with_generic(vec![7; len]);
        fib.set(name.as_ref(), &[hop(len as u32 + 1, 0)], StrategyId(0)).unwrap();
        assert_eq!(lookup(&fib, &name.with_generic("x")).unwrap().next_hops, [hop(len as u32 + 1, 0)]);
    }
    let name = Name::new().with_generic(vec![7; longest + 1]);
    assert_eq!(fib.set(name.as_ref(), &[], StrategyId(0)), Err(FibError::NameTooLong));
    // Same octets, another type.
    let typed = Name::new().with_number(ComponentType::SEGMENT, 7);
    fib.set(typed.as_ref(), &[hop(1, 0)], StrategyId(0)).unwrap();
    assert!(fib.exact(typed.as_ref()).is_some());
    assert!(fib.exact(Name::new().with_generic([7]).as_ref()).is_some_and(|e| e.next_hops != [hop(1, 0)]));
}

#[test]
fn a_full_table_refuses_and_stays_whole() {
    let mut fib = fib(100);
    let numbered = |n: u32| Name::new().with_generic("p").with_generic(n.to_string());
    for n in 0..100 {
        fib.set(numbered(n).as_ref(), &[hop(n + 1, 0)], StrategyId(0)).unwrap();
    }
    assert_eq!(fib.set(numbered(100).as_ref(), &[], StrategyId(0)), Err(FibError::Full));
    assert_eq!((fib.len(), fib.next_hop_sets()), (100, 100));
    assert_eq!(fib.exact(numbered(100).as_ref()), None);
    // What is there can be replaced by sets that are there.
    fib.set(numbered(5).as_ref(), &[hop(50, 0)], StrategyId(3)).unwrap();
    assert!(fib.remove(numbered(7).as_ref()));
    fib.set(numbered(100).as_ref(), &[hop(8, 0)], StrategyId(0)).unwrap();
    for n in (0..=100).filter(|n| *n != 7) {
        assert_eq!(lookup(&fib, &numbered(n).with_generic("x")).unwrap().prefix_len, 2);
    }
}

#[test]
fn sets_and_bytes_are_bounded_too() {
    let config = FibConfig {
        next_hop_sets_max: 2,
        next_hops_per_prefix_max: 3,
        entry_bytes_max: 0,
        ..FibConfig::new(1 << 20)
    };
    let mut fib = Fib::on_ground(KEY, config, false);
    let hops = [hop(1, 1), hop(2, 1), hop(3, 1), hop(4, 1)];
    assert_eq!(fib.set(name("/a").as_ref(), &hops, StrategyId(0)), Err(FibError::TooManyNextHops));
    fib.set(name("/a").as_ref(), &hops[..3], StrategyId(0)).unwrap();
    fib.set(name("/b").as_ref(), &hops[..2], StrategyId(0)).unwrap();
    assert_eq!(fib.set(name("/c").as_ref(), &hops[..1], StrategyId(0)), Err(FibError::Full));
    let mut count = 2;
    while fib.set(deep(5).with_generic(count.to_string()).as_ref(), &hops[..2], StrategyId(0)).is_ok() {
        count += 1;
    }
    assert!(count < 40_000, "{count}");
    assert_eq!(fib.len(), count);
}

/// A hundred times as many names as fit, of changing sizes: nothing leaks, and the middle follows.
#[test]
fn churn_leaves_nothing_behind() {
    [false, true].into_iter().for_each(churn);
}

fn churn(has_rooms: bool) {
    let mut fib = Fib::on_ground(KEY, FibConfig::new(1000), has_rooms);
    let nth = |n: u32| {
        let components = 2 + n / 5000 % 11;
        (0..components).fold(Name::new(), |name, c| name.with_generic(format!("{c}-{n}")))
    };
    let mut touched = 0;
    for n in 0..100_000u32 {
        fib.set(nth(n).as_ref(), &[hop(n % 50 + 1, 0)], StrategyId(0)).unwrap();
        if n >= 900 {
            assert!(fib.remove(nth(n - 900).as_ref()));
        }
        if n == 60_000 {
            touched = fib.ground.slabs_touched();
        }
    }
    assert_eq!((fib.len(), fib.next_hop_sets()), (900, 50));
    assert_eq!(fib.ground.slabs_touched(), touched);
    let entries: Vec<Name> = fib.entries().into_iter().map(|(name, _)| name.to_name()).collect();
    assert!(entries.is_sorted());
    assert_eq!(fib.middle(), 2 + 99_999 / 5000 % 11);
    for name in &entries {
        assert!(fib.remove(name.as_ref()));
    }
    assert_eq!((fib.len(), fib.next_hop_sets()), (0, 0));
}

#[test]
fn the_middle_moves_while_lookups_go_on() {
    let mut fib = fib(5000);
    fib.set(Name::new().as_ref(), &[hop(1, 0)], StrategyId(0)).unwrap();
    let nth = |n: usize| deep(9).with_generic(n.to_string());
    for n in 0..5000 - 1 {
        fib.set(nth(n).as_ref(), &[hop(2, 0)], StrategyId(0)).unwrap();
        for m in [0, n / 2, n] {
            assert_eq!(lookup(&fib, &nth(m).with_generic("x")).unwrap().prefix_len, 10);
        }
    }
    assert_eq!(fib.middle(), 10);
    assert_eq!(lookup(&fib, &deep(9).with_generic("x")).unwrap().prefix_len, 0);
}

/// Whether the entry of a prefix stands in the page of its hint; whether there or near by.
fn stands(fib: &Fib, name: &Name) -> (bool, bool) {
    let prefixes = Prefixes::of(&KEY, name.as_ref());
    let block = fib.find(prefixes.whole(), name.as_ref().as_bytes()).unwrap();
    let page = fib.lengths.beside(&prefixes).unwrap() / ground::HINTS_PER_PAGE;
    let stands = fib.ground.page_of(block);
    (stands == Some(page), stands.is_some_and(|stands| rooms::Rooms::are_near(stands, page)))
}

/// Names of one length first, then of another, so that hints move away and back; and many behind one hint.
#[test]
fn entries_stand_beside_their_hints() {
    const COUNT: usize = 4800;
    let mut fib = Fib::on_ground(KEY, FibConfig::new(COUNT), true);
    let nth = |n: usize| {
        let name = Name::new().with_generic(format!("{n}"));
        (0..if n < COUNT / 2 { 2 } else { 5 }).fold(name, |name, c| name.with_generic(format!("{c}-{n}")))
    };
    let beside = |fib: &Fib, numbers: core::ops::Range<usize>| {
        numbers.map(|n| stands(fib, &nth(n))).fold((0, 0), |(there, near), (is_there, is_near)| {
            (there + usize::from(is_there), near + usize::from(is_near))
        })
    };
    for n in 0..COUNT / 2 {
        fib.set(nth(n).as_ref(), &[hop(1, 0)], StrategyId(0)).unwrap();
    }
    assert_eq!(fib.middle(), 3);
    let (there, near) = beside(&fib, 0..COUNT / 2);
    assert!(there > COUNT / 2 * 97 / 100 && near == COUNT / 2, "{there}, {near}");
    for n in COUNT / 2..COUNT {
        fib.set(nth(n).as_ref(), &[hop(2, 0)], StrategyId(0)).unwrap();
    }
    for n in 0..COUNT / 2 - 10 {
        assert!(fib.remove(nth(n).as_ref()));
    }
    // Time to move, and to come back.
    for n in 0..20_000 {
        fib.set(nth(COUNT - 1).as_ref(), &[hop(n % 7 + 1, 0)], StrategyId(0)).unwrap();
    }
    assert_eq!(fib.middle(), 6);
    assert!(fib.lengths.is_at_rest());
    let (there, near) = beside(&fib, COUNT / 2..COUNT);
    assert!(there > COUNT / 2 * 97 / 100 && near == COUNT / 2, "{there}, {near}");
    for n in COUNT / 2 - 10..COUNT {
        let entry = lookup(&fib, &nth(n).with_generic("x")).unwrap();
        assert_eq!(entry.prefix_len, nth(n).as_ref().len());
    }
}

/// Who asks for what is far, who doesn't, and who has no hint find the same.
#[test]
fn a_far_table_answers_as_a_near_one() {
    let (mut near, mut far) = (fib(NEAR_MAX), fib(NEAR_MAX + 1));
    assert!(!near.is_far() && far.is_far());
    for fib in [&mut near, &mut far] {
        for components in [0, 2, 5, 32] {
            fib.set(deep(components).as_ref(), &[hop(components as u32 + 1, 0)], StrategyId(0)).unwrap();
        }
    }
    for components in 0..40 {
        let name = deep(components);
        let prefixes = Prefixes::of(&KEY, name.as_ref());
        let found = |fib: &Fib| {
            let hint = FibHint::default();
            fib.prefetch_far(&prefixes);
            (0..Fib::PREFETCH_STAGES).for_each(|stage| fib.prefetch_hinted(stage, &prefixes, &hint));
            let hinted = fib.lookup_hinted(name.as_ref(), &prefixes, &hint).map(|entry| entry.prefix_len);
            assert_eq!(lookup(fib, &name).map(|entry| entry.prefix_len), hinted);
            hinted
        };
        let longest = [0, 2, 5, 32].into_iter().rfind(|len| *len <= components);
        assert_eq!((found(&near), found(&far)), (longest, longest));
    }
}

/// As full as may be: most entries stand by their hints, hardly any far from them; and all are found, those whose hints passed a full bucket too.
#[test]
fn a_full_table_has_its_entries_near_their_hints() {
    const COUNT: usize = 50_000;
    let mut fib = Fib::on_ground(KEY, FibConfig { middle: Some(2), ..FibConfig::new(COUNT) }, true);
    let nth = |n: usize| Name::new().with_generic(format!("{n}")).with_generic("a").with_generic("b");
    for n in 0..COUNT {
        fib.set(nth(n).as_ref(), &[hop(n as u32 + 1, 0)], StrategyId(0)).unwrap();
    }
    let (mut there, mut near, mut led) = (0, 0, 0);
    for n in 0..COUNT {
        let name = nth(n);
        let (is_there, is_near) = stands(&fib, &name);
        there += usize::from(is_there);
        near += usize::from(is_near);
        let prefixes = Prefixes::of(&KEY, name.as_ref());
        let block = fib.find(prefixes.whole(), name.as_ref().as_bytes()).unwrap();
        led += usize::from(fib.lengths.of(&fib.ground, &prefixes).lead == block + 1);
        assert_eq!(lookup(&fib, &name.with_generic("x")).unwrap().next_hops, [hop(n as u32 + 1, 0)]);
        assert_eq!(found(&fib, &format!("/{n}/a/c")), None);
    }
    let shares = [there, near, led].map(|count| count as f64 / COUNT as f64);
    assert!(shares[0] > 0.95 && shares[1] > 0.995 && shares[2] > 0.99, "{shares:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Set(Name, u32),
    Remove(Name),
    Lookup(Name),
}

/// Two letters, so that prefixes nest, and lengths on both sides of any middle.
fn nested_name() -> impl Strategy<Value = Name> {
    proptest::collection::vec(prop_oneof![6 => Just(0u8), 1 => Just(1u8)], 0..36)
        .prop_map(|letters| letters.iter().fold(Name::new(), |n, l| n.with_generic([*l])))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (nested_name(), 1u32..5).prop_map(|(n, f)| Step::Set(n, f)),
        3 => nested_name().prop_map(Step::Remove),
        3 => nested_name().prop_map(Step::Lookup),
    ];
    proptest::collection::vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Against an ordered map searched from the longest prefix down.
    #[test]
    fn is_a_map_by_longest_prefix(
        steps in steps(),
        prefixes_max in 1usize..60,
        middle in proptest::option::of(1usize..33),
        has_rooms: bool,
    ) {
        let mut fib = Fib::on_ground(KEY, FibConfig { middle, ..FibConfig::new(prefixes_max) }, has_rooms);
        let mut model: BTreeMap<Name, u32> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Set(name, face) => {
                    let result = fib.set(name.as_ref(), &[hop(face, face)], StrategyId(face as u8));
                    if name.as_ref().len() > PREFIXES_MAX {
                        prop_assert_eq!(result, Err(FibError::NameTooLong));
                    } else if result == Err(FibError::Full) {
                        // All prefixes, or all sets, are taken.
                        let sets = model.values().collect::<std::collections::BTreeSet<_>>().len();
                        prop_assert!(model.len() == prefixes_max || sets == prefixes_max);
                    } else {
                        prop_assert_eq!(result, Ok(()));
                        model.insert(name, face);
                    }
                }
                Step::Remove(name) => prop_assert_eq!(fib.remove(name.as_ref()), model.remove(&name).is_some()),
                Step::Lookup(name) => {
                    let wanted = (0..=name.as_ref().len()).rev().find_map(|count| {
                        let face = model.get(name.as_ref().prefix(count).as_bytes())?;
                        Some((count, vec![hop(*face, *face)], StrategyId(*face as u8)))
                    });
                    let found = lookup(&fib, &name).map(|e| (e.prefix_len, e.next_hops.to_vec(), e.strategy));
                    prop_assert_eq!(found, wanted);
                }
            }
            prop_assert_eq!(fib.len(), model.len());
        }
        let entries: Vec<(Name, u32)> = fib.entries().iter().map(|(n, e)| (n.to_name(), e.next_hops[0].cost)).collect();
        prop_assert_eq!(entries, model.into_iter().collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// A lookup with a hint finds what one without finds, though the FIB changes between stages.
    #[test]
    fn a_hint_changes_nothing(steps in steps(), change_before in 0usize..5, has_rooms: bool) {
        let mut fib = Fib::on_ground(KEY, FibConfig::new(60), has_rooms);
        for step in steps {
            match step {
                Step::Set(name, face) => _ = fib.set(name.as_ref(), &[hop(face, face)], StrategyId(0)),
                Step::Remove(name) => _ = fib.remove(name.as_ref()),
                Step::Lookup(name) => {
                    let prefixes = Prefixes::of(&KEY, name.as_ref());
                    let hint = FibHint::default();
                    for stage in 0..=Fib::PREFETCH_STAGES {
                        if stage == change_before {
                            let parent = name.as_ref().prefix(name.as_ref().len() / 2).to_name();
                            if !fib.remove(parent.as_ref()) {
                                _ = fib.set(parent.as_ref(), &[hop(7, 7)], StrategyId(1));
                            }
                        }
                        if stage < Fib::PREFETCH_STAGES {
                            fib.prefetch_hinted(stage, &prefixes, &hint);
                        }
                    }
                    let hinted = fib.lookup_hinted(name.as_ref(), &prefixes, &hint);
                    let plain = fib.lookup(name.as_ref(), &prefixes);
                    let parts = |e: FibEntry<'_>| (e.prefix_len, e.next_hops.to_vec(), e.strategy);
                    prop_assert_eq!(hinted.map(parts), plain.map(parts));
                }
            }
        }
    }
}

#[test]
fn a_hint_that_leads_to_another_prefix_is_seen_through() {
    let mut fib = fib(10);
    for (uri, face) in [("/a/b", 300), ("/c/d", 301)] {
        fib.set(name(uri).as_ref(), &[hop(face, 0)], StrategyId(0)).unwrap();
    }
    let hint_for = |uri: &str| {
        let (name, hint) = (name(uri), FibHint::default());
        let prefixes = Prefixes::of(&KEY, name.as_ref());
        (0..Fib::PREFETCH_STAGES).for_each(|stage| fib.prefetch_hinted(stage, &prefixes, &hint));
        (name, prefixes, hint)
    };
    let (asked, prefixes, hint) = hint_for("/a/b/x");
    let (_, _, other) = hint_for("/c/d/x");
    assert_ne!(hint.lead.get(), other.lead.get());
    // As if the tags of both were the same by chance.
    hint.lead.set(other.lead.get());
    let found = fib.lookup_hinted(asked.as_ref(), &prefixes, &hint).unwrap();
    assert_eq!(found.next_hops, [hop(300, 0)]);
}

/// Two FIBs that see the same packet, with as many changes each.
#[test]
fn a_hint_that_matches_by_chance_is_seen_through() {
    let mut fib = fib(4);
    fib.set(name("/only/one/of/its/kind").as_ref(), &[hop(300, 0)], StrategyId(0)).unwrap();
    let strangers = (0..20_000).map(|number| name(&format!("/some/other/name/{number}/x")));
    let mut led_astray = 0;
    for stranger in strangers {
        let prefixes = Prefixes::of(&KEY, stranger.as_ref());
        led_astray += u32::from(fib.lengths.of(&fib.ground, &prefixes).lead != 0);
        let hint = FibHint::default();
        (0..Fib::PREFETCH_STAGES).for_each(|stage| fib.prefetch_hinted(stage, &prefixes, &hint));
        assert_eq!(fib.lookup_hinted(stranger.as_ref(), &prefixes, &hint), None);
        assert_eq!(fib.lookup(stranger.as_ref(), &prefixes), None);
    }
    assert!(led_astray > 10, "{led_astray} of 20000 share a tag with the only prefix");
}

#[test]
fn a_hint_of_another_fib_is_none() {
    let [mut one, mut other] = [1, 2].map(|owner| Fib::new(KEY, FibConfig { owner, ..FibConfig::new(10) }));
    // Blocks of the same numbers, of other prefixes.
    for (uri, of_other, face) in [("/a", "/a/b/c", 300), ("/a/b", "/a", 301), ("/a/b/c", "/a/b", 302)] {
        one.set(name(uri).as_ref(), &[hop(face, 0)], StrategyId(0)).unwrap();
        other.set(name(of_other).as_ref(), &[hop(face, 0)], StrategyId(0)).unwrap();
    }
    other.remove(name("/a/b/c").as_ref());
    one.remove(name("/none").as_ref());
    assert_eq!(one.state as u32, other.state as u32, "as many changes");
    let asked = name("/a/b/c/d");
    let prefixes = Prefixes::of(&KEY, asked.as_ref());
    let hint = FibHint::default();
    for stage in 0..Fib::PREFETCH_STAGES {
        // As elements in a row ask, stage by stage.
        one.prefetch_hinted(stage, &prefixes, &hint);
        other.prefetch_hinted(stage, &prefixes, &hint);
    }
    let hinted = |fib: &Fib| {
        let entry = fib.lookup_hinted(asked.as_ref(), &prefixes, &hint).unwrap();
        (entry.prefix_len, entry.next_hops[0].face)
    };
    assert_eq!(hinted(&one), (3, FaceId::from_bits(302)));
    assert_eq!(hinted(&other), (2, FaceId::from_bits(302)));
    (1..Fib::PREFETCH_STAGES).for_each(|stage| one.prefetch_hinted(stage, &prefixes, &hint));
    assert_eq!((hinted(&one), hinted(&other)), ((3, FaceId::from_bits(302)), (2, FaceId::from_bits(302))));
}

#[test]
fn a_count_of_changes_that_begins_anew_is_never_none() {
    let mut fib = Fib::new(KEY, FibConfig { owner: 0, ..FibConfig::new(10) });
    fib.state = u64::from(u32::MAX);
    fib.set(name("/a").as_ref(), &[hop(300, 0)], StrategyId(0)).unwrap();
    assert_eq!(fib.state, 1, "0 is the state of no FIB");
    fib.remove(name("/a").as_ref());
    assert_eq!(fib.state, 2);
}

/// Whatever stands in a block: what its length says may end behind it.
#[test]
fn an_entry_cut_short_has_no_name() {
    let name = [7; 30];
    let mut block = [7; Entry::HEADER + 30];
    block[4..6].copy_from_slice(&30u16.to_le_bytes());
    assert!(Entry::has_name(&block, &name));
    assert!(!Entry::has_name(&block[..Entry::HEADER + 29], &name));
    assert!(!Entry::has_name(&block, &name[..29]));
}
