//! Replays the corpus of the fuzz target `rest_body`. File names tell the expected result, see
//! `crates/wire/tests/all/corpus.rs`.

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/src/rest_target.rs"]
mod rest_target;

#[test]
fn rest_body_corpus_replays() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/rest_body");
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let outcome = rest_target::rest_body(&fs::read(&path).expect("a readable seed"));
        match (outcome, name.split_once('-')) {
            (Ok(()), Some(("ok", _))) | (_, Some(("found", _))) => {}
            (Err(fault), Some(("bad", suffix))) if suffix.split('-').next() == Some(fault) => {}
            _ => panic!("{name}: {outcome:?}"),
        }
        replayed += 1;
    }
    assert!(replayed >= 12, "{replayed} seeds");
}
