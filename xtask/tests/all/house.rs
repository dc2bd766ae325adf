//! House rules that a reader would otherwise have to watch: sizes of files, unfinished work,
//! documents that exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Style, 9: any file well under this.
const FILE_LINES_MAX: usize = 800;
/// Style, 12.
const README_LINES_MAX: usize = 60;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
}

fn files_below(folder: &Path, endings: &[&str], into: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "node_modules", ".git", ".venv"].contains(&name.as_str()) {
            files_below(&path, endings, into);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            into.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    files_below(&root(), &[".rs", ".c", ".h", ".ts", ".tsx", ".py", ".mjs"], &mut files);
    // Generated from OpenAPI documents.
    files.retain(|path| !path.starts_with(root().join("page/src/types")));
    assert!(files.len() > 50, "the walk finds the sources");
    files
}

#[test]
fn files_fit_a_head() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|path| (fs::read_to_string(&path).expect("text").lines().count(), path))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .collect();
    assert!(long.is_empty(), "split by meaning: {long:?}");
}

#[test]
fn nothing_is_left_for_later() {
    // Written apart, so that this file does not find itself.
    let words = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["todo", "!("].concat(),
        ["unimplemented", "!("].concat(),
    ];
    let found: Vec<_> = sources()
        .into_iter()
        .filter(|path| {
            let text = fs::read_to_string(path).expect("text");
            words.iter().any(|word| text.contains(word.as_str()))
        })
        .collect();
    assert!(
        found.is_empty(),
        "finish it, or say in the README's table that it is not there: {found:?}"
    );
}

#[test]
fn every_crate_has_a_short_readme() {
    for entry in fs::read_dir(root().join("crates")).expect("crates").flatten() {
        let readme = entry.path().join("README.md");
        let lines = fs::read_to_string(&readme)
            .unwrap_or_else(|_| panic!("{} is missing", readme.display()))
            .lines()
            .count();
        assert!((5..=README_LINES_MAX).contains(&lines), "{} has {lines} lines", readme.display());
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let reasons = fs::read_to_string(root().join("docs/decisions/0002-dependencies.md"))
        .expect("decision 0002");
    let section = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .expect("dependencies")
        .split("\n[")
        .next()
        .expect("one");
    for line in section.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
        let name = line.split([' ', '=']).next().expect("a name");
        assert!(
            name.starts_with("nw-") || reasons.contains(&format!("`{name}`")),
            "decision 0002 has no line for {name}"
        );
    }
}

/// Switches for tests are variables with TEST in their names.
#[test]
fn switches_for_tests_are_absent_from_releases() {
    let condition = "#[cfg(debug_assertions)]";
    let mut files = Vec::new();
    files_below(&root().join("crates"), &[".rs"], &mut files);
    // Modules of tests are named `tests` or `…_tests`, and are in no program.
    files.retain(|path| {
        let is_of = |name: &str| path.iter().any(|part| part.to_string_lossy().ends_with(name));
        is_of("src") && !is_of("tests") && !is_of("tests.rs")
    });
    let mut switches = 0;
    for path in files {
        let text = fs::read_to_string(&path).expect("text");
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let name = line.split("\"NW_").nth(1).and_then(|rest| rest.split('"').next());
            if name.is_some_and(|name| name.contains("TEST")) {
                switches += 1;
                let is_conditional = at > 0 && lines[at - 1].trim() == condition;
                assert!(is_conditional, "{}:{}: no {condition} before it", path.display(), at + 1);
            }
        }
    }
    assert!(switches > 0, "the search finds NW_NETWORK_TEST_KILL_AT");
}

/// The programs of tests of a crate: files in `tests`, and folders there with a `main.rs`.
fn test_programs(crate_folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(crate_folder.join("tests")).into_iter().flatten().flatten();
    let source_of = |path: PathBuf| if path.is_dir() { path.join("main.rs") } else { path };
    let is_source = |path: &PathBuf| path.extension().is_some_and(|e| e == "rs") && path.is_file();
    entries.map(|entry| source_of(entry.path())).filter(is_source).collect()
}

/// Each program of tests links all crates below its own, which takes seconds.
#[test]
fn other_test_programs_of_a_crate_give_a_reason() {
    let crates = fs::read_dir(root().join("crates")).expect("crates").flatten();
    let folders = crates.map(|entry| entry.path()).chain([root().join("xtask")]);
    let programs: Vec<_> = folders.map(|folder| test_programs(&folder)).collect();
    assert!(programs.iter().flatten().count() > 20, "the walk finds the programs");
    let found: Vec<_> = programs
        .into_iter()
        .filter(|programs| programs.len() > 1)
        .flatten()
        .filter(|path| !path.ends_with("tests/all/main.rs"))
        .filter(|path| !fs::read_to_string(path).expect("text").contains("Alone in its process"))
        .collect();
    assert!(
        found.is_empty(),
        "make them modules of tests/all/main.rs, or say why each is 'Alone in its process': {found:?}"
    );
}
