//! `bounds.toml` is the one place of each bound: documents state the same numbers, and each key is
//! read by a benchmark, an experiment or a test.

use nw_report_kit::bounds::bounds;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

/// Returns the row and the number of each bound.
fn table() -> Vec<(&'static str, f64)> {
    let row = |key: &'static str| key.rsplit_once('.').expect("a row, a dot, a unit").0;
    bounds().iter().map(|(key, bound)| (row(key), bound.limit.value())).collect()
}

/// Returns the numbers of a cell, such as `<= 1.0, and below Zenoh` or `640; 3,072`.
fn numbers(cell: &str) -> Vec<f64> {
    let text = cell.replace(',', "");
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    parts.filter_map(|part| part.trim_end_matches('.').parse().ok()).collect()
}

/// Returns the numbers in the columns "bound" of a page, by row. A cell without a name belongs to the
/// row above.
fn documented(page: &str) -> BTreeMap<String, Vec<f64>> {
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut column, mut row) = (None, String::new());
    for line in page.lines() {
        let Some(cells) = line.strip_prefix('|').map(|line| line.split('|').collect::<Vec<_>>())
        else {
            column = None;
            continue;
        };
        let is_bound = |cell: &&str| cell.trim() == "bound";
        if let Some(at) = cells.iter().position(is_bound) {
            column = Some(at);
        } else if let Some(at) = column {
            let name = cells[0].trim().trim_matches('`');
            if !name.is_empty() {
                name.clone_into(&mut row);
            }
            found.entry(row.clone()).or_default().extend(numbers(cells[at]));
        }
    }
    found
}

/// Returns the documented row that a row of the table belongs to: the longest one.
fn owner<'a>(row: &str, rows: &'a BTreeMap<String, Vec<f64>>) -> Option<&'a str> {
    let owns = |name: &&str| {
        let name = name.trim_end_matches("/*");
        row == name || row.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
    };
    rows.keys().map(String::as_str).filter(owns).max_by_key(|name| name.len())
}

#[test]
fn documented_bounds_are_those_of_the_table() {
    let page = fs::read_to_string(root().join("docs/performance.md")).expect("the page");
    let documented = documented(&page);
    assert!(documented.len() > 50, "the page's tables are found");
    let mut expected: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (row, number) in table() {
        if let Some(name) = owner(row, &documented) {
            expected.entry(name).or_default().insert(number.to_string());
        }
    }
    let mut faults = Vec::new();
    for (row, numbers) in &documented {
        let stated: BTreeSet<String> = numbers.iter().map(f64::to_string).collect();
        let of_table = expected.remove(row.as_str()).unwrap_or_default();
        if stated != of_table {
            faults.push(format!("{row}: the page has {stated:?}, bounds.toml {of_table:?}"));
        }
    }
    assert!(faults.is_empty(), "docs/performance.md:\n  {}", faults.join("\n  "));
}

/// Reads all programs and tests below a folder into one text.
fn collect(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | "node_modules" | "__pycache__") {
                collect(&path, text);
            }
        } else if [".rs", ".py", ".mjs"].iter().any(|end| name.ends_with(end)) {
            text.push_str(&fs::read_to_string(&path).expect("a text"));
        }
    }
}

/// Returns the text of all readers of the table.
fn readers() -> String {
    let mut text = String::new();
    for folder in ["crates/bench/src", "crates/experiments/src", "crates/manage/tests", "tests"] {
        collect(&root().join(folder), &mut text);
    }
    text
}

#[test]
fn every_bound_is_read_somewhere() {
    let text = readers();
    let unread: Vec<_> = bounds()
        .keys()
        .filter(|key| {
            let (row, unit) = key.rsplit_once('.').expect("a row, a dot, a unit");
            // A benchmark's row finds its bound by name and unit; experiments and the map's test
            // put keys together.
            let row = row.trim_end_matches('*').trim_end_matches("/download");
            let unit = unit.trim_end_matches(|c: char| c.is_ascii_digit());
            let last = unit.rsplit('_').next().unwrap_or(unit);
            let is_row = text.contains(&format!("\"{row}")) && text.contains(unit)
                || row == "lipsin/veth" && text.contains(last);
            !text.contains(key.as_str()) && !is_row
        })
        .filter(|key| !key.starts_with("page/map_of_"))
        .collect();
    assert!(unread.is_empty(), "read by no code: {unread:?}");
}

#[test]
fn keys_that_are_named_exist() {
    let text = readers();
    let mut unknown = Vec::new();
    for call in ["Check::bound(\"", "bounds.check(self, \"", "BOUNDS[\""] {
        let named = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
        unknown.extend(named.filter(|key| !bounds().contains_key(*key)).map(str::to_owned));
    }
    assert!(unknown.is_empty(), "bounds.toml has no {unknown:?}");
}
