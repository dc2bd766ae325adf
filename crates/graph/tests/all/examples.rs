//! The graphs under `examples/graphs` and `examples/networks` have no problems, and their tests
//! pass. `NW_CASE=<part of a path>` selects some of them.

use nw_graph::{GraphFile, graph_test};
use std::fs;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<PathBuf> = ["graphs", "networks"]
        .into_iter()
        .flat_map(|folder| fs::read_dir(examples.join(folder)).expect("the folder"))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let filter = std::env::var("NW_CASE").unwrap_or_default();
    files.retain(|path| {
        path.extension().is_some_and(|end| end == "graph")
            && path.to_string_lossy().contains(&filter)
    });
    files.sort();
    assert!(!files.is_empty(), "no graph has {filter:?} in its path");
    files
}

#[test]
fn examples_checked_and_tests_pass() {
    let mut failures = Vec::new();
    for path in files() {
        let text = fs::read_to_string(&path).expect("text");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = match GraphFile::read(&name, &text) {
            Ok(file) => file,
            Err(problems) => {
                failures.push(problems.to_string());
                continue;
            }
        };
        assert!(!file.tests.is_empty(), "{name} has no test");
        for test in &file.tests {
            if let Err(failure) = graph_test::run_test(&file.graph, test) {
                failures.push(format!("{name}: {}: {failure}", test.name));
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
