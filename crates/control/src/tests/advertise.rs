//! Prefixes advertised to gateways, upstream routers and the routing daemon.

use super::*;
use nw_api::config::Config;
use nw_api::management::{FaceScope, origin};

const OPTIONS: &str = "[rib]\npropagate = [\"/site\"]\nreadvertise_nlsr = true\n";

fn apply(router: &mut TestRouter, text: &str) {
    let config = Config::parse("test", text).unwrap();
    router
        .control
        .apply_config(desired_config(config).signed_by(nw_trust::Signer::Digest), &mut router.env);
    router.run_to_completion();
}

fn register(router: &mut TestRouter, name: &str, face: u64, origin: u64) {
    let parameters =
        ControlParameters { face_id: Some(face), origin: Some(origin), ..parameters_for(name) };
    assert_eq!(router.command(Verb::RibRegister, parameters).code, 200, "{name}");
    router.run_to_completion();
}

fn unregister(router: &mut TestRouter, name: &str, face: u64, origin: u64) {
    let parameters =
        ControlParameters { face_id: Some(face), origin: Some(origin), ..parameters_for(name) };
    assert_eq!(router.command(Verb::RibUnregister, parameters).code, 200);
    router.run_to_completion();
}

/// Advances the clock to the next timeout and returns by how many milliseconds.
fn advance_to_timeout(router: &mut TestRouter) -> u64 {
    let due = router.control.next_timeout();
    let waited_ms = due.as_millis() - router.now.as_millis().min(due.as_millis());
    router.now = router.now.max(due);
    router.control.on_timeout(router.now, &mut router.env);
    router.run_to_completion();
    waited_ms
}

/// Returns the next command sent to another router: face, name up to the verb, parameters. Replies
/// with `code` unless that is 0.
fn next_command(
    router: &mut TestRouter,
    code: u64,
) -> Option<(Option<u64>, String, ControlParameters)> {
    router.control.on_timeout(router.now, &mut router.env);
    if router.env.sent_interests.is_empty() {
        return None;
    }
    let (wire, face) = router.env.sent_interests.remove(0);
    let interest = Interest::check(&wire).unwrap();
    assert!(interest.signature_info().is_some());
    let name = interest.name();
    let parameters = ControlParameters::decode(name.component(4).unwrap().value()).unwrap();
    if code != 0 {
        let content =
            ControlResponse { code, text: "text".to_owned(), body: parameters.clone() }.encode();
        let Ok(data) = DataBuilder::new(name, &content).encode(&DigestSha256);
        router.control.on_data(router.now, &data);
    }
    Some((face.map(FaceId::number), name.prefix(4).to_string(), parameters))
}

