//! Tests of the whole FIB: lookups, limits, start depth, placement of entries, probes; and a model
//! test.

use super::*;
use crate::test_util::KEY;
use nw_name::{Name, component::ComponentType};
use proptest::prelude::*;
use std::collections::BTreeMap;

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
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    (0..Fib::PREFETCH_STAGES).for_each(|stage| fib.prefetch(stage, &prefixes));
    fib.lookup(name.as_ref(), &prefixes)
}

/// The length of the longest prefix, and its first face.
fn found(fib: &Fib, uri: &str) -> Option<(usize, u64)> {
    lookup(fib, &name(uri))
        .map(|e| (e.prefix_len, e.next_hops.first().map_or(0, |h| h.face.number())))
}

fn deep(components: usize) -> Name {
    (0..components).fold(Name::new(), |n, c| n.with_generic(c.to_string()))
}

#[test]
fn lookup_nested_prefixes_returns_longest() {
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
fn set_same_prefix_replaces_route() {
    let mut fib = fib(10);
    let prefix = name("/a/b");
    fib.set(prefix.as_ref(), &[hop(300, 9), hop(302, 5), hop(301, 5), hop(300, 2)], StrategyId(1))
        .unwrap();
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
fn remove_prefix_uncovers_shorter_one() {
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
    // The length table is empty too.
    assert_eq!(
        fib.depth_index.candidates(&fib.arena, &PrefixHashes::of(&KEY, name(long).as_ref())),
        LengthCandidates::default()
    );
}

#[test]
fn lookup_name_longer_than_32_components_finds_prefix() {
    for start_depth in [None, Some(1), Some(16), Some(32)] {
        let mut fib = Fib::new(KEY, FibConfig { start_depth, ..FibConfig::new(10) });
        fib.set(deep(32).as_ref(), &[hop(300, 0)], StrategyId(0)).unwrap();
        fib.set(deep(3).as_ref(), &[hop(301, 0)], StrategyId(0)).unwrap();
        assert_eq!(fib.set(deep(33).as_ref(), &[], StrategyId(0)), Err(FibError::NameTooLong));
        assert_eq!(lookup(&fib, &deep(31)).unwrap().prefix_len, 3);
        for components in [32, 33, 40, 200] {
            assert_eq!(
                lookup(&fib, &deep(components)).unwrap().prefix_len,
                32,
                "start_depth {start_depth:?}"
            );
        }
        assert!(!fib.remove(deep(33).as_ref()));
        assert_eq!(fib.exact(deep(33).as_ref()), None);
        assert!(fib.remove(deep(32).as_ref()));
        assert_eq!(lookup(&fib, &deep(200)).unwrap().prefix_len, 3);
    }
}

#[test]
fn set_any_name_length_is_found() {
    let mut fib = fib(100);
    let longest = BLOCK_MAX - Entry::HEADER - 4;
    for len in [0, 1, 22, 23, 24, 55, 56, 246, 300, 8000, longest] {
        let name = Name::new().with_generic(vec![7; len]);
        fib.set(name.as_ref(), &[hop(len as u32 + 1, 0)], StrategyId(0)).unwrap();
        assert_eq!(
            lookup(&fib, &name.with_generic("x")).unwrap().next_hops,
            [hop(len as u32 + 1, 0)]
        );
    }
    let name = Name::new().with_generic(vec![7; longest + 1]);
    assert_eq!(fib.set(name.as_ref(), &[], StrategyId(0)), Err(FibError::NameTooLong));
    // The same bytes with another type.
    let typed = Name::new().with_number(ComponentType::SEGMENT, 7);
    fib.set(typed.as_ref(), &[hop(1, 0)], StrategyId(0)).unwrap();
    assert!(fib.exact(typed.as_ref()).is_some());
    assert!(
        fib.exact(Name::new().with_generic([7]).as_ref())
            .is_some_and(|e| e.next_hops != [hop(1, 0)])
    );
}

#[test]
fn set_full_fib_changes_nothing() {
    let mut fib = fib(100);
    let numbered = |n: u32| Name::new().with_generic("p").with_generic(n.to_string());
    for n in 0..100 {
        fib.set(numbered(n).as_ref(), &[hop(n + 1, 0)], StrategyId(0)).unwrap();
    }
    assert_eq!(fib.set(numbered(100).as_ref(), &[], StrategyId(0)), Err(FibError::Full));
    assert_eq!((fib.len(), fib.next_hop_sets()), (100, 100));
    assert_eq!(fib.exact(numbered(100).as_ref()), None);
    // Existing prefixes can be changed to existing sets of next hops.
    fib.set(numbered(5).as_ref(), &[hop(50, 0)], StrategyId(3)).unwrap();
    assert!(fib.remove(numbered(7).as_ref()));
    fib.set(numbered(100).as_ref(), &[hop(8, 0)], StrategyId(0)).unwrap();
    for n in (0..=100).filter(|n| *n != 7) {
        assert_eq!(lookup(&fib, &numbered(n).with_generic("x")).unwrap().prefix_len, 2);
    }
}

#[test]
fn set_next_hops_and_bytes_over_limit_return_error() {
    let config = FibConfig {
        next_hop_sets_max: 2,
        next_hops_per_prefix_max: 3,
        entry_bytes_max: 0,
        ..FibConfig::new(1 << 20)
    };
    let mut fib = Fib::with_arena(KEY, config, false);
    let hops = [hop(1, 1), hop(2, 1), hop(3, 1), hop(4, 1)];
    assert_eq!(fib.set(name("/a").as_ref(), &hops, StrategyId(0)), Err(FibError::TooManyNextHops));
    fib.set(name("/a").as_ref(), &hops[..3], StrategyId(0)).unwrap();
    fib.set(name("/b").as_ref(), &hops[..2], StrategyId(0)).unwrap();
    assert_eq!(fib.set(name("/c").as_ref(), &hops[..1], StrategyId(0)), Err(FibError::Full));
    let mut count = 2;
    while fib
        .set(deep(5).with_generic(count.to_string()).as_ref(), &hops[..2], StrategyId(0))
        .is_ok()
    {
        count += 1;
    }
    assert!(count < 40_000, "{count}");
    assert_eq!(fib.len(), count);
}

/// A hundred times as many names as fit, of changing lengths: nothing leaks, and the start depth
/// follows.
#[test]
fn churn_any_lengths_leaks_nothing() {
    [false, true].into_iter().for_each(churn);
}

fn churn(has_page_slots: bool) {
    let mut fib = Fib::with_arena(KEY, FibConfig::new(1000), has_page_slots);
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
            touched = fib.arena.slabs_used();
        }
    }
    assert_eq!((fib.len(), fib.next_hop_sets()), (900, 50));
    assert_eq!(fib.arena.slabs_used(), touched);
    let entries: Vec<Name> = fib.entries().into_iter().map(|(name, _)| name.to_name()).collect();
    assert!(entries.is_sorted());
    assert_eq!(fib.start_depth(), 2 + 99_999 / 5000 % 11);
    for name in &entries {
        assert!(fib.remove(name.as_ref()));
    }
    assert_eq!((fib.len(), fib.next_hop_sets()), (0, 0));
}

