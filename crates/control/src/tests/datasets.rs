//! Content of datasets, and how clients fetch them.

use super::*;
use nw_api::management::{
    ChannelStatus, DropCount, FaceQueryFilter, FaceScope, FibEntry, RibEntry, Strategy,
    StrategyChoice,
};

#[test]
fn dataset_each_has_expected_content() {
    let mut router = TestRouter::new();
    router.command(
        Verb::RibRegister,
        ControlParameters { cost: Some(3), expiration_period: Some(5000), ..parameters_for("/a") },
    );
    router.now = router.now.plus_millis(1000);
    assert_eq!(router.items::<FaceStatus>(Dataset::FacesList).len(), 3);
    assert_eq!(
        router.items::<ChannelStatus>(Dataset::FacesChannels)[0].local_uri,
        "unix:///run/nfd/nfd.sock"
    );
    let fib = router.items::<FibEntry>(Dataset::FibList);
    let names: Vec<_> = fib.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(
        names,
        ["/a", "/localhost/nfd"],
        "prefixes with only a strategy are not listed as FIB entries"
    );
    assert_eq!((fib[0].next_hops[0].face_id, fib[0].next_hops[0].cost), (APP, 3));
    let rib = router.items::<RibEntry>(Dataset::RibList);
    assert_eq!(
        (rib.len(), rib[0].routes[0].cost, rib[0].routes[0].expiration_period),
        (1, 3, Some(4000))
    );
    let choices = router.items::<StrategyChoice>(Dataset::StrategyChoiceList);
    assert_eq!(choices.len(), 4);
    assert_eq!(choices[0].strategy, Strategy(constant_name(fake_environment::STRATEGIES[0])));
    assert_eq!(client::decode_cs_info(&router.fetch(Dataset::CsInfo)).unwrap(), router.env.cs);
    let status = client::decode_status(&router.fetch(Dataset::StatusGeneral)).unwrap();
    assert_eq!(
        (status.version.as_str(), status.pit_entries, status.fib_entries),
        ("namewire test", 7, 2)
    );
    assert_eq!(router.items::<DropCount>(Dataset::StatusDrops)[0].count, 9);
    assert_eq!(status.current_timestamp - status.start_timestamp, 1000);
}

#[test]
fn faces_query_filters_faces() {
    let mut router = TestRouter::new();
    let mut count = |filter: FaceQueryFilter| {
        let wire = client::dataset(Dataset::FacesQuery, Some(&filter), 1);
        client::decode_items::<FaceStatus>(&router.fetch_by(wire)).unwrap().len()
    };
    assert_eq!(count(FaceQueryFilter::default()), 3);
    assert_eq!(count(FaceQueryFilter { scope: Some(FaceScope::Local), ..Default::default() }), 2);
    assert_eq!(count(FaceQueryFilter { uri_scheme: Some("udp4".into()), ..Default::default() }), 1);
    assert_eq!(
        count(FaceQueryFilter {
            face_id: Some(300),
            uri: Some("fd://20".into()),
            ..Default::default()
        }),
        1
    );
    assert_eq!(
        count(FaceQueryFilter {
            face_id: Some(300),
            uri: Some("fd://21".into()),
            ..Default::default()
        }),
        0
    );
}

fn large(router: &mut TestRouter, routes: usize) {
    for n in 0..routes {
        router
            .command(Verb::RibRegister, parameters_for(&format!("/some/long/prefix/of/many/{n}")));
    }
}

#[test]
fn dataset_segments_have_final_block_and_stay_while_fetched() {
    let mut router = TestRouter::new();
    large(&mut router, 1000);
    let wire = client::dataset(Dataset::RibList, None, 1);
    assert_eq!(router.request(APP, &wire), Reply::Sent);
    let (first, _) = router.env.sent.pop().unwrap();
    let first = Data::check(&first).unwrap();
    assert_eq!(first.content().len(), 8000);
    let last = first.final_block().expect("in the first segment too").integer().unwrap();
    assert!(last >= 5);
    let versioned = first.name().parent().unwrap().to_name();
    // Changes continue meanwhile; the version stays the same while it is fetched.
    for segment in 1..=last {
        router.now = router.now.plus_millis(900);
        router.control.on_timeout(router.now, &mut router.env);
        router.command(Verb::RibRegister, parameters_for(&format!("/new/{segment}")));
        let wire = InterestBuilder::new(versioned.clone().with_segment(segment)).encode();
        assert_eq!(router.interest(APP, &wire), Reply::Sent, "{segment}");
        let (data, _) = router.env.sent.pop().unwrap();
        assert_eq!(Data::check(&data).unwrap().final_block(), first.final_block());
    }
    let beyond = InterestBuilder::new(versioned.clone().with_segment(last + 1)).encode();
    assert_eq!(router.interest(APP, &beyond), Reply::Ignored);
    // The last 256 packets are kept, so that a client may request one again after seconds.
    router.now = router.now.plus_millis(60_000);
    router.control.on_timeout(router.now, &mut router.env);
    let again = InterestBuilder::new(versioned.clone().with_segment(1)).encode();
    assert_eq!(router.interest(APP, &again), Reply::Sent);
    router.env.sent.clear();
    for n in 0..256 {
        let filter = FaceQueryFilter { face_id: Some(n), ..Default::default() };
        assert_eq!(
            router.interest(APP, &client::dataset(Dataset::FacesQuery, Some(&filter), 1)),
            Reply::Sent
        );
    }
    router.env.sent.clear();
    router.now = router.now.plus_millis(1000);
    router.control.on_timeout(router.now, &mut router.env);
    let evicted = InterestBuilder::new(versioned.with_segment(0)).encode();
    assert_eq!(router.interest(APP, &evicted), Reply::Ignored);
    assert_eq!(router.control.next_timeout(), Timestamp::NEVER);
}

