//! `rib`, `fib`, `cs`, `strategy-choice`; authority.

use super::*;
use nw_api::management::{RibEntry, Strategy, flags};
use nw_wire::tlv::push_tlv;

#[test]
fn every_router_has_these() {
    let bench = Bench::new();
    assert_eq!(bench.hops("/localhost/nfd"), Some(vec![(1, 0)]));
    assert_eq!(bench.hops("/"), Some(vec![]));
    assert_eq!(bench.hops("/localhost"), Some(vec![(1, 0)]), "not listed");
    assert_eq!(bench.strategy("/"), Some(fake::STRATEGIES[0]));
    assert_eq!(bench.strategy("/localhost"), Some(fake::STRATEGIES[1]));
    assert_eq!(bench.strategy("/localhost/nfd"), Some(fake::STRATEGIES[0]));
    assert_eq!(bench.strategy("/ndn/broadcast"), Some(fake::STRATEGIES[1]));
    assert_eq!(bench.env.fib.len(), 4);
}

#[test]
fn register_says_what_it_did_with_defaults() {
    let mut bench = Bench::new();
    let response = bench.command(Verb::RibRegister, named_parameters("/a"));
    let body = ControlParameters {
        face_id: Some(APP),
        origin: Some(0),
        cost: Some(0),
        flags: Some(flags::CHILD_INHERIT),
        ..named_parameters("/a")
    };
    assert_eq!(response, ControlResponse::ok(body));
    assert_eq!(bench.hops("/a"), Some(vec![(APP, 0)]), "in effect when answered");
    // NFD's field order: Name, FaceId, Origin, Cost, Flags.
    let encoded = response.body.encode();
    let types: Vec<u8> = vec![0x07, 0x69, 0x6f, 0x6a, 0x6c];
    let mut reader = nw_wire::Reader::new(&encoded[2..], 0);
    let seen: Vec<u8> = std::iter::from_fn(|| reader.next().unwrap().map(|part| part.typ as u8)).collect();
    assert_eq!(seen, types);
}

#[test]
fn register_as_ndnts_does_and_unregister() {
    let mut bench = Bench::new();
    let parameters = ControlParameters {
        face_id: Some(0),
        origin: Some(65),
        cost: Some(0),
        flags: Some(flags::CAPTURE),
        expiration_period: Some(1_200_000),
        ..named_parameters("/a")
    };
    let response = bench.command(Verb::RibRegister, parameters.clone());
    assert_eq!(response.body, ControlParameters { face_id: Some(APP), ..parameters });
    assert_eq!(bench.control.next_timeout(), Instant::from_millis(1000 + 1_200_000));
    // Another origin is another route.
    let response = bench.command(Verb::RibUnregister, named_parameters("/a"));
    assert_eq!((response.code, response.body.origin, response.body.face_id), (200, Some(0), Some(APP)));
    assert!(bench.hops("/a").is_some());
    let response =
        bench.command(Verb::RibUnregister, ControlParameters { origin: Some(65), ..named_parameters("/a") });
    assert_eq!(response.code, 200);
    assert_eq!(bench.hops("/a"), None);
    assert_eq!(bench.control.next_timeout(), Instant::NEVER);
}

#[test]
fn what_register_refuses() {
    let mut bench = Bench::new();
    let deep = format!("/{}", ["a"; 33].join("/"));
    for (parameters, code) in [
        (ControlParameters::default(), 400),
        (ControlParameters { mtu: Some(9), ..named_parameters("/a") }, 400),
        (ControlParameters { face_id: Some(9999), ..named_parameters("/a") }, 410),
        (ControlParameters { face_id: Some(u64::MAX), ..named_parameters("/a") }, 410),
        (named_parameters(&deep), 414),
        (named_parameters("/localhost/nfd"), 403),
        (named_parameters("/localhost/nfd/rib/list"), 403),
    ] {
        let response = bench.command(Verb::RibRegister, parameters.clone());
        assert_eq!(response.code, code, "{parameters:?}");
        // "Error answers with an empty ControlParameters (68 00)."
        assert!(response.encode().ends_with(&[0x68, 0]), "{response:?}");
    }
    assert_eq!(bench.env.fib.len(), 4);
    let whole = format!("/{}", ["a"; 32].join("/"));
    assert!(bench.command(Verb::RibRegister, named_parameters(&whole)).is_ok());
}

