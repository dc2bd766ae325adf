//! Faces, routes and strategies of the configuration file.

use super::*;

fn config(text: &str) -> nw_api::config::Config {
    nw_api::config::Config::parse("test", text).unwrap()
}

fn apply(router: &mut TestRouter, text: &str) {
    router.control.apply_config(desired_config(config(text)), &mut router.env);
    router.run_to_completion();
}

const PEER: &str = "udp4://192.0.2.50:6363";

fn route(prefix: &str, rest: &str) -> String {
    format!("[[route]]\nprefix = \"{prefix}\"\nface = \"{PEER}\"\n{rest}\n")
}

#[test]
fn config_applied_and_reloaded_changes_differences_only() {
    let mut router = TestRouter::new();
    let strategy =
        "[[strategy]]\nprefix = \"/sync\"\nstrategy = \"/localhost/nfd/strategy/multicast\"\n";
    let with_localhost = format!(
        "{strategy}[[strategy]]\nprefix = \"/localhost\"\nstrategy = \"/localhost/nfd/strategy/best-route\"\n"
    );
    apply(&mut router, &format!("{}{}{with_localhost}", route("/a", "cost = 5"), route("/b", "")));
    assert_eq!(router.hops("/a"), Some(vec![(401, 5)]));
    assert_eq!(router.hops("/b"), Some(vec![(401, 0)]));
    assert_eq!(router.strategy("/sync"), Some(fake_environment::STRATEGIES[1]));
    assert_eq!(router.strategy("/localhost"), Some(fake_environment::STRATEGIES[0]));
    assert_eq!(router.env.operations.len(), 1, "one face for both routes");

    // The same file again changes nothing.
    let before = router.env.fib_changes;
    apply(&mut router, &format!("{}{}{with_localhost}", route("/a", "cost = 5"), route("/b", "")));
    assert_eq!(router.env.fib_changes, before);

    apply(&mut router, &format!("{}{}", route("/a", "cost = 6"), route("/c", "")));
    assert_eq!(
        (router.hops("/a"), router.hops("/b"), router.hops("/c")),
        (Some(vec![(401, 6)]), None, Some(vec![(401, 0)]))
    );
    assert_eq!(router.strategy("/sync"), None);
    assert_eq!(
        router.strategy("/localhost"),
        Some(fake_environment::STRATEGIES[1]),
        "the built-in choice"
    );
    assert!(router.env.destroyed.is_empty());

    apply(&mut router, "");
    assert_eq!(router.env.destroyed, [401]);
    assert_eq!(router.hops("/a"), None);
}

#[test]
fn config_face_created_by_others_is_not_closed() {
    let mut router = TestRouter::new();
    let text = "[[route]]\nprefix = \"/a\"\nface = \"udp4://192.0.2.1:6363\"\n";
    apply(&mut router, text);
    assert_eq!(router.hops("/a"), Some(vec![(NEIGHBOUR, 0)]));
    apply(&mut router, "");
    assert_eq!((router.hops("/a"), router.env.destroyed.len()), (None, 0));
}

#[test]
fn config_face_unreachable_is_retried_with_backoff() {
    let mut router = TestRouter::new();
    router.env.creations.insert(PEER.into(), FaceCreation::Refused(Refusal::new(504, "no reply")));
    apply(&mut router, &route("/a", ""));
    for wait_ms in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
        assert_eq!(router.control.next_timeout(), router.now.plus_millis(wait_ms));
        router.now = router.control.next_timeout();
        router.control.on_timeout(router.now, &mut router.env);
        router.run_to_completion();
    }
    assert_eq!(router.env.operations.len(), 9);
    router.env.creations.insert(PEER.into(), FaceCreation::Connecting);
    router.now = router.control.next_timeout();
    router.control.on_timeout(router.now, &mut router.env);
    router.run_to_completion();
    assert_eq!((router.control.next_timeout(), router.hops("/a")), (Timestamp::NEVER, None));
    let (operation, _) = *router.env.operations.last().unwrap();
    let face = router.env.add_face(PEER);
    router.control.on_face_connected(router.now, operation, Ok(face), &mut router.env);
    router.run_to_completion();
    assert_eq!(router.hops("/a"), Some(vec![(face.number(), 0)]));
    // The face closes: its routes are removed and it is retried.
    let status = router.env.faces.remove(&face).unwrap();
    router.control.on_face_event(router.now, FaceEventKind::Destroyed, &status, &mut router.env);
    assert_eq!(
        (router.hops("/a"), router.control.next_timeout()),
        (None, router.now.plus_millis(1000))
    );
    router.env.creations.clear();
    router.now = router.now.plus_millis(1000);
    router.control.on_timeout(router.now, &mut router.env);
    router.run_to_completion();
    assert!(router.hops("/a").is_some());
}

#[test]
fn config_face_invalid_or_destroyed_is_not_retried() {
    let mut router = TestRouter::new();
    router
        .env
        .creations
        .insert(PEER.into(), FaceCreation::Refused(Refusal::new(406, "no such scheme")));
    apply(&mut router, &route("/a", ""));
    assert_eq!(router.control.next_timeout(), Timestamp::NEVER);
    router.env.creations.clear();
    apply(&mut router, &format!("[[face]]\nuri = \"{PEER}\"\nmtu = 1420\n{}", route("/a", "")));
    assert_eq!(router.hops("/a"), Some(vec![(401, 0)]), "the section changed");
    // A face destroyed by command is not retried.
    router.command(
        Verb::FacesDestroy,
        ControlParameters { face_id: Some(401), ..Default::default() },
    );
    let status = router.env.faces.remove(&FaceId::from_number(401).unwrap()).unwrap();
    router.control.on_face_event(router.now, FaceEventKind::Destroyed, &status, &mut router.env);
    assert_eq!(router.control.next_timeout(), Timestamp::NEVER);
}

#[test]
fn config_face_removed_while_connecting_is_closed() {
    let mut router = TestRouter::new();
    router.env.creations.insert(PEER.into(), FaceCreation::Connecting);
    apply(&mut router, &route("/a", ""));
    let (operation, _) = *router.env.operations.last().unwrap();
    apply(&mut router, "");
    let face = router.env.add_face(PEER);
    router.control.on_face_connected(router.now, operation, Ok(face), &mut router.env);
    router.run_to_completion();
    assert_eq!(router.env.destroyed, [face.number()]);
    assert_eq!(router.hops("/a"), None);
    router.control.on_face_connected(
        router.now,
        operation,
        Err(Refusal::new(504, "")),
        &mut router.env,
    );
}

#[test]
fn config_face_options_changed_update_face() {
    let mut router = TestRouter::new();
    apply(&mut router, &format!("[[face]]\nuri = \"{PEER}\"\n"));
    apply(
        &mut router,
        &format!("[[face]]\nuri = \"{PEER}\"\nmtu = 1420\npersistency = \"permanent\"\n"),
    );
    let face = &router.env.faces[&FaceId::from_number(401).unwrap()];
    assert_eq!((face.mtu, face.persistency.number()), (Some(1420), 2));
    assert!(router.env.destroyed.is_empty());
}
