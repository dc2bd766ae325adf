//! Commands `faces/create`, `faces/update` and `faces/destroy`, and notifications.

use super::*;
use fake_environment::PERMANENT;
use nw_api::management::{FaceEventNotification, flags};
use nw_name::ComponentType;

fn uri(uri: &str) -> ControlParameters {
    ControlParameters { uri: Some(uri.to_owned()), ..Default::default() }
}

#[test]
fn face_create_returns_all_properties() {
    let mut router = TestRouter::new();
    let requested = ControlParameters {
        face_persistency: Some(PERMANENT),
        flags: Some(4),
        mask: Some(4),
        mtu: Some(1420),
        ..uri("udp4://192.0.2.7:6363")
    };
    let response = router.command(Verb::FacesCreate, requested);
    let body = ControlParameters {
        face_id: Some(401),
        local_uri: Some("udp4://192.0.2.9:6363".to_owned()),
        flags: Some(4),
        face_persistency: Some(PERMANENT),
        base_congestion_marking_interval: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(1420),
        ..uri("udp4://192.0.2.7:6363")
    };
    assert_eq!(response, ControlResponse::ok(body.clone()));
    // "409 for an existing face with its full properties in the body."
    let again = router.command(Verb::FacesCreate, uri("udp4://192.0.2.7:6363"));
    assert_eq!((again.code, again.body), (409, body));
}

#[test]
fn face_create_and_update_return_congestion_and_mtu() {
    let mut router = TestRouter::new();
    let created = router.command(Verb::FacesCreate, uri("udp4://192.0.2.8:6363"));
    assert_eq!((created.code, created.body.face_id, created.body.flags), (200, Some(401), Some(0)));
    assert_eq!(
        (created.body.mtu, created.body.base_congestion_marking_interval),
        (Some(8800), Some(100_000_000))
    );
    let whole = router.command(
        Verb::FacesUpdate,
        ControlParameters { face_id: Some(401), mtu: Some(1400), ..Default::default() },
    );
    assert_eq!(
        (whole.code, whole.body.mtu, whole.body.default_congestion_threshold),
        (200, Some(1400), Some(65_536))
    );
    let same = router
        .command(Verb::FacesUpdate, ControlParameters { face_id: Some(401), ..Default::default() });
    assert_eq!((same.code, same.body.mtu, same.body.face_persistency), (200, Some(1400), Some(0)));
}

#[test]
fn face_create_invalid_parameters_returns_code() {
    let mut router = TestRouter::new();
    router
        .env
        .creations
        .insert("udp4://host".into(), FaceCreation::Refused(Refusal::new(400, "a host name")));
    for (parameters, code) in [
        (ControlParameters::default(), 400),
        (ControlParameters { flags: Some(1), ..uri("udp4://192.0.2.7:6363") }, 400),
        (ControlParameters { face_persistency: Some(1), ..uri("udp4://192.0.2.7:6363") }, 406),
        (ControlParameters { face_persistency: Some(9), ..uri("udp4://192.0.2.7:6363") }, 400),
        (uri("udp4://host"), 400),
        (ControlParameters { name: Some(Name::new()), ..uri("udp4://192.0.2.7:6363") }, 400),
    ] {
        let response = router.command(Verb::FacesCreate, parameters);
        assert_eq!(
            (response.code, &response.body),
            (code, &ControlParameters::default()),
            "{}",
            response.text
        );
    }
}

#[test]
fn face_create_connecting_replies_on_completion() {
    let mut router = TestRouter::new();
    for (peer, code) in [("tcp4://192.0.2.1:6363", 200), ("tcp4://192.0.2.2:6363", 504)] {
        router.env.creations.insert(peer.into(), FaceCreation::Connecting);
        let wire = router.command_wire(Root::Localhost, Verb::FacesCreate, &uri(peer));
        assert_eq!(router.interest(APP, &wire), Reply::Deferred);
        assert!(router.env.sent.is_empty());
        let (operation, _) = *router.env.operations.last().unwrap();
        let result = match code {
            200 => Ok(router.env.add_face(peer)),
            _ => Err(Refusal::new(code, "connection refused")),
        };
        router.control.on_face_connected(router.now, operation, result, &mut router.env);
        let response = router.answer_to(&wire);
        assert_eq!(response.code, code);
        assert_eq!(response.body.uri.is_some(), code == 200);
    }
    // The number of connecting faces is bounded.
    router.env.creations.insert("tcp4://192.0.2.3:6363".into(), FaceCreation::Connecting);
    for _ in 0..CONNECTING_MAX {
        let wire =
            router.command_wire(Root::Localhost, Verb::FacesCreate, &uri("tcp4://192.0.2.3:6363"));
        assert_eq!(router.interest(APP, &wire), Reply::Deferred);
    }
    assert_eq!(router.command(Verb::FacesCreate, uri("tcp4://192.0.2.3:6363")).code, 503);
}

