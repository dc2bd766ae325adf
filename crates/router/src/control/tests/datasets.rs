//! Datasets: what is in them, and how they are fetched.

use super::*;
use nw_api::management::{
    ChannelStatus, DropCount, FaceQueryFilter, FaceScope, FibEntry, RibEntry, Strategy, StrategyChoice,
};

#[test]
fn every_dataset_is_answered() {
    let mut bench = Bench::new();
    bench.command(
        Verb::RibRegister,
        ControlParameters { cost: Some(3), expiration_period: Some(5000), ..named_parameters("/a") },
    );
    bench.now = bench.now.plus_millis(1000);
    assert_eq!(bench.items::<FaceStatus>(Dataset::FacesList).len(), 3);
    assert_eq!(bench.items::<ChannelStatus>(Dataset::FacesChannels)[0].local_uri, "unix:///run/nfd/nfd.sock");
    let fib = bench.items::<FibEntry>(Dataset::FibList);
    let names: Vec<_> = fib.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(
        names,
        ["/a", "/localhost/nfd"],
        "prefixes with nothing but a strategy are no FIB entries to clients"
    );
    assert_eq!((fib[0].next_hops[0].face_id, fib[0].next_hops[0].cost), (APP, 3));
    let rib = bench.items::<RibEntry>(Dataset::RibList);
    assert_eq!((rib.len(), rib[0].routes[0].cost, rib[0].routes[0].expiration_period), (1, 3, Some(4000)));
    let choices = bench.items::<StrategyChoice>(Dataset::StrategyChoiceList);
    assert_eq!(choices.len(), 4);
    assert_eq!(choices[0].strategy, Strategy(named(fake::STRATEGIES[0])));
    assert_eq!(client::decode_cs_info(&bench.fetch(Dataset::CsInfo)).unwrap(), bench.env.cs);
    let status = client::decode_status(&bench.fetch(Dataset::StatusGeneral)).unwrap();
    assert_eq!((status.version.as_str(), status.pit_entries, status.fib_entries), ("namewire test", 7, 2));
    assert_eq!(bench.items::<DropCount>(Dataset::StatusDrops)[0].count, 9);
    assert_eq!(status.current_timestamp - status.start_timestamp, 1000);
}

#[test]
fn queries() {
    let mut bench = Bench::new();
    let mut count = |filter: FaceQueryFilter| {
        let wire = client::dataset(Dataset::FacesQuery, Some(&filter), 1);
        client::decode_items::<FaceStatus>(&bench.fetch_by(wire)).unwrap().len()
    };
    assert_eq!(count(FaceQueryFilter::default()), 3);
    assert_eq!(count(FaceQueryFilter { scope: Some(FaceScope::Local), ..Default::default() }), 2);
    assert_eq!(count(FaceQueryFilter { uri_scheme: Some("udp4".into()), ..Default::default() }), 1);
    assert_eq!(
        count(FaceQueryFilter { face_id: Some(300), uri: Some("fd://20".into()), ..Default::default() }),
        1
    );
    assert_eq!(
        count(FaceQueryFilter { face_id: Some(300), uri: Some("fd://21".into()), ..Default::default() }),
        0
    );
}

fn large(bench: &mut Bench, routes: usize) {
    for n in 0..routes {
        bench.command(Verb::RibRegister, named_parameters(&format!("/some/long/prefix/of/many/{n}")));
    }
}

#[test]
fn segments_say_which_is_last_and_are_kept_while_fetched() {
    let mut bench = Bench::new();
    large(&mut bench, 1000);
    let wire = client::dataset(Dataset::RibList, None, 1);
    assert_eq!(bench.ask(APP, &wire), Reply::Sent);
    let (first, _) = bench.env.sent.pop().unwrap();
    let first = Data::check(&first).unwrap();
    assert_eq!(first.content().len(), 8000);
    let last = first.final_block().expect("in the first segment too").integer().unwrap();
    assert!(last >= 5);
    let versioned = first.name().parent().unwrap().to_name();
    // Changes go on meanwhile; the version stays what it was, for as long as it is fetched.
    for segment in 1..=last {
        bench.now = bench.now.plus_millis(900);
        bench.control.on_timeout(bench.now, &mut bench.env);
        bench.command(Verb::RibRegister, named_parameters(&format!("/new/{segment}")));
        let wire = InterestBuilder::new(versioned.clone().with_segment(segment)).encode();
        assert_eq!(bench.interest(APP, &wire), Reply::Sent, "{segment}");
        let (data, _) = bench.env.sent.pop().unwrap();
        assert_eq!(Data::check(&data).unwrap().final_block(), first.final_block());
    }
    let beyond = InterestBuilder::new(versioned.clone().with_segment(last + 1)).encode();
    assert_eq!(bench.interest(APP, &beyond), Reply::Silent);
    // The last 256 packets are kept, so that a client may ask once more after seconds.
    bench.now = bench.now.plus_millis(60_000);
    bench.control.on_timeout(bench.now, &mut bench.env);
    let again = InterestBuilder::new(versioned.clone().with_segment(1)).encode();
    assert_eq!(bench.interest(APP, &again), Reply::Sent);
    bench.env.sent.clear();
    for n in 0..256 {
        let filter = FaceQueryFilter { face_id: Some(n), ..Default::default() };
        assert_eq!(bench.interest(APP, &client::dataset(Dataset::FacesQuery, Some(&filter), 1)), Reply::Sent);
    }
    bench.env.sent.clear();
    bench.now = bench.now.plus_millis(1000);
    bench.control.on_timeout(bench.now, &mut bench.env);
    let gone = InterestBuilder::new(versioned.with_segment(0)).encode();
    assert_eq!(bench.interest(APP, &gone), Reply::Silent);
    assert_eq!(bench.control.next_timeout(), Instant::NEVER);
}

