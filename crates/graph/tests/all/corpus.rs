//! Replays the corpus of the fuzz target `graph`; file names are explained in
//! `crates/wire/tests/all/corpus.rs`.

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/src/graph_target.rs"]
mod graph_target;

#[test]
fn graph_corpus_replays() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/graph");
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let outcome = graph_target::graph(&fs::read(&path).expect("a readable seed"));
        match (outcome, name.split_once('-')) {
            (Ok(()), Some(("ok", _))) | (_, Some(("found", _))) => {}
            (Err(fault), Some(("bad", fault_and_name)))
                if fault_and_name.split('-').next() == Some(fault) => {}
            _ => panic!("graph/{name}: {outcome:?}"),
        }
        replayed += 1;
    }
    assert!(replayed >= 12, "{replayed} seeds of graph");
}