#[test]
fn face_update_changes_or_returns_409() {
    let mut router = TestRouter::new();
    let local_fields = ControlParameters { flags: Some(1), mask: Some(1), ..Default::default() };
    let response = router.command(Verb::FacesUpdate, local_fields.clone());
    assert_eq!(
        (response.code, response.body.face_id, response.body.flags),
        (200, Some(APP), Some(1)),
        "0 is the ingress face"
    );
    assert_eq!((response.body.uri, response.body.face_persistency), (None, Some(0)));
    let response = router
        .command(Verb::FacesUpdate, ControlParameters { face_id: Some(NEIGHBOUR), ..local_fields });
    assert_eq!((response.code, response.body.flags, response.body.mask), (409, Some(1), Some(1)));
    let response = router.command(
        Verb::FacesUpdate,
        ControlParameters { face_id: Some(9999), ..Default::default() },
    );
    assert_eq!((response.code, response.body.face_id), (404, Some(9999)));
    assert_eq!(
        router
            .command(
                Verb::FacesUpdate,
                ControlParameters { face_id: Some(1), ..Default::default() }
            )
            .code,
        403
    );
    assert_eq!(
        router
            .command(Verb::FacesUpdate, ControlParameters { mask: Some(1), ..Default::default() })
            .code,
        400
    );
    assert_eq!(router.command(Verb::FacesUpdate, uri("udp4://x")).code, 400);
    let status = router.env.face_status(FaceId::from_number(APP).unwrap()).unwrap();
    assert_eq!(status.flags & flags::LOCAL_FIELDS, 1);
}

#[test]
fn face_destroy_absent_face_returns_200() {
    let mut router = TestRouter::new();
    let destroy = |router: &mut TestRouter, face_id| {
        router.command(Verb::FacesDestroy, ControlParameters { face_id, ..Default::default() })
    };
    let body = ControlParameters { face_id: Some(NEIGHBOUR), ..Default::default() };
    assert_eq!(destroy(&mut router, Some(NEIGHBOUR)), ControlResponse::ok(body));
    for absent in [5000, u64::MAX] {
        let response = destroy(&mut router, Some(absent));
        assert_eq!((response.code, response.body.face_id), (200, Some(absent)));
        assert_eq!(response.nothing_removed(), Some(format!("there is no face {absent}").as_str()));
    }
    assert_eq!(router.env.destroyed, [NEIGHBOUR]);
    assert_eq!(destroy(&mut router, None).code, 400);
    assert_eq!(destroy(&mut router, Some(0)).code, 400);
    assert_eq!(destroy(&mut router, Some(1)).code, 403);
    assert_eq!(router.env.destroyed.len(), 1);
}

fn event(router: &mut TestRouter, kind: FaceEventKind, face: u64) {
    let face = router.env.face_status(FaceId::from_number(face).unwrap()).unwrap();
    router.control.on_face_event(router.now, kind, &face, &mut router.env);
}

fn subscribe(router: &mut TestRouter, sequence: Option<u64>) -> Reply {
    let name = constant_name("/localhost/nfd/faces/events");
    let name = match sequence {
        Some(sequence) => name.with_number(ComponentType::SEQUENCE, sequence),
        None => name,
    };
    let wire = InterestBuilder::new(name)
        .can_be_prefix(sequence.is_none())
        .must_be_fresh(true)
        .lifetime_ms(60_000)
        .encode();
    router.interest(APP, &wire)
}

fn take_notification(router: &mut TestRouter) -> (String, FaceEventNotification) {
    let (wire, _) = router.env.sent.pop().expect("a notification");
    let data = Data::check(&wire).unwrap();
    assert_eq!(data.freshness_ms(), 1000);
    (data.name().to_string(), FaceEventNotification::decode(data.content()).unwrap())
}

#[test]
fn face_events_are_delivered_in_sequence() {
    let mut router = TestRouter::new();
    event(&mut router, FaceEventKind::Created, APP);
    assert!(router.env.sent.is_empty(), "there is no subscriber");
    assert_eq!(subscribe(&mut router, None), Reply::Deferred, "the next event, not the last one");
    event(&mut router, FaceEventKind::Down, NEIGHBOUR);
    let (name, notification) = take_notification(&mut router);
    assert_eq!(name, "/localhost/nfd/faces/events/seq=1");
    assert_eq!((notification.kind, notification.face_id), (FaceEventKind::Down, NEIGHBOUR));
    assert_eq!(notification.uri, "udp4://192.0.2.1:6363");
    assert_eq!(subscribe(&mut router, Some(2)), Reply::Deferred);
    event(&mut router, FaceEventKind::Up, NEIGHBOUR);
    assert_eq!(take_notification(&mut router).0, "/localhost/nfd/faces/events/seq=2");
    // All events of a burst are available.
    for _ in 0..5000 {
        event(&mut router, FaceEventKind::Up, NEIGHBOUR);
    }
    router.env.sent.clear();
    assert_eq!(subscribe(&mut router, Some(5002)), Reply::Sent);
    assert_eq!(take_notification(&mut router).0, "/localhost/nfd/faces/events/seq=5002");
    assert_eq!(subscribe(&mut router, Some(5003 - 4096)), Reply::Sent);
    assert_eq!(subscribe(&mut router, Some(5002 - 4096)), Reply::Ignored, "no longer kept");
    assert_eq!(subscribe(&mut router, Some(5003)), Reply::Deferred);
    assert_eq!(subscribe(&mut router, Some(u64::MAX)), Reply::Deferred);
    // A subscriber that was idle for too long is not notified.
    router.env.sent.clear();
    router.now = router.now.plus_millis(600_001);
    event(&mut router, FaceEventKind::Up, NEIGHBOUR);
    assert!(router.env.sent.is_empty());
}

