//! Tables that promise: what they name as evidence must exist.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
}

/// Paths between backticks in the table rows of a document.
fn evidence(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).expect("the document exists");
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        ["crates/", "tests/", "docs/", "deploy/", "xtask/"]
            .iter()
            .any(|folder| word.starts_with(folder))
    };
    quoted.filter(is_path).map(str::to_owned).collect()
}

#[test]
fn what_is_named_as_evidence_exists() {
    for (document, least) in [("docs/parity.md", 40), ("README.md", 10)] {
        let named = evidence(document);
        assert!(named.len() >= least, "{document} names its evidence: {named:?}");
        let missing: Vec<_> = named.iter().filter(|path| !root().join(path).exists()).collect();
        assert!(missing.is_empty(), "{document} names what is not there: {missing:?}");
    }
}
