//! Commands of `rib`, `fib`, `cs` and `strategy-choice`, and access control.

use super::*;
use nw_api::management::{RibEntry, Strategy, flags};
use nw_wire::tlv::push_tlv;

#[test]
fn new_router_has_default_entries() {
    let router = TestRouter::new();
    assert_eq!(router.hops("/localhost/nfd"), Some(vec![(1, 0)]));
    assert_eq!(router.hops("/"), Some(vec![]));
    assert_eq!(router.hops("/localhost"), Some(vec![(1, 0)]), "not listed");
    assert_eq!(router.strategy("/"), Some(fake_environment::STRATEGIES[0]));
    assert_eq!(router.strategy("/localhost"), Some(fake_environment::STRATEGIES[1]));
    assert_eq!(router.strategy("/localhost/nfd"), Some(fake_environment::STRATEGIES[0]));
    assert_eq!(router.strategy("/ndn/broadcast"), Some(fake_environment::STRATEGIES[1]));
    assert_eq!(router.env.fib.len(), 4);
}

#[test]
fn register_defaults_are_in_response() {
    let mut router = TestRouter::new();
    let response = router.command(Verb::RibRegister, parameters_for("/a"));
    let body = ControlParameters {
        face_id: Some(APP),
        origin: Some(0),
        cost: Some(0),
        flags: Some(flags::CHILD_INHERIT),
        ..parameters_for("/a")
    };
    assert_eq!(response, ControlResponse::ok(body));
    assert_eq!(router.hops("/a"), Some(vec![(APP, 0)]), "in effect when answered");
    // NFD's field order: Name, FaceId, Origin, Cost, Flags.
    let encoded = response.body.encode();
    let types: Vec<u8> = vec![0x07, 0x69, 0x6f, 0x6a, 0x6c];
    let mut reader = nw_wire::Reader::new(&encoded[2..], 0);
    let seen: Vec<u8> =
        std::iter::from_fn(|| reader.next().unwrap().map(|part| part.typ as u8)).collect();
    assert_eq!(seen, types);
}

#[test]
fn register_ndnts_parameters_and_unregister_by_origin() {
    let mut router = TestRouter::new();
    let parameters = ControlParameters {
        face_id: Some(0),
        origin: Some(65),
        cost: Some(0),
        flags: Some(flags::CAPTURE),
        expiration_period: Some(1_200_000),
        ..parameters_for("/a")
    };
    let response = router.command(Verb::RibRegister, parameters.clone());
    assert_eq!(response.body, ControlParameters { face_id: Some(APP), ..parameters });
    assert_eq!(router.control.next_timeout(), Timestamp::from_millis(1000 + 1_200_000));
    // A route with another origin is another route.
    let response = router.command(Verb::RibUnregister, parameters_for("/a"));
    assert_eq!(
        (response.code, response.body.origin, response.body.face_id),
        (200, Some(0), Some(APP))
    );
    assert!(router.hops("/a").is_some());
    let response = router.command(
        Verb::RibUnregister,
        ControlParameters { origin: Some(65), ..parameters_for("/a") },
    );
    assert_eq!(response.code, 200);
    assert_eq!(router.hops("/a"), None);
    assert_eq!(router.control.next_timeout(), Timestamp::NEVER);
}

#[test]
fn register_invalid_parameters_returns_code() {
    let mut router = TestRouter::new();
    let deep = format!("/{}", ["a"; 33].join("/"));
    for (parameters, code) in [
        (ControlParameters::default(), 400),
        (ControlParameters { mtu: Some(9), ..parameters_for("/a") }, 400),
        (ControlParameters { face_id: Some(9999), ..parameters_for("/a") }, 410),
        (ControlParameters { face_id: Some(u64::MAX), ..parameters_for("/a") }, 410),
        (parameters_for(&deep), 414),
        (parameters_for("/localhost/nfd"), 403),
        (parameters_for("/localhost/nfd/rib/list"), 403),
    ] {
        let response = router.command(Verb::RibRegister, parameters.clone());
        assert_eq!(response.code, code, "{parameters:?}");
        // "Error answers with an empty ControlParameters (68 00)."
        assert!(response.encode().ends_with(&[0x68, 0]), "{response:?}");
    }
    assert_eq!(router.env.fib.len(), 4);
    let whole = format!("/{}", ["a"; 32].join("/"));
    assert!(router.command(Verb::RibRegister, parameters_for(&whole)).is_ok());
}

