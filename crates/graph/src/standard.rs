//! The standard router as a graph: what the fused host runs as one.

use crate::model::{Connection, Face, From, Graph, Node, Place, To};
use nw_element_api::{FaceInfo, Parameters};
use nw_elements::catalogue::{Entry, find, port};

/// The standard router, with faces of these names; `parameters` gives those of its elements, which are called `dispatcher`, `store` and `router`.
pub fn standard(faces: &[(&str, FaceInfo)], parameters: impl Fn(&str) -> Parameters) -> Graph {
    let place = Place::default();
    let node = |(name, element): (&str, &str)| Node {
        name: name.to_owned(),
        entry: entry(element),
        parameters: parameters(name),
        parameter_places: Vec::new(),
        place,
    };
    let nodes: Vec<Node> = NODES.into_iter().map(node).collect();
    let at = |name: &str| NODES.iter().position(|(known, _)| *known == name).expect("one of them");
    let connect = |(from, to): (&str, &str)| {
        let from = from.split_once('.').map_or(From::Faces, |(node, out)| {
            From::Port(at(node), port(entry(NODES[at(node)].1).outs, out).expect("a port"))
        });
        let to = to.split_once('.').map_or(To::Faces, |(node, into)| {
            To::Port(at(node), port(entry(NODES[at(node)].1).ins, into).expect("a port"))
        });
        Connection { from, to, place }
    };
    let face = |(name, info): &(&str, FaceInfo)| Face {
        name: (*name).to_owned(),
        uri: None,
        listens: false,
        is_single: false,
        is_default: false,
        info: *info,
        place,
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

/// What self-learning finds out is for control, which is not in a graph.
const NODES: [(&str, &str); 4] = [
    ("dispatcher", "packet_dispatcher"),
    ("store", "content_store"),
    ("router", "router"),
    ("nobody", "sink"),
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
    ("router.lesson", "nobody.packet"),
];
