//! Elements that remember Interests, and whether their answers come back to them.
//!
//! An element that remembers an Interest (`claims_replies`) waits for the Data, or the Nack, that answers it. So from where its Interests leave the graph,
//! what comes back must get to it. Where an Interest passes two such elements, what the second one gives back must get to the first one:
//! else both would answer the same asker, or one of them for nobody.

use crate::{From, Graph, Problem, To};
use nw_element_api::Kind;
use std::collections::BTreeSet;

/// Where packets of a kind get to.
#[derive(Default)]
struct Reach {
    nodes: BTreeSet<usize>,
    faces: BTreeSet<To>,
}

pub(super) fn check(graph: &Graph, problems: &mut Vec<Problem>) {
    let claimers: Vec<usize> =
        (0..graph.nodes.len()).filter(|node| graph.nodes[*node].entry.claims_replies).collect();
    let mut told = BTreeSet::new();
    let asked: Vec<Reach> = claimers.iter().map(|node| from_node(graph, *node, Kind::Interest)).collect();
    let answered: Vec<Reach> =
        asked.iter().map(|asked| reach(graph, comes_from(graph, asked), Kind::Data)).collect();
    for (first, reach) in claimers.iter().zip(&asked) {
        for (at, second) in claimers.iter().enumerate() {
            let is_behind = first != second && reach.nodes.contains(second);
            if !is_behind || asked[at].faces.is_empty() {
                continue;
            }
            let nested = answered[at].nodes.contains(second)
                && from_node(graph, *second, Kind::Data).nodes.contains(first);
            if !nested && !told.contains(second) {
                problems.push(both(graph, *first, *second));
                told.extend([*first, *second]);
            }
        }
    }
    for (at, node) in claimers.iter().enumerate().filter(|(_, node)| !told.contains(*node)) {
        for kind in [Kind::Data, Kind::Nack] {
            let entry = graph.nodes[*node].entry;
            let port = entry.ins.iter().find(|port| port.kinds.contains(&kind));
            let (Some(port), false) = (port, asked[at].faces.is_empty()) else { continue };
            if !reach(graph, comes_from(graph, &asked[at]), kind).nodes.contains(node) {
                problems.push(unanswered(graph, *node, kind, port.name, &asked[at]));
            }
        }
    }
}

/// By what the answers to Interests come in that left there.
fn comes_from(graph: &Graph, asked: &Reach) -> Vec<From> {
    let connected = |from: From| graph.connections.iter().any(|connection| connection.from == from);
    let mut from = BTreeSet::new();
    for to in &asked.faces {
        match to {
            // Whatever face the element chose: any may be it.
            To::Faces => from.extend(graph.sources().filter(|from| !matches!(from, From::Port(..)))),
            To::Face(face) if connected(From::Face(*face)) => drop(from.insert(From::Face(*face))),
            To::Face(_) => drop(from.insert(From::Faces)),
            To::Port(..) => {}
        }
    }
    from.into_iter().collect()
}

fn from_node(graph: &Graph, node: usize, kind: Kind) -> Reach {
    reach(graph, ports_of(graph, node, kind), kind)
}

/// Ports by which packets of a kind leave an element.
fn ports_of(graph: &Graph, node: usize, kind: Kind) -> Vec<From> {
    let ports = graph.nodes[node].entry.outs.iter().enumerate();
    ports
        .filter(|(_, port)| port.kinds.contains(&kind))
        .map(|(port, _)| From::Port(node, port as u8))
        .collect()
}

/// Where packets of a kind that come from there get to, whatever elements they pass.
fn reach(graph: &Graph, mut from: Vec<From>, kind: Kind) -> Reach {
    let mut reach = Reach::default();
    while let Some(next) = from.pop() {
        let Some(to) = graph.to_by_kind(next, kind) else { continue };
        match to {
            To::Face(_) | To::Faces => drop(reach.faces.insert(to)),
            To::Port(node, _) if graph.kinds_to(to).contains(&kind) => {
                if reach.nodes.insert(node) {
                    from.extend(ports_of(graph, node, kind));
                }
            }
            To::Port(..) => {}
        }
    }
    reach
}

fn both(graph: &Graph, first: usize, second: usize) -> Problem {
    let (one, two) = (&graph.nodes[first], &graph.nodes[second]);
    let port = |ports: &[nw_element_api::PortInfo]| {
        let port = ports.iter().find(|port| port.kinds.contains(&Kind::Data));
        port.map_or("PORT", |port| port.name)
    };
    Problem::new(
        two.place,
        format!(
            "`{}` and `{}` claim the same reply: each Interest passes both, and both wait for its Data",
            one.name, two.name
        ),
        format!(
            "leave one of them out, or lead answers to `{1}` first and from {1}.{2} to {0}.{3}",
            one.name,
            two.name,
            port(two.entry.outs),
            port(one.entry.ins)
        ),
    )
}

fn unanswered(graph: &Graph, node: usize, kind: Kind, port: &str, asked: &Reach) -> Problem {
    let kind = super::flow::kind_name(kind);
    let name = &graph.nodes[node].name;
    let faces: Vec<String> = asked.faces.iter().map(|to| graph.to_name(*to)).collect();
    Problem::new(
        graph.nodes[node].place,
        format!(
            "`{name}` sends Interests to {} and waits for answers, but no {kind} comes back to it",
            faces.join(", ")
        ),
        format!("lead {kind} packets that come by {} to {name}.{port}", faces.join(", ")),
    )
}
