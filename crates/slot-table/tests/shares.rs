//! Properties of the slot table: shares follow weights, only the share of the changed member moves,
//! and the table depends on members and seed only.

use nw_name::{Component, ComponentType, HashKey, Name};
use nw_slot_table::{
    Effect, MEMBERS_MAX, Member, NO_MEMBER, Rule, RuleError, Rules, SLOTS, Table, locate_name,
};
use proptest::prelude::*;

const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 5, 7]);

fn member(number: u8, weight: u32) -> Member {
    Member { number, id: KEY.step(KEY.root(), &[number; 9]), weight, accepts_names: true }
}

fn equal(count: u8) -> Vec<Member> {
    (1..=count).map(|number| member(number, 100)).collect()
}

/// Returns a member's slots divided by its fair share.
fn over_fair(table: &Table, members: &[Member], member: &Member) -> f64 {
    let total: f64 = members.iter().filter(|m| m.accepts_names).map(|m| f64::from(m.weight)).sum();
    table.share(member.number) * total / f64::from(member.weight)
}

/// Returns the fraction of slots that moved between members other than `changed`.
fn moved_between_others(before: &Table, after: &Table, changed: u8) -> f64 {
    let pairs = before.slots().iter().zip(after.slots());
    pairs.filter(|(a, b)| a != b && **a != changed && **b != changed).count() as f64 / SLOTS as f64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn table_any_weights_shares_proportional(
        seed: u64,
        weights in proptest::collection::vec(1..20u32, 1..=63),
    ) {
        let members: Vec<_> =
            (1..).zip(&weights).map(|(number, weight)| member(number, *weight)).collect();
        let table = Table::compute(&members, seed);
        let total: u32 = weights.iter().sum();
        for member in &members {
            let fair = SLOTS as f64 * f64::from(member.weight) / f64::from(total);
            let has = table.share(member.number) * SLOTS as f64;
            prop_assert!(
                has <= 1.02 * fair + 1.0 && has > fair - 6.0 * fair.sqrt(),
                "{member:?}: {has} of {fair}"
            );
        }
        prop_assert!(table.slots().iter().all(|number| *number != NO_MEMBER));
    }

    #[test]
    fn table_members_reordered_is_equal(seed: u64, count in 1..=12u8, turn in 0..12usize) {
        let mut members = equal(count);
        let table = Table::compute(&members, seed);
        members.rotate_left(turn % usize::from(count));
        prop_assert_eq!(&Table::compute(&members, seed), &table);
        members.reverse();
        prop_assert_eq!(&Table::compute(&members, seed), &table);
    }

    /// A fourth member joins three: its share moves to it, and nothing else moves.
    #[test]
    fn table_member_joins_only_its_share_moves(seed: u64) {
        let (three, four) = (Table::compute(&equal(3), seed), Table::compute(&equal(4), seed));
        let moved = three.moved_fraction(&four);
        prop_assert!((0.24..=0.26).contains(&moved), "{moved}");
        let others = moved_between_others(&three, &four, 4);
        prop_assert!(others < 0.002, "{others}");
        for number in 1..=4 {
            prop_assert!(
                (0.98..=1.02).contains(&(four.share(number) * 4.0)),
                "{}",
                four.share(number)
            );
        }
    }

    /// Any member of any cluster leaves: its share is distributed, and hardly anything else moves.
    #[test]
    fn table_member_leaves_only_its_share_moves(seed: u64, count in 2..=63u8, leaving in 0..63u8) {
        let mut members = equal(count);
        let before = Table::compute(&members, seed);
        let leaving = usize::from(leaving % count);
        members[leaving].accepts_names = false;
        let after = Table::compute(&members, seed);
        prop_assert_eq!(after.share(members[leaving].number), 0.0);
        let others = moved_between_others(&before, &after, members[leaving].number);
        prop_assert!(others < 0.015, "{others}");
        // Weight 0 has the same effect, and so has removing the member.
        members[leaving] = Member { weight: 0, accepts_names: true, ..members[leaving] };
        prop_assert_eq!(&Table::compute(&members, seed), &after);
        members.remove(leaving);
        prop_assert_eq!(&Table::compute(&members, seed), &after);
    }

    #[test]
    fn table_numbered_names_spread_evenly(seed: u64, key: [u64; 4], first in any::<u32>()) {
        let key = if seed.is_multiple_of(4) { KEY } else { HashKey::new(key) };
        let table = Table::compute(&equal(4), seed);
        let mut served = [0u32; 5];
        for number in 0..10_000u64 {
            let name: Name = format!("/{first}/segment/{number}").parse().unwrap();
            served[usize::from(
                locate_name(name.as_ref(), &key, &Rules::default(), &table, 1).member,
            )] += 1;
        }
        prop_assert!(
            served[1..].iter().all(|count| *count < 2700),
            "busiest above 1.08 of its share: {served:?}"
        );
    }
}

