//! Partitions a graph into parts, one per service. Elements are not changed: a connection between
//! two parts becomes a link, which is a face at both ends.
//!
//! On one link, packets of one kind can lead to one port only. Replies find their way back by it,
//! as to both sides a link is a face like any other.

use crate::model::{ALL_KINDS, Connection, Face, Graph, Position, Source, Target};
use crate::{Problem, check};
use nw_element_api::{FaceInfo, Kind, LinkType, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// One service of a partitioned graph.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name of the service.
    pub name: String,
    /// Graph that the service runs. Faces of links have no URI yet.
    pub graph: Graph,
    /// Links to other services.
    pub links: Vec<PartLink>,
}

/// A link of a service to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLink {
    /// Index of the face in the service's graph. The end at the later service listens.
    pub face: usize,
    /// Index of the service at the other end.
    pub other: usize,
}

/// Service index of each node and each face.
struct Placement {
    nodes: Vec<usize>,
    faces: Vec<usize>,
}

/// Partitions a checked graph. Each service has a name, and the names of its elements and faces. A
/// face that is not named belongs to the service of the element its packets enter.
///
/// # Errors
/// Everything that is wrong with the partition, and everything that keeps a part from running.
pub fn partition(
    graph: &Graph,
    services: &[(String, Vec<String>)],
) -> Result<Vec<Part>, Vec<Problem>> {
    let parts = split(graph, services)?;
    let mut problems = Vec::new();
    for part in &parts {
        problems.extend(check::check(&part.graph).into_iter().map(|problem| {
            let message = format!("service {} can't run: {}", part.name, problem.message);
            Problem { message, ..problem }
        }));
    }
    if problems.is_empty() { Ok(parts) } else { Err(problems) }
}

/// Partitions a graph as [`partition`] does, but does not check whether the parts can run: checking
/// builds every element.
///
/// # Errors
/// Everything that is wrong with the partition.
pub fn split(graph: &Graph, services: &[(String, Vec<String>)]) -> Result<Vec<Part>, Vec<Problem>> {
    let mut problems = Vec::new();
    let placement = placement(graph, services, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let links = find_links(graph, services, &placement, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let build = |service| build_part(graph, services, &placement, &links, service);
    Ok((0..services.len()).map(build).collect())
}

/// A problem without a position in a file.
fn problem(message: String, remedy: &str) -> Problem {
    Problem::new(Position::default(), message, remedy)
}

fn placement(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    problems: &mut Vec<Problem>,
) -> Placement {
    let mut service_of_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (service, (name, members)) in services.iter().enumerate() {
        if services[..service].iter().any(|(other, _)| other == name) {
            problems.push(problem(
                format!("service {name} is given twice"),
                "list all its members at once, or rename one",
            ));
        }
        for member in members {
            if graph.node_index(member).is_none() && graph.face_index(member).is_none() {
                problems.push(problem(
                    format!("service {name}: nothing in the graph is called {member:?}"),
                    "correct the name, or leave it out",
                ));
            } else if let Some(other) =
                service_of_name.insert(member, service).filter(|other| *other != service)
            {
                let message = format!("{member:?} belongs to {} and to {name}", services[other].0);
                problems.push(problem(message, "list it once"));
            }
        }
    }
    let mut nodes = Vec::new();
    for node in &graph.nodes {
        match service_of_name.get(node.name.as_str()) {
            Some(service) => nodes.push(*service),
            None => problems.push(Problem::new(
                node.position,
                format!("{:?} belongs to no service", node.name),
                "list it in one",
            )),
        }
    }
    let mut faces = Vec::new();
    if problems.is_empty() {
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
                None => problems.push(Problem::new(
                    face.position,
                    format!("face {:?} belongs to no service", face.name),
                    "list it in one",
                )),
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
    problems: &mut Vec<Problem>,
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
                let message = format!(
                    "from {} to {} {kind:?} packets would lead to {} and to {}",
                    services[from].0,
                    services[to].0,
                    graph.target_name(earlier),
                    graph.target_name(connection.to)
                );
                problems.push(Problem::new(
                    connection.position,
                    message,
                    "put both in one service, or give faces connections of their own",
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

/// Returns the name of the face that leads to another service.
fn link_name(services: &[(String, Vec<String>)], other: usize) -> String {
    format!("to_{}", services[other].0)
}

fn link_face(name: String, is_listener: bool) -> Face {
    Face {
        name,
        uri: None,
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
) -> Part {
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
        link_of.insert(other, part.faces.len());
        // The later service listens; the earlier one reconnects until it succeeds.
        part.faces.push(link_face(link_name(services, other), is_here(high)));
    }
    let mut connections = BTreeMap::new();
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
            connections.entry((source, target)).or_insert(connection.position);
        }
    }
    // Replies that the graph sends straight to faces leave by the link their Interests came by, and
    // are passed on by their return label.
    for (other, link) in &link_of {
        if received_kinds.get(other).is_none_or(|kinds| kinds.len() < ALL_KINDS.len()) {
            connections.entry((Source::Face(*link), Target::Faces)).or_default();
        }
    }
    let connection = |((from, to), position)| Connection { from, to, position };
    part.connections = connections.into_iter().map(connection).collect();
    let links = link_of.iter().map(|(other, face)| PartLink { face: *face, other: *other });
    Part { name: services[service].0.clone(), links: links.collect(), graph: part }
}