#[test]
fn start_depth_changing_lookups_stay_correct() {
    let mut fib = fib(5000);
    fib.set(Name::new().as_ref(), &[hop(1, 0)], StrategyId(0)).unwrap();
    let nth = |n: usize| deep(9).with_generic(n.to_string());
    for n in 0..5000 - 1 {
        fib.set(nth(n).as_ref(), &[hop(2, 0)], StrategyId(0)).unwrap();
        for m in [0, n / 2, n] {
            assert_eq!(lookup(&fib, &nth(m).with_generic("x")).unwrap().prefix_len, 10);
        }
    }
    assert_eq!(fib.start_depth(), 10);
    assert_eq!(lookup(&fib, &deep(9).with_generic("x")).unwrap().prefix_len, 0);
}

/// Whether an entry is in the page of its bucket; whether it is there or in a neighbour page.
fn placement(fib: &Fib, name: &Name) -> (bool, bool) {
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    let handle = fib.find(prefixes.full_hash(), name.as_ref().as_bytes()).unwrap();
    let page = fib.depth_index.preferred_bucket(&prefixes).unwrap() / arena::BUCKETS_PER_PAGE;
    let page_of_entry = fib.arena.page_of(handle);
    (
        page_of_entry == Some(page),
        page_of_entry.is_some_and(|other| page_slots::PageSlots::are_neighbours(other, page)),
    )
}

