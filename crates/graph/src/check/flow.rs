//! Which kinds of packets pass where.

use super::Loose;
use crate::{Connection, From, Graph, Node, Problem, To};
use nw_element_api::{Kind, Value};
use nw_elements::catalogue;

/// A set of kinds of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub fn of(kinds: &[Kind]) -> Self {
        Kinds(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u8))
    }

    pub const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    pub const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    pub const fn without(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// For people.
    pub fn names(self) -> String {
        let known = crate::model::ALL_KINDS.iter().filter(|kind| self.has(**kind));
        let names: Vec<&str> = known.map(|kind| kind_name(*kind)).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => "nothing".to_owned(),
        }
    }
}

/// For people.
pub(crate) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Interest => "Interest",
        Kind::Data => "Data",
        Kind::Nack => "Nack",
    }
}

/// What comes in, element by element.
pub(super) struct Flow {
    entered: Vec<Kinds>,
}

impl Flow {
    /// What can come in when all kinds come by every face.
    pub fn of(graph: &Graph, loose: &Loose) -> Self {
        let mut flow = Flow { entered: vec![Kinds::default(); graph.nodes.len()] };
        for to in &loose.to {
            if let To::Port(node, _) = to {
                flow.entered[*node] = flow.entered[*node].or(Kinds::of(graph.kinds_to(*to)));
            }
        }
        // Kinds are only ever added, three to a node: this ends.
        loop {
            let before = flow.entered.clone();
            for connection in &graph.connections {
                if let To::Port(node, _) = connection.to {
                    flow.entered[node] = flow.entered[node].or(flow.passing(graph, connection));
                }
            }
            if flow.entered == before {
                return flow;
            }
        }
    }

    /// What passes a connection.
    pub fn passing(&self, graph: &Graph, connection: &Connection) -> Kinds {
        let goes_here = |kind: &&Kind| graph.to_by_kind(connection.from, **kind) == Some(connection.to);
        let here: Vec<Kind> = crate::model::ALL_KINDS.iter().filter(goes_here).copied().collect();
        let takes = Kinds::of(graph.kinds_to(connection.to));
        self.leaving(graph, connection.from).and(takes).and(Kinds::of(&here))
    }

    /// What can leave there.
    pub fn leaving(&self, graph: &Graph, from: From) -> Kinds {
        let declared = Kinds::of(graph.kinds_from(from));
        match from {
            From::Face(_) | From::Faces => declared,
            From::Port(node, port) if self.entered[node].is_empty() || is_off(&graph.nodes[node], port) => {
                Kinds::default()
            }
            From::Port(..) if graph.kinds_from(from).len() == 1 => declared,
            From::Port(node, _) => declared.and(self.entered[node]),
        }
    }
}

/// True for a port that has a parameter of its name, by which packets leave only if that is `"port"`.
fn is_off(node: &Node, port: u8) -> bool {
    let name = node.entry.outs[usize::from(port)].name;
    let Some(info) = node.entry.parameters.iter().find(|info| info.name == name) else { return false };
    match node.parameters.get(name) {
        Some(Value::Text(text)) => text != "port",
        Some(_) => false,
        None => info.default != "port",
    }
}

/// Ports nobody connected, kinds that would be lost, elements that nothing reaches.
pub(super) fn check(graph: &Graph, loose: &Loose, flow: &Flow, problems: &mut Vec<Problem>) {
    for connection in &graph.connections {
        lost(graph, flow, connection, problems);
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        if flow.entered[at].is_empty() {
            // Of several with one name the first is meant by connections; that there are several is said.
            if !loose.statement && graph.node(&node.name) == Some(at) && node.name != crate::model::FACES {
                problems.push(unreached(graph, at));
            }
            continue;
        }
        for (port, info) in node.entry.outs.iter().enumerate() {
            let from = From::Port(at, port as u8);
            let leaves = flow.leaving(graph, from);
            if leaves.is_empty() || graph.to(from).is_some() || loose.from.contains(&from) {
                continue;
            }
            let what =
                format!("`{}.{}` is not connected: {} would be lost", node.name, info.name, leaves.names());
            let remedy = match catalogue::find("sink") {
                Some(_) => format!(
                    "write {0}.{1} -> ELEMENT.PORT; where nobody wants them, NAME = sink and {0}.{1} -> NAME",
                    node.name, info.name
                ),
                None => format!("write {}.{} -> ELEMENT.PORT", node.name, info.name),
            };
            problems.push(Problem::new(node.place, what, remedy));
        }
    }
}

fn lost(graph: &Graph, flow: &Flow, connection: &Connection, problems: &mut Vec<Problem>) {
    let leaves = flow.leaving(graph, connection.from);
    let takes = match connection.from {
        From::Port(..) => Kinds::of(graph.kinds_to(connection.to)),
        // Several connections of a face take what they take together; what is missing is said where the first one stands.
        From::Face(_) | From::Faces => {
            let mut all = graph.connections.iter().filter(|other| other.from == connection.from);
            if all.next() != Some(connection) {
                return;
            }
            let others = all.map(|other| Kinds::of(graph.kinds_to(other.to)));
            others.fold(Kinds::of(graph.kinds_to(connection.to)), Kinds::or)
        }
    };
    let lost = leaves.without(takes);
    if lost.is_empty() {
        return;
    }
    let (from, to) = (graph.from_name(connection.from), graph.to_name(connection.to));
    let all_lost = leaves.and(takes).is_empty();
    let is_face = !matches!(connection.from, From::Port(..));
    let what = match is_face {
        true => format!("nothing takes {} that come from `{from}`", lost.names()),
        false => {
            let too = if all_lost { "" } else { ", too" };
            format!("`{to}` takes {} only, but `{from}` brings {}{too}", takes.names(), lost.names())
        }
    };
    let taker = || {
        let To::Port(node, _) = connection.to else { return None };
        let node = &graph.nodes[node];
        let port = node.entry.ins.iter().find(|port| leaves.without(Kinds::of(port.kinds)).is_empty())?;
        Some(format!("{}.{}", node.name, port.name))
    };
    let remedy = match taker() {
        Some(port) => format!("lead it to {port}, which takes them"),
        None if is_face => {
            format!(
                "write {from} -> ELEMENT.PORT once more for them, or lead {from} to a packet_dispatcher, which sorts them"
            )
        }
        None if all_lost => format!("lead it to a port that takes {}", lost.names()),
        None => "put a packet_dispatcher between, which sorts them".to_owned(),
    };
    problems.push(Problem::new(connection.place, what, remedy));
}

fn unreached(graph: &Graph, at: usize) -> Problem {
    let node = &graph.nodes[at];
    let leads = |to| matches!(to, To::Port(node, _) if node == at);
    let ports: Vec<String> =
        node.entry.ins.iter().map(|port| format!("{}.{}", node.name, port.name)).collect();
    match graph.connections.iter().any(|connection| leads(connection.to)) {
        false => Problem::new(
            node.place,
            format!("nothing leads to `{}`", node.name),
            format!("connect {}, or leave the element out", ports.join(" or ")),
        ),
        true => Problem::new(
            node.place,
            format!("no packet that comes by a face gets to `{}`", node.name),
            "connect what leads to it with a face, or leave both out",
        ),
    }
}
