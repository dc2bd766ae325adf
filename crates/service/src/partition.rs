//! Partitions a graph into parts, one per service. Elements are not changed: a connection between
//! two parts becomes a link, which is a face at both ends.
//!
//! On one link, packets of one kind can lead to one port only. Replies find their way back by it,
//! as to both sides a link is a face like any other.

use nw_element_api::{FaceInfo, Kind, LinkType, Scope};
use nw_faces::uri::UNIX_PATH_LEN_MAX;
use nw_graph::check::check;
use nw_graph::labels;
use nw_graph::{Connection, Face, Graph, Position, Source, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Transport of the links. Both kinds meet at a socket in the folder of the graph files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// Unix stream sockets.
    #[default]
    Unix,
    /// Shared memory.
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

/// One service of a partitioned graph.
#[derive(Clone, Debug)]
pub struct ServicePart {
    /// Name of the service.
    pub name: String,
    /// Graph that the service runs.
    pub graph: Graph,
}

/// Everything that is wrong with a partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct PartitionError(pub Vec<String>);

/// Service index of each node and each face.
struct Placement {
    nodes: Vec<usize>,
    faces: Vec<usize>,
}

/// Partitions a checked graph. Each service has a name, and the names of its elements and faces. A
/// face that is not named belongs to the service of the element its packets enter. All links are of
/// one kind and meet in `folder`; of two services the later one listens.
///
/// # Errors
/// Everything that is wrong with the partition.
pub fn partition(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    folder: &Path,
    kind: LinkKind,
) -> Result<Vec<ServicePart>, PartitionError> {
    let mut errors = Vec::new();
    let placement = placement(graph, services, &mut errors);
    if !errors.is_empty() {
        return Err(PartitionError(errors));
    }
    let links = find_links(graph, services, &placement, &mut errors);
    for (low, high) in &links {
        let len = socket_path(folder, services, *low, *high).as_os_str().len();
        if len > UNIX_PATH_LEN_MAX {
            errors.push(format!(
                "the socket between {} and {} would have a path of {len} bytes (limit {UNIX_PATH_LEN_MAX}): use a folder with a shorter path, or shorter service names",
                services[*low].0, services[*high].0
            ));
        }
    }
    if let Some(chain) = labels::overflowing_chain(graph, &placement.nodes) {
        let names: Vec<&str> = chain.iter().map(|service| services[*service].0.as_str()).collect();
        errors.push(format!(
            "an Interest that passes {} needs more return labels than its token has space for: put some of these services into one, or an element that tracks pending Interests (backward_router) between them",
            names.join(", ")
        ));
    }
    if !errors.is_empty() {
        return Err(PartitionError(errors));
    }
    let parts = (0..services.len()).map(|service| ServicePart {
        name: services[service].0.clone(),
        graph: build_part(graph, services, &placement, &links, service, (folder, kind)),
    });
    let parts: Vec<ServicePart> = parts.collect();
    for part in &parts {
        for problem in check(&part.graph) {
            errors.push(format!(
                "service {} can't run: {}; {}",
                part.name, problem.message, problem.remedy
            ));
        }
    }
    if errors.is_empty() { Ok(parts) } else { Err(PartitionError(errors)) }
}

fn placement(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    errors: &mut Vec<String>,
) -> Placement {
    let mut service_of_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (service, (name, members)) in services.iter().enumerate() {
        if services[..service].iter().any(|(other, _)| other == name) {
            errors.push(format!(
                "service {name} is given twice: list all its members at once, or rename one"
            ));
        }
        for member in members {
            if graph.node_index(member).is_none() && graph.face_index(member).is_none() {
                errors.push(format!("service {name}: nothing in the graph is called {member:?}"));
            } else if let Some(other) =
                service_of_name.insert(member, service).filter(|other| *other != service)
            {
                errors.push(format!(
                    "{member:?} belongs to {} and to {name}: list it once",
                    services[other].0
                ));
            }
        }
    }
    let mut nodes = Vec::new();
    for node in &graph.nodes {
        match service_of_name.get(node.name.as_str()) {
            Some(service) => nodes.push(*service),
            None => errors.push(format!("{:?} belongs to no service: list it in one", node.name)),
        }
    }
    let mut faces = Vec::new();
    if errors.is_empty() {
        for (number, face) in graph.faces.iter().enumerate() {
            let own =
                graph.connections.iter().any(|connection| connection.from == Source::Face(number));
            let from = if own { Source::Face(number) } else { Source::Faces };
            let entered_service =
                graph.connections.iter().find_map(|connection| match connection.to {
                    Target::Port(node, _) if connection.from == from => Some(nodes[node]),
                    _ => None,
                });
            match service_of_name.get(face.name.as_str()).copied().or(entered_service) {
                Some(service) => faces.push(service),
                None => errors
                    .push(format!("face {:?} belongs to no service: list it in one", face.name)),
            }
        }
    }
    Placement { nodes, faces }
}

/// Pairs of services that are linked, the lower index first.
type Links = BTreeSet<(usize, usize)>;

/// Returns (from service, to service, connection) for each connection; `None` stands for the target
/// `faces`. A connection from `faces` is returned once per service that has such faces.
fn connections_with_services<'a>(
    graph: &'a Graph,
    placement: &'a Placement,
) -> impl Iterator<Item = (usize, Option<usize>, &'a Connection)> {
    graph.connections.iter().flat_map(move |connection| {
        let to = match connection.to {
            Target::Port(node, _) => Some(placement.nodes[node]),
            Target::Face(face) => Some(placement.faces[face]),
            Target::Faces => None,
        };
        let from: BTreeSet<usize> = match connection.from {
            Source::Port(node, _) => [placement.nodes[node]].into(),
            Source::Face(face) => [placement.faces[face]].into(),
            Source::Faces => {
                let has_own =
                    |face: &usize| graph.connections.iter().any(|c| c.from == Source::Face(*face));
                (0..graph.faces.len())
                    .filter(|face| !has_own(face))
                    .map(|face| placement.faces[face])
                    .collect()
            }
        };
        from.into_iter().map(move |from| (from, to, connection))
    })
}

