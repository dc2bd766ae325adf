//! Replays the corpora of the fuzz targets `command` and `safebag`; see `crates/wire/tests/corpus.rs` for what file names promise.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/command_target.rs"]
mod command_target;
#[path = "../../../fuzz/src/safebag_target.rs"]
mod safebag_target;

#[test]
fn the_command_corpus_replays() {
    let replayed = replay("command", command_target::command);
    assert!(replayed >= 20, "{replayed} seeds");
}

#[test]
fn the_safebag_corpus_replays() {
    let replayed = replay("safebag", safebag_target::safebag);
    assert!(replayed >= 10, "{replayed} seeds");
}

fn replay(target: &str, run: impl Fn(&[u8]) -> Result<(), &'static str>) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let outcome = run(&fs::read(&path).expect("a readable seed"));
        match (outcome, name.split_once('-')) {
            (Ok(()), Some(("ok", _))) | (_, Some(("found", _))) => {}
            (Err(fault), Some(("bad", rest))) if rest.split('-').next() == Some(fault) => {}
            _ => panic!("{name}: {outcome:?}"),
        }
        replayed += 1;
    }
    replayed
}
