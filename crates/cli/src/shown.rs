//! Records of management as people and programs see them: words instead of numbers.

use nw_api::management::{
    ControlParameters, CsInfo, FacePersistency, FaceScope, FaceStatus, LinkType, RibEntry, StrategyChoice,
    flags, origin,
};
use nw_api::report::Status;
use serde::Serialize;
use serde_json::{Value, json};

/// What the bits of a record's flags mean.
pub type Bits = &'static [(u64, &'static str)];

/// Of faces.
pub const FACE_BITS: Bits = &[
    (flags::LOCAL_FIELDS, "local-fields"),
    (flags::RELIABILITY, "reliability"),
    (flags::CONGESTION_MARKING, "congestion-marking"),
];
/// Of routes.
pub const ROUTE_BITS: Bits = &[(flags::CHILD_INHERIT, "child-inherit"), (flags::CAPTURE, "capture")];
/// Of the content store.
pub const CS_BITS: Bits = &[(flags::CS_ADMIT, "admit"), (flags::CS_SERVE, "serve")];

/// The words of bits that are set.
pub fn words(flags: u64, bits: Bits) -> Vec<&'static str> {
    bits.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| *word).collect()
}

/// The word of an origin, or its number.
pub fn origin_word(number: u64) -> String {
    origin::word(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// What `nw face list` shows of a face besides its counters.
pub fn face_flags(face: &FaceStatus) -> String {
    let mut shown = Vec::new();
    if face.scope == FaceScope::Local {
        shown.push("local");
    }
    if face.link_type != LinkType::PointToPoint {
        shown.push(face.link_type.as_str());
    }
    shown.extend(words(face.flags, FACE_BITS));
    if shown.is_empty() { "-".to_owned() } else { shown.join(",") }
}

fn value(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// Puts words where a number stands for flags.
fn name_bits(value: &mut Value, bits: Bits) {
    for field in ["flags", "mask"] {
        if let Some(number) = value.get(field).and_then(Value::as_u64) {
            value[field] = json!(words(number, bits));
        }
    }
}

/// A face as a JSON object. What it does not have is null.
pub fn face(face: &FaceStatus) -> Value {
    let mut shown = value(face);
    name_bits(&mut shown, FACE_BITS);
    for absent in
        ["expiration_period_ms", "base_congestion_marking_interval_ns", "default_congestion_threshold", "mtu"]
    {
        shown.as_object_mut().map(|object| object.entry(absent).or_insert(Value::Null));
    }
    shown
}

/// A prefix of the RIB as a JSON object.
pub fn rib_entry(entry: &RibEntry) -> Value {
    let mut shown = value(entry);
    for route in shown["routes"].as_array_mut().into_iter().flatten() {
        name_origin(route);
        name_bits(route, ROUTE_BITS);
        route.as_object_mut().map(|route| route.entry("expiration_period_ms").or_insert(Value::Null));
    }
    shown
}

fn name_origin(value: &mut Value) {
    if let Some(number) = value.get("origin").and_then(Value::as_u64) {
        value["origin"] = json!(origin_word(number));
    }
}

/// The content store as a JSON object.
pub fn cs_info(info: &CsInfo) -> Value {
    let mut shown = value(info);
    name_bits(&mut shown, CS_BITS);
    shown
}

/// A strategy choice as a JSON object.
pub fn strategy(choice: &StrategyChoice) -> Value {
    value(choice)
}

/// The router's answer to a command; `bits`: what its flags mean.
pub fn answer(body: &ControlParameters, bits: Bits) -> Value {
    let mut shown = value(body);
    name_bits(&mut shown, bits);
    name_origin(&mut shown);
    let persistency = body.face_persistency.and_then(FacePersistency::from_number);
    if let (Some(persistency), Some(object)) = (persistency, shown.as_object_mut()) {
        object.remove("face_persistency");
        object.insert("persistency".into(), json!(persistency.as_str()));
    }
    shown
}

/// All there is to know of a router, as a JSON object.
pub fn status(status: &Status) -> Value {
    let mut shown = value(status);
    shown["faces"] = status.faces.iter().map(face).collect();
    shown["rib"] = status.rib.iter().map(rib_entry).collect();
    shown["content_store"] = cs_info(&status.content_store);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn face_has_words_and_null_for_what_is_absent() {
        let mut status =
            FaceStatus::new(256, "udp4://192.0.2.1:6363", "udp4://192.0.2.2:6363", FaceScope::NonLocal);
        status.flags = flags::RELIABILITY | flags::CONGESTION_MARKING;
        let shown = face(&status);
        assert_eq!(shown["flags"], json!(["reliability", "congestion-marking"]));
        assert_eq!((&shown["mtu"], &shown["persistency"]), (&Value::Null, &json!("persistent")));
        assert!(shown.as_object().unwrap().contains_key("expiration_period_ms"));
        assert_eq!(face_flags(&status), "reliability,congestion-marking");
    }

    #[test]
    fn answer_has_words() {
        let body = ControlParameters {
            face_persistency: Some(2),
            flags: Some(1),
            origin: Some(255),
            ..ControlParameters::default()
        };
        assert_eq!(
            answer(&body, ROUTE_BITS),
            json!({ "flags": ["child-inherit"], "origin": "static", "persistency": "permanent" })
        );
    }
}