/// Names of one length first, then of another, so that the start depth changes; many prefixes below
/// one bucket.
#[test]
fn entries_after_rebuild_are_in_page_of_bucket() {
    const COUNT: usize = 4800;
    let mut fib = Fib::with_arena(KEY, FibConfig::new(COUNT), true);
    let nth = |n: usize| {
        let name = Name::new().with_generic(format!("{n}"));
        (0..if n < COUNT / 2 { 2 } else { 5 })
            .fold(name, |name, c| name.with_generic(format!("{c}-{n}")))
    };
    let count_placed = |fib: &Fib, numbers: core::ops::Range<usize>| {
        numbers.map(|n| placement(fib, &nth(n))).fold(
            (0, 0),
            |(in_page, near_page), (is_in_page, is_near)| {
                (in_page + usize::from(is_in_page), near_page + usize::from(is_near))
            },
        )
    };
    for n in 0..COUNT / 2 {
        fib.set(nth(n).as_ref(), &[hop(1, 0)], StrategyId(0)).unwrap();
    }
    assert_eq!(fib.start_depth(), 3);
    let (in_page, near_page) = count_placed(&fib, 0..COUNT / 2);
    assert!(in_page > COUNT / 2 * 97 / 100 && near_page == COUNT / 2, "{in_page}, {near_page}");
    for n in COUNT / 2..COUNT {
        fib.set(nth(n).as_ref(), &[hop(2, 0)], StrategyId(0)).unwrap();
    }
    for n in 0..COUNT / 2 - 10 {
        assert!(fib.remove(nth(n).as_ref()));
    }
    // Enough changes for both rebuilds.
    for n in 0..20_000 {
        fib.set(nth(COUNT - 1).as_ref(), &[hop(n % 7 + 1, 0)], StrategyId(0)).unwrap();
    }
    assert_eq!(fib.start_depth(), 6);
    assert!(fib.depth_index.is_idle());
    let (in_page, near_page) = count_placed(&fib, COUNT / 2..COUNT);
    assert!(in_page > COUNT / 2 * 97 / 100 && near_page == COUNT / 2, "{in_page}, {near_page}");
    for n in COUNT / 2 - 10..COUNT {
        let entry = lookup(&fib, &nth(n).with_generic("x")).unwrap();
        assert_eq!(entry.prefix_len, nth(n).as_ref().len());
    }
}

/// Returns what all stages find for a name.
fn probe_for(fib: &Fib, prefixes: &PrefixHashes) -> FibProbe {
    let mut probe = FibProbe::default();
    (0..Fib::PREFETCH_STAGES).for_each(|stage| fib.advance(stage, prefixes, &mut probe));
    probe
}

/// With and without the page pass, and without a probe, a lookup finds the same.
#[test]
fn prefetch_pages_large_fib_lookup_unchanged() {
    let (mut near, mut far) = (fib(TLB_REACH_PREFIXES), fib(TLB_REACH_PREFIXES + 1));
    assert!(!near.exceeds_tlb_reach() && far.exceeds_tlb_reach());
    for fib in [&mut near, &mut far] {
        for components in [0, 2, 5, 32] {
            fib.set(deep(components).as_ref(), &[hop(components as u32 + 1, 0)], StrategyId(0))
                .unwrap();
        }
    }
    for components in 0..40 {
        let name = deep(components);
        let prefixes = PrefixHashes::of(&KEY, name.as_ref());
        let found = |fib: &Fib| {
            fib.prefetch_pages(&prefixes);
            let probe = probe_for(fib, &prefixes);
            let with_probe =
                fib.resolve(name.as_ref(), &prefixes, &probe).map(|entry| entry.prefix_len);
            assert_eq!(lookup(fib, &name).map(|entry| entry.prefix_len), with_probe);
            with_probe
        };
        let longest = [0, 2, 5, 32].into_iter().rfind(|len| *len <= components);
        assert_eq!((found(&near), found(&far)), (longest, longest));
    }
}

