//! Documents that promise: the tests and paths that they name exist. Whether a named test also
//! passed is checked at the end of a run, by `tests/evidence.py`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Pages with feature tables, and how many rows they have at least.
const PAGES: [(&str, usize); 2] = [("docs/features.md", 97), ("docs/parity.md", 50)];
/// Suites whose tests are methods of Python's `unittest`.
const UNITTEST: [&str; 8] =
    ["cli", "image", "kubernetes", "net", "network", "overload", "package", "pubsub"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace").to_owned()
}

/// The text of a file, given by its path below the root; empty if there is none.
fn text_of(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

/// Paths of all files below a folder, from the root on. Without generated folders.
fn files_below(folder: &str) -> Vec<String> {
    const LEFT_OUT: [&str; 6] =
        ["target", "node_modules", ".git", ".venv", "corpus", "__pycache__"];
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if entry.path().is_dir() && !LEFT_OUT.contains(&name.as_str()) {
            found.extend(files_below(&path));
        } else if entry.path().is_file() {
            found.push(path);
        }
    }
    found
}

/// The texts of all files of a folder with an ending, joined.
fn texts_of(folder: &str, ending: &str) -> String {
    let files = files_below(folder).into_iter().filter(|path| path.ends_with(ending));
    files.map(|path| text_of(&path)).collect()
}

/// A row of a feature table: its place, its state or feature, and the words between back quotes in
/// its last column.
struct Row {
    place: String,
    state: String,
    words: Vec<String>,
}

/// The rows of the tables of a page whose first column is `feature`.
fn rows(page: &str) -> Vec<Row> {
    let (mut found, mut is_table) = (Vec::new(), false);
    for (number, line) in (1..).zip(text_of(page).lines()) {
        if !line.starts_with('|') {
            is_table = false;
        } else if line.starts_with("| feature |") {
            is_table = true;
        } else if is_table && !line.starts_with("|---") {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let quoted = cells[cells.len() - 1].split('`').skip(1).step_by(2);
            found.push(Row {
                place: format!("{page}:{number}"),
                state: cells[1].to_owned(),
                words: quoted.map(str::to_owned).collect(),
            });
        }
    }
    found
}

/// The test functions of the workspace: for each name the crates that have it, once for each time.
fn rust_tests() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let crates = fs::read_dir(root().join("crates")).expect("crates").flatten();
    let folders = crates.map(|entry| format!("crates/{}", entry.file_name().to_string_lossy()));
    for folder in folders.chain(["tests/hosts".to_owned(), "xtask".to_owned()]) {
        let manifest = text_of(&format!("{folder}/Cargo.toml"));
        let Some(name) = manifest.lines().find_map(|line| line.strip_prefix("name = ")) else {
            continue;
        };
        for path in files_below(&folder).iter().filter(|path| path.ends_with(".rs")) {
            let mut is_test = false;
            for line in text_of(path).lines().map(str::trim) {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                let Some((_, after)) = line.split_once("fn ").filter(|_| is_test) else { continue };
                let function = after.split(['(', '<']).next().unwrap_or_default().to_owned();
                found.entry(function).or_default().push(name.trim_matches('"').to_owned());
                is_test = false;
            }
        }
    }
    found
}

/// Returns whether a file of tests in Python has a class with this method.
fn has_method(path: &str, class: &str, method: &str) -> bool {
    let text = text_of(path);
    let is_begin = |line: &&str| {
        line.strip_prefix("class ").is_some_and(|rest| rest.split(['(', ':']).next() == Some(class))
    };
    let body = text.lines().skip_while(|line| !is_begin(line)).skip(1);
    let mut body = body.take_while(|line| line.is_empty() || line.starts_with([' ', '#', ')']));
    body.any(|line| line.trim_start().starts_with(&format!("def {method}(")))
}

