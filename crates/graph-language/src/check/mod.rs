//! Finds everything that keeps a graph from running, before anything is started.
//!
//! | file | reports |
//! |---|---|
//! | `flow.rs` | unconnected ports, lost packet kinds, elements that no packet reaches |
//! | `replies.rs` | elements that track pending Interests, but do not receive the replies |
//! | `egress_choice.rs` | Interests that leave by `faces` without an egress face |
//! | `cycles.rs` | cycles on which packets could loop forever |
//! | `parameters.rs` | invalid parameters, found by building each element once |
//! | `network.rs` | hosts, services, bounds, links, routes, trust and defence that don't fit the graph |
//! | `services.rs` | services that can't run alone, and paths across them that are too long |
//!
//! The checker does not know what an element does. It assumes of its ports: a packet that enters by
//! one port may leave by every output port that passes its kind; a port that passes one kind may
//! emit packets the element makes itself; a port that passes several kinds passes on what came in.
//! An output port with a parameter of the same name is off unless the parameter is `"port"`.

mod cycles;
mod egress_choice;
mod flow;
mod network;
mod parameters;
mod replies;
mod services;

use crate::model::FACES;
use crate::{Graph, Problem, Source, Target};
use flow::Flow;
pub(crate) use flow::kind_name;
pub(crate) use network::{check_network, has_routes};
use nw_link::FaceUri;
use nw_link::uri::UNIX_PATH_LEN_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Ends of connections whose other end could not be read. That problem is already reported, so
/// these ends cause no further ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unresolved {
    pub from: Vec<Source>,
    pub to: Vec<Target>,
    /// True if some statement could not be read: what seems to be missing may have been there.
    pub statement: bool,
}

/// Returns all problems of a graph, sorted by position. A graph without problems can run.
pub fn check(graph: &Graph) -> Vec<Problem> {
    check_with(graph, &Unresolved::default())
}

pub(crate) fn check_with(graph: &Graph, unresolved: &Unresolved) -> Vec<Problem> {
    let mut problems = Vec::new();
    names(graph, &mut problems);
    if missing_endpoints(graph, &mut problems) {
        return problems;
    }
    duplicate_connections(graph, &mut problems);
    parameters::check(graph, &mut problems);
    faces(graph, unresolved, &mut problems);
    let flow = Flow::new(graph, unresolved);
    flow::check(graph, unresolved, &flow, &mut problems);
    cycles::check(graph, &flow, &mut problems);
    egress_choice::check(graph, &mut problems);
    if !unresolved.statement {
        replies::check(graph, &mut problems);
    }
    problems.sort();
    problems
}

/// Reports names that are used twice or are words of the language.
fn names(graph: &Graph, problems: &mut Vec<Problem>) {
    let mut known = BTreeMap::new();
    let faces = graph.faces.iter().map(|face| (&face.name, face.position));
    let nodes = graph.nodes.iter().map(|node| (&node.name, node.position));
    let mut all: Vec<_> = faces.chain(nodes).collect();
    all.sort_by_key(|(_, position)| *position);
    for (name, position) in all {
        if [FACES, "face", "test"].contains(&name.as_str()) {
            let what = format!("`{name}` is a word of the language");
            problems.push(Problem::new(position, what, "give it another name"));
        }
        match known.get(name) {
            None => drop(known.insert(name, position)),
            Some(first) => {
                let what = format!(
                    "`{name}` is declared twice: the first declaration is in line {}",
                    first.line
                );
                problems.push(Problem::new(position, what, "give one of the two another name"));
            }
        }
    }
}

/// Reports connections to items outside the graph's lists. No file can contain them, but a program
/// can build them.
fn missing_endpoints(graph: &Graph, problems: &mut Vec<Problem>) -> bool {
    let node = |at: usize| graph.nodes.get(at).map(|node| node.entry);
    let has_from = |from| match from {
        Source::Faces => true,
        Source::Face(face) => face < graph.faces.len(),
        Source::Port(at, port) => {
            node(at).is_some_and(|entry| usize::from(port) < entry.outs.len())
        }
    };
    let has_to = |to| match to {
        Target::Faces => true,
        Target::Face(face) => face < graph.faces.len(),
        Target::Port(at, port) => node(at).is_some_and(|entry| usize::from(port) < entry.ins.len()),
    };
    let before = problems.len();
    for connection in &graph.connections {
        if !has_from(connection.from) || !has_to(connection.to) {
            let what = format!(
                "{:?} -> {:?}: one end is not in the graph",
                connection.from, connection.to
            );
            problems.push(Problem::new(
                connection.position,
                what,
                "remove the connection, or add what it refers to",
            ));
        }
    }
    problems.len() > before
}