#[test]
fn register_full_fib_returns_507_and_reverts() {
    let mut env = FakeEnvironment::new();
    env.fib_max = 5;
    let mut router = TestRouter::with(env);
    assert!(router.command(Verb::RibRegister, parameters_for("/a")).is_ok());
    assert_eq!(router.command(Verb::RibRegister, parameters_for("/b")).code, 507);
    assert_eq!(router.command(Verb::FibAddNextHop, parameters_for("/b")).code, 507);
    let strategy = Some(Strategy(constant_name("/localhost/nfd/strategy/multicast")));
    let set = ControlParameters { strategy: strategy.clone(), ..parameters_for("/b") };
    assert_eq!(router.command(Verb::StrategyChoiceSet, set).code, 507);
    assert_eq!(router.items::<RibEntry>(Dataset::RibList).len(), 1);
    assert_eq!(router.control.rib().prefixes_len(), 5);
    // Removing a route makes capacity for another.
    assert!(router.command(Verb::RibUnregister, parameters_for("/a")).is_ok());
    assert!(router.command(Verb::RibRegister, parameters_for("/b")).is_ok());
}

#[test]
fn route_expires_and_is_removed_with_face() {
    let mut router = TestRouter::new();
    let brief = ControlParameters { expiration_period: Some(500), ..parameters_for("/brief") };
    router.command(Verb::RibRegister, brief);
    router.command(Verb::RibRegister, parameters_for("/permanent"));
    assert_eq!(router.control.next_timeout(), Timestamp::from_millis(1500));
    router.now = Timestamp::from_millis(1499);
    router.control.on_timeout(router.now, &mut router.env);
    assert!(router.hops("/brief").is_some());
    router.now = Timestamp::from_millis(1500);
    router.control.on_timeout(router.now, &mut router.env);
    assert_eq!(router.hops("/brief"), None);
    let face = router.env.face_status(FaceId::from_number(APP).unwrap()).unwrap();
    router.control.on_face_event(router.now, FaceEventKind::Destroyed, &face, &mut router.env);
    assert_eq!(router.hops("/permanent"), None);
}

#[test]
fn fib_commands_add_and_remove_direct_next_hops() {
    let mut router = TestRouter::new();
    let hop = ControlParameters { face_id: Some(NEIGHBOUR), cost: Some(7), ..parameters_for("/x") };
    let response = router.command(Verb::FibAddNextHop, hop.clone());
    assert_eq!(response, ControlResponse::ok(hop));
    assert_eq!(router.hops("/x"), Some(vec![(NEIGHBOUR, 7)]));
    assert!(router.items::<RibEntry>(Dataset::RibList).is_empty());
    assert_eq!(
        router
            .command(
                Verb::FibAddNextHop,
                ControlParameters { face_id: Some(888), ..parameters_for("/x") }
            )
            .code,
        410
    );
    assert_eq!(router.command(Verb::FibAddNextHop, parameters_for("/localhop/nfd")).code, 403);
    let response = router.command(
        Verb::FibRemoveNextHop,
        ControlParameters { face_id: Some(NEIGHBOUR), ..parameters_for("/x") },
    );
    assert_eq!((response.code, router.hops("/x")), (200, None));
    // Always 200, also for a next hop that is a route, and it is in effect.
    router.command(Verb::RibRegister, parameters_for("/r"));
    assert_eq!(router.command(Verb::FibRemoveNextHop, parameters_for("/r")).code, 200);
    assert_eq!(router.hops("/r"), None);
    router.command(Verb::RibRegister, parameters_for("/r"));
    assert_eq!(router.hops("/r"), Some(vec![(APP, 0)]));
    assert_eq!(router.command(Verb::FibRemoveNextHop, parameters_for("/nothing")).code, 200);
}