fn has_quoted(text: &str, word: &str) -> bool {
    ['"', '\'', '`'].iter().any(|quote| text.contains(&format!("{quote}{word}{quote}")))
}

/// Returns whether tests/interop has a test of this title, which may be made for each transport.
fn has_interop(title: &str) -> bool {
    let text = texts_of("tests/interop", ".py");
    if has_quoted(&text, title) {
        return true;
    }
    let Some((before, transport)) = title.rsplit_once(" over ") else { return false };
    if !["unix", "tcp", "udp", "ws"].contains(&transport) {
        return false;
    }
    let without_client = before.split_once(' ').map_or(before, |(_, rest)| rest);
    text.contains(&format!("{before} over {{"))
        || text.contains(&format!("each_transport(\"{without_client}\""))
}

/// Returns whether a test of a suite exists: see docs/features.md.
fn has_test(suite: &str, name: &str) -> bool {
    if UNITTEST.contains(&suite) {
        let parts: Vec<&str> = name.split('.').collect();
        let [file, class, method] = parts[..] else { return false };
        return has_method(&format!("tests/{suite}/{file}.py"), class, method);
    }
    match suite {
        "case" => root().join(format!("tests/cases/{name}.case")).is_file(),
        "conformance" => has_quoted(&texts_of("tests/conformance/cases", ".py"), name),
        "interop" => has_interop(name),
        "page" => text_of_page_tests().contains(&format!("test('{name}'")),
        "hostile" => {
            let (title, transport) = name.split_once(" over ").unwrap_or((name, ""));
            let text = texts_of("tests/hostile", ".py");
            let is_transport =
                transport.is_empty() || transport == "shm" || has_quoted(&text, transport);
            has_quoted(&text, title) && is_transport
        }
        "rest" => has_quoted(&text_of("tests/rest/rest.py"), name),
        "docs" => {
            name == "README.md" || name.starts_with("docs/guide/") && !text_of(name).is_empty()
        }
        "vm" => text_of("tests/vm/run").contains(&format!("    {name})")),
        _ => false,
    }
}

fn text_of_page_tests() -> String {
    texts_of("tests/page", ".test.mjs")
}

/// Says what is wrong with a word that names a test or a file; nothing if it exists.
fn fault(word: &str, tests: &BTreeMap<String, Vec<String>>) -> Option<String> {
    if let Some((package, function)) = word.split_once("::") {
        let places = tests.get(function).map(Vec::as_slice).unwrap_or_default();
        return match places {
            [only] if only == package => None,
            [] => Some(format!("no test has this name: {word}")),
            _ => Some(format!("{word} is in {places:?}: name one that is there once")),
        };
    }
    if let Some((suite, name)) = word.split_once(':') {
        return (!has_test(suite, name)).then(|| format!("no test has this name: {word}"));
    }
    (!root().join(word).is_file()).then(|| format!("no file, nor a test: {word}"))
}

#[test]
fn tests_named_as_evidence_exist() {
    let tests = rust_tests();
    assert!(tests.len() > 1000, "the tests of the workspace are found");
    let mut faults = Vec::new();
    for (page, least) in PAGES {
        let rows = rows(page);
        assert!(rows.len() >= least, "{page} has {} rows", rows.len());
        for row in rows {
            let names_test = row.words.iter().any(|word| word.contains(':'));
            if !names_test && (page == PAGES[0].0 || row.state.starts_with("works")) {
                faults.push(format!("{}: no test is named", row.place));
            }
            let found = row.words.iter().filter_map(|word| fault(word, &tests));
            faults.extend(found.map(|fault| format!("{}: {fault}", row.place)));
        }
    }
    assert!(faults.is_empty(), "{} faults\n  {}", faults.len(), faults.join("\n  "));
}

