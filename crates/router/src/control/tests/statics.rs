//! Faces, routes and strategies of the configuration file.

use super::*;

fn config(text: &str) -> nw_api::config::Config {
    nw_api::config::Config::parse("test", text).unwrap()
}

fn apply(bench: &mut Bench, text: &str) {
    bench.control.apply_config(Plan::of(config(text)), &mut bench.env);
    bench.settle();
}

const PEER: &str = "udp4://192.0.2.50:6363";

fn route(prefix: &str, rest: &str) -> String {
    format!("[[route]]\nprefix = \"{prefix}\"\nface = \"{PEER}\"\n{rest}\n")
}

#[test]
fn a_file_is_carried_out_and_changed() {
    let mut bench = Bench::new();
    let strategy = "[[strategy]]\nprefix = \"/sync\"\nstrategy = \"/localhost/nfd/strategy/multicast\"\n";
    let with_localhost = format!(
        "{strategy}[[strategy]]\nprefix = \"/localhost\"\nstrategy = \"/localhost/nfd/strategy/best-route\"\n"
    );
    apply(&mut bench, &format!("{}{}{with_localhost}", route("/a", "cost = 5"), route("/b", "")));
    assert_eq!(bench.hops("/a"), Some(vec![(401, 5)]));
    assert_eq!(bench.hops("/b"), Some(vec![(401, 0)]));
    assert_eq!(bench.strategy("/sync"), Some(fake::STRATEGIES[1]));
    assert_eq!(bench.strategy("/localhost"), Some(fake::STRATEGIES[0]));
    assert_eq!(bench.env.tickets.len(), 1, "one face for both routes");

    // The same again changes nothing.
    let before = bench.env.fib_changes;
    apply(&mut bench, &format!("{}{}{with_localhost}", route("/a", "cost = 5"), route("/b", "")));
    assert_eq!(bench.env.fib_changes, before);

    apply(&mut bench, &format!("{}{}", route("/a", "cost = 6"), route("/c", "")));
    assert_eq!(
        (bench.hops("/a"), bench.hops("/b"), bench.hops("/c")),
        (Some(vec![(401, 6)]), None, Some(vec![(401, 0)]))
    );
    assert_eq!(bench.strategy("/sync"), None);
    assert_eq!(bench.strategy("/localhost"), Some(fake::STRATEGIES[1]), "what it is without the file");
    assert!(bench.env.destroyed.is_empty());

    apply(&mut bench, "");
    assert_eq!(bench.env.destroyed, [401]);
    assert_eq!(bench.hops("/a"), None);
}

#[test]
fn faces_that_others_made_stay_theirs() {
    let mut bench = Bench::new();
    let text = "[[route]]\nprefix = \"/a\"\nface = \"udp4://192.0.2.1:6363\"\n";
    apply(&mut bench, text);
    assert_eq!(bench.hops("/a"), Some(vec![(NEIGHBOUR, 0)]));
    apply(&mut bench, "");
    assert_eq!((bench.hops("/a"), bench.env.destroyed.len()), (None, 0));
}

#[test]
fn a_peer_that_is_not_there_yet_is_tried_again() {
    let mut bench = Bench::new();
    bench.env.outcomes.insert(PEER.into(), Created::Refused(Refusal::new(504, "nobody answered")));
    apply(&mut bench, &route("/a", ""));
    for wait_ms in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
        assert_eq!(bench.control.next_timeout(), bench.now.plus_millis(wait_ms));
        bench.now = bench.control.next_timeout();
        bench.control.on_timeout(bench.now, &mut bench.env);
        bench.settle();
    }
    assert_eq!(bench.env.tickets.len(), 9);
    bench.env.outcomes.insert(PEER.into(), Created::Later);
    bench.now = bench.control.next_timeout();
    bench.control.on_timeout(bench.now, &mut bench.env);
    bench.settle();
    assert_eq!((bench.control.next_timeout(), bench.hops("/a")), (Instant::NEVER, None));
    let (ticket, _) = *bench.env.tickets.last().unwrap();
    let face = bench.env.add_face(PEER);
    bench.control.face_completed(bench.now, ticket, Ok(face), &mut bench.env);
    bench.settle();
    assert_eq!(bench.hops("/a"), Some(vec![(face.number(), 0)]));
    // It ends: routes go with it, and it is tried again.
    let status = bench.env.faces.remove(&face).unwrap();
    bench.control.face_event(bench.now, FaceEventKind::Destroyed, &status, &mut bench.env);
    assert_eq!((bench.hops("/a"), bench.control.next_timeout()), (None, bench.now.plus_millis(1000)));
    bench.env.outcomes.clear();
    bench.now = bench.now.plus_millis(1000);
    bench.control.on_timeout(bench.now, &mut bench.env);
    bench.settle();
    assert!(bench.hops("/a").is_some());
}

#[test]
fn what_is_wrong_or_unwanted_is_left_alone() {
    let mut bench = Bench::new();
    bench.env.outcomes.insert(PEER.into(), Created::Refused(Refusal::new(406, "no such scheme")));
    apply(&mut bench, &route("/a", ""));
    assert_eq!(bench.control.next_timeout(), Instant::NEVER);
    bench.env.outcomes.clear();
    apply(&mut bench, &format!("[[face]]\nuri = \"{PEER}\"\nmtu = 1420\n{}", route("/a", "")));
    assert_eq!(bench.hops("/a"), Some(vec![(401, 0)]), "the file says something new");
    // Destroyed by command: stays away.
    bench.command(Verb::FacesDestroy, ControlParameters { face_id: Some(401), ..Default::default() });
    let status = bench.env.faces.remove(&FaceId::from_number(401).unwrap()).unwrap();
    bench.control.face_event(bench.now, FaceEventKind::Destroyed, &status, &mut bench.env);
    assert_eq!(bench.control.next_timeout(), Instant::NEVER);
}

#[test]
fn a_face_no_longer_wanted_when_connected() {
    let mut bench = Bench::new();
    bench.env.outcomes.insert(PEER.into(), Created::Later);
    apply(&mut bench, &route("/a", ""));
    let (ticket, _) = *bench.env.tickets.last().unwrap();
    apply(&mut bench, "");
    let face = bench.env.add_face(PEER);
    bench.control.face_completed(bench.now, ticket, Ok(face), &mut bench.env);
    bench.settle();
    assert_eq!(bench.env.destroyed, [face.number()]);
    assert_eq!(bench.hops("/a"), None);
    bench.control.face_completed(bench.now, ticket, Err(Refusal::new(504, "")), &mut bench.env);
}

#[test]
fn options_that_change_are_told_to_the_face() {
    let mut bench = Bench::new();
    apply(&mut bench, &format!("[[face]]\nuri = \"{PEER}\"\n"));
    apply(&mut bench, &format!("[[face]]\nuri = \"{PEER}\"\nmtu = 1420\npersistency = \"permanent\"\n"));
    let face = &bench.env.faces[&FaceId::from_number(401).unwrap()];
    assert_eq!((face.mtu, face.persistency.number()), (Some(1420), 2));
    assert!(bench.env.destroyed.is_empty());
}
