//! `faces/create`, `faces/update`, `faces/destroy`, and notifications.

use super::*;
use fake::PERMANENT;
use nw_api::management::{FaceEventNotification, flags};
use nw_name::ComponentType;

fn uri(uri: &str) -> ControlParameters {
    ControlParameters { uri: Some(uri.to_owned()), ..Default::default() }
}

#[test]
fn create_says_all_properties() {
    let mut bench = Bench::new();
    let asked = ControlParameters {
        face_persistency: Some(PERMANENT),
        flags: Some(4),
        mask: Some(4),
        mtu: Some(1420),
        ..uri("udp4://192.0.2.7:6363")
    };
    let response = bench.command(Verb::FacesCreate, asked);
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
    let again = bench.command(Verb::FacesCreate, uri("udp4://192.0.2.7:6363"));
    assert_eq!((again.code, again.body), (409, body));
}

#[test]
fn answers_to_create_and_update_say_congestion_and_mtu() {
    let mut bench = Bench::new();
    let made = bench.command(Verb::FacesCreate, uri("udp4://192.0.2.8:6363"));
    assert_eq!((made.code, made.body.face_id, made.body.flags), (200, Some(401), Some(0)));
    assert_eq!((made.body.mtu, made.body.base_congestion_marking_interval), (Some(8800), Some(100_000_000)));
    let whole = bench.command(
        Verb::FacesUpdate,
        ControlParameters { face_id: Some(401), mtu: Some(1400), ..Default::default() },
    );
    assert_eq!(
        (whole.code, whole.body.mtu, whole.body.default_congestion_threshold),
        (200, Some(1400), Some(65_536))
    );
    let same =
        bench.command(Verb::FacesUpdate, ControlParameters { face_id: Some(401), ..Default::default() });
    assert_eq!((same.code, same.body.mtu, same.body.face_persistency), (200, Some(1400), Some(0)));
}

#[test]
fn create_refuses() {
    let mut bench = Bench::new();
    bench.env.outcomes.insert("udp4://host".into(), Created::Refused(Refusal::new(400, "a host name")));
    for (parameters, code) in [
        (ControlParameters::default(), 400),
        (ControlParameters { flags: Some(1), ..uri("udp4://192.0.2.7:6363") }, 400),
        (ControlParameters { face_persistency: Some(1), ..uri("udp4://192.0.2.7:6363") }, 406),
        (ControlParameters { face_persistency: Some(9), ..uri("udp4://192.0.2.7:6363") }, 400),
        (uri("udp4://host"), 400),
        (ControlParameters { name: Some(Name::new()), ..uri("udp4://192.0.2.7:6363") }, 400),
    ] {
        let response = bench.command(Verb::FacesCreate, parameters);
        assert_eq!(
            (response.code, &response.body),
            (code, &ControlParameters::default()),
            "{}",
            response.text
        );
    }
}

#[test]
fn create_answers_when_connected_or_not() {
    let mut bench = Bench::new();
    for (peer, answered) in [("tcp4://192.0.2.1:6363", 200), ("tcp4://192.0.2.2:6363", 504)] {
        bench.env.outcomes.insert(peer.into(), Created::Later);
        let wire = bench.command_wire(Root::Localhost, Verb::FacesCreate, &uri(peer));
        assert_eq!(bench.interest(APP, &wire), Reply::Later);
        assert!(bench.env.sent.is_empty());
        let (ticket, _) = *bench.env.tickets.last().unwrap();
        let done = match answered {
            200 => Ok(bench.env.add_face(peer)),
            code => Err(Refusal::new(code, "connection refused")),
        };
        bench.control.face_completed(bench.now, ticket, done, &mut bench.env);
        let response = bench.answer_to(&wire);
        assert_eq!(response.code, answered);
        assert_eq!(response.body.uri.is_some(), answered == 200);
    }
    // Not more than can be kept in mind.
    bench.env.outcomes.insert("tcp4://192.0.2.3:6363".into(), Created::Later);
    for _ in 0..CONNECTING_MAX {
        let wire = bench.command_wire(Root::Localhost, Verb::FacesCreate, &uri("tcp4://192.0.2.3:6363"));
        assert_eq!(bench.interest(APP, &wire), Reply::Later);
    }
    assert_eq!(bench.command(Verb::FacesCreate, uri("tcp4://192.0.2.3:6363")).code, 503);
}

