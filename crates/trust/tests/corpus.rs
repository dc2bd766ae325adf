//! Replays the corpora of the fuzz targets `command` and `safebag`; see `crates/wire/tests/corpus.rs` for what file names promise.

#[path = "../../../fuzz/src/command_target.rs"]
mod command_target;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/safebag_target.rs"]
mod safebag_target;

use replay::replay;

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
