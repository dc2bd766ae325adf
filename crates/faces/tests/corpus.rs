//! Replays the corpora of the fuzz targets `websocket`, `shared_memory`, `link`, `frame` and `netlink`; see `crates/wire/tests/corpus.rs` for what file names promise.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/link_target.rs"]
mod link_target;
#[path = "../../../fuzz/src/shared_memory_target.rs"]
mod shared_memory_target;
#[path = "../../../fuzz/src/websocket_target.rs"]
mod websocket_target;

/// How many seeds there were.
fn replay(target: &str, run: fn(&[u8]) -> Result<(), &'static str>) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let outcome = run(&fs::read(&path).expect("a readable seed"));
        match (outcome, name.split_once('-')) {
            (Ok(()), Some(("ok", _))) | (_, Some(("found", _))) => {}
            (Err(fault), Some(("bad", rest))) if rest.split('-').next() == Some(fault) => {}
            _ => panic!("{target}/{name}: {outcome:?}"),
        }
        replayed += 1;
    }
    replayed
}

#[test]
fn the_websocket_corpus_replays() {
    let replayed = replay("websocket", websocket_target::websocket);
    assert!(replayed >= 24, "{replayed} seeds");
}

#[test]
fn the_shared_memory_corpus_replays() {
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