#[test]
fn a_version_is_used_again_until_something_changes() {
    let mut bench = Bench::new();
    let version = |bench: &mut Bench| {
        let wire = client::dataset(Dataset::FibList, None, 1);
        assert_eq!(bench.ask(APP, &wire), Reply::Sent);
        let (data, _) = bench.env.sent.pop().unwrap();
        Data::check(&data).unwrap().name().component(-2).unwrap().integer().unwrap()
    };
    let first = version(&mut bench);
    assert_eq!(version(&mut bench), first);
    bench.command(Verb::RibRegister, named_parameters("/a"));
    assert!(version(&mut bench) > first, "at the same millisecond too");
}

#[test]
fn as_python_ndns_tools_ask() {
    let mut bench = Bench::new();
    let name = Dataset::FacesList.name(Root::Localhost);
    let Ok(wire) = InterestBuilder::new(name).can_be_prefix(true).encode_signed(&DigestSha256, &[]);
    assert_eq!(bench.ask(APP, &wire), Reply::Sent);
    let (data, _) = bench.env.sent.pop().unwrap();
    let data = Data::check(&data).unwrap();
    let asked = Interest::check(&wire).unwrap();
    assert!(asked.name().is_prefix_of(data.name()) && asked.name().len() == 5 && data.name().len() == 7);
}

#[test]
fn what_can_not_be_answered_is_not() {
    let mut bench = Bench::new();
    let name = Dataset::FibList.name(Root::Localhost);
    for wire in [
        InterestBuilder::new(name.clone()).encode(),
        InterestBuilder::new(name.clone().with_version(3)).can_be_prefix(true).encode(),
        InterestBuilder::new(name.clone().with_version(3).with_segment(0)).encode(),
        InterestBuilder::new(Dataset::RibList.name(Root::Localhop)).can_be_prefix(true).encode(),
    ] {
        assert_eq!(bench.interest(APP, &wire), Reply::Silent);
    }
    // A filter that fills the packet leaves no room for content.
    let filter = FaceQueryFilter { uri: Some("x".repeat(8600)), ..Default::default() };
    let wire = client::dataset(Dataset::FacesQuery, Some(&filter), 1);
    assert_eq!(bench.interest(APP, &wire), Reply::Silent);
}

/// Ten thousand routes by commands: all in effect, listed whole, and gone with their face.
#[test]
fn ten_thousand_routes() {
    let mut bench = Bench::new();
    large(&mut bench, 10_000);
    assert_eq!(bench.env.fib.len(), 10_004);
    assert_eq!(
        bench.env.fib_changes,
        10_004 + 2,
        "one change each; the two names of management came with a strategy before"
    );
    assert_eq!(bench.items::<RibEntry>(Dataset::RibList).len(), 10_000);
    let face = bench.env.face_status(FaceId::from_number(APP).unwrap()).unwrap();
    bench.control.face_event(bench.now, FaceEventKind::Destroyed, &face, &mut bench.env);
    assert!(bench.settle() > 100, "not in one go");
    assert_eq!(bench.env.fib.len(), 4);
    assert!(bench.items::<RibEntry>(Dataset::RibList).is_empty());
}

#[test]
fn publications_are_bounded() {
    let mut bench = Bench::new();
    for n in 0..2000u64 {
        let filter = FaceQueryFilter { face_id: Some(n), ..Default::default() };
        assert_eq!(bench.interest(APP, &client::dataset(Dataset::FacesQuery, Some(&filter), 1)), Reply::Sent);
    }
    let sent = std::mem::take(&mut bench.env.sent);
    let answered = sent.iter().filter(|(data, _)| {
        let name = Data::check(data).unwrap().name().to_name();
        bench.interest(APP, &InterestBuilder::new(name).encode()) == Reply::Sent
    });
    assert_eq!(answered.count(), 256);
}

/// As programs do that look whether there is a router: ndn-cxx in its own tests.
#[test]
fn any_management_data_answers_an_interest_for_what_is_under_localhost() {
    let mut bench = Bench::new();
    for (name, wanted) in [
        ("/localhost", "/localhost/nfd/status/general"),
        ("/localhost/nfd", "/localhost/nfd/status/general"),
        ("/localhost/nfd/rib", "/localhost/nfd/rib/list"),
    ] {
        let wire = InterestBuilder::new(named(name)).can_be_prefix(true).encode();
        assert_eq!(bench.ask(APP, &wire), Reply::Sent, "{name}");
        let (data, token) = bench.env.sent.pop().unwrap();
        assert!(token == bench.token);
        let data = Data::check(&data).unwrap();
        assert!(named(wanted).as_ref().is_prefix_of(data.name()), "{}", data.name());
        let exact = InterestBuilder::new(named(name)).encode();
        assert_eq!(bench.interest(APP, &exact), Reply::Silent);
        assert_eq!(bench.interest(NEIGHBOUR, &wire), Reply::Silent);
    }
    for name in ["/localhost/other", "/localhop/nfd", "/a"] {
        let wire = InterestBuilder::new(named(name)).can_be_prefix(true).encode();
        assert_eq!(bench.interest(APP, &wire), Reply::Silent, "{name}");
    }
}
