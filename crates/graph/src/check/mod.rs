//! Says of a graph why it can't work: everything, before anything starts.
//!
//! | file | what |
//! |---|---|
//! | `flow.rs` | which kinds of packets pass where: ports that nobody connected, kinds that would be lost, what nothing reaches |
//! | `replies.rs` | elements that remember Interests, and whether their answers come back to them |
//! | `chosen.rs` | Interests for which nobody chose a face |
//! | `circles.rs` | ways on which packets could go round for ever |
//! | `parameters.rs` | parameters, by making every element once |
//!
//! What an element does is not known here. Of its ports this is taken for true: what comes in by one may leave by each that passes its kind; a port
//! that passes one kind may send such packets of the element's own making; one that passes several passes on what came in. A port with a parameter
//! of its name is off unless that is `"port"`.

mod chosen;
mod circles;
mod flow;
mod parameters;
mod replies;

use crate::model::FACES;
use crate::{From, Graph, Problem, To};
use flow::Flow;
pub(crate) use flow::kind_name;
use nw_faces::FaceUri;
use nw_faces::uri::UNIX_PATH_LEN_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Ends of connections whose other end could not be read. Whoever complained about that has said enough.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loose {
    pub from: Vec<From>,
    pub to: Vec<To>,
    /// Something could not be read: what is missing may stand there.
    pub statement: bool,
}

/// All that is wrong with a graph; nothing is, when it can run.
pub fn check(graph: &Graph) -> Vec<Problem> {
    check_with(graph, &Loose::default())
}

pub(crate) fn check_with(graph: &Graph, loose: &Loose) -> Vec<Problem> {
    let mut problems = Vec::new();
    names(graph, &mut problems);
    if foreign(graph, &mut problems) {
        return problems;
    }
    twice(graph, &mut problems);
    parameters::check(graph, &mut problems);
    faces(graph, loose, &mut problems);
    let flow = Flow::of(graph, loose);
    flow::check(graph, loose, &flow, &mut problems);
    circles::check(graph, &flow, &mut problems);
    chosen::check(graph, &mut problems);
    if !loose.statement {
        replies::check(graph, &mut problems);
    }
    problems.sort();
    problems
}

/// Each name names one thing.
fn names(graph: &Graph, problems: &mut Vec<Problem>) {
    let mut known = BTreeMap::new();
    let faces = graph.faces.iter().map(|face| (&face.name, face.place));
    let nodes = graph.nodes.iter().map(|node| (&node.name, node.place));
    let mut all: Vec<_> = faces.chain(nodes).collect();
    all.sort_by_key(|(_, place)| *place);
    for (name, place) in all {
        if [FACES, "face", "test"].contains(&name.as_str()) {
            let what = format!("`{name}` is a word of the language");
            problems.push(Problem::new(place, what, "give it another name"));
        }
        match known.get(name) {
            None => drop(known.insert(name, place)),
            Some(first) => {
                let what =
                    format!("`{name}` is declared a second time: it is in line {} already", first.line);
                problems.push(Problem::new(place, what, "give one of the two another name"));
            }
        }
    }
}

/// Connections of what is not in the graph: no file can say so, a program can.
fn foreign(graph: &Graph, problems: &mut Vec<Problem>) -> bool {
    let node = |at: usize| graph.nodes.get(at).map(|node| node.entry);
    let has_from = |from| match from {
        From::Faces => true,
        From::Face(face) => face < graph.faces.len(),
        From::Port(at, port) => node(at).is_some_and(|entry| usize::from(port) < entry.outs.len()),
    };
    let has_to = |to| match to {
        To::Faces => true,
        To::Face(face) => face < graph.faces.len(),
        To::Port(at, port) => node(at).is_some_and(|entry| usize::from(port) < entry.ins.len()),
    };
    let before = problems.len();
    for connection in &graph.connections {
        if !has_from(connection.from) || !has_to(connection.to) {
            let what =
                format!("{:?} -> {:?}: one of them is not in the graph", connection.from, connection.to);
            problems.push(Problem::new(
                connection.place,
                what,
                "leave the connection out, or add what it names",
            ));
        }
    }
    problems.len() > before
}

