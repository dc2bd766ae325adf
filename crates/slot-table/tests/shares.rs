//! What the table promises: shares follow weights, only a member's own share moves, and nothing but members and seed matters.

use nw_name::{Component, ComponentType, HashKey, Name};
use nw_slot_table::{Effect, MEMBERS_MAX, Member, NO_MEMBER, Rule, RuleError, Rules, SLOTS, Table, where_is};
use proptest::prelude::*;

const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 5, 7]);

fn member(number: u8, weight: u32) -> Member {
    Member { number, id: KEY.step(KEY.root(), &[number; 9]), weight, takes_names: true }
}

fn equal(count: u8) -> Vec<Member> {
    (1..=count).map(|number| member(number, 100)).collect()
}

/// A member's slots over its fair share.
fn over_fair(table: &Table, members: &[Member], one: &Member) -> f64 {
    let total: f64 = members.iter().filter(|m| m.takes_names).map(|m| f64::from(m.weight)).sum();
    table.share(one.number) * total / f64::from(one.weight)
}

/// Slots that moved between members which both tables have.
fn moved_between_others(before: &Table, after: &Table, not: u8) -> f64 {
    let pairs = before.slots().iter().zip(after.slots());
    pairs.filter(|(a, b)| a != b && **a != not && **b != not).count() as f64 / SLOTS as f64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn shares_follow_weights(seed: u64, weights in proptest::collection::vec(1..20u32, 1..=63)) {
        let members: Vec<_> = (1..).zip(&weights).map(|(number, weight)| member(number, *weight)).collect();
        let table = Table::compute(&members, seed);
        let total: u32 = weights.iter().sum();
        for one in &members {
            let fair = SLOTS as f64 * f64::from(one.weight) / f64::from(total);
            let has = table.share(one.number) * SLOTS as f64;
            prop_assert!(has <= 1.02 * fair + 1.0 && has > fair - 6.0 * fair.sqrt(), "{one:?}: {has} of {fair}");
        }
        prop_assert!(table.slots().iter().all(|number| *number != NO_MEMBER));
    }

    #[test]
    fn the_order_of_members_does_not_matter(seed: u64, count in 1..=12u8, turn in 0..12usize) {
        let mut members = equal(count);
        let table = Table::compute(&members, seed);
        members.rotate_left(turn % usize::from(count));
        prop_assert_eq!(&Table::compute(&members, seed), &table);
        members.reverse();
        prop_assert_eq!(&Table::compute(&members, seed), &table);
    }

    /// Three and a fourth: its share moves to it, and nothing else moves.
    #[test]
    fn a_fourth_takes_its_share(seed: u64) {
        let (three, four) = (Table::compute(&equal(3), seed), Table::compute(&equal(4), seed));
        let moved = three.moved(&four);
        prop_assert!((0.24..=0.26).contains(&moved), "{moved}");
        let others = moved_between_others(&three, &four, 4);
        prop_assert!(others < 0.002, "{others}");
        for number in 1..=4 {
            prop_assert!((0.98..=1.02).contains(&(four.share(number) * 4.0)), "{}", four.share(number));
        }
    }

    /// Any member of any cluster that goes: what it had is shared out, and hardly anything else moves.
    #[test]
    fn one_that_goes_leaves_the_others_alone(seed: u64, count in 2..=63u8, gone in 0..63u8) {
        let mut members = equal(count);
        let before = Table::compute(&members, seed);
        let gone = usize::from(gone % count);
        members[gone].takes_names = false;
        let after = Table::compute(&members, seed);
        prop_assert_eq!(after.share(members[gone].number), 0.0);
        let others = moved_between_others(&before, &after, members[gone].number);
        prop_assert!(others < 0.015, "{others}");
        // It drains by weight 0 as well, and is away as if it had never been there.
        members[gone] = Member { weight: 0, takes_names: true, ..members[gone] };
        prop_assert_eq!(&Table::compute(&members, seed), &after);
        members.remove(gone);
        prop_assert_eq!(&Table::compute(&members, seed), &after);
    }

    #[test]
    fn names_spread_as_slots_do(seed: u64, key: [u64; 4], first in any::<u32>()) {
        let key = if seed.is_multiple_of(4) { KEY } else { HashKey::new(key) };
        let table = Table::compute(&equal(4), seed);
        let mut served = [0u32; 5];
        for number in 0..10_000u64 {
            let name: Name = format!("/{first}/segment/{number}").parse().unwrap();
            served[usize::from(where_is(name.as_ref(), &key, &Rules::default(), &table, 1).member)] += 1;
        }
        prop_assert!(served[1..].iter().all(|count| *count < 2700), "busiest above 1.08 of its share: {served:?}");
    }
}