#[test]
fn table_extreme_members_are_handled() {
    let none = Table::compute(&[], 7);
    assert!(none.slots().iter().all(|number| *number == NO_MEMBER));
    assert_eq!(
        none,
        Table::compute(&[Member { accepts_names: false, ..member(1, 5) }, member(2, 0)], 7)
    );
    let alone = Table::compute(&[member(63, u32::MAX)], 7);
    assert_eq!((alone.share(63), none.moved_fraction(&alone)), (1.0, 1.0));
    let unequal = [member(1, 1), member(2, u32::MAX)];
    let table = Table::compute(&unequal, 7);
    assert!(table.share(1) < 0.001 && table.share(2) > 0.999, "{table:?}");
    let full: Vec<_> = (1..=MEMBERS_MAX).map(|number| member(number, u32::MAX)).collect();
    let table = Table::compute(&full, 7);
    assert!(full.iter().all(|member| over_fair(&table, &full, member) <= 1.021), "{table:?}");
    // Numbers out of range and repeated numbers are ignored.
    let with_invalid = [&[member(0, 9), member(64, 9)][..], &equal(3), &[member(2, 50)]].concat();
    assert_eq!(Table::compute(&with_invalid, 7), Table::compute(&equal(3), 7));
    assert_ne!(Table::compute(&equal(3), 7), Table::compute(&equal(3), 8), "the seed matters");
}

/// Balancers of all versions must compute this table.
#[test]
fn table_golden_members_matches_checksum() {
    let members = [member(1, 100), member(2, 50), member(7, 300)];
    let table = Table::compute(&members, 0x0123_4567_89ab_cdef);
    let sum = table.slots().iter().enumerate().fold(0u64, |sum, (slot, number)| {
        (sum ^ (u64::from(*number) << 32 | slot as u64))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(17)
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
fn rules_nested_prefixes_longest_decides() {
    let rules = Rules::new([
        rule("/", Effect::Depth(4)),
        rule("/video", Effect::Depth(2)),
        rule("/video/live", Effect::Depth(3)),
        rule("/localhop/nfd", Effect::Control),
    ])
    .unwrap();
    let full_hash = |uri: &str| Rules::default().decide(name(uri).as_ref(), &KEY).hash;
    let decide = |uri: &str| rules.decide(name(uri).as_ref(), &KEY);
    assert_eq!(decide("/video/a/v=1/seg=2").hash, full_hash("/video/a"));
    assert_eq!(decide("/video/live/now/seg=2").hash, full_hash("/video/live/now"));
    assert_eq!(decide("/video").hash, full_hash("/video"), "shorter than its depth");
    assert_eq!(decide("/a/b/c/d/e").hash, full_hash("/a/b/c/d"));
    assert_eq!(decide("/localhop/nfd/rib/register").hash, None);
    assert_eq!(decide("/localhop/nfd").hash, None);
    assert_ne!(decide("/localhop/nfdx").hash, None);
    let prefixes: Vec<_> = rules.iter().map(|(prefix, _)| prefix.to_name().to_string()).collect();
    assert_eq!(prefixes[decide("/video/live/x").rule.unwrap()], "/video/live");
    // An implicit digest is not hashed.
    let digest = Component::new(ComponentType::IMPLICIT_DIGEST, &[7; 32]).unwrap();
    let exact = name("/video").with(digest);
    assert_eq!(rules.decide(exact.as_ref(), &KEY).hash, full_hash("/video"));
    let table = Table::compute(&equal(3), 7);
    let served = locate_name(name("/localhop/nfd/x").as_ref(), &KEY, &rules, &table, 2);
    assert_eq!((served.member, served.slot), (2, None));
}

#[test]
fn rules_invalid_rule_returns_error() {
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
    let twice =
        Rules::new([rule("/a", Effect::Control), rule("/a", Effect::Depth(2))]).unwrap_err();
    assert_eq!(twice.to_string(), "two rules for /a; remove one");
    let many = (0..=Rules::MAX).map(|number| rule(&format!("/{number}"), Effect::Control));
    assert_eq!(Rules::new(many).unwrap_err(), RuleError::TooMany);
}
