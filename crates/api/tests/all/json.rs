//! The JSON of `--json`: names are URIs, numbers with names are words, units are last in field
//! names, and absent fields are left out.

use nw_api::management::{
    ControlParameters, CsInfo, FaceScope, FaceStatus, RibEntry, Route, Strategy, StrategyChoice,
};
use nw_name::Name;
use serde_json::{from_value, json, to_value};

#[test]
fn records_are_written_as_json() {
    let face = FaceStatus {
        mtu: Some(8800),
        ..FaceStatus::new(300, "fd://20", "unix:///run/nfd/nfd.sock", FaceScope::Local)
    };
    let value = to_value(&face).unwrap();
    assert_eq!(value["face_id"], 300);
    assert_eq!((&value["scope"], &value["persistency"]), (&json!("local"), &json!("persistent")));
    assert_eq!((&value["link_type"], &value["mtu"]), (&json!("point-to-point"), &json!(8800)));
    assert!(value.get("expiration_period_ms").is_none());

    assert!(value.get("held_interests").is_none(), "absent while the link is not short");
    let short = FaceStatus {
        held_interests: Some(12),
        shaping_rate_bytes: Some(0),
        refused_interests: Some(3),
        shaping_marks: Some(4),
        ..face
    };
    let mut bytes = Vec::new();
    short.encode_fields(&mut bytes);
    assert_eq!(FaceStatus::decode_fields(&bytes, 0).unwrap(), short);
    assert_eq!(from_value::<FaceStatus>(to_value(&short).unwrap()).unwrap(), short);

    let name: Name = "/a/seg=3".parse().unwrap();
    let route = Route { face_id: 1, origin: 255, cost: 2, flags: 1, expiration_period: Some(5) };
    let rib = RibEntry { name: name.clone(), routes: vec![route] };
    let route = json!({
        "face_id": 1, "origin": "static", "cost": 2, "flags": ["child-inherit"],
        "expiration_period_ms": 5
    });
    assert_eq!(to_value(&rib).unwrap(), json!({ "name": "/a/seg=3", "routes": [route] }));

    let choice = StrategyChoice { name, strategy: Strategy("/s/v=5".parse().unwrap()) };
    assert_eq!(to_value(&choice).unwrap(), json!({ "name": "/a/seg=3", "strategy": "/s/v=5" }));
}

#[test]
fn labels_are_written_as_words_and_read_back() {
    let face = FaceStatus {
        flags: 13,
        ..FaceStatus::new(300, "fd://20", "unix:///nfd.sock", FaceScope::Local)
    };
    let value = to_value(&face).unwrap();
    // A bit without a name is written as a number.
    assert_eq!(value["flags"], json!(["local-fields", "congestion-marking", "8"]));
    assert_eq!(from_value::<FaceStatus>(value).unwrap(), face);

    let route = Route { face_id: 1, origin: 77, cost: 2, flags: u64::MAX, expiration_period: None };
    let value = to_value(&route).unwrap();
    assert_eq!((&value["origin"], &value["flags"][0]), (&json!("77"), &json!("child-inherit")));
    assert_eq!(from_value::<Route>(value).unwrap(), route);
    // The form of earlier versions.
    let old = json!({ "face_id": 1, "origin": 77, "cost": 2, "flags": u64::MAX });
    assert_eq!(from_value::<Route>(old).unwrap(), route);
    for wrong in [json!(["loud"]), json!("capture"), json!([1])] {
        let wrong = json!({ "face_id": 1, "origin": 77, "cost": 2, "flags": wrong });
        assert!(from_value::<Route>(wrong).is_err());
    }

    let store = CsInfo { flags: 2, ..CsInfo::default() };
    assert_eq!(to_value(store).unwrap()["flags"], json!(["serve"]));

    for (number, json_value) in [(0, json!("persistent")), (2, json!("permanent")), (9, json!(9))] {
        let parameters = ControlParameters {
            face_persistency: Some(number),
            origin: Some(255),
            ..Default::default()
        };
        let value = to_value(&parameters).unwrap();
        assert_eq!(value, json!({ "persistency": json_value, "origin": "static" }));
        assert_eq!(from_value::<ControlParameters>(value).unwrap(), parameters);
        let old = json!({ "face_persistency": number, "origin": 255 });
        assert_eq!(from_value::<ControlParameters>(old).unwrap(), parameters);
    }
    assert_eq!(to_value(ControlParameters::default()).unwrap(), json!({}));
}
