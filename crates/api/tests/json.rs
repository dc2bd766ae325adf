//! What `--json` promises: names as URIs, words for numbers with names, units last, nothing that is absent.

use nw_api::management::{FaceScope, FaceStatus, RibEntry, Route, Strategy, StrategyChoice};
use nw_name::Name;
use serde_json::{json, to_value};

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
    let route = json!({ "face_id": 1, "origin": 255, "cost": 2, "flags": 1, "expiration_period_ms": 5 });
    assert_eq!(to_value(&rib).unwrap(), json!({ "name": "/a/seg=3", "routes": [route] }));

    let choice = StrategyChoice { name, strategy: Strategy("/s/v=5".parse().unwrap()) };
    assert_eq!(to_value(&choice).unwrap(), json!({ "name": "/a/seg=3", "strategy": "/s/v=5" }));
}