#[test]
fn extremes() {
    let none = Table::compute(&[], 7);
    assert!(none.slots().iter().all(|number| *number == NO_MEMBER));
    assert_eq!(none, Table::compute(&[Member { takes_names: false, ..member(1, 5) }, member(2, 0)], 7));
    let alone = Table::compute(&[member(63, u32::MAX)], 7);
    assert_eq!((alone.share(63), none.moved(&alone)), (1.0, 1.0));
    let unequal = [member(1, 1), member(2, u32::MAX)];
    let table = Table::compute(&unequal, 7);
    assert!(table.share(1) < 0.001 && table.share(2) > 0.999, "{table:?}");
    let full: Vec<_> = (1..=MEMBERS_MAX).map(|number| member(number, u32::MAX)).collect();
    let table = Table::compute(&full, 7);
    assert!(full.iter().all(|one| over_fair(&table, &full, one) <= 1.021), "{table:?}");
    // What can't be is left out.
    let with_strangers = [&[member(0, 9), member(64, 9)][..], &equal(3), &[member(2, 50)]].concat();
    assert_eq!(Table::compute(&with_strangers, 7), Table::compute(&equal(3), 7));
    assert_ne!(Table::compute(&equal(3), 7), Table::compute(&equal(3), 8), "the seed matters");
    assert_eq!(Table::from_slots(table.slots()).as_ref(), Some(&table));
    assert_eq!(Table::from_slots(&[1; 7]), None);
}

/// The numbers that two balancers, of whatever version, have to agree on.
#[test]
fn golden_table() {
    let members = [member(1, 100), member(2, 50), member(7, 300)];
    let table = Table::compute(&members, 0x0123_4567_89ab_cdef);
    let sum = table.slots().iter().enumerate().fold(0u64, |sum, (slot, number)| {
        (sum ^ (u64::from(*number) << 32 | slot as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
    });
    assert_eq!(sum, GOLDEN, "{sum:#018x}");
}

const GOLDEN: u64 = 0x1295_1ed9_aff5_07b3;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn rule(prefix: &str, effect: Effect) -> Rule {
    Rule { prefix: name(prefix), effect }
}

#[test]
fn the_longest_rule_decides() {
    let rules = Rules::new([
        rule("/", Effect::Depth(4)),
        rule("/video", Effect::Depth(2)),
        rule("/video/live", Effect::Depth(3)),
        rule("/localhop/nfd", Effect::Control),
    ])
    .unwrap();
    let whole = |uri: &str| Rules::default().decide(name(uri).as_ref(), &KEY).hash;
    let said = |uri: &str| rules.decide(name(uri).as_ref(), &KEY);
    assert_eq!(said("/video/a/v=1/seg=2").hash, whole("/video/a"));
    assert_eq!(said("/video/live/now/seg=2").hash, whole("/video/live/now"));
    assert_eq!(said("/video").hash, whole("/video"), "shorter than its depth");
    assert_eq!(said("/a/b/c/d/e").hash, whole("/a/b/c/d"));
    assert_eq!(said("/localhop/nfd/rib/register").hash, None);
    assert_eq!(said("/localhop/nfd").hash, None);
    assert_ne!(said("/localhop/nfdx").hash, None);
    let prefixes: Vec<_> = rules.iter().map(|(prefix, _)| prefix.to_name().to_string()).collect();
    assert_eq!(prefixes[said("/video/live/x").rule.unwrap()], "/video/live");
    // A digest at the end is not in the depth.
    let digest = Component::new(ComponentType::IMPLICIT_DIGEST, &[7; 32]).unwrap();
    let exact = name("/video").with(digest);
    assert_eq!(rules.decide(exact.as_ref(), &KEY).hash, whole("/video"));
    let table = Table::compute(&equal(3), 7);
    let served = where_is(name("/localhop/nfd/x").as_ref(), &KEY, &rules, &table, 2);
    assert_eq!((served.member, served.slot), (2, None));
}

#[test]
fn rules_that_can_not_be() {
    let refused = |prefix: Name, effect| Rules::new([Rule { prefix, effect }]).unwrap_err();
    let long = (0..17).fold(Name::new(), |name, _| name.with_generic(b"a"));
    assert!(matches!(refused(long, Effect::Control), RuleError::PrefixTooLong(_)));
    assert!(matches!(
        refused(Name::new().with_generic([7; 600]), Effect::Control),
        RuleError::PrefixTooLong(_)
    ));
    let digest = Component::new(ComponentType::IMPLICIT_DIGEST, &[7; 32]).unwrap();
    assert!(matches!(refused(name("/a").with(digest), Effect::Control), RuleError::DigestAtEnd(_)));
    assert!(matches!(refused(name("/a/b"), Effect::Depth(1)), RuleError::Depth { depth: 1, .. }));
    assert!(matches!(refused(name("/a"), Effect::Depth(17)), RuleError::Depth { depth: 17, .. }));
    let twice = Rules::new([rule("/a", Effect::Control), rule("/a", Effect::Depth(2))]).unwrap_err();
    assert_eq!(twice.to_string(), "there are two rules for /a; take one away");
    let many = (0..=Rules::MAX).map(|number| rule(&format!("/{number}"), Effect::Control));
    assert_eq!(Rules::new(many).unwrap_err(), RuleError::TooMany);
}
