//! The numbers of a plan. Attacks on a live router are in tests/overload.

use super::*;

fn plan(scenario: Scenario) -> AttackPlan {
    let router: FaceUri = "unix:///run/nfd/nfd.sock".parse().expect("a URI");
    AttackPlan {
        scenario,
        attacked: router.clone(),
        router,
        attackers: 10,
        rate: 1000.0,
        duration: Duration::from_secs(1),
        bystander_rate: 100.0,
    }
}

#[test]
fn attack_plan_with_impossible_numbers_is_refused() {
    assert!(plan(Scenario::FewFaces).check().is_ok());
    assert!(AttackPlan { attackers: 0, ..plan(Scenario::FewFaces) }.check().is_err());
    assert!(AttackPlan { attackers: 1000, ..plan(Scenario::FewFaces) }.check().is_err());
    assert!(AttackPlan { rate: f64::NAN, ..plan(Scenario::FewFaces) }.check().is_err());
    assert!(AttackPlan { bystander_rate: 0.0, ..plan(Scenario::FewFaces) }.check().is_err());
}

#[test]
fn spoofed_udp_needs_a_loopback_address() {
    let refused = plan(Scenario::SpoofedUdp).check().expect_err("a Unix socket has no address");
    assert!(refused.to_string().contains("--attack udp4://127.0.0.1:6363"), "{refused}");
    for (uri, is_ok) in [("udp4://127.0.0.1:6363", true), ("udp4://192.0.2.1:6363", false)] {
        let attacked = uri.parse().expect("a URI");
        let plan = AttackPlan { attacked, ..plan(Scenario::SpoofedUdp) };
        assert_eq!(plan.check().is_ok(), is_ok, "{uri}");
    }
}

#[test]
fn scenario_names_differ() {
    let names = Scenario::ALL.map(Scenario::as_str);
    assert!(names.iter().enumerate().all(|(at, name)| !names[..at].contains(name)));
}
