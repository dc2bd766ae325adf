//! Replays the corpus of the fuzz target `balancer_config`. `crates/wire/tests/all/corpus.rs`
//! explains what the file names promise.

#[path = "../../../../fuzz/src/balancer_target.rs"]
mod balancer_target;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn balancer_config_corpus_replays() {
    let replayed = replay("balancer_config", balancer_target::balancer_config);
    assert!(replayed >= 11, "{replayed} seeds");
}