#[test]
fn a_full_fib_takes_the_route_back() {
    let mut env = Fake::new();
    env.fib_max = 5;
    let mut bench = Bench::with(env);
    assert!(bench.command(Verb::RibRegister, named_parameters("/a")).is_ok());
    assert_eq!(bench.command(Verb::RibRegister, named_parameters("/b")).code, 507);
    assert_eq!(bench.command(Verb::FibAddNextHop, named_parameters("/b")).code, 507);
    let strategy = Some(Strategy(named("/localhost/nfd/strategy/multicast")));
    let set = ControlParameters { strategy: strategy.clone(), ..named_parameters("/b") };
    assert_eq!(bench.command(Verb::StrategyChoiceSet, set).code, 507);
    assert_eq!(bench.items::<RibEntry>(Dataset::RibList).len(), 1);
    assert_eq!(bench.control.rib().prefixes_len(), 5);
    // Room again.
    assert!(bench.command(Verb::RibUnregister, named_parameters("/a")).is_ok());
    assert!(bench.command(Verb::RibRegister, named_parameters("/b")).is_ok());
}

#[test]
fn routes_expire_and_end_with_their_face() {
    let mut bench = Bench::new();
    let brief = ControlParameters { expiration_period: Some(500), ..named_parameters("/brief") };
    bench.command(Verb::RibRegister, brief);
    bench.command(Verb::RibRegister, named_parameters("/kept"));
    assert_eq!(bench.control.next_timeout(), Instant::from_millis(1500));
    bench.now = Instant::from_millis(1499);
    bench.control.on_timeout(bench.now, &mut bench.env);
    assert!(bench.hops("/brief").is_some());
    bench.now = Instant::from_millis(1500);
    bench.control.on_timeout(bench.now, &mut bench.env);
    assert_eq!(bench.hops("/brief"), None);
    let face = bench.env.face_status(FaceId::from_number(APP).unwrap()).unwrap();
    bench.control.face_event(bench.now, FaceEventKind::Destroyed, &face, &mut bench.env);
    assert_eq!(bench.hops("/kept"), None);
}

#[test]
fn next_hops_by_hand() {
    let mut bench = Bench::new();
    let hop = ControlParameters { face_id: Some(NEIGHBOUR), cost: Some(7), ..named_parameters("/x") };
    let response = bench.command(Verb::FibAddNextHop, hop.clone());
    assert_eq!(response, ControlResponse::ok(hop));
    assert_eq!(bench.hops("/x"), Some(vec![(NEIGHBOUR, 7)]));
    assert!(bench.items::<RibEntry>(Dataset::RibList).is_empty());
    assert_eq!(
        bench
            .command(Verb::FibAddNextHop, ControlParameters { face_id: Some(888), ..named_parameters("/x") })
            .code,
        410
    );
    assert_eq!(bench.command(Verb::FibAddNextHop, named_parameters("/localhop/nfd")).code, 403);
    let response = bench.command(
        Verb::FibRemoveNextHop,
        ControlParameters { face_id: Some(NEIGHBOUR), ..named_parameters("/x") },
    );
    assert_eq!((response.code, bench.hops("/x")), (200, None));
    // Always 200, of a route too, and that is in effect.
    bench.command(Verb::RibRegister, named_parameters("/r"));
    assert_eq!(bench.command(Verb::FibRemoveNextHop, named_parameters("/r")).code, 200);
    assert_eq!(bench.hops("/r"), None);
    bench.command(Verb::RibRegister, named_parameters("/r"));
    assert_eq!(bench.hops("/r"), Some(vec![(APP, 0)]));
    assert_eq!(bench.command(Verb::FibRemoveNextHop, named_parameters("/nothing")).code, 200);
}

