//! Graphs that can't work, as files: each says in `#!` lines at its end what must be said of it, in order. `NW_RENEW=1` writes these lines anew.

use nw_graph::GraphFile;
use std::fs;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn each_is_refused_with_every_reason() {
    let mut failures = Vec::new();
    for path in files() {
        let whole = fs::read_to_string(&path).expect("text");
        let (text, wanted) = whole.split_once("#! ").unwrap_or((whole.as_str(), ""));
        let wanted: Vec<&str> = wanted.lines().map(|line| line.trim_start_matches("#! ")).collect();
        let problems = match GraphFile::read("graph", text) {
            Ok(_) => panic!("{} is taken for good", path.display()),
            Err(problems) => problems.problems,
        };
        let got: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if std::env::var_os("NW_RENEW").is_some() {
            let lines: String = got.iter().map(|line| format!("#! {line}\n")).collect();
            fs::write(&path, format!("{text}{lines}")).expect("written");
        } else if got != wanted {
            failures.push(format!("{}:\n  {}", path.display(), got.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "these say something else now:\n\n{}", failures.join("\n\n"));
}
