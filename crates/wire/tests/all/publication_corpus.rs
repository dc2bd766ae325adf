//! Replays the corpora of the fuzz targets for publish/subscribe, and changes bytes of the seeds at
//! random: no input may cause a panic, and what is accepted is encoded to the same bytes.

use proptest::prelude::*;
use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/src/publication_target.rs"]
mod publication_target;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

use publication_target::ALL;

/// Least number of seeds of a target: fewer would mean that seeds were lost.
const SEEDS_MIN: usize = 4;

#[test]
fn corpus_files_give_the_result_in_their_name() {
    for (target, run) in ALL {
        let replayed = replay::replay(target, run);
        assert!(replayed >= SEEDS_MIN, "{target} has {replayed} seeds");
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(corpus)
        .expect("the corpus")
        .map(|entry| entry.expect("a directory entry").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a readable seed")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn changed_seeds_are_refused_or_encoded_again(
        target in 0..ALL.len(),
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (name, run) = ALL[target];
        let seeds = seeds(name);
        let mut bytes = seeds[seed.index(seeds.len())].clone();
        for (at, value) in &changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        let _outcome = run(&bytes);
    }

    #[test]
    fn random_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for (_, run) in ALL {
            let _outcome = run(&bytes);
        }
    }
}
