//! Replays the corpora of the fuzz targets `scenario` and `topology`; file names are explained in
//! `crates/wire/tests/all/corpus.rs`.

#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/scenario_target.rs"]
mod scenario_target;

use replay::replay;

#[test]
fn scenario_corpus_replays() {
    let replayed = replay("scenario", scenario_target::scenario);
    assert!(replayed >= 12, "{replayed} seeds");
}

#[test]
fn topology_corpus_replays() {
    let replayed = replay("topology", scenario_target::topology);
    assert!(replayed >= 12, "{replayed} seeds");
}