#[test]
fn strategy_choice_set_and_unset_by_name() {
    let mut router = TestRouter::new();
    let set = |strategy: &str, prefix: &str| ControlParameters {
        strategy: Some(Strategy(constant_name(strategy))),
        ..parameters_for(prefix)
    };
    let response =
        router.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/multicast", "/a"));
    assert_eq!(
        response.body.strategy_name().unwrap().to_string(),
        fake_environment::STRATEGIES[1],
        "the version is added"
    );
    assert_eq!(router.strategy("/a"), Some(fake_environment::STRATEGIES[1]));
    let response =
        router.command(Verb::StrategyChoiceSet, set(fake_environment::STRATEGIES[2], "/a"));
    assert_eq!(
        (response.code, router.strategy("/a")),
        (200, Some(fake_environment::STRATEGIES[2]))
    );
    assert_eq!(
        router.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/magic", "/a")).code,
        404
    );
    assert_eq!(
        router
            .command(
                Verb::StrategyChoiceSet,
                set("/localhost/nfd/strategy/multicast/v=5/x~1", "/a")
            )
            .code,
        409
    );
    let deep = format!("/{}", ["a"; 33].join("/"));
    assert_eq!(
        router
            .command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/multicast", &deep))
            .code,
        414
    );
    assert_eq!(router.command(Verb::StrategyChoiceSet, parameters_for("/a")).code, 400);
    assert_eq!(router.command(Verb::StrategyChoiceUnset, parameters_for("/")).code, 400);
    assert_eq!(
        router.command(Verb::StrategyChoiceUnset, parameters_for("/a")),
        ControlResponse::ok(parameters_for("/a"))
    );
    assert_eq!(router.strategy("/a"), None);
    assert_eq!(
        router.command(Verb::StrategyChoiceUnset, parameters_for("/a")).code,
        200,
        "also if there is none"
    );
    router.command(Verb::StrategyChoiceSet, set("/localhost/nfd/strategy/multicast", "/"));
    assert_eq!(router.strategy("/"), Some(fake_environment::STRATEGIES[1]));
}

#[test]
fn cs_commands_configure_and_erase() {
    let mut router = TestRouter::new();
    let response = router.command(
        Verb::CsConfig,
        ControlParameters {
            capacity: Some(500),
            flags: Some(1),
            mask: Some(3),
            ..Default::default()
        },
    );
    assert_eq!(
        response,
        ControlResponse::ok(ControlParameters {
            capacity: Some(500),
            flags: Some(1),
            ..Default::default()
        })
    );
    let response = router.command(Verb::CsConfig, ControlParameters::default());
    assert_eq!(
        (response.body.capacity, response.body.flags),
        (Some(500), Some(1)),
        "no field, no change"
    );
    assert_eq!(
        router
            .command(Verb::CsConfig, ControlParameters { flags: Some(1), ..Default::default() })
            .code,
        400
    );
    assert_eq!(router.command(Verb::CsErase, ControlParameters::default()).code, 400);
    let response = router
        .command(Verb::CsErase, ControlParameters { count: Some(10), ..parameters_for("/a") });
    assert_eq!(
        response,
        ControlResponse::ok(ControlParameters { count: Some(10), ..parameters_for("/a") })
    );
    let response = router.command(Verb::CsErase, parameters_for("/a"));
    assert_eq!(
        (response.body.count, response.body.capacity),
        (Some(256), Some(256)),
        "more packets remain"
    );
    let response = router.command(Verb::CsErase, parameters_for("/a"));
    assert_eq!((response.body.count, response.body.capacity), (Some(34), None));
}

#[test]
fn cs_erase_many_under_way_returns_503() {
    let mut router = TestRouter::new();
    router.env.cs.entries = 100_000;
    let wires: Vec<_> = (0..9)
        .map(|_| router.command_wire(Root::Localhost, Verb::CsErase, &parameters_for("/a")))
        .collect();
    for wire in &wires[..8] {
        assert_eq!(router.interest(APP, wire), Reply::Deferred);
    }
    assert_eq!(
        router.interest(APP, &wires[8]),
        Reply::Answered(503),
        "half of the capacity is for other faces"
    );
    assert_eq!(router.answer_to(&wires[8]).code, 503);
    // Two more parts of a hundred packets each, in turn.
    for turn in 0..16 {
        assert!(router.control.has_work());
        router.control.work(router.now, &mut router.env);
        assert_eq!(router.env.sent.len(), usize::from(turn >= 8), "{turn}");
        router.env.sent.clear();
    }
    assert_eq!(router.env.cs.entries, 100_000 - 8 * 256);
    assert!(!router.control.has_work());
    // The host's own command is deferred in the same way.
    let result =
        router.control.command(router.now, Verb::CsErase, &parameters_for("/a"), &mut router.env);
    let operation = result.unwrap_err();
    assert_eq!(router.run_to_completion(), 2);
    let body = ControlParameters { count: Some(256), capacity: Some(256), ..parameters_for("/a") };
    assert_eq!(router.control.take_host_replies(), [(operation, ControlResponse::ok(body))]);
}

#[test]
fn command_denied_returns_403_and_ignored_gets_no_reply() {
    let mut router = TestRouter::new();
    router.authority.commands = Verdict::Deny("not you".into());
    let response = router.command(Verb::RibRegister, parameters_for("/a"));
    assert_eq!(
        (response.code, response.text.as_str(), response.encode().ends_with(&[0x68, 0])),
        (403, "not you", true)
    );
    assert_eq!(router.hops("/a"), None);
    // A client without permission does not learn what is wrong with its command.
    assert_eq!(router.command(Verb::RibRegister, ControlParameters::default()).code, 403);
    router.authority.commands = Verdict::Ignore;
    assert_eq!(
        router.command_by(APP, Root::Localhost, Verb::RibRegister, &parameters_for("/a")),
        None
    );
    assert!(router.env.sent.is_empty());
}

