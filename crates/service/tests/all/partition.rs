//! Partitioned graphs: the parts are valid and written correctly.

use nw_graph::{GraphFile, language};
use nw_service::{LinkKind, partition};
use std::path::Path;

fn example(name: &str) -> GraphFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/graphs").join(name);
    let text = std::fs::read_to_string(&path).expect("an example");
    GraphFile::read(name, &text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn services(list: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |members: &[&str]| members.iter().map(|member| (*member).to_owned()).collect();
    list.iter().map(|(name, members)| ((*name).to_owned(), owned(members))).collect()
}

const FOUR: [(&str, &[&str]); 4] = [("a", &["pd"]), ("b", &["cs"]), ("c", &["br"]), ("d", &["nr"])];

#[test]
fn partition_parts_valid_and_written_correctly() {
    let file = example("split_chain.graph");
    let parts = partition(&file.graph, &services(&FOUR), Path::new("/run/nw"), LinkKind::Unix)
        .expect("a valid partition");
    assert_eq!(parts.len(), 4);
    for part in &parts {
        let text = language::write(&part.graph);
        let read = GraphFile::read(&part.name, &text)
            .unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        assert_eq!(language::write(&read.graph), text, "reading the text back gives the same text");
    }
    let second = language::write(&parts[1].graph);
    for line in ["cs.hit -> faces", "to_a -> cs.interest", "cs.miss -> to_c", "to_c -> cs.data"] {
        assert!(second.lines().any(|known| known == line), "{line} is missing in\n{second}");
    }
}

#[test]
fn partition_every_error_reported() {
    let file = example("split_chain.graph");
    let errors = |list: &[(&str, &[&str])]| {
        partition(&file.graph, &services(list), Path::new("/run/nw"), LinkKind::Unix)
            .expect_err("an invalid partition")
            .to_string()
    };
    let message = errors(&[("a", &["pd", "cs", "xx"]), ("b", &["cs", "br"])]);
    for part in [
        "nothing in the graph is called \"xx\"",
        "\"cs\" belongs to a and to b",
        "\"nr\" belongs to no service",
    ] {
        assert!(message.contains(part), "{part} is missing in\n{message}");
    }
    let message = errors(&[("a", &["pd", "cs"]), ("a", &["br", "nr"])]);
    assert!(message.contains("service a is given twice"), "{message}");
    let standard = example("standard.graph");
    let list = services(&[("a", &["dispatcher", "cs", "discard"]), ("b", &["fib"])]);
    let message = partition(&standard.graph, &list, Path::new("/run/nw"), LinkKind::Unix);
    assert!(message.is_err(), "routes of one part lead to faces of the other");
}

#[test]
fn partition_long_folder_rejected_for_each_link() {
    let file = example("split_chain.graph");
    // A path `/ffff…` followed by `/a-b.sock`.
    let folder = |len: usize| format!("/{}", "f".repeat(len - 1 - "/a-b.sock".len()));
    assert!(
        partition(&file.graph, &services(&FOUR), Path::new(&folder(107)), LinkKind::Unix).is_ok()
    );
    let message =
        partition(&file.graph, &services(&FOUR), Path::new(&folder(108)), LinkKind::SharedMemory)
            .expect_err("too long")
            .to_string();
    // Each service is linked with the next, and the dispatcher with the router.
    assert_eq!(message.lines().count(), 4, "{message}");
    assert!(
        message.contains("the socket between a and b would have a path of 108 bytes"),
        "{message}"
    );
}

#[test]
fn partition_links_have_requested_kind() {
    let file = example("split_chain.graph");
    let all = |kind| {
        let parts = partition(&file.graph, &services(&FOUR), Path::new("/run/nw"), kind)
            .expect("a valid partition");
        parts.iter().map(|part| language::write(&part.graph)).collect::<Vec<_>>()
    };
    let (unix, shared) = (all(LinkKind::Unix), all(LinkKind::SharedMemory));
    assert!(shared[0].contains("face to_b = shm:///run/nw/a-b.sock"), "{}", shared[0]);
    assert!(shared[1].contains("face to_a listens shm:///run/nw/a-b.sock single"), "{}", shared[1]);
    for (unix, shared) in unix.iter().zip(&shared) {
        assert_eq!(
            shared.replace("shm:///run/nw/", "unix:///run/nw/"),
            *unix,
            "nothing else differs"
        );
        GraphFile::read("shared", shared).unwrap_or_else(|problems| panic!("{shared}\n{problems}"));
    }
}

/// Seven services without pending Interests in a row: the seventh label does not fit.
#[test]
fn partition_with_too_many_return_labels_is_refused() {
    let names: Vec<String> = (0..7).map(|number| format!("c{number}")).collect();
    let mut text = "face near listens unix:///tmp/near\nface far = unix:///tmp/far\n".to_owned();
    names.iter().for_each(|name| text += &format!("{name} = counter\n"));
    text += &format!("near -> {} -> far\nfar -> faces\n", names.join(" -> "));
    let file = GraphFile::read("row", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let mut each: Vec<(String, Vec<String>)> =
        names.iter().map(|name| (name.clone(), vec![name.clone()])).collect();
    each[6].1.push("far".to_owned());
    let split = |services: &[(String, Vec<String>)]| {
        partition(&file.graph, services, Path::new("/run/nw"), LinkKind::Unix)
    };
    let message = split(&each).expect_err("seven labels").to_string();
    assert!(message.contains("c0, c1, c2, c3, c4, c5, c6 needs more return labels"), "{message}");
    let mut six = each.clone();
    let (_, last) = six.pop().unwrap();
    six[5].1.extend(last);
    assert!(split(&six).is_ok(), "six labels fit");
}