#[test]
fn wrong_name_of_a_test_is_found() {
    let tests = rust_tests();
    for word in [
        "nw-tables::pit_full_insert_changes_nothing",
        "cli:test_cli.LocalCommands.test_doctor_names_fault_and_remedy",
        "conformance:mgmt/faces/null",
        "interop:python-ndn signed Interest over tcp",
        "interop:jndn producer over tcp, consumer over tcp",
        "page:filter_terms_must_all_match",
        "hostile:two UDP ports",
        "hostile:random bytes over udp",
        "vm:numa",
        "case:router/aggregation",
        "docs/performance.md",
    ] {
        assert_eq!(fault(word, &tests), None);
        assert!(fault(&format!("{word}x"), &tests).is_some(), "{word} with another end");
        assert!(fault(&word.replacen(['c', 'n', 'p'], "q", 1), &tests).is_some(), "{word}, begun");
    }
    for word in [
        "nw-wire::pit_full_insert_changes_nothing",
        "nw-faces::run_has_equal_lengths_except_last",
        "cli:test_cli.RunningRouter.test_doctor_names_fault_and_remedy",
        "tests/conformance",
    ] {
        assert!(fault(word, &tests).is_some(), "{word}");
    }
}

/// Returns whether a word is a path as documents write them, and no placeholder such as
/// `tests/NAME.rs`.
fn is_path(word: &str) -> bool {
    let parts: Vec<&str> = word.trim_end_matches('/').split('/').collect();
    let is_part = |part: &&str| {
        let is_placeholder = part.split('.').next().is_some_and(|stem| {
            stem.len() > 1 && stem.chars().all(|letter| letter.is_ascii_uppercase())
        });
        let known = ["README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SUMMARY"];
        let is_known = known.iter().any(|stem| part.starts_with(stem));
        let has_letters = part
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || ['.', '_', '-', '@'].contains(&letter));
        !part.is_empty() && has_letters && (is_known || !is_placeholder)
    };
    parts.len() > 1 && parts.iter().all(is_part)
}

/// The paths between back quotes in a document, with the numbers of their lines. Of words below no
/// folder of the project only those that end like a file; without generated folders.
fn paths_in(document: &str) -> Vec<(usize, String)> {
    const ENDINGS: [&str; 12] =
        [".rs", ".py", ".md", ".toml", ".sh", ".mjs", ".c", ".h", ".txt", ".graph", ".ts", ".json"];
    let (mut found, mut fenced) = (Vec::new(), false);
    for (number, line) in (1..).zip(text_of(document).lines()) {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for word in line.split('`').skip(1).step_by(2).filter(|word| is_path(word)) {
            let top = word.split('/').next().unwrap_or_default();
            let is_generated = top == "target" || word.contains("node_modules");
            let is_file = ENDINGS.iter().any(|ending| word.ends_with(ending));
            if !is_generated && (is_file || root().join(top).is_dir()) {
                found.push((number, word.to_owned()));
            }
        }
    }
    found
}

#[test]
fn paths_in_documents_exist() {
    // Documents shorten `crates/wire/src/lp.rs` to `wire/lp.rs`.
    let shorten = |path: &str| format!("/{path}").replace("/src/", "/").replace("/all/", "/");
    let files = files_below("");
    let shortened: Vec<String> = files.iter().map(|path| shorten(path)).collect();
    let (mut dead, mut count) = (Vec::new(), 0);
    for document in files.iter().filter(|path| path.ends_with(".md")) {
        let folder = root().join(document).parent().expect("a folder").to_owned();
        for (number, word) in paths_in(document) {
            let is_short = || shortened.iter().any(|path| path.ends_with(&shorten(&word)));
            let is_there = root().join(&word).exists()
                || folder.join(&word).exists()
                || !word.starts_with("crates/") && is_short();
            count += 1;
            if !is_there {
                dead.push(format!("{document}:{number}: {word}"));
            }
        }
    }
    assert!(count > 400, "{count} paths are found");
    assert!(dead.is_empty(), "{} paths lead nowhere\n  {}", dead.len(), dead.join("\n  "));
}