#[test]
fn localhop_command_from_neighbour_obeys_configuration() {
    let mut router = TestRouter::new();
    let register = |router: &mut TestRouter, face, parameters: &ControlParameters| {
        router
            .command_by(face, Root::Localhop, Verb::RibRegister, parameters)
            .map(|response| response.code)
    };
    assert_eq!(
        register(&mut router, NEIGHBOUR, &parameters_for("/a")),
        None,
        "not served unless configured"
    );
    assert_eq!(router.hops("/localhop/nfd"), None);
    let mut config = nw_api::config::Config::default();
    router.control.apply_config(desired_config(config.clone()), &mut router.env);
    router.run_to_completion();
    assert_eq!(router.hops("/localhop/nfd"), Some(vec![(1, 0)]));
    assert_eq!(
        register(&mut router, NEIGHBOUR, &parameters_for("/a")),
        None,
        "for this machine only, by default"
    );
    assert_eq!(register(&mut router, APP, &parameters_for("/a")), Some(200));
    config.management.localhop = AllowFrom::Anywhere;
    router.control.apply_config(desired_config(config.clone()), &mut router.env);
    router.run_to_completion();
    assert_eq!(register(&mut router, NEIGHBOUR, &parameters_for("/n")), Some(200));
    assert_eq!(router.hops("/n"), Some(vec![(NEIGHBOUR, 0)]));
    let foreign_face = ControlParameters { face_id: Some(APP), ..parameters_for("/n") };
    assert_eq!(register(&mut router, NEIGHBOUR, &foreign_face), Some(403));
    let unregister =
        router.command_by(NEIGHBOUR, Root::Localhop, Verb::RibUnregister, &foreign_face).unwrap();
    assert_eq!(unregister.code, 403);
    for verb in [Verb::FibAddNextHop, Verb::StrategyChoiceUnset, Verb::FacesDestroy, Verb::CsErase]
    {
        assert_eq!(router.command_by(NEIGHBOUR, Root::Localhop, verb, &parameters_for("/n")), None);
    }
    let wire = client::dataset(Dataset::RibList, None, 1);
    assert_eq!(
        router.interest(NEIGHBOUR, &wire),
        Reply::Ignored,
        "/localhost on a neighbour's face"
    );
    config.management.localhop = AllowFrom::Nowhere;
    router.control.apply_config(desired_config(config.clone()), &mut router.env);
    router.run_to_completion();
    assert_eq!(router.hops("/localhop/nfd"), None);
    assert_eq!(register(&mut router, APP, &parameters_for("/a")), None);
}

/// Signed as by the older API of python-ndn, by ndn-js and jndn.
#[test]
fn command_signed_in_format_0_2_is_accepted() {
    let mut router = TestRouter::new();
    let name = Verb::RibRegister.name(Root::Localhost).with_generic(parameters_for("/a").encode());
    let parts: [&[u8]; 4] = [&[1; 8], &[2; 8], &[22, 3, 27, 1, 1], &[23; 260]];
    let name = parts.iter().fold(name, |name, part| name.with_generic(part));
    let wire = InterestBuilder::new(name).can_be_prefix(true).must_be_fresh(true).encode();
    assert_eq!(router.interest(APP, &wire), Reply::Answered(200));
    assert!(router.answer_to(&wire).is_ok());
}

fn announcement(name: &str, content_type: u64, content: &[u8]) -> Vec<u8> {
    let name = constant_name(name);
    let Ok(wire) =
        DataBuilder::new(&name, content).content_type(content_type).encode(&DigestSha256);
    wire
}

fn announce(router: &mut TestRouter, wire: &[u8]) -> ControlResponse {
    router.nonce += 1;
    let interest = InterestBuilder::new(Verb::RibAnnounce.name(Root::Localhost))
        .parameters(wire)
        .nonce(router.nonce);
    let Ok(interest) = interest.encode_signed(&DigestSha256, &[]);
    assert!(matches!(router.interest(APP, &interest), Reply::Answered(_)));
    router.answer_to(&interest)
}