#[test]
fn update() {
    let mut bench = Bench::new();
    let local_fields = ControlParameters { flags: Some(1), mask: Some(1), ..Default::default() };
    let response = bench.command(Verb::FacesUpdate, local_fields.clone());
    assert_eq!(
        (response.code, response.body.face_id, response.body.flags),
        (200, Some(APP), Some(1)),
        "0 is the asker's face"
    );
    assert_eq!((response.body.uri, response.body.face_persistency), (None, Some(0)));
    let response =
        bench.command(Verb::FacesUpdate, ControlParameters { face_id: Some(NEIGHBOUR), ..local_fields });
    assert_eq!((response.code, response.body.flags, response.body.mask), (409, Some(1), Some(1)));
    let response =
        bench.command(Verb::FacesUpdate, ControlParameters { face_id: Some(9999), ..Default::default() });
    assert_eq!((response.code, response.body.face_id), (404, Some(9999)));
    assert_eq!(
        bench.command(Verb::FacesUpdate, ControlParameters { face_id: Some(1), ..Default::default() }).code,
        403
    );
    assert_eq!(
        bench.command(Verb::FacesUpdate, ControlParameters { mask: Some(1), ..Default::default() }).code,
        400
    );
    assert_eq!(bench.command(Verb::FacesUpdate, uri("udp4://x")).code, 400);
    let status = bench.env.face_status(FaceId::from_number(APP).unwrap()).unwrap();
    assert_eq!(status.flags & flags::LOCAL_FIELDS, 1);
}

#[test]
fn destroy_is_always_200() {
    let mut bench = Bench::new();
    let destroy = |bench: &mut Bench, face_id| {
        bench.command(Verb::FacesDestroy, ControlParameters { face_id, ..Default::default() })
    };
    let body = ControlParameters { face_id: Some(NEIGHBOUR), ..Default::default() };
    assert_eq!(destroy(&mut bench, Some(NEIGHBOUR)), ControlResponse::ok(body));
    for absent in [5000, u64::MAX] {
        let response = destroy(&mut bench, Some(absent));
        assert_eq!((response.code, response.body.face_id), (200, Some(absent)));
        assert_eq!(response.nothing_removed(), Some(format!("there is no face {absent}").as_str()));
    }
    assert_eq!(bench.env.destroyed, [NEIGHBOUR]);
    assert_eq!(destroy(&mut bench, None).code, 400);
    assert_eq!(destroy(&mut bench, Some(0)).code, 400);
    assert_eq!(destroy(&mut bench, Some(1)).code, 403);
    assert_eq!(bench.env.destroyed.len(), 1);
}

fn event(bench: &mut Bench, kind: FaceEventKind, face: u64) {
    let face = bench.env.face_status(FaceId::from_number(face).unwrap()).unwrap();
    bench.control.face_event(bench.now, kind, &face, &mut bench.env);
}

fn ask(bench: &mut Bench, sequence: Option<u64>) -> Reply {
    let name = named("/localhost/nfd/faces/events");
    let name = match sequence {
        Some(sequence) => name.with_number(ComponentType::SEQUENCE, sequence),
        None => name,
    };
    let wire = InterestBuilder::new(name)
        .can_be_prefix(sequence.is_none())
        .must_be_fresh(true)
        .lifetime_ms(60_000)
        .encode();
    bench.interest(APP, &wire)
}

fn told(bench: &mut Bench) -> (String, FaceEventNotification) {
    let (wire, _) = bench.env.sent.pop().expect("a notification");
    let data = Data::check(&wire).unwrap();
    assert_eq!(data.freshness_ms(), 1000);
    (data.name().to_string(), FaceEventNotification::decode(data.content()).unwrap())
}

#[test]
fn notifications() {
    let mut bench = Bench::new();
    event(&mut bench, FaceEventKind::Created, APP);
    assert!(bench.env.sent.is_empty(), "nobody listens");
    assert_eq!(ask(&mut bench, None), Reply::Later, "the next event, not the last one");
    event(&mut bench, FaceEventKind::Down, NEIGHBOUR);
    let (name, event_told) = told(&mut bench);
    assert_eq!(name, "/localhost/nfd/faces/events/seq=1");
    assert_eq!((event_told.kind, event_told.face_id), (FaceEventKind::Down, NEIGHBOUR));
    assert_eq!(event_told.uri, "udp4://192.0.2.1:6363");
    assert_eq!(ask(&mut bench, Some(2)), Reply::Later);
    event(&mut bench, FaceEventKind::Up, NEIGHBOUR);
    assert_eq!(told(&mut bench).0, "/localhost/nfd/faces/events/seq=2");
    // In a burst nobody misses one.
    for _ in 0..5000 {
        event(&mut bench, FaceEventKind::Up, NEIGHBOUR);
    }
    bench.env.sent.clear();
    assert_eq!(ask(&mut bench, Some(5002)), Reply::Sent);
    assert_eq!(told(&mut bench).0, "/localhost/nfd/faces/events/seq=5002");
    assert_eq!(ask(&mut bench, Some(5003 - 4096)), Reply::Sent);
    assert_eq!(ask(&mut bench, Some(5002 - 4096)), Reply::Silent, "too long ago");
    assert_eq!(ask(&mut bench, Some(5003)), Reply::Later);
    assert_eq!(ask(&mut bench, Some(u64::MAX)), Reply::Later);
    // Who has gone for long is not told.
    bench.env.sent.clear();
    bench.now = bench.now.plus_millis(600_001);
    event(&mut bench, FaceEventKind::Up, NEIGHBOUR);
    assert!(bench.env.sent.is_empty());
}

