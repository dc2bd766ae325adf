//! Completes OpenAPI documents with what all servers have in common: error responses, and bounds of
//! numbers.

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// Descriptions of statuses, for operations that do not describe them.
const MEANINGS: &[(&str, &str)] = &[
    ("200", "Done; the body is the current state"),
    ("201", "Created"),
    ("202", "Accepted; it completes later"),
    ("204", "Done; no body"),
    (
        "400",
        "The request is malformed: a query, a path, a body that is not JSON, or two Host headers",
    ),
    ("401", "The token of `control.token_file` is missing or wrong"),
    ("403", "Not allowed: by the router's rules, or to a web page"),
    ("404", "The requested object does not exist"),
    ("408", "The request took too long to arrive"),
    ("409", "The request conflicts with the current state, or is not supported"),
    ("413", "The body is too long"),
    ("415", "The body is not application/json"),
    ("422", "The body is valid JSON, but not valid for this operation"),
    ("500", "The operating system refused, or the program has a bug"),
    ("503", "Busy or stopping: try again"),
    ("504", "The peer or the forwarding loop did not reply in time"),
];
/// Statuses that any operation may return: access control, and a busy or stopping program.
const COMMON_STATUSES: [&str; 7] = ["400", "401", "403", "408", "500", "503", "504"];
/// Statuses that only operations with a body may return.
const BODY_STATUSES: [&str; 3] = ["413", "415", "422"];

/// Completes a document and returns it as JSON: every response has a description, every operation
/// all statuses it may return, and every unsigned number its bounds.
///
/// # Panics
/// If two operations have the same id, or a status has no description here. Both are bugs.
pub fn complete(mut document: OpenApi) -> String {
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let mut document = serde_json::to_value(document).expect("a document of strings and maps");
    complete_responses(&mut document);
    add_bounds(&mut document);
    if let Value::Object(map) = &mut document {
        map.insert("security".into(), json!([{}, { "token": [] }]));
    }
    let token = json!({ "type": "http", "scheme": "bearer", "description": "Over TCP; not over the unix socket" });
    document["components"]["securitySchemes"] = json!({ "token": token });
    strip_links(&serde_json::to_string_pretty(&document).expect("strings and maps"))
}

fn meaning(status: &str) -> &'static str {
    let entry = MEANINGS.iter().find(|(known, _)| *known == status);
    entry.unwrap_or_else(|| panic!("the status {status} has no meaning in MEANINGS")).1
}

fn complete_responses(document: &mut Value) {
    let problem =
        json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let mut ids = std::collections::BTreeSet::new();
    let paths = document["paths"].as_object_mut().expect("paths");
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        let id = operation["operationId"].to_string();
        assert!(ids.insert(id.clone()), "two operations have the id {id}");
        let body: &[&str] =
            if operation.get("requestBody").is_some() { &BODY_STATUSES } else { &[] };
        let responses = operation["responses"].as_object_mut().expect("responses");
        for status in COMMON_STATUSES.iter().chain(body) {
            let generic = || json!({ "description": meaning(status), "content": problem });
            responses.entry(*status).or_insert_with(generic);
        }
        for (status, response) in responses.iter_mut() {
            if response["description"].as_str().is_none_or(str::is_empty) {
                response["description"] = meaning(status).into();
            }
        }
        responses.sort_keys();
    }
}

/// Adds to unsigned numbers the bound of their type, and the format name of the OpenAPI registry.
fn add_bounds(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let types = map.get("type").cloned().unwrap_or_default();
            let has_type = |name: &str| {
                types == *name || types.as_array().is_some_and(|list| list.contains(&name.into()))
            };
            if has_type("integer") && map.get("minimum").and_then(Value::as_u64).is_some() {
                let (format, maximum) = match map.get("format").and_then(Value::as_str) {
                    Some("int32") => ("uint32", u64::from(u32::MAX)),
                    _ => ("uint64", u64::MAX),
                };
                map.insert("format".into(), format.into());
                map.entry("maximum").or_insert_with(|| maximum.into());
            }
            map.values_mut().for_each(add_bounds);
        }
        Value::Array(items) => items.iter_mut().for_each(add_bounds),
        _ => {}
    }
}

/// Removes links from documentation comments, which point to code: `[x](y)` becomes x.
fn strip_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some((before, after)) = remaining.split_once("[`") {
        let link = after
            .split_once("`](")
            .and_then(|(label, target)| Some((label, target.split_once(')')?.1)));
        match link.filter(|(label, _)| !label.contains(['"', '\n'])) {
            Some((label, after_link)) => {
                out.push_str(before);
                out.push_str(label);
                remaining = after_link;
            }
            None => {
                out.push_str(before);
                out.push_str("[`");
                remaining = after;
            }
        }
    }
    out.push_str(remaining);
    out
}
