//! Computes the slot table from the members. Pure, so that two balancers with the same file compute
//! the same table without communication.

use crate::config::RuleItem;
use crate::members::Members;
use nw_name::{HashKey, Name};
use nw_slot_table::{Effect, Rule, RuleError, Rules, Table};

/// Returns the identity of a member in the slot table: the first 8 bytes of the SHA-256 of its
/// name.
pub fn id_of(name: &str) -> u64 {
    let digest = nw_wire::sha256(&[name.as_bytes()]);
    u64::from_le_bytes(core::array::from_fn(|at| digest[at]))
}

/// Returns the slot table of the members that take names now.
pub fn table(members: &Members, key: &HashKey) -> Table {
    let serving = members.serving();
    let member = |member: &crate::members::Member| nw_slot_table::Member {
        number: member.number,
        id: id_of(&member.item.name),
        weight: members.weight(member),
        accepts_names: serving.contains(&member.number),
    };
    let list: Vec<_> = members.iter().map(member).collect();
    Table::compute(&list, key.words()[0])
}

/// Returns the configured rules, and the implicit one that sends `/localhop/nfd` commands to the
/// control member.
///
/// # Errors
/// The first invalid rule.
pub fn rules(items: &[RuleItem]) -> Result<Rules, RuleError> {
    let mut rules = Rules::new(items.iter().map(|item| Rule {
        prefix: item.prefix.clone(),
        effect: item.depth.map_or(Effect::Control, |depth| Effect::Depth(depth.min(255) as u8)),
    }))?;
    let commands = Name::new().with_generic("localhop").with_generic("nfd");
    match rules.add(Rule { prefix: commands, effect: Effect::Control }) {
        // An explicit rule for this prefix takes precedence.
        Err(RuleError::Duplicate(_)) | Ok(()) => Ok(rules),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Ip, MemberItem, Weight};
    use crate::members::Timeouts;
    use core::time::Duration;
    use nw_api::balancer::MemberState;
    use nw_element_api::Timestamp;

    fn members(weights: &[u32]) -> Members {
        let timeouts = Timeouts {
            has_probes: false,
            has_replication: false,
            drain_limit: Duration::ZERO,
            idle: Duration::ZERO,
            failover: Duration::ZERO,
        };
        let mut members = Members::new(timeouts, None);
        for (index, weight) in weights.iter().enumerate() {
            let item = MemberItem {
                name: format!("m{index}"),
                addresses: vec![Ip([10, 0, 0, 1].into())],
                port: 6401 + index as u32,
                weight: Weight::Fixed(*weight),
                control: None,
                external_routes: false,
            };
            members.add(Timestamp::START, item, MemberState::Active, None).unwrap();
        }
        members
    }

    #[test]
    fn shares_follow_weights_and_few_slots_move() {
        let key = HashKey::new([7, 9, 0, 0]);
        let table = table(&members(&[100, 100, 200]), &key);
        for (number, share) in [(1, 0.25), (2, 0.25), (3, 0.5)] {
            assert!(
                (table.share(number) - share).abs() < 0.01,
                "{number}: {}",
                table.share(number)
            );
        }
        let three = super::table(&members(&[100, 100, 100]), &key);
        let four = super::table(&members(&[100, 100, 100, 100]), &key);
        assert!(three.moved_fraction(&four) < 0.27, "{}", three.moved_fraction(&four));
        let mut draining = members(&[100, 100, 100]);
        draining.set_drained("m1", true).unwrap();
        draining.tick(Timestamp::START);
        let two = super::table(&draining, &key);
        assert_eq!(two.share(2), 0.0);
        assert!(two.share(1) + two.share(3) > 0.999);
    }

    #[test]
    fn commands_go_to_the_control_member_by_default() {
        let rules =
            rules(&[RuleItem { prefix: "/a".parse().unwrap(), depth: Some(2), control: false }])
                .unwrap();
        let all: Vec<_> =
            rules.iter().map(|(prefix, effect)| (prefix.to_name().to_string(), effect)).collect();
        assert_eq!(
            all,
            [("/a".to_owned(), Effect::Depth(2)), ("/localhop/nfd".to_owned(), Effect::Control)]
        );
    }
}
