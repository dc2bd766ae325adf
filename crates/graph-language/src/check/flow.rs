//! Which packet kinds pass each element and connection.

use super::Unresolved;
use crate::{Connection, Graph, Node, Problem, Source, Target};
use nw_element_api::Kind;
use nw_elements::catalogue;

/// A set of packet kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    /// Returns the set of these kinds.
    pub fn of(kinds: &[Kind]) -> Self {
        Kinds(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u8))
    }

    /// Returns the kinds in both sets.
    pub const fn intersection(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    /// Returns the kinds in either set.
    pub const fn union(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Returns the kinds in this set that are not in `other`.
    pub const fn difference(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the set contains a kind.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Returns the name of the kind, for messages.
    pub fn names(self) -> String {
        let known = crate::model::ALL_KINDS.iter().filter(|kind| self.contains(**kind));
        let names: Vec<&str> = known.map(|kind| kind_name(*kind)).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => "nothing".to_owned(),
        }
    }
}

/// Returns the name of the kind, for messages.
pub(crate) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Interest => "Interest",
        Kind::Data => "Data",
        Kind::Nack => "Nack",
        Kind::Publication => "Publication",
    }
}

/// The packet kinds that can enter each element.
pub(super) struct Flow {
    kinds_in: Vec<Kinds>,
}

impl Flow {
    /// Computes the kinds that can enter each element if faces send all kinds.
    pub fn new(graph: &Graph, unresolved: &Unresolved) -> Self {
        let mut flow = Flow { kinds_in: vec![Kinds::default(); graph.nodes.len()] };
        for to in &unresolved.to {
            if let Target::Port(node, _) = to {
                flow.kinds_in[*node] = flow.kinds_in[*node].union(Kinds::of(graph.kinds_into(*to)));
            }
        }
        // Sets only grow, by at most four kinds per node, so the loop ends.
        loop {
            let before = flow.kinds_in.clone();
            for connection in &graph.connections {
                if let Target::Port(node, _) = connection.to {
                    flow.kinds_in[node] =
                        flow.kinds_in[node].union(flow.passing(graph, connection));
                }
            }
            if flow.kinds_in == before {
                return flow;
            }
        }
    }

    /// Returns the kinds that pass a connection.
    pub fn passing(&self, graph: &Graph, connection: &Connection) -> Kinds {
        let goes_here =
            |kind: &&Kind| graph.target_for(connection.from, **kind) == Some(connection.to);
        let kinds_here: Vec<Kind> =
            crate::model::ALL_KINDS.iter().filter(goes_here).copied().collect();
        let accepted = Kinds::of(graph.kinds_into(connection.to));
        self.kinds_out(graph, connection.from)
            .intersection(accepted)
            .intersection(Kinds::of(&kinds_here))
    }

    /// Returns the kinds that can leave a source.
    pub fn kinds_out(&self, graph: &Graph, from: Source) -> Kinds {
        let declared = Kinds::of(graph.kinds_from(from));
        match from {
            Source::Face(_) | Source::Faces => declared,
            Source::Port(node, port)
                if self.kinds_in[node].is_empty() || is_off(&graph.nodes[node], port) =>
            {
                Kinds::default()
            }
            Source::Port(..) if graph.kinds_from(from).len() == 1 => declared,
            Source::Port(node, _) => declared.intersection(self.kinds_in[node]),
        }
    }
}

/// Returns whether a parameter keeps an output port closed.
fn is_off(node: &Node, port: u8) -> bool {
    node.entry.is_closed(port, &node.parameters)
}

