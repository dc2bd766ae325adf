//! Services of a network, each checked as the graph it will run, and the paths across them.

use super::network::service_named;
use crate::network::{Network, STATELESS_SERVICES_MAX, is_stateless, overlong_label_path};
use crate::partition::{Part, partition};
use crate::{Graph, Position, Problem, Target};
use nw_element_api::{Kind, Value};
use std::collections::BTreeSet;

/// Reports services that can't run alone, links that can't be made, and paths that are too long or
/// lead in a circle.
pub(super) fn check(graph: &Graph, network: &Network, problems: &mut Vec<Problem>) {
    let groups = network.groups(graph);
    let parts = match partition(&without_static_routes(graph, network), &groups) {
        Ok(parts) => parts,
        Err(found) => return problems.extend(found),
    };
    listeners(network, &parts, problems);
    links(graph, network, &parts, problems);
    if !problems.is_empty() {
        return;
    }
    let edges = edges(network, &parts);
    label_budget(network, &parts, &edges, problems);
    rings(network, &parts, problems);
    routes(network, &parts, problems);
}

/// Returns the graph without the routes that the parser added: those that do not fit are reported
/// with their own position.
fn without_static_routes(graph: &Graph, network: &Network) -> Graph {
    let mut graph = graph.clone();
    for node in &mut graph.nodes {
        let own = network.routes.iter().filter(|route| route.element == node.name).count();
        if let Some((_, Value::List(list))) =
            node.parameters.0.iter_mut().find(|(name, _)| name == "routes")
        {
            list.truncate(list.len().saturating_sub(own));
        }
    }
    graph
}

/// Returns the position of a service in the file: of its line, else of its first element.
fn position(network: &Network, part: &Part) -> Position {
    let line = network.services.iter().find(|service| service.name == part.name);
    let first = part.graph.nodes.first().map(|node| node.position);
    line.map(|service| service.position).or(first).unwrap_or_default()
}

/// Reports services with several instances to which peers connect.
fn listeners(network: &Network, parts: &[Part], problems: &mut Vec<Problem>) {
    for scale in network.scales.iter().filter(|scale| scale.max > 1) {
        let Some(part) = parts.iter().find(|part| part.name == scale.service) else { continue };
        let is_link = |at: usize| part.links.iter().any(|link| link.face == at);
        for (at, face) in part.graph.faces.iter().enumerate() {
            if face.is_listener && !is_link(at) {
                problems.push(Problem::new(
                    scale.position,
                    format!(
                        "`{}` can't have several instances: peers connect to its face `{}`",
                        part.name, face.name
                    ),
                    format!(
                        "put a packet_dispatcher before it, in a service of its own with face `{}`",
                        face.name
                    ),
                ));
            }
        }
    }
}

/// Returns the index of the part with a face.
fn part_of_face(parts: &[Part], face: &str) -> Option<usize> {
    parts.iter().position(|part| part.graph.face_index(face).is_some())
}

/// Reports links between services without connections, within one service, or of a transport that
/// does not reach.
fn links(graph: &Graph, network: &Network, parts: &[Part], problems: &mut Vec<Problem>) {
    let mut known = BTreeSet::new();
    for link in &network.links {
        let is_join = graph.face_index(&link.from).is_some();
        let ends = [&link.from, &link.to].map(|name| match is_join {
            true => part_of_face(parts, name),
            false => service_named(graph, network, name)
                .and_then(|service| parts.iter().position(|part| part.name == service)),
        });
        let [Some(from), Some(to)] = ends else { continue };
        let names = format!("`{}` and `{}`", link.from, link.to);
        if from == to {
            problems.push(Problem::new(
                link.position,
                format!("{names} are in one service: there is no link between them"),
                "remove the line, or put them into two services",
            ));
        } else if !is_join && !parts[from].links.iter().any(|known| known.other == to) {
            problems.push(Problem::new(
                link.position,
                format!("no connection leads from one of {names} to the other"),
                "connect ports of both, or join a face of each: link FACE -> FACE",
            ));
        } else if !is_join && !known.insert((from.min(to), from.max(to))) {
            let message = format!("the link of {names} is given twice");
            problems.push(Problem::new(link.position, message, "remove one of the two lines"));
        }
        let hosts = [from, to].map(|part| network.host_of(&parts[part].name));
        if link.kind.is_some_and(|kind| kind.is_local()) && hosts[0] != hosts[1] {
            problems.push(Problem::new(
                link.position,
                format!("{names} are on two hosts, which this transport can't connect"),
                "write over tcp or over udp, or put both on one host",
            ));
        }
    }
    for (at, part) in parts.iter().enumerate() {
        let joined = network.links.iter().filter_map(|link| {
            let ends = (part_of_face(parts, &link.from)?, part_of_face(parts, &link.to)?);
            match ends {
                (from, to) if from == at => Some(to),
                (from, to) if to == at => Some(from),
                _ => None,
            }
        });
        let others: BTreeSet<usize> =
            part.links.iter().map(|link| link.other).chain(joined).collect();
        let Some(host) = network.host_of(&part.name) else { continue };
        let crosses = |other: &usize| network.host_of(&parts[*other].name) != Some(host);
        if let (None, Some(other)) = (host.address, others.iter().find(|other| crosses(other))) {
            problems.push(Problem::new(
                host.position,
                format!(
                    "host `{}` has no address, but service `{}` is linked to `{}` on another host",
                    host.name, part.name, parts[*other].name
                ),
                format!("write address=IP after host {}", host.name),
            ));
        }
    }
}

