//! What `--json` promises: names as URIs, words for numbers with names, units last, nothing that is absent.

use nw_api::management::{
    ControlParameters, CsInfo, FaceScope, FaceStatus, RibEntry, Route, Strategy, StrategyChoice,
};
use nw_name::Name;
use serde_json::{from_value, json, to_value};

#[test]
fn messages_as_json() {
    let face = FaceStatus {
        mtu: Some(8800),
        ..FaceStatus::new(300, "fd://20", "unix:///run/nfd/nfd.sock", FaceScope::Local)
    };
    let value = to_value(&face).unwrap();
    assert_eq!(value["face_id"], 300);
    assert_eq!((&value["scope"], &value["persistency"]), (&json!("local"), &json!("persistent")));
    assert_eq!((&value["link_type"], &value["mtu"]), (&json!("point-to-point"), &json!(8800)));
    assert!(value.get("expiration_period_ms").is_none());

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
fn numbers_with_words_are_words_and_read_back() {
    let face =
        FaceStatus { flags: 13, ..FaceStatus::new(300, "fd://20", "unix:///nfd.sock", FaceScope::Local) };
    let value = to_value(&face).unwrap();
    // A bit without a word stands as its number.
    assert_eq!(value["flags"], json!(["local-fields", "congestion-marking", "8"]));
    assert_eq!(from_value::<FaceStatus>(value).unwrap(), face);

    let route = Route { face_id: 1, origin: 77, cost: 2, flags: u64::MAX, expiration_period: None };
    let value = to_value(&route).unwrap();
    assert_eq!((&value["origin"], &value["flags"][0]), (&json!("77"), &json!("child-inherit")));
    assert_eq!(from_value::<Route>(value).unwrap(), route);
    // What an earlier version wrote.
    let old = json!({ "face_id": 1, "origin": 77, "cost": 2, "flags": u64::MAX });
    assert_eq!(from_value::<Route>(old).unwrap(), route);
    for wrong in [json!(["loud"]), json!("capture"), json!([1])] {
        let wrong = json!({ "face_id": 1, "origin": 77, "cost": 2, "flags": wrong });
        assert!(from_value::<Route>(wrong).is_err());
    }

    let store = CsInfo { flags: 2, ..CsInfo::default() };
    assert_eq!(to_value(store).unwrap()["flags"], json!(["serve"]));

    for (number, shown) in [(0, json!("persistent")), (2, json!("permanent")), (9, json!(9))] {
        let made =
            ControlParameters { face_persistency: Some(number), origin: Some(255), ..Default::default() };
        let value = to_value(&made).unwrap();
        assert_eq!(value, json!({ "persistency": shown, "origin": "static" }));
        assert_eq!(from_value::<ControlParameters>(value).unwrap(), made);
        let old = json!({ "face_persistency": number, "origin": 255 });
        assert_eq!(from_value::<ControlParameters>(old).unwrap(), made);
    }
    assert_eq!(to_value(ControlParameters::default()).unwrap(), json!({}));
}