/// Reports unconnected ports, packet kinds that would be lost, and elements that no packet reaches.
pub(super) fn check(
    graph: &Graph,
    unresolved: &Unresolved,
    flow: &Flow,
    problems: &mut Vec<Problem>,
) {
    for connection in &graph.connections {
        lost_kinds(graph, flow, connection, problems);
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        if flow.kinds_in[at].is_empty() {
            // If several nodes share a name, connections refer to the first; the duplicate is
            // reported elsewhere.
            if !unresolved.statement
                && graph.node_index(&node.name) == Some(at)
                && node.name != crate::model::FACES
            {
                problems.push(unreached(graph, at));
            }
            continue;
        }
        for (port, info) in node.entry.outs.iter().enumerate() {
            let from = Source::Port(at, port as u8);
            let leaves = flow.kinds_out(graph, from);
            if leaves.is_empty() || graph.target(from).is_some() || unresolved.from.contains(&from)
            {
                continue;
            }
            let what = format!(
                "`{}.{}` is not connected: {} would be lost",
                node.name,
                info.name,
                leaves.names()
            );
            let remedy = match catalogue::find("sink") {
                Some(_) => format!(
                    "write {0}.{1} -> ELEMENT.PORT, or, to discard them, NAME = sink and {0}.{1} -> NAME",
                    node.name, info.name
                ),
                None => format!("write {}.{} -> ELEMENT.PORT", node.name, info.name),
            };
            problems.push(Problem::new(node.position, what, remedy));
        }
    }
}

fn lost_kinds(graph: &Graph, flow: &Flow, connection: &Connection, problems: &mut Vec<Problem>) {
    let leaves = flow.kinds_out(graph, connection.from);
    let accepted = match connection.from {
        Source::Port(..) => Kinds::of(graph.kinds_into(connection.to)),
        // The connections of a face accept what they accept together; a missing kind is reported at
        // the first one.
        Source::Face(_) | Source::Faces => {
            let mut all = graph.connections.iter().filter(|other| other.from == connection.from);
            if all.next() != Some(connection) {
                return;
            }
            let others = all.map(|other| Kinds::of(graph.kinds_into(other.to)));
            others.fold(Kinds::of(graph.kinds_into(connection.to)), Kinds::union)
        }
    };
    let lost = leaves.difference(accepted);
    if lost.is_empty() {
        return;
    }
    let (from, to) = (graph.source_name(connection.from), graph.target_name(connection.to));
    let all_lost = leaves.intersection(accepted).is_empty();
    let is_face = !matches!(connection.from, Source::Port(..));
    let what = match is_face {
        true => format!("nothing accepts {} that come from `{from}`", lost.names()),
        false => {
            let too = if all_lost { "" } else { ", too" };
            format!(
                "`{to}` accepts only {}, but `{from}` sends {}{too}",
                accepted.names(),
                lost.names()
            )
        }
    };
    let accepting_port = || {
        let Target::Port(node, _) = connection.to else { return None };
        let node = &graph.nodes[node];
        let port = node
            .entry
            .ins
            .iter()
            .find(|port| leaves.difference(Kinds::of(port.kinds)).is_empty())?;
        Some(format!("{}.{}", node.name, port.name))
    };
    let remedy = match accepting_port() {
        Some(port) => format!("connect it to {port}, which accepts them"),
        None if is_face => {
            format!(
                "write another {from} -> ELEMENT.PORT for them, or connect {from} to a packet_dispatcher, which separates the kinds"
            )
        }
        None if all_lost => format!("connect it to a port that accepts {}", lost.names()),
        None => "put a packet_dispatcher in between, which separates the kinds".to_owned(),
    };
    problems.push(Problem::new(connection.position, what, remedy));
}

fn unreached(graph: &Graph, at: usize) -> Problem {
    let node = &graph.nodes[at];
    let leads = |to| matches!(to, Target::Port(node, _) if node == at);
    let ports: Vec<String> =
        node.entry.ins.iter().map(|port| format!("{}.{}", node.name, port.name)).collect();
    match graph.connections.iter().any(|connection| leads(connection.to)) {
        false => Problem::new(
            node.position,
            format!("nothing is connected to `{}`", node.name),
            format!("connect {}, or remove the element", ports.join(" or ")),
        ),
        true => Problem::new(
            node.position,
            format!("no packet from a face reaches `{}`", node.name),
            "connect the elements before it to a face, or remove them",
        ),
    }
}
