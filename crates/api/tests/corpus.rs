//! Replays the corpora of the fuzz targets `management` and `config`; see `crates/wire/tests/corpus.rs` for what file names promise.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/control_targets.rs"]
mod control_targets;

fn replay(target: &str, run: fn(&[u8]) -> Result<(), &'static str>) {
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
    assert!(replayed >= 12, "{replayed} seeds of {target}");
}

#[test]
fn the_management_corpus_replays() {
    replay("management", control_targets::management);
}

#[test]
fn the_config_corpus_replays() {
    replay("config", control_targets::config);
}
