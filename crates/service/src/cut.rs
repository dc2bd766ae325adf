//! A graph in pieces, one for each service. No element is changed: what joined two pieces becomes a link, a face at both ends.
//!
//! Over one link packets of a kind can lead to one port only. Replies find back by it, as a link is to both sides what any other face is.

use nw_element_api::{FaceInfo, Kind, LinkType, Scope};
use nw_faces::uri::UNIX_PATH_LEN_MAX;
use nw_graph::check::check;
use nw_graph::model::ALL_KINDS;
use nw_graph::{Connection, Face, From, Graph, Place, To};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What links are made of. Both kinds meet at a socket in the folder of the graph files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// Unix sockets.
    #[default]
    Unix,
    /// Memory that both ends share.
    SharedMemory,
}

impl LinkKind {
    const fn scheme(self) -> &'static str {
        match self {
            LinkKind::Unix => "unix",
            LinkKind::SharedMemory => "shm",
        }
    }
}

/// One service of a cut graph.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Its name.
    pub name: String,
    /// What it runs.
    pub graph: Graph,
}

/// Why a graph can't be cut so. All that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct CutError(pub Vec<String>);

/// Where a part of the graph belongs: by service, in the order given.
struct Places {
    nodes: Vec<usize>,
    faces: Vec<usize>,
}

/// Cuts a checked graph: each service has a name and the names of its elements and faces. A face that none names goes with the element that its packets
/// enter. Links are of one kind and meet in `folder`; the later one of two services listens there.
///
/// # Errors
/// All that is wrong with the cut.
pub fn cut(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    folder: &Path,
    kind: LinkKind,
) -> Result<Vec<Piece>, CutError> {
    let mut wrong = Vec::new();
    let places = places(graph, services, &mut wrong);
    if !wrong.is_empty() {
        return Err(CutError(wrong));
    }
    let links = links(graph, services, &places, &mut wrong);
    for (low, high) in &links {
        let len = socket(folder, services, *low, *high).as_os_str().len();
        if len > UNIX_PATH_LEN_MAX {
            wrong.push(format!(
                "the socket between {} and {} would have a path of {len} octets, and {UNIX_PATH_LEN_MAX} are possible: write into a folder with a shorter path, or give the services shorter names",
                services[*low].0, services[*high].0
            ));
        }
    }
    if !wrong.is_empty() {
        return Err(CutError(wrong));
    }
    let pieces = (0..services.len()).map(|service| Piece {
        name: services[service].0.clone(),
        graph: piece(graph, services, &places, &links, service, (folder, kind)),
    });
    let pieces: Vec<Piece> = pieces.collect();
    for piece in &pieces {
        for problem in check(&piece.graph) {
            wrong.push(format!("service {} could not run: {}: {}", piece.name, problem.what, problem.remedy));
        }
    }
    if wrong.is_empty() { Ok(pieces) } else { Err(CutError(wrong)) }
}

fn places(graph: &Graph, services: &[(String, Vec<String>)], wrong: &mut Vec<String>) -> Places {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (service, (name, members)) in services.iter().enumerate() {
        if services[..service].iter().any(|(other, _)| other == name) {
            wrong.push(format!(
                "there are two services {name}: name all that is in it at once, or call one otherwise"
            ));
        }
        for member in members {
            if graph.node(member).is_none() && graph.face(member).is_none() {
                wrong.push(format!("service {name}: nothing in the graph is called {member:?}"));
            } else if let Some(other) = named.insert(member, service).filter(|other| *other != service) {
                wrong
                    .push(format!("{member:?} belongs to {} and to {name}: name it once", services[other].0));
            }
        }
    }
    let mut nodes = Vec::new();
    for node in &graph.nodes {
        match named.get(node.name.as_str()) {
            Some(service) => nodes.push(*service),
            None => wrong.push(format!("{:?} belongs to no service: name it in one", node.name)),
        }
    }
    let mut faces = Vec::new();
    if wrong.is_empty() {
        for (number, face) in graph.faces.iter().enumerate() {
            let own = graph.connections.iter().any(|connection| connection.from == From::Face(number));
            let from = if own { From::Face(number) } else { From::Faces };
            let entered = graph.connections.iter().find_map(|connection| match connection.to {
                To::Port(node, _) if connection.from == from => Some(nodes[node]),
                _ => None,
            });
            match named.get(face.name.as_str()).copied().or(entered) {
                Some(service) => faces.push(service),
                None => wrong.push(format!("face {:?} belongs to no service: name it in one", face.name)),
            }
        }
    }
    Places { nodes, faces }
}

/// By pair of services, the lower first: they are joined.
type Links = BTreeSet<(usize, usize)>;

