//! Runs every case under `tests/cases` of the repository. `NW_CASE=<part of a path>` runs some of
//! them.

use crate::case;
use std::path::{Path, PathBuf};

fn cases(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            cases(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "case") {
            found.push(path);
        }
    }
}

#[test]
fn every_case_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let mut paths = Vec::new();
    cases(&root, &mut paths);
    paths.sort();
    let filter = std::env::var("NW_CASE").unwrap_or_default();
    paths.retain(|path| path.to_string_lossy().contains(&filter));
    assert!(!paths.is_empty(), "no case has {filter:?} in its path");
    let mut failures = Vec::new();
    for path in &paths {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Err(error) = case::run(&text) {
            failures
                .push(format!("{}\n  {error}", path.strip_prefix(&root).unwrap_or(path).display()));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases failed\n\n{}\n",
        failures.len(),
        paths.len(),
        failures.join("\n\n")
    );
}

/// The runner itself: it must reject what a case does not expect.
#[test]
fn wrong_case_fails() {
    let good = "# x\nface 300 local\nface 301\nroute /a 301\nin 300 Interest /a nonce=1 token=aa\nout 301 Interest /a nonce=1 token=@1\n\
                in 301 Data /a content=x\nout 300 Data /a content=x token=aa\n";
    case::run(good).unwrap();
    for (from, to, part) in [
        (
            "out 301 Interest /a nonce=1 token=@1\n",
            "",
            "but not expected: out 301 Interest /a nonce=1",
        ),
        ("out 300 Data /a content=x token=aa\n", "", "but not expected: out 300 Data /a"),
        ("content=x token=aa", "content=x", "token: expected"),
        ("content=x token=aa", "content=y token=aa", "content: expected"),
        ("out 300", "out 301", "face: expected"),
        ("out 301 Interest /a nonce=1", "out 301 Interest /a nonce=2", "nonce: expected"),
        ("# x\n", "# x\ndrop aggregated 1\n", "drop aggregated: expected 1, got 0"),
        ("# x\n", "# x\ndrop tiredness\n", "unknown drop reason"),
        ("# x\n", "", "starts with a comment"),
        ("route", "rout", "unknown command"),
    ] {
        let wrong = good.replacen(from, to, 1);
        assert_ne!(wrong, good);
        let error = case::run(&wrong).expect_err(&wrong);
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

/// The runner of cases with one element.
#[test]
fn wrong_case_of_one_element_fails() {
    let good = "# x\nelement name_filter rules_max=9\nwith rules allow /a; deny /a/b\nin packet:300>301 Data /a content=x\n\
                out passed:301 Data /a content=x\nin packet:300 Interest /a/b nonce=1\ndrop name_refused\n";
    case::run(good).unwrap();
    for (from, to, part) in [
        ("element name_filter", "element filter", "no element is called"),
        ("rules_max=9", "rules_min=9", "not known; there are rules_max"),
        ("deny /a/b", "dony /a/b", "a rule is `allow` or `deny`"),
        ("in packet:300", "in door:300", "no packet enters by"),
        ("out passed:301 Data /a content=x\n", "", "but not expected: out passed:301 Data /a"),
        ("out passed", "out refused", "face: expected"),
        ("out passed:301", "out passed:302", "face: expected"),
        ("content=x\nin", "content=y\nin", "content: expected"),
        ("drop name_refused\n", "", "drop name_refused: expected 0, got 1"),
        ("drop name_refused\n", "drop name_refused\nout passed Interest /b\n", "nothing was sent"),
        ("drop name_refused\n", "drop name_refused\nroute /a 301\n", "unknown command"),
    ] {
        let wrong = good.replacen(from, to, 1);
        assert_ne!(wrong, good);
        let error = case::run(&wrong).expect_err(&wrong);
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}
