//! Drawings of a graph: on the terminal, as SVG, as Mermaid text.
//!
//! | file | what |
//! |---|---|
//! | `place.rs` | boxes in columns, from where packets come to where they leave |
//! | `route.rs` | a way for every connection, around boxes, on a grid of characters |
//! | `terminal.rs`, `svg.rs` | the same grid as text and as a picture |
//! | `mermaid.rs` | text from which others draw |

mod mermaid;
mod place;
mod route;
mod svg;
mod terminal;

pub use mermaid::mermaid;

use crate::{From, Graph, To};
use place::Placed;
use route::Wire;

/// Boxes that can be drawn.
pub const BOXES_MAX: usize = 100;

/// More than can be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} boxes are too many for a drawing of ours, which has at most {BOXES_MAX}: `--mermaid` writes any number"
)]
pub struct TooLarge(usize);

/// A box to be placed: an element, a face, or all faces.
#[derive(Clone, Debug)]
struct Block {
    name: String,
    /// What it is: an element, or the address of a face.
    what: String,
    ins: Vec<&'static str>,
    outs: Vec<&'static str>,
    is_face: bool,
}

/// From a block's port to a block's port, by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    from: (usize, usize),
    to: (usize, usize),
}

/// Boxes and connections. Each face is a box where packets come, and another where they leave.
fn blocks(graph: &Graph) -> (Vec<Block>, Vec<Link>) {
    let element = |node: &crate::Node| Block {
        name: node.name.clone(),
        what: node.entry.name.to_owned(),
        ins: node.entry.ins.iter().map(|port| port.name).collect(),
        outs: node.entry.outs.iter().map(|port| port.name).collect(),
        is_face: false,
    };
    let mut blocks: Vec<Block> = graph.nodes.iter().map(element).collect();
    let mut known: Vec<(Option<From>, Option<To>, usize)> = Vec::new();
    let mut face = |blocks: &mut Vec<Block>, from: Option<From>, to: Option<To>| {
        if let Some((.., at)) = known.iter().find(|(a, b, _)| (*a, *b) == (from, to)) {
            return *at;
        }
        let at = match (from, to) {
            (Some(From::Face(at)), _) | (_, Some(To::Face(at))) => Some(at),
            _ => None,
        };
        let name = at.map_or(crate::model::FACES.to_owned(), |at| graph.faces[at].name.clone());
        let what = at.and_then(|at| graph.faces[at].uri.clone()).unwrap_or_default();
        let (ins, outs) = if from.is_some() { (Vec::new(), Vec::new()) } else { (vec![""], Vec::new()) };
        blocks.push(Block { name, what, ins, outs, is_face: true });
        known.push((from, to, blocks.len() - 1));
        blocks.len() - 1
    };
    let mut links = Vec::new();
    for connection in &graph.connections {
        let from = match connection.from {
            From::Port(node, port) => (node, usize::from(port)),
            from => {
                // One way out for each of its connections.
                let block = face(&mut blocks, Some(from), None);
                blocks[block].outs.push("");
                (block, blocks[block].outs.len() - 1)
            }
        };
        let to = match connection.to {
            To::Port(node, port) => (node, usize::from(port)),
            to => (face(&mut blocks, None, Some(to)), 0),
        };
        links.push(Link { from, to });
    }
    (blocks, links)
}

/// A drawing on a grid of characters.
struct Drawing {
    blocks: Vec<Block>,
    placed: Vec<Placed>,
    wires: Vec<Wire>,
    width: usize,
    height: usize,
}

fn drawing(graph: &Graph) -> Result<Drawing, TooLarge> {
    let (blocks, links) = blocks(graph);
    if blocks.len() > BOXES_MAX {
        return Err(TooLarge(blocks.len()));
    }
    // Where there is too little room for all ways, more is made.
    for room in 0.. {
        let (placed, width, height) = place::place(&blocks, &links, room);
        if let Some(wires) = route::route(&placed, &links, width, height) {
            return Ok(Drawing { blocks, placed, wires, width, height });
        }
        if room == ROOM_MAX {
            break;
        }
    }
    Err(TooLarge(blocks.len()))
}

const ROOM_MAX: usize = 12;

/// For a terminal, with lines and corners.
///
/// # Errors
/// When there are more boxes than can be drawn.
pub fn terminal(graph: &Graph) -> Result<String, TooLarge> {
    drawing(graph).map(|drawing| terminal::draw(&drawing))
}

/// A picture.
///
/// # Errors
/// When there are more boxes than can be drawn.
pub fn svg(graph: &Graph) -> Result<String, TooLarge> {
    drawing(graph).map(|drawing| svg::draw(&drawing))
}