#[test]
fn announce_valid_creates_route_invalid_is_refused() {
    let mut router = TestRouter::new();
    let hour = [0x6d, 4, 0, 0x36, 0xee, 0x80];
    let good = announcement("/net/example/32=PA/v=1/seg=0", 5, &hour);
    let response = announce(&mut router, &good);
    let body = ControlParameters {
        face_id: Some(APP),
        origin: Some(129),
        cost: Some(2048),
        flags: Some(1),
        expiration_period: Some(3_600_000),
        ..parameters_for("/net/example")
    };
    assert_eq!(response, ControlResponse::ok(body));
    assert_eq!(router.hops("/net/example"), Some(vec![(APP, 2048)]));
    for (name, content_type, content) in [
        ("/net/example/PA/v=1/seg=0", 5, &hour[..]),
        ("/net/example/32=PA/v=1", 5, &hour),
        ("/net/example/32=PA/v=1/seg=0", 0, &hour),
        ("/net/example/32=PA/v=1/seg=0", 5, &[]),
        ("/net/example/32=PA/v=1/seg=0", 5, &[0x6d, 9]),
    ] {
        assert_eq!(
            announce(&mut router, &announcement(name, content_type, content)).code,
            400,
            "{name}"
        );
    }
    assert_eq!(announce(&mut router, b"x").code, 400);
    let reserved = announcement("/localhost/nfd/32=PA/v=1/seg=0", 5, &hour);
    assert_eq!(announce(&mut router, &reserved).code, 403);
    router.authority.announcements = Verdict::Deny("an unknown key".into());
    assert_eq!(announce(&mut router, &good).code, 403);
}

#[test]
fn command_deferred_changes_nothing_until_passed_again() {
    let mut router = TestRouter::new();
    let wire = router.command_wire(Root::Localhost, Verb::RibRegister, &parameters_for("/a"));
    router.authority.commands = Verdict::Defer;
    assert_eq!(router.interest(APP, &wire), Reply::Deferred);
    assert_eq!((router.hops("/a"), router.env.sent.len()), (None, 0));
    router.authority.commands = Verdict::Accept;
    assert_eq!(router.interest(APP, &wire), Reply::Answered(200));
    assert!(router.answer_to(&wire).is_ok());
    assert_eq!(router.hops("/a"), Some(vec![(APP, 0)]));
}

#[test]
fn announce_outside_validity_returns_403() {
    let mut router = TestRouter::new();
    // The test's wall clock shows 2026-11-21 00:30:01.
    let content = |from: &str, to: &str| {
        let mut validity = Vec::new();
        push_tlv(254, from.as_bytes(), &mut validity);
        push_tlv(255, to.as_bytes(), &mut validity);
        let mut content = vec![0x6d, 4, 0, 0x36, 0xee, 0x80];
        push_tlv(253, &validity, &mut content);
        announcement("/a/32=PA/v=1/seg=0", 5, &content)
    };
    let response = announce(&mut router, &content("20261120T000000", "20261121T003101"));
    assert_eq!(response.body.expiration_period, Some(60_000));
    assert_eq!(
        announce(&mut router, &content("20261121T003002", "20271121T003101")).code,
        403,
        "not yet"
    );
    assert_eq!(
        announce(&mut router, &content("20251121T003002", "20261121T003000")).code,
        403,
        "no longer"
    );
    assert_eq!(announce(&mut router, &content("2025-11-21", "20261121T003000")).code, 400);
    // Days that do not exist, as in certificates.
    for invalid in ["20270231T000000", "20270229T120000", "20271301T000000", "2027+101T000000"] {
        assert_eq!(
            announce(&mut router, &content("20261120T000000", invalid)).code,
            400,
            "{invalid}"
        );
    }
}

/// NTP may set the wall clock, and it advances while the machine sleeps: the current value decides.
#[test]
fn announce_after_wall_clock_set_uses_new_time() {
    let mut router = TestRouter::new();
    let mut validity = Vec::new();
    push_tlv(254, b"20270101T000000", &mut validity);
    push_tlv(255, b"20270101T010000", &mut validity);
    let mut content = vec![0x6d, 4, 0, 0x36, 0xee, 0x80];
    push_tlv(253, &validity, &mut content);
    let wire = announcement("/a/32=PA/v=1/seg=0", 5, &content);
    assert_eq!(announce(&mut router, &wire).code, 403, "not yet");
    router.env.unix_ms = 1_798_761_600_000 + 600_000;
    let response = announce(&mut router, &wire);
    assert_eq!(
        response.body.expiration_period,
        Some(3_000_000),
        "ten minutes of the hour are over"
    );
    router.env.unix_ms += 86_400_000;
    assert_eq!(announce(&mut router, &wire).code, 403, "no longer");
    assert_eq!(
        router.hops("/a"),
        Some(vec![(APP, 2048)]),
        "a route expires by the monotonic clock"
    );
}