/// Reports a second connection of one output port, or of one face for the same packet kind.
fn duplicate_connections(graph: &Graph, problems: &mut Vec<Problem>) {
    for (at, connection) in graph.connections.iter().enumerate() {
        let is_face = !matches!(connection.from, Source::Port(..));
        let kinds = |to: Target| {
            if is_face && !matches!(to, Target::Port(..)) { &[] } else { graph.kinds_into(to) }
        };
        let conflicts = |to: Target| {
            to == connection.to || kinds(to).iter().any(|kind| kinds(connection.to).contains(kind))
        };
        let mut before = graph.connections[..at].iter();
        let Some(first) = before
            .find(|earlier| earlier.from == connection.from && (!is_face || conflicts(earlier.to)))
        else {
            continue;
        };
        let from = graph.source_name(connection.from);
        let what = match first.position.line {
            0 => format!("`{from}` is already connected"),
            line => {
                format!(
                    "`{from}` is already connected, in line {line}, to {}",
                    graph.target_name(first.to)
                )
            }
        };
        let remedy = match first.to == connection.to {
            true => "remove one of the two",
            false => "remove one of the two, or put a `tee` after it, which copies packets",
        };
        problems.push(Problem::new(connection.position, what, remedy));
    }
}

/// Reports faces without connections, faces that nothing can be sent to, unusable paths and missing
/// or repeated defaults.
fn faces(graph: &Graph, unresolved: &Unresolved, problems: &mut Vec<Problem>) {
    for connection in &graph.connections {
        if let Target::Face(face) = connection.to
            && graph.faces[face].is_listener
            && !graph.faces[face].is_single_peer
        {
            let name = &graph.faces[face].name;
            let what = format!("face `{name}` listens: there may be several peers, or none");
            let remedy = format!(
                "write {} -> faces: each packet then goes to the peer that requested it",
                graph.source_name(connection.from)
            );
            problems.push(Problem::new(connection.position, what, remedy));
        }
    }
    for face in &graph.faces {
        if let Some(Ok(uri)) = face.uri.as_deref().map(str::parse::<FaceUri>)
            && let Some(path) = uri.path()
            && path.as_os_str().len() > UNIX_PATH_LEN_MAX
        {
            let len = path.as_os_str().len();
            let what = format!("face `{}` has a path of {len} bytes", face.name);
            let remedy =
                format!("shorten it to at most {UNIX_PATH_LEN_MAX} bytes, the limit for sockets");
            problems.push(Problem::new(face.position, what, remedy));
        }
    }
    let mut defaults = graph.faces.iter().filter(|face| face.is_default);
    if let (Some(first), Some(second)) = (defaults.next(), defaults.next()) {
        let what = format!("faces `{}` and `{}` are both the default", first.name, second.name);
        problems.push(Problem::new(second.position, what, "remove `default` from one of them"));
    }
    if graph.faces.is_empty() && !unresolved.statement {
        let position = crate::Position { line: 1, column: 1 };
        let what = "no face is declared: no packet can enter or leave";
        problems.push(Problem::new(
            position,
            what,
            "write face NAME = URI, or face NAME listens URI",
        ));
        return;
    }
    let from: BTreeSet<Source> = graph
        .connections
        .iter()
        .map(|connection| connection.from)
        .chain(unresolved.from.iter().copied())
        .collect();
    if from.contains(&Source::Faces) || unresolved.statement && graph.connections.is_empty() {
        return;
    }
    for (at, face) in graph.faces.iter().enumerate() {
        if !from.contains(&Source::Face(at)) {
            let what = format!("packets from face `{}` are not connected to anything", face.name);
            let remedy = format!(
                "write {} -> ELEMENT.PORT, or `faces -> ELEMENT.PORT` for all faces without a line of their own",
                face.name
            );
            problems.push(Problem::new(face.position, what, remedy));
        }
    }
}