/// The management protocol answers 200; the host's own commands, used by REST, answer 404.
#[test]
fn remove_absent_returns_200_to_clients_404_to_host() {
    let mut router = TestRouter::new();
    let face = ControlParameters { face_id: Some(999_999), ..Default::default() };
    for (verb, parameters, expected) in [
        (Verb::FacesDestroy, face.clone(), "there is no face 999999"),
        (Verb::RibUnregister, parameters_for("/a"), "there is no route /a to face"),
        (Verb::FibRemoveNextHop, parameters_for("/a"), "is no next hop of /a"),
        (Verb::StrategyChoiceUnset, parameters_for("/a"), "no strategy is chosen for /a itself"),
    ] {
        let response = router.command(verb, parameters.clone());
        assert_eq!(response.code, 200, "{verb}");
        assert!(response.nothing_removed().unwrap().contains(expected), "{response:?}");
        let host_reply =
            router.control.command(router.now, verb, &parameters, &mut router.env).unwrap();
        assert_eq!(host_reply.code, 404, "{verb}");
        assert!(host_reply.text.contains(expected), "{host_reply:?}");
    }
    let unknown = ControlParameters {
        strategy: Some(nw_api::management::Strategy(constant_name(
            "/localhost/nfd/strategy/magic",
        ))),
        ..parameters_for("/a")
    };
    assert_eq!(router.command(Verb::StrategyChoiceSet, unknown).code, 404);
    let update = ControlParameters { mtu: Some(1400), ..face };
    assert_eq!(router.command(Verb::FacesUpdate, update).code, 404);
}

#[test]
fn response_to_long_request_fits_packet() {
    let mut router = TestRouter::new();
    for len in [100, 3000, 5000, 7000, 8300] {
        let long = format!("udp4://{}", "x".repeat(len));
        router.env.creations.insert(
            long.clone(),
            FaceCreation::Refused(Refusal::new(400, format!("{long} is no URI"))),
        );
        let response = router.command(Verb::FacesCreate, uri(&long));
        assert_eq!(response.code, 400, "{len}");
        assert!(
            response.text.len() <= 1030 && (len > 7000 || response.text.starts_with("udp4://xxx"))
        );
        let host_reply = router
            .control
            .command(router.now, Verb::FacesCreate, &uri(&long), &mut router.env)
            .unwrap();
        assert!(host_reply.text.len() <= 1030);
    }
}

#[test]
fn face_create_full_pool_cancels_oldest_of_heaviest_face() {
    let mut router = TestRouter::new();
    let slow = "tcp4://192.0.2.9:6363";
    router.env.creations.insert(slow.to_owned(), FaceCreation::Connecting);
    let wires: Vec<_> = (0..=CONNECTING_MAX)
        .map(|_| router.command_wire(Root::Localhost, Verb::FacesCreate, &uri(slow)))
        .collect();
    for wire in &wires[..CONNECTING_MAX] {
        assert_eq!(router.interest(APP, wire), Reply::Deferred);
    }
    assert_eq!(router.interest(APP, &wires[CONNECTING_MAX]), Reply::Answered(503));
    router.env.sent.clear();
    // Another face gets capacity: the oldest of the face with the most is cancelled and answered.
    let second = router.command_wire(Root::Localhost, Verb::FacesCreate, &uri(slow));
    assert_eq!(router.interest(302, &second), Reply::Deferred);
    let first = router.env.operations[0].0;
    assert_eq!(router.env.cancelled, [first]);
    let (data, _) = router.env.sent.pop().unwrap();
    let data = Data::check(&data).unwrap();
    assert_eq!(data.name(), Interest::check(&wires[0]).unwrap().name());
    assert_eq!(ControlResponse::decode(data.content()).unwrap().code, 503);
    // The operator gets capacity too.
    assert!(
        router.control.command(router.now, Verb::FacesCreate, &uri(slow), &mut router.env).is_err()
    );
    assert_eq!(router.env.cancelled.len(), 2);
    assert_eq!(router.control.shortages().total(), 3);
}
