//! Tests of the members' state machine in virtual time.

use super::*;
use crate::config::Ip;
use MemberState::{Active, Drained, Draining, Failed, Gone, Joining};

const TIMEOUTS: Timeouts = Timeouts {
    has_probes: true,
    has_replication: true,
    drain_limit: Duration::from_secs(20),
    idle: Duration::from_secs(5),
    failover: Duration::from_secs(30),
};

fn at(ms: u64) -> Timestamp {
    Timestamp::START + Duration::from_millis(ms)
}

fn item(name: &str, port: u32) -> MemberItem {
    MemberItem {
        name: name.to_owned(),
        addresses: vec![Ip([10, 0, 0, 1].into())],
        port,
        weight: Weight::Fixed(100),
        control: Some("/run/x.sock".into()),
        external_routes: false,
    }
}

fn members(timeouts: Timeouts, names: &[&str]) -> Members {
    let mut members = Members::new(timeouts, names.first().map(|name| (*name).to_owned()));
    for (index, name) in names.iter().enumerate() {
        members.add(at(0), item(name, 6401 + index as u32), Joining, None).unwrap();
    }
    members
}

fn states(changes: &[Change]) -> Vec<(&str, MemberState, MemberState)> {
    changes.iter().map(|change| (change.name.as_str(), change.from, change.to)).collect()
}

/// Returns three members that take names.
fn active(timeouts: Timeouts) -> Members {
    let mut members = members(timeouts, &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        members.on_health(name, true);
        members.on_routes(name, true);
    }
    assert_eq!(members.tick(at(1)).len(), 3);
    members
}

#[test]
fn joining_member_needs_health_and_routes_to_become_active() {
    let mut members = members(TIMEOUTS, &["a"]);
    assert!(members.tick(at(10)).is_empty() && members.serving().is_empty());
    members.on_health("a", true);
    assert!(members.tick(at(20)).is_empty(), "it has no routes yet");
    members.on_health("a", false);
    members.on_routes("a", true);
    assert!(members.tick(at(30)).is_empty(), "it is not healthy");
    members.on_health("a", true);
    assert_eq!(states(&members.tick(at(40))), [("a", Joining, Active)]);
    assert_eq!(members.serving(), [1]);
    assert!(members.tick(at(50)).is_empty());
}

#[test]
fn member_without_probes_and_replication_is_active_at_once() {
    let timeouts = Timeouts { has_probes: false, has_replication: false, ..TIMEOUTS };
    let mut members = members(timeouts, &["a"]);
    assert_eq!(states(&members.tick(at(0))), [("a", Joining, Active)]);
}

#[test]
fn member_with_measured_weight_waits_for_its_measurement() {
    let mut members = active(TIMEOUTS);
    let change = members.set_weight(at(10), "b", Weight::Measured).unwrap().unwrap();
    assert_eq!((change.from, change.to), (Active, Joining));
    assert!(members.tick(at(11)).is_empty());
    assert!(members.named("b").unwrap().needs_measurement());
    assert_eq!(members.serving(), [1, 3], "it takes no names while it is measured");
    members.on_measured("b", 25_000);
    assert_eq!(states(&members.tick(at(12))), [("b", Joining, Active)]);
    assert_eq!(
        weights(&members),
        [100, 100, 100],
        "the only measured member weighs as a fixed one"
    );
    assert_eq!(members.set_weight(at(13), "b", Weight::Fixed(7)).unwrap(), None);
    assert_eq!(weights(&members), [100, 7, 100]);
}

fn weights(members: &Members) -> Vec<u32> {
    members.iter().map(|member| members.weight(member)).collect()
}

#[test]
fn fixed_and_measured_weights_have_one_scale() {
    let mut members = active(TIMEOUTS);
    for (name, per_s) in [("a", 30_000), ("b", 10_000)] {
        members.set_weight(at(10), name, Weight::Measured).unwrap();
        members.on_measured(name, per_s);
    }
    assert_eq!(weights(&members), [150, 50, 100], "ratio 3 to 1, and 100 on average");
    members.set_weight(at(11), "c", Weight::Measured).unwrap();
    assert_eq!(weights(&members), [300, 100, 100], "not measured yet: the default weight");
    members.on_measured("c", 3);
    assert_eq!(weights(&members), [300, 100, 1], "at least 1");
    members.set_weight(at(12), "b", Weight::Fixed(1_000_000)).unwrap();
    assert_eq!(weights(&members)[1], 1_000_000);
    assert!(weights(&members).iter().all(|weight| (1..=1_000_000).contains(weight)));
}

#[test]
fn failed_member_joins_again_and_needs_its_routes() {
    let mut members = active(TIMEOUTS);
    members.on_health("b", false);
    assert_eq!(states(&members.tick(at(100))), [("b", Active, Failed)]);
    assert_eq!(members.serving(), [1, 3]);
    members.on_health("b", true);
    assert_eq!(states(&members.tick(at(200))), [("b", Failed, Joining)]);
    assert_eq!(members.serving(), [1, 3], "its router may have been restarted");
    members.on_routes("b", true);
    assert_eq!(states(&members.tick(at(300))), [("b", Joining, Active)]);
}

#[test]
fn lost_router_fails_at_once() {
    let mut members = active(TIMEOUTS);
    members.on_lost("b");
    members.on_health("b", true);
    let changes = members.tick(at(10));
    assert_eq!(states(&changes), [("b", Active, Failed)], "in spite of an earlier probe");
    members.on_health("b", true);
    assert_eq!(states(&members.tick(at(20))), [("b", Failed, Joining)]);
    members.on_lost("b");
    members.on_routes("b", true);
    assert!(members.tick(at(30)).is_empty(), "no probe was answered by the new router");
    members.on_health("b", true);
    assert_eq!(states(&members.tick(at(40))), [("b", Joining, Active)]);
    assert!(members.tick(at(50)).is_empty());
}

