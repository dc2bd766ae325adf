//! Long operations in parts: commands meanwhile, and replies when they are in effect.

use super::*;
use nw_api::management::{RibEntry, origin};

fn names(router: &mut TestRouter, count: usize) {
    for n in 0..count {
        router.command(Verb::RibRegister, parameters_for(&format!("/many/{n}")));
    }
}

fn import(router: &mut TestRouter, routes: &[ControlParameters]) -> ControlResponse {
    let bytes: Vec<u8> = routes.iter().flat_map(ControlParameters::encode).collect();
    router.nonce += 1;
    let unique = Uniqueness {
        nonce: router.nonce,
        signature_nonce: [9; 8],
        time_ms: u64::from(router.nonce),
    };
    let Ok(wire) = client::import(&bytes, 4000, unique, &DigestSha256);
    assert_eq!(router.interest(APP, &wire), Reply::Deferred);
    router.run_to_completion();
    router.answer_to(&wire)
}

#[test]
fn register_inherited_by_many_replies_when_applied() {
    let mut router = TestRouter::new();
    names(&mut router, 2000);
    let parent = ControlParameters { face_id: Some(NEIGHBOUR), ..parameters_for("/many") };
    let wire = router.command_wire(Root::Localhost, Verb::RibRegister, &parent);
    assert_eq!(router.interest(APP, &wire), Reply::Deferred);
    let slow_token = router.token;
    assert!(
        router.hops("/many/7").unwrap().len() == 1 || router.hops("/many/1999").unwrap().len() == 1
    );
    // Other commands are answered meanwhile; one for a name that is being changed waits.
    router.control.work(router.now, &mut router.env);
    let quick = router.command_wire(Root::Localhost, Verb::RibRegister, &parameters_for("/other"));
    assert_eq!(router.interest(APP, &quick), Reply::Answered(200));
    assert!(router.answer_to(&quick).is_ok());
    let same = router.command_wire(Root::Localhost, Verb::RibRegister, &parent);
    assert_eq!(router.interest(APP, &same), Reply::Deferred, "not in effect yet");
    assert!(router.env.sent.is_empty());
    assert!(router.run_to_completion() > 20);
    assert_eq!(router.env.sent.len(), 2);
    assert!(router.env.sent.iter().any(|(_, token)| *token == slow_token));
    for n in 0..2000 {
        assert_eq!(router.hops(&format!("/many/{n}")), Some(vec![(APP, 0), (NEIGHBOUR, 0)]), "{n}");
    }
}

#[test]
fn import_registers_until_first_refusal() {
    let mut router = TestRouter::new();
    let route =
        |n: u64| ControlParameters { cost: Some(n), ..parameters_for(&format!("/batch/{n}")) };
    let routes: Vec<_> = (0..100).map(route).collect();
    let response = import(&mut router, &routes);
    assert_eq!((response.code, response.body.count), (200, Some(100)));
    assert_eq!(router.items::<RibEntry>(Dataset::RibList).len(), 100);
    assert_eq!(router.hops("/batch/99"), Some(vec![(APP, 99)]));
    // The first refused route ends the batch; those before it stay.
    let mut routes: Vec<_> = (200..220).map(route).collect();
    routes[7].face_id = Some(9999);
    let response = import(&mut router, &routes);
    assert_eq!((response.code, response.body.count), (410, Some(7)));
    assert!(response.text.contains("route 8"), "{}", response.text);
    assert!(router.hops("/batch/206").is_some() && router.hops("/batch/207").is_none());
    assert_eq!(import(&mut router, &[]).body.count, Some(0));
    router.authority.commands = Verdict::Deny("no".into());
    let unique = Uniqueness { nonce: 1, signature_nonce: [9; 8], time_ms: 1 };
    let Ok(wire) = client::import(&[1, 2, 3], 4000, unique, &DigestSha256);
    assert_eq!(router.interest(APP, &wire), Reply::Answered(403));
    router.authority.commands = Verdict::Accept;
    assert_eq!(router.request(APP, &wire), Reply::Sent);
    router.env.sent.swap_remove(0);
    assert_eq!(router.answer_to(&wire).code, 400);
}

#[test]
fn dataset_long_is_built_once_for_all_requests() {
    let mut router = TestRouter::new();
    names(&mut router, 500);
    let wire = client::dataset(Dataset::RibList, None, 1);
    assert_eq!(router.interest(APP, &wire), Reply::Deferred);
    router.control.work(router.now, &mut router.env);
    assert_eq!(router.interest(APP, &wire), Reply::Deferred);
    router.command(Verb::RibRegister, parameters_for("/many/z"));
    router.env.sent.clear();
    router.run_to_completion();
    let versions: Vec<_> = router
        .env
        .sent
        .iter()
        .map(|(data, _)| Data::check(data).unwrap().name().to_name())
        .collect();
    assert!(
        versions.len() <= 2 && versions.iter().all(|name| *name == versions[0]),
        "{versions:?}"
    );
    assert_eq!(router.items::<RibEntry>(Dataset::RibList).len(), 501);
}

#[test]
fn config_with_many_routes_is_applied_in_parts() {
    let mut router = TestRouter::new();
    let text = |from: usize, to: usize, cost: usize| -> String {
        let route = |n| {
            format!(
                "[[route]]\nprefix = \"/file/{n}\"\nface = \"udp4://192.0.2.50:6363\"\ncost = {cost}\n"
            )
        };
        (from..to).map(route).collect()
    };
    let desired = |text: &str| desired_config(nw_api::config::Config::parse("test", text).unwrap());
    router.control.apply_config(desired(&text(0, 500, 1)), &mut router.env);
    assert!(router.run_to_completion() > 30);
    assert_eq!(router.items::<RibEntry>(Dataset::RibList).len(), 500);
    // A new file while the previous one is being applied, with commands in between.
    router.control.apply_config(desired(&text(250, 900, 1)), &mut router.env);
    (0..10).for_each(|_| router.control.work(router.now, &mut router.env));
    router.command(Verb::RibRegister, parameters_for("/by/hand"));
    router.control.apply_config(desired(&text(400, 600, 2)), &mut router.env);
    router.run_to_completion();
    let entries = router.items::<RibEntry>(Dataset::RibList);
    let of_file = entries.iter().filter(|entry| entry.routes[0].origin == origin::STATIC);
    assert!(of_file.clone().all(|entry| entry.routes[0].cost == 2));
    assert_eq!((of_file.count(), entries.len()), (200, 201));
}
