//! The graph that a file describes, independent of the file's syntax: faces, elements, connections.
//!
//! Elements, ports and faces are referred to by their index in the lists of [`Graph`]. The model
//! itself promises nothing: [`crate::check`] reports everything that keeps a graph from running.

use nw_element_api::{FaceInfo, Kind, Parameters};
use nw_elements::catalogue::Entry;
use std::fmt;

/// Position of an item in a graph file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1; 0 if the item comes from no file.
    pub line: u32,
    /// Column in characters, from 1; 0 if the item comes from no file.
    pub column: u32,
}

/// Elements, faces, and the connections between them.
#[derive(Clone, Default)]
pub struct Graph {
    /// Faces, by which packets enter and leave the graph.
    pub faces: Vec<Face>,
    /// Elements (nodes of the graph).
    pub nodes: Vec<Node>,
    /// Connections between faces and element ports.
    pub connections: Vec<Connection>,
}

/// A face as declared in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// Name, unique in the graph.
    pub name: String,
    /// URI of the peer (`udp4://…`), or the address to listen on. `None` in graphs that are only
    /// tested.
    pub uri: Option<String>,
    /// True for a listener: each accepted connection is a face of its own, and its packets enter
    /// the graph as packets of this face.
    pub is_listener: bool,
    /// True for a listener with one peer at a time; packets sent to this face go to that peer. Used
    /// for the listening end of a link between two services.
    pub is_single_peer: bool,
    /// True if this face takes the Interests that leave by `faces` without an egress face.
    pub is_default: bool,
    /// Scope and link type, as elements see them.
    pub info: FaceInfo,
    /// Position in the file.
    pub position: Position,
}

/// An element with its parameters.
#[derive(Clone)]
pub struct Node {
    /// Name, unique in the graph.
    pub name: String,
    /// Catalogue entry of the element.
    pub entry: &'static Entry,
    /// Parameters the element is built with.
    pub parameters: Parameters,
    /// Position of each parameter, in the same order; empty if the graph comes from no file.
    pub parameter_positions: Vec<Position>,
    /// Position in the file.
    pub position: Position,
}

/// Where a connection starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// One face, by index.
    Face(usize),
    /// All faces without connections of their own.
    Faces,
    /// A port of an element: node index and port index.
    Port(usize, u8),
}

/// Where a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// One face, by index, even if the packet's egress face is set to another.
    Face(usize),
    /// The egress face that an element set in the packet's metadata.
    Faces,
    /// A port of an element: node index and port index.
    Port(usize, u8),
}

/// A connection: packets that leave `from` enter `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Start. A port has at most one connection (a `tee` copies packets); a face may have one per
    /// packet kind, to ports that accept different kinds.
    pub from: Source,
    /// End. Several connections may end at the same port or face.
    pub to: Target,
    /// Position in the file.
    pub position: Position,
}

/// Packet kinds that every face sends into a graph and accepts from it.
pub const NDN_KINDS: &[Kind] = &[Kind::Interest, Kind::Data, Kind::Nack];

/// All packet kinds: those that faces send into a graph with an element for publications.
pub const ALL_KINDS: &[Kind] = &[Kind::Interest, Kind::Data, Kind::Nack, Kind::Publication];

impl Graph {
    /// Returns the packet kinds that faces send into this graph and accept from it.
    pub fn face_kinds(&self) -> &'static [Kind] {
        let mut ports = self.nodes.iter().flat_map(|node| node.entry.ins);
        match ports.any(|port| port.kinds.contains(&Kind::Publication)) {
            true => ALL_KINDS,
            false => NDN_KINDS,
        }
    }

    /// Returns the packet kinds that may leave `from`.
    pub fn kinds_from(&self, from: Source) -> &'static [Kind] {
        match from {
            Source::Face(_) | Source::Faces => self.face_kinds(),
            Source::Port(node, port) => self.nodes[node].entry.outs[usize::from(port)].kinds,
        }
    }

    /// Returns the packet kinds that `to` accepts.
    pub fn kinds_into(&self, to: Target) -> &'static [Kind] {
        match to {
            Target::Face(_) | Target::Faces => self.face_kinds(),
            Target::Port(node, port) => self.nodes[node].entry.ins[usize::from(port)].kinds,
        }
    }

    /// Returns the target of the first connection of a source.
    pub fn target(&self, from: Source) -> Option<Target> {
        self.connections
            .iter()
            .find(|connection| connection.from == from)
            .map(|connection| connection.to)
    }

    /// Returns all sources: faces with connections, and every output port of every element.
    pub fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        let ports = self.nodes.iter().enumerate();
        let ports = ports.flat_map(|(at, node)| {
            (0..node.entry.outs.len()).map(move |port| Source::Port(at, port as u8))
        });
        let faces = self.connections.iter().map(|connection| connection.from);
        faces.filter(|from| !matches!(from, Source::Port(..))).chain(ports)
    }

    /// Returns the target of packets of a kind that leave `from`. For faces this is the port that
    /// accepts the kind, otherwise a face if a connection leads to one.
    pub fn target_for(&self, from: Source, kind: Kind) -> Option<Target> {
        let targets = || {
            let own = self.connections.iter().filter(move |connection| connection.from == from);
            own.map(|connection| connection.to)
        };
        let accepts =
            |to: &Target| matches!(to, Target::Port(..)) && self.kinds_into(*to).contains(&kind);
        match from {
            Source::Port(..) => targets().next(),
            Source::Face(_) | Source::Faces => targets()
                .find(accepts)
                .or_else(|| targets().find(|to| !matches!(to, Target::Port(..)))),
        }
    }

    /// Returns the index of a face, by name.
    pub fn face_index(&self, name: &str) -> Option<usize> {
        self.faces.iter().position(|face| face.name == name)
    }

    /// Returns the index of an element, by name.
    pub fn node_index(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Returns a source as written in a graph file: `dispatcher.interest`, `north`, `faces`.
    pub fn source_name(&self, from: Source) -> String {
        match from {
            Source::Face(face) => self.faces[face].name.clone(),
            Source::Faces => FACES.to_owned(),
            Source::Port(node, port) => {
                format!(
                    "{}.{}",
                    self.nodes[node].name,
                    self.nodes[node].entry.outs[usize::from(port)].name
                )
            }
        }
    }

    /// Returns a target as written in a graph file.
    pub fn target_name(&self, to: Target) -> String {
        match to {
            Target::Face(face) => self.faces[face].name.clone(),
            Target::Faces => FACES.to_owned(),
            Target::Port(node, port) => {
                format!(
                    "{}.{}",
                    self.nodes[node].name,
                    self.nodes[node].entry.ins[usize::from(port)].name
                )
            }
        }
    }
}

/// The word for all faces in connections; not allowed as a name.
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
            writeln!(
                f,
                "{} -> {}",
                self.source_name(connection.from),
                self.target_name(connection.to)
            )?;
        }
        Ok(())
    }
}
