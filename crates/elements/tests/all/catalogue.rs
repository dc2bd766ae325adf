//! The catalogue has every element, and reports errors in parameters.

use nw_element_api::parameters::{BuildContext, Parameters, Value};
use nw_element_api::{DropCounters, ErasedContext, FaceId, Pool, TaggedBatch, Timestamp};
use nw_elements::catalogue::{ENTRIES, find, port};
use nw_name::HashKey;

const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

fn build(faces: &dyn Fn(&str) -> Option<FaceId>) -> BuildContext<'_> {
    BuildContext { key: KEY, seed: 7, start_unix_ms: 0, faces }
}

fn no_faces(_: &str) -> Option<FaceId> {
    None
}

fn texts(texts: &[&str]) -> Value {
    Value::List(texts.iter().map(|text| Value::Text((*text).to_owned())).collect())
}

#[test]
fn catalogue_lists_every_element_in_order() {
    let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(&source).expect("a folder") {
        let path = entry.expect("an entry").path();
        let file = if path.is_dir() { path.join("mod.rs") } else { path.clone() };
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.contains("impl Element for") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            assert!(find(&name).is_some(), "{name} is not in the catalogue");
        }
    }
}

#[test]
fn element_without_parameters_is_created() {
    for entry in ENTRIES {
        assert!(!entry.ins.is_empty(), "{}", entry.name);
        let made = entry.make(&build(&no_faces), &Parameters::default());
        assert!(made.is_ok(), "{}: {:?}", entry.name, made.err());
        let (what, contract) = entry.contract();
        assert!(what.ends_with('.') && contract.contains("In: "), "{}: {what}", entry.name);
        for info in entry.parameters {
            assert!(
                !info.default.is_empty() && !info.meaning.is_empty(),
                "{}: {}",
                entry.name,
                info.name
            );
        }
    }
}

#[test]
fn wrong_parameters_are_all_reported() {
    let store = find("content_store").expect("an element");
    let parameters = Parameters(vec![
        ("packets".to_owned(), Value::Text("many".to_owned())),
        ("mibs".to_owned(), Value::Integer(3)),
    ]);
    let errors = store.make(&build(&no_faces), &parameters).err().expect("refused");
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "mibs: not known; there are packets, mib, policy, admit",
            "packets: \"many\" is not allowed: a whole number from 0 to 1073741824 is expected",
        ]
    );
}

#[test]
fn routes_parameter_replaces_all_routes() {
    let router = find("router").expect("an element");
    let faces = |name: &str| (name == "north").then(|| FaceId::from_slot(0, 1));
    let build = build(&faces);
    let mut element = router.make(&build, &Parameters::default()).expect("made");
    let mut pool = Pool::new(KEY, 1, 1);
    let (mut out, mut drops) = (TaggedBatch::default(), DropCounters::default());
    let mut apply = |routes: &[&str], strategies: &[&str]| {
        let parameters = Parameters(vec![
            ("routes".to_owned(), texts(routes)),
            ("strategies".to_owned(), texts(strategies)),
        ]);
        let mut erased = ErasedContext { pool: &mut pool, out: &mut out, drops: &mut drops };
        router.apply(element.as_mut(), Timestamp::START, &build, &parameters, &mut erased)
    };
    assert_eq!(
        apply(&["/a north cost=10", "/b north"], &["/ best-route", "/a/b multicast"]),
        Ok(())
    );
    assert_eq!(apply(&["/b north"], &[]), Ok(()));
    let errors = apply(&["/a south", "b%", "/c cost=3"], &["/a unheard-of"]).expect_err("refused");
    assert_eq!(errors.len(), 5, "{errors:?}");
    assert!(errors[0].text.contains("no face is called \"south\""), "{errors:?}");
    let any: &dyn std::any::Any = element.as_ref();
    let router = any
        .downcast_ref::<nw_element_api::Erased<nw_elements::Router>>()
        .expect("a router")
        .element();
    assert_eq!(
        router.fib().entries().len(),
        3,
        "/, /a and /c: what was wrong leaves the rest in effect"
    );
}

#[test]
fn port_is_found_by_name_and_former_name() {
    let store = find("content_store").expect("an element");
    assert_eq!(port(store.outs, "miss"), Some(1));
    assert_eq!((store.main_output)(0), Some(1));
    assert_eq!(port(store.outs, "nothing"), None);
    let router = find("router").expect("an element");
    assert_eq!(port(router.outs, "lesson"), port(router.outs, "route_event"));
    assert!(port(router.outs, "lesson").is_some());
}
