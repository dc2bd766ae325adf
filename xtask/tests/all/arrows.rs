//! A crate depends on lower layers only; within a layer only where an arrow is named.
//! ARCHITECTURE.md draws the same.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeMap;

/// Lowest first.
const LAYERS: &[(u32, &[&str])] = &[
    (1, &["nw-name", "nw-packet-types", "nw-wire", "nw-report-kit"]),
    (2, &["nw-tables", "nw-trust", "nw-slot-table", "nw-pubsub"]),
    (
        3,
        &[
            "nw-element-api",
            "nw-elements",
            "nw-graph-language",
            "nw-link",
            "nw-manage",
            "nw-testkit",
        ],
    ),
    (4, &["nw-faces", "nw-kernel", "nw-api", "nw-control", "nw-tosca"]),
    (5, &["nw-router", "nw-pubsub-node", "nw-rest-api", "nw-graph", "nw-service", "nw-agent"]),
    (
        6,
        &[
            "nw-app",
            "nw-sim",
            "nw-balancer",
            "nw-manager",
            "nw-traffic",
            "nw-testbed",
            "nw-experiments",
            "nw-bench",
            "nw-image",
            "nw-kubernetes",
        ],
    ),
    (7, &["nw-cli", "nw-hosts"]),
];

/// Arrows within a layer: from, to.
const WITHIN: &[(&str, &str)] = &[
    ("nw-packet-types", "nw-name"),
    ("nw-wire", "nw-name"),
    ("nw-elements", "nw-element-api"),
    ("nw-graph-language", "nw-element-api"),
    ("nw-graph-language", "nw-elements"),
    ("nw-graph-language", "nw-link"),
    ("nw-link", "nw-element-api"),
    ("nw-manage", "nw-element-api"),
    ("nw-manage", "nw-elements"),
    ("nw-manage", "nw-graph-language"),
    ("nw-manage", "nw-link"),
    ("nw-testkit", "nw-element-api"),
    ("nw-control", "nw-api"),
    ("nw-rest-api", "nw-router"),
    ("nw-service", "nw-graph"),
    ("nw-service", "nw-rest-api"),
    ("nw-sim", "nw-app"),
    ("nw-balancer", "nw-app"),
    ("nw-kubernetes", "nw-manager"),
    ("nw-testbed", "nw-app"),
    ("nw-testbed", "nw-sim"),
    ("nw-experiments", "nw-testbed"),
    ("nw-experiments", "nw-app"),
    ("nw-experiments", "nw-sim"),
    ("nw-experiments", "nw-traffic"),
    ("nw-traffic", "nw-app"),
    ("nw-bench", "nw-traffic"),
    ("nw-bench", "nw-app"),
    ("nw-bench", "nw-testbed"),
    ("nw-bench", "nw-sim"),
    ("nw-bench", "nw-experiments"),
];

/// Crates without clock, socket, thread or async: what they may not depend on.
const PURE: &[&str] = &[
    "nw-name",
    "nw-packet-types",
    "nw-wire",
    "nw-report-kit",
    "nw-tables",
    "nw-trust",
    "nw-slot-table",
    "nw-pubsub",
    "nw-element-api",
    "nw-elements",
    "nw-graph-language",
    "nw-manage",
    "nw-tosca",
    "nw-control",
    "nw-testkit",
    "nw-link",
];
const IMPURE: &[&str] =
    &["tokio", "mio", "socket2", "rustix", "quinn-udp", "crossbeam-channel", "getrandom", "libc"];

fn layer(name: &str) -> Option<u32> {
    LAYERS.iter().find(|(_, crates)| crates.contains(&name)).map(|(layer, _)| *layer)
}

#[test]
fn arrows_point_downwards() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        if name == "xtask" {
            continue;
        }
        let Some(own) = layer(name) else {
            faults.push(format!("{name} has no layer: add it to LAYERS and to ARCHITECTURE.md"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal) {
            if PURE.contains(&name) && IMPURE.contains(&dependency.name.as_str()) {
                faults.push(format!("{name} is pure and may not depend on {}", dependency.name));
            }
            let Some(other) = layer(&dependency.name) else { continue };
            if other > own || other == own && !WITHIN.contains(&(name, dependency.name.as_str())) {
                faults.push(format!(
                    "{name} (layer {own}) may not depend on {} (layer {other})",
                    dependency.name
                ));
            }
        }
    }
    assert!(faults.is_empty(), "arrows that point upwards:\n  {}", faults.join("\n  "));
}

#[test]
fn pure_crates_say_so() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let mut faults = BTreeMap::new();
    for package in metadata.packages.iter().filter(|p| PURE.contains(&p.name.as_str())) {
        let root = package.manifest_path.parent().expect("a crate has a folder").join("src/lib.rs");
        let text = std::fs::read_to_string(&root).expect("a crate has a lib.rs");
        // `tables` lifts the rule for one module (decision 0003), so it denies instead of
        // forbidding.
        if !text.contains("#![forbid(unsafe_code)]") && !text.contains("#![deny(unsafe_code)]") {
            faults.insert(package.name.to_string(), "unsafe code is not forbidden");
        }
    }
    assert!(faults.is_empty(), "{faults:?}");
}
