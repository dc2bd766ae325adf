//! Topologies as text and as a picture.

use super::{Edge, Topology};
use nw_report_kit::page::escape;
use std::fmt::Write;

/// Returns the topology as sections of a scenario.
pub fn toml(topology: &Topology) -> String {
    let mut out = String::new();
    let degrees = topology.degrees();
    for (node, _) in topology.nodes.iter().zip(&degrees).filter(|(_, degree)| **degree == 0) {
        let _ = write!(out, "[[node]]\nname = {:?}\n\n", node.name);
    }
    for link in &topology.links {
        let name = |end: u32| &topology.nodes[end as usize].name;
        let _ =
            writeln!(out, "[[link]]\nfrom = {:?}\nto = {:?}", name(link.ends.0), name(link.ends.1));
        let Edge { delay_ns, rate_bps, queue_packets, loss_burst, cost, .. } = link;
        let decimal = |value: &Option<u64>, unit: f64| value.map(|value| value as f64 / unit);
        let fields = [
            ("delay_ms", decimal(delay_ns, 1e6)),
            ("rate_mbps", decimal(rate_bps, 1e6)),
            ("queue_packets", queue_packets.map(f64::from)),
            ("queue_kib", decimal(&link.queue_bytes, 1024.0)),
            ("loss", link.loss_ppb.map(|ppb| f64::from(ppb) / 1e9)),
            ("loss_burst", loss_burst.map(f64::from)),
            ("cost", cost.map(f64::from)),
        ];
        for (key, value) in fields.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            let _ = writeln!(out, "{key} = {value}");
        }
        out.push('\n');
    }
    out
}

/// Returns the topology in the DOT language of Graphviz.
pub fn dot(topology: &Topology) -> String {
    let mut out = String::from("graph topology {\n");
    for node in &topology.nodes {
        let _ = writeln!(out, "  {:?};", node.name);
    }
    for link in &topology.links {
        let name = |end: u32| &topology.nodes[end as usize].name;
        let label = link
            .delay_ns
            .map_or(String::new(), |ns| format!(" [label=\"{} ms\"]", ns as f64 / 1e6));
        let _ = writeln!(out, "  {:?} -- {:?}{label};", name(link.ends.0), name(link.ends.1));
    }
    out.push_str("}\n");
    out
}

const SIDE: f64 = 560.0;
const MARGIN: f64 = 34.0;
/// Above this number of nodes, names are not drawn: they would overlap.
const NAMED_MAX: usize = 60;

/// Returns the topology as SVG; nodes without a position are on a circle. `load` returns the
/// thickness of a link, from 0 to 1.
pub fn svg(topology: &Topology, load: impl Fn(usize) -> f64) -> String {
    let count = topology.nodes.len().max(1);
    let at = |number: usize| {
        let (x, y) = topology.nodes[number].position.unwrap_or_else(|| {
            let angle = core::f64::consts::TAU * number as f64 / count as f64;
            (0.5 + 0.5 * angle.sin(), 0.5 - 0.5 * angle.cos())
        });
        (MARGIN + x * (SIDE - 2.0 * MARGIN), MARGIN + y * (SIDE - 2.0 * MARGIN))
    };
    let mut out = format!(
        "<svg viewBox=\"0 0 {SIDE} {SIDE}\" role=\"img\" aria-label=\"topology\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    for (number, link) in topology.links.iter().enumerate() {
        let ((x1, y1), (x2, y2)) = (at(link.ends.0 as usize), at(link.ends.1 as usize));
        let load = load(number).clamp(0.0, 1.0);
        let (width, colour) = (1.0 + 4.0 * load, if load > 0.0 { "#0072b2" } else { "#bbb" });
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width:.1}\"/>"
        );
    }
    let radius = if count <= NAMED_MAX { 5.0 } else { 2.0 };
    for (number, node) in topology.nodes.iter().enumerate() {
        let (x, y) = at(number);
        let _ =
            write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"#d55e00\"/>");
        if count <= NAMED_MAX {
            let _ = write!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\">{}</text>",
                y - 8.0,
                escape(&node.name)
            );
        }
        out.push('\n');
    }
    out.push_str("</svg>\n");
    out
}
