//! Replays the corpus of a fuzz target, in the tests of the crate whose code the target runs.
//! `crates/wire/tests/all/corpus.rs` describes the meaning of file names.

use std::fs;
use std::path::Path;

/// Runs every seed of a target and returns their number.
pub fn replay(target: &str, run: fn(&[u8]) -> Result<(), &'static str>) -> usize {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("a directory entry").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let outcome = run(&fs::read(&path).expect("a readable seed"));
        match (outcome, name.split_once('-')) {
            (Ok(()), Some(("ok", _))) | (_, Some(("found", _))) => {}
            (Err(fault), Some(("bad", expected))) if expected.split('-').next() == Some(fault) => {}
            _ => panic!("{target}/{name}: {outcome:?}"),
        }
        replayed += 1;
    }
    replayed
}