#[test]
fn dataset_unchanged_table_reuses_version() {
    let mut router = TestRouter::new();
    let version = |router: &mut TestRouter| {
        let wire = client::dataset(Dataset::FibList, None, 1);
        assert_eq!(router.request(APP, &wire), Reply::Sent);
        let (data, _) = router.env.sent.pop().unwrap();
        Data::check(&data).unwrap().name().component(-2).unwrap().integer().unwrap()
    };
    let first = version(&mut router);
    assert_eq!(version(&mut router), first);
    router.command(Verb::RibRegister, parameters_for("/a"));
    assert!(version(&mut router) > first, "at the same millisecond too");
}

#[test]
fn dataset_signed_interest_is_answered() {
    let mut router = TestRouter::new();
    let name = Dataset::FacesList.name(Root::Localhost);
    let Ok(wire) = InterestBuilder::new(name).can_be_prefix(true).encode_signed(&DigestSha256, &[]);
    assert_eq!(router.request(APP, &wire), Reply::Sent);
    let (data, _) = router.env.sent.pop().unwrap();
    let data = Data::check(&data).unwrap();
    let interest = Interest::check(&wire).unwrap();
    assert!(
        interest.name().is_prefix_of(data.name())
            && interest.name().len() == 5
            && data.name().len() == 7
    );
}

#[test]
fn dataset_unmatchable_interest_is_ignored() {
    let mut router = TestRouter::new();
    let name = Dataset::FibList.name(Root::Localhost);
    for wire in [
        InterestBuilder::new(name.clone()).encode(),
        InterestBuilder::new(name.clone().with_version(3)).can_be_prefix(true).encode(),
        InterestBuilder::new(name.clone().with_version(3).with_segment(0)).encode(),
        InterestBuilder::new(Dataset::RibList.name(Root::Localhop)).can_be_prefix(true).encode(),
    ] {
        assert_eq!(router.interest(APP, &wire), Reply::Ignored);
    }
    // A filter that fills the packet leaves no capacity for content.
    let filter = FaceQueryFilter { uri: Some("x".repeat(8600)), ..Default::default() };
    let wire = client::dataset(Dataset::FacesQuery, Some(&filter), 1);
    assert_eq!(router.interest(APP, &wire), Reply::Ignored);
}

/// Ten thousand routes by command are in effect, listed completely, and removed with their face.
#[test]
fn routes_ten_thousand_are_listed_and_removed_with_face() {
    let mut router = TestRouter::new();
    large(&mut router, 10_000);
    assert_eq!(router.env.fib.len(), 10_004);
    assert_eq!(
        router.env.fib_changes,
        10_004 + 2,
        "one change each; the two prefixes of management had a strategy before"
    );
    assert_eq!(router.items::<RibEntry>(Dataset::RibList).len(), 10_000);
    let face = router.env.face_status(FaceId::from_number(APP).unwrap()).unwrap();
    router.control.on_face_event(router.now, FaceEventKind::Destroyed, &face, &mut router.env);
    assert!(router.run_to_completion() > 100, "takes many parts");
    assert_eq!(router.env.fib.len(), 4);
    assert!(router.items::<RibEntry>(Dataset::RibList).is_empty());
}

#[test]
fn dataset_many_versions_keep_last_256_packets() {
    let mut router = TestRouter::new();
    for n in 0..2000u64 {
        let filter = FaceQueryFilter { face_id: Some(n), ..Default::default() };
        assert_eq!(
            router.interest(APP, &client::dataset(Dataset::FacesQuery, Some(&filter), 1)),
            Reply::Sent
        );
    }
    let sent = std::mem::take(&mut router.env.sent);
    let answered = sent.iter().filter(|(data, _)| {
        let name = Data::check(data).unwrap().name().to_name();
        router.interest(APP, &InterestBuilder::new(name).encode()) == Reply::Sent
    });
    assert_eq!(answered.count(), 256);
}

/// ndn-cxx's tests send such an Interest to find out whether a router is running.
#[test]
fn discovery_interest_under_localhost_returns_dataset() {
    let mut router = TestRouter::new();
    for (name, expected) in [
        ("/localhost", "/localhost/nfd/status/general"),
        ("/localhost/nfd", "/localhost/nfd/status/general"),
        ("/localhost/nfd/rib", "/localhost/nfd/rib/list"),
    ] {
        let wire = InterestBuilder::new(constant_name(name)).can_be_prefix(true).encode();
        assert_eq!(router.request(APP, &wire), Reply::Sent, "{name}");
        let (data, token) = router.env.sent.pop().unwrap();
        assert!(token == router.token);
        let data = Data::check(&data).unwrap();
        assert!(constant_name(expected).as_ref().is_prefix_of(data.name()), "{}", data.name());
        let exact = InterestBuilder::new(constant_name(name)).encode();
        assert_eq!(router.interest(APP, &exact), Reply::Ignored);
        assert_eq!(router.interest(NEIGHBOUR, &wire), Reply::Ignored);
    }
    for name in ["/localhost/other", "/localhop/nfd", "/a"] {
        let wire = InterestBuilder::new(constant_name(name)).can_be_prefix(true).encode();
        assert_eq!(router.interest(APP, &wire), Reply::Ignored, "{name}");
    }
}