/// A connection's ends, each with its service. Those from `faces` count once for every service that has such faces.
fn ends<'a>(
    graph: &'a Graph,
    places: &'a Places,
) -> impl Iterator<Item = (usize, Option<usize>, &'a Connection)> {
    graph.connections.iter().flat_map(move |connection| {
        let to = match connection.to {
            To::Port(node, _) => Some(places.nodes[node]),
            To::Face(face) => Some(places.faces[face]),
            To::Faces => None,
        };
        let from: BTreeSet<usize> = match connection.from {
            From::Port(node, _) => [places.nodes[node]].into(),
            From::Face(face) => [places.faces[face]].into(),
            From::Faces => {
                let has_own = |face: &usize| graph.connections.iter().any(|c| c.from == From::Face(*face));
                (0..graph.faces.len()).filter(|face| !has_own(face)).map(|face| places.faces[face]).collect()
            }
        };
        from.into_iter().map(move |from| (from, to, connection))
    })
}

fn links(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    places: &Places,
    wrong: &mut Vec<String>,
) -> Links {
    let mut links = Links::new();
    // From, to, kind of packets: the port that they lead to.
    let mut taken: BTreeMap<(usize, usize, u8), To> = BTreeMap::new();
    for (from, to, connection) in ends(graph, places) {
        let Some(to) = to.filter(|to| *to != from) else { continue };
        links.insert((from.min(to), from.max(to)));
        for kind in crossing(graph, connection) {
            let other = taken.insert((from, to, kind as u8), connection.to);
            if let Some(other) = other.filter(|other| *other != connection.to) {
                wrong.push(format!(
                    "from {} to {} {kind:?} packets would lead to {} and to {}: put both in one service, or give faces connections of their own",
                    services[from].0,
                    services[to].0,
                    graph.to_name(other),
                    graph.to_name(connection.to)
                ));
            }
        }
    }
    links
}

/// Kinds of packets that pass a connection.
fn crossing(graph: &Graph, connection: &Connection) -> impl Iterator<Item = Kind> {
    let (from, to) = (graph.kinds_from(connection.from), graph.kinds_to(connection.to));
    from.iter().copied().filter(move |kind| to.contains(kind))
}

/// Where two services meet.
fn socket(folder: &Path, services: &[(String, Vec<String>)], low: usize, high: usize) -> PathBuf {
    folder.join(format!("{}-{}.sock", services[low].0, services[high].0))
}

/// What stands for another service in a piece.
fn link_name(services: &[(String, Vec<String>)], other: usize) -> String {
    format!("to_{}", services[other].0)
}

fn piece(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    places: &Places,
    links: &Links,
    service: usize,
    (folder, kind): (&Path, LinkKind),
) -> Graph {
    let mut piece = Graph::default();
    let here = |place: &usize| *place == service;
    let number = |places: &[usize], at: usize| places[..at].iter().filter(|place| here(place)).count();
    let own = |at: &usize| here(&places.faces[*at]);
    piece.faces = (0..graph.faces.len()).filter(own).map(|at| graph.faces[at].clone()).collect();
    let own = |at: &usize| here(&places.nodes[*at]);
    piece.nodes = (0..graph.nodes.len()).filter(own).map(|at| graph.nodes[at].clone()).collect();
    let mut link_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (low, high) in links.iter().filter(|(low, high)| here(low) || here(high)) {
        let other = if here(low) { *high } else { *low };
        let socket = socket(folder, services, *low, *high);
        link_of.insert(other, piece.faces.len());
        piece.faces.push(Face {
            name: link_name(services, other),
            uri: Some(format!("{}://{}", kind.scheme(), socket.display())),
            // The later service listens, the earlier one connects, again and again while nobody is there.
            listens: here(high),
            is_single: here(high),
            is_default: false,
            info: FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint },
            place: Place::default(),
        });
    }
    let place = Place::default();
    let mut connections = BTreeSet::new();
    let mut entered: BTreeMap<usize, BTreeSet<u8>> = BTreeMap::new();
    for (from, to, connection) in ends(graph, places) {
        let to_here = to.is_none_or(|to| to == service);
        let from_end = match connection.from {
            _ if from != service => link_of.get(&from).copied().map(From::Face),
            From::Port(node, port) => Some(From::Port(number(&places.nodes, node), port)),
            From::Face(face) => Some(From::Face(number(&places.faces, face))),
            From::Faces => Some(From::Faces),
        };
        let to_end = match connection.to {
            _ if !to_here => to.and_then(|to| link_of.get(&to)).copied().map(To::Face),
            To::Port(node, port) => Some(To::Port(number(&places.nodes, node), port)),
            To::Face(face) => Some(To::Face(number(&places.faces, face))),
            To::Faces => Some(To::Faces),
        };
        let touches = from == service || to == Some(service);
        if let (true, Some(from_end), Some(to_end)) = (touches, from_end, to_end) {
            if from != service {
                entered.entry(from).or_default().extend(crossing(graph, connection).map(|kind| kind as u8));
            }
            connections.insert((from_end, to_end));
        }
    }
    // Replies that the graph sends straight to faces leave by the link they were asked by, and find on by their label.
    for (other, link) in &link_of {
        if entered.get(other).is_none_or(|kinds| kinds.len() < ALL_KINDS.len()) {
            connections.insert((From::Face(*link), To::Faces));
        }
    }
    piece.connections = connections.into_iter().map(|(from, to)| Connection { from, to, place }).collect();
    piece
}
