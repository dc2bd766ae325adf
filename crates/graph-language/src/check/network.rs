//! Mistakes in what a file says about its network: names, placement, bounds, links, routes, trust,
//! defence; and services that could not run alone.

use super::services;
use crate::network::{Attack, Network};
use crate::suggest::suggest;
use crate::{Graph, GraphFile, Node, Position, Problem};
use nw_element_api::Kind;
use nw_name::Name;
use nw_trust::pattern::Pattern;
use std::collections::BTreeMap;

/// Returns all problems of the network part of a file. Services are checked only if the graph has no
/// problem itself.
pub(crate) fn check_network(file: &GraphFile, is_graph_good: bool) -> Vec<Problem> {
    let (graph, network) = (&file.graph, &file.network);
    if network.is_empty() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    hosts(network, &mut problems);
    members(graph, network, &mut problems);
    scales(graph, network, &mut problems);
    joined_faces(graph, network, &mut problems);
    routes(graph, network, &mut problems);
    trust(network, &mut problems);
    defences(graph, network, &mut problems);
    if is_graph_good && problems.is_empty() {
        services::check(graph, network, &mut problems);
    }
    problems.sort();
    problems
}

/// Builds the problem of a name that is not known, with the nearest known name.
fn unknown<'a>(
    position: Position,
    message: String,
    name: &str,
    known: impl Iterator<Item = &'a str>,
    otherwise: &str,
) -> Problem {
    let near = suggest(name, known);
    let remedy = near.map_or(otherwise.to_owned(), |near| format!("did you mean `{near}`?"));
    Problem::new(position, message, remedy)
}

/// Reports names that occur twice.
fn twice<'a>(
    what: &str,
    items: impl Iterator<Item = (&'a str, Position)>,
    problems: &mut Vec<Problem>,
) {
    let mut first_positions: BTreeMap<&str, Position> = BTreeMap::new();
    for (name, position) in items {
        if let Some(first) = first_positions.get(name) {
            let message = format!("{what} `{name}` is given twice: first in line {}", first.line);
            problems.push(Problem::new(position, message, "remove or rename one of the two"));
        } else {
            first_positions.insert(name, position);
        }
    }
}

fn hosts(network: &Network, problems: &mut Vec<Problem>) {
    let named = network.hosts.iter().map(|host| (host.name.as_str(), host.position));
    twice("host", named, problems);
    for service in &network.services {
        let Some(name) = &service.host else { continue };
        if !network.hosts.iter().any(|host| host.name == *name) {
            problems.push(unknown(
                service.position,
                format!("service `{}` is on host `{name}`, which is not declared", service.name),
                name,
                network.hosts.iter().map(|host| host.name.as_str()),
                &format!("write host {name} = process"),
            ));
        }
    }
}

fn members(graph: &Graph, network: &Network, problems: &mut Vec<Problem>) {
    let named = network.services.iter().map(|service| (service.name.as_str(), service.position));
    twice("service", named, problems);
    let all = network.services.iter().flat_map(|service| &service.members);
    twice("member", all.map(|(name, position)| (name.as_str(), *position)), problems);
    for service in &network.services {
        for (member, position) in &service.members {
            if graph.node_index(member).is_none() && graph.face_index(member).is_none() {
                problems.push(unknown(
                    *position,
                    format!(
                        "service `{}`: nothing in this graph is called `{member}`",
                        service.name
                    ),
                    member,
                    item_names(graph),
                    "declare it, or leave it out",
                ));
            }
        }
        let has_element = |(member, _): &(String, Position)| graph.node_index(member).is_some();
        if !service.members.iter().any(has_element) {
            let message = format!("service `{}` has no element", service.name);
            problems.push(Problem::new(service.position, message, "list one, or remove the line"));
        }
        let is_other_element = graph.node_index(&service.name).is_some()
            && network.service_of(&service.name) != service.name;
        let lists_itself = service.members.iter().any(|(member, _)| *member == service.name);
        if graph.node_index(&service.name).is_some() && !is_other_element && !lists_itself {
            let message = format!("service `{0}` does not contain the element `{0}`", service.name);
            problems.push(Problem::new(
                service.position,
                message,
                "list the element, or rename the service",
            ));
        }
    }
}

