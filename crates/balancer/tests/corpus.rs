//! Replays the corpora of the fuzz targets `balancer_config`; see `crates/wire/tests/corpus.rs` for what file names promise.

#[path = "../../../fuzz/src/balancer_target.rs"]
mod balancer_target;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn balancer_config_corpus_replays() {
    let replayed = replay("balancer_config", balancer_target::balancer_config);
    assert!(replayed >= 11, "{replayed} seeds");
}
