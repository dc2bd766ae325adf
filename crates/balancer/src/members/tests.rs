//! The machine in virtual time.

use super::*;
use crate::config::Ip;
use MemberState::{Active, Drained, Draining, Failed, Gone, Joining};

const PATIENCE: Patience = Patience {
    probes: true,
    routes: true,
    drain_limit: Duration::from_secs(20),
    quiet: Duration::from_secs(5),
    control: Duration::from_secs(30),
};

fn at(ms: u64) -> Instant {
    Instant::START + Duration::from_millis(ms)
}

fn item(name: &str, port: u32) -> MemberItem {
    MemberItem {
        name: name.to_owned(),
        addresses: vec![Ip([10, 0, 0, 1].into())],
        port,
        weight: Weight::Fixed(100),
        control: Some("/run/x.sock".into()),
        own_routes: false,
    }
}

fn members(patience: Patience, names: &[&str]) -> Members {
    let mut members = Members::new(patience, names.first().map(|name| (*name).to_owned()));
    for (index, name) in names.iter().enumerate() {
        members.add(at(0), item(name, 6401 + index as u32), Joining, None).unwrap();
    }
    members
}

fn states(changes: &[Change]) -> Vec<(&str, MemberState, MemberState)> {
    changes.iter().map(|change| (change.name.as_str(), change.from, change.to)).collect()
}

/// Three members that take names.
fn active(patience: Patience) -> Members {
    let mut members = members(patience, &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        members.on_health(name, true);
        members.on_routes(name, true);
    }
    assert_eq!(members.turn(at(1)).len(), 3);
    members
}

#[test]
fn a_member_gets_names_when_it_is_healthy_and_has_all_routes() {
    let mut members = members(PATIENCE, &["a"]);
    assert!(members.turn(at(10)).is_empty() && members.serving().is_empty());
    members.on_health("a", true);
    assert!(members.turn(at(20)).is_empty(), "it has no routes yet");
    members.on_health("a", false);
    members.on_routes("a", true);
    assert!(members.turn(at(30)).is_empty(), "it is not healthy");
    members.on_health("a", true);
    assert_eq!(states(&members.turn(at(40))), [("a", Joining, Active)]);
    assert_eq!(members.serving(), [1]);
    assert!(members.turn(at(50)).is_empty());
}

#[test]
fn without_probes_and_routes_a_member_is_active_at_once() {
    let mut members = members(Patience { probes: false, routes: false, ..PATIENCE }, &["a"]);
    assert_eq!(states(&members.turn(at(0))), [("a", Joining, Active)]);
}

#[test]
fn a_measured_weight_is_waited_for() {
    let mut members = active(PATIENCE);
    let change = members.set_weight(at(10), "b", Weight::Measured).unwrap().unwrap();
    assert_eq!((change.from, change.to), (Active, Joining));
    assert!(members.turn(at(11)).is_empty());
    assert!(members.named("b").unwrap().wants_measuring());
    assert_eq!(members.serving(), [1, 3], "it is idle while it is measured");
    members.on_measured("b", 25_000);
    assert_eq!(states(&members.turn(at(12))), [("b", Joining, Active)]);
    assert_eq!(weights(&members), [100, 100, 100], "the only measured one weighs as a fixed one");
    assert_eq!(members.set_weight(at(13), "b", Weight::Fixed(7)).unwrap(), None);
    assert_eq!(weights(&members), [100, 7, 100]);
}

fn weights(members: &Members) -> Vec<u32> {
    members.iter().map(|member| members.weight(member)).collect()
}

#[test]
fn weights_fixed_and_measured_mixed_keep_one_unit() {
    let mut members = active(PATIENCE);
    for (name, per_s) in [("a", 30_000), ("b", 10_000)] {
        members.set_weight(at(10), name, Weight::Measured).unwrap();
        members.on_measured(name, per_s);
    }
    assert_eq!(weights(&members), [150, 50, 100], "as 3 to 1, and 100 on average");
    members.set_weight(at(11), "c", Weight::Measured).unwrap();
    assert_eq!(weights(&members), [300, 100, 100], "not measured yet: the usual weight");
    members.on_measured("c", 3);
    assert_eq!(weights(&members), [300, 100, 1], "never 0");
    members.set_weight(at(12), "b", Weight::Fixed(1_000_000)).unwrap();
    assert_eq!(weights(&members)[1], 1_000_000);
    assert!(weights(&members).iter().all(|weight| (1..=1_000_000).contains(weight)));
}

#[test]
fn what_fails_comes_back_with_its_routes() {
    let mut members = active(PATIENCE);
    members.on_health("b", false);
    assert_eq!(states(&members.turn(at(100))), [("b", Active, Failed)]);
    assert_eq!(members.serving(), [1, 3]);
    members.on_health("b", true);
    assert_eq!(states(&members.turn(at(200))), [("b", Failed, Joining)]);
    assert_eq!(members.serving(), [1, 3], "its router may have started anew");
    members.on_routes("b", true);
    assert_eq!(states(&members.turn(at(300))), [("b", Joining, Active)]);
}

#[test]
fn a_router_that_goes_away_has_failed_at_once() {
    let mut members = active(PATIENCE);
    members.on_lost("b");
    members.on_health("b", true);
    let changes = members.turn(at(10));
    assert_eq!(states(&changes), [("b", Active, Failed)], "whatever an earlier probe said");
    members.on_health("b", true);
    assert_eq!(states(&members.turn(at(20))), [("b", Failed, Joining)]);
    members.on_lost("b");
    members.on_routes("b", true);
    assert!(members.turn(at(30)).is_empty(), "no probe came back from the new router");
    members.on_health("b", true);
    assert_eq!(states(&members.turn(at(40))), [("b", Joining, Active)]);
    assert!(members.turn(at(50)).is_empty());
}

