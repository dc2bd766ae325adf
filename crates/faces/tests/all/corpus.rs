//! Replays the corpora of the fuzz targets `websocket`, `shared_memory`, `link`, `frame` and
//! `netlink`; `crates/wire/tests/all/corpus.rs` explains the file names.

#[path = "../../../../fuzz/src/link_target.rs"]
mod link_target;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/shared_memory_target.rs"]
mod shared_memory_target;
#[path = "../../../../fuzz/src/websocket_target.rs"]
mod websocket_target;

use replay::replay;

#[test]
fn websocket_corpus_replays() {
    let replayed = replay("websocket", websocket_target::websocket);
    assert!(replayed >= 24, "{replayed} seeds");
}

#[test]
fn shared_memory_corpus_replays() {
    let replayed = replay("shared_memory", shared_memory_target::shared_memory);
    assert!(replayed >= 20, "{replayed} seeds");
}

#[test]
fn link_corpus_replays() {
    let replayed = replay("link", link_target::link);
    assert!(replayed >= 20, "{replayed} seeds");
}

#[test]
fn frame_corpus_replays() {
    let replayed = replay("frame", link_target::frame);
    assert!(replayed >= 14, "{replayed} seeds");
}

#[test]
fn netlink_corpus_replays() {
    let replayed = replay("netlink", link_target::netlink);
    assert!(replayed >= 10, "{replayed} seeds");
}
