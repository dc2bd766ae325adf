//! Documents to targets: the example networks, scaled and defended; every graph text must run.

use nw_graph_language::GraphFile;
use nw_manage::target::{Countermeasure, Decisions, Registration};
use nw_manage::{Document, InstanceId, Target, expand};
use std::path::Path;

fn example(name: &str) -> Document {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/networks");
    let text = std::fs::read_to_string(path.join(format!("{name}.graph"))).expect("text");
    Document::read(name, name, &text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn expanded(document: &Document, decisions: &Decisions) -> Target {
    let target = expand(document, decisions, Path::new("/run/nw/net")).expect("a target");
    for instance in &target.instances {
        if let Err(problems) = GraphFile::read(&instance.id.name, &instance.graph) {
            panic!("{problems}\n{}", instance.graph);
        }
    }
    target
}

fn replicas(counts: &[(&str, u32)]) -> Decisions {
    let replicas = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Decisions { replicas, ..Decisions::default() }
}

#[test]
fn show() {
    for name in ["chain", "campus"] {
        let document = example(name);
        for counts in [vec![], vec![("br", 2), ("br1", 2)]] {
            let target = expanded(&document, &replicas(&counts));
            for instance in &target.instances {
                println!("== {} depth {}\n{}", instance.id, instance.depth, instance.graph);
            }
        }
    }
}