/// What leaves somewhere goes to one place; what comes by a face, to one for each kind.
fn twice(graph: &Graph, problems: &mut Vec<Problem>) {
    for (at, connection) in graph.connections.iter().enumerate() {
        let is_face = !matches!(connection.from, From::Port(..));
        let kinds = |to: To| if is_face && !matches!(to, To::Port(..)) { &[] } else { graph.kinds_to(to) };
        let both =
            |to: To| to == connection.to || kinds(to).iter().any(|kind| kinds(connection.to).contains(kind));
        let mut before = graph.connections[..at].iter();
        let Some(first) = before.find(|other| other.from == connection.from && (!is_face || both(other.to)))
        else {
            continue;
        };
        let from = graph.from_name(connection.from);
        let what = match first.place.line {
            0 => format!("`{from}` is connected already"),
            line => format!("`{from}` is connected already, in line {line}, to {}", graph.to_name(first.to)),
        };
        let remedy = match first.to == connection.to {
            true => "leave one of the two out",
            false => "leave one of the two out, or put a `tee` behind it, which makes two packets of one",
        };
        problems.push(Problem::new(connection.place, what, remedy));
    }
}

/// Faces whose packets go nowhere, and packets that go to a face that is nobody.
fn faces(graph: &Graph, loose: &Loose, problems: &mut Vec<Problem>) {
    for connection in &graph.connections {
        if let To::Face(face) = connection.to
            && graph.faces[face].listens
            && !graph.faces[face].is_single
        {
            let name = &graph.faces[face].name;
            let what = format!("face `{name}` listens: several may be connected to it, or nobody");
            let remedy =
                format!("write {} -> faces: it goes to the one that asked", graph.from_name(connection.from));
            problems.push(Problem::new(connection.place, what, remedy));
        }
    }
    for face in &graph.faces {
        if let Some(Ok(uri)) = face.uri.as_deref().map(str::parse::<FaceUri>)
            && let Some(path) = uri.path()
            && path.as_os_str().len() > UNIX_PATH_LEN_MAX
        {
            let len = path.as_os_str().len();
            let what = format!("face `{}` has a path of {len} octets", face.name);
            let remedy = format!("give it one of {UNIX_PATH_LEN_MAX} at most: sockets can have no longer");
            problems.push(Problem::new(face.place, what, remedy));
        }
    }
    let mut defaults = graph.faces.iter().filter(|face| face.is_default);
    if let (Some(first), Some(second)) = (defaults.next(), defaults.next()) {
        let what = format!("faces `{}` and `{}` are both the default", first.name, second.name);
        problems.push(Problem::new(second.place, what, "leave `default` out at one of them"));
    }
    if graph.faces.is_empty() && !loose.statement {
        let place = crate::Place { line: 1, column: 1 };
        let what = "no face is declared: packets can neither come nor leave";
        problems.push(Problem::new(place, what, "write face NAME = URI, or face NAME listens URI"));
        return;
    }
    let from: BTreeSet<From> = graph
        .connections
        .iter()
        .map(|connection| connection.from)
        .chain(loose.from.iter().copied())
        .collect();
    if from.contains(&From::Faces) || loose.statement && graph.connections.is_empty() {
        return;
    }
    for (at, face) in graph.faces.iter().enumerate() {
        if !from.contains(&From::Face(at)) {
            let what = format!("packets that come by face `{}` go nowhere", face.name);
            let remedy = format!(
                "write {} -> ELEMENT.PORT, or `faces -> ELEMENT.PORT` for all faces without a line of their own",
                face.name
            );
            problems.push(Problem::new(face.place, what, remedy));
        }
    }
}