fn find_links(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    placement: &Placement,
    errors: &mut Vec<String>,
) -> Links {
    let mut links = Links::new();
    // Target by (from service, to service, kind).
    let mut used_targets: BTreeMap<(usize, usize, u8), Target> = BTreeMap::new();
    for (from, to, connection) in connections_with_services(graph, placement) {
        let Some(to) = to.filter(|to| *to != from) else { continue };
        links.insert((from.min(to), from.max(to)));
        for kind in passing_kinds(graph, connection) {
            let earlier = used_targets.insert((from, to, kind as u8), connection.to);
            if let Some(earlier) = earlier.filter(|earlier| *earlier != connection.to) {
                errors.push(format!(
                    "from {} to {} {kind:?} packets would lead to {} and to {}: put both in one service, or give faces connections of their own",
                    services[from].0,
                    services[to].0,
                    graph.target_name(earlier),
                    graph.target_name(connection.to)
                ));
            }
        }
    }
    links
}

/// Returns the packet kinds that pass a connection.
fn passing_kinds(graph: &Graph, connection: &Connection) -> impl Iterator<Item = Kind> {
    let (from, to) = (graph.kinds_from(connection.from), graph.kinds_into(connection.to));
    from.iter().copied().filter(move |kind| to.contains(kind))
}

/// Returns the socket path of a link.
fn socket_path(
    folder: &Path,
    services: &[(String, Vec<String>)],
    low: usize,
    high: usize,
) -> PathBuf {
    folder.join(format!("{}-{}.sock", services[low].0, services[high].0))
}

/// Returns the name of the face that leads to another service.
fn link_name(services: &[(String, Vec<String>)], other: usize) -> String {
    format!("to_{}", services[other].0)
}

fn link_face(name: String, uri: String, is_listener: bool) -> Face {
    Face {
        name,
        uri: Some(uri),
        is_listener,
        is_single_peer: is_listener,
        is_default: false,
        info: FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint },
        position: Position::default(),
    }
}

fn build_part(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    placement: &Placement,
    links: &Links,
    service: usize,
    (folder, kind): (&Path, LinkKind),
) -> Graph {
    let mut part = Graph::default();
    let is_here = |item_service: &usize| *item_service == service;
    let index_in_part = |items: &[usize], at: usize| {
        items[..at].iter().filter(|item_service| is_here(item_service)).count()
    };
    let own = |at: &usize| is_here(&placement.faces[*at]);
    part.faces = (0..graph.faces.len()).filter(own).map(|at| graph.faces[at].clone()).collect();
    let own = |at: &usize| is_here(&placement.nodes[*at]);
    part.nodes = (0..graph.nodes.len()).filter(own).map(|at| graph.nodes[at].clone()).collect();
    let mut link_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (low, high) in links.iter().filter(|(low, high)| is_here(low) || is_here(high)) {
        let other = if is_here(low) { *high } else { *low };
        let socket = socket_path(folder, services, *low, *high);
        link_of.insert(other, part.faces.len());
        let uri = format!("{}://{}", kind.scheme(), socket.display());
        // The later service listens; the earlier one reconnects until it succeeds.
        part.faces.push(link_face(link_name(services, other), uri, is_here(high)));
    }
    let position = Position::default();
    let mut connections = BTreeSet::new();
    let mut received_kinds: BTreeMap<usize, BTreeSet<u8>> = BTreeMap::new();
    for (from, to, connection) in connections_with_services(graph, placement) {
        let ends_here = to.is_none_or(|to| to == service);
        let source = match connection.from {
            _ if from != service => link_of.get(&from).copied().map(Source::Face),
            Source::Port(node, port) => {
                Some(Source::Port(index_in_part(&placement.nodes, node), port))
            }
            Source::Face(face) => Some(Source::Face(index_in_part(&placement.faces, face))),
            Source::Faces => Some(Source::Faces),
        };
        let target = match connection.to {
            _ if !ends_here => to.and_then(|to| link_of.get(&to)).copied().map(Target::Face),
            Target::Port(node, port) => {
                Some(Target::Port(index_in_part(&placement.nodes, node), port))
            }
            Target::Face(face) => Some(Target::Face(index_in_part(&placement.faces, face))),
            Target::Faces => Some(Target::Faces),
        };
        let touches_service = from == service || to == Some(service);
        if let (true, Some(source), Some(target)) = (touches_service, source, target) {
            if from != service {
                received_kinds
                    .entry(from)
                    .or_default()
                    .extend(passing_kinds(graph, connection).map(|kind| kind as u8));
            }
            connections.insert((source, target));
        }
    }
    // Replies that the graph sends straight to faces leave by the link their Interests came by, and
    // are passed on by their return label.
    for (other, link) in &link_of {
        if received_kinds.get(other).is_none_or(|kinds| kinds.len() < graph.face_kinds().len()) {
            connections.insert((Source::Face(*link), Target::Faces));
        }
    }
    part.connections =
        connections.into_iter().map(|(from, to)| Connection { from, to, position }).collect();
    part
}
