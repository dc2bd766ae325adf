//! What the OpenAPI documents of all servers have in common: the answers that any request may get, and the bounds of numbers.

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// What a status means where the operation does not say it.
const MEANINGS: &[(&str, &str)] = &[
    ("200", "Done; the body says what there is now"),
    ("201", "Made"),
    ("202", "Accepted; it takes its time"),
    ("204", "Done; there is nothing to say"),
    ("400", "The request is malformed: a query, a path, a body that is not JSON, or two Host headers"),
    ("401", "The token of `control.token_file` is missing or wrong"),
    ("403", "Not allowed: by the router's rules, or to a web page"),
    ("404", "What the request names is not there"),
    ("408", "The request took too long to arrive"),
    ("409", "The request contradicts what there is, or what this program can do"),
    ("413", "The body is too long"),
    ("415", "The body is not application/json"),
    ("422", "The body is JSON, but not what this operation takes"),
    ("500", "The system refused, or the program has a fault"),
    ("503", "Busy or ending: try again"),
    ("504", "The other end, or the forwarding loop, did not answer in time"),
];
/// Statuses that any operation may answer with: the rules of who may ask, and a busy or ending program.
const ANY: [&str; 7] = ["400", "401", "403", "408", "500", "503", "504"];
/// Statuses of operations that take a body.
const BODY: [&str; 3] = ["413", "415", "422"];

/// Completes a document, and writes it as JSON: every response with a description, every status an operation can answer with, bounds
/// for numbers that have only one.
///
/// # Panics
/// When two operations have one id, or a status has no meaning here: both are faults of the program.
pub fn complete(mut document: OpenApi) -> String {
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let mut document = serde_json::to_value(document).expect("a document of strings and maps");
    responses(&mut document);
    bound(&mut document);
    if let Value::Object(map) = &mut document {
        map.insert("security".into(), json!([{}, { "token": [] }]));
    }
    let token =
        json!({ "type": "http", "scheme": "bearer", "description": "Over TCP; not over the unix socket" });
    document["components"]["securitySchemes"] = json!({ "token": token });
    without_links(&serde_json::to_string_pretty(&document).expect("strings and maps"))
}

fn meaning(status: &str) -> &'static str {
    let found = MEANINGS.iter().find(|(known, _)| *known == status);
    found.unwrap_or_else(|| panic!("the status {status} has no meaning in MEANINGS")).1
}

fn responses(document: &mut Value) {
    let problem = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let mut ids = std::collections::BTreeSet::new();
    let paths = document["paths"].as_object_mut().expect("paths");
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        let id = operation["operationId"].to_string();
        assert!(ids.insert(id.clone()), "two operations have the id {id}");
        let body: &[&str] = if operation.get("requestBody").is_some() { &BODY } else { &[] };
        let responses = operation["responses"].as_object_mut().expect("responses");
        for status in ANY.iter().chain(body) {
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

/// Unsigned numbers have their type's bound, and its name as the registry of formats has it.
fn bound(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let types = map.get("type").cloned().unwrap_or_default();
            let is =
                |word: &str| types == *word || types.as_array().is_some_and(|all| all.contains(&word.into()));
            if is("integer") && map.get("minimum").and_then(Value::as_u64).is_some() {
                let (format, most) = match map.get("format").and_then(Value::as_str) {
                    Some("int32") => ("uint32", u64::from(u32::MAX)),
                    _ => ("uint64", u64::MAX),
                };
                map.insert("format".into(), format.into());
                map.entry("maximum").or_insert_with(|| most.into());
            }
            map.values_mut().for_each(bound);
        }
        Value::Array(items) => items.iter_mut().for_each(bound),
        _ => {}
    }
}

/// Documentation comments link to code; readers of the document have none: `[x](y)` becomes x.
fn without_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[`") {
        let link =
            behind.split_once("`](").and_then(|(words, target)| Some((words, target.split_once(')')?.1)));
        match link.filter(|(words, _)| !words.contains(['"', '\n'])) {
            Some((words, behind)) => {
                out.push_str(before);
                out.push_str(words);
                rest = behind;
            }
            None => {
                out.push_str(before);
                out.push_str("[`");
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}