fn item_names(graph: &Graph) -> impl Iterator<Item = &str> {
    let nodes = graph.nodes.iter().map(|node| node.name.as_str());
    nodes.chain(graph.faces.iter().map(|face| face.name.as_str()))
}

/// Returns the service that a name stands for: a service, or an element that is one of its own.
pub(super) fn service_named<'a>(
    graph: &Graph,
    network: &'a Network,
    name: &'a str,
) -> Option<&'a str> {
    let is_service = network.services.iter().any(|service| service.name == name);
    let is_element = graph.node_index(name).is_some();
    (is_service || is_element).then(|| if is_service { name } else { network.service_of(name) })
}

fn scales(graph: &Graph, network: &Network, problems: &mut Vec<Problem>) {
    let named = network.scales.iter().map(|scale| (scale.service.as_str(), scale.position));
    twice("scale", named, problems);
    for scale in &network.scales {
        match service_named(graph, network, &scale.service) {
            None => problems.push(unknown(
                scale.position,
                format!("no service or element is called `{}`", scale.service),
                &scale.service,
                service_names(graph, network),
                "write service NAME { … }, or the name of an element",
            )),
            Some(service) if service != scale.service => problems.push(Problem::new(
                scale.position,
                format!("`{}` is part of service `{service}`", scale.service),
                format!("write scale {service}, or put it into a service of its own"),
            )),
            Some(_) => {}
        }
        if scale.low >= scale.target || scale.target == 0.0 {
            let message = format!(
                "scale {}: low={:.0}% is not below target={:.0}%",
                scale.service,
                scale.low * 100.0,
                scale.target * 100.0
            );
            problems.push(Problem::new(scale.position, message, "lower low, or raise target"));
        }
    }
}

fn service_names<'a>(graph: &'a Graph, network: &'a Network) -> impl Iterator<Item = &'a str> {
    let services = network.services.iter().map(|service| service.name.as_str());
    services.chain(graph.nodes.iter().map(|node| node.name.as_str()))
}

/// Reports faces that lead nowhere, and joins that can't be made.
fn joined_faces(graph: &Graph, network: &Network, problems: &mut Vec<Problem>) {
    let mut joined: BTreeMap<&str, Position> = BTreeMap::new();
    for link in &network.links {
        let faces = [&link.from, &link.to].map(|name| graph.face_index(name));
        let services = [&link.from, &link.to].map(|name| service_named(graph, network, name));
        match (faces, services) {
            ([Some(_), Some(_)], _) => {
                for name in [&link.from, &link.to] {
                    let face = &graph.faces[graph.face_index(name).unwrap_or_default()];
                    if face.uri.is_some() {
                        problems.push(Problem::new(
                            link.position,
                            format!("face `{name}` has an address and can't be joined"),
                            format!("write face {name} alone"),
                        ));
                    }
                    if let Some(first) = joined.insert(name, link.position) {
                        problems.push(Problem::new(
                            link.position,
                            format!("face `{name}` is joined twice: first in line {}", first.line),
                            "declare another face for this link",
                        ));
                    }
                }
            }
            ([None, None], [Some(_), Some(_)]) => {}
            ([Some(_), None], [_, Some(_)]) | ([None, Some(_)], [Some(_), _]) => {
                let message = format!("`{}` and `{}`: one is a face", link.from, link.to);
                let remedy = "name two faces, or two services";
                problems.push(Problem::new(link.position, message, remedy));
            }
            _ => {
                for name in [&link.from, &link.to] {
                    let is_face = graph.face_index(name).is_some();
                    if !is_face && service_named(graph, network, name).is_none() {
                        let names = service_names(graph, network);
                        let names = names.chain(graph.faces.iter().map(|face| face.name.as_str()));
                        problems.push(unknown(
                            link.position,
                            format!("no service, element or face is called `{name}`"),
                            name,
                            names,
                            "declare it, or correct the name",
                        ));
                    }
                }
            }
        }
    }
    for face in graph.faces.iter().filter(|face| face.uri.is_none()) {
        if !joined.contains_key(face.name.as_str()) {
            problems.push(Problem::new(
                face.position,
                format!("face `{}` has no address and is not joined", face.name),
                format!("write an address after it, or link {} -> OTHER_FACE", face.name),
            ));
        }
    }
}

