//! Graphs in pieces: what they say.

use nw_graph::{GraphFile, language};
use nw_service::{LinkKind, cut};
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
fn each_piece_is_a_graph_that_can_run_and_be_written() {
    let file = example("split_chain.graph");
    let pieces =
        cut(&file.graph, &services(&FOUR), Path::new("/run/nw"), LinkKind::Unix).expect("a good cut");
    assert_eq!(pieces.len(), 4);
    for piece in &pieces {
        let text = language::write(&piece.graph);
        let read =
            GraphFile::read(&piece.name, &text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        assert_eq!(language::write(&read.graph), text, "what is read is what was written");
    }
    let second = language::write(&pieces[1].graph);
    for line in ["cs.hit -> faces", "to_a -> cs.interest", "cs.miss -> to_c", "to_c -> cs.data"] {
        assert!(second.lines().any(|known| known == line), "{line} is missing in\n{second}");
    }
}

#[test]
fn all_that_is_wrong_with_a_cut_is_said() {
    let file = example("split_chain.graph");
    let wrong = |list: &[(&str, &[&str])]| {
        cut(&file.graph, &services(list), Path::new("/run/nw"), LinkKind::Unix)
            .expect_err("a bad cut")
            .to_string()
    };
    let said = wrong(&[("a", &["pd", "cs", "xx"]), ("b", &["cs", "br"])]);
    for part in [
        "nothing in the graph is called \"xx\"",
        "\"cs\" belongs to a and to b",
        "\"nr\" belongs to no service",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let said = wrong(&[("a", &["pd", "cs"]), ("a", &["br", "nr"])]);
    assert!(said.contains("there are two services a"), "{said}");
    let standard = example("standard.graph");
    let list = services(&[("a", &["dispatcher", "cs", "nobody"]), ("b", &["fib"])]);
    let said = cut(&standard.graph, &list, Path::new("/run/nw"), LinkKind::Unix);
    assert!(said.is_err(), "routes of one piece lead to faces of the other");
}

#[test]
fn a_folder_with_too_long_a_path_is_refused_for_each_link() {
    let file = example("split_chain.graph");
    // `/`, a name, `/a-b.sock`.
    let folder = |len: usize| format!("/{}", "f".repeat(len - 1 - "/a-b.sock".len()));
    assert!(cut(&file.graph, &services(&FOUR), Path::new(&folder(107)), LinkKind::Unix).is_ok());
    let said = cut(&file.graph, &services(&FOUR), Path::new(&folder(108)), LinkKind::SharedMemory)
        .expect_err("too long")
        .to_string();
    // Each is joined with the next, and the dispatcher with the router.
    assert_eq!(said.lines().count(), 4, "{said}");
    assert!(said.contains("the socket between a and b would have a path of 108 octets"), "{said}");
}

#[test]
fn links_are_of_the_kind_that_was_asked_for() {
    let file = example("split_chain.graph");
    let all = |kind| {
        let pieces = cut(&file.graph, &services(&FOUR), Path::new("/run/nw"), kind).expect("a good cut");
        pieces.iter().map(|piece| language::write(&piece.graph)).collect::<Vec<_>>()
    };
    let (unix, shared) = (all(LinkKind::Unix), all(LinkKind::SharedMemory));
    assert!(shared[0].contains("face to_b = shm:///run/nw/a-b.sock"), "{}", shared[0]);
    assert!(shared[1].contains("face to_a listens shm:///run/nw/a-b.sock single"), "{}", shared[1]);
    for (unix, shared) in unix.iter().zip(&shared) {
        assert_eq!(shared.replace("shm:///run/nw/", "unix:///run/nw/"), *unix, "nothing else differs");
        GraphFile::read("shared", shared).unwrap_or_else(|problems| panic!("{shared}\n{problems}"));
    }
}