#[test]
fn all_members_failed_keep_their_names() {
    let mut members = active(TIMEOUTS);
    for name in ["a", "b", "c"] {
        members.on_health(name, false);
    }
    members.tick(at(100));
    assert_eq!(members.serving(), [1, 2, 3]);
    members.on_health("c", true);
    members.on_routes("c", true);
    assert_eq!(states(&members.tick(at(200))), [("c", Failed, Joining), ("c", Joining, Active)]);
    assert_eq!(members.serving(), [3]);
}

#[test]
fn removed_member_drains_before_it_is_gone() {
    let mut members = active(TIMEOUTS);
    members.remove("b").unwrap();
    assert_eq!(members.remove("b"), Err(MemberError::Leaving("b".into())));
    assert_eq!(states(&members.tick(at(1000))), [("b", Active, Draining)]);
    assert_eq!(members.serving(), [1, 3]);
    assert_eq!(members.len(), 3, "replies still find it");
    members.on_pending(at(1010), "b", Pending::Interests(0));
    assert!(members.tick(at(1100)).is_empty(), "Interests may still be in flight to it");
    members.on_pending(at(1300), "b", Pending::Interests(4));
    assert!(members.tick(at(1500)).is_empty());
    members.on_pending(at(1600), "b", Pending::Interests(0));
    assert!(members.tick(at(1700)).is_empty());
    assert_eq!(states(&members.tick(at(1800))), [("b", Draining, Gone)]);
    assert_eq!(members.len(), 2);
    assert_eq!(
        members.add(at(1900), item("d", 6404), Joining, None).unwrap().number,
        2,
        "the lowest free number"
    );
}

#[test]
fn member_without_agent_drains_when_idle() {
    let mut members = active(TIMEOUTS);
    members.on_traffic(at(0), 2, 10);
    members.set_drained("b", true).unwrap();
    members.tick(at(1000));
    members.on_traffic(at(1000), 2, 10);
    members.on_traffic(at(4000), 2, 12);
    assert!(members.tick(at(6500)).is_empty());
    members.on_traffic(at(8999), 2, 12);
    assert!(members.tick(at(8999)).is_empty());
    assert_eq!(states(&members.tick(at(9000))), [("b", Draining, Drained)]);
    assert_eq!(members.len(), 3);
    members.set_drained("b", false).unwrap();
    assert_eq!(
        states(&members.tick(at(9100))),
        [("b", Drained, Joining), ("b", Joining, Active)],
        "its routes were kept up to date"
    );
}

#[test]
fn drain_limit_ends_draining() {
    let mut members = active(TIMEOUTS);
    members.remove("b").unwrap();
    members.tick(at(0));
    for second in 1..20 {
        members.on_pending(at(second * 1000), "b", Pending::Interests(1));
        members.on_traffic(at(second * 1000), 2, second);
        assert!(members.tick(at(second * 1000)).is_empty());
    }
    assert_eq!(states(&members.tick(at(20_000))), [("b", Draining, Gone)]);
}

#[test]
fn member_that_never_had_names_is_gone_at_once() {
    let mut members = members(TIMEOUTS, &["a", "b"]);
    members.remove("b").unwrap();
    assert_eq!(states(&members.tick(at(0))), [("b", Joining, Gone)]);
    assert_eq!(members.remove("a"), Err(MemberError::Control("a".into())));
    let unknown = members.remove("x").unwrap_err();
    assert_eq!(unknown.to_string(), "no member is called \"x\"; the members are: a");
}

#[test]
fn failed_control_member_is_replaced_until_it_has_routes() {
    let control = |members: &Members, ms| members.control_member(at(ms)).unwrap().number;
    let mut members = active(TIMEOUTS);
    assert_eq!(control(&members, 0), 1);
    members.on_health("a", false);
    members.tick(at(10));
    assert_eq!(control(&members, 10), 2);
    members.on_health("a", true);
    members.tick(at(15));
    assert_eq!(control(&members, 15), 2, "it may have lost its routes");
    members.on_routes("a", true);
    members.tick(at(20));
    assert_eq!(control(&members, 20), 1);
    for name in ["a", "b", "c"] {
        members.on_health(name, false);
    }
    members.tick(at(30));
    assert_eq!(control(&members, 30), 1, "no other member is active");
}

#[test]
fn control_member_missing_at_start_is_replaced_after_failover_timeout() {
    let control = |members: &Members, ms| members.control_member(at(ms)).unwrap().number;
    let mut members = members(TIMEOUTS, &["a", "b"]);
    members.on_health("b", true);
    members.on_routes("b", true);
    members.tick(at(10));
    assert_eq!(members.serving(), [2]);
    assert_eq!(control(&members, 29_999), 1, "only it has the routes");
    assert_eq!(control(&members, 30_000), 2);
    members.on_health("a", true);
    assert_eq!(control(&members, 40_000), 1, "it has the routes");
    let mut joining = self::members(TIMEOUTS, &["a", "b"]);
    joining.on_health("b", true);
    assert_eq!(control(&joining, 30_000), 2, "no member has routes yet");
}

#[test]
fn members_are_at_most_63() {
    let mut members = Members::new(TIMEOUTS, None);
    for number in 1..=63u32 {
        assert_eq!(
            u32::from(
                members
                    .add(at(0), item(&format!("m{number}"), 6400 + number), Joining, None)
                    .unwrap()
                    .number
            ),
            number
        );
    }
    assert_eq!(
        members.add(at(0), item("more", 7000), Joining, None).map(|m| m.number),
        Err(MemberError::Full)
    );
}
