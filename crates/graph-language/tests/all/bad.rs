//! Graphs that can't run, as files. Each file ends with `#!` lines: the expected problems, in
//! order. `NW_RENEW=1` rewrites these lines.

use nw_graph_language::GraphFile;
use std::fs;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn bad_graph_every_problem_reported() {
    let mut failures = Vec::new();
    for path in files() {
        let whole = fs::read_to_string(&path).expect("text");
        let (text, expected_lines) = whole.split_once("#! ").unwrap_or((whole.as_str(), ""));
        let expected: Vec<&str> =
            expected_lines.lines().map(|line| line.trim_start_matches("#! ")).collect();
        let problems = match GraphFile::read("graph", text) {
            Ok(_) => panic!("{} has no problems", path.display()),
            Err(problems) => problems.problems,
        };
        let got: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if std::env::var_os("NW_RENEW").is_some() {
            let lines: String = got.iter().map(|line| format!("#! {line}\n")).collect();
            fs::write(&path, format!("{text}{lines}")).expect("written");
        } else if got != expected {
            failures.push(format!("{}:\n  {}", path.display(), got.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "other problems than expected:\n\n{}", failures.join("\n\n"));
}