/// Returns whether an element has routes.
pub(crate) fn has_routes(node: &Node) -> bool {
    node.entry.parameters.iter().any(|parameter| parameter.name == "routes")
}

fn routes(graph: &Graph, network: &Network, problems: &mut Vec<Problem>) {
    for route in &network.routes {
        if let Err(error) = route.prefix.parse::<Name>() {
            let message = format!("route `{}`: {error}", route.prefix);
            problems.push(Problem::new(route.position, message, "write a prefix such as /video"));
        }
        let node = graph.nodes.iter().find(|node| node.name == route.element);
        match node {
            None => problems.push(unknown(
                route.position,
                format!("no element is called `{}`", route.element),
                &route.element,
                graph.nodes.iter().map(|node| node.name.as_str()),
                "write the element that routes by name",
            )),
            Some(node) if !has_routes(node) => {
                let message = format!("`{}` is a {} and has no routes", node.name, node.entry.name);
                let remedy = "name a name_router, router or strategy_forwarder";
                problems.push(Problem::new(route.position, message, remedy));
            }
            Some(_) => {}
        }
        let face = graph.faces.iter().find(|face| face.name == route.face);
        match face {
            None => problems.push(unknown(
                route.position,
                format!("no face is called `{}`", route.face),
                &route.face,
                graph.faces.iter().map(|face| face.name.as_str()),
                "write the face that leads to the prefix",
            )),
            Some(face) if face.is_listener => problems.push(Problem::new(
                route.position,
                format!("face `{}` listens: its peers are not known in advance", face.name),
                "producers that connect register their prefixes by themselves",
            )),
            Some(_) => {}
        }
    }
}

fn trust(network: &Network, problems: &mut Vec<Problem>) {
    for permission in &network.permissions {
        let mut patterns = Vec::new();
        for text in [&permission.names, &permission.keys] {
            match text.parse::<Pattern>() {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => problems.push(Problem::new(
                    permission.position,
                    format!("`{text}` is not a pattern of names: {error}"),
                    "write a name with <variables>, such as /site/<who>/<..>",
                )),
            }
        }
        if let [names, keys] = patterns.as_slice()
            && !names.has_consistent_variables(keys)
        {
            problems.push(Problem::new(
                permission.position,
                "a variable stands for one component in one pattern, for several in the other",
                "use another name for one of the two",
            ));
        }
    }
}

fn defences(graph: &Graph, network: &Network, problems: &mut Vec<Problem>) {
    let mut watched: BTreeMap<(Attack, &str), Position> = BTreeMap::new();
    for defence in &network.defences {
        let attack = defence.attack.name();
        if defence.attack == Attack::Poisoning && network.anchors.is_empty() {
            problems.push(Problem::new(
                defence.position,
                "defend poisoning has no key to verify with",
                "write trust { anchor \"FILE\" } with a file that contains a certificate",
            ));
        }
        let fits = |node: &Node| match defence.attack {
            Attack::Poisoning => node.entry.name == "content_store",
            Attack::Flooding => {
                let takes = |port: &nw_element_api::PortInfo| port.kinds.contains(&Kind::Interest);
                node.entry.ins.iter().any(takes)
            }
        };
        for (name, position) in &defence.watch {
            match graph.nodes.iter().find(|node| node.name == *name) {
                None => problems.push(unknown(
                    *position,
                    format!("no element is called `{name}`"),
                    name,
                    graph.nodes.iter().map(|node| node.name.as_str()),
                    "name an element of this graph",
                )),
                Some(node) if !fits(node) => problems.push(Problem::new(
                    *position,
                    format!("`{name}` is a {}, which {attack} does not concern", node.entry.name),
                    "watch a content_store for poisoning, an element that takes Interests for flooding",
                )),
                Some(_) => {}
            }
            let key = (defence.attack, name.as_str());
            if watched.insert(key, *position).is_some() {
                let message = format!("`{name}` is watched twice for {attack}");
                problems.push(Problem::new(*position, message, "remove it from one of the lines"));
            }
        }
        if defence.watch.is_empty() && !graph.nodes.iter().any(fits) {
            let message = format!("defend {attack}: no element of the graph can be watched");
            problems.push(Problem::new(defence.position, message, "remove the line"));
        }
    }
}
