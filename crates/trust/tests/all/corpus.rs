//! Replays the corpora of the fuzz targets `command`, `ndncert` and `safebag`.
//! `crates/wire/tests/all/corpus.rs` explains what the file names promise.

#[path = "../../../../fuzz/src/command_target.rs"]
mod command_target;
#[path = "../../../../fuzz/src/ndncert_target.rs"]
mod ndncert_target;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/safebag_target.rs"]
mod safebag_target;

use replay::replay;

#[test]
fn command_corpus_replays_as_named() {
    let replayed = replay("command", command_target::command);
    assert!(replayed >= 20, "{replayed} seeds");
}

#[test]
fn ndncert_corpus_replays_as_named() {
    let replayed = replay("ndncert", ndncert_target::ndncert);
    assert!(replayed >= 11, "{replayed} seeds");
}

#[test]
fn safebag_corpus_replays_as_named() {
    let replayed = replay("safebag", safebag_target::safebag);
    assert!(replayed >= 10, "{replayed} seeds");
}