#[test]
fn strategies_by_name() {
    let mut bench = Bench::new();
    let set = |strategy: &str, prefix: &str| ControlParameters {
        strategy: Some(Strategy(named(strategy))),
        ..named_parameters(prefix)
    };
    let response = bench.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/multicast", "/a"));
    assert_eq!(
        response.body.strategy_name().unwrap().to_string(),
        fake::STRATEGIES[1],
        "the version is added"
    );
    assert_eq!(bench.strategy("/a"), Some(fake::STRATEGIES[1]));
    let response = bench.command(Verb::StrategyChoiceSet, set(fake::STRATEGIES[2], "/a"));
    assert_eq!((response.code, bench.strategy("/a")), (200, Some(fake::STRATEGIES[2])));
    assert_eq!(bench.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/magic", "/a")).code, 404);
    assert_eq!(
        bench.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/multicast/v=5/x~1", "/a")).code,
        409
    );
    let deep = format!("/{}", ["a"; 33].join("/"));
    assert_eq!(
        bench.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/multicast", &deep)).code,
        414
    );
    assert_eq!(bench.command(Verb::StrategyChoiceSet, named_parameters("/a")).code, 400);
    assert_eq!(bench.command(Verb::StrategyChoiceUnset, named_parameters("/")).code, 400);
    assert_eq!(
        bench.command(Verb::StrategyChoiceUnset, named_parameters("/a")),
        ControlResponse::ok(named_parameters("/a"))
    );
    assert_eq!(bench.strategy("/a"), None);
    assert_eq!(
        bench.command(Verb::StrategyChoiceUnset, named_parameters("/a")).code,
        200,
        "also when there is none"
    );
    bench.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/multicast", "/"));
    assert_eq!(bench.strategy("/"), Some(fake::STRATEGIES[1]));
}

#[test]
fn the_content_store() {
    let mut bench = Bench::new();
    let response = bench.command(
        Verb::CsConfig,
        ControlParameters { capacity: Some(500), flags: Some(1), mask: Some(3), ..Default::default() },
    );
    assert_eq!(
        response,
        ControlResponse::ok(ControlParameters { capacity: Some(500), flags: Some(1), ..Default::default() })
    );
    let response = bench.command(Verb::CsConfig, ControlParameters::default());
    assert_eq!(
        (response.body.capacity, response.body.flags),
        (Some(500), Some(1)),
        "nothing said, nothing changed"
    );
    assert_eq!(
        bench.command(Verb::CsConfig, ControlParameters { flags: Some(1), ..Default::default() }).code,
        400
    );
    assert_eq!(bench.command(Verb::CsErase, ControlParameters::default()).code, 400);
    let response =
        bench.command(Verb::CsErase, ControlParameters { count: Some(10), ..named_parameters("/a") });
    assert_eq!(
        response,
        ControlResponse::ok(ControlParameters { count: Some(10), ..named_parameters("/a") })
    );
    let response = bench.command(Verb::CsErase, named_parameters("/a"));
    assert_eq!((response.body.count, response.body.capacity), (Some(256), Some(256)), "more is left");
    let response = bench.command(Verb::CsErase, named_parameters("/a"));
    assert_eq!((response.body.count, response.body.capacity), (Some(34), None));
}

#[test]
fn erasures_that_go_on_are_few() {
    let mut bench = Bench::new();
    bench.env.cs.entries = 100_000;
    let wires: Vec<_> =
        (0..9).map(|_| bench.command_wire(Root::Localhost, Verb::CsErase, &named_parameters("/a"))).collect();
    for wire in &wires[..8] {
        assert_eq!(bench.interest(APP, wire), Reply::Later);
    }
    assert_eq!(bench.interest(APP, &wires[8]), Reply::Answered(503), "half of the places are for others");
    assert_eq!(bench.answer_to(&wires[8]).code, 503);
    // Two more slices of a hundred each, in turn.
    for turn in 0..16 {
        assert!(bench.control.has_work());
        bench.control.work(bench.now, &mut bench.env);
        assert_eq!(bench.env.sent.len(), usize::from(turn >= 8), "{turn}");
        bench.env.sent.clear();
    }
    assert_eq!(bench.env.cs.entries, 100_000 - 8 * 256);
    assert!(!bench.control.has_work());
    // The host's own command waits in the same way.
    let asked = bench.control.command(bench.now, Verb::CsErase, &named_parameters("/a"), &mut bench.env);
    let ticket = asked.unwrap_err();
    assert_eq!(bench.settle(), 2);
    let body = ControlParameters { count: Some(256), capacity: Some(256), ..named_parameters("/a") };
    assert_eq!(bench.control.take_answered(), [(ticket, ControlResponse::ok(body))]);
}

#[test]
fn who_may() {
    let mut bench = Bench::new();
    bench.gate.commands = Verdict::Deny("not you".into());
    let response = bench.command(Verb::RibRegister, named_parameters("/a"));
    assert_eq!(
        (response.code, response.text.as_str(), response.encode().ends_with(&[0x68, 0])),
        (403, "not you", true)
    );
    assert_eq!(bench.hops("/a"), None);
    // Who may not command is not told what would be wrong with the command.
    assert_eq!(bench.command(Verb::RibRegister, ControlParameters::default()).code, 403);
    bench.gate.commands = Verdict::Silent;
    assert_eq!(bench.command_by(APP, Root::Localhost, Verb::RibRegister, &named_parameters("/a")), None);
    assert!(bench.env.sent.is_empty());
}

#[test]
fn neighbours() {
    let mut bench = Bench::new();
    let register = |bench: &mut Bench, face, parameters: &ControlParameters| {
        bench.command_by(face, Root::Localhop, Verb::RibRegister, parameters).map(|response| response.code)
    };
    assert_eq!(
        register(&mut bench, NEIGHBOUR, &named_parameters("/a")),
        None,
        "not served unless configured"
    );
    assert_eq!(bench.hops("/localhop/nfd"), None);
    let mut config = nw_api::config::Config::default();
    bench.control.apply_config(Plan::of(config.clone()), &mut bench.env);
    bench.settle();
    assert_eq!(bench.hops("/localhop/nfd"), Some(vec![(1, 0)]));
    assert_eq!(
        register(&mut bench, NEIGHBOUR, &named_parameters("/a")),
        None,
        "for this machine only, by default"
    );
    assert_eq!(register(&mut bench, APP, &named_parameters("/a")), Some(200));
    config.management.localhop = Reach::Anywhere;
    bench.control.apply_config(Plan::of(config.clone()), &mut bench.env);
    bench.settle();
    assert_eq!(register(&mut bench, NEIGHBOUR, &named_parameters("/n")), Some(200));
    assert_eq!(bench.hops("/n"), Some(vec![(NEIGHBOUR, 0)]));
    let other = ControlParameters { face_id: Some(APP), ..named_parameters("/n") };
    assert_eq!(register(&mut bench, NEIGHBOUR, &other), Some(403));
    let unregister = bench.command_by(NEIGHBOUR, Root::Localhop, Verb::RibUnregister, &other).unwrap();
    assert_eq!(unregister.code, 403);
    for verb in [Verb::FibAddNextHop, Verb::StrategyChoiceUnset, Verb::FacesDestroy, Verb::CsErase] {
        assert_eq!(bench.command_by(NEIGHBOUR, Root::Localhop, verb, &named_parameters("/n")), None);
    }
    let wire = client::dataset(Dataset::RibList, None, 1);
    assert_eq!(bench.interest(NEIGHBOUR, &wire), Reply::Silent, "/localhost by a neighbour's face");
    config.management.localhop = Reach::Nowhere;
    bench.control.apply_config(Plan::of(config.clone()), &mut bench.env);
    bench.settle();
    assert_eq!(bench.hops("/localhop/nfd"), None);
    assert_eq!(register(&mut bench, APP, &named_parameters("/a")), None);
}

/// As python-ndn's older API, ndn-js and jndn sign.
#[test]
fn commands_of_format_0_2() {
    let mut bench = Bench::new();
    let name = Verb::RibRegister.name(Root::Localhost).with_generic(named_parameters("/a").encode());
    let parts: [&[u8]; 4] = [&[1; 8], &[2; 8], &[22, 3, 27, 1, 1], &[23; 260]];
    let name = parts.iter().fold(name, |name, part| name.with_generic(part));
    let wire = InterestBuilder::new(name).can_be_prefix(true).must_be_fresh(true).encode();
    assert_eq!(bench.interest(APP, &wire), Reply::Answered(200));
    assert!(bench.answer_to(&wire).is_ok());
}

fn announcement(name: &str, content_type: u64, content: &[u8]) -> Vec<u8> {
    let name = named(name);
    let Ok(wire) = DataBuilder::new(&name, content).content_type(content_type).encode(&DigestSha256);
    wire
}

fn announce(bench: &mut Bench, wire: &[u8]) -> ControlResponse {
    bench.nonce += 1;
    let interest =
        InterestBuilder::new(Verb::RibAnnounce.name(Root::Localhost)).parameters(wire).nonce(bench.nonce);
    let Ok(interest) = interest.encode_signed(&DigestSha256, &[]);
    assert!(matches!(bench.interest(APP, &interest), Reply::Answered(_)));
    bench.answer_to(&interest)
}

#[test]
fn prefix_announcements() {
    let mut bench = Bench::new();
    let hour = [0x6d, 4, 0, 0x36, 0xee, 0x80];
    let good = announcement("/net/example/32=PA/v=1/seg=0", 5, &hour);
    let response = announce(&mut bench, &good);
    let body = ControlParameters {
        face_id: Some(APP),
        origin: Some(129),
        cost: Some(2048),
        flags: Some(1),
        expiration_period: Some(3_600_000),
        ..named_parameters("/net/example")
    };
    assert_eq!(response, ControlResponse::ok(body));
    assert_eq!(bench.hops("/net/example"), Some(vec![(APP, 2048)]));
    for (name, content_type, content) in [
        ("/net/example/PA/v=1/seg=0", 5, &hour[..]),
        ("/net/example/32=PA/v=1", 5, &hour),
        ("/net/example/32=PA/v=1/seg=0", 0, &hour),
        ("/net/example/32=PA/v=1/seg=0", 5, &[]),
        ("/net/example/32=PA/v=1/seg=0", 5, &[0x6d, 9]),
    ] {
        assert_eq!(announce(&mut bench, &announcement(name, content_type, content)).code, 400, "{name}");
    }
    assert_eq!(announce(&mut bench, b"x").code, 400);
    let reserved = announcement("/localhost/nfd/32=PA/v=1/seg=0", 5, &hour);
    assert_eq!(announce(&mut bench, &reserved).code, 403);
    bench.gate.announcements = Verdict::Deny("an unknown key".into());
    assert_eq!(announce(&mut bench, &good).code, 403);
}

#[test]
fn what_waits_for_a_certificate_changes_nothing_and_is_decided_when_it_comes_again() {
    let mut bench = Bench::new();
    let wire = bench.command_wire(Root::Localhost, Verb::RibRegister, &named_parameters("/a"));
    bench.gate.commands = Verdict::Later;
    assert_eq!(bench.interest(APP, &wire), Reply::Later);
    assert_eq!((bench.hops("/a"), bench.env.sent.len()), (None, 0));
    bench.gate.commands = Verdict::Accept;
    assert_eq!(bench.interest(APP, &wire), Reply::Answered(200));
    assert!(bench.answer_to(&wire).is_ok());
    assert_eq!(bench.hops("/a"), Some(vec![(APP, 0)]));
}

#[test]
fn announcements_have_their_time() {
    let mut bench = Bench::new();
    // The bench's clock says 2026-11-21 00:30:01.
    let content = |from: &str, to: &str| {
        let mut validity = Vec::new();
        push_tlv(254, from.as_bytes(), &mut validity);
        push_tlv(255, to.as_bytes(), &mut validity);
        let mut content = vec![0x6d, 4, 0, 0x36, 0xee, 0x80];
        push_tlv(253, &validity, &mut content);
        announcement("/a/32=PA/v=1/seg=0", 5, &content)
    };
    let response = announce(&mut bench, &content("20261120T000000", "20261121T003101"));
    assert_eq!(response.body.expiration_period, Some(60_000));
    assert_eq!(announce(&mut bench, &content("20261121T003002", "20271121T003101")).code, 403, "not yet");
    assert_eq!(announce(&mut bench, &content("20251121T003002", "20261121T003000")).code, 403, "no longer");
    assert_eq!(announce(&mut bench, &content("2025-11-21", "20261121T003000")).code, 400);
    // No such days, as in certificates.
    for nowhere in ["20270231T000000", "20270229T120000", "20271301T000000", "2027+101T000000"] {
        assert_eq!(announce(&mut bench, &content("20261120T000000", nowhere)).code, 400, "{nowhere}");
    }
}

/// The wall clock is set by NTP, or goes on while the machine sleeps: what counts is what it shows when it is needed.
#[test]
fn wall_clock_that_is_set_decides_about_announcements_at_once() {
    let mut bench = Bench::new();
    let mut validity = Vec::new();
    push_tlv(254, b"20270101T000000", &mut validity);
    push_tlv(255, b"20270101T010000", &mut validity);
    let mut content = vec![0x6d, 4, 0, 0x36, 0xee, 0x80];
    push_tlv(253, &validity, &mut content);
    let wire = announcement("/a/32=PA/v=1/seg=0", 5, &content);
    assert_eq!(announce(&mut bench, &wire).code, 403, "not yet");
    bench.env.unix_ms = 1_798_761_600_000 + 600_000;
    let response = announce(&mut bench, &wire);
    assert_eq!(response.body.expiration_period, Some(3_000_000), "ten minutes of the hour are over");
    bench.env.unix_ms += 86_400_000;
    assert_eq!(announce(&mut bench, &wire).code, 403, "no longer");
    assert_eq!(
        bench.hops("/a"),
        Some(vec![(APP, 2048)]),
        "a route lives by the clock that only goes forward"
    );
}
