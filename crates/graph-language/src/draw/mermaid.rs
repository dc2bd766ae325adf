//! Mermaid flow charts, which GitHub, GitLab and many editors display.

use super::boxes_and_links;
use crate::Graph;
use std::fmt::Write;

/// Returns a Mermaid flow chart of a graph.
pub fn mermaid(graph: &Graph) -> String {
    let (blocks, links) = boxes_and_links(graph);
    let mut text = String::from("flowchart LR\n");
    for (at, block) in blocks.iter().enumerate() {
        let [open, close] = if block.is_face { ["([", "])"] } else { ["[", "]"] };
        let what = match block.label.is_empty() || block.label == block.name {
            true => String::new(),
            false => format!("<br><small>{}</small>", escape(&block.label)),
        };
        // Writing to a string can't fail.
        let _ = writeln!(text, "    n{at}{open}\"{}{what}\"{close}", escape(&block.name));
    }
    for link in links {
        let (from, to) = (&blocks[link.from.0], &blocks[link.to.0]);
        let label = match (from.outs[link.from.1], to.ins[link.to.1]) {
            ("", "") => String::new(),
            (port, "") | ("", port) => format!("|{port}|"),
            (port, in_port) if port == in_port => format!("|{port}|"),
            (port, in_port) => format!("|{port} → {in_port}|"),
        };
        let _ = writeln!(text, "    n{} -->{label} n{}", link.from.0, link.to.0);
    }
    text
}

fn escape(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '"' | '<' | '>' | '&' | '#' | ';' => format!("#{};", c as u32),
            c => c.to_string(),
        })
        .collect()
}