#[test]
fn when_all_fail_they_keep_their_names() {
    let mut members = active(PATIENCE);
    for name in ["a", "b", "c"] {
        members.on_health(name, false);
    }
    members.turn(at(100));
    assert_eq!(members.serving(), [1, 2, 3]);
    members.on_health("c", true);
    members.on_routes("c", true);
    assert_eq!(states(&members.turn(at(200))), [("c", Failed, Joining), ("c", Joining, Active)]);
    assert_eq!(members.serving(), [3]);
}

#[test]
fn removing_has_two_stages() {
    let mut members = active(PATIENCE);
    members.remove("b").unwrap();
    assert_eq!(members.remove("b"), Err(MemberError::Leaving("b".into())));
    assert_eq!(states(&members.turn(at(1000))), [("b", Active, Draining)]);
    assert_eq!(members.serving(), [1, 3]);
    assert_eq!(members.len(), 3, "answers still find it");
    members.on_pending(at(1010), "b", Pending::Interests(0));
    assert!(members.turn(at(1100)).is_empty(), "Interests may be on their way to it");
    members.on_pending(at(1300), "b", Pending::Interests(4));
    assert!(members.turn(at(1500)).is_empty());
    members.on_pending(at(1600), "b", Pending::Interests(0));
    assert!(members.turn(at(1700)).is_empty());
    assert_eq!(states(&members.turn(at(1800))), [("b", Draining, Gone)]);
    assert_eq!(members.len(), 2);
    assert_eq!(
        members.add(at(1900), item("d", 6404), Joining, None).unwrap().number,
        2,
        "the lowest that is free"
    );
}

#[test]
fn without_an_agent_silence_decides() {
    let mut members = active(PATIENCE);
    members.on_traffic(at(0), 2, 10);
    members.rest("b", true).unwrap();
    members.turn(at(1000));
    members.on_traffic(at(1000), 2, 10);
    members.on_traffic(at(4000), 2, 12);
    assert!(members.turn(at(6500)).is_empty());
    members.on_traffic(at(8999), 2, 12);
    assert!(members.turn(at(8999)).is_empty());
    assert_eq!(states(&members.turn(at(9000))), [("b", Draining, Drained)]);
    assert_eq!(members.len(), 3);
    members.rest("b", false).unwrap();
    assert_eq!(
        states(&members.turn(at(9100))),
        [("b", Drained, Joining), ("b", Joining, Active)],
        "its routes were kept up"
    );
}

#[test]
fn the_limit_ends_what_never_ends() {
    let mut members = active(PATIENCE);
    members.remove("b").unwrap();
    members.turn(at(0));
    for second in 1..20 {
        members.on_pending(at(second * 1000), "b", Pending::Interests(1));
        members.on_traffic(at(second * 1000), 2, second);
        assert!(members.turn(at(second * 1000)).is_empty());
    }
    assert_eq!(states(&members.turn(at(20_000))), [("b", Draining, Gone)]);
}

#[test]
fn who_never_had_names_goes_at_once() {
    let mut members = members(PATIENCE, &["a", "b"]);
    members.remove("b").unwrap();
    assert_eq!(states(&members.turn(at(0))), [("b", Joining, Gone)]);
    assert_eq!(members.remove("a"), Err(MemberError::Control("a".into())));
    let unknown = members.remove("x").unwrap_err();
    assert_eq!(unknown.to_string(), "no member is called \"x\": there are a");
}

#[test]
fn another_one_stands_in_for_the_control_member() {
    let control = |members: &Members, ms| members.control(at(ms)).unwrap().number;
    let mut members = active(PATIENCE);
    assert_eq!(control(&members, 0), 1);
    members.on_health("a", false);
    members.turn(at(10));
    assert_eq!(control(&members, 10), 2);
    members.on_health("a", true);
    members.turn(at(15));
    assert_eq!(control(&members, 15), 2, "it may have forgotten its routes");
    members.on_routes("a", true);
    members.turn(at(20));
    assert_eq!(control(&members, 20), 1);
    for name in ["a", "b", "c"] {
        members.on_health(name, false);
    }
    members.turn(at(30));
    assert_eq!(control(&members, 30), 1, "nobody is better");
}

#[test]
fn the_control_member_is_waited_for_at_the_start() {
    let control = |members: &Members, ms| members.control(at(ms)).unwrap().number;
    let mut members = members(PATIENCE, &["a", "b"]);
    members.on_health("b", true);
    members.on_routes("b", true);
    members.turn(at(10));
    assert_eq!(members.serving(), [2]);
    assert_eq!(control(&members, 29_999), 1, "its routes are those that count");
    assert_eq!(control(&members, 30_000), 2);
    members.on_health("a", true);
    assert_eq!(control(&members, 40_000), 1, "they still do");
    let mut alone = self::members(PATIENCE, &["a", "b"]);
    alone.on_health("b", true);
    assert_eq!(control(&alone, 30_000), 2, "it has no routes yet, and nobody else does");
}

#[test]
fn there_is_room_for_63() {
    let mut members = Members::new(PATIENCE, None);
    for number in 1..=63u32 {
        assert_eq!(
            u32::from(
                members.add(at(0), item(&format!("m{number}"), 6400 + number), Joining, None).unwrap().number
            ),
            number
        );
    }
    assert_eq!(
        members.add(at(0), item("more", 7000), Joining, None).map(|m| m.number),
        Err(MemberError::Full)
    );
}
