//! What the project depends on: licences, and crates that are there twice.

use cargo_metadata::{CargoOpt, MetadataCommand};
use std::collections::BTreeMap;

/// Licences that suit a program under Apache-2.0 or MIT. An expression passes if one alternative of
/// each of its parts is here.
const LICENCES: [&str; 13] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "CC0-1.0",
    "Unicode-3.0",
    "Unlicense",
    "BSL-1.0",
    // A list of root certificates, which `kube` has on systems other than Linux.
    "CDLA-Permissive-2.0",
];

/// Crates that may be there in two versions, because others depend on the older one.
const DOUBLE: [&str; 7] = [
    // `kube` has a newer one; the default program has only the older one.
    "base64",
    // `crossterm` has the older one.
    "signal-hook",
    // Procedural macros of others have the older one; it is not in the program.
    "syn",
    // Parts of `aws-lc-rs`, `yasna` and `ring` that are optional and not in the program: the list
    // of packages names them all the same.
    "bit-vec",
    "getrandom",
    "untrusted",
    "windows-sys",
];

/// Whether an SPDX expression is satisfied by the licences above.
fn is_allowed(expression: &str) -> bool {
    let alternative = |part: &str| {
        part.split(" OR ")
            .any(|licence| LICENCES.contains(&licence.trim().trim_matches(['(', ')'])))
    };
    expression.replace('/', " OR ").split(" AND ").all(alternative)
}

#[test]
fn licences_of_dependencies_are_allowed() {
    let metadata =
        MetadataCommand::new().features(CargoOpt::AllFeatures).exec().expect("cargo metadata");
    let refused: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| !package.license.as_deref().is_some_and(is_allowed))
        .map(|package| format!("{} {}: {:?}", package.name, package.version, package.license))
        .collect();
    assert!(refused.is_empty(), "licences to look at: {refused:#?}");
}

#[test]
fn crates_are_there_once() {
    let metadata = MetadataCommand::new().exec().expect("cargo metadata");
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in &metadata.packages {
        versions.entry(package.name.as_str()).or_default().push(package.version.to_string());
    }
    let doubles: Vec<_> = versions
        .into_iter()
        .filter(|(name, found)| found.len() > 1 && !DOUBLE.contains(name))
        .collect();
    assert!(doubles.is_empty(), "in two versions: {doubles:#?}");
}
