//! Drawings of a graph: for the terminal, as SVG, as Mermaid text.
//!
//! | file | content |
//! |---|---|
//! | `layout.rs` | positions of boxes, in columns from input to output |
//! | `places.rs` | places of elements for an editor |
//! | `route.rs` | a path around boxes for every connection, on a grid of characters |
//! | `terminal.rs`, `svg.rs` | the grid as text and as a picture |
//! | `mermaid.rs` | a flow chart for Mermaid to draw |
//! | `services.rs` | the services of a network as boxes |

mod layout;
mod mermaid;
mod places;
mod route;
mod services;
mod svg;
mod terminal;

pub use mermaid::{mermaid, services_mermaid};
pub use places::{PLACED_MAX, PlacedBox, PlacedLink, ends, places};

use crate::{Graph, GraphFile, Source, Target};
use layout::BoxArea;
use route::Wire;

/// Maximum number of boxes in a drawing.
pub const BOXES_MAX: usize = 100;

/// The graph has too many boxes to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graph has {0} boxes, and at most {BOXES_MAX} can be drawn: `--mermaid` has no limit")]
pub struct TooManyBoxes(usize);

/// A box of the drawing: an element, a face, or all faces.
#[derive(Clone, Debug)]
struct Block {
    name: String,
    /// Second line: the element's name in the catalogue, or the URI of a face.
    label: String,
    ins: Vec<&'static str>,
    outs: Vec<&'static str>,
    is_face: bool,
}

/// A connection between ports of two blocks: (block, port) to (block, port).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    from: (usize, usize),
    to: (usize, usize),
}

/// Returns the boxes and connections of a graph. Each face is one box where packets enter, and
/// another where they leave.
fn boxes_and_links(graph: &Graph) -> (Vec<Block>, Vec<Link>) {
    let element = |node: &crate::Node| Block {
        name: node.name.clone(),
        label: node.entry.name.to_owned(),
        ins: node.entry.ins.iter().map(|port| port.name).collect(),
        outs: node.entry.outs.iter().map(|port| port.name).collect(),
        is_face: false,
    };
    let mut blocks: Vec<Block> = graph.nodes.iter().map(element).collect();
    let mut known: Vec<(Option<Source>, Option<Target>, usize)> = Vec::new();
    let mut face = |blocks: &mut Vec<Block>, from: Option<Source>, to: Option<Target>| {
        if let Some((.., at)) = known.iter().find(|(a, b, _)| (*a, *b) == (from, to)) {
            return *at;
        }
        let at = match (from, to) {
            (Some(Source::Face(at)), _) | (_, Some(Target::Face(at))) => Some(at),
            _ => None,
        };
        let name = at.map_or(crate::model::FACES.to_owned(), |at| graph.faces[at].name.clone());
        let label = at.and_then(|at| graph.faces[at].uri.clone()).unwrap_or_default();
        let (ins, outs) =
            if from.is_some() { (Vec::new(), Vec::new()) } else { (vec![""], Vec::new()) };
        blocks.push(Block { name, label, ins, outs, is_face: true });
        known.push((from, to, blocks.len() - 1));
        blocks.len() - 1
    };
    let mut links = Vec::new();
    for connection in &graph.connections {
        let from = match connection.from {
            Source::Port(node, port) => (node, usize::from(port)),
            from => {
                // One output port per connection.
                let block = face(&mut blocks, Some(from), None);
                blocks[block].outs.push("");
                (block, blocks[block].outs.len() - 1)
            }
        };
        let to = match connection.to {
            Target::Port(node, port) => (node, usize::from(port)),
            to => (face(&mut blocks, None, Some(to)), 0),
        };
        links.push(Link { from, to });
    }
    (blocks, links)
}

/// A drawing on a grid of characters.
struct Drawing {
    blocks: Vec<Block>,
    areas: Vec<BoxArea>,
    wires: Vec<Wire>,
    width: usize,
    height: usize,
}

fn drawing(graph: &Graph) -> Result<Drawing, TooManyBoxes> {
    let (blocks, links) = boxes_and_links(graph);
    arrange(blocks, links)
}

fn arrange(blocks: Vec<Block>, links: Vec<Link>) -> Result<Drawing, TooManyBoxes> {
    if blocks.len() > BOXES_MAX {
        return Err(TooManyBoxes(blocks.len()));
    }
    // Adds padding until every connection has a path.
    for padding in 0.. {
        let (areas, width, height) = layout::layout(&blocks, &links, padding);
        if let Some(wires) = route::route(&areas, &links, width, height) {
            return Ok(Drawing { blocks, areas, wires, width, height });
        }
        if padding == PADDING_MAX {
            break;
        }
    }
    Err(TooManyBoxes(blocks.len()))
}

const PADDING_MAX: usize = 12;

/// Draws a graph as text with box-drawing characters.
///
/// # Errors
/// If the graph has more than [`BOXES_MAX`] boxes.
pub fn terminal(graph: &Graph) -> Result<String, TooManyBoxes> {
    drawing(graph).map(|drawing| terminal::draw(&drawing))
}

/// Draws a graph as an SVG document.
///
/// # Errors
/// If the graph has more than [`BOXES_MAX`] boxes.
pub fn svg(graph: &Graph) -> Result<String, TooManyBoxes> {
    drawing(graph).map(|drawing| svg::draw(&drawing))
}

/// Draws the services of a network as text. `None` if the file says nothing about a network, or its
/// graph can't be partitioned.
///
/// # Errors
/// If the network has more than [`BOXES_MAX`] boxes.
pub fn services_terminal(file: &GraphFile) -> Option<Result<String, TooManyBoxes>> {
    let services = services::Services::new(file)?;
    let drawing = arrange(services.blocks, services.links);
    Some(drawing.map(|drawing| terminal::draw(&drawing)))
}

/// Draws the services of a network as an SVG document. `None` if the file says nothing about a
/// network, or its graph can't be partitioned.
///
/// # Errors
/// If the network has more than [`BOXES_MAX`] boxes.
pub fn services_svg(file: &GraphFile) -> Option<Result<String, TooManyBoxes>> {
    let services = services::Services::new(file)?;
    let drawing = arrange(services.blocks, services.links);
    Some(drawing.map(|drawing| svg::draw(&drawing)))
}
