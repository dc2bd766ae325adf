//! Bytes that python-ndn 0.5.2 writes, read and written by us: what another implementation means by
//! each message.

use nw_api::management::client::{decode_cs_info, decode_items, decode_status, encode_items};
use nw_api::management::command::{Request, SignatureForm, parse};
use nw_api::management::{
    ControlParameters, ControlResponse, CsInfo, FaceEventKind, FaceEventNotification,
    FacePersistency, FaceQueryFilter, FaceScope, FaceStatus, FibEntry, ForwarderStatus, LinkType,
    NextHopRecord, RibEntry, Root, Route, Strategy, StrategyChoice, Verb,
};
use nw_name::{Name, NameRef};
use nw_wire::{Interest, InterestBuilder};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn control_parameters_equal_golden_bytes() {
    for (bytes, parameters) in [
        (
            "681c07060801610801626902012c6f01416a0203e86c01036d0400124f80",
            ControlParameters {
                face_id: Some(300),
                origin: Some(65),
                cost: Some(1000),
                flags: Some(3),
                expiration_period: Some(1_200_000),
                ..ControlParameters::of(name("/a/b"))
            },
        ),
        (
            "683207030801616b2b072908096c6f63616c686f737408036e666408087374726174656779080a626573742d726f757465360105",
            ControlParameters {
                strategy: Some(Strategy(name("/localhost/nfd/strategy/best-route/v=5"))),
                ..ControlParameters::of(name("/a"))
            },
        ),
        (
            "680d07030801618302010084020100",
            ControlParameters {
                capacity: Some(256),
                count: Some(256),
                ..ControlParameters::of(name("/a"))
            },
        ),
    ] {
        assert_eq!(ControlParameters::decode(&hex(bytes)), Ok(parameters.clone()));
        assert_eq!(parameters.encode(), hex(bytes));
    }
}

/// python-ndn puts what is about congestion and MTU before Flags. We read that, and write NFD's
/// order.
#[test]
fn control_parameters_in_another_order_are_decoded() {
    let theirs = hex(
        "68307215756470343a2f2f3139322e302e322e313a36333633870405f5e100880400010000890222606c0104700107850102",
    );
    let parameters = ControlParameters {
        uri: Some("udp4://192.0.2.1:6363".to_owned()),
        flags: Some(4),
        mask: Some(7),
        face_persistency: Some(2),
        base_congestion_marking_interval: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(8800),
        ..ControlParameters::default()
    };
    assert_eq!(ControlParameters::decode(&theirs), Ok(parameters.clone()));
    let ours = hex(
        "68307215756470343a2f2f3139322e302e322e313a363336336c0104700107850102870405f5e10088040001000089022260",
    );
    assert_eq!(parameters.encode(), ours);
}

#[test]
fn control_response_equals_golden_bytes() {
    let body = ControlParameters {
        face_id: Some(300),
        origin: Some(0),
        cost: Some(0),
        flags: Some(1),
        ..ControlParameters::of(name("/a"))
    };
    // python-ndn writes only the fields inside the element.
    let value = hex("6601c867024f4b681207030801616902012c6f01006a01006c0101");
    let whole = [&[0x65, value.len() as u8], &value[..]].concat();
    assert_eq!(ControlResponse::decode(&whole), Ok(ControlResponse::ok(body.clone())));
    assert_eq!(ControlResponse::ok(body).encode(), whole);
    assert_eq!(ControlResponse::refuse(403, "no").encode(), hex("650a6602019367026e6f6800"));
    // NFD omits the body of an error.
    assert_eq!(
        ControlResponse::decode(&hex("65086602019367026e6f")),
        Ok(ControlResponse::refuse(403, "no"))
    );
}

#[test]
fn face_records_equal_golden_bytes() {
    let status = FaceStatus {
        face_id: 300,
        uri: "udp4://192.0.2.1:6363".to_owned(),
        local_uri: "udp4://192.0.2.2:6363".to_owned(),
        expiration_period: Some(5000),
        scope: FaceScope::NonLocal,
        persistency: FacePersistency::OnDemand,
        link_type: LinkType::PointToPoint,
        base_congestion_marking_interval: Some(100_000_000),
        default_congestion_threshold: Some(65_536),
        mtu: Some(8800),
        in_interests: 1,
        in_data: 2,
        in_nacks: 3,
        out_interests: 4,
        out_data: 5,
        out_nacks: 6,
        in_bytes: 70_000,
        out_bytes: 1 << 33,
        flags: 4,
        held_interests: None,
        refused_interests: None,
        shaping_marks: None,
        shaping_rate_bytes: None,
    };
    let bytes = hex(concat!(
        "80746902012c7215756470343a2f2f3139322e302e322e313a363336338115756470343a2f2f3139322e302e322e323a36333633",
        "6d021388840100850101860100870405f5e10088040001000089022260900101910102970103920104930105980106940400011170",
        "950800000002000000006c0104"
    ));
    assert_eq!(decode_items(&bytes), Ok(vec![status.clone()]));
    assert_eq!(encode_items(std::slice::from_ref(&status)), bytes);

    let filter = FaceQueryFilter {
        face_id: Some(300),
        uri_scheme: Some("udp4".to_owned()),
        scope: Some(FaceScope::Local),
        link_type: Some(LinkType::MultiAccess),
        ..FaceQueryFilter::default()
    };
    let bytes = hex("96106902012c830475647034840101860101");
    assert_eq!(FaceQueryFilter::decode(&bytes), Ok(filter.clone()));
    assert_eq!(filter.encode(), bytes);

    let event = FaceEventNotification {
        kind: FaceEventKind::Destroyed,
        face_id: 300,
        uri: "fd://20".to_owned(),
        local_uri: "unix:///run/nfd/nfd.sock".to_owned(),
        scope: FaceScope::Local,
        persistency: FacePersistency::OnDemand,
        link_type: LinkType::PointToPoint,
        flags: 1,
    };
    let bytes = hex(
        "c036c101026902012c720766643a2f2f32308118756e69783a2f2f2f72756e2f6e66642f6e66642e736f636b8401018501018601006c0101",
    );
    assert_eq!(FaceEventNotification::decode(&bytes), Ok(event.clone()));
    assert_eq!(event.encode(), bytes);
}

