//! Replays the corpora of the fuzz targets `management` and `config`; see
//! `crates/wire/tests/all/corpus.rs` for what file names promise.

#[path = "../../../../fuzz/src/control_targets.rs"]
mod control_targets;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn management_corpus_replays() {
    let replayed = replay("management", control_targets::management);
    assert!(replayed >= 12, "{replayed} seeds");
}

#[test]
fn config_corpus_replays() {
    let replayed = replay("config", control_targets::config);
    assert!(replayed >= 12, "{replayed} seeds");
}
