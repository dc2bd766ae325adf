//! Places of elements and faces for an editor: the layout of all drawings, without paths.

use super::{boxes_and_links, layout};
use crate::model::FACES;
use crate::{Connection, Graph, Position, Source, Target};

/// Most boxes that are placed.
pub const PLACED_MAX: usize = 500;

/// An element or face with its place, in characters of the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedBox {
    /// Name of the element or face; `faces` for all faces.
    pub name: String,
    /// Element of the catalogue, or address of the face.
    pub label: String,
    /// Whether it is a face. A face is drawn where packets enter, and where they leave.
    pub is_face: bool,
    /// Input ports; one without a name for a face.
    pub ins: Vec<&'static str>,
    /// Output ports; one without a name for each connection of a face.
    pub outs: Vec<&'static str>,
    /// Left edge.
    pub x: usize,
    /// Upper edge.
    pub y: usize,
    /// Width.
    pub width: usize,
    /// Height.
    pub height: usize,
    /// Position in the file; line 0 for all faces.
    pub position: Position,
}

/// A connection between placed boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedLink {
    /// Box, and its output port.
    pub from: (usize, usize),
    /// Box, and its input port.
    pub to: (usize, usize),
    /// The output as written in a file.
    pub source: String,
    /// The input as written in a file.
    pub target: String,
    /// Position in the file.
    pub position: Position,
}

/// Places all elements and faces of a graph, those without connections too. Both lists are empty if
/// there are more than [`PLACED_MAX`].
pub fn places(graph: &Graph) -> (Vec<PlacedBox>, Vec<PlacedLink>) {
    let (mut blocks, links) = boxes_and_links(graph);
    let has_box = |blocks: &[super::Block], name: &str| {
        blocks.iter().any(|block| block.is_face && block.name == name)
    };
    for face in &graph.faces {
        if !has_box(&blocks, &face.name) {
            blocks.push(super::Block {
                name: face.name.clone(),
                label: face.uri.clone().unwrap_or_default(),
                ins: Vec::new(),
                outs: vec![""],
                is_face: true,
            });
        }
    }
    if blocks.len() > PLACED_MAX {
        return (Vec::new(), Vec::new());
    }
    let (areas, ..) = layout::layout(&blocks, &links, 0);
    let boxes = blocks.into_iter().zip(areas).map(|(block, area)| PlacedBox {
        position: position(graph, &block.name, block.is_face),
        name: block.name,
        label: block.label,
        is_face: block.is_face,
        ins: block.ins,
        outs: block.outs,
        x: area.x,
        y: area.y,
        width: area.width,
        height: area.height,
    });
    let placed = |(link, connection): (&super::Link, &Connection)| PlacedLink {
        from: link.from,
        to: link.to,
        source: graph.source_name(connection.from),
        target: graph.target_name(connection.to),
        position: connection.position,
    };
    (boxes.collect(), links.iter().zip(&graph.connections).map(placed).collect())
}

fn position(graph: &Graph, name: &str, is_face: bool) -> Position {
    let face = || Some(graph.faces[graph.face_index(name)?].position);
    let node = || Some(graph.nodes[graph.node_index(name)?].position);
    match is_face {
        true if name == FACES => Position::default(),
        true => face().unwrap_or_default(),
        false => node().unwrap_or_default(),
    }
}

/// Returns the outputs and inputs that a new connection may have, as written in a file: sources,
/// then targets.
pub fn ends(graph: &Graph) -> (Vec<String>, Vec<String>) {
    let faces = || graph.faces.iter().map(|face| face.name.clone()).chain([FACES.to_owned()]);
    let mut sources: Vec<String> = faces().collect();
    let mut targets: Vec<String> = faces().collect();
    for (at, node) in graph.nodes.iter().enumerate() {
        let outs = 0..node.entry.outs.len() as u8;
        sources.extend(outs.map(|port| graph.source_name(Source::Port(at, port))));
        let ins = 0..node.entry.ins.len() as u8;
        targets.extend(ins.map(|port| graph.target_name(Target::Port(at, port))));
    }
    (sources, targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GraphFile;

    #[test]
    fn places_have_every_element_and_face_apart_from_each_other() {
        let text = "face a = udp4://192.0.2.1:6363\nface alone = udp4://192.0.2.2:6363\n\
                    pd = packet_dispatcher\nnew = name_filter\na -> pd.packet\n";
        let (file, _) = GraphFile::examine(text);
        let (boxes, links) = places(&file.graph);
        let names: Vec<&str> = boxes.iter().map(|placed| placed.name.as_str()).collect();
        assert_eq!(names, ["pd", "new", "a", "alone"]);
        assert_eq!(links.len(), 1);
        assert_eq!((links[0].source.as_str(), links[0].target.as_str()), ("a", "pd.packet"));
        assert_eq!(links[0].position.line, 5);
        for (at, one) in boxes.iter().enumerate() {
            for other in &boxes[at + 1..] {
                let is_beside = one.x + one.width <= other.x || other.x + other.width <= one.x;
                let is_below = one.y + one.height <= other.y || other.y + other.height <= one.y;
                assert!(is_beside || is_below, "{one:?} and {other:?}");
            }
        }
        let (sources, targets) = ends(&file.graph);
        assert!(
            sources.contains(&"pd.interest".to_owned()) && sources.contains(&"faces".to_owned())
        );
        assert!(targets.contains(&"pd.packet".to_owned()) && targets.contains(&"alone".to_owned()));
    }
}