/// A full FIB: most entries are in the page of their bucket and nearly all near it; all are found,
/// also those behind a full bucket.
#[test]
fn full_fib_entries_are_near_their_buckets() {
    const COUNT: usize = 50_000;
    let mut fib =
        Fib::with_arena(KEY, FibConfig { start_depth: Some(2), ..FibConfig::new(COUNT) }, true);
    let nth =
        |n: usize| Name::new().with_generic(format!("{n}")).with_generic("a").with_generic("b");
    for n in 0..COUNT {
        fib.set(nth(n).as_ref(), &[hop(n as u32 + 1, 0)], StrategyId(0)).unwrap();
    }
    let (mut in_page, mut near, mut direct) = (0, 0, 0);
    for n in 0..COUNT {
        let name = nth(n);
        let (is_in_page, is_near) = placement(&fib, &name);
        in_page += usize::from(is_in_page);
        near += usize::from(is_near);
        let prefixes = PrefixHashes::of(&KEY, name.as_ref());
        let handle = fib.find(prefixes.full_hash(), name.as_ref().as_bytes()).unwrap();
        direct += usize::from(
            fib.depth_index.candidates(&fib.arena, &prefixes).direct_entry == handle + 1,
        );
        assert_eq!(
            lookup(&fib, &name.with_generic("x")).unwrap().next_hops,
            [hop(n as u32 + 1, 0)]
        );
        assert_eq!(found(&fib, &format!("/{n}/a/c")), None);
    }
    let shares = [in_page, near, direct].map(|count| count as f64 / COUNT as f64);
    assert!(shares[0] > 0.95 && shares[1] > 0.995 && shares[2] > 0.99, "{shares:?}");
}

#[derive(Clone, Debug)]
enum Step {
    Set(Name, u32),
    Remove(Name),
    Lookup(Name),
}

/// Two letters, so that prefixes nest, with lengths below and above any start depth.
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
    fn fib_any_operations_equals_model(
        steps in steps(),
        prefixes_max in 1usize..60,
        start_depth in proptest::option::of(1usize..33),
        has_page_slots: bool,
    ) {
        let mut fib = Fib::with_arena(
            KEY,
            FibConfig { start_depth, ..FibConfig::new(prefixes_max) },
            has_page_slots,
        );
        let mut model: BTreeMap<Name, u32> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Set(name, face) => {
                    let result = fib.set(name.as_ref(), &[hop(face, face)], StrategyId(face as u8));
                    if name.as_ref().len() > PREFIXES_MAX {
                        prop_assert_eq!(result, Err(FibError::NameTooLong));
                    } else if result == Err(FibError::Full) {
                        // All prefixes, or all sets of next hops, are used.
                        let sets = model.values().collect::<std::collections::BTreeSet<_>>().len();
                        prop_assert!(model.len() == prefixes_max || sets == prefixes_max);
                    } else {
                        prop_assert_eq!(result, Ok(()));
                        model.insert(name, face);
                    }
                }
                Step::Remove(name) => {
                    prop_assert_eq!(fib.remove(name.as_ref()), model.remove(&name).is_some())
                }
                Step::Lookup(name) => {
                    let wanted = (0..=name.as_ref().len()).rev().find_map(|count| {
                        let face = model.get(name.as_ref().prefix(count).as_bytes())?;
                        Some((count, vec![hop(*face, *face)], StrategyId(*face as u8)))
                    });
                    let found = lookup(&fib, &name)
                        .map(|e| (e.prefix_len, e.next_hops.to_vec(), e.strategy));
                    prop_assert_eq!(found, wanted);
                }
            }
            prop_assert_eq!(fib.len(), model.len());
        }
        let entries: Vec<(Name, u32)> =
            fib.entries().iter().map(|(n, e)| (n.to_name(), e.next_hops[0].cost)).collect();
        prop_assert_eq!(entries, model.into_iter().collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// A lookup with a probe finds what one without finds, even if the FIB changes between stages.
    #[test]
    fn lookup_with_any_probe_equals_lookup(
        steps in steps(),
        change_before in 0usize..5,
        has_page_slots: bool,
    ) {
        let mut fib = Fib::with_arena(KEY, FibConfig::new(60), has_page_slots);
        for step in steps {
            match step {
                Step::Set(name, face) => {
                    _ = fib.set(name.as_ref(), &[hop(face, face)], StrategyId(0))
                }
                Step::Remove(name) => _ = fib.remove(name.as_ref()),
                Step::Lookup(name) => {
                    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
                    let mut probe = FibProbe::default();
                    for stage in 0..=Fib::PREFETCH_STAGES {
                        if stage == change_before {
                            let parent = name.as_ref().prefix(name.as_ref().len() / 2).to_name();
                            if !fib.remove(parent.as_ref()) {
                                _ = fib.set(parent.as_ref(), &[hop(7, 7)], StrategyId(1));
                            }
                        }
                        if stage < Fib::PREFETCH_STAGES {
                            fib.advance(stage, &prefixes, &mut probe);
                        }
                    }
                    let with_probe = fib.resolve(name.as_ref(), &prefixes, &probe);
                    let without_probe = fib.lookup(name.as_ref(), &prefixes);
                    let parts = |e: FibEntry<'_>| (e.prefix_len, e.next_hops.to_vec(), e.strategy);
                    prop_assert_eq!(with_probe.map(parts), without_probe.map(parts));
                }
            }
        }
    }
}

