//! What takes long is done in parts: commands meanwhile, answers when it is in effect.

use super::*;
use nw_api::management::{RibEntry, origin};

fn names(bench: &mut Bench, count: usize) {
    for n in 0..count {
        bench.command(Verb::RibRegister, named_parameters(&format!("/many/{n}")));
    }
}

fn import(bench: &mut Bench, routes: &[ControlParameters]) -> ControlResponse {
    let octets: Vec<u8> = routes.iter().flat_map(ControlParameters::encode).collect();
    bench.nonce += 1;
    let unique = Uniqueness { nonce: bench.nonce, signature_nonce: [9; 8], time_ms: u64::from(bench.nonce) };
    let Ok(wire) = client::import(&octets, 4000, unique, &DigestSha256);
    assert_eq!(bench.interest(APP, &wire), Reply::Later);
    bench.settle();
    bench.answer_to(&wire)
}

#[test]
fn a_route_that_many_inherit_is_answered_when_all_do() {
    let mut bench = Bench::new();
    names(&mut bench, 2000);
    let other = ControlParameters { face_id: Some(NEIGHBOUR), ..named_parameters("/many") };
    let wire = bench.command_wire(Root::Localhost, Verb::RibRegister, &other);
    assert_eq!(bench.interest(APP, &wire), Reply::Later);
    let slow = bench.token;
    assert!(bench.hops("/many/7").unwrap().len() == 1 || bench.hops("/many/1999").unwrap().len() == 1);
    // Others are answered meanwhile, also one for a name that is being changed.
    bench.control.work(bench.now, &mut bench.env);
    let quick = bench.command_wire(Root::Localhost, Verb::RibRegister, &named_parameters("/other"));
    assert_eq!(bench.interest(APP, &quick), Reply::Answered(200));
    assert!(bench.answer_to(&quick).is_ok());
    let same = bench.command_wire(Root::Localhost, Verb::RibRegister, &other);
    assert_eq!(bench.interest(APP, &same), Reply::Later, "it is not in effect yet either");
    assert!(bench.env.sent.is_empty());
    assert!(bench.settle() > 20);
    assert_eq!(bench.env.sent.len(), 2);
    assert!(bench.env.sent.iter().any(|(_, token)| *token == slow));
    for n in 0..2000 {
        assert_eq!(bench.hops(&format!("/many/{n}")), Some(vec![(APP, 0), (NEIGHBOUR, 0)]), "{n}");
    }
}

#[test]
fn batches() {
    let mut bench = Bench::new();
    let route = |n: u64| ControlParameters { cost: Some(n), ..named_parameters(&format!("/batch/{n}")) };
    let routes: Vec<_> = (0..100).map(route).collect();
    let response = import(&mut bench, &routes);
    assert_eq!((response.code, response.body.count), (200, Some(100)));
    assert_eq!(bench.items::<RibEntry>(Dataset::RibList).len(), 100);
    assert_eq!(bench.hops("/batch/99"), Some(vec![(APP, 99)]));
    // The first that can't be stops it; those before it stay.
    let mut routes: Vec<_> = (200..220).map(route).collect();
    routes[7].face_id = Some(9999);
    let response = import(&mut bench, &routes);
    assert_eq!((response.code, response.body.count), (410, Some(7)));
    assert!(response.text.contains("route 8"), "{}", response.text);
    assert!(bench.hops("/batch/206").is_some() && bench.hops("/batch/207").is_none());
    assert_eq!(import(&mut bench, &[]).body.count, Some(0));
    bench.gate.commands = Verdict::Deny("no".into());
    let unique = Uniqueness { nonce: 1, signature_nonce: [9; 8], time_ms: 1 };
    let Ok(wire) = client::import(&[1, 2, 3], 4000, unique, &DigestSha256);
    assert_eq!(bench.interest(APP, &wire), Reply::Answered(403));
    bench.gate.commands = Verdict::Accept;
    assert_eq!(bench.ask(APP, &wire), Reply::Sent);
    bench.env.sent.swap_remove(0);
    assert_eq!(bench.answer_to(&wire).code, 400);
}

#[test]
fn long_datasets_are_made_once_for_all_who_ask() {
    let mut bench = Bench::new();
    names(&mut bench, 500);
    let wire = client::dataset(Dataset::RibList, None, 1);
    assert_eq!(bench.interest(APP, &wire), Reply::Later);
    bench.control.work(bench.now, &mut bench.env);
    assert_eq!(bench.interest(APP, &wire), Reply::Later);
    bench.command(Verb::RibRegister, named_parameters("/many/z"));
    bench.env.sent.clear();
    bench.settle();
    let versions: Vec<_> =
        bench.env.sent.iter().map(|(data, _)| Data::check(data).unwrap().name().to_name()).collect();
    assert!(versions.len() <= 2 && versions.iter().all(|name| *name == versions[0]), "{versions:?}");
    assert_eq!(bench.items::<RibEntry>(Dataset::RibList).len(), 501);
}

#[test]
fn a_file_of_many_routes_is_carried_out_in_parts() {
    let mut bench = Bench::new();
    let text = |from: usize, to: usize, cost: usize| -> String {
        let route = |n| {
            format!("[[route]]\nprefix = \"/file/{n}\"\nface = \"udp4://192.0.2.50:6363\"\ncost = {cost}\n")
        };
        (from..to).map(route).collect()
    };
    let plan = |text: &str| Plan::of(nw_api::config::Config::parse("test", text).unwrap());
    bench.control.apply_config(plan(&text(0, 500, 1)), &mut bench.env);
    assert!(bench.settle() > 30);
    assert_eq!(bench.items::<RibEntry>(Dataset::RibList).len(), 500);
    // Another file while the one before is being carried out; commands in between.
    bench.control.apply_config(plan(&text(250, 900, 1)), &mut bench.env);
    (0..10).for_each(|_| bench.control.work(bench.now, &mut bench.env));
    bench.command(Verb::RibRegister, named_parameters("/by/hand"));
    bench.control.apply_config(plan(&text(400, 600, 2)), &mut bench.env);
    bench.settle();
    let entries = bench.items::<RibEntry>(Dataset::RibList);
    let of_file = entries.iter().filter(|entry| entry.routes[0].origin == origin::STATIC);
    assert!(of_file.clone().all(|entry| entry.routes[0].cost == 2));
    assert_eq!((of_file.count(), entries.len()), (200, 201));
}
