//! What others are told of prefixes here.

use super::*;
use nw_api::config::Config;
use nw_api::management::{FaceScope, origin};

const OPTIONS: &str = "[rib]\npropagate = [\"/site\"]\nreadvertise_nlsr = true\n";

fn apply(bench: &mut Bench, text: &str) {
    let config = Config::parse("test", text).unwrap();
    bench.control.apply_config(Plan::of(config).signed_by(nw_trust::Signer::Digest), &mut bench.env);
    bench.settle();
}

fn register(bench: &mut Bench, name: &str, face: u64, origin: u64) {
    let parameters =
        ControlParameters { face_id: Some(face), origin: Some(origin), ..named_parameters(name) };
    assert_eq!(bench.command(Verb::RibRegister, parameters).code, 200, "{name}");
    bench.settle();
}

fn unregister(bench: &mut Bench, name: &str, face: u64, origin: u64) {
    let parameters =
        ControlParameters { face_id: Some(face), origin: Some(origin), ..named_parameters(name) };
    assert_eq!(bench.command(Verb::RibUnregister, parameters).code, 200);
    bench.settle();
}

/// Lets time pass up to what is due next.
fn pass(bench: &mut Bench) -> u64 {
    let due = bench.control.next_timeout();
    let waited_ms = due.as_millis() - bench.now.as_millis().min(due.as_millis());
    bench.now = bench.now.max(due);
    bench.control.on_timeout(bench.now, &mut bench.env);
    bench.settle();
    waited_ms
}

/// The next command to others: to which face, its name up to the verb, its parameters; answered with `code` unless that is 0.
fn told(bench: &mut Bench, code: u64) -> Option<(Option<u64>, String, ControlParameters)> {
    bench.control.on_timeout(bench.now, &mut bench.env);
    if bench.env.asked.is_empty() {
        return None;
    }
    let (wire, face) = bench.env.asked.remove(0);
    let interest = Interest::check(&wire).unwrap();
    assert!(interest.signature_info().is_some());
    let name = interest.name();
    let parameters = ControlParameters::decode(name.component(4).unwrap().value()).unwrap();
    if code != 0 {
        let content = ControlResponse { code, text: "so".to_owned(), body: parameters.clone() }.encode();
        let Ok(data) = DataBuilder::new(name, &content).encode(&DigestSha256);
        bench.control.on_data(bench.now, &data);
    }
    Some((face.map(FaceId::number), name.prefix(4).to_string(), parameters))
}

