//! Replays the corpus of the fuzz target `announcement`. File names tell the expected result, see
//! `crates/wire/tests/all/corpus.rs`.

#[path = "../../../fuzz/src/content_target.rs"]
mod content_target;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn announcement_corpus_replays() {
    let replayed = replay("announcement", content_target::announcement);
    assert!(replayed >= 10, "{replayed} seeds");
}
