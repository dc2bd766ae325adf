//! Writes a graph as a graph file. Reading the text back gives the same graph.

use crate::model::{Face, Graph, Node};
use nw_element_api::{LinkType, Scope};
use std::fmt::Write;

/// Returns the text of a graph file for `graph`.
pub fn write(graph: &Graph) -> String {
    let mut text = String::new();
    graph.faces.iter().for_each(|face| write_face(&mut text, face));
    text.push('\n');
    graph.nodes.iter().for_each(|node| write_node(&mut text, node));
    text.push('\n');
    for connection in &graph.connections {
        let (from, to) = (graph.source_name(connection.from), graph.target_name(connection.to));
        text.push_str(&format!("{from} -> {to}\n"));
    }
    text
}

fn write_face(text: &mut String, face: &Face) {
    let _ = write!(text, "face {}", face.name);
    if let Some(uri) = &face.uri {
        let _ = write!(text, " {} {uri}", if face.is_listener { "listens" } else { "=" });
    }
    if face.is_single_peer {
        text.push_str(" single");
    }
    text.push_str(match face.info.scope {
        Scope::Local => " local",
        Scope::NonLocal => " non-local",
    });
    text.push_str(match face.info.link_type {
        LinkType::PointToPoint => "",
        LinkType::MultiAccess => " multi-access",
        LinkType::AdHoc => " ad-hoc",
    });
    if face.is_default {
        text.push_str(" default");
    }
    text.push('\n');
}

fn write_node(text: &mut String, node: &Node) {
    let _ = write!(text, "{} = {}", node.name, node.entry.name);
    let parameters: Vec<String> =
        node.parameters.0.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if !parameters.is_empty() {
        let _ = write!(text, "({})", parameters.join(", "));
    }
    text.push('\n');
}