#[test]
fn probe_direct_entry_of_other_prefix_is_ignored() {
    let mut fib = fib(10);
    for (uri, face) in [("/a/b", 300), ("/c/d", 301)] {
        fib.set(name(uri).as_ref(), &[hop(face, 0)], StrategyId(0)).unwrap();
    }
    let named = |uri: &str| {
        let name = name(uri);
        let prefixes = PrefixHashes::of(&KEY, name.as_ref());
        let probe = probe_for(&fib, &prefixes);
        (name, prefixes, probe)
    };
    let (wanted, prefixes, mut probe) = named("/a/b/x");
    let (_, _, other) = named("/c/d/x");
    assert_ne!(probe.candidates.direct_entry, other.candidates.direct_entry);
    // As if the tags of both were equal by chance.
    probe.candidates.direct_entry = other.candidates.direct_entry;
    let found = fib.resolve(wanted.as_ref(), &prefixes, &probe).unwrap();
    assert_eq!(found.next_hops, [hop(300, 0)]);
}

/// A direct entry with another name is not returned.
#[test]
fn probe_false_match_is_ignored() {
    let mut fib = fib(4);
    fib.set(name("/only/one/of/its/kind").as_ref(), &[hop(300, 0)], StrategyId(0)).unwrap();
    let others = (0..20_000).map(|number| name(&format!("/some/other/name/{number}/x")));
    let mut false_matches = 0;
    for other in others {
        let prefixes = PrefixHashes::of(&KEY, other.as_ref());
        false_matches +=
            u32::from(fib.depth_index.candidates(&fib.arena, &prefixes).direct_entry != 0);
        let probe = probe_for(&fib, &prefixes);
        assert_eq!(fib.resolve(other.as_ref(), &prefixes, &probe), None);
        assert_eq!(fib.lookup(other.as_ref(), &prefixes), None);
    }
    assert!(false_matches > 10, "{false_matches} of 20000 share a tag with the only prefix");
}

/// Of any content: the length in the header may exceed the block.
#[test]
fn entry_truncated_has_no_name() {
    let name = [7; 30];
    let mut block = [7; Entry::HEADER + 30];
    block[4..6].copy_from_slice(&30u16.to_le_bytes());
    assert!(Entry::is_named(&block, &name));
    assert!(!Entry::is_named(&block[..Entry::HEADER + 29], &name));
    assert!(!Entry::is_named(&block, &name[..29]));
}
