//! Text from which Mermaid draws: in GitHub, GitLab and many editors as it stands.

use super::blocks;
use crate::Graph;
use std::fmt::Write;

/// A flow chart.
pub fn mermaid(graph: &Graph) -> String {
    let (blocks, links) = blocks(graph);
    let mut text = String::from("flowchart LR\n");
    for (at, block) in blocks.iter().enumerate() {
        let [open, close] = if block.is_face { ["([", "])"] } else { ["[", "]"] };
        let what = match block.what.is_empty() || block.what == block.name {
            true => String::new(),
            false => format!("<br><small>{}</small>", escape(&block.what)),
        };
        // A string takes all that is written.
        let _ = writeln!(text, "    n{at}{open}\"{}{what}\"{close}", escape(&block.name));
    }
    for link in links {
        let (from, to) = (&blocks[link.from.0], &blocks[link.to.0]);
        let label = match (from.outs[link.from.1], to.ins[link.to.1]) {
            ("", "") => String::new(),
            (port, "") | ("", port) => format!("|{port}|"),
            (port, same) if port == same => format!("|{port}|"),
            (port, other) => format!("|{port} → {other}|"),
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
