//! Mermaid flow charts, which GitHub, GitLab and many editors display.

use super::boxes_and_links;
use super::services::Services;
use crate::{Graph, GraphFile};
use std::collections::BTreeSet;
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

/// Returns a Mermaid flow chart of the services of a network, in a frame for each host. `None` if
/// the file says nothing about a network, or its graph can't be partitioned.
pub fn services_mermaid(file: &GraphFile) -> Option<String> {
    let services = Services::new(file)?;
    let mut text = String::from("flowchart LR\n");
    let box_of = |at: usize| {
        let block = &services.blocks[at];
        let [open, close] = if block.is_face { ["([", "])"] } else { ["[", "]"] };
        let (name, label) = (escape(&block.name), escape(&block.label));
        format!("n{at}{open}\"{name}<br><small>{label}</small>\"{close}\n")
    };
    let hosts: BTreeSet<&String> = services.hosts.iter().flatten().collect();
    for (number, host) in hosts.into_iter().enumerate() {
        // Writing to a string can't fail.
        let _ = writeln!(text, "    subgraph h{number} [\"{}\"]", escape(host));
        let own =
            (0..services.blocks.len()).filter(|at| services.hosts[*at].as_ref() == Some(host));
        own.for_each(|at| text.push_str(&format!("        {}", box_of(at))));
        text.push_str("    end\n");
    }
    let outside = (0..services.blocks.len()).filter(|at| services.hosts[*at].is_none());
    outside.for_each(|at| text.push_str(&format!("    {}", box_of(at))));
    for link in &services.links {
        let _ = writeln!(text, "    n{} --> n{}", link.from.0, link.to.0);
    }
    Some(text)
}

fn escape(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '"' | '<' | '>' | '&' | '#' | ';' => format!("#{};", c as u32),
            c => c.to_string(),
        })
        .collect()
}