#[test]
fn prefixes_are_propagated_to_a_gateway_refreshed_and_withdrawn() {
    let mut bench = Bench::new();
    apply(&mut bench, OPTIONS);
    register(&mut bench, "/site/app", APP, origin::APP);
    register(&mut bench, "/elsewhere", APP, origin::APP);
    assert_eq!(told(&mut bench, 200), None, "there is no gateway");
    register(&mut bench, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    let (face, name, parameters) = told(&mut bench, 200).expect("a command");
    assert_eq!((face, name.as_str()), (Some(NEIGHBOUR), "/localhop/nfd/rib/register"));
    assert_eq!(
        parameters.name,
        Some(named("/site")),
        "the prefix that was configured, not the application's"
    );
    assert_eq!((parameters.cost, parameters.origin), (Some(15), Some(origin::CLIENT)));
    assert_eq!(parameters.expiration_period, Some(900_000));
    // A second name below changes nothing.
    register(&mut bench, "/site/other", APP, origin::APP);
    unregister(&mut bench, "/site/app", APP, origin::APP);
    assert_eq!(told(&mut bench, 200), None);
    // Told again before it ends.
    assert_eq!(pass(&mut bench), 300_000);
    assert_eq!(told(&mut bench, 200).unwrap().1, "/localhop/nfd/rib/register");
    unregister(&mut bench, "/site/other", APP, origin::APP);
    let (face, name, parameters) = told(&mut bench, 200).expect("a command");
    assert_eq!((face, name.as_str()), (Some(NEIGHBOUR), "/localhop/nfd/rib/unregister"));
    assert_eq!((parameters.name, parameters.origin), (Some(named("/site")), Some(origin::CLIENT)));
    assert_eq!((told(&mut bench, 200), bench.control.next_timeout()), (None, Instant::NEVER));
}

#[test]
fn what_fails_is_tried_again_later_and_later() {
    let mut bench = Bench::new();
    apply(&mut bench, OPTIONS);
    register(&mut bench, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    register(&mut bench, "/site/app", APP, origin::APP);
    assert!(told(&mut bench, 403).is_some());
    for wait_ms in [50_000, 100_000, 200_000] {
        assert_eq!(pass(&mut bench), wait_ms);
        assert!(told(&mut bench, 403).is_some());
    }
    assert_eq!(pass(&mut bench), 400_000);
    // No answer at all.
    assert!(told(&mut bench, 0).is_some());
    assert_eq!(pass(&mut bench), 10_000);
    assert_eq!(pass(&mut bench), 800_000);
    // A Nack, and then it works: back to the usual.
    let (wire, _) = bench.env.asked.remove(0);
    bench.control.on_nack(bench.now, &wire, "NoRoute");
    assert_eq!(pass(&mut bench), 1_600_000);
    assert!(told(&mut bench, 200).is_some());
    assert_eq!(pass(&mut bench), 300_000);
    assert!(told(&mut bench, 403).is_some());
    assert_eq!(pass(&mut bench), 50_000);
}

#[test]
fn a_gateway_that_went_is_forgotten_and_a_new_one_told() {
    let mut bench = Bench::new();
    apply(&mut bench, OPTIONS);
    register(&mut bench, "/site/app", APP, origin::APP);
    register(&mut bench, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    assert!(told(&mut bench, 200).is_some());
    let status = bench.env.faces.remove(&FaceId::from_number(NEIGHBOUR).unwrap()).unwrap();
    bench.control.face_event(bench.now, FaceEventKind::Destroyed, &status, &mut bench.env);
    bench.settle();
    assert_eq!((told(&mut bench, 200), bench.control.next_timeout()), (None, Instant::NEVER));
    let hub = bench.env.add_face("udp4://192.0.2.77:6363");
    register(&mut bench, "/localhop/nfd", hub.number(), origin::AUTOCONF);
    assert_eq!(told(&mut bench, 200).unwrap().0, Some(hub.number()));
    // What the gateway itself offers is not told to it.
    unregister(&mut bench, "/site/app", APP, origin::APP);
    assert!(told(&mut bench, 200).unwrap().1.ends_with("unregister"));
    register(&mut bench, "/site/far", hub.number(), origin::STATIC);
    assert_eq!(told(&mut bench, 200), None);
}

#[test]
fn a_routing_daemon_is_told_what_clients_register() {
    let mut bench = Bench::new();
    apply(&mut bench, OPTIONS);
    register(&mut bench, "/client/a", APP, origin::CLIENT);
    register(&mut bench, "/app/b", APP, origin::APP);
    register(&mut bench, "/localhost/nlsr", APP, origin::APP);
    let (face, name, parameters) = told(&mut bench, 200).expect("a command");
    assert_eq!((face, name.as_str()), (None, "/localhost/nlsr/rib/register"));
    assert_eq!((parameters.name, parameters.expiration_period), (Some(named("/client/a")), None));
    assert_eq!(told(&mut bench, 200), None);
    assert_eq!(pass(&mut bench), 3_600_000);
}

#[test]
fn upstream_faces_are_told_every_application_until_the_file_says_otherwise() {
    let mut bench = Bench::new();
    register(&mut bench, "/app/b", APP, origin::APP);
    register(&mut bench, "/static", APP, origin::STATIC);
    let uri = bench.env.faces[&FaceId::from_number(NEIGHBOUR).unwrap()].uri.clone();
    apply(&mut bench, &format!("[rib]\nreadvertise_to = [\"{uri}\"]\n"));
    let (face, name, parameters) = told(&mut bench, 200).expect("a command");
    assert_eq!((face, name.as_str()), (Some(NEIGHBOUR), "/localhop/nfd/rib/register"));
    assert_eq!(parameters.name, Some(named("/app/b")));
    assert_eq!(told(&mut bench, 200), None);
    apply(&mut bench, "");
    assert_eq!((told(&mut bench, 200), bench.control.next_timeout()), (None, Instant::NEVER));
}

#[test]
fn only_this_machine_says_who_is_a_gateway() {
    let mut bench = Bench::new();
    let config = Config::parse("test", "[management]\nlocalhop = \"anywhere\"\n").unwrap();
    bench.control.apply_config(Plan::of(config), &mut bench.env);
    bench.settle();
    let by_neighbour =
        bench.command_by(NEIGHBOUR, Root::Localhop, Verb::RibRegister, &named_parameters("/localhop/nfd"));
    assert_eq!(by_neighbour.map(|response| response.code), Some(403));
    assert_eq!(bench.env.faces[&FaceId::from_number(APP).unwrap()].scope, FaceScope::Local);
    assert_eq!(
        bench.command(Verb::RibRegister, named_parameters("/localhop/nfd")).code,
        403,
        "an application"
    );
    let below = ControlParameters { face_id: Some(NEIGHBOUR), ..named_parameters("/localhop/nfd/rib") };
    assert_eq!(bench.command(Verb::RibRegister, below).code, 403);
    register(&mut bench, "/localhop/nfd", NEIGHBOUR, origin::STATIC);
    // Its own management still comes first.
    assert_eq!(bench.hops("/localhop/nfd"), Some(vec![(1, 0), (NEIGHBOUR, 0)]));
}

#[test]
fn destination_that_does_not_answer_leaves_places_for_others() {
    let mut bench = Bench::new();
    let prefixes: Vec<String> = (0..100).map(|n| format!("\"/site/{n}\"")).collect();
    apply(&mut bench, &format!("[rib]\npropagate = [{}]\n", prefixes.join(", ")));
    let other = bench.env.add_face("udp4://192.0.2.8:6363").number();
    (0..100).for_each(|n| register(&mut bench, &format!("/site/{n}/app"), APP, origin::APP));
    register(&mut bench, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    register(&mut bench, "/localhop/nfd", other, origin::AUTOCONF);
    let mut told_to = BTreeMap::new();
    while let Some((face, ..)) = told(&mut bench, 0) {
        *told_to.entry(face.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(told_to, [(NEIGHBOUR, 16), (other, 16)].into());
}
