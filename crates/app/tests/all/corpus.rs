//! Replays the corpus of the fuzz target `metadata`; file names are explained in
//! `crates/wire/tests/all/corpus.rs`.

#[path = "../../../../fuzz/src/metadata_target.rs"]
mod metadata_target;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn metadata_corpus_replays() {
    let replayed = replay("metadata", metadata_target::metadata);
    assert!(replayed >= 8, "{replayed} seeds");
}
