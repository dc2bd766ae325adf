//! Replays the fuzzers' corpora (`fuzz/corpus`).
//!
//! A file's name is the expected result: `ok-…` is accepted, `bad-<fault>-…` is rejected with that
//! fault, `found-…` (an input that a fuzzer found) must only not panic.

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

/// Least number of seeds per target: fewer would mean that seeds were lost.
const SEEDS_MIN: usize = 20;

#[test]
fn corpus_files_give_the_result_in_their_name() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut failures = Vec::new();
    for (target, run) in targets::ALL {
        let mut files: Vec<_> = fs::read_dir(corpora.join(target))
            .unwrap_or_else(|e| panic!("the corpus of {target}: {e}"))
            .map(|entry| entry.expect("a directory entry").path())
            .collect();
        files.sort();
        assert!(files.len() >= SEEDS_MIN, "{target} has {} seeds", files.len());
        for path in files {
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            let outcome = run(&fs::read(&path).expect("a readable seed"));
            let as_named = match (outcome, name.split_once('-')) {
                (Ok(()), Some(("ok", _))) | (_, Some(("found", _))) => true,
                (Err(fault), Some(("bad", rest))) => rest.split('-').next() == Some(fault),
                _ => false,
            };
            if !as_named {
                failures.push(format!("{target}/{name}: {outcome:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "results differ from the file names:\n{}", failures.join("\n"));
}
