//! The target for graph files. Replayed by `crates/graph/tests/all/corpus.rs`.

use nw_element_api::Value;
use nw_graph::GraphFile;
use nw_graph::check::check;

/// Parses and checks a graph file: accepted, or refused with problems on lines of the text. Numbers
/// are removed before the check, because they may request large tables.
pub fn graph(bytes: &[u8]) -> Result<(), &'static str> {
    let Ok(text) = core::str::from_utf8(bytes) else { return Err("refused") };
    let (mut file, problems) = GraphFile::parse(text);
    let lines = text.lines().count() as u32 + 1;
    for problem in &problems {
        assert!(problem.position.line <= lines, "{problem}: there are {lines} lines");
        assert!(!problem.message.is_empty() && !problem.remedy.is_empty());
    }
    file.graph.nodes.truncate(16);
    let nodes = file.graph.nodes.len();
    for node in &mut file.graph.nodes {
        node.parameters.0.retain(|(_, value)| matches!(value, Value::Text(_)));
        node.parameter_positions.clear();
    }
    file.graph.connections.retain(|connection| {
        let from = !matches!(connection.from, nw_graph::Source::Port(node, _) if node >= nodes);
        from && !matches!(connection.to, nw_graph::Target::Port(node, _) if node >= nodes)
    });
    let check_problems = check(&file.graph);
    if problems.is_empty() && check_problems.is_empty() { Ok(()) } else { Err("refused") }
}
