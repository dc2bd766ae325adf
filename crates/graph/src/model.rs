//! What a graph file says, whatever the language: faces, elements, connections.

use nw_element_api::{FaceInfo, Kind, Parameters};
use nw_elements::catalogue::Entry;
use std::fmt;

/// Where something stands in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1; 0 when it is in no file.
    pub line: u32,
    /// From 1, in characters; 0 when it is in no file.
    pub column: u32,
}

/// Elements and what is between them.
#[derive(Clone, Default)]
pub struct Graph {
    /// Ways out of the graph.
    pub faces: Vec<Face>,
    /// Elements.
    pub nodes: Vec<Node>,
    /// What leaves here enters there.
    pub connections: Vec<Connection>,
}

/// A way out of the graph, and into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// In the graph.
    pub name: String,
    /// Where it leads: `udp4://…` and so on, or what it listens on.
    pub uri: Option<String>,
    /// True when it waits for others; each of them is then a face of its own, and all enter the graph as this one does.
    pub listens: bool,
    /// Listens for one peer at a time, which is then where packets for this face go: the far end of a link between two services.
    pub is_single: bool,
    /// Interests that leave by `faces`, and for which no element decided, go here.
    pub is_default: bool,
    /// What elements know of it.
    pub info: FaceInfo,
    /// In the file.
    pub place: Place,
}

/// An element.
#[derive(Clone)]
pub struct Node {
    /// In the graph.
    pub name: String,
    /// Which one.
    pub entry: &'static Entry,
    /// What it is made with.
    pub parameters: Parameters,
    /// Where each parameter stands, in their order; empty when they are in no file.
    pub parameter_places: Vec<Place>,
    /// In the file.
    pub place: Place,
}

/// Where packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum From {
    /// One face, by its number.
    Face(usize),
    /// Every face that has no connection of its own.
    Faces,
    /// A port of an element, both by their numbers.
    Port(usize, u8),
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// One face, by its number, whatever the element decided.
    Face(usize),
    /// The face that the element decided on.
    Faces,
    /// A port of an element, both by their numbers.
    Port(usize, u8),
}

/// What leaves `from` enters `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// A port has one connection, and a `tee` makes two of one; a face may have one for each kind of packets, to ports that take different kinds.
    pub from: From,
    /// May have many.
    pub to: To,
    /// In the file.
    pub place: Place,
}

/// What a face may send into a graph, and take from it.
pub const ALL_KINDS: &[Kind] = &[Kind::Interest, Kind::Data, Kind::Nack];

impl Graph {
    /// Kinds of packets that may come from there.
    pub fn kinds_from(&self, from: From) -> &'static [Kind] {
        match from {
            From::Face(_) | From::Faces => ALL_KINDS,
            From::Port(node, port) => self.nodes[node].entry.outs[usize::from(port)].kinds,
        }
    }

    /// Kinds of packets that may go there.
    pub fn kinds_to(&self, to: To) -> &'static [Kind] {
        match to {
            To::Face(_) | To::Faces => ALL_KINDS,
            To::Port(node, port) => self.nodes[node].entry.ins[usize::from(port)].kinds,
        }
    }

    /// Where packets that leave there go.
    pub fn to(&self, from: From) -> Option<To> {
        self.connections.iter().find(|connection| connection.from == from).map(|connection| connection.to)
    }

    /// Everything that packets come from: faces that are connected, and every port of every element by which something leaves.
    pub fn sources(&self) -> impl Iterator<Item = From> + '_ {
        let ports = self.nodes.iter().enumerate();
        let ports = ports
            .flat_map(|(at, node)| (0..node.entry.outs.len()).map(move |port| From::Port(at, port as u8)));
        let faces = self.connections.iter().map(|connection| connection.from);
        faces.filter(|from| !matches!(from, From::Port(..))).chain(ports)
    }

    /// Where packets of a kind that leave there go. By faces: to the port that takes the kind; else on to a face, where a connection leads there.
    pub fn to_by_kind(&self, from: From, kind: Kind) -> Option<To> {
        let all = || self.connections.iter().filter(move |connection| connection.from == from);
        let all = || all().map(|connection| connection.to);
        let takes = |to: &To| matches!(to, To::Port(..)) && self.kinds_to(*to).contains(&kind);
        match from {
            From::Port(..) => all().next(),
            From::Face(_) | From::Faces => {
                all().find(takes).or_else(|| all().find(|to| !matches!(to, To::Port(..))))
            }
        }
    }

    /// The number of a face.
    pub fn face(&self, name: &str) -> Option<usize> {
        self.faces.iter().position(|face| face.name == name)
    }

    /// The number of an element.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// As a person writes it: `dispatcher.interest`, `north`, `faces`.
    pub fn from_name(&self, from: From) -> String {
        match from {
            From::Face(face) => self.faces[face].name.clone(),
            From::Faces => FACES.to_owned(),
            From::Port(node, port) => {
                format!("{}.{}", self.nodes[node].name, self.nodes[node].entry.outs[usize::from(port)].name)
            }
        }
    }

    /// As a person writes it.
    pub fn to_name(&self, to: To) -> String {
        match to {
            To::Face(face) => self.faces[face].name.clone(),
            To::Faces => FACES.to_owned(),
            To::Port(node, port) => {
                format!("{}.{}", self.nodes[node].name, self.nodes[node].entry.ins[usize::from(port)].name)
            }
        }
    }
}

/// All faces, in connections.
pub const FACES: &str = "faces";

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for face in &self.faces {
            writeln!(f, "{face:?}")?;
        }
        for node in &self.nodes {
            writeln!(f, "{}: {} {:?}", node.name, node.entry.name, node.parameters)?;
        }
        for connection in &self.connections {
            writeln!(f, "{} -> {}", self.from_name(connection.from), self.to_name(connection.to))?;
        }
        Ok(())
    }
}
