//! Management records as JSON and text for users, with words instead of flag bits and numbers.

use nw_api::management::{
    ControlParameters, CsInfo, FacePersistency, FaceScope, FaceStatus, LinkType, RibEntry,
    StrategyChoice, origin,
};
use nw_api::report::Status;
use serde::Serialize;
use serde_json::{Value, json};

pub use nw_api::management::labels::{CS_FLAGS, FACE_FLAGS, FlagNames, ROUTE_FLAGS, flag_words};

/// Returns the flags, scope and link type of a face as `nw face list` prints them.
pub fn face_flags(face: &FaceStatus) -> String {
    let mut words: Vec<String> = Vec::new();
    if face.scope == FaceScope::Local {
        words.push("local".to_owned());
    }
    if face.link_type != LinkType::PointToPoint {
        words.push(face.link_type.as_str().to_owned());
    }
    words.extend(flag_words(face.flags, FACE_FLAGS));
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

fn to_json(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// Replaces flag numbers by lists of names.
fn name_flags(value: &mut Value, names: FlagNames) {
    for field in ["flags", "mask"] {
        if let Some(number) = value.get(field).and_then(Value::as_u64) {
            value[field] = json!(flag_words(number, names));
        }
    }
}

/// Returns a face as a JSON object. Absent attributes are null.
pub fn face(face: &FaceStatus) -> Value {
    let mut json_value = to_json(face);
    name_flags(&mut json_value, FACE_FLAGS);
    for absent in [
        "expiration_period_ms",
        "base_congestion_marking_interval_ns",
        "default_congestion_threshold",
        "mtu",
    ] {
        json_value.as_object_mut().map(|object| object.entry(absent).or_insert(Value::Null));
    }
    json_value
}

/// Returns a RIB entry as a JSON object.
pub fn rib_entry(entry: &RibEntry) -> Value {
    let mut json_value = to_json(entry);
    for route in json_value["routes"].as_array_mut().into_iter().flatten() {
        name_origin(route);
        name_flags(route, ROUTE_FLAGS);
        route
            .as_object_mut()
            .map(|route| route.entry("expiration_period_ms").or_insert(Value::Null));
    }
    json_value
}

fn name_origin(value: &mut Value) {
    if let Some(number) = value.get("origin").and_then(Value::as_u64) {
        value["origin"] = json!(origin::describe(number));
    }
}

/// Returns the content store's state as a JSON object.
pub fn cs_info(info: &CsInfo) -> Value {
    let mut json_value = to_json(info);
    name_flags(&mut json_value, CS_FLAGS);
    json_value
}

/// Returns a strategy choice as a JSON object.
pub fn strategy(choice: &StrategyChoice) -> Value {
    to_json(choice)
}

/// Returns the router's answer to a command as a JSON object. `flag_names`: names of its flag bits.
pub fn answer(body: &ControlParameters, flag_names: FlagNames) -> Value {
    let mut json_value = to_json(body);
    name_flags(&mut json_value, flag_names);
    name_origin(&mut json_value);
    let persistency = body.face_persistency.and_then(FacePersistency::from_number);
    if let (Some(persistency), Some(object)) = (persistency, json_value.as_object_mut()) {
        object.remove("face_persistency");
        object.insert("persistency".into(), json!(persistency.as_str()));
    }
    json_value
}

/// Returns the whole state of a router as a JSON object.
pub fn status(status: &Status) -> Value {
    let mut json_value = to_json(status);
    json_value["faces"] = status.faces.iter().map(face).collect();
    json_value["rib"] = status.rib.iter().map(rib_entry).collect();
    json_value["content_store"] = cs_info(&status.content_store);
    json_value
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::management::flags;

    #[test]
    fn face_json_has_flag_words_and_null_for_absent_attributes() {
        let mut status = FaceStatus::new(
            256,
            "udp4://192.0.2.1:6363",
            "udp4://192.0.2.2:6363",
            FaceScope::NonLocal,
        );
        status.flags = flags::RELIABILITY | flags::CONGESTION_MARKING;
        let json_value = face(&status);
        assert_eq!(json_value["flags"], json!(["reliability", "congestion-marking"]));
        assert_eq!(
            (&json_value["mtu"], &json_value["persistency"]),
            (&Value::Null, &json!("persistent"))
        );
        assert!(json_value.as_object().unwrap().contains_key("expiration_period_ms"));
        assert_eq!(face_flags(&status), "reliability,congestion-marking");
    }

    #[test]
    fn answer_json_has_words_for_flags_and_origin() {
        let body = ControlParameters {
            face_persistency: Some(2),
            flags: Some(1),
            origin: Some(255),
            ..ControlParameters::default()
        };
        assert_eq!(
            answer(&body, ROUTE_FLAGS),
            json!({ "flags": ["child-inherit"], "origin": "static", "persistency": "permanent" })
        );
    }
}
