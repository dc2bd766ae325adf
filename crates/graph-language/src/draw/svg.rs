//! Draws the grid as SVG, scaled.

use super::layout::BoxArea;
use super::route::Wire;
use super::{Block, Drawing};
use std::fmt::{Result, Write};

/// Width and height of a cell, in pixels.
const X: f64 = 8.0;
const Y: f64 = 18.0;
/// Radius of corners.
const CORNER_RADIUS: f64 = 6.0;

/// Colours are literal: not every viewer supports CSS variables.
const STYLE: &str = "\
text { font: 13px 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #1d2733; }\n\
.name { font-weight: bold; } .what { fill: #5b6876; font-size: 12px; } .end { text-anchor: end; }\n\
.paper { fill: #ffffff; } .box { fill: #f2f5f9; stroke: #44627f; } .face { fill: #dce9f6; }\n\
.wire { fill: none; stroke: #44627f; stroke-width: 1.5; } .head, .dot { fill: #44627f; }\n\
@media (prefers-color-scheme: dark) {\n\
text { fill: #e6ebf1; } .what { fill: #9aa7b5; } .paper { fill: #14191f; } .box { fill: #212a34; stroke: #8fb0d0; } .face { fill: #1d3145; }\n\
.wire { stroke: #8fb0d0; } .head, .dot { fill: #8fb0d0; }\n\
}\n";

pub(super) fn draw(drawing: &Drawing) -> String {
    let mut svg = String::new();
    // Writing to a string can't fail.
    let _ = write(drawing, &mut svg);
    svg
}

fn write(drawing: &Drawing, svg: &mut String) -> Result {
    let (width, height) = (drawing.width as f64 * X, drawing.height as f64 * Y);
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">"
    )?;
    writeln!(svg, "<style>\n{STYLE}</style>")?;
    writeln!(svg, "<rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>")?;
    for wire in &drawing.wires {
        draw_wire(wire, svg)?;
    }
    for (block, area) in drawing.blocks.iter().zip(&drawing.areas) {
        draw_block(block, area, svg)?;
    }
    writeln!(svg, "</svg>")
}

/// Returns the centre of a cell, in pixels.
fn center((x, y): (usize, usize)) -> (f64, f64) {
    ((x as f64 + 0.5) * X, (y as f64 + 0.5) * Y)
}

fn draw_wire(wire: &Wire, svg: &mut String) -> Result {
    let mut points: Vec<(f64, f64)> = wire.points.iter().map(|point| center(*point)).collect();
    // From the edge of one box to the edge of the other.
    points[0].0 -= X;
    points[0].0 += 0.5 * X;
    let last = points.len() - 1;
    if wire.reaches_port {
        points[last].0 += 0.5 * X;
    }
    let mut path = format!("M{} {}", points[0].0, points[0].1);
    for at in 1..points.len() {
        let ((x, y), previous) = (points[at], points[at - 1]);
        let Some(next) = points.get(at + 1) else {
            write!(path, "L{x} {y}")?;
            break;
        };
        let toward = |(to_x, to_y): (f64, f64)| {
            let len = (to_x - x).abs().max((to_y - y).abs()).max(1.0);
            let part = (CORNER_RADIUS / len).min(0.5);
            (x + (to_x - x) * part, y + (to_y - y) * part)
        };
        let (from, to) = (toward(previous), toward(*next));
        write!(path, "L{} {}Q{x} {y} {} {}", from.0, from.1, to.0, to.1)?;
    }
    writeln!(svg, "<path class=\"wire\" d=\"{path}\"/>")?;
    let (x, y) = points[last];
    match wire.reaches_port {
        true => writeln!(svg, "<path class=\"head\" d=\"M{x} {y}l-8 -4.5v9z\"/>"),
        false => writeln!(svg, "<circle class=\"dot\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>"),
    }
}

fn draw_block(block: &Block, area: &BoxArea, svg: &mut String) -> Result {
    let (x, y) = (area.x as f64 * X, area.y as f64 * Y + 0.25 * Y);
    let (width, height) = (area.width as f64 * X, (area.height as f64 - 0.5) * Y);
    let (class, round) = if block.is_face { ("box face", 12) } else { ("box", 4) };
    writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>"
    )?;
    let baseline = |row: usize| (row as f64 + 0.5) * Y + 4.5;
    let (left, right) = (x + X, x + width - X);
    writeln!(
        svg,
        "<text class=\"name\" x=\"{left}\" y=\"{}\">{}</text>",
        baseline(area.y + 1),
        escape(&block.name)
    )?;
    if !block.label.is_empty() && block.label != block.name {
        let what = escape(&block.label);
        writeln!(
            svg,
            "<text class=\"what\" x=\"{left}\" y=\"{}\">{what}</text>",
            baseline(area.y + 2)
        )?;
    }
    for (port, name) in block.ins.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        writeln!(svg, "<text x=\"{left}\" y=\"{}\">{name}</text>", baseline(area.entry(port).1))?;
    }
    for (port, name) in block.outs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let y = baseline(area.exit(port).1);
        writeln!(svg, "<text class=\"end\" x=\"{right}\" y=\"{y}\">{name}</text>")?;
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
