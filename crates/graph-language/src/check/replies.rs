//! Elements that track pending Interests, and whether the replies come back to them.
//!
//! An element that tracks pending Interests waits for the Data or Nack that satisfies each. So
//! packets that enter by the faces where its Interests leave must reach it. If an Interest passes
//! two such elements, what the second one emits must reach the first one: otherwise both would
//! reply to the same consumer, or one would wait in vain.

use crate::{Graph, Problem, Source, Target};
use nw_element_api::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes and faces that packets of one kind reach.
#[derive(Default)]
struct Reach {
    nodes: BTreeSet<usize>,
    faces: BTreeSet<Target>,
}

/// A graph with the targets of each source.
struct Index<'a> {
    graph: &'a Graph,
    targets: BTreeMap<Source, Vec<Target>>,
}

impl<'a> Index<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut targets: BTreeMap<Source, Vec<Target>> = BTreeMap::new();
        for connection in &graph.connections {
            targets.entry(connection.from).or_default().push(connection.to);
        }
        Index { graph, targets }
    }

    /// Does what [`Graph::target_for`] does, without a search through all connections.
    fn target_for(&self, from: Source, kind: Kind) -> Option<Target> {
        let targets = self.targets.get(&from)?;
        let accepts = |to: &&Target| {
            matches!(to, Target::Port(..)) && self.graph.kinds_into(**to).contains(&kind)
        };
        match from {
            Source::Port(..) => targets.first().copied(),
            Source::Face(_) | Source::Faces => targets
                .iter()
                .find(accepts)
                .or_else(|| targets.iter().find(|to| !matches!(to, Target::Port(..))))
                .copied(),
        }
    }
}

pub(super) fn check(graph: &Graph, problems: &mut Vec<Problem>) {
    let index = Index::new(graph);
    let trackers: Vec<usize> =
        (0..graph.nodes.len()).filter(|node| graph.nodes[*node].entry.tracks_pending).collect();
    let mut reported = BTreeSet::new();
    let requests: Vec<Reach> =
        trackers.iter().map(|node| from_node(&index, *node, Kind::Interest)).collect();
    let replies: Vec<Reach> = requests
        .iter()
        .map(|requests| reach(&index, reply_sources(&index, requests), Kind::Data))
        .collect();
    for (first, reach) in trackers.iter().zip(&requests) {
        for (at, second) in trackers.iter().enumerate() {
            let is_behind = first != second && reach.nodes.contains(second);
            if !is_behind || requests[at].faces.is_empty() {
                continue;
            }
            let nested = replies[at].nodes.contains(second)
                && from_node(&index, *second, Kind::Data).nodes.contains(first);
            if !nested && !reported.contains(second) {
                problems.push(same_reply(graph, *first, *second));
                reported.extend([*first, *second]);
            }
        }
    }
    for (at, node) in trackers.iter().enumerate().filter(|(_, node)| !reported.contains(*node)) {
        for kind in [Kind::Data, Kind::Nack] {
            let entry = graph.nodes[*node].entry;
            let port = entry.ins.iter().find(|port| port.kinds.contains(&kind));
            let (Some(port), false) = (port, requests[at].faces.is_empty()) else { continue };
            if !reach(&index, reply_sources(&index, &requests[at]), kind).nodes.contains(node) {
                problems.push(unanswered(graph, *node, kind, port.name, &requests[at]));
            }
        }
    }
}

/// Returns the sources by which replies to these Interests enter the graph.
fn reply_sources(index: &Index<'_>, requests: &Reach) -> Vec<Source> {
    let mut from = BTreeSet::new();
    for to in &requests.faces {
        match to {
            // The element may have chosen any face.
            Target::Faces => {
                from.extend(index.targets.keys().filter(|from| !matches!(from, Source::Port(..))))
            }
            Target::Face(face) if index.targets.contains_key(&Source::Face(*face)) => {
                from.insert(Source::Face(*face));
            }
            Target::Face(_) => drop(from.insert(Source::Faces)),
            Target::Port(..) => {}
        }
    }
    from.into_iter().collect()
}

fn from_node(index: &Index<'_>, node: usize, kind: Kind) -> Reach {
    reach(index, ports_of(index.graph, node, kind), kind)
}

/// Returns the output ports that emit packets of a kind.
fn ports_of(graph: &Graph, node: usize, kind: Kind) -> Vec<Source> {
    let ports = graph.nodes[node].entry.outs.iter().enumerate();
    ports
        .filter(|(_, port)| port.kinds.contains(&kind))
        .map(|(port, _)| Source::Port(node, port as u8))
        .collect()
}

/// Returns everything that packets of a kind reach from these sources.
fn reach(index: &Index<'_>, mut from: Vec<Source>, kind: Kind) -> Reach {
    let graph = index.graph;
    let mut reach = Reach::default();
    while let Some(next) = from.pop() {
        let Some(to) = index.target_for(next, kind) else { continue };
        match to {
            Target::Face(_) | Target::Faces => drop(reach.faces.insert(to)),
            Target::Port(node, _) if graph.kinds_into(to).contains(&kind) => {
                if reach.nodes.insert(node) {
                    from.extend(ports_of(graph, node, kind));
                }
            }
            Target::Port(..) => {}
        }
    }
    reach
}

fn same_reply(graph: &Graph, first: usize, second: usize) -> Problem {
    let (one, two) = (&graph.nodes[first], &graph.nodes[second]);
    let port = |ports: &[nw_element_api::PortInfo]| {
        let port = ports.iter().find(|port| port.kinds.contains(&Kind::Data));
        port.map_or("PORT", |port| port.name)
    };
    Problem::new(
        two.position,
        format!(
            "`{}` and `{}` wait for the same reply: each Interest passes both, and both wait for its Data",
            one.name, two.name
        ),
        format!(
            "remove one of them, or connect replies to `{1}` first, and {1}.{2} to {0}.{3}",
            one.name,
            two.name,
            port(two.entry.outs),
            port(one.entry.ins)
        ),
    )
}

fn unanswered(graph: &Graph, node: usize, kind: Kind, port: &str, requests: &Reach) -> Problem {
    let kind = super::flow::kind_name(kind);
    let name = &graph.nodes[node].name;
    let faces: Vec<String> = requests.faces.iter().map(|to| graph.target_name(*to)).collect();
    Problem::new(
        graph.nodes[node].position,
        format!(
            "`{name}` sends Interests to {} and waits for replies, but no {kind} comes back to it",
            faces.join(", ")
        ),
        format!("connect {kind} packets that come from {} to {name}.{port}", faces.join(", ")),
    )
}