/// The management protocol answers 200; the host's own commands, which REST gives, say 404.
#[test]
fn removing_what_is_not_there_says_so() {
    let mut bench = Bench::new();
    let face = ControlParameters { face_id: Some(999_999), ..Default::default() };
    for (verb, parameters, says) in [
        (Verb::FacesDestroy, face.clone(), "there is no face 999999"),
        (Verb::RibUnregister, named_parameters("/a"), "there is no route /a to face"),
        (Verb::FibRemoveNextHop, named_parameters("/a"), "is no next hop of /a"),
        (Verb::StrategyChoiceUnset, named_parameters("/a"), "no strategy is chosen for /a itself"),
    ] {
        let response = bench.command(verb, parameters.clone());
        assert_eq!(response.code, 200, "{verb}");
        assert!(response.nothing_removed().unwrap().contains(says), "{response:?}");
        let own = bench.control.command(bench.now, verb, &parameters, &mut bench.env).unwrap();
        assert_eq!(own.code, 404, "{verb}");
        assert!(own.text.contains(says), "{own:?}");
    }
    let unknown = ControlParameters {
        strategy: Some(nw_api::management::Strategy(named("/localhost/nfd/strategy/magic"))),
        ..named_parameters("/a")
    };
    assert_eq!(bench.command(Verb::StrategyChoiceSet, unknown).code, 404);
    let update = ControlParameters { mtu: Some(1400), ..face };
    assert_eq!(bench.command(Verb::FacesUpdate, update).code, 404);
}

#[test]
fn answer_to_a_long_request_fits_a_packet() {
    let mut bench = Bench::new();
    for len in [100, 3000, 5000, 7000, 8300] {
        let long = format!("udp4://{}", "x".repeat(len));
        bench
            .env
            .outcomes
            .insert(long.clone(), Created::Refused(Refusal::new(400, format!("{long} is no URI"))));
        let response = bench.command(Verb::FacesCreate, uri(&long));
        assert_eq!(response.code, 400, "{len}");
        assert!(response.text.len() <= 1030 && (len > 7000 || response.text.starts_with("udp4://xxx")));
        let own = bench.control.command(bench.now, Verb::FacesCreate, &uri(&long), &mut bench.env).unwrap();
        assert!(own.text.len() <= 1030);
    }
}

#[test]
fn places_for_connecting_faces_are_shared_by_face() {
    let mut bench = Bench::new();
    let slow = "tcp4://192.0.2.9:6363";
    bench.env.outcomes.insert(slow.to_owned(), Created::Later);
    let wires: Vec<_> = (0..=CONNECTING_MAX)
        .map(|_| bench.command_wire(Root::Localhost, Verb::FacesCreate, &uri(slow)))
        .collect();
    for wire in &wires[..CONNECTING_MAX] {
        assert_eq!(bench.interest(APP, wire), Reply::Later);
    }
    assert_eq!(bench.interest(APP, &wires[CONNECTING_MAX]), Reply::Answered(503));
    bench.env.sent.clear();
    // Another face has its place: the first of the face with most is given up, and answered.
    let other = bench.command_wire(Root::Localhost, Verb::FacesCreate, &uri(slow));
    assert_eq!(bench.interest(302, &other), Reply::Later);
    let first = bench.env.tickets[0].0;
    assert_eq!(bench.env.abandoned, [first]);
    let (data, _) = bench.env.sent.pop().unwrap();
    let data = Data::check(&data).unwrap();
    assert_eq!(data.name(), Interest::check(&wires[0]).unwrap().name());
    assert_eq!(ControlResponse::decode(data.content()).unwrap().code, 503);
    // So has the operator.
    assert!(bench.control.command(bench.now, Verb::FacesCreate, &uri(slow), &mut bench.env).is_err());
    assert_eq!(bench.env.abandoned.len(), 2);
    assert_eq!(bench.control.shortages().total(), 3);
}