#[test]
fn table_records_equal_golden_bytes() {
    let hops =
        vec![NextHopRecord { face_id: 300, cost: 5 }, NextHopRecord { face_id: 301, cost: 0 }];
    let fib = [FibEntry { name: name("/a"), next_hops: hops }];
    let bytes = hex("8017070308016181076902012c6a010581076902012d6a0100");
    assert_eq!(decode_items::<FibEntry>(&bytes).unwrap(), fib);
    assert_eq!(encode_items(&fib), bytes);

    let route =
        Route { face_id: 300, origin: 255, cost: 5, flags: 3, expiration_period: Some(3_600_000) };
    let rib = [RibEntry { name: name("/a"), routes: vec![route] }];
    let bytes = hex("801a070308016181136902012c6f01ff6a01056c01036d040036ee80");
    assert_eq!(decode_items::<RibEntry>(&bytes).unwrap(), rib);
    assert_eq!(encode_items(&rib), bytes);

    let choices = [StrategyChoice {
        name: Name::new(),
        strategy: Strategy(name("/localhost/nfd/strategy/multicast/v=5")),
    }];
    let bytes = hex(
        "802e07006b2a072808096c6f63616c686f737408036e66640808737472617465677908096d756c746963617374360105",
    );
    assert_eq!(decode_items::<StrategyChoice>(&bytes).unwrap(), choices);
    assert_eq!(encode_items(&choices), bytes);

    let info = CsInfo { capacity: 65_536, flags: 3, entries: 10, hits: 300, misses: 7 };
    let value = hex("8304000100006c010387010a8102012c820107");
    let bytes = [&[0x80, value.len() as u8], &value[..]].concat();
    assert_eq!(decode_cs_info(&bytes), Ok(info.clone()));
    assert_eq!(encode_items(&[info]), bytes);
}

#[test]
fn status_equals_golden_bytes() {
    let status = ForwarderStatus {
        version: "24.07".to_owned(),
        start_timestamp: 0,
        current_timestamp: 1000,
        name_tree_entries: 2000,
        fib_entries: 3000,
        pit_entries: 4000,
        measurements_entries: 5000,
        cs_entries: 6000,
        in_interests: 7000,
        in_data: 8000,
        in_nacks: 9000,
        out_interests: 10_000,
        out_data: 11_000,
        out_nacks: 12_000,
        satisfied_interests: 13_000,
        unsatisfied_interests: 14_000,
    };
    // NFD and python-ndn group the counters of Interests, Data and Nacks by direction.
    let bytes = hex(concat!(
        "800532342e3037810100820203e8830207d084020bb885020fa0860213888702177090021b5891021f40970223289202271093022af8",
        "98022ee0990232c89a0236b0"
    ));
    assert_eq!(decode_status(&bytes), Ok(status.clone()));
    let mut out = Vec::new();
    status.encode_fields(&mut out);
    assert_eq!(out, bytes);
}

#[test]
fn command_names_equal_golden_names() {
    let parsed = |bytes: &str, signed: bool| {
        let bytes = hex(bytes);
        let name = NameRef::check(&bytes[2..]).unwrap();
        let interest = InterestBuilder::new(name);
        let wire = if signed {
            let Ok(wire) = interest.encode_signed(&nw_wire::DigestSha256, &[]);
            wire
        } else {
            interest.encode()
        };
        match parse(&Interest::check(&wire).unwrap()) {
            Some((
                Root::Localhost,
                Request::Command { verb: Verb::RibRegister, parameters, form },
            )) => {
                assert_eq!(parameters, ControlParameters::of(self::name("/a")));
                form
            }
            other => panic!("{other:?}"),
        }
    };
    let new =
        "072808096c6f63616c686f737408036e6664080372696208087265676973746572080768050703080161";
    assert_eq!(parsed(new, true), SignatureForm::V03);
    let old = concat!(
        "076708096c6f63616c686f737408036e66640803726962080872656769737465720807680507030801610808000001a1fbaa8810",
        "08086ba2d168aad827fb080516031b010008221720b1fca06fcb613fb8579d9f5b5fa2032fb9dccc3427c65c3be5f6ddd89203f668"
    );
    assert_eq!(parsed(old, false), SignatureForm::V02);
}