/// Returns, for each part, the parts that Interests go to from it.
fn edges(network: &Network, parts: &[Part]) -> Vec<Vec<usize>> {
    let mut edges: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); parts.len()];
    for (at, part) in parts.iter().enumerate() {
        for link in &part.links {
            let leads = |connection: &&crate::Connection| {
                connection.to == Target::Face(link.face)
                    && part.graph.kinds_from(connection.from).contains(&Kind::Interest)
            };
            if part.graph.connections.iter().any(|connection| leads(&connection)) {
                edges[at].insert(link.other);
            }
        }
    }
    for link in &network.links {
        let ends = (part_of_face(parts, &link.from), part_of_face(parts, &link.to));
        if let (Some(from), Some(to)) = ends {
            edges[from].insert(to);
            edges[to].insert(from);
        }
    }
    edges.into_iter().map(|others| others.into_iter().collect()).collect()
}

/// Reports a path across more services with return labels than a token has room for.
fn label_budget(
    network: &Network,
    parts: &[Part],
    edges: &[Vec<usize>],
    problems: &mut Vec<Problem>,
) {
    let is_stateless: Vec<bool> = parts.iter().map(|part| is_stateless(&part.graph)).collect();
    if let Some(path) = overlong_label_path(&is_stateless, edges) {
        let names: Vec<&str> = path.iter().map(|at| parts[*at].name.as_str()).collect();
        problems.push(Problem::new(
            position(network, &parts[path[0]]),
            format!(
                "{} services in a row without a pending Interest table: {}; replies find their way across at most {STATELESS_SERVICES_MAX}",
                path.len(),
                names.join(" -> ")
            ),
            "put two of them into one service, or a backward_router in between",
        ));
    }
}

/// Reports joined faces that close a ring of services in which nothing detects loops.
fn rings(network: &Network, parts: &[Part], problems: &mut Vec<Problem>) {
    let guards = |part: &Part| part.graph.nodes.iter().any(|node| node.entry.detects_loops);
    let mut group: Vec<usize> = (0..parts.len()).collect();
    for link in &network.links {
        let ends = (part_of_face(parts, &link.from), part_of_face(parts, &link.to));
        let (Some(from), Some(to)) = ends else { continue };
        if guards(&parts[from]) || guards(&parts[to]) {
            continue;
        }
        let (one, other) = (group[from], group[to]);
        if one == other {
            problems.push(Problem::new(
                link.position,
                format!(
                    "this link closes a ring of services, of which `{}` and `{}` are two, and none of them detects loops",
                    parts[from].name, parts[to].name
                ),
                "put a backward_router into one of them, before its name_router",
            ));
        }
        group.iter_mut().filter(|group| **group == other).for_each(|group| *group = one);
    }
}

/// Reports routes whose face is in another service than their element.
fn routes(network: &Network, parts: &[Part], problems: &mut Vec<Problem>) {
    for route in &network.routes {
        let part = parts.iter().find(|part| part.graph.node_index(&route.element).is_some());
        if let Some(part) = part
            && part.graph.face_index(&route.face).is_none()
        {
            problems.push(Problem::new(
                route.position,
                format!(
                    "face `{}` is not in service `{}`, where `{}` is",
                    route.face, part.name, route.element
                ),
                "name a face of that service, or list the face in it",
            ));
        }
    }
}
