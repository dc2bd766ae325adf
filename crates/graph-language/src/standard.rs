//! The standard router as a graph: the same elements that the fused host runs as one.

use crate::model::{Connection, Face, Graph, Node, Position, Source, Target};
use nw_element_api::{FaceInfo, Parameters};
use nw_elements::catalogue::{Entry, find, port};

/// Returns the standard router with the given faces. `parameters` returns the parameters of the
/// element with the given node name: `dispatcher`, `store` or `router`.
pub fn standard(faces: &[(&str, FaceInfo)], parameters: impl Fn(&str) -> Parameters) -> Graph {
    let position = Position::default();
    let node = |(name, element): (&str, &str)| Node {
        name: name.to_owned(),
        entry: entry(element),
        parameters: parameters(name),
        parameter_positions: Vec::new(),
        position,
    };
    let nodes: Vec<Node> = NODES.into_iter().map(node).collect();
    let at = |name: &str| NODES.iter().position(|(known, _)| *known == name).expect("one of them");
    let connect = |(from, to): (&str, &str)| {
        let from = from.split_once('.').map_or(Source::Faces, |(node, out)| {
            Source::Port(at(node), port(entry(NODES[at(node)].1).outs, out).expect("a port"))
        });
        let to = to.split_once('.').map_or(Target::Faces, |(node, into)| {
            Target::Port(at(node), port(entry(NODES[at(node)].1).ins, into).expect("a port"))
        });
        Connection { from, to, position }
    };
    let face = |(name, info): &(&str, FaceInfo)| Face {
        name: (*name).to_owned(),
        uri: None,
        is_listener: false,
        is_single_peer: false,
        is_default: false,
        info: *info,
        position,
    };
    Graph {
        faces: faces.iter().map(face).collect(),
        nodes,
        connections: CONNECTIONS.into_iter().map(connect).collect(),
    }
}

fn entry(element: &str) -> &'static Entry {
    find(element).expect("the catalogue has the standard elements")
}

/// Route events of self-learning are for the control plane, which is not part of a graph: they are
/// discarded.
const NODES: [(&str, &str); 4] = [
    ("dispatcher", "packet_dispatcher"),
    ("store", "content_store"),
    ("router", "router"),
    ("discard", "sink"),
];

const CONNECTIONS: [(&str, &str); 11] = [
    ("faces", "dispatcher.packet"),
    ("dispatcher.interest", "store.interest"),
    ("dispatcher.data", "router.data"),
    ("dispatcher.nack", "router.nack"),
    ("store.miss", "router.interest"),
    ("store.hit", "faces"),
    ("store.data", "faces"),
    ("router.interest", "faces"),
    ("router.data", "store.data"),
    ("router.nack", "faces"),
    ("router.lesson", "discard.packet"),
];