#[test]
fn gateway_prefix_is_registered_refreshed_and_withdrawn() {
    let mut router = TestRouter::new();
    apply(&mut router, OPTIONS);
    register(&mut router, "/site/app", APP, origin::APP);
    register(&mut router, "/elsewhere", APP, origin::APP);
    assert_eq!(next_command(&mut router, 200), None, "there is no gateway");
    register(&mut router, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    let (face, name, parameters) = next_command(&mut router, 200).expect("a command");
    assert_eq!((face, name.as_str()), (Some(NEIGHBOUR), "/localhop/nfd/rib/register"));
    assert_eq!(
        parameters.name,
        Some(constant_name("/site")),
        "the configured prefix, not that of the application"
    );
    assert_eq!((parameters.cost, parameters.origin), (Some(15), Some(origin::CLIENT)));
    assert_eq!(parameters.expiration_period, Some(900_000));
    // A second name below changes nothing.
    register(&mut router, "/site/other", APP, origin::APP);
    unregister(&mut router, "/site/app", APP, origin::APP);
    assert_eq!(next_command(&mut router, 200), None);
    // Registered again before it expires.
    assert_eq!(advance_to_timeout(&mut router), 300_000);
    assert_eq!(next_command(&mut router, 200).unwrap().1, "/localhop/nfd/rib/register");
    unregister(&mut router, "/site/other", APP, origin::APP);
    let (face, name, parameters) = next_command(&mut router, 200).expect("a command");
    assert_eq!((face, name.as_str()), (Some(NEIGHBOUR), "/localhop/nfd/rib/unregister"));
    assert_eq!(
        (parameters.name, parameters.origin),
        (Some(constant_name("/site")), Some(origin::CLIENT))
    );
    assert_eq!(
        (next_command(&mut router, 200), router.control.next_timeout()),
        (None, Timestamp::NEVER)
    );
}

#[test]
fn gateway_command_failing_is_retried_with_backoff() {
    let mut router = TestRouter::new();
    apply(&mut router, OPTIONS);
    register(&mut router, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    register(&mut router, "/site/app", APP, origin::APP);
    assert!(next_command(&mut router, 403).is_some());
    for wait_ms in [50_000, 100_000, 200_000] {
        assert_eq!(advance_to_timeout(&mut router), wait_ms);
        assert!(next_command(&mut router, 403).is_some());
    }
    assert_eq!(advance_to_timeout(&mut router), 400_000);
    // No reply.
    assert!(next_command(&mut router, 0).is_some());
    assert_eq!(advance_to_timeout(&mut router), 10_000);
    assert_eq!(advance_to_timeout(&mut router), 800_000);
    // A Nack, then a success: the refresh interval applies again.
    let (wire, _) = router.env.sent_interests.remove(0);
    router.control.on_nack(router.now, &wire, "NoRoute");
    assert_eq!(advance_to_timeout(&mut router), 1_600_000);
    assert!(next_command(&mut router, 200).is_some());
    assert_eq!(advance_to_timeout(&mut router), 300_000);
    assert!(next_command(&mut router, 403).is_some());
    assert_eq!(advance_to_timeout(&mut router), 50_000);
}

#[test]
fn gateway_closed_is_removed_and_new_one_registered() {
    let mut router = TestRouter::new();
    apply(&mut router, OPTIONS);
    register(&mut router, "/site/app", APP, origin::APP);
    register(&mut router, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    assert!(next_command(&mut router, 200).is_some());
    let status = router.env.faces.remove(&FaceId::from_number(NEIGHBOUR).unwrap()).unwrap();
    router.control.on_face_event(router.now, FaceEventKind::Destroyed, &status, &mut router.env);
    router.run_to_completion();
    assert_eq!(
        (next_command(&mut router, 200), router.control.next_timeout()),
        (None, Timestamp::NEVER)
    );
    let hub = router.env.add_face("udp4://192.0.2.77:6363");
    register(&mut router, "/localhop/nfd", hub.number(), origin::AUTOCONF);
    assert_eq!(next_command(&mut router, 200).unwrap().0, Some(hub.number()));
    // A prefix that only the gateway itself offers is not registered with it.
    unregister(&mut router, "/site/app", APP, origin::APP);
    assert!(next_command(&mut router, 200).unwrap().1.ends_with("unregister"));
    register(&mut router, "/site/far", hub.number(), origin::STATIC);
    assert_eq!(next_command(&mut router, 200), None);
}

#[test]
fn routing_daemon_receives_client_routes() {
    let mut router = TestRouter::new();
    apply(&mut router, OPTIONS);
    register(&mut router, "/client/a", APP, origin::CLIENT);
    register(&mut router, "/app/b", APP, origin::APP);
    register(&mut router, "/localhost/nlsr", APP, origin::APP);
    let (face, name, parameters) = next_command(&mut router, 200).expect("a command");
    assert_eq!((face, name.as_str()), (None, "/localhost/nlsr/rib/register"));
    assert_eq!(
        (parameters.name, parameters.expiration_period),
        (Some(constant_name("/client/a")), None)
    );
    assert_eq!(next_command(&mut router, 200), None);
    assert_eq!(advance_to_timeout(&mut router), 3_600_000);
}

#[test]
fn upstream_face_receives_application_prefixes_while_configured() {
    let mut router = TestRouter::new();
    register(&mut router, "/app/b", APP, origin::APP);
    register(&mut router, "/static", APP, origin::STATIC);
    let uri = router.env.faces[&FaceId::from_number(NEIGHBOUR).unwrap()].uri.clone();
    apply(&mut router, &format!("[rib]\nreadvertise_to = [\"{uri}\"]\n"));
    let (face, name, parameters) = next_command(&mut router, 200).expect("a command");
    assert_eq!((face, name.as_str()), (Some(NEIGHBOUR), "/localhop/nfd/rib/register"));
    assert_eq!(parameters.name, Some(constant_name("/app/b")));
    assert_eq!(next_command(&mut router, 200), None);
    apply(&mut router, "");
    assert_eq!(
        (next_command(&mut router, 200), router.control.next_timeout()),
        (None, Timestamp::NEVER)
    );
}

#[test]
fn gateway_route_from_neighbour_or_to_local_face_returns_403() {
    let mut router = TestRouter::new();
    let config = Config::parse("test", "[management]\nlocalhop = \"anywhere\"\n").unwrap();
    router.control.apply_config(desired_config(config), &mut router.env);
    router.run_to_completion();
    let by_neighbour = router.command_by(
        NEIGHBOUR,
        Root::Localhop,
        Verb::RibRegister,
        &parameters_for("/localhop/nfd"),
    );
    assert_eq!(by_neighbour.map(|response| response.code), Some(403));
    assert_eq!(router.env.faces[&FaceId::from_number(APP).unwrap()].scope, FaceScope::Local);
    assert_eq!(
        router.command(Verb::RibRegister, parameters_for("/localhop/nfd")).code,
        403,
        "an application"
    );
    let below =
        ControlParameters { face_id: Some(NEIGHBOUR), ..parameters_for("/localhop/nfd/rib") };
    assert_eq!(router.command(Verb::RibRegister, below).code, 403);
    register(&mut router, "/localhop/nfd", NEIGHBOUR, origin::STATIC);
    // The router's own management still has the lowest cost.
    assert_eq!(router.hops("/localhop/nfd"), Some(vec![(1, 0), (NEIGHBOUR, 0)]));
}

#[test]
fn gateway_without_replies_uses_quarter_of_commands_in_flight() {
    let mut router = TestRouter::new();
    let prefixes: Vec<String> = (0..100).map(|n| format!("\"/site/{n}\"")).collect();
    apply(&mut router, &format!("[rib]\npropagate = [{}]\n", prefixes.join(", ")));
    let responsive = router.env.add_face("udp4://192.0.2.8:6363").number();
    (0..100).for_each(|n| register(&mut router, &format!("/site/{n}/app"), APP, origin::APP));
    register(&mut router, "/localhop/nfd", NEIGHBOUR, origin::AUTOCONF);
    register(&mut router, "/localhop/nfd", responsive, origin::AUTOCONF);
    let mut commands_by_face = BTreeMap::new();
    while let Some((face, ..)) = next_command(&mut router, 0) {
        *commands_by_face.entry(face.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(commands_by_face, [(NEIGHBOUR, 16), (responsive, 16)].into());
}
